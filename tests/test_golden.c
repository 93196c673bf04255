/* The golden values of tests/golden, in double. test_golden_float.c runs the same in float. Runs in the project's root. */
#ifndef GOLDEN_FLOAT
#    define DEA_REAL double
#endif
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"
#include "golden.h"
#include "support.h"

static const char *const cases[] = {
    "tiny",          "plain",         "padded",   "all_masked",       "cross",
    "causal",        "labels_target", "medium",   "saturated",        "causal_padded_labels",
    "labels_winner", "flat_keys",     "parallel", "labels_none_valid"};

static golden_file *read_case(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "tests/golden/%s.txt", name);
    golden_file *f = golden_read(path);
    assert_non_null(f);
    if (f->error[0]) print_error("%s: %s\n", path, f->error);
    assert_true(f->error[0] == 0);
    return f;
}

static void check_way(int way) {
    if (!golden_way_built(way)) skip();
    for (int i = 0; i < LENGTH(cases); ++i) {
        golden_file *f = read_case(cases[i]);
        golden_score s = {0, 0, "", 0, ""};
        assert_true(golden_is_attention(f));
        golden_check_attention(f, golden_ways[way].forward_path, golden_ways[way].backward_path, &s);
        if (s.problem[0]) print_error("%s, %s: %s\n", cases[i], golden_ways[way].name, s.problem);
        assert_true(s.problem[0] == 0);
        assert_true(s.compared >= 5);
        golden_free(f);
    }
}

static void test_plain(void **state) {
    (void)state, check_way(0);
}
static void test_fast(void **state) {
    (void)state, check_way(1);
}
static void test_auto(void **state) {
    (void)state, check_way(2);
}
static void test_plain_then_fast(void **state) {
    (void)state, check_way(3);
}
static void test_fast_then_plain(void **state) {
    (void)state, check_way(4);
}

/* The comparison itself can fail: a tensor taken away, a NaN, a number off by more than the limit, a masked cell not 0. */
static void test_comparison_fails(void **state) {
    (void)state;
    static const char *const harm[] = {"missing", "nan", "off", "count"};
    for (int i = 0; i < LENGTH(harm); ++i) {
        golden_file *f = read_case("labels_winner");
        golden_score s = {0, 0, "", 0, ""};
        golden_tensor *t = &f->tensors[golden_find(f, i == 3 ? "n_valid" : "dk") - f->tensors];
        if (i == 0) strcpy(t->name, "elsewhere");
        if (i == 1) t->data[3] = NAN;
        if (i == 2) t->data[3] += 1e-3;
        if (i == 3) t->data[0] += 1;
        golden_check_attention(f, DEA_PATH_PLAIN, DEA_PATH_PLAIN, &s);
        if (!s.problem[0]) print_error("not noticed: %s\n", harm[i]);
        assert_true(s.problem[0] != 0);
        golden_free(f);
    }
    golden_file *f = read_case("tiny");
    golden_score s = {1, 0, "", 0, ""};
    const dea_real x[3] = {1, 1, 1};
    const unsigned char seen[3] = {1, 0, 1};
    strcpy(f->tensors[0].name, "x"), f->tensors[0].count = 3;
    golden_compare(&s, f, "x", x, 3, seen);
    assert_true(strstr(s.problem, "masked") != NULL);
    golden_free(f);
}

/* Broken files are refused. */
static void test_reader_refuses(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        "tensor q 1 3\n1 2\n",
                                        "tensor q 1 -3\n1 2 3\n",
                                        "tensor q 2 99999999 99999999\n1\n",
                                        "tensor q 1 1\n1\ntensor q 1 1\n1\n",
                                        "tensor q 1 1\n1 2\n",
                                        "q 1 1\n1\n",
                                        "tensor q 1 2\n1 x\n"};
    for (int i = 0; i < LENGTH(texts); ++i) {
        char name[] = "build/golden-XXXXXX";
        int fd = mkstemp(name);
        assert_true(fd >= 0);
        FILE *out = fdopen(fd, "w");
        assert_non_null(out);
        fputs(texts[i], out);
        fclose(out);
        golden_file *f = golden_read(name);
        remove(name);
        assert_non_null(f);
        if (!f->error[0]) print_error("taken for good: %s\n", texts[i]);
        assert_true(f->error[0] != 0);
        golden_free(f);
    }
    golden_file *f = golden_read("build/there/is/no/such/file");
    assert_true(f && f->error[0] != 0);
    golden_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_fast),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_plain_then_fast),
        cmocka_unit_test(test_fast_then_plain),
        cmocka_unit_test(test_comparison_fails),
        cmocka_unit_test(test_reader_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

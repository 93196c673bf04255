/* The cache of alphas and labels as blocks. */
#include "text_helper.h"

#include <math.h>

#include "text/alpha_cache.h"
#include "text/blocks.h"

static text_error error;

static void test_cache_file(void **state) {
    (void)state;
    alpha_cache *cache = alpha_cache_load("tests/data/alphas.jsonl", &error);
    if (!cache) fail_msg("%s", error.message);
    assert_int_equal(alpha_cache_size(cache), 3);
    const char *premise = "the box is bigger than the jar.", *hypothesis = "the jar is smaller than the box.";
    assert_float_equal(alpha_cache_find(cache, premise, hypothesis), 0.83f, 0);
    assert_float_equal(alpha_cache_find(cache, "café 😀", "東京"), 0, 0);
    assert_float_equal(alpha_cache_find(cache, "a", "b"), 0.95f, 0); /* 1 in the file: clamped as by equation (5) */
    assert_true(isnan(alpha_cache_find(cache, "b", "a")));
    assert_true(isnan(alpha_cache_find(cache, "a", "")));

    const row list[] = {
        {.premise = "a", .hypothesis = "b"}, {.premise = "a", .hypothesis = "a"}, {.premise = "x", .hypothesis = "b"}};
    float alpha[3];
    assert_int_equal(alpha_cache_label(cache, list, 3, alpha, &error), 2);
    assert_true(alpha[0] == 0.95f);
    assert_true(isnan(alpha[1]) && isnan(alpha[2]));
    assert_string_equal(error.message, "2 of 3 pairs have no alpha in the cache, the first: ('a', 'a') ('x', 'b')");
    assert_int_equal(alpha_cache_label(cache, list, 1, alpha, &error), 0);
    assert_string_equal(error.message, "0 of 1 pairs have no alpha in the cache");
    alpha_cache_free(cache);
}

static void test_report_of_long_texts(void **state) {
    (void)state;
    alpha_cache *cache = alpha_cache_load("tests/data/alphas.jsonl", &error);
    char text[1000];
    memset(text, '\x01', sizeof text);
    text[sizeof text - 1] = '\0';
    row list[5];
    float alpha[5];
    for (size_t i = 0; i < 5; i++) list[i] = (row){.premise = text, .hypothesis = text};
    assert_int_equal(alpha_cache_label(cache, list, 5, alpha, &error), 5);
    assert_says(&error, "5 of 5 pairs have no alpha");
    alpha_cache_free(cache);
}

static void test_broken_caches(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "given: holds no alpha"},
        {"{\"premise\": \"a\", \"hypothesis\": \"b\", \"alpha\": 0.5}\n\n", "given:2: is no JSON object"},
        {"{\"premise\": \"a\", \"hypothesis\": \"b\", \"alpha\": 0.5} x", "given:1: is no JSON object"},
        {"{\"premise\": \"a\"", "given:1: is no JSON object"},
        {"[1]", "given:1: needs the members"},
        {"7", "given:1: needs the members"},
        {"{\"premise\": 1, \"hypothesis\": \"b\", \"alpha\": 0.5}", "given:1: needs the members"},
        {"{\"premise\": \"a\", \"hypothesis\": \"b\", \"alpha\": \"0.5\"}", "given:1: needs the members"},
        {"{\"premise\": \"a\", \"hypothesis\": \"b\", \"alpha\": 1.5}", "given:1: alpha is 1.5; it must lie in [0, 1]"},
        {"{\"premise\": \"a\", \"hypothesis\": \"b\", \"alpha\": -0.1}", "given:1: alpha is -0.1"},
        {"{\"premise\": \"a\", \"hypothesis\": \"b\", \"alpha\": 1e999}", "given:1: alpha is inf"},
        {"{\"premise\": \"a\\u0000c\", \"hypothesis\": \"b\", \"alpha\": 0}", "given:1: \\u0000 within a string"},
        {"{\"premise\": \"a\", \"hypothesis\": \"b\", \"alpha\": 0.5}\n{\"premise\": \"a\", \"hypothesis\": \"b\", "
         "\"alpha\": 0.25}",
         "given:2: the pair stands on line 1 too, with alpha 0.5 there and 0.25 here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(alpha_cache_parse("given", cases[i].text, strlen(cases[i].text), &error));
        assert_says(&error, cases[i].message);
    }
}

static void test_cache_written_and_read(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_int_equal(alpha_cache_write(file, "a \"quoted\"\ttab", "東京 😀", 0.83f, &error), 0);
    assert_int_equal(alpha_cache_write(file, "b", "c", 0.1234567f, &error), 0);
    assert_int_equal(alpha_cache_write(file, "b", "c", NAN, &error), -1);
    assert_says(&error, "must lie in [0, 1]");
    assert_int_equal(alpha_cache_write(file, "\xFF", "c", 0, &error), -1);
    assert_says(&error, "not UTF-8");
    fclose(file);
    assert_non_null(strstr(text, "\"alpha\":0.83}"));
    alpha_cache *cache = alpha_cache_parse("given", text, size, &error);
    assert_non_null(cache);
    assert_int_equal(alpha_cache_size(cache), 2);
    assert_float_equal(alpha_cache_find(cache, "a \"quoted\"\ttab", "東京 😀"), 0.83f, 0);
    assert_float_equal(alpha_cache_find(cache, "b", "c"), 0.1234567f, 0);
    alpha_cache_free(cache);
    free(text);
}

/* ---- blocks */

static const char letters[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n##b\n##c\n.\n";

static void encode(const char *premise, const char *hypothesis, size_t max_length, encoded_pair *p) {
    tokenizer *t = tokenizer_parse("letters", letters, strlen(letters), true, &error);
    assert_int_equal(encode_pair(t, NULL, premise, hypothesis, max_length, p, &error), 0);
    tokenizer_free(t);
}

static void assert_block(const dea_label_block *b, int batch, int q_begin, int q_end, int k_begin, int k_end,
                         float alpha) {
    assert_int_equal(b->batch, batch);
    assert_int_equal(b->q_begin, q_begin);
    assert_int_equal(b->q_end, q_end);
    assert_int_equal(b->k_begin, k_begin);
    assert_int_equal(b->k_end, k_end);
    assert_float_equal(b->alpha, alpha, 0);
}

static void test_one_block(void **state) {
    (void)state;
    encoded_pair p = {0};
    block_list list = {0};
    encode("abc a.", "b c", 0, &p); /* CLS a ##b ##c a . SEP b c SEP */
    assert_int_equal(blocks_add_pair(&list, 3, &p, 0.8f, &error), 0);
    assert_int_equal(blocks_add_pair(&list, 4, &p, NAN, &error), 0);
    assert_int_equal(list.count, 1);
    assert_block(&list.block[0], 3, 1, 6, 7, 9, 0.8f);
    assert_int_equal(blocks_add_pair(&list, 4, &p, 0.96f, &error), -1);
    assert_says(&error, "alphas lie in [0, 0.95]");
    assert_int_equal(blocks_add_pair(&list, (size_t)INT32_MAX + 1, &p, 0.5f, &error), -1);
    encode("", "b c", 0, &p);
    assert_int_equal(blocks_add_pair(&list, 5, &p, 0.8f, &error), 0);
    assert_int_equal(list.count, 1);
    block_list_free(&list);
    encoded_pair_free(&p);
}

static void test_words_to_tokens(void **state) {
    (void)state;
    encoded_pair p = {0};
    block_list list = {0};
    encode("abc a.", "b cb", 0, &p); /* CLS a ##b ##c a . SEP b c ##b SEP: words 3 x 2 */
    const float cell[] = {0.1f, 0.2f, NAN, 0.2f, 0.5f, NAN};
    assert_int_equal(blocks_add_words(&list, 1, &p, cell, &error), 0);
    assert_int_equal(list.count, 3);
    assert_block(&list.block[0], 1, 1, 4, 7, 8, 0.1f);
    assert_block(&list.block[1], 1, 1, 5, 8, 10, 0.2f); /* grows over the next word */
    assert_block(&list.block[2], 1, 5, 6, 7, 8, 0.5f);

    /* After a cut the first words are gone, the others keep their cells. */
    list.count = 0;
    encode("abc a.", "b cb", 8, &p); /* CLS a . SEP b c ##b SEP */
    assert_int_equal(p.cut, 3);
    assert_int_equal(blocks_add_words(&list, 0, &p, cell, &error), 0);
    assert_int_equal(list.count, 2);
    assert_block(&list.block[0], 0, 1, 2, 5, 7, 0.2f);
    assert_block(&list.block[1], 0, 2, 3, 4, 5, 0.5f);

    const float wrong[] = {0.1f, 0.2f, 0.1f, 2.0f, 0.5f, NAN};
    assert_int_equal(blocks_add_words(&list, 0, &p, wrong, &error), -1);
    assert_int_equal(list.count, 2);
    block_list_free(&list);
    encoded_pair_free(&p);
}

/* Random cells: painted back, the rectangles give the same cells, each once, and equal areas are one rectangle. */
static void test_cells_are_kept(void **state) {
    (void)state;
    encoded_pair p = {0};
    block_list list = {0};
    encode("a b c a b c a.", "a b c a b", 0, &p);
    enum { Q = 8, K = 5 };
    assert_int_equal(p.premise_end - p.premise_begin, Q);
    assert_int_equal(p.hypothesis_end - p.hypothesis_begin, K);
    uint32_t random = 1;
    for (int round = 0; round < 2000; round++) {
        float cell[Q * K], painted[Q * K];
        unsigned kinds = 1 + (unsigned)round % 4;
        for (size_t i = 0; i < Q * K; i++) {
            random = random * 1664525u + 1013904223u;
            unsigned kind = (random >> 20) % (kinds + 1);
            cell[i] = kind == kinds ? NAN : 0.2f * (float)kind;
            painted[i] = NAN;
        }
        list.count = 0;
        assert_int_equal(blocks_add_tokens(&list, 0, &p, cell, &error), 0);
        for (size_t b = 0; b < list.count; b++) {
            const dea_label_block *r = &list.block[b];
            for (int q = r->q_begin; q < r->q_end; q++) {
                for (int k = r->k_begin; k < r->k_end; k++) {
                    size_t at = ((size_t)q - p.premise_begin) * K + ((size_t)k - p.hypothesis_begin);
                    assert_true(isnan(painted[at]));
                    painted[at] = r->alpha;
                }
            }
        }
        for (size_t i = 0; i < Q * K; i++) assert_true(isnan(cell[i]) ? isnan(painted[i]) : painted[i] == cell[i]);
    }
    float all[Q * K];
    for (size_t i = 0; i < Q * K; i++) all[i] = 0.5f;
    list.count = 0;
    assert_int_equal(blocks_add_tokens(&list, 0, &p, all, &error), 0);
    assert_int_equal(list.count, 1);
    block_list_free(&list);
    encoded_pair_free(&p);
}

static float equal_words(void *user, const char *a, const char *b) {
    ++*(int *)user;
    return strcmp(a, b) == 0 ? 0.05f : NAN;
}

static void test_rule(void **state) {
    (void)state;
    encoded_pair p = {0};
    block_list list = {0};
    int asked = 0;
    encode("É abc A b.", "CB a b é", 0, &p); /* CLS e? a ##b ##c a b . SEP c ##b a b e? SEP */
    assert_int_equal(blocks_add_rule(&list, 2, &p, "É abc A b.", "CB a b é", equal_words, &asked, &error), 0);
    assert_int_equal(asked, 5 * 4);
    assert_int_equal(list.count, 3);
    assert_block(&list.block[0], 2, 1, 2, 13, 14, 0.05f);
    assert_block(&list.block[1], 2, 5, 6, 11, 12, 0.05f);
    assert_block(&list.block[2], 2, 6, 7, 12, 13, 0.05f);
    assert_int_equal(blocks_add_rule(&list, 2, &p, "abc A b.", "CB a b é", equal_words, &asked, &error), -1);
    assert_says(&error, "encoded from other texts: 4 and 4 words where it has 5 and 4");
    assert_int_equal(list.count, 3);
    /* Cut to its last two words, the premise is asked about these. */
    encode("É abc A b.", "CB a b é", 10, &p);
    asked = 0;
    assert_int_equal(blocks_add_rule(&list, 2, &p, "É abc A b.", "CB a b é", equal_words, &asked, &error), 0);
    assert_int_equal(asked, 2 * 4);
    block_list_free(&list);
    encoded_pair_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache_file),     cmocka_unit_test(test_report_of_long_texts),
        cmocka_unit_test(test_broken_caches),  cmocka_unit_test(test_cache_written_and_read),
        cmocka_unit_test(test_one_block),      cmocka_unit_test(test_words_to_tokens),
        cmocka_unit_test(test_cells_are_kept), cmocka_unit_test(test_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

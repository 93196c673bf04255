/* The checks a user runs, in double: isolation of the two losses on random batches, and the finite difference. That the
 * isolation check detects a leak is shown by the mutants of tests/mutants/checks.txt, which put leaks in. */
#define DEA_REAL double
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"
#include "support.h"
#include "thread_hooks.h"

static dea_path path; /* under test */

static dea_status verify(const problem *p, const dea_gate *gate, dea_isolation *report) {
    size_t bytes = dea_verify_isolation_workspace(&p->a, gate);
    assert_true(bytes > 0);
    return dea_verify_isolation(&p->a, gate, p->d_o, report, take(bytes), bytes);
}

static void isolation_of_options(int options) {
    if (!(options & (DENSE | BLOCKS))) options |= DENSE;
    problem p = draw_problem(options, 2, 3, 7, 4, path);
    dea_gate gate = dea_gate_init();
    dea_isolation report;
    int *targets = take_ints(14);
    for (int i = 0; i < 14; ++i) targets[i] = below(7);
    for (int kind = 0; kind < 4; ++kind) {
        gate.targets = kind & 1 ? targets : NULL;
        gate.hard_negatives = kind & 2, gate.projected = kind & 1;
        memset(&report, 0x55, sizeof report);
        assert_ok(verify(&p, &gate, &report));
        assert_true(!report.tensor && !report.what);
    }
    release(NULL);
}

static void test_isolation_holds_under_every_pair_of_options(void **state) {
    (void)state;
    seed_numbers(71);
    for_option_pairs(isolation_of_options);
    isolation_of_options(EVERY_OPTION - BLOCKS);
    isolation_of_options(EVERY_OPTION - DENSE);
}

static void test_isolation_holds_with_threads(void **state) {
    (void)state;
    seed_numbers(72);
    problem p = draw_problem(DENSE | CAUSAL | TEMPERATURE, 3, 2, 17, 8, path);
    dea_gate gate = dea_gate_init();
    dea_isolation report;
    p.a.threads.count = 3, p.a.threads.run = run_in_threads;
    assert_ok(verify(&p, &gate, &report));
}

/* It leaves the caller's data as it was, and says what is missing. */
static void test_isolation_writes_only_its_workspace(void **state) {
    (void)state;
    seed_numbers(73);
    problem p = draw_problem(DENSE | TEMPERATURE, 1, 2, 5, 4, path);
    dea_gate gate = dea_gate_init();
    dea_isolation report;
    dea_real *q = take_copy(p.q, p.q_span), *w = take_copy(p.w_gate, p.w_gate_count);
    assert_ok(verify(&p, &gate, &report));
    assert_same_bits(q, p.q, p.q_span);
    assert_same_bits(w, p.w_gate, p.w_gate_count);
    problem bare = draw_problem(0, 1, 1, 3, 2, path);
    size_t bytes = 2 * dea_verify_isolation_workspace(&p.a, &gate);
    assert_status(dea_verify_isolation(&bare.a, &gate, bare.d_o, &report, take(bytes), bytes), DEA_ERR_LABELS_MISSING);
}

/* ---- finite difference ----------------------------------------------------------------------------------------------- */
static double cube(void *context) {
    const dea_real *x = context;
    return x[0] * x[0] * x[0] + 5 * x[1];
}

static void test_finite_difference(void **state) {
    (void)state;
    dea_real x[2] = {2, 3};
    assert_near(dea_finite_difference(cube, x, &x[0], 1e-3), 12, 2e-6);
    assert_near(dea_finite_difference(cube, x, &x[1], 1e-3), 5, 1e-10);
    assert_true(x[0] == 2 && x[1] == 3);
    assert_near(dea_finite_difference(cube, x, &x[0], 0.5) - 12, 0.25, 1e-12); /* central: the error is h^2 */
}

#define TEST(name) cmocka_unit_test_teardown(name, release)

static int run_path(const char *name, dea_path which) {
    static const struct CMUnitTest tests[] = {
        TEST(test_isolation_holds_under_every_pair_of_options),
        TEST(test_isolation_holds_with_threads),
        TEST(test_isolation_writes_only_its_workspace),
        TEST(test_finite_difference),
    };
    path = which;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void) {
    return run_paths(run_path);
}

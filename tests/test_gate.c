/* The gate loss in double: against equations (7) to (13) written out, against central differences, and at its edges. Every
 * test runs on the plain path, and again on the fast path where it is built. */
#define DEA_REAL double
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"
#include "support.h"
#include "thread_hooks.h"

static dea_path path; /* under test */

/* ---- the equations, written out -------------------------------------------------------------------------------------- */
static double photo_loss(double alpha, double alpha_hat, double beta) { /* (9)-(13) */
    double distance = sqrt((alpha - beta) * (alpha - beta) + 1e-4);
    double weight = 1 + 2 * exp(-distance / 0.1);
    double side = tanh((alpha - beta) / 0.05);
    double decision = log(1 + exp(-side * (alpha_hat - beta) / 0.1));
    return weight * (alpha_hat - alpha) * (alpha_hat - alpha) + 0.5 * decision;
}

static int find_beta(const double *t, const double *p, double *beta) { /* (7), (8); {et0, et1} */
    double d = (t[1] - t[0]) - (p[1] - p[0]);
    if (fabs(d) < 1e-6) return 0;
    *beta = (p[0] - t[0]) / (d + (d > 0 ? 1e-6 : -1e-6));
    return *beta >= 0 && *beta <= 1;
}

typedef struct expectation {
    dea_gate_result r;
    double *beta;
    int *winners;
} expectation;

static int winner(const dea_real *labels, const dea_real *et0, const dea_real *et1, int n) {
    int best = -1;
    double most = 0;
    for (int j = 0; j < n; ++j) {
        if (isnan(labels[j])) continue;
        double s = (1 - labels[j]) * et0[j] + labels[j] * et1[j];
        if (best < 0 || s > most) best = j, most = s;
    }
    return best;
}

/* One row: adds to the sums in r; photo and dense are sums here. */
static void expect_row(const dea_real *labels, const dea_real *et0, const dea_real *et1, const dea_real *alpha_hat,
                       int n, int t, int hard, expectation *e, double *beta) {
    for (int j = 0; j < n; ++j)
        if (!isnan(labels[j])) {
            e->r.labelled++;
            e->r.dense += (alpha_hat[j] - labels[j]) * (alpha_hat[j] - labels[j]);
        }
    if (t < 0) return;
    double *distance = take((size_t)n * sizeof(double));
    for (int p = 0; p < n; ++p) {
        double target[2] = {et0[t], et1[t]}, other[2] = {et0[p], et1[p]};
        distance[p] = INFINITY;
        if (p != t && find_beta(target, other, &beta[p]))
            distance[p] = fabs(beta[p] - labels[t]);
        else
            beta[p] = NAN;
    }
    for (int p = 0, nearer = 0; p < n; ++p, nearer = 0) {
        if (isinf(distance[p])) continue;
        for (int o = 0; o < n; ++o) nearer += distance[o] < distance[p] || (distance[o] == distance[p] && o < p);
        if (hard && nearer >= hard) continue;
        e->r.valid++;
        e->r.photo += photo_loss(labels[t], alpha_hat[t], beta[p]);
    }
}

/* Maps come from dea_forward, which test_attention checks. */
static expectation expect(problem *p, const dea_gate *gate) {
    problem m = *p;
    const dea_attention *a = &p->a;
    m.a.path = DEA_PATH_PLAIN;
    m.o = take_reals(p->o_count), m.saved = take_reals(p->saved_count);
    take_maps(&m);
    forward(&m);
    const dea_real *labels = dense_labels(a);
    expectation e;
    memset(&e, 0, sizeof e);
    e.beta = take_reals(p->map_count), e.winners = take_ints(p->map_count / (size_t)a->seq_k);
    for (int b = 0; b < a->batch; ++b)
        for (int h = 0; h < a->heads; ++h)
            for (int i = 0; i < a->seq_q; ++i) {
                size_t line = ((size_t)b * (size_t)a->heads + (size_t)h) * (size_t)a->seq_q + (size_t)i;
                size_t at = line * (size_t)a->seq_k;
                const dea_real *l = labels + ((size_t)b * (size_t)a->seq_q + (size_t)i) * (size_t)a->seq_k;
                int n = keys_seen(a, b, i), t;
                if (gate->targets) {
                    t = gate->targets[b * a->seq_q + i];
                    if (t >= n || (t >= 0 && isnan(l[t]))) t = -1;
                } else {
                    t = winner(l, m.a.maps.et0 + at, m.a.maps.et1 + at, n);
                }
                e.winners[line] = t;
                expect_row(l, m.a.maps.et0 + at, m.a.maps.et1 + at, m.a.maps.alpha_hat + at, n, t, gate->hard_negatives,
                           &e, e.beta + at);
            }
    if (e.r.labelled) e.r.dense /= (double)e.r.labelled;
    if (e.r.valid) e.r.photo /= (double)e.r.valid;
    e.r.loss = e.r.dense + e.r.photo;
    return e;
}

static int *draw_targets(const problem *p) {
    int *targets = take_ints((size_t)p->a.batch * (size_t)p->a.seq_q);
    for (int i = 0; i < p->a.batch * p->a.seq_q; ++i) targets[i] = below(p->a.seq_k + 1) - 1;
    return targets;
}

static problem draw(int options, int batch, int heads, int seq_q, int head_dim) {
    return draw_problem(options, batch, heads, seq_q, head_dim, path);
}

static void compare(problem *p, dea_gate *gate) {
    expectation e = expect(p, gate);
    size_t rows = p->map_count / (size_t)p->a.seq_k;
    gate->beta = take_reals(p->map_count), gate->winners = take_ints(rows);
    forward(p);
    dea_gate_result r = gate_loss(p, gate);
    assert_int_equal(r.labelled, e.r.labelled);
    assert_int_equal(r.valid, e.r.valid);
    assert_near(r.dense, e.r.dense, 1e-12);
    assert_near(r.photo, e.r.photo, 1e-11);
    assert_near(r.loss, e.r.loss, 1e-11);
    for (size_t i = 0; i < rows; ++i) assert_int_equal(gate->winners[i], e.winners[i]);
    for (size_t i = 0; i < p->map_count; ++i) {
        assert_int_equal(isnan(gate->beta[i]) != 0, isnan(e.beta[i]) != 0);
        if (!isnan(e.beta[i])) assert_near(gate->beta[i], e.beta[i], 1e-8);
    }
}

static void compare_options(int options) {
    if (!(options & (DENSE | BLOCKS))) return;
    for (int hard = 0; hard < 3; ++hard)
        for (int given = 0; given < 2; ++given) {
            problem p = draw(options, 2, 2, 7, 4);
            dea_gate gate = dea_gate_init();
            gate.hard_negatives = hard;
            if (given) gate.targets = draw_targets(&p);
            compare(&p, &gate);
            release(NULL);
        }
}

static void test_equations_under_every_pair_of_options(void **state) {
    (void)state;
    seed_numbers(31);
    for_option_pairs(compare_options);
    for (int i = 0; i < 30; ++i) compare_options((int)(next_bits() & (EVERY_OPTION - BLOCKS)) | DENSE);
}

static void test_equations_on_random_shapes(void **state) {
    (void)state;
    seed_numbers(32);
    for (int i = 0; i < 40; ++i) {
        problem p = draw((int)(next_bits() & (EVERY_OPTION - BLOCKS)) | DENSE, 1 + below(3), 1 + below(3),
                         1 + below(30), 1 + below(20));
        dea_gate gate = dea_gate_init();
        gate.hard_negatives = below(4);
        if (below(2)) gate.targets = draw_targets(&p);
        compare(&p, &gate);
        release(NULL);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------------- */
typedef struct loss_context {
    problem *p;
    const dea_gate *gate;
} loss_context;

static double loss_only(void *context) {
    loss_context *c = context;
    dea_gate_result r;
    assert_ok(dea_gate_loss(&c->p->a, c->gate, c->p->saved, NULL, &r, c->p->workspace, c->p->bytes));
    return r.loss;
}

static void check_gate_gradients(problem *p, dea_gate *gate) {
    loss_context c = {p, gate};
    size_t H = (size_t)p->a.heads;
    forward(p);
    gate->scale = 0.25; /* scales the gradients alone */
    gate_loss(p, gate);
    for (size_t i = 0; i < p->w_gate_count; ++i) p->g.dw_gate[i] *= 4;
    for (size_t i = 0; i < H; ++i) p->g.dc_gate[i] *= 4;
    check_gradient("w_gate", loss_only, &c, p->w_gate, p->g.dw_gate, p->w_gate_count);
    check_gradient("c_gate", loss_only, &c, p->c_gate, p->g.dc_gate, H);
    assert_true(all_zero(p->g.dw_rel, p->w_rel_count)); /* 1.9 */
    for (size_t i = 0; i < p->q_span; ++i) assert_true(isnan(p->g.dq[i]));
}

static void gate_gradients_of_options(int options) {
    if (!(options & (DENSE | BLOCKS))) return;
    for (int kind = 0; kind < 4; ++kind) {
        problem p = draw(options, 2, 2, 6, 3);
        dea_gate gate = dea_gate_init();
        if (kind & 1) gate.targets = draw_targets(&p);
        if (kind & 2) gate.hard_negatives = 2;
        check_gate_gradients(&p, &gate);
        release(NULL);
    }
}

static void test_gradients_under_every_pair_of_options(void **state) {
    (void)state;
    seed_numbers(33);
    for_option_pairs(gate_gradients_of_options);
    gate_gradients_of_options(EVERY_OPTION - DENSE);
    gate_gradients_of_options(EVERY_OPTION - BLOCKS);
}

static void test_gradients_accumulate_and_are_optional(void **state) {
    (void)state;
    seed_numbers(34);
    problem p = draw(DENSE, 2, 2, 6, 4);
    dea_gate gate = dea_gate_init();
    forward(&p);
    dea_gate_result r = gate_loss(&p, &gate);
    dea_real *w = take_gauss(p.w_gate_count, 1), *c = take_gauss(2, 1);
    dea_gradients only_w, only_c;
    memset(&only_w, 0, sizeof only_w), memset(&only_c, 0, sizeof only_c);
    only_w.dw_gate = take_copy(w, p.w_gate_count), only_c.dc_gate = take_copy(c, 2);
    dea_gate_result r2;
    assert_ok(dea_gate_loss(&p.a, &gate, p.saved, &only_w, &r2, p.workspace, p.bytes));
    assert_memory_equal(&r.loss, &r2.loss, sizeof r.loss);
    assert_ok(dea_gate_loss(&p.a, &gate, p.saved, &only_c, &r2, p.workspace, p.bytes));
    assert_ok(dea_gate_loss(&p.a, &gate, p.saved, NULL, &r2, p.workspace, p.bytes));
    assert_memory_equal(&r.loss, &r2.loss, sizeof r.loss);
    for (size_t i = 0; i < p.w_gate_count; ++i) assert_near(only_w.dw_gate[i], w[i] + p.g.dw_gate[i], 1e-13);
    for (size_t i = 0; i < 2; ++i) assert_near(only_c.dc_gate[i], c[i] + p.g.dc_gate[i], 1e-13);
}

static void test_thread_count_and_outputs_change_no_bit(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 5};
    seed_numbers(35);
    problem p = draw(DENSE | LENGTHS, 3, 2, 33, 8);
    dea_gate gate = dea_gate_init();
    forward(&p);
    dea_gate_result r = gate_loss(&p, &gate);
    for (int i = 0; i < 4 * LENGTH(counts); ++i) {
        problem y = p;
        dea_gate g = gate;
        y.a.threads.count = counts[i % LENGTH(counts)];
        y.a.threads.run = i & 1 ? run_in_threads : run_backwards;
        if (i >= 2 * LENGTH(counts)) g.beta = take_reals(p.map_count), g.winners = take_ints(p.map_count / 33);
        y.g = take_gradients(&y);
        size_workspace(&y);
        dea_gate_result s = gate_loss(&y, &g);
        assert_true(s.loss == r.loss && s.dense == r.dense && s.photo == r.photo);
        assert_true(s.valid == r.valid && s.labelled == r.labelled);
        assert_same_bits(y.g.dw_gate, p.g.dw_gate, p.w_gate_count);
        assert_same_bits(y.g.dc_gate, p.g.dc_gate, 2);
    }
}

/* ---- edges ----------------------------------------------------------------------------------------------------------- */
/* One head, one row, keys with chosen energies: d = 1, q = 1, w_rel = 1, so that Et0 follows k and Et1 follows -(1-k)^2. */
static problem one_row(const double *keys, const double *labels, int n, double c_gate) {
    problem p = draw(0, 1, 1, 1, 1);
    p.a.seq_k = n;
    p.k_span = p.map_count = (size_t)n;
    p.ks = contiguous(1, n, 1);
    p.q[0] = 1, p.w_rel[0] = 1, p.c_gate[0] = c_gate;
    memset(p.w_gate, 0, 4 * sizeof *p.w_gate);
    p.a.k = p.k = take_reals((size_t)n), p.a.v = p.v = take_zeros((size_t)n);
    p.a.labels = p.labels = take_reals((size_t)n);
    for (int j = 0; j < n; ++j) p.k[j] = keys[j], p.labels[j] = labels[j];
    p.g = take_gradients(&p);
    size_workspace(&p);
    forward(&p);
    return p;
}

static void test_lowest_index_wins_a_tie(void **state) {
    (void)state;
    const double keys[] = {0.1, 2, 0.4, 2, 2}, labels[] = {0.5, (double)NAN, 0.5, 0.25, 0.25};
    const double last[] = {0.5, 0.25, 0.5, 0.25, 0.25};
    int best = -2;
    dea_gate gate = dea_gate_init();
    gate.winners = &best;
    problem p = one_row(keys, labels, 5, -0.5);
    gate_loss(&p, &gate);
    assert_int_equal(best, 3); /* key 1 is as good but has no label */
    p = one_row(keys, last, 5, -0.5);
    gate_loss(&p, &gate);
    assert_int_equal(best, 1);
}

/* Clip and min let gradients pass inside, limits included, and nothing outside; `projected` passes what points back in. */
static void test_saturated_gate(void **state) {
    (void)state;
    const double keys[] = {0.3, 1.1}, low[] = {0.2, (double)NAN}, high[] = {0.9, (double)NAN};
    int target = -1;
    static const struct {
        double c, expected_hat;
        int plain; /* whether the plain gradient passes */
    } cases[] = {
        {0.3, 0, 1}, {2.9, 0, 1}, {3.0, 0.95, 0}, {9.9, 0.95, 0}, {11, 0.95, 0}, {-9.9, 0, 1}, {-10, 0, 1}, {-11, 0, 0},
    };
    for (int i = 0; i < LENGTH(cases); ++i)
        for (int projected = 0; projected < 2; ++projected)
            for (int l = 0; l < 2; ++l) {
                dea_gate gate = dea_gate_init();
                gate.targets = &target, gate.projected = projected;
                problem p = one_row(keys, l ? high : low, 2, cases[i].c);
                dea_gate_result r = gate_loss(&p, &gate);
                double alpha = l ? 0.9 : 0.2, z = fmax(-10, fmin(10, cases[i].c));
                double sigmoid = 1 / (1 + exp(-z)), hat = fmin(sigmoid, 0.95), dc = p.g.dc_gate[0];
                if (cases[i].expected_hat > 0) assert_near(hat, cases[i].expected_hat, 0);
                assert_near(r.dense, (hat - alpha) * (hat - alpha), 1e-14);
                double passing = 2 * (hat - alpha) * sigmoid * (1 - sigmoid);
                if (cases[i].plain) {
                    assert_near(dc, passing, 1e-14);
                } else if (!projected) {
                    assert_true(dc == 0);
                } else if (fabs(cases[i].c) < 10) { /* held at 0.95 and both labels lie below */
                    assert_near(dc, passing, 1e-14);
                } else {
                    assert_true(cases[i].c > 0 ? dc > 0 : dc < 0);
                }
            }
}

/* Pushing further out is not let through: the photo-finish wants more alpha-hat than 0.95 allows. */
static void test_projected_gradient_outwards_is_dropped(void **state) {
    (void)state;
    const double keys[] = {1.0, -1.2, 3.0}, labels[] = {0.95, (double)NAN, (double)NAN};
    int target = 0;
    dea_gate gate = dea_gate_init();
    gate.targets = &target, gate.projected = 1;
    problem p = one_row(keys, labels, 3, 5);
    dea_gate_result r = gate_loss(&p, &gate);
    assert_int_equal(r.valid, 1); /* the key at 3 looks more alike, the one at 1 works better */
    double slope_here;
    double beta[3];
    gate.beta = beta;
    p.g = take_gradients(&p);
    gate_loss(&p, &gate);
    assert_true(isnan(beta[0]) && isnan(beta[1]) && beta[2] > 0 && beta[2] < 0.95);
    dea_photo_loss(0.95, 0.95, beta[2], &slope_here);
    assert_true(slope_here < 0);
    assert_true(p.g.dc_gate[0] == 0);
}

static void test_nothing_labelled_nothing_valid(void **state) {
    (void)state;
    const double keys[] = {0.3, 1.1, 2}, none[] = {(double)NAN, (double)NAN, (double)NAN};
    const double equal[] = {1, 1, 1}, some[] = {0.4, 0.8, (double)NAN};
    dea_gate gate = dea_gate_init();
    double beta[3];
    int best = 5;
    gate.beta = beta, gate.winners = &best;
    problem p = one_row(keys, none, 3, -0.5);
    dea_gate_result r = gate_loss(&p, &gate);
    assert_true(r.loss == 0 && r.dense == 0 && r.photo == 0 && r.labelled == 0 && r.valid == 0 && best == -1);
    assert_true(isnan(beta[0]) && isnan(beta[1]) && isnan(beta[2]));
    assert_true(all_zero(p.g.dw_gate, 4) && p.g.dc_gate[0] == 0);
    p = one_row(equal, some, 3, -0.5); /* all lines parallel */
    r = gate_loss(&p, &gate);
    assert_true(r.labelled == 2 && r.valid == 0 && r.photo == 0 && r.loss == r.dense && r.dense > 0);
    assert_int_equal(best, 0);
    p.key_lengths = take_ints(1), p.key_lengths[0] = 0, p.a.key_lengths = p.key_lengths;
    forward(&p);
    r = gate_loss(&p, &gate);
    assert_true(r.labelled == 0 && r.loss == 0 && best == -1);
}

/* A target that is masked or has no label has no photo-finish; the dense term stays. */
static void test_target_without_label_or_out_of_sight(void **state) {
    (void)state;
    seed_numbers(36);
    problem p = draw(DENSE | CAUSAL, 1, 1, 4, 3);
    int targets[4] = {3, 3, 0, 1}, best[4];
    dea_gate gate = dea_gate_init();
    gate.targets = targets, gate.winners = best;
    for (int i = 0; i < 16; ++i) p.labels[i] = 0.3;
    p.labels[2 * 4] = (double)NAN;
    forward(&p);
    dea_gate_result r = gate_loss(&p, &gate);
    assert_int_equal(best[0], -1), assert_int_equal(best[1], -1), assert_int_equal(best[2], -1);
    assert_int_equal(best[3], 1);
    assert_int_equal(r.labelled, 1 + 2 + 2 + 4);
    assert_true(r.valid <= 3);
}

static void test_beta(void **state) {
    (void)state;
    double beta = -7;
    /* Lines cross in the middle: target 0 -> 1, distractor 1 -> 0. */
    assert_int_equal(dea_beta(0, 1, 1, 0, &beta), 1);
    assert_near(beta, 1 / (2 + 1e-6), 1e-15);
    assert_int_equal(dea_beta(1, 0, 0, 1, &beta), 1); /* sign(D) = -1 */
    assert_near(beta, -1 / (-2 - 1e-6), 1e-15);
    /* Parallel, and just not parallel: the limit is D >= eps. */
    assert_int_equal(dea_beta(0, 0, 0, 1, &beta), 1);
    assert_true(beta == 0);
    assert_int_equal(dea_beta(0, 1, 0, 1, &beta), 0);
    assert_int_equal(dea_beta(0, 0.99e-6, 0, 0, &beta), 0);
    assert_int_equal(dea_beta(0, 1e-6, 0, 0, &beta), 1);
    assert_int_equal(dea_beta(0, -0.99e-6, 0, 0, &beta), 0);
    assert_int_equal(dea_beta(0, -1e-6, 0, 0, &beta), 1);
    /* Crossing outside [0,1]: one key always wins. */
    assert_int_equal(dea_beta(0, 1, 2, 1.5, &beta), 0);
    assert_int_equal(dea_beta(2, 1.5, 0, 1, &beta), 0);
    assert_int_equal(dea_beta(0, 1, -0.01, 0.5, &beta), 0);
    /* At 1 exactly (et1 of both equal): the eps keeps it just below. */
    assert_int_equal(dea_beta(0, 1, 0.5, 1, &beta), 1);
    assert_near(beta, 1, 3e-6);
    assert_int_equal(dea_beta((double)NAN, 1, 0, 1, &beta), 0);
}

static void test_photo_loss(void **state) {
    (void)state;
    for (int i = 0; i <= 20; ++i)
        for (int j = 0; j <= 20; ++j)
            for (int l = 0; l <= 10; ++l) {
                double alpha = 0.95 * i / 20, hat = 0.95 * j / 20, beta = l / 10.0, h = 1e-4, slope_here;
                assert_near(dea_photo_loss(alpha, hat, beta, &slope_here), photo_loss(alpha, hat, beta), 1e-13);
                double numeric = (8 * (photo_loss(alpha, hat + h, beta) - photo_loss(alpha, hat - h, beta)) -
                                  (photo_loss(alpha, hat + 2 * h, beta) - photo_loss(alpha, hat - 2 * h, beta))) /
                                 (12 * h);
                assert_near(slope_here, numeric, 1e-9);
            }
    assert_near(dea_photo_loss(0.9, 0.1, 0.5, NULL), photo_loss(0.9, 0.1, 0.5), 1e-13);
}

static void test_defaults(void **state) {
    (void)state;
    dea_gate g = dea_gate_init();
    assert_true(!g.targets && g.hard_negatives == 0 && g.projected == 0 && g.scale == 1 && !g.beta && !g.winners);
}

#define TEST(name) cmocka_unit_test_teardown(name, release)

static int run_path(const char *name, dea_path which) {
    static const struct CMUnitTest tests[] = {
        TEST(test_equations_under_every_pair_of_options),
        TEST(test_equations_on_random_shapes),
        TEST(test_gradients_under_every_pair_of_options),
        TEST(test_gradients_accumulate_and_are_optional),
        TEST(test_thread_count_and_outputs_change_no_bit),
        TEST(test_lowest_index_wins_a_tie),
        TEST(test_saturated_gate),
        TEST(test_projected_gradient_outwards_is_dropped),
        TEST(test_nothing_labelled_nothing_valid),
        TEST(test_target_without_label_or_out_of_sight),
        TEST(test_beta),
        TEST(test_photo_loss),
        TEST(test_defaults),
    };
    path = which;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void) {
    return run_paths(run_path);
}

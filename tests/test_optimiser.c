/* AdamW, schedules and the oracle helpers, in double: against literal implementations. */
#define DEA_REAL double
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"
#include "support.h"

/* Four tensors: a matrix and a vector in either group. Gaps between them belong to nobody. */
typedef struct arena {
    dea_tensor tensors[4];
    dea_table table;
    dea_real *params, *grads, *m, *v;
} arena;

static void build(arena *a) {
    static const int matrix[2] = {3, 5}, vector[1] = {7};
    memset(a, 0, sizeof *a);
    a->table = dea_table_init(a->tensors, 4);
    assert_ok(dea_table_add(&a->table, "main.", "w", 2, matrix, DEA_GROUP_MAIN, 1, NULL));
    assert_ok(dea_table_add(&a->table, "main.", "b", 1, vector, DEA_GROUP_MAIN, 0, NULL));
    assert_ok(dea_table_add(&a->table, "gate.", "w", 2, matrix, DEA_GROUP_GATE, 1, NULL));
    assert_ok(dea_table_add(&a->table, "gate.", "b", 1, vector, DEA_GROUP_GATE, 0, NULL));
    a->params = take_gauss(a->table.elements, 1), a->grads = take_reals(a->table.elements);
    a->m = take_zeros(a->table.elements), a->v = take_zeros(a->table.elements);
}

/* What one step should do, tensor by tensor, as the paper of AdamW has it. */
static void literal_step(const dea_adamw *o, arena *a, int step, double factor) {
    double norm[2] = {0, 0};
    for (int i = 0; i < 4; ++i)
        for (size_t j = 0; j < a->tensors[i].count; ++j)
            norm[a->tensors[i].group] += pow(a->grads[a->tensors[i].offset + j], 2);
    for (int i = 0; i < 4; ++i) {
        dea_group g = a->tensors[i].group;
        double total = sqrt(norm[g]), clip = o->clip[g] > 0 && total > o->clip[g] ? o->clip[g] / total : 1;
        double lr = o->lr[g] * a->tensors[i].lr_scale * factor;
        for (size_t j = a->tensors[i].offset; j < a->tensors[i].offset + a->tensors[i].count; ++j) {
            double grad = a->grads[j] * clip, old = a->params[j];
            a->m[j] = o->beta1 * a->m[j] + (1 - o->beta1) * grad;
            a->v[j] = o->beta2 * a->v[j] + (1 - o->beta2) * grad * grad;
            double mhat = a->m[j] / (1 - pow(o->beta1, step)), vhat = a->v[j] / (1 - pow(o->beta2, step));
            a->params[j] =
                old - lr * mhat / (sqrt(vhat) + o->eps) - (a->tensors[i].decay ? lr * o->weight_decay * old : 0);
        }
    }
}

static void copy_state(arena *to, const arena *from) {
    *to = *from;
    to->table.tensors = to->tensors;
    to->params = take_copy(from->params, from->table.elements), to->m = take_copy(from->m, from->table.elements);
    to->v = take_copy(from->v, from->table.elements), to->grads = take_copy(from->grads, from->table.elements);
}

static void test_adamw_is_adamw(void **state) {
    (void)state;
    arena a, b;
    double norms[2];
    seed_numbers(61);
    build(&a);
    a.tensors[1].lr_scale = 0.1, a.tensors[2].lr_scale = 3;
    copy_state(&b, &a);
    dea_adamw o = dea_adamw_init();
    o.lr[0] = 3e-2, o.lr[1] = 1e-1, o.weight_decay = 0.3, o.eps = 1e-3;
    for (int step = 1; step <= 20; ++step) {
        o.clip[step % 2] = step % 5 ? 1 : 0;                                       /* 0: no clipping */
        double main_scale = step % 3 ? 0.05 : 5, gate_scale = step % 2 ? 7 : 0.02; /* clipped now and then */
        for (int i = 0; i < 4; ++i)
            fill_gauss(a.grads + a.tensors[i].offset, a.tensors[i].count, i < 2 ? main_scale : gate_scale);
        memcpy(b.grads, a.grads, a.table.elements * sizeof *a.grads);
        literal_step(&o, &b, step, 0.7);
        assert_ok(dea_adamw_step(&o, &a.table, a.params, a.grads, a.m, a.v, step, 0.7, norms));
        assert_same_bits(a.grads, b.grads, a.table.elements); /* clipping is not written back */
        for (int i = 0; i < 4; ++i)
            for (size_t j = a.tensors[i].offset; j < a.tensors[i].offset + a.tensors[i].count; ++j) {
                assert_near(a.params[j], b.params[j], 1e-12);
                assert_near(a.m[j], b.m[j], 1e-13);
                assert_near(a.v[j], b.v[j], 1e-13);
            }
        double expected[2] = {0, 0};
        for (int i = 0; i < 4; ++i)
            for (size_t j = 0; j < a.tensors[i].count; ++j) expected[i / 2] += pow(a.grads[a.tensors[i].offset + j], 2);
        assert_near(norms[0], sqrt(expected[0]), 1e-12 * norms[0]);
        assert_near(norms[1], sqrt(expected[1]), 1e-12 * norms[1]);
    }
}

static void test_defaults(void **state) {
    (void)state;
    dea_adamw o = dea_adamw_init();
    assert_true(o.lr[DEA_GROUP_MAIN] == 3e-4 && o.lr[DEA_GROUP_GATE] == 1e-3);
    assert_true(o.clip[0] == 1 && o.clip[1] == 1 && o.beta1 == 0.9 && o.beta2 == 0.999 && o.eps == 1e-8);
    assert_true(o.weight_decay == 0.01);
}

/* A huge gradient in one group changes nothing in the other. */
static void test_groups_are_clipped_apart(void **state) {
    (void)state;
    arena a, b;
    seed_numbers(62);
    build(&a);
    fill_gauss(a.grads, a.table.elements, 0.1);
    copy_state(&b, &a);
    for (size_t j = 0; j < a.tensors[2].count; ++j) b.grads[b.tensors[2].offset + j] *= 1e6;
    dea_adamw o = dea_adamw_init();
    assert_ok(dea_adamw_step(&o, &a.table, a.params, a.grads, a.m, a.v, 1, 1, NULL));
    assert_ok(dea_adamw_step(&o, &b.table, b.params, b.grads, b.m, b.v, 1, 1, NULL));
    assert_same_bits(a.params, b.params, a.tensors[2].offset);
    assert_same_bits(a.m, b.m, a.tensors[2].offset);
    double square = 0; /* m = (1 - beta1) g, so the clipped norm shows */
    for (int i = 2; i < 4; ++i)
        for (size_t j = 0; j < b.tensors[i].count; ++j) square += pow(b.m[b.tensors[i].offset + j] / 0.1, 2);
    assert_near(sqrt(square), 1, 1e-9);
}

static void test_decay_touches_matrices_only(void **state) {
    (void)state;
    arena a;
    seed_numbers(63);
    build(&a);
    memset(a.grads, 0, a.table.elements * sizeof *a.grads);
    dea_real *before = take_copy(a.params, a.table.elements);
    dea_adamw o = dea_adamw_init();
    assert_ok(dea_adamw_step(&o, &a.table, a.params, a.grads, a.m, a.v, 1, 0.5, NULL));
    for (int i = 0; i < 4; ++i)
        for (size_t j = a.tensors[i].offset; j < a.tensors[i].offset + a.tensors[i].count; ++j)
            assert_near(a.params[j], before[j] * (i % 2 ? 1 : 1 - 0.5 * (i < 2 ? 3e-4 : 1e-3) * 0.01), 1e-15);
}

static void test_non_finite_gradient_changes_nothing(void **state) {
    (void)state;
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 1e160}; /* its square overflows */
    seed_numbers(64);
    for (int where = 0; where < 4; ++where)
        for (int kind = 0; kind < LENGTH(bad); ++kind) {
            arena a, b;
            double norms[2] = {-7, -8};
            build(&a);
            fill_gauss(a.grads, a.table.elements, 1), fill_gauss(a.m, a.table.elements, 1);
            for (size_t j = 0; j < a.table.elements; ++j) a.v[j] = uniform(0, 1);
            a.grads[a.tensors[where].offset + a.tensors[where].count - 1] = bad[kind];
            copy_state(&b, &a);
            dea_adamw o = dea_adamw_init();
            o.clip[0] = o.clip[1] = 0;
            assert_status(dea_adamw_step(&o, &a.table, a.params, a.grads, a.m, a.v, 3, 1, norms), DEA_ERR_NONFINITE);
            assert_same_bits(a.params, b.params, a.table.elements);
            assert_same_bits(a.m, b.m, a.table.elements);
            assert_same_bits(a.v, b.v, a.table.elements);
            assert_true(norms[0] == -7 && norms[1] == -8);
            release(NULL);
        }
}

/* ---- schedules ------------------------------------------------------------------------------------------------------- */
static void test_gamma(void **state) {
    (void)state;
    assert_true(dea_gamma(0, 10000) == 1 && dea_gamma(10000, 10000) == 0 && dea_gamma(123456, 10000) == 0);
    assert_near(dea_gamma(2500, 10000), 0.75, 1e-15);
    assert_near(dea_gamma(9999, 10000), 1e-4, 1e-15);
    assert_true(dea_gamma(0, 0) == 0 && dea_gamma(-5, 100) == 1);
}

static void test_warmup_cosine(void **state) {
    (void)state;
    assert_near(dea_warmup_cosine(0, 100, 1000), 0.01, 1e-15);
    assert_near(dea_warmup_cosine(99, 100, 1000), 1, 1e-15);
    assert_near(dea_warmup_cosine(100, 100, 1000), 1, 1e-15);
    assert_near(dea_warmup_cosine(550, 100, 1000), 0.5, 1e-15);
    assert_near(dea_warmup_cosine(325, 100, 1000), (1 + sqrt(0.5)) / 2, 1e-14);
    assert_true(dea_warmup_cosine(1000, 100, 1000) == 0 && dea_warmup_cosine(5000, 100, 1000) == 0);
    assert_near(dea_warmup_cosine(0, 0, 10), 1, 1e-15);
    assert_true(dea_warmup_cosine(999, 100, 1000) > 0);
    assert_true(dea_warmup_cosine(0, INT64_MIN, 10) == 1 && dea_warmup_cosine(-1, 0, 10) == 1); /* below 0 is 0 */
    assert_true(dea_warmup_cosine(-5, 10, 100) == 0.1 && dea_warmup_cosine(INT64_MAX, INT64_MIN, INT64_MAX) == 0);
    assert_near(dea_warmup_cosine(5, -7, 10), 0.5, 1e-15);
}

/* ---- oracle helpers -------------------------------------------------------------------------------------------------- */
static void test_oracle_alpha(void **state) {
    (void)state;
    assert_near(dea_oracle_alpha(0, 0), 0.5, 1e-15);
    assert_near(dea_oracle_alpha(-1, 0.8), 1 / (1 + exp(1.24)), 1e-15);
    assert_near(dea_oracle_alpha(1, -1), 1 / (1 + exp(-1.3)), 1e-15);
    assert_true(dea_oracle_alpha(5, 0.1) == 0.95 && dea_oracle_alpha(1e308, 1) == 0.95);
    assert_true(dea_oracle_alpha(-1e308, 1) == 0 && dea_oracle_alpha(-800, 0) >= 0);
}

static void test_bands(void **state) {
    (void)state;
    static const struct {
        double alpha;
        dea_band band;
    } cases[] = {
        {0, DEA_BAND_NEAR},         {0.05, DEA_BAND_NEAR},           {0.0501, DEA_BAND_BETWEEN},
        {0.1499, DEA_BAND_BETWEEN}, {0.15, DEA_BAND_WEAK},           {0.30, DEA_BAND_WEAK},
        {0.3001, DEA_BAND_BETWEEN}, {0.7499, DEA_BAND_BETWEEN},      {0.75, DEA_BAND_STRONG},
        {0.95, DEA_BAND_STRONG},    {0.951, DEA_BAND_BETWEEN},       {-0.01, DEA_BAND_BETWEEN},
        {0.5, DEA_BAND_BETWEEN},    {(double)NAN, DEA_BAND_BETWEEN},
    };
    for (int i = 0; i < LENGTH(cases); ++i) assert_int_equal(dea_band_of(cases[i].alpha), cases[i].band);
    static const dea_band bands[] = {DEA_BAND_NEAR, DEA_BAND_WEAK, DEA_BAND_STRONG, DEA_BAND_BETWEEN};
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < i; ++j) {
            assert_true(dea_band_name(bands[i])[0] != 0);
            assert_string_not_equal(dea_band_name(bands[i]), dea_band_name(bands[j]));
        }
}

static void test_mock_alpha(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    static const double mass[3] = {0.45, 0.25, 0.30}, from[3] = {0, 0.15, 0.75}, to[3] = {0.05, 0.30, 0.95};
    int count[3] = {0, 0, 0};
    double mean[3] = {0, 0, 0}, low[3] = {1, 1, 1}, high[3] = {0, 0, 0};
    for (uint64_t i = 0; i < COUNT; ++i) {
        double alpha = dea_mock_alpha(42, i);
        dea_band band = dea_band_of(alpha);
        assert_true(band != DEA_BAND_BETWEEN);
        count[band]++;
        mean[band] += alpha;
        low[band] = fmin(low[band], alpha), high[band] = fmax(high[band], alpha);
        if (i < 100) assert_true(alpha == dea_mock_alpha(42, i) && alpha != dea_mock_alpha(43, i));
    }
    for (int b = 0; b < 3; ++b) {
        double width = to[b] - from[b];
        assert_near((double)count[b] / COUNT, mass[b], 4 * sqrt(mass[b] * (1 - mass[b]) / COUNT));
        assert_near(mean[b] / count[b], (from[b] + to[b]) / 2, 4 * width / sqrt(12.0 * count[b]));
        assert_true(low[b] < from[b] + 0.01 * width && high[b] > to[b] - 0.01 * width);
    }
}

/* ---- isotonic regression --------------------------------------------------------------------------------------------- */
/* Brute force: the fit at point i is max over a <= i of min over b >= i of the mean of [a, b] (points sorted, x distinct). */
static double max_min(const double *y, const double *w, int n, int i) {
    double best = -INFINITY;
    for (int a = 0; a <= i; ++a) {
        double least = INFINITY;
        for (int b = i; b < n; ++b) {
            double sum = 0, weight = 0;
            for (int k = a; k <= b; ++k) sum += w[k] * y[k], weight += w[k];
            least = fmin(least, sum / weight);
        }
        best = fmax(best, least);
    }
    return best;
}

static double *take_doubles(int n) {
    return take((size_t)n * sizeof(double));
}

/* Random points, x with ties; pooled by hand for the brute force. */
static void check_isotonic(int n, int weighted) {
    double *x = take_doubles(n), *y = take_doubles(n), *w = take_doubles(n), *kx = take_doubles(n),
           *ky = take_doubles(n);
    double *px = take_doubles(n), *py = take_doubles(n), *pw = take_doubles(n);
    int knots = -1, pooled = 0;
    for (int i = 0; i < n; ++i)
        x[i] = below(n) - 3, y[i] = 0.3 * x[i] + 3 * gauss(), w[i] = weighted ? uniform(0.1, 4) : 1;
    for (int v = -3; v < n; ++v) {
        double sum = 0, weight = 0;
        for (int i = 0; i < n; ++i)
            if (x[i] == v) sum += w[i] * y[i], weight += w[i];
        if (weight > 0) px[pooled] = v, py[pooled] = sum / weight, pw[pooled++] = weight;
    }
    size_t bytes = dea_isotonic_workspace(n);
    assert_true(bytes > 0);
    assert_ok(dea_isotonic_fit(x, y, weighted ? w : NULL, n, kx, ky, &knots, take(bytes), bytes));
    assert_true(knots >= 1 && knots <= n);
    for (int k = 1; k < knots; ++k) assert_true(kx[k] > kx[k - 1] && ky[k] >= ky[k - 1]);
    for (int i = 0; i < pooled; ++i)
        assert_near(dea_isotonic_apply(kx, ky, knots, px[i]), max_min(py, pw, pooled, i), 1e-12);
}

static void test_isotonic(void **state) {
    (void)state;
    seed_numbers(65);
    for (int i = 0; i < 200; ++i) {
        check_isotonic(1 + below(25), i % 2);
        release(NULL);
    }
}

static void test_isotonic_between_and_outside(void **state) {
    (void)state;
    static const double kx[4] = {1, 2, 4, 8}, ky[4] = {0.1, 0.3, 0.3, 0.7};
    static const double cases[][2] = {{0, 0.1}, {1, 0.1}, {1.5, 0.2}, {2, 0.3}, {3, 0.3},
                                      {4, 0.3}, {5, 0.4}, {8, 0.7},   {9, 0.7}, {1e300, 0.7}};
    for (int i = 0; i < LENGTH(cases); ++i) assert_near(dea_isotonic_apply(kx, ky, 4, cases[i][0]), cases[i][1], 1e-15);
    assert_near(dea_isotonic_apply(kx, ky, 1, 77), 0.1, 0);
    double x[3] = {5, 5, 5}, y[3] = {1, 2, 6}, x1[3], y1[3];
    int knots;
    size_t bytes = dea_isotonic_workspace(3);
    assert_ok(dea_isotonic_fit(x, y, NULL, 3, x1, y1, &knots, take(bytes), bytes));
    assert_int_equal(knots, 1);
    assert_near(y1[0], 3, 1e-15);
    double same_x[4] = {4, 3, 2, 1}, same_y[4] = {4, 3, 2, 1}, x4[4], y4[4]; /* in order already: kept as it is */
    assert_ok(dea_isotonic_fit(same_x, same_y, NULL, 4, x4, y4, &knots, take(dea_isotonic_workspace(4)),
                               dea_isotonic_workspace(4)));
    assert_int_equal(knots, 4);
    for (int i = 0; i < 4; ++i) assert_true(x4[i] == i + 1 && y4[i] == i + 1);
}

/* Weights and values at the ends of their range: no product that overflows, none that vanishes. */
static void test_isotonic_at_extremes(void **state) {
    (void)state;
    static const double weights[][3] = {{5e-324, 5e-324, 5e-324}, {2e307, 2e307, 2e307}, {1e-300, 1e-300, 1e300}};
    static const double x[3] = {1, 2, 3}, y[3] = {0.3, 0.1, 4};
    double kx[3], ky[3];
    int knots;
    size_t bytes = dea_isotonic_workspace(3);
    void *workspace = take(bytes);
    for (int i = 0; i < LENGTH(weights); ++i) {
        assert_ok(dea_isotonic_fit(x, y, weights[i], 3, kx, ky, &knots, workspace, bytes));
        assert_int_equal(knots, 3);
        assert_near(ky[0], 0.2, 1e-15);
        assert_near(ky[1], 0.2, 1e-15);
        assert_true(ky[2] == 4);
    }
    static const double far_x[3] = {-8e307, 0, 8e307}, far_y[3] = {8e307, -8e307, 8e307};
    assert_ok(dea_isotonic_fit(far_x, far_y, NULL, 3, kx, ky, &knots, workspace, bytes));
    assert_int_equal(knots, 3);
    assert_near(ky[0] / 8e307, 0, 1e-15);
    assert_near(dea_isotonic_apply(kx, ky, knots, 4e307) / 8e307, 0.5, 1e-15);
    static const double apart[2] = {-1e308, 1e308}, near[2] = {0, 1}; /* further apart than a fit makes them */
    assert_true(isnan(dea_isotonic_apply(apart, near, 2, 0)) && isnan(dea_isotonic_apply(near, apart, 2, 0.5)));
}

#define TEST(name) cmocka_unit_test_teardown(name, release)

int main(void) {
    static const struct CMUnitTest tests[] = {
        TEST(test_adamw_is_adamw),
        TEST(test_defaults),
        TEST(test_groups_are_clipped_apart),
        TEST(test_decay_touches_matrices_only),
        TEST(test_non_finite_gradient_changes_nothing),
        TEST(test_gamma),
        TEST(test_warmup_cosine),
        TEST(test_oracle_alpha),
        TEST(test_bands),
        TEST(test_mock_alpha),
        TEST(test_isotonic),
        TEST(test_isotonic_between_and_outside),
        TEST(test_isotonic_at_extremes),
    };
    return cmocka_run_group_tests_name("optimiser", tests, NULL, NULL);
}

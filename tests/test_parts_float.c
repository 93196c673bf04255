/* The parts in float, whose vector code the double build does not have, against double arithmetic written out here. */
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"
#include "support.h"

static double gelu(double x) {
    return 0.5 * x * erfc(-x / sqrt(2));
}

static double gelu_slope(double x) {
    return 0.5 * erfc(-x / sqrt(2)) + x * exp(-0.5 * x * x) / sqrt(2 * 3.14159265358979323846);
}

/* Every length up to two vectors and then some, so that every tail is met. */
static void test_gelu(void **state) {
    (void)state;
    enum { MOST = 400001 };
    float *x = take_reals(MOST), *dy = take_reals(MOST), *y = take_reals(MOST), *dx = take_reals(MOST);
    for (int i = 0; i < MOST; ++i) x[i] = (float)(-20 + 40.0 * i / (MOST - 1)), dy[i] = (float)(1 + i % 3);
    assert_ok(dea_gelu_forward(x, y, MOST, NULL));
    assert_ok(dea_gelu_backward(x, dy, dx, MOST, NULL));
    for (int i = 0; i < MOST; ++i) {
        double expected = gelu((double)x[i]),
               exponent = 0.5 * (double)x[i] * (double)x[i]; /* its rounding shows, too */
        assert_near(y[i], expected, (1e-6 + 1.2e-7 * exponent) * fabs(expected) + 2e-37);
        assert_near(dx[i], dy[i] * gelu_slope((double)x[i]), 1e-6 * (double)dy[i]);
    }
    for (size_t n = 1; n < 70; ++n) {
        float *part = take_reals(n), *slope_part = take_reals(n);
        assert_ok(dea_gelu_forward(x + 200000, part, n, NULL));
        assert_ok(dea_gelu_backward(x + 200000, dy + 200000, slope_part, n, NULL));
        assert_same_bits(part, y + 200000, n);
        assert_same_bits(slope_part, dx + 200000, n);
    }
}

static void test_gelu_at_extremes(void **state) {
    (void)state;
    float x[6] = {0, 1e30f, -1e30f, (float)INFINITY, (float)NAN, -13.5f}, dy[6] = {1, 1, 1, 1, 1, 1}, y[6], dx[6];
    assert_ok(dea_gelu_forward(x, y, 6, NULL));
    assert_ok(dea_gelu_backward(x, dy, dx, 6, NULL));
    assert_true(y[0] == 0 && y[1] == 1e30f && fabs((double)y[2]) < 1e-6 && isinf(y[3]) && isnan(y[4]));
    assert_true(fabs((double)y[5]) < 1e-36 && isnan(dx[4]));
    assert_near(dx[0], 0.5, 1e-7);
    assert_near(dx[1], 1, 1e-6);
    assert_near(dx[2], 0, 1e-6);
}

static void test_layer_norm(void **state) {
    (void)state;
    seed_numbers(91);
    for (int width = 1; width < 70; ++width)
        for (int shift = 0; shift < 2; ++shift) {
            enum { ROWS = 3 };
            size_t W = (size_t)width, n = ROWS * W;
            float *x = take_gauss(n, 2), *gain = take_gauss(W, 1), *bias = take_gauss(W, 1), *dy = take_gauss(n, 1);
            float *y = take_reals(n), *saved = take_reals(2 * ROWS), *dx = take_reals(n);
            float *dgain = take_zeros(W), *dbias = take_zeros(W);
            for (size_t i = 0; i < n; ++i) x[i] += shift ? 1000.0f : 0.0f; /* a common part costs few digits */
            assert_ok(dea_layer_norm_forward(x, gain, bias, y, saved, ROWS, width, 1e-5, NULL));
            assert_ok(dea_layer_norm_backward(x, gain, saved, dy, dx, dgain, dbias, ROWS, width, NULL));
            double tolerance = shift ? 2e-3 : 2e-5;
            for (size_t r = 0; r < ROWS; ++r) {
                double mean = 0, variance = 0, sum = 0, product = 0;
                for (size_t c = 0; c < W; ++c) mean += (double)x[r * W + c] / width;
                for (size_t c = 0; c < W; ++c) variance += pow((double)x[r * W + c] - mean, 2) / width;
                double scale = 1 / sqrt(variance + 1e-5);
                if (scale > 10) continue; /* narrow rows: all digits cancel */
                for (size_t c = 0; c < W; ++c) {
                    double hat = ((double)x[r * W + c] - mean) * scale, g = (double)dy[r * W + c] * (double)gain[c];
                    assert_near(y[r * W + c], hat * (double)gain[c] + (double)bias[c], tolerance);
                    sum += g / width, product += g * hat / width;
                }
                for (size_t c = 0; c < W; ++c) {
                    double hat = ((double)x[r * W + c] - mean) * scale, g = (double)dy[r * W + c] * (double)gain[c];
                    assert_near(dx[r * W + c], scale * (g - sum - hat * product), tolerance * (1 + scale));
                }
            }
            for (size_t c = 0; c < W; ++c) assert_near(dbias[c], dy[c] + dy[W + c] + dy[2 * W + c], 1e-5);
            release(NULL);
        }
}

/* Squares of these overflow a float. */
static void test_layer_norm_at_extremes(void **state) {
    (void)state;
    static const float sizes[] = {1e18f, 1e19f, 1e20f, 1e30f, 3e38f};
    for (int s = 0; s < LENGTH(sizes); ++s)
        for (int width = 2; width < 40; width += 2) {
            float x[40], y[40], dy[40] = {1}, dx[40], saved[2];
            for (int i = 0; i < width; ++i) x[i] = i % 2 ? -sizes[s] : sizes[s];
            assert_ok(dea_layer_norm_forward(x, NULL, NULL, y, saved, 1, width, 1e-5, NULL));
            for (int i = 0; i < width; ++i) assert_near(y[i], i % 2 ? -1 : 1, 1e-6);
            if (s > 3) continue; /* backward's sums of dy (x - mean) are not scaled */
            assert_ok(dea_layer_norm_backward(x, NULL, saved, dy, dx, NULL, NULL, 1, width, NULL));
            for (int i = 0; i < width; ++i)
                assert_near((double)dx[i] * (double)sizes[s], (i == 0) - (i % 2 ? 0.0 : 2.0) / width, 1e-5);
        }
}

/* One tensor of the main group, its gradient and its moments, all 0. */
typedef struct one_tensor {
    dea_tensor tensor;
    dea_table table;
    float *p, *g, *m, *v;
} one_tensor;

static void take_tensor(one_tensor *t, int count) {
    t->table = dea_table_init(&t->tensor, 1);
    assert_ok(dea_table_add(&t->table, "", "w", 1, &count, DEA_GROUP_MAIN, 0, NULL));
    t->p = take_zeros(t->table.elements), t->g = take_zeros(t->table.elements);
    t->m = take_zeros(t->table.elements), t->v = take_zeros(t->table.elements);
}

/* A second moment must not become infinite: its tensor would never learn again. */
static void test_adamw_at_extremes(void **state) {
    (void)state;
    one_tensor t;
    take_tensor(&t, 4);
    float *p = t.p, *g = t.g, *m = t.m, *v = t.v;
    dea_adamw o = dea_adamw_init();
    for (int i = 0; i < 4; ++i) p[i] = 1, g[i] = 1e22f;
    o.clip[DEA_GROUP_MAIN] = 0;
    double norms[DEA_GROUPS] = {-7, -7};
    assert_status(dea_adamw_step(&o, &t.table, p, g, m, v, 1, 1, norms), DEA_ERR_NONFINITE);
    assert_true(p[0] == 1 && all_zero(m, 4) && all_zero(v, 4) && norms[0] == -7 && norms[1] == -7);
    o.clip[DEA_GROUP_MAIN] = 1; /* clipped, the same gradient is an ordinary one */
    assert_ok(dea_adamw_step(&o, &t.table, p, g, m, v, 1, 1, norms));
    for (int i = 0; i < 4; ++i) {
        assert_near(m[i], 0.1 * 0.5, 1e-8);
        assert_near(v[i], 0.001 * 0.25, 1e-9);
    }
    assert_near(norms[0] / 2e22, 1, 1e-6);
    o.clip[DEA_GROUP_MAIN] = 1e25; /* a limit that lets everything through */
    assert_status(dea_adamw_step(&o, &t.table, p, g, m, v, 2, 1, norms), DEA_ERR_NONFINITE);
}

/* Every length up to four vectors and a bit, 40 steps long, against double. Beta2 is so near 1 that float's own 1 - beta2 would be
 * wrong in the second digit. */
static void test_adamw(void **state) {
    (void)state;
    seed_numbers(93);
    dea_adamw o = dea_adamw_init();
    o.lr[DEA_GROUP_MAIN] = 0.01, o.clip[DEA_GROUP_MAIN] = 0, o.beta2 = 1 - 1e-6, o.weight_decay = 0.1;
    for (int count = 1; count < 70; ++count) {
        dea_tensor tensor;
        dea_table table = dea_table_init(&tensor, 1);
        assert_ok(dea_table_add(&table, "", "w", 1, &count, DEA_GROUP_MAIN, 1, NULL));
        const size_t n = (size_t)count;
        float *p = take_gauss(n + 1, 1), *g = take_reals(n), *m = take_zeros(n + 1), *v = take_zeros(n + 1);
        double *x = take(n * sizeof *x), *first = take(n * sizeof *x), *second = take(n * sizeof *x);
        for (size_t i = 0; i < n; ++i) x[i] = (double)p[i], first[i] = second[i] = 0;
        p[n] = m[n] = v[n] = 7; /* the neighbour's */
        for (int step = 1; step <= 40; ++step) {
            fill_gauss(g, n, 0.1);
            assert_ok(dea_adamw_step(&o, &table, p, g, m, v, step, 1, NULL));
            for (size_t i = 0; i < n; ++i) {
                first[i] += 0.1 * ((double)g[i] - first[i]);
                second[i] += 1e-6 * ((double)g[i] * (double)g[i] - second[i]);
                const double root = sqrt(second[i] / (1 - pow(1 - 1e-6, step)));
                x[i] -= 0.01 * (0.1 * x[i] + first[i] / (1 - pow(0.9, step)) / (root + 1e-8));
            }
        }
        for (size_t i = 0; i < n; ++i) {
            assert_near(p[i], x[i], 4e-6);
            assert_near(m[i], first[i], 1e-7);
            assert_near(v[i], second[i], 2e-6 * second[i]);
        }
        assert_true(p[n] == 7 && m[n] == 7 && v[n] == 7);
        release(NULL);
    }
}

/* A word that no longer comes: its moments end at 0 and not in numbers that are slow to compute with; and 0/0 is no update. */
static void test_adamw_at_rest(void **state) {
    (void)state;
    one_tensor t;
    take_tensor(&t, 19);
    float *p = t.p, *g = t.g, *m = t.m, *v = t.v;
    dea_adamw o = dea_adamw_init();
    o.beta2 = 0.9, o.eps = 1e-300;
    g[0] = -1e-3f, g[17] = 1e-3f;
    assert_ok(dea_adamw_step(&o, &t.table, p, g, m, v, 1, 1, NULL));
    assert_true(m[0] < 0 && m[17] > 0 && v[0] > 0 && v[17] > 0);
    g[0] = g[17] = 0;
    for (int step = 2; step <= 1000; ++step) assert_ok(dea_adamw_step(&o, &t.table, p, g, m, v, step, 1, NULL));
    assert_true(all_zero(m, 19) && all_zero(v, 19));
    for (int i = 0; i < 19; ++i) assert_true(isfinite(p[i]) && (p[i] != 0) == (i == 0 || i == 17));
}

/* Products of any size, by BLAS or by the header's own kernels. */
static void test_linear(void **state) {
    (void)state;
    seed_numbers(92);
    for (int i = 0; i < 60; ++i) {
        int rows = 1 + below(70), in = 1 + below(70), out = 1 + below(70);
        size_t R = (size_t)rows, N = (size_t)in, M = (size_t)out;
        float *x = take_gauss(R * N, 1), *w = take_gauss(M * N, 1), *b = take_gauss(M, 1), *y = take_reals(R * M);
        float *dy = take_gauss(R * M, 1), *dx = take_reals(R * N), *dw = take_zeros(M * N), *db = take_zeros(M);
        assert_ok(dea_linear_forward(x, w, b, y, rows, in, out, NULL));
        assert_ok(dea_linear_backward(x, w, dy, dx, dw, db, rows, in, out, NULL));
        for (size_t r = 0; r < R; ++r)
            for (size_t o = 0; o < M; ++o) {
                double sum = (double)b[o];
                for (size_t k = 0; k < N; ++k) sum += (double)x[r * N + k] * (double)w[o * N + k];
                assert_near(y[r * M + o], sum, 1e-5 * (1 + sqrt((double)in)));
            }
        for (size_t r = 0; r < R; ++r)
            for (size_t k = 0; k < N; ++k) {
                double sum = 0;
                for (size_t o = 0; o < M; ++o) sum += (double)dy[r * M + o] * (double)w[o * N + k];
                assert_near(dx[r * N + k], sum, 1e-5 * (1 + sqrt((double)out)));
            }
        for (size_t o = 0; o < M; ++o) {
            double column = 0;
            for (size_t r = 0; r < R; ++r) column += (double)dy[r * M + o];
            assert_near(db[o], column, 1e-5 * (1 + sqrt((double)rows)));
            for (size_t k = 0; k < N; ++k) {
                double sum = 0;
                for (size_t r = 0; r < R; ++r) sum += (double)dy[r * M + o] * (double)x[r * N + k];
                assert_near(dw[o * N + k], sum, 1e-5 * (1 + sqrt((double)rows)));
            }
        }
        release(NULL);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, release)

int main(void) {
    static const struct CMUnitTest tests[] = {
        TEST(test_gelu),  TEST(test_gelu_at_extremes), TEST(test_layer_norm),        TEST(test_layer_norm_at_extremes),
        TEST(test_adamw), TEST(test_adamw_at_rest),    TEST(test_adamw_at_extremes), TEST(test_linear),
    };
    return cmocka_run_group_tests_name("parts, float", tests, NULL, NULL);
}

/* Metrics against known values and against the same figure computed the slow, obvious way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/rng.h"
#include "metrics/metrics.h"

static double uniform(rng *r) {
    return (double)(rng_u64(r) >> 11) / 9007199254740992.0;
}

static void assert_near(double x, double y, double tolerance) {
    if (!(fabs(x - y) <= tolerance)) fail_msg("%.17g is not within %g of %.17g", x, tolerance, y);
}

/* ---- accuracy ---------------------------------------------------------------------------------------------------- */

static void test_wilson(void **state) {
    (void)state;
    /* By scipy.stats.binomtest(right, count).proportion_ci(method="wilson"). */
    const struct {
        int64_t right, count;
        double low, high;
    } known[] = {
        {5, 10, 0.236593090512564, 0.763406909487436},
        {0, 10, 0, 0.277532799862889},
        {10, 10, 0.722467200137111, 1},
        {850, 1000, 0.826531341573200, 0.870789927486912},
        {1, 2, 0.094531205734230, 0.905468794265770},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const metrics_interval w = metrics_wilson(known[i].right, known[i].count);
        assert_near(w.low, known[i].low, 1e-13);
        assert_near(w.high, known[i].high, 1e-13);
    }
    assert_true(metrics_wilson(0, 0).low == 0 && metrics_wilson(0, 0).high == 1);
    /* Its definition: the ends are the shares from which the seen one lies 1.96 standard deviations away. */
    for (int64_t count = 1; count < 200; count += 7)
        for (int64_t right = 0; right <= count; right++) {
            const metrics_interval w = metrics_wilson(right, count);
            const double seen = (double)right / (double)count, ends[2] = {w.low, w.high};
            assert_true(w.low <= seen && seen <= w.high && w.low >= 0 && w.high <= 1);
            for (int e = 0; e < 2; e++) {
                if (ends[e] == 0 || ends[e] == 1) continue;
                const double z = (seen - ends[e]) / sqrt(ends[e] * (1 - ends[e]) / (double)count);
                assert_near(fabs(z), 1.959963984540054, 1e-9);
            }
        }
}

static void test_mean_interval(void **state) {
    (void)state;
    metrics_interval i;
    const double three[3] = {1, 2, 3}, many[40] = {1};
    assert_near(metrics_mean_interval(three, 3, &i), 2, 0);
    assert_near(i.high - 2, 4.302652729749462 / sqrt(3.0), 1e-6); /* t(0.975, 2) s/sqrt n */
    assert_near(2 - i.low, i.high - 2, 1e-12);
    metrics_mean_interval(many, 40, &i); /* s = sqrt(1/40), so the half width is t(0.975, 39)/40 */
    assert_near(i.high - 0.025, 2.022690920036762 * sqrt(1.0 / 40) / sqrt(40.0), 1e-6);
    assert_true(metrics_mean_interval(three, 1, &i) == 1 && isinf(i.low) && isinf(i.high));
    assert_true(isnan(metrics_mean_interval(three, 0, &i)));
}

static void test_by_key(void **state) {
    (void)state;
    enum { N = 5000, KEYS = 40 };
    static char name[KEYS][8];
    static const char *key[N];
    static unsigned char right[N];
    metrics_group groups[KEYS];
    rng draws = {1, 0};
    for (int k = 0; k < KEYS; k++) {
        name[k][0] = (char)('a' + k * 7 % 26);
        name[k][1] = (char)('a' + k);
        name[k][2] = '\0';
    }
    for (int i = 0; i < N; i++) {
        const int k = (int)rng_below(&draws, KEYS + 1);
        key[i] = k == KEYS ? NULL : name[k];
        right[i] = (unsigned char)rng_coin(&draws);
    }
    const int count = metrics_by_key(key, right, N, groups, KEYS);
    assert_int_equal(count, KEYS);
    for (int g = 0; g < count; g++) {
        int64_t all = 0, good = 0;
        if (g) assert_true(strcmp(groups[g - 1].name, groups[g].name) < 0);
        for (int i = 0; i < N; i++)
            if (key[i] && strcmp(key[i], groups[g].name) == 0) all++, good += right[i];
        assert_int_equal(groups[g].count, all);
        assert_int_equal(groups[g].right, good);
    }
    assert_int_equal(metrics_by_key(key, right, N, groups, KEYS - 1), -1);
    assert_int_equal(metrics_by_key(key, right, 0, groups, KEYS), 0);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static void test_known_correlations(void **state) {
    (void)state;
    /* Anscombe's first set, by scipy.stats.pearsonr and spearmanr. */
    const double x[11] = {10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5};
    const double y[11] = {8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68};
    double scratch[33];
    assert_near(metrics_pearson(x, y, 11), 0.81642051634484, 1e-13);
    assert_near(metrics_spearman(x, y, 11, scratch), 0.81818181818182, 1e-13);
    /* Ties share the mean of their ranks: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4. */
    const double tied[4] = {1, 2, 2, 9}, rising[4] = {-5, 0, 1, 100};
    assert_near(metrics_spearman(tied, rising, 4, scratch), 4.5 / sqrt(4.5 * 5), 1e-15);
    assert_near(metrics_mae(x, y, 11), 1.8954545454545, 1e-12);
    const double flat[4] = {3, 3, 3, 3};
    assert_true(isnan(metrics_pearson(flat, rising, 4)) && isnan(metrics_spearman(rising, flat, 4, scratch)));
    assert_true(isnan(metrics_pearson(x, y, 0)) && isnan(metrics_mae(x, y, 0)) &&
                isnan(metrics_spearman(x, y, 0, scratch)));
    assert_near(metrics_constant_mae(tied, 4, scratch), 2, 1e-15);
    assert_true(isnan(metrics_constant_mae(tied, 0, scratch)));
}

static void test_spearman_by_counting(void **state) {
    (void)state;
    enum { N = 300 };
    double x[N], y[N], rank_x[N], rank_y[N], scratch[3 * N];
    rng draws = {5, 0};
    for (int round = 0; round < 20; round++) {
        const uint32_t levels = 2 + rng_below(&draws, 60); /* few levels: many ties */
        for (int i = 0; i < N; i++) {
            x[i] = (double)rng_below(&draws, levels) / 7;
            y[i] = x[i] * (round % 3 - 1) + (double)rng_below(&draws, levels);
        }
        for (int i = 0; i < N; i++) {
            rank_x[i] = rank_y[i] = 0;
            for (int j = 0; j < N; j++) {
                rank_x[i] += (x[j] < x[i]) + 0.5 * (x[j] == x[i]);
                rank_y[i] += (y[j] < y[i]) + 0.5 * (y[j] == y[i]);
            }
        }
        assert_near(metrics_spearman(x, y, N, scratch), metrics_pearson(rank_x, rank_y, N), 1e-12);
    }
}

static void test_constant_is_the_best(void **state) {
    (void)state;
    enum { N = 101 };
    double truth[N], scratch[N], constant[N];
    rng draws = {6, 0};
    for (int i = 0; i < N; i++) truth[i] = uniform(&draws);
    const double best = metrics_constant_mae(truth, N, scratch);
    double least = 1;
    for (int c = 0; c <= 1000; c++) {
        for (int i = 0; i < N; i++) constant[i] = c / 1000.0;
        const double mae = metrics_mae(constant, truth, N);
        assert_true(mae >= best - 1e-12);
        if (mae < least) least = mae;
    }
    assert_near(least, best, 1e-3);
}

/* ---- alpha ------------------------------------------------------------------------------------------------------- */

static void test_bands(void **state) {
    (void)state;
    const double truth[7] = {0.01, 0.02, 0.2, 0.8, 0.9, 0.95, 0.5},
                 predicted[7] = {0.05, 0.06, 0.3, 0.75, 0.2, 0.6, 0.5};
    const metrics_bands t = metrics_band_table(predicted, truth, 7);
    const int64_t expected[4][4] = {{1, 0, 0, 1}, {0, 1, 0, 0}, {0, 1, 1, 1}, {0, 0, 0, 1}};
    assert_memory_equal(t.matrix, expected, sizeof expected);
    assert_int_equal(t.count, 7);
    assert_int_equal(t.agreed, 4);
    assert_int_equal(t.constant, 3);
    const metrics_bands none = metrics_band_table(NULL, NULL, 0);
    assert_int_equal(none.agreed + none.constant + none.count, 0);
}

static void test_sides(void **state) {
    (void)state;
    enum { N = 4000 };
    static double alpha[N], hat[N], beta[N];
    static metrics_sides sides;
    rng draws = {7, 0};
    memset(&sides, 0, sizeof sides);
    assert_true(isnan(metrics_side_accuracy(&sides.all)) && isnan(metrics_side_constant(&sides.all)));
    int64_t right = 0, close = 0, close_right = 0;
    for (int i = 0; i < N; i++) {
        alpha[i] = uniform(&draws) * 0.95;
        hat[i] = uniform(&draws) * 0.95;
        beta[i] =
            ((double)rng_below(&draws, 1024) + 0.5) / 1024; /* in the middle of a bin, so that the grid is exact */
        metrics_side_add(&sides, alpha[i], hat[i], beta[i]);
        const int good = (alpha[i] - beta[i]) * (hat[i] - beta[i]) > 0;
        right += good;
        if (fabs(alpha[i] - beta[i]) < 0.1) close++, close_right += good;
    }
    assert_int_equal(sides.all.count, N);
    assert_int_equal(sides.all.right, right);
    assert_int_equal(sides.close.count, close);
    assert_int_equal(sides.close.right, close_right);
    assert_near(metrics_side_accuracy(&sides.close), (double)close_right / (double)close, 1e-15);
    int64_t best = 0, best_close = 0;
    for (int c = 0; c <= 972; c++) { /* 972/1024 is the last below 0.95 */
        int64_t all = 0, near = 0;
        for (int i = 0; i < N; i++) {
            const int good = (alpha[i] > beta[i]) == (c / 1024.0 > beta[i]);
            all += good;
            near += good && fabs(alpha[i] - beta[i]) < 0.1;
        }
        if (all > best) best = all;
        if (near > best_close) best_close = near;
    }
    assert_near(metrics_side_constant(&sides.all), (double)best / N, 1e-15);
    assert_near(metrics_side_constant(&sides.close), (double)best_close / (double)close, 1e-15);
    /* beta at the very ends stays inside the table. */
    metrics_side_add(&sides, 0.5, 0.5, 0);
    metrics_side_add(&sides, 0.5, 0.5, 1);
    assert_int_equal(sides.all.count, N + 2);
}

/* ---- attention and calibration ----------------------------------------------------------------------------------- */

static void test_entropy(void **state) {
    (void)state;
    const dea_real even[4] = {0.25f, 0.25f, 0.25f, 0.25f}, one[3] = {0, 1, 0}, half[4] = {0.5f, 0, 0.5f, 0};
    assert_near(metrics_entropy(even, 4), 1, 1e-7);
    assert_near(metrics_entropy(one, 3), 0, 0);
    assert_near(metrics_entropy(half, 4), 0.5, 1e-7);
    assert_near(metrics_entropy(one + 1, 1), 0, 0);
}

static void test_ece(void **state) {
    (void)state;
    enum { N = 3000 };
    static double confidence[N];
    static unsigned char right[N];
    /* Two bins: 4 rows at 0.9 of which half are right, 4 at 0.6 of which all are. ECE = (0.4 + 0.4)/2. */
    const double two[8] = {0.9, 0.9, 0.9, 0.9, 0.62, 0.62, 0.62, 0.62};
    const unsigned char good[8] = {1, 0, 1, 0, 1, 1, 1, 1};
    metrics_calibration c = metrics_calibrate(two, good, 8);
    assert_near(metrics_ece(&c), 0.5 * 0.4 + 0.5 * 0.38, 1e-12);
    c = metrics_calibrate(two, good, 0);
    assert_true(isnan(metrics_ece(&c)));
    rng draws = {8, 0};
    for (int i = 0; i < N; i++) {
        confidence[i] = 0.5 + 0.5 * uniform(&draws);
        right[i] = uniform(&draws) < confidence[i] * confidence[i];
    }
    confidence[0] = 1;
    double expected = 0;
    for (int bin = 0; bin < 15; bin++) {
        double sum = 0, hits = 0;
        int n = 0;
        for (int i = 0; i < N; i++)
            if (confidence[i] >= bin / 15.0 && (confidence[i] < (bin + 1) / 15.0 || bin == 14))
                n++, sum += confidence[i], hits += right[i];
        if (n) expected += (double)n / N * fabs(hits / n - sum / n);
    }
    c = metrics_calibrate(confidence, right, N);
    assert_near(metrics_ece(&c), expected, 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wilson),
        cmocka_unit_test(test_mean_interval),
        cmocka_unit_test(test_by_key),
        cmocka_unit_test(test_known_correlations),
        cmocka_unit_test(test_spearman_by_counting),
        cmocka_unit_test(test_constant_is_the_best),
        cmocka_unit_test(test_bands),
        cmocka_unit_test(test_sides),
        cmocka_unit_test(test_entropy),
        cmocka_unit_test(test_ece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

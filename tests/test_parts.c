/* The parts around the attention, in double: against their definitions, against central differences, in place, at extremes,
 * and for any number of threads. */
#define DEA_REAL double
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"
#include "support.h"
#include "thread_hooks.h"

static double dot(const dea_real *x, const dea_real *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += x[i] * y[i];
    return sum;
}

/* One forward whose output is weighed by a random cotangent: what the gradient checks differentiate. */
typedef struct part {
    dea_real *x, *w, *b, *y, *dy;
    int rows, in, out;
    const int *ids;
    double number;
} part;

/* ---- linear ---------------------------------------------------------------------------------------------------------- */
static double linear_loss(void *context) {
    part *p = context;
    assert_ok(dea_linear_forward(p->x, p->w, p->b, p->y, p->rows, p->in, p->out, NULL));
    return dot(p->y, p->dy, (size_t)p->rows * (size_t)p->out);
}

static part draw_linear(int rows, int in, int out, int bias) {
    size_t r = (size_t)rows, i = (size_t)in, o = (size_t)out;
    part p = {take_gauss(r * i, 1),
              take_gauss(o * i, 1),
              bias ? take_gauss(o, 1) : NULL,
              take_reals(r * o),
              take_gauss(r * o, 1),
              rows,
              in,
              out,
              NULL,
              0};
    return p;
}

static void test_linear(void **state) {
    (void)state;
    static const int shapes[][3] = {{1, 1, 1}, {5, 3, 4}, {7, 8, 2}, {33, 17, 19}};
    seed_numbers(41);
    for (int s = 0; s < LENGTH(shapes); ++s)
        for (int bias = 0; bias < 2; ++bias) {
            part p = draw_linear(shapes[s][0], shapes[s][1], shapes[s][2], bias);
            size_t in = (size_t)p.in, out = (size_t)p.out, rows = (size_t)p.rows;
            linear_loss(&p);
            for (size_t r = 0; r < rows; ++r)
                for (size_t o = 0; o < out; ++o)
                    assert_near(p.y[r * out + o], dot(p.x + r * in, p.w + o * in, in) + (bias ? p.b[o] : 0), 1e-12);
            dea_real *dx = take_reals(rows * in), *dw = take_gauss(out * in, 1), *db = take_gauss(out, 1);
            dea_real *dw0 = take_copy(dw, out * in), *db0 = take_copy(db, out);
            assert_ok(dea_linear_backward(p.x, p.w, p.dy, dx, dw, bias ? db : NULL, p.rows, p.in, p.out, NULL));
            for (size_t i = 0; i < out * in; ++i) dw[i] -= dw0[i]; /* added to */
            check_gradient("x", linear_loss, &p, p.x, dx, rows * in);
            check_gradient("w", linear_loss, &p, p.w, dw, out * in);
            for (size_t i = 0; i < out; ++i) db[i] -= db0[i];
            if (bias) check_gradient("b", linear_loss, &p, p.b, db, out);
            release(NULL);
        }
}

static void test_linear_gradients_are_optional(void **state) {
    (void)state;
    seed_numbers(42);
    part p = draw_linear(6, 5, 4, 1);
    dea_real *dx = take_reals(30), *dw = take_zeros(20), *db = take_zeros(4);
    dea_real *one_x = take_reals(30), *one_w = take_zeros(20), *one_b = take_zeros(4);
    assert_ok(dea_linear_backward(p.x, p.w, p.dy, dx, dw, db, 6, 5, 4, NULL));
    assert_ok(dea_linear_backward(NULL, p.w, p.dy, one_x, NULL, NULL, 6, 5, 4, NULL));
    assert_ok(dea_linear_backward(p.x, NULL, p.dy, NULL, one_w, NULL, 6, 5, 4, NULL));
    assert_ok(dea_linear_backward(NULL, NULL, p.dy, NULL, NULL, one_b, 6, 5, 4, NULL));
    assert_same_bits(one_x, dx, 30);
    assert_same_bits(one_w, dw, 20);
    assert_same_bits(one_b, db, 4);
}

/* ---- layer norm ------------------------------------------------------------------------------------------------------ */
static double norm_loss(void *context) {
    part *p = context;
    assert_ok(dea_layer_norm_forward(p->x, p->w, p->b, p->y, NULL, p->rows, p->in, p->number, NULL));
    return dot(p->y, p->dy, (size_t)p->rows * (size_t)p->in);
}

static void test_layer_norm(void **state) {
    (void)state;
    seed_numbers(43);
    for (int s = 0; s < 6; ++s) {
        int rows = s < 2 ? 3 : 37, width = s < 2 ? 4 + s : 9, affine = s % 2;
        size_t R = (size_t)rows, W = (size_t)width;
        part p = {take_gauss(R * W, 2),
                  affine ? take_gauss(W, 1) : NULL,
                  affine ? take_gauss(W, 1) : NULL,
                  take_reals(R * W),
                  take_gauss(R * W, 1),
                  rows,
                  width,
                  0,
                  NULL,
                  s > 3 ? 1e-12 : 0.1};
        dea_real *saved = take_reals(2 * R), *y = take_reals(R * W);
        assert_ok(dea_layer_norm_forward(p.x, p.w, p.b, y, saved, rows, width, p.number, NULL));
        norm_loss(&p);
        assert_same_bits(y, p.y, R * W); /* with and without saved */
        for (size_t r = 0; r < R; ++r) {
            double mean = 0, variance = 0;
            for (size_t c = 0; c < W; ++c) mean += p.x[r * W + c] / width;
            for (size_t c = 0; c < W; ++c) variance += (p.x[r * W + c] - mean) * (p.x[r * W + c] - mean) / width;
            assert_near(saved[r], mean, 1e-14 * 10);
            assert_near(saved[R + r], 1 / sqrt(variance + p.number), 1e-12);
            for (size_t c = 0; c < W; ++c)
                assert_near(y[r * W + c],
                            (p.x[r * W + c] - mean) / sqrt(variance + p.number) * (affine ? p.w[c] : 1) +
                                (affine ? p.b[c] : 0),
                            1e-12);
        }
        dea_real *dx = take_reals(R * W), *dgain = take_gauss(W, 1), *dbias = take_gauss(W, 1);
        dea_real *dgain0 = take_copy(dgain, W), *dbias0 = take_copy(dbias, W), *in_place = take_copy(p.dy, R * W);
        assert_ok(dea_layer_norm_backward(p.x, p.w, saved, p.dy, dx, dgain, dbias, rows, width, NULL));
        assert_ok(dea_layer_norm_backward(p.x, p.w, saved, in_place, in_place, NULL, NULL, rows, width, NULL));
        assert_same_bits(in_place, dx, R * W);
        for (size_t c = 0; c < W; ++c) dgain[c] -= dgain0[c], dbias[c] -= dbias0[c];
        check_gradient("x", norm_loss, &p, p.x, dx, R * W);
        if (affine)
            check_gradient("gain", norm_loss, &p, p.w, dgain, W), check_gradient("bias", norm_loss, &p, p.b, dbias, W);
        dea_real *only = take_copy(dgain0, W); /* without dx, parameters' gradients are the same */
        assert_ok(dea_layer_norm_backward(p.x, p.w, saved, p.dy, NULL, only, NULL, rows, width, NULL));
        for (size_t c = 0; c < W; ++c) assert_near(only[c] - dgain0[c], dgain[c], 1e-13);
        release(NULL);
    }
}

static void test_layer_norm_in_place_and_flat(void **state) {
    (void)state;
    seed_numbers(44);
    dea_real *x = take_gauss(12, 1), *y = take_reals(12);
    x[4] = x[5] = x[6] = x[7] = 3;
    assert_ok(dea_layer_norm_forward(x, NULL, NULL, y, NULL, 3, 4, 1e-5, NULL));
    assert_true(all_zero(y + 4, 4));
    assert_ok(dea_layer_norm_forward(x, NULL, NULL, x, NULL, 3, 4, 1e-5, NULL));
    assert_same_bits(x, y, 12);
}

/* Squares that overflow: the row is measured in units of its largest entry. */
static void test_layer_norm_at_extremes(void **state) {
    (void)state;
    static const double sizes[] = {1e150, 1e160, 1e300, 1.7e308};
    for (int s = 0; s < LENGTH(sizes); ++s) {
        double z = sizes[s];
        dea_real x[12] = {z, -z, z, -z, z, z, z, z, z, 0, 0, z}, gain[4] = {1, 2, 3, 4}, bias[4] = {0, 0, 7, 0};
        dea_real y[12], saved[6], dy[12] = {1, 0, 0, 0}, dx[12], in_place[12];
        memcpy(in_place, x, sizeof x);
        assert_ok(dea_layer_norm_forward(x, gain, bias, y, saved, 3, 4, 1e-5, NULL));
        assert_ok(dea_layer_norm_forward(in_place, gain, bias, in_place, NULL, 3, 4, 1e-5, NULL));
        assert_same_bits(in_place, y, 12);
        static const double expected[12] = {1, -2, 10, -4, 0, 0, 7, 0, 1, -2, 4, 4};
        for (int i = 0; i < 12; ++i) assert_near(y[i], expected[i], 1e-14);
        assert_near(saved[0] / z, 0, 1e-15);
        assert_near(saved[1] / z, 1, 1e-15);
        assert_near(saved[2] / z, 0.5, 1e-15);
        assert_near(saved[3] * z, 1, 1e-14);
        assert_near(saved[4] * sqrt(1e-5), 1, 1e-14);
        assert_near(saved[5] * z, 2, 1e-14);
        if (z > 1e300) continue; /* backward's sums of dy (x - mean) are not scaled */
        assert_ok(dea_layer_norm_backward(x, NULL, saved, dy, dx, NULL, NULL, 3, 4, NULL));
        static const double slopes[4] = {0.5, 0, -0.5, 0};
        for (int i = 0; i < 4; ++i) assert_near(dx[i] * z, slopes[i], 1e-14);
    }
    dea_real bad[4] = {1, (double)INFINITY, 2, 3}, y[4];
    assert_ok(dea_layer_norm_forward(bad, NULL, NULL, y, NULL, 1, 4, 1e-5, NULL));
    for (int i = 0; i < 4; ++i) assert_true(isnan(y[i]));
}

/* ---- element-wise ---------------------------------------------------------------------------------------------------- */
static double gelu_loss(void *context) {
    part *p = context;
    assert_ok(dea_gelu_forward(p->x, p->y, (size_t)p->rows, NULL));
    return dot(p->y, p->dy, (size_t)p->rows);
}

static double tanh_loss(void *context) {
    part *p = context;
    assert_ok(dea_tanh_forward(p->x, p->y, (size_t)p->rows));
    return dot(p->y, p->dy, (size_t)p->rows);
}

static void test_gelu(void **state) {
    (void)state;
    seed_numbers(45);
    part p = {take_gauss(64, 2), NULL, NULL, take_reals(64), take_gauss(64, 1), 64, 0, 0, NULL, 0};
    dea_real *dx = take_reals(64);
    assert_ok(dea_gelu_backward(p.x, p.dy, dx, 64, NULL));
    check_gradient("x", gelu_loss, &p, p.x, dx, 64);
    dea_real *in_place = take_copy(p.dy, 64);
    assert_ok(dea_gelu_backward(p.x, in_place, in_place, 64, NULL));
    assert_same_bits(in_place, dx, 64);
    gelu_loss(&p);
    for (int i = 0; i < 64; ++i) assert_near(p.y[i], p.x[i] * 0.5 * (1 + erf(p.x[i] / sqrt(2))), 1e-14);
    dea_real known[7] = {0, 1, -1, 40, -40, -6, 1e300}, dy[7] = {1, 1, 1, 1, 1, 1, 1}, slope_of[7];
    assert_ok(dea_gelu_backward(known, dy, slope_of, 7, NULL));
    assert_near(slope_of[0], 0.5, 1e-15);
    assert_true(slope_of[3] == 1 && slope_of[4] == 0 && slope_of[6] == 1);
    assert_ok(dea_gelu_forward(known, known, 7, NULL));
    assert_near(known[1], 0.84134474606854293, 1e-15);
    assert_near(known[2], -0.15865525393145707, 1e-15);
    assert_true(known[0] == 0 && known[3] == 40 && fabs(known[4]) < 1e-300 && known[6] == 1e300);
    assert_near(known[5] / (-6 * 9.8658764503769814e-10), 1, 1e-12); /* the left tail keeps its digits */
}

static void test_tanh(void **state) {
    (void)state;
    seed_numbers(46);
    part p = {take_gauss(50, 2), NULL, NULL, take_reals(50), take_gauss(50, 1), 50, 0, 0, NULL, 0};
    dea_real *dx = take_reals(50), *in_place = take_copy(p.dy, 50);
    tanh_loss(&p);
    for (int i = 0; i < 50; ++i) assert_near(p.y[i], tanh(p.x[i]), 1e-15);
    assert_ok(dea_tanh_backward(p.y, p.dy, dx, 50));
    check_gradient("x", tanh_loss, &p, p.x, dx, 50);
    tanh_loss(&p);
    assert_ok(dea_tanh_backward(p.y, in_place, in_place, 50));
    assert_same_bits(in_place, dx, 50);
    dea_real *x = take_copy(p.x, 50);
    assert_ok(dea_tanh_forward(x, x, 50));
    assert_same_bits(x, p.y, 50);
}

static double rate_of(const dea_real *y, size_t count) {
    size_t zeros = 0;
    for (size_t i = 0; i < count; ++i) zeros += y[i] == 0;
    return (double)zeros / (double)count;
}

static double agreement(const dea_real *x, const dea_real *y, size_t count) {
    size_t same = 0;
    for (size_t i = 0; i < count; ++i) same += (x[i] == 0) == (y[i] == 0);
    return (double)same / (double)count;
}

static void test_dropout(void **state) {
    (void)state;
    enum { COUNT = 200000 }; /* more than one stretch of the generator */
    seed_numbers(47);
    dea_real *x = take_gauss(COUNT, 1), *y = take_reals(COUNT), *z = take_reals(COUNT);
    for (int i = 1; i < 10; i += 4) {
        double p = i / 10.0, even = p * p + (1 - p) * (1 - p), wide = 4 * sqrt(0.25 / COUNT);
        assert_ok(dea_dropout(x, y, COUNT, p, 1, 2, 3));
        assert_near(rate_of(y, COUNT), p, wide);
        assert_near(rate_of(y + COUNT / 2, COUNT / 2), p, 2 * wide);
        for (size_t c = 0; c < COUNT; ++c)
            if (y[c] != 0) assert_near(y[c], x[c] / (1 - p), 1e-12);
        memcpy(z, x, COUNT * sizeof *x);
        assert_ok(dea_dropout(z, z, COUNT, p, 1, 2, 3)); /* in place, the same mask */
        assert_same_bits(z, y, COUNT);
        static const uint64_t others[][3] = {{2, 2, 3}, {1, 3, 3}, {1, 2, 4}, {2, 1, 3}, {1, 3, 2}, {3, 2, 1}};
        for (int o = 0; o < LENGTH(others); ++o) { /* seed, step and stream each make another mask */
            assert_ok(dea_dropout(x, z, COUNT, p, others[o][0], others[o][1], others[o][2]));
            assert_near(agreement(y, z, COUNT), even, wide);
        }
        assert_near(agreement(y, y + 65536, 65536), even, 2 * wide); /* it does not repeat */
        assert_near(agreement(y, y + 1, 100000), even, 2 * wide);
    }
    assert_ok(dea_dropout(x, y, COUNT, 0, 1, 2, 3));
    assert_same_bits(y, x, COUNT);
    assert_ok(dea_dropout(x, y, 100, 0.5, 1, 2, 3)); /* a shorter call has the same mask */
    assert_ok(dea_dropout(x, z, COUNT, 0.5, 1, 2, 3));
    assert_same_bits(y, z, 100);
}

/* ---- embedding ------------------------------------------------------------------------------------------------------- */
static double embedding_loss(void *context) {
    part *p = context;
    assert_ok(dea_embedding_forward(p->w, p->ids, p->y, p->rows, p->in, p->out, p->number));
    return dot(p->y, p->dy, (size_t)p->rows * (size_t)p->out);
}

static void test_embedding(void **state) {
    (void)state;
    static const int ids[6] = {4, 0, 2, 4, 4, 1}; /* 4 thrice, 3 never */
    seed_numbers(48);
    part p = {NULL, take_gauss(15, 1), NULL, take_reals(18), take_gauss(18, 1), 6, 5, 3, ids, 1.75};
    dea_real *dtable = take_gauss(15, 1), *before = take_copy(dtable, 15);
    embedding_loss(&p);
    for (int r = 0; r < 6; ++r)
        for (int c = 0; c < 3; ++c) assert_near(p.y[r * 3 + c], 1.75 * p.w[ids[r] * 3 + c], 1e-15);
    assert_ok(dea_embedding_backward(ids, p.dy, dtable, 6, 5, 3, 1.75));
    for (int i = 0; i < 15; ++i) dtable[i] -= before[i];
    assert_true(dtable[9] == 0 && dtable[10] == 0 && dtable[11] == 0);
    check_gradient("table", embedding_loss, &p, p.w, dtable, 15);
}

/* ---- cross entropy --------------------------------------------------------------------------------------------------- */
static double entropy_loss(void *context) {
    part *p = context;
    double loss;
    assert_ok(dea_cross_entropy_forward(p->x, p->ids, &loss, NULL, p->rows, p->in, p->number));
    return 0.7 * loss;
}

static void test_cross_entropy(void **state) {
    (void)state;
    static const int targets[5] = {2, -1, 0, 3, -5};
    static const double smoothings[] = {0, 0.1, 0.5, 1};
    seed_numbers(49);
    for (int s = 0; s < LENGTH(smoothings); ++s) {
        double e = smoothings[s], loss = -1, expected = 0;
        int counted = -1;
        part p = {take_gauss(20, 2), NULL, NULL, NULL, NULL, 5, 4, 0, targets, e};
        assert_ok(dea_cross_entropy_forward(p.x, targets, &loss, &counted, 5, 4, e));
        for (int r = 0; r < 5; ++r) {
            double sum = 0;
            if (targets[r] < 0) continue;
            for (int c = 0; c < 4; ++c) sum += exp(p.x[4 * r + c]);
            for (int c = 0; c < 4; ++c)
                expected -= (e / 4 + (c == targets[r] ? 1 - e : 0)) * (p.x[4 * r + c] - log(sum)) / 3;
        }
        assert_near(loss, expected, 1e-13);
        assert_int_equal(counted, 3);
        dea_real *dx = take_reals(20), *in_place = take_copy(p.x, 20);
        assert_ok(dea_cross_entropy_backward(p.x, targets, 0.7, dx, 5, 4, e));
        assert_true(all_zero(dx + 4, 4) && all_zero(dx + 16, 4));
        check_gradient("logits", entropy_loss, &p, p.x, dx, 20);
        assert_ok(dea_cross_entropy_backward(in_place, targets, 0.7, in_place, 5, 4, e));
        assert_same_bits(in_place, dx, 20);
    }
}

static void test_cross_entropy_at_extremes(void **state) {
    (void)state;
    static const int first[3] = {0, 0, 0};
    dea_real x[9] = {1e4, -1e4, 0, -1e4, 1e4, 0, 1e15, 1e15, -1e300}, dx[9];
    double loss = -1;
    assert_ok(dea_cross_entropy_forward(x, first, &loss, NULL, 3, 3, 0));
    assert_near(loss, (0 + 2e4 + log(2)) / 3, 1e-11); /* log 2 beside 1e15 keeps its digits */
    assert_ok(dea_cross_entropy_backward(x, first, 3, dx, 3, 3, 0));
    static const double expected[9] = {0, 0, 0, -1, 1, 0, -0.5, 0.5, 0};
    for (int i = 0; i < 9; ++i) assert_near(dx[i], expected[i], 1e-15);
    dea_real huge[3] = {1e17, 1e17, 1e17};
    for (int smooth = 0; smooth < 2; ++smooth) { /* equal logits: log 3, however large they are */
        assert_ok(dea_cross_entropy_forward(huge, first, &loss, NULL, 1, 3, 0.3 * smooth));
        assert_near(loss, log(3), 1e-15);
        assert_ok(dea_cross_entropy_backward(huge, first, 1, dx, 1, 3, 0));
        for (int c = 0; c < 3; ++c) assert_near(dx[c], 1.0 / 3 - (c == 0), 1e-15);
    }
    dea_real minus[2] = {0, -(double)INFINITY}; /* a forbidden class */
    assert_ok(dea_cross_entropy_forward(minus, first, &loss, NULL, 1, 2, 0));
    assert_near(loss, 0, 0);
}

static void test_cross_entropy_of_nothing(void **state) {
    (void)state;
    static const int none[3] = {-1, -1, -1};
    dea_real x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, dx[9];
    double loss = -1;
    int counted = -1;
    memset(dx, 0xff, sizeof dx);
    assert_ok(dea_cross_entropy_forward(x, none, &loss, &counted, 3, 3, 0.1));
    assert_true(loss == 0 && counted == 0);
    assert_ok(dea_cross_entropy_backward(x, none, 1, dx, 3, 3, 0.1));
    assert_true(all_zero(dx, 9));
}

/* ---- threads --------------------------------------------------------------------------------------------------------- */
static void test_thread_count_changes_no_bit(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 5};
    enum { ROWS = 211, IN = 23, OUT = 17, MANY = 30011 };
    seed_numbers(50);
    part p = draw_linear(ROWS, IN, OUT, 1);
    dea_real *gain = take_gauss(IN, 1), *bias = take_gauss(IN, 1), *big = take_gauss(MANY, 2),
             *dbig = take_gauss(MANY, 1);
    dea_real *norm_dy = take_gauss(ROWS * IN, 1), *expected[11];
    static const size_t sizes[11] = {ROWS * OUT, ROWS * IN, OUT * IN, OUT,  ROWS * IN, 2 * ROWS,
                                     ROWS * IN,  IN,        IN,       MANY, MANY};
    for (int run = 0; run < 2 * LENGTH(counts); ++run) {
        dea_threads threads = {counts[run / 2], run % 2 ? run_in_threads : run_backwards, NULL};
        dea_real *out[11];
        for (int i = 0; i < 11; ++i) out[i] = take_zeros(sizes[i]);
        assert_ok(dea_linear_forward(p.x, p.w, p.b, out[0], ROWS, IN, OUT, &threads));
        assert_ok(dea_linear_backward(p.x, p.w, p.dy, out[1], out[2], out[3], ROWS, IN, OUT, &threads));
        assert_ok(dea_layer_norm_forward(p.x, gain, bias, out[4], out[5], ROWS, IN, 1e-5, &threads));
        assert_ok(dea_layer_norm_backward(p.x, gain, out[5], norm_dy, out[6], out[7], out[8], ROWS, IN, &threads));
        assert_ok(dea_gelu_forward(big, out[9], MANY, &threads));
        assert_ok(dea_gelu_backward(big, dbig, out[10], MANY, &threads));
        for (int i = 0; i < 11; ++i) {
            if (run == 0) expected[i] = out[i];
            assert_same_bits(out[i], expected[i], sizes[i]);
        }
    }
    for (int i = 0; i < MANY; ++i) assert_near(expected[9][i], big[i] * 0.5 * erfc(-big[i] / sqrt(2)), 1e-14);
}

#define TEST(name) cmocka_unit_test_teardown(name, release)

int main(void) {
    static const struct CMUnitTest tests[] = {
        TEST(test_linear),
        TEST(test_linear_gradients_are_optional),
        TEST(test_layer_norm),
        TEST(test_layer_norm_in_place_and_flat),
        TEST(test_layer_norm_at_extremes),
        TEST(test_gelu),
        TEST(test_tanh),
        TEST(test_dropout),
        TEST(test_embedding),
        TEST(test_cross_entropy),
        TEST(test_cross_entropy_at_extremes),
        TEST(test_cross_entropy_of_nothing),
        TEST(test_thread_count_changes_no_bit),
    };
    return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}

/* Helpers of the test suites: memory freed after each test, numbers from a seed, attention problems drawn with any set of
 * options, central differences, comparisons. Include after dea.h, in one cmocka program. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- memory ---------------------------------------------------------------------------------------------------------- */
/* Each piece is its own block, so that sanitizers see every overrun, and starts out as NaN: nobody may count on zeros. */
static void *taken[1 << 16];
static int taken_count;

static inline void *take(size_t bytes) {
    void *p = NULL;
    assert_true(taken_count < LENGTH(taken));
    assert_int_equal(posix_memalign(&p, DEA_ALIGNMENT, bytes ? bytes : 1), 0);
    memset(p, 0xff, bytes);
    return taken[taken_count++] = p;
}

static inline dea_real *take_reals(size_t count) {
    return (dea_real *)take(count * sizeof(dea_real));
}

static inline dea_real *take_zeros(size_t count) {
    dea_real *x = take_reals(count);
    for (size_t i = 0; i < count; ++i) x[i] = 0;
    return x;
}

static inline int *take_ints(size_t count) {
    return (int *)take(count * sizeof(int));
}

/* Teardown of every test. */
static inline int release(void **state) {
    (void)state;
    while (taken_count > 0) free(taken[--taken_count]);
    return 0;
}

/* ---- numbers --------------------------------------------------------------------------------------------------------- */
static uint64_t number_state;

static inline void seed_numbers(uint64_t seed) {
    number_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static inline uint64_t next_bits(void) { /* splitmix64 */
    uint64_t z = (number_state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline double uniform(double low, double high) {
    return low + (high - low) * (double)(next_bits() >> 11) * 0x1p-53;
}

static inline int below(int n) {
    return (int)(next_bits() % (uint64_t)n);
}

static inline double gauss(void) {
    double u = uniform(0x1p-53, 1), w = uniform(0, 1);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * w);
}

static inline dea_real *fill_gauss(dea_real *x, size_t count, double scale) {
    for (size_t i = 0; i < count; ++i) x[i] = (dea_real)(scale * gauss());
    return x;
}

static inline dea_real *take_gauss(size_t count, double scale) {
    return fill_gauss(take_reals(count), count, scale);
}

static inline dea_real *take_copy(const dea_real *x, size_t count) {
    dea_real *y = take_reals(count);
    memcpy(y, x, count * sizeof *x);
    return y;
}

/* An alpha label by the bands' masses. */
static inline dea_real draw_alpha(void) {
    double band = uniform(0, 1);
    return (dea_real)(band < 0.45 ? uniform(0, 0.05) : band < 0.70 ? uniform(0.15, 0.30) : uniform(0.75, 0.95));
}

/* ---- comparisons ----------------------------------------------------------------------------------------------------- */
#define assert_status(call, expected)                                                                                  \
    do {                                                                                                               \
        dea_status status_ = (call);                                                                                   \
        if (status_ != (expected)) {                                                                                   \
            print_error("%s: %s\n  expected: %s\n", #call, dea_status_string(status_), dea_status_string(expected));   \
            assert_int_equal(status_, (expected));                                                                     \
        }                                                                                                              \
    } while (0)
#define assert_ok(call) assert_status(call, DEA_OK)

#define assert_same_bits(x, y, count) assert_memory_equal((x), (y), (count) * sizeof *(x))

#define assert_near(x, y, tolerance)                                                                                   \
    do {                                                                                                               \
        double x_ = (double)(x), y_ = (double)(y);                                                                     \
        if (!(fabs(x_ - y_) <= (tolerance))) {                                                                         \
            print_error("%s = %.17g, %s = %.17g\n", #x, x_, #y, y_);                                                   \
            fail();                                                                                                    \
        }                                                                                                              \
    } while (0)

/* Largest |x - y| over largest |y| (absolute where y is all but 0); infinite if anything is NaN. */
static inline double relative_error(const dea_real *x, const dea_real *y, size_t count) {
    double worst = 0, scale = 0;
    for (size_t i = 0; i < count; ++i) {
        double e = fabs((double)x[i] - (double)y[i]), s = fabs((double)y[i]);
        if (!(e < INFINITY)) return INFINITY;
        if (e > worst) worst = e;
        if (s > scale) scale = s;
    }
    return scale < 1e-30 ? worst : worst / scale;
}

#define assert_close(x, y, count, tolerance)                                                                           \
    do {                                                                                                               \
        double e_ = relative_error((x), (y), (count));                                                                 \
        if (!(e_ <= (tolerance))) {                                                                                    \
            print_error("%s against %s: relative error %.3g\n", #x, #y, e_);                                           \
            fail();                                                                                                    \
        }                                                                                                              \
    } while (0)

static inline int all_zero(const dea_real *x, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (x[i] != 0) return 0;
    return 1;
}

static inline int all_finite(const dea_real *x, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (!isfinite((double)x[i])) return 0;
    return 1;
}

/* ---- central differences --------------------------------------------------------------------------------------------- */
typedef double scalar_function(void *context);

/* Fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h. */
static inline double slope(scalar_function *f, void *context, dea_real *x, double h) {
    dea_real keep = *x;
    double near2, far2;
    *x = (dea_real)((double)keep + h), near2 = f(context);
    *x = (dea_real)((double)keep - h), near2 -= f(context);
    *x = (dea_real)((double)keep + 2 * h), far2 = f(context);
    *x = (dea_real)((double)keep - 2 * h), far2 -= f(context);
    *x = keep;
    return (8 * near2 - far2) / (12 * h);
}

/* Collects the comparison of one tensor's gradient, element by element. */
typedef struct gradient_check {
    const char *name;
    double worst, scale;
} gradient_check;

static inline void check_element(gradient_check *c, double numeric, double analytic) {
    double e = fabs(numeric - analytic);
    if (!(e <= c->worst)) c->worst = e; /* a NaN sticks */
    if (fabs(analytic) > c->scale) c->scale = fabs(analytic);
    if (fabs(numeric) > c->scale) c->scale = fabs(numeric);
}

/* 1e-6 of the largest element; below 1e-3 the rounding of the differences themselves sets the limit. */
static inline void check_end(const gradient_check *c) {
    double limit = 1e-6 * (c->scale > 1e-3 ? c->scale : 1e-3);
    if (!(c->worst <= limit)) {
        print_error("gradient of %s: error %.3g, largest element %.3g\n", c->name, c->worst, c->scale);
        fail();
    }
}

/* Checks a contiguous gradient of f by x. */
static inline void check_gradient(const char *name, scalar_function *f, void *context, dea_real *x,
                                  const dea_real *gradient, size_t count) {
    gradient_check c = {name, 0, 0};
    for (size_t i = 0; i < count; ++i) check_element(&c, slope(f, context, &x[i], 1e-4), (double)gradient[i]);
    check_end(&c);
}

/* ---- attention problems ---------------------------------------------------------------------------------------------- */
enum {
    LENGTHS = 1,      /* key lengths by batch row */
    CAUSAL = 2,       /* */
    CROSS = 4,        /* seq_k = seq_q + 2 */
    FUSED = 8,        /* q, k, v inside one [B,T,3,H,d], o as [B,T,H,d] */
    TEMPERATURE = 16, /* one a head, around 1.5 */
    DENSE = 32,       /* labels on half the cells, gamma 0.6 */
    BLOCKS = 64,      /* labels in blocks, gamma 0.6 */
    DROPOUT = 128,    /* 0.3 */
    EVERY_OPTION = 255
};

typedef struct problem {
    dea_attention a;
    dea_real *q, *k, *v, *w_rel, *w_gate, *c_gate, *temperature, *labels; /* what `a` points to, writable */
    int *key_lengths;
    dea_label_block *blocks;
    dea_strides qs, ks, os; /* strides resolved; v has those of k */
    dea_real *o, *saved, *d_o;
    size_t o_count, saved_count, map_count; /* map_count: B H Tq Tk */
    dea_gradients g;                        /* every gradient, parameters zeroed */
    size_t q_span, k_span;                  /* elements from a.q (a.k, a.v) to the end of its storage */
    size_t w_rel_count, w_gate_count;
    void *workspace; /* serves forward, backward and gate loss */
    size_t bytes;
} problem;

static inline dea_strides contiguous(int heads, int seq, int d) {
    dea_strides s = {(ptrdiff_t)heads * seq * d, (ptrdiff_t)seq * d, d};
    return s;
}

/* The row (b, h, t) of a tensor. */
static inline dea_real *row(const dea_real *x, dea_strides s, int b, int h, int t) {
    return (dea_real *)(uintptr_t)(x + b * s.batch + h * s.head + t * s.token);
}

static inline int keys_seen(const dea_attention *a, int b, int i) {
    int n = a->key_lengths ? a->key_lengths[b] : a->seq_k;
    return a->causal && i + 1 < n ? i + 1 : n;
}

static inline size_t larger(size_t x, size_t y) {
    return x > y ? x : y;
}

/* Workspace for every call on this problem as its options now stand. */
static inline void size_workspace(problem *p) {
    dea_gate gate = dea_gate_init();
    p->bytes = larger(dea_forward_workspace(&p->a), dea_backward_workspace(&p->a));
    if (p->a.labels || p->a.label_block_count) p->bytes = larger(p->bytes, dea_gate_loss_workspace(&p->a, &gate));
    assert_true(dea_forward_workspace(&p->a) > 0 && dea_backward_workspace(&p->a) > 0);
    p->workspace = take(p->bytes);
}

static inline void draw_labels(problem *p, int options) {
    const dea_attention *a = &p->a;
    if (options & DENSE) {
        size_t count = (size_t)a->batch * (size_t)a->seq_q * (size_t)a->seq_k;
        p->labels = take_reals(count);
        for (size_t i = 0; i < count; ++i) p->labels[i] = uniform(0, 1) < 0.5 ? draw_alpha() : (dea_real)NAN;
        p->a.labels = p->labels;
    }
    if (options & BLOCKS) { /* two rectangles a batch row, in no order, that leave cells without label */
        p->blocks = (dea_label_block *)take(2 * (size_t)a->batch * sizeof *p->blocks);
        p->a.label_blocks = p->blocks, p->a.label_block_count = 0;
        for (int b = a->batch - 1; b >= 0; --b) {
            int q_mid = (a->seq_q + 1) / 2, k_mid = (a->seq_k + 1) / 2;
            dea_label_block low = {b, 0, q_mid, 0, k_mid, draw_alpha()};
            dea_label_block high = {b, q_mid - 1, a->seq_q, k_mid, a->seq_k, draw_alpha()};
            if (k_mid < a->seq_k) p->blocks[p->a.label_block_count++] = high;
            p->blocks[p->a.label_block_count++] = low;
        }
    }
    p->a.gamma = (dea_real)0.6;
}

static inline dea_gradients take_gradients(const problem *p) {
    dea_gradients g;
    memset(&g, 0, sizeof g);
    const dea_attention *a = &p->a;
    size_t model = (size_t)a->heads * (size_t)a->head_dim;
    if (a->q_strides.token) { /* fused, like the inputs */
        g.dq = take_reals(p->q_span), g.dk = g.dq + model, g.dv = g.dk + model;
    } else {
        g.dq = take_reals(p->q_span), g.dk = take_reals(p->k_span), g.dv = take_reals(p->k_span);
    }
    g.dw_rel = take_zeros(p->w_rel_count);
    g.dw_gate = take_zeros(p->w_gate_count), g.dc_gate = take_zeros((size_t)a->heads);
    if (a->temperature) g.dtemperature = take_zeros((size_t)a->heads);
    return g;
}

/* Random inputs, parameters and cotangent for these options; every path of the header can be asked for. */
static inline problem draw_problem(int options, int batch, int heads, int seq_q, int head_dim, dea_path path) {
    problem p;
    memset(&p, 0, sizeof p);
    p.a = dea_attention_init(batch, heads, seq_q, head_dim);
    dea_attention *a = &p.a;
    a->path = path;
    a->threads.count = 1, a->threads.run = NULL;
    if (options & CROSS) a->seq_k = seq_q + 2;
    a->causal = (options & CAUSAL) != 0;
    size_t B = (size_t)batch, H = (size_t)heads, Tq = (size_t)seq_q, Tk = (size_t)a->seq_k, d = (size_t)head_dim;
    p.qs = p.os = contiguous(heads, seq_q, head_dim), p.ks = contiguous(heads, a->seq_k, head_dim);
    p.q_span = B * H * Tq * d, p.k_span = B * H * Tk * d;
    p.o_count = B * H * Tq * d, p.map_count = B * H * Tq * Tk;
    if (options & FUSED) {
        int seq = seq_q > a->seq_k ? seq_q : a->seq_k, model = heads * head_dim;
        dea_strides s = {(ptrdiff_t)seq * 3 * model, head_dim, 3 * model};
        dea_strides o = {(ptrdiff_t)seq_q * model, head_dim, model};
        p.q_span = B * (size_t)seq * 3 * H * d, p.k_span = p.q_span;
        p.q = take_gauss(p.q_span, 1), p.k = p.q + model, p.v = p.k + model;
        p.qs = p.ks = a->q_strides = a->k_strides = a->v_strides = s;
        p.os = a->o_strides = o;
    } else {
        p.q = take_gauss(p.q_span, 1), p.k = take_gauss(p.k_span, 1), p.v = take_gauss(p.k_span, 1);
    }
    p.w_rel_count = H * d * d, p.w_gate_count = H * (2 * d + 2);
    p.w_rel = take_gauss(p.w_rel_count, 1 / sqrt((double)head_dim));
    p.w_gate = take_gauss(p.w_gate_count, 0.3);
    p.c_gate = take_reals(H);
    for (size_t h = 0; h < H; ++h) p.c_gate[h] = (dea_real)(-0.5 + 0.1 * gauss());
    a->q = p.q, a->k = p.k, a->v = p.v, a->w_rel = p.w_rel, a->w_gate = p.w_gate, a->c_gate = p.c_gate;
    if (options & TEMPERATURE) {
        p.temperature = take_reals(H);
        for (size_t h = 0; h < H; ++h) p.temperature[h] = (dea_real)uniform(0.8, 2.5);
        a->temperature = p.temperature;
    }
    if (options & LENGTHS) {
        p.key_lengths = take_ints(B);
        for (int b = 0; b < batch; ++b) p.key_lengths[b] = b % 2 ? a->seq_k : (a->seq_k + 2) / 2;
        a->key_lengths = p.key_lengths;
    }
    if (options & (DENSE | BLOCKS)) draw_labels(&p, options);
    if (options & DROPOUT) a->dropout = (dea_real)0.3, a->seed = 7, a->step = 11;
    p.saved_count = dea_saved_count(a);
    p.saved = take_reals(p.saved_count);
    p.o = take_reals(p.o_count), p.d_o = take_gauss(p.o_count, 1);
    p.g = take_gradients(&p);
    size_workspace(&p);
    return p;
}

/* The same labels as a dense map. */
static inline dea_real *dense_labels(const dea_attention *a) {
    size_t count = (size_t)a->batch * (size_t)a->seq_q * (size_t)a->seq_k;
    if (a->labels) return take_copy(a->labels, count);
    dea_real *x = take_reals(count);
    for (size_t i = 0; i < count; ++i) x[i] = (dea_real)NAN;
    for (size_t n = 0; n < a->label_block_count; ++n) {
        const dea_label_block *e = &a->label_blocks[n];
        for (int i = e->q_begin; i < e->q_end; ++i)
            for (int j = e->k_begin; j < e->k_end; ++j)
                x[((size_t)e->batch * (size_t)a->seq_q + (size_t)i) * (size_t)a->seq_k + (size_t)j] = e->alpha;
    }
    return x;
}

static inline void forward(problem *p) {
    assert_ok(dea_forward(&p->a, p->o, p->saved, p->workspace, p->bytes));
}

static inline void backward(problem *p) {
    assert_ok(dea_backward(&p->a, p->o, p->saved, p->d_o, &p->g, p->workspace, p->bytes));
}

static inline dea_gate_result gate_loss(problem *p, const dea_gate *gate) {
    dea_gate_result r;
    size_t bytes = dea_gate_loss_workspace(&p->a, gate);
    assert_true(bytes > 0);
    if (bytes > p->bytes) p->workspace = take(p->bytes = bytes);
    assert_ok(dea_gate_loss(&p->a, gate, p->saved, &p->g, &r, p->workspace, p->bytes));
    return r;
}

/* Asks for every map. */
static inline void take_maps(problem *p) {
    dea_maps m = {take_reals(p->map_count), take_reals(p->map_count), take_reals(p->map_count),
                  take_reals(p->map_count), take_reals(p->map_count), take_reals(p->map_count)};
    p->a.maps = m;
    size_workspace(p);
}

/* Whether this build has the path at all. */
static inline int path_built(dea_path path) {
    dea_attention a = dea_attention_init(1, 1, 1, 1);
    dea_real one = 1, gate[4] = {0}, o;
    a.q = a.k = a.v = a.w_rel = a.c_gate = &one, a.w_gate = gate;
    a.threads.count = 1, a.threads.run = NULL;
    a.path = path;
    size_t bytes = dea_forward_workspace(&a);
    if (!bytes) return 0;
    void *workspace = NULL;
    if (posix_memalign(&workspace, DEA_ALIGNMENT, bytes)) return 0;
    dea_status status = dea_forward(&a, &o, NULL, workspace, bytes);
    free(workspace);
    return status == DEA_OK;
}

/* Runs a suite on the plain path, and again on the fast path where this build has it. Compiled with TEST_PATH one path runs
 * alone: mutants of one path need not wait for the other. */
static inline int run_paths(int (*run_path)(const char *name, dea_path which)) {
#ifdef TEST_PATH
    return run_path("one path", TEST_PATH);
#else
    int failed = run_path("plain path", DEA_PATH_PLAIN);
    if (path_built(DEA_PATH_FAST)) return failed + run_path("fast path", DEA_PATH_FAST);
    print_message("fast path: not run: not built\n");
    return failed;
#endif
}

/* A name for messages. */
static inline const char *options_text(int options) {
    static char text[128];
    static const char *const names[] = {"lengths",     "causal", "cross",  "fused",
                                        "temperature", "dense",  "blocks", "dropout"};
    text[0] = 0;
    for (int i = 0; i < LENGTH(names); ++i)
        if (options >> i & 1) strcat(strcat(text, text[0] ? "+" : ""), names[i]);
    return text[0] ? text : "none";
}

/* Calls f for no option, every option, and every pair that makes sense. */
static inline void for_option_pairs(void (*f)(int options)) {
    f(0);
    for (int i = 1; i <= DROPOUT; i *= 2)
        for (int j = i; j <= DROPOUT; j *= 2) {
            int options = i | j;
            if ((options & DENSE) && (options & BLOCKS)) continue;
            f(options);
        }
}

#endif

/* Meta-attention: the golden values, central differences over every tensor, what must be true (2.8), sizes, bad input, any
 * number of threads. In double; test_meta_float.c runs the same in float, where differences are not taken. */
#ifndef META_FLOAT
#    define DEA_REAL double
#endif
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"
#include "golden.h"
#include "support.h"
#include "thread_hooks.h"

#define TOLERANCE (sizeof(dea_real) == sizeof(double) ? 1e-11 : 2e-5)

/* ---- golden values --------------------------------------------------------------------------------------------------- */
static void check_golden(const char *name, int tensors) {
    char path[128];
    snprintf(path, sizeof path, "tests/golden/meta/%s.txt", name);
    golden_file *f = golden_read(path);
    assert_non_null(f);
    golden_score s = {0, 0, "", 0, ""};
    if (f->error[0]) print_error("%s: %s\n", path, f->error);
    assert_true(f->error[0] == 0);
    const golden_kind *kind = golden_kind_of(f);
    assert_non_null(kind);
    kind->check(f, DEA_PATH_AUTO, DEA_PATH_AUTO, &s);
    if (s.problem[0]) print_error("%s: %s\n", name, s.problem);
    assert_true(s.problem[0] == 0);
    assert_int_equal(s.compared, tensors);
    golden_free(f);
}

static void test_golden_encoders(void **state) {
    (void)state;
    check_golden("encoder_linear", 14);
    check_golden("encoder_transformer", 27);
    check_golden("confidence_head", 9);
}

static void test_golden_blocks(void **state) {
    (void)state;
    static const char *const names[] = {"block_t1",        "block_t7_padded", "block_t19_padded",
                                        "block_one_token", "block_peaked",    "block_gate_zero"};
    for (int i = 0; i < LENGTH(names); ++i) check_golden(names[i], 13);
}

static void test_golden_two_passes(void **state) {
    (void)state;
    check_golden("two_pass_tiny", 28);
    check_golden("two_pass_subset", 28);
}

/* A harmed file is noticed. */
static void test_golden_can_fail(void **state) {
    (void)state;
    golden_file *f = golden_read("tests/golden/meta/block_t1.txt");
    golden_score s = {0, 0, "", 0, ""};
    f->tensors[golden_find(f, "dq_w") - f->tensors].data[3] += 1e-3;
    golden_check_meta(f, DEA_PATH_AUTO, DEA_PATH_AUTO, &s);
    assert_true(strstr(s.problem, "dq_w") != NULL);
    golden_free(f);
}

/* ---- problems -------------------------------------------------------------------------------------------------------- */
enum { MOST_TENSORS = 64 };

typedef struct model {
    dea_tensor tensors[MOST_TENSORS];
    dea_table table;
    dea_real *params, *grads;
} model;

/* Parameters away from their initial values, so that none is special. */
static void draw_parameters(model *m) {
    m->params = take_zeros(m->table.elements), m->grads = take_zeros(m->table.elements);
    for (int i = 0; i < m->table.count; ++i) {
        const dea_tensor *t = &m->table.tensors[i];
        dea_real *x = m->params + t->offset;
        const int last = t->shape[t->rank - 1];
        fill_gauss(x, t->count, t->decay ? 1 / sqrt((double)last) : 0.3);
        const char *end = strrchr(t->name, '_');
        if (end && !strcmp(end, "_w") && !t->decay)
            for (size_t k = 0; k < t->count; ++k) x[k] += 1;
    }
}

static void clear(model *m) {
    memset(m->grads, 0, m->table.elements * sizeof *m->grads);
}

/* Every registered tensor's gradient against central differences of f. */
static void check_tensors(model *m, scalar_function *f, void *context) {
    for (int i = 0; i < m->table.count; ++i) {
        const dea_tensor *t = &m->table.tensors[i];
        check_gradient(t->name, f, context, m->params + t->offset, m->grads + t->offset, t->count);
    }
}

static double weigh(const dea_real *x, const dea_real *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += (double)x[i] * (double)y[i];
    return sum;
}

typedef struct encoding {
    model m;
    dea_meta_encoder e;
    int batch;
    size_t count;
    dea_real *act, *cog, *dcog, *cache;
    void *workspace;
    size_t bytes;
    const dea_threads *threads;
} encoding;

static void draw_encoding(encoding *p, int batch, int layers, int width, int bottleneck, int blocks, int heads) {
    memset(p, 0, sizeof *p);
    p->e = dea_meta_encoder_init(layers, width);
    p->e.bottleneck = bottleneck, p->e.blocks = blocks, p->e.heads = heads;
    p->batch = batch;
    p->m.table = dea_table_init(p->m.tensors, MOST_TENSORS);
    assert_ok(dea_meta_encoder_register(&p->e, &p->m.table, "enc_"));
    draw_parameters(&p->m);
    p->count = (size_t)batch * (size_t)layers * (size_t)width;
    p->act = take_gauss(p->count, 2), p->cog = take_reals(p->count), p->dcog = take_gauss(p->count, 1);
    p->cache = take_reals(dea_meta_encoder_cache_count(&p->e, batch));
    p->bytes = dea_meta_encoder_workspace(&p->e, batch);
    p->workspace = take(p->bytes);
}

static void encode(encoding *p) {
    assert_ok(dea_meta_encoder_forward(&p->e, p->m.params, p->act, p->batch, p->cog, p->cache, p->workspace, p->bytes,
                                       p->threads));
}

static void encode_backward(encoding *p) {
    assert_ok(dea_meta_encoder_backward(&p->e, p->m.params, p->act, p->batch, p->cache, p->dcog, p->m.grads,
                                        p->workspace, p->bytes, p->threads));
}

static double encoding_loss(void *context) {
    encoding *p = context;
    encode(p);
    return weigh(p->cog, p->dcog, p->count);
}

typedef struct blocking {
    model m;
    dea_meta_blocks b;
    dea_meta_sequences s;
    int index;
    size_t x_count, cog_count, kv_count;
    dea_real *x, *y, *dy, *dx, *cog, *dcog, *kv, *dkv, *cache;
    int *lengths;
    void *workspace;
    size_t bytes;
} blocking;

/* Block 1 of 2; padded: the first sequence is full, the second empty, the others in between. */
static void draw_blocking(blocking *p, int batch, int seq, int tokens, int width, int bottleneck, int heads, int padded,
                          int dual) {
    memset(p, 0, sizeof *p);
    p->b = dea_meta_blocks_init(2, tokens, width);
    p->b.bottleneck = bottleneck, p->b.heads = heads, p->b.dual_expert = dual;
    p->m.table = dea_table_init(p->m.tensors, MOST_TENSORS);
    assert_ok(dea_meta_blocks_register(&p->b, &p->m.table, "blk_"));
    draw_parameters(&p->m);
    p->index = 1;
    p->x_count = (size_t)batch * (size_t)seq * (size_t)width,
    p->cog_count = (size_t)batch * (size_t)tokens * (size_t)width;
    p->kv_count = dea_meta_keys_count(&p->b, batch);
    p->x = take_gauss(p->x_count, 1), p->y = take_reals(p->x_count);
    p->dy = take_gauss(p->x_count, 1), p->dx = take_reals(p->x_count);
    p->cog = take_gauss(p->cog_count, 1), p->dcog = take_reals(p->cog_count);
    p->kv = take_reals(p->kv_count), p->dkv = take_zeros(p->kv_count);
    if (padded) {
        p->lengths = take_ints((size_t)batch);
        for (int b = 0; b < batch; ++b) p->lengths[b] = b == 0 ? seq : b == 1 ? 0 : 1 + b % seq;
    }
    p->s = dea_meta_sequences_init(batch, seq, p->lengths, p->kv);
    p->s.threads.count = 1;
    p->cache = take_reals(dea_meta_block_cache_count(&p->b, &p->s));
    p->bytes = dea_meta_block_workspace(&p->b, &p->s);
    p->workspace = take(p->bytes);
}

static void attend_forward(blocking *p) {
    assert_ok(dea_meta_keys_forward(&p->b, p->m.params, p->cog, p->s.batch, p->kv, &p->s.threads));
    assert_ok(
        dea_meta_block_forward(&p->b, p->m.params, &p->s, p->index, p->x, p->y, p->cache, p->workspace, p->bytes));
}

static void attend_backwards(blocking *p) {
    const size_t r = (size_t)p->b.bottleneck; /* the block's own part of dkv is written, whatever stood there */
    for (size_t i = 0; i < p->kv_count; ++i)
        if (i / r % (size_t)p->b.count == (size_t)p->index) p->dkv[i] = (dea_real)NAN;
    assert_ok(dea_meta_block_backward(&p->b, p->m.params, &p->s, p->index, p->x, p->cache, p->dy, p->dx, p->dkv,
                                      p->m.grads, p->workspace, p->bytes));
    assert_ok(
        dea_meta_keys_backward(&p->b, p->m.params, p->cog, p->dkv, p->s.batch, p->dcog, p->m.grads, &p->s.threads));
}

static double blocking_loss(void *context) {
    blocking *p = context;
    attend_forward(p);
    return weigh(p->y, p->dy, p->x_count);
}

/* Where a tensor's own part for this block lies. */
static dea_real *own(const blocking *p, dea_real *arena, const char *name, size_t *count) {
    const dea_tensor *t = dea_table_find(&p->m.table, name);
    assert_non_null(t);
    *count = t->count / (size_t)p->b.count;
    return arena + t->offset + (size_t)p->index * *count;
}

typedef struct judgement {
    model m;
    dea_meta_confidence c;
    int batch;
    size_t rows;
    dea_real *act, *u, *du, *cache;
    int right[16];
    void *workspace;
    size_t bytes;
    const dea_threads *threads;
} judgement;

static void draw_judgement(judgement *p, int batch, int layers, int width, int bottleneck) {
    memset(p, 0, sizeof *p);
    p->c = dea_meta_confidence_init(layers, width);
    p->c.bottleneck = bottleneck;
    p->batch = batch;
    p->m.table = dea_table_init(p->m.tensors, MOST_TENSORS);
    assert_ok(dea_meta_confidence_register(&p->c, &p->m.table, "conf_"));
    draw_parameters(&p->m);
    p->rows = (size_t)batch * (size_t)layers;
    p->act = take_gauss(p->rows * (size_t)width, 2), p->u = take_reals(p->rows), p->du = take_reals(p->rows);
    p->cache = take_reals(dea_meta_confidence_cache_count(&p->c, batch));
    p->bytes = dea_meta_confidence_workspace(&p->c, batch);
    p->workspace = take(p->bytes);
    for (int i = 0; i < batch; ++i) p->right[i] = i % 3 != 0;
}

static double judgement_loss(void *context) {
    judgement *p = context;
    double loss;
    assert_ok(dea_meta_confidence_forward(&p->c, p->m.params, p->act, p->batch, p->u, p->cache, p->workspace, p->bytes,
                                          p->threads));
    assert_ok(dea_meta_confidence_loss(p->u, p->right, p->batch, p->c.layers, &loss, NULL, 0.75, p->du));
    return 0.75 * loss;
}

static void judge_backward(judgement *p) {
    assert_ok(dea_meta_confidence_backward(&p->c, p->m.params, p->act, p->batch, p->cache, p->du, p->m.grads,
                                           p->workspace, p->bytes, p->threads));
}

/* ---- central differences ---------------------------------------------------------------------------------------------- */
static void test_encoder_gradients(void **state) {
    (void)state;
    static const int shapes[][6] = {{3, 2, 6, 4, 0, 1}, {1, 3, 5, 1, 0, 1}, {2, 3, 5, 6, 2, 3}, {1, 1, 4, 4, 1, 2}};
    if (sizeof(dea_real) != sizeof(double)) skip();
    for (int i = 0; i < LENGTH(shapes); ++i) {
        encoding p;
        const int *n = shapes[i];
        draw_encoding(&p, n[0], n[1], n[2], n[3], n[4], n[5]);
        if (n[4] == 0) { /* so small that LN_out does not quite cancel them */
            p.m.params[p.e.gate] = (dea_real)0.03;
            if (n[1] > 1) p.m.params[p.e.gate + 1] = (dea_real)-0.02;
        }
        encode(&p);
        encode_backward(&p);
        check_tensors(&p.m, encoding_loss, &p);
    }
}

/* Gates near sqrt(1e-5) and a shut one, where the gradient is large and bends within 0.005: a small step, and both forms. */
static void test_small_gates(void **state) {
    (void)state;
    encoding p;
    draw_encoding(&p, 3, 3, 6, 4, 0, 1);
    p.m.params[p.e.gate] = (dea_real)0.004, p.m.params[p.e.gate + 1] = (dea_real)-0.002, p.m.params[p.e.gate + 2] = 0;
    encode(&p);
    encode_backward(&p);
    for (size_t i = 0; i < 3; ++i) {
        const double analytic = (double)p.m.grads[p.e.gate + i];
        assert_true(fabs(analytic) > 0.1);
        if (sizeof(dea_real) != sizeof(double)) continue;
        assert_near(slope(encoding_loss, &p, &p.m.params[p.e.gate + i], 1e-5), analytic, 1e-6 * fabs(analytic));
    }
}

static void check_blocking(int batch, int seq, int tokens, int width, int bottleneck, int heads, int padded, int dual) {
    blocking p;
    draw_blocking(&p, batch, seq, tokens, width, bottleneck, heads, padded, dual);
    attend_forward(&p);
    attend_backwards(&p);
    check_tensors(&p.m, blocking_loss, &p);
    check_gradient("x", blocking_loss, &p, p.x, p.dx, p.x_count);
    check_gradient("cog", blocking_loss, &p, p.cog, p.dcog, p.cog_count);
}

static void test_block_gradients(void **state) {
    (void)state;
    if (sizeof(dea_real) != sizeof(double)) skip();
    check_blocking(1, 1, 3, 5, 4, 2, 0, 0);
    check_blocking(2, 3, 4, 6, 6, 3, 0, 0);
    check_blocking(3, 4, 3, 5, 4, 1, 1, 0);
}

static void test_dual_expert_gradients(void **state) {
    (void)state;
    if (sizeof(dea_real) != sizeof(double)) skip();
    check_blocking(1, 2, 5, 5, 4, 2, 0, 1);
    check_blocking(3, 3, 4, 4, 6, 2, 1, 1);
}

static void test_confidence_gradients(void **state) {
    (void)state;
    judgement p;
    if (sizeof(dea_real) != sizeof(double)) skip();
    draw_judgement(&p, 4, 3, 5, 4);
    (void)judgement_loss(&p);
    judge_backward(&p);
    check_tensors(&p.m, judgement_loss, &p);
}

/* Gradients of parameters are added, those of activations written. */
static void test_gradients_accumulate(void **state) {
    (void)state;
    encoding e;
    blocking b;
    judgement j;
    draw_encoding(&e, 2, 3, 5, 6, 1, 3), encode(&e);
    draw_blocking(&b, 2, 3, 4, 6, 6, 3, 0, 1), attend_forward(&b);
    draw_judgement(&j, 4, 3, 5, 4), (void)judgement_loss(&j);
    model *const models[] = {&e.m, &b.m, &j.m};
    dea_real *once[3], *dx = NULL, *dcog = NULL;
    for (int round = 0; round < 2; ++round) {
        encode_backward(&e), attend_backwards(&b), judge_backward(&j);
        for (int k = 0; k < 3; ++k) {
            if (round == 0)
                once[k] = take_copy(models[k]->grads, models[k]->table.elements);
            else
                for (size_t i = 0; i < models[k]->table.elements; ++i) once[k][i] *= 2;
            assert_close(models[k]->grads, once[k], models[k]->table.elements, TOLERANCE);
        }
        if (round == 0) dx = take_copy(b.dx, b.x_count), dcog = take_copy(b.dcog, b.cog_count);
    }
    assert_same_bits(b.dx, dx, b.x_count);
    assert_same_bits(b.dcog, dcog, b.cog_count);
}

/* ---- what must be true ------------------------------------------------------------------------------------------------ */
/* 2.8 (2), (3): a gate of exactly 0 copies -0, infinity and NaN too; only the gate gets a gradient. */
static void test_gate_zero(void **state) {
    (void)state;
    for (int dual = 0; dual < 2; ++dual) {
        blocking p;
        size_t count;
        draw_blocking(&p, 3, 4, 3, 5, 4, 2, 1, dual);
        *own(&p, p.m.params, "blk_gate", &count) = 0;
        p.x[0] = (dea_real)-0.0, p.x[1] = (dea_real)1e-30;
        attend_forward(&p);
        assert_same_bits(p.y, p.x, p.x_count);
        attend_backwards(&p);
        assert_same_bits(p.dx, p.dy, p.x_count);
        assert_true(all_zero(p.dcog, p.cog_count) && all_zero(p.dkv, p.kv_count));
        dea_real *dgate = own(&p, p.m.grads, "blk_gate", &count);
        assert_true(*dgate != 0);
        *dgate = 0;
        assert_true(all_zero(p.m.grads, p.m.table.elements));
        p.x[2] = (dea_real)INFINITY, p.x[3] = (dea_real)NAN;
        assert_ok(dea_meta_block_forward(&p.b, p.m.params, &p.s, p.index, p.x, p.y, NULL, p.workspace, p.bytes));
        assert_same_bits(p.y, p.x, p.x_count);
    }
}

/* Padding is copied, its cotangent passes through, and neither it nor its cotangent reaches anything else, even as NaN. */
static void test_padding_is_inert(void **state) {
    (void)state;
    for (int dual = 0; dual < 2; ++dual) {
        blocking p;
        draw_blocking(&p, 4, 5, 3, 6, 4, 2, 1, dual);
        attend_forward(&p), attend_backwards(&p);
        dea_real *y = take_copy(p.y, p.x_count), *dcog = take_copy(p.dcog, p.cog_count);
        dea_real *grads = take_copy(p.m.grads, p.m.table.elements);
        const dea_real *a = dea_meta_block_weights(&p.b, &p.s, p.cache);
        for (int b = 0; b < 4; ++b)
            for (int t = p.lengths[b]; t < 5; ++t) {
                const size_t at = (size_t)(b * 5 + t) * 6;
                assert_same_bits(p.y + at, p.x + at, 6);
                assert_same_bits(p.dx + at, p.dy + at, 6);
                for (int h = 0; h < 2; ++h) assert_true(all_zero(a + ((b * 2 + h) * 5 + t) * 3, 3));
                for (size_t i = 0; i < 6; ++i) p.x[at + i] = p.dy[at + i] = (dea_real)NAN;
            }
        clear(&p.m);
        attend_forward(&p), attend_backwards(&p);
        assert_same_bits(dcog, p.dcog, p.cog_count);
        assert_same_bits(grads, p.m.grads, p.m.table.elements);
        for (int b = 0; b < 4; ++b) assert_same_bits(y + b * 30, p.y + b * 30, (size_t)p.lengths[b] * 6);
    }
}

/* 2.8 (7): weights sum to 1, a constant added to pref changes nothing, its gradient sums to 0. */
static void test_softmax_over_tokens(void **state) {
    (void)state;
    for (int dual = 0; dual < 2; ++dual) {
        blocking p;
        size_t count;
        draw_blocking(&p, 2, 4, 5, 6, 4, 2, 0, dual);
        attend_forward(&p), attend_backwards(&p);
        const dea_real *a = dea_meta_block_weights(&p.b, &p.s, p.cache);
        for (int row = 0; row < 2 * 2 * 4; ++row) {
            double sum = 0;
            for (int c = 0; c < 5; ++c) sum += (double)a[row * 5 + c];
            assert_near(sum, 1, 1e-6);
        }
        double sum = 0, largest_element = 0;
        const dea_real *dpref = own(&p, p.m.grads, "blk_pref", &count);
        for (int c = 0; c < 5; ++c) {
            sum += (double)dpref[c];
            if (fabs((double)dpref[c]) > largest_element) largest_element = fabs((double)dpref[c]);
        }
        assert_true(largest_element > 1e-3);
        assert_near(sum, 0, 1e-5 * largest_element);
        dea_real *y = take_copy(p.y, p.x_count), *pref = own(&p, p.m.params, "blk_pref", &count);
        for (int c = 0; c < 5; ++c) pref[c] += 3;
        attend_forward(&p);
        assert_close(p.y, y, p.x_count, TOLERANCE);
        pref[2] += 1000; /* exp would overflow without the maximum */
        attend_forward(&p);
        assert_true(all_finite(p.y, p.x_count));
        for (int row = 0; row < 2 * 2 * 4; ++row) assert_near(a[row * 5 + 2], 1, 1e-6);
    }
}

/* 2.8 (8). */
static void test_one_token(void **state) {
    (void)state;
    static const char *const still[] = {"blk_down_w", "blk_q_w", "blk_pref", "blk_norm_w", "blk_norm_b", "blk_k_w"};
    blocking p;
    size_t count;
    draw_blocking(&p, 2, 3, 1, 6, 4, 2, 0, 0);
    attend_forward(&p), attend_backwards(&p);
    for (int i = 0; i < LENGTH(still); ++i) {
        const dea_real *g = own(&p, p.m.grads, still[i], &count);
        for (size_t k = 0; k < count; ++k) assert_near(g[k], 0, TOLERANCE);
    }
    const dea_real *a = dea_meta_block_weights(&p.b, &p.s, p.cache);
    for (int i = 0; i < 2 * 2 * 3; ++i) assert_true(a[i] == 1);
    assert_false(all_zero(own(&p, p.m.grads, "blk_v_w", &count), count));
}

/* 2.8 (6): a row depends on its own x alone. */
static void test_rows_are_apart(void **state) {
    (void)state;
    blocking p;
    draw_blocking(&p, 1, 6, 4, 6, 4, 2, 0, 0);
    attend_forward(&p);
    dea_real *y = take_copy(p.y, p.x_count);
    for (size_t i = 4 * 6; i < 6 * 6; ++i) p.x[i] += 1;
    attend_forward(&p);
    assert_same_bits(p.y, y, 4 * 6);
    assert_true(memcmp(p.y + 4 * 6, y + 4 * 6, 6 * sizeof *y) != 0);
}

/* In place gives the same bits, and so does a forward without a cache. */
static void test_in_place(void **state) {
    (void)state;
    blocking p;
    encoding e;
    draw_blocking(&p, 3, 4, 3, 5, 4, 2, 1, 0);
    attend_forward(&p), attend_backwards(&p);
    dea_real *x = take_copy(p.x, p.x_count), *grads = take_copy(p.m.grads, p.m.table.elements);
    assert_ok(dea_meta_block_forward(&p.b, p.m.params, &p.s, p.index, x, x, NULL, p.workspace, p.bytes));
    assert_same_bits(x, p.y, p.x_count);
    dea_real *dx = take_copy(p.dx, p.x_count);
    clear(&p.m);
    assert_ok(dea_meta_block_backward(&p.b, p.m.params, &p.s, p.index, p.x, p.cache, p.dy, p.dy, p.dkv, p.m.grads,
                                      p.workspace, p.bytes));
    assert_ok(dea_meta_keys_backward(&p.b, p.m.params, p.cog, p.dkv, p.s.batch, NULL, p.m.grads, NULL));
    assert_same_bits(p.dy, dx, p.x_count);
    assert_same_bits(p.m.grads, grads, p.m.table.elements);
    draw_encoding(&e, 2, 3, 5, 6, 2, 3);
    encode(&e);
    dea_real *cog = take_copy(e.cog, e.count);
    assert_ok(dea_meta_encoder_forward(&e.e, e.m.params, e.act, e.batch, e.cog, NULL, e.workspace, e.bytes, NULL));
    assert_same_bits(cog, e.cog, e.count);
}

/* More rows than one run of products holds, and where runs end, do not matter. */
static void test_long_streams(void **state) {
    (void)state;
    blocking p, q;
    enum { T = 3 * 200 };
    draw_blocking(&p, 3, 200, 3, 8, 4, 2, 0, 0);
    attend_forward(&p), attend_backwards(&p);
    for (int b = 0; b < 3; ++b) { /* one sequence at a time */
        seed_numbers(1);
        draw_blocking(&q, 1, 200, 3, 8, 4, 2, 0, 0);
        memcpy(q.m.params, p.m.params, p.m.table.elements * sizeof *p.m.params);
        memcpy(q.x, p.x + b * 1600, 1600 * sizeof *q.x);
        memcpy(q.dy, p.dy + b * 1600, 1600 * sizeof *q.x);
        memcpy(q.cog, p.cog + b * 24, 24 * sizeof *q.x);
        attend_forward(&q), attend_backwards(&q);
        assert_close(q.y, p.y + b * 1600, 1600, TOLERANCE);
        assert_close(q.dx, p.dx + b * 1600, 1600, TOLERANCE);
        assert_close(q.dcog, p.dcog + b * 24, 24, TOLERANCE);
    }
}

static void set_threads(dea_threads *t, int count, int backwards) {
    t->count = count;
    t->run = backwards ? run_backwards : run_in_threads;
}

/* The same bits for 1, 2 and 5 workers. */
static void test_threads(void **state) {
    (void)state;
    encoding e;
    blocking p;
    judgement j;
    draw_encoding(&e, 3, 5, 7, 6, 2, 3);
    draw_blocking(&p, 5, 40, 4, 9, 6, 3, 1, 1);
    draw_judgement(&j, 6, 5, 7, 4);
    model *const models[] = {&e.m, &p.m, &j.m};
    dea_real *cog = NULL, *y = NULL, *dx = NULL, *dcog = NULL, *u = NULL, *grads[3];
    for (int way = 0; way < 4; ++way) {
        dea_threads threads = dea_threads_default();
        set_threads(&threads, way == 0 ? 1 : way == 1 ? 2 : 5, way == 3);
        e.threads = j.threads = &threads, p.s.threads = threads;
        for (int k = 0; k < 3; ++k) clear(models[k]);
        encode(&e), encode_backward(&e), attend_forward(&p), attend_backwards(&p), (void)judgement_loss(&j),
            judge_backward(&j);
        if (way == 0) {
            cog = take_copy(e.cog, e.count), y = take_copy(p.y, p.x_count), dx = take_copy(p.dx, p.x_count);
            dcog = take_copy(p.dcog, p.cog_count), u = take_copy(j.u, j.rows);
            for (int k = 0; k < 3; ++k) grads[k] = take_copy(models[k]->grads, models[k]->table.elements);
        }
        assert_same_bits(cog, e.cog, e.count);
        assert_same_bits(y, p.y, p.x_count);
        assert_same_bits(dx, p.dx, p.x_count);
        assert_same_bits(dcog, p.dcog, p.cog_count);
        assert_same_bits(u, j.u, j.rows);
        for (int k = 0; k < 3; ++k) assert_same_bits(grads[k], models[k]->grads, models[k]->table.elements);
    }
}

/* Keys and values of all blocks from one product, whether or not the arena leaves a gap between k_w and v_w. */
static void test_keys_of_all_blocks(void **state) {
    (void)state;
    for (int gap = 0; gap < 2; ++gap) {
        blocking p;
        draw_blocking(&p, 2, 1, 3, gap ? 5 : 8, 2, 1, 0, 0);
        const size_t D = (size_t)p.b.width, r = 2, n = 2;
        assert_int_equal(p.b.v_w != p.b.k_w + n * r * D, gap);
        attend_forward(&p);
        for (size_t row = 0; row < 2 * 3; ++row)
            for (size_t j = 0; j < 2 * n * r; ++j) {
                const size_t at = (j < n * r ? p.b.k_w : p.b.v_w) + j % (n * r) * D;
                assert_near(p.kv[row * 2 * n * r + j], weigh(p.cog + row * D, p.m.params + at, D), 1e-5);
            }
        fill_gauss(p.dkv, p.kv_count, 1);
        clear(&p.m);
        assert_ok(dea_meta_keys_backward(&p.b, p.m.params, p.cog, p.dkv, 2, p.dcog, p.m.grads, NULL));
        for (size_t row = 0; row < 6; ++row)
            for (size_t i = 0; i < D; ++i) {
                double sum = 0;
                for (size_t j = 0; j < 2 * n * r; ++j)
                    sum += (double)p.dkv[row * 2 * n * r + j] *
                           (double)p.m.params[(j < n * r ? p.b.k_w : p.b.v_w) + j % (n * r) * D + i];
                assert_near(p.dcog[row * D + i], sum, 1e-5);
            }
        for (size_t j = 0; j < 2 * n * r; ++j)
            for (size_t i = 0; i < D; ++i) {
                double sum = 0;
                for (size_t row = 0; row < 6; ++row)
                    sum += (double)p.dkv[row * 2 * n * r + j] * (double)p.cog[row * D + i];
                assert_near(p.m.grads[(j < n * r ? p.b.k_w : p.b.v_w) + j % (n * r) * D + i], sum, 1e-5);
            }
    }
}

/* 2.12: the folded block equals the block. */
static void test_folded(void **state) {
    (void)state;
    blocking p;
    draw_blocking(&p, 2, 5, 4, 9, 6, 3, 0, 0);
    attend_forward(&p);
    dea_real *fold = take_reals(dea_meta_fold_count(&p.b)), *y = take_reals(p.x_count), *scores = take_reals(5 * 12);
    assert_int_equal(dea_meta_fold_count(&p.b), 2 * 3 * 4 * 9 + 3 * 4 + 1);
    const size_t bytes = dea_meta_fold_workspace(&p.b);
    void *workspace = take(bytes);
    for (int b = 0; b < 2; ++b) {
        assert_ok(dea_meta_fold(&p.b, p.m.params, &p.s, p.index, b, fold, workspace, bytes));
        assert_ok(dea_meta_fold_apply(&p.b, fold, p.x + b * 45, y + b * 45, 5, scores, NULL));
    }
    assert_close(y, p.y, p.x_count, TOLERANCE);
    dea_real *x = take_copy(p.x + 45, 45);
    assert_ok(dea_meta_fold_apply(&p.b, fold, x, x, 5, scores, NULL));
    assert_same_bits(x, y + 45, 45);
    p.m.params[p.b.gate + 1] = 0;
    assert_ok(dea_meta_fold(&p.b, p.m.params, &p.s, 1, 0, fold, workspace, bytes));
    p.x[0] = (dea_real)-0.0;
    assert_ok(dea_meta_fold_apply(&p.b, fold, p.x, y, 5, scores, NULL));
    assert_same_bits(y, p.x, 45);
    p.b.dual_expert = 1;
    assert_int_equal(dea_meta_fold_count(&p.b), 0);
    assert_status(dea_meta_fold_apply(&p.b, fold, p.x, y, 5, scores, NULL), DEA_ERR_OPTION);
    assert_status(dea_meta_fold(&p.b, p.m.params, &p.s, 1, 0, fold, workspace, bytes), DEA_ERR_OPTION);
}

/* 2.14 (1) against its definition. */
static void test_dual_expert_scores(void **state) {
    (void)state;
    blocking p;
    size_t count;
    enum { T = 3, C = 5, R = 4, H = 2, W = 2 };
    draw_blocking(&p, 1, T, C, 6, R, H, 0, 1);
    attend_forward(&p);
    const dea_real *q = p.cache + T * R, *a = dea_meta_block_weights(&p.b, &p.s, p.cache); /* m, q, o, A */
    const dea_real *w_rel = own(&p, p.m.params, "blk_w_rel", &count), *pref = own(&p, p.m.params, "blk_pref", &count);
    const dea_real *mix = own(&p, p.m.params, "blk_c_mix", &count);
    for (int h = 0; h < H; ++h)
        for (int t = 0; t < T; ++t) {
            double e[2][C], s[C], sum = 0;
            for (int c = 0; c < C; ++c) {
                const dea_real *k = p.kv + c * 2 * 2 * R + p.index * R + h * W, *query = q + t * R + h * W;
                double distance = 0;
                for (int i = 0; i < W; ++i) {
                    const double u = weigh(w_rel + (h * W + i) * W, query, W) - (double)k[i];
                    distance += u * u;
                }
                e[0][c] = weigh(query, k, W) / sqrt(W);
                e[1][c] = -distance / W;
            }
            for (int x = 0; x < 2; ++x) {
                double mean = 0, variance = 0;
                for (int c = 0; c < C; ++c) mean += e[x][c] / C;
                for (int c = 0; c < C; ++c) variance += (e[x][c] - mean) * (e[x][c] - mean) / C;
                for (int c = 0; c < C; ++c) e[x][c] = (e[x][c] - mean) / (sqrt(variance) + 1e-5);
            }
            const double alpha = 0.95 / (1 + exp(-(double)mix[h]));
            for (int c = 0; c < C; ++c) {
                s[c] = exp((1 - alpha) * e[0][c] + alpha * e[1][c] + (double)pref[c]);
                sum += s[c];
            }
            for (int c = 0; c < C; ++c)
                assert_near(a[(h * T + t) * C + c], s[c] / sum, sizeof(dea_real) == 8 ? 1e-11 : 1e-4);
        }
}

/* ---- parameters ------------------------------------------------------------------------------------------------------- */
static size_t numbers_in(const dea_table *t) {
    size_t sum = 0;
    for (int i = 0; i < t->count; ++i) sum += t->tensors[i].count;
    return sum;
}

/* The counts of 2.9. */
static void test_parameter_counts(void **state) {
    (void)state;
    dea_tensor tensors[MOST_TENSORS];
    dea_table table = dea_table_init(tensors, MOST_TENSORS);
    dea_meta_encoder e = dea_meta_encoder_init(32, 4096);
    assert_int_equal(e.bottleneck, 256);
    assert_ok(dea_meta_encoder_register(&e, &table, "enc_"));
    assert_int_equal(numbers_in(&table), 51667488);
    table = dea_table_init(tensors, MOST_TENSORS);
    e.blocks = 2;
    assert_ok(dea_meta_encoder_register(&e, &table, "enc_"));
    assert_int_equal(numbers_in(&table), 53255200);
    table = dea_table_init(tensors, MOST_TENSORS);
    dea_meta_blocks b = dea_meta_blocks_init(1, 32, 4096);
    assert_ok(dea_meta_blocks_register(&b, &table, "blk_"));
    assert_int_equal(numbers_in(&table), 4268065);
    table = dea_table_init(tensors, MOST_TENSORS);
    b = dea_meta_blocks_init(32, 32, 4096), e.blocks = 0;
    assert_ok(dea_meta_encoder_register(&e, &table, "enc_"));
    assert_ok(dea_meta_blocks_register(&b, &table, "blk_"));
    assert_int_equal(numbers_in(&table), 188245568);
    assert_true(b.v_w == b.k_w + (size_t)32 * 256 * 4096); /* one product at this size */
    /* What a block keeps of 256 tokens, besides x: 3r + hC + 2 a token. */
    dea_meta_sequences s = dea_meta_sequences_init(1, 256, NULL, NULL);
    assert_int_equal(dea_meta_block_cache_count(&b, &s), 256 * (3 * 256 + 4 * 32 + 2));
    assert_int_equal(dea_meta_keys_count(&b, 1), 2 * 32 * 32 * 256);
}

static void check_filled(const model *m, const char *name, double low, double high) {
    const dea_tensor *t = dea_table_find(&m->table, name);
    assert_non_null(t);
    double least = INFINITY, most = -INFINITY, mean = 0;
    for (size_t i = 0; i < t->count; ++i) {
        const double x = (double)m->params[t->offset + i];
        least = x < least ? x : least, most = x > most ? x : most, mean += x / (double)t->count;
    }
    if (low == high) {
        assert_near(least, low, 1e-7);
        assert_near(most, high, 1e-7);
        return;
    }
    const double slack = (high - low) * 0.05; /* uniform: the range is used, and not left */
    assert_true(least >= low && least < low + slack && most <= high && most > high - slack);
    assert_near(mean, (low + high) / 2, slack);
}

static void check_flags(const model *m, const char *name, int decay, double rate) {
    const dea_tensor *t = dea_table_find(&m->table, name);
    assert_non_null(t);
    assert_int_equal(t->decay, decay);
    assert_true((double)t->lr_scale == rate);
    assert_int_equal(t->group, DEA_GROUP_MAIN);
}

static void test_initial_values(void **state) {
    (void)state;
    encoding e;
    blocking p;
    judgement j;
    draw_encoding(&e, 1, 8, 25, 16, 2, 4);
    assert_ok(dea_meta_encoder_reset(&e.e, e.m.params, 1));
    check_filled(&e.m, "enc_ln_w", 1, 1), check_filled(&e.m, "enc_ln_b", 0, 0),
        check_filled(&e.m, "enc_gate", 0.3, 0.3);
    check_filled(&e.m, "enc_fc_w", -0.2, 0.2), check_filled(&e.m, "enc_fc_b", -0.2, 0.2);
    check_filled(&e.m, "enc_out_fc1_w", -0.25, 0.25), check_filled(&e.m, "enc_out_fc2_w", -0.2, 0.2);
    check_filled(&e.m, "enc_t_fc2_w", -0.125, 0.125), check_filled(&e.m, "enc_t_qkv_w", -0.25, 0.25);
    check_filled(&e.m, "enc_t_fc1_b", -0.25, 0.25), check_filled(&e.m, "enc_out_norm_w", 1, 1);
    double square = 0;
    const dea_tensor *emb = dea_table_find(&e.m.table, "enc_emb");
    for (size_t i = 0; i < emb->count; ++i) square += pow((double)e.m.params[emb->offset + i], 2) / (double)emb->count;
    assert_near(sqrt(square), 0.02, 0.003);
    check_flags(&e.m, "enc_gate", 0, 5), check_flags(&e.m, "enc_fc_w", 1, 1), check_flags(&e.m, "enc_ln_w", 0, 1);
    check_flags(&e.m, "enc_fc_b", 0, 1), check_flags(&e.m, "enc_emb", 0, 1), check_flags(&e.m, "enc_t_o_w", 1, 1);
    draw_blocking(&p, 1, 1, 3, 25, 16, 4, 0, 1);
    assert_ok(dea_meta_blocks_reset(&p.b, p.m.params, 1));
    check_filled(&p.m, "blk_down_w", -0.2, 0.2), check_filled(&p.m, "blk_q_w", -0.25, 0.25);
    check_filled(&p.m, "blk_k_w", -0.2, 0.2), check_filled(&p.m, "blk_up_w", -0.25, 0.25);
    check_filled(&p.m, "blk_pref", 0, 0), check_filled(&p.m, "blk_gate", 0.3, 0.3),
        check_filled(&p.m, "blk_c_mix", -0.5, -0.5);
    check_flags(&p.m, "blk_gate", 0, 5), check_flags(&p.m, "blk_pref", 0, 5), check_flags(&p.m, "blk_up_w", 1, 1);
    check_flags(&p.m, "blk_norm_w", 0, 1), check_flags(&p.m, "blk_w_rel", 1, 1), check_flags(&p.m, "blk_c_mix", 0, 1);
    const dea_real *w = p.m.params + p.b.w_rel;
    for (int n = 0; n < 2 * 4; ++n) /* every relation is orthogonal, and no two are the same */
        for (int i = 0; i < 4; ++i)
            for (int k = 0; k < 4; ++k) assert_near(weigh(w + n * 16 + i * 4, w + n * 16 + k * 4, 4), i == k, 1e-5);
    assert_true(memcmp(w, w + 16, 16 * sizeof *w) != 0);
    assert_false(memcmp(p.m.params + p.b.k_w, p.m.params + p.b.v_w, 16 * sizeof *w) == 0);
    p.b.up_zero = 1;
    assert_ok(dea_meta_blocks_reset(&p.b, p.m.params, 1));
    check_filled(&p.m, "blk_up_w", 0, 0);
    draw_judgement(&j, 2, 8, 25, 16);
    assert_ok(dea_meta_confidence_reset(&j.c, j.m.params, 1));
    check_filled(&j.m, "conf_head_w", -0.25, 0.25), check_filled(&j.m, "conf_fc_w", -0.2, 0.2);
    check_flags(&j.m, "conf_head_w", 1, 1), check_flags(&j.m, "conf_head_b", 0, 1);
}

/* A full table is left as it was, and so is the struct. */
static void test_register_is_whole(void **state) {
    (void)state;
    dea_tensor tensors[6];
    dea_table table = dea_table_init(tensors, 6);
    dea_meta_encoder e = dea_meta_encoder_init(2, 4);
    const int shape[1] = {3};
    e.bottleneck = 4;
    assert_ok(dea_table_add(&table, "", "mine", 1, shape, DEA_GROUP_MAIN, 0, NULL));
    const size_t elements = table.elements;
    assert_status(dea_meta_encoder_register(&e, &table, "enc_"), DEA_ERR_CAPACITY);
    assert_int_equal(table.count, 1);
    assert_int_equal(table.elements, elements);
    assert_int_equal(e.fc_w, 0);
}

/* ---- hooks ------------------------------------------------------------------------------------------------------------- */
static void test_hooks(void **state) {
    (void)state;
    static const int read[] = {0, 2}, lengths[] = {3, 1}, bad[] = {2, 2}, none[] = {-1, 2}, zero[] = {0, 1},
                     far[] = {3, 4};
    dea_real *act = take_reals(2 * 2 * 4), *y = take_gauss(2 * 3 * 4, 1), *z = take_gauss(2 * 3 * 4, 1);
    const dea_real *seen = NULL;
    dea_meta_hooks h = dea_meta_hooks_init(read, 2, 2, 4, act);
    assert_status(dea_meta_hooks_read(&h, &seen), DEA_ERR_FROZEN); /* empty */
    assert_ok(dea_meta_hooks_open(&h));
    assert_status(dea_meta_hooks_freeze(&h), DEA_ERR_FROZEN);
    assert_ok(dea_meta_hooks_record(&h, 0, y, 3, lengths));
    assert_ok(dea_meta_hooks_record(&h, 1, y, 3, lengths)); /* not a read layer */
    assert_status(dea_meta_hooks_record(&h, 0, y, 3, lengths), DEA_ERR_INDEX);
    assert_status(dea_meta_hooks_freeze(&h), DEA_ERR_FROZEN); /* layer 2 is missing */
    assert_ok(dea_meta_hooks_record(&h, 2, z, 3, lengths));
    assert_status(dea_meta_hooks_read(&h, &seen), DEA_ERR_FROZEN); /* not frozen */
    assert_true(seen == NULL);
    assert_ok(dea_meta_hooks_freeze(&h));
    assert_status(dea_meta_hooks_freeze(&h), DEA_ERR_FROZEN);
    assert_ok(dea_meta_hooks_read(&h, &seen));
    assert_true(seen == act);
    for (size_t b = 0; b < 2; ++b) { /* [B,C,D]: the last real token, copied */
        const size_t at = (b * 3 + (size_t)lengths[b] - 1) * 4;
        assert_same_bits(act + b * 8, y + at, 4);
        assert_same_bits(act + b * 8 + 4, z + at, 4);
    }
    dea_real *copy = take_copy(act, 16);
    fill_gauss(y, 24, 1);
    for (int l = 0; l < 3; ++l) assert_status(dea_meta_hooks_record(&h, l, y, 3, lengths), DEA_ERR_FROZEN);
    assert_same_bits(act, copy, 16);
    assert_ok(dea_meta_hooks_open(&h));
    assert_status(dea_meta_hooks_read(&h, &seen), DEA_ERR_FROZEN);
    assert_status(dea_meta_hooks_record(&h, 2, y, 3, NULL), DEA_ERR_INDEX); /* layer 0 comes first */
    assert_status(dea_meta_hooks_record(&h, 0, y, 3, zero), DEA_ERR_KEY_LENGTH);
    assert_status(dea_meta_hooks_record(&h, 0, y, 3, far), DEA_ERR_KEY_LENGTH);
    assert_status(dea_meta_hooks_record(&h, 0, NULL, 3, NULL), DEA_ERR_NULL);
    assert_status(dea_meta_hooks_record(&h, 0, y, 0, NULL), DEA_ERR_SHAPE);
    assert_status(dea_meta_hooks_record(&h, 0, act, 1, NULL), DEA_ERR_ALIAS);
    assert_ok(dea_meta_hooks_record(&h, 0, y, 3, NULL));
    assert_same_bits(act, y + 8, 4);
    h.read = bad;
    assert_status(dea_meta_hooks_open(&h), DEA_ERR_INDEX);
    h.read = none;
    assert_status(dea_meta_hooks_open(&h), DEA_ERR_INDEX);
    h = dea_meta_hooks_init(read, 0, 2, 4, act);
    assert_status(dea_meta_hooks_open(&h), DEA_ERR_SHAPE);
    h = dea_meta_hooks_init(read, 2, 1 << 30, 1 << 30, act);
    assert_status(dea_meta_hooks_open(&h), DEA_ERR_OVERFLOW);
    h = dea_meta_hooks_init(NULL, 2, 2, 4, act);
    assert_status(dea_meta_hooks_open(&h), DEA_ERR_NULL);
    assert_status(dea_meta_hooks_open(NULL), DEA_ERR_NULL);
}

/* ---- training helpers --------------------------------------------------------------------------------------------------- */
static void test_confidence_loss(void **state) {
    (void)state;
    const dea_real u[4] = {1, -2, (dea_real)0.5, 300};
    const int right[2] = {1, 0}, bad[2] = {1, 2};
    double loss, layers[2];
    dea_real du[4];
    assert_ok(dea_meta_confidence_loss(u, right, 2, 2, &loss, layers, 2, du));
    const double terms[4] = {log1p(exp(-1)), log1p(exp(2)), log1p(exp(0.5)), 300};
    assert_near(layers[0], (terms[0] + terms[2]) / 2, 1e-6);
    assert_near(layers[1], (terms[1] + terms[3]) / 2, 1e-4);
    assert_near(loss, (layers[0] + layers[1]) / 2, 1e-6);
    for (int i = 0; i < 4; ++i) assert_near(du[i], 2 * (1 / (1 + exp(-(double)u[i])) - right[i / 2]) / 4, 1e-6);
    assert_status(dea_meta_confidence_loss(u, bad, 2, 2, &loss, NULL, 1, NULL), DEA_ERR_LABEL);
    assert_status(dea_meta_confidence_loss(u, right, 2, 0, &loss, NULL, 1, NULL), DEA_ERR_SHAPE);
    assert_status(dea_meta_confidence_loss(u, NULL, 2, 2, &loss, NULL, 1, NULL), DEA_ERR_NULL);
    assert_status(dea_meta_confidence_loss(du, right, 1, 2, &loss, NULL, 1, du + 1), DEA_ERR_ALIAS);
}

/* 2.8 (10), and a layer's best epoch. */
static void test_warm_start(void **state) {
    (void)state;
    encoding e;
    judgement j;
    draw_encoding(&e, 1, 3, 5, 4, 0, 1);
    draw_judgement(&j, 1, 3, 5, 4);
    dea_real *before = take_copy(e.m.params, e.m.table.elements);
    assert_ok(dea_meta_warm_start(&j.c, j.m.params, &e.e, e.m.params));
    static const char *const names[] = {"ln_w", "ln_b", "fc_w", "fc_b"};
    for (int i = 0; i < e.m.table.count; ++i) {
        const dea_tensor *t = &e.m.table.tensors[i];
        const dea_real *expected = before + t->offset;
        for (int k = 0; k < 4; ++k) {
            char from[16];
            snprintf(from, sizeof from, "conf_%s", names[k]);
            if (!strcmp(t->name + 4, names[k])) expected = j.m.params + dea_table_find(&j.m.table, from)->offset;
        }
        assert_same_bits(e.m.params + t->offset, expected, t->count);
    }
    j.c.bottleneck = 5;
    assert_status(dea_meta_warm_start(&j.c, j.m.params, &e.e, e.m.params), DEA_ERR_SHAPE);
    j.c.bottleneck = 4;
    assert_status(dea_meta_warm_start(&j.c, NULL, &e.e, e.m.params), DEA_ERR_NULL);

    dea_real *kept = take_zeros(j.m.table.elements);
    assert_ok(dea_meta_confidence_keep(&j.c, j.m.params, kept, 1));
    for (int i = 0; i < j.m.table.count; ++i) {
        const dea_tensor *t = &j.m.table.tensors[i];
        const size_t each = t->count / 3;
        assert_true(all_zero(kept + t->offset, each) && all_zero(kept + t->offset + 2 * each, each));
        assert_same_bits(kept + t->offset + each, j.m.params + t->offset + each, each);
    }
    assert_status(dea_meta_confidence_keep(&j.c, j.m.params, kept, 3), DEA_ERR_INDEX);
    assert_status(dea_meta_confidence_keep(&j.c, j.m.params, kept, -1), DEA_ERR_INDEX);
    assert_status(dea_meta_confidence_keep(&j.c, kept, kept, 0), DEA_ERR_ALIAS);
}

/* Values computed apart from this code. */
static void test_draw(void **state) {
    (void)state;
    static const struct {
        uint64_t epoch, item;
        dea_meta_action action;
    } draws[] = {{0, 0, DEA_META_REFUSE},  {0, 1, DEA_META_REFUSE},  {1, 0, DEA_META_CORRECT},
                 {1, 1, DEA_META_CORRECT}, {3, 77, DEA_META_REFUSE}, {2, 5, DEA_META_CORRECT}};
    assert_true(dea_meta_random(0) == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(dea_meta_random(42) == UINT64_C(0xbdd732262feb6e95));
    for (int i = 0; i < LENGTH(draws); ++i)
        assert_int_equal(dea_meta_draw(0, 0.5, 42, draws[i].epoch, draws[i].item), draws[i].action);
    int corrected = 0;
    for (uint64_t i = 0; i < 10000; ++i) {
        corrected += dea_meta_draw(0, 0.25, 7, 3, i) == DEA_META_CORRECT;
        assert_int_equal(dea_meta_draw(1, 0.5, 7, 3, i), DEA_META_CONFIRM);
        assert_int_equal(dea_meta_draw(0, 0, 7, 3, i), DEA_META_REFUSE);
        assert_int_equal(dea_meta_draw(0, 1, 7, 3, i), DEA_META_CORRECT);
    }
    assert_true(corrected > 2300 && corrected < 2700);
}

static void test_cutting(void **state) {
    (void)state;
    int ids[300];
    for (int i = 0; i < 300; ++i) ids[i] = i;
    assert_int_equal(dea_meta_cut_prompt(ids, 192, 256), 192);
    assert_int_equal(ids[191], 191);
    assert_int_equal(dea_meta_cut_prompt(ids, 300, 256), 192); /* the first, and the last 191 */
    assert_int_equal(ids[0], 0);
    for (int i = 1; i < 192; ++i) assert_int_equal(ids[i], 300 - 192 + i);
    assert_int_equal(dea_meta_cut_prompt(ids, 0, 256), -1);
    assert_int_equal(dea_meta_cut_prompt(ids, 5, 65), -1);
    assert_int_equal(dea_meta_cut_prompt(ids, 5, 66), 2);
    assert_int_equal(dea_meta_cut_prompt(NULL, 5, 256), -1);
}

static void test_joining(void **state) {
    (void)state;
    static const int prompt[] = {1, 2, 3, 4, 9, 9}, n_prompt[] = {3, 1}, n_target[] = {2, 0}, target[] = {5, 6, 9, 9};
    int full[12], n_full[2], targets[12], longer[100], n_longer[1] = {100}, out[80], scored[80];
    assert_ok(dea_meta_join(prompt, n_prompt, 3, target, n_target, 2, 2, 7, 6, full, n_full, targets));
    static const int joined[] = {1, 2, 3, 5, 6, 7, 4, 7, 7, 7, 7, 7},
                     expected[] = {-1, -1, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1};
    assert_memory_equal(full, joined, sizeof joined);
    assert_memory_equal(targets, expected, sizeof expected);
    assert_int_equal(n_full[0], 5);
    assert_int_equal(n_full[1], 1);
    for (int i = 0; i < 100; ++i) longer[i] = 10 + i;
    assert_ok(dea_meta_join(prompt, n_prompt, 3, longer, n_longer, 100, 1, 7, 80, out, n_full, scored)); /* cut to 64 */
    assert_int_equal(n_full[0], 3 + 64);
    assert_int_equal(out[66], 73);
    assert_int_equal(out[67], 7);
    assert_int_equal(scored[65], 73);
    assert_int_equal(scored[66], -1);
    assert_status(dea_meta_join(prompt, n_prompt, 3, longer, n_longer, 100, 1, 7, 66, out, n_full, scored),
                  DEA_ERR_CAPACITY);
    assert_status(dea_meta_join(prompt, n_target, 3, target, n_target, 2, 2, 7, 6, full, n_full, targets),
                  DEA_ERR_KEY_LENGTH);
    assert_status(dea_meta_join(prompt, n_prompt, 2, target, n_target, 2, 2, 7, 6, full, n_full, targets),
                  DEA_ERR_KEY_LENGTH);
    assert_status(dea_meta_join(prompt, n_prompt, 3, target, n_target, 1, 2, 7, 6, full, n_full, targets),
                  DEA_ERR_KEY_LENGTH);
    assert_status(dea_meta_join(prompt, n_prompt, 3, target, n_target, 2, 0, 7, 6, full, n_full, targets),
                  DEA_ERR_SHAPE);
    assert_status(dea_meta_join(NULL, n_prompt, 3, target, n_target, 2, 2, 7, 6, full, n_full, targets), DEA_ERR_NULL);
}

static void test_accumulation(void **state) {
    (void)state;
    assert_int_equal(dea_meta_steps(320, 2, 16), 10);
    assert_int_equal(dea_meta_steps(321, 2, 16), 11);
    assert_int_equal(dea_meta_steps(1, 2, 16), 1);
    assert_int_equal(dea_meta_steps(0, 2, 16), 0);
    static const int shapes[][3] = {{321, 2, 16}, {37, 3, 4}, {5, 8, 2}, {48, 4, 4}};
    for (int k = 0; k < LENGTH(shapes); ++k) { /* the weights of each step's micro-batches add up to 1 */
        const int items = shapes[k][0], micro = shapes[k][1], group = shapes[k][2];
        double sum = 0;
        int64_t steps = 0;
        for (int64_t i = 0; i < (items + micro - 1) / micro; ++i) {
            sum += dea_meta_micro_weight(items, micro, group, i);
            if (!dea_meta_micro_ends_step(items, micro, group, i)) continue;
            assert_near(sum, 1, 1e-12);
            sum = 0, ++steps;
        }
        assert_true(sum == 0);
        assert_int_equal(steps, dea_meta_steps(items, micro, group));
    }
    assert_true(dea_meta_micro_weight(321, 2, 16, 160) == 1 && dea_meta_micro_weight(321, 2, 16, 161) == 0);
    assert_true(dea_meta_micro_weight(320, 2, 16, 0) == 1.0 / 16);
}

static void test_early_stopping(void **state) {
    (void)state;
    static const double losses[] = {3, 2, NAN, 2.5, 1, 1, 1.5, 4};
    static const int best[] = {1, 1, 0, 0, 1, 0, 0, 0}, done[] = {0, 0, 0, 0, 0, 0, 0, 1};
    dea_early_stop s = dea_early_stop_init(3);
    assert_int_equal(s.best_epoch, -1);
    assert_false(dea_early_stop_done(&s));
    for (int i = 0; i < LENGTH(losses); ++i) {
        assert_int_equal(dea_early_stop_enter(&s, losses[i]), best[i]);
        assert_int_equal(dea_early_stop_done(&s), done[i]);
    }
    assert_int_equal(s.best_epoch, 4);
    assert_true(s.best == 1);
}

/* ---- checks -------------------------------------------------------------------------------------------------------------- */
static void test_hash(void **state) {
    (void)state;
    unsigned char bytes[100], other[8] = {0};
    for (int i = 0; i < 100; ++i) bytes[i] = (unsigned char)(i * 37);
    const dea_meta_bytes pieces[2] = {{bytes, 100}, {other, 8}};
    const uint64_t before = dea_meta_hash(pieces, 2);
    assert_ok(dea_meta_verify_frozen(pieces, 2, before));
    for (int i = 0; i < 100; ++i)
        for (int bit = 0; bit < 8; ++bit) {
            bytes[i] ^= (unsigned char)(1 << bit);
            assert_status(dea_meta_verify_frozen(pieces, 2, before), DEA_ERR_BASE_CHANGED);
            bytes[i] ^= (unsigned char)(1 << bit);
        }
    other[7] = 1;
    assert_status(dea_meta_verify_frozen(pieces, 2, before), DEA_ERR_BASE_CHANGED);
    other[7] = 0;
    assert_ok(dea_meta_verify_frozen(pieces, 2, before));
    const dea_meta_bytes shorter[2] = {{bytes, 99}, {other, 8}}, moved[2] = {{bytes, 92}, {other, 8}};
    bytes[99] = 0;
    assert_true(dea_meta_hash(pieces, 2) != dea_meta_hash(shorter, 2)); /* a zero at the end counts */
    assert_true(dea_meta_hash(pieces, 2) != dea_meta_hash(moved, 2));
    assert_true(dea_meta_hash(pieces, 2) != dea_meta_hash(pieces, 1));
    assert_status(dea_meta_verify_frozen(NULL, 1, before), DEA_ERR_NULL);
    assert_status(dea_meta_verify_frozen(pieces, 0, before), DEA_ERR_SHAPE);
}

/* A pass with a fault of choice. */
typedef struct faulty {
    blocking p;
    const char *fault;
    int calls, gates_were_zero;
} faulty;

static dea_status faulty_pass(void *context, int blocks_on, dea_real *logits, dea_real *grads, dea_real *dcog) {
    faulty *f = context;
    blocking *p = &f->p;
    f->calls++;
    if (p->m.params[p->b.gate] != 0 || p->m.params[p->b.gate + 1] != 0) f->gates_were_zero = 0;
    attend_forward(p);
    memcpy(logits, blocks_on ? p->y : p->x, p->x_count * sizeof *logits);
    if (!strcmp(f->fault, "status")) return DEA_ERR_NONFINITE;
    if (blocks_on && !strcmp(f->fault, "logits")) logits[3] += (dea_real)1e-6;
    if (!grads) return DEA_OK;
    for (p->index = 0; p->index < 2; ++p->index) {
        attend_forward(p);
        assert_ok(dea_meta_block_backward(&p->b, p->m.params, &p->s, p->index, p->x, p->cache, p->dy, p->dx, p->dkv,
                                          grads, p->workspace, p->bytes));
    }
    p->index = 1;
    assert_ok(dea_meta_keys_backward(&p->b, p->m.params, p->cog, p->dkv, p->s.batch, dcog, grads, NULL));
    if (!strcmp(f->fault, "down_w")) grads[p->b.down_w + 7] = (dea_real)1e-20;
    if (!strcmp(f->fault, "w_rel")) grads[p->b.w_rel + 7] = (dea_real)NAN;
    if (!strcmp(f->fault, "dcog")) dcog[p->cog_count - 1] = 1;
    if (!strcmp(f->fault, "no gradient")) grads[p->b.gate] = grads[p->b.gate + 1] = 0;
    return DEA_OK;
}

static void test_verify_gates(void **state) {
    (void)state;
    static const char *const faults[] = {"none", "logits", "down_w", "w_rel", "dcog", "no gradient", "status"};
    for (int i = 0; i < LENGTH(faults); ++i) {
        faulty f;
        const char *what = "untouched";
        draw_blocking(&f.p, 2, 3, 4, 6, 4, 2, 0, 1);
        f.fault = faults[i], f.calls = 0, f.gates_were_zero = 1;
        blocking *p = &f.p;
        dea_real *logits = take_reals(2 * p->x_count), *gates = take_reals(2);
        dea_real *params = take_copy(p->m.params, p->m.table.elements);
        fill_gauss(p->m.grads, p->m.table.elements, 1); /* zeroed by the check */
        const dea_status status =
            dea_meta_verify_gates(&p->b, p->m.params, faulty_pass, &f, logits, p->x_count, p->m.grads,
                                  p->m.table.elements, p->dcog, p->cog_count, gates, &what);
        assert_int_equal(status, i == 0 ? DEA_OK : i == 6 ? DEA_ERR_NONFINITE : DEA_ERR_ISOLATION);
        if (i == 0 || i == 6)
            assert_true(what == NULL);
        else
            assert_true(what && strstr(what, faults[i]));
        assert_true(f.gates_were_zero);
        assert_int_equal(f.calls, i == 6 ? 1 : 2);
        assert_same_bits(params, p->m.params, p->m.table.elements);
    }
    blocking p;
    const char *what;
    dea_real x[4] = {0};
    draw_blocking(&p, 1, 1, 2, 4, 4, 2, 0, 0);
    assert_status(dea_meta_verify_gates(&p.b, NULL, faulty_pass, NULL, x, 1, x, 1, x, 1, x, &what), DEA_ERR_NULL);
    assert_status(dea_meta_verify_gates(&p.b, x, faulty_pass, NULL, x, 0, x, 1, x, 1, x, &what), DEA_ERR_SHAPE);
}

/* ---- bad input ------------------------------------------------------------------------------------------------------------ */
static void test_encoder_refuses(void **state) {
    (void)state;
    encoding p;
    draw_encoding(&p, 2, 3, 5, 6, 1, 3);
    char *w = p.workspace;
#define FORWARD(e, act, batch, cog, cache, workspace, bytes)                                                           \
    dea_meta_encoder_forward(e, p.m.params, act, batch, cog, cache, workspace, bytes, NULL)
    assert_status(FORWARD(NULL, p.act, 2, p.cog, p.cache, w, p.bytes), DEA_ERR_NULL);
    assert_status(FORWARD(&p.e, NULL, 2, p.cog, p.cache, w, p.bytes), DEA_ERR_NULL);
    assert_status(FORWARD(&p.e, p.act, 2, NULL, p.cache, w, p.bytes), DEA_ERR_NULL);
    assert_status(FORWARD(&p.e, p.act, 2, p.cog, p.cache, NULL, p.bytes), DEA_ERR_NULL);
    assert_status(FORWARD(&p.e, p.act, 0, p.cog, p.cache, w, p.bytes), DEA_ERR_SHAPE);
    assert_status(FORWARD(&p.e, p.act, 2, p.cog, p.cache, w, p.bytes - 1), DEA_ERR_WORKSPACE);
    assert_status(FORWARD(&p.e, p.act, 2, p.cog, p.cache, w + 8, p.bytes), DEA_ERR_ALIGNMENT);
    assert_status(FORWARD(&p.e, p.act, 2, p.act, p.cache, w, p.bytes), DEA_ERR_ALIAS);
    assert_status(FORWARD(&p.e, p.act, 2, p.cog, p.cog, w, p.bytes), DEA_ERR_ALIAS);
    assert_status(FORWARD(&p.e, p.act, 2, p.cog, p.cache, p.cache, p.bytes), DEA_ERR_ALIAS);
    assert_status(dea_meta_encoder_backward(&p.e, p.m.params, p.act, 2, NULL, p.dcog, p.m.grads, w, p.bytes, NULL),
                  DEA_ERR_NULL);
    assert_status(dea_meta_encoder_backward(&p.e, p.m.params, p.act, 2, p.cache, p.dcog, NULL, w, p.bytes, NULL),
                  DEA_ERR_NULL);
    assert_status(dea_meta_encoder_backward(&p.e, p.m.params, p.act, -1, p.cache, p.dcog, p.m.grads, w, p.bytes, NULL),
                  DEA_ERR_SHAPE);
    assert_status(dea_meta_encoder_backward(&p.e, p.m.params, p.act, 2, p.cache, p.dcog, p.m.grads, w, 1, NULL),
                  DEA_ERR_WORKSPACE);
    static const int bad[][6] = {
        {0, 5, 6, 1, 3, DEA_ERR_SHAPE},          {3, 0, 6, 1, 3, DEA_ERR_SHAPE},
        {3, 5, 0, 1, 3, DEA_ERR_SHAPE},          {3, 5, 6, -1, 3, DEA_ERR_SHAPE},
        {3, 5, 6, 1, 4, DEA_ERR_SHAPE},          {3, 5, 6, 1, 0, DEA_ERR_SHAPE},
        {3, 5, 1 << 30, 0, 3, DEA_ERR_OVERFLOW}, {1 << 28, 1 << 28, 1 << 20, 0, 3, DEA_ERR_OVERFLOW},
        {1 << 30, 1, 1, 0, 1, DEA_ERR_OVERFLOW}};
    for (int i = 0; i < LENGTH(bad); ++i) {
        dea_meta_encoder e = p.e;
        e.layers = bad[i][0], e.width = bad[i][1], e.bottleneck = bad[i][2], e.blocks = bad[i][3], e.heads = bad[i][4];
        assert_status(FORWARD(&e, p.act, 2, p.cog, p.cache, w, p.bytes), (dea_status)bad[i][5]);
        assert_int_equal(dea_meta_encoder_workspace(&e, 2), 0);
        assert_int_equal(dea_meta_encoder_cache_count(&e, 2), 0);
        if (i < LENGTH(bad) - 1) assert_status(dea_meta_encoder_register(&e, &p.m.table, "x_"), (dea_status)bad[i][5]);
        if (i < LENGTH(bad) - 1) assert_status(dea_meta_encoder_reset(&e, p.m.params, 1), (dea_status)bad[i][5]);
    }
    assert_status(dea_meta_encoder_register(&p.e, NULL, "x_"), DEA_ERR_NULL);
    assert_status(dea_meta_encoder_reset(&p.e, NULL, 1), DEA_ERR_NULL);
#undef FORWARD
}

static void test_blocks_refuse(void **state) {
    (void)state;
    blocking p;
    draw_blocking(&p, 3, 4, 3, 6, 4, 2, 1, 0);
    attend_forward(&p);
    char *w = p.workspace;
#define FORWARD(s, index, x, y, cache, workspace, bytes)                                                               \
    dea_meta_block_forward(&p.b, p.m.params, s, index, x, y, cache, workspace, bytes)
#define BACKWARD(cache, dy, dx, dkv, bytes)                                                                            \
    dea_meta_block_backward(&p.b, p.m.params, &p.s, 1, p.x, cache, dy, dx, dkv, p.m.grads, w, bytes)
    assert_status(FORWARD(NULL, 1, p.x, p.y, p.cache, w, p.bytes), DEA_ERR_NULL);
    assert_status(FORWARD(&p.s, 1, NULL, p.y, p.cache, w, p.bytes), DEA_ERR_NULL);
    assert_status(FORWARD(&p.s, 1, p.x, NULL, p.cache, w, p.bytes), DEA_ERR_NULL);
    assert_status(FORWARD(&p.s, 2, p.x, p.y, p.cache, w, p.bytes), DEA_ERR_INDEX);
    assert_status(FORWARD(&p.s, -1, p.x, p.y, p.cache, w, p.bytes), DEA_ERR_INDEX);
    assert_status(FORWARD(&p.s, 1, p.x, p.y, p.cache, w, p.bytes - 1), DEA_ERR_WORKSPACE);
    assert_status(FORWARD(&p.s, 1, p.x, p.y, p.cache, w + 4, p.bytes), DEA_ERR_ALIGNMENT);
    assert_status(FORWARD(&p.s, 1, p.x, p.x + 1, p.cache, w, p.bytes), DEA_ERR_ALIAS);
    assert_status(FORWARD(&p.s, 1, p.x, p.y, p.kv, w, p.bytes), DEA_ERR_ALIAS);
    assert_status(BACKWARD(NULL, p.dy, p.dx, p.dkv, p.bytes), DEA_ERR_NULL);
    assert_status(BACKWARD(p.cache, NULL, p.dx, p.dkv, p.bytes), DEA_ERR_NULL);
    assert_status(BACKWARD(p.cache, p.dy, p.x, p.dkv, p.bytes), DEA_ERR_ALIAS);
    assert_status(BACKWARD(p.cache, p.dy, p.dx, p.kv, p.bytes), DEA_ERR_ALIAS);
    assert_status(BACKWARD(p.cache, p.dy, p.dx, p.dkv, p.bytes - 1), DEA_ERR_WORKSPACE);
    for (int i = 0; i < 2; ++i) {
        p.lengths[2] = i ? 5 : -1;
        assert_status(FORWARD(&p.s, 1, p.x, p.y, p.cache, w, p.bytes), DEA_ERR_KEY_LENGTH);
        assert_status(BACKWARD(p.cache, p.dy, p.dx, p.dkv, p.bytes), DEA_ERR_KEY_LENGTH);
    }
    p.lengths[2] = 1;
    dea_meta_sequences s = p.s;
    s.kv = NULL;
    assert_status(FORWARD(&s, 1, p.x, p.y, p.cache, w, p.bytes), DEA_ERR_NULL);
    static const int shapes[][3] = {{0, 4, 1}, {3, 0, 1}, {3, 4, 0}};
    for (int i = 0; i < LENGTH(shapes); ++i) {
        s = p.s;
        s.batch = shapes[i][0], s.seq = shapes[i][1], s.threads.count = shapes[i][2];
        assert_status(FORWARD(&s, 1, p.x, p.y, p.cache, w, p.bytes), DEA_ERR_SHAPE);
        assert_int_equal(dea_meta_block_workspace(&p.b, &s), 0);
        assert_int_equal(dea_meta_block_cache_count(&p.b, &s), 0);
        assert_true(dea_meta_block_weights(&p.b, &s, p.cache) == NULL);
    }
    static const int bad[][6] = {
        {0, 3, 6, 4, 2, DEA_ERR_SHAPE},           {2, 0, 6, 4, 2, DEA_ERR_SHAPE},
        {2, 3, 0, 4, 2, DEA_ERR_SHAPE},           {2, 3, 6, 0, 2, DEA_ERR_SHAPE},
        {2, 3, 6, 4, 0, DEA_ERR_SHAPE},           {2, 3, 6, 4, 3, DEA_ERR_SHAPE},
        {1 << 28, 3, 6, 16, 1, DEA_ERR_OVERFLOW}, {1 << 16, 3, 1 << 30, 1 << 14, 1, DEA_ERR_OVERFLOW}};
    for (int i = 0; i < LENGTH(bad); ++i) {
        dea_meta_blocks b = p.b;
        b.count = bad[i][0], b.tokens = bad[i][1], b.width = bad[i][2], b.bottleneck = bad[i][3], b.heads = bad[i][4];
        const dea_status expected = (dea_status)bad[i][5];
        assert_status(dea_meta_block_forward(&b, p.m.params, &p.s, 0, p.x, p.y, NULL, w, p.bytes), expected);
        assert_status(dea_meta_keys_forward(&b, p.m.params, p.cog, 3, p.kv, NULL), expected);
        assert_status(dea_meta_keys_backward(&b, p.m.params, p.cog, p.dkv, 3, p.dcog, p.m.grads, NULL), expected);
        assert_status(dea_meta_blocks_register(&b, &p.m.table, "x_"), expected);
        assert_status(dea_meta_blocks_reset(&b, p.m.params, 1), expected);
        assert_status(dea_meta_fold_apply(&b, p.x, p.x, p.y, 1, p.dx, NULL), expected);
        assert_int_equal(dea_meta_keys_count(&b, 3), 0);
        assert_int_equal(dea_meta_block_workspace(&b, &p.s), 0);
    }
    assert_status(dea_meta_keys_forward(&p.b, p.m.params, p.cog, 0, p.kv, NULL), DEA_ERR_SHAPE);
    assert_status(dea_meta_keys_forward(&p.b, p.m.params, NULL, 3, p.kv, NULL), DEA_ERR_NULL);
    assert_status(dea_meta_keys_forward(&p.b, p.m.params, p.cog, 3, p.cog, NULL), DEA_ERR_ALIAS);
    assert_status(dea_meta_keys_backward(&p.b, p.m.params, NULL, p.dkv, 3, p.dcog, p.m.grads, NULL), DEA_ERR_NULL);
    assert_status(dea_meta_keys_backward(&p.b, p.m.params, p.cog, p.dkv, 3, p.dkv, p.m.grads, NULL), DEA_ERR_ALIAS);
    dea_real *fold = take_reals(dea_meta_fold_count(&p.b)), *scores = take_reals(6);
    assert_status(dea_meta_fold(&p.b, p.m.params, &p.s, 1, 3, fold, w, p.bytes), DEA_ERR_INDEX);
    assert_status(dea_meta_fold(&p.b, p.m.params, &p.s, 1, 0, NULL, w, p.bytes), DEA_ERR_NULL);
    assert_status(dea_meta_fold(&p.b, p.m.params, &p.s, 1, 0, fold, w, 1), DEA_ERR_WORKSPACE);
    assert_status(dea_meta_fold(&p.b, p.m.params, &p.s, 1, 0, p.kv, w, p.bytes), DEA_ERR_ALIAS);
    assert_ok(dea_meta_fold(&p.b, p.m.params, &p.s, 1, 0, fold, w, p.bytes));
    assert_status(dea_meta_fold_apply(&p.b, fold, p.x, p.y, 0, scores, NULL), DEA_ERR_SHAPE);
    assert_status(dea_meta_fold_apply(&p.b, fold, p.x, p.y, 1, NULL, NULL), DEA_ERR_NULL);
    assert_status(dea_meta_fold_apply(&p.b, fold, p.x, p.y, 1, p.y, NULL), DEA_ERR_ALIAS);
#undef FORWARD
#undef BACKWARD
}

static void test_confidence_refuses(void **state) {
    (void)state;
    judgement p;
    draw_judgement(&p, 2, 3, 5, 4);
    void *w = p.workspace;
    const dea_real *act = p.act;
#define FORWARD(c, act, batch, u, bytes)                                                                               \
    dea_meta_confidence_forward(c, p.m.params, act, batch, u, p.cache, w, bytes, NULL)
    assert_status(FORWARD(NULL, act, 2, p.u, p.bytes), DEA_ERR_NULL);
    assert_status(FORWARD(&p.c, NULL, 2, p.u, p.bytes), DEA_ERR_NULL);
    assert_status(FORWARD(&p.c, act, 2, NULL, p.bytes), DEA_ERR_NULL);
    assert_status(FORWARD(&p.c, act, 0, p.u, p.bytes), DEA_ERR_SHAPE);
    assert_status(FORWARD(&p.c, act, 2, p.u, p.bytes - 1), DEA_ERR_WORKSPACE);
    assert_status(FORWARD(&p.c, act, 2, p.act, p.bytes), DEA_ERR_ALIAS);
    assert_status(dea_meta_confidence_backward(&p.c, p.m.params, act, 2, NULL, p.du, p.m.grads, w, p.bytes, NULL),
                  DEA_ERR_NULL);
    assert_status(dea_meta_confidence_backward(&p.c, p.m.params, act, 0, p.cache, p.du, p.m.grads, w, p.bytes, NULL),
                  DEA_ERR_SHAPE);
    assert_status(dea_meta_confidence_backward(&p.c, p.m.params, act, 2, p.cache, p.du, p.m.grads, w, 0, NULL),
                  DEA_ERR_WORKSPACE);
    dea_meta_confidence c = p.c;
    c.width = 0;
    assert_status(FORWARD(&c, act, 2, p.u, p.bytes), DEA_ERR_SHAPE);
    assert_status(dea_meta_confidence_register(&c, &p.m.table, "x_"), DEA_ERR_SHAPE);
    assert_int_equal(dea_meta_confidence_workspace(&c, 2), 0);
    assert_int_equal(dea_meta_confidence_cache_count(&c, 2), 0);
    c.width = 1 << 30, c.layers = 1 << 30;
    assert_status(FORWARD(&c, act, 2, p.u, p.bytes), DEA_ERR_OVERFLOW);
    assert_status(dea_meta_confidence_reset(&p.c, NULL, 1), DEA_ERR_NULL);
#undef FORWARD
}

#define TEST(f) cmocka_unit_test_teardown(f, release)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_golden_encoders),
        TEST(test_golden_blocks),
        TEST(test_golden_two_passes),
        TEST(test_golden_can_fail),
        TEST(test_encoder_gradients),
        TEST(test_small_gates),
        TEST(test_block_gradients),
        TEST(test_dual_expert_gradients),
        TEST(test_confidence_gradients),
        TEST(test_gradients_accumulate),
        TEST(test_gate_zero),
        TEST(test_padding_is_inert),
        TEST(test_softmax_over_tokens),
        TEST(test_one_token),
        TEST(test_rows_are_apart),
        TEST(test_in_place),
        TEST(test_long_streams),
        TEST(test_threads),
        TEST(test_keys_of_all_blocks),
        TEST(test_folded),
        TEST(test_dual_expert_scores),
        TEST(test_parameter_counts),
        TEST(test_initial_values),
        TEST(test_register_is_whole),
        TEST(test_hooks),
        TEST(test_confidence_loss),
        TEST(test_warm_start),
        TEST(test_draw),
        TEST(test_cutting),
        TEST(test_joining),
        TEST(test_accumulation),
        TEST(test_early_stopping),
        TEST(test_hash),
        TEST(test_verify_gates),
        TEST(test_encoder_refuses),
        TEST(test_blocks_refuse),
        TEST(test_confidence_refuses),
    };
    seed_numbers(8);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

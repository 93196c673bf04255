/* The layer in double: its table, its initial values, its gradients end to end, and two layers in one arena. */
#define DEA_REAL double
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"
#include "support.h"
#include "thread_hooks.h"

/* A model of `layers` layers with everything a call needs. */
typedef struct model {
    dea_tensor tensors[32];
    dea_table table;
    dea_layer layers[2];
    dea_real *params, *grads;
    int count, batch, seq;
    dea_attention a[2];
    dea_real *x, *h, *y, *dy, *dh, *dx, *cache[2]; /* x -> layer 0 -> h -> layer 1 -> y */
    void *workspace;
    size_t bytes, activations;
    const dea_real *labels;
    const dea_gate *gate;
    int causal;
} model;

static void run_forward(model *m) {
    for (int l = 0; l < m->count; ++l)
        assert_ok(dea_layer_forward(&m->layers[l], m->params, &m->a[l], l ? m->h : m->x, l + 1 < m->count ? m->h : m->y,
                                    m->cache[l], m->workspace, m->bytes));
}

static void build(model *m, int count, int d_model, int heads, int use_temperature, int batch, int seq) {
    static const char *const prefixes[2] = {"layer0.", "layer1."};
    memset(m, 0, sizeof *m);
    m->table = dea_table_init(m->tensors, LENGTH(m->tensors));
    m->count = count, m->batch = batch, m->seq = seq;
    for (int l = 0; l < count; ++l) {
        m->layers[l] = dea_layer_init(d_model, heads);
        m->layers[l].use_temperature = use_temperature;
        assert_ok(dea_layer_register(&m->layers[l], &m->table, prefixes[l]));
    }
    m->params = take_zeros(m->table.elements), m->grads = take_zeros(m->table.elements);
    for (int l = 0; l < count; ++l) {
        assert_ok(dea_layer_reset(&m->layers[l], m->params, (uint64_t)(40 + l)));
        m->a[l] = dea_layer_attention(&m->layers[l], m->params, batch, seq);
        m->a[l].threads.count = 1, m->a[l].threads.run = NULL;
        m->cache[l] = take_reals(dea_layer_cache_count(&m->layers[l], &m->a[l]));
    }
    m->activations = (size_t)batch * (size_t)seq * (size_t)d_model;
    m->x = take_gauss(m->activations, 1), m->dy = take_gauss(m->activations, 1);
    m->h = take_reals(m->activations), m->y = take_reals(m->activations);
    m->dh = take_reals(m->activations), m->dx = take_reals(m->activations);
}

static void size_model(model *m) {
    dea_gate gate = dea_gate_init();
    m->bytes = dea_layer_workspace(&m->layers[0], &m->a[0], m->a[0].labels ? &gate : NULL);
    assert_true(m->bytes > 0);
    m->workspace = take(m->bytes);
}

static void run_backward(model *m) {
    for (int l = m->count - 1; l >= 0; --l)
        assert_ok(dea_layer_backward(&m->layers[l], m->params, &m->a[l], l ? m->h : m->x, m->cache[l],
                                     l + 1 < m->count ? m->dh : m->dy, l ? m->dh : m->dx, m->grads, m->workspace,
                                     m->bytes));
}

/* ---- the table ------------------------------------------------------------------------------------------------------- */
static void test_table(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int rank, shape[4];
        dea_group group;
        int decay;
    } rows[] = {
        {"w_qkv", 2, {24, 8}, DEA_GROUP_MAIN, 1},   {"b_qkv", 1, {24}, DEA_GROUP_MAIN, 0},
        {"w_rel", 3, {2, 4, 4}, DEA_GROUP_MAIN, 1}, {"w_gate", 2, {2, 10}, DEA_GROUP_GATE, 1},
        {"c_gate", 1, {2}, DEA_GROUP_GATE, 0},      {"w_o", 2, {8, 8}, DEA_GROUP_MAIN, 1},
        {"b_o", 1, {8}, DEA_GROUP_MAIN, 0},         {"temperature", 1, {2}, DEA_GROUP_MAIN, 0},
    };
    model m;
    seed_numbers(51);
    build(&m, 2, 8, 2, 1, 1, 3);
    assert_int_equal(m.table.count, 16);
    size_t end = 0;
    for (int i = 0; i < m.table.count; ++i) {
        const dea_tensor *t = &m.table.tensors[i];
        char name[64];
        int known = 0;
        assert_true(t->offset >= end && t->offset * sizeof(dea_real) % 64 == 0); /* in order, apart, aligned */
        end = t->offset + t->count;
        for (int r = 0; r < LENGTH(rows); ++r) {
            snprintf(name, sizeof name, "layer%d.%s", i / 8, rows[r].name);
            if (strcmp(name, t->name)) continue;
            known = 1;
            assert_int_equal(t->rank, rows[r].rank);
            size_t count = 1;
            for (int k = 0; k < t->rank; ++k)
                assert_int_equal(t->shape[k], rows[r].shape[k]), count *= (size_t)t->shape[k];
            assert_int_equal(t->count, count);
            assert_int_equal(t->group, rows[r].group);
            assert_int_equal(t->decay != 0, rows[r].decay);
            assert_true(t->lr_scale == 1);
            assert_ptr_equal(dea_table_find(&m.table, name), t);
        }
        if (!known) print_error("unexpected tensor %s\n", t->name);
        assert_true(known);
    }
    assert_true(m.table.elements >= end);
    assert_int_equal(dea_table_find(&m.table, "layer1.w_rel")->offset, m.layers[1].w_rel);
    assert_int_equal(dea_table_find(&m.table, "layer0.w_gate")->offset, m.layers[0].w_gate);
    assert_int_equal(dea_table_find(&m.table, "layer1.temperature")->offset, m.layers[1].temperatures);
    assert_null(dea_table_find(&m.table, "layer2.w_rel"));
    build(&m, 1, 8, 2, 0, 1, 3);
    assert_int_equal(m.table.count, 7);
    assert_null(dea_table_find(&m.table, "layer0.temperature"));
}

/* ---- initial values -------------------------------------------------------------------------------------------------- */
static double product_with_transpose(const dea_real *w, int n, int i, int j) {
    double sum = 0;
    for (int c = 0; c < n; ++c) sum += w[i * n + c] * w[j * n + c];
    return sum;
}

static void check_xavier(const dea_real *w, size_t count, int fan_in, int fan_out) {
    double limit = sqrt(6.0 / (fan_in + fan_out)), largest = 0, mean = 0, square = 0;
    for (size_t i = 0; i < count; ++i) {
        largest = fmax(largest, fabs(w[i]));
        mean += w[i] / (double)count, square += w[i] * w[i] / (double)count;
    }
    assert_true(largest <= limit && largest > 0.9 * limit);
    assert_near(mean, 0, 4 * limit / sqrt(3 * (double)count));
    assert_near(square / (limit * limit / 3), 1, 4 * 0.9 / sqrt((double)count));
}

static void test_reset(void **state) {
    (void)state;
    enum { D = 64, H = 4, W = D / H };
    model m;
    build(&m, 2, D, H, 1, 1, 2);
    for (int l = 0; l < 2; ++l) {
        const dea_layer *layer = &m.layers[l];
        for (int part = 0; part < 3; ++part) check_xavier(m.params + layer->w_qkv + part * D * D, D * D, D, D);
        check_xavier(m.params + layer->w_o, D * D, D, D);
        check_xavier(m.params + layer->w_gate, H * (2 * W + 2), 2 * W + 2, 1);
        assert_true(all_zero(m.params + layer->b_qkv, 3 * D) && all_zero(m.params + layer->b_o, D));
        for (int h = 0; h < H; ++h) {
            const dea_real *w = m.params + layer->w_rel + h * W * W;
            for (int i = 0; i < W; ++i)
                for (int j = 0; j < W; ++j) assert_near(product_with_transpose(w, W, i, j), i == j, 1e-12);
            assert_true(m.params[layer->c_gate + (size_t)h] == -0.5);
            assert_true(m.params[layer->temperatures + (size_t)h] == 2);
            if (h) assert_memory_not_equal(w, w - W * W, W * W * sizeof *w);
        }
        assert_memory_not_equal(m.params + layer->w_qkv, m.params + layer->w_qkv + D * D, D * D * sizeof(dea_real));
        assert_memory_not_equal(m.params + layer->w_qkv, m.params + layer->w_o, D * D * sizeof(dea_real));
    }
    assert_memory_not_equal(m.params + m.layers[0].w_rel, m.params + m.layers[1].w_rel, W * sizeof(dea_real));
    dea_real *same = take_zeros(m.table.elements); /* a function of the seed */
    assert_ok(dea_layer_reset(&m.layers[0], same, 40));
    assert_ok(dea_layer_reset(&m.layers[1], same, 41));
    assert_same_bits(same, m.params, m.table.elements);
}

static void test_reset_options(void **state) {
    (void)state;
    model m;
    build(&m, 1, 12, 3, 1, 1, 2);
    m.layers[0].w_rel_identity = 1, m.layers[0].tie_k_to_q = 1, m.layers[0].temperature = 1.5;
    assert_ok(dea_layer_reset(&m.layers[0], m.params, 9));
    for (int i = 0; i < 3 * 16; ++i) assert_true(m.params[m.layers[0].w_rel + (size_t)i] == (i % 16 % 5 == 0));
    assert_same_bits(m.params + m.layers[0].w_qkv, m.params + m.layers[0].w_qkv + 144, 144);
    assert_memory_not_equal(m.params + m.layers[0].w_qkv, m.params + m.layers[0].w_qkv + 288, 144 * sizeof(dea_real));
    assert_true(m.params[m.layers[0].temperatures + 2] == 1.5);
    dea_layer defaults = dea_layer_init(12, 3);
    assert_true(!defaults.use_temperature && !defaults.w_rel_identity && !defaults.tie_k_to_q &&
                defaults.temperature == 2);
}

static void test_fills(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 64, 96};
    for (int s = 0; s < LENGTH(sizes); ++s) {
        int n = sizes[s];
        dea_real *w = take_reals((size_t)n * (size_t)n), *gauss_w = take_reals((size_t)n * (size_t)n);
        dea_fill_orthogonal(w, n, 3);
        for (int i = 0; i < n; ++i)
            for (int j = 0; j <= i; ++j) assert_near(product_with_transpose(w, n, i, j), i == j, 1e-12);
        dea_fill_normal(gauss_w, (size_t)n * (size_t)n, 1,
                        3); /* the Gaussian it comes from: R has a positive diagonal */
        for (int i = 0; i < n; ++i) {
            double along = 0;
            for (int c = 0; c < n; ++c) along += w[i * n + c] * gauss_w[i * n + c];
            assert_true(along > 0);
        }
    }
    enum { COUNT = 40000 };
    dea_real *x = take_reals(COUNT);
    dea_fill_normal(x, COUNT, 0.02, 5);
    double mean = 0, square = 0, fourth = 0;
    for (int i = 0; i < COUNT; ++i) {
        double z = x[i] / 0.02;
        mean += z / COUNT, square += z * z / COUNT, fourth += z * z * z * z / COUNT;
    }
    assert_near(mean, 0, 4 / sqrt(COUNT));
    assert_near(square, 1, 4 * sqrt(2.0 / COUNT));
    assert_near(fourth, 3, 4 * sqrt(96.0 / COUNT));
    dea_fill_xavier(x, COUNT, 300, 100, 6);
    check_xavier(x, COUNT, 300, 100);
    dea_real *part = take_reals(COUNT); /* number i is a function of (seed, i) alone */
    dea_fill_xavier(part, 100, 300, 100, 6);
    assert_same_bits(part, x, 100);
}

/* ---- forward and backward -------------------------------------------------------------------------------------------- */
/* A layer is a linear map, the attention, and a linear map. */
static void test_layer_is_its_parts(void **state) {
    (void)state;
    enum { B = 2, T = 5, D = 12, H = 3, W = 4 };
    model m;
    seed_numbers(52);
    build(&m, 1, D, H, 1, B, T);
    fill_gauss(m.params + m.layers[0].b_qkv, 3 * D, 1), fill_gauss(m.params + m.layers[0].b_o, D, 1);
    m.a[0].causal = 1;
    size_model(&m);
    run_forward(&m);
    dea_real *qkv = take_reals(B * T * 3 * D), *o = take_reals(B * T * D), *y = take_reals(B * T * D);
    assert_ok(dea_linear_forward(m.x, m.params + m.layers[0].w_qkv, m.params + m.layers[0].b_qkv, qkv, B * T, D, 3 * D,
                                 NULL));
    dea_attention a = dea_attention_init(B, H, T, W);
    dea_strides s = {T * 3 * D, W, 3 * D}, os = {T * D, W, D};
    a.threads.count = 1;
    a.q = qkv, a.k = qkv + D, a.v = qkv + 2 * D, a.q_strides = a.k_strides = a.v_strides = s, a.o_strides = os;
    a.w_rel = m.params + m.layers[0].w_rel, a.w_gate = m.params + m.layers[0].w_gate;
    a.c_gate = m.params + m.layers[0].c_gate, a.temperature = m.params + m.layers[0].temperatures;
    a.causal = 1;
    size_t bytes = dea_forward_workspace(&a);
    assert_ok(dea_forward(&a, o, NULL, take(bytes), bytes));
    assert_ok(dea_linear_forward(o, m.params + m.layers[0].w_o, m.params + m.layers[0].b_o, y, B * T, D, D, NULL));
    assert_same_bits(y, m.y, B * T * D);
    assert_same_bits(m.cache[0], qkv, B * T * 3 * D); /* the cache is laid out as documented */
    assert_same_bits(m.cache[0] + B * T * 3 * D, o, B * T * D);
    assert_int_equal(dea_layer_cache_count(&m.layers[0], &m.a[0]), B * T * 4 * D + B * H * 4 * T);
    assert_ptr_equal(m.a[0].q, m.cache[0]);
}

/* The loss sum(y o dy) with each layer's mixer held: gate weights 0 and c at -0.4 make alpha-hat the same everywhere, so no
 * path leads through the gate and plain differences are right. */
static double model_loss(void *context) {
    model *m = context;
    double loss = 0;
    run_forward(m);
    for (size_t i = 0; i < m->activations; ++i) loss += m->y[i] * m->dy[i];
    return loss;
}

static void test_gradients_end_to_end(void **state) {
    (void)state;
    for (int variant = 0; variant < 4; ++variant) {
        model m;
        seed_numbers(53);
        build(&m, 2, 8, 2, variant & 1, 2, 5);
        int lengths[2] = {4, 5};
        for (int l = 0; l < 2; ++l) {
            memset(m.params + m.layers[l].w_gate, 0, 2 * 10 * sizeof(dea_real));
            m.params[m.layers[l].c_gate] = -0.4, m.params[m.layers[l].c_gate + 1] = 0.9;
            fill_gauss(m.params + m.layers[l].b_qkv, 24, 0.5);
            if (variant & 2)
                m.a[l].causal = 1, m.a[l].key_lengths = lengths, m.a[l].dropout = 0.2, m.a[l].seed = (uint64_t)l;
        }
        size_model(&m);
        run_forward(&m);
        run_backward(&m);
        check_gradient("x", model_loss, &m, m.x, m.dx, m.activations);
        for (int i = 0; i < m.table.count; ++i) {
            const dea_tensor *t = &m.table.tensors[i];
            if (t->group == DEA_GROUP_GATE) {
                assert_true(all_zero(m.grads + t->offset, t->count)); /* 1.9 */
            } else {
                assert_false(all_zero(m.grads + t->offset, t->count));
                check_gradient(t->name, model_loss, &m, m.params + t->offset, m.grads + t->offset, t->count);
            }
        }
        release(NULL);
    }
}

/* Gradients are added to; without dx the rest is the same. */
static void test_gradients_accumulate(void **state) {
    (void)state;
    model m;
    seed_numbers(54);
    build(&m, 2, 8, 2, 1, 2, 5);
    size_model(&m);
    run_forward(&m);
    run_backward(&m);
    dea_real *once = take_copy(m.grads, m.table.elements), *dx = take_copy(m.dx, m.activations);
    run_backward(&m);
    for (size_t i = 0; i < m.table.elements; ++i) assert_near(m.grads[i], 2 * once[i], 1e-12 * (1 + fabs(once[i])));
    assert_same_bits(dx, m.dx, m.activations);
    dea_real *grads = take_zeros(m.table.elements);
    assert_ok(
        dea_layer_backward(&m.layers[1], m.params, &m.a[1], m.h, m.cache[1], m.dy, NULL, grads, m.workspace, m.bytes));
    size_t from = m.layers[1].w_qkv, count = m.table.elements - from;
    assert_same_bits(grads + from, once + from, count);
    assert_true(all_zero(grads, from)); /* a layer touches its own tensors only */
}

static double layer_gate_loss(void *context) {
    model *m = context;
    dea_gate_result r;
    assert_ok(dea_layer_gate_loss(&m->layers[0], &m->a[0], m->gate, m->cache[0], NULL, &r, m->workspace, m->bytes));
    return r.loss;
}

static void test_gate_loss_is_isolated(void **state) {
    (void)state;
    model m;
    seed_numbers(55);
    build(&m, 1, 8, 2, 1, 2, 6);
    dea_real *labels = take_reals(72);
    for (int i = 0; i < 72; ++i) labels[i] = i % 3 ? draw_alpha() : (dea_real)NAN;
    m.a[0].labels = labels, m.a[0].gamma = 0.3;
    size_model(&m);
    run_forward(&m);
    dea_gate gate = dea_gate_init();
    dea_gate_result r;
    m.gate = &gate;
    assert_ok(dea_layer_gate_loss(&m.layers[0], &m.a[0], &gate, m.cache[0], m.grads, &r, m.workspace, m.bytes));
    assert_true(r.labelled > 0 && r.valid > 0 && r.loss == layer_gate_loss(&m));
    for (int i = 0; i < m.table.count; ++i) {
        const dea_tensor *t = &m.table.tensors[i];
        if (t->group == DEA_GROUP_MAIN)
            assert_true(all_zero(m.grads + t->offset, t->count));
        else
            check_gradient(t->name, layer_gate_loss, &m, m.params + t->offset, m.grads + t->offset, t->count);
    }
}

static void test_thread_count_changes_no_bit(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 5};
    model first;
    for (int run = 0; run < 2 * LENGTH(counts); ++run) {
        model m;
        seed_numbers(56);
        build(&m, 2, 24, 3, 1, 3, 19);
        for (int l = 0; l < 2; ++l)
            m.a[l].threads.count = counts[run / 2], m.a[l].threads.run = run % 2 ? run_in_threads : run_backwards;
        size_model(&m);
        run_forward(&m);
        run_backward(&m);
        if (run == 0) first = m;
        assert_same_bits(m.y, first.y, m.activations);
        assert_same_bits(m.dx, first.dx, m.activations);
        assert_same_bits(m.grads, first.grads, m.table.elements);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, release)

int main(void) {
    static const struct CMUnitTest tests[] = {
        TEST(test_table),
        TEST(test_reset),
        TEST(test_reset_options),
        TEST(test_fills),
        TEST(test_layer_is_its_parts),
        TEST(test_gradients_end_to_end),
        TEST(test_gradients_accumulate),
        TEST(test_gate_loss_is_isolated),
        TEST(test_thread_count_changes_no_bit),
    };
    return cmocka_run_group_tests_name("layer", tests, NULL, NULL);
}

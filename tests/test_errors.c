/* Bad input, one case at a time: the status that names it, and not one output byte changed. In double. */
#define DEA_REAL double
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"
#include "support.h"

/* ---- statuses -------------------------------------------------------------------------------------------------------- */
static void test_every_status_has_a_sentence_of_its_own(void **state) {
    (void)state;
    for (int i = 0; i >= DEA_ERR_BASE_CHANGED; --i) {
        const char *text = dea_status_string((dea_status)i);
        assert_non_null(text);
        assert_true(strlen(text) > 5);
        for (int j = 0; j > i; --j) assert_string_not_equal(text, dea_status_string((dea_status)j));
    }
    assert_non_null(dea_status_string((dea_status)-1000));
    assert_non_null(dea_status_string((dea_status)1));
}

/* ---- outputs that must not change ------------------------------------------------------------------------------------ */
typedef struct watched {
    const void *data;
    void *copy;
    size_t bytes;
} watched;

static watched watching[64];
static int watch_count;

static void watch(const void *data, size_t bytes) {
    watched w = {data, take(bytes), bytes};
    if (!data) return;
    memcpy(w.copy, data, bytes);
    watching[watch_count++] = w;
}

static int all_untouched(void) {
    int same = 1;
    for (int i = 0; i < watch_count; ++i) same &= !memcmp(watching[i].data, watching[i].copy, watching[i].bytes);
    watch_count = 0;
    return same;
}

/* ---- attention, gate loss, isolation --------------------------------------------------------------------------------- */
enum { FORWARD = 1, BACKWARD = 2, GATE = 4, ISOLATION = 8, EVERY_CALL = 15 };

/* A valid problem with all that the calls take; a spoiler makes one thing wrong. */
typedef struct victim {
    problem p;
    dea_gate gate;
    dea_gradients *g;
    dea_gate_result result, *result_at;
    dea_isolation report, *report_at;
    const dea_gate *gate_at;
    dea_real *o_at, *saved_at;
    const dea_real *d_o_at;
    int *targets, *winners;
    dea_real *beta;
    void *workspace;
    size_t bytes;
    int short_by, shift_by, no_workspace; /* what to do to the workspace */
} victim;

typedef struct spoiler {
    const char *name;
    void (*spoil)(victim *v);
    dea_status expected;
    int calls;
    int unsized; /* the workspace functions return 0 for it */
} spoiler;

static void draw_victim(victim *v, int options) {
    memset(v, 0, sizeof *v);
    v->p = draw_problem(options | TEMPERATURE | LENGTHS, 2, 2, 5, 4, DEA_PATH_PLAIN);
    take_maps(&v->p);
    forward(&v->p);
    v->gate = dea_gate_init();
    v->targets = take_ints(10), v->winners = take_ints(20), v->beta = take_reals(v->p.map_count);
    for (int i = 0; i < 10; ++i) v->targets[i] = i % 5;
    v->gate.targets = v->targets, v->gate.winners = v->winners, v->gate.beta = v->beta;
    v->g = &v->p.g, v->result_at = &v->result, v->report_at = &v->report, v->gate_at = &v->gate;
    v->o_at = v->p.o, v->saved_at = v->p.saved, v->d_o_at = v->p.d_o;
    v->bytes = dea_verify_isolation_workspace(&v->p.a, &v->gate) + 4 * DEA_ALIGNMENT; /* the largest of all */
    v->workspace = take(v->bytes);
}

static void watch_outputs(const victim *v, int call) {
    const problem *p = &v->p;
    const size_t real = sizeof(dea_real);
    if (call == FORWARD) {
        dea_real *const maps[] = {p->a.maps.et0,       p->a.maps.et1, p->a.maps.alpha_hat,
                                  p->a.maps.alpha_mix, p->a.maps.s,   p->a.maps.a};
        for (int i = 0; i < 6; ++i) watch(maps[i], p->map_count * real);
        watch(p->o, p->o_count * real), watch(p->saved, p->saved_count * real);
    }
    watch(p->g.dq, p->q_span * real), watch(p->g.dk, p->k_span * real), watch(p->g.dv, p->k_span * real);
    watch(p->g.dw_rel, p->w_rel_count * real), watch(p->g.dw_gate, p->w_gate_count * real);
    watch(p->g.dc_gate, 2 * real), watch(p->g.dtemperature, 2 * real);
    watch(p->q, p->q_span * real), watch(p->k, p->k_span * real), watch(p->v, p->k_span * real);
    watch(p->w_rel, p->w_rel_count * real), watch(p->w_gate, p->w_gate_count * real), watch(p->c_gate, 2 * real);
    watch(v->beta, p->map_count * real), watch(v->winners, 20 * sizeof(int)), watch(v->targets, 10 * sizeof(int));
    watch(&v->result, sizeof v->result), watch(&v->report, sizeof v->report);
}

static dea_status call_victim(const victim *v, int call, void *workspace, size_t bytes) {
    const dea_attention *a = &v->p.a;
    switch (call) {
    case FORWARD:
        return dea_forward(a, v->o_at, v->saved_at, workspace, bytes);
    case BACKWARD:
        return dea_backward(a, v->o_at, v->saved_at, v->d_o_at, v->g, workspace, bytes);
    case GATE:
        return dea_gate_loss(a, v->gate_at, v->saved_at, v->g, v->result_at, workspace, bytes);
    default:
        return dea_verify_isolation(a, v->gate_at, v->d_o_at, v->report_at, workspace, bytes);
    }
}

static size_t size_of_call(const victim *v, int call) {
    switch (call) {
    case FORWARD:
        return dea_forward_workspace(&v->p.a);
    case BACKWARD:
        return dea_backward_workspace(&v->p.a);
    case GATE:
        return dea_gate_loss_workspace(&v->p.a, v->gate_at);
    default:
        return dea_verify_isolation_workspace(&v->p.a, v->gate_at);
    }
}

static void check_spoiler(const spoiler *s, int options) {
    for (int call = FORWARD; call <= ISOLATION; call *= 2) {
        victim v;
        if (!(s->calls & call)) continue;
        seed_numbers(81);
        draw_victim(&v, options);
        if (call == ISOLATION) memset(&v.p.a.maps, 0, sizeof v.p.a.maps);
        size_t before = size_of_call(&v, call);
        assert_true(before > 0 && before <= v.bytes);
        assert_ok(call_victim(&v, call, v.workspace, before)); /* valid as it stands, in that much room */
        s->spoil(&v);
        void *workspace = v.no_workspace ? NULL : (char *)v.workspace + v.shift_by;
        size_t bytes = v.short_by ? before - (size_t)v.short_by : v.bytes - (size_t)v.shift_by;
        watch_outputs(&v, call);
        dea_status status = call_victim(&v, call, workspace, bytes);
        if (status != s->expected) {
            print_error("%s, call %d: %s\n  expected: %s\n", s->name, call, dea_status_string(status),
                        dea_status_string(s->expected));
            fail();
        }
        if (!all_untouched()) {
            print_error("%s, call %d: an output was touched\n", s->name, call);
            fail();
        }
        if (s->unsized && size_of_call(&v, call) != 0) {
            print_error("%s, call %d: the workspace function does not return 0\n", s->name, call);
            fail();
        }
        release(NULL);
    }
}

#define SPOILER(name, statement)                                                                                       \
    static void name(victim *v) {                                                                                      \
        statement;                                                                                                     \
    }

SPOILER(no_q, v->p.a.q = NULL)
SPOILER(no_k, v->p.a.k = NULL)
SPOILER(no_v, v->p.a.v = NULL)
SPOILER(no_w_rel, v->p.a.w_rel = NULL)
SPOILER(no_w_gate, v->p.a.w_gate = NULL)
SPOILER(no_c_gate, v->p.a.c_gate = NULL)
SPOILER(no_o, v->o_at = NULL)
SPOILER(no_saved, v->saved_at = NULL)
SPOILER(no_d_o, v->d_o_at = NULL)
SPOILER(no_gradients, v->g = NULL)
SPOILER(no_gate, v->gate_at = NULL)
SPOILER(no_result, v->result_at = NULL)
SPOILER(no_report, v->report_at = NULL)
SPOILER(no_workspace, v->no_workspace = 1)
SPOILER(gradient_of_no_temperature, v->p.a.temperature = NULL)

SPOILER(batch_zero, v->p.a.batch = 0)
SPOILER(batch_negative, v->p.a.batch = -1)
SPOILER(heads_zero, v->p.a.heads = 0)
SPOILER(heads_negative, v->p.a.heads = -3)
SPOILER(seq_q_zero, v->p.a.seq_q = 0)
SPOILER(seq_q_negative, v->p.a.seq_q = -1)
SPOILER(seq_k_zero, v->p.a.seq_k = 0)
SPOILER(seq_k_negative, v->p.a.seq_k = -1)
SPOILER(head_dim_zero, v->p.a.head_dim = 0)
SPOILER(head_dim_negative, v->p.a.head_dim = -4)
SPOILER(no_threads, v->p.a.threads.count = 0)
SPOILER(threads_negative, v->p.a.threads.count = -2)

SPOILER(huge_everything, v->p.a.batch = v->p.a.heads = v->p.a.seq_q = v->p.a.seq_k = v->p.a.head_dim = INT32_MAX)
SPOILER(huge_head_dim, v->p.a.head_dim = INT32_MAX)
SPOILER(huge_batch_and_heads, v->p.a.batch = 1 << 16; v->p.a.heads = 1 << 15; v->p.a.seq_q = v->p.a.seq_k = 1;
        v->p.a.head_dim = 1)
SPOILER(huge_batch_and_seq, v->p.a.batch = v->p.a.seq_q = INT32_MAX)
SPOILER(huge_map, v->p.a.seq_q = v->p.a.seq_k = INT32_MAX; v->p.a.heads = 1; v->p.a.head_dim = 1)

SPOILER(workspace_too_small, v->short_by = 1)
SPOILER(workspace_far_too_small, v->short_by = 64)
SPOILER(workspace_misaligned, v->shift_by = 8)
SPOILER(workspace_misaligned_by_half, v->shift_by = 32)

static const dea_strides good = {2 * 5 * 4, 5 * 4, 4};

#define STRIDE_SPOILERS(x)                                                                                             \
    SPOILER(x##_token_negative, v->p.a.x##_strides = good; v->p.a.x##_strides.token = -4)                              \
    SPOILER(x##_head_negative, v->p.a.x##_strides = good; v->p.a.x##_strides.head = -20)                               \
    SPOILER(x##_batch_negative, v->p.a.x##_strides = good; v->p.a.x##_strides.batch = -40)                             \
    SPOILER(x##_tokens_overlap, v->p.a.x##_strides = good; v->p.a.x##_strides.token = 3)                               \
    SPOILER(x##_heads_overlap, v->p.a.x##_strides = good; v->p.a.x##_strides.head = 19)                                \
    SPOILER(x##_batch_rows_overlap, v->p.a.x##_strides = good; v->p.a.x##_strides.batch = 39)                          \
    SPOILER(x##_same_row_for_all, v->p.a.x##_strides = good; v->p.a.x##_strides.token = 0)
STRIDE_SPOILERS(q)
STRIDE_SPOILERS(k)
STRIDE_SPOILERS(v)
STRIDE_SPOILERS(o)

SPOILER(length_negative, v->p.key_lengths[0] = -1)
SPOILER(length_beyond, v->p.key_lengths[1] = 6)
SPOILER(gamma_negative, v->p.a.gamma = -0.01)
SPOILER(gamma_above_1, v->p.a.gamma = 1.01)
SPOILER(gamma_nan, v->p.a.gamma = (double)NAN)
SPOILER(dropout_negative, v->p.a.dropout = -0.01)
SPOILER(dropout_1, v->p.a.dropout = 1)
SPOILER(dropout_nan, v->p.a.dropout = (double)NAN)
SPOILER(temperature_zero, v->p.temperature[1] = 0)
SPOILER(temperature_negative, v->p.temperature[0] = -1)
SPOILER(temperature_tiny, v->p.temperature[0] = (dea_real)1e-31)
SPOILER(temperature_nan, v->p.temperature[1] = (double)NAN)
SPOILER(temperature_infinite, v->p.temperature[1] = (double)INFINITY)

SPOILER(label_negative, v->p.labels[0] = -0.001)
SPOILER(label_above, v->p.labels[49] = 0.9501)
SPOILER(label_infinite, v->p.labels[7] = (double)INFINITY)
SPOILER(label_minus_infinite, v->p.labels[7] = -(double)INFINITY)
SPOILER(no_labels, v->p.a.labels = NULL)
SPOILER(two_kinds_of_labels, v->p.a.label_blocks = take(sizeof(dea_label_block)); v->p.a.label_block_count = 0)

SPOILER(block_list_missing, v->p.a.label_blocks = NULL)
SPOILER(block_batch_negative, v->p.blocks[1].batch = -1)
SPOILER(block_batch_beyond, v->p.blocks[1].batch = 2)
SPOILER(block_q_negative, v->p.blocks[0].q_begin = -1)
SPOILER(block_q_beyond, v->p.blocks[0].q_end = 6)
SPOILER(block_q_empty, v->p.blocks[0].q_end = v->p.blocks[0].q_begin)
SPOILER(block_q_backwards, v->p.blocks[0].q_begin = 4; v->p.blocks[0].q_end = 2)
SPOILER(block_k_negative, v->p.blocks[0].k_begin = -1)
SPOILER(block_k_beyond, v->p.blocks[0].k_end = 6)
SPOILER(block_k_empty, v->p.blocks[0].k_end = v->p.blocks[0].k_begin)
SPOILER(block_alpha_nan, v->p.blocks[2].alpha = (double)NAN)
SPOILER(block_alpha_above, v->p.blocks[2].alpha = 0.96)
SPOILER(block_alpha_negative, v->p.blocks[2].alpha = -0.01)
SPOILER(blocks_share_a_cell, v->p.blocks[0].q_begin = 2; v->p.blocks[0].k_begin = 2)
SPOILER(blocks_equal, v->p.blocks[3] = v->p.blocks[2])
SPOILER(blocks_overlap_out_of_order, v->p.blocks[3] = v->p.blocks[0])

SPOILER(path_unknown, v->p.a.path = (dea_path)7)
SPOILER(path_negative, v->p.a.path = (dea_path)-1)
SPOILER(isa_unknown, v->p.a.isa = (dea_isa)9)
SPOILER(fast_path_with_maps, v->p.a.path = DEA_PATH_FAST;
        if (!v->p.a.maps.s) v->p.a.maps.s = take_reals(v->p.map_count))

SPOILER(target_below, v->targets[9] = -2)
SPOILER(target_beyond, v->targets[0] = 5)
SPOILER(hard_negatives_negative, v->gate.hard_negatives = -1)
SPOILER(scale_nan, v->gate.scale = (double)NAN)

static void test_missing_pointers(void **state) {
    (void)state;
    static const spoiler cases[] = {
        {"q", no_q, DEA_ERR_NULL, EVERY_CALL, 0},
        {"k", no_k, DEA_ERR_NULL, EVERY_CALL, 0},
        {"v", no_v, DEA_ERR_NULL, EVERY_CALL - GATE, 0},
        {"w_rel", no_w_rel, DEA_ERR_NULL, EVERY_CALL, 0},
        {"w_gate", no_w_gate, DEA_ERR_NULL, EVERY_CALL, 0},
        {"c_gate", no_c_gate, DEA_ERR_NULL, EVERY_CALL, 0},
        {"o", no_o, DEA_ERR_NULL, FORWARD | BACKWARD, 0},
        {"saved", no_saved, DEA_ERR_NULL, BACKWARD | GATE, 0},
        {"d_o", no_d_o, DEA_ERR_NULL, BACKWARD | ISOLATION, 0},
        {"gradients", no_gradients, DEA_ERR_NULL, BACKWARD, 0},
        {"gate", no_gate, DEA_ERR_NULL, GATE | ISOLATION, 1},
        {"result", no_result, DEA_ERR_NULL, GATE, 0},
        {"report", no_report, DEA_ERR_NULL, ISOLATION, 0},
        {"workspace", no_workspace, DEA_ERR_NULL, EVERY_CALL, 0},
        {"dtemperature without temperature", gradient_of_no_temperature, DEA_ERR_NULL, BACKWARD, 0},
    };
    for (int i = 0; i < LENGTH(cases); ++i) check_spoiler(&cases[i], DENSE);
    assert_status(dea_forward(NULL, NULL, NULL, NULL, 0), DEA_ERR_NULL);
    assert_status(dea_backward(NULL, NULL, NULL, NULL, NULL, NULL, 0), DEA_ERR_NULL);
    assert_status(dea_gate_loss(NULL, NULL, NULL, NULL, NULL, NULL, 0), DEA_ERR_NULL);
    assert_status(dea_verify_isolation(NULL, NULL, NULL, NULL, NULL, 0), DEA_ERR_NULL);
    assert_true(!dea_forward_workspace(NULL) && !dea_backward_workspace(NULL) && !dea_gate_loss_workspace(NULL, NULL));
    assert_true(!dea_verify_isolation_workspace(NULL, NULL) && !dea_saved_count(NULL));
}

static void test_the_gate_loss_needs_no_v(void **state) {
    (void)state;
    victim v;
    seed_numbers(82);
    draw_victim(&v, DENSE);
    v.p.a.v = NULL;
    assert_ok(call_victim(&v, GATE, v.workspace, v.bytes));
}

static void test_sizes(void **state) {
    (void)state;
    static const spoiler cases[] = {
        {"batch 0", batch_zero, DEA_ERR_SHAPE, EVERY_CALL, 1},
        {"batch -1", batch_negative, DEA_ERR_SHAPE, EVERY_CALL, 1},
        {"heads 0", heads_zero, DEA_ERR_SHAPE, EVERY_CALL, 1},
        {"heads -3", heads_negative, DEA_ERR_SHAPE, EVERY_CALL, 1},
        {"seq_q 0", seq_q_zero, DEA_ERR_SHAPE, EVERY_CALL, 1},
        {"seq_q -1", seq_q_negative, DEA_ERR_SHAPE, EVERY_CALL, 1},
        {"seq_k 0", seq_k_zero, DEA_ERR_SHAPE, EVERY_CALL, 1},
        {"seq_k -1", seq_k_negative, DEA_ERR_SHAPE, EVERY_CALL, 1},
        {"head_dim 0", head_dim_zero, DEA_ERR_SHAPE, EVERY_CALL, 1},
        {"head_dim -4", head_dim_negative, DEA_ERR_SHAPE, EVERY_CALL, 1},
        {"threads 0", no_threads, DEA_ERR_SHAPE, EVERY_CALL, 1},
        {"threads -2", threads_negative, DEA_ERR_SHAPE, EVERY_CALL, 1},
        {"everything INT_MAX", huge_everything, DEA_ERR_OVERFLOW, EVERY_CALL, 1},
        {"head_dim INT_MAX", huge_head_dim, DEA_ERR_OVERFLOW, EVERY_CALL, 1},
        {"2^31 heads in the batch", huge_batch_and_heads, DEA_ERR_OVERFLOW, EVERY_CALL, 1},
        {"batch and seq_q INT_MAX", huge_batch_and_seq, DEA_ERR_OVERFLOW, EVERY_CALL, 1},
        {"map INT_MAX x INT_MAX", huge_map, DEA_ERR_OVERFLOW, EVERY_CALL, 1},
    };
    for (int i = 0; i < LENGTH(cases); ++i) check_spoiler(&cases[i], DENSE);
    dea_attention a = dea_attention_init(1, 1, INT32_MAX, 1); /* plain path, no map asked for */
    a.path = DEA_PATH_PLAIN;
    assert_true(dea_forward_workspace(&a) == 0);
    a = dea_attention_init(0, 1, 1, 1);
    assert_true(dea_saved_count(&a) == 0);
}

static void test_workspaces(void **state) {
    (void)state;
    static const spoiler cases[] = {
        {"one byte short", workspace_too_small, DEA_ERR_WORKSPACE, EVERY_CALL, 0},
        {"64 bytes short", workspace_far_too_small, DEA_ERR_WORKSPACE, EVERY_CALL, 0},
        {"8 bytes off", workspace_misaligned, DEA_ERR_ALIGNMENT, EVERY_CALL, 0},
        {"32 bytes off", workspace_misaligned_by_half, DEA_ERR_ALIGNMENT, EVERY_CALL, 0},
    };
    for (int i = 0; i < LENGTH(cases); ++i) check_spoiler(&cases[i], DENSE);
}

#define STRIDE_CASES(x, calls)                                                                                         \
    {#x " token stride negative", x##_token_negative, DEA_ERR_STRIDE, calls, 0},                                       \
        {#x " head stride negative", x##_head_negative, DEA_ERR_STRIDE, calls, 0},                                     \
        {#x " batch stride negative", x##_batch_negative, DEA_ERR_STRIDE, calls, 0},                                   \
        {#x " tokens overlap", x##_tokens_overlap, DEA_ERR_STRIDE, calls, 0},                                          \
        {#x " heads overlap", x##_heads_overlap, DEA_ERR_STRIDE, calls, 0},                                            \
        {#x " batch rows overlap", x##_batch_rows_overlap, DEA_ERR_STRIDE, calls, 0}, {                                \
#        x " token stride 0", x##_same_row_for_all, DEA_ERR_STRIDE, calls, 0                                           \
    }

static void test_strides(void **state) {
    (void)state;
    static const spoiler cases[] = {
        STRIDE_CASES(q, EVERY_CALL),
        STRIDE_CASES(k, EVERY_CALL),
        STRIDE_CASES(v, EVERY_CALL - GATE),
        STRIDE_CASES(o, EVERY_CALL - GATE),
    };
    for (int i = 0; i < LENGTH(cases); ++i) check_spoiler(&cases[i], DENSE);
}

static void test_options(void **state) {
    (void)state;
    static const spoiler cases[] = {
        {"length -1", length_negative, DEA_ERR_KEY_LENGTH, EVERY_CALL, 0},
        {"length seq_k + 1", length_beyond, DEA_ERR_KEY_LENGTH, EVERY_CALL, 0},
        {"gamma -0.01", gamma_negative, DEA_ERR_GAMMA, FORWARD | BACKWARD, 0},
        {"gamma 1.01", gamma_above_1, DEA_ERR_GAMMA, FORWARD | BACKWARD, 0},
        {"gamma NaN", gamma_nan, DEA_ERR_GAMMA, FORWARD | BACKWARD, 0},
        {"dropout -0.01", dropout_negative, DEA_ERR_DROPOUT, FORWARD | BACKWARD, 0},
        {"dropout 1", dropout_1, DEA_ERR_DROPOUT, FORWARD | BACKWARD, 0},
        {"dropout NaN", dropout_nan, DEA_ERR_DROPOUT, FORWARD | BACKWARD, 0},
        {"temperature 0", temperature_zero, DEA_ERR_TEMPERATURE, FORWARD | BACKWARD, 0},
        {"temperature -1", temperature_negative, DEA_ERR_TEMPERATURE, FORWARD | BACKWARD, 0},
        {"temperature 1e-31", temperature_tiny, DEA_ERR_TEMPERATURE, FORWARD | BACKWARD, 0},
        {"temperature NaN", temperature_nan, DEA_ERR_TEMPERATURE, FORWARD | BACKWARD, 0},
        {"temperature infinite", temperature_infinite, DEA_ERR_TEMPERATURE, FORWARD | BACKWARD, 0},
        {"path 7", path_unknown, DEA_ERR_OPTION, EVERY_CALL, 1},
        {"path -1", path_negative, DEA_ERR_OPTION, EVERY_CALL, 1},
        {"isa 9", isa_unknown, DEA_ERR_OPTION, EVERY_CALL, 1},
        {"maps of the fast path", fast_path_with_maps, DEA_ERR_OPTION, FORWARD, 1},
    };
    for (int i = 0; i < LENGTH(cases); ++i) check_spoiler(&cases[i], DENSE);
}

static void test_labels(void **state) {
    (void)state;
    static const spoiler cases[] = {
        {"label -0.001", label_negative, DEA_ERR_LABEL, EVERY_CALL, 0},
        {"label 0.9501", label_above, DEA_ERR_LABEL, EVERY_CALL, 0},
        {"label infinite", label_infinite, DEA_ERR_LABEL, EVERY_CALL, 0},
        {"label -infinite", label_minus_infinite, DEA_ERR_LABEL, EVERY_CALL, 0},
        {"labels missing", no_labels, DEA_ERR_LABELS_MISSING, GATE | ISOLATION, 0},
        {"labels dense and in blocks", two_kinds_of_labels, DEA_ERR_OPTION, EVERY_CALL, 1},
    };
    for (int i = 0; i < LENGTH(cases); ++i) check_spoiler(&cases[i], DENSE);
    victim v; /* the limits themselves are fine */
    seed_numbers(83);
    draw_victim(&v, DENSE);
    v.p.labels[0] = 0, v.p.labels[1] = 0.95;
    assert_ok(call_victim(&v, FORWARD, v.workspace, v.bytes));
    assert_ok(call_victim(&v, GATE, v.workspace, v.bytes));
    v.p.a.gamma = 1, v.p.a.dropout = 0.99, v.p.key_lengths[0] = 0, v.p.key_lengths[1] = 5;
    assert_ok(call_victim(&v, FORWARD, v.workspace, v.bytes));
    v.p.a.gamma = 0, v.p.a.dropout = 0;
    assert_ok(call_victim(&v, FORWARD, v.workspace, v.bytes));
}

static void test_label_blocks(void **state) {
    (void)state;
    static const spoiler cases[] = {
        {"list NULL", block_list_missing, DEA_ERR_NULL, EVERY_CALL, 0},
        {"batch -1", block_batch_negative, DEA_ERR_BLOCK, EVERY_CALL, 0},
        {"batch beyond", block_batch_beyond, DEA_ERR_BLOCK, EVERY_CALL, 0},
        {"q_begin -1", block_q_negative, DEA_ERR_BLOCK, EVERY_CALL, 0},
        {"q_end beyond", block_q_beyond, DEA_ERR_BLOCK, EVERY_CALL, 0},
        {"no queries", block_q_empty, DEA_ERR_BLOCK, EVERY_CALL, 0},
        {"queries backwards", block_q_backwards, DEA_ERR_BLOCK, EVERY_CALL, 0},
        {"k_begin -1", block_k_negative, DEA_ERR_BLOCK, EVERY_CALL, 0},
        {"k_end beyond", block_k_beyond, DEA_ERR_BLOCK, EVERY_CALL, 0},
        {"no keys", block_k_empty, DEA_ERR_BLOCK, EVERY_CALL, 0},
        {"alpha NaN", block_alpha_nan, DEA_ERR_LABEL, EVERY_CALL, 0},
        {"alpha 0.96", block_alpha_above, DEA_ERR_LABEL, EVERY_CALL, 0},
        {"alpha -0.01", block_alpha_negative, DEA_ERR_LABEL, EVERY_CALL, 0},
        {"two share one cell", blocks_share_a_cell, DEA_ERR_BLOCK_OVERLAP, EVERY_CALL, 0},
        {"two are equal", blocks_equal, DEA_ERR_BLOCK_OVERLAP, EVERY_CALL, 0},
        {"equal, far apart in the list", blocks_overlap_out_of_order, DEA_ERR_BLOCK_OVERLAP, EVERY_CALL, 0},
    };
    for (int i = 0; i < LENGTH(cases); ++i) check_spoiler(&cases[i], BLOCKS);
}

static void test_gate_options(void **state) {
    (void)state;
    static const spoiler cases[] = {
        {"target -2", target_below, DEA_ERR_TARGET, GATE | ISOLATION, 0},
        {"target seq_k", target_beyond, DEA_ERR_TARGET, GATE | ISOLATION, 0},
        {"hard negatives -1", hard_negatives_negative, DEA_ERR_OPTION, GATE | ISOLATION, 1},
        {"scale NaN", scale_nan, DEA_ERR_OPTION, GATE | ISOLATION, 0},
    };
    for (int i = 0; i < LENGTH(cases); ++i) check_spoiler(&cases[i], DENSE);
}

/* ---- aliasing -------------------------------------------------------------------------------------------------------- */
/* Each output laid over each input and each other output in turn, by one element at either end. */
static void check_alias(int call, dea_real **output, size_t count, const void *other, size_t other_bytes,
                        const char *what, victim *v) {
    char *at[2] = {(char *)(uintptr_t)other, (char *)(uintptr_t)other + other_bytes - sizeof(dea_real)};
    dea_real *keep = *output;
    for (int end = 0; end < 2; ++end) {
        *output = end ? (dea_real *)(void *)at[1] : (dea_real *)(void *)(at[0] - (count - 1) * sizeof(dea_real));
        if ((uintptr_t)*output % sizeof(dea_real)) *output = (dea_real *)(void *)at[0];
        dea_status status = call_victim(v, call, v->workspace, v->bytes);
        if (status != DEA_ERR_ALIAS) print_error("%s, end %d: %s\n", what, end, dea_status_string(status));
        assert_int_equal(status, DEA_ERR_ALIAS);
    }
    *output = keep;
}

static void test_forward_aliasing(void **state) {
    (void)state;
    victim v;
    seed_numbers(84);
    draw_victim(&v, DENSE);
    problem *p = &v.p;
    const size_t real = sizeof(dea_real);
    const struct {
        const char *name;
        const void *data;
        size_t bytes;
    } inputs[] = {
        {"q", p->q, p->q_span * real},
        {"k", p->k, p->k_span * real},
        {"v", p->v, p->k_span * real},
        {"w_rel", p->w_rel, p->w_rel_count * real},
        {"w_gate", p->w_gate, p->w_gate_count * real},
        {"c_gate", p->c_gate, 2 * real},
        {"temperature", p->temperature, 2 * real},
        {"labels", p->labels, 50 * real},
        {"key_lengths", p->key_lengths, 2 * sizeof(int)},
    };
    for (int i = 0; i < LENGTH(inputs); ++i) {
        check_alias(FORWARD, &v.o_at, p->o_count, inputs[i].data, inputs[i].bytes, inputs[i].name, &v);
        check_alias(FORWARD, &v.saved_at, p->saved_count, inputs[i].data, inputs[i].bytes, inputs[i].name, &v);
        check_alias(FORWARD, &v.p.a.maps.a, p->map_count, inputs[i].data, inputs[i].bytes, inputs[i].name, &v);
    }
    check_alias(FORWARD, &v.o_at, p->o_count, p->saved, p->saved_count * real, "o over saved", &v);
    check_alias(FORWARD, &v.o_at, p->o_count, p->a.maps.et0, p->map_count * real, "o over a map", &v);
    check_alias(FORWARD, &v.p.a.maps.s, p->map_count, p->a.maps.et1, p->map_count * real, "map over map", &v);
    check_alias(FORWARD, &v.o_at, p->o_count, v.workspace, dea_forward_workspace(&p->a), "o over workspace", &v);
    check_alias(FORWARD, &v.saved_at, p->saved_count, v.workspace, dea_forward_workspace(&p->a), "saved over workspace",
                &v);
    assert_ok(call_victim(&v, FORWARD, v.workspace, v.bytes));
}

static void test_backward_and_gate_aliasing(void **state) {
    (void)state;
    victim v;
    seed_numbers(85);
    draw_victim(&v, DENSE);
    problem *p = &v.p;
    const size_t real = sizeof(dea_real);
    memset(&p->a.maps, 0, sizeof p->a.maps);
    dea_real **const outputs[] = {&p->g.dq, &p->g.dk, &p->g.dv, &p->g.dw_rel, &p->g.dtemperature};
    const size_t counts[] = {p->q_span, p->k_span, p->k_span, p->w_rel_count, 2};
    for (int i = 0; i < LENGTH(outputs); ++i) {
        check_alias(BACKWARD, outputs[i], counts[i], p->q, p->q_span * real, "q", &v);
        check_alias(BACKWARD, outputs[i], counts[i], p->v, p->k_span * real, "v", &v);
        check_alias(BACKWARD, outputs[i], counts[i], p->w_rel, p->w_rel_count * real, "w_rel", &v);
        check_alias(BACKWARD, outputs[i], counts[i], p->d_o, p->o_count * real, "d_o", &v);
        check_alias(BACKWARD, outputs[i], counts[i], p->o, p->o_count * real, "o", &v);
        check_alias(BACKWARD, outputs[i], counts[i], p->saved, p->saved_count * real, "saved", &v);
        check_alias(BACKWARD, outputs[i], counts[i], v.workspace, dea_backward_workspace(&p->a), "workspace", &v);
        for (int j = 0; j < i; ++j)
            check_alias(BACKWARD, outputs[i], counts[i], *outputs[j], counts[j] * real, "another gradient", &v);
    }
    assert_ok(call_victim(&v, BACKWARD, v.workspace, v.bytes));
    check_alias(GATE, &p->g.dw_gate, p->w_gate_count, p->w_gate, p->w_gate_count * real, "dw_gate over w_gate", &v);
    check_alias(GATE, &p->g.dw_gate, p->w_gate_count, p->g.dc_gate, 2 * real, "dw_gate over dc_gate", &v);
    check_alias(GATE, &p->g.dc_gate, 2, p->c_gate, 2 * real, "dc_gate over c_gate", &v);
    check_alias(GATE, &p->g.dc_gate, 2, p->labels, 50 * real, "dc_gate over labels", &v);
    check_alias(GATE, &v.gate.beta, p->map_count, p->labels, 50 * real, "beta over labels", &v);
    check_alias(GATE, &v.gate.beta, p->map_count, p->k, p->k_span * real, "beta over k", &v);
    v.gate.winners = v.targets;
    assert_status(call_victim(&v, GATE, v.workspace, v.bytes), DEA_ERR_ALIAS);
    v.gate.winners = v.winners;
    assert_ok(call_victim(&v, GATE, v.workspace, v.bytes));
}

/* A fused buffer's q, k and v interleave and share nothing. */
static void test_interleaved_tensors_do_not_alias(void **state) {
    (void)state;
    seed_numbers(86);
    problem p = draw_problem(FUSED | DENSE, 2, 2, 5, 4, DEA_PATH_PLAIN);
    dea_gate gate = dea_gate_init();
    forward(&p);
    backward(&p);
    gate_loss(&p, &gate);
    p.g.dk = p.g.dq + 3; /* one element into the rows of dq */
    assert_status(dea_backward(&p.a, p.o, p.saved, p.d_o, &p.g, p.workspace, p.bytes), DEA_ERR_ALIAS);
}

/* Buffers that only touch share nothing, whatever their element size. */
static void test_touching_buffers_do_not_alias(void **state) {
    (void)state;
    seed_numbers(88);
    problem p = draw_problem(DENSE | LENGTHS, 1, 1, 1, 2, DEA_PATH_PLAIN);
    dea_gate gate = dea_gate_init();
    char *block = take(4 * sizeof(dea_real));
    forward(&p);
    p.key_lengths[0] = 1;
    gate.winners = (int *)(void *)(block + 4), gate.beta = (dea_real *)(void *)(block + 8); /* one int, then one real */
    gate_loss(&p, &gate);
    memcpy(block, p.key_lengths, sizeof(int));
    p.a.key_lengths = (const int *)(void *)block;
    gate_loss(&p, &gate);
    gate.winners = (int *)(void *)(block + 8);
    dea_gate_result r;
    assert_status(dea_gate_loss(&p.a, &gate, p.saved, &p.g, &r, p.workspace, p.bytes), DEA_ERR_ALIAS);
}

/* ---- parts ----------------------------------------------------------------------------------------------------------- */
/* Calls with an output among `out` (24 numbers of pattern) must return `expected` and leave it. */
#define REFUSED(expected, call)                                                                                        \
    do {                                                                                                               \
        watch(out, 24 * sizeof *out), watch(out2, 24 * sizeof *out2), watch(in, 24 * sizeof *in);                      \
        assert_status(call, expected);                                                                                 \
        assert_true(all_untouched());                                                                                  \
    } while (0)

static void test_linear(void **state) {
    (void)state;
    dea_real *in = take_gauss(24, 1), *w = take_gauss(24, 1), *out = take_reals(24), *out2 = take_reals(24);
    REFUSED(DEA_ERR_NULL, dea_linear_forward(NULL, w, NULL, out, 2, 3, 4, NULL));
    REFUSED(DEA_ERR_NULL, dea_linear_forward(in, NULL, NULL, out, 2, 3, 4, NULL));
    REFUSED(DEA_ERR_NULL, dea_linear_forward(in, w, NULL, NULL, 2, 3, 4, NULL));
    REFUSED(DEA_ERR_SHAPE, dea_linear_forward(in, w, NULL, out, 0, 3, 4, NULL));
    REFUSED(DEA_ERR_SHAPE, dea_linear_forward(in, w, NULL, out, 2, -3, 4, NULL));
    REFUSED(DEA_ERR_SHAPE, dea_linear_forward(in, w, NULL, out, 2, 3, 0, NULL));
    REFUSED(DEA_ERR_OVERFLOW, dea_linear_forward(in, w, NULL, out, INT32_MAX, INT32_MAX, 1, NULL));
    REFUSED(DEA_ERR_OVERFLOW, dea_linear_forward(in, w, NULL, out, 1, INT32_MAX, INT32_MAX, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_linear_forward(in, w, NULL, in + 5, 2, 3, 4, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_linear_forward(in, w, NULL, w + 11, 2, 3, 4, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_linear_forward(in, w, out + 3, out, 2, 3, 4, NULL));
    REFUSED(DEA_ERR_NULL, dea_linear_backward(in, w, NULL, out, out2, NULL, 2, 3, 4, NULL));
    REFUSED(DEA_ERR_NULL, dea_linear_backward(in, NULL, w, out, NULL, NULL, 2, 3, 4, NULL));
    REFUSED(DEA_ERR_NULL, dea_linear_backward(NULL, w, w, NULL, out, NULL, 2, 3, 4, NULL));
    REFUSED(DEA_ERR_SHAPE, dea_linear_backward(in, w, w, out, NULL, NULL, 2, 0, 4, NULL));
    REFUSED(DEA_ERR_OVERFLOW, dea_linear_backward(in, w, w, out, NULL, NULL, INT32_MAX, 1, INT32_MAX, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_linear_backward(in, w, w, in, NULL, NULL, 2, 3, 4, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_linear_backward(in, w, w, NULL, w, NULL, 2, 3, 4, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_linear_backward(in, w, in + 12, out, out + 5, NULL, 2, 3, 4, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_linear_backward(in, w, in + 12, out, out2, out2 + 11, 2, 3, 4, NULL));
}

static void test_layer_norm(void **state) {
    (void)state;
    dea_real *in = take_gauss(24, 1), *dy = take_gauss(24, 1), *saved = take_gauss(6, 1), *out = take_reals(24),
             *out2 = take_reals(24);
    REFUSED(DEA_ERR_NULL, dea_layer_norm_forward(NULL, NULL, NULL, out, out2, 3, 4, 1e-5, NULL));
    REFUSED(DEA_ERR_NULL, dea_layer_norm_forward(in, NULL, NULL, NULL, out2, 3, 4, 1e-5, NULL));
    REFUSED(DEA_ERR_SHAPE, dea_layer_norm_forward(in, NULL, NULL, out, out2, 0, 4, 1e-5, NULL));
    REFUSED(DEA_ERR_SHAPE, dea_layer_norm_forward(in, NULL, NULL, out, out2, 3, -1, 1e-5, NULL));
    REFUSED(DEA_ERR_OVERFLOW, dea_layer_norm_forward(in, NULL, NULL, out, out2, INT32_MAX, INT32_MAX, 1e-5, NULL));
    REFUSED(DEA_ERR_OPTION, dea_layer_norm_forward(in, NULL, NULL, out, out2, 3, 4, -1e-5, NULL));
    REFUSED(DEA_ERR_OPTION, dea_layer_norm_forward(in, NULL, NULL, out, out2, 3, 4, (double)NAN, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_layer_norm_forward(in, NULL, NULL, in + 1, out2, 3, 4, 1e-5, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_layer_norm_forward(in, NULL, NULL, out, out + 8, 3, 4, 1e-5, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_layer_norm_forward(in, out + 9, NULL, out, out2, 3, 4, 1e-5, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_layer_norm_forward(in, out2 + 5, NULL, out, out2, 3, 4, 1e-5, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_layer_norm_forward(in, NULL, out2, out, out2 + 3, 3, 4, 1e-5, NULL));
    REFUSED(DEA_ERR_NULL, dea_layer_norm_backward(NULL, NULL, saved, dy, out, NULL, NULL, 3, 4, NULL));
    REFUSED(DEA_ERR_NULL, dea_layer_norm_backward(in, NULL, NULL, dy, out, NULL, NULL, 3, 4, NULL));
    REFUSED(DEA_ERR_NULL, dea_layer_norm_backward(in, NULL, saved, NULL, out, NULL, NULL, 3, 4, NULL));
    REFUSED(DEA_ERR_SHAPE, dea_layer_norm_backward(in, NULL, saved, dy, out, NULL, NULL, -3, 4, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_layer_norm_backward(in, NULL, saved, dy, in, NULL, NULL, 3, 4, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_layer_norm_backward(in, NULL, saved, dy, dy + 2, NULL, NULL, 3, 4, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_layer_norm_backward(in, NULL, saved, dy, out, out + 11, NULL, 3, 4, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_layer_norm_backward(in, NULL, saved, dy, out, out2, out2 + 3, 3, 4, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_layer_norm_backward(in, NULL, out2, dy, out, out2 + 5, NULL, 3, 4, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_layer_norm_backward(in, NULL, out2 + 3, dy, out, NULL, out2, 3, 4, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_layer_norm_backward(in, out2, saved, dy, out, NULL, out2 + 1, 3, 4, NULL));
}

static void test_elementwise(void **state) {
    (void)state;
    dea_real *in = take_gauss(24, 1), *out = take_reals(24), *out2 = take_reals(24);
    REFUSED(DEA_ERR_NULL, dea_gelu_forward(NULL, out, 5, NULL));
    REFUSED(DEA_ERR_NULL, dea_gelu_forward(in, NULL, 5, NULL));
    REFUSED(DEA_ERR_SHAPE, dea_gelu_forward(in, out, 0, NULL));
    REFUSED(DEA_ERR_OVERFLOW, dea_gelu_forward(in, out, SIZE_MAX, NULL));
    REFUSED(DEA_ERR_OVERFLOW, dea_gelu_forward(in, out, (size_t)INT32_MAX * 4096, NULL)); /* more chunks than an int */
    REFUSED(DEA_ERR_ALIAS, dea_gelu_forward(in, in + 1, 5, NULL));
    REFUSED(DEA_ERR_NULL, dea_gelu_backward(NULL, in, out, 5, NULL));
    REFUSED(DEA_ERR_NULL, dea_gelu_backward(in, NULL, out, 5, NULL));
    REFUSED(DEA_ERR_NULL, dea_gelu_backward(in, in, NULL, 5, NULL));
    REFUSED(DEA_ERR_SHAPE, dea_gelu_backward(in, in, out, 0, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_gelu_backward(in, in + 12, in + 13, 5, NULL));
    REFUSED(DEA_ERR_ALIAS, dea_gelu_backward(in, in + 12, in + 1, 5, NULL));
    REFUSED(DEA_ERR_NULL, dea_tanh_forward(NULL, out, 5));
    REFUSED(DEA_ERR_NULL, dea_tanh_forward(in, NULL, 5));
    REFUSED(DEA_ERR_SHAPE, dea_tanh_forward(in, out, 0));
    REFUSED(DEA_ERR_ALIAS, dea_tanh_forward(in + 4, in, 5));
    REFUSED(DEA_ERR_NULL, dea_tanh_backward(NULL, in, out, 5));
    REFUSED(DEA_ERR_NULL, dea_tanh_backward(in, NULL, out, 5));
    REFUSED(DEA_ERR_NULL, dea_tanh_backward(in, in, NULL, 5));
    REFUSED(DEA_ERR_ALIAS, dea_tanh_backward(in, in + 12, in + 1, 5));
    REFUSED(DEA_ERR_NULL, dea_dropout(NULL, out, 5, 0.5, 1, 2, 3));
    REFUSED(DEA_ERR_NULL, dea_dropout(in, NULL, 5, 0.5, 1, 2, 3));
    REFUSED(DEA_ERR_SHAPE, dea_dropout(in, out, 0, 0.5, 1, 2, 3));
    REFUSED(DEA_ERR_DROPOUT, dea_dropout(in, out, 5, 1, 1, 2, 3));
    REFUSED(DEA_ERR_DROPOUT, dea_dropout(in, out, 5, -0.1, 1, 2, 3));
    REFUSED(DEA_ERR_DROPOUT, dea_dropout(in, out, 5, (double)NAN, 1, 2, 3));
    REFUSED(DEA_ERR_ALIAS, dea_dropout(in, in + 2, 5, 0.5, 1, 2, 3));
}

static void test_embedding_and_cross_entropy(void **state) {
    (void)state;
    static const int ids[3] = {0, 3, 1}, low[3] = {0, 3, -1}, high[3] = {0, 4, 1};
    dea_real *in = take_gauss(24, 1), *out = take_reals(24), *out2 = take_reals(24);
    REFUSED(DEA_ERR_NULL, dea_embedding_forward(NULL, ids, out, 3, 4, 2, 1));
    REFUSED(DEA_ERR_NULL, dea_embedding_forward(in, NULL, out, 3, 4, 2, 1));
    REFUSED(DEA_ERR_NULL, dea_embedding_forward(in, ids, NULL, 3, 4, 2, 1));
    REFUSED(DEA_ERR_SHAPE, dea_embedding_forward(in, ids, out, 0, 4, 2, 1));
    REFUSED(DEA_ERR_SHAPE, dea_embedding_forward(in, ids, out, 3, 0, 2, 1));
    REFUSED(DEA_ERR_SHAPE, dea_embedding_forward(in, ids, out, 3, 4, -2, 1));
    REFUSED(DEA_ERR_OVERFLOW, dea_embedding_forward(in, ids, out, 3, INT32_MAX, INT32_MAX, 1));
    REFUSED(DEA_ERR_INDEX, dea_embedding_forward(in, low, out, 3, 4, 2, 1));
    REFUSED(DEA_ERR_INDEX, dea_embedding_forward(in, high, out, 3, 4, 2, 1));
    REFUSED(DEA_ERR_ALIAS, dea_embedding_forward(in, ids, in + 7, 3, 4, 2, 1));
    REFUSED(DEA_ERR_NULL, dea_embedding_backward(NULL, in, out, 3, 4, 2, 1));
    REFUSED(DEA_ERR_NULL, dea_embedding_backward(ids, NULL, out, 3, 4, 2, 1));
    REFUSED(DEA_ERR_NULL, dea_embedding_backward(ids, in, NULL, 3, 4, 2, 1));
    REFUSED(DEA_ERR_SHAPE, dea_embedding_backward(ids, in, out, -1, 4, 2, 1));
    REFUSED(DEA_ERR_INDEX, dea_embedding_backward(low, in, out, 3, 4, 2, 1));
    REFUSED(DEA_ERR_INDEX, dea_embedding_backward(high, in, out, 3, 4, 2, 1));
    REFUSED(DEA_ERR_ALIAS, dea_embedding_backward(ids, in, in + 5, 3, 4, 2, 1));
    int *zeros = (int *)(void *)(out + 5); /* ids and targets inside an output */
    zeros[0] = zeros[1] = zeros[2] = 0;
    REFUSED(DEA_ERR_ALIAS, dea_embedding_forward(in, zeros, out, 3, 4, 2, 1));
    REFUSED(DEA_ERR_ALIAS, dea_embedding_backward(zeros, in, out, 3, 4, 2, 1));
    REFUSED(DEA_ERR_ALIAS, dea_cross_entropy_backward(in, zeros, 1, out, 3, 4, 0));
    REFUSED(DEA_ERR_ALIAS, dea_cross_entropy_forward(in, zeros, out + 6, NULL, 3, 4, 0));
    REFUSED(DEA_ERR_ALIAS, dea_cross_entropy_forward(in, zeros, out, zeros + 2, 3, 4, 0));
    REFUSED(DEA_ERR_ALIAS, dea_cross_entropy_forward(in, ids, in + 11, NULL, 3, 4, 0));
    REFUSED(DEA_ERR_ALIAS, dea_cross_entropy_forward(in, ids, out, (int *)(void *)out, 3, 4, 0));

    double loss = -7;
    int counted = -7;
    watch(&loss, sizeof loss), watch(&counted, sizeof counted);
    assert_status(dea_cross_entropy_forward(NULL, ids, &loss, &counted, 3, 4, 0), DEA_ERR_NULL);
    assert_status(dea_cross_entropy_forward(in, NULL, &loss, &counted, 3, 4, 0), DEA_ERR_NULL);
    assert_status(dea_cross_entropy_forward(in, ids, NULL, &counted, 3, 4, 0), DEA_ERR_NULL);
    assert_status(dea_cross_entropy_forward(in, ids, &loss, &counted, 0, 4, 0), DEA_ERR_SHAPE);
    assert_status(dea_cross_entropy_forward(in, ids, &loss, &counted, 3, 0, 0), DEA_ERR_SHAPE);
    assert_status(dea_cross_entropy_forward(in, ids, &loss, &counted, 3, 4, -0.1), DEA_ERR_OPTION);
    assert_status(dea_cross_entropy_forward(in, ids, &loss, &counted, 3, 4, 1.1), DEA_ERR_OPTION);
    assert_status(dea_cross_entropy_forward(in, ids, &loss, &counted, 3, 4, (double)NAN), DEA_ERR_OPTION);
    assert_status(dea_cross_entropy_forward(in, high, &loss, &counted, 3, 4, 0), DEA_ERR_INDEX);
    assert_true(all_untouched());
    REFUSED(DEA_ERR_NULL, dea_cross_entropy_backward(NULL, ids, 1, out, 3, 4, 0));
    REFUSED(DEA_ERR_NULL, dea_cross_entropy_backward(in, NULL, 1, out, 3, 4, 0));
    REFUSED(DEA_ERR_NULL, dea_cross_entropy_backward(in, ids, 1, NULL, 3, 4, 0));
    REFUSED(DEA_ERR_SHAPE, dea_cross_entropy_backward(in, ids, 1, out, 3, -4, 0));
    REFUSED(DEA_ERR_OPTION, dea_cross_entropy_backward(in, ids, 1, out, 3, 4, 2));
    REFUSED(DEA_ERR_INDEX, dea_cross_entropy_backward(in, high, 1, out, 3, 4, 0));
    REFUSED(DEA_ERR_ALIAS, dea_cross_entropy_backward(in, ids, 1, in + 1, 3, 4, 0));
}

/* ---- table, layer ---------------------------------------------------------------------------------------------------- */
static void test_table(void **state) {
    (void)state;
    dea_tensor tensors[2];
    dea_table table = dea_table_init(tensors, 2);
    static const int shape[4] = {2, 3, 4, 5}, zero[1] = {0}, negative[2] = {2, -1};
    static const int huge[4] = {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX};
    size_t at = 77;
    char longest[80];
    memset(longest, 'x', 79), longest[79] = 0;
    assert_ok(dea_table_add(&table, "a.", "w", 2, shape, DEA_GROUP_MAIN, 1, &at));
    at = 77;
    watch(&table, sizeof table), watch(tensors, sizeof tensors), watch(&at, sizeof at);
    assert_status(dea_table_add(NULL, "a.", "b", 2, shape, DEA_GROUP_MAIN, 1, &at), DEA_ERR_NULL);
    assert_status(dea_table_add(&table, NULL, "b", 2, shape, DEA_GROUP_MAIN, 1, &at), DEA_ERR_NULL);
    assert_status(dea_table_add(&table, "a.", NULL, 2, shape, DEA_GROUP_MAIN, 1, &at), DEA_ERR_NULL);
    assert_status(dea_table_add(&table, "a.", "b", 2, NULL, DEA_GROUP_MAIN, 1, &at), DEA_ERR_NULL);
    assert_status(dea_table_add(&table, "a.", "b", 0, shape, DEA_GROUP_MAIN, 1, &at), DEA_ERR_SHAPE);
    assert_status(dea_table_add(&table, "a.", "b", 5, shape, DEA_GROUP_MAIN, 1, &at), DEA_ERR_SHAPE);
    assert_status(dea_table_add(&table, "a.", "b", 1, zero, DEA_GROUP_MAIN, 1, &at), DEA_ERR_SHAPE);
    assert_status(dea_table_add(&table, "a.", "b", 2, negative, DEA_GROUP_MAIN, 1, &at), DEA_ERR_SHAPE);
    assert_status(dea_table_add(&table, "a.", "b", 4, huge, DEA_GROUP_MAIN, 1, &at), DEA_ERR_OVERFLOW);
    assert_status(dea_table_add(&table, "a.", "b", 2, shape, DEA_GROUPS, 1, &at), DEA_ERR_OPTION);
    assert_status(dea_table_add(&table, "a.", "w", 2, shape, DEA_GROUP_MAIN, 1, &at), DEA_ERR_OPTION); /* taken */
    assert_status(dea_table_add(&table, longest, "b", 2, shape, DEA_GROUP_MAIN, 1, &at), DEA_ERR_CAPACITY);
    longest[62] = 0;
    assert_status(dea_table_add(&table, longest, "bb", 2, shape, DEA_GROUP_MAIN, 1, &at), DEA_ERR_CAPACITY);
    assert_true(all_untouched());
    assert_ok(dea_table_add(&table, longest, "b", 2, shape, DEA_GROUP_MAIN, 1, &at)); /* 63 characters fit */
    watch(&table, sizeof table), watch(tensors, sizeof tensors);
    assert_status(dea_table_add(&table, "a.", "b", 2, shape, DEA_GROUP_MAIN, 1, &at), DEA_ERR_CAPACITY);
    assert_true(all_untouched());
    assert_null(dea_table_find(&table, NULL));
    assert_null(dea_table_find(NULL, "a.w"));
}

typedef struct layer_victim {
    dea_tensor tensors[8];
    dea_table table;
    dea_layer layer;
    dea_attention a;
    dea_gate gate;
    dea_gate_result result;
    dea_real *params, *grads, *x, *y, *dx, *cache, *labels;
    size_t cache_count, bytes;
    char *workspace;
} layer_victim;

static void draw_layer(layer_victim *l) {
    memset(l, 0, sizeof *l);
    seed_numbers(87);
    l->table = dea_table_init(l->tensors, 8);
    l->layer = dea_layer_init(6, 2);
    l->layer.use_temperature = 1;
    assert_ok(dea_layer_register(&l->layer, &l->table, ""));
    l->params = take_zeros(l->table.elements), l->grads = take_zeros(l->table.elements);
    assert_ok(dea_layer_reset(&l->layer, l->params, 1));
    l->a = dea_layer_attention(&l->layer, l->params, 2, 3);
    l->labels = take_reals(18);
    for (int i = 0; i < 18; ++i) l->labels[i] = draw_alpha();
    l->a.labels = l->labels;
    l->gate = dea_gate_init();
    l->x = take_gauss(36, 1), l->y = take_reals(36), l->dx = take_reals(36);
    l->cache_count = dea_layer_cache_count(&l->layer, &l->a);
    l->cache = take_reals(l->cache_count);
    l->bytes = dea_layer_workspace(&l->layer, &l->a, &l->gate);
    assert_true(l->bytes > 0);
    l->workspace = take(l->bytes + 64);
    assert_ok(dea_layer_forward(&l->layer, l->params, &l->a, l->x, l->y, l->cache, l->workspace, l->bytes));
    watch(&l->a, sizeof l->a), watch(l->x, 36 * sizeof(dea_real)), watch(l->y, 36 * sizeof(dea_real));
    watch(l->dx, 36 * sizeof(dea_real)), watch(l->cache, l->cache_count * sizeof(dea_real));
    watch(l->params, l->table.elements * sizeof(dea_real)), watch(l->grads, l->table.elements * sizeof(dea_real));
    watch(&l->result, sizeof l->result);
}

static void test_layer_setup(void **state) {
    (void)state;
    dea_tensor tensors[8];
    dea_table table = dea_table_init(tensors, 8);
    dea_layer layer = dea_layer_init(6, 2), odd = dea_layer_init(7, 2), none = dea_layer_init(6, 0);
    dea_real x[4] = {1, 2, 3, 4};
    watch(&table, sizeof table), watch(x, sizeof x);
    assert_status(dea_layer_register(NULL, &table, ""), DEA_ERR_NULL);
    assert_status(dea_layer_register(&layer, NULL, ""), DEA_ERR_NULL);
    assert_status(dea_layer_register(&layer, &table, NULL), DEA_ERR_NULL);
    assert_status(dea_layer_register(&odd, &table, ""), DEA_ERR_SHAPE);
    assert_status(dea_layer_register(&none, &table, ""), DEA_ERR_SHAPE);
    none = dea_layer_init(0, 2);
    assert_status(dea_layer_register(&none, &table, ""), DEA_ERR_SHAPE);
    none = dea_layer_init(INT32_MAX - 1, 2);
    assert_status(dea_layer_register(&none, &table, ""), DEA_ERR_OVERFLOW);
    table.capacity = 3;
    watch_count = 0;
    watch(&table, sizeof table), watch(&layer, sizeof layer);
    assert_status(dea_layer_register(&layer, &table, ""), DEA_ERR_CAPACITY); /* half registered would be worse */
    assert_true(all_untouched());
    assert_status(dea_layer_reset(NULL, x, 1), DEA_ERR_NULL);
    assert_status(dea_layer_reset(&layer, NULL, 1), DEA_ERR_NULL);
    assert_status(dea_layer_reset(&odd, x, 1), DEA_ERR_SHAPE);
    layer.use_temperature = 1, layer.temperature = 0;
    assert_status(dea_layer_reset(&layer, x, 1), DEA_ERR_TEMPERATURE);
    assert_true(x[0] == 1 && x[3] == 4);
}

static void test_layer_calls(void **state) {
    (void)state;
    layer_victim l;
    draw_layer(&l);
    dea_attention *a = &l.a;
    const dea_layer *y = &l.layer;
    dea_real *P = l.params, *C = l.cache, *G = l.grads;
    char *W = l.workspace;
    size_t B = l.bytes;
    size_t F = dea_layer_workspace(y, a, NULL);
    assert_status(dea_layer_forward(NULL, P, a, l.x, l.y, C, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_forward(y, NULL, a, l.x, l.y, C, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_forward(y, P, NULL, l.x, l.y, C, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_forward(y, P, a, NULL, l.y, C, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_forward(y, P, a, l.x, NULL, C, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_forward(y, P, a, l.x, l.y, NULL, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_forward(y, P, a, l.x, l.y, C, NULL, B), DEA_ERR_NULL);
    assert_status(dea_layer_forward(y, P, a, l.x, l.y, C, W, F - 1), DEA_ERR_WORKSPACE);
    assert_status(dea_layer_forward(y, P, a, l.x, l.y, C, W + 8, B), DEA_ERR_ALIGNMENT);
    assert_status(dea_layer_forward(y, P, a, l.x, l.x, C, W, B), DEA_ERR_ALIAS);
    assert_status(dea_layer_forward(y, P, a, l.x, C + 5, C, W, B), DEA_ERR_ALIAS);
    assert_status(dea_layer_forward(y, P, a, C + 100, l.y, C, W, B), DEA_ERR_ALIAS);

    assert_status(dea_layer_backward(NULL, P, a, l.x, C, l.y, l.dx, G, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_backward(y, NULL, a, l.x, C, l.y, l.dx, G, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_backward(y, P, NULL, l.x, C, l.y, l.dx, G, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_backward(y, P, a, NULL, C, l.y, l.dx, G, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_backward(y, P, a, l.x, NULL, l.y, l.dx, G, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_backward(y, P, a, l.x, C, NULL, l.dx, G, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_backward(y, P, a, l.x, C, l.y, l.dx, NULL, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_backward(y, P, a, l.x, C, l.y, l.dx, G, NULL, B), DEA_ERR_NULL);
    assert_status(dea_layer_backward(y, P, a, l.x, C, l.y, l.dx, G, W, F - 1), DEA_ERR_WORKSPACE);
    assert_status(dea_layer_backward(y, P, a, l.x, C, l.y, l.dx, G, W + 16, B), DEA_ERR_ALIGNMENT);
    assert_status(dea_layer_backward(y, P, a, l.x, C, l.y, l.y, G, W, B), DEA_ERR_ALIAS);
    assert_status(dea_layer_backward(y, P, a, l.x, C, l.y, l.x, G, W, B), DEA_ERR_ALIAS);
    assert_status(dea_layer_backward(y, P, a, l.x, C, l.y, l.dx, P, W, B), DEA_ERR_ALIAS);

    assert_status(dea_layer_gate_loss(NULL, a, &l.gate, C, G, &l.result, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_gate_loss(y, NULL, &l.gate, C, G, &l.result, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_gate_loss(y, a, NULL, C, G, &l.result, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_gate_loss(y, a, &l.gate, NULL, G, &l.result, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_gate_loss(y, a, &l.gate, C, G, NULL, W, B), DEA_ERR_NULL);
    assert_status(dea_layer_gate_loss(y, a, &l.gate, C, G, &l.result, W, B - 1), DEA_ERR_WORKSPACE);
    assert_status(dea_layer_gate_loss(y, a, &l.gate, C, P, &l.result, W, B), DEA_ERR_ALIAS);
    assert_true(all_untouched());
    assert_true(!dea_layer_workspace(NULL, a, NULL) && !dea_layer_workspace(y, NULL, NULL) &&
                !dea_layer_cache_count(NULL, a));
}

/* Memory shared where it must not be: nothing is written, neither by the layer nor by the parts it calls. */
static void test_layer_aliasing(void **state) {
    (void)state;
    layer_victim l;
    draw_layer(&l);
    dea_attention *a = &l.a, other = l.a;
    const dea_layer *y = &l.layer;
    dea_real *P = l.params, *C = l.cache, *G = l.grads, *inside = (dea_real *)(void *)l.workspace;
    char *W = l.workspace;
    size_t B = l.bytes;
    const size_t places[] = {y->w_qkv, y->b_qkv, y->w_rel, y->w_gate, y->c_gate, y->w_o, y->b_o, y->temperatures};
    for (int i = 0; i < LENGTH(places); ++i) {
        assert_status(dea_layer_forward(y, P, a, l.x, P + places[i], C, W, B), DEA_ERR_ALIAS);
        assert_status(dea_layer_forward(y, P, a, l.x, l.y, P + places[i], W, B), DEA_ERR_ALIAS);
        assert_status(dea_layer_backward(y, P, a, l.x, C, l.y, P + places[i], G, W, B), DEA_ERR_ALIAS);
        assert_status(dea_layer_backward(y, P, a, l.x, C, l.y, G + places[i], G, W, B), DEA_ERR_ALIAS);
    }
    assert_status(dea_layer_forward(y, P, a, l.x, inside + 1, C, W, B), DEA_ERR_ALIAS);
    assert_status(dea_layer_forward(y, P, a, inside + 1, l.y, C, W, B), DEA_ERR_ALIAS);
    assert_status(dea_layer_forward(y, P, a, l.x, l.y, inside, W, B), DEA_ERR_ALIAS);
    assert_status(dea_layer_forward(y, inside, a, l.x, l.y, C, W, B), DEA_ERR_ALIAS);
    assert_status(dea_layer_backward(y, P, a, l.x, C, inside, l.dx, G, W, B), DEA_ERR_ALIAS);
    assert_status(dea_layer_backward(y, P, a, l.x, C, l.y, inside, G, W, B), DEA_ERR_ALIAS);
    assert_status(dea_layer_backward(y, P, a, l.x, C, l.y, l.dx, inside, W, B), DEA_ERR_ALIAS);
    assert_status(dea_layer_backward(y, P, a, l.x, C, l.y, l.labels, G, W, B), DEA_ERR_ALIAS);
    assert_true(all_untouched());

    for (int i = 0; i < 18; ++i) C[i] = l.y[i] = 0.5; /* labels where the forward would write */
    watch(C, l.cache_count * sizeof *C), watch(l.y, 36 * sizeof *l.y), watch(&other, sizeof other);
    other.labels = C, other.q = l.x;
    memcpy(watching[2].copy, &other, sizeof other);
    assert_status(dea_layer_forward(y, P, &other, l.x, l.y, C, W, B), DEA_ERR_ALIAS);
    assert_true(all_untouched());
    other.labels = l.y;
    watch(C, l.cache_count * sizeof *C), watch(l.y, 36 * sizeof *l.y);
    assert_status(dea_layer_forward(y, P, &other, l.x, l.y, C, W, B), DEA_ERR_ALIAS);
    assert_true(all_untouched());

    dea_real *far = take_reals(l.table.elements + l.cache_count); /* the gate's gradient over the cache's o */
    watch(far, (l.table.elements + l.cache_count) * sizeof *far);
    assert_status(dea_layer_gate_loss(y, a, &l.gate, far + y->w_gate - 3 * 36, far, &l.result, W, B), DEA_ERR_ALIAS);
    assert_true(all_untouched());

    other = dea_layer_attention(y, P, 1 << 16, 1 << 15); /* more rows than an int counts */
    assert_true(!dea_layer_workspace(y, &other, NULL) && !dea_layer_cache_count(y, &other));
    assert_status(dea_layer_forward(y, P, &other, l.x, l.y, C, W, B), DEA_ERR_OVERFLOW);
}

static void test_layer_options(void **state) {
    (void)state;
    layer_victim l;
    draw_layer(&l);
    const struct {
        const char *name;
        int seq_k, heads, head_dim;
        double label, gamma;
        dea_status expected;
    } cases[] = {
        {"cross attention", 4, 2, 3, 0.5, 0, DEA_ERR_SHAPE}, {"other heads", 3, 3, 2, 0.5, 0, DEA_ERR_SHAPE},
        {"other width", 3, 2, 4, 0.5, 0, DEA_ERR_SHAPE},     {"a bad label", 3, 2, 3, 1.5, 0, DEA_ERR_LABEL},
        {"a bad gamma", 3, 2, 3, 0.5, 2, DEA_ERR_GAMMA},
    };
    watch_count = 0;
    for (int i = 0; i < LENGTH(cases); ++i) {
        draw_layer(&l);
        l.a.seq_k = cases[i].seq_k, l.a.heads = cases[i].heads, l.a.head_dim = cases[i].head_dim;
        l.a.gamma = cases[i].gamma, l.labels[4] = cases[i].label;
        l.a.q = l.x; /* must stay */
        memcpy(watching[0].copy, &l.a, sizeof l.a);
        assert_status(dea_layer_forward(&l.layer, l.params, &l.a, l.x, l.y, l.cache, l.workspace, l.bytes),
                      cases[i].expected);
        assert_true(all_untouched());
        if (cases[i].expected == DEA_ERR_SHAPE)
            assert_true(!dea_layer_workspace(&l.layer, &l.a, NULL) && !dea_layer_cache_count(&l.layer, &l.a));
    }
}

/* ---- optimiser, isotonic regression ---------------------------------------------------------------------------------- */
static void test_adamw(void **state) {
    (void)state;
    dea_tensor tensors[1];
    dea_table table = dea_table_init(tensors, 1), empty = dea_table_init(NULL, 0);
    static const int shape[1] = {6};
    assert_ok(dea_table_add(&table, "", "w", 1, shape, DEA_GROUP_MAIN, 0, NULL));
    dea_real *p = take_gauss(table.elements, 1), *g = take_gauss(table.elements, 1), *m = take_zeros(table.elements),
             *v = take_zeros(table.elements);
    double norms[2] = {-7, -7};
    dea_adamw o = dea_adamw_init();
    watch(p, 6 * sizeof *p), watch(m, 6 * sizeof *m), watch(v, 6 * sizeof *v), watch(norms, sizeof norms);
    assert_status(dea_gradient_squares(NULL, g, norms), DEA_ERR_NULL);
    assert_status(dea_gradient_squares(&empty, g, norms), DEA_ERR_NULL);
    assert_status(dea_gradient_squares(&table, NULL, norms), DEA_ERR_NULL);
    assert_status(dea_gradient_squares(&table, g, NULL), DEA_ERR_NULL);
    assert_status(dea_adamw_step(NULL, &table, p, g, m, v, 1, 1, norms), DEA_ERR_NULL);
    assert_status(dea_adamw_step(&o, NULL, p, g, m, v, 1, 1, norms), DEA_ERR_NULL);
    assert_status(dea_adamw_step(&o, &empty, p, g, m, v, 1, 1, norms), DEA_ERR_NULL);
    assert_status(dea_adamw_step(&o, &table, NULL, g, m, v, 1, 1, norms), DEA_ERR_NULL);
    assert_status(dea_adamw_step(&o, &table, p, NULL, m, v, 1, 1, norms), DEA_ERR_NULL);
    assert_status(dea_adamw_step(&o, &table, p, g, NULL, v, 1, 1, norms), DEA_ERR_NULL);
    assert_status(dea_adamw_step(&o, &table, p, g, m, NULL, 1, 1, norms), DEA_ERR_NULL);
    assert_status(dea_adamw_step(&o, &table, p, g, m, v, 0, 1, norms), DEA_ERR_OPTION);
    assert_status(dea_adamw_step(&o, &table, p, g, m, v, 1, -1, norms), DEA_ERR_OPTION);
    assert_status(dea_adamw_step(&o, &table, p, g, m, v, 1, (double)NAN, norms), DEA_ERR_OPTION);
    double *const fields[] = {&o.lr[0], &o.lr[1], &o.clip[0], &o.clip[1], &o.beta1, &o.beta2, &o.eps, &o.weight_decay};
    for (int i = 0; i < LENGTH(fields); ++i) {
        double keep = *fields[i];
        *fields[i] = -0.1;
        assert_status(dea_adamw_step(&o, &table, p, g, m, v, 1, 1, norms), DEA_ERR_OPTION);
        *fields[i] = (double)NAN;
        assert_status(dea_adamw_step(&o, &table, p, g, m, v, 1, 1, norms), DEA_ERR_OPTION);
        *fields[i] = keep;
    }
    for (int i = 0; i < LENGTH(fields); ++i) {
        double keep = *fields[i];
        *fields[i] = (double)INFINITY;
        assert_status(dea_adamw_step(&o, &table, p, g, m, v, 1, 1, norms), DEA_ERR_OPTION);
        *fields[i] = keep;
    }
    dea_real *const arenas[] = {p, g, m, v};
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < i; ++j) { /* any two of the four, whole or by one element */
            dea_real *at[4] = {p, g, m, v};
            at[i] = arenas[j];
            assert_status(dea_adamw_step(&o, &table, at[0], at[1], at[2], at[3], 1, 1, norms), DEA_ERR_ALIAS);
            at[i] = arenas[j] + table.elements - 1;
            assert_status(dea_adamw_step(&o, &table, at[0], at[1], at[2], at[3], 1, 1, norms), DEA_ERR_ALIAS);
        }
    assert_status(dea_adamw_step(&o, &table, p, g, m, v, 1, 1, m + 5), DEA_ERR_ALIAS);
    o.beta1 = 1;
    assert_status(dea_adamw_step(&o, &table, p, g, m, v, 1, 1, norms), DEA_ERR_OPTION);
    assert_true(all_untouched());
}

static void test_isotonic(void **state) {
    (void)state;
    double x[3] = {1, 2, 3}, y[3] = {3, 1, 2}, w[3] = {1, 1, 0}, kx[3] = {-7, -7, -7}, ky[3] = {-7, -7, -7};
    int knots = -7;
    size_t bytes = dea_isotonic_workspace(3);
    char *s = take(bytes + 64);
    watch(kx, sizeof kx), watch(ky, sizeof ky), watch(&knots, sizeof knots), watch(x, sizeof x), watch(y, sizeof y);
    assert_status(dea_isotonic_fit(x, y, NULL, 3, kx, kx, &knots, s, bytes), DEA_ERR_ALIAS);
    assert_status(dea_isotonic_fit(x, y, NULL, 3, x, ky, &knots, s, bytes), DEA_ERR_ALIAS);
    assert_status(dea_isotonic_fit(x, y, ky, 3, kx, ky, &knots, s, bytes), DEA_ERR_ALIAS);
    assert_status(dea_isotonic_fit(x, y, NULL, 3, kx, ky, (int *)(void *)(y + 2), s, bytes), DEA_ERR_ALIAS);
    assert_status(dea_isotonic_fit(x, y, NULL, 3, kx, (double *)(void *)s, &knots, s, bytes), DEA_ERR_ALIAS);
    assert_true(all_untouched());
    watch(kx, sizeof kx), watch(ky, sizeof ky), watch(&knots, sizeof knots);
    assert_status(dea_isotonic_fit(NULL, y, NULL, 3, kx, ky, &knots, s, bytes), DEA_ERR_NULL);
    assert_status(dea_isotonic_fit(x, NULL, NULL, 3, kx, ky, &knots, s, bytes), DEA_ERR_NULL);
    assert_status(dea_isotonic_fit(x, y, NULL, 3, NULL, ky, &knots, s, bytes), DEA_ERR_NULL);
    assert_status(dea_isotonic_fit(x, y, NULL, 3, kx, NULL, &knots, s, bytes), DEA_ERR_NULL);
    assert_status(dea_isotonic_fit(x, y, NULL, 3, kx, ky, NULL, s, bytes), DEA_ERR_NULL);
    assert_status(dea_isotonic_fit(x, y, NULL, 3, kx, ky, &knots, NULL, bytes), DEA_ERR_NULL);
    assert_status(dea_isotonic_fit(x, y, NULL, 0, kx, ky, &knots, s, bytes), DEA_ERR_SHAPE);
    assert_status(dea_isotonic_fit(x, y, NULL, -1, kx, ky, &knots, s, bytes), DEA_ERR_SHAPE);
    assert_status(dea_isotonic_fit(x, y, NULL, 3, kx, ky, &knots, s, bytes - 1), DEA_ERR_WORKSPACE);
    assert_status(dea_isotonic_fit(x, y, NULL, 3, kx, ky, &knots, s + 8, bytes), DEA_ERR_ALIGNMENT);
    assert_status(dea_isotonic_fit(x, y, w, 3, kx, ky, &knots, s, bytes), DEA_ERR_OPTION); /* a weight of 0 */
    w[2] = -1;
    assert_status(dea_isotonic_fit(x, y, w, 3, kx, ky, &knots, s, bytes), DEA_ERR_OPTION);
    x[1] = (double)NAN;
    assert_status(dea_isotonic_fit(x, y, NULL, 3, kx, ky, &knots, s, bytes), DEA_ERR_OPTION);
    x[1] = 2, y[0] = (double)INFINITY;
    assert_status(dea_isotonic_fit(x, y, NULL, 3, kx, ky, &knots, s, bytes), DEA_ERR_OPTION);
    y[0] = 1.7e308; /* differences and sums must stay finite */
    assert_status(dea_isotonic_fit(x, y, NULL, 3, kx, ky, &knots, s, bytes), DEA_ERR_OPTION);
    y[0] = 3, x[0] = -1.7e308;
    assert_status(dea_isotonic_fit(x, y, NULL, 3, kx, ky, &knots, s, bytes), DEA_ERR_OPTION);
    x[0] = 1, w[0] = w[1] = w[2] = 5e307;
    assert_status(dea_isotonic_fit(x, y, w, 3, kx, ky, &knots, s, bytes), DEA_ERR_OPTION);
    assert_true(all_untouched());
    assert_true(!dea_isotonic_workspace(0) && !dea_isotonic_workspace(-1));
    assert_true(isnan(dea_isotonic_apply(NULL, ky, 3, 1)) && isnan(dea_isotonic_apply(kx, ky, 0, 1)));
    assert_true(isnan(dea_isotonic_apply(kx, ky, 3, (double)NAN)));
}

static int forget(void **state) {
    watch_count = 0;
    return release(state);
}

#define TEST(name) cmocka_unit_test_teardown(name, forget)

int main(void) {
    static const struct CMUnitTest tests[] = {
        TEST(test_every_status_has_a_sentence_of_its_own),
        TEST(test_missing_pointers),
        TEST(test_the_gate_loss_needs_no_v),
        TEST(test_sizes),
        TEST(test_workspaces),
        TEST(test_strides),
        TEST(test_options),
        TEST(test_labels),
        TEST(test_label_blocks),
        TEST(test_gate_options),
        TEST(test_forward_aliasing),
        TEST(test_backward_and_gate_aliasing),
        TEST(test_interleaved_tensors_do_not_alias),
        TEST(test_touching_buffers_do_not_alias),
        TEST(test_linear),
        TEST(test_layer_norm),
        TEST(test_elementwise),
        TEST(test_embedding_and_cross_entropy),
        TEST(test_table),
        TEST(test_layer_setup),
        TEST(test_layer_calls),
        TEST(test_layer_aliasing),
        TEST(test_layer_options),
        TEST(test_adamw),
        TEST(test_isotonic),
    };
    return cmocka_run_group_tests_name("bad input", tests, NULL, NULL);
}

/* The example around meta-attention, in double: the base's gradients and its cache, the two passes, phases 0 to 2 on a base
 * that nobody trained, and the metrics. */
#define DEA_REAL double
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"
#include "meta/llama.c"
#undef TRY
#include "meta/two_pass.c"
#undef TRY
#include "meta/train.c"
#include "meta/metrics.c"
#include "support.h"

/* ---- a base ---------------------------------------------------------------------------------------------------------- */
enum { L = 3, D = 12, V = 11, F = 10, SEQ = 5 };

typedef struct tiny_base {
    dea_real *tensor[LLAMA_TENSORS], *gradient[LLAMA_TENSORS];
    size_t count[LLAMA_TENSORS];
    llama_model model;
    llama_gradients gradients;
    size_t handed_out; /* how often a place for a weight gradient was asked for */
} tiny_base;

static const dea_real *tiny_get(void *weights, llama_tensor which, int layer) {
    tiny_base *b = weights;
    int rows, columns;
    llama_shape(&b->model.config, which, &rows, &columns);
    return b->tensor[which] + layer * rows * columns;
}

static dea_real *tiny_gradient(void *weights, llama_tensor which, int layer) {
    tiny_base *b = weights;
    int rows, columns;
    llama_shape(&b->model.config, which, &rows, &columns);
    b->handed_out++;
    return b->gradient[which] + layer * rows * columns;
}

static void draw_base(tiny_base *b) {
    const llama_config config = {L, D, 6, 3, F, V, 100, 1e-5}; /* 6 heads of 2, 3 key heads */
    memset(b, 0, sizeof *b);
    b->model.config = config;
    b->model.get = tiny_get, b->model.weights = b;
    b->model.threads.count = 1;
    b->gradients.get = tiny_gradient, b->gradients.grads = b;
    for (int i = 0; i < LLAMA_TENSORS; ++i) {
        int rows, columns;
        llama_shape(&config, (llama_tensor)i, &rows, &columns);
        b->count[i] = (size_t)rows * (size_t)columns * (llama_is_per_layer((llama_tensor)i) ? L : 1);
        b->tensor[i] = take_gauss(b->count[i], rows == 1 ? 0.1 : 1.2 / sqrt(columns)),
        b->gradient[i] = take_zeros(b->count[i]);
        for (size_t k = 0; rows == 1 && k < b->count[i]; ++k) b->tensor[i][k] += 1;
    }
}

typedef struct base_run {
    tiny_base base;
    int ids[2 * SEQ];
    dea_real *x, *logits, *dlogits, *dx, *saved, *workspace, *head;
    llama_call call;
} base_run;

static void draw_run(base_run *r) {
    const llama_config *c;
    draw_base(&r->base);
    c = &r->base.model.config;
    for (int i = 0; i < 2 * SEQ; ++i) r->ids[i] = below(V);
    r->x = take_reals(2 * SEQ * D), r->dx = take_reals(2 * SEQ * D), r->head = take_reals(2 * SEQ * D);
    r->logits = take_reals(2 * SEQ * V), r->dlogits = take_gauss(2 * SEQ * V, 1);
    r->saved = take_reals(llama_saved_count(c, 2, SEQ)), r->workspace = take_reals(llama_workspace_count(c, 2, SEQ));
    r->call = llama_call_init(r->ids, 2, SEQ);
    r->call.saved = r->saved, r->call.workspace = r->workspace;
}

static double run_loss(void *context) {
    base_run *r = context;
    double sum = 0;
    assert_ok(llama_forward(&r->base.model, &r->call, r->x));
    assert_ok(llama_head(&r->base.model, r->x, 2 * SEQ, r->logits, r->head));
    for (size_t i = 0; i < 2 * SEQ * V; ++i) sum += r->logits[i] * r->dlogits[i];
    return sum;
}

static void test_base_gradients(void **state) {
    (void)state;
    base_run r;
    draw_run(&r);
    (void)run_loss(&r);
    assert_ok(llama_head_backward(&r.base.model, r.x, r.dlogits, 2 * SEQ, r.dx, &r.base.gradients, r.head));
    assert_ok(llama_backward(&r.base.model, &r.call, r.dx, -1, &r.base.gradients));
    for (int i = 0; i < LLAMA_TENSORS; ++i)
        check_gradient(llama_name((llama_tensor)i), run_loss, &r, r.base.tensor[i], r.base.gradient[i],
                       r.base.count[i]);
}

/* Adds a tensor to the stream after one layer, so that its gradient is the stream's cotangent there. */
typedef struct nudge {
    int layer, visits[L];
    const dea_real *add;
    dea_real *seen;
} nudge;

static dea_status add_nudge(void *context, int layer, dea_real *x) {
    nudge *n = context;
    n->visits[layer]++;
    if (layer != n->layer) return DEA_OK;
    for (size_t i = 0; i < 2 * SEQ * D; ++i) x[i] += n->add[i];
    return DEA_OK;
}

static dea_status see_cotangent(void *context, int layer, dea_real *dx) {
    nudge *n = context;
    n->visits[layer]++;
    if (layer == n->layer) memcpy(n->seen, dx, 2 * SEQ * D * sizeof *dx);
    return DEA_OK;
}

/* Activations only: right down to the lowest layer asked for, and no weight gradient is formed anywhere. */
static void test_frozen_backward(void **state) {
    (void)state;
    base_run r;
    draw_run(&r);
    dea_real *add = take_zeros(2 * SEQ * D), *seen = take_reals(2 * SEQ * D);
    for (int layer = 0; layer < L; ++layer) {
        nudge n = {layer, {0}, add, seen};
        r.call.hook = add_nudge, r.call.context = &n;
        (void)run_loss(&r);
        assert_ok(llama_head_backward(&r.base.model, r.x, r.dlogits, 2 * SEQ, r.dx, NULL, r.head));
        memset(n.visits, 0, sizeof n.visits);
        r.call.hook = see_cotangent;
        assert_ok(llama_backward(&r.base.model, &r.call, r.dx, layer, NULL));
        for (int l = 0; l < L; ++l) assert_int_equal(n.visits[l], l >= layer);
        r.call.hook = add_nudge;
        check_gradient("stream", run_loss, &r, add, seen, 2 * SEQ * D);
    }
    assert_int_equal(r.base.handed_out, 0);
}

/* Token by token through the cache, and in two pieces, gives what one pass gives. */
static void test_cache(void **state) {
    (void)state;
    base_run r;
    draw_run(&r);
    (void)run_loss(&r);
    const size_t count = llama_kv_count(&r.base.model.config, 2, SEQ);
    dea_real *part = take_reals(2 * SEQ * D), *k = take_reals(count), *v = take_reals(count);
    for (int first = 1; first <= 3; first += 2) {
        llama_kv kv = {k, v, 2, SEQ, 0};
        for (int at = 0, n = first; at < SEQ; at += n, n = 1) {
            int ids[2 * SEQ];
            for (int b = 0; b < 2; ++b)
                for (int t = 0; t < n; ++t) ids[b * n + t] = r.ids[b * SEQ + at + t];
            llama_call call = llama_call_init(ids, 2, n);
            call.kv = &kv, call.workspace = r.workspace;
            assert_ok(llama_forward(&r.base.model, &call, part));
            assert_int_equal(kv.used, at + n);
            for (int b = 0; b < 2; ++b)
                assert_close(part + b * n * D, r.x + (b * SEQ + at) * D, (size_t)(n * D), 1e-12);
        }
        llama_call call = llama_call_init(r.ids, 2, 1);
        call.kv = &kv, call.workspace = r.workspace;
        assert_status(llama_forward(&r.base.model, &call, part), DEA_ERR_CAPACITY);
    }
}

static void test_base_refuses(void **state) {
    (void)state;
    base_run r;
    draw_run(&r);
    static const int bad[][7] = {{0, 12, 6, 3, 4, 5},   {1, 12, 5, 1, 4, 5}, {1, 12, 6, 4, 4, 5},
                                 {1, 12, 12, 12, 4, 5}, {1, 12, 6, 3, 0, 5}, {1, 12, 6, 3, 4, 0}};
    for (int i = 0; i < LENGTH(bad); ++i) {
        const int *n = bad[i];
        const llama_config c = {n[0], n[1], n[2], n[3], n[4], n[5], 100, 1e-5};
        assert_status(llama_check(&c), DEA_ERR_SHAPE);
        assert_int_equal(llama_saved_count(&c, 1, 1) + llama_workspace_count(&c, 1, 1) + llama_kv_count(&c, 1, 1), 0);
    }
    r.ids[3] = V;
    assert_status(llama_forward(&r.base.model, &r.call, r.x), DEA_ERR_INDEX);
    r.ids[3] = 0;
    r.call.seq = 0;
    assert_status(llama_forward(&r.base.model, &r.call, r.x), DEA_ERR_SHAPE);
    r.call.seq = SEQ;
    assert_status(llama_backward(&r.base.model, &r.call, r.dx, L, NULL), DEA_ERR_INDEX);
    r.call.saved = NULL;
    assert_status(llama_backward(&r.base.model, &r.call, r.dx, 0, NULL), DEA_ERR_NULL);
}

/* ---- the two passes ---------------------------------------------------------------------------------------------------- */
typedef struct two {
    tiny_base base;
    meta_system m;
    meta_batch *b;
} two;

static void draw_two(two *t) {
    static const int read[] = {0, 2}, write[] = {1, 2};
    draw_base(&t->base);
    assert_ok(meta_init(&t->m, &t->base.model, read, 2, write, 2, 8, 2));
    assert_ok(meta_register(&t->m));
    t->m.params = take_zeros(t->m.table.elements);
    assert_ok(dea_meta_encoder_reset(&t->m.encoder, t->m.params, 1));
    assert_ok(dea_meta_blocks_reset(&t->m.blocks, t->m.params, 2));
    t->b = meta_batch_open(&t->m, 4, 12);
    assert_non_null(t->b);
}

/* Pass 2 without pass 1 is an error, also after a pass 1 that failed half way. */
static void test_no_silent_pass(void **state) {
    (void)state;
    two t;
    static const int ids[4] = {1, 2, 3, 4}, n[1] = {4}, bad[4] = {1, 2, 3, V};
    draw_two(&t);
    assert_int_equal(meta_think(&t.m, t.b, 1, NULL), DEA_ERR_NULL); /* hooks not even set up */
    assert_ok(meta_pass1(&t.m, t.b, 1, 4, ids, n));
    assert_ok(meta_think(&t.m, t.b, 1, NULL));
    assert_status(meta_pass1(&t.m, t.b, 1, 4, bad, n), DEA_ERR_INDEX);
    assert_status(meta_think(&t.m, t.b, 1, NULL), DEA_ERR_FROZEN);
    assert_status(meta_pass1(&t.m, t.b, 5, 4, ids, n), DEA_ERR_SHAPE);
    meta_batch_close(t.b);
}

/* Greedy decoding with the cache says what whole passes say, with and without blocks. */
static void test_generate(void **state) {
    (void)state;
    two t;
    static const int prompt[4] = {1, 2, 3, 4}, n[1] = {4};
    draw_two(&t);
    dea_real *logits = take_reals(V);
    assert_ok(meta_pass1(&t.m, t.b, 1, 4, prompt, n));
    assert_ok(meta_think(&t.m, t.b, 1, NULL));
    for (int on = 0; on < 2; ++on) {
        int answer[6], ids[12], positions = 0;
        double weights[4] = {0};
        dea_status status;
        const int count = meta_generate(&t.m, t.b, prompt, 4, on, -1, answer, 6, weights, &positions, &status);
        assert_ok(status);
        assert_int_equal(count, 6);
        assert_int_equal(positions, on ? 7 : 0);
        for (int l = 0; l < 2; ++l) assert_near((weights[2 * l] + weights[2 * l + 1]), positions * 2, 1e-9);
        memcpy(ids, prompt, sizeof prompt);
        for (int i = 0; i < 6; ++i) {
            const int length = 4 + i;
            assert_ok(meta_pass2(&t.m, t.b, 1, length, ids, &length, on));
            assert_ok(llama_head(&t.m.base, t.b->x + (length - 1) * D, 1, logits, t.b->head_workspace));
            assert_int_equal(largest(logits, V), answer[i]);
            ids[length] = answer[i];
        }
        int shorter[6];
        assert_int_equal(meta_generate(&t.m, t.b, prompt, 4, on, answer[2], shorter, 6, NULL, NULL, &status),
                         answer[0] == answer[2]   ? 0
                         : answer[1] == answer[2] ? 1
                                                  : 2);
    }
    meta_batch_close(t.b);
}

/* ---- phases ------------------------------------------------------------------------------------------------------------- */
enum { ITEMS = 40, TARGET = 3 };

static int epochs_seen[3];
static double first_loss[3], last_loss[3];

static void note_epoch(void *context, int phase, int epoch, double train, double validation, int best) {
    (void)context, (void)validation, (void)best;
    epochs_seen[phase] = epoch + 1;
    if (epoch == 0) first_loss[phase] = train;
    last_loss[phase] = train;
}

/* Right where the second token is small: something the base's activations show. */
static void draw_items(meta_items *s) {
    static const int candidates[4] = {2, 3, 4, 5};
    memset(s, 0, sizeof *s);
    s->count = ITEMS, s->prompt_seq = 4, s->target_seq = TARGET;
    s->prompt = take_ints(ITEMS * 4), s->n_prompt = take_ints(ITEMS);
    s->target = take_ints(ITEMS * 3 * TARGET), s->n_target = take_ints(ITEMS * 3);
    s->right = take_ints(ITEMS), s->candidates = candidates, s->candidate_count = 4;
    s->act = take_reals(ITEMS * 2 * D), s->base_right = take_ints(ITEMS), s->margin = take(ITEMS * sizeof(double));
    for (int i = 0; i < ITEMS; ++i) {
        for (int t = 0; t < 4; ++t) s->prompt[i * 4 + t] = below(V);
        s->n_prompt[i] = 2 + i % 3;
        s->right[i] = i % 4;
        for (int a = 0; a < 3; ++a) {
            for (int t = 0; t < TARGET; ++t) s->target[(i * 3 + a) * TARGET + t] = 6 + a;
            s->n_target[i * 3 + a] = TARGET - a % 2;
        }
    }
}

static void test_phases(void **state) {
    (void)state;
    two t;
    meta_items items;
    int order[ITEMS];
    const char *what;
    draw_two(&t);
    draw_items(&items);
    dea_meta_bytes pieces[LLAMA_TENSORS];
    for (int i = 0; i < LLAMA_TENSORS; ++i)
        pieces[i].data = t.base.tensor[i], pieces[i].size = t.base.count[i] * sizeof(dea_real);
    const uint64_t before = dea_meta_hash(pieces, LLAMA_TENSORS);
    meta_shuffle(order, ITEMS, 3);
    int present[ITEMS] = {0}, moved = 0;
    for (int i = 0; i < ITEMS; ++i) present[order[i]]++, moved += order[i] != i;
    for (int i = 0; i < ITEMS; ++i) assert_int_equal(present[i], 1);
    assert_true(moved > ITEMS / 2);
    const meta_part train = {order, 30}, validation = {order + 30, 10};

    assert_ok(meta_collect(&t.m, t.b, &items));
    for (int i = 0; i < ITEMS; ++i) { /* phase 0 against the base itself */
        dea_real logits[V];
        assert_ok(meta_pass1_logits(&t.m, t.b, 1, items.n_prompt[i], items.prompt + 4 * i, items.n_prompt + i, logits));
        assert_close(t.b->act, items.act + i * 2 * D, 2 * D, 1e-12);
        int best = 0;
        for (int k = 1; k < 4; ++k)
            if (logits[items.candidates[k]] > logits[items.candidates[best]]) best = k;
        double second = -INFINITY;
        for (int k = 0; k < 4; ++k)
            if (k != best && logits[items.candidates[k]] > second) second = logits[items.candidates[k]];
        assert_int_equal(items.base_right[i], best == items.right[i]);
        assert_near(items.margin[i], logits[items.candidates[best]] - second, 1e-9);
    }
    for (int i = 0; i < ITEMS; ++i) items.base_right[i] = items.prompt[4 * i + items.n_prompt[i] - 1] < V / 2;

    dea_tensor tensors[8];
    dea_table table = dea_table_init(tensors, 8);
    dea_meta_confidence heads = dea_meta_confidence_init(2, D);
    heads.bottleneck = 8;
    assert_ok(dea_meta_confidence_register(&heads, &table, ""));
    dea_real *params = take_zeros(table.elements);
    double *p = take(ITEMS * 2 * sizeof *p);
    assert_ok(dea_meta_confidence_reset(&heads, params, 5));
    meta_settings s = meta_settings_init();
    assert_true(s.lr == 2e-4 && s.epochs == 10 && s.patience == 5 && s.micro == 2 && s.group == 16 && s.ratio == 0.5);
    s.lr = 1e-2, s.epochs = 80, s.patience = 80, s.group = 3, s.report = note_epoch;
    assert_ok(meta_train_confidence(&heads, &table, params, &items, train, train, &s, NULL)); /* fits what it sees */
    assert_true(last_loss[1] < 0.5 * first_loss[1]);
    assert_ok(meta_judge(&heads, params, &items, train, p, NULL));
    int agree = 0;
    for (int i = 0; i < train.count; ++i) agree += (p[2 * i + 1] > 0.5) == items.base_right[order[i]];
    assert_true(agree >= 27);
    assert_ok(dea_meta_warm_start(&heads, params, &t.m.encoder, t.m.params));

    s.epochs = 12;
    assert_ok(meta_train(&t.m, t.b, &items, train, validation, &s, &what));
    assert_int_equal(epochs_seen[2], 12);
    assert_true(last_loss[2] < 0.5 * first_loss[2]);
    assert_ok(dea_meta_verify_frozen(pieces, LLAMA_TENSORS, before));
    dea_real *once = take_copy(t.m.params, t.m.table.elements);
    s.patience = 0; /* done before it starts: the best is what it had */
    assert_ok(meta_train(&t.m, t.b, &items, train, validation, &s, &what));
    assert_same_bits(once, t.m.params, t.m.table.elements);
    s.patience = 5, s.micro = 5;
    assert_status(meta_train(&t.m, t.b, &items, train, validation, &s, &what), DEA_ERR_SHAPE);
    meta_batch_close(t.b);
}

/* ---- metrics -------------------------------------------------------------------------------------------------------------- */
static void test_classify(void **state) {
    (void)state;
    static const meta_wording w = {"I am not sure enough to answer this.", "No, the answer is "};
    static const char *const words[] = {"1", "12", "Paris"}, *const letters[] = {"A)", "B)"};
    static const struct {
        const char *text;
        int letters;
        dea_meta_action action;
        int named;
    } cases[] = {
        {"  12", 0, DEA_META_CONFIRM, 1},
        {"1 and more", 0, DEA_META_CONFIRM, 0},
        {"123", 0, DEA_META_OTHER, -1},
        {"Parisian", 0, DEA_META_OTHER, -1},
        {"Paris.", 0, DEA_META_CONFIRM, 2},
        {" No, the answer is 12.", 0, DEA_META_CORRECT, 1},
        {"No, the answer is 13.", 0, DEA_META_OTHER, -1},
        {"I am not sure enough to answer this. 12", 0, DEA_META_REFUSE, -1},
        {"I am not sure", 0, DEA_META_OTHER, -1},
        {"", 0, DEA_META_OTHER, -1},
        {" B)Paris", 1, DEA_META_CONFIRM, 1},
        {" No, the answer is A) x.", 1, DEA_META_CORRECT, 0},
        {"C) x", 1, DEA_META_OTHER, -1},
    };
    for (int i = 0; i < LENGTH(cases); ++i) {
        int named = 99;
        assert_int_equal(
            meta_classify(&w, cases[i].text, cases[i].letters ? letters : words, cases[i].letters ? 2 : 3, &named),
            cases[i].action);
        assert_int_equal(named, cases[i].named);
    }
}

static void test_tally(void **state) {
    (void)state;
    meta_tally t;
    char text[64];
    memset(&t, 0, sizeof t);
    meta_tally_add(&t, DEA_META_CONFIRM, 1, 1, 1); /* stays right */
    meta_tally_add(&t, DEA_META_CONFIRM, 2, 1, 1); /* broken */
    meta_tally_add(&t, DEA_META_CORRECT, 1, 1, 0); /* fixed */
    meta_tally_add(&t, DEA_META_REFUSE, -1, 1, 1); /* false refusal: neither fixed nor broken */
    meta_tally_add(&t, DEA_META_REFUSE, -1, 1, 0);
    meta_tally_add(&t, DEA_META_OTHER, -1, 1, 0);
    assert_int_equal(t.items, 6);
    assert_int_equal(t.right, 2);
    assert_int_equal(t.fixed, 1);
    assert_int_equal(t.broken, 1);
    assert_int_equal(meta_tally_total(&t, 1), 3);
    assert_int_equal(meta_tally_refused(&t, 1), 1);
    assert_int_equal(meta_tally_refused(&t, 0), 1);
    meta_ratio(text, sizeof text, 1, 3);
    assert_string_equal(text, "33.3% (1/3)");
    meta_ratio(text, sizeof text, 0, 0);
    assert_string_equal(text, "-");
}

static void test_curves(void **state) {
    (void)state;
    static const double score[] = {0.1, 0.9, 0.5, 0.5, 0.3};
    static const int label[] = {0, 1, 1, 0, 0}, same[] = {1, 1, 1, 1, 1};
    assert_near(meta_auroc(score, label, 5), 5.5 / 6, 1e-12);
    assert_true(isnan(meta_auroc(score, same, 5)));
    static const double p[] = {0.05, 0.05, 0.95, 1};
    static const int right[] = {0, 1, 1, 1};
    assert_near(meta_ece(p, right, 4, 10), (0.9 + 0.05) / 4, 1e-12);
}

#define TEST(f) cmocka_unit_test_teardown(f, release)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_base_gradients), TEST(test_frozen_backward), TEST(test_cache),  TEST(test_base_refuses),
        TEST(test_no_silent_pass), TEST(test_generate),        TEST(test_phases), TEST(test_classify),
        TEST(test_tally),          TEST(test_curves),
    };
    seed_numbers(9);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

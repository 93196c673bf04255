/* Golden values of meta-attention (tests/golden/meta): encoders, blocks, confidence heads and the whole two passes, forward
 * and every gradient. Included by golden.h; brings its own copy of the example base, in this build's type. */
#ifndef TESTS_GOLDEN_META_H
#define TESTS_GOLDEN_META_H

#define LLAMA_API    static __attribute__((unused))
#define TWO_PASS_API static __attribute__((unused))
#include "meta/llama.c"
#undef TRY
#include "meta/two_pass.c"
#undef TRY

enum { GOLDEN_PIECES = 96 };

/* One case: its file, its score, and all memory it took. */
typedef struct golden_meta {
    const golden_file *f;
    golden_score *s;
    void *piece[GOLDEN_PIECES];
    int pieces;
    dea_tensor tensors[GOLDEN_PIECES];
    dea_table table;
    dea_real *params, *grads;
    void *workspace;
    size_t bytes;
} golden_meta;

/* Zeroed memory aligned for the library, or NULL and a problem. */
static inline void *golden_meta_take(golden_meta *c, size_t bytes) {
    void *p = NULL;
    if (!bytes || c->pieces == GOLDEN_PIECES || posix_memalign(&p, DEA_ALIGNMENT, bytes)) {
        golden_problem(c->s, "memory", "out of memory, or a size that the library calls wrong");
        return NULL;
    }
    memset(p, 0, bytes);
    return c->piece[c->pieces++] = p;
}

static inline dea_real *golden_meta_reals(golden_meta *c, size_t count) {
    return (dea_real *)golden_meta_take(c, count * sizeof(dea_real));
}

static inline dea_real *golden_meta_input(golden_meta *c, const char *name, size_t count) {
    dea_real *x = golden_input(c->f, name, count, c->s);
    if (x && c->pieces < GOLDEN_PIECES) c->piece[c->pieces++] = x;
    return x;
}

static inline int *golden_meta_ints(golden_meta *c, const char *name, size_t count) {
    const golden_tensor *t = golden_find(c->f, name);
    int *x = t && t->count == count ? (int *)golden_meta_take(c, count * sizeof *x) : NULL;
    if (!x) golden_problem(c->s, name, "is missing or has the wrong size");
    for (size_t i = 0; x && i < count; ++i) x[i] = (int)t->data[i];
    return x;
}

static inline int golden_meta_ok(golden_meta *c, dea_status status, const char *what) {
    if (status != DEA_OK) golden_problem(c->s, what, dea_status_string(status));
    return !c->s->problem[0];
}

/* max |x - ref| <= limit max(max |ref|, 1e-3), the rule of 2.15. */
static inline void golden_meta_compare(golden_meta *c, const char *name, const dea_real *x, size_t count) {
    const golden_tensor *t = golden_find(c->f, name);
    double worst = 0, scale = 1e-3;
    char text[96];
    if (!t || t->count != count) {
        golden_problem(c->s, name, t ? "has the wrong size" : "is missing from the file");
        return;
    }
    for (size_t i = 0; i < count; ++i) {
        double e = fabs((double)x[i] - t->data[i]);
        if (!(e < INFINITY)) golden_problem(c->s, name, "NaN or infinity");
        if (e > worst) worst = e;
        if (fabs(t->data[i]) > scale) scale = fabs(t->data[i]);
    }
    worst /= scale;
    c->s->compared++;
    if (worst > c->s->worst || !c->s->worst_name[0]) {
        c->s->worst = worst;
        snprintf(c->s->worst_name, sizeof c->s->worst_name, "%s", name);
    }
    snprintf(text, sizeof text, "error %.3g, limit %.3g", worst, c->s->limit);
    if (worst > c->s->limit) golden_problem(c->s, name, text);
}

/* Parameters of the registered tensors from the file, and a zeroed gradient arena. */
static inline int golden_meta_load(golden_meta *c) {
    c->params = golden_meta_reals(c, c->table.elements);
    c->grads = golden_meta_reals(c, c->table.elements);
    for (int i = 0; c->params && i < c->table.count; ++i) {
        const dea_tensor *t = &c->table.tensors[i];
        dea_real *x = golden_input(c->f, t->name, t->count, c->s);
        if (x) memcpy(c->params + t->offset, x, t->count * sizeof *x);
        free(x);
    }
    return !c->s->problem[0];
}

static inline void golden_meta_compare_gradients(golden_meta *c) {
    for (int i = 0; i < c->table.count; ++i) {
        char name[80];
        snprintf(name, sizeof name, "d%s", c->table.tensors[i].name);
        golden_meta_compare(c, name, c->grads + c->table.tensors[i].offset, c->table.tensors[i].count);
    }
}

static inline size_t golden_meta_axis(const golden_file *f, const char *name, int axis) {
    const golden_tensor *t = golden_find(f, name);
    return t && axis < t->rank ? t->shape[axis] : 0;
}

static inline void golden_meta_workspace(golden_meta *c, size_t bytes) {
    c->workspace = golden_meta_take(c, bytes);
    c->bytes = bytes;
}

/* ---- encoders */
static inline void golden_meta_encoder(golden_meta *c) {
    const size_t B = golden_meta_axis(c->f, "act", 0), C = golden_meta_axis(c->f, "act", 1),
                 D = golden_meta_axis(c->f, "act", 2);
    dea_meta_encoder e = dea_meta_encoder_init((int)C, (int)D);
    e.bottleneck = (int)golden_meta_axis(c->f, "fc_w", 1);
    e.blocks = (int)golden_number(c->f, "blocks", c->s);
    e.heads = (int)golden_number(c->f, "heads", c->s);
    if (!golden_meta_ok(c, dea_meta_encoder_register(&e, &c->table, ""), "register") || !golden_meta_load(c)) return;
    dea_real *act = golden_meta_input(c, "act", B * C * D), *dcog = golden_meta_input(c, "dcog", B * C * D);
    dea_real *cog = golden_meta_reals(c, B * C * D);
    dea_real *cache = golden_meta_reals(c, dea_meta_encoder_cache_count(&e, (int)B));
    golden_meta_workspace(c, dea_meta_encoder_workspace(&e, (int)B));
    if (c->s->problem[0]) return;
    golden_meta_ok(c, dea_meta_encoder_forward(&e, c->params, act, (int)B, cog, cache, c->workspace, c->bytes, NULL),
                   "forward");
    golden_meta_compare(c, "cog", cog, B * C * D);
    golden_meta_ok(
        c, dea_meta_encoder_backward(&e, c->params, act, (int)B, cache, dcog, c->grads, c->workspace, c->bytes, NULL),
        "backward");
    golden_meta_compare_gradients(c);
}

/* ---- blocks */
static inline void golden_meta_block(golden_meta *c) {
    const size_t B = golden_meta_axis(c->f, "x", 0), T = golden_meta_axis(c->f, "x", 1),
                 D = golden_meta_axis(c->f, "x", 2);
    const size_t C = golden_meta_axis(c->f, "cog", 1);
    dea_meta_blocks m = dea_meta_blocks_init(1, (int)C, (int)D);
    m.bottleneck = (int)golden_meta_axis(c->f, "down_w", 0);
    m.heads = (int)golden_number(c->f, "heads", c->s);
    if (!golden_meta_ok(c, dea_meta_blocks_register(&m, &c->table, ""), "register") || !golden_meta_load(c)) return;
    const size_t h = (size_t)m.heads;
    dea_real *x = golden_meta_input(c, "x", B * T * D), *cog = golden_meta_input(c, "cog", B * C * D);
    dea_real *dy = golden_meta_input(c, "dy", B * T * D), *a = golden_meta_input(c, "A", B * h * T * C);
    int *lengths = golden_meta_ints(c, "lengths", B);
    dea_real *y = golden_meta_reals(c, B * T * D), *dx = golden_meta_reals(c, B * T * D),
             *dcog = golden_meta_reals(c, B * C * D);
    dea_real *kv = golden_meta_reals(c, dea_meta_keys_count(&m, (int)B));
    dea_real *dkv = golden_meta_reals(c, dea_meta_keys_count(&m, (int)B));
    const dea_meta_sequences s = dea_meta_sequences_init((int)B, (int)T, lengths, kv);
    dea_real *cache = golden_meta_reals(c, dea_meta_block_cache_count(&m, &s));
    golden_meta_workspace(c, dea_meta_block_workspace(&m, &s));
    if (c->s->problem[0]) return;
    golden_meta_ok(c, dea_meta_keys_forward(&m, c->params, cog, (int)B, kv, NULL), "keys");
    golden_meta_ok(c, dea_meta_block_forward(&m, c->params, &s, 0, x, y, cache, c->workspace, c->bytes), "forward");
    golden_meta_compare(c, "y", y, B * T * D);
    const dea_real *weights = dea_meta_block_weights(&m, &s, cache);
    for (size_t i = 0; i < B * h * T * C; ++i) { /* at padded positions ours are 0 and the file's of no interest */
        if ((int)(i / C % T) < lengths[i / (h * T * C)])
            a[i] = weights[i];
        else if (weights[i] != 0)
            golden_problem(c->s, "A", "a padded position is not 0");
    }
    golden_meta_compare(c, "A", a, B * h * T * C);
    golden_meta_ok(
        c, dea_meta_block_backward(&m, c->params, &s, 0, x, cache, dy, dx, dkv, c->grads, c->workspace, c->bytes),
        "backward");
    golden_meta_ok(c, dea_meta_keys_backward(&m, c->params, cog, dkv, (int)B, dcog, c->grads, NULL), "keys backward");
    golden_meta_compare(c, "dx", dx, B * T * D);
    golden_meta_compare(c, "dcog", dcog, B * C * D);
    golden_meta_compare_gradients(c);
}

/* ---- confidence heads */
static inline void golden_meta_confidence(golden_meta *c) {
    const size_t B = golden_meta_axis(c->f, "act", 0), C = golden_meta_axis(c->f, "act", 1),
                 D = golden_meta_axis(c->f, "act", 2);
    dea_meta_confidence m = dea_meta_confidence_init((int)C, (int)D);
    m.bottleneck = (int)golden_meta_axis(c->f, "fc_w", 1);
    if (!golden_meta_ok(c, dea_meta_confidence_register(&m, &c->table, ""), "register") || !golden_meta_load(c)) return;
    dea_real *act = golden_meta_input(c, "act", B * C * D), *u = golden_meta_reals(c, B * C),
             *p = golden_meta_reals(c, B * C);
    dea_real *cache = golden_meta_reals(c, dea_meta_confidence_cache_count(&m, (int)B));
    int *label = golden_meta_ints(c, "label", B);
    double loss = NAN;
    golden_meta_workspace(c, dea_meta_confidence_workspace(&m, (int)B));
    if (c->s->problem[0]) return;
    golden_meta_ok(c, dea_meta_confidence_forward(&m, c->params, act, (int)B, u, cache, c->workspace, c->bytes, NULL),
                   "forward");
    golden_meta_compare(c, "z", u, B * C);
    for (size_t i = 0; i < B * C; ++i) p[i] = (dea_real)(1 / (1 + exp(-(double)u[i])));
    golden_meta_compare(c, "prob", p, B * C);
    golden_meta_ok(
        c, dea_meta_confidence_loss(u, label, (int)B, (int)C, &loss, NULL, golden_number(c->f, "dloss", c->s), u),
        "loss");
    golden_compare_number(c->s, c->f, "loss", loss);
    golden_meta_ok(
        c, dea_meta_confidence_backward(&m, c->params, act, (int)B, cache, u, c->grads, c->workspace, c->bytes, NULL),
        "backward");
    golden_meta_compare_gradients(c);
}

/* ---- two passes */
static inline const dea_real *golden_meta_weight(void *weights, llama_tensor which, int layer) {
    golden_meta *c = (golden_meta *)weights;
    char name[64];
    snprintf(name, sizeof name, "base_%s", llama_name(which));
    const golden_tensor *t = golden_find(c->f, name);
    const size_t each = t->count / (llama_is_per_layer(which) ? t->shape[0] : 1);
    dea_real *x = (dea_real *)c->workspace; /* valid until the next call, as the accessor promises */
    for (size_t i = 0; i < each; ++i) x[i] = (dea_real)t->data[(size_t)layer * each + i];
    return x;
}

static inline void golden_meta_base(golden_meta *c, llama_model *base) {
    size_t largest_tensor = 0;
    llama_config config = {(int)golden_meta_axis(c->f, "base_q", 0),        (int)golden_meta_axis(c->f, "base_emb", 1),
                           (int)golden_number(c->f, "n_heads", c->s),       (int)golden_number(c->f, "n_kv", c->s),
                           (int)golden_meta_axis(c->f, "base_ffn_gate", 1), (int)golden_meta_axis(c->f, "base_emb", 0),
                           golden_number(c->f, "rope_theta", c->s),         golden_number(c->f, "rms_eps", c->s)};
    memset(base, 0, sizeof *base);
    base->config = config;
    base->get = golden_meta_weight;
    base->weights = c;
    base->threads = dea_threads_default();
    if (!golden_meta_ok(c, llama_check(&config), "base")) return;
    for (int i = 0; i < LLAMA_TENSORS; ++i) {
        char name[64];
        int rows, columns;
        llama_shape(&config, (llama_tensor)i, &rows, &columns);
        const size_t each = (size_t)rows * (size_t)columns;
        snprintf(name, sizeof name, "base_%s", llama_name((llama_tensor)i));
        const golden_tensor *t = golden_find(c->f, name);
        if (!t || t->count != each * (llama_is_per_layer((llama_tensor)i) ? (size_t)config.layers : 1))
            golden_problem(c->s, name, "is missing or has the wrong size");
        if (each > largest_tensor) largest_tensor = each;
    }
    golden_meta_workspace(c, largest_tensor * sizeof(dea_real));
}

static inline void golden_meta_two_pass_run(golden_meta *c, meta_system *m, meta_batch *b) {
    const size_t B = golden_meta_axis(c->f, "full", 0), T = golden_meta_axis(c->f, "full", 1);
    const size_t Tp = golden_meta_axis(c->f, "prompt", 1), V = (size_t)m->base.config.vocab,
                 D = (size_t)m->base.config.width;
    int *prompt = golden_meta_ints(c, "prompt", B * Tp), *n_prompt = golden_meta_ints(c, "n_prompt", B);
    int *full = golden_meta_ints(c, "full", B * T), *n_full = golden_meta_ints(c, "n_full", B);
    int *joined = (int *)golden_meta_take(c, B * T * sizeof(int)),
        *targets = (int *)golden_meta_take(c, B * T * sizeof(int));
    int *answer = (int *)golden_meta_take(c, B * T * sizeof(int)),
        *n_answer = (int *)golden_meta_take(c, 2 * B * sizeof(int));
    dea_real *logits = golden_meta_reals(c, B * T * V);
    double loss = NAN, dloss = golden_number(c->f, "dloss", c->s);
    if (c->s->problem[0]) return;
    for (size_t i = 0; i < B; ++i) {
        n_answer[i] = n_full[i] - n_prompt[i];
        for (int t = 0; t < n_answer[i]; ++t) answer[i * T + (size_t)t] = full[i * T + (size_t)(n_prompt[i] + t)];
    }
    golden_meta_ok(c,
                   dea_meta_join(prompt, n_prompt, (int)Tp, answer, n_answer, (int)T, (int)B, 0, (int)T, joined,
                                 n_answer + B, targets),
                   "join");
    if (memcmp(joined, full, B * T * sizeof(int)) || memcmp(n_answer + B, n_full, B * sizeof(int)))
        golden_problem(c->s, "full", "is not prompt and target joined");
    golden_meta_ok(c, meta_pass1(m, b, (int)B, (int)Tp, prompt, n_prompt), "pass 1");
    golden_meta_compare(c, "act", b->act, B * (size_t)m->encoder.layers * D);
    golden_meta_ok(c, meta_think(m, b, (int)B, NULL), "encoder");
    golden_meta_compare(c, "cog", b->cog, B * (size_t)m->encoder.layers * D);
    golden_meta_ok(c, meta_pass2(m, b, (int)B, (int)T, full, n_full, 0), "base");
    golden_meta_ok(c, llama_head(&m->base, b->x, (int)(B * T), logits, b->head_workspace), "head");
    golden_meta_compare(c, "base_logits", logits, B * T * V);
    golden_meta_ok(c, meta_pass2(m, b, (int)B, (int)T, full, n_full, 1), "pass 2");
    golden_meta_ok(c, llama_head(&m->base, b->x, (int)(B * T), logits, b->head_workspace), "head");
    golden_meta_compare(c, "logits", logits, B * T * V);
    golden_meta_ok(c, meta_loss(m, b, targets, &loss, NULL), "loss");
    golden_compare_number(c->s, c->f, "loss", loss);
    golden_meta_ok(c, meta_backward(m, b, full, NULL, dloss, c->grads), "backward");
    golden_meta_compare(c, "dcog", b->dcog, B * (size_t)m->encoder.layers * D);
    golden_meta_compare_gradients(c);
}

static inline void golden_meta_two_pass(golden_meta *c) {
    const size_t reads = golden_meta_axis(c->f, "read", 0), writes = golden_meta_axis(c->f, "write", 0);
    int *read = golden_meta_ints(c, "read", reads), *write = golden_meta_ints(c, "write", writes);
    llama_model base;
    golden_meta_base(c, &base);
    meta_system *m = (meta_system *)golden_meta_take(c, sizeof *m);
    if (c->s->problem[0]) return;
    golden_meta_ok(c,
                   meta_init(m, &base, read, (int)reads, write, (int)writes, (int)golden_meta_axis(c->f, "enc_fc_w", 1),
                             (int)golden_number(c->f, "heads", c->s)),
                   "init");
    if (!golden_meta_ok(c, meta_register(m), "register")) return;
    c->table = m->table;
    if (!golden_meta_load(c)) return;
    m->params = c->params;
    meta_batch *b = meta_batch_open(m, (int)golden_meta_axis(c->f, "full", 0), (int)golden_meta_axis(c->f, "full", 1));
    if (!b)
        golden_problem(c->s, "batch", "out of memory");
    else
        golden_meta_two_pass_run(c, m, b);
    meta_batch_close(b);
}

/* ---- kinds */
static inline int golden_is_meta_encoder(const golden_file *f) {
    return golden_find(f, "out_fc1_w") != NULL;
}
static inline int golden_is_meta_block(const golden_file *f) {
    return golden_find(f, "down_w") != NULL;
}
static inline int golden_is_meta_confidence(const golden_file *f) {
    return golden_find(f, "head_w") != NULL;
}
static inline int golden_is_meta_two_pass(const golden_file *f) {
    return golden_find(f, "base_emb") != NULL;
}

/* Whatever kind of meta case it is; the paths of attention play no part. */
static inline void golden_check_meta(const golden_file *f, dea_path forward_path, dea_path backward_path,
                                     golden_score *s) {
    golden_meta *c = (golden_meta *)calloc(1, sizeof *c);
    (void)forward_path, (void)backward_path;
    s->limit = sizeof(dea_real) == sizeof(double) ? 1e-10 : 2e-5;
    if (!c) {
        golden_problem(s, "memory", "out of memory");
        return;
    }
    c->f = f;
    c->s = s;
    c->table = dea_table_init(c->tensors, GOLDEN_PIECES);
    if (golden_is_meta_two_pass(f))
        golden_meta_two_pass(c);
    else if (golden_is_meta_encoder(f))
        golden_meta_encoder(c);
    else if (golden_is_meta_block(f))
        golden_meta_block(c);
    else
        golden_meta_confidence(c);
    while (c->pieces > 0) free(c->piece[--c->pieces]);
    free(c);
}

#endif

#include "meta/two_pass.h"

#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const dea_status status_ = (call);                                                                             \
        if (status_ != DEA_OK) return status_;                                                                         \
    } while (0)

TWO_PASS_API dea_status meta_init(meta_system *m, const llama_model *base, const int *read, int reads, const int *write,
                                  int writes, int bottleneck, int heads) {
    if (!m || !base || !read || !write) return DEA_ERR_NULL;
    TRY(llama_check(&base->config));
    if (reads < 1 || writes < 1 || reads > META_LAYERS || writes > META_LAYERS) return DEA_ERR_SHAPE;
    for (int i = 0; i < reads; i++)
        if (read[i] < (i ? read[i - 1] + 1 : 0) || read[i] >= base->config.layers) return DEA_ERR_INDEX;
    for (int i = 0; i < writes; i++)
        if (write[i] < (i ? write[i - 1] + 1 : 0) || write[i] >= base->config.layers) return DEA_ERR_INDEX;
    memset(m, 0, sizeof *m);
    m->base = *base;
    memcpy(m->read, read, (size_t)reads * sizeof *read);
    memcpy(m->write, write, (size_t)writes * sizeof *write);
    m->encoder = dea_meta_encoder_init(reads, base->config.width);
    m->encoder.bottleneck = bottleneck;
    m->encoder.heads = heads;
    m->blocks = dea_meta_blocks_init(writes, reads, base->config.width);
    m->blocks.bottleneck = bottleneck;
    m->blocks.heads = heads;
    return DEA_OK;
}

TWO_PASS_API dea_status meta_register(meta_system *m) {
    m->table = dea_table_init(m->tensors, META_TENSORS);
    TRY(dea_meta_encoder_register(&m->encoder, &m->table, "enc_"));
    return dea_meta_blocks_register(&m->blocks, &m->table, "blk_");
}

/* ---- buffers --------------------------------------------------------------------------------------------------------- */
static dea_meta_sequences sequences(const meta_system *m, const meta_batch *b, int batch, int seq, const int *lengths) {
    dea_meta_sequences s = dea_meta_sequences_init(batch, seq, lengths, b->kv);
    s.threads = m->base.threads;
    return s;
}

/* Hands out the pieces of b, each on a boundary of DEA_ALIGNMENT; with memory NULL it only measures. */
static size_t lay_out(meta_batch *b, const meta_system *m, char *memory) {
    const llama_config *c = &m->base.config;
    const size_t B = (size_t)b->batch, N = B * (size_t)b->seq, D = (size_t)c->width, V = (size_t)c->vocab;
    const size_t tokens = B * (size_t)m->encoder.layers * D, writes = (size_t)m->blocks.count;
    const dea_meta_sequences s = sequences(m, b, b->batch, b->seq, NULL);
    const size_t keys = dea_meta_keys_count(&m->blocks, b->batch);
    struct {
        void *place;
        size_t bytes;
    } piece[] = {
        {&b->act, tokens * sizeof(dea_real)},
        {&b->cog, tokens * sizeof(dea_real)},
        {&b->dcog, tokens * sizeof(dea_real)},
        {&b->encoder_cache, dea_meta_encoder_cache_count(&m->encoder, b->batch) * sizeof(dea_real)},
        {&b->kv, keys * sizeof(dea_real)},
        {&b->dkv, keys * sizeof(dea_real)},
        {&b->x, N * D * sizeof(dea_real)},
        {&b->dx, N * D * sizeof(dea_real)},
        {&b->block_x, writes * N * D * sizeof(dea_real)},
        {&b->block_cache, writes * dea_meta_block_cache_count(&m->blocks, &s) * sizeof(dea_real)},
        {&b->base_saved, llama_saved_count(c, b->batch, b->seq) * sizeof(dea_real)},
        {&b->base_workspace, llama_workspace_count(c, b->batch, b->seq) * sizeof(dea_real)},
        {&b->keys, llama_kv_count(c, 1, b->seq) * sizeof(dea_real)},
        {&b->values, llama_kv_count(c, 1, b->seq) * sizeof(dea_real)},
        {&b->rows, N * D * sizeof(dea_real)},
        {&b->head_workspace, N * D * sizeof(dea_real)},
        {&b->logits, N * V * sizeof(dea_real)},
        {&b->scored, N * sizeof(int)},
        {&b->labels, N * sizeof(int)},
        {&b->workspace, b->workspace_bytes},
    };
    size_t used = 0;
    for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
        void *at = memory ? memory + used : NULL;
        memcpy(piece[i].place, &at, sizeof at);
        used += (piece[i].bytes + DEA_ALIGNMENT - 1) / DEA_ALIGNMENT * DEA_ALIGNMENT;
    }
    return used;
}

TWO_PASS_API meta_batch *meta_batch_open(const meta_system *m, int batch, int seq) {
    if (batch < 1 || batch > META_LAYERS || seq < 1) return NULL;
    meta_batch *b = (meta_batch *)calloc(1, sizeof *b);
    if (!b) return NULL;
    b->batch = batch;
    b->seq = seq;
    const dea_meta_sequences s = sequences(m, b, batch, seq, NULL);
    const size_t encoder = dea_meta_encoder_workspace(&m->encoder, batch);
    const size_t block = dea_meta_block_workspace(&m->blocks, &s);
    b->workspace_bytes = encoder > block ? encoder : block;
    if (encoder && block && llama_workspace_count(&m->base.config, batch, seq))
        b->memory = calloc(1, lay_out(b, m, NULL) + DEA_ALIGNMENT);
    if (!b->memory) {
        free(b);
        return NULL;
    }
    char *first = (char *)b->memory;
    lay_out(b, m, first + (DEA_ALIGNMENT - (uintptr_t)first % DEA_ALIGNMENT));
    return b;
}

TWO_PASS_API void meta_batch_close(meta_batch *b) {
    if (!b) return;
    free(b->memory);
    free(b);
}

static dea_status check_batch(const meta_system *m, const meta_batch *b, int batch, int seq) {
    if (!m || !b || !m->params) return DEA_ERR_NULL;
    return batch < 1 || batch > b->batch || seq < 1 || seq > b->seq ? DEA_ERR_SHAPE : DEA_OK;
}

/* ---- hooks on the base ------------------------------------------------------------------------------------------------ */
/* What the hook of a pass needs. */
typedef struct pass {
    const meta_system *m;
    meta_batch *b;
    const dea_meta_sequences *s; /* pass 2 */
    const int *lengths;          /* pass 1 */
    int seq, keep;               /* keep: for a backward */
    dea_real *grads;
} pass;

static int block_of(const meta_system *m, int layer) {
    for (int i = 0; i < m->blocks.count; i++)
        if (m->write[i] == layer) return i;
    return -1;
}

static size_t stream_count(const meta_system *m, const dea_meta_sequences *s) {
    return (size_t)s->batch * (size_t)s->seq * (size_t)m->base.config.width;
}

static dea_status read_layer(void *context, int layer, dea_real *x) {
    const pass *p = (const pass *)context;
    return dea_meta_hooks_record(&p->b->hooks, layer, x, p->seq, p->lengths);
}

static dea_status apply_block(void *context, int layer, dea_real *x) {
    const pass *p = (const pass *)context;
    const int i = block_of(p->m, layer);
    if (i < 0) return DEA_OK;
    const size_t count = stream_count(p->m, p->s);
    dea_real *cache = p->b->block_cache + (size_t)i * dea_meta_block_cache_count(&p->m->blocks, p->s);
    dea_real *read = p->b->block_x + (size_t)i * count;
    if (p->keep) memcpy(read, x, count * sizeof *x);
    return dea_meta_block_forward(&p->m->blocks, p->m->params, p->s, i, x, x, cache, p->b->workspace,
                                  p->b->workspace_bytes);
}

static dea_status apply_block_backward(void *context, int layer, dea_real *dx) {
    const pass *p = (const pass *)context;
    const int i = block_of(p->m, layer);
    if (i < 0) return DEA_OK;
    const dea_real *cache = p->b->block_cache + (size_t)i * dea_meta_block_cache_count(&p->m->blocks, p->s);
    const dea_real *read = p->b->block_x + (size_t)i * stream_count(p->m, p->s);
    return dea_meta_block_backward(&p->m->blocks, p->m->params, p->s, i, read, cache, dx, dx, p->b->dkv, p->grads,
                                   p->b->workspace, p->b->workspace_bytes);
}

/* ---- the passes ------------------------------------------------------------------------------------------------------ */
TWO_PASS_API dea_status meta_pass1(const meta_system *m, meta_batch *b, int batch, int seq, const int *prompt,
                                   const int *n_prompt) {
    TRY(check_batch(m, b, batch, seq));
    b->hooks = dea_meta_hooks_init(m->read, m->encoder.layers, batch, m->base.config.width, b->act);
    TRY(dea_meta_hooks_open(&b->hooks));
    pass p = {m, b, NULL, n_prompt, seq, 0, NULL};
    llama_call call = llama_call_init(prompt, batch, seq);
    call.hook = read_layer;
    call.context = &p;
    call.workspace = b->base_workspace;
    TRY(llama_forward(&m->base, &call, b->x));
    return dea_meta_hooks_freeze(&b->hooks);
}

TWO_PASS_API dea_status meta_pass1_logits(const meta_system *m, meta_batch *b, int batch, int seq, const int *prompt,
                                          const int *n_prompt, dea_real *logits) {
    const size_t D = (size_t)m->base.config.width;
    TRY(meta_pass1(m, b, batch, seq, prompt, n_prompt));
    for (size_t i = 0; i < (size_t)batch; i++)
        memcpy(b->rows + i * D, b->x + (i * (size_t)seq + (size_t)n_prompt[i] - 1) * D, D * sizeof *b->x);
    return llama_head(&m->base, b->rows, batch, logits, b->head_workspace);
}

TWO_PASS_API dea_status meta_think(const meta_system *m, meta_batch *b, int batch, const dea_real *act) {
    TRY(check_batch(m, b, batch, 1));
    if (!act) TRY(dea_meta_hooks_read(&b->hooks, &act));
    TRY(dea_meta_encoder_forward(&m->encoder, m->params, act, batch, b->cog, b->encoder_cache, b->workspace,
                                 b->workspace_bytes, &m->base.threads));
    return dea_meta_keys_forward(&m->blocks, m->params, b->cog, batch, b->kv, &m->base.threads);
}

TWO_PASS_API dea_status meta_pass2(const meta_system *m, meta_batch *b, int batch, int seq, const int *full,
                                   const int *n_full, int blocks_on) {
    TRY(check_batch(m, b, batch, seq));
    memcpy(b->lengths, n_full, (size_t)batch * sizeof *n_full);
    b->now_batch = batch;
    b->now_seq = seq;
    const dea_meta_sequences s = sequences(m, b, batch, seq, b->lengths);
    pass p = {m, b, &s, NULL, seq, 1, NULL};
    llama_call call = llama_call_init(full, batch, seq);
    if (blocks_on) call.hook = apply_block;
    call.context = &p;
    call.saved = b->base_saved;
    call.workspace = b->base_workspace;
    return llama_forward(&m->base, &call, b->x);
}

TWO_PASS_API dea_status meta_loss(const meta_system *m, meta_batch *b, const int *targets, double *loss, int *counted) {
    const size_t D = (size_t)m->base.config.width;
    int n = 0;
    for (int i = 0; i < b->now_batch * b->now_seq; i++) {
        if (targets[i] < 0) continue;
        memcpy(b->rows + (size_t)n * D, b->x + (size_t)i * D, D * sizeof *b->x);
        b->labels[n] = targets[i];
        b->scored[n++] = i;
    }
    b->scored_count = n;
    if (!n) return DEA_ERR_SHAPE;
    TRY(llama_head(&m->base, b->rows, n, b->logits, b->head_workspace));
    return dea_cross_entropy_forward(b->logits, b->labels, loss, counted, n, m->base.config.vocab, 0);
}

TWO_PASS_API dea_status meta_backward(const meta_system *m, meta_batch *b, const int *full, const dea_real *act,
                                      double d_loss, dea_real *grads) {
    const int n = b->scored_count, batch = b->now_batch;
    const size_t D = (size_t)m->base.config.width;
    if (!n) return DEA_ERR_SHAPE;
    if (!act) TRY(dea_meta_hooks_read(&b->hooks, &act));
    TRY(dea_cross_entropy_backward(b->logits, b->labels, d_loss, b->logits, n, m->base.config.vocab, 0));
    dea_real *drows = b->base_workspace; /* free until the base's own backward */
    TRY(llama_head_backward(&m->base, b->rows, b->logits, n, drows, NULL, b->head_workspace));
    memset(b->dx, 0, (size_t)batch * (size_t)b->now_seq * D * sizeof *b->dx);
    for (int i = 0; i < n; i++) memcpy(b->dx + (size_t)b->scored[i] * D, drows + (size_t)i * D, D * sizeof *b->dx);
    const dea_meta_sequences s = sequences(m, b, batch, b->now_seq, b->lengths);
    pass p = {m, b, &s, NULL, b->now_seq, 1, grads};
    llama_call call = llama_call_init(full, batch, b->now_seq);
    call.hook = apply_block_backward;
    call.context = &p;
    call.saved = b->base_saved;
    call.workspace = b->base_workspace;
    TRY(llama_backward(&m->base, &call, b->dx, m->write[0], NULL));
    TRY(dea_meta_keys_backward(&m->blocks, m->params, b->cog, b->dkv, batch, b->dcog, grads, &m->base.threads));
    return dea_meta_encoder_backward(&m->encoder, m->params, act, batch, b->encoder_cache, b->dcog, grads, b->workspace,
                                     b->workspace_bytes, &m->base.threads);
}

/* ---- decoding -------------------------------------------------------------------------------------------------------- */
/* Adds A at the last of `seq` positions, summed over heads, to weights [L_w,C]. */
static void add_weights(const meta_system *m, const meta_batch *b, const dea_meta_sequences *s, double *weights) {
    const size_t count = dea_meta_block_cache_count(&m->blocks, s), C = (size_t)m->blocks.tokens, T = (size_t)s->seq;
    for (int i = 0; i < m->blocks.count; i++) {
        const dea_real *a = dea_meta_block_weights(&m->blocks, s, b->block_cache + (size_t)i * count);
        for (size_t h = 0; h < (size_t)m->blocks.heads; h++)
            for (size_t c = 0; c < C; c++) weights[(size_t)i * C + c] += (double)a[(h * T + T - 1) * C + c];
    }
}

static int largest(const dea_real *x, int count) {
    int best = 0;
    for (int i = 1; i < count; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

TWO_PASS_API int meta_generate(const meta_system *m, meta_batch *b, const int *prompt, int n_prompt, int blocks_on,
                               int end, int *answer, int limit, double *weights, int *positions, dea_status *status) {
    const size_t D = (size_t)m->base.config.width;
    llama_kv kv = {b->keys, b->values, 1, b->seq, 0};
    const int *ids = prompt;
    int count = 0, seq = n_prompt;
    *status = check_batch(m, b, 1, n_prompt);
    while (*status == DEA_OK) {
        const dea_meta_sequences s = sequences(m, b, 1, seq, NULL);
        pass p = {m, b, &s, NULL, seq, 0, NULL};
        llama_call call = llama_call_init(ids, 1, seq);
        if (blocks_on) call.hook = apply_block;
        call.context = &p;
        call.kv = &kv;
        call.workspace = b->base_workspace;
        *status = llama_forward(&m->base, &call, b->x);
        if (*status == DEA_OK)
            *status = llama_head(&m->base, b->x + (size_t)(seq - 1) * D, 1, b->logits, b->head_workspace);
        if (*status != DEA_OK) break;
        if (blocks_on && weights) {
            add_weights(m, b, &s, weights);
            ++*positions;
        }
        const int token = largest(b->logits, m->base.config.vocab);
        if (token == end || count == limit) return count;
        answer[count++] = token;
        if (kv.used == kv.capacity) return count;
        ids = &answer[count - 1];
        seq = 1;
    }
    return -1;
}

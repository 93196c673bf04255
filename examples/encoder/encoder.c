#include "encoder/encoder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- configuration --------------------------------------------------------------------------------------------------- */

encoder_config encoder_config_default(void) {
    return (encoder_config){.segments = 2,
                            .max_length = 512,
                            .d_model = 512,
                            .heads = 8,
                            .layers = 6,
                            .feed_forward = 2048,
                            .classes = 2,
                            .positions = ENCODER_SINUSOIDAL,
                            .norm_eps = 1e-5,
                            .dropout = 0.1,
                            .embedding_std = 0.02,
                            .sentence_std = 0.02,
                            .temperature = 2,
                            .fixed_alpha = -1};
}

static const char *const positions_names[] = {"sinusoidal", "learnt", "sentence"};

const char *encoder_positions_name(encoder_positions positions) {
    return positions_names[positions];
}

int encoder_positions_by_name(const char *name, encoder_positions *positions) {
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, positions_names[i])) {
            *positions = (encoder_positions)i;
            return 0;
        }
    return -1;
}

/* What is wrong with a configuration, or NULL. */
static const char *config_fault(const encoder_config *c) {
    if (c->vocab < 1) return "the vocabulary is empty";
    if (c->segments < 1 || c->max_length < 1) return "segments and the maximal length must be at least 1";
    if (c->d_model < 1 || c->heads < 1 || c->d_model % c->heads)
        return "the width must be a multiple of the number of heads";
    if (c->layers < 1 || c->feed_forward < 1) return "layers and the feed-forward width must be at least 1";
    if (c->classes < 0) return "the number of classes is negative";
    if (c->classes == 0 && !c->language_model) return "a model needs a class head or a language-model head";
    if (c->positions < ENCODER_SINUSOIDAL || c->positions > ENCODER_SENTENCE)
        return "this kind of positions is unknown";
    if (c->split_heads && (c->positions != ENCODER_SENTENCE || c->d_model % 4))
        return "split heads need positions by sentence and a width that is a multiple of 4";
    if (c->positions == ENCODER_SINUSOIDAL && c->d_model % 2) return "sinusoidal positions need an even width";
    if (!(c->norm_eps > 0) || !(c->embedding_std > 0) || !(c->sentence_std > 0))
        return "norm eps, embedding std and sentence std must be above 0";
    if (!(c->dropout >= 0 && c->dropout < 1)) return "dropout must be in [0, 1)";
    if (c->use_temperature && !(c->temperature > 0 && isfinite(c->temperature)))
        return "the temperature must be above 0";
    if (!(c->fixed_alpha <= DEA_ALPHA_MAX)) return "a fixed alpha must be in [0, 0.95]";
    return NULL;
}

/* ---- parameters ------------------------------------------------------------------------------------------------------ */

enum { TENSORS_PER_LAYER = 16, TENSORS_BESIDES = 16 };

static dea_status add(dea_table *table, const char *prefix, const char *name, int rows, int columns, size_t *offset) {
    const int shape[2] = {rows, columns};
    return dea_table_add(table, prefix, name, columns ? 2 : 1, shape, DEA_GROUP_MAIN, columns > 0, offset);
}

static dea_status register_layer(encoder_layer *layer, const encoder_config *c, dea_table *table, int index) {
    char prefix[32], name[48];
    const int d = c->d_model, f = c->feed_forward;
    snprintf(prefix, sizeof prefix, "layer.%d.", index);
    snprintf(name, sizeof name, "%sattention.", prefix);
    layer->attention = dea_layer_init(d, c->heads);
    layer->attention.use_temperature = c->use_temperature != 0;
    layer->attention.temperature = c->temperature;
    layer->attention.tie_k_to_q = c->tie_k_to_q;
    layer->attention.w_rel_identity = c->w_rel_identity;
    dea_status status = dea_layer_register(&layer->attention, table, name);
    if (status == DEA_OK) status = add(table, prefix, "norm1.gain", d, 0, &layer->norm1_gain);
    if (status == DEA_OK) status = add(table, prefix, "norm1.bias", d, 0, &layer->norm1_bias);
    if (status == DEA_OK) status = add(table, prefix, "feed_forward.w_1", f, d, &layer->w_1);
    if (status == DEA_OK) status = add(table, prefix, "feed_forward.b_1", f, 0, &layer->b_1);
    if (status == DEA_OK) status = add(table, prefix, "feed_forward.w_2", d, f, &layer->w_2);
    if (status == DEA_OK) status = add(table, prefix, "feed_forward.b_2", d, 0, &layer->b_2);
    if (status == DEA_OK) status = add(table, prefix, "norm2.gain", d, 0, &layer->norm2_gain);
    if (status == DEA_OK) status = add(table, prefix, "norm2.bias", d, 0, &layer->norm2_bias);
    return status;
}

static dea_status register_all(encoder *e) {
    const encoder_config *c = &e->config;
    dea_table *t = &e->table;
    const int d = c->d_model;
    dea_status status = add(t, "embedding.", "token", c->vocab, d, &e->token);
    if (status == DEA_OK) status = add(t, "embedding.", "segment", c->segments, d, &e->segment);
    if (status == DEA_OK && c->positions != ENCODER_SINUSOIDAL)
        status = add(t, "embedding.", "place", c->max_length, d, &e->place);
    if (status == DEA_OK && c->positions == ENCODER_SENTENCE)
        status = add(t, "embedding.", "sentence", c->max_length, d, &e->sentence);
    for (int i = 0; status == DEA_OK && i < c->layers; i++) status = register_layer(&e->layer[i], c, t, i);
    if (status == DEA_OK) status = add(t, "norm.", "gain", d, 0, &e->norm_gain);
    if (status == DEA_OK) status = add(t, "norm.", "bias", d, 0, &e->norm_bias);
    if (status == DEA_OK && c->classes) {
        status = add(t, "class.", "pooler_w", d, d, &e->pooler_w);
        if (status == DEA_OK) status = add(t, "class.", "pooler_b", d, 0, &e->pooler_b);
        if (status == DEA_OK) status = add(t, "class.", "w", c->classes, d, &e->class_w);
        if (status == DEA_OK) status = add(t, "class.", "b", c->classes, 0, &e->class_b);
    }
    if (status == DEA_OK && c->language_model) {
        status = add(t, "language_model.", "w", d, d, &e->lm_w);
        if (status == DEA_OK) status = add(t, "language_model.", "b", d, 0, &e->lm_b);
        if (status == DEA_OK) status = add(t, "language_model.", "norm_gain", d, 0, &e->lm_norm_gain);
        if (status == DEA_OK) status = add(t, "language_model.", "norm_bias", d, 0, &e->lm_norm_bias);
        if (status == DEA_OK) status = add(t, "language_model.", "bias", c->vocab, 0, &e->lm_bias);
    }
    return status;
}

/* PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d)) */
static void fill_sinusoid(dea_real *table, int length, int d) {
    for (int p = 0; p < length; p++)
        for (int i = 0; i < d; i += 2) {
            const double angle = p / pow(10000, (double)i / d);
            table[(size_t)p * (size_t)d + (size_t)i] = (dea_real)sin(angle);
            table[(size_t)p * (size_t)d + (size_t)i + 1] = (dea_real)cos(angle);
        }
}

static encoder *refuse(encoder *e, char *message, const char *why) {
    if (message) snprintf(message, 160, "%s", why);
    encoder_free(e);
    return NULL;
}

encoder *encoder_new(const encoder_config *config, char *message) {
    const char *fault = config_fault(config);
    if (fault) return refuse(NULL, message, fault);
    encoder *e = calloc(1, sizeof *e);
    if (!e) return refuse(NULL, message, "out of memory");
    e->config = *config;
    const size_t layers = (size_t)config->layers, capacity = layers * TENSORS_PER_LAYER + TENSORS_BESIDES;
    e->layer = calloc(layers, sizeof *e->layer);
    e->tensors = capacity <= 1000000 ? calloc(capacity, sizeof *e->tensors) : NULL;
    if (!e->layer || !e->tensors) return refuse(e, message, "out of memory");
    e->table = dea_table_init(e->tensors, (int)capacity);
    const dea_status status = register_all(e);
    if (status != DEA_OK) return refuse(e, message, dea_status_string(status));
    if (config->positions == ENCODER_SINUSOIDAL) {
        e->sinusoid = calloc((size_t)config->max_length, (size_t)config->d_model * sizeof *e->sinusoid);
        if (!e->sinusoid) return refuse(e, message, "out of memory");
        fill_sinusoid(e->sinusoid, config->max_length, config->d_model);
    }
    return e;
}

void encoder_free(encoder *e) {
    if (!e) return;
    free(e->layer);
    free(e->tensors);
    free(e->sinusoid);
    free(e);
}

static void fill_ones(dea_real *x, int count) {
    for (int i = 0; i < count; i++) x[i] = 1;
}

static void fill_linear(dea_real *w, int out, int in, uint64_t seed) {
    dea_fill_xavier(w, (size_t)out * (size_t)in, in, out, seed);
}

/* Keeps columns [begin, end) of `rows` rows, which grow so that the rows keep their length; the others become 0. */
static void keep_columns(dea_real *w, int rows, int columns, int begin, int end) {
    const dea_real scale = (dea_real)sqrt((double)columns / (end - begin));
    for (int i = 0; i < rows; i++, w += columns)
        for (int j = 0; j < columns; j++) w[j] = j >= begin && j < end ? w[j] * scale : 0;
}

/* See encoder_reset in the header. */
static void split_heads(const encoder *e, dea_real *params) {
    const encoder_config *c = &e->config;
    const int d = c->d_model, half = d / 2, quarter = d / 4, head = d / c->heads;
    keep_columns(params + e->token, c->vocab, d, 0, half);
    keep_columns(params + e->sentence, c->max_length, d, half, half + quarter);
    keep_columns(params + e->place, c->max_length, d, half + quarter, d);
    keep_columns(params + e->segment, c->segments, d, half + quarter, d);
    for (int i = 0; i < c->layers; i++)
        for (int part = 0; part < 2; part++) { /* q, k */
            dea_real *w = params + e->layer[i].attention.w_qkv + (size_t)part * (size_t)d * (size_t)d;
            const int of_token = c->heads / 2 * head, of_sentence = c->heads / 4 * head;
            keep_columns(w, of_token, d, 0, half);
            keep_columns(w + (size_t)of_token * (size_t)d, of_sentence, d, half, half + quarter);
        }
}

dea_status encoder_reset(const encoder *e, dea_real *params, uint64_t seed) {
    const encoder_config *c = &e->config;
    const int d = c->d_model;
    const size_t width = (size_t)d;
    const uint64_t base = seed * 1000003u; /* every tensor draws with a seed of its own */
    memset(params, 0, e->table.elements * sizeof *params);
    dea_fill_normal(params + e->token, (size_t)c->vocab * width, c->embedding_std, base + 1);
    dea_fill_normal(params + e->segment, (size_t)c->segments * width, c->embedding_std, base + 2);
    if (c->positions != ENCODER_SINUSOIDAL)
        dea_fill_normal(params + e->place, (size_t)c->max_length * width, c->embedding_std, base + 3);
    if (c->positions == ENCODER_SENTENCE)
        dea_fill_normal(params + e->sentence, (size_t)c->max_length * width, c->sentence_std, base + 4);
    for (int i = 0; i < c->layers; i++) {
        const encoder_layer *l = &e->layer[i];
        const uint64_t own = base + 100 + 10 * (uint64_t)i;
        const dea_status status = dea_layer_reset(&l->attention, params, own);
        if (status != DEA_OK) return status;
        fill_linear(params + l->w_1, c->feed_forward, d, own + 7);
        fill_linear(params + l->w_2, d, c->feed_forward, own + 8);
        fill_ones(params + l->norm1_gain, d);
        fill_ones(params + l->norm2_gain, d);
    }
    if (c->split_heads) split_heads(e, params);
    fill_ones(params + e->norm_gain, d);
    if (c->classes) {
        fill_linear(params + e->pooler_w, d, d, base + 5);
        fill_linear(params + e->class_w, c->classes, d, base + 6);
    }
    if (c->language_model) {
        fill_linear(params + e->lm_w, d, d, base + 7);
        fill_ones(params + e->lm_norm_gain, d);
    }
    return DEA_OK;
}

/* ---- activations ----------------------------------------------------------------------------------------------------- */

/* One layer's, N = B T rows. Pre-norm: norm1 = LN(x), middle = x + DEA(norm1), norm2 = LN(middle), y = middle + FF(norm2).
 * Post-norm: norm1 = x + DEA(x), middle = LN(norm1), norm2 = middle + FF(middle), y = LN(norm2). */
typedef struct layer_places {
    const dea_real *x;         /* [N,d] input: the embeddings or the y below */
    dea_real *norm1, *norm2;   /* [N,d] */
    dea_real *saved1, *saved2; /* [2,N] */
    dea_real *cache;           /* dea_layer's */
    dea_real *middle, *y;      /* [N,d] */
    dea_real *inner, *active;  /* [N,feed_forward] before and after GELU */
    dea_attention attention;
} layer_places;

typedef struct encoder_places {
    int rows, length, lm_rows, kept, layer_count;
    dea_real *sum, *embedded; /* [N,d] before and after the post-norm embedding's norm (the same with pre-norm) */
    dea_real *norm_saved;     /* [2,N] of the embedding's norm or the last norm */
    dea_real *last;           /* [N,d] output of the last norm (pre-norm) */
    dea_real *branch;         /* [N,d] scratch */
    dea_real *first, *pooled, *dropped;                        /* [B,d] class head */
    dea_real *lm_x, *lm_linear, *lm_gelu, *lm_norm, *lm_saved; /* language-model head, [M,d] and [2,M] */
    int *lm_place, *lm_target;                                 /* [M] */
    dea_real *dx, *d_branch, *d_norm;                          /* [N,d] backward */
    dea_real *d_inner;                                         /* [N,feed_forward] */
    dea_real *d_head;                                          /* [max(B,M),d] */
    dea_real *logits, *lm_logits;
    dea_label_block *fixed; /* [B] with a fixed alpha */
    void *workspace;
    size_t workspace_bytes, bytes;
    layer_places layer[]; /* [layers] */
} encoder_places;

/* Carves aligned pieces; with base NULL it only measures. */
typedef struct carver {
    char *base;
    size_t used;
    int failed;
} carver;

static void *carve(carver *c, size_t count, size_t element) {
    const size_t limit = (size_t)PTRDIFF_MAX / 2;
    if (count > limit / element || c->used > limit - count * element - DEA_ALIGNMENT) {
        c->failed = 1;
        return NULL;
    }
    void *piece = c->base ? c->base + c->used : NULL;
    c->used += (count * element + DEA_ALIGNMENT - 1) / DEA_ALIGNMENT * DEA_ALIGNMENT;
    return piece;
}

static dea_real *reals(carver *c, size_t rows, size_t width) {
    const size_t limit = (size_t)PTRDIFF_MAX / 2 / sizeof(dea_real);
    if (width && rows > limit / width) {
        c->failed = 1;
        return NULL;
    }
    return carve(c, rows * width, sizeof(dea_real));
}

/* What a batch needs room for. */
typedef struct extent {
    int rows, length, lm_rows;
    size_t block_count;
} extent;

static dea_attention layer_attention(const encoder *e, const dea_real *params, int index, const extent *x,
                                     const encoder_run *run) {
    dea_attention a = dea_layer_attention(&e->layer[index].attention, params, x->rows, x->length);
    a.threads = run->threads.count > 0 ? run->threads : (dea_threads){1, NULL, NULL};
    a.label_block_count = x->block_count;
    a.gamma = run->gamma;
    a.dropout = run->training ? (dea_real)e->config.dropout : 0;
    a.seed = run->seed + 0x9E3779B97F4A7C15u * (uint64_t)(index + 1);
    a.step = run->step;
    if (run->maps) a.maps = run->maps[index];
    return a;
}

static void layer_layout(const encoder *e, carver *c, layer_places *l, size_t n, size_t cache_count) {
    const size_t d = (size_t)e->config.d_model, f = (size_t)e->config.feed_forward;
    l->norm1 = reals(c, n, d);
    l->norm2 = reals(c, n, d);
    l->saved1 = reals(c, n, 2);
    l->saved2 = reals(c, n, 2);
    l->cache = reals(c, cache_count, 1);
    l->middle = reals(c, n, d);
    l->y = reals(c, n, d);
    l->inner = reals(c, n, f);
    l->active = reals(c, n, f);
}

/* Fills `p` (whose `layer` has room for every layer, or is not touched if base is NULL) and p->bytes. */
static dea_status layout(const encoder *e, const extent *x, const encoder_run *run, char *base, encoder_places *p) {
    const encoder_config *config = &e->config;
    const size_t d = (size_t)config->d_model, b = (size_t)x->rows, m = (size_t)x->lm_rows;
    if (x->rows < 1 || x->length < 1 || x->length > config->max_length) return DEA_ERR_SHAPE;
    if (x->rows > INT32_MAX / x->length) return DEA_ERR_OVERFLOW;
    const size_t n = b * (size_t)x->length;
    carver c = {base, 0, 0};
    p->rows = x->rows;
    p->length = x->length;
    p->lm_rows = x->lm_rows;
    p->layer_count = config->layers;
    p->sum = reals(&c, n, d);
    p->embedded = config->post_norm ? reals(&c, n, d) : p->sum;
    p->norm_saved = reals(&c, n, 2);
    p->last = config->post_norm ? NULL : reals(&c, n, d);
    p->branch = reals(&c, n, d);

    /* Any layer will do: all have one shape. Sizes depend on which inputs there are, not on what they hold. */
    static const dea_real some_temperature = 1;
    static const int some_length = 1;
    static const dea_label_block some_block = {0, 0, 1, 0, 1, 0};
    dea_attention a = layer_attention(e, NULL, 0, x, run);
    if (config->use_temperature) a.temperature = &some_temperature;
    a.key_lengths = &some_length;
    a.label_blocks = x->block_count ? &some_block : NULL;
    const dea_gate gate = dea_gate_init();
    const size_t cache_count = dea_layer_cache_count(&e->layer[0].attention, &a);
    p->workspace_bytes = dea_layer_workspace(&e->layer[0].attention, &a, &gate);
    if (!cache_count || !p->workspace_bytes) return DEA_ERR_OVERFLOW;
    /* Without backward or gate loss two sets of buffers take turns. */
    p->kept = run->training || x->block_count > 0;
    const int sets = p->kept || config->layers < 2 ? config->layers : 2;
    layer_places set;
    for (int i = 0; i < sets; i++) {
        layer_layout(e, &c, &set, n, cache_count);
        for (int j = i; base && j < config->layers; j += sets) p->layer[j] = set;
    }
    if (config->classes) {
        p->first = reals(&c, b, d);
        p->pooled = reals(&c, b, d);
        p->dropped = reals(&c, b, d);
        p->logits = reals(&c, b, (size_t)config->classes);
    }
    if (m) {
        p->lm_x = reals(&c, m, d);
        p->lm_linear = reals(&c, m, d);
        p->lm_gelu = reals(&c, m, d);
        p->lm_norm = reals(&c, m, d);
        p->lm_saved = reals(&c, m, 2);
        p->lm_logits = reals(&c, m, (size_t)config->vocab);
        p->lm_place = carve(&c, m, sizeof(int));
        p->lm_target = carve(&c, m, sizeof(int));
    }
    if (run->training) {
        p->dx = reals(&c, n, d);
        p->d_branch = reals(&c, n, d);
        p->d_norm = reals(&c, n, d);
        p->d_inner = reals(&c, n, (size_t)config->feed_forward);
        p->d_head = reals(&c, b > m ? b : m, d);
    }
    if (config->fixed_alpha >= 0) p->fixed = carve(&c, b, sizeof *p->fixed);
    p->workspace = carve(&c, p->workspace_bytes, 1);
    p->bytes = c.used;
    return c.failed ? DEA_ERR_OVERFLOW : DEA_OK;
}

static extent extent_of(const encoder *e, int rows, int length, int lm_rows, size_t block_count) {
    /* A fixed alpha is one block over the whole map of each row, with gamma 1. */
    return (extent){rows, length, e->config.language_model ? lm_rows : 0,
                    e->config.fixed_alpha >= 0 ? (size_t)rows : block_count};
}

size_t encoder_work_bytes(const encoder *e, int rows, int length, int lm_rows, int block_count,
                          const encoder_run *run) {
    const extent x = extent_of(e, rows, length, lm_rows, block_count > 0 ? (size_t)block_count : 0);
    encoder_places p = {0};
    return layout(e, &x, run, NULL, &p) == DEA_OK ? p.bytes : 0;
}

void encoder_work_free(encoder_work *work) {
    free(work->memory);
    free(work->places);
    *work = (encoder_work){0};
}

dea_status encoder_work_reserve(encoder_work *work, size_t bytes) {
    if (bytes <= work->bytes) return DEA_OK;
    const size_t rounded = (bytes + DEA_ALIGNMENT - 1) / DEA_ALIGNMENT * DEA_ALIGNMENT;
    free(work->memory);
    work->bytes = 0;
    work->memory = aligned_alloc(DEA_ALIGNMENT, rounded);
    if (!work->memory) return DEA_ERR_CAPACITY;
    work->bytes = rounded;
    return DEA_OK;
}

static dea_status reserve(const encoder *e, const extent *x, const encoder_run *run, encoder_work *work) {
    encoder_places measured = {0};
    dea_status status = layout(e, x, run, NULL, &measured);
    if (status != DEA_OK) return status;
    status = encoder_work_reserve(work, measured.bytes);
    if (status != DEA_OK) return status;
    if (!work->places || work->places->layer_count != e->config.layers) {
        free(work->places);
        work->places = calloc(1, sizeof *work->places + (size_t)e->config.layers * sizeof *work->places->layer);
        if (!work->places) return DEA_ERR_CAPACITY;
    }
    return layout(e, x, run, work->memory, work->places);
}

/* ---- forward --------------------------------------------------------------------------------------------------------- */

/* Streams of dea_dropout, which tell the places of a model apart. */
enum { DROP_EMBEDDING, DROP_CLASS, DROP_LAYERS };

static void add_to(dea_real *y, const dea_real *x, size_t count) {
    for (size_t i = 0; i < count; i++) y[i] += x[i];
}

static void add_of(dea_real *y, const dea_real *a, const dea_real *b, size_t count) {
    for (size_t i = 0; i < count; i++) y[i] = a[i] + b[i];
}

/* In place; does nothing where there is no dropout. */
static dea_status drop(const encoder *e, const encoder_run *run, uint64_t stream, dea_real *x, size_t count) {
    if (!run->training || e->config.dropout == 0) return DEA_OK;
    return dea_dropout(x, x, count, e->config.dropout, run->seed, run->step, stream);
}

static dea_status add_embedding(const dea_real *table, const int *ids, int size, encoder_places *p, int d) {
    const int n = p->rows * p->length;
    if (!ids) return DEA_ERR_NULL;
    const dea_status status = dea_embedding_forward(table, ids, p->branch, n, size, d, 1);
    if (status == DEA_OK) add_to(p->sum, p->branch, (size_t)n * (size_t)d);
    return status;
}

static double token_scale(const encoder_config *c) {
    return c->positions == ENCODER_SINUSOIDAL ? sqrt((double)c->d_model) : 1;
}

static dea_status forward_embeddings(const encoder *e, const dea_real *params, const encoder_batch *batch,
                                     const encoder_run *run, encoder_places *p) {
    const encoder_config *c = &e->config;
    const int d = c->d_model, n = p->rows * p->length;
    const size_t row = (size_t)p->length * (size_t)d;
    dea_status status = dea_embedding_forward(params + e->token, batch->id, p->sum, n, c->vocab, d, token_scale(c));
    if (status == DEA_OK) status = add_embedding(params + e->segment, batch->segment, c->segments, p, d);
    if (status == DEA_OK && c->positions == ENCODER_SENTENCE) {
        status = add_embedding(params + e->place, batch->place, c->max_length, p, d);
        if (status == DEA_OK) status = add_embedding(params + e->sentence, batch->sentence, c->max_length, p, d);
    } else if (status == DEA_OK) { /* the place in the row: the same for every row */
        const dea_real *table = c->positions == ENCODER_SINUSOIDAL ? e->sinusoid : params + e->place;
        for (int b = 0; b < p->rows; b++) add_to(p->sum + (size_t)b * row, table, row);
    }
    if (status == DEA_OK && c->post_norm)
        status = dea_layer_norm_forward(p->sum, params + e->norm_gain, params + e->norm_bias, p->embedded,
                                        p->norm_saved, n, d, c->norm_eps, &run->threads);
    if (status == DEA_OK) status = drop(e, run, DROP_EMBEDDING, p->embedded, (size_t)n * (size_t)d);
    return status;
}

static dea_status norm1(const encoder *e, const dea_real *params, int index, const dea_real *x, dea_real *y,
                        layer_places *l, int n) {
    const encoder_layer *layer = &e->layer[index];
    return dea_layer_norm_forward(x, params + layer->norm1_gain, params + layer->norm1_bias, y, l->saved1, n,
                                  e->config.d_model, e->config.norm_eps, &l->attention.threads);
}

static dea_status norm2(const encoder *e, const dea_real *params, int index, const dea_real *x, dea_real *y,
                        layer_places *l, int n) {
    const encoder_layer *layer = &e->layer[index];
    return dea_layer_norm_forward(x, params + layer->norm2_gain, params + layer->norm2_bias, y, l->saved2, n,
                                  e->config.d_model, e->config.norm_eps, &l->attention.threads);
}

/* y = W_2 GELU(W_1 x) */
static dea_status forward_feed_forward(const encoder *e, const dea_real *params, int index, const dea_real *x,
                                       dea_real *y, layer_places *l, int n) {
    const encoder_layer *layer = &e->layer[index];
    const int d = e->config.d_model, f = e->config.feed_forward;
    const dea_threads *threads = &l->attention.threads;
    dea_status status = dea_linear_forward(x, params + layer->w_1, params + layer->b_1, l->inner, n, d, f, threads);
    if (status == DEA_OK) status = dea_gelu_forward(l->inner, l->active, (size_t)n * (size_t)f, threads);
    if (status == DEA_OK)
        status = dea_linear_forward(l->active, params + layer->w_2, params + layer->b_2, y, n, f, d, threads);
    return status;
}

static dea_status forward_layer(const encoder *e, const dea_real *params, int index, const encoder_run *run,
                                encoder_places *p) {
    layer_places *l = &p->layer[index];
    const int n = p->rows * p->length, post = e->config.post_norm;
    const size_t count = (size_t)n * (size_t)e->config.d_model;
    const uint64_t stream = DROP_LAYERS + 2 * (uint64_t)index;
    dea_status status = post ? DEA_OK : norm1(e, params, index, l->x, l->norm1, l, n);
    if (status == DEA_OK)
        status = dea_layer_forward(&e->layer[index].attention, params, &l->attention, post ? l->x : l->norm1, p->branch,
                                   l->cache, p->workspace, p->workspace_bytes);
    if (status == DEA_OK) status = drop(e, run, stream, p->branch, count);
    if (status != DEA_OK) return status;
    add_of(post ? l->norm1 : l->middle, l->x, p->branch, count);
    status =
        post ? norm1(e, params, index, l->norm1, l->middle, l, n) : norm2(e, params, index, l->middle, l->norm2, l, n);
    if (status == DEA_OK) status = forward_feed_forward(e, params, index, post ? l->middle : l->norm2, p->branch, l, n);
    if (status == DEA_OK) status = drop(e, run, stream + 1, p->branch, count);
    if (status != DEA_OK) return status;
    add_of(post ? l->norm2 : l->y, l->middle, p->branch, count);
    return post ? norm2(e, params, index, l->norm2, l->y, l, n) : DEA_OK;
}

static dea_status forward_class(const encoder *e, const dea_real *params, const encoder_run *run,
                                const dea_real *hidden, encoder_places *p) {
    const int d = e->config.d_model, b = p->rows;
    const size_t width = (size_t)d, count = (size_t)b * width;
    for (int i = 0; i < b; i++)
        memcpy(p->first + (size_t)i * width, hidden + (size_t)i * (size_t)p->length * width, width * sizeof *hidden);
    dea_status status =
        dea_linear_forward(p->first, params + e->pooler_w, params + e->pooler_b, p->pooled, b, d, d, NULL);
    if (status == DEA_OK) status = dea_tanh_forward(p->pooled, p->pooled, count);
    if (status != DEA_OK) return status;
    memcpy(p->dropped, p->pooled, count * sizeof *p->dropped);
    status = drop(e, run, DROP_CLASS, p->dropped, count);
    if (status == DEA_OK)
        status = dea_linear_forward(p->dropped, params + e->class_w, params + e->class_b, p->logits, b, d,
                                    e->config.classes, NULL);
    return status;
}

static dea_status forward_language_model(const encoder *e, const dea_real *params, const dea_real *hidden,
                                         encoder_places *p, const dea_threads *threads) {
    const int d = e->config.d_model, m = p->lm_rows;
    const size_t width = (size_t)d;
    for (int i = 0; i < m; i++)
        memcpy(p->lm_x + (size_t)i * width, hidden + (size_t)p->lm_place[i] * width, width * sizeof *hidden);
    dea_status status = dea_linear_forward(p->lm_x, params + e->lm_w, params + e->lm_b, p->lm_linear, m, d, d, threads);
    if (status == DEA_OK) status = dea_gelu_forward(p->lm_linear, p->lm_gelu, (size_t)m * width, threads);
    if (status == DEA_OK)
        status = dea_layer_norm_forward(p->lm_gelu, params + e->lm_norm_gain, params + e->lm_norm_bias, p->lm_norm,
                                        p->lm_saved, m, d, e->config.norm_eps, threads);
    if (status == DEA_OK)
        status = dea_linear_forward(p->lm_norm, params + e->token, params + e->lm_bias, p->lm_logits, m, d,
                                    e->config.vocab, threads);
    return status;
}

static int count_masked(const encoder_batch *batch) {
    int count = 0;
    for (int i = 0; batch->masked && i < batch->rows * batch->length; i++) count += batch->masked[i] >= 0;
    return count;
}

static void list_masked(const encoder_batch *batch, encoder_places *p) {
    int m = 0;
    for (int i = 0; m < p->lm_rows; i++)
        if (batch->masked[i] >= 0) {
            p->lm_place[m] = i;
            p->lm_target[m++] = batch->masked[i];
        }
}

static void attach_labels(const encoder *e, const encoder_batch *batch, encoder_places *p, dea_attention *a) {
    if (e->config.fixed_alpha >= 0) {
        for (int b = 0; b < p->rows; b++)
            p->fixed[b] = (dea_label_block){b, 0, p->length, 0, p->length, (dea_real)e->config.fixed_alpha};
        a->label_blocks = p->fixed;
        a->gamma = 1;
    } else {
        a->label_blocks = batch->block;
    }
}

dea_status encoder_forward(const encoder *e, const dea_real *params, const encoder_batch *batch, const encoder_run *run,
                           encoder_work *work) {
    if (!params || !batch->id || !batch->segment || !batch->lengths) return DEA_ERR_NULL;
    if (batch->rows < 1 || batch->length < 1 || batch->rows > INT32_MAX / batch->length) return DEA_ERR_SHAPE;
    const extent x =
        extent_of(e, batch->rows, batch->length, count_masked(batch), batch->block ? batch->block_count : 0);
    dea_status status = reserve(e, &x, run, work);
    if (status != DEA_OK) return status;
    encoder_places *p = work->places;
    if (p->lm_rows) list_masked(batch, p);
    status = forward_embeddings(e, params, batch, run, p);
    const dea_real *hidden = p->embedded;
    for (int i = 0; status == DEA_OK && i < e->config.layers; i++) {
        layer_places *l = &p->layer[i];
        l->x = hidden;
        l->attention = layer_attention(e, params, i, &x, run);
        l->attention.key_lengths = batch->lengths;
        attach_labels(e, batch, p, &l->attention);
        status = forward_layer(e, params, i, run, p);
        hidden = l->y;
    }
    if (status == DEA_OK && !e->config.post_norm) {
        status = dea_layer_norm_forward(hidden, params + e->norm_gain, params + e->norm_bias, p->last, p->norm_saved,
                                        p->rows * p->length, e->config.d_model, e->config.norm_eps, &run->threads);
        hidden = p->last;
    }
    if (status == DEA_OK && e->config.classes) status = forward_class(e, params, run, hidden, p);
    if (status == DEA_OK && p->lm_rows) status = forward_language_model(e, params, hidden, p, &run->threads);
    work->hidden = (dea_real *)(uintptr_t)hidden;
    work->logits = e->config.classes ? p->logits : NULL;
    work->lm_logits = p->lm_rows ? p->lm_logits : NULL;
    work->lm_rows = p->lm_rows;
    return status;
}

/* ---- losses and backward --------------------------------------------------------------------------------------------- */

encoder_loss encoder_loss_init(void) {
    return (encoder_loss){.class_weight = 1, .lm_weight = 1, .gate_weight = 1, .gate = dea_gate_init()};
}

static int count_correct(const dea_real *logits, const int *label, int rows, int classes) {
    int correct = 0;
    for (int b = 0; b < rows; b++) {
        const dea_real *row = logits + (size_t)b * (size_t)classes;
        int best = 0;
        for (int c = 1; c < classes; c++)
            if (row[c] > row[best]) best = c;
        correct += label[b] == best;
    }
    return correct;
}

static int has_class_loss(const encoder *e, const encoder_batch *batch) {
    return e->config.classes > 0 && batch->label;
}

static int has_gate_loss(const encoder *e, const encoder_batch *batch) {
    return e->config.fixed_alpha < 0 && batch->block && batch->block_count > 0;
}

/* Losses of the heads, from the logits. */
static dea_status head_losses(const encoder *e, const encoder_batch *batch, encoder_loss *loss, encoder_places *p) {
    dea_status status = DEA_OK;
    loss->class_loss = loss->lm_loss = 0;
    loss->class_rows = loss->lm_rows = loss->correct = 0;
    if (has_class_loss(e, batch)) {
        status = dea_cross_entropy_forward(p->logits, batch->label, &loss->class_loss, &loss->class_rows, p->rows,
                                           e->config.classes, 0);
        loss->correct = count_correct(p->logits, batch->label, p->rows, e->config.classes);
    }
    if (status == DEA_OK && p->lm_rows)
        status = dea_cross_entropy_forward(p->lm_logits, p->lm_target, &loss->lm_loss, &loss->lm_rows, p->lm_rows,
                                           e->config.vocab, 0);
    return status;
}

/* Mean over the layers; gradients, if wanted, go to the gate group. */
static dea_status gate_losses(const encoder *e, const encoder_batch *batch, encoder_loss *loss, dea_real *grads,
                              encoder_places *p) {
    loss->gate_loss = loss->gate_dense = loss->gate_photo = 0;
    loss->labelled = loss->valid = 0;
    if (!has_gate_loss(e, batch)) return DEA_OK;
    dea_gate gate = loss->gate;
    const int layers = e->config.layers;
    gate.scale = (dea_real)(loss->gate_weight / layers);
    gate.beta = NULL;
    gate.winners = NULL;
    for (int i = 0; i < layers; i++) {
        dea_gate_result result;
        const dea_status status =
            dea_layer_gate_loss(&e->layer[i].attention, &p->layer[i].attention, &gate, p->layer[i].cache, grads,
                                &result, p->workspace, p->workspace_bytes);
        if (status != DEA_OK) return status;
        loss->gate_loss += result.loss / layers;
        loss->gate_dense += result.dense / layers;
        loss->gate_photo += result.photo / layers;
        if (i == 0) {
            loss->labelled = result.labelled;
            loss->valid = result.valid;
        }
    }
    return DEA_OK;
}

dea_status encoder_losses(const encoder *e, const dea_real *params, const encoder_batch *batch, const encoder_run *run,
                          encoder_loss *loss, encoder_work *work) {
    (void)params;
    (void)run;
    if (!work->places) return DEA_ERR_NULL;
    const dea_status status = head_losses(e, batch, loss, work->places);
    return status == DEA_OK ? gate_losses(e, batch, loss, NULL, work->places) : status;
}

static dea_status backward_class(const encoder *e, const dea_real *params, const encoder_batch *batch,
                                 const encoder_run *run, double weight, dea_real *grads, encoder_places *p) {
    const int d = e->config.d_model, b = p->rows, classes = e->config.classes;
    const size_t width = (size_t)d, count = (size_t)b * width;
    dea_status status = dea_cross_entropy_backward(p->logits, batch->label, weight, p->logits, b, classes, 0);
    if (status == DEA_OK)
        status = dea_linear_backward(p->dropped, params + e->class_w, p->logits, p->d_head, grads + e->class_w,
                                     grads + e->class_b, b, d, classes, NULL);
    if (status == DEA_OK) status = drop(e, run, DROP_CLASS, p->d_head, count);
    if (status == DEA_OK) status = dea_tanh_backward(p->pooled, p->d_head, p->d_head, count);
    if (status == DEA_OK) /* `dropped` is free again: the gradient of `first` */
        status = dea_linear_backward(p->first, params + e->pooler_w, p->d_head, p->dropped, grads + e->pooler_w,
                                     grads + e->pooler_b, b, d, d, NULL);
    for (int i = 0; status == DEA_OK && i < b; i++)
        add_to(p->dx + (size_t)i * (size_t)p->length * width, p->dropped + (size_t)i * width, width);
    return status;
}

static dea_status backward_language_model(const encoder *e, const dea_real *params, double weight, dea_real *grads,
                                          encoder_places *p, const dea_threads *threads) {
    const int d = e->config.d_model, m = p->lm_rows, vocab = e->config.vocab;
    const size_t width = (size_t)d;
    dea_status status = dea_cross_entropy_backward(p->lm_logits, p->lm_target, weight, p->lm_logits, m, vocab, 0);
    if (status == DEA_OK)
        status = dea_linear_backward(p->lm_norm, params + e->token, p->lm_logits, p->d_head, grads + e->token,
                                     grads + e->lm_bias, m, d, vocab, threads);
    if (status == DEA_OK)
        status = dea_layer_norm_backward(p->lm_gelu, params + e->lm_norm_gain, p->lm_saved, p->d_head, p->d_head,
                                         grads + e->lm_norm_gain, grads + e->lm_norm_bias, m, d, threads);
    if (status == DEA_OK) status = dea_gelu_backward(p->lm_linear, p->d_head, p->d_head, (size_t)m * width, threads);
    if (status == DEA_OK) /* `lm_norm` is free again */
        status = dea_linear_backward(p->lm_x, params + e->lm_w, p->d_head, p->lm_norm, grads + e->lm_w, grads + e->lm_b,
                                     m, d, d, threads);
    for (int i = 0; status == DEA_OK && i < m; i++)
        add_to(p->dx + (size_t)p->lm_place[i] * width, p->lm_norm + (size_t)i * width, width);
    return status;
}

/* dx = the gradient of the feed-forward's input for dy (which the dropout mask changes in place). */
static dea_status backward_feed_forward(const encoder *e, const dea_real *params, int index, const encoder_run *run,
                                        const dea_real *x, dea_real *dy, dea_real *dx, dea_real *grads,
                                        encoder_places *p) {
    const encoder_layer *layer = &e->layer[index];
    layer_places *l = &p->layer[index];
    const int d = e->config.d_model, f = e->config.feed_forward, n = p->rows * p->length;
    const dea_threads *threads = &l->attention.threads;
    dea_status status = drop(e, run, DROP_LAYERS + 2 * (uint64_t)index + 1, dy, (size_t)n * (size_t)d);
    if (status == DEA_OK)
        status = dea_linear_backward(l->active, params + layer->w_2, dy, p->d_inner, grads + layer->w_2,
                                     grads + layer->b_2, n, f, d, threads);
    if (status == DEA_OK) status = dea_gelu_backward(l->inner, p->d_inner, p->d_inner, (size_t)n * (size_t)f, threads);
    if (status == DEA_OK)
        status = dea_linear_backward(x, params + layer->w_1, p->d_inner, dx, grads + layer->w_1, grads + layer->b_1, n,
                                     d, f, threads);
    return status;
}

static dea_status backward_attention(const encoder *e, const dea_real *params, int index, const encoder_run *run,
                                     const dea_real *x, dea_real *dy, dea_real *dx, dea_real *grads,
                                     encoder_places *p) {
    const layer_places *l = &p->layer[index];
    const size_t count = (size_t)p->rows * (size_t)p->length * (size_t)e->config.d_model;
    const dea_status status = drop(e, run, DROP_LAYERS + 2 * (uint64_t)index, dy, count);
    if (status != DEA_OK) return status;
    return dea_layer_backward(&e->layer[index].attention, params, &l->attention, x, l->cache, dy, dx, grads,
                              p->workspace, p->workspace_bytes);
}

static dea_status backward_norm(const encoder *e, const dea_real *params, size_t gain, size_t bias, const dea_real *x,
                                const dea_real *saved, const dea_real *dy, dea_real *dx, dea_real *grads,
                                const encoder_places *p) {
    return dea_layer_norm_backward(x, params + gain, saved, dy, dx, grads + gain, grads + bias, p->rows * p->length,
                                   e->config.d_model, &p->layer[0].attention.threads);
}

/* p->dx: from the gradient of the layer's output to that of its input. */
static dea_status backward_layer(const encoder *e, const dea_real *params, int index, const encoder_run *run,
                                 dea_real *grads, encoder_places *p) {
    const encoder_layer *layer = &e->layer[index];
    const layer_places *l = &p->layer[index];
    const size_t count = (size_t)p->rows * (size_t)p->length * (size_t)e->config.d_model,
                 bytes = count * sizeof(dea_real);
    dea_status status = DEA_OK;
    if (e->config.post_norm) {
        status =
            backward_norm(e, params, layer->norm2_gain, layer->norm2_bias, l->norm2, l->saved2, p->dx, p->dx, grads, p);
        memcpy(p->d_branch, p->dx, bytes);
        if (status == DEA_OK)
            status = backward_feed_forward(e, params, index, run, l->middle, p->d_branch, p->d_norm, grads, p);
        if (status != DEA_OK) return status;
        add_to(p->dx, p->d_norm, count);
        status =
            backward_norm(e, params, layer->norm1_gain, layer->norm1_bias, l->norm1, l->saved1, p->dx, p->dx, grads, p);
        memcpy(p->d_branch, p->dx, bytes);
        if (status == DEA_OK)
            status = backward_attention(e, params, index, run, l->x, p->d_branch, p->d_norm, grads, p);
        if (status == DEA_OK) add_to(p->dx, p->d_norm, count);
        return status;
    }
    memcpy(p->d_branch, p->dx, bytes);
    status = backward_feed_forward(e, params, index, run, l->norm2, p->d_branch, p->d_norm, grads, p);
    if (status == DEA_OK)
        status = backward_norm(e, params, layer->norm2_gain, layer->norm2_bias, l->middle, l->saved2, p->d_norm,
                               p->d_norm, grads, p);
    if (status != DEA_OK) return status;
    add_to(p->dx, p->d_norm, count);
    memcpy(p->d_branch, p->dx, bytes);
    status = backward_attention(e, params, index, run, l->norm1, p->d_branch, p->d_norm, grads, p);
    if (status == DEA_OK)
        status = backward_norm(e, params, layer->norm1_gain, layer->norm1_bias, l->x, l->saved1, p->d_norm, p->d_norm,
                               grads, p);
    if (status == DEA_OK) add_to(p->dx, p->d_norm, count);
    return status;
}

static dea_status backward_embeddings(const encoder *e, const dea_real *params, const encoder_batch *batch,
                                      const encoder_run *run, dea_real *grads, encoder_places *p) {
    const encoder_config *c = &e->config;
    const int d = c->d_model, n = p->rows * p->length;
    const size_t row = (size_t)p->length * (size_t)d;
    dea_status status = drop(e, run, DROP_EMBEDDING, p->dx, (size_t)n * (size_t)d);
    if (status == DEA_OK && c->post_norm)
        status = backward_norm(e, params, e->norm_gain, e->norm_bias, p->sum, p->norm_saved, p->dx, p->dx, grads, p);
    if (status == DEA_OK)
        status = dea_embedding_backward(batch->id, p->dx, grads + e->token, n, c->vocab, d, token_scale(c));
    if (status == DEA_OK)
        status = dea_embedding_backward(batch->segment, p->dx, grads + e->segment, n, c->segments, d, 1);
    if (status != DEA_OK) return status;
    if (c->positions == ENCODER_LEARNT)
        for (int b = 0; b < p->rows; b++) add_to(grads + e->place, p->dx + (size_t)b * row, row);
    if (c->positions == ENCODER_SENTENCE) {
        status = dea_embedding_backward(batch->place, p->dx, grads + e->place, n, c->max_length, d, 1);
        if (status == DEA_OK)
            status = dea_embedding_backward(batch->sentence, p->dx, grads + e->sentence, n, c->max_length, d, 1);
    }
    return status;
}

dea_status encoder_backward(const encoder *e, const dea_real *params, const encoder_batch *batch,
                            const encoder_run *run, encoder_loss *loss, dea_real *grads, encoder_work *work) {
    encoder_places *p = work->places;
    if (!p || !params || !grads) return DEA_ERR_NULL;
    if (!run->training) return DEA_ERR_OPTION;
    dea_status status = head_losses(e, batch, loss, p);
    if (status == DEA_OK && loss->gate_weight > 0) status = gate_losses(e, batch, loss, grads, p);
    const int class_loss = has_class_loss(e, batch) && loss->class_weight > 0,
              lm_loss = p->lm_rows && loss->lm_weight > 0;
    if (status != DEA_OK || (!class_loss && !lm_loss)) return status;

    memset(p->dx, 0, (size_t)p->rows * (size_t)p->length * (size_t)e->config.d_model * sizeof *p->dx);
    if (class_loss) status = backward_class(e, params, batch, run, loss->class_weight, grads, p);
    if (status == DEA_OK && lm_loss)
        status = backward_language_model(e, params, loss->lm_weight, grads, p, &run->threads);
    if (status == DEA_OK && !e->config.post_norm)
        status = backward_norm(e, params, e->norm_gain, e->norm_bias, p->layer[e->config.layers - 1].y, p->norm_saved,
                               p->dx, p->dx, grads, p);
    for (int i = e->config.layers - 1; status == DEA_OK && i >= 0; i--)
        status = backward_layer(e, params, i, run, grads, p);
    return status == DEA_OK ? backward_embeddings(e, params, batch, run, grads, p) : status;
}

/* ---- looking inside -------------------------------------------------------------------------------------------------- */

void encoder_probabilities(const encoder *e, int rows, const encoder_work *work, double *probabilities) {
    const int classes = e->config.classes;
    for (int b = 0; b < rows; b++) {
        const dea_real *row = work->logits + (size_t)b * (size_t)classes;
        double *out = probabilities + (size_t)b * (size_t)classes;
        double largest = (double)row[0], sum = 0;
        for (int c = 1; c < classes; c++) largest = fmax(largest, (double)row[c]);
        for (int c = 0; c < classes; c++) sum += out[c] = exp((double)row[c] - largest);
        for (int c = 0; c < classes; c++) out[c] /= sum;
    }
}

double encoder_block_mean(const dea_real *map, int heads, int length, const dea_label_block *block) {
    double sum = 0;
    for (int h = 0; h < heads; h++)
        for (int i = block->q_begin; i < block->q_end; i++) {
            const size_t row =
                (((size_t)block->batch * (size_t)heads + (size_t)h) * (size_t)length + (size_t)i) * (size_t)length;
            for (int j = block->k_begin; j < block->k_end; j++) sum += (double)map[row + (size_t)j];
        }
    return sum / ((double)heads * (block->q_end - block->q_begin) * (block->k_end - block->k_begin));
}

dea_status encoder_layer_attention(const encoder *e, const encoder_work *work, int layer, dea_attention *attention,
                                   const dea_real **saved) {
    const encoder_places *p = work->places;
    if (!p) return DEA_ERR_NULL;
    if (layer < 0 || layer >= e->config.layers || !p->kept) return DEA_ERR_OPTION;
    const layer_places *l = &p->layer[layer];
    *attention = l->attention; /* q, k, v and o stand before `saved` in the cache: [B,T,3,H,d], [B,T,H,d] */
    *saved = l->cache + 4 * (size_t)p->rows * (size_t)p->length * (size_t)e->config.d_model;
    return DEA_OK;
}

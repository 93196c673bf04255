#include "meta/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

meta_settings meta_settings_init(void) {
    meta_settings s;
    memset(&s, 0, sizeof s);
    s.lr = 2e-4;
    s.epochs = 10;
    s.patience = 5;
    s.micro = 2;
    s.group = 16;
    s.ratio = 0.5;
    s.seed = 42;
    return s;
}

void meta_shuffle(int *index, int count, uint64_t seed) {
    for (int i = 0; i < count; i++) index[i] = i;
    for (int i = count - 1; i > 0; i--) {
        const int j = (int)(dea_meta_random(seed + (uint64_t)i * UINT64_C(0x9E3779B97F4A7C15)) % (uint64_t)(i + 1));
        const int keep = index[i];
        index[i] = index[j];
        index[j] = keep;
    }
}

/* ---- phase 0 --------------------------------------------------------------------------------------------------------- */
/* The choice among candidates (lowest index on a tie) and the margin of its log p over the next. */
static int choose(const meta_items *items, const dea_real *logits, double *margin) {
    int best = 0;
    double first = -INFINITY, second = -INFINITY;
    for (int k = 0; k < items->candidate_count; k++) {
        const double x = (double)logits[items->candidates[k]];
        if (x > first)
            second = first, first = x, best = k;
        else if (x > second)
            second = x;
    }
    *margin = first - second;
    return best;
}

dea_status meta_collect(const meta_system *m, meta_batch *b, meta_items *items) {
    const size_t each = (size_t)m->encoder.layers * (size_t)m->base.config.width, V = (size_t)m->base.config.vocab;
    dea_real *logits = (dea_real *)malloc((size_t)b->batch * V * sizeof *logits);
    dea_status status = logits ? DEA_OK : DEA_ERR_CAPACITY;
    for (int i = 0; status == DEA_OK && i < items->count; i += b->batch) {
        const int n = items->count - i < b->batch ? items->count - i : b->batch;
        status = meta_pass1_logits(m, b, n, items->prompt_seq, items->prompt + (size_t)i * (size_t)items->prompt_seq,
                                   items->n_prompt + i, logits);
        for (int k = 0; status == DEA_OK && k < n; k++) {
            memcpy(items->act + (size_t)(i + k) * each, b->act + (size_t)k * each, each * sizeof *b->act);
            items->base_right[i + k] =
                choose(items, logits + (size_t)k * V, &items->margin[i + k]) == items->right[i + k];
        }
    }
    free(logits);
    return status;
}

/* ---- one optimiser, two phases ---------------------------------------------------------------------------------------- */
/* Arenas beside the parameters. */
typedef struct optimiser {
    dea_adamw adamw;
    const dea_table *table;
    dea_real *params, *grads, *m, *v, *best;
    int64_t step, warmup, steps;
} optimiser;

static dea_status optimiser_open(optimiser *o, const dea_table *table, dea_real *params, const meta_settings *s,
                                 int items, int micro, int group) {
    const size_t n = table->elements;
    memset(o, 0, sizeof *o);
    o->adamw = dea_adamw_init();
    o->adamw.lr[DEA_GROUP_MAIN] = s->lr;
    o->table = table;
    o->params = params;
    o->steps = s->epochs * dea_meta_steps(items, micro, group);
    o->warmup = (o->steps + 19) / 20;
    o->grads = (dea_real *)calloc(4 * n, sizeof *o->grads);
    if (!o->grads) return DEA_ERR_CAPACITY;
    o->m = o->grads + n;
    o->v = o->m + n;
    o->best = o->v + n;
    memcpy(o->best, params, n * sizeof *params);
    return DEA_OK;
}

static dea_status optimiser_step(optimiser *o) {
    const double factor = dea_warmup_cosine(o->step, o->warmup, o->steps);
    const dea_status status =
        dea_adamw_step(&o->adamw, o->table, o->params, o->grads, o->m, o->v, ++o->step, factor, NULL);
    memset(o->grads, 0, o->table->elements * sizeof *o->grads);
    return status;
}

/* ---- phase 1 --------------------------------------------------------------------------------------------------------- */
/* Buffers for batches of `size` items. */
typedef struct judging {
    dea_real *act, *u, *cache;
    int *right;
    void *workspace;
    size_t bytes;
    int size;
} judging;

static void judging_close(judging *j) {
    free(j->act), free(j->u), free(j->cache), free(j->right), free(j->workspace);
}

static dea_status judging_open(judging *j, const dea_meta_confidence *heads, int size) {
    const size_t rows = (size_t)size * (size_t)heads->layers;
    memset(j, 0, sizeof *j);
    j->size = size;
    j->bytes = dea_meta_confidence_workspace(heads, size);
    j->act = (dea_real *)malloc(rows * (size_t)heads->width * sizeof *j->act);
    j->u = (dea_real *)malloc(rows * sizeof *j->u);
    j->cache = (dea_real *)malloc(dea_meta_confidence_cache_count(heads, size) * sizeof *j->cache);
    j->right = (int *)malloc((size_t)size * sizeof *j->right);
    if (posix_memalign(&j->workspace, DEA_ALIGNMENT, j->bytes)) j->workspace = NULL;
    if (j->act && j->u && j->cache && j->right && j->workspace) return DEA_OK;
    judging_close(j);
    return DEA_ERR_CAPACITY;
}

/* Gathers `n` items and runs the heads on them. */
static dea_status judge_batch(judging *j, const dea_meta_confidence *heads, const dea_real *params,
                              const meta_items *items, const int *index, int n, const dea_threads *threads) {
    const size_t each = (size_t)heads->layers * (size_t)heads->width;
    for (int k = 0; k < n; k++) {
        memcpy(j->act + (size_t)k * each, items->act + (size_t)index[k] * each, each * sizeof *j->act);
        j->right[k] = items->base_right[index[k]];
    }
    return dea_meta_confidence_forward(heads, params, j->act, n, j->u, j->cache, j->workspace, j->bytes, threads);
}

dea_status meta_judge(const dea_meta_confidence *heads, const dea_real *params, const meta_items *items, meta_part part,
                      double *probability, const dea_threads *threads) {
    judging j;
    dea_status status = judging_open(&j, heads, 32);
    if (status != DEA_OK) return status;
    for (int i = 0; status == DEA_OK && i < part.count; i += j.size) {
        const int n = part.count - i < j.size ? part.count - i : j.size;
        status = judge_batch(&j, heads, params, items, part.index + i, n, threads);
        for (int k = 0; k < n * heads->layers; k++)
            probability[(size_t)i * (size_t)heads->layers + (size_t)k] = 1 / (1 + exp(-(double)j.u[k]));
    }
    judging_close(&j);
    return status;
}

/* Mean validation loss of each layer [C]. */
static dea_status validate_heads(judging *j, const dea_meta_confidence *heads, const dea_real *params,
                                 const meta_items *items, meta_part part, double *layer_loss, double *own,
                                 const dea_threads *threads) {
    dea_status status = DEA_OK;
    memset(layer_loss, 0, (size_t)heads->layers * sizeof *layer_loss);
    for (int i = 0; status == DEA_OK && i < part.count; i += j->size) {
        const int n = part.count - i < j->size ? part.count - i : j->size;
        double loss;
        status = judge_batch(j, heads, params, items, part.index + i, n, threads);
        if (status == DEA_OK) status = dea_meta_confidence_loss(j->u, j->right, n, heads->layers, &loss, own, 0, NULL);
        for (int c = 0; status == DEA_OK && c < heads->layers; c++) layer_loss[c] += own[c] * n / part.count;
    }
    return status;
}

/* One epoch in a new order; *loss its mean. */
static dea_status heads_epoch(optimiser *o, judging *j, const dea_meta_confidence *heads, const meta_items *items,
                              meta_part train, const int *order, int *picked, double *loss,
                              const dea_threads *threads) {
    dea_status status = DEA_OK;
    *loss = 0;
    for (int i = 0; status == DEA_OK && i < train.count; i += j->size) {
        const int n = train.count - i < j->size ? train.count - i : j->size;
        double own = 0;
        for (int k = 0; k < n; k++) picked[k] = train.index[order[i + k]];
        status = judge_batch(j, heads, o->params, items, picked, n, threads);
        if (status == DEA_OK) status = dea_meta_confidence_loss(j->u, j->right, n, heads->layers, &own, NULL, 1, j->u);
        if (status == DEA_OK)
            status = dea_meta_confidence_backward(heads, o->params, j->act, n, j->cache, j->u, o->grads, j->workspace,
                                                  j->bytes, threads);
        if (status == DEA_OK) status = optimiser_step(o);
        *loss += own * n / train.count;
    }
    return status;
}

enum { HEADS_BATCH = 32 };

dea_status meta_train_confidence(const dea_meta_confidence *heads, const dea_table *table, dea_real *params,
                                 const meta_items *items, meta_part train, meta_part validation,
                                 const meta_settings *settings, const dea_threads *threads) {
    const size_t C = (size_t)heads->layers;
    optimiser o;
    judging j;
    if (train.count < 1 || validation.count < 1 || settings->epochs < 1) return DEA_ERR_SHAPE;
    dea_status status = judging_open(&j, heads, HEADS_BATCH);
    if (status != DEA_OK) return status;
    status = optimiser_open(&o, table, params, settings, train.count, HEADS_BATCH, 1);
    int *order = (int *)malloc(((size_t)train.count + HEADS_BATCH) * sizeof *order);
    double *losses = (double *)malloc(2 * C * sizeof *losses);
    dea_early_stop *stops = (dea_early_stop *)malloc(C * sizeof *stops);
    if (!order || !losses || !stops) status = DEA_ERR_CAPACITY;
    for (size_t c = 0; status == DEA_OK && c < C; c++) stops[c] = dea_early_stop_init(settings->patience);
    for (int epoch = 0, done = 0; status == DEA_OK && epoch < settings->epochs && !done; epoch++) {
        double loss, mean = 0;
        int improved = 0;
        meta_shuffle(order, train.count, dea_meta_random(settings->seed) + (uint64_t)epoch);
        status = heads_epoch(&o, &j, heads, items, train, order, order + train.count, &loss, threads);
        if (status == DEA_OK)
            status = validate_heads(&j, heads, params, items, validation, losses, losses + C, threads);
        done = status == DEA_OK;
        for (size_t c = 0; status == DEA_OK && c < C; c++) { /* layers share nothing: each keeps its own best epoch */
            if (dea_early_stop_enter(&stops[c], losses[c])) {
                (void)dea_meta_confidence_keep(heads, params, o.best, (int)c);
                improved = 1;
            }
            mean += losses[c] / (double)C;
            if (!dea_early_stop_done(&stops[c])) done = 0;
        }
        if (status == DEA_OK && settings->report) settings->report(settings->context, 1, epoch, loss, mean, improved);
    }
    if (status == DEA_OK) memcpy(params, o.best, table->elements * sizeof *params);
    free(order), free(losses), free(stops), free(o.grads);
    judging_close(&j);
    return status;
}

/* ---- phase 2 --------------------------------------------------------------------------------------------------------- */
/* One micro-batch as arrays. */
typedef struct micro {
    int *prompt, *n_prompt, *target, *n_target, *full, *n_full, *targets;
    dea_real *act;
    int size, seq; /* seq of full */
} micro;

static void micro_close(micro *u) {
    free(u->prompt), free(u->act);
}

static dea_status micro_open(micro *u, const meta_items *items, int size, int seq, size_t each) {
    const size_t n = (size_t)size, P = (size_t)items->prompt_seq, T = (size_t)items->target_seq, F = (size_t)seq;
    memset(u, 0, sizeof *u);
    u->size = size;
    u->seq = seq;
    u->act = (dea_real *)malloc(n * each * sizeof *u->act);
    u->prompt = (int *)malloc(n * (P + T + 2 * F + 3) * sizeof(int));
    if (!u->prompt || !u->act) {
        micro_close(u);
        return DEA_ERR_CAPACITY;
    }
    u->target = u->prompt + n * P;
    u->full = u->target + n * T;
    u->targets = u->full + n * F;
    u->n_prompt = u->targets + n * F;
    u->n_target = u->n_prompt + n;
    u->n_full = u->n_target + n;
    return DEA_OK;
}

/* Gathers items `index[0..n)` with their targets of this epoch, and thinks. */
static dea_status micro_fill(micro *u, const meta_system *m, meta_batch *b, const meta_items *items, const int *index,
                             int n, const meta_settings *s, int epoch) {
    const size_t each = (size_t)m->encoder.layers * (size_t)m->base.config.width;
    const size_t P = (size_t)items->prompt_seq, T = (size_t)items->target_seq;
    for (int k = 0; k < n; k++) {
        const int item = index[k];
        const size_t action =
            (size_t)dea_meta_draw(items->base_right[item], s->ratio, s->seed, (uint64_t)epoch, (uint64_t)item);
        const size_t drawn = (size_t)item * 3 + action;
        memcpy(u->prompt + (size_t)k * P, items->prompt + (size_t)item * P, P * sizeof(int));
        memcpy(u->target + (size_t)k * T, items->target + drawn * T, T * sizeof(int));
        memcpy(u->act + (size_t)k * each, items->act + (size_t)item * each, each * sizeof *u->act);
        u->n_prompt[k] = items->n_prompt[item];
        u->n_target[k] = items->n_target[drawn];
    }
    const dea_status status = dea_meta_join(u->prompt, u->n_prompt, items->prompt_seq, u->target, u->n_target,
                                            items->target_seq, n, 0, u->seq, u->full, u->n_full, u->targets);
    return status == DEA_OK ? meta_think(m, b, n, u->act) : status;
}

static dea_status micro_loss(micro *u, const meta_system *m, meta_batch *b, int n, double *loss, int *counted) {
    const dea_status status = meta_pass2(m, b, n, u->seq, u->full, u->n_full, 1);
    return status == DEA_OK ? meta_loss(m, b, u->targets, loss, counted) : status;
}

/* Total cross entropy over total target tokens; targets of epoch 0 always. */
static dea_status validate(micro *u, const meta_system *m, meta_batch *b, const meta_items *items, meta_part part,
                           const meta_settings *s, double *loss) {
    double total = 0, tokens = 0;
    dea_status status = DEA_OK;
    for (int i = 0; status == DEA_OK && i < part.count; i += u->size) {
        const int n = part.count - i < u->size ? part.count - i : u->size;
        double own = 0;
        int counted = 0;
        status = micro_fill(u, m, b, items, part.index + i, n, s, 0);
        if (status == DEA_OK) status = micro_loss(u, m, b, n, &own, &counted);
        total += own * counted;
        tokens += counted;
    }
    *loss = tokens > 0 ? total / tokens : NAN;
    return status;
}

/* The pass that dea_meta_verify_gates asks for, on the micro-batch already filled. */
typedef struct first_batch {
    const meta_system *m;
    meta_batch *b;
    micro *u;
    int n;
} first_batch;

static dea_status first_pass(void *context, int blocks_on, dea_real *logits, dea_real *grads, dea_real *dcog) {
    const first_batch *f = (const first_batch *)context;
    const meta_system *m = f->m;
    meta_batch *b = f->b;
    double loss;
    dea_status status = meta_think(m, b, f->n, f->u->act);
    if (status == DEA_OK) status = meta_pass2(m, b, f->n, f->u->seq, f->u->full, f->u->n_full, blocks_on);
    if (status == DEA_OK) status = llama_head(&m->base, b->x, f->n * f->u->seq, logits, b->head_workspace);
    if (status != DEA_OK || !grads) return status;
    status = meta_loss(m, b, f->u->targets, &loss, NULL);
    if (status == DEA_OK) status = meta_backward(m, b, f->u->full, f->u->act, 1, grads);
    if (status == DEA_OK)
        memcpy(dcog, b->dcog, (size_t)f->n * (size_t)m->encoder.layers * (size_t)m->base.config.width * sizeof *dcog);
    return status;
}

static dea_status verify_first(const meta_system *m, meta_batch *b, micro *u, int n, dea_real *grads,
                               const char **what) {
    first_batch f = {m, b, u, n};
    const size_t logits = (size_t)n * (size_t)u->seq * (size_t)m->base.config.vocab, writes = (size_t)m->blocks.count;
    const size_t cog = (size_t)n * (size_t)m->encoder.layers * (size_t)m->base.config.width;
    dea_real *room = (dea_real *)malloc((2 * logits + cog + writes) * sizeof *room);
    if (!room) return DEA_ERR_CAPACITY;
    const dea_status status =
        dea_meta_verify_gates(&m->blocks, m->params, first_pass, &f, room, logits, grads, m->table.elements,
                              room + 2 * logits, cog, room + 2 * logits + cog, what);
    memset(grads, 0, m->table.elements * sizeof *grads);
    free(room);
    return status;
}

/* One epoch in a new order; *loss the mean over micro-batches. */
static dea_status epoch_of(optimiser *o, micro *u, const meta_system *m, meta_batch *b, const meta_items *items,
                           meta_part train, int *order, const meta_settings *s, int epoch, double *loss,
                           const char **what) {
    dea_status status = DEA_OK;
    meta_shuffle(order, train.count, dea_meta_random(s->seed + 1) + (uint64_t)epoch);
    for (int i = 0; i < train.count; i++) order[i] = train.index[order[i]];
    *loss = 0;
    for (int i = 0, k = 0; status == DEA_OK && i < train.count; i += u->size, k++) {
        const int n = train.count - i < u->size ? train.count - i : u->size;
        double own = 0;
        status = micro_fill(u, m, b, items, order + i, n, s, epoch);
        if (status == DEA_OK && epoch == 0 && i == 0) {
            status = verify_first(m, b, u, n, o->grads, what);
            if (status == DEA_OK) status = meta_think(m, b, n, u->act);
        }
        if (status == DEA_OK) status = micro_loss(u, m, b, n, &own, NULL);
        if (status == DEA_OK)
            status = meta_backward(m, b, u->full, u->act, dea_meta_micro_weight(train.count, u->size, s->group, k),
                                   o->grads);
        if (status == DEA_OK && dea_meta_micro_ends_step(train.count, u->size, s->group, k)) status = optimiser_step(o);
        *loss += own * n / train.count;
    }
    return status;
}

dea_status meta_train(const meta_system *m, meta_batch *b, const meta_items *items, meta_part train,
                      meta_part validation, const meta_settings *settings, const char **what) {
    const meta_settings *s = settings;
    optimiser o;
    micro u;
    *what = NULL;
    if (train.count < 1 || validation.count < 1 || s->epochs < 1 || s->micro < 1 || s->group < 1 || s->micro > b->batch)
        return DEA_ERR_SHAPE;
    dea_status status =
        micro_open(&u, items, s->micro, b->seq, (size_t)m->encoder.layers * (size_t)m->base.config.width);
    if (status != DEA_OK) return status;
    status = optimiser_open(&o, &m->table, m->params, s, train.count, s->micro, s->group);
    int *order = (int *)malloc((size_t)train.count * sizeof *order);
    if (!order) status = DEA_ERR_CAPACITY;
    dea_early_stop stop = dea_early_stop_init(s->patience);
    for (int epoch = 0; status == DEA_OK && epoch < s->epochs && !dea_early_stop_done(&stop); epoch++) {
        double loss, check = 0;
        status = epoch_of(&o, &u, m, b, items, train, order, s, epoch, &loss, what);
        if (status == DEA_OK) status = validate(&u, m, b, items, validation, s, &check);
        if (status != DEA_OK) break;
        const int best = dea_early_stop_enter(&stop, check);
        if (best) memcpy(o.best, m->params, m->table.elements * sizeof *o.best);
        if (s->report) s->report(s->context, 2, epoch, loss, check, best);
    }
    if (status == DEA_OK) memcpy(m->params, o.best, m->table.elements * sizeof *o.best);
    free(order), free(o.grads);
    micro_close(&u);
    return status;
}

#include "eval/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/batch.h"

enum { MAP_BYTES = 64 << 20 }; /* all maps of a batch together, where one row does not need more */

/* What a pass over the rows needs besides its results. */
typedef struct pass {
    const score_options *options;
    encoder model; /* the loaded one with its dropout off */
    const dea_real *params;
    samples list;
    batch_plan plan;
    batch_buffer buffer;
    encoder_work work;
    dea_maps *maps; /* [layers]: alpha_hat and a */
    dea_real *map_memory;
    dea_real *beta;  /* [B,H,T,T] */
    dea_real *label; /* [B,T,T] */
    int *winners;    /* [B,H,T] */
    void *workspace;
    size_t workspace_bytes;
    double *probability;        /* [B,classes] */
    int64_t *queries, *visible; /* [layers, heads] counted so far */
} pass;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void *aligned(size_t bytes) {
    return aligned_alloc(DEA_ALIGNMENT, (bytes + DEA_ALIGNMENT - 1) / DEA_ALIGNMENT * DEA_ALIGNMENT);
}

static int allocate_scores(scores *s, size_t count, size_t blocks, int layers, int heads, text_error *error) {
    const size_t places = (size_t)layers * (size_t)heads, room = count + 1;
    *s = (scores){.count = count, .blocks = blocks, .layers = layers, .heads = heads};
    s->predicted = calloc(room, 1);
    s->right = calloc(room, 1);
    double **const by_row[] = {&s->probability, &s->confidence, &s->row_alpha, &s->row_alpha_hat};
    int ok = s->predicted && s->right;
    for (int i = 0; i < 4; i++) ok = (*by_row[i] = calloc(room, sizeof(double))) != NULL && ok;
    ok = (s->alpha = calloc(blocks + 1, sizeof(double))) != NULL && ok;
    ok = (s->alpha_hat = calloc(blocks + 1, sizeof(double))) != NULL && ok;
    ok = (s->entropy = calloc(places, sizeof(double))) != NULL && ok;
    ok = (s->gate = calloc(places, sizeof(double))) != NULL && ok;
    return ok ? 0 : text_fail_memory(error, room * 34 + blocks * 16);
}

void scores_free(scores *s) {
    void *const all[] = {s->predicted,     s->right, s->probability, s->confidence, s->row_alpha,
                         s->row_alpha_hat, s->alpha, s->alpha_hat,   s->entropy,    s->gate};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    *s = (scores){0};
}

static void free_pass(pass *p) {
    samples_free(&p->list);
    batch_plan_free(&p->plan);
    batch_buffer_free(&p->buffer);
    encoder_work_free(&p->work);
    void *const all[] = {p->maps,      p->map_memory,  p->beta,    p->label,  p->winners,
                         p->workspace, p->probability, p->queries, p->visible};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* Maps and scratch for the largest batch of the plan. */
static int allocate_pass(pass *p, text_error *error) {
    const encoder_config *c = &p->model.config;
    size_t cells = 0, rows = 0, tokens = 0;
    for (size_t i = 0; i < p->plan.slices; i++) {
        const size_t count = (size_t)p->plan.slice[i].count, length = (size_t)p->plan.slice[i].length;
        if (count * length * length > cells) cells = count * length * length;
        if (count * length > tokens) tokens = count * length;
        if (count > rows) rows = count;
    }
    const size_t layers = (size_t)c->layers, heads = (size_t)c->heads;
    p->maps = calloc(layers, sizeof *p->maps);
    p->map_memory = malloc(2 * layers * heads * cells * sizeof *p->map_memory);
    p->beta = malloc(heads * cells * sizeof *p->beta);
    p->label = malloc(cells * sizeof *p->label);
    p->winners = malloc(heads * tokens * sizeof *p->winners);
    p->probability = malloc(rows * (size_t)c->classes * sizeof *p->probability);
    p->queries = calloc(layers * heads, sizeof *p->queries);
    p->visible = calloc(layers * heads, sizeof *p->visible);
    if (!p->maps || !p->map_memory || !p->beta || !p->label || !p->winners || !p->probability || !p->queries ||
        !p->visible)
        return text_fail_memory(error, (2 * layers + 2) * heads * cells * sizeof *p->map_memory);
    for (size_t l = 0; l < layers; l++) {
        p->maps[l].alpha_hat = p->map_memory + 2 * l * heads * cells;
        p->maps[l].a = p->map_memory + (2 * l + 1) * heads * cells;
    }
    return 0;
}

/* ---- rows to samples --------------------------------------------------------------------------------------------- */

static int encode_one(pass *p, scores *s, const model *m, token_cache *cache, const row *r, size_t index,
                      encoded_pair *pair, text_error *error) {
    const size_t longest = (size_t)m->encoder->config.max_length;
    if (encode_pair(m->vocabulary, cache, r->premise, r->hypothesis, p->options->cut ? longest : 0, pair, error) != 0)
        return -1;
    if (pair->length > longest) {
        char shown[256];
        return text_fail(
            error,
            "row %zu (\"%s\") has %zu tokens, the model takes %zu: give --cut to drop the front of long premises",
            index + 1, text_excerpt(r->premise, strlen(r->premise), shown), pair->length, longest);
    }
    s->tokens += pair->length;
    s->unknown += pair->unknown;
    s->cut += pair->cut > 0;
    if (p->options->labels && m->encoder->config.fixed_alpha < 0 &&
        labeller_add(p->options->labels, r, pair, 0, &p->list.blocks, error) != 0)
        return -1;
    return samples_add(&p->list, pair, r->label, 0, error);
}

static int encode_all(pass *p, scores *s, const model *m, const row *rows, size_t count, text_error *error) {
    encoded_pair pair = {0};
    token_cache *cache = token_cache_new();
    int status = cache ? 0 : text_fail(error, "out of memory for the tokenizer's cache");
    for (size_t i = 0; status == 0 && i < count; i++) status = encode_one(p, s, m, cache, &rows[i], i, &pair, error);
    encoded_pair_free(&pair);
    token_cache_free(cache);
    return status;
}

/* ---- figures of one batch ---------------------------------------------------------------------------------------- */

static void read_classes(const pass *p, scores *s, const batch_slice *slice) {
    const int classes = p->model.config.classes;
    encoder_probabilities(&p->model, slice->count, &p->work, p->probability);
    for (int b = 0; b < slice->count; b++) {
        const double *of_row = p->probability + (size_t)b * (size_t)classes;
        const size_t index = p->plan.order[slice->begin + (size_t)b];
        int best = 0;
        for (int c = 1; c < classes; c++)
            if (of_row[c] > of_row[best]) best = c;
        s->predicted[index] = (unsigned char)best;
        s->right[index] = best == p->list.at[index].label;
        s->probability[index] = of_row[1];
        s->confidence[index] = of_row[best];
    }
}

/* Means of each head over the queries and cells of rows, padding left out. */
static void read_heads(pass *p, scores *s, const batch_slice *slice) {
    const size_t length = (size_t)slice->length;
    for (int l = 0; l < s->layers; l++)
        for (int b = 0; b < slice->count; b++)
            for (int h = 0; h < s->heads; h++) {
                const size_t at = (size_t)(l * s->heads + h), seen = (size_t)p->buffer.lengths[b];
                const size_t map = ((size_t)b * (size_t)s->heads + (size_t)h) * length * length;
                for (size_t i = 0; i < seen; i++) {
                    s->entropy[at] += metrics_entropy(p->maps[l].a + map + i * length, seen);
                    for (size_t j = 0; j < seen; j++) s->gate[at] += (double)p->maps[l].alpha_hat[map + i * length + j];
                }
                p->queries[at] += (int64_t)seen;
                p->visible[at] += (int64_t)(seen * seen);
            }
}

/* alpha-hat of one label block: its mean over cells, heads and layers, and its distances from the label cell by cell.
 */
static double read_block(const pass *p, scores *s, const dea_label_block *block, int length) {
    double sum = 0;
    int64_t cells = 0;
    for (int l = 0; l < s->layers; l++)
        for (int h = 0; h < s->heads; h++)
            for (int i = block->q_begin; i < block->q_end; i++) {
                const size_t start =
                    ((size_t)(block->batch * s->heads + h) * (size_t)length + (size_t)i) * (size_t)length;
                for (int j = block->k_begin; j < block->k_end; j++) {
                    const double hat = (double)p->maps[l].alpha_hat[start + (size_t)j];
                    sum += hat;
                    s->cell_mae += fabs(hat - (double)block->alpha);
                    cells++;
                }
            }
    s->cells += cells;
    return sum / (double)cells;
}

static void read_labels(const pass *p, scores *s, const batch_slice *slice) {
    const dea_label_block *block = p->buffer.batch.block;
    for (int b = 0; b < slice->count; b++) {
        const size_t index = p->plan.order[slice->begin + (size_t)b];
        const sample *of_row = &p->list.at[index];
        double alpha = 0, hat = 0;
        for (int k = 0; k < of_row->block_count; k++) {
            dea_label_block one = p->list.blocks.block[of_row->block_begin + (size_t)k];
            one.batch = b;
            const size_t at = of_row->block_begin + (size_t)k;
            s->alpha[at] = (double)one.alpha;
            s->alpha_hat[at] = read_block(p, s, &one, slice->length);
            alpha += s->alpha[at];
            hat += s->alpha_hat[at];
        }
        s->row_alpha[index] = of_row->block_count ? alpha / of_row->block_count : NAN;
        s->row_alpha_hat[index] = of_row->block_count ? hat / of_row->block_count : NAN;
    }
    /* Labels as a map, to look a target's alpha up. */
    const size_t cells = (size_t)slice->count * (size_t)slice->length * (size_t)slice->length;
    for (size_t i = 0; i < cells; i++) p->label[i] = (dea_real)NAN;
    for (size_t k = 0; k < p->buffer.batch.block_count; k++)
        for (int i = block[k].q_begin; i < block[k].q_end; i++)
            for (int j = block[k].k_begin; j < block[k].k_end; j++)
                p->label[((size_t)block[k].batch * (size_t)slice->length + (size_t)i) * (size_t)slice->length +
                         (size_t)j] = block[k].alpha;
}

static void count_finishes(const pass *p, scores *s, const batch_slice *slice, const dea_real *alpha_hat) {
    const size_t length = (size_t)slice->length;
    for (int b = 0; b < slice->count; b++)
        for (int h = 0; h < s->heads; h++)
            for (size_t i = 0; i < (size_t)p->buffer.lengths[b]; i++) {
                const size_t query = ((size_t)b * (size_t)s->heads + (size_t)h) * length + i;
                const int target = p->winners[query];
                if (target < 0) continue;
                const double alpha = (double)p->label[((size_t)b * length + i) * length + (size_t)target];
                const double hat = (double)alpha_hat[query * length + (size_t)target];
                for (size_t j = 0; j < length; j++) {
                    const double beta = (double)p->beta[query * length + j];
                    if (!isnan(beta)) metrics_side_add(&s->sides, alpha, hat, beta);
                }
            }
}

/* Photo-finishes of every layer: targets, distractors and betas are the gate loss's own. */
static int read_finishes(pass *p, scores *s, const batch_slice *slice, text_error *error) {
    for (int l = 0; l < s->layers; l++) {
        dea_attention a;
        const dea_real *saved;
        dea_gate gate = dea_gate_init();
        dea_gate_result result;
        gate.beta = p->beta;
        gate.winners = p->winners;
        dea_status status = encoder_layer_attention(&p->model, &p->work, l, &a, &saved);
        const size_t bytes = status == DEA_OK ? dea_gate_loss_workspace(&a, &gate) : 0;
        if (bytes > p->workspace_bytes) {
            free(p->workspace);
            p->workspace = aligned(bytes);
            p->workspace_bytes = p->workspace ? bytes : 0;
            if (!p->workspace) return text_fail_memory(error, bytes);
        }
        if (status == DEA_OK) status = dea_gate_loss(&a, &gate, saved, NULL, &result, p->workspace, p->workspace_bytes);
        if (status != DEA_OK) return text_fail(error, "photo-finishes of layer %d: %s", l, dea_status_string(status));
        count_finishes(p, s, slice, p->maps[l].alpha_hat);
    }
    return 0;
}

static int run_batch(pass *p, scores *s, size_t slice_index, text_error *error) {
    const batch_slice *slice = &p->plan.slice[slice_index];
    if (batch_fill(&p->buffer, &p->list, &p->plan, slice_index, 1, error) != 0) return -1;
    /* A training run without dropout and gamma: it computes what inference does and keeps what photo-finishes need. */
    encoder_run run = {.training = 1, .maps = p->maps, .threads = p->options->threads};
    const dea_status status = encoder_forward(&p->model, p->params, &p->buffer.batch, &run, &p->work);
    if (status != DEA_OK)
        return text_fail(error, "batch %zu of %zu: %s", slice_index + 1, p->plan.slices, dea_status_string(status));
    read_classes(p, s, slice);
    read_heads(p, s, slice);
    read_labels(p, s, slice);
    return p->buffer.batch.block_count > 0 && p->model.config.fixed_alpha < 0 ? read_finishes(p, s, slice, error) : 0;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static int run_all(pass *p, scores *s, text_error *error) {
    size_t done = 0;
    for (size_t i = 0; i < p->plan.slices; i++) {
        if (run_batch(p, s, i, error) != 0) return -1;
        done += (size_t)p->plan.slice[i].count;
        if (p->options->progress && p->options->progress(p->options->context, done, s->count))
            return text_fail(error, "stopped");
    }
    for (int at = 0; at < s->layers * s->heads; at++) {
        s->entropy[at] /= (double)p->queries[at];
        s->gate[at] /= (double)p->visible[at];
    }
    s->cell_mae = s->cells ? s->cell_mae / (double)s->cells : NAN;
    return 0;
}

int scores_run(scores *s, const model *m, const row *rows, size_t count, const score_options *options,
               text_error *error) {
    pass p = {.options = options, .model = *m->encoder, .params = m->params};
    const encoder_config *c = &m->encoder->config;
    scores measured = {0};
    p.model.config.dropout = 0;
    *s = (scores){0};
    if (c->classes < 2) return text_fail(error, "the model has no class head: fine-tune it on labelled rows first");
    int status = encode_all(&p, &measured, m, rows, count, error);
    if (status == 0) {
        const size_t per_token = (size_t)c->layers * (size_t)c->heads * 2 * sizeof(dea_real) * (size_t)c->max_length;
        const size_t tokens = MAP_BYTES / per_token;
        status = batch_plan_make(&p.plan, &p.list, tokens < 4096 ? (int)tokens : 4096, error);
    }
    if (status == 0) status = allocate_scores(s, count, p.list.blocks.count, c->layers, c->heads, error);
    if (status == 0) status = allocate_pass(&p, error);
    if (status == 0) {
        s->tokens = measured.tokens, s->unknown = measured.unknown, s->cut = measured.cut;
        status = run_all(&p, s, error);
    }
    free_pass(&p);
    if (status != 0) scores_free(s);
    return status;
}

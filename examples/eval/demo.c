#include "eval/demo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/batch.h"

enum { PARIS = 7 };

static const demo_pair questions[DEMO_PAIRS] = {
    {.query = "dog", .target = "dogs", .lookalike = "log", .band = DEA_BAND_NEAR},
    {.query = "car", .target = "automobile", .lookalike = "cat", .band = DEA_BAND_NEAR},
    {.query = "run", .target = "running", .lookalike = "sun", .band = DEA_BAND_NEAR},
    {.query = "car", .target = "road", .lookalike = "cart", .band = DEA_BAND_WEAK},
    {.query = "doctor", .target = "nurse", .lookalike = "door", .band = DEA_BAND_WEAK},
    {.query = "king", .target = "queen", .lookalike = "ring", .band = DEA_BAND_STRONG},
    {.query = "car", .target = "wheel", .lookalike = "care", .band = DEA_BAND_STRONG},
    {.query = "Paris", .target = "France", .lookalike = "Parish", .band = DEA_BAND_STRONG},
    {.query = "Tokyo", .target = "Japan", .lookalike = "Kyoto", .band = DEA_BAND_STRONG},
    {.query = "5+3", .target = "8", .lookalike = "5+2", .band = DEA_BAND_STRONG},
};

/* One row through the model, with the maps of all layers. */
typedef struct probe {
    encoder model; /* dropout off */
    const model *loaded;
    const dea_threads *threads;
    samples list;
    batch_plan plan;
    batch_buffer buffer;
    encoder_work work;
    encoded_pair pair;
    dea_maps *maps; /* [layers], each [1,H,T,T] */
    dea_real *memory;
    int length, target_end; /* tokens of the row; where the target's pieces end and the look-alike's begin */
} probe;

static void free_probe(probe *p) {
    samples_free(&p->list);
    batch_plan_free(&p->plan);
    batch_buffer_free(&p->buffer);
    encoder_work_free(&p->work);
    encoded_pair_free(&p->pair);
    free(p->maps);
    free(p->memory);
}

static int make_maps(probe *p, text_error *error) {
    const size_t layers = (size_t)p->model.config.layers;
    const size_t cells = (size_t)p->model.config.heads * (size_t)p->length * (size_t)p->length;
    free(p->memory);
    free(p->maps);
    p->maps = calloc(layers, sizeof *p->maps);
    p->memory = malloc(4 * layers * cells * sizeof *p->memory);
    if (!p->maps || !p->memory) return text_fail_memory(error, 4 * layers * cells * sizeof *p->memory);
    for (size_t l = 0; l < layers; l++) {
        dea_real *of_layer = p->memory + 4 * l * cells;
        p->maps[l].et0 = of_layer;
        p->maps[l].et1 = of_layer + cells;
        p->maps[l].alpha_hat = of_layer + 2 * cells;
        p->maps[l].s = of_layer + 3 * cells;
    }
    return 0;
}

/* Encodes "query / target look-alike" and runs it. */
static int run_pair(probe *p, const demo_pair *pair, text_error *error) {
    char hypothesis[64];
    snprintf(hypothesis, sizeof hypothesis, "%s %s", pair->target, pair->lookalike);
    token_list target = {0};
    if (tokenize(p->loaded->vocabulary, NULL, pair->target, strlen(pair->target), &target, error) != 0) return -1;
    const size_t pieces = target.count;
    token_list_free(&target);
    samples_clear(&p->list);
    if (encode_pair(p->loaded->vocabulary, NULL, pair->query, hypothesis, 0, &p->pair, error) != 0) return -1;
    if (p->pair.length > (size_t)p->model.config.max_length)
        return text_fail(error, "the demo's rows are longer than the model's %d tokens", p->model.config.max_length);
    p->length = (int)p->pair.length;
    p->target_end = (int)(p->pair.hypothesis_begin + pieces);
    if (samples_add(&p->list, &p->pair, -1, 0, error) != 0 ||
        batch_plan_make(&p->plan, &p->list, p->length, error) != 0 ||
        batch_fill(&p->buffer, &p->list, &p->plan, 0, 0, error) != 0 || make_maps(p, error) != 0)
        return -1;
    const encoder_run run = {.maps = p->maps, .threads = *p->threads};
    const dea_status status = encoder_forward(&p->model, p->loaded->params, &p->buffer.batch, &run, &p->work);
    return status == DEA_OK ? 0 : text_fail(error, "the demo: %s", dea_status_string(status));
}

/* Place of cell (first piece of the query, key) in a head's map. */
static size_t cell(const probe *p, int head, int key) {
    return ((size_t)head * (size_t)p->length + p->pair.premise_begin) * (size_t)p->length + (size_t)key;
}

static void read_pair(const probe *p, demo_pair *pair) {
    const encoder_config *c = &p->model.config;
    const int target = (int)p->pair.hypothesis_begin, lookalike = p->target_end;
    const dea_label_block block = {0, (int)p->pair.premise_begin, (int)p->pair.premise_end, target, lookalike, 0};
    pair->alpha_hat = 0;
    pair->won = 0;
    pair->heads = c->layers * c->heads;
    for (int l = 0; l < c->layers; l++) {
        pair->alpha_hat += encoder_block_mean(p->maps[l].alpha_hat, c->heads, p->length, &block) / c->layers;
        for (int h = 0; h < c->heads; h++)
            pair->won += p->maps[l].s[cell(p, h, target)] > p->maps[l].s[cell(p, h, lookalike)];
    }
}

static void find_finish(const probe *p, demo_finish *finish) {
    const encoder_config *c = &p->model.config;
    const int target = (int)p->pair.hypothesis_begin, lookalike = p->target_end;
    for (int l = 0; l < c->layers; l++)
        for (int h = 0; h < c->heads; h++) {
            const dea_maps *m = &p->maps[l];
            const size_t t = cell(p, h, target), x = cell(p, h, lookalike);
            demo_finish now = {.found = 1, .layer = l, .head = h, .alpha_hat = (double)m->alpha_hat[t]};
            now.target[0] = (double)m->et0[t], now.target[1] = (double)m->et1[t];
            now.lookalike[0] = (double)m->et0[x], now.lookalike[1] = (double)m->et1[x];
            if (!dea_beta(now.target[0], now.target[1], now.lookalike[0], now.lookalike[1], &now.beta)) continue;
            if (!finish->found || fabs(now.beta - 0.5) < fabs(finish->beta - 0.5)) *finish = now;
        }
}

int demo_run(demo *d, const model *m, const dea_threads *threads, text_error *error) {
    probe p = {.model = *m->encoder, .loaded = m, .threads = threads};
    p.model.config.dropout = 0;
    memset(d, 0, sizeof *d);
    memcpy(d->pair, questions, sizeof questions);
    int status = 0;
    for (int i = 0; status == 0 && i < DEMO_PAIRS; i++) {
        status = run_pair(&p, &d->pair[i], error);
        if (status != 0) break;
        d->unknown += p.pair.unknown;
        read_pair(&p, &d->pair[i]);
        if (i == PARIS) find_finish(&p, &d->finish);
    }
    free_probe(&p);
    return status;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

enum { COLUMNS = 56, STEPS = 20 };

static double score_at(const double ends[2], double alpha) {
    return (1 - alpha) * ends[0] + alpha * ends[1];
}

static int column_of(double score, double low, double high) {
    return high > low ? (int)((score - low) / (high - low) * (COLUMNS - 1) + 0.5) : 0;
}

/* alpha runs downwards in steps of 0.05, scores from left to right: where T and L change places is beta. */
static void draw_finish(FILE *to, const demo_finish *f) {
    const double ends[4] = {f->target[0], f->target[1], f->lookalike[0], f->lookalike[1]};
    double low = ends[0], high = ends[0];
    for (int i = 1; i < 4; i++) {
        low = fmin(low, ends[i]);
        high = fmax(high, ends[i]);
    }
    fprintf(to, "\n  Photo-finish of Paris in layer %d, head %d: France (T) against Parish (L), score S* over alpha\n",
            f->layer, f->head);
    fprintf(to, "   alpha  %-*.2f%*.2f\n", COLUMNS / 2, low, COLUMNS - COLUMNS / 2, high);
    for (int step = 0; step <= STEPS; step++) {
        const double alpha = (double)step / STEPS;
        char line[COLUMNS + 1];
        memset(line, ' ', COLUMNS);
        line[COLUMNS] = '\0';
        line[column_of(score_at(f->lookalike, alpha), low, high)] = 'L';
        line[column_of(score_at(f->target, alpha), low, high)] = 'T';
        fprintf(to, "   %5.2f |%s|", alpha, line);
        if (fabs(alpha - f->beta) <= 0.5 / STEPS) fprintf(to, " beta %.3f", f->beta);
        if (fabs(alpha - f->alpha_hat) <= 0.5 / STEPS) fprintf(to, " alpha-hat %.3f", f->alpha_hat);
        fprintf(to, "\n");
    }
    const int above = f->target[1] > f->lookalike[1];
    fprintf(to, "  France leads where alpha is %s beta; alpha-hat lies %s: %s leads.\n", above ? "above" : "below",
            f->alpha_hat > f->beta ? "above" : "below", (f->alpha_hat > f->beta) == above ? "France" : "Parish");
}

void demo_print(FILE *to, const demo *d) {
    fprintf(to, "\nThe Paris demo on this model: query as premise, target and look-alike as hypothesis\n");
    fprintf(to, "  %-8s %-11s %-10s %-15s %10s  %-15s %s\n", "query", "target", "look-alike", "expected band",
            "alpha-hat", "its band", "target above look-alike");
    int agreed = 0;
    for (int i = 0; i < DEMO_PAIRS; i++) {
        const demo_pair *p = &d->pair[i];
        const dea_band band = dea_band_of(p->alpha_hat);
        agreed += band == p->band;
        fprintf(to, "  %-8s %-11s %-10s %-15s %10.3f  %-15s in %d of %d heads\n", p->query, p->target, p->lookalike,
                dea_band_name(p->band), p->alpha_hat, dea_band_name(band), p->won, p->heads);
    }
    fprintf(to,
            "  bands as expected: %d of %d. These words are no test: a model sees them in this form only if its data "
            "had them.\n",
            agreed, DEMO_PAIRS);
    if (d->finish.found)
        draw_finish(to, &d->finish);
    else
        fprintf(to, "\n  No photo-finish of Paris: in every head one of the two leads at every alpha.\n");
}

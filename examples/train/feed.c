#include "train/feed.h"

#include <stdlib.h>
#include <string.h>

#include "data/rng.h"
#include "text/string_map.h"

enum { STREAM_DRAW = 1, STREAM_ORDER, STREAM_MASK, STREAM_HIDE }; /* what the feed's random numbers are for */

/* ---- opening */

static int open_fresh(feed_source *s, uint64_t seed, text_error *error) {
    s->stages = data_stream_stages(s->plan.name);
    if (s->stages == 0 || s->stages > FEED_STAGES)
        return text_fail(error,
                         "'%s' is not a source of fresh stories; there are babi16, babi17, babi18, babi18b and kinship",
                         s->plan.name);
    s->stream = calloc((size_t)s->stages, sizeof *s->stream);
    if (!s->stream) return text_fail_memory(error, (size_t)s->stages * sizeof *s->stream);
    for (int i = 0; i < s->stages; i++) (void)data_stream_open(&s->stream[i], s->plan.name, "train", i + 1, seed);
    return 0;
}

static int room_for_units(feed_source *s, size_t count, text_error *error) {
    s->unit = calloc(count + 1, sizeof *s->unit);
    s->unit_begin = calloc(count + 2, sizeof *s->unit_begin);
    s->order = calloc(count + 1, sizeof *s->order);
    if (!s->unit || !s->unit_begin || !s->order) return text_fail_memory(error, count * sizeof *s->unit);
    s->order_epoch = UINT64_MAX;
    s->stages = 1;
    return 0;
}

int feed_is_train(const row *r) {
    return !r->split[0] || !strcmp(r->split, "train");
}

/* A unit is the rows of one premise, so that a true hypothesis and its false twin come in one batch. */
static int open_stored(feed_source *s, const rows *stored, text_error *error) {
    string_map premises = {0};
    const size_t rows_count = stored ? stored->count : 0;
    size_t *premise_of = calloc(rows_count + 1, sizeof *premise_of);
    int result =
        premise_of ? room_for_units(s, rows_count, error) : text_fail_memory(error, rows_count * sizeof *premise_of);
    for (size_t i = 0; !result && i < rows_count; i++) {
        const row *r = &stored->row[i];
        premise_of[i] = STRING_MAP_NONE;
        if (strcmp(r->source, s->plan.name) || !feed_is_train(r)) continue;
        premise_of[i] = string_map_add(&premises, r->premise, strlen(r->premise));
        if (premise_of[i] == STRING_MAP_NONE)
            result = text_fail_memory(error, strlen(r->premise));
        else
            s->unit_begin[premise_of[i] + 1]++;
    }
    s->units = premises.count;
    for (size_t u = 0; !result && u < s->units; u++) s->unit_begin[u + 1] += s->unit_begin[u];
    for (size_t i = 0; !result && i < rows_count;
         i++) /* unit_begin[u] runs to the end of unit u, which is its neighbour's begin */
        if (premise_of[i] != STRING_MAP_NONE) s->unit[s->unit_begin[premise_of[i]]++] = i;
    for (size_t u = s->units; !result && u-- > 0;) s->unit_begin[u + 1] = s->unit_begin[u];
    if (!result) s->unit_begin[0] = 0;
    free(premise_of);
    string_map_free(&premises);
    if (!result && s->units == 0)
        return text_fail(error, "the data has no row of split train and source '%s'", s->plan.name);
    return result;
}

static int open_text(feed_source *s, const rows *text, text_error *error) {
    if (!text || text->count == 0)
        return text_fail(error, "there is no text for the masked language model; give --mlm FILE");
    if (room_for_units(s, text->count, error)) return -1;
    s->units = text->count;
    for (size_t i = 0; i < s->units; i++) s->unit[i] = s->unit_begin[i] = i;
    s->unit_begin[s->units] = s->units;
    return 0;
}

static int open_source(feed_source *s, const feed *f, text_error *error) {
    s->state.stage = s->plan.kind == FEED_FRESH && s->plan.first > 1 ? s->plan.first : 1;
    s->state.accuracy = 0.5;
    switch (s->plan.kind) {
    case FEED_FRESH:
        return open_fresh(s, f->seed, error);
    case FEED_STORED:
        return open_stored(s, f->stored, error);
    case FEED_TEXT:
        break;
    }
    return open_text(s, f->text, error);
}

static const feed_source *find(const feed *f, const char *name) {
    for (int i = 0; i < f->count; i++)
        if (!strcmp(f->source[i].plan.name, name)) return &f->source[i];
    return NULL;
}

static int has_plan(const feed_plan *plan, int plans, const char *name) {
    for (int i = 0; i < plans; i++)
        if (!strcmp(plan[i].name, name)) return 1;
    return 0;
}

int feed_check(const feed_plan *plan, int plans, text_error *error) {
    for (int i = 0; i < plans; i++) {
        const feed_plan *p = &plan[i];
        const int stages = data_stream_stages(p->name);
        if (has_plan(plan, i, p->name)) return text_fail(error, "the source '%s' is named twice", p->name);
        if (p->kind == FEED_FRESH && p->first > stages)
            return text_fail(error, "'%s' has %d stages, it cannot start with %d", p->name, stages, p->first);
        if (p->kind != FEED_FRESH && p->first > 1)
            return text_fail(error, "'%s' is not drawn fresh and has no stages: it cannot start with %d", p->name,
                             p->first);
        if (!strcmp(p->after, p->name)) return text_fail(error, "the source '%s' waits for itself", p->name);
        if (p->after[0] && !has_plan(plan, plans, p->after))
            return text_fail(error, "'%s' waits for '%s', which is not trained", p->name, p->after);
    }
    return 0;
}

int feed_open(feed *f, const feed_plan *plan, int plans, const rows *stored, const rows *text, uint64_t seed,
              text_error *error) {
    memset(f, 0, sizeof *f);
    f->seed = seed;
    f->stored = stored;
    f->text = text;
    f->rest = 0.35;
    f->earlier = 0.12;
    if (plans < 1) return text_fail(error, "there is nothing to train on");
    if (plans > FEED_SOURCES)
        return text_fail(error, "there are %d sources; at most %d can be mixed", plans, FEED_SOURCES);
    int result = feed_check(plan, plans, error);
    f->cache = token_cache_new();
    if (!f->cache) result = text_fail_memory(error, 1 << 23);
    for (int i = 0; !result && i < plans; i++) {
        f->source[f->count].plan = plan[i];
        result = open_source(&f->source[f->count++], f, error);
    }
    if (result) feed_close(f);
    return result;
}

void feed_close(feed *f) {
    for (int i = 0; i < f->count; i++) {
        free(f->source[i].stream);
        free(f->source[i].unit);
        free(f->source[i].unit_begin);
        free(f->source[i].order);
    }
    encoded_pair_free(&f->pair);
    token_cache_free(f->cache);
    memset(f, 0, sizeof *f);
}

/* ---- drawing */

typedef struct drawing {
    feed *f;
    const tokenizer *t;
    size_t max_length;
    labeller *labels;
    samples *out;
    int64_t step;
    text_error *error;
} drawing;

static double weight_now(const feed *f, const feed_source *s) {
    if (s->plan.after[0] && !find(f, s->plan.after)->state.done) return 0;
    return s->plan.weight * (s->state.done ? f->rest : 1);
}

static double uniform(rng *r) {
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

static int draw_source(const feed *f, rng *r) {
    double total = 0, at;
    int last = 0;
    for (int i = 0; i < f->count; i++) total += weight_now(f, &f->source[i]);
    at = uniform(r) * total;
    for (int i = 0; i < f->count; i++) {
        const double weight = weight_now(f, &f->source[i]);
        if (weight <= 0) continue;
        last = i;
        if (at < weight) break;
        at -= weight;
    }
    return last;
}

static int draw_stage(const feed *f, const feed_source *s, rng *r) {
    const double at = uniform(r);
    const int first = s->plan.first > 1 ? s->plan.first : 1, earlier = s->state.stage - first;
    double share = f->earlier;
    if (share * earlier > 0.5) share = 0.5 / earlier;
    if (at < share * earlier) return first + (int)(at / share);
    return s->state.stage < s->stages && at > 1 - f->ahead ? s->state.stage + 1 : s->state.stage;
}

int feed_encode(feed *f, const tokenizer *t, const row *r, size_t max_length, text_error *error) {
    char shown[256];
    if (encode_pair(t, f->cache, r->premise, r->hypothesis, max_length, &f->pair, error)) return -1;
    if (f->pair.cut == 0) return 0;
    return text_fail(error,
                     "a row of %zu tokens is longer than the model's %zu; --set max-length=%zu or shorten it: '%s'",
                     f->pair.length + f->pair.cut, max_length, f->pair.length + f->pair.cut,
                     text_excerpt(r->premise, strlen(r->premise), shown));
}

static int add_row(const drawing *d, const row *r, int tag) {
    if (feed_encode(d->f, d->t, r, d->max_length, d->error)) return -1;
    if (d->labels && labeller_add(d->labels, r, &d->f->pair, 0, &d->out->blocks, d->error)) return -1;
    return samples_add(d->out, &d->f->pair, r->label, tag, d->error);
}

static int add_fresh(const drawing *d, int source, rng *r, uint64_t index) {
    const feed_source *s = &d->f->source[source];
    const int stage = draw_stage(d->f, s, r);
    data_story *story = &d->f->story;
    data_stream_story(&s->stream[stage - 1], (uint64_t)d->step, index, story);
    const int pairs = story->n / 2, taken = d->f->story_pairs && d->f->story_pairs < pairs ? d->f->story_pairs : pairs;
    const int begin = taken < pairs ? (int)rng_below(r, (uint32_t)(pairs - taken + 1)) : 0;
    for (int i = 2 * begin; i < 2 * (begin + taken); i++)
        if (add_row(d, &story->rows[i], source * FEED_STAGES + stage - 1)) return -1;
    return 0;
}

/* The next unit of the source; every epoch has an order of its own. */
static size_t next_unit(const feed *f, feed_source *s, int source) {
    const uint64_t epoch = s->state.drawn / s->units;
    if (epoch != s->order_epoch) {
        rng r = {rng_derive(rng_derive(rng_derive(f->seed, STREAM_ORDER), (uint64_t)source), epoch), 0};
        for (size_t i = 0; i < s->units; i++) s->order[i] = i;
        for (size_t i = s->units; i > 1; i--) {
            const size_t j = rng_below(&r, (uint32_t)i), swap = s->order[i - 1];
            s->order[i - 1] = s->order[j];
            s->order[j] = swap;
        }
        s->order_epoch = epoch;
    }
    return s->order[s->state.drawn++ % s->units];
}

static int add_stored(const drawing *d, int source) {
    feed_source *s = &d->f->source[source];
    const uint64_t index = s->state.drawn;
    const size_t unit = next_unit(d->f, s, source);
    for (size_t i = s->unit_begin[unit]; i < s->unit_begin[unit + 1]; i++) {
        if (add_row(d, &d->f->stored->row[s->unit[i]], source * FEED_STAGES)) return -1;
        if (d->f->hidden > 0) samples_hide_last(d->out, d->t, d->f->hidden, rng_derive(d->f->seed, STREAM_HIDE), index);
    }
    return 0;
}

/* Of a paragraph no more is looked at than may fill a row: a file without line ends must not be read through for every draw. */
static size_t bounded_length(const char *text, size_t max_length) {
    enum { BYTES_A_TOKEN = 256 };
    size_t length = strnlen(text, BYTES_A_TOKEN * max_length);
    while (length && ((unsigned char)text[length] & 0xC0) == 0x80) length--; /* between characters */
    return length;
}

static int add_text(const drawing *d, int source) {
    feed_source *s = &d->f->source[source];
    const uint64_t index = s->state.drawn;
    const char *text = d->f->text->row[next_unit(d->f, s, source)].premise;
    if (encode_text(d->t, d->f->cache, text, bounded_length(text, d->max_length), d->max_length, &d->f->pair, d->error))
        return -1;
    if (d->f->pair.length < 3) return 0; /* nothing but marks that the tokenizer drops */
    if (samples_add(d->out, &d->f->pair, -1, source * FEED_STAGES, d->error)) return -1;
    samples_mask_last(d->out, d->t, rng_derive(d->f->seed, STREAM_MASK), index);
    return 0;
}

int feed_draw(feed *f, int64_t step, int max_tokens, int max_rows, const tokenizer *t, size_t max_length,
              labeller *labels, samples *out, text_error *error) {
    const drawing d = {f, t, max_length, labels, out, step, error};
    rng r = {rng_derive(rng_derive(f->seed, STREAM_DRAW), (uint64_t)step), 0};
    samples_clear(out);
    for (uint64_t index = 0; index < 1000000; index++) {
        if ((max_tokens && out->tokens >= (size_t)max_tokens) || (max_rows && out->count >= (size_t)max_rows)) return 0;
        const int source = draw_source(f, &r);
        int result = 0;
        switch (f->source[source].plan.kind) {
        case FEED_FRESH:
            result = add_fresh(&d, source, &r, index);
            break;
        case FEED_STORED:
            result = add_stored(&d, source);
            break;
        case FEED_TEXT:
            result = add_text(&d, source);
            break;
        }
        if (result) return -1;
    }
    return text_fail(error, "the sources give no tokens");
}

/* ---- stages */

enum { AVERAGE_STEPS = 30 };

static int report_source(feed_source *s, int rows_count, int correct) {
    feed_state *state = &s->state;
    if (rows_count == 0) return 0;
    const double share = (double)correct / rows_count;
    /* A plain mean at first, so that a stage does not inherit 50%. */
    const double keep = state->stage_steps < AVERAGE_STEPS
                            ? (double)state->stage_steps / (double)(state->stage_steps + 1)
                            : 1 - 1.0 / AVERAGE_STEPS;
    state->accuracy = keep * state->accuracy + (1 - keep) * share;
    state->stage_steps++;
    /* The last stage is left when its errors are half of what the mark allows. */
    const double own = s->plan.mark[state->stage - 1], mark = state->stage < s->stages ? own : (1 + own) / 2;
    if (s->plan.kind != FEED_FRESH || state->done || state->stage_steps < AVERAGE_STEPS || state->accuracy < mark)
        return 0;
    if (state->stage < s->stages) {
        state->stage++;
        state->stage_steps = 0;
    } else {
        state->done = 1;
    }
    return 1;
}

int feed_report(feed *f, const int *rows_count, const int *correct) {
    int moved = 0;
    for (int i = 0; i < f->count; i++) {
        const int tag = i * FEED_STAGES + f->source[i].state.stage - 1;
        moved |= report_source(&f->source[i], rows_count[tag], correct[tag]);
    }
    return moved;
}

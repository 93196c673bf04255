#include "train/trainer.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "data/rng.h"
#include "text/grow.h"
#include "text/wordpiece.h"
#include "train/hardware.h"
#include "train/pool.h"

enum { TASK_OF_DROPOUT = 0x44, STEP_PLACES = 1 << 12 }; /* batches a step may have dropout masks for */

/* Where a batch is worked on. A lane takes the first that is free, so that the batches of one thread follow each other in memory
 * that is still in its cache: with a room for each lane a thread takes 15 to 20% longer. */
struct trainer_room {
    encoder_work work;
    batch_buffer buffer;
    dea_real *map; /* alpha-hat of every layer, in an evaluation */
    size_t map_capacity;
    atomic_flag taken;
};

struct trainer_lane {
    trainer *t;
    const samples *list;
    const batch_plan *plan;
    dea_real *grads;
    trainer_room *room; /* while it works */
    size_t *slice;      /* the lane's, in order */
    size_t slices, slice_capacity, cost;
    const struct totals *totals;
    /* What the lane's batches came to. */
    double class_loss, lm_loss, gate_loss;
    int rows[FEED_SOURCES * FEED_STAGES], correct[FEED_SOURCES * FEED_STAGES];
    int64_t cells;
    double alpha_error;
    int64_t histogram[TRAINER_BINS][TRAINER_BINS];
    dea_table part; /* a share of every tensor, which this lane sums and updates */
    dea_tensor *part_tensors;
    double squares[DEA_GROUPS]; /* of the share's gradients */
    const dea_adamw *adamw;
    double lr_factor, clip[DEA_GROUPS];
    dea_status status;
    text_error error;
};

/* What the means of a step's losses divide by. */
typedef struct totals {
    int class_rows, labelled, asked;
    double gamma;
} totals;

/* ---- opening --------------------------------------------------------------------------------------------------------- */

static dea_real *arena_new(size_t elements, text_error *error) {
    const size_t bytes = (elements * sizeof(dea_real) + DEA_ALIGNMENT - 1) / DEA_ALIGNMENT * DEA_ALIGNMENT;
    dea_real *numbers = aligned_alloc(DEA_ALIGNMENT, bytes);
    if (numbers)
        memset(numbers, 0, bytes);
    else
        (void)text_fail_memory(error, bytes);
    return numbers;
}

static int add_text(wordpiece *w, const char *text, text_error *error) {
    return wordpiece_add(w, text, strlen(text), error);
}

/* Enough stories to see every word of the source. */
static int add_fresh_words(wordpiece *w, const char *source, text_error *error) {
    enum { STORIES = 400 };
    data_stream *stream = malloc(sizeof *stream);
    data_story *story = malloc(sizeof *story);
    int result = stream && story ? 0 : text_fail_memory(error, sizeof *stream);
    for (int stage = 1; !result && stage <= data_stream_stages(source); stage++) {
        (void)data_stream_open(stream, source, "train", stage, 1);
        for (uint64_t i = 0; !result && i < STORIES; i++) {
            data_stream_story(stream, 0, i, story);
            result = add_text(w, story->rows[0].premise, error);
            for (int r = 0; !result && r < story->n; r++) result = add_text(w, story->rows[r].hypothesis, error);
        }
    }
    free(stream);
    free(story);
    return result;
}

/* A language model is there to be fine-tuned, on any source. */
static int wants_words(const trainer_config *config, const char *source) {
    for (int i = 0; i < config->plans; i++)
        if (config->plan[i].kind == FEED_TEXT || !strcmp(config->plan[i].name, source)) return 1;
    return 0;
}

tokenizer *trainer_vocabulary(const trainer_config *config, const rows *stored, const rows *text, text_error *error) {
    const wordpiece_options options = {
        .lower = true, .min_count = (size_t)config->vocab_min_count, .max_pieces = (size_t)config->vocab_pieces};
    wordpiece *w = wordpiece_new(&options);
    int result = w ? 0 : text_fail_memory(error, 0);
    for (const char *const *source = data_stream_sources(); !result && *source; source++)
        if (wants_words(config, *source)) result = add_fresh_words(w, *source, error);
    for (size_t i = 0; !result && stored && i < stored->count; i++) {
        const row *r = &stored->row[i];
        if (!feed_is_train(r)) continue;
        result = add_text(w, r->premise, error);
        if (!result) result = add_text(w, r->hypothesis, error);
    }
    for (size_t i = 0; !result && text && i < text->count; i++) result = add_text(w, text->row[i].premise, error);
    tokenizer *vocabulary = result ? NULL : wordpiece_finish(w, error);
    wordpiece_free(w);
    return vocabulary;
}

static uint64_t hash_rows(uint64_t hash, const rows *list) {
    for (size_t i = 0; list && i < list->count; i++) {
        const row *r = &list->row[i];
        hash = hash_string(hash_string(hash_string(hash, r->split), r->premise), r->hypothesis) + (uint64_t)r->label;
    }
    return hash;
}

static int add_dev_row(trainer *t, const row *r, text_error *error) {
    const size_t max_length = (size_t)t->config.model.max_length;
    if (feed_encode(&t->feed, t->vocabulary, r, max_length, error)) return -1;
    if (t->has_labels && labeller_add(&t->labels, r, &t->feed.pair, 0, &t->dev.blocks, error)) return -1;
    return samples_add(&t->dev, &t->feed.pair, r->label, 0, error);
}

/* Dev rows of a source: those of the data, else fresh stories of the last stage. The tag is the source's place. */
static int add_dev_source(trainer *t, int index, text_error *error) {
    const feed_source *s = &t->feed.source[index];
    const size_t before = t->dev.count;
    if (s->plan.kind == FEED_TEXT) return 0;
    for (size_t i = 0; t->feed.stored && i < t->feed.stored->count; i++) {
        const row *r = &t->feed.stored->row[i];
        if (strcmp(r->source, s->plan.name) || strcmp(r->split, "dev")) continue;
        if (add_dev_row(t, r, error)) return -1;
    }
    if (s->plan.kind == FEED_FRESH && t->dev.count == before) {
        data_stream *stream = malloc(sizeof *stream);
        if (!stream) return text_fail_memory(error, sizeof *stream);
        (void)data_stream_open(stream, s->plan.name, "dev", s->stages, 7);
        int result = 0;
        for (int i = 0; !result && i < t->config.dev_stories; i++) {
            data_stream_story(stream, 0, (uint64_t)i, &t->feed.story);
            for (int r = 0; !result && r < t->feed.story.n; r++) result = add_dev_row(t, &t->feed.story.rows[r], error);
        }
        free(stream);
        if (result) return -1;
    }
    for (size_t i = before; i < t->dev.count; i++) t->dev.at[i].tag = index;
    return 0;
}

enum { DEV_BATCH_TOKENS = 1024 };

/* A stored row that does not fit is found before training starts, not in the middle of it. */
static int check_stored(trainer *t, text_error *error) {
    for (int i = 0; i < t->feed.count; i++) {
        const feed_source *s = &t->feed.source[i];
        for (size_t k = 0; s->plan.kind == FEED_STORED && k < s->unit_begin[s->units]; k++)
            if (feed_encode(&t->feed, t->vocabulary, &t->feed.stored->row[s->unit[k]],
                            (size_t)t->config.model.max_length, error))
                return -1;
    }
    return 0;
}

static int make_dev(trainer *t, text_error *error) {
    for (int i = 0; i < t->feed.count; i++)
        if (add_dev_source(t, i, error)) return -1;
    return batch_plan_make(&t->dev_plan, &t->dev, DEV_BATCH_TOKENS, error);
}

/* Part `index` of every tensor. */
static int make_part(trainer_lane *lane, int index, text_error *error) {
    const dea_table *all = &lane->t->e->table;
    lane->part_tensors = malloc((size_t)all->count * sizeof *lane->part_tensors);
    if (!lane->part_tensors) return text_fail_memory(error, (size_t)all->count * sizeof *lane->part_tensors);
    lane->part = *all;
    lane->part.tensors = lane->part_tensors;
    for (int i = 0; i < all->count; i++) {
        const size_t count = all->tensors[i].count, begin = count * (size_t)index / TRAINER_LANES;
        lane->part_tensors[i] = all->tensors[i];
        lane->part_tensors[i].offset += begin;
        lane->part_tensors[i].count = count * (size_t)(index + 1) / TRAINER_LANES - begin;
    }
    return 0;
}

static int make_lanes(trainer *t, text_error *error) {
    t->lane = calloc(TRAINER_LANES, sizeof *t->lane);
    t->room = calloc(TRAINER_LANES, sizeof *t->room);
    if (!t->lane || !t->room) return text_fail_memory(error, TRAINER_LANES * sizeof *t->lane);
    for (int i = 0; i < TRAINER_LANES; i++) {
        atomic_flag_clear(&t->room[i].taken);
        t->lane[i].t = t;
        t->lane[i].grads = arena_new(t->e->table.elements, error);
        if (!t->lane[i].grads || make_part(&t->lane[i], i, error)) return -1;
    }
    return 0;
}

static int open_model(trainer *t, text_error *error) {
    char message[160];
    t->config.model.vocab = (int)tokenizer_size(t->vocabulary);
    t->e = encoder_new(&t->config.model, message);
    if (!t->e) return text_fail(error, "%s", message);
    for (int i = 0; i < t->e->table.count; i++)
        if (t->e->tensors[i].offset == t->e->token) t->e->tensors[i].lr_scale = (dea_real)t->config.embedding_rate;
    t->params = arena_new(t->e->table.elements, error);
    t->m = arena_new(t->e->table.elements, error);
    t->v = arena_new(t->e->table.elements, error);
    if (!t->params || !t->m || !t->v) return -1;
    const dea_status status = encoder_reset(t->e, t->params, t->config.seed);
    return status == DEA_OK ? 0 : text_fail(error, "%s", dea_status_string(status));
}

void trainer_close(trainer *t) {
    for (int i = 0; t->lane && i < TRAINER_LANES; i++) {
        trainer_lane *lane = &t->lane[i];
        free(lane->grads);
        free(lane->part_tensors);
        free(lane->slice);
    }
    for (int i = 0; t->room && i < TRAINER_LANES; i++) {
        encoder_work_free(&t->room[i].work);
        batch_buffer_free(&t->room[i].buffer);
        free(t->room[i].map);
    }
    free(t->lane);
    free(t->room);
    free(t->work);
    free(t->reached);
    free(t->is_reached);
    free(t->params);
    free(t->m);
    free(t->v);
    samples_free(&t->drawn);
    samples_free(&t->dev);
    batch_plan_free(&t->plan);
    batch_plan_free(&t->dev_plan);
    feed_close(&t->feed);
    labeller_close(&t->labels);
    encoder_free(t->e);
    tokenizer_free(t->vocabulary);
    memset(t, 0, sizeof *t);
}

/* ---- lanes ----------------------------------------------------------------------------------------------------------- */

static int lane_push(trainer_lane *lane, size_t slice, text_error *error) {
    size_t *grown = grow(lane->slice, &lane->slice_capacity, lane->slices + 1, sizeof *grown);
    if (!grown) return text_fail_memory(error, sizeof *grown);
    lane->slice = grown;
    lane->slice[lane->slices++] = slice;
    return 0;
}

/* Work of a batch, in no unit: what grows with the tokens, with the keys of each, and what every batch costs whatever its size (16
 * batches in place of 8 take 13% longer, which is 20 tokens a batch). */
static size_t slice_cost(const batch_slice *s) {
    const size_t length = (size_t)s->length;
    return (20 + (size_t)s->count * length) * (256 + length);
}

static int most_work_first(const void *a, const void *b) {
    const lane_work *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The lane with the most work is begun first, so that fewer threads than lanes come to an end together. */
static void order_lanes(trainer *t) {
    lane_work work[TRAINER_LANES];
    for (int i = 0; i < TRAINER_LANES; i++) work[i] = (lane_work){t->lane[i].cost, (size_t)i};
    qsort(work, TRAINER_LANES, sizeof *work, most_work_first);
    for (int i = 0; i < TRAINER_LANES; i++) t->lane_order[i] = (int)work[i].index;
}

static trainer_lane *lane_in_turn(void *lanes, int turn) {
    trainer_lane *lane = lanes;
    return &lane[lane->t->lane_order[turn]];
}

static trainer_lane *least_work(trainer *t) {
    trainer_lane *least = &t->lane[0];
    for (int i = 1; i < TRAINER_LANES; i++)
        if (t->lane[i].cost < least->cost) least = &t->lane[i];
    return least;
}

/* The batch with the most work first, to the lane with the least: a function of the plan alone. */
static int assign(trainer *t, const samples *list, const batch_plan *plan, text_error *error) {
    lane_work *work = grow(t->work, &t->work_capacity, plan->slices + 1, sizeof *work);
    if (!work) return text_fail_memory(error, plan->slices * sizeof *work);
    t->work = work;
    for (int i = 0; i < TRAINER_LANES; i++) {
        trainer_lane *lane = &t->lane[i];
        lane->list = list;
        lane->plan = plan;
        lane->slices = lane->cost = 0;
        lane->class_loss = lane->lm_loss = lane->gate_loss = lane->alpha_error = 0;
        lane->cells = 0;
        lane->status = DEA_OK;
        memset(lane->rows, 0, sizeof lane->rows);
        memset(lane->correct, 0, sizeof lane->correct);
        memset(lane->histogram, 0, sizeof lane->histogram);
    }
    for (size_t s = 0; s < plan->slices; s++) work[s] = (lane_work){slice_cost(&plan->slice[s]), s};
    qsort(work, plan->slices, sizeof *work, most_work_first);
    for (size_t i = 0; i < plan->slices; i++) {
        trainer_lane *least = least_work(t);
        least->cost += work[i].cost;
        if (lane_push(least, work[i].index, error)) return -1;
    }
    order_lanes(t);
    return 0;
}

/* Tokens of a batch when a step of so many is cut evenly, at most micro_tokens. */
static size_t even_share(const trainer *t, size_t tokens) {
    const size_t wanted = tokens / ((size_t)t->config.micro_tokens * TRAINER_LANES) + 1;
    return tokens / (TRAINER_LANES * (wanted > 2 ? wanted : 2)) + 1;
}

/* When the last of so many threads comes to its end. */
static size_t lanes_span(const trainer *t, int threads) {
    size_t busy[TRAINER_LANES] = {0}, last = 0;
    for (int i = 0; i < TRAINER_LANES; i++) {
        int first = 0;
        for (int k = 1; k < threads; k++)
            if (busy[k] < busy[first]) first = k;
        busy[first] += t->lane[t->lane_order[i]].cost;
    }
    for (int k = 0; k < threads; k++)
        if (busy[k] > last) last = busy[k];
    return last;
}

/* There are as many rooms as lanes, so one is always free. */
static void enter_room(trainer_lane *lane) {
    trainer_room *room = lane->t->room;
    while (atomic_flag_test_and_set(&room->taken)) room++;
    lane->room = room;
}

static void leave_room(trainer_lane *lane) {
    atomic_flag_clear(&lane->room->taken);
    lane->room = NULL;
}

static int run_lanes(trainer *t, dea_task *task, text_error *error) {
    pool_run(&t->threads, TRAINER_LANES, task, t->lane);
    for (int i = 0; i < TRAINER_LANES; i++) {
        trainer_lane *lane = &t->lane[i];
        if (lane->status == DEA_OK) continue;
        if (lane->status == DEA_ERR_CAPACITY)
            return text_fail(error, "out of memory for the activations of a batch; try a smaller batch");
        return text_fail(error, "step %lld: %s", (long long)t->step + 1, dea_status_string(lane->status));
    }
    return 0;
}

/* Counts a batch's rows and right answers by tag. */
static void count_rows(trainer_lane *lane, size_t slice) {
    const batch_slice *cut = &lane->plan->slice[slice];
    const int classes = lane->t->e->config.classes;
    for (int r = 0; r < cut->count; r++) {
        const sample *s = &lane->list->at[lane->plan->order[cut->begin + (size_t)r]];
        if (s->label < 0 || !classes) continue;
        const dea_real *logits = lane->room->work.logits + (size_t)r * (size_t)classes;
        int best = 0;
        for (int c = 1; c < classes; c++)
            if (logits[c] > logits[best]) best = c;
        lane->rows[s->tag]++;
        lane->correct[s->tag] += best == s->label;
    }
}

/* ---- a step ---------------------------------------------------------------------------------------------------------- */

static int class_rows_of(const encoder_batch *batch) {
    int count = 0;
    for (int i = 0; i < batch->rows; i++) count += batch->label[i] >= 0;
    return count;
}

static int uses_labels(const trainer *t) {
    return t->has_labels && t->config.model.fixed_alpha < 0;
}

static encoder_run step_run(const trainer *t, double gamma, size_t slice) {
    return (encoder_run){.training = 1,
                         .gamma = (dea_real)gamma,
                         .seed = rng_derive(t->config.seed, TASK_OF_DROPOUT),
                         .step = (uint64_t)t->step * STEP_PLACES + slice};
}

static void train_slice(trainer_lane *lane, size_t slice) {
    const trainer *t = lane->t;
    const totals *all = lane->totals;
    if (batch_fill(&lane->room->buffer, lane->list, lane->plan, slice, uses_labels(t), &lane->error)) {
        lane->status = DEA_ERR_CAPACITY;
        return;
    }
    const encoder_batch *batch = &lane->room->buffer.batch;
    const encoder_run run = step_run(t, all->gamma, slice);
    lane->status = encoder_forward(t->e, t->params, batch, &run, &lane->room->work);
    if (lane->status != DEA_OK) return;
    count_rows(lane, slice);
    encoder_loss loss = encoder_loss_init();
    const double rows_share = all->class_rows ? (double)class_rows_of(batch) / all->class_rows : 0;
    const double asked_share = all->asked ? (double)lane->room->buffer.asked / all->asked : 0;
    const double labelled_share = all->labelled ? (double)lane->room->buffer.labelled / all->labelled : 0;
    loss.class_weight = rows_share;
    loss.lm_weight = asked_share;
    loss.gate_weight = t->config.gate_loss ? labelled_share : 0;
    loss.gate.hard_negatives = t->config.hard_negatives;
    lane->status = encoder_backward(t->e, t->params, batch, &run, &loss, lane->grads, &lane->room->work);
    lane->class_loss += rows_share * loss.class_loss;
    lane->lm_loss += asked_share * loss.lm_loss;
    if (loss.gate_weight > 0) lane->gate_loss += labelled_share * loss.gate_loss;
}

static void train_lane(void *context, int turn) {
    trainer_lane *lane = lane_in_turn(context, turn);
    enter_room(lane);
    for (size_t i = 0; i < lane->slices && lane->status == DEA_OK; i++) train_slice(lane, lane->slice[i]);
    leave_room(lane);
}

static int cut_step(trainer *t, size_t tokens, text_error *error) {
    if (batch_plan_make(&t->plan, &t->drawn, (int)tokens, error)) return -1;
    return assign(t, &t->drawn, &t->plan, error);
}

/* Cuts the drawn rows into batches and gives these to the lanes. Of several sizes, from an even share (of two batches a lane, or of as
 * many as micro_tokens asks for) up to half larger, that one is taken by which two, three and four threads wait least for the last. */
static int plan_step(trainer *t, text_error *error) {
    enum { SIZES = 9 };
    const size_t most = (size_t)t->config.micro_tokens, even = even_share(t, t->drawn.tokens);
    size_t best = 0, best_tokens = 0, tokens = 0;
    for (int i = 0; i < SIZES && tokens < most; i++) {
        tokens = even + even * (size_t)i / (2 * (SIZES - 1));
        if (tokens > most) tokens = most;
        if (cut_step(t, tokens, error)) return -1;
        size_t span = 0;
        for (int threads = 2; threads <= TRAINER_LANES; threads++) span += lanes_span(t, threads);
        if (best_tokens == 0 || span < best) {
            best = span;
            best_tokens = tokens;
        }
    }
    return tokens == best_tokens ? 0 : cut_step(t, best_tokens, error); /* the last one tried is in place */
}

static totals count_totals(const trainer *t) {
    totals all = {.gamma = trainer_gamma(t)};
    for (size_t i = 0; i < t->drawn.count; i++) {
        all.class_rows += t->drawn.at[i].label >= 0;
        all.labelled += t->drawn.at[i].block_count > 0;
    }
    for (size_t i = 0; i < t->drawn.tokens; i++) all.asked += t->drawn.masked[i] >= 0;
    return all;
}

double trainer_gamma(const trainer *t) {
    return t->config.gamma_steps > 0 ? dea_gamma(t->step, t->config.gamma_steps) : 0;
}

static double lr_factor(const trainer *t) {
    const trainer_config *c = &t->config;
    const int64_t hold = (int64_t)(c->hold * (double)c->steps);
    if (c->cosine && t->step >= hold) {
        const int64_t late = hold > c->warmup ? hold - c->warmup : 0;
        return dea_warmup_cosine(t->step - late, c->warmup, c->steps - late);
    }
    return t->step < c->warmup ? (double)(t->step + 1) / (double)c->warmup : 1;
}

static dea_adamw optimiser(const trainer_config *c) {
    dea_adamw o = dea_adamw_init();
    o.lr[DEA_GROUP_MAIN] = c->lr;
    o.lr[DEA_GROUP_GATE] = c->lr_gate;
    o.clip[DEA_GROUP_MAIN] = o.clip[DEA_GROUP_GATE] = c->clip;
    o.beta2 = c->beta2;
    o.weight_decay = c->weight_decay;
    return o;
}

/* ---- isolation of the two losses, on a run's first batch */

typedef struct isolation_case {
    double task, gate;
} isolation_case;

static dea_status isolation_gradients(trainer *t, const encoder_batch *batch, const encoder_run *run,
                                      isolation_case what, trainer_lane *lane) {
    encoder_loss loss = encoder_loss_init();
    loss.class_weight = loss.lm_weight = what.task;
    loss.gate_weight = what.gate;
    loss.gate.hard_negatives = t->config.hard_negatives;
    const dea_status status = encoder_forward(t->e, t->params, batch, run, &t->room[0].work);
    return status == DEA_OK ? encoder_backward(t->e, t->params, batch, run, &loss, lane->grads, &t->room[0].work)
                            : status;
}

static int isolation_compare(const trainer *t, text_error *error) {
    const dea_real *task = t->lane[0].grads, *gate = t->lane[1].grads, *both = t->lane[2].grads;
    for (int i = 0; i < t->e->table.count; i++) {
        const dea_tensor *tensor = &t->e->table.tensors[i];
        const int is_gate = tensor->group == DEA_GROUP_GATE;
        const dea_real *own = is_gate ? gate : task, *other = is_gate ? task : gate;
        for (size_t j = tensor->offset; j < tensor->offset + tensor->count; j++) {
            if (other[j] != 0)
                return text_fail(
                    error,
                    "isolation check failed: the %s loss reached %s[%zu] (%g); this build must not be trained with",
                    is_gate ? "task" : "gate", tensor->name, j - tensor->offset, (double)other[j]);
            if (memcmp(&own[j], &both[j], sizeof *own))
                return text_fail(
                    error,
                    "isolation check failed: %s[%zu] is %.9g with both losses and %.9g with its own alone; "
                    "this build must not be trained with",
                    tensor->name, j - tensor->offset, (double)both[j], (double)own[j]);
        }
    }
    return 0;
}

/* dea.h's own check on every layer's attention; the gradient that comes in from above is the layer's own output. */
static int isolation_layers(trainer *t, const encoder_batch *batch, const encoder_run *run, text_error *error) {
    dea_gate gate = dea_gate_init();
    gate.hard_negatives = t->config.hard_negatives;
    dea_status status = encoder_forward(t->e, t->params, batch, run, &t->room[0].work);
    for (int l = 0; status == DEA_OK && l < t->e->config.layers; l++) {
        dea_attention a;
        const dea_real *saved;
        dea_isolation report;
        status = encoder_layer_attention(t->e, &t->room[0].work, l, &a, &saved);
        if (status != DEA_OK) break;
        const size_t bytes = dea_verify_isolation_workspace(&a, &gate);
        void *workspace =
            bytes ? aligned_alloc(DEA_ALIGNMENT, (bytes + DEA_ALIGNMENT - 1) / DEA_ALIGNMENT * DEA_ALIGNMENT) : NULL;
        if (!workspace) return text_fail_memory(error, bytes);
        status = dea_verify_isolation(&a, &gate, t->room[0].work.hidden, &report, workspace, bytes);
        free(workspace);
        if (status == DEA_ERR_ISOLATION)
            return text_fail(
                error,
                "isolation check failed in layer %d: %s: %s of head %d, element %zu: %.9g apart, %.9g together; "
                "this build must not be trained with",
                l, report.what, report.tensor, report.head, report.index, report.apart, report.together);
    }
    return status == DEA_OK ? 0 : text_fail(error, "isolation check: %s", dea_status_string(status));
}

/* The first batch that has labels; a step without any leaves the check to a later one. */
static int check_isolation(trainer *t, const totals *all, text_error *error) {
    if (t->isolation_checked || !uses_labels(t) || !all->labelled) return 0;
    for (size_t s = 0; s < t->plan.slices; s++) {
        batch_buffer *buffer = &t->room[0].buffer;
        if (batch_fill(buffer, &t->drawn, &t->plan, s, 1, error)) return -1;
        if (!buffer->labelled) continue;
        const encoder_run run = step_run(t, all->gamma, s);
        const isolation_case cases[3] = {{1, 0}, {0, 1}, {1, 1}};
        for (int i = 0; i < 3; i++) {
            const dea_status status = isolation_gradients(t, &buffer->batch, &run, cases[i], &t->lane[i]);
            if (status != DEA_OK) return text_fail(error, "isolation check: %s", dea_status_string(status));
        }
        if (isolation_compare(t, error) || isolation_layers(t, &buffer->batch, &run, error)) return -1;
        for (int i = 0; i < 3; i++) memset(t->lane[i].grads, 0, t->e->table.elements * sizeof *t->lane[i].grads);
        t->isolation_checked = 1;
        return 0;
    }
    return 0;
}

/* ---- gradients: all are 0 between steps */

/* Lists the words whose embeddings the drawn rows' gradients reach: far fewer than the vocabulary has, and the rows of the others
 * are neither summed nor cleared. A language model's head reaches all. */
static int list_reached(trainer *t, const totals *all, text_error *error) {
    const size_t vocab = (size_t)t->config.model.vocab;
    if (!t->reached) t->reached = malloc(vocab * sizeof *t->reached);
    if (!t->is_reached) t->is_reached = malloc(vocab);
    if (!t->reached || !t->is_reached) return text_fail_memory(error, vocab * sizeof *t->reached);
    memset(t->is_reached, all->asked > 0, vocab);
    t->is_reached[0] = 1; /* the word of padded places */
    for (size_t i = 0; i < t->drawn.tokens; i++) t->is_reached[t->drawn.id[i]] = 1;
    t->reached_count = 0;
    for (size_t id = 0; id < vocab; id++)
        if (t->is_reached[id]) t->reached[t->reached_count++] = id;
    return 0;
}

typedef void gradient_work(trainer_lane *lane, size_t begin, size_t end, double factor);

/* Calls `work` for the numbers of [begin, end) of the arena that the step's gradients can reach. */
static void for_reached(trainer_lane *lane, size_t begin, size_t end, gradient_work *work, double factor) {
    const trainer *t = lane->t;
    const size_t d = (size_t)t->config.model.d_model, first = t->e->token,
                 last = first + (size_t)t->config.model.vocab * d;
    if (begin < first) work(lane, begin, end < first ? end : first, factor);
    if (end > last) work(lane, begin > last ? begin : last, end, factor);
    if (end <= first || begin >= last) return;
    for (size_t i = 0; i < t->reached_count; i++) {
        const size_t word = first + t->reached[i] * d;
        if (word + d > begin && word < end)
            work(lane, word > begin ? word : begin, word + d < end ? word + d : end, factor);
    }
}

static void for_part(trainer_lane *lane, const dea_table *part, gradient_work *work) {
    for (int i = 0; i < part->count; i++) {
        const dea_tensor *tensor = &part->tensors[i];
        for_reached(lane, tensor->offset, tensor->offset + tensor->count, work, 1);
    }
}

/* Every element is added in the order of the lanes, and cleared in all but the first while it is at hand. */
static void sum_lanes(trainer_lane *lane, size_t begin, size_t end, double factor) {
    (void)factor;
    for (int l = 1; l < TRAINER_LANES; l++) {
        for (size_t j = begin; j < end; j++) lane[0].grads[j] += lane[l].grads[j];
        memset(lane[l].grads + begin, 0, (end - begin) * sizeof *lane->grads);
    }
}

static void scale(trainer_lane *lane, size_t begin, size_t end, double factor) {
    for (size_t j = begin; j < end; j++) lane->grads[j] *= (dea_real)factor;
}

static void clear(trainer_lane *lane, size_t begin, size_t end, double factor) {
    (void)factor;
    memset(lane->grads + begin, 0, (end - begin) * sizeof *lane->grads);
}

static void sum_part(void *context, int part) {
    trainer_lane *lane = context, *own = &lane[part];
    for_part(lane, &own->part, sum_lanes);
    own->status = dea_gradient_squares(&own->part, lane[0].grads, own->squares);
}

static void update_part(void *context, int part) {
    trainer_lane *lane = context, *own = &lane[part];
    trainer *t = own->t;
    for (int i = 0; i < own->part.count; i++) {
        const dea_tensor *tensor = &own->part.tensors[i];
        const double clip = own->clip[tensor->group];
        if (clip < 1) for_reached(lane, tensor->offset, tensor->offset + tensor->count, scale, clip);
    }
    own->status =
        dea_adamw_step(own->adamw, &own->part, t->params, lane[0].grads, t->m, t->v, t->step + 1, own->lr_factor, NULL);
    for_part(lane, &own->part, clear);
}

/* Sums the lanes' gradients, clips each group by its own norm, takes the optimiser's step and leaves all gradients 0: every lane a
 * part of every tensor, so that threads share this work too. The norms are sums over the parts in a fixed order. */
static int update(trainer *t, trainer_step_report *report, text_error *error) {
    dea_adamw adamw = optimiser(&t->config);
    double clip[DEA_GROUPS];
    pool_run(&t->threads, TRAINER_LANES, sum_part, t->lane);
    for (int g = 0; g < DEA_GROUPS; g++) {
        double squares = 0;
        for (int i = 0; i < TRAINER_LANES; i++) squares += t->lane[i].squares[g];
        const double norm = report->norm[g] = sqrt(squares);
        if (!isfinite(norm))
            return text_fail(error, "step %lld: %s; try a smaller learning rate", (long long)t->step + 1,
                             dea_status_string(DEA_ERR_NONFINITE));
        clip[g] = adamw.clip[g] > 0 && norm > adamw.clip[g] ? adamw.clip[g] / norm : 1;
        adamw.clip[g] = 0; /* done by the parts */
    }
    report->lr_factor = lr_factor(t);
    for (int i = 0; i < TRAINER_LANES; i++) {
        t->lane[i].adamw = &adamw;
        t->lane[i].lr_factor = report->lr_factor;
        memcpy(t->lane[i].clip, clip, sizeof clip);
    }
    return run_lanes(t, update_part, error);
}

static void collect(const trainer *t, const totals *all, trainer_step_report *report, int *rows_by_tag,
                    int *correct_by_tag) {
    *report = (trainer_step_report){.gamma = all->gamma,
                                    .class_rows = all->class_rows,
                                    .asked = all->asked,
                                    .rows = (int)t->drawn.count,
                                    .tokens = t->plan.tokens,
                                    .padded = t->plan.padded};
    for (int i = 0; i < TRAINER_LANES; i++) {
        const trainer_lane *lane = &t->lane[i];
        report->class_loss += lane->class_loss;
        report->lm_loss += lane->lm_loss;
        report->gate_loss += lane->gate_loss;
        for (int tag = 0; tag < FEED_SOURCES * FEED_STAGES; tag++) {
            rows_by_tag[tag] += lane->rows[tag];
            correct_by_tag[tag] += lane->correct[tag];
            report->correct += lane->correct[tag];
        }
    }
}

int trainer_step(trainer *t, trainer_step_report *report, text_error *error) {
    int rows_by_tag[FEED_SOURCES * FEED_STAGES] = {0}, correct_by_tag[FEED_SOURCES * FEED_STAGES] = {0};
    if (feed_draw(&t->feed, t->step, t->config.batch_tokens, t->config.batch_rows, t->vocabulary,
                  (size_t)t->config.model.max_length, uses_labels(t) ? &t->labels : NULL, &t->drawn, error))
        return -1;
    if (plan_step(t, error)) return -1;
    const totals all = count_totals(t);
    if (list_reached(t, &all, error) || check_isolation(t, &all, error)) return -1;
    for (int i = 0; i < TRAINER_LANES; i++) t->lane[i].totals = &all;
    if (run_lanes(t, train_lane, error)) return -1;
    collect(t, &all, report, rows_by_tag, correct_by_tag);
    if (update(t, report, error)) return -1;
    t->step++;
    report->moved = feed_report(&t->feed, rows_by_tag, correct_by_tag);
    return 0;
}

/* ---- evaluation ------------------------------------------------------------------------------------------------------ */

enum { MAPPED_EVERY = 4 }; /* alpha-hat is read from the maps of every fourth batch of the dev rows */

static int bin_of(double x) {
    const int bin = (int)(x * TRAINER_BINS);
    return bin < 0 ? 0 : bin >= TRAINER_BINS ? TRAINER_BINS - 1 : bin;
}

static void count_alpha(trainer_lane *lane, const dea_maps *maps) {
    const encoder_batch *batch = &lane->room->buffer.batch;
    const encoder_config *c = &lane->t->e->config;
    for (int l = 0; l < c->layers; l++)
        for (size_t b = 0; b < batch->block_count; b++) {
            const double alpha = (double)batch->block[b].alpha;
            const double hat = encoder_block_mean(maps[l].alpha_hat, c->heads, batch->length, &batch->block[b]);
            lane->alpha_error += fabs(hat - alpha);
            lane->histogram[bin_of(alpha)][bin_of(hat)]++;
            lane->cells++;
        }
}

/* Memory for alpha-hat of every layer. */
static dea_maps *room_maps(trainer_room *room, const encoder_config *c, dea_maps *maps) {
    const encoder_batch *batch = &room->buffer.batch;
    const size_t map = (size_t)batch->rows * (size_t)c->heads * (size_t)batch->length * (size_t)batch->length;
    const size_t need = map * (size_t)c->layers;
    if (need > room->map_capacity) {
        free(room->map);
        room->map = malloc(need * sizeof *room->map);
        room->map_capacity = room->map ? need : 0;
        if (!room->map) return NULL;
    }
    for (int l = 0; l < c->layers; l++) maps[l] = (dea_maps){.alpha_hat = room->map + (size_t)l * map};
    return maps;
}

static void evaluate_slice(trainer_lane *lane, size_t slice) {
    const trainer *t = lane->t;
    const int labels = uses_labels(t) && slice % MAPPED_EVERY == 0;
    if (batch_fill(&lane->room->buffer, lane->list, lane->plan, slice, labels, &lane->error)) {
        lane->status = DEA_ERR_CAPACITY;
        return;
    }
    encoder_run run = {0};
    dea_maps *maps = NULL;
    if (lane->room->buffer.batch.block_count) {
        maps = calloc((size_t)t->e->config.layers, sizeof *maps);
        run.maps = maps ? room_maps(lane->room, &t->e->config, maps) : NULL;
        if (!run.maps) {
            free(maps);
            lane->status = DEA_ERR_CAPACITY;
            return;
        }
    }
    lane->status = encoder_forward(t->e, t->params, &lane->room->buffer.batch, &run, &lane->room->work);
    if (lane->status == DEA_OK) count_rows(lane, slice);
    if (lane->status == DEA_OK && run.maps) count_alpha(lane, run.maps);
    free(maps);
}

static void evaluate_lane(void *context, int turn) {
    trainer_lane *lane = lane_in_turn(context, turn);
    enter_room(lane);
    for (size_t i = 0; i < lane->slices && lane->status == DEA_OK; i++) evaluate_slice(lane, lane->slice[i]);
    leave_room(lane);
}

static int compare_reals(const void *a, const void *b) {
    const dea_real x = *(const dea_real *)a, y = *(const dea_real *)b;
    return x < y ? -1 : x > y;
}

/* Mean absolute distance of the dev rows' alphas to their median: the best that a constant can do. */
static int constant_mae(const trainer *t, double *mae, text_error *error) {
    const size_t n = t->dev.blocks.count;
    *mae = 0;
    if (n == 0) return 0;
    dea_real *alpha = malloc(n * sizeof *alpha);
    if (!alpha) return text_fail_memory(error, n * sizeof *alpha);
    for (size_t i = 0; i < n; i++) alpha[i] = t->dev.blocks.block[i].alpha;
    qsort(alpha, n, sizeof *alpha, compare_reals);
    for (size_t i = 0; i < n; i++) *mae += fabs((double)alpha[i] - (double)alpha[n / 2]) / (double)n;
    free(alpha);
    return 0;
}

int trainer_evaluate(trainer *t, trainer_eval_report *report, text_error *error) {
    *report = (trainer_eval_report){0};
    if (assign(t, &t->dev, &t->dev_plan, error) || run_lanes(t, evaluate_lane, error)) return -1;
    if (constant_mae(t, &report->constant_mae, error)) return -1;
    for (int s = 0; s < t->feed.count; s++) {
        trainer_eval_source *out = &report->source[report->sources];
        *out = (trainer_eval_source){0};
        memcpy(out->name, t->feed.source[s].plan.name, sizeof out->name);
        for (int i = 0; i < TRAINER_LANES; i++) {
            out->rows += t->lane[i].rows[s];
            out->correct += t->lane[i].correct[s];
        }
        if (out->rows == 0) continue;
        report->rows += out->rows;
        report->correct += out->correct;
        report->accuracy += (double)out->correct / out->rows;
        report->sources++;
    }
    if (report->sources) report->accuracy /= report->sources;
    double error_sum = 0;
    for (int i = 0; i < TRAINER_LANES; i++) {
        report->cells += t->lane[i].cells;
        error_sum += t->lane[i].alpha_error;
        for (int a = 0; a < TRAINER_BINS; a++)
            for (int b = 0; b < TRAINER_BINS; b++) report->histogram[a][b] += t->lane[i].histogram[a][b];
    }
    if (report->cells) report->alpha_mae = error_sum / (double)report->cells;
    report->better = report->sources > 0 && report->accuracy > t->best;
    if (report->better) {
        t->best = report->accuracy;
        t->best_step = t->step;
        t->waited = 0;
    } else if (report->sources) {
        t->waited++;
    }
    report->exhausted = t->config.patience > 0 && t->waited >= t->config.patience;
    return 0;
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

/* Bytes of one batch; with labels and maps where an evaluation reads them, or as a training batch. */
static size_t batch_memory(const trainer *t, int count, int length, int training, int mapped) {
    const encoder_config *c = &t->e->config;
    const int blocks = uses_labels(t) && (training || mapped) ? count : 0;
    const int asked = training && c->language_model ? count * length * 15 / 100 + 1 : 0;
    encoder_run run = {.training = training};
    dea_maps *maps = calloc((size_t)c->layers, sizeof *maps);
    dea_real some = 0;
    size_t bytes = 0;
    for (int l = 0; maps && l < c->layers; l++) maps[l].alpha_hat = &some;
    if (!training && blocks) {
        run.maps = maps;
        bytes =
            (size_t)count * (size_t)c->heads * (size_t)length * (size_t)length * (size_t)c->layers * sizeof(dea_real);
    }
    bytes += encoder_work_bytes(t->e, count, length, asked, blocks, &run);
    free(maps);
    return bytes;
}

/* The largest batch of a lane's dev rows. */
static size_t lane_dev_memory(const trainer *t, const trainer_lane *lane) {
    size_t most = 0;
    for (size_t i = 0; i < lane->slices; i++) {
        const batch_slice *cut = &t->dev_plan.slice[lane->slice[i]];
        const size_t bytes = batch_memory(t, cut->count, cut->length, 0, lane->slice[i] % MAPPED_EVERY == 0);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* What the largest batch to be expected needs, of training and of the evaluations. */
static int room_memory(trainer *t, size_t *bytes, text_error *error) {
    size_t longest = 0;
    for (size_t i = 0; i < t->dev.count; i++)
        if ((size_t)t->dev.at[i].length > longest) longest = (size_t)t->dev.at[i].length;
    const size_t mean = t->dev.count ? t->dev.tokens / t->dev.count : 32;
    const int length = longest ? (int)longest : t->config.model.max_length < 64 ? t->config.model.max_length : 64;
    size_t tokens = (size_t)t->config.batch_rows * mean;
    if (tokens == 0 || (t->config.batch_tokens && (size_t)t->config.batch_tokens < tokens))
        tokens = (size_t)t->config.batch_tokens;
    tokens = even_share(t, tokens + tokens / 8); /* the last story drawn goes over */
    tokens += tokens / 2;                        /* see plan_step */
    if (tokens > (size_t)t->config.micro_tokens) tokens = (size_t)t->config.micro_tokens;
    const int count = (int)tokens / length + 1;
    *bytes = batch_memory(t, count, length, 1, 0);
    if (assign(t, &t->dev, &t->dev_plan, error)) return -1;
    for (int i = 0; i < TRAINER_LANES; i++) {
        const size_t dev = lane_dev_memory(t, &t->lane[i]);
        if (dev > *bytes) *bytes = dev;
    }
    return 0;
}

/* Activations are taken at once: growing from batch to batch leaves holes in the heap. */
static int reserve_rooms(trainer *t, text_error *error) {
    size_t bytes;
    if (room_memory(t, &bytes, error)) return -1;
    t->expected = hardware_peak_memory();
    for (int i = 0; i < TRAINER_LANES && i < t->threads; i++) {
        if (encoder_work_reserve(&t->room[i].work, bytes) != DEA_OK) return text_fail_memory(error, bytes);
        t->expected += bytes;
    }
    return 0;
}

size_t trainer_memory(const trainer *t) {
    return t->expected;
}

int trainer_open(trainer *t, const trainer_config *config, tokenizer *vocabulary, const rows *stored, const rows *text,
                 int threads, text_error *error) {
    memset(t, 0, sizeof *t);
    t->config = *config;
    t->vocabulary = vocabulary;
    t->threads = threads;
    t->best = -1;
    t->data_hash = hash_rows(hash_rows(0, stored), text);
    int result = 0;
    if (config->oracle[0]) {
        result = labeller_open(&t->labels, config->oracle, config->seed, error);
        t->has_labels = !result;
    }
    if (!result) result = feed_open(&t->feed, config->plan, config->plans, stored, text, config->seed, error);
    t->feed.story_pairs = config->story_pairs;
    t->feed.rest = config->rest;
    t->feed.earlier = config->earlier;
    t->feed.ahead = config->ahead;
    t->feed.hidden = config->hidden;
    if (!result) result = open_model(t, error);
    if (!result) result = make_lanes(t, error);
    if (!result) result = check_stored(t, error);
    if (!result) result = make_dev(t, error);
    if (!result) result = reserve_rooms(t, error);
    if (result) trainer_close(t);
    return result;
}

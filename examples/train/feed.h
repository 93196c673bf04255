/* What a training run learns from: sources of fresh stories in stages, stored rows, plain text for the masked language model;
 * mixed by weight. What step n draws is a function of the seed, of n, and of the feed's state. */
#ifndef TRAIN_FEED_H
#define TRAIN_FEED_H

#include <stdint.h>

#include "data/stream.h"
#include "encoder/batch.h"
#include "encoder/labels.h"
#include "text/rows.h"
#include "text/tokenizer.h"

enum { FEED_SOURCES = 16, FEED_STAGES = 8, FEED_NAME = 32 };

typedef enum feed_kind { FEED_FRESH, FEED_STORED, FEED_TEXT } feed_kind;

/* How a source takes part. */
typedef struct feed_plan {
    char name[FEED_NAME]; /* of the source */
    feed_kind kind;
    double weight;            /* share of the draws, against the other sources' weights */
    double mark[FEED_STAGES]; /* fresh: running train accuracy that ends each stage */
    int first;                /* fresh: the stage it starts with; those before are never drawn. 0 means 1 */
    char after[FEED_NAME];    /* takes part once this source is done; "": from the start */
} feed_plan;

/* Where a source stands: all that resuming needs. */
typedef struct feed_state {
    int stage;           /* fresh: 1 .. */
    int done;            /* the last stage's mark was passed */
    int64_t stage_steps; /* steps with rows of this stage */
    double accuracy;     /* running train accuracy in the stage, over about 30 steps */
    uint64_t drawn;      /* stored, text: units drawn so far */
} feed_state;

typedef struct feed_source {
    feed_plan plan;
    feed_state state;
    int stages;
    data_stream *stream; /* fresh: [stages] */
    size_t *unit;        /* stored: row indices, unit after unit; text: indices of paragraphs */
    size_t *unit_begin;  /* [units + 1] */
    size_t units;
    size_t *order; /* [units], of epoch `order_epoch` */
    uint64_t order_epoch;
} feed_source;

typedef struct feed {
    feed_source source[FEED_SOURCES];
    int count;
    uint64_t seed;
    const rows *stored; /* the caller's; sources refer to its rows of split train */
    const rows *text;   /* paragraphs in `premise` */
    int story_pairs;    /* fresh: pairs of hypotheses taken from a story, drawn anew each time; 0: all */
    double rest;        /* factor on the weight of a fresh source that is done: 0.35 */
    double earlier;     /* share of each earlier stage: 0.12 */
    double ahead;       /* share of the next stage: 0 */
    double hidden;      /* stored: share of a premise's words that are hidden, see samples_hide_last: 0 */
    encoded_pair pair;
    token_cache *cache;
    data_story story;
} feed;

/* What a list of sources says of itself: none twice, none that starts with a stage that is not there, none that waits for itself or
 * for one that is not in the list. 0, or -1 with a message. */
int feed_check(const feed_plan *plan, int plans, text_error *error);

/* Rows without a split are all for training. */
int feed_is_train(const row *r);

/* 0, or -1 with a message: an unknown source, a stored source without train rows. `stored` and `text` may be NULL where no
 * plan needs them. */
int feed_open(feed *f, const feed_plan *plan, int plans, const rows *stored, const rows *text, uint64_t seed,
              text_error *error);
void feed_close(feed *f);

/* The tag of a sample is source * FEED_STAGES + stage - 1. */
static inline int feed_tag_source(int tag) {
    return tag / FEED_STAGES;
}
static inline int feed_tag_stage(int tag) {
    return tag % FEED_STAGES + 1;
}

/* Replaces *out by fresh samples: units are drawn until there are max_tokens tokens or max_rows rows (0: no limit). `labels` may
 * be NULL. 0, or -1 with a message. */
int feed_draw(feed *f, int64_t step, int max_tokens, int max_rows, const tokenizer *t, size_t max_length,
              labeller *labels, samples *out, text_error *error);

/* Tells the feed how many of the step's rows of each tag were right; stages advance. rows, correct: [FEED_SOURCES * FEED_STAGES].
 * Returns 1 if a source went on to another stage or was done. */
int feed_report(feed *f, const int *rows, const int *correct);

/* Encodes a row that must fit: 0, or -1 with a message that names the row. */
int feed_encode(feed *f, const tokenizer *t, const row *r, size_t max_length, text_error *error);

#endif

/* A training run: an encoder, what it learns from, the optimiser, and where it stands. One step draws rows, cuts them into
 * batches of like length, spreads these over a fixed number of lanes, and adds the lanes' gradients in a fixed order: the
 * number of threads changes the time, never a bit.
 *
 * The library prints nothing; main.c drives it:  open, then step until done, evaluate now and then, save. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include <stdint.h>

#include "encoder/batch.h"
#include "encoder/encoder.h"
#include "encoder/labels.h"
#include "text/error.h"
#include "text/rows.h"
#include "text/tokenizer.h"
#include "train/feed.h"

enum { TRAINER_LANES = 4, TRAINER_BINS = 10, TRAINER_ORACLE = 256 };

typedef struct trainer_config {
    encoder_config model; /* its vocab is set from the vocabulary */
    feed_plan plan[FEED_SOURCES];
    int plans;
    uint64_t seed;
    int64_t steps;
    int batch_tokens, batch_rows; /* a step draws rows until it has so many; 0: no limit, not both */
    int micro_tokens;             /* a batch inside a step has at most so many: bounds memory */
    double lr, lr_gate, beta2, weight_decay, clip;
    double embedding_rate;       /* factor on lr for the token embedding: a rare word has few steps to move */
    int64_t warmup;              /* steps of linear warm-up */
    int cosine;                  /* then 1: cosine to 0 at `steps`; 0: constant */
    double hold;                 /* the cosine begins after this share of `steps` */
    int64_t gamma_steps;         /* gamma falls from 1 to 0 over so many steps; 0: it is 0 throughout */
    int gate_loss;               /* 0: labels do not train the gate */
    int hard_negatives;          /* see dea_gate */
    char oracle[TRAINER_ORACLE]; /* see labeller_open; "": no labels */
    int64_t eval_every;
    int patience;                        /* evaluations without a better dev accuracy that end the run; 0: never */
    int dev_stories;                     /* of each fresh source that the data has no dev rows of */
    int vocab_min_count, vocab_pieces;   /* see wordpiece_options */
    int story_pairs;                     /* see feed */
    double rest, earlier, ahead, hidden; /* see feed */
    double stored_weight;                /* of each source of the data that is not drawn fresh */
} trainer_config;

/* Sums over the rows of one step. */
typedef struct trainer_step_report {
    double class_loss, lm_loss, gate_loss, gamma, lr_factor;
    double norm[DEA_GROUPS]; /* gradient norms before clipping */
    int rows, class_rows, correct, asked;
    size_t tokens, padded; /* without and with padding */
    int moved;             /* a source went on to another stage */
} trainer_step_report;

typedef struct trainer_eval_source {
    char name[FEED_NAME];
    int rows, correct;
} trainer_eval_source;

typedef struct trainer_eval_report {
    trainer_eval_source source[FEED_SOURCES];
    int sources, rows, correct;
    double accuracy;                               /* mean over the sources */
    int64_t cells;                                 /* label blocks looked at: (block, layer) */
    double alpha_mae, constant_mae;                /* of alpha-hat's block means; of the best constant */
    int64_t histogram[TRAINER_BINS][TRAINER_BINS]; /* [alpha][alpha-hat] */
    int better;                                    /* the best accuracy so far */
    int exhausted;                                 /* patience is over */
} trainer_eval_report;

typedef struct trainer_lane trainer_lane;
typedef struct trainer_room trainer_room;

/* Work of a batch, or of a lane. */
typedef struct lane_work {
    size_t cost, index;
} lane_work;

typedef struct trainer {
    trainer_config config;
    tokenizer *vocabulary;
    encoder *e;
    dea_real *params, *m, *v; /* arenas */
    feed feed;
    labeller labels;
    int has_labels, threads;
    int64_t step; /* steps done */
    double best;  /* dev accuracy; -1 before the first evaluation */
    int64_t best_step;
    int waited; /* evaluations since */
    int isolation_checked;
    uint64_t data_hash; /* of stored rows and text */
    size_t expected;    /* see trainer_memory */
    samples drawn, dev;
    batch_plan plan, dev_plan;
    trainer_lane *lane;            /* [TRAINER_LANES] */
    trainer_room *room;            /* [TRAINER_LANES], of which as many are used as there are threads */
    int lane_order[TRAINER_LANES]; /* most work first */
    lane_work *work;               /* of the batches, while these are given to the lanes */
    size_t work_capacity;
    size_t *reached, reached_count; /* words whose embeddings the step's gradients reach; room for the vocabulary */
    unsigned char *is_reached;      /* [vocab] */
} trainer;

/* Vocabulary of the fresh sources named in the plans (of all where there is text to learn from), the train rows of `stored` and `text` (either may be NULL). */
tokenizer *trainer_vocabulary(const trainer_config *config, const rows *stored, const rows *text, text_error *error);

/* Makes a run that has taken no step. Takes `vocabulary` over, also on failure. `stored` and `text` must outlive it. */
int trainer_open(trainer *t, const trainer_config *config, tokenizer *vocabulary, const rows *stored, const rows *text,
                 int threads, text_error *error);
void trainer_close(trainer *t);

/* Bytes that the process will have at its height: what it has now, and what the batches that threads work on will add, of training
 * and of the evaluations, with rows as long as the longest of the dev rows. */
size_t trainer_memory(const trainer *t);

/* One step. 0, or -1 with a message: NaN in a gradient, an isolation check that failed (first step of a run), memory. */
int trainer_step(trainer *t, trainer_step_report *report, text_error *error);

/* The dev rows. Keeps count of the best accuracy. */
int trainer_evaluate(trainer *t, trainer_eval_report *report, text_error *error);

/* gamma of the step to come. */
double trainer_gamma(const trainer *t);

#endif

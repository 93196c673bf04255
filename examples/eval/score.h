/* A trained model over labelled rows: what it predicts, how sure it is, where its gate stands, and who wins its
 * photo-finishes. */
#ifndef EVAL_SCORE_H
#define EVAL_SCORE_H

#include <stddef.h>
#include <stdint.h>

#include "checkpoint/model.h"
#include "encoder/labels.h"
#include "metrics/metrics.h"
#include "text/error.h"
#include "text/row.h"

typedef struct score_options {
    labeller *labels; /* the oracle; NULL: no figures of alpha */
    int cut; /* nonzero: rows longer than the model's lose tokens from their premise's front; 0: they are an error */
    dea_threads threads;
    int (*progress)(void *context, size_t done,
                    size_t all); /* NULL, or called after every batch; stops where it returns nonzero */
    void *context;
} score_options;

typedef struct scores {
    size_t count;                      /* rows */
    unsigned char *predicted, *right;  /* [count] the likeliest class; whether it is the label */
    double *probability, *confidence;  /* [count] of class 1; of the predicted class */
    double *row_alpha, *row_alpha_hat; /* [count] means over the row's label blocks; NaN where it has none */
    size_t blocks;             /* label blocks: one a row, or with the token oracle one for each rectangle of words */
    double *alpha, *alpha_hat; /* [blocks] label; alpha-hat's mean over the block's cells, all heads, all layers */
    double cell_mae; /* mean of |alpha-hat - alpha| cell by cell, head by head, layer by layer; NaN without cells */
    int64_t cells;
    metrics_sides sides; /* over all layers, heads, labelled queries and their distractors */
    int layers, heads;
    double *entropy;        /* [layers, heads] metrics_entropy, mean over queries */
    double *gate;           /* [layers, heads] mean alpha-hat over all visible cells */
    size_t tokens, unknown; /* tokens of all rows; [UNK] among them */
    size_t cut;             /* rows that lost tokens */
} scores;

/* 0, or -1 with one line; then *s is {0}. The model's dropout is off. */
int scores_run(scores *s, const model *m, const row *rows, size_t count, const score_options *options,
               text_error *error);
void scores_free(scores *s);

#endif

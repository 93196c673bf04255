/* The Paris demo on a trained model: ten word pairs, each against a look-alike of the query, and the photo-finish of
 * one. */
#ifndef EVAL_DEMO_H
#define EVAL_DEMO_H

#include <stdio.h>

#include "checkpoint/model.h"
#include "text/error.h"

enum { DEMO_PAIRS = 10 };

/* One pair as the model sees it: premise the query, hypothesis target and look-alike. */
typedef struct demo_pair {
    const char *query, *target, *lookalike;
    dea_band band;    /* where a relational oracle would put alpha(query, target) */
    double alpha_hat; /* query to target: mean over pieces, heads and layers */
    int heads,
        won; /* heads of all layers; those that score the target above the look-alike (the query's first piece) */
} demo_pair;

/* A finish of the pair Paris, in the head where the lines cross nearest to the middle. */
typedef struct demo_finish {
    int found; /* 0: in no head do the lines cross within [0, 1] */
    int layer, head;
    double target[2], lookalike[2]; /* Et0, Et1 */
    double beta, alpha_hat;
} demo_finish;

typedef struct demo {
    demo_pair pair[DEMO_PAIRS];
    demo_finish finish;
    size_t unknown; /* [UNK] tokens in all pairs */
} demo;

/* 0, or -1 with a message. */
int demo_run(demo *d, const model *m, const dea_threads *threads, text_error *error);

/* Table and drawing. */
void demo_print(FILE *to, const demo *d);

#endif

/* Cheap baselines to print beside every model: what can be had without reading the premise and the hypothesis together. */
#ifndef DATA_BASELINES_H
#define DATA_BASELINES_H

#include <stddef.h>

#include "text/row.h"

typedef enum baseline_kind {
    BASELINE_PREMISE,    /* majority; logistic regression on the words of the premise alone */
    BASELINE_HYPOTHESIS, /* logistic regression on the words of the hypothesis alone */
    BASELINE_OVERLAP,    /* share of the hypothesis' words that stand in the premise, threshold from train */
    BASELINE_CROSSES, /* logistic regression on premise x hypothesis word crosses, overlap and order, 18 hashed bits */
    BASELINE_KINDS
} baseline_kind;

/* The first three must not beat chance on a sound source. */
#define BASELINE_CHEAP 3

/* A word or two for a table's head. */
const char *baseline_name(baseline_kind kind);

/* Fits on train, writes a 0 or 1 for each test row to predicted[m]. 0, or -1 when out of memory. Any number of rows; with
 * no training rows everything is predicted 1. */
int baseline_predict(baseline_kind kind, const row *train, size_t n, const row *test, size_t m,
                     unsigned char *predicted);

/* Share of test rows whose label is predicted; 0 for m = 0. */
double baseline_accuracy(const row *test, size_t m, const unsigned char *predicted);

#endif

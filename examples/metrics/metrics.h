/* How good predictions are: of classes, of probabilities, of alpha, and of the winner of a photo-finish. Nothing here
 * knows of a model or a file. Where memory is needed it is said; everything else is plain arithmetic in double. */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "dea.h"

/* ---- accuracy ---------------------------------------------------------------------------------------------------- */
typedef struct metrics_interval {
    double low, high;
} metrics_interval;

/* Wilson's 95% interval of a share; [0, 1] for count 0. 0 <= right <= count. */
metrics_interval metrics_wilson(int64_t right, int64_t count);

/* Mean of n values and its 95% interval by Student's t: of the same figure over several seeds. n = 1: low and high are
 * -INFINITY and INFINITY; n = 0: the mean is NaN too. */
double metrics_mean_interval(const double *value, size_t n, metrics_interval *interval);

typedef struct metrics_group {
    const char *name; /* one of the keys given */
    int64_t right, count;
} metrics_group;

/* Counts right predictions by key: groups sorted by name (bytes). right[n] 0 or 1. Keys that are NULL are left out.
 * groups: room for `capacity`. The number of groups, or -1 where they are more than capacity. */
int metrics_by_key(const char *const *key, const unsigned char *right, size_t n, metrics_group *groups, int capacity);

/* ---- numbers ----------------------------------------------------------------------------------------------------- */
/* All NaN for n = 0; correlations also for a side without variance. */
double metrics_mae(const double *predicted, const double *truth, size_t n);
double metrics_pearson(const double *x, const double *y, size_t n);
/* Pearson of the ranks, ties at the mean of their ranks. scratch [3 n] doubles. */
double metrics_spearman(const double *x, const double *y, size_t n, double *scratch);
/* What the best constant, chosen with hindsight, would reach: the mean distance from the median. scratch [n]. */
double metrics_constant_mae(const double *truth, size_t n, double *scratch);

/* ---- bands ------------------------------------------------------------------------------------------------------- */
#define METRICS_BANDS 4 /* near-identical, weak, strong, between: dea_band */

typedef struct metrics_bands {
    int64_t matrix[METRICS_BANDS][METRICS_BANDS]; /* [band of the truth][band of the prediction] */
    int64_t count, agreed;                        /* agreed: the diagonal */
    int64_t constant; /* what always saying the commonest band of the truth would agree with */
} metrics_bands;

metrics_bands metrics_band_table(const double *predicted, const double *truth, size_t n);

/* ---- photo-finish ------------------------------------------------------------------------------------------------ */
/* For a target and a distractor that tie at beta, alpha lies on one side of beta, and so must alpha-hat for the same
 * key to win. Counted one at a time, so that millions need no memory. */
#define METRICS_SIDE_BINS 1024
#define METRICS_CLOSE     0.1 /* |alpha - beta| below this is a close finish */

typedef struct metrics_side_count {
    int64_t count, right;
    int64_t above[METRICS_SIDE_BINS], below[METRICS_SIDE_BINS]; /* finishes by beta, where alpha > beta and where not */
} metrics_side_count;

typedef struct metrics_sides {
    metrics_side_count all, close;
} metrics_sides; /* {0} to start with */

void metrics_side_add(metrics_sides *sides, double alpha, double alpha_hat, double beta);
/* Share on the right side; NaN where none was counted. */
double metrics_side_accuracy(const metrics_side_count *count);
/* What the best constant alpha-hat in [0, 0.95], chosen with hindsight on a grid of 1/1024, would reach. */
double metrics_side_constant(const metrics_side_count *count);

/* ---- attention and calibration ----------------------------------------------------------------------------------- */
/* Entropy in nats of weights a[n] that sum to 1 (zeros add nothing), divided by log n: 1 is even attention, 0 one key.
 * 0 for n < 2. */
double metrics_entropy(const dea_real *a, size_t n);

#define METRICS_ECE_BINS 15

typedef struct metrics_calibration {
    int64_t count[METRICS_ECE_BINS], right[METRICS_ECE_BINS];
    double confidence[METRICS_ECE_BINS]; /* sums */
} metrics_calibration;

/* confidence[i] in [0, 1]: probability of the class that was predicted; right[i] 0 or 1. Bins of equal width. */
metrics_calibration metrics_calibrate(const double *confidence, const unsigned char *right, size_t n);
/* Expected calibration error: sum over bins of count/n |share right - mean confidence|. NaN for n = 0. */
double metrics_ece(const metrics_calibration *calibration);

#endif

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/metrics.h"

double metrics_mae(const double *predicted, const double *truth, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += fabs(predicted[i] - truth[i]);
    return n ? sum / (double)n : NAN;
}

static double mean_of(const double *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    return sum / (double)n;
}

double metrics_pearson(const double *x, const double *y, size_t n) {
    if (n == 0) return NAN;
    const double mean_x = mean_of(x, n), mean_y = mean_of(y, n);
    double xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        const double dx = x[i] - mean_x, dy = y[i] - mean_y;
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx) / sqrt(yy) : NAN;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* rank[i] = mean of the places, from 0, that values equal to x[i] take in `sorted`. */
static void rank_all(const double *x, size_t n, double *sorted, double *rank) {
    memcpy(sorted, x, n * sizeof *x);
    qsort(sorted, n, sizeof *sorted, by_value);
    for (size_t i = 0; i < n; i++) {
        size_t first = 0, last = 0; /* the first place with a value >= x[i], and with one > x[i] */
        for (size_t low = 0, high = n; low < high; first = low) {
            const size_t middle = (low + high) / 2;
            if (sorted[middle] < x[i])
                low = middle + 1;
            else
                high = middle;
        }
        for (size_t low = 0, high = n; low < high; last = low) {
            const size_t middle = (low + high) / 2;
            if (sorted[middle] <= x[i])
                low = middle + 1;
            else
                high = middle;
        }
        rank[i] = ((double)first + (double)(last - 1)) / 2;
    }
}

double metrics_spearman(const double *x, const double *y, size_t n, double *scratch) {
    if (n == 0) return NAN;
    rank_all(x, n, scratch, scratch + n);
    rank_all(y, n, scratch, scratch + 2 * n);
    return metrics_pearson(scratch + n, scratch + 2 * n, n);
}

double metrics_constant_mae(const double *truth, size_t n, double *scratch) {
    if (n == 0) return NAN;
    memcpy(scratch, truth, n * sizeof *truth);
    qsort(scratch, n, sizeof *scratch, by_value);
    const double median = scratch[n / 2];
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += fabs(truth[i] - median);
    return sum / (double)n;
}

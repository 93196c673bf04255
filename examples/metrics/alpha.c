#include <math.h>

#include "metrics/metrics.h"

metrics_bands metrics_band_table(const double *predicted, const double *truth, size_t n) {
    metrics_bands table = {0};
    for (size_t i = 0; i < n; i++) table.matrix[dea_band_of(truth[i])][dea_band_of(predicted[i])]++;
    for (int band = 0; band < METRICS_BANDS; band++) {
        int64_t row = 0;
        for (int other = 0; other < METRICS_BANDS; other++) row += table.matrix[band][other];
        table.agreed += table.matrix[band][band];
        if (row > table.constant) table.constant = row;
    }
    table.count = (int64_t)n;
    return table;
}

static void count_side(metrics_side_count *count, double alpha, double alpha_hat, double beta) {
    int bin = (int)(beta * METRICS_SIDE_BINS);
    if (bin < 0) bin = 0;
    if (bin >= METRICS_SIDE_BINS) bin = METRICS_SIDE_BINS - 1;
    count->count++;
    count->right += (alpha > beta) == (alpha_hat > beta);
    if (alpha > beta)
        count->above[bin]++;
    else
        count->below[bin]++;
}

void metrics_side_add(metrics_sides *sides, double alpha, double alpha_hat, double beta) {
    count_side(&sides->all, alpha, alpha_hat, beta);
    if (fabs(alpha - beta) < METRICS_CLOSE) count_side(&sides->close, alpha, alpha_hat, beta);
}

double metrics_side_accuracy(const metrics_side_count *count) {
    return count->count ? (double)count->right / (double)count->count : NAN;
}

double metrics_side_constant(const metrics_side_count *count) {
    if (!count->count) return NAN;
    int64_t right = 0, best; /* a constant of 0 lies above no beta: it is right wherever alpha does not either */
    for (int bin = 0; bin < METRICS_SIDE_BINS; bin++) right += count->below[bin];
    best = right;
    for (int bin = 0; (double)(bin + 1) / METRICS_SIDE_BINS <= DEA_ALPHA_MAX;
         bin++) { /* the constant (bin + 1)/BINS passes it */
        right += count->above[bin] - count->below[bin];
        if (right > best) best = right;
    }
    return (double)best / (double)count->count;
}

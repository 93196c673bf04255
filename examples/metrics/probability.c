#include <math.h>

#include "metrics/metrics.h"

double metrics_entropy(const dea_real *a, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (a[i] > 0) sum -= (double)a[i] * log((double)a[i]);
    return n < 2 ? 0 : sum / log((double)n);
}

metrics_calibration metrics_calibrate(const double *confidence, const unsigned char *right, size_t n) {
    metrics_calibration c = {0};
    for (size_t i = 0; i < n; i++) {
        int bin = (int)(confidence[i] * METRICS_ECE_BINS);
        if (bin < 0) bin = 0;
        if (bin >= METRICS_ECE_BINS) bin = METRICS_ECE_BINS - 1;
        c.count[bin]++;
        c.right[bin] += right[i];
        c.confidence[bin] += confidence[i];
    }
    return c;
}

double metrics_ece(const metrics_calibration *c) {
    double sum = 0;
    int64_t count = 0;
    for (int bin = 0; bin < METRICS_ECE_BINS; bin++) {
        sum += fabs((double)c->right[bin] - c->confidence[bin]);
        count += c->count[bin];
    }
    return count ? sum / (double)count : NAN;
}

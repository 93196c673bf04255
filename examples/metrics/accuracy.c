#include <math.h>
#include <string.h>

#include "metrics/metrics.h"

metrics_interval metrics_wilson(int64_t right, int64_t count) {
    metrics_interval interval = {0, 1};
    if (count <= 0) return interval;
    const double z = 1.959963984540054, n = (double)count, p = (double)right / n;
    const double centre = (p + z * z / (2 * n)) / (1 + z * z / n);
    const double half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    interval.low = right == 0 ? 0 : centre - half; /* exactly 0 and 1 at the ends, where rounding would leave 1e-17 */
    interval.high = right == count ? 1 : centre + half;
    return interval;
}

/* 97.5% quantile of Student's t. A table: above 30 degrees of freedom the normal's with its first three corrections. */
static double student(size_t freedom) {
    static const double table[30] = {12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004,
                                     2.262157,  2.228139, 2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905,
                                     2.109816,  2.100922, 2.093024, 2.085963, 2.079614, 2.073873, 2.068658, 2.063899,
                                     2.059539,  2.055529, 2.051831, 2.048407, 2.045230, 2.042272};
    if (freedom <= 30) return table[freedom - 1];
    const double z = 1.959963984540054, n = (double)freedom, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
    return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

double metrics_mean_interval(const double *value, size_t n, metrics_interval *interval) {
    interval->low = -INFINITY;
    interval->high = INFINITY;
    if (n == 0) return NAN;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) sum += value[i];
    const double mean = sum / (double)n;
    if (n == 1) return mean;
    for (size_t i = 0; i < n; i++) squares += (value[i] - mean) * (value[i] - mean);
    const double half = student(n - 1) * sqrt(squares / (double)(n - 1) / (double)n);
    interval->low = mean - half;
    interval->high = mean + half;
    return mean;
}

/* Place of `name` among sorted groups, or where it would stand. */
static int place_of(const metrics_group *groups, int count, const char *name) {
    int low = 0, high = count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (strcmp(groups[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int metrics_by_key(const char *const *key, const unsigned char *right, size_t n, metrics_group *groups, int capacity) {
    int count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!key[i]) continue;
        const int at = place_of(groups, count, key[i]);
        if (at == count || strcmp(groups[at].name, key[i]) != 0) {
            if (count == capacity) return -1;
            memmove(groups + at + 1, groups + at, (size_t)(count - at) * sizeof *groups);
            groups[at] = (metrics_group){key[i], 0, 0};
            count++;
        }
        groups[at].count++;
        groups[at].right += right[i];
    }
    return count;
}

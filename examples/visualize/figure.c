#include "visualize/figure.h"

#include <math.h>

void figure_limits(const double *value, size_t count, double *low, double *high) {
    double smallest = INFINITY, largest = -INFINITY;
    for (size_t i = 0; i < count; i++)
        if (isfinite(value[i])) {
            smallest = fmin(smallest, value[i]);
            largest = fmax(largest, value[i]);
        }
    if (smallest > largest) smallest = largest = 0;
    const double air = largest > smallest ? 0.05 * (largest - smallest) : fmax(fabs(largest) * 0.05, 0.5);
    *low = smallest - air;
    *high = largest + air;
}

int figure_name_step(int names, int pixels, int pitch) {
    const int fit = pixels / pitch > 1 ? pixels / pitch : 1;
    return (names + fit - 1) / fit > 1 ? (names + fit - 1) / fit : 1;
}

#include "visualize/histogram.h"

#include <math.h>
#include <stdio.h>

#include "data/oracle.h"

enum { BINS = 20 };

double histogram_error(const view *v) {
    double sum = 0;
    for (size_t i = 0; i < v->samples; i++) sum += fabs(v->sample_alpha_hat[i] - v->sample_alpha[i]);
    return v->samples ? sum / (double)v->samples : (double)NAN;
}

/* Per cent of the values in each bin of [0, 1]. */
static void count_bins(const double *value, size_t count, double *percent) {
    for (int b = 0; b < BINS; b++) percent[b] = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(value[i] >= 0 && value[i] <= 1)) continue;
        const int b = (int)(value[i] * BINS);
        percent[b < BINS ? b : BINS - 1] += 100 / (double)count;
    }
}

static void fill_bands(figure_band *band) {
    static const char *const name[BAND_COUNT] = {"near", "weak", "strong"};
    for (int b = 0; b < BAND_COUNT; b++) {
        band[b] = (figure_band){0, 0, name[b], COLOUR_BAND_SHADE};
        oracle_band_range((alpha_band)b, &band[b].from, &band[b].to);
    }
}

static int add_histogram(album *a, const view *v, const figure_band *band, text_error *error) {
    double alpha[BINS], alpha_hat[BINS], alpha_x[BINS], alpha_hat_x[BINS], highest = 0;
    count_bins(v->sample_alpha, v->samples, alpha);
    count_bins(v->sample_alpha_hat, v->samples, alpha_hat);
    for (int b = 0; b < BINS; b++) {
        alpha_x[b] = (b + 0.28) / BINS;
        alpha_hat_x[b] = (b + 0.72) / BINS;
        highest = fmax(highest, fmax(alpha[b], alpha_hat[b]));
    }
    const figure_series series[2] = {
        {"α, the oracle's", FIGURE_BARS, COLOUR_GREEN, alpha_x, alpha, BINS, 0.42 / BINS},
        {"α̂, the gate's", FIGURE_BARS, COLOUR_PURPLE, alpha_hat_x, alpha_hat, BINS, 0.42 / BINS}};
    const figure_plot plot = {
        .title = "The oracle's α and the gate's α̂; shaded: the three bands",
        .x_label = "α, α̂",
        .y_label = "per cent of the pairs",
        .x_low = 0,
        .x_high = 1,
        .y_low = 0,
        .y_high = highest > 0 ? 1.15 * highest : 1,
        .series = series,
        .series_count = 2,
        .band = band,
        .band_count = BAND_COUNT,
    };
    return album_plot(a, "alpha_histogram", &plot, error);
}

static int add_scatter(album *a, const view *v, const figure_band *band, text_error *error) {
    char title[96];
    snprintf(title, sizeof title, "α̂ against α, %zu pairs, mean error %.3f", v->samples, histogram_error(v));
    const figure_series series = {
        "a pair", FIGURE_POINTS, COLOUR_PURPLE, v->sample_alpha, v->sample_alpha_hat, v->samples, 0};
    const figure_plot plot = {
        .title = title,
        .x_label = "α, the oracle's",
        .y_label = "α̂, the gate's",
        .x_low = 0,
        .x_high = 1,
        .y_low = 0,
        .y_high = 1,
        .series = &series,
        .series_count = 1,
        .band = band,
        .band_count = BAND_COUNT,
        .diagonal = 1,
    };
    return album_plot(a, "alpha_scatter", &plot, error);
}

int histogram_add(album *a, const view *v, text_error *error) {
    if (!v->samples) return 0;
    figure_band band[BAND_COUNT];
    fill_bands(band);
    if (add_histogram(a, v, band, error)) return -1;
    return add_scatter(a, v, band, error);
}

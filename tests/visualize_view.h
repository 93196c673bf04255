/* A made-up view for the tests of pictures: random energies with some structure, and maps that follow from them by (3), (6),
 * (14). Include after cmocka.h. */
#ifndef TESTS_VISUALIZE_VIEW_H
#define TESTS_VISUALIZE_VIEW_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "visualize/view.h"

/* What must stay text: a gnuplot command, markup, a format, quotes, backquotes, enhanced text, Arabic, broken UTF-8, a terminal
 * escape, a switch of the direction of writing. PROBE is the file that a command would make. */
#define PROBE "/tmp/dea_visualize_probe"
static const char *const hostile[] = {
    "'; system(\"touch " PROBE "\")",
    "`touch " PROBE "`",
    "<script>document.title='hacked'</script>",
    "</script><img src=x onerror=\"document.title='hacked'\">",
    "%s%n%d",
    "\"",
    "'",
    "\\",
    "x_y^{z}@&amp;",
    "مرحبا",
    "a\xff\xfe"
    "b",
    "\x1b[31mred\nline\ttab",
    "\xe2\x80\xae"
    "desrever",
    "]]>",
    "--><!--",
    "${x}#{y}",
};
enum { HOSTILE = (int)(sizeof hostile / sizeof *hostile) };

typedef struct made_view {
    view v;
    float *map[VIEW_MAPS], *alpha;
    char (*text)[16];
    const char **token;
    int *segment;
    double *sample; /* alpha, then alpha-hat */
    double *mean, probability[2];
} made_view;

static double made_number(uint64_t *state) { /* splitmix64, in [0, 1) */
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void made_row(float *row, int tokens, int query, double shift, uint64_t *state) {
    double mean = 0, square = 0;
    for (int k = 0; k < tokens; k++) {
        const double near = exp(-fabs(query + shift - k) / 2.0);
        row[k] = (float)(2.5 * near + made_number(state) + made_number(state));
        mean += (double)row[k] / tokens;
    }
    for (int k = 0; k < tokens; k++) square += ((double)row[k] - mean) * ((double)row[k] - mean) / tokens;
    for (int k = 0; k < tokens; k++) row[k] = (float)(((double)row[k] - mean) / (sqrt(square) + 1e-5));
}

/* The first tokens are the hostile ones where `bad` is nonzero, the others "token17". With `labels` the premise (first half)
 * has alpha labels on the hypothesis (second half), and there is a sample. `causal`: keys after the query are not seen. */
static void made_view_open(made_view *m, int layers, int heads, int tokens, int bad, int labels, int causal) {
    static const char *const classes[2] = {"does not follow", "follows"};
    const size_t n = (size_t)tokens, count = (size_t)layers * (size_t)heads * n * n, samples = 400;
    uint64_t state = 42;
    memset(m, 0, sizeof *m);
    for (int i = 0; i < VIEW_MAPS; i++) m->v.map[i] = m->map[i] = malloc(count * sizeof(float));
    m->text = malloc(n * sizeof *m->text);
    m->token = malloc(n * sizeof *m->token);
    m->segment = malloc(n * sizeof *m->segment);
    m->mean = malloc((size_t)layers * (size_t)heads * sizeof *m->mean);
    m->sample = malloc(2 * samples * sizeof *m->sample);
    m->alpha = malloc(n * n * sizeof *m->alpha);
    for (int t = 0; t < tokens; t++) {
        snprintf(m->text[t], sizeof m->text[t], "token%d", t);
        m->token[t] = bad && t < HOSTILE ? hostile[t] : m->text[t];
        m->segment[t] = t >= tokens / 2;
    }
    for (int lh = 0; lh < layers * heads; lh++) {
        double sum = 0;
        for (int q = 0; q < tokens; q++) {
            const size_t row = ((size_t)lh * n + (size_t)q) * n;
            float *e0 = m->map[VIEW_E0] + row, *e1 = m->map[VIEW_E1] + row, *s = m->map[VIEW_S] + row;
            float *hat = m->map[VIEW_ALPHA_HAT] + row, *a = m->map[VIEW_ATTENTION] + row;
            double total = 0;
            made_row(e0, tokens, q, 0, &state);
            made_row(e1, tokens, q, lh % 7 - 3, &state);
            for (int k = 0; k < tokens; k++) {
                hat[k] = (float)(0.95 / (1 + exp(-(double)(lh % 5 - 2) - (double)e1[k] + (double)e0[k])));
                s[k] = (float)(2 * ((1 - (double)hat[k]) * (double)e0[k] + (double)hat[k] * (double)e1[k]));
                total += !causal || k <= q ? exp((double)s[k]) : 0;
                sum += (double)hat[k] / (double)n;
            }
            for (int k = 0; k < tokens; k++) a[k] = (float)(exp((double)s[k]) / total);
            for (int k = q + 1; causal && k < tokens; k++) e0[k] = e1[k] = s[k] = hat[k] = a[k] = NAN;
        }
        m->mean[lh] = sum / tokens;
    }
    for (int q = 0; q < tokens; q++)
        for (int k = 0; k < tokens; k++)
            m->alpha[(size_t)q * n + (size_t)k] = q < tokens / 2 && k >= tokens / 2 ? 0.83f : NAN;
    for (size_t i = 0; i < samples; i++) {
        static const double low[3] = {0, 0.15, 0.75}, high[3] = {0.05, 0.30, 0.95};
        const int band = (int)(3 * made_number(&state));
        const double alpha = low[band] + (high[band] - low[band]) * made_number(&state);
        const double hat = alpha * 0.8 + 0.1 + 0.2 * (made_number(&state) + made_number(&state) - 1);
        m->sample[i] = alpha;
        m->sample[samples + i] = hat < 0 ? 0 : hat > 0.95 ? 0.95 : hat;
    }
    m->probability[0] = 0.12;
    m->probability[1] = 0.88;
    m->v.layers = layers;
    m->v.heads = heads;
    m->v.tokens = tokens;
    m->v.token = m->token;
    m->v.segment = m->segment;
    m->v.classes = 2;
    m->v.class_name = classes;
    m->v.probability = m->probability;
    m->v.label = 1;
    m->v.mean_alpha_hat = m->mean;
    if (!labels) return;
    m->v.alpha = m->alpha;
    m->v.samples = samples;
    m->v.sample_alpha = m->sample;
    m->v.sample_alpha_hat = m->sample + samples;
}

static void made_view_close(made_view *m) {
    for (int i = 0; i < VIEW_MAPS; i++) free(m->map[i]);
    free(m->alpha);
    free(m->text);
    free(m->token);
    free(m->segment);
    free(m->sample);
    free(m->mean);
}

#endif

#include "data/baselines.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/rng.h"

enum { BITS = 18, SLOTS = 1 << BITS, MOST_WORDS = 256, EPOCHS = 5 };

static const char *const names[BASELINE_KINDS] = {"premise only", "hypothesis only", "overlap", "word crosses"};

const char *baseline_name(baseline_kind kind) {
    return names[kind];
}

double baseline_accuracy(const row *test, size_t m, const unsigned char *predicted) {
    size_t right = 0;
    for (size_t i = 0; i < m; i++) right += predicted[i] == (test[i].label != 0);
    return m ? (double)right / (double)m : 0;
}

/* ---- features: hashes of lower-case words; bytes from 0x80 on count as letters */

static size_t hash_words(const char *text, uint32_t *out) {
    size_t n = 0;
    while (*text && n < MOST_WORDS) {
        uint64_t h = 0;
        size_t length = 0;
        for (;; text++, length++) {
            unsigned char c = (unsigned char)*text;
            if (c >= 'A' && c <= 'Z') c = (unsigned char)(c - 'A' + 'a');
            if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c >= 0x80)) break;
            h = (h ^ c) * UINT64_C(0x100000001B3) + 1;
        }
        if (length)
            out[n++] = (uint32_t)(rng_mix(h) >> 32);
        else
            text++;
    }
    return n;
}

static int position(const uint32_t *words, size_t n, uint32_t word) {
    for (size_t i = 0; i < n; i++)
        if (words[i] == word) return (int)i;
    return -1;
}

/* Words of the hypothesis that stand in the premise, in tenths. */
static int overlap(const uint32_t *p, size_t np, const uint32_t *h, size_t nh) {
    int in = 0;
    for (size_t i = 0; i < nh; i++) in += position(p, np, h[i]) >= 0;
    return nh ? (int)(10 * (size_t)in / nh) : 0;
}

typedef struct features {
    uint32_t *slot; /* [MOST_WORDS * MOST_WORDS + 4 * MOST_WORDS] */
    size_t n;
} features;

static void put(features *f, uint32_t kind, uint32_t a, uint32_t b) {
    uint64_t h = rng_mix(((uint64_t)a << 32 | b) + kind * UINT64_C(0x9E3779B97F4A7C15));
    f->slot[f->n++] = (uint32_t)(h >> (64 - BITS));
}

static void extract(baseline_kind kind, const row *r, features *f) {
    uint32_t p[MOST_WORDS], h[MOST_WORDS];
    size_t np = kind == BASELINE_HYPOTHESIS ? 0 : hash_words(r->premise, p);
    size_t nh = kind == BASELINE_PREMISE ? 0 : hash_words(r->hypothesis, h);
    f->n = 0;
    put(f, 0, 0, 0);
    if (kind == BASELINE_PREMISE)
        for (size_t i = 0; i < np; i++) put(f, 1, p[i], 0);
    for (size_t i = 0; i < nh; i++) put(f, 2, h[i], 0);
    if (kind != BASELINE_CROSSES) return;
    for (size_t i = 0; i < np; i++)
        for (size_t j = 0; j < nh; j++) put(f, 3, p[i], h[j]);
    put(f, 4, (uint32_t)overlap(p, np, h, nh), 0);
    /* order: do two words of the hypothesis follow each other the same way in the premise? */
    for (size_t i = 0; i + 1 < nh; i++)
        for (size_t j = i + 1; j < nh; j++) {
            int a = position(p, np, h[i]), b = position(p, np, h[j]);
            if (a >= 0 && b >= 0 && a != b) put(f, 5, a < b, 0);
        }
}

/* ---- logistic regression by AdaGrad over hashed features */

typedef struct model {
    float *weight, *squares; /* [SLOTS] */
    features f;
} model;

static float score(const model *m) {
    float s = 0;
    for (size_t i = 0; i < m->f.n; i++) s += m->weight[m->f.slot[i]];
    return s;
}

static void update(model *m, int label) {
    float s = score(m), p = 1 / (1 + expf(-s)), g = p - (float)(label != 0), g2 = g * g;
    for (size_t i = 0; i < m->f.n; i++) {
        uint32_t k = m->f.slot[i];
        m->squares[k] += g2;
        m->weight[k] -= 0.1f * g / sqrtf(m->squares[k] + 1e-6f);
    }
}

static int logistic(baseline_kind kind, const row *train, size_t *order, size_t n, const row *test, const size_t *ask,
                    size_t m, unsigned char *predicted) {
    model x = {calloc(SLOTS, sizeof(float)), calloc(SLOTS, sizeof(float)), {NULL, 0}};
    x.f.slot = malloc((size_t)MOST_WORDS * (2 * MOST_WORDS + 4) * sizeof *x.f.slot);
    int status = x.weight && x.squares && x.f.slot ? 0 : -1;
    rng r = {UINT64_C(0xBA5E), 0};
    for (int epoch = 0; epoch < EPOCHS && !status; epoch++) {
        rng_shuffle_items(&r, order, n, sizeof *order);
        for (size_t i = 0; i < n; i++) {
            extract(kind, &train[order[i]], &x.f);
            update(&x, train[order[i]].label);
        }
    }
    for (size_t i = 0; i < m && !status; i++) {
        extract(kind, &test[ask[i]], &x.f);
        predicted[ask[i]] = score(&x) >= 0;
    }
    free(x.weight);
    free(x.squares);
    free(x.f.slot);
    return status;
}

/* ---- overlap with the threshold and the direction that are best on train */

static int row_overlap(const row *r) {
    uint32_t p[MOST_WORDS], h[MOST_WORDS];
    size_t np = hash_words(r->premise, p), nh = hash_words(r->hypothesis, h);
    return overlap(p, np, h, nh);
}

static void threshold(const row *train, const size_t *order, size_t n, const row *test, const size_t *ask, size_t m,
                      unsigned char *predicted) {
    size_t at[11][2] = {{0}}, most = 0;
    int cut = 0, above = 1;
    for (size_t i = 0; i < n; i++) at[row_overlap(&train[order[i]])][train[order[i]].label != 0]++;
    for (int c = 0; c <= 11; c++)
        for (int high = 0; high < 2; high++) {
            size_t right = 0;
            for (int v = 0; v < 11; v++) right += at[v][v >= c ? high : !high];
            if (right > most) most = right, cut = c, above = high;
        }
    for (size_t i = 0; i < m; i++)
        predicted[ask[i]] = (unsigned char)(row_overlap(&test[ask[i]]) >= cut ? above : !above);
}

/* ---- every source is fitted on its own */

static size_t select_source(const row *rows, size_t n, const char *source, size_t *out) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(rows[i].source, source)) out[k++] = i;
    return k;
}

int baseline_predict(baseline_kind kind, const row *train, size_t n, const row *test, size_t m,
                     unsigned char *predicted) {
    size_t *order = malloc((n + 1) * sizeof *order), *ask = malloc((m + 1) * sizeof *ask);
    unsigned char *done = calloc(m + 1, 1);
    int status = order && ask && done ? 0 : -1;
    for (size_t i = 0; i < m && !status; i++) {
        if (done[i]) continue;
        size_t asked = select_source(test, m, test[i].source, ask),
               known = select_source(train, n, test[i].source, order);
        for (size_t k = 0; k < asked; k++) done[ask[k]] = 1;
        if (kind == BASELINE_OVERLAP)
            threshold(train, order, known, test, ask, asked, predicted);
        else
            status = logistic(kind, train, order, known, test, ask, asked, predicted);
    }
    free(order);
    free(ask);
    free(done);
    return status;
}

/* A view from a trained model: its maps over one pair, and its gate over a sample of labelled rows. */
#ifndef VISUALIZE_CAPTURE_H
#define VISUALIZE_CAPTURE_H

#include "checkpoint/model.h"
#include "encoder/labels.h"
#include "eval/score.h"
#include "text/encode.h"
#include "visualize/view.h"

typedef struct capture {
    view v; /* points into the rest and into the caller's strings */
    encoded_pair pair;
    const char **token;
    int *segment;
    dea_real *memory; /* all maps */
    float *alpha;
    double *probability;
    scores sample;
    char model_text[512], sample_text[512];
} capture; /* {0} is an empty one */

/* What to look at. */
typedef struct capture_pair {
    const char *premise, *hypothesis;
    const row *row;   /* where it comes from, for `labels`; NULL: the user's own */
    labeller *labels; /* NULL: no labels from an oracle */
    double alpha;     /* the pair's label where there is no row; NaN: none */
    int label;        /* class, -1: unknown */
} capture_pair;

/* Runs the model on the pair. Too long a premise loses tokens from its front; *cut says how many. 0, or -1 with a message. */
int capture_sentence(capture *c, const model *m, const char *name, const capture_pair *pair, size_t *cut,
                     text_error *error);

/* Runs the model on labelled rows, for the histogram and the heads' means. `text` says what they are. */
int capture_sample(capture *c, const model *m, const row *rows, size_t count, const score_options *options,
                   const char *text, text_error *error);

void capture_free(capture *c);

#endif

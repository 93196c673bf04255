/* What the pictures show: one sentence seen by every head of a model, and a sample of labelled pairs. A plain struct that
 * whoever has a model fills; nothing that draws knows the model. Everything in it belongs to the caller. */
#ifndef VISUALIZE_VIEW_H
#define VISUALIZE_VIEW_H

#include <stddef.h>

#include "text/error.h"
#include "visualize/colour.h"

typedef enum view_map { VIEW_E0, VIEW_E1, VIEW_S, VIEW_ALPHA_HAT, VIEW_ATTENTION, VIEW_MAPS } view_map;

typedef struct view {
    const char *model;                /* one line about the model; NULL: none */
    const char *premise, *hypothesis; /* as the user gave them; NULL: none */
    int layers, heads, tokens;
    const char *const *token; /* [tokens] any bytes */
    const int *segment;       /* [tokens] 0: premise, 1: hypothesis; NULL: all premise */
    const float
        *map[VIEW_MAPS]; /* each [layers, heads, tokens, tokens], query by key; NaN: the query does not see the key */
    const float *alpha;  /* [tokens, tokens] oracle labels, NaN: none; NULL: no labels */
    int classes;         /* 0: no class head */
    const char *const *class_name; /* [classes] */
    const double *probability;     /* [classes] */
    int label;                     /* the true class, -1: unknown */
    /* The sample: oracle alpha and the alpha-hat the model gave, one of each a labelled pair. */
    size_t samples;
    const double *sample_alpha, *sample_alpha_hat; /* [samples] */
    const char *sample_text;                       /* one line about the sample; NULL: none */
    const double *mean_alpha_hat;                  /* [layers, heads], over the sample; NULL: taken from the sentence */
} view;

typedef struct view_map_info {
    const char *file;   /* in file names: "E0tilde" */
    const char *symbol; /* in pictures */
    const char *title;  /* what it is, in words */
    const char *ascii;  /* the symbol for a terminal */
    colour_scale scale;
} view_map_info;

const view_map_info *view_info(view_map map);
int view_map_by_file(const char *file, view_map *map); /* 0, or -1 for an unknown name */

/* 0, or -1 with a message that names what is missing or out of range. */
int view_check(const view *v, text_error *error);

/* One head's map, [tokens, tokens]. */
const float *view_head(const view *v, view_map map, int layer, int head);

/* Limits of the colour scale over `count` values: SCALE_SEQUENTIAL 0 to the largest (alpha-hat: to 0.95, always),
 * SCALE_DIVERGING symmetric about 0. Values that are not finite do not count; low < high always. */
void view_range(view_map map, const float *value, size_t count, double *low, double *high);

/* Mean of alpha-hat of one head over the sentence's visible cells, NaN if it sees none. */
double view_sentence_alpha_hat(const view *v, int layer, int head);

#endif

/* Training curves from the log of build/train: JSON lines, objects with a number "step" and any of loss, lm_loss, gate_loss,
 * stage_accuracy, dev_accuracy, gamma, alpha_mae, tokens and seconds. Lines without a step are passed over. Where a run was
 * resumed, what the log says last about a step holds. */
#ifndef VISUALIZE_CURVES_H
#define VISUALIZE_CURVES_H

#include <stddef.h>

#include "text/error.h"
#include "visualize/album.h"

typedef struct curves {
    size_t count, step_capacity, value_capacity;
    double *step;     /* [count], rising */
    double *value;    /* [count, CURVES_MEMBERS], NaN where the line has none */
    size_t cut_lines; /* 1 where the last line stops in the middle, as a log that is being written may */
} curves;             /* {0} is an empty one */

#define CURVES_MEMBERS 8
#define CURVES_FIGURES 5

/* Reads `path`. 0, or -1 with "FILE:LINE: ..."; then *c is empty. */
int curves_load(curves *c, const char *path, text_error *error);
void curves_free(curves *c);

/* Name of figure i, "curves_loss" and so on; NULL past the end. */
const char *curves_name(int i);

/* Those figures for which the log has values. 0, or -1 with a message. */
int curves_add(album *a, const curves *c, text_error *error);

#endif

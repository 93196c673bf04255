/* What a run is judged by (2.10, 2.14): the action a generated text takes, the table of actions, AUROC, calibration. */
#ifndef META_METRICS_H
#define META_METRICS_H

#include <stdio.h>

#include "dea.h"

/* Texts that a target is made of. */
typedef struct meta_wording {
    const char *refuse;  /* "I am not sure enough to answer this." */
    const char *correct; /* "No, the answer is " */
} meta_wording;

/* What a generated text does, leading spaces aside: starts with the refuse text, with the correction and a candidate, with a
 * candidate, or else. A candidate counts as a whole word; *named (or NULL) is the longest that fits, -1 if none is named. */
dea_meta_action meta_classify(const meta_wording *wording, const char *text, const char *const *candidates, int count,
                              int *named);

/* Counts over the items of an evaluation. */
typedef struct meta_tally {
    int table[4][2];   /* [dea_meta_action][base right] */
    int items, right;  /* `right`: the named candidate is the right one */
    int fixed, broken; /* base wrong, now right; base right, now answered wrong */
} meta_tally;

void meta_tally_add(meta_tally *t, dea_meta_action action, int named, int truth, int base_right);
int meta_tally_refused(const meta_tally *t, int base_right);
int meta_tally_total(const meta_tally *t, int base_right);
/* Accuracy of both, answered accuracy, refusal rates, fixed and broken, the whole table. A ratio over nothing is "-". */
void meta_tally_print(const meta_tally *t, FILE *out);
/* "12.3% (4/33)", or "-" if of is 0, into text. */
void meta_ratio(char *text, size_t size, int part, int of);

/* Area under the ROC curve of score for label 1 against 0, ties half; NaN if there is only one kind. */
double meta_auroc(const double *score, const int *label, int count);
/* Expected calibration error of probabilities of label 1 over `bins` equal bins. */
double meta_ece(const double *probability, const int *label, int count, int bins);

#endif

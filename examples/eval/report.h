/* What an evaluation found: as a page for a person, as JSON for a program, and row by row. */
#ifndef EVAL_REPORT_H
#define EVAL_REPORT_H

#include <stdio.h>

#include "checkpoint/model.h"
#include "eval/score.h"
#include "eval/tables.h"
#include "text/error.h"
#include "text/row.h"

/* Figures of alpha-hat against the labels; NaN where there are none. */
typedef struct alpha_figures {
    double mae, constant_mae, pearson, spearman;
    metrics_bands bands;
} alpha_figures;

typedef struct report {
    const char *checkpoint, *data, *split, *oracle; /* as a person would name them; oracle NULL: none */
    const model *model;
    const row *rows; /* [scores->count] */
    const scores *scores;
    const tables *tables;
    table_row balanced; /* of probe.h; name NULL: no rows of babi18 */
    alpha_figures alpha;
    metrics_calibration calibration;
} report;

/* Works the last two fields out from the others. 0, or -1 when memory ends. */
int report_work_out(report *r, text_error *error);

void report_print(FILE *to, const report *r);

/* One JSON object, for free(); NULL when memory ends. Shares are in [0, 1]; a figure that does not exist is null. */
char *report_json(const report *r);

/* Tab-separated with a line of names: a line for every row, in the order of the data. 0, or -1 with a message. */
int report_predictions(FILE *to, const report *r, text_error *error);

#endif

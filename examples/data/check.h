/* What a data set must hold before it may be used: no leak between splits, balanced labels, nothing that cheap baselines
 * can answer. */
#ifndef DATA_CHECK_H
#define DATA_CHECK_H

#include <stddef.h>

#include "data/baselines.h"
#include "data/split.h"
#include "text/error.h"
#include "text/row.h"

enum { CHECK_SOURCES = 32, CHECK_STEPS = 4 };

/* Accuracy above which a cheap baseline says that a source leaks. */
#define CHECK_LEAK 0.58

typedef struct check_source {
    const char *source; /* NULL in the row that sums up all sources */
    size_t rows[DATA_SPLITS], ones[DATA_SPLITS];
    size_t steps[DATA_SPLITS][CHECK_STEPS]; /* rows of 0, 1, 2, 3 and more steps */
    double test[BASELINE_KINDS];            /* fitted on train, asked on test; NaN without test rows */
    double held_out[BASELINE_CHEAP]; /* six-fold over all rows by group: each row asked of a model that saw no row
                                               of its group; NaN where there are too few rows */
} check_source;

typedef struct check_report {
    check_source all;
    int sources;
    check_source source[CHECK_SOURCES]; /* in the order of the rows */
} check_report;

/* Fills the report and looks for faults. 0: sound. 1: a fault, described in `error`. -1: the check could not be run.
 *
 * Faults: invalid UTF-8; a test or dev row verbatim in train; a group in two splits (kinship's one- and two-step patterns
 * excepted); labels other than half and half in a source and split; other than equal shares of two and three steps in a
 * split of kinship; a cheap baseline above CHECK_LEAK. The last is judged on the held-out folds, where even the smallest
 * source has several hundred rows (chance stays below 58% by three standard errors or more), and on the test split with an
 * allowance of 2.6 standard errors, since 70 rows give 58% to one fair coin in ten. */
int data_check(const row *rows, size_t n, check_report *report, text_error *error);

#endif

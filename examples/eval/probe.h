/* What counting cannot do: babi18b, task 18 with both things told as often to be bigger and as often smaller. Most answers of
 * babi18 can be had from these counts alone, so its accuracy does not say whether a model joins two facts; this does. */
#ifndef EVAL_PROBE_H
#define EVAL_PROBE_H

#include <stddef.h>

#include "checkpoint/model.h"
#include "eval/tables.h"
#include "text/error.h"
#include "text/row.h"

/* Is any of the rows of babi18? Only then the probe says something about the data. */
int probe_applies(const row *rows, size_t count);

/* Scores fresh stories of the test split, the same for every model: name, count and right of *out, count 0 where the model
 * does not know their words. 0, or -1 with one line. */
int probe_run(table_row *out, const model *m, const dea_threads *threads, text_error *error);

#endif

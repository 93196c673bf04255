/* Accuracy by what a row is about, the model's beside the cheap baselines'. */
#ifndef EVAL_TABLES_H
#define EVAL_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "data/baselines.h"
#include "text/arena.h"
#include "text/error.h"
#include "text/row.h"

enum { TABLE_ROWS = 256 };

typedef struct table_row {
    const char *name; /* owned by the tables, or a row's own string */
    int64_t count, right;
    int64_t baseline[BASELINE_KINDS]; /* rows that it gets right */
} table_row;

typedef struct table {
    const char *title;
    int count;
    table_row row[TABLE_ROWS]; /* sorted by name */
} table;

/* TABLE_SWAPPED: false hypotheses made of exactly the letters of a true one about the same premise ("Ruth is Mark's
 * aunt", "Mark is Ruth's aunt"), by source: who ignores order gets none of them right. */
typedef enum table_kind {
    TABLE_ALL,
    TABLE_SOURCE,
    TABLE_KIND,
    TABLE_STEPS,
    TABLE_SOURCE_STEPS,
    TABLE_SWAPPED,
    TABLES
} table_kind;

typedef struct tables {
    table table[TABLES];
    int baselines; /* 0: they were not run */
    arena strings;
} tables;

/* right[i]: whether the model is right on row i; baseline[kind][i] likewise, or NULL for all where none was run. 0, or
 * -1 with a message; then nothing needs freeing. */
int tables_make(tables *t, const row *rows, size_t count, const unsigned char *right,
                const unsigned char *const *baseline, text_error *error);
void tables_free(tables *t);

/* The best baseline's share of right rows; 0 where none was run. */
double table_best_baseline(const tables *t, const table_row *row);

#endif

/* A list of rows in memory, and loading one from any of the row formats. */
#ifndef TEXT_ROWS_H
#define TEXT_ROWS_H

#include <stddef.h>

#include "text/arena.h"
#include "text/error.h"
#include "text/lines.h"
#include "text/row.h"

typedef struct rows {
    row *row; /* [count] */
    size_t count, capacity;
    arena strings;
} rows; /* {0} is an empty list */

typedef enum rows_format {
    ROWS_AUTO, /* told by the first line: "1 Sentence" is bAbI, a CSV header with story and query is CLUTRR, else TSV */
    ROWS_TSV,  /* tsv.h: nine or three columns */
    ROWS_BABI, /* babi.h */
    ROWS_CLUTRR, /* clutrr.h */
} rows_format;

/* Appends the rows of `path`. 0, or -1 with "FILE:LINE: ...". *warning (may be NULL) becomes the known flaws of the
 * data for the program to print, or "" when there are none; it needs no freeing. On error the list keeps what it held
 * before. */
int rows_load(rows *list, const char *path, rows_format format, const char **warning, text_error *error);

/* The same from an open line reader, which is closed. */
int rows_read(rows *list, lines *l, rows_format format, const char **warning, text_error *error);

/* Appends one row whose strings already live in list->strings or longer. 0, or -1 when memory ends. */
int rows_add(rows *list, const row *r, text_error *error);

void rows_free(rows *list);

#endif

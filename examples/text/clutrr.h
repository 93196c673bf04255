/* Rows from CLUTRR's CSV (RFC 4180: quoted fields may hold commas, doubled quotes and line ends). Columns by header
 * name: story   names in [brackets]; the brackets are dropped         -> premise query   ('A', 'B') -> who target  what
 * B is to A, a kin word (or its number, with the word in target_text)   -> "B is A's target." Every record gives a true
 * row and a false twin: the same two people with another kin word of the same gender. Where they stand: f_comb
 * ("sister-son") gives group and steps, task_split the split, which the file's name gives else (test; valid, dev; else
 * train). */
#ifndef TEXT_CLUTRR_H
#define TEXT_CLUTRR_H

#include <stdbool.h>

#include "text/arena.h"
#include "text/csv.h"
#include "text/error.h"
#include "text/lines.h"
#include "text/row.h"

enum {
    CLUTRR_STORY,
    CLUTRR_QUERY,
    CLUTRR_TARGET,
    CLUTRR_TARGET_TEXT,
    CLUTRR_COMBINATION,
    CLUTRR_SPLIT,
    CLUTRR_COLUMNS
};

typedef struct clutrr {
    csv csv;
    const char *split;
    size_t column[CLUTRR_COLUMNS]; /* where each stands in the file, SIZE_MAX: nowhere */
    size_t columns;                /* of the header; 0 before it is read */
    arena strings;                 /* of the record read last and its twin */
    row twin;                      /* the false twin, waiting to be given */
    bool has_twin, yielded;
} clutrr;

int clutrr_open(clutrr *c, const char *path, text_error *error);

/* Reads what an open line reader has left, and takes it over. */
void clutrr_attach(clutrr *c, const lines *l);

/* 1: *out is the next row; its strings live in `strings`. 0: end of file. -1: error "FILE:LINE: ...". A file without
 * any record is an error. */
int clutrr_next(clutrr *c, arena *strings, row *out, text_error *error);

void clutrr_close(clutrr *c);

#endif

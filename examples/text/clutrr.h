/* Rows from CLUTRR's CSV (RFC 4180: quoted fields may hold commas, doubled quotes and line ends). Columns by header
 * name: story   names in [brackets]; the brackets are dropped         -> premise query   ('A', 'B') -> who target  what
 * B is to A, a kin word                            -> "B is A's target." Every record gives a true row and a false
 * twin: the same two people with another kin word of the same gender. Optional columns: task_name or f_comb give the
 * number of steps (facts), split_name or the file's name the split. */
#ifndef TEXT_CLUTRR_H
#define TEXT_CLUTRR_H

#include "text/arena.h"
#include "text/error.h"
#include "text/lines.h"
#include "text/row.h"

typedef struct clutrr {
    lines lines;
    const char *split;
    struct clutrr_record *record;
    int column[5];
    size_t columns;
    row waiting;
    int has_waiting;
    size_t yielded;
} clutrr;

int clutrr_open(clutrr *c, const char *path, text_error *error);
int clutrr_open_memory(clutrr *c, const char *name, const void *data, size_t size, text_error *error);

/* 1: *out is the next row; its strings live in `strings`. 0: end of file. -1: error. A file without records is an
 * error. */
int clutrr_next(clutrr *c, arena *strings, row *out, text_error *error);

void clutrr_close(clutrr *c);

#endif

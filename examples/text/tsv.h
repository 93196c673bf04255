/* Rows from a tab-separated file, in one of two forms, told apart by the first line:
 *   split source relation label kind steps group premise hypothesis     the data set's own nine columns
 *   label premise hypothesis                                            the rest is then: split "", source "tsv",
 *                                                                       relation "", kind "true" or "hard", steps 0,
 * group "" label is 0 or 1; split is train, dev or test; kind is true for label 1, hard or easy for label 0; steps is a
 * number >= 0; source, premise and hypothesis are not empty. An empty line is an error, since a row may have been lost
 * there. */
#ifndef TEXT_TSV_H
#define TEXT_TSV_H

#include <stdio.h>

#include "text/arena.h"
#include "text/error.h"
#include "text/lines.h"
#include "text/row.h"

typedef struct tsv {
    lines lines;
    size_t columns; /* 9 or 3; 0 before the first row */
} tsv;

/* Opens `path`, which must outlive the reader (messages name it). 0, or -1 with a message. */
int tsv_open(tsv *t, const char *path, text_error *error);

/* Reads what an open line reader has left, and takes it over. */
void tsv_attach(tsv *t, const lines *l);

/* 1: *out is the next row; its strings live in `strings`. 0: end of file. -1: error "FILE:LINE: ...".
 * A file without any row is an error. */
int tsv_next(tsv *t, arena *strings, row *out, text_error *error);

void tsv_close(tsv *t);

/* Writes one row in nine columns, with its newline. 0, or -1 where tsv_next would not read the same row back, or on a
 * write error. */
int tsv_write(FILE *file, const row *r, text_error *error);

#endif

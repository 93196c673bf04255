/* Records of RFC 4180: fields between commas; a field in double quotes may hold commas, line ends (given as one LF) and
 * doubled quotes. */
#ifndef TEXT_CSV_H
#define TEXT_CSV_H

#include <stddef.h>

#include "text/error.h"
#include "text/lines.h"

typedef struct csv {
    lines lines;
    size_t number; /* line on which the record given last begins, for messages */
    char *text;    /* the fields, each NUL-terminated; owned */
    size_t length, capacity;
    size_t *start; /* [fields]: where each begins in text; owned */
    size_t fields, starts;
} csv;

/* Reads what an open line reader has left, and takes it over. */
void csv_attach(csv *c, const lines *l);

/* 1: the next record is there (fields > 0), valid until the next call. 0: end of file. -1: error "FILE:LINE: ...": a
 * quote inside of an unquoted field, text behind a closing quote, a quote never closed, an empty line. */
int csv_next(csv *c, text_error *error);

/* Field i of the record, NUL-terminated. */
char *csv_field(const csv *c, size_t i);

/* Formats "name:line: ..." with the line on which the record begins; returns -1. */
int csv_fail(const csv *c, text_error *error, const char *format, ...) TEXT_PRINTF(3, 4);

void csv_close(csv *c);

#endif

/* A streaming reader of UTF-8 text lines. Memory holds one line; a line may be as long as memory.
 * LF, CR LF and a missing last newline end a line alike; a byte-order mark at the start is dropped. A NUL byte, invalid
 * UTF-8, a directory or a read error is an error that names file and line. */
#ifndef TEXT_LINES_H
#define TEXT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "text/error.h"

typedef struct lines {
    FILE *file;       /* NULL: reads `memory` */
    const char *name; /* for messages; the caller's string, kept by reference */
    const char *memory;
    size_t memory_left;
    size_t number; /* of the line that lines_next gave last; the first is 1 */
    size_t bytes;  /* read so far, for progress */
    char *buffer;  /* owned */
    size_t used;   /* buffer[used..filled) is read and not yet given out */
    size_t filled, capacity;
    char *line; /* the line given last, and its length */
    size_t length;
    bool ended, again;
} lines;

/* Opens `path`. 0, or -1 with a message. */
int lines_open(lines *l, const char *path, text_error *error);

/* Reads from memory (tests, fuzzing, text that is already there); `data` is not copied and must outlive the reader. */
void lines_open_memory(lines *l, const char *name, const void *data, size_t size);

/* 1: *line is the next line, NUL-terminated, without its line end, valid until the next call; it may be written to.
 * 0: end of file. -1: error. */
int lines_next(lines *l, char **line, size_t *length, text_error *error);

/* The next call of lines_next gives the same line once more: for a look at the first line. */
void lines_again(lines *l);

/* Formats "name:number: ..." into `error`; returns -1. */
int lines_fail(const lines *l, text_error *error, const char *format, ...) TEXT_PRINTF(3, 4);

void lines_close(lines *l);

#endif

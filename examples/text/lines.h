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
    FILE *file;
    const char *name; /* for messages; the caller's string, kept by reference */
    size_t number;    /* of the line that lines_next gave last; the first is 1 */
    size_t bytes;     /* read so far, for progress */
    char *buffer;
    size_t used, filled, capacity; /* buffer[used..filled) is read and not yet given out */
    bool ended;
} lines;

/* Opens `path`. 0, or -1 with a message. */
int lines_open(lines *l, const char *path, text_error *error);

/* Reads from memory (tests, fuzzing, text that is already there); `data` is not copied and must outlive the reader. */
int lines_open_memory(lines *l, const char *name, const void *data, size_t size, text_error *error);

/* Takes over an open stream, which lines_close closes. */
void lines_attach(lines *l, const char *name, FILE *file);

/* 1: *line is the next line, NUL-terminated, without its line end, valid until the next call; it may be written to.
 * 0: end of file. -1: error. */
int lines_next(lines *l, char **line, size_t *length, text_error *error);

/* Formats "name:number: ..." into `error`; returns -1. */
int lines_fail(const lines *l, text_error *error, const char *format, ...) TEXT_PRINTF(3, 4);

void lines_close(lines *l);

/* Length of the longest prefix of `bytes` that is valid UTF-8 (no surrogates, no overlong forms, up to U+10FFFF). */
size_t utf8_valid_prefix(const char *bytes, size_t length);

#endif

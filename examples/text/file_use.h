/* The files that a program was asked to read and to write: none of those to be written may be another of them. */
#ifndef TEXT_FILE_USE_H
#define TEXT_FILE_USE_H

#include "text/error.h"

typedef struct file_use {
    const char *option; /* that named it, for the message */
    const char *path;   /* NULL or "": not given */
    int written;
} file_use;

/* 1 if both paths mean one regular file: the same file where they are there, the same name in the same folder where not. */
int file_same(const char *a, const char *b);

/* 0, or -1 with a message that names both options. */
int file_use_check(const file_use *uses, int count, text_error *error);

#endif

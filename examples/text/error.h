/* What went wrong, as one line for a person: "FILE:LINE: what is wrong and what to do". Library code fills it and
 * returns a status; the program prints it. */
#ifndef TEXT_ERROR_H
#define TEXT_ERROR_H

#include <stddef.h>

typedef struct text_error {
    char message[512];
} text_error;

#if defined(__GNUC__)
#    define TEXT_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#    define TEXT_PRINTF(f, a)
#endif

/* Formats into `error` (may be NULL; cut at its size) and returns -1, so that `return text_fail(error, ...)` reads
 * well. */
int text_fail(text_error *error, const char *format, ...) TEXT_PRINTF(2, 3);

/* The same for memory that could not be had; `bytes` is what was asked for. */
int text_fail_memory(text_error *error, size_t bytes);

/* A printable excerpt of user bytes for a message: at most 60 bytes, cut between characters, every control or malformed
 * byte as \xNN. Returns `out`. */
const char *text_excerpt(const char *bytes, size_t length, char out[256]);

#endif

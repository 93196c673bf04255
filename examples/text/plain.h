/* Plain text for language modelling, a paragraph a line; or the glosses of a WordNet data file as such a text. */
#ifndef TEXT_PLAIN_H
#define TEXT_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "text/error.h"
#include "text/lines.h"

typedef struct plain {
    lines lines;
    bool glosses; /* the file is WordNet's data.noun, data.verb, data.adj or data.adv */
    bool yielded;
    char *text; /* a gloss as a paragraph; owned */
    size_t capacity;
} plain;

/* Opens `path`. A file that begins with WordNet's licence ("  1 This software ...") is read as glosses; every synset
 * gives "heron : grey or white wading bird with long neck and long legs and (usually) long bill." 0, or -1 with a
 * message. */
int plain_open(plain *p, const char *path, text_error *error);

/* Reads what an open line reader has left, and takes it over. */
void plain_attach(plain *p, const lines *l);

/* 1: *text is the next paragraph, NUL-terminated, valid until the next call; blank lines are passed over.
 * 0: end of file. -1: error "FILE:LINE: ...". A file without any paragraph is an error. */
int plain_next(plain *p, const char **text, size_t *length, text_error *error);

void plain_close(plain *p);

#endif

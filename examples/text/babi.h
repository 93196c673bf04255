/* Rows from bAbI task files 16 (induction), 17 (position) and 18 (size): lines "n Sentence." or
 * "n Question?<tab>answer<tab>support ids"; n = 1 starts a story. A question and its answer become a statement about
 * the facts told so far: 17, 18  "Is the box bigger than the chest?" no  ->  "the box is bigger than the chest." label
 * 0, kind hard "Does the box fit in the chest?" yes    ->  "the box fits inside the chest."    label 1, kind true 16
 * "What color is Brian?" white            ->  "Brian is white." label 1, and a false twin with another colour of the
 * story, picked by a hash of premise and question (no twin where the story has but one colour) split is "test" or "dev"
 * where the file's name says so (test; valid, dev), else "train"; steps is the number of support ids; group is who or
 * what is asked about, as in the data set. */
#ifndef TEXT_BABI_H
#define TEXT_BABI_H

#include <stdbool.h>

#include "text/arena.h"
#include "text/error.h"
#include "text/lines.h"
#include "text/row.h"

typedef struct babi {
    lines lines;
    const char *split;
    size_t last;   /* number of the story's last line */
    char *premise; /* the story's facts so far, a space between; owned */
    size_t length, capacity;
    arena strings;        /* of the question read last and its twin */
    row twin;             /* the false twin of a task-16 question, waiting to be given */
    bool has_twin, asked; /* asked: the file held a question */
} babi;

int babi_open(babi *b, const char *path, text_error *error);

/* Reads what an open line reader has left, and takes it over. */
void babi_attach(babi *b, const lines *l);

/* 1: *out is the next row; its strings live in `strings`. 0: end of file. -1: error "FILE:LINE: ...". A file without
 * any question is an error. */
int babi_next(babi *b, arena *strings, row *out, text_error *error);

void babi_close(babi *b);

/* What is known to be wrong with the published files, one line a flaw, for the program to print when it uses them. */
extern const char babi_warning[];

#endif

/* Rows from bAbI task files 16 (induction), 17 (position) and 18 (size): lines "n Sentence." or
 * "n Question?<tab>answer<tab>support ids"; n = 1 starts a story. A question and its answer become a statement about
 * the facts told so far: 17, 18  "Is the box bigger than the chest?" no  ->  "the box is bigger than the chest." label
 * 0, kind hard "Does the box fit in the chest?" yes    ->  "the box fits inside the chest."    label 1, kind true 16
 * "What color is Brian?" white            ->  "Brian is white." label 1, and a false twin whose colour the story gives
 * to another animal (the smallest such in byte order; no twin where the story has one colour only) split is "test" or
 * "dev" where the file's name says so (test, valid, dev), else "train"; steps is the number of support ids; group is
 * made of what is asked, in the manner of the data set. */
#ifndef TEXT_BABI_H
#define TEXT_BABI_H

#include "text/arena.h"
#include "text/error.h"
#include "text/lines.h"
#include "text/row.h"

typedef struct babi {
    lines lines;
    const char *split;
    unsigned long last; /* number of the story's last line */
    struct babi_story *story;
    row waiting; /* the false twin of a task-16 question */
    int has_waiting;
    size_t yielded;
} babi;

int babi_open(babi *b, const char *path, text_error *error);
int babi_open_memory(babi *b, const char *name, const void *data, size_t size, text_error *error);

/* 1: *out is the next row; its strings live in `strings`. 0: end of file. -1: error. A file without questions is an
 * error. */
int babi_next(babi *b, arena *strings, row *out, text_error *error);

void babi_close(babi *b);

/* What is known to be wrong with the published files, one line a flaw, for the program to print when it uses them. */
extern const char babi_warning[];

#endif

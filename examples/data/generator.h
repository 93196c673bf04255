/* What the generators of babi.c and kinship.c share: writing a story, and the table by which stream.c finds them. */
#ifndef DATA_GENERATOR_H
#define DATA_GENERATOR_H

#include "data/rng.h"
#include "data/stream.h"

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

/* open: fills the choices of s (source, split and stage are set). draw: writes one story from the draws of r. */
typedef struct generator {
    const char *source;
    int stages;
    const char *const *describe; /* [stages] */
    void (*open)(data_stream *s);
    void (*draw)(const data_stream *s, rng *r, data_story *out);
} generator;

extern const generator babi16_generator, babi17_generator, babi18_generator, babi18b_generator, kinship_generator;

/* Texts are written one after the other into story->text; story_begin starts the next one and returns its address. A text
 * that would not fit is cut (DATA_STORY_TEXT holds the longest story of every source: the tests measure it). */
const char *story_begin(data_story *story);
void story_put(data_story *story, const char *s);
void story_end(data_story *story);

/* Adds a row; the caller fills premise and hypothesis. */
row *story_row(data_story *story, const char *source, const char *split, const char *relation, int label, int steps,
               const char *group);

#endif

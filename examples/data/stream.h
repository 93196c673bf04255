/* Fresh stories on demand, for training without stored rows.
 *
 * A story is a pure function of (source, split, stage, seed, step, index): no state, no allocation, no lock, so any
 * thread may draw any story. Sources: "babi16", "babi17", "babi18", "babi18b", "kinship". Stages run from 1 (easiest) to
 * data_stream_stages(source), which is the distribution of the stored rows. Rows of split "train" ask only about groups
 * of the train split, "dev" and "test" likewise (kinship's one- and two-step patterns are shared by all splits).
 *
 *     data_stream s;
 *     data_story story;
 *     if (data_stream_open(&s, "babi18", "train", 2, 42)) ...;
 *     for (int i = 0; i < 32; i++) {
 *         data_stream_story(&s, step, i, &story);
 *         for (int r = 0; r < story.n; r++) use(&story.rows[r]);
 *     }
 */
#ifndef DATA_STREAM_H
#define DATA_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "text/row.h"

#define DATA_STORY_ROWS 4
#define DATA_STORY_TEXT 1536

/* rows[0], rows[1] are a true hypothesis and its false twin, rows[2], rows[3] likewise; all share one premise. The rows
 * point into `text` of this very object: a copied story still points into the original. */
typedef struct data_story {
    int n; /* rows: 2 or 4 */
    row rows[DATA_STORY_ROWS];
    size_t used; /* bytes of text */
    char text[DATA_STORY_TEXT];
} data_story;

#define DATA_STREAM_CHOICES 4096
#define DATA_STREAM_CLASSES 512

/* Plain value: copy it, drop it, share it between threads (it is never written after data_stream_open). */
typedef struct data_stream {
    int source, split, stage;
    uint64_t key;
    int n; /* choices: what this split may be asked about, in the source's own code */
    uint16_t choice[DATA_STREAM_CHOICES];
    int classes; /* kinship: classes of (answer, false answer), see kinship.c */
    uint32_t cumulated[DATA_STREAM_CLASSES];
    uint16_t first[DATA_STREAM_CLASSES][2], count[DATA_STREAM_CLASSES][2];
    uint8_t relation[DATA_STREAM_CLASSES][2];
    int classes_of_two; /* the first so many classes are of two-step stories */
} data_stream;

/* The sources that can be drawn, ended by NULL. */
const char *const *data_stream_sources(void);

/* Number of stages of a source; 0 for a source that is unknown or cannot be drawn. */
int data_stream_stages(const char *source);

/* One line on what a stage yields; NULL if there is no such stage. */
const char *data_stream_describe(const char *source, int stage);

/* 0; -1 for an unknown source or split, -2 for a stage outside 1 .. data_stream_stages(source). */
int data_stream_open(data_stream *s, const char *source, const char *split, int stage, uint64_t seed);

/* Writes story `index` of step `step`. Always succeeds on an open stream. */
void data_stream_story(const data_stream *s, uint64_t step, uint64_t index, data_story *out);

/* 1 if a kinship row's hypothesis has its two persons swapped: it speaks of somebody as a relative whom the story only names
 * as a bearer ("Mark is Ruth's aunt" where Ruth was Mark's). 0 for every other row. */
int data_is_swapped(const row *r);

#endif

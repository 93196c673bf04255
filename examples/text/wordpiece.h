/* Trains a WordPiece vocabulary from text (the training split and nothing else). Order of ids:
 *   1. [PAD] [UNK] [CLS] [SEP] [MASK];
 *   2. the words that occur at least min_count times, by frequency, ties by bytes;
 *   3. the characters of the text and printable ASCII, alone and as "##c", so that a word of known characters is never
 * a bare [UNK];
 *   4. pieces: the most frequent neighbours of the text's words merged again and again, ties by bytes.
 * The same text gives the same bytes in any order of its lines. */
#ifndef TEXT_WORDPIECE_H
#define TEXT_WORDPIECE_H

#include <stdbool.h>
#include <stddef.h>

#include "text/error.h"
#include "text/tokenizer.h"

typedef struct wordpiece wordpiece;

typedef struct wordpiece_options {
    bool lower;        /* as in tokenizer_load */
    size_t min_count;  /* a word that occurs so often becomes a token; 0 means 1 */
    size_t max_words;  /* at most so many whole words; 0: no limit */
    size_t max_pieces; /* at most so many merged pieces; 0: none */
} wordpiece_options;

wordpiece *wordpiece_new(const wordpiece_options *options); /* NULL when memory ends */

/* Counts the words of one more text. 0, or -1 when memory ends. */
int wordpiece_add(wordpiece *w, const char *text, size_t length, text_error *error);

/* The tokenizer over the vocabulary learnt; NULL with a message. */
tokenizer *wordpiece_finish(wordpiece *w, text_error *error);

void wordpiece_free(wordpiece *w);

#endif

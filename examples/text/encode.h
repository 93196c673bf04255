/* A premise/hypothesis pair as the encoder reads it: [CLS] premise [SEP] hypothesis [SEP]. */
#ifndef TEXT_ENCODE_H
#define TEXT_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "text/error.h"
#include "text/tokenizer.h"

/* Special tokens stand outside of every sentence: sentence 0, place 0, word -1. Sentences count from 1 within their
 * segment, so that a hypothesis has the same numbers after one fact as after nine; places count tokens from 0 within
 * the sentence. After a cut, both count from the first token kept. All below the length of the row. */
typedef struct encoded_pair {
    int32_t *id, *segment, *sentence, *place; /* [length]; segment 0: [CLS] premise [SEP], 1: hypothesis [SEP] */
    int32_t *word; /* [length]: index of the word in its own text (uncut), -1 for special tokens */
    size_t length, capacity;
    size_t premise_begin, premise_end, hypothesis_begin, hypothesis_end; /* half-open token ranges, without specials */
    size_t premise_words, hypothesis_words;                              /* of the uncut texts */
    size_t cut;                                                          /* premise tokens dropped from its front */
    size_t unknown;                                                      /* [UNK] tokens in the row */
    token_list premise, hypothesis; /* the tokens of the uncut texts, with byte ranges */
} encoded_pair;                     /* {0} is an empty one; reused without freeing */

/* Encodes into *out. max_length 0: no limit; else too long a premise loses tokens from its front (out->cut says how
 * many), and -1 with a message where the hypothesis alone does not fit. `cache` may be NULL. */
int encode_pair(const tokenizer *t, token_cache *cache, const char *premise, const char *hypothesis, size_t max_length,
                encoded_pair *out, text_error *error);

/* One text: [CLS] text [SEP], all segment 0, the text in the premise range; cut at its end. For language modelling. */
int encode_text(const tokenizer *t, token_cache *cache, const char *text, size_t length, size_t max_length,
                encoded_pair *out, text_error *error);

void encoded_pair_free(encoded_pair *p);

#endif

/* Alpha labels as rectangles of the attention matrix, in the form that dea.h takes (dea_label_block): queries are
 * premise tokens, keys are hypothesis tokens, every cell outside of all rectangles has no label. */
#ifndef TEXT_BLOCKS_H
#define TEXT_BLOCKS_H

#include <stddef.h>

#include "dea.h"
#include "text/encode.h"
#include "text/error.h"

typedef struct block_list {
    dea_label_block *block; /* [count] */
    size_t count, capacity;
} block_list; /* {0} is an empty list */

/* The pair's alpha in the block [premise tokens x hypothesis tokens] of batch row `batch`. NaN (no label) or an empty
 * side adds nothing. 0, or -1 with a message (alpha outside of [0, 1], no memory). */
int blocks_add_pair(block_list *list, size_t batch, const encoded_pair *pair, float alpha, text_error *error);

/* Cell by cell: cell[p * hypothesis_words + h] is the alpha between word p of the premise and word h of the hypothesis
 * (words of the basic tokenizer, as encoded_pair counts them; [premise_words, hypothesis_words]), NaN for no label.
 * Every piece of a word takes its word's cell; words that were cut off are passed over. Equal neighbouring cells become
 * one rectangle. */
int blocks_add_words(block_list *list, size_t batch, const encoded_pair *pair, const float *cell, text_error *error);

/* The same by token: cell [premise tokens, hypothesis tokens] of the cut row. */
int blocks_add_tokens(block_list *list, size_t batch, const encoded_pair *pair, const float *cell, text_error *error);

/* Cell by cell through a rule: alpha(user, a, b) is the alpha (NaN: no label) between word a of the premise and word b of
 * the hypothesis, both NUL-terminated, in lower case and without accents whatever the vocabulary. `premise` and
 * `hypothesis` are the texts that `pair` was encoded from. */
int blocks_add_rule(block_list *list, size_t batch, const encoded_pair *pair, const char *premise,
                    const char *hypothesis, float (*alpha)(void *user, const char *a, const char *b), void *user,
                    text_error *error);

void block_list_free(block_list *list);

#endif

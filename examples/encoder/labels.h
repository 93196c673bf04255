/* Alpha labels of a row as blocks, from one of the built-in oracles or a cache file. */
#ifndef ENCODER_LABELS_H
#define ENCODER_LABELS_H

#include "data/oracle.h"
#include "text/alpha_cache.h"
#include "text/blocks.h"
#include "text/encode.h"
#include "text/row.h"

typedef struct labeller {
    oracle_kind kind; /* used without a cache */
    uint64_t seed;
    alpha_cache *cache; /* NULL, or alphas from a file; owned */
    size_t missing;     /* rows that the cache lacks, counted as they come */
    float *cell;        /* scratch of the token oracle */
    size_t cell_capacity;
    char *words;
    size_t words_capacity;
} labeller;

/* `oracle`: "relation", "token", "truth", "wordpairs", else the path of an alpha cache. 0, or -1 with a message. */
int labeller_open(labeller *l, const char *oracle, uint64_t seed, text_error *error);
void labeller_close(labeller *l);

/* 1 if the labels give the answer away, so that they must not be mixed into the scores (gamma 0). */
int labeller_tells_answer(const labeller *l);

/* Appends the blocks of row r, encoded as `pair`, as those of batch row `batch`; none where the oracle has no label. */
int labeller_add(labeller *l, const row *r, const encoded_pair *pair, size_t batch, block_list *list,
                 text_error *error);

#endif

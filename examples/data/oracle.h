/* Oracles for alpha, the share of relational against similarity attention, without a language model. All are
 * deterministic: alpha = lo + (hi - lo) * u with the band [lo, hi] from the oracle's rule and u in [0, 1) from a hash of
 * (seed, premise, relation) or, for cells, of (seed, premise, relation, both words). */
#ifndef DATA_ORACLE_H
#define DATA_ORACLE_H

#include <stdint.h>

#include "text/row.h"

typedef enum alpha_band {
    BAND_NONE = -1, /* no label */
    BAND_NEAR,      /* [0, 0.05] */
    BAND_WEAK,      /* [0.15, 0.30] */
    BAND_STRONG     /* [0.75, 0.95] */
} alpha_band;

#define BAND_COUNT 3

typedef enum oracle_kind {
    ORACLE_RELATION,  /* by the relation asked about; the same for true and false hypotheses */
    ORACLE_TOKEN,     /* cell by cell: oracle_cell_alpha */
    ORACLE_TRUTH,     /* by the answer: see oracle_tells_answer */
    ORACLE_WORDPAIRS, /* twins near, cousins weak, relations strong */
    ORACLE_KINDS
} oracle_kind;

/* "relation", "token", "truth", "wordpairs". */
const char *oracle_name(oracle_kind kind);

/* 0, or -1 for an unknown name. */
int oracle_by_name(const char *name, oracle_kind *kind);

/* 1 for the name of an oracle, "none", or a file; a path with a slash is left to its reader to judge. */
int oracle_is_there(const char *name);
#define ORACLE_WANTED                                                                                                  \
    "--oracle takes relation, token, truth, wordpairs, none or a file of alphas, not \"%s\"" /* if not */

/* 1 if the labels give the answer away, so that they must not be mixed into the scores (gamma 0). */
int oracle_tells_answer(oracle_kind kind);

/* Ends of a band; 0, 0 for BAND_NONE. */
void oracle_band_range(alpha_band band, double *lo, double *hi);

/* Band whose range is nearest to alpha (the borders lie half way between ranges: 0.10 and 0.525). */
alpha_band oracle_band_of(double alpha);

/* One label for every cell of a row. BAND_NONE / NaN where the oracle has none: for ORACLE_TOKEN (which labels cells) and
 * for relations or kinds it does not know. */
alpha_band oracle_row_band(oracle_kind kind, const row *r);
double oracle_row_alpha(oracle_kind kind, uint64_t seed, const row *r);

/* The label of ORACLE_TOKEN for one cell: `a` and `b` are words in lower case (query and key, in either order: the label
 * is symmetric). Equal words near; two words of one kind weak; the two things that the hypothesis relates strong. Words
 * without content ("the", "is", punctuation) have no label. */
alpha_band oracle_cell_band(const row *r, const char *a, const char *b);
double oracle_cell_alpha(uint64_t seed, const row *r, const char *a, const char *b);

#endif

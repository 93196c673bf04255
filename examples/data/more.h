/* Further training rows for isa and partof, from words that are not clean enough to be asked about in a test: rare ones,
 * compounds (night heron), and those whose sense is not the usual one. Split train alone, and no word that the split keeps for
 * dev or test. */
#ifndef DATA_MORE_H
#define DATA_MORE_H

#include <stdint.h>

#include "data/wordnet.h"
#include "text/rows.h"

/* Appends a true row and its false twin for every word that fits a category of the isa rows in `known`, and for every part of a
 * whole; sources "isa" and "partof". `known` holds the rows of the data set: its categories are the tails, its heads are left
 * out. 0; -1 with a message. */
int more_rows(const wordnet *w, uint64_t seed, const rows *known, rows *out, text_error *error);

#endif

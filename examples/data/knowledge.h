/* Rows that need knowledge of words: isa and partof from WordNet, capital from the lists of capitals. */
#ifndef DATA_KNOWLEDGE_H
#define DATA_KNOWLEDGE_H

#include <stdint.h>

#include "data/capitals.h"
#include "data/split.h"
#include "data/wordnet.h"
#include "text/rows.h"

/* Each appends `premises[split]` true rows and as many false twins for each split, or fewer where the source has no more
 * (never another number of true than of false ones). Their strings live in out->strings. 0; -1 with a message. */
int isa_rows(const wordnet *w, const string_map *common, uint64_t seed, const size_t premises[DATA_SPLITS], rows *out,
             text_error *error);
int partof_rows(const wordnet *w, const string_map *common, uint64_t seed, const size_t premises[DATA_SPLITS],
                rows *out, text_error *error);
int capital_rows(const capitals *c, uint64_t seed, const size_t premises[DATA_SPLITS], rows *out, text_error *error);

/* "a" or "an". */
const char *article(const char *word);

/* Does the word look like a plural ("fatigues", "teeth"), which no article fits? */
int is_plural(const char *word);

/* The definition of a gloss without its examples and remarks in brackets: up to the first quotation mark or semicolon,
 * blanks trimmed, at most `size` - 1 bytes. Returns 0 if it is empty or has over `most` words. */
int gloss_definition(const char *gloss, int most, char *out, size_t size);

/* 1 if `word` or its plural stands in `text` as a word. */
int text_names(const char *text, const char *word);

/* Puts "something" for `word` and its plural, so that the text does not name what is asked. 0; -1 if `size` is too small. */
int text_mask(char *text, size_t size, const char *word);

/* Appends the false and the true row of one premise, with copies of the texts and the group in out->strings; `like` gives
 * the rest, its kind that of the false row. 0; -1 with a message. */
int add_twin_rows(rows *out, const row *like, const char *lie, const char *truth, text_error *error);

#endif

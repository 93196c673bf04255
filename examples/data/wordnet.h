/* The nouns of WordNet (package wordnet-base): synsets, their relations, and which words are clean enough to ask about. */
#ifndef DATA_WORDNET_H
#define DATA_WORDNET_H

#include <stddef.h>
#include <stdint.h>

#include "text/arena.h"
#include "text/error.h"
#include "text/string_map.h"

typedef struct wordnet_synset {
    uint32_t offset; /* its address in data.noun: the key that pointers use */
    uint8_t lexfile;
    uint32_t word, words;       /* range in `word` */
    uint32_t pointer, pointers; /* range in `pointer` */
    const char *gloss;          /* definition and examples, as in the file */
} wordnet_synset;

typedef struct wordnet_pointer {
    char symbol[3];  /* "@" hypernym, "@i" instance, "~" hyponym, "#p" part of, "%p" has part, ... */
    uint32_t target; /* synset index */
} wordnet_pointer;

typedef struct wordnet_lemma {
    uint32_t sense, senses; /* range in `sense`, in sense order */
    uint32_t noun_tags, first_tags,
        other_tags; /* tagged uses: as a noun, in the first noun sense, as verb or adjective */
} wordnet_lemma;

typedef struct wordnet {
    arena strings;
    string_map lemmas;    /* lower case, as in index.noun */
    wordnet_lemma *lemma; /* [lemmas.count] */
    size_t lemma_capacity;
    wordnet_synset *synset; /* in file order, which is offset order */
    size_t synsets, synset_capacity;
    const char **word; /* as spelt in data.noun */
    size_t words, word_capacity;
    wordnet_pointer *pointer;
    size_t pointers, pointer_capacity;
    uint32_t *sense; /* synset indices */
    size_t senses, sense_capacity;
} wordnet; /* {0} is an empty one */

/* Reads data.noun, index.noun and cntlist.rev from `folder`. 0; -1 with "FILE:LINE: ...". */
int wordnet_load(wordnet *w, const char *folder, text_error *error);
void wordnet_free(wordnet *w);

#define WORDNET_NONE UINT32_MAX

/* Synset that the clean word stands for, its first noun sense; WORDNET_NONE if the word is not clean (DATA.md: a-z, 3-14
 * letters, common, mostly used in that sense, a thing one can point at, nothing offensive in the gloss). */
uint32_t wordnet_clean(const wordnet *w, const string_map *common, const char *word);

/* The first clean word of a synset, or NULL. */
const char *wordnet_clean_word(const wordnet *w, const string_map *common, uint32_t synset);

/* Lemma of a word, or NULL. */
const wordnet_lemma *wordnet_find(const wordnet *w, const char *word);

/* The synsets reached from `synset` by pointers whose symbol begins with `symbol`, breadth first, the start included, at
 * most `limit` of them and `depth` steps away; depths[i] is the distance of reached[i]. Returns their number. */
size_t wordnet_closure(const wordnet *w, uint32_t synset, const char *symbol, int depth, uint32_t *reached, int *depths,
                       size_t limit);

#define WORDNET_CLOSURE   256
#define WORDNET_ANY_DEPTH 64

/* Is `to` reached from `from`, or equal to it? */
int wordnet_reaches(const wordnet *w, uint32_t from, const char *symbol, uint32_t to);

/* Length of the shortest path over a common hypernym; WORDNET_FAR if there is none. */
int wordnet_distance(const wordnet *w, uint32_t a, uint32_t b);

#define WORDNET_FAR 1000

#endif

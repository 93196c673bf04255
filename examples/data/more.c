#include "data/more.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/knowledge.h"
#include "data/rng.h"
#include "text/grow.h"
#include "text/string_map.h"

enum { MOST_WORDS = 40, DEPTH = 8, TRIES = 24, TAILS = 3, LEAST_LETTERS = 3, MOST_LETTERS = 14, MOST_COMPOUND = 40 };

/* A word with its true tail: a category or a whole. */
typedef struct item {
    char word[MOST_COMPOUND + 1]; /* with spaces */
    const char *lemma, *tail;     /* lemma: the word as WordNet writes it */
    uint32_t synset, tail_synset;
    char gloss[400];
} item;

typedef struct items {
    item *at;
    size_t count, capacity;
} items;

static int add(items *list, const item *one, text_error *error) {
    item *grown = grow(list->at, &list->capacity, list->count + 1, sizeof *grown);
    if (!grown) return text_fail_memory(error, sizeof *grown);
    list->at = grown;
    list->at[list->count++] = *one;
    return 0;
}

/* Concrete things, as in the data set: animal, artifact, body, food, object, plant, substance. */
static int is_concrete(int lexfile) {
    static const int concrete[] = {5, 6, 8, 13, 17, 20, 27};
    for (size_t i = 0; i < sizeof concrete / sizeof *concrete; i++)
        if (lexfile == concrete[i]) return 1;
    return 0;
}

/* The first word of a synset that has these letters alone and is no plural, or NULL. */
static const char *first_word(const wordnet *w, uint32_t s, const char *letters, size_t most) {
    for (uint32_t i = 0; i < w->synset[s].words; i++) {
        const char *word = w->word[w->synset[s].word + i];
        const size_t length = strlen(word);
        if (length >= LEAST_LETTERS && length <= most && strspn(word, letters) == length && !is_plural(word))
            return word;
    }
    return NULL;
}

static const char *single_word(const wordnet *w, uint32_t s) {
    return first_word(w, s, "abcdefghijklmnopqrstuvwxyz", MOST_LETTERS);
}

/* A word to ask about: a single one, else a compound (night_heron); NULL: none. */
static const char *head_word(const wordnet *w, uint32_t s) {
    if (!is_concrete(w->synset[s].lexfile)) return NULL;
    const char *single = single_word(w, s);
    return single ? single : first_word(w, s, "abcdefghijklmnopqrstuvwxyz_", MOST_COMPOUND);
}

/* The word may be trained on: the split does not keep it for dev or test, and the data set does not have it. */
static int is_free(const char *source, const char *word, const string_map *heads) {
    return data_split_of(source, word) == DATA_TRAIN && string_map_find(heads, word, strlen(word)) == STRING_MAP_NONE;
}

/* An item without its tail; 0 where the synset has no word that may be trained on. */
static int begin_item(item *i, const wordnet *w, uint32_t s, const char *source, const string_map *heads) {
    *i = (item){.lemma = head_word(w, s), .synset = s};
    if (!i->lemma) return 0;
    snprintf(i->word, sizeof i->word, "%s", i->lemma);
    for (char *c = i->word; *c; c++)
        if (*c == '_') *c = ' ';
    return is_free(source, i->word, heads);
}

static int given_away(const item *i, const char *tail) {
    return text_names(i->gloss, tail) || strstr(i->word, tail) != NULL || strstr(tail, i->word) != NULL;
}

/* ---- what the data set has */

typedef struct known {
    string_map heads, tails;
    uint32_t *synset; /* [tails]: the first sense of each */
} known;

/* "a heron is a bird.": the last word. */
static int note_tail(string_map *tails, const char *claim, text_error *error) {
    const char *end = claim + strlen(claim), *begin;
    if (end > claim && end[-1] == '.') end--;
    for (begin = end; begin > claim && begin[-1] != ' ';) begin--;
    return string_map_add(tails, begin, (size_t)(end - begin)) == STRING_MAP_NONE ? text_fail_memory(error, 64) : 0;
}

static int read_known(known *k, const wordnet *w, const rows *list, const char *source, text_error *error) {
    for (size_t i = 0; i < list->count; i++) {
        const row *r = &list->row[i];
        if (strcmp(r->source, source)) continue;
        if (string_map_add(&k->heads, r->group, strlen(r->group)) == STRING_MAP_NONE)
            return text_fail_memory(error, 64);
        if (note_tail(&k->tails, r->hypothesis, error)) return -1;
    }
    k->synset = malloc((k->tails.count + 1) * sizeof *k->synset);
    if (!k->synset) return text_fail_memory(error, k->tails.count * sizeof *k->synset);
    for (size_t i = 0; i < k->tails.count; i++) {
        const wordnet_lemma *l = wordnet_find(w, k->tails.entry[i].bytes);
        k->synset[i] = l && l->senses ? w->sense[l->sense] : WORDNET_NONE;
    }
    return 0;
}

static void known_free(known *k) {
    string_map_free(&k->heads);
    string_map_free(&k->tails);
    free(k->synset);
}

/* ---- true tails */

static int find_isa(const wordnet *w, const known *k, uint64_t seed, items *list, text_error *error) {
    uint32_t reached[WORDNET_CLOSURE];
    int depth[WORDNET_CLOSURE];
    for (uint32_t s = 0; s < w->synsets; s++) {
        item one;
        if (!begin_item(&one, w, s, "isa", &k->heads)) continue;
        if (!gloss_definition(w->synset[s].gloss, MOST_WORDS, one.gloss, sizeof one.gloss)) continue;
        const size_t n = wordnet_closure(w, s, "@", DEPTH, reached, depth, WORDNET_CLOSURE);
        size_t fit[WORDNET_CLOSURE], found = 0;
        for (size_t t = 0; t < k->tails.count; t++)
            for (size_t i = 1; i < n; i++)
                if (reached[i] == k->synset[t] && !given_away(&one, k->tails.entry[t].bytes) && found < WORDNET_CLOSURE)
                    fit[found++] = t;
        if (!found) continue;
        rng r = {rng_derive(seed, hash_string(1, one.word)), 0};
        for (int taken = 0; taken < TAILS && found > 0; taken++) {
            const size_t at = rng_below(&r, (uint32_t)found), t = fit[at];
            fit[at] = fit[--found];
            one.tail = k->tails.entry[t].bytes;
            one.tail_synset = k->synset[t];
            if (add(list, &one, error)) return -1;
        }
    }
    return 0;
}

static int find_partof(const wordnet *w, const known *k, items *list, text_error *error) {
    uint32_t reached[WORDNET_CLOSURE];
    int depth[WORDNET_CLOSURE];
    for (uint32_t s = 0; s < w->synsets; s++) {
        item part;
        if (!begin_item(&part, w, s, "partof", &k->heads)) continue;
        const size_t n = wordnet_closure(w, s, "#p", 2, reached, depth, WORDNET_CLOSURE);
        for (size_t i = 1; i < n; i++) {
            item one = part;
            one.tail = single_word(w, reached[i]), one.tail_synset = reached[i];
            if (!one.tail || strstr(one.word, one.tail) || strstr(one.tail, one.word)) continue;
            if (!gloss_definition(w->synset[s].gloss, MOST_WORDS, one.gloss, sizeof one.gloss)) continue;
            if (text_mask(one.gloss, sizeof one.gloss, one.tail)) continue;
            if (add(list, &one, error)) return -1;
        }
    }
    return 0;
}

/* ---- false tails */

/* Could it be true, by any sense of the word? */
static int may_hold(const wordnet *w, const item *i, uint32_t tail, const char *symbol) {
    const wordnet_lemma *l = wordnet_find(w, i->lemma);
    for (uint32_t k = 0; l && k < l->senses; k++)
        if (wordnet_reaches(w, w->sense[l->sense + k], symbol, tail)) return 1;
    return wordnet_reaches(w, tail, "@", i->tail_synset) || wordnet_reaches(w, i->tail_synset, "@", tail);
}

/* Another item's true tail, so that a tail is false about as often as it is true; in three cases of four the nearest of some. */
static const item *draw_lie(const wordnet *w, const items *list, size_t index, const char *symbol, int *any, rng *r) {
    const item *i = &list->at[index], *best = NULL;
    int nearest = WORDNET_FAR + 1, wanted = 1;
    *any = rng_below(r, 4) == 0;
    if (!*any) wanted = 6;
    for (int tries = 0, found = 0; tries < TRIES && found < wanted; tries++) {
        const item *other = &list->at[rng_below(r, (uint32_t)list->count)];
        if (!strcmp(other->tail, i->tail) || !strcmp(other->tail, i->word) || given_away(i, other->tail)) continue;
        if (may_hold(w, i, other->tail_synset, symbol)) continue;
        const int distance = wordnet_distance(w, i->tail_synset, other->tail_synset);
        if (distance < nearest) {
            nearest = distance;
            best = other;
        }
        found++;
    }
    return best;
}

static int add_rows(const wordnet *w, uint64_t seed, const items *list, int is_part, rows *out, text_error *error) {
    rng r = {rng_derive(seed, is_part ? 22 : 21), 0};
    for (size_t i = 0; i < list->count; i++) {
        const item *one = &list->at[i];
        char premise[480], claim[2][96];
        int any = 0;
        const int reversed = is_part && rng_below(&r, 4) == 0;
        const item *lie = reversed ? one : draw_lie(w, list, i, is_part ? "#p" : "@", &any, &r);
        if (!lie) continue;
        const char *verb = is_part ? "is part of" : "is";
        snprintf(premise, sizeof premise, "%s : %s.", one->word, one->gloss);
        snprintf(claim[1], sizeof claim[1], "%s %s %s %s %s.", article(one->word), one->word, verb, article(one->tail),
                 one->tail);
        if (reversed)
            snprintf(claim[0], sizeof claim[0], "%s %s %s %s %s.", article(one->tail), one->tail, verb,
                     article(one->word), one->word);
        else
            snprintf(claim[0], sizeof claim[0], "%s %s %s %s %s.", article(one->word), one->word, verb,
                     article(lie->tail), lie->tail);
        const row like = {"train",
                          is_part ? "partof" : "isa",
                          is_part ? "PartOf" : "IsA",
                          0,
                          any ? "easy" : "hard",
                          0,
                          one->word,
                          premise,
                          ""};
        if (add_twin_rows(out, &like, claim[0], claim[1], error)) return -1;
    }
    return 0;
}

int more_rows(const wordnet *w, uint64_t seed, const rows *list, rows *out, text_error *error) {
    int status = 0;
    for (int is_part = 0; is_part < 2 && !status; is_part++) {
        known k = {0};
        items found = {0};
        status = read_known(&k, w, list, is_part ? "partof" : "isa", error);
        if (!status) status = is_part ? find_partof(w, &k, &found, error) : find_isa(w, &k, seed, &found, error);
        if (!status) status = add_rows(w, seed, &found, is_part, out, error);
        free(found.at);
        known_free(&k);
    }
    return status;
}

/* "rung : <gloss>." / "a rung is part of a ladder." WordNet's direct part-of pairs first; where they are too few, parts of
 * a part (rung, ladder, fire escape) fill up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/assign.h"
#include "data/generator.h"
#include "data/knowledge.h"
#include "text/grow.h"

enum { MOST_WORDS = 50 };

typedef struct pair {
    const char *part, *whole;
    uint32_t part_synset, whole_synset;
    size_t tail;
    int indirect; /* a part of a part */
    char gloss[560];
} pair;

typedef struct partof {
    const wordnet *w;
    const string_map *common;
    pair *pair; /* in the order of the files */
    size_t pairs, capacity;
    const char **tail; /* distinct wholes, sorted */
    uint32_t *tail_synset;
    size_t tails;
} partof;

static int add(partof *x, const pair *p, text_error *error) {
    pair *more = grow(x->pair, &x->capacity, x->pairs + 1, sizeof *more);
    if (!more) return text_fail_memory(error, sizeof *more);
    x->pair = more;
    x->pair[x->pairs++] = *p;
    return 0;
}

static int find_pairs(partof *x, text_error *error) {
    const wordnet *w = x->w;
    uint32_t reached[WORDNET_CLOSURE];
    int depth[WORDNET_CLOSURE];
    for (uint32_t s = 0; s < w->synsets; s++) {
        const char *part = wordnet_clean_word(w, x->common, s);
        if (!part || is_plural(part)) continue;
        size_t n = wordnet_closure(w, s, "#p", 2, reached, depth, WORDNET_CLOSURE);
        for (size_t i = 1; i < n; i++) {
            const char *whole = wordnet_clean_word(w, x->common, reached[i]);
            if (!whole || is_plural(whole)) continue;
            pair p = {part, whole, s, reached[i], 0, depth[i] > 1, ""};
            /* the words of the pair must not contain each other (broom, broomstick) */
            if (strstr(part, whole) || strstr(whole, part)) continue;
            if (!gloss_definition(w->synset[s].gloss, MOST_WORDS, p.gloss, sizeof p.gloss)) continue;
            if (text_mask(p.gloss, sizeof p.gloss, whole)) continue;
            if (add(x, &p, error)) return -1;
        }
    }
    return 0;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Numbers the wholes by their bytes. */
static int find_tails(partof *x, text_error *error) {
    x->tail = malloc((x->pairs + 1) * sizeof *x->tail);
    x->tail_synset = malloc((x->pairs + 1) * sizeof *x->tail_synset);
    if (!x->tail || !x->tail_synset) return text_fail_memory(error, x->pairs * sizeof *x->tail);
    for (size_t i = 0; i < x->pairs; i++) x->tail[i] = x->pair[i].whole;
    if (x->pairs) qsort(x->tail, x->pairs, sizeof *x->tail, by_bytes);
    for (size_t i = 0; i < x->pairs; i++)
        if (!x->tails || strcmp(x->tail[x->tails - 1], x->tail[i])) x->tail[x->tails++] = x->tail[i];
    for (size_t i = 0; i < x->pairs; i++) {
        pair *p = &x->pair[i];
        const char **at = bsearch(&p->whole, x->tail, x->tails, sizeof *x->tail, by_bytes);
        p->tail = (size_t)(at - x->tail);
        x->tail_synset[p->tail] = p->whole_synset;
    }
    return 0;
}

/* May a thing of this synset be part of `whole`? Through any chain of parts, kinds of the part, or kinds of the whole. */
static int may_be_part(const wordnet *w, uint32_t part, uint32_t whole) {
    uint32_t kinds[WORDNET_CLOSURE], wholes[WORDNET_CLOSURE];
    int depth[WORDNET_CLOSURE];
    size_t k = wordnet_closure(w, part, "@", WORDNET_ANY_DEPTH, kinds, depth, WORDNET_CLOSURE);
    for (size_t i = 0; i < k; i++) {
        size_t n = wordnet_closure(w, kinds[i], "#p", WORDNET_ANY_DEPTH, wholes, depth, WORDNET_CLOSURE);
        for (size_t j = 1; j < n; j++)
            if (wordnet_reaches(w, whole, "@", wholes[j]) || wordnet_reaches(w, wholes[j], "@", whole)) return 1;
    }
    return 0;
}

static int lemma_may_be_part(const wordnet *w, const char *part, uint32_t whole) {
    const wordnet_lemma *l = wordnet_find(w, part);
    for (uint32_t i = 0; l && i < l->senses; i++)
        if (may_be_part(w, w->sense[l->sense + i], whole)) return 1;
    return 0;
}

typedef struct partof_part {
    const partof *x;
    const size_t *pair; /* item -> pair */
} partof_part;

/* Near is a whole of the same lexical file whose own kind is close: the path over a common hypernym. */
static int partof_cost(const void *context, size_t item, size_t tail) {
    const partof_part *part = context;
    const partof *x = part->x;
    const pair *p = &x->pair[part->pair[item]];
    const char *whole = x->tail[tail];
    uint32_t synset = x->tail_synset[tail];
    if (tail == p->tail || !strcmp(whole, p->part) || text_names(p->gloss, whole) || strstr(p->part, whole)) return -1;
    if (lemma_may_be_part(x->w, p->part, synset)) return -1;
    return wordnet_distance(x->w, p->whole_synset, synset);
}

static int add_pair(const pair *p, const char *lie, int reversed, const char *split, rows *out, text_error *error) {
    char premise[640], claim[2][128];
    snprintf(premise, sizeof premise, "%s : %s.", p->part, p->gloss);
    for (int label = 0; label < 2; label++) {
        const char *a = !label && reversed ? p->whole : p->part, *b = label ? p->whole : reversed ? p->part : lie;
        snprintf(claim[label], sizeof claim[label], "%s %s is part of %s %s.", article(a), a, article(b), b);
    }
    row like = {split, "partof", "PartOf", 0, "hard", 0, p->part, premise, ""};
    return add_twin_rows(out, &like, claim[0], claim[1], error);
}

/* The pairs of a split in the seed's order, the direct ones before the others. */
static size_t pick_pairs(const partof *x, int split, uint64_t seed, size_t want, size_t *pick) {
    size_t n = 0;
    for (int indirect = 0; indirect < 2 && n < want; indirect++) {
        size_t first = n;
        rng r = {rng_derive(seed, 12 + (uint64_t)indirect), 0};
        for (size_t i = 0; i < x->pairs; i++)
            if (x->pair[i].indirect == indirect && data_split_of("partof", x->pair[i].part) == split) pick[n++] = i;
        rng_shuffle_items(&r, pick + first, n - first, sizeof *pick);
    }
    return n < want ? n : want;
}

static int split_rows(const partof *x, int split, uint64_t seed, size_t want, rows *out, text_error *error) {
    size_t room = x->pairs + 1, *pick = malloc(3 * room * sizeof *pick);
    unsigned char *any = calloc(room, 1);
    int status = 0;
    if (!pick || !any) {
        status = text_fail_memory(error, 3 * room * sizeof *pick);
    } else {
        size_t *truth = pick + room, *lie = truth + room, n = pick_pairs(x, split, seed, want, pick), wrong;
        rng r = {rng_derive(rng_derive(seed, 13), (uint64_t)split), 0};
        wrong = n - n / 4; /* the first of the picks get a wrong whole, the last quarter is reversed */
        rng_shuffle_items(&r, pick, n, sizeof *pick); /* direct or not must not tell the sort of lie */
        for (size_t i = 0; i < wrong; i++) truth[i] = x->pair[pick[i]].tail;
        partof_part part = {x, pick};
        int assigned = assign_tails(wrong, x->tails, truth, any, partof_cost, &part, &r, lie);
        if (assigned == -1) status = text_fail_memory(error, n * sizeof *lie);
        if (assigned == -2)
            status = text_fail(error, "partof: a word of split %s allows no false whole", data_split_name(split));
        for (size_t i = 0; i < n && !status; i++)
            status = add_pair(&x->pair[pick[i]], i < wrong ? x->tail[lie[i]] : NULL, i >= wrong, data_split_name(split),
                              out, error);
    }
    free(pick);
    free(any);
    return status;
}

int partof_rows(const wordnet *w, const string_map *common, uint64_t seed, const size_t premises[DATA_SPLITS],
                rows *out, text_error *error) {
    partof x = {.w = w, .common = common};
    int status = find_pairs(&x, error);
    if (!status) status = find_tails(&x, error);
    for (int split = 0; split < DATA_SPLITS && !status; split++)
        status = split_rows(&x, split, seed, premises[split], out, error);
    free(x.pair);
    free(x.tail);
    free(x.tail_synset);
    return status;
}

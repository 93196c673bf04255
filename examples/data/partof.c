/* "rung : <gloss>." / "a rung is part of a ladder." WordNet's direct part-of pairs first; where they are too few, parts of
 * a part (rung, ladder, fire escape) fill up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/assign.h"
#include "data/generator.h"
#include "data/knowledge.h"

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

static int letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Every `word` in text, also in the plural, becomes "something": the text must not name what is asked. */
static int mask(char *text, size_t size, const char *word) {
    char out[560];
    size_t n = 0, length = strlen(word);
    for (const char *at = text; *at;) {
        const char *end = at + length;
        if ((at == text || !letter(at[-1])) && !strncmp(at, word, length)) {
            if (!strncmp(end, "es", 2) && !letter(end[2])) end++;
            if (*end == 's') end++;
            if (!letter(*end)) {
                if (n + 9 >= sizeof out) return -1;
                memcpy(out + n, "something", 9);
                n += 9;
                at = end;
                continue;
            }
        }
        if (n + 1 >= sizeof out) return -1;
        out[n++] = *at++;
    }
    if (n >= size) return -1;
    memcpy(text, out, n);
    text[n] = 0;
    return 0;
}

static int add(partof *x, const pair *p, text_error *error) {
    if (x->pairs == x->capacity) {
        size_t more = x->capacity ? 2 * x->capacity : 512;
        pair *q = realloc(x->pair, more * sizeof *q);
        if (!q) return text_fail_memory(error, more * sizeof *q);
        x->pair = q;
        x->capacity = more;
    }
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
            if (mask(p.gloss, sizeof p.gloss, whole)) continue;
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

static size_t up(const wordnet *w, uint32_t synset, const char *symbol, uint32_t *reached) {
    int depth[WORDNET_CLOSURE];
    return wordnet_closure(w, synset, symbol, 64, reached, depth, WORDNET_CLOSURE);
}

static int holds(const uint32_t *list, size_t n, uint32_t x) {
    for (size_t i = 0; i < n; i++)
        if (list[i] == x) return 1;
    return 0;
}

/* May a thing of this synset be part of `whole`? Through any chain of parts, kinds of the part, or kinds of the whole. */
static int may_be_part(const wordnet *w, uint32_t part, uint32_t whole) {
    uint32_t kinds[WORDNET_CLOSURE], wholes[WORDNET_CLOSURE], above[WORDNET_CLOSURE], under[WORDNET_CLOSURE];
    size_t k = up(w, part, "@", kinds), a = up(w, whole, "@", above);
    for (size_t i = 0; i < k; i++) {
        size_t n = up(w, kinds[i], "#p", wholes);
        for (size_t j = 0; j < n; j++) {
            if (holds(above, a, wholes[j]) && wholes[j] != kinds[i]) return 1;
            if (wholes[j] == kinds[i]) continue;
            size_t u = up(w, wholes[j], "@", under);
            if (holds(under, u, whole)) return 1;
        }
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
    uint32_t synset = x->tail_synset[tail], a[WORDNET_CLOSURE], b[WORDNET_CLOSURE];
    int da[WORDNET_CLOSURE], db[WORDNET_CLOSURE], least = 1000;
    if (tail == p->tail || !strcmp(whole, p->part) || text_names(p->gloss, whole) || strstr(p->part, whole)) return -1;
    if (lemma_may_be_part(x->w, p->part, synset)) return -1;
    size_t n = wordnet_closure(x->w, p->whole_synset, "@", 64, a, da, WORDNET_CLOSURE),
           m = wordnet_closure(x->w, synset, "@", 64, b, db, WORDNET_CLOSURE);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < m; k++)
            if (a[i] == b[k] && da[i] + db[k] < least) least = da[i] + db[k];
    return least;
}

static int add_rows(const pair *p, const char *lie, int reversed, const char *split, rows *out, text_error *error) {
    char premise[640], hypothesis[128];
    snprintf(premise, sizeof premise, "%s : %s.", p->part, p->gloss);
    char *group = arena_copy(&out->strings, p->part, strlen(p->part));
    char *text = arena_copy(&out->strings, premise, strlen(premise));
    if (!group || !text) return text_fail_memory(error, sizeof premise);
    for (int label = 0; label < 2; label++) {
        const char *a = !label && reversed ? p->whole : p->part, *b = label ? p->whole : reversed ? p->part : lie;
        int n = snprintf(hypothesis, sizeof hypothesis, "%s %s is part of %s %s.", article(a), a, article(b), b);
        char *claim = arena_copy(&out->strings, hypothesis, (size_t)n);
        if (!claim) return text_fail_memory(error, sizeof hypothesis);
        row r = {split, "partof", "PartOf", label, label ? "true" : "hard", 0, group, text, claim};
        if (rows_add(out, &r, error)) return -1;
    }
    return 0;
}

/* The pairs of a split in the seed's order, the direct ones before the others. */
static size_t pick_pairs(const partof *x, int split, uint64_t seed, size_t want, size_t *pick) {
    size_t n = 0;
    for (int indirect = 0; indirect < 2 && n < want; indirect++) {
        size_t first = n;
        rng r = {rng_derive(seed, 12 + (uint64_t)indirect), 0};
        for (size_t i = 0; i < x->pairs; i++)
            if (x->pair[i].indirect == indirect && data_split_of("partof", x->pair[i].part) == split) pick[n++] = i;
        for (size_t i = n; i > first + 1; i--) {
            size_t j = first + rng_below(&r, (uint32_t)(i - first)), t = pick[i - 1];
            pick[i - 1] = pick[j];
            pick[j] = t;
        }
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
        wrong = n - n / 4; /* the first of the (shuffled) picks get a wrong whole, the last quarter is reversed */
        for (size_t i = 0; i + 1 < n; i++) { /* shuffled again: direct or not must not tell the sort of lie */
            size_t j = i + rng_below(&r, (uint32_t)(n - i)), t = pick[i];
            pick[i] = pick[j];
            pick[j] = t;
        }
        for (size_t i = 0; i < wrong; i++) truth[i] = x->pair[pick[i]].tail;
        partof_part part = {x, pick};
        int assigned = assign_tails(wrong, x->tails, truth, any, partof_cost, &part, &r, lie);
        if (assigned == -1) status = text_fail_memory(error, n * sizeof *lie);
        if (assigned == -2) status = text_fail(error, "partof: a word of split %s allows no false whole", data_split_name(split));
        for (size_t i = 0; i < n && !status; i++)
            status = add_rows(&x->pair[pick[i]], i < wrong ? x->tail[lie[i]] : NULL, i >= wrong, data_split_name(split), out, error);
    }
    free(pick);
    free(any);
    return status;
}

int partof_rows(const wordnet *w, const string_map *common, uint64_t seed, const size_t premises[DATA_SPLITS], rows *out,
                text_error *error) {
    partof x = {.w = w, .common = common};
    int status = find_pairs(&x, error);
    if (!status) status = find_tails(&x, error);
    for (int split = 0; split < DATA_SPLITS && !status; split++) status = split_rows(&x, split, seed, premises[split], out, error);
    free(x.pair);
    free(x.tail);
    free(x.tail_synset);
    return status;
}

/* "heron : <gloss>." / "a heron is a bird." */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/assign.h"
#include "data/generator.h"
#include "data/knowledge.h"
#include "text/grow.h"

enum { DEPTH = 6, LEAST_CHILDREN = 5, MOST_WORDS = 50, MOST_OF_A_TAIL = 60 };

/* Categories that everything or nothing is one of, or whose usual meaning is not WordNet's first sense. */
static const char *const vague[] = {
    "adornment",   "agent",      "apparatus", "armament",   "art",       "article",       "artifact",
    "attire",      "block",      "baggage",   "bedclothes", "body",      "cap",           "chamber",
    "cloister",    "coating",    "commodity", "conduit",    "connector", "constituent",   "container",
    "covering",    "crockery",   "crystal",   "cutlery",    "curative",  "decoration",    "depository",
    "device",      "dirt",       "duct",      "emblem",     "enclosure", "entrance",      "equipment",
    "excreta",     "extremity",  "facility",  "fixings",    "fixture",   "formulation",   "fragment",
    "goody",       "ground",     "helping",   "housing",    "implement", "instrument",    "instrumentality",
    "lever",       "material",   "mechanism", "mixture",    "molecule",  "nutriment",     "object",
    "obstruction", "organs",     "orifice",   "outlet",     "padding",   "paraphernalia", "part",
    "partition",   "paving",     "placental", "plant",      "platform",  "pole",          "provender",
    "quarters",    "receptacle", "regulator", "root",       "shelter",   "skin",          "slope",
    "star",        "starches",   "structure", "substance",  "surface",   "sweetening",    "system",
    "tissue",      "transducer", "trouser",   "tube",       "unit",      "viscus",        "ware",
    "water",       "way",        "weaponry",  "workplace"};

static int is_vague(const char *word) {
    for (size_t i = 0; i < COUNT_OF(vague); i++)
        if (!strcmp(vague[i], word)) return 1;
    return 0;
}

typedef struct category {
    const char *word;
    uint32_t synset;
} category;

typedef struct head {
    const char *word;
    uint32_t synset;
    size_t category; /* true tail */
    char gloss[512];
} head;

typedef struct isa {
    const wordnet *w;
    const string_map *common;
    category *category; /* sorted by word */
    size_t categories;
    head *head;
    size_t heads;
} isa;

static int by_word(const void *a, const void *b) {
    return strcmp(((const category *)a)->word, ((const category *)b)->word);
}

static int find_categories(isa *x, text_error *error) {
    const wordnet *w = x->w;
    unsigned *below = calloc(w->synsets, sizeof *below);
    size_t capacity = 0;
    int status = below ? 0 : text_fail_memory(error, w->synsets * sizeof *below);
    uint32_t reached[WORDNET_CLOSURE];
    int depth[WORDNET_CLOSURE];
    for (uint32_t s = 0; s < w->synsets && !status; s++) {
        if (!wordnet_clean_word(w, x->common, s)) continue;
        size_t n = wordnet_closure(w, s, "@", DEPTH, reached, depth, WORDNET_CLOSURE);
        for (size_t i = 1; i < n; i++) below[reached[i]]++;
    }
    for (uint32_t s = 0; s < w->synsets && !status; s++) {
        const char *word = below[s] >= LEAST_CHILDREN ? wordnet_clean_word(w, x->common, s) : NULL;
        int hyponyms = 0;
        for (uint32_t p = 0; p < w->synset[s].pointers; p++)
            hyponyms += w->pointer[w->synset[s].pointer + p].symbol[0] == '~';
        if (!word || is_vague(word) || is_plural(word) || hyponyms < LEAST_CHILDREN) continue;
        category *more = grow(x->category, &capacity, x->categories + 1, sizeof *more);
        if (!more) {
            status = text_fail_memory(error, sizeof *more);
            break;
        }
        x->category = more;
        category *c = &x->category[x->categories++];
        c->word = word;
        c->synset = s;
    }
    free(below);
    if (!status && x->categories) qsort(x->category, x->categories, sizeof *x->category, by_word);
    return status;
}

/* A category word inside the head ("catfish", "fish") or in the gloss would answer by spelling. */
static int given_away(const char *word, const char *gloss, const category *c) {
    return text_names(gloss, c->word) || strstr(word, c->word) != NULL;
}

static int find_heads(isa *x, uint64_t seed, text_error *error) {
    const wordnet *w = x->w;
    size_t capacity = 0, *used = calloc(x->categories + 1, sizeof *used);
    int status = used ? 0 : text_fail_memory(error, x->categories * sizeof *used);
    uint32_t reached[WORDNET_CLOSURE];
    int depth[WORDNET_CLOSURE];
    for (uint32_t s = 0; s < w->synsets && !status; s++) {
        head h = {.word = wordnet_clean_word(w, x->common, s), .synset = s};
        if (!h.word || is_plural(h.word) || !gloss_definition(w->synset[s].gloss, MOST_WORDS, h.gloss, sizeof h.gloss))
            continue;
        size_t n = wordnet_closure(w, s, "@", DEPTH, reached, depth, WORDNET_CLOSURE), found = 0;
        size_t fit[WORDNET_CLOSURE];
        for (size_t c = 0; c < x->categories; c++) {
            if (given_away(h.word, h.gloss, &x->category[c]) || used[c] >= MOST_OF_A_TAIL) continue;
            for (size_t i = 1; i < n; i++)
                if (reached[i] == x->category[c].synset && found < WORDNET_CLOSURE) fit[found++] = c;
        }
        if (!found) continue;
        rng r = {rng_derive(seed, hash_string(1, h.word)), 0};
        h.category = fit[rng_below(&r, (uint32_t)found)];
        used[h.category]++;
        head *more = grow(x->head, &capacity, x->heads + 1, sizeof *more);
        if (!more) {
            status = text_fail_memory(error, sizeof *more);
            break;
        }
        x->head = more;
        x->head[x->heads++] = h;
    }
    free(used);
    return status;
}

/* Is `c` above any sense of the word, or below its first one? Above: true. Below: a narrower category of the same kind. */
static int related(const wordnet *w, const char *word, uint32_t first, const category *c) {
    const wordnet_lemma *l = wordnet_find(w, word);
    for (uint32_t k = 0; l && k < l->senses; k++)
        if (wordnet_reaches(w, w->sense[l->sense + k], "@", c->synset)) return 1;
    return wordnet_reaches(w, c->synset, "@", first);
}

typedef struct isa_part {
    const isa *x;
    const size_t *head; /* item -> head */
} isa_part;

static int isa_cost(const void *context, size_t item, size_t tail) {
    const isa_part *part = context;
    const isa *x = part->x;
    const head *h = &x->head[part->head[item]];
    const category *c = &x->category[tail], *truth = &x->category[h->category];
    if (tail == h->category || !strcmp(c->word, h->word) || given_away(h->word, h->gloss, c)) return -1;
    if (related(x->w, h->word, h->synset, c) || related(x->w, c->word, c->synset, truth)) return -1;
    return wordnet_distance(x->w, h->synset, c->synset);
}

static int add_pair(const head *h, const char *lie, const char *truth, int any, const char *split, rows *out,
                    text_error *error) {
    char premise[640], claim[2][128];
    const char *tail[2] = {lie, truth};
    snprintf(premise, sizeof premise, "%s : %s.", h->word, h->gloss);
    for (int label = 0; label < 2; label++)
        snprintf(claim[label], sizeof claim[label], "%s %s is %s %s.", article(h->word), h->word, article(tail[label]),
                 tail[label]);
    row like = {split, "isa", "IsA", 0, any ? "easy" : "hard", 0, h->word, premise, ""};
    return add_twin_rows(out, &like, claim[0], claim[1], error);
}

/* The first `want` heads of a split in an order that the seed decides. */
static size_t pick_heads(const isa *x, int split, uint64_t seed, size_t want, size_t *pick) {
    size_t n = 0;
    for (size_t i = 0; i < x->heads; i++)
        if (data_split_of("isa", x->head[i].word) == split) pick[n++] = i;
    rng r = {rng_derive(seed, 2), 0};
    rng_shuffle_items(&r, pick, n, sizeof *pick);
    return n < want ? n : want;
}

static int split_rows(const isa *x, int split, uint64_t seed, size_t want, rows *out, text_error *error) {
    size_t *pick = malloc((x->heads + 1) * sizeof *pick), *truth = malloc((x->heads + 1) * sizeof *truth),
           *lie = malloc((x->heads + 1) * sizeof *lie);
    unsigned char *any = malloc(x->heads + 1);
    int status = 0;
    if (!pick || !truth || !lie || !any) {
        status = text_fail_memory(error, x->heads * sizeof *pick);
    } else {
        rng r = {rng_derive(rng_derive(seed, 3), (uint64_t)split), 0};
        size_t n = pick_heads(x, split, seed, want, pick);
        isa_part part = {x, pick};
        for (size_t i = 0; i < n; i++) truth[i] = x->head[pick[i]].category, any[i] = rng_below(&r, 4) == 0;
        int assigned = assign_tails(n, x->categories, truth, any, isa_cost, &part, &r, lie);
        if (assigned == -1) status = text_fail_memory(error, n * sizeof *lie);
        if (assigned == -2)
            status = text_fail(error, "isa: a word of split %s allows no false category", data_split_name(split));
        for (size_t i = 0; i < n && !status; i++) {
            status = add_pair(&x->head[pick[i]], x->category[lie[i]].word, x->category[truth[i]].word, any[i],
                              data_split_name(split), out, error);
        }
    }
    free(pick);
    free(truth);
    free(lie);
    free(any);
    return status;
}

int isa_rows(const wordnet *w, const string_map *common, uint64_t seed, const size_t premises[DATA_SPLITS], rows *out,
             text_error *error) {
    isa x = {.w = w, .common = common};
    int status = find_categories(&x, error);
    if (!status) status = find_heads(&x, seed, error);
    for (int split = 0; split < DATA_SPLITS && !status; split++)
        status = split_rows(&x, split, seed, premises[split], out, error);
    free(x.category);
    free(x.head);
    return status;
}

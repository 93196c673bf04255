#include "data/wordpairs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/capitals.h"
#include "data/generator.h"
#include "data/split.h"
#include "data/wordlists.h"
#include "data/wordnet.h"
#include "text/grow.h"
#include "text/lines.h"

enum { SIBLINGS = 8 }; /* words taken under one hypernym */

typedef struct pair_list {
    struct word_pair {
        const char *a, *b;
    } * at;
    size_t count, capacity;
} pair_list;

typedef struct wordpairs {
    wordnet net;
    string_map common, plurals; /* plurals: "singular" -> the same index in plural[] */
    const char **plural;
    size_t plural_capacity;
    uint64_t seed;
    pair_list twins, cousins, isa, partof, capitals, sums;
    string_map vocabulary; /* words of the cousins: the other relations prefer them, so that words come back */
} wordpairs;

static int add(pair_list *list, const char *a, const char *b, text_error *error) {
    struct word_pair *at = a && b ? grow(list->at, &list->capacity, list->count + 1, sizeof *at) : NULL;
    if (!at) return text_fail_memory(error, sizeof *at);
    list->at = at;
    at[list->count++] = (struct word_pair){a, b};
    return 0;
}

static void shuffle(pair_list *list, uint64_t key) {
    rng r = {key, 0};
    rng_shuffle_items(&r, list->at, list->count, sizeof *list->at);
}

/* ---- plurals: noun.exc, "plural singular", then the regular rules; only what SCOWL lists */

static int load_exceptions(wordpairs *x, const char *folder, text_error *error) {
    char path[4096], *line, plural[64], singular[64];
    size_t length;
    lines l;
    int got, status = 0;
    snprintf(path, sizeof path, "%s/noun.exc", folder);
    if (lines_open(&l, path, error)) return -1;
    while (!status && (got = lines_next(&l, &line, &length, error))) {
        if (got < 0) {
            status = -1;
        } else if (sscanf(line, "%63s %63s", plural, singular) != 2) {
            status = lines_fail(&l, error, "not a line \"plural singular\"");
        } else if (string_map_find(&x->common, plural, strlen(plural)) != STRING_MAP_NONE && strcmp(plural, singular) &&
                   string_map_find(&x->plurals, singular, strlen(singular)) == STRING_MAP_NONE) {
            const char **slots = grow(x->plural, &x->plural_capacity, x->plurals.count + 1, sizeof *slots);
            if (!slots) {
                status = text_fail_memory(error, sizeof *slots);
                break;
            }
            x->plural = slots;
            size_t i = string_map_add(&x->plurals, singular, strlen(singular));
            const char *copy = arena_copy(&x->net.strings, plural, strlen(plural));
            if (i == STRING_MAP_NONE || !copy)
                status = text_fail_memory(error, sizeof plural);
            else
                x->plural[i] = copy;
        }
    }
    lines_close(&l);
    return status;
}

/* NULL where no common word is the plural. */
static const char *plural_of(wordpairs *x, const char *word) {
    char out[64];
    size_t i = string_map_find(&x->plurals, word, strlen(word)), n = strlen(word);
    if (i != STRING_MAP_NONE) return x->plural[i];
    const char *end = word + n;
    int sibilant =
        end[-1] == 's' || end[-1] == 'x' || end[-1] == 'z' || !strcmp(end - 2, "ch") || !strcmp(end - 2, "sh");
    if (end[-1] == 'y' && !strchr("aeiou", end[-2]))
        snprintf(out, sizeof out, "%.*sies", (int)(n - 1), word);
    else
        snprintf(out, sizeof out, "%s%s", word, sibilant ? "es" : "s");
    i = string_map_find(&x->common, out, strlen(out));
    return i == STRING_MAP_NONE ? NULL : x->common.entry[i].bytes;
}

/* ---- pairs from WordNet */

static const char *clean(const wordpairs *x, uint32_t synset) {
    return wordnet_clean_word(&x->net, &x->common, synset);
}

/* Two kinds of one thing. The words of a family form a ring, every other pair of it in the plural: so both forms of a word
 * come back in another pair, as they must for a pair to be held out. */
static int find_cousins(wordpairs *x, size_t want, text_error *error) {
    const wordnet *w = &x->net;
    int *order = malloc((w->synsets + 1) * sizeof *order), status = 0;
    rng r = {rng_derive(x->seed, 31), 0};
    if (!order) return text_fail_memory(error, w->synsets * sizeof *order);
    for (size_t i = 0; i < w->synsets; i++) order[i] = (int)i;
    rng_shuffle(&r, order, w->synsets);
    for (size_t i = 0; i < w->synsets && x->cousins.count < want && !status; i++) {
        const wordnet_synset *s = &w->synset[order[i]];
        const char *family[SIBLINGS][2], *word;
        int n = 0;
        for (uint32_t p = 0; p < s->pointers && n < SIBLINGS; p++)
            if (!strcmp(w->pointer[s->pointer + p].symbol, "~") &&
                (word = clean(x, w->pointer[s->pointer + p].target))) {
                const char *many = plural_of(x, word);
                if (!many) continue;
                family[n][0] = word;
                family[n++][1] = many;
            }
        for (int k = 0; k < n && n > 2 && !status; k++) {
            status = add(&x->cousins, family[k][k % 2], family[(k + 1) % n][k % 2], error);
            if (string_map_add(&x->vocabulary, family[k][0], strlen(family[k][0])) == STRING_MAP_NONE)
                status = text_fail_memory(error, 1);
        }
    }
    free(order);
    return status;
}

static int find_twins(wordpairs *x, text_error *error) {
    const wordnet *w = &x->net;
    pair_list synonyms = {0}, forms = {0};
    int status = 0;
    for (uint32_t s = 0; s < w->synsets && !status; s++)
        for (uint32_t i = 0; i < w->synset[s].words && !status; i++) {
            const char *a = w->word[w->synset[s].word + i];
            if (wordnet_clean(w, &x->common, a) != s) continue;
            const char *many = plural_of(x, a);
            int known = string_map_find(&x->vocabulary, a, strlen(a)) != STRING_MAP_NONE;
            if (many && known) status = add(&forms, a, many, error);
            for (uint32_t k = i + 1; k < w->synset[s].words && !status; k++) {
                const char *b = w->word[w->synset[s].word + k];
                if (wordnet_clean(w, &x->common, b) == s) status = add(&synonyms, a, b, error);
            }
        }
    shuffle(&synonyms, rng_derive(x->seed, 32));
    shuffle(&forms, rng_derive(x->seed, 33));
    for (size_t i = 0; (i < forms.count || i < synonyms.count) && !status; i++) {
        if (i < forms.count) status = add(&x->twins, forms.at[i].a, forms.at[i].b, error);
        if (i < synonyms.count && !status) status = add(&x->twins, synonyms.at[i].a, synonyms.at[i].b, error);
    }
    free(synonyms.at);
    free(forms.at);
    return status;
}

static int find_relations(wordpairs *x, text_error *error) {
    const wordnet *w = &x->net;
    int status = 0;
    for (uint32_t s = 0; s < w->synsets && !status; s++) {
        const char *a = clean(x, s), *b;
        if (!a) continue;
        for (uint32_t p = 0; p < w->synset[s].pointers && !status; p++) {
            const wordnet_pointer *to = &w->pointer[w->synset[s].pointer + p];
            if (!(b = clean(x, to->target))) continue;
            if (!strcmp(to->symbol, "@") && string_map_find(&x->vocabulary, a, strlen(a)) != STRING_MAP_NONE)
                status = add(&x->isa, a, b, error);
            if (!strcmp(to->symbol, "#p")) status = add(&x->partof, a, b, error);
        }
    }
    shuffle(&x->isa, rng_derive(x->seed, 34));
    shuffle(&x->partof, rng_derive(x->seed, 35));
    return status;
}

static int find_sums(wordpairs *x, text_error *error) {
    for (int a = 1; a <= 20; a++)
        for (int b = 1; b <= 20; b++) {
            char text[32];
            int n = snprintf(text, sizeof text, "%d + %d", a, b);
            const char *sum = arena_copy(&x->net.strings, text, (size_t)n);
            n = snprintf(text, sizeof text, "%d", a + b);
            if (add(&x->sums, sum, arena_copy(&x->net.strings, text, (size_t)n), error)) return -1;
        }
    shuffle(&x->sums, rng_derive(x->seed, 36));
    return 0;
}

/* ---- choosing and splitting */

static int keep(const pair_list *from, size_t *at, size_t want, const char *relation, string_map *seen, rows *out,
                text_error *error) {
    size_t made = 0;
    for (; *at < from->count && made < want; ++*at) {
        char key[256];
        const struct word_pair *p = &from->at[*at];
        int n = snprintf(key, sizeof key, "%s/%s", p->a, p->b);
        size_t before = seen->count, length = (size_t)n < sizeof key ? (size_t)n : sizeof key - 1;
        if (string_map_add(seen, key, length) == STRING_MAP_NONE) return text_fail_memory(error, length);
        if (seen->count == before) continue;
        row r = {"",
                 "wordpairs",
                 relation,
                 1,
                 "true",
                 0,
                 arena_copy(&out->strings, key, length),
                 arena_copy(&out->strings, p->a, strlen(p->a)),
                 arena_copy(&out->strings, p->b, strlen(p->b))};
        if (!r.group || !r.premise || !r.hypothesis) return text_fail_memory(error, length);
        r.split = data_split_name(data_split_of("wordpairs", r.group));
        if (rows_add(out, &r, error)) return -1;
        made++;
    }
    return 0;
}

/* Calls f for each word of a row's texts; stops when it returns non-zero. */
static int each_word(const row *r, int (*f)(string_map *, const char *, size_t), string_map *words) {
    const char *text[2] = {r->premise, r->hypothesis};
    for (int i = 0; i < 2; i++)
        for (const char *at = text[i]; *at;) {
            size_t n = strcspn(at, " ");
            if (n && f(words, at, n)) return 1;
            at += n + (at[n] == ' ');
        }
    return 0;
}

static int learn(string_map *words, const char *word, size_t n) {
    return string_map_add(words, word, n) == STRING_MAP_NONE;
}

static int is_unknown(string_map *words, const char *word, size_t n) {
    return string_map_find(words, word, n) == STRING_MAP_NONE;
}

/* A pair with a word that no training pair has becomes a training pair itself. */
static int settle_splits(rows *out, size_t first, text_error *error) {
    string_map known = {0};
    int status = 0;
    for (size_t i = first; i < out->count && !status; i++)
        if (!strcmp(out->row[i].split, "train")) status = each_word(&out->row[i], learn, &known);
    for (size_t i = first; i < out->count && !status; i++)
        if (strcmp(out->row[i].split, "train") && each_word(&out->row[i], is_unknown, &known)) {
            out->row[i].split = "train";
            status = each_word(&out->row[i], learn, &known);
        }
    string_map_free(&known);
    return status ? text_fail_memory(error, 1) : 0;
}

static int choose(wordpairs *x, size_t count, rows *out, text_error *error) {
    const struct {
        const pair_list *from;
        const char *relation;
        size_t want;
    } part[] = {{&x->twins, "Twin", count * 45 / 100},        {&x->cousins, "Cousin", count * 25 / 100},
                {&x->isa, "IsA", count * 10 / 100},           {&x->partof, "PartOf", count * 7 / 100},
                {&x->capitals, "CapitalOf", count * 6 / 100}, {&x->sums, "Sum", count * 7 / 100}};
    string_map seen = {0};
    size_t first = out->count;
    int status = 0;
    for (size_t i = 0; i < COUNT_OF(part) && !status; i++) {
        size_t at = 0;
        status = keep(part[i].from, &at, part[i].want, part[i].relation, &seen, out, error);
    }
    string_map_free(&seen);
    return status ? status : settle_splits(out, first, error);
}

/* ---- packages */

static int missing(build_notes *notes, const char *what, const char *path, const char *package) {
    struct stat st;
    if (stat(path, &st) == 0) return 0;
    if (notes->n < BUILD_NOTES)
        snprintf(notes->line[notes->n++], sizeof notes->line[0],
                 "%s left out: %.200s is missing; package %s brings it (apt install %s)", what, path, package, package);
    return 1;
}

static int load_words(wordpairs *x, const build_options *o, size_t count, build_notes *notes, text_error *error) {
    char path[4096];
    snprintf(path, sizeof path, "%s/data.noun", o->wordnet);
    int none = missing(notes, "twins, cousins, isa, partof", path, "wordnet-base");
    snprintf(path, sizeof path, "%s/english-words.10", o->scowl);
    if (missing(notes, "twins, cousins, isa, partof", path, "scowl") || none) return 0;
    if (wordlists_load(&x->common, o->scowl, error) || wordnet_load(&x->net, o->wordnet, error)) return -1;
    if (load_exceptions(x, o->wordnet, error) || find_cousins(x, count, error)) return -1;
    return find_twins(x, error) || find_relations(x, error) ? -1 : 0;
}

static int load_capitals(wordpairs *x, capitals *c, const build_options *o, build_notes *notes, text_error *error) {
    int status = 0;
    if (!missing(notes, "countries", o->countries, "miscfiles"))
        status = capitals_load_countries(c, o->countries, error);
    if (!status && !missing(notes, "divisions of countries", o->kgeography, "kgeography-data"))
        status = capitals_load_maps(c, o->kgeography, error);
    capitals_finish(c);
    for (size_t i = 0; i < c->count && !status; i++)
        status = add(&x->capitals, c->at[i].capital, c->at[i].division, error);
    shuffle(&x->capitals, rng_derive(x->seed, 37));
    return status;
}

int wordpairs_build(const build_options *options, size_t count, rows *out, build_notes *notes, text_error *error) {
    wordpairs x = {.seed = options->seed};
    capitals c = {0};
    notes->n = 0;
    int status = load_words(&x, options, count, notes, error);
    if (!status) status = load_capitals(&x, &c, options, notes, error);
    if (!status) status = find_sums(&x, error);
    if (!status) status = choose(&x, count, out, error);
    if (!status) rows_sort(out);
    pair_list *lists[] = {&x.twins, &x.cousins, &x.isa, &x.partof, &x.capitals, &x.sums};
    for (size_t i = 0; i < COUNT_OF(lists); i++) free(lists[i]->at);
    wordnet_free(&x.net);
    string_map_free(&x.common);
    string_map_free(&x.plurals);
    string_map_free(&x.vocabulary);
    free(x.plural);
    capitals_free(&c);
    return status;
}

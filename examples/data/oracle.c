#include "data/oracle.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "data/rng.h"

static const char *const names[ORACLE_KINDS] = {"relation", "token", "truth", "wordpairs"};
static const double range[BAND_COUNT][2] = {{0, 0.05}, {0.15, 0.30}, {0.75, 0.95}};

const char *oracle_name(oracle_kind kind) {
    return names[kind];
}

int oracle_by_name(const char *name, oracle_kind *kind) {
    for (int k = 0; k < ORACLE_KINDS; k++)
        if (!strcmp(name, names[k])) {
            *kind = (oracle_kind)k;
            return 0;
        }
    return -1;
}

int oracle_is_there(const char *name) {
    oracle_kind kind;
    return oracle_by_name(name, &kind) == 0 || !strcmp(name, "none") || strchr(name, '/') || access(name, F_OK) == 0;
}

int oracle_tells_answer(oracle_kind kind) {
    return kind == ORACLE_TRUTH;
}

void oracle_band_range(alpha_band band, double *lo, double *hi) {
    *lo = band == BAND_NONE ? 0 : range[band][0];
    *hi = band == BAND_NONE ? 0 : range[band][1];
}

alpha_band oracle_band_of(double alpha) {
    return alpha < (range[0][1] + range[1][0]) / 2   ? BAND_NEAR
           : alpha < (range[1][1] + range[2][0]) / 2 ? BAND_WEAK
                                                     : BAND_STRONG;
}

static double in_band(alpha_band band, uint64_t hash) {
    if (band == BAND_NONE) return (double)NAN;
    double u = (double)(hash >> 11) * 0x1p-53; /* exact */
    return range[band][0] + (range[band][1] - range[band][0]) * u;
}

/* ---- one label for a row */

static alpha_band band_of_relation(const char *relation) {
    static const struct {
        const char *relation;
        alpha_band band;
    } table[] = {{"Position", BAND_STRONG},  {"Size", BAND_STRONG}, {"Kin", BAND_STRONG}, {"PartOf", BAND_STRONG},
                 {"CapitalOf", BAND_STRONG}, {"Sum", BAND_STRONG},  {"IsA", BAND_WEAK},   {"HasColor", BAND_WEAK},
                 {"Cousin", BAND_WEAK},      {"Twin", BAND_NEAR}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(relation, table[i].relation)) return table[i].band;
    return BAND_NONE;
}

static alpha_band band_of_word_pair(const char *relation) {
    alpha_band band = band_of_relation(relation);
    return band == BAND_WEAK && strcmp(relation, "Cousin") ? BAND_STRONG
                                                           : band; /* between words, isa is a relation too */
}

static alpha_band band_of_truth(const row *r) {
    return r->label ? BAND_STRONG : !strcmp(r->kind, "hard") ? BAND_WEAK : BAND_NEAR;
}

alpha_band oracle_row_band(oracle_kind kind, const row *r) {
    switch (kind) {
    case ORACLE_RELATION:
        return !strcmp(r->source, "wordpairs") ? band_of_word_pair(r->relation) : band_of_relation(r->relation);
    case ORACLE_WORDPAIRS:
        return band_of_word_pair(r->relation);
    case ORACLE_TRUTH:
        return band_of_truth(r);
    default:
        return BAND_NONE;
    }
}

static uint64_t row_hash(uint64_t seed, const row *r) {
    return hash_string(hash_string(seed, r->premise), r->relation);
}

double oracle_row_alpha(oracle_kind kind, uint64_t seed, const row *r) {
    uint64_t hash = row_hash(seed, r);
    /* word pairs share no premise with a twin of another label: tell their second word too */
    if (!strcmp(r->source, "wordpairs")) hash = hash_string(hash, r->hypothesis);
    return in_band(oracle_row_band(kind, r), hash);
}

/* ---- a label for a cell */

/* The kind of a word: only words of one kind compare. 0: none. */
static int kind_of(const char *word) {
    static const struct {
        int kind;
        const char *words;
    } table[] = {
        {1, " white green gray yellow black brown blue red pink orange purple "},
        {2, " frog lion swan rhino wolf cat mouse sheep horse goat duck bear "},
        {3, " son daughter husband wife father mother brother sister grandson granddaughter grandfather grandmother "
            "uncle aunt "
            "nephew niece law son-in-law daughter-in-law father-in-law mother-in-law "},
        {4, " above below left right "},
        {5, " bigger fits inside "},
    };
    char key[32];
    size_t n = strlen(word);
    if (!n || n + 3 > sizeof key || strchr(word, ' ')) return 0;
    key[0] = ' ';
    memcpy(key + 1, word, n);
    memcpy(key + 1 + n, " ", 2);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strstr(table[i].words, key)) return table[i].kind;
    return 0;
}

static int has_content(const char *word) {
    static const char stop[] =
        " a an the is of to than in and or that with for on at by from as it its be are was one any s t ";
    char key[32];
    size_t n = strlen(word);
    int letters = 0;
    for (size_t i = 0; i < n; i++)
        letters |=
            (word[i] >= 'a' && word[i] <= 'z') || (word[i] >= '0' && word[i] <= '9') || (unsigned char)word[i] >= 0x80;
    if (!letters || n + 3 > sizeof key) return letters;
    key[0] = ' ';
    memcpy(key + 1, word, n);
    memcpy(key + 1 + n, " ", 2);
    return strstr(stop, key) == NULL;
}

/* Where the two things stand that a hypothesis relates: [0] before the words of the relation, [1] after them. */
typedef struct span {
    const char *text;
    size_t length;
} span;

static int split_claim(const row *r, span thing[2]) {
    static const struct {
        const char *relation, *middle[4];
    } table[] = {{"Position", {" is above ", " is below ", " is to the left of ", " is to the right of "}},
                 {"Size", {" is bigger than ", " fits inside "}},
                 {"PartOf", {" is part of "}},
                 {"CapitalOf", {" is the capital of "}},
                 {"Kin", {" is "}},
                 {"IsA", {" is "}},
                 {"HasColor", {" is "}}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].relation, r->relation)) continue;
        for (size_t k = 0; k < 4 && table[i].middle[k]; k++) {
            const char *at = strstr(r->hypothesis, table[i].middle[k]);
            if (!at) continue;
            const char *rest = at + strlen(table[i].middle[k]), *end = rest + strlen(rest);
            if (!strcmp(r->relation, "Kin") && strstr(rest, "'s "))
                end = strstr(rest, "'s "); /* the person, not the kin word */
            thing[0] = (span){r->hypothesis, (size_t)(at - r->hypothesis)};
            thing[1] = (span){rest, (size_t)(end - rest)};
            return 1;
        }
    }
    return 0;
}

/* Does `word` (lower case) stand in the span, whatever its case there? */
static int stands_in(span s, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= s.length; i++) {
        size_t k = 0;
        while (k < n && (s.text[i + k] >= 'A' && s.text[i + k] <= 'Z' ? s.text[i + k] + 32 : s.text[i + k]) == word[k])
            k++;
        int starts = !i || s.text[i - 1] == ' ';
        int ends = i + n == s.length || strchr(" .,'", s.text[i + n]) != NULL;
        if (k == n && starts && ends) return 1;
    }
    return 0;
}

alpha_band oracle_cell_band(const row *r, const char *a, const char *b) {
    span thing[2];
    if (!has_content(a) || !has_content(b)) return BAND_NONE;
    if (!strcmp(a, b)) return BAND_NEAR;
    int kind = kind_of(a);
    if (kind && kind == kind_of(b)) return BAND_WEAK;
    if (!split_claim(r, thing)) return BAND_NONE;
    if ((stands_in(thing[0], a) && stands_in(thing[1], b)) || (stands_in(thing[0], b) && stands_in(thing[1], a)))
        return BAND_STRONG;
    return BAND_NONE;
}

double oracle_cell_alpha(uint64_t seed, const row *r, const char *a, const char *b) {
    int swap = strcmp(a, b) > 0;
    uint64_t hash = hash_string(hash_string(row_hash(seed, r), swap ? b : a), swap ? a : b);
    return in_band(oracle_cell_band(r, a, b), hash);
}

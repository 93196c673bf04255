#include "data/wordnet.h"

#include <stdlib.h>
#include <string.h>

#include "text/grow.h"
#include "text/lines.h"

/* Room for one more element of an array of *w. */
static int room(void *items, size_t count, size_t *capacity, size_t size, text_error *error) {
    void **array = items, *grown = grow(*array, capacity, count + 1, size);
    if (!grown) return text_fail_memory(error, size);
    *array = grown;
    return 0;
}

/* Next field of a line of fields with single blanks between; NULL at its end. */
static char *field(char **at) {
    char *start = *at, *end;
    if (!start || !*start) return NULL;
    end = strchr(start, ' ');
    if (end) *end++ = 0;
    *at = end;
    return start;
}

static int number(char **at, int base, uint32_t *out) {
    char *text = field(at), *end;
    if (!text || !*text) return -1;
    unsigned long v = strtoul(text, &end, base);
    if (*end || v > UINT32_MAX) return -1;
    *out = (uint32_t)v;
    return 0;
}

/* offset lexfile ss_type w_cnt(hex) (word lex_id(hex))* p_cnt (symbol offset pos source/target)* | gloss */
static int read_synset(wordnet *w, char *line, text_error *error) {
    wordnet_synset s = {0};
    uint32_t lexfile, target;
    char *bar = strstr(line, " | "), *at = line, *text;
    if (!bar) return -1;
    *bar = 0;
    size_t gloss = strlen(bar + 3);
    while (gloss && bar[3 + gloss - 1] == ' ') gloss--;
    if (!(s.gloss = arena_copy(&w->strings, bar + 3, gloss))) return text_fail_memory(error, gloss), -2;
    if (number(&at, 10, &s.offset) || number(&at, 10, &lexfile) || lexfile > 255 || !field(&at) ||
        number(&at, 16, &s.words))
        return -1;
    s.lexfile = (uint8_t)lexfile;
    s.word = (uint32_t)w->words;
    for (uint32_t i = 0; i < s.words; i++) {
        if (!(text = field(&at)) || !field(&at)) return -1;
        if (room(&w->word, w->words, &w->word_capacity, sizeof *w->word, error)) return -2;
        if (!(w->word[w->words++] = arena_copy(&w->strings, text, strlen(text)))) return text_fail_memory(error, 1), -2;
    }
    s.pointer = (uint32_t)w->pointers;
    if (number(&at, 10, &s.pointers)) return -1;
    uint32_t nouns = 0;
    for (uint32_t i = 0; i < s.pointers; i++) {
        char *symbol = field(&at), *pos;
        if (!symbol || strlen(symbol) > 2 || number(&at, 10, &target) || !(pos = field(&at)) || !field(&at)) return -1;
        if (*pos != 'n') continue;
        if (room(&w->pointer, w->pointers, &w->pointer_capacity, sizeof *w->pointer, error)) return -2;
        wordnet_pointer *p = &w->pointer[w->pointers++];
        strcpy(p->symbol, symbol);
        p->target = target; /* an offset for now */
        nouns++;
    }
    s.pointers = nouns;
    if (w->synsets && w->synset[w->synsets - 1].offset >= s.offset) return -1;
    if (room(&w->synset, w->synsets, &w->synset_capacity, sizeof *w->synset, error)) return -2;
    w->synset[w->synsets++] = s;
    return 0;
}

static uint32_t synset_at(const wordnet *w, uint32_t offset) {
    size_t lo = 0, hi = w->synsets;
    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        if (w->synset[middle].offset < offset)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < w->synsets && w->synset[lo].offset == offset ? (uint32_t)lo : WORDNET_NONE;
}

/* lemma pos synset_cnt p_cnt symbol* sense_cnt tagsense_cnt offset* */
static int read_index(wordnet *w, char *line, text_error *error) {
    char *at = line, *lemma = field(&at);
    uint32_t senses, pointers, offset;
    wordnet_lemma l = {.sense = (uint32_t)w->senses};
    if (!lemma || !field(&at) || number(&at, 10, &senses) || number(&at, 10, &pointers)) return -1;
    while (pointers--)
        if (!field(&at)) return -1;
    if (!field(&at) || !field(&at)) return -1;
    for (l.senses = senses; senses; senses--) {
        if (number(&at, 10, &offset) || synset_at(w, offset) == WORDNET_NONE) return -1;
        if (room(&w->sense, w->senses, &w->sense_capacity, sizeof *w->sense, error)) return -2;
        w->sense[w->senses++] = synset_at(w, offset);
    }
    size_t index = w->lemmas.count;
    if (room(&w->lemma, index, &w->lemma_capacity, sizeof *w->lemma, error)) return -2;
    size_t added = string_map_add(&w->lemmas, lemma, strlen(lemma));
    if (added == STRING_MAP_NONE) return text_fail_memory(error, strlen(lemma)), -2;
    if (added != index) return -1;
    w->lemma[index] = l;
    return 0;
}

/* lemma%ss_type:lexfile:lex_id:head:head_id sense count */
static int read_count(wordnet *w, char *line, text_error *error) {
    char *at = line, *key = field(&at), *percent = key ? strchr(key, '%') : NULL;
    uint32_t sense, count;
    (void)error;
    if (!percent || number(&at, 10, &sense) || number(&at, 10, &count)) return -1;
    size_t i = string_map_find(&w->lemmas, key, (size_t)(percent - key));
    if (i == STRING_MAP_NONE) return 0;
    wordnet_lemma *l = &w->lemma[i];
    if (percent[1] == '1') {
        l->noun_tags += count;
        if (sense == 1) l->first_tags += count;
    } else if (percent[1] == '2' || percent[1] == '3' || percent[1] == '5') {
        l->other_tags += count;
    }
    return 0;
}

/* read: 0, -1 for a malformed line, -2 with `error` set. */
static int read_file(wordnet *w, const char *folder, const char *name, int (*read)(wordnet *, char *, text_error *),
                     text_error *error) {
    char path[4096], *line;
    size_t length;
    lines l;
    int got, status = 0;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        return text_fail(error, "%.60s...: the path is too long", folder);
    if (lines_open(&l, path, error)) return -1;
    while (!status && (got = lines_next(&l, &line, &length, error))) {
        if (got < 0)
            status = -2;
        else if (length && strncmp(line, "  ", 2)) /* two blanks: the licence */
            status = read(w, line, error);
    }
    if (status == -1) lines_fail(&l, error, "not a line of WordNet's %s", name);
    lines_close(&l);
    return status ? -1 : 0;
}

int wordnet_load(wordnet *w, const char *folder, text_error *error) {
    if (read_file(w, folder, "data.noun", read_synset, error)) return -1;
    for (size_t i = 0; i < w->pointers; i++) {
        uint32_t offset = w->pointer[i].target;
        if ((w->pointer[i].target = synset_at(w, offset)) == WORDNET_NONE)
            return text_fail(error, "%s/data.noun: a pointer to %u, where no synset is", folder, (unsigned)offset);
    }
    return read_file(w, folder, "index.noun", read_index, error) ||
                   read_file(w, folder, "cntlist.rev", read_count, error)
               ? -1
               : 0;
}

void wordnet_free(wordnet *w) {
    arena_free(&w->strings);
    string_map_free(&w->lemmas);
    free(w->lemma);
    free(w->synset);
    free(w->word);
    free(w->pointer);
    free(w->sense);
    *w = (wordnet){0};
}

const wordnet_lemma *wordnet_find(const wordnet *w, const char *word) {
    size_t i = string_map_find(&w->lemmas, word, strlen(word));
    return i == STRING_MAP_NONE ? NULL : &w->lemma[i];
}

static int clean_lexfile(int lexfile) {
    switch (lexfile) {
    case 5:  /* animal */
    case 6:  /* artifact */
    case 8:  /* body */
    case 13: /* food */
    case 17: /* object */
    case 20: /* plant */
    case 27: /* substance */
        return 1;
    default: /* persons (18) are the noisiest, and dated ethnic terms slip through */
        return 0;
    }
}

uint32_t wordnet_clean(const wordnet *w, const string_map *common, const char *word) {
    static const char *const unwanted[] = {"slur", "offensive", "vulgar", "sexual", "slang", "archaic", "genital"};
    size_t n = strlen(word);
    if (n < 3 || n > 14 || strspn(word, "abcdefghijklmnopqrstuvwxyz") != n) return WORDNET_NONE;
    if (string_map_find(common, word, n) == STRING_MAP_NONE) return WORDNET_NONE;
    const wordnet_lemma *l = wordnet_find(w, word);
    if (!l || !l->senses) return WORDNET_NONE;
    if (l->noun_tags ? 2 * l->first_tags < l->noun_tags : l->senses > 3) return WORDNET_NONE;
    if (l->other_tags > l->noun_tags) return WORDNET_NONE;
    const wordnet_synset *s = &w->synset[w->sense[l->sense]];
    if (!clean_lexfile(s->lexfile)) return WORDNET_NONE;
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        if (strstr(s->gloss, unwanted[i])) return WORDNET_NONE;
    return w->sense[l->sense];
}

const char *wordnet_clean_word(const wordnet *w, const string_map *common, uint32_t synset) {
    const wordnet_synset *s = &w->synset[synset];
    for (uint32_t i = 0; i < s->words; i++)
        if (wordnet_clean(w, common, w->word[s->word + i]) == synset) return w->word[s->word + i];
    return NULL;
}

size_t wordnet_closure(const wordnet *w, uint32_t synset, const char *symbol, int depth, uint32_t *reached, int *depths,
                       size_t limit) {
    size_t n = 0, length = strlen(symbol);
    if (!limit) return 0;
    reached[n] = synset;
    depths[n++] = 0;
    for (size_t i = 0; i < n; i++) {
        const wordnet_synset *s = &w->synset[reached[i]];
        if (depths[i] == depth) break;
        for (uint32_t p = 0; p < s->pointers; p++) {
            const wordnet_pointer *to = &w->pointer[s->pointer + p];
            if (strncmp(to->symbol, symbol, length)) continue;
            size_t seen = 0;
            while (seen < n && reached[seen] != to->target) seen++;
            if (seen < n || n == limit) continue;
            reached[n] = to->target;
            depths[n++] = depths[i] + 1;
        }
    }
    return n;
}

int wordnet_reaches(const wordnet *w, uint32_t from, const char *symbol, uint32_t to) {
    uint32_t reached[WORDNET_CLOSURE];
    int depth[WORDNET_CLOSURE];
    size_t n = wordnet_closure(w, from, symbol, WORDNET_ANY_DEPTH, reached, depth, WORDNET_CLOSURE);
    for (size_t i = 0; i < n; i++)
        if (reached[i] == to) return 1;
    return 0;
}

int wordnet_distance(const wordnet *w, uint32_t a, uint32_t b) {
    uint32_t over_a[WORDNET_CLOSURE], over_b[WORDNET_CLOSURE];
    int da[WORDNET_CLOSURE], db[WORDNET_CLOSURE], least = WORDNET_FAR;
    size_t n = wordnet_closure(w, a, "@", WORDNET_ANY_DEPTH, over_a, da, WORDNET_CLOSURE);
    size_t m = wordnet_closure(w, b, "@", WORDNET_ANY_DEPTH, over_b, db, WORDNET_CLOSURE);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < m; k++)
            if (over_a[i] == over_b[k] && da[i] + db[k] < least) least = da[i] + db[k];
    return least;
}

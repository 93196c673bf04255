#include "text/wordpiece.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/basic.h"
#include "text/grow.h"
#include "text/string_map.h"
#include "text/utf8.h"

struct wordpiece {
    wordpiece_options options;
    string_map word; /* of the text */
    uint64_t *count; /* [word.count] */
    size_t capacity;
};

wordpiece *wordpiece_new(const wordpiece_options *options) {
    wordpiece *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->options = *options;
    if (w->options.min_count == 0) w->options.min_count = 1;
    return w;
}

void wordpiece_free(wordpiece *w) {
    if (!w) return;
    string_map_free(&w->word);
    free(w->count);
    free(w);
}

/* ---- counting */

static int count_word(void *user, const basic_word *word) {
    wordpiece *w = user;
    if (word->overlong) return 0;
    uint64_t *count = grow(w->count, &w->capacity, w->word.count + 1, sizeof *count);
    if (!count) return -1;
    w->count = count;
    size_t before = w->word.count, index = string_map_add(&w->word, word->bytes, word->length);
    if (index == STRING_MAP_NONE) return -1;
    if (index == before) w->count[index] = 0;
    w->count[index]++;
    return 0;
}

int wordpiece_add(wordpiece *w, const char *text, size_t length, text_error *error) {
    return basic_words(text, length, w->options.lower, count_word, w) ? text_fail_memory(error, length) : 0;
}

/* ---- order */

struct counted {
    const char *bytes;
    size_t length;
    uint64_t count;
};

static int by_bytes(const struct counted *a, const struct counted *b) {
    size_t shorter = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->bytes, b->bytes, shorter);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static int compare_bytes(const void *a, const void *b) {
    return by_bytes(a, b);
}

static int compare_frequency(const void *a, const void *b) {
    const struct counted *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return by_bytes(x, y);
}

/* ---- pieces: byte-pair merges over the distinct words, each counted once, since they are for words that are no tokens
 */

struct pair {
    size_t count;
    size_t *word; /* words that held it when it was counted; owned */
    size_t words, capacity;
};

struct merger {
    string_map symbol;   /* pieces by text: "a", "##b", "##bc", ... */
    string_map pair_key; /* struct pair_key, as bytes */
    struct pair *pair;   /* [pair_key.count] */
    size_t pairs_capacity;
    size_t **word; /* [words]: symbols */
    size_t *length;
    size_t words;
    arena memory;
};

struct pair_key {
    size_t left, right;
};

static void merger_free(struct merger *m) {
    for (size_t i = 0; i < m->pair_key.count; i++) free(m->pair[i].word);
    free(m->pair);
    free(m->word);
    free(m->length);
    string_map_free(&m->symbol);
    string_map_free(&m->pair_key);
    arena_free(&m->memory);
}

static size_t pair_index(struct merger *m, size_t left, size_t right) {
    struct pair_key key = {left, right};
    struct pair *pair = grow(m->pair, &m->pairs_capacity, m->pair_key.count + 1, sizeof *pair);
    if (!pair) return STRING_MAP_NONE;
    m->pair = pair;
    size_t before = m->pair_key.count, index = string_map_add(&m->pair_key, (const char *)&key, sizeof key);
    if (index == before) m->pair[index] = (struct pair){0};
    return index;
}

/* Counts a pair of word `w`. The word is listed once for each occurrence that is new, so twice at worst for "aaa". */
static int count_pair(struct merger *m, size_t w, size_t left, size_t right, int list) {
    size_t index = pair_index(m, left, right);
    if (index == STRING_MAP_NONE) return -1;
    struct pair *p = &m->pair[index];
    p->count++;
    if (!list || (p->words && p->word[p->words - 1] == w)) return 0;
    size_t *word = grow(p->word, &p->capacity, p->words + 1, sizeof *word);
    if (!word) return -1;
    p->word = word;
    p->word[p->words++] = w;
    return 0;
}

static int split_word(struct merger *m, size_t w, const char *bytes, size_t length) {
    char piece[2 + 4] = "##";
    size_t *symbol = arena_take(&m->memory, length * sizeof *symbol), count = 0;
    if (!symbol) return -1;
    for (size_t at = 0; at < length;) {
        int32_t point;
        size_t size = utf8_decode(bytes + at, length - at, &point);
        memcpy(piece + 2, bytes + at, size);
        symbol[count] = at ? string_map_add(&m->symbol, piece, 2 + size) : string_map_add(&m->symbol, bytes, size);
        if (symbol[count++] == STRING_MAP_NONE) return -1;
        at += size;
    }
    m->word[w] = symbol;
    m->length[w] = count;
    for (size_t i = 1; i < count; i++)
        if (count_pair(m, w, symbol[i - 1], symbol[i], 1)) return -1;
    return 0;
}

/* The text of two symbols together, in `out`: "##ab" + "##c" = "##abc". */
static size_t join(const struct merger *m, const struct pair_key *key, char *out) {
    const struct string_map_entry *left = &m->symbol.entry[key->left], *right = &m->symbol.entry[key->right];
    memcpy(out, left->bytes, left->length);
    memcpy(out + left->length, right->bytes + 2, right->length - 2);
    return left->length + right->length - 2;
}

enum { PIECE = 2 + BASIC_MAX_CHARACTERS * 4 };

static struct pair_key key_of(const struct merger *m, size_t index) {
    struct pair_key key;
    memcpy(&key, m->pair_key.entry[index].bytes, sizeof key);
    return key;
}

/* The pair that occurs most, ties by the bytes of the joined piece, then of the left one; NONE where none occurs twice.
 */
static size_t best_pair(const struct merger *m) {
    size_t best = STRING_MAP_NONE;
    char text[2][PIECE];
    struct counted a = {text[0], 0, 0}, b = {text[1], 0, 0};
    struct pair_key best_key = {0, 0};
    for (size_t i = 0; i < m->pair_key.count; i++) {
        size_t most = best == STRING_MAP_NONE ? 2 : m->pair[best].count;
        if (m->pair[i].count < most) continue;
        struct pair_key key = key_of(m, i);
        if (best != STRING_MAP_NONE && m->pair[i].count == most) {
            a.length = join(m, &key, text[0]);
            b.length = join(m, &best_key, text[1]);
            int order = by_bytes(&a, &b);
            /* The same piece from two cuts: the shorter left part is a prefix of the longer and comes first. */
            if (order > 0 || (order == 0 && m->symbol.entry[key.left].length > m->symbol.entry[best_key.left].length))
                continue;
        }
        best = i;
        best_key = key;
    }
    return best;
}

static int merge_in_word(struct merger *m, size_t w, const struct pair_key *key, size_t joined) {
    size_t *symbol = m->word[w], length = m->length[w], out = 0;
    for (size_t i = 1; i < length; i++) {
        struct pair_key held = {symbol[i - 1], symbol[i]};
        m->pair[string_map_find(&m->pair_key, (const char *)&held, sizeof held)].count--;
    }
    for (size_t i = 0; i < length; i++) {
        if (i + 1 < length && symbol[i] == key->left && symbol[i + 1] == key->right) {
            symbol[out++] = joined;
            i++;
        } else {
            symbol[out++] = symbol[i];
        }
    }
    m->length[w] = out;
    for (size_t i = 1; i < out; i++) {
        int fresh = symbol[i - 1] == joined || symbol[i] == joined;
        if (count_pair(m, w, symbol[i - 1], symbol[i], fresh)) return -1;
    }
    return 0;
}

/* Merges the best pair everywhere; its text goes to `piece`. 1 merged, 0 nothing left, -1 no memory. */
static int merge(struct merger *m, char *piece, size_t *piece_length) {
    size_t best = best_pair(m);
    if (best == STRING_MAP_NONE) return 0;
    struct pair_key key = key_of(m, best);
    *piece_length = join(m, &key, piece);
    size_t joined = string_map_add(&m->symbol, piece, *piece_length);
    if (joined == STRING_MAP_NONE) return -1;
    for (size_t i = 0; i < m->pair[best].words; i++)
        if (merge_in_word(m, m->pair[best].word[i], &key, joined)) return -1;
    return 1;
}

/* ---- the vocabulary */

struct vocabulary {
    string_map piece;
    size_t bytes;
};

static int put(struct vocabulary *v, const char *piece, size_t length, size_t *added) {
    size_t before = v->piece.count, index = string_map_add(&v->piece, piece, length);
    if (index == STRING_MAP_NONE) return -1;
    if (index == before) {
        v->bytes += length + 1;
        if (added) ++*added;
    }
    return 0;
}

static int put_character(struct vocabulary *v, int32_t point) {
    char piece[2 + 4] = "##";
    size_t size = utf8_encode(point, piece + 2);
    if (put(v, piece + 2, size, NULL)) return -1;
    /* Punctuation and CJK characters are words of their own and continue none. */
    return basic_is_punctuation(point) || basic_is_cjk(point) ? 0 : put(v, piece, 2 + size, NULL);
}

static int put_characters(struct vocabulary *v, const struct counted *word, size_t words, bool lower) {
    for (int32_t point = '!'; point <= '~'; point++) {
        if (lower && point >= 'A' && point <= 'Z') continue;
        if (put_character(v, point)) return -1;
    }
    for (size_t i = 0; i < words; i++) {
        for (size_t at = 0; at < word[i].length;) {
            int32_t point;
            at += utf8_decode(word[i].bytes + at, word[i].length - at, &point);
            if (point >= 0x80 && put_character(v, point)) return -1;
        }
    }
    return 0;
}

static int put_words(struct vocabulary *v, const struct counted *word, size_t words, const wordpiece_options *options) {
    size_t added = 0;
    for (size_t i = 0; i < words && word[i].count >= options->min_count; i++) {
        if (options->max_words && added == options->max_words) break;
        if (put(v, word[i].bytes, word[i].length, &added)) return -1;
    }
    return 0;
}

static int put_pieces(struct vocabulary *v, const struct counted *word, size_t words, size_t most) {
    struct merger m = {.words = words};
    m.word = calloc(words + 1, sizeof *m.word);
    m.length = calloc(words + 1, sizeof *m.length);
    int got = m.word && m.length ? 1 : -1;
    for (size_t i = 0; got > 0 && i < words; i++)
        if (split_word(&m, i, word[i].bytes, word[i].length)) got = -1;
    for (size_t added = 0; got > 0 && added < most;) {
        char piece[PIECE];
        size_t length;
        got = merge(&m, piece, &length);
        if (got > 0 && put(v, piece, length, &added)) got = -1;
    }
    merger_free(&m);
    return got < 0 ? -1 : 0;
}

static int build(const wordpiece *w, struct vocabulary *v, struct counted *word) {
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    size_t words = w->word.count;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (put(v, special[i], strlen(special[i]), NULL)) return -1;
    for (size_t i = 0; i < words; i++)
        word[i] = (struct counted){w->word.entry[i].bytes, w->word.entry[i].length, w->count[i]};
    qsort(word, words, sizeof *word, compare_frequency);
    if (put_words(v, word, words, &w->options)) return -1;
    qsort(word, words, sizeof *word, compare_bytes);
    if (put_characters(v, word, words, w->options.lower)) return -1;
    return w->options.max_pieces ? put_pieces(v, word, words, w->options.max_pieces) : 0;
}

tokenizer *wordpiece_finish(wordpiece *w, text_error *error) {
    struct vocabulary v = {0};
    tokenizer *t = NULL;
    struct counted *word = calloc(w->word.count + 1, sizeof *word);
    char *text = NULL;
    if (!word || build(w, &v, word) || !(text = malloc(v.bytes + 1))) {
        text_fail_memory(error, v.bytes);
    } else {
        char *out = text;
        for (size_t i = 0; i < v.piece.count; i++) {
            memcpy(out, v.piece.entry[i].bytes, v.piece.entry[i].length);
            out += v.piece.entry[i].length;
            *out++ = '\n';
        }
        t = tokenizer_parse("trained vocabulary", text, v.bytes, w->options.lower, error);
    }
    free(text);
    free(word);
    string_map_free(&v.piece);
    return t;
}

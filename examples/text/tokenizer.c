#include "text/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/basic.h"
#include "text/grow.h"
#include "text/lines.h"
#include "text/safe_file.h"
#include "text/string_map.h"
#include "text/utf8.h"

enum { PAD, UNK, CLS, SEP, MASK, SPECIALS };
static const char *const special_piece[SPECIALS] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

struct tokenizer {
    string_map piece;     /* index = id */
    size_t longest;       /* bytes of the longest piece */
    char *vocab;          /* vocab.txt */
    size_t size;          /* its bytes */
    uint64_t fingerprint; /* of everything that decides about ids */
    int32_t special[SPECIALS];
    bool lower;
};

/* ---- vocabulary */

static int read_pieces(tokenizer *t, lines *l, text_error *error) {
    for (;;) {
        char *line;
        size_t length;
        int got = lines_next(l, &line, &length, error);
        if (got <= 0) return got;
        if (length == 0) return lines_fail(l, error, "empty line in a vocabulary; every line is a piece, remove it");
        if (t->piece.count >= INT32_MAX) return lines_fail(l, error, "more pieces than ids of 32 bits");
        size_t before = t->piece.count, id = string_map_add(&t->piece, line, length);
        if (id == STRING_MAP_NONE) return text_fail_memory(error, length);
        if (id < before) {
            char shown[256];
            return lines_fail(l, error, "the piece '%s' stands on line %zu too; remove one",
                              text_excerpt(line, length, shown), id + 1);
        }
        if (length > t->longest) t->longest = length;
        t->size += length + 1;
    }
}

static int finish_vocabulary(tokenizer *t, const char *name, text_error *error) {
    for (int i = 0; i < SPECIALS; i++) {
        size_t id = string_map_find(&t->piece, special_piece[i], strlen(special_piece[i]));
        if (id == STRING_MAP_NONE) {
            return text_fail(error, "%s: the vocabulary has no %s; give a BERT vocab.txt, one piece a line", name,
                             special_piece[i]);
        }
        t->special[i] = (int32_t)id;
    }
    t->vocab = malloc(t->size + 1);
    if (!t->vocab) return text_fail_memory(error, t->size + 1);
    char *out = t->vocab;
    for (size_t i = 0; i < t->piece.count; i++) {
        memcpy(out, t->piece.entry[i].bytes, t->piece.entry[i].length);
        out += t->piece.entry[i].length;
        *out++ = '\n';
    }
    *out = '\0';
    t->fingerprint = string_hash(t->vocab, t->size) ^ (t->lower ? 1 : 0);
    return 0;
}

static tokenizer *read_vocabulary(lines *l, bool lower, text_error *error) {
    const char *name = l->name;
    tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        text_fail_memory(error, sizeof *t);
    } else {
        t->lower = lower;
        if (read_pieces(t, l, error) || finish_vocabulary(t, name, error)) {
            tokenizer_free(t);
            t = NULL;
        }
    }
    lines_close(l);
    return t;
}

tokenizer *tokenizer_load(const char *path, bool lower, text_error *error) {
    lines l;
    if (lines_open(&l, path, error)) return NULL;
    return read_vocabulary(&l, lower, error);
}

tokenizer *tokenizer_parse(const char *name, const char *vocab, size_t size, bool lower, text_error *error) {
    lines l;
    lines_open_memory(&l, name, vocab, size);
    return read_vocabulary(&l, lower, error);
}

int tokenizer_save(const tokenizer *t, const char *path, text_error *error) {
    safe_file f;
    if (safe_file_open(&f, path, error)) return -1;
    fwrite(t->vocab, 1, t->size, f.file); /* a short write sets the stream's error, which the commit reports */
    return safe_file_commit(&f, error);
}

const char *tokenizer_vocab(const tokenizer *t, size_t *size) {
    *size = t->size;
    return t->vocab;
}

void tokenizer_free(tokenizer *t) {
    if (!t) return;
    string_map_free(&t->piece);
    free(t->vocab);
    free(t);
}

int32_t tokenizer_size(const tokenizer *t) {
    return (int32_t)t->piece.count;
}
bool tokenizer_lower(const tokenizer *t) {
    return t->lower;
}

const char *tokenizer_piece(const tokenizer *t, int32_t id) {
    return id >= 0 && (size_t)id < t->piece.count ? t->piece.entry[id].bytes : NULL;
}

int32_t tokenizer_id(const tokenizer *t, const char *piece, size_t length) {
    size_t id = string_map_find(&t->piece, piece, length);
    return id == STRING_MAP_NONE ? -1 : (int32_t)id;
}

int32_t tokenizer_pad(const tokenizer *t) {
    return t->special[PAD];
}
int32_t tokenizer_unk(const tokenizer *t) {
    return t->special[UNK];
}
int32_t tokenizer_cls(const tokenizer *t) {
    return t->special[CLS];
}
int32_t tokenizer_sep(const tokenizer *t) {
    return t->special[SEP];
}
int32_t tokenizer_mask(const tokenizer *t) {
    return t->special[MASK];
}

bool tokenizer_is_special(const tokenizer *t, int32_t id) {
    for (int i = 0; i < SPECIALS; i++)
        if (t->special[i] == id) return true;
    return false;
}

/* ---- cache: the tokens of a chunk between white space, positions relative to the chunk */

enum {
    CACHE_SLOTS = 1 << 16, /* a power of two; at most half are taken */
    CACHE_TOKENS = 1 << 18,
    CACHE_BYTES = 1 << 20,
    CACHE_CHUNK = 255 /* longer chunks are not kept: positions fit a byte */
};

struct cached_token {
    int32_t id;
    uint8_t word, sentence, begin, end;
};

struct cached_chunk {
    uint64_t hash;
    uint32_t bytes, tokens; /* where they begin in the pools */
    uint8_t length;         /* of the chunk; 0: a free slot */
    uint8_t count;          /* tokens, at most one a byte */
    uint8_t words;
    bool ends; /* a sentence ends with the chunk */
};

struct token_cache {
    uint64_t fingerprint; /* of the tokenizer that filled it */
    size_t chunks, bytes, tokens;
    struct cached_chunk slot[CACHE_SLOTS];
    char byte[CACHE_BYTES];
    struct cached_token token[CACHE_TOKENS];
};

token_cache *token_cache_new(void) {
    return calloc(1, sizeof(token_cache));
}
void token_cache_free(token_cache *cache) {
    free(cache);
}

static void forget(token_cache *cache, uint64_t fingerprint) {
    if (cache->chunks) memset(cache->slot, 0, sizeof cache->slot);
    cache->chunks = cache->bytes = cache->tokens = 0;
    cache->fingerprint = fingerprint;
}

/* The chunk's slot, or the free one where it would stand. */
static struct cached_chunk *find_chunk(token_cache *cache, const char *chunk, size_t length, uint64_t hash) {
    size_t at = (size_t)(hash ^ hash >> 32) & (CACHE_SLOTS - 1);
    for (;; at = (at + 1) & (CACHE_SLOTS - 1)) {
        struct cached_chunk *slot = &cache->slot[at];
        if (slot->length == 0) return slot;
        if (slot->hash == hash && slot->length == length && memcmp(cache->byte + slot->bytes, chunk, length) == 0)
            return slot;
    }
}

/* ---- WordPiece */

struct run {
    const tokenizer *t;
    token_list *out;
    text_error *error;
    size_t chunk;     /* where the chunk begins in the text */
    int32_t words;    /* before the chunk, then before the next word */
    int32_t sentence; /* of the word before */
    bool between;     /* a sentence ended: the next word opens another */
};

static int reserve(token_list *out, size_t more, text_error *error) {
    token *grown = grow(out->token, &out->capacity, out->count + more, sizeof *grown);
    if (!grown) return text_fail_memory(error, (out->count + more) * sizeof *grown);
    out->token = grown;
    return 0;
}

/* Id of the longest piece that word[from..length) begins with, its end in *to; -1 where there is none. */
static int32_t longest_piece(const tokenizer *t, const char *word, size_t length, size_t from, size_t *to) {
    char piece[2 + BASIC_MAX_CHARACTERS * 4];
    uint64_t hash[2 + BASIC_MAX_CHARACTERS * 4 + 1]; /* of every prefix of the piece */
    size_t marks = from > 0 ? 2 : 0, size = marks + (length - from);
    if (size > t->longest) size = t->longest;
    if (size <= marks) return -1;
    memcpy(piece, "##", 2);
    memcpy(piece + marks, word + from, size - marks);
    hash[0] = STRING_HASH_START;
    for (size_t i = 0; i < size; i++) hash[i + 1] = string_hash_more(hash[i], piece + i, 1);
    for (; size > marks; size--) {
        size_t end = from + size - marks;
        if (end < length && ((unsigned char)word[end] & 0xC0) == 0x80) continue; /* within a character */
        size_t id = string_map_find_hashed(&t->piece, piece, size, hash[size]);
        if (id != STRING_MAP_NONE) {
            *to = end;
            return (int32_t)id;
        }
    }
    return -1;
}

static int add_word(void *user, const basic_word *word) {
    struct run *r = user;
    const tokenizer *t = r->t;
    token_list *out = r->out;
    if (reserve(out, word->length, r->error)) return -1;
    if (word->starts || r->between) r->sentence++;
    r->between = false;

    token one = {
        .word = r->words, .sentence = r->sentence, .begin = r->chunk + word->begin, .end = r->chunk + word->end};
    size_t first = out->count, from = 0;
    while (from < word->length && !word->overlong) {
        one.id = longest_piece(t, word->bytes, word->length, from, &from);
        if (one.id < 0) break;
        out->token[out->count++] = one;
    }
    if (from < word->length) {
        one.id = t->special[UNK];
        out->count = first;
        out->token[out->count++] = one;
    }
    r->words++;
    return 0;
}

struct last_word {
    struct run *run;
    bool ends;
};

static int add_and_remember(void *user, const basic_word *word) {
    struct last_word *last = user;
    last->ends = word->ends;
    return add_word(last->run, word);
}

/* Appends the tokens of one chunk without help of a cache. */
static int add_chunk(struct run *r, const char *chunk, size_t length) {
    /* A chunk without words (control characters) leaves the state between sentences as it was. */
    struct last_word last = {.run = r, .ends = r->between};
    if (basic_words(chunk, length, r->t->lower, add_and_remember, &last)) return -1;
    r->between = last.ends;
    return 0;
}

static int add_cached(struct run *r, const token_cache *cache, const struct cached_chunk *chunk) {
    if (chunk->count == 0) return 0;
    if (reserve(r->out, chunk->count, r->error)) return -1;
    if (r->between) r->sentence++;
    const struct cached_token *from = cache->token + chunk->tokens;
    token *to = r->out->token + r->out->count;
    for (size_t i = 0; i < chunk->count; i++) {
        to[i] = (token){.id = from[i].id,
                        .word = r->words + from[i].word,
                        .sentence = r->sentence + from[i].sentence,
                        .begin = r->chunk + from[i].begin,
                        .end = r->chunk + from[i].end};
    }
    r->out->count += chunk->count;
    r->words += chunk->words;
    r->sentence = to[chunk->count - 1].sentence;
    r->between = chunk->ends;
    return 0;
}

static void remember(token_cache *cache, struct cached_chunk *slot, const struct run *r, uint64_t hash,
                     const char *chunk, size_t length, size_t first) {
    size_t count = r->out->count - first;
    *slot = (struct cached_chunk){.hash = hash,
                                  .bytes = (uint32_t)cache->bytes,
                                  .tokens = (uint32_t)cache->tokens,
                                  .length = (uint8_t)length,
                                  .count = (uint8_t)count,
                                  .ends = r->between};
    memcpy(cache->byte + cache->bytes, chunk, length);
    struct cached_token *kept = cache->token + cache->tokens;
    for (size_t i = 0; i < count; i++) {
        const token *added = &r->out->token[first + i], *base = &r->out->token[first];
        kept[i] = (struct cached_token){.id = added->id,
                                        .word = (uint8_t)(added->word - base->word),
                                        .sentence = (uint8_t)(added->sentence - base->sentence),
                                        .begin = (uint8_t)(added->begin - r->chunk),
                                        .end = (uint8_t)(added->end - r->chunk)};
    }
    if (count) slot->words = (uint8_t)(kept[count - 1].word + 1);
    cache->chunks++;
    cache->bytes += length;
    cache->tokens += count;
}

static bool is_ascii_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

int tokenize(const tokenizer *t, token_cache *cache, const char *text, size_t length, token_list *out,
             text_error *error) {
    struct run r = {.t = t, .out = out, .error = error};
    out->count = 0;
    if (cache && cache->fingerprint != t->fingerprint) forget(cache, t->fingerprint);
    size_t at = 0;
    for (;;) {
        while (at < length && is_ascii_space(text[at])) at++;
        if (at == length) return 0;
        r.chunk = at;
        uint64_t hash = STRING_HASH_START;
        for (; at < length && !is_ascii_space(text[at]); at++) hash = string_hash_more(hash, text + at, 1);
        const char *chunk = text + r.chunk;
        size_t size = at - r.chunk, first = out->count;
        if (out->count > INT32_MAX || size > INT32_MAX - out->count) {
            return text_fail(error, "a text of more than %ld tokens; split it into paragraphs", (long)INT32_MAX);
        }
        if (!cache || size > CACHE_CHUNK) {
            if (add_chunk(&r, chunk, size)) return -1;
            continue;
        }
        struct cached_chunk *slot = find_chunk(cache, chunk, size, hash);
        if (slot->length) {
            if (add_cached(&r, cache, slot)) return -1;
            continue;
        }
        if (add_chunk(&r, chunk, size)) return -1;
        /* Decomposition can make more tokens than bytes; such a chunk is not worth a wider count. */
        size_t count = out->count - first;
        if (count > CACHE_CHUNK) continue;
        if (cache->chunks >= CACHE_SLOTS / 2 || cache->bytes + size > CACHE_BYTES ||
            cache->tokens + count > CACHE_TOKENS) {
            forget(cache, t->fingerprint);
            slot = find_chunk(cache, chunk, size, hash);
        }
        remember(cache, slot, &r, hash, chunk, size, first);
    }
}

void token_list_free(token_list *list) {
    free(list->token);
    *list = (token_list){0};
}

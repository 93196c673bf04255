/* The tokenizer over a small vocabulary: with and without cache the same, positions in order and within the text. */
#include "fuzz.h"

#include "text/encode.h"
#include "text/utf8.h"

static const char tokens_vocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\ne\n##a\n##b\n##ab\nab\n.\n!\n,\n1\n##1\n東\né\n##é\n";

static void fuzz_tokens_of(const tokenizer *t, token_cache *cache, const char *text, size_t size) {
    token_list with = {0}, without = {0};
    encoded_pair pair = {0};
    text_error error = {""};
    HOLDS(tokenize(t, NULL, text, size, &without, &error) == 0);
    for (int twice = 0; twice < 2; twice++) {
        HOLDS(tokenize(t, cache, text, size, &with, &error) == 0);
        HOLDS(with.count == without.count);
        for (size_t i = 0; i < with.count; i++) {
            const token *a = &with.token[i], *b = &without.token[i];
            HOLDS(a->id == b->id && a->word == b->word && a->sentence == b->sentence && a->begin == b->begin &&
                  a->end == b->end);
        }
    }
    token last = {.word = -1};
    for (size_t i = 0; i < with.count; i++) {
        token one = with.token[i];
        HOLDS(one.id >= 0 && one.id < tokenizer_size(t) && one.begin < one.end && one.end <= size);
        HOLDS(one.word == last.word || one.word == last.word + 1);
        HOLDS(one.sentence == last.sentence || one.sentence == last.sentence + 1);
        HOLDS(one.begin >= last.begin);
        last = one;
    }
    /* Cut to a row of at most 16 tokens. */
    HOLDS(encode_text(t, cache, text, size, 16, &pair, &error) == 0);
    HOLDS(pair.length <= 16 && pair.length + pair.cut == with.count + 2);
    char *copy = malloc(size + 1);
    memcpy(copy, text, size);
    copy[size] = '\0';
    HOLDS(encode_pair(t, cache, copy, "a b", 16, &pair, &error) == 0);
    HOLDS(pair.length <= 16);
    for (size_t i = 0; i < pair.length; i++) HOLDS(pair.place[i] < 16 && pair.sentence[i] < 16 && pair.segment[i] <= 1);
    free(copy);
    encoded_pair_free(&pair);
    token_list_free(&with);
    token_list_free(&without);
}

/* Tokenizers and caches are made once: they cost more than a run. */
FUZZ(tokens)(const uint8_t *data, size_t size) {
    static tokenizer *t[2];
    static token_cache *cache[2];
    char *text = malloc(size + (size == 0)); /* exactly as long as it says, for the sanitizer */
    if (size) memcpy(text, data, size);
    for (int lower = 0; lower < 2; lower++) {
        text_error error;
        if (!t[lower]) {
            t[lower] = tokenizer_parse("fuzz", tokens_vocabulary, strlen(tokens_vocabulary), lower, &error);
            cache[lower] = token_cache_new();
        }
        HOLDS(t[lower] && cache[lower]);
        fuzz_tokens_of(t[lower], cache[lower], text, size);
    }
    free(text);
    return 0;
}

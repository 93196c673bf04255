#include "text/encode.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/grow.h"

static int reserve(encoded_pair *p, size_t length, text_error *error) {
    int32_t **field[] = {&p->id, &p->segment, &p->sentence, &p->place, &p->word};
    size_t capacity = p->capacity;
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        capacity = p->capacity; /* all five grow alike */
        int32_t *grown = grow(*field[i], &capacity, length, sizeof *grown);
        if (!grown) return text_fail_memory(error, length * sizeof *grown);
        *field[i] = grown;
    }
    p->capacity = capacity;
    return 0;
}

void encoded_pair_free(encoded_pair *p) {
    int32_t *field[] = {p->id, p->segment, p->sentence, p->place, p->word};
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) free(field[i]);
    token_list_free(&p->premise);
    token_list_free(&p->hypothesis);
    *p = (encoded_pair){0};
}

static void put(encoded_pair *p, int32_t id, int32_t segment, int32_t sentence, int32_t place, int32_t word) {
    size_t at = p->length++;
    p->id[at] = id;
    p->segment[at] = segment;
    p->sentence[at] = sentence;
    p->place[at] = place;
    p->word[at] = word;
}

static void put_special(encoded_pair *p, int32_t id, int32_t segment) {
    put(p, id, segment, 0, 0, -1);
}

/* Tokens [from, to) of a text. */
static void put_text(encoded_pair *p, const tokenizer *t, const token_list *text, size_t from, size_t to,
                     int32_t segment) {
    int32_t place = 0, first = from < to ? text->token[from].sentence : 0;
    for (size_t i = from; i < to; i++, place++) {
        const token *one = &text->token[i];
        if (i > from && one->sentence != one[-1].sentence) place = 0;
        p->unknown += one->id == tokenizer_unk(t);
        put(p, one->id, segment, 1 + one->sentence - first, place, one->word);
    }
}

static size_t words_of(const token_list *list) {
    return list->count ? (size_t)list->token[list->count - 1].word + 1 : 0;
}

int encode_pair(const tokenizer *t, token_cache *cache, const char *premise, const char *hypothesis, size_t max_length,
                encoded_pair *out, text_error *error) {
    out->length = out->cut = out->unknown = 0;
    if (tokenize(t, cache, premise, strlen(premise), &out->premise, error)) return -1;
    if (tokenize(t, cache, hypothesis, strlen(hypothesis), &out->hypothesis, error)) return -1;
    size_t fixed = 3 + out->hypothesis.count, premise_count = out->premise.count;
    if (max_length > 0 && fixed > max_length) {
        char shown[256];
        return text_fail(error,
                         "a hypothesis of %zu tokens with [CLS] and two [SEP] does not fit into %zu; raise the maximal "
                         "length: '%s'",
                         out->hypothesis.count, max_length, text_excerpt(hypothesis, strlen(hypothesis), shown));
    }
    if (max_length > 0 && premise_count > max_length - fixed) out->cut = premise_count - (max_length - fixed);
    if (reserve(out, fixed + premise_count, error)) return -1;

    put_special(out, tokenizer_cls(t), 0);
    out->premise_begin = out->length;
    put_text(out, t, &out->premise, out->cut, premise_count, 0);
    out->premise_end = out->length;
    put_special(out, tokenizer_sep(t), 0);
    out->hypothesis_begin = out->length;
    put_text(out, t, &out->hypothesis, 0, out->hypothesis.count, 1);
    out->hypothesis_end = out->length;
    put_special(out, tokenizer_sep(t), 1);
    out->premise_words = words_of(&out->premise);
    out->hypothesis_words = words_of(&out->hypothesis);
    return 0;
}

int encode_text(const tokenizer *t, token_cache *cache, const char *text, size_t length, size_t max_length,
                encoded_pair *out, text_error *error) {
    out->length = out->cut = out->unknown = 0;
    out->hypothesis.count = 0;
    if (max_length > 0 && max_length < 3)
        return text_fail(error, "a maximal length of %zu has no room for text", max_length);
    if (tokenize(t, cache, text, length, &out->premise, error)) return -1;
    size_t count = out->premise.count;
    if (max_length > 0 && count > max_length - 2) {
        out->cut = count - (max_length - 2);
        count = max_length - 2;
    }
    if (reserve(out, count + 2, error)) return -1;
    put_special(out, tokenizer_cls(t), 0);
    out->premise_begin = out->length;
    put_text(out, t, &out->premise, 0, count, 0);
    out->premise_end = out->length;
    put_special(out, tokenizer_sep(t), 0);
    out->hypothesis_begin = out->hypothesis_end = out->length;
    out->premise_words = words_of(&out->premise);
    out->hypothesis_words = 0;
    return 0;
}

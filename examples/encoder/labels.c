#include "encoder/labels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int labeller_open(labeller *l, const char *oracle, uint64_t seed, text_error *error) {
    *l = (labeller){.seed = seed};
    if (oracle_by_name(oracle, &l->kind) == 0) return 0;
    l->cache = alpha_cache_load(oracle, error);
    return l->cache ? 0 : -1;
}

void labeller_close(labeller *l) {
    alpha_cache_free(l->cache);
    free(l->cell);
    free(l->words);
    *l = (labeller){0};
}

int labeller_tells_answer(const labeller *l) {
    return !l->cache && oracle_tells_answer(l->kind);
}

/* Copies a text's words one after the other, each ended by 0, in lower case (ASCII, as the built-in data is). */
static char *put_words(char *to, const char **word, const token_list *tokens, const char *text) {
    for (size_t i = 0; i < tokens->count; i++) {
        const token *t = &tokens->token[i];
        if (i > 0 && t->word == tokens->token[i - 1].word) continue;
        word[t->word] = to;
        for (size_t at = t->begin; at < t->end; at++)
            *to++ = text[at] >= 'A' && text[at] <= 'Z' ? (char)(text[at] + 32) : text[at];
        *to++ = 0;
    }
    return to;
}

static int add_cells(labeller *l, const row *r, const encoded_pair *pair, size_t batch, block_list *list,
                     text_error *error) {
    const size_t p = pair->premise_words, h = pair->hypothesis_words, cells = p * h;
    const size_t bytes = 2 * (strlen(r->premise) + strlen(r->hypothesis) + 2) + (p + h) * sizeof(char *);
    if (cells == 0) return 0;
    if (cells > l->cell_capacity) {
        float *cell = realloc(l->cell, cells * sizeof *cell);
        if (!cell) return text_fail_memory(error, cells * sizeof *cell);
        l->cell = cell;
        l->cell_capacity = cells;
    }
    if (bytes > l->words_capacity) {
        char *words = realloc(l->words, bytes);
        if (!words) return text_fail_memory(error, bytes);
        l->words = words;
        l->words_capacity = bytes;
    }
    const char **word = (const char **)(void *)l->words;
    put_words(put_words(l->words + (p + h) * sizeof(char *), word, &pair->premise, r->premise), word + p,
              &pair->hypothesis, r->hypothesis);
    for (size_t i = 0; i < p; i++)
        for (size_t j = 0; j < h; j++) l->cell[i * h + j] = (float)oracle_cell_alpha(l->seed, r, word[i], word[p + j]);
    return blocks_add_words(list, batch, pair, l->cell, error);
}

int labeller_add(labeller *l, const row *r, const encoded_pair *pair, size_t batch, block_list *list,
                 text_error *error) {
    if (!l->cache && l->kind == ORACLE_TOKEN) return add_cells(l, r, pair, batch, list, error);
    const float alpha =
        l->cache ? alpha_cache_find(l->cache, r->premise, r->hypothesis) : (float)oracle_row_alpha(l->kind, l->seed, r);
    if (l->cache && isnan(alpha)) l->missing++;
    return blocks_add_pair(list, batch, pair, alpha, error);
}

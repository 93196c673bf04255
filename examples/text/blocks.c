#include "text/blocks.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/alpha_cache.h"
#include "text/arena.h"
#include "text/basic.h"
#include "text/grow.h"

void block_list_free(block_list *list) {
    free(list->block);
    *list = (block_list){0};
}

static int add(block_list *list, const dea_label_block *block, text_error *error) {
    dea_label_block *grown = grow(list->block, &list->capacity, list->count + 1, sizeof *grown);
    if (!grown) return text_fail_memory(error, (list->count + 1) * sizeof *grown);
    list->block = grown;
    list->block[list->count++] = *block;
    return 0;
}

static int check(size_t batch, const encoded_pair *pair, text_error *error) {
    if (batch > INT_MAX || pair->length > INT_MAX)
        return text_fail(error, "a batch or row is larger than dea.h's int can say");
    return 0;
}

static int check_alpha(float alpha, text_error *error) {
    if (alpha >= 0 && alpha <= (float)ALPHA_MAX) return 0;
    return text_fail(error, "a label is %g; alphas lie in [0, %g]", (double)alpha, ALPHA_MAX);
}

int blocks_add_pair(block_list *list, size_t batch, const encoded_pair *pair, float alpha, text_error *error) {
    if (isnan(alpha) || pair->premise_begin == pair->premise_end || pair->hypothesis_begin == pair->hypothesis_end)
        return 0;
    if (check(batch, pair, error) || check_alpha(alpha, error)) return -1;
    dea_label_block block = {.batch = (int)batch,
                             .q_begin = (int)pair->premise_begin,
                             .q_end = (int)pair->premise_end,
                             .k_begin = (int)pair->hypothesis_begin,
                             .k_end = (int)pair->hypothesis_end,
                             .alpha = (dea_real)alpha};
    return add(list, &block, error);
}

/* Where a cell stands: of tokens, or of the words that the tokens belong to. */
static float cell_at(const encoded_pair *pair, const float *cell, int by_word, size_t q, size_t k) {
    if (by_word) return cell[(size_t)pair->word[q] * pair->hypothesis_words + (size_t)pair->word[k]];
    return cell[(q - pair->premise_begin) * (pair->hypothesis_end - pair->hypothesis_begin) +
                (k - pair->hypothesis_begin)];
}

/* A rectangle that reached the row of cells above and spans just these keys with this alpha grows down by one row;
 * the rectangles from `first` on are the pair's, in order of their last rows. */
static int grows(block_list *list, size_t first, const dea_label_block *run) {
    for (size_t i = list->count; i > first; i--) {
        dea_label_block *above = &list->block[i - 1];
        if (above->q_end == run->q_begin && above->k_begin == run->k_begin && above->k_end == run->k_end &&
            above->alpha == run->alpha) {
            above->q_end = run->q_end;
            return 1;
        }
    }
    return 0;
}

static int add_cells(block_list *list, size_t batch, const encoded_pair *pair, const float *cell, int by_word,
                     text_error *error) {
    size_t first = list->count;
    if (check(batch, pair, error)) return -1;
    for (size_t q = pair->premise_begin; q < pair->premise_end; q++) {
        for (size_t k = pair->hypothesis_begin; k < pair->hypothesis_end;) {
            float alpha = cell_at(pair, cell, by_word, q, k);
            size_t begin = k++;
            if (isnan(alpha)) continue;
            while (k < pair->hypothesis_end && cell_at(pair, cell, by_word, q, k) == alpha) k++;
            dea_label_block run = {(int)batch, (int)q, (int)q + 1, (int)begin, (int)k, (dea_real)alpha};
            if (check_alpha(alpha, error) || (!grows(list, first, &run) && add(list, &run, error))) {
                list->count = first;
                return -1;
            }
        }
    }
    return 0;
}

int blocks_add_words(block_list *list, size_t batch, const encoded_pair *pair, const float *cell, text_error *error) {
    return add_cells(list, batch, pair, cell, 1, error);
}

int blocks_add_tokens(block_list *list, size_t batch, const encoded_pair *pair, const float *cell, text_error *error) {
    return add_cells(list, batch, pair, cell, 0, error);
}

/* ---- cells by a rule */

struct word_list {
    arena *strings;
    const char **word;
    size_t count, capacity;
};

static int gather(void *user, const basic_word *word) {
    struct word_list *w = user;
    const char **grown = grow(w->word, &w->capacity, w->count + 1, sizeof *grown);
    if (!grown) return -1;
    w->word = grown;
    char *copy = arena_copy(w->strings, word->bytes, word->length);
    if (!copy) return -1;
    w->word[w->count++] = copy;
    return 0;
}

static int add_by_rule(block_list *list, size_t batch, const encoded_pair *pair, const struct word_list *premise,
                       const struct word_list *hypothesis, float (*alpha)(void *user, const char *a, const char *b),
                       void *user, text_error *error) {
    size_t columns = hypothesis->count, count = premise->count * columns;
    if (premise->count != pair->premise_words || columns != pair->hypothesis_words)
        return text_fail(error, "the pair was encoded from other texts: %zu and %zu words where it has %zu and %zu",
                         premise->count, columns, pair->premise_words, pair->hypothesis_words);
    if (count == 0 || pair->premise_begin == pair->premise_end) return 0;
    float *cell = calloc(count, sizeof *cell);
    if (!cell) return text_fail_memory(error, count * sizeof *cell);
    /* Words that were cut off are not asked about. */
    for (size_t p = (size_t)pair->word[pair->premise_begin]; p < premise->count; p++)
        for (size_t h = 0; h < columns; h++) cell[p * columns + h] = alpha(user, premise->word[p], hypothesis->word[h]);
    int failed = blocks_add_words(list, batch, pair, cell, error);
    free(cell);
    return failed;
}

int blocks_add_rule(block_list *list, size_t batch, const encoded_pair *pair, const char *premise,
                    const char *hypothesis, float (*alpha)(void *user, const char *a, const char *b), void *user,
                    text_error *error) {
    arena strings = {0};
    struct word_list p = {.strings = &strings}, h = {.strings = &strings};
    size_t bytes = strlen(premise) + strlen(hypothesis);
    int failed = basic_words(premise, strlen(premise), true, gather, &p) ||
                 basic_words(hypothesis, strlen(hypothesis), true, gather, &h);
    failed = failed ? text_fail_memory(error, bytes) : add_by_rule(list, batch, pair, &p, &h, alpha, user, error);
    free(p.word);
    free(h.word);
    arena_free(&strings);
    return failed;
}

#include "encoder/batch.h"

#include <stdlib.h>
#include <string.h>

#include "data/rng.h"
#include "text/grow.h"

/* Several int arrays of one capacity. */
static int grow_ints(int **const array[], size_t count, size_t *capacity, size_t need, text_error *error) {
    size_t grown = *capacity;
    for (size_t i = 0; i < count; i++) {
        grown = *capacity;
        int *moved = grow(*array[i], &grown, need, sizeof *moved);
        if (!moved) return text_fail_memory(error, need * sizeof *moved);
        *array[i] = moved;
    }
    *capacity = grown;
    return 0;
}

/* ---- samples */

int samples_add(samples *list, const encoded_pair *pair, int label, int tag, text_error *error) {
    int **const arrays[] = {&list->id, &list->segment, &list->sentence, &list->place, &list->masked};
    sample *at = grow(list->at, &list->capacity, list->count + 1, sizeof *at);
    if (!at) return text_fail_memory(error, sizeof *at);
    list->at = at;
    if (grow_ints(arrays, 5, &list->token_capacity, list->tokens + pair->length, error)) return -1;
    const size_t blocks_before =
        list->count ? list->at[list->count - 1].block_begin + (size_t)list->at[list->count - 1].block_count : 0;
    for (size_t i = 0; i < pair->length; i++) {
        list->id[list->tokens + i] = pair->id[i];
        list->segment[list->tokens + i] = pair->segment[i];
        list->sentence[list->tokens + i] = pair->sentence[i];
        list->place[list->tokens + i] = pair->place[i];
        list->masked[list->tokens + i] = -1;
    }
    list->at[list->count++] =
        (sample){list->tokens, (int)pair->length, label, tag, blocks_before, (int)(list->blocks.count - blocks_before)};
    list->tokens += pair->length;
    return 0;
}

void samples_clear(samples *list) {
    list->count = list->tokens = list->blocks.count = 0;
}

void samples_free(samples *list) {
    free(list->at);
    free(list->id);
    free(list->segment);
    free(list->sentence);
    free(list->place);
    free(list->masked);
    block_list_free(&list->blocks);
    *list = (samples){0};
}

static int random_token(const tokenizer *t, rng *r) {
    for (;;) {
        const int id = (int)rng_below(r, (uint32_t)tokenizer_size(t));
        if (!tokenizer_is_special(t, id)) return id;
    }
}

static void mask_token(samples *list, size_t at, const tokenizer *t, rng *r) {
    const uint32_t what = rng_below(r, 10);
    list->masked[at] = list->id[at];
    if (what < 8)
        list->id[at] = tokenizer_mask(t);
    else if (what == 8)
        list->id[at] = random_token(t, r);
}

void samples_mask_last(samples *list, const tokenizer *t, uint64_t seed, uint64_t index) {
    const sample *s = &list->at[list->count - 1];
    rng r = {rng_derive(seed, index), 0};
    int asked = 0;
    for (int i = 0; i < s->length; i++) {
        const size_t at = s->begin + (size_t)i;
        if (tokenizer_is_special(t, list->id[at]) || rng_below(&r, 100) >= 15) continue;
        mask_token(list, at, t, &r);
        asked++;
    }
    if (!asked && s->length > 2) { /* [CLS] text [SEP]: any token of the text */
        const size_t at = s->begin + 1 + rng_below(&r, (uint32_t)s->length - 2);
        if (!tokenizer_is_special(t, list->id[at])) mask_token(list, at, t, &r);
    }
}

void samples_hide_last(samples *list, const tokenizer *t, double share, uint64_t seed, uint64_t index) {
    const sample *s = &list->at[list->count - 1];
    const size_t end = s->begin + (size_t)s->length;
    const uint64_t key = rng_derive(seed, index);
    for (size_t i = s->begin; i < end && list->segment[i] == 0; i++) {
        const int id = list->id[i]; /* one draw for a token, whatever its places */
        if (tokenizer_is_special(t, id) || (double)(rng_derive(key, (uint64_t)id) >> 11) * 0x1p-53 >= share) continue;
        for (size_t j = i; j < end; j++)
            if (list->id[j] == id) list->id[j] = tokenizer_mask(t);
    }
}

/* ---- plan */

/* Counting sort by length: stable, so equal lengths stay in order of index. */
static int sort_by_length(batch_plan *plan, const samples *list, text_error *error) {
    size_t longest = 0;
    for (size_t i = 0; i < list->count; i++)
        if ((size_t)list->at[i].length > longest) longest = (size_t)list->at[i].length;
    size_t *start = calloc(longest + 2, sizeof *start);
    if (!start) return text_fail_memory(error, (longest + 2) * sizeof *start);
    for (size_t i = 0; i < list->count; i++) start[list->at[i].length + 1]++;
    for (size_t l = 1; l < longest + 2; l++) start[l] += start[l - 1];
    for (size_t i = 0; i < list->count; i++) plan->order[start[list->at[i].length]++] = i;
    free(start);
    return 0;
}

int batch_plan_make(batch_plan *plan, const samples *list, int max_tokens, text_error *error) {
    size_t *order = grow(plan->order, &plan->order_capacity, list->count + 1, sizeof *order);
    if (!order) return text_fail_memory(error, list->count * sizeof *order);
    plan->order = order;
    plan->slices = plan->padded = 0;
    plan->tokens = list->tokens;
    if (sort_by_length(plan, list, error)) return -1;
    for (size_t i = 0; i < list->count;) {
        batch_slice slice = {i, 0, 0};
        size_t tokens = 0;
        for (; i < list->count; i++) {
            const size_t length = (size_t)list->at[plan->order[i]].length, padded = length * ((size_t)slice.count + 1);
            /* Sorted: this row is the longest, and every row before is padded to it. */
            if (slice.count && (padded > (size_t)max_tokens || 10 * (padded - tokens - length) > padded)) break;
            tokens += length;
            slice.count++;
            slice.length = (int)length;
        }
        batch_slice *slices = grow(plan->slice, &plan->slice_capacity, plan->slices + 1, sizeof *slices);
        if (!slices) return text_fail_memory(error, sizeof *slices);
        plan->slice = slices;
        plan->slice[plan->slices++] = slice;
        plan->padded += (size_t)slice.count * (size_t)slice.length;
    }
    return 0;
}

void batch_plan_free(batch_plan *plan) {
    free(plan->order);
    free(plan->slice);
    *plan = (batch_plan){0};
}

/* ---- buffer */

static int reserve(batch_buffer *b, size_t rows, size_t tokens, size_t blocks, text_error *error) {
    int **const by_token[] = {&b->id, &b->segment, &b->sentence, &b->place, &b->masked};
    int **const by_row[] = {&b->lengths, &b->label};
    if (grow_ints(by_token, 5, &b->token_capacity, tokens, error)) return -1;
    if (grow_ints(by_row, 2, &b->row_capacity, rows, error)) return -1;
    dea_label_block *block = grow(b->block, &b->block_capacity, blocks + 1, sizeof *block);
    if (!block) return text_fail_memory(error, blocks * sizeof *block);
    b->block = block;
    return 0;
}

static void fill_row(batch_buffer *b, const samples *list, const sample *s, size_t row, size_t length) {
    const size_t at = row * length, own = (size_t)s->length;
    memcpy(b->id + at, list->id + s->begin, own * sizeof(int));
    memcpy(b->segment + at, list->segment + s->begin, own * sizeof(int));
    memcpy(b->sentence + at, list->sentence + s->begin, own * sizeof(int));
    memcpy(b->place + at, list->place + s->begin, own * sizeof(int));
    memcpy(b->masked + at, list->masked + s->begin, own * sizeof(int));
    for (size_t i = at + own; i < at + length; i++) {
        b->id[i] = b->segment[i] = b->sentence[i] = b->place[i] = 0;
        b->masked[i] = -1;
    }
    for (size_t i = at; i < at + own; i++) b->asked += b->masked[i] >= 0;
    b->lengths[row] = s->length;
    b->label[row] = s->label;
}

int batch_fill(batch_buffer *b, const samples *list, const batch_plan *plan, size_t slice, int with_labels,
               text_error *error) {
    const batch_slice *cut = &plan->slice[slice];
    const size_t length = (size_t)cut->length, rows = (size_t)cut->count;
    size_t blocks = 0;
    for (size_t r = 0; with_labels && r < rows; r++)
        blocks += (size_t)list->at[plan->order[cut->begin + r]].block_count;
    if (reserve(b, rows, rows * length, blocks, error)) return -1;
    b->labelled = b->asked = 0;
    blocks = 0;
    for (size_t r = 0; r < rows; r++) {
        const sample *s = &list->at[plan->order[cut->begin + r]];
        fill_row(b, list, s, r, length);
        for (int i = 0; with_labels && i < s->block_count; i++) {
            b->block[blocks] = list->blocks.block[s->block_begin + (size_t)i];
            b->block[blocks++].batch = (int)r;
        }
        b->labelled += with_labels && s->block_count > 0;
    }
    b->batch = (encoder_batch){cut->count,
                               cut->length,
                               b->id,
                               b->segment,
                               b->sentence,
                               b->place,
                               b->lengths,
                               b->label,
                               b->asked ? b->masked : NULL,
                               blocks ? b->block : NULL,
                               blocks};
    return 0;
}

void batch_buffer_free(batch_buffer *b) {
    free(b->id);
    free(b->segment);
    free(b->sentence);
    free(b->place);
    free(b->masked);
    free(b->lengths);
    free(b->label);
    free(b->block);
    *b = (batch_buffer){0};
}

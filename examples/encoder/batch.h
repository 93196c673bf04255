/* Encoded rows on their way into the encoder: a growing list of samples, a plan that puts rows of like length together so
 * that little is padded, and buffers that hold one padded batch. */
#ifndef ENCODER_BATCH_H
#define ENCODER_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "encoder/encoder.h"
#include "text/blocks.h"
#include "text/encode.h"
#include "text/error.h"

typedef struct sample {
    size_t begin; /* of its tokens in the list's arrays */
    int length;
    int label;          /* class, -1: none */
    int tag;            /* the caller's: which source and stage it comes from */
    size_t block_begin; /* of its alpha labels in the list's blocks */
    int block_count;
} sample;

typedef struct samples {
    sample *at; /* [count] */
    size_t count, capacity;
    int *id, *segment, *sentence, *place, *masked; /* [tokens]; masked: -1, or the token that stood there */
    size_t tokens, token_capacity;
    block_list blocks; /* `batch` is 0 in all */
} samples;             /* {0} is an empty list; reused without freeing */

/* Appends a row with the label blocks that were added to list->blocks since the last one. 0, or -1 with a message. */
int samples_add(samples *list, const encoded_pair *pair, int label, int tag, text_error *error);
void samples_clear(samples *list); /* keeps its memory */
void samples_free(samples *list);

/* Hides tokens of the last sample for the masked language model: each with probability 0.15, of these 80% become `mask`, 10%
 * a random token that is not special, 10% stay. At least one token is asked for. The draw is a function of (seed, index). */
void samples_mask_last(samples *list, const tokenizer *t, uint64_t seed, uint64_t index);

/* Hides words of the last sample's premise (segment 0), each with probability `share`: `mask` stands for it wherever it stands in the
 * row, so that a row cannot be learnt by heart from one rare word. The draw is a function of (seed, index). */
void samples_hide_last(samples *list, const tokenizer *t, double share, uint64_t seed, uint64_t index);

/* Rows [begin, begin + count) of plan->order make one batch of `length`. */
typedef struct batch_slice {
    size_t begin;
    int count, length;
} batch_slice;

typedef struct batch_plan {
    size_t *order;      /* [samples] by length, then by index */
    batch_slice *slice; /* [slices] */
    size_t slices, order_capacity, slice_capacity;
    size_t tokens, padded; /* of all rows; of all batches with their padding */
} batch_plan;              /* {0} is an empty one */

/* Cuts the rows into batches of at most max_tokens with padding (one row may be longer), each padded by a tenth of its tokens
 * at most where it has more than one row. 0, or -1 when memory ends. */
int batch_plan_make(batch_plan *plan, const samples *list, int max_tokens, text_error *error);
void batch_plan_free(batch_plan *plan);

/* Buffers of one padded batch. */
typedef struct batch_buffer {
    encoder_batch batch;                           /* what encoder_forward takes; points into the buffer */
    int *id, *segment, *sentence, *place, *masked; /* [rows,length] */
    int *lengths, *label;                          /* [rows] */
    dea_label_block *block;
    size_t token_capacity, row_capacity, block_capacity;
    int labelled; /* rows that have alpha labels */
    int asked;    /* masked places */
} batch_buffer;   /* {0} is an empty one */

/* 0, or -1 when memory ends. with_labels 0: no alpha labels. */
int batch_fill(batch_buffer *buffer, const samples *list, const batch_plan *plan, size_t slice, int with_labels,
               text_error *error);
void batch_buffer_free(batch_buffer *buffer);

#endif

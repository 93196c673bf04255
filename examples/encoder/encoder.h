/* A Transformer encoder whose every attention is dual-expert attention (SPEC 1.10, 1.13), built from dea.h's parts alone.
 * Parameters, gradients and moments are arenas of one layout, the encoder's `table`; activations live in an encoder_work.
 *
 *     encoder *e = encoder_new(&config, error);
 *     dea_real *params = ...;                              // e->table.elements numbers
 *     encoder_reset(e, params, seed);
 *     encoder_work work = {0};                             // grows as needed, one a thread
 *     encoder_forward(e, params, &batch, &run, &work);     // work.logits, work.hidden
 *     encoder_backward(e, params, &batch, &run, &loss, grads, &work);
 *     encoder_work_free(&work); encoder_free(e);
 */
#ifndef ENCODER_ENCODER_H
#define ENCODER_ENCODER_H

#include <stddef.h>
#include <stdint.h>

#include "dea.h"

typedef enum encoder_positions {
    ENCODER_SINUSOIDAL, /* fixed sinusoids of the place in the row; the token embedding is scaled by sqrt(d_model) */
    ENCODER_LEARNT,     /* one learnt vector for every place in the row (BERT) */
    ENCODER_SENTENCE    /* a learnt vector for the place in the sentence plus one for the sentence's number */
} encoder_positions;

typedef struct encoder_config {
    int vocab;      /* size of the vocabulary */
    int segments;   /* 2: premise and hypothesis */
    int max_length; /* tokens a row may have */
    int d_model, heads, layers, feed_forward;
    int classes;        /* 0: no class head */
    int language_model; /* nonzero: a masked-language-model head tied to the token embedding */
    encoder_positions positions;
    int post_norm;        /* 0: pre-norm. 1: BERT's post-norm, with a norm after the embeddings */
    double norm_eps;      /* 1e-5; BERT checkpoints 1e-12 */
    double dropout;       /* in [0, 1): embedding sum, both branches, attention weights, class head; training only */
    double embedding_std; /* of token, segment and place embeddings at the start: 0.02 */
    double sentence_std;  /* ENCODER_SENTENCE: of the sentence numbers at the start: 0.02 */
    int use_temperature;  /* SPEC 1.14; 0: the paper's form */
    double temperature;   /* its start, 2 */
    int tie_k_to_q;       /* W_k starts as a copy of W_q */
    int w_rel_identity;   /* W_rel starts as the identity, for weights trained elsewhere */
    int split_heads;      /* ENCODER_SENTENCE: heads that start by looking at one thing each, see encoder_reset */
    double
        fixed_alpha; /* in [0, 0.95]: every cell's mix, in training and inference, no gate; below 0: the gate decides */
} encoder_config;

/* The paper's sizes (SPEC 1.10): 512 wide, 8 heads, 6 layers, 2048 feed-forward, sinusoidal, pre-norm, dropout 0.1, two
 * classes, no temperature. vocab is 0 and must be set. */
encoder_config encoder_config_default(void);

/* "sinusoidal", "learnt", "sentence". */
const char *encoder_positions_name(encoder_positions positions);
/* 0, or -1 for an unknown name. */
int encoder_positions_by_name(const char *name, encoder_positions *positions);

/* Places in the arena of one layer's tensors besides those of dea_layer. */
typedef struct encoder_layer {
    dea_layer attention;
    size_t norm1_gain, norm1_bias, norm2_gain, norm2_bias; /* [d_model] */
    size_t w_1, b_1;                                       /* [feed_forward, d_model], [feed_forward] */
    size_t w_2, b_2;                                       /* [d_model, feed_forward], [d_model] */
} encoder_layer;

typedef struct encoder {
    encoder_config config;
    dea_table table; /* every parameter; table.elements is the size of an arena */
    size_t token, segment, place,
        sentence;                /* [vocab, d], [segments, d], [max_length, d] twice; place also serves LEARNT */
    size_t norm_gain, norm_bias; /* after the embeddings (post-norm) or after the top layer (pre-norm) */
    size_t pooler_w, pooler_b, class_w, class_b;            /* class head */
    size_t lm_w, lm_b, lm_norm_gain, lm_norm_bias, lm_bias; /* masked-language-model head */
    encoder_layer *layer;                                   /* [layers] */
    dea_real *sinusoid;                                     /* [max_length, d], ENCODER_SINUSOIDAL only */
    dea_tensor *tensors;                                    /* the table's array */
} encoder;

/* NULL if memory ends or the configuration makes no sense; `message` (may be NULL, 160 bytes) then says what. */
encoder *encoder_new(const encoder_config *config, char *message);
void encoder_free(encoder *e);

/* Initial values, a function of the configuration and the seed. params: e->table.elements numbers. With split_heads token,
 * sentence and place (with the segment) start in a half, a quarter and a quarter of the width, and q and k of the first half of
 * the heads see the token's part alone, those of the next quarter the sentence's, the rest everything: with W_k = W_q equal
 * words, and the words of one sentence, attend to each other from the first step. All is free to change. */
dea_status encoder_reset(const encoder *e, dea_real *params, uint64_t seed);

/* Rows of tokens, padded to one length. Everything belongs to the caller. Places that pad hold any valid ids (0). */
typedef struct encoder_batch {
    int rows, length;                           /* B, T */
    const int *id, *segment, *sentence, *place; /* [B,T]; sentence and place only for ENCODER_SENTENCE, else NULL */
    const int *lengths;                         /* [B] tokens of each row, 1..T */
    const int *label;                           /* [B] class, -1: none; NULL: no class loss */
    const int *masked;                          /* [B,T] the token that [MASK] hides, -1: not asked; NULL: no LM loss */
    const dea_label_block *block;               /* alpha labels, `batch` counting rows of this batch; NULL: none */
    size_t block_count;
} encoder_batch;

/* How to run one batch. {0} is inference. */
typedef struct encoder_run {
    int training;        /* keep what backward needs, apply dropout */
    dea_real gamma;      /* share of the labels in the mix (14); 0 at inference */
    uint64_t seed, step; /* of the dropout masks: every batch of a training run needs its own step */
    dea_maps *maps;      /* NULL, or [layers]: maps to fill, see dea.h; each [B,H,T,T] */
    dea_threads threads; /* count 0 means one */
} encoder_run;

/* Activations of one batch. {0} is an empty one; forward makes it as large as it must be and reuses it. */
typedef struct encoder_work {
    dea_real *hidden;    /* [B,T,d_model] after the last layer (and its norm) */
    dea_real *logits;    /* [B,classes]; NULL without a class head */
    dea_real *lm_logits; /* [lm_rows, vocab], rows in the order of the batch's masked places; NULL without any */
    int lm_rows;
    void *memory;
    size_t bytes;
    struct encoder_places *places; /* where everything else lies; private to encoder.c */
} encoder_work;

/* Bytes of activations and workspace for such a batch; 0 if that overflows. lm_rows: masked places. */
size_t encoder_work_bytes(const encoder *e, int rows, int length, int lm_rows, int block_count, const encoder_run *run);
void encoder_work_free(encoder_work *work);
/* Makes the memory at least so large at once, so that batches of growing size need not move it. DEA_ERR_CAPACITY when memory ends. */
dea_status encoder_work_reserve(encoder_work *work, size_t bytes);

/* DEA_ERR_CAPACITY when memory ends; DEA_ERR_SHAPE for a batch longer than max_length; else what dea.h says. */
dea_status encoder_forward(const encoder *e, const dea_real *params, const encoder_batch *batch, const encoder_run *run,
                           encoder_work *work);

/* What a batch's losses weigh in the gradient, and what they came to. A weight of 0 leaves a loss out of the gradient. */
typedef struct encoder_loss {
    double class_weight, lm_weight, gate_weight; /* in */
    dea_gate gate;              /* in: options of the gate loss; its scale, beta and winners are set here */
    double class_loss, lm_loss; /* out: means over the rows and masked places that have a target */
    int class_rows, lm_rows;    /* out: how many these were */
    int correct;                /* out: rows whose likeliest class is their label */
    double gate_loss, gate_dense, gate_photo; /* out: means over the layers; 0 without labels */
    int64_t labelled, valid;                  /* out: of the first layer, over batch and heads */
} encoder_loss;

encoder_loss encoder_loss_init(void); /* all weights 1 */

/* The losses of the batch that `work` holds, without gradients. */
dea_status encoder_losses(const encoder *e, const dea_real *params, const encoder_batch *batch, const encoder_run *run,
                          encoder_loss *loss, encoder_work *work);

/* The same, and their gradients, which are added to the arena `grads`. The forward run must have been a training one. The gate
 * loss reaches the gate group alone, the others the main group alone (SPEC 1.9). Destroys the activations. */
dea_status encoder_backward(const encoder *e, const dea_real *params, const encoder_batch *batch,
                            const encoder_run *run, encoder_loss *loss, dea_real *grads, encoder_work *work);

/* Class probabilities [B,classes] of the batch that `work` holds. */
void encoder_probabilities(const encoder *e, int rows, const encoder_work *work, double *probabilities);

/* Mean of a map [B,H,T,T] (alpha_hat, say) over the cells of one label block and all heads. */
double encoder_block_mean(const dea_real *map, int heads, int length, const dea_label_block *block);

/* The attention of one layer as the forward run left it in `work` (q, k, v, options), for dea_verify_isolation; *saved is what
 * dea_gate_loss needs. */
dea_status encoder_layer_attention(const encoder *e, const encoder_work *work, int layer, dea_attention *attention,
                                   const dea_real **saved);

#endif

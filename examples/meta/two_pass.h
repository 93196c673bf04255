/* The two passes of meta-attention around a llama.h base: pass 1 reads the prompt, pass 2 runs with the blocks, and the
 * gradient comes back to encoder and blocks alone. A batch owns every buffer that one micro-batch needs. */
#ifndef META_TWO_PASS_H
#define META_TWO_PASS_H

#include "meta/llama.h"

#ifndef TWO_PASS_API
#    define TWO_PASS_API extern
#endif

enum { META_TENSORS = 64, META_LAYERS = 256 };

typedef struct meta_system {
    llama_model base;
    int read[META_LAYERS], write[META_LAYERS]; /* ascending; encoder.layers and blocks.count of them */
    dea_meta_encoder encoder;
    dea_meta_blocks blocks;
    dea_tensor tensors[META_TENSORS];
    dea_table table; /* enc_* then blk_* */
    dea_real *params;
} meta_system;

/* Encoder and blocks for these layers with bottleneck r; options of either may be set before meta_register. */
TWO_PASS_API dea_status meta_init(meta_system *m, const llama_model *base, const int *read, int reads, const int *write,
                                  int writes, int bottleneck, int heads);
/* Enters both into m->table, which stays inside m: do not copy m afterwards. The caller then sets m->params. */
TWO_PASS_API dea_status meta_register(meta_system *m);

typedef struct meta_batch {
    int batch, seq;         /* room for so much */
    int now_batch, now_seq; /* what the last pass 2 had */
    dea_meta_hooks hooks;
    dea_real *act, *cog, *dcog; /* [B,C,D] */
    dea_real *encoder_cache, *kv, *dkv;
    dea_real *x, *dx;      /* [N,D] top of the residual stream */
    dea_real *block_x;     /* [L_w,N,D] what each block read */
    dea_real *block_cache; /* [L_w, dea_meta_block_cache_count()] */
    dea_real *base_saved, *base_workspace;
    dea_real *keys, *values;                  /* cache of one sequence, for meta_generate */
    dea_real *rows, *head_workspace, *logits; /* scored rows: [N,D] twice, [N,V] */
    int *scored, *labels;                     /* their places in the batch and their targets */
    int scored_count;
    int lengths[META_LAYERS]; /* of pass 2; batch is at most META_LAYERS */
    void *workspace;          /* of dea.h */
    size_t workspace_bytes;
    void *memory; /* of all the above */
} meta_batch;

/* One allocation for micro-batches of up to `batch` sequences of `seq` tokens; NULL if memory is out or a size is wrong. */
TWO_PASS_API meta_batch *meta_batch_open(const meta_system *m, int batch, int seq);
TWO_PASS_API void meta_batch_close(meta_batch *b);

/* Pass 1: prompts [B,seq] padded on the right, n_prompt [B]. Leaves b->act recorded and frozen. */
TWO_PASS_API dea_status meta_pass1(const meta_system *m, meta_batch *b, int batch, int seq, const int *prompt,
                                   const int *n_prompt);
/* The base alone, for phase 0 and controls: as pass 1, and the logits at each last prompt token [B,V]. */
TWO_PASS_API dea_status meta_pass1_logits(const meta_system *m, meta_batch *b, int batch, int seq, const int *prompt,
                                          const int *n_prompt, dea_real *logits);
/* Cognitive tokens and all keys and values, from activations [B,C,D]: b->act through the hooks (act NULL: DEA_ERR_FROZEN if
 * pass 1 was not run), or others, for instance stored ones. */
TWO_PASS_API dea_status meta_think(const meta_system *m, meta_batch *b, int batch, const dea_real *act);
/* Pass 2 on whole sequences [B,seq]: the residual stream b->x. blocks_on 0: the bare base. */
TWO_PASS_API dea_status meta_pass2(const meta_system *m, meta_batch *b, int batch, int seq, const int *full,
                                   const int *n_full, int blocks_on);
/* (28) from b->x where targets [B,seq] are not negative; logits are formed there alone. *counted (or NULL): target tokens. */
TWO_PASS_API dea_status meta_loss(const meta_system *m, meta_batch *b, const int *targets, double *loss, int *counted);
/* Backward of d_loss times that loss: adds to grads (layout of m->table), writes b->dcog. act: what meta_think was given. */
TWO_PASS_API dea_status meta_backward(const meta_system *m, meta_batch *b, const int *full, const dea_real *act,
                                      double d_loss, dea_real *grads);

/* Greedy answer of one sequence, whose cognitive tokens are those of b (meta_think with batch 1); blocks_on 0: the base
 * alone. Writes up to `limit` tokens, without `end`, to answer and returns their number, or -1 and *status. weights: NULL, or
 * [L_w,C], to which A is added, summed over heads and over positions from the last prompt token on; *positions counts them. */
TWO_PASS_API int meta_generate(const meta_system *m, meta_batch *b, const int *prompt, int n_prompt, int blocks_on,
                               int end, int *answer, int limit, double *weights, int *positions, dea_status *status);

#endif

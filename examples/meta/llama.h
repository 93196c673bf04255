/* A Llama-like decoder that can stay frozen: RMSNorm, rotary positions, grouped key/value heads, SwiGLU; any number of
 * layers. Forward with or without a key/value cache, and a backward of activations only, which forms no weight gradient
 * unless it is handed a place for them. Weights come through an accessor, so that a real checkpoint can stand behind it.
 *
 *     x = x + o attention(rope(q a), rope(k a), v a),  a = RMSNorm(x)
 *     x = x + ffn_down (silu(ffn_gate a) o ffn_up a),  a = RMSNorm(x)         then the hook of layer l sees x
 *     logits = head RMSNorm(x)
 *
 * N = batch * seq rows, D wide, KV = kv_heads * head width, F = ffn. Sequences are padded on the right: real tokens never see
 * padding. Nothing is allocated: sizes are asked first, in dea_real. */
#ifndef META_LLAMA_H
#define META_LLAMA_H

#include "dea.h"

#ifndef LLAMA_API
#    define LLAMA_API extern
#endif

typedef struct llama_config {
    int layers, width, heads, kv_heads, ffn,
        vocab; /* heads divides width, kv_heads divides heads, width/heads is even */
    double rope_theta, rms_eps;
} llama_config;

/* Tensors, row-major [out,in]; those up to LLAMA_FFN_DOWN are one a layer. */
typedef enum llama_tensor {
    LLAMA_ATTN_NORM,  /* [D] */
    LLAMA_Q,          /* [D,D] */
    LLAMA_K,          /* [KV,D] */
    LLAMA_V,          /* [KV,D] */
    LLAMA_O,          /* [D,D] */
    LLAMA_MLP_NORM,   /* [D] */
    LLAMA_FFN_GATE,   /* [F,D] */
    LLAMA_FFN_UP,     /* [F,D] */
    LLAMA_FFN_DOWN,   /* [D,F] */
    LLAMA_EMB,        /* [V,D] */
    LLAMA_FINAL_NORM, /* [D] */
    LLAMA_HEAD,       /* [V,D] */
    LLAMA_TENSORS
} llama_tensor;

/* The base: `get` returns a tensor (layer 0 for those that are not per layer); what it returns need only live until the next
 * call, so a loader may convert one tensor at a time. */
typedef struct llama_model {
    llama_config config;
    const dea_real *(*get)(void *weights, llama_tensor which, int layer);
    void *weights;
    dea_threads threads;
} llama_model;

/* Where weight gradients are added to, laid out like the tensors. A frozen base has none. */
typedef struct llama_gradients {
    dea_real *(*get)(void *grads, llama_tensor which, int layer);
    void *grads;
} llama_gradients;

/* Sees, and may change in place, x [N,D] after a layer; in the backward its cotangent. An error ends the call. */
typedef dea_status llama_hook(void *context, int layer, dea_real *x);

/* Keys and values of positions 0..used-1 of `batch` sequences: [layers,batch,capacity,KV] each. */
typedef struct llama_kv {
    dea_real *k, *v;
    int batch, capacity, used;
} llama_kv;

typedef struct llama_call {
    int batch, seq;
    const int *ids;   /* [batch,seq] */
    llama_hook *hook; /* or NULL */
    void *context;
    llama_kv *kv;        /* NULL: positions 0..seq-1. Else these tokens follow its `used`, and are added to it */
    dea_real *saved;     /* llama_saved_count() for the backward, or NULL; not with a cache */
    dea_real *workspace; /* llama_workspace_count() */
} llama_call;

LLAMA_API llama_call llama_call_init(const int *ids, int batch, int seq);

/* Rows and columns of a tensor. */
LLAMA_API void llama_shape(const llama_config *config, llama_tensor which, int *rows, int *columns);
/* The name it has in golden files and checkpoints, without prefix. */
LLAMA_API const char *llama_name(llama_tensor which);
LLAMA_API int llama_is_per_layer(llama_tensor which);
/* DEA_ERR_SHAPE if sizes do not fit each other. */
LLAMA_API dea_status llama_check(const llama_config *config);

LLAMA_API size_t llama_saved_count(const llama_config *config, int batch, int seq);
LLAMA_API size_t llama_workspace_count(const llama_config *config, int batch, int seq);
/* One half of a key/value cache. */
LLAMA_API size_t llama_kv_count(const llama_config *config, int batch, int capacity);

/* ids -> x [N,D], the residual stream after the last layer and its hook. */
LLAMA_API dea_status llama_forward(const llama_model *model, llama_call *call, dea_real *x);
/* x [rows,D] -> logits [rows,V]. workspace: rows D. */
LLAMA_API dea_status llama_head(const llama_model *model, const dea_real *x, int rows, dea_real *logits,
                                dea_real *workspace);
/* dx [rows,D] from dlogits. workspace: rows D. */
LLAMA_API dea_status llama_head_backward(const llama_model *model, const dea_real *x, const dea_real *dlogits, int rows,
                                         dea_real *dx, const llama_gradients *grads, dea_real *workspace);
/* dx [N,D], the cotangent of x, goes down: at each layer from the top to `lowest` call->hook on it, then, above `lowest`,
 * through the layer; nothing below is visited. lowest -1: through every layer and the embedding, as training a base needs.
 * grads NULL: activations only. */
LLAMA_API dea_status llama_backward(const llama_model *model, llama_call *call, dea_real *dx, int lowest,
                                    const llama_gradients *grads);

#endif

/* dea.h 0.1.0 - Dual-Expert Attention, exact, with hand-written gradients. One header, C11 or C++17, MIT licence.
 *
 *     #define DEA_IMPLEMENTATION                        // in exactly one .c file
 *     #include "dea.h"
 *
 *     dea_attention a = dea_attention_init(batch, heads, seq, head_dim);        // every option at its default
 *     a.q = q; a.k = k; a.v = v;                        // [batch, heads, seq, head_dim] unless strides say otherwise
 *     a.w_rel = w_rel; a.w_gate = w_gate; a.c_gate = c_gate;
 *     size_t bytes = dea_forward_workspace(&a);         // you allocate, aligned to 64 bytes; nothing here ever does
 *     dea_status st = dea_forward(&a, out, saved, workspace, bytes);            // saved: for backward; NULL = inference
 *     if (st != DEA_OK) fprintf(stderr, "%s\n", dea_status_string(st));
 *     st = dea_backward(&a, out, saved, d_out, &gradients, workspace, bytes);   // see dea_gradients, dea_gate_loss
 *
 * Each head scores a key twice: "looks like", E0 = q.k/sqrt(d), and "works like", E1 = -||W_rel q - k||^2/d (does the
 * head's relation turn q into k?). Both are z-scored over the keys a query sees, a gate alpha-hat mixes them, softmax and
 * the weighted sum of values follow. Offline labels alpha teach the gate; the task loss never reaches the gate and the
 * gate loss reaches nothing else. Numbers in brackets, (1) to (15), are the equations listed in README.md.
 *
 * Macros, all optional, the same in every file that includes this one:
 *     DEA_REAL float | double   the type of every tensor (default float; double for gradient checks)
 *     DEA_STATIC                everything static: several files may each have their own copy
 *     DEA_API                   your own linkage specifier for public functions
 *     DEA_NO_BLAS               no CBLAS; matrix products by this header's own kernels
 *     DEA_NO_SIMD               plain loops only, no vector extensions, no choice of instruction set at run time
 *     DEA_HEADER "name.h"       if you rename this file (it includes itself, once for each instruction set)
 *
 * What holds everywhere: nothing is allocated, printed, locked, cached or kept in globals; no exit, no abort; BLAS threads
 * are left alone. A function that returns an error has not touched its outputs. The same input gives the same bits for any
 * number of threads; across CPUs results agree to rounding. NaN and infinity in q, k or v show up only in the output rows
 * that see them. Tensors are row-major; "[B,H,T,d]" names axes from slowest to fastest. Gradients of activations are
 * written; gradients of parameters are ADDED TO, so that micro-batches and layers can share one arena: zero it yourself.
 *
 * Rooms: 1 this screen  2 declarations  3 status, memory, threads  4 vector kernels  5 plain path  6 fast path
 *        7 gate loss  8 parts  9 layer  10 meta-attention  11 optimiser  12 checks                                     */

/* ==== 2. Public declarations ========================================================================================== */
#ifndef DEA_H_DECLARATIONS
#define DEA_H_DECLARATIONS

#include <stddef.h>
#include <stdint.h>

#define DEA_VERSION "0.1.0"

#ifndef DEA_REAL
#    define DEA_REAL float
#endif
#ifndef DEA_HEADER
#    define DEA_HEADER "dea.h"
#endif
#ifndef DEA_API
#    if defined(DEA_STATIC) && (defined(__GNUC__) || defined(__clang__))
#        define DEA_API static __attribute__((unused))
#    elif defined(DEA_STATIC)
#        define DEA_API static
#    else
#        define DEA_API extern
#    endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef DEA_REAL dea_real;

#define DEA_ALPHA_MAX   0.95  /* alpha and alpha-hat never exceed this: at least 5% of similarity survives */
#define DEA_SIGMA_EPS   1e-5  /* added to a row's standard deviation in (3) */
#define DEA_BETA_EPS    1e-6  /* in (8); slopes closer than this are parallel */
#define DEA_ALIGNMENT   64    /* bytes; what a workspace must be aligned to */
#define DEA_SAVED_FLOATS 4    /* numbers a row that backward needs from forward */

/* ---- status ---------------------------------------------------------------------------------------------------------- */
typedef enum dea_status {
    DEA_OK = 0,
    DEA_ERR_NULL = -1,          /* a pointer that must be given is NULL */
    DEA_ERR_SHAPE = -2,         /* a size is zero or negative, or sizes do not fit each other */
    DEA_ERR_OVERFLOW = -3,      /* a product of sizes does not fit in memory's address range */
    DEA_ERR_WORKSPACE = -4,     /* workspace smaller than the ..._workspace() function says */
    DEA_ERR_ALIGNMENT = -5,     /* workspace not aligned to DEA_ALIGNMENT bytes */
    DEA_ERR_STRIDE = -6,        /* a stride is negative, or rows of one tensor overlap */
    DEA_ERR_ALIAS = -7,         /* an output shares memory with an input or with another output */
    DEA_ERR_KEY_LENGTH = -8,    /* a key length is below 0 or above seq_k */
    DEA_ERR_LABEL = -9,         /* an alpha label is outside [0, 0.95] */
    DEA_ERR_BLOCK = -10,        /* a label block is empty or outside the map */
    DEA_ERR_BLOCK_OVERLAP = -11,/* two label blocks share a cell */
    DEA_ERR_TARGET = -12,       /* a target key is below -1 or not below seq_k */
    DEA_ERR_GAMMA = -13,        /* gamma is outside [0, 1] */
    DEA_ERR_DROPOUT = -14,      /* a dropout probability is outside [0, 1) */
    DEA_ERR_TEMPERATURE = -15,  /* a temperature is not a finite number above 0 */
    DEA_ERR_OPTION = -16,       /* an option has no meaning, or two options exclude each other */
    DEA_ERR_ISA = -17,          /* the instruction set asked for is not there on this CPU or in this build */
    DEA_ERR_INDEX = -18,        /* an embedding id or class index is out of range */
    DEA_ERR_CAPACITY = -19,     /* a table or buffer given by the caller is full, or a name is too long */
    DEA_ERR_NONFINITE = -20,    /* a gradient holds NaN or infinity; nothing was updated */
    DEA_ERR_ISOLATION = -21,    /* one loss reached a gradient that belongs to the other */
    DEA_ERR_LABELS_MISSING = -22, /* the gate loss needs alpha labels */
    DEA_ERR_FROZEN = -23,       /* a frozen buffer was written, or an unfrozen or empty one read */
    DEA_ERR_BASE_CHANGED = -24  /* bytes that must stay frozen have changed */
} dea_status;

/* One English sentence for a status, never NULL. */
DEA_API const char *dea_status_string(dea_status status);

/* ---- threads --------------------------------------------------------------------------------------------------------- */
typedef void dea_task(void *context, int index);

/* How a call spreads its work. `run` must call task(context, i) once for every i in [0, count), concurrently if it likes,
 * and return when all have returned. run = NULL: OpenMP if compiled in, else one after another. Results do not depend on it. */
typedef struct dea_threads {
    int count; /* workers, at least 1; each needs its own part of the workspace */
    void (*run)(void *user, int count, dea_task *task, void *context);
    void *user;
} dea_threads;

/* OpenMP's maximum number of threads if compiled with it, else 1. */
DEA_API dea_threads dea_threads_default(void);

/* ---- attention ------------------------------------------------------------------------------------------------------- */
/* Distances in elements between neighbours along an axis; head_dim itself is contiguous. All zero: contiguous [B,H,T,d].
 * Axes must nest: sorted by stride, each stride must be at least the span of everything inside it. */
typedef struct dea_strides {
    ptrdiff_t batch, head, token;
} dea_strides;

/* The cells [q_begin, q_end) x [k_begin, k_end) of one batch row all carry the label alpha. */
typedef struct dea_label_block {
    int batch, q_begin, q_end, k_begin, k_end;
    dea_real alpha;
} dea_label_block;

/* Maps for looking inside, each NULL or [B,H,Tq,Tk]; cells a query does not see are exactly 0. Asking for one takes the
 * plain path, whose workspace is O(Tq Tk) a worker. */
typedef struct dea_maps {
    dea_real *et0, *et1;   /* (3) normalised energies */
    dea_real *alpha_hat;   /* (6) */
    dea_real *alpha_mix;   /* (14) */
    dea_real *s;           /* (14') scores, temperature included */
    dea_real *a;           /* softmax of s, before dropout */
} dea_maps;

typedef enum dea_path { DEA_PATH_AUTO, DEA_PATH_PLAIN, DEA_PATH_FAST } dea_path;
typedef enum dea_isa { DEA_ISA_AUTO, DEA_ISA_BASELINE, DEA_ISA_AVX2, DEA_ISA_AVX512 } dea_isa;

typedef struct dea_attention {
    /* Shape. */
    int batch, heads, seq_q, seq_k, head_dim;
    /* Inputs. */
    const dea_real *q;           /* [B,H,Tq,d] */
    const dea_real *k, *v;       /* [B,H,Tk,d] */
    dea_strides q_strides, k_strides, v_strides, o_strides; /* all 0: contiguous; o_strides also serves d_o */
    const dea_real *w_rel;       /* [H,d,d], the relation of a head: u = W_rel q */
    const dea_real *w_gate;      /* [H,2d+2], laid out [w_q (d) | w_k (d) | w_0 | w_1] */
    const dea_real *c_gate;      /* [H] */
    const dea_real *temperature; /* [H], > 0; NULL: 1, the paper's form (14') */
    /* Which keys a query sees. */
    const int *key_lengths;      /* [B], 0..Tk: keys from this one on are padding; NULL: all Tk */
    int causal;                  /* nonzero: query i sees keys j <= i only */
    /* Labels: at most one of the two forms. */
    const dea_real *labels;      /* [B,Tq,Tk] alpha in [0, 0.95], NaN where a cell has none; the same for every head */
    const dea_label_block *label_blocks;
    size_t label_block_count;
    dea_real gamma;              /* share of the label in the mix (14), in [0,1]; 0 at inference */
    /* Dropout on attention weights; the mask is a function of (seed, step, batch, head, query, key) and never stored. */
    dea_real dropout;            /* in [0,1) */
    uint64_t seed, step;
    /* Optional outputs of dea_forward. */
    dea_maps maps;
    /* How to compute. */
    dea_path path;               /* AUTO: the fast path, unless a map is asked for */
    dea_isa isa;                 /* AUTO: the best this CPU has */
    dea_threads threads;
} dea_attention;

/* Self-attention of this shape, every option off, threads at dea_threads_default(). Set seq_k for cross attention. */
DEA_API dea_attention dea_attention_init(int batch, int heads, int seq, int head_dim);

/* Number of dea_real in `saved`: B*H*4*Tq, or 0 if the shape is wrong. Laid out [B,H,4,Tq]: sigma0, sigma1 (standard
 * deviation of each raw energy over the row's keys), shift (what was subtracted from a row's scores before exp), and the
 * sum of exp(score - shift) over the row's keys. Either path writes it and either path reads it. */
DEA_API size_t dea_saved_count(const dea_attention *a);

/* Workspace in bytes for the call of the same name with these shapes and options; 0 if they are wrong (the call then says
 * what is wrong). A workspace may be reused by any later call; nothing is kept in it. */
DEA_API size_t dea_forward_workspace(const dea_attention *a);
DEA_API size_t dea_backward_workspace(const dea_attention *a);

/* (1)-(6), (14), (14'): o [B,H,Tq,d] = softmax(S_mix) v, in o_strides. saved: dea_saved_count(a) numbers for dea_backward
 * and dea_gate_loss, or NULL. A query that sees no key gives a row of zeros. */
DEA_API dea_status dea_forward(const dea_attention *a, dea_real *o, dea_real *saved, void *workspace,
                               size_t workspace_bytes);

/* Where gradients go. Each may be NULL: not wanted. */
typedef struct dea_gradients {
    dea_real *dq, *dk, *dv;  /* written; strides of q, k, v. Keys nobody sees get zeros. */
    dea_real *dw_rel;        /* [H,d,d], added to */
    dea_real *dtemperature;  /* [H], added to; needs a temperature */
    dea_real *dw_gate;       /* [H,2d+2], added to, by dea_gate_loss alone */
    dea_real *dc_gate;       /* [H], added to, by dea_gate_loss alone */
} dea_gradients;

/* Differentiates o = dea_forward(a): given o and saved as it left them and d_o, the loss's gradient by o, both in
 * o_strides, fills dq, dk, dv and adds to dw_rel, dtemperature. SPEC 1.11: dA = dO V^T, dS = A o (dA - rowsum(A o dA)),
 * dM = t dS, dEt0 = (1 - a_mix) dM, dEt1 = a_mix dM, then through (3), (2), (1). Labels, gamma, dropout, seed and step must
 * be those of the forward. Does not touch dw_gate and dc_gate: the task loss never reaches the gate. */
DEA_API dea_status dea_backward(const dea_attention *a, const dea_real *o, const dea_real *saved, const dea_real *d_o,
                                const dea_gradients *gradients, void *workspace, size_t workspace_bytes);

/* ---- gate loss ------------------------------------------------------------------------------------------------------- */
typedef struct dea_gate {
    const int *targets;   /* [B,Tq] target key of each query, -1 for none; NULL: the oracle's winner, the labelled visible
                             key with the largest S*(alpha) (4), lowest index on a tie */
    int hard_negatives;   /* 0: every distractor; m > 0: only the m whose beta lies nearest the target's alpha */
    int projected;        /* nonzero: a saturated gate still gets the gradient that points back inside */
    dea_real scale;       /* multiplies the gradients (for instance 1/layers); 1 by default. The loss is not scaled. */
    dea_real *beta;       /* NULL or [B,H,Tq,Tk] (8): NaN where there is none; a distractor's beta for a query's target */
    int *winners;         /* NULL or [B,H,Tq]: the target used, -1 where a query has no photo-finish */
} dea_gate;

typedef struct dea_gate_result {
    double loss;          /* dense + photo */
    double dense;         /* mean over labelled visible cells of (alpha-hat - alpha)^2; 0 if there are none */
    double photo;         /* mean over valid (target, distractor) pairs of L_tp (13); 0 if there are none */
    int64_t labelled;     /* labelled visible cells, over batch and heads */
    int64_t valid;        /* valid pairs, over batch and heads; those used, with hard negatives */
} dea_gate_result;

DEA_API dea_gate dea_gate_init(void);

DEA_API size_t dea_gate_loss_workspace(const dea_attention *a, const dea_gate *gate);

/* (7)-(13): the gate loss of one layer and, where dw_gate or dc_gate are given, its gradients. Needs q, k, w_rel, w_gate,
 * c_gate and labels of `a` (v and gamma are not used), and `saved` as dea_forward left it. Touches nothing else in
 * `gradients`: the gate loss never reaches q, k or W_rel. gradients may be NULL, result may not. */
DEA_API dea_status dea_gate_loss(const dea_attention *a, const dea_gate *gate, const dea_real *saved,
                                 const dea_gradients *gradients, dea_gate_result *result, void *workspace,
                                 size_t workspace_bytes);

/* (8) for a target with energies (et0_t, et1_t) and a distractor with (et0_p, et1_p). Returns 1 and *beta if the finish is
 * valid, 0 if the lines are parallel or cross outside [0,1]. */
DEA_API int dea_beta(double et0_t, double et1_t, double et0_p, double et1_p, double *beta);

/* (9)-(13) for one pair: the loss, and its derivative by alpha_hat in *d_alpha_hat if not NULL. */
DEA_API double dea_photo_loss(double alpha, double alpha_hat, double beta, double *d_alpha_hat);

/* ---- parts: what a Transformer needs besides attention -------------------------------------------------------------- */
/* Element-wise functions may work in place (y == x, dx == dy); otherwise outputs must not overlap inputs.
 * threads may be NULL: one. */

/* y [rows,out] = x [rows,in] w^T + b, w [out,in]; b [out] or NULL. */
DEA_API dea_status dea_linear_forward(const dea_real *x, const dea_real *w, const dea_real *b, dea_real *y, int rows, int in,
                                      int out, const dea_threads *threads);
/* dx = dy w (written); dw += dy^T x; db += column sums of dy. Each may be NULL; w is needed for dx, x for dw. */
DEA_API dea_status dea_linear_backward(const dea_real *x, const dea_real *w, const dea_real *dy, dea_real *dx, dea_real *dw,
                                       dea_real *db, int rows, int in, int out, const dea_threads *threads);

/* y = gain o (x - mean)/sqrt(var + eps) + bias over the last axis of x [rows,width], population variance. gain and bias
 * [width] or NULL (1 and 0). saved [2,rows]: mean and 1/sqrt(var + eps), or NULL at inference. */
DEA_API dea_status dea_layer_norm_forward(const dea_real *x, const dea_real *gain, const dea_real *bias, dea_real *y,
                                          dea_real *saved, int rows, int width, double eps, const dea_threads *threads);
/* dx written (may be NULL, may be dy); dgain and dbias added to (may be NULL). */
DEA_API dea_status dea_layer_norm_backward(const dea_real *x, const dea_real *gain, const dea_real *saved, const dea_real *dy,
                                           dea_real *dx, dea_real *dgain, dea_real *dbias, int rows, int width,
                                           const dea_threads *threads);

/* Exact GELU: y = x Phi(x), Phi(x) = (1 + erf(x/sqrt 2))/2. */
DEA_API dea_status dea_gelu_forward(const dea_real *x, dea_real *y, size_t count, const dea_threads *threads);
/* dx = dy (Phi(x) + x exp(-x^2/2)/sqrt(2 pi)). dx may be dy. */
DEA_API dea_status dea_gelu_backward(const dea_real *x, const dea_real *dy, dea_real *dx, size_t count,
                                     const dea_threads *threads);

DEA_API dea_status dea_tanh_forward(const dea_real *x, dea_real *y, size_t count);
/* dx = dy (1 - y^2), y as the forward left it. dx may be dy. */
DEA_API dea_status dea_tanh_backward(const dea_real *y, const dea_real *dy, dea_real *dx, size_t count);

/* y = x m/(1 - p), m in {0,1} drawn from (seed, step, stream, element). `stream` tells the places of a model apart. The same
 * call with dy in place of x is its own backward. */
DEA_API dea_status dea_dropout(const dea_real *x, dea_real *y, size_t count, double p, uint64_t seed, uint64_t step,
                               uint64_t stream);

/* y [rows,width] = scale table[ids], table [vocab,width], ids [rows] in [0, vocab). */
DEA_API dea_status dea_embedding_forward(const dea_real *table, const int *ids, dea_real *y, int rows, int vocab, int width,
                                         double scale);
/* dtable[ids] += scale dy, rows in order. */
DEA_API dea_status dea_embedding_backward(const int *ids, const dea_real *dy, dea_real *dtable, int rows, int vocab, int width,
                                          double scale);

/* *loss = mean over rows with target >= 0 of -sum_c p_c log softmax(logits)_c, where p puts 1 - smoothing on the target and
 * smoothing/classes on every class. targets [rows]: a negative one leaves its row out. *counted (may be NULL): rows in the
 * mean; with none the loss is 0. */
DEA_API dea_status dea_cross_entropy_forward(const dea_real *logits, const int *targets, double *loss, int *counted, int rows,
                                             int classes, double smoothing);
/* dlogits [rows,classes] = d_loss (softmax - p)/counted, 0 in rows left out. dlogits may be logits. */
DEA_API dea_status dea_cross_entropy_backward(const dea_real *logits, const int *targets, double d_loss, dea_real *dlogits,
                                              int rows, int classes, double smoothing);

/* ---- parameters: one arena, one table ------------------------------------------------------------------------------- */
typedef enum dea_group { DEA_GROUP_MAIN = 0, DEA_GROUP_GATE = 1, DEA_GROUPS = 2 } dea_group;

typedef struct dea_tensor {
    char name[64];
    int rank;
    int shape[4];          /* `rank` entries, row-major */
    size_t offset, count;  /* in elements, from the start of the arena */
    dea_group group;
    int decay;             /* nonzero: weight decay applies (matrices) */
    dea_real lr_scale;     /* multiplies the group's learning rate; 1 unless said otherwise */
} dea_tensor;

/* The tensors of a model in arena order. `tensors` is the caller's array. Gradients and moments are arenas of the same
 * layout: `elements` dea_real each. */
typedef struct dea_table {
    dea_tensor *tensors;
    int count, capacity;
    size_t elements;
} dea_table;

DEA_API dea_table dea_table_init(dea_tensor *tensors, int capacity);

/* Appends a tensor named `prefix` followed by `name` and returns its place in the arena in *offset (may be NULL). shape has
 * `rank` entries, 1..4. Tensors start at multiples of 64 bytes. */
DEA_API dea_status dea_table_add(dea_table *table, const char *prefix, const char *name, int rank, const int *shape,
                                 dea_group group, int decay, size_t *offset);

/* The tensor of this name, or NULL. */
DEA_API const dea_tensor *dea_table_find(const dea_table *table, const char *name);

/* Fills, each a function of (seed, index) alone: uniform in +-sqrt(6/(fan_in+fan_out)) (Xavier), normal, and an orthogonal
 * [n,n] matrix (QR of a Gaussian, R's diagonal positive). */
DEA_API void dea_fill_xavier(dea_real *w, size_t count, int fan_in, int fan_out, uint64_t seed);
DEA_API void dea_fill_normal(dea_real *w, size_t count, double std, uint64_t seed);
DEA_API void dea_fill_orthogonal(dea_real *w, int n, uint64_t seed);

/* ---- layer: projections around the attention ------------------------------------------------------------------------ */
typedef struct dea_layer {
    int d_model, heads;
    int use_temperature;      /* 0: the paper's form. 1: one learnt temperature a head (14') */
    double temperature;       /* its initial value, 2 by default */
    int w_rel_identity;       /* 0: W_rel orthogonal a head. 1: identity, for weights trained elsewhere */
    int tie_k_to_q;           /* 1: W_k starts as a copy of W_q (and is free to part) */
    /* Places in the arena, set by dea_layer_register. */
    size_t w_qkv, b_qkv;      /* [3 d_model, d_model] (rows q, k, v), [3 d_model] */
    size_t w_rel;             /* [H,d,d] */
    size_t w_gate, c_gate;    /* [H,2d+2], [H], group gate */
    size_t temperatures;      /* [H], no decay; only with use_temperature */
    size_t w_o, b_o;          /* [d_model, d_model], [d_model] */
} dea_layer;

/* d_model must be a multiple of heads. */
DEA_API dea_layer dea_layer_init(int d_model, int heads);
DEA_API dea_status dea_layer_register(dea_layer *layer, dea_table *table, const char *prefix);
/* Initial values (SPEC 1.5, 1.10, 1.13) into the arena: linear maps Xavier uniform, biases 0, c = -0.5. */
DEA_API dea_status dea_layer_reset(const dea_layer *layer, dea_real *params, uint64_t seed);

/* The attention of this layer for x [batch,seq,d_model]: shapes, strides and parameters set, options off. Set the options
 * you want and hand it to the functions below, unchanged between forward, gate loss and backward. */
DEA_API dea_attention dea_layer_attention(const dea_layer *layer, const dea_real *params, int batch, int seq);

/* Number of dea_real that forward keeps for backward: q, k, v [B,T,3,H,d], o [B,T,H,d] and `saved`; 0 if shapes are wrong. */
DEA_API size_t dea_layer_cache_count(const dea_layer *layer, const dea_attention *a);
/* Bytes that serve each of the three calls below; 0 if shapes are wrong. gate may be NULL. */
DEA_API size_t dea_layer_workspace(const dea_layer *layer, const dea_attention *a, const dea_gate *gate);

/* y [B,T,d_model] = DEA(x w_qkv^T + b_qkv) w_o^T + b_o. Sets a's q, k, v to places in cache. */
DEA_API dea_status dea_layer_forward(const dea_layer *layer, const dea_real *params, dea_attention *a, const dea_real *x,
                                     dea_real *y, dea_real *cache, void *workspace, size_t workspace_bytes);
/* Gradients of the layer's main group are added to the arena `grads`; dx [B,T,d_model] is written, or NULL. */
DEA_API dea_status dea_layer_backward(const dea_layer *layer, const dea_real *params, const dea_attention *a,
                                      const dea_real *x, const dea_real *cache, const dea_real *dy, dea_real *dx,
                                      dea_real *grads, void *workspace, size_t workspace_bytes);
/* dea_gate_loss on the layer's own q and k; adds to the gate group in `grads` (NULL: loss only). */
DEA_API dea_status dea_layer_gate_loss(const dea_layer *layer, const dea_attention *a, const dea_gate *gate,
                                       const dea_real *cache, dea_real *grads, dea_gate_result *result, void *workspace,
                                       size_t workspace_bytes);

/* ---- optimiser and schedules ---------------------------------------------------------------------------------------- */
typedef struct dea_adamw {
    double lr[DEA_GROUPS];     /* main 3e-4, gate 1e-3 */
    double clip[DEA_GROUPS];   /* largest global norm of each group's gradient, 1.0 each; 0: no clipping */
    double beta1, beta2, eps;  /* 0.9, 0.999, 1e-8 */
    double weight_decay;       /* 0.01, decoupled, on tensors with `decay` */
} dea_adamw;

DEA_API dea_adamw dea_adamw_init(void);

/* One step over every tensor of the table. m and v are the moments, zero before the first step; step counts from 1;
 * lr_factor multiplies both learning rates (a schedule). norms [DEA_GROUPS] (may be NULL): gradient norms before clipping.
 * DEA_ERR_NONFINITE if any gradient is NaN or infinite: parameters and moments are then untouched. */
DEA_API dea_status dea_adamw_step(const dea_adamw *optimiser, const dea_table *table, dea_real *params, const dea_real *grads,
                                  dea_real *m, dea_real *v, int64_t step, double lr_factor, double *norms);

/* (15): 1 at step 0, falling linearly to 0 at anneal_steps (10,000 in the paper), 0 after. */
DEA_API double dea_gamma(int64_t step, int64_t anneal_steps);
/* (29): (step+1)/warmup below warmup, then (1 + cos(pi (step - warmup)/(total - warmup)))/2; 0 from `total` on. */
DEA_API double dea_warmup_cosine(int64_t step, int64_t warmup, int64_t total);

/* ---- oracle helpers ------------------------------------------------------------------------------------------------- */
typedef enum dea_band { DEA_BAND_NEAR, DEA_BAND_WEAK, DEA_BAND_STRONG, DEA_BAND_BETWEEN } dea_band;

/* (5): alpha = clamp(sigmoid(phi - 0.3 sim), 0, 0.95). phi: entailment logit, sim: cosine of embeddings. */
DEA_API double dea_oracle_alpha(double phi, double sim);
/* near-identical [0, 0.05], weak [0.15, 0.30], strong [0.75, 0.95]; anything else lies between. */
DEA_API dea_band dea_band_of(double alpha);
DEA_API const char *dea_band_name(dea_band band);
/* Mock label number `index`: a band by the masses 45%, 25%, 30%, then uniform inside it. */
DEA_API double dea_mock_alpha(uint64_t seed, uint64_t index);

DEA_API size_t dea_isotonic_workspace(int count);
/* Pool adjacent violators: the nondecreasing step function nearest to y [count] over x [count] in weighted squares (weight
 * NULL: 1; equal x are pooled first). Writes *knots <= count points to knot_x, knot_y (room for `count` each): the first and
 * last x of every pool. */
DEA_API dea_status dea_isotonic_fit(const double *x, const double *y, const double *weight, int count, double *knot_x,
                                    double *knot_y, int *knots, void *workspace, size_t workspace_bytes);
/* Straight lines between knots, constant outside. */
DEA_API double dea_isotonic_apply(const double *knot_x, const double *knot_y, int knots, double x);

/* ---- checks --------------------------------------------------------------------------------------------------------- */
typedef struct dea_isolation {
    const char *tensor;        /* "dq", "dw_rel", ... : the first gradient that differs; NULL if none does */
    const char *what;          /* which comparison failed, in words; NULL if none did */
    int batch, head;           /* where; batch is -1 for a parameter */
    size_t index;              /* element inside that head's tensor */
    double apart, together;
} dea_isolation;

DEA_API size_t dea_verify_isolation_workspace(const dea_attention *a, const dea_gate *gate);
/* On the caller's own batch: gradients of the task loss (d_o) alone, of the gate loss alone, and of both in either order,
 * compared bit for bit. DEA_ERR_ISOLATION and the report filled if one loss reached a gradient of the other. */
DEA_API dea_status dea_verify_isolation(const dea_attention *a, const dea_gate *gate, const dea_real *d_o,
                                        dea_isolation *report, void *workspace, size_t workspace_bytes);

/* Central difference (f(x_i + h) - f(x_i - h))/2h of a scalar function of x; x[i] is restored. For checking gradients. */
DEA_API double dea_finite_difference(double (*f)(void *context), void *context, dea_real *x, double h);

#ifdef __cplusplus
}
#endif
#endif /* DEA_H_DECLARATIONS */

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
 *     bytes = dea_backward_workspace(&a);               // more than forward needs: take the larger for both
 *     dea_gradients gradients = {0};                    // NULL: not wanted; then gradients.dq = dq; ...
 *     st = dea_backward(&a, out, saved, d_out, &gradients, workspace, bytes);   // and dea_gate_loss teaches the gate
 *
 * Build with `cc -O2 ... -lopenblas -lm` (cblas.h, Debian's libopenblas-dev), or with -DDEA_NO_BLAS and -lm alone; -fopenmp for
 * threads. The kernels are compiled once for each instruction set, ten to twenty seconds at -O2: keep the implementation in
 * a file of its own. Without optimisation it is several times slower.
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

/* ==== 2. Public declarations ====================================================================================== */
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

#define DEA_ALPHA_MAX       0.95  /* alpha and alpha-hat never exceed this: at least 5% of similarity survives */
#define DEA_TEMPERATURE_MIN 1e-30 /* the least temperature: gate weights are divided by it */
#define DEA_SIGMA_EPS       1e-5  /* added to a row's standard deviation in (3) */
#define DEA_BETA_EPS        1e-6  /* in (8); slopes closer than this are parallel */
#define DEA_ALIGNMENT       64    /* bytes; what a workspace must be aligned to */
#define DEA_SAVED_FLOATS    4     /* numbers a row that backward needs from forward */

/* ---- status ------------------------------------------------------------------------------------------------------ */
typedef enum dea_status {
    DEA_OK = 0,
    DEA_ERR_NULL = -1,            /* a pointer that must be given is NULL */
    DEA_ERR_SHAPE = -2,           /* a size or threads.count is below 1, or sizes do not fit each other */
    DEA_ERR_OVERFLOW = -3,        /* a product of sizes does not fit in memory, or batch*heads or rows not in an int */
    DEA_ERR_WORKSPACE = -4,       /* workspace smaller than the ..._workspace() function says */
    DEA_ERR_ALIGNMENT = -5,       /* workspace not aligned to DEA_ALIGNMENT bytes */
    DEA_ERR_STRIDE = -6,          /* a stride is negative, or rows of one tensor overlap */
    DEA_ERR_ALIAS = -7,           /* an output shares memory with an input or with another output */
    DEA_ERR_KEY_LENGTH = -8,      /* a key length is below 0 or above seq_k */
    DEA_ERR_LABEL = -9,           /* an alpha label is outside [0, 0.95] */
    DEA_ERR_BLOCK = -10,          /* a label block is empty or outside the map */
    DEA_ERR_BLOCK_OVERLAP = -11,  /* two label blocks share a cell */
    DEA_ERR_TARGET = -12,         /* a target key is below -1 or not below seq_k */
    DEA_ERR_GAMMA = -13,          /* gamma is outside [0, 1] */
    DEA_ERR_DROPOUT = -14,        /* a dropout probability is outside [0, 1) */
    DEA_ERR_TEMPERATURE = -15,    /* a temperature is not a finite number of at least 1e-30 */
    DEA_ERR_OPTION = -16,         /* an option has no meaning, or two options exclude each other */
    DEA_ERR_ISA = -17,            /* the instruction set asked for is not there on this CPU or in this build */
    DEA_ERR_INDEX = -18,          /* an embedding id or class index is out of range */
    DEA_ERR_CAPACITY = -19,       /* a table or buffer given by the caller is full, or a name is too long */
    DEA_ERR_NONFINITE = -20,      /* a gradient or its square is NaN or infinite; nothing was updated */
    DEA_ERR_ISOLATION = -21,      /* one loss reached a gradient that belongs to the other */
    DEA_ERR_LABELS_MISSING = -22, /* the gate loss needs alpha labels */
    DEA_ERR_FROZEN = -23,         /* a frozen buffer was written, or an unfrozen or empty one read */
    DEA_ERR_BASE_CHANGED = -24    /* bytes that must stay frozen have changed */
} dea_status;

/* One English sentence for a status, never NULL. */
DEA_API const char *dea_status_string(dea_status status);

/* ---- threads ----------------------------------------------------------------------------------------------------- */
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

/* ---- attention --------------------------------------------------------------------------------------------------- */
/* Distances in elements between neighbours along an axis; head_dim itself is contiguous. All zero: contiguous [B,H,T,d].
 * Axes must nest: sorted by stride, each stride must be at least the span of everything inside it. A fused x [B,T,3,H,d]:
 * q = x, k = x + H*d, v = x + 2*H*d, each with strides {T*3*H*d, d, 3*H*d}. */
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
    dea_real *et0, *et1; /* (3) normalised energies */
    dea_real *alpha_hat; /* (6) */
    dea_real *alpha_mix; /* (14) */
    dea_real *s;         /* (14') scores, temperature included */
    dea_real *a;         /* softmax of s, before dropout */
} dea_maps;

typedef enum dea_path { DEA_PATH_AUTO, DEA_PATH_PLAIN, DEA_PATH_FAST } dea_path;
typedef enum dea_isa { DEA_ISA_AUTO, DEA_ISA_BASELINE, DEA_ISA_AVX2, DEA_ISA_AVX512 } dea_isa;

typedef struct dea_attention {
    /* Shape. */
    int batch, heads, seq_q, seq_k, head_dim;
    /* Inputs. */
    const dea_real *q;                                      /* [B,H,Tq,d] */
    const dea_real *k, *v;                                  /* [B,H,Tk,d] */
    dea_strides q_strides, k_strides, v_strides, o_strides; /* all 0: contiguous; o_strides also serves d_o */
    const dea_real *w_rel;                                  /* [H,d,d], the relation of a head: u = W_rel q */
    const dea_real *w_gate;                                 /* [H,2d+2], laid out [w_q (d) | w_k (d) | w_0 | w_1] */
    const dea_real *c_gate;                                 /* [H] */
    const dea_real *temperature;                            /* [H], >= 1e-30; NULL: 1, the paper's form (14') */
    /* Which keys a query sees. */
    const int *key_lengths; /* [B], 0..Tk: keys from this one on are padding; NULL: all Tk */
    int causal;             /* nonzero: query i sees keys j <= i only, also where Tq and Tk differ */
    /* Labels: at most one of the two forms. */
    const dea_real *labels; /* [B,Tq,Tk] alpha in [0, 0.95], NaN where a cell has none; the same for every head */
    const dea_label_block *label_blocks;
    size_t label_block_count;
    dea_real gamma; /* share of the label in the mix (14), in [0,1]; 0 at inference */
    /* Dropout on attention weights; the mask is a function of (seed, step, batch, head, query, key) and never stored. */
    dea_real dropout; /* in [0,1) */
    uint64_t seed, step;
    /* Optional outputs of dea_forward. */
    dea_maps maps;
    /* How to compute. */
    dea_path path; /* AUTO: the fast path, unless a map is asked for */
    dea_isa isa;   /* AUTO: the best this CPU has */
    dea_threads threads;
} dea_attention;

/* Self-attention of this shape, every option off, threads at dea_threads_default(). Set seq_k for cross attention. */
DEA_API dea_attention dea_attention_init(int batch, int heads, int seq, int head_dim);

/* Number of dea_real in `saved`: B*H*4*Tq, or 0 if the shape is wrong. Laid out [B,H,4,Tq]: sigma0, sigma1 (standard
 * deviation of each raw energy over the row's keys), shift (what was subtracted from a row's scores before exp), and the
 * sum of exp(score - shift) over the row's keys. Either path writes it and either path reads it. */
DEA_API size_t dea_saved_count(const dea_attention *a);

/* Workspace in bytes for the call of the same name with these shapes and options; 0 if they are wrong (the call then says
 * what is wrong). It depends on shapes, path, threads, label_block_count and whether maps are asked for, not on what the
 * pointers point to, so it can be asked for before the data is there. A workspace may be reused by any later call; nothing is
 * kept in it. */
DEA_API size_t dea_forward_workspace(const dea_attention *a);
DEA_API size_t dea_backward_workspace(const dea_attention *a);

/* (1)-(6), (14), (14'): o [B,H,Tq,d] = softmax(S_mix) v, in o_strides. saved: dea_saved_count(a) numbers for dea_backward
 * and dea_gate_loss, or NULL. A query that sees no key gives a row of zeros.
 * Errors of every call that takes a dea_attention: NULL (q, k, v, w_rel, w_gate, c_gate, o, the workspace), SHAPE (also
 * threads.count < 1), OVERFLOW, STRIDE, ALIAS, KEY_LENGTH, LABEL, BLOCK, BLOCK_OVERLAP, GAMMA, DROPOUT, TEMPERATURE, OPTION
 * (labels in both forms, maps with the fast path, an unknown path), ISA, ALIGNMENT, WORKSPACE. */
DEA_API dea_status dea_forward(const dea_attention *a, dea_real *o, dea_real *saved, void *workspace,
                               size_t workspace_bytes);

/* Where gradients go. Each may be NULL: not wanted. */
typedef struct dea_gradients {
    dea_real *dq, *dk, *dv; /* written; strides of q, k, v. Keys nobody sees get zeros. */
    dea_real *dw_rel;       /* [H,d,d], added to */
    dea_real *dtemperature; /* [H], added to; needs a->temperature (else DEA_ERR_NULL) */
    dea_real *dw_gate;      /* [H,2d+2], added to, by dea_gate_loss alone */
    dea_real *dc_gate;      /* [H], added to, by dea_gate_loss alone */
} dea_gradients;

/* Differentiates o = dea_forward(a): given o and saved as it left them and d_o, the loss's gradient by o, both in
 * o_strides, fills dq, dk, dv and adds to dw_rel, dtemperature: dA = dO V^T, dS = A o (dA - rowsum(A o dA)),
 * dM = t dS, dEt0 = (1 - a_mix) dM, dEt1 = a_mix dM, then through (3), (2), (1). Labels, gamma, dropout, seed and step must
 * be those of the forward. Does not touch dw_gate and dc_gate: the task loss never reaches the gate. */
DEA_API dea_status dea_backward(const dea_attention *a, const dea_real *o, const dea_real *saved, const dea_real *d_o,
                                const dea_gradients *gradients, void *workspace, size_t workspace_bytes);

/* ---- gate loss --------------------------------------------------------------------------------------------------- */
typedef struct dea_gate {
    const int *targets; /* [B,Tq] target key of each query, -1 for none; NULL: the oracle's winner, the labelled visible
                             key with the largest S*(alpha) (4), lowest index on a tie */
    int hard_negatives; /* 0: every distractor; m > 0: only the m whose beta lies nearest the target's alpha */
    int projected;      /* nonzero: a saturated gate still gets the gradient that points back inside */
    dea_real scale;     /* multiplies the gradients (for instance 1/layers); 1 by default. The loss is not scaled. */
    dea_real *beta;     /* NULL or [B,H,Tq,Tk] (8): NaN where there is none; a distractor's beta for a query's target */
    int *winners;       /* NULL or [B,H,Tq]: the target used, -1 where a query has no photo-finish */
} dea_gate;

typedef struct dea_gate_result {
    double loss;      /* dense + photo */
    double dense;     /* mean over labelled visible cells of (alpha-hat - alpha)^2; 0 if there are none */
    double photo;     /* mean over valid (target, distractor) pairs of L_tp (13); 0 if there are none */
    int64_t labelled; /* labelled visible cells, over batch and heads */
    int64_t valid;    /* valid pairs, over batch and heads; those used, with hard negatives */
} dea_gate_result;

/* The oracle's winner as target, every distractor, plain gradient, scale 1, no optional output. */
DEA_API dea_gate dea_gate_init(void);

DEA_API size_t dea_gate_loss_workspace(const dea_attention *a, const dea_gate *gate);

/* (7)-(13): the gate loss of one layer and, where dw_gate or dc_gate are given, its gradients. Needs q, k, w_rel, w_gate,
 * c_gate and labels of `a` (v and gamma are not used), and `saved` as dea_forward left it. Touches nothing else in
 * `gradients`: the gate loss never reaches q, k or W_rel. gradients may be NULL, result may not. Errors as dea_forward, and
 * LABELS_MISSING, TARGET. */
DEA_API dea_status dea_gate_loss(const dea_attention *a, const dea_gate *gate, const dea_real *saved,
                                 const dea_gradients *gradients, dea_gate_result *result, void *workspace,
                                 size_t workspace_bytes);

/* (8) for a target with energies (et0_t, et1_t) and a distractor with (et0_p, et1_p). Returns 1 and *beta if the finish is
 * valid, 0 if the lines are parallel or cross outside [0,1]. */
DEA_API int dea_beta(double et0_t, double et1_t, double et0_p, double et1_p, double *beta);

/* (9)-(13) for one pair: the loss, and its derivative by alpha_hat in *d_alpha_hat if not NULL. */
DEA_API double dea_photo_loss(double alpha, double alpha_hat, double beta, double *d_alpha_hat);

/* ---- parts: what a Transformer needs besides attention ----------------------------------------------------------- */
/* Element-wise functions may work in place (y == x, dx == dy); otherwise outputs must not overlap inputs.
 * threads may be NULL: one. */

/* y [rows,out] = x [rows,in] w^T + b, w [out,in]; b [out] or NULL. */
DEA_API dea_status dea_linear_forward(const dea_real *x, const dea_real *w, const dea_real *b, dea_real *y, int rows,
                                      int in, int out, const dea_threads *threads);
/* dx = dy w (written); dw += dy^T x; db += column sums of dy. Each may be NULL; w is needed for dx, x for dw. */
DEA_API dea_status dea_linear_backward(const dea_real *x, const dea_real *w, const dea_real *dy, dea_real *dx,
                                       dea_real *dw, dea_real *db, int rows, int in, int out,
                                       const dea_threads *threads);

/* y = gain o (x - mean)/sqrt(var + eps) + bias over the last axis of x [rows,width], population variance. gain and bias
 * [width] or NULL (1 and 0). saved [2,rows]: mean and 1/sqrt(var + eps), or NULL at inference. */
DEA_API dea_status dea_layer_norm_forward(const dea_real *x, const dea_real *gain, const dea_real *bias, dea_real *y,
                                          dea_real *saved, int rows, int width, double eps, const dea_threads *threads);
/* dx written (may be NULL, may be dy); dgain and dbias added to (may be NULL). x may be as large as it likes in forward; here
 * a row's sum of dy gain (x - mean) must fit in dea_real. */
DEA_API dea_status dea_layer_norm_backward(const dea_real *x, const dea_real *gain, const dea_real *saved,
                                           const dea_real *dy, dea_real *dx, dea_real *dgain, dea_real *dbias, int rows,
                                           int width, const dea_threads *threads);

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
DEA_API dea_status dea_embedding_forward(const dea_real *table, const int *ids, dea_real *y, int rows, int vocab,
                                         int width, double scale);
/* dtable[ids] += scale dy, rows in order. */
DEA_API dea_status dea_embedding_backward(const int *ids, const dea_real *dy, dea_real *dtable, int rows, int vocab,
                                          int width, double scale);

/* *loss = mean over rows with target >= 0 of -sum_c p_c log softmax(logits)_c, where p puts 1 - smoothing on the target and
 * smoothing/classes on every class. targets [rows]: a negative one leaves its row out. *counted (may be NULL): rows in the
 * mean; with none the loss is 0. */
DEA_API dea_status dea_cross_entropy_forward(const dea_real *logits, const int *targets, double *loss, int *counted,
                                             int rows, int classes, double smoothing);
/* dlogits [rows,classes] = d_loss (softmax - p)/counted, 0 in rows left out. dlogits may be logits. */
DEA_API dea_status dea_cross_entropy_backward(const dea_real *logits, const int *targets, double d_loss,
                                              dea_real *dlogits, int rows, int classes, double smoothing);

/* ---- parameters: one arena, one table ---------------------------------------------------------------------------- */
typedef enum dea_group { DEA_GROUP_MAIN = 0, DEA_GROUP_GATE = 1, DEA_GROUPS = 2 } dea_group;

typedef struct dea_tensor {
    char name[64];
    int rank;
    int shape[4];         /* `rank` entries, row-major */
    size_t offset, count; /* in elements, from the start of the arena */
    dea_group group;
    int decay;         /* nonzero: weight decay applies (matrices) */
    dea_real lr_scale; /* multiplies the group's learning rate; 1 unless said otherwise */
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
 * `rank` entries, 1..4. Tensors start at multiples of 64 bytes. DEA_ERR_OPTION if the name is there already, DEA_ERR_CAPACITY if
 * the table is full or the name too long. */
DEA_API dea_status dea_table_add(dea_table *table, const char *prefix, const char *name, int rank, const int *shape,
                                 dea_group group, int decay, size_t *offset);

/* The tensor of this name, or NULL. */
DEA_API const dea_tensor *dea_table_find(const dea_table *table, const char *name);

/* Fills, each a function of (seed, index) alone: uniform in +-sqrt(6/(fan_in+fan_out)) (Xavier), normal, and an orthogonal
 * [n,n] matrix (QR of a Gaussian, R's diagonal positive). */
DEA_API void dea_fill_xavier(dea_real *w, size_t count, int fan_in, int fan_out, uint64_t seed);
DEA_API void dea_fill_normal(dea_real *w, size_t count, double std, uint64_t seed);
DEA_API void dea_fill_orthogonal(dea_real *w, int n, uint64_t seed);

/* ---- layer: projections around the attention --------------------------------------------------------------------- */
typedef struct dea_layer {
    int d_model, heads;
    int use_temperature; /* 0 (default): the paper's form. 1: one learnt temperature a head (14') */
    double temperature;  /* its initial value, 2 by default; not read where use_temperature is 0 */
    int w_rel_identity;  /* 0 (default): W_rel orthogonal a head. 1: identity, for weights trained elsewhere */
    int tie_k_to_q;      /* 1: W_k starts as a copy of W_q (and is free to part); 0 by default */
    /* Places in the arena, set by dea_layer_register. */
    size_t w_qkv, b_qkv;   /* [3 d_model, d_model] (rows q, k, v), [3 d_model] */
    size_t w_rel;          /* [H,d,d] */
    size_t w_gate, c_gate; /* [H,2d+2], [H], group gate */
    size_t temperatures;   /* [H], no decay; only with use_temperature */
    size_t w_o, b_o;       /* [d_model, d_model], [d_model] */
} dea_layer;

/* d_model must be a multiple of heads. */
DEA_API dea_layer dea_layer_init(int d_model, int heads);
/* Adds the layer's tensors to the table, named `prefix` + w_qkv, b_qkv, w_rel, w_gate, c_gate, w_o, b_o, temperature (only with
 * use_temperature), and notes their places. Group gate: w_gate, c_gate. Weight decay on w_qkv, w_rel, w_gate and w_o. */
DEA_API dea_status dea_layer_register(dea_layer *layer, dea_table *table, const char *prefix);
/* Initial values into the arena: linear maps Xavier uniform, biases 0, c = -0.5. */
DEA_API dea_status dea_layer_reset(const dea_layer *layer, dea_real *params, uint64_t seed);

/* The attention of this layer for x [batch,seq,d_model]: shapes, strides and parameters set, options off. Set the options
 * you want and hand it to the functions below, unchanged between forward, gate loss and backward. */
DEA_API dea_attention dea_layer_attention(const dea_layer *layer, const dea_real *params, int batch, int seq);

/* Number of dea_real that forward keeps for backward: q, k, v [B,T,3,H,d], o [B,T,H,d] and `saved`; 0 if shapes are wrong. */
DEA_API size_t dea_layer_cache_count(const dea_layer *layer, const dea_attention *a);
/* Bytes that serve each of the three calls below; 0 if shapes are wrong. gate may be NULL. */
DEA_API size_t dea_layer_workspace(const dea_layer *layer, const dea_attention *a, const dea_gate *gate);

/* y [B,T,d_model] = DEA(x w_qkv^T + b_qkv) w_o^T + b_o. Sets a's q, k, v to places in cache. */
DEA_API dea_status dea_layer_forward(const dea_layer *layer, const dea_real *params, dea_attention *a,
                                     const dea_real *x, dea_real *y, dea_real *cache, void *workspace,
                                     size_t workspace_bytes);
/* Gradients of the layer's main group are added to the arena `grads`; dx [B,T,d_model] is written, or NULL. */
DEA_API dea_status dea_layer_backward(const dea_layer *layer, const dea_real *params, const dea_attention *a,
                                      const dea_real *x, const dea_real *cache, const dea_real *dy, dea_real *dx,
                                      dea_real *grads, void *workspace, size_t workspace_bytes);
/* dea_gate_loss on the layer's own q and k; adds to the gate group in `grads` (NULL: loss only). */
DEA_API dea_status dea_layer_gate_loss(const dea_layer *layer, const dea_attention *a, const dea_gate *gate,
                                       const dea_real *cache, dea_real *grads, dea_gate_result *result, void *workspace,
                                       size_t workspace_bytes);

/* ==== 10. Meta-attention: declarations ================================================================================ */
/* A frozen decoder runs twice. Pass 1, blocks off, on the prompt alone: hooks copy the residual stream at the last prompt
 * token of each read layer, an encoder turns the copies into cognitive tokens, one a layer. Pass 2, blocks on: after each
 * write layer a gated cross-attention block looks at them. Only encoder and blocks learn. Symbols: B sequences padded on
 * the right to T, D wide; C read layers and cognitive tokens; L_w blocks; bottleneck r; h heads, dh = r/h. Numbers (16) to
 * (30), names and shapes of the tensors are listed in README.md. The life of a training batch:
 *
 *     dea_meta_hooks_open(&hooks);                          // pass 1; dea_meta_hooks_record after each layer of the base
 *     dea_meta_hooks_freeze(&hooks), dea_meta_hooks_read(&hooks, &act);
 *     dea_meta_encoder_forward(&encoder, params, act, B, cog, encoder_cache, workspace, bytes, &threads);
 *     dea_meta_keys_forward(&blocks, params, cog, B, kv, &threads);
 *     dea_meta_block_forward(&blocks, params, &s, i, x, y, cache[i], workspace, bytes);        // pass 2, i = 0..L_w-1
 *     dea_meta_block_backward(&blocks, params, &s, i, x, cache[i], dy, dx, dkv, grads, workspace, bytes);   // i = L_w-1..0
 *     dea_meta_keys_backward(&blocks, params, cog, dkv, B, dcog, grads, &threads);
 *     dea_meta_encoder_backward(&encoder, params, act, B, encoder_cache, dcog, grads, workspace, bytes, &threads);
 *
 * All functions: DEA_ERR_NULL, _SHAPE, _OVERFLOW, _WORKSPACE, _ALIGNMENT, _ALIAS as everywhere. `threads` may be NULL: one.
 * A `_workspace` or `_count` function returns 0 if the shape is wrong; a workspace serves the forward and the backward. */

/* ---- hooks ---------------------------------------------------------------------------------------------------------- */
typedef struct dea_meta_hooks {
    int layers;      /* C, the number of read layers */
    int batch;       /* B */
    int width;       /* D */
    const int *read; /* [C] layers of the base that are read, ascending; the caller's, it must outlive this struct */
    dea_real *act;   /* [B,C,D], the caller's */
    int recorded;    /* read layers written so far in this pass 1 */
    int frozen;      /* set: act may be read, not written */
} dea_meta_hooks;

DEA_API dea_meta_hooks dea_meta_hooks_init(const int *read, int layers, int batch, int width, dea_real *act);
/* Start of a pass 1: empty and writable. DEA_ERR_INDEX if `read` does not ascend from 0 or more. */
DEA_API dea_status dea_meta_hooks_open(dea_meta_hooks *hooks);
/* (16), after a layer of the base: if `layer` is read, copies y[b, lengths[b]-1] of y [B,T,D] into act; else does nothing.
 * lengths [B]: prompt tokens, 1..T (NULL: T). Layers come in ascending order: DEA_ERR_INDEX otherwise. DEA_ERR_FROZEN if the
 * buffer is frozen, whatever the layer. */
DEA_API dea_status dea_meta_hooks_record(dea_meta_hooks *hooks, int layer, const dea_real *y, int seq,
                                         const int *lengths);
/* End of pass 1. DEA_ERR_FROZEN if a read layer is missing or the buffer is frozen already. */
DEA_API dea_status dea_meta_hooks_freeze(dea_meta_hooks *hooks);
/* *act = what pass 1 left. DEA_ERR_FROZEN if the buffer is empty or not frozen: pass 2 must then not run. */
DEA_API dea_status dea_meta_hooks_read(const dea_meta_hooks *hooks, const dea_real **act);

/* ---- cognitive encoder ---------------------------------------------------------------------------------------------- */
typedef struct dea_meta_encoder {
    int layers;     /* C */
    int width;      /* D */
    int bottleneck; /* r, 256 by default */
    int blocks;     /* 0: architecture 1, linear. n > 0: architecture 2 with n transformer blocks (22) */
    int heads;      /* of those blocks, 4 by default; must divide r */
    /* Places in the arena, set by dea_meta_encoder_register. */
    size_t ln_w, ln_b, fc_w, fc_b, gate;
    size_t emb, t_ln1_w, t_ln1_b, t_qkv_w, t_qkv_b, t_o_w, t_o_b, t_ln2_w, t_ln2_b, t_fc1_w, t_fc1_b, t_fc2_w, t_fc2_b;
    size_t out_ln_w, out_ln_b, out_fc1_w, out_fc1_b, out_fc2_w, out_fc2_b, out_norm_w, out_norm_b;
} dea_meta_encoder;

DEA_API dea_meta_encoder dea_meta_encoder_init(int layers, int width);
/* Group main; gates learn at 5 times its rate; weight decay on matrices. Use the prefix "enc_" in files. */
DEA_API dea_status dea_meta_encoder_register(dea_meta_encoder *encoder, dea_table *table, const char *prefix);
/* Initial values: linear maps and their biases uniform in +-1/sqrt(fan_in), norms 1 and 0, gates 0.3, emb normal with std 0.02. */
DEA_API dea_status dea_meta_encoder_reset(const dea_meta_encoder *encoder, dea_real *params, uint64_t seed);
/* Number of dea_real that forward keeps for backward. */
DEA_API size_t dea_meta_encoder_cache_count(const dea_meta_encoder *encoder, int batch);
DEA_API size_t dea_meta_encoder_workspace(const dea_meta_encoder *encoder, int batch);
/* (17)-(22): act [B,C,D] -> cog [B,C,D]. cache: for backward, or NULL. */
DEA_API dea_status dea_meta_encoder_forward(const dea_meta_encoder *encoder, const dea_real *params,
                                            const dea_real *act, int batch, dea_real *cog, dea_real *cache,
                                            void *workspace, size_t workspace_bytes, const dea_threads *threads);
/* Adds to the encoder's part of `grads`; act takes no gradient. The gate's is formed, in architecture 1, from
 * the backward of LN_out, (1 - tau^2)/tau sum_b (sum_j g xh) 1e-5/s^2, since the plain sum cancels to nearly nothing. */
DEA_API dea_status dea_meta_encoder_backward(const dea_meta_encoder *encoder, const dea_real *params,
                                             const dea_real *act, int batch, const dea_real *cache,
                                             const dea_real *dcog, dea_real *grads, void *workspace,
                                             size_t workspace_bytes, const dea_threads *threads);

/* ---- blocks --------------------------------------------------------------------------------------------------------- */
typedef struct dea_meta_blocks {
    int count;       /* L_w, the number of write layers; block i belongs to the i-th of them */
    int tokens;      /* C */
    int width;       /* D */
    int bottleneck;  /* r, 256 by default */
    int heads;       /* h, 4 by default; must divide r */
    int up_zero;     /* 1: up_w starts at 0, so that a fresh system equals the base. 0 by default */
    int dual_expert; /* 1: dual-expert scores, (1)-(3) over the C tokens, mixed by one learnt c a head */
    /* Places in the arena, set by dea_meta_blocks_register: [L_w, ...]. */
    size_t norm_w, norm_b, down_w, q_w, k_w, v_w, up_w, pref, gate;
    size_t w_rel, c_mix; /* [L_w,h,dh,dh], [L_w,h]; only with dual_expert */
} dea_meta_blocks;

/* What the blocks work on in one pass 2. */
typedef struct dea_meta_sequences {
    int batch, seq; /* B, T */
    const int
        *lengths; /* [B] real tokens of each sequence, 0..T; NULL: T. The rest is padding: copied, never read into a
                            gradient */
    const dea_real *kv;  /* [B,C,2,L_w,r], from dea_meta_keys_forward: keys and values of every block */
    dea_threads threads; /* dea_threads_default() */
} dea_meta_sequences;

DEA_API dea_meta_blocks dea_meta_blocks_init(int count, int tokens, int width);
/* Group main; gate and pref learn at 5 times its rate; weight decay on matrices. Use the prefix "blk_" in files. */
DEA_API dea_status dea_meta_blocks_register(dea_meta_blocks *blocks, dea_table *table, const char *prefix);
/* Initial values: linear maps uniform in +-1/sqrt(fan_in), norms 1 and 0, gates 0.3, pref 0; w_rel orthogonal, c_mix -0.5. */
DEA_API dea_status dea_meta_blocks_reset(const dea_meta_blocks *blocks, dea_real *params, uint64_t seed);

DEA_API dea_meta_sequences dea_meta_sequences_init(int batch, int seq, const int *lengths, const dea_real *kv);

/* Number of dea_real in kv (and dkv): 2 B C L_w r. */
DEA_API size_t dea_meta_keys_count(const dea_meta_blocks *blocks, int batch);
/* (23): k and v of all blocks, once a sequence: kv [B,C,2,L_w,r] = cog [B,C,D] times k_w and v_w. */
DEA_API dea_status dea_meta_keys_forward(const dea_meta_blocks *blocks, const dea_real *params, const dea_real *cog,
                                         int batch, dea_real *kv, const dea_threads *threads);
/* dcog [B,C,D] (written, or NULL) = dk k_w + dv v_w summed over all blocks; adds dk_w and dv_w to grads (or NULL). Every
 * block must have written its part of dkv. */
DEA_API dea_status dea_meta_keys_backward(const dea_meta_blocks *blocks, const dea_real *params, const dea_real *cog,
                                          const dea_real *dkv, int batch, dea_real *dcog, dea_real *grads,
                                          const dea_threads *threads);

/* Number of dea_real that a block's forward keeps for its backward, besides x: 3r + hC + 2 a token, padding included. */
DEA_API size_t dea_meta_block_cache_count(const dea_meta_blocks *blocks, const dea_meta_sequences *s);
DEA_API size_t dea_meta_block_workspace(const dea_meta_blocks *blocks, const dea_meta_sequences *s);
/* (23)-(25) of block `index`: y [B,T,D] from x [B,T,D]; y may be x. With a gate of exactly 0 and at padded positions y is a
 * copy of x. cache: for backward, or NULL. */
DEA_API dea_status dea_meta_block_forward(const dea_meta_blocks *blocks, const dea_real *params,
                                          const dea_meta_sequences *s, int index, const dea_real *x, dea_real *y,
                                          dea_real *cache, void *workspace, size_t workspace_bytes);
/* dx [B,T,D] is written (may be dy; NULL: not wanted); the block's part of dkv [B,C,2,L_w,r] is written; its parameters but
 * k_w and v_w are added to in grads. */
DEA_API dea_status dea_meta_block_backward(const dea_meta_blocks *blocks, const dea_real *params,
                                           const dea_meta_sequences *s, int index, const dea_real *x,
                                           const dea_real *cache, const dea_real *dy, dea_real *dx, dea_real *dkv,
                                           dea_real *grads, void *workspace, size_t workspace_bytes);
/* The attention weights A [B,h,T,C] of (24) inside the cache that a forward left; 0 at padded positions. For (30). NULL if
 * the shape is wrong. */
DEA_API const dea_real *dea_meta_block_weights(const dea_meta_blocks *blocks, const dea_meta_sequences *s,
                                               const dea_real *cache);

/* Decoding with cognitive tokens that stay: block `index` for sequence `b` of kv as two matrices, norm, gate and
 * scale included. fold: dea_meta_fold_count() = 2hCD + hC + 1 numbers; it repays itself after some 150 tokens.
 * DEA_ERR_OPTION with dual_expert, whose scores are not linear in x. */
DEA_API size_t dea_meta_fold_count(const dea_meta_blocks *blocks);
DEA_API size_t dea_meta_fold_workspace(const dea_meta_blocks *blocks);
DEA_API dea_status dea_meta_fold(const dea_meta_blocks *blocks, const dea_real *params, const dea_meta_sequences *s,
                                 int index, int b, dea_real *fold, void *workspace, size_t workspace_bytes);
/* y [rows,D] = the folded block applied to x [rows,D]; y may be x. scores: room for rows h C numbers. */
DEA_API dea_status dea_meta_fold_apply(const dea_meta_blocks *blocks, const dea_real *fold, const dea_real *x,
                                       dea_real *y, int rows, dea_real *scores, const dea_threads *threads);

/* ---- confidence heads: phase 1 -------------------------------------------------------------------------------------- */
typedef struct dea_meta_confidence {
    int layers, width, bottleneck; /* C, D, r = 256 */
    size_t ln_w, ln_b, fc_w, fc_b, head_w, head_b;
} dea_meta_confidence;

DEA_API dea_meta_confidence dea_meta_confidence_init(int layers, int width);
DEA_API dea_status dea_meta_confidence_register(dea_meta_confidence *confidence, dea_table *table, const char *prefix);
DEA_API dea_status dea_meta_confidence_reset(const dea_meta_confidence *confidence, dea_real *params, uint64_t seed);
DEA_API size_t dea_meta_confidence_cache_count(const dea_meta_confidence *confidence, int batch);
DEA_API size_t dea_meta_confidence_workspace(const dea_meta_confidence *confidence, int batch);
/* (19), (26): act [B,C,D] -> logits u [B,C]; P(the base is right) = sigmoid(u). */
DEA_API dea_status dea_meta_confidence_forward(const dea_meta_confidence *confidence, const dea_real *params,
                                               const dea_real *act, int batch, dea_real *u, dea_real *cache,
                                               void *workspace, size_t workspace_bytes, const dea_threads *threads);
DEA_API dea_status dea_meta_confidence_backward(const dea_meta_confidence *confidence, const dea_real *params,
                                                const dea_real *act, int batch, const dea_real *cache,
                                                const dea_real *du, dea_real *grads, void *workspace,
                                                size_t workspace_bytes, const dea_threads *threads);
/* (27): *loss = mean over [B,C] of softplus(u) - y u, y = right[b] in {0, 1} (DEA_ERR_LABEL otherwise). layer_loss [C] (or
 * NULL): the mean of each read layer. du [B,C] (or NULL; may be u) = d_loss (sigmoid(u) - y)/(B C). */
DEA_API dea_status dea_meta_confidence_loss(const dea_real *u, const int *right, int batch, int layers, double *loss,
                                            double *layer_loss, double d_loss, dea_real *du);
/* Copies the tensors of one read layer from arena `from` to arena `to`: a layer's best epoch. */
DEA_API dea_status dea_meta_confidence_keep(const dea_meta_confidence *confidence, const dea_real *from, dea_real *to,
                                            int layer);
/* Warm start: the four projector tensors of phase 1 into the encoder, bit for bit. DEA_ERR_SHAPE if they differ. */
DEA_API dea_status dea_meta_warm_start(const dea_meta_confidence *confidence, const dea_real *confidence_params,
                                       const dea_meta_encoder *encoder, dea_real *params);

/* ---- training ------------------------------------------------------------------------------------------------------- */
typedef enum dea_meta_action { DEA_META_CONFIRM, DEA_META_CORRECT, DEA_META_REFUSE, DEA_META_OTHER } dea_meta_action;

/* The pinned generator M of the training draws: splitmix64 of s. */
DEA_API uint64_t dea_meta_random(uint64_t s);
/* Target of an item in an epoch: confirm if the base was right; else correct if (M(seed + epoch 2^32 + item) >> 11) 2^-53 <
 * ratio (0.5 in the paper), else refuse. Validation uses epoch 0 always. */
DEA_API dea_meta_action dea_meta_draw(int base_right, double ratio, uint64_t seed, uint64_t epoch, uint64_t item);

/* Cuts a prompt in place to max_seq - 64 tokens: its first and its last max_seq - 65; returns the number kept, or -1 if
 * max_seq < 66 or count < 1. */
DEA_API int dea_meta_cut_prompt(int *ids, int count, int max_seq);
/* Joins right-padded prompts [B,Tp] and targets [B,Tt], each target cut to 64 tokens: full [B,T] padded with `pad`,
 * n_full [B], and targets [B,T] for dea_cross_entropy_forward: the token that follows where it belongs to the target, else -1.
 * DEA_ERR_CAPACITY if a row is longer than T. */
DEA_API dea_status dea_meta_join(const int *prompt, const int *n_prompt, int prompt_seq, const int *target,
                                 const int *n_target, int target_seq, int batch, int pad, int seq, int *full,
                                 int *n_full, int *targets);

/* Gradient accumulation: `items` in micro-batches of `micro`, `group` of them a step. Optimiser steps in an epoch, and what
 * d_loss of micro-batch number i (from 0) is: one over the micro-batches in its group, of which the last may be smaller. */
DEA_API int64_t dea_meta_steps(int64_t items, int micro, int group);
DEA_API double dea_meta_micro_weight(int64_t items, int micro, int group, int64_t i);
/* Whether the optimiser steps after micro-batch i. */
DEA_API int dea_meta_micro_ends_step(int64_t items, int micro, int group, int64_t i);

typedef struct dea_early_stop {
    int patience;   /* epochs without a new best that end training; 5 by default */
    int best_epoch; /* -1 before the first */
    int epochs;     /* seen */
    double best;    /* the lowest validation loss */
} dea_early_stop;

DEA_API dea_early_stop dea_early_stop_init(int patience);
/* Enters the validation loss of the next epoch; 1 if it is a new best (keep these weights), else 0. NaN never is. */
DEA_API int dea_early_stop_enter(dea_early_stop *stop, double loss);
/* 1 if `patience` epochs have brought no new best. */
DEA_API int dea_early_stop_done(const dea_early_stop *stop);

/* ---- checks --------------------------------------------------------------------------------------------------------- */
/* A piece of memory that must stay as it is, for instance one tensor of the base. */
typedef struct dea_meta_bytes {
    const void *data;
    size_t size;
} dea_meta_bytes;

/* A 64-bit hash of the pieces in order. A change inside one 8-byte word always shows, any other all but surely. */
DEA_API uint64_t dea_meta_hash(const dea_meta_bytes *pieces, size_t count);
/* DEA_ERR_BASE_CHANGED if the hash of the pieces is no longer `before`. */
DEA_API dea_status dea_meta_verify_frozen(const dea_meta_bytes *pieces, size_t count, uint64_t before);

/* The caller's pass 2 on one batch, for the check below. blocks_on 0: the bare base. logits: written. grads (or NULL): a
 * backward of the loss follows, adding to grads and writing dcog [B,C,D]. */
typedef dea_status dea_meta_pass(void *context, int blocks_on, dea_real *logits, dea_real *grads, dea_real *dcog);

/* On the caller's batch: sets every block's gate to 0 in `params`, runs the base, then pass 2 with its
 * backward, and puts the gates back. DEA_ERR_ISOLATION, and in *what a sentence or the name of the tensor, if logits
 * [2,logits_count] (base, pass 2) differ in a bit, a gradient of the blocks other than the gates' is not 0, dcog
 * [dcog_count] is not 0, or no gate got a gradient. grads [grads_count]: an arena, zeroed here. gates: room for L_w. */
DEA_API dea_status dea_meta_verify_gates(const dea_meta_blocks *blocks, dea_real *params, dea_meta_pass *pass,
                                         void *context, dea_real *logits, size_t logits_count, dea_real *grads,
                                         size_t grads_count, dea_real *dcog, size_t dcog_count, dea_real *gates,
                                         const char **what);

/* ---- optimiser and schedules ------------------------------------------------------------------------------------- */
typedef struct dea_adamw {
    double lr[DEA_GROUPS];    /* main 3e-4, gate 1e-3 */
    double clip[DEA_GROUPS];  /* largest global norm of each group's gradient, 1.0 each; 0: no clipping */
    double beta1, beta2, eps; /* 0.9, 0.999, 1e-8 */
    double weight_decay;      /* 0.01, decoupled, on tensors with `decay` */
} dea_adamw;

DEA_API dea_adamw dea_adamw_init(void);

/* squares [DEA_GROUPS]: the sum over each group of its gradients' squares, in double; the root is the group's norm. For
 * threads that share a step: add up the squares of their parts of the table, clip, and call dea_adamw_step with clip 0. */
DEA_API dea_status dea_gradient_squares(const dea_table *table, const dea_real *grads, double *squares);

/* One step over every tensor of the table. m and v are the moments, zero before the first step; step counts from 1;
 * lr_factor multiplies both learning rates (a schedule). norms [DEA_GROUPS] (may be NULL): gradient norms before clipping.
 * DEA_ERR_NONFINITE if any gradient is NaN or infinite, or so large that the square of a group's norm, clipped, does not fit
 * in dea_real: parameters and moments are then untouched. DEA_ERR_ALIAS if two of the arenas share memory. */
DEA_API dea_status dea_adamw_step(const dea_adamw *optimiser, const dea_table *table, dea_real *params,
                                  const dea_real *grads, dea_real *m, dea_real *v, int64_t step, double lr_factor,
                                  double *norms);

/* A training loop counts s = 0, 1, ...: dea_gamma(s, ...), dea_warmup_cosine(s, ...), dea_adamw_step(..., s + 1, ...).
 * (15): 1 at step 0, falling linearly to 0 at anneal_steps (10,000 in the paper), 0 after. */
DEA_API double dea_gamma(int64_t step, int64_t anneal_steps);
/* (29): (step+1)/warmup below warmup, then (1 + cos(pi (step - warmup)/(total - warmup)))/2; 0 from `total` on. A negative
 * step or warmup counts as 0. */
DEA_API double dea_warmup_cosine(int64_t step, int64_t warmup, int64_t total);

/* ---- oracle helpers ---------------------------------------------------------------------------------------------- */
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
 * last x of every pool. DEA_ERR_OPTION for x or y beyond half of DBL_MAX, weights that are not above 0, and weights whose sum
 * is beyond half of DBL_MAX. */
DEA_API dea_status dea_isotonic_fit(const double *x, const double *y, const double *weight, int count, double *knot_x,
                                    double *knot_y, int *knots, void *workspace, size_t workspace_bytes);
/* Straight lines between knots, constant outside. NAN if x is, without knots, and between knots that are further apart than
 * DBL_MAX, which dea_isotonic_fit never makes. */
DEA_API double dea_isotonic_apply(const double *knot_x, const double *knot_y, int knots, double x);

/* ---- checks ------------------------------------------------------------------------------------------------------ */
typedef struct dea_isolation {
    const char *tensor;     /* "dq", "dw_rel", ... : the first gradient that differs; NULL if none does */
    const char *what;       /* which comparison failed, in words; NULL if none did */
    int batch, head;        /* where; batch is -1 for a parameter. These and the rest are 0 where nothing differs. */
    size_t index;           /* element inside that head's tensor */
    double apart, together; /* its value with the losses apart and together */
} dea_isolation;

DEA_API size_t dea_verify_isolation_workspace(const dea_attention *a, const dea_gate *gate);
/* On the caller's own batch: gradients of the task loss (d_o) alone, of the gate loss alone, and of both in either order,
 * compared bit for bit. DEA_ERR_ISOLATION and the report filled if one loss reached a gradient of the other. Runs its own
 * forward; `a` needs labels, gate, d_o and report may not be NULL. Errors as dea_gate_loss. */
DEA_API dea_status dea_verify_isolation(const dea_attention *a, const dea_gate *gate, const dea_real *d_o,
                                        dea_isolation *report, void *workspace, size_t workspace_bytes);

/* Central difference (f(x_i + h) - f(x_i - h))/2h of a scalar function of x; x[i] is restored. For checking gradients. */
DEA_API double dea_finite_difference(double (*f)(void *context), void *context, dea_real *x, double h);

#ifdef __cplusplus
}
#endif
#endif /* DEA_H_DECLARATIONS */

/* ---------------------------------------------------------------------------------------------------------------------- */
#if defined(DEA_IMPLEMENTATION) && !defined(DEA_H_IMPLEMENTATION)
#define DEA_H_IMPLEMENTATION
#define DEA__ONCE /* this reading brings the implementation; the file reads itself again for each instruction set */

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#    error                                                                                                             \
        "dea.h marks cells without a label by NaN and confines non-finite input: compile it without -ffast-math, -ffinite-math-only and -funsafe-math-optimizations"
#endif

#include <float.h>
#include <math.h>
#include <stdio.h> /* snprintf, for tensor names; nothing is ever printed */
#include <string.h>
#ifdef _OPENMP
#    include <omp.h>
#endif
#ifndef DEA_NO_BLAS
#    include <cblas.h>
#endif

/* ==== 3. Status, memory, threads =====================================================================================
 * Knows nothing of attention: sizes without overflow, scratch carved from the caller's workspace, work spread over workers,
 * counter-based random bits. */

#define DEA__REAL(x) ((dea_real)(x))
#define DEA__PI      3.14159265358979323846

DEA_API const char *dea_status_string(dea_status status) {
    switch (status) {
    case DEA_OK:
        return "success";
    case DEA_ERR_NULL:
        return "a pointer that must be given is NULL";
    case DEA_ERR_SHAPE:
        return "a size or the number of threads is below 1, or sizes do not fit each other";
    case DEA_ERR_OVERFLOW:
        return "a product of sizes is too large for memory or for an int";
    case DEA_ERR_WORKSPACE:
        return "the workspace is smaller than the workspace function says";
    case DEA_ERR_ALIGNMENT:
        return "the workspace is not aligned to DEA_ALIGNMENT bytes";
    case DEA_ERR_STRIDE:
        return "a stride is negative, or rows of one tensor overlap";
    case DEA_ERR_ALIAS:
        return "an output shares memory with an input or with another output";
    case DEA_ERR_KEY_LENGTH:
        return "a key length is below 0 or above seq_k";
    case DEA_ERR_LABEL:
        return "an alpha label is outside [0, 0.95]";
    case DEA_ERR_BLOCK:
        return "a label block is empty or outside the map";
    case DEA_ERR_BLOCK_OVERLAP:
        return "two label blocks share a cell";
    case DEA_ERR_TARGET:
        return "a target key is below -1 or not below seq_k";
    case DEA_ERR_GAMMA:
        return "gamma is outside [0, 1]";
    case DEA_ERR_DROPOUT:
        return "a dropout probability is outside [0, 1)";
    case DEA_ERR_TEMPERATURE:
        return "a temperature is not a finite number of at least 1e-30";
    case DEA_ERR_OPTION:
        return "an option has no meaning, or two options exclude each other";
    case DEA_ERR_ISA:
        return "the instruction set asked for is not there on this CPU or in this build";
    case DEA_ERR_INDEX:
        return "an embedding id or class index is out of range";
    case DEA_ERR_CAPACITY:
        return "a table or buffer is full, or a name is too long";
    case DEA_ERR_NONFINITE:
        return "a gradient or its square is NaN or infinite; nothing was updated";
    case DEA_ERR_ISOLATION:
        return "one loss reached a gradient that belongs to the other";
    case DEA_ERR_LABELS_MISSING:
        return "the gate loss needs alpha labels";
    case DEA_ERR_FROZEN:
        return "a frozen buffer was written, or an unfrozen or empty one was read";
    case DEA_ERR_BASE_CHANGED:
        return "bytes that must stay frozen have changed";
    }
    return "unknown status";
}

/* a*b*c*d elements, or 0 if any is not positive or their bytes would not fit in a ptrdiff_t. */
static size_t dea__count(ptrdiff_t a, ptrdiff_t b, ptrdiff_t c, ptrdiff_t d) {
    const ptrdiff_t factors[4] = {a, b, c, d};
    const size_t limit = (size_t)PTRDIFF_MAX / sizeof(double);
    size_t product = 1;
    for (int i = 0; i < 4; i++) {
        if (factors[i] <= 0 || product > limit / (size_t)factors[i]) return 0;
        product *= (size_t)factors[i];
    }
    return product;
}

/* Carves aligned pieces out of a workspace. With base NULL it only measures: one layout function serves the size query and
 * the call, so that they cannot disagree. `failed` is set once a size overflows. */
typedef struct dea__arena {
    char *base;
    size_t used;
    int failed;
} dea__arena;

static void *dea__take(dea__arena *arena, size_t count, size_t element) {
    const size_t limit = (size_t)PTRDIFF_MAX - DEA_ALIGNMENT;
    if (count > limit / element || arena->used > limit - count * element) {
        arena->failed = 1;
        return NULL;
    }
    void *piece = arena->base ? arena->base + arena->used : NULL;
    arena->used += (count * element + DEA_ALIGNMENT - 1) / DEA_ALIGNMENT * DEA_ALIGNMENT;
    return piece;
}

static dea_real *dea__take_reals(dea__arena *arena, size_t count) {
    return (dea_real *)dea__take(arena, count, sizeof(dea_real));
}

static double *dea__take_doubles(dea__arena *arena, size_t count) {
    return (double *)dea__take(arena, count, sizeof(double));
}

/* Bytes a measuring arena came to, or 0. Never 0 for a valid layout: an empty one still wants one aligned unit. */
static size_t dea__arena_bytes(const dea__arena *arena) {
    if (arena->failed) return 0;
    return arena->used ? arena->used : DEA_ALIGNMENT;
}

static dea_status dea__check_workspace(const void *workspace, size_t given, size_t needed) {
    if (needed == 0) return DEA_ERR_OVERFLOW;
    if (!workspace) return DEA_ERR_NULL;
    if ((uintptr_t)workspace % DEA_ALIGNMENT) return DEA_ERR_ALIGNMENT;
    return given < needed ? DEA_ERR_WORKSPACE : DEA_OK;
}

/* ---- threads */
typedef void dea__job(void *context, int job, int worker);

typedef struct dea__jobs {
    dea__job *body;
    void *context;
    int jobs, workers;
} dea__jobs;

static void dea__worker(void *context, int worker) {
    const dea__jobs *all = (const dea__jobs *)context;
    for (int64_t job = worker; job < all->jobs; job += all->workers) all->body(all->context, (int)job, worker);
}

/* body(context, job, worker) for every job in [0, jobs). Which worker does a job is fixed, and nothing may depend on it. */
static void dea__for(const dea_threads *threads, int jobs, dea__job *body, void *context) {
    dea__jobs all;
    all.body = body;
    all.context = context;
    all.jobs = jobs;
    all.workers = threads && threads->count > 1 ? threads->count : 1;
    if (all.workers > jobs) all.workers = jobs;
    if (all.workers <= 1) {
        for (int job = 0; job < jobs; job++) body(context, job, 0);
    } else if (threads->run) {
        threads->run(threads->user, all.workers, dea__worker, &all);
    } else {
#ifdef _OPENMP
#    pragma omp parallel for num_threads(all.workers) schedule(static, 1)
#endif
        for (int worker = 0; worker < all.workers; worker++) dea__worker(&all, worker);
    }
}

DEA_API dea_threads dea_threads_default(void) {
    dea_threads threads;
    memset(&threads, 0, sizeof threads);
#ifdef _OPENMP
    threads.count = omp_get_max_threads();
#else
    threads.count = 1;
#endif
    return threads;
}

/* ---- random bits from counters: a draw is a function of its coordinates, so it needs no state and no storage */
static uint64_t dea__mix64(uint64_t x) { /* splitmix64 */
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Uniform in [0,1), 53 bits. */
static double dea__uniform(uint64_t seed, uint64_t index) {
    return (double)(dea__mix64(dea__mix64(seed) + index * 0xD1342543DE82EF95u) >> 11) * (1.0 / 9007199254740992.0);
}

typedef struct dea__row_key {
    uint32_t low, high;
} dea__row_key;

/* The key of one row of a dropout mask. */
static dea__row_key dea__dropout_row(uint64_t seed, uint64_t step, uint64_t row) {
    const uint64_t mixed = dea__mix64(dea__mix64(dea__mix64(seed) ^ step) + row);
    dea__row_key key;
    key.low = (uint32_t)mixed;
    key.high = (uint32_t)(mixed >> 32);
    return key;
}

/* 32 random bits for element `column` of a row: two rounds of an invertible 32-bit hash, cheap in vector registers. */
static uint32_t dea__dropout_bits(dea__row_key key, uint32_t column) {
    uint32_t x = column ^ key.low;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x += key.high;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

/* An element is kept if its bits are at least this. */
static uint32_t dea__dropout_threshold(double p) {
    return (uint32_t)(p * 4294967296.0);
}

/* ---- numerics */
static double dea__sigmoid(double x) {
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}
static double dea__softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static int dea__finite(double x) {
    return x - x == 0;
}

static double dea__dot(const dea_real *x, const dea_real *y, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

/* A row of a layer norm whose squares overflow dea_real (see dea__norm_row), in units of its largest |x|. */
static void dea__norm_far_row(const dea_real *x, const dea_real *gain, const dea_real *bias, dea_real *y, ptrdiff_t n,
                              double eps, dea_real *mean_out, dea_real *scale_out) {
    double unit = 0, sum = 0, squares = 0;
    for (ptrdiff_t j = 0; j < n; j++)
        if (fabs((double)x[j]) > unit) unit = fabs((double)x[j]);
    for (ptrdiff_t j = 0; j < n; j++) sum += (double)x[j] / unit;
    const double mean = sum / (double)n;
    for (ptrdiff_t j = 0; j < n; j++) squares += ((double)x[j] / unit - mean) * ((double)x[j] / unit - mean);
    const int flat = squares == 0; /* then eps decides, which may be nothing beside unit^2 */
    const double scale = 1 / sqrt(squares / (double)n + eps / unit / unit);
    for (ptrdiff_t j = 0; j < n; j++) {
        const double hat = flat ? 0 : ((double)x[j] / unit - mean) * scale;
        y[j] = DEA__REAL(hat * (gain ? (double)gain[j] : 1) + (bias ? (double)bias[j] : 0));
    }
    *mean_out = DEA__REAL(mean * unit);
    *scale_out = DEA__REAL(flat ? 1 / sqrt(eps) : scale / unit);
}

/* The product of room 4 over several workers, and whether it is the one to take: see dea__gemm. */
static void dea__packed_product(int transpose_a, int transpose_b, int m, int n, int k, double alpha, const dea_real *a,
                                ptrdiff_t lda, const dea_real *b, ptrdiff_t ldb, double beta, dea_real *c,
                                ptrdiff_t ldc, const dea_threads *threads);
static int dea__packed_wins(void);

/* C [m,n] = alpha op(A) op(B) + beta C by the BLAS, if there is one: row-major, op(A) [m,k], op(B) [k,n]; transposed:
 * stored [k,m], [n,k]. C is not read when beta is 0. The plain path takes this one, so that it shares nothing with the
 * fast path. */
static void dea__blas_gemm(int transpose_a, int transpose_b, int m, int n, int k, double alpha, const dea_real *a,
                           ptrdiff_t lda, const dea_real *b, ptrdiff_t ldb, double beta, dea_real *c, ptrdiff_t ldc,
                           const dea_threads *threads) {
    if (m <= 0 || n <= 0) return;
#ifndef DEA_NO_BLAS
    (void)threads;
    const CBLAS_TRANSPOSE ta = transpose_a ? CblasTrans : CblasNoTrans, tb = transpose_b ? CblasTrans : CblasNoTrans;
    if (sizeof(dea_real) == sizeof(double))
        cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, (const double *)(const void *)a, (int)lda,
                    (const double *)(const void *)b, (int)ldb, beta, (double *)(void *)c, (int)ldc);
    else
        cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, (float)alpha, (const float *)(const void *)a, (int)lda,
                    (const float *)(const void *)b, (int)ldb, (float)beta, (float *)(void *)c, (int)ldc);
#else
    dea__packed_product(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, threads);
#endif
}

/* The same for everybody else. The rule: float on AVX2 or AVX-512 by the packed product of room 4, whose speed does not
 * hang on the kernel that a BLAS picked and whose bits do not hang on its threads; anything else by the BLAS. */
static void dea__gemm(int transpose_a, int transpose_b, int m, int n, int k, double alpha, const dea_real *a,
                      ptrdiff_t lda, const dea_real *b, ptrdiff_t ldb, double beta, dea_real *c, ptrdiff_t ldc,
                      const dea_threads *threads) {
    if (m <= 0 || n <= 0) return;
    if (dea__packed_wins())
        dea__packed_product(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, threads);
    else
        dea__blas_gemm(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, threads);
}

/* ==== 4. Vector kernels ================================================================================================
 * One source for every instruction set: this file includes itself with DEA__ISA = 512, 256 and 128 (AVX-512, AVX2 with FMA,
 * and whatever any CPU of the target has), each time inside a region compiled for that set, and a table of functions is
 * picked at run time. A name x in the source is x_512, x_256 or x_128 in the object. What may stand here: loops over arrays
 * of dea_real. What may not: batches, heads, options.                                                                    */

#if (defined(__GNUC__) || defined(__clang__)) && !defined(DEA_NO_SIMD)
#    define DEA__VECTORS  1
#    define DEA__INLINE   static inline __attribute__((always_inline, unused))
#    define DEA__NOINLINE __attribute__((noinline))
#else
#    define DEA__VECTORS 0
#    define DEA__INLINE  static inline
#    define DEA__NOINLINE
#endif
#if DEA__VECTORS && (defined(__x86_64__) || defined(__i386__))
#    define DEA__X86 1
#    include <immintrin.h>
#else
#    define DEA__X86 0
#endif
#if DEA__VECTORS && defined(__has_builtin)
#    if __has_builtin(__builtin_shufflevector)
#        define DEA__SHUFFLE 1
#    endif
#endif
#ifndef DEA__SHUFFLE
#    define DEA__SHUFFLE 0
#endif
/* The bench sets this to a variable, to see what the products alone take. */
#ifndef DEA__PRODUCTS_ONLY
#    define DEA__PRODUCTS_ONLY 0
#endif
/* Brings the cache line at p nearer, into the second cache. */
#if DEA__VECTORS
#    define DEA__FETCH(p) __builtin_prefetch((p), 0, 2)
#else
#    define DEA__FETCH(p) ((void)(p))
#endif
#define DEA__PRAGMA(x) _Pragma(#x)
/* UNROLL: a loop of n turns, all of them. UNROLL_BY: n turns at a time of a loop of any length. */
#if !DEA__VECTORS
#    define DEA__UNROLL(n)
#    define DEA__UNROLL_BY(n)
#elif defined(__clang__)
#    define DEA__UNROLL(n)    DEA__PRAGMA(unroll)
#    define DEA__UNROLL_BY(n) /* clang warns where it cannot */
#elif defined(__GNUC__)
#    define DEA__UNROLL(n)    DEA__PRAGMA(GCC unroll n)
#    define DEA__UNROLL_BY(n) DEA__PRAGMA(GCC unroll n)
#else
#    define DEA__UNROLL(n)
#    define DEA__UNROLL_BY(n)
#endif
#define DEA__NAN     DEA__REAL(NAN)
#define DEA__SQRT(x) DEA__REAL(sqrt((double)(x)))
/* 1 if DEA_REAL is double */
#define DEA__REAL_IS_float  0
#define DEA__REAL_IS_double 1
#define DEA__JOIN_(a, b)    a##b
#define DEA__JOIN(a, b)     DEA__JOIN_(a, b)
#define DEA__REAL_IS_DOUBLE DEA__JOIN(DEA__REAL_IS_, DEA_REAL)
/* Scores carry this factor so that the exponential of room 4 costs nine operations; see dea__exp2s. */
#if DEA__VECTORS && !DEA__REAL_IS_DOUBLE
#    define DEA__LOG2_UNIT 12102203.161561485f /* 2^23 log2(e) */
#else
#    define DEA__LOG2_UNIT ((dea_real)1)
#endif

#if DEA__REAL_IS_DOUBLE
#    define DEA__REAL_MAX DBL_MAX
#    define DEA__REAL_MIN DBL_MIN
#    define DEA__EXP_LOW  (-700.0)
#else
#    define DEA__REAL_MAX FLT_MAX
#    define DEA__REAL_MIN FLT_MIN
#    define DEA__EXP_LOW  (DEA__VECTORS ? -1056964608.0f : -87.0f) /* in units of L: dea__exp2s needs normal numbers */
#endif

/* Up to here exp of a score needs no shift: e^40 times values of 1e20 is still finite, and a gradient of 1e-20 over it keeps
 * its digits. */
#define DEA__MILD       40
#define DEA__SCORE_MILD ((dea_real)DEA__MILD * DEA__LOG2_UNIT)

typedef ptrdiff_t dea__idx;

/* Typed, since C++ warns where an enumerator meets a size in one conditional. */
#define DEA__TILE  ((dea__idx)128) /* keys of one tile of a map */
#define DEA__BLOCK ((dea__idx)64)  /* queries of one block, at most */
#define DEA__CHUNK ((dea__idx)512) /* streaming: keys that stay in the second cache, */
#define DEA__SPAN  ((dea__idx)512) /* and queries that pass by them */
/* Up to here all keys of a block of queries are worked on at once; beyond they stream. The backward pass keeps twice the maps. */
#define DEA__PANEL_KEYS_FORWARD  ((dea__idx)1024)
#define DEA__PANEL_KEYS_BACKWARD ((dea__idx)512)

/* c [rows][columns of one group] = (start) + op(a) b */
enum { DEA__FROM_ZERO_, DEA__ADD_TO_C, DEA__FROM_ROW_SCALE, DEA__FROM_SCALED_COLUMN };
typedef struct dea__product {
    int across; /* 0: a is [rows][depth] with rows lda apart; 1: a is [depth][rows] */
    int start;
    dea__idx depth;
    const dea_real *a;
    dea__idx lda;
    const dea_real *b;
    dea__idx ldb;
    dea_real *c;
    dea__idx ldc;
    const dea_real *scale;  /* [rows], for FROM_ROW_SCALE (c starts at scale[r]) and FROM_SCALED_COLUMN */
    const dea_real *column; /* [columns]: c starts at scale[r]*column[j] */
    dea_real *squares;      /* NULL, or [rows][LANES]: += squares of the results, the row's variance for free */
} dea__product;

/* What one step of AdamW does to every number of a tensor. */
typedef struct dea__adamw_rates {
    dea_real clip, new_m, new_v; /* factor on the gradient; shares of the new in the moments, 1 - beta */
    dea_real pace, widen, eps;   /* update = pace m / (widen sqrt(v) + eps) */
    dea_real decay;              /* share of the number itself that goes */
} dea__adamw_rates;
#endif /* once */

#ifdef DEA__ISA

#define DEA__CAT_(a, b) a##b
#define DEA__CAT(a, b)  DEA__CAT_(a, b)
#define DEA__FN(name)   DEA__CAT(name, DEA__CAT(_, DEA__ISA))

/* Lanes of a vector, and rows of C that one micro-kernel keeps in registers together with three columns of vectors:
 * 8 x 3 accumulators of the 32 registers of AVX-512 (or 6 x 4, which load least), 4 x 3 of 16 elsewhere. */
#undef DEA__LANES
#if !DEA__VECTORS
#    define DEA__LANES 1
#elif DEA__REAL_IS_DOUBLE
#    define DEA__LANES (DEA__ISA / 64)
#else
#    define DEA__LANES (DEA__ISA / 32)
#endif
#undef DEA__ROWS
#undef DEA__FOR_ROWS
#undef DEA__STEP
#undef DEA__WIDEST
#if DEA__ISA == 512
#    define DEA__ROWS        8
#    define DEA__WIDEST      4
#    define DEA__FOR_ROWS(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#else
#    define DEA__WIDEST      3
#    define DEA__ROWS        4
#    define DEA__FOR_ROWS(M) M(0) M(1) M(2) M(3)
#endif
#define DEA__PAD (DEA__LANES > DEA__ROWS ? DEA__LANES : DEA__ROWS) /* every padded size is a multiple of this */
/* Vectors that one step of an element pass works on side by side, so that their chains of operations overlap. */
#if DEA__LANES == 1 || defined(__clang__)
#    define DEA__STEP 2
#elif DEA__ISA == 512
#    define DEA__STEP 8
#else
#    define DEA__STEP 4
#endif
#define DEA__HALF_STEP (DEA__STEP / 2)
#define DEA__EACH      DEA__UNROLL(8) for (int v = 0; v < step; v++)

#define dea__vec               DEA__FN(dea__vec)
#define dea__vec_memory        DEA__FN(dea__vec_memory)
#define dea__ints              DEA__FN(dea__ints)
#define dea__load              DEA__FN(dea__load)
#define dea__store             DEA__FN(dea__store)
#define dea__splat             DEA__FN(dea__splat)
#define dea__least             DEA__FN(dea__least)
#define dea__largest           DEA__FN(dea__largest)
#define dea__lane_sum          DEA__FN(dea__lane_sum)
#define dea__lane_max          DEA__FN(dea__lane_max)
#define dea__pick              DEA__FN(dea__pick)
#define dea__exp2s             DEA__FN(dea__exp2s)
#define dea__transpose         DEA__FN(dea__transpose)
#define dea__transpose_lanes   DEA__FN(dea__transpose_lanes)
#define dea__inverse           DEA__FN(dea__inverse)
#define dea__row_sums          DEA__FN(dea__row_sums)
#define dea__group             DEA__FN(dea__group)
#define dea__group_of_three    DEA__FN(dea__group_of_three)
#define dea__round_up          DEA__FN(dea__round_up)
#define dea__kernel            DEA__FN(dea__kernel)
#define dea__multiply          DEA__FN(dea__multiply)
#define dea__product_of        DEA__FN(dea__product_of)
#define dea__all_columns       DEA__FN(dea__all_columns)
#define dea__packed_gemm       DEA__FN(dea__packed_gemm)
#define dea__pack_panel        DEA__FN(dea__pack_panel)
#define dea__pad_rows          DEA__FN(dea__pad_rows)
#define dea__interleave        DEA__FN(dea__interleave)
#define dea__transpose_square  DEA__FN(dea__transpose_square)
#define dea__load_some         DEA__FN(dea__load_some)
#define dea__store_some        DEA__FN(dea__store_some)
#define dea__normal_cdf        DEA__FN(dea__normal_cdf)
#define dea__gelu              DEA__FN(dea__gelu)
#define dea__gelu_slope        DEA__FN(dea__gelu_slope)
#define dea__norm_row          DEA__FN(dea__norm_row)
#define dea__norm_row_backward DEA__FN(dea__norm_row_backward)
#define dea__norm_columns      DEA__FN(dea__norm_columns)
#define dea__add_columns       DEA__FN(dea__add_columns)
#define dea__root              DEA__FN(dea__root)
#define dea__adamw             DEA__FN(dea__adamw)
#define dea__normal_or_zero    DEA__FN(dea__normal_or_zero)

/* ---- vectors */
#if DEA__VECTORS
typedef dea_real dea__vec __attribute__((vector_size(DEA__ISA / 8)));
typedef dea_real dea__vec_memory __attribute__((vector_size(DEA__ISA / 8), aligned(sizeof(dea_real)), may_alias));
#    if DEA__REAL_IS_DOUBLE
typedef int64_t dea__ints __attribute__((vector_size(DEA__ISA / 8)));
#    else
typedef int32_t dea__ints __attribute__((vector_size(DEA__ISA / 8)));
#    endif
DEA__INLINE dea__vec dea__load(const dea_real *p) {
    return (dea__vec)(*(const dea__vec_memory *)(const void *)p);
}
DEA__INLINE void dea__store(dea_real *p, dea__vec x) {
    *(dea__vec_memory *)(void *)p = (dea__vec_memory)x;
}
/* Written out, because adding x to a zero vector is not folded (-0.0) and would cost an addition a broadcast. */
DEA__INLINE dea__vec dea__splat(dea_real x) {
#    if DEA__LANES == 16
    dea__vec v = {x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#    elif DEA__LANES == 8
    dea__vec v = {x, x, x, x, x, x, x, x};
#    elif DEA__LANES == 4
    dea__vec v = {x, x, x, x};
#    else
    dea__vec v = {x, x};
#    endif
    return v;
}
/* where ? a : b, for a comparison's result */
DEA__INLINE dea__vec dea__pick(dea__ints where, dea__vec a, dea__vec b) {
    return (dea__vec)((where & (dea__ints)a) | (~where & (dea__ints)b));
}
#else
typedef dea_real dea__vec;
typedef int dea__ints;
DEA__INLINE dea__vec dea__load(const dea_real *p) {
    return *p;
}
DEA__INLINE void dea__store(dea_real *p, dea__vec x) {
    *p = x;
}
DEA__INLINE dea__vec dea__splat(dea_real x) {
    return x;
}
DEA__INLINE dea__vec dea__pick(dea__ints where, dea__vec a, dea__vec b) {
    return where ? a : b;
}
#endif

/* The smaller and the larger. On x86 the instruction itself, which compilers do not find from a vector comparison (with a
 * full mask, because the form without one warns of an undefined operand in C++). */
#if DEA__VECTORS && DEA__X86 && DEA__REAL_IS_DOUBLE && DEA__ISA == 512
DEA__INLINE dea__vec dea__least(dea__vec a, dea__vec b) {
    return (dea__vec)_mm512_mask_min_pd((__m512d)a, 0xff, (__m512d)a, (__m512d)b);
}
DEA__INLINE dea__vec dea__largest(dea__vec a, dea__vec b) {
    return (dea__vec)_mm512_mask_max_pd((__m512d)a, 0xff, (__m512d)a, (__m512d)b);
}
#elif DEA__VECTORS && DEA__X86 && DEA__REAL_IS_DOUBLE && DEA__ISA == 256
DEA__INLINE dea__vec dea__least(dea__vec a, dea__vec b) {
    return (dea__vec)_mm256_min_pd((__m256d)a, (__m256d)b);
}
DEA__INLINE dea__vec dea__largest(dea__vec a, dea__vec b) {
    return (dea__vec)_mm256_max_pd((__m256d)a, (__m256d)b);
}
#elif DEA__VECTORS && DEA__X86 && !DEA__REAL_IS_DOUBLE && DEA__ISA == 512
DEA__INLINE dea__vec dea__least(dea__vec a, dea__vec b) {
    return (dea__vec)_mm512_mask_min_ps((__m512)a, 0xffff, (__m512)a, (__m512)b);
}
DEA__INLINE dea__vec dea__largest(dea__vec a, dea__vec b) {
    return (dea__vec)_mm512_mask_max_ps((__m512)a, 0xffff, (__m512)a, (__m512)b);
}
#elif DEA__VECTORS && DEA__X86 && !DEA__REAL_IS_DOUBLE && DEA__ISA == 256
DEA__INLINE dea__vec dea__least(dea__vec a, dea__vec b) {
    return (dea__vec)_mm256_min_ps((__m256)a, (__m256)b);
}
DEA__INLINE dea__vec dea__largest(dea__vec a, dea__vec b) {
    return (dea__vec)_mm256_max_ps((__m256)a, (__m256)b);
}
#elif DEA__VECTORS && DEA__X86 && !DEA__REAL_IS_DOUBLE
DEA__INLINE dea__vec dea__least(dea__vec a, dea__vec b) {
    return (dea__vec)_mm_min_ps((__m128)a, (__m128)b);
}
DEA__INLINE dea__vec dea__largest(dea__vec a, dea__vec b) {
    return (dea__vec)_mm_max_ps((__m128)a, (__m128)b);
}
#else
DEA__INLINE dea__vec dea__least(dea__vec a, dea__vec b) {
    return dea__pick((dea__ints)(a < b), a, b);
}
DEA__INLINE dea__vec dea__largest(dea__vec a, dea__vec b) {
    return dea__pick((dea__ints)(a > b), a, b);
}
#endif

/* 1/x to one rounding or two, for x in (1e-30, 1e30). AVX-512 divides 16 numbers in 16 cycles, but gives a reciprocal of
 * 14 bits in 2, which one step of Newton doubles. */
DEA__INLINE dea__vec dea__inverse(dea__vec x) {
#if DEA__VECTORS && DEA__X86 && !DEA__REAL_IS_DOUBLE && DEA__ISA == 512
    const dea__vec y = (dea__vec)_mm512_maskz_rcp14_ps(0xffff, (__m512)x);
    return y + y * (dea__splat(1) - x * y);
#else
    return dea__splat(1) / x;
#endif
}

/* Square roots, correctly rounded; dea__sqrts has them to a few roundings. */
DEA__INLINE dea__vec dea__root(dea__vec x) {
#if DEA__VECTORS && DEA__X86 && DEA__REAL_IS_DOUBLE && DEA__ISA == 512
    return (dea__vec)_mm512_maskz_sqrt_pd(0xff, (__m512d)x);
#elif DEA__VECTORS && DEA__X86 && DEA__REAL_IS_DOUBLE && DEA__ISA == 256
    return (dea__vec)_mm256_sqrt_pd((__m256d)x);
#elif DEA__VECTORS && DEA__X86 && !DEA__REAL_IS_DOUBLE && DEA__ISA == 512
    return (dea__vec)_mm512_maskz_sqrt_ps(0xffff, (__m512)x);
#elif DEA__VECTORS && DEA__X86 && !DEA__REAL_IS_DOUBLE && DEA__ISA == 256
    return (dea__vec)_mm256_sqrt_ps((__m256)x);
#elif DEA__VECTORS && DEA__X86 && !DEA__REAL_IS_DOUBLE
    return (dea__vec)_mm_sqrt_ps((__m128)x);
#else
    dea_real lanes[DEA__LANES];
    dea__store(lanes, x);
    for (int i = 0; i < DEA__LANES; i++) lanes[i] = DEA__SQRT(lanes[i]);
    return dea__load(lanes);
#endif
}

DEA__INLINE dea_real dea__lane_sum(dea__vec x) {
#if DEA__SHUFFLE && DEA__LANES == 16
    x += __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
    x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
    x += __builtin_shufflevector(x, x, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3);
    return x[0] + x[1];
#elif DEA__SHUFFLE && DEA__LANES == 8
    x += __builtin_shufflevector(x, x, 4, 5, 6, 7, 4, 5, 6, 7);
    x += __builtin_shufflevector(x, x, 2, 3, 2, 3, 2, 3, 2, 3);
    return x[0] + x[1];
#else
    dea_real lanes[DEA__LANES];
    dea__store(lanes, x);
    for (int half = DEA__LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) lanes[i] += lanes[i + half];
    return lanes[0];
#endif
}
DEA__INLINE dea_real dea__lane_max(dea__vec x) {
    dea_real lanes[DEA__LANES];
    dea__store(lanes, x);
    for (int i = 1; i < DEA__LANES; i++) lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
    return lanes[0];
}

DEA__INLINE dea__idx dea__round_up(dea__idx n, dea__idx to) {
    return (n + to - 1) / to * to;
}

/* x[v] = 2^(x[v] / 2^23), for x / 2^23 in [-126, 128). The scale DEA__LOG2_UNIT that the row constants carry makes this
 * cheap: the integer part of x / 2^23 is already where a float keeps its exponent and the fraction where it keeps its
 * mantissa. With m = 1 + fraction, 2^(m-1) is a polynomial of degree 5 (7.5e-8 relative; all terms but one positive).
 * Other types use the C library, and then DEA__LOG2_UNIT is 1 and this is exp. */
DEA__INLINE void dea__exp2s(const int step, dea__vec *x) {
#if DEA__VECTORS && !DEA__REAL_IS_DOUBLE
    dea__ints n[DEA__STEP];
    dea__vec m[DEA__STEP], p[DEA__STEP];
    DEA__EACH n[v] = __builtin_convertvector(x[v], dea__ints);
    DEA__EACH m[v] = (dea__vec)((n[v] & 0x7fffff) | 0x3f800000);
    DEA__EACH p[v] = m[v] * 0.0018775767f + -0.000398543476f;
    DEA__EACH p[v] = p[v] * m[v] + 0.038644725f;
    DEA__EACH p[v] = p[v] * m[v] + 0.107834936f;
    DEA__EACH p[v] = p[v] * m[v] + 0.353755317f;
    DEA__EACH p[v] = p[v] * m[v] + 0.498285914f;
    DEA__EACH x[v] = (dea__vec)((dea__ints)p[v] + (n[v] & ~0x7fffff));
#else
    for (int v = 0; v < step; v++) {
        dea_real lanes[DEA__LANES];
        dea__store(lanes, x[v]);
        for (int i = 0; i < DEA__LANES; i++) lanes[i] = (dea_real)exp((double)lanes[i]);
        x[v] = dea__load(lanes);
    }
#endif
}

/* Swaps rows and columns of a square of LANES x LANES: for h = LANES/2, ..., 2, 1 every pair of rows that lie h apart swaps the
 * blocks of h lanes off its diagonal. */
#if DEA__SHUFFLE && DEA__LANES == 16
#    define DEA__SWAP8(a, b, x, y)                                                                                     \
        x = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);                     \
        y = __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#    define DEA__SWAP4(a, b, x, y)                                                                                     \
        x = __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);                   \
        y = __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
#    define DEA__SWAP2(a, b, x, y)                                                                                     \
        x = __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);                   \
        y = __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#    define DEA__SWAP1(a, b, x, y)                                                                                     \
        x = __builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);                  \
        y = __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)
#elif DEA__SHUFFLE && DEA__LANES == 8
#    define DEA__SWAP4(a, b, x, y)                                                                                     \
        x = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);                                                   \
        y = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#    define DEA__SWAP2(a, b, x, y)                                                                                     \
        x = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);                                                   \
        y = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#    define DEA__SWAP1(a, b, x, y)                                                                                     \
        x = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);                                                  \
        y = __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#elif DEA__SHUFFLE && DEA__LANES == 4
#    define DEA__SWAP2(a, b, x, y)                                                                                     \
        x = __builtin_shufflevector(a, b, 0, 1, 4, 5);                                                                 \
        y = __builtin_shufflevector(a, b, 2, 3, 6, 7)
#    define DEA__SWAP1(a, b, x, y)                                                                                     \
        x = __builtin_shufflevector(a, b, 0, 4, 2, 6);                                                                 \
        y = __builtin_shufflevector(a, b, 1, 5, 3, 7)
#endif
#define DEA__SWAP_ROWS(h, SWAP)                                                                                        \
    DEA__UNROLL(16) for (int i = 0; i < DEA__LANES; i++) if (!(i & (h))) {                                             \
        dea__vec x, y;                                                                                                 \
        SWAP(a[i], a[i + (h)], x, y);                                                                                  \
        a[i] = x;                                                                                                      \
        a[i + (h)] = y;                                                                                                \
    }
DEA__INLINE void dea__transpose_lanes(dea__vec *a) {
#if DEA__SHUFFLE && DEA__LANES >= 4
#    if DEA__LANES >= 16
    DEA__SWAP_ROWS(8, DEA__SWAP8)
#    endif
#    if DEA__LANES >= 8
    DEA__SWAP_ROWS(4, DEA__SWAP4)
#    endif
    DEA__SWAP_ROWS(2, DEA__SWAP2)
    DEA__SWAP_ROWS(1, DEA__SWAP1)
#else
    dea_real in[DEA__LANES][DEA__LANES], out[DEA__LANES][DEA__LANES];
    for (int r = 0; r < DEA__LANES; r++) dea__store(in[r], a[r]);
    for (int r = 0; r < DEA__LANES; r++)
        for (int c = 0; c < DEA__LANES; c++) out[c][r] = in[r][c];
    for (int r = 0; r < DEA__LANES; r++) a[r] = dea__load(out[r]);
#endif
}
static DEA__NOINLINE void dea__transpose(const dea_real *in, dea__idx in_row, dea_real *out, dea__idx out_row) {
    dea__vec a[DEA__LANES];
    DEA__UNROLL(16) for (int i = 0; i < DEA__LANES; i++) a[i] = dea__load(in + i * in_row);
    dea__transpose_lanes(a);
    DEA__UNROLL(16) for (int i = 0; i < DEA__LANES; i++) dea__store(out + i * out_row, a[i]);
}
#undef DEA__SWAP_ROWS
#undef DEA__SWAP8
#undef DEA__SWAP4
#undef DEA__SWAP2
#undef DEA__SWAP1

/* out[r] = the sum of the LANES numbers at rows + r*LANES, for LANES rows. */
static DEA__NOINLINE void dea__row_sums(const dea_real *rows, dea_real *out) {
    dea__vec a[DEA__LANES];
    DEA__UNROLL(16) for (int i = 0; i < DEA__LANES; i++) a[i] = dea__load(rows + i * DEA__LANES);
    dea__transpose_lanes(a);
    enum { SUMS = DEA__LANES < 4 ? 1 : 4 };
    DEA__UNROLL(16) for (int i = SUMS; i < DEA__LANES; i++) a[i % SUMS] += a[i];
    dea__store(out, SUMS == 1 ? a[0] : (a[0] + a[1 % SUMS]) + (a[2 % SUMS] + a[3 % SUMS]));
}

/* ---- products: one micro-kernel for all of them */

/* How many vectors wide the next group of columns is when `left` are left: threes and twos, a one only at the very end. */
DEA__INLINE int dea__group_of_three(dea__idx left) {
    return left == 1 ? 1 : left == 2 || left == 4 ? 2 : 3;
}
/* The same with fours, where registers allow. */
DEA__INLINE int dea__group(dea__idx left) {
    if (DEA__WIDEST < 4 || left < 4 || left == 5 || left % 3 == 0) return dea__group_of_three(left);
    return 4;
}

/* `tall` rows and `wide` vectors of C, over `depth` terms. The accumulators are named variables, not an array: every compiler
 * then keeps them in registers at any optimisation level. */
DEA__INLINE void dea__kernel(const int tall, const int wide, const int across, dea__idx depth, const dea_real *a,
                             dea__idx lda, const dea_real *b, dea__idx ldb, dea_real *c, dea__idx ldc, int start,
                             const dea_real *scale, const dea_real *column, dea_real *squares) {
#define DEA__DECLARE(r) dea__vec c##r##0 = dea__splat(0), c##r##1 = c##r##0, c##r##2 = c##r##0, c##r##3 = c##r##0;
#define DEA__BEGIN(r, from)                                                                                            \
    if (r < tall) {                                                                                                    \
        c##r##0 = from(r, 0);                                                                                          \
        if (wide > 1) c##r##1 = from(r, 1);                                                                            \
        if (wide > 2) c##r##2 = from(r, 2);                                                                            \
        if (wide > 3) c##r##3 = from(r, 3);                                                                            \
    }
#define DEA__FROM_ZERO(r, v)   dea__splat(0)
#define DEA__FROM_C(r, v)      dea__load(c + r * ldc + v * DEA__LANES)
#define DEA__FROM_ROWS(r, v)   dea__splat(scale[r])
#define DEA__FROM_COLUMN(r, v) (dea__splat(scale[r]) * dea__load(column + v * DEA__LANES))
#define DEA__BEGIN_ZERO(r)     DEA__BEGIN(r, DEA__FROM_ZERO)
#define DEA__BEGIN_C(r)        DEA__BEGIN(r, DEA__FROM_C)
#define DEA__BEGIN_ROWS(r)     DEA__BEGIN(r, DEA__FROM_ROWS)
#define DEA__BEGIN_COLUMN(r)   DEA__BEGIN(r, DEA__FROM_COLUMN)
#define DEA__TERM(r)                                                                                                   \
    if (r < tall) {                                                                                                    \
        const dea__vec x = dea__splat(across ? a[r] : a[r * lda]);                                                     \
        c##r##0 += x * b0;                                                                                             \
        if (wide > 1) c##r##1 += x * b1;                                                                               \
        if (wide > 2) c##r##2 += x * b2;                                                                               \
        if (wide > 3) c##r##3 += x * b3;                                                                               \
    }
#define DEA__FINISH(r)                                                                                                 \
    if (r < tall) {                                                                                                    \
        dea__store(c + r * ldc, c##r##0);                                                                              \
        if (wide > 1) dea__store(c + r * ldc + DEA__LANES, c##r##1);                                                   \
        if (wide > 2) dea__store(c + r * ldc + 2 * DEA__LANES, c##r##2);                                               \
        if (wide > 3) dea__store(c + r * ldc + 3 * DEA__LANES, c##r##3);                                               \
    }
#define DEA__SQUARES(r)                                                                                                \
    if (r < tall) {                                                                                                    \
        dea__vec s = dea__load(squares + r * DEA__LANES) + c##r##0 * c##r##0;                                          \
        if (wide > 1) s += c##r##1 * c##r##1;                                                                          \
        if (wide > 2) s += c##r##2 * c##r##2;                                                                          \
        if (wide > 3) s += c##r##3 * c##r##3;                                                                          \
        dea__store(squares + r * DEA__LANES, s);                                                                       \
    }
    DEA__FOR_ROWS(DEA__DECLARE)
    if (start == DEA__ADD_TO_C) {
        DEA__FOR_ROWS(DEA__BEGIN_C)
    } else if (start == DEA__FROM_ROW_SCALE) {
        DEA__FOR_ROWS(DEA__BEGIN_ROWS)
    } else if (start == DEA__FROM_SCALED_COLUMN) {
        DEA__FOR_ROWS(DEA__BEGIN_COLUMN)
    } else {
        DEA__FOR_ROWS(DEA__BEGIN_ZERO)
    }
    DEA__UNROLL_BY(4) for (dea__idx k = 0; k < depth; k++) {
        const dea__vec b0 = dea__load(b), b1 = wide > 1 ? dea__load(b + DEA__LANES) : b0,
                       b2 = wide > 2 ? dea__load(b + 2 * DEA__LANES) : b0,
                       b3 = wide > 3 ? dea__load(b + 3 * DEA__LANES) : b0;
        DEA__FOR_ROWS(DEA__TERM)
        a += across ? lda : 1;
        b += ldb;
    }
    DEA__FOR_ROWS(DEA__FINISH)
    if (squares) {
        DEA__FOR_ROWS(DEA__SQUARES)
    }
#undef DEA__DECLARE
#undef DEA__BEGIN
#undef DEA__FROM_ZERO
#undef DEA__FROM_C
#undef DEA__FROM_ROWS
#undef DEA__FROM_COLUMN
#undef DEA__BEGIN_ZERO
#undef DEA__BEGIN_C
#undef DEA__BEGIN_ROWS
#undef DEA__BEGIN_COLUMN
#undef DEA__TERM
#undef DEA__FINISH
#undef DEA__SQUARES
}

/* `rows` (a multiple of ROWS) times `wide` vectors of the product p. All instances of the kernel are here. */
static DEA__NOINLINE void dea__multiply(int wide, dea__idx rows, const dea__product *p) {
    dea__idx r = 0;
#define DEA__SWEEP(tall, wide_, across_, end)                                                                          \
    for (; r + tall <= (end); r += tall)                                                                               \
    dea__kernel(tall, wide_, across_, p->depth, p->a + (across_ ? r : r * p->lda), p->lda, p->b, p->ldb,               \
                p->c + r * p->ldc, p->ldc, p->start, p->scale ? p->scale + r : NULL, p->column,                        \
                p->squares ? p->squares + r * DEA__LANES : NULL)
#if DEA__WIDEST == 4
    const dea__idx sixes = rows % 6 == 2 ? rows - 8 : rows; /* two rows alone would wait for their sums */
    if (wide == 4 && p->across) {
        DEA__SWEEP(6, 4, 1, sixes);
        DEA__SWEEP(4, 4, 1, rows);
    } else if (wide == 4) {
        DEA__SWEEP(6, 4, 0, sixes);
        DEA__SWEEP(4, 4, 0, rows);
    } else
#endif
        if (p->across) {
        if (wide == 3)
            DEA__SWEEP(DEA__ROWS, 3, 1, rows);
        else if (wide == 2)
            DEA__SWEEP(DEA__ROWS, 2, 1, rows);
        else
            DEA__SWEEP(DEA__ROWS, 1, 1, rows);
    } else {
        if (wide == 3)
            DEA__SWEEP(DEA__ROWS, 3, 0, rows);
        else if (wide == 2)
            DEA__SWEEP(DEA__ROWS, 2, 0, rows);
        else
            DEA__SWEEP(DEA__ROWS, 1, 0, rows);
    }
#undef DEA__SWEEP
}

/* The product p with row-major b, over all of its columns. */
static DEA__NOINLINE void dea__all_columns(dea__product p, dea__idx rows, dea__idx columns) {
    for (dea__idx left = columns / DEA__LANES; left > 0;) {
        const int wide = dea__group(left);
        dea__multiply(wide, rows, &p);
        p.b += wide * DEA__LANES;
        p.c += wide * DEA__LANES;
        if (p.column) p.column += wide * DEA__LANES;
        left -= wide;
    }
}

/* c [rows][columns] = (start) + op(a) b, with row-major b; sizes padded. across: a is [depth][rows], else [rows][depth]. */
static DEA__NOINLINE void dea__product_of(int start, int across, dea__idx rows, dea__idx columns, dea__idx depth,
                                          const dea_real *a, dea__idx lda, const dea_real *b, dea__idx ldb, dea_real *c,
                                          dea__idx ldc) {
    const dea__product p = {across, start, depth, a, lda, b, ldb, c, ldc, NULL, NULL, NULL};
    dea__all_columns(p, rows, columns);
}

/* ---- packing */

/* out [rows_padded][width_padded] = in [rows][width] with zeros around. */
static DEA__NOINLINE void dea__pad_rows(dea__idx rows, dea__idx rows_padded, dea__idx width, dea__idx width_padded,
                                        const dea_real *in, dea__idx in_row, dea_real *out) {
    for (dea__idx r = 0; r < rows; r++, in += in_row, out += width_padded) {
        dea__idx c = 0;
        for (; c + DEA__LANES <= width; c += DEA__LANES) dea__store(out + c, dea__load(in + c));
        for (; c < width; c++) out[c] = in[c];
        for (; c < width_padded; c++) out[c] = 0;
    }
    if (rows_padded > rows) memset(out, 0, sizeof(dea_real) * (size_t)((rows_padded - rows) * width_padded));
}

/* in [rows][width], its rows in_row apart, into groups of one to four vectors of rows, each group transposed to [width][its rows], as
 * the micro-kernel reads b. The group that starts at row j starts at out + j*width. Groups do not cross a TILE. */
static DEA__NOINLINE void dea__interleave(dea__idx rows, dea__idx width, const dea_real *in, dea__idx in_row,
                                          dea_real *out) {
    for (dea__idx tile = 0; tile < rows; tile += DEA__TILE) {
        const dea__idx end = rows - tile < DEA__TILE ? rows : tile + DEA__TILE;
        for (dea__idx j = tile; j < end;) {
            const int wide = dea__group((end - j) / DEA__LANES);
            for (int v = 0; v < wide; v++)
                for (dea__idx c = 0; c < width; c += DEA__LANES)
                    dea__transpose(in + (j + v * DEA__LANES) * in_row + c, in_row,
                                   out + j * width + (c * wide + v) * DEA__LANES, wide * DEA__LANES);
            j += wide * DEA__LANES;
        }
    }
}

/* out = in^T, both [n][n], n padded */
static void dea__transpose_square(dea__idx n, const dea_real *in, dea_real *out) {
    for (dea__idx r = 0; r < n; r += DEA__LANES)
        for (dea__idx c = 0; c < n; c += DEA__LANES) dea__transpose(in + r * n + c, n, out + c * n + r, n);
}

/* ---- general product */

/* out [depth][width] = alpha op(b), `depth` terms from k0 on and `columns` columns from j0 on; the rest of the width is 0. */
static void dea__pack_panel(int transpose_b, const dea_real *b, dea__idx ldb, dea_real alpha, dea__idx k0,
                            dea__idx depth, dea__idx j0, dea__idx columns, dea__idx width, dea_real *out) {
    const dea_real *from = transpose_b ? b + j0 * ldb + k0 : b + k0 * ldb + j0;
    if (columns == width && depth % DEA__LANES == 0) {
        for (dea__idx j = 0; transpose_b && j < width; j += DEA__LANES)
            for (dea__idx p = 0; p < depth; p += DEA__LANES)
                dea__transpose(from + j * ldb + p, ldb, out + p * width + j, width);
        if (transpose_b && alpha == 1) return;
        for (dea__idx p = 0; p < depth; p++)
            for (dea__idx j = 0; j < width; j += DEA__LANES)
                dea__store(out + p * width + j,
                           dea__splat(alpha) * dea__load(transpose_b ? out + p * width + j : from + p * ldb + j));
        return;
    }
    for (dea__idx p = 0; p < depth; p++, out += width) {
        for (dea__idx j = 0; j < columns; j++) out[j] = alpha * (transpose_b ? from[j * ldb + p] : from[p * ldb + j]);
        for (dea__idx j = columns; j < width; j++) out[j] = 0;
    }
}

/* c [m,n] = alpha op(a) op(b) + beta c, row-major, op by transpose_a and transpose_b as in BLAS. beta = 0 does not read c.
 * b is packed a panel of 3 vectors by DEPTH terms at a time, in a buffer on the stack (at most 24 KiB of it, and as much
 * for edges); a is read in place. Where a does not fit the second cache, columns go in chunks whose part of c does, and a
 * passes once a chunk. Each element is one sum in order of k whatever the panel. */
static void dea__packed_gemm(int transpose_a, int transpose_b, dea__idx m, dea__idx n, dea__idx k, dea_real alpha,
                             const dea_real *a, dea__idx lda, const dea_real *b, dea__idx ldb, dea_real beta,
                             dea_real *c, dea__idx ldc) {
    enum { WIDTH = 3 * DEA__LANES, DEPTH = 128, CACHED = 1 << 17 };
    dea_real panel[DEPTH * WIDTH], edge_a[DEPTH * DEA__ROWS], edge_c[DEA__ROWS * WIDTH];
    const dea__idx chunk = m * k > 2 * CACHED && m < CACHED / WIDTH ? CACHED / m / WIDTH * WIDTH : (dea__idx)WIDTH;
    for (dea__idx i = 0; beta == 0 && i < m; i++) memset(c + i * ldc, 0, (size_t)n * sizeof *c);
    for (dea__idx i = 0; beta != 0 && beta != 1 && i < m; i++)
        for (dea__idx j = 0; j < n; j++) c[i * ldc + j] *= beta;
    if (alpha == 0) return;
    for (dea__idx first = 0; first < n; first += chunk)
        for (dea__idx k0 = 0; k0 < k; k0 += DEPTH) {
            const dea__idx depth = k - k0 < DEPTH ? k - k0 : (dea__idx)DEPTH,
                           end = n - first < chunk ? n : first + chunk;
            const dea_real *a0 = transpose_a ? a + k0 * lda : a + k0;
            for (dea__idx j0 = first; j0 < end;) {
                const dea__idx left = end - j0;
                const int wide = dea__group_of_three((left + DEA__LANES - 1) / DEA__LANES);
                const dea__idx width = wide * DEA__LANES, columns = left < width ? left : width;
                dea__pack_panel(transpose_b, b, ldb, alpha, k0, depth, j0, columns, width, panel);
                dea__product p = {transpose_a, DEA__ADD_TO_C, depth, a0,   lda,  panel,
                                  width,       c + j0,        ldc,   NULL, NULL, NULL};
                const dea__idx whole = columns == width ? m - m % DEA__ROWS : 0;
                if (whole) dea__multiply(wide, whole, &p);
                for (dea__idx i0 = whole; i0 < m; i0 += DEA__ROWS) {
                    const dea__idx rows = m - i0 < DEA__ROWS ? m - i0 : DEA__ROWS;
                    for (dea__idx r = 0; r < DEA__ROWS; r++)
                        for (dea__idx q = 0; q < depth; q++)
                            edge_a[r * DEPTH + q] = r >= rows     ? 0
                                                    : transpose_a ? a0[q * lda + i0 + r]
                                                                  : a0[(i0 + r) * lda + q];
                    for (dea__idx r = 0; r < DEA__ROWS; r++)
                        for (dea__idx j = 0; j < width; j++)
                            edge_c[r * width + j] = r < rows && j < columns ? c[(i0 + r) * ldc + j0 + j] : 0;
                    dea__product e = {0,     DEA__ADD_TO_C, depth, edge_a, DEPTH, panel,
                                      width, edge_c,        width, NULL,   NULL,  NULL};
                    dea__multiply(wide, DEA__ROWS, &e);
                    for (dea__idx r = 0; r < rows; r++)
                        for (dea__idx j = 0; j < columns; j++) c[(i0 + r) * ldc + j0 + j] = edge_c[r * width + j];
                }
                j0 += width;
            }
        }
}

/* ---- element-wise passes of the parts, any length n */

/* The first `count` lanes, 1 to LANES; the others 0. */
DEA__INLINE dea__vec dea__load_some(const dea_real *p, dea__idx count) {
    if (count >= DEA__LANES) return dea__load(p);
    dea_real lanes[DEA__LANES] = {0};
    for (dea__idx i = 0; i < count; i++) lanes[i] = p[i];
    return dea__load(lanes);
}
DEA__INLINE void dea__store_some(dea_real *p, dea__vec x, dea__idx count) {
    dea_real lanes[DEA__LANES];
    if (count >= DEA__LANES) {
        dea__store(p, x);
        return;
    }
    dea__store(lanes, x);
    for (dea__idx i = 0; i < count; i++) p[i] = lanes[i];
}

/* Phi(x), and exp(-x^2/2) in *bell. For t = |x|, Phi(-t) = exp(-t^2/2) P(1/(1 + 0.23 t)) with a polynomial of degree 8, relative
 * error 5e-8: the left tail keeps its digits. Beyond 13 both are constant, where a float's product with them no longer
 * matters; the operand order of the limits lets a NaN through. */
#if DEA__VECTORS && !DEA__REAL_IS_DOUBLE
DEA__INLINE dea__vec dea__normal_cdf(dea__vec x, dea__vec *bell) {
    const dea__vec near = dea__largest(dea__splat(-13), dea__least(dea__splat(13), x));
    const dea__vec t = dea__largest(-near, near), u = dea__splat(1) / (dea__splat(1) + dea__splat(0.23f) * t);
    dea__vec e[DEA__STEP], p = dea__splat(-0.0784324043f);
    p = p * u + dea__splat(0.290235806f);
    p = p * u + dea__splat(-0.277739079f);
    p = p * u + dea__splat(0.301002412f);
    p = p * u + dea__splat(-0.0325729578f);
    p = p * u + dea__splat(0.119354541f);
    p = p * u + dea__splat(0.08580738f);
    p = p * u + dea__splat(0.0923715913f);
    p = p * u + dea__splat(-2.73133293e-5f);
    e[0] = near * near * dea__splat(-0.5f * DEA__LOG2_UNIT);
    dea__exp2s(1, e);
    *bell = e[0];
    const dea__vec tail = e[0] * p;
    return dea__pick((dea__ints)(x > dea__splat(0)), dea__splat(1) - tail, tail);
}
#else
DEA__INLINE dea__vec dea__normal_cdf(dea__vec x, dea__vec *bell) {
    dea_real in[DEA__LANES], cdf[DEA__LANES], exponential[DEA__LANES];
    dea__store(in, x);
    for (int i = 0; i < DEA__LANES; i++) {
        cdf[i] = DEA__REAL(0.5 * erfc((double)in[i] * -0.70710678118654752440));
        exponential[i] = DEA__REAL(exp(-0.5 * (double)in[i] * (double)in[i]));
    }
    *bell = dea__load(exponential);
    return dea__load(cdf);
}
#endif

/* y = x Phi(x) */
static void dea__gelu(const dea_real *x_, dea_real *y, dea__idx n) {
    for (dea__idx j = 0; j < n; j += DEA__LANES) {
        dea__vec bell, x = dea__load_some(x_ + j, n - j);
        dea__store_some(y + j, x * dea__normal_cdf(x, &bell), n - j);
    }
}
/* dx = dy (Phi(x) + x exp(-x^2/2)/sqrt(2 pi)) */
static void dea__gelu_slope(const dea_real *x_, const dea_real *dy, dea_real *dx, dea__idx n) {
    for (dea__idx j = 0; j < n; j += DEA__LANES) {
        dea__vec bell, x = dea__load_some(x_ + j, n - j), cdf = dea__normal_cdf(x, &bell);
        cdf = cdf + x * bell * dea__splat(DEA__REAL(0.39894228040143267794));
        dea__store_some(dx + j, dea__load_some(dy + j, n - j) * cdf, n - j);
    }
}

/* One row of a layer norm. The mean is taken twice, the second time of what the first left over, so that a large common
 * part of x does not cost digits. gain and bias may be NULL. */
static void dea__norm_row(const dea_real *x, const dea_real *gain, const dea_real *bias, dea_real *y, dea__idx n,
                          double eps, dea_real *mean_out, dea_real *scale_out) {
    dea__vec sum = dea__splat(0), rest = dea__splat(0), squares = dea__splat(0);
    for (dea__idx j = 0; j < n; j += DEA__LANES) sum += dea__load_some(x + j, n - j);
    const dea_real mean = DEA__REAL((double)dea__lane_sum(sum) / (double)n);
    for (dea__idx j = 0; j < n; j += DEA__LANES) {
        dea__vec d = dea__load_some(x + j, n - j) - dea__splat(mean);
        if (n - j < DEA__LANES) { /* lanes past the end must not count as -mean */
            dea_real lanes[DEA__LANES];
            dea__store(lanes, d);
            d = dea__load_some(lanes, n - j);
        }
        rest += d;
        squares += d * d;
    }
    const double left = (double)dea__lane_sum(rest) / (double)n;
    const double variance = (double)dea__lane_sum(squares) / (double)n - left * left;
    if (!dea__finite(variance)) {
        dea__norm_far_row(x, gain, bias, y, n, eps, mean_out, scale_out);
        return;
    }
    const double scale = 1 / sqrt((variance > 0 ? variance : 0) + eps);
    for (dea__idx j = 0; j < n; j += DEA__LANES) {
        dea__vec hat = (dea__load_some(x + j, n - j) - dea__splat(mean) - dea__splat(DEA__REAL(left))) *
                       dea__splat(DEA__REAL(scale));
        if (gain) hat = hat * dea__load_some(gain + j, n - j);
        if (bias) hat = hat + dea__load_some(bias + j, n - j);
        dea__store_some(y + j, hat, n - j);
    }
    *mean_out = DEA__REAL((double)mean + left);
    *scale_out = DEA__REAL(scale);
}
/* g = gain o dy: dx = scale (g - mean g - hat mean(g o hat)), hat = (x - mean) scale */
static void dea__norm_row_backward(const dea_real *x, const dea_real *gain, const dea_real *dy, dea_real *dx,
                                   dea__idx n, dea_real mean, dea_real scale) {
    dea__vec sum = dea__splat(0), product = dea__splat(0);
    for (dea__idx j = 0; j < n; j += DEA__LANES) { /* lanes past the end have g = 0 */
        dea__vec g = dea__load_some(dy + j, n - j);
        if (gain) g = g * dea__load_some(gain + j, n - j);
        sum += g;
        product += g * (dea__load_some(x + j, n - j) - dea__splat(mean));
    }
    const double mean_g = (double)dea__lane_sum(sum) / (double)n;
    const double along = (double)dea__lane_sum(product) / (double)n * (double)scale * (double)scale;
    for (dea__idx j = 0; j < n; j += DEA__LANES) {
        dea__vec g = dea__load_some(dy + j, n - j);
        if (gain) g = g * dea__load_some(gain + j, n - j);
        g = g - dea__splat(DEA__REAL(mean_g)) -
            (dea__load_some(x + j, n - j) - dea__splat(mean)) * dea__splat(DEA__REAL(along));
        dea__store_some(dx + j, g * dea__splat(scale), n - j);
    }
}
/* dgain += sum over rows of dy o (x - mean) scale, rows in order */
static void dea__norm_columns(const dea_real *x, const dea_real *dy, const dea_real *mean, const dea_real *scale,
                              dea__idx rows, dea__idx width, dea_real *dgain) {
    for (dea__idx j = 0; j < width; j += DEA__LANES) {
        dea__vec sum = dea__load_some(dgain + j, width - j);
        for (dea__idx i = 0; i < rows; i++) {
            const dea__vec d = dea__load_some(x + i * width + j, width - j) - dea__splat(mean[i]);
            sum += dea__load_some(dy + i * width + j, width - j) * (d * dea__splat(scale[i]));
        }
        dea__store_some(dgain + j, sum, width - j);
    }
}
/* out += column sums of x [rows,width], rows in order */
static void dea__add_columns(const dea_real *x, dea__idx rows, dea__idx width, dea_real *out) {
    for (dea__idx j = 0; j < width; j += DEA__LANES) {
        dea__vec sum = dea__load_some(out + j, width - j);
        for (dea__idx i = 0; i < rows; i++) sum += dea__load_some(x + i * width + j, width - j);
        dea__store_some(out + j, sum, width - j);
    }
}

/* Moments too small for a normal number become 0: those of a word that no longer comes would stay denormal for good, and with a
 * tenth of them so a step takes six times as long. */
DEA__INLINE dea__vec dea__normal_or_zero(dea__vec x) {
    return dea__pick((dea__ints)(dea__largest(x, -x) < dea__splat(DEA__REAL_MIN)), dea__splat(0), x);
}
/* AdamW on n numbers of one tensor. The moments move by a share of what they lack, which keeps its digits where beta is near 1. */
static void dea__adamw(const dea__adamw_rates *r, const dea_real *g_, dea_real *x_, dea_real *m_, dea_real *v_,
                       dea__idx n) {
    for (dea__idx j = 0; j < n; j += DEA__LANES) {
        const dea__idx left = n - j;
        const dea__vec g = dea__load_some(g_ + j, left) * dea__splat(r->clip), x = dea__load_some(x_ + j, left);
        dea__vec m = dea__load_some(m_ + j, left), v = dea__load_some(v_ + j, left);
        m = dea__normal_or_zero(m + dea__splat(r->new_m) * (g - m));
        v = dea__normal_or_zero(v + (dea__splat(r->new_v) * g * g - dea__splat(r->new_v) * v));
        const dea__vec scale = dea__root(v) * dea__splat(r->widen) + dea__splat(r->eps);
        dea__store_some(x_ + j, x - (dea__splat(r->decay) * x + dea__splat(r->pace) * m / scale), left);
        dea__store_some(m_ + j, m, left);
        dea__store_some(v_ + j, v, left);
    }
}
#endif /* DEA__ISA */

#if defined(DEA__ONCE) && !defined(DEA__ISA)

/* ==== 5. The plain path ==============================================================================================
 * Attention as the equations have it, with maps of T x T: first what a call may be given (both paths share these checks),
 * then one head forward, one head backward. Written to be read; the fast path is measured against it. Row sums are taken in
 * double. */

DEA_API dea_attention dea_attention_init(int batch, int heads, int seq, int head_dim) {
    dea_attention a;
    memset(&a, 0, sizeof a);
    a.batch = batch;
    a.heads = heads;
    a.seq_q = a.seq_k = seq;
    a.head_dim = head_dim;
    a.threads = dea_threads_default();
    return a;
}

/* ---- what a call may be given */

/* One [B,H,T,d] tensor: where it starts and how far apart its rows are. */
typedef struct dea__view {
    const dea_real *data;
    dea_strides strides;
    int batch, heads, tokens, width;
} dea__view;

static dea__view dea__view_of(const dea_real *data, dea_strides strides, int batch, int heads, int tokens, int width) {
    dea__view view;
    view.data = data;
    view.batch = batch;
    view.heads = heads;
    view.tokens = tokens;
    view.width = width;
    view.strides = strides;
    if (strides.batch == 0 && strides.head == 0 && strides.token == 0) {
        view.strides.token = width;
        view.strides.head = (ptrdiff_t)tokens * width;
        view.strides.batch = (ptrdiff_t)heads * tokens * width;
    }
    return view;
}

static dea__view dea__q_view(const dea_attention *a, const dea_real *data) {
    return dea__view_of(data, a->q_strides, a->batch, a->heads, a->seq_q, a->head_dim);
}
static dea__view dea__k_view(const dea_attention *a, const dea_real *data) {
    return dea__view_of(data, a->k_strides, a->batch, a->heads, a->seq_k, a->head_dim);
}
static dea__view dea__v_view(const dea_attention *a, const dea_real *data) {
    return dea__view_of(data, a->v_strides, a->batch, a->heads, a->seq_k, a->head_dim);
}
static dea__view dea__o_view(const dea_attention *a, const dea_real *data) {
    return dea__view_of(data, a->o_strides, a->batch, a->heads, a->seq_q, a->head_dim);
}

/* Row 0 of one head. */
static ptrdiff_t dea__head_offset(const dea__view *view, int b, int h) {
    return b * view->strides.batch + h * view->strides.head;
}

/* Elements from the first to one past the last, or 0 if a stride is negative, axes do not nest or the span overflows. */
static size_t dea__span(const dea__view *view) {
    ptrdiff_t stride[3] = {view->strides.token, view->strides.head, view->strides.batch};
    ptrdiff_t extent[3] = {view->tokens, view->heads, view->batch};
    for (int i = 1; i < 3; i++) /* sort the three axes by stride */
        for (int j = i; j > 0 && stride[j] < stride[j - 1]; j--) {
            const ptrdiff_t s = stride[j], e = extent[j];
            stride[j] = stride[j - 1], extent[j] = extent[j - 1];
            stride[j - 1] = s, extent[j - 1] = e;
        }
    const size_t limit = (size_t)PTRDIFF_MAX / sizeof(dea_real);
    size_t span = (size_t)view->width;
    for (int i = 0; i < 3; i++) {
        if (extent[i] == 1) continue;
        if (stride[i] < 0 || (size_t)stride[i] < span) return 0;
        if ((size_t)stride[i] > (limit - span) / (size_t)(extent[i] - 1)) return 0;
        span += (size_t)stride[i] * (size_t)(extent[i] - 1);
    }
    return span;
}

/* Whether two strided tensors whose ranges overlap truly share an element. Tensors that interleave, as in a fused
 * [B,T,3,H,d], have equal strides and do not; with different strides the answer is a cautious yes. */
static int dea__rows_collide(const dea__view *x, const dea__view *y) {
    const uintptr_t x0 = (uintptr_t)x->data, y0 = (uintptr_t)y->data;
    const dea_strides s = x->strides;
    if (s.batch != y->strides.batch || s.head != y->strides.head || s.token != y->strides.token || s.token <= 0)
        return 1;
    if (x->width != y->width || (x0 > y0 ? x0 - y0 : y0 - x0) % sizeof(dea_real)) return 1;
    const ptrdiff_t delta =
        x0 > y0 ? (ptrdiff_t)((x0 - y0) / sizeof(dea_real)) : -(ptrdiff_t)((y0 - x0) / sizeof(dea_real));
    const int batch = x->batch > y->batch ? x->batch : y->batch, heads = x->heads > y->heads ? x->heads : y->heads;
    const int tokens = x->tokens > y->tokens ? x->tokens : y->tokens;
    for (int b = 1 - batch; b < batch; b++)
        for (int h = 1 - heads; h < heads; h++) {
            const ptrdiff_t rest = delta - b * s.batch - h * s.head;
            ptrdiff_t t = rest / s.token; /* the nearest token distances on either side */
            for (ptrdiff_t near = t - 1; near <= t + 1; near++) {
                const ptrdiff_t gap = rest - near * s.token;
                if (near > -tokens && near < tokens && gap > -x->width && gap < x->width) return 1;
            }
        }
    return 0;
}

/* The memory of one call's arguments, to be checked for sharing. Inputs may share with inputs. */
typedef struct dea__extent {
    uintptr_t begin, end; /* bytes */
    int is_output, strided;
    dea__view view; /* if strided */
} dea__extent;

typedef struct dea__tensors {
    dea__extent of[40];
    int count;
} dea__tensors;

static dea__extent *dea__add_flat(dea__tensors *tensors, const void *data, size_t bytes, int is_output) {
    dea__extent *extent = &tensors->of[tensors->count];
    if (!data) return NULL;
    memset(extent, 0, sizeof *extent);
    extent->begin = (uintptr_t)data;
    extent->end = extent->begin + bytes;
    extent->is_output = is_output;
    tensors->count++;
    return extent;
}

static void dea__add_view(dea__tensors *tensors, dea__view view, int is_output) {
    dea__extent *extent = dea__add_flat(tensors, view.data, dea__span(&view) * sizeof(dea_real), is_output);
    if (!extent) return;
    extent->strided = 1;
    extent->view = view;
}

static int dea__collide(const dea__extent *x, const dea__extent *y) {
    if (x->end <= y->begin || y->end <= x->begin) return 0;
    return !x->strided || !y->strided || dea__rows_collide(&x->view, &y->view);
}

static dea_status dea__check_alias(const dea__tensors *tensors) {
    for (int i = 0; i < tensors->count; i++)
        for (int j = 0; j < i; j++)
            if ((tensors->of[i].is_output || tensors->of[j].is_output) &&
                dea__collide(&tensors->of[i], &tensors->of[j]))
                return DEA_ERR_ALIAS;
    return DEA_OK;
}

static int dea__alpha_valid(dea_real alpha) {
    return alpha >= 0 && alpha <= DEA__REAL(DEA_ALPHA_MAX);
}

static dea_status dea__check_blocks(const dea_attention *a) {
    const dea_label_block *blocks = a->label_blocks;
    int sorted = 1;
    for (size_t i = 0; i < a->label_block_count; i++) {
        const dea_label_block *x = &blocks[i];
        if (x->batch < 0 || x->batch >= a->batch || x->q_begin < 0 || x->q_begin >= x->q_end || x->q_end > a->seq_q ||
            x->k_begin < 0 || x->k_begin >= x->k_end || x->k_end > a->seq_k)
            return DEA_ERR_BLOCK;
        if (!dea__alpha_valid(x->alpha)) return DEA_ERR_LABEL;
        if (i && x->batch < blocks[i - 1].batch) sorted = 0;
    }
    for (size_t i = 0; i < a->label_block_count; i++)
        for (size_t j = i + 1; j < a->label_block_count; j++) {
            const dea_label_block *x = &blocks[i], *y = &blocks[j];
            if (x->batch != y->batch) {
                if (sorted) break; /* no later block is of this batch row */
                continue;
            }
            if (x->q_begin < y->q_end && y->q_begin < x->q_end && x->k_begin < y->k_end && y->k_begin < x->k_end)
                return DEA_ERR_BLOCK_OVERLAP;
        }
    return DEA_OK;
}

/* Shapes and scalar options: all that a workspace size depends on. */
static dea_status dea__check_shape(const dea_attention *a) {
    if (!a) return DEA_ERR_NULL;
    if (a->batch <= 0 || a->heads <= 0 || a->seq_q <= 0 || a->seq_k <= 0 || a->head_dim <= 0) return DEA_ERR_SHAPE;
    if (a->threads.count < 1) return DEA_ERR_SHAPE;
    if (a->head_dim > (INT32_MAX - 3) / 2 || (int64_t)a->batch * a->heads > INT32_MAX) return DEA_ERR_OVERFLOW;
    const ptrdiff_t widest = a->seq_q > a->seq_k ? a->seq_q : a->seq_k;
    if (!dea__count(a->batch, a->heads, widest, a->head_dim) || !dea__count(a->heads, a->head_dim, a->head_dim, 2) ||
        !dea__count(a->batch, a->heads, DEA_SAVED_FLOATS, a->seq_q))
        return DEA_ERR_OVERFLOW;
    if ((int)a->path < DEA_PATH_AUTO || a->path > DEA_PATH_FAST || (int)a->isa < DEA_ISA_AUTO ||
        a->isa > DEA_ISA_AVX512)
        return DEA_ERR_OPTION;
    if (a->labels && a->label_blocks) return DEA_ERR_OPTION;
    const dea_maps *maps = &a->maps;
    const int any_map = maps->et0 || maps->et1 || maps->alpha_hat || maps->alpha_mix || maps->s || maps->a;
    if (any_map && a->path == DEA_PATH_FAST) return DEA_ERR_OPTION;
    if ((any_map || a->labels) && !dea__count((ptrdiff_t)a->batch * a->heads, a->seq_q, a->seq_k, 1))
        return DEA_ERR_OVERFLOW;
    return DEA_OK;
}

/* Everything else that does not depend on the call: strides, lengths, labels, numbers. */
static dea_status dea__check_attention(const dea_attention *a, int needs_v) {
    const dea_status shape = dea__check_shape(a);
    if (shape != DEA_OK) return shape;
    if (!a->q || !a->k || (needs_v && !a->v) || !a->w_rel || !a->w_gate || !a->c_gate) return DEA_ERR_NULL;
    if (a->label_block_count && !a->label_blocks) return DEA_ERR_NULL;
    const dea__view views[4] = {dea__q_view(a, a->q), dea__k_view(a, a->k), dea__v_view(a, a->v), dea__o_view(a, NULL)};
    for (int i = 0; i < 4; i++)
        if (!dea__span(&views[i])) return DEA_ERR_STRIDE;
    for (int b = 0; a->key_lengths && b < a->batch; b++)
        if (a->key_lengths[b] < 0 || a->key_lengths[b] > a->seq_k) return DEA_ERR_KEY_LENGTH;
    if (!(a->gamma >= 0 && a->gamma <= 1)) return DEA_ERR_GAMMA;
    if (!(a->dropout >= 0 && a->dropout < 1)) return DEA_ERR_DROPOUT;
    for (int h = 0; a->temperature && h < a->heads; h++)
        if (!(a->temperature[h] >= DEA__REAL(DEA_TEMPERATURE_MIN)) || !dea__finite((double)a->temperature[h]))
            return DEA_ERR_TEMPERATURE;
    if (a->labels) {
        const size_t cells = (size_t)a->batch * (size_t)a->seq_q * (size_t)a->seq_k;
        for (size_t i = 0; i < cells; i++)
            if (a->labels[i] == a->labels[i] && !dea__alpha_valid(a->labels[i])) return DEA_ERR_LABEL;
    }
    return dea__check_blocks(a);
}

static void dea__add_inputs(dea__tensors *tensors, const dea_attention *a) {
    const size_t real = sizeof(dea_real), h = (size_t)a->heads, d = (size_t)a->head_dim;
    dea__add_view(tensors, dea__q_view(a, a->q), 0);
    dea__add_view(tensors, dea__k_view(a, a->k), 0);
    dea__add_view(tensors, dea__v_view(a, a->v), 0);
    dea__add_flat(tensors, a->w_rel, h * d * d * real, 0);
    dea__add_flat(tensors, a->w_gate, h * (2 * d + 2) * real, 0);
    dea__add_flat(tensors, a->c_gate, h * real, 0);
    dea__add_flat(tensors, a->temperature, h * real, 0);
    dea__add_flat(tensors, a->labels, (size_t)a->batch * (size_t)a->seq_q * (size_t)a->seq_k * real, 0);
    dea__add_flat(tensors, a->key_lengths, (size_t)a->batch * sizeof *a->key_lengths, 0);
    dea__add_flat(tensors, a->label_blocks, a->label_block_count * sizeof *a->label_blocks, 0);
}

static void dea__add_gradients(dea__tensors *tensors, const dea_attention *a, const dea_gradients *g) {
    const size_t real = sizeof(dea_real), h = (size_t)a->heads, d = (size_t)a->head_dim;
    dea__add_view(tensors, dea__q_view(a, g->dq), 1);
    dea__add_view(tensors, dea__k_view(a, g->dk), 1);
    dea__add_view(tensors, dea__v_view(a, g->dv), 1);
    dea__add_flat(tensors, g->dw_rel, h * d * d * real, 1);
    dea__add_flat(tensors, g->dtemperature, h * real, 1);
    dea__add_flat(tensors, g->dw_gate, h * (2 * d + 2) * real, 1);
    dea__add_flat(tensors, g->dc_gate, h * real, 1);
}

DEA_API size_t dea_saved_count(const dea_attention *a) {
    if (dea__check_shape(a) != DEA_OK) return 0;
    return (size_t)a->batch * (size_t)a->heads * DEA_SAVED_FLOATS * (size_t)a->seq_q;
}

/* ---- the scratch of one worker */
typedef struct dea__plain {
    dea_real *q, *u, *d_o;                /* [Tq,d]: u = W_rel q - kbar */
    dea_real *k, *v;                      /* [Tk,d]: keys centred */
    dea_real *kbar;                       /* [d] */
    dea_real *et0, *et1, *mix, *p, *grad; /* [Tq,Tk] */
    dea_real *du, *dq, *dk;               /* [Tq,d], [Tq,d], [Tk,d] */
    double *sigma0, *sigma1;              /* [Tq] */
    double *gate_k, *sums;                /* [Tk]: w_k.k_j; sums over a column or a key's norm */
    dea_real *labels;                     /* [Tk] */
} dea__plain;

static void dea__plain_layout(dea__plain *w, dea__arena *arena, const dea_attention *a) {
    const size_t tq = (size_t)a->seq_q, tk = (size_t)a->seq_k, d = (size_t)a->head_dim;
    const size_t map = dea__count(a->seq_q, a->seq_k, 1, 1);
    if (!map) arena->failed = 1;
    w->q = dea__take_reals(arena, tq * d);
    w->u = dea__take_reals(arena, tq * d);
    w->d_o = dea__take_reals(arena, tq * d);
    w->k = dea__take_reals(arena, tk * d);
    w->v = dea__take_reals(arena, tk * d);
    w->kbar = dea__take_reals(arena, d);
    w->et0 = dea__take_reals(arena, map);
    w->et1 = dea__take_reals(arena, map);
    w->mix = dea__take_reals(arena, map);
    w->p = dea__take_reals(arena, map);
    w->grad = dea__take_reals(arena, map);
    w->du = dea__take_reals(arena, tq * d);
    w->dq = dea__take_reals(arena, tq * d);
    w->dk = dea__take_reals(arena, tk * d);
    w->sigma0 = dea__take_doubles(arena, tq);
    w->sigma1 = dea__take_doubles(arena, tq);
    w->gate_k = dea__take_doubles(arena, tk);
    w->sums = dea__take_doubles(arena, tk);
    w->labels = dea__take_reals(arena, tk);
}

static int dea__keys(const dea_attention *a, int b) {
    return a->key_lengths ? a->key_lengths[b] : a->seq_k;
}

/* n_i: how many keys query i sees, always the first ones. */
static int dea__visible(const dea_attention *a, int b, int i) {
    const int keys = dea__keys(a, b);
    return a->causal && i + 1 < keys ? i + 1 : keys;
}

static void dea__gather(const dea__view *view, int b, int h, int rows, dea_real *to) {
    const dea_real *from = view->data + dea__head_offset(view, b, h);
    for (int t = 0; t < rows; t++)
        memcpy(to + (size_t)t * (size_t)view->width, from + t * view->strides.token, (size_t)view->width * sizeof *to);
}

static void dea__scatter(const dea__view *view, int b, int h, int rows, const dea_real *from, dea_real *data) {
    dea_real *to = data + dea__head_offset(view, b, h);
    for (int t = 0; t < rows; t++)
        memcpy(to + t * view->strides.token, from + (size_t)t * (size_t)view->width, (size_t)view->width * sizeof *to);
}

/* Y [Tq,d] = P X, row i over its own keys only. Causal rows go one by one: a zero weight times the NaN of a key that the row
 * does not see would be NaN. */
static void dea__rows_times(const dea_attention *a, int b, const dea_real *p, const dea_real *x, double scale,
                            dea_real *y) {
    const int d = a->head_dim, tk = a->seq_k;
    if (!a->causal) {
        dea__blas_gemm(0, 0, a->seq_q, d, dea__keys(a, b), scale, p, tk, x, d, 0, y, d, NULL);
        return;
    }
    for (int i = 0; i < a->seq_q; i++)
        dea__blas_gemm(0, 0, 1, d, dea__visible(a, b, i), scale, p + (size_t)i * (size_t)tk, tk, x, d, 0,
                       y + (size_t)i * (size_t)d, d, NULL);
}

/* Y [n,d] = P^T X + beta Y: key j gathers from the queries that see it. */
static void dea__columns_times(const dea_attention *a, int b, const dea_real *p, const dea_real *x, double scale,
                               double beta, dea_real *y) {
    const int d = a->head_dim, tk = a->seq_k, keys = dea__keys(a, b);
    if (!a->causal) {
        dea__blas_gemm(1, 0, keys, d, a->seq_q, scale, p, tk, x, d, beta, y, d, NULL);
        return;
    }
    if (beta == 0) memset(y, 0, (size_t)keys * (size_t)d * sizeof *y);
    for (int i = 0; i < a->seq_q; i++)
        dea__blas_gemm(1, 0, dea__visible(a, b, i), d, 1, scale, p + (size_t)i * (size_t)tk, tk,
                       x + (size_t)i * (size_t)d, d, 1, y, d, NULL);
}

/* ---- one head, forward */

/* (3) in place on the n keys a query sees; what it does not see becomes 0. Returns sigma. */
static double dea__normalise(dea_real *e, int n, int width) {
    double mean = 0, variance = 0;
    for (int j = 0; j < n; j++) mean += (double)e[j];
    mean /= n > 0 ? n : 1;
    for (int j = 0; j < n; j++) variance += ((double)e[j] - mean) * ((double)e[j] - mean);
    const double sigma = sqrt(variance / (n > 0 ? n : 1));
    for (int j = 0; j < n; j++) e[j] = DEA__REAL(((double)e[j] - mean) / (sigma + DEA_SIGMA_EPS));
    for (int j = n; j < width; j++) e[j] = 0;
    return sigma;
}

/* Subtracts the mean of the first `over` keys. Both energies change by a constant a row, which (3) removes; without it float
 * cancels badly and equal keys would not come out equal. Two passes: the second takes away the rounding of the first mean.
 * kbar is the sum of what was subtracted. Every row must see these keys: with a causal mask over = 1, since no row may feel
 * later ones. */
static void dea__centre(dea_real *k, int keys, int over, int d, dea_real *kbar) {
    memset(kbar, 0, (size_t)d * sizeof *kbar);
    for (int pass = 0; pass < 2; pass++)
        for (int c = 0; c < d; c++) {
            double sum = 0;
            for (int j = 0; j < over; j++) sum += (double)k[(size_t)j * (size_t)d + (size_t)c];
            const dea_real mean = DEA__REAL(over > 0 ? sum / over : 0);
            kbar[c] += mean;
            for (int j = 0; j < keys; j++) k[(size_t)j * (size_t)d + (size_t)c] -= mean;
        }
}

/* (1)-(3): fills q, k (centred), kbar, u (= W_rel q - kbar), et0, et1, sigma0, sigma1. */
static void dea__plain_energies(const dea_attention *a, int b, int h, dea__plain *w) {
    const int d = a->head_dim, tq = a->seq_q, tk = a->seq_k, keys = dea__keys(a, b);
    const dea__view q = dea__q_view(a, a->q), k = dea__k_view(a, a->k);
    dea__gather(&q, b, h, tq, w->q);
    dea__gather(&k, b, h, keys, w->k);
    dea__centre(w->k, keys, a->causal && keys > 1 ? 1 : keys, d, w->kbar);
    dea__blas_gemm(0, 1, tq, d, d, 1, w->q, d, a->w_rel + (size_t)h * (size_t)d * (size_t)d, d, 0, w->u, d, NULL);
    for (int i = 0; i < tq; i++)
        for (int c = 0; c < d; c++) w->u[(size_t)i * (size_t)d + (size_t)c] -= w->kbar[c];
    dea__blas_gemm(0, 1, tq, keys, d, 1 / sqrt((double)d), w->q, d, w->k, d, 0, w->et0, tk, NULL);
    dea__blas_gemm(0, 1, tq, keys, d, 2.0 / d, w->u, d, w->k, d, 0, w->et1, tk, NULL);
    for (int j = 0; j < keys; j++) {
        const dea_real *key = w->k + (size_t)j * (size_t)d;
        w->sums[j] = dea__dot(key, key, d) / d;
    }
    for (int i = 0; i < tq; i++) {
        dea_real *e0 = w->et0 + (size_t)i * (size_t)tk, *e1 = w->et1 + (size_t)i * (size_t)tk;
        const int n = dea__visible(a, b, i);
        for (int j = 0; j < n; j++) e1[j] = DEA__REAL((double)e1[j] - w->sums[j]);
        w->sigma0[i] = dea__normalise(e0, n, tk);
        w->sigma1[i] = dea__normalise(e1, n, tk);
    }
}

/* Fills gate_k: w_k.k_j for the head's keys as given, not centred. */
static void dea__gate_keys(const dea_attention *a, int b, int h, double *gate_k) {
    const int d = a->head_dim;
    const dea__view k = dea__k_view(a, a->k);
    const dea_real *w_k = a->w_gate + (size_t)h * (size_t)(2 * d + 2) + (size_t)d;
    const dea_real *keys = a->k + dea__head_offset(&k, b, h);
    for (int j = 0; j < dea__keys(a, b); j++) gate_k[j] = dea__dot(w_k, keys + j * k.strides.token, d);
}

/* z of (6) before the clip, for one cell; gate_q = w_q.q_i + c. */
static double dea__gate_logit(const dea_attention *a, int h, double gate_q, double gate_k, dea_real et0, dea_real et1) {
    const dea_real *w = a->w_gate + (size_t)h * (size_t)(2 * a->head_dim + 2) + 2 * (size_t)a->head_dim;
    return gate_q + gate_k + (double)w[0] * (double)et0 + (double)w[1] * (double)et1;
}

static double dea__gate_query(const dea_attention *a, int h, const dea_real *q) {
    return dea__dot(a->w_gate + (size_t)h * (size_t)(2 * a->head_dim + 2), q, a->head_dim) + (double)a->c_gate[h];
}

/* sigmoid(clip(z, -10, 10)) of (6), before the minimum with 0.95. NaN stays NaN. */
static double dea__gate_sigmoid(double z) {
    return dea__sigmoid(z > 10 ? 10 : z < -10 ? -10 : z);
}

static double dea__alpha_hat(double z) { /* (6) */
    const double alpha = dea__gate_sigmoid(z);
    return alpha > DEA_ALPHA_MAX ? DEA_ALPHA_MAX : alpha;
}

static int dea__has_labels(const dea_attention *a) {
    return a->labels || a->label_block_count;
}

/* Alpha labels of one query over all keys, NaN where there is none. */
static void dea__label_row(const dea_attention *a, int b, int i, dea_real *row) {
    if (a->labels) {
        memcpy(row, a->labels + ((size_t)b * (size_t)a->seq_q + (size_t)i) * (size_t)a->seq_k,
               (size_t)a->seq_k * sizeof *row);
        return;
    }
    for (int j = 0; j < a->seq_k; j++) row[j] = DEA__REAL(NAN);
    for (size_t n = 0; n < a->label_block_count; n++) {
        const dea_label_block *block = &a->label_blocks[n];
        if (block->batch != b || i < block->q_begin || i >= block->q_end) continue;
        for (int j = block->k_begin; j < block->k_end; j++) row[j] = block->alpha;
    }
}

/* (6), (14): fills mix from et0, et1; alpha_hat too if not NULL. */
static void dea__plain_mix(const dea_attention *a, int b, int h, dea__plain *w, dea_real *alpha_hat) {
    const int tk = a->seq_k;
    dea__gate_keys(a, b, h, w->gate_k);
    for (int i = 0; i < a->seq_q; i++) {
        const size_t row = (size_t)i * (size_t)tk;
        const int n = dea__visible(a, b, i);
        const double gate_q = dea__gate_query(a, h, w->q + (size_t)i * (size_t)a->head_dim);
        if (dea__has_labels(a)) dea__label_row(a, b, i, w->labels);
        for (int j = 0; j < tk; j++) {
            double mix = 0;
            if (j < n) {
                const size_t cell = row + (size_t)j;
                mix = dea__alpha_hat(dea__gate_logit(a, h, gate_q, w->gate_k[j], w->et0[cell], w->et1[cell]));
            }
            if (alpha_hat) alpha_hat[row + (size_t)j] = DEA__REAL(mix);
            if (j < n && dea__has_labels(a) && w->labels[j] == w->labels[j])
                mix = (double)a->gamma * (double)w->labels[j] + (1 - (double)a->gamma) * mix;
            w->mix[row + (size_t)j] = DEA__REAL(mix);
        }
    }
}

static double dea__temperature(const dea_attention *a, int h) {
    return a->temperature ? (double)a->temperature[h] : 1;
}

/* (14') without t: the mixed score of one cell. */
static double dea__bracket(const dea__plain *w, size_t cell) {
    return (1 - (double)w->mix[cell]) * (double)w->et0[cell] + (double)w->mix[cell] * (double)w->et1[cell];
}

/* What the dropout mask of query row i multiplies weight j by: 0 or 1/(1-p). */
static double dea__keep(const dea_attention *a, dea__row_key key, int j) {
    if (a->dropout == 0) return 1;
    return dea__dropout_bits(key, (uint32_t)j) >= dea__dropout_threshold((double)a->dropout)
               ? 1 / (1 - (double)a->dropout)
               : 0;
}

static dea__row_key dea__attention_row_key(const dea_attention *a, int b, int h, int i) {
    const uint64_t head = (uint64_t)b * (uint64_t)a->heads + (uint64_t)h;
    return dea__dropout_row(a->seed, a->step, head * (uint64_t)a->seq_q + (uint64_t)i);
}

static dea_real *dea__saved_row(const dea_attention *a, int b, int h, dea_real *saved) {
    return saved + ((size_t)b * (size_t)a->heads + (size_t)h) * DEA_SAVED_FLOATS * (size_t)a->seq_q;
}

static dea_real *dea__map_of(const dea_attention *a, int b, int h, dea_real *map) {
    return map ? map + ((size_t)b * (size_t)a->heads + (size_t)h) * (size_t)a->seq_q * (size_t)a->seq_k : NULL;
}

typedef struct dea__plain_call {
    const dea_attention *a;
    const dea_real *o, *saved_in, *d_o;
    dea_real *out, *saved;
    const dea_gradients *gradients;
    char *workspace;
    size_t worker_bytes;
} dea__plain_call;

static void dea__plain_worker(const dea__plain_call *call, int worker, dea__plain *w) {
    dea__arena arena = {call->workspace + (size_t)worker * call->worker_bytes, 0, 0};
    dea__plain_layout(w, &arena, call->a);
}

static void dea__plain_forward_head(void *context, int job, int worker) {
    const dea__plain_call *call = (const dea__plain_call *)context;
    const dea_attention *a = call->a;
    const int b = job / a->heads, h = job % a->heads, d = a->head_dim, tq = a->seq_q, tk = a->seq_k;
    const size_t map = (size_t)tq * (size_t)tk;
    dea__plain scratch, *w = &scratch;
    dea__plain_worker(call, worker, w);
    dea__plain_energies(a, b, h, w);
    dea__plain_mix(a, b, h, w, dea__map_of(a, b, h, a->maps.alpha_hat));
    dea_real *saved = call->saved ? dea__saved_row(a, b, h, call->saved) : NULL;
    dea_real *map_s = dea__map_of(a, b, h, a->maps.s), *map_a = dea__map_of(a, b, h, a->maps.a);
    const double t = dea__temperature(a, h);
    for (int i = 0; i < tq; i++) {
        const size_t row = (size_t)i * (size_t)tk;
        const int n = dea__visible(a, b, i);
        const dea__row_key key = dea__attention_row_key(a, b, h, i);
        double shift = 0, sum = 0;
        for (int j = 0; j < n; j++) {
            const double s = t * dea__bracket(w, row + (size_t)j);
            w->grad[row + (size_t)j] = DEA__REAL(s);
            if (j == 0 || s > shift) shift = s;
        }
        shift = (double)DEA__REAL(shift);
        for (int j = 0; j < n; j++) sum += exp((double)w->grad[row + (size_t)j] - shift);
        for (int j = 0; j < tk; j++) {
            const double s = j < n ? (double)w->grad[row + (size_t)j] : 0;
            const double weight = j < n ? exp(s - shift) / sum : 0;
            if (map_s) map_s[row + (size_t)j] = DEA__REAL(s);
            if (map_a) map_a[row + (size_t)j] = DEA__REAL(weight);
            w->p[row + (size_t)j] = DEA__REAL(weight * dea__keep(a, key, j));
        }
        if (saved) {
            saved[i] = DEA__REAL(w->sigma0[i]);
            saved[tq + i] = DEA__REAL(w->sigma1[i]);
            saved[2 * tq + i] = DEA__REAL(shift);
            saved[3 * tq + i] = DEA__REAL(sum);
        }
    }
    if (a->maps.et0) memcpy(dea__map_of(a, b, h, a->maps.et0), w->et0, map * sizeof(dea_real));
    if (a->maps.et1) memcpy(dea__map_of(a, b, h, a->maps.et1), w->et1, map * sizeof(dea_real));
    if (a->maps.alpha_mix) memcpy(dea__map_of(a, b, h, a->maps.alpha_mix), w->mix, map * sizeof(dea_real));
    const dea__view v = dea__v_view(a, a->v), o = dea__o_view(a, call->out);
    dea__gather(&v, b, h, dea__keys(a, b), w->v);
    dea__rows_times(a, b, w->p, w->v, 1, w->u); /* O = A V; u is free by now */
    dea__scatter(&o, b, h, tq, w->u, call->out);
    (void)d;
}

/* ---- one head, backward */

/* Backward of dea__normalise, in place over the n keys a query sees, with s = sigma + 1e-5:
 *     dE_j = (dEt_j - mean dEt - Et_j mean(dEt o Et) s/sigma) / s, second term 0 where sigma = 0.
 * Et s/sigma has unit variance, so this is dEt with its parts along 1 and along Et projected off, plus a share 1e-5/s of the
 * latter. Two keys leave nothing but that share: the projection is done twice, since the rounding of the first pass would
 * drown it. */
static void dea__normalise_backward(const dea_real *et, dea_real *grad, int n, double sigma) {
    const double s = sigma + DEA_SIGMA_EPS, unit = sigma == 0 ? 0 : s / sigma;
    double along = 0;
    for (int pass = 0; pass < 2; pass++) {
        double mean = 0, product = 0;
        for (int j = 0; j < n; j++) mean += (double)grad[j] / n;
        for (int j = 0; j < n; j++) product += ((double)grad[j] - mean) * (double)et[j] * unit / n;
        for (int j = 0; j < n; j++) grad[j] = DEA__REAL((double)grad[j] - mean - product * unit * (double)et[j]);
        along += product;
    }
    for (int j = 0; j < n; j++)
        grad[j] = DEA__REAL(((double)grad[j] + along * unit * (double)et[j] * (DEA_SIGMA_EPS / s)) / s);
}

static void dea__plain_backward_batch(const dea__plain_call *call, int b, int h, dea__plain *w) {
    const dea_attention *a = call->a;
    const dea_gradients *g = call->gradients;
    const int d = a->head_dim, tq = a->seq_q, tk = a->seq_k, keys = dea__keys(a, b);
    dea__plain_energies(a, b, h, w);
    dea__plain_mix(a, b, h, w, NULL);
    const dea__view v = dea__v_view(a, a->v), o = dea__o_view(a, call->d_o);
    dea__gather(&v, b, h, keys, w->v);
    dea__gather(&o, b, h, tq, w->d_o);
    dea__blas_gemm(0, 1, tq, keys, d, 1, w->d_o, d, w->v, d, 0, w->grad, tk, NULL); /* dA = dO V^T */
    const dea_real *saved = dea__saved_row(a, b, h, (dea_real *)(uintptr_t)call->saved_in);
    const double t = dea__temperature(a, h);
    double d_temperature = 0;
    for (int i = 0; i < tq; i++) {
        const size_t row = (size_t)i * (size_t)tk;
        const int n = dea__visible(a, b, i);
        const dea__row_key key = dea__attention_row_key(a, b, h, i);
        const double shift = (double)saved[2 * tq + i], sum = (double)saved[3 * tq + i];
        double delta = 0;
        for (int j = 0; j < n; j++) { /* forward: A = exp(S - shift)/sum, then the dropout mask */
            const double score = (double)DEA__REAL(t * dea__bracket(w, row + (size_t)j)); /* rounded as there */
            const double weight = exp(score - shift) / sum;
            const double d_weight = (double)w->grad[row + (size_t)j] * dea__keep(a, key, j);
            w->p[row + (size_t)j] = DEA__REAL(weight);
            w->grad[row + (size_t)j] = DEA__REAL(d_weight);
            delta += weight * d_weight;
        }
        for (int j = 0; j < n; j++) { /* forward: S = t M, M = (1 - mix) Et0 + mix Et1 */
            const size_t cell = row + (size_t)j;
            const double ds = (double)w->p[cell] * ((double)w->grad[cell] - delta);
            d_temperature += ds * dea__bracket(w, cell);
            w->grad[cell] = DEA__REAL((1 - (double)w->mix[cell]) * t * ds);
            w->mix[cell] = DEA__REAL((double)w->mix[cell] * t * ds);
            w->p[cell] = DEA__REAL((double)w->p[cell] * dea__keep(a, key, j));
        }
        for (int j = n; j < tk; j++) w->p[row + (size_t)j] = w->grad[row + (size_t)j] = w->mix[row + (size_t)j] = 0;
        dea__normalise_backward(w->et0 + row, w->grad + row, n, w->sigma0[i]);
        dea__normalise_backward(w->et1 + row, w->mix + row, n, w->sigma1[i]);
    }
    dea_real *de0 = w->grad, *de1 = w->mix;
    if (g->dtemperature) g->dtemperature[h] += DEA__REAL(d_temperature);
    if (g->dv) { /* forward: O = A V */
        memset(w->v, 0, (size_t)tk * (size_t)d * sizeof *w->v);
        dea__columns_times(a, b, w->p, w->d_o, 1, 0, w->v);
        dea__scatter(&v, b, h, tk, w->v, g->dv);
    }
    /* forward: E0 = Q K^T/sqrt(d); E1 = (2/d) U K^T - |k|^2/d; U = Q W^T */
    dea__rows_times(a, b, de1, w->k, 2.0 / d, w->du);
    if (g->dq) {
        const dea__view q = dea__q_view(a, a->q);
        dea__rows_times(a, b, de0, w->k, 1 / sqrt((double)d), w->dq);
        dea__blas_gemm(0, 0, tq, d, d, 1, w->du, d, a->w_rel + (size_t)h * (size_t)d * (size_t)d, d, 1, w->dq, d, NULL);
        dea__scatter(&q, b, h, tq, w->dq, g->dq);
    }
    if (g->dw_rel)
        dea__blas_gemm(1, 0, d, d, tq, 1, w->du, d, w->q, d, 1, g->dw_rel + (size_t)h * (size_t)d * (size_t)d, d, NULL);
    if (g->dk) {
        const dea__view k = dea__k_view(a, a->k);
        memset(w->dk, 0, (size_t)tk * (size_t)d * sizeof *w->dk);
        dea__columns_times(a, b, de0, w->q, 1 / sqrt((double)d), 0, w->dk);
        dea__columns_times(a, b, de1, w->u, 2.0 / d, 1, w->dk);
        const int seen = a->causal && tq < keys ? tq : keys; /* keys beyond have no gradient, and may be NaN */
        for (int j = 0; j < seen; j++) {
            double column = 0; /* -k_j sum_i dE1_ij, over the queries that see key j */
            for (int i = a->causal ? j : 0; i < tq; i++) column += (double)de1[(size_t)i * (size_t)tk + (size_t)j];
            for (int c = 0; c < d; c++) {
                const size_t at = (size_t)j * (size_t)d + (size_t)c;
                w->dk[at] = DEA__REAL((double)w->dk[at] - 2.0 / d * column * (double)w->k[at]);
            }
        }
        dea__scatter(&k, b, h, tk, w->dk, g->dk);
    }
}

/* One job a head, batch rows in order, so that dw_rel and dtemperature are summed in a fixed order. */
static void dea__plain_backward_head(void *context, int job, int worker) {
    const dea__plain_call *call = (const dea__plain_call *)context;
    dea__plain scratch;
    dea__plain_worker(call, worker, &scratch);
    for (int b = 0; b < call->a->batch; b++) dea__plain_backward_batch(call, b, job, &scratch);
}

static size_t dea__plain_worker_bytes(const dea_attention *a) {
    dea__arena arena = {NULL, 0, 0};
    dea__plain scratch;
    dea__plain_layout(&scratch, &arena, a);
    return dea__arena_bytes(&arena);
}

/* worker_bytes times as many workers as have work; 0 on overflow. */
static size_t dea__for_workers(size_t worker_bytes, int workers, size_t jobs) {
    const size_t count = (size_t)workers < jobs ? (size_t)workers : jobs;
    return worker_bytes > (size_t)PTRDIFF_MAX / count ? 0 : worker_bytes * count;
}

static size_t dea__plain_workspace(const dea_attention *a) {
    return dea__for_workers(dea__plain_worker_bytes(a), a->threads.count, (size_t)a->batch * (size_t)a->heads);
}

/* ==== 6. The fast path ===============================================================================================
 * The same attention with nothing of size T x T: exact, forward and backward, in O(T d) memory, on the kernels of room 4.
 * Here only the passes, which are built for every instruction set; the calls that use them stand behind the gate loss.
 *
 * Keys are centred, so that every query's mean energy is 0 and E1 needs no |k|^2 per pair; scores carry the factor
 * L = DEA__LOG2_UNIT; rows are divided by their sums at the end. Up to DEA__PANEL_KEYS_* keys, and with a causal mask always, a
 * block of queries works on all its keys at once (a panel); beyond, keys stream, and what a row's means take away in the
 * backward pass, known only after its last key, is taken away afterwards, being of low rank.
 *
 * Accuracy in float, largest error over the root mean square of the exact array: about 5e-6 up to 512 keys, 2e-5 at 8192; one
 * far key among 8192 (z-scores near 90) 1e-4 in dq. With two keys the exact dq and dk nearly cancel: 4e-5 absolute.        */

/* ---- what the fast path's instances share */

/* One query row in the element passes. */
typedef struct dea__row {
    dea_real e0, e1;  /* what turns the energies of the maps into t L Et */
    dea_real s0, s1;  /* backward: t/(sigma + eps) */
    dea_real w0, w1;  /* gate weights of the energies of the maps, times -L */
    dea_real gate;    /* -L w_q.q */
    dea_real shift;   /* subtracted from the scores before exp, in natural units */
    dea_real absent;  /* backward: the value of dA - delta where dropout removed the weight, -delta */
    dea__row_key key; /* dropout */
    int bad;          /* causal: q (or d_o) of this row is not finite; the row is left out and its results are NaN */
} dea__row;

/* One call of the fast path. Tasks are numbered (head, group of batch rows, split of the queries); a sum over tasks is kept in
 * a partial sum a task and added up in order, so that no bit depends on the number of workers. */
typedef struct dea__fast {
    const dea_attention *a;
    dea_strides q, k, v, o;
    dea_real *out, *saved_out;              /* forward */
    const dea_real *out_in, *saved, *d_out; /* backward */
    dea_gradients gradients;
    const dea_gate *gate;
    struct dea__gate_sums *gate_sums; /* [tasks] */
    int groups, splits, workers;
    char *slices; /* one a worker */
    size_t slice_bytes;
    dea_real *partial_keys;       /* [B,H,splits-1,2,Tk,d]: dk and dv of splits 1.. */
    dea_real *partial_parameters; /* [tasks] of dw_rel, padded */
    double *partial_temperature;  /* [tasks] */
    void (*task)(const struct dea__fast *f, dea__idx task, char *slice);
    void (*add_columns)(const dea_real *x, dea__idx rows, dea__idx width, dea_real *out);
    dea__idx parameters; /* elements of one task's dw_rel */
} dea__fast;

/* What a worker will read next, brought into its second cache a few rows at a time while it works on something else: all at
 * once would only make it wait. */
typedef struct dea__ahead {
    const char *rows[4];
    dea__idx count[4], stride[4]; /* rows, and bytes from one to the next */
    int parts, part;
    dea__idx at, pace, bytes; /* next row of `part`, rows a step, bytes a row */
} dea__ahead;

static void dea__ahead_add(dea__ahead *ahead, const dea_real *rows, dea__idx count, dea__idx stride) {
    if (count <= 0) return;
    ahead->rows[ahead->parts] = (const char *)rows;
    ahead->count[ahead->parts] = count;
    ahead->stride[ahead->parts++] = stride * (dea__idx)sizeof(dea_real);
}

static void dea__ahead_step(dea__ahead *ahead) {
    for (dea__idx n = ahead->pace; n > 0 && ahead->part < ahead->parts; n--) {
        const char *row = ahead->rows[ahead->part] + ahead->at * ahead->stride[ahead->part];
        for (dea__idx e = 0; e < ahead->bytes; e += 64) DEA__FETCH(row + e);
        if (++ahead->at < ahead->count[ahead->part]) continue;
        ahead->at = 0;
        ahead->part++;
    }
}

/* Everything a pass keeps in its worker's slice. dp, np: head_dim and keys, padded. */
typedef struct dea__buffers {
    /* 1 + the number of the head whose keys and values a split packed, or 0. Only where a head has several splits does it come
     * again, and then a task is one batch row (dea__cut): what is packed is all that the next split needs. */
    dea__idx head;
    dea__ahead *ahead; /* NULL, or the input of the worker's next head */
    dea__idx d, dp, n, np, block;
    dea_real temperature, poison; /* poison: 0, or NaN where gate parameters or keys are not finite */
    int with_max;                 /* t sqrt(n) > MILD: a score might be too large for exp; see dea__mild, dea__wild */
    dea__idx queries;             /* rows before the first that sees a key that is not finite (causal), else all */
    dea__idx last_bad;            /* backward: the last row left out as not finite, or -1 */
    /* parameters of the head */
    const dea_real *w;               /* W_rel [dp][dp], the caller's own where it needs no padding */
    dea_real *padded, *wt, *wq, *wk; /* room for W_rel, its transpose [dp][dp], w_q and w_k [dp] */
    dea_real gate0, gate1, bias;
    /* keys: centred, as rows and interleaved; values likewise */
    dea_real *kc, *kt, *v, *vt;
    const dea_real *values; /* v, or the caller's own where it needs no padding */
    dea__idx values_row;
    dea_real *kbar, *krest; /* [dp] mean key, and what the first mean left over */
    dea_real *norm;         /* [np] -(|k - kbar|^2 - mean)/d */
    dea_real *gk;           /* [np] -L (w_k.k + c) */
    dea_real *keep;         /* [np] 1, 0 for padding */
    dea_real *minus_ones;   /* [BLOCK] */
    dea_real *ramp;         /* TILE ones, then TILE zeros: ramp + TILE - m masks all but m keys of a tile */
    /* a block of queries; energies of both experts are stacked, so are their queries */
    const dea_real *query; /* the unscaled queries, query_row apart: q, or the caller's own where they need no copy */
    dea__idx query_row;
    dea_real *q, *qu, *go, *dqu, *ob;
    dea_real *scale0, *scale1, *ones, *minus_delta, *sums, *gates;
    dea__row *rows;
    dea__idx *sees, *reach; /* keys a row sees; the same for its group of ROWS rows, rounded up */
    dea_real *u;            /* backward: U of a block, unscaled */
    dea_real *x, *y, *dmap, *p, *label;
    /* gradients */
    dea_real *dk, *dv, *column, *dw;
    double dt;
    /* streaming: covariance of the keys with themselves and with their norms; corrections */
    dea_real *cov, *cov_norm, *square, *qc, *m01, *a0, *a1, *b1, *row_sum, *rest;
    double *wide;
    dea_real var_norm, trace, longest, largest_norm; /* longest: of the centred keys; largest_norm: of |norm| */
    /* gate */
    dea_real *column_dense, *column_photo;
    int *list;
    size_t *blocks, block_count; /* the label blocks of this batch row */
} dea__buffers;

enum { DEA__FORWARD, DEA__BACKWARD, DEA__GATE };

/* What one instruction set brings. */
typedef struct dea__isa_table {
    size_t (*slice)(const dea_attention *a, int pass);
    dea__idx (*parameter_count)(const dea_attention *a);
    void (*forward)(const dea__fast *f, dea__idx task, char *slice);
    void (*backward)(const dea__fast *f, dea__idx task, char *slice);
    void (*gate)(const dea__fast *f, dea__idx task, char *slice);
    void (*gemm)(int transpose_a, int transpose_b, dea__idx m, dea__idx n, dea__idx k, dea_real alpha,
                 const dea_real *a, dea__idx lda, const dea_real *b, dea__idx ldb, dea_real beta, dea_real *c,
                 dea__idx ldc);
    void (*gelu)(const dea_real *x, dea_real *y, dea__idx n);
    void (*gelu_slope)(const dea_real *x, const dea_real *dy, dea_real *dx, dea__idx n);
    void (*norm_row)(const dea_real *x, const dea_real *gain, const dea_real *bias, dea_real *y, dea__idx n, double eps,
                     dea_real *mean, dea_real *scale);
    void (*norm_row_backward)(const dea_real *x, const dea_real *gain, const dea_real *dy, dea_real *dx, dea__idx n,
                              dea_real mean, dea_real scale);
    void (*norm_columns)(const dea_real *x, const dea_real *dy, const dea_real *mean, const dea_real *scale,
                         dea__idx rows, dea__idx width, dea_real *dgain);
    void (*add_columns)(const dea_real *x, dea__idx rows, dea__idx width, dea_real *out);
    void (*adamw)(const dea__adamw_rates *r, const dea_real *g, dea_real *x, dea_real *m, dea_real *v, dea__idx n);
} dea__isa_table;

/* The first of item n's when n are dealt to `parts`. */
static int dea__part(int n, int part, int parts) {
    return (int)((int64_t)n * part / parts);
}

/* The label blocks of batch row b. */
static void dea__list_blocks(const dea_attention *a, int b, dea__buffers *m) {
    m->block_count = 0;
    for (size_t i = 0; i < a->label_block_count; i++)
        if (a->label_blocks[i].batch == b) m->blocks[m->block_count++] = i;
}

/* The label of one cell, NaN for none. */
static double dea__label_of(const dea_attention *a, int b, dea__idx i, dea__idx j, const dea__buffers *m) {
    if (a->labels) return (double)a->labels[((dea__idx)b * a->seq_q + i) * a->seq_k + j];
    for (size_t e = 0; e < m->block_count; e++) {
        const dea_label_block *block = &a->label_blocks[m->blocks[e]];
        if (i >= block->q_begin && i < block->q_end && j >= block->k_begin && j < block->k_end)
            return (double)block->alpha;
    }
    return (double)NAN;
}

/* Whether any of the first n cells of a row has a label. */
static int dea__row_labelled(const dea_attention *a, int b, dea__idx i, dea__idx n, const dea__buffers *m) {
    if (a->labels) {
        const dea_real *row = a->labels + ((dea__idx)b * a->seq_q + i) * a->seq_k;
        for (dea__idx j = 0; j < n; j++)
            if (row[j] == row[j]) return 1;
        return 0;
    }
    for (size_t e = 0; e < m->block_count; e++) {
        const dea_label_block *block = &a->label_blocks[m->blocks[e]];
        if (i >= block->q_begin && i < block->q_end && block->k_begin < n) return 1;
    }
    return 0;
}

/* Where split `split` of one head leaves dk (which 0) or dv (1): split 0 with the caller, the others in partial sums. */
static dea_real *dea__key_output(const dea__fast *f, int which, int b, int h, int split, dea__idx *row) {
    const dea_attention *a = f->a;
    dea_real *out = which ? f->gradients.dv : f->gradients.dk;
    const dea_strides s = which ? f->v : f->k;
    *row = split ? a->head_dim : s.token;
    if (!out) return NULL;
    if (!split) return out + b * s.batch + h * s.head;
    const dea__idx part = (((dea__idx)b * a->heads + h) * (f->splits - 1) + split - 1) * 2 + which;
    return f->partial_keys + part * a->seq_k * a->head_dim;
}
#endif /* once */

#ifdef DEA__ISA
#define dea__weights            DEA__FN(dea__weights)
#define dea__weights_steps      DEA__FN(dea__weights_steps)
#define dea__gate_steps         DEA__FN(dea__gate_steps)
#define dea__mix_steps          DEA__FN(dea__mix_steps)
#define dea__cells              DEA__FN(dea__cells)
#define dea__kept               DEA__FN(dea__kept)
#define dea__mild               DEA__FN(dea__mild)
#define dea__scores_any         DEA__FN(dea__scores_any)
#define dea__scores_steps       DEA__FN(dea__scores_steps)
#define dea__shifted_steps      DEA__FN(dea__shifted_steps)
#define dea__weights_any        DEA__FN(dea__weights_any)
#define dea__slopes_steps       DEA__FN(dea__slopes_steps)
#define dea__slopes             DEA__FN(dea__slopes)
#define dea__slopes_any         DEA__FN(dea__slopes_any)
#define dea__project            DEA__FN(dea__project)
#define dea__pack_head          DEA__FN(dea__pack_head)
#define dea__pack_keys          DEA__FN(dea__pack_keys)
#define dea__column_means       DEA__FN(dea__column_means)
#define dea__query_gates        DEA__FN(dea__query_gates)
#define dea__forward_rows       DEA__FN(dea__forward_rows)
#define dea__pack_values        DEA__FN(dea__pack_values)
#define dea__multiply_reached   DEA__FN(dea__multiply_reached)
#define dea__energies           DEA__FN(dea__energies)
#define dea__value_products     DEA__FN(dea__value_products)
#define dea__rows_by_tile       DEA__FN(dea__rows_by_tile)
#define dea__keys_by_tile       DEA__FN(dea__keys_by_tile)
#define dea__centre_row         DEA__FN(dea__centre_row)
#define dea__load_block         DEA__FN(dea__load_block)
#define dea__scale_block        DEA__FN(dea__scale_block)
#define dea__label_tile         DEA__FN(dea__label_tile)
#define dea__weigh_tile         DEA__FN(dea__weigh_tile)
#define dea__differentiate_tile DEA__FN(dea__differentiate_tile)
#define dea__finish_row         DEA__FN(dea__finish_row)
#define dea__covariance         DEA__FN(dea__covariance)
#define dea__all_finite         DEA__FN(dea__all_finite)
#define dea__layout             DEA__FN(dea__layout)
#define dea__block_rows         DEA__FN(dea__block_rows)
#define dea__forward_panel      DEA__FN(dea__forward_panel)
#define dea__forward_block      DEA__FN(dea__forward_block)
#define dea__backward_block     DEA__FN(dea__backward_block)
#define dea__wild               DEA__FN(dea__wild)
#define dea__row_products       DEA__FN(dea__row_products)
#define dea__steep              DEA__FN(dea__steep)
#define dea__forward_stream     DEA__FN(dea__forward_stream)
#define dea__backward_panel     DEA__FN(dea__backward_panel)
#define dea__backward_stream    DEA__FN(dea__backward_stream)
#define dea__backward_rows      DEA__FN(dea__backward_rows)
#define dea__write_keys         DEA__FN(dea__write_keys)
#define dea__usable_keys        DEA__FN(dea__usable_keys)
#define dea__panel_keys         DEA__FN(dea__panel_keys)
#define dea__streams            DEA__FN(dea__streams)
#define dea__slice              DEA__FN(dea__slice)
#define dea__parameter_count    DEA__FN(dea__parameter_count)
#define dea__fill_row           DEA__FN(dea__fill_row)
#define dea__look_ahead         DEA__FN(dea__look_ahead)
#define dea__blank_rows         DEA__FN(dea__blank_rows)
#define dea__forward_task       DEA__FN(dea__forward_task)
#define dea__backward_task      DEA__FN(dea__backward_task)

/* ---- element passes: one row of a tile at a time, every operation over `step` vectors so that chains overlap.
 * Units: scores are t L S with L = DEA__LOG2_UNIT, so that the exponential is cheap; the gate works on -L z, so that
 * clip(z, -10, 10) and min(sigmoid, 0.95) are one clamp (sigmoid(z) <= 0.95 exactly when z <= ln 19). */

/* z = alpha-hat of the energies x, y (6), for `per` vectors of each of step/per rows, whose constants are w0, w1, gate */
DEA__INLINE void dea__gate_steps(const int step, const int per, const dea__vec *x, const dea__vec *y,
                                 const dea_real *gk, const dea__vec *w0, const dea__vec *w1, const dea__vec *gate,
                                 dea__vec *z) {
    DEA__EACH z[v] = dea__load(gk + v % per * DEA__LANES) + gate[v / per];
    DEA__EACH z[v] = z[v] + x[v] * w0[v / per];
    DEA__EACH z[v] = z[v] + y[v] * w1[v / per];
    DEA__EACH z[v] = dea__least(z[v], dea__splat((dea_real)10 * DEA__LOG2_UNIT));
    DEA__EACH z[v] = dea__largest(z[v], dea__splat((dea_real)-2.94443897916644046 * DEA__LOG2_UNIT));
    dea__exp2s(step, z);
    DEA__EACH z[v] = dea__inverse(z[v] + dea__splat(1));
}

/* (14): z moves by gamma towards the label where there is one */
DEA__INLINE void dea__mix_steps(const int step, const dea_real *label_, dea__vec gamma, dea__vec *z) {
    DEA__EACH {
        const dea__vec label = dea__load(label_ + v * DEA__LANES);
        z[v] = dea__pick((dea__ints)(label == label), z[v] + gamma * (label - z[v]), z[v]);
    }
}

/* weights p = exp(S) of raw energies x, y, two rows side by side; sums [2][LANES] += those of real keys, lane by lane. Where a
 * row's keep is 0 stands padding, which has p != 0, but its value is 0; or with `masked` a key that the row does not see,
 * whose score may be anything: its p is 0. */
DEA__INLINE void dea__weights_steps(const int per, const int masked, const dea_real *x_, const dea_real *y_,
                                    dea_real *p, const dea_real *gk, const dea_real *const *keep, dea__idx from,
                                    dea__idx to, const dea__row *row, dea__vec *sums) {
#define DEA__AT (v / per * DEA__TILE + j + v % per * DEA__LANES)
    const int step = 2 * per;
    const dea__vec s0[2] = {dea__splat(row[0].e0), dea__splat(row[1].e0)},
                   s1[2] = {dea__splat(row[0].e1), dea__splat(row[1].e1)},
                   w0[2] = {dea__splat(row[0].w0), dea__splat(row[1].w0)},
                   w1[2] = {dea__splat(row[0].w1), dea__splat(row[1].w1)},
                   gate[2] = {dea__splat(row[0].gate), dea__splat(row[1].gate)};
    for (dea__idx j = from; j < to; j += per * DEA__LANES) {
        dea__vec x[DEA__STEP], y[DEA__STEP], z[DEA__STEP];
        DEA__EACH x[v] = dea__load(x_ + DEA__AT);
        DEA__EACH y[v] = dea__load(y_ + DEA__AT);
        dea__gate_steps(step, per, x, y, gk + j, w0, w1, gate, z);
        DEA__EACH x[v] = x[v] * s0[v / per];
        DEA__EACH y[v] = y[v] * s1[v / per] - x[v];
        DEA__EACH x[v] = x[v] + z[v] * y[v];
        if (masked) {
            DEA__EACH x[v] = dea__pick((dea__ints)(dea__load(keep[v / per] + j + v % per * DEA__LANES) > dea__splat(0)),
                                       x[v], dea__splat(DEA__EXP_LOW));
        }
        dea__exp2s(step, x);
        if (masked) {
            DEA__EACH x[v] = x[v] * dea__load(keep[v / per] + j + v % per * DEA__LANES);
            DEA__EACH sums[v / per] += x[v];
        } else {
            DEA__EACH sums[v / per] += x[v] * dea__load(keep[0] + j + v % per * DEA__LANES);
        }
        DEA__EACH dea__store(p + DEA__AT, x[v]);
    }
#undef DEA__AT
}
static DEA__NOINLINE void dea__weights(int masked, const dea_real *x, const dea_real *y, dea_real *p,
                                       const dea_real *gk, const dea_real *const *keep, dea__idx n, const dea__row *row,
                                       dea_real *sum) {
    const dea__idx most = n - n % (DEA__HALF_STEP * DEA__LANES);
    dea__vec sums[2] = {dea__load(sum), dea__load(sum + DEA__LANES)};
    if (masked) {
        dea__weights_steps(DEA__HALF_STEP, 1, x, y, p, gk, keep, 0, most, row, sums);
        dea__weights_steps(1, 1, x, y, p, gk, keep, most, n, row, sums);
    } else {
        dea__weights_steps(DEA__HALF_STEP, 0, x, y, p, gk, keep, 0, most, row, sums);
        dea__weights_steps(1, 0, x, y, p, gk, keep, most, n, row, sums);
    }
    dea__store(sum, sums[0]);
    dea__store(sum + DEA__LANES, sums[1]);
}

/* 1 if exp of every score of a tile is a normal number, so that nothing need be subtracted. A score lies between its two
 * energies, so these are looked at. */
static DEA__NOINLINE int dea__mild(const dea_real *x, const dea_real *y, dea__idx rows, dea__idx n,
                                   const dea__row *row) {
    dea__vec largest = dea__splat(0), least = dea__splat(0);
    for (dea__idx r = 0; r < rows; r++, x += DEA__TILE, y += DEA__TILE) {
        const dea__vec s0 = dea__splat(row[r].e0), s1 = dea__splat(row[r].e1);
        for (dea__idx j = 0; j < n; j += DEA__LANES) {
            const dea__vec a = dea__load(x + j) * s0, b = dea__load(y + j) * s1;
            largest = dea__largest(dea__largest(a, b), largest);
            least = dea__least(dea__least(a, b), least);
        }
    }
    return dea__lane_max(dea__largest(largest, dea__splat(0) - least)) < DEA__SCORE_MILD;
}

/* What a row of a tile may carry beyond that: a mask, labels, dropout, a shift. */
typedef struct dea__cells {
    const dea_real *gk, *keep;
    const dea_real *label; /* NULL, or the row's labels: NaN for none */
    dea_real gamma;
    uint32_t threshold; /* dropout: a weight stays where its hash is not below; 0 for none */
    uint32_t first;     /* index of the tile's first key */
} dea__cells;

/* 1 where dropout keeps the weight of key `first + lane` in this row, else 0 */
DEA__INLINE dea__vec dea__kept(uint32_t first, const dea__row *row, uint32_t threshold) {
    uint32_t hash[DEA__LANES];
    dea_real lanes[DEA__LANES];
    DEA__UNROLL(16) for (int i = 0; i < DEA__LANES; i++) hash[i] = dea__dropout_bits(row->key, first + (uint32_t)i);
    DEA__UNROLL(16) for (int i = 0; i < DEA__LANES; i++) lanes[i] = hash[i] >= threshold ? (dea_real)1 : (dea_real)0;
    return dea__load(lanes);
}

/* s = t L S_mix of one row, the lowest number where `keep` is 0; returns the largest. */
DEA__INLINE dea__vec dea__scores_steps(const int step, const dea__cells *c, const dea_real *x_, const dea_real *y_,
                                       dea_real *s, dea__idx from, dea__idx to, const dea__row *row, dea__vec top) {
    const dea__vec s0 = dea__splat(row->e0), s1 = dea__splat(row->e1), w0 = dea__splat(row->w0),
                   w1 = dea__splat(row->w1), gate = dea__splat(row->gate), lowest = dea__splat(-DEA__REAL_MAX),
                   gamma = dea__splat(c->gamma);
    for (dea__idx j = from; j < to; j += step * DEA__LANES) {
        dea__vec x[DEA__STEP], y[DEA__STEP], z[DEA__STEP];
        DEA__EACH x[v] = dea__load(x_ + j + v * DEA__LANES);
        DEA__EACH y[v] = dea__load(y_ + j + v * DEA__LANES);
        dea__gate_steps(step, step, x, y, c->gk + j, &w0, &w1, &gate, z);
        if (c->label) dea__mix_steps(step, c->label + j, gamma, z);
        DEA__EACH x[v] = x[v] * s0;
        DEA__EACH y[v] = y[v] * s1 - x[v];
        DEA__EACH x[v] = x[v] + z[v] * y[v];
        DEA__EACH x[v] = dea__pick((dea__ints)(dea__load(c->keep + j + v * DEA__LANES) > dea__splat(0)), x[v], lowest);
        DEA__EACH top = dea__largest(top, x[v]);
        DEA__EACH dea__store(s + j + v * DEA__LANES, x[v]);
    }
    return top;
}
static DEA__NOINLINE dea_real dea__scores_any(const dea__cells *c, const dea_real *x, const dea_real *y, dea_real *s,
                                              dea__idx n, const dea__row *row) {
    const dea__idx most = n - n % (DEA__HALF_STEP * DEA__LANES);
    dea__vec top = dea__splat(-DEA__REAL_MAX);
    top = dea__scores_steps(DEA__HALF_STEP, c, x, y, s, 0, most, row, top);
    top = dea__scores_steps(1, c, x, y, s, most, n, row, top);
    return dea__lane_max(top);
}

/* p = exp(S - shift) in place of s, 0 where `keep` is 0 or dropout says so; returns the sum before dropout. */
DEA__INLINE dea__vec dea__shifted_steps(const int step, const dea__cells *c, dea_real *s, dea__idx from, dea__idx to,
                                        const dea__row *row) {
    const dea__vec shift = dea__splat(row->shift * DEA__LOG2_UNIT), low = dea__splat(DEA__EXP_LOW);
    dea__vec total = dea__splat(0);
    for (dea__idx j = from; j < to; j += step * DEA__LANES) {
        dea__vec x[DEA__STEP];
        DEA__EACH x[v] = dea__largest(dea__load(s + j + v * DEA__LANES) - shift, low);
        dea__exp2s(step, x);
        DEA__EACH x[v] = x[v] * dea__load(c->keep + j + v * DEA__LANES);
        DEA__EACH total += x[v];
        if (c->threshold) {
            DEA__EACH x[v] = x[v] * dea__kept(c->first + (uint32_t)(j + v * DEA__LANES), row, c->threshold);
        }
        DEA__EACH dea__store(s + j + v * DEA__LANES, x[v]);
    }
    return total;
}
static DEA__NOINLINE void dea__weights_any(const dea__cells *c, dea_real *s, dea__idx n, const dea__row *row,
                                           dea_real *sum) {
    const dea__idx most = n - n % (DEA__HALF_STEP * DEA__LANES);
    const dea__vec total = dea__shifted_steps(DEA__HALF_STEP, c, s, 0, most, row);
    dea__store(sum, dea__load(sum) + (total + dea__shifted_steps(1, c, s, most, n, row)));
}

/* Backward of one row, with the very operations of the forward. On entry d is dA - delta, on exit dEt0/t; g becomes dEt1/t; p the weights. Four planes
 * of sums, BLOCK rows each: of d, g, d x, g y. column (may be NULL) += g s1. */
DEA__INLINE void dea__slopes_steps(const int step, const int any, const dea__cells *c, const dea_real *x_,
                                   const dea_real *y_, dea_real *d, dea_real *g, dea_real *p, dea_real *column,
                                   dea__idx from, dea__idx to, const dea__row *row, dea_real *sums) {
    const dea__vec w0 = dea__splat(row->w0), w1 = dea__splat(row->w1), gate = dea__splat(row->gate),
                   e0 = dea__splat(row->e0), e1 = dea__splat(row->e1), s1 = dea__splat(row->s1),
                   shift = dea__splat(row->shift * DEA__LOG2_UNIT), low = dea__splat(DEA__EXP_LOW),
                   gamma = dea__splat(c->gamma), absent = dea__splat(row->absent);
    dea__vec m0[2], m1[2], r0[2], r1[2];
    for (int v = 0; v < 2; v++) m0[v] = m1[v] = r0[v] = r1[v] = dea__splat(0);
    for (dea__idx j = from; j < to; j += step * DEA__LANES) {
        dea__vec x[DEA__STEP], y[DEA__STEP], z[DEA__STEP];
        DEA__EACH x[v] = dea__load(x_ + j + v * DEA__LANES);
        DEA__EACH y[v] = dea__load(y_ + j + v * DEA__LANES);
        dea__gate_steps(step, step, x, y, c->gk + j, &w0, &w1, &gate, z);
        if (any && c->label) dea__mix_steps(step, c->label + j, gamma, z);
        DEA__EACH x[v] = x[v] * e0;
        DEA__EACH y[v] = y[v] * e1 - x[v];
        DEA__EACH x[v] = x[v] + z[v] * y[v];
        if (any) {
            DEA__EACH x[v] =
                dea__pick((dea__ints)(dea__load(c->keep + j + v * DEA__LANES) > dea__splat(0)), x[v] - shift, low);
            DEA__EACH x[v] = dea__largest(x[v], low);
        }
        dea__exp2s(step, x);
        if (any) {
            DEA__EACH x[v] = x[v] * dea__load(c->keep + j + v * DEA__LANES);
        }
        if (any && c->threshold) {
            DEA__EACH {
                const dea__vec kept = dea__kept(c->first + (uint32_t)(j + v * DEA__LANES), row, c->threshold);
                dea__store(p + j + v * DEA__LANES, x[v] * kept);
                x[v] = x[v] * dea__pick((dea__ints)(kept > dea__splat(0)), dea__load(d + j + v * DEA__LANES), absent);
            }
        } else {
            DEA__EACH dea__store(p + j + v * DEA__LANES, x[v]);
            DEA__EACH x[v] = x[v] * dea__load(d + j + v * DEA__LANES);
        }
        if (any) { /* a key that this row does not see may be infinite here, by its value or its energies: 0 times it is not 0 */
            DEA__EACH x[v] =
                dea__pick((dea__ints)(dea__load(c->keep + j + v * DEA__LANES) > dea__splat(0)), x[v], dea__splat(0));
        }
        DEA__EACH z[v] = z[v] * x[v];
        DEA__EACH x[v] = x[v] - z[v];
        DEA__EACH dea__store(d + j + v * DEA__LANES, x[v]);
        DEA__EACH dea__store(g + j + v * DEA__LANES, z[v]);
        if (column) {
            DEA__EACH dea__store(column + j + v * DEA__LANES, dea__load(column + j + v * DEA__LANES) + z[v] * s1);
        }
        DEA__EACH m0[v & 1] += x[v] * dea__load(c->keep + j + v * DEA__LANES);
        DEA__EACH m1[v & 1] += z[v] * dea__load(c->keep + j + v * DEA__LANES);
        if (any) {
            DEA__EACH {
                const dea__ints seen = (dea__ints)(dea__load(c->keep + j + v * DEA__LANES) > dea__splat(0));
                r0[v & 1] += x[v] * dea__pick(seen, dea__load(x_ + j + v * DEA__LANES), dea__splat(0));
                r1[v & 1] += z[v] * dea__pick(seen, dea__load(y_ + j + v * DEA__LANES), dea__splat(0));
            }
        } else {
            DEA__EACH r0[v & 1] += x[v] * dea__load(x_ + j + v * DEA__LANES);
            DEA__EACH r1[v & 1] += z[v] * dea__load(y_ + j + v * DEA__LANES);
        }
    }
    const dea__idx plane = DEA__BLOCK * DEA__LANES;
    dea__store(sums, dea__load(sums) + (m0[0] + m0[1]));
    dea__store(sums + plane, dea__load(sums + plane) + (m1[0] + m1[1]));
    dea__store(sums + 2 * plane, dea__load(sums + 2 * plane) + (r0[0] + r0[1]));
    dea__store(sums + 3 * plane, dea__load(sums + 3 * plane) + (r1[0] + r1[1]));
}
static DEA__NOINLINE void dea__slopes(const dea__cells *c, const dea_real *x, const dea_real *y, dea_real *d,
                                      dea_real *g, dea_real *p, dea_real *column, dea__idx n, const dea__row *row,
                                      dea_real *sums) {
    const dea__idx most = n - n % (DEA__STEP * DEA__LANES), more = n - n % (DEA__HALF_STEP * DEA__LANES);
    if (most) dea__slopes_steps(DEA__STEP, 0, c, x, y, d, g, p, column, 0, most, row, sums);
    if (most < more) dea__slopes_steps(DEA__HALF_STEP, 0, c, x, y, d, g, p, column, most, more, row, sums);
    if (more < n) dea__slopes_steps(1, 0, c, x, y, d, g, p, column, more, n, row, sums);
}
static DEA__NOINLINE void dea__slopes_any(const dea__cells *c, const dea_real *x, const dea_real *y, dea_real *d,
                                          dea_real *g, dea_real *p, dea_real *column, dea__idx n, const dea__row *row,
                                          dea_real *sums) {
    const dea__idx most = n - n % (DEA__HALF_STEP * DEA__LANES);
    if (most) dea__slopes_steps(DEA__HALF_STEP, 1, c, x, y, d, g, p, column, 0, most, row, sums);
    if (most < n) dea__slopes_steps(1, 1, c, x, y, d, g, p, column, most, n, row, sums);
}

/* Through the z-score, for energies x, y as they are in the maps: x = d - mean(d) - c0 x, y = g - mean(g) - c1 y, and column += y s1. keep: NULL, or 0 where a row does
 * not see. */
static DEA__NOINLINE void dea__project(dea_real *x, dea_real *y, const dea_real *d, const dea_real *g, dea_real *column,
                                       dea__idx n, dea_real mean0, dea_real mean1, dea_real c0, dea_real c1,
                                       dea_real s1, const dea_real *keep) {
    const dea__vec m0 = dea__splat(mean0), m1 = dea__splat(mean1), k0 = dea__splat(c0), k1 = dea__splat(c1),
                   s = dea__splat(s1), zero = dea__splat(0);
    if (DEA__PRODUCTS_ONLY) return;
    for (dea__idx j = 0; j < n; j += DEA__LANES) {
        dea__vec a = (dea__load(d + j) - m0) - dea__load(x + j) * k0,
                 b = (dea__load(g + j) - m1) - dea__load(y + j) * k1;
        if (keep) {
            const dea__ints seen = (dea__ints)(dea__load(keep + j) > zero);
            a = dea__pick(seen, a, zero);
            b = dea__pick(seen, b, zero);
        }
        dea__store(x + j, a);
        dea__store(y + j, b);
        dea__store(column + j, dea__load(column + j) + b * s);
    }
}

/* A row of both energies over several tiles (`tile` numbers apart): subtracts the means over the first n; squares, NULL or
 * [2]: the sums of squares of what is left. Energies are differences to those of the first key, so equal keys give 0. */
static DEA__NOINLINE void dea__centre_row(dea_real *x, dea_real *y, dea__idx tile, dea__idx n, const dea_real *ramp,
                                          dea_real *squares) {
#define DEA__HERE(v) ((v & 1 ? y : x) + j0 / DEA__TILE * tile + j + v / 2 * DEA__LANES)
    const dea__idx full = n / DEA__TILE * DEA__TILE; /* tiles seen to their end need no mask */
    const dea_real *keep = ramp + DEA__TILE - (n - full);
    const dea__vec zero = dea__splat(0);
    dea__vec sum[4] = {zero, zero, zero, zero}, mean[2];
    for (dea__idx j0 = 0; j0 < full; j0 += DEA__TILE)
        for (dea__idx j = 0; j < DEA__TILE; j += 2 * DEA__LANES) {
            DEA__UNROLL(4) for (int v = 0; v < 4; v++) sum[v] += dea__load(DEA__HERE(v));
        }
    for (dea__idx j0 = full, j = 0; j < n - full; j += DEA__LANES) {
        const dea__ints seen = (dea__ints)(dea__load(keep + j) > zero);
        DEA__UNROLL(2) for (int v = 0; v < 2; v++) sum[v] += dea__pick(seen, dea__load(DEA__HERE(v)), zero);
    }
    for (int v = 0; v < 2; v++) mean[v] = dea__splat(dea__lane_sum(sum[v] + sum[v + 2]) / (dea_real)n);
    for (int v = 0; v < 4; v++) sum[v] = zero;
    for (dea__idx j0 = 0; j0 < full; j0 += DEA__TILE)
        for (dea__idx j = 0; j < DEA__TILE; j += 2 * DEA__LANES) {
            DEA__UNROLL(4) for (int v = 0; v < 4; v++) {
                const dea__vec e = dea__load(DEA__HERE(v)) - mean[v & 1];
                dea__store(DEA__HERE(v), e);
                sum[v] += e * e;
            }
        }
    for (dea__idx j0 = full, j = 0; j < n - full; j += DEA__LANES) {
        const dea__ints seen = (dea__ints)(dea__load(keep + j) > zero);
        DEA__UNROLL(2) for (int v = 0; v < 2; v++) {
            const dea__vec e = dea__load(DEA__HERE(v)) - mean[v], s = dea__pick(seen, e, zero);
            dea__store(DEA__HERE(v), e);
            sum[v] += s * s;
        }
    }
    for (int v = 0; squares && v < 2; v++) squares[v] = dea__lane_sum(sum[v] + sum[v + 2]);
#undef DEA__HERE
}

/* 1 if no number of [rows][d] is NaN or infinite */
static int dea__all_finite(const dea_real *p, dea__idx rows, dea__idx row, dea__idx d) {
    const dea__vec zero = dea__splat(0);
    dea__vec sum[4] = {zero, zero, zero, zero};
    dea_real rest = 0;
    for (dea__idx r = 0; r < rows; r++, p += row) {
        dea__idx c = 0;
        for (; c + 4 * DEA__LANES <= d; c += 4 * DEA__LANES) {
            DEA__UNROLL(4) for (int v = 0; v < 4; v++) sum[v] += dea__load(p + c + v * DEA__LANES) * zero;
        }
        for (; c + DEA__LANES <= d; c += DEA__LANES) sum[0] += dea__load(p + c) * zero;
        for (; c < d; c++) rest += p[c] * 0;
    }
    return dea__lane_sum((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest == 0;
}

/* ---- packing a head */

/* Queries of one block: as many as keep the maps of a block in the second cache. */
static dea__idx dea__block_rows(dea__idx np, int maps) {
    dea__idx rows = DEA__BLOCK;
    while (rows > 16 && rows * np * maps > 160 * 1024 && !(rows == 32 && np > DEA__PANEL_KEYS_FORWARD)) rows /= 2;
    return dea__round_up(rows, DEA__PAD);
}

/* The parameters of head h. */
static void dea__pack_head(const dea_attention *a, int h, dea__buffers *m) {
    const dea__idx d = m->d, dp = m->dp;
    const dea_real *gate = a->w_gate + (dea__idx)h * (2 * d + 2);
    m->temperature = a->temperature ? a->temperature[h] : 1;
    m->gate0 = gate[2 * d];
    m->gate1 = gate[2 * d + 1];
    m->bias = a->c_gate[h];
    m->w = a->w_rel + (dea__idx)h * d * d;
    if (d != dp) {
        dea__pad_rows(d, dp, d, dp, m->w, d, m->padded);
        m->w = m->padded;
    }
    dea__transpose_square(dp, m->w, m->wt);
    dea__pad_rows(1, 1, d, dp, gate, d, m->wq);
    dea__pad_rows(1, 1, d, dp, gate + d, d, m->wk);
    for (int j = 0; j < DEA__TILE; j++) {
        m->ramp[j] = 1;
        m->ramp[DEA__TILE + j] = 0;
    }
    for (int r = 0; r < DEA__BLOCK; r++) m->minus_ones[r] = -1;
}

/* out [dp] = column means of x [n][dp] less `minus` (may be NULL), four vectors side by side */
static void dea__column_means(const dea_real *x, dea__idx x_row, dea__idx n, dea__idx dp, const dea_real *minus,
                              dea_real *out) {
    const dea__vec inverse = dea__splat(1 / (dea_real)n);
    dea__idx c = 0;
    for (; c + 4 * DEA__LANES <= dp; c += 4 * DEA__LANES) {
        dea__vec sum[4], less[4];
        DEA__UNROLL(4) for (int v = 0; v < 4; v++) {
            sum[v] = dea__splat(0);
            less[v] = minus ? dea__load(minus + c + v * DEA__LANES) : dea__splat(0);
        }
        for (dea__idx j = 0; j < n; j++) {
            DEA__UNROLL(4)
            for (int v = 0; v < 4; v++) sum[v] += dea__load(x + j * x_row + c + v * DEA__LANES) - less[v];
        }
        DEA__UNROLL(4) for (int v = 0; v < 4; v++) dea__store(out + c + v * DEA__LANES, sum[v] * inverse);
    }
    for (; c < dp; c += DEA__LANES) {
        const dea__vec less = minus ? dea__load(minus + c) : dea__splat(0);
        dea__vec sum = dea__splat(0);
        for (dea__idx j = 0; j < n; j++) sum += dea__load(x + j * x_row + c) - less;
        dea__store(out + c, sum * inverse);
    }
}

/* The n keys one batch row has: centred, so that every query's mean energy is 0; twice, because the first mean carries a
 * rounding error that 1/(sigma + 1e-5) would blow up where all keys are equal. With a causal mask the first key, which every
 * row sees, is subtracted instead, and rows are centred on their own: no row may feel a later key. As rows (with_rows) and interleaved, together
 * with what a key adds to E1 and to the gate. */
static void dea__pack_keys(const dea_attention *a, const dea_real *k, dea__idx k_row, dea__idx n, int with_rows,
                           dea__buffers *m) {
    const dea__idx d = m->d, dp = m->dp, np = dea__round_up(n, DEA__PAD);
    m->n = n;
    m->np = np;
    m->with_max = (double)m->temperature * sqrt((double)n) > DEA__MILD;
    if (d != dp) {
        dea__pad_rows(n, n, d, dp, k, k_row, m->kc);
        k = m->kc;
        k_row = dp;
    }
    if (a->causal) {
        memcpy(m->kbar, k, sizeof(dea_real) * (size_t)dp);
        memset(m->krest, 0, sizeof(dea_real) * (size_t)dp);
    } else {
        dea__column_means(k, k_row, n, dp, NULL, m->kbar);
        dea__column_means(k, k_row, n, dp, m->kbar, m->krest);
    }
    dea__vec gate_mean = dea__splat(0);
    for (dea__idx c = 0; c < dp; c += DEA__LANES)
        gate_mean += (dea__load(m->kbar + c) + dea__load(m->krest + c)) * dea__load(m->wk + c);
    dea__vec norms = dea__splat(0), poison = dea__splat(0);
    const dea__vec per_width = dea__splat(-1 / (dea_real)d), bias = dea__splat(dea__lane_sum(gate_mean) + m->bias),
                   unit = dea__splat(-DEA__LOG2_UNIT);
    for (dea__idx tile = 0; tile < np; tile += DEA__TILE) {
        const dea__idx end = np - tile < DEA__TILE ? np : tile + DEA__TILE;
        for (dea__idx first = tile, wide; first < end; first += wide * DEA__LANES) {
            wide = dea__group((end - first) / DEA__LANES);
            for (dea__idx v = 0; v < wide; v++) {
                const dea__idx j = first + v * DEA__LANES;
                dea__vec norm = dea__splat(0), gate = dea__splat(0);
                for (dea__idx c = 0; c < dp; c += DEA__LANES) {
                    const dea__vec mean = dea__load(m->kbar + c), again = dea__load(m->krest + c);
                    dea__vec x[DEA__LANES];
                    DEA__UNROLL(16) for (int i = 0; i < DEA__LANES; i++) {
                        x[i] = j + i < n ? (dea__load(k + (j + i) * k_row + c) - mean) - again : dea__splat(0);
                        if (with_rows) dea__store(m->kc + (j + i) * dp + c, x[i]);
                    }
                    dea__transpose_lanes(x);
                    DEA__UNROLL(16) for (int i = 0; i < DEA__LANES; i++) {
                        dea__store(m->kt + first * dp + ((c + i) * wide + v) * DEA__LANES, x[i]);
                        norm += x[i] * x[i];
                        gate += x[i] * dea__splat(m->wk[c + i]);
                    }
                }
                const dea__vec x = norm * per_width, g = (gate + bias) * unit;
                norms += x;
                poison += g - g; /* not g: a sum of large gates is no sign of anything */
                dea__store(m->norm + j, x);
                dea__store(m->gk + j, g);
                for (int i = 0; i < DEA__LANES; i++) m->keep[j + i] = j + i < n ? (dea_real)1 : (dea_real)0;
            }
        }
    }
    for (dea__idx c = 0; c < dp; c += DEA__LANES)
        dea__store(m->kbar + c, dea__load(m->kbar + c) + dea__load(m->krest + c));
    for (int again = 0; !a->causal && again < 2; again++) {
        const dea__vec mean = dea__splat(dea__lane_sum(norms) / (dea_real)n);
        norms = dea__splat(0);
        for (dea__idx j = 0; j < np; j += DEA__LANES) {
            const dea__vec x = (dea__load(m->norm + j) - mean) * dea__load(m->keep + j);
            norms += x;
            dea__store(m->norm + j, x);
        }
    }
    m->poison = ((a->causal ? m->gk[0] : dea__lane_sum(poison)) + m->gate0 + m->gate1) * 0;
}

/* ---- products of a block of queries with a tile of keys. reach is NULL where every row sees the whole tile. */

/* The product p of rows r.. with one group of `wide` vectors of keys from key j on; rows that reach less take fewer of them. */
static void dea__multiply_reached(int wide, dea__idx r, dea__idx rows, const dea__idx *reach, dea__idx j,
                                  dea__product p) {
    dea__idx part = r;
    for (; reach && part < rows && reach[part] < j + wide * DEA__LANES; part += DEA__ROWS) {
        dea__multiply((int)((reach[part] - j + DEA__LANES - 1) / DEA__LANES), DEA__ROWS, &p);
        p.a += DEA__ROWS * p.lda;
        p.c += DEA__ROWS * p.ldc;
        if (p.scale) p.scale += DEA__ROWS;
        if (p.squares) p.squares += DEA__ROWS * DEA__LANES;
    }
    if (part < rows) dea__multiply(wide, rows - part, &p);
}

/* x = Q'K^T, y = U'K^T + norms, for q [rows] q_row apart and u [rows][dp]; squares (may be NULL) as in dea__product, two
 * planes of `rows` */
static DEA__NOINLINE void dea__energies(const dea__buffers *m, dea__idx j0, dea__idx keys, dea__idx rows,
                                        const dea__idx *reach, const dea_real *q, dea__idx q_row, const dea_real *u,
                                        dea_real *x, dea_real *y, const dea_real *norm_scale, dea_real *squares) {
    const dea__idx dp = m->dp;
    const dea__idx packed = m->np - j0 < DEA__TILE ? m->np - j0 : DEA__TILE; /* what the groups were cut from */
    dea__idx r = 0;
    for (dea__idx j = 0; j < keys;) {
        const int wide = dea__group((packed - j) / DEA__LANES);
        while (reach && r < rows && reach[r] <= j0 + j) r += DEA__ROWS;
        if (r >= rows) return;
        const dea_real *b = m->kt + (j0 + j) * dp;
        dea__product p = {0,
                          DEA__FROM_ZERO_,
                          dp,
                          q + r * q_row,
                          q_row,
                          b,
                          wide * DEA__LANES,
                          x + r * DEA__TILE + j,
                          DEA__TILE,
                          NULL,
                          NULL,
                          NULL};
        if (squares) p.squares = squares + r * DEA__LANES;
        dea__multiply_reached(wide, r, rows, reach, j0 + j, p);
        p.start = DEA__FROM_SCALED_COLUMN;
        p.a = u + r * dp;
        p.lda = dp;
        p.c = y + r * DEA__TILE + j;
        p.scale = norm_scale + r;
        p.column = m->norm + j0 + j;
        if (squares) p.squares += rows * DEA__LANES;
        dea__multiply_reached(wide, r, rows, reach, j0 + j, p);
        j += wide * DEA__LANES;
    }
}

/* d = dO'V^T - delta' */
static void dea__value_products(const dea__buffers *m, dea__idx j0, dea__idx keys, dea__idx rows, const dea__idx *reach,
                                const dea_real *go, dea_real *d, const dea_real *minus_delta) {
    const dea__idx dp = m->dp;
    const dea__idx packed = m->np - j0 < DEA__TILE ? m->np - j0 : DEA__TILE; /* what the groups were cut from */
    dea__idx r = 0;
    for (dea__idx j = 0; j < keys;) {
        const int wide = dea__group((packed - j) / DEA__LANES);
        while (reach && r < rows && reach[r] <= j0 + j) r += DEA__ROWS;
        if (r >= rows) return;
        const dea__product p = {0,
                                DEA__FROM_ROW_SCALE,
                                dp,
                                go + r * dp,
                                dp,
                                m->vt + (j0 + j) * dp,
                                wide * DEA__LANES,
                                d + r * DEA__TILE + j,
                                DEA__TILE,
                                minus_delta + r,
                                NULL,
                                NULL};
        dea__multiply_reached(wide, r, rows, reach, j0 + j, p);
        j += wide * DEA__LANES;
    }
}

/* c [rows][dp] (+)= map b, for a map of `rows` rows by `keys` and b of keys rows */
static void dea__rows_by_tile(int start, const dea__buffers *m, dea__idx j0, dea__idx keys, dea__idx rows,
                              const dea__idx *reach, const dea_real *map, const dea_real *b, dea__idx ldb,
                              dea_real *c) {
    const dea__idx dp = m->dp;
    if (!reach) {
        dea__product_of(start, 0, rows, dp, keys, map, DEA__TILE, b, ldb, c, dp);
        return;
    }
    for (dea__idx r = 0; r < rows; r += DEA__ROWS) {
        dea__idx depth = reach[r] - j0 < keys ? reach[r] - j0 : keys;
        if (depth > 0 || start != DEA__ADD_TO_C)
            dea__product_of(start, 0, DEA__ROWS, dp, depth > 0 ? depth : 0, map + r * DEA__TILE, DEA__TILE, b, ldb,
                            c + r * dp, dp);
    }
}

/* c [keys][dp] += map^T b, for `maps` stacked maps of `rows` rows and b of maps*rows rows */
static void dea__keys_by_tile(int maps, const dea__buffers *m, dea__idx j0, dea__idx keys, dea__idx rows,
                              const dea__idx *reach, const dea_real *map, const dea_real *b, dea_real *c) {
    const dea__idx dp = m->dp;
    if (!reach) {
        dea__product_of(DEA__ADD_TO_C, 1, keys, dp, maps * rows, map, DEA__TILE, b, dp, c, dp);
        return;
    }
    dea__idx r = 0;
    for (dea__idx j = 0; j < keys; j += DEA__ROWS) {
        while (r < rows && reach[r] <= j0 + j) r += DEA__ROWS;
        if (r >= rows) return;
        for (int e = 0; e < maps; e++)
            dea__product_of(DEA__ADD_TO_C, 1, DEA__ROWS, dp, rows - r, map + (e * rows + r) * DEA__TILE + j, DEA__TILE,
                            b + (e * rows + r) * dp, dp, c + j * dp, dp);
    }
}

/* ---- a block of queries */

/* `count` queries from i0 on (or those listed), `rows` with padding: m->query, the caller's own where they need no
 * copy, else m->q; u = Q W_rel^T - kbar; what each row sees. */
static void dea__load_block(const dea__fast *f, int b, int h, const int *list, dea__idx i0, dea__idx count,
                            dea__idx rows, dea__buffers *m, dea__row *row, dea_real *u) {
    const dea_attention *a = f->a;
    const dea__idx dp = m->dp;
    const dea_real *q = a->q + b * f->q.batch + h * f->q.head;
    m->query = q + i0 * f->q.token;
    m->query_row = f->q.token;
    if (list || a->causal || count < rows || m->d != dp) {
        if (!list) dea__pad_rows(count, rows, m->d, dp, q + i0 * f->q.token, f->q.token, m->q);
        for (dea__idx r = 0; list && r < rows; r++)
            dea__pad_rows(r < count, 1, m->d, dp, q + (r < count ? list[r] : 0) * f->q.token, f->q.token,
                          m->q + r * dp);
        m->query = m->q;
        m->query_row = dp;
    }
    for (dea__idx r = 0; r < rows; r++) {
        row[r].bad = a->causal && !dea__all_finite(m->q + r * dp, 1, dp, dp);
        if (row[r].bad) memset(m->q + r * dp, 0, sizeof(dea_real) * (size_t)dp);
    }
    const dea__product p = {0,  DEA__FROM_SCALED_COLUMN, dp,      m->query, m->query_row, m->wt, dp, u,
                            dp, m->minus_ones,           m->kbar, NULL};
    dea__all_columns(p, rows, dp);
    for (dea__idx r = 0; r < rows; r++) {
        const dea__idx last = r < count ? r : count - 1, i = list ? list[last] : i0 + last;
        m->sees[r] = a->causal && i + 1 < m->n ? i + 1 : m->n;
    }
    for (dea__idx r = 0; r < rows; r++) {
        const dea__idx reach = dea__round_up(m->sees[r | (DEA__ROWS - 1)], DEA__PAD);
        m->reach[r] = reach < m->np ? reach : m->np;
    }
    for (dea__idx r = 0; r < rows; r++) {
        if (a->dropout > 0 && r < count) row[r].key = dea__attention_row_key(a, b, h, (int)(i0 + r));
    }
}

/* The queries' share of the gate, gates = -L w_q.q */
static void dea__query_gates(const dea__buffers *m, dea__idx rows) {
    for (dea__idx r = 0; r < rows; r++) {
        dea__vec gate = dea__splat(0);
        for (dea__idx c = 0; c < m->dp; c += DEA__LANES)
            gate += dea__load(m->query + r * m->query_row + c) * dea__load(m->wq + c);
        dea__store(m->sums + r * DEA__LANES, gate);
    }
    for (dea__idx r = 0; r < rows; r += DEA__LANES) dea__row_sums(m->sums + r * DEA__LANES, m->gates + r);
    for (dea__idx r = 0; r < rows; r++) m->gates[r] *= -DEA__LOG2_UNIT;
}

/* Q' = scale0 Q and U' = scale1 U, stacked, and the gates of the queries. u may be the second half of qu. */
static void dea__scale_block(const dea__buffers *m, dea__idx rows, const dea_real *scale0, const dea_real *scale1,
                             const dea_real *u_, dea_real *qu) {
    const dea__idx dp = m->dp;
    dea_real *u = qu + rows * dp;
    for (dea__idx r = 0; r < rows; r++) {
        const dea__vec s0 = dea__splat(scale0[r]), s1 = dea__splat(scale1[r]);
        for (dea__idx c = 0; c < dp; c += DEA__LANES) {
            dea__store(qu + r * dp + c, dea__load(m->query + r * m->query_row + c) * s0);
            dea__store(u + r * dp + c, dea__load(u_ + r * dp + c) * s1);
        }
    }
    dea__query_gates(m, rows);
}

/* The labels of `count` queries from i0 on (or those listed) and `keys` keys from j0 on into m->label, NaN for none; 0 if
 * there are none. */
static int dea__label_tile(const dea_attention *a, int b, const int *list, dea__idx i0, dea__idx count, dea__idx rows,
                           dea__idx j0, dea__idx keys, const dea__buffers *m) {
    const dea_real none = DEA__NAN;
    const dea__idx real = m->n - j0 < keys ? m->n - j0 : keys;
    int found = 0;
    if (a->labels) {
        for (dea__idx r = 0; r < rows; r++) {
            dea_real *out = m->label + r * DEA__TILE;
            dea__idx j = 0;
            if (r < count) {
                const dea__idx i = list ? list[r] : i0 + r;
                const dea_real *in = a->labels + ((dea__idx)b * a->seq_q + i) * a->seq_k + j0;
                for (; j < real; j++) {
                    out[j] = in[j];
                    found |= in[j] == in[j];
                }
            }
            for (; j < keys; j++) out[j] = none;
        }
        return found;
    }
    for (size_t e = 0; e < m->block_count; e++) {
        const dea_label_block *block = a->label_blocks + m->blocks[e];
        const dea__idx j1 = block->k_begin > j0 ? block->k_begin : j0,
                       j2 = block->k_end < j0 + real ? block->k_end : j0 + real;
        if (j1 >= j2) continue;
        for (dea__idx r = 0; r < count; r++) {
            const dea__idx i = list ? list[r] : i0 + r;
            if (i < block->q_begin || i >= block->q_end) continue;
            for (dea__idx z = 0; !found && z < rows; z++)
                for (dea__idx j = 0; j < keys; j++) m->label[z * DEA__TILE + j] = none;
            found = 1;
            for (dea__idx j = j1; j < j2; j++) m->label[r * DEA__TILE + j - j0] = block->alpha;
        }
    }
    return found;
}

/* The element pass of a tile: energies x, y become weights in x. Where a score is too large or too small for exp, the rows
 * of o [rows][dp] and their sums so far are brought to a new maximum if the tile raises it. */
static void dea__weigh_tile(const dea__fast *f, int b, dea__idx i0, dea__idx count, dea__idx rows, dea__idx j0,
                            dea__idx keys, int partial, const dea__buffers *m, dea_real *x, dea_real *y, dea_real *sums,
                            dea__row *row, dea_real *o) {
    const dea_attention *a = f->a;
    if (DEA__PRODUCTS_ONLY) return;
    const int labelled = a->gamma > 0 && dea__label_tile(a, b, NULL, i0, count, rows, j0, keys, m);
    int plain = !labelled && !(a->dropout > 0) && !(partial && m->with_max);
    for (dea__idx r = 0; m->with_max && r < rows; r++) plain &= row[r].shift == 0 || row[r].shift == -DEA__REAL_MAX;
    if (plain && (!m->with_max || dea__mild(x, y, rows, keys, row))) {
        for (dea__idx r = 0; r < rows; r += 2) {
            const dea__idx at = r * DEA__TILE, n = partial && m->reach[r] - j0 < keys ? m->reach[r] - j0 : keys;
            row[r].shift = row[r + 1].shift = 0;
            const dea_real *keep[2] = {m->keep + j0, m->keep + j0};
            for (int e = 0; partial && e < 2; e++) {
                const dea__idx seen = m->sees[r + e] - j0 < keys ? m->sees[r + e] - j0 : keys;
                keep[e] = m->ramp + DEA__TILE - (seen > 0 ? seen : 0);
            }
            if (n > 0)
                dea__weights(partial, x + at, y + at, x + at, m->gk + j0, keep, n, row + r, sums + r * DEA__LANES);
            if (m->ahead) dea__ahead_step(m->ahead);
        }
        return;
    }
    dea__cells c = {
        m->gk + j0,  m->keep + j0, NULL, a->gamma, a->dropout > 0 ? dea__dropout_threshold((double)a->dropout) : 0,
        (uint32_t)j0};
    for (dea__idx r = 0; r < rows; r++) {
        dea__idx n = keys;
        if (partial) {
            const dea__idx seen = m->sees[r] - j0 < keys ? m->sees[r] - j0 : keys, reach = m->reach[r] - j0;
            n = reach < keys ? reach : keys;
            c.keep = m->ramp + DEA__TILE - (seen > 0 ? seen : 0);
            if (n <= 0) continue;
            if (seen <= 0) {
                for (dea__idx j = 0; j < n; j++) x[r * DEA__TILE + j] = 0;
                continue;
            }
        }
        if (labelled) c.label = m->label + r * DEA__TILE;
        const dea_real top =
            dea__scores_any(&c, x + r * DEA__TILE, y + r * DEA__TILE, x + r * DEA__TILE, n, row + r) / DEA__LOG2_UNIT;
        if (m->with_max && top > row[r].shift) {
            const dea__vec less = dea__splat((dea_real)exp((double)row[r].shift - (double)top));
            row[r].shift = top;
            dea__store(sums + r * DEA__LANES, dea__load(sums + r * DEA__LANES) * less);
            if (j0 > 0)
                for (dea__idx e = 0; e < m->dp; e += DEA__LANES)
                    dea__store(o + r * m->dp + e, dea__load(o + r * m->dp + e) * less);
        }
        dea__weights_any(&c, x + r * DEA__TILE, n, row + r, sums + r * DEA__LANES);
    }
}

/* The backward element pass of a tile, see dea__slopes_steps. The second halves of xy and dg belong to the other expert. */
static void dea__differentiate_tile(const dea__fast *f, int b, dea__idx i0, dea__idx count, dea__idx rows, dea__idx j0,
                                    dea__idx keys, int partial, int shifted, const dea__buffers *m, const dea_real *xy,
                                    dea_real *dg, dea_real *p, dea_real *column, const dea__row *row, dea_real *sums) {
    const dea_attention *a = f->a;
    if (DEA__PRODUCTS_ONLY) return;
    const int labelled = a->gamma > 0 && dea__label_tile(a, b, NULL, i0, count, rows, j0, keys, m);
    const dea_real *y = xy + rows * DEA__TILE;
    const int plain =
        !labelled && !partial && !shifted && !(a->dropout > 0) && (!m->with_max || dea__mild(xy, y, rows, keys, row));
    dea_real *g = dg + rows * DEA__TILE;
    dea__cells c = {
        m->gk + j0,  m->keep + j0, NULL, a->gamma, a->dropout > 0 ? dea__dropout_threshold((double)a->dropout) : 0,
        (uint32_t)j0};
    for (dea__idx r = 0; r < rows; r++) {
        const dea__idx at = r * DEA__TILE;
        dea__idx n = keys;
        if (plain) {
            dea__slopes(&c, xy + at, y + at, dg + at, g + at, p + at, column, n, row + r, sums + r * DEA__LANES);
            continue;
        }
        if (partial) {
            const dea__idx seen = m->sees[r] - j0 < keys ? m->sees[r] - j0 : keys, reach = m->reach[r] - j0;
            n = reach < keys ? reach : keys;
            if (n <= 0) continue;
            c.keep = m->ramp + DEA__TILE - (seen > 0 ? seen : 0);
        }
        if (labelled) c.label = m->label + at;
        dea__slopes_any(&c, xy + at, y + at, dg + at, g + at, p + at, column, n, row + r, sums + r * DEA__LANES);
    }
}

/* o = factor row */
DEA__INLINE void dea__finish_row(dea_real *o, const dea_real *row, dea_real factor, dea__idx d) {
    dea__idx c = 0;
    for (; c + DEA__LANES <= d; c += DEA__LANES) dea__store(o + c, dea__load(row + c) * dea__splat(factor));
    for (; c < d; c++) o[c] = row[c] * factor;
}

/* Deals out a worker's memory for one head of `keys` keys; the pieces a pass or a regime does not use have size 0. Head
 * parameters come first, so that both regimes find them in the same place. Returns the bytes. */
static size_t dea__layout(const dea_attention *a, int pass, int stream, dea__idx keys, char *base, dea__buffers *m) {
    dea__arena arena = {base, 0, 0};
    const dea__idx d = a->head_dim, dp = dea__round_up(d, DEA__PAD), np = dea__round_up(keys, DEA__PAD);
    const dea__idx block = dea__block_rows(np, pass == DEA__BACKWARD ? 4 : 2);
    const dea__idx tiles = (np + DEA__TILE - 1) / DEA__TILE, map = tiles * block * DEA__TILE;
    const dea__idx queries = stream ? DEA__SPAN : block, backward = pass == DEA__BACKWARD, gate = pass == DEA__GATE;
    const dea__idx full = DEA__BLOCK;
    (void)dea__take(&arena, 1, sizeof *m); /* what the worker's next task finds */
    m->ahead = NULL;
    m->d = d;
    m->dp = dp;
    m->block = block;
    m->padded = dea__take_reals(&arena, (size_t)(d == dp ? 0 : dp * dp));
    m->wt = dea__take_reals(&arena, (size_t)(dp * dp));
    m->wq = dea__take_reals(&arena, (size_t)(dp));
    m->wk = dea__take_reals(&arena, (size_t)(dp));
    m->ramp = dea__take_reals(&arena, (size_t)(2 * DEA__TILE));
    m->minus_ones = dea__take_reals(&arena, (size_t)(DEA__BLOCK));
    m->blocks = (size_t *)dea__take(&arena, a->label_block_count, sizeof(size_t));
    m->kc = dea__take_reals(&arena, (size_t)(np * dp));
    m->kt = dea__take_reals(&arena, (size_t)(np * dp));
    m->v = dea__take_reals(&arena, (size_t)(gate ? 0 : np * dp));
    m->vt = dea__take_reals(&arena, (size_t)(backward ? np * dp : 0));
    m->dk = dea__take_reals(&arena, (size_t)(backward ? np * dp : 0));
    m->dv = dea__take_reals(&arena, (size_t)(backward ? np * dp : 0));
    m->kbar = dea__take_reals(&arena, (size_t)(dp));
    m->krest = dea__take_reals(&arena, (size_t)(dp));
    m->norm = dea__take_reals(&arena, (size_t)(np));
    m->gk = dea__take_reals(&arena, (size_t)(np));
    m->keep = dea__take_reals(&arena, (size_t)(np));
    m->column = dea__take_reals(&arena, (size_t)(backward ? np : 0));
    m->q = dea__take_reals(&arena, (size_t)(full * dp));
    m->qu = dea__take_reals(&arena, (size_t)(2 * queries * dp));
    m->go = dea__take_reals(&arena, (size_t)(backward ? queries * dp : 0));
    m->dqu = dea__take_reals(&arena, (size_t)(backward ? 2 * queries * dp : 0));
    m->ob = dea__take_reals(&arena, (size_t)(pass == DEA__FORWARD ? queries * dp : 0));
    m->scale0 = dea__take_reals(&arena, (size_t)(queries + full));
    m->scale1 = dea__take_reals(&arena, (size_t)(queries + full));
    m->ones = dea__take_reals(&arena, (size_t)(queries + full));
    m->minus_delta = dea__take_reals(&arena, (size_t)(queries + full));
    m->gates = dea__take_reals(&arena, (size_t)(full));
    m->sums = dea__take_reals(&arena, (size_t)(4 * full * DEA__LANES));
    m->row_sum = dea__take_reals(&arena, (size_t)(stream ? 4 * queries : 0));
    m->rows = (dea__row *)dea__take(&arena, (size_t)queries, sizeof(dea__row));
    m->sees = (dea__idx *)dea__take(&arena, (size_t)full, sizeof(dea__idx));
    m->reach = (dea__idx *)dea__take(&arena, (size_t)full, sizeof(dea__idx));
    m->u = dea__take_reals(&arena, (size_t)(backward ? full * dp : 0));
    m->x = dea__take_reals(&arena, (size_t)(backward ? 2 * map : map));
    m->y = dea__take_reals(&arena, (size_t)(backward ? 0 : map));
    m->dmap = dea__take_reals(&arena, (size_t)(backward ? 2 * map : 0));
    m->p = dea__take_reals(&arena, (size_t)(backward ? DEA__BLOCK * DEA__TILE : 0));
    m->label = dea__take_reals(&arena, (size_t)(full * DEA__TILE));
    const dea__idx square = stream ? dp * dp : 0, vector = stream ? dp : 0;
    m->cov = dea__take_reals(&arena, (size_t)(square));
    m->square = dea__take_reals(&arena, (size_t)(square));
    m->m01 = dea__take_reals(&arena, (size_t)(square));
    m->wide = dea__take_doubles(&arena, (size_t)square);
    m->qc = dea__take_reals(&arena, (size_t)(2 * DEA__BLOCK * vector));
    m->rest = dea__take_reals(&arena, (size_t)(2 * DEA__BLOCK * vector));
    m->cov_norm = dea__take_reals(&arena, (size_t)(vector));
    m->a0 = dea__take_reals(&arena, (size_t)(vector));
    m->a1 = dea__take_reals(&arena, (size_t)(vector));
    m->b1 = dea__take_reals(&arena, (size_t)(vector));
    m->column_dense = dea__take_reals(&arena, (size_t)(gate ? np : 0));
    m->column_photo = dea__take_reals(&arena, (size_t)(gate ? np : 0));
    m->list = (int *)dea__take(&arena, gate ? (size_t)a->seq_q : 0, sizeof(int));
    return dea__arena_bytes(&arena);
}

/* ---- forward */

/* The constants of a block's rows, from the sums of squares (scale0, scale1) of their raw energies q.k and u.k + norm d/2, which
 * are E0 sqrt(d) and E1 d/2. Afterwards ones and scale1 hold sigma0 and sigma1, and scale0 holds 0, or NaN where the row is
 * not finite. */
static void dea__forward_rows(dea__idx rows, const dea__buffers *m) {
    const dea__vec root = dea__splat((dea_real)(1 / sqrt((double)m->d))), twice = dea__splat(2 / (dea_real)m->d),
                   eps = dea__splat((dea_real)DEA_SIGMA_EPS), poison = dea__splat(m->poison);
    dea_real sees[DEA__BLOCK], s0[DEA__BLOCK], s1[DEA__BLOCK];
    for (dea__idx r = 0; r < rows; r++) sees[r] = (dea_real)m->sees[r];
    for (dea__idx r = 0; r < rows; r += DEA__LANES) {
        dea__store(m->ones + r, dea__load(m->scale0 + r) / dea__load(sees + r));
        dea__store(m->scale1 + r, dea__load(m->scale1 + r) / dea__load(sees + r));
        for (int e = 0; e < DEA__LANES; e++) {
            m->ones[r + e] = DEA__SQRT(m->ones[r + e]);
            m->scale1[r + e] = DEA__SQRT(m->scale1[r + e]);
        }
        const dea__vec sigma0 = dea__load(m->ones + r) * root, sigma1 = dea__load(m->scale1 + r) * twice;
        dea__store(m->ones + r, sigma0);
        dea__store(m->scale1 + r, sigma1);
        dea__store(m->scale0 + r, poison + (sigma0 + sigma1 + dea__load(m->gates + r)) * dea__splat(0));
        dea__store(s0 + r, root * dea__splat(DEA__LOG2_UNIT) / (sigma0 + eps));
        dea__store(s1 + r, twice * dea__splat(DEA__LOG2_UNIT) / (sigma1 + eps));
    }
    for (dea__idx r = 0; r < rows; r++) {
        dea__row *row = m->rows + r;
        row->e0 = m->temperature * s0[r];
        row->e1 = m->temperature * s1[r];
        row->w0 = -m->gate0 * s0[r];
        row->w1 = -m->gate1 * s1[r];
        row->gate = m->gates[r];
        row->shift = m->with_max ? -DEA__REAL_MAX : 0;
    }
}

/* All keys of a block of queries at once: energies with their variances, then the weights and o tile by tile. */
static void dea__forward_block(const dea__fast *f, int b, int h, dea__idx i0, dea__idx count, dea__buffers *m) {
    const dea_attention *a = f->a;
    const dea__idx d = m->d, dp = m->dp, queries = a->seq_q, map = m->block * DEA__TILE;
    const dea_real kept = (dea_real)(1 / (1 - (double)a->dropout));
    dea_real *saved = f->saved_out ? f->saved_out + ((dea__idx)b * a->heads + h) * 4 * queries : NULL;
    const dea__idx rows = dea__round_up(count, DEA__PAD);
    dea__load_block(f, b, h, NULL, i0, count, rows, m, m->rows, m->qu);
    dea__query_gates(m, rows);
    for (dea__idx r = 0; r < rows; r++) m->ones[r] = (dea_real)d / 2;
    const dea__idx end = m->reach[rows - 1];
    memset(m->sums, 0, sizeof(dea_real) * (size_t)(2 * rows * DEA__LANES));
    for (dea__idx j0 = 0; j0 < end; j0 += DEA__TILE) {
        const dea__idx keys = end - j0 < DEA__TILE ? end - j0 : DEA__TILE, at = j0 / DEA__TILE * map;
        const int partial = a->causal && m->sees[0] < j0 + keys;
        dea__energies(m, j0, keys, rows, partial ? m->reach : NULL, m->query, m->query_row, m->qu, m->x + at, m->y + at,
                      m->ones, a->causal ? NULL : m->sums);
    }
    for (dea__idx r = 0; r < rows; r += DEA__LANES) {
        dea__row_sums(m->sums + r * DEA__LANES, m->scale0 + r);
        dea__row_sums(m->sums + (rows + r) * DEA__LANES, m->scale1 + r);
    }
    for (dea__idx r = 0; a->causal && r < rows; r++) {
        dea_real squares[2];
        dea__centre_row(m->x + r * DEA__TILE, m->y + r * DEA__TILE, map, m->sees[r], m->ramp, squares);
        m->scale0[r] = squares[0];
        m->scale1[r] = squares[1];
    }
    dea__forward_rows(rows, m);
    for (dea__idx r = 0; saved && r < count; r++) {
        saved[i0 + r] = m->ones[r];
        saved[queries + i0 + r] = m->scale1[r];
    }
    memset(m->sums, 0, sizeof(dea_real) * (size_t)(rows * DEA__LANES));
    for (dea__idx j0 = 0; j0 < end; j0 += DEA__TILE) {
        const dea__idx keys = end - j0 < DEA__TILE ? end - j0 : DEA__TILE, at = j0 / DEA__TILE * map;
        const int partial = a->causal && m->sees[0] < j0 + keys;
        dea__weigh_tile(f, b, i0, count, rows, j0, keys, partial, m, m->x + at, m->y + at, m->sums, m->rows, m->ob);
        dea__rows_by_tile(j0 ? DEA__ADD_TO_C : DEA__FROM_ZERO_, m, j0, keys, rows, partial ? m->reach : NULL, m->x + at,
                          m->values + j0 * m->values_row, m->values_row, m->ob);
    }
    for (dea__idx r = 0; r < rows; r += DEA__LANES) {
        dea__row_sums(m->sums + r * DEA__LANES, m->scale1 + r);
        const dea__vec sum = dea__load(m->scale1 + r) + dea__load(m->scale0 + r);
        dea__store(m->scale1 + r, sum);
        dea__store(m->scale0 + r, dea__splat(kept) / sum);
    }
    for (dea__idx r = 0; r < count; r++) {
        dea__finish_row(f->out + b * f->o.batch + h * f->o.head + (i0 + r) * f->o.token, m->ob + r * dp,
                        m->rows[r].bad ? DEA__NAN : m->scale0[r], d);
        if (saved) {
            saved[2 * queries + i0 + r] = m->rows[r].shift;
            saved[3 * queries + i0 + r] = m->rows[r].bad ? DEA__NAN : m->scale1[r];
        }
    }
}

static void dea__forward_panel(const dea__fast *f, int b, int h, int split, dea__buffers *m) {
    for (dea__idx i0 = split * m->block; i0 < m->queries; i0 += f->splits * m->block)
        dea__forward_block(f, b, h, i0, m->queries - i0 < m->block ? m->queries - i0 : m->block, m);
}

/* cov = mean k k^T, cov_norm = mean norm k, var_norm = mean norm^2 over centred keys, summed in double. */
static void dea__covariance(dea__buffers *m) {
    const dea__idx dp = m->dp;
    for (dea__idx e = 0; e < dp * dp; e++) m->wide[e] = 0;
    for (dea__idx j = 0; j < m->np; j += 256) {
        dea__product_of(DEA__FROM_ZERO_, 1, dp, dp, m->np - j < 256 ? m->np - j : 256, m->kc + j * dp, dp,
                        m->kc + j * dp, dp, m->square, dp);
        for (dea__idx e = 0; e < dp * dp; e++) m->wide[e] += (double)m->square[e];
    }
    for (dea__idx e = 0; e < dp * dp; e++) m->cov[e] = (dea_real)(m->wide[e] / (double)m->n);
    for (dea__idx c = 0; c < dp; c++) m->wide[c] = 0;
    double squares = 0;
    dea_real least = 0, largest = 0;
    for (dea__idx j = 0; j < m->np; j += 256) {
        const dea__idx end = m->np - j < 256 ? m->np : j + 256;
        for (dea__idx c = 0; c < dp; c += DEA__LANES) {
            dea__vec sum = dea__splat(0);
            for (dea__idx i = j; i < end; i++) sum += dea__load(m->kc + i * dp + c) * dea__splat(m->norm[i]);
            dea__store(m->square, sum);
            for (int e = 0; e < DEA__LANES; e++) m->wide[c + e] += (double)m->square[e];
        }
        for (dea__idx i = j; i < end; i++) {
            squares += (double)m->norm[i] * (double)m->norm[i];
            least = m->norm[i] < least ? m->norm[i] : least;
            largest = m->norm[i] > largest ? m->norm[i] : largest;
        }
    }
    for (dea__idx c = 0; c < dp; c++) m->cov_norm[c] = (dea_real)(m->wide[c] / (double)m->n);
    m->var_norm = (dea_real)(squares / (double)m->n);
    m->trace = 0;
    for (dea__idx c = 0; c < dp; c++) m->trace += m->cov[c * dp + c];
    m->largest_norm = largest > -least ? largest : -least;
    m->longest = DEA__SQRT(m->trace - (dea_real)m->d * least);
}

/* Whether a variance that came (or would come) from the covariance has lost its digits: q' C q' far below |q'|^2 trace C, as
 * when a query stands across a few far keys. Such blocks do not stream. qq, uu = |q'|^2, |u'|^2; `scale` is what turns E1
 * into the units of u. */
static int dea__steep(const dea__buffers *m, dea_real qq, dea_real uu, dea_real var0, dea_real var1, dea_real scale) {
    const dea_real least = (dea_real)0.1 / (dea_real)m->d; /* a tenth of what keys without a direction would give */
    return var0 < least * qq * m->trace || var1 < least * (uu * m->trace + scale * scale * m->var_norm);
}

/* Whether a row might have scores that are not mild, as far as |E0| <= |q'| |k| and |E1| <= |u'| |k| + |norm| tell: that
 * needs no look at the scores. */
static int dea__wild(const dea__buffers *m, dea_real qq, dea_real uu, dea_real scale) {
    const dea_real most = DEA__SCORE_MILD;
    return !(DEA__SQRT(qq) * m->longest < most && DEA__SQRT(uu) * m->longest + scale * m->largest_norm < most);
}

/* Inner products over a block: out[r] = x_r.y_r, for rows dp apart. */
static void dea__row_products(const dea__buffers *m, dea__idx rows, const dea_real *x, const dea_real *y,
                              dea_real *out) {
    for (dea__idx r = 0; r < rows; r++) {
        dea__vec sum = dea__splat(0);
        for (dea__idx c = 0; c < m->dp; c += DEA__LANES)
            sum += dea__load(x + r * m->dp + c) * dea__load(y + r * m->dp + c);
        dea__store(m->sums + r * DEA__LANES, sum);
    }
    for (dea__idx r = 0; r < rows; r += DEA__LANES) dea__row_sums(m->sums + r * DEA__LANES, out + r);
}

/* Keys stream: DEA__CHUNK of them stay in the second cache while DEA__SPAN queries pass by, a block at a time. The variances
 * come from the covariance of the keys: var0 = q' C q', var1 = u' C u' + 2 u'.c + v. */
static void dea__forward_stream(const dea__fast *f, int b, int h, int split, dea__buffers *m) {
    const dea_attention *a = f->a;
    const dea__idx d = m->d, dp = m->dp, queries = a->seq_q, blocks = (queries + DEA__BLOCK - 1) / DEA__BLOCK;
    const dea__idx first = blocks * split / f->splits * DEA__BLOCK;
    dea__idx last = blocks * (split + 1) / f->splits * DEA__BLOCK;
    if (last > queries) last = queries;
    const dea_real root = (dea_real)(1 / sqrt((double)d)), twice = 2 / (dea_real)d,
                   kept = (dea_real)(1 / (1 - (double)a->dropout)), unit = DEA__LOG2_UNIT;
    dea_real *saved = f->saved_out ? f->saved_out + ((dea__idx)b * a->heads + h) * 4 * queries : NULL;
    const int with_max = m->with_max;
    for (dea__idx span = first; span < last; span += DEA__SPAN) {
        const dea__idx stop = last - span < DEA__SPAN ? last : span + DEA__SPAN;
        int steep[DEA__SPAN / DEA__BLOCK] = {0}, wild[DEA__SPAN / DEA__BLOCK] = {0};
        for (dea__idx i0 = span; i0 < stop; i0 += DEA__BLOCK) {
            const dea__idx count = stop - i0 < DEA__BLOCK ? stop - i0 : DEA__BLOCK, rows = DEA__BLOCK, at = i0 - span;
            dea_real qq[2 * DEA__BLOCK], qcq[2 * DEA__BLOCK];
            dea_real *qu = m->qu + 2 * at * dp, *u = qu + rows * dp;
            dea__row *row = m->rows + at;
            for (dea__idx r = 0; r < rows; r++) {
                m->scale0[at + r] = root;
                m->scale1[at + r] = twice;
            }
            dea__load_block(f, b, h, NULL, i0, count, rows, m, row, u);
            dea__scale_block(m, rows, m->scale0 + at, m->scale1 + at, u, qu);
            dea__product_of(DEA__FROM_ZERO_, 0, 2 * rows, dp, dp, qu, dp, m->cov, dp, m->qc, dp);
            for (dea__idx r = 0; r < rows; r++)
                for (dea__idx c = 0; c < dp; c += DEA__LANES) {
                    dea_real *ucu = m->qc + (rows + r) * dp + c;
                    dea__store(ucu, dea__load(ucu) + dea__load(m->cov_norm + c) * dea__splat(2));
                }
            dea__row_products(m, 2 * rows, qu, m->qc, qcq);
            dea__row_products(m, 2 * rows, qu, qu, qq);
            for (dea__idx r = 0; r < rows; r++) {
                dea_real var0 = qcq[r], var1 = qcq[rows + r] + m->var_norm;
                if (var0 < 0) var0 = 0;
                if (var1 < 0) var1 = 0;
                steep[at / DEA__BLOCK] |= r < count && dea__steep(m, qq[r], qq[rows + r], var0, var1, 1);
                const dea_real sigma0 = DEA__SQRT(var0), sigma1 = DEA__SQRT(var1);
                const dea_real s0 = unit * m->temperature / (sigma0 + (dea_real)DEA_SIGMA_EPS),
                               s1 = unit * m->temperature / (sigma1 + (dea_real)DEA_SIGMA_EPS);
                if (saved && r < count) {
                    saved[i0 + r] = sigma0;
                    saved[queries + i0 + r] = sigma1;
                }
                row[r].e0 = row[r].e1 = 1;
                row[r].w0 = -m->gate0 / m->temperature;
                row[r].w1 = -m->gate1 / m->temperature;
                row[r].gate = m->gates[r];
                wild[at / DEA__BLOCK] |= with_max && dea__wild(m, s0 * s0 * qq[r], s1 * s1 * qq[rows + r], s1);
                m->ones[at + r] = s1;
                m->minus_delta[at + r] = m->poison + 0 * (sigma0 + sigma1 + m->gates[r]);
                for (dea__idx c = 0; c < dp; c += DEA__LANES) {
                    dea__store(qu + r * dp + c, dea__load(qu + r * dp + c) * dea__splat(s0));
                    dea__store(u + r * dp + c, dea__load(u + r * dp + c) * dea__splat(s1));
                }
            }
            for (dea__idx r = 0; r < rows; r++) row[r].shift = wild[at / DEA__BLOCK] ? -DEA__REAL_MAX : 0;
        }
        memset(m->ob, 0, sizeof(dea_real) * (size_t)(DEA__SPAN * dp));
        memset(m->row_sum, 0, sizeof(dea_real) * DEA__SPAN);
        for (dea__idx k0 = 0; k0 < m->np; k0 += DEA__CHUNK) {
            const dea__idx k1 = m->np - k0 < DEA__CHUNK ? m->np : k0 + DEA__CHUNK;
            for (dea__idx i0 = span; i0 < stop; i0 += DEA__BLOCK) {
                const dea__idx count = stop - i0 < DEA__BLOCK ? stop - i0 : DEA__BLOCK, rows = DEA__BLOCK,
                               at = i0 - span;
                if (steep[at / DEA__BLOCK]) continue;
                m->with_max = wild[at / DEA__BLOCK];
                dea_real *ob = m->ob + at * dp;
                memset(m->sums, 0, sizeof(dea_real) * (size_t)(rows * DEA__LANES));
                if (m->with_max)
                    for (dea__idx r = 0; r < rows; r++) m->sums[r * DEA__LANES] = m->row_sum[at + r];
                for (dea__idx j0 = k0; j0 < k1; j0 += DEA__TILE) {
                    const dea__idx keys = k1 - j0 < DEA__TILE ? k1 - j0 : DEA__TILE;
                    dea__energies(m, j0, keys, rows, NULL, m->qu + 2 * at * dp, dp, m->qu + (2 * at + rows) * dp, m->x,
                                  m->y, m->ones + at, NULL);
                    dea__weigh_tile(f, b, i0, count, rows, j0, keys, 0, m, m->x, m->y, m->sums, m->rows + at, ob);
                    dea__rows_by_tile(DEA__ADD_TO_C, m, j0, keys, rows, NULL, m->x, m->values + j0 * m->values_row,
                                      m->values_row, ob);
                }
                for (dea__idx r = 0; r < rows; r += DEA__LANES) {
                    dea_real sum[DEA__LANES];
                    dea__row_sums(m->sums + r * DEA__LANES, sum);
                    for (int e = 0; e < DEA__LANES; e++)
                        m->row_sum[at + r + e] = m->with_max ? sum[e] : m->row_sum[at + r + e] + sum[e];
                }
            }
        }
        for (dea__idx i = span; i < stop; i++) {
            if (steep[(i - span) / DEA__BLOCK]) continue;
            const dea_real sum = m->row_sum[i - span] + m->minus_delta[i - span];
            dea__finish_row(f->out + b * f->o.batch + h * f->o.head + i * f->o.token, m->ob + (i - span) * dp,
                            kept / sum, d);
            if (saved) {
                saved[2 * queries + i] = m->rows[i - span].shift;
                saved[3 * queries + i] = sum;
            }
        }
        m->with_max = with_max;
        for (dea__idx i0 = span; i0 < stop; i0 += m->block)
            if (steep[(i0 - span) / DEA__BLOCK])
                dea__forward_block(f, b, h, i0, stop - i0 < m->block ? stop - i0 : m->block, m);
    }
}

/* ---- backward */

/* The constants of a block's rows, dO' = dO/sum and delta = dO'.O; returns whether any row was shifted. Rows beyond count get
 * zero scales and contribute nothing. u: where U goes unscaled; a panel's energies are raw, as its forward's were, so that
 * the weights come out the same and still sum to 1; a stream's carry their scale. */
static int dea__backward_rows(const dea__fast *f, int b, int h, dea__idx i0, dea__idx count, dea__idx rows,
                              dea__buffers *m, int panel, dea_real *u, dea_real *qu, dea_real *go, dea__row *row,
                              dea_real *norm_scale, dea_real *minus_delta) {
    const dea_attention *a = f->a;
    const dea__idx d = m->d, dp = m->dp, queries = a->seq_q, base = b * f->o.batch + h * f->o.head;
    const dea_real root = (dea_real)(1 / sqrt((double)d)), twice = 2 / (dea_real)d, unit = DEA__LOG2_UNIT,
                   kept = (dea_real)(1 / (1 - (double)a->dropout));
    const dea_real *saved = f->saved + ((dea__idx)b * a->heads + h) * 4 * queries;
    int shifted = 0;
    dea__load_block(f, b, h, NULL, i0, count, rows, m, row, u);
    const dea_real *in = f->d_out + base + i0 * f->o.token;
    dea__idx in_row = f->o.token;
    if (d != dp) {
        dea__pad_rows(count, rows, d, dp, in, in_row, go);
        in = go;
        in_row = dp;
    } else {
        memset(go + count * dp, 0, sizeof(dea_real) * (size_t)((rows - count) * dp));
    }
    for (dea__idx r = 0; r < rows; r++) {
        dea_real factor = 0, delta = 0;
        row[r].s0 = row[r].s1 = row[r].shift = 0;
        if (r < count && !row[r].bad) {
            const dea_real *o = f->out_in + base + (i0 + r) * f->o.token;
            row[r].s0 = m->temperature / (saved[i0 + r] + (dea_real)DEA_SIGMA_EPS);
            row[r].s1 = m->temperature / (saved[queries + i0 + r] + (dea_real)DEA_SIGMA_EPS);
            row[r].shift = saved[2 * queries + i0 + r];
            factor = 1 / saved[3 * queries + i0 + r];
            shifted |= row[r].shift != 0;
            dea__vec sum = dea__splat(0);
            dea__idx c = 0;
            for (; c + DEA__LANES <= d; c += DEA__LANES) sum += dea__load(in + r * in_row + c) * dea__load(o + c);
            for (; c < d; c++) delta += in[r * in_row + c] * o[c];
            delta = (delta + dea__lane_sum(sum)) * factor;
            row[r].bad = a->causal && (delta * 0 != 0 || !dea__all_finite(in + r * in_row, 1, 0, d));
        }
        if (row[r].bad) {
            row[r].s0 = row[r].s1 = row[r].shift = factor = delta = 0;
            memset(go + r * dp, 0, sizeof(dea_real) * (size_t)dp);
            m->last_bad = i0 + r;
        } else if (r < count) {
            const dea__vec share = dea__splat(factor * kept);
            for (dea__idx c = 0; c < dp; c += DEA__LANES)
                dea__store(go + r * dp + c, dea__load(in + r * in_row + c) * share);
        }
        minus_delta[r] = row[r].absent = -delta;
        if (panel) {
            const int used = r < count && !row[r].bad;
            const dea_real s0 = used ? root * unit / (saved[i0 + r] + (dea_real)DEA_SIGMA_EPS) : 0,
                           s1 = used ? twice * unit / (saved[queries + i0 + r] + (dea_real)DEA_SIGMA_EPS) : 0;
            m->scale0[r] = row[r].e0 = m->temperature * s0;
            m->scale1[r] = row[r].e1 = m->temperature * s1;
            row[r].w0 = -m->gate0 * s0;
            row[r].w1 = -m->gate1 * s1;
            norm_scale[r] = (dea_real)d / 2;
        } else {
            m->scale0[r] = root * row[r].s0 * unit;
            m->scale1[r] = twice * row[r].s1 * unit;
            norm_scale[r] = row[r].s1 * unit;
            row[r].e0 = row[r].e1 = 1;
            row[r].w0 = -m->gate0 / m->temperature;
            row[r].w1 = -m->gate1 / m->temperature;
        }
    }
    dea__scale_block(m, rows, m->scale0, m->scale1, u, qu);
    for (dea__idx r = 0; r < rows; r++) row[r].gate = m->gates[r];
    return shifted;
}

static void dea__backward_block(const dea__fast *f, int b, int h, dea__idx i0, dea__idx count, dea__buffers *m) {
    const dea_attention *a = f->a;
    const dea__idx d = m->d, dp = m->dp, queries = a->seq_q, map = m->block * DEA__TILE;
    const dea_real root = (dea_real)(1 / sqrt((double)d)), twice = 2 / (dea_real)d;
    const double unit = (double)DEA__LOG2_UNIT * (double)m->temperature;
    const dea_real *saved = f->saved + ((dea__idx)b * a->heads + h) * 4 * queries;
    const dea__idx rows = dea__round_up(count, DEA__PAD);
    const int shifted =
        dea__backward_rows(f, b, h, i0, count, rows, m, 1, m->u, m->qu, m->go, m->rows, m->ones, m->minus_delta);
    const dea__idx end = m->reach[rows - 1];
    if (a->causal) {
        for (dea__idx j0 = 0; j0 < end; j0 += DEA__TILE) {
            const dea__idx keys = end - j0 < DEA__TILE ? end - j0 : DEA__TILE;
            dea_real *x = m->x + j0 / DEA__TILE * 2 * map;
            dea__energies(m, j0, keys, rows, m->sees[0] < j0 + keys ? m->reach : NULL, m->query, m->query_row, m->u, x,
                          x + rows * DEA__TILE, m->ones, NULL);
        }
        for (dea__idx r = 0; r < rows; r++) {
            dea__centre_row(m->x + r * DEA__TILE, m->x + (rows + r) * DEA__TILE, 2 * map, m->sees[r], m->ramp, NULL);
        }
    }
    memset(m->sums, 0, sizeof(dea_real) * 4 * DEA__BLOCK * DEA__LANES);
    for (dea__idx j0 = 0; j0 < end; j0 += DEA__TILE) {
        const dea__idx keys = end - j0 < DEA__TILE ? end - j0 : DEA__TILE, at = j0 / DEA__TILE * 2 * map;
        const int partial = a->causal && m->sees[0] < j0 + keys;
        const dea__idx *reach = partial ? m->reach : NULL;
        if (!a->causal)
            dea__energies(m, j0, keys, rows, NULL, m->query, m->query_row, m->u, m->x + at,
                          m->x + at + rows * DEA__TILE, m->ones, NULL);
        dea__value_products(m, j0, keys, rows, reach, m->go, m->dmap + at, m->minus_delta);
        dea__differentiate_tile(f, b, i0, count, rows, j0, keys, partial, shifted, m, m->x + at, m->dmap + at, m->p,
                                NULL, m->rows, m->sums);
        dea__keys_by_tile(1, m, j0, keys, rows, reach, m->p, m->go, m->dv + j0 * dp);
    }
    dea_real mean0[DEA__BLOCK], mean1[DEA__BLOCK], c0[DEA__BLOCK], c1[DEA__BLOCK];
    for (dea__idx r = 0; r < rows; r += DEA__LANES) {
        const dea_real *s = m->sums + r * DEA__LANES;
        const dea__idx plane = DEA__BLOCK * DEA__LANES;
        dea__row_sums(s, mean0 + r);
        dea__row_sums(s + plane, mean1 + r);
        dea__row_sums(s + 2 * plane, c0 + r);
        dea__row_sums(s + 3 * plane, c1 + r);
    }
    for (dea__idx r = 0; r < rows; r++) {
        const double inverse = 1 / (double)m->sees[r];
        const int used = r < count && !m->rows[r].bad;
        c0[r] *= m->rows[r].e0;
        c1[r] *= m->rows[r].e1;
        const dea_real sigma0 = used ? saved[i0 + r] : 0, sigma1 = used ? saved[queries + i0 + r] : 0;
        m->dt += ((double)c0[r] + (double)c1[r]) / unit;
        mean0[r] *= (dea_real)inverse;
        mean1[r] *= (dea_real)inverse;
        /* mean(dEt o Et) s/sigma; s/sigma as 1 + eps/sigma, which does not cancel */
        c0[r] = sigma0 == 0
                    ? 0
                    : (dea_real)((double)c0[r] * inverse / (unit * unit) * (1 + DEA_SIGMA_EPS / (double)sigma0));
        c1[r] = sigma1 == 0
                    ? 0
                    : (dea_real)((double)c1[r] * inverse / (unit * unit) * (1 + DEA_SIGMA_EPS / (double)sigma1));
        if (m->sees[r] == 2) { /* nothing but the share of 1e-5 is left; rounding would drown the difference */
            const dea_real left0 = (dea_real)DEA_SIGMA_EPS / (sigma0 + (dea_real)DEA_SIGMA_EPS),
                           left1 = (dea_real)DEA_SIGMA_EPS / (sigma1 + (dea_real)DEA_SIGMA_EPS);
            for (int j = 0; j < 2; j++) {
                m->dmap[r * DEA__TILE + j] *= left0;
                m->dmap[(rows + r) * DEA__TILE + j] *= left1;
            }
            mean0[r] *= left0;
            mean1[r] *= left1;
            c0[r] = c1[r] = 0;
        }
    }
    for (dea__idx j0 = 0; j0 < end; j0 += DEA__TILE) {
        const dea__idx keys = end - j0 < DEA__TILE ? end - j0 : DEA__TILE, at = j0 / DEA__TILE * 2 * map;
        const int partial = a->causal && m->sees[0] < j0 + keys;
        const dea__idx *reach = partial ? m->reach : NULL;
        dea_real *x = m->x + at, *y = x + rows * DEA__TILE, *g0 = m->dmap + at, *g1 = g0 + rows * DEA__TILE;
        for (dea__idx r = 0; r < rows; r++) {
            const dea__idx e = r * DEA__TILE, seen = m->sees[r] - j0;
            const dea__idx n = partial && m->reach[r] - j0 < keys ? m->reach[r] - j0 : keys;
            if (n > 0)
                dea__project(x + e, y + e, g0 + e, g1 + e, m->column + j0, n, mean0[r], mean1[r], c0[r] * m->rows[r].e0,
                             c1[r] * m->rows[r].e1, m->rows[r].s1,
                             partial ? m->ramp + DEA__TILE -
                                           (seen < 0      ? 0
                                            : seen < keys ? seen
                                                          : keys)
                                     : NULL);
        }
        const int start = j0 ? DEA__ADD_TO_C : DEA__FROM_ZERO_;
        if (partial) {
            dea__rows_by_tile(start, m, j0, keys, rows, reach, x, m->kc + j0 * dp, dp, m->dqu);
            dea__rows_by_tile(start, m, j0, keys, rows, reach, y, m->kc + j0 * dp, dp, m->dqu + rows * dp);
        } else {
            dea__rows_by_tile(start, m, j0, keys, 2 * rows, NULL, x, m->kc + j0 * dp, dp, m->dqu);
        }
        dea__keys_by_tile(2, m, j0, keys, rows, reach, x, m->qu, m->dk + j0 * dp);
    }
    dea_real *du = m->dqu + rows * dp;
    for (dea__idx r = 0; r < rows; r++) {
        const dea__vec f0 = dea__splat(root * m->rows[r].s0), f1 = dea__splat(twice * m->rows[r].s1);
        for (dea__idx c = 0; c < dp; c += DEA__LANES) {
            dea__store(m->dqu + r * dp + c, dea__load(m->dqu + r * dp + c) * f0);
            dea__store(du + r * dp + c, dea__load(du + r * dp + c) * f1);
        }
    }
    if (f->gradients.dq) {
        dea__product_of(DEA__ADD_TO_C, 0, rows, dp, dp, du, dp, m->w, dp, m->dqu, dp);
        for (dea__idx r = 0; r < count; r++)
            dea__finish_row(f->gradients.dq + b * f->q.batch + h * f->q.head + (i0 + r) * f->q.token, m->dqu + r * dp,
                            m->rows[r].bad ? DEA__NAN : 1, d);
    }
    if (f->gradients.dw_rel) dea__product_of(DEA__ADD_TO_C, 1, dp, dp, rows, du, dp, m->query, m->query_row, m->dw, dp);
}

static void dea__backward_panel(const dea__fast *f, int b, int h, int split, dea__buffers *m) {
    for (dea__idx i0 = split * m->block; i0 < m->queries; i0 += f->splits * m->block)
        dea__backward_block(f, b, h, i0, m->queries - i0 < m->block ? m->queries - i0 : m->block, m);
}

/* As forward_stream. One pass over the keys; what the row means (known only after it) take away is of low rank, and is taken
 * away afterwards: from dq and du with the covariance, from dk with a vector and a dp x dp matrix a head. */
static void dea__backward_stream(const dea__fast *f, int b, int h, int split, dea__buffers *m) {
    const dea_attention *a = f->a;
    const dea__idx d = m->d, dp = m->dp, queries = a->seq_q, blocks = (queries + DEA__BLOCK - 1) / DEA__BLOCK;
    const dea__idx first = blocks * split / f->splits * DEA__BLOCK;
    dea__idx last = blocks * (split + 1) / f->splits * DEA__BLOCK;
    if (last > queries) last = queries;
    const dea_real root = (dea_real)(1 / sqrt((double)d)), twice = 2 / (dea_real)d;
    const double unit = (double)DEA__LOG2_UNIT * (double)m->temperature, inverse = 1 / (double)m->n;
    const dea_real *saved = f->saved + ((dea__idx)b * a->heads + h) * 4 * queries;
    const int with_max = m->with_max;
    double mean_sum = 0, norm_sum = 0;
    memset(m->m01, 0, sizeof(dea_real) * (size_t)(dp * dp));
    memset(m->a0, 0, sizeof(dea_real) * (size_t)dp);
    memset(m->a1, 0, sizeof(dea_real) * (size_t)dp);
    memset(m->b1, 0, sizeof(dea_real) * (size_t)dp);
    for (dea__idx span = first; span < last; span += DEA__SPAN) {
        const dea__idx stop = last - span < DEA__SPAN ? last : span + DEA__SPAN;
        int shifted = 0, steep[DEA__SPAN / DEA__BLOCK] = {0}, wild[DEA__SPAN / DEA__BLOCK] = {0};
        for (dea__idx i0 = span; i0 < stop; i0 += DEA__BLOCK) {
            const dea__idx count = stop - i0 < DEA__BLOCK ? stop - i0 : DEA__BLOCK, at = i0 - span;
            dea_real qq[2 * DEA__BLOCK];
            dea_real *qu = m->qu + 2 * at * dp;
            shifted |= dea__backward_rows(f, b, h, i0, count, DEA__BLOCK, m, 0, qu + DEA__BLOCK * dp, qu,
                                          m->go + at * dp, m->rows + at, m->ones + at, m->minus_delta + at);
            dea__row_products(m, 2 * DEA__BLOCK, qu, qu, qq);
            for (dea__idx r = 0; r < count; r++) {
                const dea_real s0 = saved[i0 + r] * m->rows[at + r].s0 * DEA__LOG2_UNIT, scale = m->ones[at + r],
                               s1 = saved[queries + i0 + r] * scale, uu = qq[DEA__BLOCK + r];
                steep[at / DEA__BLOCK] |= dea__steep(m, qq[r], uu, s0 * s0, s1 * s1, scale);
                wild[at / DEA__BLOCK] |= with_max && dea__wild(m, qq[r], uu, scale);
            }
        }
        memset(m->dqu, 0, sizeof(dea_real) * (size_t)(2 * DEA__SPAN * dp));
        memset(m->row_sum, 0, sizeof(dea_real) * 4 * DEA__SPAN);
        for (dea__idx k0 = 0; k0 < m->np; k0 += DEA__CHUNK) {
            const dea__idx k1 = m->np - k0 < DEA__CHUNK ? m->np : k0 + DEA__CHUNK;
            for (dea__idx i0 = span; i0 < stop; i0 += DEA__BLOCK) {
                const dea__idx count = stop - i0 < DEA__BLOCK ? stop - i0 : DEA__BLOCK, rows = DEA__BLOCK,
                               at = i0 - span;
                const dea_real *qu = m->qu + 2 * at * dp, *go = m->go + at * dp;
                if (steep[at / DEA__BLOCK]) continue;
                m->with_max = wild[at / DEA__BLOCK];
                memset(m->sums, 0, sizeof(dea_real) * 4 * DEA__BLOCK * DEA__LANES);
                for (dea__idx j0 = k0; j0 < k1; j0 += DEA__TILE) {
                    const dea__idx keys = k1 - j0 < DEA__TILE ? k1 - j0 : DEA__TILE;
                    dea__energies(m, j0, keys, rows, NULL, qu, dp, qu + rows * dp, m->x, m->x + rows * DEA__TILE,
                                  m->ones + at, NULL);
                    dea__value_products(m, j0, keys, rows, NULL, go, m->dmap, m->minus_delta + at);
                    dea__differentiate_tile(f, b, i0, count, rows, j0, keys, 0, shifted, m, m->x, m->dmap, m->p,
                                            m->column + j0, m->rows + at, m->sums);
                    dea__keys_by_tile(1, m, j0, keys, rows, NULL, m->p, go, m->dv + j0 * dp);
                    dea__rows_by_tile(DEA__ADD_TO_C, m, j0, keys, 2 * rows, NULL, m->dmap, m->kc + j0 * dp, dp,
                                      m->dqu + 2 * at * dp);
                    dea__keys_by_tile(2, m, j0, keys, rows, NULL, m->dmap, qu, m->dk + j0 * dp);
                }
                for (int plane = 0; plane < 4; plane++)
                    for (dea__idx r = 0; r < rows; r += DEA__LANES) {
                        dea_real *s = m->row_sum + plane * DEA__SPAN + at + r, sum[DEA__LANES];
                        dea__row_sums(m->sums + (plane * DEA__BLOCK + r) * DEA__LANES, sum);
                        dea__store(s, dea__load(s) + dea__load(sum));
                    }
            }
        }
        for (dea__idx i0 = span; i0 < stop; i0 += DEA__BLOCK) {
            const dea__idx count = stop - i0 < DEA__BLOCK ? stop - i0 : DEA__BLOCK, rows = DEA__BLOCK, at = i0 - span;
            dea_real *dq = m->dqu + 2 * at * dp, *du = dq + rows * dp;
            if (steep[at / DEA__BLOCK]) continue;
            dea__product_of(DEA__FROM_ZERO_, 0, 2 * rows, dp, dp, m->qu + 2 * at * dp, dp, m->cov, dp, m->qc, dp);
            memset(m->rest, 0, sizeof(dea_real) * (size_t)(2 * rows * dp));
            for (dea__idx r = 0; r < count; r++) {
                const dea_real *sums = m->row_sum + at + r, *q = m->qu + (2 * at + r) * dp, *u = q + rows * dp;
                const dea_real sigma0 = saved[i0 + r], sigma1 = saved[queries + i0 + r];
                const dea_real mean0 = (dea_real)((double)sums[0] * inverse),
                               mean1 = (dea_real)((double)sums[DEA__SPAN] * inverse);
                const double r0 = (double)sums[2 * DEA__SPAN], r1 = (double)sums[3 * DEA__SPAN];
                const double c0 = sigma0 == 0 ? 0 : r0 * inverse / (unit * unit) * (1 + DEA_SIGMA_EPS / (double)sigma0),
                             c1 = sigma1 == 0 ? 0 : r1 * inverse / (unit * unit) * (1 + DEA_SIGMA_EPS / (double)sigma1);
                const dea_real s0 = m->rows[at + r].s0, s1 = m->rows[at + r].s1, norm = m->ones[at + r];
                m->dt += (r0 + r1) / unit;
                mean_sum += (double)mean1 * (double)s1;
                norm_sum += c1 * (double)s1 * (double)norm;
                const dea__vec f0 = dea__splat(root * s0), f1 = dea__splat(twice * s1),
                               n0 = dea__splat((dea_real)(c0 * (double)m->n)),
                               n1 = dea__splat((dea_real)(c1 * (double)m->n)),
                               t1 = dea__splat((dea_real)(c1 * (double)m->n * (double)norm)),
                               b1 = dea__splat((dea_real)(c1 * (double)norm)), v0 = dea__splat(mean0),
                               v1 = dea__splat(mean1), k0 = dea__splat((dea_real)c0), k1 = dea__splat((dea_real)c1);
                for (dea__idx c = 0; c < dp; c += DEA__LANES) {
                    const dea__vec qc = dea__load(q + c), uc = dea__load(u + c);
                    dea_real *dqc = dq + r * dp + c, *duc = du + r * dp + c;
                    dea__store(dqc, (dea__load(dqc) - dea__load(m->qc + r * dp + c) * n0) * f0);
                    dea__store(duc, (dea__load(duc) - dea__load(m->qc + (rows + r) * dp + c) * n1 -
                                     dea__load(m->cov_norm + c) * t1) *
                                        f1);
                    dea__store(m->a0 + c, dea__load(m->a0 + c) + qc * v0);
                    dea__store(m->a1 + c, dea__load(m->a1 + c) + uc * v1);
                    dea__store(m->b1 + c, dea__load(m->b1 + c) + uc * b1);
                    dea__store(m->rest + r * dp + c, qc * k0);
                    dea__store(m->rest + (rows + r) * dp + c, uc * k1);
                }
            }
            for (dea__idx e = count * dp; e < rows * dp; e++) du[e] = 0;
            dea__product_of(DEA__ADD_TO_C, 1, dp, dp, 2 * rows, m->rest, dp, m->qu + 2 * at * dp, dp, m->m01, dp);
            if (f->gradients.dq) {
                dea__product_of(DEA__ADD_TO_C, 0, rows, dp, dp, du, dp, m->w, dp, dq, dp);
                for (dea__idx r = 0; r < count; r++)
                    dea__finish_row(f->gradients.dq + b * f->q.batch + h * f->q.head + (i0 + r) * f->q.token,
                                    dq + r * dp, 1, d);
            }
            if (f->gradients.dw_rel) {
                dea__pad_rows(count, rows, d, dp, a->q + b * f->q.batch + h * f->q.head + i0 * f->q.token, f->q.token,
                              m->q);
                dea__product_of(DEA__ADD_TO_C, 1, dp, dp, rows, du, dp, m->q, dp, m->dw, dp);
            }
        }
        m->with_max = with_max;
        for (dea__idx i0 = span; i0 < stop; i0 += m->block)
            if (steep[(i0 - span) / DEA__BLOCK])
                dea__backward_block(f, b, h, i0, stop - i0 < m->block ? stop - i0 : m->block, m);
    }
    for (dea__idx e = 0; e < dp * dp; e += DEA__LANES) dea__store(m->m01 + e, dea__splat(0) - dea__load(m->m01 + e));
    dea__product_of(DEA__ADD_TO_C, 0, m->np, dp, dp, m->kc, dp, m->m01, dp, m->dk, dp);
    for (dea__idx j = 0; j < m->n; j++) {
        const dea_real norm = m->norm[j];
        dea__vec along = dea__splat(0);
        for (dea__idx c = 0; c < dp; c += DEA__LANES) {
            const dea__vec b1 = dea__load(m->b1 + c);
            dea_real *dk = m->dk + j * dp + c;
            along += b1 * dea__load(m->kc + j * dp + c);
            dea__store(dk, dea__load(dk) - dea__load(m->a0 + c) - dea__load(m->a1 + c) - b1 * dea__splat(norm));
        }
        m->column[j] -= (dea_real)(mean_sum + (double)norm * norm_sum) + dea__lane_sum(along) / DEA__LOG2_UNIT;
    }
}

/* dk_j = dk/L - (2/d) k_j sum_i dE1_ij, and dv. */
static void dea__write_keys(const dea__fast *f, int b, int h, int split, const dea__buffers *m) {
    const dea__idx d = m->d, dp = m->dp;
    dea__idx dk_row, dv_row;
    dea_real *dk = dea__key_output(f, 0, b, h, split, &dk_row), *dv = dea__key_output(f, 1, b, h, split, &dv_row);
    const dea__vec inverse = dea__splat(1 / DEA__LOG2_UNIT);
    const dea_real twice = 2 / (dea_real)d;
    for (dea__idx j = 0; j < m->n; j++) {
        dea_real *row = m->dk + j * dp;
        const dea_real factor = j <= m->last_bad ? DEA__NAN : 1;
        if (dk) {
            const dea__vec k = dea__splat(-twice * m->column[j]);
            dea_real *to = d == dp && factor == 1 ? dk + j * dk_row : row;
            for (dea__idx c = 0; c < dp; c += DEA__LANES)
                dea__store(to + c, dea__load(row + c) * inverse + dea__load(m->kc + j * dp + c) * k);
            if (to == row) dea__finish_row(dk + j * dk_row, row, factor, d);
        }
        if (dv) dea__finish_row(dv + j * dv_row, m->dv + j * dp, factor, d);
    }
}

/* ---- tasks */

/* The keys row b may use at all: its length, and with a causal mask those before the first that is not finite, in k or v
 * (m->queries then ends there too, because every later row sees it). */
static dea__idx dea__usable_keys(const dea__fast *f, int b, int h, int with_values, dea__buffers *m) {
    const dea_attention *a = f->a;
    dea__idx n = a->key_lengths ? a->key_lengths[b] : a->seq_k;
    m->queries = a->seq_q;
    if (a->causal) {
        const dea_real *k = a->k + b * f->k.batch + h * f->k.head, *v = a->v + b * f->v.batch + h * f->v.head;
        if (n > a->seq_q) n = a->seq_q;
        if (dea__all_finite(k, n, f->k.token, m->d) && (!with_values || dea__all_finite(v, n, f->v.token, m->d)))
            return n;
        for (dea__idx j = 0; j < n; j++)
            if (!dea__all_finite(k + j * f->k.token, 1, 0, m->d) ||
                (with_values && !dea__all_finite(v + j * f->v.token, 1, 0, m->d))) {
                m->queries = j;
                return j;
            }
    }
    return n;
}

/* Whether a pass streams over n keys, and how many keys a panel may have. */
static int dea__streams(const dea_attention *a, int pass, dea__idx n) {
    if (a->causal || pass == DEA__GATE) return 0;
    return n > (pass == DEA__FORWARD ? DEA__PANEL_KEYS_FORWARD : DEA__PANEL_KEYS_BACKWARD);
}
static dea__idx dea__panel_keys(const dea_attention *a, int pass) {
    if (!dea__streams(a, pass, a->seq_k)) return a->seq_k;
    return pass == DEA__FORWARD ? DEA__PANEL_KEYS_FORWARD : DEA__PANEL_KEYS_BACKWARD;
}

/* Bytes of a worker's slice. */
static size_t dea__slice(const dea_attention *a, int pass) {
    dea__buffers m;
    const int streams = dea__streams(a, pass, a->seq_k);
    const size_t panel = dea__layout(a, pass, 0, dea__panel_keys(a, pass), NULL, &m);
    const size_t stream = streams ? dea__layout(a, pass, 1, a->seq_k, NULL, &m) : 0;
    if (!panel || (streams && !stream)) return 0;
    return panel > stream ? panel : stream;
}

/* Elements of a task's share of the parameters' gradients. */
static dea__idx dea__parameter_count(const dea_attention *a) {
    const dea__idx dp = dea__round_up(a->head_dim, DEA__PAD);
    return dp * dp;
}

static void dea__fill_row(dea_real *p, dea__idx d, dea_real value) {
    for (dea__idx c = 0; c < d; c++) p[c] = value;
}

/* q, k and v of the head and batch row that this worker takes after row b of `task`. */
static void dea__look_ahead(const dea__fast *f, dea__idx task, int b, dea__ahead *ahead) {
    const dea_attention *a = f->a;
    const dea__idx tasks = (dea__idx)a->heads * f->groups * f->splits;
    const int group = (int)(task / f->splits % f->groups);
    memset(ahead, 0, sizeof *ahead);
    if (++b == dea__part(a->batch, group + 1, f->groups)) {
        task += f->workers;
        if (task >= tasks) return;
        b = dea__part(a->batch, (int)(task / f->splits % f->groups), f->groups);
    }
    const dea__idx h = task / f->splits / f->groups, n = a->key_lengths ? a->key_lengths[b] : a->seq_k;
    dea__ahead_add(ahead, a->k + b * f->k.batch + h * f->k.head, n, f->k.token);
    dea__ahead_add(ahead, a->q + b * f->q.batch + h * f->q.head, a->seq_q / f->splits, f->q.token);
    dea__ahead_add(ahead, a->v + b * f->v.batch + h * f->v.head, n, f->v.token);
    ahead->bytes = (dea__idx)a->head_dim * (dea__idx)sizeof(dea_real);
    const dea__idx tiles = (a->seq_k + DEA__TILE - 1) / DEA__TILE, steps = tiles * a->seq_q / f->splits + 1;
    ahead->pace = 1 + (a->seq_q / f->splits + 2 * n) / steps;
}

/* Rows that see no key (value 0) or one that is not finite (NaN): o and saved. */
static void dea__blank_rows(const dea__fast *f, int b, int h, dea__idx first, dea_real value) {
    const dea_attention *a = f->a;
    for (dea__idx i = first; i < a->seq_q; i++) {
        dea__fill_row(f->out + b * f->o.batch + h * f->o.head + i * f->o.token, a->head_dim, value);
        for (int e = 0; e < 4 && f->saved_out; e++)
            f->saved_out[(((dea__idx)b * a->heads + h) * 4 + e) * a->seq_q + i] = value;
    }
}

static void dea__forward_task(const dea__fast *f, dea__idx task, char *base) {
    const dea_attention *a = f->a;
    const int split = (int)(task % f->splits), group = (int)(task / f->splits % f->groups),
              h = (int)(task / f->splits / f->groups);
    dea__buffers *last = (dea__buffers *)(void *)base, m = *last;
    const int packed = m.head == task / f->splits + 1; /* the worker had another split of this head before */
    dea__ahead ahead;
    if (!packed) {
        dea__layout(a, DEA__FORWARD, 0, dea__panel_keys(a, DEA__FORWARD), base, &m);
        dea__pack_head(a, h, &m);
    }
    for (int b = dea__part(a->batch, group, f->groups); b < dea__part(a->batch, group + 1, f->groups); b++) {
        if (!packed) m.n = dea__usable_keys(f, b, h, 1, &m);
        const dea__idx n = m.n, np = dea__round_up(n, DEA__PAD);
        if (n < 1) {
            if (split == 0) dea__blank_rows(f, b, h, 0, m.queries < a->seq_q ? DEA__NAN : 0);
            continue;
        }
        const int stream = dea__streams(a, DEA__FORWARD, n);
        if (!packed) {
            dea__layout(a, DEA__FORWARD, stream, stream ? a->seq_k : dea__panel_keys(a, DEA__FORWARD), base, &m);
            dea__list_blocks(a, b, &m);
            dea__pack_keys(a, a->k + b * f->k.batch + h * f->k.head, f->k.token, n, stream, &m);
            m.values = a->v + b * f->v.batch + h * f->v.head;
            m.values_row = f->v.token;
            if (m.d != m.dp || n != np || f->v.token != m.d) { /* rows far apart would miss in every cache */
                dea__pad_rows(n, np, m.d, m.dp, m.values, f->v.token, m.v);
                m.values = m.v;
                m.values_row = m.dp;
            }
            if (stream) dea__covariance(&m);
        }
        dea__look_ahead(f, task, b, &ahead);
        m.ahead = stream ? NULL : &ahead;
        if (stream)
            dea__forward_stream(f, b, h, split, &m);
        else
            dea__forward_panel(f, b, h, split, &m);
        if (split == 0 && m.queries < a->seq_q) dea__blank_rows(f, b, h, m.queries, DEA__NAN);
    }
    m.head = task / f->splits + 1;
    *last = m;
}

static void dea__backward_task(const dea__fast *f, dea__idx task, char *base) {
    const dea_attention *a = f->a;
    const int split = (int)(task % f->splits), group = (int)(task / f->splits % f->groups),
              h = (int)(task / f->splits / f->groups);
    dea__buffers *last = (dea__buffers *)(void *)base, m = *last;
    const int packed = m.head == task / f->splits + 1;
    if (!packed) {
        dea__layout(a, DEA__BACKWARD, 0, dea__panel_keys(a, DEA__BACKWARD), base, &m);
        dea__pack_head(a, h, &m);
    }
    m.dt = 0;
    m.dw = f->partial_parameters + task * dea__parameter_count(a);
    memset(m.dw, 0, sizeof(dea_real) * (size_t)dea__parameter_count(a));
    for (int b = dea__part(a->batch, group, f->groups); b < dea__part(a->batch, group + 1, f->groups); b++) {
        if (!packed) m.n = dea__usable_keys(f, b, h, 1, &m);
        const dea__idx n = m.n, np = dea__round_up(n, DEA__PAD);
        dea__idx dk_row, dv_row;
        dea_real *dk = dea__key_output(f, 0, b, h, split, &dk_row), *dv = dea__key_output(f, 1, b, h, split, &dv_row);
        const int poisoned = m.queries < a->seq_q;
        m.last_bad = -1;
        if (n > 0) {
            const int stream = dea__streams(a, DEA__BACKWARD, n);
            if (!packed) {
                dea__layout(a, DEA__BACKWARD, stream, stream ? a->seq_k : dea__panel_keys(a, DEA__BACKWARD), base, &m);
                dea__list_blocks(a, b, &m);
                dea__pack_keys(a, a->k + b * f->k.batch + h * f->k.head, f->k.token, n, 1, &m);
                const dea_real *values = a->v + b * f->v.batch + h * f->v.head;
                dea__idx values_row = f->v.token;
                if (m.d != m.dp || n != np) {
                    dea__pad_rows(n, np, m.d, m.dp, values, values_row, m.dk);
                    values = m.dk;
                    values_row = m.dp;
                }
                dea__interleave(np, m.dp, values, values_row, m.vt);
                if (stream) dea__covariance(&m);
            }
            memset(m.dk, 0, sizeof(dea_real) * (size_t)(np * m.dp));
            memset(m.dv, 0, sizeof(dea_real) * (size_t)(np * m.dp));
            memset(m.column, 0, sizeof(dea_real) * (size_t)np);
            if (stream)
                dea__backward_stream(f, b, h, split, &m);
            else
                dea__backward_panel(f, b, h, split, &m);
            if (poisoned) m.last_bad = a->seq_q - 1;
            dea__write_keys(f, b, h, split, &m);
        }
        /* Rows that see a key which is not finite, and the keys they see; keys beyond the last row's sight; rows without keys. */
        dea__idx seen = a->key_lengths ? a->key_lengths[b] : a->seq_k;
        if (a->causal && seen > a->seq_q) seen = a->seq_q;
        if (split == 0) {
            for (dea__idx j = n; j < a->seq_k; j++) {
                if (dk) dea__fill_row(dk + j * dk_row, m.d, j < seen ? DEA__NAN : 0);
                if (dv) dea__fill_row(dv + j * dv_row, m.d, j < seen ? DEA__NAN : 0);
            }
            for (dea__idx i = n > 0 ? m.queries : 0; f->gradients.dq && i < a->seq_q; i++)
                dea__fill_row(f->gradients.dq + b * f->q.batch + h * f->q.head + i * f->q.token, m.d,
                              poisoned ? DEA__NAN : 0);
        } else {
            for (dea__idx j = n; j < seen; j++) {
                if (dk) dea__fill_row(dk + j * dk_row, m.d, 0);
                if (dv) dea__fill_row(dv + j * dv_row, m.d, 0);
            }
        }
        if (m.last_bad >= 0 || poisoned) {
            dea__fill_row(m.dw, dea__parameter_count(a), DEA__NAN);
            m.dt = (double)DEA__NAN;
        }
    }
    f->partial_temperature[task] = m.dt;
    m.head = task / f->splits + 1;
    *last = m;
}
#endif /* DEA__ISA */

#if defined(DEA__ONCE) && !defined(DEA__ISA)

/* ==== 7. Gate loss ===================================================================================================
 * Beta, spotlight and decision loss, and the gate's gradient. Reads q, k and the energies; the only gradients it may touch
 * are dw_gate and dc_gate. */

DEA_API int dea_beta(double et0_t, double et1_t, double et0_p, double et1_p, double *beta) {
    const double slope = (et1_t - et0_t) - (et1_p - et0_p); /* (7) */
    if (!(fabs(slope) >= DEA_BETA_EPS)) return 0;
    const double crossing = (et0_p - et0_t) / (slope + (slope > 0 ? DEA_BETA_EPS : -DEA_BETA_EPS)); /* (8) */
    if (!(crossing >= 0 && crossing <= 1)) return 0;
    *beta = crossing;
    return 1;
}

DEA_API double dea_photo_loss(double alpha, double alpha_hat, double beta, double *d_alpha_hat) {
    const double distance = sqrt((alpha - beta) * (alpha - beta) + 1e-4); /* (9) */
    const double spotlight = 1 + 2 * exp(-distance / 0.1);                /* (10) */
    const double side = tanh((alpha - beta) / 0.05);                      /* (11) */
    const double margin = -side * (alpha_hat - beta) / 0.1;
    const double error = alpha_hat - alpha;
    if (d_alpha_hat) *d_alpha_hat = 2 * spotlight * error - 0.5 * side / 0.1 * dea__sigmoid(margin);
    return spotlight * error * error + 0.5 * dea__softplus(margin); /* (12), (13) */
}

DEA_API dea_gate dea_gate_init(void) {
    dea_gate gate;
    memset(&gate, 0, sizeof gate);
    gate.scale = 1;
    return gate;
}

/* d alpha-hat/dz of (6), times `upstream`: 1 inside the clip and the minimum, limits included, 0 outside; projected: also
 * where descent would bring z back inside. */
static double dea__gate_slope(double z, double upstream, int projected) {
    const double alpha = dea__gate_sigmoid(z);
    const int above = z > 10 || alpha > DEA_ALPHA_MAX, below = z < -10;
    if (above && !(projected && upstream > 0)) return 0;
    if (below && !(projected && upstream < 0)) return 0;
    return upstream * alpha * (1 - alpha);
}

typedef struct
    dea__gate_sums { /* of one head, over the batch; gradients [2d+3] = dw_gate, dc, without the means' 1/n */
    double dense, photo;
    int64_t labelled, valid;
    double *d_dense, *d_photo;
} dea__gate_sums;

typedef struct dea__gate_call {
    const dea_attention *a;
    const dea_gate *gate;
    int wants_gradient;
    dea__gate_sums *sums; /* [H] */
    char *workspace;
    size_t worker_bytes;
} dea__gate_call;

typedef struct dea__gate_scratch {
    dea__plain plain;
    double *z, *beta, *chosen; /* [Tk] */
} dea__gate_scratch;

static void dea__gate_layout(dea__gate_scratch *w, dea__arena *arena, const dea_attention *a) {
    dea__plain_layout(&w->plain, arena, a);
    w->z = dea__take_doubles(arena, (size_t)a->seq_k);
    w->beta = dea__take_doubles(arena, (size_t)a->seq_k);
    w->chosen = dea__take_doubles(arena, (size_t)a->seq_k);
}

/* What all heads share, then one slice a worker. */
static void dea__gate_shared_layout(dea__gate_sums **sums, dea__arena *arena, const dea_attention *a) {
    *sums = (dea__gate_sums *)dea__take(arena, (size_t)a->heads, sizeof **sums);
    for (int h = 0; h < a->heads; h++) {
        double *d_dense = dea__take_doubles(arena, 2 * (size_t)a->head_dim + 3);
        double *d_photo = dea__take_doubles(arena, 2 * (size_t)a->head_dim + 3);
        if (!arena->base || arena->failed) continue;
        memset(&(*sums)[h], 0, sizeof **sums);
        memset(d_dense, 0, (2 * (size_t)a->head_dim + 3) * sizeof *d_dense);
        memset(d_photo, 0, (2 * (size_t)a->head_dim + 3) * sizeof *d_photo);
        (*sums)[h].d_dense = d_dense;
        (*sums)[h].d_photo = d_photo;
    }
}

/* Adds g dz_ij/d(w_gate, c) to d: z = w_q.q_i + w_k.k_j + w_0 Et0 + w_1 Et1 + c. */
static void dea__gate_accumulate(double *d, double g, const dea_real *q, const dea_real *k, dea_real et0, dea_real et1,
                                 int width) {
    if (g == 0) return;
    for (int c = 0; c < width; c++) {
        d[c] += g * (double)q[c];
        d[width + c] += g * (double)k[c];
    }
    d[2 * width] += g * (double)et0;
    d[2 * width + 1] += g * (double)et1;
    d[2 * width + 2] += g;
}

/* The oracle's winner: the labelled visible key with the largest S*(alpha) (4), or -1. */
static int dea__oracle_winner(const dea_real *et0, const dea_real *et1, const dea_real *labels, int n) {
    int winner = -1;
    double best = 0;
    for (int j = 0; j < n; j++) {
        if (labels[j] != labels[j]) continue;
        const double alpha = (double)labels[j], s = (1 - alpha) * (double)et0[j] + alpha * (double)et1[j];
        if (winner < 0 || s > best) winner = j, best = s;
    }
    return winner;
}

/* Distance from alpha within which a valid beta counts as one of the m nearest; ties at that distance are cut by index. */
static void dea__keep_nearest(double *beta, double *chosen, int n, double alpha, int m) {
    int count = 0;
    for (int j = 0; j < n; j++) {
        chosen[j] = 0;
        count += beta[j] == beta[j];
    }
    if (count <= m) return;
    for (int taken = 0; taken < m; taken++) {
        int nearest = -1;
        for (int j = 0; j < n; j++)
            if (beta[j] == beta[j] && chosen[j] == 0 &&
                (nearest < 0 || fabs(beta[j] - alpha) < fabs(beta[nearest] - alpha)))
                nearest = j;
        chosen[nearest] = 1;
    }
    for (int j = 0; j < n; j++)
        if (chosen[j] == 0) beta[j] = NAN;
}

/* One query row: dense term over its labelled cells, photo-finish of its target against the other visible keys. */
static void dea__gate_row(const dea__gate_call *call, int b, int h, int i, dea__gate_scratch *w) {
    const dea_attention *a = call->a;
    const dea_gate *gate = call->gate;
    const int d = a->head_dim, tk = a->seq_k, n = dea__visible(a, b, i);
    const size_t row = (size_t)i * (size_t)tk,
                 map_row = ((size_t)b * (size_t)a->heads + (size_t)h) * (size_t)a->seq_q + (size_t)i;
    const dea_real *et0 = w->plain.et0 + row, *et1 = w->plain.et1 + row, *labels = w->plain.labels;
    const dea__view kv = dea__k_view(a, a->k);
    const dea_real *q = w->plain.q + (size_t)i * (size_t)d, *k = a->k + dea__head_offset(&kv, b, h);
    dea__gate_sums *sums = &call->sums[h];
    dea__label_row(a, b, i, w->plain.labels);
    const double gate_q = dea__gate_query(a, h, q);
    for (int j = 0; j < n; j++) {
        w->z[j] = dea__gate_logit(a, h, gate_q, w->plain.gate_k[j], et0[j], et1[j]);
        if (labels[j] != labels[j]) continue;
        const double error = dea__alpha_hat(w->z[j]) - (double)labels[j];
        sums->dense += error * error;
        sums->labelled++;
        if (call->wants_gradient)
            dea__gate_accumulate(sums->d_dense, dea__gate_slope(w->z[j], 2 * error, gate->projected), q,
                                 k + j * kv.strides.token, et0[j], et1[j], d);
    }
    int target = gate->targets ? gate->targets[(size_t)b * (size_t)a->seq_q + (size_t)i]
                               : dea__oracle_winner(et0, et1, labels, n);
    if (target >= n || (target >= 0 && labels[target] != labels[target])) target = -1;
    if (gate->winners) gate->winners[map_row] = target;
    for (int j = 0; j < tk; j++) {
        w->beta[j] = NAN;
        if (target >= 0 && j < n && j != target)
            (void)dea_beta((double)et0[target], (double)et1[target], (double)et0[j], (double)et1[j], &w->beta[j]);
        if (gate->beta) gate->beta[map_row * (size_t)tk + (size_t)j] = DEA__REAL(w->beta[j]);
    }
    if (target < 0) return;
    const double alpha = (double)labels[target], alpha_hat = dea__alpha_hat(w->z[target]);
    if (gate->hard_negatives) dea__keep_nearest(w->beta, w->chosen, n, alpha, gate->hard_negatives);
    double gradient = 0;
    for (int j = 0; j < n; j++) {
        double slope;
        if (w->beta[j] != w->beta[j]) continue;
        sums->photo += dea_photo_loss(alpha, alpha_hat, w->beta[j], &slope);
        sums->valid++;
        gradient += slope;
    }
    if (call->wants_gradient)
        dea__gate_accumulate(sums->d_photo, dea__gate_slope(w->z[target], gradient, gate->projected), q,
                             k + target * kv.strides.token, et0[target], et1[target], d);
}

static void dea__gate_head(void *context, int job, int worker) {
    const dea__gate_call *call = (const dea__gate_call *)context;
    const dea_attention *a = call->a;
    dea__arena arena = {call->workspace + (size_t)worker * call->worker_bytes, 0, 0};
    dea__gate_scratch scratch;
    dea__gate_layout(&scratch, &arena, a);
    for (int b = 0; b < a->batch; b++) {
        dea__plain_energies(a, b, job, &scratch.plain);
        dea__gate_keys(a, b, job, scratch.plain.gate_k);
        for (int i = 0; i < a->seq_q; i++) dea__gate_row(call, b, job, i, &scratch);
    }
}

static size_t dea__gate_shared_bytes(const dea_attention *a) {
    dea__arena arena = {NULL, 0, 0};
    dea__gate_sums *sums;
    dea__gate_shared_layout(&sums, &arena, a);
    return dea__arena_bytes(&arena);
}

static size_t dea__gate_worker_bytes(const dea_attention *a) {
    dea__arena arena = {NULL, 0, 0};
    dea__gate_scratch scratch;
    dea__gate_layout(&scratch, &arena, a);
    return dea__arena_bytes(&arena);
}

static dea_status dea__check_gate_options(const dea_gate *gate) {
    if (!gate) return DEA_ERR_NULL;
    if (gate->hard_negatives < 0 || !dea__finite((double)gate->scale)) return DEA_ERR_OPTION;
    return DEA_OK;
}

/* Fills and returns one entry of sums a head. */
static const dea__gate_sums *dea__plain_gate(const dea_attention *a, const dea_gate *gate, int wants_gradient,
                                             void *workspace) {
    dea__gate_call call;
    dea__arena arena = {(char *)workspace, 0, 0};
    dea__gate_shared_layout(&call.sums, &arena, a);
    call.a = a;
    call.gate = gate;
    call.wants_gradient = wants_gradient;
    call.workspace = (char *)workspace + dea__gate_shared_bytes(a);
    call.worker_bytes = dea__gate_worker_bytes(a);
    dea__for(&a->threads, a->heads, dea__gate_head, &call);
    return call.sums;
}

#endif /* once */

#ifdef DEA__ISA
#define dea__gate_dense    DEA__FN(dea__gate_dense)
#define dea__gate_betas    DEA__FN(dea__gate_betas)
#define dea__gate_photo    DEA__FN(dea__gate_photo)
#define dea__gate_block    DEA__FN(dea__gate_block)
#define dea__gate_row_sums DEA__FN(dea__gate_row_sums)
#define dea__gate_task     DEA__FN(dea__gate_task)
#define dea__labelled_rows DEA__FN(dea__labelled_rows)
#define dea__gate_nearest  DEA__FN(dea__gate_nearest)
#define dea__sqrts         DEA__FN(dea__sqrts)
#define dea__log1ps        DEA__FN(dea__log1ps)

/* ---- gate loss (7)-(13): rows with labels only, all keys of a block of them at once */

/* Square roots of normal numbers above 0. */
DEA__INLINE dea__vec dea__sqrts(dea__vec x) {
#if DEA__VECTORS && !DEA__REAL_IS_DOUBLE
    const dea__vec half = dea__splat(-0.5f) * x;
    dea__vec y = (dea__vec)(0x5f375a86 - ((dea__ints)x >> 1)); /* 1/sqrt(x) to 3%, then three steps of Newton */
    for (int step = 0; step < 3; step++) y = y * (dea__splat(1.5f) + half * y * y);
    return x * y;
#else
    return dea__root(x);
#endif
}

/* log(1 + e) for e in [0, 1], given t = e/(2 + e): 2 atanh(t). */
DEA__INLINE dea__vec dea__log1ps(dea__vec e, dea__vec t) {
#if DEA__VECTORS && !DEA__REAL_IS_DOUBLE
    const dea__vec s = t * t;
    dea__vec p = s * (2.0f / 13) + dea__splat(2.0f / 11);
    p = p * s + dea__splat(2.0f / 9);
    p = p * s + dea__splat(2.0f / 7);
    p = p * s + dea__splat(2.0f / 5);
    p = p * s + dea__splat(2.0f / 3);
    (void)e;
    return t * (p * s + dea__splat(2));
#else
    dea_real lanes[DEA__LANES];
    (void)t;
    dea__store(lanes, e);
    for (int i = 0; i < DEA__LANES; i++) lanes[i] = DEA__REAL(log1p((double)lanes[i]));
    return dea__load(lanes);
#endif
}

/* What one row's cells add up to. */
typedef struct dea__gate_row_sums {
    double dense, slope, slope0, slope1; /* sums of error^2 and of dz, dz Et0, dz Et1 */
    int64_t labelled;
} dea__gate_row_sums;

/* Dense term over one tile of a row: x, y are Et0, Et1. column += dz. best, winner: the largest S*(alpha) so far. */
static void dea__gate_dense(const dea__cells *c, const dea_real *x_, const dea_real *y_, dea_real *column, dea__idx n,
                            const dea__row *row, int projected, dea__gate_row_sums *sums, double *best,
                            dea__idx *winner) {
    const dea__vec w0 = dea__splat(row->w0), w1 = dea__splat(row->w1), gate = dea__splat(row->gate),
                   zero = dea__splat(0), one = dea__splat(1), high = dea__splat((dea_real)10 * DEA__LOG2_UNIT),
                   low = dea__splat((dea_real)-2.94443897916644046 * DEA__LOG2_UNIT);
    dea__vec dense = zero, slope = zero, slope0 = zero, slope1 = zero, count = zero;
    for (dea__idx j = 0; j < n; j += DEA__LANES) {
        const dea__vec label = dea__load(c->label + j), x = dea__load(x_ + j), y = dea__load(y_ + j);
        const dea__ints has = (dea__ints)(label == label);
        const dea__vec some = dea__pick(has, one, zero);
        dea__vec alpha;
        dea__gate_steps(1, 1, &x, &y, c->gk + j, &w0, &w1, &gate, &alpha);
        const dea__vec z = dea__load(c->gk + j) + gate + x * w0 + y * w1;                     /* -L z */
        alpha = dea__pick((dea__ints)(z < low), dea__splat(DEA__REAL(DEA_ALPHA_MAX)), alpha); /* to the last bit */
        const dea__vec error = dea__pick(has, alpha - label, zero);
        dea__vec open = dea__pick((dea__ints)(z > high), zero, one);
        open = dea__pick((dea__ints)(z < low), zero, open);
        if (projected) { /* also where descent would bring z back inside */
            open = dea__pick((dea__ints)(z < low), dea__pick((dea__ints)(error > zero), one, zero), open);
            open = dea__pick((dea__ints)(z > high), dea__pick((dea__ints)(error < zero), one, zero), open);
            /* above 0.95 the slope is that of the clipped sigmoid, not of 0.95 */
            alpha = dea__largest(z, dea__splat((dea_real)-10 * DEA__LOG2_UNIT));
            alpha = dea__least(alpha, high);
            dea__exp2s(1, &alpha);
            alpha = one / (alpha + one);
        }
        const dea__vec dz = (error + error) * open * alpha * (one - alpha);
        dense += error * error;
        count += some;
        slope += dz;
        slope0 += dz * x;
        slope1 += dz * y;
        dea__store(column + j, dea__load(column + j) + dz);
        if (best)
            for (dea__idx i = j; i < j + DEA__LANES; i++) {
                const double a = (double)c->label[i];
                if (!(a == a)) continue;
                const double s = (1 - a) * (double)x_[i] + a * (double)y_[i];
                if (*winner < 0 || s > *best) {
                    *best = s;
                    *winner = (dea__idx)c->first + i;
                }
            }
    }
    sums->dense += (double)dea__lane_sum(dense);
    sums->slope += (double)dea__lane_sum(slope);
    sums->slope0 += (double)dea__lane_sum(slope0);
    sums->slope1 += (double)dea__lane_sum(slope1);
    sums->labelled += (int64_t)dea__lane_sum(count);
}

/* Photo-finish of a target with energies e0, e1 against the n keys of a tile: y becomes beta, x its distance from alpha, and
 * DEA__REAL_MAX where the finish is not valid. keep: 0 where the row does not see. */
static void dea__gate_betas(dea_real *x_, dea_real *y_, const dea_real *keep, dea__idx n, dea_real e0, dea_real e1,
                            dea_real alpha) {
    const dea__vec t0 = dea__splat(e0), t = dea__splat(e1 - e0), a = dea__splat(alpha), zero = dea__splat(0),
                   one = dea__splat(1), eps = dea__splat((dea_real)DEA_BETA_EPS), never = dea__splat(DEA__REAL_MAX);
    for (dea__idx j = 0; j < n; j += DEA__LANES) {
        const dea__vec x = dea__load(x_ + j), slope = t - (dea__load(y_ + j) - x);
        const dea__vec size = dea__largest(slope, zero - slope);
        const dea__vec sign = dea__pick((dea__ints)(slope > zero), eps, zero - eps);
        const dea__vec beta = (x - t0) / (slope + sign);
        dea__vec distance = dea__largest(a - beta, beta - a);
        distance = dea__pick((dea__ints)(size >= eps), distance, never);
        distance = dea__pick((dea__ints)(beta >= zero), distance, never);
        distance = dea__pick((dea__ints)(beta <= one), distance, never);
        distance = dea__pick((dea__ints)(dea__load(keep + j) > zero), distance, never);
        dea__store(x_ + j, distance);
        dea__store(y_ + j, beta);
    }
}

/* (9)-(13) over the n betas of a tile whose distance is not above `within`. sums: L_tp, its slope by alpha-hat, the count. */
static void dea__gate_photo(const dea_real *distance_, const dea_real *beta_, dea__idx n, dea_real alpha,
                            dea_real alpha_hat, dea_real within, double *sums) {
    const dea__vec a = dea__splat(alpha), ah = dea__splat(alpha_hat), error = ah - a, zero = dea__splat(0),
                   one = dea__splat(1), two = dea__splat(2), limit = dea__splat(within),
                   half = dea__splat((dea_real)0.5), unit = dea__splat(DEA__LOG2_UNIT);
    dea__vec loss = zero, slope = zero, count = zero;
    for (dea__idx j = 0; j < n; j += DEA__LANES) {
        const dea__vec beta = dea__load(beta_ + j),
                       valid = dea__pick((dea__ints)(dea__load(distance_ + j) <= limit), one, zero);
        /* lanes that are not valid go through with beta = alpha, and count for nothing */
        const dea__vec off = dea__pick((dea__ints)(valid > zero), a - beta, zero), size = dea__largest(off, zero - off);
        dea__vec e[3] = {dea__sqrts(off * off + dea__splat((dea_real)1e-4)) * (dea__splat(-10) * unit),
                         size * (dea__splat(-40) * unit), zero};
        dea__exp2s(1, e);
        dea__exp2s(1, e + 1);
        const dea__vec weight = one + two * e[0];
        dea__vec side = (one - e[1]) / (one + e[1]); /* tanh(|off|/0.05) */
        side = dea__pick((dea__ints)(off < zero), zero - side, side);
        const dea__vec margin = side * (ah - a + off) * dea__splat(10), reach = dea__largest(margin, zero - margin);
        e[2] = zero - reach * unit;
        dea__exp2s(1, e + 2);
        /* softplus(-margin) and its slope by -margin, from e = exp(-|margin|) */
        const dea__vec once = one + e[2], twice = two + e[2], inverse = one / (once * twice);
        const dea__vec decision = dea__largest(zero - margin, zero) + dea__log1ps(e[2], e[2] * once * inverse);
        const dea__vec share = dea__pick((dea__ints)(margin < zero), one, e[2]) * twice * inverse;
        loss += valid * (weight * error * error + half * decision);
        slope += valid * (two * weight * error - dea__splat(5) * side * share);
        count += valid;
    }
    sums[0] += (double)dea__lane_sum(loss);
    sums[1] += (double)dea__lane_sum(slope);
    sums[2] += (double)dea__lane_sum(count);
}

/* The m-th smallest of the n distances of a row, found by halving [0, 1]; *ties gets how many at exactly that distance count.
 * 1 if there are no more than m valid ones: then all count. Distances are in [0, 1], or DEA__REAL_MAX. */
static dea_real dea__gate_nearest(const dea_real *row, dea__idx tile, dea__idx n, dea__idx m, dea__idx *ties) {
    dea_real below = -1, above = 1; /* fewer than m distances are <= below; more than m are <= above */
    for (int first = 1;; first = 0) {
        const dea_real middle = below + (above - below) / 2;
        const dea_real probe = first || middle <= below || middle >= above ? above : middle;
        dea__idx count = 0, at_largest = 0;
        dea_real largest = -1; /* of those <= probe */
        for (dea__idx j = 0; j < n; j++) {
            const dea_real x = row[j / DEA__TILE * tile + j % DEA__TILE];
            if (!(x <= probe)) continue;
            count++;
            if (x > largest) largest = x, at_largest = 0;
            at_largest += x == largest;
        }
        if (first && count <= m) {
            *ties = n;
            return 1;
        }
        if (count >= m && count - at_largest < m) {
            *ties = m - (count - at_largest);
            return largest;
        }
        if (count < m)
            below = probe;
        else
            above = largest;
    }
}

/* Labels of `count` listed rows against all keys: everything one block adds to `sums`. */
static void dea__gate_block(const dea__fast *f, int b, int h, const int *list, dea__idx count, dea__buffers *m,
                            dea__gate_sums *sums) {
    const dea_attention *a = f->a;
    const dea_gate *gate = f->gate;
    const dea__idx d = m->d, dp = m->dp, queries = a->seq_q, map = m->block * DEA__TILE,
                   rows = dea__round_up(count, DEA__PAD);
    const dea_real root = (dea_real)(1 / sqrt((double)d)), twice = 2 / (dea_real)d;
    const dea_real *saved = f->saved + ((dea__idx)b * a->heads + h) * 4 * queries;
    dea__gate_row_sums row_sums[DEA__BLOCK];
    double best[DEA__BLOCK];
    dea__idx winner[DEA__BLOCK];
    dea__load_block(f, b, h, list, 0, count, rows, m, m->rows, m->qu + rows * dp);
    for (dea__idx r = 0; r < rows; r++) {
        const int used = r < count && !m->rows[r].bad;
        m->ones[r] = used ? 1 / (saved[queries + list[r]] + (dea_real)DEA_SIGMA_EPS) : 0;
        m->scale0[r] = used ? root / (saved[list[r]] + (dea_real)DEA_SIGMA_EPS) : 0;
        m->scale1[r] = twice * m->ones[r];
        winner[r] = -1;
        memset(&row_sums[r], 0, sizeof row_sums[r]);
    }
    dea__scale_block(m, rows, m->scale0, m->scale1, m->qu + rows * dp, m->qu);
    for (dea__idx r = 0; r < rows; r++) {
        m->rows[r].w0 = -m->gate0 * DEA__LOG2_UNIT;
        m->rows[r].w1 = -m->gate1 * DEA__LOG2_UNIT;
        m->rows[r].gate = m->gates[r];
    }
    const dea__idx end = m->reach[rows - 1];
    for (dea__idx j0 = 0; j0 < end; j0 += DEA__TILE) {
        const dea__idx keys = end - j0 < DEA__TILE ? end - j0 : DEA__TILE, at = j0 / DEA__TILE * map;
        const int partial = a->causal && m->sees[0] < j0 + keys;
        dea__energies(m, j0, keys, rows, partial ? m->reach : NULL, m->qu, dp, m->qu + rows * dp, m->x + at, m->y + at,
                      m->ones, NULL);
    }
    for (dea__idx r = 0; a->causal && r < count; r++) {
        dea__centre_row(m->x + r * DEA__TILE, m->y + r * DEA__TILE, map, m->sees[r], m->ramp, NULL);
    }
    for (dea__idx j0 = 0; j0 < end; j0 += DEA__TILE) {
        const dea__idx keys = end - j0 < DEA__TILE ? end - j0 : DEA__TILE, at = j0 / DEA__TILE * map;
        if (!dea__label_tile(a, b, list, 0, count, rows, j0, keys, m)) continue;
        for (dea__idx r = 0; r < count; r++) {
            const dea__idx seen = m->sees[r] - j0 < keys ? m->sees[r] - j0 : keys;
            if (seen <= 0) continue;
            const dea__idx reach = dea__round_up(seen, DEA__LANES);
            dea__cells c = {m->gk + j0, NULL, m->label + r * DEA__TILE, 0, 0, (uint32_t)j0};
            for (dea__idx j = seen; j < reach; j++) m->label[r * DEA__TILE + j] = DEA__NAN;
            dea__gate_dense(&c, m->x + at + r * DEA__TILE, m->y + at + r * DEA__TILE, m->column_dense + j0, reach,
                            m->rows + r, gate->projected, &row_sums[r], gate->targets ? NULL : &best[r], &winner[r]);
        }
    }
    for (dea__idx r = 0; r < count; r++) {
        const dea__idx i = list[r], n = m->sees[r];
        const dea__row *row = m->rows + r;
        const dea_real poison = row->bad ? DEA__NAN : m->poison + 0 * (saved[i] + saved[queries + i] + row->gate);
        dea_real *x = m->x + r * DEA__TILE, *y = m->y + r * DEA__TILE;
        dea__idx target = gate->targets ? gate->targets[(dea__idx)b * queries + i] : winner[r];
        const double alpha = target >= 0 && target < n ? dea__label_of(a, b, i, target, m) : NAN;
        double photo_slope = 0;
        sums->dense += row_sums[r].dense + (double)poison;
        sums->labelled += row_sums[r].labelled;
        if (!(alpha == alpha)) target = -1;
        if (gate->winners) gate->winners[((dea__idx)b * a->heads + h) * queries + i] = (int)target;
        if (target >= 0) {
            const dea__idx at = target / DEA__TILE * map + target % DEA__TILE;
            const dea_real e0 = x[at], e1 = y[at];
            const double z =
                -(double)(m->gk[target] + row->gate + e0 * row->w0 + e1 * row->w1) / (double)DEA__LOG2_UNIT;
            const dea_real alpha_hat = (dea_real)dea__alpha_hat(z);
            double photo[3] = {0, 0, 0};
            for (dea__idx j0 = 0; j0 < n; j0 += DEA__TILE) {
                const dea__idx seen = n - j0 < DEA__TILE ? n - j0 : DEA__TILE, to = j0 / DEA__TILE * map;
                dea__gate_betas(x + to, y + to, m->ramp + DEA__TILE - seen, dea__round_up(seen, DEA__LANES), e0, e1,
                                (dea_real)alpha);
            }
            x[at] = DEA__REAL_MAX;
            for (dea__idx j = 0; gate->beta && j < n; j++) {
                const dea__idx e = j / DEA__TILE * map + j % DEA__TILE;
                gate->beta[(((dea__idx)b * a->heads + h) * queries + i) * a->seq_k + j] = x[e] <= 1 ? y[e] : DEA__NAN;
            }
            dea_real within = 1;
            if (gate->hard_negatives) {
                dea__idx ties;
                within = dea__gate_nearest(x, map, n, gate->hard_negatives, &ties);
                for (dea__idx j = 0; j < n; j++) {
                    dea_real *distance = x + j / DEA__TILE * map + j % DEA__TILE;
                    if (*distance == within && --ties < 0) *distance = DEA__REAL_MAX;
                }
            }
            for (dea__idx j0 = 0; j0 < n; j0 += DEA__TILE) {
                const dea__idx seen = n - j0 < DEA__TILE ? n - j0 : DEA__TILE, to = j0 / DEA__TILE * map;
                dea__gate_photo(x + to, y + to, dea__round_up(seen, DEA__LANES), (dea_real)alpha, alpha_hat, within,
                                photo);
            }
            sums->photo += photo[0] + (double)poison;
            sums->valid += (int64_t)photo[2];
            photo_slope = dea__gate_slope(z, photo[1], gate->projected) + (double)poison;
            m->column_photo[target] += (dea_real)photo_slope;
            sums->d_photo[2 * d] += photo_slope * (double)e0;
            sums->d_photo[2 * d + 1] += photo_slope * (double)e1;
            sums->d_photo[2 * d + 2] += photo_slope;
        }
        const double slope = row_sums[r].slope + (double)poison;
        sums->d_dense[2 * d] += row_sums[r].slope0;
        sums->d_dense[2 * d + 1] += row_sums[r].slope1;
        sums->d_dense[2 * d + 2] += slope;
        for (dea__idx c = 0; c < d; c++) {
            sums->d_dense[c] += slope * (double)m->q[r * dp + c];
            sums->d_photo[c] += photo_slope * (double)m->q[r * dp + c];
        }
    }
}

static void dea__gate_task(const dea__fast *f, dea__idx task, char *base) {
    const dea_attention *a = f->a;
    const dea_gate *gate = f->gate;
    const int split = (int)(task % f->splits), group = (int)(task / f->splits % f->groups),
              h = (int)(task / f->splits / f->groups);
    dea__gate_sums *sums = f->gate_sums + task;
    dea__buffers m;
    dea__layout(a, DEA__GATE, 0, a->seq_k, base, &m);
    dea__pack_head(a, h, &m);
    for (int b = dea__part(a->batch, group, f->groups); b < dea__part(a->batch, group + 1, f->groups); b++) {
        const dea__idx all = a->key_lengths ? a->key_lengths[b] : a->seq_k, n = dea__usable_keys(f, b, h, 0, &m);
        dea__idx count = 0;
        dea__list_blocks(a, b, &m);
        for (dea__idx i0 = split * DEA__BLOCK; i0 < a->seq_q; i0 += f->splits * DEA__BLOCK)
            for (dea__idx i = i0; i < a->seq_q && i < i0 + DEA__BLOCK; i++) {
                const dea__idx row = ((dea__idx)b * a->heads + h) * a->seq_q + i;
                if (gate->winners) gate->winners[row] = -1;
                for (dea__idx j = 0; gate->beta && j < a->seq_k; j++) gate->beta[row * a->seq_k + j] = DEA__NAN;
                if (!dea__row_labelled(a, b, i, a->causal && i + 1 < all ? i + 1 : all, &m)) continue;
                if (i < m.queries)
                    m.list[count++] = (int)i;
                else
                    sums->dense = (double)DEA__NAN; /* this row sees a key that is not finite */
            }
        if (!count) continue;
        dea__pack_keys(a, a->k + b * f->k.batch + h * f->k.head, f->k.token, n, 1, &m);
        memset(m.column_dense, 0, sizeof(dea_real) * (size_t)m.np);
        memset(m.column_photo, 0, sizeof(dea_real) * (size_t)m.np);
        for (dea__idx r = 0; r < count; r += m.block)
            dea__gate_block(f, b, h, m.list + r, count - r < m.block ? count - r : m.block, &m, sums);
        for (dea__idx j = 0; j < n; j++)
            for (dea__idx c = 0; c < m.d; c++) {
                const double k = (double)m.kc[j * m.dp + c] + (double)m.kbar[c];
                sums->d_dense[m.d + c] += (double)m.column_dense[j] * k;
                sums->d_photo[m.d + c] += (double)m.column_photo[j] * k;
            }
    }
    if (!(sums->dense == sums->dense))
        for (dea__idx c = 0; c < 2 * m.d + 3; c++) sums->d_dense[c] = sums->d_photo[c] = (double)DEA__NAN;
}

/* By value: a table of pointers in the object would need relocation, and so live among the writable data. */
static dea__isa_table DEA__FN(dea__table)(void) {
    dea__isa_table table;
    table.slice = dea__slice;
    table.parameter_count = dea__parameter_count;
    table.forward = dea__forward_task;
    table.backward = dea__backward_task;
    table.gate = dea__gate_task;
    table.gemm = dea__packed_gemm;
    table.gelu = dea__gelu;
    table.gelu_slope = dea__gelu_slope;
    table.norm_row = dea__norm_row;
    table.norm_row_backward = dea__norm_row_backward;
    table.norm_columns = dea__norm_columns;
    table.add_columns = dea__add_columns;
    table.adamw = dea__adamw;
    return table;
}
#endif

#if defined(DEA__ONCE) && !defined(DEA__ISA)

/* ---- the instances: this file once more for each instruction set */
#if DEA__X86
#    if defined(__clang__)
#        pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,fma,avx2"))), apply_to = function)
#    else
#        pragma GCC push_options
#        pragma GCC target("avx512f,avx512dq,avx512vl,fma,avx2,prefer-vector-width=512")
#        pragma GCC optimize("fp-contract=fast") /* -std=c11 forbids a*b + c in one instruction: half the speed */
#    endif
#    define DEA__ISA 512
#    include DEA_HEADER
#    undef DEA__ISA
#    if defined(__clang__)
#        pragma clang attribute pop
#        pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#    else
#        pragma GCC pop_options
#        pragma GCC push_options
#        pragma GCC target("avx2,fma")
#        pragma GCC optimize("fp-contract=fast")
#    endif
#    define DEA__ISA 256
#    include DEA_HEADER
#    undef DEA__ISA
#    if defined(__clang__)
#        pragma clang attribute pop
#    else
#        pragma GCC pop_options
#    endif
#endif
#define DEA__ISA 128
#include DEA_HEADER
#undef DEA__ISA

/* The functions of an instruction set, the best there is for AUTO; all NULL if this CPU or build does not have it. */
static dea__isa_table dea__select(dea_isa isa) {
#if DEA__X86
    __builtin_cpu_init();
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512vl");
    if (avx512 && (isa == DEA_ISA_AUTO || isa == DEA_ISA_AVX512)) return dea__table_512();
    if (avx2 && (isa == DEA_ISA_AUTO || isa == DEA_ISA_AVX2)) return dea__table_256();
#endif
    if (isa == DEA_ISA_AUTO || isa == DEA_ISA_BASELINE) return dea__table_128();
    dea__isa_table none;
    memset(&none, 0, sizeof none);
    return none;
}

/* ---- one call: tasks, workspace, sums */

/* How many parts the batch and the queries of a head are cut into: by the shape alone where sums are kept apart, so that they
 * come out the same for any number of workers. Few heads: the queries are split, so that a single long head keeps several workers busy. */
static void dea__cut(dea__fast *f, const dea_attention *a, int pass) {
    f->groups = a->batch < 16 ? a->batch : 16;
    const int64_t heads = (int64_t)a->heads * f->groups;
    f->splits = a->seq_q < 512 || heads >= 16 || (heads >= 8 && a->seq_q < 2048) ? 1 : heads >= 4 ? 2 : 4;
    if (pass == DEA__FORWARD && (a->threads.count == 1 || heads >= 4 * (int64_t)a->threads.count))
        f->splits = 1; /* rows have no sum in common */
}

/* Deals out the workspace of a pass: partial sums, then a slice a worker. With base NULL it measures; 0 on overflow. */
static size_t dea__fast_layout(dea__fast *f, const dea_attention *a, int pass, void *base, const dea__isa_table *isa) {
    dea__arena arena = {(char *)base, 0, 0};
    dea__cut(f, a, pass);
    const size_t tasks = (size_t)a->heads * (size_t)f->groups * (size_t)f->splits;
    const size_t workers = (size_t)a->threads.count < tasks ? (size_t)a->threads.count : tasks;
    f->workers = (int)workers;
    f->slice_bytes = isa->slice(a, pass);
    if (!f->slice_bytes) return 0;
    if (pass == DEA__BACKWARD) {
        const size_t splits = (size_t)f->splits - 1;
        f->partial_parameters = dea__take_reals(&arena, tasks * (size_t)isa->parameter_count(a));
        f->partial_temperature = dea__take_doubles(&arena, tasks);
        f->partial_keys = (dea_real *)dea__take(&arena, (size_t)a->batch * (size_t)a->heads * splits * 2,
                                                (size_t)a->seq_k * (size_t)a->head_dim * sizeof(dea_real));
    }
    if (pass == DEA__GATE) {
        const size_t width = 2 * (size_t)a->head_dim + 3;
        f->gate_sums = (dea__gate_sums *)dea__take(&arena, tasks, sizeof(dea__gate_sums));
        double *d = dea__take_doubles(&arena, tasks * 2 * width);
        for (size_t t = 0; arena.base && !arena.failed && t < tasks; t++) {
            memset(&f->gate_sums[t], 0, sizeof f->gate_sums[t]);
            f->gate_sums[t].d_dense = d + 2 * t * width;
            f->gate_sums[t].d_photo = d + (2 * t + 1) * width;
        }
        if (arena.base && !arena.failed) memset(d, 0, tasks * 2 * width * sizeof *d);
    }
    f->slices = (char *)dea__take(&arena, workers, f->slice_bytes);
    return dea__arena_bytes(&arena);
}

static size_t dea__fast_workspace(const dea_attention *a, int pass) {
    dea__fast f;
    const dea__isa_table isa = dea__select(a->isa);
    memset(&f, 0, sizeof f);
    return isa.slice ? dea__fast_layout(&f, a, pass, NULL, &isa) : 0;
}

static void dea__fast_job(void *context, int job, int worker) {
    const dea__fast *f = (const dea__fast *)context;
    f->task(f, job, f->slices + (size_t)worker * f->slice_bytes);
}

static void dea__fast_begin(dea__fast *f, const dea_attention *a, int pass, void *workspace) {
    const dea__isa_table isa = dea__select(a->isa);
    f->a = a;
    f->q = dea__q_view(a, NULL).strides;
    f->k = dea__k_view(a, NULL).strides;
    f->v = dea__v_view(a, NULL).strides;
    f->o = dea__o_view(a, NULL).strides;
    (void)dea__fast_layout(f, a, pass, workspace, &isa);
    for (int w = 0; w < f->workers; w++) memset(f->slices + (size_t)w * f->slice_bytes, 0, sizeof(dea__buffers));
    f->add_columns = isa.add_columns;
    f->parameters = isa.parameter_count(a);
    f->task = pass == DEA__FORWARD ? isa.forward : pass == DEA__BACKWARD ? isa.backward : isa.gate;
}

static int dea__fast_tasks(const dea__fast *f) {
    return f->a->heads * f->groups * f->splits;
}

static void dea__fast_forward(const dea_attention *a, dea_real *o, dea_real *saved, void *workspace) {
    dea__fast f;
    memset(&f, 0, sizeof f);
    dea__fast_begin(&f, a, DEA__FORWARD, workspace);
    f.out = o;
    f.saved_out = saved;
    dea__for(&a->threads, dea__fast_tasks(&f), dea__fast_job, &f);
}

/* Adds the splits' dk and dv of one head to those of split 0, in order. */
static void dea__fast_add_keys(void *context, int job, int worker) {
    const dea__fast *f = (const dea__fast *)context;
    const dea_attention *a = f->a;
    const int b = job / a->heads, h = job % a->heads;
    int keys = a->key_lengths ? a->key_lengths[b] : a->seq_k;
    if (a->causal && keys > a->seq_q) keys = a->seq_q;
    for (int which = 0; which < 2; which++)
        for (int split = 1; split < f->splits; split++) {
            dea__idx row, part_row;
            dea_real *sum = dea__key_output(f, which, b, h, 0, &row);
            const dea_real *part = dea__key_output(f, which, b, h, split, &part_row);
            for (dea__idx j = 0; sum && j < keys; j++)
                f->add_columns(part + j * part_row, 1, a->head_dim, sum + j * row);
        }
    (void)worker;
}

/* Adds the tasks' dw_rel of head h to the caller's, in order. */
static void dea__fast_add_parameters(void *context, int h, int worker) {
    const dea__fast *f = (const dea__fast *)context;
    const dea__idx d = f->a->head_dim, per_head = (dea__idx)f->groups * f->splits, size = f->parameters;
    dea_real *sum = f->gradients.dw_rel + h * d * d;
    const dea_real *part = f->partial_parameters + h * per_head * size;
    dea__idx width = d;
    while (width * width < size) width++;
    if (width == d) f->add_columns(part, per_head, size, sum);
    for (dea__idx t = 0; width != d && t < per_head; t++)
        for (dea__idx r = 0; r < d; r++) f->add_columns(part + t * size + r * width, 1, d, sum + r * d);
    (void)worker;
}

static void dea__fast_backward(const dea_attention *a, const dea_real *o, const dea_real *saved, const dea_real *d_o,
                               const dea_gradients *gradients, void *workspace) {
    dea__fast f;
    memset(&f, 0, sizeof f);
    dea__fast_begin(&f, a, DEA__BACKWARD, workspace);
    f.out_in = o;
    f.saved = saved;
    f.d_out = d_o;
    f.gradients = *gradients;
    dea__for(&a->threads, dea__fast_tasks(&f), dea__fast_job, &f);
    if (f.splits > 1) dea__for(&a->threads, a->batch * a->heads, dea__fast_add_keys, &f);
    if (gradients->dw_rel) dea__for(&a->threads, a->heads, dea__fast_add_parameters, &f);
    const int per_head = f.groups * f.splits;
    for (int h = 0; gradients->dtemperature && h < a->heads; h++) {
        double sum = 0;
        for (int t = h * per_head; t < (h + 1) * per_head; t++) sum += f.partial_temperature[t];
        gradients->dtemperature[h] += DEA__REAL(sum);
    }
}

/* Fills f.gate_sums, one entry a task; task t belongs to head t / (f.groups * f.splits). */
static void dea__fast_gate(dea__fast *f, const dea_attention *a, const dea_gate *gate, const dea_real *saved,
                           void *workspace) {
    memset(f, 0, sizeof *f);
    dea__fast_begin(f, a, DEA__GATE, workspace);
    f->saved = saved;
    f->gate = gate;
    dea__for(&a->threads, dea__fast_tasks(f), dea__fast_job, f);
}

/* ---- the general product of room 4 over several workers: bands of rows, or of columns where c is wider than tall */
typedef struct dea__gemm_call {
    int transpose_a, transpose_b;
    dea__idx m, n, k, lda, ldb, ldc;
    dea_real alpha, beta;
    const dea_real *a, *b;
    dea_real *c;
    int bands;
    dea__isa_table isa;
} dea__gemm_call;

static void dea__gemm_band(void *context, int job, int worker) {
    const dea__gemm_call *g = (const dea__gemm_call *)context;
    const int by_rows = g->m >= g->n;
    const dea__idx size = by_rows ? g->m : g->n, unit = (size + 47) / 48;
    const dea__idx from = unit * job / g->bands * 48, end = unit * (job + 1) / g->bands * 48,
                   to = end < size ? end : size;
    if (by_rows)
        g->isa.gemm(g->transpose_a, g->transpose_b, to - from, g->n, g->k, g->alpha,
                    g->a + (g->transpose_a ? from : from * g->lda), g->lda, g->b, g->ldb, g->beta, g->c + from * g->ldc,
                    g->ldc);
    else
        g->isa.gemm(g->transpose_a, g->transpose_b, g->m, to - from, g->k, g->alpha, g->a, g->lda,
                    g->b + (g->transpose_b ? from * g->ldb : from), g->ldb, g->beta, g->c + from, g->ldc);
    (void)worker;
}

static void dea__packed_product(int transpose_a, int transpose_b, int m, int n, int k, double alpha, const dea_real *a,
                                ptrdiff_t lda, const dea_real *b, ptrdiff_t ldb, double beta, dea_real *c,
                                ptrdiff_t ldc, const dea_threads *threads) {
    const int longest = m > n ? m : n;
    dea__gemm_call g = {transpose_a,
                        transpose_b,
                        m,
                        n,
                        k,
                        lda,
                        ldb,
                        ldc,
                        DEA__REAL(alpha),
                        DEA__REAL(beta),
                        a,
                        b,
                        c,
                        1,
                        dea__select(DEA_ISA_AUTO)};
    if (threads && threads->count > 1 && (double)m * n * k > 1e6)
        g.bands = threads->count < (longest + 47) / 48 ? threads->count : (longest + 47) / 48;
    dea__for(threads, g.bands, dea__gemm_band, &g);
}

static int dea__packed_wins(void) {
    return sizeof(dea_real) == sizeof(float) && dea__select(DEA_ISA_AVX2).slice != NULL;
}

/* The plain path: where it is asked for, and for maps. */
static int dea__takes_plain(const dea_attention *a) {
    const dea_maps *maps = &a->maps;
    return a->path == DEA_PATH_PLAIN || maps->et0 || maps->et1 || maps->alpha_hat || maps->alpha_mix || maps->s ||
           maps->a;
}

static dea_status dea__check_path(const dea_attention *a) {
    return dea__select(a->isa).slice ? DEA_OK : DEA_ERR_ISA;
}

/* ---- the public calls: check, choose a path, go */

DEA_API size_t dea_forward_workspace(const dea_attention *a) {
    if (dea__check_shape(a) != DEA_OK || dea__check_path(a) != DEA_OK) return 0;
    return dea__takes_plain(a) ? dea__plain_workspace(a) : dea__fast_workspace(a, DEA__FORWARD);
}

DEA_API size_t dea_backward_workspace(const dea_attention *a) {
    if (dea__check_shape(a) != DEA_OK || dea__check_path(a) != DEA_OK) return 0;
    return dea__takes_plain(a) ? dea__plain_workspace(a) : dea__fast_workspace(a, DEA__BACKWARD);
}

static void dea__add_maps(dea__tensors *tensors, const dea_attention *a) {
    dea_real *const maps[6] = {a->maps.et0, a->maps.et1, a->maps.alpha_hat, a->maps.alpha_mix, a->maps.s, a->maps.a};
    const size_t cells = (size_t)a->batch * (size_t)a->heads * (size_t)a->seq_q * (size_t)a->seq_k;
    for (int i = 0; i < 6; i++) dea__add_flat(tensors, maps[i], cells * sizeof(dea_real), 1);
}

DEA_API dea_status dea_forward(const dea_attention *a, dea_real *o, dea_real *saved, void *workspace,
                               size_t workspace_bytes) {
    dea_status status = dea__check_attention(a, 1);
    if (status == DEA_OK) status = dea__check_path(a);
    if (status != DEA_OK) return status;
    if (!o) return DEA_ERR_NULL;
    dea__tensors tensors;
    tensors.count = 0;
    dea__add_inputs(&tensors, a);
    dea__add_view(&tensors, dea__o_view(a, o), 1);
    dea__add_flat(&tensors, saved, dea_saved_count(a) * sizeof(dea_real), 1);
    dea__add_maps(&tensors, a);
    const size_t bytes = dea_forward_workspace(a);
    status = dea__check_workspace(workspace, workspace_bytes, bytes);
    if (status == DEA_OK) dea__add_flat(&tensors, workspace, bytes, 1);
    if (status == DEA_OK) status = dea__check_alias(&tensors);
    if (status != DEA_OK) return status;
    if (!dea__takes_plain(a)) {
        dea__fast_forward(a, o, saved, workspace);
        return DEA_OK;
    }
    dea__plain_call call;
    memset(&call, 0, sizeof call);
    call.a = a;
    call.out = o;
    call.saved = saved;
    call.workspace = (char *)workspace;
    call.worker_bytes = dea__plain_worker_bytes(a);
    dea__for(&a->threads, a->batch * a->heads, dea__plain_forward_head, &call);
    return DEA_OK;
}

DEA_API dea_status dea_backward(const dea_attention *a, const dea_real *o, const dea_real *saved, const dea_real *d_o,
                                const dea_gradients *gradients, void *workspace, size_t workspace_bytes) {
    dea_status status = dea__check_attention(a, 1);
    if (status == DEA_OK) status = dea__check_path(a);
    if (status != DEA_OK) return status;
    if (!o || !saved || !d_o || !gradients) return DEA_ERR_NULL;
    if (gradients->dtemperature && !a->temperature) return DEA_ERR_NULL;
    dea__tensors tensors;
    tensors.count = 0;
    dea__add_inputs(&tensors, a);
    dea__add_view(&tensors, dea__o_view(a, o), 0);
    dea__add_view(&tensors, dea__o_view(a, d_o), 0);
    dea__add_flat(&tensors, saved, dea_saved_count(a) * sizeof(dea_real), 0);
    dea__add_gradients(&tensors, a, gradients);
    const size_t bytes = dea_backward_workspace(a);
    status = dea__check_workspace(workspace, workspace_bytes, bytes);
    if (status == DEA_OK) dea__add_flat(&tensors, workspace, bytes, 1);
    if (status == DEA_OK) status = dea__check_alias(&tensors);
    if (status != DEA_OK) return status;
    if (!dea__takes_plain(a)) {
        dea__fast_backward(a, o, saved, d_o, gradients, workspace);
        return DEA_OK;
    }
    dea__plain_call call;
    memset(&call, 0, sizeof call);
    call.a = a;
    call.o = o;
    call.saved_in = saved;
    call.d_o = d_o;
    call.gradients = gradients;
    call.workspace = (char *)workspace;
    call.worker_bytes = dea__plain_worker_bytes(a);
    dea__for(&a->threads, a->heads, dea__plain_backward_head, &call);
    return DEA_OK;
}

static dea_status dea__check_gate(const dea_attention *a, const dea_gate *gate) {
    const dea_status status = dea__check_gate_options(gate);
    if (status != DEA_OK) return status;
    if (!dea__has_labels(a)) return DEA_ERR_LABELS_MISSING;
    for (size_t i = 0; gate->targets && i < (size_t)a->batch * (size_t)a->seq_q; i++)
        if (gate->targets[i] < -1 || gate->targets[i] >= a->seq_k) return DEA_ERR_TARGET;
    return DEA_OK;
}

DEA_API size_t dea_gate_loss_workspace(const dea_attention *a, const dea_gate *gate) {
    if (dea__check_shape(a) != DEA_OK || dea__check_path(a) != DEA_OK || dea__check_gate_options(gate) != DEA_OK)
        return 0;
    if (!dea__takes_plain(a)) return dea__fast_workspace(a, DEA__GATE);
    const size_t shared = dea__gate_shared_bytes(a);
    const size_t workers = dea__for_workers(dea__gate_worker_bytes(a), a->threads.count, (size_t)a->heads);
    return !shared || !workers || workers > (size_t)PTRDIFF_MAX - shared ? 0 : shared + workers;
}

DEA_API dea_status dea_gate_loss(const dea_attention *a, const dea_gate *gate, const dea_real *saved,
                                 const dea_gradients *gradients, dea_gate_result *result, void *workspace,
                                 size_t workspace_bytes) {
    dea_status status = dea__check_attention(a, 0);
    if (status == DEA_OK) status = dea__check_path(a);
    if (status == DEA_OK) status = dea__check_gate(a, gate);
    if (status != DEA_OK) return status;
    if (!saved || !result) return DEA_ERR_NULL;
    const size_t cells = (size_t)a->batch * (size_t)a->heads * (size_t)a->seq_q,
                 bytes = dea_gate_loss_workspace(a, gate);
    dea__tensors tensors;
    tensors.count = 0;
    dea__add_inputs(&tensors, a);
    dea__add_flat(&tensors, saved, dea_saved_count(a) * sizeof(dea_real), 0);
    dea__add_flat(&tensors, gate->targets, (size_t)a->batch * (size_t)a->seq_q * sizeof(int), 0);
    dea__add_flat(&tensors, gate->beta, cells * (size_t)a->seq_k * sizeof(dea_real), 1);
    dea__add_flat(&tensors, gate->winners, cells * sizeof(int), 1);
    if (gradients) dea__add_gradients(&tensors, a, gradients);
    status = dea__check_workspace(workspace, workspace_bytes, bytes);
    if (status == DEA_OK) dea__add_flat(&tensors, workspace, bytes, 1);
    if (status == DEA_OK) status = dea__check_alias(&tensors);
    if (status != DEA_OK) return status;

    const int wants_gradient = gradients && (gradients->dw_gate || gradients->dc_gate);
    const dea__gate_sums *sums;
    int count, per_head = 1; /* entries of sums: one a head, or several */
    dea__fast fast;
    if (dea__takes_plain(a)) {
        sums = dea__plain_gate(a, gate, wants_gradient, workspace);
        count = a->heads;
    } else {
        dea__fast_gate(&fast, a, gate, saved, workspace);
        sums = fast.gate_sums;
        count = dea__fast_tasks(&fast);
        per_head = count / a->heads;
    }

    memset(result, 0, sizeof *result);
    for (int s = 0; s < count; s++) {
        result->dense += sums[s].dense;
        result->photo += sums[s].photo;
        result->labelled += sums[s].labelled;
        result->valid += sums[s].valid;
    }
    const double per_cell = result->labelled ? 1.0 / (double)result->labelled : 0;
    const double per_pair = result->valid ? 1.0 / (double)result->valid : 0;
    result->dense *= per_cell;
    result->photo *= per_pair;
    result->loss = result->dense + result->photo;
    const int width = 2 * a->head_dim + 2;
    for (int h = 0; wants_gradient && h < a->heads; h++)
        for (int c = 0; c <= width; c++) {
            double dense = 0, photo = 0;
            for (int s = h * per_head; s < (h + 1) * per_head; s++) {
                dense += sums[s].d_dense[c];
                photo += sums[s].d_photo[c];
            }
            const double g = (double)gate->scale * (per_cell * dense + per_pair * photo);
            if (c < width && gradients->dw_gate)
                gradients->dw_gate[(size_t)h * (size_t)width + (size_t)c] += DEA__REAL(g);
            if (c == width && gradients->dc_gate) gradients->dc_gate[h] += DEA__REAL(g);
        }
    return DEA_OK;
}

/* ==== 8. Parts =======================================================================================================
 * What a Transformer needs besides attention. Each backward quotes the forward line it differentiates. Rows are handed out
 * to workers in fixed chunks, and sums over rows are taken in row order, so bits do not depend on the number of threads. */

enum { DEA__CHUNK_ROWS = 16, DEA__CHUNK_ELEMENTS = 4096 };

/* Whether two pieces of memory share a byte; NULL shares none. */
static int dea__shares(const void *x, size_t x_bytes, const void *y, size_t y_bytes) {
    const uintptr_t x0 = (uintptr_t)x, y0 = (uintptr_t)y;
    return x && y && x0 < y0 + y_bytes && y0 < x0 + x_bytes;
}

static int dea__partial_overlap(const dea_real *x, const dea_real *y, size_t x_count, size_t y_count) {
    return dea__shares(x, x_count * sizeof *x, y, y_count * sizeof *y);
}

/* For element-wise functions: in place is fine, a shifted overlap is not. Chunks are counted in an int. */
static dea_status dea__check_elementwise(const dea_real *x, const dea_real *y, size_t count) {
    if (!x || !y) return DEA_ERR_NULL;
    if (count == 0) return DEA_ERR_SHAPE;
    if (count > (size_t)PTRDIFF_MAX / sizeof(double) || count / DEA__CHUNK_ELEMENTS >= INT32_MAX)
        return DEA_ERR_OVERFLOW;
    return x != y && dea__partial_overlap(x, y, count, count) ? DEA_ERR_ALIAS : DEA_OK;
}

static dea_status dea__check_rows(int rows, int width, int other) {
    if (rows <= 0 || width <= 0 || other <= 0) return DEA_ERR_SHAPE;
    return dea__count(rows, width, 1, 1) && dea__count(rows, other, 1, 1) && dea__count(width, other, 1, 1)
               ? DEA_OK
               : DEA_ERR_OVERFLOW;
}

DEA_API dea_status dea_linear_forward(const dea_real *x, const dea_real *w, const dea_real *b, dea_real *y, int rows,
                                      int in, int out, const dea_threads *threads) {
    if (!x || !w || !y) return DEA_ERR_NULL;
    const dea_status status = dea__check_rows(rows, in, out);
    if (status != DEA_OK) return status;
    const size_t nx = (size_t)rows * (size_t)in, nw = (size_t)out * (size_t)in, ny = (size_t)rows * (size_t)out;
    if (dea__partial_overlap(x, y, nx, ny) || dea__partial_overlap(w, y, nw, ny) ||
        dea__partial_overlap(b, y, (size_t)out, ny))
        return DEA_ERR_ALIAS;
    if (b)
        for (int i = 0; i < rows; i++) memcpy(y + (size_t)i * (size_t)out, b, (size_t)out * sizeof *y);
    dea__gemm(0, 1, rows, out, in, 1, x, in, w, in, b ? 1 : 0, y, out, threads);
    return DEA_OK;
}

DEA_API dea_status dea_linear_backward(const dea_real *x, const dea_real *w, const dea_real *dy, dea_real *dx,
                                       dea_real *dw, dea_real *db, int rows, int in, int out,
                                       const dea_threads *threads) {
    if (!dy || (dx && !w) || (dw && !x)) return DEA_ERR_NULL;
    const dea_status status = dea__check_rows(rows, in, out);
    if (status != DEA_OK) return status;
    const size_t nx = (size_t)rows * (size_t)in, nw = (size_t)out * (size_t)in, ny = (size_t)rows * (size_t)out;
    const dea_real *inputs[3] = {x, w, dy};
    dea_real *outputs[3] = {dx, dw, db};
    const size_t in_count[3] = {nx, nw, ny}, out_count[3] = {nx, nw, (size_t)out};
    for (int i = 0; i < 3; i++)
        for (int o = 0; o < 3; o++)
            if (dea__partial_overlap(inputs[i], outputs[o], in_count[i], out_count[o]) ||
                (i != o && dea__partial_overlap(outputs[i], outputs[o], out_count[i], out_count[o])))
                return DEA_ERR_ALIAS;
    if (dx) dea__gemm(0, 0, rows, in, out, 1, dy, out, w, in, 0, dx, in, threads);
    if (dw) dea__gemm(1, 0, out, in, rows, 1, dy, out, x, in, 1, dw, in, threads);
    if (db) dea__select(DEA_ISA_AUTO).add_columns(dy, rows, out, db);
    return DEA_OK;
}

typedef struct dea__norm_call {
    const dea_real *x, *gain, *bias, *dy;
    dea_real *y, *saved;
    int rows, width;
    double eps;
    dea__isa_table isa;
} dea__norm_call;

static int dea__chunks(size_t count, size_t chunk) {
    return (int)((count + chunk - 1) / chunk);
}

static void dea__norm_forward_chunk(void *context, int job, int worker) {
    const dea__norm_call *n = (const dea__norm_call *)context;
    const int begin = job * DEA__CHUNK_ROWS,
              end = n->rows - begin < DEA__CHUNK_ROWS ? n->rows : begin + DEA__CHUNK_ROWS;
    (void)worker;
    for (int i = begin; i < end; i++) {
        const size_t row = (size_t)i * (size_t)n->width;
        dea_real mean, scale;
        n->isa.norm_row(n->x + row, n->gain, n->bias, n->y + row, n->width, n->eps, &mean, &scale);
        if (n->saved) {
            n->saved[i] = mean;
            n->saved[n->rows + i] = scale;
        }
    }
}

DEA_API dea_status dea_layer_norm_forward(const dea_real *x, const dea_real *gain, const dea_real *bias, dea_real *y,
                                          dea_real *saved, int rows, int width, double eps,
                                          const dea_threads *threads) {
    dea_status status = dea__check_rows(rows, width, 1);
    if (status == DEA_OK) status = dea__check_elementwise(x, y, (size_t)rows * (size_t)width);
    if (status != DEA_OK) return status;
    if (!(eps >= 0) || !dea__finite(eps)) return DEA_ERR_OPTION;
    const size_t count = (size_t)rows * (size_t)width, w = (size_t)width;
    if (dea__partial_overlap(gain, y, w, count) || dea__partial_overlap(bias, y, w, count) ||
        dea__partial_overlap(saved, y, 2 * (size_t)rows, count) ||
        dea__partial_overlap(saved, x, 2 * (size_t)rows, count) ||
        dea__partial_overlap(saved, gain, 2 * (size_t)rows, w) ||
        dea__partial_overlap(saved, bias, 2 * (size_t)rows, w))
        return DEA_ERR_ALIAS;
    dea__norm_call call;
    memset(&call, 0, sizeof call);
    call.x = x, call.gain = gain, call.bias = bias;
    call.y = y, call.saved = saved;
    call.rows = rows, call.width = width, call.eps = eps;
    call.isa = dea__select(DEA_ISA_AUTO);
    dea__for(threads, dea__chunks((size_t)rows, DEA__CHUNK_ROWS), dea__norm_forward_chunk, &call);
    return DEA_OK;
}

/* forward: hat = (x - mean) scale, y = gain hat + bias */
static void dea__norm_backward_chunk(void *context, int job, int worker) {
    const dea__norm_call *n = (const dea__norm_call *)context;
    const int begin = job * DEA__CHUNK_ROWS,
              end = n->rows - begin < DEA__CHUNK_ROWS ? n->rows : begin + DEA__CHUNK_ROWS;
    (void)worker;
    for (int i = begin; i < end; i++) {
        const size_t row = (size_t)i * (size_t)n->width;
        n->isa.norm_row_backward(n->x + row, n->gain, n->dy + row, n->y + row, n->width, n->saved[i],
                                 n->saved[n->rows + i]);
    }
}

DEA_API dea_status dea_layer_norm_backward(const dea_real *x, const dea_real *gain, const dea_real *saved,
                                           const dea_real *dy, dea_real *dx, dea_real *dgain, dea_real *dbias, int rows,
                                           int width, const dea_threads *threads) {
    if (!x || !saved || !dy) return DEA_ERR_NULL;
    const dea_status status = dea__check_rows(rows, width, 1);
    if (status != DEA_OK) return status;
    const size_t large = (size_t)rows * (size_t)width * sizeof *x, small = (size_t)width * sizeof *x;
    dea__tensors tensors;
    tensors.count = 0;
    dea__add_flat(&tensors, x, large, 0);
    dea__add_flat(&tensors, gain, small, 0);
    dea__add_flat(&tensors, saved, 2 * (size_t)rows * sizeof *saved, 0);
    dea__add_flat(&tensors, dx == dy ? NULL : dy, large, 0);
    dea__add_flat(&tensors, dx, large, 1);
    dea__add_flat(&tensors, dgain, small, 1);
    dea__add_flat(&tensors, dbias, small, 1);
    if (dea__check_alias(&tensors) != DEA_OK) return DEA_ERR_ALIAS;
    const dea__isa_table isa = dea__select(DEA_ISA_AUTO);
    if (dgain) isa.norm_columns(x, dy, saved, saved + rows, rows, width, dgain);
    if (dbias) isa.add_columns(dy, rows, width, dbias);
    if (!dx) return DEA_OK;
    dea__norm_call call;
    memset(&call, 0, sizeof call);
    call.x = x, call.gain = gain, call.dy = dy;
    call.y = dx, call.saved = (dea_real *)(uintptr_t)saved;
    call.rows = rows, call.width = width;
    call.isa = dea__select(DEA_ISA_AUTO);
    dea__for(threads, dea__chunks((size_t)rows, DEA__CHUNK_ROWS), dea__norm_backward_chunk, &call);
    return DEA_OK;
}

typedef struct dea__elements {
    const dea_real *x, *dy;
    dea_real *y;
    size_t count;
    dea__isa_table isa;
} dea__elements;

static size_t dea__chunk_end(size_t begin, size_t count) {
    return count - begin < DEA__CHUNK_ELEMENTS ? count : begin + DEA__CHUNK_ELEMENTS;
}

static void dea__gelu_forward_chunk(void *context, int job, int worker) {
    const dea__elements *e = (const dea__elements *)context;
    const size_t begin = (size_t)job * DEA__CHUNK_ELEMENTS, end = dea__chunk_end(begin, e->count);
    (void)worker;
    e->isa.gelu(e->x + begin, e->y + begin, (dea__idx)(end - begin));
}

/* forward: y = x Phi(x) */
static void dea__gelu_backward_chunk(void *context, int job, int worker) {
    const dea__elements *e = (const dea__elements *)context;
    const size_t begin = (size_t)job * DEA__CHUNK_ELEMENTS, end = dea__chunk_end(begin, e->count);
    (void)worker;
    e->isa.gelu_slope(e->x + begin, e->dy + begin, e->y + begin, (dea__idx)(end - begin));
}

DEA_API dea_status dea_gelu_forward(const dea_real *x, dea_real *y, size_t count, const dea_threads *threads) {
    const dea_status status = dea__check_elementwise(x, y, count);
    if (status != DEA_OK) return status;
    dea__elements call = {x, NULL, y, count, dea__select(DEA_ISA_AUTO)};
    dea__for(threads, dea__chunks(count, DEA__CHUNK_ELEMENTS), dea__gelu_forward_chunk, &call);
    return DEA_OK;
}

DEA_API dea_status dea_gelu_backward(const dea_real *x, const dea_real *dy, dea_real *dx, size_t count,
                                     const dea_threads *threads) {
    dea_status status = dea__check_elementwise(x, dx, count);
    if (status == DEA_OK) status = dea__check_elementwise(dy, dx, count);
    if (status != DEA_OK) return status;
    dea__elements call = {x, dy, dx, count, dea__select(DEA_ISA_AUTO)};
    dea__for(threads, dea__chunks(count, DEA__CHUNK_ELEMENTS), dea__gelu_backward_chunk, &call);
    return DEA_OK;
}

DEA_API dea_status dea_tanh_forward(const dea_real *x, dea_real *y, size_t count) {
    const dea_status status = dea__check_elementwise(x, y, count);
    if (status != DEA_OK) return status;
    for (size_t i = 0; i < count; i++) y[i] = DEA__REAL(tanh((double)x[i]));
    return DEA_OK;
}

/* forward: y = tanh x.  dx = dy (1 - y^2) */
DEA_API dea_status dea_tanh_backward(const dea_real *y, const dea_real *dy, dea_real *dx, size_t count) {
    dea_status status = dea__check_elementwise(y, dx, count);
    if (status == DEA_OK) status = dea__check_elementwise(dy, dx, count);
    if (status != DEA_OK) return status;
    for (size_t i = 0; i < count; i++) dx[i] = DEA__REAL((double)dy[i] * (1 - (double)y[i] * (double)y[i]));
    return DEA_OK;
}

DEA_API dea_status dea_dropout(const dea_real *x, dea_real *y, size_t count, double p, uint64_t seed, uint64_t step,
                               uint64_t stream) {
    const dea_status status = dea__check_elementwise(x, y, count);
    if (status != DEA_OK) return status;
    if (!(p >= 0 && p < 1)) return DEA_ERR_DROPOUT;
    const uint32_t threshold = dea__dropout_threshold(p);
    const dea_real scale = DEA__REAL(1 / (1 - p));
    const size_t row = 65536; /* elements that share a key */
    for (size_t begin = 0; begin < count; begin += row) {
        const dea__row_key key = dea__dropout_row(dea__mix64(seed ^ dea__mix64(stream)), step, begin / row);
        const size_t end = count - begin < row ? count : begin + row;
        for (size_t i = begin; i < end; i++)
            y[i] = p == 0 || dea__dropout_bits(key, (uint32_t)(i - begin)) >= threshold ? x[i] * scale : 0;
    }
    return DEA_OK;
}

static dea_status dea__check_ids(const int *ids, int rows, int vocab) {
    for (int i = 0; i < rows; i++)
        if (ids[i] < 0 || ids[i] >= vocab) return DEA_ERR_INDEX;
    return DEA_OK;
}

DEA_API dea_status dea_embedding_forward(const dea_real *table, const int *ids, dea_real *y, int rows, int vocab,
                                         int width, double scale) {
    if (!table || !ids || !y) return DEA_ERR_NULL;
    dea_status status = dea__check_rows(rows, width, vocab);
    if (status == DEA_OK) status = dea__check_ids(ids, rows, vocab);
    if (status != DEA_OK) return status;
    const size_t w = (size_t)width;
    if (dea__partial_overlap(table, y, (size_t)vocab * w, (size_t)rows * w) ||
        dea__shares(ids, (size_t)rows * sizeof *ids, y, (size_t)rows * w * sizeof *y))
        return DEA_ERR_ALIAS;
    for (int i = 0; i < rows; i++)
        for (size_t c = 0; c < w; c++) y[(size_t)i * w + c] = DEA__REAL(scale * (double)table[(size_t)ids[i] * w + c]);
    return DEA_OK;
}

DEA_API dea_status dea_embedding_backward(const int *ids, const dea_real *dy, dea_real *dtable, int rows, int vocab,
                                          int width, double scale) {
    if (!ids || !dy || !dtable) return DEA_ERR_NULL;
    dea_status status = dea__check_rows(rows, width, vocab);
    if (status == DEA_OK) status = dea__check_ids(ids, rows, vocab);
    if (status != DEA_OK) return status;
    const size_t w = (size_t)width;
    if (dea__partial_overlap(dtable, dy, (size_t)vocab * w, (size_t)rows * w) ||
        dea__shares(ids, (size_t)rows * sizeof *ids, dtable, (size_t)vocab * w * sizeof *dtable))
        return DEA_ERR_ALIAS;
    for (int i = 0; i < rows; i++)
        for (size_t c = 0; c < w; c++)
            dtable[(size_t)ids[i] * w + c] += DEA__REAL(scale * (double)dy[(size_t)i * w + c]);
    return DEA_OK;
}

static dea_status dea__check_classes(const dea_real *logits, const int *targets, int rows, int classes,
                                     double smoothing, int *counted) {
    if (!logits || !targets) return DEA_ERR_NULL;
    const dea_status status = dea__check_rows(rows, classes, 1);
    if (status != DEA_OK) return status;
    if (!(smoothing >= 0 && smoothing <= 1)) return DEA_ERR_OPTION;
    *counted = 0;
    for (int i = 0; i < rows; i++) {
        if (targets[i] >= classes) return DEA_ERR_INDEX;
        *counted += targets[i] >= 0;
    }
    return DEA_OK;
}

/* log sum_c exp(x_c - largest), and the largest x apart: beside a large one the logarithm would lose its digits. */
static double dea__log_sum_exp(const dea_real *x, int count, double *largest) {
    double sum = 0;
    *largest = (double)x[0];
    for (int c = 1; c < count; c++)
        if ((double)x[c] > *largest) *largest = (double)x[c];
    for (int c = 0; c < count; c++) sum += exp((double)x[c] - *largest);
    return log(sum);
}

DEA_API dea_status dea_cross_entropy_forward(const dea_real *logits, const int *targets, double *loss, int *counted,
                                             int rows, int classes, double smoothing) {
    int used;
    if (!loss) return DEA_ERR_NULL;
    const dea_status status = dea__check_classes(logits, targets, rows, classes, smoothing, &used);
    if (status != DEA_OK) return status;
    dea__tensors tensors;
    tensors.count = 0;
    dea__add_flat(&tensors, logits, (size_t)rows * (size_t)classes * sizeof *logits, 0);
    dea__add_flat(&tensors, targets, (size_t)rows * sizeof *targets, 0);
    dea__add_flat(&tensors, loss, sizeof *loss, 1);
    dea__add_flat(&tensors, counted, sizeof *counted, 1);
    if (dea__check_alias(&tensors) != DEA_OK) return DEA_ERR_ALIAS;
    double total = 0;
    for (int i = 0; i < rows; i++) {
        if (targets[i] < 0) continue;
        const dea_real *x = logits + (size_t)i * (size_t)classes;
        double largest, mean = 0; /* of largest - x */
        const double log_sum = dea__log_sum_exp(x, classes, &largest);
        for (int c = 0; smoothing > 0 && c < classes; c++) mean += (largest - (double)x[c]) / classes;
        total += log_sum + (1 - smoothing) * (largest - (double)x[targets[i]]) + smoothing * mean;
    }
    *loss = used ? total / used : 0;
    if (counted) *counted = used;
    return DEA_OK;
}

DEA_API dea_status dea_cross_entropy_backward(const dea_real *logits, const int *targets, double d_loss,
                                              dea_real *dlogits, int rows, int classes, double smoothing) {
    int used;
    if (!dlogits) return DEA_ERR_NULL;
    dea_status status = dea__check_classes(logits, targets, rows, classes, smoothing, &used);
    if (status == DEA_OK) status = dea__check_elementwise(logits, dlogits, (size_t)rows * (size_t)classes);
    if (status != DEA_OK) return status;
    if (dea__shares(targets, (size_t)rows * sizeof *targets, dlogits, (size_t)rows * (size_t)classes * sizeof *dlogits))
        return DEA_ERR_ALIAS;
    for (int i = 0; i < rows; i++) {
        const dea_real *x = logits + (size_t)i * (size_t)classes;
        dea_real *dx = dlogits + (size_t)i * (size_t)classes;
        if (targets[i] < 0) {
            memset(dx, 0, (size_t)classes * sizeof *dx);
            continue;
        }
        double largest;
        const double log_sum = dea__log_sum_exp(x, classes, &largest);
        for (int c = 0; c < classes; c++) {
            const double wanted = smoothing / classes + (c == targets[i] ? 1 - smoothing : 0);
            dx[c] = DEA__REAL(d_loss / used * (exp((double)x[c] - largest - log_sum) - wanted));
        }
    }
    return DEA_OK;
}

/* ---- parameters */
DEA_API dea_table dea_table_init(dea_tensor *tensors, int capacity) {
    dea_table table;
    memset(&table, 0, sizeof table);
    table.tensors = tensors;
    table.capacity = capacity;
    return table;
}

DEA_API const dea_tensor *dea_table_find(const dea_table *table, const char *name) {
    for (int i = 0; table && name && i < table->count; i++)
        if (strcmp(table->tensors[i].name, name) == 0) return &table->tensors[i];
    return NULL;
}

DEA_API dea_status dea_table_add(dea_table *table, const char *prefix, const char *name, int rank, const int *shape,
                                 dea_group group, int decay, size_t *offset) {
    if (!table || !table->tensors || !prefix || !name || !shape) return DEA_ERR_NULL;
    if (rank < 1 || rank > 4) return DEA_ERR_SHAPE;
    if ((int)group < 0 || group >= DEA_GROUPS) return DEA_ERR_OPTION;
    if (table->count >= table->capacity) return DEA_ERR_CAPACITY;
    dea_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    const int length = snprintf(tensor.name, sizeof tensor.name, "%s%s", prefix, name);
    if (length < 1 || (size_t)length >= sizeof tensor.name) return DEA_ERR_CAPACITY;
    if (dea_table_find(table, tensor.name)) return DEA_ERR_OPTION;
    for (int i = 0; i < rank; i++) {
        if (shape[i] <= 0) return DEA_ERR_SHAPE;
        tensor.shape[i] = shape[i];
    }
    tensor.count = dea__count(shape[0], rank > 1 ? shape[1] : 1, rank > 2 ? shape[2] : 1, rank > 3 ? shape[3] : 1);
    const size_t unit = DEA_ALIGNMENT / sizeof(dea_real), padded = (tensor.count + unit - 1) / unit * unit;
    if (!tensor.count || table->elements > (size_t)PTRDIFF_MAX / sizeof(double) - padded) return DEA_ERR_OVERFLOW;
    tensor.rank = rank;
    tensor.offset = table->elements;
    tensor.group = group;
    tensor.decay = decay;
    tensor.lr_scale = 1;
    table->elements += padded;
    table->tensors[table->count++] = tensor;
    if (offset) *offset = tensor.offset;
    return DEA_OK;
}

DEA_API void dea_fill_xavier(dea_real *w, size_t count, int fan_in, int fan_out, uint64_t seed) {
    const double limit = sqrt(6.0 / ((double)fan_in + (double)fan_out));
    for (size_t i = 0; i < count; i++) w[i] = DEA__REAL((2 * dea__uniform(seed, i) - 1) * limit);
}

static double dea__normal(uint64_t seed, uint64_t index) { /* Box and Muller; 1 - u is in (0,1] */
    return sqrt(-2 * log(1 - dea__uniform(seed, 2 * index))) * cos(2 * DEA__PI * dea__uniform(seed, 2 * index + 1));
}

DEA_API void dea_fill_normal(dea_real *w, size_t count, double std, uint64_t seed) {
    for (size_t i = 0; i < count; i++) w[i] = DEA__REAL(std * dea__normal(seed, i));
}

/* Gram and Schmidt on the rows, each projection done twice (once loses orthogonality when rows are nearly parallel): the Q of
 * a QR factorisation whose R has a positive diagonal. */
DEA_API void dea_fill_orthogonal(dea_real *w, int n, uint64_t seed) {
    dea_fill_normal(w, (size_t)n * (size_t)n, 1, seed);
    for (int i = 0; i < n; i++) {
        dea_real *row = w + (size_t)i * (size_t)n;
        for (int pass = 0; pass < 2; pass++)
            for (int j = 0; j < i; j++) {
                const dea_real *other = w + (size_t)j * (size_t)n;
                const double along = dea__dot(row, other, n);
                for (int c = 0; c < n; c++) row[c] = DEA__REAL((double)row[c] - along * (double)other[c]);
            }
        const double length = sqrt(dea__dot(row, row, n));
        for (int c = 0; c < n; c++) row[c] = DEA__REAL((double)row[c] / length);
    }
}

/* ==== 9. The layer ===================================================================================================
 * Projections around the attention, over one parameter arena. Mathematics is called, not written, here. */

DEA_API dea_layer dea_layer_init(int d_model, int heads) {
    dea_layer layer;
    memset(&layer, 0, sizeof layer);
    layer.d_model = d_model;
    layer.heads = heads;
    layer.temperature = 2;
    return layer;
}

static dea_status dea__check_layer(const dea_layer *layer) {
    if (!layer) return DEA_ERR_NULL;
    if (layer->d_model <= 0 || layer->heads <= 0 || layer->d_model % layer->heads) return DEA_ERR_SHAPE;
    if (layer->d_model > INT32_MAX / 4) return DEA_ERR_OVERFLOW;
    return DEA_OK;
}

DEA_API dea_status dea_layer_register(dea_layer *layer, dea_table *table, const char *prefix) {
    const dea_status status = dea__check_layer(layer);
    if (status != DEA_OK) return status;
    if (!table || !prefix) return DEA_ERR_NULL;
    dea_layer places = *layer;
    const int d_model = layer->d_model, heads = layer->heads, d = d_model / heads;
    const int qkv[2] = {3 * d_model, d_model}, rel[3] = {heads, d, d}, gate[2] = {heads, 2 * d + 2},
              out[2] = {d_model, d_model};
    const struct {
        const char *name;
        int rank;
        const int *shape;
        dea_group group;
        int decay;
        size_t *offset;
    } rows[8] = {
        {"w_qkv", 2, qkv, DEA_GROUP_MAIN, 1, &places.w_qkv},
        {"b_qkv", 1, qkv, DEA_GROUP_MAIN, 0, &places.b_qkv},
        {"w_rel", 3, rel, DEA_GROUP_MAIN, 1, &places.w_rel},
        {"w_gate", 2, gate, DEA_GROUP_GATE, 1, &places.w_gate},
        {"c_gate", 1, &heads, DEA_GROUP_GATE, 0, &places.c_gate},
        {"w_o", 2, out, DEA_GROUP_MAIN, 1, &places.w_o},
        {"b_o", 1, out, DEA_GROUP_MAIN, 0, &places.b_o},
        {"temperature", 1, &heads, DEA_GROUP_MAIN, 0, &places.temperatures},
    };
    const dea_table before = *table;
    const int count = layer->use_temperature ? 8 : 7;
    for (int i = 0; i < count; i++) {
        const dea_status added = dea_table_add(table, prefix, rows[i].name, rows[i].rank, rows[i].shape, rows[i].group,
                                               rows[i].decay, rows[i].offset);
        if (added != DEA_OK) {
            *table = before;
            return added;
        }
    }
    *layer = places;
    return DEA_OK;
}

DEA_API dea_status dea_layer_reset(const dea_layer *layer, dea_real *params, uint64_t seed) {
    const dea_status status = dea__check_layer(layer);
    if (status != DEA_OK) return status;
    if (!params) return DEA_ERR_NULL;
    if (layer->use_temperature && !(layer->temperature >= DEA_TEMPERATURE_MIN && dea__finite(layer->temperature)))
        return DEA_ERR_TEMPERATURE;
    const int d_model = layer->d_model, heads = layer->heads, d = d_model / heads;
    const size_t square = (size_t)d_model * (size_t)d_model;
    for (int part = 0; part < 3; part++)
        dea_fill_xavier(params + layer->w_qkv + (size_t)part * square, square, d_model, d_model,
                        dea__mix64(seed + (layer->tie_k_to_q && part == 1 ? 0 : (uint64_t)part)));
    dea_fill_xavier(params + layer->w_o, square, d_model, d_model, dea__mix64(seed + 3));
    memset(params + layer->b_qkv, 0, 3 * (size_t)d_model * sizeof *params);
    memset(params + layer->b_o, 0, (size_t)d_model * sizeof *params);
    for (int h = 0; h < heads; h++) {
        dea_real *w_rel = params + layer->w_rel + (size_t)h * (size_t)d * (size_t)d;
        if (layer->w_rel_identity)
            for (ptrdiff_t i = 0; i < (ptrdiff_t)d * d; i++) w_rel[i] = i % (d + 1) == 0 ? 1 : 0;
        else
            dea_fill_orthogonal(w_rel, d, dea__mix64(seed + 4) + (uint64_t)h);
        dea_fill_xavier(params + layer->w_gate + (size_t)h * (size_t)(2 * d + 2), 2 * (size_t)d + 2, 2 * d + 2, 1,
                        dea__mix64(seed + 5) + (uint64_t)h);
        params[layer->c_gate + (size_t)h] = DEA__REAL(-0.5);
        if (layer->use_temperature) params[layer->temperatures + (size_t)h] = DEA__REAL(layer->temperature);
    }
    return DEA_OK;
}

DEA_API dea_attention dea_layer_attention(const dea_layer *layer, const dea_real *params, int batch, int seq) {
    const int d_model = layer->d_model, heads = layer->heads;
    dea_attention a = dea_attention_init(batch, heads, seq, heads > 0 ? d_model / heads : 0);
    const dea_strides fused = {(ptrdiff_t)seq * 3 * d_model, a.head_dim, 3 * (ptrdiff_t)d_model};
    const dea_strides flat = {(ptrdiff_t)seq * d_model, a.head_dim, d_model};
    a.q_strides = a.k_strides = a.v_strides = fused;
    a.o_strides = flat;
    if (!params) return a;
    a.w_rel = params + layer->w_rel;
    a.w_gate = params + layer->w_gate;
    a.c_gate = params + layer->c_gate;
    if (layer->use_temperature) a.temperature = params + layer->temperatures;
    return a;
}

/* Places in the cache, and in the scratch of a backward. */
typedef struct dea__layer_places {
    dea_real *qkv, *o, *saved; /* cache: [B,T,3,H,d], [B,T,H,d], [B,H,4,T] */
    size_t cache_count;
    dea_real *dqkv, *d_o; /* backward's scratch */
    void *inner;          /* the attention's workspace */
    size_t inner_bytes, total_bytes;
} dea__layer_places;

static dea_status dea__layer_layout(const dea_layer *layer, const dea_attention *a, const dea_gate *gate,
                                    dea_real *cache, void *workspace, dea__layer_places *p) {
    dea_status status = dea__check_layer(layer);
    if (status == DEA_OK) status = dea__check_shape(a);
    if (status != DEA_OK) return status;
    if (a->heads != layer->heads || (int64_t)a->head_dim * a->heads != layer->d_model || a->seq_q != a->seq_k)
        return DEA_ERR_SHAPE;
    const size_t x = dea__count(a->batch, a->seq_q, layer->d_model, 1);
    if (!dea__count(a->batch, a->seq_q, layer->d_model, 5) || (int64_t)a->batch * a->seq_q > INT32_MAX)
        return DEA_ERR_OVERFLOW;
    p->qkv = cache;
    p->o = cache ? cache + 3 * x : NULL;
    p->saved = cache ? cache + 4 * x : NULL;
    p->cache_count = 4 * x + dea_saved_count(a);
    dea__arena arena = {(char *)workspace, 0, 0};
    p->dqkv = dea__take_reals(&arena, 3 * x);
    p->d_o = dea__take_reals(&arena, x);
    const size_t forward = dea_forward_workspace(a), backward = dea_backward_workspace(a);
    const size_t loss = gate ? dea_gate_loss_workspace(a, gate) : 1;
    status = dea__check_path(a);
    if (status == DEA_OK && gate) status = dea__check_gate_options(gate);
    if (status != DEA_OK) return status;
    if (!forward || !backward || !loss) return DEA_ERR_OVERFLOW;
    p->inner_bytes = forward > backward ? forward : backward;
    if (loss > p->inner_bytes) p->inner_bytes = loss;
    p->inner = dea__take(&arena, p->inner_bytes, 1);
    p->total_bytes = dea__arena_bytes(&arena);
    return p->total_bytes ? DEA_OK : DEA_ERR_OVERFLOW;
}

/* All tensors of the layer, in the arena of its parameters or of their gradients. */
static void dea__add_layer(dea__tensors *tensors, const dea_layer *layer, const dea_real *arena, int is_output) {
    const size_t D = (size_t)layer->d_model, h = (size_t)layer->heads, d = D / h, real = sizeof(dea_real);
    dea__add_flat(tensors, arena + layer->w_qkv, 3 * D * D * real, is_output);
    dea__add_flat(tensors, arena + layer->b_qkv, 3 * D * real, is_output);
    dea__add_flat(tensors, arena + layer->w_rel, h * d * d * real, is_output);
    dea__add_flat(tensors, arena + layer->w_gate, h * (2 * d + 2) * real, is_output);
    dea__add_flat(tensors, arena + layer->c_gate, h * real, is_output);
    dea__add_flat(tensors, arena + layer->w_o, D * D * real, is_output);
    dea__add_flat(tensors, arena + layer->b_o, D * real, is_output);
    if (layer->use_temperature) dea__add_flat(tensors, arena + layer->temperatures, h * real, is_output);
}

DEA_API size_t dea_layer_cache_count(const dea_layer *layer, const dea_attention *a) {
    dea__layer_places p;
    return dea__layer_layout(layer, a, NULL, NULL, NULL, &p) == DEA_OK ? p.cache_count : 0;
}

DEA_API size_t dea_layer_workspace(const dea_layer *layer, const dea_attention *a, const dea_gate *gate) {
    dea__layer_places p;
    return dea__layer_layout(layer, a, gate, NULL, NULL, &p) == DEA_OK ? p.total_bytes : 0;
}

DEA_API dea_status dea_layer_forward(const dea_layer *layer, const dea_real *params, dea_attention *a,
                                     const dea_real *x, dea_real *y, dea_real *cache, void *workspace,
                                     size_t workspace_bytes) {
    dea__layer_places p;
    dea_status status = dea__layer_layout(layer, a, NULL, cache, workspace, &p);
    if (status != DEA_OK) return status;
    if (!params || !x || !y || !cache) return DEA_ERR_NULL;
    status = dea__check_workspace(workspace, workspace_bytes, p.total_bytes);
    if (status != DEA_OK) return status;
    const int rows = a->batch * a->seq_q, d_model = layer->d_model;
    const size_t bytes = (size_t)rows * (size_t)d_model * sizeof *x;
    dea_attention ready = *a;
    dea__tensors tensors;
    tensors.count = 0;
    ready.q = ready.k = ready.v = NULL; /* they are part of the cache */
    dea__add_inputs(&tensors, &ready);
    dea__add_layer(&tensors, layer, params, 0);
    dea__add_flat(&tensors, x, bytes, 0);
    dea__add_flat(&tensors, y, bytes, 1);
    dea__add_flat(&tensors, cache, p.cache_count * sizeof *cache, 1);
    dea__add_maps(&tensors, a);
    dea__add_flat(&tensors, workspace, p.total_bytes, 1);
    ready.q = p.qkv;
    ready.k = p.qkv + d_model;
    ready.v = p.qkv + 2 * d_model;
    status = dea__check_attention(&ready, 1); /* all that can be wrong, before anything is written */
    if (status == DEA_OK) status = dea__check_alias(&tensors);
    if (status != DEA_OK) return status;
    *a = ready;
    status = dea_linear_forward(x, params + layer->w_qkv, params + layer->b_qkv, p.qkv, rows, d_model, 3 * d_model,
                                &a->threads);
    if (status == DEA_OK) status = dea_forward(a, p.o, p.saved, p.inner, p.inner_bytes);
    if (status == DEA_OK)
        status =
            dea_linear_forward(p.o, params + layer->w_o, params + layer->b_o, y, rows, d_model, d_model, &a->threads);
    return status;
}

DEA_API dea_status dea_layer_backward(const dea_layer *layer, const dea_real *params, const dea_attention *a,
                                      const dea_real *x, const dea_real *cache, const dea_real *dy, dea_real *dx,
                                      dea_real *grads, void *workspace, size_t workspace_bytes) {
    dea__layer_places p;
    dea_status status = dea__layer_layout(layer, a, NULL, (dea_real *)(uintptr_t)cache, workspace, &p);
    if (status != DEA_OK) return status;
    if (!params || !x || !cache || !dy || !grads) return DEA_ERR_NULL;
    status = dea__check_workspace(workspace, workspace_bytes, p.total_bytes);
    if (status == DEA_OK) status = dea__check_attention(a, 1);
    if (status != DEA_OK) return status;
    const int rows = a->batch * a->seq_q, d_model = layer->d_model;
    const size_t bytes = (size_t)rows * (size_t)d_model * sizeof *x;
    dea__tensors tensors;
    tensors.count = 0;
    dea__add_inputs(&tensors, a);
    dea__add_layer(&tensors, layer, params, 0);
    dea__add_flat(&tensors, x, bytes, 0);
    dea__add_flat(&tensors, cache, p.cache_count * sizeof *cache, 0);
    dea__add_flat(&tensors, dy, bytes, 0);
    dea__add_flat(&tensors, dx, bytes, 1);
    dea__add_layer(&tensors, layer, grads, 1);
    dea__add_flat(&tensors, workspace, p.total_bytes, 1);
    if (dea__check_alias(&tensors) != DEA_OK) return DEA_ERR_ALIAS; /* before anything is added to */
    dea_gradients g;
    memset(&g, 0, sizeof g);
    g.dq = p.dqkv;
    g.dk = p.dqkv + d_model;
    g.dv = p.dqkv + 2 * d_model;
    g.dw_rel = grads + layer->w_rel;
    if (layer->use_temperature) g.dtemperature = grads + layer->temperatures;
    status = dea_linear_backward(p.o, params + layer->w_o, dy, p.d_o, grads + layer->w_o, grads + layer->b_o, rows,
                                 d_model, d_model, &a->threads);
    if (status == DEA_OK) status = dea_backward(a, p.o, p.saved, p.d_o, &g, p.inner, p.inner_bytes);
    if (status == DEA_OK)
        status = dea_linear_backward(x, params + layer->w_qkv, p.dqkv, dx, grads + layer->w_qkv, grads + layer->b_qkv,
                                     rows, d_model, 3 * d_model, &a->threads);
    return status;
}

DEA_API dea_status dea_layer_gate_loss(const dea_layer *layer, const dea_attention *a, const dea_gate *gate,
                                       const dea_real *cache, dea_real *grads, dea_gate_result *result, void *workspace,
                                       size_t workspace_bytes) {
    dea__layer_places p;
    if (!gate) return DEA_ERR_NULL;
    dea_status status = dea__layer_layout(layer, a, gate, (dea_real *)(uintptr_t)cache, workspace, &p);
    if (status != DEA_OK) return status;
    if (!cache || !result) return DEA_ERR_NULL;
    status = dea__check_workspace(workspace, workspace_bytes, p.total_bytes);
    if (status != DEA_OK) return status;
    dea_gradients g;
    memset(&g, 0, sizeof g);
    if (grads) {
        g.dw_gate = grads + layer->w_gate;
        g.dc_gate = grads + layer->c_gate;
        dea__tensors tensors; /* the rest is checked by dea_gate_loss, which knows only `saved` of the cache */
        tensors.count = 0;
        dea__add_flat(&tensors, cache, p.cache_count * sizeof *cache, 0);
        dea__add_gradients(&tensors, a, &g);
        if (dea__check_alias(&tensors) != DEA_OK) return DEA_ERR_ALIAS;
    }
    return dea_gate_loss(a, gate, p.saved, &g, result, p.inner, p.inner_bytes);
}

/* ==== 10. Meta-attention ==============================================================================================
 * Hooks, cognitive encoder, gated blocks, confidence heads, and what their training needs. Built from the products of room 3
 * and the parts of room 8; knows nothing of the base but rows of its residual stream. Sums over rows go in a fixed order. */

#define DEA__META_EPS    1e-5 /* of every layer norm here (17) */
#define DEA__META_RATE   5    /* what gates and preferences multiply the learning rate by */
#define DEA__META_RUN    256  /* rows that one product works on at most */
#define DEA__META_TARGET 64   /* tokens of a target */

/* ---- tables of tensors: one list serves registration and initial values */
typedef enum dea__meta_kind {
    DEA__META_MATRIX,     /* uniform in +-1/sqrt(fan_in), decays */
    DEA__META_BIAS,       /* the same, no decay */
    DEA__META_ONE,        /* norm scale */
    DEA__META_ZERO,       /* norm bias */
    DEA__META_EMBEDDING,  /* normal, std 0.02 */
    DEA__META_GATE,       /* 0.3, learns faster */
    DEA__META_PREFERENCE, /* 0, learns faster */
    DEA__META_RELATION,   /* orthogonal matrices, decays */
    DEA__META_MIX         /* -0.5 */
} dea__meta_kind;

typedef struct dea__meta_entry {
    const char *name;
    size_t *place; /* the member of the caller's struct that holds its offset */
    dea__meta_kind kind;
    int fan_in; /* of the linear map it belongs to */
    int rank, shape[4];
} dea__meta_entry;

typedef struct dea__meta_list {
    dea__meta_entry entry[32];
    int count;
} dea__meta_list;

/* Up to four axes; those that are 0 are not there. */
static void dea__meta_add(dea__meta_list *list, const char *name, size_t *place, dea__meta_kind kind, int fan_in, int a,
                          int b, int c, int d) {
    dea__meta_entry *entry = &list->entry[list->count++];
    const int shape[4] = {a, b, c, d};
    entry->name = name;
    entry->place = place;
    entry->kind = kind;
    entry->fan_in = fan_in;
    entry->rank = 0;
    for (int i = 0; i < 4; i++)
        if (shape[i]) entry->shape[entry->rank++] = shape[i];
}

static size_t dea__meta_entry_count(const dea__meta_entry *entry) {
    size_t count = 1;
    for (int i = 0; i < entry->rank; i++) count *= (size_t)entry->shape[i];
    return count;
}

/* Enters the list into the table and fills in the places; on failure the table is as before. */
static dea_status dea__meta_register(const dea__meta_list *list, dea_table *table, const char *prefix) {
    const int count = table->count;
    const size_t elements = table->elements;
    for (int i = 0; i < list->count; i++) {
        const dea__meta_entry *entry = &list->entry[i];
        const int decays = entry->kind == DEA__META_MATRIX || entry->kind == DEA__META_RELATION;
        const dea_status status =
            dea_table_add(table, prefix, entry->name, entry->rank, entry->shape, DEA_GROUP_MAIN, decays, entry->place);
        if (status != DEA_OK) {
            table->count = count;
            table->elements = elements;
            return status;
        }
        if (entry->kind == DEA__META_GATE || entry->kind == DEA__META_PREFERENCE)
            table->tensors[table->count - 1].lr_scale = DEA__META_RATE;
    }
    return DEA_OK;
}

static void dea__meta_fill_uniform(dea_real *w, size_t count, int fan_in, uint64_t seed) {
    const double limit = 1 / sqrt((double)fan_in);
    for (size_t i = 0; i < count; i++) w[i] = DEA__REAL(limit * (2 * dea__uniform(seed, i) - 1));
}

static void dea__meta_fill(dea_real *w, size_t count, double value) {
    for (size_t i = 0; i < count; i++) w[i] = DEA__REAL(value);
}

/* Initial values. */
static void dea__meta_reset(const dea__meta_list *list, dea_real *params, uint64_t seed) {
    for (int i = 0; i < list->count; i++) {
        const dea__meta_entry *entry = &list->entry[i];
        const uint64_t own = dea__mix64(seed + (uint64_t)i);
        const size_t count = dea__meta_entry_count(entry);
        dea_real *w = params + *entry->place;
        switch (entry->kind) {
        case DEA__META_MATRIX:
        case DEA__META_BIAS:
            dea__meta_fill_uniform(w, count, entry->fan_in, own);
            break;
        case DEA__META_ONE:
            dea__meta_fill(w, count, 1);
            break;
        case DEA__META_ZERO:
        case DEA__META_PREFERENCE:
            dea__meta_fill(w, count, 0);
            break;
        case DEA__META_EMBEDDING:
            dea_fill_normal(w, count, 0.02, own);
            break;
        case DEA__META_GATE:
            dea__meta_fill(w, count, 0.3);
            break;
        case DEA__META_MIX:
            dea__meta_fill(w, count, -0.5);
            break;
        case DEA__META_RELATION:
            for (size_t at = 0, n = (size_t)entry->fan_in; at < count; at += n * n)
                dea_fill_orthogonal(w + at, entry->fan_in, own + at);
            break;
        }
    }
}

/* Adds `count` reals to the tensors whose memory is checked. */
static void dea__meta_see(dea__tensors *tensors, const dea_real *data, size_t count, int is_output) {
    dea__add_flat(tensors, data, count * sizeof(dea_real), is_output);
}

static dea__tensors dea__meta_tensors(void) {
    dea__tensors tensors;
    tensors.count = 0;
    return tensors;
}

/* Workspace and memory of one call, the last of its checks. */
static dea_status dea__meta_check_memory(dea__tensors *tensors, void *workspace, size_t given, size_t needed) {
    const dea_status status = dea__check_workspace(workspace, given, needed);
    if (status != DEA_OK) return status;
    dea__add_flat(tensors, workspace, needed, 1);
    return dea__check_alias(tensors);
}

/* ---- hooks */
DEA_API dea_meta_hooks dea_meta_hooks_init(const int *read, int layers, int batch, int width, dea_real *act) {
    dea_meta_hooks hooks;
    memset(&hooks, 0, sizeof hooks);
    hooks.layers = layers;
    hooks.batch = batch;
    hooks.width = width;
    hooks.read = read;
    hooks.act = act;
    return hooks;
}

static dea_status dea__meta_check_hooks(const dea_meta_hooks *hooks) {
    if (!hooks || !hooks->read || !hooks->act) return DEA_ERR_NULL;
    if (hooks->layers <= 0 || hooks->batch <= 0 || hooks->width <= 0) return DEA_ERR_SHAPE;
    if (!dea__count(hooks->batch, hooks->layers, hooks->width, 1)) return DEA_ERR_OVERFLOW;
    for (int i = 0; i < hooks->layers; i++)
        if (hooks->read[i] < 0 || (i && hooks->read[i] <= hooks->read[i - 1])) return DEA_ERR_INDEX;
    return DEA_OK;
}

DEA_API dea_status dea_meta_hooks_open(dea_meta_hooks *hooks) {
    const dea_status status = dea__meta_check_hooks(hooks);
    if (status != DEA_OK) return status;
    hooks->recorded = 0;
    hooks->frozen = 0;
    return DEA_OK;
}

DEA_API dea_status dea_meta_hooks_record(dea_meta_hooks *hooks, int layer, const dea_real *y, int seq,
                                         const int *lengths) {
    const dea_status status = dea__meta_check_hooks(hooks);
    if (status != DEA_OK) return status;
    if (hooks->frozen) return DEA_ERR_FROZEN;
    if (!y) return DEA_ERR_NULL;
    if (seq <= 0) return DEA_ERR_SHAPE;
    const size_t width = (size_t)hooks->width, count = dea__count(hooks->batch, seq, hooks->width, 1);
    if (!count) return DEA_ERR_OVERFLOW;
    for (int b = 0; lengths && b < hooks->batch; b++)
        if (lengths[b] < 1 || lengths[b] > seq) return DEA_ERR_KEY_LENGTH;
    int at = 0;
    while (at < hooks->layers && hooks->read[at] != layer) at++;
    if (at == hooks->layers) return DEA_OK;
    if (at != hooks->recorded) return DEA_ERR_INDEX;
    dea__tensors tensors = dea__meta_tensors();
    dea__meta_see(&tensors, y, count, 0);
    dea__meta_see(&tensors, hooks->act, (size_t)hooks->batch * (size_t)hooks->layers * width, 1);
    if (dea__check_alias(&tensors) != DEA_OK) return DEA_ERR_ALIAS;
    for (int b = 0; b < hooks->batch; b++) { /* (16) */
        const size_t last = (size_t)(lengths ? lengths[b] : seq) - 1;
        memcpy(hooks->act + ((size_t)b * (size_t)hooks->layers + (size_t)at) * width,
               y + ((size_t)b * (size_t)seq + last) * width, width * sizeof *y);
    }
    hooks->recorded++;
    return DEA_OK;
}

DEA_API dea_status dea_meta_hooks_freeze(dea_meta_hooks *hooks) {
    const dea_status status = dea__meta_check_hooks(hooks);
    if (status != DEA_OK) return status;
    if (hooks->frozen || hooks->recorded != hooks->layers) return DEA_ERR_FROZEN;
    hooks->frozen = 1;
    return DEA_OK;
}

DEA_API dea_status dea_meta_hooks_read(const dea_meta_hooks *hooks, const dea_real **act) {
    const dea_status status = dea__meta_check_hooks(hooks);
    if (status != DEA_OK) return status;
    if (!act) return DEA_ERR_NULL;
    if (!hooks->frozen || hooks->recorded != hooks->layers) return DEA_ERR_FROZEN;
    *act = hooks->act;
    return DEA_OK;
}

/* ---- one head of softmax attention for one sequence, shared by the blocks and architecture 2. Maps are [rows, keys]. */
typedef struct dea__meta_head {
    int rows, keys, dim;
    ptrdiff_t q_stride, kv_stride, o_stride; /* between rows of q, of k and v, of o; and of their cotangents */
    const dea_real *q, *k, *v;
} dea__meta_head;

static dea_real dea__meta_exp(dea_real x) {
    return sizeof(dea_real) == sizeof(float) ? (dea_real)expf((float)x) : (dea_real)exp((double)x);
}

/* Scores to weights in place, row by row: softmax(s + pref), the row's maximum subtracted. pref may be NULL. */
static void dea__meta_softmax(dea_real *s, const dea_real *pref, size_t rows, int keys) {
    for (size_t t = 0; t < rows; t++, s += keys) {
        dea_real top = 0, sum = 0;
        for (int c = 0; c < keys; c++) {
            if (pref) s[c] += pref[c];
            if (c == 0 || s[c] > top) top = s[c];
        }
        for (int c = 0; c < keys; c++) {
            s[c] = dea__meta_exp(s[c] - top);
            sum += s[c];
        }
        for (int c = 0; c < keys; c++) s[c] /= sum;
    }
}

static void dea__meta_scores(const dea__meta_head *h, dea_real *s) { /* q k^T/sqrt(dim) */
    dea__gemm(0, 1, h->rows, h->keys, h->dim, 1 / sqrt((double)h->dim), h->q, h->q_stride, h->k, h->kv_stride, 0, s,
              h->keys, NULL);
}

static void dea__meta_average(const dea__meta_head *h, const dea_real *a, dea_real *o) { /* o = A v */
    dea__gemm(0, 0, h->rows, h->dim, h->keys, 1, a, h->keys, h->v, h->kv_stride, 0, o, h->o_stride, NULL);
}

/* forward: A = softmax(S), o = A v. dv = A^T d_o; ds = A o (dA - sum_c A o dA), dA = d_o v^T. */
static void dea__meta_average_backward(const dea__meta_head *h, const dea_real *a, const dea_real *d_o, dea_real *ds,
                                       dea_real *dv) {
    dea__gemm(0, 1, h->rows, h->keys, h->dim, 1, d_o, h->o_stride, h->v, h->kv_stride, 0, ds, h->keys, NULL);
    dea__gemm(1, 0, h->keys, h->dim, h->rows, 1, a, h->keys, d_o, h->o_stride, 0, dv, h->kv_stride, NULL);
    for (int t = 0; t < h->rows; t++, a += h->keys, ds += h->keys) {
        const double mean = dea__dot(a, ds, h->keys);
        for (int c = 0; c < h->keys; c++) ds[c] = DEA__REAL((double)a[c] * ((double)ds[c] - mean));
    }
}

/* forward: S = q k^T/sqrt(dim). dq = ds k/sqrt(dim), dk = ds^T q/sqrt(dim). */
static void dea__meta_scores_backward(const dea__meta_head *h, const dea_real *ds, dea_real *dq, dea_real *dk) {
    const double scale = 1 / sqrt((double)h->dim);
    dea__gemm(0, 0, h->rows, h->dim, h->keys, scale, ds, h->keys, h->k, h->kv_stride, 0, dq, h->q_stride, NULL);
    dea__gemm(1, 0, h->keys, h->dim, h->rows, scale, ds, h->keys, h->q, h->q_stride, 0, dk, h->kv_stride, NULL);
}

/* ---- projectors (19), shared by the encoder and the confidence heads */
typedef struct dea__meta_projector {
    int batch, layers, width, bottleneck;
    const dea_real *act, *ln_w, *ln_b, *fc_w, *fc_b;
    dea_real *saved;       /* [C,B,2] mean and 1/s of LN_i, written by forward; NULL in the backward */
    const dea_real *kept;  /* the same, read by the backward */
    dea_real *normed;      /* [C,B,D] scratch: LN_i(act_i); its cotangent in the backward */
    dea_real *pre;         /* [B,C,r] before GELU */
    const dea_real *d_pre; /* [B,C,r] */
    dea_real *d_normed;    /* [C,B,D] */
    dea_real *dln_w, *dln_b, *dfc_w, *dfc_b;
} dea__meta_projector;

static void dea__meta_norm_layer(const dea__meta_projector *p, int i) {
    const size_t B = (size_t)p->batch, D = (size_t)p->width, at = (size_t)i * B;
    for (size_t b = 0; b < B; b++)
        (void)dea_layer_norm_forward(p->act + (b * (size_t)p->layers + (size_t)i) * D, p->ln_w + (size_t)i * D,
                                     p->ln_b + (size_t)i * D, p->normed + (at + b) * D,
                                     p->saved ? p->saved + 2 * (at + b) : NULL, 1, p->width, DEA__META_EPS, NULL);
}

/* One job a read layer: pre_i = fc_w[i] LN_i(act_i) + fc_b[i]. */
static void dea__meta_project(void *context, int i, int worker) {
    const dea__meta_projector *p = (const dea__meta_projector *)context;
    const size_t B = (size_t)p->batch, D = (size_t)p->width, r = (size_t)p->bottleneck, row = (size_t)p->layers * r;
    dea_real *pre = p->pre + (size_t)i * r;
    (void)worker;
    dea__meta_norm_layer(p, i);
    dea__gemm(0, 1, p->batch, p->bottleneck, p->width, 1, p->normed + (size_t)i * B * D, p->width,
              p->fc_w + (size_t)i * r * D, p->width, 0, pre, (ptrdiff_t)row, NULL);
    for (size_t b = 0; b < B; b++)
        for (size_t j = 0; j < r; j++) pre[b * row + j] += p->fc_b[(size_t)i * r + j];
}

/* forward: pre = fc_w LN(act) + fc_b. Ends at LN's parameters: act takes no gradient. */
static void dea__meta_project_backward(void *context, int i, int worker) {
    const dea__meta_projector *p = (const dea__meta_projector *)context;
    const size_t B = (size_t)p->batch, D = (size_t)p->width, r = (size_t)p->bottleneck, row = (size_t)p->layers * r;
    const size_t at = (size_t)i * B;
    const dea_real *d_pre = p->d_pre + (size_t)i * r;
    (void)worker;
    for (size_t j = 0; j < r; j++) {
        double sum = 0;
        for (size_t b = 0; b < B; b++) sum += (double)d_pre[b * row + j];
        p->dfc_b[(size_t)i * r + j] += DEA__REAL(sum);
    }
    dea__meta_norm_layer(p, i);
    dea__gemm(1, 0, p->bottleneck, p->width, p->batch, 1, d_pre, (ptrdiff_t)row, p->normed + at * D, p->width, 1,
              p->dfc_w + (size_t)i * r * D, p->width, NULL);
    dea__gemm(0, 0, p->batch, p->width, p->bottleneck, 1, d_pre, (ptrdiff_t)row, p->fc_w + (size_t)i * r * D, p->width,
              0, p->d_normed + at * D, p->width, NULL);
    for (size_t b = 0; b < B; b++)
        (void)dea_layer_norm_backward(p->act + (b * (size_t)p->layers + (size_t)i) * D, p->ln_w + (size_t)i * D,
                                      p->kept + 2 * (at + b), p->d_normed + (at + b) * D, NULL,
                                      p->dln_w + (size_t)i * D, p->dln_b + (size_t)i * D, 1, p->width, NULL);
}

/* ---- cognitive encoder */
DEA_API dea_meta_encoder dea_meta_encoder_init(int layers, int width) {
    dea_meta_encoder encoder;
    memset(&encoder, 0, sizeof encoder);
    encoder.layers = layers;
    encoder.width = width;
    encoder.bottleneck = 256;
    encoder.heads = 4;
    return encoder;
}

static dea_status dea__meta_check_encoder(const dea_meta_encoder *e) {
    if (!e) return DEA_ERR_NULL;
    if (e->layers <= 0 || e->width <= 0 || e->bottleneck <= 0 || e->blocks < 0) return DEA_ERR_SHAPE;
    if (e->blocks && (e->heads <= 0 || e->bottleneck % e->heads)) return DEA_ERR_SHAPE;
    if (e->bottleneck > INT32_MAX / 4 || !dea__count(e->layers, e->bottleneck, e->width, 4) ||
        !dea__count(e->width, e->width, 4, 1))
        return DEA_ERR_OVERFLOW;
    return e->blocks && !dea__count(e->blocks, 4 * e->bottleneck, e->bottleneck, 4) ? DEA_ERR_OVERFLOW : DEA_OK;
}

/* The encoder and a batch: B C rows must be an int. */
static dea_status dea__meta_check_encoding(const dea_meta_encoder *e, int batch) {
    const dea_status status = dea__meta_check_encoder(e);
    if (status != DEA_OK) return status;
    if (batch <= 0) return DEA_ERR_SHAPE;
    if ((int64_t)batch * e->layers > INT32_MAX || !dea__count(batch, e->layers, e->width, 4) ||
        !dea__count(batch, e->layers, 4 * e->bottleneck, 4))
        return DEA_ERR_OVERFLOW;
    return e->blocks && !dea__count(batch, e->heads, e->layers, e->layers) ? DEA_ERR_OVERFLOW : DEA_OK;
}

static dea__meta_list dea__meta_encoder_list(dea_meta_encoder *e) {
    const int C = e->layers, D = e->width, r = e->bottleneck, n = e->blocks;
    dea__meta_list list;
    list.count = 0;
    dea__meta_add(&list, "ln_w", &e->ln_w, DEA__META_ONE, D, C, D, 0, 0);
    dea__meta_add(&list, "ln_b", &e->ln_b, DEA__META_ZERO, D, C, D, 0, 0);
    dea__meta_add(&list, "fc_w", &e->fc_w, DEA__META_MATRIX, D, C, r, D, 0);
    dea__meta_add(&list, "fc_b", &e->fc_b, DEA__META_BIAS, D, C, r, 0, 0);
    dea__meta_add(&list, "gate", &e->gate, DEA__META_GATE, 1, C, 0, 0, 0);
    if (n) {
        dea__meta_add(&list, "emb", &e->emb, DEA__META_EMBEDDING, r, C, r, 0, 0);
        dea__meta_add(&list, "t_ln1_w", &e->t_ln1_w, DEA__META_ONE, r, n, r, 0, 0);
        dea__meta_add(&list, "t_ln1_b", &e->t_ln1_b, DEA__META_ZERO, r, n, r, 0, 0);
        dea__meta_add(&list, "t_qkv_w", &e->t_qkv_w, DEA__META_MATRIX, r, n, 3 * r, r, 0);
        dea__meta_add(&list, "t_qkv_b", &e->t_qkv_b, DEA__META_BIAS, r, n, 3 * r, 0, 0);
        dea__meta_add(&list, "t_o_w", &e->t_o_w, DEA__META_MATRIX, r, n, r, r, 0);
        dea__meta_add(&list, "t_o_b", &e->t_o_b, DEA__META_BIAS, r, n, r, 0, 0);
        dea__meta_add(&list, "t_ln2_w", &e->t_ln2_w, DEA__META_ONE, r, n, r, 0, 0);
        dea__meta_add(&list, "t_ln2_b", &e->t_ln2_b, DEA__META_ZERO, r, n, r, 0, 0);
        dea__meta_add(&list, "t_fc1_w", &e->t_fc1_w, DEA__META_MATRIX, r, n, 4 * r, r, 0);
        dea__meta_add(&list, "t_fc1_b", &e->t_fc1_b, DEA__META_BIAS, r, n, 4 * r, 0, 0);
        dea__meta_add(&list, "t_fc2_w", &e->t_fc2_w, DEA__META_MATRIX, 4 * r, n, r, 4 * r, 0);
        dea__meta_add(&list, "t_fc2_b", &e->t_fc2_b, DEA__META_BIAS, 4 * r, n, r, 0, 0);
    }
    dea__meta_add(&list, "out_ln_w", &e->out_ln_w, DEA__META_ONE, r, r, 0, 0, 0);
    dea__meta_add(&list, "out_ln_b", &e->out_ln_b, DEA__META_ZERO, r, r, 0, 0, 0);
    dea__meta_add(&list, "out_fc1_w", &e->out_fc1_w, DEA__META_MATRIX, r, D, r, 0, 0);
    dea__meta_add(&list, "out_fc1_b", &e->out_fc1_b, DEA__META_BIAS, r, D, 0, 0, 0);
    dea__meta_add(&list, "out_fc2_w", &e->out_fc2_w, DEA__META_MATRIX, D, D, D, 0, 0);
    dea__meta_add(&list, "out_fc2_b", &e->out_fc2_b, DEA__META_BIAS, D, D, 0, 0, 0);
    dea__meta_add(&list, "out_norm_w", &e->out_norm_w, DEA__META_ONE, D, D, 0, 0, 0);
    dea__meta_add(&list, "out_norm_b", &e->out_norm_b, DEA__META_ZERO, D, D, 0, 0, 0);
    return list;
}

DEA_API dea_status dea_meta_encoder_register(dea_meta_encoder *encoder, dea_table *table, const char *prefix) {
    dea_status status = dea__meta_check_encoder(encoder);
    if (status != DEA_OK) return status;
    if (!table || !prefix) return DEA_ERR_NULL;
    dea_meta_encoder copy = *encoder;
    const dea__meta_list list = dea__meta_encoder_list(&copy);
    status = dea__meta_register(&list, table, prefix);
    if (status == DEA_OK) *encoder = copy;
    return status;
}

DEA_API dea_status dea_meta_encoder_reset(const dea_meta_encoder *encoder, dea_real *params, uint64_t seed) {
    const dea_status status = dea__meta_check_encoder(encoder);
    if (status != DEA_OK) return status;
    if (!params) return DEA_ERR_NULL;
    dea_meta_encoder copy = *encoder;
    const dea__meta_list list = dea__meta_encoder_list(&copy);
    dea__meta_reset(&list, params, seed);
    return DEA_OK;
}

/* What forward keeps of one transformer block. */
typedef struct dea__meta_mixer {
    dea_real *in, *mid;        /* [B C,r] the stream before attention and before the feed-forward */
    dea_real *saved1, *saved2; /* [2,B C] of LN1, LN2 */
    dea_real *qkv, *a, *o, *u; /* [B C,3r], [B,h,C,C], [B C,r], [B C,4r] before GELU */
} dea__meta_mixer;

/* What forward keeps of an encoder, besides its transformer blocks. */
typedef struct dea__meta_encoding {
    dea_real *saved, *pre;        /* of the projectors */
    dea_real *z, *saved_ln;       /* [B C,r] what LN_out reads; [2,B C] */
    dea_real *u, *f, *saved_norm; /* [B C,D] before GELU; before LN_norm; [2,B C] */
} dea__meta_encoding;

static void dea__meta_mixer_layout(dea__meta_mixer *m, dea__arena *arena, const dea_meta_encoder *e, int batch) {
    const size_t rows = (size_t)batch * (size_t)e->layers, r = (size_t)e->bottleneck;
    m->in = dea__take_reals(arena, rows * r);
    m->mid = dea__take_reals(arena, rows * r);
    m->saved1 = dea__take_reals(arena, 2 * rows);
    m->saved2 = dea__take_reals(arena, 2 * rows);
    m->qkv = dea__take_reals(arena, rows * 3 * r);
    m->a = dea__take_reals(arena, rows * (size_t)e->heads * (size_t)e->layers);
    m->o = dea__take_reals(arena, rows * r);
    m->u = dea__take_reals(arena, rows * 4 * r);
}

static void dea__meta_encoding_layout(dea__meta_encoding *c, dea__arena *arena, const dea_meta_encoder *e, int batch) {
    const size_t rows = (size_t)batch * (size_t)e->layers, r = (size_t)e->bottleneck, D = (size_t)e->width;
    c->saved = dea__take_reals(arena, 2 * rows);
    c->pre = dea__take_reals(arena, rows * r);
    c->z = dea__take_reals(arena, rows * r);
    c->saved_ln = dea__take_reals(arena, 2 * rows);
    c->u = dea__take_reals(arena, rows * D);
    c->f = dea__take_reals(arena, rows * D);
    c->saved_norm = dea__take_reals(arena, 2 * rows);
}

/* The n-th transformer block's part follows the encoding; each part has the same size. */
static size_t dea__meta_encoding_bytes(const dea_meta_encoder *e, int batch, int blocks) {
    dea__arena arena = {NULL, 0, 0};
    dea__meta_encoding encoding;
    dea__meta_mixer mixer;
    dea__meta_encoding_layout(&encoding, &arena, e, batch);
    for (int n = 0; n < blocks && !arena.failed; n++) dea__meta_mixer_layout(&mixer, &arena, e, batch);
    return dea__arena_bytes(&arena);
}

DEA_API size_t dea_meta_encoder_cache_count(const dea_meta_encoder *encoder, int batch) {
    if (dea__meta_check_encoding(encoder, batch) != DEA_OK) return 0;
    return dea__meta_encoding_bytes(encoder, batch, encoder->blocks) / sizeof(dea_real);
}

/* Scratch of both directions. */
typedef struct dea__meta_encoder_scratch {
    dea_real *wide, *wide2;                  /* [B C,D] */
    dea_real *narrow, *narrow2, *qkv, *four; /* [B C,r] twice, [B C,3r], [B C,4r] */
    dea_real *map;                           /* [B,h,C,C] */
    char *cache;                             /* forward without a cache */
} dea__meta_encoder_scratch;

static void dea__meta_encoder_scratch_layout(dea__meta_encoder_scratch *w, dea__arena *arena, const dea_meta_encoder *e,
                                             int batch) {
    const size_t rows = (size_t)batch * (size_t)e->layers, r = (size_t)e->bottleneck, D = (size_t)e->width;
    const size_t mixes = e->blocks ? rows : 0;
    w->wide = dea__take_reals(arena, rows * D);
    w->wide2 = dea__take_reals(arena, rows * D);
    w->narrow = dea__take_reals(arena, rows * r);
    w->narrow2 = dea__take_reals(arena, rows * r);
    w->qkv = dea__take_reals(arena, mixes * 3 * r);
    w->four = dea__take_reals(arena, mixes * 4 * r);
    w->map = dea__take_reals(arena, mixes * (size_t)e->heads * (size_t)e->layers);
    w->cache = (char *)dea__take(arena, dea__meta_encoding_bytes(e, batch, e->blocks), 1);
}

DEA_API size_t dea_meta_encoder_workspace(const dea_meta_encoder *encoder, int batch) {
    if (dea__meta_check_encoding(encoder, batch) != DEA_OK) return 0;
    dea__arena arena = {NULL, 0, 0};
    dea__meta_encoder_scratch scratch;
    dea__meta_encoder_scratch_layout(&scratch, &arena, encoder, batch);
    return dea__arena_bytes(&arena);
}

/* One call on an encoder: everything its steps share. */
typedef struct dea__meta_encoder_call {
    const dea_meta_encoder *e;
    const dea_real *params;
    dea_real *grads;
    int batch, rows;
    dea__meta_encoding c;
    dea__meta_encoder_scratch w;
    char *mixers; /* the transformer blocks' part of the cache */
    const dea_threads *threads;
} dea__meta_encoder_call;

static void dea__meta_encoder_bind(dea__meta_encoder_call *call, const dea_meta_encoder *e, int batch,
                                   const dea_real *cache, void *workspace) {
    dea__arena scratch = {(char *)workspace, 0, 0};
    dea__meta_encoder_scratch_layout(&call->w, &scratch, e, batch);
    char *base = cache ? (char *)(uintptr_t)cache : call->w.cache;
    dea__arena arena = {base, 0, 0};
    dea__meta_encoding_layout(&call->c, &arena, e, batch);
    call->mixers = base + arena.used;
    call->e = e;
    call->batch = batch;
    call->rows = batch * e->layers;
}

static dea__meta_mixer dea__meta_mixer_of(const dea__meta_encoder_call *call, int n) {
    const size_t first = dea__meta_encoding_bytes(call->e, call->batch, 0);
    const size_t each = dea__meta_encoding_bytes(call->e, call->batch, 1) - first;
    dea__arena arena = {call->mixers + (size_t)n * each, 0, 0};
    dea__meta_mixer mixer;
    dea__meta_mixer_layout(&mixer, &arena, call->e, call->batch);
    return mixer;
}

/* Head `job` % h of sequence `job` / h inside [B C,3r]. */
static dea__meta_head dea__meta_mixer_head(const dea__meta_encoder_call *call, const dea_real *qkv, int job) {
    const dea_meta_encoder *e = call->e;
    const ptrdiff_t r = e->bottleneck, dim = r / e->heads;
    dea__meta_head head;
    head.rows = head.keys = e->layers;
    head.dim = (int)dim;
    head.q_stride = head.kv_stride = 3 * r;
    head.o_stride = r;
    head.q = qkv + (ptrdiff_t)(job / e->heads) * e->layers * 3 * r + job % e->heads * dim;
    head.k = head.q + r;
    head.v = head.k + r;
    return head;
}

typedef struct dea__meta_mixer_job {
    const dea__meta_encoder_call *call;
    const dea__meta_mixer *mixer;
    const dea_real *d_o;
    dea_real *o;
} dea__meta_mixer_job;

static size_t dea__meta_map_at(const dea__meta_encoder_call *call, int job) {
    return (size_t)job * (size_t)call->e->layers * (size_t)call->e->layers;
}

static size_t dea__meta_mixer_o_at(const dea__meta_encoder_call *call, int job) {
    const dea_meta_encoder *e = call->e;
    const size_t C = (size_t)e->layers, r = (size_t)e->bottleneck, h = (size_t)e->heads;
    return (size_t)job / h * C * r + (size_t)job % h * (r / h);
}

static void dea__meta_mixer_attend(void *context, int job, int worker) {
    const dea__meta_mixer_job *all = (const dea__meta_mixer_job *)context;
    const dea__meta_head head = dea__meta_mixer_head(all->call, all->mixer->qkv, job);
    dea_real *a = all->mixer->a + dea__meta_map_at(all->call, job);
    (void)worker;
    dea__meta_scores(&head, a);
    dea__meta_softmax(a, NULL, (size_t)head.rows, head.keys);
    dea__meta_average(&head, a, all->o + dea__meta_mixer_o_at(all->call, job));
}

static void dea__meta_mixer_attend_backward(void *context, int job, int worker) {
    const dea__meta_mixer_job *all = (const dea__meta_mixer_job *)context;
    const dea__meta_head head = dea__meta_mixer_head(all->call, all->mixer->qkv, job);
    const size_t map = dea__meta_map_at(all->call, job), r = (size_t)all->call->e->bottleneck;
    dea_real *dq = all->call->w.qkv + (head.q - all->mixer->qkv), *ds = all->call->w.map + map;
    (void)worker;
    dea__meta_average_backward(&head, all->mixer->a + map, all->d_o + dea__meta_mixer_o_at(all->call, job), ds,
                               dq + 2 * r);
    dea__meta_scores_backward(&head, ds, dq, dq + r);
}

static void dea__meta_sum(const dea_real *x, const dea_real *y, dea_real *sum, size_t count) {
    for (size_t i = 0; i < count; i++) sum[i] = x[i] + y[i];
}

/* The n-th transformer block (22): reads mixer.in, writes out [B C,r]. */
static void dea__meta_mixer_forward(const dea__meta_encoder_call *call, int n, dea_real *out) {
    const dea_meta_encoder *e = call->e;
    const dea__meta_mixer mixer = dea__meta_mixer_of(call, n);
    const dea__meta_encoder_scratch *w = &call->w;
    const dea_real *p = call->params;
    const int r = e->bottleneck, rows = call->rows;
    const size_t at = (size_t)n * (size_t)r, square = at * (size_t)r, count = (size_t)rows * (size_t)r;
    dea__meta_mixer_job attend = {call, &mixer, NULL, mixer.o};
    (void)dea_layer_norm_forward(mixer.in, p + e->t_ln1_w + at, p + e->t_ln1_b + at, w->narrow, mixer.saved1, rows, r,
                                 DEA__META_EPS, call->threads);
    (void)dea_linear_forward(w->narrow, p + e->t_qkv_w + 3 * square, p + e->t_qkv_b + 3 * at, mixer.qkv, rows, r, 3 * r,
                             call->threads);
    dea__for(call->threads, call->batch * e->heads, dea__meta_mixer_attend, &attend);
    (void)dea_linear_forward(mixer.o, p + e->t_o_w + square, p + e->t_o_b + at, w->narrow, rows, r, r, call->threads);
    dea__meta_sum(mixer.in, w->narrow, mixer.mid, count);
    (void)dea_layer_norm_forward(mixer.mid, p + e->t_ln2_w + at, p + e->t_ln2_b + at, w->narrow, mixer.saved2, rows, r,
                                 DEA__META_EPS, call->threads);
    (void)dea_linear_forward(w->narrow, p + e->t_fc1_w + 4 * square, p + e->t_fc1_b + 4 * at, mixer.u, rows, r, 4 * r,
                             call->threads);
    (void)dea_gelu_forward(mixer.u, w->four, 4 * count, call->threads);
    (void)dea_linear_forward(w->four, p + e->t_fc2_w + 4 * square, p + e->t_fc2_b + at, w->narrow, rows, 4 * r, r,
                             call->threads);
    dea__meta_sum(mixer.mid, w->narrow, out, count);
}

/* forward: y = x w^T + b. dw and db added to, dx written; dx may be x. */
static void dea__meta_linear_backward(const dea__meta_encoder_call *call, const dea_real *x, size_t w, size_t b,
                                      const dea_real *dy, dea_real *dx, int in, int out) {
    (void)dea_linear_backward(x, NULL, dy, NULL, call->grads + w, call->grads + b, call->rows, in, out, call->threads);
    (void)dea_linear_backward(NULL, call->params + w, dy, dx, NULL, NULL, call->rows, in, out, call->threads);
}

/* dz [B C,r], the cotangent of the block's output, becomes that of its input. */
static void dea__meta_mixer_backward(const dea__meta_encoder_call *call, int n, dea_real *dz) {
    const dea_meta_encoder *e = call->e;
    const dea__meta_mixer mixer = dea__meta_mixer_of(call, n);
    const dea__meta_encoder_scratch *w = &call->w;
    const dea_real *p = call->params;
    dea_real *g = call->grads;
    const int r = e->bottleneck, rows = call->rows;
    const size_t at = (size_t)n * (size_t)r, square = at * (size_t)r, count = (size_t)rows * (size_t)r;
    /* forward: out = mid + t_fc2 GELU(t_fc1 LN2(mid)) */
    (void)dea_gelu_forward(mixer.u, w->four, 4 * count, call->threads);
    dea__meta_linear_backward(call, w->four, e->t_fc2_w + 4 * square, e->t_fc2_b + at, dz, w->four, 4 * r, r);
    (void)dea_gelu_backward(mixer.u, w->four, w->four, 4 * count, call->threads);
    (void)dea_layer_norm_forward(mixer.mid, p + e->t_ln2_w + at, p + e->t_ln2_b + at, w->narrow, NULL, rows, r,
                                 DEA__META_EPS, call->threads);
    dea__meta_linear_backward(call, w->narrow, e->t_fc1_w + 4 * square, e->t_fc1_b + 4 * at, w->four, w->narrow, r,
                              4 * r);
    (void)dea_layer_norm_backward(mixer.mid, p + e->t_ln2_w + at, mixer.saved2, w->narrow, w->narrow,
                                  g + e->t_ln2_w + at, g + e->t_ln2_b + at, rows, r, call->threads);
    dea__meta_sum(dz, w->narrow, dz, count);
    /* forward: mid = in + t_o MHA(t_qkv LN1(in)) */
    dea__meta_linear_backward(call, mixer.o, e->t_o_w + square, e->t_o_b + at, dz, w->narrow, r, r);
    dea__meta_mixer_job attend = {call, &mixer, w->narrow, NULL};
    dea__for(call->threads, call->batch * e->heads, dea__meta_mixer_attend_backward, &attend);
    (void)dea_layer_norm_forward(mixer.in, p + e->t_ln1_w + at, p + e->t_ln1_b + at, w->narrow, NULL, rows, r,
                                 DEA__META_EPS, call->threads);
    dea__meta_linear_backward(call, w->narrow, e->t_qkv_w + 3 * square, e->t_qkv_b + 3 * at, w->qkv, w->narrow, r,
                              3 * r);
    (void)dea_layer_norm_backward(mixer.in, p + e->t_ln1_w + at, mixer.saved1, w->narrow, w->narrow,
                                  g + e->t_ln1_w + at, g + e->t_ln1_b + at, rows, r, call->threads);
    dea__meta_sum(dz, w->narrow, dz, count);
}

static dea__meta_projector dea__meta_encoder_projector(const dea__meta_encoder_call *call, const dea_real *act) {
    const dea_meta_encoder *e = call->e;
    dea__meta_projector p;
    memset(&p, 0, sizeof p);
    p.batch = call->batch;
    p.layers = e->layers;
    p.width = e->width;
    p.bottleneck = e->bottleneck;
    p.act = act;
    p.ln_w = call->params + e->ln_w;
    p.ln_b = call->params + e->ln_b;
    p.fc_w = call->params + e->fc_w;
    p.fc_b = call->params + e->fc_b;
    p.saved = call->c.saved;
    p.normed = call->w.wide;
    p.pre = call->c.pre;
    return p;
}

/* (20): z = tanh(e_i) p_i, plus emb (22) where there is one. */
static void dea__meta_gate_forward(const dea__meta_encoder_call *call, const dea_real *p, dea_real *z) {
    const dea_meta_encoder *e = call->e;
    const size_t C = (size_t)e->layers, r = (size_t)e->bottleneck;
    for (size_t row = 0; row < (size_t)call->rows; row++) {
        const dea_real tau = DEA__REAL(tanh((double)call->params[e->gate + row % C]));
        const dea_real *emb = call->params + e->emb + row % C * r;
        for (size_t j = 0; j < r; j++) z[row * r + j] = tau * p[row * r + j] + (e->blocks ? emb[j] : 0);
    }
}

DEA_API dea_status dea_meta_encoder_forward(const dea_meta_encoder *encoder, const dea_real *params,
                                            const dea_real *act, int batch, dea_real *cog, dea_real *cache,
                                            void *workspace, size_t workspace_bytes, const dea_threads *threads) {
    dea_status status = dea__meta_check_encoding(encoder, batch);
    if (status != DEA_OK) return status;
    if (!params || !act || !cog) return DEA_ERR_NULL;
    const dea_meta_encoder *e = encoder;
    const size_t narrow = (size_t)batch * (size_t)e->layers * (size_t)e->bottleneck;
    const size_t wide = (size_t)batch * (size_t)e->layers * (size_t)e->width;
    dea__tensors tensors = dea__meta_tensors();
    dea__meta_see(&tensors, act, wide, 0);
    dea__meta_see(&tensors, cog, wide, 1);
    dea__meta_see(&tensors, cache, dea_meta_encoder_cache_count(e, batch), 1);
    status = dea__meta_check_memory(&tensors, workspace, workspace_bytes, dea_meta_encoder_workspace(e, batch));
    if (status != DEA_OK) return status;
    dea__meta_encoder_call call;
    memset(&call, 0, sizeof call);
    dea__meta_encoder_bind(&call, e, batch, cache, workspace);
    call.params = params;
    call.threads = threads;
    dea__meta_projector projector = dea__meta_encoder_projector(&call, act);
    dea__for(threads, e->layers, dea__meta_project, &projector);
    (void)dea_gelu_forward(call.c.pre, call.w.narrow, narrow, threads);
    dea__meta_gate_forward(&call, call.w.narrow, e->blocks ? dea__meta_mixer_of(&call, 0).in : call.c.z);
    for (int n = 0; n < e->blocks; n++)
        dea__meta_mixer_forward(&call, n, n + 1 < e->blocks ? dea__meta_mixer_of(&call, n + 1).in : call.c.z);
    /* (21) */
    const int D = e->width, r = e->bottleneck, rows = call.rows;
    (void)dea_layer_norm_forward(call.c.z, params + e->out_ln_w, params + e->out_ln_b, call.w.narrow, call.c.saved_ln,
                                 rows, r, DEA__META_EPS, threads);
    (void)dea_linear_forward(call.w.narrow, params + e->out_fc1_w, params + e->out_fc1_b, call.c.u, rows, r, D,
                             threads);
    (void)dea_gelu_forward(call.c.u, call.w.wide, wide, threads);
    (void)dea_linear_forward(call.w.wide, params + e->out_fc2_w, params + e->out_fc2_b, call.c.f, rows, D, D, threads);
    (void)dea_layer_norm_forward(call.c.f, params + e->out_norm_w, params + e->out_norm_b, cog, call.c.saved_norm, rows,
                                 D, DEA__META_EPS, threads);
    return DEA_OK;
}

/* forward: z_i = tanh(e_i) p_i goes straight into LN_out, which cancels tau up to eps. With dy the cotangent of LN_out:
 * de_i = (1 - tau^2)/tau sum_b (sum_j g_j xh_j) eps/s_b^2, g = out_ln_w o dy. */
static void dea__meta_gate_stable(const dea__meta_encoder_call *call, const dea_real *dy) {
    const dea_meta_encoder *e = call->e;
    const size_t C = (size_t)e->layers, r = (size_t)e->bottleneck, rows = (size_t)call->rows;
    const dea_real *gain = call->params + e->out_ln_w;
    for (size_t i = 0; i < C; i++) {
        const double tau = tanh((double)call->params[e->gate + i]);
        double sum = 0;
        for (size_t row = i; tau != 0 && row < rows; row += C) {
            const double mean = (double)call->c.saved_ln[row], inverse = (double)call->c.saved_ln[rows + row];
            double inner = 0;
            for (size_t j = 0; j < r; j++)
                inner += (double)gain[j] * (double)dy[row * r + j] * ((double)call->c.z[row * r + j] - mean) * inverse;
            sum += inner * DEA__META_EPS * inverse * inverse;
        }
        if (tau != 0) call->grads[e->gate + i] += DEA__REAL((1 - tau * tau) / tau * sum);
    }
}

/* forward: z_i = tanh(e_i) p_i. de_i = (1 - tau^2) sum_b dz.p unless it was formed above; dp = tau dz, in place. */
static void dea__meta_gate_backward(const dea__meta_encoder_call *call, const dea_real *p, dea_real *dz) {
    const dea_meta_encoder *e = call->e;
    const size_t C = (size_t)e->layers, r = (size_t)e->bottleneck, rows = (size_t)call->rows;
    for (size_t i = 0; i < C; i++) {
        const double tau = tanh((double)call->params[e->gate + i]);
        double sum = 0;
        for (size_t row = i; row < rows; row += C) {
            sum += dea__dot(dz + row * r, p + row * r, e->bottleneck);
            for (size_t j = 0; j < r; j++) dz[row * r + j] = DEA__REAL(tau * (double)dz[row * r + j]);
        }
        if (e->blocks || tau == 0) call->grads[e->gate + i] += DEA__REAL((1 - tau * tau) * sum);
    }
}

DEA_API dea_status dea_meta_encoder_backward(const dea_meta_encoder *encoder, const dea_real *params,
                                             const dea_real *act, int batch, const dea_real *cache,
                                             const dea_real *dcog, dea_real *grads, void *workspace,
                                             size_t workspace_bytes, const dea_threads *threads) {
    dea_status status = dea__meta_check_encoding(encoder, batch);
    if (status != DEA_OK) return status;
    if (!params || !act || !cache || !dcog || !grads) return DEA_ERR_NULL;
    const dea_meta_encoder *e = encoder;
    const size_t narrow = (size_t)batch * (size_t)e->layers * (size_t)e->bottleneck;
    const size_t wide = (size_t)batch * (size_t)e->layers * (size_t)e->width;
    dea__tensors tensors = dea__meta_tensors();
    dea__meta_see(&tensors, act, wide, 0);
    dea__meta_see(&tensors, dcog, wide, 0);
    dea__meta_see(&tensors, cache, dea_meta_encoder_cache_count(e, batch), 0);
    status = dea__meta_check_memory(&tensors, workspace, workspace_bytes, dea_meta_encoder_workspace(e, batch));
    if (status != DEA_OK) return status;
    dea__meta_encoder_call call;
    memset(&call, 0, sizeof call);
    dea__meta_encoder_bind(&call, e, batch, cache, workspace);
    call.params = params;
    call.grads = grads;
    call.threads = threads;
    const dea__meta_encoder_scratch *w = &call.w;
    const int D = e->width, r = e->bottleneck, rows = call.rows;
    /* forward: cog = LN_norm(out_fc2 GELU(out_fc1 LN_out(z))) */
    (void)dea_layer_norm_backward(call.c.f, params + e->out_norm_w, call.c.saved_norm, dcog, w->wide,
                                  grads + e->out_norm_w, grads + e->out_norm_b, rows, D, threads);
    (void)dea_gelu_forward(call.c.u, w->wide2, wide, threads);
    dea__meta_linear_backward(&call, w->wide2, e->out_fc2_w, e->out_fc2_b, w->wide, w->wide2, D, D);
    (void)dea_gelu_backward(call.c.u, w->wide2, w->wide2, wide, threads);
    (void)dea_layer_norm_forward(call.c.z, params + e->out_ln_w, params + e->out_ln_b, w->narrow, NULL, rows, r,
                                 DEA__META_EPS, threads);
    dea__meta_linear_backward(&call, w->narrow, e->out_fc1_w, e->out_fc1_b, w->wide2, w->narrow2, r, D);
    if (!e->blocks) dea__meta_gate_stable(&call, w->narrow2);
    (void)dea_layer_norm_backward(call.c.z, params + e->out_ln_w, call.c.saved_ln, w->narrow2, w->narrow2,
                                  grads + e->out_ln_w, grads + e->out_ln_b, rows, r, threads);
    for (int n = e->blocks - 1; n >= 0; n--) dea__meta_mixer_backward(&call, n, w->narrow2);
    const size_t slice = (size_t)e->layers * (size_t)r;
    for (size_t b = 0; e->blocks && b < (size_t)batch; b++) /* forward: z = z + emb */
        dea__meta_sum(grads + e->emb, w->narrow2 + b * slice, grads + e->emb, slice);
    /* forward: z = tanh(e) GELU(pre) */
    (void)dea_gelu_forward(call.c.pre, w->narrow, narrow, threads);
    dea__meta_gate_backward(&call, w->narrow, w->narrow2);
    (void)dea_gelu_backward(call.c.pre, w->narrow2, w->narrow2, narrow, threads);
    dea__meta_projector projector = dea__meta_encoder_projector(&call, act);
    projector.saved = NULL;
    projector.kept = call.c.saved;
    projector.d_pre = w->narrow2;
    projector.d_normed = w->wide2;
    projector.dln_w = grads + e->ln_w;
    projector.dln_b = grads + e->ln_b;
    projector.dfc_w = grads + e->fc_w;
    projector.dfc_b = grads + e->fc_b;
    dea__for(threads, e->layers, dea__meta_project_backward, &projector);
    return DEA_OK;
}

/* ---- blocks */
DEA_API dea_meta_blocks dea_meta_blocks_init(int count, int tokens, int width) {
    dea_meta_blocks blocks;
    memset(&blocks, 0, sizeof blocks);
    blocks.count = count;
    blocks.tokens = tokens;
    blocks.width = width;
    blocks.bottleneck = 256;
    blocks.heads = 4;
    return blocks;
}

DEA_API dea_meta_sequences dea_meta_sequences_init(int batch, int seq, const int *lengths, const dea_real *kv) {
    dea_meta_sequences s;
    memset(&s, 0, sizeof s);
    s.batch = batch;
    s.seq = seq;
    s.lengths = lengths;
    s.kv = kv;
    s.threads = dea_threads_default();
    return s;
}

static dea_status dea__meta_check_blocks(const dea_meta_blocks *m) {
    if (!m) return DEA_ERR_NULL;
    if (m->count <= 0 || m->tokens <= 0 || m->width <= 0 || m->bottleneck <= 0 || m->heads <= 0) return DEA_ERR_SHAPE;
    if (m->bottleneck % m->heads) return DEA_ERR_SHAPE;
    const int dim = m->bottleneck / m->heads;
    if (!dea__count(m->count, m->bottleneck, m->width, 4) || !dea__count(m->count, m->bottleneck, m->bottleneck, 1) ||
        !dea__count(m->count, m->heads, dim, dim) || !dea__count(m->heads, m->tokens, m->width, 4) ||
        (int64_t)2 * m->count * m->bottleneck > INT32_MAX || (int64_t)m->heads * m->tokens > INT32_MAX)
        return DEA_ERR_OVERFLOW;
    return DEA_OK;
}

static dea_status dea__meta_check_keys(const dea_meta_blocks *m, int batch) {
    const dea_status status = dea__meta_check_blocks(m);
    if (status != DEA_OK) return status;
    if (batch <= 0) return DEA_ERR_SHAPE;
    if ((int64_t)batch * m->tokens > INT32_MAX || !dea__count(batch, m->tokens, 2 * m->count, m->bottleneck) ||
        !dea__count(batch, m->tokens, m->width, 1))
        return DEA_ERR_OVERFLOW;
    return DEA_OK;
}

/* Shapes alone: what sizes depend on. */
static dea_status dea__meta_check_sequences(const dea_meta_blocks *m, const dea_meta_sequences *s) {
    if (!s) return DEA_ERR_NULL;
    const dea_status status = dea__meta_check_keys(m, s->batch);
    if (status != DEA_OK) return status;
    if (s->seq <= 0 || s->threads.count < 1) return DEA_ERR_SHAPE;
    const size_t rows = dea__count(s->batch, s->seq, 1, 1);
    if (!rows || !dea__count((ptrdiff_t)rows, m->width, 1, 1) || !dea__count((ptrdiff_t)rows, m->bottleneck, 8, 1) ||
        !dea__count((ptrdiff_t)rows, m->heads, m->tokens, 8) || (int64_t)s->batch * m->heads > INT32_MAX)
        return DEA_ERR_OVERFLOW;
    return DEA_OK;
}

static dea_status dea__meta_check_block(const dea_meta_blocks *m, const dea_meta_sequences *s, int index) {
    const dea_status status = dea__meta_check_sequences(m, s);
    if (status != DEA_OK) return status;
    if (index < 0 || index >= m->count) return DEA_ERR_INDEX;
    if (!s->kv) return DEA_ERR_NULL;
    for (int b = 0; s->lengths && b < s->batch; b++)
        if (s->lengths[b] < 0 || s->lengths[b] > s->seq) return DEA_ERR_KEY_LENGTH;
    return DEA_OK;
}

static dea__meta_list dea__meta_blocks_list(dea_meta_blocks *m) {
    const int n = m->count, D = m->width, r = m->bottleneck, dim = r / m->heads;
    dea__meta_list list;
    list.count = 0;
    dea__meta_add(&list, "norm_w", &m->norm_w, DEA__META_ONE, D, n, D, 0, 0);
    dea__meta_add(&list, "norm_b", &m->norm_b, DEA__META_ZERO, D, n, D, 0, 0);
    dea__meta_add(&list, "down_w", &m->down_w, DEA__META_MATRIX, D, n, r, D, 0);
    dea__meta_add(&list, "q_w", &m->q_w, DEA__META_MATRIX, r, n, r, r, 0);
    dea__meta_add(&list, "k_w", &m->k_w, DEA__META_MATRIX, D, n, r, D, 0); /* v_w follows: one product for both */
    dea__meta_add(&list, "v_w", &m->v_w, DEA__META_MATRIX, D, n, r, D, 0);
    dea__meta_add(&list, "up_w", &m->up_w, DEA__META_MATRIX, r, n, D, r, 0);
    dea__meta_add(&list, "pref", &m->pref, DEA__META_PREFERENCE, 1, n, m->tokens, 0, 0);
    dea__meta_add(&list, "gate", &m->gate, DEA__META_GATE, 1, n, 1, 0, 0);
    if (m->dual_expert) {
        dea__meta_add(&list, "w_rel", &m->w_rel, DEA__META_RELATION, dim, n, m->heads, dim, dim);
        dea__meta_add(&list, "c_mix", &m->c_mix, DEA__META_MIX, 1, n, m->heads, 0, 0);
    }
    return list;
}

DEA_API dea_status dea_meta_blocks_register(dea_meta_blocks *blocks, dea_table *table, const char *prefix) {
    dea_status status = dea__meta_check_blocks(blocks);
    if (status != DEA_OK) return status;
    if (!table || !prefix) return DEA_ERR_NULL;
    dea_meta_blocks copy = *blocks;
    const dea__meta_list list = dea__meta_blocks_list(&copy);
    status = dea__meta_register(&list, table, prefix);
    if (status == DEA_OK) *blocks = copy;
    return status;
}

DEA_API dea_status dea_meta_blocks_reset(const dea_meta_blocks *blocks, dea_real *params, uint64_t seed) {
    const dea_status status = dea__meta_check_blocks(blocks);
    if (status != DEA_OK) return status;
    if (!params) return DEA_ERR_NULL;
    dea_meta_blocks copy = *blocks;
    const dea__meta_list list = dea__meta_blocks_list(&copy);
    dea__meta_reset(&list, params, seed);
    if (copy.up_zero)
        dea__meta_fill(params + copy.up_w, (size_t)copy.count * (size_t)copy.width * (size_t)copy.bottleneck, 0);
    return DEA_OK;
}

/* ---- keys and values of all blocks */
DEA_API size_t dea_meta_keys_count(const dea_meta_blocks *blocks, int batch) {
    if (dea__meta_check_keys(blocks, batch) != DEA_OK) return 0;
    return dea__count(batch, blocks->tokens, 2 * blocks->count, blocks->bottleneck);
}

/* k_w and v_w are one matrix [2 L_w r, D] where the arena's alignment left no gap between them, else two. */
static int dea__meta_key_products(const dea_meta_blocks *m) {
    return m->v_w == m->k_w + (size_t)m->count * (size_t)m->bottleneck * (size_t)m->width ? 1 : 2;
}

DEA_API dea_status dea_meta_keys_forward(const dea_meta_blocks *blocks, const dea_real *params, const dea_real *cog,
                                         int batch, dea_real *kv, const dea_threads *threads) {
    const dea_status status = dea__meta_check_keys(blocks, batch);
    if (status != DEA_OK) return status;
    if (!params || !cog || !kv) return DEA_ERR_NULL;
    const int D = blocks->width, rows = batch * blocks->tokens, columns = 2 * blocks->count * blocks->bottleneck;
    dea__tensors tensors = dea__meta_tensors();
    dea__meta_see(&tensors, cog, (size_t)rows * (size_t)D, 0);
    dea__meta_see(&tensors, kv, dea_meta_keys_count(blocks, batch), 1);
    if (dea__check_alias(&tensors) != DEA_OK) return DEA_ERR_ALIAS;
    const size_t place[2] = {blocks->k_w, blocks->v_w};
    const int products = dea__meta_key_products(blocks), each = columns / products;
    for (int i = 0; i < products; i++)
        dea__gemm(0, 1, rows, each, D, 1, cog, D, params + place[i], D, 0, kv + (ptrdiff_t)i * each, columns, threads);
    return DEA_OK;
}

DEA_API dea_status dea_meta_keys_backward(const dea_meta_blocks *blocks, const dea_real *params, const dea_real *cog,
                                          const dea_real *dkv, int batch, dea_real *dcog, dea_real *grads,
                                          const dea_threads *threads) {
    const dea_status status = dea__meta_check_keys(blocks, batch);
    if (status != DEA_OK) return status;
    if (!params || !dkv || (grads && !cog)) return DEA_ERR_NULL;
    const int D = blocks->width, rows = batch * blocks->tokens, columns = 2 * blocks->count * blocks->bottleneck;
    dea__tensors tensors = dea__meta_tensors();
    dea__meta_see(&tensors, cog, (size_t)rows * (size_t)D, 0);
    dea__meta_see(&tensors, dkv, dea_meta_keys_count(blocks, batch), 0);
    dea__meta_see(&tensors, dcog, (size_t)rows * (size_t)D, 1);
    if (dea__check_alias(&tensors) != DEA_OK) return DEA_ERR_ALIAS;
    const size_t place[2] = {blocks->k_w, blocks->v_w};
    const int products = dea__meta_key_products(blocks), each = columns / products;
    for (int i = 0; i < products; i++) { /* forward: k = k_w cog, v = v_w cog */
        const dea_real *part = dkv + (ptrdiff_t)i * each;
        if (dcog) dea__gemm(0, 0, rows, D, each, 1, part, columns, params + place[i], D, i, dcog, D, threads);
        if (grads) dea__gemm(1, 0, each, D, rows, 1, part, columns, cog, D, 1, grads + place[i], D, threads);
    }
    return DEA_OK;
}

/* ---- one block: what it keeps, its scratch, its rows */

/* m = down_w LN(x), q = q_w m, o, each [B T,r]; weights A [B,h,T,C]; mean and 1/s of LN, two a row. */
typedef struct dea__meta_kept {
    dea_real *m, *q, *o, *a, *saved;
} dea__meta_kept;

static size_t dea__meta_rows(const dea_meta_sequences *s) {
    return (size_t)s->batch * (size_t)s->seq;
}

static size_t dea__meta_kept_count(const dea_meta_blocks *m, const dea_meta_sequences *s) {
    return dea__meta_rows(s) * (3 * (size_t)m->bottleneck + (size_t)m->heads * (size_t)m->tokens + 2);
}

static dea__meta_kept dea__meta_kept_in(const dea_meta_blocks *m, const dea_meta_sequences *s, const dea_real *cache) {
    const size_t rows = dea__meta_rows(s), r = (size_t)m->bottleneck;
    dea__meta_kept kept;
    kept.m = (dea_real *)(uintptr_t)cache;
    kept.q = kept.m + rows * r;
    kept.o = kept.q + rows * r;
    kept.a = kept.o + rows * r;
    kept.saved = kept.a + rows * (size_t)m->heads * (size_t)m->tokens;
    return kept;
}

/* Scratch of dual-expert scores, for one head of one sequence. */
typedef struct dea__meta_dual {
    dea_real *k, *kbar; /* [C,dh] centred keys, [dh] their mean */
    dea_real *u, *du;   /* [T,dh] W_rel q - kbar, and its cotangent */
    dea_real *e0, *e1;  /* [T,C] normalised energies; their cotangents */
    dea_real *de0, *de1;
    dea_real *dw;            /* [dh,dh] */
    double *sigma0, *sigma1; /* [T] */
    double *norms, *dc;      /* [C] |k|^2/dh; [1] the cotangent of c_mix */
} dea__meta_dual;

static void dea__meta_dual_layout(dea__meta_dual *w, dea__arena *arena, const dea_meta_blocks *m, int seq) {
    const size_t T = (size_t)seq, C = (size_t)m->tokens, dim = (size_t)(m->bottleneck / m->heads);
    w->k = dea__take_reals(arena, C * dim);
    w->kbar = dea__take_reals(arena, dim);
    w->u = dea__take_reals(arena, T * dim);
    w->du = dea__take_reals(arena, T * dim);
    w->e0 = dea__take_reals(arena, T * C);
    w->e1 = dea__take_reals(arena, T * C);
    w->de0 = dea__take_reals(arena, T * C);
    w->de1 = dea__take_reals(arena, T * C);
    w->dw = dea__take_reals(arena, dim * dim);
    w->sigma0 = dea__take_doubles(arena, T);
    w->sigma1 = dea__take_doubles(arena, T);
    w->norms = dea__take_doubles(arena, C);
    w->dc = dea__take_doubles(arena, 1);
}

static size_t dea__meta_dual_bytes(const dea_meta_blocks *m, int seq) {
    dea__arena arena = {NULL, 0, 0};
    dea__meta_dual dual;
    if (!m->dual_expert) return 0;
    dea__meta_dual_layout(&dual, &arena, m, seq);
    return dea__arena_bytes(&arena);
}

typedef struct dea__meta_block_scratch {
    dea_real *tile, *tile2; /* [run,D] */
    dea_real *g, *dq;       /* [B T,r] up_w^T dy, later down's cotangent; dq */
    dea_real *ds;           /* [B,h,T,C] */
    double *dpref;          /* [B,h,C] */
    dea_real *kept;         /* forward without a cache */
    char *dual;             /* [B,h] scratches of dual-expert scores */
} dea__meta_block_scratch;

static void dea__meta_block_layout(dea__meta_block_scratch *w, dea__arena *arena, const dea_meta_blocks *m,
                                   const dea_meta_sequences *s) {
    const size_t rows = dea__meta_rows(s), r = (size_t)m->bottleneck, heads = (size_t)m->heads, C = (size_t)m->tokens;
    const size_t run = rows < DEA__META_RUN ? rows : DEA__META_RUN;
    w->tile = dea__take_reals(arena, run * (size_t)m->width);
    w->tile2 = dea__take_reals(arena, run * (size_t)m->width);
    w->g = dea__take_reals(arena, rows * r);
    w->dq = dea__take_reals(arena, rows * r);
    w->ds = dea__take_reals(arena, rows * heads * C);
    w->dpref = dea__take_doubles(arena, (size_t)s->batch * heads * C);
    w->kept = dea__take_reals(arena, dea__meta_kept_count(m, s));
    w->dual = (char *)dea__take(arena, (size_t)s->batch * heads, m->dual_expert ? dea__meta_dual_bytes(m, s->seq) : 1);
}

DEA_API size_t dea_meta_block_cache_count(const dea_meta_blocks *blocks, const dea_meta_sequences *s) {
    return dea__meta_check_sequences(blocks, s) == DEA_OK ? dea__meta_kept_count(blocks, s) : 0;
}

DEA_API size_t dea_meta_block_workspace(const dea_meta_blocks *blocks, const dea_meta_sequences *s) {
    if (dea__meta_check_sequences(blocks, s) != DEA_OK) return 0;
    dea__arena arena = {NULL, 0, 0};
    dea__meta_block_scratch scratch;
    dea__meta_block_layout(&scratch, &arena, blocks, s);
    return dea__arena_bytes(&arena);
}

DEA_API const dea_real *dea_meta_block_weights(const dea_meta_blocks *blocks, const dea_meta_sequences *s,
                                               const dea_real *cache) {
    return dea__meta_check_sequences(blocks, s) == DEA_OK && cache ? dea__meta_kept_in(blocks, s, cache).a : NULL;
}

static int dea__meta_length(const dea_meta_sequences *s, ptrdiff_t b) {
    return s->lengths ? s->lengths[b] : s->seq;
}

/* Rows of the stream that are all real: at most DEA__META_RUN, across sequences where no padding lies between. */
typedef struct dea__meta_run {
    size_t first;
    int rows;
} dea__meta_run;

static int dea__meta_next_run(const dea_meta_sequences *s, dea__meta_run *run) {
    const ptrdiff_t total = (ptrdiff_t)s->batch * s->seq;
    ptrdiff_t row = (ptrdiff_t)run->first + run->rows;
    while (row < total && row % s->seq >= dea__meta_length(s, row / s->seq)) row += s->seq - row % s->seq;
    run->first = (size_t)row;
    run->rows = 0;
    while (row < total && run->rows < DEA__META_RUN && row % s->seq < dea__meta_length(s, row / s->seq))
        row++, run->rows++;
    return run->rows > 0;
}

/* One call on a block: everything its steps share. Pointers are to this block's tensors. */
typedef struct dea__meta_block_call {
    const dea_meta_blocks *m;
    const dea_meta_sequences *s;
    int index;
    const dea_real *norm_w, *norm_b, *down_w, *q_w, *up_w, *pref, *w_rel, *c_mix;
    double gate, tau;
    dea__meta_kept kept;
    dea__meta_block_scratch w;
    dea_real *dkv;
} dea__meta_block_call;

/* Where block `index` has its part of a tensor stacked over the blocks, rows * columns each. */
static size_t dea__meta_at(size_t place, int index, int rows, int columns) {
    return place + (size_t)index * (size_t)rows * (size_t)columns;
}

static void dea__meta_block_bind(dea__meta_block_call *call, const dea_meta_blocks *m, const dea_real *params,
                                 const dea_meta_sequences *s, int index, const dea_real *cache, void *workspace) {
    const int D = m->width, r = m->bottleneck, dim = r / m->heads;
    dea__arena arena = {(char *)workspace, 0, 0};
    memset(call, 0, sizeof *call);
    dea__meta_block_layout(&call->w, &arena, m, s);
    call->kept = dea__meta_kept_in(m, s, cache ? cache : call->w.kept);
    call->m = m;
    call->s = s;
    call->index = index;
    call->norm_w = params + dea__meta_at(m->norm_w, index, D, 1);
    call->norm_b = params + dea__meta_at(m->norm_b, index, D, 1);
    call->down_w = params + dea__meta_at(m->down_w, index, r, D);
    call->q_w = params + dea__meta_at(m->q_w, index, r, r);
    call->up_w = params + dea__meta_at(m->up_w, index, D, r);
    call->pref = params + dea__meta_at(m->pref, index, m->tokens, 1);
    call->w_rel = params + dea__meta_at(m->w_rel, index, r, dim);
    call->c_mix = params + dea__meta_at(m->c_mix, index, m->heads, 1);
    call->gate = (double)params[m->gate + (size_t)index];
    call->tau = tanh(call->gate);
}

/* Job = head `job` % h of sequence `job` / h: first element of its columns in a [B T,r] tensor, in kv, in a [B,h,T,C] map. */
static size_t dea__meta_columns_at(const dea__meta_block_call *call, int job) {
    const size_t h = (size_t)call->m->heads, r = (size_t)call->m->bottleneck;
    return (size_t)job / h * (size_t)call->s->seq * r + (size_t)job % h * (r / h);
}

static size_t dea__meta_keys_at(const dea__meta_block_call *call, int job) {
    const dea_meta_blocks *m = call->m;
    const size_t h = (size_t)m->heads, r = (size_t)m->bottleneck;
    return ((size_t)job / h * (size_t)m->tokens * 2 * (size_t)m->count + (size_t)call->index) * r +
           (size_t)job % h * (r / h);
}

static size_t dea__meta_weights_at(const dea__meta_block_call *call, int job) {
    return (size_t)job * (size_t)call->s->seq * (size_t)call->m->tokens;
}

static dea__meta_head dea__meta_block_head(const dea__meta_block_call *call, int job) {
    const dea_meta_blocks *m = call->m;
    const ptrdiff_t values = (ptrdiff_t)m->count * m->bottleneck; /* from a key to its value */
    dea__meta_head head;
    head.rows = dea__meta_length(call->s, job / m->heads);
    head.keys = m->tokens;
    head.dim = m->bottleneck / m->heads;
    head.q_stride = head.o_stride = m->bottleneck;
    head.kv_stride = 2 * values;
    head.q = call->kept.q + dea__meta_columns_at(call, job);
    head.k = call->s->kv + dea__meta_keys_at(call, job);
    head.v = head.k + values;
    return head;
}

/* ---- dual-expert scores: S = (1 - a) Et0 + a Et1, a = 0.95 sigmoid(c) */
static dea__meta_dual dea__meta_dual_of(const dea__meta_block_call *call, int job) {
    const size_t bytes = dea__meta_dual_bytes(call->m, call->s->seq);
    dea__arena arena = {call->w.dual + (size_t)job * bytes, 0, 0};
    dea__meta_dual dual;
    dea__meta_dual_layout(&dual, &arena, call->m, call->s->seq);
    return dual;
}

static const dea_real *dea__meta_relation(const dea__meta_block_call *call, int job, int dim) {
    return call->w_rel + (size_t)(job % call->m->heads) * (size_t)dim * (size_t)dim;
}

/* (1)-(3) over the C tokens, with keys centred as in room 5. */
static void dea__meta_energies(const dea__meta_block_call *call, int job, const dea__meta_head *h, dea__meta_dual *w) {
    const int d = h->dim;
    for (int c = 0; c < h->keys; c++)
        memcpy(w->k + (size_t)c * (size_t)d, h->k + c * h->kv_stride, (size_t)d * sizeof *w->k);
    dea__centre(w->k, h->keys, h->keys, d, w->kbar);
    dea__gemm(0, 1, h->rows, d, d, 1, h->q, h->q_stride, dea__meta_relation(call, job, d), d, 0, w->u, d, NULL);
    for (size_t i = 0; i < (size_t)h->rows * (size_t)d; i++) w->u[i] -= w->kbar[i % (size_t)d];
    dea__gemm(0, 1, h->rows, h->keys, d, 1 / sqrt((double)d), h->q, h->q_stride, w->k, d, 0, w->e0, h->keys, NULL);
    dea__gemm(0, 1, h->rows, h->keys, d, 2.0 / d, w->u, d, w->k, d, 0, w->e1, h->keys, NULL);
    for (int c = 0; c < h->keys; c++)
        w->norms[c] = dea__dot(w->k + (size_t)c * (size_t)d, w->k + (size_t)c * (size_t)d, d) / d;
    for (int t = 0; t < h->rows; t++) {
        const size_t row = (size_t)t * (size_t)h->keys;
        for (int c = 0; c < h->keys; c++)
            w->e1[row + (size_t)c] = DEA__REAL((double)w->e1[row + (size_t)c] - w->norms[c]);
        w->sigma0[t] = dea__normalise(w->e0 + row, h->keys, h->keys);
        w->sigma1[t] = dea__normalise(w->e1 + row, h->keys, h->keys);
    }
}

static double dea__meta_mix(const dea__meta_block_call *call, int job) {
    return DEA_ALPHA_MAX * dea__sigmoid((double)call->c_mix[job % call->m->heads]);
}

static void dea__meta_dual_scores(const dea__meta_block_call *call, int job, const dea__meta_head *h, dea_real *s) {
    dea__meta_dual w = dea__meta_dual_of(call, job);
    const double a = dea__meta_mix(call, job);
    dea__meta_energies(call, job, h, &w);
    for (size_t i = 0; i < (size_t)h->rows * (size_t)h->keys; i++)
        s[i] = DEA__REAL((1 - a) * (double)w.e0[i] + a * (double)w.e1[i]);
}

/* forward: as above; E0 = q k^T/sqrt(d), E1 = (2/d) u k^T - |k|^2/d, u = W_rel q. dq and dk written, dw and dc of this
 * sequence left in the scratch. */
static void dea__meta_dual_backward(const dea__meta_block_call *call, int job, const dea__meta_head *h,
                                    const dea_real *ds, dea_real *dq, dea_real *dk) {
    dea__meta_dual w = dea__meta_dual_of(call, job);
    const int d = h->dim, C = h->keys;
    const double a = dea__meta_mix(call, job), root = 1 / sqrt((double)d);
    const size_t cells = (size_t)h->rows * (size_t)C;
    dea__meta_energies(call, job, h, &w);
    double da = 0;
    for (size_t i = 0; i < cells; i++) {
        da += (double)ds[i] * ((double)w.e1[i] - (double)w.e0[i]);
        w.de0[i] = DEA__REAL((1 - a) * (double)ds[i]);
        w.de1[i] = DEA__REAL(a * (double)ds[i]);
    }
    *w.dc = da * a * (1 - a / DEA_ALPHA_MAX);
    for (int t = 0; t < h->rows; t++) {
        const size_t row = (size_t)t * (size_t)C;
        dea__normalise_backward(w.e0 + row, w.de0 + row, C, w.sigma0[t]);
        dea__normalise_backward(w.e1 + row, w.de1 + row, C, w.sigma1[t]);
    }
    dea__gemm(0, 0, h->rows, d, C, 2.0 / d, w.de1, C, w.k, d, 0, w.du, d, NULL);
    dea__gemm(0, 0, h->rows, d, C, root, w.de0, C, w.k, d, 0, dq, h->q_stride, NULL);
    dea__gemm(0, 0, h->rows, d, d, 1, w.du, d, dea__meta_relation(call, job, d), d, 1, dq, h->q_stride, NULL);
    dea__gemm(1, 0, d, d, h->rows, 1, w.du, d, h->q, h->q_stride, 0, w.dw, d, NULL);
    dea__gemm(1, 0, C, d, h->rows, root, w.de0, C, h->q, h->q_stride, 0, dk, h->kv_stride, NULL);
    dea__gemm(1, 0, C, d, h->rows, 2.0 / d, w.de1, C, w.u, d, 1, dk, h->kv_stride, NULL);
    for (int c = 0; c < C; c++) {
        double column = 0;
        for (size_t i = (size_t)c; i < cells; i += (size_t)C) column += (double)w.de1[i];
        for (int j = 0; j < d; j++) {
            dea_real *x = dk + c * h->kv_stride + j;
            *x = DEA__REAL((double)*x - 2.0 / d * column * (double)w.k[(size_t)c * (size_t)d + (size_t)j]);
        }
    }
}

/* ---- block forward */
static void dea__meta_attend(void *context, int job, int worker) { /* (24) */
    const dea__meta_block_call *call = (const dea__meta_block_call *)context;
    const dea__meta_head head = dea__meta_block_head(call, job);
    const size_t seq = (size_t)call->s->seq, rows = (size_t)head.rows, C = (size_t)head.keys;
    dea_real *a = call->kept.a + dea__meta_weights_at(call, job);
    (void)worker;
    memset(a + rows * C, 0, (seq - rows) * C * sizeof *a);
    if (!rows) return;
    if (call->m->dual_expert)
        dea__meta_dual_scores(call, job, &head, a);
    else
        dea__meta_scores(&head, a);
    dea__meta_softmax(a, call->pref, rows, head.keys);
    dea__meta_average(&head, a, call->kept.o + dea__meta_columns_at(call, job));
}

DEA_API dea_status dea_meta_block_forward(const dea_meta_blocks *blocks, const dea_real *params,
                                          const dea_meta_sequences *s, int index, const dea_real *x, dea_real *y,
                                          dea_real *cache, void *workspace, size_t workspace_bytes) {
    dea_status status = dea__meta_check_block(blocks, s, index);
    if (status != DEA_OK) return status;
    if (!params || !x || !y) return DEA_ERR_NULL;
    const int D = blocks->width, r = blocks->bottleneck;
    const size_t count = dea__meta_rows(s) * (size_t)D;
    dea__tensors tensors = dea__meta_tensors();
    if (y != x) dea__meta_see(&tensors, x, count, 0);
    dea__meta_see(&tensors, y, count, 1);
    dea__meta_see(&tensors, s->kv, dea_meta_keys_count(blocks, s->batch), 0);
    dea__meta_see(&tensors, cache, dea__meta_kept_count(blocks, s), 1);
    status = dea__meta_check_memory(&tensors, workspace, workspace_bytes, dea_meta_block_workspace(blocks, s));
    if (status != DEA_OK) return status;
    dea__meta_block_call call;
    dea__meta_block_bind(&call, blocks, params, s, index, cache, workspace);
    const dea__meta_kept *kept = &call.kept;
    dea__meta_run run = {0, 0};
    if (call.gate != 0 || cache) {            /* a closed gate's gradient needs o */
        while (dea__meta_next_run(s, &run)) { /* (23) */
            (void)dea_layer_norm_forward(x + run.first * (size_t)D, call.norm_w, call.norm_b, call.w.tile,
                                         kept->saved + 2 * run.first, run.rows, D, DEA__META_EPS, &s->threads);
            dea__gemm(0, 1, run.rows, r, D, 1, call.w.tile, D, call.down_w, D, 0, kept->m + run.first * (size_t)r, r,
                      &s->threads);
            dea__gemm(0, 1, run.rows, r, r, 1, kept->m + run.first * (size_t)r, r, call.q_w, r, 0,
                      kept->q + run.first * (size_t)r, r, &s->threads);
        }
        dea__for(&s->threads, s->batch * blocks->heads, dea__meta_attend, &call);
    }
    if (y != x) memcpy(y, x, count * sizeof *y);
    if (call.gate == 0) return DEA_OK;
    run.first = 0, run.rows = 0;
    while (dea__meta_next_run(s, &run)) /* (25) */
        dea__gemm(0, 1, run.rows, D, r, call.tau, kept->o + run.first * (size_t)r, r, call.up_w, r, 1,
                  y + run.first * (size_t)D, D, &s->threads);
    return DEA_OK;
}

/* ---- block backward */
static void dea__meta_attend_backward(void *context, int job, int worker) {
    const dea__meta_block_call *call = (const dea__meta_block_call *)context;
    const dea__meta_head head = dea__meta_block_head(call, job);
    const size_t map = dea__meta_weights_at(call, job), columns = dea__meta_columns_at(call, job),
                 C = (size_t)head.keys;
    double *dpref = call->w.dpref + (size_t)job * C;
    dea_real *ds = call->w.ds + map, *dk = call->dkv + dea__meta_keys_at(call, job), *dv = dk + (head.v - head.k);
    (void)worker;
    memset(dpref, 0, C * sizeof *dpref);
    if (!head.rows) { /* nothing looked at these tokens */
        for (size_t c = 0; c < C; c++) {
            memset(dk + (ptrdiff_t)c * head.kv_stride, 0, (size_t)head.dim * sizeof *dk);
            memset(dv + (ptrdiff_t)c * head.kv_stride, 0, (size_t)head.dim * sizeof *dv);
        }
        return;
    }
    dea__meta_average_backward(&head, call->kept.a + map, call->w.g + columns, ds, dv);
    for (size_t i = 0; i < (size_t)head.rows * C; i++) dpref[i % C] += (double)ds[i];
    if (call->m->dual_expert)
        dea__meta_dual_backward(call, job, &head, ds, call->w.dq + columns, dk);
    else
        dea__meta_scores_backward(&head, ds, call->w.dq + columns, dk);
}

/* Adds what every sequence left: dpref, and the gradients of dual-expert scores. */
static void dea__meta_gather_heads(const dea__meta_block_call *call, dea_real *grads) {
    const dea_meta_blocks *m = call->m;
    const int C = m->tokens, dim = m->bottleneck / m->heads;
    dea_real *dpref = grads + dea__meta_at(m->pref, call->index, C, 1);
    for (int c = 0; c < C; c++) {
        double sum = 0;
        for (int job = 0; job < call->s->batch * m->heads; job++)
            sum += call->w.dpref[(size_t)job * (size_t)C + (size_t)c];
        dpref[c] += DEA__REAL(sum);
    }
    for (int job = 0; m->dual_expert && job < call->s->batch * m->heads; job++) {
        if (!dea__meta_length(call->s, job / m->heads)) continue;
        const dea__meta_dual dual = dea__meta_dual_of(call, job);
        const int head = job % m->heads;
        dea_real *dw = grads + dea__meta_at(m->w_rel, call->index * m->heads + head, dim, dim);
        dea__meta_sum(dw, dual.dw, dw, (size_t)dim * (size_t)dim);
        grads[dea__meta_at(m->c_mix, call->index, m->heads, 1) + (size_t)head] += DEA__REAL(*dual.dc);
    }
}

/* forward: q = q_w m, m = down_w LN(x), y = x + ... dx = dy + LNbackward(down_w^T dm), dm = q_w^T dq. */
static void dea__meta_block_inputs_backward(const dea__meta_block_call *call, const dea__meta_run *run,
                                            const dea_real *x, const dea_real *dy, dea_real *dx, dea_real *grads) {
    const dea_meta_blocks *m = call->m;
    const dea_threads *threads = &call->s->threads;
    const int D = m->width, r = m->bottleneck;
    const size_t narrow = run->first * (size_t)r, wide = run->first * (size_t)D;
    const dea_real *dq = call->w.dq + narrow;
    dea_real *dm = call->w.g + narrow, *normed = call->w.tile, *d_normed = call->w.tile2;
    dea__gemm(1, 0, r, r, run->rows, 1, dq, r, call->kept.m + narrow, r, 1,
              grads + dea__meta_at(m->q_w, call->index, r, r), r, threads);
    dea__gemm(0, 0, run->rows, r, r, 1, dq, r, call->q_w, r, 0, dm, r, threads);
    (void)dea_layer_norm_forward(x + wide, call->norm_w, call->norm_b, normed, NULL, run->rows, D, DEA__META_EPS,
                                 threads);
    dea__gemm(1, 0, r, D, run->rows, 1, dm, r, normed, D, 1, grads + dea__meta_at(m->down_w, call->index, r, D), D,
              threads);
    dea__gemm(0, 0, run->rows, D, r, 1, dm, r, call->down_w, D, 0, d_normed, D, threads);
    (void)dea_layer_norm_backward(x + wide, call->norm_w, call->kept.saved + 2 * run->first, d_normed,
                                  dx ? d_normed : NULL, grads + dea__meta_at(m->norm_w, call->index, D, 1),
                                  grads + dea__meta_at(m->norm_b, call->index, D, 1), run->rows, D, threads);
    if (dx) dea__meta_sum(dy + wide, d_normed, dx + wide, (size_t)run->rows * (size_t)D);
}

DEA_API dea_status dea_meta_block_backward(const dea_meta_blocks *blocks, const dea_real *params,
                                           const dea_meta_sequences *s, int index, const dea_real *x,
                                           const dea_real *cache, const dea_real *dy, dea_real *dx, dea_real *dkv,
                                           dea_real *grads, void *workspace, size_t workspace_bytes) {
    dea_status status = dea__meta_check_block(blocks, s, index);
    if (status != DEA_OK) return status;
    if (!params || !x || !cache || !dy || !dkv || !grads) return DEA_ERR_NULL;
    const int D = blocks->width, r = blocks->bottleneck;
    const size_t count = dea__meta_rows(s) * (size_t)D;
    dea__tensors tensors = dea__meta_tensors();
    dea__meta_see(&tensors, x, count, 0);
    dea__meta_see(&tensors, s->kv, dea_meta_keys_count(blocks, s->batch), 0);
    dea__meta_see(&tensors, cache, dea__meta_kept_count(blocks, s), 0);
    if (dx != dy) dea__meta_see(&tensors, dy, count, 0);
    dea__meta_see(&tensors, dx, count, 1);
    dea__meta_see(&tensors, dkv, dea_meta_keys_count(blocks, s->batch), 1);
    status = dea__meta_check_memory(&tensors, workspace, workspace_bytes, dea_meta_block_workspace(blocks, s));
    if (status != DEA_OK) return status;
    dea__meta_block_call call;
    dea__meta_block_bind(&call, blocks, params, s, index, cache, workspace);
    call.dkv = dkv;
    /* forward: y = x + tau up_w o. G = up_w^T dy; dg = (1 - tau^2) sum G.o; dup_w = tau dy^T o; do = tau G. */
    dea__meta_run run = {0, 0};
    double dgate = 0;
    while (dea__meta_next_run(s, &run)) {
        const size_t narrow = run.first * (size_t)r;
        const dea_real *d = dy + run.first * (size_t)D;
        dea__gemm(0, 0, run.rows, r, D, 1, d, D, call.up_w, r, 0, call.w.g + narrow, r, &s->threads);
        for (size_t t = 0; t < (size_t)run.rows; t++)
            dgate += dea__dot(call.w.g + narrow + t * (size_t)r, call.kept.o + narrow + t * (size_t)r, r);
        if (call.gate == 0) continue;
        dea__gemm(1, 0, D, r, run.rows, call.tau, d, D, call.kept.o + narrow, r, 1,
                  grads + dea__meta_at(blocks->up_w, index, D, r), r, &s->threads);
        for (size_t i = 0; i < (size_t)run.rows * (size_t)r; i++)
            call.w.g[narrow + i] = DEA__REAL(call.tau * (double)call.w.g[narrow + i]);
    }
    grads[blocks->gate + (size_t)index] += DEA__REAL((1 - call.tau * call.tau) * dgate);
    if (call.gate == 0) { /* y is a copy of x: nothing else gets a gradient */
        const size_t rows = (size_t)s->batch * (size_t)blocks->tokens, each = (size_t)blocks->count * (size_t)r;
        for (size_t i = 0; i < 2 * rows; i++)
            memset(dkv + i * each + (size_t)index * (size_t)r, 0, (size_t)r * sizeof *dkv);
        if (dx && dx != dy) memcpy(dx, dy, count * sizeof *dx);
        return DEA_OK;
    }
    dea__for(&s->threads, s->batch * blocks->heads, dea__meta_attend_backward, &call);
    dea__meta_gather_heads(&call, grads);
    if (dx && dx != dy) memcpy(dx, dy, count * sizeof *dx); /* padded rows pass straight through */
    run.first = 0, run.rows = 0;
    while (dea__meta_next_run(s, &run)) dea__meta_block_inputs_backward(&call, &run, x, dy, dx, grads);
    return DEA_OK;
}

/* ---- folded form: G [hC,D] with LN's scale in it and its rows centred, so that G x = G (x - mean x);
 * M [hC,D] with tau in it; what LN's bias and pref add to the scores [hC]; the gate [1]. */
typedef struct dea__meta_folded {
    dea_real *g, *m, *bias, *gate;
} dea__meta_folded;

static dea__meta_folded dea__meta_fold_in(const dea_meta_blocks *m, const dea_real *fold) {
    const size_t rows = (size_t)m->heads * (size_t)m->tokens;
    dea__meta_folded f;
    f.g = (dea_real *)(uintptr_t)fold;
    f.m = f.g + rows * (size_t)m->width;
    f.bias = f.m + rows * (size_t)m->width;
    f.gate = f.bias + rows;
    return f;
}

static dea_status dea__meta_check_fold(const dea_meta_blocks *m) {
    const dea_status status = dea__meta_check_blocks(m);
    return status == DEA_OK && m->dual_expert ? DEA_ERR_OPTION : status;
}

DEA_API size_t dea_meta_fold_count(const dea_meta_blocks *blocks) {
    if (dea__meta_check_fold(blocks) != DEA_OK) return 0;
    return (size_t)blocks->heads * (size_t)blocks->tokens * (2 * (size_t)blocks->width + 1) + 1;
}

DEA_API size_t dea_meta_fold_workspace(const dea_meta_blocks *blocks) {
    dea__arena arena = {NULL, 0, 0};
    if (dea__meta_check_fold(blocks) != DEA_OK) return 0;
    dea__take_reals(&arena, (size_t)blocks->heads * (size_t)blocks->tokens * (size_t)blocks->bottleneck);
    return dea__arena_bytes(&arena);
}

DEA_API dea_status dea_meta_fold(const dea_meta_blocks *blocks, const dea_real *params, const dea_meta_sequences *s,
                                 int index, int b, dea_real *fold, void *workspace, size_t workspace_bytes) {
    dea_status status = dea__meta_check_fold(blocks);
    if (status == DEA_OK) status = dea__meta_check_block(blocks, s, index);
    if (status != DEA_OK) return status;
    if (!params || !fold) return DEA_ERR_NULL;
    if (b < 0 || b >= s->batch) return DEA_ERR_INDEX;
    dea__tensors tensors = dea__meta_tensors();
    dea__meta_see(&tensors, s->kv, dea_meta_keys_count(blocks, s->batch), 0);
    dea__meta_see(&tensors, fold, dea_meta_fold_count(blocks), 1);
    status = dea__meta_check_memory(&tensors, workspace, workspace_bytes, dea_meta_fold_workspace(blocks));
    if (status != DEA_OK) return status;
    const int C = blocks->tokens, D = blocks->width, r = blocks->bottleneck, h = blocks->heads, dim = r / h;
    const dea_real *norm_w = params + dea__meta_at(blocks->norm_w, index, D, 1);
    const dea_real *norm_b = params + dea__meta_at(blocks->norm_b, index, D, 1);
    const dea_real *q_w = params + dea__meta_at(blocks->q_w, index, r, r);
    const dea_real *down_w = params + dea__meta_at(blocks->down_w, index, r, D);
    const dea_real *up_w = params + dea__meta_at(blocks->up_w, index, D, r);
    const dea_real *pref = params + dea__meta_at(blocks->pref, index, C, 1);
    const dea__meta_folded f = dea__meta_fold_in(blocks, fold);
    const ptrdiff_t values = (ptrdiff_t)blocks->count * r;
    dea_real *kq = (dea_real *)workspace; /* [hC,r] */
    *f.gate = params[blocks->gate + (size_t)index];
    const double tau = tanh((double)*f.gate);
    for (int a = 0; a < h; a++) {
        const dea_real *k = s->kv + ((ptrdiff_t)b * C * 2 * blocks->count + index) * r + a * dim;
        const size_t rows = (size_t)a * (size_t)C;
        dea__gemm(0, 0, C, r, dim, 1 / sqrt((double)dim), k, 2 * values, q_w + (ptrdiff_t)a * dim * r, r, 0,
                  kq + rows * (size_t)r, r, &s->threads);
        dea__gemm(0, 1, C, D, dim, tau, k + values, 2 * values, up_w + a * dim, r, 0, f.m + rows * (size_t)D, D,
                  &s->threads);
    }
    dea__gemm(0, 0, h * C, D, r, 1, kq, r, down_w, D, 0, f.g, D, &s->threads);
    for (int row = 0; row < h * C; row++) {
        dea_real *g = f.g + (ptrdiff_t)row * D;
        double mean = 0;
        f.bias[row] = DEA__REAL(dea__dot(g, norm_b, D) + (double)pref[row % C]);
        for (int j = 0; j < D; j++) {
            g[j] *= norm_w[j];
            mean += (double)g[j];
        }
        mean /= D;
        for (int j = 0; j < D; j++) g[j] = DEA__REAL((double)g[j] - mean);
    }
    return DEA_OK;
}

DEA_API dea_status dea_meta_fold_apply(const dea_meta_blocks *blocks, const dea_real *fold, const dea_real *x,
                                       dea_real *y, int rows, dea_real *scores, const dea_threads *threads) {
    const dea_status status = dea__meta_check_fold(blocks);
    if (status != DEA_OK) return status;
    if (!fold || !x || !y || !scores) return DEA_ERR_NULL;
    if (rows <= 0) return DEA_ERR_SHAPE;
    const int D = blocks->width, width = blocks->heads * blocks->tokens;
    const size_t count = dea__count(rows, D, 1, 1), cells = dea__count(rows, width, 1, 1);
    if (!count || !cells) return DEA_ERR_OVERFLOW;
    dea__tensors tensors = dea__meta_tensors();
    dea__meta_see(&tensors, fold, dea_meta_fold_count(blocks), 0);
    if (y != x) dea__meta_see(&tensors, x, count, 0);
    dea__meta_see(&tensors, y, count, 1);
    dea__meta_see(&tensors, scores, cells, 1);
    if (dea__check_alias(&tensors) != DEA_OK) return DEA_ERR_ALIAS;
    const dea__meta_folded f = dea__meta_fold_in(blocks, fold);
    if (*f.gate != 0) {
        dea__gemm(0, 1, rows, width, D, 1, x, D, f.g, D, 0, scores, width, threads);
        for (ptrdiff_t t = 0; t < rows; t++) { /* LN's 1/s, then its bias and pref */
            double mean = 0, variance = 0;
            for (int j = 0; j < D; j++) mean += (double)x[t * D + j];
            mean /= D;
            for (int j = 0; j < D; j++) variance += ((double)x[t * D + j] - mean) * ((double)x[t * D + j] - mean);
            const double inverse = 1 / sqrt(variance / D + DEA__META_EPS);
            for (int c = 0; c < width; c++)
                scores[t * width + c] = DEA__REAL((double)scores[t * width + c] * inverse + (double)f.bias[c]);
        }
        dea__meta_softmax(scores, NULL, (size_t)rows * (size_t)blocks->heads, blocks->tokens);
    }
    if (y != x) memcpy(y, x, count * sizeof *y);
    if (*f.gate != 0) dea__gemm(0, 0, rows, D, width, 1, scores, width, f.m, D, 1, y, D, threads);
    return DEA_OK;
}

/* ---- confidence heads */
DEA_API dea_meta_confidence dea_meta_confidence_init(int layers, int width) {
    dea_meta_confidence confidence;
    memset(&confidence, 0, sizeof confidence);
    confidence.layers = layers;
    confidence.width = width;
    confidence.bottleneck = 256;
    return confidence;
}

static dea_status dea__meta_check_confidence(const dea_meta_confidence *c) {
    if (!c) return DEA_ERR_NULL;
    if (c->layers <= 0 || c->width <= 0 || c->bottleneck <= 0) return DEA_ERR_SHAPE;
    return dea__count(c->layers, c->bottleneck, c->width, 4) ? DEA_OK : DEA_ERR_OVERFLOW;
}

static dea_status dea__meta_check_judging(const dea_meta_confidence *c, int batch) {
    const dea_status status = dea__meta_check_confidence(c);
    if (status != DEA_OK) return status;
    if (batch <= 0) return DEA_ERR_SHAPE;
    return (int64_t)batch * c->layers <= INT32_MAX && dea__count(batch, c->layers, c->width, 4) &&
                   dea__count(batch, c->layers, c->bottleneck, 4)
               ? DEA_OK
               : DEA_ERR_OVERFLOW;
}

static dea__meta_list dea__meta_confidence_list(dea_meta_confidence *c) {
    const int C = c->layers, D = c->width, r = c->bottleneck;
    dea__meta_list list;
    list.count = 0;
    dea__meta_add(&list, "ln_w", &c->ln_w, DEA__META_ONE, D, C, D, 0, 0);
    dea__meta_add(&list, "ln_b", &c->ln_b, DEA__META_ZERO, D, C, D, 0, 0);
    dea__meta_add(&list, "fc_w", &c->fc_w, DEA__META_MATRIX, D, C, r, D, 0);
    dea__meta_add(&list, "fc_b", &c->fc_b, DEA__META_BIAS, D, C, r, 0, 0);
    dea__meta_add(&list, "head_w", &c->head_w, DEA__META_MATRIX, r, C, r, 0, 0);
    dea__meta_add(&list, "head_b", &c->head_b, DEA__META_BIAS, r, C, 0, 0, 0);
    return list;
}

DEA_API dea_status dea_meta_confidence_register(dea_meta_confidence *confidence, dea_table *table, const char *prefix) {
    dea_status status = dea__meta_check_confidence(confidence);
    if (status != DEA_OK) return status;
    if (!table || !prefix) return DEA_ERR_NULL;
    dea_meta_confidence copy = *confidence;
    const dea__meta_list list = dea__meta_confidence_list(&copy);
    status = dea__meta_register(&list, table, prefix);
    if (status == DEA_OK) *confidence = copy;
    return status;
}

DEA_API dea_status dea_meta_confidence_reset(const dea_meta_confidence *confidence, dea_real *params, uint64_t seed) {
    const dea_status status = dea__meta_check_confidence(confidence);
    if (status != DEA_OK) return status;
    if (!params) return DEA_ERR_NULL;
    dea_meta_confidence copy = *confidence;
    const dea__meta_list list = dea__meta_confidence_list(&copy);
    dea__meta_reset(&list, params, seed);
    return DEA_OK;
}

/* The cache: mean and 1/s [C,B,2], pre [B,C,r]. */
static size_t dea__meta_rows_of(const dea_meta_confidence *c, int batch) {
    return (size_t)batch * (size_t)c->layers;
}

DEA_API size_t dea_meta_confidence_cache_count(const dea_meta_confidence *confidence, int batch) {
    if (dea__meta_check_judging(confidence, batch) != DEA_OK) return 0;
    return dea__meta_rows_of(confidence, batch) * (2 + (size_t)confidence->bottleneck);
}

typedef struct dea__meta_judging {
    dea_real *normed, *d_normed, *p, *d_pre, *cache;
} dea__meta_judging;

static void dea__meta_judging_layout(dea__meta_judging *w, dea__arena *arena, const dea_meta_confidence *c, int batch) {
    const size_t rows = dea__meta_rows_of(c, batch), r = (size_t)c->bottleneck, D = (size_t)c->width;
    w->normed = dea__take_reals(arena, rows * D);
    w->d_normed = dea__take_reals(arena, rows * D);
    w->p = dea__take_reals(arena, rows * r);
    w->d_pre = dea__take_reals(arena, rows * r);
    w->cache = dea__take_reals(arena, rows * (r + 2));
}

DEA_API size_t dea_meta_confidence_workspace(const dea_meta_confidence *confidence, int batch) {
    if (dea__meta_check_judging(confidence, batch) != DEA_OK) return 0;
    dea__arena arena = {NULL, 0, 0};
    dea__meta_judging judging;
    dea__meta_judging_layout(&judging, &arena, confidence, batch);
    return dea__arena_bytes(&arena);
}

static dea__meta_projector dea__meta_confidence_projector(const dea_meta_confidence *c, const dea_real *params,
                                                          const dea_real *act, int batch, const dea__meta_judging *w) {
    dea__meta_projector p;
    memset(&p, 0, sizeof p);
    p.batch = batch;
    p.layers = c->layers;
    p.width = c->width;
    p.bottleneck = c->bottleneck;
    p.act = act;
    p.ln_w = params + c->ln_w;
    p.ln_b = params + c->ln_b;
    p.fc_w = params + c->fc_w;
    p.fc_b = params + c->fc_b;
    p.normed = w->normed;
    p.d_normed = w->d_normed;
    p.d_pre = w->d_pre;
    return p;
}

DEA_API dea_status dea_meta_confidence_forward(const dea_meta_confidence *confidence, const dea_real *params,
                                               const dea_real *act, int batch, dea_real *u, dea_real *cache,
                                               void *workspace, size_t workspace_bytes, const dea_threads *threads) {
    dea_status status = dea__meta_check_judging(confidence, batch);
    if (status != DEA_OK) return status;
    if (!params || !act || !u) return DEA_ERR_NULL;
    const size_t rows = dea__meta_rows_of(confidence, batch), C = (size_t)confidence->layers;
    const size_t r = (size_t)confidence->bottleneck;
    dea__tensors tensors = dea__meta_tensors();
    dea__meta_see(&tensors, act, rows * (size_t)confidence->width, 0);
    dea__meta_see(&tensors, u, rows, 1);
    dea__meta_see(&tensors, cache, dea_meta_confidence_cache_count(confidence, batch), 1);
    status =
        dea__meta_check_memory(&tensors, workspace, workspace_bytes, dea_meta_confidence_workspace(confidence, batch));
    if (status != DEA_OK) return status;
    dea__arena arena = {(char *)workspace, 0, 0};
    dea__meta_judging w;
    dea__meta_judging_layout(&w, &arena, confidence, batch);
    dea__meta_projector projector = dea__meta_confidence_projector(confidence, params, act, batch, &w);
    projector.saved = cache ? cache : w.cache;
    projector.pre = projector.saved + 2 * rows;
    dea__for(threads, confidence->layers, dea__meta_project, &projector);
    (void)dea_gelu_forward(projector.pre, w.p, rows * r, threads);
    for (size_t row = 0; row < rows; row++) /* (26) */
        u[row] = DEA__REAL(dea__dot(params + confidence->head_w + row % C * r, w.p + row * r, confidence->bottleneck) +
                           (double)params[confidence->head_b + row % C]);
    return DEA_OK;
}

DEA_API dea_status dea_meta_confidence_backward(const dea_meta_confidence *confidence, const dea_real *params,
                                                const dea_real *act, int batch, const dea_real *cache,
                                                const dea_real *du, dea_real *grads, void *workspace,
                                                size_t workspace_bytes, const dea_threads *threads) {
    dea_status status = dea__meta_check_judging(confidence, batch);
    if (status != DEA_OK) return status;
    if (!params || !act || !cache || !du || !grads) return DEA_ERR_NULL;
    const size_t rows = dea__meta_rows_of(confidence, batch), C = (size_t)confidence->layers;
    const size_t r = (size_t)confidence->bottleneck;
    dea__tensors tensors = dea__meta_tensors();
    dea__meta_see(&tensors, act, rows * (size_t)confidence->width, 0);
    dea__meta_see(&tensors, du, rows, 0);
    dea__meta_see(&tensors, cache, dea_meta_confidence_cache_count(confidence, batch), 0);
    status =
        dea__meta_check_memory(&tensors, workspace, workspace_bytes, dea_meta_confidence_workspace(confidence, batch));
    if (status != DEA_OK) return status;
    dea__arena arena = {(char *)workspace, 0, 0};
    dea__meta_judging w;
    dea__meta_judging_layout(&w, &arena, confidence, batch);
    const dea_real *pre = cache + 2 * rows;
    (void)dea_gelu_forward(pre, w.p, rows * r, threads);
    /* forward: u = head_w . p + head_b, p = GELU(pre) */
    for (size_t row = 0; row < rows; row++) {
        const size_t head = row % C * r;
        grads[confidence->head_b + row % C] += du[row];
        for (size_t j = 0; j < r; j++) {
            grads[confidence->head_w + head + j] += du[row] * w.p[row * r + j];
            w.d_pre[row * r + j] = du[row] * params[confidence->head_w + head + j];
        }
    }
    (void)dea_gelu_backward(pre, w.d_pre, w.d_pre, rows * r, threads);
    dea__meta_projector projector = dea__meta_confidence_projector(confidence, params, act, batch, &w);
    projector.kept = cache;
    projector.dln_w = grads + confidence->ln_w;
    projector.dln_b = grads + confidence->ln_b;
    projector.dfc_w = grads + confidence->fc_w;
    projector.dfc_b = grads + confidence->fc_b;
    dea__for(threads, confidence->layers, dea__meta_project_backward, &projector);
    return DEA_OK;
}

DEA_API dea_status dea_meta_confidence_loss(const dea_real *u, const int *right, int batch, int layers, double *loss,
                                            double *layer_loss, double d_loss, dea_real *du) {
    if (!u || !right || !loss) return DEA_ERR_NULL;
    if (batch <= 0 || layers <= 0) return DEA_ERR_SHAPE;
    const size_t C = (size_t)layers, count = dea__count(batch, layers, 1, 1);
    if (!count) return DEA_ERR_OVERFLOW;
    for (int b = 0; b < batch; b++)
        if (right[b] != 0 && right[b] != 1) return DEA_ERR_LABEL;
    if (du != u && dea__partial_overlap(u, du, count, count)) return DEA_ERR_ALIAS;
    *loss = 0;
    for (size_t i = 0; layer_loss && i < C; i++) layer_loss[i] = 0;
    for (size_t at = 0; at < count; at++) { /* (27) */
        const double logit = (double)u[at], y = right[at / C], term = dea__softplus(logit) - y * logit;
        *loss += term / (double)count;
        if (layer_loss) layer_loss[at % C] += term / batch;
        if (du) du[at] = DEA__REAL(d_loss * (dea__sigmoid(logit) - y) / (double)count);
    }
    return DEA_OK;
}

DEA_API dea_status dea_meta_confidence_keep(const dea_meta_confidence *confidence, const dea_real *from, dea_real *to,
                                            int layer) {
    const dea_status status = dea__meta_check_confidence(confidence);
    if (status != DEA_OK) return status;
    if (!from || !to) return DEA_ERR_NULL;
    if (from == to) return DEA_ERR_ALIAS;
    if (layer < 0 || layer >= confidence->layers) return DEA_ERR_INDEX;
    dea_meta_confidence copy = *confidence;
    const dea__meta_list list = dea__meta_confidence_list(&copy);
    for (int i = 0; i < list.count; i++) {
        const size_t each = dea__meta_entry_count(&list.entry[i]) / (size_t)confidence->layers;
        const size_t at = *list.entry[i].place + (size_t)layer * each;
        memcpy(to + at, from + at, each * sizeof *to);
    }
    return DEA_OK;
}

DEA_API dea_status dea_meta_warm_start(const dea_meta_confidence *confidence, const dea_real *confidence_params,
                                       const dea_meta_encoder *encoder, dea_real *params) {
    dea_status status = dea__meta_check_confidence(confidence);
    if (status == DEA_OK) status = dea__meta_check_encoder(encoder);
    if (status != DEA_OK) return status;
    if (!confidence_params || !params) return DEA_ERR_NULL;
    if (confidence->layers != encoder->layers || confidence->width != encoder->width ||
        confidence->bottleneck != encoder->bottleneck)
        return DEA_ERR_SHAPE;
    const size_t from[4] = {confidence->ln_w, confidence->ln_b, confidence->fc_w, confidence->fc_b};
    const size_t to[4] = {encoder->ln_w, encoder->ln_b, encoder->fc_w, encoder->fc_b};
    const size_t C = (size_t)encoder->layers, D = (size_t)encoder->width, r = (size_t)encoder->bottleneck;
    const size_t count[4] = {C * D, C * D, C * r * D, C * r};
    for (int i = 0; i < 4; i++)
        if (dea__partial_overlap(confidence_params + from[i], params + to[i], count[i], count[i])) return DEA_ERR_ALIAS;
    for (int i = 0; i < 4; i++) memcpy(params + to[i], confidence_params + from[i], count[i] * sizeof *params);
    return DEA_OK;
}

/* ---- training */
DEA_API uint64_t dea_meta_random(uint64_t s) {
    return dea__mix64(s);
}

DEA_API dea_meta_action dea_meta_draw(int base_right, double ratio, uint64_t seed, uint64_t epoch, uint64_t item) {
    if (base_right) return DEA_META_CONFIRM;
    const double u = (double)(dea__mix64(seed + (epoch << 32) + item) >> 11) * (1.0 / 9007199254740992.0);
    return u < ratio ? DEA_META_CORRECT : DEA_META_REFUSE;
}

DEA_API int dea_meta_cut_prompt(int *ids, int count, int max_seq) {
    const int keep = max_seq - DEA__META_TARGET;
    if (!ids || count < 1 || keep < 2) return -1;
    if (count <= keep) return count;
    memmove(ids + 1, ids + count - (keep - 1), (size_t)(keep - 1) * sizeof *ids);
    return keep;
}

static int dea__meta_target_length(int count) {
    return count < DEA__META_TARGET ? count : DEA__META_TARGET;
}

DEA_API dea_status dea_meta_join(const int *prompt, const int *n_prompt, int prompt_seq, const int *target,
                                 const int *n_target, int target_seq, int batch, int pad, int seq, int *full,
                                 int *n_full, int *targets) {
    if (!prompt || !n_prompt || !target || !n_target || !full || !n_full || !targets) return DEA_ERR_NULL;
    if (prompt_seq <= 0 || target_seq <= 0 || batch <= 0 || seq <= 0) return DEA_ERR_SHAPE;
    for (int b = 0; b < batch; b++) {
        if (n_prompt[b] < 1 || n_prompt[b] > prompt_seq || n_target[b] < 0 || n_target[b] > target_seq)
            return DEA_ERR_KEY_LENGTH;
        if (dea__meta_target_length(n_target[b]) > seq - n_prompt[b]) return DEA_ERR_CAPACITY;
    }
    for (int b = 0; b < batch; b++) {
        const int *first = prompt + (ptrdiff_t)b * prompt_seq, *then = target + (ptrdiff_t)b * target_seq;
        int *row = full + (ptrdiff_t)b * seq, *scored = targets + (ptrdiff_t)b * seq;
        const int n = n_prompt[b], end = n + dea__meta_target_length(n_target[b]);
        n_full[b] = end;
        for (int t = 0; t < seq; t++) row[t] = t < n ? first[t] : t < end ? then[t - n] : pad;
        for (int t = 0; t < seq; t++) scored[t] = t + 1 >= n && t + 1 < end ? row[t + 1] : -1; /* (28) */
    }
    return DEA_OK;
}

static int64_t dea__meta_micros(int64_t items, int micro) {
    return items / micro + (items % micro != 0);
}

DEA_API int64_t dea_meta_steps(int64_t items, int micro, int group) {
    if (items <= 0 || micro <= 0 || group <= 0) return 0;
    return dea__meta_micros(dea__meta_micros(items, micro), group);
}

DEA_API double dea_meta_micro_weight(int64_t items, int micro, int group, int64_t i) {
    if (items <= 0 || micro <= 0 || group <= 0 || i < 0 || i >= dea__meta_micros(items, micro)) return 0;
    const int64_t left = dea__meta_micros(items, micro) - i / group * group;
    return 1.0 / (double)(left < group ? left : group);
}

DEA_API int dea_meta_micro_ends_step(int64_t items, int micro, int group, int64_t i) {
    if (items <= 0 || micro <= 0 || group <= 0) return 0;
    return (i + 1) % group == 0 || i + 1 == dea__meta_micros(items, micro);
}

DEA_API dea_early_stop dea_early_stop_init(int patience) {
    dea_early_stop stop;
    memset(&stop, 0, sizeof stop);
    stop.patience = patience;
    stop.best_epoch = -1;
    stop.best = INFINITY;
    return stop;
}

DEA_API int dea_early_stop_enter(dea_early_stop *stop, double loss) {
    const int epoch = stop->epochs++;
    if (!(loss < stop->best)) return 0;
    stop->best = loss;
    stop->best_epoch = epoch;
    return 1;
}

DEA_API int dea_early_stop_done(const dea_early_stop *stop) {
    return stop->epochs - 1 - stop->best_epoch >= stop->patience;
}

/* ---- checks */
DEA_API uint64_t dea_meta_hash(const dea_meta_bytes *pieces, size_t count) {
    uint64_t hash = 0x9E3779B97F4A7C15u ^ count;
    for (size_t i = 0; pieces && i < count; i++) {
        const unsigned char *data = (const unsigned char *)pieces[i].data;
        const size_t size = data ? pieces[i].size : 0;
        for (size_t at = 0; at <= size; at += 8) { /* the last round, which may hold no byte, ends a piece */
            uint64_t word = 0;
            if (at < size) memcpy(&word, data + at, size - at < 8 ? size - at : 8);
            if (at + 8 > size) word ^= (uint64_t)size << 56;
            hash = (hash ^ word) * 0xD1342543DE82EF95u; /* odd: a bijection, so one changed word always shows */
            hash ^= hash >> 32;
        }
    }
    return hash;
}

DEA_API dea_status dea_meta_verify_frozen(const dea_meta_bytes *pieces, size_t count, uint64_t before) {
    if (!pieces) return DEA_ERR_NULL;
    if (!count) return DEA_ERR_SHAPE;
    return dea_meta_hash(pieces, count) == before ? DEA_OK : DEA_ERR_BASE_CHANGED;
}

static int dea__meta_all_zero(const dea_real *x, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (x[i] != 0) return 0; /* NaN is not 0 either */
    return 1;
}

/* The first thing wrong with the gradients of a pass whose gates are all 0, or NULL. */
static const char *dea__meta_leak(const dea_meta_blocks *blocks, const dea_real *grads, const dea_real *dcog,
                                  size_t dcog_count) {
    dea_meta_blocks copy = *blocks;
    const dea__meta_list list = dea__meta_blocks_list(&copy);
    for (int i = 0; i < list.count; i++) {
        const dea__meta_entry *entry = &list.entry[i];
        const int zero = dea__meta_all_zero(grads + *entry->place, dea__meta_entry_count(entry));
        if (entry->kind == DEA__META_GATE && zero) return "no gradient reached a gate";
        if (entry->kind != DEA__META_GATE && !zero) return entry->name;
    }
    return dea__meta_all_zero(dcog, dcog_count) ? NULL : "dcog";
}

DEA_API dea_status dea_meta_verify_gates(const dea_meta_blocks *blocks, dea_real *params, dea_meta_pass *pass,
                                         void *context, dea_real *logits, size_t logits_count, dea_real *grads,
                                         size_t grads_count, dea_real *dcog, size_t dcog_count, dea_real *gates,
                                         const char **what) {
    dea_status status = dea__meta_check_blocks(blocks);
    if (status != DEA_OK) return status;
    if (!params || !pass || !logits || !grads || !dcog || !gates || !what) return DEA_ERR_NULL;
    if (!logits_count || !grads_count || !dcog_count) return DEA_ERR_SHAPE;
    const size_t bytes = (size_t)blocks->count * sizeof *gates;
    memcpy(gates, params + blocks->gate, bytes);
    memset(params + blocks->gate, 0, bytes);
    memset(grads, 0, grads_count * sizeof *grads);
    *what = NULL;
    status = pass(context, 0, logits, NULL, NULL);
    if (status == DEA_OK) status = pass(context, 1, logits + logits_count, grads, dcog);
    if (status == DEA_OK) {
        if (memcmp(logits, logits + logits_count, logits_count * sizeof *logits))
            *what = "logits with every gate at 0 differ from the base's";
        else
            *what = dea__meta_leak(blocks, grads, dcog, dcog_count);
        if (*what) status = DEA_ERR_ISOLATION;
    }
    memcpy(params + blocks->gate, gates, bytes);
    return status;
}

/* ==== 11. Optimiser, schedules, oracle helpers ==================================================================== */

DEA_API dea_adamw dea_adamw_init(void) {
    dea_adamw optimiser;
    memset(&optimiser, 0, sizeof optimiser);
    optimiser.lr[DEA_GROUP_MAIN] = 3e-4;
    optimiser.lr[DEA_GROUP_GATE] = 1e-3;
    optimiser.clip[DEA_GROUP_MAIN] = optimiser.clip[DEA_GROUP_GATE] = 1;
    optimiser.beta1 = 0.9;
    optimiser.beta2 = 0.999;
    optimiser.eps = 1e-8;
    optimiser.weight_decay = 0.01;
    return optimiser;
}

static dea_status dea__check_adamw(const dea_adamw *o, int64_t step, double lr_factor) {
    if (!(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1 && o->eps > 0 && o->weight_decay >= 0) ||
        !dea__finite(o->eps) || !dea__finite(o->weight_decay))
        return DEA_ERR_OPTION;
    for (int g = 0; g < DEA_GROUPS; g++)
        if (!(o->lr[g] >= 0 && o->clip[g] >= 0) || !dea__finite(o->lr[g]) || !dea__finite(o->clip[g]))
            return DEA_ERR_OPTION;
    return step >= 1 && lr_factor >= 0 && dea__finite(lr_factor) ? DEA_OK : DEA_ERR_OPTION;
}

/* In double, by four sums side by side: one sum alone waits for every addition. */
static double dea__squares(const dea_real *x, size_t count) {
    double sum[4] = {0};
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (size_t k = 0; k < 4; k++) sum[k] += (double)x[i + k] * (double)x[i + k];
    for (; i < count; i++) sum[0] += (double)x[i] * (double)x[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

DEA_API dea_status dea_gradient_squares(const dea_table *table, const dea_real *grads, double *squares) {
    if (!table || !table->tensors || !grads || !squares) return DEA_ERR_NULL;
    for (int g = 0; g < DEA_GROUPS; g++) squares[g] = 0;
    for (int i = 0; i < table->count; i++)
        squares[table->tensors[i].group] += dea__squares(grads + table->tensors[i].offset, table->tensors[i].count);
    return DEA_OK;
}

DEA_API dea_status dea_adamw_step(const dea_adamw *optimiser, const dea_table *table, dea_real *params,
                                  const dea_real *grads, dea_real *m, dea_real *v, int64_t step, double lr_factor,
                                  double *norms) {
    if (!optimiser || !table || !table->tensors || !params || !grads || !m || !v) return DEA_ERR_NULL;
    const dea_status status = dea__check_adamw(optimiser, step, lr_factor);
    if (status != DEA_OK) return status;
    const size_t bytes = table->elements * sizeof *params;
    dea__tensors tensors;
    tensors.count = 0;
    dea__add_flat(&tensors, grads, bytes, 0);
    dea__add_flat(&tensors, params, bytes, 1);
    dea__add_flat(&tensors, m, bytes, 1);
    dea__add_flat(&tensors, v, bytes, 1);
    dea__add_flat(&tensors, norms, DEA_GROUPS * sizeof *norms, 1);
    if (dea__check_alias(&tensors) != DEA_OK) return DEA_ERR_ALIAS;
    double squares[DEA_GROUPS];
    (void)dea_gradient_squares(table, grads, squares);
    double clip[DEA_GROUPS];
    for (int g = 0; g < DEA_GROUPS; g++) {
        const double norm = sqrt(squares[g]);
        clip[g] = optimiser->clip[g] > 0 && norm > optimiser->clip[g] ? optimiser->clip[g] / norm : 1;
        if (!(squares[g] * clip[g] * clip[g] <= (double)DEA__REAL_MAX))
            return DEA_ERR_NONFINITE; /* v could not hold it */
    }
    for (int g = 0; norms && g < DEA_GROUPS; g++) norms[g] = sqrt(squares[g]);
    const double correct1 = 1 - pow(optimiser->beta1, (double)step), correct2 = 1 - pow(optimiser->beta2, (double)step);
    const dea__isa_table isa = dea__select(DEA_ISA_AUTO);
    dea__adamw_rates rates;
    rates.new_m = DEA__REAL(1 - optimiser->beta1);
    rates.new_v = DEA__REAL(1 - optimiser->beta2);
    rates.widen = DEA__REAL(1 / sqrt(correct2));
    rates.eps = optimiser->eps > (double)DEA__REAL_MIN ? DEA__REAL(optimiser->eps) : DEA__REAL_MIN;
    for (int i = 0; i < table->count; i++) {
        const dea_tensor *tensor = &table->tensors[i];
        const double lr = optimiser->lr[tensor->group] * (double)tensor->lr_scale * lr_factor;
        const size_t at = tensor->offset;
        rates.clip = DEA__REAL(clip[tensor->group]);
        rates.pace = DEA__REAL(lr / correct1);
        rates.decay = DEA__REAL(tensor->decay ? lr * optimiser->weight_decay : 0);
        isa.adamw(&rates, grads + at, params + at, m + at, v + at, (dea__idx)tensor->count);
    }
    return DEA_OK;
}

DEA_API double dea_gamma(int64_t step, int64_t anneal_steps) {
    if (step >= anneal_steps) return 0;
    return step <= 0 ? 1 : 1 - (double)step / (double)anneal_steps;
}

DEA_API double dea_warmup_cosine(int64_t step, int64_t warmup, int64_t total) {
    if (step >= total) return 0;
    if (step < 0) step = 0;
    if (warmup < 0) warmup = 0;
    if (step < warmup) return (double)(step + 1) / (double)warmup;
    return (1 + cos(DEA__PI * (double)(step - warmup) / (double)(total - warmup))) / 2;
}

/* ---- oracle */
static const double dea__bands[3][3] = {{0, 0.05, 0.45}, {0.15, 0.30, 0.25}, {0.75, 0.95, 0.30}}; /* from, to, mass */

DEA_API double dea_oracle_alpha(double phi, double sim) {
    const double alpha = dea__sigmoid(phi - 0.3 * sim);
    return alpha > DEA_ALPHA_MAX ? DEA_ALPHA_MAX : alpha;
}

DEA_API dea_band dea_band_of(double alpha) {
    for (int band = 0; band < 3; band++)
        if (alpha >= dea__bands[band][0] && alpha <= dea__bands[band][1]) return (dea_band)band;
    return DEA_BAND_BETWEEN;
}

DEA_API const char *dea_band_name(dea_band band) {
    switch (band) {
    case DEA_BAND_NEAR:
        return "near-identical";
    case DEA_BAND_WEAK:
        return "weak";
    case DEA_BAND_STRONG:
        return "strong";
    case DEA_BAND_BETWEEN:
        break;
    }
    return "between";
}

DEA_API double dea_mock_alpha(uint64_t seed, uint64_t index) {
    double draw = dea__uniform(seed, 2 * index);
    int band = 0;
    while (band < 2 && draw >= dea__bands[band][2]) draw -= dea__bands[band++][2];
    return dea__bands[band][0] + (dea__bands[band][1] - dea__bands[band][0]) * dea__uniform(seed, 2 * index + 1);
}

typedef struct dea__pool {
    double x, last_x, y, weight;
} dea__pool;

/* Heap sort by x: in place, no library call that may allocate, and equal x are pooled, so their order does not matter. */
static void dea__sift(dea__pool *p, size_t root, size_t count) {
    for (size_t child = 2 * root + 1; child < count; root = child, child = 2 * root + 1) {
        if (child + 1 < count && p[child].x < p[child + 1].x) child++;
        if (!(p[root].x < p[child].x)) return;
        const dea__pool swap = p[root];
        p[root] = p[child];
        p[child] = swap;
    }
}

static void dea__sort_pools(dea__pool *p, size_t count) {
    for (size_t i = count / 2; i-- > 0;) dea__sift(p, i, count);
    for (size_t end = count; end-- > 1;) {
        const dea__pool swap = p[0];
        p[0] = p[end];
        p[end] = swap;
        dea__sift(p, 0, end);
    }
}

static void dea__merge_pool(dea__pool *into, const dea__pool *from) {
    const double weight = into->weight + from->weight;
    into->y += (from->y - into->y) * (from->weight / weight); /* no product that could overflow or vanish */
    into->weight = weight;
    into->last_x = from->last_x;
}

DEA_API size_t dea_isotonic_workspace(int count) {
    dea__arena arena = {NULL, 0, 0};
    if (count <= 0) return 0;
    dea__take(&arena, (size_t)count, sizeof(dea__pool));
    return dea__arena_bytes(&arena);
}

DEA_API dea_status dea_isotonic_fit(const double *x, const double *y, const double *weight, int count, double *knot_x,
                                    double *knot_y, int *knots, void *workspace, size_t workspace_bytes) {
    if (!x || !y || !knot_x || !knot_y || !knots) return DEA_ERR_NULL;
    if (count <= 0) return DEA_ERR_SHAPE;
    const dea_status status = dea__check_workspace(workspace, workspace_bytes, dea_isotonic_workspace(count));
    if (status != DEA_OK) return status;
    const size_t bytes = (size_t)count * sizeof(double);
    dea__tensors tensors;
    tensors.count = 0;
    dea__add_flat(&tensors, x, bytes, 0);
    dea__add_flat(&tensors, y, bytes, 0);
    dea__add_flat(&tensors, weight, bytes, 0);
    dea__add_flat(&tensors, knot_x, bytes, 1);
    dea__add_flat(&tensors, knot_y, bytes, 1);
    dea__add_flat(&tensors, knots, sizeof *knots, 1);
    dea__add_flat(&tensors, workspace, dea_isotonic_workspace(count), 1);
    if (dea__check_alias(&tensors) != DEA_OK) return DEA_ERR_ALIAS;
    double total = 0; /* half of the range, so that no difference and no sum of weights overflows below */
    for (int i = 0; i < count; i++) {
        total += weight ? weight[i] : 1;
        if (!(fabs(x[i]) <= DBL_MAX / 2 && fabs(y[i]) <= DBL_MAX / 2 && total <= DBL_MAX / 2) ||
            (weight && !(weight[i] > 0)))
            return DEA_ERR_OPTION;
    }
    dea__pool *pools = (dea__pool *)workspace;
    for (int i = 0; i < count; i++) {
        pools[i].x = pools[i].last_x = x[i];
        pools[i].y = y[i];
        pools[i].weight = weight ? weight[i] : 1;
    }
    dea__sort_pools(pools, (size_t)count);
    int used = 0;
    for (int i = 0; i < count;) {
        dea__pool next = pools[i++];
        while (i < count && pools[i].x == next.x) dea__merge_pool(&next, &pools[i++]);
        pools[used++] = next; /* then pool backwards while the order is violated */
        while (used > 1 && pools[used - 2].y >= pools[used - 1].y) {
            dea__merge_pool(&pools[used - 2], &pools[used - 1]);
            used--;
        }
    }
    *knots = 0;
    for (int i = 0; i < used; i++) {
        knot_x[*knots] = pools[i].x;
        knot_y[(*knots)++] = pools[i].y;
        if (pools[i].last_x > pools[i].x) {
            knot_x[*knots] = pools[i].last_x;
            knot_y[(*knots)++] = pools[i].y;
        }
    }
    return DEA_OK;
}

DEA_API double dea_isotonic_apply(const double *knot_x, const double *knot_y, int knots, double x) {
    if (!knot_x || !knot_y || knots <= 0 || x != x) return NAN;
    if (x <= knot_x[0]) return knot_y[0];
    if (x >= knot_x[knots - 1]) return knot_y[knots - 1];
    int low = 0, high = knots - 1;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (knot_x[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    const double span = knot_x[high] - knot_x[low], rise = knot_y[high] - knot_y[low];
    if (!dea__finite(span) || !dea__finite(rise)) return NAN;
    return knot_y[low] + (x - knot_x[low]) / span * rise;
}

/* ==== 12. Checks ================================================================================================== */

/* Gradients of one run, laid end to end in the order of dea_gradients. */
enum { DEA__DQ, DEA__DK, DEA__DV, DEA__DW_REL, DEA__DTEMPERATURE, DEA__DW_GATE, DEA__DC_GATE, DEA__GRADIENTS };

typedef struct dea__run {
    dea_real *data[DEA__GRADIENTS];
} dea__run;

typedef struct dea__isolation_places {
    dea__run run[4]; /* task alone, gate alone, task then gate, gate then task */
    size_t size[DEA__GRADIENTS];
    dea_attention a; /* the caller's, with contiguous q, k, v gradients sized by span */
    dea_real *o, *saved;
    void *inner;
    size_t inner_bytes, total_bytes;
} dea__isolation_places;

static dea_status dea__isolation_layout(const dea_attention *a, const dea_gate *gate, void *workspace,
                                        dea__isolation_places *p) {
    dea_status status = dea__check_shape(a);
    if (status == DEA_OK) status = dea__check_path(a);
    if (status == DEA_OK) status = dea__check_gate_options(gate);
    if (status != DEA_OK) return status;
    const size_t h = (size_t)a->heads, d = (size_t)a->head_dim;
    const dea__view q = dea__q_view(a, NULL), k = dea__k_view(a, NULL), v = dea__v_view(a, NULL),
                    o = dea__o_view(a, NULL);
    const size_t size[DEA__GRADIENTS] = {
        dea__span(&q), dea__span(&k), dea__span(&v), h * d * d, a->temperature ? h : 0, h * (2 * d + 2), h};
    if (!size[DEA__DQ] || !size[DEA__DK] || !size[DEA__DV] || !dea__span(&o)) return DEA_ERR_STRIDE;
    dea__arena arena = {(char *)workspace, 0, 0};
    memcpy(p->size, size, sizeof size);
    for (int run = 0; run < 4; run++)
        for (int i = 0; i < DEA__GRADIENTS; i++) p->run[run].data[i] = dea__take_reals(&arena, size[i]);
    p->o = dea__take_reals(&arena, dea__span(&o));
    p->saved = dea__take_reals(&arena, dea_saved_count(a));
    p->a = *a;
    memset(&p->a.maps, 0, sizeof p->a.maps);
    const size_t forward = dea_forward_workspace(&p->a), backward = dea_backward_workspace(&p->a);
    const size_t loss = dea_gate_loss_workspace(&p->a, gate);
    if (!forward || !backward || !loss) return DEA_ERR_OVERFLOW;
    p->inner_bytes = forward > backward ? forward : backward;
    if (loss > p->inner_bytes) p->inner_bytes = loss;
    p->inner = dea__take(&arena, p->inner_bytes, 1);
    p->total_bytes = dea__arena_bytes(&arena);
    return p->total_bytes ? DEA_OK : DEA_ERR_OVERFLOW;
}

DEA_API size_t dea_verify_isolation_workspace(const dea_attention *a, const dea_gate *gate) {
    dea__isolation_places p;
    return dea__isolation_layout(a, gate, NULL, &p) == DEA_OK ? p.total_bytes : 0;
}

static dea_gradients dea__run_gradients(const dea__run *run) {
    dea_gradients g;
    g.dq = run->data[DEA__DQ];
    g.dk = run->data[DEA__DK];
    g.dv = run->data[DEA__DV];
    g.dw_rel = run->data[DEA__DW_REL];
    g.dtemperature = run->data[DEA__DTEMPERATURE];
    g.dw_gate = run->data[DEA__DW_GATE];
    g.dc_gate = run->data[DEA__DC_GATE];
    return g;
}

/* Runs the losses named by `order` ('t' task, 'g' gate) into one set of gradients that starts at zero. */
static dea_status dea__isolation_run(dea__isolation_places *p, const dea_gate *gate, const dea_real *d_o, int run,
                                     const char *order) {
    for (int i = 0; i < DEA__GRADIENTS; i++)
        if (p->size[i]) memset(p->run[run].data[i], 0, p->size[i] * sizeof(dea_real));
    dea_gradients g = dea__run_gradients(&p->run[run]);
    if (!p->size[DEA__DTEMPERATURE]) g.dtemperature = NULL;
    for (; *order; order++) {
        dea_gate_result result;
        const dea_status status = *order == 't'
                                      ? dea_backward(&p->a, p->o, p->saved, d_o, &g, p->inner, p->inner_bytes)
                                      : dea_gate_loss(&p->a, gate, p->saved, &g, &result, p->inner, p->inner_bytes);
        if (status != DEA_OK) return status;
    }
    return DEA_OK;
}

/* Names the first element in which gradients [from, to) of two runs differ in a bit. With `other` < 0: differ from zero. */
static dea_status dea__isolation_compare(const dea__isolation_places *p, int run, int other, int from, int to,
                                         const char *what, dea_isolation *report) {
    static const char names[DEA__GRADIENTS][16] = {"dq", "dk", "dv", "dw_rel", "dtemperature", "dw_gate", "dc_gate"};
    for (int i = from; i < to; i++)
        for (size_t j = 0; j < p->size[i]; j++) {
            const dea_real together = p->run[run].data[i][j], apart = other < 0 ? 0 : p->run[other].data[i][j];
            if (memcmp(&together, &apart, sizeof apart) == 0) continue;
            report->tensor = names[i];
            report->what = what;
            report->apart = (double)apart;
            report->together = (double)together;
            if (i <= DEA__DV) { /* strided: find the row */
                const dea__view view = i == DEA__DQ   ? dea__q_view(&p->a, NULL)
                                       : i == DEA__DK ? dea__k_view(&p->a, NULL)
                                                      : dea__v_view(&p->a, NULL);
                for (int b = 0; b < p->a.batch; b++)
                    for (int h = 0; h < p->a.heads; h++)
                        for (int t = 0; t < view.tokens; t++) {
                            const ptrdiff_t at = (ptrdiff_t)j - dea__head_offset(&view, b, h) - t * view.strides.token;
                            if (at < 0 || at >= view.width) continue;
                            report->batch = b;
                            report->head = h;
                            report->index = (size_t)t * (size_t)view.width + (size_t)at;
                        }
            } else {
                const size_t per_head = p->size[i] / (size_t)p->a.heads;
                report->batch = -1;
                report->head = (int)(j / per_head);
                report->index = j % per_head;
            }
            return DEA_ERR_ISOLATION;
        }
    return DEA_OK;
}

DEA_API dea_status dea_verify_isolation(const dea_attention *a, const dea_gate *gate, const dea_real *d_o,
                                        dea_isolation *report, void *workspace, size_t workspace_bytes) {
    dea__isolation_places p;
    dea_status status = dea__isolation_layout(a, gate, workspace, &p);
    if (status != DEA_OK) return status;
    if (!d_o || !report) return DEA_ERR_NULL;
    status = dea__check_workspace(workspace, workspace_bytes, p.total_bytes);
    if (status == DEA_OK) status = dea_forward(&p.a, p.o, p.saved, p.inner, p.inner_bytes);
    if (status == DEA_OK) status = dea__isolation_run(&p, gate, d_o, 0, "t");
    if (status == DEA_OK) status = dea__isolation_run(&p, gate, d_o, 1, "g");
    if (status == DEA_OK) status = dea__isolation_run(&p, gate, d_o, 2, "tg");
    if (status == DEA_OK) status = dea__isolation_run(&p, gate, d_o, 3, "gt");
    if (status != DEA_OK) return status;
    memset(report, 0, sizeof *report);
    const struct {
        int run, other, from, to;
        const char *what;
    } checks[6] = {
        {0, -1, DEA__DW_GATE, DEA__GRADIENTS, "the task loss alone reached the gate"},
        {1, -1, DEA__DQ, DEA__DW_GATE, "the gate loss alone reached what only the task loss may"},
        {2, 0, DEA__DQ, DEA__DW_GATE, "task then gate differs from the task loss alone"},
        {2, 1, DEA__DW_GATE, DEA__GRADIENTS, "task then gate differs from the gate loss alone"},
        {3, 0, DEA__DQ, DEA__DW_GATE, "gate then task differs from the task loss alone"},
        {3, 1, DEA__DW_GATE, DEA__GRADIENTS, "gate then task differs from the gate loss alone"},
    };
    for (int i = 0; status == DEA_OK && i < 6; i++)
        status = dea__isolation_compare(&p, checks[i].run, checks[i].other, checks[i].from, checks[i].to,
                                        checks[i].what, report);
    return status;
}

DEA_API double dea_finite_difference(double (*f)(void *context), void *context, dea_real *x, double h) {
    const dea_real at = *x, up = DEA__REAL((double)at + h), down = DEA__REAL((double)at - h);
    *x = up;
    const double above = f(context);
    *x = down;
    const double below = f(context);
    *x = at;
    return (above - below) / ((double)up - (double)down); /* the step really taken */
}

#undef DEA__ONCE
#endif /* DEA_IMPLEMENTATION */

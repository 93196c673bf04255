/* Golden values: reading a file of `tensor NAME NDIM DIMS...` followed by numbers (nan for none), and comparing what this
 * build of dea.h computes with it. Include after dea.h; works for either DEA_REAL. A kind of case is one entry in
 * golden_kinds: how to recognise its files, and what to compare. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------------------------------- */
typedef struct golden_tensor {
    char name[48];
    int rank;
    size_t shape[8], count;
    double *data;
} golden_tensor;

enum { GOLDEN_TENSORS = 256 };

typedef struct golden_file {
    golden_tensor tensors[GOLDEN_TENSORS];
    int count;
    char error[256]; /* empty if all is well */
} golden_file;

static inline void golden_free(golden_file *f) {
    for (int i = 0; i < f->count; ++i) free(f->tensors[i].data);
    free(f);
}

static inline char *golden_slurp(const char *path, golden_file *f) {
    FILE *in = fopen(path, "rb");
    if (!in) {
        snprintf(f->error, sizeof f->error, "%s", strerror(errno));
        return NULL;
    }
    char *text = NULL;
    size_t length = 0, room = 0, got = 1;
    while (got) {
        if (length + 65537 > room) {
            char *bigger = (char *)realloc(text, room = 2 * room + 131072);
            if (!bigger) break;
            text = bigger;
        }
        got = fread(text + length, 1, 65536, in);
        length += got;
    }
    if (ferror(in) || !text || got) {
        snprintf(f->error, sizeof f->error, "cannot be read");
        free(text);
        text = NULL;
    } else {
        text[length] = 0;
    }
    fclose(in);
    return text;
}

static inline const golden_tensor *golden_find(const golden_file *f, const char *name) {
    for (int i = 0; i < f->count; ++i)
        if (!strcmp(f->tensors[i].name, name)) return &f->tensors[i];
    return NULL;
}

/* One tensor from `text`; returns where it ends, or NULL with f->error set. */
static inline const char *golden_read_tensor(golden_file *f, const char *text) {
    golden_tensor *t = &f->tensors[f->count];
    int used = 0;
    memset(t, 0, sizeof *t);
    if (f->count == GOLDEN_TENSORS || sscanf(text, "tensor %47s %d%n", t->name, &t->rank, &used) != 2 || t->rank < 0 ||
        t->rank > 8) {
        snprintf(f->error, sizeof f->error, "after %s: expected `tensor NAME NDIM DIMS...`",
                 f->count ? f->tensors[f->count - 1].name : "the start");
        return NULL;
    }
    if (golden_find(f, t->name)) {
        snprintf(f->error, sizeof f->error, "two tensors named %s", t->name);
        return NULL;
    }
    text += used;
    t->count = 1;
    for (int i = 0; i < t->rank; ++i) {
        char *end;
        long dim = strtol(text, &end, 10);
        if (end == text || dim < 1 || dim > 1 << 24 || t->count > ((size_t)1 << 26) / (size_t)dim) {
            snprintf(f->error, sizeof f->error, "%s: bad dimension", t->name);
            return NULL;
        }
        t->shape[i] = (size_t)dim, t->count *= (size_t)dim;
        text = end;
    }
    t->data = (double *)malloc(t->count * sizeof *t->data);
    f->count++;
    if (!t->data) {
        snprintf(f->error, sizeof f->error, "%s: out of memory", t->name);
        return NULL;
    }
    for (size_t i = 0; i < t->count; ++i) {
        char *end;
        t->data[i] = strtod(text, &end);
        if (end == text) {
            snprintf(f->error, sizeof f->error, "%s: %zu numbers where %zu belong", t->name, i, t->count);
            return NULL;
        }
        text = end;
    }
    while (isspace((unsigned char)*text)) ++text;
    return text;
}

/* Never NULL unless memory is out; f->error says what is wrong with the file. */
static inline golden_file *golden_read(const char *path) {
    golden_file *f = (golden_file *)calloc(1, sizeof *f);
    if (!f) return NULL;
    char *text = golden_slurp(path, f);
    const char *at = text;
    while (at && *at) at = golden_read_tensor(f, at);
    if (text && !f->count && !f->error[0]) snprintf(f->error, sizeof f->error, "holds no tensor");
    free(text);
    return f;
}

/* ---- comparing ------------------------------------------------------------------------------------------------------- */
/* The comparison of one file. A problem (a missing tensor, NaN, a limit passed) is kept as text; the first one wins. */
typedef struct golden_score {
    double limit;        /* of relative errors */
    double worst;        /* largest relative error */
    char worst_name[48]; /* and whose it is */
    int compared;        /* tensors */
    char problem[320];   /* empty if all is well */
} golden_score;

static inline void golden_problem(golden_score *s, const char *name, const char *what) {
    if (!s->problem[0]) snprintf(s->problem, sizeof s->problem, "%s: %s", name, what);
}

/* A tensor that must be there with `count` numbers, as the library's type (free it), or NULL and a problem. */
static inline dea_real *golden_input(const golden_file *f, const char *name, size_t count, golden_score *s) {
    const golden_tensor *t = golden_find(f, name);
    if (!t || t->count != count) {
        golden_problem(s, name, t ? "has the wrong size" : "is missing from the file");
        return NULL;
    }
    dea_real *x = (dea_real *)malloc(count * sizeof *x);
    if (!x) golden_problem(s, name, "out of memory");
    for (size_t i = 0; x && i < count; ++i) x[i] = (dea_real)t->data[i];
    return x;
}

static inline double golden_number(const golden_file *f, const char *name, golden_score *s) {
    const golden_tensor *t = golden_find(f, name);
    if (!t || t->count != 1) {
        golden_problem(s, name, t ? "is no single number" : "is missing from the file");
        return NAN;
    }
    return t->data[0];
}

/* max |x - ref| / max |ref| over the cells where `seen` is not 0 (NULL: everywhere); elsewhere x must be exactly 0. `noise`:
 * absolute differences up to this say nothing, because the file's own rounding is that large. */
static inline void golden_compare_noisy(golden_score *s, const golden_file *f, const char *name, const dea_real *x,
                                        size_t count, const unsigned char *seen, double noise) {
    const golden_tensor *t = golden_find(f, name);
    double worst = 0, scale = 0;
    if (!t || t->count != count) {
        golden_problem(s, name, t ? "has the wrong size" : "is missing from the file");
        return;
    }
    for (size_t i = 0; i < count; ++i) {
        if (seen && !seen[i]) {
            if (x[i] != 0) golden_problem(s, name, "a masked cell is not 0");
            continue;
        }
        double e = fabs((double)x[i] - t->data[i]);
        if (!(e < INFINITY)) golden_problem(s, name, "NaN or infinity");
        if (e > worst && e > noise) worst = e;
        if (fabs(t->data[i]) > scale) scale = fabs(t->data[i]);
    }
    if (scale >= 1e-30) worst /= scale;
    s->compared++;
    if (worst > s->worst || !s->worst_name[0]) {
        s->worst = worst;
        snprintf(s->worst_name, sizeof s->worst_name, "%s", name);
    }
    if (worst > s->limit) {
        char text[96];
        snprintf(text, sizeof text, "error %.3g, limit %.3g", worst, s->limit);
        golden_problem(s, name, text);
    }
}

static inline void golden_compare(golden_score *s, const golden_file *f, const char *name, const dea_real *x,
                                  size_t count, const unsigned char *seen) {
    golden_compare_noisy(s, f, name, x, count, seen, 0);
}

static inline void golden_compare_number(golden_score *s, const golden_file *f, const char *name, double x) {
    double ref = golden_number(f, name, s), e = fabs(x - ref);
    if (fabs(ref) >= 1e-30) e /= fabs(ref);
    if (!(e < INFINITY)) golden_problem(s, name, "NaN or infinity");
    s->compared++;
    if (e > s->worst) s->worst = e, snprintf(s->worst_name, sizeof s->worst_name, "%s", name);
    if (e > s->limit) golden_problem(s, name, "differs by more than the limit");
}

static inline void golden_compare_exact(golden_score *s, const golden_file *f, const char *name, int64_t x) {
    char text[96];
    double ref = golden_number(f, name, s);
    s->compared++;
    if (ref == (double)x) return;
    snprintf(text, sizeof text, "%lld where %.0f belongs", (long long)x, ref);
    golden_problem(s, name, text);
}

/* ---- attention cases ------------------------------------------------------------------------------------------------- */
/* What one case needs, and its memory. */
typedef struct golden_attention {
    dea_attention a;
    dea_real *inputs[9]; /* q k v W_rel w_gate c_gate dO label, all to be freed */
    int *lengths, *targets;
    unsigned char *seen; /* [B,H,Tq,Tk] */
    dea_real *out;       /* o, saved, 5 maps, gradients: one block */
    size_t q_count, k_count, w_count, gate_count, map_count;
    void *workspace;
    size_t bytes;
} golden_attention;

static inline void golden_attention_free(golden_attention *c) {
    for (int i = 0; i < 9; ++i) free(c->inputs[i]);
    free(c->lengths), free(c->targets), free(c->seen), free(c->out), free(c->workspace);
}

/* Mask from lengths and causal, checked against the file's own; sets the limit. Where a row sees two keys the gradient all but
 * cancels, and the limits are wider: in float for us, in double for the files (labels_none_valid: dW_rel recomputed in 60
 * digits is 1.5e-11 from the file). */
static inline void golden_attention_mask(golden_attention *c, const golden_file *f, golden_score *s) {
    const dea_attention *a = &c->a;
    const golden_tensor *visible = golden_find(f, "visible");
    size_t Tk = (size_t)a->seq_k, cell = 0;
    int two = 0;
    if (!visible || visible->count * (size_t)a->heads != c->map_count) {
        golden_problem(s, "visible", "is missing or has the wrong size");
        return;
    }
    for (int b = 0; b < a->batch; ++b)
        for (int h = 0; h < a->heads; ++h)
            for (int i = 0; i < a->seq_q; ++i) {
                int n = 0;
                for (int j = 0; j < a->seq_k; ++j, ++cell) {
                    int sees = j < c->lengths[b] && (!a->causal || j <= i);
                    c->seen[cell] = (unsigned char)sees;
                    n += sees;
                    if (visible->data[((size_t)b * (size_t)a->seq_q + (size_t)i) * Tk + (size_t)j] != (double)sees)
                        golden_problem(s, "visible", "does not follow from lengths and causal");
                }
                two |= n == 2;
            }
    if (sizeof(dea_real) == sizeof(double))
        s->limit = two ? 3.3e-11 : 1e-11;
    else
        s->limit = two ? 1e-4 : 3e-5;
}

static inline void golden_attention_load(golden_attention *c, const golden_file *f, golden_score *s) {
    const golden_tensor *q = golden_find(f, "q"), *k = golden_find(f, "k"), *lengths = golden_find(f, "lengths");
    const golden_tensor *target = golden_find(f, "target");
    if (!q || !k || q->rank != 4 || k->rank != 4 || !lengths || lengths->count != q->shape[0]) {
        golden_problem(s, "q, k, lengths", "missing or of the wrong shape");
        return;
    }
    size_t B = q->shape[0], H = q->shape[1], Tq = q->shape[2], d = q->shape[3], Tk = k->shape[2];
    dea_attention *a = &c->a;
    *a = dea_attention_init((int)B, (int)H, (int)Tq, (int)d);
    a->seq_k = (int)Tk;
    a->causal = golden_number(f, "causal", s) != 0;
    a->gamma = (dea_real)golden_number(f, "gamma", s);
    c->q_count = B * H * Tq * d, c->k_count = B * H * Tk * d, c->map_count = B * H * Tq * Tk;
    c->w_count = H * d * d, c->gate_count = H * (2 * d + 2);
    a->q = c->inputs[0] = golden_input(f, "q", c->q_count, s);
    a->k = c->inputs[1] = golden_input(f, "k", c->k_count, s);
    a->v = c->inputs[2] = golden_input(f, "v", c->k_count, s);
    a->w_rel = c->inputs[3] = golden_input(f, "W_rel", c->w_count, s);
    a->w_gate = c->inputs[4] = golden_input(f, "w_gate", c->gate_count, s);
    a->c_gate = c->inputs[5] = golden_input(f, "c_gate", H, s);
    c->inputs[6] = golden_input(f, "dO", c->q_count, s);
    if (golden_find(f, "label")) a->labels = c->inputs[7] = golden_input(f, "label", B * Tq * Tk, s);
    c->lengths = (int *)malloc(B * sizeof(int));
    c->seen = (unsigned char *)malloc(c->map_count);
    if (target && target->count == B * Tq) c->targets = (int *)malloc(B * Tq * sizeof(int));
    c->out = (dea_real *)malloc(
        (2 * (c->q_count + 2 * c->k_count) + 4 * B * H * Tq + 5 * c->map_count + c->w_count + c->gate_count + H) *
        sizeof(dea_real));
    if (!c->lengths || !c->seen || !c->out || (target && !c->targets)) {
        golden_problem(s, "target", "has the wrong size, or memory is out");
        return;
    }
    for (size_t b = 0; b < B; ++b) c->lengths[b] = (int)lengths->data[b];
    for (size_t i = 0; target && i < B * Tq; ++i) c->targets[i] = (int)target->data[i];
    a->key_lengths = c->lengths;
    golden_attention_mask(c, f, s);
}

static inline void golden_workspace(golden_attention *c, size_t bytes) {
    free(c->workspace);
    c->workspace = NULL;
    c->bytes = bytes;
    if (bytes && posix_memalign(&c->workspace, DEA_ALIGNMENT, bytes)) c->workspace = NULL, c->bytes = 0;
}

static inline void golden_attention_run(golden_attention *c, const golden_file *f, dea_path forward_path,
                                        dea_path backward_path, golden_score *s) {
    dea_attention *a = &c->a;
    size_t rows = c->q_count / (size_t)a->head_dim, H = (size_t)a->heads;
    dea_real *o = c->out, *saved = o + c->q_count, *dq = saved + 4 * rows, *dk = dq + c->q_count, *dv = dk + c->k_count;
    dea_real *dw = dv + c->k_count, *dw_gate = dw + c->w_count, *dc = dw_gate + c->gate_count, *maps = dc + H;
    dea_maps none = {NULL, NULL, NULL, NULL, NULL, NULL};
    dea_status status;

    a->path = forward_path;
    a->maps = none;
    int with_maps = forward_path == DEA_PATH_PLAIN;
    if (with_maps) {
        a->maps.et0 = maps, a->maps.et1 = maps + c->map_count, a->maps.alpha_hat = maps + 2 * c->map_count;
        a->maps.alpha_mix = maps + 3 * c->map_count, a->maps.a = maps + 4 * c->map_count;
    }
    golden_workspace(c, dea_forward_workspace(a));
    if ((status = dea_forward(a, o, saved, c->workspace, c->bytes)) != DEA_OK) {
        golden_problem(s, "forward", dea_status_string(status));
        return;
    }
    if (with_maps) {
        /* A row of equal energies is exactly 0 here; in the files it is the rounding of a mean over sigma + 1e-5 = 1e-5. */
        const double noise = 1e-10;
        golden_compare_noisy(s, f, "Et0", a->maps.et0, c->map_count, c->seen, noise);
        golden_compare_noisy(s, f, "Et1", a->maps.et1, c->map_count, c->seen, noise);
        golden_compare(s, f, "alpha_hat", a->maps.alpha_hat, c->map_count, c->seen);
        golden_compare(s, f, "alpha_mix", a->maps.alpha_mix, c->map_count, c->seen);
        golden_compare(s, f, "A", a->maps.a, c->map_count, c->seen);
    }
    golden_compare(s, f, "O", o, c->q_count, NULL);

    a->path = backward_path;
    a->maps = none;
    dea_gradients g = {dq, dk, dv, dw, NULL, dw_gate, dc};
    for (size_t i = 0; i < c->w_count + c->gate_count + H; ++i) dw[i] = 0; /* dw, dw_gate and dc lie together */
    golden_workspace(c, dea_backward_workspace(a));
    if ((status = dea_backward(a, o, saved, c->inputs[6], &g, c->workspace, c->bytes)) != DEA_OK) {
        golden_problem(s, "backward", dea_status_string(status));
        return;
    }
    golden_compare(s, f, "dq", dq, c->q_count, NULL);
    golden_compare(s, f, "dk", dk, c->k_count, NULL);
    golden_compare(s, f, "dv", dv, c->k_count, NULL);
    golden_compare(s, f, "dW_rel", dw, c->w_count, NULL);
    if (!a->labels) return;

    dea_gate gate = dea_gate_init();
    dea_gate_result r;
    gate.targets = c->targets;
    golden_workspace(c, dea_gate_loss_workspace(a, &gate));
    if ((status = dea_gate_loss(a, &gate, saved, &g, &r, c->workspace, c->bytes)) != DEA_OK) {
        golden_problem(s, "gate loss", dea_status_string(status));
        return;
    }
    golden_compare_exact(s, f, "n_labelled", r.labelled);
    golden_compare_exact(s, f, "n_valid", r.valid);
    golden_compare_number(s, f, "loss_dense", r.dense);
    golden_compare_number(s, f, "loss_photo", r.photo);
    golden_compare_number(s, f, "loss_gate", r.loss);
    golden_compare(s, f, "dw_gate", dw_gate, c->gate_count, NULL);
    golden_compare(s, f, "dc_gate", dc, H, NULL);
}

static inline int golden_is_attention(const golden_file *f) {
    return golden_find(f, "W_rel") != NULL;
}

static inline void golden_check_attention(const golden_file *f, dea_path forward_path, dea_path backward_path,
                                          golden_score *s) {
    golden_attention c;
    memset(&c, 0, sizeof c);
    golden_attention_load(&c, f, s);
    if (!s->problem[0]) golden_attention_run(&c, f, forward_path, backward_path, s);
    golden_attention_free(&c);
}

#include "golden_meta.h"

/* ---- kinds of cases -------------------------------------------------------------------------------------------------- */
typedef struct golden_kind {
    const char *name;
    int has_paths; /* whether the plain and the fast path are run apart; else `check` is called once */
    int (*recognises)(const golden_file *f);
    void (*check)(const golden_file *f, dea_path forward_path, dea_path backward_path, golden_score *s);
} golden_kind;

static const golden_kind golden_kinds[] = {
    {"attention", 1, golden_is_attention, golden_check_attention},
    {"meta encoder", 0, golden_is_meta_encoder, golden_check_meta},
    {"meta block", 0, golden_is_meta_block, golden_check_meta},
    {"meta confidence", 0, golden_is_meta_confidence, golden_check_meta},
    {"meta two passes", 0, golden_is_meta_two_pass, golden_check_meta},
};

static inline const golden_kind *golden_kind_of(const golden_file *f) {
    for (size_t i = 0; i < sizeof golden_kinds / sizeof *golden_kinds; ++i)
        if (golden_kinds[i].recognises(f)) return &golden_kinds[i];
    return NULL;
}

/* The ways to run a case: each path, and a forward of one with the backward of the other, which share `saved`. */
static const struct golden_way {
    const char *name;
    dea_path forward_path, backward_path;
} golden_ways[] = {
    {"plain", DEA_PATH_PLAIN, DEA_PATH_PLAIN},
    {"fast", DEA_PATH_FAST, DEA_PATH_FAST},
    {"auto", DEA_PATH_AUTO, DEA_PATH_AUTO},
    {"plain then fast", DEA_PATH_PLAIN, DEA_PATH_FAST},
    {"fast then plain", DEA_PATH_FAST, DEA_PATH_PLAIN},
};

/* Whether this build has a fast path. */
static inline int golden_fast_built(void) {
    static const dea_real one[1] = {1}, gate[4] = {0, 0, 0, 0};
    dea_attention a = dea_attention_init(1, 1, 1, 1);
    a.q = a.k = a.v = a.w_rel = a.c_gate = one, a.w_gate = gate;
    a.path = DEA_PATH_FAST;
    return dea_forward_workspace(&a) != 0;
}

static inline int golden_way_built(int way) {
    return (golden_ways[way].forward_path != DEA_PATH_FAST && golden_ways[way].backward_path != DEA_PATH_FAST) ||
           golden_fast_built();
}

#endif

#include "meta/llama.h"

#include <math.h>
#include <string.h>

/* ---- shapes ---------------------------------------------------------------------------------------------------------- */
static int head_width(const llama_config *c) {
    return c->width / c->heads;
}
static int kv_width(const llama_config *c) {
    return c->kv_heads * head_width(c);
}

LLAMA_API dea_status llama_check(const llama_config *config) {
    const llama_config *c = config;
    if (!c) return DEA_ERR_NULL;
    if (c->layers <= 0 || c->width <= 0 || c->heads <= 0 || c->kv_heads <= 0 || c->ffn <= 0 || c->vocab <= 0)
        return DEA_ERR_SHAPE;
    if (c->width % c->heads || c->heads % c->kv_heads || head_width(c) % 2) return DEA_ERR_SHAPE;
    return c->rope_theta > 0 && c->rms_eps >= 0 ? DEA_OK : DEA_ERR_OPTION;
}

LLAMA_API llama_call llama_call_init(const int *ids, int batch, int seq) {
    llama_call call;
    memset(&call, 0, sizeof call);
    call.ids = ids;
    call.batch = batch;
    call.seq = seq;
    return call;
}

LLAMA_API int llama_is_per_layer(llama_tensor which) {
    return which <= LLAMA_FFN_DOWN;
}

LLAMA_API const char *llama_name(llama_tensor which) {
    static const char *const names[LLAMA_TENSORS] = {"attn_norm", "q",      "k",        "v",   "o",          "mlp_norm",
                                                     "ffn_gate",  "ffn_up", "ffn_down", "emb", "final_norm", "head"};
    return names[which];
}

LLAMA_API void llama_shape(const llama_config *config, llama_tensor which, int *rows, int *columns) {
    const int D = config->width, KV = kv_width(config), F = config->ffn, V = config->vocab;
    const int shapes[LLAMA_TENSORS][2] = {{1, D}, {D, D}, {KV, D}, {KV, D}, {D, D}, {1, D},
                                          {F, D}, {F, D}, {D, F},  {V, D},  {1, D}, {V, D}};
    *rows = shapes[which][0];
    *columns = shapes[which][1];
}

/* What the backward needs of one layer: inputs of both norms, 1/rho of each, rotated q and k, v, the log of each softmax sum,
 * and a, b of SwiGLU. */
typedef struct layer_saved {
    dea_real *in, *scale1, *q, *k, *v, *log_sum, *mid, *scale2, *a, *b;
} layer_saved;

static size_t layer_saved_count(const llama_config *c, size_t N) {
    return N * (3 * (size_t)c->width + 2 * (size_t)kv_width(c) + (size_t)c->heads + 2 * (size_t)c->ffn + 2);
}

static layer_saved layer_saved_in(const llama_config *c, size_t N, dea_real *at) {
    const size_t D = (size_t)c->width, KV = (size_t)kv_width(c), F = (size_t)c->ffn;
    layer_saved s;
    s.in = at;
    s.q = s.in + N * D;
    s.mid = s.q + N * D;
    s.k = s.mid + N * D;
    s.v = s.k + N * KV;
    s.a = s.v + N * KV;
    s.b = s.a + N * F;
    s.log_sum = s.b + N * F;
    s.scale1 = s.log_sum + N * (size_t)c->heads;
    s.scale2 = s.scale1 + N;
    return s;
}

LLAMA_API size_t llama_saved_count(const llama_config *config, int batch, int seq) {
    if (llama_check(config) != DEA_OK || batch <= 0 || seq <= 0) return 0;
    return (size_t)config->layers * layer_saved_count(config, (size_t)batch * (size_t)seq);
}

/* Scratch of both directions. */
typedef struct scratch {
    dea_real *own;                   /* one layer's saved, when nobody keeps it */
    dea_real *normed, *wide, *wide2; /* [N,D] */
    dea_real *f, *f2;                /* [N,F] */
    dea_real *dk, *dv;               /* [N,KV] */
    dea_real *cosine, *sine;         /* [seq,w/2] */
    dea_real *scores;                /* keys of one query */
} scratch;

static size_t scratch_layout(scratch *s, dea_real *at, const llama_config *c, int batch, int seq, int keys) {
    const size_t N = (size_t)batch * (size_t)seq, D = (size_t)c->width, F = (size_t)c->ffn, KV = (size_t)kv_width(c);
    const size_t half = (size_t)seq * (size_t)(head_width(c) / 2);
    const size_t sizes[11] = {
        layer_saved_count(c, N), N * D, N * D, N * D, N * F, N * F, N * KV, N * KV, half, half, (size_t)keys};
    dea_real **places[11] = {&s->own, &s->normed, &s->wide,   &s->wide2, &s->f,     &s->f2,
                             &s->dk,  &s->dv,     &s->cosine, &s->sine,  &s->scores};
    size_t used = 0;
    for (int i = 0; i < 11; i++) {
        *places[i] = at ? at + used : NULL;
        used += sizes[i];
    }
    return used;
}

enum { LONGEST = 1 << 17 }; /* keys a query may have */

LLAMA_API size_t llama_workspace_count(const llama_config *config, int batch, int seq) {
    scratch s;
    if (llama_check(config) != DEA_OK || batch <= 0 || seq <= 0) return 0;
    return scratch_layout(&s, NULL, config, batch, seq, LONGEST);
}

LLAMA_API size_t llama_kv_count(const llama_config *config, int batch, int capacity) {
    if (llama_check(config) != DEA_OK || batch <= 0 || capacity <= 0) return 0;
    return (size_t)config->layers * (size_t)batch * (size_t)capacity * (size_t)kv_width(config);
}

static dea_status check_call(const llama_model *model, const llama_call *call) {
    if (!model || !model->get || !call || !call->ids || !call->workspace) return DEA_ERR_NULL;
    const dea_status status = llama_check(&model->config);
    if (status != DEA_OK) return status;
    if (call->batch <= 0 || call->seq <= 0 || call->seq > LONGEST) return DEA_ERR_SHAPE;
    if (call->kv && call->saved) return DEA_ERR_OPTION;
    if (!call->kv) return DEA_OK;
    if (!call->kv->k || !call->kv->v) return DEA_ERR_NULL;
    if (call->kv->batch != call->batch || call->kv->used < 0 || call->kv->capacity > LONGEST) return DEA_ERR_SHAPE;
    return call->seq > call->kv->capacity - call->kv->used ? DEA_ERR_CAPACITY : DEA_OK;
}

/* ---- parts ----------------------------------------------------------------------------------------------------------- */
static const dea_real *weight(const llama_model *model, llama_tensor which, int layer) {
    return model->get(model->weights, which, layer);
}

/* y = w o x scale, scale = 1/sqrt(mean x^2 + eps), kept a row. */
static void rms_norm(const dea_real *x, const dea_real *w, size_t rows, int width, double eps, dea_real *y,
                     dea_real *scale) {
    for (size_t t = 0; t < rows; t++, x += width, y += width) {
        double sum = 0;
        for (int i = 0; i < width; i++) sum += (double)x[i] * (double)x[i];
        const dea_real s = (dea_real)(1 / sqrt(sum / width + eps));
        if (scale) scale[t] = s;
        for (int i = 0; i < width; i++) y[i] = w[i] * (x[i] * s);
    }
}

/* forward: y = w o x scale. g = w o dy: dx += scale (g - x mean(g o x) scale^2); dw += dy o x scale. */
static void rms_norm_backward(const dea_real *x, const dea_real *w, const dea_real *dy, size_t rows, int width,
                              double eps, const dea_real *scale, dea_real *dx, dea_real *dw) {
    for (size_t t = 0; t < rows; t++, x += width, dy += width, dx += width) {
        double inner = 0, sum = 0;
        for (int i = 0; i < width; i++) {
            inner += (double)w[i] * (double)dy[i] * (double)x[i];
            sum += (double)x[i] * (double)x[i];
        }
        const double s = scale ? (double)scale[t] : 1 / sqrt(sum / width + eps), slope = inner / width * s * s;
        for (int i = 0; i < width; i++) {
            dx[i] += (dea_real)(s * ((double)w[i] * (double)dy[i] - (double)x[i] * slope));
            if (dw) dw[i] += (dea_real)((double)dy[i] * (double)x[i] * s);
        }
    }
}

static void rope_table(const llama_config *c, int first, int seq, scratch *s) {
    const int half = head_width(c) / 2;
    for (int t = 0; t < seq; t++)
        for (int i = 0; i < half; i++) {
            const double angle = (first + t) * pow(c->rope_theta, -(double)i / half);
            s->cosine[t * half + i] = (dea_real)cos(angle);
            s->sine[t * half + i] = (dea_real)sin(angle);
        }
}

/* Rotates entries (i, i + w/2) of every head of x [N,heads w] by the angle of its position; direction -1: back. */
static void rotate(const llama_config *c, const scratch *s, dea_real *x, int batch, int seq, int heads, int direction) {
    const int w = head_width(c), half = w / 2;
    for (int row = 0; row < batch * seq; row++)
        for (int h = 0; h < heads; h++) {
            dea_real *a = x + ((size_t)row * (size_t)heads + (size_t)h) * (size_t)w;
            for (int i = 0; i < half; i++) {
                const dea_real cosine = s->cosine[row % seq * half + i];
                const dea_real sine = (dea_real)direction * s->sine[row % seq * half + i], p = a[i], q = a[i + half];
                a[i] = p * cosine - q * sine;
                a[i + half] = q * cosine + p * sine;
            }
        }
}

static double dot(const dea_real *x, const dea_real *y, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

static void add_scaled(dea_real *y, double a, const dea_real *x, int n) {
    for (int i = 0; i < n; i++) y[i] += (dea_real)a * x[i];
}

/* Where keys and values of one layer lie: rows `KV` apart, sequences `stride` apart; the first new token is at `first`. */
typedef struct key_store {
    dea_real *k, *v;
    size_t stride;
    int first;
} key_store;

/* o [N,D] = causal softmax attention; log_sum [N,heads] or NULL. */
static void attend(const llama_config *c, int batch, int seq, const dea_real *q, const key_store *store, dea_real *o,
                   dea_real *log_sum, dea_real *scores) {
    const int w = head_width(c), KV = kv_width(c), group = c->heads / c->kv_heads;
    const double root = 1 / sqrt((double)w);
    for (int row = 0; row < batch * seq; row++)
        for (int h = 0; h < c->heads; h++) {
            const int keys = store->first + row % seq + 1;
            const size_t at = (size_t)(row / seq) * store->stride + (size_t)(h / group * w);
            const dea_real *query = q + (size_t)row * (size_t)c->width + h * w;
            dea_real *out = o + (size_t)row * (size_t)c->width + h * w;
            double top = -INFINITY, sum = 0;
            for (int j = 0; j < keys; j++) {
                const double score = root * dot(query, store->k + at + (size_t)j * (size_t)KV, w);
                scores[j] = (dea_real)score;
                if (score > top) top = score;
            }
            for (int j = 0; j < keys; j++) sum += exp((double)scores[j] - top);
            const double total = top + log(sum);
            memset(out, 0, (size_t)w * sizeof *out);
            for (int j = 0; j < keys; j++)
                add_scaled(out, exp((double)scores[j] - total), store->v + at + (size_t)j * (size_t)KV, w);
            if (log_sum) log_sum[(size_t)row * (size_t)c->heads + (size_t)h] = (dea_real)total;
        }
}

/* forward: A = softmax(q k^T/sqrt(w)), o = A v. dq written, dk and dv added to; d_o [N,D]. */
static void attend_backward(const llama_config *c, int batch, int seq, const layer_saved *s, const dea_real *d_o,
                            dea_real *dq, dea_real *dk, dea_real *dv, dea_real *dscores) {
    const int w = head_width(c), KV = kv_width(c), group = c->heads / c->kv_heads;
    const double root = 1 / sqrt((double)w);
    memset(dq, 0, (size_t)batch * (size_t)seq * (size_t)c->width * sizeof *dq);
    for (int row = 0; row < batch * seq; row++)
        for (int h = 0; h < c->heads; h++) {
            const size_t at = (size_t)(row / seq) * (size_t)seq * (size_t)KV + (size_t)(h / group * w);
            const size_t query = (size_t)row * (size_t)c->width + (size_t)(h * w);
            const double total = (double)s->log_sum[(size_t)row * (size_t)c->heads + (size_t)h];
            const int keys = row % seq + 1;
            double mean = 0;
            for (int j = 0; j < keys; j++) {
                const size_t key = at + (size_t)j * (size_t)KV;
                const double a = exp(root * dot(s->q + query, s->k + key, w) - total),
                             da = dot(d_o + query, s->v + key, w);
                dscores[j] = (dea_real)da;
                mean += a * da;
                add_scaled(dv + key, a, d_o + query, w);
            }
            for (int j = 0; j < keys; j++) {
                const size_t key = at + (size_t)j * (size_t)KV;
                const double a = exp(root * dot(s->q + query, s->k + key, w) - total);
                const double ds = a * ((double)dscores[j] - mean) * root;
                add_scaled(dq + query, ds, s->k + key, w);
                add_scaled(dk + key, ds, s->q + query, w);
            }
        }
}

/* y = x w^T of a tensor of the model. */
static dea_status linear(const llama_model *model, llama_tensor which, int layer, const dea_real *x, dea_real *y,
                         int rows) {
    int out, in;
    llama_shape(&model->config, which, &out, &in);
    return dea_linear_forward(x, weight(model, which, layer), NULL, y, rows, in, out, &model->threads);
}

/* forward: y = x w^T. dx written; a frozen base forms nothing else. x is read only for the gradient of w. */
static dea_status linear_backward(const llama_model *model, llama_tensor which, int layer, const dea_real *x,
                                  const dea_real *dy, dea_real *dx, int rows, const llama_gradients *grads) {
    int out, in;
    llama_shape(&model->config, which, &out, &in);
    return dea_linear_backward(grads ? x : NULL, weight(model, which, layer), dy, dx,
                               grads ? grads->get(grads->grads, which, layer) : NULL, NULL, rows, in, out,
                               &model->threads);
}

static void add(dea_real *y, const dea_real *x, size_t count) {
    for (size_t i = 0; i < count; i++) y[i] += x[i];
}

static double sigmoid(double x) {
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static void swiglu(const dea_real *a, const dea_real *b, dea_real *y, size_t count) {
    for (size_t i = 0; i < count; i++) y[i] = (dea_real)((double)a[i] * sigmoid((double)a[i]) * (double)b[i]);
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const dea_status status_ = (call);                                                                             \
        if (status_ != DEA_OK) return status_;                                                                         \
    } while (0)

/* ---- forward --------------------------------------------------------------------------------------------------------- */
/* x [N,D] through one layer. s: what the backward keeps, or scratch. */
static dea_status layer_forward(const llama_model *model, const llama_call *call, int l, dea_real *x,
                                const layer_saved *s, scratch *w) {
    const llama_config *c = &model->config;
    const int rows = call->batch * call->seq, D = c->width, KV = kv_width(c);
    const size_t N = (size_t)rows, wide = N * (size_t)D;
    memcpy(s->in, x, wide * sizeof *x);
    rms_norm(x, weight(model, LLAMA_ATTN_NORM, l), N, D, c->rms_eps, w->normed, s->scale1);
    TRY(linear(model, LLAMA_Q, l, w->normed, s->q, rows));
    TRY(linear(model, LLAMA_K, l, w->normed, s->k, rows));
    TRY(linear(model, LLAMA_V, l, w->normed, s->v, rows));
    rotate(c, w, s->q, call->batch, call->seq, c->heads, 1);
    rotate(c, w, s->k, call->batch, call->seq, c->kv_heads, 1);
    key_store store = {s->k, s->v, (size_t)call->seq * (size_t)KV, 0};
    if (call->kv) {
        const size_t stride = (size_t)call->kv->capacity * (size_t)KV, layer = (size_t)l * (size_t)call->batch * stride;
        const size_t new_keys = (size_t)call->seq * (size_t)KV;
        store.k = call->kv->k + layer;
        store.v = call->kv->v + layer;
        store.stride = stride;
        store.first = call->kv->used;
        for (size_t b = 0; b < (size_t)call->batch; b++) {
            const size_t to = b * stride + (size_t)store.first * (size_t)KV;
            memcpy(store.k + to, s->k + b * new_keys, new_keys * sizeof *x);
            memcpy(store.v + to, s->v + b * new_keys, new_keys * sizeof *x);
        }
    }
    attend(c, call->batch, call->seq, s->q, &store, w->normed, s->log_sum, w->scores);
    TRY(linear(model, LLAMA_O, l, w->normed, w->wide, rows));
    add(x, w->wide, wide);
    memcpy(s->mid, x, wide * sizeof *x);
    rms_norm(x, weight(model, LLAMA_MLP_NORM, l), N, D, c->rms_eps, w->normed, s->scale2);
    TRY(linear(model, LLAMA_FFN_GATE, l, w->normed, s->a, rows));
    TRY(linear(model, LLAMA_FFN_UP, l, w->normed, s->b, rows));
    swiglu(s->a, s->b, w->f, N * (size_t)c->ffn);
    TRY(linear(model, LLAMA_FFN_DOWN, l, w->f, w->wide, rows));
    add(x, w->wide, wide);
    return DEA_OK;
}

LLAMA_API dea_status llama_forward(const llama_model *model, llama_call *call, dea_real *x) {
    scratch w;
    TRY(check_call(model, call));
    if (!x) return DEA_ERR_NULL;
    const llama_config *c = &model->config;
    const int rows = call->batch * call->seq;
    const size_t each = layer_saved_count(c, (size_t)rows);
    scratch_layout(&w, call->workspace, c, call->batch, call->seq, LONGEST);
    TRY(dea_embedding_forward(weight(model, LLAMA_EMB, 0), call->ids, x, rows, c->vocab, c->width, 1));
    rope_table(c, call->kv ? call->kv->used : 0, call->seq, &w);
    for (int l = 0; l < c->layers; l++) {
        const layer_saved s = layer_saved_in(c, (size_t)rows, call->saved ? call->saved + (size_t)l * each : w.own);
        TRY(layer_forward(model, call, l, x, &s, &w));
        if (call->hook) TRY(call->hook(call->context, l, x));
    }
    if (call->kv) call->kv->used += call->seq;
    return DEA_OK;
}

LLAMA_API dea_status llama_head(const llama_model *model, const dea_real *x, int rows, dea_real *logits,
                                dea_real *workspace) {
    if (!model || !x || !logits || !workspace) return DEA_ERR_NULL;
    if (rows <= 0) return DEA_ERR_SHAPE;
    const llama_config *c = &model->config;
    rms_norm(x, weight(model, LLAMA_FINAL_NORM, 0), (size_t)rows, c->width, c->rms_eps, workspace, NULL);
    return linear(model, LLAMA_HEAD, 0, workspace, logits, rows);
}

/* ---- backward -------------------------------------------------------------------------------------------------------- */
LLAMA_API dea_status llama_head_backward(const llama_model *model, const dea_real *x, const dea_real *dlogits, int rows,
                                         dea_real *dx, const llama_gradients *grads, dea_real *workspace) {
    if (!model || !x || !dlogits || !dx || !workspace) return DEA_ERR_NULL;
    if (rows <= 0) return DEA_ERR_SHAPE;
    const llama_config *c = &model->config;
    /* forward: logits = head RMSNorm(x); dx serves as the normed x until it is written */
    if (grads) rms_norm(x, weight(model, LLAMA_FINAL_NORM, 0), (size_t)rows, c->width, c->rms_eps, dx, NULL);
    TRY(linear_backward(model, LLAMA_HEAD, 0, dx, dlogits, workspace, rows, grads));
    memset(dx, 0, (size_t)rows * (size_t)c->width * sizeof *dx);
    rms_norm_backward(x, weight(model, LLAMA_FINAL_NORM, 0), workspace, (size_t)rows, c->width, c->rms_eps, NULL, dx,
                      grads ? grads->get(grads->grads, LLAMA_FINAL_NORM, 0) : NULL);
    return DEA_OK;
}

/* forward: x = mid + ffn_down (silu(a) o b), a = ffn_gate h, b = ffn_up h, h = RMSNorm(mid). dx in place. */
static dea_status feed_forward_backward(const llama_model *model, int l, int rows, const layer_saved *s, scratch *w,
                                        dea_real *dx, const llama_gradients *grads) {
    const llama_config *c = &model->config;
    const size_t N = (size_t)rows, narrow = N * (size_t)c->ffn, wide = N * (size_t)c->width;
    if (grads) swiglu(s->a, s->b, w->f2, narrow);
    TRY(linear_backward(model, LLAMA_FFN_DOWN, l, w->f2, dx, w->f, rows, grads));
    for (size_t i = 0; i < narrow; i++) {
        const double a = (double)s->a[i], b = (double)s->b[i], m = (double)w->f[i], g = sigmoid(a);
        w->f[i] = (dea_real)(m * b * g * (1 + a * (1 - g)));
        w->f2[i] = (dea_real)(m * a * g);
    }
    if (grads) rms_norm(s->mid, weight(model, LLAMA_MLP_NORM, l), N, c->width, c->rms_eps, w->normed, NULL);
    TRY(linear_backward(model, LLAMA_FFN_GATE, l, w->normed, w->f, w->wide, rows, grads));
    TRY(linear_backward(model, LLAMA_FFN_UP, l, w->normed, w->f2, w->wide2, rows, grads));
    add(w->wide, w->wide2, wide);
    rms_norm_backward(s->mid, weight(model, LLAMA_MLP_NORM, l), w->wide, N, c->width, c->rms_eps, s->scale2, dx,
                      grads ? grads->get(grads->grads, LLAMA_MLP_NORM, l) : NULL);
    return DEA_OK;
}

/* forward: mid = in + o attention(rope(q h), rope(k h), v h), h = RMSNorm(in). dx in place. */
static dea_status attention_backward(const llama_model *model, const llama_call *call, int l, const layer_saved *s,
                                     scratch *w, dea_real *dx, const llama_gradients *grads) {
    const llama_config *c = &model->config;
    const int rows = call->batch * call->seq, KV = kv_width(c);
    const size_t N = (size_t)rows, wide = N * (size_t)c->width, narrow = N * (size_t)KV;
    key_store store = {s->k, s->v, (size_t)call->seq * (size_t)KV, 0};
    if (grads) attend(c, call->batch, call->seq, s->q, &store, w->normed, NULL, w->scores);
    TRY(linear_backward(model, LLAMA_O, l, w->normed, dx, w->wide, rows, grads));
    memset(w->dk, 0, narrow * sizeof *w->dk);
    memset(w->dv, 0, narrow * sizeof *w->dv);
    attend_backward(c, call->batch, call->seq, s, w->wide, w->wide2, w->dk, w->dv, w->scores);
    rotate(c, w, w->wide2, call->batch, call->seq, c->heads, -1);
    rotate(c, w, w->dk, call->batch, call->seq, c->kv_heads, -1);
    if (grads) rms_norm(s->in, weight(model, LLAMA_ATTN_NORM, l), N, c->width, c->rms_eps, w->normed, NULL);
    TRY(linear_backward(model, LLAMA_Q, l, w->normed, w->wide2, w->wide, rows, grads));
    TRY(linear_backward(model, LLAMA_K, l, w->normed, w->dk, w->wide2, rows, grads));
    add(w->wide, w->wide2, wide);
    TRY(linear_backward(model, LLAMA_V, l, w->normed, w->dv, w->wide2, rows, grads));
    add(w->wide, w->wide2, wide);
    rms_norm_backward(s->in, weight(model, LLAMA_ATTN_NORM, l), w->wide, N, c->width, c->rms_eps, s->scale1, dx,
                      grads ? grads->get(grads->grads, LLAMA_ATTN_NORM, l) : NULL);
    return DEA_OK;
}

LLAMA_API dea_status llama_backward(const llama_model *model, llama_call *call, dea_real *dx, int lowest,
                                    const llama_gradients *grads) {
    scratch w;
    TRY(check_call(model, call));
    if (!call->saved || !dx) return DEA_ERR_NULL;
    const llama_config *c = &model->config;
    if (lowest < -1 || lowest >= c->layers) return DEA_ERR_INDEX;
    const int rows = call->batch * call->seq;
    const size_t each = layer_saved_count(c, (size_t)rows);
    scratch_layout(&w, call->workspace, c, call->batch, call->seq, LONGEST);
    rope_table(c, 0, call->seq, &w);
    for (int l = c->layers - 1; l >= lowest && l >= 0; l--) {
        const layer_saved s = layer_saved_in(c, (size_t)rows, call->saved + (size_t)l * each);
        if (call->hook) TRY(call->hook(call->context, l, dx));
        if (l == lowest) break;
        TRY(feed_forward_backward(model, l, rows, &s, &w, dx, grads));
        TRY(attention_backward(model, call, l, &s, &w, dx, grads));
    }
    if (lowest >= 0 || !grads) return DEA_OK;
    return dea_embedding_backward(call->ids, dx, grads->get(grads->grads, LLAMA_EMB, 0), rows, c->vocab, c->width, 1);
}

/* The attention in double: against its equations written out, against central differences, and what must not change a bit.
 * Every test runs on the plain path, and again on the fast path where it is built. */
#define DEA_REAL double
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"
#include "support.h"
#include "thread_hooks.h"

static dea_path path; /* under test */

static problem draw(int options, int batch, int heads, int seq_q, int head_dim) {
    return draw_problem(options, batch, heads, seq_q, head_dim, path);
}

static size_t cell_of(const dea_attention *a, int b, int h, int i) {
    return (((size_t)b * (size_t)a->heads + (size_t)h) * (size_t)a->seq_q + (size_t)i) * (size_t)a->seq_k;
}

/* ---- the equations, written out -------------------------------------------------------------------------------------- */
typedef struct equations {
    double *et0, *et1, *alpha_hat, *alpha_mix, *s, *a; /* [B,H,Tq,Tk], 0 where not seen */
} equations;

static double dot(const dea_real *x, const dea_real *y, int n) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i] * y[i];
    return sum;
}

static void normalise(double *e, int n) { /* (3) */
    double mean = 0, variance = 0;
    for (int j = 0; j < n; ++j) mean += e[j] / n;
    for (int j = 0; j < n; ++j) variance += (e[j] - mean) * (e[j] - mean) / n;
    for (int j = 0; j < n; ++j) e[j] = (e[j] - mean) / (sqrt(variance) + 1e-5);
}

static void row_equations(const problem *p, const dea_real *labels, int b, int h, int i, const equations *m) {
    const dea_attention *a = &p->a;
    int d = a->head_dim, n = keys_seen(a, b, i);
    size_t at = cell_of(a, b, h, i), label_at = ((size_t)b * (size_t)a->seq_q + (size_t)i) * (size_t)a->seq_k;
    const dea_real *q = row(p->q, p->qs, b, h, i), *w = p->w_gate + (size_t)h * (2 * (size_t)d + 2);
    double t = a->temperature ? a->temperature[h] : 1, peak = -INFINITY, sum = 0;
    for (int j = 0; j < n; ++j) {
        const dea_real *k = row(p->k, p->ks, b, h, j);
        m->et0[at + (size_t)j] = dot(q, k, d) / sqrt(d); /* (1) */
        double square = 0;                               /* (2) */
        for (int r = 0; r < d; ++r) {
            double u = dot(p->w_rel + ((size_t)h * (size_t)d + (size_t)r) * (size_t)d, q, d);
            square += (u - k[r]) * (u - k[r]);
        }
        m->et1[at + (size_t)j] = -square / d;
    }
    if (n) normalise(m->et0 + at, n), normalise(m->et1 + at, n);
    for (int j = 0; j < n; ++j) {
        size_t c = at + (size_t)j;
        double z = dot(w, q, d) + dot(w + d, row(p->k, p->ks, b, h, j), d) + w[2 * d] * m->et0[c] +
                   w[2 * d + 1] * m->et1[c] + p->c_gate[h]; /* (6) */
        m->alpha_hat[c] = fmin(1 / (1 + exp(-fmax(-10, fmin(10, z)))), 0.95);
        double label = labels ? labels[label_at + (size_t)j] : NAN, g = a->gamma;
        m->alpha_mix[c] = isnan(label) ? m->alpha_hat[c] : g * label + (1 - g) * m->alpha_hat[c]; /* (14) */
        m->s[c] = t * ((1 - m->alpha_mix[c]) * m->et0[c] + m->alpha_mix[c] * m->et1[c]);          /* (14') */
        peak = fmax(peak, m->s[c]);
    }
    for (int j = 0; j < n; ++j) sum += exp(m->s[at + (size_t)j] - peak);
    for (int j = 0; j < n; ++j) m->a[at + (size_t)j] = exp(m->s[at + (size_t)j] - peak) / sum;
}

static equations solve(const problem *p) {
    equations m = {take_zeros(p->map_count), take_zeros(p->map_count), take_zeros(p->map_count),
                   take_zeros(p->map_count), take_zeros(p->map_count), take_zeros(p->map_count)};
    const dea_real *labels = p->a.labels || p->a.label_block_count ? dense_labels(&p->a) : NULL;
    for (int b = 0; b < p->a.batch; ++b)
        for (int h = 0; h < p->a.heads; ++h)
            for (int i = 0; i < p->a.seq_q; ++i) row_equations(p, labels, b, h, i, &m);
    return m;
}

/* o = a v, in the strides of o. */
static dea_real *weigh(const problem *p, const double *a) {
    dea_real *o = take_zeros(p->o_count);
    for (int b = 0; b < p->a.batch; ++b)
        for (int h = 0; h < p->a.heads; ++h)
            for (int i = 0; i < p->a.seq_q; ++i)
                for (int j = 0; j < p->a.seq_k; ++j)
                    for (int c = 0; c < p->a.head_dim; ++c)
                        if (a[cell_of(&p->a, b, h, i) + (size_t)j] != 0)
                            row(o, p->os, b, h, i)[c] +=
                                a[cell_of(&p->a, b, h, i) + (size_t)j] * row(p->v, p->ks, b, h, j)[c];
    return o;
}

static void compare_with_equations(problem *p) {
    equations m = solve(p);
    if (path == DEA_PATH_PLAIN) take_maps(p);
    forward(p);
    assert_close(p->o, weigh(p, m.a), p->o_count, 1e-12);
    if (path != DEA_PATH_PLAIN) return;
    assert_close(p->a.maps.et0, m.et0, p->map_count, 1e-11);
    assert_close(p->a.maps.et1, m.et1, p->map_count, 1e-11);
    assert_close(p->a.maps.alpha_hat, m.alpha_hat, p->map_count, 1e-12);
    assert_close(p->a.maps.alpha_mix, m.alpha_mix, p->map_count, 1e-12);
    assert_close(p->a.maps.s, m.s, p->map_count, 1e-11);
    assert_close(p->a.maps.a, m.a, p->map_count, 1e-11);
    for (size_t i = 0; i < p->map_count; ++i) /* unseen cells are exactly 0 in every map */
        if (m.a[i] == 0)
            assert_true(p->a.maps.et0[i] == 0 && p->a.maps.et1[i] == 0 && p->a.maps.alpha_hat[i] == 0 &&
                        p->a.maps.alpha_mix[i] == 0 && p->a.maps.s[i] == 0 && p->a.maps.a[i] == 0);
}

static void equations_of_options(int options) {
    if (options & DROPOUT) return; /* its mask is no equation; see below */
    problem p = draw(options, 2, 2, 7, 5);
    compare_with_equations(&p);
    release(NULL);
}

static void test_equations_under_every_pair_of_options(void **state) {
    (void)state;
    seed_numbers(1);
    for_option_pairs(equations_of_options);
    for (int i = 0; i < 40; ++i) equations_of_options((int)(next_bits() & (EVERY_OPTION - DROPOUT - DENSE)));
}

static void test_equations_on_random_shapes(void **state) {
    (void)state;
    seed_numbers(2);
    for (int i = 0; i < 60; ++i) {
        int options = (int)(next_bits() & (EVERY_OPTION - DROPOUT - BLOCKS));
        problem p = draw(options, 1 + below(3), 1 + below(3), 1 + below(40), 1 + below(33));
        compare_with_equations(&p);
        release(NULL);
    }
}

/* What forward leaves for backward is documented: sigma0, sigma1, shift, sum of exp(score - shift). */
static void test_saved_numbers(void **state) {
    (void)state;
    seed_numbers(3);
    problem p = draw(LENGTHS | TEMPERATURE, 2, 2, 6, 4);
    size_t T = 6;
    equations m = solve(&p);
    forward(&p);
    assert_int_equal(p.saved_count, 2 * 2 * 4 * T);
    for (int b = 0; b < 2; ++b)
        for (int h = 0; h < 2; ++h)
            for (int i = 0; i < 6; ++i) {
                const dea_real *s = p.saved + ((size_t)b * 2 + (size_t)h) * 4 * T + (size_t)i;
                int n = keys_seen(&p.a, b, i);
                double mean = 0, variance = 0, sum = 0;
                for (int j = 0; j < n; ++j) mean += dot(row(p.q, p.qs, b, h, i), row(p.k, p.ks, b, h, j), 4) / 2 / n;
                for (int j = 0; j < n; ++j) {
                    double e = dot(row(p.q, p.qs, b, h, i), row(p.k, p.ks, b, h, j), 4) / 2 - mean;
                    variance += e * e / n;
                    sum += exp(m.s[cell_of(&p.a, b, h, i) + (size_t)j] - s[2 * T]);
                }
                assert_near(s[0], sqrt(variance), 1e-12);
                assert_near(s[3 * T], sum, 1e-10 * sum);
            }
}

/* ---- gradients ------------------------------------------------------------------------------------------------------- */
/* The task loss sum(o o d_o) with the mixer held at `mix`: alpha-hat is a constant to it (1.9). A head's mix goes in as
 * labels with gamma 1, which is one map for all heads, so each head takes a forward of its own. */
typedef struct task_loss {
    problem *p;
    dea_real **mix; /* [H] of [B,Tq,Tk] */
    dea_real *o;
    void *workspace;
    size_t bytes;
} task_loss;

static double task(void *context) {
    task_loss *t = context;
    dea_attention a = t->p->a;
    dea_maps none = {NULL, NULL, NULL, NULL, NULL, NULL};
    double loss = 0;
    a.maps = none, a.label_blocks = NULL, a.label_block_count = 0, a.gamma = 1;
    for (int h = 0; h < a.heads; ++h) {
        a.labels = t->mix[h];
        if (!t->bytes) t->workspace = take(t->bytes = dea_forward_workspace(&a));
        assert_ok(dea_forward(&a, t->o, NULL, t->workspace, t->bytes));
        for (int b = 0; b < a.batch; ++b)
            for (int i = 0; i < a.seq_q; ++i)
                loss += dot(row(t->o, t->p->os, b, h, i), row(t->p->d_o, t->p->os, b, h, i), a.head_dim);
    }
    return loss;
}

/* The mixer of the problem, by the plain path (which keeps maps). */
static task_loss freeze_mix(problem *p) {
    task_loss t = {p, take((size_t)p->a.heads * sizeof(dea_real *)), take_reals(p->o_count), NULL, 0};
    problem plain = *p;
    size_t cells = (size_t)p->a.seq_q * (size_t)p->a.seq_k;
    plain.a.path = DEA_PATH_PLAIN;
    plain.a.maps.alpha_mix = take_reals(p->map_count);
    plain.o = take_reals(p->o_count), plain.saved = take_reals(p->saved_count);
    size_workspace(&plain);
    forward(&plain);
    for (int h = 0; h < p->a.heads; ++h) {
        t.mix[h] = take_reals((size_t)p->a.batch * cells);
        for (int b = 0; b < p->a.batch; ++b)
            memcpy(t.mix[h] + (size_t)b * cells, plain.a.maps.alpha_mix + cell_of(&p->a, b, h, 0),
                   cells * sizeof(dea_real));
    }
    return t;
}

static void check_rows(const char *name, task_loss *t, dea_real *x, const dea_real *dx, dea_strides s, int seq) {
    gradient_check c = {name, 0, 0};
    for (int b = 0; b < t->p->a.batch; ++b)
        for (int h = 0; h < t->p->a.heads; ++h)
            for (int i = 0; i < seq; ++i)
                for (int j = 0; j < t->p->a.head_dim; ++j)
                    check_element(&c, slope(task, t, row(x, s, b, h, i) + j, 1e-4), row(dx, s, b, h, i)[j]);
    check_end(&c);
}

static void gradients_of_problem(problem *p) {
    forward(p);
    backward(p);
    task_loss t = freeze_mix(p);
    double direct = 0;
    for (size_t i = 0; i < p->o_count; ++i) direct += p->o[i] * p->d_o[i];
    assert_near(task(&t), direct, 1e-11 * (1 + fabs(direct)));
    check_rows("q", &t, p->q, p->g.dq, p->qs, p->a.seq_q);
    check_rows("k", &t, p->k, p->g.dk, p->ks, p->a.seq_k);
    check_rows("v", &t, p->v, p->g.dv, p->ks, p->a.seq_k);
    check_gradient("w_rel", task, &t, p->w_rel, p->g.dw_rel, p->w_rel_count);
    if (p->temperature) check_gradient("temperature", task, &t, p->temperature, p->g.dtemperature, (size_t)p->a.heads);
    assert_true(all_zero(p->g.dw_gate, p->w_gate_count) && all_zero(p->g.dc_gate, (size_t)p->a.heads)); /* 1.9 */
}

static void gradients_of_options(int options) {
    problem p = draw(options, 2, 2, 5, 3);
    gradients_of_problem(&p);
    release(NULL);
}

static void test_gradients_under_every_pair_of_options(void **state) {
    (void)state;
    seed_numbers(4);
    for_option_pairs(gradients_of_options);
}

static void test_gradients_with_everything_on(void **state) {
    (void)state;
    seed_numbers(5);
    gradients_of_options(EVERY_OPTION - DENSE);
    gradients_of_options(EVERY_OPTION - BLOCKS);
    problem p = draw(TEMPERATURE | LENGTHS | DENSE, 1, 2, 13, 7);
    gradients_of_problem(&p);
}

/* sigma = 0: the second term of the normalisation's gradient vanishes, 1/1e-5 stays. */
static void test_gradient_where_all_keys_are_equal(void **state) {
    (void)state;
    seed_numbers(6);
    problem p = draw(0, 1, 1, 4, 3);
    for (int j = 1; j < 4; ++j) memcpy(p.k + j * 3, p.k, 3 * sizeof *p.k);
    forward(&p);
    for (int i = 0; i < 4; ++i)
        for (int c = 0; c < 3; ++c)
            assert_near(p.o[i * 3 + c], (p.v[c] + p.v[3 + c] + p.v[6 + c] + p.v[9 + c]) / 4, 1e-9);
    backward(&p);
    assert_true(all_finite(p.g.dq, 12) && all_finite(p.g.dk, 12) && all_finite(p.g.dw_rel, 9));
    for (int c = 0; c < 12; ++c) assert_near(p.g.dq[c], 0, 1e-9 * 1e5);
}

/* Parameters' gradients are added to, activations' are written. */
static void test_gradients_accumulate(void **state) {
    (void)state;
    seed_numbers(7);
    problem p = draw(TEMPERATURE | DENSE, 2, 2, 5, 4);
    forward(&p);
    backward(&p);
    problem r = p;
    r.g = take_gradients(&p); /* activations start as NaN */
    fill_gauss(r.g.dw_rel, p.w_rel_count, 1), fill_gauss(r.g.dtemperature, 2, 1);
    dea_real *w = take_copy(r.g.dw_rel, p.w_rel_count), *t = take_copy(r.g.dtemperature, 2);
    backward(&r);
    assert_same_bits(r.g.dq, p.g.dq, p.q_span);
    assert_same_bits(r.g.dk, p.g.dk, p.k_span);
    assert_same_bits(r.g.dv, p.g.dv, p.k_span);
    for (size_t i = 0; i < p.w_rel_count; ++i) assert_near(r.g.dw_rel[i], w[i] + p.g.dw_rel[i], 1e-13);
    for (size_t i = 0; i < 2; ++i) assert_near(r.g.dtemperature[i], t[i] + p.g.dtemperature[i], 1e-13);
}

/* ---- what must not matter -------------------------------------------------------------------------------------------- */
static void assert_same_results(const problem *x, const problem *y) {
    assert_same_bits(x->o, y->o, x->o_count);
    assert_same_bits(x->saved, y->saved, x->saved_count);
    for (int b = 0; b < x->a.batch; ++b)
        for (int h = 0; h < x->a.heads; ++h) {
            size_t d = (size_t)x->a.head_dim;
            for (int i = 0; i < x->a.seq_q; ++i)
                assert_same_bits(row(x->g.dq, x->qs, b, h, i), row(y->g.dq, y->qs, b, h, i), d);
            for (int j = 0; j < x->a.seq_k; ++j) {
                assert_same_bits(row(x->g.dk, x->ks, b, h, j), row(y->g.dk, y->ks, b, h, j), d);
                assert_same_bits(row(x->g.dv, x->ks, b, h, j), row(y->g.dv, y->ks, b, h, j), d);
            }
        }
    assert_same_bits(x->g.dw_rel, y->g.dw_rel, x->w_rel_count);
    assert_same_bits(x->g.dw_gate, y->g.dw_gate, x->w_gate_count);
    assert_same_bits(x->g.dc_gate, y->g.dc_gate, (size_t)x->a.heads);
    if (x->g.dtemperature) assert_same_bits(x->g.dtemperature, y->g.dtemperature, (size_t)x->a.heads);
}

static void run(problem *p) {
    dea_gate gate = dea_gate_init();
    forward(p);
    backward(p);
    if (p->a.labels || p->a.label_block_count) gate_loss(p, &gate);
}

/* The same problem with outputs and workspace of its own. */
static problem again(const problem *p) {
    problem r = *p;
    r.o = take_reals(p->o_count), r.saved = take_reals(p->saved_count), r.g = take_gradients(p);
    size_workspace(&r);
    return r;
}

static void test_blocks_are_dense_labels(void **state) {
    (void)state;
    seed_numbers(8);
    for (int extra = 0; extra <= CAUSAL + LENGTHS; ++extra) {
        problem x = draw(BLOCKS | extra, 3, 2, 9, 4);
        run(&x);
        problem y = again(&x);
        y.a.labels = dense_labels(&x.a), y.a.label_blocks = NULL, y.a.label_block_count = 0;
        size_workspace(&y);
        run(&y);
        assert_same_results(&x, &y);
        for (size_t i = 0; i < x.a.label_block_count / 2; ++i) { /* in any order */
            dea_label_block keep = x.blocks[i], *last = &x.blocks[x.a.label_block_count - 1 - i];
            x.blocks[i] = *last, *last = keep;
        }
        problem z = again(&x);
        run(&z);
        assert_same_results(&x, &z);
    }
}

static void test_strided_is_contiguous(void **state) {
    (void)state;
    seed_numbers(9);
    for (int options = 0; options <= EVERY_OPTION; ++options) {
        if (!(options & FUSED) || (options & BLOCKS) || (options & 3) == 3) continue;
        problem x = draw(options, 2, 3, 6, 5), y = x;
        dea_strides zero = {0, 0, 0};
        run(&x);
        y.a.q_strides = y.a.k_strides = y.a.v_strides = y.a.o_strides = zero;
        y.qs = y.os = contiguous(3, 6, 5), y.ks = contiguous(3, x.a.seq_k, 5);
        y.q_span = x.o_count, y.k_span = (size_t)(2 * 3 * 5) * (size_t)x.a.seq_k;
        y.q = take_reals(y.q_span), y.k = take_reals(y.k_span), y.v = take_reals(y.k_span);
        y.d_o = take_reals(y.o_count);
        for (int b = 0; b < 2; ++b)
            for (int h = 0; h < 3; ++h)
                for (int i = 0; i < x.a.seq_k; ++i) {
                    memcpy(row(y.k, y.ks, b, h, i), row(x.k, x.ks, b, h, i), 5 * sizeof(dea_real));
                    memcpy(row(y.v, y.ks, b, h, i), row(x.v, x.ks, b, h, i), 5 * sizeof(dea_real));
                    if (i >= 6) continue;
                    memcpy(row(y.q, y.qs, b, h, i), row(x.q, x.qs, b, h, i), 5 * sizeof(dea_real));
                    memcpy(row(y.d_o, y.os, b, h, i), row(x.d_o, x.os, b, h, i), 5 * sizeof(dea_real));
                }
        y.a.q = y.q, y.a.k = y.k, y.a.v = y.v;
        y = again(&y);
        run(&y);
        for (int b = 0; b < 2; ++b)
            for (int h = 0; h < 3; ++h)
                for (int i = 0; i < 6; ++i) assert_same_bits(row(x.o, x.os, b, h, i), row(y.o, y.os, b, h, i), 5);
        y.o = x.o; /* compared above, row by row */
        assert_same_results(&x, &y);
        release(NULL);
    }
}

static void test_strides_leave_the_gaps_alone(void **state) {
    (void)state;
    seed_numbers(10);
    problem p = draw(0, 2, 2, 5, 3);
    dea_strides s = {2 * 5 * 7 + 9, 5 * 7 + 3, 7}; /* gaps after every row, head and batch row */
    size_t count = 2 * (size_t)s.batch;
    problem r = p;
    dea_real *x[7];
    for (int i = 0; i < 7; ++i) x[i] = take_reals(count);
    for (int b = 0; b < 2; ++b)
        for (int h = 0; h < 2; ++h)
            for (int i = 0; i < 5; ++i) {
                memcpy(row(x[0], s, b, h, i), row(p.q, p.qs, b, h, i), 3 * sizeof(dea_real));
                memcpy(row(x[1], s, b, h, i), row(p.k, p.ks, b, h, i), 3 * sizeof(dea_real));
                memcpy(row(x[2], s, b, h, i), row(p.v, p.ks, b, h, i), 3 * sizeof(dea_real));
            }
    r.a.q = x[0], r.a.k = x[1], r.a.v = x[2], r.a.q_strides = r.a.k_strides = r.a.v_strides = s;
    r.g = take_gradients(&p), r.g.dq = x[3], r.g.dk = x[4], r.g.dv = x[5], r.qs = r.ks = s;
    size_workspace(&r);
    run(&p);
    run(&r);
    assert_same_results(&p, &r);
    for (int i = 3; i < 6; ++i) {
        size_t written = 0;
        for (size_t j = 0; j < count; ++j) written += isnan(x[i][j]) ? 0 : 1;
        assert_int_equal(written, 2 * 2 * 5 * 3);
    }
}

static void test_causal_is_a_length_for_each_row(void **state) {
    (void)state;
    seed_numbers(11);
    problem p = draw(CAUSAL | TEMPERATURE, 1, 2, 7, 4);
    run(&p);
    dea_real *dk = take_zeros(p.k_span), *dv = take_zeros(p.k_span), *dw = take_zeros(p.w_rel_count);
    for (int i = 0; i < 7; ++i) {
        problem r = p;
        dea_strides s = contiguous(2, 7, 4);
        r.a.seq_q = 1, r.a.seq_k = 7, r.a.causal = 0;
        r.a.q = p.q + 4 * i, r.a.q_strides = r.a.o_strides = s;
        r.key_lengths = take_ints(1), r.key_lengths[0] = i + 1, r.a.key_lengths = r.key_lengths;
        r.saved = take_reals(dea_saved_count(&r.a)), r.o = take_reals(p.o_count), r.g = take_gradients(&p);
        size_workspace(&r);
        assert_ok(dea_forward(&r.a, r.o + 4 * i, r.saved, r.workspace, r.bytes));
        r.g.dq += 4 * i;
        assert_ok(dea_backward(&r.a, r.o + 4 * i, r.saved, p.d_o + 4 * i, &r.g, r.workspace, r.bytes));
        for (int h = 0; h < 2; ++h) {
            assert_close(row(r.o, s, 0, h, i), row(p.o, s, 0, h, i), 4, 1e-12);
            assert_close(row(r.g.dq, s, 0, h, 0), row(p.g.dq, s, 0, h, i), 4, i == 0 ? 1e-11 : 1e-9);
        }
        for (size_t c = 0; c < p.k_span; ++c) dk[c] += r.g.dk[c], dv[c] += r.g.dv[c];
        for (size_t c = 0; c < p.w_rel_count; ++c) dw[c] += r.g.dw_rel[c];
    }
    assert_close(dk, p.g.dk, p.k_span, 1e-11);
    assert_close(dv, p.g.dv, p.k_span, 1e-12);
    assert_close(dw, p.g.dw_rel, p.w_rel_count, 1e-11);
}

static void test_thread_count_changes_no_bit(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 5};
    seed_numbers(12);
    for (int options = 0; options < 4; ++options) {
        problem x = draw(options | TEMPERATURE | DENSE | DROPOUT | (options & 1 ? FUSED : 0), 3, 2, 37, 8);
        run(&x);
        for (int i = 0; i < 2 * LENGTH(counts); ++i) {
            problem y = x;
            y.a.threads.count = counts[i / 2];
            y.a.threads.run = i % 2 ? run_in_threads : run_backwards;
            y = again(&y);
            run(&y);
            assert_same_results(&x, &y);
        }
        release(NULL);
    }
}

static void test_optional_outputs_change_no_bit(void **state) {
    (void)state;
    seed_numbers(13);
    problem x = draw(LENGTHS | TEMPERATURE | DENSE | DROPOUT, 2, 2, 9, 4);
    run(&x);
    problem y = again(&x);
    assert_ok(dea_forward(&y.a, y.o, NULL, y.workspace, y.bytes));
    assert_same_bits(y.o, x.o, x.o_count);
    if (path == DEA_PATH_PLAIN) {
        problem every = again(&x);
        take_maps(&every);
        run(&every);
        assert_same_results(&x, &every);
        for (int i = 0; i < 6; ++i) { /* one map alone: the same bits in it and in the output */
            problem one = again(&x);
            memset(&one.a.maps, 0, sizeof one.a.maps);
            dea_real *const all[] = {every.a.maps.et0,       every.a.maps.et1, every.a.maps.alpha_hat,
                                     every.a.maps.alpha_mix, every.a.maps.s,   every.a.maps.a};
            dea_real **const slots[] = {&one.a.maps.et0,       &one.a.maps.et1, &one.a.maps.alpha_hat,
                                        &one.a.maps.alpha_mix, &one.a.maps.s,   &one.a.maps.a};
            *slots[i] = take_reals(x.map_count);
            size_workspace(&one);
            forward(&one);
            assert_same_bits(one.o, x.o, x.o_count);
            assert_same_bits(one.saved, x.saved, x.saved_count);
            assert_same_bits(*slots[i], all[i], x.map_count);
        }
    }
    for (int i = 0; i < 5; ++i) { /* each gradient alone, and all but it */
        problem one = again(&x), rest = again(&x);
        dea_gradients none = {NULL, NULL, NULL, NULL, NULL, NULL, NULL}, g = one.g;
        one.g = none;
        memcpy(one.o, x.o, x.o_count * sizeof *x.o), memcpy(one.saved, x.saved, x.saved_count * sizeof *x.o);
        memcpy(rest.o, x.o, x.o_count * sizeof *x.o), memcpy(rest.saved, x.saved, x.saved_count * sizeof *x.o);
        dea_real *const from[] = {g.dq, g.dk, g.dv, g.dw_rel, g.dtemperature};
        dea_real *const expected[] = {x.g.dq, x.g.dk, x.g.dv, x.g.dw_rel, x.g.dtemperature};
        dea_real **const slots[] = {&one.g.dq, &one.g.dk, &one.g.dv, &one.g.dw_rel, &one.g.dtemperature};
        dea_real **const others[] = {&rest.g.dq, &rest.g.dk, &rest.g.dv, &rest.g.dw_rel, &rest.g.dtemperature};
        const size_t counts[] = {x.q_span, x.k_span, x.k_span, x.w_rel_count, 2};
        *slots[i] = from[i];
        backward(&one);
        assert_same_bits(from[i], expected[i], counts[i]);
        *others[i] = NULL;
        backward(&rest);
        for (int j = 0; j < 5; ++j)
            if (j != i) assert_same_bits(*others[j], expected[j], counts[j]);
    }
}

/* ---- masks and bad numbers ------------------------------------------------------------------------------------------- */
static void test_padding_is_never_read(void **state) {
    (void)state;
    seed_numbers(14);
    for (int options = 0; options <= FUSED; options += FUSED) {
        problem x = draw(LENGTHS | DENSE | TEMPERATURE | options, 2, 2, 6, 4);
        run(&x);
        for (int h = 0; h < 2; ++h)
            for (int j = x.key_lengths[0]; j < x.a.seq_k; ++j)
                for (int c = 0; c < 4; ++c)
                    row(x.k, x.ks, 0, h, j)[c] = NAN,
                                         row(x.v, x.ks, 0, h, j)[c] = c & 1 ? (double)NAN : (double)INFINITY;
        problem y = again(&x);
        run(&y);
        assert_same_results(&x, &y);
        for (int h = 0; h < 2; ++h)
            for (int j = x.key_lengths[0]; j < x.a.seq_k; ++j)
                assert_true(all_zero(row(y.g.dk, y.ks, 0, h, j), 4) && all_zero(row(y.g.dv, y.ks, 0, h, j), 4));
    }
}

/* Puts `bad` into one number of q, k or v (0, 1, 2) at batch row 1, head 0, token 3, and says who may notice. */
static void check_confined(int options, int where, double bad) {
    seed_numbers(15);
    problem x = draw(options, 2, 2, 6, 4);
    run(&x);
    problem y = again(&x);
    row(where == 0 ? y.q : where == 1 ? y.k : y.v, where == 0 ? y.qs : y.ks, 1, 0, 3)[1] = bad;
    forward(&y);
    backward(&y);
    for (int b = 0; b < 2; ++b)
        for (int h = 0; h < 2; ++h)
            for (int i = 0; i < 6; ++i) {
                int sees = b == 1 && h == 0 && (where == 0 ? i == 3 : keys_seen(&x.a, b, i) > 3);
                const dea_real *o = row(y.o, y.os, b, h, i);
                if (sees) {
                    assert_false(all_finite(o, 4));
                } else if (b == 1 && h == 0) { /* the mean key is taken over other keys now: equal to rounding */
                    assert_close(o, row(x.o, x.os, b, h, i), 4, 1e-12);
                    for (int c = 0; c < 4; ++c)
                        assert_near(row(y.g.dq, y.qs, b, h, i)[c], row(x.g.dq, x.qs, b, h, i)[c], 1e-10);
                }
                if (b == 1 && h == 0) continue;
                assert_same_bits(o, row(x.o, x.os, b, h, i), 4);
                assert_same_bits(row(y.g.dq, y.qs, b, h, i), row(x.g.dq, x.qs, b, h, i), 4);
                for (int j = i; j < x.a.seq_k; j += 6) {
                    assert_same_bits(row(y.g.dk, y.ks, b, h, j), row(x.g.dk, x.ks, b, h, j), 4);
                    assert_same_bits(row(y.g.dv, y.ks, b, h, j), row(x.g.dv, x.ks, b, h, j), 4);
                }
            }
    assert_same_bits(y.g.dw_rel + 16, x.g.dw_rel + 16, 16); /* head 1 */
    release(NULL);
}

static void test_bad_numbers_stay_in_their_rows(void **state) {
    (void)state;
    static const int options[] = {0, CAUSAL, CAUSAL | LENGTHS, FUSED, FUSED | CAUSAL, CROSS | CAUSAL, DENSE | CAUSAL};
    for (int i = 0; i < LENGTH(options); ++i)
        for (int where = 0; where < 3; ++where) {
            check_confined(options[i], where, (double)NAN);
            check_confined(options[i], where, (double)INFINITY);
            check_confined(options[i], where, -(double)INFINITY);
        }
}

static void test_a_query_without_keys_gives_zeros(void **state) {
    (void)state;
    seed_numbers(16);
    problem p = draw(LENGTHS | DENSE | TEMPERATURE | FUSED, 3, 2, 5, 4);
    p.key_lengths[0] = p.key_lengths[2] = 0;
    if (path == DEA_PATH_PLAIN) take_maps(&p);
    run(&p);
    for (int b = 0; b < 3; b += 2)
        for (int h = 0; h < 2; ++h)
            for (int i = 0; i < 5; ++i) {
                assert_true(all_zero(row(p.o, p.os, b, h, i), 4) && all_zero(row(p.g.dq, p.qs, b, h, i), 4));
                assert_true(all_zero(row(p.g.dk, p.ks, b, h, i), 4) && all_zero(row(p.g.dv, p.ks, b, h, i), 4));
            }
    assert_true(all_finite(p.saved, p.saved_count));
    assert_true(all_finite(p.g.dw_rel, p.w_rel_count) && !all_zero(p.g.dw_rel, p.w_rel_count));
    p.key_lengths[1] = 0;
    p.g = take_gradients(&p);
    run(&p);
    assert_true(all_zero(p.o, p.o_count) && all_zero(p.g.dw_rel, p.w_rel_count) && all_zero(p.g.dtemperature, 2));
}

static void test_a_query_with_one_key_copies_its_value(void **state) {
    (void)state;
    seed_numbers(17);
    problem p = draw(LENGTHS | TEMPERATURE, 2, 2, 5, 4);
    p.key_lengths[0] = p.key_lengths[1] = 1;
    run(&p);
    for (int b = 0; b < 2; ++b)
        for (int h = 0; h < 2; ++h)
            for (int i = 0; i < 5; ++i)
                for (int c = 0; c < 4; ++c) assert_near(row(p.o, p.os, b, h, i)[c], row(p.v, p.ks, b, h, 0)[c], 1e-15);
    for (size_t i = 0; i < p.q_span; ++i) assert_near(p.g.dq[i], 0, 1e-9);
    problem one = draw(CAUSAL, 1, 1, 1, 1); /* the smallest problem there is */
    run(&one);
    assert_near(one.o[0], one.v[0], 1e-15);
    assert_near(one.g.dv[0], one.d_o[0], 1e-15);
}

/* exp(t Et) overflows even a double here unless the row's maximum is taken off. */
static void test_scores_may_be_huge(void **state) {
    (void)state;
    seed_numbers(18);
    problem p = draw(TEMPERATURE, 1, 1, 1, 2);
    p.a.seq_k = 8000;
    p.ks = contiguous(1, 8000, 2);
    p.k_span = 16000, p.map_count = 8000;
    p.a.k = p.k = take_gauss(16000, 1e-3), p.a.v = p.v = take_gauss(16000, 1);
    p.k[2 * 4321] = p.q[0], p.k[2 * 4321 + 1] = p.q[1];  /* one key far from all others: Et0 near sqrt(n) = 89 */
    for (int c = 0; c < 4; ++c) p.w_rel[c] = c % 3 == 0; /* identity: and it works like q, too */
    p.temperature[0] = 50;
    p.g = take_gradients(&p);
    size_workspace(&p);
    forward(&p);
    backward(&p);
    assert_near(p.o[0], p.v[2 * 4321], 1e-12);
    assert_near(p.o[1], p.v[2 * 4321 + 1], 1e-12);
    assert_true(all_finite(p.saved, p.saved_count) && all_finite(p.g.dq, 2) && all_finite(p.g.dk, 16000));
    /* The row's own maximum, never the bound: here the bound is 50 sqrt(8000) = 4472, the scores stay near 50 * 4. */
    fill_gauss(p.k, 16000, 1);
    forward(&p);
    assert_true(all_finite(p.o, 2) && !all_zero(p.o, 2));
    compare_with_equations(&p);
}

/* ---- dropout --------------------------------------------------------------------------------------------------------- */
/* With the identity for v, the output is the weights after dropout. */
static problem draw_identity(void) {
    problem p = draw(0, 2, 3, 48, 48);
    for (int b = 0; b < 2; ++b)
        for (int h = 0; h < 3; ++h)
            for (int j = 0; j < 48; ++j)
                for (int c = 0; c < 48; ++c) row(p.v, p.ks, b, h, j)[c] = j == c;
    return p;
}

static size_t agreeing(const unsigned char *x, const unsigned char *y, size_t count) {
    size_t same = 0;
    for (size_t i = 0; i < count; ++i) same += x[i] == y[i];
    return same;
}

static unsigned char *dropout_mask(problem *p, const dea_real *full, double rate) {
    unsigned char *kept = take(p->o_count);
    dea_real *dropped = take_reals(p->o_count);
    assert_ok(dea_forward(&p->a, dropped, p->saved, p->workspace, p->bytes));
    for (size_t i = 0; i < p->o_count; ++i) {
        kept[i] = dropped[i] != 0;
        if (kept[i]) assert_near(dropped[i], full[i] / (1 - rate), 1e-12);
    }
    return kept;
}

static void test_dropout(void **state) {
    (void)state;
    static const double rates[] = {0.1, 0.5, 0.9};
    seed_numbers(19);
    problem p = draw_identity();
    size_t n = p.o_count, plane = 48 * 48;
    forward(&p);
    for (int i = 0; i < LENGTH(rates); ++i) {
        double rate = rates[i], share = rate * rate + (1 - rate) * (1 - rate); /* of cells where two masks agree */
        double wide = 4 * sqrt(share * (1 - share) / (double)plane);
        p.a.dropout = rate, p.a.seed = 5, p.a.step = 9;
        unsigned char *kept = dropout_mask(&p, p.o, rate);
        size_t total = 0, half = 0;
        for (size_t c = 0; c < n; ++c) total += kept[c];
        assert_near((double)total / (double)n, 1 - rate, 4 * sqrt(rate * (1 - rate) / (double)n));
        assert_memory_equal(kept, dropout_mask(&p, p.o, rate), n);
        for (int b = 1; b < 6; ++b) /* every batch row and head has a mask of its own */
            assert_near((double)agreeing(kept, kept + (size_t)b * plane, plane) / (double)plane, share, wide);
        for (int r = 1; r < 288; ++r)
            half += agreeing(kept + 48 * (r - 1), kept + 48 * r, 48); /* and so has every query */
        assert_near((double)half / (287 * 48.0), share, wide);
        p.a.step = 10;
        assert_near((double)agreeing(kept, dropout_mask(&p, p.o, rate), plane) / (double)plane, share, wide);
        p.a.step = 9, p.a.seed = 6;
        assert_near((double)agreeing(kept, dropout_mask(&p, p.o, rate), plane) / (double)plane, share, wide);
        p.a.seed = 5 + (UINT64_C(1) << 40), p.a.step = 9; /* all 64 bits count */
        assert_near((double)agreeing(kept, dropout_mask(&p, p.o, rate), plane) / (double)plane, share, wide);
        p.a.seed = 5, p.a.step = 9 + (UINT64_C(1) << 40);
        assert_near((double)agreeing(kept, dropout_mask(&p, p.o, rate), plane) / (double)plane, share, wide);
    }
}

/* backward drops the very cells forward dropped: dv_j = sum_i weights_ij d_o_i. */
static void test_dropout_is_the_same_in_backward(void **state) {
    (void)state;
    seed_numbers(20);
    problem p = draw_identity();
    p.a.dropout = 0.4, p.a.seed = 1, p.a.step = 2;
    forward(&p);
    backward(&p);
    dea_real *dv = take_zeros(p.k_span);
    for (int b = 0; b < 2; ++b)
        for (int h = 0; h < 3; ++h)
            for (int i = 0; i < 48; ++i)
                for (int j = 0; j < 48; ++j)
                    for (int c = 0; c < 48; ++c)
                        row(dv, p.ks, b, h, j)[c] += row(p.o, p.os, b, h, i)[j] * row(p.d_o, p.os, b, h, i)[c];
    assert_close(p.g.dv, dv, p.k_span, 1e-12);
}

/* The mask is a function of the cell alone: a batch row, or a mask of keys, does not shift anybody's. */
static void test_dropout_does_not_depend_on_other_options(void **state) {
    (void)state;
    seed_numbers(21);
    problem p = draw_identity();
    p.a.dropout = 0.5, p.a.seed = 3, p.a.step = 4;
    forward(&p);
    dea_real *o = take_copy(p.o, p.o_count);
    p.a.causal = 1;
    forward(&p);
    for (size_t r = 0; r < 6; ++r)
        for (size_t i = 0; i < 48; ++i)
            for (size_t j = 0; j <= i; ++j)
                assert_int_equal(p.o[(r * 48 + i) * 48 + j] != 0, o[(r * 48 + i) * 48 + j] != 0);
    p.a.causal = 0, p.a.batch = 1;
    forward(&p);
    assert_same_bits(p.o, o, p.o_count / 2);
}

/* ---------------------------------------------------------------------------------------------------------------------- */

#define TEST(name) cmocka_unit_test_teardown(name, release)

static int run_path(const char *name, dea_path which) {
    static const struct CMUnitTest tests[] = {
        TEST(test_equations_under_every_pair_of_options),
        TEST(test_equations_on_random_shapes),
        TEST(test_saved_numbers),
        TEST(test_gradients_under_every_pair_of_options),
        TEST(test_gradients_with_everything_on),
        TEST(test_gradient_where_all_keys_are_equal),
        TEST(test_gradients_accumulate),
        TEST(test_blocks_are_dense_labels),
        TEST(test_strided_is_contiguous),
        TEST(test_strides_leave_the_gaps_alone),
        TEST(test_causal_is_a_length_for_each_row),
        TEST(test_thread_count_changes_no_bit),
        TEST(test_optional_outputs_change_no_bit),
        TEST(test_padding_is_never_read),
        TEST(test_bad_numbers_stay_in_their_rows),
        TEST(test_a_query_without_keys_gives_zeros),
        TEST(test_a_query_with_one_key_copies_its_value),
        TEST(test_scores_may_be_huge),
        TEST(test_dropout),
        TEST(test_dropout_is_the_same_in_backward),
        TEST(test_dropout_does_not_depend_on_other_options),
    };
    path = which;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void) {
    return run_paths(run_path);
}

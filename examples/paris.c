/* The Paris demo: how the gate learns when "looks like" should rule and when "works like" should.
 *
 * Ten labelled pairs, each a query word and its target, beside a distractor that only looks like the query and the targets of
 * three other pairs. A tiny DEA head
 * reads their vectors, the oracle says how relational each pair is (alpha), and AdamW fits the gate until alpha-hat agrees.
 * Then the photo-finish of Paris: its target France against a look-alike, and the alpha at which the winner flips.
 * Needs nothing but dea.h. Exit code 0 and a last line PASS, or 1 and FAIL; see --help. */
#define DEA_IMPLEMENTATION
#define DEA_NO_BLAS
#include "dea.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 10, DIM = 16, KEYS = 5, TARGET = 0, DISTRACTOR = 1, STEPS = 600, PARIS = 7, WIDTH = 61, HEIGHT = 15 };

static const char help[] = "usage: paris\n"
                           "\n"
                           "Fits the gate of a tiny head on ten labelled pairs, shows alpha beside alpha-hat, and the "
                           "photo-finish of Paris. The last\n"
                           "line is PASS or FAIL.\n"
                           "\n"
                           "  -h, --help   -V, --version\n"
                           "\n"
                           "Exit codes: 0 PASS, 1 FAIL or output that cannot be written, 2 wrong usage.\n";

typedef struct pair {
    const char *query, *target, *distractor, *relation;
    double phi, sim; /* what a language model would say: entailment logit, cosine of embeddings (5) */
} pair;

static const pair pairs[PAIRS] = {
    {"dog", "dogs", "log", "inflection", -3.4, 0.95},       {"car", "automobile", "cat", "synonym", -3.0, 0.97},
    {"run", "running", "sun", "inflection", -3.2, 0.93},    {"car", "road", "cart", "association", -1.2, 0.55},
    {"doctor", "nurse", "door", "association", -1.1, 0.60}, {"king", "queen", "ring", "counterpart", 1.6, 0.70},
    {"car", "wheel", "care", "part of", 2.0, 0.50},         {"Paris", "France", "Parish", "capital of", 2.33, 0.45},
    {"Tokyo", "Japan", "Kyoto", "capital of", 2.3, 0.45},   {"5+3", "8", "5+2", "sum", 2.8, 0.20},
};

/* The model: one head. Each pair is a batch row with one query and a few keys. */
typedef struct model {
    float q[PAIRS][DIM], k[PAIRS][KEYS][DIM], v[PAIRS][KEYS][DIM];
    float w_rel[DIM][DIM];
    float *w_gate, *c_gate; /* in the parameter arena */
    dea_attention attention;
    dea_label_block labels[PAIRS];
    float o[PAIRS][DIM], saved[PAIRS * DEA_SAVED_FLOATS];
    float et0[PAIRS][KEYS], et1[PAIRS][KEYS], alpha_hat[PAIRS][KEYS];
    void *workspace;
    size_t bytes;
} model;

/* A word's vector: letter pairs, so that words spelled alike lie close, as embeddings of look-alikes do. */
static void spell(const char *word, float *vector) {
    memset(vector, 0, DIM * sizeof *vector);
    for (const char *c = word; *c; c++) {
        unsigned mixed = (unsigned)(unsigned char)c[0] * 31u + (unsigned)(unsigned char)c[1];
        mixed = (mixed ^ (mixed >> 7)) * 2654435761u;
        vector[(mixed >> 8) % DIM] += (mixed >> 20) & 1u ? 0.8f : -0.8f;
    }
}

/* Keys: the distractor's is spelled like the query; the target's is what W_rel makes of the query, plus its own spelling. How
 * much of it is relation grows with alpha, which is what the gate can find in q, k and the two energies. */
static void set_words(model *m) {
    dea_fill_orthogonal(&m->w_rel[0][0], DIM, 7);
    for (int p = 0; p < PAIRS; p++) {
        const float alpha = (float)dea_oracle_alpha(pairs[p].phi, pairs[p].sim);
        float own[DIM];
        spell(pairs[p].query, m->q[p]);
        spell(pairs[p].target, own);
        spell(pairs[p].distractor, m->k[p][DISTRACTOR]);
        for (int other = DISTRACTOR + 1; other < KEYS; other++)
            spell(pairs[(p + 2 * other) % PAIRS].target, m->k[p][other]);
        for (int i = 0; i < DIM; i++) {
            float related = 0;
            for (int j = 0; j < DIM; j++) related += m->w_rel[i][j] * m->q[p][j];
            m->k[p][TARGET][i] = alpha * related + (1 - alpha) * m->q[p][i] * 0.5f + 0.5f * own[i];
        }
        memcpy(m->v[p], m->k[p], sizeof m->v[p]);
        m->labels[p].batch = p;
        m->labels[p].q_begin = 0, m->labels[p].q_end = 1;
        m->labels[p].k_begin = TARGET, m->labels[p].k_end = TARGET + 1;
        m->labels[p].alpha = alpha;
    }
}

static int check(dea_status status) {
    if (status != DEA_OK) fprintf(stderr, "paris: %s\n", dea_status_string(status));
    return status == DEA_OK;
}

static int set_attention(model *m, const dea_gate *gate) {
    dea_attention a = dea_attention_init(PAIRS, 1, 1, DIM);
    a.seq_k = KEYS;
    a.q = &m->q[0][0], a.k = &m->k[0][0][0], a.v = &m->v[0][0][0];
    a.w_rel = &m->w_rel[0][0], a.w_gate = m->w_gate, a.c_gate = m->c_gate;
    a.label_blocks = m->labels;
    a.label_block_count = PAIRS;
    a.maps.et0 = &m->et0[0][0], a.maps.et1 = &m->et1[0][0], a.maps.alpha_hat = &m->alpha_hat[0][0];
    m->attention = a;
    const size_t sizes[3] = {dea_forward_workspace(&a), dea_gate_loss_workspace(&a, gate),
                             dea_verify_isolation_workspace(&a, gate)};
    for (int i = 0; i < 3; i++)
        if (sizes[i] > m->bytes) m->bytes = sizes[i];
    m->workspace = aligned_alloc(DEA_ALIGNMENT, (m->bytes + DEA_ALIGNMENT - 1) / DEA_ALIGNMENT * DEA_ALIGNMENT);
    return m->workspace != NULL;
}

static int forward(model *m) {
    return check(dea_forward(&m->attention, &m->o[0][0], m->saved, m->workspace, m->bytes));
}

/* Fits w_gate and c to the labels. q, k and W_rel stay as they are: the gate loss never reaches them. */
static int fit(model *m, const dea_gate *gate, const dea_table *table, float *params) {
    enum { SIZE = 128 };
    static float grads[SIZE], first[SIZE], second[SIZE];
    dea_adamw optimiser = dea_adamw_init();
    optimiser.lr[DEA_GROUP_GATE] = 0.03; /* ten pairs, six hundred steps: a faster rate than a real model's 1e-3 */
    optimiser.weight_decay = 0;
    if (table->elements > SIZE) return 0;
    for (int step = 1; step <= STEPS; step++) {
        dea_gradients g;
        dea_gate_result loss;
        memset(&g, 0, sizeof g);
        memset(grads, 0, sizeof grads);
        g.dw_gate = grads + (m->w_gate - params);
        g.dc_gate = grads + (m->c_gate - params);
        if (!forward(m) || !check(dea_gate_loss(&m->attention, gate, m->saved, &g, &loss, m->workspace, m->bytes)) ||
            !check(dea_adamw_step(&optimiser, table, params, grads, first, second, step, 1, NULL)))
            return 0;
        if (step == 1 || step % 100 == 0)
            printf("  step %3d   gate loss %.4f = dense %.4f + photo-finish %.4f over %lld pairs\n", step, loss.loss,
                   loss.dense, loss.photo, (long long)loss.valid);
    }
    return forward(m);
}

static void print_table(const model *m) {
    printf("\n  %-8s %-11s %-12s %-15s %6s %10s   %s\n", "query", "target", "look-alike", "band", "alpha", "alpha-hat",
           "relation");
    for (int p = 0; p < PAIRS; p++)
        printf("  %-8s %-11s %-12s %-15s %6.3f %10.3f   %s\n", pairs[p].query, pairs[p].target, pairs[p].distractor,
               dea_band_name(dea_band_of((double)m->labels[p].alpha)), (double)m->labels[p].alpha,
               (double)m->alpha_hat[p][TARGET], pairs[p].relation);
}

/* Height of a score on the plot, row 0 on top. */
static int plot_row(double score, double low, double high) {
    return (int)((high - score) / (high - low) * (HEIGHT - 1) + 0.5);
}

/* The two straight lines S*(alpha) of (4): T the target, L the look-alike; + marks beta, * alpha-hat, ^ alpha. */
static int photo_finish(const model *m, int p) {
    char canvas[HEIGHT][WIDTH + 1];
    const double t0 = (double)m->et0[p][TARGET], t1 = (double)m->et1[p][TARGET];
    const double d0 = (double)m->et0[p][DISTRACTOR], d1 = (double)m->et1[p][DISTRACTOR];
    const double alpha = (double)m->labels[p].alpha, hat = (double)m->alpha_hat[p][TARGET];
    double beta;
    const double ends[4] = {t0, t1, d0, d1};
    double low = ends[0], high = ends[0];
    for (int i = 1; i < 4; i++) {
        if (ends[i] < low) low = ends[i];
        if (ends[i] > high) high = ends[i];
    }
    printf("\n  Photo-finish of %s: %s (T) against %s (L), score S*(alpha) over alpha\n\n", pairs[p].query,
           pairs[p].target, pairs[p].distractor);
    if (!dea_beta(t0, t1, d0, d1, &beta)) {
        printf("  no finish: one of the two wins at every alpha\n");
        return 0;
    }
    for (int y = 0; y < HEIGHT; y++) {
        memset(canvas[y], ' ', WIDTH);
        canvas[y][WIDTH] = '\0';
        canvas[y][(int)(beta * (WIDTH - 1) + 0.5)] = '|';
    }
    for (int x = 0; x < WIDTH; x++) {
        const double at = (double)x / (WIDTH - 1);
        canvas[plot_row((1 - at) * d0 + at * d1, low, high)][x] = 'L';
        canvas[plot_row((1 - at) * t0 + at * t1, low, high)][x] = 'T';
    }
    for (int y = 0; y < HEIGHT; y++) printf("  %6.2f %s\n", high - (high - low) * y / (HEIGHT - 1), canvas[y]);
    char axis[WIDTH + 1];
    memset(axis, '-', WIDTH);
    axis[WIDTH] = '\0';
    axis[(int)(beta * (WIDTH - 1) + 0.5)] = '+';
    axis[(int)(hat * (WIDTH - 1) + 0.5)] = '*';
    /* A line of its own: where the gate is right, alpha-hat lies on alpha. */
    printf("         %s\n         %*s\n", axis, (int)(alpha * (WIDTH - 1) + 0.5) + 1, "^");
    printf("         alpha = 0 (looks like)%*s\n", WIDTH - 22, "(works like) 1 = alpha");
    printf("\n  beta + %.3f   oracle alpha ^ %.3f   alpha-hat * %.3f\n", beta, alpha, hat);
    const int right = t1 > d1; /* the target's side of the finish */
    const int won = right ? hat > beta : hat < beta;
    printf("  the target wins %s beta; alpha-hat lies %s it: %s wins\n", right ? "above" : "below",
           hat > beta ? "above" : "below", won ? pairs[p].target : pairs[p].distractor);
    return won;
}

static int isolated(model *m, const dea_gate *gate) {
    float d_o[PAIRS * DIM];
    dea_isolation report;
    dea_fill_normal(d_o, PAIRS * DIM, 1, 3);
    const dea_status status = dea_verify_isolation(&m->attention, gate, d_o, &report, m->workspace, m->bytes);
    if (status == DEA_ERR_ISOLATION)
        printf("\n  isolation: FAILED, %s: %s, head %d, element %zu: %g apart, %g together\n", report.what,
               report.tensor, report.head, report.index, report.apart, report.together);
    else if (check(status))
        printf("\n  isolation: every gradient the same bit for bit, losses apart and together\n");
    return status == DEA_OK;
}

/* 1 and a message if anything printed was lost, else `code`. */
static int finish(int code) {
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout)) return code;
    fprintf(stderr, "paris: standard output: %s\n", errno ? strerror(errno) : "an earlier write failed");
    return 1;
}

static int run(void) {
    static model m;
    static float params[128];
    dea_tensor tensors[2];
    dea_table table = dea_table_init(tensors, 2);
    const int gate_shape[2] = {1, 2 * DIM + 2}, c_shape[1] = {1};
    size_t w_gate = 0, c_gate = 0;
    int ok = check(dea_table_add(&table, "", "w_gate", 2, gate_shape, DEA_GROUP_GATE, 1, &w_gate)) &&
             check(dea_table_add(&table, "", "c_gate", 1, c_shape, DEA_GROUP_GATE, 0, &c_gate));
    m.w_gate = params + w_gate;
    m.c_gate = params + c_gate;
    dea_fill_xavier(m.w_gate, 2 * DIM + 2, 2 * DIM + 2, 1, 42);
    m.c_gate[0] = -0.5f;
    set_words(&m);

    dea_gate gate = dea_gate_init();
    gate.projected = 1; /* an alpha-hat that overshot to 0.95 finds its way back */
    printf("dea.h %s, Paris demo: fitting the gate on %d labelled pairs\n\n", DEA_VERSION, PAIRS);
    ok = ok && set_attention(&m, &gate) && fit(&m, &gate, &table, params);
    if (ok) {
        print_table(&m);
        const int won = photo_finish(&m, PARIS);
        const double error = (double)m.alpha_hat[PARIS][TARGET] - 0.9;
        const int close = error > -0.05 && error < 0.05;
        printf("  alpha-hat of Paris -> France: %.3f, %s 0.05 of 0.9\n", (double)m.alpha_hat[PARIS][TARGET],
               close ? "within" : "NOT within");
        ok = isolated(&m, &gate) && won && close;
    }
    free(m.workspace);
    printf("%s\n", ok ? "PASS" : "FAIL");
    return ok ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 1) return finish(run());
    const int wants_help = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
    const int wants_version = argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"));
    if (argc == 2 && wants_help) {
        fputs(help, stdout);
        return finish(0);
    }
    if (argc == 2 && wants_version) {
        puts("paris " DEA_VERSION);
        return finish(0);
    }
    const char *wrong = argv[wants_help || wants_version ? 2 : 1];
    fprintf(stderr,
            *wrong == '-' ? "paris: unknown option %s; see paris --help\n"
                          : "paris: unexpected argument \"%s\"; see paris --help\n",
            wrong);
    return 2;
}

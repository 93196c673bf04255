/* How fast dea.h is on this machine: every figure beside the peak of fused multiply-adds measured next to it, and only after
 * the result has matched the plain path. A pass is timed several times and the fastest counts: other programs on the machine
 * can only slow it down. See --help. */
#define _POSIX_C_SOURCE 200809L
static int products_only; /* skip what lies between the products */
#define DEA__PRODUCTS_ONLY products_only
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "../dea.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "text/safe_file.h"
#include "text/standard.h"
#include "visualize/gnuplot.h"

char *openblas_get_corename(void);
void openblas_set_num_threads(int);

/* Wall time; or with one thread the time this thread had the processor, which other programs disturb less. */
static int wall;
static double now(void) {
    struct timespec t;
    clock_gettime(wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocate(size_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, DEA_ALIGNMENT, bytes ? bytes : 1)) {
        fprintf(stderr, "bench: out of memory (%zu bytes)\n", bytes);
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

static float *reals(size_t count) { return (float *)allocate(count * sizeof(float)); }

static uint64_t drawn;
static float *gauss(size_t count, double scale) {
    float *x = reals(count);
    for (size_t i = 0; i < count; i++) x[i] = (float)(scale * dea__normal(42, drawn++));
    return x;
}

/* ---- the peak: ten independent chains of multiply-adds; the empty asm keeps the compiler from merging them */
#if DEA__X86
__attribute__((target("avx512f"), optimize("unroll-loops"))) static double peak_avx512(long n) {
    typedef float v __attribute__((vector_size(64)));
    const v x = {0.999f, 0.999f, 0.999f, 0.999f}, y = {0.001f};
    v c0 = y, c1 = y, c2 = y, c3 = y, c4 = y, c5 = y, c6 = y, c7 = y, c8 = y, c9 = y;
    const double t = now();
#    define STEP(c)                                                                                                           \
        c = (v)_mm512_fmadd_ps((__m512)c, (__m512)x, (__m512)y);                                                              \
        __asm__ volatile("" : "+v"(c));
    for (long k = 0; k < n; k++) { STEP(c0) STEP(c1) STEP(c2) STEP(c3) STEP(c4) STEP(c5) STEP(c6) STEP(c7) STEP(c8) STEP(c9) }
#    undef STEP
    return (double)n * 320 / (now() - t) / 1e9;
}
__attribute__((target("avx2,fma"))) static double peak_avx2(long n) {
    typedef float v __attribute__((vector_size(32)));
    const v x = {0.999f, 0.999f, 0.999f, 0.999f}, y = {0.001f};
    v c0 = y, c1 = y, c2 = y, c3 = y, c4 = y, c5 = y, c6 = y, c7 = y, c8 = y, c9 = y;
    const double t = now();
#    define STEP(c)                                                                                                           \
        c = (v)_mm256_fmadd_ps((__m256)c, (__m256)x, (__m256)y);                                                              \
        __asm__ volatile("" : "+v"(c));
    for (long k = 0; k < n; k++) { STEP(c0) STEP(c1) STEP(c2) STEP(c3) STEP(c4) STEP(c5) STEP(c6) STEP(c7) STEP(c8) STEP(c9) }
#    undef STEP
    return (double)n * 160 / (now() - t) / 1e9;
}
#endif
/* A multiplication and an addition in the baseline: four lanes, no fused instruction taken for granted. */
static double peak_baseline(long n) {
    typedef float v __attribute__((vector_size(16)));
    const v x = {0.999f, 0.999f, 0.999f, 0.999f}, y = {0.001f, 0.001f, 0.001f, 0.001f};
    v c0 = y, c1 = y, c2 = y, c3 = y, c4 = y, c5 = y, c6 = y, c7 = y, c8 = y, c9 = y;
    const double t = now();
#define STEP(c)                                                                                                               \
    c = c * x + y;                                                                                                            \
    __asm__ volatile("" : "+x"(c));
#if DEA__X86
    for (long k = 0; k < n; k++) { STEP(c0) STEP(c1) STEP(c2) STEP(c3) STEP(c4) STEP(c5) STEP(c6) STEP(c7) STEP(c8) STEP(c9) }
#else
    for (long k = 0; k < n; k++) c0 = c0 * x + y, c1 = c1 * x + y, c2 = c2 * x + y, c3 = c3 * x + y;
    if (c0[0] + c1[0] + c2[0] + c3[0] + c4[0] + c5[0] + c6[0] + c7[0] + c8[0] + c9[0] == 12345) puts("");
#endif
#undef STEP
    return (double)n * 80 / (now() - t) / 1e9;
}
static double peak(dea_isa isa) {
    double best = 0;
    for (int i = 0; i < 3; i++) {
#if DEA__X86
        const double p = isa == DEA_ISA_AVX512 ? peak_avx512(20000) : isa == DEA_ISA_AVX2 ? peak_avx2(20000) : peak_baseline(20000);
#else
        const double p = peak_baseline(20000);
#endif
        if (p > best) best = p;
    }
    return best;
}

/* ---- options and rows */
static int quick, only_head_dim, only_seq;
static double budget = 1.2; /* seconds a figure */
static dea_isa isa;
static const char *isa_name;
static cJSON *rows;

/* formula: the bytes that README's formula gives without the tiles, 0 for none */
static void report(const char *name, int threads, int seq, int head_dim, const char *pass, double seconds, double flop,
                   double best_peak, size_t bytes, size_t formula) {
    const double gflops = flop / seconds / 1e9, fraction = gflops / best_peak / threads;
    printf("%-22s %2d  %6d %4d  %-17s %11.1f %8.1f %6.1f%% %12zu %12zu\n", name, threads, seq, head_dim, pass, seconds * 1e6,
           gflops, fraction * 100, bytes, formula);
    fflush(stdout);
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", name);
    cJSON_AddStringToObject(row, "isa", isa_name);
    cJSON_AddNumberToObject(row, "threads", threads);
    cJSON_AddNumberToObject(row, "T", seq);
    cJSON_AddNumberToObject(row, "head_dim", head_dim);
    cJSON_AddStringToObject(row, "pass", pass);
    cJSON_AddNumberToObject(row, "us_per_head", seconds * 1e6);
    cJSON_AddNumberToObject(row, "gflops", gflops);
    cJSON_AddNumberToObject(row, "fraction_of_peak", fraction);
    cJSON_AddNumberToObject(row, "workspace_bytes", (double)bytes);
    cJSON_AddItemToArray(rows, row);
}

/* ---- workers that wait awake, so that a pass of a millisecond is not measured together with the start of a thread */
static struct {
    pthread_t threads[64];
    int count; /* with the caller */
    atomic_int pass, left, over;
    dea_task *task;
    void *context;
} crew;

static void *crew_member(void *argument) {
    const int id = (int)(intptr_t)argument;
    for (int seen = 0;; seen++) {
        while (atomic_load(&crew.pass) == seen) {}
        if (atomic_load(&crew.over)) return NULL;
        crew.task(crew.context, id);
        atomic_fetch_sub(&crew.left, 1);
    }
}
static void crew_run(void *user, int count, dea_task *task, void *context) {
    (void)user;
    if (count < crew.count) { /* too few jobs for all: one after the other */
        for (int i = 0; i < count; i++) task(context, i);
        return;
    }
    crew.task = task, crew.context = context;
    atomic_store(&crew.left, count - 1);
    atomic_fetch_add(&crew.pass, 1);
    task(context, 0);
    while (atomic_load(&crew.left)) {}
}
static void crew_start(int count) {
    crew.count = count;
    atomic_store(&crew.pass, 0), atomic_store(&crew.over, 0);
    for (int i = 1; i < count; i++)
        if (pthread_create(&crew.threads[i], NULL, crew_member, (void *)(intptr_t)i)) fprintf(stderr, "bench: no thread\n"), exit(1);
}
static void crew_stop(void) {
    atomic_store(&crew.over, 1);
    atomic_fetch_add(&crew.pass, 1);
    for (int i = 1; i < crew.count; i++) pthread_join(crew.threads[i], NULL);
}

typedef struct problem {
    dea_attention a;
    float *o, *saved, *d_o;
    dea_gradients g;
    void *workspace;
    size_t bytes, forward_bytes, backward_bytes;
    dea_gate gate;
    int heads;
} problem;

static problem draw(int heads, int seq, int d, int threads) {
    problem p;
    memset(&p, 0, sizeof p);
    p.heads = heads;
    p.a = dea_attention_init(1, heads, seq, d);
    const size_t n = (size_t)heads * (size_t)seq * (size_t)d, w = (size_t)heads * (size_t)d * (size_t)d;
    p.a.q = gauss(n, 1), p.a.k = gauss(n, 1), p.a.v = gauss(n, 1), p.a.w_rel = gauss(w, 1 / sqrt(d));
    p.a.w_gate = gauss((size_t)heads * (size_t)(2 * d + 2), sqrt(2.0 / (2 * d + 3))), p.a.c_gate = gauss((size_t)heads, 0.1);
    p.a.isa = isa;
    p.a.threads.count = threads, p.a.threads.run = threads > 1 ? crew_run : NULL;
    p.d_o = gauss(n, 1), p.o = reals(n), p.saved = reals(dea_saved_count(&p.a));
    p.g.dq = reals(n), p.g.dk = reals(n), p.g.dv = reals(n), p.g.dw_rel = reals(w);
    p.g.dw_gate = reals((size_t)heads * (size_t)(2 * d + 2)), p.g.dc_gate = reals((size_t)heads);
    p.gate = dea_gate_init();
    return p;
}

static void size_workspace(problem *p) {
    free(p->workspace);
    p->forward_bytes = dea_forward_workspace(&p->a), p->backward_bytes = dea_backward_workspace(&p->a);
    p->bytes = p->forward_bytes > p->backward_bytes ? p->forward_bytes : p->backward_bytes;
    if (p->a.label_block_count) {
        const size_t gate = dea_gate_loss_workspace(&p->a, &p->gate);
        if (gate > p->bytes) p->bytes = gate;
    }
    if (!p->bytes) fprintf(stderr, "bench: this instruction set is not there\n"), exit(1);
    p->workspace = allocate(p->bytes);
}

static void drop(problem *p) {
    const void *all[] = {p->a.q, p->a.k, p->a.v, p->a.w_rel, p->a.w_gate, p->a.c_gate, p->d_o, p->o, p->saved, p->g.dq, p->g.dk,
                         p->g.dv, p->g.dw_rel, p->g.dw_gate, p->g.dc_gate, p->workspace};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free((void *)(uintptr_t)all[i]);
}

static void must(dea_status status) {
    if (status != DEA_OK) fprintf(stderr, "bench: %s\n", dea_status_string(status)), exit(1);
}
static void forward(problem *p) { must(dea_forward(&p->a, p->o, p->saved, p->workspace, p->bytes)); }
static void backward(problem *p) { must(dea_backward(&p->a, p->o, p->saved, p->d_o, &p->g, p->workspace, p->bytes)); }
static void gate_loss(problem *p) {
    dea_gate_result r;
    must(dea_gate_loss(&p->a, &p->gate, p->saved, &p->g, &r, p->workspace, p->bytes));
}

/* The first 16 queries of head 0 on the plain path must agree: o and dq of a row do not depend on other rows. */
static void check(const problem *p) {
    problem s = *p;
    const int d = p->a.head_dim, count = p->a.seq_q < 16 ? p->a.seq_q : 16;
    const size_t n = (size_t)count * (size_t)d;
    s.a.heads = 1, s.a.seq_q = count, s.a.path = DEA_PATH_PLAIN, s.a.isa = DEA_ISA_AUTO, s.a.threads.count = 1;
    s.a.label_blocks = NULL, s.a.label_block_count = 0, s.a.gamma = 0;
    s.o = reals(n), s.saved = reals(4 * (size_t)count), s.workspace = NULL;
    memset(&s.g, 0, sizeof s.g);
    s.g.dq = reals(n);
    size_workspace(&s);
    forward(&s);
    backward(&s);
    double error = 0, scale = 0;
    for (size_t i = 0; i < n; i++) {
        error = fmax(error, fabs((double)s.o[i] - (double)p->o[i])), scale = fmax(scale, fabs((double)s.o[i]));
        const double e = fabs((double)s.g.dq[i] - (double)p->g.dq[i]);
        if (!(e < 1e-3 * 10)) error = INFINITY;
    }
    if (!(error <= 1e-3 * scale)) fprintf(stderr, "bench: wrong result at T %d, head_dim %d\n", p->a.seq_k, d), exit(1);
    free(s.o), free(s.saved), free(s.g.dq), free(s.workspace);
}

/* Fastest of as many runs as fit the budget, at least three; the best peak seen around them in *best_peak. */
static double fastest(problem *p, void (*run)(problem *), double *best_peak) {
    double best = 1e30, spent = 0;
    run(p);
    for (int i = 0; i < 3 || spent < budget; i++) {
        const double pk = peak(isa), t = now();
        run(p);
        const double e = now() - t;
        spent += e;
        if (e < best) best = e;
        if (pk > *best_peak) *best_peak = pk;
    }
    return best / p->heads;
}

static void attention(const char *name, int heads, int seq, int d, int threads, int causal, int labelled) {
    problem p = draw(heads, seq, d, threads);
    dea_label_block block = {0, 0, (int)(seq * 0.3163), 0, (int)(seq * 0.3163), 0.9f}; /* a tenth of the cells */
    int *targets = (int *)allocate((size_t)seq * sizeof(int));
    if (labelled) {
        p.a.label_blocks = &block, p.a.label_block_count = 1, p.a.gamma = 0.5f;
        for (int i = 0; i < seq; i++) targets[i] = i < block.q_end ? i : -1;
        p.gate.targets = targets;
    }
    p.a.causal = causal;
    size_workspace(&p);
    if (threads > 1) crew_start(threads);
    forward(&p);
    backward(&p);
    if (!causal && !labelled) check(&p);
    const double t = seq, cells = causal ? t * (t + 1) / 2 : t * t, dd = d;
    double pk = 0;
    wall = threads > 1;
    const double f = fastest(&p, forward, &pk), b = fastest(&p, backward, &pk);
    dea__fast cut;
    dea__cut(&cut, &p.a, DEA__BACKWARD);
    const size_t panel = (size_t)seq * (size_t)d * sizeof(dea_real), workers = (size_t)threads;
    const size_t formula_f = 3 * panel * workers, formula_b = (6 * workers + 2 * (size_t)heads * (size_t)(cut.splits - 1)) * panel;
    const double ff = 6 * cells * dd + 2 * t * dd * dd, fb = 16 * cells * dd + 6 * t * dd * dd;
    report(name, threads, seq, d, "forward", f, ff, pk, p.forward_bytes, formula_f);
    report(name, threads, seq, d, "backward", b, fb, pk, p.backward_bytes, formula_b);
    double g = 0;
    if (labelled) {
        g = fastest(&p, gate_loss, &pk);
        report(name, threads, seq, d, "gate loss", g, 4 * cells * dd, pk, dea_gate_loss_workspace(&p.a, &p.gate), 0);
    }
    report(name, threads, seq, d, labelled ? "training step" : "forward+backward", f + b + g, ff + fb, pk, p.bytes, formula_b);
    if (threads > 1) crew_stop();
    if (threads == 1 && !causal && !labelled) {
        products_only = 1;
        const double pf = fastest(&p, forward, &pk), pb = fastest(&p, backward, &pk);
        products_only = 0;
        report("products only", 1, seq, d, "forward", pf, ff, pk, p.forward_bytes, formula_f);
        report("products only", 1, seq, d, "forward+backward", pf + pb, ff + fb, pk, p.bytes, formula_b);
    }
    free(targets);
    drop(&p);
    wall = 0;
}

static void plain(int heads, int seq, int d) {
    problem p = draw(heads, seq, d, 1);
    p.a.path = DEA_PATH_PLAIN, p.a.isa = DEA_ISA_AUTO;
    size_workspace(&p);
    double pk = 0;
    const double t = seq, dd = d, f = fastest(&p, forward, &pk), b = fastest(&p, backward, &pk);
    report("plain path", 1, seq, d, "forward", f, 6 * t * t * dd + 2 * t * dd * dd, pk, p.forward_bytes, 0);
    report("plain path", 1, seq, d, "backward", b, 16 * t * t * dd + 6 * t * dd * dd, pk, p.backward_bytes, 0);
    drop(&p);
}

/* The packed product, and beside it whatever dea.h was built with (OpenBLAS). */
static void products(int n, int transpose_b) {
    const size_t count = (size_t)n * (size_t)n;
    float *a = gauss(count, 1), *b = gauss(count, 1), *c = reals(count), *e = reals(count);
    const dea__isa_table set = dea__select(isa);
    const char *name = transpose_b ? "product, b transposed" : "product";
    double ours = 1e30, blas = 1e30, pk = 0, spent = 0;
    for (int i = 0; i < 3 || spent < budget; i++) {
        pk = fmax(pk, peak(isa));
        double t = now();
        set.gemm(0, transpose_b, n, n, n, 1, a, n, b, n, 0, c, n);
        ours = fmin(ours, now() - t), spent += now() - t, t = now();
        dea__blas_gemm(0, transpose_b, n, n, n, 1, a, n, b, n, 0, e, n, NULL);
        blas = fmin(blas, now() - t);
    }
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)c[i] - (double)e[i]) < 1e-3 * sqrt(n))) fprintf(stderr, "bench: wrong product\n"), exit(1);
    report(name, 1, n, n, "packed", ours, 2.0 * n * n * n, pk, 0, 0);
    report(name, 1, n, n, "cblas", blas, 2.0 * n * n * n, pk, 0, 0);
    free(a), free(b), free(c), free(e);
}

/* The linear part of so many tokens, and what the BLAS takes for the product inside: y = x w^T + b; dx, dw, db. */
static void linear(int tokens, int width) {
    const size_t n = (size_t)tokens * (size_t)width, w2 = (size_t)width * (size_t)width;
    float *x = gauss(n, 1), *w = gauss(w2, 1 / sqrt(width)), *bias = gauss((size_t)width, 1), *y = reals(n), *e = reals(n), *dx = reals(n),
          *dw = reals(w2), *db = reals((size_t)width);
    double f = 1e30, b = 1e30, blas = 1e30, pk = 0, spent = 0;
    for (int i = 0; i < 3 || spent < budget; i++) {
        pk = fmax(pk, peak(isa));
        double t = now();
        must(dea_linear_forward(x, w, bias, y, tokens, width, width, NULL));
        f = fmin(f, now() - t), spent += now() - t, t = now();
        must(dea_linear_backward(x, w, y, dx, dw, db, tokens, width, width, NULL));
        b = fmin(b, now() - t), spent += now() - t, t = now();
        dea__blas_gemm(0, 1, tokens, width, width, 1, x, width, w, width, 0, e, width, NULL);
        blas = fmin(blas, now() - t);
    }
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)y[i] - (double)e[i] - (double)bias[i % (size_t)width]) < 1e-4 * sqrt(width)))
            fprintf(stderr, "bench: wrong linear part\n"), exit(1);
    const double flop = 2.0 * (double)n * width;
    report("linear part", 1, tokens, width, "forward", f, flop, pk, 0, 0);
    report("linear part", 1, tokens, width, "backward", b, 2 * flop, pk, 0, 0);
    report("linear part", 1, tokens, width, "cblas", blas, flop, pk, 0, 0);
    free(x), free(w), free(bias), free(y), free(e), free(dx), free(dw), free(db);
}

/* A picture of the rows of one head dimension, by gnuplot, whose standard output `to` becomes. 0, or 1. */
static int plot(FILE *to, int head_dim) {
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO);
    if (kept < 0 || dup2(fileno(to), STDOUT_FILENO) < 0) return 1;
    FILE *g = popen("gnuplot", "w");
    const int restored = dup2(kept, STDOUT_FILENO);
    close(kept);
    if (!g || restored < 0) return 1;
    fprintf(g, "set term pngcairo size 1200,500\nset multiplot layout 1,2\nset logscale xy 2\n"
               "set xlabel 'T'\nset key left top\nset ylabel 'GFLOP/s'\nplot '-' w lp t 'forward', '-' w lp t 'forward+backward'\n");
    const char *passes[] = {"forward", "forward+backward"};
    for (int k = 0; k < 4; k++) {
        if (k == 2)
            fprintf(g, "set ylabel 'bytes'\nset logscale y 10\nplot '-' w lp t 'workspace, forward+backward', '-' w l t 'one T x T map'\n");
        cJSON *r;
        cJSON_ArrayForEach(r, rows) {
            const double t = cJSON_GetObjectItem(r, "T")->valuedouble;
            if (strcmp(cJSON_GetObjectItem(r, "name")->valuestring, "attention") ||
                cJSON_GetObjectItem(r, "threads")->valueint != 1 || cJSON_GetObjectItem(r, "head_dim")->valueint != head_dim ||
                strcmp(cJSON_GetObjectItem(r, "pass")->valuestring, passes[k < 2 ? k : 1]))
                continue;
            fprintf(g, "%g %g\n", t, k < 2 ? cJSON_GetObjectItem(r, "gflops")->valuedouble
                                     : k == 2 ? cJSON_GetObjectItem(r, "workspace_bytes")->valuedouble : 4 * t * t);
        }
        fprintf(g, "e\n");
    }
    return pclose(g) != 0;
}

/* ---- what was asked for */
enum { DONE = 0, FAILED = 1, USAGE = 2, INTERRUPTED = 130 };
enum { LONGEST = 65536, WIDEST = 1024, MAIN_HEAD_DIM = 64 };

static const char help[] =
    "usage: bench [OPTIONS]\n"
    "\n"
    "Times dea.h's attention beside the peak of fused multiply-adds, each figure after its result has matched the plain\n"
    "path: microseconds a head (8 heads a pass, 1 where T is over 1024), useful GFLOP/s, share of the peak, bytes of\n"
    "workspace and the bytes that README's formula gives for it (without the tiles). Prints which kernel OpenBLAS runs:\n"
    "pin it with the variable OPENBLAS_CORETYPE to compare.\n"
    "\n"
    "      --quick         T up to 2048, 0.15 instead of 1.2 seconds a figure: under 20 seconds in all\n"
    "      --isa NAME      baseline, avx2 or avx512 (default: DEA_FORCE_ISA where set, else the best of this CPU)\n"
    "      --seq T         tokens, 1 to 65536: this length alone, with every head dimension\n"
    "                      (default: 16 to 16384 with head dimension 64, 256 with the others)\n"
    "      --head-dim D    numbers a head, 1 to 1024: this alone (default: 64, 32, 80, 128); with --seq at that T\n"
    "      --json FILE     every row as JSON\n"
    "      --plot FILE     a PNG of GFLOP/s and workspace over T, at one thread; needs gnuplot\n"
    "  -h, --help   -V, --version\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C. FILE appears whole or not at all.\n";

typedef struct options {
    const char *json, *picture, *isa;
    const char *isa_from; /* who named it */
} options;

static int usage(const char *format, const char *what) {
    fputs("bench: ", stderr);
    fprintf(stderr, format, what);
    fputs("; see bench --help\n", stderr);
    return USAGE;
}

static int wrong_value(const char *option, const char *wanted, const char *given) {
    fprintf(stderr, "bench: %s takes %s, not \"%s\"; see bench --help\n", option, wanted, given);
    return USAGE;
}

static int parse_number(const char *text, int high, int *value) {
    char *end;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number < 1 || number > high) return -1;
    *value = (int)number;
    return 0;
}

/* Returns -1 to go on, else the exit code. */
static int read_options(int argc, char **argv, options *o) {
    static const struct option all[] = {{"help", 0, 0, 'h'}, {"version", 0, 0, 'V'}, {"quick", 0, 0, 'q'}, {"json", 1, 0, 'j'},
                                        {"plot", 1, 0, 'p'}, {"isa", 1, 0, 'i'}, {"seq", 1, 0, 't'}, {"head-dim", 1, 0, 'd'},
                                        {0, 0, 0, 0}};
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":hV", all, NULL)) != -1;) {
        switch (c) {
        case 'h':
            fputs(help, stdout);
            return standard_finish("bench", DONE);
        case 'V':
            puts("bench " DEA_VERSION);
            return standard_finish("bench", DONE);
        case 'q':
            quick = 1, budget = 0.15;
            break;
        case 'j':
            o->json = optarg;
            break;
        case 'p':
            o->picture = optarg;
            break;
        case 'i':
            o->isa = optarg, o->isa_from = "--isa";
            break;
        case 't':
            if (parse_number(optarg, LONGEST, &only_seq)) return wrong_value("--seq", "a whole number from 1 to 65536", optarg);
            break;
        case 'd':
            if (parse_number(optarg, WIDEST, &only_head_dim))
                return wrong_value("--head-dim", "a whole number from 1 to 1024", optarg);
            break;
        case ':':
            return usage("%s needs a value", argv[optind - 1]);
        default:
            return usage("unknown option %s", argv[optind - 1]);
        }
    }
    return optind < argc ? usage("unexpected argument \"%s\"", argv[optind]) : -1;
}

/* Sets isa and isa_name. Returns -1 to go on, else the exit code. */
static int choose_isa(const options *o) {
    static const struct {
        const char *name;
        dea_isa isa;
    } sets[] = {{"avx512", DEA_ISA_AVX512}, {"avx2", DEA_ISA_AVX2}, {"baseline", DEA_ISA_BASELINE}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        isa = sets[i].isa, isa_name = sets[i].name;
        const int there = dea__select(isa).slice != NULL;
        if (o->isa ? !strcmp(o->isa, isa_name) : there) {
            if (!there) fprintf(stderr, "bench: %s %s: this CPU does not have it\n", o->isa_from, isa_name);
            return there ? -1 : FAILED;
        }
    }
    return wrong_value(o->isa_from, "baseline, avx2 or avx512", o->isa);
}

/* ---- result files: opened before measuring, so that an unwritable one is told at once; nothing is left when it is cut short */
static safe_file json_file, picture_file;

static void drop_files(void) {
    if (json_file.temporary) unlink(json_file.temporary);
    if (picture_file.temporary) unlink(picture_file.temporary);
}
static void on_interrupt(int number) {
    (void)number;
    drop_files();
    _exit(INTERRUPTED);
}

static int open_files(const options *o, text_error *error) {
    char gnuplot[4096];
    if (o->picture && gnuplot_find(gnuplot, sizeof gnuplot))
        return text_fail(error, "--plot needs gnuplot, which is not there (Debian package gnuplot-nox)");
    atexit(drop_files);
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (o->json && safe_file_open(&json_file, o->json, error)) return -1;
    return o->picture ? safe_file_open(&picture_file, o->picture, error) : 0;
}

static int write_files(const options *o, text_error *error) {
    if (o->json) {
        char *text = cJSON_Print(rows);
        if (!text) return text_fail(error, "out of memory for the JSON rows");
        fprintf(json_file.file, "%s\n", text);
        free(text);
        if (safe_file_commit(&json_file, error)) return -1;
    }
    if (o->picture && plot(picture_file.file, only_head_dim ? only_head_dim : MAIN_HEAD_DIM))
        return text_fail(error, "gnuplot failed to draw %s", o->picture);
    return o->picture ? safe_file_commit(&picture_file, error) : 0;
}

/* ---- measuring */

/* The lengths of one head dimension: all of them for the main one, one length for the others. */
static void measure_head_dim(int d, int cores) {
    static const int lengths[] = {16, 64, 256, 1024, 2048, 4096, 8192, 16384};
    const int *seqs = only_seq ? &only_seq : lengths, count = only_seq ? 1 : 8, chief = d == MAIN_HEAD_DIM;
    for (int i = 0; i < count; i++) {
        const int seq = seqs[i], heads = seq <= 1024 ? 8 : 1;
        if (!only_seq && (!chief ? seq != 256 : quick && seq > 2048)) continue;
        attention("attention", heads, seq, d, 1, 0, 0);
        if (!chief || seq < 256 || seq > 2048) continue;
        attention("causal", heads, seq, d, 1, 1, 0);
        attention("labelled", heads, seq, d, 1, 0, 1);
        if (cores > 1) attention("attention", heads, seq, d, cores, 0, 0);
        if (cores > 1 && seq >= 1024) attention("one head", 1, seq, d, cores, 0, 0);
        if (seq <= (quick ? 256 : 1024)) plain(heads, seq, d);
    }
}

static void measure(void) {
    static const int dims[] = {MAIN_HEAD_DIM, 32, 80, 128};
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const int cores = online < 64 ? (int)online : 64;
    openblas_set_num_threads(1); /* beside kernels of one thread: more would not even show in this thread's time */
    printf("%s, peak of multiply-adds %.1f GFLOP/s, OpenBLAS kernel %s\n", isa_name, peak(isa), openblas_get_corename());
    printf("%-22s %2s  %6s %4s  %-17s %11s %8s %7s %12s %12s\n", "", "th", "T", "d", "pass", "us/head", "GFLOP/s", "of peak",
           "workspace", "by formula");
    if (only_head_dim) measure_head_dim(only_head_dim, cores);
    for (int e = 0; e < 4 && !only_head_dim; e++) measure_head_dim(dims[e], cores);
    if (!only_seq && !only_head_dim) products(512, 0), products(512, 1), linear(1024, 256);
}

int main(int argc, char **argv) {
    options o = {.isa = getenv("DEA_FORCE_ISA"), .isa_from = "the variable DEA_FORCE_ISA"};
    text_error error;
    standard_open();
    int code = read_options(argc, argv, &o);
    if (code < 0) code = choose_isa(&o);
    if (code >= 0) return code;
    rows = cJSON_CreateArray();
    int status = open_files(&o, &error);
    if (status == 0) {
        measure();
        signal(SIGINT, SIG_IGN); /* a moment is left; the files are closed one by one, which the handler must not meet */
        signal(SIGTERM, SIG_IGN);
        status = write_files(&o, &error);
    }
    safe_file_abandon(&json_file);
    safe_file_abandon(&picture_file);
    cJSON_Delete(rows);
    if (status) fprintf(stderr, "bench: %s\n", error.message);
    return standard_finish("bench", status ? FAILED : DONE);
}

/* How near a meta-attention block comes to the FMA peak of one core: D = 4096, 32 blocks, C = 32, r = 256, 256 tokens.
 * usage: meta_bench [BLOCKS]      the fastest of several rounds; compiled with the library in this very file, in float */
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WIDTH = 4096, TOKENS = 32, BOTTLENECK = 256, ROWS = 256, ROUNDS = 12 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* one thread; other programs on the machine disturb less */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- peak: twelve independent chains of fused multiply-adds that live in registers */
#if defined(__x86_64__) && defined(__GNUC__)
#    define CHAINS(use) use(0) use(1) use(2) use(3) use(4) use(5) use(6) use(7) use(8) use(9) use(10) use(11)
#    define DECLARE(i)  vector a##i = {(float)i};
#    define STEP(i)                                                                                                    \
        a##i = a##i * x + y;                                                                                           \
        __asm__ volatile("" : "+v"(a##i));
#    define PEAK(name, bytes, isa)                                                                                     \
        typedef float name##_vector __attribute__((vector_size(bytes)));                                               \
        __attribute__((target(isa), optimize("fp-contract=fast"))) static double name(void) {                          \
            typedef name##_vector vector;                                                                              \
            const long steps = 20000000;                                                                               \
            vector x = {0.5f}, y = {0.25f};                                                                            \
            __asm__ volatile("" : "+v"(x), "+v"(y));                                                                   \
            CHAINS(DECLARE)                                                                                            \
            const double start = seconds();                                                                            \
            for (long i = 0; i < steps; i++) {                                                                         \
                CHAINS(STEP)                                                                                           \
            }                                                                                                          \
            return 2.0 * 12 * (bytes / 4) * (double)steps / (seconds() - start) * 1e-9;                                \
        }
PEAK(peak_avx512, 64, "avx512f,fma,prefer-vector-width=512")
PEAK(peak_avx2, 32, "avx2,fma")

static double peak(const char **isa) {
    if (__builtin_cpu_supports("avx512f")) return *isa = "AVX-512", peak_avx512();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return *isa = "AVX2", peak_avx2();
    return *isa = "none", 0;
}
#else
static double peak(const char **isa) {
    return *isa = "none", 0;
}
#endif

static void *take(size_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, DEA_ALIGNMENT, bytes)) {
        fprintf(stderr, "meta_bench: out of memory (%zu bytes); give fewer blocks\n", bytes);
        exit(1);
    }
    return p;
}

static dea_real *take_reals(size_t count) {
    return (dea_real *)take(count * sizeof(dea_real));
}

static void row(const char *name, double time, double flop, double top) {
    printf("%-34s %8.2f ms  %7.1f GFLOP/s", name, time * 1e3, flop / time * 1e-9);
    if (top > 0) printf("  %5.1f%% of peak", 100 * flop / time * 1e-9 / top);
    printf("\n");
}

static void check(dea_status status) {
    if (status == DEA_OK) return;
    fprintf(stderr, "meta_bench: %s\n", dea_status_string(status));
    exit(1);
}

int main(int argc, char **argv) {
    if (argc == 2 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help")))
        return puts("usage: meta_bench [BLOCKS]\n\nTimes so many meta-attention blocks (1 to 1024, default 32), one after the "
                    "other, against the FMA peak of one core.\n\nExit codes: 0 done, 1 failed, 2 wrong usage.") < 0 || fflush(stdout);
    const int count = argc == 2 ? atoi(argv[1]) : 32;
    if (argc > 2 || count < 1 || count > 1024)
        return fputs("meta_bench: takes BLOCKS, 1 to 1024 (default 32), and nothing else\n", stderr), 2;
    dea_tensor tensors[16];
    dea_table table = dea_table_init(tensors, 16);
    dea_meta_blocks blocks = dea_meta_blocks_init(count, TOKENS, WIDTH);
    check(dea_meta_blocks_register(&blocks, &table, ""));
    dea_real *params = take_reals(table.elements), *grads = take_reals(table.elements);
    memset(grads, 0, table.elements * sizeof *grads);
    check(dea_meta_blocks_reset(&blocks, params, 1));
    const size_t wide = (size_t)ROWS * WIDTH, keys = dea_meta_keys_count(&blocks, 1);
    dea_real *x = take_reals(wide), *y = take_reals(wide), *dx = take_reals(wide),
             *cog = take_reals((size_t)TOKENS * WIDTH);
    dea_real *kv = take_reals(keys), *dkv = take_reals(keys);
    dea_fill_normal(x, wide, 1, 2), dea_fill_normal(cog, (size_t)TOKENS * WIDTH, 1, 3);
    dea_meta_sequences s = dea_meta_sequences_init(1, ROWS, NULL, kv);
    s.threads.count = 1;
    dea_real *cache = take_reals(dea_meta_block_cache_count(&blocks, &s));
    const size_t bytes = dea_meta_block_workspace(&blocks, &s);
    void *workspace = take(bytes);
    check(dea_meta_keys_forward(&blocks, params, cog, 1, kv, &s.threads));

    double best[3] = {1e9, 1e9, 1e9}, top = 0;
    const char *isa = "none";
    for (int round = 0; round < ROUNDS; round++) {
        const double now = peak(&isa);
        if (now > top) top = now;
        memcpy(y, x, wide * sizeof *y);
        double start = seconds();
        for (int i = 0; i < count; i++)
            check(dea_meta_block_forward(&blocks, params, &s, i, y, y, cache, workspace, bytes));
        const double forward = (seconds() - start) / count;
        if (forward < best[0]) best[0] = forward;
        start = seconds();
        for (int i = 0; i < count; i++)
            check(dea_meta_block_backward(&blocks, params, &s, i, x, cache, y, dx, dkv, grads, workspace, bytes));
        const double backward = (seconds() - start) / count;
        if (backward < best[1]) best[1] = backward;
        start = seconds();
        check(dea_meta_keys_forward(&blocks, params, cog, 1, kv, &s.threads));
        const double all = seconds() - start;
        if (all < best[2]) best[2] = all;
    }
    /* 2.12: 4Dr + 2r^2 + 4Cr a token; the backward twice that, and LN's; keys 4CDr a block. */
    const double token = 4.0 * WIDTH * BOTTLENECK + 2.0 * BOTTLENECK * BOTTLENECK + 4.0 * TOKENS * BOTTLENECK;
    printf("%d blocks, %d tokens, D %d, C %d, r %d; peak %.1f GFLOP/s (%s); cache %zu, workspace %zu bytes\n", count,
           ROWS, WIDTH, TOKENS, BOTTLENECK, top, isa, dea_meta_block_cache_count(&blocks, &s) * sizeof(dea_real),
           bytes);
    row("block forward, in place", best[0], token * ROWS, top);
    row("block backward", best[1], 2 * token * ROWS, top);
    row("keys and values of all blocks", best[2], 4.0 * TOKENS * WIDTH * BOTTLENECK * count, top);
    free(params), free(grads), free(x), free(y), free(dx), free(cog), free(kv), free(dkv), free(cache), free(workspace);
    return 0;
}

#include "train/hardware.h"

#include <string.h>
#include <sys/resource.h>

/* Weak: another BLAS has neither. */
#if defined(__GNUC__) || defined(__clang__)
extern char *openblas_get_corename(void) __attribute__((weak));
extern void openblas_set_num_threads(int count) __attribute__((weak));
#else
static char *(*const openblas_get_corename)(void) = NULL;
static void (*const openblas_set_num_threads)(int) = NULL;
#endif

typedef enum vectors { VECTORS_128, VECTORS_256, VECTORS_512 } vectors;

static vectors of_cpu(void) {
#if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
    __builtin_cpu_init();
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return VECTORS_512;
    if (avx2) return VECTORS_256;
#endif
    return VECTORS_128;
}

const char *hardware_blas(void) {
    return openblas_get_corename ? openblas_get_corename() : "another BLAS";
}

const char *hardware_vectors(void) {
    static const char *const names[] = {"128 bits", "AVX2", "AVX-512"};
    return names[of_cpu()];
}

const char *hardware_better_coretype(void) {
    static const char *const wide[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    static const char *const narrow[] = {"Prescott", "Core2",       "Penryn",  "Dunnington",   "Atom",
                                         "Nehalem",  "Sandybridge", "Katmai",  "Coppermine",   "Northwood",
                                         "Banias",   "Athlon",      "Opteron", "Opteron_SSE3", "Barcelona",
                                         "Bobcat",   "Nano",        "Generic", "Unknown"};
    const vectors cpu = of_cpu();
    if (!openblas_get_corename || cpu == VECTORS_128) return NULL;
    const char *core = openblas_get_corename();
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (!strcmp(core, wide[i])) return NULL;
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        if (!strcmp(core, narrow[i])) return cpu == VECTORS_512 ? "SKYLAKEX" : "HASWELL";
    return NULL;
}

void hardware_one_blas_thread(void) {
    if (openblas_set_num_threads) openblas_set_num_threads(1);
}

size_t hardware_peak_memory(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

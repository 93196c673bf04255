/* Counter-based random numbers (splitmix64) and a byte hash: every draw is a function of (key, counter) in integer
 * arithmetic alone, so the same seed gives the same bytes on every machine, and any thread can start anywhere. */
#ifndef DATA_RNG_H
#define DATA_RNG_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct rng {
    uint64_t key;     /* names the sequence */
    uint64_t counter; /* draws made so far */
} rng;

/* Bijective finaliser of splitmix64. */
static inline uint64_t rng_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Key of a sub-sequence: `key` told apart by `part`. */
static inline uint64_t rng_derive(uint64_t key, uint64_t part) {
    return rng_mix(rng_mix(key + UINT64_C(0x9E3779B97F4A7C15)) ^ rng_mix(part + UINT64_C(0xD1B54A32D192ED03)));
}

static inline uint64_t rng_u64(rng *r) {
    return rng_mix(r->key + ++r->counter * UINT64_C(0x9E3779B97F4A7C15));
}

/* Uniform in 0 .. n-1; n >= 1 (multiply-shift: the bias is below n / 2^32). */
static inline uint32_t rng_below(rng *r, uint32_t n) {
    return (uint32_t)(((rng_u64(r) >> 32) * n) >> 32);
}

static inline int rng_coin(rng *r) {
    return (int)(rng_u64(r) >> 63);
}

/* Fisher-Yates. */
static inline void rng_shuffle(rng *r, int *a, size_t n) {
    for (size_t i = n; i > 1; i--) {
        size_t j = rng_below(r, (uint32_t)i);
        int t = a[i - 1];
        a[i - 1] = a[j];
        a[j] = t;
    }
}

/* The same for items of any size up to 64 bytes; not for hot loops. */
static inline void rng_shuffle_items(rng *r, void *items, size_t n, size_t size) {
    char t[64], *a = items;
    for (size_t i = n; i > 1; i--) {
        char *x = a + (i - 1) * size, *y = a + rng_below(r, (uint32_t)i) * size;
        memcpy(t, x, size);
        memmove(x, y, size);
        memcpy(y, t, size);
    }
}

/* FNV-1a over the bytes, finalised; chain calls by passing the last result as `seed`. */
static inline uint64_t hash_bytes(uint64_t seed, const char *s, size_t n) {
    uint64_t h = UINT64_C(0xCBF29CE484222325) ^ rng_mix(seed);
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001B3);
    return rng_mix(h);
}

/* The same over a string and its terminator, so that ("ab", "c") and ("a", "bc") differ when chained. */
static inline uint64_t hash_string(uint64_t seed, const char *s) {
    uint64_t h = UINT64_C(0xCBF29CE484222325) ^ rng_mix(seed);
    do h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001B3);
    while (*s++);
    return rng_mix(h);
}

#endif

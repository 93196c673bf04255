/* A fuzz target is one file that defines FUZZ(name)(data, size). Under libFuzzer (-DFUZZING) it is the fuzzer's entry
 * point; otherwise a function fuzz_name, which a test feeds with the corpus of past failures. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FUZZING
#    define FUZZ(name) int LLVMFuzzerTestOneInput
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#else
#    define FUZZ(name) static int fuzz_##name
#endif

/* A property that must hold for any input. */
#define HOLDS(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif

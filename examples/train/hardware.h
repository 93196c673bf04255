/* What the numbers run on: the BLAS kernel and this CPU's vector unit, and whether the two fit. */
#ifndef TRAIN_HARDWARE_H
#define TRAIN_HARDWARE_H

#include <stddef.h>

/* OpenBLAS's name of its kernel, or "another BLAS" where the BLAS linked is not OpenBLAS. */
const char *hardware_blas(void);

/* "AVX-512", "AVX2", "128 bits". */
const char *hardware_vectors(void);

/* The OPENBLAS_CORETYPE that would serve this CPU better than the kernel that OpenBLAS has picked; NULL if its choice is right. */
const char *hardware_better_coretype(void);

/* One BLAS thread: lanes are the parallelism, and sums must not depend on a number of threads. */
void hardware_one_blas_thread(void);

/* Largest resident set so far, in bytes. */
size_t hardware_peak_memory(void);

#endif

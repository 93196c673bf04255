/* Alphas from outside (an oracle run elsewhere), as JSON lines {"premise": "...", "hypothesis": "...", "alpha": 0.83}.
 * Further members are ignored. A pair without a line is missing: it is named and counted, its label is NaN, and nothing
 * is invented for it. */
#ifndef TEXT_ALPHA_CACHE_H
#define TEXT_ALPHA_CACHE_H

#include <stddef.h>
#include <stdio.h>

#include "text/error.h"
#include "text/row.h"

/* Labels never exceed it, equation (5) of SPEC: at least 5% of similarity always survives. */
#define ALPHA_MAX 0.95

typedef struct alpha_cache alpha_cache;

/* Reads all of `path`. NULL with "FILE:LINE: ..." for a line that is not such an object, an alpha outside of [0, 1], or
 * a pair that stands twice with different alphas (twice with the same is let pass). */
alpha_cache *alpha_cache_load(const char *path, text_error *error);
alpha_cache *alpha_cache_parse(const char *name, const void *data, size_t size, text_error *error);
void alpha_cache_free(alpha_cache *cache);

size_t alpha_cache_size(const alpha_cache *cache); /* distinct pairs */

/* The pair's alpha, NaN where it is missing. The strings must match byte for byte. */
float alpha_cache_find(const alpha_cache *cache, const char *premise, const char *hypothesis);

/* alpha[i] = the alpha of row i or NaN, i < count. Returns how many are missing; `report` (may be NULL) then says
 * "N of M pairs have no alpha, the first: ..." and names up to three. */
size_t alpha_cache_label(const alpha_cache *cache, const row *rows, size_t count, float *alpha, text_error *report);

/* Writes one line. 0, or -1 with a message (alpha outside of [0, 1], strings not UTF-8, write error). */
int alpha_cache_write(FILE *file, const char *premise, const char *hypothesis, float alpha, text_error *error);

#endif

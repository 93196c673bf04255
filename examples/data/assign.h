/* False tails for true (head, tail) pairs: every tail is given to false rows as often as to true ones, so that a tail alone
 * tells nothing about the label. */
#ifndef DATA_ASSIGN_H
#define DATA_ASSIGN_H

#include <stddef.h>
#include <stdint.h>

#include "data/rng.h"

/* How far tail is from making a good false answer for item: the lowest is taken first; negative: must not be used (it is
 * or may be true). Called with the items and tails of assign_tails. */
typedef int assign_cost(const void *context, size_t item, size_t tail);

/* truth[i] < tails is the true tail of item i; any[i] is 1 where a random tail is wanted instead of the nearest. Writes the
 * false tail to out[i]; ties go to the lower tail number. The counts of out equal the counts of truth, except for items that
 * no exchange could serve: those get the nearest tail beyond its count. 0; -1 when out of memory, -2 if an item allows no
 * tail at all. */
int assign_tails(size_t items, size_t tails, const size_t *truth, const unsigned char *any, assign_cost *cost,
                 const void *context, rng *r, size_t *out);

#endif

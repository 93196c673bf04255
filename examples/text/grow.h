/* Arrays that double as they fill. */
#ifndef TEXT_GROW_H
#define TEXT_GROW_H

#include <stddef.h>

/* The array with room for `needed` elements of `size` bytes: itself, or moved with *capacity raised. NULL when memory ends;
 * the old array then stays valid. */
void *grow(void *array, size_t *capacity, size_t needed, size_t size);

#endif

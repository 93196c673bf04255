#include "text/grow.h"

#include <stdint.h>
#include <stdlib.h>

void *grow(void *array, size_t *capacity, size_t needed, size_t size) {
    if (array && needed <= *capacity) return array;
    size_t wanted = *capacity < 16 ? 16 : *capacity;
    while (wanted < needed) {
        if (wanted > SIZE_MAX / 2) return NULL;
        wanted *= 2;
    }
    if (wanted > SIZE_MAX / size) return NULL;
    void *grown = realloc(array, wanted * size);
    if (grown) *capacity = wanted;
    return grown;
}

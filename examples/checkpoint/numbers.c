#include "checkpoint/numbers.h"

#include <stdio.h>
#include <string.h>

void checkpoint_name(char out[CHECKPOINT_NAME], const checkpoint_part *part, const dea_tensor *tensor) {
    snprintf(out, CHECKPOINT_NAME, "%s%s", part->prefix, tensor->name);
}

void checkpoint_encode(const dea_real *data, size_t count, unsigned char *bytes) {
    for (size_t i = 0; i < count; i++) {
        const float number = (float)data[i];
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        for (int b = 0; b < 4; b++) bytes[4 * i + (size_t)b] = (unsigned char)(bits >> (8 * b));
    }
}

void checkpoint_decode(const unsigned char *bytes, size_t count, dea_real *data) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        for (int b = 0; b < 4; b++) bits |= (uint32_t)bytes[4 * i + (size_t)b] << (8 * b);
        float number;
        memcpy(&number, &bits, sizeof number);
        data[i] = (dea_real)number;
    }
}

size_t checkpoint_first_bad(const dea_real *data, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const float number = (float)data[i];
        if (!(number - number == 0)) return i;
    }
    return count;
}

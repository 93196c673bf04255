#include "rows.h"

FUZZ(clutrr)(const uint8_t *data, size_t size) {
    fuzz_rows(data, size, ROWS_CLUTRR);
    return 0;
}

#include "rows.h"

FUZZ(babi)(const uint8_t *data, size_t size) {
    fuzz_rows(data, size, ROWS_BABI);
    return 0;
}

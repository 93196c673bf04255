#include "rows.h"

FUZZ(tsv)(const uint8_t *data, size_t size) {
    fuzz_rows(data, size, ROWS_TSV);
    return 0;
}

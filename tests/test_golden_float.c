/* The golden values in float, against the library's own object. */
#define GOLDEN_FLOAT
#include "test_golden.c"

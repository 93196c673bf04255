/* The golden values in float. */
#define GOLDEN_FLOAT
#include "test_golden.c"

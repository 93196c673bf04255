/* The fast path in float. */
#define FAST_FLOAT
#include "test_fast.c"

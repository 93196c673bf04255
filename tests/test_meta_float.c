/* test_meta.c in float. */
#define META_FLOAT
#include "test_meta.c"

/* What the tests of examples/text share: readers over strings, and messages that must say something. */
#ifndef TESTS_TEXT_HELPER_H
#define TESTS_TEXT_HELPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/error.h"
#include "text/lines.h"

/* The message holds `wanted`; printed where it does not. */
static inline void assert_says(const text_error *error, const char *wanted) {
    if (!strstr(error->message, wanted)) fail_msg("message '%s' does not say '%s'", error->message, wanted);
}

static inline lines lines_of(const char *text) {
    lines l;
    lines_open_memory(&l, "given", text, strlen(text));
    return l;
}

#endif

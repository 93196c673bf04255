/* A row whose strings live in an arena. */
#ifndef TEXT_ROW_COPY_H
#define TEXT_ROW_COPY_H

#include "text/arena.h"
#include "text/error.h"
#include "text/row.h"

/* *out = *r with copies of its strings in `strings`; `out` may be `r`. 0, or -1 when memory ends. */
int row_copy(arena *strings, const row *r, row *out, text_error *error);

#endif

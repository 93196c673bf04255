/* Base64, for data inside a page. */
#ifndef VISUALIZE_BASE64_H
#define VISUALIZE_BASE64_H

#include <stddef.h>
#include <stdio.h>

void base64_write(FILE *file, const void *bytes, size_t count);

#endif

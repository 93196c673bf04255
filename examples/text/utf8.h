/* UTF-8, one character at a time. */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes the character at `bytes` (length > 0) into *point and returns its size in bytes. Where the bytes are no valid
 * character (overlong, surrogate, beyond U+10FFFF, cut off), *point is -1 and the size 1. */
size_t utf8_decode(const char *bytes, size_t length, int32_t *point);

/* Writes `point` (valid) to out[4] and returns its size in bytes. */
size_t utf8_encode(int32_t point, char *out);

/* Length of the longest prefix of `bytes` that is valid UTF-8. */
size_t utf8_valid_prefix(const char *bytes, size_t length);

#endif

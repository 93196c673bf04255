#include "text/utf8.h"

#include <string.h>
#include <utf8proc.h>

size_t utf8_decode(const char *bytes, size_t length, int32_t *point) {
    unsigned char first = (unsigned char)bytes[0];
    if (first < 0x80) {
        *point = first;
        return 1;
    }
    utf8proc_int32_t decoded = -1;
    utf8proc_ssize_t limit = length < 4 ? (utf8proc_ssize_t)length : 4;
    utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)bytes, limit, &decoded);
    if (size <= 0) {
        *point = -1;
        return 1;
    }
    *point = decoded;
    return (size_t)size;
}

size_t utf8_encode(int32_t point, char *out) {
    return (size_t)utf8proc_encode_char(point, (utf8proc_uint8_t *)out);
}

size_t utf8_valid_prefix(const char *bytes, size_t length) {
    size_t at = 0;
    while (at < length) {
        /* Eight ASCII bytes at a time: most text is nothing else. */
        uint64_t word;
        while (length - at >= sizeof word) {
            memcpy(&word, bytes + at, sizeof word);
            if (word & UINT64_C(0x8080808080808080)) break;
            at += sizeof word;
        }
        if (at == length) break;
        int32_t point;
        size_t size = utf8_decode(bytes + at, length - at, &point);
        if (point < 0) break;
        at += size;
    }
    return at;
}

#include "text/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "text/utf8.h"

int text_fail(text_error *error, const char *format, ...) {
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return -1;
}

int text_fail_memory(text_error *error, size_t bytes) {
    return text_fail(error, "out of memory: %zu more bytes could not be had", bytes);
}

const char *text_excerpt(const char *bytes, size_t length, char out[256]) {
    enum { SHOWN = 60 };
    size_t at = 0, written = 0;
    while (at < length) {
        int32_t point;
        size_t step = utf8_decode(bytes + at, length - at, &point);
        if (at + step > SHOWN) break;
        unsigned char byte = (unsigned char)bytes[at];
        if (point < 0 || point < 0x20 || (point >= 0x7f && point < 0xa0)) {
            for (size_t i = 0; i < step; i++)
                written += (size_t)snprintf(out + written, 5, "\\x%02X", (unsigned)(unsigned char)bytes[at + i]);
        } else if (step == 1) {
            out[written++] = (char)byte;
        } else {
            for (size_t i = 0; i < step; i++) out[written++] = bytes[at + i];
        }
        at += step;
    }
    if (at < length) {
        for (int i = 0; i < 3; i++) out[written++] = '.';
    }
    out[written] = '\0';
    return out;
}

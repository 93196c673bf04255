#include "visualize/base64.h"

void base64_write(FILE *file, const void *bytes, size_t count) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < count; i += 3) {
        const unsigned second = i + 1 < count ? byte[i + 1] : 0, third = i + 2 < count ? byte[i + 2] : 0;
        const unsigned bits = (unsigned)byte[i] << 16 | second << 8 | third;
        fputc(digit[bits >> 18], file);
        fputc(digit[bits >> 12 & 63], file);
        fputc(i + 1 < count ? digit[bits >> 6 & 63] : '=', file);
        fputc(i + 2 < count ? digit[bits & 63] : '=', file);
    }
}

#include "fuzz.h"

#include "text/plain.h"
#include "text/utf8.h"

FUZZ(plain)(const uint8_t *data, size_t size) {
    lines l;
    plain p;
    lines_open_memory(&l, "fuzz", data, size);
    plain_attach(&p, &l);
    text_error error = {""};
    const char *text;
    size_t length;
    int got;
    while ((got = plain_next(&p, &text, &length, &error)) > 0) {
        HOLDS(length > 0 && strlen(text) == length);
        HOLDS(!strchr(text, '\n'));
        HOLDS(utf8_valid_prefix(text, length) == length);
    }
    HOLDS(got == 0 || strncmp(error.message, "fuzz:", 5) == 0);
    plain_close(&p);
    return 0;
}

#include "text/lines.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "text/grow.h"
#include "text/utf8.h"

enum { BUFFER = 1 << 16 }; /* bytes to begin with */

int lines_open(lines *l, const char *path, text_error *error) {
    *l = (lines){.name = path};
    l->file = fopen(path, "rb");
    if (!l->file)
        return text_fail(error, "%s: cannot be opened: %s; give the path of a file that can be read", path,
                         strerror(errno));
    struct stat status;
    if (fstat(fileno(l->file), &status) == 0 && S_ISDIR(status.st_mode)) {
        lines_close(l);
        return text_fail(error, "%s: is a directory; name a file in it", path);
    }
    return 0;
}

void lines_open_memory(lines *l, const char *name, const void *data, size_t size) {
    *l = (lines){.name = name, .memory = data, .memory_left = size};
}

void lines_close(lines *l) {
    if (l->file) fclose(l->file);
    free(l->buffer);
    *l = (lines){.ended = true};
}

int lines_fail(const lines *l, text_error *error, const char *format, ...) {
    if (error) {
        char what[sizeof error->message];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(what, sizeof what, format, arguments);
        va_end(arguments);
        /* A very long path loses its front, so that the line number and the reason always show. */
        size_t length = strlen(l->name), room = sizeof error->message / 2;
        const char *name = length > room ? l->name + (length - room) : l->name;
        text_fail(error, "%s:%zu: %.*s", name, l->number, (int)sizeof error->message / 2, what);
    }
    return -1;
}

/* Reads more behind buffer[filled), moving what is not yet given out to the front or growing. 0, or -1. */
static int fill(lines *l, text_error *error) {
    if (l->used > 0) {
        memmove(l->buffer, l->buffer + l->used, l->filled - l->used);
        l->filled -= l->used;
        l->used = 0;
    }
    /* One byte is kept free for the NUL behind a last line without newline. */
    if (l->filled + 1 >= l->capacity) {
        char *buffer = grow(l->buffer, &l->capacity, l->capacity ? 2 * l->capacity : BUFFER, 1);
        if (!buffer) {
            l->number++;
            return lines_fail(l, error, "out of memory: the line is longer than %zu bytes", l->filled);
        }
        l->buffer = buffer;
    }
    size_t room = l->capacity - 1 - l->filled, got;
    if (l->file) {
        got = fread(l->buffer + l->filled, 1, room, l->file);
        if (got == 0 && ferror(l->file)) {
            l->number++;
            return lines_fail(l, error, "cannot be read: %s", strerror(errno));
        }
    } else {
        got = room < l->memory_left ? room : l->memory_left;
        if (got) memcpy(l->buffer + l->filled, l->memory, got);
        l->memory += got;
        l->memory_left -= got;
    }
    l->ended = got == 0;
    l->filled += got;
    l->bytes += got;
    return 0;
}

static int check(const lines *l, text_error *error) {
    const char *zero = memchr(l->line, 0, l->length);
    if (zero) {
        return lines_fail(
            l, error,
            "NUL byte at byte %zu of the line: this is not text; give a text file (UTF-16: convert it with "
            "iconv)",
            (size_t)(zero - l->line) + 1);
    }
    size_t valid = utf8_valid_prefix(l->line, l->length);
    if (valid < l->length) {
        return lines_fail(
            l, error,
            "byte %zu of the line (0x%02X) is not UTF-8: this is not text, or text in another encoding; give "
            "a text file (another encoding: convert it with iconv)",
            valid + 1, (unsigned)(unsigned char)l->line[valid]);
    }
    return 0;
}

int lines_next(lines *l, char **line, size_t *length, text_error *error) {
    if (l->again) {
        l->again = false;
        *line = l->line;
        *length = l->length;
        return 1;
    }
    size_t searched = 0; /* bytes behind `used` known to hold no newline */
    char *end = NULL;
    for (;;) {
        size_t waiting = l->filled - l->used;
        if (waiting > searched) end = memchr(l->buffer + l->used + searched, '\n', waiting - searched);
        if (end || l->ended) break;
        searched = waiting;
        if (fill(l, error)) return -1;
    }
    if (!end && l->used == l->filled) return 0;

    l->line = l->buffer + l->used;
    l->length = end ? (size_t)(end - l->line) : l->filled - l->used;
    l->used = end ? l->used + l->length + 1 : l->filled;
    l->number++;
    if (l->number == 1 && l->length >= 3 && memcmp(l->line, "\xEF\xBB\xBF", 3) == 0) {
        l->line += 3;
        l->length -= 3;
        if (!end && l->length == 0) return 0;
    }
    if (end && l->length > 0 && l->line[l->length - 1] == '\r') l->length--;
    l->line[l->length] = '\0';
    if (check(l, error)) return -1;
    *line = l->line;
    *length = l->length;
    return 1;
}

void lines_again(lines *l) {
    l->again = true;
}

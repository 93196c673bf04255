#include "text/csv.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/grow.h"

void csv_attach(csv *c, const lines *l) {
    *c = (csv){.lines = *l};
}

void csv_close(csv *c) {
    lines_close(&c->lines);
    free(c->text);
    free(c->start);
    *c = (csv){.lines.ended = true};
}

char *csv_field(const csv *c, size_t i) {
    return c->text + c->start[i];
}

int csv_fail(const csv *c, text_error *error, const char *format, ...) {
    char what[sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    lines at = c->lines;
    at.number = c->number;
    return lines_fail(&at, error, "%s", what);
}

/* Every byte of a line becomes at most one byte of text, and each field ends with a NUL. */
static int reserve(csv *c, size_t more, text_error *error) {
    char *text = grow(c->text, &c->capacity, c->length + more, 1);
    if (!text) return text_fail_memory(error, c->length + more);
    c->text = text;
    return 0;
}

static int begin_field(csv *c, text_error *error) {
    size_t *start = grow(c->start, &c->starts, c->fields + 1, sizeof *start);
    if (!start) return text_fail_memory(error, (c->fields + 1) * sizeof *start);
    c->start = start;
    c->start[c->fields++] = c->length;
    return 0;
}

/* Copies a quoted field from behind its opening quote, over as many lines as it takes. *at moves behind the closing
 * quote. */
static int copy_quoted(csv *c, char **at, text_error *error) {
    for (;;) {
        char *quote = strchr(*at, '"');
        size_t length = quote ? (size_t)(quote - *at) : strlen(*at);
        if (length) memcpy(c->text + c->length, *at, length);
        c->length += length;
        if (quote && quote[1] == '"') {
            c->text[c->length++] = '"';
            *at = quote + 2;
        } else if (quote) {
            *at = quote + 1;
            return 0;
        } else {
            c->text[c->length++] = '\n';
            char *line;
            int got = lines_next(&c->lines, &line, &length, error);
            if (got < 0) return -1;
            if (got == 0)
                return csv_fail(c, error, "a quoted field of this record is never closed; add the missing '\"'");
            if (reserve(c, length + 2, error)) return -1;
            *at = line;
        }
    }
}

static int copy_bare(csv *c, char **at, text_error *error) {
    size_t length = strcspn(*at, ",\"");
    if ((*at)[length] == '"')
        return lines_fail(&c->lines, error,
                          "a quote within an unquoted field; quote the whole field and double the quote");
    if (length) memcpy(c->text + c->length, *at, length);
    c->length += length;
    *at += length;
    return 0;
}

int csv_next(csv *c, text_error *error) {
    char *at;
    size_t length;
    int got = lines_next(&c->lines, &at, &length, error);
    if (got <= 0) return got;
    c->number = c->lines.number;
    c->length = c->fields = 0;
    if (length == 0)
        return lines_fail(&c->lines, error, "empty line; remove it, or restore the record that stood there");
    if (reserve(c, length + 2, error)) return -1;
    for (;;) {
        if (begin_field(c, error)) return -1;
        if (*at == '"') {
            at++;
            if (copy_quoted(c, &at, error)) return -1;
            if (*at && *at != ',')
                return lines_fail(&c->lines, error, "text behind a closing quote; a comma must follow it");
        } else if (copy_bare(c, &at, error)) {
            return -1;
        }
        c->text[c->length++] = '\0';
        if (!*at) return 1;
        at++;
    }
}

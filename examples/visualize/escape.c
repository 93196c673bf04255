#include "visualize/escape.h"

#include <stdint.h>
#include <string.h>
#include <utf8proc.h>

#include "text/utf8.h"

#define REPLACEMENT 0xFFFD

static int switches_direction(int32_t point) {
    return point == 0x061C || point == 0x200E || point == 0x200F || (point >= 0x202A && point <= 0x202E) ||
           (point >= 0x2066 && point <= 0x2069);
}

/* The next character of *text made printable, 0 at the end. */
static int32_t next_point(const char **text) {
    const size_t rest = *text ? strnlen(*text, 4) : 0;
    if (!rest) return 0;
    int32_t point;
    *text += utf8_decode(*text, rest, &point);
    if (point == '\t' || point == '\n' || point == '\r' || point == 0x2028 || point == 0x2029) return ' ';
    const int control = point < 0x20 || (point >= 0x7F && point < 0xA0);
    const int no_character = (point & 0xFFFE) == 0xFFFE;
    return control || no_character || switches_direction(point) ? REPLACEMENT : point;
}

static void put_point(FILE *file, int32_t point) {
    char bytes[4];
    fwrite(bytes, 1, utf8_encode(point, bytes), file);
}

void escape_tsv(FILE *file, const char *text) {
    for (int32_t point; (point = next_point(&text)) != 0;) put_point(file, point);
}

void escape_html(FILE *file, const char *text) {
    for (int32_t point; (point = next_point(&text)) != 0;) switch (point) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        case '\'':
            fputs("&#39;", file);
            break;
        default:
            put_point(file, point);
        }
}

void escape_json(FILE *file, const char *text) {
    fputc('"', file);
    for (int32_t point; (point = next_point(&text)) != 0;)
        if (point < 0x80 && strchr("\"\\<>&'/", (int)point))
            fprintf(file, "\\u%04x", (unsigned)point);
        else
            put_point(file, point);
    fputc('"', file);
}

/* gnuplot reads '' at the very start of a string as an empty one: leading quotes stand in a string of their own. */
void escape_gnuplot(FILE *file, const char *text, escape_gnuplot_use use) {
    const size_t leading = text ? strspn(text, "'") : 0;
    if (leading) {
        fprintf(file, "\"%.*s\"", (int)leading, text);
        text += leading;
        if (!*text) return;
        fputc('.', file);
    }
    fputc('\'', file);
    for (int32_t point; (point = next_point(&text)) != 0;) {
        put_point(file, point);
        if (point == '\'' || (point == '%' && use == ESCAPE_TICK)) put_point(file, point);
    }
    fputc('\'', file);
}

const char *escape_short(const char *text, int characters, char out[ESCAPE_SHORT]) {
    size_t used = 0, before_last = 0;
    for (int count = 0; used + 8 < ESCAPE_SHORT; count++) {
        const int32_t point = next_point(&text);
        if (!point) {
            out[used] = '\0';
            return out;
        }
        if (count == characters) break;
        before_last = used;
        used += utf8_encode(point, out + used);
    }
    memcpy(out + before_last, "…", sizeof "…");
    return out;
}

void escape_terminal(FILE *file, const char *text, int columns) {
    for (const char *rest = text;;) {
        const int32_t point = next_point(&rest);
        const int width = point ? utf8proc_charwidth(point) : 0;
        if (!point || width > columns) break;
        put_point(file, point);
        columns -= width;
    }
    while (columns-- > 0) fputc(' ', file);
}

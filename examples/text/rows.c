#include "text/rows.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/babi.h"
#include "text/clutrr.h"
#include "text/grow.h"
#include "text/tsv.h"

int rows_add(rows *list, const row *r, text_error *error) {
    row *grown = grow(list->row, &list->capacity, list->count + 1, sizeof *grown);
    if (!grown) return text_fail_memory(error, (list->count + 1) * sizeof *grown);
    list->row = grown;
    list->row[list->count++] = *r;
    return 0;
}

void rows_free(rows *list) {
    free(list->row);
    arena_free(&list->strings);
    *list = (rows){0};
}

/* A bAbI file begins with "1 Sentence"; a CSV header names CLUTRR's columns. */
static rows_format recognise(const char *line) {
    if (strncmp(line, "1 ", 2) == 0) return ROWS_BABI;
    if (!strchr(line, '\t') && strchr(line, ',') && strstr(line, "story") && strstr(line, "query")) return ROWS_CLUTRR;
    return ROWS_TSV;
}

/* One reader of any format. */
struct source {
    rows_format format;
    union {
        tsv tsv;
        babi babi;
        clutrr clutrr;
    } as;
};

static void attach(struct source *s, const lines *l) {
    switch (s->format) {
    case ROWS_BABI:
        babi_attach(&s->as.babi, l);
        break;
    case ROWS_CLUTRR:
        clutrr_attach(&s->as.clutrr, l);
        break;
    default:
        tsv_attach(&s->as.tsv, l);
        break;
    }
}

static int next(struct source *s, arena *strings, row *out, text_error *error) {
    switch (s->format) {
    case ROWS_BABI:
        return babi_next(&s->as.babi, strings, out, error);
    case ROWS_CLUTRR:
        return clutrr_next(&s->as.clutrr, strings, out, error);
    default:
        return tsv_next(&s->as.tsv, strings, out, error);
    }
}

static void finish(struct source *s) {
    switch (s->format) {
    case ROWS_BABI:
        babi_close(&s->as.babi);
        break;
    case ROWS_CLUTRR:
        clutrr_close(&s->as.clutrr);
        break;
    default:
        tsv_close(&s->as.tsv);
        break;
    }
}

int rows_read(rows *list, lines *l, rows_format format, const char **warning, text_error *error) {
    struct source s = {.format = format};
    if (format == ROWS_AUTO) {
        char *line;
        size_t length;
        int got = lines_next(l, &line, &length, error);
        if (got < 0) {
            lines_close(l);
            return -1;
        }
        if (got > 0) lines_again(l);
        s.format = got > 0 ? recognise(line) : ROWS_TSV;
    }
    attach(&s, l);
    size_t before = list->count;
    int got;
    row r;
    while ((got = next(&s, &list->strings, &r, error)) > 0) {
        if (rows_add(list, &r, error)) {
            got = -1;
            break;
        }
    }
    if (got < 0) list->count = before;
    if (warning) *warning = s.format == ROWS_BABI ? babi_warning : "";
    finish(&s);
    return got;
}

int rows_load(rows *list, const char *path, rows_format format, const char **warning, text_error *error) {
    lines l;
    if (warning) *warning = "";
    if (lines_open(&l, path, error)) return -1;
    return rows_read(list, &l, format, warning, error);
}

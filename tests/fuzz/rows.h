/* What every reader of rows owes its caller: an error with a message, or rows that can be written and read again. */
#ifndef TESTS_FUZZ_ROWS_H
#define TESTS_FUZZ_ROWS_H

#include "fuzz.h"

#include "text/rows.h"
#include "text/tsv.h"

static inline int fuzz_same(const row *a, const row *b) {
    return strcmp(a->split, b->split) == 0 && strcmp(a->source, b->source) == 0 &&
           strcmp(a->relation, b->relation) == 0 && a->label == b->label && strcmp(a->kind, b->kind) == 0 &&
           a->steps == b->steps && strcmp(a->group, b->group) == 0 && strcmp(a->premise, b->premise) == 0 &&
           strcmp(a->hypothesis, b->hypothesis) == 0;
}

static inline void fuzz_rows(const uint8_t *data, size_t size, rows_format format) {
    rows list = {0}, again = {0};
    text_error error = {""};
    lines l;
    lines_open_memory(&l, "fuzz", data, size);
    int got = rows_read(&list, &l, format, NULL, &error);
    HOLDS(got == 0 || (got == -1 && strncmp(error.message, "fuzz:", 5) == 0));
    HOLDS((got == 0) == (list.count > 0));

    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    for (size_t i = 0; i < list.count; i++) {
        row r = list.row[i];
        if (!*r.split) r.split = "train"; /* three columns have no split */
        if (tsv_write(file, &r, &error)) fprintf(stderr, "%s\n", error.message), abort();
    }
    fclose(file);
    if (list.count) {
        lines_open_memory(&l, "again", text, length);
        HOLDS(rows_read(&again, &l, ROWS_TSV, NULL, &error) == 0);
        HOLDS(again.count == list.count);
        for (size_t i = 0; i < list.count; i++) {
            row r = list.row[i];
            if (!*r.split) r.split = "train";
            HOLDS(fuzz_same(&r, &again.row[i]));
        }
    }
    free(text);
    rows_free(&list);
    rows_free(&again);
}

#endif

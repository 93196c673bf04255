#include "text/tsv.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "text/utf8.h"

enum { FULL = 9, BARE = 3 };

int tsv_open(tsv *t, const char *path, text_error *error) {
    lines l;
    if (lines_open(&l, path, error)) return -1;
    tsv_attach(t, &l);
    return 0;
}

void tsv_attach(tsv *t, const lines *l) {
    *t = (tsv){.lines = *l};
}
void tsv_close(tsv *t) {
    lines_close(&t->lines);
}

/* Cuts `line` at its tabs; field[] gets at most `most` starts. Returns how many fields the line has. */
static size_t cut(char *line, char **field, size_t most) {
    size_t count = 0;
    for (char *at = line;;) {
        if (count < most) field[count] = at;
        count++;
        at = strchr(at, '\t');
        if (!at) return count;
        *at++ = '\0';
    }
}

static bool one_of(const char *word, const char *const *words) {
    for (; *words; words++)
        if (strcmp(word, *words) == 0) return true;
    return false;
}

static bool is_split(const char *word) {
    return one_of(word, (const char *const[]){"train", "dev", "test", NULL});
}

/* Kind and label say the same thing twice. */
static bool is_kind(const char *word, int label) {
    return label ? strcmp(word, "true") == 0 : one_of(word, (const char *const[]){"hard", "easy", NULL});
}

/* Decimal digits and nothing else; -1 where that is not so. */
static int read_count(const char *digits) {
    int value = 0;
    if (!*digits) return -1;
    for (; *digits; digits++) {
        if (*digits < '0' || *digits > '9' || value > (INT_MAX - 9) / 10) return -1;
        value = value * 10 + (*digits - '0');
    }
    return value;
}

static int read_label(const char *field) {
    return (field[0] == '0' || field[0] == '1') && field[1] == '\0' ? field[0] - '0' : -1;
}

static int wrong(const tsv *t, text_error *error, const char *column, const char *value, const char *wanted) {
    char shown[256];
    return lines_fail(&t->lines, error, "%s is '%s'; it must be %s", column, text_excerpt(value, strlen(value), shown),
                      wanted);
}

/* Fills `r` from the fields, which still stand in the line's buffer. */
static int read_row(const tsv *t, char **field, row *r, text_error *error) {
    const char *label = field[t->columns == FULL ? 3 : 0];
    r->label = read_label(label);
    if (r->label < 0) return wrong(t, error, "label", label, "0 or 1");
    if (t->columns == FULL) {
        *r =
            (row){field[0], field[1], field[2], r->label, field[4], read_count(field[5]), field[6], field[7], field[8]};
        if (!is_split(r->split)) return wrong(t, error, "split", r->split, "train, dev or test");
        if (!*r->source) return lines_fail(&t->lines, error, "source is empty");
        if (!is_kind(r->kind, r->label))
            return wrong(t, error, "kind", r->kind,
                         r->label ? "true, since label is 1" : "hard or easy, since label is 0");
        if (r->steps < 0) return wrong(t, error, "steps", field[5], "a number from 0");
    } else {
        *r = (row){"", "tsv", "", r->label, r->label ? "true" : "hard", 0, "", field[1], field[2]};
    }
    if (!*r->premise) return lines_fail(&t->lines, error, "premise is empty");
    if (!*r->hypothesis) return lines_fail(&t->lines, error, "hypothesis is empty");
    return 0;
}

/* Copies the line into the arena once; `base` is where it stood, so that fields that point into it can follow. */
static int keep(row *r, const char *base, size_t length, arena *strings, text_error *error) {
    char *copy = arena_copy(strings, base, length);
    if (!copy) return text_fail_memory(error, length);
    const char **field[] = {&r->split, &r->source, &r->relation, &r->kind, &r->group, &r->premise, &r->hypothesis};
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        /* A bare row has constants for the columns it lacks. */
        if (*field[i] >= base && *field[i] <= base + length) *field[i] = copy + (*field[i] - base);
    }
    return 0;
}

int tsv_next(tsv *t, arena *strings, row *out, text_error *error) {
    char *line, *field[FULL];
    size_t length;
    int got = lines_next(&t->lines, &line, &length, error);
    if (got < 0) return -1;
    if (got == 0) {
        if (t->columns == 0)
            return text_fail(error, "%s: holds no row; give lines label<tab>premise<tab>hypothesis", t->lines.name);
        return 0;
    }
    if (length == 0) return lines_fail(&t->lines, error, "empty line; remove it, or restore the row that stood there");
    if (memchr(line, '\r', length))
        return lines_fail(&t->lines, error, "carriage return within the line; rows end with LF or CR LF");
    size_t count = cut(line, field, FULL);
    if (t->columns == 0) {
        if (count != FULL && count != BARE) {
            return lines_fail(&t->lines, error,
                              "%zu tab-separated columns; a row has 9 (split source relation label kind steps "
                              "group premise hypothesis) or 3 (label premise hypothesis)",
                              count);
        }
        t->columns = count;
    }
    if (count != t->columns)
        return lines_fail(&t->lines, error, "%zu tab-separated columns where the file began with %zu", count,
                          t->columns);
    if (read_row(t, field, out, error)) return -1;
    return keep(out, line, length, strings, error) ? -1 : 1;
}

int tsv_write(FILE *file, const row *r, text_error *error) {
    const char *field[] = {r->split, r->source, r->relation, r->kind, r->group, r->premise, r->hypothesis};
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        char shown[256];
        size_t length = strlen(field[i]);
        if (strpbrk(field[i], "\t\n\r"))
            return text_fail(error, "a row's field holds a tab or line end: '%s'",
                             text_excerpt(field[i], length, shown));
        if (utf8_valid_prefix(field[i], length) < length)
            return text_fail(error, "a row's field is not UTF-8: '%s'", text_excerpt(field[i], length, shown));
    }
    if (!is_split(r->split) || !*r->source || (r->label != 0 && r->label != 1) || !is_kind(r->kind, r->label) ||
        r->steps < 0 || !*r->premise || !*r->hypothesis) {
        char shown[256];
        return text_fail(error, "a row is incomplete (split '%s', source '%s', label %d, kind '%s', steps %d): '%s'",
                         r->split, r->source, r->label, r->kind, r->steps,
                         text_excerpt(r->hypothesis, strlen(r->hypothesis), shown));
    }
    if (fprintf(file, "%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\n", r->split, r->source, r->relation, r->label, r->kind,
                r->steps, r->group, r->premise, r->hypothesis) < 0) {
        return text_fail(error, "a row cannot be written: %s", strerror(errno));
    }
    return 0;
}

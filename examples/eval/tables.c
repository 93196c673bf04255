#include "eval/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/metrics.h"
#include "text/string_map.h"

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static int by_byte(const void *a, const void *b) {
    return *(const unsigned char *)a - *(const unsigned char *)b;
}

/* What a hypothesis and its swapped twin have in common: source, premise, and the hypothesis' letters sorted. NULL when
 * memory ends. */
static char *twin_key(arena *strings, const row *r, size_t *length) {
    const size_t source = strlen(r->source), premise = strlen(r->premise), hypothesis = strlen(r->hypothesis);
    *length = source + 1 + premise + 1 + hypothesis;
    char *key = arena_take(strings, *length + 1);
    if (!key) return NULL;
    snprintf(key, *length + 1, "%s\t%s\t%s", r->source, r->premise, r->hypothesis);
    qsort(key + *length - hypothesis, hypothesis, 1, by_byte);
    return key;
}

/* key[i] = the source of a swapped row, NULL for any other. */
static int swapped_keys(const row *rows, size_t count, const char **key) {
    arena scratch = {0};
    string_map truths = {0};
    int ok = 1;
    for (int pass = 0; pass < 2 && ok; pass++) /* first the true rows, then the false ones are looked up */
        for (size_t i = 0; i < count && ok; i++) {
            size_t length;
            if ((rows[i].label == 1) != (pass == 0)) continue;
            const char *twin = twin_key(&scratch, &rows[i], &length);
            ok = twin != NULL;
            if (ok && pass == 0)
                ok = string_map_add(&truths, twin, length) != STRING_MAP_NONE;
            else if (ok && string_map_find(&truths, twin, length) != STRING_MAP_NONE)
                key[i] = rows[i].source;
        }
    string_map_free(&truths);
    arena_free(&scratch);
    return ok;
}

/* Keys of the rows for one table; key[] starts as NULL: left out. */
static int make_keys(table_kind kind, arena *strings, const row *rows, size_t count, const char **key) {
    if (kind == TABLE_SWAPPED) return swapped_keys(rows, count, key);
    for (size_t i = 0; i < count; i++) {
        char text[64];
        switch (kind) {
        case TABLE_ALL:
            key[i] = "all";
            break;
        case TABLE_SOURCE:
            key[i] = rows[i].source;
            break;
        case TABLE_KIND:
            key[i] = rows[i].kind;
            break;
        case TABLE_STEPS:
            snprintf(text, sizeof text, "%d", rows[i].steps);
            key[i] = arena_copy(strings, text, strlen(text));
            break;
        default:
            snprintf(text, sizeof text, "%.40s, %d", rows[i].source, rows[i].steps);
            key[i] = arena_copy(strings, text, strlen(text));
            break;
        }
        if (!key[i]) return 0;
    }
    return 1;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static int count_table(table *out, const char *const *key, size_t count, const unsigned char *right,
                       const unsigned char *const *baseline) {
    metrics_group groups[TABLE_ROWS];
    out->count = metrics_by_key(key, right, count, groups, TABLE_ROWS);
    for (int g = 0; g < out->count; g++)
        out->row[g] = (table_row){.name = groups[g].name, .count = groups[g].count, .right = groups[g].right};
    for (int b = 0; b < BASELINE_KINDS && baseline && out->count > 0; b++) {
        metrics_by_key(key, baseline[b], count, groups, TABLE_ROWS);
        for (int g = 0; g < out->count; g++) out->row[g].baseline[b] = groups[g].right;
    }
    return out->count >= 0;
}

int tables_make(tables *t, const row *rows, size_t count, const unsigned char *right,
                const unsigned char *const *baseline, text_error *error) {
    static const char *const titles[TABLES] = {"all", "source", "kind", "steps", "source, steps", "swapped"};
    const char **key = calloc(count + 1, sizeof *key);
    int ok = key != NULL, fits = 1;
    memset(t, 0, sizeof *t);
    t->baselines = baseline != NULL;
    for (int kind = 0; ok && fits && kind < TABLES; kind++) {
        t->table[kind].title = titles[kind];
        memset(key, 0, count * sizeof *key);
        ok = make_keys((table_kind)kind, &t->strings, rows, count, key);
        fits = ok && count_table(&t->table[kind], key, count, right, baseline);
        if (ok && !fits)
            text_fail(error, "more than %d different values of %s: give rows with fewer sources", TABLE_ROWS,
                      titles[kind]);
    }
    free(key);
    if (ok && fits) return 0;
    tables_free(t);
    return ok ? -1 : text_fail_memory(error, count * sizeof *key);
}

void tables_free(tables *t) {
    arena_free(&t->strings);
}

double table_best_baseline(const tables *t, const table_row *r) {
    int64_t best = 0;
    for (int b = 0; b < BASELINE_KINDS; b++)
        if (r->baseline[b] > best) best = r->baseline[b];
    return t->baselines && r->count ? (double)best / (double)r->count : 0;
}

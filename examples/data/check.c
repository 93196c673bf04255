#include "data/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/rng.h"
#include "text/utf8.h"

enum { FOLDS = 6, LEAST_HELD_OUT = 200, MOST_HELD_OUT = 20000 };

static int fault(text_error *error) {
    (void)error;
    return 1;
}

static int check_text(const row *rows, size_t n, text_error *error) {
    for (size_t i = 0; i < n; i++) {
        const char *field[] = {rows[i].source, rows[i].relation, rows[i].kind,
                               rows[i].group,  rows[i].premise,  rows[i].hypothesis};
        for (size_t f = 0; f < sizeof field / sizeof *field; f++)
            if (utf8_valid_prefix(field[f], strlen(field[f])) < strlen(field[f]) || strpbrk(field[f], "\t\n\r")) {
                text_fail(error, "%s: a field of a row is not valid UTF-8 without tabs: \"%.80s\"", rows[i].source,
                          field[f]);
                return fault(error);
            }
    }
    return 0;
}

/* ---- leaks: the same key in two splits */

typedef struct key {
    uint64_t hash;
    int split;
    size_t row;
} key;

static int by_hash(const void *a, const void *b) {
    const key *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* The row that shares its key with a row of another split, or n. */
static size_t shared_key(key *keys, size_t count, size_t n, size_t *other) {
    if (count) qsort(keys, count, sizeof *keys, by_hash);
    for (size_t i = 1, first = 0; i < count; i++) {
        if (keys[i].hash != keys[first].hash) first = i;
        if (keys[i].split != keys[first].split) return *other = keys[first].row, keys[i].row;
    }
    return n;
}

static int is_shared_rule(const row *r) {
    return !strcmp(r->source, "kinship") && r->steps < 3;
}

static int check_leaks(const row *rows, size_t n, text_error *error) {
    key *keys = malloc((n + 1) * sizeof *keys);
    size_t count = 0, other = 0;
    if (!keys) return text_fail_memory(error, n * sizeof *keys);
    for (size_t i = 0; i < n; i++)
        keys[i] = (key){hash_string(hash_string(1, rows[i].premise), rows[i].hypothesis),
                        data_split_by_name(rows[i].split), i};
    size_t found = shared_key(keys, n, n, &other);
    if (found < n) {
        text_fail(error, "%s: a row stands in %s and in %s: \"%.120s\"", rows[found].source, rows[other].split,
                  rows[found].split, rows[found].hypothesis);
    } else {
        for (size_t i = 0; i < n; i++)
            if (*rows[i].group && !is_shared_rule(&rows[i]))
                keys[count++] = (key){hash_string(hash_string(2, rows[i].source), rows[i].group),
                                      data_split_by_name(rows[i].split), i};
        found = shared_key(keys, count, n, &other);
        if (found < n)
            text_fail(error, "%s: %s and %s both ask about \"%.80s\"", rows[found].source, rows[other].split,
                      rows[found].split, rows[found].group);
    }
    free(keys);
    return found < n ? fault(error) : 0;
}

/* ---- balance */

static check_source *find_source(check_report *report, const char *source) {
    for (int i = 0; i < report->sources; i++)
        if (!strcmp(report->source[i].source, source)) return &report->source[i];
    if (report->sources == CHECK_SOURCES) return NULL;
    report->source[report->sources].source = source;
    return &report->source[report->sources++];
}

static void count_row(check_source *s, const row *r, int split) {
    int steps = r->steps < CHECK_STEPS ? r->steps : CHECK_STEPS - 1;
    s->rows[split]++;
    s->ones[split] += r->label != 0;
    s->steps[split][steps]++;
}

static int check_balance(const row *rows, size_t n, check_report *report, text_error *error) {
    for (size_t i = 0; i < n; i++) {
        int split = data_split_by_name(rows[i].split);
        check_source *s = find_source(report, rows[i].source);
        if (split < 0) return text_fail(error, "no split is called \"%.40s\"", rows[i].split), fault(error);
        if (!s) return text_fail(error, "over %d sources: the check holds no more", CHECK_SOURCES), -1;
        count_row(s, &rows[i], split);
        count_row(&report->all, &rows[i], split);
    }
    for (int i = 0; i < report->sources; i++)
        for (int split = 0; split < DATA_SPLITS; split++) {
            const check_source *s = &report->source[i];
            if (2 * s->ones[split] != s->rows[split])
                return text_fail(error, "%s: %zu of the %zu labels in %s are 1, not half of them", s->source,
                                 s->ones[split], s->rows[split], data_split_name(split)),
                       fault(error);
            size_t two = s->steps[split][2], three = s->steps[split][3];
            if (!strcmp(s->source, "kinship") && (two > three ? two - three : three - two) > 2)
                return text_fail(error, "kinship: %zu rows of two steps and %zu of three in %s, not equal shares", two,
                                 three, data_split_name(split)),
                       fault(error);
        }
    return 0;
}

/* ---- baselines */

static size_t take(const row *rows, size_t n, const char *source, int split, row *out) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if ((!source || !strcmp(rows[i].source, source)) && (split < 0 || data_split_by_name(rows[i].split) == split))
            out[k++] = rows[i];
    return k;
}

static int test_baselines(const row *rows, size_t n, check_report *report, row *a, row *b, unsigned char *predicted) {
    size_t train = take(rows, n, NULL, DATA_TRAIN, a), test = take(rows, n, NULL, DATA_TEST, b);
    for (int kind = 0; kind < BASELINE_KINDS; kind++) {
        if (baseline_predict((baseline_kind)kind, a, train, b, test, predicted)) return -1;
        report->all.test[kind] = test ? baseline_accuracy(b, test, predicted) : (double)NAN;
        for (int i = 0; i < report->sources; i++) {
            size_t right = 0, asked = 0;
            for (size_t k = 0; k < test; k++)
                if (!strcmp(b[k].source, report->source[i].source)) asked++, right += predicted[k] == b[k].label;
            report->source[i].test[kind] = asked ? (double)right / (double)asked : (double)NAN;
        }
    }
    return 0;
}

static unsigned fold_of(const row *r) {
    return (unsigned)(hash_string(3, r->group) % FOLDS);
}

/* Rows of one source come in a: a model for each fold, fitted on the others. */
static int held_out(const row *a, size_t n, check_source *s, row *train, row *test, unsigned char *predicted) {
    for (int kind = 0; kind < BASELINE_CHEAP; kind++) {
        double right = 0;
        for (unsigned fold = 0; fold < FOLDS; fold++) {
            size_t known = 0, asked = 0;
            for (size_t i = 0; i < n; i++)
                if (fold_of(&a[i]) == fold)
                    test[asked++] = a[i];
                else
                    train[known++] = a[i];
            if (baseline_predict((baseline_kind)kind, train, known, test, asked, predicted)) return -1;
            right += baseline_accuracy(test, asked, predicted) * (double)asked;
        }
        s->held_out[kind] = right / (double)n;
    }
    return 0;
}

static int held_out_baselines(const row *rows, size_t n, check_report *report, row *a, row *train, row *test,
                              unsigned char *predicted) {
    for (int i = 0; i < report->sources; i++) {
        check_source *s = &report->source[i];
        size_t k = take(rows, n, s->source, -1, a);
        for (int kind = 0; kind < BASELINE_CHEAP; kind++) s->held_out[kind] = (double)NAN;
        if (k < LEAST_HELD_OUT) continue;
        if (k > MOST_HELD_OUT) { /* both twins or neither: they share their premise */
            size_t kept = 0, stride = k / MOST_HELD_OUT + 1;
            for (size_t j = 0; j < k; j++)
                if (hash_string(4, a[j].premise) % stride == 0) a[kept++] = a[j];
            k = kept;
        }
        if (held_out(a, k, s, train, test, predicted)) return -1;
    }
    return 0;
}

static int judge(const check_report *report, text_error *error) {
    for (int i = 0; i < report->sources; i++)
        for (int kind = 0; kind < BASELINE_CHEAP; kind++) {
            const check_source *s = &report->source[i];
            double margin = s->rows[DATA_TEST] ? 2.6 * 0.5 / sqrt((double)s->rows[DATA_TEST]) : 1;
            if (s->held_out[kind] > CHECK_LEAK)
                return text_fail(error, "%s leaks: \"%s\" answers %.1f%% of the rows of unseen groups (at most %.0f%%)",
                                 s->source, baseline_name((baseline_kind)kind), 100 * s->held_out[kind],
                                 100 * CHECK_LEAK),
                       fault(error);
            if (s->test[kind] > CHECK_LEAK + margin)
                return text_fail(error, "%s leaks: \"%s\" answers %.1f%% of the test rows", s->source,
                                 baseline_name((baseline_kind)kind), 100 * s->test[kind]),
                       fault(error);
        }
    return 0;
}

int data_check(const row *rows, size_t n, check_report *report, text_error *error) {
    memset(report, 0, sizeof *report);
    int status = check_text(rows, n, error);
    if (!status) status = check_balance(rows, n, report, error);
    if (!status) status = check_leaks(rows, n, error);
    if (status) return status;
    row *a = malloc((n + 1) * sizeof *a), *train = malloc((n + 1) * sizeof *train),
        *test = malloc((n + 1) * sizeof *test);
    unsigned char *predicted = malloc(n + 1);
    if (!a || !train || !test || !predicted || test_baselines(rows, n, report, train, test, predicted) ||
        held_out_baselines(rows, n, report, a, train, test, predicted))
        status = text_fail_memory(error, 3 * n * sizeof *a);
    free(a);
    free(train);
    free(test);
    free(predicted);
    return status ? status : judge(report, error);
}

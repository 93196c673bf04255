#include "text/clutrr.h"

#include <stdint.h>
#include <string.h>

#include "text/row_copy.h"
#include "text/split_name.h"
#include "text/string_map.h"

static const char *const column_name[CLUTRR_COLUMNS] = {"story",       "query",  "target",
                                                        "target_text", "f_comb", "task_split"};

/* CLUTRR's kin words: men at even, women at odd places. */
static const char *const kin[] = {
    "father",         "mother",        "son",           "daughter",    "brother",
    "sister",         "husband",       "wife",          "grandfather", "grandmother",
    "grandson",       "granddaughter", "uncle",         "aunt",        "nephew",
    "niece",          "father-in-law", "mother-in-law", "son-in-law",  "daughter-in-law",
    "brother-in-law", "sister-in-law",
};
enum { KIN = sizeof kin / sizeof *kin };

int clutrr_open(clutrr *c, const char *path, text_error *error) {
    lines l;
    if (lines_open(&l, path, error)) return -1;
    clutrr_attach(c, &l);
    return 0;
}

void clutrr_attach(clutrr *c, const lines *l) {
    *c = (clutrr){.split = split_of_name(l->name)};
    csv_attach(&c->csv, l);
}

void clutrr_close(clutrr *c) {
    csv_close(&c->csv);
    arena_free(&c->strings);
}

static int read_header(clutrr *c, text_error *error) {
    int got = csv_next(&c->csv, error);
    if (got < 0) return -1;
    if (got == 0) return text_fail(error, "%s: is empty; give CLUTRR's CSV with its header line", c->csv.lines.name);
    c->columns = c->csv.fields;
    for (size_t name = 0; name < CLUTRR_COLUMNS; name++) {
        c->column[name] = SIZE_MAX;
        for (size_t i = 0; i < c->columns && c->column[name] == SIZE_MAX; i++)
            if (strcmp(csv_field(&c->csv, i), column_name[name]) == 0) c->column[name] = i;
        if (c->column[name] == SIZE_MAX && name <= CLUTRR_TARGET)
            return csv_fail(&c->csv, error, "the header has no column '%s'; CLUTRR's are story, query, target",
                            column_name[name]);
    }
    return 0;
}

static char *field(const clutrr *c, size_t name) {
    return c->column[name] == SIZE_MAX ? NULL : csv_field(&c->csv, c->column[name]);
}

/* Drops brackets, makes one blank of every run of white space: a row's field holds no tab or line end. */
static void tidy(char *text) {
    char *out = text;
    for (const char *in = text; *in; in++) {
        if (*in == '[' || *in == ']') continue;
        if (*in == ' ' || *in == '\t' || *in == '\n' || *in == '\r') {
            if (out > text && out[-1] != ' ') *out++ = ' ';
        } else {
            *out++ = *in;
        }
    }
    if (out > text && out[-1] == ' ') out--;
    *out = '\0';
}

/* Cuts the two names out of ('A', 'B'); false where it does not read so. */
static bool read_query(char *query, char **a, char **b) {
    char *at = query;
    char **name[] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        at += strcspn(at, "'\"");
        char quote[2] = {*at, '\0'};
        if (!*at) return false;
        *name[i] = ++at;
        at = strchr(at, quote[0]);
        if (!at || at == *name[i]) return false;
        *at++ = '\0';
        tidy(*name[i]);
        if (!**name[i]) return false;
    }
    return true;
}

static size_t kin_index(const char *word) {
    for (size_t i = 0; i < KIN; i++)
        if (strcmp(word, kin[i]) == 0) return i;
    return KIN;
}

/* Another word of the same gender, picked by a hash of the record, so that it is the same on every machine. */
static const char *false_kin(size_t target, const char *premise, const char *a, const char *b) {
    uint64_t hash = string_hash(premise, strlen(premise));
    hash = string_hash_more(hash, a, strlen(a) + 1);
    hash = string_hash_more(hash, b, strlen(b) + 1);
    size_t others = KIN / 2 - 1, pick = (size_t)((hash >> 32) % others);
    if (pick >= target / 2) pick++;
    return kin[2 * pick + target % 2];
}

/* "A is B's word." in the arena. */
static const char *statement(arena *strings, const char *who, const char *whose, const char *word) {
    const char *const piece[] = {who, " is ", whose, "'s ", word, "."};
    return arena_join(strings, piece, sizeof piece / sizeof *piece);
}

static int steps_of(const char *combination) {
    int steps = *combination != '\0';
    for (; *combination && steps < 1000; combination++) steps += *combination == '-';
    return steps;
}

/* "mother-in-law" holds hyphens of its own; CLUTRR's f_comb joins plain words, so only "-in-law" needs care. */
static int in_laws(const char *combination) {
    int count = 0;
    while ((combination = strstr(combination, "-in-law"))) {
        count++;
        combination += strlen("-in-law");
    }
    return count;
}

static int read_split(const clutrr *c, const char **split, text_error *error) {
    const char *given = field(c, CLUTRR_SPLIT);
    *split = c->split;
    if (!given || !*given) return 0;
    if (strcmp(given, "train") == 0) {
        *split = "train";
    } else if (strcmp(given, "test") == 0) {
        *split = "test";
    } else if (strcmp(given, "validation") == 0 || strcmp(given, "dev") == 0) {
        *split = "dev";
    } else {
        char shown[256];
        return csv_fail(&c->csv, error, "task_split is '%s'; it must be train, validation or test",
                        text_excerpt(given, strlen(given), shown));
    }
    return 0;
}

static int read_record(clutrr *c, row *out, text_error *error) {
    char *story = field(c, CLUTRR_STORY), *query = field(c, CLUTRR_QUERY), *target = field(c, CLUTRR_TARGET);
    char *combination = field(c, CLUTRR_COMBINATION), *a, *b, shown[256];
    *out = (row){.source = "clutrr", .relation = "Kin", .label = 1, .kind = "true"};
    if (read_split(c, &out->split, error)) return -1;
    tidy(story);
    if (!*story) return csv_fail(&c->csv, error, "story is empty");
    text_excerpt(query, strlen(query), shown);
    if (!read_query(query, &a, &b))
        return csv_fail(&c->csv, error, "query is '%s'; it must be two names like ('Ann', 'Bob')", shown);
    if (*target >= '0' && *target <= '9' && field(c, CLUTRR_TARGET_TEXT)) target = field(c, CLUTRR_TARGET_TEXT);
    tidy(target);
    size_t word = kin_index(target);
    if (word == KIN)
        return csv_fail(&c->csv, error, "target is '%s', which is no kin word of CLUTRR",
                        text_excerpt(target, strlen(target), shown));
    if (combination) tidy(combination);

    out->steps = combination ? steps_of(combination) - 2 * in_laws(combination) : 0;
    out->group = combination ? arena_copy(&c->strings, combination, strlen(combination)) : "";
    out->premise = arena_copy(&c->strings, story, strlen(story));
    out->hypothesis = statement(&c->strings, b, a, kin[word]);
    c->twin = *out;
    c->twin.label = 0;
    c->twin.kind = "hard";
    c->twin.hypothesis = statement(&c->strings, b, a, false_kin(word, story, a, b));
    if (!out->group || !out->premise || !out->hypothesis || !c->twin.hypothesis)
        return text_fail_memory(error, strlen(story));
    c->has_twin = c->yielded = true;
    return 1;
}

int clutrr_next(clutrr *c, arena *strings, row *out, text_error *error) {
    if (c->has_twin) {
        c->has_twin = false;
        return row_copy(strings, &c->twin, out, error) ? -1 : 1;
    }
    if (c->columns == 0 && read_header(c, error)) return -1;
    int got = csv_next(&c->csv, error);
    if (got < 0) return -1;
    if (got == 0) return c->yielded ? 0 : text_fail(error, "%s: holds a header and no record", c->csv.lines.name);
    if (c->csv.fields != c->columns)
        return csv_fail(&c->csv, error, "%zu fields where the header has %zu", c->csv.fields, c->columns);
    arena_reset(&c->strings);
    got = read_record(c, out, error);
    return got > 0 && row_copy(strings, out, out, error) ? -1 : got;
}

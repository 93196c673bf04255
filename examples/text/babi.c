#include "text/babi.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/grow.h"
#include "text/row_copy.h"
#include "text/split_name.h"
#include "text/string_map.h"

const char babi_warning[] =
    "the published bAbI files have known flaws: 15% of the task 17 test rows stand in its training file;\n"
    "91% of task 18 can be answered from the question alone, without the story";

int babi_open(babi *b, const char *path, text_error *error) {
    lines l;
    if (lines_open(&l, path, error)) return -1;
    babi_attach(b, &l);
    return 0;
}

void babi_attach(babi *b, const lines *l) {
    *b = (babi){.lines = *l, .split = split_of_name(l->name)};
}

void babi_close(babi *b) {
    lines_close(&b->lines);
    free(b->premise);
    arena_free(&b->strings);
    *b = (babi){.lines.ended = true};
}

/* ---- lines */

/* Reads the number in front of a line, 1 or the last one + 1; *at moves to the text behind it. */
static int read_number(babi *b, char **at, text_error *error) {
    size_t number = 0;
    char *digit = *at;
    for (; *digit >= '0' && *digit <= '9' && number < SIZE_MAX / 16; digit++)
        number = number * 10 + (size_t)(*digit - '0');
    if (digit == *at || *digit != ' ')
        return lines_fail(&b->lines, error,
                          "the line does not begin with a number and a blank; bAbI lines read '3 Lily is gray.'");
    if (number != 1 && number != b->last + 1) {
        return lines_fail(&b->lines, error,
                          "line number %zu of the story follows number %zu; a line is missing or doubled", number,
                          b->last);
    }
    if (number == 1) b->length = 0;
    b->last = number;
    *at = digit + 1;
    return 0;
}

static int add_fact(babi *b, const char *fact, text_error *error) {
    size_t length = strlen(fact);
    if (length == 0 || strchr(fact, '\r'))
        return lines_fail(&b->lines, error, "a fact is empty or holds a carriage return");
    char *premise = grow(b->premise, &b->capacity, b->length + length + 2, 1);
    if (!premise) return text_fail_memory(error, b->length + length + 2);
    b->premise = premise;
    if (b->length) b->premise[b->length++] = ' ';
    memcpy(b->premise + b->length, fact, length + 1);
    b->length += length;
    return 0;
}

/* How many facts support the answer: ids of earlier lines, blanks between; -1 where they do not read so. */
static int count_support(const babi *b, const char *ids) {
    int count = 0;
    while (*ids) {
        size_t id = 0;
        const char *digit = ids;
        for (; *digit >= '0' && *digit <= '9' && id < b->last; digit++) id = id * 10 + (size_t)(*digit - '0');
        if (digit == ids || (*digit && *digit != ' ') || id == 0 || id >= b->last || count == 1000) return -1;
        count++;
        ids = *digit ? digit + 1 : digit;
    }
    return count;
}

/* ---- questions */

/* The text between `prefix` and `suffix`, or NULL; `text` is cut in place. */
static char *between(char *text, const char *prefix, const char *suffix) {
    size_t front = strlen(prefix), back = strlen(suffix), length = strlen(text);
    if (length <= front + back || strncmp(text, prefix, front) != 0 || strcmp(text + length - back, suffix) != 0)
        return NULL;
    text[length - back] = '\0';
    return text + front;
}

/* Cuts "A<link>B" in two; true where both sides are there. */
static bool part(char *text, const char *link, char **a, char **b) {
    char *at = strstr(text, link);
    if (!at || at == text || !at[strlen(link)]) return false;
    *at = '\0';
    *a = text;
    *b = at + strlen(link);
    return true;
}

/* The strings given, one after another, in the arena. */
#define JOIN(strings, ...)                                                                                             \
    arena_join(strings, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* The two things asked about in byte order: the same group for both directions. */
static char *unordered(arena *strings, const char *a, const char *b) {
    return strcmp(a, b) < 0 ? JOIN(strings, a, "|", b) : JOIN(strings, b, "|", a);
}

struct relation {
    const char *prefix, *link;        /* of the question */
    const char *source, *name, *verb; /* of the statement */
};
static const struct relation relations[] = {
    {"Is the ", " to the left of the ", "babi17", "Position", " is to the left of the "},
    {"Is the ", " to the right of the ", "babi17", "Position", " is to the right of the "},
    {"Is the ", " above the ", "babi17", "Position", " is above the "},
    {"Is the ", " below the ", "babi17", "Position", " is below the "},
    {"Is the ", " bigger than the ", "babi18", "Size", " is bigger than the "},
    {"Does the ", " fit in the ", "babi18", "Size", " fits inside the "},
};

/* A yes/no question as a statement: 1 done, 0 not such a question. */
static int read_yes_no(babi *b, char *question, const char *answer, row *out, text_error *error) {
    for (size_t i = 0; i < sizeof relations / sizeof *relations; i++) {
        const struct relation *r = &relations[i];
        size_t front = strlen(r->prefix), length = strlen(question);
        if (strncmp(question, r->prefix, front) != 0 || length < front + 1 || question[length - 1] != '?') continue;
        if (!strstr(question + front, r->link)) continue;
        char *x, *y, *asked = between(question, r->prefix, "?");
        if (!asked || !part(asked, r->link, &x, &y))
            return lines_fail(&b->lines, error, "the question names no two things");
        bool yes = strcmp(answer, "yes") == 0;
        if (!yes && strcmp(answer, "no") != 0) {
            char shown[256];
            return lines_fail(&b->lines, error, "the answer is '%s'; it must be yes or no",
                              text_excerpt(answer, strlen(answer), shown));
        }
        out->source = r->source;
        out->relation = r->name;
        out->label = yes;
        out->kind = yes ? "true" : "hard";
        out->group = unordered(&b->strings, x, y);
        out->hypothesis = JOIN(&b->strings, "the ", x, r->verb, y, ".");
        return 1;
    }
    return 0;
}

/* What the story says of `who` with an article or without: "Lily is a swan." the animal, "Lily is gray." the colour. */
static bool read_fact(const char *fact, size_t length, const char **who, size_t *who_length, const char **what,
                      size_t *what_length, bool *animal) {
    static const char is[] = " is ", article[] = "a ", article_n[] = "an ";
    for (size_t i = 1; i + sizeof is - 1 < length; i++) {
        if (memcmp(fact + i, is, sizeof is - 1) != 0) continue;
        const char *rest = fact + i + sizeof is - 1;
        size_t left = length - (size_t)(rest - fact);
        size_t skip = left > 2 && memcmp(rest, article, 2) == 0     ? 2
                      : left > 3 && memcmp(rest, article_n, 3) == 0 ? 3
                                                                    : 0;
        *who = fact;
        *who_length = i;
        *animal = skip > 0;
        *what = rest + skip;
        *what_length = left - skip;
        return *what_length > 0;
    }
    return false;
}

/* Walks over the facts of the premise ("... . ... ."): the next one from *at on, without its full stop. */
static bool next_fact(const babi *b, size_t *at, const char **fact, size_t *length) {
    if (*at >= b->length) return false;
    const char *from = b->premise + *at, *stop = strstr(from, ". ");
    size_t all = b->length - *at;
    *fact = from;
    *length = stop ? (size_t)(stop - from) : all - (from[all - 1] == '.');
    *at += stop ? *length + 2 : all;
    return true;
}

/* Another colour of the story than `colour`, picked by hash among the distinct ones in order of mention; NULL: none. */
static const char *other_colour(const babi *b, arena *strings, const char *colour, uint64_t hash, bool *memory) {
    string_map colours = {0};
    const char *fact, *who, *what, *picked = NULL;
    size_t length, who_length, what_length;
    bool animal;
    *memory = true;
    for (size_t at = 0; *memory && next_fact(b, &at, &fact, &length);) {
        if (!read_fact(fact, length, &who, &who_length, &what, &what_length, &animal) || animal) continue;
        if (what_length == strlen(colour) && memcmp(what, colour, what_length) == 0) continue;
        *memory = string_map_add(&colours, what, what_length) != STRING_MAP_NONE;
    }
    if (*memory && colours.count > 0) {
        const struct string_map_entry *e = &colours.entry[(size_t)((hash >> 32) % colours.count)];
        picked = arena_copy(strings, e->bytes, e->length);
        *memory = picked != NULL;
    }
    string_map_free(&colours);
    return picked;
}

/* "Person animal colour", the animal as the story tells it. */
static char *triple(const babi *b, arena *strings, const char *person, const char *colour) {
    const char *fact, *who, *what;
    size_t length, who_length, what_length;
    bool animal;
    for (size_t at = 0; next_fact(b, &at, &fact, &length);) {
        if (!read_fact(fact, length, &who, &who_length, &what, &what_length, &animal) || !animal) continue;
        if (who_length != strlen(person) || memcmp(who, person, who_length) != 0) continue;
        char *named = arena_copy(strings, what, what_length);
        return named ? JOIN(strings, person, " ", named, " ", colour) : NULL;
    }
    return JOIN(strings, person, " ", colour);
}

/* "What color is Brian?" as a statement and its false twin: 1 done, 0 not such a question. */
static int read_colour(babi *b, char *question, const char *answer, row *out, text_error *error) {
    uint64_t hash = string_hash_more(string_hash(b->premise, b->length), question, strlen(question));
    char *person = between(question, "What color is ", "?");
    if (!person) return 0;
    if (!*answer) return lines_fail(&b->lines, error, "the answer is empty; it must be a colour");
    out->source = "babi16";
    out->relation = "HasColor";
    out->label = 1;
    out->kind = "true";
    out->group = triple(b, &b->strings, person, answer);
    out->hypothesis = JOIN(&b->strings, person, " is ", answer, ".");
    bool memory;
    const char *other = other_colour(b, &b->strings, answer, hash, &memory);
    if (!memory) return text_fail_memory(error, b->length);
    if (other) {
        b->twin = *out;
        b->twin.label = 0;
        b->twin.kind = "hard";
        b->twin.hypothesis = JOIN(&b->strings, person, " is ", other, ".");
        if (!b->twin.hypothesis) return text_fail_memory(error, strlen(person));
        b->has_twin = true;
    }
    return 1;
}

static int read_question(babi *b, char *question, char *answer, row *out, text_error *error) {
    char *support = strchr(answer, '\t'), shown[256];
    if (support) *support++ = '\0';
    *out = (row){.split = b->split};
    out->steps = support ? count_support(b, support) : 0;
    if (out->steps < 0)
        return lines_fail(&b->lines, error, "the supporting facts must be numbers of earlier lines of the story");
    if (b->length == 0) return lines_fail(&b->lines, error, "a question before any fact of its story");
    /* bAbI writes a blank behind some question marks. */
    size_t length = strlen(question);
    while (length > 0 && question[length - 1] == ' ') question[--length] = '\0';
    if (strchr(question, '\r') || strchr(answer, '\r'))
        return lines_fail(&b->lines, error, "carriage return within the line");
    text_excerpt(question, length, shown);
    int got = read_yes_no(b, question, answer, out, error);
    if (got == 0) got = read_colour(b, question, answer, out, error);
    if (got < 0) return -1;
    if (got == 0)
        return lines_fail(&b->lines, error, "'%s' is no question of the tasks 16, 17, 18; only these files can be read",
                          shown);
    out->premise = arena_copy(&b->strings, b->premise, b->length);
    b->twin.premise = out->premise;
    b->twin.split = out->split;
    b->twin.steps = out->steps;
    if (!out->premise || !out->hypothesis || !out->group) return text_fail_memory(error, b->length);
    b->asked = true;
    return 1;
}

int babi_next(babi *b, arena *strings, row *out, text_error *error) {
    if (b->has_twin) {
        b->has_twin = false;
        return row_copy(strings, &b->twin, out, error) ? -1 : 1;
    }
    for (;;) {
        char *line;
        size_t length;
        int got = lines_next(&b->lines, &line, &length, error);
        if (got < 0) return -1;
        if (got == 0) {
            return b->asked
                       ? 0
                       : text_fail(error, "%s: holds no question; give a bAbI task file 16, 17 or 18", b->lines.name);
        }
        if (read_number(b, &line, error)) return -1;
        char *tab = strchr(line, '\t');
        if (tab) {
            *tab = '\0';
            arena_reset(&b->strings);
            got = read_question(b, line, tab + 1, out, error);
            return got > 0 && row_copy(strings, out, out, error) ? -1 : got;
        }
        if (add_fact(b, line, error)) return -1;
    }
}

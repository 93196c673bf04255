#include "text/plain.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/grow.h"

static const char licence[] = "  1 This software and database";

void plain_attach(plain *p, const lines *l) {
    *p = (plain){.lines = *l};
}

int plain_open(plain *p, const char *path, text_error *error) {
    lines l;
    if (lines_open(&l, path, error)) return -1;
    plain_attach(p, &l);
    return 0;
}

void plain_close(plain *p) {
    lines_close(&p->lines);
    free(p->text);
    *p = (plain){.lines.ended = true};
}

/* Field `index` of a blank-separated line, its length in *length; NULL where there are fewer. */
static const char *nth_field(const char *line, int index, size_t *length) {
    for (; index > 0; index--) {
        line = strchr(line, ' ');
        if (!line) return NULL;
        line++;
    }
    *length = strcspn(line, " ");
    return *length ? line : NULL;
}

/* "offset lexfile type count word lexid ... | gloss" as "word : gloss." in p->text. */
static int read_gloss(plain *p, const char *line, size_t length, size_t *text_length, text_error *error) {
    enum { WORD = 4 }; /* place of the first word among the fields */
    size_t word_length, digits = strspn(line, "0123456789");
    const char *bar = strstr(line, " | "), *word = nth_field(line, WORD, &word_length);
    if (digits != 8 || !bar || !word || word > bar)
        return lines_fail(&p->lines, error, "is no synset line of a WordNet data file");
    const char *gloss = bar + strlen(" | "), *end = line + length;
    while (end > gloss && end[-1] == ' ') end--;
    if (end == gloss) return lines_fail(&p->lines, error, "the synset has no gloss");
    size_t marker = strcspn(word, "( "); /* adjectives carry a place marker: galore(ip) */
    if (marker < word_length) word_length = marker;

    size_t gloss_length = (size_t)(end - gloss), size = word_length + gloss_length + sizeof " : .";
    char *out = grow(p->text, &p->capacity, size, 1);
    if (!out) return text_fail_memory(error, size);
    p->text = out;
    for (size_t i = 0; i < word_length; i++) *out++ = word[i] == '_' ? ' ' : word[i];
    memcpy(out, " : ", 3);
    out += 3;
    memcpy(out, gloss, gloss_length);
    out += gloss_length;
    if (!strchr(".!?\"", out[-1])) *out++ = '.';
    *out = '\0';
    *text_length = (size_t)(out - p->text);
    return 1;
}

int plain_next(plain *p, const char **text, size_t *length, text_error *error) {
    for (;;) {
        char *line;
        size_t size;
        int got = lines_next(&p->lines, &line, &size, error);
        if (got < 0) return -1;
        if (got == 0)
            return p->yielded ? 0 : text_fail(error, "%s: holds no text; give a paragraph a line", p->lines.name);
        if (p->lines.number == 1 && strncmp(line, licence, sizeof licence - 1) == 0) p->glosses = true;
        if (p->glosses && strncmp(line, "  ", 2) == 0) continue;
        if (line[strspn(line, " \t\r\f\v")] == '\0') continue;
        p->yielded = true;
        *text = line;
        *length = size;
        if (!p->glosses) return 1;
        got = read_gloss(p, line, size, length, error);
        *text = p->text;
        return got;
    }
}

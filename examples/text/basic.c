#include "text/basic.h"

#include <string.h>
#include <utf8proc.h>

#include "text/utf8.h"

bool basic_is_cjk(int32_t point) {
    return (point >= 0x4E00 && point <= 0x9FFF) || (point >= 0x3400 && point <= 0x4DBF) ||
           (point >= 0x20000 && point <= 0x2A6DF) || (point >= 0x2A700 && point <= 0x2B73F) ||
           (point >= 0x2B740 && point <= 0x2B81F) || (point >= 0x2B820 && point <= 0x2CEAF) ||
           (point >= 0xF900 && point <= 0xFAFF) || (point >= 0x2F800 && point <= 0x2FA1F);
}

bool basic_is_punctuation(int32_t point) {
    if (point < 0x80) {
        return (point >= '!' && point <= '/') || (point >= ':' && point <= '@') || (point >= '[' && point <= '`') ||
               (point >= '{' && point <= '~');
    }
    switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
        return true;
    default:
        return false;
    }
}

static bool is_space(int32_t point) {
    if (point < 0x80) return point == ' ' || point == '\t' || point == '\n' || point == '\r';
    utf8proc_category_t category = utf8proc_category(point);
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

static bool is_dropped(int32_t point) {
    if (point < 0x80) return point < 0x20 || point == 0x7F;
    if (point == 0xFFFD) return true;
    switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
        return true;
    default:
        return false;
    }
}

static bool is_closing(int32_t point) {
    if (point == '"' || point == '\'' || point == ')' || point == ']' || point == '}') return true;
    if (point < 0x80) return false;
    utf8proc_category_t category = utf8proc_category(point);
    return category == UTF8PROC_CATEGORY_PE || category == UTF8PROC_CATEGORY_PF;
}

enum sentence_state {
    INSIDE,  /* of a sentence */
    MAY_END, /* behind '.', which ends one if white space follows (not in 3.14) */
    ENDS,    /* behind an ideographic full stop: only closing brackets may still belong to it */
    BETWEEN  /* two sentences */
};

struct scanner {
    bool lower;
    int (*each)(void *user, const basic_word *word);
    void *user;
    char bytes[BASIC_MAX_CHARACTERS * 4];
    size_t length, characters; /* of the word being gathered */
    size_t begin, end;
    enum sentence_state state;
};

/* Gives the gathered bytes as a word; `point` is the character of a word that is one punctuation mark, else 0. */
static int give(struct scanner *s, int32_t point) {
    if (s->characters == 0) return 0;
    basic_word word = {.bytes = s->bytes,
                       .length = s->length,
                       .overlong = s->characters > BASIC_MAX_CHARACTERS,
                       .begin = s->begin,
                       .end = s->end};
    word.starts = s->state == BETWEEN || (s->state == ENDS && !is_closing(point));
    if (point == '.' || point == '?' || point == '!') {
        s->state = MAY_END;
    } else if (point == 0x3002 || point == 0xFF01 || point == 0xFF1F || point == 0xFF61) {
        s->state = ENDS;
    } else if (word.starts || !is_closing(point)) {
        s->state = INSIDE;
    }
    word.ends = s->state != INSIDE;
    s->length = s->characters = 0;
    return s->each(s->user, &word);
}

static void gather(struct scanner *s, int32_t point, size_t begin, size_t end) {
    if (s->characters == 0) s->begin = begin;
    s->end = end;
    if (s->characters < BASIC_MAX_CHARACTERS) s->length += utf8_encode(point, s->bytes + s->length);
    s->characters++;
}

static int gather_alone(struct scanner *s, int32_t point, size_t begin, size_t end) {
    int stopped = give(s, 0);
    if (stopped) return stopped;
    gather(s, point, begin, end);
    return give(s, point);
}

/* Normalizes one character and gathers what becomes of it. Canonical order of marks needs no step of its own: it moves
 * marks of category Mn only, which are stripped (but for a handful of musical and Hangul tone marks). */
static int normalize(struct scanner *s, int32_t point, size_t begin, size_t end) {
    utf8proc_int32_t part[8] = {point};
    utf8proc_ssize_t parts = 1;
    if (s->lower && point < 0x80) {
        if (point >= 'A' && point <= 'Z') part[0] = point + ('a' - 'A');
    } else if (s->lower) {
        int boundary = 0;
        parts = utf8proc_decompose_char(point, part, 8, UTF8PROC_DECOMPOSE, &boundary);
        if (parts < 0 || parts > 8) return 0;
    }
    for (utf8proc_ssize_t i = 0; i < parts; i++) {
        int32_t one = part[i];
        if (s->lower && one >= 0x80) {
            if (utf8proc_category(one) == UTF8PROC_CATEGORY_MN) continue;
            one = utf8proc_tolower(one);
        } else if (s->lower && one >= 'A' && one <= 'Z') {
            one += 'a' - 'A';
        }
        if (basic_is_punctuation(one)) {
            int stopped = gather_alone(s, one, begin, end);
            if (stopped) return stopped;
        } else {
            gather(s, one, begin, end);
        }
    }
    return 0;
}

int basic_words(const char *text, size_t length, bool lower, int (*each)(void *user, const basic_word *word),
                void *user) {
    struct scanner s = {.lower = lower, .each = each, .user = user, .state = INSIDE};
    size_t at = 0;
    while (at < length) {
        int32_t point;
        size_t begin = at;
        at += utf8_decode(text + at, length - at, &point);
        int stopped = 0;
        if (point < 0) continue;
        if (is_space(point)) {
            stopped = give(&s, 0);
            if (s.state != INSIDE) s.state = BETWEEN;
        } else if (is_dropped(point)) {
            continue;
        } else if (basic_is_cjk(point)) {
            stopped = give(&s, 0);
            if (!stopped)
                stopped = normalize(&s, point, begin, at); /* compatibility ideographs have a canonical form */
            if (!stopped) stopped = give(&s, 0);
        } else {
            stopped = normalize(&s, point, begin, at);
        }
        if (stopped) return stopped;
    }
    return give(&s, 0);
}

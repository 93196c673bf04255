/* Small English helpers for the rows made from glosses. */
#include <string.h>

#include "data/knowledge.h"

static int letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

const char *article(const char *word) {
    /* by sound: a vowel letter, but not "yoo" (unicorn, uniform, ewe) nor "wu" (one-) */
    static const char *const consonant[] = {"uni", "use", "uka", "uri", "ute", "eu", "ewe", "one", "ura"};
    static const char *const vowel[] = {"hour", "heir", "honor", "unin", "unim", "herb"};
    for (size_t i = 0; i < sizeof vowel / sizeof *vowel; i++)
        if (!strncmp(word, vowel[i], strlen(vowel[i]))) return "an";
    for (size_t i = 0; i < sizeof consonant / sizeof *consonant; i++)
        if (!strncmp(word, consonant[i], strlen(consonant[i]))) return "a";
    return strchr("aeiou", *word) && *word ? "an" : "a";
}

int is_plural(const char *word) {
    size_t n = strlen(word);
    if (!strcmp(word, "teeth") || !strcmp(word, "cattle")) return 1;
    return n > 2 && word[n - 1] == 's' && !strchr("sui", word[n - 2]);
}

int gloss_definition(const char *gloss, int most, char *out, size_t size) {
    size_t n = 0;
    int brackets = 0, words = 0;
    for (; *gloss && !(!brackets && (*gloss == ';' || *gloss == '"')); gloss++) {
        if (*gloss == '(') brackets++;
        if (!brackets) {
            if (*gloss == ' ' && (!n || out[n - 1] == ' ')) continue;
            if (n + 1 >= size) return 0;
            out[n++] = *gloss;
        }
        if (*gloss == ')' && brackets) brackets--;
    }
    while (n && strchr(" ,:;.", out[n - 1])) n--;
    out[n] = 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)out[i] < ' ' || (unsigned char)out[i] > '~') return 0;
    for (size_t i = 0; i < n; i++) words += letter(out[i]) && (!i || !letter(out[i - 1]));
    for (size_t i = 0; i < n; i++) words += strchr(",.'-:/`", out[i]) != NULL; /* tokens of their own */
    return n > 0 && words <= most;
}

/* Length of `word` or its plural at `at`, where a word begins; 0 if something else stands there. */
static size_t word_at(const char *text, const char *at, const char *word) {
    size_t n = strlen(word);
    const char *end = at + n;
    if ((at != text && letter(at[-1])) || strncmp(at, word, n)) return 0;
    if (!strncmp(end, "es", 2) && !letter(end[2])) return n + 2;
    if (*end == 's') end++;
    return letter(*end) ? 0 : (size_t)(end - at);
}

int text_names(const char *text, const char *word) {
    for (const char *at = text; (at = strstr(at, word)); at++)
        if (word_at(text, at, word)) return 1;
    return 0;
}

int text_mask(char *text, size_t size, const char *word) {
    static const char instead[] = "something";
    char out[1024];
    size_t n = 0;
    for (const char *at = text; *at;) {
        size_t length = word_at(text, at, word);
        if (n + sizeof instead >= sizeof out) return -1;
        if (length) {
            memcpy(out + n, instead, sizeof instead - 1);
            n += sizeof instead - 1;
            at += length;
        } else {
            out[n++] = *at++;
        }
    }
    if (n >= size) return -1;
    memcpy(text, out, n);
    text[n] = 0;
    return 0;
}

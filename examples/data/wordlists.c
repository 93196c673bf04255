#include "data/wordlists.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The lists are ISO 8859-1: a line with any byte outside a-z is passed over, whatever it means. */
static int load_list(string_map *words, const char *path, text_error *error) {
    char word[64];
    size_t n = 0;
    int c, plain = 1, status = 0;
    FILE *f = fopen(path, "rb");
    if (!f) return text_fail(error, "%s: %s", path, strerror(errno));
    do {
        c = getc(f);
        if (c == '\n' || c == EOF) {
            if (plain && n && string_map_add(words, word, n) == STRING_MAP_NONE) status = text_fail_memory(error, n);
            n = 0, plain = 1;
        } else if (c < 'a' || c > 'z' || n == sizeof word) {
            plain = 0;
        } else {
            word[n++] = (char)c;
        }
    } while (c != EOF && !status);
    if (!status && ferror(f)) status = text_fail(error, "%s: %s", path, strerror(errno));
    fclose(f);
    return status;
}

int wordlists_load(string_map *words, const char *folder, text_error *error) {
    static const char *const variants[] = {"english", "american"};
    static const int sizes[] = {10, 20, 35, 40, 50};
    for (size_t v = 0; v < 2; v++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            char path[4096];
            if (snprintf(path, sizeof path, "%s/%s-words.%d", folder, variants[v], sizes[s]) >= (int)sizeof path)
                return text_fail(error, "%.60s...: the path is too long", folder);
            if (load_list(words, path, error)) return -1;
        }
    return 0;
}

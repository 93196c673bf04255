/* Replays the corpus of each fuzz target: inputs that failed once, and seeds of its forms. A target that finds a
 * property broken aborts. */
#include "text_helper.h"

#include <dirent.h>

#include "fuzz/alphas.c"
#include "fuzz/babi.c"
#include "fuzz/clutrr.c"
#include "fuzz/plain.c"
#include "fuzz/tokens.c"
#include "fuzz/tsv.c"
#include "fuzz/vocabulary.c"

static void replay_file(const char *path, int (*target)(const uint8_t *, size_t)) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    enum { LARGEST = 1 << 20 };
    uint8_t *data = malloc(LARGEST);
    size_t size = fread(data, 1, LARGEST, file);
    fclose(file);
    uint8_t *exact = malloc(size + (size == 0));
    memcpy(exact, data, size);
    free(data);
    assert_int_equal(target(exact, size), 0);
    free(exact);
}

static void replay(const char *name, int (*target)(const uint8_t *, size_t)) {
    char folder[300], path[600];
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", name);
    DIR *open = opendir(folder);
    if (!open) fail_msg("%s is missing; run the tests from the repository's root", folder);
    size_t files = 0;
    for (struct dirent *entry; (entry = readdir(open));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        replay_file(path, target);
        files++;
    }
    closedir(open);
    assert_true(files > 0);
    assert_int_equal(target((const uint8_t *)"", 0), 0);
}

#define REPLAY(name)                                                                                                   \
    static void test_##name(void **state) {                                                                            \
        (void)state;                                                                                                   \
        replay(#name, fuzz_##name);                                                                                    \
    }
REPLAY(alphas)
REPLAY(babi)
REPLAY(clutrr)
REPLAY(plain)
REPLAY(tokens)
REPLAY(tsv)
REPLAY(vocabulary)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alphas),     cmocka_unit_test(test_babi),   cmocka_unit_test(test_clutrr),
        cmocka_unit_test(test_plain),      cmocka_unit_test(test_tokens), cmocka_unit_test(test_tsv),
        cmocka_unit_test(test_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

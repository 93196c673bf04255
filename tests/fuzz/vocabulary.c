/* A vocabulary from outside, and one trained on the input: it parses, reads back and leaves no known word unknown. */
#include "fuzz.h"

#include "text/basic.h"
#include "text/wordpiece.h"

FUZZ(vocabulary)(const uint8_t *data, size_t size) {
    text_error error = {""};
    const char *text = size ? (const char *)data : "";
    tokenizer *given = tokenizer_parse("fuzz", text, size, true, &error);
    HOLDS(given || strncmp(error.message, "fuzz:", 5) == 0);
    token_list list = {0};
    if (given) HOLDS(tokenize(given, NULL, text, size, &list, &error) == 0);
    tokenizer_free(given);

    wordpiece_options options = {
        .lower = size % 2, .min_count = 1 + size % 3, .max_words = size % 5, .max_pieces = size % 7};
    wordpiece *w = wordpiece_new(&options);
    HOLDS(w && wordpiece_add(w, text, size, &error) == 0);
    tokenizer *t = wordpiece_finish(w, &error);
    if (!t) fprintf(stderr, "%s\n", error.message);
    HOLDS(t);
    HOLDS(tokenize(t, NULL, text, size, &list, &error) == 0);
    /* Only words over 100 characters are unknown. */
    for (size_t i = 0; i < list.count; i++)
        HOLDS(list.token[i].id != tokenizer_unk(t) ||
              list.token[i].end - list.token[i].begin > BASIC_MAX_CHARACTERS / 4);
    token_list_free(&list);
    tokenizer_free(t);
    wordpiece_free(w);
    return 0;
}

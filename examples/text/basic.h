/* BERT's basic tokenizer: text -> normalized words. Control, format and private characters, U+FFFD and bytes that
 * are no UTF-8 are dropped; white space parts words; CJK characters and punctuation are words of their own; with
 * `lower`, accents are stripped (NFD without category Mn) and letters lowered. Memory is constant for texts of any
 * length. */
#ifndef TEXT_BASIC_H
#define TEXT_BASIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BASIC_MAX_CHARACTERS = 100 }; /* a longer word is unknown, as in BERT */

typedef struct basic_word {
    const char *bytes; /* normalized UTF-8, not NUL-terminated, valid during the call */
    size_t length;     /* in bytes */
    bool overlong;     /* more than BASIC_MAX_CHARACTERS characters; bytes then hold the first of them */
    bool starts;       /* a sentence that began before this word ended before it: this word opens the next */
    bool ends;         /* a sentence ends here if white space or the end of the text follows */
    size_t begin, end; /* where it stands in the text, in bytes */
} basic_word;

/* Calls `each` for every word in order. Stops when `each` returns nonzero and returns that, else 0.
 * A sentence ends with '.', '?' or '!' before white space or the end of the text, closing quotes and brackets passed
 * over, and with their ideographic forms anywhere. */
int basic_words(const char *text, size_t length, bool lower, int (*each)(void *user, const basic_word *word),
                void *user);

bool basic_is_punctuation(int32_t point);
bool basic_is_cjk(int32_t point);

#endif

/* BERT's tokenizer: basic tokenizer (control characters dropped, CJK characters apart, lower case, accents stripped,
 * punctuation apart) and WordPiece (longest match first, continuations written "##piece"), over a vocabulary in the
 * form of BERT's vocab.txt: one piece a line, its id the line number from 0. With a published vocab.txt the ids are the
 * published ones. Text that spells a special token, such as "[SEP]", stays text. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/error.h"

/* Immutable after creation: threads may share one, each with a cache of its own. */
typedef struct tokenizer tokenizer;

/* Where a text's tokens stand: the words that the basic tokenizer finds, and the sentences that '.', '?' or '!' before
 * white space or the end of the text (closing quotes and brackets may stand between) make. */
typedef struct token {
    int32_t id;
    int32_t word;      /* index of its word in the text, from 0; pieces of one word share it */
    int32_t sentence;  /* index of its sentence in the text, from 0 */
    size_t begin, end; /* the word's bytes in the text */
} token;

typedef struct token_list {
    token *token; /* [count] */
    size_t count, capacity;
} token_list; /* {0} is an empty list; it grows as needed and is reused without freeing */

/* Remembers the ids of the text's chunks between white space: the difference between 5 and more than 20 MB/s.
 * Bounded (about 8 MB): it forgets everything when full. One thread at a time. */
typedef struct token_cache token_cache;

/* Reads a vocab.txt. `lower`: lower case and strip accents (BERT "uncased"); false for a cased vocabulary.
 * NULL with a message where the file cannot be read, a piece is empty or stands twice, or one of [PAD] [UNK] [CLS]
 * [SEP] [MASK] is missing. */
tokenizer *tokenizer_load(const char *path, bool lower, text_error *error);

/* The same from memory, for a vocabulary kept inside a checkpoint; `name` is for messages. */
tokenizer *tokenizer_parse(const char *name, const char *vocab, size_t size, bool lower, text_error *error);

/* Writes a vocab.txt through a temporary file in the same folder, synced and renamed. 0, or -1 with a message. */
int tokenizer_save(const tokenizer *t, const char *path, text_error *error);

/* The vocab.txt as one string with its size in bytes; owned by the tokenizer, NUL-terminated. */
const char *tokenizer_vocab(const tokenizer *t, size_t *size);

void tokenizer_free(tokenizer *t);

int32_t tokenizer_size(const tokenizer *t);
bool tokenizer_lower(const tokenizer *t);
const char *tokenizer_piece(const tokenizer *t, int32_t id);                /* NULL where id is out of range */
int32_t tokenizer_id(const tokenizer *t, const char *piece, size_t length); /* -1 where the vocabulary lacks it */

/* Ids of the special tokens. */
int32_t tokenizer_pad(const tokenizer *t);
int32_t tokenizer_unk(const tokenizer *t);
int32_t tokenizer_cls(const tokenizer *t);
int32_t tokenizer_sep(const tokenizer *t);
int32_t tokenizer_mask(const tokenizer *t);
bool tokenizer_is_special(const tokenizer *t, int32_t id);

token_cache *token_cache_new(void); /* NULL when memory ends */
void token_cache_free(token_cache *cache);

/* Replaces *out by the tokens of `text` (without [CLS] and [SEP]). `cache` may be NULL. Bytes that are not UTF-8 are
 * read as U+FFFD and dropped, as BERT does; the readers reject them before. 0, or -1 when memory ends. */
int tokenize(const tokenizer *t, token_cache *cache, const char *text, size_t length, token_list *out,
             text_error *error);

void token_list_free(token_list *list);

#endif

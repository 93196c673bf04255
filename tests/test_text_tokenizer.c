/* Basic tokenizer, WordPiece, published ids, vocabulary training, pairs. */
#include "text_helper.h"

#include <time.h>
#include <unistd.h>

#include "text/basic.h"
#include "text/encode.h"
#include "text/string_map.h"
#include "text/tokenizer.h"
#include "text/wordpiece.h"

static text_error error;

/* ---- basic tokenizer */

struct written {
    char *out;
    size_t at, room;
};

static int write_word(void *user, const basic_word *word) {
    struct written *w = user;
    if (word->starts) w->at += (size_t)snprintf(w->out + w->at, w->room - w->at, "/ ");
    w->at += (size_t)snprintf(w->out + w->at, w->room - w->at, "%.*s%s ", (int)word->length, word->bytes,
                              word->overlong ? "..." : "");
    assert_true(word->begin < word->end);
    return 0;
}

/* Words with a blank behind each, "/ " before a word that begins the next sentence. */
static void assert_words(const char *text, bool lower, const char *wanted) {
    char out[1000];
    struct written w = {out, 0, sizeof out};
    out[0] = '\0';
    assert_int_equal(basic_words(text, strlen(text), lower, write_word, &w), 0);
    assert_string_equal(out, wanted);
}

static void test_basic_words(void **state) {
    (void)state;
    assert_words("", true, "");
    assert_words(" \t\r\n", true, "");
    assert_words("Hello, World", true, "hello , world ");
    assert_words("Hello, World", false, "Hello , World ");
    assert_words("Café ÀÉÎ straße İ", true, "cafe aei straße i ");
    assert_words("Café", false, "Café ");
    assert_words("e\xCC\x81", true, "e "); /* e + combining acute */
    assert_words("a\xC2\xAD"
                 "b\xE2\x80\x8B"
                 "c\x01",
                 true, "abc "); /* soft hyphen, zero-width space, control */
    assert_words("a\xC2\xA0"
                 "b\xE3\x80\x80"
                 "c\xE2\x80\xA8"
                 "d",
                 true, "a b c d "); /* no-break, ideographic space, line separator */
    assert_words("x東京y", true, "x 東 京 y ");
    assert_words("\xEF\xA4\x82", true, "車 "); /* a compatibility ideograph */
    assert_words("a\xFF"
                 "b\xEF\xBF\xBD"
                 "c",
                 true, "abc "); /* no UTF-8, and U+FFFD */
    assert_words("don't re-read 3.14!", true, "don ' t re - read 3 . 14 ! ");
    assert_words("«ja»…¿no?", true, "« ja » … ¿ no ? ");
    assert_words("$5^2`~|", true, "$ 5 ^ 2 ` ~ | ");
    assert_words("한", true, "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB "); /* Hangul falls into its letters */
}

static void test_sentences(void **state) {
    (void)state;
    assert_words("A b. C d", true, "a b . / c d ");
    assert_words("3.14 is pi. Yes?! No", true, "3 . 14 is pi . / yes ? ! / no ");
    assert_words("He said \"go.\" Then (it ended.) So", true, "he said \" go . \" / then ( it ended . ) / so ");
    assert_words("a.b", true, "a . b ");
    assert_words("。東。「京。」大", true, "。 / 東 。 / 「 京 。 」 / 大 ");
    assert_words("End.  \n Next", true, "end . / next ");
}

static void test_overlong_words(void **state) {
    (void)state;
    char text[2000], out[2000];
    memset(text, 'x', 100);
    memcpy(text + 100, " y", 3);
    struct written w = {out, 0, sizeof out};
    assert_int_equal(basic_words(text, strlen(text), true, write_word, &w), 0);
    assert_int_equal(strlen(out), 100 + 3);
    text[100] = 'x';
    w.at = 0;
    assert_int_equal(basic_words(text, strlen(text), true, write_word, &w), 0);
    assert_non_null(strstr(out, "x..."));
}

/* ---- published ids: a vocabulary as large as bert-base-uncased's that has its pieces on the lines used here */

static const struct {
    const char *piece;
    int id;
} published[] = {
    {"[PAD]", 0},     {"[UNK]", 100},     {"[CLS]", 101},    {"[SEP]", 102},   {"[MASK]", 103},  {"!", 999},
    {"'", 1005},      {",", 1010},        {"-", 1011},       {".", 1012},      {"3", 1017},      {"?", 1029},
    {"t", 1056},      {"ε", 1159},        {"京", 1755},      {"日", 1864},     {"本", 1876},     {"東", 1879},
    {"語", 1950},     {"the", 1996},      {"of", 1997},      {"he", 2002},     {"is", 2003},     {"it", 2009},
    {"an", 2019},     {"##i", 2072},      {"don", 2123},     {"re", 2128},     {"st", 2358},     {"14", 2403},
    {"##est", 4355},  {"capital", 3007},  {"read", 3191},    {"anti", 3424},   {"##ble", 3468},  {"isn", 3475},
    {"##ment", 3672}, {"cafe", 7668},     {"##ab", 7875},    {"##fe", 7959},   {"##dis", 10521}, {"ab", 11113},
    {"##ism", 2964},  {"##arian", 12199}, {"##lish", 13602}, {"una", 14477},   {"##α", 14608},   {"naive", 15743},
    {"##ν", 16177},   {"##ι", 18199},     {"##hui", 20552},  {"##ffa", 20961}, {"coop", 21859},  {"heron", 22914},
    {"##η", 24824},   {"##raße", 27807},  {"ae", 29347},     {"##κ", 29726},   {"##λ", 29727},
};

static tokenizer *published_vocabulary(void) {
    enum { SIZE = 30522 };
    const char **line = calloc(SIZE, sizeof *line);
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) line[published[i].id] = published[i].piece;
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    for (int i = 0; i < SIZE; i++) {
        if (line[i]) {
            fprintf(file, "%s\n", line[i]);
        } else {
            fprintf(file, "[unused%d]\n", i);
        }
    }
    fclose(file);
    free(line);
    tokenizer *t = tokenizer_parse("published", text, size, true, &error);
    free(text);
    if (!t) fail_msg("%s", error.message);
    assert_int_equal(tokenizer_size(t), SIZE);
    return t;
}

static void test_published_ids(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int32_t id[20];
    } cases[] = {
        {"Café naïve 東京 don't re-read 3.14!",
         {101, 7668, 15743, 1879, 1755, 2123, 1005, 1056, 2128, 1011, 3191, 1017, 1012, 2403, 999, 102}},
        {"The heron isn't unaffable, is it?",
         {101, 1996, 22914, 3475, 1005, 1056, 14477, 20961, 3468, 1010, 2003, 2009, 1029, 102}},
        {"日本語", {101, 1864, 1876, 1950, 102}},
        {"straße ÀÉÎ", {101, 2358, 27807, 29347, 2072, 102}},
        {"Hefei is the capital of Anhui.", {101, 2002, 7959, 2072, 2003, 1996, 3007, 1997, 2019, 20552, 1012, 102}},
        {"a\xC2\xAD"
         "b co\xE2\x80\x8B"
         "op",
         {101, 11113, 21859, 102}},
        {"ελληνικά", {101, 1159, 29727, 29727, 24824, 16177, 18199, 29726, 14608, 102}},
        {"antidisestablishmentarianism", {101, 3424, 10521, 4355, 7875, 13602, 3672, 12199, 2964, 102}},
        {"heron zzz [SEP]is",
         {101, 22914, 100, 100, 100, 100, 2003, 102}}, /* neither zzz nor brackets are pieces here */
    };
    tokenizer *t = published_vocabulary();
    token_cache *cache = token_cache_new();
    encoded_pair p = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int twice = 0; twice < 2; twice++) {
            assert_int_equal(encode_text(t, cache, cases[i].text, strlen(cases[i].text), 0, &p, &error), 0);
            size_t length = 1;
            while (cases[i].id[length - 1] != 102) length++;
            assert_int_equal(p.length, length);
            for (size_t k = 0; k < length; k++) assert_int_equal(p.id[k], cases[i].id[k]);
        }
    }
    encoded_pair_free(&p);
    token_cache_free(cache);
    tokenizer_free(t);
}

/* ---- vocabularies */

static void test_broken_vocabularies(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "given: the vocabulary has no [PAD]"},
        {"[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", "given: the vocabulary has no [MASK]"},
        {"[PAD]\na\n\nb\n", "given:3: empty line in a vocabulary"},
        {"[PAD]\na\nb\na\n", "given:4: the piece 'a' stands on line 2 too"},
        {"[PAD]\n\xE9\n", "given:2: byte 1 of the line (0xE9) is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(tokenizer_parse("given", cases[i].text, strlen(cases[i].text), true, &error));
        assert_says(&error, cases[i].message);
    }
    assert_null(tokenizer_load("tests/data", true, &error));
    assert_says(&error, "is a directory");
}

static void test_saved_and_loaded(void **state) {
    (void)state;
    char folder[] = "/tmp/dea_text_XXXXXX", path[100];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    const char *vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n東\n";
    tokenizer *t = tokenizer_parse("given", vocab, strlen(vocab), true, &error);
    assert_int_equal(tokenizer_save(t, path, &error), 0);
    tokenizer *again = tokenizer_load(path, true, &error);
    assert_non_null(again);
    size_t size;
    assert_string_equal(tokenizer_vocab(again, &size), vocab);
    assert_int_equal(size, strlen(vocab));
    assert_int_equal(tokenizer_id(again, "##b", 3), 6);
    assert_int_equal(tokenizer_id(again, "b", 1), -1);
    assert_string_equal(tokenizer_piece(again, 7), "東");
    assert_null(tokenizer_piece(again, 8));
    assert_null(tokenizer_piece(again, -1));
    assert_true(tokenizer_is_special(again, tokenizer_mask(again)));
    assert_false(tokenizer_is_special(again, 5));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(tokenizer_save(t, path, &error), -1);
    assert_says(&error, "cannot be written");
    tokenizer_free(t);
    tokenizer_free(again);
}

/* ---- training */

static tokenizer *train(const char *const *text, size_t texts, const wordpiece_options *options) {
    wordpiece *w = wordpiece_new(options);
    for (size_t i = 0; i < texts; i++) assert_int_equal(wordpiece_add(w, text[i], strlen(text[i]), &error), 0);
    tokenizer *t = wordpiece_finish(w, &error);
    if (!t) fail_msg("%s", error.message);
    wordpiece_free(w);
    return t;
}

static void test_training_order(void **state) {
    (void)state;
    const char *const text[] = {"The box is big. The é cup", "the jar IS here.", "jar: zu"};
    const wordpiece_options options = {.lower = true, .min_count = 2};
    tokenizer *t = train(text, 3, &options);
    /* By frequency, ties by bytes; é lost its accent; words that occur once are no tokens. */
    static const char *const wanted[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the",
                                         ".",     "is",    "jar",   "!",     "\"",     "#"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_string_equal(tokenizer_piece(t, (int32_t)i), wanted[i]);
    assert_int_equal(tokenizer_id(t, "box", 3), -1);
    assert_true(tokenizer_id(t, "##q", 3) > 0);
    /* 5 special, 4 words, printable ASCII without capitals (68, '.' already there), 36 letters and digits as ## */
    assert_int_equal(tokenizer_size(t), 5 + 4 + 67 + 36);
    tokenizer_free(t);

    const wordpiece_options few = {.lower = true, .max_words = 1};
    t = train(text, 3, &few);
    assert_string_equal(tokenizer_piece(t, 5), "the");
    assert_string_equal(tokenizer_piece(t, 6), "!");
    tokenizer_free(t);

    /* The order of the lines does not matter. */
    const char *const turned[] = {text[2], text[0], text[1]};
    const wordpiece_options pieces = {.lower = false, .max_pieces = 50};
    t = train(text, 3, &pieces);
    tokenizer *other = train(turned, 3, &pieces);
    size_t size;
    assert_string_equal(tokenizer_vocab(t, &size), tokenizer_vocab(other, &size));
    assert_true(tokenizer_id(t, "##é", 4) > 0);
    tokenizer_free(t);
    tokenizer_free(other);
}

/* The merges once more, counted afresh for every merge: words as strings of pieces, each piece behind a blank. */
enum { WORDS = 300, PIECES = 40, LENGTH = 64 };

static void naive_merges(char (*word)[LENGTH], char (*piece)[LENGTH]) {
    for (int done = 0; done < PIECES;) {
        char best[LENGTH] = "", left[LENGTH] = "", right[LENGTH] = "";
        int most = 1;
        string_map seen = {0};
        int count[4000] = {0};
        for (int pass = 0; pass < 2; pass++) {
            for (int w = 0; w < WORDS; w++) {
                char copy[LENGTH], *save = NULL;
                strcpy(copy, word[w]);
                for (char *a = strtok_r(copy, " ", &save), *b; a && (b = strtok_r(NULL, " ", &save)); a = b) {
                    char key[2 * LENGTH], joined[2 * LENGTH];
                    snprintf(key, sizeof key, "%s %s", a, b);
                    snprintf(joined, sizeof joined, "%s%s", a, b + 2);
                    size_t i = string_map_add(&seen, key, strlen(key));
                    if (pass == 0) {
                        count[i]++;
                    } else if (count[i] > most || (count[i] == most && most > 1 && *best && strcmp(joined, best) < 0) ||
                               (count[i] == most && most > 1 && strcmp(joined, best) == 0 &&
                                strlen(a) < strlen(left))) {
                        most = count[i];
                        snprintf(best, sizeof best, "%.*s", LENGTH - 1, joined);
                        strcpy(left, a);
                        strcpy(right, b);
                    }
                }
            }
        }
        string_map_free(&seen);
        assert_true(*best);
        for (int w = 0; w < WORDS; w++) {
            char out[LENGTH] = "", copy[LENGTH], *save = NULL;
            strcpy(copy, word[w]);
            for (char *a = strtok_r(copy, " ", &save); a;) {
                char *b = strtok_r(NULL, " ", &save);
                int joins = b && strcmp(a, left) == 0 && strcmp(b, right) == 0;
                if (*out) strcat(out, " ");
                strcat(out, joins ? best : a);
                a = joins ? strtok_r(NULL, " ", &save) : b;
            }
            strcpy(word[w], out);
        }
        strcpy(piece[done++], best);
    }
}

static void test_merges_against_recounting(void **state) {
    (void)state;
    static char word[WORDS][LENGTH], piece[PIECES][LENGTH];
    char text[WORDS * 16] = "";
    string_map distinct = {0};
    uint32_t random = 12345;
    for (size_t made = 0; made < WORDS;) {
        char one[12], *out = one;
        random = random * 1664525u + 1013904223u;
        size_t length = 3 + (random >> 20) % 7;
        for (size_t i = 0; i < length; i++) {
            random = random * 1664525u + 1013904223u;
            *out++ = "aabcde"[(random >> 20) % 6];
        }
        *out = '\0';
        if (string_map_add(&distinct, one, length) != made) continue;
        strcat(strcat(text, one), " ");
        out = word[made++];
        for (size_t i = 0; i < length; i++) out += sprintf(out, i ? " ##%c" : "%c", one[i]);
    }
    naive_merges(word, piece);
    /* No whole words, so that every merge gives a new piece; merges that make the same piece again are not counted. */
    const wordpiece_options options = {.lower = true, .min_count = 2, .max_pieces = PIECES};
    const char *const texts[] = {text};
    tokenizer *t = train(texts, 1, &options);
    int32_t id = 5 + 68 + 36;
    int checked = 0;
    for (int i = 0; i < PIECES; i++) {
        int again = 0;
        for (int k = 0; k < i; k++) again |= strcmp(piece[k], piece[i]) == 0;
        if (!again) {
            assert_string_equal(tokenizer_piece(t, id++), piece[i]);
            checked++;
        }
    }
    assert_true(checked > PIECES / 2);
    tokenizer_free(t);
    string_map_free(&distinct);
}

static void test_no_bare_unknown(void **state) {
    (void)state;
    const char *const text[] = {"The heron waded where the river was cold. Über São 東京"};
    const wordpiece_options options = {.lower = true, .min_count = 1, .max_pieces = 20};
    tokenizer *t = train(text, 1, &options);
    token_list list = {0};
    const char *unseen = "Quixotic jars: heronries überflow — 京東 (42)";
    assert_int_equal(tokenize(t, NULL, unseen, strlen(unseen), &list, &error), 0);
    size_t unknown = 0;
    for (size_t i = 0; i < list.count; i++) unknown += list.token[i].id == tokenizer_unk(t);
    assert_int_equal(unknown, 1); /* the dash, a character the text never had */
    token_list_free(&list);
    tokenizer_free(t);
}

/* ---- tokens, cache, pairs */

static void assert_same_tokens(const token_list *a, const token_list *b) {
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_int_equal(a->token[i].id, b->token[i].id);
        assert_int_equal(a->token[i].word, b->token[i].word);
        assert_int_equal(a->token[i].sentence, b->token[i].sentence);
        assert_int_equal(a->token[i].begin, b->token[i].begin);
        assert_int_equal(a->token[i].end, b->token[i].end);
    }
}

static void test_cache_changes_nothing(void **state) {
    (void)state;
    const char *const corpus[] = {"ab abc bcd"};
    const wordpiece_options options = {.lower = true, .max_pieces = 10}, cased = {.lower = false, .max_pieces = 3};
    tokenizer *t = train(corpus, 1, &options), *other = train(corpus, 1, &cased);
    token_cache *cache = token_cache_new();
    token_list with = {0}, without = {0};
    char text[400];
    uint32_t random = 7;
    /* Enough distinct chunks to fill the cache, so that it forgets and begins again; two tokenizers take turns. */
    for (int i = 0; i < 30000; i++) {
        size_t length = 0;
        for (int k = 0; k < 5; k++) {
            static const char *const piece[] = {"Ab", "bc",           ".", " ", "d! ", "\x01", "e\xCC\x81",
                                                "東", "\xE3\x80\x80", "。"};
            random = random * 1664525u + 1013904223u;
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%x", piece[(random >> 20) % 10],
                                       random >> 16 & 0xff);
        }
        const tokenizer *now = i % 10000 < 9000 ? t : other;
        assert_int_equal(tokenize(now, cache, text, length, &with, &error), 0);
        assert_int_equal(tokenize(now, NULL, text, length, &without, &error), 0);
        assert_same_tokens(&with, &without);
    }
    memset(text, 'x', 390);
    assert_int_equal(tokenize(t, cache, text, 390, &with, &error), 0);
    assert_int_equal(with.count, 1);
    assert_int_equal(with.token[0].id, tokenizer_unk(t));
    assert_int_equal(with.token[0].end, 390);
    token_list_free(&with);
    token_list_free(&without);
    token_cache_free(cache);
    tokenizer_free(t);
    tokenizer_free(other);
}

static const char letters[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n##b\n##c\n.\n";

static void assert_numbers(const int32_t *got, size_t length, const char *wanted) {
    char text[300] = "";
    size_t at = 0;
    for (size_t i = 0; i < length; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", i ? " " : "", (int)got[i]);
    assert_string_equal(text, wanted);
}

static void test_pair(void **state) {
    (void)state;
    tokenizer *t = tokenizer_parse("letters", letters, strlen(letters), true, &error);
    encoded_pair p = {0};
    assert_int_equal(encode_pair(t, NULL, "abc a. b c.", "x cb.", 0, &p, &error), 0);
    /*                                  CLS a ##b ##c a . b c . SEP x c ##b . SEP */
    assert_numbers(p.id, p.length, "2 5 8 9 5 10 6 7 10 3 1 7 8 10 3");
    assert_numbers(p.segment, p.length, "0 0 0 0 0 0 0 0 0 0 1 1 1 1 1");
    assert_numbers(p.sentence, p.length, "0 1 1 1 1 1 2 2 2 0 1 1 1 1 0");
    assert_numbers(p.place, p.length, "0 0 1 2 3 4 0 1 2 0 0 1 2 3 0");
    assert_numbers(p.word, p.length, "-1 0 0 0 1 2 3 4 5 -1 0 1 1 2 -1");
    assert_int_equal(p.premise_begin, 1);
    assert_int_equal(p.premise_end, 9);
    assert_int_equal(p.hypothesis_begin, 10);
    assert_int_equal(p.hypothesis_end, 14);
    assert_int_equal(p.premise_words, 6);
    assert_int_equal(p.hypothesis_words, 3);
    assert_int_equal(p.cut, 0);
    assert_int_equal(p.unknown, 1);
    assert_int_equal(p.premise.token[4].begin, 5); /* "." behind "abc a" */

    /* Too long a premise loses its front; what is left counts from the first token kept. */
    assert_int_equal(encode_pair(t, NULL, "abc a. b c.", "x cb.", 12, &p, &error), 0);
    assert_numbers(p.id, p.length, "2 5 10 6 7 10 3 1 7 8 10 3");
    assert_numbers(p.sentence, p.length, "0 1 1 2 2 2 0 1 1 1 1 0");
    assert_numbers(p.place, p.length, "0 0 1 0 1 2 0 0 1 2 3 0");
    assert_numbers(p.word, p.length, "-1 1 2 3 4 5 -1 0 1 1 2 -1");
    assert_int_equal(p.cut, 3);
    assert_int_equal(p.premise_end - p.premise_begin, 5);
    assert_int_equal(p.premise_words, 6);
    /* A cut within a sentence and the whole premise gone. */
    assert_int_equal(encode_pair(t, NULL, "abc a. b c.", "x cb.", 9, &p, &error), 0);
    assert_numbers(p.place, p.length, "0 0 1 0 0 1 2 3 0");
    assert_int_equal(encode_pair(t, NULL, "abc a. b c.", "x cb.", 7, &p, &error), 0);
    assert_numbers(p.id, p.length, "2 3 1 7 8 10 3");
    assert_int_equal(p.cut, 8);
    assert_int_equal(p.premise_begin, p.premise_end);
    assert_int_equal(encode_pair(t, NULL, "abc a. b c.", "x cb.", 6, &p, &error), -1);
    assert_says(&error, "a hypothesis of 4 tokens with [CLS] and two [SEP] does not fit into 6");

    assert_int_equal(encode_text(t, NULL, "a b. c", 6, 5, &p, &error), 0);
    assert_numbers(p.id, p.length, "2 5 6 10 3");
    assert_int_equal(p.cut, 1);
    assert_int_equal(encode_pair(t, NULL, "", "", 0, &p, &error), 0);
    assert_numbers(p.id, p.length, "2 3 3");
    encoded_pair_free(&p);
    tokenizer_free(t);
}

/* A text of 10 MB without a blank, and a long one with; the figure is printed, only its order of size is asserted. */
static void test_throughput(void **state) {
    (void)state;
    enum { SIZE = 10 << 20 };
    static const char *const word[] = {"the",  "box", "is", "bigger", "than",  "jar.",
                                       "Ruth", "has", "a",  "son,",   "Mark.", "heron"};
    char *text = malloc(SIZE + 64);
    size_t length = 0;
    uint32_t random = 99;
    while (length < SIZE) {
        random = random * 1664525u + 1013904223u;
        uint32_t pick = (random >> 16) % 64;
        length += (size_t)(pick < 12 ? sprintf(text + length, "%s ", word[pick])
                                     : sprintf(text + length, "w%u ", random >> 19));
    }
    const char *const corpus[] = {"the box is bigger than the jar. Ruth has a son, Mark. heron"};
    const wordpiece_options options = {.lower = true, .max_pieces = 30};
    tokenizer *t = train(corpus, 1, &options);
    token_cache *cache = token_cache_new();
    token_list list = {0};
    clock_t begin = clock();
    for (size_t at = 0; at < length;) {
        char *blank = at + 300 < length ? memchr(text + at + 300, ' ', length - at - 300) : NULL;
        size_t size = blank ? (size_t)(blank - text) - at : length - at;
        assert_int_equal(tokenize(t, cache, text + at, size, &list, &error), 0);
        assert_true(list.count > 0);
        at += size;
    }
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    print_message("tokenizer: %.0f MB/s on one core\n", (double)length / 1e6 / seconds);
    assert_true((double)length / 1e6 / seconds > 1);

    for (size_t i = 0; i < length; i++)
        if (text[i] == ' ') text[i] = '-';
    assert_int_equal(tokenize(t, cache, text, length, &list, &error), 0);
    assert_true(list.count > length / 10);
    memset(text, 'x', length);
    assert_int_equal(tokenize(t, cache, text, length, &list, &error), 0);
    assert_int_equal(list.count, 1);
    token_list_free(&list);
    token_cache_free(cache);
    tokenizer_free(t);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_basic_words),
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_overlong_words),
        cmocka_unit_test(test_published_ids),
        cmocka_unit_test(test_broken_vocabularies),
        cmocka_unit_test(test_saved_and_loaded),
        cmocka_unit_test(test_training_order),
        cmocka_unit_test(test_merges_against_recounting),
        cmocka_unit_test(test_no_bare_unknown),
        cmocka_unit_test(test_cache_changes_nothing),
        cmocka_unit_test(test_pair),
        cmocka_unit_test(test_throughput),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The data set as a whole: build, self-check, sources from packages, oracles, word pairs, and the program's exit codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/assign.h"
#include "data/baselines.h"
#include "data/build.h"
#include "data/capitals.h"
#include "data/check.h"
#include "data/knowledge.h"
#include "data/oracle.h"
#include "data/rng.h"
#include "data/wordlists.h"
#include "data/wordpairs.h"

static char folder[] = "/tmp/test_data_XXXXXX";
static check_report report;

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state) {
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* folder/name; four results live at a time. */
static const char *path_of(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text) {
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static build_options nothing_installed(void) {
    build_options o = build_defaults();
    o.wordnet = o.scowl = o.countries = o.kgeography = "/nonexistent";
    return o;
}

static int installed(void) {
    build_options o = build_defaults();
    return access(o.wordnet, R_OK) == 0 && access(o.scowl, R_OK) == 0 && access(o.countries, R_OK) == 0 &&
           access(o.kgeography, R_OK) == 0;
}

static uint64_t hash_rows(const rows *list) {
    uint64_t h = 0;
    for (size_t i = 0; i < list->count; i++) {
        const row *r = &list->row[i];
        h = hash_string(hash_string(hash_string(h, r->split), r->source), r->relation);
        h = hash_string(hash_string(hash_string(hash_string(h, r->kind), r->group), r->premise), r->hypothesis);
        h += (uint64_t)(r->label + 2 * r->steps);
    }
    return h;
}

static size_t count_source(const rows *list, const char *source) {
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++) n += !strcmp(list->row[i].source, source);
    return n;
}

/* The generated sources alone, seed 42, appended to an empty list. */
static void build_generated(rows *list) {
    build_options o = nothing_installed();
    build_notes notes;
    text_error error;
    assert_int_equal(data_build(&o, list, &notes, NULL, NULL, &error), 0);
}

/* ---- build */

static void build_without_packages(void **state) {
    build_options o = nothing_installed();
    rows list = {0};
    build_notes notes;
    text_error error;
    (void)state;
    assert_int_equal(data_build(&o, &list, &notes, NULL, NULL, &error), 0);
    assert_int_equal(list.count, 7800);
    assert_int_equal(notes.n, 4);
    static const char *const packages[] = {"wordnet-base", "scowl", "miscfiles", "kgeography-data"};
    for (int i = 0; i < 4; i++) assert_non_null(strstr(notes.line[i], packages[i]));
    uint64_t h = hash_rows(&list);
    print_message("generated sources, seed 42: %016llx\n", (unsigned long long)h);
    assert_true(h == UINT64_C(0xFF68BACDABFD6383));
    assert_int_equal(data_check(list.row, list.count, &report, &error), 0);
    for (size_t i = 1; i < list.count; i++) { /* sorted, nothing twice */
        const row *a = &list.row[i - 1], *b = &list.row[i];
        assert_true(strcmp(a->split, b->split) <= 0);
        assert_false(!strcmp(a->premise, b->premise) && !strcmp(a->hypothesis, b->hypothesis));
    }
    rows_free(&list);
    o.seed = 43;
    assert_int_equal(data_build(&o, &list, &notes, NULL, NULL, &error), 0);
    assert_true(hash_rows(&list) != h);
    rows_free(&list);
    o.scale = 3;
    assert_int_equal(data_build(&o, &list, &notes, NULL, NULL, &error), 0);
    assert_int_equal(list.count, 3 * 7800);
    rows_free(&list);
}

static int stop_at_once(void *context, const char *source, size_t rows_so_far) {
    (void)context, (void)source, (void)rows_so_far;
    return 1;
}

static void build_stops(void **state) {
    build_options o = nothing_installed();
    rows list = {0};
    build_notes notes;
    text_error error;
    (void)state;
    assert_int_equal(data_build(&o, &list, &notes, stop_at_once, NULL, &error), -1);
    rows_free(&list);
}

/* Every relation that may be true must be kept from the false rows, as far as the files tell. */
static void check_isa(const wordnet *w, const row *r) {
    char head[32], tail[32];
    uint32_t reached[WORDNET_CLOSURE];
    int depth[WORDNET_CLOSURE], above = 0, above_first = 0;
    assert_int_equal(sscanf(r->hypothesis, "%*s %31s is %*s %31[a-z].", head, tail), 2);
    assert_string_equal(r->group, head);
    assert_false(text_names(r->premise + strlen(head), tail)); /* not in the gloss */
    const wordnet_lemma *l = wordnet_find(w, head), *t = wordnet_find(w, tail);
    assert_true(l && t);
    for (uint32_t s = 0; s < l->senses; s++) {
        size_t n = wordnet_closure(w, w->sense[l->sense + s], "@", 64, reached, depth, WORDNET_CLOSURE);
        for (size_t i = 0; i < n; i++) {
            above |= reached[i] == w->sense[t->sense];
            above_first |= !s && reached[i] == w->sense[t->sense] && depth[i] <= 6;
        }
    }
    assert_true(r->label ? above_first : !above);
}

static void check_partof(const wordnet *w, const row *r) {
    char a[32], b[32];
    int direct = 0;
    assert_int_equal(sscanf(r->hypothesis, "%*s %31s is part of %*s %31[a-z].", a, b), 2);
    assert_true(!strcmp(r->group, a) || !strcmp(r->group, b));
    const wordnet_lemma *l = wordnet_find(w, a), *t = wordnet_find(w, b);
    assert_true(l && t);
    uint32_t reached[WORDNET_CLOSURE];
    int depth[WORDNET_CLOSURE];
    size_t n = wordnet_closure(w, w->sense[l->sense], "#p", 2, reached, depth, WORDNET_CLOSURE);
    for (size_t i = 1; i < n; i++) direct |= reached[i] == w->sense[t->sense];
    assert_int_equal(direct, r->label);
    if (strcmp(r->group, b)) assert_false(text_names(r->premise + strlen(a), b)); /* masked */
}

/* In every split a tail is false as often as it is true, but for the few that no exchange could serve. */
static void check_tails(const rows *list, const char *source) {
    string_map tails = {0};
    int balance[4096] = {0}, off = 0, n = 0;
    for (size_t i = 0; i < list->count; i++) {
        const row *r = &list->row[i];
        if (strcmp(r->source, source)) continue;
        char key[256];
        snprintf(key, sizeof key, "%s %s", r->split, strrchr(r->hypothesis, ' '));
        if (!strcmp(source, "capital"))
            snprintf(key, sizeof key, "%s %s", r->split, strstr(r->hypothesis, " capital of "));
        if (!strcmp(source, "partof") && !r->label &&
            !strncmp(strrchr(r->hypothesis, ' ') + 1, r->group, strlen(r->group)))
            continue;
        size_t k = string_map_add(&tails, key, strlen(key));
        assert_true(k < 4096);
        balance[k] += r->label ? 1 : -1;
        n++;
    }
    for (size_t k = 0; k < tails.count; k++) off += abs(balance[k]);
    print_message("%s: %d rows, tails out of balance by %d\n", source, n, off);
    /* partof's reversed quarter leaves its true tails without a false twin */
    assert_true(off <= (strcmp(source, "partof") ? 0 : n / 4));
    string_map_free(&tails);
}

static void print_rows(const rows *list, const char *source) {
    rng r = {2024, 0};
    size_t total = count_source(list, source), seen = 0;
    for (int left = 40; left;) {
        size_t want = rng_below(&r, (uint32_t)total);
        seen = 0;
        for (size_t i = 0; i < list->count; i++)
            if (!strcmp(list->row[i].source, source) && seen++ == want) {
                print_message("%-5s %s   [%s]\n", list->row[i].label ? "TRUE" : "FALSE", list->row[i].hypothesis,
                              list->row[i].premise);
                left--;
            }
    }
}

static void build_with_packages(void **state) {
    build_options o = build_defaults();
    rows list = {0}, again = {0};
    build_notes notes;
    text_error error;
    wordnet w = {0};
    (void)state;
    if (!installed()) {
        print_message("NOT RUN: packages wordnet-base, scowl, miscfiles, kgeography-data are not all installed\n");
        skip();
    }
    assert_int_equal(data_build(&o, &list, &notes, NULL, NULL, &error), 0);
    assert_int_equal(notes.n, 0);
    assert_int_equal(list.count, 12000);
    assert_int_equal(count_source(&list, "isa"), 2400);
    assert_int_equal(count_source(&list, "partof"), 960);
    assert_int_equal(count_source(&list, "capital"), 840);
    if (data_check(list.row, list.count, &report, &error)) fail_msg("%s", error.message);
    for (int s = 0; s < report.sources;
         s++) { /* what the construction promises, tighter than the program's own limit */
        assert_true(report.source[s].held_out[BASELINE_HYPOTHESIS] < 0.54);
        assert_true(fabs(report.source[s].held_out[BASELINE_OVERLAP] - 0.5) < 0.06);
    }
    assert_int_equal(wordnet_load(&w, o.wordnet, &error), 0);
    size_t any = 0, lies = 0;
    for (size_t i = 0; i < list.count; i++) {
        const row *r = &list.row[i];
        if (!strcmp(r->source, "isa")) check_isa(&w, r);
        if (!strcmp(r->source, "partof")) check_partof(&w, r);
        if (!strcmp(r->source, "isa") && !r->label) lies++, any += !strcmp(r->kind, "easy");
    }
    assert_true(any > lies / 5 && any < lies * 3 / 10);
    check_tails(&list, "isa");
    check_tails(&list, "partof");
    check_tails(&list, "capital");
    print_rows(&list, "isa");
    print_rows(&list, "partof");
    assert_int_equal(data_build(&o, &again, &notes, NULL, NULL, &error), 0);
    assert_true(hash_rows(&list) == hash_rows(&again));
    wordnet_free(&w);
    rows_free(&list);
    rows_free(&again);
}

/* Rows whose word is a compound, and that none is of a form that text does not have ("night_heron") or names its own tail. */
static size_t count_compounds(const rows *list, const char *source) {
    size_t found = 0;
    for (size_t i = 0; i < list->count; i++) {
        const row *r = &list->row[i];
        if (strcmp(r->source, source) || !strchr(r->group, ' ')) continue;
        const char *tail = strrchr(r->hypothesis, ' ') + 1;
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(tail, "."), tail);
        assert_null(strchr(r->premise, '_'));
        assert_null(strchr(r->hypothesis, '_'));
        assert_memory_equal(r->premise, r->group, strlen(r->group));
        assert_non_null(strstr(r->hypothesis, r->group));
        if (!strcmp(source, "isa")) assert_null(strstr(r->group, word));
        found++;
    }
    return found;
}

/* --more: dev and test stay as they are to the byte, train grows, every rule of the data set still holds. */
static void build_more(void **state) {
    build_options o = build_defaults();
    rows plain = {0}, more = {0};
    build_notes notes;
    text_error error;
    (void)state;
    if (!installed()) {
        print_message("NOT RUN: packages wordnet-base, scowl, miscfiles, kgeography-data are not all installed\n");
        skip();
    }
    assert_int_equal(data_build(&o, &plain, &notes, NULL, NULL, &error), 0);
    o.more = 1;
    assert_int_equal(data_build(&o, &more, &notes, NULL, NULL, &error), 0);
    assert_true(count_source(&more, "isa") > 3 * count_source(&plain, "isa"));
    assert_true(count_source(&more, "partof") > 3 * count_source(&plain, "partof"));
    assert_int_equal(count_source(&more, "capital"), count_source(&plain, "capital"));
    assert_true(count_compounds(&more, "isa") > count_source(&plain, "isa"));
    assert_true(count_compounds(&more, "partof") > count_source(&plain, "partof"));
    assert_int_equal(count_compounds(&plain, "isa"), 0);
    size_t at = 0, held_out = 0;
    for (size_t i = 0; i < plain.count; i++) { /* sorted alike: the old rows come in the old order */
        const row *r = &plain.row[i];
        while (at < more.count &&
               (strcmp(more.row[at].premise, r->premise) || strcmp(more.row[at].hypothesis, r->hypothesis) ||
                strcmp(more.row[at].split, r->split) || strcmp(more.row[at].kind, r->kind))) {
            assert_string_equal(more.row[at].split, "train");
            at++;
        }
        assert_true(at++ < more.count);
        held_out += strcmp(r->split, "train") != 0;
    }
    assert_int_equal(held_out, 2000);
    if (data_check(more.row, more.count, &report, &error)) fail_msg("%s", error.message);
    assert_true(report.source[0].held_out[BASELINE_HYPOTHESIS] < 0.58);
    rows_free(&plain);
    rows_free(&more);
}

/* ---- the self-check finds what it looks for */

static void expect_fault(const rows *list, const char *says) {
    text_error error;
    assert_int_equal(data_check(list->row, list->count, &report, &error), 1);
    if (!strstr(error.message, says)) fail_msg("\"%s\" does not say \"%s\"", error.message, says);
    assert_null(strchr(error.message, '\n'));
}

static void check_finds_faults(void **state) {
    rows list = {0};
    row *test = NULL, *train = NULL;
    (void)state;
    build_generated(&list);
    for (size_t i = 0; i < list.count; i++) {
        row *r = &list.row[i];
        if (!strcmp(r->source, "babi18") && !strcmp(r->split, "test") && r->label) test = r;
        if (!strcmp(r->source, "babi18") && !strcmp(r->split, "train") && r->label) train = r;
    }
    assert_true(test && train);
    row was = *train;
    train->premise = test->premise, train->hypothesis = test->hypothesis;
    expect_fault(&list, "a row stands in");
    *train = was;
    train->group = test->group;
    expect_fault(&list, "both ask about");
    *train = was;
    train->label = 0;
    expect_fault(&list, "not half of them");
    *train = was;
    train->premise = "\xff";
    expect_fault(&list, "UTF-8");
    *train = was;
    train->split = "validation";
    expect_fault(&list, "validation");
    *train = was;
    for (size_t i = 0, left = 20; i < list.count && left; i++)
        if (!strcmp(list.row[i].source, "kinship") && list.row[i].steps == 2) list.row[i].steps = 3, left--;
    expect_fault(&list, "equal shares");
    rows_free(&list);
}

/* A leak in two of three true rows of one source is found and named; the other sources stay clean. */
static void check_finds_leaks(void **state) {
    rows list = {0};
    (void)state;
    build_generated(&list);
    for (size_t i = 0; i < list.count; i++) {
        row *r = &list.row[i];
        char text[256];
        if (strcmp(r->source, "babi17") || !r->label || i % 3 == 0) continue;
        snprintf(text, sizeof text, "indeed %s", r->hypothesis);
        r->hypothesis = arena_copy(&list.strings, text, strlen(text));
    }
    expect_fault(&list, "babi17 leaks: \"hypothesis only\"");
    rows_free(&list);
}

/* ---- baselines */

static void baselines_learn(void **state) {
    static row train[2000], test[500];
    static char text[2500][2][64];
    static unsigned char predicted[500];
    static const char *const colour[4] = {"red", "green", "blue", "white"};
    rng r = {1, 0};
    (void)state;
    for (int i = 0; i < 2500; i++) { /* true if both name one colour: only crosses and overlap can tell */
        uint32_t a = rng_below(&r, 4), same = rng_below(&r, 2), b = same ? a : (a + 1 + rng_below(&r, 3)) % 4;
        snprintf(text[i][0], sizeof text[i][0], "It was %s.", colour[a]);
        snprintf(text[i][1], sizeof text[i][1], "it was %s.", colour[b]);
        row x = {"train", "made", "", (int)same, same ? "true" : "hard", 0, "", text[i][0], text[i][1]};
        *(i < 2000 ? &train[i] : &test[i - 2000]) = x;
    }
    for (int k = 0; k < BASELINE_KINDS; k++) {
        assert_int_equal(baseline_predict((baseline_kind)k, train, 2000, test, 500, predicted), 0);
        double accuracy = baseline_accuracy(test, 500, predicted);
        if (k == BASELINE_CROSSES || k == BASELINE_OVERLAP)
            assert_true(accuracy == 1);
        else
            assert_true(accuracy > 0.40 && accuracy < 0.60);
    }
    assert_int_equal(baseline_predict(BASELINE_CROSSES, train, 0, test, 500, predicted), 0);
    for (int i = 0; i < 500; i++) assert_int_equal(predicted[i], 1);
    assert_int_equal(baseline_predict(BASELINE_OVERLAP, train, 2000, test, 0, predicted), 0);
}

/* ---- assignment */

static int odd_even(const void *context, size_t item, size_t tail) {
    (void)context;
    return tail == item % 5 ? -1 : (int)tail;
}

static void assignment_is_balanced(void **state) {
    enum { N = 100 };
    size_t truth[N], out[N], count[5] = {0};
    unsigned char any[N];
    rng r = {3, 0};
    (void)state;
    for (size_t i = 0; i < N; i++) truth[i] = i % 5, any[i] = i % 4 == 0;
    assert_int_equal(assign_tails(N, 5, truth, any, odd_even, NULL, &r, out), 0);
    for (size_t i = 0; i < N; i++) {
        assert_true(out[i] < 5 && out[i] != truth[i]);
        count[out[i]]++;
    }
    for (int t = 0; t < 5; t++) assert_int_equal(count[t], N / 5);
    assert_int_equal(assign_tails(1, 1, truth, any, odd_even, NULL, &r, out), -2);
}

/* ---- broken package files are named by file and line */

static void expect_error(const build_options *o, const char *says) {
    rows list = {0};
    build_notes notes;
    text_error error;
    assert_int_equal(data_build(o, &list, &notes, NULL, NULL, &error), -1);
    if (!strstr(error.message, says)) fail_msg("\"%s\" does not say \"%s\"", error.message, says);
    assert_null(strchr(error.message, '\n'));
    rows_free(&list);
}

static void broken_files(void **state) {
    build_options o = nothing_installed();
    (void)state;
    write_file("countries", "# comment\n004:AF:AFG:Afghanistan:Kabul\nnonsense\n");
    o.countries = path_of("countries");
    expect_error(&o, "countries:3: ");
    write_file("countries", "004:AF:AFG:Afgh\xffnistan:Kabul\n");
    expect_error(&o, "countries:1: not valid UTF-8");
    o.countries = "/nonexistent";
    assert_int_equal(mkdir(path_of("maps"), 0777), 0);
    o.kgeography = folder;
    expect_error(&o, "no map");
    write_file("maps/x.kgm", "<map>\n<division><name>A</name>\n</map>\n");
    char maps[256];
    strcpy(maps, path_of("maps"));
    o.kgeography = maps;
    expect_error(&o, "x.kgm:3: ");
    o.kgeography = "/nonexistent";
    static const char *const lists[] = {"english", "american"};
    for (int v = 0; v < 2; v++)
        for (int k = 0; k < 5; k++) {
            char name[64];
            snprintf(name, sizeof name, "%s-words.%d", lists[v], (const int[]){10, 20, 35, 40, 50}[k]);
            write_file(name, "dog\ncaf\xe9\ndon't\nthing\n");
        }
    string_map words = {0};
    text_error error;
    assert_int_equal(wordlists_load(&words, folder, &error), 0);
    assert_int_equal(words.count, 2);
    string_map_free(&words);
    o.scowl = folder;
    write_file("data.noun", "  1 licence\n00001740 03 n 01 entity 0 000 | that which is\nbroken line\n");
    o.wordnet = folder;
    expect_error(&o, "data.noun:3: ");
    write_file("data.noun", "00001740 03 n 01 entity 0 001 @ 00000007 n 0000 | that which is\n");
    expect_error(&o, "pointer to 7");
    write_file("data.noun", "00001740 03 n 01 entity 0 000 | that which is\n");
    expect_error(&o, "index.noun");
    write_file("index.noun", "entity n 1 0 1 0 00009999\n");
    expect_error(&o, "index.noun:1: ");
    write_file("index.noun", "entity n 1 0 1 0 00001740\n");
    write_file("cntlist.rev", "entity%1:03:00:: x 20\n");
    expect_error(&o, "cntlist.rev:1: ");
    assert_int_equal(remove(path_of("american-words.50")), 0);
    expect_error(&o, "american-words.50");
}

static void maps_are_read(void **state) {
    capitals c = {0};
    text_error error;
    char maps[256];
    (void)state;
    write_file("maps/x.kgm", "<?xml version=\"1.0\"?><map><name>X</name>"
                             "<division><name>Anhui</name><capital>Hefei</capital></division>"
                             "<division><name>Sea</name><ignore>yes</ignore><capital>None</capital></division>"
                             "<division><name>Borders</name></division>"
                             "<division><name>A &amp; B</name><capital>C</capital></division>"
                             "<division><name>Same</name><capital>Same</capital></division></map>");
    write_file("maps/y.kgm", "<map><division><name>Anhui</name><capital>Hefei</capital></division></map>");
    strcpy(maps, path_of("maps"));
    assert_int_equal(capitals_load_maps(&c, maps, &error), 0);
    capitals_finish(&c);
    assert_int_equal(c.count, 1);
    assert_string_equal(c.at[0].division, "Anhui");
    assert_string_equal(c.at[0].capital, "Hefei");
    assert_string_equal(c.at[0].map, "x");
    capitals_free(&c);
}

static void english(void **state) {
    char out[128];
    (void)state;
    assert_string_equal(article("heron"), "a");
    assert_string_equal(article("apple"), "an");
    assert_string_equal(article("unicorn"), "a");
    assert_string_equal(article("hourglass"), "an");
    assert_true(gloss_definition("a bird (of prey) with wings; \"it flew\"", 50, out, sizeof out));
    assert_string_equal(out, "a bird with wings");
    assert_false(gloss_definition("\"only an example\"", 50, out, sizeof out));
    assert_false(gloss_definition("one two three", 2, out, sizeof out));
    assert_true(text_names("all the birds fly", "bird"));
    assert_true(text_names("foxes", "fox"));
    assert_false(text_names("blackbird", "bird"));
    assert_true(is_plural("fatigues") && is_plural("teeth"));
    assert_false(is_plural("glass") || is_plural("bus") || is_plural("iris"));
}

/* ---- word pairs */

static void word_pairs(void **state) {
    build_options o = nothing_installed();
    rows list = {0};
    build_notes notes;
    text_error error;
    (void)state;
    assert_int_equal(wordpairs_build(&o, 1000, &list, &notes, &error), 0); /* sums need no package */
    assert_int_equal(list.count, 70);
    assert_int_equal(notes.n, 4);
    rows_free(&list);
    if (!installed()) {
        print_message("NOT RUN: packages wordnet-base, scowl, miscfiles, kgeography-data are not all installed\n");
        skip();
    }
    o = build_defaults();
    assert_int_equal(wordpairs_build(&o, 3000, &list, &notes, &error), 0);
    assert_int_equal(list.count, 3000);
    size_t band[BAND_COUNT] = {0}, held_out = 0;
    string_map known = {0};
    for (int pass = 0; pass < 2; pass++) /* first what train knows, then the others */
        for (size_t i = 0; i < list.count; i++) {
            const row *r = &list.row[i];
            int train = !strcmp(r->split, "train");
            if (train == pass) continue;
            if (pass) held_out++;
            if (!pass || !train) {
                char text[128];
                snprintf(text, sizeof text, "%s %s", r->premise, r->hypothesis);
                for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
                    if (train)
                        string_map_add(&known, word, strlen(word));
                    else if (string_map_find(&known, word, strlen(word)) == STRING_MAP_NONE)
                        fail_msg("\"%s\" of %s is in no training pair", word, r->split);
            }
            alpha_band b = oracle_row_band(ORACLE_WORDPAIRS, r);
            assert_true(b != BAND_NONE);
            band[b]++;
        }
    assert_int_equal(band[BAND_NEAR], 1350);
    assert_int_equal(band[BAND_WEAK], 750);
    assert_int_equal(band[BAND_STRONG], 900);
    assert_true(held_out > 100);
    string_map_free(&known);
    rows_free(&list);
}

/* ---- oracles */

static void oracles(void **state) {
    row colour = {"train", "babi16", "HasColor", 1, "true", 3, "", "Lily is a frog. Greg is green.", "Lily is green."};
    row lie = colour, size = {"train",
                              "babi18",
                              "Size",
                              0,
                              "easy",
                              2,
                              "",
                              "the box fits inside the jar.",
                              "the box is bigger than the jar."};
    row kin = {"train", "kinship", "Kin", 1, "true", 2, "", "Ruth is Tom's mother.", "Ruth is Tom's mother."};
    row place = {"train", "babi17", "Position", 1, "true", 2, "", "", "the red cube is above the blue star."};
    double lo, hi;
    oracle_kind kind;
    (void)state;
    lie.label = 0, lie.kind = "hard", lie.hypothesis = "Lily is white.";
    assert_int_equal(oracle_row_band(ORACLE_RELATION, &colour), BAND_WEAK);
    assert_int_equal(oracle_row_band(ORACLE_RELATION, &size), BAND_STRONG);
    /* the same for a true and a false hypothesis, to the bit */
    assert_true(oracle_row_alpha(ORACLE_RELATION, 1, &colour) == oracle_row_alpha(ORACLE_RELATION, 1, &lie));
    assert_true(oracle_row_alpha(ORACLE_RELATION, 1, &colour) != oracle_row_alpha(ORACLE_RELATION, 2, &colour));
    assert_true(oracle_row_alpha(ORACLE_RELATION, 42, &kin) >= 0.75 &&
                oracle_row_alpha(ORACLE_RELATION, 42, &kin) < 0.95);
    assert_int_equal(oracle_row_band(ORACLE_TRUTH, &colour), BAND_STRONG);
    assert_int_equal(oracle_row_band(ORACLE_TRUTH, &lie), BAND_WEAK);
    assert_int_equal(oracle_row_band(ORACLE_TRUTH, &size), BAND_NEAR);
    assert_int_equal(oracle_row_band(ORACLE_TOKEN, &colour), BAND_NONE);
    assert_true(isnan(oracle_row_alpha(ORACLE_TOKEN, 1, &colour)));
    assert_true(oracle_tells_answer(ORACLE_TRUTH) && !oracle_tells_answer(ORACLE_RELATION) &&
                !oracle_tells_answer(ORACLE_TOKEN));
    for (int k = 0; k < ORACLE_KINDS; k++) {
        assert_int_equal(oracle_by_name(oracle_name((oracle_kind)k), &kind), 0);
        assert_int_equal(kind, k);
    }
    assert_int_equal(oracle_by_name("llm", &kind), -1);
    for (int b = 0; b < BAND_COUNT; b++) {
        oracle_band_range((alpha_band)b, &lo, &hi);
        assert_int_equal(oracle_band_of(lo), b);
        assert_int_equal(oracle_band_of(hi), b);
    }
    /* cells */
    assert_int_equal(oracle_cell_band(&colour, "green", "green"), BAND_NEAR);
    assert_int_equal(oracle_cell_band(&colour, "green", "white"), BAND_WEAK);
    assert_int_equal(oracle_cell_band(&colour, "frog", "lion"), BAND_WEAK);
    assert_int_equal(oracle_cell_band(&colour, "lily", "green"), BAND_STRONG);
    assert_int_equal(oracle_cell_band(&colour, "is", "is"), BAND_NONE);
    assert_int_equal(oracle_cell_band(&colour, ".", "."), BAND_NONE);
    assert_int_equal(oracle_cell_band(&colour, "greg", "green"), BAND_NONE);
    assert_int_equal(oracle_cell_band(&size, "box", "jar"), BAND_STRONG);
    assert_int_equal(oracle_cell_band(&size, "jar", "box"), BAND_STRONG);
    assert_int_equal(oracle_cell_band(&size, "bigger", "fits"), BAND_WEAK);
    assert_int_equal(oracle_cell_band(&kin, "ruth", "tom"), BAND_STRONG);
    assert_int_equal(oracle_cell_band(&kin, "mother", "uncle"), BAND_WEAK);
    assert_int_equal(oracle_cell_band(&place, "cube", "star"), BAND_STRONG);
    assert_int_equal(oracle_cell_band(&place, "red", "blue"), BAND_WEAK);
    assert_int_equal(oracle_cell_band(&place, "red", "star"), BAND_STRONG);
    assert_int_equal(oracle_cell_band(&place, "red", "cube"), BAND_NONE);
    assert_int_equal(oracle_cell_band(&place, "left", "above"), BAND_WEAK);
    assert_true(oracle_cell_alpha(1, &size, "box", "jar") == oracle_cell_alpha(1, &size, "jar", "box"));
    assert_true(oracle_cell_alpha(1, &place, "red", "star") != oracle_cell_alpha(1, &place, "cube", "star"));
}

/* ---- the program */

/* Runs build/data with its output in the test folder; the exit code. */
static int run(const char *arguments) {
    char command[1024];
    snprintf(command, sizeof command, "build/data %s >%s/stdout 2>%s/stderr", arguments, folder, folder);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *output(const char *name) {
    static char text[65536];
    FILE *f = fopen(path_of(name), "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static void expect_usage(const char *arguments) {
    if (run(arguments) != 2) fail_msg("data %s: not exit code 2", arguments);
    const char *said = output("stderr");
    assert_true(strlen(said) > 0 && strchr(said, '\n') == said + strlen(said) - 1); /* one line */
    assert_memory_equal(said, "data: ", 6);
}

static void program(void **state) {
    char arguments[512];
    static const char none[] =
        "--wordnet /nonexistent --scowl /nonexistent --countries /nonexistent --kgeography /nonexistent";
    (void)state;
    if (access("build/data", X_OK)) {
        print_message("NOT RUN: build/data is not there; run from the folder of the Makefile\n");
        skip();
    }
    assert_int_equal(run("--help"), 0);
    assert_non_null(strstr(output("stdout"), "usage: data"));
    assert_int_equal(run("--version"), 0);
    assert_int_equal(run("build --help"), 0);
    static const char *const wrong[] = {"",
                                        "nonsense",
                                        "--nonsense",
                                        "build --nonsense",
                                        "build --seed",
                                        "build --seed x",
                                        "build --seed -1",
                                        "build --seed 99999999999999999999",
                                        "build --scale 0",
                                        "build extra",
                                        "stats",
                                        "stats a b",
                                        "show -n 0 x",
                                        "stream --source nobody",
                                        "stream --source babi16 --stage 99",
                                        "stream --source babi16 --split all",
                                        "stream --out x",
                                        "wordpairs --scale 2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) expect_usage(wrong[i]);
    expect_usage("stream --source nobody");
    assert_non_null(
        strstr(output("stderr"), "--source takes babi16, babi17, babi18, babi18b or kinship, not \"nobody\""));
    expect_usage("stream --source kinship --stage 99");
    assert_non_null(strstr(output("stderr"), "--stage takes 1 to "));
    expect_usage("build --nope");
    assert_string_equal(output("stderr"), "data: unknown option --nope; see data --help\n");
    assert_int_equal(run("stats /nonexistent"), 1);
    assert_int_equal(run("show ."), 1);
    snprintf(arguments, sizeof arguments, "build %s --out /nonexistent/x.tsv", none);
    assert_int_equal(run(arguments), 1);
    assert_string_equal(output("stdout"), ""); /* told before the work */
    if (access("/dev/full", W_OK) == 0) {
        char command[1024];
        snprintf(command, sizeof command, "build/data build %s --out - >/dev/full 2>%s/stderr", none, folder);
        assert_int_equal(WEXITSTATUS(system(command)), 1);
        assert_non_null(strstr(output("stderr"), "data: "));
    }
    snprintf(arguments, sizeof arguments, "build %s --out %s", none, path_of("d.tsv"));
    assert_int_equal(run(arguments), 0);
    assert_non_null(strstr(output("stderr"), "apt install wordnet-base"));
    assert_non_null(strstr(output("stdout"), "7800 rows"));
    snprintf(arguments, sizeof arguments, "stats %s", path_of("d.tsv"));
    assert_int_equal(run(arguments), 0);
    assert_non_null(strstr(output("stdout"), "7800 rows"));
    snprintf(arguments, sizeof arguments, "show -n 2 %s", path_of("d.tsv"));
    assert_int_equal(run(arguments), 0);
    assert_non_null(strstr(output("stdout"), "== kinship"));
    assert_int_equal(run("stream --source babi18 --stage 2 -n 10"), 0);
    assert_non_null(strstr(output("stdout"), "bigger"));
    assert_int_equal(run("stream"), 0);
    assert_non_null(strstr(output("stdout"), "kinship"));
    snprintf(arguments, sizeof arguments, "wordpairs %s -n 100 --out %s", none, path_of("w.tsv"));
    assert_int_equal(run(arguments), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(build_without_packages),
        cmocka_unit_test(build_stops),
        cmocka_unit_test(build_with_packages),
        cmocka_unit_test(build_more),
        cmocka_unit_test(check_finds_faults),
        cmocka_unit_test(check_finds_leaks),
        cmocka_unit_test(baselines_learn),
        cmocka_unit_test(assignment_is_balanced),
        cmocka_unit_test(broken_files),
        cmocka_unit_test(maps_are_read),
        cmocka_unit_test(english),
        cmocka_unit_test(word_pairs),
        cmocka_unit_test(oracles),
        cmocka_unit_test(program),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}

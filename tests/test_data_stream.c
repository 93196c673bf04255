/* The generators: every label is recomputed from the English of the story alone, by methods that share nothing with the
 * generators (search over placements, over orders, over couples of a family). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "data/rng.h"
#include "data/split.h"
#include "data/stream.h"

enum { STORIES = 1000, MOST_SENTENCES = 12, NAME = 40 };

/* ---- reading sentences back */

typedef struct sentences {
    int n;
    char at[MOST_SENTENCES][96]; /* without the full stop */
} sentences;

static void split_sentences(const char *text, sentences *out) {
    out->n = 0;
    while (*text) {
        const char *dot = strchr(text, '.');
        assert_non_null(dot);
        assert_true(out->n < MOST_SENTENCES && (size_t)(dot - text) < sizeof out->at[0]);
        memcpy(out->at[out->n], text, (size_t)(dot - text));
        out->at[out->n++][dot - text] = 0;
        text = dot + 1;
        if (*text) {
            assert_int_equal(*text, ' ');
            text++;
        }
    }
}

static void one_sentence(const char *text, char out[96]) {
    sentences s;
    split_sentences(text, &s);
    assert_int_equal(s.n, 1);
    strcpy(out, s.at[0]);
}

/* "LEFT<middle>RIGHT" -> LEFT, RIGHT. */
static int cut(const char *sentence, const char *middle, char left[NAME], char right[NAME]) {
    const char *at = strstr(sentence, middle);
    if (!at) return 0;
    assert_true((size_t)(at - sentence) < NAME && strlen(at + strlen(middle)) < NAME);
    memcpy(left, sentence, (size_t)(at - sentence));
    left[at - sentence] = 0;
    strcpy(right, at + strlen(middle));
    return 1;
}

typedef struct names {
    int n;
    char at[16][NAME];
} names;

static int number_of(names *list, const char *name) {
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->at[i], name)) return i;
    assert_true(list->n < 16);
    strcpy(list->at[list->n], name);
    return list->n++;
}

/* ---- 16: what colours can the asked one have? */

/* 1 true, 0 false, -1 the story does not say. */
static int solve16(const char *premise, const char *hypothesis, int *steps) {
    sentences s;
    names who = {0};
    char animal[16][NAME] = {{0}}, colour[16][NAME] = {{0}}, name[NAME], what[NAME], claim[96];
    split_sentences(premise, &s);
    for (int i = 0; i < s.n; i++) {
        if (cut(s.at[i], " is a ", name, what))
            strcpy(animal[number_of(&who, name)], what);
        else if (cut(s.at[i], " is ", name, what))
            strcpy(colour[number_of(&who, name)], what);
        else
            fail_msg("not a fact: %s", s.at[i]);
    }
    /* the stories keep their own law: one animal, one colour, one to one */
    for (int i = 0; i < who.n; i++)
        for (int j = 0; j < who.n; j++)
            if (*animal[i] && *animal[j] && *colour[i] && *colour[j])
                assert_int_equal(!strcmp(animal[i], animal[j]), !strcmp(colour[i], colour[j]));
    one_sentence(hypothesis, claim);
    *steps = 1;
    if (cut(claim, " is a ", name, what))
        return *animal[number_of(&who, name)] ? !strcmp(animal[number_of(&who, name)], what) : -1;
    assert_true(cut(claim, " is ", name, what));
    int verdict = -1;
    if (!strncmp(name, "the ", 4)) { /* an animal's colour: that of whoever is one */
        *steps = 2;
        for (int i = 0; i < who.n; i++)
            if (*colour[i] && !strcmp(animal[i], name + 4)) verdict = !strcmp(colour[i], what);
        return verdict;
    }
    int asked = number_of(&who, name);
    if (*colour[asked]) return !strcmp(colour[asked], what);
    *steps = 3;
    for (int i = 0; i < who.n; i++) {
        if (i == asked || !*colour[i] || strcmp(animal[i], animal[asked])) continue;
        int agrees = !strcmp(colour[i], what);
        assert_true(verdict < 0 || verdict == agrees);
        verdict = agrees;
    }
    return verdict;
}

/* ---- 17: all placements on a grid that fit the facts */

static int in_direction(const char *direction, const int a[2], const int b[2], int adjacent) {
    int dx = a[0] - b[0], dy = a[1] - b[1];
    if (!strcmp(direction, "above")) return adjacent ? dx == 0 && dy == 1 : dy > 0;
    if (!strcmp(direction, "below")) return adjacent ? dx == 0 && dy == -1 : dy < 0;
    if (!strcmp(direction, "left")) return adjacent ? dx == -1 && dy == 0 : dx < 0;
    assert_string_equal(direction, "right");
    return adjacent ? dx == 1 && dy == 0 : dx > 0;
}

typedef struct claim17 {
    int a, b;
    char direction[8];
} claim17;

static claim17 read17(const char *sentence, names *things) {
    static const char *const middle[4] = {" is above the ", " is below the ", " is to the left of the ",
                                          " is to the right of the "};
    static const char *const word[4] = {"above", "below", "left", "right"};
    char left[NAME], right[NAME];
    claim17 c = {0};
    for (int i = 0; i < 4; i++)
        if (cut(sentence, middle[i], left, right)) {
            assert_memory_equal(left, "the ", 4);
            c.a = number_of(things, left + 4);
            c.b = number_of(things, right);
            strcpy(c.direction, word[i]);
            return c;
        }
    fail_msg("not a position: %s", sentence);
    return c;
}

/* The facts on the asked things and what they stand beside; one on two others tells nothing. */
static int facts_that_matter(claim17 *fact, int n, const claim17 *asked, int things) {
    if (things == n + 1) return n;
    assert_int_equal(n, 2);
    assert_int_equal(things, 4);
    const int first = fact[0].a + fact[0].b == asked->a + asked->b && fact[0].a * fact[0].b == asked->a * asked->b;
    if (!first) fact[0] = fact[1];
    return 1;
}

/* Things are numbered as they come: those of the facts that matter are 0, 1 and 2 after this. */
static void renumber(claim17 *fact, int n, claim17 *asked) {
    int number[8], used = 0;
    for (int i = 0; i < 8; i++) number[i] = -1;
    for (int i = 0; i <= n; i++) {
        claim17 *c = i < n ? &fact[i] : asked;
        if (number[c->a] < 0) number[c->a] = used++;
        if (number[c->b] < 0) number[c->b] = used++;
        c->a = number[c->a], c->b = number[c->b];
    }
    assert_int_equal(used, n + 1);
}

static int read_facts17(const char *premise, names *things, claim17 fact[MOST_SENTENCES]) {
    sentences s;
    split_sentences(premise, &s);
    for (int i = 0; i < s.n; i++) fact[i] = read17(s.at[i], things);
    return s.n;
}

static int solve17(const char *premise, const char *hypothesis, int *steps) {
    names things = {0};
    claim17 fact[MOST_SENTENCES];
    char claim[96];
    int possible[2] = {0, 0}, place[3][2] = {{0, 0}}, told = read_facts17(premise, &things, fact);
    const int named = things.n;
    one_sentence(hypothesis, claim);
    claim17 asked = read17(claim, &things);
    assert_int_equal(things.n, named);
    const int n = facts_that_matter(fact, told, &asked, named);
    renumber(fact, n, &asked);
    *steps = n;
    for (int p = 0; p < 25 * 25; p++) {
        place[1][0] = p % 5 - 2, place[1][1] = p / 5 % 5 - 2;
        place[2][0] = p / 25 % 5 - 2, place[2][1] = p / 125 - 2;
        int fits = 1;
        for (int i = 0; i < n; i++)
            fits = fits && in_direction(fact[i].direction, place[fact[i].a], place[fact[i].b], 1);
        if (!fits) continue;
        if (n == 2) assert_true(place[0][0] != place[2][0] || place[0][1] != place[2][1]);
        possible[in_direction(asked.direction, place[asked.a], place[asked.b], 0)] = 1;
    }
    assert_true(possible[0] || possible[1]);
    return possible[0] && possible[1] ? -1 : possible[1];
}

/* ---- 18: all orders by size that fit the facts */

static void read18(const char *sentence, names *things, int *large, int *small) {
    char left[NAME], right[NAME];
    int inside = cut(sentence, " fits inside the ", left, right);
    assert_true(inside || cut(sentence, " is bigger than the ", left, right));
    assert_memory_equal(left, "the ", 4);
    int a = number_of(things, left + 4), b = number_of(things, right);
    *large = inside ? b : a, *small = inside ? a : b;
}

static int next_order(int *rank, int n) {
    int i = n - 2, j = n - 1;
    while (i >= 0 && rank[i] > rank[i + 1]) i--;
    if (i < 0) return 0;
    while (rank[j] < rank[i]) j--;
    int t = rank[i];
    rank[i] = rank[j], rank[j] = t;
    for (int a = i + 1, b = n - 1; a < b; a++, b--) t = rank[a], rank[a] = rank[b], rank[b] = t;
    return 1;
}

/* count: how the tally "bigger minus fits inside" of the asked two stands towards the truth: 1 right, -1 wrong, 0 a draw. */
static int solve18(const char *premise, const char *hypothesis, int *steps, int *count) {
    sentences s;
    names things = {0};
    int large[MOST_SENTENCES], small[MOST_SENTENCES], rank[16], possible[2] = {0, 0}, a, b, tally[16] = {0};
    char claim[96];
    split_sentences(premise, &s);
    for (int i = 0; i < s.n; i++) {
        read18(s.at[i], &things, &large[i], &small[i]);
        tally[large[i]]++, tally[small[i]]--;
    }
    one_sentence(hypothesis, claim);
    int known = things.n;
    read18(claim, &things, &a, &b);
    assert_int_equal(things.n, known);
    for (int i = 0; i < things.n; i++) rank[i] = i;
    do {
        int fits = 1;
        for (int i = 0; i < s.n && fits; i++) fits = rank[large[i]] > rank[small[i]];
        if (fits) possible[rank[a] > rank[b]] = 1;
    } while (next_order(rank, things.n));
    assert_true(possible[0] || possible[1]);
    if (possible[0] && possible[1]) return -1;
    /* steps: the shortest chain of facts between the two, by Floyd and Warshall */
    int way[16][16];
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) way[i][j] = 99;
    for (int i = 0; i < s.n; i++) way[large[i]][small[i]] = 1;
    for (int k = 0; k < things.n; k++)
        for (int i = 0; i < things.n; i++)
            for (int j = 0; j < things.n; j++)
                if (way[i][k] + way[k][j] < way[i][j]) way[i][j] = way[i][k] + way[k][j];
    int larger = possible[1] ? a : b, smaller = possible[1] ? b : a;
    *steps = way[larger][smaller];
    *count = (tally[larger] > tally[smaller]) - (tally[larger] < tally[smaller]);
    return possible[1];
}

/* ---- kinship: couples. Every person has a couple of parents (birth) and heads a couple (own); equal couples are merged.
 * This knows nothing of rules: it is what the words mean. */

typedef struct family {
    names who;
    int people;
    int female[16]; /* -1 not told */
    int same[64];   /* union-find over couples: birth of i is 2i, own of i is 2i + 1 */
} family;

static int find(family *f, int c) {
    while (f->same[c] != c) c = f->same[c];
    return c;
}

static void merge(family *f, int a, int b) {
    f->same[find(f, a)] = find(f, b);
}

static int birth(int x) {
    return 2 * x;
}

static int own(int x) {
    return 2 * x + 1;
}

static int same(family *f, int a, int b) {
    return find(f, a) == find(f, b);
}

static const char *const male_words[] = {"son",         "husband",    "father",        "brother", "grandson",
                                         "grandfather", "son-in-law", "father-in-law", "uncle",   "nephew"};
static const char *const female_words[] = {"daughter",      "wife",        "mother",          "sister",
                                           "granddaughter", "grandmother", "daughter-in-law", "mother-in-law",
                                           "aunt",          "niece"};

/* Number of the relation; *is_female of the word. */
static int relation_of(const char *word, int *is_female) {
    for (int i = 0; i < 10; i++) {
        *is_female = !strcmp(word, female_words[i]);
        if (*is_female || !strcmp(word, male_words[i])) return i;
    }
    fail_msg("no relation: %s", word);
    return -1;
}

/* "Y is X's word" */
static void read_link(const char *sentence, char x[NAME], char y[NAME], char word[NAME]) {
    char rest[NAME];
    assert_true(cut(sentence, " is ", y, rest));
    assert_true(cut(rest, "'s ", x, word));
}

/* y is x's relation. Two links over an unnamed person add one. */
static void tell(family *f, int x, int relation, int y) {
    int z;
    switch (relation) {
    case 0:
        merge(f, birth(y), own(x));
        break;
    case 1:
        merge(f, own(x), own(y));
        break;
    case 2:
        merge(f, birth(x), own(y));
        break;
    case 3:
        merge(f, birth(x), birth(y));
        break;
    case 4:
        z = f->people++, merge(f, birth(z), own(x)), merge(f, birth(y), own(z));
        break;
    case 5:
        z = f->people++, merge(f, birth(x), own(z)), merge(f, birth(z), own(y));
        break;
    default:
        break; /* in-laws, uncles and nephews are told only in one-step stories: see there */
    }
}

static int holds(family *f, int x, int relation, int y) {
    if (x == y) return 0;
    switch (relation) {
    case 0:
        return same(f, birth(y), own(x));
    case 1:
        return same(f, own(x), own(y));
    case 2:
        return same(f, birth(x), own(y));
    case 3:
        return same(f, birth(x), birth(y));
    default:
        break;
    }
    for (int z = 0; z < f->people; z++) {
        int found = 0;
        if (z == x || z == y) continue;
        if (relation == 4) found = same(f, birth(z), own(x)) && same(f, birth(y), own(z));
        if (relation == 5) found = same(f, birth(x), own(z)) && same(f, birth(z), own(y));
        if (relation == 6) found = same(f, birth(z), own(x)) && same(f, own(z), own(y));
        if (relation == 7) found = same(f, own(z), own(x)) && same(f, birth(z), own(y));
        if (relation == 8) found = same(f, birth(x), own(z)) && same(f, birth(z), birth(y));
        if (relation == 9) found = same(f, birth(y), own(z)) && same(f, birth(z), birth(x));
        if (found) return 1;
    }
    return 0;
}

static int inverse_of(int relation) {
    return (const int[]){2, 1, 0, 3, 5, 4, 7, 6, 9, 8}[relation];
}

static int solve_kinship(const char *premise, const char *hypothesis, int *steps) {
    sentences s;
    family f = {.people = 0};
    char x[NAME], y[NAME], word[NAME], claim[96];
    int links[MOST_SENTENCES][3], is_female;
    for (int i = 0; i < 64; i++) f.same[i] = i;
    for (int i = 0; i < 16; i++) f.female[i] = -1;
    split_sentences(premise, &s);
    for (int i = 0; i < s.n; i++) {
        read_link(s.at[i], x, y, word);
        links[i][0] = number_of(&f.who, x), links[i][2] = number_of(&f.who, y);
        links[i][1] = relation_of(word, &is_female);
        f.female[links[i][2]] = is_female;
        if (links[i][1] == 1) { /* husband and wife */
            int *other = &f.female[links[i][0]];
            assert_true(*other < 0 || *other == !is_female);
            *other = !is_female;
        }
    }
    f.people = f.who.n;
    one_sentence(hypothesis, claim);
    read_link(claim, x, y, word);
    int from = number_of(&f.who, x), to = number_of(&f.who, y), asked = relation_of(word, &is_female);
    assert_int_equal(f.who.n, f.people);
    if (f.people == 2 * s.n) { /* unrelated facts: what is told, and its inverse */
        *steps = 1;
        for (int i = 0; i < s.n; i++) {
            if (links[i][0] == from && links[i][2] == to) return asked == links[i][1] && is_female == f.female[to];
            if (links[i][0] == to && links[i][2] == from) return asked == inverse_of(links[i][1]);
        }
        return -1;
    }
    *steps = s.n;
    for (int i = 0; i < s.n; i++) tell(&f, links[i][0], links[i][1], links[i][2]);
    for (int i = 0; i < f.who.n; i++) /* a couple is a man and a woman: nobody has two fathers, or husbands */
        for (int j = 0; j < i; j++)
            if (same(&f, own(i), own(j)) && f.female[i] >= 0 && f.female[i] == f.female[j]) fail_msg("%s", premise);
    if (f.female[to] >= 0 && f.female[to] != is_female) return 0;
    /* the story must determine some relation between the two, in one direction or the other */
    int known = 0;
    for (int r = 0; r < 10; r++) known += holds(&f, from, r, to);
    if (known != 1) return -1;
    return holds(&f, from, asked, to);
}

/* ---- the tests */

static void check_group(const char *source, const data_story *story, const char *split) {
    for (int i = 0; i < story->n; i++) {
        const row *r = &story->rows[i];
        char text[128], *part;
        assert_string_equal(r->group, story->rows[0].group);
        if (strcmp(source, "kinship") || r->steps == 3)
            assert_int_equal(data_split_of(strcmp(source, "babi18b") ? source : "babi18", r->group),
                             data_split_by_name(split));
        /* what the true hypothesis names is what the group says */
        if (!r->label || !strcmp(source, "kinship")) continue;
        strcpy(text, r->group);
        for (part = strtok(text, "/"); part; part = strtok(NULL, "/"))
            assert_true(strstr(r->hypothesis, part) || strstr(r->premise, part));
        if (!strcmp(source, "babi17") || !strcmp(source, "babi18")) {
            strcpy(text, r->group);
            for (part = strtok(text, "/"); part; part = strtok(NULL, "/")) assert_non_null(strstr(r->hypothesis, part));
        }
    }
}

static void check_twins(const data_story *story) {
    assert_true(story->n == 2 || story->n == 4);
    assert_true(story->used < DATA_STORY_TEXT - 64);
    for (int i = 0; i < story->n; i++) {
        const row *r = &story->rows[i];
        assert_int_equal(r->label, !(i & 1));
        assert_string_equal(r->kind, r->label ? "true" : "hard");
        assert_string_equal(r->premise, story->rows[0].premise);
        for (int k = 0; k < i; k++) assert_string_not_equal(r->hypothesis, story->rows[k].hypothesis);
    }
}

static int solve(const char *source, const row *r, int *steps, int *count) {
    if (!strcmp(source, "babi16")) return solve16(r->premise, r->hypothesis, steps);
    if (!strcmp(source, "babi17")) return solve17(r->premise, r->hypothesis, steps);
    if (!strncmp(source, "babi18", 6)) return solve18(r->premise, r->hypothesis, steps, count);
    return solve_kinship(r->premise, r->hypothesis, steps);
}

static void check_source(const char *source) {
    static data_stream s;
    static data_story story;
    for (int stage = 1; stage <= data_stream_stages(source); stage++)
        for (int split = 0; split < DATA_SPLITS; split++) {
            int right = 0, wrong = 0, n = split ? STORIES / 5 : STORIES;
            assert_int_equal(data_stream_open(&s, source, data_split_name(split), stage, 7), 0);
            assert_true(s.n < DATA_STREAM_CHOICES && s.classes < DATA_STREAM_CLASSES);
            for (int i = 0; i < n; i++) {
                data_stream_story(&s, 3, (uint64_t)i, &story);
                check_twins(&story);
                check_group(source, &story, data_split_name(split));
                for (int k = 0; k < story.n; k++) {
                    int steps = -1, count = 0, found = solve(source, &story.rows[k], &steps, &count);
                    if (found != story.rows[k].label || steps != story.rows[k].steps)
                        fail_msg("%s stage %d: labelled %d with %d steps, found %d with %d\n%s\n%s", source, stage,
                                 story.rows[k].label, story.rows[k].steps, found, steps, story.rows[k].premise,
                                 story.rows[k].hypothesis);
                    if (!k) right += count > 0, wrong += count < 0;
                }
            }
            if (!strncmp(source, "babi18", 6) &&
                stage == data_stream_stages(source)) { /* a coin a story: four standard deviations */
                assert_int_equal(right + wrong, n);
                assert_true(4 * (right - wrong) * (right - wrong) < 4 * 16 * n);
            }
        }
}

static void labels_babi16(void **state) {
    (void)state;
    check_source("babi16");
}

static void labels_babi17(void **state) {
    (void)state;
    check_source("babi17");
}

static void labels_babi18(void **state) {
    (void)state;
    check_source("babi18");
}

static void labels_babi18b(void **state) {
    (void)state;
    check_source("babi18b");
}

static void labels_kinship(void **state) {
    (void)state;
    check_source("kinship");
}

/* How often the asked two are told to be bigger, and how often smaller: [is the larger one][bigger][smaller]. */
static void count_degrees(const char *source, int n, int seen[2][8][8]) {
    static data_stream s;
    static data_story story;
    assert_int_equal(data_stream_open(&s, source, "train", data_stream_stages(source), 11), 0);
    for (int i = 0; i < n; i++) {
        sentences told;
        names things = {0};
        char claim[96];
        int bigger[16] = {0}, smaller[16] = {0}, large, small;
        data_stream_story(&s, 0, (uint64_t)i, &story);
        split_sentences(story.rows[0].premise, &told);
        for (int k = 0; k < told.n; k++) {
            read18(told.at[k], &things, &large, &small);
            bigger[large]++, smaller[small]++;
        }
        one_sentence(story.rows[0].hypothesis, claim);
        read18(claim, &things, &large, &small);
        seen[1][bigger[large]][smaller[large]]++, seen[0][bigger[small]][smaller[small]]++;
    }
}

/* In babi18b no number of mentions tells which of the two is the larger: all are as frequent for either. In babi18 a thing
 * never told to be smaller is hardly ever the smaller one. */
static void balanced_degrees(void **state) {
    enum { N = 40000 };
    static int even[2][8][8], drawn[2][8][8];
    (void)state;
    count_degrees("babi18b", N, even);
    count_degrees("babi18", N, drawn);
    int never[2] = {0};
    for (int i = 0; i < 8; i++) {
        never[0] += drawn[0][i][0], never[1] += drawn[1][i][0];
        for (int j = 0; j < 8; j++) {
            const int sum = even[0][i][j] + even[1][i][j], difference = even[0][i][j] - even[1][i][j];
            assert_true(difference * difference <= 16 * sum); /* four standard deviations */
        }
    }
    assert_true(never[1] > N / 4 && never[0] < N / 100);
}

/* Whether one of the first two objects has a word, colour or shape, in common with another object of the story. */
static int is_alike(const names *things, int a, int b) {
    const char *x = strchr(things->at[a], ' '), *y = strchr(things->at[b], ' ');
    const size_t colour = (size_t)(x - things->at[a]);
    return !strcmp(x, y) || (colour == (size_t)(y - things->at[b]) && !strncmp(things->at[a], things->at[b], colour));
}

/* Stage 3 of babi17: half of the stories, and a third of the other half, on one line; where it is the first half, its facts in
 * opposite words. Stage 2: half of the stories, and some of the others by chance, have a third object like one that is asked about. */
static void position_stages(void **state) {
    enum { N = 20000 };
    static data_stream s;
    static data_story story;
    (void)state;
    for (int stage = 2; stage <= 4; stage++) {
        int lines = 0, opposite = 0, alike = 0;
        assert_int_equal(data_stream_open(&s, "babi17", "train", stage, 5), 0);
        for (int i = 0; i < N; i++) {
            names things = {0};
            claim17 fact[MOST_SENTENCES], asked;
            char claim[96];
            data_stream_story(&s, 0, (uint64_t)i, &story);
            one_sentence(story.rows[0].hypothesis, claim);
            asked = read17(claim, &things); /* things 0 and 1 */
            assert_int_equal(read_facts17(story.rows[0].premise, &things, fact), 2);
            assert_int_equal(asked.a + asked.b, 1);
            assert_int_equal(things.n, stage == 2 ? 4 : 3);
            for (int k = 2, found = 0; k < things.n && !found; k++)
                alike += found = is_alike(&things, 0, k) || is_alike(&things, 1, k);
            const int same = !strcmp(fact[0].direction, fact[1].direction);
            const int on_axis = (fact[0].direction[0] == 'a' || fact[0].direction[0] == 'b') ==
                                (fact[1].direction[0] == 'a' || fact[1].direction[0] == 'b');
            lines += on_axis;
            opposite += on_axis && !same;
        }
        const double line = (double)lines / N, turned = (double)opposite / N;
        if (stage == 3) assert_true(fabs(line - 2.0 / 3) < 0.015 && fabs(turned - 7.0 / 12) < 0.015);
        if (stage == 4) assert_true(fabs(line - 1.0 / 3) < 0.015 && fabs(turned - 1.0 / 6) < 0.015);
        assert_true(stage == 2 ? alike > 0.75 * N : stage == 3 ? alike > 0.6 * N : alike < 0.5 * N);
    }
}

/* The solvers must be able to say no. */
static void solvers_reject(void **state) {
    int steps, count;
    (void)state;
    assert_int_equal(solve16("Lily is a frog. Brian is a frog. Brian is green.", "Lily is red.", &steps), 0);
    assert_int_equal(solve16("Lily is a frog. Brian is a lion. Brian is green.", "Lily is green.", &steps), -1);
    assert_int_equal(solve16("Lily is a frog. Brian is a lion. Brian is green.", "the frog is green.", &steps), -1);
    assert_int_equal(solve16("Lily is a frog. Brian is a lion. Brian is green.", "the lion is red.", &steps), 0);
    assert_int_equal(solve17("the red cube is above the blue star.", "the blue star is above the red cube.", &steps),
                     0);
    assert_int_equal(solve17("the red cube is above the blue star. the red star is below the blue cube.",
                             "the blue cube is below the red star.", &steps),
                     0);
    assert_int_equal(solve18("the box is bigger than the jar. the tin fits inside the box.",
                             "the jar is bigger than the tin.", &steps, &count),
                     -1);
    assert_int_equal(solve_kinship("Ruth is Mark's mother. Anna is Ruth's sister.", "Anna is Mark's aunt.", &steps), 1);
    assert_int_equal(solve_kinship("Ruth is Mark's mother. Anna is Ruth's sister.", "Anna is Mark's niece.", &steps),
                     0);
    assert_int_equal(solve_kinship("Ruth is Mark's daughter. Tom is Ruth's uncle.", "Tom is Mark's brother.", &steps),
                     -1);
}

/* In the full mix: both numbers of steps, a fifth swapped, and every relation that is true is as often false. */
static void kinship_mix(void **state) {
    static data_stream s;
    static data_story story;
    int of_steps[4] = {0}, swapped = 0, n = 20000, truth[10] = {0}, lie[10] = {0}, is_female;
    char x[NAME], y[NAME], word[NAME], x2[NAME], y2[NAME], claim[96];
    (void)state;
    assert_int_equal(data_stream_open(&s, "kinship", "test", data_stream_stages("kinship"), 1), 0);
    for (int i = 0; i < n; i++) {
        data_stream_story(&s, 0, (uint64_t)i, &story);
        of_steps[story.rows[0].steps]++;
        one_sentence(story.rows[0].hypothesis, claim);
        read_link(claim, x, y, word);
        truth[relation_of(word, &is_female)]++;
        one_sentence(story.rows[1].hypothesis, claim);
        read_link(claim, x2, y2, word);
        lie[relation_of(word, &is_female)]++;
        int is_swapped = !strcmp(x, y2) && !strcmp(y, x2);
        assert_int_equal(data_is_swapped(&story.rows[1]), is_swapped);
        assert_int_equal(data_is_swapped(&story.rows[0]), 0);
        swapped += is_swapped;
    }
    assert_true(abs(of_steps[2] - n / 2) < n / 50 && of_steps[2] + of_steps[3] == n);
    assert_true(abs(swapped - n / 5) < n / 50);
    for (int r = 0; r < 10; r++) assert_true(abs(truth[r] - lie[r]) < n / 50);
    assert_int_equal(data_stream_open(&s, "kinship", "train", 4, 1), 0);
    for (int i = 0; i < 500; i++) { /* the stage of swapped persons swaps always */
        data_stream_story(&s, 0, (uint64_t)i, &story);
        one_sentence(story.rows[0].hypothesis, claim);
        read_link(claim, x, y, word);
        one_sentence(story.rows[1].hypothesis, claim);
        read_link(claim, x2, y2, word);
        assert_string_equal(x, y2);
        assert_string_equal(y, x2);
    }
}

static uint64_t hash_story(uint64_t h, const data_story *story) {
    for (int i = 0; i < story->n; i++) {
        const row *r = &story->rows[i];
        h = hash_string(hash_string(hash_string(h, r->premise), r->hypothesis), r->group);
        h = hash_string(hash_string(h, r->source), r->split) + (uint64_t)(r->label + 2 * r->steps);
    }
    return h;
}

/* The bytes are the same on every machine: these hashes must never change without a new version of the data. */
static void same_seed_same_bytes(void **state) {
    static const uint64_t expected[5] = {UINT64_C(0x083A8CDBA0D8F68C), UINT64_C(0x380F2B81B957F3E1),
                                         UINT64_C(0xAA20DB9D8C15C6CB), UINT64_C(0x2524A997ABCA6C75),
                                         UINT64_C(0x86B38EA3A5A46FA2)};
    static data_stream s;
    static data_story story;
    (void)state;
    for (int k = 0; data_stream_sources()[k]; k++) {
        uint64_t h = 0;
        for (int stage = 1; stage <= data_stream_stages(data_stream_sources()[k]); stage++) {
            assert_int_equal(data_stream_open(&s, data_stream_sources()[k], "train", stage, 42), 0);
            for (uint64_t i = 0; i < 500; i++) {
                data_stream_story(&s, i / 32, i % 32, &story);
                h = hash_story(h, &story);
            }
        }
        print_message("%s %016llx\n", data_stream_sources()[k], (unsigned long long)h);
        assert_true(h == expected[k]);
    }
}

/* A story is a function of (seed, step, index): the order of drawing and a copy of the stream change nothing. */
static void stories_are_independent(void **state) {
    static data_stream s, t;
    static data_story a, b;
    (void)state;
    assert_int_equal(data_stream_open(&s, "babi18", "train", 4, 42), 0);
    data_stream_story(&s, 5, 7, &a);
    uint64_t h = hash_story(0, &a);
    t = s;
    for (uint64_t i = 0; i < 100; i++) data_stream_story(&t, 5, i, &b);
    data_stream_story(&t, 5, 7, &b);
    assert_true(hash_story(0, &b) == h);
    data_stream_story(&t, 5, 8, &b);
    assert_true(hash_story(0, &b) != h);
    data_stream_story(&t, 6, 7, &b);
    assert_true(hash_story(0, &b) != h);
    assert_int_equal(data_stream_open(&t, "babi18", "train", 4, 43), 0);
    data_stream_story(&t, 5, 7, &b);
    assert_true(hash_story(0, &b) != h);
}

static void refuses(void **state) {
    static data_stream s;
    (void)state;
    assert_int_equal(data_stream_open(&s, "babi19", "train", 1, 0), -1);
    assert_int_equal(data_stream_open(&s, "babi16", "validation", 1, 0), -1);
    assert_int_equal(data_stream_open(&s, "babi16", "train", 0, 0), -2);
    assert_int_equal(data_stream_open(&s, "babi16", "train", 8, 0), -2);
    assert_int_equal(data_stream_stages("isa"), 0);
    assert_null(data_stream_describe("babi16", 99));
    assert_non_null(data_stream_describe("babi16", 1));
}

/* Reported. The aim is 200,000 stories a second of processor time; a neighbour on the machine halves that at times, so an optimised
 * build without sanitizers is held to a quarter. */
static void fast_enough(void **state) {
    static data_stream s;
    static data_story story;
    (void)state;
    for (int k = 0; data_stream_sources()[k]; k++) {
        int last = data_stream_stages(data_stream_sources()[k]), n = 50000;
        assert_int_equal(data_stream_open(&s, data_stream_sources()[k], "train", last, 42), 0);
        clock_t start = clock();
        for (int i = 0; i < n; i++) data_stream_story(&s, 0, (uint64_t)i, &story);
        double per_second = n / ((double)(clock() - start + 1) / CLOCKS_PER_SEC);
        print_message("%s: %.0f stories/s\n", data_stream_sources()[k], per_second);
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        assert_true(per_second > 50000);
#endif
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_babi16),
        cmocka_unit_test(labels_babi17),
        cmocka_unit_test(position_stages),
        cmocka_unit_test(labels_babi18),
        cmocka_unit_test(labels_babi18b),
        cmocka_unit_test(balanced_degrees),
        cmocka_unit_test(labels_kinship),
        cmocka_unit_test(solvers_reject),
        cmocka_unit_test(kinship_mix),
        cmocka_unit_test(same_seed_same_bytes),
        cmocka_unit_test(stories_are_independent),
        cmocka_unit_test(refuses),
        cmocka_unit_test(fast_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Stories after bAbI tasks 16 (induction), 17 (position) and 18 (size). In every pair the true hypothesis and its false
 * twin are exchangeable by construction: either could have been the true one with the same probability, so that neither
 * the hypothesis alone nor counts of its words in the story tell the answer. */
#include <assert.h>
#include <string.h>

#include "data/generator.h"
#include "data/split.h"

static void put_sentence(data_story *story, const char *const *parts, size_t n) {
    for (size_t i = 0; i < n; i++) story_put(story, parts[i]);
}

/* ---- 16, induction: colour follows the animal */

enum { PEOPLE = 5, ANIMALS = 12, COLOURS = 10 };

static const char *const people[PEOPLE] = {"Lily", "Bernhard", "Brian", "Julius", "Greg"};
static const char *const animals[ANIMALS] = {"frog",  "lion",  "swan",  "rhino", "wolf", "cat",
                                             "mouse", "sheep", "horse", "goat",  "duck", "bear"};
static const char *const colours[COLOURS] = {"white", "green", "gray", "yellow", "black",
                                             "brown", "blue",  "red",  "pink",   "orange"};

static const char *const describe16[] = {
    "two people, one fact each (all animals or all colours); a question on one fact",
    "three people, one fact each; a question on one fact",
    "two people with animal and colour; a question on one fact, or on an animal's colour (\"the frog is white\")",
    "three people with animal and colour; the same questions",
    "three people, 5 facts: an animal's colour, or the colour of one who shares it with somebody",
    "four people, 7 facts, the same questions",
    "the full story: five people, 9 facts; the colour of one who shares an animal with somebody",
};

/* A choice is (person, animal, colour) as a number below TRIPLES, else (person, animal), else (person, colour). */
enum {
    TRIPLES = PEOPLE * ANIMALS * COLOURS,
    WITH_ANIMAL = TRIPLES + PEOPLE * ANIMALS,
    ALL16 = WITH_ANIMAL + PEOPLE * COLOURS
};

typedef struct asked16 {
    int person, animal, colour; /* -1 where the question has none */
} asked16;

static asked16 decode16(int code) {
    if (code < TRIPLES) return (asked16){code / (ANIMALS * COLOURS), code / COLOURS % ANIMALS, code % COLOURS};
    if (code < WITH_ANIMAL) return (asked16){(code - TRIPLES) / ANIMALS, (code - TRIPLES) % ANIMALS, -1};
    return (asked16){(code - WITH_ANIMAL) / COLOURS, -1, (code - WITH_ANIMAL) % COLOURS};
}

static const char *put_group16(data_story *story, asked16 a) {
    const char *group = story_begin(story);
    story_put(story, people[a.person]);
    if (a.animal >= 0) put_sentence(story, (const char *[]){"/", animals[a.animal]}, 2);
    if (a.colour >= 0) put_sentence(story, (const char *[]){"/", colours[a.colour]}, 2);
    story_end(story);
    return group;
}

static void open16(data_stream *s) {
    data_story scratch;
    int from = s->stage <= 2 ? TRIPLES : 0, to = s->stage <= 2 ? ALL16 : s->stage <= 4 ? WITH_ANIMAL : TRIPLES;
    for (int code = from; code < to; code++) {
        asked16 a = decode16(code);
        scratch.used = 0;
        if (data_split_of("babi16", put_group16(&scratch, a)) != s->split) continue;
        if (code < TRIPLES) { /* triples come by person: keep the range of each */
            if (!s->count[a.person][0]) s->first[a.person][0] = (uint16_t)s->n;
            s->count[a.person][0]++;
            s->classes++;
        }
        s->choice[s->n++] = (uint16_t)code;
    }
}

typedef struct fact16 {
    int person, animal, colour; /* animal or colour is -1; the person where the animal itself is spoken of */
} fact16;

static const char *put_fact16(data_story *story, fact16 f) {
    const char *text = story_begin(story);
    if (f.person < 0)
        put_sentence(story, (const char *[]){"the ", animals[f.animal], " is ", colours[f.colour], "."}, 5);
    else if (f.animal >= 0)
        put_sentence(story, (const char *[]){people[f.person], " is a ", animals[f.animal], "."}, 4);
    else
        put_sentence(story, (const char *[]){people[f.person], " is ", colours[f.colour], "."}, 4);
    return text;
}

static void finish16(const data_stream *s, rng *r, data_story *story, fact16 *facts, int n, asked16 group, fact16 truth,
                     fact16 lie, int steps) {
    const char *key = put_group16(story, group), *premise = story_begin(story);
    int order[2 * PEOPLE];
    for (int i = 0; i < n; i++) order[i] = i;
    rng_shuffle(r, order, (size_t)n);
    for (int i = 0; i < n; i++) {
        if (i) story_put(story, " ");
        put_fact16(story, facts[order[i]]);
    }
    story_end(story);
    for (int label = 1; label >= 0; label--) {
        row *out = story_row(story, "babi16", data_split_name(s->split), truth.colour < 0 ? "IsA" : "HasColor", label,
                             steps, key);
        out->premise = premise;
        out->hypothesis = put_fact16(story, label ? truth : lie);
        story_end(story);
    }
}

/* k different numbers below n, the given ones first. */
static void draw_distinct(rng *r, int *out, int given, int k, int n) {
    for (int i = given; i < k; i++) {
        int again;
        do {
            again = 0;
            out[i] = (int)rng_below(r, (uint32_t)n);
            for (int j = 0; j < i; j++) again |= out[j] == out[i];
        } while (again);
    }
}

/* Everybody has one fact of one kind. */
static void draw16_single(const data_stream *s, rng *r, data_story *story) {
    int n = s->stage + 1, who[PEOPLE], what[PEOPLE];
    asked16 a = decode16(s->choice[rng_below(r, (uint32_t)s->n)]);
    int is_animal = a.animal >= 0;
    who[0] = a.person;
    what[0] = is_animal ? a.animal : a.colour;
    draw_distinct(r, who, 1, n, PEOPLE);
    draw_distinct(r, what, 1, n, is_animal ? ANIMALS : COLOURS);
    fact16 facts[PEOPLE];
    for (int i = 0; i < n; i++) facts[i] = (fact16){who[i], is_animal ? what[i] : -1, is_animal ? -1 : what[i]};
    fact16 lie = facts[1];
    lie.person = a.person;
    finish16(s, r, story, facts, n, a, facts[0], lie, 1);
}

/* Another animal and colour for the same person, also of this split, so that the two could change places. */
static asked16 draw16_twin(const data_stream *s, rng *r, asked16 a) {
    asked16 b;
    do b = decode16(s->choice[s->first[a.person][0] + rng_below(r, s->count[a.person][0])]);
    while (b.animal == a.animal || b.colour == a.colour);
    return b;
}

static void draw16(const data_stream *s, rng *r, data_story *story) {
    if (s->stage <= 2) {
        draw16_single(s, r, story);
        return;
    }
    int told = s->stage <= 4; /* the asked person's colour stands in the story */
    int n = (const int[]){2, 3, 3, 4, 5}[s->stage - 3], who[PEOPLE], kind[4], shade[4], has[PEOPLE];
    int of_animal = s->stage < 7 && rng_below(r, told ? 3 : 2) == 0, ask_animal = told && !of_animal && rng_coin(r);
    asked16 a = ask_animal ? decode16(s->choice[(uint32_t)s->classes + rng_below(r, (uint32_t)(s->n - s->classes))])
                           : decode16(s->choice[rng_below(r, (uint32_t)s->classes)]);
    asked16 b = ask_animal ? (asked16){a.person, -1, -1} : draw16_twin(s, r, a);
    kind[0] = a.animal, kind[1] = b.animal, shade[0] = a.colour, shade[1] = b.colour;
    draw_distinct(r, kind, ask_animal ? 1 : 2, 4, ANIMALS);
    draw_distinct(r, shade, ask_animal ? 0 : 2, 4, COLOURS);
    who[0] = a.person;
    draw_distinct(r, who, 1, n, PEOPLE);
    /* the asked animal and the false twin's have one bearer each for sure, the other people any of four animals */
    has[0] = 0;
    int sure = told ? 1 : 2;
    for (int i = 1; i < n; i++) has[i] = i <= sure ? i - sure + 1 : (int)rng_below(r, 4);
    fact16 facts[2 * PEOPLE];
    int m = 0;
    for (int i = 0; i < n; i++) {
        facts[m++] = (fact16){who[i], kind[has[i]], -1};
        if (i || told) facts[m++] = (fact16){who[i], -1, shade[has[i]]};
    }
    fact16 truth = {a.person, ask_animal ? kind[0] : -1, ask_animal ? -1 : shade[0]};
    fact16 lie = {a.person, ask_animal ? kind[1] : -1, ask_animal ? -1 : shade[1]};
    if (of_animal) {
        truth = (fact16){-1, kind[0], shade[0]};
        lie = (fact16){-1, kind[0], shade[1]};
    }
    finish16(s, r, story, facts, m, a, truth, lie, of_animal ? 2 : told ? 1 : 3);
}

const generator babi16_generator = {"babi16", (int)COUNT_OF(describe16), describe16, open16, draw16};

/* ---- facts between two things, for 17 and 18: "the A <relation> the B" */

typedef struct fact {
    const char *subject, *relation, *object;
} fact;

static const char *put_fact(data_story *story, fact f) {
    const char *text = story_begin(story);
    put_sentence(story, (const char *[]){"the ", f.subject, f.relation, "the ", f.object, "."}, 6);
    return text;
}

static const char *put_facts(rng *r, data_story *story, const fact *facts, int n) {
    const char *premise = story_begin(story);
    int order[8];
    for (int i = 0; i < n; i++) order[i] = i;
    rng_shuffle(r, order, (size_t)n);
    for (int i = 0; i < n; i++) {
        if (i) story_put(story, " ");
        put_fact(story, facts[order[i]]);
    }
    story_end(story);
    return premise;
}

static void add_twins(data_story *story, row like, fact truth, fact lie) {
    for (int label = 1; label >= 0; label--) {
        row *out = story_row(story, like.source, like.split, like.relation, label, like.steps, like.group);
        out->premise = like.premise;
        out->hypothesis = put_fact(story, label ? truth : lie);
        story_end(story);
    }
}

static const char *put_pair(data_story *story, const char *a, const char *b) {
    const char *group = story_begin(story);
    int swap = strcmp(a, b) > 0;
    put_sentence(story, (const char *[]){swap ? b : a, "/", swap ? a : b}, 3);
    story_end(story);
    return group;
}

/* Choices are unordered pairs of things, as a * n + b with a < b. */
static void open_pairs(data_stream *s, const char *source, const char *const *things, int n) {
    data_story scratch;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            scratch.used = 0;
            if (data_split_of(source, put_pair(&scratch, things[a], things[b])) == s->split)
                s->choice[s->n++] = (uint16_t)(a * n + b);
        }
}

static void draw_pair(const data_stream *s, rng *r, int n, int *a, int *b) {
    int code = s->choice[rng_below(r, (uint32_t)s->n)], swap = rng_coin(r);
    *a = swap ? code % n : code / n;
    *b = swap ? code / n : code % n;
}

/* ---- 17, position */

enum { COLOURS17 = 8, OBJECTS = 8 * COLOURS17 };

#define SHAPE(shape)                                                                                                   \
    "red " shape, "blue " shape, "yellow " shape, "pink " shape, "green " shape, "purple " shape, "white " shape,      \
        "black " shape

static const char *const objects[OBJECTS] = {SHAPE("square"), SHAPE("rectangle"), SHAPE("triangle"), SHAPE("sphere"),
                                             SHAPE("cube"),   SHAPE("star"),      SHAPE("cone"),     SHAPE("ring")};

/* Directions 0..3; d ^ 1 is the opposite, d >> 1 the axis. */
static const char *const directions[4] = {" is above ", " is below ", " is to the left of ", " is to the right of "};

static const char *const describe17[] = {
    "one fact and a question on it",
    "two facts on four objects, in half of the stories with a third object like an asked one; a question on one fact",
    "as the full story, but half of them on one line and told in opposite words, and half with objects alike",
    "the full story: three objects, two facts, a question on the two ends along one axis",
};

static void open17(data_stream *s) {
    open_pairs(s, "babi17", objects, OBJECTS);
}

/* "a is <direction> of b", said from either end. */
static fact say17(int from_b, int a, int direction, int b) {
    return from_b ? (fact){objects[b], directions[direction ^ 1], objects[a]}
                  : (fact){objects[a], directions[direction], objects[b]};
}

/* A statement and its false twin: the opposite direction (turn) or the objects swapped. */
static void add_twins17(data_story *story, row like, int turn, int from_b, int a, int direction, int b) {
    fact truth = say17(from_b, a, direction, b), lie = truth;
    if (turn)
        lie.relation = say17(!from_b, a, direction, b).relation;
    else
        lie.subject = truth.object, lie.object = truth.subject;
    add_twins(story, like, truth, lie);
}

/* Of one colour or one shape: only both words together tell them apart. */
static int alike17(int a, int b) {
    return a % COLOURS17 == b % COLOURS17 || a / COLOURS17 == b / COLOURS17;
}

/* What a story tells: o[0] is `first` of its neighbour, which (or o[0] itself) is `second` of o[1]. */
typedef struct told17 {
    int first, second, n;
    fact facts[2];
} told17;

static void draw_others17(rng *r, int *o, int n, int alike) {
    do draw_distinct(r, o, 2, n, OBJECTS);
    while (alike && !alike17(o[2], o[0]) && !alike17(o[2], o[1]));
}

/* o[0] and o[1] are neighbours. `apart`: two others are told of besides. */
static told17 tell_neighbours17(rng *r, int *o, int apart) {
    told17 t = {.first = (int)rng_below(r, 4), .n = 1};
    t.second = t.first;
    t.facts[0] = say17(rng_coin(r), o[0], t.first, o[1]);
    if (!apart) return t;
    draw_others17(r, o, 4, rng_coin(r));
    const int direction = (int)rng_below(r, 4), from_b = rng_coin(r);
    t.facts[t.n++] = say17(from_b, o[2], direction, o[3]);
    return t;
}

/* A path from o[0] over o[2] to o[1] that does not return to its start. On a line whose facts are told in opposite words neither
 * the words' direction nor the objects' order tells anything until both are put together fact by fact. */
static told17 tell_path17(rng *r, int *o, int line, int alike) {
    told17 t = {.first = (int)rng_below(r, 4), .n = 2};
    do t.second = line ? t.first : (int)rng_below(r, 4);
    while (t.second == (t.first ^ 1));
    draw_others17(r, o, 3, alike);
    const int from_middle = rng_coin(r), from_end = line ? !from_middle : rng_coin(r);
    t.facts[0] = say17(from_middle, o[0], t.first, o[2]);
    t.facts[1] = say17(from_end, o[2], t.second, o[1]);
    return t;
}

static told17 tell17(int stage, rng *r, int *o) {
    if (stage < 3) return tell_neighbours17(r, o, stage == 2);
    const int alike = stage == 3 && rng_coin(r), line = stage == 3 && rng_coin(r);
    return tell_path17(r, o, line, alike);
}

static void draw17(const data_stream *s, rng *r, data_story *story) {
    int o[4];
    draw_pair(s, r, OBJECTS, &o[0], &o[1]);
    const char *group = put_pair(story, objects[o[0]], objects[o[1]]);
    const told17 t = tell17(s->stage, r, o);
    row like = {data_split_name(s->split), "babi17", "Position", 0, "", s->stage < 3 ? 1 : 2, group, "", ""};
    like.premise = put_facts(r, story, t.facts, t.n);
    int asked = rng_coin(r) ? t.first : t.second, from_b = rng_coin(r), turn = rng_coin(r);
    add_twins17(story, like, turn, from_b, o[0], asked, o[1]);
    from_b = !from_b;          /* one axis only: the same from the other end */
    if (t.first != t.second) { /* the other axis */
        turn = rng_coin(r);
        from_b = rng_coin(r);
        asked = asked == t.first ? t.second : t.first;
    }
    add_twins17(story, like, turn, from_b, o[0], asked, o[1]);
}

const generator babi17_generator = {"babi17", (int)COUNT_OF(describe17), describe17, open17, draw17};

/* ---- 18, size */

enum { CONTAINERS = 16, MOST_FACTS = 8, MOST_THINGS = 8 };

static const char *const containers[CONTAINERS] = {"box",    "chest", "suitcase", "container", "crate",  "jar",
                                                   "basket", "trunk", "bag",      "barrel",    "bucket", "drawer",
                                                   "tin",    "bowl",  "case",     "cup"};

static const char *const describe18[] = {
    "one fact and a question on it",
    "three facts on six things; a question on one of them",
    "a chain of two facts with 0-2 more; one- and two-step questions",
    "the full story: 5-8 facts, a two-step question; counting who is bigger how often is right in half of the stories",
};

static const char *const describe18b[] = {
    "one fact and a question on it",
    "three facts on six things; a question on one of them",
    "a chain of four facts on five things, one- and two-step questions on the inner three",
    "the full story: 5-8 facts, a two-step question; both things are told as often to be bigger, and as often smaller",
};

static void open18(data_stream *s) { /* a pair is of one split in both sources */
    open_pairs(s, "babi18", containers, CONTAINERS);
}

static fact say18(int inside, int large, int small) {
    return inside ? (fact){containers[small], " fits inside ", containers[large]}
                  : (fact){containers[large], " is bigger than ", containers[small]};
}

/* Things 0 .. n-1 from the largest to the smallest, and the facts told between them. */
typedef struct sizes {
    int n, facts;
    int large[MOST_FACTS], small[MOST_FACTS];
    unsigned told[MOST_THINGS]; /* bit j of told[i]: i > j is told */
} sizes;

static int tell(sizes *z, int large, int small) {
    if (z->told[large] >> small & 1) return 0;
    z->told[large] |= 1u << small;
    z->large[z->facts] = large;
    z->small[z->facts++] = small;
    return 1;
}

static int between(rng *r, int lo, int hi) {
    return lo + (int)rng_below(r, (uint32_t)(hi - lo + 1));
}

/* Any new fact that touches neither of the asked things. */
static void tell_other(rng *r, sizes *z, int large, int small) {
    for (;;) {
        int i = (int)rng_below(r, (uint32_t)z->n), j = (int)rng_below(r, (uint32_t)z->n);
        if (i >= j) continue;
        int touches = (i == large || i == small) + (j == large || j == small);
        if (!touches && tell(z, i, j)) return;
    }
}

/* large > middle > small is told, and no shorter way. Each asked thing is told at least once to be bigger
 * than something and at least once to be smaller, plus one further fact about one of them; which of the four it is falls
 * to a coin. So how often each is told to be bigger and smaller has the same distribution for both, and the count
 * "bigger minus fits inside" points the wrong way in exactly half of the stories. */
static void tell_balanced(rng *r, sizes *z, int *large, int *small) {
    int against = rng_coin(r), on_large = rng_coin(r), total = between(r, 5, MOST_FACTS), extra;
    do {
        *z = (sizes){.n = 6};
        *large = between(r, 1, 2);
        *small = between(r, *large + 2, 4);
        int middle = between(r, *large + 1, *small - 1);
        tell(z, *large, middle);
        tell(z, middle, *small);
        tell(z, between(r, 0, *large - 1), *large);
        tell(z, *small, between(r, *small + 1, z->n - 1));
        int other = (int)rng_below(r, (uint32_t)z->n);
        extra = other != *large && other != *small;
        if (on_large)
            extra = extra &&
                    (against ? other < *large && tell(z, other, *large) : other > *large && tell(z, *large, other));
        else
            extra = extra &&
                    (against ? other > *small && tell(z, *small, other) : other < *small && tell(z, other, *small));
    } while (!extra);
    while (z->facts < total) tell_other(r, z, *large, *small);
}

/* large > middle > small: any three of n things. */
static void draw_three(rng *r, int n, int *large, int *middle, int *small) {
    int a, b, c;
    do {
        a = (int)rng_below(r, (uint32_t)n), b = (int)rng_below(r, (uint32_t)n), c = (int)rng_below(r, (uint32_t)n);
    } while (a >= b || b >= c);
    *large = a, *middle = b, *small = c;
}

/* large > middle > small, and any other facts up to the total that do not shorten the way. */
static void tell_path(rng *r, sizes *z, int large, int middle, int small, int total) {
    tell(z, large, middle);
    tell(z, middle, small);
    while (z->facts < total) {
        const int i = (int)rng_below(r, (uint32_t)z->n), j = (int)rng_below(r, (uint32_t)z->n);
        if (i < j && (i != large || j != small)) tell(z, i, j);
    }
}

/* How often a thing is told to be bigger, less how often it is told to be smaller. */
static int tally(const sizes *z, int thing) {
    int count = 0;
    for (int i = 0; i < z->facts; i++) count += (z->large[i] == thing) - (z->small[i] == thing);
    return count;
}

/* The full story. A coin says whether the tallies of the two must point the right way or the wrong one; the wrong one needs
 * many facts by which something is bigger than large or small bigger than something, so these are drawn more often there.
 * Tallies are not all that counts can tell: a thing told to be bigger only, or smaller only, gives most answers away, which
 * is why tell_balanced stands beside this. */
static void tell_full(rng *r, sizes *z, int *large, int *small) {
    const int right = rng_coin(r);
    int middle, margin;
    do {
        const int total = between(r, 5, MOST_FACTS), against = right ? 0 : between(r, 3, total - 2);
        *z = (sizes){.n = MOST_THINGS};
        draw_three(r, z->n, large, &middle, small);
        for (int i = 0; i < against; i++) { /* only five such facts exist: there is always room for the path */
            const int above = (int)rng_below(r, (uint32_t)z->n), below = (int)rng_below(r, (uint32_t)z->n);
            if (above < *large) tell(z, above, *large);
            if (below > *small && z->facts < against) tell(z, *small, below);
        }
        tell_path(r, z, *large, middle, *small, total);
        margin = tally(z, *large) - tally(z, *small);
    } while (right ? margin <= 0 : margin >= 0);
}

static int tell_chain(rng *r, sizes *z, int *large, int *small) {
    int middle;
    z->n = 5;
    draw_three(r, z->n, large, &middle, small);
    tell_path(r, z, *large, middle, *small, between(r, 2, 4));
    const int steps = 1 + rng_coin(r);
    if (steps == 1) *(rng_coin(r) ? large : small) = middle;
    return steps;
}

/* Whoever is asked about is told to be bigger once and smaller once. */
static int tell_balanced_chain(rng *r, sizes *z, int *large, int *small) {
    z->n = 5;
    for (int i = 0; i < 4; i++) tell(z, i, i + 1);
    const int steps = 1 + rng_coin(r);
    *large = steps == 2 ? 1 : between(r, 1, 2);
    *small = *large + steps;
    return steps;
}

static int tell_stage(int stage, int balanced, rng *r, sizes *z, int *large, int *small) {
    *z = (sizes){.n = 2};
    *large = 0, *small = 1;
    if (stage == 1) {
        tell(z, 0, 1);
    } else if (stage == 2) { /* three pairs of neighbours, the first one is asked about; no order between the pairs */
        z->n = 6;
        for (int i = 0; i < 6; i += 2) tell(z, i, i + 1);
    } else if (stage == 3) {
        return (balanced ? tell_balanced_chain : tell_chain)(r, z, large, small);
    } else {
        (balanced ? tell_balanced : tell_full)(r, z, large, small);
        return 2;
    }
    return 1;
}

static void draw_sizes(const data_stream *s, rng *r, data_story *story, const char *source, int balanced) {
    sizes z;
    int a, b, large, small, thing[MOST_THINGS];
    draw_pair(s, r, CONTAINERS, &a, &b);
    int steps = tell_stage(s->stage, balanced, r, &z, &large, &small);
    int others[MOST_THINGS] = {a, b}, k = 2;
    draw_distinct(r, others, 2, z.n, CONTAINERS);
    for (int i = 0; i < z.n; i++) thing[i] = i == large ? a : i == small ? b : others[k++];
    fact facts[MOST_FACTS];
    int inside = rng_coin(r);
    for (int i = 0; i < z.facts; i++) facts[i] = say18(rng_coin(r), thing[z.large[i]], thing[z.small[i]]);
    row like = {
        data_split_name(s->split), source, "Size", 0, "", steps, put_pair(story, containers[a], containers[b]), "", ""};
    like.premise = put_facts(r, story, facts, z.facts);
    for (int i = 0; i < 2; i++, inside = !inside) add_twins(story, like, say18(inside, a, b), say18(inside, b, a));
}

static void draw18(const data_stream *s, rng *r, data_story *story) {
    draw_sizes(s, r, story, "babi18", 0);
}

static void draw18b(const data_stream *s, rng *r, data_story *story) {
    draw_sizes(s, r, story, "babi18b", 1);
}

const generator babi18_generator = {"babi18", (int)COUNT_OF(describe18), describe18, open18, draw18};
const generator babi18b_generator = {"babi18b", (int)COUNT_OF(describe18b), describe18b, open18, draw18b};

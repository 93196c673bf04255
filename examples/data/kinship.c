/* Kinship stories: a chain of people, one sentence a link, and a hypothesis on the two ends.
 *
 * R(x, y) reads "y is x's R". A pattern is the chain's words (with gender); it is used if every bracketing that the rules
 * can derive gives one and the same relation. Hypotheses are balanced by exchange: for two relations a and b of one
 * gender, "a true, b false" is drawn as often as "b true, a false", within stories of as many steps, and within stories
 * that name both words, neither, only a, only b. So neither the hypothesis alone nor its overlap with the story tells the
 * answer. */
#include <string.h>

#include "data/generator.h"
#include "data/split.h"

enum relation {
    CHILD,
    SPOUSE,
    PARENT,
    SIBLING,
    GRANDCHILD,
    GRANDPARENT,
    CHILD_IN_LAW,
    PARENT_IN_LAW,
    UNCLE,
    NEPHEW,
    RELATIONS
};

/* A word is relation * 2 + gender (0 male, 1 female). */
enum { WORDS = 2 * RELATIONS, NAMES = 32 };

static const char *const words[WORDS] = {
    "son",           "daughter",      "husband",       "wife",        "father",      "mother",     "brother",
    "sister",        "grandson",      "granddaughter", "grandfather", "grandmother", "son-in-law", "daughter-in-law",
    "father-in-law", "mother-in-law", "uncle",         "aunt",        "nephew",      "niece"};

static const char *const names[2][NAMES] = {
    {"Mark",   "Tom",    "Peter",  "Paul",  "John",   "David",   "Simon", "Martin", "Robert", "Henry", "Frank",
     "Jack",   "Adam",   "Daniel", "Eric",  "George", "Kevin",   "Leo",   "Oscar",  "Philip", "Ralph", "Steven",
     "Victor", "Walter", "Alan",   "Colin", "Edgar",  "Gilbert", "Hugo",  "Ivan",   "Karl",   "Norman"},
    {"Ruth",  "Anna",  "Mary",  "Helen", "Laura", "Susan", "Karen",  "Emma",   "Alice",  "Clara", "Diana",
     "Ellen", "Grace", "Irene", "Jane",  "Kate",  "Linda", "Martha", "Nora",   "Olivia", "Paula", "Rosa",
     "Sarah", "Tina",  "Vera",  "Wendy", "Amy",   "Carol", "Edith",  "Hannah", "Julia",  "Marion"}};

static const struct rule {
    enum relation first, second, whole;
} rules[] = {
    {CHILD, CHILD, GRANDCHILD},      {CHILD, SPOUSE, CHILD_IN_LAW},       {CHILD, SIBLING, CHILD},
    {PARENT, CHILD, SIBLING},        {PARENT, PARENT, GRANDPARENT},       {PARENT, SIBLING, UNCLE},
    {SPOUSE, PARENT, PARENT_IN_LAW}, {SPOUSE, GRANDCHILD, GRANDCHILD},    {SPOUSE, CHILD, CHILD},
    {SIBLING, SIBLING, SIBLING},     {SIBLING, GRANDPARENT, GRANDPARENT}, {SIBLING, CHILD, NEPHEW},
    {SIBLING, PARENT, PARENT},       {GRANDCHILD, SIBLING, GRANDCHILD},
};

static const char *const describe[] = {
    "one step: two unrelated facts, a question on one of them",
    "two steps",
    "three steps",
    "swapped persons: one to three steps, the false hypothesis is the true one with its two people swapped",
    "the full mix: half two, half three steps; one false hypothesis in five has its persons swapped",
};

enum { ONE = 1, TWO, THREE, SWAPPED, FULL };

static int compose(int first, int second) {
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if ((int)rules[i].first == first && (int)rules[i].second == second) return (int)rules[i].whole;
    return -1;
}

typedef struct pattern {
    int steps, word[3];
} pattern;

/* Spouses are husband and wife, and a child's two parents father and mother: the person (0: the first) who must be of another gender
 * than the bearer of word `i`; -1: nobody. */
static int other_gender_of(const pattern *p, int i) {
    if (p->word[i] / 2 == SPOUSE) return i;
    return i > 0 && p->word[i] / 2 == PARENT && p->word[i - 1] / 2 == CHILD ? i - 1 : -1;
}

/* Nobody has two spouses, two fathers or two mothers. Person 0 has no word yet, see first_gender. */
static int can_be(const pattern *p) {
    for (int i = 1; i < p->steps; i++) {
        const int person = other_gender_of(p, i);
        if (person > 0 && p->word[i] % 2 == p->word[person - 1] % 2) return 0;
        if (p->word[i] / 2 == SPOUSE && p->word[i - 1] / 2 == SPOUSE) return 0;
    }
    return 1;
}

/* Gender that the first person must have; -1: either. */
static int first_gender(const pattern *p) {
    for (int i = 0; i < p->steps; i++)
        if (other_gender_of(p, i) == 0) return 1 - p->word[i] % 2;
    return -1;
}

/* The word for the last person seen from the first; -1 if the rules derive none, or two bracketings disagree. */
static int answer(const pattern *p) {
    int a = p->word[0] / 2, b = p->word[1] / 2, whole;
    if (p->steps == 1) return p->word[0];
    if (p->steps == 2) {
        whole = compose(a, b);
    } else {
        int c = p->word[2] / 2, ab = compose(a, b), bc = compose(b, c);
        int left = ab < 0 ? -1 : compose(ab, c), right = bc < 0 ? -1 : compose(a, bc);
        if (left >= 0 && right >= 0 && left != right) return -1;
        whole = left >= 0 ? left : right;
    }
    return whole < 0 ? -1 : whole * 2 + p->word[p->steps - 1] % 2;
}

static int pattern_code(const pattern *p) {
    return p->steps == 1 ? p->word[0]
                         : p->word[0] + WORDS * (p->word[1] + 1 + (p->steps == 3 ? (WORDS + 1) * (p->word[2] + 1) : 0));
}

static pattern pattern_decode(int code) {
    pattern p = {1, {code % WORDS, 0, 0}};
    int rest = code / WORDS;
    if (rest % (WORDS + 1)) p.steps = 2, p.word[1] = rest % (WORDS + 1) - 1;
    if (rest / (WORDS + 1)) p.steps = 3, p.word[2] = rest / (WORDS + 1) - 1;
    return p;
}

static const char *put_group(data_story *story, const pattern *p) {
    const char *group = story_begin(story);
    for (int i = 0; i < p->steps; i++) {
        if (i) story_put(story, "+");
        story_put(story, words[p->word[i]]);
    }
    story_end(story);
    return group;
}

/* One- and two-step patterns belong to every split: they are the rules themselves. */
static int in_split(const pattern *p, int split) {
    data_story scratch;
    scratch.used = 0;
    return p->steps < 3 || data_split_of("kinship", put_group(&scratch, p)) == split;
}

/* Does the story name the word? "son-in-law" counts as named by "son": its in-law words never stand in a story. */
static int names_word(const pattern *p, int word) {
    if (word / 2 == CHILD_IN_LAW) word = CHILD * 2 + word % 2;
    if (word / 2 == PARENT_IN_LAW) word = PARENT * 2 + word % 2;
    for (int i = 0; i < p->steps; i++)
        if (p->word[i] == word) return 1;
    return 0;
}

enum { MOST_PATTERNS = 1024 };

typedef struct pattern_list {
    int n;
    struct {
        uint16_t code;
        uint8_t answer;
        pattern p;
    } at[MOST_PATTERNS];
} pattern_list;

static void list_patterns(pattern_list *list, int steps, int split) {
    list->n = 0;
    for (int code = 0; code < WORDS * (WORDS + 1) * (WORDS + 1); code++) {
        pattern p = pattern_decode(code);
        if (p.steps != steps || pattern_code(&p) != code || !can_be(&p)) continue;
        int word = answer(&p);
        if (word < 0 || !in_split(&p, split) || list->n == MOST_PATTERNS) continue;
        list->at[list->n].code = (uint16_t)code;
        list->at[list->n].answer = (uint8_t)word;
        list->at[list->n++].p = p;
    }
}

/* Appends to the choices the patterns whose answer is `yes`, of those that name (1) or do not name (0) each word. */
static int add_matched(data_stream *s, const pattern_list *list, int yes, int no, int names_yes, int names_no) {
    int count = 0;
    for (int i = 0; i < list->n && s->n < DATA_STREAM_CHOICES; i++)
        if (list->at[i].answer == yes && names_word(&list->at[i].p, yes) == names_yes &&
            names_word(&list->at[i].p, no) == names_no) {
            s->choice[s->n++] = list->at[i].code;
            count++;
        }
    return count;
}

/* A class is two words of one gender that can change places; it is drawn as often as its rarer side has patterns. */
static void open_class(data_stream *s, const pattern_list *list, int a, int b, int names_a, int names_b) {
    int c = s->classes, first = s->n;
    if (c == DATA_STREAM_CLASSES) return;
    int yes_a = add_matched(s, list, a, b, names_a, names_b), middle = s->n;
    int yes_b = add_matched(s, list, b, a, names_b, names_a);
    if (!yes_a || !yes_b) {
        s->n = first;
        return;
    }
    s->first[c][0] = (uint16_t)first, s->first[c][1] = (uint16_t)middle;
    s->count[c][0] = (uint16_t)yes_a, s->count[c][1] = (uint16_t)yes_b;
    s->relation[c][0] = (uint8_t)a, s->relation[c][1] = (uint8_t)b;
    s->cumulated[c] = (uint32_t)(yes_a < yes_b ? yes_a : yes_b) + (c ? s->cumulated[c - 1] : 0);
    s->classes++;
}

static void open_steps(data_stream *s, int steps) {
    pattern_list list;
    list_patterns(&list, steps, s->split);
    for (int a = 0; a < WORDS; a++)
        for (int b = a + 2; b < WORDS; b += 2)
            for (int named = 0; named < 4; named++) open_class(s, &list, a, b, named & 1, named >> 1);
}

static void open_kinship(data_stream *s) {
    if (s->stage != ONE && s->stage != THREE) open_steps(s, 2);
    s->classes_of_two = s->classes;
    if (s->stage != ONE && s->stage != TWO) open_steps(s, 3);
}

/* A pattern of so many steps and a false word that matches its answer. */
static pattern draw_pattern(const data_stream *s, rng *r, int steps, int *no) {
    int lo = steps == 2 ? 0 : s->classes_of_two, hi = steps == 2 ? s->classes_of_two : s->classes;
    uint32_t below = lo ? s->cumulated[lo - 1] : 0, at = below + rng_below(r, s->cumulated[hi - 1] - below);
    while (lo < hi - 1) { /* first class whose cumulated weight is above `at` */
        int middle = lo + (hi - lo) / 2;
        if (s->cumulated[middle - 1] <= at)
            lo = middle;
        else
            hi = middle;
    }
    int side = rng_coin(r);
    *no = s->relation[lo][!side];
    return pattern_decode(s->choice[s->first[lo][side] + rng_below(r, s->count[lo][side])]);
}

/* Can "y is x's R" be told from "x is y's R" by sense alone? Not for a symmetrical R, nor if the word's gender gives it away. */
static int can_swap(const pattern *p, int yes, int *gender) {
    int last = p->word[p->steps - 1] % 2;
    if (yes / 2 == SIBLING || yes / 2 == SPOUSE) return 0;
    if (first_gender(p) == 1 - last) return 0;
    *gender = last;
    return 1;
}

typedef struct person {
    int gender, name;
} person;

static const char *name_of(person p) {
    return names[p.gender][p.name];
}

static void draw_name(rng *r, person *p, int i) {
    int again;
    do {
        again = 0;
        p[i].name = (int)rng_below(r, NAMES);
        for (int j = 0; j < i; j++) again |= p[j].gender == p[i].gender && p[j].name == p[i].name;
    } while (again);
}

static const char *put_link(data_story *story, person x, int word, person y) {
    const char *text = story_begin(story);
    story_put(story, name_of(y));
    story_put(story, " is ");
    story_put(story, name_of(x));
    story_put(story, "'s ");
    story_put(story, words[word]);
    story_put(story, ".");
    return text;
}

static int draw_first_gender(rng *r, const pattern *p) {
    const int gender = first_gender(p);
    return gender < 0 ? rng_coin(r) : gender;
}

static void draw_kinship(const data_stream *s, rng *r, data_story *story) {
    int steps = s->stage == ONE || s->stage == TWO || s->stage == THREE ? s->stage
                : s->stage == SWAPPED                                   ? 1 + (int)rng_below(r, 3)
                                                                        : 2 + rng_coin(r);
    int swapped = s->stage == SWAPPED || ((s->stage == FULL || s->stage == ONE) && rng_below(r, 5) == 0);
    int no, yes, gender;
    pattern p;
    do {
        if (steps == 1) {
            p = (pattern){1, {(int)rng_below(r, WORDS), 0, 0}};
            do no = (int)rng_below(r, RELATIONS) * 2 + p.word[0] % 2;
            while (no == p.word[0]);
        } else {
            p = draw_pattern(s, r, steps, &no);
        }
        yes = answer(&p);
        gender = draw_first_gender(r, &p);
    } while (swapped && !can_swap(&p, yes, &gender));

    person who[5] = {{gender, 0}};
    int people = steps == 1 ? 4 : steps + 1, links = steps == 1 ? 2 : steps;
    for (int i = 1; i <= steps; i++) who[i].gender = p.word[i - 1] % 2;
    if (steps == 1) { /* the unrelated fact tells the false word */
        const pattern unrelated = {1, {no}};
        who[2].gender = draw_first_gender(r, &unrelated), who[3].gender = no % 2;
    }
    for (int i = 0; i < people; i++) draw_name(r, who, i);

    const char *group = put_group(story, &p), *premise = story_begin(story);
    int order[3] = {0, 1, 2};
    rng_shuffle(r, order, (size_t)links);
    for (int i = 0; i < links; i++) {
        if (i) story_put(story, " ");
        if (steps == 1 && order[i] == 1)
            put_link(story, who[2], no, who[3]);
        else
            put_link(story, who[order[i]], p.word[order[i]], who[order[i] + 1]);
    }
    story_end(story);
    for (int label = 1; label >= 0; label--) {
        row *out = story_row(story, "kinship", data_split_name(s->split), "Kin", label, steps, group);
        out->premise = premise;
        if (label || !swapped)
            out->hypothesis = put_link(story, who[0], label ? yes : no, who[steps]);
        else
            out->hypothesis = put_link(story, who[steps], yes, who[0]);
        story_end(story);
    }
}

int data_is_swapped(const row *r) {
    static const char is[] = " is ";
    const char *end = strstr(r->hypothesis, is), *at = r->premise;
    if (strcmp(r->source, "kinship") || r->label || !end) return 0;
    size_t n = (size_t)(end - r->hypothesis) + sizeof is - 1; /* the name and " is " */
    do
        if (!strncmp(at, r->hypothesis, n)) return 0;
    while ((at = strstr(at, ". ")) && (at += 2));
    return 1;
}

const generator kinship_generator = {"kinship", (int)COUNT_OF(describe), describe, open_kinship, draw_kinship};

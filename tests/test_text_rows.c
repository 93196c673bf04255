/* Readers of rows: TSV in both forms, bAbI tasks 16 to 18, CLUTRR, and their errors. */
#include "text_helper.h"

#include "text/babi.h"
#include "text/rows.h"
#include "text/tsv.h"

static text_error error;

static int read_text(rows *list, const char *text, rows_format format) {
    lines l = lines_of(text);
    return rows_read(list, &l, format, NULL, &error);
}

static void assert_row(const row *r, const char *split, const char *source, const char *relation, int label,
                       const char *kind, int steps, const char *group, const char *premise, const char *hypothesis) {
    assert_string_equal(r->split, split);
    assert_string_equal(r->source, source);
    assert_string_equal(r->relation, relation);
    assert_int_equal(r->label, label);
    assert_string_equal(r->kind, kind);
    assert_int_equal(r->steps, steps);
    assert_string_equal(r->group, group);
    assert_string_equal(r->premise, premise);
    assert_string_equal(r->hypothesis, hypothesis);
}

static const char full[] = "train\tisa\tIsA\t1\ttrue\t0\theron\theron : a bird .\ta heron is a bird.\r\n"
                           "test\tkinship\tKin\t0\thard\t3\t\tRuth has a son, Mark.\tRuth is Mark's aunt.";

static void test_nine_columns(void **state) {
    (void)state;
    rows list = {0};
    assert_int_equal(read_text(&list, full, ROWS_AUTO), 0);
    assert_int_equal(list.count, 2);
    assert_row(&list.row[0], "train", "isa", "IsA", 1, "true", 0, "heron", "heron : a bird .", "a heron is a bird.");
    assert_row(&list.row[1], "test", "kinship", "Kin", 0, "hard", 3, "", "Ruth has a son, Mark.",
               "Ruth is Mark's aunt.");

    /* Written and read again, the rows are the same. */
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    for (size_t i = 0; i < list.count; i++) assert_int_equal(tsv_write(file, &list.row[i], &error), 0);
    fclose(file);
    rows again = {0};
    assert_int_equal(read_text(&again, text, ROWS_TSV), 0);
    assert_int_equal(again.count, 2);
    const row *r = &again.row[1];
    assert_row(r, "test", "kinship", "Kin", 0, "hard", 3, "", "Ruth has a son, Mark.", "Ruth is Mark's aunt.");
    free(text);
    rows_free(&list);
    rows_free(&again);
}

static void test_three_columns(void **state) {
    (void)state;
    rows list = {0};
    const char *warning = NULL;
    assert_int_equal(rows_load(&list, "tests/data/pairs.tsv", ROWS_AUTO, &warning, &error), 0);
    assert_string_equal(warning, "");
    assert_int_equal(list.count, 2);
    assert_row(&list.row[0], "", "tsv", "", 1, "true", 0, "", "the box is bigger than the jar.",
               "the jar is smaller than the box.");
    assert_row(&list.row[1], "", "tsv", "", 0, "hard", 0, "", "Ruth has a son, Mark.", "Ruth is Mark's aunt.");
    rows_free(&list);
}

static void test_broken_tsv(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "given: holds no row"},
        {"1\ta\tb\n\n", "given:2: empty line"},
        {"1\ta\tb\n1\ta\n", "given:2: 2 tab-separated columns where the file began with 3"},
        {"1\ta\n", "given:1: 2 tab-separated columns; a row has 9"},
        {"2\ta\tb\n", "given:1: label is '2'; it must be 0 or 1"},
        {"01\ta\tb\n", "given:1: label is '01'"},
        {"\ta\tb\n", "given:1: label is ''"},
        {"1\t\tb\n", "given:1: premise is empty"},
        {"1\ta\t\n", "given:1: hypothesis is empty"},
        {"1\ta\rc\tb\n", "given:1: carriage return"},
        {"1\ta\tb\n0\ta\t\xE9\n", "given:2: byte 5 of the line (0xE9) is not UTF-8"},
        {"valid\tisa\tIsA\t1\ttrue\t0\t\ta\tb", "given:1: split is 'valid'; it must be train, dev or test"},
        {"train\t\tIsA\t1\ttrue\t0\t\ta\tb", "given:1: source is empty"},
        {"train\tisa\tIsA\t1\thard\t0\t\ta\tb", "given:1: kind is 'hard'; it must be true, since label is 1"},
        {"train\tisa\tIsA\t0\ttrue\t0\t\ta\tb", "given:1: kind is 'true'; it must be hard or easy, since label is 0"},
        {"train\tisa\tIsA\t0\thard\t-1\t\ta\tb", "given:1: steps is '-1'"},
        {"train\tisa\tIsA\t0\thard\t99999999999\t\ta\tb", "given:1: steps is '99999999999'"},
        {"train\tisa\tIsA\t0\thard\t\t\ta\tb", "given:1: steps is ''"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rows list = {0};
        row kept = {"", "kept", "", 1, "true", 0, "", "a", "b"};
        assert_int_equal(rows_add(&list, &kept, &error), 0);
        assert_int_equal(read_text(&list, cases[i].text, ROWS_TSV), -1);
        assert_says(&error, cases[i].message);
        assert_int_equal(list.count, 1);
        assert_string_equal(list.row[0].source, "kept");
        rows_free(&list);
    }
    rows list = {0};
    assert_int_equal(rows_load(&list, "tests", ROWS_AUTO, NULL, &error), -1);
    assert_says(&error, "tests: is a directory");
    rows_free(&list);
}

static void test_writing_refuses(void **state) {
    (void)state;
    const row good = {"train", "isa", "IsA", 1, "true", 0, "g", "p", "h"};
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    row r = good;
    r.premise = "a\tb";
    assert_int_equal(tsv_write(file, &r, &error), -1);
    assert_says(&error, "tab or line end: 'a\\x09b'");
    r = good;
    r.hypothesis = "\xFF";
    assert_int_equal(tsv_write(file, &r, &error), -1);
    assert_says(&error, "not UTF-8");
    r = good;
    r.kind = "hard";
    assert_int_equal(tsv_write(file, &r, &error), -1);
    assert_says(&error, "incomplete");
    fclose(file);
    assert_int_equal(size, 0);
    free(text);
}

static void test_babi_induction(void **state) {
    (void)state;
    rows list = {0};
    const char *warning = NULL;
    assert_int_equal(rows_load(&list, "tests/data/qa16_test.txt", ROWS_AUTO, &warning, &error), 0);
    assert_string_equal(warning, babi_warning);
    assert_non_null(strstr(warning, "15% of the task 17 test rows"));
    /* The first story: Brian is a lion, the other lion is white; gray is the only other colour. */
    const char *story =
        "Lily is a swan. Bernhard is a lion. Greg is a swan. Bernhard is white. Brian is a lion. Lily is gray. "
        "Julius is a rhino. Julius is gray. Greg is gray.";
    assert_row(&list.row[0], "test", "babi16", "HasColor", 1, "true", 3, "Brian lion white", story, "Brian is white.");
    assert_row(&list.row[1], "test", "babi16", "HasColor", 0, "hard", 3, "Brian lion white", story, "Brian is gray.");
    assert_int_equal(list.count, 6);
    rows_free(&list);
}

static void test_babi_yes_no(void **state) {
    (void)state;
    rows list = {0};
    assert_int_equal(rows_load(&list, "tests/data/qa17_test.txt", ROWS_AUTO, NULL, &error), 0);
    assert_int_equal(list.count, 16);
    const char *story =
        "The pink rectangle is to the left of the triangle. The triangle is to the left of the red square.";
    assert_row(&list.row[0], "test", "babi17", "Position", 0, "hard", 2, "pink rectangle|red square", story,
               "the pink rectangle is to the right of the red square.");
    assert_row(&list.row[5], "test", "babi17", "Position", 1, "true", 2, "pink rectangle|red square", story,
               "the red square is to the right of the pink rectangle.");
    rows_free(&list);

    assert_int_equal(rows_load(&list, "tests/data/qa18_train.txt", ROWS_AUTO, NULL, &error), 0);
    const char *sizes =
        "The box of chocolates fits inside the chest. The box is bigger than the chest. The box is bigger than "
        "the suitcase. The suitcase fits inside the box. The container is bigger than the box of chocolates.";
    assert_row(&list.row[0], "train", "babi18", "Size", 0, "hard", 2, "box|box of chocolates", sizes,
               "the box fits inside the box of chocolates.");
    assert_row(&list.row[2], "train", "babi18", "Size", 1, "true", 2, "box|box of chocolates", sizes,
               "the box is bigger than the box of chocolates.");
    rows_free(&list);
}

static void test_babi_facts_so_far(void **state) {
    (void)state;
    rows list = {0};
    assert_int_equal(read_text(&list,
                               "1 The box is bigger than the jar.\n2 Is the box bigger than the jar? \tyes\t1\n"
                               "3 The jar is bigger than the cup.\n4 Does the cup fit in the box?\tyes\t1 3\n",
                               ROWS_AUTO),
                     0);
    assert_int_equal(list.count, 2);
    assert_string_equal(list.row[0].premise, "The box is bigger than the jar.");
    assert_string_equal(list.row[1].premise, "The box is bigger than the jar. The jar is bigger than the cup.");
    assert_string_equal(list.row[1].hypothesis, "the cup fits inside the box.");
    assert_int_equal(list.row[1].steps, 2);
    /* One colour only: no false twin can be made. */
    assert_int_equal(read_text(&list, "1 Al is a frog.\n2 Al is red.\n3 What color is Al?\tred\t1 2\n", ROWS_AUTO), 0);
    assert_int_equal(list.count, 3);
    rows_free(&list);
}

static void test_broken_babi(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "given: holds no question"},
        {"1 A fact.\n", "given: holds no question"},
        {"1 A fact.\n3 Another.\n", "given:2: line number 3 of the story follows number 1"},
        {"2 A fact.\n", "given:1: line number 2"},
        {"A fact.\n", "given:1: the line does not begin with a number"},
        {"1 A.\n2\n", "given:2: the line does not begin with a number"},
        {"1 \n", "given:1: a fact is empty"},
        {"1 Is the a above the b?\tyes\t\n", "given:1: a question before any fact"},
        {"1 A.\n2 Is the a above the b?\tmaybe\t1\n", "given:2: the answer is 'maybe'; it must be yes or no"},
        {"1 A.\n2 Is the a above the b?\tyes\t2\n", "given:2: the supporting facts"},
        {"1 A.\n2 Is the a above the b?\tyes\tx\n", "given:2: the supporting facts"},
        {"1 A.\n2 Is the  above the ?\tyes\t1\n", "given:2: "},
        {"1 A.\n2 Where is Mary?\thall\t1\n", "given:2: 'Where is Mary?' is no question of the tasks 16, 17, 18"},
        {"1 A.\n2 What color is Al?\t\t1\n", "given:2: the answer is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rows list = {0};
        assert_int_equal(read_text(&list, cases[i].text, ROWS_BABI), -1);
        assert_says(&error, cases[i].message);
        rows_free(&list);
    }
}

static void test_clutrr(void **state) {
    (void)state;
    rows list = {0};
    assert_int_equal(rows_load(&list, "tests/data/clutrr_test.csv", ROWS_AUTO, NULL, &error), 0);
    assert_int_equal(list.count, 6);
    assert_row(&list.row[0], "test", "clutrr", "Kin", 1, "true", 2, "daughter-brother",
               "Ashley's daughter, Lillian, asked her brother Nicholas to read her a story.",
               "Nicholas is Ashley's son.");
    assert_row(&list.row[2], "train", "clutrr", "Kin", 1, "true", 2, "mother-husband",
               "Nancy likes to cut the hair of her daughter Heidi. Heidi's sister said: \"short, please\", and Nancy's "
               "husband "
               "Decker laughed.",
               "Decker is Heidi's father.");
    assert_string_equal(list.row[4].split, "dev");
    assert_string_equal(list.row[4].hypothesis, "Gloria is Raymond's mother-in-law.");
    static const char *const men[] = {"father", "son", "brother", "husband", "uncle", "nephew", "grand", "-in-law"};
    for (size_t i = 1; i < list.count; i += 2) {
        assert_int_equal(list.row[i].label, 0);
        assert_string_equal(list.row[i].kind, "hard");
        assert_string_equal(list.row[i].premise, list.row[i - 1].premise);
        assert_string_not_equal(list.row[i].hypothesis, list.row[i - 1].hypothesis);
    }
    /* The twin keeps the gender: another word for a man about Nicholas and Decker. */
    for (size_t i = 1; i < 4; i += 2) {
        int found = 0;
        for (size_t k = 0; k < 8; k++) found |= strstr(list.row[i].hypothesis, men[k]) != NULL;
        assert_true(found);
        assert_null(strstr(list.row[i].hypothesis, "mother"));
        assert_null(strstr(list.row[i].hypothesis, "daughter"));
    }
    rows_free(&list);
}

static void test_broken_clutrr(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "given: is empty"},
        {"story,query\n", "given:1: the header has no column 'target'"},
        {"story,query,target\n", "given: holds a header and no record"},
        {"story,query,target\na,\"('A','B')\"\n", "given:2: 2 fields where the header has 3"},
        {"story,query,target\n\"a\nb\",\"('A','B')\",friend\n", "given:2: target is 'friend'"},
        {"story,query,target\na,A and B,son\n", "given:2: query is 'A and B'"},
        {"story,query,target\na,\"('A')\",son\n", "given:2: query is '('A')'"},
        {"story,query,target\n[],\"('A','B')\",son\n", "given:2: story is empty"},
        {"story,query,target,task_split\na,\"('A','B')\",son,odd\n", "given:2: task_split is 'odd'"},
        {"story,query,target\n\"a,\"('A','B')\",son\n", "given:2: text behind a closing quote"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rows list = {0};
        assert_int_equal(read_text(&list, cases[i].text, ROWS_CLUTRR), -1);
        assert_says(&error, cases[i].message);
        rows_free(&list);
    }
    rows list = {0};
    assert_int_equal(read_text(&list, "story,query,target,target_text\na,\"('A','B')\",12,[son]\n", ROWS_AUTO), 0);
    assert_string_equal(list.row[0].hypothesis, "B is A's son.");
    rows_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nine_columns),
        cmocka_unit_test(test_three_columns),
        cmocka_unit_test(test_broken_tsv),
        cmocka_unit_test(test_writing_refuses),
        cmocka_unit_test(test_babi_induction),
        cmocka_unit_test(test_babi_yes_no),
        cmocka_unit_test(test_babi_facts_so_far),
        cmocka_unit_test(test_broken_babi),
        cmocka_unit_test(test_clutrr),
        cmocka_unit_test(test_broken_clutrr),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The line reader, CSV records, plain paragraphs, arenas, strings and files that appear whole. */
#include "text_helper.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/arena.h"
#include "text/csv.h"
#include "text/plain.h"
#include "text/safe_file.h"
#include "text/string_map.h"
#include "text/utf8.h"

static text_error error;

/* Reads all lines of `data`, each followed by '|'. Returns what the last call returned. */
static int read_all(const char *data, size_t size, char *out, size_t room) {
    lines l;
    lines_open_memory(&l, "given", data, size);
    char *line;
    size_t length, at = 0;
    int got;
    out[0] = '\0';
    while ((got = lines_next(&l, &line, &length, &error)) > 0) {
        assert_int_equal(strlen(line), length);
        at += (size_t)snprintf(out + at, room - at, "%s|", line);
    }
    lines_close(&l);
    return got;
}

static void test_line_ends(void **state) {
    (void)state;
    static const struct {
        const char *data, *lines;
    } cases[] = {
        {"", ""},
        {"a", "a|"},
        {"a\n", "a|"},
        {"a\r\n", "a|"},
        {"a\r\nb", "a|b|"},
        {"a\n\nb\n", "a||b|"},
        {"\n", "|"},
        {"a\rb\n", "a\rb|"},
        {"a\r", "a\r|"},
        {"\xEF\xBB\xBF"
         "a\nb\n",
         "a|b|"},
        {"\xEF\xBB\xBF", ""},
        {"\xEF\xBB\xBF\n", "|"},
        {"a\n\xEF\xBB\xBF"
         "b\n",
         "a|\xEF\xBB\xBF"
         "b|"},
        {"é東\xF0\x9F\x98\x80\n", "é東\xF0\x9F\x98\x80|"},
    };
    char out[100];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_all(cases[i].data, strlen(cases[i].data), out, sizeof out), 0);
        assert_string_equal(out, cases[i].lines);
    }
}

static void test_bytes_that_are_no_text(void **state) {
    (void)state;
    char out[100];
    assert_int_equal(read_all("ab\nc\0d\n", 7, out, sizeof out), -1);
    assert_string_equal(out, "ab|");
    assert_says(&error, "given:2: NUL byte at byte 2");
    static const char *const invalid[] = {
        "x\xFF", "x\xC3", "x\xC0\x80", "x\xE0\x80\x80", "x\xED\xA0\x80", "x\xF4\x90\x80\x80", "x\x80"};
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        assert_int_equal(read_all(invalid[i], strlen(invalid[i]), out, sizeof out), -1);
        assert_says(&error, "given:1: byte 2 of the line");
        assert_says(&error, "not UTF-8");
    }
}

static void test_long_lines(void **state) {
    (void)state;
    enum { LONG = 10 << 20 };
    char *data = malloc(LONG + 8);
    memset(data, 'x', LONG);
    memcpy(data + LONG, "\nend\n", 5);
    lines l;
    lines_open_memory(&l, "given", data, LONG + 5);
    char *line;
    size_t length;
    assert_int_equal(lines_next(&l, &line, &length, &error), 1);
    assert_int_equal(length, LONG);
    assert_int_equal(lines_next(&l, &line, &length, &error), 1);
    assert_string_equal(line, "end");
    lines_again(&l);
    assert_int_equal(lines_next(&l, &line, &length, &error), 1);
    assert_string_equal(line, "end");
    assert_int_equal(l.number, 2);
    assert_int_equal(lines_next(&l, &line, &length, &error), 0);
    assert_int_equal(l.bytes, LONG + 5);
    lines_close(&l);
    free(data);
}

static void test_files(void **state) {
    (void)state;
    lines l;
    assert_int_equal(lines_open(&l, "tests/data", &error), -1);
    assert_says(&error, "tests/data: is a directory");
    assert_int_equal(lines_open(&l, "tests/data/no-such-file", &error), -1);
    assert_says(&error, "tests/data/no-such-file: cannot be opened: No such file");
    assert_int_equal(lines_open(&l, "tests/data/pairs.tsv", &error), 0);
    char *line;
    size_t length, count = 0;
    while (lines_next(&l, &line, &length, &error) > 0) count++;
    assert_int_equal(count, 2);
    lines_close(&l);
    assert_int_equal(lines_next(&l, &line, &length, &error), 0);
}

static void test_names_stay_short(void **state) {
    (void)state;
    char path[2000], what[2000];
    memset(path, 'p', sizeof path);
    memcpy(path + sizeof path - 5, ".tsv", 5);
    memset(what, 'w', sizeof what - 1);
    what[sizeof what - 1] = '\0';
    lines l;
    lines_open_memory(&l, path, "", 0);
    l.number = 77;
    assert_int_equal(lines_fail(&l, &error, "bad %s", what), -1);
    assert_says(&error, ".tsv:77: bad w");
    lines_close(&l);
    char shown[256];
    assert_string_equal(text_excerpt("a\tb\xFF\xC3\xA9\x7F", 7, shown), "a\\x09b\\xFF\xC3\xA9\\x7F");
    memset(what, 1, 100);
    text_excerpt(what, 100, shown);
    assert_int_equal(strlen(shown), 60 * 4 + 3);
}

/* Records of `text`, fields as "<field>", records as ";". */
static int read_records(const char *text, char *out, size_t room) {
    csv c;
    lines l = lines_of(text);
    csv_attach(&c, &l);
    size_t at = 0;
    int got;
    out[0] = '\0';
    while ((got = csv_next(&c, &error)) > 0) {
        for (size_t i = 0; i < c.fields; i++) at += (size_t)snprintf(out + at, room - at, "<%s>", csv_field(&c, i));
        at += (size_t)snprintf(out + at, room - at, ";");
    }
    csv_close(&c);
    return got;
}

static void test_csv(void **state) {
    (void)state;
    char out[200];
    assert_int_equal(read_records("a,b,c\n1,,3\n", out, sizeof out), 0);
    assert_string_equal(out, "<a><b><c>;<1><><3>;");
    assert_int_equal(read_records("\"a\"\"b\",\"c,d\"\n\"x\r\ny\",\"\"\n,", out, sizeof out), 0);
    assert_string_equal(out, "<a\"b><c,d>;<x\ny><>;<><>;");
    assert_int_equal(read_records("a\n\"b\n\nc", out, sizeof out), -1);
    assert_says(&error, "given:2: a quoted field of this record is never closed");
    assert_int_equal(read_records("a\nb\"c", out, sizeof out), -1);
    assert_says(&error, "given:2: a quote within an unquoted field");
    assert_int_equal(read_records("\"b\"c", out, sizeof out), -1);
    assert_says(&error, "given:1: text behind a closing quote");
    assert_int_equal(read_records("a\n\nb", out, sizeof out), -1);
    assert_says(&error, "given:2: empty line");
}

static void test_plain(void **state) {
    (void)state;
    plain p;
    const char *text;
    size_t length;
    lines l = lines_of("\n  One paragraph.  \n \t\n\nTwo.");
    plain_attach(&p, &l);
    assert_int_equal(plain_next(&p, &text, &length, &error), 1);
    assert_string_equal(text, "  One paragraph.  ");
    assert_int_equal(plain_next(&p, &text, &length, &error), 1);
    assert_string_equal(text, "Two.");
    assert_int_equal(length, 4);
    assert_int_equal(plain_next(&p, &text, &length, &error), 0);
    plain_close(&p);

    l = lines_of(" \n\n");
    plain_attach(&p, &l);
    assert_int_equal(plain_next(&p, &text, &length, &error), -1);
    assert_says(&error, "given: holds no text");
    plain_close(&p);
}

static void test_glosses(void **state) {
    (void)state;
    static const char *const wanted[] = {
        "heron : grey or white wading bird with long neck and long legs and (usually) long bill.",
        "ice cream : frozen dessert containing cream and sugar and flavoring.",
        "abounding : existing in abundance; \"abounding confidence\"; \"whiskey galore\"",
    };
    plain p;
    const char *text;
    size_t length;
    assert_int_equal(plain_open(&p, "tests/data/wordnet_sample.txt", &error), 0);
    for (size_t i = 0; i < 3; i++) {
        if (plain_next(&p, &text, &length, &error) != 1) fail_msg("%s", error.message);
        assert_string_equal(text, wanted[i]);
        assert_int_equal(length, strlen(text));
    }
    assert_int_equal(plain_next(&p, &text, &length, &error), 0);
    plain_close(&p);

    static const char *const broken[] = {
        "12345678 05 n 01 heron 0 000 a gloss",
        "1234567 05 n 01 heron 0 000 | gloss",
        "12345678 05 n | gloss",
        "12345678 05 n 01 heron 0 000 |  ",
        "nothing",
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char data[300];
        snprintf(data, sizeof data, "  1 This software and database is provided\n%s\n", broken[i]);
        lines l = lines_of(data);
        plain_attach(&p, &l);
        assert_int_equal(plain_next(&p, &text, &length, &error), -1);
        assert_says(&error, "given:2: ");
        plain_close(&p);
    }
}

static void test_arena_and_map(void **state) {
    (void)state;
    arena a = {0};
    char *first = arena_copy(&a, "abc", 3);
    for (size_t i = 0; i < 1000; i++) {
        arena_copy(&a, "x", i % 2);
        double *number = arena_take(&a, 3 * sizeof *number);
        assert_int_equal((uintptr_t)number % sizeof *number, 0);
        number[0] = number[2] = 1;
    }
    char *big = arena_take(&a, 1 << 20);
    memset(big, 1, 1 << 20);
    assert_string_equal(first, "abc");
    arena_reset(&a);
    assert_non_null(arena_copy(&a, "y", 1));
    arena_free(&a);
    assert_null(a.chunk);

    string_map m = {0};
    char key[32];
    assert_int_equal(string_map_find(&m, "0", 1), STRING_MAP_NONE);
    for (size_t i = 0; i < 10000; i++) {
        int length = snprintf(key, sizeof key, "%zu", i * 7);
        assert_int_equal(string_map_add(&m, key, (size_t)length), i);
    }
    for (size_t i = 0; i < 10000; i++) {
        int length = snprintf(key, sizeof key, "%zu", i * 7);
        assert_int_equal(string_map_find(&m, key, (size_t)length), i);
        assert_int_equal(string_map_add(&m, key, (size_t)length), i);
    }
    assert_int_equal(string_map_find(&m, "1", 1), STRING_MAP_NONE);
    assert_int_equal(m.count, 10000);
    string_map_free(&m);
}

static void test_safe_file(void **state) {
    (void)state;
    char folder[] = "/tmp/dea_text_XXXXXX", path[100], other[100];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(other, sizeof other, "%s/no/file", folder);
    safe_file f;
    assert_int_equal(safe_file_open(&f, path, &error), 0);
    fputs("one", f.file);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(safe_file_commit(&f, &error), 0);
    assert_int_equal(safe_file_open(&f, path, &error), 0);
    fputs("two", f.file);
    safe_file_abandon(&f);
    safe_file_abandon(&f);
    FILE *file = fopen(path, "r");
    char text[8] = "";
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "one");
    assert_int_equal(safe_file_open(&f, other, &error), -1);
    assert_says(&error, "cannot be written: No such file");
    assert_int_equal(safe_file_open(&f, "", &error), -1);
    assert_says(&error, "is empty");
    /* A folder is refused, before the work or, if it came meanwhile, after it; nothing is left behind. */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(safe_file_open(&f, path, &error), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(safe_file_commit(&f, &error), -1);
    assert_says(&error, "untouched");
    assert_int_equal(safe_file_open(&f, path, &error), -1);
    assert_says(&error, "it is a folder; name a file in it");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void write_safely(const char *path, const char *text) {
    safe_file f;
    assert_int_equal(safe_file_open(&f, path, &error), 0);
    fputs(text, f.file);
    assert_int_equal(safe_file_commit(&f, &error), 0);
}

static void assert_holds(const char *path, const char *expected) {
    char text[32] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, expected);
}

/* What is replaced is the target, which may lie in another folder, and not the link. */
static void test_safe_file_follows_links(void **state) {
    (void)state;
    char folder[] = "/tmp/dea_text_XXXXXX", sub[100], real[100], link[100], second[100], loop[100];
    struct stat status;
    assert_non_null(mkdtemp(folder));
    snprintf(sub, sizeof sub, "%s/sub", folder);
    snprintf(real, sizeof real, "%s/sub/real", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    snprintf(loop, sizeof loop, "%s/loop", folder);
    assert_int_equal(mkdir(sub, 0700), 0);
    assert_int_equal(symlink("sub/real", link), 0);
    assert_int_equal(symlink(link, second), 0);
    assert_int_equal(symlink("loop", loop), 0);
    write_safely(link, "first"); /* a link to nothing yet */
    assert_holds(real, "first");
    write_safely(second, "again"); /* absolute, over a relative one */
    assert_holds(real, "again");
    assert_true(lstat(real, &status) == 0 && S_ISREG(status.st_mode));
    assert_true(lstat(link, &status) == 0 && S_ISLNK(status.st_mode));
    assert_true(lstat(second, &status) == 0 && S_ISLNK(status.st_mode));
    safe_file f;
    assert_int_equal(safe_file_open(&f, link, &error), 0);
    fputs("lost", f.file);
    safe_file_abandon(&f);
    assert_holds(real, "again");
    assert_int_equal(safe_file_open(&f, loop, &error), -1);
    assert_says(&error, "cannot be written: Too many levels of symbolic links");
    const char *const made[] = {loop, second, link, real};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) assert_int_equal(unlink(made[i]), 0);
    assert_int_equal(rmdir(sub), 0);
    assert_int_equal(rmdir(folder), 0); /* no temporary file is left */
}

/* A pipe is written into and stays a pipe, also behind a link. */
static void test_safe_file_writes_into_pipes(void **state) {
    (void)state;
    char folder[] = "/tmp/dea_text_XXXXXX", pipe_path[100], link[100], text[16] = "";
    struct stat status;
    safe_file f;
    assert_non_null(mkdtemp(folder));
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(symlink("pipe", link), 0);
    const int reader = open(pipe_path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    write_safely(pipe_path, "one");
    write_safely(link, "two");
    assert_int_equal(safe_file_open(&f, pipe_path, &error), 0);
    safe_file_abandon(&f);
    assert_int_equal(read(reader, text, sizeof text - 1), 6);
    assert_string_equal(text, "onetwo");
    close(reader);
    assert_true(lstat(pipe_path, &status) == 0 && S_ISFIFO(status.st_mode));
    assert_true(lstat(link, &status) == 0 && S_ISLNK(status.st_mode));
    assert_int_equal(unlink(link), 0);
    assert_int_equal(unlink(pipe_path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* The file that standard output goes to: replacing it would lose what else is printed. */
static void test_safe_file_shares_standard_output(void **state) {
    (void)state;
    char folder[] = "/tmp/dea_text_XXXXXX", path[100];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    const int file = open(path, O_WRONLY | O_CREAT, 0600);
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO);
    assert_true(file >= 0 && kept >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    const ssize_t before = write(STDOUT_FILENO, "before ", 7);
    safe_file f;
    const int opened = safe_file_open(&f, path, &error);
    const int written = opened == 0 && fputs("rows ", f.file) >= 0 && safe_file_commit(&f, &error) == 0;
    const ssize_t after = write(STDOUT_FILENO, "after", 5);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    close(file);
    assert_true(before == 7 && written && after == 5);
    assert_holds(path, "before rows after");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* A full disk: the device that always says so. */
static void test_full_disk(void **state) {
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    if (!full) {
        print_message("not run: this system has no /dev/full\n");
        skip();
    }
    char folder[] = "/tmp/dea_text_XXXXXX", path[100];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    safe_file f;
    assert_int_equal(safe_file_open(&f, path, &error), 0);
    fclose(f.file);
    f.file = full;
    fputs("some bytes", f.file);
    assert_int_equal(safe_file_commit(&f, &error), -1);
    assert_says(&error, "No space left");
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_ends),
        cmocka_unit_test(test_bytes_that_are_no_text),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_names_stay_short),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_glosses),
        cmocka_unit_test(test_arena_and_map),
        cmocka_unit_test(test_safe_file),
        cmocka_unit_test(test_safe_file_follows_links),
        cmocka_unit_test(test_safe_file_writes_into_pipes),
        cmocka_unit_test(test_safe_file_shares_standard_output),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

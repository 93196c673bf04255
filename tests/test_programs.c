/* The programs without a suite of their own, from the outside: options, messages, exit codes, lost output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/dea_programs_XXXXXX";
static char out[8192], err[8192]; /* what the last program said */

static const char *in_folder(const char *name) {
    static char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void slurp(const char *name, char text[8192]) {
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    text[fread(text, 1, 8191, file)] = '\0';
    fclose(file);
    assert_int_equal(unlink(in_folder(name)), 0);
}

/* Runs `build/` and the command; its exit code. */
static int run(const char *command) {
    char line[512];
    snprintf(line, sizeof line, "build/%s >%s/out 2>%s/err", command, folder, folder);
    const int status = system(line);
    slurp("out", out);
    slurp("err", err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A program that is not built is no failure of it; `make all` builds all but bench. */
static void need(const char *program) {
    char path[64];
    snprintf(path, sizeof path, "build/%s", program);
    if (access(path, X_OK) == 0) return;
    print_message("NOT RUN: %s is not there; build it and run from the folder of the Makefile\n", path);
    skip();
}

typedef struct wrong_run {
    const char *command, *said;
} wrong_run;

/* Exit code 2, this line, and nothing on standard output. */
static void expect_usage(const wrong_run *runs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (run(runs[i].command) != 2) fail_msg("%s: not exit code 2", runs[i].command);
        assert_string_equal(err, runs[i].said);
        assert_string_equal(out, "");
    }
}
#define EXPECT_USAGE(runs) expect_usage(runs, sizeof runs / sizeof *runs)

static void expect_help(const char *program) {
    static const char *const options[] = {"--help", "-h", "--version", "-V"};
    char command[64], start[64];
    for (int i = 0; i < 4; i++) {
        snprintf(command, sizeof command, "%s %s", program, options[i]);
        snprintf(start, sizeof start, i < 2 ? "usage: %s" : "%s ", program);
        assert_int_equal(run(command), 0);
        assert_memory_equal(out, start, strlen(start));
        assert_string_equal(err, "");
        if (i < 2) assert_non_null(strstr(out, "Exit code"));
    }
}

static void expect_told(const char *command, const char *where) {
    char line[512];
    snprintf(line, sizeof line, "build/%s %s 2>%s/err", command, where, folder);
    const int status = system(line);
    slurp("err", err);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || !strstr(err, "standard output: "))
        fail_msg("%s: exit code %d, '%s'", line, WEXITSTATUS(status), err);
}

/* Output that is lost must be told: into nothing, and into a device that is always full, which is only written to. */
static void expect_lost(const char *command) {
    expect_told(command, ">&-");
    if (access("/dev/full", W_OK))
        print_message("not run: this system has no /dev/full\n");
    else
        expect_told(command, ">/dev/full");
}

static void test_paris(void **state) {
    (void)state;
    static const wrong_run runs[] = {
        {"paris --nope", "paris: unknown option --nope; see paris --help\n"},
        {"paris foo", "paris: unexpected argument \"foo\"; see paris --help\n"},
        {"paris --help foo", "paris: unexpected argument \"foo\"; see paris --help\n"},
    };
    need("paris");
    expect_help("paris");
    EXPECT_USAGE(runs);
    expect_lost("paris");
    expect_lost("paris --help");
    assert_int_equal(run("paris"), 0);
    const size_t length = strlen(out);
    assert_true(length > 6);
    assert_string_equal(out + length - 6, "\nPASS\n");
    /* Every mark of the legend stands on the axis. */
    const char *axis = strstr(out, "----+"), *legend = strstr(out, "beta + ");
    assert_true(axis && legend && axis < legend);
    assert_true(memchr(axis, '*', (size_t)(legend - axis)) && memchr(axis, '^', (size_t)(legend - axis)));
}

static void test_help(void **state) {
    (void)state;
    static const char *const programs[] = {"data", "train", "eval", "compare", "visualize"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        need(programs[i]);
        expect_help(programs[i]);
    }
    assert_int_equal(run("../bench/ablation.sh --help"), 0);
    assert_non_null(strstr(out, "SEEDS"));
    assert_int_equal(run("../bench/ablation.sh more"), 2);
}

static void test_lost_output(void **state) {
    (void)state;
    static const char *const commands[] = {
        "data --version",    "data stream",      "eval --help",         "eval --version", "compare --help",
        "compare --version", "visualize --help", "visualize --version", "train --help",   "train --version"};
    need("data");
    need("eval");
    need("compare");
    need("visualize");
    need("train");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) expect_lost(commands[i]);
}

static void test_data(void **state) {
    (void)state;
    char command[256];
    need("data");
    FILE *file = fopen(in_folder("countries"), "w");
    assert_non_null(file);
    fputs("kept", file);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof command, "data build --countries %s/countries --out %s/countries", folder, folder);
    assert_int_equal(run(command), 2);
    assert_non_null(strstr(err, "--out would write over the file of --countries"));
    slurp("countries", out);
    assert_string_equal(out, "kept");
}

static void test_meta_tiny(void **state) {
    (void)state;
    static const wrong_run runs[] = {
        {"meta-tiny --nope", "meta-tiny: unknown option --nope; see meta-tiny --help\n"},
        {"meta-tiny --seed", "meta-tiny: --seed needs a value; see meta-tiny --help\n"},
        {"meta-tiny --seed x", "meta-tiny: --seed takes a whole number, not \"x\"; see meta-tiny --help\n"},
        {"meta-tiny foo", "meta-tiny: unexpected argument \"foo\"; see meta-tiny --help\n"},
    };
    need("meta-tiny");
    expect_help("meta-tiny");
    EXPECT_USAGE(runs);
    expect_lost("meta-tiny --help");
}

static void test_bench(void **state) {
    (void)state;
    static const wrong_run runs[] = {
        {"bench --nope", "bench: unknown option --nope; see bench --help\n"},
        {"bench extra", "bench: unexpected argument \"extra\"; see bench --help\n"},
        {"bench --seq", "bench: --seq needs a value; see bench --help\n"},
        {"bench --seq abc", "bench: --seq takes a whole number from 1 to 65536, not \"abc\"; see bench --help\n"},
        {"bench --seq 0", "bench: --seq takes a whole number from 1 to 65536, not \"0\"; see bench --help\n"},
        {"bench --seq -5", "bench: --seq takes a whole number from 1 to 65536, not \"-5\"; see bench --help\n"},
        {"bench --head-dim 9x",
         "bench: --head-dim takes a whole number from 1 to 1024, not \"9x\"; see bench --help\n"},
        {"bench --isa foo", "bench: --isa takes baseline, avx2 or avx512, not \"foo\"; see bench --help\n"},
    };
    char command[256];
    need("bench");
    expect_help("bench");
    EXPECT_USAGE(runs);
    /* Before anything is measured: the table has not even a heading. */
    snprintf(command, sizeof command, "bench --quick --json %s", folder);
    assert_int_equal(run(command), 1);
    assert_non_null(strstr(err, "it is a folder; name a file in it"));
    assert_string_equal(out, "");
    assert_int_equal(run("bench --quick --json /no/such/folder/x"), 1);
    assert_string_equal(out, "");
    /* One small length that is in no list. */
    snprintf(command, sizeof command, "bench --quick --isa baseline --seq 24 --head-dim 20 --json %s",
             in_folder("rows.json"));
    assert_int_equal(run(command), 0);
    assert_non_null(strstr(out, "    24   20  forward+backward"));
    slurp("rows.json", out);
    assert_non_null(strstr(out, "\"T\":\t24"));
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder); /* which fails if any program left a file */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paris), cmocka_unit_test(test_help),      cmocka_unit_test(test_lost_output),
        cmocka_unit_test(test_data),  cmocka_unit_test(test_meta_tiny), cmocka_unit_test(test_bench),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

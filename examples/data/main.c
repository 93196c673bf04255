/* build/data: makes, checks and shows the relational data set. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/build.h"
#include "data/check.h"
#include "data/stream.h"
#include "data/wordpairs.h"
#include "dea.h"
#include "text/file_use.h"
#include "text/rows.h"
#include "text/safe_file.h"
#include "text/standard.h"
#include "text/string_map.h"
#include "text/tsv.h"

enum { DONE = 0, FAILED = 1, USAGE = 2 };

static const char help[] =
    "usage: data COMMAND [OPTIONS]\n"
    "\n"
    "  data build      make the data set from generators and installed packages, check it, write it\n"
    "      -o, --out FILE         where to (default data.tsv; - for standard output)\n"
    "      -s, --seed N           same seed, same bytes (default 42)\n"
    "      -k, --scale N          multiply the generated sources babi16, babi17, babi18, kinship (default 1)\n"
    "          --more             isa, partof: further training rows from rarer words; dev and test stay as they are\n"
    "          --wordnet DIR      package wordnet-base      (default /usr/share/wordnet)\n"
    "          --scowl DIR        package scowl             (default /usr/share/dict/scowl)\n"
    "          --countries FILE   package miscfiles         (default /usr/share/misc/countries.gz)\n"
    "          --kgeography DIR   package kgeography-data   (default /usr/share/kgeography)\n"
    "  data wordpairs  make the small set of word pairs for the alpha knob\n"
    "      -o, --out FILE         where to (default wordpairs.tsv; - for standard output)\n"
    "      -s, --seed N, -n, --count N (default 3000), and the package options of build\n"
    "  data stats FILE  count rows, labels, groups and words of a data set\n"
    "  data show FILE   print a few rows of each source\n"
    "      -n, --count N          rows per source (default 5)\n"
    "  data stream     print what the generators yield on demand\n"
    "          --source NAME      babi16, babi17, babi18, babi18b (18 where counting tells nothing) or kinship\n"
    "                             (without: list sources and stages)\n"
    "          --stage N          from 1 (default: the last, the full story)\n"
    "          --split NAME       train, dev or test (default train)\n"
    "      -n, --count N          stories (default 10)\n"
    "      -s, --seed N           (default 42)\n"
    "  data -h, --help | -V, --version\n"
    "\n"
    "Exit codes: 0 done, 1 failed (a source leaks, a file is broken, the disk is full), 2 wrong usage,\n"
    "130 stopped by Ctrl-C.\n";

typedef struct options {
    build_options build;
    const char *out, *source, *split;
    long stage;
    uint64_t count;
} options;

/* ---- options */

static int usage(const char *format, const char *what) {
    fprintf(stderr, "data: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "; see data --help\n");
    return USAGE;
}

/* A whole number from lo to hi. */
static int parse(const char *name, const char *text, uint64_t lo, uint64_t hi, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || v < lo || v > hi) {
        fprintf(stderr,
                "data: --%s takes a whole number from %" PRIu64 " to %" PRIu64 ", not \"%s\"; see data --help\n", name,
                lo, hi, text);
        return USAGE;
    }
    *out = v;
    return DONE;
}

/* The options that a command takes, by their letters; letters without a short form are A-Z. */
static int read_options(int argc, char **argv, const char *allowed, options *o) {
    static const struct option all[] = {{"out", required_argument, NULL, 'o'},
                                        {"seed", required_argument, NULL, 's'},
                                        {"more", no_argument, NULL, 'M'},
                                        {"scale", required_argument, NULL, 'k'},
                                        {"count", required_argument, NULL, 'n'},
                                        {"wordnet", required_argument, NULL, 'W'},
                                        {"scowl", required_argument, NULL, 'S'},
                                        {"countries", required_argument, NULL, 'C'},
                                        {"kgeography", required_argument, NULL, 'K'},
                                        {"source", required_argument, NULL, 'R'},
                                        {"stage", required_argument, NULL, 'G'},
                                        {"split", required_argument, NULL, 'P'},
                                        {"help", no_argument, NULL, 'h'},
                                        {"version", no_argument, NULL, 'V'},
                                        {NULL, 0, NULL, 0}};
    int c;
    uint64_t v = 0;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":o:s:k:n:hV", all, NULL)) != -1) {
        if (c == ':') return usage("%s needs a value", argv[optind - 1]);
        if (c == '?') return usage("unknown option %s", argv[optind - 1]);
        if (c == 'h' || c == 'V') {
            if (c == 'h')
                fputs(help, stdout);
            else
                printf("data %s\n", DEA_VERSION);
            exit(standard_finish("data", DONE));
        }
        if (!strchr(allowed, c)) {
            const struct option *given = all;
            while (given->val != c) given++;
            fprintf(stderr, "data: \"%s\" does not take --%s; see data --help\n", argv[0], given->name);
            return USAGE;
        }
        switch (c) {
        case 'o':
            o->out = optarg;
            break;
        case 'W':
            o->build.wordnet = optarg;
            break;
        case 'S':
            o->build.scowl = optarg;
            break;
        case 'C':
            o->build.countries = optarg;
            break;
        case 'K':
            o->build.kgeography = optarg;
            break;
        case 'R':
            o->source = optarg;
            break;
        case 'P':
            o->split = optarg;
            break;
        case 's':
            if (parse("seed", optarg, 0, UINT64_MAX, &o->build.seed)) return USAGE;
            break;
        case 'M':
            o->build.more = 1;
            break;
        case 'k':
            if (parse("scale", optarg, 1, 10000, &v)) return USAGE;
            o->build.scale = (uint32_t)v;
            break;
        case 'n':
            if (parse("count", optarg, 1, 1000000000, &o->count)) return USAGE;
            break;
        default:
            if (parse("stage", optarg, 1, 1000, &v)) return USAGE;
            o->stage = (long)v;
        }
    }
    return DONE;
}

/* ---- output */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal) {
    (void)signal;
    interrupted = 1;
}

static int failed(const text_error *error) {
    fprintf(stderr, "data: %s\n", error->message);
    return interrupted ? 130 : FAILED;
}

/* Where rows go: a file that appears when it is whole, or standard output. */
typedef struct output {
    FILE *file;
    safe_file safe; /* safe.file NULL: standard output */
} output;

/* "-" is standard output. Before the work, so that a path which cannot be written is told at once. */
static int open_output(output *out, const char *path, text_error *error) {
    *out = (output){.file = stdout};
    if (!strcmp(path, "-")) return 0;
    if (safe_file_open(&out->safe, path, error)) return -1;
    out->file = out->safe.file;
    return 0;
}

static int writes_over_input(const options *o, const char *out) {
    text_error error;
    const file_use uses[] = {{"--out", out, 1}, {"--countries", o->build.countries, 0}};
    return file_use_check(uses, 2, &error) ? usage("%s", error.message) : DONE;
}

static int write_rows(const rows *list, output *out, text_error *error) {
    for (size_t i = 0; i < list->count; i++) {
        if (tsv_write(out->file, &list->row[i], error)) return -1;
        if (interrupted) return text_fail(error, "stopped");
    }
    if (out->safe.file) return safe_file_commit(&out->safe, error);
    return fflush(stdout) ? text_fail(error, "standard output: %s", strerror(errno)) : 0;
}

/* ---- build */

static int show_progress(void *context, const char *source, size_t rows_so_far) {
    (void)context;
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%-8s %9zu rows", source, rows_so_far);
    return interrupted;
}

static void print_percent(FILE *to, double x) {
    if (isnan(x))
        fprintf(to, "      -");
    else
        fprintf(to, " %6.1f", 100 * x);
}

static void print_check(FILE *to, const check_report *report) {
    fprintf(to, "%-10s %21s  %-27s  %-20s\n", "", "rows", "accuracy on test, %", "unseen groups, %");
    fprintf(to, "%-10s %7s %6s %6s  %6s %6s %6s %6s  %6s %6s %6s\n", "source", "train", "dev", "test", "prem.", "hypo.",
            "overl.", "cross", "prem.", "hypo.", "overl.");
    for (int i = 0; i <= report->sources; i++) {
        const check_source *s = i < report->sources ? &report->source[i] : &report->all;
        fprintf(to, "%-10s %7zu %6zu %6zu ", s->source ? s->source : "all", s->rows[0], s->rows[1], s->rows[2]);
        for (int b = 0; b < BASELINE_KINDS; b++) print_percent(to, s->test[b]);
        if (s->source) fputc(' ', to);
        for (int b = 0; b < BASELINE_CHEAP && s->source; b++) print_percent(to, s->held_out[b]);
        fputc('\n', to);
    }
    fprintf(to,
            "prem. premise only (majority), hypo. hypothesis only (logistic), overl. lexical overlap, cross logistic "
            "on word crosses;\n"
            "unseen groups: six-fold over all rows. A cheap baseline above %.0f%% there is a leak.\n",
            100 * CHECK_LEAK);
}

static int build(int argc, char **argv, options *o) {
    rows list = {0};
    build_notes notes;
    text_error error;
    output file;
    static check_report report;
    int status = read_options(argc, argv, "oskMWSCK", o);
    if (status) return status;
    if (optind < argc) return usage("\"build\" takes no argument \"%s\"", argv[optind]);
    const char *out = o->out ? o->out : "data.tsv";
    FILE *to = strcmp(out, "-") ? stdout : stderr;
    if (writes_over_input(o, out)) return USAGE;
    if (open_output(&file, out, &error)) return failed(&error);
    if (data_build(&o->build, &list, &notes, show_progress, NULL, &error)) {
        safe_file_abandon(&file.safe);
        rows_free(&list);
        return failed(&error);
    }
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%30s\r", "");
    for (int i = 0; i < notes.n; i++) fprintf(stderr, "data: %s\n", notes.line[i]);
    if (isatty(STDERR_FILENO)) fprintf(stderr, "checking %zu rows ...", list.count);
    int fault = data_check(list.row, list.count, &report, &error);
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%30s\r", "");
    if (!interrupted) print_check(to, &report);
    if (fault)
        status = failed(&error);
    else if (write_rows(&list, &file, &error))
        status = failed(&error);
    else
        fprintf(to,
                "labels half and half in every source and split; no row and no group in two splits.\n%s: %zu rows\n",
                out, list.count);
    safe_file_abandon(&file.safe);
    rows_free(&list);
    return status ? status : standard_finish("data", DONE);
}

/* ---- wordpairs */

static int wordpairs(int argc, char **argv, options *o) {
    rows list = {0};
    build_notes notes;
    text_error error;
    output file;
    int status = read_options(argc, argv, "osnWSCK", o);
    if (status) return status;
    if (optind < argc) return usage("\"wordpairs\" takes no argument \"%s\"", argv[optind]);
    const char *out = o->out ? o->out : "wordpairs.tsv";
    if (writes_over_input(o, out)) return USAGE;
    if (open_output(&file, out, &error)) return failed(&error);
    if (wordpairs_build(&o->build, o->count ? (size_t)o->count : 3000, &list, &notes, &error) ||
        write_rows(&list, &file, &error)) {
        safe_file_abandon(&file.safe);
        rows_free(&list);
        return failed(&error);
    }
    for (int i = 0; i < notes.n; i++) fprintf(stderr, "data: %s\n", notes.line[i]);
    fprintf(strcmp(out, "-") ? stdout : stderr, "%s: %zu pairs\n", out, list.count);
    rows_free(&list);
    return standard_finish("data", DONE);
}

/* ---- stats, show */

static int load(int argc, char **argv, const char *allowed, options *o, rows *list) {
    text_error error;
    const char *warning = "";
    int status = read_options(argc, argv, allowed, o);
    if (status) return status;
    if (optind + 1 != argc) return usage("\"%s\" takes one FILE", argv[0]);
    if (rows_load(list, argv[optind], ROWS_AUTO, &warning, &error)) return failed(&error);
    if (warning && *warning) fprintf(stderr, "data: %s\n", warning);
    return DONE;
}

/* Distinct sources in the order they come; at most CHECK_SOURCES. */
static int list_sources(const rows *list, const char *sources[CHECK_SOURCES]) {
    int n = 0, k;
    for (size_t i = 0; i < list->count; i++) {
        for (k = 0; k < n && strcmp(sources[k], list->row[i].source); k++) {
        }
        if (k == n && n < CHECK_SOURCES) sources[n++] = list->row[i].source;
    }
    return n;
}

static size_t count_words(const char *text, string_map *words) {
    size_t n = 0;
    while (*text) {
        size_t length = strcspn(text, " ");
        while (length && strchr(".,:;'\"()", text[length - 1])) length--, n++; /* marks are tokens of their own */
        if (length) n++, string_map_add(words, text, length);
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    return n;
}

static int stats(int argc, char **argv, options *o) {
    rows list = {0};
    const char *sources[CHECK_SOURCES];
    int status = load(argc, argv, "", o, &list);
    if (status) {
        rows_free(&list);
        return status;
    }
    int n = list_sources(&list, sources);
    string_map all = {0};
    size_t longest_of_all = 0;
    printf("%-10s %8s %8s %8s %8s %7s %7s %8s %8s\n", "source", "rows", "train", "dev", "test", "true %", "hard %",
           "groups", "longest");
    for (int k = 0; k < n; k++) {
        size_t rows_of = 0, in[DATA_SPLITS] = {0}, ones = 0, hard = 0, longest = 0;
        string_map groups = {0};
        for (size_t i = 0; i < list.count; i++) {
            const row *r = &list.row[i];
            if (strcmp(r->source, sources[k])) continue;
            int split = data_split_by_name(r->split);
            rows_of++;
            if (split >= 0) in[split]++;
            ones += r->label != 0;
            hard += !strcmp(r->kind, "hard");
            string_map_add(&groups, r->group, strlen(r->group));
            size_t words = count_words(r->premise, &all) + count_words(r->hypothesis, &all) + 3;
            if (words > longest) longest = words;
        }
        printf("%-10s %8zu %8zu %8zu %8zu %7.1f %7.1f %8zu %8zu\n", sources[k], rows_of, in[0], in[1], in[2],
               100. * (double)ones / (double)rows_of, 100. * (double)hard / (double)rows_of, groups.count, longest);
        if (longest > longest_of_all) longest_of_all = longest;
        string_map_free(&groups);
    }
    printf("%zu rows, %zu distinct words, longest row %zu word tokens with [CLS] and two [SEP]\n", list.count,
           all.count, longest_of_all);
    string_map_free(&all);
    rows_free(&list);
    return standard_finish("data", DONE);
}

static int show(int argc, char **argv, options *o) {
    rows list = {0};
    const char *sources[CHECK_SOURCES];
    int status = load(argc, argv, "n", o, &list), n = status ? 0 : list_sources(&list, sources);
    size_t want = o->count ? (size_t)o->count : 5;
    for (int k = 0; k < n; k++) {
        size_t of = 0, seen = 0, shown = 0;
        for (size_t i = 0; i < list.count; i++) of += !strcmp(list.row[i].source, sources[k]);
        printf("== %s, %zu rows\n", sources[k], of);
        for (size_t i = 0; i < list.count && shown < want; i++) {
            const row *r = &list.row[i];
            if (strcmp(r->source, sources[k]) || seen++ < shown * of / want) continue; /* evenly over the file */
            printf("%s\n   %-5s %s   (%s, %s, %d steps, asks about %s)\n", r->premise, r->label ? "TRUE" : "FALSE",
                   r->hypothesis, r->split, r->kind, r->steps, *r->group ? r->group : "-");
            shown++;
        }
    }
    rows_free(&list);
    return status ? status : standard_finish("data", DONE);
}

/* ---- stream */

static int list_stages(void) {
    for (const char *const *s = data_stream_sources(); *s; s++)
        for (int stage = 1; stage <= data_stream_stages(*s); stage++)
            printf("%-8s %d  %s\n", *s, stage, data_stream_describe(*s, stage));
    return standard_finish("data", DONE);
}

static int stream(int argc, char **argv, options *o) {
    static data_stream s;
    data_story story;
    int status = read_options(argc, argv, "snRGP", o);
    if (status) return status;
    if (optind < argc) return usage("\"stream\" takes no argument \"%s\"", argv[optind]);
    if (!o->source) return list_stages();
    const int stages = data_stream_stages(o->source);
    if (!stages) return usage("--source takes babi16, babi17, babi18, babi18b or kinship, not \"%s\"", o->source);
    if (o->split && data_split_by_name(o->split) < 0)
        return usage("--split takes train, dev or test, not \"%s\"", o->split);
    if (o->stage > stages) {
        fprintf(stderr, "data: --stage takes 1 to %d with --source %s, not %ld; see data --help\n", stages, o->source,
                o->stage);
        return USAGE;
    }
    data_stream_open(&s, o->source, o->split ? o->split : "train", o->stage ? (int)o->stage : stages, o->build.seed);
    for (uint64_t i = 0; i < (o->count ? o->count : 10) && !interrupted; i++) {
        data_stream_story(&s, 0, i, &story);
        printf("%s\n", story.rows[0].premise);
        for (int k = 0; k < story.n; k++)
            printf("   %-5s %s   (%d steps, asks about %s)\n", story.rows[k].label ? "TRUE" : "FALSE",
                   story.rows[k].hypothesis, story.rows[k].steps, story.rows[k].group);
    }
    status = standard_finish("data", DONE);
    return status ? status : interrupted ? 130 : DONE;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(int, char **, options *);
    } commands[] = {{"build", build}, {"wordpairs", wordpairs}, {"stats", stats}, {"show", show}, {"stream", stream}};
    options o = {.build = build_defaults()};
    standard_open();
    struct sigaction on = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &on, NULL);
    sigaction(SIGTERM, &on, NULL);
    if (argc < 2) return usage("%s", "no command given");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 1, argv + 1, &o);
    if (argv[1][0] == '-') {
        int status = read_options(argc, argv, "", &o);
        return status ? status : usage("%s", "no command given");
    }
    return usage("no command is called \"%s\"", argv[1]);
}

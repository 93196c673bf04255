/* build/eval: what a trained encoder can do, beside what can be had for nothing. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/model.h"
#include "data/build.h"
#include "data/oracle.h"
#include "eval/demo.h"
#include "eval/probe.h"
#include "eval/report.h"
#include "text/file_use.h"
#include "text/rows.h"
#include "text/safe_file.h"
#include "text/standard.h"
#include "train/pool.h"

enum { DONE = 0, FAILED = 1, USAGE = 2, INTERRUPTED = 130 };

static const char help[] =
    "usage: eval --ckpt FILE [OPTIONS]\n"
    "\n"
    "Measures a checkpoint of build/train on labelled pairs and prints a page of results: accuracy with 95% intervals "
    "beside cheap\n"
    "baselines, alpha-hat against an oracle, photo-finishes, attention entropy, calibration, and the Paris demo.\n"
    "\n"
    "      --ckpt FILE          the checkpoint (weights or state)\n"
    "      --data FILE          TSV of build/data, bare label/premise/hypothesis TSV, bAbI or CLUTRR (default: the "
    "data set that\n"
    "                           'data build' makes, made here: generated sources, and WordNet and others where "
    "installed)\n"
    "      --split NAME         test (default), dev, train or all; files without splits are used whole\n"
    "      --oracle NAME        relation, token, truth, wordpairs, none, or a file of alphas, JSON lines {premise, "
    "hypothesis, alpha}\n"
    "                           (default: the one the checkpoint was trained with, else relation)\n"
    "      --seed N             of the data set made here and of the oracle (default: the checkpoint's for the oracle, "
    "42)\n"
    "      --json FILE          all figures\n"
    "      --predictions FILE   every row with its probability and alpha-hat, tab-separated\n"
    "      --cut                drop the front of premises that are longer than the model takes, instead of stopping\n"
    "      --threads N          1 to 256 (default 1); the figures are the same for any number\n"
    "      --no-baselines       leave the cheap baselines out\n"
    "      --no-demo            leave the Paris demo out\n"
    "  -h, --help   -V, --version\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C. Output files appear whole or not at all.\n";

typedef struct options {
    const char *checkpoint, *data, *split, *oracle, *json, *predictions, *seed_text;
    uint64_t seed;
    int cut, threads, baselines, demo;
} options;

/* ---- options ----------------------------------------------------------------------------------------------------- */

static int usage(const char *format, const char *what) {
    fprintf(stderr, "eval: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "; see eval --help\n");
    return USAGE;
}

static int parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *value) {
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (strspn(text, "0123456789") != strlen(text) || !*text || errno || number < low || number > high) return -1;
    *value = number;
    return 0;
}

/* Returns -1 to go on, else the exit code. */
static int read_options(int argc, char **argv, options *o) {
    enum { CKPT = 256, DATA, SPLIT, ORACLE, SEED, JSON, PREDICTIONS, THREADS, CUT, NO_BASELINES, NO_DEMO };
    static const struct option all[] = {{"ckpt", required_argument, NULL, CKPT},
                                        {"data", required_argument, NULL, DATA},
                                        {"split", required_argument, NULL, SPLIT},
                                        {"oracle", required_argument, NULL, ORACLE},
                                        {"seed", required_argument, NULL, SEED},
                                        {"json", required_argument, NULL, JSON},
                                        {"predictions", required_argument, NULL, PREDICTIONS},
                                        {"threads", required_argument, NULL, THREADS},
                                        {"cut", no_argument, NULL, CUT},
                                        {"no-baselines", no_argument, NULL, NO_BASELINES},
                                        {"no-demo", no_argument, NULL, NO_DEMO},
                                        {"help", no_argument, NULL, 'h'},
                                        {"version", no_argument, NULL, 'V'},
                                        {NULL, 0, NULL, 0}};
    uint64_t number;
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":hV", all, NULL)) != -1) {
        switch (c) {
        case CKPT:
            o->checkpoint = optarg;
            break;
        case DATA:
            o->data = optarg;
            break;
        case SPLIT:
            o->split = optarg;
            break;
        case ORACLE:
            o->oracle = optarg;
            break;
        case JSON:
            o->json = optarg;
            break;
        case PREDICTIONS:
            o->predictions = optarg;
            break;
        case CUT:
            o->cut = 1;
            break;
        case NO_BASELINES:
            o->baselines = 0;
            break;
        case NO_DEMO:
            o->demo = 0;
            break;
        case SEED:
            if (parse_number(optarg, 0, UINT64_MAX, &o->seed) != 0)
                return usage("--seed takes a whole number, not \"%s\"", optarg);
            o->seed_text = optarg;
            break;
        case THREADS:
            if (parse_number(optarg, 1, 256, &number) != 0)
                return usage("--threads takes 1 to 256, not \"%s\"", optarg);
            o->threads = (int)number;
            break;
        case 'h':
            fputs(help, stdout);
            return standard_finish("eval", DONE);
        case 'V':
            printf("eval %s\n", DEA_VERSION);
            return standard_finish("eval", DONE);
        case ':':
            return usage("%s needs a value", argv[optind - 1]);
        default:
            return usage("unknown option %s", argv[optind - 1]);
        }
    }
    if (optind < argc) return usage("unexpected argument \"%s\"", argv[optind]);
    if (!o->checkpoint) return usage("%s is needed", "--ckpt FILE");
    const char *const splits[] = {"test", "dev", "train", "all"};
    int split = 0;
    while (split < 4 && strcmp(o->split, splits[split]) != 0) split++;
    if (split == 4) return usage("--split takes test, dev, train or all, not \"%s\"", o->split);
    if (o->json && !*o->json) return usage("--json needs %s", "the name of a file");
    if (o->predictions && !*o->predictions) return usage("--predictions needs %s", "the name of a file");
    if (o->oracle && !oracle_is_there(o->oracle)) return usage(ORACLE_WANTED, o->oracle);
    const file_use uses[] = {{"--json", o->json, 1},
                             {"--predictions", o->predictions, 1},
                             {"--ckpt", o->checkpoint, 0},
                             {"--data", o->data, 0},
                             {"--oracle", o->oracle, 0}};
    text_error error;
    return file_use_check(uses, sizeof uses / sizeof *uses, &error) ? usage("%s", error.message) : -1;
}

/* ---- progress and interruption ----------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

/* On a terminal a line that moves; elsewhere a plain line at every fifth. */
static int show_progress(void *context, size_t done, size_t all) {
    size_t *shown = context;
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\rscoring %zu of %zu rows", done, all);
        if (done == all) fprintf(stderr, "\r%40s\r", "");
    } else if (all > 0 && 5 * done / all > 5 * *shown / all) {
        fprintf(stderr, "scored %zu of %zu rows\n", done, all);
    }
    *shown = done;
    return interrupted;
}

static int show_building(void *context, const char *source, size_t rows_so_far) {
    (void)context;
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\rmaking the data set: %-8s %7zu rows", source, rows_so_far);
    return interrupted;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

/* What is evaluated, and what the baselines learn from: both are rows of `all`. */
typedef struct dataset {
    rows all;
    row *asked, *train; /* copies of the records; their strings stay in `all` */
    size_t asked_count, train_count;
    const char *split; /* the one asked for; "all" where the data has no splits */
    char name[512];
} dataset;

static void free_dataset(dataset *d) {
    rows_free(&d->all);
    free(d->asked);
    free(d->train);
}

static int load_rows(dataset *d, const options *o, text_error *error) {
    const char *warning = "";
    build_notes notes = {0};
    if (o->data) {
        snprintf(d->name, sizeof d->name, "%s", o->data);
        if (rows_load(&d->all, o->data, ROWS_AUTO, &warning, error) != 0) return -1;
        if (warning && *warning) fprintf(stderr, "eval: note: %s\n", warning);
        return 0;
    }
    build_options build = build_defaults();
    build.seed = o->seed;
    const int status = data_build(&build, &d->all, &notes, show_building, NULL, error);
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%60s\r", "");
    if (status != 0) return -1;
    for (int i = 0; i < notes.n; i++) fprintf(stderr, "eval: %s\n", notes.line[i]);
    snprintf(d->name, sizeof d->name, "made here with seed %llu%s", (unsigned long long)o->seed,
             notes.n ? ", without the sources named above" : "");
    return 0;
}

static int choose_rows(dataset *d, const options *o, text_error *error) {
    d->asked = malloc((d->all.count + 1) * sizeof *d->asked);
    d->train = malloc((d->all.count + 1) * sizeof *d->train);
    if (!d->asked || !d->train) return text_fail_memory(error, 2 * d->all.count * sizeof *d->asked);
    d->split = "all";
    for (size_t i = 0; i < d->all.count; i++) {
        const row *r = &d->all.row[i];
        if (*r->split) d->split = o->split;
        if (strcmp(o->split, "all") == 0 || !*r->split || strcmp(o->split, r->split) == 0)
            d->asked[d->asked_count++] = *r;
        if (strcmp(r->split, "train") == 0) d->train[d->train_count++] = *r;
    }
    if (d->asked_count == 0)
        return text_fail(error, "%s: has no rows of split %s; give --split dev, train or all, or other data", d->name,
                         o->split);
    return 0;
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* Output files, opened before the long work so that an unwritable one is told at once. */
typedef struct outputs {
    safe_file json, predictions;
} outputs;

static int open_outputs(outputs *f, const options *o, text_error *error) {
    if (o->json && safe_file_open(&f->json, o->json, error) != 0) return -1;
    return o->predictions ? safe_file_open(&f->predictions, o->predictions, error) : 0;
}

static int write_outputs(outputs *f, const report *r, text_error *error) {
    if (f->json.file) {
        char *text = report_json(r);
        if (!text) return text_fail(error, "out of memory for the JSON report");
        fprintf(f->json.file, "%s\n", text);
        free(text);
    }
    if (f->predictions.file && report_predictions(f->predictions.file, r, error) != 0) return -1;
    if (f->json.file && safe_file_commit(&f->json, error) != 0) return -1;
    return f->predictions.file ? safe_file_commit(&f->predictions, error) : 0;
}

/* right[kind][row] for every baseline; NULL where they are not run. */
static int run_baselines(const dataset *d, const options *o, unsigned char **right, text_error *error) {
    if (!o->baselines || d->train_count == 0) return 0;
    for (int kind = 0; kind < BASELINE_KINDS; kind++) {
        if (isatty(STDERR_FILENO)) fprintf(stderr, "\rfitting baseline %d of %d", kind + 1, BASELINE_KINDS);
        right[kind] = malloc(d->asked_count);
        if (!right[kind] ||
            baseline_predict((baseline_kind)kind, d->train, d->train_count, d->asked, d->asked_count, right[kind]) != 0)
            return text_fail_memory(error, d->asked_count);
        for (size_t i = 0; i < d->asked_count; i++) right[kind][i] = right[kind][i] == d->asked[i].label;
        if (interrupted) return text_fail(error, "stopped");
    }
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%40s\r", "");
    return 0;
}

/* The labeller asked for, or the one the model was trained with. *name: as a person calls it, NULL for none. */
static int open_labels(labeller *labels, const options *o, const model *m, const char **name, text_error *error) {
    const char *trained = checkpoint_get(m->file, "oracle");
    const char *oracle = o->oracle ? o->oracle : trained && *trained ? trained : "relation";
    uint64_t seed = o->seed;
    *name = NULL;
    if (strcmp(oracle, "none") == 0) return 0;
    if (!o->seed_text && checkpoint_get(m->file, "oracle_seed") &&
        checkpoint_need_unsigned(m->file, "oracle_seed", &seed, error) != 0)
        return -1;
    if (labeller_open(labels, oracle, seed, error) != 0) return -1;
    *name = oracle;
    return 0;
}

static int print_page(const report *r, const options *o, const dea_threads *threads, text_error *error) {
    demo paris;
    report_print(stdout, r);
    if (o->demo) {
        if (demo_run(&paris, r->model, threads, error) != 0) return -1;
        demo_print(stdout, &paris);
    }
    return 0;
}

static int evaluate(const options *o, const model *m, dataset *d, outputs *files, text_error *error) {
    labeller labels = {0};
    scores s = {0};
    static tables t;
    unsigned char *right[BASELINE_KINDS] = {NULL};
    size_t shown = 0;
    int threads = o->threads;
    report r = {.checkpoint = o->checkpoint,
                .data = d->name,
                .split = d->split,
                .model = m,
                .rows = d->asked,
                .scores = &s,
                .tables = &t};
    score_options how = {.cut = o->cut,
                         .threads = {threads, threads > 1 ? pool_run : NULL, &threads},
                         .progress = show_progress,
                         .context = &shown};
    int status = open_labels(&labels, o, m, &r.oracle, error);
    how.labels = r.oracle ? &labels : NULL;
    if (status == 0) status = scores_run(&s, m, d->asked, d->asked_count, &how, error);
    if (status == 0 && labels.missing)
        fprintf(stderr, "eval: %zu of %zu rows have no alpha in %s; they are left out of its figures\n", labels.missing,
                s.count, r.oracle);
    if (status == 0 && 2 * s.unknown > s.tokens)
        status = text_fail(error, "%s: %zu of %zu tokens are unknown to %s: its vocabulary does not fit this data",
                           d->name, s.unknown, s.tokens, o->checkpoint);
    if (status == 0 && probe_applies(d->asked, d->asked_count)) status = probe_run(&r.balanced, m, &how.threads, error);
    if (status == 0) status = run_baselines(d, o, right, error);
    if (status == 0)
        status = tables_make(&t, d->asked, d->asked_count, s.right,
                             right[0] ? (const unsigned char *const *)right : NULL, error);
    if (status == 0) {
        status = report_work_out(&r, error);
        if (status == 0) status = print_page(&r, o, &how.threads, error);
        if (status == 0) status = write_outputs(files, &r, error);
        tables_free(&t);
    }
    for (int kind = 0; kind < BASELINE_KINDS; kind++) free(right[kind]);
    scores_free(&s);
    labeller_close(&labels);
    return status;
}

int main(int argc, char **argv) {
    options o = {.split = "test", .seed = 42, .threads = 1, .baselines = 1, .demo = 1};
    standard_open();
    const int code = read_options(argc, argv, &o);
    if (code >= 0) return code;
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    text_error error = {""};
    model m = {0};
    dataset d = {.all = {0}};
    outputs files = {.json = {0}};
    int status = model_load(&m, o.checkpoint, &error);
    if (status == 0) status = open_outputs(&files, &o, &error);
    if (status == 0) status = load_rows(&d, &o, &error);
    if (status == 0) status = choose_rows(&d, &o, &error);
    if (status == 0) status = evaluate(&o, &m, &d, &files, &error);
    safe_file_abandon(&files.json);
    safe_file_abandon(&files.predictions);
    free_dataset(&d);
    model_free(&m);
    if (status == 0) return standard_finish("eval", DONE);
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r");
    fprintf(stderr, "eval: %s\n", error.message);
    return interrupted ? INTERRUPTED : FAILED;
}

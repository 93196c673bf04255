/* build/visualize: pictures of what the two experts of every head do, and a page that shows them. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/oracle.h"
#include "data/stream.h"
#include "text/row_copy.h"
#include "text/rows.h"
#include "text/standard.h"
#include "train/hardware.h"
#include "train/pool.h"
#include "visualize/ascii.h"
#include "visualize/capture.h"
#include "visualize/gallery.h"

enum { DONE = 0, FAILED = 1, USAGE = 2, INTERRUPTED = 130 };
enum { WRONG_CHOICE = -2 }; /* beside 0 and -1: an option's value does not fit what was loaded */
enum { PATH_BYTES = 4096, TRY_STORIES = 8, MOST_SAMPLE = 100000 };

static const char help[] =
    "usage: visualize [OPTIONS]\n"
    "\n"
    "Draws what every head of a trained encoder does with a sentence, into a folder: PNG, SVG and TSV of each picture, "
    "and\n"
    "index.html, one page with all of them that needs no network. Start there.\n"
    "\n"
    "  what to look at\n"
    "        --ckpt FILE        a checkpoint of build/train (default: trains the preset quick into DIR/model first, "
    "once)\n"
    "        --premise TEXT --hypothesis TEXT   a pair of your own (default: a row of the data)\n"
    "        --alpha X          your pair's label in [0, 0.95], to be marked in the pictures\n"
    "        --data FILE        rows for the example and for the histogram of alpha-hat: TSV of build/data, bAbI, "
    "CLUTRR\n"
    "                           (default: fresh stories of the sources whose words the model knows)\n"
    "        --row N            the example is row N of the data's test rows (default 1)\n"
    "        --sample N         rows for the histogram, at most 100000 (default 120; 0: none)\n"
    "        --oracle NAME      relation, token, truth, wordpairs, none, or a cache file of alphas\n"
    "                           (default: the one the model was trained with)\n"
    "        --log FILE         training log, for the curves\n"
    "        --layer N, --head N, --query N    only these heatmaps and photo-finishes (from 0); the page opens there\n"
    "  how\n"
    "    -o, --out DIR          (default attention_analysis)\n"
    "        --ascii            print one heatmap to the terminal (--layer, --head, --map) and write no pictures\n"
    "        --map NAME         E0tilde, E1tilde, S, alpha_hat or attention (default attention), for --ascii\n"
    "    -t, --threads N        1 to 256 (default: the CPUs, at most 4); the pictures are the same for any\n"
    "    -h, --help   -V, --version\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C. No file is ever half written.\n";

typedef struct options {
    const char *checkpoint, *premise, *hypothesis, *data, *oracle, *log, *out;
    double alpha;
    int row, sample, layer, head, query, ascii, threads;
    view_map map;
} options;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    (void)number;
    interrupted = 1;
}

/* At most 4. */
static int cpus(void) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > 4 ? 4 : (int)online;
}

/* ---- options */
static int usage(const char *format, const char *what) {
    fputs("visualize: ", stderr);
    fprintf(stderr, format, what);
    fputs("; see visualize --help\n", stderr);
    return USAGE;
}

static int wrong_value(const char *option, const char *wanted, const char *given) {
    fprintf(stderr, "visualize: --%s takes %s, not \"%s\"; see visualize --help\n", option, wanted, given);
    return USAGE;
}

static int parse_integer(const char *text, int low, int high, int *value) {
    char *end;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (end == text || *end || errno || number < low || number > high) return -1;
    *value = (int)number;
    return 0;
}

static int parse_alpha(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return end == text || *end || !(*value >= 0 && *value <= DEA_ALPHA_MAX) ? -1 : 0;
}

static int is_blank(const char *text) {
    return !text[strspn(text, " \t\r\n")];
}

/* Returns -1 to go on, else the exit code. */
static int read_options(int argc, char **argv, options *o) {
    enum { CKPT = 256, PREMISE, HYPOTHESIS, ALPHA, DATA, ROW, SAMPLE, ORACLE, LOG, LAYER, HEAD, QUERY, ASCII, MAP };
    static const struct option all[] = {{"ckpt", required_argument, NULL, CKPT},
                                        {"premise", required_argument, NULL, PREMISE},
                                        {"hypothesis", required_argument, NULL, HYPOTHESIS},
                                        {"alpha", required_argument, NULL, ALPHA},
                                        {"data", required_argument, NULL, DATA},
                                        {"row", required_argument, NULL, ROW},
                                        {"sample", required_argument, NULL, SAMPLE},
                                        {"oracle", required_argument, NULL, ORACLE},
                                        {"log", required_argument, NULL, LOG},
                                        {"layer", required_argument, NULL, LAYER},
                                        {"head", required_argument, NULL, HEAD},
                                        {"query", required_argument, NULL, QUERY},
                                        {"out", required_argument, NULL, 'o'},
                                        {"ascii", no_argument, NULL, ASCII},
                                        {"map", required_argument, NULL, MAP},
                                        {"threads", required_argument, NULL, 't'},
                                        {"help", no_argument, NULL, 'h'},
                                        {"version", no_argument, NULL, 'V'},
                                        {NULL, 0, NULL, 0}};
    const int most = 1000000000;
    const char *const from_0 = "a whole number from 0 to 1000000000";
    opterr = 0;
    for (int key; (key = getopt_long(argc, argv, ":o:t:hV", all, NULL)) != -1;) {
        int wrong = 0;
        const char *wanted = from_0;
        switch (key) {
        case CKPT:
            o->checkpoint = optarg;
            break;
        case PREMISE:
            o->premise = optarg;
            break;
        case HYPOTHESIS:
            o->hypothesis = optarg;
            break;
        case ALPHA:
            wanted = "a number from 0 to 0.95";
            wrong = parse_alpha(optarg, &o->alpha);
            break;
        case DATA:
            o->data = optarg;
            break;
        case ROW:
            wanted = "a whole number from 1 to 1000000000";
            wrong = parse_integer(optarg, 1, most, &o->row);
            break;
        case SAMPLE:
            wanted = "a whole number from 0 to 100000";
            wrong = parse_integer(optarg, 0, MOST_SAMPLE, &o->sample);
            break;
        case ORACLE:
            o->oracle = optarg;
            break;
        case LOG:
            o->log = optarg;
            break;
        case LAYER:
            wrong = parse_integer(optarg, 0, most, &o->layer);
            break;
        case HEAD:
            wrong = parse_integer(optarg, 0, most, &o->head);
            break;
        case QUERY:
            wrong = parse_integer(optarg, 0, most, &o->query);
            break;
        case 'o':
            wanted = "the name of a folder";
            wrong = !*optarg;
            o->out = optarg;
            break;
        case ASCII:
            o->ascii = 1;
            break;
        case MAP:
            wanted = "E0tilde, E1tilde, S, alpha_hat or attention";
            wrong = view_map_by_file(optarg, &o->map);
            break;
        case 't':
            wanted = "a whole number from 1 to 256";
            wrong = parse_integer(optarg, 1, 256, &o->threads);
            break;
        case 'h':
            fputs(help, stdout);
            return standard_finish("visualize", DONE);
        case 'V':
            puts("visualize " DEA_VERSION);
            return standard_finish("visualize", DONE);
        case ':':
            return usage("%s needs a value", argv[optind - 1]);
        default:
            return usage("unknown option %s", argv[optind - 1]);
        }
        if (wrong) {
            const struct option *given = all;
            while (given->val != key) given++;
            return wrong_value(given->name, wanted, optarg);
        }
    }
    if (optind < argc) return usage("unexpected argument \"%s\"", argv[optind]);
    if (o->oracle && !oracle_is_there(o->oracle)) return usage(ORACLE_WANTED, o->oracle);
    if (!o->premise != !o->hypothesis) return usage("%s", "--premise and --hypothesis go together");
    if (o->premise && (is_blank(o->premise) || is_blank(o->hypothesis)))
        return usage("%s needs words", is_blank(o->premise) ? "--premise" : "--hypothesis");
    if (isfinite(o->alpha) && !o->premise)
        return usage("%s", "--alpha is the label of a pair given with --premise and --hypothesis");
    return -1;
}

/* ---- a model where none is given */
static int own_folder(const char *program, char folder[PATH_BYTES], text_error *error) {
    ssize_t length = readlink("/proc/self/exe", folder, PATH_BYTES - 1);
    if (length < 0) {
        if (snprintf(folder, PATH_BYTES, "%s", program) >= PATH_BYTES)
            return text_fail(error, "the program's own path is too long");
        length = (ssize_t)strlen(folder);
    }
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(folder, PATH_BYTES, ".");
    return 0;
}

/* Runs the trainer beside this program, its output on standard error. */
static int run_trainer(const char *program, const char *folder, const char *log, text_error *error) {
    const pid_t child = fork();
    if (child < 0) return text_fail(error, "%s cannot be started: %s", program, strerror(errno));
    if (child == 0) {
        char *const arguments[] = {"train", "--preset", "quick", "--out", (char *)folder, "--log", (char *)log, NULL};
        if (dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) execv(program, arguments);
        _exit(127);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        if (interrupted) kill(child, SIGINT);
    if (interrupted) return text_fail(error, "stopped while training");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return text_fail(error, "%s cannot be run; build it with make, or give a checkpoint with --ckpt", program);
    if (status) return text_fail(error, "training the quick preset failed; give a checkpoint with --ckpt");
    return 0;
}

static void remove_run(const char *folder) {
    static const char *const files[] = {"best.safetensors", "last.safetensors", "state.safetensors", "log.jsonl"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PATH_BYTES + 64];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* The quick model of the output folder, trained if it is not there yet: in a folder of its own that is renamed when done. */
static int need_quick_model(const options *o, const char *program, char weights[PATH_BYTES], char log[PATH_BYTES],
                            text_error *error) {
    char trainer[PATH_BYTES], folder[PATH_BYTES], work[PATH_BYTES], work_log[PATH_BYTES + 16];
    if (strlen(o->out) > PATH_BYTES - 64) return text_fail(error, "--out is too long");
    snprintf(folder, sizeof folder, "%.*s/model", PATH_BYTES - 64, o->out);
    snprintf(weights, PATH_BYTES, "%.*s/best.safetensors", PATH_BYTES - 32, folder);
    snprintf(log, PATH_BYTES, "%.*s/log.jsonl", PATH_BYTES - 32, folder);
    if (access(weights, R_OK) == 0) {
        fprintf(stderr, "visualize: no --ckpt: looking at the quick model trained before, %s\n", weights);
        return 0;
    }
    if (own_folder(program, trainer, error)) return -1;
    if (strlen(trainer) > PATH_BYTES - 16) return text_fail(error, "the program's own path is too long");
    strcat(trainer, "/train");
    if (album_make_folder(o->out, error)) return -1;
    snprintf(work, sizeof work, "%.*s/.model-XXXXXX", PATH_BYTES - 64, o->out);
    if (!mkdtemp(work))
        return text_fail(error, "%s: cannot be written into: %s; choose another with --out", o->out, strerror(errno));
    snprintf(work_log, sizeof work_log, "%s/log.jsonl", work);
    fprintf(stderr, "visualize: no --ckpt: training the quick preset into %s first (%s --preset quick)\n", folder,
            trainer);
    int failed = run_trainer(trainer, work, work_log, error);
    if (!failed && rename(work, folder))
        failed = text_fail(error, "%s: cannot be written: %s", folder, strerror(errno));
    if (failed) remove_run(work);
    return failed;
}

/* ---- rows: the example and the sample */

/* Stories of every source whose words the model knows whole; of all sources if it knows none. */
static int knows_words(const model *m, const data_stream *s, text_error *error) {
    encoded_pair pair = {0};
    data_story story;
    size_t tokens = 0, pieces = 0;
    for (uint64_t i = 0; i < TRY_STORIES; i++) {
        data_stream_story(s, 0, i, &story);
        if (encode_pair(m->vocabulary, NULL, story.rows[0].premise, story.rows[0].hypothesis, 0, &pair, error)) {
            encoded_pair_free(&pair);
            return -1;
        }
        tokens += pair.length;
        for (size_t t = 0; t < pair.length; t++)
            pieces += strncmp(tokenizer_piece(m->vocabulary, pair.id[t]), "##", 2) == 0;
        pieces += pair.unknown;
    }
    encoded_pair_free(&pair);
    return 20 * pieces <= tokens;
}

static int draw_rows(rows *list, const model *m, int count, int known_only, text_error *error) {
    const char *const *source = data_stream_sources();
    int sources = 0;
    data_stream s;
    data_story story;
    int use[16] = {0};
    for (int i = 0; source[i] && i < 16; i++) {
        if (data_stream_open(&s, source[i], "test", data_stream_stages(source[i]), 42)) continue;
        const int known = known_only ? knows_words(m, &s, error) : 1;
        if (known < 0) return -1;
        use[i] = known;
        sources += known;
    }
    for (int i = 0; source[i] && i < 16; i++) {
        if (!use[i] || data_stream_open(&s, source[i], "test", data_stream_stages(source[i]), 42)) continue;
        const int wanted = (count + sources - 1) / sources;
        uint64_t index = 0;
        for (int made = 0; made < wanted; index++) {
            data_stream_story(&s, 0, index, &story);
            for (int r = 0; r < story.n && made < wanted; r++, made++) {
                row copy;
                if (row_copy(&list->strings, &story.rows[r], &copy, error) || rows_add(list, &copy, error)) return -1;
            }
        }
    }
    return 0;
}

/* Test rows of the file, else all of its rows. */
static int load_rows(rows *list, const char *path, text_error *error) {
    const char *warning = "";
    if (rows_load(list, path, ROWS_AUTO, &warning, error)) return -1;
    if (warning && *warning) fprintf(stderr, "visualize: note: %s\n", warning);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) kept += strcmp(list->row[i].split, "test") == 0;
    if (kept) {
        size_t to = 0;
        for (size_t i = 0; i < list->count; i++)
            if (strcmp(list->row[i].split, "test") == 0) list->row[to++] = list->row[i];
        list->count = to;
    }
    return list->count ? 0 : text_fail(error, "%s: has no rows", path);
}

/* `count` rows spread evenly over the list, in place. */
static size_t thin_rows(row *row_list, size_t rows_count, size_t count) {
    if (rows_count <= count) return rows_count;
    for (size_t i = 0; i < count; i++) row_list[i] = row_list[i * rows_count / count];
    return count;
}

/* ---- what a person sees */
static void show_drawing(void *user, int done, int total) {
    int *tenth = user;
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\rdrawing %d of %d figures", done, total);
        if (done == total) fprintf(stderr, "\r%40s\r", "");
    } else if (10 * done / total > *tenth) {
        *tenth = 10 * done / total;
        fprintf(stderr, "visualize: drew %d of %d figures\n", done, total);
    }
}

static int show_scoring(void *context, size_t done, size_t all) {
    (void)context;
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\rscoring %zu of %zu rows", done, all);
        if (done == all) fprintf(stderr, "\r%40s\r", "");
    }
    return interrupted;
}

static int terminal_columns(void) {
    struct winsize size;
    int columns;
    const char *given = getenv("COLUMNS");
    if (given && parse_integer(given, 1, 10000, &columns) == 0) return columns;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 100;
}

static void print_ascii(const options *o, const view *v) {
    const int layer = o->layer < 0 ? 0 : o->layer, head = o->head < 0 ? 0 : o->head;
    ascii_heatmap(stdout, v, o->map, layer, head, terminal_columns());
}

/* ---- all of it */
typedef struct work {
    model m;
    rows list;
    labeller labels;
    int has_labels;
    capture c;
    curves training;
} work;

static int open_labels(work *w, const options *o, text_error *error) {
    const char *trained = checkpoint_get(w->m.file, "oracle");
    const char *oracle = o->oracle ? o->oracle : trained && *trained ? trained : "relation";
    uint64_t seed = 42;
    if (strcmp(oracle, "none") == 0) return 0;
    if (checkpoint_get(w->m.file, "oracle_seed") && checkpoint_need_unsigned(w->m.file, "oracle_seed", &seed, error))
        return -1;
    if (labeller_open(&w->labels, oracle, seed, error)) return -1;
    w->has_labels = 1;
    return 0;
}

/* What only the model, the sentence or the data can judge. 0, or WRONG_CHOICE with a message. */
static int check_choice(const char *option, int chosen, int low, int high, const char *with, text_error *error) {
    if (chosen <= high) return 0;
    text_fail(error, "--%s takes %d to %d with this %s, not %d; see visualize --help", option, low, high, with, chosen);
    return WRONG_CHOICE;
}

static int check_head(const model *m, const options *o, text_error *error) {
    const encoder_config *c = &m->encoder->config;
    const int wrong = check_choice("layer", o->layer, 0, c->layers - 1, "model", error);
    return wrong ? wrong : check_choice("head", o->head, 0, c->heads - 1, "model", error);
}

static int look(work *w, const options *o, const char *name, text_error *error) {
    const int fixed = w->m.encoder->config.fixed_alpha >= 0;
    const int two_classes = w->m.encoder->config.classes == 2;
    if (o->data ? load_rows(&w->list, o->data, error)
                : draw_rows(&w->list, &w->m, o->sample > 8 ? o->sample : 8, 1, error))
        return -1;
    if (!w->list.count && draw_rows(&w->list, &w->m, o->sample > 8 ? o->sample : 8, 0, error)) return -1;
    if (open_labels(w, o, error)) return -1;
    capture_pair pair = {o->premise, o->hypothesis, NULL, NULL, o->alpha, -1};
    if (!o->premise) {
        const int last = w->list.count < INT_MAX ? (int)w->list.count : INT_MAX;
        const int wrong = check_choice("row", o->row, 1, last, "data", error);
        if (wrong) return wrong;
        const row *r = &w->list.row[o->row - 1];
        pair = (capture_pair){r->premise,  r->hypothesis, r, w->has_labels && !fixed ? &w->labels : NULL,
                              (double)NAN, r->label};
    }
    size_t cut;
    if (capture_sentence(&w->c, &w->m, name, &pair, &cut, error)) return -1;
    const int wrong = check_choice("query", o->query, 0, w->c.v.tokens - 1, "sentence", error);
    if (wrong) return wrong;
    if (cut)
        fprintf(stderr, "visualize: the premise is too long for the model: %zu tokens dropped from its front\n", cut);
    if (o->ascii || !o->sample) return 0;
    if (fixed || !two_classes || !w->has_labels) {
        fprintf(stderr, "visualize: no histogram of alpha-hat: %s\n",
                fixed          ? "this model's alpha is fixed"
                : !two_classes ? "this model has no class head"
                               : "there is no oracle");
        return 0;
    }
    int threads = o->threads;
    const score_options how = {.labels = &w->labels,
                               .cut = 1,
                               .threads = {threads, threads > 1 ? pool_run : NULL, &threads},
                               .progress = show_scoring};
    const size_t count = thin_rows(w->list.row, w->list.count, (size_t)o->sample);
    return capture_sample(&w->c, &w->m, w->list.row, count, &how, o->data ? o->data : "fresh test stories", error);
}

static int draw(work *w, const options *o, const char *log, text_error *error) {
    char gnuplot[PATH_BYTES];
    int tenth = 0;
    gallery_report report;
    gallery_options g = {.layer = o->layer, .head = o->head, .query = o->query};
    g.album = (album_options){.progress = show_drawing, .user = &tenth, .stop = &interrupted};
    if (log) {
        if (curves_load(&w->training, log, error)) return -1;
        if (w->training.cut_lines)
            fprintf(stderr, "visualize: note: the last line of %s is not whole; it is left out\n", log);
        g.training = &w->training;
    }
    g.album.processes = cpus();
    if (gnuplot_find(gnuplot, sizeof gnuplot) == 0)
        g.album.gnuplot = gnuplot;
    else
        fputs("visualize: gnuplot is not there (Debian package gnuplot-nox): no PNGs, simple SVGs instead\n", stderr);
    const int result = gallery_make(&w->c.v, o->out, &g, &report, error);
    if (result > 0) return text_fail(error, "stopped; the old pictures, if any, are untouched");
    if (result < 0) return -1;
    if (o->query >= 0 && !report.finishes)
        fputs("visualize: no photo-finish for this query: one key wins for every alpha\n", stderr);
    printf("%d figures; open %s/index.html\n", report.figures, o->out);
    return 0;
}

int main(int argc, char **argv) {
    options o = {.out = "attention_analysis",
                 .alpha = (double)NAN,
                 .row = 1,
                 .sample = 120,
                 .layer = -1,
                 .head = -1,
                 .query = -1,
                 .threads = cpus(),
                 .map = VIEW_ATTENTION};
    standard_open();
    const int code = read_options(argc, argv, &o);
    if (code >= 0) return code;
    struct sigaction action = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    hardware_one_blas_thread();

    static work w; /* large */
    text_error error = {""};
    char weights[PATH_BYTES], log[PATH_BYTES];
    const char *from = o.checkpoint, *training = o.log;
    int status = 0;
    if (!o.ascii) status = gallery_check_folder(o.out, &error);
    if (status == 0 && !from) {
        status = need_quick_model(&o, argv[0], weights, log, &error);
        from = weights;
        if (!training && access(log, R_OK) == 0) training = log;
    }
    if (status == 0) status = model_load(&w.m, from, &error);
    if (status == 0) status = check_head(&w.m, &o, &error);
    if (status == 0) status = look(&w, &o, from, &error);
    if (status == 0 && o.ascii)
        print_ascii(&o, &w.c.v);
    else if (status == 0)
        status = draw(&w, &o, training, &error);
    capture_free(&w.c);
    curves_free(&w.training);
    if (w.has_labels) labeller_close(&w.labels);
    rows_free(&w.list);
    model_free(&w.m);
    if (status == 0) return standard_finish("visualize", DONE);
    if (isatty(STDERR_FILENO)) fputs("\r", stderr);
    fprintf(stderr, "visualize: %s\n", error.message);
    return interrupted ? INTERRUPTED : status == WRONG_CHOICE ? USAGE : FAILED;
}

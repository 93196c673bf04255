/* build/compare: reports of build/eval side by side, several seeds each, with intervals, in one table. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dea.h"
#include "metrics/metrics.h"
#include "text/standard.h"

enum { DONE = 0, FAILED = 1, USAGE = 2 };
enum { RUNS = 64, FIGURES = 32, VARIANTS = 16, REPORT_LIMIT = 16 << 20 };

static const char help[] = "usage: compare [--markdown] NAME=FILE[,FILE...] ...\n"
                           "\n"
                           "Reads JSON reports of build/eval and prints one table: a line for every figure, a column "
                           "for every NAME, the mean over its FILEs\n"
                           "(one a seed) and the half width of its 95% interval by Student's t. The first NAME is what "
                           "the others are compared with, file by\n"
                           "file in the order given: * marks a mean difference whose 95% interval leaves 0 out. A FILE "
                           "that is not there counts as a run not\n"
                           "yet made, and is said.\n"
                           "\n"
                           "      --markdown           as a Markdown table\n"
                           "  -h, --help   -V, --version\n"
                           "\n"
                           "Exit codes: 0 done, 1 failed, 2 wrong usage.\n";

typedef struct figure {
    char title[32];
    const char *object, *member; /* object NULL: a member of the report itself */
    double scale;
} figure;

typedef struct variant {
    const char *name;
    int runs, missing;
    double value[FIGURES][RUNS]; /* NaN: this report lacks the figure, or the run was not made */
} variant;

static int fail(const char *path, const char *what) {
    fprintf(stderr, "compare: %s: %s\n", path, what);
    return FAILED;
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static int add_figure(figure *figures, int count, const char *title, const char *object, const char *member,
                      double scale) {
    if (count == FIGURES) return count;
    figure *f = &figures[count];
    snprintf(f->title, sizeof f->title, "%.31s", title);
    f->object = object;
    f->member = member;
    f->scale = scale;
    return count + 1;
}

/* The figures of all kinds, and one for each source of the first report. */
static int make_figures(figure *figures, const cJSON *report) {
    int count = add_figure(figures, 0, "all", NULL, "accuracy", 100);
    const cJSON *sources = cJSON_GetObjectItemCaseSensitive(report, "by_source");
    for (const cJSON *s = sources ? sources->child : NULL; s; s = s->next)
        count = add_figure(figures, count, s->string, "by_source", s->string, 100);
    const cJSON *swapped = cJSON_GetObjectItemCaseSensitive(report, "swapped");
    if (cJSON_GetObjectItemCaseSensitive(swapped, "kinship"))
        count = add_figure(figures, count, "kin. swapped", "swapped", "kinship", 100);
    count = add_figure(figures, count, "alpha MAE", NULL, "alpha_mae", 1);
    count = add_figure(figures, count, "Pearson", NULL, "alpha_pearson", 1);
    count = add_figure(figures, count, "side", NULL, "side_accuracy", 100);
    return add_figure(figures, count, "side close", NULL, "side_close", 100);
}

static double value_of(const cJSON *report, const figure *f) {
    const cJSON *from = f->object ? cJSON_GetObjectItemCaseSensitive(report, f->object) : report;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, f->member);
    return cJSON_IsNumber(item) ? f->scale * item->valuedouble : NAN;
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

/* 1 and *report; 0: there is no such file; -1: it cannot be used, and that was said. */
static int read_report(const char *path, cJSON **report) {
    FILE *file = fopen(path, "rb");
    if (!file && errno == ENOENT) return 0;
    if (!file) {
        fail(path, strerror(errno));
        return -1;
    }
    char *text = malloc(REPORT_LIMIT);
    const size_t size = text ? fread(text, 1, REPORT_LIMIT, file) : 0;
    const int broken = ferror(file);
    fclose(file);
    *report = size < REPORT_LIMIT && !broken && size > 0 ? cJSON_ParseWithLength(text, size) : NULL;
    free(text);
    const cJSON *accuracy = cJSON_GetObjectItemCaseSensitive(*report, "accuracy");
    if (cJSON_IsNumber(accuracy)) return 1;
    cJSON_Delete(*report);
    fail(path, "is no report of build/eval --json; make it again");
    return -1;
}

/* Everything read so far; the first report stays, because figures point at its names. */
typedef struct comparison {
    figure figures[FIGURES];
    int figure_count, variant_count;
    variant variants[VARIANTS];
    cJSON *first;
} comparison;

static int add_run(comparison *c, variant *v, const char *path) {
    cJSON *report = NULL;
    if (v->runs == RUNS) return fail(path, "too many runs of one name; at most 64");
    const int there = read_report(path, &report);
    if (there < 0) return FAILED;
    if (there && !c->first) {
        c->first = report;
        c->figure_count = make_figures(c->figures, report);
    }
    for (int k = 0; k < FIGURES; k++)
        v->value[k][v->runs] = there && k < c->figure_count ? value_of(report, &c->figures[k]) : NAN;
    v->runs++;
    v->missing += !there;
    if (report != c->first) cJSON_Delete(report);
    return DONE;
}

/* "NAME=FILE,FILE": cut in place. */
static int add_variant(comparison *c, char *argument) {
    char *files = strchr(argument, '=');
    if (!files || files == argument || !files[1]) {
        fprintf(stderr, "compare: expected NAME=FILE[,FILE...], not \"%s\"; see compare --help\n", argument);
        return USAGE;
    }
    *files++ = '\0';
    for (int i = 0; i < c->variant_count; i++)
        if (strcmp(c->variants[i].name, argument) == 0) {
            fprintf(stderr, "compare: \"%s\" is given twice; join its files by commas; see compare --help\n", argument);
            return USAGE;
        }
    if (c->variant_count == VARIANTS) return fail(argument, "too many names; at most 16");
    variant *v = &c->variants[c->variant_count++];
    v->name = argument;
    for (char *path = strtok(files, ","); path; path = strtok(NULL, ",")) {
        const int status = add_run(c, v, path);
        if (status != DONE) return status;
    }
    return DONE;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* "82.1 +-2.3*" */
static void print_cell(const comparison *c, const variant *v, int k, char cell[32]) {
    double values[RUNS], differences[RUNS];
    size_t n = 0, pairs = 0;
    metrics_interval interval, gap;
    for (int r = 0; r < v->runs; r++) {
        if (isnan(v->value[k][r])) continue;
        values[n++] = v->value[k][r];
        const variant *base = &c->variants[0];
        if (r < base->runs && !isnan(base->value[k][r])) differences[pairs++] = v->value[k][r] - base->value[k][r];
    }
    const double mean = metrics_mean_interval(values, n, &interval);
    metrics_mean_interval(differences, pairs, &gap);
    const int digits = c->figures[k].scale > 1 ? 1 : 3;
    const char *mark = v != &c->variants[0] && (gap.low > 0 || gap.high < 0) ? "*" : "";
    if (n == 0)
        snprintf(cell, 32, "-");
    else if (n == 1)
        snprintf(cell, 32, "%.*f", digits, mean);
    else
        snprintf(cell, 32, "%.*f +-%.*f%s", digits, mean, digits, interval.high - mean, mark);
}

/* A bar in a name is no border of the table. */
static void print_markdown(const char *text) {
    for (putchar(' '); *text; text++) printf(*text == '|' ? "\\%c" : "%c", *text);
    fputs(" |", stdout);
}

static void print_line(const char *name, const char *const *cells, int count, int markdown) {
    if (markdown) {
        putchar('|');
        print_markdown(name);
        for (int i = 0; i < count; i++) print_markdown(cells[i]);
    } else {
        printf("%-13s", name);
        for (int i = 0; i < count; i++) printf(" %16s", cells[i]);
    }
    putchar('\n');
}

static void print_table(const comparison *c, int markdown) {
    const char *cells[VARIANTS];
    char text[VARIANTS][32];
    for (int i = 0; i < c->variant_count; i++) cells[i] = c->variants[i].name;
    print_line("", cells, c->variant_count, markdown);
    for (int i = 0; i < c->variant_count; i++) cells[i] = "---";
    if (markdown) print_line("---", cells, c->variant_count, 1);
    for (int k = 0; k < c->figure_count; k++) {
        for (int i = 0; i < c->variant_count; i++) {
            print_cell(c, &c->variants[i], k, text[i]);
            cells[i] = text[i];
        }
        print_line(c->figures[k].title, cells, c->variant_count, markdown);
    }
    printf("\nAccuracies and sides in %%: mean over runs +- half width of the 95%% interval (Student's t). * differs "
           "from %s, run by run; of\n"
           "20 cells without any true difference one is marked so by chance. Intervals cover the seeds, not the draw "
           "of the test rows.\n",
           c->variants[0].name);
    for (int i = 0; i < c->variant_count; i++)
        if (c->variants[i].missing)
            printf("%s: %d of %d runs are not there and are left out.\n", c->variants[i].name, c->variants[i].missing,
                   c->variants[i].runs);
}

int main(int argc, char **argv) {
    static const struct option all[] = {{"markdown", no_argument, NULL, 'm'},
                                        {"help", no_argument, NULL, 'h'},
                                        {"version", no_argument, NULL, 'V'},
                                        {NULL, 0, NULL, 0}};
    static comparison c;
    int markdown = 0, option, status = DONE;
    standard_open();
    opterr = 0;
    while ((option = getopt_long(argc, argv, "hV", all, NULL)) != -1) {
        if (option == 'm')
            markdown = 1;
        else if (option == 'h')
            return fputs(help, stdout), standard_finish("compare", DONE);
        else if (option == 'V')
            return puts("compare " DEA_VERSION), standard_finish("compare", DONE);
        else {
            fprintf(stderr, "compare: unknown option %s; see compare --help\n", argv[optind - 1]);
            return USAGE;
        }
    }
    if (optind == argc) {
        fprintf(stderr, "compare: NAME=FILE[,FILE...] is needed; see compare --help\n");
        return USAGE;
    }
    for (int i = optind; i < argc && status == DONE; i++) status = add_variant(&c, argv[i]);
    if (status == DONE && !c.first) status = fail(c.variants[0].name, "no run has been made yet");
    if (status == DONE) print_table(&c, markdown);
    cJSON_Delete(c.first);
    return standard_finish("compare", status);
}

#include "eval/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int report_work_out(report *r, text_error *error) {
    const scores *s = r->scores;
    double *scratch = malloc((3 * s->blocks + 1) * sizeof *scratch);
    if (!scratch) return text_fail_memory(error, 3 * s->blocks * sizeof *scratch);
    r->alpha.mae = metrics_mae(s->alpha_hat, s->alpha, s->blocks);
    r->alpha.constant_mae = metrics_constant_mae(s->alpha, s->blocks, scratch);
    r->alpha.pearson = metrics_pearson(s->alpha_hat, s->alpha, s->blocks);
    r->alpha.spearman = metrics_spearman(s->alpha_hat, s->alpha, s->blocks, scratch);
    r->alpha.bands = metrics_band_table(s->alpha_hat, s->alpha, s->blocks);
    r->calibration = metrics_calibrate(s->confidence, s->right, s->count);
    free(scratch);
    return 0;
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static double percent(int64_t right, int64_t count) {
    return 100 * (double)right / (double)count;
}

/* '+': the whole interval lies above the best baseline; '-': below; '=': the data cannot tell. */
static char verdict(const tables *t, const table_row *line) {
    const metrics_interval w = metrics_wilson(line->right, line->count);
    const double best = table_best_baseline(t, line);
    return w.low > best ? '+' : w.high < best ? '-' : '=';
}

/* judged 0: no verdict, since rows of one label are won by whoever always says it. */
static void print_row(FILE *to, const tables *t, const char *before, const table_row *line, int judged) {
    const metrics_interval w = metrics_wilson(line->right, line->count);
    char name[64];
    snprintf(name, sizeof name, "%s%.40s", before, line->name);
    fprintf(to, "  %-22s %6lld  %5.1f  [%5.1f, %5.1f]", name, (long long)line->count, percent(line->right, line->count),
            100 * w.low, 100 * w.high);
    for (int b = 0; b < BASELINE_KINDS && t->baselines; b++)
        fprintf(to, "  %6.1f", percent(line->baseline[b], line->count));
    if (t->baselines && judged) fprintf(to, "   %c", verdict(t, line));
    fputc('\n', to);
}

static int is_plain(const table *steps_of_sources, const char *source) {
    int lines = 0;
    const size_t length = strlen(source);
    for (int i = 0; i < steps_of_sources->count; i++)
        lines +=
            strncmp(steps_of_sources->row[i].name, source, length) == 0 && steps_of_sources->row[i].name[length] == ',';
    return lines < 2;
}

/* Sources, each followed by its steps where it has several and by its swapped hypotheses where it has any. */
static void print_sources(FILE *to, const tables *t) {
    const table *sources = &t->table[TABLE_SOURCE], *steps = &t->table[TABLE_SOURCE_STEPS],
                *swapped = &t->table[TABLE_SWAPPED];
    for (int i = 0; i < sources->count; i++) {
        const char *source = sources->row[i].name;
        const size_t length = strlen(source);
        print_row(to, t, "", &sources->row[i], 1);
        for (int j = 0; j < steps->count && !is_plain(steps, source); j++) {
            table_row line = steps->row[j];
            if (strncmp(line.name, source, length) != 0 || line.name[length] != ',') continue;
            line.name += length + 2;
            print_row(to, t, "    steps ", &line, 1);
        }
        for (int j = 0; j < swapped->count; j++) {
            table_row line = swapped->row[j];
            if (strcmp(line.name, source) != 0) continue;
            line.name = "swapped, false";
            print_row(to, t, "    ", &line, 0);
        }
    }
}

/* Without baselines: no row of its kind stands in the data. */
static void print_balanced(FILE *to, const table_row *line) {
    const tables none = {.baselines = 0};
    if (!line->name) return;
    if (!line->count) {
        fprintf(to, "  babi18b, babi18 with balanced counts, was not run: the vocabulary lacks some of its words.\n");
        return;
    }
    print_row(to, &none, "", line, 0);
    fprintf(to,
            "  babi18b is babi18 with both things told as often to be bigger, and as often smaller: counting is worth "
            "nothing there\n"
            "  (99%% of babi18's answers can be had from these counts). Not among the rows of \"all\".\n");
}

static void print_accuracy(FILE *to, const tables *t, const table_row *balanced) {
    static const char *const heads[BASELINE_KINDS] = {"prem.", "hypo.", "overl.", "cross"};
    fprintf(to, "\nAccuracy, %%                rows  model  95%% interval  ");
    for (int b = 0; b < BASELINE_KINDS && t->baselines; b++) fprintf(to, "  %6s", heads[b]);
    fprintf(to, "\n");
    print_row(to, t, "", &t->table[TABLE_ALL].row[0], 1);
    print_sources(to, t);
    for (int i = 0; i < t->table[TABLE_KIND].count; i++) print_row(to, t, "kind ", &t->table[TABLE_KIND].row[i], 0);
    for (int i = 0; i < t->table[TABLE_STEPS].count; i++) print_row(to, t, "steps ", &t->table[TABLE_STEPS].row[i], 1);
    if (t->baselines)
        fprintf(to, "  Baselines, fitted on the train split: prem. premise only (majority), hypo. hypothesis only "
                    "(logistic), overl. lexical\n"
                    "  overlap, cross logistic on word crosses.  + the interval lies above all of them, - below the "
                    "best, = cannot be told;\n"
                    "  no sign where all rows have one label, which is won by always saying it.\n");
    else
        fprintf(to, "  Baselines were not run: the data has no rows of split train, or --no-baselines was given.\n");
    for (int i = 0; i < t->table[TABLE_SOURCE].count; i++)
        if (strcmp(t->table[TABLE_SOURCE].row[i].name, "capital") == 0)
            fprintf(to, "  capital is the control: it asks for knowledge that no premise gives, so a model trained "
                        "here stays near 50.\n");
    print_balanced(to, balanced);
}

static void print_bands(FILE *to, const metrics_bands *bands) {
    static const char *const names[METRICS_BANDS] = {"near", "weak", "strong", "between"};
    fprintf(to, "    label \\ alpha-hat ");
    for (int j = 0; j < METRICS_BANDS; j++) fprintf(to, "%9s", names[j]);
    fprintf(to, "\n");
    for (int i = 0; i < METRICS_BANDS; i++) {
        int64_t sum = 0;
        for (int j = 0; j < METRICS_BANDS; j++) sum += bands->matrix[i][j];
        if (!sum) continue;
        fprintf(to, "    %-18s", names[i]);
        for (int j = 0; j < METRICS_BANDS; j++) fprintf(to, "%9lld", (long long)bands->matrix[i][j]);
        fprintf(to, "\n");
    }
}

/* A figure and a constant's: a share as a percentage, anything else to three decimals, "-" for none. */
typedef enum figure_form { FORM_SHARE, FORM_NUMBER } figure_form;

static void print_value(FILE *to, double value, figure_form form) {
    if (isnan(value))
        fprintf(to, "        -");
    else if (form == FORM_SHARE)
        fprintf(to, "   %5.1f%%", 100 * value);
    else
        fprintf(to, "   %6.3f", value);
}

static void print_figure(FILE *to, const char *name, double value, double constant, figure_form form) {
    fprintf(to, "  %-34s", name);
    print_value(to, value, form);
    print_value(to, constant, form);
    fprintf(to, "\n");
}

static void print_finishes(FILE *to, const metrics_sides *sides) {
    if (!sides->all.count) {
        fprintf(
            to,
            "  photo-finishes: none (a label block of one alpha has no second key to tie with, or no lines cross)\n");
        return;
    }
    char name[64];
    snprintf(name, sizeof name, "side of beta, %lld finishes", (long long)sides->all.count);
    print_figure(to, name, metrics_side_accuracy(&sides->all), metrics_side_constant(&sides->all), FORM_SHARE);
    snprintf(name, sizeof name, "  |alpha - beta| < 0.1, %lld", (long long)sides->close.count);
    print_figure(to, name, metrics_side_accuracy(&sides->close), metrics_side_constant(&sides->close), FORM_SHARE);
}

static void print_alpha(FILE *to, const report *r) {
    const scores *s = r->scores;
    if (r->model->encoder->config.fixed_alpha >= 0) {
        fprintf(to, "\nalpha is fixed at %g in this model: there is no gate to measure.\n",
                r->model->encoder->config.fixed_alpha);
        return;
    }
    if (!s->blocks) {
        fprintf(to, "\nalpha-hat was not measured: %s\n",
                r->oracle ? "the oracle has no label for any of these rows" : "--oracle none");
        return;
    }
    const char *gate_loss = checkpoint_get(r->model->file, "gate_loss");
    if (gate_loss && strcmp(gate_loss, "0") == 0)
        fprintf(to,
                "\nNo label taught this model's gate (--no-gate-loss): what follows shows where chance has left it.\n");
    fprintf(to,
            "\nalpha-hat against oracle '%s'       model  constant   (the best one there is, chosen with hindsight)\n",
            r->oracle);
    print_figure(to, "MAE of label blocks", r->alpha.mae, r->alpha.constant_mae, FORM_NUMBER);
    print_figure(to, "MAE cell by cell, all heads", s->cell_mae, NAN, FORM_NUMBER);
    print_figure(to, "Pearson", r->alpha.pearson, NAN, FORM_NUMBER);
    print_figure(to, "Spearman", r->alpha.spearman, NAN, FORM_NUMBER);
    print_figure(to, "band agreement", (double)r->alpha.bands.agreed / (double)r->alpha.bands.count,
                 (double)r->alpha.bands.constant / (double)r->alpha.bands.count, FORM_SHARE);
    print_finishes(to, &s->sides);
    print_bands(to, &r->alpha.bands);
    fprintf(to, "  A constant has no correlation. The best one knows the answers' distribution; a gate that is worth "
                "having is better than it.\n");
}

static void print_heads(FILE *to, const char *title, const scores *s, const double *value) {
    fprintf(to, "\n%s\n", title);
    for (int l = 0; l < s->layers; l++) {
        fprintf(to, "  layer %-2d", l);
        for (int h = 0; h < s->heads; h++) fprintf(to, "  %5.3f", value[l * s->heads + h]);
        fprintf(to, "\n");
    }
}

static void print_calibration(FILE *to, const report *r) {
    fprintf(to,
            "\nCalibration: expected calibration error %.3f over %d bins\n  probability  rows  right, %%  said, %%\n",
            metrics_ece(&r->calibration), METRICS_ECE_BINS);
    for (int bin = 0; bin < METRICS_ECE_BINS; bin++) {
        const int64_t n = r->calibration.count[bin];
        if (n)
            fprintf(to, "  %4.2f-%4.2f  %6lld  %8.1f  %7.1f\n", (double)bin / METRICS_ECE_BINS,
                    (double)(bin + 1) / METRICS_ECE_BINS, (long long)n, percent(r->calibration.right[bin], n),
                    100 * r->calibration.confidence[bin] / (double)n);
    }
}

static void print_heading(FILE *to, const report *r) {
    const encoder_config *c = &r->model->encoder->config;
    const scores *s = r->scores;
    const char *step = checkpoint_get(r->model->file, "step");
    fprintf(to,
            "model  %s%s%s: %zu parameters, %d layers x %d heads, %d wide, %s-norm, temperature %s, vocabulary %d\n",
            r->checkpoint, step ? ", step " : "", step ? step : "", model_parameters(r->model->encoder), c->layers,
            c->heads, c->d_model, c->post_norm ? "post" : "pre", c->use_temperature ? "on" : "off", c->vocab);
    const char *sources = checkpoint_get(r->model->file, "sources");
    if (sources && *sources) fprintf(to, "       trained on %s\n", sources);
    const int whole = strcmp(r->split, "all") == 0;
    fprintf(to, "data   %s, %s%s: %zu rows, %zu tokens, %zu of them unknown", r->data, whole ? "" : "split ",
            whole ? "all of it" : r->split, s->count, s->tokens, s->unknown);
    if (s->cut) fprintf(to, ", %zu rows cut at the front", s->cut);
    fprintf(to, "\n");
}

void report_print(FILE *to, const report *r) {
    print_heading(to, r);
    print_accuracy(to, r->tables, &r->balanced);
    print_alpha(to, r);
    print_heads(to, "Attention entropy by layer and head: 1 looks everywhere evenly, 0 at one token", r->scores,
                r->scores->entropy);
    if (r->model->encoder->config.fixed_alpha < 0)
        print_heads(to, "Mean alpha-hat by layer and head: 0 looks like, 0.95 works like", r->scores, r->scores->gate);
    print_calibration(to, r);
}

/* ---- row by row -------------------------------------------------------------------------------------------------- */

static void put_number(FILE *to, double x) {
    if (isnan(x))
        fprintf(to, "\t");
    else
        fprintf(to, "\t%.6f", x);
}

int report_predictions(FILE *to, const report *r, text_error *error) {
    const scores *s = r->scores;
    fprintf(
        to,
        "row\tsource\trelation\tkind\tsteps\tlabel\tpredicted\tprobability\talpha\talpha_hat\tpremise\thypothesis\n");
    for (size_t i = 0; i < s->count; i++) {
        const row *x = &r->rows[i];
        fprintf(to, "%zu\t%s\t%s\t%s\t%d\t%d\t%d", i + 1, x->source, x->relation, x->kind, x->steps, x->label,
                s->predicted[i]);
        put_number(to, s->probability[i]);
        put_number(to, s->row_alpha[i]);
        put_number(to, s->row_alpha_hat[i]);
        fprintf(to, "\t%s\t%s\n", x->premise, x->hypothesis);
    }
    return ferror(to) ? text_fail(error, "the predictions cannot be written: is the disk full?") : 0;
}

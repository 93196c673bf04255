#include "train/report.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/model.h"
#include "train/hardware.h"
#include "train/settings.h"

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- log */

/* One line; takes `json` over. */
static void log_line(report *r, cJSON *json) {
    char *line = r->log ? cJSON_PrintUnformatted(json) : NULL;
    if (line) {
        fprintf(r->log, "%s\n", line);
        fflush(r->log);
    }
    free(line);
    cJSON_Delete(json);
}

static cJSON *event(const report *r, const char *name) {
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "event", name);
    cJSON_AddNumberToObject(json, "step", (double)r->t->step);
    cJSON_AddNumberToObject(json, "seconds", seconds() - r->start);
    return json;
}

int report_open(report *r, const trainer *t, const char *log_path, int append, text_error *error) {
    *r = (report){
        .t = t, .log_path = log_path, .terminal = isatty(STDOUT_FILENO), .first_step = t->step, .shown_step = t->step};
    if (log_path) r->log = fopen(log_path, append ? "a" : "w");
    if (log_path && !r->log)
        return text_fail(error, "%s: %s; give --log a file that can be written", log_path, strerror(errno));
    r->start = r->shown = seconds();
    return 0;
}

int report_close(report *r, text_error *error) {
    if (!r->log) return 0;
    const int failed = ferror(r->log);
    if (fclose(r->log) || failed) {
        r->log = NULL;
        return text_fail(error, "%s: the log could not be written to its end: %s", r->log_path, strerror(errno));
    }
    r->log = NULL;
    return 0;
}

/* ---- the first screen */

static void print_settings(const trainer *t) {
    const char *name;
    char value[64];
    for (int i = 0; settings_get(&t->config, i, &name, value); i++)
        printf("%s%-17s %-12s", i % 3 == 0 ? "\n  " : " ", name, value);
    puts("");
}

static void print_sources(const trainer *t) {
    printf("sources (weight)    ");
    for (int i = 0; i < t->feed.count; i++) {
        const feed_source *s = &t->feed.source[i];
        printf("%s%s %g", i ? ", " : "", s->plan.name, s->plan.weight);
        if (s->plan.kind == FEED_FRESH)
            printf(" fresh, %d stages", s->stages);
        else
            printf(" %zu %s", s->units, s->plan.kind == FEED_TEXT ? "paragraphs" : "premises");
        if (s->plan.first > 1) printf(" from %d on", s->plan.first);
        if (s->plan.after[0]) printf(", after %s", s->plan.after);
    }
    puts("");
}

static void print_hardware(const trainer *t) {
    const char *better = hardware_better_coretype();
    printf("hardware            vector unit %s, BLAS kernel %s, %d thread%s\n", hardware_vectors(), hardware_blas(),
           t->threads, t->threads > 1 ? "s" : "");
    if (better)
        printf("warning: OpenBLAS runs its %s kernel, which is older than this CPU and several times slower;\n"
               "         set the environment variable OPENBLAS_CORETYPE=%s\n",
               hardware_blas(), better);
}

static cJSON *config_json(const trainer *t) {
    cJSON *json = cJSON_CreateObject();
    const char *name;
    char value[64];
    for (int i = 0; settings_get(&t->config, i, &name, value); i++) cJSON_AddStringToObject(json, name, value);
    return json;
}

void report_start(report *r, const char *preset, const char *data, const char *text, const char *out) {
    const trainer *t = r->t;
    printf("preset              %s, step %lld of %lld, to %s\n", preset, (long long)t->step, (long long)t->config.steps,
           out);
    printf("configuration");
    print_settings(t);
    print_sources(t);
    printf("data                %s%s%s\n",
           *data   ? data
           : *text ? "none"
                   : "fresh stories alone",
           *text ? ", text " : "", text);
    printf("alpha labels        %s\n", t->config.model.fixed_alpha >= 0 ? "none: alpha is fixed"
                                       : t->has_labels                  ? t->config.oracle
                                                                        : "none");
    printf("dev rows            %zu\n", t->dev.count);
    printf("vocabulary          %d pieces\n", (int)tokenizer_size(t->vocabulary));
    printf("parameters          %zu\n", model_parameters(t->e));
    printf("memory, predicted   %.0f MB\n", (double)trainer_memory(t) / 1e6);
    print_hardware(t);
    fflush(stdout);

    char sources[SETTINGS_SOURCES];
    settings_print_sources(&t->config, sources, sizeof sources);
    cJSON *json = event(r, "start");
    cJSON_AddStringToObject(json, "preset", preset);
    cJSON_AddItemToObject(json, "settings", config_json(t));
    cJSON_AddStringToObject(json, "sources", sources);
    cJSON_AddStringToObject(json, "oracle", t->config.oracle);
    cJSON_AddNumberToObject(json, "parameters", (double)model_parameters(t->e));
    cJSON_AddNumberToObject(json, "vocabulary", tokenizer_size(t->vocabulary));
    cJSON_AddNumberToObject(json, "predicted_bytes", (double)trainer_memory(t));
    cJSON_AddStringToObject(json, "blas", hardware_blas());
    cJSON_AddStringToObject(json, "vectors", hardware_vectors());
    cJSON_AddNumberToObject(json, "threads", t->threads);
    log_line(r, json);
}

/* ---- steps */

/* Not so for a source that still waits for another. */
static int takes_part(const feed_source *s) {
    return s->state.stage_steps > 0 || s->state.stage > (s->plan.first > 1 ? s->plan.first : 1);
}

/* "babi18 3/4 85%" for every source that takes part. */
static void print_stages(const trainer *t) {
    for (int i = 0; i < t->feed.count; i++) {
        const feed_source *s = &t->feed.source[i];
        if (s->plan.kind == FEED_TEXT || !takes_part(s)) continue;
        if (s->plan.kind == FEED_FRESH)
            printf(" %s %d/%d%s %.0f%%", s->plan.name, s->state.stage, s->stages, s->state.done ? " done" : "",
                   100 * s->state.accuracy);
        else
            printf(" %s %.0f%%", s->plan.name, 100 * s->state.accuracy);
    }
}

static double train_accuracy(const trainer *t) {
    double sum = 0;
    int count = 0;
    for (int i = 0; i < t->feed.count; i++) {
        const feed_source *s = &t->feed.source[i];
        if (s->plan.kind == FEED_TEXT || !takes_part(s)) continue;
        sum += s->state.accuracy;
        count++;
    }
    return count ? sum / count : 0;
}

static void print_line(report *r) {
    const trainer *t = r->t;
    const trainer_step_report *s = &r->last;
    const double spent = seconds() - r->start, done = (double)(t->step - r->first_step);
    const double left = done > 0 ? spent / done * (double)(t->config.steps - t->step) : 0;
    printf("step %lld/%lld", (long long)t->step, (long long)t->config.steps);
    if (r->terminal) {
        enum { WIDTH = 16 };
        const int filled = t->config.steps ? (int)(WIDTH * t->step / t->config.steps) : WIDTH;
        printf(" [%.*s%.*s]", filled, "################", WIDTH - filled, "................");
    }
    if (s->class_rows) printf("  loss %.3f", s->class_loss);
    if (s->asked) printf("  LM loss %.3f", s->lm_loss);
    if (s->gate_loss > 0) printf("  gate %.3f", s->gate_loss);
    printf("  gamma %.2f", s->gamma);
    if (s->class_rows) printf("  train %.0f%%", 100 * train_accuracy(t));
    if (r->evaluated && r->eval.sources) printf("  dev %.1f%%", 100 * r->eval.accuracy);
    if (r->evaluated && r->eval.cells) printf("  alpha MAE %.3f", r->eval.alpha_mae);
    printf("  %.1fk tokens/s  %d:%02d left |", spent > 0 ? (double)r->tokens / spent / 1000 : 0, (int)(left / 60),
           (int)left % 60);
    print_stages(t);
}

static void end_bar(report *r) {
    if (r->bar_shown) puts("");
    r->bar_shown = 0;
}

/* A figure that this step does not have is left out. */
static void add_if(cJSON *json, const char *name, double value, int present) {
    if (present) cJSON_AddNumberToObject(json, name, value);
}

static void log_step(report *r) {
    const trainer *t = r->t;
    const trainer_step_report *s = &r->last;
    if (!r->log) return;
    cJSON *json = event(r, "step"), *stages = cJSON_CreateObject();
    add_if(json, "class_loss", s->class_loss, s->class_rows > 0);
    add_if(json, "lm_loss", s->lm_loss, s->asked > 0);
    add_if(json, "gate_loss", s->gate_loss, s->gate_loss > 0);
    add_if(json, "train_accuracy", train_accuracy(t), s->class_rows > 0);
    cJSON_AddNumberToObject(json, "tokens_per_second", (double)r->tokens / (seconds() - r->start));
    cJSON_AddNumberToObject(json, "gamma", s->gamma);
    cJSON_AddNumberToObject(json, "lr_factor", s->lr_factor);
    cJSON_AddNumberToObject(json, "norm_main", s->norm[DEA_GROUP_MAIN]);
    cJSON_AddNumberToObject(json, "norm_gate", s->norm[DEA_GROUP_GATE]);
    cJSON_AddNumberToObject(json, "rows", s->rows);
    cJSON_AddNumberToObject(json, "correct", s->correct);
    cJSON_AddNumberToObject(json, "tokens", (double)s->tokens);
    cJSON_AddNumberToObject(json, "padded", (double)s->padded);
    for (int i = 0; i < t->feed.count; i++) {
        const feed_state *state = &t->feed.source[i].state;
        const double figures[2] = {state->stage, state->accuracy};
        cJSON_AddItemToObject(stages, t->feed.source[i].plan.name, cJSON_CreateDoubleArray(figures, 2));
    }
    cJSON_AddItemToObject(json, "stage_accuracy", stages);
    log_line(r, json);
}

void report_step(report *r, const trainer_step_report *step) {
    const double now = seconds();
    const int64_t every = r->t->config.steps / 50 > 0 ? r->t->config.steps / 50 : 1;
    r->last = *step;
    r->tokens += step->tokens;
    log_step(r);
    if (r->terminal ? now - r->shown < 0.2 && !step->moved : r->t->step - r->shown_step < every && !step->moved) return;
    r->shown = now;
    r->shown_step = r->t->step;
    if (r->terminal) printf("\r");
    print_line(r);
    if (r->terminal) printf("\033[K");
    r->bar_shown = r->terminal;
    if (!r->terminal) puts("");
    if (step->moved) end_bar(r);
    fflush(stdout);
}

/* ---- evaluations */

/* Rows: alpha of a label; columns: where alpha-hat stands, in tenths, as a share of the row. */
static void print_histogram(const trainer_eval_report *e) {
    printf("  alpha-hat against alpha, percent of each row:\n    alpha \\ hat ");
    for (int b = 0; b < TRAINER_BINS; b++) printf("  .%d-", b);
    puts("");
    for (int a = 0; a < TRAINER_BINS; a++) {
        int64_t all = 0;
        for (int b = 0; b < TRAINER_BINS; b++) all += e->histogram[a][b];
        if (!all) continue;
        printf("    .%d-          ", a);
        for (int b = 0; b < TRAINER_BINS; b++) {
            const double share = 100 * (double)e->histogram[a][b] / (double)all;
            if (e->histogram[a][b])
                printf(" %4.0f", share);
            else
                printf("    .");
        }
        printf("  n = %lld\n", (long long)all);
    }
}

static void log_eval(report *r, const trainer_eval_report *e) {
    if (!r->log) return;
    cJSON *json = event(r, "eval"), *sources = cJSON_CreateObject(), *histogram = cJSON_CreateArray();
    add_if(json, "dev_accuracy", e->accuracy, e->sources > 0);
    for (int i = 0; i < e->sources; i++)
        cJSON_AddNumberToObject(sources, e->source[i].name, (double)e->source[i].correct / e->source[i].rows);
    cJSON_AddItemToObject(json, "by_source", sources);
    add_if(json, "alpha_mae", e->alpha_mae, e->cells > 0);
    add_if(json, "constant_mae", e->constant_mae, e->cells > 0);
    for (int a = 0; a < TRAINER_BINS; a++) {
        double shares[TRAINER_BINS];
        for (int b = 0; b < TRAINER_BINS; b++) shares[b] = (double)e->histogram[a][b];
        cJSON_AddItemToArray(histogram, cJSON_CreateDoubleArray(shares, TRAINER_BINS));
    }
    cJSON_AddItemToObject(json, "histogram", histogram);
    cJSON_AddBoolToObject(json, "best", e->better);
    log_line(r, json);
}

void report_eval(report *r, const trainer_eval_report *e) {
    end_bar(r);
    r->eval = *e;
    r->evaluated = 1;
    log_eval(r, e);
    if (!e->sources) return;
    printf("  dev at step %lld: %.1f%% mean of sources%s", (long long)r->t->step, 100 * e->accuracy,
           e->better ? ", the best so far" : "");
    for (int i = 0; i < e->sources; i++) {
        const double p = (double)e->source[i].correct / e->source[i].rows;
        printf("%s %s %.1f%% +-%.1f", i ? "," : ";", e->source[i].name, 100 * p,
               196 * sqrt(p * (1 - p) / e->source[i].rows));
    }
    puts("");
    if (e->cells) {
        printf("  alpha MAE %.3f, of the best constant %.3f\n", e->alpha_mae, e->constant_mae);
        print_histogram(e);
    }
    fflush(stdout);
}

void report_end(report *r, const char *why) {
    const double spent = seconds() - r->start;
    end_bar(r);
    printf("%s at step %lld after %.0f s, %.1fk tokens/s, peak memory %.0f MB\n", why, (long long)r->t->step, spent,
           spent > 0 ? (double)r->tokens / spent / 1000 : 0, (double)hardware_peak_memory() / 1e6);
    if (r->t->best >= 0)
        printf("best dev accuracy %.1f%% at step %lld\n", 100 * r->t->best, (long long)r->t->best_step);
    cJSON *json = event(r, "end");
    cJSON_AddStringToObject(json, "why", why);
    cJSON_AddNumberToObject(json, "tokens", (double)r->tokens);
    cJSON_AddNumberToObject(json, "peak_bytes", (double)hardware_peak_memory());
    cJSON_AddNumberToObject(json, "best", r->t->best);
    log_line(r, json);
}

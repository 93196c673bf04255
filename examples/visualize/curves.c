#include "visualize/curves.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/grow.h"
#include "text/lines.h"

typedef enum member_index {
    LOSS,
    LM_LOSS,
    GATE_LOSS,
    TRAIN_ACCURACY,
    DEV_ACCURACY,
    GAMMA,
    ALPHA_MAE,
    SPEED
} member_index;

typedef struct member {
    const char *name; /* in the log; NULL: worked out from others */
    const char *title;
    uint32_t colour;
} member;

static const member members[CURVES_MEMBERS] = {
    [LOSS] = {"loss", "class loss", COLOUR_DISTRACTOR},
    [LM_LOSS] = {"lm_loss", "masked-language-model loss", COLOUR_GREEN},
    [GATE_LOSS] = {"gate_loss", "gate loss", COLOUR_PURPLE},
    [TRAIN_ACCURACY] = {NULL, "train accuracy, running mean over the sources' stages", COLOUR_DISTRACTOR},
    [DEV_ACCURACY] = {"dev_accuracy", "dev accuracy", COLOUR_TARGET},
    [GAMMA] = {"gamma", "γ, the labels' share of the mix", COLOUR_GREEN},
    [ALPHA_MAE] = {"alpha_mae", "mean |α̂ − α|", COLOUR_PURPLE},
    [SPEED] = {NULL, "tokens/s", COLOUR_INK},
};

enum { POINTS = 240 }; /* a curve of more is averaged over neighbours */

typedef struct panel {
    const char *name, *title, *y_label;
    int first, count; /* members */
    double low, high; /* of y where the figure has limits of its own, else both 0 */
} panel;

static const panel panels[CURVES_FIGURES] = {
    {"curves_loss", "Losses", "loss", LOSS, 3, 0, 0},
    {"curves_accuracy", "Accuracy in training and on held-out rows", "accuracy", TRAIN_ACCURACY, 2, 0, 1.02},
    {"curves_gamma", "γ: how much of the labels is mixed into the scores", "γ", GAMMA, 1, 0, 1.02},
    {"curves_alpha", "α̂: its distance from the oracle's α", "mean |α̂ − α|", ALPHA_MAE, 1, 0, 0},
    {"curves_speed", "Speed", "tokens/s", SPEED, 1, 0, 0},
};

const char *curves_name(int i) {
    return i >= 0 && i < CURVES_FIGURES ? panels[i].name : NULL;
}

void curves_free(curves *c) {
    free(c->step);
    free(c->value);
    *c = (curves){0};
}

/* A new line for `step`; lines of the same or a later step, from before the run was resumed, go. NULL when memory ends. */
static double *add_line(curves *c, double step) {
    while (c->count && c->step[c->count - 1] > step) c->count--;
    if (c->count && c->step[c->count - 1] == step) return c->value + (c->count - 1) * CURVES_MEMBERS;
    double *steps = grow(c->step, &c->step_capacity, c->count + 1, sizeof *steps);
    if (!steps) return NULL;
    c->step = steps;
    double *values = grow(c->value, &c->value_capacity, (c->count + 1) * CURVES_MEMBERS, sizeof *values);
    if (!values) return NULL;
    c->value = values;
    double *value = c->value + c->count * CURVES_MEMBERS;
    for (int m = 0; m < CURVES_MEMBERS; m++) value[m] = (double)NAN;
    c->step[c->count++] = step;
    return value;
}

/* Number of a member, NaN where the line has none. -1 with a message for anything but a number or null. */
static int read_number(const lines *l, const cJSON *object, const char *name, double *value, text_error *error) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    *value = (double)NAN;
    if (!item || cJSON_IsNull(item)) return 0;
    if (!cJSON_IsNumber(item)) return lines_fail(l, error, "\"%s\" is not a number", name);
    *value = item->valuedouble;
    return 0;
}

/* "stage_accuracy": {"SOURCE": [stage, accuracy], ...}: the mean over the sources. */
static double mean_accuracy(const cJSON *object) {
    const cJSON *source;
    double sum = 0, count = 0;
    cJSON_ArrayForEach(source, cJSON_GetObjectItemCaseSensitive(object, "stage_accuracy")) {
        const cJSON *accuracy = cJSON_GetArrayItem(source, 1);
        if (!cJSON_IsNumber(accuracy)) continue;
        sum += accuracy->valuedouble;
        count += 1;
    }
    return sum / count;
}

/* seconds: of the line before, NaN at first. */
static int read_object(curves *c, const lines *l, const cJSON *object, double *seconds, text_error *error) {
    double step, tokens, now, value[CURVES_MEMBERS];
    if (read_number(l, object, "step", &step, error) || read_number(l, object, "tokens", &tokens, error) ||
        read_number(l, object, "seconds", &now, error))
        return -1;
    for (int m = 0; m < CURVES_MEMBERS; m++) {
        value[m] = (double)NAN;
        if (members[m].name && read_number(l, object, members[m].name, &value[m], error)) return -1;
    }
    const double before = *seconds;
    *seconds = now;
    if (!isfinite(step)) return 0;
    if (step < 0) return lines_fail(l, error, "a step is a number from 0 up");
    value[TRAIN_ACCURACY] = mean_accuracy(object);
    if (now > before && isfinite(value[LOSS])) value[SPEED] = tokens / (now - before);
    double *line = add_line(c, step);
    if (!line) return text_fail_memory(error, (c->count + 1) * (CURVES_MEMBERS + 1) * sizeof *line);
    for (int m = 0; m < CURVES_MEMBERS; m++)
        if (isfinite(value[m])) line[m] = value[m];
    return 0;
}

/* A broken line is an error, except the last one. */
static int read_lines(curves *c, lines *l, text_error *error) {
    char *line;
    size_t length, broken = 0;
    double seconds = (double)NAN;
    int more;
    while ((more = lines_next(l, &line, &length, error)) == 1) {
        if (broken) break;
        if (!length) continue;
        cJSON *object = cJSON_ParseWithLength(line, length);
        if (!object) {
            broken = l->number;
            continue;
        }
        const int failed = cJSON_IsObject(object) ? read_object(c, l, object, &seconds, error)
                                                  : lines_fail(l, error, "not a JSON object");
        cJSON_Delete(object);
        if (failed) return -1;
    }
    if (more == 1)
        return text_fail(error, "%s:%zu: not a line of JSON; give the file that training's --log wrote", l->name,
                         broken);
    c->cut_lines = broken > 0;
    return more;
}

int curves_load(curves *c, const char *path, text_error *error) {
    *c = (curves){0};
    lines l;
    if (lines_open(&l, path, error)) return -1;
    int failed = read_lines(c, &l, error);
    lines_close(&l);
    if (!failed && !c->count)
        failed = text_fail(error, "%s: no line has a step; give the file that training's --log wrote", path);
    if (failed) curves_free(c);
    return failed;
}

/* The member's points without the gaps (dev accuracy is logged only now and then), neighbours averaged where they are more
 * than POINTS. Returns how many. */
static size_t gather(const curves *c, int m, double *x, double *y) {
    size_t seen = 0, count = 0;
    for (size_t i = 0; i < c->count; i++) seen += isfinite(c->value[i * CURVES_MEMBERS + (size_t)m]) != 0;
    const size_t pool = (seen + POINTS - 1) / POINTS;
    double sum = 0;
    size_t in_sum = 0;
    for (size_t i = 0; i < c->count; i++) {
        const double value = c->value[i * CURVES_MEMBERS + (size_t)m];
        if (!isfinite(value)) continue;
        sum += value;
        if (++in_sum < pool && --seen > 0) continue;
        x[count] = c->step[i];
        y[count++] = sum / (double)in_sum;
        sum = 0;
        in_sum = 0;
    }
    return count;
}

static int all_zero(const double *y, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (fabs(y[i]) > 0) return 0;
    return 1;
}

static int add_panel(album *a, const curves *c, const panel *p, double *memory, text_error *error) {
    figure_series series[CURVES_MEMBERS];
    size_t used = 0, points = 0;
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < p->count; i++) {
        const member *m = &members[p->first + i];
        double *x = memory + points, *y = memory + (size_t)p->count * c->count + points;
        const size_t count = gather(c, p->first + i, x, y);
        if (!count || (p->first + i == LM_LOSS && all_zero(y, count))) continue; /* no language model is trained */
        double from, to;
        figure_limits(y, count, &from, &to);
        low = fmin(low, from);
        high = fmax(high, to);
        points += count;
        series[used++] = (figure_series){m->title, count > 1 ? FIGURE_LINE : FIGURE_POINTS, m->colour, x, y, count, 0};
    }
    if (!used) return 0;
    const double first = c->step[0], last = c->step[c->count - 1];
    const figure_plot plot = {
        .title = p->title,
        .x_label = "step",
        .y_label = p->y_label,
        .x_low = first < last ? first : first - 1,
        .x_high = first < last ? last : first + 1,
        .y_low = p->high > 0 ? p->low
                 : low > 0   ? 0
                             : low,
        .y_high = p->high > 0 ? p->high : high,
        .series = series,
        .series_count = used,
    };
    return album_plot(a, p->name, &plot, error);
}

int curves_add(album *a, const curves *c, text_error *error) {
    if (!c->count) return 0;
    double *memory = malloc(2 * c->count * CURVES_MEMBERS * sizeof *memory);
    int failed = memory ? 0 : text_fail_memory(error, 2 * c->count * CURVES_MEMBERS * sizeof *memory);
    for (int i = 0; !failed && i < CURVES_FIGURES; i++) failed = add_panel(a, c, &panels[i], memory, error);
    free(memory);
    return failed;
}

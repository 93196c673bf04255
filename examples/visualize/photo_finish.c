#include "visualize/photo_finish.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dea.h"
#include "visualize/escape.h"

enum { OTHERS = 10 }; /* keys besides the two, drawn faintly */

/* A query's rows of the maps that its finishes depend on. */
typedef struct finish_lines {
    const float *et0, *et1, *s, *alpha_hat, *alpha; /* alpha may be NULL */
    int keys;
} finish_lines;

static finish_lines lines_of(const view *v, int layer, int head, int query) {
    const size_t row = (size_t)query * (size_t)v->tokens;
    const finish_lines l = {view_head(v, VIEW_E0, layer, head) + row, view_head(v, VIEW_E1, layer, head) + row,
                            view_head(v, VIEW_S, layer, head) + row,  view_head(v, VIEW_ALPHA_HAT, layer, head) + row,
                            v->alpha ? v->alpha + row : NULL,         v->tokens};
    return l;
}

static double score(const finish_lines *l, int key, double alpha) {
    return (1 - alpha) * (double)l->et0[key] + alpha * (double)l->et1[key];
}

static int visible(const finish_lines *l, int key) {
    return isfinite(l->et0[key]) && isfinite(l->et1[key]);
}

static int labelled(const finish_lines *l) {
    for (int key = 0; l->alpha && key < l->keys; key++)
        if (isfinite(l->alpha[key]) && visible(l, key)) return 1;
    return 0;
}

static int target_of(const finish_lines *l) {
    const int by_label = labelled(l);
    int best = -1;
    double best_score = 0;
    for (int key = 0; key < l->keys; key++) {
        if (!visible(l, key) || (by_label && !isfinite(l->alpha[key]))) continue;
        const double here = by_label ? score(l, key, (double)l->alpha[key]) : (double)l->s[key];
        if (best >= 0 && !(here > best_score)) continue;
        best = key;
        best_score = here;
    }
    return best;
}

int photo_target(const view *v, int layer, int head, int query) {
    const finish_lines l = lines_of(v, layer, head, query);
    return target_of(&l);
}

/* The alpha by which a finish is close: the label, else the gate's own. */
static double judge(const photo_finish *f) {
    return isfinite(f->alpha) ? f->alpha : f->alpha_hat;
}

static double distance(const photo_finish *f) {
    return fabs(judge(f) - f->beta);
}

/* 1 and the query's closest finish, or 0 if every distractor always wins or always loses. */
static int closest_of_query(const finish_lines *l, photo_finish *f) {
    f->target = target_of(l);
    if (f->target < 0) return 0;
    f->alpha = labelled(l) ? (double)l->alpha[f->target] : (double)NAN;
    f->alpha_hat = (double)l->alpha_hat[f->target];
    int found = 0;
    photo_finish best = *f;
    for (int key = 0; key < l->keys; key++) {
        if (key == f->target || !visible(l, key)) continue;
        if (!dea_beta((double)l->et0[f->target], (double)l->et1[f->target], (double)l->et0[key], (double)l->et1[key],
                      &f->beta))
            continue;
        f->distractor = key;
        if (found && !(distance(f) < distance(&best))) continue;
        best = *f;
        found = 1;
    }
    *f = best;
    return found;
}

size_t photo_closest(const view *v, photo_filter filter, photo_finish *finish, size_t room) {
    int any_label = 0;
    for (int q = 0; v->alpha && q < v->tokens; q++) {
        const finish_lines l = lines_of(v, 0, 0, q);
        any_label |= labelled(&l);
    }
    size_t count = 0;
    for (int layer = 0; layer < v->layers; layer++)
        for (int head = 0; head < v->heads; head++)
            for (int query = 0; query < v->tokens; query++) {
                if ((filter.layer >= 0 && filter.layer != layer) || (filter.head >= 0 && filter.head != head) ||
                    (filter.query >= 0 && filter.query != query))
                    continue;
                const finish_lines l = lines_of(v, layer, head, query);
                if (filter.query < 0 && any_label && !labelled(&l)) continue;
                photo_finish f = {layer, head, query, -1, -1, 0, 0, 0};
                if (!closest_of_query(&l, &f)) continue;
                size_t place = count;
                while (place > 0 && distance(&f) < distance(&finish[place - 1])) place--;
                if (place >= room) continue;
                if (count < room) count++;
                memmove(finish + place + 1, finish + place, (count - 1 - place) * sizeof *finish);
                finish[place] = f;
            }
    return count;
}

const char *photo_name(size_t rank, char out[24]) {
    snprintf(out, 24, "photo_finish_%02zu", (rank + 1) % 1000);
    return out;
}

/* The strongest other keys at the finish, for scale. */
static int strongest_others(const finish_lines *l, const photo_finish *f, int *other) {
    int count = 0;
    for (int key = 0; key < l->keys; key++) {
        if (key == f->target || key == f->distractor || !visible(l, key)) continue;
        int place = count;
        while (place > 0 && score(l, key, f->beta) > score(l, other[place - 1], f->beta)) place--;
        if (place >= OTHERS) continue;
        if (count < OTHERS) count++;
        memmove(other + place + 1, other + place, (size_t)(count - 1 - place) * sizeof *other);
        other[place] = key;
    }
    return count;
}

int photo_add(album *a, const view *v, const photo_finish *f, size_t rank, text_error *error) {
    static const double ends[2] = {0, 1};
    const finish_lines l = lines_of(v, f->layer, f->head, f->query);
    int key[OTHERS + 2];
    const int others = strongest_others(&l, f, key);
    key[others] = f->distractor;
    key[others + 1] = f->target;

    double y[OTHERS + 2][2], y_low, y_high;
    figure_series series[OTHERS + 2];
    char query[ESCAPE_SHORT], target[ESCAPE_SHORT], distractor[ESCAPE_SHORT];
    escape_short(v->token[f->query], 16, query);
    escape_short(v->token[f->target], 14, target);
    escape_short(v->token[f->distractor], 14, distractor);
    char target_name[200], distractor_name[200], target_wins[200], distractor_wins[200];
    snprintf(target_name, sizeof target_name, "target “%s”", target);
    snprintf(distractor_name, sizeof distractor_name, "distractor “%s”", distractor);
    snprintf(target_wins, sizeof target_wins, "“%s” wins", target);
    snprintf(distractor_wins, sizeof distractor_wins, "“%s” wins", distractor);
    for (int i = 0; i < others + 2; i++) {
        for (int end = 0; end < 2; end++) y[i][end] = score(&l, key[i], ends[end]);
        series[i] = (figure_series){i ? NULL : "other keys", FIGURE_FAINT, COLOUR_FAINT, ends, y[i], 2, 0};
    }
    series[others].name = distractor_name;
    series[others + 1].name = target_name;
    series[others].style = series[others + 1].style = FIGURE_LINE;
    series[others].colour = COLOUR_DISTRACTOR;
    series[others + 1].colour = COLOUR_TARGET;
    figure_limits(&y[0][0], 2 * (size_t)(others + 2), &y_low, &y_high);
    y_high += 0.08 * (y_high - y_low); /* for the words on top */

    const int target_right = score(&l, f->target, 1) > score(&l, f->distractor, 1);
    const double wide = 0.16; /* narrower sides have no room for their words */
    figure_band band[2] = {{0, f->beta, target_right ? distractor_wins : target_wins,
                            target_right ? COLOUR_DISTRACTOR_SHADE : COLOUR_TARGET_SHADE},
                           {f->beta, 1, target_right ? target_wins : distractor_wins,
                            target_right ? COLOUR_TARGET_SHADE : COLOUR_DISTRACTOR_SHADE}};
    if (f->beta < wide) band[0].label = NULL;
    if (1 - f->beta < wide) band[1].label = NULL;
    char beta_name[64], alpha_name[64], hat_name[64];
    snprintf(beta_name, sizeof beta_name, "β = %.3f, finish", f->beta);
    snprintf(alpha_name, sizeof alpha_name, "α = %.3f, oracle", f->alpha);
    snprintf(hat_name, sizeof hat_name, "α̂ = %.3f, gate", f->alpha_hat);
    const figure_mark mark[3] = {{f->beta, "β", beta_name, COLOUR_INK},
                                 {f->alpha_hat, "α̂", hat_name, COLOUR_PURPLE},
                                 {f->alpha, "α", alpha_name, COLOUR_GREEN}};
    char title[320], name[24];
    snprintf(title, sizeof title, "Layer %d, head %d, query %d “%s”: keys %d and %d", f->layer, f->head, f->query,
             query, f->target, f->distractor);
    const figure_plot plot = {
        .title = title,
        .x_label = "α: 0 is looks-like alone, 1 works-like alone",
        .y_label = "score S*(α)",
        .x_low = 0,
        .x_high = 1,
        .y_low = y_low,
        .y_high = y_high,
        .series = series,
        .series_count = (size_t)(others + 2),
        .band = band,
        .band_count = 2,
        .mark = mark,
        .mark_count = isfinite(f->alpha) ? 3 : 2,
    };
    return album_plot(a, photo_name(rank, name), &plot, error);
}

#include "visualize/view.h"

#include <math.h>
#include <string.h>

#include "dea.h"

static const view_map_info maps[VIEW_MAPS] = {
    {"E0tilde", "Ẽ₀", "looks-like energy, z-scored over a query's keys", "E0~", SCALE_DIVERGING},
    {"E1tilde", "Ẽ₁", "works-like energy, z-scored over a query's keys", "E1~", SCALE_DIVERGING},
    {"S", "S", "mixed score, (1 - α̂) Ẽ₀ + α̂ Ẽ₁ times the head's temperature", "S", SCALE_DIVERGING},
    {"alpha_hat", "α̂", "share of works-like the gate gives", "alpha-hat", SCALE_SEQUENTIAL},
    {"attention", "A", "attention weight, softmax of S", "A", SCALE_SEQUENTIAL},
};

const view_map_info *view_info(view_map map) {
    return &maps[map];
}

int view_map_by_file(const char *file, view_map *map) {
    for (int m = 0; m < VIEW_MAPS; m++)
        if (strcmp(file, maps[m].file) == 0) {
            *map = (view_map)m;
            return 0;
        }
    return -1;
}

int view_check(const view *v, text_error *error) {
    if (v->layers < 1 || v->heads < 1 || v->tokens < 1)
        return text_fail(error, "nothing to draw: %d layers, %d heads, %d tokens; each must be at least 1", v->layers,
                         v->heads, v->tokens);
    const size_t limit = (size_t)1 << 40, cells = (size_t)v->tokens * (size_t)v->tokens;
    if (cells > limit / (size_t)v->layers / (size_t)v->heads)
        return text_fail(error, "%d layers of %d heads over %d tokens are too many to draw", v->layers, v->heads,
                         v->tokens);
    if (!v->token) return text_fail(error, "the view has no tokens");
    for (int t = 0; t < v->tokens; t++)
        if (!v->token[t]) return text_fail(error, "token %d of the view is missing", t);
    for (int m = 0; m < VIEW_MAPS; m++)
        if (!v->map[m]) return text_fail(error, "the view lacks the map %s", maps[m].file);
    if (v->classes < 0 || (v->classes > 0 && (!v->class_name || !v->probability)))
        return text_fail(error, "the view has %d classes but not their names and probabilities", v->classes);
    if (v->label < -1 || (v->classes > 0 && v->label >= v->classes))
        return text_fail(error, "label %d is not one of the view's %d classes", v->label, v->classes);
    if (v->samples > 0 && (!v->sample_alpha || !v->sample_alpha_hat))
        return text_fail(error, "the view's sample lacks its values");
    return 0;
}

const float *view_head(const view *v, view_map map, int layer, int head) {
    const size_t cells = (size_t)v->tokens * (size_t)v->tokens;
    return v->map[map] + ((size_t)layer * (size_t)v->heads + (size_t)head) * cells;
}

void view_range(view_map map, const float *value, size_t count, double *low, double *high) {
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(value[i]) && fabs((double)value[i]) > largest) largest = fabs((double)value[i]);
    if (map == VIEW_ALPHA_HAT) largest = DEA_ALPHA_MAX;
    if (largest <= 0) largest = 1;
    *high = largest;
    *low = maps[map].scale == SCALE_DIVERGING ? -largest : 0;
}

double view_sentence_alpha_hat(const view *v, int layer, int head) {
    const size_t cells = (size_t)v->tokens * (size_t)v->tokens;
    const float *alpha_hat = view_head(v, VIEW_ALPHA_HAT, layer, head);
    double sum = 0;
    size_t seen = 0;
    for (size_t i = 0; i < cells; i++)
        if (isfinite(alpha_hat[i])) {
            sum += (double)alpha_hat[i];
            seen++;
        }
    return seen ? sum / (double)seen : (double)NAN;
}

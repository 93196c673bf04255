#include "visualize/heatmap.h"

#include <stdio.h>
#include <stdlib.h>

#include "dea.h"

const char *heatmap_name(int layer, int head, view_map map, char out[HEATMAP_NAME]) {
    snprintf(out, HEATMAP_NAME, "heatmaps/layer%d_head%d_%s", layer, head, view_info(map)->file);
    return out;
}

const char *heatmap_sheet_name(int layer, char out[HEATMAP_NAME]) {
    snprintf(out, HEATMAP_NAME, "layer%d_sheet", layer);
    return out;
}

static figure_grid head_grid(const view *v, view_map map, int layer, int head) {
    figure_grid grid = {0};
    grid.x_label = "key";
    grid.y_label = "query";
    grid.value_label = view_info(map)->symbol;
    grid.columns = grid.rows = v->tokens;
    grid.value = view_head(v, map, layer, head);
    grid.column_name = grid.row_name = v->token;
    grid.scale = view_info(map)->scale;
    return grid;
}

int heatmap_add_head(album *a, const view *v, int layer, int head, text_error *error) {
    const size_t cells = (size_t)v->tokens * (size_t)v->tokens;
    for (int m = 0; m < VIEW_MAPS; m++) {
        char name[HEATMAP_NAME], title[160];
        const view_map map = (view_map)m;
        figure_grid grid = head_grid(v, map, layer, head);
        snprintf(title, sizeof title, "%s, layer %d, head %d: %s", view_info(map)->symbol, layer, head,
                 view_info(map)->title);
        grid.title = title;
        view_range(map, grid.value, cells, &grid.low, &grid.high);
        if (album_grid(a, heatmap_name(layer, head, map, name), &grid, error)) return -1;
    }
    return 0;
}

/* Heads down, maps across; a map's scale is that of all the layer's heads, so that heads compare. */
int heatmap_add_sheet(album *a, const view *v, int layer, text_error *error) {
    const size_t cells = (size_t)v->heads * (size_t)v->tokens * (size_t)v->tokens;
    const size_t panels = (size_t)v->heads * VIEW_MAPS;
    figure_grid *panel = malloc(panels * sizeof *panel);
    const char **row = malloc((size_t)v->heads * sizeof *row);
    char(*row_text)[24] = malloc((size_t)v->heads * sizeof *row_text);
    int failed = panel && row && row_text ? 0 : text_fail_memory(error, panels * sizeof *panel);
    for (int h = 0; !failed && h < v->heads; h++) {
        snprintf(row_text[h], sizeof row_text[h], "head %d", h);
        row[h] = row_text[h];
        for (int m = 0; m < VIEW_MAPS; m++) {
            figure_grid *grid = &panel[h * VIEW_MAPS + m];
            *grid = head_grid(v, (view_map)m, layer, h);
            view_range((view_map)m, view_head(v, (view_map)m, layer, 0), cells, &grid->low, &grid->high);
        }
    }
    if (!failed) {
        const char *column[VIEW_MAPS];
        char title[64], name[HEATMAP_NAME];
        for (int m = 0; m < VIEW_MAPS; m++) column[m] = view_info((view_map)m)->symbol;
        snprintf(title, sizeof title, "Layer %d: every head (queries down, keys across)", layer);
        const figure_sheet sheet = {title, VIEW_MAPS, v->heads, panel, column, row};
        failed = album_sheet(a, heatmap_sheet_name(layer, name), &sheet, error);
    }
    free(panel);
    free(row);
    free(row_text);
    return failed;
}

int heatmap_add_means(album *a, const view *v, text_error *error) {
    const int longest = v->layers > v->heads ? v->layers : v->heads;
    const size_t cells = (size_t)v->layers * (size_t)v->heads;
    float *value = malloc(cells * sizeof *value);
    const char **name = malloc((size_t)longest * sizeof *name);
    char(*name_text)[16] = malloc((size_t)longest * sizeof *name_text);
    int failed = value && name && name_text ? 0 : text_fail_memory(error, cells * sizeof *value);
    if (!failed) {
        for (int i = 0; i < longest; i++) {
            snprintf(name_text[i], sizeof name_text[i], "%d", i);
            name[i] = name_text[i];
        }
        for (size_t i = 0; i < cells; i++)
            value[i] = (float)(v->mean_alpha_hat ? v->mean_alpha_hat[i]
                                                 : view_sentence_alpha_hat(v, (int)i / v->heads, (int)i % v->heads));
        const figure_grid grid = {
            .title = "Mean α̂: dark heads look, bright heads work",
            .x_label = "head",
            .y_label = "layer",
            .value_label = "mean α̂",
            .columns = v->heads,
            .rows = v->layers,
            .value = value,
            .column_name = name,
            .row_name = name,
            .scale = SCALE_SEQUENTIAL,
            .low = 0,
            .high = DEA_ALPHA_MAX,
            .numbers = 1,
        };
        failed = album_grid(a, "head_means", &grid, error);
    }
    free(value);
    free(name);
    free(name_text);
    return failed;
}

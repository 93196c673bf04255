#include "visualize/ascii.h"

#include <math.h>
#include <string.h>

#include "visualize/escape.h"

enum { NAME = 14, CELL = 2 }; /* columns of a row's name and of a cell */

/* The value farthest from 0 in the square of `step` tokens at (row, column); NaN if nothing is seen there. */
static double pooled(const float *value, int tokens, int row, int column, int step) {
    double farthest = (double)NAN;
    for (int y = row; y < row + step && y < tokens; y++)
        for (int x = column; x < column + step && x < tokens; x++) {
            const double here = (double)value[(size_t)y * (size_t)tokens + (size_t)x];
            if (isfinite(here) && !(fabs(here) <= fabs(farthest))) farthest = here;
        }
    return farthest;
}

static void put_cell(FILE *file, double value, colour_scale scale, double high) {
    static const char ink[] = " .:-=+*#%@";
    const double share = isfinite(value) ? fabs(value) / high : 0;
    const int level = share < 1 ? (int)(share * 10) : 9;
    if (!isfinite(value))
        fputs("  ", file);
    else if (scale == SCALE_SEQUENTIAL)
        fprintf(file, "%c%c", ink[level], ink[level]);
    else if (level == 0)
        fputs(" .", file);
    else
        fprintf(file, "%c%d", value < 0 ? '-' : '+', level);
}

/* Names of the columns, written downwards. */
static void put_column_names(FILE *file, const view *v, int step) {
    enum { LETTERS = 8 };
    for (int letter = 0; letter < LETTERS; letter++) {
        fprintf(file, "%*s", NAME + 1, "");
        for (int x = 0; x < v->tokens; x += step) {
            char shortened[ESCAPE_SHORT];
            const char *rest = escape_short(v->token[x], LETTERS, shortened);
            for (int skip = 0; skip < letter && *rest; skip++)
                for (rest++; ((unsigned char)*rest & 0xC0) == 0x80;) rest++;
            char one[8] = "";
            size_t size = 0;
            do {
                one[size] = rest[size];
            } while (rest[size] && ((unsigned char)rest[++size] & 0xC0) == 0x80);
            one[size] = '\0';
            escape_terminal(file, one, CELL);
        }
        fputc('\n', file);
    }
}

void ascii_heatmap(FILE *file, const view *v, view_map map, int layer, int head, int columns) {
    const int fit = ((columns < 40 ? 40 : columns) - NAME - 1) / CELL;
    const int step = (v->tokens + fit - 1) / fit;
    const float *value = view_head(v, map, layer, head);
    const view_map_info *info = view_info(map);
    double low, high;
    view_range(map, value, (size_t)v->tokens * (size_t)v->tokens, &low, &high);
    fprintf(file, "%s, layer %d, head %d: queries down, keys across\n", info->ascii, layer, head);
    put_column_names(file, v, step);
    for (int y = 0; y < v->tokens; y += step) {
        escape_terminal(file, v->token[y], NAME);
        fputc('|', file);
        for (int x = 0; x < v->tokens; x += step)
            put_cell(file, pooled(value, v->tokens, y, x, step), info->scale, high);
        fputs("|\n", file);
    }
    if (info->scale == SCALE_SEQUENTIAL)
        fprintf(file, "blank 0, then .:-=+*#%%@ in steps of %.3g up to %.3g\n", high / 10, high);
    else
        fprintf(file, "-9 to +9: tenths of %.3g; a dot is within a tenth of 0\n", high);
    if (step > 1) fprintf(file, "each cell is %d x %d tokens and shows the value farthest from 0\n", step, step);
}

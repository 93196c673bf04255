#include "visualize/svg.h"

#include <math.h>

#include "visualize/escape.h"

enum { SHADES = 32 };

typedef struct box {
    double x, y, width, height;
} box;

static void open_svg(FILE *file, double width, double height, int font, const char *title) {
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.6g %.6g\" width=\"%.6g\" height=\"%.6g\" "
            "font-family=\"DejaVu Sans, sans-serif\" font-size=\"%d\" fill=\"#222222\" role=\"img\">\n<title>",
            width, height, width, height, font);
    escape_html(file, title);
    fprintf(file, "</title>\n<rect width=\"%.6g\" height=\"%.6g\" fill=\"#ffffff\"/>\n", width, height);
}

static void put_text(FILE *file, double x, double y, const char *anchor, const char *more, const char *text) {
    fprintf(file, "<text x=\"%.6g\" y=\"%.6g\" text-anchor=\"%s\"%s>", x, y, anchor, more);
    escape_html(file, text);
    fputs("</text>\n", file);
}

static void put_number(FILE *file, double x, double y, const char *anchor, const char *more, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.3g", value);
    put_text(file, x, y, anchor, more, text);
}

static void put_turned(FILE *file, double x, double y, const char *anchor, const char *text) {
    char turn[80];
    snprintf(turn, sizeof turn, " transform=\"rotate(-90 %.6g %.6g)\"", x, y);
    put_text(file, x, y, anchor, turn, text);
}

/* ---- grids */
static int shade_of(const figure_grid *grid, float value) {
    if (!isfinite(value)) return -1;
    const double share = ((double)value - grid->low) / (grid->high - grid->low);
    return share <= 0 ? 0 : share >= 1 ? SHADES - 1 : (int)(share * SHADES);
}

/* One path a shade: a cell costs 15 bytes, not a <rect>. Neighbours of one shade in a row are one piece. */
static void put_cells(FILE *file, const figure_grid *grid, box at) {
    fprintf(file, "<g transform=\"translate(%.6g %.6g) scale(%.6g %.6g)\" shape-rendering=\"crispEdges\">\n", at.x,
            grid->upward ? at.y + at.height : at.y, at.width / grid->columns,
            (grid->upward ? -at.height : at.height) / grid->rows);
    for (int shade = 0; shade < SHADES; shade++) {
        int open = 0;
        for (int y = 0; y < grid->rows; y++)
            for (int x = 0; x < grid->columns; x++) {
                const float *row = grid->value + (size_t)y * (size_t)grid->columns;
                if (shade_of(grid, row[x]) != shade) continue;
                if (!open)
                    fprintf(file, "<path fill=\"#%06x\" d=\"",
                            (unsigned)colour_at(grid->scale, (double)shade / (SHADES - 1)));
                open = 1;
                int length = 1;
                while (x + length < grid->columns && shade_of(grid, row[x + length]) == shade) length++;
                fprintf(file, "M%d %dh%dv1h-%dz", x, y, length, length);
                x += length;
            }
        if (open) fputs("\"/>\n", file);
    }
    fputs("</g>\n", file);
}

static void put_bar(FILE *file, const figure_grid *grid, box at) {
    const int across = at.width > at.height;
    for (int shade = 0; shade < SHADES; shade++) {
        const double from = (double)shade / SHADES, size = 1.0 / SHADES;
        const box piece = across ? (box){at.x + from * at.width, at.y, size * at.width, at.height}
                                 : (box){at.x, at.y + (1 - from - size) * at.height, at.width, size * at.height};
        fprintf(file, "<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\" fill=\"#%06x\"/>\n", piece.x, piece.y,
                piece.width, piece.height, (unsigned)colour_at(grid->scale, (double)shade / (SHADES - 1)));
    }
    for (int i = 0; i < 3; i++) {
        const double value = grid->low + (grid->high - grid->low) * i / 2;
        if (across)
            put_number(file, at.x + at.width * i / 2, at.y + at.height + 12,
                       i == 0   ? "start"
                       : i == 1 ? "middle"
                                : "end",
                       "", value);
        else
            put_number(file, at.x + at.width + 4, at.y + at.height * (2 - i) / 2 + 4, "start", "", value);
    }
}

static void put_names(FILE *file, const figure_grid *grid, box at) {
    char shortened[ESCAPE_SHORT];
    const double dx = at.width / grid->columns, dy = at.height / grid->rows;
    if (grid->column_name) {
        const int step = figure_name_step(grid->columns, (int)at.width, FIGURE_NAME_PITCH);
        for (int x = 0; x < grid->columns; x += step)
            if (grid->numbers)
                put_text(file, at.x + (x + 0.5) * dx, at.y + at.height + 14, "middle", "",
                         escape_short(grid->column_name[x], FIGURE_NAME_LETTERS, shortened));
            else
                put_turned(file, at.x + (x + 0.5) * dx + 4, at.y + at.height + 6, "end",
                           escape_short(grid->column_name[x], FIGURE_NAME_LETTERS, shortened));
    } else {
        for (int i = 0; i <= 4; i++)
            put_number(file, at.x + at.width * i / 4, at.y + at.height + 14, "middle", "",
                       grid->x_low + (grid->x_high - grid->x_low) * i / 4);
    }
    if (grid->row_name) {
        const int step = figure_name_step(grid->rows, (int)at.height, FIGURE_NAME_PITCH);
        for (int y = 0; y < grid->rows; y += step)
            put_text(file, at.x - 6, at.y + (y + 0.5) * dy + 4, "end", "",
                     escape_short(grid->row_name[y], FIGURE_NAME_LETTERS, shortened));
    } else {
        for (int i = 0; i <= 4; i++)
            put_number(file, at.x - 6, at.y + at.height * i / 4 + 4, "end", "",
                       grid->y_low + (grid->y_high - grid->y_low) * (grid->upward ? 4 - i : i) / 4);
    }
}

static double clamp(double value, double low, double high) {
    return value < low ? low : value > high ? high : value;
}

void svg_grid(FILE *file, const figure_grid *grid) {
    const box at = {120, 36,
                    grid->numbers       ? clamp(grid->columns * 56, 260, 2000)
                    : grid->column_name ? clamp(grid->columns * 11, 440, 900)
                                        : 440,
                    grid->numbers    ? clamp(grid->rows * 44, 60, 4000)
                    : grid->row_name ? clamp(grid->rows * 11, 440, 900)
                                     : 440};
    open_svg(file, at.x + at.width + 110, at.y + at.height + (grid->numbers ? 48 : 118), 10, grid->title);
    put_text(file, at.x + at.width / 2, 22, "middle", " font-size=\"13\"", grid->title);
    put_cells(file, grid, at);
    if (grid->numbers)
        for (int i = 0; i < grid->rows * grid->columns; i++) {
            const double value = (double)grid->value[i];
            if (!isfinite(value)) continue;
            char number[32];
            snprintf(number, sizeof number, "%.2f", value);
            const uint32_t cell = colour_at(grid->scale, (value - grid->low) / (grid->high - grid->low));
            put_text(file, at.x + (i % grid->columns + 0.5) * at.width / grid->columns,
                     at.y + (i / grid->columns + 0.5) * at.height / grid->rows + 4, "middle",
                     colour_grey(cell) > 0.5 ? " fill=\"#000000\"" : " fill=\"#ffffff\"", number);
        }
    put_names(file, grid, at);
    put_text(file, at.x + at.width / 2, at.y + at.height + (grid->numbers ? 34 : 108), "middle", "", grid->x_label);
    put_turned(file, 14, at.y + at.height / 2, "middle", grid->y_label);
    put_bar(file, grid, (box){at.x + at.width + 16, at.y, 18, at.height});
    put_turned(file, at.x + at.width + 96, at.y + at.height / 2, "middle", grid->value_label);
    fputs("</svg>\n", file);
}

void svg_sheet(FILE *file, const figure_sheet *sheet) {
    const double side = 150, gap = 10, left = 76, top = 60;
    const double width = left + sheet->columns * (side + gap) + 10, height = top + sheet->rows * (side + gap) + 40;
    open_svg(file, width, height, 10, sheet->title);
    put_text(file, width / 2, 22, "middle", " font-size=\"13\"", sheet->title);
    for (int p = 0; p < sheet->rows * sheet->columns; p++) {
        const int row = p / sheet->columns, column = p % sheet->columns;
        const box at = {left + column * (side + gap), top + row * (side + gap), side, side};
        put_cells(file, &sheet->panel[p], at);
        if (!column) put_turned(file, left - 12, at.y + side / 2, "middle", sheet->row_name[row]);
        if (!row) put_text(file, at.x + side / 2, top - 8, "middle", "", sheet->column_name[column]);
        if (row == sheet->rows - 1) put_bar(file, &sheet->panel[p], (box){at.x, at.y + side + 10, side, 10});
    }
    fputs("</svg>\n", file);
}

/* ---- plots */
typedef struct frame {
    const figure_plot *plot;
    box at;
} frame;

static double place_x(const frame *f, double x) {
    return f->at.x + f->at.width * (x - f->plot->x_low) / (f->plot->x_high - f->plot->x_low);
}

static double place_y(const frame *f, double y) {
    return f->at.y + f->at.height * (f->plot->y_high - y) / (f->plot->y_high - f->plot->y_low);
}

static void put_axes(FILE *file, const frame *f) {
    for (int i = 0; i <= 5; i++) {
        const double x = f->plot->x_low + (f->plot->x_high - f->plot->x_low) * i / 5;
        const double y = f->plot->y_low + (f->plot->y_high - f->plot->y_low) * i / 5;
        fprintf(file, "<path stroke=\"#cccccc\" d=\"M%.6g %.6gv%.6gM%.6g %.6gh%.6g\"/>\n", place_x(f, x), f->at.y,
                f->at.height, f->at.x, place_y(f, y), f->at.width);
        put_number(file, place_x(f, x), f->at.y + f->at.height + 16, "middle", "", x);
        put_number(file, f->at.x - 6, place_y(f, y) + 4, "end", "", y);
    }
    put_text(file, f->at.x + f->at.width / 2, f->at.y + f->at.height + 36, "middle", "", f->plot->x_label);
    put_turned(file, 16, f->at.y + f->at.height / 2, "middle", f->plot->y_label);
}

static void put_series(FILE *file, const frame *f, const figure_series *series) {
    const char *const stroke = series->style == FIGURE_LINE ? "2.5" : "0.8";
    const int line = series->style == FIGURE_LINE || series->style == FIGURE_FAINT;
    if (line)
        fprintf(file, "<path fill=\"none\" stroke=\"#%06x\" stroke-width=\"%s\" d=\"M", (unsigned)series->colour,
                stroke);
    if (!line) fprintf(file, "<g fill=\"#%06x\">\n", (unsigned)series->colour);
    int drawn = 0;
    for (size_t i = 0; i < series->count; i++) {
        if (!isfinite(series->x[i]) || !isfinite(series->y[i])) continue;
        const double x = place_x(f, series->x[i]), y = place_y(f, series->y[i]);
        if (line) fprintf(file, "%s%.6g %.6g", drawn ? " " : "", x, y);
        if (series->style == FIGURE_POINTS) fprintf(file, "<circle cx=\"%.6g\" cy=\"%.6g\" r=\"1.8\"/>\n", x, y);
        if (series->style == FIGURE_BARS) {
            const double half = (place_x(f, series->x[i] + series->width) - x) / 2, floor_y = place_y(f, 0);
            fprintf(file, "<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\"/>\n", x - half, y, 2 * half,
                    floor_y > y ? floor_y - y : 0);
        }
        drawn = 1;
    }
    if (line) fprintf(file, "%s\"/>\n", drawn ? "" : "0 0");
    if (!line) fputs("</g>\n", file);
}

/* The legend, two entries a line. */
static void put_legend(FILE *file, const frame *f, size_t entry, uint32_t colour, const char *name) {
    const double x = f->at.x + (double)(entry % 2) * f->at.width / 2,
                 y = f->at.y + f->at.height + 60 + 18 * (double)(entry / 2);
    fprintf(file, "<rect x=\"%.6g\" y=\"%.6g\" width=\"18\" height=\"4\" fill=\"#%06x\"/>\n", x, y - 6,
            (unsigned)colour);
    put_text(file, x + 24, y, "start", "", name);
}

void svg_plot(FILE *file, const figure_plot *plot) {
    size_t entries = plot->mark_count;
    for (size_t s = 0; s < plot->series_count; s++) entries += plot->series[s].name != NULL;
    const frame f = {plot, {64, 36, 640, 300}};
    open_svg(file, 720, f.at.y + f.at.height + 60 + 9 * (double)(entries + 1), 13, plot->title);
    put_text(file, 384, 22, "middle", " font-size=\"15\"", plot->title);
    for (size_t b = 0; b < plot->band_count; b++) {
        const double from = place_x(&f, plot->band[b].from), to = place_x(&f, plot->band[b].to);
        fprintf(file, "<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\" fill=\"#%06x\"/>\n", from, f.at.y,
                to - from, f.at.height, (unsigned)plot->band[b].colour);
        if (plot->band[b].label) put_text(file, (from + to) / 2, f.at.y + 14, "middle", "", plot->band[b].label);
    }
    put_axes(file, &f);
    if (plot->diagonal) {
        const double low = fmax(plot->x_low, plot->y_low), high = fmin(plot->x_high, plot->y_high);
        fprintf(file, "<path stroke=\"#888888\" d=\"M%.6g %.6gL%.6g %.6g\"/>\n", place_x(&f, low), place_y(&f, low),
                place_x(&f, high), place_y(&f, high));
    }
    size_t entry = 0;
    for (size_t s = 0; s < plot->series_count; s++) {
        put_series(file, &f, &plot->series[s]);
        if (plot->series[s].name) put_legend(file, &f, entry++, plot->series[s].colour, plot->series[s].name);
    }
    for (size_t m = 0; m < plot->mark_count; m++) {
        const double x = place_x(&f, plot->mark[m].x);
        fprintf(file, "<path stroke=\"#%06x\" stroke-width=\"2\" stroke-dasharray=\"%zu 4\" d=\"M%.6g %.6gv%.6g\"/>\n",
                (unsigned)plot->mark[m].colour, 4 + 4 * m, x, f.at.y, f.at.height);
        put_text(file, x + 4, f.at.y + f.at.height - 8 - 16 * (double)m, "start", "", plot->mark[m].symbol);
        put_legend(file, &f, entry++, plot->mark[m].colour, plot->mark[m].name);
    }
    fputs("</svg>\n", file);
}

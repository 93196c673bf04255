#include "visualize/script.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "visualize/escape.h"

#define FONT "DejaVu Sans"

enum { PLOT_WIDTH = 720, PLOT_HEIGHT = 460, PLOT_FONT = 14, BAR_WIDTH = 18 };

typedef struct canvas {
    int width, height, font;
} canvas;

void script_begin(FILE *script) {
    fputs("set encoding utf8\nset datafile missing 'NaN'\n", script);
}

static void open_picture(FILE *script, canvas size, const char *ending, int number) {
    fprintf(script,
            "reset\nset terminal %s noenhanced size %d,%d font '" FONT
            ",%d' background '#ffffff'\nset output '%d.%s'\n",
            ending[0] == 'p' ? "pngcairo" : "svg", size.width, size.height,
            ending[0] == 'p' ? size.font : size.font * 4 / 3, number, ending); /* points and pixels */
}

static void close_picture(FILE *script, int last) {
    fputs("unset output\n", script);
    if (last) fputs("print '" SCRIPT_DONE "'\n", script);
}

static void set_text(FILE *script, const char *what, const char *text, const char *rest) {
    fprintf(script, "set %s ", what);
    escape_gnuplot(script, text, ESCAPE_STRING);
    fprintf(script, "%s\n", rest);
}

static void set_label(FILE *script, const char *text, double screen_x, double screen_y, const char *rest) {
    fputs("set label ", script);
    escape_gnuplot(script, text, ESCAPE_STRING);
    fprintf(script, " at screen %.6f,%.6f center%s\n", screen_x, screen_y, rest);
}

/* ---- grids */
static void set_palette(FILE *script, colour_scale scale, double low, double high) {
    const uint32_t *stop;
    const int count = colour_stops(scale, &stop);
    fputs("set palette defined (", script);
    for (int i = 0; i < count; i++) fprintf(script, "%s%d '#%06X'", i ? ", " : "", i, (unsigned)stop[i]);
    fprintf(script, ")\nset cbrange [%.9g:%.9g]\n", low, high);
}

static void set_edges(FILE *script, canvas size, double left, double right, double top, double bottom) {
    fprintf(script,
            "set lmargin at screen %.6f\nset rmargin at screen %.6f\nset tmargin at screen %.6f\nset bmargin at screen "
            "%.6f\n",
            left / size.width, right / size.width, 1 - top / size.height, 1 - bottom / size.height);
}

static void set_names(FILE *script, const char *axis, const char *const *name, int count, int pixels,
                      const char *options) {
    char shortened[ESCAPE_SHORT];
    const int step = figure_name_step(count, pixels, FIGURE_NAME_PITCH);
    fprintf(script, "set %s scale 0 %s (", axis, options);
    for (int i = 0; i < count; i += step) {
        if (i) fputs(", ", script);
        escape_gnuplot(script, escape_short(name[i], FIGURE_NAME_LETTERS, shortened), ESCAPE_TICK);
        fprintf(script, " %d", i);
    }
    fputs(")\n", script);
}

/* Cells are [0.5 around 0 .. columns - 1] on an axis of names, [x_low, x_high] on an axis of numbers. */
static void axis_range(double *low, double *high, const char *const *name, int cells, double given_low,
                       double given_high) {
    *low = name ? -0.5 : given_low;
    *high = name ? cells - 0.5 : given_high;
}

/* gnuplot's image needs two cells each way: script_grid_data writes a single row or column twice. */
static int twice(int cells) {
    return cells == 1 ? 2 : cells;
}

static void write_cells(FILE *script, const figure_grid *grid, int number, size_t skip_cells) {
    double x_low, x_high, y_low, y_high;
    axis_range(&x_low, &x_high, grid->column_name, grid->columns, grid->x_low, grid->x_high);
    axis_range(&y_low, &y_high, grid->row_name, grid->rows, grid->y_low, grid->y_high);
    const int columns = twice(grid->columns), rows = twice(grid->rows);
    const double dx = (x_high - x_low) / columns, dy = (y_high - y_low) / rows;
    fprintf(script, "set xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n", x_low, x_high, grid->upward ? y_low : y_high,
            grid->upward ? y_high : y_low);
    fprintf(
        script,
        "plot '%d.bin' binary skip=%zu array=(%d,%d) dx=%.9g dy=%.9g origin=(%.9g,%.9g) format='%%float' with image "
        "notitle\n",
        number, skip_cells * sizeof(float), columns, rows, dx, dy, x_low + dx / 2, y_low + dy / 2);
}

static void write_numbers(FILE *script, const figure_grid *grid) {
    for (int y = 0; y < grid->rows; y++)
        for (int x = 0; x < grid->columns; x++) {
            const double value = (double)grid->value[(size_t)y * (size_t)grid->columns + (size_t)x];
            if (!isfinite(value)) continue;
            const uint32_t cell = colour_at(grid->scale, (value - grid->low) / (grid->high - grid->low));
            fprintf(script, "set label '%.2f' at first %d,%d center front textcolor rgb '%s'\n", value, x, y,
                    colour_grey(cell) > 0.5 ? "#000000" : "#ffffff");
        }
}

static int grid_side(int cells) {
    const int wanted = cells * FIGURE_NAME_PITCH;
    return wanted < 440 ? 440 : wanted > 900 ? 900 : wanted;
}

static void draw_grid(FILE *script, const figure_grid *grid, int number, const char *ending) {
    int width = grid->column_name ? grid_side(grid->columns) : 440,
        height = grid->row_name ? grid_side(grid->rows) : 440;
    if (grid->numbers) {
        width = grid->columns * 56;
        height = grid->rows * 44;
        if (width < 260) width = 260;
        if (height < 130) height = 130;
    }
    const int left = grid->row_name && !grid->numbers ? 138 : 76, right = 84, top = 66;
    const int below = grid->column_name && !grid->numbers ? 142 : 56;
    const int png = ending[0] == 'p', dense = !grid->numbers && (grid->columns > 40 || grid->rows > 40);
    const canvas size = {left + width + right, top + height + below, dense ? 8 : 10};
    char title_font[48], label_font[64];
    snprintf(title_font, sizeof title_font, " font '" FONT ",%d'", png ? 11 : 15);
    snprintf(label_font, sizeof label_font, " font '" FONT ",%d'", png ? 10 : 13);
    open_picture(script, size, ending, number);
    set_label(script, grid->title, 0.5, 1 - 20.0 / size.height, title_font);
    set_label(script, grid->x_label, (left + width / 2.0) / size.width, 14.0 / size.height, label_font);
    set_label(script, grid->value_label, (left + width + 16.0 + BAR_WIDTH / 2.0) / size.width,
              1 - (top - 14.0) / size.height, label_font);
    strcat(label_font, " rotate by 90");
    set_label(script, grid->y_label, 12.0 / size.width, 1 - (top + height / 2.0) / size.height, label_font);
    set_palette(script, grid->scale, grid->low, grid->high);
    set_edges(script, size, left, left + width, top, top + height);
    fprintf(script, "set colorbox user origin screen %.6f,%.6f size screen %.6f,%.6f\n",
            (double)(left + width + 16) / size.width, (double)below / size.height, (double)BAR_WIDTH / size.width,
            (double)height / size.height);
    if (grid->column_name)
        set_names(script, "xtics", grid->column_name, grid->columns, width, grid->numbers ? "" : "rotate by 90 right");
    if (grid->row_name) set_names(script, "ytics", grid->row_name, grid->rows, height, "");
    if (grid->numbers) {
        fprintf(script, "set cbtics (%.9g, %.9g, %.9g)\n", grid->low, (grid->low + grid->high) / 2, grid->high);
        write_numbers(script, grid);
    }
    write_cells(script, grid, number, 0);
    close_picture(script, ending[0] == 's');
}

void script_grid(FILE *script, const figure_grid *grid, int number) {
    draw_grid(script, grid, number, "png");
    draw_grid(script, grid, number, "svg");
}

void script_grid_data(FILE *data, const figure_grid *grid) {
    for (int y = 0; y < twice(grid->rows); y++)
        for (int x = 0; x < twice(grid->columns); x++) {
            const size_t row = grid->rows == 1 ? 0 : (size_t)y, column = grid->columns == 1 ? 0 : (size_t)x;
            fwrite(grid->value + row * (size_t)grid->columns + column, sizeof *grid->value, 1, data);
        }
}

/* ---- sheets */
static void draw_sheet(FILE *script, const figure_sheet *sheet, int number, const char *ending) {
    const int side = sheet->panel->columns > 100 ? 220 : 150, gap = 30, left = 56, top = 74, below = 58, right = 20;
    const canvas size = {left + sheet->columns * (side + gap) + right, top + sheet->rows * (side + gap) + below, 10};
    open_picture(script, size, ending, number);
    set_text(script, "multiplot title", sheet->title, "");
    fputs("unset tics\nunset key\n", script);
    size_t skip = 0;
    for (int p = 0; p < sheet->rows * sheet->columns; p++) {
        const figure_grid *panel = &sheet->panel[p];
        const int row = p / sheet->columns, column = p % sheet->columns;
        const int x = left + column * (side + gap), y = top + row * (side + gap);
        set_edges(script, size, x, x + side, y, y + side);
        set_text(script, "ylabel", column ? "" : sheet->row_name[row], "");
        set_text(script, "title", row ? "" : sheet->column_name[column], " offset 0,-0.5");
        set_palette(script, panel->scale, panel->low, panel->high);
        if (row == sheet->rows - 1)
            fprintf(script,
                    "set colorbox horizontal user origin screen %.6f,%.6f size screen %.6f,%.6f\n"
                    "set cbtics scale 0.5 format '%%.2g' (%.9g, %.9g, %.9g)\n",
                    (double)x / size.width, (double)(below - 22) / size.height, (double)side / size.width,
                    12.0 / size.height, panel->low, (panel->low + panel->high) / 2, panel->high);
        else
            fputs("unset colorbox\n", script);
        write_cells(script, panel, number, skip);
        skip += (size_t)twice(panel->rows) * (size_t)twice(panel->columns);
    }
    fputs("unset multiplot\n", script);
    close_picture(script, ending[0] == 's');
}

void script_sheet(FILE *script, const figure_sheet *sheet, int number) {
    draw_sheet(script, sheet, number, "png");
    draw_sheet(script, sheet, number, "svg");
}

void script_sheet_data(FILE *data, const figure_sheet *sheet) {
    for (int p = 0; p < sheet->rows * sheet->columns; p++) script_grid_data(data, &sheet->panel[p]);
}

/* ---- plots */
static const char *const styles[] = {
    [FIGURE_LINE] = "with lines linewidth 2.5",
    [FIGURE_FAINT] = "with lines linewidth 0.8",
    [FIGURE_POINTS] = "with points pointtype 7 pointsize 0.5",
    [FIGURE_BARS] = "with boxes fillstyle solid 1.0 noborder",
};

static void draw_plot(FILE *script, const figure_plot *plot, int number, const char *ending) {
    const canvas size = {PLOT_WIDTH, PLOT_HEIGHT, PLOT_FONT};
    open_picture(script, size, ending, number);
    set_text(script, "title", plot->title, "");
    set_text(script, "xlabel", plot->x_label, " offset 0,0.2");
    if (plot->y_high >= 10000) fputs("set format y '%.0s%c'\n", script); /* 25k: no room for more */
    set_label(script, plot->y_label, 16.0 / size.width, 0.61, " rotate by 90");
    fprintf(script, "set xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n", plot->x_low, plot->x_high, plot->y_low,
            plot->y_high);
    fputs("set border 3 linecolor rgb '#555555'\nset tics nomirror\nset grid front linecolor rgb '#cccccc' linewidth "
          "0.5\nset tmargin at screen 0.89\nset bmargin at screen 0.33\nset lmargin at screen 0.11\nset rmargin at "
          "screen 0.97\n"
          "set key at screen 0.05,0.18 left top vertical maxrows 3 Left reverse samplen 2.5\n",
          script);
    for (size_t b = 0; b < plot->band_count; b++) {
        const figure_band *band = &plot->band[b];
        fprintf(script,
                "set object rectangle from first %.9g, graph 0 to first %.9g, graph 1 behind fillcolor rgb '#%06X' "
                "fillstyle solid noborder\n",
                band->from, band->to, (unsigned)band->colour);
        if (!band->label) continue;
        fputs("set label ", script);
        escape_gnuplot(script, band->label, ESCAPE_STRING);
        const int narrow = band->to - band->from < 0.1 * (plot->x_high - plot->x_low);
        fprintf(script, " at first %.9g, graph 0.95 %s front textcolor rgb '#444444'\n",
                narrow ? band->from : (band->from + band->to) / 2, narrow ? "left offset 0.3,0" : "center");
    }
    for (size_t m = 0; m < plot->mark_count; m++) {
        const figure_mark *mark = &plot->mark[m];
        fprintf(
            script,
            "set arrow from first %.9g, graph 0 to first %.9g, graph 1 nohead front linewidth 2 dashtype %zu linecolor "
            "rgb '#%06X'\nset label ",
            mark->x, mark->x, m % 4 + 2, (unsigned)mark->colour);
        escape_gnuplot(script, mark->symbol, ESCAPE_STRING);
        fprintf(script, " at first %.9g, graph %.3f left offset 0.5,0 front textcolor rgb '#%06X'\n", mark->x,
                0.05 + 0.07 * (double)m, (unsigned)mark->colour);
    }
    fputs("plot NaN notitle", script); /* at least one plot, so that empty figures have axes */
    if (plot->diagonal) fputs(", x with lines linewidth 1 linecolor rgb '#888888' title 'y = x'", script);
    for (size_t s = 0; s < plot->series_count; s++) {
        const figure_series *series = &plot->series[s];
        fprintf(script, ", '%d.dat' index %zu using 1:2", number, s);
        if (series->style == FIGURE_BARS) fprintf(script, ":(%.9g)", series->width);
        fprintf(script, " %s linecolor rgb '#%06X' ", styles[series->style], (unsigned)series->colour);
        if (series->name) {
            fputs("title ", script);
            escape_gnuplot(script, series->name, ESCAPE_STRING);
        } else {
            fputs("notitle", script);
        }
    }
    for (size_t m = 0; m < plot->mark_count; m++) {
        fprintf(script, ", NaN with lines linewidth 2 dashtype %zu linecolor rgb '#%06X' title ", m % 4 + 2,
                (unsigned)plot->mark[m].colour);
        escape_gnuplot(script, plot->mark[m].name, ESCAPE_STRING);
    }
    fputc('\n', script);
    close_picture(script, ending[0] == 's');
}

void script_plot(FILE *script, const figure_plot *plot, int number) {
    draw_plot(script, plot, number, "png");
    draw_plot(script, plot, number, "svg");
}

/* A series without a finite point keeps its place, or `index` would count wrong. */
void script_plot_data(FILE *data, const figure_plot *plot) {
    for (size_t s = 0; s < plot->series_count; s++) {
        size_t written = 0;
        for (size_t i = 0; i < plot->series[s].count; i++) {
            const double x = plot->series[s].x[i], y = plot->series[s].y[i];
            if (!isfinite(x) || !isfinite(y)) continue;
            fprintf(data, "%.9g %.9g\n", x, y);
            written++;
        }
        if (!written) fputs("NaN NaN\n", data);
        fputs("\n\n", data);
    }
}

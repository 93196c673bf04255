#include "visualize/tsv.h"

#include <math.h>

#include "visualize/escape.h"

/* The programs never call setlocale, so printf writes a point. */
void tsv_number(FILE *file, double value) {
    if (isfinite(value)) fprintf(file, "%.6g", value);
}

static double centre(double low, double high, int cells, int cell) {
    return low + (high - low) * (cell + 0.5) / cells;
}

void tsv_grid(FILE *file, const figure_grid *grid) {
    escape_tsv(file, grid->y_label);
    fputc('\\', file);
    escape_tsv(file, grid->x_label);
    for (int x = 0; x < grid->columns; x++) {
        fputc('\t', file);
        if (grid->column_name)
            escape_tsv(file, grid->column_name[x]);
        else
            tsv_number(file, centre(grid->x_low, grid->x_high, grid->columns, x));
    }
    for (int y = 0; y < grid->rows; y++) {
        fputc('\n', file);
        if (grid->row_name)
            escape_tsv(file, grid->row_name[y]);
        else
            tsv_number(file, centre(grid->y_low, grid->y_high, grid->rows, y));
        for (int x = 0; x < grid->columns; x++) {
            fputc('\t', file);
            tsv_number(file, (double)grid->value[(size_t)y * (size_t)grid->columns + (size_t)x]);
        }
    }
    fputc('\n', file);
}

static void plot_line(FILE *file, const char *kind, const char *name, double first, double second) {
    fputs(kind, file);
    escape_tsv(file, name);
    fputc('\t', file);
    tsv_number(file, first);
    fputc('\t', file);
    tsv_number(file, second);
    fputc('\n', file);
}

void tsv_plot(FILE *file, const figure_plot *plot) {
    fputs("series\tx\ty\n", file);
    for (size_t s = 0; s < plot->series_count; s++)
        for (size_t i = 0; i < plot->series[s].count; i++)
            plot_line(file, "", plot->series[s].name ? plot->series[s].name : "other", plot->series[s].x[i],
                      plot->series[s].y[i]);
    for (size_t b = 0; b < plot->band_count; b++)
        plot_line(file, "band ", plot->band[b].label, plot->band[b].from, plot->band[b].to);
    for (size_t m = 0; m < plot->mark_count; m++)
        plot_line(file, "mark ", plot->mark[m].name, plot->mark[m].x, (double)NAN);
}

void tsv_sheet(FILE *file, const figure_sheet *sheet) {
    fputs("row\tcolumn\tscale_low\tscale_high\tlowest\tmean\thighest\n", file);
    for (int p = 0; p < sheet->rows * sheet->columns; p++) {
        const figure_grid *panel = &sheet->panel[p];
        const size_t cells = (size_t)panel->rows * (size_t)panel->columns;
        double sum = 0, lowest = INFINITY, highest = -INFINITY, seen = 0;
        for (size_t i = 0; i < cells; i++) {
            const double value = (double)panel->value[i];
            if (!isfinite(value)) continue;
            sum += value;
            seen += 1;
            lowest = fmin(lowest, value);
            highest = fmax(highest, value);
        }
        escape_tsv(file, sheet->row_name[p / sheet->columns]);
        fputc('\t', file);
        escape_tsv(file, sheet->column_name[p % sheet->columns]);
        const double number[5] = {panel->low, panel->high, lowest, sum / seen, highest};
        for (int i = 0; i < 5; i++) {
            fputc('\t', file);
            tsv_number(file, number[i]);
        }
        fputc('\n', file);
    }
}

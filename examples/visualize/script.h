/* Figures as gnuplot commands, for the terminals pngcairo and svg of gnuplot 5. Numbers go through files that lie beside the
 * script, named by the figure's number: NUMBER.bin (cells) or NUMBER.dat (points); the pictures are NUMBER.png and
 * NUMBER.svg. User text stands in the script only inside strings that escape.h has written. */
#ifndef VISUALIZE_SCRIPT_H
#define VISUALIZE_SCRIPT_H

#include <stdio.h>

#include "visualize/figure.h"

/* A line that gnuplot prints after every figure: progress. */
#define SCRIPT_DONE "figure done"

void script_begin(FILE *script);

/* Each: commands that draw figure `number` twice, as PNG and as SVG. */
void script_grid(FILE *script, const figure_grid *grid, int number);
void script_plot(FILE *script, const figure_plot *plot, int number);
void script_sheet(FILE *script, const figure_sheet *sheet, int number);

/* What the commands read. Grids: native floats, row by row; a sheet's panels one after the other. */
void script_grid_data(FILE *data, const figure_grid *grid);
void script_plot_data(FILE *data, const figure_plot *plot);
void script_sheet_data(FILE *data, const figure_sheet *sheet);

#endif

/* Figures as tab-separated tables, the numbers beside every picture. Numbers have six significant digits and a point whatever
 * the locale; a value that is not there is an empty field. */
#ifndef VISUALIZE_TSV_H
#define VISUALIZE_TSV_H

#include <stdio.h>

#include "visualize/figure.h"

void tsv_number(FILE *file, double value);

/* First line: "Y_LABEL\X_LABEL" and the column names; then one line a row, its name first. Axes of numbers name cells by
 * their centres. */
void tsv_grid(FILE *file, const figure_grid *grid);

/* Columns series, x, y; bands and marks follow as lines "band NAME, from, to" and "mark NAME, x, ". */
void tsv_plot(FILE *file, const figure_plot *plot);

/* Columns row, column, scale_low, scale_high, lowest, mean, highest of every panel. */
void tsv_sheet(FILE *file, const figure_sheet *sheet);

#endif

/* Figures as data: what a picture shows, apart from how it is written. tsv.h, script.h (gnuplot) and svg.h each write any of
 * them. Texts are any bytes; the writers escape them. Pointers need live only during the call that is given the figure. */
#ifndef VISUALIZE_FIGURE_H
#define VISUALIZE_FIGURE_H

#include <stddef.h>
#include <stdint.h>

#include "visualize/colour.h"

/* A table of numbers as coloured cells, one scale for all of them. */
typedef struct figure_grid {
    const char *title, *x_label, *y_label;
    const char *value_label; /* beside the colour bar */
    int columns, rows;
    const float *value;                               /* [rows, columns], NaN: no cell */
    const char *const *column_name, *const *row_name; /* [columns], [rows]; NULL: the axis is one of numbers */
    double x_low, x_high, y_low, y_high; /* an axis of numbers: outer edges of the first and last cell, low < high */
    int upward;                          /* nonzero: the first row is at the bottom, else on top */
    colour_scale scale;
    double low, high; /* values at its ends, low < high */
    int numbers;      /* nonzero: each cell's value is written in it */
} figure_grid;

typedef enum figure_style { FIGURE_LINE, FIGURE_FAINT, FIGURE_POINTS, FIGURE_BARS } figure_style;

typedef struct figure_series {
    const char *name; /* in the legend; NULL: not there */
    figure_style style;
    uint32_t colour;
    const double *x, *y; /* [count]; points that are not finite are left out */
    size_t count;
    double width; /* of a bar */
} figure_series;

/* A strip of the background, x in [from, to]. */
typedef struct figure_band {
    double from, to;
    const char *label; /* at its top; NULL: none */
    uint32_t colour;
} figure_band;

/* A vertical line. */
typedef struct figure_mark {
    double x;
    const char *symbol; /* beside the line */
    const char *name;   /* in the legend */
    uint32_t colour;
} figure_mark;

typedef struct figure_plot {
    const char *title, *x_label, *y_label;
    double x_low, x_high, y_low, y_high; /* low < high */
    const figure_series *series;
    size_t series_count;
    const figure_band *band;
    size_t band_count;
    const figure_mark *mark;
    size_t mark_count;
    int diagonal; /* nonzero: a thin line y = x */
} figure_plot;

/* Small multiples without ticks: panels of a column share a scale, panels of a row a name. */
typedef struct figure_sheet {
    const char *title;
    int columns, rows;
    const figure_grid *panel;       /* [rows, columns] */
    const char *const *column_name; /* [columns] */
    const char *const *row_name;    /* [rows] */
} figure_sheet;

/* Sets low and high to limits that hold every finite value of `count` and leave some air; low < high always. */
void figure_limits(const double *value, size_t count, double *low, double *high);

/* A token beside an axis: characters, and pixels across. */
enum { FIGURE_NAME_LETTERS = 13, FIGURE_NAME_PITCH = 10 };

/* Every how many names an axis of `pixels` can carry one, when a name needs `pitch` pixels. At least 1. */
int figure_name_step(int names, int pixels, int pitch);

#endif

/* Figures as plain SVG, for where there is no gnuplot: the same numbers, simpler pictures. Well-formed XML, no scripts, no
 * references; may stand alone or inside HTML. */
#ifndef VISUALIZE_SVG_H
#define VISUALIZE_SVG_H

#include <stdio.h>

#include "visualize/figure.h"

void svg_grid(FILE *file, const figure_grid *grid);
void svg_plot(FILE *file, const figure_plot *plot);
void svg_sheet(FILE *file, const figure_sheet *sheet);

#endif

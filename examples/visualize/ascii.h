/* One head's map for a terminal. */
#ifndef VISUALIZE_ASCII_H
#define VISUALIZE_ASCII_H

#include <stdio.h>

#include "visualize/view.h"

/* At most `columns` wide (at least 40): where the tokens are too many, a character stands for a square of them and shows the
 * value in it that is farthest from 0. Maps from 0 up are drawn in shades of ink; signed maps as digits, -9 to 9 tenths of
 * the largest value, nothing for 0. */
void ascii_heatmap(FILE *file, const view *v, view_map map, int layer, int head, int columns);

#endif

/* Heatmaps of one head's five maps, the contact sheet of a layer, and the mean alpha-hat of every head. */
#ifndef VISUALIZE_HEATMAP_H
#define VISUALIZE_HEATMAP_H

#include "text/error.h"
#include "visualize/album.h"
#include "visualize/view.h"

#define HEATMAP_NAME 64

/* "heatmaps/layer0_head3_E0tilde", "layer0_sheet". Returns out. */
const char *heatmap_name(int layer, int head, view_map map, char out[HEATMAP_NAME]);
const char *heatmap_sheet_name(int layer, char out[HEATMAP_NAME]);

/* Each: 0, or -1 with a message. */
int heatmap_add_head(album *a, const view *v, int layer, int head, text_error *error); /* five figures */
int heatmap_add_sheet(album *a, const view *v, int layer, text_error *error);
int heatmap_add_means(album *a, const view *v, text_error *error); /* "head_means" */

#endif

/* Alpha-hat against alpha over the sample: histogram with the three bands, and scatter with the diagonal. */
#ifndef VISUALIZE_HISTOGRAM_H
#define VISUALIZE_HISTOGRAM_H

#include "text/error.h"
#include "visualize/album.h"
#include "visualize/view.h"

/* Mean of |alpha-hat - alpha| over the sample; NaN if it is empty. */
double histogram_error(const view *v);

/* "alpha_histogram" and "alpha_scatter"; nothing for an empty sample. 0, or -1 with a message. */
int histogram_add(album *a, const view *v, text_error *error);

#endif

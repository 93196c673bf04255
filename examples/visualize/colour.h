/* The two colour scales of every picture. Both grow steadily lighter from the low end to the high one, so that they read the
 * same in grey print and for every kind of colour blindness. */
#ifndef VISUALIZE_COLOUR_H
#define VISUALIZE_COLOUR_H

#include <stdint.h>

typedef enum colour_scale {
    SCALE_SEQUENTIAL, /* viridis: dark violet, green, yellow; 0 is dark */
    SCALE_DIVERGING /* dark blue, neutral grey, light yellow: 0 is grey, below it darker and blue, above lighter and yellow */
} colour_scale;

/* Stops at equal distances, 0xRRGGBB. */
int colour_stops(colour_scale scale, const uint32_t **stop);

/* The colour at `share` of the scale, clipped to [0, 1]. */
uint32_t colour_at(colour_scale scale, double share);

/* Lightness in [0, 1] as print in grey shows it (Rec. 709 luma). */
double colour_grey(uint32_t rgb);

/* Lines and marks (Okabe and Ito's palette for colour-blind readers). */
enum {
    COLOUR_TARGET = 0xD55E00,     /* vermilion */
    COLOUR_DISTRACTOR = 0x0072B2, /* blue */
    COLOUR_GREEN = 0x009E73,
    COLOUR_PURPLE = 0xAA4499,
    COLOUR_INK = 0x222222,
    COLOUR_FAINT = 0xBBBBBB,
    COLOUR_TARGET_SHADE = 0xFBE6D9,
    COLOUR_DISTRACTOR_SHADE = 0xE0EDF5,
    COLOUR_BAND_SHADE = 0xEEEEE6
};

#endif

#include "visualize/colour.h"

#include <stddef.h>

static const uint32_t sequential[] = {0x440154, 0x482475, 0x414487, 0x355F8D, 0x2A788E, 0x21918C,
                                      0x22A884, 0x44BF70, 0x7AD151, 0xBDDF26, 0xFDE725};
static const uint32_t diverging[] = {0x0A1F44, 0x1B3F7A, 0x3565A5, 0x6389B8, 0x9DA9B8, 0xBDBDBB,
                                     0xD2C79B, 0xE3D178, 0xF0DF72, 0xFAEE94, 0xFFFBD0};

int colour_stops(colour_scale scale, const uint32_t **stop) {
    *stop = scale == SCALE_DIVERGING ? diverging : sequential;
    return (int)(sizeof sequential / sizeof *sequential);
}

uint32_t colour_at(colour_scale scale, double share) {
    const uint32_t *stop;
    const int last = colour_stops(scale, &stop) - 1;
    const double place = share > 0 ? (share < 1 ? share : 1) * last : 0;
    const int below = place >= last ? last - 1 : (int)place;
    const double part = place - below;
    uint32_t rgb = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        const double from = stop[below] >> shift & 255u, to = stop[below + 1] >> shift & 255u;
        rgb |= (uint32_t)(from + (to - from) * part + 0.5) << shift;
    }
    return rgb;
}

double colour_grey(uint32_t rgb) {
    return (0.2126 * (rgb >> 16 & 255u) + 0.7152 * (rgb >> 8 & 255u) + 0.0722 * (rgb & 255u)) / 255;
}

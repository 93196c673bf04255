#include "visualize/spotlight.h"

#include <math.h>
#include <stddef.h>

#include "dea.h"

enum { SIDE = 96 };

/* dea.h has the loss (13) alone: L_tp(ah) = w (ah - alpha)^2 + L_dec/2. w is its formula, L_dec what is left. */
double spotlight_weight(double alpha, double beta) {
    return 1 + 2 * exp(-sqrt((alpha - beta) * (alpha - beta) + 1e-4) / 0.1);
}

double spotlight_decision(double alpha, double alpha_hat, double beta) {
    const double error = alpha_hat - alpha;
    return 2 * (dea_photo_loss(alpha, alpha_hat, beta, NULL) - spotlight_weight(alpha, beta) * error * error);
}

int spotlight_add(album *a, text_error *error) {
    static const char *const name[2] = {"spotlight_weight", "spotlight_loss"};
    static const char *const title[2] = {"Spotlight w: it shines where the finish is close",
                                         "Decision loss of an undecided gate, α̂ = 0.5"};
    static const char *const label[2] = {"w", "L_dec"};
    for (int which = 0; which < 2; which++) {
        float value[SIDE * SIDE];
        double highest = 0;
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const double alpha = DEA_ALPHA_MAX * (x + 0.5) / SIDE, beta = (y + 0.5) / SIDE;
                const double here = which ? spotlight_decision(alpha, 0.5, beta) : spotlight_weight(alpha, beta);
                value[y * SIDE + x] = (float)here;
                highest = fmax(highest, here);
            }
        const figure_grid grid = {
            .title = title[which],
            .x_label = "α, the oracle's",
            .y_label = "β, the finish",
            .value_label = label[which],
            .columns = SIDE,
            .rows = SIDE,
            .value = value,
            .x_low = 0,
            .x_high = DEA_ALPHA_MAX,
            .y_low = 0,
            .y_high = 1,
            .upward = 1,
            .scale = SCALE_SEQUENTIAL,
            .low = which ? 0 : 1,
            .high = which ? highest : 3,
        };
        if (album_grid(a, name[which], &grid, error)) return -1;
    }
    return 0;
}

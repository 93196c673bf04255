/* What the gate loss looks at (SPEC 1.7): the spotlight w and the decision loss over the plane of alpha and beta. They are
 * functions, the same for every model. */
#ifndef VISUALIZE_SPOTLIGHT_H
#define VISUALIZE_SPOTLIGHT_H

#include "text/error.h"
#include "visualize/album.h"

/* (9), (10). */
double spotlight_weight(double alpha, double beta);
/* (11), (12) for a gate that says alpha_hat. */
double spotlight_decision(double alpha, double alpha_hat, double beta);

/* "spotlight_weight", and "spotlight_loss" for an undecided gate, alpha-hat = 0.5. 0, or -1 with a message. */
int spotlight_add(album *a, text_error *error);

#endif

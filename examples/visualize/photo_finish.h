/* Photo-finishes (SPEC 1.6): over alpha from 0 to 1 the score of a query's target and of a distractor are two straight
 * lines; where they cross, at beta, the winner changes. */
#ifndef VISUALIZE_PHOTO_FINISH_H
#define VISUALIZE_PHOTO_FINISH_H

#include <stddef.h>

#include "text/error.h"
#include "visualize/album.h"
#include "visualize/view.h"

#define PHOTO_FINISHES 10

typedef struct photo_finish {
    int layer, head, query, target, distractor;
    double beta;
    double alpha;     /* the target's label, NaN: none */
    double alpha_hat; /* the gate's, for the target */
} photo_finish;

/* Which queries to look at; -1: all of them. */
typedef struct photo_filter {
    int layer, head, query;
} photo_filter;

/* Target of a query: the oracle's winner among its labelled keys (SPEC 1.6), or, where it has no label, the key with the
 * largest score; lowest key on a tie. -1 if it sees no key. */
int photo_target(const view *v, int layer, int head, int query);

/* The closest finishes, nearest first: for every query its distractor with beta nearest to the target's alpha (to alpha-hat
 * where there is no label). Where the view has labels, only labelled queries take part unless the filter names a query.
 * Fills at most `room` and returns how many. */
size_t photo_closest(const view *v, photo_filter filter, photo_finish *finish, size_t room);

/* "photo_finish_01" for rank 0. */
const char *photo_name(size_t rank, char out[24]);

/* 0, or -1 with a message. */
int photo_add(album *a, const view *v, const photo_finish *finish, size_t rank, text_error *error);

#endif

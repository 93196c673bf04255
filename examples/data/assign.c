#include "data/assign.h"

#include <stdlib.h>

#define NO_TAIL SIZE_MAX

/* The best tail for an item: the nearest one, or a random one of those that are allowed. room: NULL for any tail. */
static size_t best(size_t item, size_t tails, const size_t *room, int any, assign_cost *cost, const void *context,
                   rng *r) {
    size_t found = NO_TAIL;
    uint32_t seen = 0;
    int least = 0;
    for (size_t t = 0; t < tails; t++) {
        if (room && !room[t]) continue;
        int c = cost(context, item, t);
        if (c < 0) continue;
        if (any ? rng_below(r, ++seen) == 0 : found == NO_TAIL || c < least) found = t, least = c;
    }
    return found;
}

/* Gives item the tail of an earlier item that can do with a tail that has room. */
static size_t exchange(size_t item, size_t tails, const int *order, size_t done, size_t *room, assign_cost *cost,
                       const void *context, rng *r, size_t *out) {
    for (size_t k = 0; k < done; k++) {
        size_t other = (size_t)order[k], given = out[other];
        if (cost(context, item, given) < 0) continue;
        size_t instead = best(other, tails, room, 0, cost, context, r);
        if (instead == NO_TAIL) continue;
        room[instead]--;
        out[other] = instead;
        return given;
    }
    return NO_TAIL;
}

int assign_tails(size_t items, size_t tails, const size_t *truth, const unsigned char *any, assign_cost *cost,
                 const void *context, rng *r, size_t *out) {
    int *order = malloc((items + 1) * sizeof *order), status = 0;
    size_t *room = calloc(tails + 1, sizeof *room), n = 0;
    if (!order || !room) {
        free(order);
        free(room);
        return -1;
    }
    for (size_t i = 0; i < items; i++) room[truth[i]]++;
    for (size_t i = 0; i < items; i++)
        if (!any[i]) order[n++] = (int)i;
    rng_shuffle(r, order, n);
    size_t near = n;
    for (size_t i = 0; i < items; i++)
        if (any[i]) order[n++] = (int)i;
    rng_shuffle(r, order + near, n - near);
    for (size_t k = 0; k < n && !status; k++) {
        size_t item = (size_t)order[k], tail = best(item, tails, room, any[item], cost, context, r);
        if (tail != NO_TAIL)
            room[tail]--;
        else if ((tail = exchange(item, tails, order, k, room, cost, context, r, out)) == NO_TAIL &&
                 (tail = best(item, tails, NULL, 0, cost, context, r)) == NO_TAIL)
            status = -2;
        out[item] = tail;
    }
    free(order);
    free(room);
    return status;
}

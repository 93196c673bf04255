/* "Hefei." / "Hefei is the capital of Anhui." The false twin names the division of another pair; the two pairs exchange
 * their divisions, so each division and each capital stands in as many true as false rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/generator.h"
#include "data/knowledge.h"

/* Is `name` the capital of any division of this name? */
static int is_capital(const capitals *c, const char *division, const char *name) {
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->at[i].division, division) && !strcmp(c->at[i].capital, name)) return 1;
    return 0;
}

static int can_exchange(const capitals *c, size_t a, size_t b) {
    const capital *x = &c->at[a], *y = &c->at[b];
    return !is_capital(c, x->division, y->capital) && !is_capital(c, y->division, x->capital);
}

static int add_pair(const capitals *c, size_t at, size_t other, const char *split, rows *out, text_error *error) {
    const capital *x = &c->at[at], *y = &c->at[other];
    char premise[64], claim[2][128];
    snprintf(premise, sizeof premise, "%s.", x->capital);
    for (int label = 0; label < 2; label++)
        snprintf(claim[label], sizeof claim[label], "%s is the capital of %s.", x->capital, (label ? x : y)->division);
    row like = {split, "capital",   "CapitalOf", 0, strcmp(x->map, y->map) ? "easy" : "hard",
                0,     x->division, premise,     ""};
    return add_twin_rows(out, &like, claim[0], claim[1], error);
}

/* Exchanges in twos until `want` premises stand: three in four within one map, the others anywhere. */
static int split_rows(const capitals *c, int split, uint64_t seed, size_t want, rows *out, text_error *error) {
    int *order = malloc((c->count + 1) * sizeof *order), status = 0;
    size_t n = 0, made = 0;
    rng r = {rng_derive(rng_derive(seed, 21), (uint64_t)split), 0};
    if (!order) return text_fail_memory(error, c->count * sizeof *order);
    for (size_t i = 0; i < c->count; i++)
        if (data_split_of("capital", c->at[i].division) == split) order[n++] = (int)i;
    rng_shuffle(&r, order, n);
    for (size_t i = 0; i < n && made + 1 < want && !status; i++) {
        if (order[i] < 0) continue;
        int same_map = rng_below(&r, 4) != 0, odd = want - made == 3;
        size_t ring[3] = {(size_t)order[i]}, at[3] = {i}, size = 1;
        /* a ring of two; of three where the number of premises is odd */
        for (size_t j = i + 1; j < n && size < (odd ? 3u : 2u); j++) {
            if (order[j] < 0 || (strcmp(c->at[ring[0]].map, c->at[order[j]].map) == 0) != same_map) continue;
            int fits = 1;
            for (size_t k = 0; k < size; k++) fits = fits && can_exchange(c, ring[k], (size_t)order[j]);
            if (fits) ring[size] = (size_t)order[j], at[size++] = j;
        }
        if (size < (odd ? 3u : 2u)) continue;
        for (size_t k = 0; k < size && !status; k++) {
            order[at[k]] = -1;
            status = add_pair(c, ring[k], ring[(k + 1) % size], data_split_name(split), out, error);
            made++;
        }
    }
    free(order);
    return status;
}

int capital_rows(const capitals *c, uint64_t seed, const size_t premises[DATA_SPLITS], rows *out, text_error *error) {
    for (int split = 0; split < DATA_SPLITS; split++)
        if (split_rows(c, split, seed, premises[split], out, error)) return -1;
    return 0;
}

/* Divisions and their capitals, from miscfiles (countries.gz) and kgeography-data (*.kgm maps). ASCII names only. */
#ifndef DATA_CAPITALS_H
#define DATA_CAPITALS_H

#include <stddef.h>

#include "text/arena.h"
#include "text/error.h"

typedef struct capital {
    const char *map; /* "countries", or the name of the map file without ".kgm" */
    const char *division, *capital;
} capital;

typedef struct capitals {
    arena strings;
    capital *at; /* distinct (division, capital) pairs, sorted by division, capital, map */
    size_t count, capacity;
} capitals; /* {0} is an empty one */

/* Adds the pairs of a countries file, plain or gzip: "num:A2:A3:name:capital". 0; -1 with "FILE:LINE: ...". */
int capitals_load_countries(capitals *c, const char *path, text_error *error);

/* Adds the pairs of every map in `folder`. 0; -1 with "FILE:LINE: ...". */
int capitals_load_maps(capitals *c, const char *folder, text_error *error);

/* Sorts and drops pairs that came twice. Call once, after loading. */
void capitals_finish(capitals *c);

void capitals_free(capitals *c);

#endif

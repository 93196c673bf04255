/* The common words of SCOWL (package scowl): its English and American lists up to size 50, words of a-z only. */
#ifndef DATA_WORDLISTS_H
#define DATA_WORDLISTS_H

#include "text/error.h"
#include "text/string_map.h"

/* Adds the words of the lists in `folder` to `words`. 0; -1 with a message (a missing list is an error). */
int wordlists_load(string_map *words, const char *folder, text_error *error);

#endif

/* Word pairs for the alpha knob itself: twins (two forms or two names of one thing), cousins (two kinds of one thing) and
 * relations, in the masses 45 : 25 : 30 of the bands near, weak, strong. */
#ifndef DATA_WORDPAIRS_H
#define DATA_WORDPAIRS_H

#include "data/build.h"

/* Appends `count` rows, sorted: source "wordpairs", relation "Twin", "Cousin", "IsA", "PartOf", "CapitalOf" or "Sum", label 1,
 * kind "true", premise and hypothesis the two words (a sum: "5 + 3" and "8"). The split is a hash of the pair; a pair goes to
 * dev or test only if each of its words stands in a training pair too. Fewer rows where packages are missing (said in
 * notes), in the same masses as far as they go. 0; -1 with a message. */
int wordpairs_build(const build_options *options, size_t count, rows *out, build_notes *notes, text_error *error);

#endif

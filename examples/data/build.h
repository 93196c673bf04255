/* Assembles the relational data set: generated sources always, the others where their Debian packages are installed. */
#ifndef DATA_BUILD_H
#define DATA_BUILD_H

#include <stdint.h>

#include "text/error.h"
#include "text/rows.h"

typedef struct build_options {
    uint64_t seed;
    uint32_t scale;                                       /* 1 ..: multiplies the generated sources */
    int more;                                             /* isa, partof: further train rows, see more.h */
    const char *wordnet, *scowl, *countries, *kgeography; /* where the packages' files lie */
} build_options;

/* seed 42, scale 1, the paths of Debian. */
build_options build_defaults(void);

enum { BUILD_NOTES = 8 };

/* What was left out, and which package would bring it: one line each. */
typedef struct build_notes {
    int n;
    char line[BUILD_NOTES][512];
} build_notes;

/* Called after each source; stops the build when it returns non-zero. May be NULL. */
typedef int build_progress(void *context, const char *source, size_t rows_so_far);

/* Appends the rows, sorted by the bytes of their lines. 0; -1 with a message: a file that is there but broken, a source
 * that cannot fill its quota, memory, or "stopped". */
int data_build(const build_options *options, rows *out, build_notes *notes, build_progress *progress, void *context,
               text_error *error);

/* Sorts rows by the bytes of the lines that tsv_write makes of them. */
void rows_sort(rows *list);

#endif

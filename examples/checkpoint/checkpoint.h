/* Parameter arenas in a safetensors file: 8 bytes of header length, a JSON header (names, dtypes, shapes, offsets, and
 * a map of strings under __metadata__), then the tensors, F32, little-endian, without gaps.
 *
 * A file appears whole or not at all: it is written to PATH.tmp, synced, renamed, and its folder synced. Whatever
 * fails, also a kill at any moment, the old file stays as it was. One writer a path at a time.
 *
 * Nothing here knows of a model. For training that can be resumed, write two files: one of the weights, which is all
 * that evaluation reads, and one of the whole state (weights, both moments, counters), which is all that resuming
 * reads: then a kill between the two renames cannot tear them apart.
 *
 *     checkpoint_part weights = {"", &table, params};
 *     checkpoint_pair pairs[] = {{"config", config_json}, {"vocab", vocab}};
 *     if (checkpoint_save("last.safetensors", &weights, 1, pairs, 2, NULL, &error) != 0) ...
 *
 *     checkpoint_part state[] = {{"", &table, params}, {"m.", &table, m}, {"v.", &table, v}};
 *
 *     checkpoint *c = checkpoint_open("last.safetensors", NULL, &error);  // header checked, no tensor read yet
 *     const char *config = checkpoint_need(c, "config", &error);          // from which you build the table
 *     if (checkpoint_read(c, &weights, 1, CHECKPOINT_EXACT, &error) < 0) ...
 *     checkpoint_close(c);
 *
 * Every failing function writes one line, "FILE: what is wrong and what to do", to error. */
#ifndef CHECKPOINT_CHECKPOINT_H
#define CHECKPOINT_CHECKPOINT_H

#include <stdint.h>

#include "checkpoint/io.h"
#include "dea.h"
#include "text/error.h"

typedef struct checkpoint_part {
    const char *prefix;     /* stands before every tensor's name: "", "m.", "v." */
    const dea_table *table; /* names, shapes and places in the arena */
    dea_real *data;         /* the arena, table->elements; read from by save, written to by read */
} checkpoint_part;

typedef struct checkpoint_pair {
    const char *key, *value; /* NUL-terminated UTF-8, any length */
} checkpoint_pair;

/* Writes the parts' tensors and the pairs (keys distinct; "format" and "dea_version" are added). 0, or -1: a number
 * that is NaN, infinite or too large for F32, a name that stands twice, or anything the disk says. io NULL:
 * checkpoint_posix. */
int checkpoint_save(const char *path, const checkpoint_part *parts, int part_count, const checkpoint_pair *pairs,
                    int pair_count, const checkpoint_io *io, text_error *error);

/* A file whose header has been read and found right: lengths, offsets (no overlap, no gap, nothing out of range),
 * dtypes, shapes, names. Whatever the file claims, memory stays within a small multiple of the header, which is at most
 * 8 MB. */
typedef struct checkpoint checkpoint;

/* NULL with a message. io must outlive the checkpoint; NULL: checkpoint_posix. */
checkpoint *checkpoint_open(const char *path, const checkpoint_io *io, text_error *error);
void checkpoint_close(checkpoint *c); /* NULL is let pass */

/* Metadata: the value of a key, owned by c. get: NULL where it is missing; need: with a message besides. */
const char *checkpoint_get(const checkpoint *c, const char *key);
const char *checkpoint_need(const checkpoint *c, const char *key, text_error *error);
/* The same as a whole number in [low, high], or as a finite number. 0, or -1 with a message. */
int checkpoint_need_integer(const checkpoint *c, const char *key, int64_t low, int64_t high, int64_t *value,
                            text_error *error);
int checkpoint_need_unsigned(const checkpoint *c, const char *key, uint64_t *value, text_error *error);
int checkpoint_need_real(const checkpoint *c, const char *key, double *value, text_error *error);

/* Tensors of the file, for a listing: the i-th name in file order, NULL past the end. */
int checkpoint_tensors(const checkpoint *c);
const char *checkpoint_tensor_name(const checkpoint *c, int i);

typedef enum checkpoint_match {
    CHECKPOINT_EXACT = 0,     /* the file holds the parts' tensors and no other */
    CHECKPOINT_EXTRA_OK = 1,  /* tensors that no part has are passed over: the weights of a state file */
    CHECKPOINT_MISSING_OK = 2 /* tensors that the file lacks keep their values: a new head on trained layers */
} checkpoint_match;           /* the last two may be or-ed */

/* Whether the file's tensors are those of the parts, by name and shape; data is not used, so ask before you allocate.
 * The number of the parts' tensors that the file has, or -1 with a message. */
int checkpoint_fits(const checkpoint *c, const checkpoint_part *parts, int part_count, int match, text_error *error);

/* Fills the parts. The number of tensors read, or -1 with a message; then the arenas are as they were, unless the disk
 * failed or the file changed between the check and the copy. Padding between tensors is not touched. */
int checkpoint_read(const checkpoint *c, const checkpoint_part *parts, int part_count, int match, text_error *error);

#endif

/* What saving and loading share: the limits of the format, names, and numbers as bytes. Private to checkpoint/. */
#ifndef CHECKPOINT_NUMBERS_H
#define CHECKPOINT_NUMBERS_H

#include <stddef.h>

#include "checkpoint/checkpoint.h"

#define CHECKPOINT_FORMAT       "dea"
#define CHECKPOINT_METADATA     "__metadata__"
#define CHECKPOINT_HEADER_LIMIT (8 << 20) /* bytes; a vocabulary of 500,000 pieces fits */
#define CHECKPOINT_NAME         128       /* a prefix, a tensor's name and their end */
#define CHECKPOINT_CHUNK        4096      /* numbers turned into bytes at a time */

/* The tensor's name in the file: prefix and name, cut to CHECKPOINT_NAME. */
void checkpoint_name(char out[CHECKPOINT_NAME], const checkpoint_part *part, const dea_tensor *tensor);

/* Little-endian F32, whatever the machine's own order. */
void checkpoint_encode(const dea_real *data, size_t count, unsigned char *bytes);
void checkpoint_decode(const unsigned char *bytes, size_t count, dea_real *data);

/* Place of the first number that is NaN or infinite as F32; count if there is none. */
size_t checkpoint_first_bad(const dea_real *data, size_t count);

#endif

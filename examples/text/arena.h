/* Memory that is taken piece by piece and given back at once: it owns the strings of the rows that the readers yield.
 */
#ifndef TEXT_ARENA_H
#define TEXT_ARENA_H

#include <stddef.h>

typedef struct arena {
    struct arena_chunk *chunk; /* newest first */
    size_t bytes;              /* handed out so far, for memory reports */
} arena;                       /* {0} is an empty one */

/* `size` bytes aligned for any type, NULL when memory ends. */
void *arena_take(arena *a, size_t size);

/* A NUL-terminated copy of `length` bytes, NULL when memory ends. */
char *arena_copy(arena *a, const char *bytes, size_t length);

/* The strings piece[0..count) one after another, NULL when memory ends. */
char *arena_join(arena *a, const char *const *piece, size_t count);

/* Forgets everything but keeps the newest chunk, for a loop that needs one row at a time. */
void arena_reset(arena *a);

/* Gives all memory back; the arena is empty and usable again. */
void arena_free(arena *a);

#endif

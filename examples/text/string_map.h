/* Strings numbered in the order they come: a hash table from bytes to an index. */
#ifndef TEXT_STRING_MAP_H
#define TEXT_STRING_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "text/arena.h"

typedef struct string_map {
    arena strings;
    struct string_map_entry {
        const char *bytes; /* NUL-terminated besides */
        size_t length;
        uint64_t hash;
    } * entry; /* [count] */
    size_t count, capacity;
    size_t *slot; /* index + 1, 0: free; [slots], a power of two */
    size_t slots;
} string_map; /* {0} is an empty one */

#define STRING_MAP_NONE SIZE_MAX

/* FNV-1a, which goes on from the hash of a prefix: hash(ab) = more(hash(a), b). */
#define STRING_HASH_START UINT64_C(14695981039346656037)
static inline uint64_t string_hash_more(uint64_t hash, const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    return hash;
}
static inline uint64_t string_hash(const char *bytes, size_t length) {
    return string_hash_more(STRING_HASH_START, bytes, length);
}

/* Index of the string, or STRING_MAP_NONE. */
size_t string_map_find(const string_map *m, const char *bytes, size_t length);
size_t string_map_find_hashed(const string_map *m, const char *bytes, size_t length, uint64_t hash);

/* Index of the string, which is added where it was missing (index == count before); STRING_MAP_NONE when memory ends.
 */
size_t string_map_add(string_map *m, const char *bytes, size_t length);

void string_map_free(string_map *m);

#endif

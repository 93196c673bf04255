#include "text/string_map.h"

#include <stdlib.h>
#include <string.h>

#include "text/grow.h"

size_t string_map_find_hashed(const string_map *m, const char *bytes, size_t length, uint64_t hash) {
    if (m->slots == 0) return STRING_MAP_NONE;
    for (size_t at = (size_t)(hash ^ hash >> 32) & (m->slots - 1); m->slot[at]; at = (at + 1) & (m->slots - 1)) {
        const struct string_map_entry *e = &m->entry[m->slot[at] - 1];
        if (e->hash == hash && e->length == length && memcmp(e->bytes, bytes, length) == 0) return m->slot[at] - 1;
    }
    return STRING_MAP_NONE;
}

size_t string_map_find(const string_map *m, const char *bytes, size_t length) {
    return string_map_find_hashed(m, bytes, length, string_hash(bytes, length));
}

static void place(const string_map *m, size_t *slot, size_t slots, size_t index) {
    uint64_t hash = m->entry[index].hash;
    size_t at = (size_t)(hash ^ hash >> 32) & (slots - 1);
    while (slot[at]) at = (at + 1) & (slots - 1);
    slot[at] = index + 1;
}

/* Room for one more: at most half of the slots are taken. */
static int make_room(string_map *m) {
    struct string_map_entry *entry = grow(m->entry, &m->capacity, m->count + 1, sizeof *entry);
    if (!entry) return -1;
    m->entry = entry;
    if (2 * (m->count + 1) > m->slots) {
        size_t slots = m->slots ? m->slots * 2 : 128;
        size_t *slot = calloc(slots, sizeof *slot);
        if (!slot) return -1;
        for (size_t i = 0; i < m->count; i++) place(m, slot, slots, i);
        free(m->slot);
        m->slot = slot;
        m->slots = slots;
    }
    return 0;
}

size_t string_map_add(string_map *m, const char *bytes, size_t length) {
    uint64_t hash = string_hash(bytes, length);
    size_t found = string_map_find_hashed(m, bytes, length, hash);
    if (found != STRING_MAP_NONE) return found;
    if (make_room(m)) return STRING_MAP_NONE;
    char *copy = arena_copy(&m->strings, bytes, length);
    if (!copy) return STRING_MAP_NONE;
    m->entry[m->count] = (struct string_map_entry){.bytes = copy, .length = length, .hash = hash};
    place(m, m->slot, m->slots, m->count);
    return m->count++;
}

void string_map_free(string_map *m) {
    arena_free(&m->strings);
    free(m->entry);
    free(m->slot);
    *m = (string_map){0};
}

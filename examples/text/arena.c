#include "text/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 16 };

struct arena_chunk {
    struct arena_chunk *older;
    size_t used, capacity;
    max_align_t data[];
};

static size_t aligned(size_t size) {
    size_t unit = sizeof(max_align_t);
    return (size + unit - 1) / unit * unit;
}

/* Room for `size` bytes at the end of the newest chunk, or of a new one. */
static char *take(arena *a, size_t size) {
    struct arena_chunk *chunk = a->chunk;
    if (!chunk || chunk->capacity - chunk->used < size) {
        size_t capacity = size > CHUNK ? size : CHUNK;
        if (capacity > SIZE_MAX - sizeof *chunk) return NULL;
        chunk = malloc(sizeof *chunk + capacity);
        if (!chunk) return NULL;
        *chunk = (struct arena_chunk){.older = a->chunk, .capacity = capacity};
        a->chunk = chunk;
    }
    char *room = (char *)chunk->data + chunk->used;
    chunk->used += size;
    a->bytes += size;
    return room;
}

void *arena_take(arena *a, size_t size) {
    if (size > SIZE_MAX - sizeof(max_align_t)) return NULL;
    /* Strings are packed without padding, so the start is aligned here, not the sizes. */
    struct arena_chunk *chunk = a->chunk;
    if (chunk) {
        size_t used = aligned(chunk->used);
        chunk->used = used < chunk->capacity ? used : chunk->capacity;
    }
    return take(a, aligned(size));
}

char *arena_copy(arena *a, const char *bytes, size_t length) {
    if (length == SIZE_MAX) return NULL;
    char *copy = take(a, length + 1);
    if (!copy) return NULL;
    if (length) memcpy(copy, bytes, length);
    copy[length] = '\0';
    return copy;
}

char *arena_join(arena *a, const char *const *piece, size_t count) {
    size_t length = 0;
    for (size_t i = 0; i < count; i++) length += strlen(piece[i]);
    char *text = take(a, length + 1), *out = text;
    if (!text) return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(piece[i]);
        memcpy(out, piece[i], size);
        out += size;
    }
    *out = '\0';
    return text;
}

void arena_reset(arena *a) {
    if (!a->chunk) return;
    struct arena_chunk *older = a->chunk->older;
    while (older) {
        struct arena_chunk *next = older->older;
        free(older);
        older = next;
    }
    a->chunk->older = NULL;
    a->chunk->used = 0;
    a->bytes = 0;
}

void arena_free(arena *a) {
    arena_reset(a);
    free(a->chunk);
    *a = (arena){0};
}

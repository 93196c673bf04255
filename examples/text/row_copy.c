#include "text/row_copy.h"

#include <string.h>

int row_copy(arena *strings, const row *r, row *out, text_error *error) {
    *out = *r;
    const char **field[] = {&out->split, &out->source,  &out->relation,  &out->kind,
                            &out->group, &out->premise, &out->hypothesis};
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        size_t length = strlen(*field[i]);
        char *copy = arena_copy(strings, *field[i], length);
        if (!copy) return text_fail_memory(error, length);
        *field[i] = copy;
    }
    return 0;
}

#include <string.h>

#include "data/knowledge.h"

int add_twin_rows(rows *out, const row *like, const char *lie, const char *truth, text_error *error) {
    const char *claim[2] = {lie, truth};
    row r = *like;
    r.group = arena_copy(&out->strings, like->group, strlen(like->group));
    r.premise = arena_copy(&out->strings, like->premise, strlen(like->premise));
    for (r.label = 0; r.label < 2; r.label++) {
        r.kind = r.label ? "true" : like->kind;
        r.hypothesis = arena_copy(&out->strings, claim[r.label], strlen(claim[r.label]));
        if (!r.group || !r.premise || !r.hypothesis) return text_fail_memory(error, strlen(like->premise));
        if (rows_add(out, &r, error)) return -1;
    }
    return 0;
}

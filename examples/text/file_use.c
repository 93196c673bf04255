#include "text/file_use.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "text/safe_file.h"

static int same_inode(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Of paths without links and without a file; cuts them. */
static int same_place(char *a, char *b) {
    const char *name_a, *name_b;
    struct stat in_a, in_b;
    if (strcmp(a, b) == 0) return 1; /* also where the folder is still to be made */
    const char *folder_a = safe_file_folder(a, &name_a), *folder_b = safe_file_folder(b, &name_b);
    return strcmp(name_a, name_b) == 0 && stat(folder_a, &in_a) == 0 && stat(folder_b, &in_b) == 0 &&
           same_inode(&in_a, &in_b);
}

int file_same(const char *a, const char *b) {
    struct stat at_a, at_b;
    const int is_a = stat(a, &at_a) == 0, is_b = stat(b, &at_b) == 0;
    if (is_a != is_b) return 0;
    if (is_a) return S_ISREG(at_a.st_mode) && same_inode(&at_a, &at_b);
    char *to_a = safe_file_target(a), *to_b = safe_file_target(b);
    const int same = to_a && to_b && same_place(to_a, to_b);
    free(to_a);
    free(to_b);
    return same;
}

int file_use_check(const file_use *uses, int count, text_error *error) {
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            const file_use *out = &uses[i], *other = &uses[j];
            if (i == j || !out->written || !out->path || !*out->path || !other->path || !*other->path) continue;
            if (file_same(out->path, other->path))
                return text_fail(error, "%s would write over the file of %s, %s; name another", out->option,
                                 other->option, other->path);
        }
    return 0;
}

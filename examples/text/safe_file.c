#include "text/safe_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void release(safe_file *f) {
    free(f->temporary);
    free(f->path);
    *f = (safe_file){0};
}

int safe_file_open(safe_file *f, const char *path, text_error *error) {
    *f = (safe_file){0};
    size_t length = strlen(path);
    f->path = malloc(length + 1);
    f->temporary = malloc(length + sizeof ".XXXXXX");
    if (!f->path || !f->temporary) {
        release(f);
        return text_fail_memory(error, 2 * length);
    }
    memcpy(f->path, path, length + 1);
    memcpy(f->temporary, path, length);
    memcpy(f->temporary + length, ".XXXXXX", sizeof ".XXXXXX");

    int descriptor = mkstemp(f->temporary);
    if (descriptor < 0) {
        text_fail(error, "%s: cannot be written: %s", path, strerror(errno));
        release(f);
        return -1;
    }
    /* mkstemp makes private files; the result should be as readable as one made by fopen. */
    mode_t mask = umask(0);
    umask(mask);
    fchmod(descriptor, 0666 & ~mask);
    f->file = fdopen(descriptor, "wb");
    if (!f->file) {
        text_fail(error, "%s: cannot be written: %s", path, strerror(errno));
        close(descriptor);
        unlink(f->temporary);
        release(f);
        return -1;
    }
    return 0;
}

/* Makes the rename itself last over a power cut; some file systems cannot, which is no error. */
static void sync_folder(char *path) {
    char *slash = strrchr(path, '/');
    if (slash) *slash = '\0';
    int folder = open(!slash ? "." : *path ? path : "/", O_RDONLY);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
}

int safe_file_commit(safe_file *f, text_error *error) {
    errno = 0;
    int failed = ferror(f->file) || fflush(f->file) || fsync(fileno(f->file));
    int reason = errno;
    if (fclose(f->file) && !failed) {
        failed = 1;
        reason = errno;
    }
    if (!failed && rename(f->temporary, f->path)) {
        failed = 1;
        reason = errno;
    }
    if (failed) {
        unlink(f->temporary);
        text_fail(error, "%s: cannot be written: %s; the old file, if any, is untouched", f->path,
                  reason ? strerror(reason) : "an earlier write failed");
    } else {
        sync_folder(f->path);
    }
    release(f);
    return failed ? -1 : 0;
}

void safe_file_abandon(safe_file *f) {
    if (!f->file) return;
    fclose(f->file);
    unlink(f->temporary);
    release(f);
}

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

char *safe_file_target(const char *path) {
    enum { LINKS = 40, TARGET_BYTES = 4096 };
    char target[TARGET_BYTES], *at = strdup(path);
    for (int links = 0; at; links++) {
        const ssize_t length = readlink(at, target, sizeof target);
        if (length < 0) return at;
        if (length == TARGET_BYTES || links == LINKS) {
            free(at);
            errno = links == LINKS ? ELOOP : ENAMETOOLONG;
            return NULL;
        }
        const char *slash =
            *target == '/' ? NULL : strrchr(at, '/'); /* a relative target starts at the link's folder */
        const size_t folder = slash ? (size_t)(slash - at) + 1 : 0;
        char *next = malloc(folder + (size_t)length + 1);
        if (next) {
            memcpy(next, at, folder);
            memcpy(next + folder, target, (size_t)length);
            next[folder + (size_t)length] = '\0';
        }
        free(at);
        at = next;
    }
    return NULL;
}

/* A descriptor to write straight into what is there; -1 and errno. */
static int open_straight(const char *path, const struct stat *there) {
    for (int standard = STDOUT_FILENO; standard <= STDERR_FILENO; standard++) {
        struct stat status;
        if (fstat(standard, &status) == 0 && status.st_dev == there->st_dev && status.st_ino == there->st_ino)
            return dup(standard); /* shares its position, so that neither overwrites the other */
    }
    if (!S_ISREG(there->st_mode)) return open(path, O_WRONLY | O_NOCTTY);
    errno = EEXIST;
    return -1;
}

/* Sets f->path and f->temporary, and returns the temporary file's descriptor; -1 and errno. */
static int open_temporary(safe_file *f, const char *path) {
    f->path = safe_file_target(path);
    const size_t length = f->path ? strlen(f->path) : 0;
    f->temporary = f->path ? malloc(length + sizeof ".XXXXXX") : NULL;
    if (!f->temporary) return -1;
    memcpy(f->temporary, f->path, length);
    memcpy(f->temporary + length, ".XXXXXX", sizeof ".XXXXXX");
    const int descriptor = mkstemp(f->temporary);
    if (descriptor < 0) return -1;
    /* mkstemp makes private files; the result should be as readable as one made by fopen. */
    const mode_t mask = umask(0);
    umask(mask);
    fchmod(descriptor, 0666 & ~mask);
    return descriptor;
}

int safe_file_open(safe_file *f, const char *path, text_error *error) {
    *f = (safe_file){0};
    if (!*path) return text_fail(error, "the name of an output file is empty; give one");
    struct stat there;
    const int exists = stat(path, &there) == 0;
    if (exists && S_ISDIR(there.st_mode))
        return text_fail(error, "%s: cannot be written: it is a folder; name a file in it", path);
    int descriptor = exists ? open_straight(path, &there) : -1;
    if (descriptor >= 0)
        f->path = strdup(path);
    else if (!exists || S_ISREG(there.st_mode))
        descriptor = open_temporary(f, path);
    f->file = descriptor >= 0 && f->path ? fdopen(descriptor, "wb") : NULL;
    if (f->file) return 0;
    text_fail(error, "%s: cannot be written: %s", path, strerror(errno));
    if (descriptor >= 0) {
        close(descriptor);
        if (f->temporary) unlink(f->temporary);
    }
    release(f);
    return -1;
}

const char *safe_file_folder(char *path, const char **name) {
    char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (!slash) return ".";
    *slash = '\0';
    return *path ? path : "/";
}

/* Makes the rename itself last over a power cut; some file systems cannot, which is no error. */
static void sync_folder(char *path) {
    const char *name;
    int folder = open(safe_file_folder(path, &name), O_RDONLY);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
}

int safe_file_commit(safe_file *f, text_error *error) {
    errno = 0;
    int failed = ferror(f->file) || fflush(f->file) || (f->temporary && fsync(fileno(f->file)));
    int reason = errno;
    if (fclose(f->file) && !failed) {
        failed = 1;
        reason = errno;
    }
    if (!failed && f->temporary && rename(f->temporary, f->path)) {
        failed = 1;
        reason = errno;
    }
    if (failed) {
        if (f->temporary) unlink(f->temporary);
        text_fail(error, "%s: cannot be written: %s%s", f->path, reason ? strerror(reason) : "an earlier write failed",
                  f->temporary ? "; the old file, if any, is untouched" : "");
    } else if (f->temporary) {
        sync_folder(f->path);
    }
    release(f);
    return failed ? -1 : 0;
}

void safe_file_abandon(safe_file *f) {
    if (!f->file) return;
    fclose(f->file);
    if (f->temporary) unlink(f->temporary);
    release(f);
}

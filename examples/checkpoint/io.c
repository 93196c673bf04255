#include "checkpoint/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int posix_create(const char *path) {
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

static int posix_open_read(const char *path) {
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a named pipe must not hang here */
}

static off_t posix_size(int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0) return -1;
    if (S_ISREG(status.st_mode)) return status.st_size;
    errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    return -1;
}

const checkpoint_io checkpoint_posix = {
    posix_create, posix_open_read, write, pread, posix_size, fsync, close, rename, unlink,
};

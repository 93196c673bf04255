/* The file operations that a checkpoint needs, as a table, so that a test can make each of them fail in turn. Every
 * entry behaves as the POSIX function of its name: a negative result and errno on failure. */
#ifndef CHECKPOINT_IO_H
#define CHECKPOINT_IO_H

#include <stddef.h>
#include <sys/types.h>

typedef struct checkpoint_io {
    int (*create)(const char *path);    /* opened for writing, emptied, made where it was missing */
    int (*open_read)(const char *path); /* a file, or a folder to be synced */
    ssize_t (*write)(int fd, const void *data, size_t size);
    ssize_t (*read)(int fd, void *data, size_t size, off_t offset); /* pread */
    off_t (*size)(int fd); /* bytes of a regular file; -1 and EISDIR or EINVAL for anything else */
    int (*sync)(int fd);   /* fsync */
    int (*close)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*remove)(const char *path); /* unlink */
} checkpoint_io;

/* The real thing. */
extern const checkpoint_io checkpoint_posix;

#endif

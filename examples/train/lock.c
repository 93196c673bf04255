#define _DEFAULT_SOURCE /* flock: a lock by fcntl would need a file to write to */
#include "train/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

int lock_folder(const char *path, text_error *error) {
    const int folder = open(path, O_RDONLY | O_CLOEXEC); /* stays open: closing it would release the lock */
    if (folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno == EWOULDBLOCK)
        return text_fail(error, "%s: another train is running in this folder; wait for it, or give another --out",
                         path);
    (void)text_fail(error, "%s: cannot be locked (%s); let no second train write into it", path, strerror(errno));
    return 1;
}

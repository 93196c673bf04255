#include "text/standard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void standard_open(void) {
    int descriptor; /* open gives the lowest that is free; read-only, so that lost output is told */
    do descriptor = open("/dev/null", O_RDONLY);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor > STDERR_FILENO) close(descriptor);
}

int standard_finish(const char *program, int code) {
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout)) return code;
    fprintf(stderr, "%s: standard output: %s\n", program, errno ? strerror(errno) : "an earlier write failed");
    return code ? code : 1;
}

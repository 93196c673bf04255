/* A file that appears whole or not at all: written to a temporary file in the same folder, synced, renamed. A symbolic link
 * is followed: its target is what is replaced, also if it does not exist yet. What is no regular file (a pipe, a device), and
 * the file that is standard output or standard error already, is written straight into and stays what it is. */
#ifndef TEXT_SAFE_FILE_H
#define TEXT_SAFE_FILE_H

#include <stdio.h>

#include "text/error.h"

typedef struct safe_file {
    FILE *file;      /* write here */
    char *temporary; /* owned; NULL: `file` is the thing itself */
    char *path;      /* owned; no symbolic link */
} safe_file;

/* 0, or -1 with a message; then nothing is left behind. A named pipe waits for its reader, as every writer does. */
int safe_file_open(safe_file *f, const char *path, text_error *error);

/* Flushes, syncs, renames, closes. On an error (also an earlier one of the stream) the old file stays as it was. */
int safe_file_commit(safe_file *f, text_error *error);

/* The path behind all symbolic links of `path`, for free(); its last part need not exist. NULL and errno. */
char *safe_file_target(const char *path);

/* Cuts `path` at its last slash: the folder, and in *name what is in it. Both live as long as `path`. */
const char *safe_file_folder(char *path, const char **name);

/* Gives up: the temporary file is removed, the old file stays as it was. */
void safe_file_abandon(safe_file *f);

#endif

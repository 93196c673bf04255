/* One run a folder at a time. */
#ifndef TRAIN_LOCK_H
#define TRAIN_LOCK_H

#include "text/error.h"

/* Locks the folder until the process ends; no file is left behind. 0; 1: this file system has no locks, `error` says so; -1 with a
 * message: another process has it. */
int lock_folder(const char *path, text_error *error);

#endif

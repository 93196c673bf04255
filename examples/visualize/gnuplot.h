/* Finding and running gnuplot: child processes of its own, no shell. */
#ifndef VISUALIZE_GNUPLOT_H
#define VISUALIZE_GNUPLOT_H

#include <signal.h>
#include <stddef.h>

#include "text/error.h"

#define GNUPLOT_PROCESSES 4

/* Called with how many of `total` figures are drawn. */
typedef void gnuplot_progress(void *user, int done, int total);

typedef struct gnuplot_job {
    const char *program;        /* path of gnuplot */
    const char *folder;         /* the children's working directory */
    const char *const *script;  /* [scripts] files in it, each run by a process of its own, side by side */
    int scripts;                /* 1 .. GNUPLOT_PROCESSES */
    int figures;                /* how often all scripts together print SCRIPT_DONE */
    gnuplot_progress *progress; /* NULL: none */
    void *user;
    const volatile sig_atomic_t *stop; /* nonzero: end the children and return; NULL: never */
} gnuplot_job;

/* Looks along PATH. Returns 0 and the program's path, or -1. */
int gnuplot_find(char *path, size_t size);

/* 0; -1 with a message (what gnuplot said last); 1 if stopped. */
int gnuplot_run(const gnuplot_job *job, text_error *error);

#endif

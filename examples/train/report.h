/* What a person sees of a run, and its log of JSON lines. */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include <stdio.h>

#include "text/error.h"
#include "train/trainer.h"

typedef struct report {
    const trainer *t;
    FILE *log; /* NULL: none */
    const char *log_path;
    int terminal; /* a progress bar that rewrites its line; else plain lines now and then */
    int bar_shown;
    double start, shown; /* seconds of the monotonic clock */
    int64_t first_step, shown_step;
    size_t tokens; /* since the start */
    trainer_step_report last;
    trainer_eval_report eval;
    int evaluated;
} report;

/* log_path NULL: no log; it is appended to if `append`. 0, or -1 with a message. */
int report_open(report *r, const trainer *t, const char *log_path, int append, text_error *error);
int report_close(report *r, text_error *error); /* -1 where the log could not be written */

/* The first screen: configuration, parameters, memory, hardware. */
void report_start(report *r, const char *preset, const char *data, const char *text, const char *out);
void report_step(report *r, const trainer_step_report *step);
void report_eval(report *r, const trainer_eval_report *eval);
void report_end(report *r, const char *why);

#endif

/* A run on disk. Weights alone are a model file, which evaluation and fine-tuning read; the state file holds weights, moments,
 * configuration and where the run and its data stand, and a run that resumes from it goes on as if it had never stopped. */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "text/error.h"
#include "train/trainer.h"

/* The model as `path`. `preset` is kept for a reader of the file. 0, or -1 with a message; then an old file stays as it was. */
int state_save_weights(const trainer *t, const char *path, const char *preset, text_error *error);

/* Everything. data, text: the files the run reads, "" for none, so that resuming finds them again. */
int state_save(const trainer *t, const char *path, const char *preset, const char *data, const char *text,
               text_error *error);

/* What a state file says of its run. */
typedef struct state_run {
    trainer_config config;
    tokenizer *vocabulary; /* owned until trainer_open takes it */
    char preset[32];
    char *data, *text; /* owned */
} state_run;

/* Reads what trainer_open needs. 0, or -1 with a message; then *run is {0}. */
int state_read_run(state_run *run, const char *path, text_error *error);
void state_run_free(state_run *run);

/* Puts a freshly opened run where the file left it. Fails where data or model are not those of the file. */
int state_restore(trainer *t, const char *path, text_error *error);

#endif

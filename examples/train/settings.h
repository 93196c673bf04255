/* A run's configuration as named values: presets, `--set NAME=VALUE`, the configuration screen, and the checkpoint's copy. */
#ifndef TRAIN_SETTINGS_H
#define TRAIN_SETTINGS_H

#include "text/error.h"
#include "train/trainer.h"

/* "quick" (seconds, for tests), "small" (`make run`), "paper" (SPEC 1.10). 0, or -1 for an unknown name. */
int settings_preset(const char *name, trainer_config *config);

/* Sets one value by name. 0, or -1 with a message: unknown name, not a number, out of range. */
int settings_set(trainer_config *config, const char *name, const char *value, text_error *error);

/* Name and printed value of setting i; 0 past the end. Values read back to the same bits. */
int settings_get(const trainer_config *config, int i, const char **name, char value[64]);

/* A source without a name: weight 1, every mark 0.9. */
feed_plan settings_plan(void);

/* The plans as text, "babi18:1:0.86,babi17@2:2:0.9/0.8:babi18": source (and the stage it starts with), weight, marks of the stages (the
 * last one also for those that follow), the source that must be done before. All but the name may be left out. A name that is no
 * fresh source is one of stored rows, and so is "babi18@stored"; "text" is the text. What is printed reads back to the same plans. */
int settings_sources(trainer_config *config, const char *list, text_error *error);
enum { SETTINGS_SOURCES = FEED_SOURCES * 512 }; /* room for the longest list */
void settings_print_sources(const trainer_config *config, char *out, size_t size);

#endif

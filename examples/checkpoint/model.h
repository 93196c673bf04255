/* A trained encoder as a file: configuration and vocabulary in the metadata, weights by name. What training writes and
 * everything after it (evaluation, pictures, fine-tuning) reads. */
#ifndef CHECKPOINT_MODEL_H
#define CHECKPOINT_MODEL_H

#include "checkpoint/checkpoint.h"
#include "encoder/encoder.h"
#include "text/error.h"
#include "text/tokenizer.h"

/* The configuration as a JSON object, one member a field of encoder_config, NUL-terminated, for free(). NULL when
 * memory ends. */
char *model_config_print(const encoder_config *config);

/* The reverse. Every member must be there and of the right type, no other may be; `name` is for messages. 0, or -1. */
int model_config_parse(const char *name, const char *json, encoder_config *config, text_error *error);

/* The metadata that makes a file a model: "config", "vocab" (a vocab.txt), "lower" (0 or 1). pairs: room for
 * MODEL_PAIRS; the caller appends his own (step, dev accuracy, preset, ...). *config_json is owned by the caller and
 * must live until saved. */
#define MODEL_PAIRS 3
int model_pairs(const encoder_config *config, const tokenizer *vocabulary, checkpoint_pair *pairs, char **config_json,
                text_error *error);

typedef struct model {
    checkpoint *file; /* open, for its metadata; NULL once closed */
    tokenizer *vocabulary;
    encoder *encoder;
    dea_real *params; /* encoder->table.elements, aligned to DEA_ALIGNMENT */
} model;

/* Numbers that are learnt: without the arena's padding between tensors. */
size_t model_parameters(const encoder *e);

/* Reads a weights file, or the weights of a state file. 0, or -1 with one line; then *m is {0}. A file whose vocabulary
 * does not fit its configuration is refused. */
int model_load(model *m, const char *path, text_error *error);
void model_free(model *m);

#endif

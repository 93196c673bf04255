#include "checkpoint/model.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- configuration as JSON --------------------------------------------------------------------------------------- */

typedef enum field_type { FIELD_INT, FIELD_REAL, FIELD_POSITIONS } field_type;

typedef struct field {
    const char *name;
    size_t offset;
    field_type type;
} field;

#define FIELD(name, type)                                                                                              \
    { #name, offsetof(encoder_config, name), type }

static const field fields[] = {
    FIELD(vocab, FIELD_INT),           FIELD(segments, FIELD_INT),       FIELD(max_length, FIELD_INT),
    FIELD(d_model, FIELD_INT),         FIELD(heads, FIELD_INT),          FIELD(layers, FIELD_INT),
    FIELD(feed_forward, FIELD_INT),    FIELD(classes, FIELD_INT),        FIELD(language_model, FIELD_INT),
    FIELD(positions, FIELD_POSITIONS), FIELD(post_norm, FIELD_INT),      FIELD(norm_eps, FIELD_REAL),
    FIELD(dropout, FIELD_REAL),        FIELD(embedding_std, FIELD_REAL), FIELD(sentence_std, FIELD_REAL),
    FIELD(use_temperature, FIELD_INT), FIELD(temperature, FIELD_REAL),   FIELD(tie_k_to_q, FIELD_INT),
    FIELD(w_rel_identity, FIELD_INT),  FIELD(split_heads, FIELD_INT),    FIELD(fixed_alpha, FIELD_REAL),
};

enum { FIELDS = sizeof fields / sizeof fields[0] };

char *model_config_print(const encoder_config *config) {
    cJSON *json = cJSON_CreateObject();
    const char *base = (const char *)config;
    int ok = json != NULL;
    for (int i = 0; ok && i < FIELDS; i++) {
        const void *at = base + fields[i].offset;
        const char *name = fields[i].name;
        switch (fields[i].type) {
        case FIELD_INT:
            ok = cJSON_AddNumberToObject(json, name, *(const int *)at) != NULL;
            break;
        case FIELD_REAL:
            ok = cJSON_AddNumberToObject(json, name, *(const double *)at) != NULL;
            break;
        case FIELD_POSITIONS:
            ok = cJSON_AddStringToObject(json, name, encoder_positions_name(config->positions)) != NULL;
            break;
        }
    }
    char *text = ok ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    return text;
}

static int parse_field(const field *f, const cJSON *item, encoder_config *config) {
    void *at = (char *)config + f->offset;
    switch (f->type) {
    case FIELD_INT:
        if (!cJSON_IsNumber(item) || item->valuedouble != item->valueint) return -1;
        *(int *)at = item->valueint;
        return 0;
    case FIELD_REAL:
        if (!cJSON_IsNumber(item)) return -1;
        *(double *)at = item->valuedouble;
        return 0;
    case FIELD_POSITIONS:
        return cJSON_IsString(item) ? encoder_positions_by_name(item->valuestring, &config->positions) : -1;
    }
    return -1;
}

static int bad_config(const char *name, const char *member, const char *what, text_error *error) {
    return text_fail(error, "%s: its configuration %s '%s'; give a checkpoint written by this version of build/train",
                     name, what, member);
}

int model_config_parse(const char *name, const char *json, encoder_config *config, text_error *error) {
    cJSON *object = cJSON_Parse(json);
    encoder_config parsed = encoder_config_default();
    int status = 0;
    if (!cJSON_IsObject(object)) status = bad_config(name, "config", "is not a JSON object, see", error);
    for (int i = 0; status == 0 && i < FIELDS; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, fields[i].name);
        if (!item)
            status = bad_config(name, fields[i].name, "lacks", error);
        else if (parse_field(&fields[i], item, &parsed) != 0)
            status = bad_config(name, fields[i].name, "has a wrong value for", error);
    }
    if (status == 0 && cJSON_GetArraySize(object) != FIELDS)
        status = bad_config(name, "config", "has members this version does not know, see", error);
    if (status == 0) *config = parsed;
    cJSON_Delete(object);
    return status;
}

size_t model_parameters(const encoder *e) {
    size_t count = 0;
    for (int i = 0; i < e->table.count; i++) count += e->table.tensors[i].count;
    return count;
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

int model_pairs(const encoder_config *config, const tokenizer *vocabulary, checkpoint_pair *pairs, char **config_json,
                text_error *error) {
    size_t size;
    *config_json = model_config_print(config);
    if (!*config_json) return text_fail(error, "out of memory for the configuration");
    pairs[0] = (checkpoint_pair){"config", *config_json};
    pairs[1] = (checkpoint_pair){"vocab", tokenizer_vocab(vocabulary, &size)};
    pairs[2] = (checkpoint_pair){"lower", tokenizer_lower(vocabulary) ? "1" : "0"};
    return 0;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

enum { LENGTH_LIMIT = 1 << 16 }; /* the one size that no tensor of the file need vouch for */

static int load_vocabulary(model *m, const char *path, text_error *error) {
    int64_t lower;
    const char *vocabulary = checkpoint_need(m->file, "vocab", error);
    if (!vocabulary || checkpoint_need_integer(m->file, "lower", 0, 1, &lower, error) != 0) return -1;
    m->vocabulary = tokenizer_parse(path, vocabulary, strlen(vocabulary), lower == 1, error);
    return m->vocabulary ? 0 : -1;
}

static int load_encoder(model *m, const char *path, text_error *error) {
    encoder_config config;
    char message[160];
    const char *json = checkpoint_need(m->file, "config", error);
    if (!json || model_config_parse(path, json, &config, error) != 0) return -1;
    if (config.vocab != tokenizer_size(m->vocabulary))
        return text_fail(error,
                         "%s: its vocabulary has %d pieces, its configuration says %d; use another copy or train again",
                         path, (int)tokenizer_size(m->vocabulary), config.vocab);
    if (config.max_length > LENGTH_LIMIT)
        return text_fail(
            error, "%s: its configuration allows rows of %d tokens, more than %d; use another copy or train again",
            path, config.max_length, LENGTH_LIMIT);
    m->encoder = encoder_new(&config, message);
    if (!m->encoder) return text_fail(error, "%s: its configuration makes no model: %s", path, message);
    return 0;
}

static int load_params(model *m, text_error *error) {
    const dea_table *table = &m->encoder->table;
    checkpoint_part weights = {"", table, NULL};
    if (checkpoint_fits(m->file, &weights, 1, CHECKPOINT_EXTRA_OK, error) < 0) return -1;
    const size_t bytes = (table->elements * sizeof(dea_real) + DEA_ALIGNMENT - 1) / DEA_ALIGNMENT * DEA_ALIGNMENT;
    m->params = aligned_alloc(DEA_ALIGNMENT, bytes);
    if (!m->params) return text_fail_memory(error, bytes);
    memset(m->params, 0, bytes);
    weights.data = m->params;
    return checkpoint_read(m->file, &weights, 1, CHECKPOINT_EXTRA_OK, error) < 0 ? -1 : 0;
}

/* By learning or by hand: the attention would refuse it without saying whose it is. */
static int check_temperatures(const model *m, const char *path, text_error *error) {
    static const char name[] = "attention.temperature";
    for (int i = 0; i < m->encoder->table.count; i++) {
        const dea_tensor *t = &m->encoder->table.tensors[i];
        const size_t length = strlen(t->name);
        if (length < sizeof name - 1 || strcmp(t->name + length - (sizeof name - 1), name) != 0) continue;
        for (size_t h = 0; h < t->count; h++)
            if (!(m->params[t->offset + h] >= (dea_real)DEA_TEMPERATURE_MIN))
                return text_fail(error,
                                 "%s: '%s' holds %g for head %zu, which must be at least %g; use another copy or "
                                 "train again",
                                 path, t->name, (double)m->params[t->offset + h], h, DEA_TEMPERATURE_MIN);
    }
    return 0;
}

/* A state file holds the weights and besides them moments, and nothing else. */
static int check_extra(const model *m, const char *path, text_error *error) {
    for (int i = 0; i < checkpoint_tensors(m->file); i++) {
        const char *name = checkpoint_tensor_name(m->file, i);
        const int moment = strncmp(name, "m.", 2) == 0 || strncmp(name, "v.", 2) == 0;
        char shown[256];
        if (!dea_table_find(&m->encoder->table, name) && !(moment && dea_table_find(&m->encoder->table, name + 2)))
            return text_fail(
                error, "%s: holds a tensor '%s' that its configuration does not have; use another copy or train again",
                path, text_excerpt(name, strlen(name), shown));
    }
    return 0;
}

int model_load(model *m, const char *path, text_error *error) {
    *m = (model){0};
    m->file = checkpoint_open(path, NULL, error);
    if (m->file && load_vocabulary(m, path, error) == 0 && load_encoder(m, path, error) == 0 &&
        check_extra(m, path, error) == 0 && load_params(m, error) == 0 && check_temperatures(m, path, error) == 0)
        return 0;
    model_free(m);
    return -1;
}

void model_free(model *m) {
    checkpoint_close(m->file);
    tokenizer_free(m->vocabulary);
    encoder_free(m->encoder);
    free(m->params);
    *m = (model){0};
}

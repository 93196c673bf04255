#include "train/state.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/model.h"
#include "train/settings.h"

/* ---- saving */

static cJSON *settings_json(const trainer_config *config) {
    cJSON *json = cJSON_CreateObject();
    const char *name;
    char value[64];
    for (int i = 0; json && settings_get(config, i, &name, value); i++) cJSON_AddStringToObject(json, name, value);
    return json;
}

/* As text: cJSON writes a number only near enough. */
static void add_exact(cJSON *json, const char *name, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.17g", value);
    cJSON_AddStringToObject(json, name, text);
}

static cJSON *feed_json(const feed *f) {
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; list && i < f->count; i++) {
        const feed_state *s = &f->source[i].state;
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "source", f->source[i].plan.name);
        cJSON_AddNumberToObject(item, "stage", s->stage);
        cJSON_AddNumberToObject(item, "done", s->done);
        cJSON_AddNumberToObject(item, "stage_steps", (double)s->stage_steps);
        add_exact(item, "accuracy", s->accuracy);
        cJSON_AddNumberToObject(item, "drawn", (double)s->drawn);
        cJSON_AddItemToArray(list, item);
    }
    return list;
}

/* Everything but numbers of the model, for free(); NULL when memory ends. */
static char *run_json(const trainer *t, const char *preset, const char *data, const char *text) {
    char sources[SETTINGS_SOURCES], hash[32];
    cJSON *json = cJSON_CreateObject();
    settings_print_sources(&t->config, sources, sizeof sources);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)t->data_hash);
    cJSON_AddStringToObject(json, "preset", preset);
    cJSON_AddItemToObject(json, "settings", settings_json(&t->config));
    cJSON_AddStringToObject(json, "sources", sources);
    cJSON_AddStringToObject(json, "oracle", t->config.oracle);
    cJSON_AddStringToObject(json, "data", data);
    cJSON_AddStringToObject(json, "text", text);
    cJSON_AddStringToObject(json, "data_hash", hash);
    cJSON_AddNumberToObject(json, "step", (double)t->step);
    add_exact(json, "best", t->best);
    cJSON_AddNumberToObject(json, "best_step", (double)t->best_step);
    cJSON_AddNumberToObject(json, "waited", t->waited);
    cJSON_AddItemToObject(json, "feed", feed_json(&t->feed));
    char *printed = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return printed;
}

enum { OWN_PAIRS = 7 };

static int save(const trainer *t, const char *path, const char *preset, const checkpoint_part *parts, int part_count,
                const char *run, text_error *error) {
    checkpoint_pair pairs[MODEL_PAIRS + OWN_PAIRS];
    char *config_json = NULL, step[32], accuracy[32], seed[32], sources[SETTINGS_SOURCES];
    int count = MODEL_PAIRS;
    if (model_pairs(&t->e->config, t->vocabulary, pairs, &config_json, error)) return -1;
    snprintf(step, sizeof step, "%lld", (long long)t->step);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)t->config.seed);
    settings_print_sources(&t->config, sources, sizeof sources);
    snprintf(accuracy, sizeof accuracy, "%.6f", t->best);
    pairs[count++] = (checkpoint_pair){"preset", preset};
    pairs[count++] = (checkpoint_pair){"step", step};
    pairs[count++] = (checkpoint_pair){"oracle", t->config.oracle[0] ? t->config.oracle : "none"};
    pairs[count++] = (checkpoint_pair){"oracle_seed", seed};
    pairs[count++] = (checkpoint_pair){"sources", sources};
    pairs[count++] = (checkpoint_pair){"gate_loss", t->config.gate_loss ? "1" : "0"};
    pairs[count++] = run ? (checkpoint_pair){"run", run} : (checkpoint_pair){"best_dev_accuracy", accuracy};
    const int result = checkpoint_save(path, parts, part_count, pairs, count, NULL, error);
    free(config_json);
    return result;
}

int state_save_weights(const trainer *t, const char *path, const char *preset, text_error *error) {
    const checkpoint_part weights = {"", &t->e->table, t->params};
    return save(t, path, preset, &weights, 1, NULL, error);
}

int state_save(const trainer *t, const char *path, const char *preset, const char *data, const char *text,
               text_error *error) {
    const checkpoint_part parts[] = {
        {"", &t->e->table, t->params}, {"m.", &t->e->table, t->m}, {"v.", &t->e->table, t->v}};
    char *run = run_json(t, preset, data, text);
    if (!run) return text_fail_memory(error, 0);
    const int result = save(t, path, preset, parts, 3, run, error);
    free(run);
    return result;
}

/* ---- reading */

static int broken(const char *path, const char *what, text_error *error) {
    return text_fail(
        error,
        "%s: its record of the run lacks '%s' or it is wrong; resume from the state file of a run of this version",
        path, what);
}

static const char *text_member(const cJSON *json, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static int number_member(const cJSON *json, const char *name, double *value) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);
    if (!cJSON_IsNumber(item)) return -1;
    *value = item->valuedouble;
    return 0;
}

static int exact_member(const cJSON *json, const char *name, double *value) {
    const char *text = text_member(json, name);
    char *end;
    if (!text) return -1;
    *value = strtod(text, &end);
    return end == text || *end || !(*value >= -1 && *value <= 1) ? -1 : 0;
}

static char *copy_of(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    if (copy) memcpy(copy, text, strlen(text) + 1);
    return copy;
}

static int read_settings(state_run *run, const char *path, const cJSON *json, text_error *error) {
    const cJSON *settings = cJSON_GetObjectItemCaseSensitive(json, "settings"), *item;
    const char *sources = text_member(json, "sources"), *oracle = text_member(json, "oracle"),
               *preset = text_member(json, "preset");
    if (!preset || settings_preset(preset, &run->config)) return broken(path, "preset", error);
    snprintf(run->preset, sizeof run->preset, "%s", preset);
    if (!cJSON_IsObject(settings)) return broken(path, "settings", error);
    cJSON_ArrayForEach(item, settings) {
        if (!cJSON_IsString(item) || settings_set(&run->config, item->string, item->valuestring, error))
            return broken(path, item->string, error);
    }
    const char *name;
    char value[64];
    for (int i = 0; settings_get(&run->config, i, &name, value); i++)
        if (!cJSON_HasObjectItem(settings, name)) return broken(path, name, error);
    if (!sources || settings_sources(&run->config, sources, error)) return broken(path, "sources", error);
    if (!oracle || strlen(oracle) >= TRAINER_ORACLE) return broken(path, "oracle", error);
    memcpy(run->config.oracle, oracle, strlen(oracle) + 1);
    const char *data = text_member(json, "data"), *text = text_member(json, "text");
    run->data = data ? copy_of(data) : NULL;
    run->text = text ? copy_of(text) : NULL;
    return run->data && run->text ? 0 : broken(path, "data", error);
}

/* The file's record of its run; NULL with a message. */
static cJSON *read_run(const checkpoint *c, const char *path, text_error *error) {
    const char *run = checkpoint_get(c, "run");
    if (!run) {
        (void)text_fail(error,
                        "%s: holds weights but no state to resume from; give the run's state.safetensors, or --init it",
                        path);
        return NULL;
    }
    cJSON *json = cJSON_Parse(run);
    if (!cJSON_IsObject(json)) (void)broken(path, "run", error);
    return json;
}

int state_read_run(state_run *run, const char *path, text_error *error) {
    model m;
    *run = (state_run){0};
    if (model_load(&m, path, error)) return -1;
    cJSON *json = read_run(m.file, path, error);
    int result = json ? read_settings(run, path, json, error) : -1;
    if (!result) { /* what the settings do not name */
        run->config.model = m.encoder->config;
        run->vocabulary = m.vocabulary;
        m.vocabulary = NULL;
    }
    cJSON_Delete(json);
    model_free(&m);
    if (result) state_run_free(run);
    return result;
}

void state_run_free(state_run *run) {
    tokenizer_free(run->vocabulary);
    free(run->data);
    free(run->text);
    *run = (state_run){0};
}

static int restore_feed(feed *f, const char *path, const cJSON *json, text_error *error) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "feed");
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != f->count) return broken(path, "feed", error);
    for (int i = 0; i < f->count; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, i);
        feed_source *s = &f->source[i];
        double stage, done, stage_steps, accuracy, drawn;
        const char *name = text_member(item, "source");
        if (!name || strcmp(name, s->plan.name) || number_member(item, "stage", &stage) ||
            number_member(item, "done", &done) || number_member(item, "stage_steps", &stage_steps) ||
            exact_member(item, "accuracy", &accuracy) || number_member(item, "drawn", &drawn) ||
            !(stage >= 1 && stage <= s->stages) || !(stage_steps >= 0 && stage_steps < 1e15) ||
            !(drawn >= 0 && drawn < 9e15))
            return broken(path, "feed", error);
        s->state = (feed_state){(int)stage, done != 0, (int64_t)stage_steps, accuracy, (uint64_t)drawn};
    }
    return 0;
}

static int restore_counters(trainer *t, const char *path, const cJSON *json, text_error *error) {
    double step, best, best_step, waited;
    char hash[32];
    const char *expected = text_member(json, "data_hash");
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)t->data_hash);
    if (!expected) return broken(path, "data_hash", error);
    if (strcmp(hash, expected))
        return text_fail(
            error,
            "%s: the run was trained on other data; give the same --data and --mlm files, or start anew with --init",
            path);
    if (number_member(json, "step", &step) || !(step >= 0 && step < 9e15)) return broken(path, "step", error);
    if (exact_member(json, "best", &best) || number_member(json, "best_step", &best_step) ||
        number_member(json, "waited", &waited) || !(waited >= 0 && waited < 1e9) ||
        !(best_step >= 0 && best_step < 9e15))
        return broken(path, "best", error);
    t->step = (int64_t)step;
    t->best = best;
    t->best_step = (int64_t)best_step;
    t->waited = (int)waited;
    return restore_feed(&t->feed, path, json, error);
}

int state_restore(trainer *t, const char *path, text_error *error) {
    const checkpoint_part parts[] = {
        {"", &t->e->table, t->params}, {"m.", &t->e->table, t->m}, {"v.", &t->e->table, t->v}};
    checkpoint *c = checkpoint_open(path, NULL, error);
    if (!c) return -1;
    cJSON *json = read_run(c, path, error);
    int result = json ? restore_counters(t, path, json, error) : -1;
    if (!result && checkpoint_read(c, parts, 3, CHECKPOINT_EXACT, error) < 0) result = -1;
    cJSON_Delete(json);
    checkpoint_close(c);
    return result;
}

#include "text/alpha_cache.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "text/grow.h"
#include "text/lines.h"
#include "text/string_map.h"
#include "text/utf8.h"

struct alpha_cache {
    string_map text; /* premises and hypotheses, each once */
    string_map pair; /* struct key, as bytes */
    struct label {
        float alpha;
        size_t line; /* where it stands, for messages */
    } * label;       /* [pair.count] */
    size_t capacity;
};

struct key {
    size_t premise, hypothesis; /* indices in text */
};

/* ---- reading */

static int store(alpha_cache *cache, const lines *l, const char *premise, const char *hypothesis, float alpha,
                 text_error *error) {
    struct key key = {string_map_add(&cache->text, premise, strlen(premise)),
                      string_map_add(&cache->text, hypothesis, strlen(hypothesis))};
    if (key.premise == STRING_MAP_NONE || key.hypothesis == STRING_MAP_NONE)
        return text_fail_memory(error, strlen(premise));
    struct label *label = grow(cache->label, &cache->capacity, cache->pair.count + 1, sizeof *label);
    if (!label) return text_fail_memory(error, (cache->pair.count + 1) * sizeof *label);
    cache->label = label;
    size_t before = cache->pair.count, index = string_map_add(&cache->pair, (const char *)&key, sizeof key);
    if (index == STRING_MAP_NONE) return text_fail_memory(error, sizeof key);
    if (index == before) {
        cache->label[index] = (struct label){alpha, l->number};
    } else if (cache->label[index].alpha != alpha) {
        return lines_fail(l, error, "the pair stands on line %zu too, with alpha %g there and %g here; keep one",
                          cache->label[index].line, (double)cache->label[index].alpha, (double)alpha);
    }
    return 0;
}

static int read_object(alpha_cache *cache, const lines *l, const cJSON *object, text_error *error) {
    const cJSON *premise = cJSON_GetObjectItemCaseSensitive(object, "premise");
    const cJSON *hypothesis = cJSON_GetObjectItemCaseSensitive(object, "hypothesis");
    const cJSON *alpha = cJSON_GetObjectItemCaseSensitive(object, "alpha");
    if (!cJSON_IsString(premise) || !cJSON_IsString(hypothesis) || !cJSON_IsNumber(alpha))
        return lines_fail(l, error, "needs the members premise (string), hypothesis (string) and alpha (number)");
    double value = alpha->valuedouble;
    if (!(value >= 0 && value <= 1)) return lines_fail(l, error, "alpha is %g; it must lie in [0, 1]", value);
    float clamped = value > ALPHA_MAX ? (float)ALPHA_MAX : (float)value;
    return store(cache, l, premise->valuestring, hypothesis->valuestring, clamped, error);
}

static int read_line(alpha_cache *cache, const lines *l, const char *line, text_error *error) {
    /* cJSON ends a string at \u0000, which would join pairs that differ. */
    if (strstr(line, "\\u0000")) return lines_fail(l, error, "\\u0000 within a string; text has no NUL characters");
    const char *end = NULL;
    cJSON *object = cJSON_ParseWithOpts(line, &end, 1);
    int failed;
    if (!object) {
        failed = lines_fail(l, error,
                            "is no JSON object (wrong at byte %zu); lines read {\"premise\": \"...\", \"hypothesis\": "
                            "\"...\", \"alpha\": 0.8}",
                            end ? (size_t)(end - line) + 1 : 1);
    } else {
        failed = read_object(cache, l, object, error);
    }
    cJSON_Delete(object);
    return failed;
}

static alpha_cache *read_all(lines *l, text_error *error) {
    alpha_cache *cache = calloc(1, sizeof *cache);
    int got = cache ? 1 : text_fail_memory(error, sizeof *cache);
    while (got > 0) {
        char *line;
        size_t length;
        got = lines_next(l, &line, &length, error);
        if (got > 0 && read_line(cache, l, line, error)) got = -1;
    }
    if (got == 0 && cache->pair.count == 0) {
        got = text_fail(
            error, "%s: holds no alpha; give lines {\"premise\": \"...\", \"hypothesis\": \"...\", \"alpha\": 0.8}",
            l->name);
    }
    lines_close(l);
    if (got < 0) {
        alpha_cache_free(cache);
        return NULL;
    }
    return cache;
}

alpha_cache *alpha_cache_load(const char *path, text_error *error) {
    lines l;
    if (lines_open(&l, path, error)) return NULL;
    return read_all(&l, error);
}

alpha_cache *alpha_cache_parse(const char *name, const void *data, size_t size, text_error *error) {
    lines l;
    lines_open_memory(&l, name, data, size);
    return read_all(&l, error);
}

void alpha_cache_free(alpha_cache *cache) {
    if (!cache) return;
    string_map_free(&cache->text);
    string_map_free(&cache->pair);
    free(cache->label);
    free(cache);
}

/* ---- use */

size_t alpha_cache_size(const alpha_cache *cache) {
    return cache->pair.count;
}

float alpha_cache_find(const alpha_cache *cache, const char *premise, const char *hypothesis) {
    struct key key = {string_map_find(&cache->text, premise, strlen(premise)),
                      string_map_find(&cache->text, hypothesis, strlen(hypothesis))};
    size_t index = string_map_find(&cache->pair, (const char *)&key, sizeof key);
    return index == STRING_MAP_NONE ? NAN : cache->label[index].alpha;
}

size_t alpha_cache_label(const alpha_cache *cache, const row *rows, size_t count, float *alpha, text_error *report) {
    enum { NAMED = 3 };
    size_t missing = 0, first[NAMED];
    for (size_t i = 0; i < count; i++) {
        alpha[i] = alpha_cache_find(cache, rows[i].premise, rows[i].hypothesis);
        if (!isnan(alpha[i])) continue;
        if (missing < NAMED) first[missing] = i;
        missing++;
    }
    if (report) {
        size_t named = missing < NAMED ? missing : NAMED, at;
        text_fail(report, "%zu of %zu pairs have no alpha in the cache%s", missing, count,
                  missing ? ", the first:" : "");
        at = strlen(report->message);
        for (size_t i = 0; i < named; i++) {
            char p[256], h[256];
            const row *r = &rows[first[i]];
            int wrote = snprintf(report->message + at, sizeof report->message - at, " ('%.40s', '%.40s')",
                                 text_excerpt(r->premise, strlen(r->premise), p),
                                 text_excerpt(r->hypothesis, strlen(r->hypothesis), h));
            at += (size_t)wrote;
            if (at >= sizeof report->message) break;
        }
    }
    return missing;
}

/* ---- writing */

/* The number with the fewest digits that reads back as the same float: 0.83 rather than 0.829999983. */
static double shortest(float alpha) {
    char digits[32];
    for (int precision = 1; precision < 9; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, (double)alpha);
        if (strtof(digits, NULL) == alpha) break;
        if (precision == 8) snprintf(digits, sizeof digits, "%.9g", (double)alpha);
    }
    return strtod(digits, NULL);
}

int alpha_cache_write(FILE *file, const char *premise, const char *hypothesis, float alpha, text_error *error) {
    if (!(alpha >= 0 && alpha <= 1)) return text_fail(error, "alpha is %g; it must lie in [0, 1]", (double)alpha);
    const char *text[] = {premise, hypothesis};
    for (size_t i = 0; i < 2; i++) {
        char shown[256];
        size_t length = strlen(text[i]);
        if (utf8_valid_prefix(text[i], length) < length)
            return text_fail(error, "a pair is not UTF-8: '%s'", text_excerpt(text[i], length, shown));
    }
    cJSON *object = cJSON_CreateObject();
    char *line = NULL;
    if (object && cJSON_AddStringToObject(object, "premise", premise) &&
        cJSON_AddStringToObject(object, "hypothesis", hypothesis) &&
        cJSON_AddNumberToObject(object, "alpha", shortest(alpha))) {
        line = cJSON_PrintUnformatted(object);
    }
    cJSON_Delete(object);
    if (!line) return text_fail_memory(error, strlen(premise) + strlen(hypothesis));
    int failed = fprintf(file, "%s\n", line) < 0;
    cJSON_free(line);
    return failed ? text_fail(error, "an alpha cannot be written: %s", strerror(errno)) : 0;
}

#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/numbers.h"
#include "text/string_map.h"

#define GIVE_CHECKPOINT "give a .safetensors file of build/train"

enum { RANKS = 4 };

typedef struct entry {
    const char *name; /* the header's own string */
    int rank, shape[RANKS];
    uint64_t begin, end; /* bytes from the first tensor's start */
} entry;

struct checkpoint {
    const checkpoint_io *io;
    int fd;
    char *path;
    cJSON *header;
    const cJSON *metadata;
    entry *tensor; /* [count], in file order */
    int count;
    string_map names;     /* of the tensors, numbered in file order */
    uint64_t data, bytes; /* where tensors start in the file; how many bytes follow */
};

/* ---- reading bytes ----------------------------------------------------------------------------------------------- */

static int read_all(const checkpoint *c, void *data, size_t size, uint64_t offset, text_error *error) {
    unsigned char *bytes = data;
    while (size > 0) {
        const ssize_t done = c->io->read(c->fd, bytes, size, (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return text_fail(error, "%s: cannot be read: %s", c->path, strerror(errno));
        if (done == 0) return text_fail(error, "%s: has become shorter while it was read; try again", c->path);
        bytes += done;
        offset += (uint64_t)done;
        size -= (size_t)done;
    }
    return 0;
}

/* The header's text, for free(), its size in *length; sets where the tensors start. */
static char *read_header(checkpoint *c, size_t *length, text_error *error) {
    const off_t size = c->io->size(c->fd);
    unsigned char prefix[8];
    if (size < 0) {
        text_fail(error, "%s: cannot be read: %s; give the path of a checkpoint file", c->path, strerror(errno));
        return NULL;
    }
    if (size < 8 + 2) {
        text_fail(error, "%s: is no checkpoint: %lld bytes are too few; " GIVE_CHECKPOINT, c->path, (long long)size);
        return NULL;
    }
    if (read_all(c, prefix, sizeof prefix, 0, error) != 0) return NULL;
    uint64_t claimed = 0;
    for (int i = 0; i < 8; i++) claimed |= (uint64_t)prefix[i] << (8 * i);
    if (claimed < 2 || claimed > CHECKPOINT_HEADER_LIMIT) { /* text, or any other file */
        text_fail(error, "%s: is no checkpoint: it is another kind of file; " GIVE_CHECKPOINT, c->path);
        return NULL;
    }
    if (claimed > (uint64_t)size - 8) {
        text_fail(error,
                  "%s: is no checkpoint, or was cut off: it claims a header of %llu bytes, the file has "
                  "%lld; " GIVE_CHECKPOINT,
                  c->path, (unsigned long long)claimed, (long long)size);
        return NULL;
    }
    *length = (size_t)claimed;
    c->data = 8 + claimed;
    c->bytes = (uint64_t)size - c->data;
    char *text = malloc(*length);
    if (!text) {
        text_fail_memory(error, *length);
        return NULL;
    }
    if (read_all(c, text, *length, 8, error) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- checking the header ----------------------------------------------------------------------------------------- */

/* A whole number in [low, high] that a double holds exactly. */
static int whole(const cJSON *item, double low, double high, uint64_t *value) {
    if (!cJSON_IsNumber(item)) return 0;
    const double number = item->valuedouble;
    if (!(number >= low && number <= high) || floor(number) != number) return 0;
    *value = (uint64_t)number;
    return 1;
}

static int bad_tensor(const checkpoint *c, const char *name, const char *what, text_error *error) {
    char shown[256];
    return text_fail(error, "%s: is damaged or foreign: tensor '%s' %s; use another copy or train again", c->path,
                     text_excerpt(name, strlen(name), shown), what);
}

static int parse_shape(const cJSON *list, entry *out) {
    if (!cJSON_IsArray(list)) return 0;
    out->rank = 0;
    for (const cJSON *item = list->child; item; item = item->next) {
        uint64_t length;
        if (out->rank == RANKS || !whole(item, 1, INT_MAX, &length)) return 0;
        out->shape[out->rank++] = (int)length;
    }
    return 1;
}

static int parse_entry(const checkpoint *c, const cJSON *item, entry *out, text_error *error) {
    const double exact = 9007199254740992.0; /* 2^53 */
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, "shape");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    out->name = item->string;
    if (!cJSON_IsObject(item) || !dtype || !shape || !offsets || cJSON_GetArraySize(item) != 3)
        return bad_tensor(c, item->string, "needs dtype, shape and data_offsets and nothing else", error);
    if (!cJSON_IsString(dtype) || strcmp(dtype->valuestring, "F32") != 0)
        return bad_tensor(c, item->string, "is not of dtype F32", error);
    if (!parse_shape(shape, out))
        return bad_tensor(c, item->string, "has a shape that is not 0 to 4 whole numbers above 0", error);
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 || !whole(offsets->child, 0, exact, &out->begin) ||
        !whole(offsets->child->next, 0, exact, &out->end) || out->begin > out->end)
        return bad_tensor(c, item->string, "has data_offsets that are not two rising whole numbers", error);
    uint64_t left = (out->end - out->begin) / 4, size = (out->end - out->begin) % 4 == 0;
    for (int i = 0; i < out->rank; i++) {
        size *= left % (uint64_t)out->shape[i] == 0;
        left /= (uint64_t)out->shape[i];
    }
    if (!size || left != 1) return bad_tensor(c, item->string, "has data_offsets that do not fit its shape", error);
    return 0;
}

static int by_offset(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Tensors must fill the rest of the file, one after the other. */
static int check_places(const checkpoint *c, text_error *error) {
    uint64_t at = 0;
    for (int i = 0; i < c->count; i++) {
        if (c->tensor[i].begin < at) return bad_tensor(c, c->tensor[i].name, "overlaps the one before it", error);
        if (c->tensor[i].begin > at) return bad_tensor(c, c->tensor[i].name, "leaves a gap before it", error);
        at = c->tensor[i].end;
    }
    if (at > c->bytes)
        return text_fail(error,
                         "%s: is cut off: %llu of %llu bytes of tensors are there; use another copy or train again",
                         c->path, (unsigned long long)c->bytes, (unsigned long long)at);
    if (at < c->bytes)
        return text_fail(
            error, "%s: is damaged or foreign: %llu bytes follow the last tensor; use another copy or train again",
            c->path, (unsigned long long)(c->bytes - at));
    return 0;
}

static int check_metadata(checkpoint *c, const cJSON *item, text_error *error) {
    string_map keys = {0};
    int status = cJSON_IsObject(item) && !c->metadata ? 0 : -1;
    for (const cJSON *pair = status == 0 ? item->child : NULL; pair && status == 0; pair = pair->next) {
        const size_t before = keys.count;
        if (!cJSON_IsString(pair) || string_map_add(&keys, pair->string, strlen(pair->string)) != before) status = -1;
    }
    string_map_free(&keys);
    if (status != 0)
        return text_fail(
            error, "%s: is damaged or foreign: %s is not one map of distinct strings; use another copy or train again",
            c->path, CHECKPOINT_METADATA);
    c->metadata = item;
    return 0;
}

static int parse_entries(checkpoint *c, text_error *error) {
    const int items = cJSON_GetArraySize(c->header);
    c->tensor = calloc((size_t)items + 1, sizeof *c->tensor);
    if (!c->tensor) return text_fail_memory(error, (size_t)items * sizeof *c->tensor);
    for (const cJSON *item = c->header->child; item; item = item->next) {
        const int metadata = strcmp(item->string, CHECKPOINT_METADATA) == 0;
        if (metadata ? check_metadata(c, item, error) : parse_entry(c, item, &c->tensor[c->count++], error)) return -1;
    }
    qsort(c->tensor, (size_t)c->count, sizeof *c->tensor, by_offset);
    for (int i = 0; i < c->count; i++) {
        const size_t at = string_map_add(&c->names, c->tensor[i].name, strlen(c->tensor[i].name));
        if (at == STRING_MAP_NONE) return text_fail_memory(error, strlen(c->tensor[i].name));
        if (at != (size_t)i) return bad_tensor(c, c->tensor[i].name, "stands twice in the header", error);
    }
    return 0;
}

static int parse_header(checkpoint *c, const char *text, size_t length, text_error *error) {
    const char *end = NULL;
    c->header = cJSON_ParseWithLengthOpts(text, length, &end, 0);
    while (c->header && end < text + length && *end == ' ') end++;
    if (!cJSON_IsObject(c->header) || end != text + length)
        return text_fail(
            error, "%s: is no checkpoint, or is damaged: its header is not a JSON object; " GIVE_CHECKPOINT, c->path);
    if (parse_entries(c, error) != 0 || check_places(c, error) != 0) return -1;
    const char *format = checkpoint_get(c, "format");
    if (!format || strcmp(format, CHECKPOINT_FORMAT) != 0)
        return text_fail(error,
                         "%s: is a safetensors file of another program: its metadata lacks \"format\": \"%s\"; give a "
                         "checkpoint written by build/train",
                         c->path, CHECKPOINT_FORMAT);
    if (c->count == 0) return text_fail(error, "%s: holds no tensor; use another copy or train again", c->path);
    return 0;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int open_file(checkpoint *c, const char *path, text_error *error) {
    c->path = malloc(strlen(path) + 1);
    if (!c->path) return text_fail_memory(error, strlen(path) + 1);
    strcpy(c->path, path);
    c->fd = c->io->open_read(path);
    if (c->fd < 0)
        return text_fail(error, "%s: cannot be opened: %s; give the path of a checkpoint file", path, strerror(errno));
    size_t length;
    char *text = read_header(c, &length, error);
    const int status = text ? parse_header(c, text, length, error) : -1;
    free(text);
    return status;
}

checkpoint *checkpoint_open(const char *path, const checkpoint_io *io, text_error *error) {
    checkpoint *c = calloc(1, sizeof *c);
    if (!c) {
        text_fail_memory(error, sizeof *c);
        return NULL;
    }
    c->io = io ? io : &checkpoint_posix;
    c->fd = -1;
    if (open_file(c, path, error) == 0) return c;
    checkpoint_close(c);
    return NULL;
}

void checkpoint_close(checkpoint *c) {
    if (!c) return;
    if (c->fd >= 0) c->io->close(c->fd);
    string_map_free(&c->names);
    cJSON_Delete(c->header);
    free(c->tensor);
    free(c->path);
    free(c);
}

/* ---- metadata ---------------------------------------------------------------------------------------------------- */

const char *checkpoint_get(const checkpoint *c, const char *key) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(c->metadata, key);
    return value ? value->valuestring : NULL;
}

const char *checkpoint_need(const checkpoint *c, const char *key, text_error *error) {
    const char *value = checkpoint_get(c, key);
    if (!value)
        text_fail(error, "%s: its metadata lacks '%s'; give a checkpoint of the kind that is asked for", c->path, key);
    return value;
}

static int bad_value(const checkpoint *c, const char *key, const char *value, const char *wanted, text_error *error) {
    char shown[256];
    return text_fail(error, "%s: its metadata says '%s' is \"%s\", which is not %s; use another copy or train again",
                     c->path, key, text_excerpt(value, strlen(value), shown), wanted);
}

/* The value of a key that holds only the characters allowed, and one at least: strtod and its kin let blanks, "inf" and
 * more pass. NULL with a message; errno is 0 otherwise. */
static const char *need_number(const checkpoint *c, const char *key, const char *allowed, const char *wanted,
                               text_error *error) {
    const char *text = checkpoint_need(c, key, error);
    if (text && (!*text || strspn(text, allowed) != strlen(text))) {
        bad_value(c, key, text, wanted, error);
        return NULL;
    }
    errno = 0;
    return text;
}

int checkpoint_need_integer(const checkpoint *c, const char *key, int64_t low, int64_t high, int64_t *value,
                            text_error *error) {
    static const char wanted[] = "a whole number of the expected range";
    const char *text = need_number(c, key, "-0123456789", wanted, error);
    if (!text) return -1;
    char *end;
    const long long number = strtoll(text, &end, 10);
    if (errno || *end || number < low || number > high) return bad_value(c, key, text, wanted, error);
    *value = number;
    return 0;
}

int checkpoint_need_unsigned(const checkpoint *c, const char *key, uint64_t *value, text_error *error) {
    static const char wanted[] = "a whole number from 0 to 2^64 - 1";
    const char *text = need_number(c, key, "0123456789", wanted, error);
    if (!text) return -1;
    const unsigned long long number = strtoull(text, NULL, 10);
    if (errno) return bad_value(c, key, text, wanted, error);
    *value = number;
    return 0;
}

int checkpoint_need_real(const checkpoint *c, const char *key, double *value, text_error *error) {
    static const char wanted[] = "a finite number";
    const char *text = need_number(c, key, "+-.0123456789eE", wanted, error);
    if (!text) return -1;
    char *end;
    const double number = strtod(text, &end);
    if (*end || !isfinite(number)) return bad_value(c, key, text, wanted, error);
    *value = number;
    return 0;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

int checkpoint_tensors(const checkpoint *c) {
    return c->count;
}

const char *checkpoint_tensor_name(const checkpoint *c, int i) {
    return i >= 0 && i < c->count ? c->tensor[i].name : NULL;
}

static int same_shape(const entry *e, const dea_tensor *tensor) {
    return e->rank == tensor->rank && memcmp(e->shape, tensor->shape, (size_t)e->rank * sizeof *e->shape) == 0;
}

/* Place of a part's tensor in the file, or STRING_MAP_NONE; its name there is left in `name`. */
static size_t find_tensor(const checkpoint *c, const checkpoint_part *part, const dea_tensor *tensor,
                          char name[CHECKPOINT_NAME]) {
    checkpoint_name(name, part, tensor);
    return string_map_find(&c->names, name, strlen(name));
}

/* Finds every tensor of the parts in the file and marks it. The number found, or -1. */
static int match_names(const checkpoint *c, const checkpoint_part *parts, int part_count, int match, char *used,
                       text_error *error) {
    int found = 0;
    for (int p = 0; p < part_count; p++)
        for (int i = 0; i < parts[p].table->count; i++) {
            const dea_tensor *tensor = &parts[p].table->tensors[i];
            char name[CHECKPOINT_NAME];
            const size_t at = find_tensor(c, &parts[p], tensor, name);
            if (at == STRING_MAP_NONE) {
                if (match & CHECKPOINT_MISSING_OK) continue;
                return text_fail(error,
                                 "%s: tensor '%s' of the model is missing; give a checkpoint of the same configuration",
                                 c->path, name);
            }
            if (!same_shape(&c->tensor[at], tensor))
                return text_fail(error,
                                 "%s: tensor '%s' has another shape than the model's; give a checkpoint of the same "
                                 "configuration and vocabulary",
                                 c->path, name);
            if (used[at]++)
                return text_fail(error,
                                 "%s: two tensors of the model are named '%s'; give the parts different prefixes",
                                 c->path, name);
            found++;
        }
    for (int i = 0; i < c->count && !(match & CHECKPOINT_EXTRA_OK); i++)
        if (!used[i]) {
            char shown[256];
            return text_fail(
                error, "%s: holds a tensor '%s' that the model lacks; give a checkpoint of the same configuration",
                c->path, text_excerpt(c->tensor[i].name, strlen(c->tensor[i].name), shown));
        }
    return found;
}

/* Reads one tensor piece by piece: checks its numbers, and copies them unless `data` is NULL. */
static int read_tensor(const checkpoint *c, const entry *e, dea_real *data, text_error *error) {
    unsigned char bytes[4 * CHECKPOINT_CHUNK];
    dea_real numbers[CHECKPOINT_CHUNK];
    const uint64_t count = (e->end - e->begin) / 4;
    for (uint64_t at = 0; at < count; at += CHECKPOINT_CHUNK) {
        const size_t n = count - at < CHECKPOINT_CHUNK ? (size_t)(count - at) : CHECKPOINT_CHUNK;
        if (read_all(c, bytes, 4 * n, c->data + e->begin + 4 * at, error) != 0) return -1;
        checkpoint_decode(bytes, n, numbers);
        const size_t bad = checkpoint_first_bad(numbers, n);
        if (bad < n)
            return text_fail(error, "%s: '%s' holds %g at element %llu; use an earlier checkpoint or train again",
                             c->path, e->name, (double)numbers[bad], (unsigned long long)at + bad);
        if (data) memcpy(data + at, numbers, n * sizeof *data);
    }
    return 0;
}

/* One pass over all tensors of the parts that the file has. */
static int read_parts(const checkpoint *c, const checkpoint_part *parts, int part_count, int copy, text_error *error) {
    for (int p = 0; p < part_count; p++)
        for (int i = 0; i < parts[p].table->count; i++) {
            const dea_tensor *tensor = &parts[p].table->tensors[i];
            char name[CHECKPOINT_NAME];
            const size_t at = find_tensor(c, &parts[p], tensor, name);
            if (at == STRING_MAP_NONE) continue;
            if (read_tensor(c, &c->tensor[at], copy ? parts[p].data + tensor->offset : NULL, error) != 0) return -1;
        }
    return 0;
}

int checkpoint_fits(const checkpoint *c, const checkpoint_part *parts, int part_count, int match, text_error *error) {
    char *used = calloc((size_t)c->count, 1);
    if (!used) return text_fail_memory(error, (size_t)c->count);
    const int found = match_names(c, parts, part_count, match, used, error);
    free(used);
    return found;
}

int checkpoint_read(const checkpoint *c, const checkpoint_part *parts, int part_count, int match, text_error *error) {
    const int found = checkpoint_fits(c, parts, part_count, match, error);
    if (found < 0 || read_parts(c, parts, part_count, 0, error) != 0 || read_parts(c, parts, part_count, 1, error) != 0)
        return -1;
    return found;
}

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/numbers.h"
#include "text/safe_file.h"
#include "text/string_map.h"

/* ---- the header -------------------------------------------------------------------------------------------------- */

static int add_metadata(cJSON *header, const checkpoint_pair *pairs, int count) {
    cJSON *metadata = cJSON_AddObjectToObject(header, CHECKPOINT_METADATA);
    int ok = metadata && cJSON_AddStringToObject(metadata, "format", CHECKPOINT_FORMAT) &&
             cJSON_AddStringToObject(metadata, "dea_version", DEA_VERSION);
    for (int i = 0; ok && i < count; i++) ok = cJSON_AddStringToObject(metadata, pairs[i].key, pairs[i].value) != NULL;
    return ok;
}

static int add_tensor(cJSON *header, const char *name, const dea_tensor *tensor, uint64_t begin, uint64_t end) {
    cJSON *entry = cJSON_AddObjectToObject(header, name);
    if (!entry || !cJSON_AddStringToObject(entry, "dtype", "F32")) return 0;
    cJSON *shape = cJSON_CreateIntArray(tensor->shape, tensor->rank);
    if (!shape) return 0;
    cJSON_AddItemToObject(entry, "shape", shape);
    const double ends[2] = {(double)begin, (double)end};
    cJSON *offsets = cJSON_CreateDoubleArray(ends, 2);
    if (!offsets) return 0;
    cJSON_AddItemToObject(entry, "data_offsets", offsets);
    return 1;
}

/* The header as text, for free(); NULL with a message. */
static char *print_header(const char *path, const checkpoint_part *parts, int part_count, const checkpoint_pair *pairs,
                          int pair_count, text_error *error) {
    cJSON *header = cJSON_CreateObject();
    string_map names = {0}; /* starts with the one name that is taken */
    int ok = header && add_metadata(header, pairs, pair_count) &&
             string_map_add(&names, CHECKPOINT_METADATA, strlen(CHECKPOINT_METADATA)) == 0;
    const char *twice = NULL;
    uint64_t at = 0;
    for (int p = 0; ok && p < part_count; p++)
        for (int i = 0; ok && !twice && i < parts[p].table->count; i++) {
            const dea_tensor *tensor = &parts[p].table->tensors[i];
            char name[CHECKPOINT_NAME];
            checkpoint_name(name, &parts[p], tensor);
            const size_t before = names.count;
            const size_t place = string_map_add(&names, name, strlen(name));
            if (place != STRING_MAP_NONE && place < before) twice = names.entry[place].bytes;
            ok = place != STRING_MAP_NONE && add_tensor(header, name, tensor, at, at + 4 * (uint64_t)tensor->count);
            at += 4 * (uint64_t)tensor->count;
        }
    char *text = NULL;
    if (twice) {
        text_fail(error, "%s: not written: two tensors are named '%s'; give the parts different prefixes", path, twice);
    } else if (!ok || !(text = cJSON_PrintUnformatted(header))) {
        text_fail(error, "%s: not written: out of memory for its header", path);
    } else if (strlen(text) > CHECKPOINT_HEADER_LIMIT - 8) {
        text_fail(
            error,
            "%s: not written: metadata and names of %zu bytes, at most %d can be read back; use a smaller vocabulary",
            path, strlen(text), CHECKPOINT_HEADER_LIMIT);
        free(text);
        text = NULL;
    }
    string_map_free(&names);
    cJSON_Delete(header);
    return text;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

typedef struct writer {
    const checkpoint_io *io;
    int fd;
} writer;

/* All of it, however little the disk takes at a time. 0, or -1 and errno. */
static int write_all(const writer *w, const void *data, size_t size) {
    const unsigned char *bytes = data;
    while (size > 0) {
        const ssize_t done = w->io->write(w->fd, bytes, size);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return -1;
        if (done == 0) {
            errno = ENOSPC;
            return -1;
        }
        bytes += done;
        size -= (size_t)done;
    }
    return 0;
}

/* Header text padded with blanks, so that tensors start at a multiple of 8 bytes. */
static int write_header(const writer *w, const char *text) {
    const size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++) prefix[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    if (write_all(w, prefix, sizeof prefix) != 0 || write_all(w, text, length) != 0) return -1;
    return write_all(w, "       ", padded - length);
}

static int write_numbers(const writer *w, const dea_real *data, size_t count) {
    unsigned char bytes[4 * CHECKPOINT_CHUNK];
    while (count > 0) {
        const size_t n = count < CHECKPOINT_CHUNK ? count : CHECKPOINT_CHUNK;
        checkpoint_encode(data, n, bytes);
        if (write_all(w, bytes, 4 * n) != 0) return -1;
        data += n;
        count -= n;
    }
    return 0;
}

static int write_tensors(const writer *w, const checkpoint_part *parts, int part_count) {
    for (int p = 0; p < part_count; p++)
        for (int i = 0; i < parts[p].table->count; i++) {
            const dea_tensor *tensor = &parts[p].table->tensors[i];
            if (write_numbers(w, parts[p].data + tensor->offset, tensor->count) != 0) return -1;
        }
    return 0;
}

/* Writes, syncs and closes `temporary`. 0, or -1 and errno; the descriptor is closed either way. */
static int write_temporary(const checkpoint_io *io, const char *temporary, const char *header,
                           const checkpoint_part *parts, int part_count) {
    const writer w = {io, io->create(temporary)};
    if (w.fd < 0) return -1;
    int failed = write_header(&w, header) != 0 || write_tensors(&w, parts, part_count) != 0 || io->sync(w.fd) != 0;
    const int reason = errno;
    if (io->close(w.fd) != 0 && !failed) return -1;
    errno = reason;
    return failed ? -1 : 0;
}

/* Makes the rename itself outlive a power cut. Some file systems cannot sync a folder, which is no error. */
static int sync_folder(const checkpoint_io *io, const char *path) {
    const char *slash = strrchr(path, '/');
    const size_t length = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = malloc(length + 1);
    if (!folder) return -1;
    memcpy(folder, slash ? path : ".", length);
    folder[length] = '\0';
    const int fd = io->open_read(folder);
    free(folder);
    if (fd < 0) return -1;
    int failed = io->sync(fd) != 0 && errno != EINVAL && errno != EROFS;
    const int reason = errno;
    io->close(fd);
    errno = reason;
    return failed ? -1 : 0;
}

static int replace(const char *path, const char *temporary, const char *header, const checkpoint_part *parts,
                   int part_count, const checkpoint_io *io, text_error *error) {
    if (write_temporary(io, temporary, header, parts, part_count) != 0 || io->rename(temporary, path) != 0) {
        const int reason = errno;
        io->remove(temporary);
        return text_fail(error, "%s: cannot be written: %s; the old file, if any, is untouched", path,
                         strerror(reason));
    }
    if (sync_folder(io, path) != 0)
        return text_fail(error,
                         "%s: is written, but its folder could not be synced (%s): a power cut may still undo it", path,
                         strerror(errno));
    return 0;
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

static int check_numbers(const char *path, const checkpoint_part *part, text_error *error) {
    for (int i = 0; i < part->table->count; i++) {
        const dea_tensor *tensor = &part->table->tensors[i];
        const size_t at = checkpoint_first_bad(part->data + tensor->offset, tensor->count);
        if (at < tensor->count)
            return text_fail(
                error,
                "%s: not written: '%s%s' holds %g at element %zu; the old file, if any, is untouched (lower "
                "the learning rate and go on from it)",
                path, part->prefix, tensor->name, (double)part->data[tensor->offset + at], at);
    }
    return 0;
}

int checkpoint_save(const char *path, const checkpoint_part *parts, int part_count, const checkpoint_pair *pairs,
                    int pair_count, const checkpoint_io *io, text_error *error) {
    for (int p = 0; p < part_count; p++)
        if (check_numbers(path, &parts[p], error) != 0) return -1;
    for (int i = 0; i < pair_count; i++)
        for (int j = -2; j < i; j++) {
            const char *taken = j == -2 ? "format" : j == -1 ? "dea_version" : pairs[j].key;
            if (strcmp(pairs[i].key, taken) == 0)
                return text_fail(error, "%s: not written: the metadata key '%s' stands twice", path, taken);
        }
    char *header = print_header(path, parts, part_count, pairs, pair_count, error);
    if (!header) return -1;
    char *target = safe_file_target(path); /* a link to another disk stays one */
    char *temporary = target ? malloc(strlen(target) + sizeof ".tmp") : NULL;
    int status = -1;
    if (temporary) {
        strcpy(temporary, target);
        strcat(temporary, ".tmp");
        status = replace(target, temporary, header, parts, part_count, io ? io : &checkpoint_posix, error);
    } else {
        text_fail(error, "%s: cannot be written: %s", path, strerror(errno));
    }
    free(temporary);
    free(target);
    free(header);
    return status;
}

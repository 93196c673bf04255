/* Checkpoints: the same bits back, every damaged file refused with one line, and nothing lost whatever fails or is
 * killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "data/rng.h"

/* In memory where that can be had: a kill looks the same there, and hundreds of syncs cost nothing. */
static char folder[64];
static char path[128], temporary[160];

/* ---- a small model ----------------------------------------------------------------------------------------------- */

enum { TENSORS = 4, ELEMENTS = 512 };

static dea_tensor tensors[TENSORS];
static dea_table table;
static dea_real params[ELEMENTS], loaded[ELEMENTS];

static int make_folder(void **state) {
    (void)state;
    const int shapes[TENSORS][4] = {{5, 3}, {7}, {2, 3, 4}, {1, 1, 1, 9}}, ranks[TENSORS] = {2, 1, 3, 4};
    const char *names[TENSORS] = {"layer.0.w", "layer.0.b", "gate", "deep"};
    table = dea_table_init(tensors, TENSORS);
    for (int i = 0; i < TENSORS; i++)
        if (dea_table_add(&table, "", names[i], ranks[i], shapes[i], DEA_GROUP_MAIN, 0, NULL) != DEA_OK) return -1;
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/dea-checkpoint-XXXXXX" : "/tmp/dea-checkpoint-XXXXXX");
    if (table.elements > ELEMENTS || !mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    unlink(temporary);
    return rmdir(folder);
}

/* Every element, padding too, a number that only `salt` makes. */
static void fill(dea_real *data, double salt) {
    for (int i = 0; i < ELEMENTS; i++) data[i] = (dea_real)(salt * 1000 + i + 0.25);
}

static checkpoint_part part(dea_real *data) {
    return (checkpoint_part){"", &table, data};
}

static int save(double salt, const checkpoint_io *io, text_error *error) {
    const checkpoint_pair pairs[] = {{"config", "{\"layers\":2}"}, {"step", "17"}};
    fill(params, salt);
    const checkpoint_part weights = part(params);
    return checkpoint_save(path, &weights, 1, pairs, 2, io, error);
}

static int load(const checkpoint_io *io, text_error *error) {
    checkpoint *c = checkpoint_open(path, io, error);
    const checkpoint_part weights = part(loaded);
    const int status = c ? checkpoint_read(c, &weights, 1, CHECKPOINT_EXACT, error) : -1;
    checkpoint_close(c);
    return status;
}

static void assert_holds(double salt) {
    text_error error = {""};
    fill(params, salt);
    memset(loaded, 0, sizeof loaded);
    if (load(NULL, &error) != TENSORS) fail_msg("%s", error.message);
    for (int i = 0; i < TENSORS; i++)
        assert_memory_equal(loaded + tensors[i].offset, params + tensors[i].offset, tensors[i].count * sizeof *loaded);
}

static unsigned char *read_file(const char *name, size_t *size) {
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void write_file(const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* One line, no control characters, of some length. */
static void assert_one_line(const char *message) {
    assert_true(strlen(message) > 10);
    for (const char *c = message; *c; c++) assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
}

/* Loading fails with a line that holds `what`, and has not touched the arena. */
static void assert_refused(const char *what) {
    text_error error = {""};
    fill(loaded, 3);
    fill(params, 3);
    assert_int_equal(load(NULL, &error), -1);
    assert_one_line(error.message);
    if (!strstr(error.message, what)) fail_msg("'%s' lacks '%s'", error.message, what);
    assert_memory_equal(loaded, params, sizeof loaded);
}

/* A file of this header and `size` bytes of tensors, all zero. */
static void write_header(const char *header, size_t size) {
    const size_t length = strlen(header);
    unsigned char *bytes = calloc(1, 8 + length + size);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    write_file(bytes, 8 + length + size);
    free(bytes);
}

/* ---- the same bits back ------------------------------------------------------------------------------------------ */

static void test_round_trip(void **state) {
    (void)state;
    text_error error = {""};
    assert_int_equal(save(1, NULL, &error), 0);
    assert_holds(1);
    assert_int_equal(access(temporary, F_OK), -1);
}

static void test_bits(void **state) {
    (void)state;
    text_error error = {""};
    memset(params, 0, sizeof params);
    memset(loaded, 0x55, sizeof loaded);
    dea_real *w = params + tensors[0].offset;
    w[0] = -0.0f, w[1] = 1e-45f, w[2] = -3.4028235e38f, w[3] = 1.17549421e-38f, w[4] = 0.1f;
    const checkpoint_part weights = part(params);
    assert_int_equal(checkpoint_save(path, &weights, 1, NULL, 0, NULL, &error), 0);
    assert_int_equal(load(NULL, &error), TENSORS);
    for (int i = 0; i < TENSORS; i++)
        assert_memory_equal(loaded + tensors[i].offset, params + tensors[i].offset, tensors[i].count * sizeof *loaded);
    unsigned char padding[sizeof(dea_real)];
    memset(padding, 0x55, sizeof padding);
    assert_memory_equal(loaded + tensors[1].offset + tensors[1].count, padding,
                        sizeof padding); /* not the file's business */
}

static void test_layout_of_the_file(void **state) {
    (void)state;
    text_error error = {""};
    assert_int_equal(save(1, NULL, &error), 0);
    size_t size, elements = 0;
    unsigned char *bytes = read_file(path, &size);
    const uint64_t length = bytes[0] | (uint64_t)bytes[1] << 8; /* below 65,536 here */
    for (int i = 2; i < 8; i++) assert_int_equal(bytes[i], 0);
    for (int i = 0; i < TENSORS; i++) elements += tensors[i].count;
    assert_int_equal(length % 8, 0);
    assert_int_equal(size, 8 + length + 4 * elements);
    assert_int_equal(bytes[8], '{');
    const float first = 1000.25f; /* the first element, little-endian */
    uint32_t bits;
    memcpy(&bits, &first, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(bytes[8 + length + (size_t)i], bits >> (8 * i) & 255);
    free(bytes);
}

static void test_metadata(void **state) {
    (void)state;
    text_error error = {""};
    enum { LONG = 300000 };
    char *text = malloc(LONG + 1);
    assert_non_null(text);
    for (int i = 0; i < LONG; i++) text[i] = i % 7 == 0 ? '\n' : (char)('!' + i % 90);
    text[LONG] = '\0';
    const checkpoint_pair pairs[] = {
        {"vocab", text},
        {"empty", ""},
        {"odd \"key\"", "\xe6\x9d\xb1\xe4\xba\xac\t\\ \"q\" \x01"},
        {"step", "-42"},
        {"seed", "18446744073709551615"},
        {"loss", "0.69314718055994529"},
        {"words", "12x"},
        {"infinite", "inf"},
    };
    fill(params, 1);
    const checkpoint_part weights = part(params);
    assert_int_equal(checkpoint_save(path, &weights, 1, pairs, sizeof pairs / sizeof *pairs, NULL, &error), 0);
    checkpoint *c = checkpoint_open(path, NULL, &error);
    assert_non_null(c);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_string_equal(checkpoint_get(c, pairs[i].key), pairs[i].value);
    assert_string_equal(checkpoint_get(c, "dea_version"), DEA_VERSION);
    assert_null(checkpoint_get(c, "Vocab"));
    assert_null(checkpoint_need(c, "missing", &error));
    assert_one_line(error.message);
    int64_t step;
    uint64_t seed;
    double loss;
    assert_int_equal(checkpoint_need_integer(c, "step", -100, 100, &step, &error), 0);
    assert_int_equal(step, -42);
    assert_int_equal(checkpoint_need_unsigned(c, "seed", &seed, &error), 0);
    assert_true(seed == UINT64_MAX);
    assert_int_equal(checkpoint_need_real(c, "loss", &loss, &error), 0);
    assert_true(loss == 0.69314718055994529);
    assert_int_equal(checkpoint_need_integer(c, "step", 0, 100, &step, &error), -1);
    assert_int_equal(checkpoint_need_integer(c, "seed", INT64_MIN, INT64_MAX, &step, &error), -1);
    assert_int_equal(checkpoint_need_integer(c, "words", 0, 100, &step, &error), -1);
    assert_int_equal(checkpoint_need_integer(c, "empty", 0, 100, &step, &error), -1);
    assert_int_equal(checkpoint_need_unsigned(c, "step", &seed, &error), -1);
    assert_int_equal(checkpoint_need_real(c, "infinite", &loss, &error), -1);
    assert_int_equal(checkpoint_need_real(c, "words", &loss, &error), -1);
    assert_int_equal(step, -42);
    assert_int_equal(checkpoint_tensors(c), TENSORS);
    assert_string_equal(checkpoint_tensor_name(c, 2), "gate");
    assert_null(checkpoint_tensor_name(c, TENSORS));
    checkpoint_close(c);
    free(text);
}

static void test_state_of_three_arenas(void **state) {
    (void)state;
    text_error error = {""};
    static dea_real m[ELEMENTS], v[ELEMENTS], m2[ELEMENTS], v2[ELEMENTS];
    fill(params, 1), fill(m, 2), fill(v, 3);
    const checkpoint_part out[3] = {{"", &table, params}, {"m.", &table, m}, {"v.", &table, v}};
    const checkpoint_part in[3] = {{"", &table, loaded}, {"m.", &table, m2}, {"v.", &table, v2}};
    assert_int_equal(checkpoint_save(path, out, 3, NULL, 0, NULL, &error), 0);
    checkpoint *c = checkpoint_open(path, NULL, &error);
    assert_non_null(c);
    assert_int_equal(checkpoint_read(c, in, 3, CHECKPOINT_EXACT, &error), 3 * TENSORS);
    for (int i = 0; i < TENSORS; i++) {
        const size_t at = tensors[i].offset, bytes = tensors[i].count * sizeof *m;
        assert_memory_equal(loaded + at, params + at, bytes);
        assert_memory_equal(m2 + at, m + at, bytes);
        assert_memory_equal(v2 + at, v + at, bytes);
    }
    assert_int_equal(checkpoint_read(c, in, 1, CHECKPOINT_EXACT, &error), -1); /* the moments are extra */
    assert_non_null(strstr(error.message, "'m.layer.0.w' that the model lacks"));
    assert_int_equal(checkpoint_read(c, in, 1, CHECKPOINT_EXTRA_OK, &error), TENSORS);
    checkpoint_close(c);

    /* A file of the weights has no moments: they keep what they hold where that is asked for. */
    assert_int_equal(save(5, NULL, &error), 0);
    c = checkpoint_open(path, NULL, &error);
    assert_int_equal(checkpoint_fits(c, in, 3, CHECKPOINT_EXACT, &error), -1);
    assert_non_null(strstr(error.message, "'m.layer.0.w' of the model is missing"));
    assert_int_equal(checkpoint_read(c, in, 3, CHECKPOINT_MISSING_OK, &error), TENSORS);
    assert_memory_equal(m2, m, tensors[0].count * sizeof *m);
    assert_true(loaded[0] == params[0]);
    checkpoint_close(c);
}

static void test_save_refuses(void **state) {
    (void)state;
    text_error error = {""};
    const dea_real bad[3] = {NAN, INFINITY, -INFINITY};
    const checkpoint_part weights = part(params), twice[2] = {part(params), part(params)};
    const checkpoint_pair same[2] = {{"a", "1"}, {"a", "2"}}, taken = {"format", "x"};
    assert_int_equal(save(1, NULL, &error), 0);
    for (int i = 0; i < 3; i++) {
        fill(params, 2);
        params[tensors[2].offset + 5] = bad[i];
        assert_int_equal(checkpoint_save(path, &weights, 1, NULL, 0, NULL, &error), -1);
        assert_one_line(error.message);
        assert_non_null(strstr(error.message, "'gate'"));
        assert_non_null(strstr(error.message, "element 5"));
        assert_holds(1);
    }
    fill(params, 2);
    assert_int_equal(checkpoint_save(path, twice, 2, NULL, 0, NULL, &error), -1);
    assert_non_null(strstr(error.message, "two tensors are named 'layer.0.w'"));
    assert_int_equal(checkpoint_save(path, &weights, 1, same, 2, NULL, &error), -1);
    assert_int_equal(checkpoint_save(path, &weights, 1, &taken, 1, NULL, &error), -1);
    assert_holds(1);
}

/* A link stays one; what it points to is replaced. */
static void test_link(void **state) {
    (void)state;
    text_error error = {""};
    struct stat status;
    char target[160];
    snprintf(target, sizeof target, "%s.target", path);
    unlink(path);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(save(1, NULL, &error), 0); /* to nothing yet */
    assert_int_equal(save(2, NULL, &error), 0);
    assert_true(lstat(path, &status) == 0 && S_ISLNK(status.st_mode));
    assert_true(lstat(target, &status) == 0 && S_ISREG(status.st_mode));
    assert_holds(2);
    unlink(path);
    assert_int_equal(rename(target, path), 0);
}

/* ---- damaged files ----------------------------------------------------------------------------------------------- */

static void test_missing_and_foreign(void **state) {
    (void)state;
    unlink(path);
    assert_refused("cannot be opened: No such file");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused("Is a directory");
    rmdir(path);
    write_file("", 0);
    assert_refused("0 bytes are too few");
    write_file("\x89PNG\r\n\x1a\n and so on, a picture", 29);
    assert_refused("is no checkpoint: it is another kind of file; give a .safetensors file of build/train");
    write_file("\x0b\0\0\0\0\0\0\0not JSON..", 18);
    assert_refused("or was cut off: it claims a header of 11 bytes, the file has 18");
    write_file("\x0a\0\0\0\0\0\0\0not JSON..", 18);
    assert_refused("not a JSON object");
    write_header("[1, 2]", 0);
    assert_refused("not a JSON object");
    write_header("{}x", 0);
    assert_refused("not a JSON object");
    write_header("{}", 0);
    assert_refused("another program");
    write_header(
        "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    assert_refused("another program");
    write_header("{\"__metadata__\":{\"format\":\"dea\"}}", 0);
    assert_refused("holds no tensor");
}

static void test_every_truncation(void **state) {
    (void)state;
    text_error error = {""};
    assert_int_equal(save(1, NULL, &error), 0);
    size_t size;
    unsigned char *bytes = read_file(path, &size);
    for (size_t length = 0; length < size; length++) {
        write_file(bytes, length);
        assert_refused(path);
    }
    bytes[size] = 0;
    write_file(bytes, size + 1);
    assert_refused("1 bytes follow the last tensor");
    write_file(bytes, size);
    assert_holds(1);
    free(bytes);
}

static void test_hostile_header_length(void **state) {
    (void)state;
    const uint64_t lengths[] = {0, 1, 11, 1 << 20, (uint64_t)1 << 32, (uint64_t)1 << 63, UINT64_MAX - 7, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        unsigned char bytes[18] = {0};
        for (int b = 0; b < 8; b++) bytes[b] = (unsigned char)(lengths[i] >> (8 * b));
        memcpy(bytes + 8, "{\"a\":1}   ", 10);
        write_file(bytes, sizeof bytes);
        assert_refused("is no checkpoint");
    }
    /* A file that is truly as long as it claims, sparse, is not read into memory either. */
    const unsigned char big[8] = {0, 0, 0, 64}; /* 1 GB */
    write_file(big, sizeof big);
    assert_int_equal(truncate(path, ((off_t)1 << 30) + 8), 0);
    assert_refused("is no checkpoint");
}

#define META                     "\"__metadata__\":{\"format\":\"dea\"}"
#define ENTRY(shape, begin, end) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static void test_damaged_headers(void **state) {
    (void)state;
    const struct {
        const char *header;
        size_t bytes;
        const char *what;
    } cases[] = {
        {"{" META ",\"a\":" ENTRY("[2]", "0", "8") ",\"b\":" ENTRY("[2]", "4", "12") "}", 12, "'b' overlaps"},
        {"{" META ",\"a\":" ENTRY("[2]", "0", "8") ",\"b\":" ENTRY("[2]", "0", "8") "}", 8, "'b' overlaps"},
        {"{" META ",\"a\":" ENTRY("[2]", "0", "8") ",\"b\":" ENTRY("[2]", "12", "20") "}", 20, "'b' leaves a gap"},
        {"{" META ",\"a\":" ENTRY("[2]", "4", "12") "}", 12, "'a' leaves a gap"},
        {"{" META ",\"a\":" ENTRY("[2]", "0", "8") "}", 7, "cut off: 7 of 8"},
        {"{" META ",\"a\":" ENTRY("[2]", "0", "8") "}", 9, "1 bytes follow"},
        {"{" META ",\"a\":" ENTRY("[1]", "0", "8") "}", 8, "do not fit its shape"},
        {"{" META ",\"a\":" ENTRY("[3]", "0", "8") "}", 8, "do not fit its shape"},
        {"{" META ",\"a\":" ENTRY("[2]", "0", "9") "}", 9, "do not fit its shape"},
        {"{" META ",\"a\":" ENTRY("[2147483647,2147483647,2147483647,2147483647]", "0", "4") "}", 4,
         "do not fit its shape"},
        {"{" META ",\"a\":" ENTRY("[65536,65536,65536,65536]", "0", "0") "}", 0, "do not fit its shape"},
        {"{" META ",\"a\":" ENTRY("[0]", "0", "0") "}", 0, "a shape that is not"},
        {"{" META ",\"a\":" ENTRY("[-2]", "0", "8") "}", 8, "a shape that is not"},
        {"{" META ",\"a\":" ENTRY("[1.5]", "0", "8") "}", 8, "a shape that is not"},
        {"{" META ",\"a\":" ENTRY("[4294967298]", "0", "8") "}", 8, "a shape that is not"},
        {"{" META ",\"a\":" ENTRY("[1,1,1,1,2]", "0", "8") "}", 8, "a shape that is not"},
        {"{" META ",\"a\":" ENTRY("\"2\"", "0", "8") "}", 8, "a shape that is not"},
        {"{" META ",\"a\":" ENTRY("[2]", "8", "0") "}", 8, "data_offsets that are not"},
        {"{" META ",\"a\":" ENTRY("[2]", "-8", "0") "}", 8, "data_offsets that are not"},
        {"{" META ",\"a\":" ENTRY("[2]", "0", "1e300") "}", 8, "data_offsets that are not"},
        {"{" META ",\"a\":" ENTRY("[2]", "0", "18446744073709551624") "}", 8, "data_offsets that are not"},
        {"{" META ",\"a\":" ENTRY("[2]", "0", "8,16") "}", 8, "data_offsets that are not"},
        {"{" META ",\"a\":" ENTRY("[2]", "0", "1e12") "}", 8, "do not fit its shape"},
        {"{" META ",\"a\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]}}", 8, "not of dtype F32"},
        {"{" META ",\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "not of dtype F32"},
        {"{" META ",\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "needs dtype"},
        {"{" META ",\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
         "needs dtype"},
        {"{" META ",\"a\":7}", 8, "needs dtype"},
        {"{" META ",\"a\":" ENTRY("[1]", "0", "4") ",\"a\":" ENTRY("[1]", "4", "8") "}", 8, "'a' stands twice"},
        {"{" META "," META ",\"a\":" ENTRY("[2]", "0", "8") "}", 8, "not one map"},
        {"{\"__metadata__\":{\"format\":\"dea\",\"k\":\"1\",\"k\":\"2\"},\"a\":" ENTRY("[2]", "0", "8") "}", 8,
         "not one map"},
        {"{\"__metadata__\":{\"format\":\"dea\",\"k\":1},\"a\":" ENTRY("[2]", "0", "8") "}", 8, "not one map"},
        {"{\"__metadata__\":[],\"a\":" ENTRY("[2]", "0", "8") "}", 8, "not one map"},
        {"{\"a\":" ENTRY("[2]", "0", "8") "}", 8, "another program"},
        {"{" META ",\"a\\n\\u0007\xff\":" ENTRY("[1]", "0", "8") "}", 8, "\\x0A\\x07\\xFF"},
        {"{" META ",\"a\":" ENTRY("[2]", "0", "8") "}", 8,
         "'layer.0.w' of the model is missing"}, /* sound, but another model */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_header(cases[i].header, cases[i].bytes);
        assert_refused(cases[i].what);
    }
    char *deep = malloc(200002); /* nesting must not eat the stack */
    assert_non_null(deep);
    memset(deep, '[', 200000);
    strcpy(deep, "{\"a\":");
    deep[5] = '[';
    deep[200000] = '\0';
    write_header(deep, 0);
    assert_refused("not a JSON object");
    free(deep);
}

static void test_other_shapes(void **state) {
    (void)state;
    text_error error = {""};
    assert_int_equal(save(1, NULL, &error), 0);
    tensors[0].shape[0] = 3, tensors[0].shape[1] = 5; /* as many elements, another matrix */
    assert_refused("'layer.0.w' has another shape");
    tensors[0].shape[0] = 5, tensors[0].shape[1] = 3;
    tensors[1].rank = 2;
    assert_refused("'layer.0.b' has another shape");
    tensors[1].rank = 1;
    assert_holds(1);
}

static void test_nonfinite_in_the_file(void **state) {
    (void)state;
    text_error error = {""};
    const uint32_t patterns[4] = {0x7fc00000u, 0x7f800000u, 0xff800000u, 0x7f800001u};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(save(1, NULL, &error), 0);
        size_t size;
        unsigned char *bytes = read_file(path, &size);
        for (size_t b = 0; b < 4; b++)
            bytes[size - 4 + b] = (unsigned char)(patterns[i] >> (8 * b)); /* the last of 'deep' */
        write_file(bytes, size);
        free(bytes);
        assert_refused("'deep' holds");
        assert_refused("element 8");
    }
}

/* Bytes of the header changed, dropped, doubled: a refusal that leaves the arena alone, or a model that is whole. */
static void test_mutated_headers(void **state) {
    (void)state;
    text_error error = {""};
    assert_int_equal(save(1, NULL, &error), 0);
    size_t size;
    unsigned char *sound = read_file(path, &size), *bytes = malloc(size + 64);
    assert_non_null(bytes);
    const size_t header = 8 + (sound[0] | (size_t)sound[1] << 8);
    rng draws = {2024, 0};
    int opened = 0, refused = 0;
    for (int round = 0; round < 8000; round++) {
        size_t length = size;
        memcpy(bytes, sound, size);
        const int changes = 1 + (int)rng_below(&draws, 3);
        for (int k = 0; k < changes; k++) {
            const size_t at = rng_below(&draws, 4) ? 8 + rng_below(&draws, (uint32_t)header - 8) : rng_below(&draws, 8);
            static const char likely[] = "0123456789\"{}[]:,-.eE\\u \0\x80\xff";
            switch (rng_below(&draws, 4)) {
            case 0:
                bytes[at] = (unsigned char)rng_below(&draws, 256);
                break;
            case 1:
                bytes[at] = (unsigned char)likely[rng_below(&draws, sizeof likely)];
                break;
            case 2: /* drop one byte, keep the length */
                memmove(bytes + at, bytes + at + 1, length - at - 1);
                bytes[length - 1] = 0;
                break;
            default: /* insert one and let the header grow */
                memmove(bytes + at + 1, bytes + at, length - at);
                bytes[at] = (unsigned char)likely[rng_below(&draws, sizeof likely)];
                length++;
                if (at >= 8) bytes[0]++;
                break;
            }
        }
        write_file(bytes, length);
        fill(loaded, 3);
        fill(params, 3);
        error.message[0] = '\0';
        const int got = load(NULL, &error);
        if (got < 0) {
            refused++;
            assert_one_line(error.message);
            assert_memory_equal(loaded, params, sizeof loaded);
        } else {
            opened++;
            assert_int_equal(got, TENSORS);
            for (int i = 0; i < TENSORS; i++)
                for (size_t j = 0; j < tensors[i].count; j++) assert_true(isfinite(loaded[tensors[i].offset + j]));
        }
    }
    print_message("8,000 mutants: %d refused, %d still whole (metadata or blanks changed)\n", refused, opened);
    assert_true(refused > 4000 && opened > 0);
    free(bytes);
    free(sound);
}

/* ---- failing file operations ------------------------------------------------------------------------------------- */

typedef enum operation { CREATE, OPEN, WRITE, READ, SIZE, SYNC, CLOSE, RENAME, REMOVE, OPERATIONS } operation;

static struct {
    int fail_at[OPERATIONS]; /* the how-many-th call fails, from 1; 0: none */
    int calls[OPERATIONS];
    int reason;  /* errno of the failure */
    size_t most; /* bytes a write or read takes at a time; 0: all */
} disk;

/* Whether this call must fail. */
static int fails(operation op) {
    if (++disk.calls[op] != disk.fail_at[op]) return 0;
    errno = disk.reason;
    return 1;
}

static size_t at_most(size_t size) {
    return disk.most && size > disk.most ? disk.most : size;
}

static int test_create(const char *name) {
    return fails(CREATE) ? -1 : checkpoint_posix.create(name);
}
static int test_open(const char *name) {
    return fails(OPEN) ? -1 : checkpoint_posix.open_read(name);
}
static ssize_t test_write(int fd, const void *data, size_t size) {
    return fails(WRITE) ? (disk.reason ? -1 : 0) : checkpoint_posix.write(fd, data, at_most(size));
}
static ssize_t test_read(int fd, void *data, size_t size, off_t offset) {
    return fails(READ) ? (disk.reason ? -1 : 0) : checkpoint_posix.read(fd, data, at_most(size), offset);
}
static off_t test_size(int fd) {
    return fails(SIZE) ? -1 : checkpoint_posix.size(fd);
}
static int test_sync(int fd) {
    return fails(SYNC) ? -1 : checkpoint_posix.sync(fd);
}
static int test_close(int fd) { /* POSIX: the descriptor is gone even then */
    const int status = checkpoint_posix.close(fd);
    return fails(CLOSE) ? -1 : status;
}
static int test_rename(const char *from, const char *to) {
    return fails(RENAME) ? -1 : checkpoint_posix.rename(from, to);
}
static int test_remove(const char *name) {
    return fails(REMOVE) ? -1 : checkpoint_posix.remove(name);
}

static const checkpoint_io test_io = {test_create, test_open,  test_write,  test_read,  test_size,
                                      test_sync,   test_close, test_rename, test_remove};

static void reset_disk(int reason) {
    memset(&disk, 0, sizeof disk);
    disk.reason = reason;
}

static int open_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++) count += dup2(fd, fd) == fd;
    return count;
}

/* Each call of `op` that a save makes, made to fail in turn. `kept`: the old file must still be there afterwards. */
static int fail_each_save(operation op, int reason) {
    text_error error = {""};
    const int descriptors = open_descriptors();
    int failures = 0;
    for (int n = 1;; n++) {
        reset_disk(0);
        assert_int_equal(save(1, NULL, &error), 0);
        reset_disk(reason);
        disk.fail_at[op] = n;
        error.message[0] = '\0';
        const int status = save(2, &test_io, &error);
        assert_int_equal(open_descriptors(), descriptors);
        assert_int_equal(access(temporary, F_OK), -1);
        if (disk.calls[op] < n) { /* there is no such call any more: it went well */
            assert_int_equal(status, 0);
            assert_holds(2);
            return failures;
        }
        if (op == SYNC && n == 2 && reason == EINVAL) { /* a file system that cannot sync folders is no error */
            assert_int_equal(status, 0);
            continue;
        }
        if (op == CLOSE && n == 2) { /* of the folder, after all is done */
            assert_int_equal(status, 0);
            continue;
        }
        failures++;
        assert_int_equal(status, -1);
        assert_one_line(error.message);
        assert_non_null(strstr(error.message, reason ? strerror(reason) : "No space left"));
        const int renamed =
            (op == SYNC && n == 2) || op == OPEN; /* what happens to the folder happens after the rename */
        assert_int_equal(strstr(error.message, "old file, if any, is untouched") == NULL, renamed);
        assert_holds(renamed ? 2 : 1);
    }
}

static void test_save_with_a_failing_disk(void **state) {
    (void)state;
    assert_int_equal(fail_each_save(CREATE, EACCES), 1);
    assert_true(fail_each_save(WRITE, ENOSPC) >= TENSORS + 2);
    assert_true(fail_each_save(WRITE, EIO) >= TENSORS + 2);
    assert_true(fail_each_save(WRITE, 0) >= TENSORS + 2); /* takes nothing and says nothing */
    assert_int_equal(fail_each_save(SYNC, EIO), 2);
    assert_int_equal(fail_each_save(SYNC, EINVAL), 1);
    assert_int_equal(fail_each_save(CLOSE, EDQUOT), 1);
    assert_int_equal(fail_each_save(RENAME, EXDEV), 1);
    assert_int_equal(fail_each_save(OPEN, EMFILE), 1);
}

static void test_save_when_nothing_can_be_removed(void **state) {
    (void)state;
    text_error error = {""};
    assert_int_equal(save(1, NULL, &error), 0);
    reset_disk(ENOSPC);
    disk.fail_at[WRITE] = 3;
    disk.fail_at[REMOVE] = 1;
    assert_int_equal(save(2, &test_io, &error), -1);
    assert_holds(1);
    assert_int_equal(access(temporary, F_OK), 0); /* left over, and no hindrance */
    assert_int_equal(save(3, NULL, &error), 0);
    assert_holds(3);
    assert_int_equal(access(temporary, F_OK), -1);
}

static void test_small_pieces_and_interruptions(void **state) {
    (void)state;
    text_error error = {""};
    for (int n = 1; n < 12; n++) {
        reset_disk(EINTR);
        disk.most = 7;
        disk.fail_at[WRITE] = n;
        assert_int_equal(save(n, &test_io, &error), 0);
        assert_holds(n);
        reset_disk(EINTR);
        disk.most = 5;
        disk.fail_at[READ] = n;
        assert_int_equal(load(&test_io, &error), TENSORS);
    }
}

static void test_load_with_a_failing_disk(void **state) {
    (void)state;
    text_error error = {""};
    assert_int_equal(save(1, NULL, &error), 0);
    const int descriptors = open_descriptors();
    const operation ops[3] = {OPEN, SIZE, READ};
    for (int i = 0; i < 3; i++)
        for (int reason = 0; reason <= EIO; reason += EIO)
            for (int n = 1;; n++) {
                if (reason == 0 && ops[i] != READ) break; /* only a read can say "end of file" */
                reset_disk(reason);
                disk.fail_at[ops[i]] = n;
                error.message[0] = '\0';
                const int status = load(&test_io, &error);
                assert_int_equal(open_descriptors(), descriptors);
                if (disk.calls[ops[i]] < n) {
                    assert_int_equal(status, TENSORS);
                    assert_true(n > 1);
                    break;
                }
                assert_int_equal(status, -1);
                assert_one_line(error.message);
            }
}

/* The kernel's own refusal: a file size limit, as a full disk would be met in the middle of a write. */
static void test_file_size_limit(void **state) {
    (void)state;
    text_error error = {""};
    assert_int_equal(save(1, NULL, &error), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit limit = {200, 200};
        signal(SIGXFSZ, SIG_IGN);
        _exit(setrlimit(RLIMIT_FSIZE, &limit) == 0 && save(2, NULL, &error) == -1 && strstr(error.message, "untouched")
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_holds(1);
}

static void test_unwritable_places(void **state) {
    (void)state;
    text_error error = {""};
    const checkpoint_part weights = part(params);
    fill(params, 1);
    char name[192];
    snprintf(name, sizeof name, "%s/no/such/folder", folder);
    assert_int_equal(checkpoint_save(name, &weights, 1, NULL, 0, NULL, &error), -1);
    assert_non_null(strstr(error.message, "No such file"));
    assert_int_equal(save(1, NULL, &error), 0);
    snprintf(name, sizeof name, "%s/x", path); /* below a file */
    assert_int_equal(checkpoint_save(name, &weights, 1, NULL, 0, NULL, &error), -1);
    assert_non_null(strstr(error.message, "Not a directory"));
    assert_holds(1);
}

/* ---- kill -9 ----------------------------------------------------------------------------------------------------- */

/* Saves 1, 2, 3, ... for ever, and tells `out` the number of each save that has returned. The model is larger here, so
 * that most of the time passes in the middle of a write. */
static void save_for_ever(const checkpoint_part *weights, size_t count, int first, int out) {
    text_error error;
    for (int step = first;; step++) {
        char number[16];
        snprintf(number, sizeof number, "%d", step);
        for (size_t i = 0; i < count; i++) weights->data[i] = (dea_real)step;
        const checkpoint_pair pair = {"step", number};
        if (checkpoint_save(path, weights, 1, &pair, 1, NULL, &error) != 0 ||
            write(out, &step, sizeof step) != sizeof step)
            _exit(1);
    }
}

static void test_kill_at_any_moment(void **state) {
    (void)state;
    enum { KILLS = 50, WIDTH = 256 };
    text_error error = {""};
    dea_tensor tensor[2];
    dea_table two = dea_table_init(tensor, 2);
    const int shape[2] = {WIDTH, WIDTH};
    assert_int_equal(dea_table_add(&two, "", "a", 2, shape, DEA_GROUP_MAIN, 0, NULL), DEA_OK);
    assert_int_equal(dea_table_add(&two, "", "b", 2, shape, DEA_GROUP_MAIN, 0, NULL), DEA_OK);
    dea_real *data = calloc(two.elements, sizeof *data);
    assert_non_null(data);
    const checkpoint_part weights = {"", &two, data};
    rng draws = {9, 0};
    int last = 0, torn = 0, saves = 0;
    assert_int_equal(checkpoint_save(path, &weights, 1, &(checkpoint_pair){"step", "0"}, 1, NULL, &error), 0);
    for (int kill_number = 0; kill_number < KILLS; kill_number++) {
        int ends[2], step;
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) save_for_ever(&weights, two.elements, last + 1, ends[1]);
        close(ends[1]);
        int status, reported = last;
        if (kill_number % 2 == 0)
            assert_int_equal(read(ends[0], &reported, sizeof reported), sizeof reported); /* a slow machine saves too */
        const struct timespec wait = {0, 1000000L + 1000L * (long)rng_below(&draws, 12000)};
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        while (read(ends[0], &step, sizeof step) == (ssize_t)sizeof step) reported = step;
        close(ends[0]);
        torn += access(temporary, F_OK) == 0;

        /* The last save that returned is there, or the one after it, whole. */
        int64_t there;
        checkpoint *c = checkpoint_open(path, NULL, &error);
        if (!c) fail_msg("%s", error.message);
        assert_int_equal(checkpoint_need_integer(c, "step", 0, 1000000, &there, &error), 0);
        assert_int_equal(checkpoint_read(c, &weights, 1, CHECKPOINT_EXACT, &error), 2);
        checkpoint_close(c);
        assert_true(there == reported || there == reported + 1);
        for (int i = 0; i < 2; i++)
            for (size_t j = 0; j < tensor[i].count; j++) assert_true(data[tensor[i].offset + j] == (dea_real)there);
        saves += (int)there - last;
        last = (int)there;
    }
    print_message("%d kills, %d of them in the middle of a write, %d saves\n", KILLS, torn, saves);
    assert_true(saves >= KILLS / 2 && torn > 0);
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_layout_of_the_file),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_state_of_three_arenas),
        cmocka_unit_test(test_save_refuses),
        cmocka_unit_test(test_link),
        cmocka_unit_test(test_missing_and_foreign),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_hostile_header_length),
        cmocka_unit_test(test_damaged_headers),
        cmocka_unit_test(test_other_shapes),
        cmocka_unit_test(test_nonfinite_in_the_file),
        cmocka_unit_test(test_mutated_headers),
        cmocka_unit_test(test_save_with_a_failing_disk),
        cmocka_unit_test(test_save_when_nothing_can_be_removed),
        cmocka_unit_test(test_small_pieces_and_interruptions),
        cmocka_unit_test(test_load_with_a_failing_disk),
        cmocka_unit_test(test_file_size_limit),
        cmocka_unit_test(test_unwritable_places),
        cmocka_unit_test(test_kill_at_any_moment),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

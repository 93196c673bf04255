#include "data/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/generator.h"
#include "data/knowledge.h"
#include "data/more.h"
#include "data/wordlists.h"

/* Rows for train, dev and test; half of them true. */
typedef struct quota {
    const char *source;
    size_t rows[DATA_SPLITS];
} quota;

static const quota generated[] = {{"babi16", {1500, 150, 150}},
                                  {"babi17", {1500, 150, 150}},
                                  {"babi18", {1500, 150, 150}},
                                  {"kinship", {2000, 200, 200}}};
static const quota isa = {"isa", {2000, 200, 200}}, partof = {"partof", {800, 80, 80}},
                   capital_quota = {"capital", {700, 70, 70}};

build_options build_defaults(void) {
    return (build_options){42,
                           1,
                           0,
                           "/usr/share/wordnet",
                           "/usr/share/dict/scowl",
                           "/usr/share/misc/countries.gz",
                           "/usr/share/kgeography"};
}

/* ---- a set of 64-bit hashes, so that no row comes twice */

typedef struct hash_set {
    uint64_t *slot; /* 0: free */
    size_t slots, count;
} hash_set;

static int set_grow(hash_set *s) {
    size_t more = s->slots ? 2 * s->slots : 1 << 14;
    uint64_t *slot = calloc(more, sizeof *slot);
    if (!slot) return -1;
    for (size_t i = 0; i < s->slots; i++) {
        size_t k = (size_t)(s->slot[i] >> 1) & (more - 1);
        if (!s->slot[i]) continue;
        while (slot[k]) k = (k + 1) & (more - 1);
        slot[k] = s->slot[i];
    }
    free(s->slot);
    s->slot = slot;
    s->slots = more;
    return 0;
}

/* 1: added, 0: was there, -1: no memory. */
static int set_add(hash_set *s, uint64_t hash) {
    hash |= 1;
    if (2 * (s->count + 1) > s->slots && set_grow(s)) return -1;
    size_t k = (size_t)(hash >> 1) & (s->slots - 1);
    while (s->slot[k]) {
        if (s->slot[k] == hash) return 0;
        k = (k + 1) & (s->slots - 1);
    }
    s->slot[k] = hash;
    s->count++;
    return 1;
}

/* ---- generated sources */

static uint64_t row_hash(const row *r) {
    return hash_string(hash_string(7, r->premise), r->hypothesis);
}

static int generate(const char *source, int split, uint64_t seed, size_t pairs, hash_set *seen, rows *out,
                    text_error *error) {
    data_stream s;
    data_story story;
    size_t made = 0, of_steps[4] = {0};
    int halves = !strcmp(source, "kinship"); /* as many stories of two steps as of three */
    data_stream_open(&s, source, data_split_name(split), data_stream_stages(source), seed);
    for (uint64_t i = 0; made < pairs; i++) {
        if (i > 1000 + 100 * (uint64_t)pairs)
            return text_fail(error, "%s: only %zu different stories for %s, %zu wanted: choose a smaller --scale",
                             source, made, data_split_name(split), pairs);
        data_stream_story(&s, 0, i, &story);
        size_t *of = &of_steps[story.rows[0].steps & 3];
        if (halves && *of >= (pairs + (story.rows[0].steps == 2)) / 2) continue;
        /* dev and test are made before train: what stands there is drawn again here */
        int fresh = set_add(seen, row_hash(&story.rows[0]));
        if (fresh < 0) return text_fail_memory(error, seen->slots * sizeof *seen->slot);
        if (!fresh) continue;
        row like = story.rows[1];
        if (add_twin_rows(out, &like, story.rows[1].hypothesis, story.rows[0].hypothesis, error)) return -1;
        ++*of;
        made++;
    }
    return 0;
}

static int generate_source(const quota *q, const build_options *o, rows *out, text_error *error) {
    static const int order[DATA_SPLITS] = {DATA_TEST, DATA_DEV, DATA_TRAIN};
    hash_set seen = {0};
    int status = 0;
    for (int i = 0; i < DATA_SPLITS && !status; i++)
        status = generate(q->source, order[i], o->seed, q->rows[order[i]] / 2 * o->scale, &seen, out, error);
    free(seen.slot);
    return status;
}

/* ---- sources from packages */

static int exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

static void note(build_notes *notes, const char *without, const char *path, const char *package) {
    if (notes->n == BUILD_NOTES) return;
    snprintf(notes->line[notes->n++], sizeof notes->line[0],
             "%s: %.200s is missing; package %s brings it (apt install %s)", without, path, package, package);
}

static void premises(const quota *q, size_t out[DATA_SPLITS]) {
    for (int i = 0; i < DATA_SPLITS; i++) out[i] = q->rows[i] / 2;
}

typedef int word_rows(const wordnet *w, const string_map *common, uint64_t seed, const size_t premises[DATA_SPLITS],
                      rows *out, text_error *error);

static void note_shortage(build_notes *notes, const quota *q, const rows *out, size_t first) {
    size_t wanted = q->rows[0] + q->rows[1] + q->rows[2], made = out->count - first;
    if (made < wanted && notes->n < BUILD_NOTES)
        snprintf(notes->line[notes->n++], sizeof notes->line[0], "%s: the files hold only %zu of %zu rows", q->source,
                 made, wanted);
}

static int word_sources(const build_options *o, rows *out, build_notes *notes, build_progress *progress, void *context,
                        text_error *error) {
    static const struct {
        const quota *q;
        word_rows *make;
    } sources[] = {{&isa, isa_rows}, {&partof, partof_rows}};
    char path[4096];
    int missing = 0, status;
    snprintf(path, sizeof path, "%s/data.noun", o->wordnet);
    if (!exists(path)) note(notes, "isa, partof left out", path, "wordnet-base"), missing = 1;
    snprintf(path, sizeof path, "%s/english-words.10", o->scowl);
    if (!exists(path)) note(notes, "isa, partof left out", path, "scowl"), missing = 1;
    if (missing) return 0;
    wordnet w = {0};
    string_map common = {0};
    status = wordlists_load(&common, o->scowl, error) || wordnet_load(&w, o->wordnet, error) ? -1 : 0;
    for (size_t i = 0; i < COUNT_OF(sources) && !status; i++) {
        size_t want[DATA_SPLITS], first = out->count;
        premises(sources[i].q, want);
        status = sources[i].make(&w, &common, o->seed, want, out, error);
        if (!status) note_shortage(notes, sources[i].q, out, first);
        if (!status && progress && progress(context, sources[i].q->source, out->count))
            status = text_fail(error, "stopped");
    }
    if (!status && o->more) status = more_rows(&w, o->seed, out, out, error);
    wordnet_free(&w);
    string_map_free(&common);
    return status;
}

static int capital_source(const build_options *o, rows *out, build_notes *notes, text_error *error) {
    capitals c = {0};
    size_t want[DATA_SPLITS], first = out->count;
    int status = 0, countries = exists(o->countries), maps = exists(o->kgeography);
    const char *without = countries || maps ? "capital made with fewer pairs" : "capital left out";
    if (!countries) note(notes, without, o->countries, "miscfiles");
    if (!maps) note(notes, without, o->kgeography, "kgeography-data");
    if (!countries && !maps) return 0;
    if (countries) status = capitals_load_countries(&c, o->countries, error);
    if (!status && maps) status = capitals_load_maps(&c, o->kgeography, error);
    if (!status) {
        capitals_finish(&c);
        premises(&capital_quota, want);
        status = capital_rows(&c, o->seed, want, out, error);
        note_shortage(notes, &capital_quota, out, first);
    }
    capitals_free(&c);
    return status;
}

/* ---- all */

/* Tab sorts before every byte of a field, so comparing field by field is comparing the bytes of the lines. */
static int by_line(const void *a, const void *b) {
    const row *x = a, *y = b;
    int order = strcmp(x->split, y->split);
    if (!order) order = strcmp(x->source, y->source);
    if (!order) order = strcmp(x->relation, y->relation);
    if (!order) order = x->label - y->label;
    if (!order) order = strcmp(x->kind, y->kind);
    if (!order) order = x->steps - y->steps;
    if (!order) order = strcmp(x->group, y->group);
    if (!order) order = strcmp(x->premise, y->premise);
    return order ? order : strcmp(x->hypothesis, y->hypothesis);
}

void rows_sort(rows *list) {
    if (list->count) qsort(list->row, list->count, sizeof *list->row, by_line);
}

int data_build(const build_options *options, rows *out, build_notes *notes, build_progress *progress, void *context,
               text_error *error) {
    notes->n = 0;
    for (size_t i = 0; i < COUNT_OF(generated); i++) {
        if (generate_source(&generated[i], options, out, error)) return -1;
        if (progress && progress(context, generated[i].source, out->count)) return text_fail(error, "stopped");
    }
    if (word_sources(options, out, notes, progress, context, error)) return -1;
    if (capital_source(options, out, notes, error)) return -1;
    if (progress && progress(context, capital_quota.source, out->count)) return text_fail(error, "stopped");
    rows_sort(out);
    return 0;
}

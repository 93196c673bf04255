#include "data/stream.h"

#include <string.h>

#include "data/generator.h"
#include "data/split.h"

static const generator *const generators[] = {&babi16_generator, &babi17_generator, &babi18_generator,
                                              &babi18b_generator, &kinship_generator};

static int find(const char *source) {
    for (size_t i = 0; i < COUNT_OF(generators); i++)
        if (!strcmp(source, generators[i]->source)) return (int)i;
    return -1;
}

const char *const *data_stream_sources(void) {
    static const char *const sources[] = {"babi16", "babi17", "babi18", "babi18b", "kinship", NULL};
    return sources;
}

int data_stream_stages(const char *source) {
    int i = find(source);
    return i < 0 ? 0 : generators[i]->stages;
}

const char *data_stream_describe(const char *source, int stage) {
    int i = find(source);
    return i < 0 || stage < 1 || stage > generators[i]->stages ? NULL : generators[i]->describe[stage - 1];
}

int data_stream_open(data_stream *s, const char *source, const char *split, int stage, uint64_t seed) {
    memset(s, 0, sizeof *s);
    s->source = find(source);
    s->split = data_split_by_name(split);
    s->stage = stage;
    if (s->source < 0 || s->split < 0) return -1;
    if (stage < 1 || stage > generators[s->source]->stages) return -2;
    s->key = rng_derive(rng_derive(rng_derive(seed, hash_string(0, source)), (uint64_t)s->split), (uint64_t)stage);
    generators[s->source]->open(s);
    return 0;
}

void data_stream_story(const data_stream *s, uint64_t step, uint64_t index, data_story *out) {
    rng r = {rng_derive(rng_derive(s->key, step), index), 0};
    out->n = 0;
    out->used = 0;
    generators[s->source]->draw(s, &r, out);
}

const char *story_begin(data_story *story) {
    return story->text + story->used;
}

void story_put(data_story *story, const char *s) {
    size_t n = strlen(s), room = DATA_STORY_TEXT - 1 - story->used;
    if (n > room) n = room;
    memcpy(story->text + story->used, s, n);
    story->used += n;
}

void story_end(data_story *story) {
    story->text[story->used] = 0;
    if (story->used < DATA_STORY_TEXT - 1) story->used++;
}

row *story_row(data_story *story, const char *source, const char *split, const char *relation, int label, int steps,
               const char *group) {
    row *r = &story->rows[story->n++];
    *r = (row){split, source, relation, label, label ? "true" : "hard", steps, group, "", ""};
    return r;
}

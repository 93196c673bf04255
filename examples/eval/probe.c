#include "eval/probe.h"

#include <stdlib.h>
#include <string.h>

#include "data/stream.h"
#include "eval/score.h"

enum { STORIES = 200, SEED = 18 };

int probe_applies(const row *rows, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].source, "babi18") == 0) return 1;
    return 0;
}

static int score_story(table_row *out, const model *m, const data_story *story, const score_options *how,
                       size_t *unknown, text_error *error) {
    scores s;
    if (scores_run(&s, m, story->rows, (size_t)story->n, how, error) != 0) return -1;
    *unknown += s.unknown;
    out->count += story->n;
    for (int i = 0; i < story->n; i++) out->right += s.right[i];
    scores_free(&s);
    return 0;
}

int probe_run(table_row *out, const model *m, const dea_threads *threads, text_error *error) {
    const score_options how = {.cut = 1, .threads = *threads};
    data_stream *stream = malloc(sizeof *stream);
    data_story *story = malloc(sizeof *story);
    size_t unknown = 0;
    *out = (table_row){.name = "babi18b, fresh"};
    int status = stream && story ? 0 : text_fail_memory(error, sizeof *stream + sizeof *story);
    if (status == 0) (void)data_stream_open(stream, "babi18b", "test", data_stream_stages("babi18b"), SEED);
    for (uint64_t i = 0; status == 0 && i < STORIES; i++) {
        data_stream_story(stream, 0, i, story);
        status = score_story(out, m, story, &how, &unknown, error);
    }
    if (unknown) out->count = out->right = 0;
    free(story);
    free(stream);
    return status;
}

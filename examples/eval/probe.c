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

/* The rows of the stories, which own their texts; every story of babi18b fills all its places. */
static void draw(data_story *stories, row *rows, data_stream *stream) {
    (void)data_stream_open(stream, "babi18b", "test", data_stream_stages("babi18b"), SEED);
    for (size_t i = 0; i < STORIES; i++) {
        data_stream_story(stream, 0, i, &stories[i]);
        memcpy(rows + i * DATA_STORY_ROWS, stories[i].rows, sizeof stories[i].rows);
    }
}

int probe_run(table_row *out, const model *m, const dea_threads *threads, text_error *error) {
    enum { ROWS = STORIES * DATA_STORY_ROWS };
    const score_options how = {.cut = 1, .threads = *threads};
    data_stream *stream = malloc(sizeof *stream);
    data_story *stories = malloc(STORIES * sizeof *stories);
    row *rows = malloc(ROWS * sizeof *rows);
    scores s = {0};
    *out = (table_row){.name = "babi18b, fresh"};
    int status = stream && stories && rows ? 0 : text_fail_memory(error, STORIES * sizeof *stories);
    if (status == 0) draw(stories, rows, stream);
    if (status == 0) status = scores_run(&s, m, rows, ROWS, &how, error);
    if (status == 0 && s.unknown == 0) {
        out->count = ROWS;
        for (int i = 0; i < ROWS; i++) out->right += s.right[i];
    }
    scores_free(&s);
    free(rows);
    free(stories);
    free(stream);
    return status;
}

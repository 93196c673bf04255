#include "visualize/capture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "encoder/batch.h"

void capture_free(capture *c) {
    encoded_pair_free(&c->pair);
    scores_free(&c->sample);
    free(c->token);
    free(c->segment);
    free(c->memory);
    free(c->alpha);
    free(c->probability);
    *c = (capture){0};
}

static void describe_model(capture *c, const model *m, const char *name) {
    const encoder_config *config = &m->encoder->config;
    const char *preset = checkpoint_get(m->file, "preset"), *step = checkpoint_get(m->file, "step");
    snprintf(c->model_text, sizeof c->model_text, "%s%s%s: %d layers of %d heads, %d wide%s%s%s", preset ? preset : "",
             preset ? " model " : "", name, config->layers, config->heads, config->d_model, step ? ", after " : "",
             step ? step : "", step ? " steps" : "");
    c->v.model = c->model_text;
}

static int take_tokens(capture *c, const model *m, text_error *error) {
    const size_t tokens = c->pair.length;
    c->token = malloc(tokens * sizeof *c->token);
    c->segment = malloc(tokens * sizeof *c->segment);
    if (!c->token || !c->segment) return text_fail_memory(error, tokens * sizeof *c->token);
    for (size_t t = 0; t < tokens; t++) {
        c->token[t] = tokenizer_piece(m->vocabulary, c->pair.id[t]);
        c->segment[t] = c->pair.segment[t];
    }
    c->v.tokens = (int)tokens;
    c->v.token = c->token;
    c->v.segment = c->segment;
    return 0;
}

/* Labels as a map, from the oracle or from the user. */
static int take_labels(capture *c, const capture_pair *pair, text_error *error) {
    const size_t tokens = c->pair.length;
    block_list blocks = {0};
    int failed = 0;
    if (pair->row && pair->labels)
        failed = labeller_add(pair->labels, pair->row, &c->pair, 0, &blocks, error);
    else if (isfinite(pair->alpha))
        failed = blocks_add_pair(&blocks, 0, &c->pair, (float)pair->alpha, error);
    if (!failed && blocks.count) {
        c->alpha = malloc(tokens * tokens * sizeof *c->alpha);
        if (!c->alpha) failed = text_fail_memory(error, tokens * tokens * sizeof *c->alpha);
    }
    if (!failed && blocks.count) {
        for (size_t i = 0; i < tokens * tokens; i++) c->alpha[i] = NAN;
        for (size_t b = 0; b < blocks.count; b++)
            for (int q = blocks.block[b].q_begin; q < blocks.block[b].q_end; q++)
                for (int k = blocks.block[b].k_begin; k < blocks.block[b].k_end; k++)
                    c->alpha[(size_t)q * tokens + (size_t)k] = (float)blocks.block[b].alpha;
        c->v.alpha = c->alpha;
    }
    block_list_free(&blocks);
    return failed;
}

/* Room for the five maps of every layer, [map, layer, head, query, key]. */
static dea_maps *take_maps(capture *c, const encoder_config *config, text_error *error) {
    const size_t layers = (size_t)config->layers, tokens = c->pair.length;
    const size_t of_layer = (size_t)config->heads * tokens * tokens, of_map = layers * of_layer;
    dea_maps *maps = calloc(layers, sizeof *maps);
    c->memory = malloc(VIEW_MAPS * of_map * sizeof *c->memory);
    if (!maps || !c->memory) {
        text_fail_memory(error, VIEW_MAPS * of_map * sizeof *c->memory);
        free(maps);
        return NULL;
    }
    for (size_t l = 0; l < layers; l++) {
        dea_real *at = c->memory + l * of_layer;
        maps[l].et0 = at + VIEW_E0 * of_map;
        maps[l].et1 = at + VIEW_E1 * of_map;
        maps[l].s = at + VIEW_S * of_map;
        maps[l].alpha_mix = at + VIEW_ALPHA_HAT * of_map; /* alpha-hat, or the fixed alpha of a model that has one */
        maps[l].a = at + VIEW_ATTENTION * of_map;
    }
    for (int m = 0; m < VIEW_MAPS; m++) c->v.map[m] = c->memory + (size_t)m * of_map;
    return maps;
}

static int run_model(capture *c, const model *m, text_error *error) {
    static const char *const names[2] = {"does not follow", "follows"};
    const encoder_config *config = &m->encoder->config;
    samples list = {0};
    batch_plan plan = {0};
    batch_buffer buffer = {0};
    encoder_work work = {0};
    dea_maps *maps = take_maps(c, config, error);
    int failed = maps && !samples_add(&list, &c->pair, -1, 0, error) && !batch_plan_make(&plan, &list, 1, error) &&
                         !batch_fill(&buffer, &list, &plan, 0, 0, error)
                     ? 0
                     : -1;
    if (!failed) {
        const encoder_run run = {.maps = maps};
        const dea_status status = encoder_forward(m->encoder, m->params, &buffer.batch, &run, &work);
        if (status != DEA_OK) failed = text_fail(error, "the model cannot be run: %s", dea_status_string(status));
    }
    if (!failed && config->classes == 2) {
        c->probability = malloc(2 * sizeof *c->probability);
        if (!c->probability) failed = text_fail_memory(error, 2 * sizeof *c->probability);
        if (!failed) {
            encoder_probabilities(m->encoder, 1, &work, c->probability);
            c->v.classes = 2;
            c->v.class_name = names;
            c->v.probability = c->probability;
        }
    }
    encoder_work_free(&work);
    batch_buffer_free(&buffer);
    batch_plan_free(&plan);
    samples_free(&list);
    free(maps);
    return failed;
}

int capture_sentence(capture *c, const model *m, const char *name, const capture_pair *pair, size_t *cut,
                     text_error *error) {
    const encoder_config *config = &m->encoder->config;
    if (encode_pair(m->vocabulary, NULL, pair->premise, pair->hypothesis, (size_t)config->max_length, &c->pair, error))
        return -1;
    *cut = c->pair.cut;
    c->v.premise = pair->premise;
    c->v.hypothesis = pair->hypothesis;
    c->v.layers = config->layers;
    c->v.heads = config->heads;
    describe_model(c, m, name);
    if (take_tokens(c, m, error) || take_labels(c, pair, error) || run_model(c, m, error)) return -1;
    c->v.label = c->v.classes ? pair->label : -1;
    return 0;
}

int capture_sample(capture *c, const model *m, const row *rows, size_t count, const score_options *options,
                   const char *text, text_error *error) {
    if (scores_run(&c->sample, m, rows, count, options, error)) return -1;
    c->v.samples = c->sample.blocks;
    c->v.sample_alpha = c->sample.alpha;
    c->v.sample_alpha_hat = c->sample.alpha_hat;
    c->v.mean_alpha_hat = c->sample.gate;
    snprintf(c->sample_text, sizeof c->sample_text, "%zu pairs, %s", count, text);
    c->v.sample_text = c->sample_text;
    return 0;
}

/* The encoder end to end: gradients against central differences in double, isolation of the two losses, padding, inference
 * against training, fixed alpha, refusals. Built in double from the encoder's own source. */
#define DEA_REAL double
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "encoder/encoder.c"

#include <setjmp.h>
#include <stdarg.h>
/* cmocka.h wants these before it */
#include <cmocka.h>

enum { VOCAB = 11, ROWS = 3, LENGTH = 6 };

static const int ids[ROWS * LENGTH] = {1, 4, 5, 2, 6, 3, 1, 7, 8, 3, 0, 0, 1, 9, 10, 2, 4, 0};
static const int segments[ROWS * LENGTH] = {0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0};
static const int sentences[ROWS * LENGTH] = {0, 1, 1, 0, 1, 0, 0, 1, 2, 0, 0, 0, 0, 1, 2, 0, 1, 0};
static const int places[ROWS * LENGTH] = {0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
static const int lengths[ROWS] = {6, 4, 5};
static const int labels[ROWS] = {1, 0, -1};
static const int masked[ROWS * LENGTH] = {-1, 5, -1, -1, -1, -1, -1, -1, 8, -1, -1, -1, -1, -1, 9, -1, -1, -1};
static const dea_label_block blocks[3] = {{0, 1, 3, 4, 5, 0.8}, {1, 1, 2, 2, 3, 0.02}, {2, 1, 3, 2, 5, 0.25}};

static encoder_batch the_batch(void) {
    return (encoder_batch){ROWS, LENGTH, ids, segments, sentences, places, lengths, labels, masked, blocks, 3};
}

static encoder_config small_config(void) {
    encoder_config c = encoder_config_default();
    c.vocab = VOCAB;
    c.max_length = 8;
    c.d_model = 8;
    c.heads = 2;
    c.layers = 2;
    c.feed_forward = 12;
    c.classes = 3;
    c.language_model = 1;
    c.embedding_std = c.sentence_std = 0.5;
    c.dropout = 0;
    return c;
}

typedef struct world {
    encoder *e;
    double *params, *grads;
    encoder_batch batch;
    encoder_run run;
    encoder_work work;
    double class_weight, lm_weight, gate_weight; /* of the loss that central differences see */
} world;

static double *numbers(const encoder *e) {
    double *x = aligned_alloc(64, (e->table.elements * sizeof(double) + 63) / 64 * 64);
    assert_non_null(x);
    memset(x, 0, e->table.elements * sizeof *x);
    return x;
}

/* Parameters off their symmetrical starts, so that no gradient is zero by accident. */
static void world_open(world *w, const encoder_config *config) {
    char message[160];
    memset(w, 0, sizeof *w);
    w->e = encoder_new(config, message);
    assert_non_null(w->e);
    w->params = numbers(w->e);
    w->grads = numbers(w->e);
    assert_int_equal(encoder_reset(w->e, w->params, 42), DEA_OK);
    for (size_t i = 0; i < w->e->table.elements; i++) w->params[i] += 0.1 * sin(1.7 * (double)i);
    w->batch = the_batch();
    w->run = (encoder_run){.training = 1, .gamma = 0.5, .seed = 3, .step = 5};
    w->class_weight = w->lm_weight = w->gate_weight = 1;
}

static void world_close(world *w) {
    encoder_work_free(&w->work);
    encoder_free(w->e);
    free(w->params);
    free(w->grads);
}

static double total(void *context) {
    world *w = context;
    encoder_loss loss = encoder_loss_init();
    assert_int_equal(encoder_forward(w->e, w->params, &w->batch, &w->run, &w->work), DEA_OK);
    assert_int_equal(encoder_losses(w->e, w->params, &w->batch, &w->run, &loss, &w->work), DEA_OK);
    return w->class_weight * loss.class_loss + w->lm_weight * loss.lm_loss + w->gate_weight * loss.gate_loss;
}

static void gradients(world *w, double *grads, double class_weight, double lm_weight, double gate_weight) {
    encoder_loss loss = encoder_loss_init();
    loss.class_weight = class_weight;
    loss.lm_weight = lm_weight;
    loss.gate_weight = gate_weight;
    memset(grads, 0, w->e->table.elements * sizeof *grads);
    assert_int_equal(encoder_forward(w->e, w->params, &w->batch, &w->run, &w->work), DEA_OK);
    assert_int_equal(encoder_backward(w->e, w->params, &w->batch, &w->run, &loss, grads, &w->work), DEA_OK);
}

/* A gate also moves the layers above it, where the gate loss is cut off from it: only the top layer's is the plain derivative. */
static int is_checked(const world *w, const dea_tensor *tensor, dea_group group) {
    char top[32];
    snprintf(top, sizeof top, "layer.%d.", w->e->config.layers - 1);
    return tensor->group == group && (group == DEA_GROUP_MAIN || strstr(tensor->name, top));
}

/* Largest difference to central differences over the tensors of one group, relative to the tensor's largest gradient. */
static double worst_of(world *w, dea_group group) {
    double worst = 0;
    for (int t = 0; t < w->e->table.count; t++) {
        const dea_tensor *tensor = &w->e->table.tensors[t];
        if (!is_checked(w, tensor, group)) continue;
        double scale = 1e-3, error = 0;
        for (size_t i = 0; i < tensor->count; i++) {
            const size_t at = tensor->offset + i;
            const double expected = dea_finite_difference(total, w, &w->params[at], 1e-5);
            scale = fmax(scale, fabs(expected));
            error = fmax(error, fabs(expected - w->grads[at]));
        }
        if (error / scale > 2e-6) print_message("%s: %g of %g\n", tensor->name, error, scale);
        worst = fmax(worst, error / scale);
    }
    return worst;
}

/* The gate is cut off from the task loss, so central differences agree only where alpha-hat is a constant: w_gate = 0. */
static void still_gate(world *w) {
    for (int i = 0; i < w->e->config.layers; i++)
        memset(w->params + w->e->layer[i].attention.w_gate, 0,
               (size_t)w->e->config.heads * (size_t)(2 * w->e->config.d_model / w->e->config.heads + 2) *
                   sizeof(double));
}

static void check_gate(const encoder_config *config) {
    world w;
    world_open(&w, config);
    w.class_weight = w.lm_weight = 0;
    gradients(&w, w.grads, 0, 0, 1);
    assert_true(worst_of(&w, DEA_GROUP_GATE) < 2e-6);
    world_close(&w);
}

static void check_config(const encoder_config *config) {
    world w;
    world_open(&w, config);
    still_gate(&w);
    w.gate_weight = 0;
    gradients(&w, w.grads, 1, 1, 0);
    assert_true(worst_of(&w, DEA_GROUP_MAIN) < 2e-6);
    world_close(&w);
    check_gate(config);
    encoder_config bottom = *config;
    bottom.layers = 1;
    check_gate(&bottom);
}

static void test_gradients_sinusoidal(void **state) {
    (void)state;
    const encoder_config c = small_config();
    check_config(&c);
}

static void test_gradients_post_norm_learnt(void **state) {
    (void)state;
    encoder_config c = small_config();
    c.post_norm = 1;
    c.positions = ENCODER_LEARNT;
    check_config(&c);
}

static void test_gradients_sentence_temperature_dropout(void **state) {
    (void)state;
    encoder_config c = small_config();
    c.positions = ENCODER_SENTENCE;
    c.use_temperature = 1;
    c.dropout = 0.2;
    check_config(&c);
    c.post_norm = 1;
    check_config(&c);
}

static void test_isolation(void **state) {
    (void)state;
    encoder_config c = small_config();
    world w;
    c.dropout = 0.1;
    world_open(&w, &c);
    double *task = numbers(w.e), *gate = numbers(w.e);
    gradients(&w, task, 1, 1, 0);
    gradients(&w, gate, 0, 0, 1);
    gradients(&w, w.grads, 1, 1, 1);
    for (int t = 0; t < w.e->table.count; t++) {
        const dea_tensor *tensor = &w.e->table.tensors[t];
        const double *own = tensor->group == DEA_GROUP_GATE ? gate : task,
                     *other = tensor->group == DEA_GROUP_GATE ? task : gate;
        double size = 0;
        for (size_t i = tensor->offset; i < tensor->offset + tensor->count; i++) {
            assert_true(other[i] == 0);
            assert_memory_equal(&own[i], &w.grads[i], sizeof(double));
            size += fabs(own[i]);
        }
        assert_true(size > 0); /* every tensor learns from its own loss */
    }
    free(task);
    free(gate);
    world_close(&w);
}

/* A row's logits do not depend on how far its batch is padded, and inference gives training's numbers without dropout. */
static void test_padding_and_inference(void **state) {
    (void)state;
    const encoder_config c = small_config();
    world w;
    world_open(&w, &c);
    w.run.gamma = 0;
    assert_int_equal(encoder_forward(w.e, w.params, &w.batch, &w.run, &w.work), DEA_OK);
    double logits[3];
    memcpy(logits, w.work.logits + 3, sizeof logits); /* row 1, four tokens of six */
    encoder_batch alone = {1, 4, ids + LENGTH, segments + LENGTH, NULL, NULL, lengths + 1, NULL, NULL, NULL, 0};
    const encoder_run inference = {0};
    encoder_work work = {0};
    assert_int_equal(encoder_forward(w.e, w.params, &alone, &inference, &work), DEA_OK);
    for (int i = 0; i < 3; i++) assert_true(fabs(work.logits[i] - logits[i]) < 1e-12);
    double p[3];
    encoder_probabilities(w.e, 1, &work, p);
    assert_true(fabs(p[0] + p[1] + p[2] - 1) < 1e-12);
    assert_true(fabs(log(p[0] / p[2]) - (logits[0] - logits[2])) < 1e-9);
    encoder_work_free(&work);
    world_close(&w);
}

static void test_maps_and_fixed_alpha(void **state) {
    (void)state;
    encoder_config c = small_config();
    world w;
    c.fixed_alpha = 0.3;
    world_open(&w, &c);
    enum { CELLS = ROWS * 2 * LENGTH * LENGTH };
    static double mix[2][CELLS], hat[2][CELLS];
    dea_maps maps[2] = {{.alpha_mix = mix[0], .alpha_hat = hat[0]}, {.alpha_mix = mix[1], .alpha_hat = hat[1]}};
    const encoder_run inference = {.maps = maps};
    assert_int_equal(encoder_forward(w.e, w.params, &w.batch, &inference, &w.work), DEA_OK);
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < CELLS; i++) {
            const int row = i / (2 * LENGTH * LENGTH), key = i % LENGTH;
            assert_true(fabs(mix[l][i] - (key < lengths[row] ? 0.3 : 0)) < 1e-15);
        }
    assert_true(fabs(encoder_block_mean(mix[0], 2, LENGTH, &blocks[2]) - 0.3) < 1e-12);
    gradients(&w, w.grads, 1, 1, 1); /* without a gate there is no gate loss */
    for (int t = 0; t < w.e->table.count; t++) {
        const dea_tensor *tensor = &w.e->table.tensors[t];
        for (size_t i = tensor->offset; tensor->group == DEA_GROUP_GATE && i < tensor->offset + tensor->count; i++)
            assert_true(w.grads[i] == 0);
    }
    world_close(&w);
}

static void test_reset(void **state) {
    (void)state;
    encoder_config c = small_config();
    c.tie_k_to_q = 1;
    c.use_temperature = 1;
    char message[160];
    encoder *e = encoder_new(&c, message);
    assert_non_null(e);
    double *one = numbers(e), *again = numbers(e), *other = numbers(e);
    encoder_reset(e, one, 1);
    encoder_reset(e, again, 1);
    encoder_reset(e, other, 2);
    assert_memory_equal(one, again, e->table.elements * sizeof *one);
    assert_memory_not_equal(one, other, e->table.elements * sizeof *one);
    const double *qkv = one + e->layer[1].attention.w_qkv;
    assert_memory_equal(qkv, qkv + 64, 64 * sizeof *qkv); /* W_k = W_q */
    assert_true(one[e->layer[0].attention.temperatures] == 2);
    assert_non_null(dea_table_find(&e->table, "layer.1.attention.w_rel"));
    free(one);
    free(again);
    free(other);
    encoder_free(e);
}

static void test_refusals(void **state) {
    (void)state;
    char message[160];
    encoder_config c = small_config();
    c.heads = 3;
    assert_null(encoder_new(&c, message));
    assert_non_null(strstr(message, "multiple"));
    c = small_config();
    c.vocab = 0;
    assert_null(encoder_new(&c, message));
    c = small_config();
    c.fixed_alpha = 0.99;
    assert_null(encoder_new(&c, message));
    world w;
    c = small_config();
    c.max_length = 5; /* shorter than the batch */
    world_open(&w, &c);
    assert_int_equal(encoder_forward(w.e, w.params, &w.batch, &w.run, &w.work), DEA_ERR_SHAPE);
    world_close(&w);
    c = small_config();
    c.vocab = 9; /* ids 9 and 10 stand outside */
    world_open(&w, &c);
    assert_int_equal(encoder_forward(w.e, w.params, &w.batch, &w.run, &w.work), DEA_ERR_INDEX);
    world_close(&w);
    encoder_positions positions;
    assert_int_equal(encoder_positions_by_name("learnt", &positions), 0);
    assert_int_equal(positions, ENCODER_LEARNT);
    assert_int_equal(encoder_positions_by_name("rotary", &positions), -1);
}

/* Is w [rows, columns] 0 outside of the columns [begin, end), and not within? */
static void check_columns(const double *w, int rows, int columns, int begin, int end) {
    for (int i = 0; i < rows * columns; i++) assert_int_equal(w[i] != 0, i % columns >= begin && i % columns < end);
}

/* A model at its start; params for free(). */
static encoder *start(const encoder_config *c, double **params) {
    encoder *e = encoder_new(c, NULL);
    assert_non_null(e);
    *params = numbers(e);
    assert_int_equal(encoder_reset(e, *params, 3), DEA_OK);
    return e;
}

static void test_split_heads(void **state) {
    (void)state;
    encoder_config c = small_config();
    c.positions = ENCODER_SENTENCE;
    c.heads = 4;
    c.tie_k_to_q = 1;
    c.split_heads = 1;
    double *params;
    encoder *e = start(&c, &params);
    check_columns(params + e->token, VOCAB, 8, 0, 4);
    check_columns(params + e->sentence, 8, 8, 4, 6);
    check_columns(params + e->place, 8, 8, 6, 8);
    check_columns(params + e->segment, 2, 8, 6, 8);
    for (int l = 0; l < c.layers; l++) {
        const double *q = params + e->layer[l].attention.w_qkv, *k = q + 64, *v = k + 64;
        check_columns(q, 4, 8, 0, 4); /* two heads of width 2 */
        check_columns(q + 4 * 8, 2, 8, 4, 6);
        check_columns(q + 6 * 8, 2, 8, 0, 8);
        check_columns(v, 8, 8, 0, 8);
        assert_memory_equal(q, k, 64 * sizeof *q);
    }
    free(params);
    encoder_free(e);
    char message[160];
    c.positions = ENCODER_LEARNT;
    assert_null(encoder_new(&c, message));
    assert_non_null(strstr(message, "split heads"));
}

static double deviation(const double *w, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += w[i] * w[i];
    return sqrt(sum / n);
}

static void test_embedding_deviations(void **state) {
    (void)state;
    encoder_config c = small_config();
    c.positions = ENCODER_SENTENCE;
    c.max_length = 512; /* enough numbers for an estimate within 3% */
    c.embedding_std = 0.1;
    c.sentence_std = 0.3;
    double *params;
    encoder *e = start(&c, &params);
    assert_true(fabs(deviation(params + e->place, 512 * 8) - 0.1) < 0.01);
    assert_true(fabs(deviation(params + e->sentence, 512 * 8) - 0.3) < 0.03);
    free(params);
    encoder_free(e);
    char message[160];
    c.sentence_std = 0;
    assert_null(encoder_new(&c, message));
    assert_non_null(strstr(message, "sentence std"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding_deviations),
        cmocka_unit_test(test_split_heads),
        cmocka_unit_test(test_gradients_sinusoidal),
        cmocka_unit_test(test_gradients_post_norm_learnt),
        cmocka_unit_test(test_gradients_sentence_temperature_dropout),
        cmocka_unit_test(test_isolation),
        cmocka_unit_test(test_padding_and_inference),
        cmocka_unit_test(test_maps_and_fixed_alpha),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

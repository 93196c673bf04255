/* Training: what is drawn, padded, masked and staged; same bits for any number of threads and after resuming; what the program says
 * to wrong options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "train/hardware.h"
#include "train/settings.h"
#include "train/state.h"
#include "train/trainer.h"

static char folder[] = "/tmp/dea-test-train-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    hardware_one_blas_thread();
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *in_folder(const char *name) {
    static char path[4][160];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static trainer_config quick(void) {
    trainer_config c;
    assert_int_equal(settings_preset("quick", &c), 0);
    return c;
}

static void open_run(trainer *t, const trainer_config *c, int threads) {
    text_error error = {""};
    tokenizer *vocabulary = trainer_vocabulary(c, NULL, NULL, &error);
    assert_non_null(vocabulary);
    if (trainer_open(t, c, vocabulary, NULL, NULL, threads, &error)) fail_msg("%s", error.message);
}

static void run_to(trainer *t, int64_t step) {
    text_error error = {""};
    trainer_step_report report;
    while (t->step < step)
        if (trainer_step(t, &report, &error)) fail_msg("%s", error.message);
}

static void assert_same_bits(const trainer *a, const trainer *b) {
    const size_t bytes = a->e->table.elements * sizeof(dea_real);
    assert_int_equal(a->e->table.elements, b->e->table.elements);
    assert_memory_equal(a->params, b->params, bytes);
    assert_memory_equal(a->m, b->m, bytes);
    assert_memory_equal(a->v, b->v, bytes);
}

/* The rate by step: a linear rise, the full rate until `hold`, half a cosine down to 0 at the end. */
static void test_rate(void **state) {
    (void)state;
    static const double falls[8] = {0.5, 1, 1, 0.93301270189221932, 0.75, 0.5, 0.25, 0.066987298107780677};
    static const double held[8] = {0.5, 1, 1, 1, 1, 0.85355339059327373, 0.5, 0.14644660940672627};
    for (int hold = 0; hold < 2; hold++) {
        trainer t;
        text_error error = {""};
        trainer_step_report report;
        trainer_config c = quick();
        c.cosine = 1;
        c.warmup = 2;
        c.steps = 8;
        c.hold = hold / 2.0;
        open_run(&t, &c, 1);
        for (int s = 0; s < 8; s++) {
            if (trainer_step(&t, &report, &error)) fail_msg("%s", error.message);
            assert_true(fabs(report.lr_factor - (hold ? held : falls)[s]) < 1e-12);
        }
        trainer_close(&t);
    }
}

/* ---- determinism */

static void test_threads_and_seeds(void **state) {
    (void)state;
    static trainer one, three, other;
    trainer_config c = quick();
    c.model.dropout = 0.1;
    open_run(&one, &c, 1);
    open_run(&three, &c, 3);
    c.seed = 43;
    open_run(&other, &c, 1);
    run_to(&one, 6);
    run_to(&three, 6);
    run_to(&other, 6);
    assert_same_bits(&one, &three);
    assert_true(one.isolation_checked);
    assert_memory_not_equal(one.params + one.e->token, other.params + other.e->token, 256);
    trainer_close(&one);
    trainer_close(&three);
    trainer_close(&other);
}

static void test_resume_is_as_uninterrupted(void **state) {
    (void)state;
    static trainer whole, first, second;
    text_error error = {""};
    trainer_eval_report eval;
    const trainer_config c = quick();
    open_run(&whole, &c, 1);
    run_to(&whole, 5);
    assert_int_equal(trainer_evaluate(&whole, &eval, &error), 0);
    run_to(&whole, 12);

    open_run(&first, &c, 2);
    run_to(&first, 5);
    assert_int_equal(trainer_evaluate(&first, &eval, &error), 0);
    run_to(&first, 7);
    if (state_save(&first, in_folder("resume.safetensors"), "quick", "", "", &error)) fail_msg("%s", error.message);
    trainer_close(&first);

    state_run saved;
    if (state_read_run(&saved, in_folder("resume.safetensors"), &error)) fail_msg("%s", error.message);
    tokenizer *vocabulary = saved.vocabulary;
    saved.vocabulary = NULL;
    assert_int_equal(trainer_open(&second, &saved.config, vocabulary, NULL, NULL, 1, &error), 0);
    if (state_restore(&second, in_folder("resume.safetensors"), &error)) fail_msg("%s", error.message);
    state_run_free(&saved);
    assert_int_equal(second.step, 7);
    run_to(&second, 12);
    assert_same_bits(&whole, &second);
    assert_true(second.best == whole.best && second.best_step == 5);
    for (int i = 0; i < whole.feed.count; i++)
        assert_memory_equal(&whole.feed.source[i].state.accuracy, &second.feed.source[i].state.accuracy,
                            sizeof(double));
    trainer_close(&whole);
    trainer_close(&second);
}

static void test_resume_refuses_other_data_and_weights(void **state) {
    (void)state;
    static trainer t;
    text_error error = {""};
    state_run saved;
    trainer_config c = quick();
    open_run(&t, &c, 1);
    assert_int_equal(state_save(&t, in_folder("data.safetensors"), "quick", "", "", &error), 0);
    assert_int_equal(state_save_weights(&t, in_folder("weights.safetensors"), "quick", &error), 0);
    t.data_hash ^= 1;
    assert_int_equal(state_restore(&t, in_folder("data.safetensors"), &error), -1);
    assert_non_null(strstr(error.message, "other data"));
    assert_int_equal(state_read_run(&saved, in_folder("weights.safetensors"), &error), -1);
    assert_non_null(strstr(error.message, "no state to resume from"));
    trainer_close(&t);
}

/* ---- what the losses reach */

static void test_gate_loss_and_fixed_alpha(void **state) {
    (void)state;
    static trainer with, without, fixed;
    text_error error = {""};
    trainer_step_report report;
    trainer_config c = quick();
    c.gamma_steps = 0;
    c.batch_tokens = 256;
    open_run(&with, &c, 1);
    c.gate_loss = 0;
    open_run(&without, &c, 1);
    assert_int_equal(trainer_step(&with, &report, &error), 0);
    assert_true(report.gate_loss > 0 && report.norm[DEA_GROUP_GATE] > 0 && report.gamma == 0);
    assert_int_equal(trainer_step(&without, &report, &error), 0);
    assert_true(report.gate_loss == 0 && report.norm[DEA_GROUP_GATE] == 0 && report.norm[DEA_GROUP_MAIN] > 0);
    for (int i = 0; i < with.e->table.count; i++) { /* one step: the main group does not know of the gate loss */
        const dea_tensor *tensor = &with.e->table.tensors[i];
        const size_t bytes = tensor->count * sizeof(dea_real);
        if (tensor->group == DEA_GROUP_MAIN)
            assert_memory_equal(with.params + tensor->offset, without.params + tensor->offset, bytes);
        else
            assert_memory_not_equal(with.params + tensor->offset, without.params + tensor->offset, bytes);
    }
    c.model.fixed_alpha = 0;
    c.gate_loss = 1;
    open_run(&fixed, &c, 1);
    assert_int_equal(trainer_step(&fixed, &report, &error), 0);
    assert_true(report.gate_loss == 0 && report.norm[DEA_GROUP_GATE] == 0);
    trainer_close(&with);
    trainer_close(&without);
    trainer_close(&fixed);
}

/* ---- drawing */

static void test_padding(void **state) {
    (void)state;
    static trainer t;
    text_error error = {""};
    trainer_config c = quick();
    assert_int_equal(settings_sources(&c, "babi16,babi17,babi18,kinship", &error), 0);
    c.batch_tokens = 4096;
    open_run(&t, &c, 1);
    for (int i = 0; i < 4; i++) t.feed.source[i].state.stage = t.feed.source[i].stages;
    size_t tokens = 0, padded = 0;
    for (int step = 0; step < 5; step++) {
        assert_int_equal(feed_draw(&t.feed, step, 4096, 0, t.vocabulary, 128, &t.labels, &t.drawn, &error), 0);
        assert_int_equal(batch_plan_make(&t.plan, &t.drawn, 512, &error), 0);
        size_t rows_in_slices = 0;
        for (size_t s = 0; s < t.plan.slices; s++) {
            assert_true(t.plan.slice[s].count == 1 || t.plan.slice[s].count * t.plan.slice[s].length <= 512);
            rows_in_slices += (size_t)t.plan.slice[s].count;
        }
        assert_int_equal(rows_in_slices, t.drawn.count);
        tokens += t.plan.tokens;
        padded += t.plan.padded;
    }
    print_message("padding: %.1f%%\n", 100 * (double)(padded - tokens) / (double)padded);
    assert_true((double)(padded - tokens) < 0.1 * (double)padded);
    trainer_close(&t);
}

/* A step's batches hold every row once and are no larger than micro-tokens allows, and not many more than even shares need. */
static void test_step_batches(void **state) {
    (void)state;
    static const int micro[] = {40, 112, 2048};
    for (size_t k = 0; k < 3; k++) {
        trainer t;
        trainer_config c = quick();
        c.micro_tokens = micro[k];
        c.batch_tokens = 0;
        c.batch_rows = 64;
        open_run(&t, &c, 2);
        for (int step = 1; step <= 5; step++) {
            char seen[128] = {0};
            size_t rows_in_slices = 0;
            run_to(&t, step);
            assert_true(t.drawn.count >= 64 && t.drawn.count < sizeof seen);
            for (size_t s = 0; s < t.plan.slices; s++) {
                const batch_slice *slice = &t.plan.slice[s];
                assert_true(slice->count == 1 || slice->count * slice->length <= micro[k]);
                for (int i = 0; i < slice->count; i++) seen[t.plan.order[slice->begin + (size_t)i]]++;
                rows_in_slices += (size_t)slice->count;
            }
            assert_int_equal(rows_in_slices, t.drawn.count);
            for (size_t i = 0; i < t.drawn.count; i++) assert_int_equal(seen[i], 1);
            const size_t least = t.drawn.tokens / (size_t)micro[k] + 1;
            assert_true(t.plan.slices >= (least < TRAINER_LANES ? TRAINER_LANES : least));
            assert_true(t.plan.slices <= 2 * least + 2 * TRAINER_LANES);
        }
        trainer_close(&t);
    }
}

/* A step on a file that is one long word takes no longer than on another. */
static void test_long_line(void **state) {
    (void)state;
    enum { BYTES = 8 << 20 };
    static feed f;
    text_error error = {""};
    rows text = {0};
    samples drawn = {0};
    trainer_config c = quick();
    char *line = malloc(BYTES + 1);
    assert_non_null(line);
    memset(line, 'a', BYTES);
    line[BYTES] = '\0';
    const row r = {"train", "text", "", -1, "", 0, "", line, ""};
    assert_int_equal(rows_add(&text, &r, &error), 0);
    tokenizer *v = trainer_vocabulary(&c, NULL, NULL, &error);
    assert_int_equal(settings_sources(&c, "text", &error), 0);
    assert_int_equal(feed_open(&f, c.plan, c.plans, NULL, &text, 1, &error), 0);
    const clock_t begin = clock();
    assert_int_equal(feed_draw(&f, 0, 512, 0, v, 128, NULL, &drawn, &error), 0);
    const double spent = (double)(clock() - begin) / CLOCKS_PER_SEC;
    print_message("drawn in %.3f s\n", spent);
    assert_true(spent < 1);
    feed_close(&f);
    samples_free(&drawn);
    tokenizer_free(v);
    rows_free(&text);
    free(line);
}

static void test_masking(void **state) {
    (void)state;
    text_error error = {""};
    trainer_config c = quick();
    tokenizer *v = trainer_vocabulary(&c, NULL, NULL, &error);
    samples list = {0};
    encoded_pair pair = {0};
    const char *text =
        "the box is bigger than the jar. the chest fits inside the crate. the suitcase is bigger than the box.";
    int asked = 0, masked = 0, kept = 0, tokens = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        samples_clear(&list);
        assert_int_equal(encode_text(v, NULL, text, strlen(text), 0, &pair, &error), 0);
        assert_int_equal(samples_add(&list, &pair, -1, 0, &error), 0);
        samples_mask_last(&list, v, 9, i);
        tokens += (int)pair.length - 2;
        for (size_t k = 0; k < pair.length; k++) {
            assert_true(list.masked[k] == -1 || list.masked[k] == pair.id[k]);
            if (list.masked[k] < 0) assert_int_equal(list.id[k], pair.id[k]);
            asked += list.masked[k] >= 0;
            masked += list.masked[k] >= 0 && list.id[k] == tokenizer_mask(v);
            kept += list.masked[k] >= 0 && list.id[k] == pair.id[k];
        }
        assert_true(list.masked[0] == -1 && list.masked[pair.length - 1] == -1);
    }
    assert_true(fabs((double)asked / tokens - 0.15) < 0.01);
    assert_true(fabs((double)masked / asked - 0.8) < 0.02);
    assert_true(fabs((double)kept / asked - 0.1) < 0.02); /* a random token is now and then the one that stood there */
    samples_free(&list);
    encoded_pair_free(&pair);
    tokenizer_free(v);
}

static void add_row(rows *list, const char *split, const char *source, int label, const char *premise,
                    const char *hypothesis) {
    const row r = {split, source, "Size", label, label ? "true" : "hard", 1, "g", premise, hypothesis};
    text_error error;
    assert_int_equal(rows_add(list, &r, &error), 0);
}

/* Eight rows by heart: the premise's last word and the hypothesis decide together. */
static void test_learns(void **state) {
    (void)state;
    rows list = {0};
    static const char *const premises[] = {"the box is big.", "the jar is small.", "the chest is old.",
                                           "the crate is new."};
    for (int i = 0; i < 8; i++)
        add_row(&list, "train", "own", (i / 4 + i) % 2, premises[i % 4], i / 4 ? "it is." : "it is not.");
    static trainer t;
    text_error error = {""};
    trainer_step_report report = {0};
    trainer_config c = quick();
    assert_int_equal(settings_sources(&c, "own", &error), 0);
    c.batch_tokens = 0;
    c.batch_rows = 8;
    c.lr = 3e-3;
    assert_int_equal(trainer_open(&t, &c, trainer_vocabulary(&c, &list, NULL, &error), &list, NULL, 1, &error), 0);
    for (int step = 0; step < 300 && !(t.step > 20 && report.class_loss < 0.05); step++)
        if (trainer_step(&t, &report, &error)) fail_msg("%s", error.message);
    print_message("loss %.3f after %d steps\n", report.class_loss, (int)t.step);
    assert_true(report.class_loss < 0.05 && report.correct == 8);
    trainer_close(&t);
    rows_free(&list);
}

/* A premise's rows come together, and an epoch gives every one once. */
static void test_stored_rows(void **state) {
    (void)state;
    rows list = {0};
    static const char *const premises[] = {"the box is big.", "the jar is small.", "the chest is old."};
    for (int label = 0; label < 2; label++)
        for (int p = 0; p < 3; p++) add_row(&list, "train", "own", label, premises[p], label ? "it is." : "it is not.");
    add_row(&list, "dev", "own", 1, "the crate is new.", "it is.");
    static trainer t;
    text_error error = {""};
    trainer_config c = quick();
    assert_int_equal(settings_sources(&c, "own", &error), 0);
    c.batch_tokens = 0;
    c.batch_rows = 2;
    assert_int_equal(trainer_open(&t, &c, trainer_vocabulary(&c, &list, NULL, &error), &list, NULL, 1, &error), 0);
    assert_int_equal(t.dev.count, 1);
    int seen[64] = {0};
    for (int step = 0; step < 6; step++) { /* two epochs */
        assert_int_equal(feed_draw(&t.feed, step, 0, 2, t.vocabulary, 128, NULL, &t.drawn, &error), 0);
        assert_int_equal(t.drawn.count, 2);
        assert_int_equal(t.drawn.at[0].label + t.drawn.at[1].label, 1);
        const int noun = t.drawn.id[2];
        assert_int_equal(noun, t.drawn.id[t.drawn.at[1].begin + 2]);
        seen[noun % 64]++;
    }
    for (int i = 0, kinds = 0; i < 64; i++) {
        kinds += seen[i] > 0;
        assert_true(seen[i] == 0 || seen[i] == 2);
        if (i == 63) assert_int_equal(kinds, 3);
    }
    trainer_close(&t);
    trainer_config empty = quick();
    assert_int_equal(settings_sources(&empty, "absent", &error), 0);
    assert_int_equal(trainer_open(&t, &empty, trainer_vocabulary(&empty, &list, NULL, &error), &list, NULL, 1, &error),
                     -1);
    assert_non_null(strstr(error.message, "no row of split train"));
    rows_free(&list);
}

static void test_stages(void **state) {
    (void)state;
    static feed f;
    text_error error = {""};
    trainer_config c = quick();
    assert_int_equal(settings_sources(&c, "babi17:1:0.9,kinship:1:0.9:babi17", &error), 0);
    assert_int_equal(feed_open(&f, c.plan, c.plans, NULL, NULL, 1, &error), 0);
    int rows_by_tag[FEED_SOURCES * FEED_STAGES] = {0}, correct[FEED_SOURCES * FEED_STAGES] = {0};
    int steps = 0;
    rows_by_tag[0] = 20;
    correct[0] = 19;
    while (!feed_report(&f, rows_by_tag, correct)) assert_true(++steps < 100);
    assert_int_equal(f.source[0].state.stage, 2);
    assert_int_equal(steps, 29); /* the average is of 30 steps */
    assert_int_equal(f.source[1].state.stage, 1);
    for (int stage = 2; stage <= data_stream_stages("babi17"); stage++) {
        assert_int_equal(f.source[0].state.stage, stage);
        assert_false(f.source[0].state.done);
        rows_by_tag[stage - 1] = 20;
        correct[stage - 1] = 15; /* 75% is not enough */
        for (int i = 0; i < 200; i++) assert_int_equal(feed_report(&f, rows_by_tag, correct), 0);
        correct[stage - 1] = 20;
        while (!feed_report(&f, rows_by_tag, correct)) continue;
    }
    assert_true(f.source[0].state.done);
    feed_close(&f);
    /* Marks of their own: the first stage is left at 70%, the second not at 75%. */
    assert_int_equal(settings_sources(&c, "babi18:1:0.7/0.8", &error), 0);
    assert_int_equal(feed_open(&f, c.plan, c.plans, NULL, NULL, 1, &error), 0);
    correct[0] = correct[1] = 15;
    rows_by_tag[2] = rows_by_tag[3] = 0;
    for (steps = 0; !feed_report(&f, rows_by_tag, correct); steps++) assert_true(steps < 100);
    for (int i = 0; i < 200; i++) assert_int_equal(feed_report(&f, rows_by_tag, correct), 0);
    assert_int_equal(f.source[0].state.stage, 2);
    feed_close(&f);
    assert_int_equal(settings_sources(&c, "kinship:1:0.9:babi18", &error), -1);
    assert_int_equal(feed_open(&f, c.plan, c.plans, NULL, NULL, 1, &error), -1);
    assert_non_null(strstr(error.message, "waits for"));
}

/* A word of the premise is hidden everywhere or nowhere in the row; what only the hypothesis has is never hidden. */
static void test_hiding(void **state) {
    (void)state;
    text_error error = {""};
    trainer_config c = quick();
    tokenizer *v = trainer_vocabulary(&c, NULL, NULL, &error);
    samples list = {0};
    encoded_pair pair = {0};
    int hidden = 0, words = 0;
    assert_int_equal(
        encode_pair(v, NULL, "the box is bigger than the jar.", "the crate is bigger than the box.", 0, &pair, &error),
        0);
    for (uint64_t i = 0; i < 2000; i++) {
        samples_clear(&list);
        assert_int_equal(samples_add(&list, &pair, 1, 0, &error), 0);
        samples_hide_last(&list, v, 0.3, 9, i);
        for (size_t k = 0; k < pair.length; k++) {
            int in_premise = 0, special = tokenizer_is_special(v, pair.id[k]);
            for (size_t j = 0; j < pair.length; j++) {
                if (pair.id[j] != pair.id[k]) continue;
                in_premise |= pair.segment[j] == 0;
                assert_int_equal(list.id[j], list.id[k]);
            }
            assert_true(list.id[k] == pair.id[k] || (list.id[k] == tokenizer_mask(v) && in_premise && !special));
            words += in_premise && !special;
            hidden += list.id[k] != pair.id[k];
        }
    }
    assert_true(fabs((double)hidden / words - 0.3) < 0.02);
    encoded_pair_free(&pair);
    samples_free(&list);
    tokenizer_free(v);
}

/* A fifth of the draws from the next stage, a tenth from the one before; none of the last but one has a next but the last. */
static void test_share_of_stages(void **state) {
    (void)state;
    static trainer t;
    text_error error = {""};
    trainer_config c = quick();
    assert_int_equal(settings_sources(&c, "babi18", &error), 0);
    c.earlier = 0.1;
    c.ahead = 0.2;
    open_run(&t, &c, 1);
    for (int stage = 2; stage <= t.feed.source[0].stages; stage += t.feed.source[0].stages - 2) {
        int count[FEED_STAGES + 1] = {0};
        t.feed.source[0].state.stage = stage;
        assert_int_equal(feed_draw(&t.feed, stage, 0, 20000, t.vocabulary, 128, NULL, &t.drawn, &error), 0);
        for (size_t i = 0; i < t.drawn.count; i++) count[feed_tag_stage(t.drawn.at[i].tag)]++;
        const double drawn = (double)t.drawn.count, last = stage == t.feed.source[0].stages;
        assert_true(fabs(count[1] / drawn - 0.1) < 0.02);
        assert_true(fabs(count[stage + 1] / drawn - (last ? 0 : 0.2)) < 0.02);
        assert_true(fabs(count[stage] / drawn - (0.9 - 0.1 * (stage - 2) - (last ? 0 : 0.2))) < 0.02);
    }
    trainer_close(&t);
}

static void test_settings(void **state) {
    (void)state;
    text_error error = {""};
    trainer_config c = quick(), d = quick();
    const char *name;
    char value[64];
    c.lr = 1.0 / 3;
    c.steps = 123456789012;
    for (int i = 0; settings_get(&c, i, &name, value); i++) assert_int_equal(settings_set(&d, name, value, &error), 0);
    assert_true(c.lr == d.lr && c.steps == d.steps && c.model.positions == d.model.positions);
    assert_int_equal(settings_set(&c, "lr", "fast", &error), -1);
    assert_int_equal(settings_set(&c, "layers", "2.5", &error), -1);
    assert_int_equal(settings_set(&c, "layers", "0", &error), -1);
    assert_int_equal(settings_set(&c, "speed", "1", &error), -1);
    char list[256];
    assert_int_equal(settings_sources(&c, "babi18:2:0.86/0.7,isa,kinship@2:1:0.9:babi18", &error), 0);
    settings_print_sources(&c, list, sizeof list);
    assert_string_equal(list, "babi18:2:0.86/0.7,isa:1:0.9,kinship@2:1:0.9:babi18");
    assert_true(c.plan[0].mark[0] == 0.86 && c.plan[0].mark[1] == 0.7 && c.plan[0].mark[4] == 0.7);
    assert_int_equal(settings_sources(&c, "babi16@stored:1234567:0.9,babi17:1:0.8400001", &error), 0);
    settings_print_sources(&c, list, sizeof list);
    assert_string_equal(list, "babi16@stored:1234567:0.9,babi17:1:0.8400001");
    assert_int_equal(c.plan[0].kind, FEED_STORED);
    assert_int_equal(settings_sources(&c, "babi18:2:0.86/0.7,isa", &error), 0);
    assert_int_equal(c.plan[0].kind, FEED_FRESH);
    assert_int_equal(c.plan[1].kind, FEED_STORED);
    static const char *const wrong[] = {
        "babi18:none", "babi18:1/2", "babi18:1:0.9/", "babi18:1:0.9/x", "babi18:1:.1/.1/.1/.1/.1/.1/.1/.1/.1",
        "isa@2",       "babi17@5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(settings_sources(&c, wrong[i], &error), -1);
    assert_int_equal(settings_preset("huge", &c), -1);
}

/* ---- the program */

/* Runs build/train with these arguments and keeps what it prints; its exit code, or -1. */
static int program(const char *arguments, char *output, size_t size) {
    char command[512];
    snprintf(command, sizeof command, "build/train %s 2>&1", arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t used = fread(output, 1, size - 1, pipe);
    output[used] = 0;
    char rest[4096];
    while (fread(rest, 1, sizeof rest, pipe) > 0) continue;
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_wrong_use(void **state) {
    (void)state;
    char output[8192], arguments[400];
    static const struct {
        const char *arguments, *says;
        int code;
    } cases[] = {
        {"--speed 9", "--help", 2},
        {"extra", "no option", 2},
        {"-p huge -o %s/a", "no preset 'huge'", 2},
        {"-p quick --steps many -o %s/a", "whole number", 2},
        {"-p quick --alpha 1 -o %s/a", "0.95", 2},
        {"-p quick --temperature hot -o %s/a", "temperature", 2},
        {"-p quick --set layers -o %s/a", "NAME=VALUE", 2},
        {"-p quick -t 0 -o %s/a", "--threads", 2},
        {"--resume x --seed 1 -o %s/a", "cannot be changed", 2},
        {"-p quick --data %s/absent.tsv -o %s/a", "absent.tsv", 1},
        {"-p quick --mlm %s/absent.txt -o %s/a", "absent.txt", 1},
        {"-p quick --init %s/absent.safetensors -o %s/a", "absent.safetensors", 1},
        {"--resume %s/absent.safetensors -o %s/a", "absent.safetensors", 1},
        {"-p quick --oracle %s/absent.jsonl -o %s/a", "absent.jsonl", 1},
        {"-p quick --data %s/bad.tsv -o %s/a", "bad.tsv:2:", 1},
        {"-p quick --data %s/devonly.tsv -o %s/a", "devonly.tsv: has no row of split train", 1},
        {"-p quick --set max-length=9 --data %s/long.tsv -o %s/a", "longer than the model's 9", 1},
        {"-p quick --sources babi99 -o %s/a", "'babi99' is no source of fresh stories", 2},
        {"-p quick --sources babi18,babi18 -o %s/a", "named twice", 2},
        {"-p quick --sources babi18:1:0.9:babi18 -o %s/a", "waits for itself", 2},
        {"-p quick --sources babi18:1:0.9:kinship -o %s/a", "waits for 'kinship', which is not trained", 2},
        {"-p quick --sources babi18:1:1.5 -o %s/a", "at most 1", 2},
        {"-p quick --sources babi18@8 -o %s/a", "cannot start with 8", 2},
        {"-p quick --set heads=3 -o %s/a", "multiple of the number of heads", 2},
        {"-p quick --oracle nix -o %s/a", "relation, token, truth, wordpairs", 2},
        {"-p quick --out ''", "--out needs", 2},
        {"-p quick --data %s/bad2.tsv --sources foo -o %s/a", "bad2.tsv: has no row of split train and source 'foo'",
         2},
        {"-p quick -o /proc/no/folder", "/proc/no/folder", 1},
        {"-p quick --log %s/no/log -o %s/a", "--log", 1},
        {"-p quick --data %s/bad.tsv --log %s/bad.tsv", "--log would write over the file of --data", 2},
        {"-p quick --mlm %s/bad.tsv --log %s/./bad.tsv", "--log would write over the file of --mlm", 2},
        {"-p quick -o %s/a --log %s/a/state.safetensors", "--log would write over the file of --out", 2},
    };
    write_file(in_folder("bad.tsv"), "1\tthe box is big.\tit is.\nyes\tno\n");
    write_file(in_folder("bad2.tsv"), "1\tthe box is big.\tit is.\n");
    write_file(in_folder("long.tsv"), "1\tthe box is bigger than the jar.\tit is.\n0\tthe box is big.\tit is.\n");
    write_file(in_folder("devonly.tsv"), "dev\town\tSize\t1\ttrue\t1\tg\tthe box is big.\tit is.\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(arguments, sizeof arguments, cases[i].arguments, folder, folder);
        const int code = program(arguments, output, sizeof output);
        const size_t length = strlen(output);
        if (code != cases[i].code || !strstr(output, cases[i].says) || length == 0)
            fail_msg("%s: exit %d, '%s'", arguments, code, output);
        if (i > 0 && strchr(output, '\n') != output + length - 1)
            fail_msg("%s: more than one line: '%s'", arguments, output);
    }
}

static void test_program(void **state) {
    (void)state;
    char output[32768], arguments[400];
    assert_int_equal(program("--help", output, sizeof output), 0);
    assert_non_null(strstr(output, "--preset"));
    assert_int_equal(program("--version", output, sizeof output), 0);
    assert_string_equal(output, "train " DEA_VERSION "\n");
    snprintf(arguments, sizeof arguments, "-p quick -o %s/run --log %s/log.jsonl", folder, folder);
    assert_int_equal(program(arguments, output, sizeof output), 0);
    static trainer t; /* the same model: padding of the arena is no parameter */
    const trainer_config c = quick();
    size_t parameters = 0;
    char said[64];
    open_run(&t, &c, 1);
    for (int i = 0; i < t.e->table.count; i++) parameters += t.e->table.tensors[i].count;
    trainer_close(&t);
    snprintf(said, sizeof said, "parameters          %zu\n", parameters);
    assert_non_null(strstr(output, said));
    assert_non_null(strstr(output, "alpha-hat against alpha"));
    assert_non_null(strstr(output, "done at step 30"));
    assert_int_equal(access(in_folder("run/best.safetensors"), R_OK), 0);
    assert_int_equal(access(in_folder("run/state.safetensors"), R_OK), 0);
    assert_int_equal(program(arguments, output, sizeof output), 1); /* the folder holds a run */
    assert_non_null(strstr(output, "holds a run already"));
    /* So it does when the state is gone: the weights are what it is about. */
    assert_int_equal(unlink(in_folder("run/state.safetensors")), 0);
    assert_int_equal(program(arguments, output, sizeof output), 1);
    assert_non_null(strstr(output, "best.safetensors"));
    assert_int_equal(unlink(in_folder("run/best.safetensors")), 0);
    assert_int_equal(program(arguments, output, sizeof output), 1);
    assert_non_null(strstr(output, "last.safetensors"));
    /* Fine-tuning: a masked language model first, then its weights on pairs. */
    write_file(in_folder("text.txt"),
               "the box is bigger than the jar, and the jar fits inside the box.\nthe chest is old.\n");
    snprintf(arguments, sizeof arguments, "-p quick --steps 3 --mlm %s/text.txt -o %s/lm", folder, folder);
    assert_int_equal(program(arguments, output, sizeof output), 0);
    assert_non_null(strstr(output, "LM loss"));
    snprintf(arguments, sizeof arguments, "-p quick --steps 3 --init %s/lm/last.safetensors -o %s/tuned", folder,
             folder);
    assert_int_equal(program(arguments, output, sizeof output), 0);
    assert_non_null(strstr(output, "done at step 3"));
    snprintf(arguments, sizeof arguments, "-p quick --init %s/lm/last.safetensors --set width=64 -o %s/wide", folder,
             folder);
    assert_int_equal(program(arguments, output, sizeof output), 2);
    assert_non_null(strstr(output, "width cannot be 64: the shape of the model comes from --init"));
    snprintf(arguments, sizeof arguments, "-p quick --init %s/lm/last.safetensors --temperature off -o %s/cold", folder,
             folder);
    assert_int_equal(program(arguments, output, sizeof output), 2);
    snprintf(arguments, sizeof arguments, "-p quick --steps 1 --init %s/lm/last.safetensors --set width=32 -o %s/same",
             folder, folder);
    assert_int_equal(program(arguments, output, sizeof output), 0);
    snprintf(arguments, sizeof arguments, "-p quick --steps 2 --oracle truth -o %s/truth", folder);
    assert_int_equal(program(arguments, output, sizeof output), 0);
    assert_non_null(strstr(output, "tells the answer"));
    snprintf(arguments, sizeof arguments, "-p quick --steps 2 --oracle token -o %s/token", folder);
    assert_int_equal(program(arguments, output, sizeof output), 0);
}

/* What is printed must not get into the log, which would take the number of a closed standard output. */
static void test_closed_descriptors(void **state) {
    (void)state;
    char command[512], line[4096];
    snprintf(command, sizeof command, "build/train -p quick --steps 2 -o %s/closed --log %s/closed.jsonl >&- 2>&-",
             folder, folder);
    const int status = system(command);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1); /* what it printed was lost */
    FILE *log = fopen(in_folder("closed.jsonl"), "r");
    assert_non_null(log);
    int events = 0;
    for (; fgets(line, sizeof line, log); events++) assert_int_equal(line[0], '{');
    fclose(log);
    assert_true(events > 3);
}

/* A reader that goes away costs the report, not the run. */
static void test_broken_pipe(void **state) {
    (void)state;
    char command[512], said[256] = "";
    snprintf(command, sizeof command,
             "{ build/train -p quick --steps 40 -o %s/pipe 2>%s/pipe.err; echo $? >%s/pipe.rc; } | :", folder, folder,
             folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(access(in_folder("pipe/state.safetensors"), R_OK), 0);
    FILE *file = fopen(in_folder("pipe.err"), "r");
    assert_non_null(file);
    assert_non_null(fgets(said, sizeof said, file));
    fclose(file);
    assert_non_null(strstr(said, "train: standard output: "));
    file = fopen(in_folder("pipe.rc"), "r");
    assert_non_null(file);
    assert_int_equal(fgetc(file), '1');
    fclose(file);
}

/* Ctrl-C: exit 130, and resuming from what was saved gives the bits of a run that was never stopped. `name` is of the two runs,
 * `option` and `value` are theirs. */
static void expect_same_after_stop(const char *name, const char *option, const char *value) {
    char output[32768], arguments[400], command[512], stopped[160], log_path[168];
    snprintf(stopped, sizeof stopped, "%s/%s-stopped", folder, name);
    snprintf(log_path, sizeof log_path, "%s.jsonl", stopped);
    snprintf(arguments, sizeof arguments, "-p quick --set eval-every=1000 --steps 40 %s %s -o %s/%s-never", option,
             value, folder, name);
    assert_int_equal(program(arguments, output, sizeof output), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout)) _exit(126);
        execl("build/train", "train", "-p", "quick", "--set", "eval-every=1000", "--steps", "100000", "-o", stopped,
              "--log", log_path, option, value, (char *)NULL);
        _exit(127);
    }
    char line[4096];
    for (int tries = 0; tries < 2000; tries++) { /* until a few steps are done */
        FILE *log = fopen(log_path, "r");
        int count = 0;
        while (log && fgets(line, sizeof line, log)) count++;
        if (log) fclose(log);
        if (count > 3) break;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    snprintf(arguments, sizeof arguments, "-p quick -o %s", stopped); /* meanwhile the folder is the first run's own */
    assert_int_equal(program(arguments, output, sizeof output), 1);
    assert_non_null(strstr(output, "another train is running in this folder"));
    int status;
    kill(child, SIGINT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 130);
    snprintf(arguments, sizeof arguments, "--resume %s/state.safetensors --steps 40", stopped);
    assert_int_equal(program(arguments, output, sizeof output), 0);
    snprintf(command, sizeof command, "cmp %s/%s-never/last.safetensors %s/last.safetensors", folder, name, stopped);
    if (system(command)) fail_msg("resumed weights differ: %s", output);
}

static void test_interrupt(void **state) {
    (void)state;
    expect_same_after_stop("fresh", "--threads", "1");
}

/* Rows of a source that could be drawn fresh, taken as stored: babi16 is none of the preset's sources. */
static void test_interrupt_on_stored_rows(void **state) {
    (void)state;
    FILE *file = fopen(in_folder("stored.tsv"), "w");
    assert_non_null(file);
    for (int i = 0; i < 40; i++)
        fprintf(file, "train\tbabi16\tColour\t%d\t%s\t1\tg%d\tthe frog is the %dth. it is %s.\tit is green.\n", i % 2,
                i % 2 ? "true" : "hard", i / 2, i / 2, i % 2 ? "green" : "white");
    fclose(file);
    expect_same_after_stop("stored", "--data", in_folder("stored.tsv"));
    /* Moved data: the message says how to go on, and it does. */
    char output[32768], arguments[400];
    assert_int_equal(rename(in_folder("stored.tsv"), in_folder("moved.tsv")), 0);
    snprintf(arguments, sizeof arguments, "--resume %s/stored-stopped/state.safetensors --steps 41", folder);
    assert_int_equal(program(arguments, output, sizeof output), 1);
    assert_non_null(strstr(output, "say by --data FILE where it is now"));
    snprintf(arguments, sizeof arguments, "--resume %s/stored-stopped/state.safetensors --steps 41 --data %s/moved.tsv",
             folder, folder);
    assert_int_equal(program(arguments, output, sizeof output), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_and_seeds),
        cmocka_unit_test(test_resume_is_as_uninterrupted),
        cmocka_unit_test(test_resume_refuses_other_data_and_weights),
        cmocka_unit_test(test_gate_loss_and_fixed_alpha),
        cmocka_unit_test(test_learns),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_step_batches),
        cmocka_unit_test(test_masking),
        cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_stored_rows),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_share_of_stages),
        cmocka_unit_test(test_hiding),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_wrong_use),
        cmocka_unit_test(test_program),
        cmocka_unit_test(test_closed_descriptors),
        cmocka_unit_test(test_broken_pipe),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_interrupt_on_stored_rows),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

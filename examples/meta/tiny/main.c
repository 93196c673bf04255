/* meta-tiny: a whole life of meta-attention in under a minute. A three-layer base learns sums it sees, is frozen, and meets
 * sums it never saw; confidence heads, encoder and blocks then learn from its activations to confirm, correct or refuse. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meta/metrics.h"
#include "meta/train.h"
#include "text/standard.h"

#define USAGE                                                                                                          \
    "usage: meta-tiny [--seed N]\n"                                                                                    \
    "Trains a tiny base on sums, freezes it, and trains meta-attention on top. Last line: PASS or FAIL.\n"             \
    "  --seed N   seed of everything random (42)\n"                                                                    \
    "  -h, --help   -V, --version\n"                                                                                   \
    "Exit code: 0 PASS, 1 FAIL or an error, 2 wrong usage.\n"

/* ---- the task: a + b modulo NUMBERS, as words; the base never sees two numbers from LARGE on added ------------------------------------------------------------------------- */
enum { NUMBERS = 29, PAIRS = NUMBERS * NUMBERS, PAD = NUMBERS, START, END, PLUS, EQUALS, WORDS_AT };
static const char *const words[] = {"No,", "the", "answer", "is",     ".",  "I",
                                    "am",  "not", "sure",   "enough", "to", "this"};
enum { NO = WORDS_AT, THE, ANSWER, IS, STOP, I_WORD, AM, NOT, SURE, ENOUGH, TO, THIS, VOCAB };
static const meta_wording wording = {"I am not sure enough to answer this.", "No, the answer is "};

enum { PROMPT = 5, TARGET = 10, SEQ = PROMPT + TARGET + 1 };
enum { LAYERS = 3, WIDTH = 64, HEADS = 4, KV_HEADS = 2, FFN = 128, BOTTLENECK = 32 };
enum { BASE_STEPS = 600, BASE_BATCH = 32, BASE_SEQ = 1 + TARGET, LARGE = 13 };

static int sum_of(int pair) {
    return (pair / NUMBERS + pair % NUMBERS) % NUMBERS;
}

static void write_prompt(int pair, int *ids) {
    const int prompt[PROMPT] = {START, pair / NUMBERS, PLUS, pair % NUMBERS, EQUALS};
    memcpy(ids, prompt, sizeof prompt);
}

/* Tokens of a target with its end token; returns their number. */
static int write_target(dea_meta_action action, int answer, int *ids) {
    const int confirm[] = {answer, END};
    const int correct[] = {NO, THE, ANSWER, IS, answer, STOP, END};
    const int refuse[] = {I_WORD, AM, NOT, SURE, ENOUGH, TO, ANSWER, THIS, STOP, END};
    const int *const from[] = {confirm, correct, refuse};
    const size_t bytes[] = {sizeof confirm, sizeof correct, sizeof refuse};
    memcpy(ids, from[action], bytes[action]);
    return (int)(bytes[action] / sizeof *ids);
}

/* Tokens as text; no space before a full stop. */
static void to_text(const int *ids, int count, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < count && used < size; i++) {
        const char *space = i && ids[i] != STOP ? " " : "";
        const char *marks[] = {"<pad>", "<s>", "</s>", "+", "="};
        int n;
        if (ids[i] < NUMBERS)
            n = snprintf(text + used, size - used, "%s%d", space, ids[i]);
        else
            n = snprintf(text + used, size - used, "%s%s", space,
                         ids[i] < WORDS_AT ? marks[ids[i] - PAD] : words[ids[i] - NO]);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* ---- the base ---------------------------------------------------------------------------------------------------------- */
typedef struct base_weights {
    llama_config config;
    dea_tensor tensors[LLAMA_TENSORS];
    dea_table table;
    dea_real *params, *grads, *m, *v; /* the last three only while the base is trained */
} base_weights;

static size_t place(const base_weights *w, llama_tensor which, int layer) {
    const dea_tensor *t = &w->table.tensors[which];
    return t->offset + (llama_is_per_layer(which) ? (size_t)layer * (t->count / (size_t)w->config.layers) : 0);
}

static const dea_real *base_get(void *weights, llama_tensor which, int layer) {
    const base_weights *w = (const base_weights *)weights;
    return w->params + place(w, which, layer);
}

static dea_real *base_gradient(void *weights, llama_tensor which, int layer) {
    const base_weights *w = (const base_weights *)weights;
    return w->grads + place(w, which, layer);
}

static dea_status base_open(base_weights *w, uint64_t seed) {
    const llama_config config = {LAYERS, WIDTH, HEADS, KV_HEADS, FFN, VOCAB, 10000, 1e-5};
    dea_status status = llama_check(&config);
    memset(w, 0, sizeof *w);
    w->config = config;
    w->table = dea_table_init(w->tensors, LLAMA_TENSORS);
    for (int i = 0; status == DEA_OK && i < LLAMA_TENSORS; i++) {
        int rows, columns;
        llama_shape(&config, (llama_tensor)i, &rows, &columns);
        const int per_layer = llama_is_per_layer((llama_tensor)i), shape[3] = {LAYERS, rows, columns};
        status = dea_table_add(&w->table, "", llama_name((llama_tensor)i), per_layer ? 3 : 2,
                               per_layer ? shape : shape + 1, DEA_GROUP_MAIN, rows > 1, NULL);
    }
    if (status != DEA_OK) return status;
    w->params = (dea_real *)calloc(w->table.elements, sizeof *w->params);
    w->grads = (dea_real *)calloc(3 * w->table.elements, sizeof *w->grads);
    if (!w->params || !w->grads) return DEA_ERR_CAPACITY;
    w->m = w->grads + w->table.elements;
    w->v = w->m + w->table.elements;
    for (int i = 0; i < LLAMA_TENSORS; i++) {
        const dea_tensor *t = &w->tensors[i];
        dea_real *x = w->params + t->offset;
        if (!t->decay)
            for (size_t k = 0; k < t->count; k++) x[k] = 1;
        else
            dea_fill_normal(x, t->count, i == LLAMA_EMB ? 0.5 : 1 / sqrt(t->shape[t->rank - 1]),
                            dea_meta_random(seed + (uint64_t)i));
    }
    return DEA_OK;
}

static void base_drop_gradients(base_weights *w) {
    free(w->grads);
    w->grads = w->m = w->v = NULL;
}

/* One sequence of the base's corpus: a sum it sees, or a sentence it must be able to say. targets: -1 where no loss is. */
static void base_example(const int *seen, int seen_count, uint64_t draw, int *ids, int *targets) {
    const uint64_t kind = dea_meta_random(draw), pick = dea_meta_random(kind);
    int answer[TARGET], n = PROMPT, scored = PROMPT;
    if (kind % 100 < 80) {
        const int pair = seen[pick % (uint64_t)seen_count];
        write_prompt(pair, ids);
        n += write_target(DEA_META_CONFIRM, sum_of(pair), answer);
    } else {
        n = scored = 1;
        ids[0] = START;
        n += write_target(kind % 100 < 90 ? DEA_META_CORRECT : DEA_META_REFUSE, (int)(pick % NUMBERS), answer);
    }
    for (int t = scored; t < BASE_SEQ; t++) ids[t] = t < n ? answer[t - scored] : PAD;
    for (int t = 0; t < BASE_SEQ; t++) targets[t] = t + 1 >= scored && t + 1 < n ? ids[t + 1] : -1;
}

/* Buffers of the base's own training. */
typedef struct base_training {
    dea_real *x, *dx, *logits, *saved, *workspace, *head;
    int ids[BASE_BATCH * BASE_SEQ], targets[BASE_BATCH * BASE_SEQ];
} base_training;

static dea_status base_step(const llama_model *model, base_weights *w, base_training *t, int step) {
    const llama_gradients gradients = {base_gradient, w};
    dea_adamw adamw = dea_adamw_init();
    double loss;
    adamw.lr[DEA_GROUP_MAIN] = 3e-3;
    memset(w->grads, 0, w->table.elements * sizeof *w->grads);
    llama_call call = llama_call_init(t->ids, BASE_BATCH, BASE_SEQ);
    call.saved = t->saved;
    call.workspace = t->workspace;
    dea_status status = llama_forward(model, &call, t->x);
    if (status == DEA_OK) status = llama_head(model, t->x, BASE_BATCH * BASE_SEQ, t->logits, t->head);
    if (status == DEA_OK)
        status = dea_cross_entropy_forward(t->logits, t->targets, &loss, NULL, BASE_BATCH * BASE_SEQ, VOCAB, 0);
    if (status == DEA_OK)
        status = dea_cross_entropy_backward(t->logits, t->targets, 1, t->logits, BASE_BATCH * BASE_SEQ, VOCAB, 0);
    if (status == DEA_OK)
        status = llama_head_backward(model, t->x, t->logits, BASE_BATCH * BASE_SEQ, t->dx, &gradients, t->head);
    if (status == DEA_OK) status = llama_backward(model, &call, t->dx, -1, &gradients);
    if (status == DEA_OK)
        status = dea_adamw_step(&adamw, &w->table, w->params, w->grads, w->m, w->v, step + 1,
                                dea_warmup_cosine(step, BASE_STEPS / 20, BASE_STEPS), NULL);
    if (step % 100 == 0 || step + 1 == BASE_STEPS) printf("  step %4d  loss %.4f\n", step, loss), fflush(stdout);
    return status;
}

static dea_status base_train(const llama_model *model, base_weights *w, const int *seen, int seen_count,
                             uint64_t seed) {
    const size_t N = (size_t)BASE_BATCH * BASE_SEQ, saved = llama_saved_count(&w->config, BASE_BATCH, BASE_SEQ);
    base_training *t = (base_training *)calloc(1, sizeof *t);
    dea_real *memory = (dea_real *)calloc(
        N * (3 * WIDTH + VOCAB) + saved + llama_workspace_count(&w->config, BASE_BATCH, BASE_SEQ), sizeof *memory);
    dea_status status = t && memory ? DEA_OK : DEA_ERR_CAPACITY;
    if (status == DEA_OK) {
        t->x = memory;
        t->dx = t->x + N * WIDTH;
        t->head = t->dx + N * WIDTH;
        t->logits = t->head + N * WIDTH;
        t->saved = t->logits + N * VOCAB;
        t->workspace = t->saved + saved;
    }
    for (int step = 0; status == DEA_OK && step < BASE_STEPS; step++) {
        for (int b = 0; b < BASE_BATCH; b++)
            base_example(seen, seen_count, dea_meta_random(seed) + (uint64_t)(step * BASE_BATCH + b),
                         t->ids + b * BASE_SEQ, t->targets + b * BASE_SEQ);
        status = base_step(model, w, t, step);
    }
    free(t), free(memory);
    return status;
}

/* ---- the run ----------------------------------------------------------------------------------------------------------- */
typedef struct run {
    uint64_t seed;
    base_weights weights;
    meta_system m;
    meta_batch *batch;
    meta_items items;
    int order[PAIRS], candidates[NUMBERS];
    char names[NUMBERS][4];
    const char *candidate_names[NUMBERS];
    meta_part train, validation, test;
    double weights_sum[LAYERS * LAYERS]; /* A of every block, summed */
    int positions;
} run;

static dea_status items_open(run *r) {
    meta_items *s = &r->items;
    s->count = PAIRS;
    s->prompt_seq = PROMPT;
    s->target_seq = TARGET;
    s->prompt = (int *)calloc((size_t)PAIRS * (PROMPT + 3 * TARGET + 6), sizeof(int));
    s->act = (dea_real *)calloc((size_t)PAIRS * LAYERS * WIDTH, sizeof *s->act);
    s->margin = (double *)calloc(PAIRS, sizeof *s->margin);
    if (!s->prompt || !s->act || !s->margin) return DEA_ERR_CAPACITY;
    s->target = s->prompt + PAIRS * PROMPT;
    s->n_prompt = s->target + PAIRS * 3 * TARGET;
    s->n_target = s->n_prompt + PAIRS;
    s->right = s->n_target + 3 * PAIRS;
    s->base_right = s->right + PAIRS;
    s->candidates = r->candidates;
    s->candidate_count = NUMBERS;
    for (int k = 0; k < NUMBERS; k++) {
        r->candidates[k] = k;
        snprintf(r->names[k], sizeof r->names[k], "%d", k);
        r->candidate_names[k] = r->names[k];
    }
    for (int i = 0; i < PAIRS; i++) {
        write_prompt(i, s->prompt + i * PROMPT);
        s->n_prompt[i] = PROMPT;
        s->right[i] = sum_of(i);
        for (int a = 0; a < 3; a++)
            s->n_target[3 * i + a] = write_target((dea_meta_action)a, sum_of(i), s->target + (3 * i + a) * TARGET);
    }
    return DEA_OK;
}

static void report(void *context, int phase, int epoch, double train, double validation, int best) {
    (void)context;
    printf("  phase %d  epoch %2d  loss %.4f  validation %.4f%s\n", phase, epoch, train, validation,
           best ? "  best" : "");
    fflush(stdout);
}

static dea_status phase_1(run *r) {
    dea_meta_confidence heads = dea_meta_confidence_init(LAYERS, WIDTH);
    dea_tensor tensors[8];
    dea_table table = dea_table_init(tensors, 8);
    const dea_threads *threads = &r->m.base.threads;
    heads.bottleneck = BOTTLENECK;
    dea_status status = dea_meta_confidence_register(&heads, &table, "conf_");
    if (status != DEA_OK) return status;
    dea_real *params = (dea_real *)calloc(table.elements, sizeof *params);
    double *p = (double *)calloc((size_t)r->test.count * (LAYERS + 1), sizeof *p);
    int *label = (int *)calloc((size_t)r->test.count, sizeof *label);
    status = params && p && label ? dea_meta_confidence_reset(&heads, params, r->seed) : DEA_ERR_CAPACITY;
    meta_settings s = meta_settings_init();
    s.lr = 2e-3;
    s.epochs = 12;
    s.seed = r->seed;
    s.report = report;
    if (status == DEA_OK)
        status = meta_train_confidence(&heads, &table, params, &r->items, r->train, r->validation, &s, threads);
    if (status == DEA_OK) status = meta_judge(&heads, params, &r->items, r->test, p, threads);
    for (int l = 0; status == DEA_OK && l < LAYERS; l++) {
        int correct = 0, right = 0;
        double *own = p + r->test.count * LAYERS;
        for (int i = 0; i < r->test.count; i++) {
            own[i] = p[i * LAYERS + l];
            label[i] = r->items.base_right[r->test.index[i]];
            right += label[i];
            correct += (own[i] > 0.5) == label[i];
        }
        char accuracy[64], rate[64];
        meta_ratio(accuracy, sizeof accuracy, correct, r->test.count);
        meta_ratio(rate, sizeof rate, right, r->test.count);
        printf("  layer %d: accuracy %s, AUROC %.3f, ECE %.3f; right items %s\n", l, accuracy,
               meta_auroc(own, label, r->test.count), meta_ece(own, label, r->test.count, 15), rate);
    }
    if (status == DEA_OK) status = dea_meta_warm_start(&heads, params, &r->m.encoder, r->m.params);
    free(params), free(p), free(label);
    return status;
}

static dea_status phase_2(run *r, const char **what) {
    meta_settings s = meta_settings_init();
    s.lr = 2e-3;
    s.micro = 16;
    s.group = 2;
    s.epochs = 12;
    s.seed = r->seed;
    s.report = report;
    return meta_train(&r->m, r->batch, &r->items, r->train, r->validation, &s, what);
}

/* How the cognitive tokens of a test item are made. */
typedef enum source { OWN, ROTATED, NOTHING } source;

static dea_status evaluate(run *r, source from, meta_tally *tally, int show) {
    static const dea_real nothing[LAYERS * WIDTH] = {0};
    dea_status status = DEA_OK;
    memset(tally, 0, sizeof *tally);
    for (int i = 0; status == DEA_OK && i < r->test.count; i++) {
        const int item = r->test.index[i], other = r->test.index[(i + 1) % r->test.count];
        const dea_real *act = r->items.act + (size_t)(from == ROTATED ? other : item) * LAYERS * WIDTH;
        int answer[TARGET], named;
        char text[160];
        status = meta_think(&r->m, r->batch, 1, from == NOTHING ? nothing : act);
        if (status != DEA_OK) break;
        const int n = meta_generate(&r->m, r->batch, r->items.prompt + item * PROMPT, PROMPT, 1, END, answer, TARGET,
                                    from == OWN ? r->weights_sum : NULL, &r->positions, &status);
        if (n < 0) break;
        to_text(answer, n, text, sizeof text);
        const dea_meta_action action = meta_classify(&wording, text, r->candidate_names, NUMBERS, &named);
        if (i < show)
            printf("  %2d + %2d = %-38s (%d; the base alone is %s)\n", item / NUMBERS, item % NUMBERS, text,
                   sum_of(item), r->items.base_right[item] ? "right" : "wrong");
        meta_tally_add(tally, action, named, sum_of(item), r->items.base_right[item]);
    }
    return status;
}

/* (30) as text: a row a write layer, a column a cognitive token. */
static void print_heat(const run *r) {
    static const char shades[] = " .:-=+*#%@";
    const int h = r->m.blocks.heads;
    printf("attention to cognitive tokens, from the last prompt token on (rows: blocks, columns: read layers)\n");
    for (int l = 0; l < LAYERS; l++) {
        printf("  layer %d ", l);
        for (int c = 0; c < LAYERS; c++) {
            const double a = r->positions ? r->weights_sum[l * LAYERS + c] / ((double)r->positions * h) : 0;
            printf("  %.3f %c", a, shades[a >= 1 ? 9 : (int)(a * 10)]);
        }
        printf("\n");
    }
}

static void print_gates(const run *r) {
    printf("gates\n");
    for (int l = 0; l < LAYERS; l++)
        printf("  layer %d  tanh(g) %+.4f  tanh(e) %+.4f\n", l, tanh((double)r->m.params[r->m.blocks.gate + (size_t)l]),
               tanh((double)r->m.params[r->m.encoder.gate + (size_t)l]));
}

/* 2.8 (2) on every test item: with the gates at 0, the logits of pass 2 are the base's bit for bit. */
static dea_status zero_gates(run *r, int *same) {
    dea_real *gate = r->m.params + r->m.blocks.gate, keep[LAYERS];
    dea_status status = DEA_OK;
    const size_t count = (size_t)PROMPT * WIDTH;
    dea_real *base = (dea_real *)malloc(count * sizeof *base);
    if (!base) return DEA_ERR_CAPACITY;
    memcpy(keep, gate, sizeof keep);
    memset(gate, 0, sizeof keep);
    *same = 1;
    for (int i = 0; status == DEA_OK && i < r->test.count; i++) {
        const int item = r->test.index[i], *prompt = r->items.prompt + item * PROMPT, n = PROMPT;
        status = meta_pass2(&r->m, r->batch, 1, PROMPT, prompt, &n, 0);
        memcpy(base, r->batch->x, count * sizeof *base);
        if (status == DEA_OK) status = meta_think(&r->m, r->batch, 1, r->items.act + (size_t)item * LAYERS * WIDTH);
        if (status == DEA_OK) status = meta_pass2(&r->m, r->batch, 1, PROMPT, prompt, &n, 1);
        if (memcmp(base, r->batch->x, count * sizeof *base)) *same = 0;
    }
    memcpy(gate, keep, sizeof keep);
    free(base);
    return status;
}

static dea_status freeze_and_prepare(run *r) {
    static const int layers[LAYERS] = {0, 1, 2};
    llama_model base;
    memset(&base, 0, sizeof base);
    base.config = r->weights.config;
    base.get = base_get;
    base.weights = &r->weights;
    base.threads.count = 1;
    int seen[PAIRS], seen_count = 0;
    for (int i = 0; i < PAIRS; i++)
        if (i / NUMBERS < LARGE || i % NUMBERS < LARGE) seen[seen_count++] = i;
    printf("base: %d layers, width %d, %d sums seen of %d\n", LAYERS, WIDTH, seen_count, PAIRS);
    dea_status status = base_train(&base, &r->weights, seen, seen_count, r->seed);
    base_drop_gradients(&r->weights);
    if (status == DEA_OK) status = meta_init(&r->m, &base, layers, LAYERS, layers, LAYERS, BOTTLENECK, 4);
    if (status == DEA_OK) status = meta_register(&r->m);
    if (status != DEA_OK) return status;
    r->m.params = (dea_real *)calloc(r->m.table.elements, sizeof *r->m.params);
    r->batch = meta_batch_open(&r->m, 16, SEQ);
    if (!r->m.params || !r->batch) return DEA_ERR_CAPACITY;
    status = dea_meta_encoder_reset(&r->m.encoder, r->m.params, r->seed + 1);
    return status == DEA_OK ? dea_meta_blocks_reset(&r->m.blocks, r->m.params, r->seed + 2) : status;
}

static void split(run *r) {
    meta_shuffle(r->order, PAIRS, r->seed + 3);
    r->test.index = r->order, r->test.count = PAIRS / 4;
    r->validation.index = r->order + r->test.count, r->validation.count = PAIRS / 8;
    r->train.index = r->validation.index + r->validation.count;
    r->train.count = PAIRS - r->test.count - r->validation.count;
}

static int failed(dea_status status, const char *where, const char *what) {
    fprintf(stderr, "meta-tiny: %s: %s%s%s\n", where, dea_status_string(status), what ? ": " : "", what ? what : "");
    printf("FAIL\n");
    return 1;
}

static int whole_run(run *r) {
    const char *what = NULL;
    meta_tally own, rotated, nothing;
    int same = 0;
    dea_status status = base_open(&r->weights, r->seed);
    if (status == DEA_OK) status = items_open(r);
    if (status == DEA_OK) status = freeze_and_prepare(r);
    if (status != DEA_OK) return failed(status, "base", NULL);
    const dea_meta_bytes bytes = {r->weights.params, r->weights.table.elements * sizeof *r->weights.params};
    const uint64_t before = dea_meta_hash(&bytes, 1);
    split(r);
    printf("phase 0: activations of %d items, %d to train, %d to validate, %d to test\n", PAIRS, r->train.count,
           r->validation.count, r->test.count);
    if ((status = meta_collect(&r->m, r->batch, &r->items)) != DEA_OK) return failed(status, "phase 0", NULL);
    printf("phase 1: confidence heads\n");
    if ((status = phase_1(r)) != DEA_OK) return failed(status, "phase 1", NULL);
    printf("phase 2: encoder and blocks\n");
    if ((status = phase_2(r, &what)) != DEA_OK) return failed(status, "phase 2", what);
    printf("test items, some of them\n");
    if ((status = evaluate(r, OWN, &own, 8)) == DEA_OK) status = evaluate(r, ROTATED, &rotated, 0);
    if (status == DEA_OK) status = evaluate(r, NOTHING, &nothing, 0);
    if (status == DEA_OK) status = zero_gates(r, &same);
    if (status != DEA_OK) return failed(status, "evaluation", NULL);
    printf("result\n");
    meta_tally_print(&own, stdout);
    print_gates(r);
    print_heat(r);
    printf("control: cognitive tokens of another item\n");
    meta_tally_print(&rotated, stdout);
    printf("control: no activations (act = 0)\n");
    meta_tally_print(&nothing, stdout);
    const int frozen = dea_meta_verify_frozen(&bytes, 1, before) == DEA_OK;
    printf("base: %zu bytes, hash %016llx before, %016llx after: %s\n", bytes.size, (unsigned long long)before,
           (unsigned long long)dea_meta_hash(&bytes, 1), frozen ? "unchanged" : "CHANGED");
    printf("zero gates: %s\n", same ? "the base, bit for bit" : "DIFFERENT from the base");
    const double on_wrong = (double)meta_tally_refused(&own, 0) * meta_tally_total(&own, 1);
    const double on_right = (double)meta_tally_refused(&own, 1) * meta_tally_total(&own, 0);
    const int selective = meta_tally_refused(&own, 0) > 0 && on_wrong >= 2 * on_right;
    printf("refusals on wrong items %s twice as frequent as on right ones\n", selective ? "are at least" : "are NOT");
    const int pass = frozen && same && selective;
    printf("%s\n", pass ? "PASS" : "FAIL");
    return !pass;
}

static void run_close(run *r) {
    base_drop_gradients(&r->weights);
    free(r->weights.params), free(r->items.prompt), free(r->items.act), free(r->items.margin), free(r->m.params);
    meta_batch_close(r->batch);
    free(r);
}

static int wrong_usage(const char *format, const char *what) {
    fputs("meta-tiny: ", stderr);
    fprintf(stderr, format, what);
    fputs("; see meta-tiny --help\n", stderr);
    return 2;
}

int main(int argc, char **argv) {
    static const struct option options[] = {{"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {"seed", required_argument, NULL, 's'},
                                            {0, 0, 0, 0}};
    uint64_t seed = 42;
    standard_open();
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":hV", options, NULL)) != -1;) {
        if (c == 'h' || c == 'V') {
            fputs(c == 'h' ? USAGE : "meta-tiny " DEA_VERSION "\n", stdout);
            return standard_finish("meta-tiny", 0);
        }
        if (c == ':') return wrong_usage("%s needs a value", argv[optind - 1]);
        if (c != 's') return wrong_usage("unknown option %s", argv[optind - 1]);
        char *end;
        errno = 0;
        seed = strtoull(optarg, &end, 10);
        if (*optarg < '0' || *optarg > '9' || *end || errno)
            return wrong_usage("--seed takes a whole number, not \"%s\"", optarg);
    }
    if (optind < argc) return wrong_usage("unexpected argument \"%s\"", argv[optind]);
    run *r = (run *)calloc(1, sizeof *r);
    if (!r) return failed(DEA_ERR_CAPACITY, "memory", NULL);
    r->seed = seed;
    const int code = whole_run(r);
    run_close(r);
    return standard_finish("meta-tiny", code);
}

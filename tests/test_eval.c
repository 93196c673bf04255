/* Model files and build/eval: the figures against the same figures worked out one row at a time, and every bad input
 * one line. The model is untrained: what is tested is the measuring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/model.h"
#include "encoder/batch.h"
#include "eval/score.h"
#include "eval/tables.h"
#include "text/rows.h"

static char program[512]; /* build/eval beside build/tests/ */
static char folder[] = "/tmp/dea-eval-XXXXXX";
static char ckpt[64], data[64], json[64], predictions[64], out[64], err[64];

/* ---- a model and its data ---------------------------------------------------------------------------------------- */

enum { ROWS = 24, TRAIN = 16 };

static const char vocabulary_text[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n'"
    "\ns\nruth\nmark\nis\naunt\nuncle\nof\nthe\nbox\njar\nbigger\nthan\nfits\ninside\nin\n"
    "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\no\np\nq\nr\nt\nu\nv\nw\nx\ny\nz\n##a\n##b\n##c\n##d\n##e\n##f\n##g\n##"
    "h\n##i\n##j\n##k\n##l\n"
    "##m\n##n\n##o\n##p\n##q\n##r\n##s\n##t\n##u\n##v\n##w\n##x\n##y\n##z\n+\n5\n3\n2\n8\n";

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    const size_t size = fread(text, 1, (1 << 20) - 1, file);
    text[size] = '\0';
    fclose(file);
    return text;
}

static void write_data(const char *path) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < TRAIN + ROWS; i++) { /* premises of unlike length, so that batches pad */
        const char *split = i < TRAIN ? "train" : "test";
        const int label = i % 2 == 0, kin = i % 4 < 2;
        fprintf(file, "%s\t%s\t%s\t%d\t%s\t%d\tg%d\t", split, kin ? "kinship" : "babi18", kin ? "Kin" : "Size", label,
                label ? "true" : "hard", kin ? 2 + i / 4 % 2 : 1, i / 2);
        for (int k = 0; k <= i / 2 % 5; k++)
            fputs(kin ? (k ? " mark is the uncle of ruth." : "ruth is in the box.")
                      : (k ? " the jar fits inside the box." : "the box is bigger than c."),
                  file);
        if (kin)
            fprintf(file, "\t%s\n", label ? "ruth is mark's aunt." : "mark is ruth's aunt.");
        else
            fprintf(file, "\t%s\n", label ? "the box is bigger than the jar." : "the jar is in the box.");
    }
    assert_int_equal(fclose(file), 0);
}

static encoder_config tiny_config(void) {
    encoder_config c = encoder_config_default();
    c.max_length = 96;
    c.d_model = 16, c.heads = 2, c.layers = 2, c.feed_forward = 24;
    c.positions = ENCODER_SENTENCE;
    c.embedding_std = c.sentence_std = 1; /* rows must differ visibly */
    c.use_temperature = 1;
    return c;
}

/* Saves an untrained model; `spoil` may change the configuration after the weights were made. */
static void save_model(const char *path, encoder_config config, void (*spoil)(encoder_config *),
                       const char *vocabulary) {
    text_error error = {""};
    char message[160];
    tokenizer *t = tokenizer_parse("vocabulary", vocabulary, strlen(vocabulary), true, &error);
    if (!t) fail_msg("%s", error.message);
    if (!config.vocab) config.vocab = tokenizer_size(t);
    encoder *e = encoder_new(&config, message);
    if (!e) fail_msg("%s", message);
    dea_real *params = calloc(e->table.elements, sizeof *params);
    assert_non_null(params);
    assert_int_equal(encoder_reset(e, params, 7), DEA_OK);
    if (spoil) spoil(&config);
    checkpoint_pair pairs[MODEL_PAIRS + 1];
    char *text;
    assert_int_equal(model_pairs(&config, t, pairs, &text, &error), 0);
    pairs[MODEL_PAIRS] = (checkpoint_pair){"step", "1234"};
    const checkpoint_part weights = {"", &e->table, params};
    if (checkpoint_save(path, &weights, 1, pairs, MODEL_PAIRS + 1, NULL, &error) != 0) fail_msg("%s", error.message);
    free(text);
    free(params);
    encoder_free(e);
    tokenizer_free(t);
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    char *const names[] = {ckpt, data, json, predictions, out, err};
    const char *const ends[] = {"model.safetensors", "data.tsv", "r.json", "p.tsv", "out", "err"};
    for (int i = 0; i < 6; i++) snprintf(names[i], 64, "%s/%s", folder, ends[i]);
    save_model(ckpt, tiny_config(), NULL, vocabulary_text);
    write_data(data);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* ---- running the program ----------------------------------------------------------------------------------------- */

/* Arguments up to NULL. The exit code; stdout and stderr are in the files `out` and `err`. */
static pid_t start(const char *const *arguments) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char *argv[32] = {program};
        for (int i = 0; arguments[i]; i++) argv[i + 1] = strdup(arguments[i]);
        const int o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600), e = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (dup2(o, 1) < 0 || dup2(e, 2) < 0) _exit(99);
        execv(program, argv);
        _exit(99);
    }
    return child;
}

static int finish(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define RUN(...) finish(start((const char *const[]){__VA_ARGS__, NULL}))

/* The last line of stderr holds `what`, and begins with the program's name. */
static void assert_says(const char *what) {
    char *text = read_text(err);
    size_t length = strlen(text);
    assert_true(length > 0 && text[length - 1] == '\n');
    text[length - 1] = '\0';
    const char *last = strrchr(text, '\n');
    last = last ? last + 1 : text;
    if (strncmp(last, "eval: ", 6) != 0 || !strstr(last, what)) fail_msg("'%s' lacks '%s'", last, what);
    free(text);
}

static void assert_missing(const char *path) {
    assert_int_equal(access(path, F_OK), -1);
}

/* No file of a run that failed is left, temporary ones neither. */
static void assert_nothing_written(void) {
    char command[256];
    assert_missing(json);
    assert_missing(predictions);
    snprintf(command, sizeof command, "ls %s | grep -q -e r.json -e p.tsv", folder);
    assert_int_not_equal(system(command), 0);
}

/* ---- model files ------------------------------------------------------------------------------------------------- */

static void test_config_round_trip(void **state) {
    (void)state;
    text_error error = {""};
    encoder_config c = tiny_config(), back;
    c.vocab = 77;
    c.positions = ENCODER_LEARNT;
    c.norm_eps = 1e-12, c.dropout = 0.1, c.fixed_alpha = 1.0 / 3, c.post_norm = 1, c.language_model = 1,
    c.tie_k_to_q = 1;
    char *text = model_config_print(&c);
    assert_non_null(text);
    memset(&back, 0, sizeof back);
    if (model_config_parse("f", text, &back, &error) != 0) fail_msg("%s", error.message);
    char *again = model_config_print(&back);
    assert_string_equal(text, again);
    assert_true(back.norm_eps == c.norm_eps && back.fixed_alpha == c.fixed_alpha && back.positions == c.positions &&
                back.vocab == 77);
    free(again);
    const char *const bad[] = {"", "[]", "{}", "{\"vocab\":1}", "nonsense"};
    for (int i = 0; i < 5; i++) assert_int_equal(model_config_parse("f", bad[i], &back, &error), -1);
    /* One member changed at a time. */
    const char *const from[] = {"\"vocab\":77",    "\"vocab\":77", "\"positions\":\"learnt\"",
                                "\"dropout\":0.1", "\"heads\":",   "\"heads\":2"};
    const char *const to[] = {"\"vocab\":77.5", "\"vocab\":\"77\"", "\"positions\":\"rotary\"",
                              "\"dropout\":[]", "\"hands\":",       "\"more\":1,\"heads\":2"};
    for (int i = 0; i < 6; i++) {
        char changed[2048];
        const char *at = strstr(text, from[i]);
        assert_non_null(at);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to[i], at + strlen(from[i]));
        assert_int_equal(model_config_parse("f", changed, &back, &error), -1);
        assert_non_null(strstr(error.message, "f: its configuration"));
    }
    free(text);
}

static void more_words(encoder_config *c) {
    c->vocab++;
}
static void wider(encoder_config *c) {
    c->d_model *= 2;
}
static void endless(encoder_config *c) {
    c->max_length = 1 << 30;
}
static void more_layers(encoder_config *c) {
    c->layers = 1;
}
static void no_heads(encoder_config *c) {
    c->heads = 0;
}

static void test_models_that_do_not_fit(void **state) {
    (void)state;
    const struct {
        void (*spoil)(encoder_config *);
        const char *what;
    } cases[] = {{more_words, "pieces, its configuration says"},
                 {wider, "has another shape"},
                 {endless, "rows of 1073741824 tokens"},
                 {more_layers, "that its configuration does not have"},
                 {no_heads, "makes no model"}};
    char path[96];
    snprintf(path, sizeof path, "%s/spoilt", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_error error = {""};
        model m;
        save_model(path, tiny_config(), cases[i].spoil, vocabulary_text);
        assert_int_equal(model_load(&m, path, &error), -1);
        if (!strstr(error.message, cases[i].what)) fail_msg("'%s' lacks '%s'", error.message, cases[i].what);
        assert_null(m.encoder);
    }
    text_error error = {""};
    model m;
    checkpoint_pair pairs[MODEL_PAIRS];
    char *text;
    assert_int_equal(model_load(&m, ckpt, &error), 0);
    const checkpoint_part weights = {"", &m.encoder->table, m.params};
    m.params[dea_table_find(&m.encoder->table, "layer.0.attention.temperature")->offset + 1] = -2;
    assert_int_equal(model_pairs(&m.encoder->config, m.vocabulary, pairs, &text, &error), 0);
    assert_int_equal(checkpoint_save(path, &weights, 1, pairs, MODEL_PAIRS, NULL, &error), 0);
    free(text);
    model_free(&m);
    assert_int_equal(model_load(&m, path, &error), -1);
    assert_non_null(strstr(error.message, "spoilt: 'layer.0.attention.temperature' holds -2 for head 1"));
    unlink(path);
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

typedef struct loaded {
    model m;
    rows all;
    const row *test; /* ROWS of them */
} loaded;

static void load(loaded *l) {
    text_error error = {""};
    memset(l, 0, sizeof *l);
    if (model_load(&l->m, ckpt, &error) != 0) fail_msg("%s", error.message);
    if (rows_load(&l->all, data, ROWS_AUTO, NULL, &error) != 0) fail_msg("%s", error.message);
    l->test = l->all.row + TRAIN;
    assert_int_equal(l->all.count, TRAIN + ROWS);
}

static void unload(loaded *l) {
    rows_free(&l->all);
    model_free(&l->m);
}

/* What one row gives by itself, unpadded and unbatched. */
typedef struct single {
    double probability, alpha, alpha_hat, cell_error;
    int64_t cells;
    metrics_sides sides;
} single;

/* Photo-finishes of one head, by the equations: the target is the labelled key with the largest S*(alpha). */
static void finishes_by_hand(single *s, const dea_maps *m, const dea_label_block *block, size_t blocks, size_t head,
                             size_t length) {
    for (size_t i = 0; i < length; i++) {
        double best = -INFINITY, target_alpha = 0;
        size_t target = 0;
        for (size_t j = 0; j < length; j++)
            for (size_t k = 0; k < blocks; k++)
                if ((int)i >= block[k].q_begin && (int)i < block[k].q_end && (int)j >= block[k].k_begin &&
                    (int)j < block[k].k_end) {
                    const size_t at = (head * length + i) * length + j;
                    const double alpha = (double)block[k].alpha,
                                 score = (1 - alpha) * (double)m->et0[at] + alpha * (double)m->et1[at];
                    if (score > best) best = score, target = j, target_alpha = alpha;
                }
        if (isinf(best)) continue;
        const size_t t = (head * length + i) * length + target;
        for (size_t j = 0; j < length; j++) {
            const size_t p = (head * length + i) * length + j;
            double beta;
            if (j != target &&
                dea_beta((double)m->et0[t], (double)m->et1[t], (double)m->et0[p], (double)m->et1[p], &beta))
                metrics_side_add(&s->sides, target_alpha, (double)m->alpha_hat[t], beta);
        }
    }
}

static void run_single(const loaded *l, const row *r, labeller *labels, single *s) {
    text_error error = {""};
    const encoder_config *c = &l->m.encoder->config;
    encoded_pair pair = {0};
    samples list = {0};
    batch_plan plan = {0};
    batch_buffer buffer = {0};
    encoder_work work = {0};
    assert_int_equal(encode_pair(l->m.vocabulary, NULL, r->premise, r->hypothesis, 0, &pair, &error), 0);
    assert_int_equal(labeller_add(labels, r, &pair, 0, &list.blocks, &error), 0);
    assert_int_equal(samples_add(&list, &pair, r->label, 0, &error), 0);
    assert_int_equal(batch_plan_make(&plan, &list, 1, &error), 0);
    assert_int_equal(batch_fill(&buffer, &list, &plan, 0, 0, &error), 0);
    const size_t length = pair.length, cells = (size_t)c->heads * length * length;
    dea_maps *maps = calloc((size_t)c->layers, sizeof *maps);
    dea_real *memory = malloc(3 * (size_t)c->layers * cells * sizeof *memory);
    assert_true(maps && memory);
    for (int layer = 0; layer < c->layers; layer++) {
        maps[layer].et0 = memory + 3 * (size_t)layer * cells;
        maps[layer].et1 = maps[layer].et0 + cells;
        maps[layer].alpha_hat = maps[layer].et1 + cells;
    }
    const encoder_run run = {.maps = maps};
    double probability[2];
    assert_int_equal(encoder_forward(l->m.encoder, l->m.params, &buffer.batch, &run, &work), DEA_OK);
    encoder_probabilities(l->m.encoder, 1, &work, probability);
    memset(s, 0, sizeof *s);
    s->probability = probability[1];
    for (size_t k = 0; k < list.blocks.count; k++) {
        const dea_label_block *b = &list.blocks.block[k];
        for (int layer = 0; layer < c->layers; layer++)
            s->alpha_hat += encoder_block_mean(maps[layer].alpha_hat, c->heads, (int)length, b) / c->layers /
                            (double)list.blocks.count;
        s->alpha += (double)b->alpha / (double)list.blocks.count;
        for (int layer = 0; layer < c->layers; layer++)
            for (size_t h = 0; h < (size_t)c->heads; h++)
                for (int i = b->q_begin; i < b->q_end; i++)
                    for (int j = b->k_begin; j < b->k_end; j++, s->cells++)
                        s->cell_error +=
                            fabs((double)maps[layer].alpha_hat[(h * length + (size_t)i) * length + (size_t)j] -
                                 (double)b->alpha);
    }
    for (int layer = 0; layer < c->layers; layer++)
        for (size_t h = 0; h < (size_t)c->heads; h++)
            finishes_by_hand(s, &maps[layer], list.blocks.block, list.blocks.count, h, length);
    free(maps);
    free(memory);
    encoder_work_free(&work);
    batch_buffer_free(&buffer);
    batch_plan_free(&plan);
    samples_free(&list);
    encoded_pair_free(&pair);
}

static void check_scores(const char *oracle) {
    loaded l;
    text_error error = {""};
    labeller labels;
    scores s;
    load(&l);
    assert_int_equal(labeller_open(&labels, oracle, 42, &error), 0);
    const score_options options = {.labels = &labels, .threads = {1, NULL, NULL}};
    if (scores_run(&s, &l.m, l.test, ROWS, &options, &error) != 0) fail_msg("%s", error.message);
    assert_int_equal(s.count, ROWS);
    static metrics_sides sides;
    memset(&sides, 0, sizeof sides);
    double cell_error = 0;
    int64_t cells = 0;
    int different = 0;
    for (size_t i = 0; i < ROWS; i++) {
        single one;
        run_single(&l, &l.test[i], &labels, &one);
        assert_true(fabs(one.probability - s.probability[i]) < 1e-4);
        assert_int_equal(s.predicted[i], s.probability[i] > 0.5);
        assert_int_equal(s.right[i], s.predicted[i] == l.test[i].label);
        assert_true(fabs(s.confidence[i] - fmax(s.probability[i], 1 - s.probability[i])) < 1e-9);
        assert_true(fabs(one.alpha - s.row_alpha[i]) < 1e-6);
        assert_true(fabs(one.alpha_hat - s.row_alpha_hat[i]) < 1e-4);
        cell_error += one.cell_error;
        cells += one.cells;
        sides.all.count += one.sides.all.count;
        sides.all.right += one.sides.all.right;
        sides.close.count += one.sides.close.count;
        sides.close.right += one.sides.close.right;
        different += fabs(s.probability[i] - s.probability[0]) > 1e-3;
    }
    assert_true(different > ROWS / 2); /* else the comparison above would say little */
    assert_int_equal(s.cells, cells);
    assert_true(fabs(s.cell_mae - cell_error / (double)cells) < 1e-5);
    /* Rounding may move a finish at the very edge in or out. */
    assert_true(sides.all.count > 500);
    assert_true(llabs(s.sides.all.count - sides.all.count) <= 3);
    assert_true(llabs(s.sides.all.right - sides.all.right) <= 5);
    assert_true(llabs(s.sides.close.count - sides.close.count) <= 5);
    assert_true(llabs(s.sides.close.right - sides.close.right) <= 8);
    for (int i = 0; i < s.layers * s.heads; i++)
        assert_true(s.entropy[i] > 0 && s.entropy[i] <= 1 && s.gate[i] > 0 && s.gate[i] <= 0.9501);
    scores_free(&s);
    labeller_close(&labels);
    unload(&l);
}

static void test_scores_relation(void **state) {
    (void)state;
    check_scores("relation");
}

static void test_scores_token(void **state) {
    (void)state;
    check_scores("token");
}

static int stop_at_once(void *context, size_t done, size_t all) {
    (void)context;
    assert_true(done > 0 && done <= all);
    return 1;
}

static void test_scores_refuse_and_stop(void **state) {
    (void)state;
    loaded l;
    text_error error = {""};
    scores s;
    load(&l);
    score_options options = {.threads = {1, NULL, NULL}, .progress = stop_at_once};
    assert_int_equal(scores_run(&s, &l.m, l.test, ROWS, &options, &error), -1);
    assert_null(s.alpha);
    options.progress = NULL;
    assert_int_equal(scores_run(&s, &l.m, l.test, ROWS, &options, &error), 0);
    assert_int_equal(s.blocks, 0); /* no oracle */
    assert_true(isnan(s.cell_mae) && isnan(s.row_alpha[3]));
    scores_free(&s);
    l.m.encoder->config.max_length = 20;
    assert_int_equal(scores_run(&s, &l.m, l.test, ROWS, &options, &error), -1);
    assert_non_null(strstr(error.message, "tokens, the model takes 20: give --cut"));
    options.cut = 1;
    assert_int_equal(scores_run(&s, &l.m, l.test, ROWS, &options, &error), 0);
    assert_true(s.cut > 0);
    scores_free(&s);
    unload(&l);
}

static void test_tables(void **state) {
    (void)state;
    static tables t;
    text_error error = {""};
    const row r[6] = {
        {"test", "kin", "Kin", 1, "true", 2, "a", "p1", "ruth is mark's aunt."},
        {"test", "kin", "Kin", 0, "hard", 2, "a", "p1", "mark is ruth's aunt."},
        {"test", "kin", "Kin", 1, "true", 3, "b", "p2", "ann is tom's niece."},
        {"test", "kin", "Kin", 0, "hard", 3, "b", "p2", "ann is tom's sister."},
        {"test", "isa", "IsA", 1, "true", 0, "c", "p3", "a b"},
        {"test", "isa", "IsA", 0, "easy", 0, "c", "p4", "b a"},
    };
    const unsigned char right[6] = {1, 0, 1, 1, 0, 1}, one[6] = {1, 1, 1, 1, 1, 1}, none[6] = {0};
    const unsigned char *baseline[BASELINE_KINDS] = {none, one, none, right};
    assert_int_equal(tables_make(&t, r, 6, right, baseline, &error), 0);
    const table *sources = &t.table[TABLE_SOURCE], *steps = &t.table[TABLE_STEPS], *swapped = &t.table[TABLE_SWAPPED];
    assert_int_equal(t.table[TABLE_ALL].row[0].right, 4);
    assert_int_equal(sources->count, 2);
    assert_string_equal(sources->row[0].name, "isa");
    assert_int_equal(sources->row[1].right, 3);
    assert_int_equal(sources->row[1].count, 4);
    assert_int_equal(sources->row[1].baseline[BASELINE_HYPOTHESIS], 4);
    assert_int_equal(sources->row[1].baseline[BASELINE_PREMISE], 0);
    assert_true(table_best_baseline(&t, &sources->row[1]) == 1);
    assert_int_equal(steps->count, 3);
    assert_string_equal(steps->row[2].name, "3");
    assert_int_equal(t.table[TABLE_KIND].count, 3);
    assert_string_equal(t.table[TABLE_SOURCE_STEPS].row[1].name, "kin, 2");
    assert_int_equal(swapped->count, 1); /* the other premise's anagram is no twin */
    assert_int_equal(swapped->row[0].count, 1);
    assert_int_equal(swapped->row[0].right, 0);
    tables_free(&t);
    assert_int_equal(tables_make(&t, r, 6, right, NULL, &error), 0);
    assert_true(table_best_baseline(&t, &t.table[TABLE_SOURCE].row[1]) == 0);
    tables_free(&t);
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static double get(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item)) fail_msg("'%s' is no number", name);
    return item->valuedouble;
}

static void test_program(void **state) {
    (void)state;
    assert_int_equal(RUN("--ckpt", ckpt, "--data", data, "--json", json, "--predictions", predictions), 0);
    char *page = read_text(out), *text = read_text(json), *listed = read_text(predictions);
    const char *const wanted[] = {"step 1234",
                                  "24 rows",
                                  "Accuracy, %",
                                  "kinship",
                                  "babi18",
                                  "steps 2",
                                  "swapped, false",
                                  "babi18b, fresh            800",
                                  "kind hard",
                                  "MAE of label blocks",
                                  "Spearman",
                                  "band agreement",
                                  "side of beta",
                                  "|alpha - beta| < 0.1",
                                  "Attention entropy",
                                  "expected calibration error",
                                  "Paris demo",
                                  "France"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!strstr(page, wanted[i])) fail_msg("the page lacks '%s':\n%s", wanted[i], page);
    cJSON *report = cJSON_Parse(text);
    assert_non_null(report);
    /* The page's figures are those of the predictions, counted anew. */
    int count = 0, right = 0, kin = 0, kin_right = 0;
    char *line = strtok(listed, "\n");
    assert_non_null(line);
    assert_int_equal(strncmp(line, "row\tsource\t", 11), 0);
    while ((line = strtok(NULL, "\n"))) {
        int number, steps, label, predicted;
        char source[32], relation[32], kind[32];
        double probability, alpha, hat;
        assert_int_equal(sscanf(line, "%d\t%31s\t%31s\t%31s\t%d\t%d\t%d\t%lf\t%lf\t%lf", &number, source, relation,
                                kind, &steps, &label, &predicted, &probability, &alpha, &hat),
                         10);
        assert_int_equal(number, ++count);
        right += label == predicted;
        if (strcmp(source, "kinship") == 0) kin++, kin_right += label == predicted;
    }
    assert_int_equal(count, ROWS);
    assert_true(fabs(get(report, "accuracy") - (double)right / count) < 1e-12);
    assert_true(fabs(get(cJSON_GetObjectItem(report, "by_source"), "kinship") - (double)kin_right / kin) < 1e-12);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(report, "by_kind")), 2);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(report, "by_steps")), 3);
    const char *const numbers[] = {
        "accuracy_low",  "accuracy_high", "alpha_mae",  "alpha_mae_constant", "band_agreement",
        "side_accuracy", "side_constant", "side_close", "attention_entropy",  "ece"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_true(get(report, numbers[i]) >= 0 && get(report, numbers[i]) <= 1);
    assert_true(fabs(get(report, "alpha_pearson")) <= 1 && fabs(get(report, "alpha_spearman")) <= 1);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(report, "baselines")), BASELINE_KINDS);
    /* The probe: two hypotheses and their twins for each story, and a model that learnt nothing cannot tell them apart. */
    assert_true(get(report, "babi18b_rows") == 800);
    assert_true(fabs(get(report, "babi18b_accuracy") - 0.5) < 0.1);
    cJSON_Delete(report);
    /* Again, and with two threads: the same bytes. */
    assert_int_equal(RUN("--ckpt", ckpt, "--data", data, "--json", json, "--threads", "2"), 0);
    char *again = read_text(json);
    assert_string_equal(text, again);
    free(again);
    free(page);
    free(text);
    free(listed);
    unlink(json);
    unlink(predictions);
}

static void test_program_without_gate(void **state) {
    (void)state;
    char path[96];
    snprintf(path, sizeof path, "%s/fixed", folder);
    encoder_config c = tiny_config();
    c.fixed_alpha = 0;
    save_model(path, c, NULL, vocabulary_text);
    assert_int_equal(RUN("--ckpt", path, "--data", data, "--json", json, "--no-baselines"), 0);
    char *page = read_text(out), *text = read_text(json);
    assert_non_null(strstr(page, "alpha is fixed at 0"));
    assert_non_null(strstr(page, "Baselines were not run"));
    cJSON *report = cJSON_Parse(text);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(report, "alpha_mae")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(report, "side_accuracy")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(report, "baselines")));
    cJSON_Delete(report);
    free(page);
    free(text);
    unlink(json);
    unlink(path);
}

/* Label, premise and hypothesis alone: there is no split to name, whatever was asked for. */
static void test_data_without_splits(void **state) {
    (void)state;
    char bare[96];
    snprintf(bare, sizeof bare, "%s/bare", folder);
    FILE *from = fopen(data, "r"), *to = fopen(bare, "w");
    assert_true(from && to);
    char line[4096];
    while (fgets(line, sizeof line, from)) {
        char *field[9], *at = line;
        for (int i = 0; i < 9; i++) {
            field[i] = at;
            at += strcspn(at, "\t\n");
            *at++ = '\0';
        }
        fprintf(to, "%s\t%s\t%s\n", field[3], field[7], field[8]);
    }
    fclose(from);
    assert_int_equal(fclose(to), 0);
    assert_int_equal(RUN("--ckpt", ckpt, "--data", bare, "--split", "dev", "--json", json, "--no-demo"), 0);
    char *page = read_text(out), *text = read_text(json);
    assert_non_null(strstr(page, "bare, all of it: "));
    assert_null(strstr(page, ", split "));
    cJSON *report = cJSON_Parse(text);
    assert_string_equal(cJSON_GetObjectItem(report, "split")->valuestring, "all");
    cJSON_Delete(report);
    free(page);
    free(text);
    unlink(json);
    unlink(bare);
}

static void test_bad_inputs(void **state) {
    (void)state;
    char path[96], broken[96], linked[96], dotted[96];
    snprintf(path, sizeof path, "%s/other", folder);
    snprintf(broken, sizeof broken, "%s/broken", folder);
    snprintf(linked, sizeof linked, "%s/linked", folder);
    assert_int_equal(symlink(ckpt, linked), 0);
    snprintf(dotted, sizeof dotted, "%s/./r.json", folder);
    assert_int_equal(RUN("--help"), 0);
    assert_int_equal(RUN("--version"), 0);
    const struct {
        const char *arguments[8];
        int code;
        const char *what;
    } cases[] = {
        {{"--data", data}, 2, "--ckpt FILE is needed"},
        {{"--ckpt"}, 2, "--ckpt needs a value"},
        {{"--ckpt", ckpt, "--nope"}, 2, "eval: unknown option --nope; see eval --help"},
        {{"--ckpt", ckpt, "more"}, 2, "unexpected argument"},
        {{"--ckpt", ckpt, "--split", "tset"}, 2, "--split takes"},
        {{"--ckpt", ckpt, "--threads", "0"}, 2, "--threads takes"},
        {{"--ckpt", ckpt, "--seed", "-1"}, 2, "--seed takes"},
        {{"--ckpt", "/no/such", "--data", data}, 1, "/no/such: cannot be opened: No such file"},
        {{"--ckpt", data, "--data", data}, 1, "another kind of file; give a .safetensors file of build/train"},
        {{"--ckpt", ckpt, "--data", "/no/such"}, 1, "/no/such"},
        {{"--ckpt", ckpt, "--data", data, "--split", "dev"}, 1, "has no rows of split dev"},
        {{"--ckpt", ckpt, "--data", data, "--oracle", "/no/such"}, 1, "/no/such"},
        {{"--ckpt", ckpt, "--data", broken}, 1, "broken:2:"},
        {{"--ckpt", ckpt, "--data", data, "--json", "/no/such/folder/r.json"},
         1,
         "/no/such/folder/r.json: cannot be written"},
        {{"--ckpt", ckpt, "--data", "/no/such", "--json", folder}, 1, "it is a folder; name a file in it"},
        {{"--ckpt", ckpt, "--data", path}, 1, "does not fit this data"},
        {{"--ckpt", ckpt, "--data", data, "--json", data}, 2, "--json would write over the file of --data"},
        {{"--ckpt", ckpt, "--json", ""}, 2, "--json needs the name of a file"},
        {{"--ckpt", ckpt, "--predictions", ""}, 2, "--predictions needs the name of a file"},
        {{"--ckpt", ckpt, "--oracle", "nix"}, 2, "relation, token, truth, wordpairs"},
        {{"--ckpt", ckpt, "--json", linked}, 2, "--json would write over the file of --ckpt"},
        {{"--ckpt", ckpt, "--json", json, "--predictions", dotted}, 2, "over the file of --predictions"},
    };
    write_text(
        path,
        "1\t\xe6\x9d\xb1\xe4\xba\xac \xe6\x9d\xb1\xe4\xba\xac.\t\xe4\xba\xac \xe4\xba\xac \xe4\xba\xac \xe4\xba\xac.\n"
        "0\t\xe6\x9d\xb1\xe4\xba\xac \xe6\x9d\xb1\xe4\xba\xac.\t\xe6\x9d\xb1 \xe4\xba\xac \xe4\xba\xac "
        "\xe4\xba\xac.\n");
    write_text(broken, "1\tp\th\n2\tp\th\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int code = finish(start(cases[i].arguments));
        if (code != cases[i].code) fail_msg("case %zu: exit code %d, not %d", i, code, cases[i].code);
        assert_says(cases[i].what);
    }
    assert_int_equal(RUN("--ckpt", ckpt, "--data", data, "--json", json, "--predictions", "/no/such/p.tsv"), 1);
    assert_nothing_written();
    encoder_config shorter = tiny_config();
    shorter.max_length = 24;
    save_model(path, shorter, NULL, vocabulary_text);
    assert_int_equal(RUN("--ckpt", path, "--data", data, "--json", json), 1);
    assert_says("tokens, the model takes 24: give --cut");
    assert_nothing_written();
    assert_int_equal(RUN("--ckpt", path, "--data", data, "--json", json, "--cut"), 0);
    unlink(json);
    unlink(path);
    unlink(broken);
    unlink(linked);
}

/* What is printed must not get into the file that would take the number of a closed standard output. */
static void test_closed_descriptors(void **state) {
    (void)state;
    char command[1024];
    snprintf(command, sizeof command, "%s --ckpt %s --data %s --json %s --no-demo <&- >&- 2>&-", program, ckpt, data,
             json);
    const int status = system(command);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1); /* the page is lost */
    char *text = read_text(json);
    cJSON *report = cJSON_ParseWithOpts(text, NULL, 1);
    assert_non_null(report);
    cJSON_Delete(report);
    free(text);
    unlink(json);
}

static void test_interruption(void **state) {
    (void)state;
    const pid_t child =
        start((const char *const[]){"--ckpt", ckpt, "--json", json, "--predictions", predictions, NULL});
    /* Its outputs are opened, so it is about to make the data set, which takes a while. */
    char pattern[96];
    snprintf(pattern, sizeof pattern, "%s/p.tsv.*", folder);
    glob_t found = {0};
    const struct timespec wait = {0, 5000000};
    for (int i = 0; i < 4000 && glob(pattern, 0, NULL, &found) == GLOB_NOMATCH; i++) nanosleep(&wait, NULL);
    assert_int_equal(found.gl_pathc, 1);
    globfree(&found);
    kill(child, SIGINT);
    assert_int_equal(finish(child), 130);
    assert_nothing_written();
}

/* ---- compare ----------------------------------------------------------------------------------------------------- */

static int compare(const char *const *arguments) {
    char eval[sizeof program];
    memcpy(eval, program, sizeof program);
    strcpy(program + strlen(program) - strlen("eval"), "compare");
    const int code = finish(start(arguments));
    memcpy(program, eval, sizeof program);
    return code;
}

static void test_compare(void **state) {
    (void)state;
    char path[6][96], base[320], other[320];
    const double accuracy[6] = {0.80, 0.82, 0.84, 0.70, 0.71, 0.75};
    for (int i = 0; i < 6; i++) {
        char text[256];
        snprintf(path[i], sizeof path[i], "%s/report%d", folder, i);
        snprintf(text, sizeof text,
                 "{\"accuracy\": %g, \"by_source\": {\"kinship\": 0.5}, \"alpha_mae\": %s, \"side_close\": null}",
                 accuracy[i], i < 3 ? "0.125" : "null");
        write_text(path[i], text);
    }
    snprintf(base, sizeof base, "base=%s,%s,%s", path[0], path[1], path[2]);
    snprintf(other, sizeof other, "other=%s,%s,%s,%s/none", path[3], path[4], path[5], folder);
    assert_int_equal(compare((const char *const[]){base, other, NULL}), 0);
    char *page = read_text(out);
    /* By scipy.stats.t.interval: 82 +- 4.968; 72 +- 6.572; the differences -10, -11, -9 have -10 +- 2.484: marked. */
    assert_non_null(strstr(page, "82.0 +-5.0"));
    assert_non_null(strstr(page, "72.0 +-6.6*"));
    assert_non_null(strstr(page, "kinship             50.0 +-0.0       50.0 +-0.0\n"));
    assert_non_null(strstr(page, "alpha MAE        0.125 +-0.000                -\n"));
    assert_non_null(strstr(page, "side close                   -                -\n"));
    assert_non_null(strstr(page, "other: 1 of 4 runs are not there"));
    free(page);
    assert_int_equal(compare((const char *const[]){"--markdown", base, NULL}), 0);
    page = read_text(out);
    assert_non_null(strstr(page, "| all | 82.0 +-5.0 |\n"));
    free(page);
    snprintf(other, sizeof other, "a|b=%s", path[0]);
    assert_int_equal(compare((const char *const[]){"--markdown", other, NULL}), 0);
    page = read_text(out);
    assert_non_null(strstr(page, "|  | a\\|b |\n"));
    free(page);
    assert_int_equal(compare((const char *const[]){"--help", NULL}), 0);
    assert_int_equal(compare((const char *const[]){NULL}), 2);
    assert_int_equal(compare((const char *const[]){"--nonsense", NULL}), 2);
    assert_int_equal(compare((const char *const[]){"name", NULL}), 2);
    assert_int_equal(compare((const char *const[]){base, base, NULL}), 2);
    assert_int_equal(compare((const char *const[]){"name=/no/such", NULL}), 1);
    snprintf(base, sizeof base, "base=%s", data);
    assert_int_equal(compare((const char *const[]){base, NULL}), 1);
    for (int i = 0; i < 6; i++) unlink(path[i]);
}

int main(int argc, char **argv) {
    (void)argc;
    const char *slash = strstr(argv[0], "tests/");
    snprintf(program, sizeof program - 8, "%.*seval", slash ? (int)(slash - argv[0]) : 0, argv[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_round_trip),
        cmocka_unit_test(test_models_that_do_not_fit),
        cmocka_unit_test(test_scores_relation),
        cmocka_unit_test(test_scores_token),
        cmocka_unit_test(test_scores_refuse_and_stop),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_program),
        cmocka_unit_test(test_program_without_gate),
        cmocka_unit_test(test_data_without_splits),
        cmocka_unit_test(test_bad_inputs),
        cmocka_unit_test(test_closed_descriptors),
        cmocka_unit_test(test_interruption),
        cmocka_unit_test(test_compare),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

#include <cjson/cJSON.h>
#include <math.h>

#include "eval/report.h"

/* A builder that remembers whether memory has ended, so that its callers need not ask after every member. */
typedef struct builder {
    int failed;
} builder;

static void number(builder *b, cJSON *to, const char *name, double value) { /* NaN becomes null */
    if (!cJSON_AddNumberToObject(to, name, value)) b->failed = 1;
}

static void string(builder *b, cJSON *to, const char *name, const char *value) {
    if (!(value ? cJSON_AddStringToObject(to, name, value) : cJSON_AddNullToObject(to, name))) b->failed = 1;
}

static cJSON *object(builder *b, cJSON *to, const char *name) {
    cJSON *made = cJSON_AddObjectToObject(to, name);
    if (!made) b->failed = 1;
    return made;
}

static cJSON *array(builder *b, cJSON *to, const char *name) {
    cJSON *made = cJSON_AddArrayToObject(to, name);
    if (!made) b->failed = 1;
    return made;
}

static void append(builder *b, cJSON *to, cJSON *item) {
    if (!item || !cJSON_AddItemToArray(to, item)) {
        cJSON_Delete(item);
        b->failed = 1;
    }
}

static double share(int64_t right, int64_t count) {
    return count ? (double)right / (double)count : NAN;
}

static void add_by(builder *b, cJSON *to, const char *name, const table *t) {
    cJSON *by = object(b, to, name);
    for (int i = 0; i < t->count; i++) number(b, by, t->row[i].name, share(t->row[i].right, t->row[i].count));
}

static void add_group(builder *b, cJSON *to, const tables *t, const char *title, const table_row *line) {
    const metrics_interval w = metrics_wilson(line->right, line->count);
    cJSON *group = cJSON_CreateObject();
    string(b, group, "table", title);
    string(b, group, "name", line->name);
    number(b, group, "rows", (double)line->count);
    number(b, group, "right", (double)line->right);
    number(b, group, "accuracy", share(line->right, line->count));
    number(b, group, "low", w.low);
    number(b, group, "high", w.high);
    if (t->baselines) {
        cJSON *baselines = object(b, group, "baselines");
        for (int k = 0; k < BASELINE_KINDS; k++)
            number(b, baselines, baseline_name((baseline_kind)k), share(line->baseline[k], line->count));
    }
    append(b, to, group);
}

static void add_accuracy(builder *b, cJSON *to, const tables *t) {
    const table_row *all = &t->table[TABLE_ALL].row[0];
    const metrics_interval w = metrics_wilson(all->right, all->count);
    number(b, to, "rows", (double)all->count);
    number(b, to, "accuracy", share(all->right, all->count));
    number(b, to, "accuracy_low", w.low);
    number(b, to, "accuracy_high", w.high);
    add_by(b, to, "by_source", &t->table[TABLE_SOURCE]);
    add_by(b, to, "by_kind", &t->table[TABLE_KIND]);
    add_by(b, to, "by_steps", &t->table[TABLE_STEPS]);
    add_by(b, to, "by_source_steps", &t->table[TABLE_SOURCE_STEPS]);
    add_by(b, to, "swapped", &t->table[TABLE_SWAPPED]);
    if (t->baselines) {
        cJSON *baselines = object(b, to, "baselines");
        for (int k = 0; k < BASELINE_KINDS; k++)
            number(b, baselines, baseline_name((baseline_kind)k), share(all->baseline[k], all->count));
    } else {
        string(b, to, "baselines", NULL);
    }
    cJSON *groups = array(b, to, "groups");
    for (int kind = 0; kind < TABLES; kind++)
        for (int i = 0; i < t->table[kind].count; i++)
            add_group(b, groups, t, t->table[kind].title, &t->table[kind].row[i]);
}

static void add_sides(builder *b, cJSON *to, const metrics_sides *sides) {
    number(b, to, "side_accuracy", metrics_side_accuracy(&sides->all));
    number(b, to, "side_constant", metrics_side_constant(&sides->all));
    number(b, to, "side_count", (double)sides->all.count);
    number(b, to, "side_close", metrics_side_accuracy(&sides->close));
    number(b, to, "side_close_constant", metrics_side_constant(&sides->close));
    number(b, to, "side_close_count", (double)sides->close.count);
}

static void add_alpha(builder *b, cJSON *to, const report *r) {
    const metrics_bands *bands = &r->alpha.bands;
    string(b, to, "oracle", r->oracle);
    number(b, to, "alpha_blocks", (double)r->scores->blocks);
    number(b, to, "alpha_mae", r->alpha.mae);
    number(b, to, "alpha_mae_constant", r->alpha.constant_mae);
    number(b, to, "alpha_mae_cells", r->scores->cell_mae);
    number(b, to, "alpha_pearson", r->alpha.pearson);
    number(b, to, "alpha_spearman", r->alpha.spearman);
    number(b, to, "band_agreement", share(bands->agreed, bands->count));
    number(b, to, "band_constant", share(bands->constant, bands->count));
    cJSON *matrix = array(b, to, "band_matrix");
    for (int i = 0; i < METRICS_BANDS; i++) {
        double line[METRICS_BANDS];
        for (int j = 0; j < METRICS_BANDS; j++) line[j] = (double)bands->matrix[i][j];
        append(b, matrix, cJSON_CreateDoubleArray(line, METRICS_BANDS));
    }
    add_sides(b, to, &r->scores->sides);
}

static void add_heads(builder *b, cJSON *to, const char *name, const scores *s, const double *value) {
    cJSON *layers = array(b, to, name);
    for (int l = 0; l < s->layers; l++) append(b, layers, cJSON_CreateDoubleArray(value + l * s->heads, s->heads));
}

char *report_json(const report *r) {
    builder b = {0};
    const scores *s = r->scores;
    cJSON *json = cJSON_CreateObject();
    double entropy = 0;
    string(&b, json, "checkpoint", r->checkpoint);
    string(&b, json, "data", r->data);
    string(&b, json, "split", r->split);
    add_accuracy(&b, json, r->tables);
    number(&b, json, "babi18b_rows", (double)r->balanced.count);
    number(&b, json, "babi18b_accuracy", share(r->balanced.right, r->balanced.count));
    add_alpha(&b, json, r);
    for (int i = 0; i < s->layers * s->heads; i++) entropy += s->entropy[i] / (s->layers * s->heads);
    number(&b, json, "attention_entropy", entropy);
    add_heads(&b, json, "attention_entropy_heads", s, s->entropy);
    add_heads(&b, json, "alpha_hat_heads", s, s->gate);
    number(&b, json, "ece", metrics_ece(&r->calibration));
    number(&b, json, "tokens", (double)s->tokens);
    number(&b, json, "unknown_tokens", (double)s->unknown);
    number(&b, json, "rows_cut", (double)s->cut);
    char *text = json && !b.failed ? cJSON_Print(json) : NULL;
    cJSON_Delete(json);
    return text;
}

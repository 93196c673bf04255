/* Pictures: what is drawn, that text stays text in every format, and that nothing half written is left. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include <dirent.h>
#include <expat.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dea.h"
#include "visualize/ascii.h"
#include "visualize/curves.h"
#include "visualize/escape.h"
#include "visualize/gallery.h"
#include "visualize/heatmap.h"
#include "visualize/photo_finish.h"
#include "visualize/spotlight.h"
#include "visualize/tsv.h"
#include "visualize_view.h"

/* ---- files */
static char folder[64]; /* each test's own, removed after it */

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/dea_visualize_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static void remove_tree(const char *path) {
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char inner[1024];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (unlink(inner)) remove_tree(inner);
    }
    if (d) closedir(d);
    rmdir(path);
}

static int remove_folder(void **state) {
    (void)state;
    remove_tree(folder);
    return 0;
}

static const char *in_folder(const char *name) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static char *read_text(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    const size_t length = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(length + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, length, file), length);
    fclose(file);
    text[length] = '\0';
    if (size) *size = length;
    return text;
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int entries(const char *path) {
    int count = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d) closedir(d);
    return count;
}

/* ---- text that stays text */
typedef void put_function(FILE *file, const char *text);

static void put_string(FILE *file, const char *text) {
    escape_gnuplot(file, text, ESCAPE_STRING);
}

static void put_tick(FILE *file, const char *text) {
    escape_gnuplot(file, text, ESCAPE_TICK);
}

static void expect(put_function *put, const char *text, const char *expected) {
    char *out = NULL;
    size_t size;
    FILE *file = open_memstream(&out, &size);
    put(file, text);
    fclose(file);
    assert_string_equal(out, expected);
    free(out);
}

static void test_escape(void **state) {
    (void)state;
    expect(escape_html, "<a href=\"x\">'&amp;'</a>", "&lt;a href=&quot;x&quot;&gt;&#39;&amp;amp;&#39;&lt;/a&gt;");
    expect(escape_html, "مرحبا %s", "مرحبا %s");
    expect(escape_html,
           "a\xff"
           "b\x1b[0m\xe2\x80\xae",
           "a\xef\xbf\xbd"
           "b\xef\xbf\xbd[0m\xef\xbf\xbd");
    expect(escape_html, NULL, "");
    expect(escape_json, "</script>\"\\\n", "\"\\u003c\\u002fscript\\u003e\\u0022\\u005c \"");
    expect(escape_tsv, "a\tb\r\nc", "a b  c");
    expect(put_string, "it's `x` \"%s\" \\n", "'it''s `x` \"%s\" \\n'");
    expect(put_string, "'; system(\"x\")", "\"'\".'; system(\"x\")'");
    expect(put_string, "''", "\"''\"");
    expect(put_string, "", "''");
    expect(put_tick, "50%'%s", "'50%%''%%s'");
    char out[ESCAPE_SHORT];
    assert_string_equal(escape_short("مرحبا", 5, out), "مرحبا");
    assert_string_equal(escape_short("مرحبا", 4, out), "مرح…");
    assert_string_equal(escape_short("", 4, out), "");
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_true(strlen(escape_short(longest, 1000, out)) < ESCAPE_SHORT);
}

/* ---- colours */
static void test_colours_grow_lighter(void **state) {
    (void)state;
    for (int scale = 0; scale < 2; scale++) {
        double before = -1;
        for (int i = 0; i <= 100; i++) {
            const double grey = colour_grey(colour_at((colour_scale)scale, i / 100.0));
            assert_true(grey > before - 0.004); /* a step of 1/255 may be lost to rounding */
            before = grey;
        }
        assert_true(before - colour_grey(colour_at((colour_scale)scale, 0)) > 0.7);
    }
    const uint32_t zero = colour_at(SCALE_DIVERGING, 0.5); /* neutral: red, green and blue alike */
    assert_true(abs((int)(zero >> 16) - (int)(zero & 255)) <= 3 &&
                abs((int)(zero >> 8 & 255) - (int)(zero & 255)) <= 3);
    assert_int_equal(colour_at(SCALE_SEQUENTIAL, -3), colour_at(SCALE_SEQUENTIAL, 0));
    assert_int_equal(colour_at(SCALE_SEQUENTIAL, 7), colour_at(SCALE_SEQUENTIAL, 1));
}

/* ---- the view */
static void test_view(void **state) {
    (void)state;
    text_error error;
    double low, high;
    made_view m;
    made_view_open(&m, 1, 2, 6, 0, 1, 0);
    assert_int_equal(view_check(&m.v, &error), 0);
    view broken = m.v;
    broken.tokens = 0;
    assert_int_equal(view_check(&broken, &error), -1);
    broken = m.v;
    broken.map[VIEW_S] = NULL;
    assert_int_equal(view_check(&broken, &error), -1);
    assert_non_null(strstr(error.message, "map S"));
    broken = m.v;
    broken.label = 2;
    assert_int_equal(view_check(&broken, &error), -1);
    broken = m.v;
    broken.tokens = 1 << 30;
    broken.heads = 1 << 20;
    assert_int_equal(view_check(&broken, &error), -1);
    const float values[4] = {-2, 1, NAN, 0.5f};
    view_range(VIEW_E0, values, 4, &low, &high);
    assert_true(low == -2 && high == 2);
    view_range(VIEW_ATTENTION, values + 1, 3, &low, &high);
    assert_true(low == 0 && high == 1);
    view_range(VIEW_ALPHA_HAT, values, 4, &low, &high);
    assert_true(low == 0 && high == DEA_ALPHA_MAX);
    view_range(VIEW_E1, values + 2, 1, &low, &high);
    assert_true(low == -1 && high == 1);
    view_map map;
    assert_int_equal(view_map_by_file("E0tilde", &map), 0);
    assert_int_equal(map, VIEW_E0);
    assert_int_equal(view_map_by_file("e0", &map), -1);
    made_view_close(&m);
}

/* ---- photo-finishes */
static double line_at(const made_view *m, int l, int h, int q, int k, double alpha) {
    const size_t at = (size_t)q * (size_t)m->v.tokens + (size_t)k;
    return (1 - alpha) * (double)view_head(&m->v, VIEW_E0, l, h)[at] +
           alpha * (double)view_head(&m->v, VIEW_E1, l, h)[at];
}

static void test_photo_finishes(void **state) {
    (void)state;
    made_view m;
    made_view_open(&m, 2, 3, 10, 0, 1, 0);
    photo_finish found[PHOTO_FINISHES];
    const photo_filter all = {-1, -1, -1};
    const size_t count = photo_closest(&m.v, all, found, PHOTO_FINISHES);
    assert_int_equal(count, PHOTO_FINISHES);
    double before = 0;
    for (size_t i = 0; i < count; i++) {
        const photo_finish *f = &found[i];
        assert_true(f->query < 5 && f->target >= 5); /* labels are premise x hypothesis */
        assert_true(fabs(f->alpha - 0.83) < 1e-6);
        assert_true(f->beta >= 0 && f->beta <= 1);
        assert_true(fabs(line_at(&m, f->layer, f->head, f->query, f->target, f->beta) -
                         line_at(&m, f->layer, f->head, f->query, f->distractor, f->beta)) < 1e-5);
        for (int k = 5; k < 10; k++) /* the oracle's winner among the labelled keys */
            assert_true(line_at(&m, f->layer, f->head, f->query, k, 0.83) <=
                        line_at(&m, f->layer, f->head, f->query, f->target, 0.83) + 1e-6);
        assert_true(fabs(f->beta - f->alpha) >= before);
        before = fabs(f->beta - f->alpha);
    }
    /* None of the rest is closer: brute force over every query and distractor. */
    int closer = 0;
    for (int lhq = 0; lhq < 2 * 3 * 5; lhq++) {
        const int l = lhq / 15, h = lhq / 5 % 3, q = lhq % 5, t = photo_target(&m.v, l, h, q);
        double nearest = 9, beta;
        for (int p = 0; p < 10; p++)
            if (p != t && dea_beta(line_at(&m, l, h, q, t, 0), line_at(&m, l, h, q, t, 1), line_at(&m, l, h, q, p, 0),
                                   line_at(&m, l, h, q, p, 1), &beta))
                nearest = fmin(nearest, fabs(beta - (double)0.83f));
        closer += nearest < before - 1e-12;
    }
    assert_int_equal(closer, PHOTO_FINISHES - 1);

    const photo_filter one = {1, 2, 7}; /* a query without label: the model's own winner */
    if (photo_closest(&m.v, one, found, PHOTO_FINISHES) == 1) {
        assert_true(found[0].layer == 1 && found[0].head == 2 && found[0].query == 7);
        assert_true(isnan(found[0].alpha));
    }
    const float *s = view_head(&m.v, VIEW_S, 1, 2) + 70;
    const int target = photo_target(&m.v, 1, 2, 7);
    for (int k = 0; k < 10; k++) assert_true(s[k] <= s[target]);
    made_view_close(&m);

    made_view_open(&m, 1, 1, 3, 0, 0, 0);
    for (int i = 0; i < VIEW_MAPS; i++)
        for (int k = 0; k < 9; k++) m.map[i][k] = NAN; /* nothing is seen */
    assert_int_equal(photo_target(&m.v, 0, 0, 1), -1);
    assert_int_equal(photo_closest(&m.v, all, found, PHOTO_FINISHES), 0);
    made_view_close(&m);
}

/* (9) to (12) written out. */
static void test_spotlight(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        const double alpha = 0.95 * (i % 10) / 9, beta = (i / 10 % 5) / 4.0, hat = 0.95 * (i / 50) / 3;
        const double w = 1 + 2 * exp(-sqrt((alpha - beta) * (alpha - beta) + 1e-4) / 0.1);
        const double loss = log1p(exp(-tanh((alpha - beta) / 0.05) * (hat - beta) / 0.1));
        assert_true(fabs(spotlight_weight(alpha, beta) - w) < 1e-12);
        assert_true(fabs(spotlight_decision(alpha, hat, beta) - loss) < 1e-9);
    }
}

/* ---- tables */
static void test_tsv_keeps_columns(void **state) {
    (void)state;
    made_view m;
    char *out = NULL;
    size_t size;
    made_view_open(&m, 1, 1, HOSTILE, 1, 0, 0);
    m.map[VIEW_E0][5] = NAN;
    const figure_grid grid = {.x_label = "key",
                              .y_label = "query",
                              .columns = HOSTILE,
                              .rows = HOSTILE,
                              .value = m.map[VIEW_E0],
                              .column_name = m.token,
                              .row_name = m.token};
    FILE *file = open_memstream(&out, &size);
    tsv_grid(file, &grid);
    fclose(file);
    int line = 0;
    for (char *at = out; *at; line++) {
        char *end = strchr(at, '\n');
        assert_non_null(end);
        *end = '\0';
        int column = 0;
        for (char *field = at; field; column++) {
            char *tab = strchr(field, '\t');
            if (tab) *tab = '\0';
            if (line > 0 && column > 0) {
                const float value = m.map[VIEW_E0][(line - 1) * HOSTILE + column - 1];
                if (isnan(value))
                    assert_string_equal(field, "");
                else
                    assert_true(fabs(strtod(field, NULL) - (double)value) < 1e-5);
            }
            field = tab ? tab + 1 : NULL;
        }
        assert_int_equal(column, HOSTILE + 1);
        at = end + 1;
    }
    assert_int_equal(line, HOSTILE + 1);
    free(out);
    made_view_close(&m);
}

/* ---- curves */
static void test_curves(void **state) {
    (void)state;
    curves c;
    text_error error;
    const char *path = in_folder("log.jsonl");
    write_text(
        path,
        "{\"event\":\"start\",\"preset\":\"quick\"}\n"
        "{\"step\":1,\"seconds\":1,\"loss\":0.9,\"gamma\":1,\"tokens\":100}\n"
        "{\"step\":2,\"seconds\":3,\"loss\":0.8,\"tokens\":100,\"stage_accuracy\":{\"a\":[1,0.5],\"b\":[2,0.75]}}\n"
        "{\"step\":3,\"seconds\":4,\"loss\":0.7,\"tokens\":100}\n"
        "{\"step\":2,\"seconds\":0.5,\"loss\":0.6,\"tokens\":100}\n" /* resumed */
        "{\"step\":2,\"dev_accuracy\":0.6,\"alpha_mae\":null}\n"
        "{\"step\":3,\"lo");
    assert_int_equal(curves_load(&c, path, &error), 0);
    assert_int_equal(c.count, 2);
    assert_int_equal(c.cut_lines, 1);
    assert_true(c.step[0] == 1 && c.step[1] == 2);
    assert_true(c.value[0] == 0.9 && c.value[CURVES_MEMBERS] == 0.6);
    assert_true(fabs(c.value[CURVES_MEMBERS + 3] - 0.625) < 1e-12); /* train accuracy */
    assert_true(c.value[CURVES_MEMBERS + 4] == 0.6);
    assert_true(isnan(c.value[CURVES_MEMBERS + 6]));
    assert_true(c.value[CURVES_MEMBERS + 7] == 50); /* tokens/s of the first line for step 2 */
    curves_free(&c);

    write_text(path, "{\"step\":1}\nnot json\n{\"step\":2}\n");
    assert_int_equal(curves_load(&c, path, &error), -1);
    assert_non_null(strstr(error.message, "log.jsonl:2:"));
    write_text(path, "{\"step\":1,\"loss\":\"low\"}\n");
    assert_int_equal(curves_load(&c, path, &error), -1);
    assert_non_null(strstr(error.message, "\"loss\" is not a number"));
    write_text(path, "[1]\n{\"step\":2}\n");
    assert_int_equal(curves_load(&c, path, &error), -1);
    write_text(path, "");
    assert_int_equal(curves_load(&c, path, &error), -1);
    assert_int_equal(curves_load(&c, folder, &error), -1);
}

/* ---- terminal */
static void test_ascii(void **state) {
    (void)state;
    made_view m;
    made_view_open(&m, 1, 1, 40, 1, 0, 1);
    for (int map = 0; map < VIEW_MAPS; map++) {
        char *out = NULL;
        size_t size;
        FILE *file = open_memstream(&out, &size);
        ascii_heatmap(file, &m.v, (view_map)map, 0, 0, 60);
        fclose(file);
        int rows = 0;
        for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n")) {
            int columns = 0;
            for (const char *c = line; *c; c++) {
                assert_true((unsigned char)*c >= 0x20 && *c != 0x7f); /* no escape reaches the terminal */
                columns += ((unsigned char)*c & 0xC0) != 0x80;
            }
            if (line[strlen(line) - 1] != '|') continue;
            rows++;
            assert_true(columns <= 60);
        }
        assert_int_equal(rows, 20); /* 40 tokens, 22 cells fit: squares of 2 */
        free(out);
    }
    made_view_close(&m);
}

/* ---- the gallery */
static gallery_options plain_options(void) {
    const gallery_options options = {.layer = -1, .head = -1, .query = -1};
    return options;
}

/* All character data of an XML file, or a failed test if it is not well-formed. */
typedef struct xml_text {
    char *text;
    size_t used;
} xml_text;

static void XMLCALL collect(void *user, const XML_Char *piece, int length) {
    xml_text *t = user;
    memcpy(t->text + t->used, piece, (size_t)length);
    t->used += (size_t)length;
}

static void XMLCALL refuse_script(void *user, const XML_Char *name, const XML_Char **attributes) {
    (void)user;
    assert_true(strcmp(name, "script") != 0 && strcmp(name, "img") != 0 && strcmp(name, "foreignObject") != 0);
    for (; *attributes; attributes += 2) assert_true(strncmp(attributes[0], "on", 2) != 0);
}

static char *xml_characters(const char *path) {
    size_t size;
    char *file = read_text(path, &size);
    assert_non_null(file);
    xml_text t = {malloc(size + 1), 0};
    XML_Parser parser = XML_ParserCreate(NULL);
    XML_SetUserData(parser, &t);
    XML_SetCharacterDataHandler(parser, collect);
    XML_SetStartElementHandler(parser, refuse_script);
    if (XML_Parse(parser, file, (int)size, 1) == XML_STATUS_ERROR)
        fail_msg("%s: %s", path, XML_ErrorString(XML_GetErrorCode(parser)));
    XML_ParserFree(parser);
    free(file);
    t.text[t.used] = '\0';
    return t.text;
}

/* Every name as a picture shows it: printable and short. */
static void expect_names(const char *svg) {
    char *text = xml_characters(svg), shortened[ESCAPE_SHORT];
    for (int i = 0; i < HOSTILE; i++) {
        char *out = NULL;
        size_t size;
        FILE *file = open_memstream(&out, &size);
        escape_tsv(file, escape_short(hostile[i], 13, shortened));
        fclose(file);
        if (!strstr(text, out)) fail_msg("%s does not show %s", svg, out);
        free(out);
    }
    free(text);
}

static cJSON *page_data(const char *page) {
    static const char mark[] = "id=\"data\">";
    const char *begin = strstr(page, mark), *end = begin ? strstr(begin, "</script>") : NULL;
    assert_non_null(end);
    begin += strlen(mark);
    cJSON *data = cJSON_ParseWithLength(begin, (size_t)(end - begin));
    assert_non_null(data);
    return data;
}

static void check_page(const char *path, const made_view *m) {
    char *page = read_text(path, NULL);
    assert_non_null(page);
    assert_null(strstr(page, "<script>document"));
    assert_null(strstr(page, "<img src=x"));
    assert_null(strstr(page, "<b>Fred"));
    assert_non_null(strstr(page, "&lt;b&gt;Fred"));
    assert_null(strstr(page, "src=\"http"));
    assert_null(strstr(page, "href=\"http"));
    cJSON *data = page_data(page);
    const cJSON *tokens = cJSON_GetObjectItem(data, "tokens");
    assert_int_equal(cJSON_GetArraySize(tokens), m->v.tokens);
    assert_string_equal(cJSON_GetArrayItem(tokens, 2)->valuestring, hostile[2]);
    assert_string_equal(cJSON_GetArrayItem(tokens, 9)->valuestring, "مرحبا");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(data, "cells")), m->v.layers * m->v.heads);
    const size_t bytes = (size_t)m->v.tokens * (size_t)m->v.tokens * 4 * 2;
    assert_int_equal(strlen(cJSON_GetArrayItem(cJSON_GetObjectItem(data, "cells"), 0)->valuestring),
                     (bytes + 2) / 3 * 4);
    cJSON_Delete(data);
    free(page);
}

static void open_hostile(made_view *m, int layers, int heads) {
    made_view_open(m, layers, heads, HOSTILE, 1, 1, 0);
    m->v.premise = hostile[3];
    m->v.hypothesis = "Mary gave <b>Fred</b> the milk.";
    m->v.model = hostile[0];
    m->v.sample_text = hostile[2];
}

static void test_gallery_without_gnuplot(void **state) {
    (void)state;
    made_view m;
    gallery_report report;
    text_error error = {""};
    gallery_options options = plain_options();
    open_hostile(&m, 2, 2);
    char out[128];
    snprintf(out, sizeof out, "%s/deep/er", folder);
    assert_int_equal(gallery_make(&m.v, out, &options, &report, &error), 0);
    assert_int_equal(report.finishes, PHOTO_FINISHES);
    assert_int_equal(report.figures, 1 + 10 + 2 + 2 + 2 + 2 * 2 * 5);
    assert_int_equal(entries(in_folder("deep/er")),
                     2 * (report.figures - 20) + 2); /* heatmaps apart; nothing hidden is left */
    assert_int_equal(entries(in_folder("deep/er/heatmaps")), 2 * 20);
    expect_names(in_folder("deep/er/heatmaps/layer1_head0_E0tilde.svg"));
    free(xml_characters(in_folder("deep/er/photo_finish_01.svg")));
    free(xml_characters(in_folder("deep/er/layer0_sheet.svg")));
    check_page(in_folder("deep/er/index.html"), &m);
    FILE *stale = fopen(in_folder("deep/er/curves_loss.svg"), "w"); /* of an earlier run that had a log */
    assert_non_null(stale);
    fclose(stale);
    assert_int_equal(gallery_make(&m.v, out, &options, &report, &error), 0);
    assert_int_not_equal(access(in_folder("deep/er/curves_loss.svg"), F_OK), 0);
    made_view_close(&m);
}

static void test_gallery_with_gnuplot(void **state) {
    (void)state;
    char gnuplot[1024];
    if (gnuplot_find(gnuplot, sizeof gnuplot)) {
        print_message("not run: gnuplot is not there (Debian package gnuplot-nox)\n");
        skip();
    }
    made_view m;
    gallery_report report;
    text_error error = {""};
    gallery_options options = plain_options();
    options.album.gnuplot = gnuplot;
    options.album.processes = 2;
    open_hostile(&m, 1, 1);
    unlink(PROBE);
    if (gallery_make(&m.v, folder, &options, &report, &error)) fail_msg("%s", error.message);
    assert_int_equal(access(PROBE, F_OK), -1); /* no command of a token was run */
    expect_names(in_folder("heatmaps/layer0_head0_E0tilde.svg"));
    expect_names(in_folder("heatmaps/layer0_head0_attention.svg"));
    free(xml_characters(in_folder("photo_finish_01.svg")));
    static const char *const names[] = {
        "heatmaps/layer0_head0_S.png", "photo_finish_01.png", "head_means.png",    "layer0_sheet.png",
        "alpha_histogram.png",         "alpha_scatter.png",   "spotlight_loss.png"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t size = 0;
        char *png = read_text(in_folder(names[i]), &size);
        assert_non_null(png);
        assert_true(size > 2000 && memcmp(png, "\x89PNG\r\n\x1a\n", 8) == 0);
        free(png);
    }
    check_page(in_folder("index.html"), &m);
    char *page = read_text(in_folder("index.html"), NULL);
    assert_non_null(strstr(page, "src=\"data:image/png;base64,iVBORw0KGgo"));
    free(page);
    made_view_close(&m);
}

/* One token, one head, a query that sees nothing, a causal mask: nothing to trip over. */
static void test_gallery_of_odd_views(void **state) {
    (void)state;
    gallery_report report;
    text_error error = {""};
    gallery_options options = plain_options();
    made_view m;
    made_view_open(&m, 1, 1, 1, 0, 0, 0);
    assert_int_equal(gallery_make(&m.v, in_folder("one"), &options, &report, &error), 0);
    assert_int_equal(report.finishes, 0);
    made_view_close(&m);
    made_view_open(&m, 1, 3, 7, 0, 0, 1);
    for (int map = 0; map < VIEW_MAPS; map++) m.map[map][0] = NAN;
    m.v.mean_alpha_hat = NULL;
    m.v.classes = 0;
    m.v.label = -1;
    options.head = 2;
    options.query = 3;
    assert_int_equal(gallery_make(&m.v, in_folder("causal"), &options, &report, &error), 0);
    assert_int_equal(report.figures, 1 + (int)report.finishes + 2 + 1 + 5);
    options.query = 7;
    assert_int_equal(gallery_make(&m.v, in_folder("causal"), &options, &report, &error), -1);
    assert_non_null(strstr(error.message, "no query 7"));
    made_view_close(&m);
}

static void test_names_are_thinned(void **state) {
    (void)state;
    assert_int_equal(figure_name_step(12, 440, 10), 1);
    assert_int_equal(figure_name_step(64, 640, 10), 1);
    assert_int_equal(figure_name_step(256, 900, 10), 3);
    assert_int_equal(figure_name_step(1, 5, 10), 1);
}

/* What fails or is stopped leaves the folder as it was. */
static void test_nothing_half_written(void **state) {
    (void)state;
    made_view m;
    gallery_report report;
    text_error error = {""};
    gallery_options options = plain_options();
    volatile sig_atomic_t stop = 1;
    open_hostile(&m, 1, 1);
    static const char old_page[] = "<title>What the two experts do</title> old";
    write_text(in_folder("index.html"), "somebody else's");
    assert_int_equal(gallery_make(&m.v, folder, &options, &report, &error), -1);
    assert_non_null(strstr(error.message, "index.html: was not drawn by visualize; choose another folder with --out"));
    assert_int_equal(entries(folder), 1);
    write_text(in_folder("index.html"), old_page);
    options.album.stop = &stop;
    assert_int_equal(gallery_make(&m.v, folder, &options, &report, &error), 1);
    assert_int_equal(entries(folder), 1);
    options.album.stop = NULL;
    options.album.gnuplot = "/bin/false";
    assert_int_equal(gallery_make(&m.v, folder, &options, &report, &error), -1);
    assert_non_null(strstr(error.message, "gnuplot"));
    assert_int_equal(entries(folder), 1);
    options.album.gnuplot = "/bin/true"; /* succeeds and draws nothing */
    assert_int_equal(gallery_make(&m.v, folder, &options, &report, &error), -1);
    assert_non_null(strstr(error.message, "has not drawn"));
    assert_int_equal(entries(folder), 1);
    options.album.gnuplot = "/nowhere/gnuplot";
    assert_int_equal(gallery_make(&m.v, in_folder("new"), &options, &report, &error), -1);
    assert_int_equal(access(in_folder("new"), F_OK), -1);
    options.album.gnuplot = NULL;
    assert_int_equal(gallery_make(&m.v, in_folder("index.html"), &options, &report, &error), -1);
    assert_non_null(strstr(error.message, "--out"));
    assert_int_equal(gallery_make(&m.v, "", &options, &report, &error), -1);
    char *old = read_text(in_folder("index.html"), NULL);
    assert_string_equal(old, old_page);
    free(old);
    assert_int_equal(gallery_make(&m.v, folder, &options, &report, &error), 0); /* and in the end it is replaced */
    check_page(in_folder("index.html"), &m);
    made_view_close(&m);
}

/* ---- programs */
/* Runs a program with its output in `output`; its exit code, -1 if it cannot be run. */
static int run(const char *program, char *const *arguments, const char *output) {
    const pid_t child = fork();
    if (child == 0) {
        if (!freopen(output, "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(126);
        execvp(program, arguments);
        _exit(127);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

/* A copy of the page in which somebody picks head 1 and query 2. */
static void write_picking_page(const char *page, const char *copy) {
    char *text = read_text(page, NULL), *end = strstr(text, "</body>");
    assert_non_null(end);
    FILE *file = fopen(copy, "w");
    assert_non_null(file);
    fwrite(text, 1, (size_t)(end - text), file);
    fputs("<script>const head = document.getElementById('head'); head.value = '1'; head.dispatchEvent(new "
          "Event('change'));"
          "document.querySelectorAll('#chips button')[2].click();</script></body></html>",
          file);
    assert_int_equal(fclose(file), 0);
    free(text);
}

/* The page in a browser: its script draws what is picked, as C would, and no token becomes markup or a command. */
static void test_page_in_chromium(void **state) {
    (void)state;
    made_view m;
    gallery_report report;
    text_error error = {""};
    gallery_options options = plain_options();
    char address[160], profile[160], dom[128], page[128], copy[128];
    photo_finish expected;
    const photo_filter picked = {0, 1, 2};
    open_hostile(&m, 1, 2);
    assert_int_equal(gallery_make(&m.v, folder, &options, &report, &error), 0);
    assert_int_equal(photo_closest(&m.v, picked, &expected, 1), 1);
    made_view_close(&m);
    snprintf(page, sizeof page, "%s/index.html", folder);
    snprintf(copy, sizeof copy, "%s/picked.html", folder);
    snprintf(address, sizeof address, "file://%s", copy);
    snprintf(profile, sizeof profile, "--user-data-dir=%s/profile", folder);
    snprintf(dom, sizeof dom, "%s/dom.html", folder);
    write_picking_page(page, copy);
    char *const arguments[] = {"chromium",      "--headless", "--no-sandbox",
                               "--disable-gpu", profile,      "--virtual-time-budget=2000",
                               "--dump-dom",    address,      NULL};
    const int code = run("chromium", arguments, dom);
    if (code < 0) {
        print_message("not run: chromium is not there\n");
        skip();
    }
    char *text = read_text(dom, NULL);
    assert_int_equal(code, 0);
    assert_non_null(strstr(text, "<title>What the two experts do</title>"));
    assert_null(strstr(text, "<title>hacked"));
    assert_non_null(strstr(text, ", layer 0, head 1</span>"));
    assert_non_null(strstr(text, "<tbody id=\"keys\"><tr"));
    int canvases = 0;
    for (const char *at = text; (at = strstr(at, "<canvas ")) != NULL; at++) canvases++;
    assert_int_equal(canvases, VIEW_MAPS);
    const char *legend = strstr(text, "id=\"legend\""), *beta = legend ? strstr(legend, "β = ") : NULL;
    assert_non_null(beta);
    assert_true(fabs(strtod(beta + strlen("β = "), NULL) - expected.beta) < 2e-3);
    free(text);
}

static void test_program(void **state) {
    (void)state;
    char self[1024], program[1100], output[256], missing[256];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    *strrchr(self, '/') = '\0'; /* build/tests */
    snprintf(program, sizeof program, "%s/../visualize", self);
    snprintf(output, sizeof output, "%s/output", folder);
    snprintf(missing, sizeof missing, "%s/none.safetensors", folder);
    if (access(program, X_OK)) {
        print_message("not run: build/visualize is not built\n");
        skip();
    }
    const struct {
        char *arguments[6];
        int code;
    } runs[] = {{{"visualize", "--help", NULL}, 0},
                {{"visualize", "--version", NULL}, 0},
                {{"visualize", "--nonsense", NULL}, 2},
                {{"visualize", "--layer", "-1", NULL}, 2},
                {{"visualize", "--alpha", "0.99", NULL}, 2},
                {{"visualize", "--premise", "a.", NULL}, 2},
                {{"visualize", "--ckpt", NULL}, 2},
                {{"visualize", "more", NULL}, 2},
                {{"visualize", "--map", "E2", NULL}, 2},
                {{"visualize", "--out", "", NULL}, 2},
                {{"visualize", "--premise", "", "--hypothesis", "", NULL}, 2},
                {{"visualize", "--ckpt", missing, "--out", missing, NULL}, 1}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        assert_int_equal(run(program, runs[i].arguments, output), runs[i].code);
        char *text = read_text(output, NULL);
        assert_true(strlen(text) > 10);
        if (runs[i].code) assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
        free(text);
    }
    const struct {
        char *arguments[4];
        const char *said;
    } wrong[] = {
        {{"visualize", "--nope", NULL}, "visualize: unknown option --nope; see visualize --help\n"},
        {{"visualize", "--head", "x", NULL},
         "visualize: --head takes a whole number from 0 to 1000000000, not \"x\"; see visualize --help\n"},
        {{"visualize", "--sample", "999999999", NULL},
         "visualize: --sample takes a whole number from 0 to 100000, not \"999999999\"; see visualize --help\n"},
        {{"visualize", "--alpha", "2", NULL},
         "visualize: --alpha takes a number from 0 to 0.95, not \"2\"; see visualize --help\n"},
        {{"visualize", "--map", "foo", NULL},
         "visualize: --map takes E0tilde, E1tilde, S, alpha_hat or attention, not \"foo\"; see visualize --help\n"},
        {{"visualize", "-t0", NULL},
         "visualize: --threads takes a whole number from 1 to 256, not \"0\"; see visualize --help\n"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(run(program, wrong[i].arguments, output), 2);
        char *text = read_text(output, NULL);
        assert_string_equal(text, wrong[i].said);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escape),
        cmocka_unit_test(test_colours_grow_lighter),
        cmocka_unit_test(test_view),
        cmocka_unit_test(test_photo_finishes),
        cmocka_unit_test(test_spotlight),
        cmocka_unit_test(test_tsv_keeps_columns),
        cmocka_unit_test_setup_teardown(test_curves, make_folder, remove_folder),
        cmocka_unit_test(test_ascii),
        cmocka_unit_test_setup_teardown(test_gallery_without_gnuplot, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_gallery_with_gnuplot, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_gallery_of_odd_views, make_folder, remove_folder),
        cmocka_unit_test(test_names_are_thinned),
        cmocka_unit_test_setup_teardown(test_nothing_half_written, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_page_in_chromium, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_program, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

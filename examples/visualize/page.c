#include "visualize/page.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dea.h"
#include "visualize/base64.h"
#include "visualize/curves.h"
#include "visualize/escape.h"
#include "visualize/heatmap.h"
#include "visualize/histogram.h"
#include "visualize/page_assets.h"

enum { CARRIED = 4 }; /* maps in the page's data; attention weights follow from S */

/* ---- the data of the pickers */
/* `count` values as little-endian 16-bit numbers, value = number * unit, -32768 for NaN. out: 2 bytes a value. */
static void pack_numbers(const float *value, size_t count, double unit, unsigned char *out) {
    for (size_t i = 0; i < count; i++) {
        const double scaled = isfinite(value[i]) ? fmax(-32767, fmin(32767, rint((double)value[i] / unit))) : -32768;
        const uint16_t bits = (uint16_t)(int16_t)scaled;
        out[2 * i] = (unsigned char)(bits & 255u);
        out[2 * i + 1] = (unsigned char)(bits >> 8);
    }
}

static double unit_of(const view *v, view_map map, int layer, int head) {
    double low, high;
    view_range(map, view_head(v, map, layer, head), (size_t)v->tokens * (size_t)v->tokens, &low, &high);
    if (map == VIEW_ALPHA_HAT) high = 1;
    return high / 32767;
}

/* Layers [*first, *first + *count) fit the budget; the layer that opens is among them. */
static void carried_layers(const view *v, const page_options *options, int *first, int *count) {
    const size_t layer_bytes = (size_t)v->heads * (size_t)v->tokens * (size_t)v->tokens * CARRIED * 2;
    const size_t fit = options->budget / layer_bytes;
    *count = fit < 1 ? 1 : fit > (size_t)v->layers ? v->layers : (int)fit;
    *first = options->layer + *count <= v->layers ? options->layer : v->layers - *count;
}

static void put_scale(FILE *page, colour_scale scale) {
    const uint32_t *stop;
    const int count = colour_stops(scale, &stop);
    for (int i = 0; i < count; i++)
        fprintf(page, "%s[%u,%u,%u]", i ? "," : "[", (unsigned)(stop[i] >> 16), (unsigned)(stop[i] >> 8 & 255u),
                (unsigned)(stop[i] & 255u));
    fputc(']', page);
}

static void put_head(FILE *page, const view *v, int layer, int head, unsigned char *scratch) {
    const size_t cells = (size_t)v->tokens * (size_t)v->tokens;
    for (int m = 0; m < CARRIED; m++)
        pack_numbers(view_head(v, (view_map)m, layer, head), cells, unit_of(v, (view_map)m, layer, head),
                     scratch + 2 * cells * (size_t)m);
    fputc('"', page);
    base64_write(page, scratch, 2 * cells * CARRIED);
    fputc('"', page);
}

static int put_targets(FILE *page, const view *v, text_error *error) {
    const size_t count = (size_t)v->layers * (size_t)v->heads * (size_t)v->tokens;
    float *target = malloc(count * sizeof *target);
    unsigned char *scratch = malloc(2 * count);
    const int failed = target && scratch ? 0 : text_fail_memory(error, 6 * count);
    if (!failed) {
        size_t i = 0;
        for (int l = 0; l < v->layers; l++)
            for (int h = 0; h < v->heads; h++)
                for (int q = 0; q < v->tokens; q++) target[i++] = (float)photo_target(v, l, h, q);
        pack_numbers(target, count, 1, scratch);
        base64_write(page, scratch, 2 * count);
    }
    free(target);
    free(scratch);
    return failed;
}

static int put_data(FILE *page, const view *v, const page_options *options, int first, int count, text_error *error) {
    const size_t cells = (size_t)v->tokens * (size_t)v->tokens;
    unsigned char *scratch = malloc(2 * cells * CARRIED);
    if (!scratch) return text_fail_memory(error, 2 * cells * CARRIED);
    fprintf(page,
            "{\"layers\":%d,\"heads\":%d,\"first\":%d,\"carried\":%d,\"layer\":%d,\"head\":%d,\"query\":%d,"
            "\"alphaMax\":%.3g,\"tokens\":[",
            v->layers, v->heads, first, count, options->layer, options->head, options->query, DEA_ALPHA_MAX);
    for (int t = 0; t < v->tokens; t++) {
        if (t) fputc(',', page);
        escape_json(page, v->token[t]);
    }
    fputs("],\n\"segment\":[", page);
    for (int t = 0; t < v->tokens; t++) fprintf(page, "%s%d", t ? "," : "", v->segment && v->segment[t] ? 1 : 0);
    fputs("],\n\"maps\":[", page);
    for (int m = 0; m < VIEW_MAPS; m++) {
        const view_map_info *info = view_info((view_map)m);
        fputs(m ? ",{\"symbol\":" : "{\"symbol\":", page);
        escape_json(page, info->symbol);
        fputs(",\"title\":", page);
        escape_json(page, info->title);
        fprintf(page, ",\"diverging\":%d}", info->scale == SCALE_DIVERGING);
    }
    fputs("],\n\"scales\":[", page);
    put_scale(page, SCALE_SEQUENTIAL);
    fputc(',', page);
    put_scale(page, SCALE_DIVERGING);
    fputs("],\n\"units\":[", page);
    for (int i = 0; i < count * v->heads; i++) {
        for (int m = 0; m < CARRIED; m++)
            fprintf(page, "%s%.9g",
                    m   ? ","
                    : i ? ",["
                        : "[",
                    unit_of(v, (view_map)m, first + i / v->heads, i % v->heads));
        fputc(']', page);
    }
    fputs("],\n\"cells\":[\n", page);
    for (int i = 0; i < count * v->heads; i++) {
        if (i) fputs(",\n", page);
        put_head(page, v, first + i / v->heads, i % v->heads, scratch);
    }
    fputs("],\n\"alpha\":", page);
    if (v->alpha) {
        pack_numbers(v->alpha, cells, 1.0 / 32767, scratch);
        fputc('"', page);
        base64_write(page, scratch, 2 * cells);
        fputc('"', page);
    } else {
        fputs("null", page);
    }
    fputs(",\n\"targets\":\"", page);
    const int failed = put_targets(page, v, error);
    fputs("\"}\n", page);
    free(scratch);
    return failed;
}

/* ---- the parts of the page */
static void put_text(FILE *page, const char *before, const char *text, const char *after) {
    fputs(before, page);
    escape_html(page, text);
    fputs(after, page);
}

static void put_figure_number(FILE *page, const char *name, double value, const char *format) {
    fprintf(page, "<div><dt>%s</dt><dd>", name);
    if (isfinite(value))
        fprintf(page, format, value);
    else
        fputs("–", page);
    fputs("</dd></div>\n", page);
}

static double label_mean(const view *v) {
    double sum = 0, count = 0;
    for (size_t i = 0; v->alpha && i < (size_t)v->tokens * (size_t)v->tokens; i++)
        if (isfinite(v->alpha[i])) {
            sum += (double)v->alpha[i];
            count += 1;
        }
    return sum / count;
}

static double sentence_mean(const view *v) {
    double sum = 0;
    for (int l = 0; l < v->layers; l++)
        for (int h = 0; h < v->heads; h++) sum += view_sentence_alpha_hat(v, l, h);
    return sum / (v->layers * v->heads);
}

static void put_prediction(FILE *page, const view *v) {
    int best = 0;
    for (int c = 1; c < v->classes; c++)
        if (v->probability[c] > v->probability[best]) best = c;
    put_text(page, "<h3>Prediction: ", v->class_name[best], "</h3>\n");
    for (int c = 0; c < v->classes; c++) {
        put_text(page, "<div class=\"bar\"><span>", v->class_name[c], "</span>");
        fprintf(page, "<span><i style=\"width:%.1f%%\"></i></span><span>%.1f%%</span></div>\n", 100 * v->probability[c],
                100 * v->probability[c]);
    }
    if (v->label >= 0) {
        put_text(page, "<p>The truth: ", v->class_name[v->label], "");
        fputs(v->label == best ? "; the model is right.</p>\n" : "; the model is wrong.</p>\n", page);
    }
}

static void put_sentence(FILE *page, const view *v) {
    fputs("<section>\n<h2>The sentence</h2>\n", page);
    if (v->premise) put_text(page, "<p class=\"sentence\"><b>Premise</b> <bdi>", v->premise, "</bdi></p>\n");
    if (v->hypothesis) put_text(page, "<p class=\"sentence\"><b>Hypothesis</b> <bdi>", v->hypothesis, "</bdi></p>\n");
    if (v->classes) put_prediction(page, v);
    fputs("<dl>\n", page);
    put_figure_number(page, "tokens", v->tokens, "%.0f");
    put_figure_number(page, "layers", v->layers, "%.0f");
    put_figure_number(page, "heads a layer", v->heads, "%.0f");
    put_figure_number(page, "mean α̂ here", sentence_mean(v), "%.3f");
    put_figure_number(page, "mean α label here", label_mean(v), "%.3f");
    if (v->samples) {
        put_figure_number(page, "pairs in the sample", (double)v->samples, "%.0f");
        put_figure_number(page, "mean |α̂ − α|", histogram_error(v), "%.3f");
    }
    fputs("</dl>\n</section>\n", page);
}

static int put_image(album *a, FILE *page, const char *name, const char *alternative, const char *caption,
                     const char *class, text_error *error) {
    fprintf(page, "<figure><div class=\"scroll%s\">", class);
    if (album_image(a, page, name, alternative, error)) return -1;
    put_text(page, "</div><figcaption>", caption, "</figcaption></figure>\n");
    return 0;
}

static int put_means(album *a, FILE *page, const view *v, text_error *error) {
    fputs(
        "<section>\n<h2>Which heads look, which work</h2>\n<p class=\"how\">α̂ is the share of attention that a head's "
        "gate gives to “works like”; the rest goes to “looks like”.</p>\n",
        page);
    const char *of = v->mean_alpha_hat ? v->sample_text ? v->sample_text : "over the sample" : "over this sentence";
    if (put_image(a, page, "head_means", "mean alpha-hat by layer and head", of, " natural", error)) return -1;
    fputs("</section>\n", page);
    return 0;
}

static void put_explorer(FILE *page, const view *v, int first, int count) {
    fputs(
        "<section>\n<h2>Look inside one head</h2>\n"
        "<noscript><p>Picking a head needs JavaScript; every head stands in the contact sheets below.</p></noscript>\n"
        "<div class=\"needs-script\" hidden>\n<div class=\"pick\"><label>layer <select id=\"layer\"></select></label>"
        "<label>head <select id=\"head\"></select></label><span class=\"soft\">and a query:</span></div>\n"
        "<div class=\"chips\" id=\"chips\" role=\"group\" aria-label=\"query\"></div>\n",
        page);
    if (count < v->layers)
        fprintf(page,
                "<p class=\"note\">The pickers carry layers %d to %d of %d; all layers would make this page too large. "
                "Open another with --layer; the contact sheets show every layer that was drawn.</p>\n",
                first, first + count - 1, v->layers);
    fputs("<h3>Photo-finish of <span id=\"query-name\"></span></h3>\n<div class=\"two\"><div>\n<div "
          "id=\"finish\"></div>\n"
          "<div class=\"legend\" id=\"legend\"></div></div>\n<div>\n<table><thead><tr><th>key</th><th></th><th "
          "class=\"n\">A</th>"
          "<th class=\"n\">Ẽ₀</th><th class=\"n\">Ẽ₁</th><th class=\"n\">α̂</th></tr></thead><tbody "
          "id=\"keys\"></tbody></table>"
          "</div></div>\n"
          "<p class=\"read\" id=\"read\">Point at a cell to read it; click to make its row the query.</p>\n"
          "<div class=\"maps\" id=\"maps\"></div>\n"
          "<p class=\"how\">Rows are queries, columns keys. Signed maps have 0 in the middle of their scale (grey); "
          "darker "
          "is below, brighter above. Each map has a scale of its own here; the contact sheets share one a column.</p>\n"
          "</div>\n</section>\n",
          page);
}

static int put_finishes(album *a, FILE *page, const view *v, const page_options *options, text_error *error) {
    fputs(
        "<section>\n<h2>Photo-finishes</h2>\n<p class=\"how\">As α goes from 0 to 1 the scores of a query's target and "
        "of a distractor are straight lines. They cross at β: there the winner changes.",
        page);
    fputs(v->alpha ? " The target is the oracle's winner.</p>\n"
                   : " Without labels the target is the key that wins.</p>\n",
          page);
    if (!options->finishes)
        fputs("<p>No finish here: for every query looked at, one key wins for every α.</p>\n", page);
    fputs("<div class=\"two\">\n", page);
    for (size_t i = 0; i < options->finishes; i++) {
        const photo_finish *f = &options->finish[i];
        char name[24], caption[160];
        const int side = isfinite(f->alpha);
        snprintf(caption, sizeof caption, "layer %d, head %d, query %d: β %.3f, α̂ %.3f%s", f->layer, f->head, f->query,
                 f->beta, f->alpha_hat,
                 !side                                              ? ""
                 : (f->alpha > f->beta) == (f->alpha_hat > f->beta) ? "; the gate is on the oracle's side"
                                                                    : "; the gate is on the wrong side");
        if (put_image(a, page, photo_name(i, name), caption, caption, "", error)) return -1;
    }
    fputs("</div>\n</section>\n", page);
    return 0;
}

static int put_sample(album *a, FILE *page, const view *v, text_error *error) {
    if (!v->samples) return 0;
    const char *of = v->sample_text ? v->sample_text : "";
    fputs("<section>\n<h2>How well the gate knows α</h2>\n<div class=\"two\">\n", page);
    if (put_image(a, page, "alpha_histogram", "histogram of alpha and alpha-hat", of, "", error)) return -1;
    if (put_image(a, page, "alpha_scatter", "alpha-hat against alpha", of, "", error)) return -1;
    fputs("</div>\n</section>\n", page);
    return 0;
}

static int put_sheets(album *a, FILE *page, const view *v, text_error *error) {
    fputs("<section>\n<h2>Contact sheets</h2>\n<div class=\"pick needs-script\" hidden><label>layer <select "
          "id=\"sheet\"></select></label></div>\n",
          page);
    for (int l = 0; l < v->layers; l++) {
        char name[HEATMAP_NAME], alternative[64];
        if (!album_has(a, heatmap_sheet_name(l, name))) continue;
        snprintf(alternative, sizeof alternative, "every head of layer %d, five maps each", l);
        fprintf(page, "<figure data-layer=\"%d\"><div class=\"scroll wide\">", l);
        if (album_image(a, page, name, alternative, error)) return -1;
        fputs("</div></figure>\n", page);
    }
    fputs("</section>\n", page);
    return 0;
}

static int put_spotlight(album *a, FILE *page, text_error *error) {
    fputs(
        "<section>\n<h2>What the gate loss looks at</h2>\n<p class=\"how\">Left: the weight of a pair's error, largest "
        "where α lies near the finish β. Right: the decision loss of a gate that says 0.5: it pays where it stands on "
        "the other side of β than the oracle. These are the same for every model.</p>\n<div class=\"two\">\n",
        page);
    if (put_image(a, page, "spotlight_weight", "spotlight weight over alpha and beta", "", " natural", error))
        return -1;
    if (put_image(a, page, "spotlight_loss", "decision loss over alpha and beta", "", " natural", error)) return -1;
    fputs("</div>\n</section>\n", page);
    return 0;
}

static int put_curves(album *a, FILE *page, text_error *error) {
    int any = 0;
    for (int i = 0; curves_name(i); i++) any |= album_has(a, curves_name(i));
    if (!any) return 0;
    fputs("<section>\n<h2>Training</h2>\n<p class=\"how\">Where train accuracy rises and dev accuracy does not, either "
          "the "
          "oracle's labels tell the answer while γ mixes them in, or the rows are learnt by heart.</p>\n<div "
          "class=\"two\">\n",
          page);
    for (int i = 0; curves_name(i); i++)
        if (album_has(a, curves_name(i)) && put_image(a, page, curves_name(i), curves_name(i), "", "", error))
            return -1;
    fputs("</div>\n</section>\n", page);
    return 0;
}

#define PAGE_TITLE "<title>What the two experts do</title>"

int page_is_ours(const char *path) {
    char start[1024];
    struct stat status;
    if (stat(path, &status)) return 1;
    FILE *file = S_ISREG(status.st_mode) ? fopen(path, "rb") : NULL; /* a pipe must not hang here */
    if (!file) return 0;
    start[fread(start, 1, sizeof start - 1, file)] = '\0';
    fclose(file);
    return strstr(start, PAGE_TITLE) != NULL;
}

int page_write(album *a, const view *v, const page_options *options, text_error *error) {
    FILE *page = album_page(a, error);
    if (!page) return -1;
    int first, count;
    carried_layers(v, options, &first, &count);
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
          "'unsafe-inline'; script-src 'unsafe-inline'\">\n"
          "<link rel=\"icon\" href=\"data:,\">\n" PAGE_TITLE "\n<style>\n",
          page);
    page_style(page);
    fputs("</style>\n</head>\n<body>\n<main>\n<h1>What the two experts do</h1>\n", page);
    if (v->model) put_text(page, "<p class=\"soft\" style=\"margin:0 4px 10px\">", v->model, "</p>\n");
    if (options->note) put_text(page, "<p class=\"note\">", options->note, "</p>\n");
    put_sentence(page, v);
    put_explorer(page, v, first, count);
    if (put_means(a, page, v, error) || put_finishes(a, page, v, options, error) || put_sample(a, page, v, error) ||
        put_sheets(a, page, v, error) || put_spotlight(a, page, error) || put_curves(a, page, error))
        return -1;
    fputs(
        "<footer>Drawn by dea.h " DEA_VERSION ". The numbers of every picture stand beside it as TSV. Scales: viridis "
        "for what starts at 0; dark blue, grey, light yellow for what has a sign; both grow lighter all along, so they "
        "hold in grey print and for colour-blind readers.</footer>\n</main>\n"
        "<script type=\"application/json\" id=\"data\">",
        page);
    if (put_data(page, v, options, first, count, error)) return -1;
    fputs("</script>\n<script>\n", page);
    page_script(page);
    fputs("</script>\n</body>\n</html>\n", page);
    return 0;
}

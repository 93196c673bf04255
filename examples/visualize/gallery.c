#include "visualize/gallery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "visualize/heatmap.h"
#include "visualize/histogram.h"
#include "visualize/page.h"
#include "visualize/photo_finish.h"
#include "visualize/spotlight.h"

static int check_choice(const char *what, int chosen, int count, text_error *error) {
    if (chosen < -1 || chosen >= count)
        return text_fail(error, "there is no %s %d: they count from 0 to %d", what, chosen, count - 1);
    return 0;
}

static int stopped(const gallery_options *options) {
    return options->album.stop && *options->album.stop;
}

static int add_heatmaps(album *a, const view *v, const gallery_options *options, text_error *error) {
    for (int l = 0; l < v->layers; l++) {
        if (options->layer >= 0 && options->layer != l) continue;
        if (heatmap_add_sheet(a, v, l, error)) return -1;
        for (int h = 0; h < v->heads; h++) {
            if (options->head >= 0 && options->head != h) continue;
            if (stopped(options)) return 1;
            if (heatmap_add_head(a, v, l, h, error)) return -1;
        }
    }
    return 0;
}

static int fill(album *a, const view *v, const gallery_options *options, gallery_report *report, text_error *error) {
    photo_finish finish[PHOTO_FINISHES];
    const photo_filter filter = {options->layer, options->head, options->query};
    report->finishes = photo_closest(v, filter, finish, PHOTO_FINISHES);
    if (heatmap_add_means(a, v, error)) return -1;
    for (size_t i = 0; i < report->finishes; i++)
        if (photo_add(a, v, &finish[i], i, error)) return -1;
    if (histogram_add(a, v, error) || spotlight_add(a, error)) return -1;
    if (options->training && curves_add(a, options->training, error)) return -1;
    int result = add_heatmaps(a, v, options, error);
    if (result) return result;
    report->figures = album_figures(a);
    result = album_draw(a, error);
    if (result) return result;

    /* The page opens at the choice, else at the closest finish. */
    const int found = report->finishes > 0;
    const page_options page = {
        .layer = options->layer >= 0 ? options->layer
                 : found             ? finish[0].layer
                                     : 0,
        .head = options->head >= 0 ? options->head
                : found            ? finish[0].head
                                   : 0,
        .query = options->query >= 0 ? options->query
                 : found             ? finish[0].query
                                     : 0,
        .budget = PAGE_BUDGET,
        .finish = finish,
        .finishes = report->finishes,
        .note = options->note,
    };
    if (page_write(a, v, &page, error)) return -1;
    result = album_publish(a, error);
    for (int i = 0; !result && curves_name(i); i++) album_drop(a, curves_name(i)); /* of another model's log */
    return result;
}

int gallery_check_folder(const char *folder, text_error *error) {
    static const char page[] = "/index.html";
    struct stat status;
    if (stat(folder, &status)) return 0; /* to be made */
    if (!S_ISDIR(status.st_mode)) return text_fail(error, "%s: is no folder; choose another with --out", folder);
    if (access(folder, W_OK))
        return text_fail(error, "%s: cannot be written into: %s; choose another with --out", folder, strerror(errno));
    char *path = malloc(strlen(folder) + sizeof page);
    if (!path) return text_fail_memory(error, strlen(folder) + sizeof page);
    strcpy(path, folder);
    strcat(path, page);
    const int ours = page_is_ours(path);
    free(path);
    if (ours) return 0;
    return text_fail(error, "%s%s: was not drawn by visualize; choose another folder with --out", folder, page);
}

int gallery_make(const view *v, const char *folder, const gallery_options *options, gallery_report *report,
                 text_error *error) {
    *report = (gallery_report){0};
    if (view_check(v, error) || check_choice("layer", options->layer, v->layers, error) ||
        check_choice("head", options->head, v->heads, error) ||
        check_choice("query", options->query, v->tokens, error) || gallery_check_folder(folder, error))
        return -1;
    album *a = album_open(folder, &options->album, error);
    if (!a) return -1;
    const int result = fill(a, v, options, report, error);
    album_close(a);
    return result;
}

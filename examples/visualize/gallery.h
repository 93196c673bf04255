/* All pictures of a view and the page that shows them, made in one go. */
#ifndef VISUALIZE_GALLERY_H
#define VISUALIZE_GALLERY_H

#include "text/error.h"
#include "visualize/album.h"
#include "visualize/curves.h"
#include "visualize/view.h"

typedef struct gallery_options {
    int layer, head,
        query; /* -1: not chosen. A layer or head limits the heatmaps to it, all three the photo-finishes; the page
                               opens there */
    const curves *training; /* NULL: no training curves */
    const char *note;       /* a line on top of the page; NULL: none */
    album_options album;
} gallery_options;

typedef struct gallery_report {
    int figures;
    size_t finishes; /* photo-finishes drawn */
} gallery_report;

/* Whether gallery_make may write into `folder`, for asking before long work: it is missing, or writable and without an
 * index.html that somebody else made. 0, or -1 with a message. */
int gallery_check_folder(const char *folder, text_error *error);

/* Draws `v` into `folder`. 0; -1 with a message, the folder then has no half-written file; 1 if stopped. */
int gallery_make(const view *v, const char *folder, const gallery_options *options, gallery_report *report,
                 text_error *error);

#endif

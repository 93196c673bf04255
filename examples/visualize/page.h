/* index.html: the sentence, the prediction and every picture of an album in one file that needs no other and no network; lets
 * the reader pick layer, head and query. */
#ifndef VISUALIZE_PAGE_H
#define VISUALIZE_PAGE_H

#include <stddef.h>

#include "text/error.h"
#include "visualize/album.h"
#include "visualize/photo_finish.h"
#include "visualize/view.h"

/* Bytes of numbers that a page carries for its pickers: all layers of 6 layers x 8 heads up to 250 tokens. */
#define PAGE_BUDGET ((size_t)24 << 20)

typedef struct page_options {
    int layer, head, query;     /* picked when the page opens; the first layer to be left out is never this one */
    size_t budget;              /* layers beyond it are not in the pickers, and the page says so */
    const photo_finish *finish; /* the album's photo-finishes, in order */
    size_t finishes;
    const char *note; /* one line on top; NULL: none */
} page_options;

/* Whether `path` may be replaced: it does not exist, or is such a page, of this version or an earlier one. */
int page_is_ours(const char *path);

/* Writes the album's page, which must be drawn. 0, or -1 with a message. */
int page_write(album *a, const view *v, const page_options *options, text_error *error);

#endif

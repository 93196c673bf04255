/* A folder of figures with the page that shows them. Everything is first written to a hidden folder inside; album_publish then
 * moves it into place file by file, the page last, so that a file of the folder is either the old one or a whole new one.
 *
 *     album *a = album_open("attention_analysis", &options, &error);
 *     album_grid(a, "head_means", &grid, &error);              // head_means.tsv, .png, .svg
 *     album_draw(a, &error);                                   // runs gnuplot once for all of them
 *     FILE *page = album_page(a, &error);  album_image(a, page, "head_means", &error);
 *     album_publish(a, &error);
 *     album_close(a);                                          // removes whatever was not published */
#ifndef VISUALIZE_ALBUM_H
#define VISUALIZE_ALBUM_H

#include <signal.h>
#include <stdio.h>

#include "text/error.h"
#include "visualize/figure.h"
#include "visualize/gnuplot.h"

typedef struct album_options {
    const char *gnuplot; /* path of gnuplot; NULL: without, figures are drawn as simple SVG and there are no PNGs */
    int processes;       /* of gnuplot, at most GNUPLOT_PROCESSES; 0: one */
    gnuplot_progress *progress; /* NULL: none */
    void *user;
    const volatile sig_atomic_t *stop; /* nonzero: album_draw and album_publish give up; NULL: never */
} album_options;

typedef struct album album;

/* Makes a folder (and the folders above it) where it is missing. 0, or -1 with a message. */
int album_make_folder(const char *folder, text_error *error);

/* Makes `folder` (and the folders above it) where it is missing. NULL with a message. */
album *album_open(const char *folder, const album_options *options, text_error *error);
void album_close(album *a); /* NULL is let pass */

/* Adds a figure: its TSV, and what album_draw needs. `name` has no ending, may hold one folder ("heatmaps/x") and must
 * be new; letters, digits, '_' and '-' only. 0, or -1 with a message. */
int album_grid(album *a, const char *name, const figure_grid *grid, text_error *error);
int album_plot(album *a, const char *name, const figure_plot *plot, text_error *error);
int album_sheet(album *a, const char *name, const figure_sheet *sheet, text_error *error);
int album_has(const album *a, const char *name);

int album_figures(const album *a);

/* Draws them all. 0, -1 with a message, 1 if stopped. */
int album_draw(album *a, text_error *error);

/* index.html, to be written into; closed by album_publish. NULL with a message. */
FILE *album_page(album *a, text_error *error);

/* Writes a drawn figure into the page: <img> with its PNG as a data URI and `alternative` as its alt text, or the simple SVG
 * itself. 0, or -1 with a message. */
int album_image(album *a, FILE *page, const char *name, const char *alternative, text_error *error);

/* Moves everything into place. 0, -1 with a message, 1 if stopped before anything was moved. */
int album_publish(album *a, text_error *error);

/* Removes the files that a figure of an earlier album left in the folder, unless this album has it too. */
void album_drop(const album *a, const char *name);

#endif

#include "visualize/album.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/grow.h"
#include "visualize/base64.h"
#include "visualize/escape.h"
#include "visualize/script.h"
#include "visualize/svg.h"
#include "visualize/tsv.h"

typedef struct entry {
    char *name, *title;
} entry;

struct album {
    char *folder, *work; /* work: the hidden folder */
    int made;            /* nonzero: folder did not exist before */
    album_options options;
    entry *entry; /* [count], figure i has number i */
    int count;
    size_t capacity;
    FILE *script[GNUPLOT_PROCESSES]; /* figure i is drawn by script i modulo `scripts` */
    int scripts;
    FILE *page;
};

static const char *const script_name[GNUPLOT_PROCESSES] = {"figures0.gp", "figures1.gp", "figures2.gp", "figures3.gp"};

/* "FOLDER/NAME.ENDING", for free(); NULL when memory ends. ending may be "". */
static char *join(const char *folder, const char *name, const char *ending) {
    const size_t size = strlen(folder) + strlen(name) + strlen(ending) + 3;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s/%s%s%s", folder, name, *ending ? "." : "", ending);
    return path;
}

static char *work_path(const album *a, int number, const char *ending) {
    char name[16];
    snprintf(name, sizeof name, "%d", number);
    return join(a->work, name, ending);
}

static FILE *open_file(char *path, const char *mode, text_error *error) {
    FILE *file = path ? fopen(path, mode) : NULL;
    if (!path)
        text_fail_memory(error, 0);
    else if (!file)
        text_fail(error, "%s: cannot be opened: %s", path, strerror(errno));
    free(path);
    return file;
}

/* Closes a file that was written; 0, or -1 with a message if any write failed. */
static int close_file(FILE *file, const char *what, text_error *error) {
    errno = 0;
    const int failed = ferror(file);
    if (fclose(file) || failed)
        return text_fail(error, "%s: cannot be written: %s", what, errno ? strerror(errno) : "an earlier write failed");
    return 0;
}

/* mkdir -p. *made: whether the last folder is new. */
static int make_folders(const char *path, int *made, text_error *error) {
    char *copy = strdup(path);
    if (!copy) return text_fail_memory(error, strlen(path));
    int failed = 0;
    for (char *end = copy + 1; !failed; end++) {
        if (*end != '/' && *end != '\0') continue;
        const char kept = *end;
        *end = '\0';
        *made = mkdir(copy, 0777) == 0;
        struct stat status;
        if (!*made && (errno != EEXIST || stat(copy, &status) || !S_ISDIR(status.st_mode))) {
            if (errno == EEXIST) errno = ENOTDIR;
            failed =
                text_fail(error, "%s: cannot be made a folder: %s; choose another with --out", copy, strerror(errno));
        }
        *end = kept;
        if (!kept) break;
    }
    free(copy);
    return failed;
}

int album_make_folder(const char *folder, text_error *error) {
    int made;
    return make_folders(folder, &made, error);
}

album *album_open(const char *folder, const album_options *options, text_error *error) {
    if (!*folder) {
        text_fail(error, "the name of the output folder is empty; give one with --out");
        return NULL;
    }
    album *a = calloc(1, sizeof *a);
    if (!a) {
        text_fail_memory(error, sizeof *a);
        return NULL;
    }
    a->options = *options;
    if (a->options.processes > GNUPLOT_PROCESSES) a->options.processes = GNUPLOT_PROCESSES;
    a->folder = strdup(folder);
    if (!a->folder) {
        text_fail_memory(error, strlen(folder));
        album_close(a);
        return NULL;
    }
    if (make_folders(folder, &a->made, error)) {
        album_close(a);
        return NULL;
    }
    a->work = join(folder, ".visualize-XXXXXX", "");
    if (!a->work || !mkdtemp(a->work)) {
        text_fail(error, "%s: cannot be written into: %s; choose another with --out", folder, strerror(errno));
        free(a->work);
        a->work = NULL;
        album_close(a);
        return NULL;
    }
    while (a->scripts < a->options.processes || !a->scripts) {
        FILE *script = open_file(join(a->work, script_name[a->scripts], ""), "w", error);
        if (!script) {
            album_close(a);
            return NULL;
        }
        script_begin(script);
        a->script[a->scripts++] = script;
    }
    return a;
}

static void remove_file(char *path) {
    if (path) unlink(path);
    free(path);
}

void album_close(album *a) {
    if (!a) return;
    static const char *const endings[] = {"tsv", "bin", "dat", "png", "svg"};
    for (int i = 0; i < a->scripts; i++)
        if (a->script[i]) fclose(a->script[i]);
    if (a->page) fclose(a->page);
    if (a->work) {
        for (int i = 0; i < a->count; i++)
            for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) remove_file(work_path(a, i, endings[e]));
        for (int i = 0; i < GNUPLOT_PROCESSES; i++) remove_file(join(a->work, script_name[i], ""));
        remove_file(join(a->work, "index.html", ""));
        rmdir(a->work);
        if (a->made) rmdir(a->folder); /* which fails, as it should, unless it is still empty */
    }
    for (int i = 0; i < a->count; i++) {
        free(a->entry[i].name);
        free(a->entry[i].title);
    }
    free(a->entry);
    free(a->work);
    free(a->folder);
    free(a);
}

/* ---- adding figures */
static int find(const album *a, const char *name) {
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->entry[i].name, name) == 0) return i;
    return -1;
}

int album_has(const album *a, const char *name) {
    return find(a, name) >= 0;
}

int album_figures(const album *a) {
    return a->count;
}

static int add_entry(album *a, const char *name, const char *title, text_error *error) {
    const char *slash = strchr(name, '/');
    const size_t plain = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/");
    if (!*name || name[plain] || *name == '/' || (slash && (strchr(slash + 1, '/') || !slash[1])) || find(a, name) >= 0)
        return text_fail(error, "\"%s\" cannot name a figure, or names one already", name);
    entry *grown = grow(a->entry, &a->capacity, (size_t)a->count + 1, sizeof *grown);
    if (!grown) return text_fail_memory(error, ((size_t)a->count + 1) * sizeof *grown);
    a->entry = grown;
    entry added = {strdup(name), strdup(title)};
    if (!added.name || !added.title) {
        free(added.name);
        free(added.title);
        return text_fail_memory(error, strlen(name) + strlen(title));
    }
    a->entry[a->count++] = added;
    return 0;
}

/* The three kinds of figures and how each is written. */
typedef void writer(FILE *file, const void *figure);
typedef void script_writer(FILE *script, const void *figure, int number);

typedef struct kind {
    writer *tsv, *data, *svg;
    script_writer *script;
    const char *data_ending;
} kind;

#define WRITER(name, function, type)                                                                                   \
    static void name(FILE *file, const void *figure) {                                                                 \
        function(file, (const type *)figure);                                                                          \
    }
#define SCRIPT_WRITER(name, function, type)                                                                            \
    static void name(FILE *file, const void *figure, int number) {                                                     \
        function(file, (const type *)figure, number);                                                                  \
    }
WRITER(grid_tsv, tsv_grid, figure_grid)
WRITER(grid_data, script_grid_data, figure_grid)
WRITER(grid_svg, svg_grid, figure_grid)
SCRIPT_WRITER(grid_script, script_grid, figure_grid)
WRITER(plot_tsv, tsv_plot, figure_plot)
WRITER(plot_data, script_plot_data, figure_plot)
WRITER(plot_svg, svg_plot, figure_plot)
SCRIPT_WRITER(plot_script, script_plot, figure_plot)
WRITER(sheet_tsv, tsv_sheet, figure_sheet)
WRITER(sheet_data, script_sheet_data, figure_sheet)
WRITER(sheet_svg, svg_sheet, figure_sheet)
SCRIPT_WRITER(sheet_script, script_sheet, figure_sheet)

static const kind grid_kind = {grid_tsv, grid_data, grid_svg, grid_script, "bin"};
static const kind plot_kind = {plot_tsv, plot_data, plot_svg, plot_script, "dat"};
static const kind sheet_kind = {sheet_tsv, sheet_data, sheet_svg, sheet_script, "bin"};

static int write_with(album *a, int number, const char *ending, writer *write, const void *figure, text_error *error) {
    FILE *file = open_file(work_path(a, number, ending), "wb", error);
    if (!file) return -1;
    write(file, figure);
    return close_file(file, a->entry[number].name, error);
}

static int add_figure(album *a, const kind *k, const char *name, const char *title, const void *figure,
                      text_error *error) {
    if (add_entry(a, name, title, error)) return -1;
    const int number = a->count - 1;
    if (write_with(a, number, "tsv", k->tsv, figure, error)) return -1;
    if (!a->options.gnuplot) return write_with(a, number, "svg", k->svg, figure, error);
    k->script(a->script[number % a->scripts], figure, number);
    return write_with(a, number, k->data_ending, k->data, figure, error);
}

int album_grid(album *a, const char *name, const figure_grid *grid, text_error *error) {
    return add_figure(a, &grid_kind, name, grid->title, grid, error);
}

int album_plot(album *a, const char *name, const figure_plot *plot, text_error *error) {
    return add_figure(a, &plot_kind, name, plot->title, plot, error);
}

int album_sheet(album *a, const char *name, const figure_sheet *sheet, text_error *error) {
    return add_figure(a, &sheet_kind, name, sheet->title, sheet, error);
}

/* ---- drawing */
static char *read_all(FILE *file, size_t *size) {
    enum { STEP = 1 << 16 };
    char *text = NULL;
    size_t used = 0, capacity = 0;
    for (;;) {
        char *grown = grow(text, &capacity, used + STEP + 1, 1);
        if (!grown) break;
        text = grown;
        const size_t got = fread(text + used, 1, STEP, file);
        used += got;
        if (got) continue;
        if (ferror(file)) break;
        text[used] = '\0';
        *size = used;
        return text;
    }
    free(text);
    return NULL;
}

/* Copies gnuplot's SVG and mends it: every picture is titled "Gnuplot", viewers may blur the cells of an image, and the end
 * of a CDATA section, which XML does not allow in text, stands in text as it is. */
static void mend_svg(FILE *file, const char *svg, const char *title) {
    static const char gnuplot_title[] = "<title>Gnuplot</title>", image[] = "<image ", end[] = "]]>";
    while (*svg) {
        const size_t plain = strcspn(svg, "<]");
        fwrite(svg, 1, plain, file);
        svg += plain;
        if (strncmp(svg, gnuplot_title, strlen(gnuplot_title)) == 0) {
            fputs("<title>", file);
            escape_html(file, title);
            fputs("</title>", file);
            svg += strlen(gnuplot_title);
        } else if (strncmp(svg, image, strlen(image)) == 0) {
            fputs("<image style='image-rendering:pixelated' ", file);
            svg += strlen(image);
        } else if (strncmp(svg, end, strlen(end)) == 0) {
            fputs("]]&gt;", file);
            svg += strlen(end);
        } else if (*svg) {
            fputc(*svg++, file);
        }
    }
}

static int finish_svg(const album *a, int number, text_error *error) {
    FILE *file = open_file(work_path(a, number, "svg"), "rb", error);
    if (!file) return -1;
    size_t size;
    char *svg = read_all(file, &size);
    fclose(file);
    if (!svg) return text_fail(error, "%s: the picture cannot be read back", a->entry[number].name);
    file = open_file(work_path(a, number, "svg"), "wb", error);
    if (file) mend_svg(file, svg, a->entry[number].title);
    free(svg);
    return file ? close_file(file, a->entry[number].name, error) : -1;
}

static int check_drawn(const album *a, int number, const char *ending, text_error *error) {
    char *path = work_path(a, number, ending);
    struct stat status;
    const int missing = !path || stat(path, &status) || status.st_size == 0;
    free(path);
    if (missing) return text_fail(error, "gnuplot has not drawn %s.%s", a->entry[number].name, ending);
    return 0;
}

int album_draw(album *a, text_error *error) {
    for (int i = 0; i < a->scripts; i++) {
        FILE *script = a->script[i];
        a->script[i] = NULL;
        if (script && close_file(script, "the gnuplot script", error)) return -1;
    }
    if (!a->options.gnuplot) return 0;
    const gnuplot_job job = {.program = a->options.gnuplot,
                             .folder = a->work,
                             .script = script_name,
                             .scripts = a->scripts,
                             .figures = a->count,
                             .progress = a->options.progress,
                             .user = a->options.user,
                             .stop = a->options.stop};
    const int result = gnuplot_run(&job, error);
    if (result) return result;
    for (int i = 0; i < a->count; i++)
        if (check_drawn(a, i, "png", error) || check_drawn(a, i, "svg", error) || finish_svg(a, i, error)) return -1;
    return 0;
}

/* ---- the page */
FILE *album_page(album *a, text_error *error) {
    if (!a->page) a->page = open_file(join(a->work, "index.html", ""), "w", error);
    return a->page;
}

int album_image(album *a, FILE *page, const char *name, const char *alternative, text_error *error) {
    const int number = find(a, name);
    if (number < 0) return text_fail(error, "there is no figure %s", name);
    FILE *picture = open_file(work_path(a, number, a->options.gnuplot ? "png" : "svg"), "rb", error);
    if (!picture) return -1;
    size_t size;
    char *bytes = read_all(picture, &size);
    fclose(picture);
    if (!bytes) return text_fail(error, "%s: the picture cannot be read back", name);
    if (a->options.gnuplot) {
        fputs("<img alt=\"", page);
        escape_html(page, alternative);
        fputs("\" src=\"data:image/png;base64,", page);
        base64_write(page, bytes, size);
        fputs("\">\n", page);
    } else {
        fwrite(bytes, 1, size, page);
    }
    free(bytes);
    return 0;
}

/* ---- publishing */
static int sync_path(const char *path) {
    const int descriptor = open(path, O_RDONLY);
    if (descriptor < 0) return -1;
    const int failed = fsync(descriptor);
    close(descriptor);
    return failed;
}

/* Takes over both paths. */
static int move(char *from, char *to, text_error *error) {
    int result = 0;
    if (!from || !to)
        result = text_fail_memory(error, 0);
    else if (sync_path(from) || rename(from, to))
        result = text_fail(error, "%s: cannot be written: %s", to, strerror(errno));
    free(from);
    free(to);
    return result;
}

static int make_folder_of(const album *a, const char *name, text_error *error) {
    const char *slash = strchr(name, '/');
    if (!slash) return 0;
    char *path = join(a->folder, name, "");
    if (!path) return text_fail_memory(error, strlen(name));
    int made;
    path[strlen(a->folder) + 1 + (size_t)(slash - name)] = '\0';
    const int failed = make_folders(path, &made, error);
    free(path);
    return failed;
}

static const char *const published[] = {"tsv", "svg", "png"};

void album_drop(const album *a, const char *name) {
    for (int e = 0; !album_has(a, name) && e < 3; e++) remove_file(join(a->folder, name, published[e]));
}

int album_publish(album *a, text_error *error) {
    if (a->options.stop && *a->options.stop) return 1;
    if (a->page) {
        FILE *page = a->page;
        a->page = NULL;
        if (close_file(page, "index.html", error)) return -1;
    }
    for (int i = 0; i < a->count; i++) {
        const char *name = a->entry[i].name;
        if (make_folder_of(a, name, error)) return -1;
        for (int e = 0; e < (a->options.gnuplot ? 3 : 2); e++)
            if (move(work_path(a, i, published[e]), join(a->folder, name, published[e]), error)) return -1;
    }
    if (move(join(a->work, "index.html", ""), join(a->folder, "index.html", ""), error)) return -1;
    sync_path(a->folder); /* some file systems cannot; the files are there all the same */
    return 0;
}

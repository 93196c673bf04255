#include "data/capitals.h"

#include <dirent.h>
#include <errno.h>
#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "text/grow.h"
#include "text/utf8.h"

static int plain_name(const char *s) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ -'.";
    return *s && strspn(s, allowed) == strlen(s) && strlen(s) <= 40;
}

static int add(capitals *c, const char *map, const char *division, const char *name, text_error *error) {
    if (!plain_name(division) || !plain_name(name) || !strcmp(division, name)) return 0;
    capital *at = grow(c->at, &c->capacity, c->count + 1, sizeof *at);
    if (!at) return text_fail_memory(error, sizeof *at);
    c->at = at;
    capital *k = &c->at[c->count];
    k->map = arena_copy(&c->strings, map, strlen(map));
    k->division = arena_copy(&c->strings, division, strlen(division));
    k->capital = arena_copy(&c->strings, name, strlen(name));
    if (!k->map || !k->division || !k->capital) return text_fail_memory(error, strlen(name));
    c->count++;
    return 0;
}

/* ---- countries */

int capitals_load_countries(capitals *c, const char *path, text_error *error) {
    char line[1024];
    int number = 0, status = 0;
    errno = 0;
    gzFile f = gzopen(path, "rb");
    if (!f) return text_fail(error, "%s: %s", path, errno ? strerror(errno) : "out of memory");
    while (!status && gzgets(f, line, sizeof line)) {
        char *part[5], *at = line;
        size_t n = strcspn(line, "\r\n");
        int parts = 0;
        number++;
        if (!line[n] && !gzeof(f)) {
            status = text_fail(error, "%s:%d: a line of over %zu bytes", path, number, sizeof line - 2);
            break;
        }
        line[n] = 0;
        if (!n || *line == '#') continue;
        if (utf8_valid_prefix(line, n) < n) {
            status = text_fail(error, "%s:%d: not valid UTF-8", path, number);
            break;
        }
        while (parts < 5 && at) {
            part[parts++] = at;
            if ((at = strchr(at, ':'))) *at++ = 0;
        }
        if (parts < 5)
            status = text_fail(error, "%s:%d: not a line \"number:A2:A3:name:capital\"", path, number);
        else if (!at)
            status = add(c, "countries", part[3], part[4], error);
    }
    int code;
    const char *what = gzerror(f, &code);
    if (!status && code < 0) status = text_fail(error, "%s: %s", path, code == Z_ERRNO ? strerror(errno) : what);
    gzclose(f);
    return status;
}

/* ---- maps: <map> <division> <name/> <capital/> <ignore/> </division> ... </map> */

typedef struct map_parser {
    capitals *capitals;
    const char *map;
    XML_Parser xml;
    int depth, failed;
    char *into; /* the text being collected: name, capital or ignore; NULL elsewhere */
    char name[256], capital[256], ignore[256];
    text_error *error;
} map_parser;

static void XMLCALL on_start(void *data, const XML_Char *element, const XML_Char **attributes) {
    map_parser *p = data;
    (void)attributes;
    p->depth++;
    p->into = NULL;
    if (p->depth == 2 && !strcmp(element, "division")) *p->name = *p->capital = *p->ignore = 0;
    if (p->depth != 3) return;
    if (!strcmp(element, "name")) p->into = p->name;
    if (!strcmp(element, "capital")) p->into = p->capital;
    if (!strcmp(element, "ignore")) p->into = p->ignore;
    if (p->into) *p->into = 0;
}

static void XMLCALL on_text(void *data, const XML_Char *text, int length) {
    map_parser *p = data;
    if (!p->into || length < 0) return;
    size_t have = strlen(p->into), n = (size_t)length;
    if (have + n >= sizeof p->name) n = sizeof p->name - 1 - have; /* longer than any name that is kept */
    memcpy(p->into + have, text, n);
    p->into[have + n] = 0;
}

static void XMLCALL on_end(void *data, const XML_Char *element) {
    map_parser *p = data;
    p->into = NULL;
    if (p->depth-- != 2 || strcmp(element, "division") || !*p->capital) return;
    if (*p->ignore && strcmp(p->ignore, "no")) return;
    if (!p->failed && add(p->capitals, p->map, p->name, p->capital, p->error)) p->failed = 1;
}

static int load_map(capitals *c, const char *path, const char *map, text_error *error) {
    char buffer[16384];
    size_t n;
    int status = 0;
    FILE *f = fopen(path, "rb");
    if (!f) return text_fail(error, "%s: %s", path, strerror(errno));
    map_parser p = {.capitals = c, .map = map, .error = error, .xml = XML_ParserCreate(NULL)};
    if (!p.xml) {
        fclose(f);
        return text_fail_memory(error, sizeof buffer);
    }
    XML_SetUserData(p.xml, &p);
    XML_SetElementHandler(p.xml, on_start, on_end);
    XML_SetCharacterDataHandler(p.xml, on_text);
    do {
        n = fread(buffer, 1, sizeof buffer, f);
        if (ferror(f))
            status = text_fail(error, "%s: %s", path, strerror(errno));
        else if (XML_Parse(p.xml, buffer, (int)n, n < sizeof buffer) == XML_STATUS_ERROR)
            status = text_fail(error, "%s:%lu: %s", path, (unsigned long)XML_GetCurrentLineNumber(p.xml),
                               XML_ErrorString(XML_GetErrorCode(p.xml)));
        else if (p.failed)
            status = -1;
    } while (!status && n == sizeof buffer);
    XML_ParserFree(p.xml);
    fclose(f);
    return status;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int capitals_load_maps(capitals *c, const char *folder, text_error *error) {
    struct dirent *entry;
    char **name = NULL;
    size_t names = 0, capacity = 0;
    int status = 0;
    arena strings = {0};
    DIR *d = opendir(folder);
    if (!d) return text_fail(error, "%s: %s", folder, strerror(errno));
    while (!status && (entry = readdir(d))) {
        size_t n = strlen(entry->d_name);
        if (n < 5 || strcmp(entry->d_name + n - 4, ".kgm")) continue;
        char **more = grow(name, &capacity, names + 1, sizeof *name);
        if (more) name = more;
        if (!more || !(name[names++] = arena_copy(&strings, entry->d_name, n - 4))) status = text_fail_memory(error, n);
    }
    closedir(d);
    if (!status && names) qsort(name, names, sizeof *name, by_bytes); /* readdir's order is anybody's */
    if (!status && !names) status = text_fail(error, "%s: no map (*.kgm) in this folder", folder);
    for (size_t i = 0; i < names && !status; i++) {
        char path[4096];
        if ((size_t)snprintf(path, sizeof path, "%s/%s.kgm", folder, name[i]) >= sizeof path)
            status = text_fail(error, "%.60s...: the path is too long", folder);
        else
            status = load_map(c, path, name[i], error);
    }
    free(name);
    arena_free(&strings);
    return status;
}

/* ---- both */

static int by_division(const void *a, const void *b) {
    const capital *x = a, *y = b;
    int order = strcmp(x->division, y->division);
    if (!order) order = strcmp(x->capital, y->capital);
    return order ? order : strcmp(x->map, y->map);
}

void capitals_finish(capitals *c) {
    size_t kept = 0;
    if (c->count) qsort(c->at, c->count, sizeof *c->at, by_division);
    for (size_t i = 0; i < c->count; i++)
        if (!kept || strcmp(c->at[i].division, c->at[kept - 1].division) ||
            strcmp(c->at[i].capital, c->at[kept - 1].capital))
            c->at[kept++] = c->at[i];
    c->count = kept;
}

void capitals_free(capitals *c) {
    arena_free(&c->strings);
    free(c->at);
    *c = (capitals){0};
}

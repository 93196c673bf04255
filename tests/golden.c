/* Compares dea.h, as float and as double, with every golden file of a folder. Exit code: 0 all within limits, 1 a file
 * failed or could not be read, 2 wrong usage. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int golden_check_double(const char *path, const char *shown);
int golden_check_float(const char *path, const char *shown);

static int by_name(const void *x, const void *y) {
    return strcmp(*(char *const *)x, *(char *const *)y);
}

static int is_case(const char *name) {
    size_t n = strlen(name);
    return name[0] != '.' && n > 4 && !strcmp(name + n - 4, ".txt");
}

/* Names of the *.txt files of a folder in byte order; -1 if it cannot be read. */
static int list_cases(const char *folder, char ***names) {
    DIR *dir = opendir(folder);
    int count = 0, room = 0;
    *names = NULL;
    if (!dir) return -1;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (!is_case(e->d_name)) continue;
        if (count == room) {
            char **bigger = realloc(*names, (size_t)(room = 2 * room + 16) * sizeof *bigger);
            if (!bigger) break;
            *names = bigger;
        }
        (*names)[count] = malloc(strlen(e->d_name) + 1);
        if (!(*names)[count]) break;
        strcpy((*names)[count++], e->d_name);
    }
    closedir(dir);
    if (count) qsort(*names, (size_t)count, sizeof **names, by_name);
    return count;
}

int main(int argc, char **argv) {
    char **names;
    struct stat info;
    int failures = 0;
    if (argc != 2 || !strcmp(argv[1], "--help")) {
        fprintf(argc == 2 ? stdout : stderr,
                "usage: golden FOLDER    compares float and double results with every *.txt of FOLDER\n");
        return argc == 2 ? 0 : 2;
    }
    if (stat(argv[1], &info) == 0 && !S_ISDIR(info.st_mode)) {
        fprintf(stderr, "golden: %s is no folder; give the folder that holds the files\n", argv[1]);
        return 2;
    }
    int count = list_cases(argv[1], &names);
    if (count <= 0) {
        fprintf(stderr, "golden: %s: %s\n", argv[1], count < 0 ? strerror(errno) : "no *.txt file in this folder");
        free(names);
        return 1;
    }
    for (int i = 0; i < count; ++i) {
        size_t room = strlen(argv[1]) + strlen(names[i]) + 2;
        char *path = malloc(room);
        if (!path) return 1;
        snprintf(path, room, "%s/%s", argv[1], names[i]);
        failures += golden_check_double(path, names[i]);
        failures += golden_check_float(path, names[i]);
        free(path), free(names[i]);
    }
    free(names);
    printf("%d files, %d failed comparisons\n", count, failures);
    return failures != 0;
}

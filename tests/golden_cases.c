/* One type's half of the golden runner: compiled once with DEA_REAL double and once with float, each with its own copy of
 * the library. GOLDEN_CHECK names the function it exports. */
#define DEA_STATIC
#define DEA_IMPLEMENTATION
#include "dea.h"
#include "golden.h"

int GOLDEN_CHECK(const char *path, const char *shown);

/* Runs every way a file's kind knows and prints one line each. Returns the number of failures. */
int GOLDEN_CHECK(const char *path, const char *shown) {
    const char *type = sizeof(dea_real) == sizeof(double) ? "double" : "float";
    golden_file *f = golden_read(path);
    const golden_kind *kind = f && !f->error[0] ? golden_kind_of(f) : NULL;
    int failures = 0;
    if (!kind) {
        printf("%-28s %-6s FAILED: %s\n", shown, type,
               !f            ? "out of memory"
               : f->error[0] ? f->error
                             : "no known kind of case");
        failures = 1;
    }
    for (int way = 0; kind && way < (kind->has_paths ? (int)(sizeof golden_ways / sizeof *golden_ways) : 1); ++way) {
        const char *name = kind->has_paths ? golden_ways[way].name : kind->name;
        if (kind->has_paths && !golden_way_built(way)) {
            printf("%-28s %-6s %-16s not run: not built\n", shown, type, name);
            continue;
        }
        golden_score s = {0, 0, "", 0, ""};
        kind->check(f, golden_ways[way].forward_path, golden_ways[way].backward_path, &s);
        if (!s.problem[0] && s.compared == 0) golden_problem(&s, "case", "nothing was compared");
        printf("%-28s %-6s %-16s worst %.2e (%s), limit %.0e, %d tensors%s%s\n", shown, type, name, s.worst,
               s.worst_name[0] ? s.worst_name : "none", s.limit, s.compared, s.problem[0] ? "  FAILED: " : "",
               s.problem);
        failures += s.problem[0] != 0;
    }
    if (f) golden_free(f);
    return failures;
}

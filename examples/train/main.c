/* experimental driver */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <getopt.h>
#include "train/settings.h"
#include "train/trainer.h"
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }
int main(int argc, char **argv) {
    text_error err = {""};
    trainer_config c;
    const char *data = NULL; int threads = 1;
    settings_preset("small", &c);
    for (int i = 1; i < argc; i++) {
        char *eq = strchr(argv[i], '=');
        if (!eq) { fprintf(stderr, "NAME=VALUE\n"); return 2; }
        *eq++ = 0;
        int bad = 0;
        if (!strcmp(argv[i], "data")) data = eq;
        else if (!strcmp(argv[i], "threads")) threads = atoi(eq);
        else if (!strcmp(argv[i], "preset")) bad = settings_preset(eq, &c);
        else if (!strcmp(argv[i], "sources")) bad = settings_sources(&c, eq, &err);
        else if (!strcmp(argv[i], "oracle")) snprintf(c.oracle, sizeof c.oracle, "%s", eq);
        else bad = settings_set(&c, argv[i], eq, &err);
        if (bad) { fprintf(stderr, "%s\n", err.message); return 2; }
    }
    rows stored = {0};
    if (data && rows_load(&stored, data, ROWS_AUTO, NULL, &err)) { fprintf(stderr, "%s\n", err.message); return 1; }
    tokenizer *v = trainer_vocabulary(&c, data ? &stored : NULL, NULL, &err);
    static trainer t;
    if (!v || trainer_open(&t, &c, v, data ? &stored : NULL, NULL, threads, &err)) { fprintf(stderr, "%s\n", err.message); return 1; }
    printf("vocab %d params %zu dev %zu memory %.1f MB\n", (int)tokenizer_size(t.vocabulary), t.e->table.elements, t.dev.count, (double)trainer_memory(&t) / 1e6);
    double start = now(); size_t tok = 0; double pad = 0;
    while (t.step < c.steps) {
        trainer_step_report r;
        if (trainer_step(&t, &r, &err)) { fprintf(stderr, "%s\n", err.message); return 1; }
        tok += r.tokens; pad += (double)r.padded;
        if (r.moved || t.step % 50 == 0) {
            printf("%5lld %6.1fs loss %.3f lm %.3f gate %.3f g %.2f norms %.2f %.2f tok/s %.0f pad %.3f |", (long long)t.step, now() - start, r.class_loss, r.lm_loss, r.gate_loss, r.gamma, r.norm[0], r.norm[1], (double)tok / (now() - start), pad / (double)tok - 1);
            for (int i = 0; i < t.feed.count; i++) printf(" %s.%d%s %.3f", t.feed.source[i].plan.name, t.feed.source[i].state.stage, t.feed.source[i].state.done ? "*" : "", t.feed.source[i].state.accuracy);
            puts("");
        }
        if (t.step % c.eval_every == 0) {
            trainer_eval_report e;
            double q = now();
            if (trainer_evaluate(&t, &e, &err)) { fprintf(stderr, "%s\n", err.message); return 1; }
            printf("   dev %.3f mae %.3f (%.3f) %.1fs:", e.accuracy, e.alpha_mae, e.constant_mae, now() - q);
            for (int i = 0; i < e.sources; i++) printf(" %s %.3f", e.source[i].name, (double)e.source[i].correct / e.source[i].rows);
            puts("");
        }
        fflush(stdout);
    }
    trainer_close(&t);
    return 0;
}

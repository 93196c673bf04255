/* Phases 0, 1 and 2 of 2.7 over items that are tokens already: collection, confidence heads, encoder and blocks. */
#ifndef META_TRAIN_H
#define META_TRAIN_H

#include "meta/two_pass.h"

/* Items and what phase 0 finds out about them. Arrays are the caller's. */
typedef struct meta_items {
    int count, prompt_seq, target_seq;
    int *prompt, *n_prompt; /* [count,prompt_seq], [count] */
    int *target, *n_target; /* [count,3,target_seq], [count,3]: confirm, correct, refuse, each with its end token */
    int *right;             /* [count] index of the right candidate */
    const int *candidates;  /* [candidate_count] tokens: every candidate is one token, the same ones for every item */
    int candidate_count;
    /* Phase 0. */
    dea_real *act;   /* [count,C,D] */
    int *base_right; /* [count] pass1_correct */
    double *margin;  /* [count] log p of the best candidate less that of the second */
} meta_items;

typedef struct meta_settings {
    double lr;            /* 2e-4 */
    int epochs, patience; /* 10, 5 */
    int micro, group;     /* 2, 16 */
    double ratio;         /* 0.5 of the wrong items are corrected, the others refused */
    uint64_t seed;
    void (*report)(void *context, int phase, int epoch, double train, double validation, int best); /* or NULL */
    void *context;
} meta_settings;

meta_settings meta_settings_init(void);

/* Indices into items. */
typedef struct meta_part {
    const int *index;
    int count;
} meta_part;

/* 0..count-1 in an order that is a function of seed alone. */
void meta_shuffle(int *index, int count, uint64_t seed);

/* Phase 0: fills act, base_right, margin. */
dea_status meta_collect(const meta_system *m, meta_batch *b, meta_items *items);

/* Phase 1: trains `heads` in params [table->elements], which holds each layer's best epoch at the end. table: the one it was
 * registered in. DEA_ERR_CAPACITY if memory is out. */
dea_status meta_train_confidence(const dea_meta_confidence *heads, const dea_table *table, dea_real *params,
                                 const meta_items *items, meta_part train, meta_part validation,
                                 const meta_settings *settings, const dea_threads *threads);
/* P(the base is right) of each read layer: [part.count, C]. */
dea_status meta_judge(const dea_meta_confidence *heads, const dea_real *params, const meta_items *items, meta_part part,
                      double *probability, const dea_threads *threads);

/* Phase 2: trains m->params, which holds the best epoch at the end. The first batch goes through checks 2 and 3 of 2.8:
 * DEA_ERR_ISOLATION, and *what says why. */
dea_status meta_train(const meta_system *m, meta_batch *b, const meta_items *items, meta_part train,
                      meta_part validation, const meta_settings *settings, const char **what);

#endif

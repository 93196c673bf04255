/* Ways to run the tasks of a dea_threads: one POSIX thread for each of its workers, or one after another in reverse. */
#ifndef TESTS_THREAD_HOOKS_H
#define TESTS_THREAD_HOOKS_H

#include <pthread.h>
#include <stdlib.h>

typedef struct thread_share {
    pthread_t thread;
    dea_task *task;
    void *context;
    int first, count, step;
} thread_share;

static inline void *run_share(void *argument) {
    thread_share *s = (thread_share *)argument;
    for (int i = s->first; i < s->count; i += s->step) s->task(s->context, i);
    return NULL;
}

static inline void run_in_threads(void *user, int count, dea_task *task, void *context) {
    enum { MOST = 5 };
    thread_share shares[MOST];
    (void)user;
    int threads = count < MOST ? count : MOST;
    for (int i = 0; i < threads; ++i) {
        thread_share s = {0, task, context, i, count, threads};
        shares[i] = s;
        if (pthread_create(&shares[i].thread, NULL, run_share, &shares[i])) abort();
    }
    for (int i = 0; i < threads; ++i) pthread_join(shares[i].thread, NULL);
}

static inline void run_backwards(void *user, int count, dea_task *task, void *context) {
    (void)user;
    for (int i = count - 1; i >= 0; --i) task(context, i);
}

#endif

#include "train/pool.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MOST_THREADS = 64 };

typedef struct shared {
    dea_task *task;
    void *context;
    int count;
    atomic_int next;
} shared;

static void *work(void *argument) {
    shared *s = argument;
    for (int i; (i = atomic_fetch_add(&s->next, 1)) < s->count;) s->task(s->context, i);
    return NULL;
}

void pool_run(void *user, int count, dea_task *task, void *context) {
    shared s = {.task = task, .context = context, .count = count};
    pthread_t thread[MOST_THREADS];
    int threads = *(const int *)user, started = 0;
    if (threads > count) threads = count;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    while (started < threads - 1 && pthread_create(&thread[started], NULL, work, &s) == 0) started++;
    work(&s);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

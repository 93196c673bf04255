/* Threads for lanes of work: task(context, i) for every i in [0, count), spread over a number of threads. Which thread does
 * what is left to chance, so nothing may depend on it. The signature of dea_threads.run. */
#ifndef TRAIN_POOL_H
#define TRAIN_POOL_H

#include "dea.h"

/* user: const int *, the number of threads. Where a thread cannot be had, the others do its work. */
void pool_run(void *user, int count, dea_task *task, void *context);

#endif

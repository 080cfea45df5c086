// SPDX-License-Identifier: BSD-2-Clause
/*
 * A pool of 4 threads that works on 1,000 tasks, which it announces by assay/client.h. Task n calls
 * burn() n % 3 + 1 times. Each task measures its own time on a processor, and the program prints a
 * line "NAME NS" for each.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "assay/client.h"

#define KEEP __attribute__((noinline))

enum { THREADS = 4, TASKS = 1000 };

static uint64_t used[TASKS];
static int next;
static volatile unsigned sink;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static KEEP void burn(void)
{
	for (unsigned i = 0; i < 100000; i++)
		sink += i;
}

static KEEP void work(int task)
{
	for (int i = 0; i < task % 3 + 1; i++)
		burn();
}

static void *worker(void *unused)
{
	int task;

	while ((task = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < TASKS) {
		char name[32];
		uint64_t begin = now();

		snprintf(name, sizeof(name), "task-%d", task);
		assay_task_begin(name);
		work(task);
		assay_task_end();
		used[task] = now() - begin;
	}
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, worker, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < TASKS; i++)
		printf("task-%d %lu\n", i, (unsigned long)used[i]);
	return 5;
}

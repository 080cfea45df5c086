// SPDX-License-Identifier: BSD-2-Clause
/*
 * A pool of 4 threads that works on 400 tasks, which it announces by assay/client.h. What a task
 * uses follows from its number n:
 *
 *	n % 5 times 100 bytes are written, n % 7 pages are touched,
 *	n % 11 times getppid() is called,
 *	n % 10 == 0: sleeps a millisecond,
 *	n % 8 == 0: another task, inner-n, lies within it, and writes 7 bytes.
 *
 * Between tasks a thread writes 3 bytes. Each task measures its own time on a processor, and the
 * program prints a line "NAME NS" for each.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "assay/client.h"

enum { THREADS = 4, TASKS = 400, PAGE = 4096, PAGES = 7 };

static uint64_t used[TASKS];
static int next, sink;
static volatile unsigned burnt;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void put(size_t size)
{
	static const char bytes[100];

	if (write(sink, bytes, size) != (ssize_t)size)
		exit(1);
}

/* The memory is made for each task anew, so that each page is a fault. */
static void touch(int pages)
{
	volatile char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	for (int i = 0; i < pages; i++)
		memory[i * PAGE] = 1;
	munmap((void *)memory, PAGES * PAGE);
}

static void inner(int task)
{
	char name[32];

	snprintf(name, sizeof(name), "inner-%d", task);
	assay_task_begin(name);
	put(7);
	assay_task_end();
}

static void work(int task)
{
	static const struct timespec nap = { 0, 1000000 };

	for (int i = 0; i < task % 5; i++)
		put(100);
	touch(task % PAGES);
	for (int i = 0; i < task % 11; i++)
		syscall(SYS_getppid);
	if (task % 10 == 0)
		nanosleep(&nap, NULL);
	if (task % 8 == 0)
		inner(task);
	for (unsigned i = 0; i < 500000; i++)
		burnt += i;
}

static void *worker(void *unused)
{
	int task;

	while ((task = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < TASKS) {
		char name[32];
		uint64_t begin;

		snprintf(name, sizeof(name), "task-%d", task);
		put(3);
		assay_task_begin(name);
		begin = now();
		work(task);
		used[task] = now() - begin;
		assay_task_end();
	}
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS];

	sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, worker, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < TASKS; i++)
		printf("task-%d %lu\n", i, (unsigned long)used[i]);
	return 0;
}

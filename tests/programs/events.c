// SPDX-License-Identifier: BSD-2-Clause
/*
 * Causes as many page faults, context switches and migrations as its arguments say, each in a
 * function of its own: events FAULTS SWITCHES MIGRATIONS [ROUNDS]. The page faults are caused in as
 * many rounds as the last one says, 100 ms apart. It prints the page faults and context switches of
 * the process, and the context switches of the function that sleeps: a sleep whose timer goes off
 * before the thread has left the CPU causes none.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };

/* A page per fault: no huge ones. */
__attribute__((noinline)) static void touch_pages(char *memory, long count)
{
	for (long i = 0; i < count; i++)
		((volatile char *)memory)[i * PAGE] = 1;
}

__attribute__((noinline)) static void sleep_often(long count)
{
	struct timespec pause = { .tv_nsec = 10000 };

	for (long i = 0; i < count; i++)
		nanosleep(&pause, NULL);
}

__attribute__((noinline)) static void change_cpu(long count)
{
	for (long i = 0; i < count; i++) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(i % 2, &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			exit(1);
	}
}

static long context_switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

int main(int argc, char **argv)
{
	long faults = atol(argv[1]), switches = atol(argv[2]), migrations = atol(argv[3]);
	char *memory = mmap(NULL, (faults + 1) * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rusage usage;

	if (memory == MAP_FAILED || madvise(memory, (faults + 1) * PAGE, MADV_NOHUGEPAGE))
		return 1;
	touch_pages(memory, faults);
	for (long round = argc > 4 ? atol(argv[4]) : 1; round > 1; round--) {
		if (madvise(memory, faults * PAGE, MADV_DONTNEED))
			return 1;
		usleep(100000);
		touch_pages(memory, faults);
	}

	long before = context_switches();

	sleep_often(switches);
	switches = context_switches() - before;
	change_cpu(migrations);
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld %ld %ld\n", usage.ru_minflt, usage.ru_nvcsw + usage.ru_nivcsw, switches);
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Does the same within a region (from open_region() to close_region()) and without, and prints what
 * it did within:
 *
 *	threads		eight threads, each with a number of rounds of its own
 *	signals		a timer's signals, whose handler belongs to the region it interrupts
 *	fork		a child goes on in the region that its parent was in
 *	data		reads and writes of an object
 *	read		marks that the program reads itself, while it counts along
 *	ended		the same, of threads that are no more
 *	read_data	a mark on data that the program reads itself; in a child, too
 *	ended_data	the same, with threads that are no more and one that waits
 */
#include <assay/client.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 200 };

static volatile long sum;
static volatile int ticks;
volatile long object[4];

__attribute__((noinline)) void open_region(void)
{
	sum++;
}

__attribute__((noinline)) void close_region(void)
{
	sum--;
}

__attribute__((noinline)) void work(long value)
{
	for (long i = 0; i < value % 7; i++)
		sum += i;
}

__attribute__((noinline)) void touch(void)
{
	object[1] = object[0] + 1;
	object[2]++;
}

/* Twice as much outside as within. */
static long rounds_do(long rounds)
{
	long done = 0;

	for (long i = 0; i < rounds; i++) {
		work(i);
		if (i % 3)
			continue;
		open_region();
		for (int j = 0; j < 5; j++, done++)
			work(j);
		close_region();
		work(1);
	}
	return done;
}

static void *thread_main(void *rounds)
{
	return (void *)rounds_do((long)rounds);
}

static long threads_do(void)
{
	pthread_t threads[THREADS];
	long done = 0;

	open_region(); /* of this thread alone */
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, thread_main, (void *)(ROUNDS * (i + 1)));
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		done += (long)result;
	}
	close_region();
	return done;
}

__attribute__((noinline)) void on_tick(int signal)
{
	ticks++;
}

static void signals_do(void)
{
	const struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
	long done = 0;

	signal(SIGALRM, on_tick);
	setitimer(ITIMER_REAL, &often, NULL);
	while (ticks < 300)
		done += rounds_do(30);
	setitimer(ITIMER_REAL, &never, NULL);
	printf("work %ld\n", done);
}

static void fork_do(void)
{
	int status;

	open_region();
	work(1);
	if (!fork()) {
		work(2);
		work(3);
		close_region();
		work(4);
		_exit(0);
	}
	wait(&status);
	close_region();
	if (!fork()) {
		work(5);
		_exit(0);
	}
	wait(&status);
	printf("work 3\n");
}

static void data_do(void)
{
	for (int i = 0; i < 50; i++) {
		touch();
		if (i % 5)
			continue;
		open_region();
		touch();
		touch();
		close_region();
	}
	printf("reads 40\nwrites 40\n");
}

static void reading_print(const char *name, const char *mark)
{
	struct assay_mark_counts counts;

	printf("%s %d", name, assay_mark_read(mark, &counts));
	printf(" %llu %llu %llu\n", counts.visits, counts.instructions, counts.thread_visits);
}

static void read_do(void)
{
	struct assay_mark_counts before, after;
	long wrong = 0;

	for (int i = 0; i < 1000; i++) {
		assay_mark_read("work", &before);
		for (int j = 0; j < i % 10; j++)
			work(j);
		assay_mark_read("work", &after);
		wrong += after.visits - before.visits != (unsigned long long)(i % 10);
		wrong += after.thread_visits != after.visits;
	}
	printf("wrong %ld\n", wrong);
	reading_print("work", "work");
	reading_print("pattern", "open_r*");
	open_region();
	reading_print("pattern", "open_r*");
	reading_print("nothing", "no such mark");
}

static void ended_do(void)
{
	long done = threads_do();

	printf("done %ld\n", done);
	reading_print("work", "work");
}

static void data_print(const char *name, const char *mark)
{
	struct assay_mark_counts counts;

	printf("%s %d", name, assay_mark_read(mark, &counts));
	printf(" %llu %llu %llu %llu\n", counts.reads, counts.writes, counts.thread_reads,
	       counts.thread_writes);
}

/* touch() reads and writes it twice. */
static void read_data_do(void)
{
	struct assay_mark_counts before, after;
	long wrong = 0;
	int status;

	for (int i = 0; i < 1000; i++) {
		assay_mark_read("data:object", &before);
		for (int j = 0; j < i % 10; j++)
			touch();
		assay_mark_read("data:object", &after);
		wrong += after.reads - before.reads != 2ull * (unsigned)(i % 10);
		wrong += after.writes - before.writes != 2ull * (unsigned)(i % 10);
		wrong += after.thread_reads != after.reads || after.visits;
	}
	printf("wrong %ld\n", wrong);
	data_print("object", "data:object");
	if (!fork()) {
		touch();
		data_print("child", "data:object");
		_exit(0);
	}
	wait(&status);
	data_print("parent", "data:object");
}

static void *thread_touch(void *barrier)
{
	for (int i = 0; i < ROUNDS; i++)
		touch();
	if (barrier) {
		pthread_barrier_wait(barrier);
		pthread_barrier_wait(barrier);
	}
	return NULL;
}

static void ended_data_do(void)
{
	pthread_barrier_t barrier;
	pthread_t thread;

	for (int i = 0; i < THREADS; i++) {
		pthread_create(&thread, NULL, thread_touch, NULL);
		pthread_join(thread, NULL);
	}
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, thread_touch, &barrier);
	pthread_barrier_wait(&barrier);
	touch();
	data_print("object", "data:object");
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	data_print("later", "data:object");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IONBF, 0);
	if (!strcmp(what, "threads"))
		printf("work %ld\n", threads_do());
	else if (!strcmp(what, "signals"))
		signals_do();
	else if (!strcmp(what, "fork"))
		fork_do();
	else if (!strcmp(what, "data"))
		data_do();
	else if (!strcmp(what, "read"))
		read_do();
	else if (!strcmp(what, "ended"))
		ended_do();
	else if (!strcmp(what, "read_data"))
		read_data_do();
	else if (!strcmp(what, "ended_data"))
		ended_data_do();
	return 0;
}

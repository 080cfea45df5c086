// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that wait for known things. Each says on standard output how often it waited and for how
 * many nanoseconds, by its own clock:
 *
 *	locker	waits for planted_lock, which the holder has while it sleeps
 *	holder	sleeps
 *	reader	waits for a pipe, which the writer writes to
 *	writer	sleeps
 *	disk	waits for fsync()
 *
 * usage: waits ROUNDS FILE
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t planted_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t turn;
static int ends[2];
static int rounds;
static const char *file_name;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

__attribute__((noinline)) static void nap(long milliseconds)
{
	struct timespec time = { .tv_nsec = milliseconds * 1000000 };

	nanosleep(&time, NULL);
}

static void say(const char *who, uint64_t waited)
{
	printf("%s %d %llu\n", who, rounds, (unsigned long long)waited);
}

__attribute__((noinline)) static void hold(void)
{
	pthread_mutex_lock(&planted_lock);
	pthread_barrier_wait(&turn); /* the locker may try now */
	nap(20);
	pthread_mutex_unlock(&planted_lock);
}

static void *holder(void *unused)
{
	pthread_setname_np(pthread_self(), "holder");
	for (int i = 0; i < rounds; i++) {
		hold();
		pthread_barrier_wait(&turn); /* the locker has had it */
	}
	return unused;
}

__attribute__((noinline)) static void take(void)
{
	pthread_mutex_lock(&planted_lock);
	pthread_mutex_unlock(&planted_lock);
}

static void *locker(void *unused)
{
	uint64_t waited = 0;

	pthread_setname_np(pthread_self(), "locker");
	for (int i = 0; i < rounds; i++) {
		uint64_t begin;

		pthread_barrier_wait(&turn);
		begin = now();
		take();
		waited += now() - begin;
		pthread_barrier_wait(&turn);
	}
	say("locker", waited);
	return unused;
}

__attribute__((noinline)) static void drink(void)
{
	char byte;

	if (read(ends[0], &byte, 1) != 1)
		abort();
}

static void *reader(void *unused)
{
	uint64_t waited = 0;

	pthread_setname_np(pthread_self(), "reader");
	for (int i = 0; i < rounds; i++) {
		uint64_t begin = now();

		drink();
		waited += now() - begin;
	}
	say("reader", waited);
	return unused;
}

__attribute__((noinline)) static void pour(void)
{
	if (write(ends[1], "x", 1) != 1)
		abort();
}

static void *writer(void *unused)
{
	pthread_setname_np(pthread_self(), "writer");
	for (int i = 0; i < rounds; i++) {
		nap(15);
		pour();
	}
	return unused;
}

__attribute__((noinline)) static void put_down(int file)
{
	static char block[1 << 20];

	if (pwrite(file, block, sizeof(block), 0) != sizeof(block) || fsync(file))
		abort();
}

static void *disk(void *unused)
{
	int file = open(file_name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	uint64_t waited = 0;

	pthread_setname_np(pthread_self(), "disk");
	for (int i = 0; i < rounds; i++) {
		uint64_t begin = now();

		put_down(file);
		waited += now() - begin;
	}
	close(file);
	say("disk", waited);
	return unused;
}

int main(int argc, char **argv)
{
	static void *(*const bodies[])(void *) = { locker, holder, reader, writer, disk };
	pthread_t threads[sizeof(bodies) / sizeof(bodies[0])];

	if (argc != 3 || pipe(ends))
		return 2;
	rounds = atoi(argv[1]);
	file_name = argv[2];
	pthread_barrier_init(&turn, NULL, 2);
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		pthread_create(&threads[i], NULL, bodies[i], NULL);
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		pthread_join(threads[i], NULL);
	return 0;
}

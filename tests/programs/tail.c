// SPDX-License-Identifier: BSD-2-Clause
/*
 * A small server of one thread: 4000 requests, each of which looks something up. One of a hundred
 * finds the lock taken by another thread, one of a hundred finds that the cache has been given back
 * to the kernel, and one of a hundred asks for a name that is looked for in a slow way. Says how
 * many there were of each.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { REQUESTS = 4000, PLANTED = 100, PAGES = 2000, PAGE = 4096, NAMES = 47, USUAL = 1500 };

struct request {
	char name[16];
	int number;
};

pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t wanted, taken;
static volatile int over;
static char *cache;
volatile uint64_t sink;

static uint64_t hash_rounds(uint64_t value, int rounds)
{
	for (int i = 0; i < rounds; i++)
		value = (value ^ value >> 29) * 0x9e3779b97f4a7c15ull;
	return value;
}

__attribute__((noinline)) void rebuild_index(const struct request *request)
{
	sink += hash_rounds((uint64_t)request->number, 3000000);
}

__attribute__((noinline)) void refresh_cache(void)
{
	for (int i = 0; i < PAGES; i++)
		cache[(size_t)i * PAGE]++;
}

__attribute__((noinline)) void update_table(const struct request *request)
{
	pthread_mutex_lock(&table_lock);
	sink += (uint64_t)request->number;
	pthread_mutex_unlock(&table_lock);
}

__attribute__((noinline)) int handle(const struct request *request)
{
	sink += hash_rounds((uint64_t)request->number, USUAL);
	update_table(request);
	refresh_cache();
	if (!strcmp(request->name, "report-2019"))
		rebuild_index(request);
	return request->number;
}

/* Takes the lock when asked to, says so, and keeps it for a while. */
static void *holder(void *unused)
{
	const struct timespec time = { 0, 5000000 };

	for (;;) {
		sem_wait(&wanted);
		if (over)
			return NULL;
		pthread_mutex_lock(&table_lock);
		sem_post(&taken);
		nanosleep(&time, NULL);
		pthread_mutex_unlock(&table_lock);
	}
}

int main(void)
{
	int locked = 0, faulted = 0, slow = 0;
	pthread_t thread;

	sem_init(&wanted, 0, 0);
	sem_init(&taken, 0, 0);
	pthread_create(&thread, NULL, holder, NULL);
	cache = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(cache, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
	refresh_cache();
	for (int i = 0; i < REQUESTS; i++) {
		struct request request = { .number = i };

		snprintf(request.name, sizeof(request.name), "page-%d", i % NAMES);
		if (i % PLANTED == 30) {
			sem_post(&wanted);
			sem_wait(&taken);
			locked++;
		} else if (i % PLANTED == 60) {
			madvise(cache, (size_t)PAGES * PAGE, MADV_DONTNEED);
			faulted++;
		} else if (i % PLANTED == 90) {
			strcpy(request.name, "report-2019");
			slow++;
		}
		handle(&request);
	}
	over = 1;
	sem_post(&wanted);
	pthread_join(thread, NULL);
	printf("locked %d\nfaulted %d\nslow %d\n", locked, faulted, slow);
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Functions that ask the kernel for known amounts: pages that they touch, bytes that they read,
 * write, send and receive, and naps. Prints what the kernel told the thread itself at its end.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))

enum { PAGE = 4096, FEW = 100, MANY = 700, NAPS = 20, BYTES = 1000, ROUNDS = 30 };

static volatile int sink;

static KEEP void check(int holds)
{
	if (!holds)
		abort();
}

static KEEP char *pages(size_t count)
{
	char *memory = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	check(memory != MAP_FAILED && !madvise(memory, count * PAGE, MADV_NOHUGEPAGE));
	return memory;
}

static KEEP void step(volatile char *page)
{
	*page = 1;
}

/* In the function itself, and in another one for each page. */
static KEEP void touch_few(volatile char *memory)
{
	for (int i = 0; i < FEW; i++)
		memory[i * PAGE] = 1;
}

static KEEP void touch_many(volatile char *memory)
{
	for (int i = 0; i < MANY; i++)
		step(memory + i * PAGE);
}

static KEEP void nap(void)
{
	for (int i = 0; i < NAPS; i++)
		nanosleep(&(struct timespec){ 0, 100000 }, NULL);
}

static KEEP void transfer(int source, int target)
{
	char buffer[BYTES];

	for (int i = 0; i < ROUNDS; i++) {
		check(read(source, buffer, BYTES) == BYTES);
		check(write(target, buffer, BYTES / 2) == BYTES / 2);
	}
}

static KEEP void talk(const int ends[2])
{
	char buffer[BYTES];

	for (int i = 0; i < ROUNDS; i++) {
		check(send(ends[0], buffer, 10, 0) == 10);
		check(recv(ends[1], buffer, BYTES, 0) == 10);
	}
}

static KEEP void quiet(void)
{
	for (int i = 0; i < 100000; i++)
		sink++;
}

static void *work(void *ignored)
{
	int source = open("/dev/zero", O_RDONLY), target = open("/dev/null", O_WRONLY), ends[2];
	char *few = pages(FEW), *many = pages(MANY);
	struct rusage usage;

	check(source >= 0 && target >= 0 && !socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	touch_few(few);
	touch_many(many);
	nap();
	transfer(source, target);
	talk(ends);
	quiet();
	getrusage(RUSAGE_THREAD, &usage);
	printf("%ld %ld\n", usage.ru_minflt + usage.ru_majflt, usage.ru_nvcsw);
	return ignored;
}

int main(void)
{
	pthread_t thread;

	check(!pthread_create(&thread, NULL, work, NULL));
	check(!pthread_join(thread, NULL));
	return 5;
}

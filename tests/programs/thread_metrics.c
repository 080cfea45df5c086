// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that switch all the time, use memory and make system calls, and then say what the kernel
 * tells them about themselves, a line each:
 *
 *	NAME voluntary involuntary minor major read written running waiting lived
 *
 * The first four are of getrusage() and /proc/thread-self/status, then come the bytes of io and the
 * nanoseconds of schedstat, and for how many nanoseconds the thread has run. It does nothing else
 * after it has asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 10000, YIELDS = 2000, PAGES = 3000, PAGE = 4096, FEW = 1000, MANY = 51000 };

struct worker {
	const char *name;
	void (*work)(struct worker *self);
	int in, out; /* of a pipe */
	int amount;
	pthread_t thread;
	struct rusage usage;
	unsigned long voluntary, involuntary; /* status */
	unsigned long long read, written; /* io */
	unsigned long long running, waiting; /* schedstat */
	unsigned long long began, lived;
};

/* One read, and so one system call whose bytes are known. */
static size_t slurp(const char *name, char *text, size_t size)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t count = fd < 0 ? -1 : read(fd, text, size - 1);

	if (count < 0) {
		perror(name);
		exit(1);
	}
	close(fd);
	text[count] = 0;
	return (size_t)count;
}

static unsigned long long after(const char *text, const char *label)
{
	const char *at = strstr(text, label);

	if (!at) {
		fprintf(stderr, "no %s in %s\n", label, text);
		exit(1);
	}
	return strtoull(at + strlen(label), NULL, 10);
}

static unsigned long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (unsigned long long)time.tv_sec * 1000000000 + (unsigned long long)time.tv_nsec;
}

static void ask(struct worker *self)
{
	char text[8192];
	size_t size;

	self->lived = now() - self->began;
	slurp("/proc/thread-self/schedstat", text, sizeof(text));
	if (sscanf(text, "%llu %llu", &self->running, &self->waiting) != 2)
		exit(1);
	slurp("/proc/thread-self/status", text, sizeof(text));
	self->voluntary = after(text, "\nvoluntary_ctxt_switches:\t");
	self->involuntary = after(text, "\nnonvoluntary_ctxt_switches:\t");
	size = slurp("/proc/thread-self/io", text, sizeof(text));
	self->read = after(text, "rchar: ") + size;
	self->written = after(text, "wchar: ");
	getrusage(RUSAGE_THREAD, &self->usage);
}

static void pin(const struct worker *self);

static void *run(void *ctx)
{
	struct worker *self = ctx;

	self->began = now();
	prctl(PR_SET_NAME, self->name);
	pin(self);
	self->work(self);
	ask(self);
	return NULL;
}

/* Passes a message back and forth. */
static void pass(struct worker *self)
{
	char message[64] = "";

	for (int i = 0; i < ROUNDS; i++)
		if (write(self->out, message, (size_t)self->amount) != self->amount ||
		    read(self->in, message, (size_t)self->amount) != self->amount)
			exit(1);
}

static void yields(struct worker *self)
{
	volatile unsigned sink = 0;

	for (int i = 0; i < YIELDS; i++) {
		for (unsigned j = 0; j < 50000; j++)
			sink += j;
		sched_yield();
	}
}

static void touch(struct worker *self)
{
	char *memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE))
		exit(1);
	for (size_t i = 0; i < PAGES; i++)
		memory[i * PAGE] = 1;
}

static void call(struct worker *self)
{
	for (int i = 0; i < self->amount; i++)
		syscall(SYS_getppid);
}

static struct worker workers[] = {
	{ "ping", pass, .amount = 7 },
	{ "pong", pass, .amount = 7 },
	{ "tick", pass, .amount = 64 },
	{ "tock", pass, .amount = 64 },
	{ "yields", yields },
	{ "yields_too", yields },
	{ "touches", touch },
	{ "few_calls", call, .amount = FEW },
	{ "many_calls", call, .amount = MANY },
};

/* Half of the threads are on one processor and half on another, if there are two. */
static void pin(const struct worker *self)
{
	int wanted = (int)(self - workers) % 2;
	cpu_set_t all, one;

	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && !wanted--)
			CPU_SET(i, &one);
	if (CPU_COUNT(&one))
		sched_setaffinity(0, sizeof(one), &one);
}

enum { WORKERS = sizeof(workers) / sizeof(workers[0]) };

static void pipes_make(struct worker *one, struct worker *two)
{
	int there[2], back[2];

	if (pipe(there) || pipe(back))
		exit(1);
	one->out = there[1], two->in = there[0];
	two->out = back[1], one->in = back[0];
}

int main(void)
{
	pipes_make(&workers[0], &workers[1]);
	pipes_make(&workers[2], &workers[3]);
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&workers[i].thread, NULL, run, &workers[i]);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	for (struct worker *one = workers; one < workers + WORKERS; one++)
		printf("%s %lu %lu %ld %ld %llu %llu %llu %llu %llu\n", one->name, one->voluntary,
		       one->involuntary, one->usage.ru_minflt, one->usage.ru_majflt, one->read,
		       one->written, one->running, one->waiting, one->lived);
	return 0;
}

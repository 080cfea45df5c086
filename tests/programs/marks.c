// SPDX-License-Identifier: BSD-2-Clause
/*
 * Does things as often as it says: a program to be counted. Each line that it prints is a routine or a
 * range and how often it was visited, by the program's own counters.
 *
 *	marks threads | signals | fork | exec | plugin FILE | jit | jumps | steady
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUTINE __attribute__((noinline, noclone, used))

#ifdef PLUGIN
long plugged(long x);

ROUTINE long plugged(long x)
{
	return x * x + 1;
}
#else

static _Atomic long counts[3];

ROUTINE static void shared_work(long *word)
{
	atomic_fetch_add(&counts[0], 1);
	*word += 3;
}

static void *thread(void *from)
{
	long rounds = (long)from, word = 0;

	for (long i = 0; i < rounds; i++)
		shared_work(&word);
	return NULL;
}

static void threads(void)
{
	pthread_t all[8];

	for (long i = 0; i < 8; i++)
		pthread_create(&all[i], NULL, thread, (void *)(1000 * (i + 1)));
	for (long i = 0; i < 8; i++)
		pthread_join(all[i], NULL);
	printf("shared_work %ld\n", counts[0]);
}

ROUTINE static void on_tick(int number)
{
	atomic_fetch_add(&counts[1], 1);
}

/* Its body is one block, so that every call has the same number of instructions. */
ROUTINE static long interrupted(long x)
{
	__asm__ volatile(".rept 40\n\tlea 1(%0), %0\n\t.endr" : "+r"(x));
	return x;
}

static void signals(void)
{
	const struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = {};
	long x = 0;

	signal(SIGALRM, on_tick);
	setitimer(ITIMER_REAL, &often, NULL);
	for (long i = 0; i < 300000 || counts[1] < 50; i++) {
		x = interrupted(x);
		counts[0]++;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("interrupted %ld\non_tick %ld\n", counts[0], counts[1]);
	if (x != 40 * counts[0])
		abort();
}

ROUTINE static void both(void)
{
	atomic_fetch_add(&counts[0], 1);
}

static void forked(void)
{
	for (int i = 0; i < 5; i++)
		both();
	fflush(stdout);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (!pid) {
			for (int j = 0; j < 7; j++)
				both();
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	printf("both %d\n", 5 + 3 * 7);
}

static void executed(char **argv)
{
	int round = argv[2] ? argv[2][0] - '0' : 0;
	char next[] = { (char)('1' + round), 0 };

	both();
	if (round < 4)
		execl("/proc/self/exe", argv[0], "exec", next, NULL);
	printf("both %d\n", 5);
}

static void plugin(const char *file)
{
	long x = 0;
	int calls = 0;

	for (int i = 0; i < 6; i++) {
		void *library = dlopen(file, RTLD_NOW);
		long (*plugged)(long) = (long (*)(long))dlsym(library, "plugged");

		for (int j = 0; j <= i; j++, calls++)
			x = plugged(x);
		dlclose(library);
	}
	printf("plugged %d\n", calls);
}

/* push %rbx; mov %rdi, %rbx; xor %eax, %eax; xlatb so often; pop %rbx; ret */
static void jit(void)
{
	static const unsigned char begin[] = { 0x53, 0x48, 0x89, 0xfb, 0x31, 0xc0 };
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char table[256] = {};
	long total = 0;

	for (int round = 1; round <= 20; round++) {
		memcpy(code, begin, sizeof(begin));
		memset(code + sizeof(begin), 0xd7, (size_t)round);
		memcpy(code + sizeof(begin) + round, "\x5b\xc3", 2);
		for (int i = 0; i < 10; i++, total += round)
			((long (*)(char *))code)(table);
	}
	printf("insn:xlat* %ld\n", total);
}

/* Until standard input ends; a round takes a millisecond. */
static void steady(void)
{
	struct pollfd end = { .fd = 0, .events = POLLIN };

	while (!poll(&end, 1, 1))
		both();
	printf("both %ld\n", counts[0]);
}

static jmp_buf back;

ROUTINE static void jumps_out(int i)
{
	counts[0]++;
	if (i % 3)
		longjmp(back, 1);
	counts[1]++;
}

static void jumps(void)
{
	volatile int i = 0;

	setjmp(back);
	while (i < 30) {
		i++; /* RANGE begins */
		jumps_out(i);
		counts[2]++; /* RANGE ends */
	}
	printf("jumps_out %ld\nRANGE %d\n", counts[0], 30);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "threads"))
		threads();
	else if (!strcmp(what, "signals"))
		signals();
	else if (!strcmp(what, "fork"))
		forked();
	else if (!strcmp(what, "exec"))
		executed(argv);
	else if (!strcmp(what, "plugin") && argc > 2)
		plugin(argv[2]);
	else if (!strcmp(what, "jit"))
		jit();
	else if (!strcmp(what, "steady"))
		steady();
	else
		jumps();
	return 0;
}
#endif

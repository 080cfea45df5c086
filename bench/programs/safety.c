// SPDX-License-Identifier: BSD-2-Clause
/*
 * Does what is hard on somebody who looks at a process from outside, and prints a checksum that is
 * always the same.
 *
 *	safety MODE ROUNDS
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096 };

static uint64_t sum;

static void add(uint64_t value)
{
	sum = (sum ^ value) * 0x9e3779b97f4a7c15ull;
	sum ^= sum >> 31;
}

static void must(int holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(1);
}

static char *pages(size_t count, int protection)
{
	char *memory = mmap(NULL, count * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(memory != MAP_FAILED, "mmap");
	return memory;
}

/* Memory that comes, moves, is forbidden, allowed again and goes. */
static void mode_map(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		char *memory = pages(8, PROT_READ | PROT_WRITE);

		for (int j = 0; j < 8; j++)
			memory[j * PAGE + i % PAGE] = (char)(i + j);
		must(!mprotect(memory + 2 * PAGE, PAGE, PROT_NONE), "mprotect");
		must(!mprotect(memory + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE), "mprotect");
		memory = mremap(memory, 8 * PAGE, 16 * PAGE, MREMAP_MAYMOVE);
		must(memory != MAP_FAILED, "mremap");
		for (int j = 0; j < 16; j++)
			add((unsigned char)memory[j * PAGE + i % PAGE]);
		must(!madvise(memory, 4 * PAGE, MADV_DONTNEED), "madvise");
		add((unsigned char)memory[i % PAGE]);
		munmap(memory, 16 * PAGE);
	}
}

/* Code that is written, run, overwritten and run again at the same place. */
static void mode_jit(int rounds)
{
	unsigned char *code = (unsigned char *)pages(2, PROT_READ | PROT_WRITE | PROT_EXEC);
	unsigned char *across = code + PAGE - 5; /* two pages */

	for (int i = 0; i < rounds; i++) {
		unsigned char *place = i & 1 ? across : code;
		int (*function)(int);

		place[0] = 0x8d; /* lea eax, [rdi + i] */
		place[1] = 0x87;
		memcpy(place + 2, &i, 4);
		place[6] = i & 2 ? 0x90 : 0xf8; /* nop or clc */
		place[7] = 0xc3;
		memcpy(&function, &place, sizeof(function));
		for (int j = 0; j < 50; j++)
			add((uint64_t)function(j));
	}
	munmap(code, 2 * PAGE);
}

static void mode_fork(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			for (int j = 0; j < 20000; j++)
				add((uint64_t)j);
			if (i % 3 == 0)
				execl("/bin/true", "true", NULL);
			_exit((int)(sum & 63));
		}
		must(pid > 0 && waitpid(pid, &status, 0) == pid, "fork");
		add((uint64_t)status);
	}
}

/* The last pages of the address space, code and data. */
static void mode_high(int rounds)
{
	char *wanted = (char *)(0x7ffffffff000ull - 64 * PAGE), *memory = MAP_FAILED;
	static const unsigned char code[] = { 0x48, 0x03, 0x3e, 0x48, 0x89, 0xf8, 0xc3 };
	uint64_t (*function)(uint64_t, const uint64_t *);

	for (int i = 0; i < 4096 && memory == MAP_FAILED; i++)
		memory = mmap(wanted - i * 16 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	must(memory != MAP_FAILED, "mmap high");
	memcpy(memory, code, sizeof(code));
	memcpy(&function, &memory, sizeof(function));
	for (int i = 0; i < rounds * 200; i++) {
		uint64_t *place = (uint64_t *)(memory + 2 * PAGE - 8);

		*place = (uint64_t)i * 3;
		add(function((uint64_t)i, place)); /* add rdi, [rsi]; mov rax, rdi */
	}
}

static void mode_huge(int rounds)
{
	size_t size = 16 << 20;
	char *memory = aligned_alloc(2 << 20, size);

	must(memory != NULL, "aligned_alloc");
	madvise(memory, size, MADV_HUGEPAGE);
	for (int i = 0; i < rounds; i++)
		for (size_t at = (size_t)i * 64 % PAGE; at < size; at += 61 * 1024) {
			memory[at] += (char)i;
			add((unsigned char)memory[at]);
		}
	free(memory);
}

/* The vsyscall page, where the kernel has one. */
static void mode_vsyscall(int rounds)
{
	int (*function)(struct timeval *, void *);
	uintptr_t place = 0xffffffffff600000ull;
	char line[256];
	int there = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	struct timeval now;

	while (maps && fgets(line, sizeof(line), maps))
		there |= strstr(line, "[vsyscall]") != NULL;
	if (maps)
		fclose(maps);
	memcpy(&function, &place, sizeof(function));
	for (int i = 0; i < rounds * 20; i++) {
		if (there)
			function(&now, NULL);
		else
			gettimeofday(&now, NULL);
		add(now.tv_usec < 1000000);
	}
}

static volatile sig_atomic_t ticks;

static void on_tick(int number)
{
	char room[20000];

	memset(room, number, sizeof(room));
	ticks += room[777] == number;
}

/* Signals on a stack of their own, in the middle of everything. */
static void mode_signal(int rounds)
{
	stack_t stack = { .ss_sp = pages(16, PROT_READ | PROT_WRITE), .ss_size = 16 * PAGE };
	struct sigaction action = { .sa_handler = on_tick, .sa_flags = SA_ONSTACK | SA_RESTART };
	struct itimerval timer = { { 0, 700 }, { 0, 700 } };

	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (int i = 0; i < rounds * 2000; i++)
		add((uint64_t)i);
	memset(&timer, 0, sizeof(timer));
	setitimer(ITIMER_REAL, &timer, NULL);
}

static _Thread_local uint64_t mine;

static void *thread(void *argument)
{
	uint64_t start = (uint64_t)(uintptr_t)argument;

	for (uint64_t i = 0; i < 30000; i++)
		mine = (mine + start + i) * 0x9e3779b97f4a7c15ull;
	return (void *)(uintptr_t)(mine >> 1);
}

static void mode_thread(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		pthread_t threads[4];
		void *result, *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);

		for (uintptr_t j = 0; j < 4; j++)
			must(!pthread_create(&threads[j], NULL, thread,
					     (void *)((uintptr_t)i * 4 + j)),
			     "pthread_create");
		for (int j = 0; j < 4; j++) {
			pthread_join(threads[j], &result);
			add((uint64_t)(uintptr_t)result);
		}
		if (library)
			dlclose(library);
	}
}

/* Long and overlapping string instructions, both directions, over pages that are not there yet. */
static void mode_string(int rounds)
{
	size_t size = 64 * PAGE;

	for (int i = 0; i < rounds; i++) {
		char *memory = pages(64, PROT_READ | PROT_WRITE);
		void *to = memory + 100, *from = memory + 50 + i % 40;
		size_t count = size - 200;

		memset(memory, i, size);
		memory[i % 5000] = 1;
		__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
		to = memory + size - 1;
		from = memory + size - 9;
		count = 5000;
		__asm__ volatile("std\n\trep movsb\n\tcld"
				 : "+D"(to), "+S"(from), "+c"(count)
				 :
				 : "memory");
		for (size_t at = 0; at < size; at += 997)
			add((unsigned char)memory[at]);
		munmap(memory, size);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(int rounds);
	} modes[] = {
		{ "map", mode_map },	   { "jit", mode_jit },	      { "fork", mode_fork },
		{ "high", mode_high },	   { "huge", mode_huge },     { "vsyscall", mode_vsyscall },
		{ "signal", mode_signal }, { "thread", mode_thread }, { "string", mode_string },
	};
	int rounds = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;

	for (size_t i = 0; argc == 3 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name)) {
			modes[i].run(rounds);
			printf("%s %016llx\n", argv[1], (unsigned long long)sum);
			return 0;
		}
	fprintf(stderr, "usage: safety MODE ROUNDS\n");
	return 2;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Executes known numbers of rare instructions.
 *
 *	tools work THREADS ROUNDS	bswap and a call, ROUNDS times in each thread and in a child, while a timer interrupts
 *	tools faults ROUNDS		movbe, which faults each time before it is executed
 *	tools gates ROUNDS		bswap, ROUNDS times for each line that is read; answers each with a line
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static long rounds;
static volatile sig_atomic_t ticks;
static char *page;

/* The call has a symbol. Flags live across it where the loop is not left. */
__asm__(".text\n"
	"leaf:	ret\n"
	".globl rare_loop, rare_call\n"
	"rare_loop:\n"
	"1:	bswap %rdi\n"
	"	cmp $1, %rsi\n"
	".type rare_call, @function\n"
	"rare_call:\n"
	"	call leaf\n"
	"	je 2f\n"
	"	lea -1(%rsi), %rsi\n"
	"	jmp 1b\n"
	"2:	ret\n");
void rare_loop(long value, long count);

static void on_tick(int number)
{
	ticks = ticks + 1;
}

static void *work(void *unused)
{
	rare_loop(1, rounds);
	return NULL;
}

static int works(int threads)
{
	struct itimerval every = { { 0, 500 }, { 0, 500 } };
	pthread_t all[64];
	pid_t child;
	int status;

	signal(SIGALRM, on_tick);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, work, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	child = fork();
	if (!child) {
		work(NULL);
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0)
		;
	return ticks ? 0 : 1;
}

static void on_fault(int number)
{
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static int faults(void)
{
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	signal(SIGSEGV, on_fault);
	for (long i = 0; i < rounds; i++) {
		unsigned value;

		mprotect(page, 4096, PROT_NONE);
		__asm__ volatile("movbe (%1), %0" : "=r"(value) : "r"(page) : "memory");
	}
	return 0;
}

static int gates(void)
{
	char line[16];

	while (fgets(line, sizeof(line), stdin)) {
		rare_loop(1, rounds);
		puts("done");
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	rounds = atol(argv[argc - 1]);
	if (!strcmp(argv[1], "work"))
		return works(atoi(argv[2]));
	return !strcmp(argv[1], "faults") ? faults() : gates();
}

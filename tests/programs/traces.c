// SPDX-License-Identifier: BSD-2-Clause
/*
 * traces ROUNDS [signals]: a loop through calls, returns, an indirect call and branches that are
 * nearly always taken, so that the engine makes traces of it. Now and then it goes another way, or
 * reads a page that is not there; with "signals", a timer interrupts it as well. Handlers check
 * that they see an instruction of this program. Prints what it computed.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, RARE = 1000, RARER = 50000 };

extern const char __executable_start[], etext[];
static volatile uint32_t *page;
static uint32_t faults;

__attribute__((noinline)) static uint32_t step(uint32_t value)
{
	if (__builtin_expect(value & 1, 0)) /* half of the time, whatever the compiler believes */
		return value / 2 + 7;
	return value * 5 + 3;
}

__attribute__((noinline)) static uint32_t other(uint32_t value)
{
	return step(value) ^ 0x55;
}

static uint32_t (*volatile const ways[])(uint32_t) = { step, other };

static void on_fault(int number, siginfo_t *info, void *context)
{
	uint64_t rip = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	if (info->si_addr != (void *)page || rip < (uint64_t)__executable_start ||
	    rip >= (uint64_t)etext)
		_exit(2);
	faults++;
	mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE);
}

static void on_timer(int number, siginfo_t *info, void *context)
{
	uint64_t rip = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	if (rip >= (uint64_t)etext && rip < (uint64_t)etext + (64 << 20))
		_exit(3); /* the engine's copies would be there, or a heap */
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART };

	sigaction(number, &action, NULL);
}

int main(int argc, char **argv)
{
	uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 1000, value = 1;
	struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = {};

	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handle(SIGSEGV, on_fault);
	handle(SIGALRM, on_timer);
	if (argc > 2 && !strcmp(argv[2], "signals"))
		setitimer(ITIMER_REAL, &often, NULL);
	for (uint32_t i = 1; i <= rounds; i++) {
		value = ways[i % RARE == 0](value) + *page;
		if (i % RARER == 0)
			mprotect((void *)page, PAGE, PROT_NONE);
		else if (i % RARE)
			value ^= i;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("%u %u\n", value, faults);
	return 0;
}

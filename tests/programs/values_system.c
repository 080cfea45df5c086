// SPDX-License-Identifier: BSD-2-Clause
/*
 * Works in user space and in one system call, whose arguments it prints, with two signals blocked
 * and one of them pending, until its input ends.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile unsigned long sum;

/* A function that does nothing but the call: its call site is in main. */
long call_here(long number, long a, long b, long c);
__asm__(".globl call_here\n"
	".type call_here, @function\n"
	"call_here:\n"
	".cfi_startproc\n"
	"mov %rdi, %rax\n"
	"mov %rsi, %rdi\n"
	"mov %rdx, %rsi\n"
	"mov %rcx, %rdx\n"
	"syscall\n"
	"ret\n"
	".cfi_endproc\n"
	".size call_here, . - call_here\n");

int main(void)
{
	struct pollfd input = { 0, POLLIN, 0 };
	static char buffer[1 << 16];
	int zero = open("/dev/zero", O_RDONLY);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	printf("ready %d %p\n", zero, (void *)buffer);
	fflush(stdout);
	while (poll(&input, 1, 0) == 0)
		for (int i = 0; i < 50; i++) {
			for (int j = 0; j < 5000; j++)
				sum += sum >> 3 ^ (unsigned long)j;
			call_here(SYS_read, zero, (long)buffer, sizeof(buffer));
		}
	return 0;
}

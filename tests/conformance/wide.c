// SPDX-License-Identifier: BSD-2-Clause
/*
 * Numbers of system calls, and arguments that are ints for the kernel, with something in the bits
 * above, where the kernel does not look.
 */
#include "corner.h"

#include <asm/prctl.h>
#include <sys/resource.h>

#define ABOVE 0xabcd123400000000l

extern char **environ;

struct kernel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	unsigned long mask;
};

static volatile sig_atomic_t seen;

/* glibc's syscall() would do, but a child of vfork may not return from it. */
static inline long call(long number, long a, long b, long c, long d)
{
	register long fourth __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
			 : "rcx", "r11", "r8", "r9", "memory");
	return result;
}

static void count(int number, siginfo_t *info, void *context)
{
	seen++;
}

static void child_say(const char *what, pid_t child)
{
	int status;

	waitpid(child, &status, 0);
	status_say(what, status);
}

static void scene_numbers(void)
{
	char *argv[] = { "echo", "executed", NULL };
	struct kernel_action action;
	long child;

	printf("%d\n", call(ABOVE | SYS_getpid, 0, 0, 0, 0) == getpid());
	child = call(ABOVE | SYS_fork, 0, 0, 0, 0);
	if (!child)
		_exit(7);
	child_say("fork", (pid_t)child);
	child = call(ABOVE | SYS_clone, SIGCHLD, 0, 0, 0);
	if (!child)
		call(ABOVE | SYS_exit_group, 9, 0, 0, 0);
	child_say("clone", (pid_t)child);
	child = call(ABOVE | SYS_vfork, 0, 0, 0, 0);
	if (!child) {
		call(ABOVE | SYS_execve, (long)"/bin/echo", (long)argv, (long)environ, 0);
		_exit(1);
	}
	child_say("vfork", (pid_t)child);
	handle(SIGUSR1, count, 0);
	printf("%ld", call(ABOVE | SYS_rt_sigaction, SIGUSR1, 0, (long)&action, 8));
	printf(" %d\n", action.handler == count);
	printf("%ld\n", call(ABOVE | 9999, 0, 0, 0, 0));
	printf("%ld %ld\n", call(0xffffffff, 0, 0, 0, 0), call(-1, 0, 0, 0, 0));
}

static void signals(void)
{
	struct kernel_action action = {};
	unsigned long set = 1ul << (SIGUSR1 - 1);

	handle(SIGUSR1, count, 0);
	printf("%ld", call(SYS_rt_sigaction, ABOVE | SIGUSR1, 0, (long)&action, 8));
	printf(" %d", action.handler == count);
	printf(" %ld\n", call(SYS_rt_sigaction, ABOVE | SIGUSR2, (long)&action, 0, 8));
	raise(SIGUSR2);
	printf("%d\n", seen);
	printf("%ld\n", call(SYS_rt_sigprocmask, ABOVE | SIG_BLOCK, (long)&set, 0, 8));
	raise(SIGUSR1);
	printf("%d\n", seen);
	printf("%ld\n", call(SYS_rt_sigprocmask, ABOVE | SIG_UNBLOCK, (long)&set, 0, 8));
	printf("%d\n", seen);
}

static void memory(void)
{
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < 3; i++) {
		memcpy(code, "\xb8\x05\0\0\0\xc3", 6);
		code[1] += i;
		printf("%d", ((int (*)(void))code)());
		printf(" %ld", call(SYS_madvise, (long)code, 4096, ABOVE | MADV_DONTNEED, 0));
		printf(" %d\n", code[0]);
	}
	printf("%ld\n", call(SYS_mlockall, ABOVE | MCL_CURRENT, 0, 0, 0));
	munlockall();
}

/* Other calls that the engine looks at. */
static void others(void)
{
	struct rlimit limit;
	long base = 0, child;

	printf("%ld\n", call(SYS_arch_prctl, ABOVE | ARCH_SET_GS, 0x1000, 0, 0));
	printf("%ld", call(SYS_arch_prctl, ABOVE | ARCH_GET_GS, (long)&base, 0, 0));
	printf(" %lx\n", base);
	printf("%d\n", call(SYS_arch_prctl, ABOVE | 0x5001, 1, 0, 0) < 0); /* shadow stacks */
	printf("%ld\n", call(SYS_prlimit64, ABOVE, ABOVE | RLIMIT_AS, 0, (long)&limit));
	printf("%ld\n", call(SYS_write, ABOVE | 1, (long)"text\n", 5, 0));
	child = call(SYS_clone, (long)0xabcd123500000000 | SIGCHLD, 0, 0, 0);
	if (!child)
		_exit(4);
	child_say("clone", (pid_t)child);
}

static void scene_arguments(void)
{
	signals();
	memory();
	others();
}

static const struct scene scenes[] = {
	{ "numbers", scene_numbers },
	{ "arguments", scene_arguments },
};

SCENES_MAIN(scenes)

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Alternate stacks for signals: which children have their parent's, and frames that do not fit,
 * below which there is memory that could be written. What a handler of a fault could do is seen
 * from children, which end by SIGSEGV.
 */
#include "corner.h"

#include <linux/sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif
#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ull
#endif

enum { ROOM = 256 << 10, BELOW = 128 << 10, STACK = 16384 };

static char room[ROOM] __attribute__((aligned(4096)));
static char stack[65536] __attribute__((aligned(16)));
static volatile int depth, seen;

/* What the child prints comes first. */
static void child_wait(const char *what, pid_t child)
{
	int status;

	waitpid(child, &status, 0);
	status_say(what, status);
}

static void alternate_set(size_t size, unsigned flags)
{
	stack_t alternate = { .ss_sp = room + BELOW, .ss_size = size, .ss_flags = (int)flags };

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	printf("%d\n", sigaltstack(&alternate, NULL));
}

static void where(int number, siginfo_t *info, void *context)
{
	char here;

	printf("%d\n", &here >= room + BELOW && &here < room + ROOM);
}

/* Stacks that are too small for any frame, and just large enough. */
static void scene_small(void)
{
	static const size_t sizes[] = { 1000, 2048, 2500, 8192, STACK };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pid_t child = fork();

		if (!child) {
			alternate_set(sizes[i], 0);
			handle(SIGUSR1, where, SA_ONSTACK);
			raise(SIGUSR1);
			_exit(5);
		}
		child_wait("small", child);
	}
}

static void nest(int number, siginfo_t *info, void *context)
{
	if (++depth < 20)
		raise(number == SIGUSR1 ? SIGUSR2 : SIGUSR1);
}

/* Handlers within handlers, with SA_ONSTACK or without: all are on it, until it is full. */
static void scene_nested(void)
{
	for (int flags = 0; flags < 2; flags++) {
		pid_t child = fork();

		if (!child) {
			alternate_set(STACK, 0);
			handle(SIGUSR1, nest, SA_ONSTACK | SA_NODEFER);
			handle(SIGUSR2, nest, SA_NODEFER | (flags ? SA_ONSTACK : 0));
			raise(SIGUSR1);
			_exit(depth);
		}
		child_wait("nested", child);
	}
}

/* Where it is not known that the stack is in use, frames may go on below it. */
static void scene_disarmed(void)
{
	pid_t child = fork();

	if (!child) {
		alternate_set(STACK, SS_AUTODISARM);
		handle(SIGUSR1, nest, SA_ONSTACK | SA_NODEFER);
		handle(SIGUSR2, nest, SA_NODEFER);
		raise(SIGUSR1);
		_exit(depth);
	}
	child_wait("disarmed", child);
}

static int child_say(void *unused)
{
	stack_t now;

	sigaltstack(NULL, &now);
	printf("%x %d\n", now.ss_flags, now.ss_sp == room);
	fflush(stdout);
	_exit(0);
}

/* Children of vfork have the alternate stack of their parent, others that share its memory none. */
static void scene_children(void)
{
	static const int flags[] = { CLONE_VM | CLONE_VFORK, CLONE_VM, 0 };
	stack_t alternate = { .ss_sp = room, .ss_size = sizeof(room) };

	sigaltstack(&alternate, NULL);
	for (int i = 0; i < 3; i++)
		child_wait("clone",
			   clone(child_say, stack + sizeof(stack), flags[i] | SIGCHLD, NULL));
}

static void count(int number, siginfo_t *info, void *context)
{
	seen++;
}

/* A child without its parent's handlers, in which code is rewritten and signals come. */
static void scene_no_handlers(void)
{
	struct clone_args arguments = { .flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD };
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction now;
	pid_t child;

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	handle(SIGUSR1, count, 0);
	memcpy(code, "\xb8\x05\0\0\0\xc3", 6);
	printf("%d\n", ((int (*)(void))code)());
	child = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
	if (!child) {
		code[1] = 6;
		sigaction(SIGUSR1, NULL, &now);
		printf("%d %d\n", ((int (*)(void))code)(), now.sa_handler == SIG_DFL);
		handle(SIGRTMIN, count, 0);
		for (int i = 0; i < 1000; i++)
			sigqueue(getpid(), SIGRTMIN, (union sigval){});
		printf("%d\n", seen);
		*(volatile int *)8 = 1;
	}
	child_wait("clone3", child);
}

static const struct scene scenes[] = {
	{ "small", scene_small },
	{ "nested", scene_nested },
	{ "disarmed", scene_disarmed },
	{ "children", scene_children },
	{ "no-handlers", scene_no_handlers },
};

SCENES_MAIN(scenes)

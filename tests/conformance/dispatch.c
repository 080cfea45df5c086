// SPDX-License-Identifier: BSD-2-Clause
/* Syscall User Dispatch: system calls of the program that become signals, as emulators use it. */
#include "corner.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

enum { OFF, ON, ALLOW = 0, BLOCK = 1 };

static volatile char selector;
static volatile int caught;

/* The call is answered in the handler: its number times ten. */
static void answer(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	greg_t *regs = uc->uc_mcontext.gregs;

	selector = ALLOW;
	caught++;
	printf("%d code %d call %d arch %x at %d, rax %lld, rcx %d, argument %lld\n", number,
	       info->si_code, info->si_syscall, info->si_arch,
	       info->si_call_addr == (void *)regs[REG_RIP], regs[REG_RAX],
	       regs[REG_RCX] == regs[REG_RIP], regs[REG_RDI]);
	regs[REG_RAX] *= 10;
}

static long raw(long number, long argument)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(argument)
			 : "rcx", "r11", "memory");
	return result;
}

static int dispatch(int mode, unsigned long start, unsigned long size, volatile void *at)
{
	int result = prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, start, size, at);

	return result ? errno : 0;
}

static void scene_selector(void)
{
	handle(SIGSYS, answer, 0);
	printf("%d\n", dispatch(ON, 0, 0, &selector));
	for (int i = 0; i < 3; i++) {
		selector = BLOCK;
		long result = raw(500 + i, i);
		selector = ALLOW;
		printf("%ld\n", result);
	}
	printf("%d\n", getppid() > 0);
	printf("%d %d\n", dispatch(OFF, 0, 0, NULL), caught);
	printf("%ld\n", raw(500, 0));
}

/* A range that may do calls whatever the selector says: here everything but one page. */
static void scene_range(void)
{
	static const uint8_t code[] = { 0x89, 0xf8, 0x0f, 0x05,
					0xc3 }; /* mov edi, eax; syscall; ret */
	uint8_t *page = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	memcpy(page, code, sizeof(code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	handle(SIGSYS, answer, 0);
	printf("%d\n", dispatch(ON, (unsigned long)page + 4096, 0x7fffe0000000, NULL));
	printf("%ld\n", ((long (*)(long))page)(SYS_getpid));
	printf("%d\n", getpid() > 0);
	printf("%d %d\n", dispatch(OFF, 0, 0, NULL), caught);
	printf("%d\n", ((long (*)(long))page)(SYS_getpid) == getpid());
}

static void scene_errors(void)
{
	printf("%d ", dispatch(OFF, 1, 0, NULL));
	printf("%d ", dispatch(OFF, 0, 0, &selector));
	printf("%d ", dispatch(ON, 4096, 0, NULL));
	printf("%d ", dispatch(ON, -4096ul, 8192, NULL));
	printf("%d ", dispatch(ON, 0, 0, (void *)-4096ul));
	printf("%d\n", dispatch(7, 0, 0, NULL));
}

static void *in_thread(void *unused)
{
	long result = raw(500, 0);

	printf("thread: %ld\n", result);
	return NULL;
}

/* New threads and processes begin without it. */
static void scene_children(void)
{
	pthread_t thread;
	int status;

	handle(SIGSYS, answer, 0);
	dispatch(ON, 0, 0, &selector);
	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, NULL);
	pid_t child = fork();
	if (!child) {
		selector = BLOCK;
		_exit(raw(500, 0) == -ENOSYS);
	}
	waitpid(child, &status, 0);
	status_say("child", status);
	selector = BLOCK;
	long result = raw(501, 0);
	selector = ALLOW;
	printf("%ld\n", result);
}

static void end_say(const char *what, void (*run)(void))
{
	int status;
	pid_t child = fork();

	if (!child) {
		run();
		raw(SYS_exit_group, 0);
	}
	waitpid(child, &status, 0);
	status_say(what, status);
}

static void run_unhandled(void)
{
	dispatch(ON, 0, 0, &selector);
	selector = BLOCK;
	raw(500, 0);
}

static void run_blocked(void)
{
	handle(SIGSYS, answer, 0);
	mask_set(SIG_BLOCK, SIGSYS);
	run_unhandled();
}

static void run_ignored(void)
{
	signal(SIGSYS, SIG_IGN);
	run_unhandled();
}

static void run_bad_selector(void)
{
	handle(SIGSYS, answer, 0);
	dispatch(ON, 0, 0, &selector);
	selector = 5;
	raw(500, 0);
}

static void run_no_selector(void)
{
	handle(SIGSEGV, answer, 0);
	dispatch(ON, 0, 0, (void *)8);
	raw(500, 0);
}

static void scene_ends(void)
{
	end_say("unhandled", run_unhandled);
	end_say("blocked", run_blocked);
	end_say("ignored", run_ignored);
	end_say("bad selector", run_bad_selector);
	end_say("no selector", run_no_selector);
}

static const struct scene scenes[] = {
	{ "selector", scene_selector }, { "range", scene_range }, { "errors", scene_errors },
	{ "children", scene_children }, { "ends", scene_ends },
};

SCENES_MAIN(scenes)

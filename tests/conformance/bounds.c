// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a program is allowed, and what others see of it: limits that count the engine's memory too,
 * memory that is locked, code that may not be made any more, registers of a thread that is stopped.
 */
#include "corner.h"

#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/user.h>

typedef int (*function)(void);

#define RWX (PROT_READ | PROT_WRITE | PROT_EXEC)
#define MDWE 65 /* PR_SET_MDWE */

/* mov $value, %eax; ret */
static int put_and_run(uint8_t *at, int value)
{
	at[0] = 0xb8;
	memcpy(at + 1, &value, 4);
	at[5] = 0xc3;
	return ((function)at)();
}

static uint8_t *pages(size_t size, int protection)
{
	return mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* --- Registers --------------------------------------------------------------------------- */

/* read(), with a value of its own in each register that the kernel leaves alone. */
static void read_marked(int fd)
{
	char byte;

	__asm__ volatile("push %%rbp\n\t"
			 "push %%rbx\n\t"
			 "mov $0x1111, %%rbx\n\t"
			 "mov $0x2222, %%rbp\n\t"
			 "mov $0x3333, %%r12\n\t"
			 "mov $0x4444, %%r13\n\t"
			 "mov $0x5555, %%r14\n\t"
			 "mov $0x6666, %%r15\n\t"
			 "xor %%eax, %%eax\n\t"
			 "syscall\n\t"
			 "pop %%rbx\n\t"
			 "pop %%rbp"
			 :
			 : "D"((long)fd), "S"(&byte), "d"(1l)
			 : "rax", "rcx", "r11", "r12", "r13", "r14", "r15", "memory");
}

static void wait_until_asleep(pid_t pid)
{
	char name[64], line[512], *state;

	snprintf(name, sizeof(name), "/proc/%d/syscall", pid);
	for (int i = 0; i < 2000; i++) {
		FILE *file = fopen(name, "r");

		state = fgets(line, sizeof(line), file);
		fclose(file);
		if (state && !strncmp(state, "0 ", 2))
			return;
		rest(5);
	}
}

/* As LeakSanitizer does, which takes what it does not find there for lost. */
static void scene_registers(void)
{
	struct user_regs_struct regs = {};
	int ends[2], status;
	pid_t child;

	pipe(ends);
	child = fork();
	if (!child) {
		read_marked(ends[0]);
		_exit(7);
	}
	wait_until_asleep(child);
	printf("%ld\n", ptrace(PTRACE_ATTACH, child, NULL, NULL));
	waitpid(child, &status, 0);
	ptrace(PTRACE_GETREGS, child, NULL, &regs);
	printf("%llx %llx %llx %llx %llx %llx\n", regs.rbx, regs.rbp, regs.r12, regs.r13, regs.r14,
	       regs.r15);
	printf("%lld %d %lld\n", regs.orig_rax, (int)regs.rdi == ends[0], regs.rdx);
	printf("%d\n", regs.rsp < (uint64_t)&regs && (uint64_t)&regs - regs.rsp < 4096);
	ptrace(PTRACE_DETACH, child, NULL, NULL);
	write(ends[1], "x", 1);
	waitpid(child, &status, 0);
	status_say("child", status);
}

/* --- Limits ------------------------------------------------------------------------------ */

static int can_map(size_t size)
{
	void *memory = pages(size, PROT_READ | PROT_WRITE);

	if (memory == MAP_FAILED)
		return -errno;
	munmap(memory, size);
	return 1;
}

/* RLIMIT_DATA counts private memory that can be written, and the heap. */
static void scene_data(void)
{
	struct rlimit limit = { 48 << 20, 48 << 20 }, seen = {};
	uint8_t *code = pages(4096, RWX);

	printf("%d\n", setrlimit(RLIMIT_DATA, &limit));
	getrlimit(RLIMIT_DATA, &seen);
	printf("%lu %lu\n", seen.rlim_cur >> 20, seen.rlim_max >> 20);
	printf("%d %d\n", can_map(24 << 20), can_map(1 << 30));
	printf("%d\n", put_and_run(code, 5));
	void *heap = sbrk(16 << 20);
	printf("%d\n", heap != (void *)-1);
	printf("%d\n", sbrk(1 << 30) == (void *)-1);
}

/* The same, for a program that begins with it. */
static void scene_data_exec(void)
{
	struct rlimit limit = { 48 << 20, 48 << 20 };

	setrlimit(RLIMIT_DATA, &limit);
	execl("/bin/sh", "sh", "-c", "ulimit -d; echo $((3 * 4)); ls / | wc -l", NULL);
}

static void scene_lock_all(void)
{
	uint8_t *code = pages(4096, RWX);

	printf("%d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
	printf("%d %d\n", put_and_run(code, 3), put_and_run(code, 4));
	printf("%d\n", can_map(8 << 20));
	printf("%d\n", munlockall());
}

/* --- Code that may not be made any more -------------------------------------------------- */

static void deny(uint8_t *code)
{
	printf("%d\n", put_and_run(code, 1));
	printf("%d\n", prctl(MDWE, 1, 0, 0, 0));
	for (int i = 0; i < 3; i++)
		printf("%d\n", put_and_run(code + i * 16, 10 + i));
	printf("%d %d\n", pages(4096, RWX) == MAP_FAILED, errno);
	printf("%ld\n", strtol("123", NULL, 10));
}

static void scene_deny(void)
{
	int status;

	deny(pages(4096, RWX));
	fflush(stdout);
	pid_t child = fork();
	if (!child) {
		execl("/bin/echo", "echo", "executed", NULL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	status_say("child", status);
}

static pthread_barrier_t barrier;

static void *beside(void *nothing)
{
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return nothing;
}

static void scene_deny_threads(void)
{
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, beside, NULL);
	pthread_barrier_wait(&barrier);
	deny(pages(4096, RWX));
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	printf("joined\n");
}

static const struct scene scenes[] = {
	{ "registers", scene_registers }, { "data", scene_data },
	{ "data-exec", scene_data_exec }, { "lock-all", scene_lock_all },
	{ "deny", scene_deny },		  { "deny-threads", scene_deny_threads },
};

SCENES_MAIN(scenes)

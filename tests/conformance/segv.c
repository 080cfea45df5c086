// SPDX-License-Identifier: BSD-2-Clause
/*
 * SIGSEGV that is sent while it is blocked, mostly to a program that also writes to its own code:
 * for that the engine wants the signal itself.
 */
#include "corner.h"

#include <poll.h>
#include <sys/signalfd.h>

static int handled;
static bool plain; /* no code is written */
static volatile bool waiting;

static void note(int number, siginfo_t *info, void *context)
{
	handled++;
	printf("handler: %d code %d value %d\n", number, info->si_code, info->si_value.sival_int);
}

typedef int (*function)(void);

/* Code in memory that can be written: executed, changed, executed. */
static void code_run(int rounds)
{
	static uint8_t *code;
	long sum = 0;

	if (plain)
		return;
	if (!code)
		code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < rounds; i++) {
		code[0] = 0xb8; /* mov $i, %eax; ret */
		memcpy(code + 1, &i, sizeof(i));
		code[5] = 0xc3;
		sum += ((function)code)();
	}
	printf("%ld\n", sum);
}

static void start(void)
{
	code_run(3);
	handle(SIGSEGV, note, 0);
	mask_set(SIG_BLOCK, SIGSEGV);
	code_run(3);
}

static void send(void)
{
	union sigval value = { .sival_int = 5 };

	sigqueue(getpid(), SIGSEGV, value);
	code_run(3);
}

static void pending_say(void)
{
	sigset_t pending, blocked;

	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	printf("pending %d blocked %d handled %d\n", sigismember(&pending, SIGSEGV),
	       sigismember(&blocked, SIGSEGV), handled);
}

static void scene_pending(void)
{
	start();
	pending_say();
	send();
	pending_say();
	kill(getpid(), SIGSEGV); /* one waits already */
	pending_say();
	mask_set(SIG_UNBLOCK, SIGSEGV);
	pending_say();
	code_run(20);
}

static void scene_suspend(void)
{
	sigset_t none;

	start();
	send();
	sigemptyset(&none);
	printf("%d\n", sigsuspend(&none));
	pending_say();
	code_run(20);
}

static void scene_poll(void)
{
	struct timespec time = { 20, 0 };
	sigset_t none;

	start();
	send();
	sigemptyset(&none);
	printf("%d\n", ppoll(NULL, 0, &time, &none));
	pending_say();
	printf("%d\n", pselect(0, NULL, NULL, NULL, &(struct timespec){ 0, 1000 }, &none));
	code_run(20);
}

static void scene_wait(void)
{
	struct timespec time = { 20, 0 };
	sigset_t one;
	siginfo_t info;

	start();
	send();
	sigemptyset(&one);
	sigaddset(&one, SIGSEGV);
	printf("%d", sigtimedwait(&one, &info, &time));
	printf(" value %d\n", info.si_value.sival_int);
	pending_say();
	code_run(20);
	mask_set(SIG_UNBLOCK, SIGSEGV);
	pending_say();
}

static void scene_file(void)
{
	struct signalfd_siginfo info;
	sigset_t one;
	int file;

	start();
	sigemptyset(&one);
	sigaddset(&one, SIGSEGV);
	file = signalfd(-1, &one, 0);
	send();
	printf("%d\n", poll(&(struct pollfd){ .fd = file, .events = POLLIN }, 1, 20000));
	printf("%zd", read(file, &info, sizeof(info)));
	printf(" %u %d\n", info.ssi_signo, info.ssi_int);
	code_run(20);
}

/* --- From another thread, while this one waits ------------------------------------------------ */

static void *sender(void *argument)
{
	while (!waiting)
		rest(1);
	rest(30);
	if (argument)
		pthread_kill(*(pthread_t *)argument, SIGSEGV);
	else
		kill(getpid(), SIGSEGV);
	return NULL;
}

static void sender_begin(pthread_t *to)
{
	pthread_t thread;

	pthread_create(&thread, NULL, sender, to);
	pthread_detach(thread);
	waiting = true;
}

static void scene_poll_later(void)
{
	pthread_t self = pthread_self();
	struct timespec time = { 20, 0 };
	sigset_t none;

	start();
	sender_begin(&self);
	sigemptyset(&none);
	printf("%d\n", ppoll(NULL, 0, &time, &none));
	pending_say();
	code_run(20);
}

/* It has the signal blocked in poll() too: it is not to be interrupted. */
static void scene_poll_blocked(void)
{
	int ends[2];

	start();
	sender_begin(NULL);
	pipe(ends);
	printf("%d\n", poll(&(struct pollfd){ .fd = ends[0], .events = POLLIN }, 1, 200));
	pending_say();
	code_run(20);
	mask_set(SIG_UNBLOCK, SIGSEGV);
	pending_say();
}

static void scene_wait_later(void)
{
	pthread_t self = pthread_self();
	sigset_t one;
	int number;

	start();
	sender_begin(&self);
	sigemptyset(&one);
	sigaddset(&one, SIGSEGV);
	printf("%d", sigwait(&one, &number));
	printf(" %d\n", number);
	pending_say();
}

/* It computes meanwhile, and asks now and then. */
static void scene_compute(void)
{
	pthread_t self = pthread_self();
	sigset_t pending;
	volatile unsigned long sum = 0;

	start();
	sender_begin(&self);
	do {
		for (int i = 0; i < 100000; i++)
			sum += i;
		sigpending(&pending);
	} while (!sigismember(&pending, SIGSEGV));
	mask_set(SIG_UNBLOCK, SIGSEGV);
	pending_say();
	code_run(20);
}

static void scene_child(void)
{
	int status;
	pid_t child;

	start();
	send();
	child = fork();
	if (!child) {
		pending_say();
		code_run(5);
		_exit(0);
	}
	waitpid(child, &status, 0);
	status_say("child", status);
	pending_say();
}

static void scene_default(void)
{
	code_run(3);
	mask_set(SIG_BLOCK, SIGSEGV);
	code_run(3);
	kill(getpid(), SIGSEGV);
	pending_say();
	mask_set(SIG_UNBLOCK, SIGSEGV);
	printf("not reached\n");
}

static void scene_ignored(void)
{
	code_run(3);
	mask_set(SIG_BLOCK, SIGSEGV);
	signal(SIGSEGV, SIG_IGN);
	code_run(3);
	kill(getpid(), SIGSEGV);
	mask_set(SIG_UNBLOCK, SIGSEGV);
	code_run(20);
}

/* The engine wants the signal in programs that never write to code as well: for its own faults. */
static void scene_plain(void)
{
	plain = true;
	scene_pending();
	scene_poll_blocked();
	scene_wait();
	scene_suspend();
}

/* Lines of sets of signals, without what has nothing to do with it. */
static void sets_say(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigCgt", 6))
			printf("%s", line);
	fclose(file);
}

static int created; /* before that, the first thread has everything blocked: pthread_create() */

static void *status_thread(void *unused)
{
	while (!__atomic_load_n(&created, __ATOMIC_ACQUIRE))
		sched_yield();
	mask_set(SIG_UNBLOCK, SIGSEGV);
	sets_say("/proc/self/status");
	sets_say("/proc/thread-self/status");
	return NULL;
}

static void scene_status(void)
{
	pthread_t thread;

	sets_say("/proc/self/status");
	mask_set(SIG_BLOCK, SIGSEGV);
	mask_set(SIG_BLOCK, SIGUSR1);
	sets_say("/proc/self/status");
	pthread_create(&thread, NULL, status_thread, NULL);
	__atomic_store_n(&created, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

static void return_caught(int number, siginfo_t *info, void *context)
{
	const ucontext_t *uc = context;

	(void)number;
	printf("%d %p, rax %llx, rbx %llx, mask %d\n", info->si_code, info->si_addr,
	       uc->uc_mcontext.gregs[REG_RAX], uc->uc_mcontext.gregs[REG_RBX],
	       sigismember(&uc->uc_sigmask, SIGHUP));
	_exit(3);
}

static void return_catch(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };

	sigaltstack(&alternate, NULL);
	handle(SIGSEGV, return_caught, SA_ONSTACK);
}

/* A handler's return from a frame that cannot be read. */
static void return_nowhere(void)
{
	__asm__ volatile(
		"mov %0, %%rsp\n\tmov $0x1234, %%ebx\n\tmov $15, %%eax\n\tsyscall" ::"r"(0x10l)
		: "rax", "rbx", "rcx", "r11", "memory");
}

static void scene_return_nowhere(void)
{
	return_catch();
	return_nowhere();
}

static void scene_return_nowhere_plain(void)
{
	return_nowhere();
}

static void scene_return_nowhere_blocked(void)
{
	return_catch();
	mask_set(SIG_BLOCK, SIGSEGV);
	return_nowhere();
}

/* Parts of the vector registers that no processor has: the kernel restores the rest. */
static void vectors_wreck(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)number;
	(void)info;
	((uint64_t *)((char *)uc->uc_mcontext.fpregs + 512))[0] |= 1ull << 61;
	uc->uc_mcontext.gregs[REG_RBX] = 0x4321;
	sigaddset(&uc->uc_sigmask, SIGHUP);
}

static void scene_return_wrecked(void)
{
	return_catch();
	handle(SIGUSR1, vectors_wreck, 0);
	raise(SIGUSR1);
}

static void scene_return_wrecked_plain(void)
{
	handle(SIGUSR1, vectors_wreck, 0);
	raise(SIGUSR1);
}

static const struct scene scenes[] = {
	{ "pending", scene_pending },
	{ "suspend", scene_suspend },
	{ "poll", scene_poll },
	{ "wait", scene_wait },
	{ "file", scene_file },
	{ "poll-later", scene_poll_later },
	{ "poll-blocked", scene_poll_blocked },
	{ "wait-later", scene_wait_later },
	{ "compute", scene_compute },
	{ "child", scene_child },
	{ "default", scene_default },
	{ "ignored", scene_ignored },
	{ "plain", scene_plain },
	{ "status", scene_status },
	{ "return-nowhere", scene_return_nowhere },
	{ "return-nowhere-plain", scene_return_nowhere_plain },
	{ "return-nowhere-blocked", scene_return_nowhere_blocked },
	{ "return-wrecked", scene_return_wrecked },
	{ "return-wrecked-plain", scene_return_wrecked_plain },
};

SCENES_MAIN(scenes)

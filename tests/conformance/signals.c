// SPDX-License-Identifier: BSD-2-Clause
/*
 * Signals: synchronous and asynchronous, stacks, masks, threads. signal_waits.c has system calls
 * that signals interrupt, and calls that wait for them.
 */
#include "corner.h"

#include <sys/time.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

static volatile sig_atomic_t seen, order[64], order_count;
static sigjmp_buf back;
static volatile uint64_t counter;

static void count(int number, siginfo_t *info, void *context)
{
	seen++;
}

static void note(int number, siginfo_t *info, void *context)
{
	if (order_count < 64)
		order[order_count++] = number;
}

static void order_say(void)
{
	for (int i = 0; i < order_count; i++)
		printf("%d%s", order[i], i + 1 < order_count ? " " : "\n");
}

static void timer_start(long microseconds)
{
	struct itimerval time = { { 0, microseconds }, { 0, microseconds } };

	setitimer(ITIMER_REAL, &time, NULL);
}

/* A loop of pure computation that signals must not disturb. */
static uint64_t compute(uint64_t steps)
{
	uint64_t x = 88172645463325252ull;
	double sum = 0;

	for (uint64_t i = 0; i < steps; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		sum += (double)(x & 1023) / 7;
		x += (uint64_t)sum & 1;
	}
	return x;
}

static void scene_async(void)
{
	handle(SIGALRM, count, SA_RESTART);
	timer_start(500);
	for (int i = 0; i < 20; i++)
		printf("%016llx\n", (unsigned long long)compute(400000));
	while (seen < 10)
		compute(1000);
	timer_start(0);
}

/* The handler changes vector registers and flags; the interrupted loop must not notice. */
static void clobber(int number, siginfo_t *info, void *context)
{
	seen++;
	__asm__ volatile("pxor %%xmm0, %%xmm0; pcmpeqd %%xmm1, %%xmm1; vzeroupper; std; cld; stc"
			 :
			 :
			 : "xmm0", "xmm1", "cc");
	order[0] = (int)compute(50);
}

static void scene_clobber(void)
{
	handle(SIGALRM, clobber, 0);
	timer_start(300);
	for (int i = 0; i < 20; i++)
		printf("%016llx\n", (unsigned long long)compute(300000));
	while (seen < 10)
		compute(1000);
}

static void scene_many(void)
{
	handle(SIGUSR1, count, 0);
	for (int i = 0; i < 3000; i++)
		kill(getpid(), SIGUSR1);
	printf("%d\n", seen);
}

static void scene_queue(void)
{
	handle(SIGRTMIN, note, 0);
	handle(SIGRTMIN + 1, note, 0);
	handle(SIGUSR1, note, 0);
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (int i = 0; i < 5; i++) {
		sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = i });
		sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_int = i });
		kill(getpid(), SIGUSR1);
	}
	sigprocmask(SIG_UNBLOCK, &all, NULL);
	order_say();
}

static void value_say(int number, siginfo_t *info, void *context)
{
	printf("%d code %d value %d pid %d uid %d\n", number, info->si_code,
	       info->si_value.sival_int, info->si_pid == getpid(), (int)info->si_uid);
}

static void scene_info(void)
{
	handle(SIGRTMIN + 3, value_say, 0);
	handle(SIGUSR2, value_say, 0);
	sigqueue(getpid(), SIGRTMIN + 3, (union sigval){ .sival_int = 4711 });
	raise(SIGUSR2);
	kill(getpid(), SIGUSR2);
	pthread_kill(pthread_self(), SIGUSR2);
}

/* Nested: handlers interrupted by other signals. */
static void nest(int number, siginfo_t *info, void *context)
{
	note(number, info, context);
	if (number < SIGRTMIN + 5)
		raise(number + 1);
	note(-number, info, context);
}

static void scene_nested(void)
{
	for (int i = 0; i <= 5; i++)
		handle(SIGRTMIN + i, nest, i % 2 ? SA_NODEFER : 0);
	raise(SIGRTMIN);
	order_say();
}

static void again(int number, siginfo_t *info, void *context)
{
	note(number, info, context);
	if (order_count < 6)
		raise(number);
	note(-number, info, context);
}

static void scene_nodefer(void)
{
	handle(SIGUSR1, again, SA_NODEFER);
	raise(SIGUSR1);
	order_say();
	order_count = 0;
	handle(SIGUSR1, again, 0);
	raise(SIGUSR1);
	order_say();
}

static void scene_mask(void)
{
	struct sigaction action = { .sa_sigaction = again, .sa_flags = SA_SIGINFO };

	sigaddset(&action.sa_mask, SIGUSR2);
	sigaction(SIGUSR1, &action, NULL);
	handle(SIGUSR2, note, 0);
	mask_set(SIG_BLOCK, SIGUSR1);
	raise(SIGUSR1);
	raise(SIGUSR2);
	sigset_t pending;
	sigpending(&pending);
	printf("%d %d\n", sigismember(&pending, SIGUSR1), sigismember(&pending, SIGUSR2));
	mask_set(SIG_UNBLOCK, SIGUSR1);
	order_say();
}

static void scene_context_mask(void)
{
	sigset_t now;

	handle(SIGUSR1, mask_say, 0);
	mask_set(SIG_BLOCK, SIGTERM);
	raise(SIGUSR1);
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	printf("%d %d %d\n", sigismember(&now, SIGHUP), sigismember(&now, SIGTERM),
	       sigismember(&now, SIGUSR1));
}

static void scene_resethand(void)
{
	struct sigaction now;

	handle(SIGUSR1, count, SA_RESETHAND);
	raise(SIGUSR1);
	sigaction(SIGUSR1, NULL, &now);
	printf("%d %d %x\n", seen, now.sa_handler == SIG_DFL, (unsigned)now.sa_flags);
	raise(SIGUSR1);
	printf("not reached\n");
}

static char unsteady[65536] __attribute__((aligned(4096)));
static volatile bool steady;

static void *unsteady_change(void *argument)
{
	while (!steady) {
		mprotect(unsteady, sizeof(unsteady), PROT_READ);
		mprotect(unsteady, sizeof(unsteady), PROT_READ | PROT_WRITE);
	}
	return argument;
}

static void ignore(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
}

/* The stack of a handler may become unwritable while its frame is written: that is a SIGSEGV. */
static void scene_stack_unsteady(void)
{
	stack_t alternate = { .ss_sp = unsteady, .ss_size = sizeof(unsteady) };
	pthread_t thread;

	handle(SIGSEGV, ignore, 0);
	handle(SIGUSR1, ignore, SA_ONSTACK);
	sigaltstack(&alternate, NULL);
	pthread_create(&thread, NULL, unsteady_change, NULL);
	for (int i = 0; i < 20000; i++)
		raise(SIGUSR1);
	steady = true;
	pthread_join(thread, NULL);
	printf("done\n");
}

static void scene_actions(void)
{
	struct sigaction old,
		action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };

	sigaddset(&action.sa_mask, SIGHUP);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR1, NULL, &old);
	printf("%d %x %d %d\n", old.sa_sigaction == note, old.sa_flags,
	       sigismember(&old.sa_mask, SIGHUP), sigismember(&old.sa_mask, SIGINT));
	printf("%d %d\n", sigaction(SIGKILL, &action, NULL), errno);
	printf("%d %d\n", sigaction(99, &action, NULL), errno);
	printf("%ld %d\n", syscall(SYS_rt_sigaction, SIGUSR1, 8, NULL, 8), errno);
	printf("%ld %d\n", syscall(SYS_rt_sigaction, SIGUSR1, NULL, 8, 8), errno);
	printf("%ld %d\n", syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 4), errno);
	sigaction(SIGUSR1, NULL, &old);
	printf("%d\n", old.sa_sigaction == note);
}

/* --- Stacks ----------------------------------------------------------------------------------- */

static char *alternate;

static void where(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	char here;
	stack_t now;

	sigaltstack(NULL, &now);
	printf("alternate %d, flags %d, uc flags %d size %d\n",
	       &here > alternate && &here < alternate + 65536, now.ss_flags, uc->uc_stack.ss_flags,
	       uc->uc_stack.ss_size == 65536);
	stack_t other = { .ss_sp = alternate, .ss_size = 32768 };
	printf("change %d %d\n", sigaltstack(&other, NULL), errno);
}

static void alternate_set(int flags)
{
	alternate = malloc(65536);
	stack_t stack = { .ss_sp = alternate, .ss_size = 65536, .ss_flags = flags };

	printf("%d\n", sigaltstack(&stack, NULL));
}

static void scene_altstack(void)
{
	alternate_set(0);
	handle(SIGUSR1, where, SA_ONSTACK);
	handle(SIGUSR2, where, 0);
	raise(SIGUSR1);
	raise(SIGUSR2);
	stack_t tiny = { .ss_sp = alternate, .ss_size = 100 };
	printf("%d %d\n", sigaltstack(&tiny, NULL), errno);
	stack_t bad = { .ss_sp = alternate, .ss_size = 65536, .ss_flags = 77 };
	printf("%d %d\n", sigaltstack(&bad, NULL), errno);
	printf("%ld %d\n", syscall(SYS_sigaltstack, 8, NULL), errno);
	stack_t off = { .ss_flags = SS_DISABLE }, now;
	printf("%d\n", sigaltstack(&off, &now));
	printf("%d %d\n", now.ss_flags, now.ss_sp == alternate);
	raise(SIGUSR1);
}

static void scene_autodisarm(void)
{
	alternate_set(SS_AUTODISARM);
	handle(SIGUSR1, where, SA_ONSTACK);
	raise(SIGUSR1);
	stack_t now;
	sigaltstack(NULL, &now);
	printf("%x %d\n", now.ss_flags, now.ss_sp == alternate);
}

static void overflow_back(int number, siginfo_t *info, void *context)
{
	siglongjmp(back, number);
}

static int recurse(volatile int *depth)
{
	volatile char space[4096];

	space[0] = (char)++*depth;
	return *depth < 0 ? 0 : recurse(depth) + space[0];
}

static void scene_overflow(void)
{
	volatile int depth = 0;

	alternate_set(0);
	handle(SIGSEGV, overflow_back, SA_ONSTACK);
	for (volatile int i = 0; i < 3; i++) {
		depth = 0;
		int number = sigsetjmp(back, 1);
		if (!number)
			recurse((int *)&depth);
		printf("%d %d\n", number, depth > 1000);
	}
}

/* Without an alternate stack, an overflow ends the process although there is a handler. */
static void scene_overflow_dies(void)
{
	volatile int depth = 0;

	handle(SIGSEGV, overflow_back, 0);
	printf("%d\n", recurse((int *)&depth));
}

static void *small_stack(void *argument)
{
	for (int i = 0; i < 200; i++)
		raise(SIGUSR1);
	return NULL;
}

static void scene_tiny_stack(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	handle(SIGUSR1, count, 0);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 16384 + 8192);
	pthread_create(&thread, &attributes, small_stack, NULL);
	pthread_join(thread, NULL);
	printf("%d\n", seen);
}

/* --- Leaving handlers ------------------------------------------------------------------------- */

static void jump_out(int number, siginfo_t *info, void *context)
{
	siglongjmp(back, number);
}

static void scene_siglongjmp(void)
{
	volatile int times = 0;
	sigset_t now;

	handle(SIGUSR1, jump_out, 0);
	handle(SIGSEGV, jump_out, 0);
	if (sigsetjmp(back, 1)) {
		times++;
	}
	if (times < 500)
		raise(SIGUSR1);
	if (times < 1000)
		*(volatile int *)0 = 1;
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	printf("%d %d\n", times, sigismember(&now, SIGUSR1));
}

static void scene_longjmp_async(void)
{
	volatile int times = 0;

	handle(SIGALRM, jump_out, 0);
	if (sigsetjmp(back, 1))
		times++;
	timer_start(times < 200 ? 500 : 0);
	while (times < 200)
		counter += compute(100);
	printf("%d\n", times);
}

static void context_switch(int number, siginfo_t *info, void *context)
{
	seen++;
}

static ucontext_t contexts[2];
static int turns;

static void coroutine(void)
{
	for (;;) {
		turns++;
		swapcontext(&contexts[1], &contexts[0]);
	}
}

static void scene_contexts(void)
{
	static char stack[65536];

	handle(SIGALRM, context_switch, SA_RESTART);
	timer_start(300);
	getcontext(&contexts[1]);
	contexts[1].uc_stack.ss_sp = stack;
	contexts[1].uc_stack.ss_size = sizeof(stack);
	makecontext(&contexts[1], coroutine, 0);
	for (int i = 0; i < 100000; i++)
		swapcontext(&contexts[0], &contexts[1]);
	printf("%d\n", turns);
}

static void keep(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	uc->uc_mcontext.gregs[REG_RAX] = 0;
	uc->uc_mcontext.gregs[REG_RBX] = 12345;
}

static void scene_context_change(void)
{
	uint64_t value;

	handle(SIGUSR1, keep, 0);
	__asm__ volatile("mov $0, %%rbx; mov $39, %%eax; syscall; mov %%rax, %%rdi; mov $10, "
			 "%%esi; mov $62, %%eax;"
			 "syscall; mov %%rbx, %0"
			 : "=r"(value)
			 :
			 : "rax", "rbx", "rcx", "rdi", "rsi", "r11", "memory");
	printf("%llu\n", (unsigned long long)value);
}

static void pc_change(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	static const uint8_t ud2[] = { 0x0f, 0x0b };

	printf("at ud2 %d, si_addr %d, code %d\n",
	       !memcmp((void *)uc->uc_mcontext.gregs[REG_RIP], ud2, 2),
	       info->si_addr == (void *)uc->uc_mcontext.gregs[REG_RIP], info->si_code);
	uc->uc_mcontext.gregs[REG_RIP] += 2;
}

static void scene_skip(void)
{
	handle(SIGILL, pc_change, 0);
	for (int i = 0; i < 3; i++) {
		__asm__ volatile("ud2");
		printf("after\n");
	}
}

/* --- Threads ---------------------------------------------------------------------------------- */

static volatile int stop, never;

static void *spin(void *sum)
{
	while (!stop)
		*(uint64_t *)sum += compute(1000) & 1;
	return NULL;
}

static void scene_threads(void)
{
	pthread_t threads[8];
	uint64_t sums[8] = {};

	handle(SIGUSR1, count, 0);
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, spin, &sums[i]);
	/* A busy machine may run the threads only after 4,000 signals, which are 8 by then. */
	for (int i = 0; i < 4000 || seen <= 8; i++)
		pthread_kill(threads[i % 8], SIGUSR1);
	rest(50);
	stop = 1;
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	printf("%d\n", seen > 8);
}

static void *wait_forever(void *unused)
{
	while (!never)
		pause();
	return NULL;
}

static void scene_cancel(void)
{
	pthread_t threads[20];
	void *result;
	int cancelled = 0;

	for (int i = 0; i < 20; i++)
		pthread_create(&threads[i], NULL, i % 2 ? wait_forever : spin, &(uint64_t){ 0 });
	rest(20);
	stop = 1;
	for (int i = 0; i < 20; i++)
		pthread_cancel(threads[i]);
	for (int i = 0; i < 20; i++) {
		pthread_join(threads[i], &result);
		cancelled += i % 2 && result == PTHREAD_CANCELED;
	}
	printf("%d\n", cancelled);
}

static void *asynchronous(void *unused)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	while (!never)
		counter += compute(100);
	return NULL;
}

static void scene_cancel_async(void)
{
	for (int i = 0; i < 30; i++) {
		pthread_t thread;
		void *result;

		pthread_create(&thread, NULL, asynchronous, NULL);
		rest(1);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		printf("%d", result == PTHREAD_CANCELED);
	}
	printf("\n");
}

/* A thread that blocks everything, and faults. */
static void *fault_blocked(void *unused)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	*(volatile int *)0 = 1;
	return NULL;
}

static void scene_blocked_fault(void)
{
	pthread_t thread;

	handle(SIGSEGV, count, 0);
	pthread_create(&thread, NULL, fault_blocked, NULL);
	pthread_join(thread, NULL);
	printf("not reached\n");
}

static void scene_ignored_fault(void)
{
	signal(SIGSEGV, SIG_IGN);
	*(volatile int *)0 = 1;
	printf("not reached\n");
}

static void scene_timers(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2 };
	struct itimerspec time = { { 0, 1000000 }, { 0, 1000000 } };
	timer_t timer;

	event.sigev_value.sival_int = 77;
	handle(SIGRTMIN + 2, note, 0);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &time, NULL);
	while (order_count < 20)
		counter += compute(1000);
	timer_delete(timer);
	order_count = 20;
	order_say();
}

static void scene_profiling(void)
{
	struct itimerval time = { { 0, 1000 }, { 0, 1000 } };

	handle(SIGPROF, count, SA_RESTART);
	setitimer(ITIMER_PROF, &time, NULL);
	for (int i = 0; i < 30; i++)
		printf("%016llx\n", (unsigned long long)compute(300000));
	while (seen < 5)
		compute(1000);
}

/*
 * One comes while the other's handler returns: what was blocked meanwhile is not blocked
 * afterwards.
 */
static void scene_returns(void)
{
	sigset_t now;

	handle(SIGALRM, count, 0);
	handle(SIGUSR1, note, 0);
	for (int i = 0; i < 30000; i++) {
		struct itimerval soon = { {}, { 0, 1 + i % 13 } };

		setitimer(ITIMER_REAL, &soon, NULL);
		order_count = 0;
		kill(getpid(), SIGUSR1);
		while (!order_count)
			;
		for (int wait = 0; seen <= i && wait < 1000000; wait++)
			sched_yield();
	}
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	printf("%d %d %d\n", seen, sigismember(&now, SIGALRM), sigismember(&now, SIGUSR1));
}

static void scene_sigchld(void)
{
	handle(SIGCHLD, count, SA_RESTART);
	for (int i = 0; i < 50; i++) {
		pid_t child = fork();

		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
	}
	printf("%d\n", seen);
}

static void scene_abort(void)
{
	handle(SIGABRT, note, 0);
	abort();
}

static const struct scene scenes[] = {
	{ "async", scene_async },
	{ "clobber", scene_clobber },
	{ "many", scene_many },
	{ "queue", scene_queue },
	{ "info", scene_info },
	{ "nested", scene_nested },
	{ "nodefer", scene_nodefer },
	{ "mask", scene_mask },
	{ "context-mask", scene_context_mask },
	{ "resethand", scene_resethand },
	{ "stack-unsteady", scene_stack_unsteady },
	{ "actions", scene_actions },
	{ "altstack", scene_altstack },
	{ "autodisarm", scene_autodisarm },
	{ "overflow", scene_overflow },
	{ "overflow-dies", scene_overflow_dies },
	{ "tiny-stack", scene_tiny_stack },
	{ "siglongjmp", scene_siglongjmp },
	{ "longjmp-async", scene_longjmp_async },
	{ "contexts", scene_contexts },
	{ "context-change", scene_context_change },
	{ "skip", scene_skip },
	{ "threads", scene_threads },
	{ "cancel", scene_cancel },
	{ "cancel-async", scene_cancel_async },
	{ "blocked-fault", scene_blocked_fault },
	{ "ignored-fault", scene_ignored_fault },
	{ "timers", scene_timers },
	{ "profiling", scene_profiling },
	{ "returns", scene_returns },
	{ "sigchld", scene_sigchld },
	{ "abort", scene_abort },
};

SCENES_MAIN(scenes)

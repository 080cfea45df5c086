/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that each wait or work in another way and check every result, until stdin ends. Whatever
 * is done to the process from outside, such as an engine that comes and goes, the output is the
 * same: "ready", "slept" when the long waits were over at least once, and in the end a line for
 * each kind of thread.
 */
#include <asm/prctl.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONG_MS = 1500, STEPS = 300000 };

static volatile bool stop;
static uint64_t steps_expected;

struct worker {
	const char *name;
	void (*run)(struct worker *worker);
	volatile unsigned long done, wrong;
	pthread_t thread;
};

/* One more result, right or wrong. */
static void result(struct worker *worker, bool right)
{
	worker->done++;
	worker->wrong += !right;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void moment(void)
{
	struct timespec time = { 0, 3000000 };

	nanosleep(&time, NULL);
}

static uint64_t steps(void)
{
	uint64_t x = 88172645463325252, sum = 0;

	for (int i = 0; i < STEPS; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		sum += x % 1000;
	}
	return sum;
}

static void count(struct worker *worker)
{
	result(worker, steps() == steps_expected);
}

static double series(void)
{
	volatile double sum = 0;

	for (int i = 1; i < 100000; i++)
		sum = sum + 1.0 / i / i;
	return sum;
}

static void vectors(struct worker *worker)
{
	double sum = series();

	result(worker, sum > 1.6449 && sum < 1.6450 && sum == series());
	moment();
}

/* --- Waits that have an end --- */

static void sleep_long(struct worker *worker)
{
	struct timespec wanted = { LONG_MS / 1000, LONG_MS % 1000 * 1000000 };
	uint64_t start = now();
	bool right = !nanosleep(&wanted, NULL);

	result(worker, right && now() - start >= LONG_MS * 1000000ull);
}

static void poll_long(struct worker *worker)
{
	int fds[2];
	struct pollfd event = { .events = POLLIN };
	uint64_t start = now();

	if (pipe(fds))
		abort();
	event.fd = fds[0];
	result(worker, poll(&event, 1, LONG_MS) == 0 && now() - start >= LONG_MS * 1000000ull);
	close(fds[0]);
	close(fds[1]);
}

static void futex_long(struct worker *worker)
{
	struct timespec wanted = { LONG_MS / 1000, LONG_MS % 1000 * 1000000 };
	uint32_t word = 0;
	uint64_t start = now();
	long got = syscall(SYS_futex, &word, FUTEX_WAIT, 0, &wanted, NULL, 0);

	result(worker, got == -1 && errno == ETIMEDOUT && now() - start >= LONG_MS * 1000000ull);
}

static void select_long(struct worker *worker)
{
	struct timeval wanted = { LONG_MS / 1000, LONG_MS % 1000 * 1000 };
	uint64_t start = now();

	result(worker,
	       !select(0, NULL, NULL, NULL, &wanted) && now() - start >= LONG_MS * 1000000ull);
}

/* --- Waits for another thread, which answers after a moment --- */

static int pipe_fds[2], event_fd = -1, epoll_fd;
static sem_t sent, received;
static pthread_t suspended_thread, waiting_thread;
static volatile bool is_suspended, is_waiting;

static void pipe_read(struct worker *worker)
{
	static unsigned char expected;
	unsigned char byte;

	result(worker, read(pipe_fds[0], &byte, 1) == 1 && byte == expected++);
}

static void pipe_write(struct worker *worker)
{
	static unsigned char next;

	moment();
	result(worker, write(pipe_fds[1], &next, 1) == 1);
	next++;
}

static void epoll_read(struct worker *worker)
{
	struct epoll_event event;
	uint64_t value = 0;

	result(worker, epoll_wait(epoll_fd, &event, 1, -1) == 1 && read(event_fd, &value, 8) == 8 &&
			       value >= 1);
}

static void event_write(struct worker *worker)
{
	uint64_t one = 1;

	moment();
	result(worker, write(event_fd, &one, 8) == 8);
}

static void sem_take(struct worker *worker)
{
	result(worker, !sem_wait(&sent));
	sem_post(&received);
}

static void sem_give(struct worker *worker)
{
	moment();
	sem_post(&sent);
	result(worker, !sem_wait(&received));
}

/* --- Signals --- */

static void signal_wait(struct worker *worker)
{
	sigset_t set;
	siginfo_t info;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	waiting_thread = pthread_self();
	is_waiting = true;
	result(worker, sigwaitinfo(&set, &info) == SIGUSR1 && info.si_pid == getpid());
}

static void signal_send(struct worker *worker)
{
	moment();
	result(worker, !is_waiting || !pthread_kill(waiting_thread, SIGUSR1));
}

static volatile sig_atomic_t suspended_signals;

static void on_usr2(int number)
{
	suspended_signals++;
}

/* The signal is blocked but for the wait: exactly one handler runs, then EINTR. */
static void suspend(struct worker *worker)
{
	sigset_t set, open;
	int before;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, &open);
	sigdelset(&open, SIGUSR2);
	suspended_thread = pthread_self();
	before = suspended_signals;
	is_suspended = true;
	result(worker, sigsuspend(&open) == -1 && errno == EINTR && suspended_signals > before);
}

static void suspend_end(struct worker *worker)
{
	moment();
	result(worker, !is_suspended || !pthread_kill(suspended_thread, SIGUSR2));
}

static _Thread_local volatile long ticks, ticks_elsewhere;
static _Thread_local char *signal_stack;
enum { SIGNAL_STACK = 64 * 1024 };

static void on_tick(int number, siginfo_t *info, void *context)
{
	char here;

	ticks++;
	if (&here < signal_stack || &here >= signal_stack + SIGNAL_STACK ||
	    info->si_value.sival_int != 4711)
		ticks_elsewhere++;
}

static void timer_start(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID,
				  .sigev_signo = SIGRTMIN,
				  .sigev_value = { .sival_int = 4711 } };
	struct itimerspec every = { { 0, 1000000 }, { 0, 1000000 } };
	stack_t stack = { .ss_size = SIGNAL_STACK };
	timer_t timer;

	signal_stack = stack.ss_sp = malloc(SIGNAL_STACK);
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	if (sigaltstack(&stack, NULL) || timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &every, NULL))
		abort();
}

/* What the kernel says about the handler and its stack is what was asked for. */
static void tick(struct worker *worker)
{
	struct sigaction action;
	stack_t stack;
	long before;

	if (!signal_stack)
		timer_start();
	before = ticks;
	for (int i = 0; i < 20; i++)
		result(worker, steps() == steps_expected);
	sigaction(SIGRTMIN, NULL, &action);
	sigaltstack(NULL, &stack);
	result(worker, ticks > before && !ticks_elsewhere && action.sa_sigaction == on_tick &&
			       stack.ss_sp == signal_stack && stack.ss_flags == 0);
}

static _Thread_local sigjmp_buf fault_return;
static _Thread_local void *volatile fault_address;

static void on_fault(int number, siginfo_t *info, void *context)
{
	fault_address = info->si_addr;
	siglongjmp(fault_return, 1);
}

static void fault(struct worker *worker)
{
	static volatile char *page;

	if (!page)
		page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!sigsetjmp(fault_return, 1)) {
		page[17] = 1;
		result(worker, false);
	}
	result(worker, fault_address == page + 17);
	moment();
}

/* --- Threads and processes --- */

static void *thread_run(void *argument)
{
	return (void *)((uintptr_t)argument * 3);
}

static void thread_make(struct worker *worker)
{
	pthread_t thread;
	void *got = NULL;

	if (pthread_create(&thread, NULL, thread_run, (void *)14))
		abort();
	result(worker, !pthread_join(thread, &got) && got == (void *)42);
	if (worker->done % 8 == 0)
		moment();
}

static void process_make(struct worker *worker)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		moment();
		_exit(steps() == steps_expected ? 23 : 1);
	}
	result(worker,
	       waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 23);
	moment();
}

static void program_spawn(struct worker *worker)
{
	char *const arguments[] = { "sh", "-c", "exit 7", NULL };
	int status = 0;
	pid_t pid;

	result(worker, !posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ) &&
			       waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
			       WEXITSTATUS(status) == 7);
	moment();
}

static void gs(struct worker *worker)
{
	static unsigned long value = 0x123456789000;
	unsigned long got = 0;

	syscall(SYS_arch_prctl, ARCH_SET_GS, value);
	for (int i = 0; i < 10; i++) {
		steps();
		moment();
		syscall(SYS_arch_prctl, ARCH_GET_GS, &got);
		result(worker, got == value);
	}
	value += 4096;
}

/* --- All of them --- */

static struct worker workers[] = {
	{ "long nanosleep", sleep_long },
	{ "long poll", poll_long },
	{ "long futex", futex_long },
	{ "long select", select_long },
	{ "count", count },
	{ "vectors", vectors },
	{ "read", pipe_read },
	{ "write", pipe_write },
	{ "epoll", epoll_read },
	{ "event", event_write },
	{ "semaphore", sem_take },
	{ "semaphore post", sem_give },
	{ "sigwait", signal_wait },
	{ "kill", signal_send },
	{ "sigsuspend", suspend },
	{ "kill suspended", suspend_end },
	{ "timer", tick },
	{ "fault", fault },
	{ "thread", thread_make },
	{ "process", process_make },
	{ "spawn", program_spawn },
	{ "gs", gs },
};
enum { WORKERS = sizeof(workers) / sizeof(workers[0]), LONG_ONES = 4 };

static void *worker_run(void *argument)
{
	struct worker *worker = argument;

	while (!stop)
		worker->run(worker);
	return NULL;
}

static bool rseq_is_registered(void)
{
	const struct rseq *area =
		(struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);

	return __rseq_size && (int)area->cpu_id >= 0;
}

static void prepare(void)
{
	struct sigaction action = { .sa_handler = on_usr2 };
	struct epoll_event event = { .events = EPOLLIN };
	sigset_t set;

	steps_expected = steps();
	sigaction(SIGUSR2, &action, NULL);
	action = (struct sigaction){ .sa_sigaction = on_tick,
				     .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
	sigaction(SIGRTMIN, &action, NULL);
	action = (struct sigaction){ .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	sigaction(SIGSEGV, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	/*
	 * Ignored, it would now and then interrupt a thread that waits: when glibc blocks all
	 * signals in the thread that has children.
	 */
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sem_init(&sent, 0, 0);
	sem_init(&received, 0, 0);
	event_fd = eventfd(0, 0);
	epoll_fd = epoll_create1(0);
	if (pipe(pipe_fds) || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &event))
		abort();
}

/* Those that wait for others are left where they are. */
static void *sleepers_watch(void *unused)
{
	for (int i = 0; i < LONG_ONES; i++)
		while (!workers[i].done)
			moment();
	puts("slept");
	fflush(stdout);
	return NULL;
}

int main(int argc, char **argv)
{
	bool registered = rseq_is_registered();
	const char *only = argc > 1 ? argv[1] : NULL;
	pthread_t watch;
	char byte;
	int got;

	prepare();
	for (int i = 0; i < WORKERS; i++)
		if (!only || strstr(workers[i].name, only) || i < LONG_ONES)
			pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]);
	pthread_create(&watch, NULL, sleepers_watch, NULL);
	puts("ready");
	fflush(stdout);
	got = (int)read(0, &byte, 1);
	printf("main: read %d\n", got);
	for (int i = 0; i < WORKERS; i++)
		if (workers[i].thread)
			printf("%s: %s, %lu wrong\n", workers[i].name,
			       workers[i].done ? "done" : "never done", workers[i].wrong);
	printf("rseq: %s\n", rseq_is_registered() == registered ? "as before" : "lost");
	fflush(stdout);
	_exit(0);
}

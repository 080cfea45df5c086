// SPDX-License-Identifier: BSD-2-Clause
/* System calls that signals interrupt or restart, and calls that wait for signals. */
#include "corner.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/time.h>

static volatile sig_atomic_t seen;

static void count(int number, siginfo_t *info, void *context)
{
	seen++;
}

/* --- System calls that signals interrupt ------------------------------------------------------ */

static void *later_signal(void *target)
{
	rest(60);
	pthread_kill(*(pthread_t *)target, SIGUSR1);
	return NULL;
}

static void interrupted(int flags, const char *what, long (*call)(void))
{
	pthread_t self = pthread_self(), helper;
	long result;

	handle(SIGUSR1, count, flags);
	seen = 0;
	mask_set(SIG_BLOCK, SIGUSR1);
	pthread_create(&helper, NULL, later_signal, &self);
	mask_set(SIG_UNBLOCK, SIGUSR1);
	errno = 0;
	result = call();
	int error = errno;
	pthread_join(helper, NULL);
	printf("%s: %ld %d, seen %d\n", what, result, result < 0 ? error : 0, seen);
}

static int ends[2];

static void *later_write(void *unused)
{
	rest(600);
	return (void *)write(ends[1], "x", 1);
}

static long call_read(void)
{
	char byte;

	return read(ends[0], &byte, 1);
}

static long call_nanosleep(void)
{
	struct timespec time = { 1, 0 }, left = {};
	long result = nanosleep(&time, &left);

	return result ? -(left.tv_nsec > 1000000) : 0;
}

static long call_poll(void)
{
	return poll(NULL, 0, 1000);
}

static long call_pause(void)
{
	return pause();
}

static long call_wait(void)
{
	pid_t child = fork();

	if (!child) {
		rest(600);
		_exit(3);
	}
	int status = 0;
	long result = waitpid(child, &status, 0);
	if (result < 0) {
		int error = errno;
		waitpid(child, &status, 0);
		errno = error;
		return result;
	}
	return WEXITSTATUS(status);
}

static long call_clock_nanosleep(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += 999000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void restarts(int flags)
{
	pthread_t writer;

	pipe(ends);
	sigset_t set;
	sigfillset(&set);
	sigdelset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	mask_set(SIG_BLOCK, SIGUSR1);
	pthread_create(&writer, NULL, later_write, NULL);
	interrupted(flags, "read", call_read);
	pthread_join(writer, NULL);
	interrupted(flags, "nanosleep", call_nanosleep);
	interrupted(flags, "poll", call_poll);
	interrupted(flags, "pause", call_pause);
	interrupted(flags, "wait", call_wait);
	interrupted(flags, "clock_nanosleep", call_clock_nanosleep);
}

static void scene_eintr(void)
{
	restarts(0);
}

static void scene_restart(void)
{
	restarts(SA_RESTART);
}

/* An ignored or stopping signal restarts what it interrupts. */
static void scene_stop(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		_exit((int)call_nanosleep());
	}
	rest(20);
	kill(child, SIGSTOP);
	waitpid(child, &status, WUNTRACED);
	printf("stopped %d\n", WIFSTOPPED(status) ? WSTOPSIG(status) : -1);
	kill(child, SIGCONT);
	waitpid(child, &status, WCONTINUED);
	printf("continued %d\n", WIFCONTINUED(status));
	waitpid(child, &status, 0);
	status_say("child", status);
}

/* --- Waiting for signals ---------------------------------------------------------------------- */

static void scene_sigwait(void)
{
	sigset_t set;
	siginfo_t info;
	int number;
	struct timespec none = { 0, 1000000 };

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	handle(SIGUSR1, count, 0);
	raise(SIGUSR1);
	printf("%d", sigwait(&set, &number));
	printf(" %d\n", number);
	sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_int = 9 });
	printf("%d %d\n", sigwaitinfo(&set, &info), info.si_value.sival_int);
	printf("%d %d\n", sigtimedwait(&set, &info, &none), errno);
	printf("seen %d\n", seen);
}

static void scene_signalfd(void)
{
	struct signalfd_siginfo info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	printf("%zd %d\n", read(fd, &info, sizeof(info)), errno);
	kill(getpid(), SIGUSR1);
	struct pollfd poller = { fd, POLLIN, 0 };
	printf("%d %d\n", poll(&poller, 1, 1000), poller.revents);
	printf("%zd %u\n", read(fd, &info, sizeof(info)), info.ssi_signo);
}

static void scene_sigsuspend(void)
{
	sigset_t none, now;

	sigemptyset(&none);
	mask_set(SIG_BLOCK, SIGUSR1);
	handle(SIGUSR1, mask_say, 0);
	raise(SIGUSR1);
	printf("%d", sigsuspend(&none));
	printf(" %d\n", errno);
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	printf("%d %d\n", sigismember(&now, SIGUSR1), sigismember(&now, SIGHUP));
}

static void scene_ppoll(void)
{
	sigset_t none;
	struct timespec long_time = { 5, 0 };

	sigemptyset(&none);
	mask_set(SIG_BLOCK, SIGUSR1);
	handle(SIGUSR1, count, SA_RESTART);
	for (int i = 0; i < 50; i++) {
		raise(SIGUSR1);
		if (ppoll(NULL, 0, &long_time, &none) != -1 || errno != EINTR)
			printf("wrong\n");
	}
	printf("%d\n", seen);
	raise(SIGUSR1);
	printf("%d", pselect(0, NULL, NULL, NULL, &long_time, &none));
	printf(" %d %d\n", errno, seen);
}

enum { NEWCOMERS = 300 };
static volatile bool newcomers_done;
static pthread_t suspended;

static void *newcomer_wait(void *unused)
{
	while (!newcomers_done)
		usleep(10000);
	return NULL;
}

/* All at the same time, so that none has what another one had. */
static void *newcomers_make(void *unused)
{
	pthread_attr_t attributes;
	pthread_t threads[NEWCOMERS];

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 * 1024);
	for (int i = 0; i < NEWCOMERS; i++)
		pthread_create(&threads[i], &attributes, newcomer_wait, NULL);
	newcomers_done = true;
	for (int i = 0; i < NEWCOMERS; i++)
		pthread_join(threads[i], NULL);
	return NULL;
}

static void *suspended_wake(void *unused)
{
	while (!newcomers_done) {
		pthread_kill(suspended, SIGUSR1);
		usleep(20);
	}
	pthread_kill(suspended, SIGUSR1);
	return NULL;
}

/* Signals come to a thread while others begin. */
static void scene_newcomers(void)
{
	pthread_t maker, waker;
	sigset_t none;
	int wrong = 0, before;

	sigemptyset(&none);
	mask_set(SIG_BLOCK, SIGUSR1);
	handle(SIGUSR1, count, 0);
	suspended = pthread_self();
	pthread_create(&maker, NULL, newcomers_make, NULL);
	pthread_create(&waker, NULL, suspended_wake, NULL);
	while (!newcomers_done) {
		before = seen;
		wrong += sigsuspend(&none) != -1 || errno != EINTR || seen != before + 1;
	}
	pthread_join(maker, NULL);
	pthread_join(waker, NULL);
	printf("%d wrong\n", wrong);
}

static const struct scene scenes[] = {
	{ "eintr", scene_eintr },	  { "restart", scene_restart },
	{ "stop", scene_stop },		  { "sigwait", scene_sigwait },
	{ "signalfd", scene_signalfd },	  { "sigsuspend", scene_sigsuspend },
	{ "newcomers", scene_newcomers }, { "ppoll", scene_ppoll },
};

SCENES_MAIN(scenes)

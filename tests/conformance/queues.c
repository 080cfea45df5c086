// SPDX-License-Identifier: BSD-2-Clause
/* Signals that queue: their order, and that none is lost where the queue is full. */
#include "corner.h"

#include <sys/resource.h>

enum { NUMBER = 36, MANY = 3000, PENDING = 3 };

static volatile int got, next, wrong;
static volatile unsigned sum;

static void ordered(int number, siginfo_t *info, void *context)
{
	wrong += info->si_value.sival_int != next;
	next = info->si_value.sival_int + 1;
	got++;
}

/* System calls and allocations, so that signals come while the engine runs. */
static void work(void)
{
	for (int i = 0; i < 100; i++) {
		sum += (unsigned)i * sum;
		getppid();
		free(malloc(100 + i));
	}
}

static void all_receive(void)
{
	while (got < MANY)
		work();
	printf("got %d, wrong %d\n", got, wrong);
}

static void *thread_send(void *to)
{
	for (int i = 0; i < MANY;)
		if (pthread_sigqueue(*(pthread_t *)to, NUMBER, (union sigval){ .sival_int = i }))
			sched_yield();
		else
			i++;
	return NULL;
}

static void scene_thread(void)
{
	pthread_t receiver = pthread_self(), sender;

	handle(NUMBER, ordered, SA_RESTART);
	pthread_create(&sender, NULL, thread_send, &receiver);
	all_receive();
	pthread_join(sender, NULL);
}

static void process_send(void)
{
	pid_t receiver = getpid(), child = fork();

	if (!child) {
		for (int i = 0; i < MANY;)
			if (sigqueue(receiver, NUMBER, (union sigval){ .sival_int = i }))
				sched_yield();
			else
				i++;
		_exit(0);
	}
	all_receive();
	waitpid(child, NULL, 0);
}

static void scene_process(void)
{
	handle(NUMBER, ordered, SA_RESTART);
	process_send();
}

/* What all processes of this user have pending, in the first number behind "SigQ:". */
static unsigned long pending_now(void)
{
	char line[256];
	unsigned long count = 0;
	FILE *status = fopen("/proc/self/status", "r");

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "SigQ: %lu", &count) == 1)
			break;
	fclose(status);
	return count;
}

/* The queue holds a few: where one was taken out, the sender puts the next one in at once. */
static void scene_full(void)
{
	unsigned long limit = pending_now() + PENDING;

	setrlimit(RLIMIT_SIGPENDING, &(struct rlimit){ limit, limit });
	scene_process();
}

static void from_whom(int number, siginfo_t *info, void *context)
{
	got += info->si_pid == getpid() && info->si_code == SI_USER;
}

/* kill() needs no room in the queue. */
static void scene_no_queue(void)
{
	setrlimit(RLIMIT_SIGPENDING, &(struct rlimit){ 0, 0 });
	handle(SIGUSR1, from_whom, 0);
	for (int i = 0; i < MANY; i++)
		kill(getpid(), SIGUSR1);
	printf("%d\n", got);
}

static const struct scene scenes[] = {
	{ "thread", scene_thread },
	{ "process", scene_process },
	{ "full", scene_full },
	{ "no-queue", scene_no_queue },
};

SCENES_MAIN(scenes)

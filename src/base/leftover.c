// SPDX-License-Identifier: BSD-2-Clause
/*
 * A table of files and a signal handler that removes them.
 *
 * 1. The handler uses only what is safe in one, and fields that were written before `used`.
 * 2. A child that was forked, and gets the same signal from the terminal, removes nothing.
 */
#include "base/leftover.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

enum { SLOTS = 32 };

static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

static struct slot {
	atomic_bool used;
	int dir, flags;
	char *name;
	pid_t owner;
} slots[SLOTS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void on_end(int number)
{
	pid_t self = getpid();

	for (int i = SLOTS; i-- > 0;)
		if (atomic_load(&slots[i].used) && slots[i].owner == self)
			unlinkat(slots[i].dir, slots[i].name, slots[i].flags);
	/* It is blocked here, and ends the process when the handler returns. */
	signal(number, SIG_DFL);
	raise(number);
}

void leftover_signals_hold(sigset_t *ret_before)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaddset(&set, ends[i]);
	pthread_sigmask(SIG_BLOCK, &set, ret_before);
}

void leftover_signals_release(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void handlers_install(void)
{
	const struct sigaction action = { .sa_handler = on_end };
	struct sigaction old;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			sigaction(ends[i], &action, NULL);
}

int leftover_add(int dir, const char *name, int flags)
{
	int found = SLOTS;

	pthread_mutex_lock(&lock);
	for (int i = SLOTS; i-- > 0 && !atomic_load(&slots[i].used);)
		found = i; /* above all that are used, so that the order is kept */
	if (found < SLOTS) {
		slots[found].dir = fcntl(dir, F_DUPFD_CLOEXEC, 3);
		slots[found].name = mem_strdup(name);
		slots[found].flags = flags;
		slots[found].owner = getpid();
		handlers_install();
		atomic_store(&slots[found].used, true);
	}
	pthread_mutex_unlock(&lock);
	return found < SLOTS ? found + 1 : 0;
}

void leftover_forget(int number)
{
	struct slot *slot;

	if (!number)
		return;
	slot = &slots[number - 1];
	pthread_mutex_lock(&lock);
	if (atomic_exchange(&slot->used, false)) {
		close(slot->dir);
		free(slot->name);
	}
	pthread_mutex_unlock(&lock);
}

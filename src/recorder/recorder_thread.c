// SPDX-License-Identifier: BSD-2-Clause
/* The loop of a thread that makes rounds until it is told to stop. */
#include "recorder/recorder_thread.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

struct recorder_thread {
	struct recorder *recorder;
	pthread_t thread;
	bool stop; /* set by the caller's thread, once */
};

/* After a failure the rounds go on: programs may wait for what they record to be taken. */
static void *thread_main(void *ctx)
{
	struct recorder_thread *thread = ctx;

	while (!__atomic_load_n(&thread->stop, __ATOMIC_ACQUIRE)) {
		bool more = false;

		recorder_round(thread->recorder, &more);
		if (!more)
			recorder_wait(thread->recorder);
	}
	return NULL;
}

int recorder_thread_start(struct recorder *recorder, struct recorder_thread **ret)
{
	struct recorder_thread *thread = mem_zalloc(sizeof(*thread));
	sigset_t all, old;
	int err;

	thread->recorder = recorder;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread->thread, NULL, thread_main, thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		free(thread);
		return err_set(-err, "cannot start a thread: %s", strerror(err));
	}
	*ret = thread;
	return 0;
}

void recorder_thread_stop(struct recorder_thread *thread)
{
	if (!thread)
		return;
	__atomic_store_n(&thread->stop, true, __ATOMIC_RELEASE);
	recorder_wake(thread->recorder);
	pthread_join(thread->thread, NULL);
	free(thread);
}

// SPDX-License-Identifier: BSD-2-Clause
/* Threads of the program as the engine sees them, and the lock that they share. */
#include <linux/futex.h>

#include "engine/engine.h"
#include "engine/sys.h"

uint32_t engine_lock_word; /* 0 free, 1 taken, 2 taken and waited for */

static struct thread *newest;

void engine_lock(void)
{
	uint32_t state = 0;

	if (__atomic_compare_exchange_n(&engine_lock_word, &state, 1, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&engine_lock_word, 2, __ATOMIC_ACQUIRE))
		sys_4(futex, &engine_lock_word, FUTEX_WAIT_PRIVATE, 2, 0);
}

void engine_unlock(void)
{
	if (__atomic_exchange_n(&engine_lock_word, 0, __ATOMIC_RELEASE) == 2)
		sys_3(futex, &engine_lock_word, FUTEX_WAKE_PRIVATE, 1);
}

/* A thread that has ended, and that the kernel has forgotten: its stack is not used any more. */
static struct thread *thread_reuse(void)
{
	long pid = sys_0(getpid);

	for (struct thread *thread = newest; thread; thread = thread->older)
		if (thread->dead && sys_3(tgkill, pid, thread->tid, 0) == -3) /* ESRCH */
			return thread;
	return NULL;
}

struct thread *thread_create(void)
{
	struct thread *thread = thread_reuse(), *older;
	uint8_t *memory;

	if (thread) {
		older = thread->older;
		memory = (uint8_t *)thread;
		for (size_t i = 0; i < 2 * 65536; i++)
			((uint64_t *)(memory + THREAD_TAGS))[i] = 0;
	} else {
		memory = memory_map(THREAD_BYTES + ENGINE_STACK_SIZE);
		if (!memory)
			engine_die("no memory for a thread");
		thread = (struct thread *)memory;
		older = newest;
		newest = thread;
	}
	*thread = (struct thread){
		.stack = (uint64_t)(memory + THREAD_BYTES + ENGINE_STACK_SIZE),
		.on_exit = (uint64_t)engine_exit,
		.on_miss = (uint64_t)engine_miss,
		.self = (uint64_t)thread,
		.fs_engine = (uint64_t)thread->canary,
		.older = older,
	};
	return thread;
}

struct thread *thread_current(void)
{
	uint32_t tid;
	struct thread *gs;

	__asm__ volatile("rdgsbase %0" : "=r"(gs));
	for (struct thread *thread = newest; thread; thread = thread->older)
		if (thread == gs)
			return thread;
	tid = (uint32_t)sys_0(gettid);
	for (struct thread *thread = newest; thread; thread = thread->older)
		if (thread->tid == tid && !thread->dead)
			return thread;
	engine_die("a signal in a thread that is not known");
}

void threads_only(struct thread *thread)
{
	for (struct thread *other = newest; other; other = other->older)
		if (other != thread)
			other->dead = 1;
}

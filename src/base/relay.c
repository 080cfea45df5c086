// SPDX-License-Identifier: BSD-2-Clause
/*
 * 1. Who was released is woken once: by who takes it out of `turn`, or by who could not put it there.
 * 2. Where held and released differ, somebody waits. Programs can make them differ as they like: reserves then work when they should not,
 *    or not at all, and nothing else depends on it.
 * 3. One reserve works at a time. There are others if several processes are recorded.
 */
#include "base/relay.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

void relay_init(struct relay *relay, uint32_t *held, uint32_t *reserves)
{
	*relay = (struct relay){ .held = held, .reserves = reserves, .cpu = -1 };
}

void relay_here(struct relay *relay)
{
	if (relay)
		__atomic_store_n(&relay->cpu, sched_getcpu(), __ATOMIC_RELAXED);
}

static void waiting_wake(uint32_t *wake)
{
	__atomic_fetch_add(wake, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* From one to the other; false: it is something else by now. */
static bool turn_change(struct relay *relay, uint32_t *from, uint32_t *to)
{
	return __atomic_compare_exchange_n(&relay->turn, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

void relay_release(struct relay *relay, uint32_t *wake)
{
	if (relay)
		__atomic_fetch_add(&relay->released, 1, __ATOMIC_SEQ_CST);
	if (!relay || !turn_change(relay, &relay->nobody, wake))
		waiting_wake(wake);
}

void relay_hurry(struct relay *relay)
{
	uint32_t *wake = relay ? __atomic_load_n(&relay->turn, __ATOMIC_SEQ_CST) : NULL;

	if (wake && wake != &relay->nobody && turn_change(relay, wake, &relay->nobody))
		waiting_wake(wake);
}

void relay_poke(struct relay *relay)
{
	if (!relay)
		return;
	__atomic_fetch_add(&relay->released, 1, __ATOMIC_SEQ_CST);
	waiting_wake(relay->held);
}

void relay_end(struct relay *relay)
{
	if (!relay)
		return;
	__atomic_store_n(&relay->over, true, __ATOMIC_SEQ_CST);
	relay_poke(relay);
}

uint32_t relay_look(const struct relay *relay)
{
	return relay ? __atomic_load_n(relay->held, __ATOMIC_SEQ_CST) : 0;
}

static bool is_over(const struct relay *relay)
{
	return __atomic_load_n(&relay->over, __ATOMIC_SEQ_CST);
}

static bool may_work(const struct relay *relay)
{
	return is_over(relay) ||
	       relay_look(relay) != __atomic_load_n(&relay->released, __ATOMIC_SEQ_CST);
}

static void reserve_sleep(struct relay *relay, uint32_t seen)
{
	__atomic_fetch_add(relay->reserves, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, relay->held, FUTEX_WAIT, seen, NULL, NULL, 0);
	__atomic_fetch_sub(relay->reserves, 1, __ATOMIC_SEQ_CST);
}

/*
 * Who is woken may find itself on the CPU of who shall not be disturbed. It goes to another, and may then be moved as before. The next time
 * it is woken there.
 */
static void cpu_leave(int cpu)
{
	cpu_set_t all, others;

	if (cpu < 0 || cpu != sched_getcpu() || sched_getaffinity(0, sizeof(all), &all))
		return;
	others = all;
	CPU_CLR((size_t)cpu, &others);
	if (!sched_setaffinity(0, sizeof(others), &others))
		sched_setaffinity(0, sizeof(all), &all);
}

bool relay_enter(struct relay *relay, uint32_t seen)
{
	if (!relay)
		return true;
	if (!may_work(relay) || !turn_change(relay, NULL, &relay->nobody)) {
		reserve_sleep(relay, seen);
		return false;
	}
	if (!is_over(relay))
		cpu_leave(__atomic_load_n(&relay->cpu, __ATOMIC_RELAXED));
	return true;
}

bool relay_goes_on(const struct relay *relay)
{
	return !relay || (__atomic_load_n(&relay->turn, __ATOMIC_SEQ_CST) == &relay->nobody &&
			  may_work(relay));
}

void relay_leave(struct relay *relay)
{
	uint32_t *wake = relay ? __atomic_exchange_n(&relay->turn, NULL, __ATOMIC_SEQ_CST) : NULL;

	if (wake && wake != &relay->nobody)
		waiting_wake(wake);
}

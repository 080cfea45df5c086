// SPDX-License-Identifier: BSD-2-Clause
/* The states of a thread, and which may follow which. state.h has the picture. */
#include "engine/state.h"

#include "engine/engine.h"

#define BIT(state) (1u << THREAD_##state)

/* Another thread may say of any that it is gone. */
static const uint16_t followers[THREAD_STATES_END] = {
	[THREAD_INSIDE] = BIT(DELIVERING) | BIT(HANDING_BACK) | BIT(STEPPING) |
			  BIT(STEPPING_RETURN) | BIT(NATIVE) | BIT(PARKED) | BIT(ENDING) |
			  BIT(GONE),
	[THREAD_DELIVERING] = BIT(INSIDE) | BIT(GONE),
	[THREAD_HANDING_BACK] = BIT(NATIVE) | BIT(GONE),
	[THREAD_STEPPING] = BIT(INSIDE) | BIT(GONE),
	[THREAD_STEPPING_RETURN] = BIT(INSIDE) | BIT(GONE),
	[THREAD_NATIVE] = BIT(INSIDE) | BIT(PARKED) | BIT(GONE),
	[THREAD_PARKED] = BIT(INSIDE) | BIT(NATIVE) | BIT(GONE),
	[THREAD_ENDING] = BIT(INSIDE) | BIT(GONE),
	[THREAD_GONE] = 0,
};

static const struct {
	bool native, dead;
} traits[THREAD_STATES_END] = {
#define X(name, native, dead, text) { native, dead },
	THREAD_STATES(X)
#undef X
};

void thread_become(struct thread *thread, enum thread_state state)
{
	enum thread_state before = (enum thread_state)thread->state;

	if (engine_boot.flags & ENGINE_CHECKS && before != state &&
	    !(followers[before] >> state & 1))
		engine_die("a thread went from one state to another that cannot follow");
	__atomic_store_n(&thread->state, state, __ATOMIC_RELEASE);
}

bool thread_is_native(const struct thread *thread)
{
	return traits[thread->state].native;
}

bool thread_is_stepping(const struct thread *thread)
{
	return thread->state == THREAD_STEPPING || thread->state == THREAD_STEPPING_RETURN;
}

bool thread_is_outside(const struct thread *thread)
{
	return thread_is_native(thread) && !thread_is_stepping(thread);
}

bool thread_is_dead(const struct thread *thread)
{
	return traits[thread->state].dead;
}

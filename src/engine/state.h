/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a thread is, as one state.
 *
 *	                 signal_check          the signal that was queued again arrives
 *	   DELIVERING <---------------- INSIDE <---------------- DELIVERING
 *	                                 |  ^
 *	  special_run, step_program      |  |  the trap or the fault of the instruction
 *	                                 v  |
 *	                              STEPPING, STEPPING_RETURN
 *
 *	   INSIDE ---- native_go -----> NATIVE ---- native_cancel -----> INSIDE
 *	   INSIDE ---- hand back -----> HANDING_BACK ---- its signal ---> NATIVE
 *	   INSIDE, NATIVE ---- the host takes the engine out ----> PARKED
 *	   PARKED ---- the host is gone ----> INSIDE, NATIVE
 *	   INSIDE ---- exit ----------> ENDING ---- a signal comes first --> INSIDE
 *	   any    ---- fork, vfork ---> GONE (another thread says so; its memory is used again)
 *
 * To go natively and to come back is an ordinary transition: nothing in the program's memory
 * depends on it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct thread;

/*
 * Columns: name, whether it executes the program's own code, whether its tid may be another's soon,
 * what it means.
 */
#define THREAD_STATES(X)                                                                           \
	X(INSIDE, false, false, "in the cache or in the engine")                                   \
	X(DELIVERING, false, false, "in the engine; the next signal is one that waited")           \
	X(HANDING_BACK, false, false, "in the engine; the next signal takes it out for good")      \
	X(STEPPING, true, false, "native for one instruction")                                     \
	X(STEPPING_RETURN, true, false, "the same; it takes its flags from the stack")             \
	X(NATIVE, true, false, "in the program's own code")                                        \
	X(PARKED, true, false, "waits for the host to take the engine out")                        \
	X(ENDING, false, true, "has called exit: it may still be in the engine")                   \
	X(GONE, false, true, "not in this memory any more")

enum thread_state {
#define X(name, native, dead, text) THREAD_##name,
	THREAD_STATES(X)
#undef X
		THREAD_STATES_END
};

/*
 * All changes of the state. With ENGINE_CHECKS, one that the table does not have ends the process.
 */
void thread_become(struct thread *thread, enum thread_state state);

bool thread_is_native(const struct thread *thread);
bool thread_is_stepping(const struct thread *thread);
/* Whether the thread is native for an unknown time, and not for one instruction only. */
bool thread_is_outside(const struct thread *thread);
/* Its memory may be used again once the kernel has forgotten its tid. */
bool thread_is_dead(const struct thread *thread);

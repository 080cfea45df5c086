/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts the engine into a process that runs, and takes it out again.
 *
 *	attach_take()		all threads go on in the engine, with no tracer attached
 *	follow_attached()	serves it, until it has ended or is to be given back (follow.h)
 *	attach_give_back()	all threads, and those of processes it has started, go on by
 *				themselves
 */
#pragma once

#include "inject/inject.h"

/* On failure the process goes on as if nothing had been tried. */
int attach_take(struct inject *inject, pid_t pid);

/*
 * Makes every thread of a process with this engine pass through the engine's own code once, where
 * it sees what the host has changed; this is a short stop. -ESRCH: the process does not have this
 * engine.
 */
int attach_poke(struct inject *inject, pid_t pid);

/*
 * Takes the engine out of every process that has it. A process that cannot be given back stays in
 * the engine, which then works without a host.
 */
int attach_give_back(struct inject *inject);

/* A process whose host was killed: the engine that it still has is taken out. */
int attach_release(const struct inject *inject, pid_t pid);

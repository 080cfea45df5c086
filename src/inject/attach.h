/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts the engine into a process that runs, and takes it out again.
 *
 *	attach_take()		all threads go on in the engine, with nobody attached
 *	follow_attached()	serves it, until it has ended or is to be given back (follow.h)
 *	attach_give_back()	all threads, and those of processes it has started, go on by
 *				themselves
 */
#pragma once

#include "inject/inject.h"

/* On failure the process goes on as if nothing had been tried. */
int attach_take(struct inject *inject, pid_t pid);

/*
 * Makes every thread of a process that has this engine come by the engine's own code once: for what
 * engines look at only there. It is a short stop. -ESRCH: the process has not this engine.
 */
int attach_poke(struct inject *inject, pid_t pid);

/*
 * Every process that has this engine. Whoever cannot be given back stays in the engine, which works
 * alone.
 */
int attach_give_back(struct inject *inject);

/* A process whose host was killed: the engine that it still has is taken out. */
int attach_release(const struct inject *inject, pid_t pid);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that is being started, up to where its libraries are there: counters are set in each
 * piece of code before its first instruction is executed.
 *
 *	starting_attach()	the process has yet to execute the program
 *	starting_stop()		it has: it waits in front of its first instruction
 *	starting_follow()	its libraries are mapped, and it waits again
 *	starting_release()	it goes on by itself
 *
 * All by one thread: the kernel knows a tracer by it. Nothing is written to the process, so that it
 * goes on by itself, uncounted, if the tracer should die.
 */
#pragma once

#include <sys/types.h>

#include "recorder/probes/probes.h"

int starting_attach(pid_t pid);
/* -ESRCH: it has ended; its end is left for whoever waits for it, here and below. */
int starting_stop(pid_t pid);
int starting_follow(pid_t pid, struct probes *probes);
void starting_release(pid_t pid);

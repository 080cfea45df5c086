/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides which thread of a language (a virtual thread, a task) is charged for what a kernel thread
 * used, when several take turns on it: at each notice, the change since the last one is charged to
 * the thread that ran until then.
 *
 * A kernel thread has an entry, which begins and ends with it: a tid that comes again has another
 * one. Notices may be missing, late, told twice, or told by another kernel thread.
 *
 * Invariants
 * 1. Each notice names one thread that gets the whole change, so that none is lost or given twice.
 * 2. A thread runs on an entry if each names the other. If an entry names a thread that names
 *    another entry, the thread has left the first one without a notice.
 * 3. A thread is over once: with its end, or, if it still runs on another entry then, when that one
 *    goes on. Nothing is charged to it afterwards.
 *
 * There are no locks here: a caller with notices of several kernel threads has to lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct reuse_entry;

/* A thread of the language. */
struct reuse_thread {
	const struct reuse_entry *on; /* the entry that it runs on; NULL: it does not run */
	bool terminated; /* its end was told */
};

/* A kernel thread. */
struct reuse_entry {
	struct reuse_thread *own; /* is charged while no other runs; NULL: the next one is */
	struct reuse_thread *thread; /* the one that came last; NULL: it has gone */
};

struct reuse_turn {
	struct reuse_thread *payee; /* gets the change; NULL: it stays for the next notice */
	struct reuse_thread *over; /* is charged for the last time: may be freed then; NULL: none */
};

/* The one that runs on it; NULL: none, or it is not known. */
struct reuse_thread *reuse_current(const struct reuse_entry *entry);

/* The thread runs on the entry from now on, and a thread that ran there before no longer does. */
struct reuse_turn reuse_start(struct reuse_entry *entry, struct reuse_thread *thread);
/* The thread stops running, and may start again. */
struct reuse_turn reuse_stop(struct reuse_entry *entry, struct reuse_thread *thread);
/*
 * The thread has ended; the entry is that of the kernel thread which gives the notice, which need
 * not be the one that ran it.
 */
struct reuse_turn reuse_end(struct reuse_entry *entry, struct reuse_thread *thread);
/* The kernel thread itself ends. */
struct reuse_turn reuse_exit(struct reuse_entry *entry);

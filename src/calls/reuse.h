/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who is charged what a kernel thread used, when threads of a language take turns on it (virtual
 * threads, tasks): at each notice, the change since the last one goes to whoever ran until then.
 *
 * A kernel thread has an entry, which begins and ends with it: a tid that comes again has another
 * one. Notices may be missing, late, told twice, or told by another kernel thread.
 *
 * Invariants
 * 1. Each notice names one thread that gets the whole change, so that none is lost or given twice.
 * 2. A thread runs on an entry if each names the other. An entry that names a thread that names
 *    another one was left without a notice.
 * 3. A thread is over once: with its end, or, if it still runs on another entry then, when that one
 *    goes on. Nothing is charged to it afterwards.
 *
 * Nothing is locked here: who tells of notices of several kernel threads does that.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct reuse_entry;

/* A thread of the language. */
struct reuse_thread {
	const struct reuse_entry *on; /* whom it runs on; NULL: it does not */
	bool terminated; /* its end was told */
};

/* A kernel thread. */
struct reuse_entry {
	struct reuse_thread *own; /* gets what is used in between; NULL: the one that comes does */
	struct reuse_thread *thread; /* the one that came last; NULL: it has gone */
};

struct reuse_turn {
	struct reuse_thread *payee; /* gets the change; NULL: it stays for the next notice */
	struct reuse_thread *over; /* is charged for the last time: may be freed then; NULL: none */
};

/* The one that runs on it; NULL: none, or it is not known. */
struct reuse_thread *reuse_current(const struct reuse_entry *entry);

/* It runs on the entry from now on; who did before has no right to what comes. */
struct reuse_turn reuse_start(struct reuse_entry *entry, struct reuse_thread *thread);
/* It does not run for the time being. */
struct reuse_turn reuse_stop(struct reuse_entry *entry, struct reuse_thread *thread);
/* It has ended, as the kernel thread of the entry tells, which need not be the one that ran it. */
struct reuse_turn reuse_end(struct reuse_entry *entry, struct reuse_thread *thread);
/* The kernel thread itself ends. */
struct reuse_turn reuse_exit(struct reuse_entry *entry);

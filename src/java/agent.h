/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent in a Java virtual machine: see agent.c. Its parts: threads.c has what the helper class
 * calls, names.c gives numbers to methods.
 */
#pragma once

#include <stdint.h>

#include "hooks/thread.h"
#include "java/rewrite.h"

enum { JAVA_TABLE_SIZE = 1 << 16 };

/* Pauses for garbage collection so far; only grow. */
struct java_pauses {
	uint64_t ns;
	uint64_t count;
};

extern struct java_pauses java_pauses;

static inline void java_count(enum call_java_count what, uint64_t count)
{
	__atomic_add_fetch(&hooks_area->java[what], count, __ATOMIC_RELAXED);
}

/* Threads. */

/*
 * The table of threads by the lowest bits of their numbers; free entries point to a dummy thread.
 * NULL: no memory.
 */
struct hooks_thread **java_table(void);
/* The calling thread's memory for the Java thread of this number; NULL: it is not recorded. */
struct hooks_thread *java_thread_begin(uint64_t number, bool is_virtual);
void java_thread_name(struct hooks_thread *thread, const char *name);
/* The Java thread that the calling kernel thread runs, or NULL. */
struct hooks_thread *java_thread_current(void);
/* The kernel thread has another Java thread, or none any more. */
void java_thread_end(void);
void java_thread_renew(void);

/* Charges the time since the last event, without pauses, which go to a node of their own. */
void java_charge(struct hooks_thread *thread);
void java_enter(struct hooks_thread *thread, uint32_t routine);
void java_leave(struct hooks_thread *thread, uint32_t routine);
/* Calls above the routine's newest one have gone. */
void java_caught(struct hooks_thread *thread, uint32_t routine);

/* Virtual threads: which one the calling kernel thread carries. */

void java_virtual_mount(uint64_t number);
void java_virtual_unmount(uint64_t number);
void java_virtual_end(uint64_t number);

/* Names. */

/* The number of a method, for struct java_rewriting; the same one for the same name. */
uint32_t java_method_number(void *ctx, const struct java_method *method);
/* Appends the names that are new to the file of the area. */
void java_names_flush(void);

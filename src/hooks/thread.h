/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of a program that build their own trees of calls in memory that is shared with the host:
 * slots, time, and what is done at a thread's start and end. The hooks of compiled programs and the
 * agent in Java virtual machines build on it, so that both are in one tree of a thread.
 */
#pragma once

#include <linux/perf_event.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>
#include <x86intrin.h>

#include "calls/reuse.h"
#include "calls/tree.h"
#include "wire/call_area.h"
#include "wire/call_events.h"

struct hooks_thread {
	/* The machine's number of a Java thread; 0: no such. Others read it at any time. */
	uint64_t java;
	struct call_tree tree;
	struct call_slot *slot;
	uint64_t last; /* the last event, by the slot's clock */
	struct call_amount now; /* charged so far, for events */
	bool events; /* they are written to the slot's ring */
	/* The page of the perf event; a page of zeroes if time off a processor cannot be told. */
	const struct perf_event_mmap_page *page;
	uint32_t page_lock; /* as it was at the last event */
	uint32_t timed;
	uint64_t cpu; /* ns of the CPU clock when it was last asked */
	uint64_t since; /* when that was, by the slot's clock */
	uint64_t units_per_ms; /* of the slot's clock */
	uint64_t paused; /* ns of pauses of the Java machine that were seen so far */
	uint64_t pauses;
	struct hooks_thread *next; /* in the list of threads that are not used */
	/* a hook is at work: a signal handler that interrupts it is not recorded */
	volatile uint32_t busy;
	bool alone; /* a virtual thread, which is not bound to a kernel thread */
	struct reuse_thread turn; /* which kernel thread runs it, if it is alone */
};

enum hooks_phase { PHASE_NEW, PHASE_STARTING, PHASE_RUNNING, PHASE_OVER };

extern __thread struct hooks_thread *hooks_self __attribute__((tls_model("initial-exec")));
extern __thread enum hooks_phase hooks_phase __attribute__((tls_model("initial-exec")));

extern struct call_area *hooks_area; /* NULL: nothing is recorded */

/* Maps the area at the path; false: there is none, or none of this version. */
bool hooks_area_open(const char *path);

/* The calling thread's slot and tree, or NULL if it cannot be recorded. */
struct hooks_thread *hooks_thread_start(uint32_t parent);
/* A slot and tree for a virtual thread, which the kernel does not know; NULL: there is no slot. */
struct hooks_thread *hooks_thread_create(uint32_t parent);
void hooks_thread_end(struct hooks_thread *thread);
/* Ends the recording of the calling thread, if it is recorded. */
void hooks_self_end(void);
/* The calling kernel thread's page, and its clock from now on. */
void hooks_page_open(struct hooks_thread *thread);
/* Empties the tree. */
void hooks_tree_reset(struct hooks_thread *thread);
/* Threads from now on have the clock that Java has, and room for what is allocated. */
void hooks_java_begin(void);

uint64_t hooks_cpu_clock(void);

uint64_t hooks_median(uint64_t *ticks, size_t count);
/* What is loaded now is told to the host. */
void hooks_modules_tell(void);

/* Nobody will make room. */
bool hooks_host_is_gone(void);
/* Waits for room as long as there is a host. */
void hooks_event_write(struct hooks_thread *thread, enum call_major major, enum call_minor minor,
		       uint64_t routine, uint64_t sp, const void *payload, uint32_t size);

static inline uint64_t hooks_clock_ns(void)
{
	struct timespec now = { 0 };

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline uint64_t hooks_now(const struct hooks_thread *thread)
{
	return thread->slot->clock == CALL_CLOCK_NS ? hooks_clock_ns() : __rdtsc();
}

/*
 * How much of an interval the thread was on a processor, if it was off one meanwhile or the virtual
 * machine had paused.
 */
uint64_t hooks_units_on(struct hooks_thread *thread, uint64_t now, uint32_t lock);

/* Reads the time and the page's lock word together, with no context switch in between. */
static inline uint64_t hooks_time(const struct hooks_thread *thread, uint32_t *ret_lock)
{
	uint64_t now;

	do {
		*ret_lock = __atomic_load_n(&thread->page->lock, __ATOMIC_ACQUIRE);
		now = hooks_now(thread);
		__asm__ volatile("" ::: "memory");
	} while (__builtin_expect(
		*ret_lock != __atomic_load_n(&thread->page->lock, __ATOMIC_RELAXED), 0));
	return now;
}

/* The same where the clock is the time stamp counter. */
static inline uint64_t hooks_ticks(const struct hooks_thread *thread, uint32_t *ret_lock)
{
	uint64_t now;

	do {
		*ret_lock = __atomic_load_n(&thread->page->lock, __ATOMIC_ACQUIRE);
		now = __rdtsc();
		__asm__ volatile("" ::: "memory");
	} while (__builtin_expect(
		*ret_lock != __atomic_load_n(&thread->page->lock, __ATOMIC_RELAXED), 0));
	return now;
}

static inline void hooks_charge(struct hooks_thread *thread)
{
	struct call_amount *amount = call_tree_current(&thread->tree)->amounts;
	uint32_t lock;
	uint64_t now = hooks_time(thread, &lock);
	uint64_t interval = now - thread->last;

	amount->elapsed += interval;
	thread->now.elapsed += interval;
	if (__builtin_expect(lock != thread->page_lock, 0))
		interval = hooks_units_on(thread, now, lock);
	thread->last = now;
	amount->base += interval;
	thread->now.base += interval;
	if (!thread->tree.weighs_itself)
		thread->tree.head->total += interval;
}

/* False: this interrupts a hook, and is not recorded. */
static inline bool hooks_event_begin(struct hooks_thread *thread)
{
	if (__builtin_expect(thread->busy, 0)) {
		__atomic_add_fetch(&hooks_area->interrupted, 1, __ATOMIC_RELAXED);
		return false;
	}
	thread->busy = 1;
	__asm__ volatile("" ::: "memory");
	if (thread->timed)
		hooks_charge(thread);
	return true;
}

static inline void hooks_event_end(struct hooks_thread *thread)
{
	__asm__ volatile("" ::: "memory");
	thread->busy = 0;
}

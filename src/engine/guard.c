// SPDX-License-Identifier: BSD-2-Clause
/*
 * Write protection of pages that code was translated from: code that can be written, but hardly
 * ever is, needs no check.
 *
 * A page of private memory that the program can write and execute is made read-only for as long as
 * there are fragments of its code. A write to it faults, and the engine handles that fault without
 * the program's knowledge: the page becomes writable again, its fragments are closed, and the write
 * is repeated. A page to which that happens often is never guarded again; its fragments get checks
 * instead (changing_code.c).
 *
 *	OPEN	-> GUARDED	code in it is about to be translated (guard_take)
 *	GUARDED	-> OPEN		a write; a system call that is given its address (guard_release)
 *	GUARDED	-> CHECKED	FAULTS_MAX writes
 *	any	-> forgotten	the program changes the mapping (guard_drop)
 *
 * The fault is a SIGSEGV, which must reach us at any time, as must the engine's own faults
 * (fault.c): the kernel has a handler of ours for it and never has it blocked while the thread is
 * in the engine, whatever the program has asked for. The mask that the program has asked for is
 * kept in the thread (segv); the program sees that one, and it decides about a SIGSEGV that is not
 * ours. If a SIGSEGV is sent by kill() to a thread that believes to have it blocked, hiding and
 * guarding end for good, because that signal has to stay pending in the kernel, where sigpending()
 * finds it.
 *
 * Invariants (the caller holds the engine's lock)
 * 1. A page that is protected has an entry. What has an entry is memory that the program believes
 *    it can write.
 * 2. While a page is protected, no thread in the cache has SIGSEGV blocked, and none is outside the
 *    engine: guarding does not begin before, and pauses when one leaves.
 */
#include <asm/signal.h>
#include <linux/mman.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum {
	ENTRIES_MAX = 1 << 12,
	BUCKETS = 1 << 12,
	FAULTS_MAX = 12,
	PAGE = 4096,
	INSTRUCTION_BYTES = 15,
	/* bytes below a guarded page: a buffer that begins there may reach the page */
	NEAR = 16 << 20,
	ELEMENT = 16, /* bytes of what a count in the next argument counts, at most */
	SMALL = 8192, /* of a structure whose size no argument tells */
	VECTOR_MAX = 1024,
};

#define SEGV_BIT (1ull << (SIGSEGV - 1))

enum state { OPEN, GUARDED, CHECKED };

struct entry {
	uint64_t page; /* its address */
	uint32_t state; /* enum state */
	uint32_t faults;
	struct entry *older; /* in its bucket, or in the list of free ones */
};

static struct entry *buckets[BUCKETS];
static struct entry *free_entries;
static size_t entry_count, guarded_count;
static uint64_t low = UINT64_MAX, high; /* between them lie all that were ever guarded */
static bool ended; /* guarding, for good */
static bool shown; /* masks are the kernel's own, for good: see guard_unhide() */

static struct entry **place_of(uint64_t page)
{
	struct entry **place = &buckets[page / PAGE % BUCKETS];

	while (*place && (*place)->page != page)
		place = &(*place)->older;
	return place;
}

static struct entry *entry_of(uint64_t address)
{
	return *place_of(address & ~(uint64_t)(PAGE - 1));
}

static struct entry *entry_make(uint64_t page)
{
	struct entry **place = place_of(page), *entry = free_entries;

	if (entry_count == ENTRIES_MAX)
		return NULL;
	if (entry)
		free_entries = entry->older;
	else
		entry = memory_take(sizeof(*entry));
	*entry = (struct entry){ .page = page };
	entry_count++;
	return *place = entry;
}

static void entry_open(struct entry *entry)
{
	if (entry->state != GUARDED)
		return;
	sys_3(mprotect, entry->page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	entry->state = OPEN;
	guarded_count--;
	cache_forget(entry->page, entry->page + PAGE);
}

/* --- Beginning and ending ---------------------------------------------------------------- */

/* A thread with handlers of its own (CLONE_SIGHAND not set) may not call ours. */
static bool may_guard(const struct thread *asking)
{
	if (ended || threads_native())
		return false;
	for (const struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		if (thread->sighand && thread->sighand != asking->sighand)
			return false;
	return true;
}

bool guard_has_any(void)
{
	return entry_count;
}

bool guard_is_hiding(void)
{
	return !__atomic_load_n(&shown, __ATOMIC_ACQUIRE);
}

void guard_pause(void)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct entry *entry = buckets[i]; entry; entry = entry->older)
			entry_open(entry);
}

void guard_end(void)
{
	guard_pause();
	ended = true;
}

void guard_show(void)
{
	guard_end();
	__atomic_store_n(&shown, true, __ATOMIC_RELEASE);
}

/* --- Pages ------------------------------------------------------------------------------- */

static bool entry_guard(struct entry *entry)
{
	if (entry->state == OPEN && entry->faults >= FAULTS_MAX)
		entry->state = CHECKED;
	if (entry->state != OPEN)
		return entry->state == GUARDED;
	if (sys_failed(sys_3(mprotect, entry->page, PAGE, PROT_READ | PROT_EXEC)))
		return false;
	entry->state = GUARDED;
	guarded_count++;
	low = entry->page < low ? entry->page : low;
	high = entry->page + PAGE > high ? entry->page + PAGE : high;
	return true;
}

/* Bytes from pc on that are guarded, as far as an instruction might need them. */
static uint64_t room(uint64_t pc)
{
	uint64_t left = PAGE - pc % PAGE;
	const struct entry *next;

	if (left >= INSTRUCTION_BYTES)
		return left;
	next = entry_of(pc + left);
	return left + (next && next->state == GUARDED ? PAGE : 0);
}

bool guard_ends(uint64_t pc)
{
	const struct entry *entry = guarded_count ? entry_of(pc) : NULL;

	return entry && entry->state == GUARDED ? room(pc) < INSTRUCTION_BYTES : false;
}

/* Stacks are not guarded, because they are written all the time. */
static bool is_fit(const struct thread *thread, const struct region *region)
{
	uint64_t rsp = thread->regs[RSP];

	return region->readable && region->writable && !region->shared &&
	       !(rsp >= region->start && rsp <= region->end);
}

bool guard_take(const struct thread *thread, uint64_t pc)
{
	struct entry *entry = entry_of(pc);
	const struct region *region = region_of(pc);

	if (!may_guard(thread) || !region)
		return false;
	if (!entry && is_fit(thread, region))
		entry = entry_make(pc & ~(uint64_t)(PAGE - 1));
	return entry && entry_guard(entry) && room(pc) >= INSTRUCTION_BYTES;
}

bool guard_knows(uint64_t pc)
{
	return entry_count && entry_of(pc);
}

bool guard_fault(uint64_t address)
{
	struct entry *entry;

	engine_lock();
	entry = entry_of(address);
	if (entry && entry->state == GUARDED) {
		entry->faults++;
		entry_open(entry);
		host_count(ENGINE_COUNT_WRITES);
	} else if (entry) {
		/*
		 * Another thread has opened it already; or one that guarded it was stopped before
		 * it could note that.
		 */
		sys_3(mprotect, entry->page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	}
	engine_unlock();
	return entry;
}

void guard_drop(uint64_t start, uint64_t end)
{
	if (!entry_count || start >= high || end <= low)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct entry **place = &buckets[i], *entry; (entry = *place);) {
			if (entry->page + PAGE <= start || entry->page >= end) {
				place = &entry->older;
				continue;
			}
			guarded_count -= entry->state == GUARDED;
			*place = entry->older;
			entry->older = free_entries;
			free_entries = entry;
			entry_count--;
		}
}

/* --- System calls: the kernel gives no signal when it cannot write, but an error --------- */

void guard_release(uint64_t start, uint64_t size)
{
	uint64_t end = start + size < start ? UINT64_MAX : start + size;

	if (!guarded_count || start >= high || end <= low)
		return;
	engine_lock();
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct entry *entry = buckets[i]; entry; entry = entry->older)
			if (entry->page + PAGE > start && entry->page < end)
				entry_open(entry);
	engine_unlock();
}

static void vector_release(uint64_t vector, uint64_t count)
{
	struct {
		uint64_t start, size;
	} piece;

	for (uint64_t i = 0; i < count && i < VECTOR_MAX; i++)
		if (user_read(&piece, vector + i * sizeof(piece), sizeof(piece)))
			guard_release(piece.start, piece.size);
}

/*
 * Every argument that could point to guarded pages, or below them, is taken for a pointer, and the
 * argument after it for a size or a count.
 */
void guard_release_arguments(const struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	const uint64_t given[] = {
		regs[RDI], regs[RSI], regs[RDX], regs[R10], regs[R8], regs[R9], 0
	};
	uint64_t message[7]; /* struct msghdr */

	if (!guarded_count)
		return;
	for (size_t i = 0; i < 6; i++) {
		uint64_t count = given[i + 1] < UINT32_MAX ? given[i + 1] : 0;

		if (given[i] + NEAR >= low && given[i] < high)
			guard_release(given[i], SMALL + count * ELEMENT);
	}
	switch (regs[RAX]) {
	case __NR_readv:
	case __NR_preadv:
	case __NR_preadv2:
	case __NR_process_vm_readv:
		vector_release(regs[RSI], regs[RDX]);
		break;
	case __NR_recvmsg:
		if (user_read(message, regs[RSI], sizeof(message)))
			vector_release(message[2], message[3]);
		break;
	case __NR_io_setup:
	case __NR_io_uring_setup: /* the kernel will write at any time */
		engine_lock();
		guard_end();
		engine_unlock();
	}
}

/* After an error that might be due to us: true if that can be different now. */
bool guard_release_all(void)
{
	bool any = guarded_count != 0;

	guard_release(0, UINT64_MAX);
	return any;
}

/* --- Masks ------------------------------------------------------------------------------- */

uint64_t guard_mask_kernel(struct thread *thread, uint64_t mask)
{
	if (thread_is_outside(thread))
		return mask; /* it executes its system calls itself */
	if (!(mask & SEGV_BIT))
		thread->segv = SEGV_OPEN;
	else
		thread->segv = guard_is_hiding() ? SEGV_HIDDEN : SEGV_BLOCKED;
	return thread->segv == SEGV_HIDDEN ? mask & ~SEGV_BIT : mask;
}

/*
 * SIGSEGV was sent to a thread that believes to have it blocked. It must stay pending in the
 * kernel, where sigpending, sigtimedwait, signalfd and calls with a mask of their own find it.
 */
bool guard_hides(const struct thread *thread)
{
	return thread->segv == SEGV_HIDDEN && !thread_is_native(thread);
}

uint64_t guard_unhide(struct thread *thread, uint64_t mask)
{
	engine_lock();
	guard_show();
	engine_unlock();
	thread->segv = SEGV_BLOCKED;
	return mask | SEGV_BIT;
}

/* The thread goes on natively, so the kernel gets the mask that the program wants. */
void guard_leave(struct thread *thread)
{
	uint64_t segv = SEGV_BIT;

	if (thread->segv != SEGV_OPEN)
		sys_4(rt_sigprocmask, SIG_BLOCK, &segv, 0, 8);
	thread->segv = SEGV_OPEN;
	guard_pause();
}

uint64_t guard_mask_program(const struct thread *thread, uint64_t mask)
{
	return thread->segv != SEGV_OPEN ? mask | SEGV_BIT : mask;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * System calls of the program about its address space, in which the engine has memory too.
 *
 * The engine's memory is not there for the program (maps.c leaves it out of /proc/self/maps), so
 * each call does what it would do if there were a hole:
 *
 *	unmaps, gives advice		only the parts that are the program's
 *	changes protection, locks	the part in front of the hole; then it fails, as it does
 *					at a hole
 *	maps there, grows to there	arenas there are given up first (cache_yield). What cannot
 *					be moved stays: the image, memory shared with the host,
 *					data of threads. Then the call fails as if the address
 *					was taken
 *
 * Invariants
 * 1. While such a call is under way, the engine maps nothing in its range (thread->wants_start,
 *    memory_wanted), because the call would destroy it.
 * 2. Fragments of code in the range are closed after the call.
 */
#include <asm/errno.h>
#include <linux/mman.h>
#include <linux/shm.h>
#include <linux/userfaultfd.h>

#include "engine/engine.h"
#include "engine/sys.h"
#include "engine/tool.h"

enum { PAGE = 4096, ADVICE_GUARD_INSTALL = 102, ADVICE_GUARD_REMOVE = 103 };

/* A child has other memory at some place than its parent. */
static bool differs_in_child;

static uint64_t page_up(uint64_t address)
{
	return (address + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* --- Ranges ------------------------------------------------------------------------------ */

struct range {
	uint64_t start, end;
};

/* A range of whole pages; empty if the kernel would refuse it. */
static struct range range_of(uint64_t start, uint64_t size)
{
	struct range range = { start, start + page_up(size) };

	if (start % PAGE || size > USER_ADDRESSES || start > USER_ADDRESSES - page_up(size))
		range.end = start;
	return range;
}

/* From here to range_done() the engine maps nothing there. Gives the first piece that is ours. */
static bool range_begin(struct thread *thread, struct range range, struct engine_mapping *ret)
{
	bool found;

	engine_lock();
	thread->wants_start = range.start;
	thread->wants_end = range.end;
	found = memory_first(range.start, range.end, ret);
	engine_unlock();
	return found;
}

static void range_done(struct thread *thread)
{
	thread->wants_start = thread->wants_end = 0;
}

static void range_changed(uint64_t start, uint64_t size, bool executable)
{
	engine_lock();
	guard_drop(start, start + size);
	if (regions_change(start, start + size, executable))
		cache_forget(start, start + size);
	engine_unlock();
}

static void range_gone(uint64_t start, uint64_t size)
{
	engine_lock();
	tools_unmapped(start, (start + size + PAGE - 1) & -(uint64_t)PAGE);
	engine_unlock();
}

/* The program is about to map something there. False: something is there that cannot be moved. */
static bool range_free(struct thread *thread, struct range range)
{
	struct engine_mapping ours;

	return !range_begin(thread, range, &ours) || cache_yield(range.start, range.end);
}

/* --- Calls about memory that is there ---------------------------------------------------- */

/* The call with another range. */
static long part_pass(struct thread *thread, uint64_t start, uint64_t end)
{
	uint64_t *regs = thread->regs, before[] = { regs[RDI], regs[RSI] };
	long result;

	regs[RDI] = start;
	regs[RSI] = end - start;
	result = program_syscall(thread);
	regs[RDI] = before[0];
	regs[RSI] = before[1];
	return result;
}

/* All parts that are the program's, up to an error that is not about a hole. */
static long parts_pass(struct thread *thread, struct range range, struct engine_mapping ours)
{
	long result = 0, one;
	bool more = true;

	while (more) {
		one = ours.start > range.start ? part_pass(thread, range.start, ours.start) : 0;
		if (one == PROGRAM_RESTART || (sys_failed(one) && one != -ENOMEM))
			return one;
		result = one ? one : result;
		range.start = ours.start + ours.size;
		more = range.start < range.end && range_begin(thread, range, &ours);
	}
	if (range.start < range.end)
		one = part_pass(thread, range.start, range.end);
	return one ? one : result;
}

/* A call that takes a range in its first two arguments. */
static long existing_pass(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	struct range range = range_of(regs[RDI], regs[RSI]);
	struct engine_mapping ours;
	long result;

	if (!range_begin(thread, range, &ours))
		return program_syscall(thread);
	switch (regs[RAX]) {
	case __NR_munmap:
		return parts_pass(thread, range, ours);
	case __NR_madvise:
	case __NR_msync:
		result = parts_pass(thread, range, ours);
		break;
	default:
		result = ours.start > range.start ? part_pass(thread, range.start, ours.start) : 0;
	}
	return result ? result : -ENOMEM;
}

long mapping_range(struct thread *thread)
{
	long result = existing_pass(thread);

	range_done(thread);
	return result;
}

/*
 * Memory that is discarded reads as 0 afterwards, or as the file has it, even where it cannot be
 * written.
 */
static bool is_discarding(uint32_t advice)
{
	switch (advice) {
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
	case MADV_FREE:
	case MADV_REMOVE:
	case ADVICE_GUARD_INSTALL:
	case ADVICE_GUARD_REMOVE:
		return true;
	default:
		return false;
	}
}

long mapping_advice(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	uint32_t advice = (uint32_t)regs[RDX];
	long result;

	if (advice == MADV_WIPEONFORK || advice == MADV_DONTFORK)
		differs_in_child = true;
	if (!is_discarding(advice))
		return mapping_range(thread);
	guard_release(regs[RDI], regs[RSI]);
	result = mapping_range(thread);
	range_changed(regs[RDI], regs[RSI], false);
	return result;
}

void mapping_forked(void)
{
	if (!differs_in_child)
		return;
	engine_lock();
	guard_pause();
	engine_unlock();
	range_changed(0, UINT64_MAX, true);
}

long mapping_brought(struct thread *thread)
{
	struct uffdio_register wanted;
	uint64_t at = thread->regs[RDX];
	long result = program_syscall(thread);

	if (result || !user_read(&wanted, at, sizeof(wanted)))
		return result;
	engine_lock();
	regions_brought(wanted.range.start, wanted.range.start + wanted.range.len);
	engine_unlock();
	range_changed(wanted.range.start, wanted.range.len, true);
	return result;
}

/* --- Calls that put something there ------------------------------------------------------ */

/* An address without MAP_FIXED is a hint, which is honoured if the place is free. */
static long map_pass(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	uint64_t flags = regs[R10];
	bool exact = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
	uint64_t start = exact ? regs[RDI] : page_up(regs[RDI]);

	if (start && !range_free(thread, range_of(start, regs[RSI])) && flags & MAP_FIXED &&
	    !(flags & MAP_FIXED_NOREPLACE))
		return -ENOMEM;
	return program_syscall(thread);
}

static long remap_pass(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	uint64_t old_end = regs[RDI] + page_up(regs[RSI]), size = page_up(regs[RDX]);
	struct range old = range_of(regs[RDI], regs[RSI] ? regs[RSI] : 1);
	struct engine_mapping ours;

	if (range_begin(thread, old, &ours))
		return -EFAULT;
	if (regs[R10] & MREMAP_FIXED && !range_free(thread, range_of(regs[R8], size)))
		return -ENOMEM;
	if (!(regs[R10] & MREMAP_MAYMOVE) && regs[RDI] + size > old_end)
		range_free(thread, range_of(old_end, regs[RDI] + size - old_end));
	return program_syscall(thread);
}

static long implied = -1; /* personality; -1: not known */

long mapping_personality(struct thread *thread)
{
	implied = -1;
	return program_syscall(thread);
}

/* With the personality READ_IMPLIES_EXEC, memory that can be read is executable. */
static bool is_executable(uint64_t protection)
{
	enum { READ_IMPLIES_EXEC = 0x400000 };

	if (implied < 0)
		implied = sys_1(personality, 0xffffffff);
	return protection & PROT_EXEC || (protection & PROT_READ && implied & READ_IMPLIES_EXEC);
}

static long change_pass(struct thread *thread)
{
	switch (thread->regs[RAX]) {
	case __NR_mmap:
		return map_pass(thread);
	case __NR_mremap:
		return remap_pass(thread);
	default:
		return existing_pass(thread);
	}
}

long mapping_change(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	uint64_t number = regs[RAX];
	bool executable = number != __NR_munmap && number != __NR_mremap &&
			  is_executable(regs[RDX]);
	long result;

	guard_release(regs[RDI], regs[RSI]); /* it may be moved, or fail halfway */
	result = change_pass(thread);
	syscall_note(thread, result);
	range_done(thread);
	if (result == PROGRAM_RESTART || (sys_failed(result) && number != __NR_mprotect &&
					  number != __NR_pkey_mprotect && number != __NR_munmap))
		return result; /* a call that has failed may have changed a part of the range */
	range_changed(number == __NR_mmap ? (uint64_t)result : regs[RDI], regs[RSI], executable);
	if (number == __NR_mmap || number == __NR_munmap || number == __NR_mremap)
		range_gone(number == __NR_mmap ? (uint64_t)result : regs[RDI], regs[RSI]);
	if (number == __NR_mremap) /* it may have moved code */
		range_changed((uint64_t)result, regs[RDX], true);
	return result;
}

/* 0: there is no such segment, or it is not for this process. */
static uint64_t segment_size(uint64_t id)
{
	struct shmid64_ds about;

	return sys_failed(sys_3(shmctl, id, IPC_STAT, &about)) ? 0 : about.shm_segsz;
}

static long attach_pass(struct thread *thread)
{
	const uint64_t *regs = thread->regs;
	uint64_t start = regs[RSI], flags = regs[RDX];

	if (flags & SHM_RND)
		start &= ~(uint64_t)(PAGE - 1);
	if (start && !range_free(thread, range_of(start, segment_size(regs[RDI]))) &&
	    flags & SHM_REMAP)
		return -ENOMEM;
	return program_syscall(thread);
}

long mapping_shared(struct thread *thread)
{
	long result = thread->regs[RAX] == __NR_shmat ? attach_pass(thread)
						      : program_syscall(thread);

	syscall_note(thread, result);
	range_done(thread);
	range_changed(0, UINT64_MAX, true);
	return result;
}

/* Serves brk(). The kernel keeps a page free between the heap and the mapping above it. */
long mapping_heap(struct thread *thread)
{
	uint64_t wanted = thread->regs[RDI], end;
	struct engine_mapping ours;
	struct range grown;
	long result = program_syscall(thread);

	end = (uint64_t)result;
	if (result == PROGRAM_RESTART || sys_failed(result) || wanted <= end)
		return result;
	grown = range_of(page_up(end), page_up(wanted) + PAGE - page_up(end));
	if (range_begin(thread, grown, &ours)) {
		cache_avoid_heap(wanted);
		if (cache_yield(grown.start, grown.end))
			result = program_syscall(thread);
	}
	range_done(thread);
	return result;
}

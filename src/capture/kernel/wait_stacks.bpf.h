/* SPDX-License-Identifier: Dual BSD/GPL */
/*
 * The stacks of a wait: where a thread leaves its processor, and from where it is woken.
 *
 * The kernel's frames come first, without those that are the same in all stacks, then the user's
 * by unwind rows (walk.bpf.h). Hosts are told of a stack once and know it by its hash from then on.
 */
#pragma once

#include "capture/kernel/registers.bpf.h"
#include "capture/kernel/wait_cause.bpf.h"
#include "capture/kernel/walk.bpf.h"

/* Set by the loader. Code of the kernel, from its first byte to behind its last; 0: not known. */
const volatile __u64 switch_start = 0, switch_end = 0; /* of what switches */
const volatile __u64 waking_start = 0, waking_end = 0; /* of what wakes */
const volatile __u64 entry_start = 0, entry_end = 0; /* of entries from user code and interrupts */

struct trim {
	struct walk *walk;
	__u64 start, end; /* of the code that is left out, with all that it called */
	/* Where an interrupt came in: the frames below it were interrupted. */
	__u64 entry_start, entry_end;
	__u32 count; /* frames taken */
	__u32 skip; /* frames taken that are left out */
	__u32 at; /* frames copied */
	__u32 interrupted; /* there are frames below the entry */
};

enum { TRIM_SEARCH = 8 };

static long trim_search(__u32 index, struct trim *trim)
{
	__u64 frame;

	if (index >= trim->count || index >= TRIM_SEARCH)
		return 1;
	frame = trim->walk->frames[index & (TRIM_SEARCH - 1)];
	if (frame < trim->start || frame >= trim->end)
		return 0;
	trim->skip = index + 1;
	return 1;
}

static long trim_copy(__u32 index, struct trim *trim)
{
	struct walk *walk = trim->walk;
	__u32 from = index + trim->skip;
	__u64 frame;

	if (from >= trim->count || from >= SAMPLE_KERNEL_DEPTH_MAX ||
	    index >= SAMPLE_KERNEL_DEPTH_MAX)
		return 1;
	frame = walk->frames[from];
	walk->frames[index] = frame;
	walk->hash = mix(walk->hash, frame);
	trim->at = index + 1;
	if (frame < trim->entry_start || frame >= trim->entry_end)
		return 0;
	trim->interrupted = from + 1 < trim->count;
	return 1;
}

/* The kernel's stack, cut as trim says; at 0 frames if there is none. */
static __always_inline void frames_trim(void *ctx, struct trim *trim)
{
	long size = bpf_get_stack(ctx, trim->walk->frames, SAMPLE_KERNEL_DEPTH_MAX * 8, 0);

	if (size < 8)
		return;
	trim->count = (__u32)size / 8;
	bpf_loop(TRIM_SEARCH, trim_search, trim, 0);
	bpf_loop(SAMPLE_KERNEL_DEPTH_MAX, trim_copy, trim, 0);
}

/*
 * The kernel's stack without what is the same in all of them: this program, and the function that
 * called it. Out of line, so that its frame is gone when the user's stack is walked.
 */
static __noinline __u32 kernel_frames(void *ctx, struct walk *walk)
{
	struct trim trim = { .walk = walk, .start = switch_start, .end = switch_end };

	if (!ctx || !walk)
		return 0;
	frames_trim(ctx, &trim);
	return trim.at;
}

enum { INTERRUPTED = 1 << 31 };

/* The same of a waker, down to where it entered the kernel; INTERRUPTED: from within the kernel. */
static __noinline __u32 waker_frames(void *ctx, struct walk *walk)
{
	struct trim trim = { .walk = walk,
			     .start = waking_start,
			     .end = waking_end,
			     .entry_start = entry_start,
			     .entry_end = entry_end };

	if (!ctx || !walk)
		return 0;
	frames_trim(ctx, &trim);
	return trim.at | (trim.interrupted ? INTERRUPTED : 0);
}

/* The user's stack of the current thread, which is in the kernel. */
static __always_inline void user_frames(struct walk *walk)
{
	if (registers_saved(walk))
		walk->end = STACK_END_NO_USER;
	else
		walk_from_registers(walk);
}

/* Makes sure that the host has the stack; its hash, or 0: the ring is full. */
static __noinline __u64 stack_tell(struct walk *walk)
{
	__u64 hash;
	__u32 one = 1;

	if (!walk)
		return 0;
	hash = mix(walk->hash, walk->end);
	walk->hash = hash;
	if (bpf_map_lookup_elem(&stacks_sent, &hash))
		return hash;
	identity_send_once(&walk->subject);
	if (stack_send(&walk->subject, walk))
		return 0;
	bpf_map_update_elem(&stacks_sent, &hash, &one, BPF_ANY);
	return hash;
}

static __noinline __u64 dump_tell(struct walk *walk)
{
	struct dump_scratch *dump = bpf_map_lookup_elem(&dump_scratches, &(__u32){ ZERO });

	if (!walk || !dump)
		return 0;
	identity_send_once(&walk->subject);
	if (dump_send(&walk->subject, walk, dump))
		return 0;
	return waits_dump_hash(walk->subject.time, walk->subject.tid);
}

/* Frames of the kernel have been taken before the walk began; their hash goes into the walk's. */
static __always_inline void walk_start(struct walk *walk, __u32 kernel_count)
{
	__u64 hash = walk->hash;

	walk_begin(walk, &walk->subject.image, kernel_count);
	walk->hash = mix(walk->hash, hash);
}

static __always_inline void subject_is(struct walk *walk, struct task_struct *task, __u64 now)
{
	walk->subject.time = now;
	walk->subject.tid = (__u32)task->pid;
	walk->subject.in_kernel = 1;
	walk->hash = 0;
	image_of(task, &walk->subject.image);
}

/*
 * The kernel's own unwinder takes longer than everything else here. It is spared where it would
 * tell what the cause says already: these are left in one way only.
 */
static __always_inline int cause_says_all(__u32 cause)
{
	return cause == WAIT_LOCK || cause == WAIT_PIPE || cause == WAIT_SOCKET ||
	       cause == WAIT_POLL || cause == WAIT_SLEEP || cause == WAIT_CHILD;
}

/* Where the current thread leaves its processor. */
static __always_inline __u64 stack_here(void *ctx, struct task_struct *task, __u32 cause, __u64 now)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &(__u32){ ZERO });

	if (!walk)
		return 0;
	subject_is(walk, task, now);
	walk_start(walk, cause_says_all(cause) ? 0 : kernel_frames(ctx, walk));
	user_frames(walk);
	return walk->unpublished ? dump_tell(walk) : stack_tell(walk);
}

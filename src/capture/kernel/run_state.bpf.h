/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel's executor of micro-operations keeps: settings, maps, and the state of a run.
 * run.bpf.h says how it works and what must hold.
 */
#pragma once

#include "capture/kernel/sampler_common.bpf.h"
#include "wire/run.h"

/* Set by the loader. */
const volatile __u8 run_values = 0; /* 0: nothing is interpreted */
const volatile __u32 blocks_mask =
	0; /* slots of the table of translations, a power of two, less 1 */
const volatile __u16 run_flags = 0; /* RUN_SYSTEM, RUN_OVERWRITTEN */
const volatile __s64 percpu_base_place =
	0; /* offset of the per-CPU base from the run queue; 0: not known */
/* offset of the preemption count from the run queue; 0: not known */
const volatile __s64 preempt_count_place = 0;
const volatile __u64 direct_map_variable =
	/* address of the variable that holds the direct map's address; 0: it is DIRECT_MAP_FIXED */
	0;
const volatile __u64 page_map_variable =
	0; /* the same for the table of pages; 0: it is PAGE_MAP_FIXED */
const volatile __u64 image_start = 0, image_end = 0; /* of the kernel */
const volatile __u64 modules_start = 0, modules_end = 0; /* of its modules' memory */
/* Physical memory that is plain RAM. */
const volatile struct {
	__u64 start, size;
} ram[RUN_RAM_RANGES] = {};

/* Parts of the preemption count (linux/preempt.h). */
#define SOFTIRQ_SERVED 0x100
#define HARDIRQ_ONE 0x10000
#define HARD_MASK 0xff0000 /* interrupts, and those that cannot be masked */
#define DUMPABLE_MASK 3 /* of the flags of memory (linux/sched/coredump.h) */
#define DUMPABLE_BY_USER 1
#define NEED_RESCHED 0x80000000 /* not a part: a flag, inverted */

/* The recorder changes these while it records. */
volatile __u32 run_every = 0; /* one of so many samples has a run */
volatile __u32 run_length = 0; /* instructions captured */
volatile __u32 run_skip = 0; /* most instructions skipped before */

/* Once known. */
volatile __u32 preempt_ours = HARDIRQ_ONE; /* what our own interrupt adds to the preemption count */
volatile __u32 preempt_known = 0; /* preempt_ours was read where user code was interrupted */
volatile __u32 rcu_ours = 1; /* what the kernel adds to RCU's count when it calls our program */
volatile __u64 direct_map = 0;
volatile __u64 page_map = 0; /* a struct page for each page of RAM */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* blocks_mask + 1 */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct run_block);
} blocks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct uop);
} uops SEC(".maps");

/*
 * Requests that are under way: each is made once, and again when the translation turned out stale.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct block_key);
	__type(value, __u64);
} blocks_wanted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct run_tally);
} run_tallies SEC(".maps");

enum {
	OVERLAY_WORDS = 512, /* a power of two */
	OVERLAY_POISON_WORDS = 9, /* that 64 bytes may touch */
	WINDOW_SIZE = 128, /* a power of two: windows do not cross pages */
	WINDOWS = 16, /* a power of two */
	THREAD_SIZE = 16384,
	PAGE = 4096,
	WAKE_AGAIN_NS = 5000000,
	WAKE_REQUESTS = 4, /* fewer wait for the recorder's next round */
	WANT_AGAIN_NS = 100000000, /* a request that was not answered is repeated */
	FIRST_MEGABYTE = 1 << 20, /* has holes for devices, so it does not count as RAM */
};

/*
 * Where the direct map of RAM begins if it is not randomised, with page tables of four levels
 * (x86_64/mm.rst).
 */
#define DIRECT_MAP_FIXED 0xffff888000000000ull
#define PAGE_MAP_FIXED 0xffffea0000000000ull
#define PAGE_MAP_SIZE (1ull << 40)
#define KERNEL_GENERATION (~0ull) /* processes have numbers of 32 bits */
#define NOWHERE 1
#define USER_END 0x00007ffffffff000ull

struct overlay_word {
	__u64 address; /* multiple of 8 */
	__u64 data;
	__u32 serial; /* of the run that stored it */
	__u8 present; /* bit per byte: stored by the run */
	__u8 unknown; /* bit per byte: stored, but the value is not known */
	__u16 reserved;
};

/*
 * Memory as it was when the run first looked. Reading costs nearly the same for a few hundred bytes
 * as for eight, and what a run reads lies close together, its code too.
 */
struct window {
	__u64 start;
	__u32 serial; /* of the run */
	__u32 missing;
	__u8 data[WINDOW_SIZE + 8]; /* eight more: words are read whole */
};

struct run {
	struct uop_state state;
	__u64 mapping_start, mapping_size; /* where pc was found last; size 0: nowhere */
	__u64 mapping_generation; /* of the process that the mapping is of */
	__u64 bias;
	__u64 stack_start; /* of the kernel stack in use, for runs in the kernel */
	__u64 rsp_page;
	__u64 preempt_count; /* its address, in runs of the kernel; 0: not known */
	__u64 rcu_depth; /* the task's rcu_read_lock_nesting; likewise */
	__u64 woken; /* when the recorder was last woken for a translation */
	__u32 waiting; /* requests since then */
	__u32 reserved;
	struct sampler_process process;
	__u32 module;
	__u32 first; /* of the block's micro-operations */
	__u32 count; /* of micro-operations; 0: a block has yet to be entered */
	__u32 at; /* of the instruction under way */
	__u32 begun; /* instructions, the one under way included */
	__u32 limit;
	__u64 stored; /* which words may be in the overlay, by bits of their hash */
	__u32 serial;
	__u32 log_count;
	__u32 end; /* enum uop_end */
	__u32 in_kernel;
	__u32 user_hidden; /* the process's memory may be a device */
	__u32 guard; /* RUN_GUARDED or 0 */
	__u8 code[UOP_CODE_MAX + 8];
	struct window windows[WINDOWS];
	struct overlay_word overlay[OVERLAY_WORDS];
	struct run_wanted wanted;
	struct run_block block; /* the one being entered */
	struct pt_regs user_regs; /* of the system call under way, for system_call_log() */
	__u64 missing[RUN_LOG_MAX / 64]; /* bit per word of the log */
	struct run_record record; /* log[] continues into the next field */
	__u64 log[RUN_LOG_MAX + RUN_LOG_MAX / 64];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct run);
} runs SEC(".maps");

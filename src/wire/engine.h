/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the host hands to the engine that it puts into a process, and the mailbox between the two.
 *
 * The host stops a process at an instruction, maps the engine's image, a stack, this structure and a piece of memory shared
 * with the host, and lets it run at engine_entry with rdi pointing to struct engine_boot and rsp at the top of the stack.
 * From then on no tracer is attached; what the engine needs from the host, it asks for in the mailbox. Whatever of the
 * program's state is not in engine_boot (vector registers, signal mask, pending signals, alternate stack) is untouched: the
 * engine finds it where the program would.
 *
 * A request: take a FREE slot by compare-and-swap to TAKEN, fill it, store ASKED, add 1 to bell, wake one waiter of bell, wait
 * on the slot's state until it is ANSWERED, read the answer, store FREE. No slot free: wait a moment and look again.
 *
 * The host may be gone at any time. So each wait has a timeout of a second at most, after which the engine looks whether
 * `closed` is set or host_pid has ended, whether or not anybody has waited for it. Then the slot is given up as it is, and the engine
 * goes on as if the answer had been -ESHUTDOWN. The host sets `closed` when it leaves, before it looks at the slots for the
 * last time, and answers -ESHUTDOWN to what it finds there.
 *
 * An exec: ENGINE_REQUEST_EXEC; whatever the answer, the engine then does the program's execve. After answer 0 the host is
 * this thread's tracer (SEIZE, so that by itself stops nothing) and takes the new program at its first instruction; after any
 * other answer the new program runs natively. If execve returns and the answer was 0, ENGINE_REQUEST_EXEC_FAILED makes the
 * host let go. With ENGINE_NO_CHILDREN there is no need to ask.
 */
#pragma once

#include "wire/unwind.h"

enum {
	ENGINE_BOOT_VERSION = 1,
	ENGINE_STACK_SIZE = 256 * 1024, /* the first thread's, below a page that is not mapped */
	ENGINE_SHARED_SIZE = 1 << 20,
	ENGINE_REQUESTS = 64, /* slots of the mailbox; a power of two */
};

/* Registers of a thread, in x86's numbering. */
struct engine_registers {
	wire_u64 general[16];
	wire_u64 rip;
	wire_u64 rflags;
	wire_u64 fs_base;
	wire_u64 gs_base;
};

/* Places in the engine's code and data, for whoever stops a thread of it. */
struct engine_places {
	wire_u64 resume_start, resume_end; /* here all registers of the program are in its thread */
	wire_u64 call_start; /* the program's system call: from here to call_insn it is yet to be done */
	wire_u64 call_insn, call_done;
	wire_u64 release; /* where a stopped thread is sent: rdi points to its struct engine_parked */
	wire_u64 mappings; /* struct engine_mappings */
};

struct engine_boot {
	wire_u64 version; /* ENGINE_BOOT_VERSION */
	wire_u64 image_start,
		image_size; /* everything the host has mapped for the engine lies in one piece */
	wire_u64 stack_start; /* lowest byte of the stack */
	wire_u64 shared; /* struct engine_shared; 0: none */
	wire_u64 host_pid;
	wire_u64 tool; /* enum engine_tool */
	wire_u64 flags; /* enum engine_flag */
	wire_u64 session; /* a random number: by it the host knows a process that it has taken */
	struct engine_registers registers; /* where the program goes on */
	wire_u64 shared_size; /* ENGINE_SHARED_SIZE, or more: then tools record (wire/stream.h) */
	wire_u64 cache_bytes; /* limit of the code cache; 0: the engine's own */
	wire_u64 starts,
		starts_size; /* of a running process: struct engine_start and a stack for each thread */
	wire_u64 leaving; /* set by the host. 1: every thread hands itself back; 2: of other processes, too */
	struct engine_places places; /* filled in by the engine before it does anything else */
};

/*
 * A thread of a running process, at engine_attach with rdi pointing to struct engine_boot, rsi to this, which lies above its
 * stack. All signals are blocked.
 */
struct engine_start {
	struct engine_registers registers;
	wire_u64 mask; /* the program's signal mask */
	wire_u64 rseq; /* what it has registered: address, 0 none */
	wire_u32 rseq_size, rseq_signature;
};

enum {
	ENGINE_START_SIZE = 64 * 1024, /* of a stack with what it begins with */
	ENGINE_PARKED_SIZE = 64 * 1024,
	ENGINE_MAPPINGS = 4096,
};

/*
 * A thread leaves. It puts down here what the program's registers and mask are, and parks: it makes the system call -1 with
 * rdi the session and rsi the address of this, again and again. The host, attached, sets the registers and that is all.
 */
struct engine_parked {
	struct engine_registers registers;
	wire_u64 mask;
	wire_u32 again; /* not now: the registers are as they were when it was sent */
	wire_u32 finish; /* set by the host in the last thread: gives the program its handlers back, clears this */
};

/* Memory of the engine besides what the host has mapped. */
struct engine_mappings {
	wire_u64 count;
	struct engine_mapping {
		wire_u64 start, size;
	} items[ENGINE_MAPPINGS];
};

/* Columns: name, text, what a person reads. */
#define ENGINE_TOOLS(X)                                                                            \
	X(NATIVE, "native", "hands the program back at once: tests the way in")                    \
	X(NONE, "none", "runs the program in the engine and records nothing")                      \
	X(COUNT, "count", "counts how often each piece of code is executed")                       \
	X(BLOCKS, "blocks", "hands the sequence of executed blocks to the host, and counts there") \
	X(PATHS, "paths", "keeps the order of all that is executed: paths, strata, layers")        \
	X(COVERAGE, "coverage", "notes which code is executed at all")

enum engine_tool {
#define X(name, text, help) ENGINE_TOOL_##name,
	ENGINE_TOOLS(X)
#undef X
		ENGINE_TOOLS_END
};

enum engine_flag {
	ENGINE_NO_CHILDREN = 1, /* what the program execs runs natively */
};

enum engine_request_kind {
	ENGINE_REQUEST_EXEC =
		1, /* tid is about to exec: attach, so that the new program can be taken over */
	ENGINE_REQUEST_EXEC_FAILED = 2, /* it is still the old program: let go */
};

/* States of a slot; a futex. The engine goes FREE -> ASKED, the host ASKED -> ANSWERED, the engine back to FREE. */
enum engine_request_state {
	ENGINE_SLOT_FREE,
	ENGINE_SLOT_TAKEN, /* being filled */
	ENGINE_SLOT_ASKED,
	ENGINE_SLOT_ANSWERED,
};

struct engine_request {
	wire_u32 state; /* enum engine_request_state */
	wire_u32 kind;
	wire_u32 pid;
	wire_u32 tid;
	int answer; /* 0 or a negative errno */
	int directory; /* EXEC: what execveat was given, or AT_FDCWD */
	wire_u64 path; /* EXEC: address of the program's name, as given to execve */
	wire_u64 boot; /* address of this process's struct engine_boot, as it was in rdi; it must stay mapped and as it was */
	wire_u64 reserved[3];
};

/* Why a thread goes on natively. Columns: name, word in summaries, what a person reads after "left the engine: ". */
#define ENGINE_LEAVES(X)                                                                           \
	X(INSTRUCTION, "instruction", "threads, for an instruction that cannot be copied")         \
	X(NOWHERE, "nowhere", "threads, for a jump to where no code is")                           \
	X(FILTER, "filter", "processes, for a filter of system calls (seccomp)")                   \
	X(TRACED, "traced", "processes, for a tracer of their own")                                \
	X(ROOM, "room", "threads, for want of memory near their code")

enum engine_leave {
#define X(name, word, text) ENGINE_LEAVE_##name,
	ENGINE_LEAVES(X)
#undef X
		ENGINE_LEAVES_END
};

/* What engines count. Columns: name, word in summaries, what a person reads. */
#define ENGINE_COUNTS(X)                                                                           \
	X(EVICTIONS, "evictions", "parts of code caches were given up")                            \
	X(STALE, "stale", "pieces of translated code were found to be out of date")                \
	X(WRITES, "writes", "writes went to pages of translated code")

enum engine_count {
#define X(name, word, text) ENGINE_COUNT_##name,
	ENGINE_COUNTS(X)
#undef X
		ENGINE_COUNTS_END
};

/* At the start of the shared memory. */
struct engine_shared {
	wire_u32 bell; /* futex: grows with each request; the host sleeps on it */
	wire_u32 closed; /* the host takes no more requests */
	wire_u32 left[ENGINE_LEAVES_END]; /* written by engines; by enum engine_leave */
	wire_u32 counts[ENGINE_COUNTS_END]; /* by enum engine_count, of all processes */
	wire_u32 reserved[14 - ENGINE_LEAVES_END - ENGINE_COUNTS_END];
	struct engine_request requests[ENGINE_REQUESTS];
};

_Static_assert(sizeof(struct engine_request) == 64, "wire");
_Static_assert(sizeof(struct engine_boot) == 9 * 8 + 20 * 8 + 12 * 8, "read by assembly");
_Static_assert(sizeof(struct engine_shared) == 64 + 64 * ENGINE_REQUESTS, "wire");

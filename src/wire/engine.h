/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The structure that the host hands to the engine which it puts into a process (struct
 * engine_boot), and the mailbox in which the engine makes requests.
 *
 * The host stops a process at an instruction, maps the engine's image, a stack, this structure and
 * a piece of memory shared with the host, and lets it run at engine_entry with rdi pointing to
 * struct engine_boot and rsp at the top of the stack. From then on no tracer is attached; what the
 * engine needs from the host, it asks for in the mailbox. Whatever of the program's state is not in
 * engine_boot (vector registers, signal mask, pending signals, alternate stack) is untouched: the
 * engine finds it where the program would.
 *
 * A request: take a FREE slot by compare-and-swap to TAKEN, fill it, store ASKED, add 1 to bell,
 * wake one waiter of bell, wait on the slot's state until it is ANSWERED, read the answer, store
 * FREE. If no slot is free, the engine waits a moment and looks again.
 *
 * The host may be gone at any time. So each wait has a timeout of a second at most, after which the
 * engine checks whether `closed` is set or the host has ended (STREAM_HOST in wire/stream.h,
 * otherwise host_pid; a host that is a zombie has ended, too). Then the slot is given up as it is,
 * and the engine goes on as if the answer had been -ESHUTDOWN. The host sets `closed` when it
 * leaves, before it looks at the slots for the last time, and answers -ESHUTDOWN to what it finds
 * there.
 *
 * An exec: ENGINE_REQUEST_EXEC; whatever the answer, the engine then does the program's execve.
 * After answer 0 the host is this thread's tracer (SEIZE, so that by itself stops nothing) and
 * takes the new program at its first instruction; after any other answer the new program runs
 * natively. If execve returns and the answer was 0, ENGINE_REQUEST_EXEC_FAILED makes the host let
 * go. With ENGINE_NO_CHILDREN there is no need to ask.
 */
#pragma once

#include "wire/tools.h"

enum {
	ENGINE_BOOT_VERSION = 3,
	ENGINE_STACK_SIZE = 256 * 1024, /* the first thread's, below a page that is not mapped */
	ENGINE_SHARED_SIZE = 1 << 20,
	ENGINE_REQUESTS = 64, /* slots of the mailbox; a power of two */
	/*
	 * A result of system calls by which the engine knows that the call has to be repeated: no
	 * errno, because a call may give any number that is not one.
	 */
	ENGINE_CALL_OFF = -4093,
};

/* Registers of a thread, in x86's numbering. */
struct engine_registers {
	wire_u64 general[16];
	wire_u64 rip;
	wire_u64 rflags;
	wire_u64 fs_base;
	wire_u64 gs_base;
};

/* Places in the engine's code and data, for a tracer that stops one of its threads. */
struct engine_places {
	/* in this code the thread has all of the program's registers */
	wire_u64 resume_start, resume_end;
	/* the program's system call: from here to call_insn it is yet to be done */
	wire_u64 call_start;
	wire_u64 call_insn, call_done;
	/* where a stopped thread is sent: rdi points to its struct engine_parked */
	wire_u64 release;
	wire_u64 mappings; /* struct engine_mappings */
};

struct engine_boot {
	wire_u64 version; /* ENGINE_BOOT_VERSION */
	wire_u64 image_start,
		image_size; /* everything the host has mapped for the engine lies in one piece */
	wire_u64 stack_start; /* lowest byte of the stack */
	wire_u64 shared; /* struct engine_shared; 0: none */
	wire_u64 host_pid;
	wire_u64 tools; /* a set: ENGINE_TOOL_BIT */
	wire_u64 flags; /* enum engine_flag */
	wire_u64 session; /* a random number: by it the host knows a process that it has taken */
	struct engine_registers registers; /* where the program goes on */
	wire_u64 shared_size; /* ENGINE_SHARED_SIZE, or more: then tools record (wire/stream.h) */
	wire_u64 cache_bytes; /* limit of the code cache; 0: the engine's own */
	wire_u64 starts,
		/* of a running process: struct engine_start and a stack for each thread */
		starts_size;
	/*
	 * set by the host. 1: every thread leaves the engine; 2: those of child processes as well
	 */
	wire_u64 leaving;
	struct engine_places places; /* filled in by the engine before it does anything else */
	/* pid that takes the engine out of the process while `leaving` is set; 0: the host */
	wire_u64 taker;
	/* for tests: what is to fail (enum engine_failure) << 32, and which one, from 1; 0: none */
	wire_u64 fails;
	/* ENGINE_TRANSLATES: the descriptor of struct translation_exchange (wire/translations.h) */
	wire_u64 exchange;
};

/* Columns: name, word, what goes wrong. */
#define ENGINE_FAILURES(X)                                                                         \
	X(STORE, "store", "a store of the translator faults")                                      \
	X(LOAD, "load", "a load of the program's code faults")                                     \
	X(MEMORY, "memory", "the kernel has no memory")                                            \
	X(LOCK, "lock", "a fault right after the lock was taken")                                  \
	X(UNLOCK, "unlock", "a fault right before the lock is released")                           \
	X(CALLED, "called", "a fault right after a system call of the program's")

enum engine_failure {
	ENGINE_FAIL_NONE,
#define X(name, word, text) ENGINE_FAIL_##name,
	ENGINE_FAILURES(X)
#undef X
		ENGINE_FAILURES_END
};

/*
 * A thread of a running process begins at engine_attach, with rdi pointing to struct engine_boot
 * and rsi to this structure, which lies above the thread's stack. All signals are blocked.
 */
struct engine_start {
	struct engine_registers registers;
	wire_u64 mask; /* the program's signal mask */
	wire_u64 rseq; /* the address that it has registered; 0: none */
	wire_u32 rseq_size, rseq_signature;
};

enum {
	ENGINE_START_SIZE = 64 * 1024, /* of a stack with what it begins with */
	ENGINE_PARKED_SIZE = 64 * 1024,
	ENGINE_MAPPINGS = 4096,
};

/*
 * A thread that leaves the engine stores the program's registers and signal mask here, and parks:
 * it repeats the system call -1, with the session in rdi and the address of this structure in rsi.
 * The host, which is attached to it then, sets its registers to these and detaches.
 */
struct engine_parked {
	struct engine_registers registers;
	wire_u64 mask;
	/* 1: the thread cannot leave now; its registers are as they were when it was sent there */
	wire_u32 again;
	/* set by the host in the last thread: gives the program its handlers back, clears this */
	wire_u32 finish;
};

/* Memory that the engine has mapped itself, besides what the host has mapped for it. */
struct engine_mappings {
	wire_u64 count;
	struct engine_mapping {
		wire_u64 start, size;
	} items[ENGINE_MAPPINGS];
};

enum engine_flag {
	ENGINE_NO_CHILDREN = 1, /* what the program execs runs natively */
	ENGINE_CHECKS =
		2, /* the engine checks itself, and ends the process if it is wrong: for tests */
	ENGINE_CALLS_TIMED = 4, /* the tool calltree takes time stamps */
	ENGINE_SHARES = 8, /* it uses translations that processes share (wire/translations.h) */
	ENGINE_TRANSLATES = 16, /* it runs no program, but makes such translations */
};

enum engine_request_kind {
	ENGINE_REQUEST_EXEC =
		/*
		 * the thread is about to exec: attach to it, so that the new program can be taken
		 * over
		 */
	1,
	ENGINE_REQUEST_EXEC_FAILED = 2, /* it is still the old program: let go */
	/*
	 * Code was mapped: path is the address of a struct stream_module. The answer is where the
	 * table of its marks is (wire/marks.h).
	 */
	ENGINE_REQUEST_MODULE = 3,
	/*
	 * A child that was just forked still has its parent's shared memory mapped, and makes a
	 * request there for memory of its own: `directory` is one end of a pair of sockets. After
	 * answer 0 its file is in the other, and the child maps it in the place of its parent's.
	 */
	ENGINE_REQUEST_FORK = 4,
};

/*
 * States of a slot; a futex. The engine goes FREE -> ASKED, the host ASKED -> ANSWERED, the engine
 * back to FREE.
 */
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
	int answer; /* 0 or more, or a negative errno */
	int directory; /* EXEC: what execveat was given, or AT_FDCWD */
	wire_u64 path; /* EXEC: address of the program's name, as given to execve */
	/*
	 * address of this process's struct engine_boot, as it was in rdi; it must stay mapped and
	 * as it was
	 */
	wire_u64 boot;
	wire_u64 reserved[3];
};

/*
 * Why a thread left the engine and goes on natively. Columns: name, word in summaries, the text for
 * people after "left the engine: ".
 */
#define ENGINE_LEAVES(X)                                                                           \
	X(INSTRUCTION, "instruction", "threads, for an instruction that cannot be copied")         \
	X(NOWHERE, "nowhere", "threads, for a jump to where no code is")                           \
	X(FILTER, "filter", "processes, for a filter of system calls (seccomp)")                   \
	X(TRACED, "traced", "processes, for a tracer of their own")                                \
	X(ROOM, "room", "threads, for want of memory near their code")                             \
	X(FAULT, "fault", "threads, for a fault of the engine itself")                             \
	X(CLOCK, "clock", "threads, for a clock that they have forbidden (PR_SET_TSC)")

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
	X(WRITES, "writes", "writes went to pages of translated code")                             \
	X(FAULTS, "faults", "faults of the engine itself, which it has recovered from")            \
	X(SHARED, "shared", "groups of fragments were taken from what processes share")

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
	wire_u32 counts[ENGINE_COUNTS_END]; /* by enum engine_count */
	wire_u32 serial; /* of this memory; no other has the same */
	wire_u32 marks_seen; /* the generation of marks that the engine works with (wire/marks.h) */
	wire_u32 events_lost; /* of marks, that were too many */
	wire_u32 reserved[13 - ENGINE_LEAVES_END - ENGINE_COUNTS_END];
	/* the first fault of the engine itself, for a report */
	struct engine_fault {
		wire_u64 at; /* offset in the engine's image; 0: there was none */
		wire_u64 address; /* that could not be reached */
		wire_u64 pc; /* where the program was */
		wire_u32 signal; /* 0: there was no memory */
		wire_u32 reserved;
		wire_u64 reserved_too[3];
	} fault;
	struct engine_request requests[ENGINE_REQUESTS];
};

_Static_assert(sizeof(struct engine_request) == 64, "wire");
_Static_assert(sizeof(struct engine_boot) == 9 * 8 + 20 * 8 + 15 * 8, "read by assembly");
_Static_assert(sizeof(struct engine_shared) == 128 + 64 * ENGINE_REQUESTS, "wire");

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What engines record: rings in shared memory that the host drains while the programs run.
 *
 * Behind the mailbox (wire/engine.h) lies an area of slots, all of the same size. A thread of a program that is recorded
 * has a slot for its runs, a process has one for its log. Slot n begins at STREAM_SLOTS + n * slot_bytes from the start of
 * the shared memory, which producers have mapped at a multiple of STREAM_CHUNK:
 *
 *	0			struct stream_slot, a page
 *	STREAM_RING_OFFSET	the ring
 *	STREAM_COUNTS_OFFSET	counters by run, 8 bytes each (tools that count), or
 *				a byte for each run that was seen (tools that mark): only if the tool needs it
 *
 * Runs. A run is what the program did between two moments at which it left straight-line code: a sequence of blocks,
 * known beforehand but for where it ends. A block begins where control arrives and ends with the next instruction that may
 * transfer control (or that ends by itself: a system call), or after STREAM_BLOCK_MAX instructions. Runs have numbers, from 1
 * on, and each process has its own; the log says what they stand for before the first of them is in a ring.
 * So: read a ring's position first, drain all logs, then interpret.
 *
 * Rings. They have STREAM_RING bytes, but for a few that threads take as long as there are some: STREAM_RING_LARGE. Programs
 * and the host then wait for each other less often.
 * The producer appends. Its position, in bytes since the beginning, is
 *	passed + (next - (start + passed % ring))
 * where the difference is at most STREAM_CHUNK; anything else is a moment of change: look again later. next moves with
 * each append. When it reaches the end of a chunk, the producer waits until
 *	passed + 2 * STREAM_CHUNK - taken <= ring
 * adds STREAM_CHUNK to passed, and goes on in the next chunk. The consumer adds to taken what it has read, and if
 * `waiting` is set, clears it and wakes the futex `wake` after adding 1 to it, at once or somewhat later. A producer waits with a timeout, and looks
 * whether the host is gone (wire/engine.h): then it goes on without it, and counts in `lost`. Who sets `waiting` where it was not adds 1 to the
 * area's `held`, which may give a CPU to somebody.
 * The newest run of a thread may be taken back by a signal that arrives before it has happened: the consumer leaves it where it
 * is until the next one, or the end of the thread.
 * The ring of a log is used in the same way, for records that are a multiple of 8 bytes and may lie across the ring's
 * end; next moves when a record is whole.
 *
 * Slots. FREE -> TAKEN by compare-and-swap; filled in; LIVE. The thread or process ends: ENDED, best effort. The host
 * frees what has ended, or what belongs to a process that is no more, when it has drained it. A log that appears with the
 * pid of an earlier one is that process's next program: whatever has that pid and another log has ended. The child of a
 * vfork has a slot with a pid of its own and its parent's log, until it executes a program.
 */
#pragma once

#include "wire/engine.h"

enum {
	STREAM_VERSION = 3,
	STREAM_AREA =
		ENGINE_SHARED_SIZE, /* struct stream_area, a page; slots behind it, at STREAM_SLOTS */
	STREAM_SLOTS = STREAM_AREA + (4 << 20),
	STREAM_SLOT_COUNT = 2048,
	STREAM_RING_OFFSET = 1 << 20,
	STREAM_RING = 1 << 20,
	STREAM_RING_LARGE = 4 << 20,
	STREAM_LARGE_MAX = 16,
	STREAM_CHUNK = 1 << 16,
	STREAM_COUNTS_OFFSET = 5 << 20,
	STREAM_RUNS_MAX = 4 << 20, /* of a process; beyond, it is not recorded further */
	STREAM_BLOCK_MAX = 128, /* instructions */
	STREAM_PIECES_MAX = 32, /* blocks of a run */
};

enum stream_state { STREAM_FREE, STREAM_TAKEN, STREAM_LIVE, STREAM_ENDED };

enum stream_kind { STREAM_THREAD = 1, STREAM_LOG = 2 };

struct stream_slot {
	wire_u64 next; /* where the next word goes, in the producer's address space */
	wire_u64 passed; /* bytes in chunks that are full */
	wire_u64 start; /* the ring, in the producer's address space */
	wire_u64 lost; /* bytes that were written while the host was gone */
	wire_u32 state; /* enum stream_state */
	wire_u32 kind; /* enum stream_kind */
	wire_u32 pid; /* as the process itself knows it */
	wire_u32 tid;
	wire_u32 log; /* slot of the process's log */
	wire_u32 ring; /* its bytes: STREAM_RING or STREAM_RING_LARGE */
	wire_u32 reserved[2];
	/* Written by the host but for waiting. */
	_Alignas(64) wire_u64 taken;
	wire_u32 wake; /* futex */
	wire_u32 waiting; /* the producer sleeps on wake */
};

/* AWAKE; by anybody who rings; by a producer whose ring is half full. */
enum stream_sleep { STREAM_AWAKE, STREAM_ASLEEP, STREAM_NAPPING };

struct stream_area {
	wire_u32 version;
	wire_u32 slot_count;
	wire_u64 slot_bytes;
	wire_u32 bell; /* futex: grows when a chunk is full or a slot is new; the consumer sleeps on it */
	wire_u32 sleeping; /* enum stream_sleep: whether the consumer sleeps on bell, and who has to wake it */
	wire_u32 refused; /* threads that found no slot and are not recorded */
	wire_u32 hint; /* where to look for a free slot first */
	wire_u32 large; /* rings of STREAM_RING_LARGE that may still be taken; the host gives back */
	wire_u32 held; /* futex: grows when a producer begins to wait; reserves of the host sleep on it (base/relay.h) */
	wire_u32 reserves; /* how many; written by the host */
	wire_u32 reserved;
};

/* Columns: name, what it says. */
#define STREAM_RECORDS(X)                                                                          \
	X(PROCESS, "first of a log")                                                               \
	X(MODULE, "executable memory: what was known about the range is no longer true")           \
	X(RUNS, "the runs of a fragment")                                                          \
	X(PARTIAL, "a run that a signal or fault cut short")                                       \
	X(CODE, "bytes of code that is in no file")                                                \
	X(NATIVE, "a thread leaves the engine for good")

enum stream_record_type {
	STREAM_RECORD_NONE,
#define X(name, text) STREAM_RECORD_##name,
	STREAM_RECORDS(X)
#undef X
		STREAM_RECORD_TYPE_COUNT
};

struct stream_record {
	wire_u32 size; /* with this header; a multiple of 8, at most STREAM_RECORD_MAX */
	wire_u32 type;
};

enum { STREAM_RECORD_MAX = 8192 };

struct stream_process {
	struct stream_record record;
	wire_u32 pid;
	wire_u32 parent; /* log of the process it was forked from, or its own: it came by exec or is the first */
	wire_u32 inherited; /* runs below this number are as in the parent's log at the time of the fork */
	wire_u32 reserved;
};

struct stream_module {
	struct stream_record record;
	wire_u64 start, end;
	wire_u64 offset; /* in the file */
	wire_u64 inode; /* 0: no file */
	wire_u32 device_major, device_minor;
	char path[]; /* ends with 0 bytes; as in /proc/PID/maps, without its escapes; may be empty */
};

struct stream_piece {
	wire_u64 pc;
	wire_u32 length; /* bytes */
	wire_u32 instructions;
};

/* Run first + i is pieces 0 to i. */
struct stream_runs {
	struct stream_record record;
	wire_u32 first;
	wire_u32 count; /* at most STREAM_PIECES_MAX */
	struct stream_piece pieces[];
};

/* The last piece ends early, perhaps before its first instruction (length 0). */
struct stream_partial {
	struct stream_record record;
	wire_u32 run;
	wire_u32 first; /* of the fragment that was cut short */
	wire_u32 pieces; /* whole ones before the last */
	wire_u32 reserved;
	struct stream_piece last;
};

struct stream_code {
	struct stream_record record;
	wire_u64 pc;
	wire_u32 length;
	wire_u32 reserved;
	wire_u8 bytes[];
};

struct stream_native {
	struct stream_record record;
	wire_u64 pc;
	wire_u32 tid;
	wire_u32 reserved;
};

_Static_assert(sizeof(struct stream_slot) == 128, "wire");
_Static_assert(sizeof(struct stream_area) == 48, "wire");
_Static_assert(sizeof(struct stream_process) == 24, "wire");
_Static_assert(sizeof(struct stream_module) == 48, "wire");
_Static_assert(sizeof(struct stream_piece) == 16, "wire");
_Static_assert(sizeof(struct stream_runs) == 16, "wire");
_Static_assert(sizeof(struct stream_partial) == 40, "wire");
_Static_assert(sizeof(struct stream_code) == 24, "wire");
_Static_assert(sizeof(struct stream_native) == 24, "wire");

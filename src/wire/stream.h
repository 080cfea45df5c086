/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What engines record: rings in shared memory that the host drains while the programs run.
 *
 *	in	written by threads of the program: rings, catalogs
 *	out	read and checked by the host (src/recorder/engine); it writes only how far it has
 *		read
 *	owner	the host makes the memory, and frees it when the process is over and all is read
 *
 * Behind the mailbox (wire/engine.h) lies an area of slots, all of the same size. A thread of a
 * program that is recorded has a slot for its segments, a process has one for its catalog. Slot n
 * begins at STREAM_SLOTS + n * slot_bytes from the start of the shared memory, which producers have
 * mapped at a multiple of STREAM_CHUNK:
 *
 *	0			struct stream_slot, a page
 *	STREAM_RING_OFFSET	the ring
 *	STREAM_COUNTS_OFFSET	what tools keep: bytes by segment, then counters (wire/tools.h)
 *
 * Segments. A segment is what the program did between two moments at which it left straight-line
 * code: a sequence of blocks, known beforehand but for where it ends. A block begins where control
 * arrives and ends with the next instruction that may transfer control (or that ends by itself: a
 * system call), or after STREAM_BLOCK_INSTRUCTIONS_MAX instructions. Segments have numbers, from 1
 * on, and each process has its own; the catalog says what they stand for before the first of them
 * is in a ring. So: read a ring's position first, drain all catalogs, then interpret.
 *
 * Rings. A ring has STREAM_RING bytes. The first threads get one of STREAM_RING_LARGE bytes
 * instead, as long as any of these is free, so that they wait for the host less often. The producer
 * appends. Its position, in bytes since the beginning, is
 *	passed + (next - (start + passed % ring))
 * where the difference is at most STREAM_CHUNK; any other value means that the producer was just
 * changing these words, and the consumer reads them again later. next moves with each append. When
 * it reaches the end of a chunk, the producer waits until
 *	passed + 2 * STREAM_CHUNK - taken <= ring
 * adds STREAM_CHUNK to passed, and goes on in the next chunk. The consumer adds to taken what it
 * has read, and if `waiting` is set, clears it and wakes the futex `wake` after adding 1 to it, at
 * once or somewhat later. A producer waits with a timeout, and checks whether the host is gone
 * (wire/engine.h); if so, it goes on, and counts what it appends in `lost`. The newest segment of a
 * thread may be taken back by a signal that arrives before it has happened: the consumer leaves it
 * where it is until the next one, or the end of the thread. The ring of a catalog is used in the
 * same way, for records that are a multiple of 8 bytes and may lie across the ring's end; next
 * moves when a record is whole.
 *
 * Slots. FREE -> TAKEN by compare-and-swap; filled in; LIVE. A thread that finds no free slot waits
 * for the host to give one back, for a second at most, and then is not recorded. The thread or
 * process ends: ENDED, best effort. The host frees what has ended, or what belongs to a process
 * that is no more, when it has drained it. A catalog that appears with the pid of an earlier one is
 * that process's next program: whatever has that pid and another catalog has ended. The child of a
 * vfork has a slot with a pid of its own and its parent's catalog, until it executes a program.
 */
#pragma once

#include "wire/engine.h"

enum {
	STREAM_VERSION = 6,
	STREAM_AREA =
		/* struct stream_area, a page; slots behind it, at STREAM_SLOTS */
	ENGINE_SHARED_SIZE,
	STREAM_GATES = STREAM_AREA + 4096, /* struct stream_gates, a page; public from here */
	STREAM_MARKS = STREAM_AREA + 8192, /* struct marks_area (wire/marks.h) */
	STREAM_TRANSLATIONS = STREAM_AREA + (4 << 20), /* struct translations */
	STREAM_TRANSLATIONS_BYTES = 64 << 20,
	STREAM_SLOTS = STREAM_TRANSLATIONS + STREAM_TRANSLATIONS_BYTES,
	STREAM_ALONE_SIZE = ENGINE_SHARED_SIZE + STREAM_TRANSLATIONS_BYTES, /* without slots */
	STREAM_SLOT_COUNT = 2048,
	STREAM_RING_OFFSET = 1 << 20,
	STREAM_RING = 1 << 20,
	STREAM_RING_LARGE = 4 << 20,
	STREAM_LARGE_MAX = 16,
	STREAM_CHUNK = 1 << 16,
	STREAM_COUNTS_OFFSET = 5 << 20,
	STREAM_SEGMENTS_MAX = 4 << 20, /* of a process; beyond, it is not recorded further */
	STREAM_BLOCK_INSTRUCTIONS_MAX = 128, /* instructions */
	STREAM_SEGMENT_BLOCKS_MAX = 32, /* blocks of a segment */
};

/*
 * Where in a process's shared memory the public part lies, which is the same for all processes and
 * which only the host can write; and its size.
 */
static inline wire_u64 stream_public_at(wire_u64 shared_size)
{
	return shared_size > STREAM_ALONE_SIZE ? STREAM_GATES : ENGINE_SHARED_SIZE - 4096;
}

static inline wire_u64 stream_public_size(wire_u64 shared_size)
{
	return shared_size > STREAM_ALONE_SIZE ? STREAM_SLOTS - STREAM_GATES
					       : 4096 + STREAM_TRANSLATIONS_BYTES;
}

/* The end of the public part: struct translations (wire/translations.h). */
static inline wire_u64 stream_translations_at(wire_u64 shared_size)
{
	return stream_public_at(shared_size) + stream_public_size(shared_size) -
	       STREAM_TRANSLATIONS_BYTES;
}

/*
 * In the public part: the futex of a robust mutex that the host holds. The kernel says there that
 * the host has ended, also to processes that know no pid of it, being in a pid namespace of their
 * own. 0: nobody holds it.
 */
enum { STREAM_HOST_BYTES = 64, STREAM_HOST = 4096 - STREAM_HOST_BYTES };

enum stream_state { STREAM_FREE, STREAM_TAKEN, STREAM_LIVE, STREAM_ENDED };

enum stream_kind { STREAM_THREAD = 1, STREAM_CATALOG = 2 };

struct stream_slot {
	wire_u64 next; /* where the next word goes, in the producer's address space */
	wire_u64 passed; /* bytes in chunks that are full */
	wire_u64 start; /* the ring, in the producer's address space */
	wire_u64 lost; /* bytes that were written while the host was gone */
	wire_u32 state; /* enum stream_state */
	wire_u32 kind; /* enum stream_kind */
	wire_u32 pid; /* as the process itself knows it */
	wire_u32 tid;
	wire_u32 catalog; /* slot of the process's catalog */
	wire_u32 ring; /* its bytes: STREAM_RING or STREAM_RING_LARGE */
	/* inode of the pid namespace by which pid is known; 0: the process cannot tell */
	wire_u32 pid_space;
	wire_u32 reserved;
	/* Written by the host but for waiting. */
	_Alignas(64) wire_u64 taken;
	wire_u32 wake; /* futex */
	wire_u32 waiting; /* the producer sleeps on wake */
};

/*
 * Who has to wake the host: nobody; any producer that adds to the bell; a producer whose ring is
 * half full.
 */
enum stream_sleep { STREAM_AWAKE, STREAM_ASLEEP, STREAM_NAPPING };

struct stream_area {
	wire_u32 version;
	wire_u32 slot_count;
	wire_u64 slot_bytes;
	/* futex: grows when a chunk is full or a slot is new; the consumer sleeps on it */
	wire_u32 bell;
	/* enum stream_sleep: whether the consumer sleeps on bell, and who has to wake it */
	wire_u32 sleeping;
	wire_u32 refused; /* threads that found no slot and are not recorded */
	wire_u32 hint; /* where to look for a free slot first */
	/* rings of STREAM_RING_LARGE that may still be taken; the host gives back */
	wire_u32 large;
	/* a thread has waited for a slot in vain; cleared by the host when it gives one back */
	wire_u32 crowded;
	wire_u64 unrecorded; /* segments of threads that found no slot */
	/* a set of ENGINE_TOOL_BIT: what slots hold, for other processes that map the memory */
	wire_u64 tools;
};

/*
 * Switches for instrumentation that is in place: inline code looks at the word each time. Every
 * thread of every process has this page mapped, so that one store of the host's switches all of
 * them, and none has to leave its code cache.
 */
struct stream_gates { /* in front of STREAM_HOST */
	wire_u32 closed
		/* by enum engine_tool; 0: the tool's instrumentation is switched on */
		[ENGINE_TOOLS_END];
};

/* Columns: name, what the record tells. */
#define STREAM_RECORDS(X)                                                                          \
	X(PROCESS, "first of a catalog")                                                           \
	X(MODULE, "executable memory: what was known about the range is no longer true")           \
	X(SEGMENTS, "the segments of a fragment")                                                  \
	X(PARTIAL, "a segment that a signal or fault cut short")                                   \
	X(CODE, "bytes of code that is in no file")                                                \
	X(NATIVE, "a thread leaves the engine for good")                                           \
	X(COUNTER, "what a tool's counter stands for")                                             \
	X(MARKED, "which instructions of a block are marked")                                      \
	X(EVENT, "a mark that raises events was visited")

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
	/*
	 * catalog of the process it was forked from, or its own: it came by exec or is the first;
	 * its slot, and STREAM_SLOT_COUNT for each memory before that one
	 */
	wire_u32 parent;
	/* segments below this number are as in the parent's catalog at the time of the fork */
	wire_u32 inherited;
	wire_u32 reserved;
};

struct stream_module {
	struct stream_record record;
	wire_u64 start, end;
	wire_u64 offset; /* in the file */
	wire_u64 inode; /* 0: no file */
	wire_u32 device_major, device_minor;
	/* ends with 0 bytes; as in /proc/PID/maps, without its escapes; may be empty */
	char path[];
};

struct stream_block {
	wire_u64 pc;
	wire_u32 length; /* bytes */
	wire_u32 instructions;
};

/* Segment first + i is blocks 0 to i. */
struct stream_segments {
	struct stream_record record;
	wire_u32 first;
	wire_u32 count; /* at most STREAM_SEGMENT_BLOCKS_MAX */
	struct stream_block blocks[];
};

/* The last block ends early, perhaps before its first instruction (length 0). */
struct stream_partial {
	struct stream_record record;
	wire_u32 segment;
	wire_u32 first; /* of the fragment that was cut short */
	wire_u32 blocks; /* whole ones before the last */
	wire_u32 reserved;
	struct stream_block last;
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

/*
 * The counter has this meaning from its first use on; a child inherits none, its engine tells them
 * again.
 */
struct stream_counter {
	struct stream_record record;
	wire_u32 tool; /* enum engine_tool */
	wire_u32 index; /* among its counters */
	wire_u64 pc; /* code that it belongs to; 0: it stands for something that happens anywhere */
	char name[]; /* ends with 0 bytes; may be empty if there is a pc */
};

/* Neighbouring instructions of a block that a mark covers. */
struct stream_mark {
	wire_u32 mark; /* number << 1; 1 is added if visits of the mark are counted here */
	wire_u16 first; /* from 0, in the block */
	wire_u16 instructions; /* how many */
	wire_u16 offset; /* bytes from the beginning of the block to the first one */
	wire_u16 length; /* bytes of all of them */
};

/*
 * The marks of the last block of a segment that is not partial; a block may have several of these
 * records.
 */
struct stream_marked {
	struct stream_record record;
	wire_u32 segment;
	wire_u32 count;
	struct stream_mark marks[];
};

enum { STREAM_STACK_MAX = 6144 };

/*
 * The access of an event of marked data: it is about to happen or, if the instruction compares, has
 * happened.
 */
enum { STREAM_ACCESS_READ = 1, STREAM_ACCESS_WRITE = 2 };

struct stream_event {
	struct stream_record record;
	wire_u64 time; /* ns, CLOCK_MONOTONIC */
	wire_u64 pc;
	wire_u64 registers[16]; /* in x86's numbering */
	wire_u32 mark; /* its number */
	wire_u32 tid;
	wire_u32 stack_size; /* bytes of the stack, from rsp on; at most STREAM_STACK_MAX */
	wire_u32 access; /* STREAM_ACCESS_, of data; 0: of code */
	wire_u64 ticks; /* that the visit took, measuring included; 0: the visit begins */
	wire_u8 stack[];
};

_Static_assert(sizeof(struct stream_event) == 176, "wire");
_Static_assert(sizeof(struct stream_slot) == 128, "wire");
_Static_assert(sizeof(struct stream_area) == 56, "wire");
_Static_assert(sizeof(struct stream_process) == 24, "wire");
_Static_assert(sizeof(struct stream_module) == 48, "wire");
_Static_assert(sizeof(struct stream_block) == 16, "wire");
_Static_assert(sizeof(struct stream_segments) == 16, "wire");
_Static_assert(sizeof(struct stream_partial) == 40, "wire");
_Static_assert(sizeof(struct stream_code) == 24, "wire");
_Static_assert(sizeof(struct stream_native) == 24, "wire");
_Static_assert(sizeof(struct stream_counter) == 24, "wire");
_Static_assert(sizeof(struct stream_mark) == 12, "wire");
_Static_assert(sizeof(struct stream_marked) == 16, "wire");

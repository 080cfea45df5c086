/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The records of runs, which the interpreter in the kernel sends to the host, and the table of
 * translations in the other direction. docs/design/values.md has the whole way.
 *
 *	in	written by run.bpf.h
 *	out	read and checked by sampler.c, executed again by replay.c
 *	owner	a record belongs to the ring until it has been read, then to the backlog of the sink
 *
 * The kernel executes the instructions that follow a sample and keeps only what the host could not
 * compute again: the registers at the start, the blocks that were entered and what loads read. The
 * host executes the run once more from that, and takes from it whatever the user wants to know.
 *
 * The log of a run is a sequence of words in the order of events:
 *	system values	RUN_SYSTEM_COUNT words, if RUN_SYSTEM is set
 *	block entered	run-time pc; serial number of the translation, and how far into it << 32
 *	load		what memory held before the run's own stores; cut to the size of the load
 *	store		what memory held before, if RUN_OVERWRITTEN is set
 * After the log, a bit for each of its words says that the word's memory could not be read
 * (run_is_missing()).
 */
#pragma once

#include "wire/sample.h"
#include "wire/uop.h"

enum {
	RUN_LOG_MAX = 1024, /* words; a power of two */
	RUN_LENGTH_MAX = 1024, /* instructions, skipped ones included */
	RUN_UOPS_MAX = 4096, /* micro-operations: string instructions repeat */
	RUN_CALLERS = 4,
	RUN_CODE_BYTES = 128, /* sent with a request for a block */
	RUN_TEXT_BYTES = 1024,
	RUN_MODULE_NONE = 0,
	RUN_MODULE_KERNEL = 1,
	/* the numbers of all other modules, which the host gives, begin here */
	RUN_MODULE_FIRST = 2,
	RUN_RAM_RANGES = 8,
};

#define RUN_MODULE_PRIVATE (1u << 31) /* of numbers for memory without a file */

enum run_flag {
	RUN_SYSTEM = 1,
	RUN_OVERWRITTEN = 2,
	RUN_IN_KERNEL = 4,
	RUN_GUARDED = 8, /* of a process that the kernel does not let its own user look into */
};

/* In the order of the log. Columns: name. */
#define RUN_SYSTEM_WORDS(X)                                                                        \
	X(PPID)                                                                                    \
	X(UID)                                                                                     \
	X(GID)                                                                                     \
	X(EUID)                                                                                    \
	X(EGID)                                                                                    \
	X(TTY)                                                                                     \
	X(CGROUP)                                                                                  \
	X(CPU)                                                                                     \
	X(PRIORITY)                                                                                \
	X(POLICY)                                                                                  \
	X(PENDING)                                                                                 \
	X(BLOCKED)                                                                                 \
	X(INTERRUPT)                                                                               \
	X(SYSCALL) /* this and the rest: only in the kernel, otherwise missing */                  \
	X(SYSARG0)                                                                                 \
	X(SYSARG1)                                                                                 \
	X(SYSARG2)                                                                                 \
	X(SYSARG3)                                                                                 \
	X(SYSARG4)                                                                                 \
	X(SYSARG5)                                                                                 \
	X(USERSITE)

enum run_system_word {
#define X(name) RUN_SYSTEM_##name,
	RUN_SYSTEM_WORDS(X)
#undef X
		RUN_SYSTEM_COUNT
};

struct run_record {
	struct sample_record record; /* RECORD_RUN */
	wire_u64 pc;
	wire_u64 regs[16]; /* in x86's numbering */
	wire_u64 rflags;
	wire_u64 fs_base;
	wire_u64 gs_base;
	wire_u64 callers
		/* return addresses of the interrupted function and those around it; 0: not known */
		[RUN_CALLERS];
	wire_u64 state_hash; /* run_state_hash() at the end */
	wire_u32 owner; /* effective user */
	wire_u16 flags; /* enum run_flag */
	wire_u16 instructions; /* completed */
	wire_u16 skipped; /* completed before capturing began */
	wire_u16 log_count;
	wire_u8 end; /* enum uop_end; NONE: it reached its length */
	wire_u8 reserved[3];
	wire_u64 log[]; /* log_count words, and RUN_MISSING_WORDS(log_count) */
};

_Static_assert(sizeof(struct run_record) == 32 + 8 * (1 + 16 + 3 + RUN_CALLERS + 1) + 16, "wire");

#define RUN_MISSING_WORDS(log_count) (((log_count) + 63u) / 64)
#define RUN_RECORD_MAX                                                                             \
	(sizeof(struct run_record) + 8 * (RUN_LOG_MAX + RUN_MISSING_WORDS(RUN_LOG_MAX)))

static inline __attribute__((always_inline)) wire_u32 run_record_size(wire_u32 log_count)
{
	return sizeof(struct run_record) + 8 * (log_count + RUN_MISSING_WORDS(log_count));
}

/* Whether word `at` of the log is missing; at < log_count. */
static inline __attribute__((always_inline)) wire_u32 run_is_missing(const struct run_record *run,
								     wire_u32 at)
{
	return run->log[run->log_count + at / 64] >> (at & 63) & 1;
}

/*
 * A block is known by its module and its address there: translations serve every process that maps
 * the module.
 */
struct block_key {
	wire_u64 address; /* run-time pc - bias of the mapping */
	wire_u32 module; /* RUN_MODULE_... */
	wire_u32 reserved;
};

/*
 * A slot of the table of translations: a translation, from one of its instructions on. An interrupt
 * may come at any of them. The host writes while the kernel reads: a serial that is the same before
 * and after reading vouches for the rest.
 */
struct run_block {
	wire_u64 address; /* of the instruction; as in block_key */
	wire_u32 module;
	wire_u32 serial; /* unique over all translations; 0: the slot is free, or being written */
	wire_u32 first; /* in the uops map; of the whole translation, as is count */
	wire_u8 count;
	wire_u8 length; /* bytes of code from the instruction on */
	wire_u8 next; /* micro-operation to begin with */
	wire_u8 at; /* the instruction, from the translation's address on */
	wire_u64 code_hash; /* run_code_hash() of the code */
};

_Static_assert(sizeof(struct run_block) == 32, "wire: two to a cache line");
_Static_assert(UOP_BLOCK_MAX <= 255 && UOP_CODE_MAX <= 255, "in a byte");

enum { RUN_PROBES = 16 }; /* slots that a translation may be in */

static inline __attribute__((always_inline)) wire_u64 run_block_hash(wire_u64 address,
								     wire_u32 module)
{
	wire_u64 hash = (address >> 8 ^ (wire_u64)module << 40) * 0x9e3779b97f4a7c15ull;

	/* The slots of the instructions in 256 bytes of code lie in one page of 4 KiB. */
	return ((hash ^ hash >> 32) & ~127ull) + (address >> 1 & 127);
}

/* Probe i, from 0 on, of a hash; the caller reduces it to the size of the table. */
static inline __attribute__((always_inline)) wire_u32 run_block_slot(wire_u64 hash, wire_u32 i)
{
	return (wire_u32)hash + i * ((wire_u32)(hash >> 40) | 1);
}

/* A request for a translation. */
struct run_wanted {
	struct sample_record record; /* RECORD_WANTED */
	struct block_key key;
	wire_u64 pc; /* run-time */
	wire_u32 code_size; /* bytes valid in code */
	wire_u32 stale; /* the translation there does not fit the code */
	wire_u8 code[RUN_CODE_BYTES];
};

/* Asks the kernel for a piece of its own code. */
struct run_text {
	wire_u64 address;
	wire_u32 size; /* wanted, and then read: 0 if it could not be */
	wire_u32 reserved;
	wire_u8 code[RUN_TEXT_BYTES];
};

/*
 * Why a sample gave no run. runs seen = runs kept + the sum of these, always.
 * Columns: name, JSON name, what a person reads.
 */
#define RUN_LOSSES(X)                                                                              \
	X(UNPUBLISHED, "unpublished", "process was too new: its mappings were not known yet")      \
	X(RING_FULL, "ring_full", "ring to the recorder was full (raise --ring)")                  \
	X(DEVICE, "device", "process has device memory mapped")                                    \
	X(IN_KERNEL, "in_kernel", "event came in a system call, whose result is not known")        \
	X(BAD_RECORD, "bad_record", "record made no sense and was skipped")                        \
	X(WITHHELD, "withheld",                                                                    \
	  "of another user, of a program with rights of its own, or of the kernel, which "         \
	  "/etc/assay.conf forbids")                                                               \
	X(DISAGREED, "disagreed", "kernel and recorder computed different values")                 \
	X(UNREAD, "unread", "seen by the kernel, but neither read nor counted as lost")

enum run_loss {
#define X(name, json, text) RUN_LOSS_##name,
	RUN_LOSSES(X)
#undef X
		RUN_LOSS_COUNT
};

/*
 * Memory that a run loaded from without learning what was there. The value is unknown, and so is
 * everything that follows from it. Columns: name, JSON name, what a person reads.
 */
#define RUN_UNREADS(X)                                                                             \
	X(ABSENT, "absent", "loads of the program's memory that was not present")                  \
	X(ABSENT_IN_KERNEL, "absent_in_kernel", "the kernel's loads of memory of the program")     \
	X(NOT_RAM, "not_ram", "the kernel's loads where a device may be")

enum run_unread {
#define X(name, json, text) RUN_UNREAD_##name,
	RUN_UNREADS(X)
#undef X
		RUN_UNREAD_COUNT
};

/* One per CPU. */
struct run_tally {
	wire_u64 seen;
	wire_u64 sent;
	wire_u64 lost[RUN_LOSS_COUNT];
	wire_u64 steps; /* instructions executed */
	wire_u64 nanoseconds; /* spent */
};

#ifdef __bpf__
#define RUN_WORD(place) (*(const wire_u64 *)(place))
#else
#define RUN_WORD(place) run_word(place)
static inline wire_u64 run_word(const wire_u8 *place)
{
	wire_u64 word;

	__builtin_memcpy(&word, place, sizeof(word));
	return word;
}
#endif

/* The hash of length bytes of code, at most UOP_CODE_MAX; eight more must be readable. */
static inline __attribute__((always_inline)) wire_u64 run_code_hash(const wire_u8 *code,
								    wire_u32 length)
{
	wire_u64 hash = length;

	for (wire_u32 i = 0; i < UOP_CODE_MAX; i += 8) {
		wire_u64 word;

		if (i >= length)
			break;
		word = RUN_WORD(code + i);
		if (length - i < 8)
			word &= ~(~0ull << (length - i) * 8);
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return hash;
}

/*
 * The hash that kernel and host compare: the values of known registers, which registers are known,
 * and the pc.
 */
static inline __attribute__((always_inline)) wire_u64 run_state_hash(const struct uop_state *state)
{
	wire_u64 hash = state->pc;

	for (int i = 0; i < 16; i++) {
		wire_u64 value = state->unknown[i] ? 0x9e3779b97f4a7c15ull : state->regs[i];

		hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	return hash;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How to write a tool.
 *
 * A tool observes a program while it is executed. It has two halves. When code is translated, the
 * engine calls the tool at each insertion point, and the tool inserts a few operations of an inline
 * language, which are executed whenever the code is. Usually they increment a counter, which the
 * host reads when the thread has ended. Everything else (which registers are free, whether flags
 * have to be kept, what a signal in between means) is the engine's business.
 *
 * A tool is a row in wire/tools.h, a table of functions (struct tool) in a file in tools/, and that
 * file's name in meson.build. A function that the tool does not need is NULL. This is a whole tool,
 * which counts the divisions that are executed:
 *
 *	static void before(struct insert *insert, const struct point *point)
 *	{
 *		if (point->insn->mnemonic == ZYDIS_MNEMONIC_DIV)
 *			inline_count(insert, counter_named(ENGINE_TOOL_DIVISIONS, 0, "div"), 1);
 *	}
 *
 *	const struct tool tool_divisions = { .before = before };
 *
 * Insertion points, in the order in which they are executed:
 *
 *	block		control arrives at the first instruction of a block, or goes on there
 *			after a signal
 *	before		control arrives at an instruction
 *	access		the same, once for each operand in memory that is read or written
 *	call, back,	the same, of calls, returns and indirect jumps: inline_target() has where
 *	branch		they lead
 *	after		an instruction is over; not one that transfers control
 *	segment_end	control leaves a fragment (wire/stream.h). The number of the segment says
 *			what was executed since the last time, so a tool that needs nothing else is
 *			cheapest here: it executes code once for several blocks. The function must
 *			depend on nothing but the segment's number, since it is called again at any
 *			time.
 *
 * The inline language. An insertion is a list of units. A unit computes in registers INLINE_A to
 * INLINE_D, which are empty at its beginning, and ends with the one operation that others can see:
 * inline_count, inline_mark, inline_store, inline_store_at, inline_append or inline_call. Before
 * that, inline_gate and inline_only_if may end it early.
 *
 * Exactness. The program may be interrupted at any instruction, and the engine then makes the
 * program's state as if nothing had been inserted. Units in front of an instruction that has not
 * been executed are undone, and execute again when the program comes back there: a counter is
 * decremented, an appended word is removed. Units behind an instruction that have not been executed
 * yet are executed by the engine. So counters are exact, at every signal and fault. Only
 * inline_store, inline_store_at and inline_call cannot be undone: in front of an instruction they
 * may be executed twice.
 *
 * Switching. Each tool has a gate, a word that the host opens and closes while programs run (struct
 * stream_gates). A unit that begins with inline_gate does nothing while it is closed: that costs
 * two instructions, or four where flags have to be kept, and no thread leaves the cache. To have no
 * code there at all, a tool makes the engine translate the code again: cache_forget().
 *
 * Functions that insert are called with the engine's lock held and within guarded_call(): they may
 * decode instructions, and must not make system calls that wait. Functions that are called by
 * inserted code (called) hold no lock.
 */
#pragma once

#include <Zydis/Zydis.h>

#include "engine/engine.h"

struct insert;
struct stream_partial;

/* An operand in memory. */
struct access {
	/* 0 or 1: which of the instruction's operands in memory, for inline_address() */
	uint8_t operand;
	bool read, write;
	bool repeated; /* by a string instruction, as often as rcx says: this is one of them */
	bool based; /* through fs or gs, whose base is added */
	uint32_t size; /* bytes */
};

struct point {
	uint64_t pc; /* of the instruction, or the block */
	const ZydisDecodedInstruction *insn; /* NULL at the end of a segment */
	const ZydisDecodedOperand *operands; /* of the instruction, hidden ones included */
	uint64_t target; /* of a direct call; 0: only inline_target() knows */
	struct access access;
	uint32_t segment; /* that ends; at an instruction: that its block ends; 0: none */
	uint32_t block; /* of an instruction: the number of its block in the fragment */
};

/*
 * Whether an operand is in memory and is read or written; those are numbered for inline_address().
 */
bool insert_is_access(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operand);

/* Whether so many operations more have room at a point; a tool that does not ask must need few. */
bool insert_has_room(const struct insert *insert, unsigned ops);

typedef void tool_insert(struct insert *insert, const struct point *point);

struct tool {
	tool_insert *block, *before, *access, *call, *back, *branch, *after, *segment_end;
	/*
	 * inline_call(): number is the one it was given, values the registers it named.
	 * thread->regs are the program's.
	 */
	void (*called)(struct thread *thread, uint32_t number, const uint64_t *values);
	/*
	 * Undoes what called() did in front of an instruction that was not executed, or only in
	 * part (a string instruction, whose registers tell how far it got). NULL: called() may be
	 * called twice.
	 */
	void (*taken_back)(struct thread *thread, uint32_t number, const uint64_t *values);
	/*
	 * The percentage of a block's executions that must go the same way for a superblock to
	 * follow it (superblocks.c), and whether a superblock ends before a block that it holds, so
	 * that cycles stay visible. Only of tools with ENGINE_TOOL_RING.
	 */
	unsigned superblock_percent;
	bool superblock_once;
	/*
	 * The host has been told of a fragment's segments, of which the first has this number; of a
	 * segment that was cut short in the last block of another one.
	 */
	void (*fragment)(uint32_t first);
	void (*partial)(uint32_t segment, uint32_t of, const struct stream_partial *partial);
	/*
	 * Whether a segment must begin at pc: then no fragment goes on there. It is asked when code
	 * is translated.
	 */
	bool (*cuts)(uint64_t pc);
	/* Before the first and after the last instruction of a thread. */
	void (*thread_start)(struct thread *thread);
	/* In the child of a fork, which goes on as its parent did: its counters are 0 again. */
	void (*forked)(struct thread *thread);
	void (*thread_end)(struct thread *thread);
	/* The engine has spent so many ticks on work of its own. */
	void (*paused)(struct thread *thread, uint64_t ticks);
	/* Memory that holds code, when it is first seen. */
	void (*module)(const struct region *region, const char *path);
	/* Memory that the program has unmapped, or mapped something over. */
	void (*unmapped)(uint64_t start, uint64_t end);
	/*
	 * A system call is about to be done: number and arguments are in the registers. No lock is
	 * held.
	 */
	void (*syscall)(struct thread *thread);
	/* It is done: its result is in the registers. Not of one that ends the thread. */
	void (*syscall_done)(struct thread *thread);
	/*
	 * Between these two the engine looks for code, translates and links, so resources that the
	 * kernel counts in between are not the program's. They do not enclose all of the engine's
	 * work.
	 */
	void (*work_begin)(struct thread *thread);
	void (*work_end)(struct thread *thread);
	/*
	 * A thread is about to enter the cache: the tool can take up what the host has changed.
	 * Called with the engine's lock held; must be quick if nothing has changed.
	 */
	void (*renew)(void);
};

/* --- Operations: inline.c ---------------------------------------------------------------- */
enum inline_register { INLINE_A, INLINE_B, INLINE_C, INLINE_D, INLINE_REGISTERS };
enum inline_condition { INLINE_EQUAL, INLINE_DIFFERENT, INLINE_BELOW, INLINE_NOT_BELOW };

/* Values. */
void inline_const(struct insert *insert, enum inline_register to, uint64_t value);
/* A register of the program's, in x86's numbering, as it is at the insertion point. */
void inline_general(struct insert *insert, enum inline_register to, enum register_number from);
/*
 * The address of an operand in memory, before or after the instruction; operand as in struct
 * access.
 */
void inline_address(struct insert *insert, enum inline_register to, unsigned operand);
/* Where a call, return or indirect jump leads to. */
void inline_target(struct insert *insert, enum inline_register to);
/*
 * Addition of a constant; addition, complement and AND of registers; a shift, to the left or (below
 * 0) to the right.
 */
void inline_add(struct insert *insert, enum inline_register to, int32_t value);
void inline_sum(struct insert *insert, enum inline_register to, enum inline_register from);
void inline_complement(struct insert *insert, enum inline_register to);
void inline_and(struct insert *insert, enum inline_register to, int32_t mask);
void inline_shift(struct insert *insert, enum inline_register to, int bits);
/*
 * A counter; a word (of 1, 2, 4 or 8 bytes) of memory that is always there, as tools' own memory
 * is.
 */
void inline_load(struct insert *insert, enum inline_register to, uint32_t counter);
void inline_load_at(struct insert *insert, enum inline_register to, enum inline_register address,
		    unsigned size);
/*
 * The unit goes on only if the tool's gate is open, or the register compares like that (as unsigned
 * numbers).
 */
void inline_gate(struct insert *insert, enum engine_tool tool);
void inline_only_if(struct insert *insert, enum inline_register reg, enum inline_condition is,
		    int32_t value);
/* Only if the conditional jump in front of which this stands is going to be taken. */
void inline_taken(struct insert *insert, unsigned condition);
/* Ends of units. */
/* Adds to a counter; below 1 << 24. */
void inline_count(struct insert *insert, uint32_t counter, uint32_t amount);
/* Sets a byte of the memory by segment, or of a counter, to 1. */
void inline_mark(struct insert *insert, uint32_t byte);
void inline_store(struct insert *insert, uint32_t counter, enum inline_register from);
void inline_store_at(struct insert *insert, enum inline_register address, enum inline_register from,
		     unsigned size);
/* Appends a word to the thread's ring. Only at ends of segments: it is the ring of segments. */
void inline_append(struct insert *insert, uint32_t word);
/* Calls the tool's called() with the values of so many registers (0 to 3), INLINE_A first. */
void inline_call(struct insert *insert, enum engine_tool tool, uint32_t number, unsigned values);

/*
 * Timers of marks. memory: where in the tool's counters a struct mark_times_memory lies; slower:
 * the threshold in ticks, 0: none. The usual case is handled inline; otherwise called() gets the
 * number. An end is four units, with no condition in front of it. Both can be undone.
 */
void inline_timer_begin(struct insert *insert, uint32_t memory, unsigned timer);
void inline_timer_end(struct insert *insert, uint32_t memory, unsigned timer, bool exact,
		      int32_t slower);
enum { TIMER_BEGIN, TIMER_END, TIMER_CALLED_SHIFT = 24 }; /* the number: which << SHIFT | timer */
/*
 * Data of marks: called() gets the number and the address of the operand, if something may be
 * marked in its page. An access to the range that the same instruction accessed last is counted
 * inline.
 */
void inline_touch(struct insert *insert, uint32_t number, const struct access *access);
/* The number: of the instruction, below MARK_DATA_SITES, and what it does. */
enum { TOUCH_READ = 1 << 16, TOUCH_WRITE = 1 << 17, TOUCH_MAX = 64 /* bytes */ };

/*
 * Trees of calls. memory: where in the tool's counters a struct calltree_memory lies
 * (wire/calltree.h). The usual case is handled inline; otherwise called() gets the number.
 */
/*
 * Time up to now goes to the innermost call; values: an interval that is too long for that, of
 * 1 << bits ticks or more.
 */
void inline_charge(struct insert *insert, enum engine_tool tool, uint32_t number, uint32_t memory,
		   unsigned bits);
/*
 * The routine in INLINE_A is called; pushed: bytes of the return address that the instruction is
 * about to push; site: which struct calltree_site has what was entered from here the last time.
 * values: the routine, the site. It is two units, and can be taken back.
 */
void inline_enter(struct insert *insert, enum engine_tool tool, uint32_t number, uint32_t memory,
		  unsigned pushed, unsigned site);
/* A return, whose address is on top of the stack. It can be taken back. */
void inline_leave(struct insert *insert, enum engine_tool tool, uint32_t number, uint32_t memory);

/*
 * --- Counters: counters.c. A counter is known to inline code by a number of its own, which these
 * give. ---
 */
/* A counter of the tool with a name; it is told to the host when it is first asked for. */
uint32_t counter_named(enum engine_tool tool, uint32_t index, const char *name);
/*
 * One that belongs to the instruction at pc. The tool's first counter stands for all for which
 * there are no others left.
 */
uint32_t counter_of_code(enum engine_tool tool, uint64_t pc);
/*
 * What it says so far, in the thread; for functions that are called while the program is executed.
 */
uint64_t *counter_value(struct thread *thread, uint32_t counter);
/* A tool's bytes for the segment. */
uint32_t counter_by_segment(enum engine_tool tool, uint32_t segment);

/* --- What the engine does for all tools: tool.c ------------------------------------------ */
void tools_start(void);
bool tools_any(void);
/* The tools in use, ended by NULL. */
const struct tool *const *tools_in_use(void);
const struct tool *tool_of(unsigned number);
extern struct tool tools_offer; /* of each function that of a tool in use; NULL: no tool has it */
/* Events, to all in use. */
void tools_thread_start(struct thread *thread);
void tools_thread_end(struct thread *thread);
void tools_forked(struct thread *thread);
void tools_work_begin(struct thread *thread);
void tools_work_end(struct thread *thread);
void tools_paused(struct thread *thread, uint64_t ticks);
void tools_module(const struct region *region, const char *path);
void tools_unmapped(uint64_t start, uint64_t end);
void tools_syscall(struct thread *thread);
void tools_syscall_done(struct thread *thread);
void tools_renew(void);
void tools_fragment(uint32_t first);
void tools_partial(uint32_t segment, uint32_t of, const struct stream_partial *partial);
bool tools_cut(uint64_t pc);
/* Collects the operations of all tools at the end of the segment. */
void tools_segment_list(struct insert *ret, uint32_t segment);
/*
 * A segment has ended where no code could be inserted: in a system call, or by a signal. from:
 * units that were executed already.
 */
void tools_segment_ended(struct thread *thread, uint32_t segment, unsigned from);
/* The system call that ended it has yet to be done. */
void tools_segment_undo(struct thread *thread, uint32_t segment);
/*
 * A segment has ended in the middle of a fragment: bytes and instructions are those executed of the
 * block.
 */
void tools_segment_cut(struct thread *thread, const struct fragment *fragment, unsigned block,
		       uint64_t length, uint32_t instructions);

#define X(name, id, flags, bytes, counters, unit, help) extern const struct tool tool_##id;
ENGINE_TOOLS(X)
#undef X

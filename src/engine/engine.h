/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine: runs a program from copies of its code in a cache. docs/design/engine.md has the
 * theory.
 *
 * The code here lives in the profiled process. It uses no libc, takes none of the program's locks,
 * runs on stacks of its own, and leaves nothing in the program's memory but what the program itself
 * would have put there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/offsets.h"
#include "engine/state.h"
#include "wire/engine.h"

#define USER_ADDRESSES 0x7ffffffff000ull /* of a process */

/* Who has SIGSEGV blocked; guard.c and fault.c need it unblocked in the kernel. */
enum thread_segv {
	SEGV_OPEN,
	SEGV_HIDDEN, /* the program believes that it has blocked it; in the kernel it is not */
	SEGV_BLOCKED, /* both have */
};

/* What the engine can go back to when something goes wrong within itself: fault.c. */
enum thread_safe {
	SAFE_NOTHING,
	SAFE_STATE, /* the program's registers and pc are in the thread */
	SAFE_CALL, /* the same, but pc is behind a system call that has yet to be done */
	SAFE_CALLED, /* that was done, with this result */
	SAFE_MIDDLE, /* it goes on in the cache, at next */
};

/* One thread of the program. gs points to it while the thread is in the cache or in the engine. */
struct thread {
	uint64_t regs[16];
	uint64_t pc;
	uint64_t flags;
	uint64_t spill[2];
	uint64_t exit;
	uint64_t next;
	uint64_t stack;
	uint64_t on_exit;
	uint64_t on_miss;
	uint64_t self;
	uint64_t scratch;
	uint64_t gs;
	uint64_t fs_engine;
	uint64_t pending; /* a signal that came while the engine was running */
	uint64_t on_call;
	uint64_t iret[5]; /* rip, cs, flags, rsp, ss with which the thread goes on natively */
	uint64_t saved[16]; /* the program's registers while inserted code uses them */
	uint64_t saved_flags; /* lahf in bits 8 to 15, seto in bit 0 */
	uint64_t addresses[2]; /* of the operands of the instruction that is being executed */
	uint64_t arguments[3];
	uint64_t called;
	uint64_t on_tool;
	/* within guarded_call(): where the program's vector registers are, and its fs */
	uint64_t guarded, guarded_fs;
	uint64_t call_stack;
	/* the kernel has all signals blocked but those of faults, and had this mask before */
	uint64_t closed, closed_mask;
	uint64_t displaced; /* whether the second tables of targets hold anything */
	/* Fields that assembly does not use. */
	/* epoch in which it last went into the cache; 0: it has left it, and holds nothing of it */
	uint64_t entered;
	uint32_t targets; /* that were added since its tables were empty */
	uint32_t displacements; /* of which others have taken their place */
	uint32_t tid;
	uint32_t state; /* enum thread_state; only thread_become() writes it */
	uint32_t leave; /* enum engine_leave: why it is NATIVE */
	uint32_t counting; /* marks: at its last system call; 2: its counts have been taken */
	uint32_t handler_keys; /* rights of keys that the kernel gives a handler; of the last one */
	uint32_t apart; /* it is of another process that shares this memory, as after vfork */
	uint64_t step_mask; /* while it steps: the program's mask */
	uint32_t step_breaks; /* while it steps: the instruction is int1 */
	struct thread *older; /* in the list of all */
	struct sighand *sighand;
	struct sighand *handlers; /* memory for a copy, if it has ever needed one */
	struct alternate {
		uint64_t start;
		uint64_t size;
		uint32_t flags;
	} alternate; /* the program's stack for signals; the kernel knows only ours */
	/* of a new thread: the kernel has everything blocked until it is ready */
	uint64_t start_mask;
	uint64_t signal_stack; /* ours: lowest byte */
	uint64_t mask; /* while a signal waits: the program's mask, the kernel has all blocked */
	struct rseq_area {
		uint64_t address;
		uint32_t size;
		uint32_t signature;
	} rseq; /* what it had registered when it was attached to; it has it again when it leaves */
	struct dispatch {
		uint64_t on; /* calls from elsewhere than the range are signals; user_dispatch.c */
		uint64_t start, size, selector;
	} dispatch;
	/* memory that its system call is about to change; mapping.c */
	uint64_t wants_start, wants_end;
	uint32_t segv; /* enum thread_segv */
	uint32_t starting; /* the program has no signals yet */
	uint32_t begun; /* its stack for signals is there, and tools know it */
	uint32_t cleared; /* a new thread for which the kernel has taken back all handlers */
	uint32_t safe; /* enum thread_safe */
	uint32_t call_length; /* of the instruction, for SAFE_CALL and SAFE_CALLED */
	uint64_t call_result;
	uint64_t failed_at; /* the program's pc when the engine last had a fault of its own */
	int32_t superblock_pause,
		superblock_idle; /* superblocks.c: chunks that are not looked at */
	uint32_t superblock_seed;
	uint8_t pending_info[128];
	uint64_t delivering, bell; /* the signal that waited, and what was sent for it */
	_Alignas(16) uint8_t canary
		/* fs points here while Zydis runs: its code was built to look for a canary there */
		[64];
};

#define THREAD_CHECK(field, offset)                                                                \
	_Static_assert(offsetof(struct thread, field) == (offset), #field)
THREAD_CHECK(regs, THREAD_RAX);
THREAD_CHECK(pc, THREAD_PC);
THREAD_CHECK(flags, THREAD_FLAGS);
THREAD_CHECK(spill, THREAD_SPILL0);
THREAD_CHECK(exit, THREAD_EXIT);
THREAD_CHECK(next, THREAD_NEXT);
THREAD_CHECK(stack, THREAD_STACK);
THREAD_CHECK(on_exit, THREAD_ON_EXIT);
THREAD_CHECK(on_miss, THREAD_ON_MISS);
THREAD_CHECK(self, THREAD_SELF);
THREAD_CHECK(scratch, THREAD_SCRATCH);
THREAD_CHECK(gs, THREAD_GS);
THREAD_CHECK(fs_engine, THREAD_FS_ENGINE);
THREAD_CHECK(pending, THREAD_PENDING);
THREAD_CHECK(on_call, THREAD_ON_CALL);
THREAD_CHECK(iret, THREAD_IRET);
THREAD_CHECK(saved, THREAD_SAVED);
THREAD_CHECK(saved_flags, THREAD_SAVED_FLAGS);
THREAD_CHECK(addresses, THREAD_ADDRESSES);
THREAD_CHECK(arguments, THREAD_ARGUMENTS);
THREAD_CHECK(called, THREAD_CALLED);
THREAD_CHECK(on_tool, THREAD_ON_TOOL);
THREAD_CHECK(guarded, THREAD_GUARDED);
THREAD_CHECK(guarded_fs, THREAD_GUARDED_FS);
THREAD_CHECK(call_stack, THREAD_CALL_STACK);
THREAD_CHECK(closed, THREAD_CLOSED);
THREAD_CHECK(closed_mask, THREAD_CLOSED_MASK);
THREAD_CHECK(displaced, THREAD_DISPLACED);
_Static_assert(sizeof(struct thread) <= THREAD_TAGS, "the tables follow");

enum register_number {
	RAX,
	RCX,
	RDX,
	RBX,
	RSP,
	RBP,
	RSI,
	RDI,
	R8,
	R9,
	R10,
	R11,
	R12,
	R13,
	R14,
	R15
};

enum exit_kind {
	EXIT_DIRECT, /* goes on at target */
	EXIT_SYSCALL, /* a system call; target is the instruction behind it */
	/*
	 * the instruction at target cannot be copied: special.c, or let the program have its fault
	 */
	EXIT_FAULT,
	EXIT_FAR, /* there is no room within reach of the code at target */
	/* a 32-bit system call at target; if it is harmless, its copy is behind the exit's jump */
	EXIT_INT80,
	EXIT_STALE, /* the code at target is not any more what the fragment was made of */
};

/* An exit of a fragment. */
struct exit {
	uint64_t target; /* in the program */
	/*
	 * the 32-bit displacement that leads to the stub, until it leads to the target; NULL: never
	 */
	uint8_t *patch;
	uint8_t *stub;
	struct fragment *to; /* that the displacement leads to; NULL: to the stub */
	struct exit *next, **link; /* in the list of those that lead there */
	uint32_t kind; /* enum exit_kind */
	uint32_t length; /* of the instruction, for SYSCALL and FAULT */
	uint32_t segment; /* that ends there, for SYSCALL and FAULT; 0: it is not recorded */
};

enum { BLOCKS_MAX = 32 };

/*
 * A copy of the program's code in the cache: blocks of it, in the order in which it is expected to
 * run.
 */
struct fragment {
	uint64_t pc;
	uint8_t *start; /* the first byte */
	uint8_t *indirect; /* with rcx and rdx in their spill slots */
	uint8_t *entry; /* with all registers the program's */
	uint8_t *body; /* behind the check of changing code; otherwise the same */
	uint8_t *end;
	struct fragment *older; /* in a chain of its page */
	struct exit *incoming; /* exits that lead here */
	struct use *uses; /* pages it was made of */
	/* the code it was made of; NULL: the program's own is still the same */
	const uint8_t *bytes;
	uint32_t arena;
	bool closed; /* nothing leads here any more, but a thread may still be in it */
	bool cut; /* it ends where the guarded memory ends, in the middle of a block */
	bool checked; /* it begins with a check that the program's code is what it was made of */
	/* its segments have numbers from here on; 0: they are not recorded */
	uint32_t first_segment;
	struct segment_ends {
		/* a bit for each end of a segment, in the order they were put */
		uint64_t flags_dead;
		uint64_t scratch[4]; /* bits of a register's number */
	} ends;
	const struct inserted
		*inserted; /* what tools have put at instructions, in order; NULL: nothing */
	uint32_t block_count;
	struct block {
		uint64_t pc;
		uint32_t length; /* bytes of the program */
		uint16_t instructions;
		bool leads; /* it ends with a branch, so control goes on in the cache */
	} blocks[]; /* BLOCKS_MAX while it is made */
};

/* The program's handlers. Threads share them as they do in the kernel. */
struct sighand {
	uint32_t version; /* odd while one is being changed, with the engine's lock held */
	struct handler {
		uint64_t handler;
		uint64_t flags;
		uint64_t restorer;
		uint64_t mask;
	} handlers[64];
};

/* --- memory.c: never freed one by one ---------------------------------------------------- */
void *memory_take(size_t size);
/* mmap() of private memory, which a limit that the program has set does not concern. */
long memory_map_raw(uint64_t hint, size_t size, int protection, int flags);
/* Fresh pages anywhere, or NULL. */
void *memory_map(size_t size);
/* Fresh pages in the place of what is there. */
void memory_map_at(uint64_t address, size_t size);
void memory_unmap(void *memory, size_t size);
/* A mapping of the engine's own, which goes when the engine goes. */
void memory_note(uint64_t start, uint64_t size);
/* Keeps a mapping out of the program's core dumps, which are as large as without the engine. */
void memory_hide(uint64_t start, uint64_t size);
extern struct engine_mappings memory_mappings;
extern uint64_t memory_changes; /* grows whenever they change */
/* The first piece in the range that the engine, or the host for it, has mapped; false: none. */
bool memory_first(uint64_t start, uint64_t end, struct engine_mapping *ret);
bool memory_is_ours(uint64_t address);
/* Bytes of address space that the engine has. */
uint64_t memory_total(void);
/*
 * The thread whose system call is about to change the range, in which the engine must map nothing;
 * NULL: none.
 */
const struct thread *memory_wanted(uint64_t start, uint64_t size);

/* --- insert.c ---------------------------------------------------------------------------- */
/* Whether any tool inserts code at instructions. */
bool tools_insert(void);

/* --- arenas.c ---------------------------------------------------------------------------- */
/* Room for a fragment within reach of pc; NULL: there is none. */
uint8_t *cache_room(uint64_t pc, size_t size);
/*
 * In the arena that room was found in: a fragment that is being made, and what is known about it.
 */
struct fragment *cache_fragment(uint64_t pc);
void *cache_notes(size_t size);
uint32_t cache_exit_new(struct exit **ret);
/* The number that the next one will have. */
uint32_t cache_exit_next(void);
/* The next fragment near pc begins here, with a line of the processor's cache; NULL: no room. */
uint8_t *cache_align(uint64_t pc);
/* The fragment is complete: its code and notes are taken. For cache_add(). */
void arena_add(struct fragment *fragment);
/* A fragment was closed: an arena with few others is given up first. */
void arena_note_closed(const struct fragment *fragment);
struct exit *cache_exit(uint32_t number);
/* The fragment whose code holds the address; NULL: none. */
struct fragment *cache_holder(uint64_t at);
/* The thread goes on in the fragment. */
void cache_enter(struct thread *thread, const struct fragment *fragment);
/*
 * The program is about to map something in the range: arenas there are given up. Without the lock.
 * False: other memory of the engine lies there, or a thread does not leave an arena in time.
 */
bool cache_yield(uint64_t start, uint64_t end);
/* The program's heap has met an arena, and is to reach this far: no more arenas above it. */
void cache_avoid_heap(uint64_t end);
/* Closes all fragments without following a list; arenas are unmapped when threads have left. */
void arenas_reset(void);

/* --- cache.c ----------------------------------------------------------------------------- */
void cache_add(struct fragment *fragment);
struct fragment *cache_find(uint64_t pc);
/* Whether there is one: cheaper, since most code that is asked about has none. */
bool cache_has(uint64_t pc);
/* Removes all references to the fragment; threads that are in it leave it at the next exit. */
void fragment_close(struct fragment *fragment);
/* Code in the range has changed or is gone: it is translated anew when it is reached again. */
void cache_forget(uint64_t start, uint64_t end);
/*
 * Forgets all lists and links, which may be inconsistent after a fault: all code is translated
 * anew.
 */
void cache_reset(void);
void exit_link(struct exit *exit, struct fragment *to);
void exit_unlink(struct exit *exit);
/* Leads to the engine again, whatever lists say. */
void exit_reset(struct exit *exit);

/* --- regions.c --------------------------------------------------------------------------- */
struct region {
	uint64_t start, end;
	bool readable, writable, executable;
	bool shared; /* another mapping of the same memory may be writable */
	uint64_t offset; /* in its file */
	uint64_t inode; /* 0: it has no file */
	uint32_t device_major, device_minor;
};
/* The executable mapping that pc lies in; NULL: none. */
const struct region *region_of(uint64_t pc);
/*
 * Copies code up to where it is no longer mapped, or changes between stable and changing code;
 * returns the number of bytes.
 */
size_t code_read(uint64_t pc, uint8_t *ret, size_t size);
/* Memory that a thread of this process may have to bring first (userfaultfd): never read here. */
void regions_brought(uint64_t start, uint64_t end);
/*
 * The mappings in the range have changed; executable: there may be code now. False: no code was or
 * is there.
 */
bool regions_change(uint64_t start, uint64_t end, bool executable);

/* --- live.c ------------------------------------------------------------------------------ */
/* Code, or what is mapped, has changed: what was found out about registers and flags is void. */
void dead_forget(void);

/* --- translate.c ------------------------------------------------------------------------- */
/* The fragment that begins at pc; made when new. */
struct fragment *translate(struct thread *thread, uint64_t pc);
/*
 * The program's state at an address in the cache, given the processor's there: thread->regs and
 * thread->pc become what they would be in the program. False: the address is not in a fragment.
 */
bool translate_back(struct thread *thread, uint64_t at);
/* Its segments, which are recorded: the host learns of them. */
void fragment_define(const struct fragment *fragment);
/* The addresses of the blocks that a fragment is to follow. */
struct plan {
	uint32_t count;
	uint64_t pcs[BLOCKS_MAX];
};
/* A fragment by plan takes the place of the one that begins there; false: it cannot be made. */
bool translate_superblock(struct thread *thread, const struct plan *plan);
/*
 * The address of the instruction that this is a copy of; an address in no fragment stays as it is.
 */
uint64_t translate_address(struct thread *thread, uint64_t at);
/* The number of the block of the fragment that holds the address. */
unsigned translate_block(struct thread *thread, const struct fragment *fragment, uint64_t at);

/* --- changing_code.c --------------------------------------------------------------------- */
enum { CHANGING_CODE_BYTES = 64 };
/*
 * Code that may change at any moment, as it was when it was looked at: up to where a fragment of it
 * must end.
 */
struct changing_code {
	uint8_t bytes[CHANGING_CODE_BYTES];
	uint32_t length; /* 0: no instruction that could be decoded */
};
bool region_is_changing(const struct region *region);
/*
 * Whether the code at pc cannot change without our knowledge; it is write-protected (guard.c) if
 * that helps.
 */
bool code_is_stable(const struct thread *thread, uint64_t pc);
void changing_code_look(const struct thread *thread, uint64_t pc, struct changing_code *ret);
/* The parts of a fragment that check; both give where the next part begins. */
uint8_t *changing_code_put_stale(struct fragment *fragment, const struct changing_code *changing,
				 uint8_t *at);
uint8_t *changing_code_put_check(struct fragment *fragment, const struct changing_code *changing,
				 uint8_t *at);
/* As translate_back(), for those parts; false: elsewhere. */
bool changing_code_back(struct thread *thread, const struct fragment *fragment, const uint8_t *at);

/* --- guard.c ----------------------------------------------------------------------------- */
/* Makes sure that the code at pc cannot change unnoticed; false: it can. */
bool guard_take(const struct thread *thread, uint64_t pc);
/* Whether the page is guarded, so that the program believes that it can write there. */
bool guard_knows(uint64_t pc);
/* Whether the guarded memory ends within the instruction at pc. */
bool guard_ends(uint64_t pc);
/*
 * A write has faulted. True: the page was guarded, and the write is to be repeated; the program
 * must not see the fault.
 */
bool guard_fault(uint64_t address);
/* The mappings in the range are new. */
void guard_drop(uint64_t start, uint64_t end);
/* Before a system call, which might write; without the lock. */
void guard_release(uint64_t start, uint64_t size);
void guard_release_arguments(const struct thread *thread);
bool guard_release_all(void);
/*
 * guard_pause(): removes all protection until all threads are in the engine again. guard_end():
 * removes it for good.
 */
void guard_pause(void);
void guard_end(void);
/* The same, and from here on the kernel blocks SIGSEGV where the program does. */
void guard_show(void);
/* Whether a fault may be one of a guarded page. */
bool guard_has_any(void);
/* Whether the kernel has SIGSEGV open where the program has it blocked. */
bool guard_is_hiding(void);
/*
 * The mask that is set in the kernel for one that the program wants, and the mask that the program
 * sees for one in the kernel.
 */
uint64_t guard_mask_kernel(struct thread *thread, uint64_t mask);
uint64_t guard_mask_program(const struct thread *thread, uint64_t mask);
/*
 * Whether the program has SIGSEGV blocked and the kernel has not. Then the end of that: gives the
 * mask that the kernel is to have. Takes the lock.
 */
bool guard_hides(const struct thread *thread);
uint64_t guard_unhide(struct thread *thread, uint64_t mask);
/* Called before the thread goes on outside the engine, where it may block any signal. */
void guard_leave(struct thread *thread);

/* --- thread.c ---------------------------------------------------------------------------- */
struct thread *thread_create(void);
/* The threads that are in the engine or may come back; NULL: the first. */
struct thread *thread_next(const struct thread *thread);
/* Whether any thread of the process is outside the engine. */
bool threads_native(void);
/* Whether the process has no other thread. */
bool thread_is_alone(const struct thread *thread);
/* Adds a target of indirect branches to the thread's tables. */
void thread_target_add(struct thread *thread, const struct fragment *fragment);
void thread_target_forget(struct thread *thread, uint64_t pc);
void thread_targets_clear(struct thread *thread);
void thread_targets_open(struct thread *thread);
/* All others are of the process that this one was forked from. */
void threads_only(struct thread *thread);
/* The calling thread, even if gs is the program's; NULL: it was created outside of the engine. */
struct thread *thread_find(void);
/* The handlers of the process. */
struct sighand *thread_any_handlers(void);
extern uint32_t engine_lock_word;
/* Whether this thread holds the lock. */
bool engine_locked(const struct thread *thread);
void engine_lock(void);
void engine_unlock(void);
/*
 * A thread of a process that was attached to may be about to go on with a system call of the
 * program by restart_syscall. The kernel keeps one call for that, the last one, and a futex with a
 * timeout would be it if a stop interrupted it. select() never is.
 */
void engine_pause(uint32_t microseconds);
/*
 * Waits as futex() does, for so long at most, or for a moment where futex() must not be used.
 * Returns the microseconds that have passed without being woken.
 */
uint32_t engine_wait(uint32_t *word, uint32_t value, int operation, uint32_t milliseconds);

/* --- signal.c ---------------------------------------------------------------------------- */
/* False: there is no memory for it. Signals of faults are open from here on. */
bool signal_start(struct thread *thread);
/*
 * SIGTRAP comes to the engine whatever the program does about it; then again as the program wants
 * it.
 */
void signal_take_traps(void);
void signal_give_traps(struct thread *thread);
/* Blocks everything, a fault of the engine's own included; gives the mask before. */
uint64_t signal_block(void);
/* Unblocks the signals of faults of the engine's own. */
void signal_faults_open(void);
/* The mask stays as it is after signal_close(): a signal waits. */
void signal_stay_blocked(struct thread *thread);
void signal_unblock(uint64_t mask);
/* What the program has installed by itself, with our handler in its place; and back. */
struct sighand *signal_handlers_take(void);
void signal_handlers_give(const struct sighand *sighand);
/* The program's alternate stack, likewise. */
void signal_alternate_take(struct thread *thread);
void signal_alternate_give(const struct thread *thread);
long signal_action(struct thread *thread);
long signal_mask(struct thread *thread);
/* SIGSEGV and SIGBUS come to the engine, whatever the program does with them. */
bool signal_is_taken(uint64_t number);
void signal_faults_take(const struct sighand *sighand);
/* Before an exec, and after one that has failed: what is ignored stays so in the new program. */
void signal_ignored_give(const struct thread *thread);
void signal_ignored_take(const struct thread *thread);
/*
 * A fault may have stopped a thread in the middle of changing a handler: makes the versions even
 * again.
 */
void signal_handlers_settle(struct sighand *sighand);
long signal_alternate(struct thread *thread);
_Noreturn void signal_return(struct thread *thread);
/*
 * The process, which has no other thread, goes on natively at thread->pc, with its own handlers, as
 * if the engine had never been there. Returns only if a signal waits, which comes first.
 */
void signal_hand_back(struct thread *thread, enum engine_leave reason);
/* Delivers signals that are held back, before the program goes on. */
void signal_check(struct thread *thread);
/* clear: handled signals get their default action, as CLONE_CLEAR_SIGHAND says. */
void signal_handlers_copy(struct thread *thread, const struct sighand *from, bool clear);
/* In a child that is the same thread: the kernel has cleared them already. */
void signal_handlers_clear(struct thread *thread);

/* --- fault.c ----------------------------------------------------------------------------- */
extern uint64_t fault_countdown; /* of what is to fail, for tests; 0: nothing is */
void fault_start(void);
void fault_step(enum engine_failure what);
/* For tests: here it may go wrong. */
static inline void fault_point(enum engine_failure what)
{
	if (__builtin_expect(fault_countdown != 0, 0))
		fault_step(what);
}
/* Whether memory is to be refused. */
bool fault_refuses(void);
/* A signal at that address of the engine's own code: true if the thread can go on. */
bool fault_take(struct thread *thread, int number, uint64_t rip, uint64_t address);
/*
 * There is no memory for what has to be done. The thread recovers as from a fault (fault.c), or
 * else the process ends with a message.
 */
_Noreturn void fault_memory(const char *what);
_Noreturn void fault_recover(struct thread *thread);

/* --- syscall.c --------------------------------------------------------------------------- */
/*
 * Does the program's system call: registers in, registers out. thread->pc is where it goes on.
 * False: a signal came first, and it has yet to be done.
 */
bool syscall_run(struct thread *thread, uint32_t length);
/* The call is over: what the program finds in its registers. */
void syscall_finish(struct thread *thread, long result);
/* The call was done: if the engine has a fault from here on, this is its result. */
void syscall_note(struct thread *thread, long result);

/* --- mapping.c: the program's calls about its address space, as program_syscall() ---------- */
/* mmap, munmap, mprotect, pkey_mprotect, mremap. */
long mapping_change(struct thread *thread);
/* Others that take a range of memory in their first two arguments. */
long mapping_range(struct thread *thread);
long mapping_advice(struct thread *thread);
long mapping_shared(struct thread *thread);
/* UFFDIO_REGISTER. */
long mapping_brought(struct thread *thread);
/* In the child of a fork. */
void mapping_forked(void);
long mapping_heap(struct thread *thread);
long mapping_personality(struct thread *thread);

/* --- user_dispatch.c ---------------------------------------------------------------------- */
/* prctl(PR_SET_SYSCALL_USER_DISPATCH). */
long user_dispatch_set(struct thread *thread);
/* The system call in hand, which ends at thread->pc, has become a signal. */
bool user_dispatch_take(struct thread *thread);

/* --- limits.c ----------------------------------------------------------------------------- */
/*
 * The engine needs so many bytes more than the limit of memory allows; false: the limit cannot be
 * raised.
 */
bool limits_raise(uint64_t size);
/* The engine has more or less memory than before. */
void limits_follow(void);
/* Before an exec, and after one that has failed: the new program has the limit of this one. */
void limits_exec(bool failed);
/* setrlimit, getrlimit, prlimit64; false: not about this process's memory. */
bool limits_run(struct thread *thread, long *ret);

/* --- maps.c ------------------------------------------------------------------------------ */
/*
 * The program has opened a file. If it is the list of its mappings, or its status, the engine is
 * taken out.
 */
void maps_opened(const struct thread *thread, long fd, uint64_t path, uint64_t flags);
/* It has written to one: to its own memory, perhaps. */
void maps_written(long fd);

/* --- user.c ------------------------------------------------------------------------------ */
/* False: the memory is not there, or not to be read or written. */
bool user_read(void *to, uint64_t from, size_t size);
/* load.S: bytes that were copied, up to the first that cannot be. Faults must be open. */
size_t memory_copy(void *to, const void *from, size_t size);
extern const char memory_copy_begin[], memory_copy_end[];

/* keys.c: what the thread may touch, before it was opened. */
uint32_t keys_open(void);
void keys_close(uint32_t rights);
/* In the vector registers of a handler's frame. */
void keys_reset(uint8_t *vectors, uint32_t rights);
bool user_write(uint64_t to, const void *from, size_t size);
/* Whether all of it can be written; its contents are lost. */
bool user_touch(uint64_t start, size_t size);

/* --- native.c ---------------------------------------------------------------------------- */
/*
 * The thread goes on natively. Comes back only if it need not: thread->pc is where it goes on here.
 */
void native_go(struct thread *thread, enum engine_leave reason);
_Noreturn void native_enter(struct thread *thread, uint64_t flags);
/*
 * A signal at pc, in code of that selector, in a thread that is native. True if it is in the engine
 * again: that is where it left, or it is stepped.
 */
bool native_back(struct thread *thread, uint64_t pc, uint16_t selector, uint64_t flags);
/* Undoes native_go(): the thread is still in the engine. */
void native_cancel(struct thread *thread);

/* --- special.c --------------------------------------------------------------------------- */
enum { FLAG_TRAP = 0x100 };
/* Does the instruction at thread->pc, which cannot be copied, or goes on natively. */
void special_run(struct thread *thread);
/* Whether the number is a canonical address of user space, to which the processor can jump. */
bool special_is_address(uint64_t number);
/* System calls of 32-bit programs that the engine need not know about. */
bool special_is_harmless(uint32_t number);
/* The program has set the trap flag itself: executes one instruction as the processor would. */
void step_program(struct thread *thread);
/*
 * A signal in a thread that may be stepped, and whose registers are in the thread: true if there
 * was nothing else to it.
 */
bool step_end(struct thread *thread, int number, int code);
/*
 * The indirect branch that ends the block has led to where the processor does not go: it has not
 * been.
 */
void branch_undo(struct thread *thread, const struct fragment *fragment, unsigned block);
/* The same for the branch whose code in the cache holds the address. */
void branch_undo_at(struct thread *thread, uint64_t at);

/* --- attach.c ---------------------------------------------------------------------------- */
void attach_publish(void);
/* Waits until all threads have come into the engine, before this one unblocks its signals. */
void attach_gate(void);
/*
 * Whether threads that start now are those of a running process that the engine is being attached
 * to.
 */
bool attach_is_coming(void);
/* Does the program's rseq(). */
long attach_rseq(struct thread *thread);
bool attach_has_rseq(void);
/* The host takes no more requests from this process. */
bool attach_is_leaving(void);
_Noreturn void attach_leave(struct thread *thread);
/*
 * Called before the program goes on, with its registers in the thread: leaves the engine if the
 * host wants it.
 */
static inline void attach_check(struct thread *thread);

/* --- host.c ------------------------------------------------------------------------------ */
bool host_exists(void);
/* Whether the process that takes the engine out is alive. */
bool host_takes(void);
/* 0 or a negative number: the host said no, or is gone. */
int host_ask(const struct engine_request *request);
/* About code that was mapped; what the answer is depends on who serves. With the lock held. */
int host_ask_module(const struct region *region, const char *path);
bool host_alive(void);
/* In a child that was just forked: shared memory of its own, in the place of its parent's. */
void host_forked(void);
/* The program has installed a filter of system calls, and goes on in the engine. */
void host_filtered(void);
bool host_is_filtered(void);
/* Counts one more or one less that runs natively. */
void host_left(enum engine_leave reason, int change);
void host_count(enum engine_count count);

/* --- main.c ------------------------------------------------------------------------------ */
extern struct engine_boot engine_boot;
extern struct engine_boot *engine_boot_place; /* where the host has put it */
static inline void attach_check(struct thread *thread)
{
	if (__builtin_expect(__atomic_load_n(&engine_boot_place->leaving, __ATOMIC_ACQUIRE) >
				     thread->apart,
			     0))
		attach_leave(thread);
}
/* Says what is wrong on stderr and ends the process: only for what must never happen. */
_Noreturn void engine_die(const char *what);

/* --- dispatch.S -------------------------------------------------------------------------- */
void engine_exit(void);
void engine_miss(void);
void engine_call(void);
void engine_tool(void);
_Noreturn void engine_resume(struct thread *thread);
/* Abandons what the engine was doing and continues at fault_recover(). */
_Noreturn void fault_unwind(struct thread *thread);
/* With the program's registers and gs to what thread->iret says. */
_Noreturn void native_leave(struct thread *thread);
/* Calls function(a, b) with vector registers and fs kept. */
long guarded_call(long (*function)(void *, void *), void *a, void *b);
/* clone() whose child goes on in thread_begin(thread) on the stack that was given. */
long clone_thread(long number, long a, long b, long c, long d, long e);
/*
 * The program's system call, from thread->regs; PROGRAM_RESTART: a signal came first, nothing was
 * done.
 */
long program_syscall(struct thread *thread);
extern const char program_syscall_begin[], program_syscall_insn[], program_syscall_done[];
extern const char engine_resume_begin[], engine_resume_end[];
/* of its part in which registers are as in an indirect branch */
extern const char engine_miss_end[];
void signal_entry(void);
void signal_restorer(void);
void signal_resume(void);
_Noreturn void signal_return_raw(void *context);
extern const char signal_return_end[];
/*
 * Between these no signal comes to the thread but its own faults. The first gives the mask before,
 * the second sets one.
 */
uint64_t signal_close(void);
void signal_open(uint64_t mask);
extern const char signal_close_done[], signal_close_end[], signal_open_insn[];
/* Lets the signal through that was just queued; the handler is called in between. */
void signal_let(const uint64_t *mask);

_Static_assert(PROGRAM_RESTART == ENGINE_CALL_OFF, "the host's number");

/* Called from dispatch.S. */
void signal_arrive(int number, void *info, void *context);
void engine_on_resume(struct thread *thread);
void engine_on_exit(struct thread *thread);
void engine_on_late(struct thread *thread);
void engine_on_miss(struct thread *thread);
void engine_on_call(struct thread *thread);
void engine_on_tool(struct thread *thread);
_Noreturn void thread_begin(struct thread *thread);
/*
 * Resumes the program with the registers that are in the thread: in the cache, or natively if the
 * engine has failed.
 */
_Noreturn void thread_go(struct thread *thread);
_Noreturn void thread_leave(struct thread *thread);
_Noreturn void engine_entry(struct engine_boot *boot);
_Noreturn void engine_main(struct engine_boot *boot);
/* From the host. */
_Noreturn void engine_attach(struct engine_boot *boot, const struct engine_start *start);
_Noreturn void engine_release(const struct engine_parked *at);
void gs_set(struct thread *thread);

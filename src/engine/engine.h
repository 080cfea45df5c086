/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine: runs a program from copies of its code in a cache. docs/design/engine.md has the theory.
 *
 * The code here lives in somebody else's process. It uses no libc, takes none of the program's locks, runs on stacks of its
 * own, and leaves nothing in the program's memory but what the program itself would have put there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/offsets.h"
#include "wire/engine.h"

enum thread_end {
	THREAD_LIVES,
	THREAD_ENDS, /* it has called exit, or is about to: it may still be in the engine */
	THREAD_GONE, /* it is not in this memory any more */
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
	/* What assembly does not know. */
	uint64_t entered; /* epoch in which it last went into the cache; 0: it has left it, and holds nothing of it */
	uint32_t tid;
	uint32_t native; /* it has left the engine */
	uint32_t leave; /* enum engine_leave: why */
	uint32_t apart; /* it is of another process that shares this memory, as after vfork */
	uint32_t step; /* enum step: it is native for one instruction */
	uint64_t step_mask; /* while it steps: the program's mask */
	uint32_t dead; /* enum thread_end; its memory may be reused once the kernel has forgotten tid */
	struct thread *older; /* in the list of all */
	struct sighand *sighand;
	struct sighand *handlers; /* memory for a copy, if it has ever needed one */
	struct alternate {
		uint64_t start;
		uint64_t size;
		uint32_t flags;
	} alternate; /* the program's stack for signals; the kernel knows only ours */
	uint64_t start_mask; /* of a new thread: the kernel has everything blocked until it is ready */
	uint64_t signal_stack; /* ours: lowest byte */
	uint64_t mask; /* while a signal waits: the program's mask, the kernel has all blocked */
	struct rseq_area {
		uint64_t address;
		uint32_t size;
		uint32_t signature;
	} rseq; /* what it had registered when it was attached to; it has it again when it leaves */
	uint32_t segv_hidden; /* the program has SIGSEGV blocked; the kernel has it only if no pages are guarded */
	uint32_t segv_blocked; /* and the kernel has it, too */
	uint32_t segv_waits; /* one was sent to it meanwhile */
	uint32_t handed_back; /* the next signal is our own: see signal_hand_back() */
	int32_t trace_pause, trace_idle; /* traces.c: chunks that are not looked at */
	uint32_t trace_seed;
	uint32_t delivering; /* it has been sent once more: registers are those of the thread */
	uint8_t pending_info[128];
	_Alignas(16) uint8_t canary
		[64]; /* fs points here while Zydis runs: its code was built to look for a canary there */
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
	EXIT_FAULT, /* the instruction at target cannot be copied: awkward.c, or let the program have its fault */
	EXIT_FAR, /* there is no room within reach of the code at target */
	EXIT_INT80, /* a 32-bit system call at target; if it is harmless, its copy is behind the exit's jump */
	EXIT_STALE, /* the code at target is not any more what the fragment was made of */
};

/* A way out of a fragment. */
struct exit {
	uint64_t target; /* in the program */
	uint8_t *patch; /* the 32-bit displacement that leads to the stub, until it leads to the target; NULL: never */
	uint8_t *stub;
	struct fragment *to; /* that the displacement leads to; NULL: to the stub */
	struct exit *next, **link; /* in the list of those that lead there */
	uint32_t kind; /* enum exit_kind */
	uint32_t length; /* of the instruction, for SYSCALL and FAULT */
	uint32_t run; /* that ends there, for SYSCALL and FAULT; 0: nobody wants to know */
};

enum { PIECES_MAX = 32 };

/* A copy of the program's code in the cache: pieces of it, in the order in which it is expected to run. */
struct fragment {
	uint64_t pc;
	uint8_t *start; /* the first byte */
	uint8_t *indirect; /* with rcx and rdx in their spill slots */
	uint8_t *entry; /* with all registers the program's */
	uint8_t *body; /* behind the check of unstable code; otherwise the same */
	uint8_t *end;
	struct fragment *older; /* in the chain of its bucket */
	struct exit *incoming; /* exits that lead here */
	struct use *uses; /* pages it was made of */
	const uint8_t *bytes; /* the code it was made of; NULL: the program's own is still the same */
	uint32_t arena;
	bool closed; /* nobody comes here any more */
	bool cut; /* the guarded memory ended before its code did */
	bool checked; /* it begins with a check that the program's code is what it was made of */
	uint8_t spilled; /* registers that the check uses */
	uint32_t first_run; /* 0: nobody wants to know */
	struct run_ends {
		uint64_t flags_dead; /* a bit for each end of a run, in the order they were put */
		uint64_t scratch[4]; /* bits of a register's number */
	} ends;
	uint32_t piece_count;
	struct piece {
		uint64_t pc;
		uint32_t length; /* bytes of the program */
		uint16_t instructions;
		bool leads; /* on in the cache: it ends with a branch */
	} pieces[]; /* PIECES_MAX while it is made */
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

/* --- memory.c: never freed one by one --- */
void *memory_take(size_t size);
/* Fresh pages anywhere, or NULL. */
void *memory_map(size_t size);
/* Fresh pages in the place of what is there. */
void memory_map_at(uint64_t address, size_t size);
void memory_unmap(void *memory, size_t size);
/* A mapping of the engine's own, which goes when the engine goes. */
void memory_note(uint64_t start, uint64_t size);
extern struct engine_mappings memory_mappings;

/* --- cache.c --- */
/* Room for a fragment within reach of pc; NULL: there is none. */
uint8_t *cache_room(uint64_t pc, size_t size);
/* In the arena that room was found in: a fragment that is being made, and what is known about it. */
struct fragment *cache_fragment(uint64_t pc);
void cache_add(struct fragment *fragment);
void *cache_notes(size_t size);
struct fragment *cache_find(uint64_t pc);
/* The thread goes on in the fragment. */
void cache_enter(struct thread *thread, const struct fragment *fragment);
/* Nobody finds the fragment any more; who is in it leaves it soon. */
void fragment_close(struct fragment *fragment);
/* Code in the range has changed or is gone: it is translated anew when it is reached again. */
void cache_forget(uint64_t start, uint64_t end);
/* The fragment whose code holds the address; NULL: none. */
struct fragment *cache_holder(uint64_t at);
struct exit *cache_exit(uint32_t number);
uint32_t cache_exit_new(struct exit **ret);
void exit_link(struct exit *exit, struct fragment *to);
void exit_unlink(struct exit *exit);

/* --- regions.c --- */
struct region {
	uint64_t start, end;
	bool readable, writable, executable;
	bool shared; /* somebody else may have a view that can be written */
	uint64_t offset; /* in its file */
	uint64_t inode; /* 0: it has no file */
	uint32_t device_major, device_minor;
};
/* The executable mapping that pc lies in; NULL: none. */
const struct region *region_of(uint64_t pc);
/* Copies code of one kind, stable or not, as far as it is there; gives the number of bytes. */
size_t code_read(uint64_t pc, uint8_t *ret, size_t size);
/* The mappings in the range have changed; executable: there may be code now. False: no code was or is there. */
bool regions_change(uint64_t start, uint64_t end, bool executable);

/* --- translate.c --- */
/* The fragment that begins at pc; made when new. */
struct fragment *translate(struct thread *thread, uint64_t pc);
/*
 * The program's state at an address in the cache, given the processor's there: thread->regs and thread->pc become what
 * they would be in the program. False: the address is not in a fragment.
 */
bool translate_back(struct thread *thread, uint64_t at);
/* Where a fragment is to go: the addresses of its pieces. */
struct plan {
	uint32_t count;
	uint64_t pcs[PIECES_MAX];
};
/* A fragment by plan takes the place of the one that begins there; false: it cannot be made. */
bool translate_trace(struct thread *thread, const struct plan *plan);
/* Of the instruction that this is a copy of; what is in no fragment stays as it is. */
uint64_t translate_address(struct thread *thread, uint64_t at);
/* Which piece of the fragment. */
unsigned translate_piece(struct thread *thread, const struct fragment *fragment, uint64_t at);

/* --- unstable.c --- */
enum { UNSTABLE_BYTES = 64 };
/* Code that may change at any moment, as it was when it was looked at: up to where a fragment of it must end. */
struct unstable {
	uint8_t bytes[UNSTABLE_BYTES];
	uint32_t length; /* 0: no instruction that could be decoded */
	bool flags_live; /* it may read flags that were set before */
};
bool region_is_unstable(const struct region *region);
/* Code that cannot change without our knowledge; guarded, if that helps. */
bool code_is_stable(const struct thread *thread, uint64_t pc);
void unstable_look(const struct thread *thread, uint64_t pc, struct unstable *ret);
/* The parts of a fragment that check; both give where the next part begins. */
uint8_t *unstable_put_stale(struct fragment *fragment, const struct unstable *unstable,
			    uint8_t *at);
uint8_t *unstable_put_check(struct fragment *fragment, const struct unstable *unstable,
			    uint8_t *at);
/* As translate_back(), for those parts; false: elsewhere. */
bool unstable_back(struct thread *thread, const struct fragment *fragment, const uint8_t *at);

/* --- guard.c --- */
/* Makes sure that the code at pc cannot change unnoticed; false: it can. */
bool guard_take(const struct thread *thread, uint64_t pc);
/* The program believes that it can write there. */
bool guard_knows(uint64_t pc);
/* What is guarded ends within the instruction at pc. */
bool guard_ends(uint64_t pc);
/* A write has failed; true: not for the program, it is to be done once more. */
bool guard_fault(uint64_t address);
/* The mappings in the range are new. */
void guard_drop(uint64_t start, uint64_t end);
/* Before a system call, which might write; without the lock. */
void guard_release(uint64_t start, uint64_t size);
void guard_release_arguments(const struct thread *thread);
bool guard_release_all(void);
/* Nothing is guarded any more, until all threads are in the engine; and for good. */
void guard_pause(void);
void guard_end(void);
/* Whether SIGSEGV comes to us, since something is or was guarded. */
bool guard_is_on(void);
/* What the kernel gets when the program wants a mask, and what the program sees when the kernel has one. */
uint64_t guard_mask_kernel(struct thread *thread, uint64_t mask);
uint64_t guard_mask_program(const struct thread *thread, uint64_t mask);
/* Before it goes on outside the engine: nobody knows what it will block. */
void guard_leave(struct thread *thread);
/* Before it goes on in the cache. */
void guard_settle(struct thread *thread);

/* --- thread.c --- */
struct thread *thread_create(void);
/* The threads that are in the engine or may come back; NULL: the first. */
struct thread *thread_next(const struct thread *thread);
/* Whether any is outside the engine. */
bool threads_native(void);
/* Whether the process has no other thread. */
bool thread_is_alone(const struct thread *thread);
/* What the thread's tables know about targets of indirect branches. */
void thread_target_add(struct thread *thread, const struct fragment *fragment);
void thread_target_forget(struct thread *thread, uint64_t pc);
void thread_targets_clear(struct thread *thread);
/* All others are of the process that this one was forked from. */
void threads_only(struct thread *thread);
/* Whoever asks, even if gs is the program's again; NULL: a thread that was made outside of the engine. */
struct thread *thread_find(void);
/* Those of the process. */
struct sighand *thread_any_handlers(void);
extern uint32_t engine_lock_word;
void engine_lock(void);
void engine_unlock(void);
/*
 * A thread of a process that was attached to may be about to go on with a system call of the program by restart_syscall. The
 * kernel keeps one call for that, the last one, and a futex with a timeout would be it if a stop interrupted it. select() never is.
 */
void engine_pause(uint32_t microseconds);
/* As futex: until it is woken, for so long at most; or for a moment. Gives the microseconds for which nobody woke it. */
uint32_t engine_wait(uint32_t *word, uint32_t value, int operation, uint32_t milliseconds);

/* --- signal.c --- */
void signal_start(struct thread *thread);
/* SIGTRAP comes to the engine whatever the program does about it; then again as the program wants it. */
void signal_take_traps(void);
void signal_give_traps(struct thread *thread);
/* Blocks everything; gives the mask before. */
uint64_t signal_block(void);
void signal_unblock(uint64_t mask);
/* What the program has installed by itself, with our handler in its place; and back. */
struct sighand *signal_handlers_take(void);
void signal_handlers_give(const struct sighand *sighand);
/* The program's alternate stack, likewise. */
void signal_alternate_take(struct thread *thread);
void signal_alternate_give(const struct thread *thread);
long signal_action(struct thread *thread);
long signal_mask(struct thread *thread);
/* SIGSEGV comes to us, whatever the program does with it. */
void signal_fault_take(const struct thread *thread);
long signal_alternate(struct thread *thread);
_Noreturn void signal_return(struct thread *thread);
/*
 * The process, which has no other thread, goes on natively at thread->pc, with its own handlers, as if the engine had never been
 * there. Returns only if a signal waits, which comes first.
 */
void signal_hand_back(struct thread *thread, enum engine_leave reason);
/* Before the program goes on: delivers what waits. */
void signal_check(struct thread *thread);
/* clear: handled signals get their default action, as CLONE_CLEAR_SIGHAND says. */
void signal_handlers_copy(struct thread *thread, const struct sighand *from, bool clear);
/* In a child that is the same thread: the kernel has cleared them already. */
void signal_handlers_clear(struct thread *thread);

/* --- syscall.c --- */
/*
 * Does the program's system call: registers in, registers out. thread->pc is where it goes on. False: a signal came
 * first, and it has yet to be done.
 */
bool syscall_run(struct thread *thread, uint32_t length);

/* --- maps.c --- */
/* The program has opened a file: if it is a list of its mappings, ours are taken out. */
void maps_opened(long fd, uint64_t path, uint64_t flags);

/* --- user.c --- */
/* False: the memory is not there, or not to be read or written. */
bool user_read(void *to, uint64_t from, size_t size);
bool user_write(uint64_t to, const void *from, size_t size);
/* Whether all of it can be written; its contents are lost. */
bool user_touch(uint64_t start, size_t size);

/* --- native.c --- */
/* The thread goes on natively. Comes back only if it need not: thread->pc is where it goes on here. */
void native_go(struct thread *thread, enum engine_leave reason);
_Noreturn void native_enter(struct thread *thread, uint64_t flags);
/*
 * A signal at pc, in code of that selector, in a thread that is native. True if it is in the engine again: that is where it
 * left, or it is stepped.
 */
bool native_back(struct thread *thread, uint64_t pc, uint16_t selector, uint64_t flags);
/* It did not leave after all. */
void native_cancel(struct thread *thread);

/* --- awkward.c --- */
enum { FLAG_TRAP = 0x100 };
enum step {
	STEP_NONE,
	STEP_PLAIN,
	STEP_RETURN, /* an instruction that takes its flags from the stack */
};
/* Does the instruction at thread->pc, which cannot be copied, or goes on natively. */
void awkward_run(struct thread *thread);
/* The processor does not jump to other numbers. */
bool awkward_is_address(uint64_t number);
/* System calls of 32-bit programs that the engine need not know about. */
bool awkward_is_harmless(uint32_t number);
/* The trap flag is the program's. */
void step_program(struct thread *thread);
/* A signal in a thread that may be stepped, and whose registers are in the thread: true if there was nothing else to it. */
bool step_end(struct thread *thread, int number, int code);
/* The indirect branch that ends the piece has led to where the processor does not go: it has not been. */
void branch_undo(struct thread *thread, const struct fragment *fragment, unsigned piece);
/* The same, of the branch whose code in the cache holds the address. */
void branch_undo_at(struct thread *thread, uint64_t at);

/* --- attach.c --- */
void attach_publish(void);
/* Before a thread has its signals again. */
void attach_gate(void);
/* rseq() of the program. */
long attach_rseq(struct thread *thread);
/* The host takes no more requests from this process. */
bool attach_is_leaving(void);
_Noreturn void attach_leave(struct thread *thread);
/* Before the program goes on, its registers in the thread: perhaps it is to leave. */
static inline void attach_check(struct thread *thread);

/* --- host.c --- */
bool host_exists(void);
/* 0 or a negative number: the host said no, or is gone. */
int host_ask(const struct engine_request *request);
bool host_alive(void);
/* Counts one more or one less that runs natively. */
void host_left(enum engine_leave reason, int change);
void host_count(enum engine_count count);

/* --- main.c --- */
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

/* --- dispatch.S --- */
void engine_exit(void);
void engine_miss(void);
void engine_call(void);
_Noreturn void engine_resume(struct thread *thread);
/* With the program's registers and gs to what thread->iret says. */
_Noreturn void native_leave(struct thread *thread);
/* Calls function(a, b) with vector registers and fs kept. */
long guarded_call(long (*function)(void *, void *), void *a, void *b);
/* clone() whose child goes on in thread_begin(thread) on the stack that was given. */
long clone_thread(long number, long a, long b, long c, long d, long e);
/* The program's system call, from thread->regs; PROGRAM_RESTART: a signal came first, nothing was done. */
long program_syscall(struct thread *thread);
extern const char program_syscall_begin[], program_syscall_insn[], program_syscall_done[];
extern const char engine_resume_begin[], engine_resume_end[];
extern const char engine_miss_end[]; /* of its part in which registers are as in an indirect branch */
void signal_entry(void);
void signal_restorer(void);
void signal_resume(void);
_Noreturn void signal_return_raw(void *context);
/* Lets the signal through that was just queued; the handler is called in between. */
void signal_let(const uint64_t *mask);

#define PROGRAM_RESTART 0x7fffffff

/* Called from dispatch.S. */
void signal_arrive(int number, void *info, void *context);
void engine_on_resume(struct thread *thread);
void engine_on_exit(struct thread *thread);
void engine_on_late(struct thread *thread);
void engine_on_miss(struct thread *thread);
void engine_on_call(struct thread *thread);
_Noreturn void thread_begin(struct thread *thread);
_Noreturn void engine_main(struct engine_boot *boot);
/* From the host. */
_Noreturn void engine_attach(struct engine_boot *boot, const struct engine_start *start);
_Noreturn void engine_release(const struct engine_parked *at);
void gs_set(struct thread *thread);

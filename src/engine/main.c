// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where the engine begins, and what it does each time the program leaves the cache.
 *
 *	in	a thread that begins, or that has left the cache, with all its registers
 *	out	the fragment in which it goes on
 *	owner	the thread runs this itself; all that is shared is behind the engine's lock
 */
#include "engine/build.h"
#include "engine/stream.h"
#include "engine/superblocks.h"
#include "engine/sys.h"
#include "engine/translations.h"

struct engine_boot engine_boot;
struct engine_boot *engine_boot_place;

_Noreturn void engine_die(const char *what)
{
	size_t length = 0;

	while (what[length])
		length++;
	sys_3(write, 2, "assay engine: ", 14);
	sys_3(write, 2, what, length);
	sys_3(write, 2, "\n", 1);
	sys_1(exit_group, 134);
	__builtin_trap();
}

static void prepare(struct thread *thread)
{
	if (tools_any())
		stream_settle(
			/* what was told in the engine, or just before, may have filled a chunk */
			thread);
	native_cancel(thread);
	step_end(thread, 0, 0);
	thread->safe = SAFE_STATE;
	signal_check(thread);
	while (thread->flags & FLAG_TRAP)
		step_program(thread);
	tools_work_begin(thread);
	engine_lock();
	tools_renew();
	cache_enter(thread, translate(thread, thread->pc));
	engine_unlock();
	tools_work_end(thread);
	signal_check(thread);
}

static void go_on(struct thread *thread)
{
	prepare(thread);
	attach_check(thread);
}

void engine_on_resume(struct thread *thread)
{
	go_on(thread);
}

void engine_on_late(struct thread *thread)
{
	thread->safe = SAFE_MIDDLE;
	engine_lock();
	translate_back(thread, thread->next);
	engine_unlock();
	go_on(thread);
}

static void on_direct(struct thread *thread, struct exit *exit)
{
	struct fragment *fragment;

	fragment = translate(thread, exit->target);
	exit_link(exit, fragment);
	cache_enter(thread, fragment);
}

/* A fragment has found that its code has changed. Another thread may have closed it already. */
static void on_stale(const struct exit *exit)
{
	struct fragment *fragment = cache_holder((uint64_t)exit->stub);

	fragment_close(fragment);
	host_count(ENGINE_COUNT_STALE);
}

/*
 * A system call belongs to the segment that it ends, and has what was inserted in front of it; but
 * not if it has yet to be done.
 */
static void on_syscall(struct thread *thread, uint32_t segment, uint32_t length,
		       const struct insert *before)
{
	static const struct inline_values none;

	if (segment)
		tools_segment_ended(thread, segment, 0);
	tools_work_end(thread);
	tools_syscall(thread);
	thread->pc += length;
	if (syscall_run(thread, length)) {
		tools_syscall_done(thread);
		return;
	}
	if (segment)
		tools_segment_undo(thread, segment);
	inline_undo(thread, before->ops, before->count, INSERT_OPS_MAX, &none);
}

/* What could not be copied belongs to the segment that it ends. */
static void on_fault(struct thread *thread, uint32_t segment, bool far)
{
	if (segment)
		tools_segment_ended(thread, segment, 0);
	if (far)
		native_go(thread, ENGINE_LEAVE_ROOM);
	else
		special_run(thread);
}

void engine_on_exit(struct thread *thread)
{
	struct exit *exit = cache_exit((uint32_t)thread->exit), left;
	struct insert before;

	/* the exit is there until the thread says that it has left the cache */
	thread->pc = exit->target - (exit->kind == EXIT_SYSCALL ? exit->length : 0);
	thread->safe = SAFE_STATE;
	tools_work_begin(thread);
	engine_lock();
	tools_renew();
	if (exit->kind == EXIT_DIRECT) {
		on_direct(thread, exit);
		engine_unlock();
		tools_work_end(thread);
		signal_check(thread);
		attach_check(thread);
		return;
	}
	if (exit->kind == EXIT_INT80 && special_is_harmless((uint32_t)thread->regs[RAX])) {
		thread->next = (uint64_t)(exit->patch + 4);
		engine_unlock();
		return; /* if a signal waits, engine_resume knows */
	}
	left = *exit;
	before.count = 0;
	if (left.kind == EXIT_SYSCALL && tools_insert())
		insert_of_last(cache_holder((uint64_t)left.stub), &before);
	if (left.kind == EXIT_STALE)
		on_stale(&left);
	thread->entered = 0; /* the exit may be gone from here on */
	engine_unlock();
	if (left.kind == EXIT_SYSCALL)
		on_syscall(thread, left.segment, left.length, &before);
	else if (left.kind != EXIT_STALE)
		on_fault(thread, left.segment, left.kind == EXIT_FAR);
	go_on(thread);
}

void engine_on_miss(struct thread *thread)
{
	struct fragment *fragment;

	thread->safe = SAFE_STATE;
	tools_work_begin(thread);
	engine_lock();
	if (!special_is_address(thread->pc)) {
		branch_undo_at(thread, thread->exit);
		thread->entered = 0;
		engine_unlock();
		special_run(thread);
		go_on(thread);
		return;
	}
	tools_renew();
	fragment = translate(thread, thread->pc);
	if (!fragment->closed)
		thread_target_add(thread, fragment);
	cache_enter(thread, fragment);
	engine_unlock();
	tools_work_end(thread);
	signal_check(thread);
	attach_check(thread);
}

/*
 * In the middle of a fragment: only if a signal waits is its state translated back, and the
 * fragment left.
 */
static void middle_leave(struct thread *thread)
{
	if (!thread->pending)
		return;
	engine_lock();
	translate_back(thread, thread->next);
	engine_unlock();
	go_on(thread);
}

/* Called when a chunk of the ring is full. The segments in it show where superblocks would pay. */
void engine_on_call(struct thread *thread)
{
	uint32_t count;
	const uint32_t *segments = stream_chunk(thread, &count);

	thread->safe = SAFE_MIDDLE;
	if (segments)
		superblocks_learn(thread, segments, count);
	stream_settle(thread);
	middle_leave(thread);
}

void engine_on_tool(struct thread *thread)
{
	thread->safe = SAFE_MIDDLE;
	tool_of((unsigned)(thread->called >> 32))
		->called(thread, (uint32_t)thread->called, thread->arguments);
	middle_leave(thread);
}

void gs_set(struct thread *thread)
{
	__asm__ volatile("wrgsbase %0" : : "r"(thread) : "memory");
}

/* From here on the program receives signals. */
static void thread_open(struct thread *thread)
{
	attach_gate();
	thread->starting = 0;
	signal_unblock(guard_mask_kernel(thread, thread->start_mask));
}

_Noreturn void thread_leave(struct thread *thread)
{
	if (thread->starting)
		thread_open(thread);
	native_go(thread, ENGINE_LEAVE_FAULT); /* comes back from a vsyscall */
	engine_on_resume(thread);
	engine_resume(thread);
}

/*
 * The thread may have to leave the engine again at once, but only after it has its own signal mask
 * and has passed the gate.
 */
_Noreturn void thread_go(struct thread *thread)
{
	prepare(thread);
	if (thread->starting)
		thread_open(thread);
	signal_check(thread);
	attach_check(thread);
	engine_resume(thread);
}

_Noreturn void thread_begin(struct thread *thread)
{
	bool ready;

	thread->tid = (uint32_t)sys_0(gettid);
	thread->starting = 1;
	thread->begun = 0;
	thread->safe = SAFE_STATE;
	signal_faults_open();
	engine_lock();
	ready = signal_start(thread);
	if (ready)
		tools_thread_start(thread);
	thread->begun = ready;
	engine_unlock();
	if (!ready)
		thread_leave(thread);
	thread_go(thread);
}

/* There is no memory for a struct thread: the program runs natively from its beginning. */
static _Noreturn void engine_stay_out(struct engine_boot *boot)
{
	host_left(ENGINE_LEAVE_FAULT, 1);
	boot->tools |= ENGINE_TOOL_BIT(ENGINE_TOOL_NATIVE);
	engine_entry(boot);
}

_Noreturn void engine_main(struct engine_boot *boot)
{
	struct thread *thread;

	engine_boot = *boot;
	engine_boot_place = boot;
	fault_start();
	memory_hide(boot->image_start, boot->image_size);
	attach_publish();
	tools_start();
	if (stream_wanted() && !(boot->flags & ENGINE_TRANSLATES))
		stream_start();
	thread = thread_create();
	if (!thread)
		engine_stay_out(boot);
	for (size_t i = 0; i < 16; i++)
		thread->regs[i] = boot->registers.general[i];
	thread->pc = boot->registers.rip;
	thread->flags = boot->registers.rflags;
	thread->gs = boot->registers.gs_base;
	thread->start_mask = signal_block();
	gs_set(thread);
	thread->safe = SAFE_STATE;
	thread->starting = 1;
	/* the process has one thread; from here on the engine's faults are handled */
	signal_start(thread);
	if (boot->flags & ENGINE_TRANSLATES)
		translator_run(thread);
	thread_begin(thread);
}

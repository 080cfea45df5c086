// SPDX-License-Identifier: BSD-2-Clause
/* Where the engine begins, and what it does each time the program leaves the cache. */
#include "engine/engine.h"
#include "engine/stream.h"
#include "engine/sys.h"
#include "engine/tool.h"

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
	if (tool())
		stream_settle(
			thread); /* what was told in the engine, or just before, may have filled a chunk */
	native_cancel(thread);
	step_end(thread, 0, 0);
	signal_check(thread);
	while (thread->flags & FLAG_TRAP)
		step_program(thread);
	engine_lock();
	guard_settle(thread);
	cache_enter(thread, translate(thread, thread->pc));
	engine_unlock();
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
	engine_lock();
	translate_back(thread, thread->next);
	engine_unlock();
	go_on(thread);
}

static void on_direct(struct thread *thread, struct exit *exit)
{
	struct fragment *fragment;

	thread->pc = exit->target;
	fragment = translate(thread, exit->target);
	exit_link(exit, fragment);
	cache_enter(thread, fragment);
}

/* A fragment has found that its code has changed. Somebody else may have closed it already. */
static void on_stale(const struct exit *exit)
{
	struct fragment *fragment = cache_holder((uint64_t)exit->stub);

	fragment_close(fragment);
	host_count(ENGINE_COUNT_STALE);
}

/* A system call belongs to the run that it ends; but not if it has yet to be done. */
static void on_syscall(struct thread *thread, uint32_t run, uint32_t length)
{
	if (run)
		tool()->run_told(thread, run);
	if (tool() && tool()->syscall)
		tool()->syscall(thread);
	if (!syscall_run(thread, length) && run && tool()->run_untold)
		tool()->run_untold(thread, run);
}

/* What could not be copied belongs to the run that it ends. */
static void on_fault(struct thread *thread, uint32_t run, bool far)
{
	if (run)
		tool()->run_told(thread, run);
	if (far)
		native_go(thread, ENGINE_LEAVE_ROOM);
	else
		awkward_run(thread);
}

void engine_on_exit(struct thread *thread)
{
	struct exit *exit, left;

	engine_lock();
	exit = cache_exit((uint32_t)thread->exit);
	if (exit->kind == EXIT_DIRECT) {
		on_direct(thread, exit);
		engine_unlock();
		signal_check(thread);
		attach_check(thread);
		return;
	}
	if (exit->kind == EXIT_INT80 && awkward_is_harmless((uint32_t)thread->regs[RAX])) {
		thread->pc = exit->target;
		thread->next = (uint64_t)(exit->patch + 4);
		engine_unlock();
		return; /* if a signal waits, engine_resume knows */
	}
	left = *exit;
	thread->pc = left.target;
	if (left.kind == EXIT_STALE)
		on_stale(&left);
	thread->entered = 0; /* the exit may be gone from here on */
	engine_unlock();
	if (left.kind == EXIT_SYSCALL)
		on_syscall(thread, left.run, left.length);
	else if (left.kind != EXIT_STALE)
		on_fault(thread, left.run, left.kind == EXIT_FAR);
	go_on(thread);
}

void engine_on_miss(struct thread *thread)
{
	struct fragment *fragment;

	engine_lock();
	if (!awkward_is_address(thread->pc)) {
		branch_undo_at(thread, thread->exit);
		thread->entered = 0;
		engine_unlock();
		awkward_run(thread);
		go_on(thread);
		return;
	}
	fragment = translate(thread, thread->pc);
	if (!fragment->closed)
		thread_target_add(thread, fragment);
	cache_enter(thread, fragment);
	engine_unlock();
	signal_check(thread);
	attach_check(thread);
}

/* In the middle of a fragment: only if a signal waits is its state translated back, and the fragment left. */
void engine_on_call(struct thread *thread)
{
	tool()->called(thread);
	if (!thread->pending)
		return;
	engine_lock();
	translate_back(thread, thread->next);
	engine_unlock();
	go_on(thread);
}

void gs_set(struct thread *thread)
{
	__asm__ volatile("wrgsbase %0" : : "r"(thread) : "memory");
}

/* It may leave again at once, but with a mask of its own, and not while others wait for it at the gate. */
_Noreturn void thread_begin(struct thread *thread)
{
	thread->tid = (uint32_t)sys_0(gettid);
	engine_lock();
	signal_start(thread);
	if (tool() && tool()->thread_start)
		tool()->thread_start(thread);
	engine_unlock();
	prepare(thread);
	attach_gate();
	signal_unblock(guard_mask_kernel(thread, thread->start_mask));
	signal_check(thread);
	attach_check(thread);
	engine_resume(thread);
}

_Noreturn void engine_main(struct engine_boot *boot)
{
	struct thread *thread;

	engine_boot = *boot;
	engine_boot_place = boot;
	attach_publish();
	if (stream_wanted())
		stream_start();
	thread = thread_create();
	for (size_t i = 0; i < 16; i++)
		thread->regs[i] = boot->registers.general[i];
	thread->pc = boot->registers.rip;
	thread->flags = boot->registers.rflags;
	thread->gs = boot->registers.gs_base;
	thread->start_mask = signal_block();
	gs_set(thread);
	thread_begin(thread);
}

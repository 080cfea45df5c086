// SPDX-License-Identifier: BSD-2-Clause
/*
 * Frames of calls: what inline code cannot handle by itself.
 *
 *	in	calls, returns, jumps and arrivals at routines, with the stack pointer
 *	out	the innermost frame, and the nodes of the tree that are entered
 *	owner	the thread, in its memory of the tool
 *
 * A thread of a process that was attached to is in the middle of calls that were not seen. The
 * routine that it is in gets a frame without having been called, by where its code is. When that
 * returns, so does the one that it returns to, and so on outwards: a return without an entry is
 * where the frames are in step again (resync). What is known of such a frame is only that its
 * return address lies above: its stack pointer is marked, and equals none.
 *
 * Invariants
 * 1. A frame's stack pointer is the address of its return address. So a return belongs to the frame
 *    with its own stack pointer, whatever happened in between; if there is none, it has no entry.
 * 2. Frames that are not above a new call on the same stack are gone. Frames are on the same stack
 *    as a call if it would leave one of them within STACK_REACH: otherwise the program has switched
 *    to another stack, whose calls then lie below the routine that was running.
 */
#include "engine/sys.h"
#include "engine/tools/calltree_private.h"

enum {
	STACK_REACH = 64 << 20, /* bytes between a call and the frame that it is made from */
	SP_MARK =
		3, /* in the three lowest bits: the frame of a routine that was not seen to begin */
	SP_BITS = 7,
};

static void frame_drop(struct thread *thread, enum call_repair repair)
{
	struct call_tree *tree = &calltree_state_of(thread)->tree;

	tree->head->repairs[repair]++;
	tree->top--;
	calltree_event(thread, CALL_MINOR_GONE, repair, 0);
}

/* A repair that leaves the frames as they are. */
static void repair_count(struct thread *thread, enum call_repair repair)
{
	calltree_state_of(thread)->tree.head->repairs[repair]++;
	calltree_event(thread, CALL_MINOR_REPAIR, repair, 0);
}

static bool is_near(uint64_t sp, const struct call_frame *frame)
{
	return frame->sp - sp <= STACK_REACH;
}

/* The newest frame above the stack pointer; the first one is the thread itself. */
static struct call_frame *frame_above(const struct call_tree *tree, uint64_t sp)
{
	struct call_frame *frame = tree->top;

	while (frame > tree->frames && frame->sp <= sp)
		frame--;
	return frame;
}

/*
 * Whether frames up to that one are gone. If none would be left within reach, the outermost of them
 * decides: a stack that began there is the one that is in use still, or another.
 */
static bool are_gone(const struct call_tree *tree, const struct call_frame *left, uint64_t sp)
{
	if (left > tree->frames)
		return is_near(sp, left);
	return tree->top > tree->frames && sp - tree->frames[1].sp <= STACK_REACH;
}

static void enter_repair(struct thread *thread, uint64_t sp)
{
	struct calltree_state *own = calltree_state_of(thread);
	struct call_tree *tree = &own->tree;
	const struct call_frame *left = frame_above(tree, sp);

	if (left == tree->top)
		return;
	if (!are_gone(tree, left, sp)) {
		repair_count(thread, CALL_REPAIR_SWITCHED);
		return;
	}
	if (tree->top->sp != sp)
		stacks_keep(&own->stacks, tree, left);
	while (tree->top > left)
		frame_drop(thread,
			   tree->top->sp == sp ? CALL_REPAIR_REPLACED : CALL_REPAIR_ABANDONED);
}

void calltree_enter(struct thread *thread, uint64_t routine, uint64_t sp)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	struct call_tree *tree = &calltree_state_of(thread)->tree;
	struct call_frame *top;
	struct call_node *node;
	uint32_t nodes;

	tree->top = (struct call_frame *)memory->top;
	enter_repair(thread, sp);
	top = tree->top;
	if (top == tree->deepest) {
		memory->deep++;
		repair_count(thread, CALL_REPAIR_TOO_DEEP);
		memory->top = (uint64_t)top;
		return;
	}
	nodes = tree->head->count;
	node = call_tree_find(tree, top->node, routine);
	top[1].at = node;
	top[1].node = call_tree_number(tree, node);
	top[1].sp = sp;
	node->calls++;
	if (tree->head->count != nodes && calltree_has_resources())
		resources_leave_out(&calltree_state_of(thread)->resources, memory);
	tree->top = top + 1;
	memory->top = (uint64_t)tree->top;
	calltree_event(thread, CALL_MINOR_ENTRY, routine, sp);
}

void calltree_enter_undo(struct thread *thread, uint64_t routine, uint64_t sp)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	const struct call_frame *top = (struct call_frame *)memory->top;

	if (memory->deep && top == calltree_state_of(thread)->tree.deepest) {
		memory->deep--;
		return;
	}
	if (top->sp != sp || top->at->routine != routine)
		return;
	top->at->calls--;
	memory->top = (uint64_t)(top - 1);
	calltree_event(thread, CALL_MINOR_TAKEN_BACK, routine, sp);
}

void calltree_leave_undo(struct thread *thread)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	const struct call_frame *left = (struct call_frame *)memory->top + 1;

	if (left->sp != thread->regs[RSP] || !left->at)
		return;
	memory->top = (uint64_t)left;
	calltree_event(thread, CALL_MINOR_INSIDE, left->at->routine, left->sp);
}

/* A call from a site, which inline code enters by itself the next time. */
void calltree_enter_from(struct thread *thread, const uint64_t *values, uint64_t sp)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	struct calltree_site *sites = (struct calltree_site *)((uint8_t *)memory + CALLTREE_SITES);
	const struct call_frame *top;

	if (calltree_is_unwanted(values[0]))
		return;
	calltree_enter(thread, values[0], sp);
	top = (struct call_frame *)memory->top;
	if (top->at->routine == values[0])
		sites[values[1]] = (struct calltree_site){ (uint64_t)top->at, top->node };
}

/*
 * A return has no frame. If all frames lie below its stack pointer, they are gone, and control goes
 * to a routine whose call was not seen. Otherwise a signal handler returns.
 */
static void resync(struct thread *thread, uint64_t sp)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	struct calltree_state *own = calltree_state_of(thread);
	struct call_tree *tree = &own->tree;
	struct call_frame *outermost = &tree->frames[1];

	if (!own->resyncs)
		return;
	if (tree->top >= outermost && (outermost->sp >= sp || sp - outermost->sp > STACK_REACH))
		return;
	while (tree->top >= outermost) {
		if ((tree->top->sp & SP_BITS) != SP_MARK) {
			frame_drop(thread, CALL_REPAIR_ABANDONED);
			continue;
		}
		calltree_event(thread, CALL_MINOR_EXIT, tree->top->at->routine, 0);
		tree->top--;
	}
	outermost->at = NULL; /* inline code is not to enter anything before there is a frame */
	memory->top = (uint64_t)tree->top;
	memory->deep = 0;
	own->resync_sp = sp + sizeof(uint64_t);
	if (!user_read(&own->resync_pc, sp, sizeof(own->resync_pc)))
		own->resync_pc = 0;
}

/*
 * Makes the frame that resync() has left open. It does not count as a call, because the call was
 * not seen.
 */
void calltree_resync_end(struct thread *thread)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	struct calltree_state *own = calltree_state_of(thread);
	struct call_tree *tree = &own->tree;
	struct call_frame *outermost = &tree->frames[1];
	uint64_t pc = own->resync_pc;
	struct routine_found found;

	own->resync_pc = 0;
	tree->top = (struct call_frame *)memory->top;
	if (tree->top != tree->frames || !routine_find(pc, &found) ||
	    found.flags & (ROUTINE_PART | ROUTINE_SKIPPED))
		return;
	outermost->at = call_tree_find(tree, tree->frames->node, found.start);
	outermost->node = call_tree_number(tree, outermost->at);
	outermost->sp = (own->resync_sp & ~(uint64_t)SP_BITS) | SP_MARK;
	tree->top = outermost;
	memory->top = (uint64_t)outermost;
	calltree_event(thread, CALL_MINOR_INSIDE, found.start, outermost->sp);
}

/* The frames behind that one stand again; which of them had been counted as abandoned is undone. */
static void brought_back(struct thread *thread, const struct call_frame *before)
{
	const struct call_tree *tree = &calltree_state_of(thread)->tree;

	repair_count(thread, CALL_REPAIR_SWITCHED);
	while (before++ < tree->top)
		calltree_event_back(thread, before);
}

void calltree_leave(struct thread *thread)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	struct calltree_state *own = calltree_state_of(thread);
	struct call_tree *tree = &own->tree;
	uint64_t sp = thread->regs[RSP];
	struct call_frame *frame;

	tree->top = frame = (struct call_frame *)memory->top;
	if (memory->deep && sp < frame->sp) {
		memory->deep--;
		return;
	}
	while (frame > tree->frames && frame->sp != sp)
		frame--;
	if (frame == tree->frames && stacks_bring_back(&own->stacks, tree, sp)) {
		brought_back(thread, (struct call_frame *)memory->top);
		frame = tree->top;
	}
	if (frame == tree->frames) {
		repair_count(thread, CALL_REPAIR_NO_ENTRY);
		own->returned = sp + sizeof(uint64_t);
		resync(thread, sp);
		return;
	}
	memory->deep = 0;
	if (tree->top > frame)
		stacks_keep(&own->stacks, tree, frame);
	while (tree->top > frame)
		frame_drop(thread, CALL_REPAIR_ABANDONED);
	memory->top = (uint64_t)(frame - 1);
	calltree_event(thread, CALL_MINOR_EXIT, frame->at->routine, sp);
}

/* A jump that ends a routine: the one whose return address is on top of the stack. */
void calltree_tail(struct thread *thread, uint64_t routine)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	uint64_t sp = thread->regs[RSP];
	const struct call_frame *frame = (struct call_frame *)memory->top;
	const struct call_frame *first = calltree_state_of(thread)->tree.frames;

	while (frame > first && frame->sp < sp)
		frame--;
	if (frame > first && frame->sp == sp)
		calltree_enter(thread, routine, sp);
}

/* A handler returns to code that asks the kernel to go on where the signal came. */
static bool is_handler(uint64_t sp)
{
	static const uint8_t restore[][9] = {
		{ 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05 }, /* mov $15, %rax; syscall */
		{ 0xb8, 15, 0, 0, 0, 0x0f, 0x05 }, /* mov $15, %eax; syscall */
	};
	static const unsigned sizes[] = { 9, 7 };
	uint8_t code[sizeof(restore[0])];
	uint64_t back;

	if (!user_read(&back, sp, sizeof(back)))
		return false;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		unsigned same = 0;

		if (!user_read(code, back, sizes[i]))
			continue;
		while (same < sizes[i] && code[same] == restore[i][same])
			same++;
		if (same == sizes[i])
			return true;
	}
	return false;
}

/*
 * Whether control came to the routine without a call: from the kernel, or by a return to an address
 * that was pushed for it.
 */
static bool is_sent(struct thread *thread, uint64_t sp)
{
	uint64_t *returned = &calltree_state_of(thread)->returned;
	bool by_return = *returned == sp;

	*returned = 0;
	return by_return || is_handler(sp);
}

/*
 * Control is at the beginning of a routine that is not the innermost one. It has come by a tail
 * call from the innermost one, or from one that is skipped and has no frame; or it was sent there.
 */
void calltree_arrive(struct thread *thread, uint64_t routine)
{
	const struct calltree_memory *memory = calltree_memory_of(thread);
	uint64_t sp = thread->regs[RSP];

	if (((struct call_frame *)memory->top)->sp != sp &&
	    (!routines_area()->filters || memory->deep) && !is_sent(thread, sp))
		return;
	calltree_charge_now(thread);
	calltree_enter(thread, routine, sp);
	calltree_time_skip(thread);
}

/* --- Tasks ------------------------------------------------------------------------------- */

/* As far as it can be read; page by page. */
static void name_read(uint64_t from, char to[CALL_THREAD_NAME])
{
	uint64_t first = CALLTREE_PAGE - from % CALLTREE_PAGE, rest;

	for (unsigned i = 0; i < CALL_THREAD_NAME; i++)
		to[i] = 0;
	first = first < CALL_THREAD_NAME - 1 ? first : CALL_THREAD_NAME - 1;
	rest = CALL_THREAD_NAME - 1 - first;
	if (!user_read(to, from, first) || !rest)
		return;
	for (unsigned i = 0; i < first; i++)
		if (!to[i])
			return;
	user_read(to + first, from + first, rest);
}

static void task_tell(struct thread *thread, uint64_t routine, const char name[CALL_THREAD_NAME])
{
	const struct call_event event = { .major = CALL_MAJOR_THREAD,
					  .minor = CALL_MINOR_TASK,
					  .routine = routine };

	calltree_event_put(thread, &event, name, CALL_THREAD_NAME);
}

void calltree_task_begin(struct thread *thread, uint64_t name)
{
	struct call_tasks *tasks =
		(struct call_tasks *)((uint8_t *)calltree_memory_of(thread) + CALLTREE_TASKS);
	_Alignas(8) char text[CALL_THREAD_NAME];
	uint64_t routine;

	name_read(name, text);
	routine = call_tasks_add(tasks, text);
	if (!routine)
		return;
	if (calltree_has_events())
		task_tell(thread, routine, text);
	calltree_enter(thread, routine, thread->regs[RSP] - 1);
}

void calltree_task_end(struct thread *thread)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	struct call_tree *tree = &calltree_state_of(thread)->tree;
	struct call_frame *frame = (struct call_frame *)memory->top;

	while (frame > tree->frames && !call_is_task(frame->at->routine))
		frame--;
	if (frame == tree->frames) {
		repair_count(thread, CALL_REPAIR_NO_ENTRY);
		return;
	}
	tree->top = (struct call_frame *)memory->top;
	memory->deep = 0;
	while (tree->top > frame)
		frame_drop(thread, CALL_REPAIR_ABANDONED);
	memory->top = (uint64_t)(frame - 1);
	calltree_event(thread, CALL_MINOR_EXIT, frame->at->routine, 0);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Builds the tree of calls of each thread while it runs (calls/tree.h, wire/calltree.h).
 *
 * A call enters the routine that it leads to, a return leaves it. Inline code does so while it is
 * what happened at this place the last time; everything else comes to the functions here. The call
 * of a stub of the procedure linkage table is that of the function to which the stub jumps: the
 * stub's jump enters it, and the call itself is left alone. The dynamic linker's resolver ends with
 * a jump by r11 to the function that it has found, which then takes the place of the stub.
 *
 * The host tells where routines begin (routines.h). If control arrives at the beginning of a
 * routine that is not the innermost one, and the return address is still that of the innermost one,
 * it was a tail call: the routine takes the place of the innermost one. So has one that jumps to
 * its own beginning. Routines that are to be skipped count as part of their callers: their calls
 * and returns get no inline code, unless the call is indirect.
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
#include "calls/tree.h"
#include "engine/stream.h"
#include "engine/sys.h"
#include "engine/tool.h"
#include "engine/tools/calltree_resources.h"
#include "engine/tools/calltree_stacks.h"
#include "engine/tools/routines.h"
#include "wire/calltree.h"

enum called {
	CALLED_ENTER,
	CALLED_JUMP,
	CALLED_LEAVE,
	CALLED_TAIL,
	CALLED_ARRIVE,
	CALLED_SKIP,
	CALLED_ALLOCATE,
	CALLED_TASK_BEGIN,
	CALLED_TASK_END,
	CALLED_CHARGE,
};

enum { METRIC_OBJECTS = 1, METRIC_BYTES = 2 };

enum {
	STACK_REACH = 64 << 20, /* bytes between a call and the frame that it is made from */
	CALIBRATION = 101, /* odd */
	CALIBRATION_EVENTS = 32,
	LOOKS = 5,
	NS_PER_S = 1000000000,
	INTERVAL_LONG_BITS = 15, /* ticks */
	INTERVAL_LONG = 1 << INTERVAL_LONG_BITS,
	PAGE = 4096,
	FRAMES_TOUCHED = 4, /* pages of them: 512 calls within each other */
	SP_MARK =
		3, /* in the three lowest bits: the frame of a routine that was not seen to begin */
	SP_BITS = 7,
};

/* State that the host does not read. */
struct private
{
	struct call_tree tree;
	uint64_t checked; /* ticks, when the clocks were last asked */
	uint64_t cpu, wall; /* ns, then */
	uint64_t look; /* ticks that reading them takes */
	struct resources resources; /* if they are asked for */
	bool resyncs; /* the thread ran before: routines are found by where they return to */
	/*
	 * Code of a routine without a frame, and the stack pointer there; 0: none. What the host
	 * knows of the code is here when it has been executed, at the next event.
	 */
	uint64_t resync_pc, resync_sp;
	/* Where the stack pointer was after a return that had no entry; 0: something came since. */
	uint64_t returned;
	struct kept_stacks stacks;
};

_Static_assert(sizeof(struct private) <= CALLTREE_PRIVATE_BYTES, "it has its place");
_Static_assert(sizeof(struct call_frame) == CALLTREE_FRAME, "known to inline code");
_Static_assert(offsetof(struct call_frame, at) == 0 && offsetof(struct call_frame, sp) == 8 &&
		       offsetof(struct call_frame, node) == 24,
	       "known to inline code");

static uint32_t place(void)
{
	return (uint32_t)engine_tools_counters_at(engine_boot.tools, ENGINE_TOOL_CALLTREE,
						  STREAM_SEGMENTS_MAX);
}

static struct calltree_memory *memory_of(struct thread *thread)
{
	return (struct calltree_memory *)(stream_counts(thread) + place());
}

static struct private *private_of(struct thread *thread)
{
	return (struct private *)((uint8_t *)memory_of(thread) + CALLTREE_PRIVATE);
}

static bool is_timed(void)
{
	return engine_boot.flags & ENGINE_CALLS_TIMED;
}

static bool has_resources(void)
{
	return routines_area()->resources;
}

/* From how many ticks on an interval is looked at: as a power of two. */
static unsigned interval_bits(void)
{
	return has_resources() ? RESOURCES_INTERVAL_BITS : INTERVAL_LONG_BITS;
}

static uint64_t ticks_now(void)
{
	return __builtin_ia32_rdtsc();
}

/* --- Time -------------------------------------------------------------------------------- */

static uint64_t clock_read(long clock)
{
	uint64_t now[2] = {};

	if (sys_failed(sys_2(clock_gettime, clock, now)))
		return 0;
	return now[0] * NS_PER_S + now[1];
}

/* value * part / whole, of which part is no more than whole: there is no library to divide by. */
static uint64_t share_of(uint64_t value, uint64_t part, uint64_t whole)
{
	uint64_t high;

	__asm__("mul %[part]\n\tdiv %[whole]"
		: "+a"(value), "=&d"(high)
		: [part] "r"(part), [whole] "r"(whole)
		: "cc");
	return value;
}

/*
 * The thread may lose its processor at each of the two system calls, and often does at the first:
 * there the kernel finds that its time is up. So the ticks come last, and go with the clocks.
 */
static void clocks_look(struct private *own)
{
	own->cpu = clock_read(3); /* CLOCK_THREAD_CPUTIME_ID */
	own->wall = clock_read(1); /* CLOCK_MONOTONIC */
	own->checked = ticks_now();
}

/* Measures how long that takes: the minimum of some tries. */
static void look_measure(struct private *own)
{
	own->look = UINT64_MAX;
	for (int i = 0; i < LOOKS; i++) {
		uint64_t begin = ticks_now();

		clocks_look(own);
		if (own->checked - begin < own->look)
			own->look = own->checked - begin;
	}
}

static struct call_node *innermost(struct thread *thread)
{
	return ((struct call_frame *)memory_of(thread)->top)->at;
}

/*
 * Charges an interval in which the thread may have been off a processor. The time off is how much
 * further the wall clock went than the thread's own clock since both were last read. It all belongs
 * to this interval, because every interval that is long enough is checked.
 */
static void charge_clocks(struct thread *thread, uint64_t interval)
{
	struct calltree_memory *memory = memory_of(thread);
	struct private *own = private_of(thread);
	struct call_node *node = innermost(thread);
	uint64_t cpu = own->cpu, wall = own->wall, ticks = own->checked;
	uint64_t off = 0;

	clocks_look(own);
	interval += own->checked - memory->last;
	memory->last = own->checked;
	node->amounts[0].elapsed += interval;
	ticks = own->checked - ticks;
	cpu = own->cpu - cpu;
	wall = own->wall - wall;
	if (wall && cpu < wall)
		off = share_of(ticks, wall - cpu, wall);
	off += own->look;
	node->amounts[0].base -= off < interval ? off : interval;
}

/*
 * Charges an interval in which the kernel may have been entered. The time that reading the clocks
 * takes is charged to no routine.
 */
static void charge_long(struct thread *thread, uint64_t interval)
{
	struct calltree_memory *memory = memory_of(thread);
	struct private *own = private_of(thread);
	struct call_node *node = innermost(thread);
	uint64_t now, look;
	bool switched;

	if (!has_resources()) {
		charge_clocks(thread, interval);
		return;
	}
	switched = resources_charge(&own->resources, node);
	now = ticks_now();
	interval += now - memory->last;
	memory->last = now;
	look = own->resources.look < interval ? own->resources.look : interval;
	node->amounts[0].base -= look;
	if (switched || interval >= INTERVAL_LONG)
		charge_clocks(thread, interval);
	else
		node->amounts[0].elapsed += interval;
}

/* Charges the time up to now, for entries and exits that inline code does not handle. */
static void charge_now(struct thread *thread)
{
	struct calltree_memory *memory = memory_of(thread);
	uint64_t now = ticks_now(), interval = now - memory->last;

	if (!memory->timed)
		return;
	memory->last = now;
	if (interval >> interval_bits())
		charge_long(thread, interval);
	else
		innermost(thread)->amounts[0].elapsed += interval;
}

/* --- Repairs ----------------------------------------------------------------------------- */

static void frame_drop(struct call_tree *tree, enum call_repair repair)
{
	tree->head->repairs[repair]++;
	tree->top--;
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

static void enter_repair(struct private *own, uint64_t sp)
{
	struct call_tree *tree = &own->tree;
	const struct call_frame *left = frame_above(tree, sp);

	if (left == tree->top)
		return;
	if (!are_gone(tree, left, sp)) {
		tree->head->repairs[CALL_REPAIR_SWITCHED]++;
		return;
	}
	if (tree->top->sp != sp)
		stacks_keep(&own->stacks, tree, left);
	while (tree->top > left)
		frame_drop(tree,
			   tree->top->sp == sp ? CALL_REPAIR_REPLACED : CALL_REPAIR_ABANDONED);
}

/* Where the call is not direct, only now it is known where it leads to. */
static bool is_unwanted(uint64_t routine)
{
	return routines_area()->filters && routine_is_skipped(routine);
}

static void enter(struct thread *thread, uint64_t routine, uint64_t sp)
{
	struct calltree_memory *memory = memory_of(thread);
	struct call_tree *tree = &private_of(thread)->tree;
	struct call_frame *top;
	struct call_node *node;
	uint32_t nodes;

	tree->top = (struct call_frame *)memory->top;
	enter_repair(private_of(thread), sp);
	top = tree->top;
	if (top == tree->deepest) {
		memory->deep++;
		tree->head->repairs[CALL_REPAIR_TOO_DEEP]++;
		memory->top = (uint64_t)top;
		return;
	}
	nodes = tree->head->count;
	node = call_tree_find(tree, top->node, routine);
	top[1].at = node;
	top[1].node = call_tree_number(tree, node);
	top[1].sp = sp;
	node->calls++;
	if (tree->head->count != nodes && has_resources())
		resources_leave_out(&private_of(thread)->resources, memory);
	tree->top = top + 1;
	memory->top = (uint64_t)tree->top;
}

static unsigned site_of(uint64_t pc)
{
	return (unsigned)(pc * 0x9e3779b97f4a7c15 >> (64 - CALLTREE_SITE_BITS));
}

/* A call from a site, which inline code enters by itself the next time. */
static void enter_from(struct thread *thread, const uint64_t *values, uint64_t sp)
{
	struct calltree_memory *memory = memory_of(thread);
	struct calltree_site *sites = (struct calltree_site *)((uint8_t *)memory + CALLTREE_SITES);
	const struct call_frame *top;

	if (is_unwanted(values[0]))
		return;
	enter(thread, values[0], sp);
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
	struct calltree_memory *memory = memory_of(thread);
	struct private *own = private_of(thread);
	struct call_tree *tree = &own->tree;
	struct call_frame *outermost = &tree->frames[1];

	if (!own->resyncs)
		return;
	if (tree->top >= outermost && (outermost->sp >= sp || sp - outermost->sp > STACK_REACH))
		return;
	for (; tree->top >= outermost; tree->top--)
		if ((tree->top->sp & SP_BITS) != SP_MARK)
			tree->head->repairs[CALL_REPAIR_ABANDONED]++;
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
static void resync_end(struct thread *thread)
{
	struct calltree_memory *memory = memory_of(thread);
	struct private *own = private_of(thread);
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
}

static void leave(struct thread *thread)
{
	struct calltree_memory *memory = memory_of(thread);
	struct private *own = private_of(thread);
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
		tree->head->repairs[CALL_REPAIR_SWITCHED]++;
		frame = tree->top;
	}
	if (frame == tree->frames) {
		tree->head->repairs[CALL_REPAIR_NO_ENTRY]++;
		own->returned = sp + sizeof(uint64_t);
		resync(thread, sp);
		return;
	}
	memory->deep = 0;
	if (tree->top > frame)
		stacks_keep(&own->stacks, tree, frame);
	while (tree->top > frame)
		frame_drop(tree, CALL_REPAIR_ABANDONED);
	memory->top = (uint64_t)(frame - 1);
}

/* A jump that ends a routine: the one whose return address is on top of the stack. */
static void tail(struct thread *thread, uint64_t routine)
{
	struct calltree_memory *memory = memory_of(thread);
	uint64_t sp = thread->regs[RSP];
	const struct call_frame *frame = (struct call_frame *)memory->top;
	const struct call_frame *first = private_of(thread)->tree.frames;

	while (frame > first && frame->sp < sp)
		frame--;
	if (frame > first && frame->sp == sp)
		enter(thread, routine, sp);
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
	uint64_t *returned = &private_of(thread)->returned;
	bool by_return = *returned == sp;

	*returned = 0;
	return by_return || is_handler(sp);
}

/*
 * Control is at the beginning of a routine that is not the innermost one. It has come by a tail
 * call from the innermost one, or from one that is skipped and has no frame; or it was sent there.
 */
static void arrive(struct thread *thread, uint64_t routine)
{
	const struct calltree_memory *memory = memory_of(thread);
	uint64_t sp = thread->regs[RSP];

	if (((struct call_frame *)memory->top)->sp != sp &&
	    (!routines_area()->filters || memory->deep) && !is_sent(thread, sp))
		return;
	charge_now(thread);
	enter(thread, routine, sp);
}

/* The innermost routine has ended by a tail call of one that is skipped. */
static void skip(struct thread *thread)
{
	charge_now(thread);
	leave(thread);
}

static uint64_t bytes_asked(const struct thread *thread, enum routine_allocation how)
{
	const uint64_t *regs = thread->regs;

	switch (how) {
	case ALLOCATION_FIRST:
		return regs[RDI];
	case ALLOCATION_SECOND:
		return regs[RSI];
	case ALLOCATION_THIRD:
		return regs[RDX];
	case ALLOCATION_FIRST_SECOND:
		return regs[RDI] * regs[RSI];
	case ALLOCATION_SECOND_THIRD:
		return regs[RSI] * regs[RDX];
	default:
		return 0;
	}
}

/* Charges an allocation to the caller of the allocator. */
static void allocate(struct thread *thread, uint64_t routine, enum routine_allocation how)
{
	const struct call_frame *frame = (struct call_frame *)memory_of(thread)->top;
	struct call_amount *amounts;

	if (frame->at->routine == routine && frame > private_of(thread)->tree.frames)
		frame--;
	amounts = frame->at->amounts;
	amounts[METRIC_OBJECTS].base++;
	amounts[METRIC_BYTES].base += bytes_asked(thread, how);
}

static void charge_put(struct insert *insert)
{
	if (is_timed())
		inline_charge(insert, ENGINE_TOOL_CALLTREE, CALLED_CHARGE, place(),
			      interval_bits());
}

/* --- Tasks ------------------------------------------------------------------------------- */

/* As far as it can be read; page by page. */
static void name_read(uint64_t from, char to[CALL_THREAD_NAME])
{
	uint64_t first = PAGE - from % PAGE, rest;

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

static void task_begin(struct thread *thread, uint64_t name)
{
	struct call_tasks *tasks =
		(struct call_tasks *)((uint8_t *)memory_of(thread) + CALLTREE_TASKS);
	char text[CALL_THREAD_NAME];
	uint64_t routine;

	name_read(name, text);
	routine = call_tasks_add(tasks, text);
	if (routine)
		enter(thread, routine, thread->regs[RSP] - 1);
}

static void task_end(struct thread *thread)
{
	struct calltree_memory *memory = memory_of(thread);
	struct call_tree *tree = &private_of(thread)->tree;
	struct call_frame *frame = (struct call_frame *)memory->top;

	while (frame > tree->frames && !call_is_task(frame->at->routine))
		frame--;
	if (frame == tree->frames) {
		tree->head->repairs[CALL_REPAIR_NO_ENTRY]++;
		return;
	}
	tree->top = (struct call_frame *)memory->top;
	memory->deep = 0;
	while (tree->top > frame)
		frame_drop(tree, CALL_REPAIR_ABANDONED);
	memory->top = (uint64_t)(frame - 1);
}

/* The no-op instruction by which a program announces tasks (include/assay/client.h). */
static void task_put(struct insert *insert, const struct point *point)
{
	int64_t displacement = point->insn->raw.disp.value;

	if (displacement != CALL_CLIENT_BEGIN && displacement != CALL_CLIENT_END)
		return;
	charge_put(insert);
	if (displacement == CALL_CLIENT_BEGIN) {
		inline_general(insert, INLINE_A, RDI);
		inline_call(insert, ENGINE_TOOL_CALLTREE, CALLED_TASK_BEGIN, 1);
	} else {
		inline_call(insert, ENGINE_TOOL_CALLTREE, CALLED_TASK_END, 0);
	}
}

static void called(struct thread *thread, uint32_t number, const uint64_t *values)
{
	if (private_of(thread)->resync_pc)
		resync_end(thread);
	switch ((enum called)number) {
	case CALLED_ENTER:
		enter_from(thread, values, thread->regs[RSP] - 8);
		break;
	case CALLED_JUMP:
		enter_from(thread, values, thread->regs[RSP]);
		break;
	case CALLED_LEAVE:
		leave(thread);
		break;
	case CALLED_TAIL:
		if (!is_unwanted(values[0]))
			tail(thread, values[0]);
		break;
	case CALLED_ARRIVE:
		arrive(thread, values[0]);
		break;
	case CALLED_SKIP:
		skip(thread);
		break;
	case CALLED_ALLOCATE:
		allocate(thread, values[0], (enum routine_allocation)values[1]);
		break;
	case CALLED_TASK_BEGIN:
		task_begin(thread, values[0]);
		break;
	case CALLED_TASK_END:
		task_end(thread);
		break;
	case CALLED_CHARGE:
		charge_long(thread, values[0]);
	}
}

/* --- Places ------------------------------------------------------------------------------ */

static void call(struct insert *insert, const struct point *point)
{
	if (point->target && (code_is_stub(point->target) || is_unwanted(point->target)))
		return;
	charge_put(insert);
	inline_target(insert, INLINE_A);
	inline_enter(insert, ENGINE_TOOL_CALLTREE, CALLED_ENTER, place(), 8, site_of(point->pc));
}

static void back(struct insert *insert, const struct point *point)
{
	if (is_unwanted(point->pc))
		return;
	charge_put(insert);
	inline_leave(insert, ENGINE_TOOL_CALLTREE, CALLED_LEAVE, place());
}

static bool is_by_rip(const struct point *point)
{
	return point->operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       point->operands[0].mem.base == ZYDIS_REGISTER_RIP;
}

static bool is_by_r11(const struct point *point)
{
	return point->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       point->operands[0].reg.value == ZYDIS_REGISTER_R11;
}

static void branch(struct insert *insert, const struct point *point)
{
	if (is_by_rip(point)) {
		charge_put(insert);
		inline_target(insert, INLINE_A);
		inline_enter(insert, ENGINE_TOOL_CALLTREE, CALLED_JUMP, place(), 0,
			     site_of(point->pc));
	} else if (is_by_r11(point)) {
		charge_put(insert);
		inline_target(insert, INLINE_A);
		inline_call(insert, ENGINE_TOOL_CALLTREE, CALLED_TAIL, 1);
	}
}

/* The routine is not the innermost one: the difference of their addresses is not 0. */
static void arrive_put(struct insert *insert, uint64_t pc)
{
	inline_load(insert, INLINE_A, place());
	inline_load_at(insert, INLINE_A, INLINE_A, 8); /* the innermost frame's node */
	inline_load_at(insert, INLINE_A, INLINE_A, 8); /* its routine */
	inline_const(insert, INLINE_B, -pc);
	inline_sum(insert, INLINE_A, INLINE_B);
	inline_only_if(insert, INLINE_A, INLINE_DIFFERENT, 0);
	inline_const(insert, INLINE_A, pc);
	inline_call(insert, ENGINE_TOOL_CALLTREE, CALLED_ARRIVE, 1);
}

/* The innermost frame's return address is the one on top of the stack. */
static void skip_put(struct insert *insert)
{
	inline_load(insert, INLINE_A, place());
	inline_add(insert, INLINE_A, offsetof(struct call_frame, sp));
	inline_load_at(insert, INLINE_A, INLINE_A, 8);
	inline_general(insert, INLINE_B, RSP);
	inline_complement(insert, INLINE_B);
	inline_sum(insert, INLINE_A, INLINE_B);
	inline_add(insert, INLINE_A, 1);
	inline_only_if(insert, INLINE_A, INLINE_EQUAL, 0);
	inline_call(insert, ENGINE_TOOL_CALLTREE, CALLED_SKIP, 0);
}

static void allocation_put(struct insert *insert, uint64_t pc, uint32_t how)
{
	inline_const(insert, INLINE_A, pc);
	inline_const(insert, INLINE_B, how);
	inline_call(insert, ENGINE_TOOL_CALLTREE, CALLED_ALLOCATE, 2);
}

static void block(struct insert *insert, const struct point *point)
{
	struct routine_found found;

	if (!routine_find(point->pc, &found) || found.start != point->pc ||
	    found.flags & ROUTINE_PART)
		return;
	if (found.flags & ROUTINE_SKIPPED)
		skip_put(insert);
	else
		arrive_put(insert, point->pc);
	if (routines_area()->allocations && found.flags / ROUTINE_ALLOCATION)
		allocation_put(insert, point->pc, found.flags / ROUTINE_ALLOCATION);
}

/*
 * A routine that goes back to its beginning by a jump without a condition has called itself by a
 * tail call. One with a condition is a loop.
 */
static void before(struct insert *insert, const struct point *point)
{
	struct routine_found found;

	if (point->insn->mnemonic == ZYDIS_MNEMONIC_NOP && point->insn->raw.disp.size == 32)
		task_put(insert, point);
	if (point->insn->mnemonic != ZYDIS_MNEMONIC_JMP || !point->insn->raw.imm[0].is_relative)
		return;
	if (!routine_find(point->pc, &found) || found.flags & ROUTINE_SKIPPED ||
	    point->pc + point->insn->length + (uint64_t)point->insn->raw.imm[0].value.s !=
		    found.start)
		return;
	charge_put(insert);
	inline_const(insert, INLINE_A, found.start);
	inline_call(insert, ENGINE_TOOL_CALLTREE, CALLED_TAIL, 1);
}

/* --- Threads ----------------------------------------------------------------------------- */

/*
 * Measures the ticks between two time stamps of inline code, with the same stores and loads. The
 * median stands for the usual state of branch predictors and caches.
 */
static uint64_t calibrate(struct thread *thread)
{
	struct calltree_memory *memory = memory_of(thread);
	struct call_frame *top = (struct call_frame *)memory->top;
	struct call_node *node = top->at;
	uint64_t samples[CALIBRATION];

	for (int i = 0; i < CALIBRATION; i++) {
		uint64_t begin = ticks_now(), sample;
		int at = i;

		for (int event = 0; event < CALIBRATION_EVENTS; event++) {
			uint64_t now = ticks_now();

			node->amounts[0].elapsed += now - memory->last;
			*(volatile uint64_t *)&memory->last = now;
			*(volatile uint64_t *)&memory->top = (uint64_t)top;
		}
		sample = (ticks_now() - begin) / CALIBRATION_EVENTS;
		for (; at > 0 && samples[at - 1] > sample; at--)
			samples[at] = samples[at - 1];
		samples[at] = sample;
	}
	node->amounts[0].elapsed = 0;
	return samples[CALIBRATION / 2];
}

static uint32_t metrics_of(const struct routines_area *area)
{
	if (area->resources)
		return CALLTREE_METRICS_MAX;
	return area->allocations ? CALLTREE_METRICS_ALLOCATIONS : CALLTREE_METRICS;
}

/* The engine's memory is touched before its faults could be taken for the program's. */
static void resources_prepare(struct thread *thread)
{
	volatile uint8_t *frames = (uint8_t *)memory_of(thread) + CALLTREE_FRAMES;

	for (uint64_t at = 0; at < FRAMES_TOUCHED * PAGE; at += PAGE)
		frames[at] = frames[at];
	thread_targets_open(thread);
	resources_start(&private_of(thread)->resources);
}

static void thread_start(struct thread *thread)
{
	struct calltree_memory *memory = memory_of(thread);
	struct private *own = private_of(thread);
	const struct routines_area *area = routines_area();
	const struct call_tree_options options = { .metrics = metrics_of(area),
						   .limit = area->node_limit,
						   .depth_limit = area->depth_limit,
						   .prune_permille = area->prune_permille,
						   .rule = CALL_STACK_EXACT };

	own->tree = (struct call_tree){ .head = &memory->head,
					.nodes = (char *)memory + CALLTREE_NODES,
					.frames = (struct call_frame *)((uint8_t *)memory +
									CALLTREE_FRAMES),
					.weighs_itself = true };
	call_tree_init(&own->tree, &options);
	memory->top = (uint64_t)own->tree.top;
	memory->deep = 0;
	own->resyncs = attach_is_coming();
	own->resync_pc = own->resyncs ? thread->pc : 0;
	own->resync_sp = thread->regs[RSP];
	own->returned = 0;
	own->stacks.used = 0;
	((struct call_tasks *)((uint8_t *)memory + CALLTREE_TASKS))->count = 0;
	memory->timed = is_timed();
	if (memory->timed)
		memory->overhead = calibrate(thread);
	if (memory->timed)
		look_measure(own);
	if (area->resources)
		resources_prepare(thread);
	if (area->resources && memory->timed)
		own->checked = ticks_now();
	memory->last = memory->timed ? own->checked : ticks_now();
	__atomic_store_n(&memory->ready, 1, __ATOMIC_RELEASE);
}

/* Charges the rest of the time to the innermost routine. */
static void thread_end(struct thread *thread)
{
	struct calltree_memory *memory = memory_of(thread);
	uint64_t now = ticks_now(), interval = now - memory->last;

	sys_2(prctl, 16, memory->name); /* PR_GET_NAME */
	if (!memory->timed)
		return;
	memory->last = now;
	charge_long(thread, interval);
}

static bool charges_resources(struct thread *thread)
{
	return has_resources() && memory_of(thread)->ready;
}

/*
 * Charges the time up to now to the innermost routine; the engine's work that follows is charged to
 * none.
 */
static void work_begin(struct thread *thread)
{
	struct private *own = private_of(thread);

	if (!charges_resources(thread))
		return;
	resources_charge(&own->resources, innermost(thread));
	memory_of(thread)->last += own->resources.look;
}

static void work_end(struct thread *thread)
{
	struct private *own = private_of(thread);

	if (!charges_resources(thread))
		return;
	resources_leave_out(&own->resources, memory_of(thread));
	memory_of(thread)->last += own->resources.look;
}

/* The time for translating code is charged to no routine. */
static void paused(struct thread *thread, uint64_t ticks)
{
	memory_of(thread)->last += ticks;
}

static void before_syscall(struct thread *thread)
{
	if (!charges_resources(thread))
		return;
	charge_now(thread);
	resources_syscall(&private_of(thread)->resources, thread);
}

static void after_syscall(struct thread *thread)
{
	if (!charges_resources(thread))
		return;
	charge_now(thread);
	resources_syscall_done(&private_of(thread)->resources, thread, innermost(thread));
}

const struct tool tool_calltree = {
	.block = block,
	.before = before,
	.module = routines_module_seen,
	.call = call,
	.back = back,
	.branch = branch,
	.called = called,
	.thread_start = thread_start,
	.forked = thread_start,
	.thread_end = thread_end,
	.paused = paused,
	.work_begin = work_begin,
	.work_end = work_end,
	.syscall = before_syscall,
	.syscall_done = after_syscall,
};

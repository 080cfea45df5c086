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
 * it was a tail call: the routine takes the place of the innermost one. So does one that jumps to
 * its own beginning, also by a pointer. Routines that are to be skipped count as part of their
 * callers: their calls and returns get no inline code, unless the call is indirect.
 *
 *	in	calls, returns and blocks that are translated, and what inline code calls
 *	out	the tree of a thread and its frames, in memory that the host reads
 *	owner	the thread
 *
 * calltree_frames.c handles what inline code cannot, and calltree_time.c charges time.
 */
#include "engine/sys.h"
#include "engine/tools/calltree_private.h"

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

enum { FRAMED = 4099 /* places; a prime, because routines are aligned */ };
enum { FRAMES_TOUCHED = 4 /* pages of them: 512 calls within each other */ };

_Static_assert(sizeof(struct call_frame) == CALLTREE_FRAME, "known to inline code");
_Static_assert(offsetof(struct call_frame, at) == 0 && offsetof(struct call_frame, sp) == 8 &&
		       offsetof(struct call_frame, node) == 24,
	       "known to inline code");

uint32_t calltree_place_known;

uint32_t calltree_place_find(void)
{
	return (uint32_t)engine_tools_counters_at(engine_boot.tools, ENGINE_TOOL_CALLTREE,
						  STREAM_SEGMENTS_MAX);
}

static unsigned site_of(uint64_t pc)
{
	return (unsigned)(pc * 0x9e3779b97f4a7c15 >> (64 - CALLTREE_SITE_BITS));
}

/* With events, each of them comes to the functions here, which charge. */
static void charge_put(struct insert *insert)
{
	if (calltree_is_timed() && !calltree_has_events())
		inline_charge(insert, ENGINE_TOOL_CALLTREE, CALLED_CHARGE, calltree_place(),
			      calltree_interval_bits());
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

/* --- Calls of inline code ---------------------------------------------------------------- */

/* The innermost routine has ended by a tail call of one that is skipped. */
static void skip(struct thread *thread)
{
	calltree_charge_now(thread);
	calltree_leave(thread);
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
	const struct call_frame *frame = (struct call_frame *)calltree_memory_of(thread)->top;
	struct call_event event = { .major = CALL_MAJOR_ALLOCATION,
				    .minor = CALL_MINOR_ASKED,
				    .routine = bytes_asked(thread, how) };
	struct call_amount *amounts;

	if (frame->at->routine == routine && frame > calltree_state_of(thread)->tree.frames) {
		frame--;
		event.sp = 1;
	}
	amounts = frame->at->amounts;
	amounts[METRIC_OBJECTS].base++;
	amounts[METRIC_BYTES].base += event.routine;
	if (calltree_has_events())
		calltree_event_put(thread, &event, NULL, 0);
}

/* What goes on with frames; the time up to now was charged. */
static void frames_change(struct thread *thread, enum called number, const uint64_t *values)
{
	switch (number) {
	case CALLED_ENTER:
		calltree_enter_from(thread, values, thread->regs[RSP] - 8);
		break;
	case CALLED_JUMP:
		calltree_enter_from(thread, values, thread->regs[RSP]);
		break;
	case CALLED_LEAVE:
		calltree_leave(thread);
		break;
	case CALLED_TAIL:
		if (!calltree_is_unwanted(values[0]))
			calltree_tail(thread, values[0]);
		break;
	case CALLED_TASK_BEGIN:
		calltree_task_begin(thread, values[0]);
		break;
	default:
		calltree_task_end(thread);
	}
}

static void called(struct thread *thread, uint32_t number, const uint64_t *values)
{
	if (calltree_state_of(thread)->resync_pc)
		calltree_resync_end(thread);
	switch ((enum called)number) {
	case CALLED_ARRIVE:
		calltree_arrive(thread, values[0]);
		break;
	case CALLED_SKIP:
		skip(thread);
		break;
	case CALLED_ALLOCATE:
		allocate(thread, values[0], (enum routine_allocation)values[1]);
		break;
	case CALLED_CHARGE:
		calltree_charge_long(thread, values[0]);
		break;
	default:
		if (calltree_has_events())
			calltree_charge_now(thread);
		frames_change(thread, (enum called)number, values);
		calltree_time_skip(thread);
	}
}

/* With events, what inline code would have done, and could take back, was done here. */
static void taken_back(struct thread *thread, uint32_t number, const uint64_t *values)
{
	if (number == CALLED_ENTER)
		calltree_enter_undo(thread, values[0], thread->regs[RSP] - 8);
	else if (number == CALLED_JUMP)
		calltree_enter_undo(thread, values[0], thread->regs[RSP]);
	else if (number == CALLED_LEAVE)
		calltree_leave_undo(thread);
}

/* --- Places ------------------------------------------------------------------------------ */

/* The target is in INLINE_A; pushed: bytes of the return address that is about to be pushed. */
static void enter_put(struct insert *insert, enum called called, unsigned pushed, uint64_t pc)
{
	if (calltree_has_events()) {
		inline_const(insert, INLINE_B, site_of(pc));
		inline_call(insert, ENGINE_TOOL_CALLTREE, called, 2);
		return;
	}
	inline_enter(insert, ENGINE_TOOL_CALLTREE, called, calltree_place(), pushed, site_of(pc));
}

static void call(struct insert *insert, const struct point *point)
{
	if (point->target && (code_is_stub(point->target) || calltree_is_unwanted(point->target)))
		return;
	charge_put(insert);
	inline_target(insert, INLINE_A);
	enter_put(insert, CALLED_ENTER, 8, point->pc);
}

static void back(struct insert *insert, const struct point *point)
{
	if (calltree_is_unwanted(point->pc))
		return;
	charge_put(insert);
	if (calltree_has_events())
		inline_call(insert, ENGINE_TOOL_CALLTREE, CALLED_LEAVE, 0);
	else
		inline_leave(insert, ENGINE_TOOL_CALLTREE, CALLED_LEAVE, calltree_place());
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

/*
 * A jump by a pointer may lead a routine back to its own beginning, which is a tail call of itself.
 * That takes a test at each such jump, which interpreters would feel. So it is left out where the
 * routine has stack of its own and does not give it back right in front of the jump: such a jump is
 * that of a switch.
 */
static struct {
	uint64_t framed[FRAMED]; /* routines that take stack of their own first, by hash */
	uint64_t entry; /* the routine whose first block is being translated; 0: it is another */
	bool gives_back; /* the block has given back stack so far */
} jumps;

static void jumps_block(uint64_t entry)
{
	jumps.entry = entry;
	jumps.gives_back = false;
}

static bool writes_stack_pointer(const struct point *point)
{
	const ZydisDecodedOperand *first = &point->operands[0];

	return first->type == ZYDIS_OPERAND_TYPE_REGISTER && first->reg.value == ZYDIS_REGISTER_RSP;
}

static void jumps_instruction(const struct point *point)
{
	switch (point->insn->mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
		break;
	case ZYDIS_MNEMONIC_SUB:
		if (!writes_stack_pointer(point))
			return;
		break;
	case ZYDIS_MNEMONIC_POP:
	case ZYDIS_MNEMONIC_LEAVE:
		jumps.gives_back = true;
		return;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_LEA:
	case ZYDIS_MNEMONIC_MOV:
		jumps.gives_back |= writes_stack_pointer(point);
		return;
	default:
		return;
	}
	if (jumps.entry)
		jumps.framed[jumps.entry % FRAMED] = jumps.entry;
}

static void again_put(struct insert *insert, uint64_t pc)
{
	struct routine_found found;

	if (!routine_find(pc, &found) || found.flags & ROUTINE_SKIPPED ||
	    (jumps.framed[found.start % FRAMED] == found.start && !jumps.gives_back))
		return;
	inline_target(insert, INLINE_A);
	inline_const(insert, INLINE_B, -found.start);
	inline_sum(insert, INLINE_B, INLINE_A);
	inline_only_if(insert, INLINE_B, INLINE_EQUAL, 0);
	inline_call(insert, ENGINE_TOOL_CALLTREE, CALLED_TAIL, 1);
}

static void branch(struct insert *insert, const struct point *point)
{
	if (is_by_rip(point)) {
		charge_put(insert);
		inline_target(insert, INLINE_A);
		enter_put(insert, CALLED_JUMP, 0, point->pc);
	} else if (is_by_r11(point)) {
		charge_put(insert);
		inline_target(insert, INLINE_A);
		inline_call(insert, ENGINE_TOOL_CALLTREE, CALLED_TAIL, 1);
	} else {
		again_put(insert, point->pc);
	}
}

/* The routine is not the innermost one: the difference of their addresses is not 0. */
static void arrive_put(struct insert *insert, uint64_t pc)
{
	inline_load(insert, INLINE_A, calltree_place());
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
	inline_load(insert, INLINE_A, calltree_place());
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

	jumps_block(0);
	if (!routine_find(point->pc, &found) || found.start != point->pc ||
	    found.flags & ROUTINE_PART)
		return;
	jumps_block(point->pc);
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

	jumps_instruction(point);
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

static uint32_t metrics_of(const struct routines_area *area)
{
	if (area->resources)
		return CALLTREE_METRICS_MAX;
	return area->allocations ? CALLTREE_METRICS_ALLOCATIONS : CALLTREE_METRICS;
}

/* The engine's memory is touched before its faults could be taken for the program's. */
static void resources_prepare(struct thread *thread)
{
	volatile uint8_t *frames = (uint8_t *)calltree_memory_of(thread) + CALLTREE_FRAMES;

	for (uint64_t at = 0; at < FRAMES_TOUCHED * CALLTREE_PAGE; at += CALLTREE_PAGE)
		frames[at] = frames[at];
	thread_targets_open(thread);
	resources_start(&calltree_state_of(thread)->resources);
}

static void thread_start(struct thread *thread)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	struct calltree_state *own = calltree_state_of(thread);
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
	for (unsigned i = 0; i < CALLTREE_METRICS_MAX; i++)
		memory->now[i] = (struct call_amount){ 0 };
	memory->written = memory->dropped = 0;
	memory->timed = calltree_is_timed();
	if (memory->timed)
		memory->overhead = calltree_calibrate(thread);
	if (memory->timed)
		calltree_look_measure(own);
	if (area->resources)
		resources_prepare(thread);
	if (area->resources && memory->timed)
		own->checked = calltree_ticks();
	memory->last = memory->timed ? own->checked : calltree_ticks();
	__atomic_store_n(&memory->ready, 1, __ATOMIC_RELEASE);
}

/* Charges the rest of the time to the innermost routine. */
static void thread_end(struct thread *thread)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	uint64_t now = calltree_ticks(), interval = now - memory->last;

	sys_2(prctl, 16, memory->name); /* PR_GET_NAME */
	if (!memory->timed)
		return;
	memory->last = now;
	calltree_charge_long(thread, interval);
}

static bool charges_resources(struct thread *thread)
{
	return calltree_has_resources() && calltree_memory_of(thread)->ready;
}

/*
 * Charges the time up to now to the innermost routine; the engine's work that follows is charged to
 * none.
 */
static void work_begin(struct thread *thread)
{
	struct calltree_state *own = calltree_state_of(thread);

	if (!charges_resources(thread))
		return;
	resources_charge(&own->resources, calltree_innermost(thread));
	calltree_memory_of(thread)->last += own->resources.look;
}

static void work_end(struct thread *thread)
{
	struct calltree_state *own = calltree_state_of(thread);

	if (!charges_resources(thread))
		return;
	resources_leave_out(&own->resources, calltree_memory_of(thread));
	calltree_memory_of(thread)->last += own->resources.look;
}

/* The time for translating code is charged to no routine. */
static void paused(struct thread *thread, uint64_t ticks)
{
	calltree_memory_of(thread)->last += ticks;
}

static void before_syscall(struct thread *thread)
{
	if (!charges_resources(thread))
		return;
	calltree_charge_now(thread);
	resources_syscall(&calltree_state_of(thread)->resources, thread);
}

static void after_syscall(struct thread *thread)
{
	if (!charges_resources(thread))
		return;
	calltree_charge_now(thread);
	resources_syscall_done(&calltree_state_of(thread)->resources, thread,
			       calltree_innermost(thread));
}

const struct tool tool_calltree = {
	.block = block,
	.before = before,
	.module = routines_module_seen,
	.call = call,
	.back = back,
	.branch = branch,
	.called = called,
	.taken_back = taken_back,
	.thread_start = thread_start,
	.forked = thread_start,
	.thread_end = thread_end,
	.paused = paused,
	.work_begin = work_begin,
	.work_end = work_end,
	.syscall = before_syscall,
	.syscall_done = after_syscall,
};

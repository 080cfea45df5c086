// SPDX-License-Identifier: BSD-2-Clause
/*
 * The inline language: makes lists of operations, and interprets them where inserted code could not
 * execute them. lower.c turns lists into machine code.
 *
 * Invariants
 * 1. A unit has one effect, that of its last operation. The operations before it have none and can
 *    be repeated.
 * 2. To undo a unit, its operations are computed again, and its effect is reversed. Its conditions
 *    come out as they did the first time, since the instruction in front of which it stands has not
 *    been executed; only a gate may have been switched meanwhile.
 */
#include "engine/inline.h"

#include "calls/tree.h"
#include "engine/stream.h"
#include "wire/calltree.h"
#include "wire/mark_data.h"
#include "wire/mark_times.h"

/* --- Making lists ------------------------------------------------------------------------ */

static void op_add(struct insert *insert, struct inline_op op)
{
	if (insert->count == INSERT_OPS_MAX)
		engine_die("a tool inserts more than there is room for");
	insert->ops[insert->count++] = op;
}

bool insert_has_room(const struct insert *insert, unsigned ops)
{
	return insert->count + ops <= INSERT_OPS_MAX;
}

void inline_const(struct insert *insert, enum inline_register to, uint64_t value)
{
	op_add(insert, (struct inline_op){ INLINE_CONST, (uint8_t)to, 0, 0, (int32_t)value });
	if ((uint64_t)(int64_t)(int32_t)value != value)
		op_add(insert, (struct inline_op){ INLINE_CONST_HIGH, (uint8_t)to, 0, 0,
						   (int32_t)(value >> 32) });
}

void inline_general(struct insert *insert, enum inline_register to, enum register_number from)
{
	op_add(insert, (struct inline_op){ INLINE_GENERAL, (uint8_t)to, (uint8_t)from, 0, 0 });
}

void inline_address(struct insert *insert, enum inline_register to, unsigned operand)
{
	op_add(insert, (struct inline_op){ INLINE_ADDRESS, (uint8_t)to, 0, 0, (int32_t)operand });
}

void inline_target(struct insert *insert, enum inline_register to)
{
	op_add(insert, (struct inline_op){ INLINE_TARGET, (uint8_t)to, 0, 0, 0 });
}

void inline_add(struct insert *insert, enum inline_register to, int32_t value)
{
	op_add(insert, (struct inline_op){ INLINE_ADD, (uint8_t)to, 0, 0, value });
}

void inline_sum(struct insert *insert, enum inline_register to, enum inline_register from)
{
	op_add(insert, (struct inline_op){ INLINE_SUM, (uint8_t)to, (uint8_t)from, 0, 0 });
}

void inline_complement(struct insert *insert, enum inline_register to)
{
	op_add(insert, (struct inline_op){ INLINE_COMPLEMENT, (uint8_t)to, 0, 0, 0 });
}

void inline_and(struct insert *insert, enum inline_register to, int32_t mask)
{
	op_add(insert, (struct inline_op){ INLINE_AND, (uint8_t)to, 0, 0, mask });
}

void inline_shift(struct insert *insert, enum inline_register to, int bits)
{
	op_add(insert, (struct inline_op){ INLINE_SHIFT, (uint8_t)to, 0, 0, bits });
}

void inline_load(struct insert *insert, enum inline_register to, uint32_t counter)
{
	op_add(insert, (struct inline_op){ INLINE_LOAD, (uint8_t)to, 0, 8, (int32_t)counter });
}

void inline_load_at(struct insert *insert, enum inline_register to, enum inline_register address,
		    unsigned size)
{
	op_add(insert, (struct inline_op){ INLINE_LOAD_AT, (uint8_t)to, (uint8_t)address,
					   (uint8_t)size, 0 });
}

void inline_gate(struct insert *insert, enum engine_tool tool)
{
	op_add(insert, (struct inline_op){ INLINE_GATE, 0, 0, 0, (int32_t)tool });
}

void inline_only_if(struct insert *insert, enum inline_register reg, enum inline_condition is,
		    int32_t value)
{
	op_add(insert, (struct inline_op){ INLINE_ONLY_IF, 0, (uint8_t)reg, (uint8_t)is, value });
}

void inline_taken(struct insert *insert, unsigned condition)
{
	op_add(insert, (struct inline_op){ INLINE_TAKEN, 0, 0, (uint8_t)condition, 0 });
}

void inline_count(struct insert *insert, uint32_t counter, uint32_t amount)
{
	op_add(insert, (struct inline_op){ INLINE_COUNT, (uint8_t)amount, (uint8_t)(amount >> 8),
					   (uint8_t)(amount >> 16), (int32_t)counter });
}

void inline_mark(struct insert *insert, uint32_t byte)
{
	op_add(insert, (struct inline_op){ INLINE_MARK, 0, 0, 0, (int32_t)byte });
}

void inline_store(struct insert *insert, uint32_t counter, enum inline_register from)
{
	op_add(insert, (struct inline_op){ INLINE_STORE, 0, (uint8_t)from, 8, (int32_t)counter });
}

void inline_store_at(struct insert *insert, enum inline_register address, enum inline_register from,
		     unsigned size)
{
	op_add(insert, (struct inline_op){ INLINE_STORE_AT, (uint8_t)address, (uint8_t)from,
					   (uint8_t)size, 0 });
}

void inline_append(struct insert *insert, uint32_t word)
{
	op_add(insert, (struct inline_op){ INLINE_APPEND, 0, 0, 4, (int32_t)word });
}

void inline_call(struct insert *insert, enum engine_tool tool, uint32_t number, unsigned values)
{
	op_add(insert, (struct inline_op){ INLINE_CALL, (uint8_t)tool, 0, (uint8_t)values,
					   (int32_t)number });
}

void inline_charge(struct insert *insert, enum engine_tool tool, uint32_t number, uint32_t memory,
		   unsigned bits)
{
	op_add(insert, (struct inline_op){ INLINE_CHARGE, (uint8_t)tool, (uint8_t)number,
					   (uint8_t)bits, (int32_t)memory });
}

void inline_enter(struct insert *insert, enum engine_tool tool, uint32_t number, uint32_t memory,
		  unsigned pushed, unsigned site)
{
	op_add(insert, (struct inline_op){ INLINE_ENTER, (uint8_t)tool, (uint8_t)number,
					   (uint8_t)pushed, (int32_t)memory });
	op_add(insert, (struct inline_op){ INLINE_ENTERED, (uint8_t)site, (uint8_t)(site >> 8), 0,
					   (int32_t)memory });
}

void inline_leave(struct insert *insert, enum engine_tool tool, uint32_t number, uint32_t memory)
{
	op_add(insert, (struct inline_op){ INLINE_LEAVE, (uint8_t)tool, (uint8_t)number, 0,
					   (int32_t)memory });
}

static struct inline_op timer_op(enum inline_kind kind, unsigned timer, uint32_t value)
{
	return (struct inline_op){ (uint8_t)kind, (uint8_t)timer, (uint8_t)(timer >> 8), 0,
				   (int32_t)value };
}

void inline_timer_begin(struct insert *insert, uint32_t memory, unsigned timer)
{
	op_add(insert, timer_op(INLINE_TIMER_BEGIN, timer, memory));
}

void inline_timer_end(struct insert *insert, uint32_t memory, unsigned timer, bool exact,
		      int32_t slower)
{
	struct inline_op end = timer_op(INLINE_TIMER_END, timer, memory);

	end.size = exact;
	op_add(insert, end);
	op_add(insert, timer_op(INLINE_TIMER_SUM, timer, memory));
	op_add(insert, timer_op(INLINE_TIMER_COUNT, timer, memory));
	op_add(insert, timer_op(INLINE_TIMER_SLOWER, timer, (uint32_t)slower));
}

void inline_touch(struct insert *insert, uint32_t number, const struct access *access)
{
	op_add(insert, (struct inline_op){ INLINE_TOUCH, (uint8_t)ENGINE_TOOL_MARK_DATA,
					   (uint8_t)(access->operand | (access->based ? 0x80 : 0)),
					   (uint8_t)(access->size <= TOUCH_MAX ? access->size : 0),
					   (int32_t)number });
}

/* --- Reading lists ----------------------------------------------------------------------- */

bool inline_is_end(const struct inline_op *op)
{
	return op->kind >= INLINE_COUNT;
}

unsigned inline_units(const struct inline_op *ops, unsigned count)
{
	unsigned units = 0;

	for (unsigned i = 0; i < count; i++)
		units += inline_is_end(&ops[i]);
	return units;
}

uint64_t inline_amount(const struct inline_op *op)
{
	return op->to | (uint64_t)op->from << 8 | (uint64_t)op->size << 16;
}

unsigned inline_timer(const struct inline_op *op)
{
	return op->to | (unsigned)op->from << 8;
}

/* --- Doing lists ------------------------------------------------------------------------- */

static uint64_t *counter_of(struct thread *thread, int32_t counter)
{
	return (uint64_t *)(stream_counts(thread) + (uint32_t)counter);
}

static uint64_t memory_load(uint64_t address, unsigned size)
{
	switch (size) {
	case 1:
		return *(const volatile uint8_t *)address;
	case 2:
		return *(const volatile uint16_t *)address;
	case 4:
		return *(const volatile uint32_t *)address;
	default:
		return *(const volatile uint64_t *)address;
	}
}

static void memory_store(uint64_t address, unsigned size, uint64_t value)
{
	switch (size) {
	case 1:
		*(volatile uint8_t *)address = (uint8_t)value;
		break;
	case 2:
		*(volatile uint16_t *)address = (uint16_t)value;
		break;
	case 4:
		*(volatile uint32_t *)address = (uint32_t)value;
		break;
	default:
		*(volatile uint64_t *)address = value;
	}
}

static void value_do(struct thread *thread, const struct inline_op *op, uint64_t *registers,
		     const struct inline_values *values)
{
	uint64_t *to = &registers[op->to];

	switch (op->kind) {
	case INLINE_CONST:
		*to = (uint64_t)(int64_t)op->value;
		break;
	case INLINE_CONST_HIGH:
		*to = (uint32_t)*to | (uint64_t)(uint32_t)op->value << 32;
		break;
	case INLINE_GENERAL:
		*to = thread->regs[op->from];
		break;
	case INLINE_ADDRESS:
		*to = values->addresses[op->value];
		break;
	case INLINE_TARGET:
		*to = values->target;
		break;
	case INLINE_ADD:
		*to += (uint64_t)(int64_t)op->value;
		break;
	case INLINE_SUM:
		*to += registers[op->from];
		break;
	case INLINE_COMPLEMENT:
		*to = ~*to;
		break;
	case INLINE_AND:
		*to &= (uint64_t)(int64_t)op->value;
		break;
	case INLINE_SHIFT:
		*to = op->value < 0 ? *to >> -op->value : *to << op->value;
		break;
	case INLINE_LOAD:
		*to = *counter_of(thread, op->value);
		break;
	case INLINE_LOAD_AT:
		*to = memory_load(registers[op->from], op->size);
	}
}

static bool is_true(const struct inline_op *op, const uint64_t *registers)
{
	uint64_t left = registers[op->from], right = (uint64_t)(int64_t)op->value;

	switch (op->size) {
	case INLINE_EQUAL:
		return left == right;
	case INLINE_DIFFERENT:
		return left != right;
	case INLINE_BELOW:
		return left < right;
	default:
		return left >= right;
	}
}

/* A condition code of x86, by the program's flags. */
static bool flags_say(uint64_t flags, unsigned condition)
{
	bool carry = flags & 1, parity = flags >> 2 & 1, zero = flags >> 6 & 1;
	bool sign = flags >> 7 & 1, overflow = flags >> 11 & 1;
	const bool says[] = { overflow,
			      carry,
			      zero,
			      carry || zero,
			      sign,
			      parity,
			      sign != overflow,
			      zero || sign != overflow };

	return says[condition >> 1 & 7] != (condition & 1);
}

/* False: the unit ends here. */
static bool condition_holds(struct thread *thread, const struct inline_op *op,
			    const uint64_t *registers)
{
	const struct stream_gates *gates = stream_gates(thread);

	if (op->kind == INLINE_GATE)
		return !__atomic_load_n(&gates->closed[op->value], __ATOMIC_RELAXED);
	if (op->kind == INLINE_TAKEN)
		return flags_say(thread->flags, op->size);
	return op->kind != INLINE_ONLY_IF || is_true(op, registers);
}

/* --- Timers and data of marks ------------------------------------------------------------ */

static struct mark_times_memory *times_of(struct thread *thread)
{
	return (struct mark_times_memory *)(stream_counts(thread) +
					    engine_tools_counters_at(engine_boot.tools,
								     ENGINE_TOOL_MARK_TIMES,
								     STREAM_SEGMENTS_MAX));
}

/* The visit that ended last is open again, if it is the one that ended here. */
static void timer_end_undo(struct thread *thread, const struct inline_op *op)
{
	struct mark_times_memory *memory = times_of(thread);
	struct mark_times_frame *frame = (struct mark_times_frame *)memory->top + 1;

	memory->undone = 0;
	if (frame->timer != inline_timer(op) || !frame->ticks ||
	    (op->size && frame->sp != thread->regs[RSP]))
		return;
	memory->undone = frame->ticks;
	frame->ticks = 0;
	memory->top += MARK_TIMES_FRAME;
}

static void timer_undo(struct thread *thread, const struct inline_op *op)
{
	struct mark_times_memory *memory = times_of(thread);
	struct mark_times_frame *top = (struct mark_times_frame *)memory->top;
	struct mark_timing *timing =
		(struct mark_timing *)((uint8_t *)memory + MARK_TIMES_TIMERS) + inline_timer(op);

	if (op->kind == INLINE_TIMER_END)
		timer_end_undo(thread, op);
	else if (op->kind == INLINE_TIMER_SUM)
		timing->sum -= memory->undone;
	else if (op->kind == INLINE_TIMER_COUNT && memory->undone)
		timing->buckets[mark_times_bucket(memory->undone)]--;
	else if (op->kind == INLINE_TIMER_SLOWER && op->value &&
		 memory->undone >= (uint32_t)op->value)
		timing->slower--;
	else if (op->kind == INLINE_TIMER_BEGIN && top->timer == inline_timer(op) &&
		 top->sp == thread->regs[RSP])
		memory->top -= MARK_TIMES_FRAME;
}

/* The tool's called() does the whole end of a visit, that is, also the units that follow it. */
static void timer_do(struct thread *thread, const struct inline_op *op)
{
	unsigned which = op->kind == INLINE_TIMER_BEGIN ? TIMER_BEGIN : TIMER_END;

	if (op->kind == INLINE_TIMER_BEGIN || op->kind == INLINE_TIMER_END)
		tool_of(ENGINE_TOOL_MARK_TIMES)
			->called(thread, which << TIMER_CALLED_SHIFT | inline_timer(op), NULL);
}

static bool may_be_marked(struct thread *thread, uint64_t address)
{
	const uint8_t *memory = stream_counts(thread) +
				engine_tools_counters_at(engine_boot.tools, ENGINE_TOOL_MARK_DATA,
							 STREAM_SEGMENTS_MAX);

	return !memory[MARK_DATA_FILTER + (address >> 12) % MARK_DATA_PAGES];
}

/* Operands of an unusual size always go to the tool. */
static void touch(struct thread *thread, const struct inline_op *op,
		  const struct inline_values *values, bool undo)
{
	const struct tool *tool = tool_of(op->to);
	uint64_t address = values->addresses[op->from & 1];

	if (op->size && !may_be_marked(thread, address))
		return;
	if (undo)
		tool->taken_back(thread, (uint32_t)op->value, &address);
	else
		tool->called(thread, (uint32_t)op->value, &address);
}

/* --- Effects ----------------------------------------------------------------------------- */

static void effect_do(struct thread *thread, const struct inline_op *op, const uint64_t *registers,
		      const struct inline_values *values)
{
	switch (op->kind) {
	case INLINE_COUNT:
		*counter_of(thread, op->value) += inline_amount(op);
		break;
	case INLINE_MARK:
		stream_counts(thread)[(uint32_t)op->value] = 1;
		break;
	case INLINE_STORE:
		*counter_of(thread, op->value) = registers[op->from];
		break;
	case INLINE_STORE_AT:
		memory_store(registers[op->to], op->size, registers[op->from]);
		break;
	case INLINE_KEEP:
		thread->addresses[op->value] = registers[op->from];
		break;
	case INLINE_APPEND:
		stream_append(thread, (uint32_t)op->value);
		break;
	case INLINE_CALL:
		tool_of(op->to)->called(thread, (uint32_t)op->value, registers);
		break;
	case INLINE_TIMER_BEGIN:
	case INLINE_TIMER_END:
		timer_do(thread, op);
		break;
	case INLINE_TOUCH:
		touch(thread, op, values, false);
	}
}

/*
 * A frame that was entered is the innermost one, with the stack pointer of the call; one that was
 * left is the one behind. If the tool did something else there, because frames did not match, it
 * stays.
 */
static void frame_undo(struct thread *thread, const struct inline_op *op)
{
	struct calltree_memory *memory = (struct calltree_memory *)counter_of(thread, op->value);
	struct call_frame *top = (struct call_frame *)memory->top;
	uint64_t sp = thread->regs[RSP];

	if (op->kind == INLINE_ENTER && top->sp == sp - op->size)
		memory->top -= CALLTREE_FRAME;
	else if (op->kind == INLINE_ENTERED && top[1].at &&
		 (top[1].sp == sp - 8 || top[1].sp == sp))
		top[1].at->calls--;
	else if (op->kind == INLINE_LEAVE && top[1].sp == sp && top[1].at)
		memory->top += CALLTREE_FRAME;
}

static void effect_undo(struct thread *thread, const struct inline_op *op,
			const uint64_t *registers, const struct inline_values *values)
{
	if (op->kind == INLINE_COUNT)
		*counter_of(thread, op->value) -= inline_amount(op);
	else if (op->kind == INLINE_APPEND)
		stream_unappend(thread, (uint32_t)op->value);
	else if (op->kind >= INLINE_ENTER && op->kind <= INLINE_LEAVE)
		frame_undo(thread, op);
	else if (op->kind >= INLINE_TIMER_BEGIN && op->kind <= INLINE_TIMER_SLOWER)
		timer_undo(thread, op);
	else if (op->kind == INLINE_TOUCH)
		touch(thread, op, values, true);
	else if (op->kind == INLINE_CALL && tool_of(op->to)->taken_back)
		tool_of(op->to)->taken_back(thread, (uint32_t)op->value, registers);
}

/* The operation behind the unit that begins at op. */
static const struct inline_op *unit_run(struct thread *thread, const struct inline_op *op,
					const struct inline_values *values, bool undo)
{
	uint64_t registers[INLINE_REGISTERS] = {};
	bool goes_on = true;

	for (; !inline_is_end(op); op++) {
		goes_on = goes_on && condition_holds(thread, op, registers);
		if (goes_on)
			value_do(thread, op, registers, values);
	}
	if (goes_on && undo)
		effect_undo(thread, op, registers, values);
	else if (goes_on)
		effect_do(thread, op, registers, values);
	return op + 1;
}

static const struct inline_op *unit_skip(const struct inline_op *op)
{
	while (!inline_is_end(op))
		op++;
	return op + 1;
}

void inline_do(struct thread *thread, const struct inline_op *ops, unsigned count, unsigned from,
	       const struct inline_values *values)
{
	unsigned unit = 0;

	for (const struct inline_op *op = ops; op < ops + count; unit++)
		op = unit < from ? unit_skip(op) : unit_run(thread, op, values, false);
}

void inline_undo(struct thread *thread, const struct inline_op *ops, unsigned count, unsigned units,
		 const struct inline_values *values)
{
	const struct inline_op *op = ops;

	for (unsigned unit = 0; unit < units && op < ops + count; unit++)
		op = unit_run(thread, op, values, true);
}

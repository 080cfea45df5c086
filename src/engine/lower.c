// SPDX-License-Identifier: BSD-2-Clause
/*
 * From lists of the inline language (tool.h) to machine code.
 *
 *	in	a list of operations, and which registers and flags are dead
 *	out	machine code at the end of the fragment that is being made
 *	owner	the build of translate.c, in which it appends
 *
 * A list is put as a whole: registers that it needs are saved once, its units follow, and the
 * registers come back. Registers that are dead need no saving. Flags are left alone where they
 * matter and that is possible: sums are made with lea, and a gate is tested with jrcxz. Otherwise
 * they are saved with lahf and seto, which writes to no memory of the program's.
 *
 *	save	(rax saved, lahf, seto, stored)	registers to their slots in the thread
 *	units	each: values, conditions that jump behind the unit, the effect
 *	restore	flags, registers
 *
 * lower_ends.c has the usual operations at ends of segments; lower_calls.c and lower_marks.c have
 * the operations of the tools for call trees and marks.
 *
 * Invariants
 * 1. put_state() follows each instruction after which a part of the program's state lies elsewhere.
 *    In between, everything that the program could read is in its register, in its slot in the
 *    thread, or in both.
 * 2. The effect of a unit is one instruction, and from its end on the unit has happened.
 */
#include "engine/lower.h"

#include "engine/gs.h"
#include "engine/stream.h"

/* --- Lists ------------------------------------------------------------------------------- */

enum {
	TIMER_OPS = 1 << INLINE_TIMER_BEGIN | 1 << INLINE_TIMER_END,
	FLAG_OPS = 1 << INLINE_AND | 1 << INLINE_SHIFT | 1 << INLINE_ONLY_IF | 1 << INLINE_CHARGE |
		   1 << INLINE_ENTER | TIMER_OPS,
	CALL_OPS = 1 << INLINE_CALL | 1 << INLINE_CHARGE | 1 << INLINE_ENTER | 1 << INLINE_LEAVE |
		   TIMER_OPS,
	RCX_OPS = 1 << INLINE_TIMER_END | 1 << INLINE_TOUCH, /* want rcx for themselves */
	NO_REGISTER = RSP, /* which is never free */
};

void lower_here(const struct lowering *lowering)
{
	const struct place *place = lowering->place;

	put_state(lowering->build, place->pc,
		  place->state | lowering->saved << STATE_SAVED_SHIFT |
			  (lowering->flags_saved ? STATE_FLAGS : 0) |
			  (place->happened ? 0 : lower_all_told(lowering->build)));
}

/* --- Instructions ------------------------------------------------------------------------ */

void put_reg_reg(struct build *build, unsigned opcode, unsigned reg, unsigned rm)
{
	put8(build, 0x48 | (reg >= 8 ? 4 : 0) | (rm >= 8 ? 1 : 0));
	put8(build, opcode);
	put8(build, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

void put_based(struct build *build, unsigned reg, unsigned base, int32_t displacement)
{
	put8(build, 0x80 | (reg & 7) << 3 | (base & 7));
	if ((base & 7) == RSP)
		put8(build, 0x24);
	put32(build, (uint64_t)(int64_t)displacement);
}

void put_add(struct build *build, unsigned to, unsigned from, int32_t displacement)
{
	put8(build, 0x48 | (to >= 8 ? 4 : 0) | (from >= 8 ? 1 : 0));
	put8(build, 0x8d);
	put_based(build, to, from, displacement);
}

/* lea (to,from), to */
static void put_sum(struct build *build, unsigned to, unsigned from)
{
	put8(build, 0x48 | (to >= 8 ? 5 : 0) | (from >= 8 ? 2 : 0));
	put8(build, 0x8d);
	put8(build, 0x44 | (to & 7) << 3);
	put8(build, (from & 7) << 3 | (to & 7));
	put8(build, 0);
}

/* An operation of group 1 (4 and, 7 compare) with a number. */
static void put_group1(struct build *build, unsigned operation, unsigned reg, int32_t value)
{
	put8(build, 0x48 | (reg >= 8 ? 1 : 0));
	put8(build, 0x81);
	put8(build, 0xc0 | operation << 3 | (reg & 7));
	put32(build, (uint64_t)(int64_t)value);
}

static void put_shift(struct build *build, unsigned reg, int bits)
{
	put8(build, 0x48 | (reg >= 8 ? 1 : 0));
	put8(build, 0xc1);
	put8(build, 0xc0 | (bits < 0 ? 5 : 4) << 3 | (reg & 7));
	put8(build, (unsigned)(bits < 0 ? -bits : bits));
}

void put_number(struct build *build, unsigned reg, uint64_t value)
{
	put8(build, 0x48 | (reg >= 8 ? 1 : 0));
	if (value == (uint64_t)(int64_t)(int32_t)value) {
		put8(build, 0xc7);
		put8(build, 0xc0 | (reg & 7));
		put32(build, value);
		return;
	}
	put8(build, 0xb8 | (reg & 7));
	put32(build, value);
	put32(build, value >> 32);
}

static void put_load_at(struct build *build, unsigned to, unsigned address, unsigned size)
{
	put8(build, (size == 8 ? 0x48 : 0x40) | (to >= 8 ? 4 : 0) | (address >= 8 ? 1 : 0));
	if (size < 4)
		put8(build, 0x0f);
	put8(build, size == 1 ? 0xb6 : size == 2 ? 0xb7 : 0x8b);
	put_based(build, to, address, 0);
}

static void put_store_at(struct build *build, unsigned address, unsigned from, unsigned size)
{
	if (size == 2)
		put8(build, 0x66);
	put8(build, (size == 8 ? 0x48 : 0x40) | (from >= 8 ? 4 : 0) | (address >= 8 ? 1 : 0));
	put8(build, size == 1 ? 0x88 : 0x89);
	put_based(build, from, address, 0);
}

/* --- Registers --------------------------------------------------------------------------- */

static void operands_decode(struct lowering *lowering)
{
	const struct build *build = lowering->build;

	instruction_decode_full(build->code, build->insn.length, &lowering->insn,
				lowering->operands);
}

static const ZydisDecodedOperand *operand_of(const struct lowering *lowering, int32_t number)
{
	const ZydisDecodedOperand *operand = lowering->operands;

	while (!insert_is_access(&lowering->insn, operand) || number--)
		operand++;
	return operand;
}

static unsigned registers_of(const ZydisDecodedOperand *operand)
{
	int base = register_number(operand->mem.base), index = register_number(operand->mem.index);

	return (base < 0 ? 0 : 1u << base) | (index < 0 ? 0 : 1u << index);
}

static void list_look(struct lowering *lowering)
{
	const struct inserted *list = lowering->list;

	for (unsigned i = 0; i < list->count; i++)
		lowering->kinds |= 1u << list->ops[i].kind;
	if (lowering->kinds & (1u << INLINE_ADDRESS | 1u << INLINE_TOUCH) &&
	    list->point != POINT_AFTER)
		operands_decode(lowering);
	for (unsigned i = 0; i < list->count; i++) {
		const struct inline_op *op = &list->ops[i];

		if (op->kind == INLINE_GENERAL)
			lowering->avoided |= 1u << op->from;
		if (op->kind == INLINE_ADDRESS && list->point != POINT_AFTER)
			lowering->avoided |= registers_of(operand_of(lowering, op->value));
		if (op->kind == INLINE_TOUCH)
			lowering->avoided |= registers_of(operand_of(lowering, op->from & 1));
	}
	lowering->avoided |= 1u << RSP;
	if (lowering->place->state & STATE_SPILLED)
		lowering->avoided |= 1u << RDX; /* the target */
}

/* In the middle of an indirect branch rcx is free: the program's is in its slot. */
static unsigned dead_registers(const struct lowering *lowering)
{
	unsigned spilled = lowering->place->state & STATE_SPILLED ? 1u << RCX : 0;

	return (lowering->list->dead & ~lowering->avoided) | spilled;
}

void lower_register_save(struct lowering *lowering, unsigned reg)
{
	put_thread_move(lowering->build, 0x89, reg, THREAD_SAVED + 8 * reg);
	lowering->saved |= 1u << reg;
	lower_here(lowering);
}

/* One that is dead, or else one that is saved; taken: not these. */
unsigned lower_register_take(struct lowering *lowering, unsigned taken)
{
	static const uint8_t order[] = { RCX, RSI, RDI, R8, R9, R10, R11, RDX, RBX, RBP };
	unsigned dead = dead_registers(lowering) & ~taken;

	if (dead)
		return (unsigned)__builtin_ctz(dead);
	for (size_t i = 0;; i++) {
		if ((taken | lowering->avoided) >> order[i] & 1)
			continue;
		lower_register_save(lowering, order[i]);
		return order[i];
	}
}

static bool uses_register(const struct inserted *list, unsigned reg)
{
	for (unsigned i = 0; i < list->count; i++) {
		const struct inline_op *op = &list->ops[i];

		if (op->kind <= INLINE_LOAD_AT && op->to == reg)
			return true;
		if (op->kind == INLINE_ENTER && (reg == INLINE_B || reg == INLINE_C))
			return true;
		if (op->kind == INLINE_TOUCH && reg == INLINE_A && op->from & 0x80)
			return true;
	}
	return false;
}

/* Segments other than the usual ones have a base that must be added to addresses. */
static bool has_base(const ZydisDecodedOperand *operand)
{
	return operand->mem.segment == ZYDIS_REGISTER_FS ||
	       operand->mem.segment == ZYDIS_REGISTER_GS;
}

static bool needs_scratch(const struct lowering *lowering)
{
	unsigned kinds = lowering->kinds;

	if (kinds & (CALL_OPS | 1u << INLINE_TOUCH))
		return true;
	if (!lowering->flags_free && kinds & (1u << INLINE_COUNT | 1u << INLINE_GATE))
		return true;
	if (!(kinds & 1u << INLINE_ADDRESS) || lowering->list->point == POINT_AFTER)
		return false;
	for (unsigned i = 0; i < lowering->list->count; i++)
		if (lowering->list->ops[i].kind == INLINE_ADDRESS &&
		    has_base(operand_of(lowering, lowering->list->ops[i].value)))
			return true;
	return false;
}

/* A gate where flags must be kept, and an exit, are tested with jrcxz, which wants rcx. */
static unsigned scratch_take(struct lowering *lowering)
{
	if (lowering->kinds & 1u << INLINE_LEAVE)
		return RCX; /* it is in its slot, in the middle of a return */
	if (lowering->kinds & 1u << INLINE_TOUCH && !(lowering->kinds & CALL_OPS))
		return RCX; /* which was saved */
	if (!(lowering->kinds & 1u << INLINE_GATE) || lowering->flags_free)
		return lower_register_take(lowering, 0);
	if (!(dead_registers(lowering) >> RCX & 1))
		lower_register_save(lowering, RCX);
	return RCX;
}

void lower_flags_save(struct lowering *lowering)
{
	static const uint8_t get[] = { 0x9f, 0x0f, 0x90, 0xc0 }; /* lahf; seto %al */
	struct build *build = lowering->build;

	lower_register_save(lowering, RAX);
	put_bytes(build, get, sizeof(get));
	put_thread_move(build, 0x89, RAX, THREAD_SAVED_FLAGS);
	put_thread_move(build, 0x8b, RAX, THREAD_SAVED + 8 * RAX);
	lowering->flags_saved = true;
	lower_here(lowering);
}

void lower_flags_restore(struct lowering *lowering)
{
	static const uint8_t set[] = { 0x04, 0x7f, 0x9e }; /* add $0x7f, %al; sahf */
	struct build *build = lowering->build;

	if (!lowering->flags_saved)
		return;
	put_thread_move(build, 0x8b, RAX, THREAD_SAVED_FLAGS);
	put_bytes(build, set, sizeof(set));
	put_thread_move(build, 0x8b, RAX, THREAD_SAVED + 8 * RAX);
}

static void rcx_take(struct lowering *lowering)
{
	if (!(dead_registers(lowering) >> RCX & 1))
		lower_register_save(lowering, RCX);
	lowering->avoided |= 1u << RCX;
}

static void list_begin(struct lowering *lowering)
{
	unsigned taken = 0;

	list_look(lowering);
	lowering->flags_free = lowering->list->flags_dead;
	if (!lowering->flags_free &&
	    (lowering->kinds & FLAG_OPS ||
	     (lowering->kinds & 1u << INLINE_TOUCH && lower_touch_wants_flags()) ||
	     (lowering->kinds & 1u << INLINE_GATE && lowering->avoided >> RCX & 1))) {
		lower_flags_save(lowering);
		lowering->flags_free = true;
		lowering->avoided |= 1u << RAX; /* its slot is in use */
	}
	if (lowering->kinds & (1u << INLINE_CHARGE | TIMER_OPS))
		lower_charge_begin(lowering);
	if (lowering->kinds & RCX_OPS)
		rcx_take(lowering);
	if (needs_scratch(lowering)) {
		lowering->scratch = scratch_take(lowering);
		taken |= 1u << lowering->scratch;
	}
	for (unsigned i = 0; i < INLINE_REGISTERS; i++) {
		if (!uses_register(lowering->list, i))
			continue;
		lowering->registers[i] = lower_register_take(lowering, taken);
		taken |= 1u << lowering->registers[i];
	}
}

static void registers_restore(struct lowering *lowering)
{
	lower_flags_restore(lowering);
	for (unsigned reg = 0; reg < 16; reg++)
		if (lowering->saved >> reg & 1 && !(reg == RAX && lowering->flags_saved))
			put_thread_move(lowering->build, 0x8b, reg, THREAD_SAVED + 8 * reg);
}

/* --- Operations -------------------------------------------------------------------------- */

static void general_put(struct lowering *lowering, unsigned to, unsigned from)
{
	struct build *build = lowering->build;

	if (lowering->saved >> from & 1)
		put_thread_move(build, 0x8b, to, THREAD_SAVED + 8 * from);
	else if (lowering->place->state & STATE_SPILLED && (from == RCX || from == RDX))
		put_thread_move(build, 0x8b, to, from == RCX ? THREAD_SPILL0 : THREAD_SPILL1);
	else
		put_reg_reg(build, 0x89, from, to);
}

static void base_add(struct lowering *lowering, unsigned to, ZydisRegister segment)
{
	const uint8_t read[] = { 0xf3, (uint8_t)(0x48 | (lowering->scratch >= 8)), 0x0f, 0xae,
				 (uint8_t)(0xc0 | (lowering->scratch & 7)) }; /* rdfsbase */

	if (segment == ZYDIS_REGISTER_GS)
		put_thread_move(lowering->build, 0x8b, lowering->scratch, THREAD_GS);
	else
		put_bytes(lowering->build, read, sizeof(read));
	put_sum(lowering->build, to, lowering->scratch);
}

/* Zydis gives the address on the stack as it was before a push. */
void lower_address(struct lowering *lowering, unsigned to, int32_t number)
{
	const ZydisDecodedOperand *operand;
	struct gs_lea lea;

	if (lowering->list->point == POINT_AFTER) {
		put_thread_move(lowering->build, 0x8b, to, THREAD_ADDRESSES + 8 * (unsigned)number);
		return;
	}
	operand = operand_of(lowering, number);
	operand_lea(&lowering->insn, operand, to, &lea);
	put_lea(lowering->build, &lea);
	if (insert_is_pushed(&lowering->insn, operand))
		put_add(lowering->build, to, to, -(int32_t)(operand->size / 8));
	if (has_base(operand))
		base_add(lowering, to, operand->mem.segment);
}

static void value_put(struct lowering *lowering, const struct inline_op *op)
{
	struct build *build = lowering->build;
	/* Operations that are not about registers have something else in these fields. */
	unsigned to = lowering->registers[op->to & 3], from = lowering->registers[op->from & 3];

	switch (op->kind) {
	case INLINE_CONST:
		if (op[1].kind == INLINE_CONST_HIGH)
			put_number(build, to,
				   (uint32_t)op->value | (uint64_t)(uint32_t)op[1].value << 32);
		else
			put_number(build, to, (uint64_t)(int64_t)op->value);
		break;
	case INLINE_GENERAL:
		general_put(lowering, to, op->from);
		break;
	case INLINE_ADDRESS:
		lower_address(lowering, to, op->value);
		break;
	case INLINE_TARGET:
		put_reg_reg(build, 0x89, RDX, to);
		break;
	case INLINE_ADD:
		put_add(build, to, to, op->value);
		break;
	case INLINE_SUM:
		put_sum(build, to, from);
		break;
	case INLINE_COMPLEMENT:
		put8(build, 0x48 | (to >= 8 ? 1 : 0)); /* not, which leaves the flags alone */
		put8(build, 0xf7);
		put8(build, 0xd0 | (to & 7));
		break;
	case INLINE_AND:
		put_group1(build, 4, to, op->value);
		break;
	case INLINE_SHIFT:
		put_shift(build, to, op->value);
		break;
	case INLINE_LOAD:
		put_thread_move(build, 0x8b, to, THREAD_COUNTS + (uint32_t)op->value);
		break;
	case INLINE_LOAD_AT:
		put_load_at(build, to, from, op->size);
	}
}

/* A jump behind the unit, by condition code. */
void lower_jump_out(struct lowering *lowering, unsigned condition)
{
	struct build *build = lowering->build;

	if (lowering->jump_count == LOWER_JUMPS_MAX)
		engine_die("a tool inserts more conditions than there is room for");
	put8(build, 0x0f);
	put8(build, 0x80 | condition);
	lowering->jumps[lowering->jump_count++] = build->at;
	put32(build, 0);
}

static void gate_put(struct lowering *lowering, int32_t tool)
{
	static const uint8_t compare[] = { 0x65, 0x83, 0x3c, 0x25 }; /* cmpl $0, %gs:gate */
	static const uint8_t load[] = { 0x65, 0x8b, 0x0c, 0x25 }; /* mov %gs:gate, %ecx */
	static const uint8_t test[] = { 0xe3, 5, 0xe9 }; /* jrcxz over the jump; jmp */
	uint32_t gate = THREAD_GATES + (uint32_t)tool * 4;
	struct build *build = lowering->build;

	if (lowering->flags_free) {
		put_bytes(build, compare, sizeof(compare));
		put32(build, gate);
		put8(build, 0);
		lower_jump_out(lowering, 5); /* jne */
		return;
	}
	put_bytes(build, load, sizeof(load));
	put32(build, gate);
	put_bytes(build, test, sizeof(test));
	lowering->jumps[lowering->jump_count++] = build->at;
	put32(build, 0);
}

static void condition_put(struct lowering *lowering, const struct inline_op *op)
{
	/* The opposite: it jumps away. */
	static const uint8_t opposites[] = {
		[INLINE_EQUAL] = 5,
		[INLINE_DIFFERENT] = 4,
		[INLINE_BELOW] = 3,
		[INLINE_NOT_BELOW] = 2,
	};

	if (op->kind == INLINE_GATE) {
		gate_put(lowering, op->value);
	} else if (op->kind == INLINE_ONLY_IF) {
		put_group1(lowering->build, 7, lowering->registers[op->from], op->value);
		lower_jump_out(lowering, opposites[op->size]);
	} else if (op->kind == INLINE_TAKEN) {
		lower_flags_restore(lowering);
		lower_jump_out(lowering, op->size ^ 1u);
	}
}

/* addq $amount, %gs:counter; or the same with a register. */
static void count_put(struct lowering *lowering, uint32_t counter, uint32_t amount)
{
	static const uint8_t increment[] = { 0x65, 0x48, 0xff, 0x04, 0x25 };
	static const uint8_t add[] = { 0x65, 0x48, 0x81, 0x04, 0x25 };
	struct build *build = lowering->build;

	if (lowering->flags_free) {
		put_bytes(build, amount == 1 ? increment : add, sizeof(add));
		put32(build, counter);
		if (amount != 1)
			put32(build, amount);
		return;
	}
	put_thread_move(build, 0x8b, lowering->scratch, counter);
	put_add(build, lowering->scratch, lowering->scratch, (int32_t)amount);
	put_thread_move(build, 0x89, lowering->scratch, counter);
}

/*
 * The engine calls the tool's function with all registers the program's, and goes on behind. What
 * was saved is in its slots still, and in the registers as well.
 */
void lower_call(struct lowering *lowering, const struct inline_op *op)
{
	struct build *build = lowering->build;
	unsigned reg = lowering->scratch;
	uint8_t *back;

	for (unsigned i = 0; i < op->size; i++)
		put_thread_move(build, 0x89, lowering->registers[i], THREAD_ARGUMENTS + 8 * i);
	put_number(build, reg, (uint64_t)op->to << 32 | (uint32_t)op->value);
	put_thread_move(build, 0x89, reg, THREAD_CALLED);
	lower_flags_restore(lowering);
	put8(build, 0x48 | (reg >= 8 ? 4 : 0));
	put8(build, 0x8d); /* lea back(%rip), %reg */
	put8(build, 0x05 | (reg & 7) << 3);
	back = build->at;
	put32(build, 0);
	put_thread_move(build, 0x89, reg, THREAD_NEXT);
	for (unsigned i = 0; i < 16; i++)
		if (lowering->saved >> i & 1 && !(i == RAX && lowering->flags_saved))
			put_thread_move(build, 0x8b, i, THREAD_SAVED + 8 * i);
	put_jump_thread(build, THREAD_ON_TOOL);
	fix32(build, back, (uint64_t)(build->at - (back + 4)));
}

static void effect_put(struct lowering *lowering, const struct inline_op *op)
{
	static const uint8_t mark[] = { 0x65, 0xc6, 0x04, 0x25 }; /* movb $1, %gs:... */
	struct build *build = lowering->build;

	switch (op->kind) {
	case INLINE_COUNT:
		count_put(lowering, THREAD_COUNTS + (uint32_t)op->value,
			  (uint32_t)inline_amount(op));
		break;
	case INLINE_MARK:
		put_bytes(build, mark, sizeof(mark));
		put32(build, THREAD_COUNTS + (uint32_t)op->value);
		put8(build, 1);
		break;
	case INLINE_STORE:
		put_thread_move(build, 0x89, lowering->registers[op->from],
				THREAD_COUNTS + (uint32_t)op->value);
		break;
	case INLINE_KEEP:
		put_thread_move(build, 0x89, lowering->registers[op->from],
				THREAD_ADDRESSES + 8 * (uint32_t)op->value);
		break;
	case INLINE_STORE_AT:
		put_store_at(build, lowering->registers[op->to], lowering->registers[op->from],
			     op->size);
		break;
	case INLINE_CALL:
		lower_call(lowering, op);
		break;
	case INLINE_CHARGE:
		lower_charge(lowering, op);
		break;
	case INLINE_ENTER:
		lower_enter(lowering, op);
		break;
	case INLINE_LEAVE:
		lower_leave(lowering, op);
		break;
	case INLINE_TIMER_BEGIN:
		lower_timer_begin(lowering, op);
		break;
	case INLINE_TIMER_END:
		lower_timer_end(lowering, op);
		break;
	case INLINE_TOUCH:
		lower_touch(lowering, op);
	}
}

/* A unit whose condition did not hold has happened as well. */
static void unit_end(struct lowering *lowering)
{
	struct build *build = lowering->build;

	if (lowering->place->happened)
		lowering->place->happened->units++;
	else
		build->told++;
	lower_here(lowering);
	for (unsigned i = 0; i < lowering->jump_count; i++)
		fix32(build, lowering->jumps[i], (uint64_t)(build->at - (lowering->jumps[i] + 4)));
	lowering->jump_count = 0;
}

void inserted_put(struct build *build, const struct inserted *list, const struct place *place)
{
	struct lowering lowering = {
		.build = build, .place = place, .list = list, .scratch = NO_REGISTER
	};

	if (place->happened)
		*place->happened = (struct happened){ .list = list };
	lower_here(&lowering);
	list_begin(&lowering);
	lowering.touched = lowering.kinds & ~(1u << INLINE_TOUCH);
	for (unsigned i = 0; i < list->count; i++) {
		const struct inline_op *op = &list->ops[i];

		value_put(&lowering, op);
		condition_put(&lowering, op);
		if (!inline_is_end(op))
			continue;
		effect_put(&lowering, op);
		unit_end(&lowering);
	}
	registers_restore(&lowering);
	lowering.saved = 0;
	lowering.flags_saved = false;
	lower_here(&lowering);
}

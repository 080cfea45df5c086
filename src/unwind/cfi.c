// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs the call frame programs of .eh_frame and turns what they say into rows of wire/unwind.h.
 *
 * Theory of operation: a program is a list of changes to rules, with steps of the pc in between.
 * The machine here keeps the rules of five things only: the cfa, the caller's rbx, rbp, rsp and
 * return address. At each step of the pc, if one of the five has changed, the rules are matched
 * against the kinds of row there are. Every other register's rule is read and dropped.
 *
 * Invariants:
 * 1. A row that is not HARD computes exactly what the rules say, for every state of the registers
 *    and the stack. What cannot be had exactly is HARD, so that a walk stops, counted, and never
 *    goes astray; rbx, which hardly any caller needs, is marked as lost instead.
 * 2. A program that is truncated or invalid is HARD from there to the end of its range.
 * 3. Rows come out with rising pcs below the given end; work is linear in the size of the program.
 */
#include "unwind/ehframe.h"

enum {
	WORD = 8,
	REGISTER_RBX = 3,
	REGISTER_RBP = 6,
	REGISTER_RSP = 7,
	REGISTER_COUNT = 16,
	REMEMBER_MAX = 16, /* compilers nest one deep */
	DEREF_ADDEND_BITS = 3,
};

/* DWARF 5, 7.24, and the GNU extensions. The first three carry an operand in the low six bits. */
enum {
	CFA_ADVANCE_LOC = 0x40,
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_PRIMARY = 0xc0,
	CFA_NOP = 0x00,
	CFA_SET_LOC = 0x01,
	CFA_ADVANCE_LOC1 = 0x02,
	CFA_ADVANCE_LOC2 = 0x03,
	CFA_ADVANCE_LOC4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_RESTORE_EXTENDED = 0x06,
	CFA_UNDEFINED = 0x07,
	CFA_SAME_VALUE = 0x08,
	CFA_REGISTER = 0x09,
	CFA_REMEMBER_STATE = 0x0a,
	CFA_RESTORE_STATE = 0x0b,
	CFA_DEF_CFA = 0x0c,
	CFA_DEF_CFA_REGISTER = 0x0d,
	CFA_DEF_CFA_OFFSET = 0x0e,
	CFA_DEF_CFA_EXPRESSION = 0x0f,
	CFA_EXPRESSION = 0x10,
	CFA_OFFSET_EXTENDED_SF = 0x11,
	CFA_DEF_CFA_SF = 0x12,
	CFA_DEF_CFA_OFFSET_SF = 0x13,
	CFA_VAL_OFFSET = 0x14,
	CFA_VAL_OFFSET_SF = 0x15,
	CFA_VAL_EXPRESSION = 0x16,
	CFA_MIPS_ADVANCE_LOC8 = 0x1d,
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

enum {
	OP_DEREF = 0x06,
	OP_AND = 0x1a,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_GE = 0x2a,
	OP_LIT0 = 0x30,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
};

struct machine {
	const struct ehframe *frame;
	const struct cfi_cie *cie;
	struct cfi_state state;
	bool changed; /* since the last row */
	bool stepping; /* false in a CIE's program, which covers no pcs */
	bool done; /* the pc has reached the end */
	uint64_t pc, end; /* offsets from base */
	struct unwind_rows *out;
	size_t depth;
	struct cfi_state remembered[REMEMBER_MAX];
};

static const struct unwind_row row_hard = { .kind = UNWIND_HARD };

/* [register + offset], followed or not, plus a constant: the shape of nearly all expressions. */
struct term {
	uint8_t reg;
	bool load;
	int64_t offset;
	uint64_t addend;
};

static bool term_read(const struct ehframe *frame, const struct cfi_rule *rule, struct term *ret)
{
	struct cursor cursor;
	struct term term = {};
	uint8_t op;

	if (rule->kind != CFI_EXPRESSION)
		return false;
	cursor = cursor_of(frame, (uint64_t)rule->value, (uint64_t)rule->value + rule->size);
	op = cursor_u8(&cursor);
	if (op < OP_BREG0 || op > OP_BREG31)
		return false;
	term.reg = (uint8_t)(op - OP_BREG0);
	term.offset = cursor_sleb(&cursor);
	if (cursor_left(&cursor) && *cursor.at == OP_DEREF) {
		cursor_u8(&cursor);
		term.load = true;
	}
	if (cursor_left(&cursor) && *cursor.at == OP_PLUS_UCONST) {
		cursor_u8(&cursor);
		term.addend = cursor_uleb(&cursor);
	}
	if (cursor.bad || cursor_left(&cursor))
		return false;
	*ret = term;
	return true;
}

/* An expression that is just the address register + offset. */
static bool term_is_address(const struct ehframe *frame, const struct cfi_rule *rule, uint8_t reg,
			    int64_t *ret_offset)
{
	struct term term;

	if (!term_read(frame, rule, &term) || term.load || term.addend || term.reg != reg)
		return false;
	*ret_offset = term.offset;
	return true;
}

/* Bytes to words; false when they do not divide or are outside [low, high]. */
static bool words_fit(int64_t bytes, int low, int high, int *ret)
{
	if (bytes % WORD || bytes / WORD < low || bytes / WORD > high)
		return false;
	*ret = (int)(bytes / WORD);
	return true;
}

/* sp + 8 + ((ip & 15) >= n) << 3, as linkers write it for .plt. */
static bool row_plt(const struct ehframe *frame, const struct cfi_rule *cfa, struct unwind_row *ret)
{
	static const uint8_t shape[] = {
		OP_BREG0 + REGISTER_RSP,
		8,
		OP_BREG0 + 16,
		0,
		OP_LIT0 + 15,
		OP_AND,
		OP_LIT0,
		OP_GE,
		OP_LIT0 + 3,
		OP_SHL,
		OP_PLUS,
	};
	enum { THRESHOLD = 6 };
	const uint8_t *code = frame->bytes + cfa->value;

	if (cfa->size != sizeof(shape) || memcmp(code, shape, THRESHOLD) != 0 ||
	    memcmp(code + THRESHOLD + 1, shape + THRESHOLD + 1, sizeof(shape) - THRESHOLD - 1) !=
		    0 ||
	    code[THRESHOLD] < OP_LIT0 || code[THRESHOLD] > OP_LIT0 + 15)
		return false;
	*ret = (struct unwind_row){ .kind = UNWIND_PLT,
				    .cfa = (int16_t)(code[THRESHOLD] - OP_LIT0) };
	return true;
}

static bool row_deref(const struct term *term, struct unwind_row *ret)
{
	int offset, addend;

	if (!words_fit(term->offset, INT16_MIN >> DEREF_ADDEND_BITS, INT16_MAX >> DEREF_ADDEND_BITS,
		       &offset) ||
	    term->addend > INT16_MAX ||
	    !words_fit((int64_t)term->addend, 0, (1 << DEREF_ADDEND_BITS) - 1, &addend))
		return false;
	*ret = (struct unwind_row){
		.kind = UNWIND_DEREF,
		.cfa = (int16_t)(offset * (1 << DEREF_ADDEND_BITS) + addend),
	};
	return true;
}

/* cfa = reg + offset, bytes. */
static bool row_plain(unsigned int reg, int64_t offset, struct unwind_row *ret)
{
	int words;

	if (reg >= REGISTER_COUNT || !words_fit(offset, INT16_MIN, INT16_MAX, &words))
		return false;
	*ret = (struct unwind_row){ .kind = UNWIND_REG, .bp = (int8_t)reg, .cfa = (int16_t)words };
	if (reg == REGISTER_RSP)
		*ret = (struct unwind_row){ .kind = UNWIND_SP, .cfa = (int16_t)words };
	else if (reg == REGISTER_RBP)
		*ret = (struct unwind_row){ .kind = UNWIND_BP, .cfa = (int16_t)words };
	return true;
}

/* The saved bp is at the start of the frame that bp points to, whose cfa was stored beside it. */
static bool row_drap(const struct ehframe *frame, const struct cfi_state *state,
		     const struct term *term, struct unwind_row *ret)
{
	int64_t saved;
	int words;

	if (term->addend || !words_fit(term->offset, INT8_MIN, INT8_MAX, &words) ||
	    !term_is_address(frame, &state->slots[CFI_BP], REGISTER_RBP, &saved) || saved)
		return false;
	*ret = (struct unwind_row){ .kind = UNWIND_DRAP, .bp = (int8_t)words };
	return true;
}

static bool row_cfa(const struct ehframe *frame, const struct cfi_state *state,
		    struct unwind_row *ret)
{
	const struct cfi_rule *cfa = &state->slots[CFI_CFA];
	struct term term;

	if (cfa->kind == CFI_REGISTER)
		return row_plain(cfa->reg, cfa->value, ret);
	if (cfa->kind != CFI_EXPRESSION)
		return false;
	if (!term_read(frame, cfa, &term))
		return row_plt(frame, cfa, ret);
	if (!term.load)
		return term.addend == 0 && row_plain(term.reg, term.offset, ret);
	if (term.reg == REGISTER_RSP)
		return row_deref(&term, ret);
	return term.reg == REGISTER_RBP && row_drap(frame, state, &term, ret);
}

/* Where the caller's register was saved, as an offset from the cfa. */
static bool saved_offset(const struct ehframe *frame, const struct cfi_rule *rule,
			 const struct unwind_row *row, int64_t *ret)
{
	int64_t offset;
	uint8_t reg = row->kind == UNWIND_SP ? REGISTER_RSP : REGISTER_RBP;

	if (rule->kind == CFI_OFFSET) {
		*ret = rule->value;
		return true;
	}
	if (row->kind != UNWIND_SP && row->kind != UNWIND_BP)
		return false;
	if (!term_is_address(frame, rule, reg, &offset) ||
	    __builtin_sub_overflow(offset, (int64_t)row->cfa * WORD, ret))
		return false;
	return true;
}

static bool row_bp(const struct ehframe *frame, const struct cfi_rule *rule, struct unwind_row *row)
{
	bool shares = row->kind == UNWIND_REG || row->kind == UNWIND_LINK;
	int64_t offset;
	int words;

	if (row->kind == UNWIND_DRAP || rule->kind == CFI_UNSET || rule->kind == CFI_SAME)
		return true;
	if (!saved_offset(frame, rule, row, &offset) ||
	    !words_fit(offset, shares ? -15 : INT8_MIN, -1, &words))
		return false;
	row->bp = (int8_t)(shares ? row->bp | -words << 4 : words);
	return true;
}

static uint8_t row_rbx(const struct ehframe *frame, const struct cfi_rule *rule,
		       const struct unwind_row *row)
{
	int64_t offset;
	int words;

	if (rule->kind == CFI_UNSET || rule->kind == CFI_SAME)
		return 0;
	if (!saved_offset(frame, rule, row, &offset) ||
	    !words_fit(offset, 1 - UNWIND_RBX_LOST, -1, &words))
		return UNWIND_RBX_LOST;
	return (uint8_t)-words;
}

static bool signal_matches(const struct ehframe *frame, const struct cfi_state *state)
{
	struct term cfa;
	int64_t bx, bp, ip, sp;

	return term_read(frame, &state->slots[CFI_CFA], &cfa) && cfa.reg == REGISTER_RSP &&
	       cfa.load && cfa.offset == UCONTEXT_RSP && cfa.addend == 0 &&
	       term_is_address(frame, &state->slots[CFI_BX], REGISTER_RSP, &bx) &&
	       term_is_address(frame, &state->slots[CFI_BP], REGISTER_RSP, &bp) &&
	       term_is_address(frame, &state->slots[CFI_RA], REGISTER_RSP, &ip) &&
	       term_is_address(frame, &state->slots[CFI_SP], REGISTER_RSP, &sp) &&
	       bx == UCONTEXT_RBX && bp == UCONTEXT_RBP && ip == UCONTEXT_RIP && sp == UCONTEXT_RSP;
}

/* Where the return address is: at cfa - 8, or in a register while the cfa counts from rsp. */
static bool row_ra(const struct cfi_rule *ra, struct unwind_row *row)
{
	if (ra->kind == CFI_OFFSET)
		return ra->value == -WORD;
	if (ra->kind != CFI_REGISTER || ra->reg >= REGISTER_COUNT || row->kind != UNWIND_SP)
		return false;
	row->kind = UNWIND_LINK;
	row->bp = (int8_t)ra->reg;
	return true;
}

static bool sp_is_cfa(const struct cfi_rule *sp)
{
	return sp->kind == CFI_UNSET || (sp->kind == CFI_VAL_OFFSET && sp->value == 0);
}

static struct unwind_row state_row(const struct machine *machine)
{
	const struct cfi_state *state = &machine->state;
	const struct cfi_rule *ra = &state->slots[CFI_RA];
	struct unwind_row row;

	if (ra->kind == CFI_UNDEFINED)
		return (struct unwind_row){ .kind = UNWIND_END };
	if (machine->cie->signal)
		return signal_matches(machine->frame, state)
			       ? (struct unwind_row){ .kind = UNWIND_SIGNAL }
			       : row_hard;
	if (!sp_is_cfa(&state->slots[CFI_SP]) || !row_cfa(machine->frame, state, &row) ||
	    !row_ra(ra, &row) || !row_bp(machine->frame, &state->slots[CFI_BP], &row))
		return row_hard;
	row.rbx = row_rbx(machine->frame, &state->slots[CFI_BX], &row);
	return row;
}

static void row_flush(struct machine *machine)
{
	if (!machine->changed)
		return;
	unwind_rows_add(machine->out, (uint32_t)machine->pc, state_row(machine));
	machine->changed = false;
}

static bool pc_set(struct machine *machine, uint64_t pc)
{
	if (!machine->stepping || pc < machine->pc)
		return false;
	if (pc == machine->pc)
		return true;
	row_flush(machine);
	machine->pc = pc;
	machine->done = pc >= machine->end;
	return true;
}

static bool pc_advance(struct machine *machine, uint64_t delta)
{
	uint64_t pc;

	if (__builtin_mul_overflow(delta, machine->cie->code_align, &pc) ||
	    __builtin_add_overflow(pc, machine->pc, &pc))
		return false;
	return pc_set(machine, pc);
}

/* The rule's place, or NULL for a register that is not followed. */
static struct cfi_rule *rule_of(const struct cfi_cie *cie, struct cfi_state *state, uint64_t reg)
{
	if (reg == REGISTER_RBX)
		return &state->slots[CFI_BX];
	if (reg == REGISTER_RBP)
		return &state->slots[CFI_BP];
	if (reg == cie->ra_column)
		return &state->slots[CFI_RA];
	if (reg == REGISTER_RSP)
		return &state->slots[CFI_SP];
	return NULL;
}

static void rule_set(struct machine *machine, uint64_t reg, struct cfi_rule rule)
{
	struct cfi_rule *place = rule_of(machine->cie, &machine->state, reg);

	if (!place)
		return;
	*place = rule;
	machine->changed = true;
}

/* offset in units of the CIE's data alignment. */
static bool rule_set_scaled(struct machine *machine, uint64_t reg, enum cfi_rule_kind kind,
			    int64_t offset)
{
	struct cfi_rule rule = { .kind = (uint8_t)kind };

	if (__builtin_mul_overflow(offset, machine->cie->data_align, &rule.value))
		return false;
	rule_set(machine, reg, rule);
	return true;
}

static void rule_restore(struct machine *machine, uint64_t reg)
{
	struct cfi_state initial = machine->cie->initial;
	const struct cfi_rule *rule = rule_of(machine->cie, &initial, reg);

	if (rule)
		rule_set(machine, reg, *rule);
}

static struct cfi_rule expression_read(struct machine *machine, struct cursor *cursor,
				       enum cfi_rule_kind kind)
{
	uint64_t size = cursor_uleb(cursor);
	int64_t start = cursor->at - machine->frame->bytes;

	cursor_skip(cursor, size);
	return (struct cfi_rule){ .kind = (uint8_t)kind, .value = start, .size = (uint32_t)size };
}

static bool cfa_set(struct machine *machine, struct cfi_rule rule)
{
	machine->state.slots[CFI_CFA] = rule;
	machine->changed = true;
	return true;
}

static bool cfa_set_register(struct machine *machine, uint64_t reg, int64_t offset)
{
	return reg <= UINT16_MAX && cfa_set(machine, (struct cfi_rule){ .kind = CFI_REGISTER,
									.reg = (uint16_t)reg,
									.value = offset });
}

static bool cfa_set_offset(struct machine *machine, int64_t offset)
{
	struct cfi_rule *cfa = &machine->state.slots[CFI_CFA];

	return cfa->kind == CFI_REGISTER && cfa_set_register(machine, cfa->reg, offset);
}

static bool state_remember(struct machine *machine)
{
	if (machine->depth == REMEMBER_MAX)
		return false;
	machine->remembered[machine->depth++] = machine->state;
	return true;
}

static bool state_restore(struct machine *machine)
{
	if (machine->depth == 0)
		return false;
	machine->state = machine->remembered[--machine->depth];
	machine->changed = true;
	return true;
}

/* The instructions that define the cfa. */
static bool step_cfa(struct machine *machine, struct cursor *cursor, uint8_t op)
{
	const struct cfi_rule *cfa = &machine->state.slots[CFI_CFA];
	uint64_t reg;
	int64_t offset;

	switch (op) {
	case CFA_DEF_CFA:
		reg = cursor_uleb(cursor);
		return cfa_set_register(machine, reg, (int64_t)cursor_uleb(cursor));
	case CFA_DEF_CFA_SF:
		reg = cursor_uleb(cursor);
		return !__builtin_mul_overflow(cursor_sleb(cursor), machine->cie->data_align,
					       &offset) &&
		       cfa_set_register(machine, reg, offset);
	case CFA_DEF_CFA_REGISTER:
		reg = cursor_uleb(cursor);
		return cfa->kind == CFI_REGISTER && cfa_set_register(machine, reg, cfa->value);
	case CFA_DEF_CFA_OFFSET:
		return cfa_set_offset(machine, (int64_t)cursor_uleb(cursor));
	case CFA_DEF_CFA_OFFSET_SF:
		return !__builtin_mul_overflow(cursor_sleb(cursor), machine->cie->data_align,
					       &offset) &&
		       cfa_set_offset(machine, offset);
	case CFA_DEF_CFA_EXPRESSION:
		return cfa_set(machine, expression_read(machine, cursor, CFI_EXPRESSION));
	}
	return false;
}

/* The instructions whose first operand is the register they give a rule. */
static bool step_rule(struct machine *machine, struct cursor *cursor, uint8_t op)
{
	uint64_t reg = cursor_uleb(cursor);

	switch (op) {
	case CFA_OFFSET_EXTENDED:
		return rule_set_scaled(machine, reg, CFI_OFFSET, (int64_t)cursor_uleb(cursor));
	case CFA_OFFSET_EXTENDED_SF:
		return rule_set_scaled(machine, reg, CFI_OFFSET, cursor_sleb(cursor));
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		return rule_set_scaled(machine, reg, CFI_OFFSET,
				       (int64_t)(0 - cursor_uleb(cursor)));
	case CFA_VAL_OFFSET:
		return rule_set_scaled(machine, reg, CFI_VAL_OFFSET, (int64_t)cursor_uleb(cursor));
	case CFA_VAL_OFFSET_SF:
		return rule_set_scaled(machine, reg, CFI_VAL_OFFSET, cursor_sleb(cursor));
	case CFA_RESTORE_EXTENDED:
		rule_restore(machine, reg);
		return true;
	case CFA_UNDEFINED:
		rule_set(machine, reg, (struct cfi_rule){ .kind = CFI_UNDEFINED });
		return true;
	case CFA_SAME_VALUE:
		rule_set(machine, reg, (struct cfi_rule){ .kind = CFI_SAME });
		return true;
	case CFA_REGISTER:
		rule_set(machine, reg,
			 (struct cfi_rule){ .kind = CFI_REGISTER,
					    .reg = (uint16_t)cursor_uleb(cursor) });
		return true;
	case CFA_EXPRESSION:
		rule_set(machine, reg, expression_read(machine, cursor, CFI_EXPRESSION));
		return true;
	case CFA_VAL_EXPRESSION:
		rule_set(machine, reg, expression_read(machine, cursor, CFI_VAL_EXPRESSION));
		return true;
	}
	return false;
}

static bool step_extended(struct machine *machine, struct cursor *cursor, uint8_t op)
{
	switch (op) {
	case CFA_NOP:
		return true;
	case CFA_SET_LOC:
		return pc_set(machine,
			      cursor_pointer(cursor, machine->frame, machine->cie->encoding) -
				      machine->frame->base);
	case CFA_ADVANCE_LOC1:
		return pc_advance(machine, cursor_fixed(cursor, 1));
	case CFA_ADVANCE_LOC2:
		return pc_advance(machine, cursor_fixed(cursor, 2));
	case CFA_ADVANCE_LOC4:
		return pc_advance(machine, cursor_fixed(cursor, 4));
	case CFA_MIPS_ADVANCE_LOC8:
		return pc_advance(machine, cursor_fixed(cursor, 8));
	case CFA_REMEMBER_STATE:
		return state_remember(machine);
	case CFA_RESTORE_STATE:
		return state_restore(machine);
	case CFA_GNU_ARGS_SIZE:
		cursor_uleb(cursor);
		return true;
	case CFA_DEF_CFA:
	case CFA_DEF_CFA_SF:
	case CFA_DEF_CFA_REGISTER:
	case CFA_DEF_CFA_OFFSET:
	case CFA_DEF_CFA_OFFSET_SF:
	case CFA_DEF_CFA_EXPRESSION:
		return step_cfa(machine, cursor, op);
	}
	return step_rule(machine, cursor, op);
}

static bool machine_step(struct machine *machine, struct cursor *cursor)
{
	uint8_t byte = *cursor->at++;
	uint8_t operand = byte & (uint8_t)~CFA_PRIMARY;

	switch (byte & CFA_PRIMARY) {
	case CFA_ADVANCE_LOC:
		return pc_advance(machine, operand);
	case CFA_OFFSET:
		return rule_set_scaled(machine, operand, CFI_OFFSET, (int64_t)cursor_uleb(cursor));
	case CFA_RESTORE:
		rule_restore(machine, operand);
		return true;
	}
	return step_extended(machine, cursor, byte);
}

/* False when the program breaks off or makes no sense; the pc is then where that shows. */
static bool machine_run(struct machine *machine, uint32_t program, uint32_t program_end)
{
	struct cursor cursor = cursor_of(machine->frame, program, program_end);

	while (cursor.at < cursor.end && !machine->done)
		if (!machine_step(machine, &cursor) || cursor.bad)
			return false;
	return true;
}

bool cfi_cie_run(const struct ehframe *frame, struct cfi_cie *cie, uint32_t program,
		 uint32_t program_end)
{
	struct machine machine;

	machine.frame = frame;
	machine.cie = cie;
	machine.state = (struct cfi_state){};
	machine.stepping = machine.done = false;
	machine.pc = machine.depth = 0;
	if (!machine_run(&machine, program, program_end))
		return false;
	cie->initial = machine.state;
	return true;
}

void cfi_fde_run(const struct ehframe *frame, const struct cfi_cie *cie, const struct cfi_fde *fde,
		 uint32_t end, struct unwind_rows *out)
{
	struct machine machine; /* field by field: the remembered states need no clearing */
	bool good;

	machine.frame = frame;
	machine.cie = cie;
	machine.state = cie->initial;
	machine.changed = machine.stepping = true;
	machine.done = false;
	machine.pc = fde->start;
	machine.end = end;
	machine.out = out;
	machine.depth = 0;
	good = cie->readable && machine_run(&machine, fde->program, fde->program_end);
	if (machine.done)
		return;
	if (good)
		row_flush(&machine);
	else
		unwind_rows_add(out, (uint32_t)machine.pc, row_hard);
}

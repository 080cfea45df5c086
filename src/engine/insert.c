// SPDX-License-Identifier: BSD-2-Clause
/*
 * Operations that tools insert at instructions: collects them from the tools, keeps them with the
 * fragment, and completes or undoes them when a thread is interrupted.
 *
 *	in	an instruction and the points it has; the tools in use
 *	out	lists of operations at these points, lowered to machine code
 *	owner	the fragment keeps the lists for as long as it lives
 *
 * When a fragment is made, every tool that has a function for a point adds its operations to the
 * list of that point. An instruction has up to three lists: in front of it, in front of a transfer
 * when its target is known, and behind it. The lists of a fragment are kept, in order, with the
 * registers and flags that were dead at each. Translating back puts them again from there, because
 * a tool may answer differently the second time.
 *
 * Invariants
 * 1. Lists are taken in the order in which they were kept. Each says to which instruction and point
 *    it belongs.
 * 2. A fragment ends before it has more lists or code than there is room for: behind a block if
 *    that is possible.
 */
#include "engine/build.h"
#include "engine/sys.h"

enum {
	LISTS_BYTES = 20480, /* of a fragment, before the lists of its last instruction */
	LISTS_ENOUGH = 8192, /* it does not go on with another block */
	LISTS_INSTRUCTION =
		3 * (sizeof(struct inserted) + INSERT_OPS_MAX * sizeof(struct inline_op)),
	CODE_BYTES = 22528, /* of a fragment, before its last instruction */
	CODE_ENOUGH = 12288,
	NO_ORDINAL = 0xffff, /* behind the last list */
	INSTRUCTION_BYTES = 15,
};

static _Alignas(8) uint8_t lists[LISTS_BYTES + LISTS_INSTRUCTION + sizeof(struct inserted)];
static struct insert after_list; /* of the instruction in hand */

bool tools_insert(void)
{
	return tools_offer.block || tools_offer.before || tools_offer.access || tools_offer.call ||
	       tools_offer.back || tools_offer.branch || tools_offer.after;
}

void insert_start(struct build *build)
{
	build->inserted_at = lists;
	build->inserts = tools_insert();
}

static size_t lists_size(const struct build *build)
{
	if (!build->back)
		return (size_t)(build->inserted_at - lists);
	return (size_t)((const uint8_t *)build->next_inserted -
			(const uint8_t *)build->fragment->inserted);
}

bool insert_is_full(const struct build *build)
{
	size_t size = lists_size(build);

	return size > LISTS_BYTES || (size && build->at - build->fragment->body > CODE_BYTES);
}

bool insert_is_enough(const struct build *build)
{
	size_t size = lists_size(build);

	return size > LISTS_ENOUGH || (size && build->at - build->fragment->body > CODE_ENOUGH);
}

void insert_finish(struct build *build, struct fragment *fragment)
{
	size_t size = (size_t)(build->inserted_at - lists);
	uint8_t *kept;

	if (!size)
		return;
	*(struct inserted *)build->inserted_at = (struct inserted){ .ordinal = NO_ORDINAL };
	size += sizeof(struct inserted);
	kept = cache_notes(size);
	for (size_t i = 0; i < size; i++)
		kept[i] = lists[i];
	fragment->inserted = (const struct inserted *)kept;
}

static const struct inserted *list_behind(const struct inserted *list)
{
	return (const struct inserted *)(list->ops + list->count);
}

/* --- Points ------------------------------------------------------------------------------ */

#define ASK(function, list, point)                                                                 \
	do {                                                                                       \
		for (const struct tool *const *tool = tools_in_use(); *tool; tool++)               \
			if ((*tool)->function)                                                     \
				(*tool)->function(list, point);                                    \
	} while (0)

static void accesses_ask(struct insert *list, struct point *point)
{
	unsigned number = 0;

	for (unsigned i = 0; i < point->insn->operand_count; i++) {
		const ZydisDecodedOperand *operand = &point->operands[i];

		if (!insert_is_access(point->insn, operand))
			continue;
		point->access = (struct access){
			.operand = (uint8_t)number++,
			.read = operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ,
			.write = operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE,
			.repeated = point->insn->attributes &
				    (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE |
				     ZYDIS_ATTRIB_HAS_REPNE),
			.based = operand->mem.segment == ZYDIS_REGISTER_FS ||
				 operand->mem.segment == ZYDIS_REGISTER_GS,
			.size = operand->size / 8,
		};
		ASK(access, list, point);
	}
}

/*
 * Operations behind the instruction that want an address find it where it is kept in front of it.
 */
static void addresses_keep(struct insert *before, const struct insert *after)
{
	for (unsigned number = 0; number < 2; number++) {
		bool wanted = false;

		for (unsigned i = 0; i < after->count; i++)
			wanted |= after->ops[i].kind == INLINE_ADDRESS &&
				  after->ops[i].value == (int32_t)number;
		if (!wanted || before->count + 2 > INSERT_OPS_MAX)
			continue;
		inline_address(before, INLINE_A, number);
		before->ops[before->count++] =
			(struct inline_op){ .kind = INLINE_KEEP, .value = (int32_t)number };
	}
}

/* Fills in the target of a direct call. */
static void target_fill(struct insert *list, uint64_t target)
{
	struct insert from = *list;

	list->count = 0;
	for (unsigned i = 0; i < from.count; i++)
		if (from.ops[i].kind == INLINE_TARGET)
			inline_const(list, (enum inline_register)from.ops[i].to, target);
		else if (list->count < INSERT_OPS_MAX)
			list->ops[list->count++] = from.ops[i];
}

static bool ends_block(const ZydisDecodedInstruction *insn)
{
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_INTERRUPT:
		return true;
	default:
		return false;
	}
}

static void instruction_ask(const struct build *build, struct insert *before, struct insert *after)
{
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	struct point point = {
		.pc = build->pc,
		.insn = &insn,
		.operands = operands,
		.segment = build->first_segment ? build->first_segment + build->block : 0,
		.block = build->block,
	};
	bool is_call;

	if (!instruction_decode_full(build->code, build->insn.length, &insn, operands))
		return;
	is_call = insn.meta.category == ZYDIS_CATEGORY_CALL && insn.raw.imm[0].is_relative;
	if (!build->block_instructions)
		ASK(block, before, &point);
	ASK(before, before, &point);
	if (tools_offer.access)
		accesses_ask(before, &point);
	if (is_call) {
		point.target = build->pc + insn.length + (uint64_t)insn.raw.imm[0].value.s;
		ASK(call, before, &point);
		target_fill(before, point.target);
	}
	if (!ends_block(&insn))
		ASK(after, after, &point);
	addresses_keep(before, after);
}

/* --- Lists ------------------------------------------------------------------------------- */

static const struct inserted *list_keep(struct build *build, const struct insert *from,
					enum insert_point point, uint64_t pc)
{
	struct inserted *list = (struct inserted *)build->inserted_at;
	struct dead dead;

	if (!from->count)
		return NULL;
	dead_all_at(pc, &dead);
	*list = (struct inserted){
		.dead = (uint16_t)dead.registers,
		.flags_dead = dead.flags,
		.count = (uint8_t)from->count,
		.ordinal = (uint16_t)build->ordinal,
		.point = (uint8_t)point,
	};
	for (unsigned i = 0; i < from->count; i++)
		list->ops[i] = from->ops[i];
	build->inserted_at = (uint8_t *)list_behind(list);
	return list;
}

/* Translating back: the list that was kept for the point; NULL: there is none. */
static const struct inserted *list_next(struct build *build, enum insert_point point)
{
	const struct inserted *list = build->next_inserted;

	if (!list || list->ordinal != build->ordinal || list->point != point)
		return NULL;
	build->next_inserted = list_behind(list);
	return list;
}

static const struct inserted *before_make(struct build *build)
{
	struct insert before = {};

	instruction_ask(build, &before, &after_list);
	return list_keep(build, &before, POINT_BEFORE, build->pc);
}

void insert_before(struct build *build)
{
	const struct place place = { build->pc, 0, &build->before[0] };
	const struct inserted *list = NULL;

	after_list.count = 0;
	if (build->back)
		list = list_next(build, POINT_BEFORE);
	else if (build->inserts)
		list = before_make(build);
	if (list)
		inserted_put(build, list, &place);
}

void insert_after(struct build *build)
{
	uint64_t next = build->pc + build->insn.length;
	const struct place place = { next, 0, &build->after };
	const struct inserted *list;

	if (!build->back && !after_list.count)
		return;
	list = build->back ? list_next(build, POINT_AFTER)
			   : list_keep(build, &after_list, POINT_AFTER, next);

	if (list)
		inserted_put(build, list, &place);
	build->after = (struct happened){};
}

bool insert_wants_transfer(const ZydisDecodedInstruction *insn)
{
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_CALL:
		return tools_offer.call;
	case ZYDIS_CATEGORY_RET:
		return tools_offer.back;
	default:
		return tools_offer.branch;
	}
}

static void transfer_ask(const struct build *build, struct insert *ret)
{
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	struct point point = { .pc = build->pc, .insn = &insn, .operands = operands };

	if (!instruction_decode_full(build->code, build->insn.length, &insn, operands))
		return;
	switch (insn.meta.category) {
	case ZYDIS_CATEGORY_CALL:
		ASK(call, ret, &point);
		break;
	case ZYDIS_CATEGORY_RET:
		ASK(back, ret, &point);
		break;
	default:
		ASK(branch, ret, &point);
	}
}

/* Nothing is known about the code at the target. */
static const struct inserted *transfer_make(struct build *build)
{
	struct insert insert = {};

	transfer_ask(build, &insert);
	return list_keep(build, &insert, POINT_TRANSFER, 0);
}

void insert_transfer(struct build *build)
{
	const struct place place = { build->pc, STATE_SPILLED, &build->before[1] };
	const struct inserted *list = NULL;

	if (build->back)
		list = list_next(build, POINT_TRANSFER);
	else if (insert_wants_transfer(&build->insn))
		list = transfer_make(build);
	if (list)
		inserted_put(build, list, &place);
}

/* --- Interruptions ----------------------------------------------------------------------- */

struct operands {
	const struct build *build;
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand items[ZYDIS_MAX_OPERAND_COUNT];
	bool known;
};

static long operands_find(void *context, void *unused)
{
	struct operands *operands = context;
	struct build build = *operands->build;
	uint8_t code[INSTRUCTION_BYTES];

	build.pc = build.state_pc;
	build.block = build.state_block;
	operands->known = instruction_decode_full(code, code_copy(&build, code, sizeof(code)),
						  &operands->insn, operands->items);
	return 0;
}

static uint64_t register_value(const struct thread *thread, ZydisRegister reg)
{
	int number = register_number(reg);

	return number < 0 ? 0 : thread->regs[number];
}

static uint64_t segment_base(const struct thread *thread, ZydisRegister segment)
{
	uint64_t base = 0;

	if (segment == ZYDIS_REGISTER_FS)
		__asm__ volatile("rdfsbase %0" : "=r"(base));
	return segment == ZYDIS_REGISTER_GS ? thread->gs : base;
}

static uint64_t address_of(const struct thread *thread, const struct operands *operands,
			   const ZydisDecodedOperand *operand)
{
	uint64_t address = (uint64_t)operand->mem.disp.value +
			   register_value(thread, operand->mem.index) * operand->mem.scale;

	if (operand->mem.base == ZYDIS_REGISTER_RIP || operand->mem.base == ZYDIS_REGISTER_EIP)
		address += thread->pc + operands->insn.length;
	else
		address += register_value(thread, operand->mem.base);
	if (operands->insn.address_width == 32)
		address = (uint32_t)address;
	if (insert_is_pushed(&operands->insn, operand))
		address -= operand->size / 8;
	return address + segment_base(thread, operand->mem.segment);
}

static bool wants_address(const struct inserted *list)
{
	for (unsigned i = 0; i < list->count; i++)
		if (list->ops[i].kind == INLINE_ADDRESS || list->ops[i].kind == INLINE_TOUCH)
			return true;
	return false;
}

static void addresses_find(const struct thread *thread, const struct build *build,
			   struct inline_values *ret)
{
	struct operands operands = { .build = build };
	unsigned number = 0;

	guarded_call(operands_find, &operands, NULL);
	for (unsigned i = 0; operands.known && i < operands.insn.operand_count && number < 2; i++)
		if (insert_is_access(&operands.insn, &operands.items[i]))
			ret->addresses[number++] =
				address_of(thread, &operands, &operands.items[i]);
}

void insert_settle(struct thread *thread, const struct build *build, uint64_t target)
{
	struct inline_values values = { .target = target };
	const struct happened *after = &build->state_after;

	for (unsigned i = 0; i < INSERTED_BEFORE; i++) {
		const struct happened *before = &build->state_before[i];

		if (!before->list || !before->units)
			continue;
		if (wants_address(before->list))
			addresses_find(thread, build, &values);
		inline_undo(thread, before->list->ops, before->list->count, before->units, &values);
	}
	if (!after->list)
		return;
	for (unsigned i = 0; i < 2; i++)
		values.addresses[i] = thread->addresses[i];
	inline_do(thread, after->list->ops, after->list->count, after->units, &values);
}

void insert_of_last(const struct fragment *fragment, struct insert *ret)
{
	unsigned instructions = 0;

	ret->count = 0;
	for (unsigned i = 0; i < fragment->block_count; i++)
		instructions += fragment->blocks[i].instructions;
	for (const struct inserted *list = fragment->inserted; list && list->ordinal != NO_ORDINAL;
	     list = list_behind(list)) {
		if (list->ordinal + 1u != instructions || list->point != POINT_BEFORE)
			continue;
		ret->count = list->count;
		for (unsigned i = 0; i < list->count; i++)
			ret->ops[i] = list->ops[i];
	}
}

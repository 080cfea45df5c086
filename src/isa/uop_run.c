// SPDX-License-Identifier: BSD-2-Clause
/*
 * The host's executor.
 *
 * Blocks are translated when they are first needed and found by their address in the module. Each
 * time one is entered its code is compared with what is there now; a block whose code changed is
 * translated anew. The overlay is a short list of words, searched from its end: runs are short.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "isa/lift.h"
#include "isa/uop_run.h"

#define UOP_CONTEXT struct uop_machine *
#define UOP_LOAD machine_load
#define UOP_STORE machine_store
#define UOP_POISON machine_poison

static int machine_load(struct uop_machine *machine, uint64_t address, unsigned size,
			wire_u64 *ret);
static int machine_store(struct uop_machine *machine, uint64_t address, unsigned size,
			 uint64_t value, bool unknown);
static int machine_poison(struct uop_machine *machine, uint64_t address, unsigned size);

#include "isa/uop_exec.h"

static struct uop_word *overlay_find(struct uop_machine *machine, uint64_t address)
{
	for (size_t i = machine->overlay_count; i > 0; i--)
		if (machine->overlay[i - 1].address == address)
			return &machine->overlay[i - 1];
	return NULL;
}

static int machine_load(struct uop_machine *machine, uint64_t address, unsigned size, wire_u64 *ret)
{
	uint8_t bytes[8] = { 0 };
	size_t readable = machine->read(machine->context, address, bytes, size);
	int how = 0;

	for (unsigned i = 0; i < size; i++) {
		const struct uop_word *word = overlay_find(machine, (address + i) & ~7ull);
		unsigned at = (address + i) & 7;

		if (word && word->present >> at & 1) {
			bytes[i] = word->data >> at * 8;
			if (word->unknown >> at & 1 && !how)
				how = UOP_LOAD_UNKNOWN;
		} else if (i >= readable) {
			how = UOP_LOAD_MISSING;
		}
	}
	memcpy(ret, bytes, sizeof(bytes));
	return how;
}

static int overlay_put(struct uop_machine *machine, uint64_t address, uint8_t value, bool unknown)
{
	struct uop_word *word = overlay_find(machine, address & ~7ull);
	unsigned at = address & 7;

	if (!word) {
		if (machine->overlay_count == UOP_OVERLAY_WORDS)
			return UOP_END_OVERLAY_FULL;
		word = &machine->overlay[machine->overlay_count++];
		*word = (struct uop_word){ .address = address & ~7ull };
	}
	word->present |= 1 << at;
	word->unknown = (word->unknown & ~(1 << at)) | unknown << at;
	word->data = (word->data & ~(0xffull << at * 8)) | (uint64_t)value << at * 8;
	return 0;
}

static int machine_store(struct uop_machine *machine, uint64_t address, unsigned size,
			 uint64_t value, bool unknown)
{
	for (unsigned i = 0; i < size; i++) {
		int end = overlay_put(machine, address + i, value >> i * 8, unknown);

		if (end)
			return end;
	}
	if (machine->store_count == UOP_STORES_MAX)
		return UOP_END_OVERLAY_FULL;
	machine->stores[machine->store_count++] = (struct uop_stored){
		.address = address, .value = value, .size = size, .unknown = unknown
	};
	return 0;
}

static int machine_poison(struct uop_machine *machine, uint64_t address, unsigned size)
{
	for (unsigned i = 0; i < size; i++) {
		int end = overlay_put(machine, address + i, 0, true);

		if (end)
			return end;
	}
	return 0;
}

struct uop_machine *uop_machine_create(uop_read_fn *read, void *context)
{
	struct uop_machine *machine = mem_zalloc(sizeof(*machine));

	machine->read = read;
	machine->context = context;
	return machine;
}

void uop_machine_destroy(struct uop_machine *machine)
{
	if (!machine)
		return;
	for (size_t i = 0; i < machine->block_count; i++)
		free(machine->blocks[i]);
	free(machine->blocks);
	map_deinit(&machine->block_index);
	free(machine);
}

void uop_machine_start(struct uop_machine *machine, uint64_t pc, uint64_t rflags)
{
	machine->state =
		(struct uop_state){ .pc = pc, .flags = rflags, .flags_known = UOP_TRACKED };
	machine->state.regs[UOP_BIAS] = machine->bias;
	uop_vectors_forget(machine->state.unknown);
	machine->instructions = 0;
	machine->give_up_pc = 0;
	machine->give_up_mnemonic = 0;
	machine->store_count = 0;
	machine->overlay_count = 0;
	machine->block = NULL;
}

static struct uop_block *block_at(struct uop_machine *machine, uint64_t pc, bool *ret_new)
{
	uint64_t *position = map_at(&machine->block_index, pc, ret_new);

	if (!*ret_new)
		return machine->blocks[*position];
	if (machine->block_count == machine->block_capacity) {
		machine->block_capacity = machine->block_capacity * 2 + 64;
		machine->blocks = mem_realloc(machine->blocks, machine->block_capacity,
					      sizeof(*machine->blocks));
	}
	*position = machine->block_count++;
	return machine->blocks[*position] = mem_alloc(sizeof(struct uop_block));
}

/*
 * Finds or translates the block at the machine's pc. Code comes from memory, never from the
 * overlay.
 */
static void block_enter(struct uop_machine *machine)
{
	uint8_t code[UOP_CODE_MAX + 16];
	uint64_t pc = machine->state.pc, module_pc = pc - machine->state.regs[UOP_BIAS];
	size_t size = machine->read(machine->context, pc, code, sizeof(code));
	bool is_new;
	struct uop_block *block = block_at(machine, module_pc, &is_new);

	if (is_new || size < block->length || !block->length ||
	    memcmp(block->code, code, block->length) != 0)
		lift_block(code, size, module_pc, block);
	machine->block = block;
	machine->state.next = 0;
}

static enum uop_end give_up(struct uop_machine *machine, const struct uop *uop, enum uop_end end)
{
	machine->give_up_pc = machine->state.regs[UOP_BIAS] + machine->block->pc + uop->at;
	machine->give_up_mnemonic = uop->op == UOP_OP_GIVE_UP ? UOP_GIVE_UP_MNEMONIC(uop->imm) : 0;
	machine->state.pc = machine->give_up_pc;
	return end;
}

enum uop_end uop_machine_next(struct uop_machine *machine)
{
	struct uop_state *state = &machine->state;
	const struct uop_block *block;
	const struct uop *uop;
	unsigned at;

	if (!machine->block)
		block_enter(machine);
	block = machine->block;
	at = block->uops[state->next].at;
	machine->store_count = 0;
	do {
		int end;

		uop = &block->uops[state->next];
		end = uop_step(state, uop, machine);
		if (end > 0)
			return give_up(machine, uop, end);
		if (end == UOP_LEFT) {
			machine->block = NULL;
			break;
		}
		if (state->next >= block->count)
			return give_up(machine, uop, UOP_END_BAD_BLOCK);
		state->pc = state->regs[UOP_BIAS] + block->pc + block->uops[state->next].at;
	} while (block->uops[state->next].at == at);
	machine->instructions++;
	return UOP_END_NONE;
}

int uop_machine_peek(struct uop_machine *machine, uint64_t address, unsigned size, uint64_t *ret)
{
	wire_u64 value = 0;
	int how = machine_load(machine, address, size, &value);

	*ret = value;
	return how;
}

void uop_machine_flags(struct uop_machine *machine, uint32_t *ret_flags, uint32_t *ret_known)
{
	uop_flags_settle(&machine->state);
	*ret_flags = machine->state.flags;
	*ret_known = machine->state.flags_known;
}

const char *uop_end_text(enum uop_end end)
{
	static const char *const texts[] = {
#define X(name, json, text) [UOP_END_##name] = text,
		UOP_ENDS(X)
#undef X
	};

	return end < UOP_END_COUNT ? texts[end] : "unknown";
}

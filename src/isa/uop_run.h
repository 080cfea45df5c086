/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's executor: runs code from a register state without touching it. Memory is read through
 * a callback, what the code stores goes to an overlay.
 *
 *	struct uop_machine *machine = uop_machine_create(read_fn, context);
 *	machine->bias = run-time address - address in the module, if not 0
 *	uop_machine_start(machine, pc, rflags);	and set machine->state.regs
 *	while (uop_machine_next(machine) == UOP_END_NONE)
 *		look at machine->state, machine->stores
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "wire/uop.h"

/* Copies size bytes at address; how many were readable from its start on. */
typedef size_t uop_read_fn(void *context, uint64_t address, void *ret, size_t size);

enum {
	UOP_OVERLAY_WORDS = 1024,
	UOP_STORES_MAX = 3 * UOP_AGAIN_MAX, /* by one instruction */
};

/* Eight aligned bytes of memory as the run sees them. */
struct uop_word {
	uint64_t address;
	uint64_t data;
	uint8_t present; /* bit per byte: stored by the run */
	uint8_t unknown; /* bit per byte: stored, but the value is not known */
};

/* What one micro-operation stored. */
struct uop_stored {
	uint64_t address;
	uint64_t value;
	uint8_t size;
	bool unknown;
};

struct uop_machine {
	struct uop_state state; /* pc is that of the next instruction */
	uint64_t bias; /* of the code; the caller's, valid from the next start on */
	uint64_t instructions; /* run since the start */
	uint64_t give_up_pc; /* of the instruction that ended the run */
	unsigned give_up_mnemonic; /* 0 where the lifter did not say */
	struct uop_stored stores[UOP_STORES_MAX]; /* by the last instruction */
	size_t store_count;
	/* Private. */
	struct uop_word overlay[UOP_OVERLAY_WORDS];
	size_t overlay_count;
	uop_read_fn *read;
	void *context;
	struct map block_index; /* pc in the module to position in blocks */
	struct uop_block **blocks;
	size_t block_count;
	size_t block_capacity;
	const struct uop_block *block; /* being run, or NULL */
};

struct uop_machine *uop_machine_create(uop_read_fn *read, void *context);
void uop_machine_destroy(struct uop_machine *machine);

/*
 * Begins a run: vector registers are unknown, other registers 0 and known, the overlay is empty.
 * Translated blocks are kept.
 */
void uop_machine_start(struct uop_machine *machine, uint64_t pc, uint64_t rflags);

/* Runs one instruction: UOP_END_NONE, or why it could not. */
enum uop_end uop_machine_next(struct uop_machine *machine);

/* Memory as the run sees it: 0, or UOP_LOAD_UNKNOWN or UOP_LOAD_MISSING of isa/uop_exec.h. */
int uop_machine_peek(struct uop_machine *machine, uint64_t address, unsigned size, uint64_t *ret);

/* All flags now, and which of them are known. */
void uop_machine_flags(struct uop_machine *machine, uint32_t *ret_flags, uint32_t *ret_known);

const char *uop_end_text(enum uop_end end);

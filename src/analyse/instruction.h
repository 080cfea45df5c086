/* SPDX-License-Identifier: BSD-2-Clause */
/* What views say about instructions: their text, and what the values captured at them are values of. */
#pragma once

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/capture.h"
#include "store/profile.h"

struct instruction {
	ZydisDecodedInstruction decoded;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	uint64_t address;
	uint8_t byte; /* the first */
	bool valid; /* otherwise the bytes are no instruction, and the length is 1 */
};

/* Of the code at address; size at least 1. */
void instruction_decode(const uint8_t *code, size_t size, uint64_t address,
			struct instruction *ret);
/* At least 1. */
size_t instruction_length(const struct instruction *instruction);

/* The register that holds the value of the source, "eax"; NULL: it is in none. */
const char *instruction_register(const struct instruction *instruction, enum capture_source source);
/* Whether the value of the source is in memory, before or after the instruction. */
bool instruction_is_memory(const struct instruction *instruction, enum capture_source source);
/* Whether the value of the source is a floating-point number, and of how many bits: 32, 64, 0 no. */
unsigned instruction_float_width(const struct instruction *instruction, enum capture_source source);
/* Whether the value of the source is a byte, perhaps a character, even if it was captured wider. */
bool instruction_is_byte(const struct instruction *instruction, enum capture_source source);
/*
 * Whether the instruction's text already says what the value is, or the value is the stack's business: constants, the
 * addresses of objects and of the stack, saved registers, return addresses.
 */
bool instruction_is_trivial(const struct instruction *instruction, enum capture_source source);
/* Whether what follows it in memory is not what runs next, or only after something else has run. */
bool instruction_leaves(const struct instruction *instruction);
bool instruction_is_nop(const struct instruction *instruction);

struct disassembler {
	const struct profile *profile;
	ZydisFormatter formatter;
	struct entry_name *names; /* of call targets, sorted; NULL until the first is wanted */
	size_t name_count;
};

void disassembler_init(struct disassembler *disassembler, const struct profile *profile, bool att);
void disassembler_deinit(struct disassembler *disassembler);
/* The instruction of a module, with the name of the function that it calls or jumps to; the caller's to free. */
char *disassembler_text(struct disassembler *disassembler, uint32_t module,
			const struct instruction *instruction);

/* Gives the code of a symbol from its address on, at least one byte; *ret is the caller's to free. -ENOENT: none. */
typedef int (*code_fn)(void *ctx, uint32_t symbol, void **ret, size_t *ret_size);

struct code_source {
	code_fn get; /* NULL: no code at all */
	void *ctx;
};

/* The code of functions, asked for once each. */
struct code_cache {
	const struct profile *profile;
	struct code_source source;
	struct code_bytes *bytes; /* by symbol; NULL until the first is asked for */
};

void code_cache_init(struct code_cache *cache, const struct profile *profile,
		     const struct code_source *source);
void code_cache_deinit(struct code_cache *cache);
/* The size; 0: no code. */
size_t code_cache_get(struct code_cache *cache, uint32_t symbol, const uint8_t **ret);
/* The instruction at a location; false: its code is not there. */
bool code_cache_instruction(struct code_cache *cache, uint32_t location, struct instruction *ret);
/*
 * Which argument registers the code of a symbol reads before it writes them, as a mask: bit 0 is rdi. Looks at the
 * instructions in the order of addresses, up to the first call. -1: its code is not there.
 */
int code_cache_arguments(struct code_cache *cache, uint32_t symbol);

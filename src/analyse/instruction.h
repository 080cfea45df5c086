/* SPDX-License-Identifier: BSD-2-Clause */
/* Instructions for views: their text, and which operand or object a captured value belongs to. */
#pragma once

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "values/selection.h"
#include "store/profile.h"

struct instruction {
	ZydisDecodedInstruction decoded;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	uint64_t address;
	uint8_t byte; /* the first */
	bool valid; /* otherwise the bytes are no instruction, and the length is 1 */
};

/* Decodes the code at address; size is at least 1. */
void instruction_decode(const uint8_t *code, size_t size, uint64_t address,
			struct instruction *ret);
/* At least 1. */
size_t instruction_length(const struct instruction *instruction);

/* The register that holds the value of the source, "eax"; NULL: it is in none. */
const char *instruction_register(const struct instruction *instruction,
				 enum selection_source source);
/* Whether the value of the source is in memory, before or after the instruction. */
bool instruction_is_memory(const struct instruction *instruction, enum selection_source source);
/*
 * Whether the value of the source is a floating-point number, and of how many bits: 32, 64, 0 no.
 */
unsigned instruction_float_width(const struct instruction *instruction,
				 enum selection_source source);
/* Whether the value of the source is a byte, perhaps a character, even if it was captured wider. */
bool instruction_is_byte(const struct instruction *instruction, enum selection_source source);
/*
 * Whether the value is trivial: the instruction's text already says what it is (constants,
 * addresses of objects), or it only serves the stack (addresses of the stack, saved registers,
 * return addresses).
 */
bool instruction_is_trivial(const struct instruction *instruction, enum selection_source source);
/* Whether the memory that it reads or writes is surely the stack. */
bool instruction_is_on_stack(const struct instruction *instruction);
/* Whether it compares two operands, one of which is in memory: its result is the left one. */
bool instruction_compares_memory(const struct instruction *instruction);
/*
 * Whether control leaves here: the instruction behind it is not executed next, or only after a call
 * has returned.
 */
bool instruction_leaves(const struct instruction *instruction);
bool instruction_is_nop(const struct instruction *instruction);

/*
 * Gives the code of a symbol from its address on, at least one byte; *ret is the caller's to free.
 * -ENOENT: none.
 */
typedef int (*code_fn)(void *ctx, uint32_t symbol, void **ret, size_t *ret_size);
/*
 * The object at an address of a module's file, and where it begins; NULL: no name known. Lives as
 * long as ctx.
 */
typedef const char *(*code_object_fn)(void *ctx, uint32_t module, uint64_t address,
				      uint64_t *ret_start);
enum code_memory { CODE_MEMORY_UNKNOWN, CODE_MEMORY_CONSTANT, CODE_MEMORY_VARIABLE };
/* Whether a program can write at an address of a module's file. */
typedef enum code_memory (*code_memory_fn)(void *ctx, uint32_t module, uint64_t address);

struct code_source {
	code_fn get; /* NULL: no code at all */
	void *ctx;
	code_object_fn object; /* may be NULL */
	code_memory_fn memory; /* may be NULL */
};

struct disassembler {
	const struct profile *profile;
	struct code_source source; /* of names */
	uint32_t module; /* of the instruction that is being formatted */
	ZydisFormatter formatter;
	ZydisFormatterFunc address_print; /* the formatter's own */
	struct entry_name *names; /* of call targets, sorted; NULL until the first is wanted */
	size_t name_count;
};

void disassembler_init(struct disassembler *disassembler, const struct profile *profile,
		       const struct code_source *source, bool att);
void disassembler_deinit(struct disassembler *disassembler);
/*
 * The instruction of a module, with the names of the function that it calls or jumps to, and of the
 * object that it names by its address; the caller's to free.
 */
char *disassembler_text(struct disassembler *disassembler, uint32_t module,
			const struct instruction *instruction);

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
 * Whether a value is a constant of the program: it is trivial, or is loaded unchanged from memory
 * that the program cannot write. Where it is not known whether the memory can be written, a vector
 * load that always gave the same value (sole) is taken for a constant.
 */
bool code_cache_is_trivial(struct code_cache *cache, uint32_t module,
			   const struct instruction *instruction, enum selection_source source,
			   bool sole);
/*
 * Which argument registers the code of a symbol reads before it writes them, as a mask: bit 0 is
 * rdi. Looks at the instructions in the order of addresses, up to the first call. -1: its code is
 * not there.
 */
int code_cache_arguments(struct code_cache *cache, uint32_t symbol);

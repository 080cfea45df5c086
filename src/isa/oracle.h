/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests: compares the interpreter with the processor, which is observed by ptrace. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/user.h>

#include "isa/uop_run.h"

enum {
	ORACLE_TEXT_MAX = 256,
	ORACLE_XSAVE_MAX = 16384,
};

/* The state that the interpreter has after an instruction. */
struct oracle_claim {
	uint64_t pc; /* of the instruction */
	uint64_t next;
	uint64_t regs[UOP_REGISTERS];
	uint8_t unknown[UOP_REGISTERS];
	uint32_t flags;
	uint32_t flags_known;
};

/* All registers of a stopped thread. */
struct oracle_registers {
	struct user_regs_struct general;
	uint64_t vectors[32][UOP_VECTOR_WORDS];
	uint64_t masks[8];
	uint64_t features; /* bits of XCR0: what the processor has, and of the above is valid */
	size_t xsave_size;
	uint8_t xsave[ORACLE_XSAVE_MAX]; /* the same and the rest, as the kernel tells it */
};

/* 0 or a negative errno. */
int oracle_registers_get(pid_t pid, struct oracle_registers *ret);
int oracle_registers_set(pid_t pid, const struct oracle_registers *registers);

/*
 * Begins a run from the registers of a stopped thread; the vector registers unknown if so wanted.
 */
void oracle_start(struct uop_machine *machine, const struct oracle_registers *registers,
		  bool with_vectors);

void oracle_claim_take(struct uop_machine *machine, uint64_t pc, struct oracle_claim *ret);

/* Whether the processor has the same state; if not, text says what differs. */
bool oracle_claim_holds(const struct oracle_claim *claim, const struct oracle_registers *registers,
			char text[ORACLE_TEXT_MAX]);

/* The Zydis mnemonic of an instruction; 0 if it is none. */
unsigned oracle_mnemonic(const uint8_t *code, size_t size);

/* "pc: bytes  mnemonic" for messages. */
void oracle_describe(const uint8_t *code, size_t size, uint64_t pc, char text[ORACLE_TEXT_MAX]);

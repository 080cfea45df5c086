// SPDX-License-Identifier: BSD-2-Clause
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <Zydis/Zydis.h>

#include "isa/oracle.h"

/* Columns: number in struct uop_state, name in user_regs_struct. */
#define GENERAL_REGISTERS(X)                                                                       \
	X(0, rax)                                                                                  \
	X(1, rcx)                                                                                  \
	X(2, rdx)                                                                                  \
	X(3, rbx)                                                                                  \
	X(4, rsp)                                                                                  \
	X(5, rbp)                                                                                  \
	X(6, rsi)                                                                                  \
	X(7, rdi)                                                                                  \
	X(8, r8)                                                                                   \
	X(9, r9)                                                                                   \
	X(10, r10)                                                                                 \
	X(11, r11)                                                                                 \
	X(12, r12)                                                                                 \
	X(13, r13)                                                                                 \
	X(14, r14)                                                                                 \
	X(15, r15)

static const char *const register_names[16] = {
#define X(number, name) [number] = #name,
	GENERAL_REGISTERS(X)
#undef X
};

static void registers_get(const struct user_regs_struct *regs, uint64_t ret[16])
{
#define X(number, name) ret[number] = regs->name;
	GENERAL_REGISTERS(X)
#undef X
}

void oracle_start(struct uop_machine *machine, const struct user_regs_struct *regs)
{
	uint64_t general[16];

	uop_machine_start(machine, regs->rip, regs->eflags);
	registers_get(regs, general);
	memcpy(machine->state.regs, general, sizeof(general));
	machine->state.regs[UOP_FS_BASE] = regs->fs_base;
	machine->state.regs[UOP_GS_BASE] = regs->gs_base;
}

void oracle_claim_take(struct uop_machine *machine, uint64_t pc, struct oracle_claim *ret)
{
	ret->pc = pc;
	ret->next = machine->state.pc;
	memcpy(ret->regs, machine->state.regs, sizeof(ret->regs));
	ret->unknown = machine->state.unknown;
	ret->fs_base = machine->state.regs[UOP_FS_BASE];
	ret->gs_base = machine->state.regs[UOP_GS_BASE];
	uop_machine_flags(machine, &ret->flags, &ret->flags_known);
}

bool oracle_claim_holds(const struct oracle_claim *claim, const struct user_regs_struct *regs,
			char text[ORACLE_TEXT_MAX])
{
	uint32_t differ = (claim->flags ^ regs->eflags) & claim->flags_known;
	uint64_t real[16];

	registers_get(regs, real);
	for (int i = 0; i < 16; i++) {
		if (claim->unknown >> i & 1 || claim->regs[i] == real[i])
			continue;
		snprintf(text, ORACLE_TEXT_MAX, "%s is %" PRIx64 ", claimed %" PRIx64,
			 register_names[i], real[i], claim->regs[i]);
		return false;
	}
	if (claim->next != regs->rip)
		snprintf(text, ORACLE_TEXT_MAX, "goes on at %llx, claimed %" PRIx64, regs->rip,
			 claim->next);
	else if (differ)
		snprintf(text, ORACLE_TEXT_MAX, "flags are %llx, claimed %x (%x of it known)",
			 regs->eflags, claim->flags, claim->flags_known);
	else if ((!(claim->unknown >> UOP_FS_BASE & 1) && claim->fs_base != regs->fs_base) ||
		 (!(claim->unknown >> UOP_GS_BASE & 1) && claim->gs_base != regs->gs_base))
		snprintf(text, ORACLE_TEXT_MAX, "bases are %llx %llx", regs->fs_base,
			 regs->gs_base);
	else
		return true;
	return false;
}

void oracle_describe(const uint8_t *code, size_t size, uint64_t pc, char text[ORACLE_TEXT_MAX])
{
	ZydisDisassembledInstruction insn;
	int used = snprintf(text, ORACLE_TEXT_MAX, "%" PRIx64 ": ", pc);

	if (!ZYAN_SUCCESS(
		    ZydisDisassembleIntel(ZYDIS_MACHINE_MODE_LONG_64, pc, code, size, &insn))) {
		snprintf(text + used, ORACLE_TEXT_MAX - used, "no instruction");
		return;
	}
	for (int i = 0; i < insn.info.length; i++)
		used += snprintf(text + used, ORACLE_TEXT_MAX - used, "%02x", code[i]);
	snprintf(text + used, ORACLE_TEXT_MAX - used, "  %s", insn.text);
}

// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>

#include <Zydis/Zydis.h>

#include "isa/oracle.h"

/* Columns: number in enum uop_register, name in user_regs_struct. */
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

int oracle_registers_get(pid_t pid, struct oracle_registers *ret)
{
	if (ptrace(PTRACE_GETREGS, pid, NULL, &ret->general) != 0 ||
	    ptrace(PTRACE_GETFPREGS, pid, NULL, &ret->vector) != 0)
		return -errno;
	return 0;
}

int oracle_registers_set(pid_t pid, const struct oracle_registers *registers)
{
	struct oracle_registers copy = *registers;

	if (ptrace(PTRACE_SETREGS, pid, NULL, &copy.general) != 0 ||
	    ptrace(PTRACE_SETFPREGS, pid, NULL, &copy.vector) != 0)
		return -errno;
	return 0;
}

/* In the numbering of enum uop_register. */
static void registers_number(const struct oracle_registers *registers, uint64_t ret[UOP_REGISTERS])
{
	const struct user_regs_struct *general = &registers->general;

#define X(number, name) ret[number] = general->name;
	GENERAL_REGISTERS(X)
#undef X
	ret[UOP_FS_BASE] = general->fs_base;
	ret[UOP_GS_BASE] = general->gs_base;
	for (int i = 0; i < 16; i++) {
		memcpy(&ret[UOP_XMM0 + i], &registers->vector.xmm_space[4 * i], 8);
		memcpy(&ret[UOP_XMM0_HIGH + i], &registers->vector.xmm_space[4 * i + 2], 8);
	}
}

static void register_name(unsigned number, char text[16])
{
	static const char *const names[UOP_REGISTERS] = {
#define X(number, name) [number] = #name,
		GENERAL_REGISTERS(X)
#undef X
			[UOP_FS_BASE] = "fs_base",
		[UOP_GS_BASE] = "gs_base",
	};

	if (number >= UOP_XMM0)
		snprintf(text, 16, "xmm%u %s", number % 16,
			 number < UOP_XMM0_HIGH ? "low" : "high");
	else
		snprintf(text, 16, "%s", names[number]);
}

void oracle_start(struct uop_machine *machine, const struct oracle_registers *registers,
		  bool with_vectors)
{
	uop_machine_start(machine, registers->general.rip, registers->general.eflags);
	registers_number(registers, (uint64_t *)machine->state.regs);
	if (with_vectors)
		machine->state.unknown &= ~UOP_XMM_ALL;
}

void oracle_claim_take(struct uop_machine *machine, uint64_t pc, struct oracle_claim *ret)
{
	ret->pc = pc;
	ret->next = machine->state.pc;
	memcpy(ret->regs, machine->state.regs, sizeof(ret->regs));
	ret->unknown = machine->state.unknown;
	uop_machine_flags(machine, &ret->flags, &ret->flags_known);
}

bool oracle_claim_holds(const struct oracle_claim *claim, const struct oracle_registers *registers,
			char text[ORACLE_TEXT_MAX])
{
	const struct user_regs_struct *general = &registers->general;
	uint32_t differ = (claim->flags ^ general->eflags) & claim->flags_known;
	uint64_t real[UOP_REGISTERS];

	memcpy(real, claim->regs, sizeof(real));
	registers_number(registers, real);
	for (int i = 0; i < UOP_REGISTERS; i++) {
		char name[16];

		if (claim->unknown >> i & 1 || claim->regs[i] == real[i])
			continue;
		register_name(i, name);
		snprintf(text, ORACLE_TEXT_MAX, "%s is %" PRIx64 ", claimed %" PRIx64, name,
			 real[i], claim->regs[i]);
		return false;
	}
	if (claim->next != general->rip)
		snprintf(text, ORACLE_TEXT_MAX, "goes on at %llx, claimed %" PRIx64, general->rip,
			 claim->next);
	else if (differ)
		snprintf(text, ORACLE_TEXT_MAX, "flags are %llx, claimed %x (%x of it known)",
			 general->eflags, claim->flags, claim->flags_known);
	else
		return true;
	return false;
}

unsigned oracle_mnemonic(const uint8_t *code, size_t size)
{
	ZydisDisassembledInstruction insn;

	if (!ZYAN_SUCCESS(ZydisDisassembleIntel(ZYDIS_MACHINE_MODE_LONG_64, 0, code, size, &insn)))
		return 0;
	return insn.info.mnemonic;
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

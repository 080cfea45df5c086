// SPDX-License-Identifier: BSD-2-Clause
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

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

/*
 * Parts of what ptrace tells, in the layout of XSAVE: the processor says where each begins, but for
 * the first.
 */
enum {
	PART_SSE = 1,
	PART_UPPER = 2, /* bytes 16 to 31 of vectors 0 to 15 */
	PART_MASKS = 5,
	PART_LONG = 6, /* bytes 32 to 63 of them */
	PART_MORE = 7, /* vectors 16 to 31 */
	SSE_OFFSET = 160,
	FEATURES_OFFSET = 464, /* where the kernel puts XCR0 */
	PRESENT_OFFSET = 512, /* bit per part: it is not in its initial state */
};

static bool has(const struct oracle_registers *registers, unsigned part)
{
	return registers->features >> part & 1;
}

/* Bytes of vector number i that lie in the part, where in it, and which of the vector's. */
struct piece {
	unsigned part;
	unsigned first, count; /* vectors */
	unsigned from, size; /* bytes */
};

static const struct piece pieces[] = {
	{ PART_SSE, 0, 16, 0, 16 },
	{ PART_UPPER, 0, 16, 16, 16 },
	{ PART_LONG, 0, 16, 32, 32 },
	{ PART_MORE, 16, 16, 0, 64 },
};

static unsigned part_offset(unsigned part)
{
	unsigned size, offset = SSE_OFFSET, c, d;

	if (part != PART_SSE)
		__cpuid_count(0xd, part, size, offset, c, d);
	return offset;
}

/* Copies between the two forms of vectors and masks. */
static void vectors_copy(struct oracle_registers *registers, bool to_xsave)
{
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		const struct piece *piece = &pieces[i];
		uint8_t *place = registers->xsave + part_offset(piece->part);

		for (unsigned k = 0; has(registers, piece->part) && k < piece->count; k++) {
			uint8_t *vector =
				(uint8_t *)registers->vectors[piece->first + k] + piece->from;
			uint8_t *stored = place + k * piece->size;

			memcpy(to_xsave ? stored : vector, to_xsave ? vector : stored, piece->size);
		}
	}
	if (has(registers, PART_MASKS)) {
		uint8_t *stored = registers->xsave + part_offset(PART_MASKS);
		uint8_t *masks = (uint8_t *)registers->masks;

		memcpy(to_xsave ? stored : masks, to_xsave ? masks : stored,
		       sizeof(registers->masks));
	}
}

int oracle_registers_get(pid_t pid, struct oracle_registers *ret)
{
	struct iovec all = { ret->xsave, sizeof(ret->xsave) };

	if (ptrace(PTRACE_GETREGS, pid, NULL, &ret->general) != 0 ||
	    ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &all) != 0)
		return -errno;
	ret->xsave_size = all.iov_len;
	memcpy(&ret->features, ret->xsave + FEATURES_OFFSET, sizeof(ret->features));
	vectors_copy(ret, false);
	return 0;
}

int oracle_registers_set(pid_t pid, const struct oracle_registers *registers)
{
	static struct oracle_registers copy; /* large */
	struct iovec all = { copy.xsave, registers->xsave_size };
	uint64_t present;

	copy = *registers;
	memcpy(&present, copy.xsave + PRESENT_OFFSET, sizeof(present));
	present |= copy.features & (1 << PART_SSE | 1 << PART_UPPER | 1 << PART_MASKS |
				    1 << PART_LONG | 1 << PART_MORE);
	memcpy(copy.xsave + PRESENT_OFFSET, &present, sizeof(present));
	vectors_copy(&copy, true);
	if (ptrace(PTRACE_SETREGS, pid, NULL, &copy.general) != 0 ||
	    ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &all) != 0)
		return -errno;
	return 0;
}

/* In the numbering of enum uop_register; what the processor does not have is left alone. */
static void registers_number(const struct oracle_registers *registers, uint64_t ret[UOP_REGISTERS])
{
	const struct user_regs_struct *general = &registers->general;

#define X(number, name) ret[number] = general->name;
	GENERAL_REGISTERS(X)
#undef X
	ret[UOP_FS_BASE] = general->fs_base;
	ret[UOP_GS_BASE] = general->gs_base;
	for (unsigned i = 0; i < 16; i++) {
		for (unsigned k = 0; k < (has(registers, PART_UPPER) ? 4 : 2); k++)
			ret[UOP_XMM0 + k * UOP_VECTOR_STEP + i] = registers->vectors[i][k];
		for (unsigned k = 0; has(registers, PART_MORE) && k < UOP_VECTOR_WORDS; k++)
			ret[UOP_XMM16 + k * UOP_VECTOR_STEP + i] = registers->vectors[16 + i][k];
	}
	for (unsigned i = 0; has(registers, PART_MASKS) && i < 8; i++)
		ret[UOP_K0 + i] = registers->masks[i];
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

	if (number >= UOP_K0)
		snprintf(text, 16, "k%u", number - UOP_K0);
	else if (number >= UOP_XMM16)
		snprintf(text, 16, "zmm%u word %u", 16 + number % 16, (number - UOP_XMM16) / 16);
	else if (number >= UOP_XMM0)
		snprintf(text, 16, "ymm%u word %u", number % 16, (number - UOP_XMM0) / 16);
	else
		snprintf(text, 16, "%s", names[number]);
}

void oracle_start(struct uop_machine *machine, const struct oracle_registers *registers,
		  bool with_vectors)
{
	uop_machine_start(machine, registers->general.rip, registers->general.eflags);
	registers_number(registers, (uint64_t *)machine->state.regs);
	if (with_vectors)
		memset(machine->state.unknown + UOP_VECTORS, 0, UOP_VECTORS_COUNT);
}

void oracle_claim_take(struct uop_machine *machine, uint64_t pc, struct oracle_claim *ret)
{
	ret->pc = pc;
	ret->next = machine->state.pc;
	memcpy(ret->regs, machine->state.regs, sizeof(ret->regs));
	memcpy(ret->unknown, machine->state.unknown, sizeof(ret->unknown));
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

		if (claim->unknown[i] || claim->regs[i] == real[i])
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

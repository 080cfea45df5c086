// SPDX-License-Identifier: BSD-2-Clause
/*
 * The copy of an instruction. Most are copied as they are; those that address memory relative to
 * rip get another displacement, and those that transfer control become ways out (ways.c). A few
 * need a sequence of their own.
 *
 *	in	a decoded instruction
 *	out	machine code at the end of the fragment that is being made
 *	owner	the build of translate.c, in which it appends
 */
#include "engine/build.h"
#include "engine/gs.h"
#include "engine/translations.h"

enum {
	INT_SYSCALL = 0x80,
	SEGMENT_GS = 5, /* number of the segment register */
};

static bool is_rip_relative(const ZydisDecodedInstruction *insn)
{
	return insn->attributes & ZYDIS_ATTRIB_HAS_MODRM && insn->raw.modrm.mod == 0 &&
	       insn->raw.modrm.rm == 5 && insn->raw.disp.size; /* mov to cr3 has none */
}

static uint64_t next_pc(const struct build *build)
{
	return build->pc + build->insn.length;
}

/*
 * The displacement at place, which counted from the program's next instruction, now counts from
 * end. False: too far.
 */
static bool displacement_move(const struct build *build, uint8_t *place, const uint8_t *end)
{
	int64_t moved = (int64_t)(next_pc(build) + (uint64_t)build->insn.raw.disp.value) -
			(int64_t)(uint64_t)end;

	if (moved != (int32_t)moved)
		return false;
	fix32(build, place, (uint64_t)moved);
	if (translator_runs)
		translator_word(build, place, TRANSLATION_DISTANCE);
	return true;
}

static bool copy(struct build *build)
{
	uint8_t *start = build->at;

	put_code(build, build->code, build->insn.length);
	if (!is_rip_relative(&build->insn))
		return true;
	return displacement_move(build, start + build->insn.raw.disp.offset, build->at);
}

bool put_lea(struct build *build, const struct gs_lea *lea)
{
	put_bytes(build, lea->bytes, lea->length);
	return !lea->relative || displacement_move(build, build->at - 4, build->at);
}

/* The same for an operand that gs leads to. */
static bool put_gs_target(struct build *build)
{
	static const uint8_t load[] = { 0x48, 0x8b, 0x14, 0x0a }; /* mov (%rdx,%rcx), %rdx */
	struct gs_lea lea;

	if (!gs_target(instruction_decoder(), build->code, build->insn.length, &lea) ||
	    !put_lea(build, &lea))
		return false;
	put_state(build, build->pc, STATE_SPILLED);
	put_thread_move(build, 0x8b, RCX, THREAD_GS);
	put_bytes(build, load, sizeof(load));
	return true;
}

/* mov rdx, operand of an indirect jump or call. Prefixes but for the segment are dropped. */
static bool put_target(struct build *build)
{
	const ZydisDecodedInstruction *insn = &build->insn;
	unsigned modrm = insn->raw.modrm.offset, rest = insn->length - modrm - 1;
	uint8_t *displacement;

	if (insn->attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS)
		return put_gs_target(build);
	if (insn->attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS)
		put8(build, 0x64);
	if (insn->attributes & ZYDIS_ATTRIB_HAS_ADDRESSSIZE)
		put8(build, 0x67);
	put8(build, 0x48 | insn->raw.rex.X << 1 | insn->raw.rex.B);
	put8(build, 0x8b);
	put8(build, insn->raw.modrm.mod << 6 | RDX << 3 | insn->raw.modrm.rm);
	displacement = build->at + insn->raw.disp.offset - modrm - 1;
	put_bytes(build, build->code + modrm + 1, rest);
	return !is_rip_relative(insn) || displacement_move(build, displacement, build->at);
}

static void put_spills(struct build *build)
{
	put_thread_move(build, 0x89, RCX, THREAD_SPILL0);
	put_thread_move(build, 0x89, RDX, THREAD_SPILL1);
}

static uint64_t branch_target(const struct build *build)
{
	return next_pc(build) + (uint64_t)build->insn.raw.imm[0].value.s;
}

/* loop, loope, loopne, jrcxz, jecxz: they reach a byte far only. */
static void put_short_branch(struct build *build)
{
	static const uint8_t jump[] = { 0xe9 };
	uint8_t *from;

	put_bytes(build, build->code, build->insn.length);
	from = build->at;
	put_state(build, next_pc(build), STATE_WHOLE);
	put_out(build, jump, sizeof(jump), next_pc(build));
	fix8(build, from - 1, (uint64_t)(build->at - from));
	put_state(build, branch_target(build), STATE_WHOLE);
	put_out(build, jump, sizeof(jump), branch_target(build));
}

/* The fragment goes on where the branch leads to. */
static bool is_turned(const struct build *build)
{
	return (build->back || build->plan) && branch_target(build) != next_pc(build) &&
	       way_is_followed(build, branch_target(build));
}

static void put_branch(struct build *build)
{
	uint8_t opcode[] = { 0x0f, (uint8_t)(0x80 | (build->insn.opcode & 15)) };
	bool is_long = build->insn.opcode_map == ZYDIS_OPCODE_MAP_0F;

	if (!is_long && (build->insn.opcode & 0xf0) != 0x70) {
		put_short_branch(build);
		return;
	}
	build->fragment->blocks[build->block].leads = true;
	if (is_turned(build)) {
		opcode[1] ^= 1;
		put_out(build, opcode, sizeof(opcode), next_pc(build));
		build->follow = branch_target(build);
		return;
	}
	put_out(build, opcode, sizeof(opcode), branch_target(build));
	put_way(build, next_pc(build));
}

static bool is_direct(const ZydisDecodedInstruction *insn)
{
	return insn->raw.imm[0].is_relative;
}

/* Near indirect jumps and calls are FF /2 and /4. */
static bool is_near_indirect(const ZydisDecodedInstruction *insn)
{
	return insn->opcode == 0xff && (insn->raw.modrm.reg == 2 || insn->raw.modrm.reg == 4);
}

/*
 * A call to what is no address faults before it pushes. Added to 2^47, an address has no more than
 * 48 bits: then the upper ones, which bswap brings down, are 0.
 */
static void put_address_check(struct build *build)
{
	static const uint8_t check[] = {
		0x48, 0xb9, 0,	  0,	0, 0, 0, 0x80, 0, 0, /* movabs $0x800000000000, %rcx */
		0x48, 0x8d, 0x0c, 0x11, /* lea (%rcx,%rdx), %rcx */
		0x48, 0x0f, 0xc9, /* bswap %rcx */
		0x0f, 0xb7, 0xc9, /* movzwl %cx, %ecx */
		0xe3, 0, /* jrcxz */
	};
	uint8_t *from;

	put_bytes(build, check, sizeof(check));
	from = build->at;
	put_thread_move(build, 0x8b, RDX, THREAD_SPILL1);
	put_thread_move(build, 0x8b, RCX, THREAD_SPILL0);
	put_jump(build, build->pc, EXIT_FAULT);
	fix8(build, from - 1, (uint64_t)(build->at - from));
}

static bool put_call_or_jump(struct build *build, bool call)
{
	if (is_direct(&build->insn)) {
		if (call)
			put_push_constant(build, next_pc(build));
		build->fragment->blocks[build->block].leads = true;
		put_way(build, branch_target(build));
		return true;
	}
	if (!is_near_indirect(&build->insn))
		return false;
	put_spills(build);
	if (!put_target(build))
		return false;
	put_state(build, build->pc, STATE_SPILLED);
	if (call)
		put_address_check(build);
	insert_transfer(build);
	if (call)
		put_push_constant(build, next_pc(build));
	put_way_indirect(build);
	return true;
}

static bool put_return(struct build *build)
{
	static const uint8_t load[] = { 0x48, 0x8b, 0x14, 0x24 }; /* mov (%rsp), %rdx */
	static const uint8_t drop[] = { 0x48, 0x8d, 0xa4, 0x24 }; /* lea extra(%rsp), %rsp */
	uint64_t extra;

	if (build->insn.opcode != 0xc2 && build->insn.opcode != 0xc3)
		return false; /* far */
	put_spills(build);
	if (build->insn.opcode == 0xc3 && !insert_wants_transfer(&build->insn)) {
		put8(build, 0x5a); /* pop %rdx */
	} else {
		extra = build->insn.opcode == 0xc2 ? build->insn.raw.imm[0].value.u : 0;
		put_bytes(build, load, sizeof(load));
		put_state(build, build->pc, STATE_SPILLED);
		insert_transfer(build);
		put_bytes(build, drop, sizeof(drop));
		put32(build, extra + 8);
	}
	put_way_indirect(build);
	return true;
}

/* Instructions whose copy would do something else than the original. */
static bool is_special(const ZydisDecodedInstruction *insn)
{
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_WRGSBASE:
	case ZYDIS_MNEMONIC_LGS:
		return true;
	case ZYDIS_MNEMONIC_MOV:
		return insn->opcode == 0x8e && insn->raw.modrm.reg == SEGMENT_GS;
	case ZYDIS_MNEMONIC_POP:
		return insn->opcode_map == ZYDIS_OPCODE_MAP_0F && insn->opcode == 0xa9;
	default:
		return false;
	}
}

static void put_rdgsbase(struct build *build)
{
	const ZydisDecodedInstruction *insn = &build->insn;

	put8(build, 0x65);
	put8(build, 0x40 | insn->raw.rex.W << 3 | insn->raw.rex.B << 2);
	put8(build, 0x8b);
	put8(build, insn->raw.modrm.rm << 3 | 4);
	put8(build, 0x25);
	put32(build, THREAD_GS);
}

/* gs.c has the sequence. */
static bool put_gs(struct build *build)
{
	struct gs_plan plan;
	unsigned state, x, y;

	if (!gs_plan(instruction_decoder(), build->code, build->insn.length, &plan))
		return false;
	x = plan.x;
	y = plan.y;
	state = STATE_X | x << STATE_X_SHIFT;
	put_thread_move(build, 0x89, x, THREAD_SPILL0);
	put_thread_move(build, 0x89, y, THREAD_SPILL1);
	if (!put_lea(build, &plan.lea))
		return false;
	put_state(build, build->pc, state | STATE_Y | y << STATE_Y_SHIFT);
	put_thread_move(build, 0x8b, y, THREAD_GS);
	put8(build, 0x48); /* lea (x,y), x */
	put8(build, 0x8d);
	put8(build, x << 3 | 4);
	put8(build, y << 3 | x);
	put_thread_move(build, 0x8b, y, THREAD_SPILL1);
	put_bytes(build, plan.insn, plan.insn_length);
	build->block_instructions++;
	put_state(build, next_pc(build), state);
	put_thread_move(build, 0x8b, x, THREAD_SPILL0);
	return true;
}

/*
 * popf, unless it sets the trap flag. That is bit 8 of what is on the stack: shifted by
 * multiplication, so that no flag changes before popf itself.
 */
static void put_popf(struct build *build)
{
	static const uint8_t load[] = { 0x48, 0x8b, 0x0c, 0x24 }; /* mov (%rsp), %rcx */
	static const uint8_t load_small[] = { 0x0f, 0xb7, 0x0c, 0x24 }; /* movzwl (%rsp), %ecx */
	static const uint8_t select[] = {
		0x0f, 0xb6, 0xcd, /* movzbl %ch, %ecx */
		0x8d, 0x0c, 0xcd, 0, 0, 0, 0, /* lea (,%rcx,8), %ecx */
		0x8d, 0x0c, 0xcd, 0, 0, 0, 0, /* and once more */
		0x8d, 0x0c, 0x09, /* lea (%rcx,%rcx), %ecx */
		0x0f, 0xb6, 0xc9, /* movzbl %cl, %ecx */
		0xe3, 0, /* jrcxz */
	};
	uint8_t *from;

	put_thread_move(build, 0x89, RCX, THREAD_SPILL0);
	/* As wide as popf itself: it may fault, and for one reason or another. */
	put_bytes(build, build->insn.operand_width == 16 ? load_small : load, sizeof(load));
	put_state(build, build->pc, STATE_RCX);
	put_bytes(build, select, sizeof(select));
	from = build->at;
	put_thread_move(build, 0x8b, RCX, THREAD_SPILL0);
	put_jump(build, build->pc, EXIT_FAULT);
	fix8(build, from - 1, (uint64_t)(build->at - from));
	put_thread_move(build, 0x8b, RCX, THREAD_SPILL0);
	put_state(build, build->pc, 0);
	copy(build);
	put_way(build, next_pc(build));
}

/*
 * The exit leads to the engine, which checks the number of the system call; the copy of the
 * instruction follows behind the jump.
 */
static void put_int80(struct build *build)
{
	put_jump(build, build->pc, EXIT_INT80);
	copy(build);
	put_way(build, next_pc(build));
}

/*
 * The signal shows the place behind it, which must not be that of a later instruction: a jump may
 * take no room.
 */
static bool put_trap(struct build *build)
{
	copy(build);
	build->block_instructions++;
	put_state(build, next_pc(build), 0);
	put8(build, 0x90);
	return true;
}

static bool has_gs_prefix(const ZydisDecodedInstruction *insn)
{
	for (unsigned i = 0; i < insn->raw.prefix_count; i++)
		if (insn->raw.prefixes[i].value == 0x65)
			return true;
	return false;
}

/* Puts an instruction that does not transfer control. */
static bool other_put(struct build *build)
{
	const ZydisDecodedInstruction *insn = &build->insn;

	if (is_special(insn))
		return false;
	if (insn->attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS)
		return put_gs(build);
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_RDGSBASE:
		put_rdgsbase(build);
		return true;
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ:
		build->ended = true;
		put_popf(build);
		return true;
	case ZYDIS_MNEMONIC_INT3:
	case ZYDIS_MNEMONIC_INT1:
		return put_trap(build);
	case ZYDIS_MNEMONIC_INT:
		if (insn->raw.imm[0].value.u != INT_SYSCALL)
			return put_trap(build);
		build->ended = true;
		put_int80(build);
		return true;
	case ZYDIS_MNEMONIC_CLZERO: /* the decoder does not know that rax is an address */
	case ZYDIS_MNEMONIC_MONITOR:
	case ZYDIS_MNEMONIC_MONITORX:
	case ZYDIS_MNEMONIC_UMONITOR:
		return !has_gs_prefix(insn) && copy(build);
	default:
		return copy(build);
	}
}

/*
 * Branches that lead to the first 64 KB; xbegin; those of the Knights Corner, which go by mask
 * registers.
 */
static bool is_odd(const ZydisDecodedInstruction *insn)
{
	bool is_short = decoder_is_amd() && insn->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE &&
			!insn->raw.rex.W;

	return is_short || insn->mnemonic == ZYDIS_MNEMONIC_XBEGIN ||
	       insn->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY;
}

bool instruction_put(struct build *build)
{
	switch (build->insn.meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		if (!is_direct(&build->insn))
			return other_put(build); /* xend is called one */
		build->ended = true;
		if (is_odd(&build->insn))
			return false;
		put_branch(build);
		return true;
	case ZYDIS_CATEGORY_UNCOND_BR:
		build->ended = true;
		return !is_odd(&build->insn) && put_call_or_jump(build, false);
	case ZYDIS_CATEGORY_CALL:
		build->ended = true;
		return !is_odd(&build->insn) && put_call_or_jump(build, true);
	case ZYDIS_CATEGORY_RET:
		build->ended = true;
		return !is_odd(&build->insn) && put_return(build);
	case ZYDIS_CATEGORY_SYSCALL:
		build->ended = true;
		if (build->insn.mnemonic != ZYDIS_MNEMONIC_SYSCALL)
			return false;
		put_jump(build, next_pc(build), EXIT_SYSCALL);
		return true;
	default:
		return other_put(build);
	}
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * From the program's code to the copy that runs.
 *
 * Instructions are copied as they are; those that address memory relative to rip get another displacement. What
 * transfers control becomes an exit: a jump to a stub that leaves the cache, and that is patched to lead to the target's
 * fragment once there is one. A fragment goes on behind a conditional branch, and at the target of a direct jump or call, as
 * long as that has no fragment of its own: most branches are not taken, and a jump that is not there costs nothing. Indirect branches look their target up in the
 * thread's tables (offsets.h) without touching a flag.
 *
 * Layout:	indirect entry: rcx and rdx come back from their spill slots
 *		entry: the blocks
 *		tails: what the tool does when a branch out of the middle is taken
 *		stubs of the exits
 *		constants: return addresses that calls push
 *
 * Invariants
 * 1. In the cache, rsp and the memory it points to are the program's at every instruction boundary of the program.
 *    Return addresses on its stack are the program's own.
 * 2. No sequence that is put in between changes a flag or a register that the program could still read.
 * 3. A displacement that is patched later lies within one cache line: other threads see the old or the new one.
 */
#include "engine/build.h"
#include "engine/gs.h"
#include "engine/stream.h"
#include "engine/tool.h"

enum {
	INSTRUCTIONS_MAX = 192, /* of a fragment, before its last block */
	INSTRUCTION_BYTES = 15,
	ROOM = 32768, /* bytes that a fragment may take */
	CACHE_LINE = 64,
	PIECES_REACH = 1 << 28, /* within the arena's */
	STUB_BYTES = 21,
	INT_SYSCALL = 0x80,
	SEGMENT_GS = 5, /* number of the segment register */
};

static ZydisDecoder decoder;
static bool decoder_ready;
static bool is_amd; /* the processor's branches may be 16 bits wide */

/* --- Decoding -------------------------------------------------------------------------------------- */

static void decoder_init(void)
{
	uint32_t a = 0, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	is_amd = b == 0x68747541 || b == 0x6f677948; /* "Auth", "Hygo" */
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_AMD_BRANCHES, is_amd);
	decoder_ready = true;
}

/* Only within guarded_call(): Zydis uses vector registers and looks for a canary. */
bool instruction_decode(const uint8_t *code, size_t size, ZydisDecodedInstruction *ret)
{
	if (!decoder_ready)
		decoder_init();
	return size && ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code, size, ret));
}

bool instruction_decode_full(const uint8_t *code, size_t size, ZydisDecodedInstruction *ret,
			     ZydisDecodedOperand *operands)
{
	if (!decoder_ready)
		decoder_init();
	return size && ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, size, ret, operands));
}

static bool decode(struct build *build, const uint8_t *code, size_t size)
{
	build->code = code;
	return instruction_decode(code, size, &build->insn);
}

/* Copies the program's code, as far as it is there. Translating back, what was there when it was translated. */
static size_t code_copy(const struct build *build, uint8_t *ret, size_t size)
{
	const struct fragment *fragment = build->fragment;
	const struct piece *piece = &fragment->pieces[build->piece];
	const volatile uint8_t *from = (const volatile uint8_t *)build->pc;
	uint64_t end = build->back ? piece->pc + piece->length : build->stop;

	if (!build->back && !build->stop)
		return code_read(build->pc, ret, size);
	if (fragment->bytes) {
		from = fragment->bytes + (build->pc - piece->pc);
		for (unsigned i = 0; i < build->piece; i++)
			from += fragment->pieces[i].length;
	}
	if (end - build->pc < size)
		size = end - build->pc;
	for (size_t i = 0; i < size; i++)
		ret[i] = from[i];
	return size;
}

/* --- Ways out -------------------------------------------------------------------------------------- */

/* A displacement that an exit patches; opcode is its instruction's, of one or two bytes. */
static void put_exit(struct build *build, const uint8_t *opcode, size_t size, uint64_t target,
		     uint32_t kind)
{
	while (((uintptr_t)build->at + size) / CACHE_LINE !=
	       ((uintptr_t)build->at + size + 3) / CACHE_LINE)
		put8(build, 0x90);
	put_bytes(build, opcode, size);
	build->exits[build->exit_count++] = (struct way){
		.patch = build->at,
		.target = target,
		.kind = kind,
		.length = build->insn.length,
		.piece = build->piece,
	};
	put32(build, 0);
}

static void put_jump(struct build *build, uint64_t target, uint32_t kind)
{
	static const uint8_t jump[] = { 0xe9 };

	put_exit(build, jump, sizeof(jump), target, kind);
}

static bool is_told(const struct build *build)
{
	return build->first_run && tool()->run_end;
}

/* What is dead where a run ends. */
static void end_note(struct run_ends *ends, uint64_t bit, uint64_t target)
{
	struct dead dead = { .scratch = SCRATCH_NONE };

	if (target != TARGET_IN_RDX)
		dead_at(target, &dead);
	ends->flags_dead |= dead.flags ? bit : 0;
	for (unsigned i = 0; i < 4; i++)
		ends->scratch[i] |= dead.scratch >> i & 1 ? bit : 0;
}

/* It must come out the same when translating back: then it is not looked for, but known. */
static void put_run_end(struct build *build, uint64_t target)
{
	struct run_end end = { .run = build->first_run + build->piece, .target = target };
	uint64_t bit;

	if (!is_told(build))
		return;
	bit = 1ull << build->end_count++;
	if (!build->back)
		end_note(&build->ends, bit, target);
	end.flags_dead = build->ends.flags_dead & bit;
	for (unsigned i = 0; i < 4; i++)
		end.scratch |= build->ends.scratch[i] & bit ? 1u << i : 0;
	tool()->run_end(build, &end);
}

/* The run ends, and control goes to target. */
static void put_leave(struct build *build, uint64_t target)
{
	put_state(build, target, STATE_WHOLE);
	put_run_end(build, target);
	put_jump(build, target, EXIT_DIRECT);
	put_rest(build);
}

/* Leaves by an instruction whose displacement comes last. The tool's code for it lies apart, out of the way of what goes on. */
static void put_out(struct build *build, const uint8_t *opcode, size_t size, uint64_t target)
{
	if (!is_told(build)) {
		put_exit(build, opcode, size, target, EXIT_DIRECT);
		return;
	}
	put_bytes(build, opcode, size);
	build->tails[build->tail_count++] = (struct tail){ build->at, target, build->piece };
	put32(build, 0);
}

/* By plan; or code that has no fragment of its own. */
static bool is_wanted(const struct build *build, uint64_t pc)
{
	const struct plan *plan = build->plan;

	if (plan)
		return build->piece + 1 < plan->count && plan->pcs[build->piece + 1] == pc;
	return !cache_find(pc);
}

/* Whether the fragment itself goes on at pc. Translating back, it does where it did. */
static bool is_followed(const struct build *build, uint64_t pc)
{
	const struct fragment *fragment = build->fragment;

	if (build->back)
		return build->piece + 1 < fragment->piece_count &&
		       fragment->pieces[build->piece + 1].pc == pc;
	if (build->stop || build->piece + 1 == PIECES_MAX ||
	    build->instructions > INSTRUCTIONS_MAX || !is_wanted(build, pc))
		return false;
	for (unsigned i = 0; i <= build->piece && !build->plan; i++)
		if (fragment->pieces[i].pc == pc)
			return false;
	return code_is_stable(build->thread, pc) &&
	       (pc > build->pc ? pc - build->pc : build->pc - pc) < PIECES_REACH;
}

/* On to pc, in this fragment or in another. */
static void put_way(struct build *build, uint64_t pc)
{
	if (is_followed(build, pc))
		build->follow = pc;
	else
		put_leave(build, pc);
}

/* A displacement that leads to the value. */
static void put_constant(struct build *build, uint64_t value)
{
	build->constants[build->constant_count].patch = build->at;
	build->constants[build->constant_count].value = value;
	build->constant_count++;
	put32(build, 0);
}

static void put_push_constant(struct build *build, uint64_t value)
{
	put8(build, 0xff); /* push value(%rip) */
	put8(build, 0x35);
	put_constant(build, value);
}

/*
 * rdx holds the target; rcx and rdx of the program are in their slots. A word of the table is the complement of the
 * target it stands for: added to the target, plus one, it gives 0.
 */
static void put_lookup(struct build *build)
{
	static const uint8_t index[] = { 0x0f, 0xb7, 0xca }; /* movzwl %dx, %ecx */
	static const uint8_t tag[] = { 0x65, 0x48, 0x8b, 0x0c,
				       0xcd }; /* mov %gs:TAGS(,%rcx,8), %rcx */
	static const uint8_t compare[] = { 0x48, 0x8d, 0x4c, 0x11,
					   0x01 }; /* lea 1(%rcx,%rdx), %rcx */
	static const uint8_t is_hit[] = { 0xe3, 0 }; /* jrcxz */
	static const uint8_t here[] = { 0x48, 0x8d, 0x0d, 0, 0, 0, 0 }; /* lea (%rip), %rcx */
	static const uint8_t hit[] = { 0x0f, 0xb7, 0xca, /* movzwl %dx, %ecx: rdx stays the target */
				       0x65, 0xff, 0x24, 0xcd }; /* jmp *%gs:PLACES(,%rcx,8) */
	uint8_t *from;

	put_bytes(build, index, sizeof(index));
	put_bytes(build, tag, sizeof(tag));
	put32(build, THREAD_TAGS);
	put_bytes(build, compare, sizeof(compare));
	put_bytes(build, is_hit, sizeof(is_hit));
	from = build->at;
	put_thread_move(build, 0x89, RDX, THREAD_PC);
	put_bytes(build, here, sizeof(here));
	put_thread_move(build, 0x89, RCX, THREAD_EXIT);
	put_jump_thread(build, THREAD_ON_MISS);
	fix8(build, from - 1, (uint64_t)(build->at - from));
	put_bytes(build, hit, sizeof(hit));
	put32(build, THREAD_PLACES);
}

/* The run ends with an indirect branch, which is done but for the jump. */
static void put_leave_indirect(struct build *build)
{
	put_state(build, 0, STATE_SPILLED | STATE_FORWARD | STATE_WHOLE);
	put_run_end(build, TARGET_IN_RDX);
	put_lookup(build);
	put_rest(build);
}

/* Where an indirect branch leads to most often, and the fragment goes on; 0: it ends. */
static uint64_t guess_of(const struct build *build)
{
	const struct fragment *fragment = build->fragment;
	unsigned next = build->piece + 1;
	uint64_t pc = 0;

	if (build->back)
		pc = next < fragment->piece_count ? fragment->pieces[next].pc : 0;
	else if (build->plan && next < build->plan->count)
		pc = build->plan->pcs[next];
	return pc && is_followed(build, pc) ? pc : 0;
}

/* If rdx is the guess the fragment goes on, with rcx and rdx the program's again. */
static void put_guess(struct build *build, uint64_t guess)
{
	static const uint8_t load[] = { 0x48, 0x8b, 0x0d }; /* mov ~guess(%rip), %rcx */
	static const uint8_t compare[] = { 0x48, 0x8d, 0x4c,
					   0x11, 0x01, /* lea 1(%rcx,%rdx), %rcx */
					   0xe3, 5, /* jrcxz */
					   0xe9 }; /* jmp */

	put_state(build, 0, STATE_SPILLED | STATE_FORWARD | STATE_WHOLE);
	put_bytes(build, load, sizeof(load));
	put_constant(build, ~guess);
	put_bytes(build, compare, sizeof(compare));
	build->tails[build->tail_count++] = (struct tail){ build->at, TARGET_IN_RDX, build->piece };
	put32(build, 0);
	put_thread_move(build, 0x8b, RCX, THREAD_SPILL0);
	put_thread_move(build, 0x8b, RDX, THREAD_SPILL1);
	build->follow = guess;
}

static void put_way_indirect(struct build *build)
{
	uint64_t guess = guess_of(build);

	build->fragment->pieces[build->piece].leads = true;
	if (guess)
		put_guess(build, guess);
	else
		put_leave_indirect(build);
}

static void tails_put(struct build *build)
{
	for (unsigned i = 0; i < build->tail_count; i++) {
		const struct tail *tail = &build->tails[i];

		fix32(build, tail->patch, (uint64_t)(build->at - (tail->patch + 4)));
		build->piece = tail->piece;
		if (tail->target == TARGET_IN_RDX)
			put_leave_indirect(build);
		else
			put_leave(build, tail->target);
	}
}

/* --- Instructions ----------------------------------------------------------------------------------- */

static bool is_rip_relative(const ZydisDecodedInstruction *insn)
{
	return insn->attributes & ZYDIS_ATTRIB_HAS_MODRM && insn->raw.modrm.mod == 0 &&
	       insn->raw.modrm.rm == 5 && insn->raw.disp.size; /* mov to cr3 has none */
}

static uint64_t next_pc(const struct build *build)
{
	return build->pc + build->insn.length;
}

/* The displacement at place, which counted from the program's next instruction, now counts from end. False: too far. */
static bool displacement_move(const struct build *build, uint8_t *place, const uint8_t *end)
{
	int64_t moved = (int64_t)(next_pc(build) + (uint64_t)build->insn.raw.disp.value) -
			(int64_t)(uint64_t)end;

	if (moved != (int32_t)moved)
		return false;
	fix32(build, place, (uint64_t)moved);
	return true;
}

static bool copy(struct build *build)
{
	uint8_t *start = build->at;

	put_bytes(build, build->code, build->insn.length);
	if (!is_rip_relative(&build->insn))
		return true;
	return displacement_move(build, start + build->insn.raw.disp.offset, build->at);
}

static bool put_gs_lea(struct build *build, const struct gs_lea *lea)
{
	put_bytes(build, lea->bytes, lea->length);
	return !lea->relative || displacement_move(build, build->at - 4, build->at);
}

/* The same for an operand that gs leads to. */
static bool put_gs_target(struct build *build)
{
	static const uint8_t load[] = { 0x48, 0x8b, 0x14, 0x0a }; /* mov (%rdx,%rcx), %rdx */
	struct gs_lea lea;

	if (!gs_target(&decoder, build->code, build->insn.length, &lea) || !put_gs_lea(build, &lea))
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
	       is_followed(build, branch_target(build));
}

static void put_branch(struct build *build)
{
	uint8_t opcode[] = { 0x0f, (uint8_t)(0x80 | (build->insn.opcode & 15)) };
	bool is_long = build->insn.opcode_map == ZYDIS_OPCODE_MAP_0F;

	if (!is_long && (build->insn.opcode & 0xf0) != 0x70) {
		put_short_branch(build);
		return;
	}
	build->fragment->pieces[build->piece].leads = true;
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
 * A call to what is no address faults before it pushes. Added to 2^47, an address has no more than 48 bits: then the upper
 * ones, which bswap brings down, are 0.
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
		build->fragment->pieces[build->piece].leads = true;
		put_way(build, branch_target(build));
		return true;
	}
	if (!is_near_indirect(&build->insn))
		return false;
	put_spills(build);
	if (!put_target(build))
		return false;
	put_state(build, build->pc, STATE_SPILLED);
	if (call) {
		put_address_check(build);
		put_push_constant(build, next_pc(build));
	}
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
	if (build->insn.opcode == 0xc3) {
		put8(build, 0x5a); /* pop %rdx */
	} else {
		extra = build->insn.raw.imm[0].value.u;
		put_bytes(build, load, sizeof(load));
		put_state(build, build->pc, STATE_SPILLED);
		put_bytes(build, drop, sizeof(drop));
		put32(build, extra + 8);
	}
	put_way_indirect(build);
	return true;
}

/* Instructions whose copy would do something else than the original. */
static bool is_awkward(const ZydisDecodedInstruction *insn)
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

	if (!gs_plan(&decoder, build->code, build->insn.length, &plan))
		return false;
	x = plan.x;
	y = plan.y;
	state = STATE_X | x << STATE_X_SHIFT;
	put_thread_move(build, 0x89, x, THREAD_SPILL0);
	put_thread_move(build, 0x89, y, THREAD_SPILL1);
	if (!put_gs_lea(build, &plan.lea))
		return false;
	put_state(build, build->pc, state | STATE_Y | y << STATE_Y_SHIFT);
	put_thread_move(build, 0x8b, y, THREAD_GS);
	put8(build, 0x48); /* lea (x,y), x */
	put8(build, 0x8d);
	put8(build, x << 3 | 4);
	put8(build, y << 3 | x);
	put_thread_move(build, 0x8b, y, THREAD_SPILL1);
	put_bytes(build, plan.insn, plan.insn_length);
	build->piece_instructions++;
	put_state(build, next_pc(build), state);
	put_thread_move(build, 0x8b, x, THREAD_SPILL0);
	return true;
}

/*
 * popf, unless it sets the trap flag. That is bit 8 of what is on the stack: shifted by multiplication, so that no flag
 * changes before popf itself.
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

/* The engine looks at the number first; then it goes on behind the jump. */
static void put_int80(struct build *build)
{
	put_jump(build, build->pc, EXIT_INT80);
	copy(build);
	put_way(build, next_pc(build));
}

/* The signal shows the place behind it, which must not be that of a later instruction: a jump may take no room. */
static bool put_trap(struct build *build)
{
	copy(build);
	build->piece_instructions++;
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

/* Whatever does not go elsewhere by itself. */
static bool other_put(struct build *build)
{
	const ZydisDecodedInstruction *insn = &build->insn;

	if (is_awkward(insn))
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

/* Branches that lead to the first 64 KB; xbegin; those of the Knights Corner, which go by mask registers. */
static bool is_odd(const ZydisDecodedInstruction *insn)
{
	bool is_short = is_amd && insn->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE &&
			!insn->raw.rex.W;

	return is_short || insn->mnemonic == ZYDIS_MNEMONIC_XBEGIN ||
	       insn->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY;
}

static bool instruction_put(struct build *build)
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

/* --- Fragments --------------------------------------------------------------------------------------- */

static void entry_put(struct build *build)
{
	put_state(build, build->pc, STATE_SPILLED);
	put_thread_move(build, 0x8b, RDX, THREAD_SPILL1);
	put_thread_move(build, 0x8b, RCX, THREAD_SPILL0);
}

/* The program would have a fault here, or we cannot do it: leave with the pc of the instruction. */
static void fault_put(struct build *build)
{
	put_state(build, build->pc, 0);
	put_jump(build, build->pc, EXIT_FAULT);
	build->ended = true;
}

/* Guarded code goes on in a page that is not guarded. */
static bool is_cut(const struct build *build)
{
	struct fragment *fragment = build->fragment;
	const struct piece *piece = &fragment->pieces[build->piece];

	if (build->back)
		return fragment->cut && build->piece + 1 == fragment->piece_count &&
		       build->pc == piece->pc + piece->length;
	if (!build->stop && guard_ends(build->pc))
		fragment->cut = true;
	return fragment->cut;
}

/* Instructions up to one that goes elsewhere. */
static void piece_put(struct build *build)
{
	uint8_t code[256];
	size_t size = 0, at = 0;
	unsigned count = 0;

	while (!build->ended && count < STREAM_BLOCK_MAX && build->pc != build->stop &&
	       !is_cut(build)) {
		uint8_t *before = build->at;

		build->piece_instructions = count;
		put_state(build, build->pc, 0);
		if (size - at < INSTRUCTION_BYTES) {
			at = 0;
			size = code_copy(build, code, sizeof(code));
		}
		if (!decode(build, code + at, size - at)) {
			fault_put(build);
			break;
		}
		if (!instruction_put(build)) {
			build->at = before;
			fault_put(build); /* the engine does it, so it belongs to the piece */
		}
		build->pc += build->insn.length;
		at += build->insn.length;
		count++;
	}
	if (!build->back)
		build->fragment->pieces[build->piece].instructions = (uint16_t)count;
	build->instructions += count;
	if (!build->ended)
		put_leave(build, build->pc);
}

/* Unstable code that could be decoded has an end. */
static bool is_there(const struct build *build)
{
	return region_of(build->pc) && !build->far &&
	       (build->stop || code_is_stable(build->thread, build->pc));
}

static long pieces_put(void *context, void *unused)
{
	struct build *build = context;
	struct fragment *fragment = build->fragment;

	if (!build->back && !is_there(build)) {
		fragment->pieces[0] = (struct piece){ .pc = build->pc };
		fragment->piece_count = 1;
		put_state(build, build->pc, 0);
		put_jump(build, build->pc,
			 build->far && region_of(build->pc) ? EXIT_FAR : EXIT_FAULT);
		return 0;
	}
	for (;; build->piece++) {
		uint64_t start = build->pc;

		if (!build->back)
			fragment->pieces[build->piece] = (struct piece){ .pc = start };
		build->ended = false;
		build->follow = 0;
		piece_put(build);
		if (!build->back)
			fragment->pieces[build->piece].length = (uint32_t)(build->pc - start);
		if (!build->follow)
			break;
		build->pc = build->follow;
	}
	if (!build->back)
		fragment->piece_count = build->piece + 1;
	tails_put(build);
	return 0;
}

/* The run that ends with the piece, or with the one before if nothing of it can be executed; 0: none. */
static uint32_t run_ended(const struct build *build, unsigned piece)
{
	bool executed = build->fragment->pieces[piece].instructions;

	return build->first_run && (executed || piece) ? build->first_run + piece - !executed : 0;
}

static uint32_t stub_put(struct build *build, unsigned index)
{
	static const uint8_t store[] = { 0x65, 0x48, 0xc7, 0x04,
					 0x25 }; /* movq $number, %gs:EXIT */
	struct exit *exit;
	uint32_t number = cache_exit_new(&exit);
	uint8_t *patch = build->exits[index].patch;

	write32(patch, (uint64_t)(build->at - (patch + 4)));
	exit->target = build->exits[index].target;
	exit->kind = build->exits[index].kind;
	exit->length = build->exits[index].length;
	exit->run = run_ended(build, build->exits[index].piece);
	exit->patch = exit->kind == EXIT_DIRECT || exit->kind == EXIT_INT80 ? patch : NULL;
	exit->stub = build->at;
	put_bytes(build, store, sizeof(store));
	put32(build, THREAD_EXIT);
	put32(build, number);
	put_jump_thread(build, THREAD_ON_EXIT);
	return number;
}

static void constants_put(struct build *build)
{
	while ((uintptr_t)build->at % 8)
		put8(build, 0xcc);
	for (unsigned i = 0; i < build->constant_count; i++) {
		uint8_t *patch = build->constants[i].patch;

		write32(patch, (uint64_t)(build->at - (patch + 4)));
		put_bytes(build, &build->constants[i].value, 8);
	}
}

/* Of code that may be another when it is translated back. */
static void bytes_keep(struct fragment *fragment)
{
	const uint8_t *from = fragment->bytes;
	size_t size = 0, at = 0;
	uint8_t *bytes;

	for (unsigned i = 0; i < fragment->piece_count; i++)
		size += fragment->pieces[i].length;
	fragment->bytes = bytes = cache_notes(size);
	for (unsigned i = 0; i < fragment->piece_count; i++) {
		const struct piece *piece = &fragment->pieces[i];

		for (uint32_t j = 0; j < piece->length; j++, at++)
			bytes[at] = from ? from[at] : ((const uint8_t *)piece->pc)[j];
	}
}

static void parts_put(struct build *build, const struct unstable *unstable)
{
	struct fragment *fragment = build->fragment;

	fragment->start = build->at;
	if (unstable->length) {
		build->stop = build->pc + unstable->length;
		fragment->bytes = unstable->bytes;
		build->at = unstable_put_stale(fragment, unstable, build->at);
	}
	fragment->indirect = build->at;
	entry_put(build);
	fragment->entry = build->at;
	if (unstable->length)
		build->at = unstable_put_check(fragment, unstable, build->at);
	fragment->body = build->at;
	guarded_call(pieces_put, build, NULL);
	for (unsigned i = 0; i < build->exit_count; i++)
		stub_put(build, i);
	constants_put(build);
	fragment->end = build->at;
}

static void runs_define(const struct fragment *fragment)
{
	stream_runs_define(fragment);
	if (tool()->run_defined)
		tool()->run_defined(fragment);
}

static struct fragment *fragment_make(struct thread *thread, uint64_t pc, const struct plan *plan)
{
	const struct region *region = region_of(pc);
	bool is_unstable = region && !code_is_stable(thread, pc);
	struct build build = { .thread = thread, .pc = pc, .plan = plan };
	struct unstable unstable = {};
	uint8_t *room = region ? cache_room(pc, ROOM) : NULL;
	struct fragment *fragment;

	build.far = !room;
	if (!room)
		room = cache_room((uint64_t)engine_exit, ROOM);
	if (!room)
		engine_die("no room for translated code");
	build.at = (uint8_t *)(((uintptr_t)room + 15) & ~(uintptr_t)15);
	build.fragment = fragment = cache_fragment(pc);
	build.first_run = tool() ? stream_runs_next() : 0;
	if (is_unstable && !build.far)
		unstable_look(thread, pc, &unstable);
	parts_put(&build, &unstable);
	fragment->first_run = build.first_run;
	fragment->ends = build.ends;
	cache_add(fragment);
	if (is_unstable || (region && !region->inode) || guard_knows(pc))
		bytes_keep(fragment);
	if (fragment->first_run)
		runs_define(fragment);
	if (is_unstable && !unstable.length)
		fragment_close(fragment); /* for this once: it may be code the next time */
	return fragment;
}

struct fragment *translate(struct thread *thread, uint64_t pc)
{
	struct fragment *fragment = cache_find(pc);

	return fragment ? fragment : fragment_make(thread, pc, NULL);
}

bool translate_trace(struct thread *thread, const struct plan *plan)
{
	uint64_t pc = plan->pcs[0];
	struct fragment *fragment = cache_find(pc);

	if (!region_of(pc) || !code_is_stable(thread, pc) || !cache_room(pc, ROOM))
		return false;
	if (fragment)
		fragment_close(fragment);
	fragment_make(thread, pc, plan);
	return true;
}

/* In a stub everything is as at the exit's target. */
static void stubs_back(struct build *build)
{
	for (unsigned i = 0; i < build->exit_count; i++) {
		const struct way *exit = &build->exits[i];

		build->piece = exit->piece;
		put_state(build,
			  exit->kind == EXIT_SYSCALL ? exit->target - exit->length : exit->target,
			  exit->kind == EXIT_DIRECT ? STATE_WHOLE | STATE_TOLD : 0);
		build->at += STUB_BYTES;
	}
}

static void registers_back(struct thread *thread, const struct build *build)
{
	thread->pc = build->state & STATE_FORWARD ? thread->regs[RDX] : build->state_pc;
	if (build->state & (STATE_SPILLED | STATE_RCX))
		thread->regs[RCX] = thread->spill[0];
	if (build->state & STATE_SPILLED)
		thread->regs[RDX] = thread->spill[1];
	if (build->state & STATE_X)
		thread->regs[build->state >> STATE_X_SHIFT & 7] = thread->spill[0];
	if (build->state & STATE_Y)
		thread->regs[build->state >> STATE_Y_SHIFT & 7] = thread->spill[1];
}

/* As when the fragment was made, but that nothing is written: the state at the address wanted is found. */
static void build_back(struct build *build, struct fragment *fragment)
{
	build->fragment = fragment;
	build->pc = fragment->pc;
	build->stop = fragment->checked ? fragment->pc + fragment->pieces[0].length : 0;
	build->at = fragment->indirect;
	build->first_run = fragment->first_run;
	build->ends = fragment->ends;
	entry_put(build);
	build->at = fragment->body;
	guarded_call(pieces_put, build, NULL);
	stubs_back(build);
}

bool translate_back(struct thread *thread, uint64_t at)
{
	struct fragment *fragment = cache_holder(at);
	struct build build = { .thread = thread, .back = true, .wanted = (const uint8_t *)at };
	const struct piece *piece;

	if (!fragment)
		return false;
	if (fragment->checked && unstable_back(thread, fragment, build.wanted))
		return true;
	build_back(&build, fragment);
	registers_back(thread, &build);
	if (build.state & STATE_FORWARD && !awkward_is_address(thread->pc))
		branch_undo(thread, fragment, build.state_piece);
	piece = &fragment->pieces[build.state_piece];
	if (build.first_run && !(build.state & STATE_TOLD))
		tool_run_cut(thread, fragment, build.state_piece,
			     build.state & STATE_WHOLE ? piece->length : build.state_pc - piece->pc,
			     build.state_instructions);
	return true;
}

uint64_t translate_address(struct thread *thread, uint64_t at)
{
	struct fragment *fragment = cache_holder(at);
	struct build build = { .thread = thread, .back = true, .wanted = (const uint8_t *)at };

	if (!fragment)
		return at;
	build_back(&build, fragment);
	return build.state_pc;
}

unsigned translate_piece(struct thread *thread, const struct fragment *fragment, uint64_t at)
{
	struct build build = { .thread = thread, .back = true, .wanted = (const uint8_t *)at };

	build_back(&build, (struct fragment *)fragment);
	return build.state_piece;
}

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
 *		entry: the block
 *		stubs of the exits
 *		constants: return addresses that calls push
 *
 * Invariants
 * 1. In the cache, rsp and the memory it points to are the program's at every instruction boundary of the program.
 *    Return addresses on its stack are the program's own.
 * 2. No sequence that is put in between changes a flag.
 * 3. A displacement that is patched later lies within one cache line: other threads see the old or the new one.
 */
#include <Zydis/Zydis.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum {
	INSTRUCTIONS_MAX = 128, /* of a block */
	INSTRUCTION_BYTES = 15,
	ROOM = 16384, /* bytes that a fragment may take */
	CONSTANTS_MAX = PIECES_MAX + 2,
	PATCHES_MAX = PIECES_MAX + 4,
	CACHE_LINE = 64,
	PIECES_REACH = 1 << 28, /* within the arena's */
};

/* A fragment being made. */
struct work {
	struct thread *thread;
	struct fragment *fragment;
	uint8_t *at; /* next byte */
	uint64_t pc; /* of the instruction in hand */
	const uint8_t *code; /* its bytes */
	ZydisDecodedInstruction insn;
	bool ended;
	uint64_t follow; /* where the fragment goes on; 0: there it ends */
	uint64_t stop; /* unstable code ends here; 0: the code is stable */
	unsigned piece; /* of the fragment */
	unsigned instructions;
	/* Translating back: nothing is written; the last state before the address wanted is kept. */
	bool back;
	const uint8_t *wanted;
	uint64_t state_pc;
	unsigned state_undo;
	struct {
		uint8_t *patch; /* displacement that leads to the stub */
		uint64_t target;
		uint32_t kind;
		uint32_t length;
	} exits[PATCHES_MAX];
	unsigned exit_count;
	struct {
		uint8_t *patch; /* displacement that leads to the constant */
		uint64_t value;
	} constants[CONSTANTS_MAX];
	unsigned constant_count;
};

/* What of the program's state is elsewhere, in the middle of a sequence of ours. */
enum undo {
	UNDO_NONE = 0,
	UNDO_SPILLS = 1, /* rcx and rdx are in their slots */
	UNDO_POP = 2, /* a return address was popped */
	UNDO_PUSH = 4, /* a return address was pushed */
	UNDO_EXTRA_SHIFT = 16, /* bytes that a return drops besides */
};

static ZydisDecoder decoder;
static bool decoder_ready;

/* --- Decoding -------------------------------------------------------------------------------------- */

/* Only within guarded_call(): Zydis uses vector registers and looks for a canary. */
static bool decode(struct work *work, const uint8_t *code, size_t size)
{
	if (!decoder_ready)
		ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	decoder_ready = true;
	work->code = code;
	return size &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code, size, &work->insn));
}

/* Copies the program's code, as far as it is there. Translating back, what was there when it was translated. */
static size_t code_copy(const struct work *work, uint8_t *ret, size_t size)
{
	const struct fragment *fragment = work->fragment;
	const struct piece *piece = &fragment->pieces[work->piece];
	const volatile uint8_t *from = (const volatile uint8_t *)work->pc;
	uint64_t end = work->back ? piece->pc + piece->length : work->stop;

	if (!work->back && !work->stop)
		return code_read(work->pc, ret, size);
	if (fragment->bytes) {
		from = fragment->bytes + (work->pc - piece->pc);
		for (unsigned i = 0; i < work->piece; i++)
			from += fragment->pieces[i].length;
	}
	if (end - work->pc < size)
		size = end - work->pc;
	for (size_t i = 0; i < size; i++)
		ret[i] = from[i];
	return size;
}

/* --- Emitting --------------------------------------------------------------------------------------- */

static void put8(struct work *work, unsigned byte)
{
	if (!work->back)
		*work->at = (uint8_t)byte;
	work->at++;
}

/* From here on the program's state is that before the instruction at pc, but for what undo says. */
static void mark(struct work *work, uint64_t pc, unsigned undo)
{
	if (!work->back || work->at > work->wanted)
		return;
	work->state_pc = pc;
	work->state_undo = undo;
}

static void put32(struct work *work, uint64_t value)
{
	for (int i = 0; i < 4; i++)
		put8(work, (unsigned)(value >> i * 8));
}

static void put_bytes(struct work *work, const void *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		put8(work, ((const uint8_t *)bytes)[i]);
}

static void write32(uint8_t *place, uint64_t value)
{
	__atomic_store_n((uint32_t *)place, (uint32_t)value, __ATOMIC_RELEASE);
}

static void fix32(const struct work *work, uint8_t *place, uint64_t value)
{
	if (!work->back)
		write32(place, value);
}

static void fix8(const struct work *work, uint8_t *place, uint64_t value)
{
	if (!work->back)
		*place = (uint8_t)value;
}

/* Moves between a register and a word of the thread: opcode 0x89 stores, 0x8b loads. */
static void put_thread_move(struct work *work, unsigned opcode, unsigned reg, unsigned offset)
{
	put8(work, 0x65); /* gs */
	put8(work, 0x48 | (reg >= 8 ? 4 : 0));
	put8(work, opcode);
	put8(work, (reg & 7) << 3 | 4);
	put8(work, 0x25); /* no base, no index */
	put32(work, offset);
}

static void put_jump_thread(struct work *work, unsigned offset)
{
	static const uint8_t code[] = { 0x65, 0xff, 0x24, 0x25 }; /* jmp *%gs:offset */

	put_bytes(work, code, sizeof(code));
	put32(work, offset);
}

/* An unconditional exit: the instruction before it is over. */
static void mark_at(struct work *work, const uint8_t *at, uint64_t pc)
{
	if (work->back && at <= work->wanted) {
		work->state_pc = pc;
		work->state_undo = UNDO_NONE;
	}
}

/* A displacement that an exit patches; opcode is its instruction's, of one or two bytes. */
static void put_exit(struct work *work, const uint8_t *opcode, size_t size, uint64_t target,
		     uint32_t kind)
{
	while (((uintptr_t)work->at + size) / CACHE_LINE !=
	       ((uintptr_t)work->at + size + 3) / CACHE_LINE)
		put8(work, 0x90);
	put_bytes(work, opcode, size);
	if (size == 1)
		mark_at(work, work->at - 1, kind == EXIT_SYSCALL ? work->pc : target);
	work->exits[work->exit_count].patch = work->at;
	work->exits[work->exit_count].target = target;
	work->exits[work->exit_count].kind = kind;
	work->exits[work->exit_count].length = work->insn.length;
	work->exit_count++;
	put32(work, 0);
}

static void put_jump(struct work *work, uint64_t target, uint32_t kind)
{
	static const uint8_t jump[] = { 0xe9 };

	put_exit(work, jump, sizeof(jump), target, kind);
}

/* Whether the fragment itself goes on at pc. Translating back, it does where it did. */
static bool is_followed(const struct work *work, uint64_t pc)
{
	const struct fragment *fragment = work->fragment;
	const struct region *region;

	if (work->back)
		return work->piece + 1 < fragment->piece_count;
	if (work->stop || work->piece + 1 == PIECES_MAX ||
	    work->instructions > INSTRUCTIONS_MAX / 2 || cache_find(pc))
		return false;
	for (unsigned i = 0; i <= work->piece; i++)
		if (fragment->pieces[i].pc == pc)
			return false;
	region = region_of(pc);
	return region && !region_is_unstable(region) && region->readable &&
	       (pc > work->pc ? pc - work->pc : work->pc - pc) < PIECES_REACH;
}

/* On to pc, in this fragment or in another. */
static void put_way(struct work *work, uint64_t pc)
{
	if (is_followed(work, pc))
		work->follow = pc;
	else
		put_jump(work, pc, EXIT_DIRECT);
}

static void put_push_constant(struct work *work, uint64_t value)
{
	put8(work, 0xff); /* push value(%rip) */
	put8(work, 0x35);
	work->constants[work->constant_count].patch = work->at;
	work->constants[work->constant_count].value = value;
	work->constant_count++;
	put32(work, 0);
}

/*
 * rcx holds the target; rcx and rdx of the program are in their slots. A word of the table is the complement of the
 * target it stands for: added to the target, plus one, it gives 0.
 */
static void put_lookup(struct work *work)
{
	static const uint8_t index[] = { 0x0f, 0xb7, 0xd1 }; /* movzwl %cx, %edx */
	static const uint8_t tag[] = { 0x65, 0x48, 0x8b, 0x14,
				       0xd5 }; /* mov %gs:TAGS(,%rdx,8), %rdx */
	static const uint8_t compare[] = { 0x48, 0x8d, 0x4c, 0x11,
					   0x01 }; /* lea 1(%rcx,%rdx), %rcx */
	static const uint8_t miss[] = {
		0xe3, 0x21, /* jrcxz hit */
		0x48, 0xf7, 0xd2, /* not %rdx */
		0x48, 0x8d, 0x0c, 0x11, /* lea (%rcx,%rdx), %rcx: the target again */
	};
	static const uint8_t hit[] = { 0x48, 0xf7, 0xd2, /* not %rdx */
				       0x0f, 0xb7, 0xd2, /* movzwl %dx, %edx */
				       0x65, 0xff, 0x24, 0xd5 }; /* jmp *%gs:PLACES(,%rdx,8) */
	uint8_t *from;

	put_bytes(work, index, sizeof(index));
	put_bytes(work, tag, sizeof(tag));
	put32(work, THREAD_TAGS);
	put_bytes(work, compare, sizeof(compare));
	from = work->at;
	put_bytes(work, miss, sizeof(miss));
	put_thread_move(work, 0x89, RCX, THREAD_PC);
	put_thread_move(work, 0x8b, RCX, THREAD_SPILL0);
	put_thread_move(work, 0x8b, RDX, THREAD_SPILL1);
	put_jump_thread(work, THREAD_ON_MISS);
	fix8(work, from + 1, (uint64_t)(work->at - from - 2));
	put_bytes(work, hit, sizeof(hit));
	put32(work, THREAD_PLACES);
}

/* --- Instructions ----------------------------------------------------------------------------------- */

static bool is_rip_relative(const ZydisDecodedInstruction *insn)
{
	return insn->attributes & ZYDIS_ATTRIB_HAS_MODRM && insn->raw.modrm.mod == 0 &&
	       insn->raw.modrm.rm == 5;
}

static uint64_t next_pc(const struct work *work)
{
	return work->pc + work->insn.length;
}

/* The displacement at place, which counted from the program's next instruction, now counts from end. False: too far. */
static bool displacement_move(const struct work *work, uint8_t *place, const uint8_t *end)
{
	int64_t moved = (int64_t)(next_pc(work) + (uint64_t)work->insn.raw.disp.value) -
			(int64_t)(uint64_t)end;

	if (moved != (int32_t)moved)
		return false;
	fix32(work, place, (uint64_t)moved);
	return true;
}

static bool copy(struct work *work)
{
	uint8_t *start = work->at;

	put_bytes(work, work->code, work->insn.length);
	if (!is_rip_relative(&work->insn))
		return true;
	return displacement_move(work, start + work->insn.raw.disp.offset, work->at);
}

/* mov rcx, operand of an indirect jump or call. Prefixes but for the segment are dropped. */
static bool put_target(struct work *work)
{
	const ZydisDecodedInstruction *insn = &work->insn;
	unsigned modrm = insn->raw.modrm.offset, rest = insn->length - modrm - 1;
	uint8_t *displacement;

	if (insn->attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS)
		put8(work, 0x64);
	if (insn->attributes & ZYDIS_ATTRIB_HAS_ADDRESSSIZE)
		put8(work, 0x67);
	put8(work, 0x48 | insn->raw.rex.X << 1 | insn->raw.rex.B);
	put8(work, 0x8b);
	put8(work, insn->raw.modrm.mod << 6 | RCX << 3 | insn->raw.modrm.rm);
	displacement = work->at + insn->raw.disp.offset - modrm - 1;
	put_bytes(work, work->code + modrm + 1, rest);
	return !is_rip_relative(insn) || displacement_move(work, displacement, work->at);
}

static void put_spills(struct work *work)
{
	put_thread_move(work, 0x89, RCX, THREAD_SPILL0);
	put_thread_move(work, 0x89, RDX, THREAD_SPILL1);
}

static uint64_t branch_target(const struct work *work)
{
	return next_pc(work) + (uint64_t)work->insn.raw.imm[0].value.s;
}

/* loop, loope, loopne, jrcxz, jecxz: they reach a byte far only. */
static void put_short_branch(struct work *work)
{
	uint8_t *from;

	put_bytes(work, work->code, work->insn.length);
	from = work->at;
	put_jump(work, next_pc(work), EXIT_DIRECT);
	fix8(work, from - 1, (uint64_t)(work->at - from));
	put_jump(work, branch_target(work), EXIT_DIRECT);
}

static void put_branch(struct work *work)
{
	uint8_t opcode[] = { 0x0f, (uint8_t)(0x80 | (work->insn.opcode & 15)) };
	bool is_long = work->insn.opcode_map == ZYDIS_OPCODE_MAP_0F;

	if (!is_long && (work->insn.opcode & 0xf0) != 0x70) {
		put_short_branch(work);
		return;
	}
	put_exit(work, opcode, sizeof(opcode), branch_target(work), EXIT_DIRECT);
	put_way(work, next_pc(work));
}

static bool is_direct(const ZydisDecodedInstruction *insn)
{
	return insn->raw.imm[0].is_relative;
}

/* Near indirect jumps and calls are FF /2 and /4. */
static bool is_near_indirect(const ZydisDecodedInstruction *insn)
{
	return insn->opcode == 0xff && (insn->raw.modrm.reg == 2 || insn->raw.modrm.reg == 4) &&
	       !(insn->attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS);
}

static bool put_call_or_jump(struct work *work, bool call)
{
	if (is_direct(&work->insn)) {
		if (call)
			put_push_constant(work, next_pc(work));
		mark(work, branch_target(work), UNDO_NONE);
		put_way(work, branch_target(work));
		return true;
	}
	if (!is_near_indirect(&work->insn))
		return false;
	put_spills(work);
	if (!put_target(work))
		return false;
	mark(work, work->pc, UNDO_SPILLS);
	if (call) {
		put_push_constant(work, next_pc(work));
		mark(work, work->pc, UNDO_SPILLS | UNDO_PUSH);
	}
	put_lookup(work);
	return true;
}

static bool put_return(struct work *work)
{
	uint64_t extra = work->insn.opcode == 0xc2 ? work->insn.raw.imm[0].value.u : 0;
	static const uint8_t drop[] = { 0x48, 0x8d, 0xa4, 0x24 }; /* lea extra(%rsp), %rsp */

	if (work->insn.opcode != 0xc2 && work->insn.opcode != 0xc3)
		return false; /* far */
	put_spills(work);
	put8(work, 0x59); /* pop %rcx */
	mark(work, work->pc, UNDO_SPILLS | UNDO_POP);
	if (extra) {
		put_bytes(work, drop, sizeof(drop));
		put32(work, extra);
		mark(work, work->pc, UNDO_SPILLS | UNDO_POP | (unsigned)extra << UNDO_EXTRA_SHIFT);
	}
	put_lookup(work);
	return true;
}

/* Instructions whose copy would do something else than the original. */
static bool is_awkward(const ZydisDecodedInstruction *insn)
{
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_RDGSBASE:
	case ZYDIS_MNEMONIC_WRGSBASE:
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_SYSENTER:
	case ZYDIS_MNEMONIC_IRETQ:
	case ZYDIS_MNEMONIC_IRETD:
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_INT3:
	case ZYDIS_MNEMONIC_INT1:
	case ZYDIS_MNEMONIC_INT:
		return true;
	default:
		return insn->attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS;
	}
}

static bool instruction_put(struct work *work)
{
	switch (work->insn.meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		work->ended = true;
		put_branch(work);
		return true;
	case ZYDIS_CATEGORY_UNCOND_BR:
		work->ended = true;
		return put_call_or_jump(work, false);
	case ZYDIS_CATEGORY_CALL:
		work->ended = true;
		return put_call_or_jump(work, true);
	case ZYDIS_CATEGORY_RET:
		work->ended = true;
		return put_return(work);
	case ZYDIS_CATEGORY_SYSCALL:
		work->ended = true;
		if (work->insn.mnemonic != ZYDIS_MNEMONIC_SYSCALL)
			return false;
		put_jump(work, next_pc(work), EXIT_SYSCALL);
		return true;
	default:
		return !is_awkward(&work->insn) && copy(work);
	}
}

/* --- Fragments --------------------------------------------------------------------------------------- */

static void entry_put(struct work *work)
{
	mark(work, work->pc, UNDO_SPILLS);
	put_thread_move(work, 0x8b, RDX, THREAD_SPILL1);
	put_thread_move(work, 0x8b, RCX, THREAD_SPILL0);
}

/* The program would have a fault here, or we cannot do it: leave with the pc of the instruction. */
static void fault_put(struct work *work)
{
	put_jump(work, work->pc, EXIT_FAULT);
	work->ended = true;
}

/* Instructions up to one that goes elsewhere. */
static void piece_put(struct work *work)
{
	uint8_t code[INSTRUCTIONS_MAX + 16];
	size_t size = 0, at = 0;

	while (!work->ended && work->instructions < INSTRUCTIONS_MAX && work->pc != work->stop) {
		uint8_t *before = work->at;

		mark(work, work->pc, UNDO_NONE);
		if (size - at < INSTRUCTION_BYTES) {
			at = 0;
			size = code_copy(work, code, sizeof(code));
		}
		if (!decode(work, code + at, size - at) || !instruction_put(work)) {
			work->at = before;
			fault_put(work);
			return;
		}
		work->pc += work->insn.length;
		at += work->insn.length;
		work->instructions++;
	}
	if (!work->ended)
		put_jump(work, work->pc, EXIT_DIRECT);
}

/* Unstable code that could be decoded has an end. */
static bool is_there(const struct work *work)
{
	const struct region *region = region_of(work->pc);

	return region && (work->stop || !region_is_unstable(region));
}

static long pieces_put(void *context, void *unused)
{
	struct work *work = context;
	struct fragment *fragment = work->fragment;

	if (!work->back && !is_there(work)) {
		fragment->pieces[0] = (struct piece){ .pc = work->pc };
		fragment->piece_count = 1;
		fault_put(work);
		return 0;
	}
	for (;; work->piece++) {
		uint64_t start = work->pc;

		if (!work->back)
			fragment->pieces[work->piece] = (struct piece){ .pc = start };
		work->ended = false;
		work->follow = 0;
		piece_put(work);
		if (!work->back)
			fragment->pieces[work->piece].length = (uint32_t)(work->pc - start);
		if (!work->follow)
			break;
		work->pc = work->follow;
	}
	if (!work->back)
		fragment->piece_count = work->piece + 1;
	return 0;
}

static uint32_t stub_put(struct work *work, unsigned index)
{
	static const uint8_t store[] = { 0x65, 0x48, 0xc7, 0x04,
					 0x25 }; /* movq $number, %gs:EXIT */
	struct exit *exit;
	uint32_t number = cache_exit_new(&exit);
	uint8_t *patch = work->exits[index].patch;

	write32(patch, (uint64_t)(work->at - (patch + 4)));
	exit->target = work->exits[index].target;
	exit->kind = work->exits[index].kind;
	exit->length = work->exits[index].length;
	exit->patch = exit->kind == EXIT_DIRECT ? patch : NULL;
	exit->stub = work->at;
	put_bytes(work, store, sizeof(store));
	put32(work, THREAD_EXIT);
	put32(work, number);
	put_jump_thread(work, THREAD_ON_EXIT);
	return number;
}

static void constants_put(struct work *work)
{
	while ((uintptr_t)work->at % 8)
		put8(work, 0xcc);
	for (unsigned i = 0; i < work->constant_count; i++) {
		uint8_t *patch = work->constants[i].patch;

		write32(patch, (uint64_t)(work->at - (patch + 4)));
		put_bytes(work, &work->constants[i].value, 8);
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

static struct fragment *fragment_make(struct thread *thread, uint64_t pc)
{
	const struct region *region = region_of(pc);
	struct work work = { .thread = thread, .pc = pc };
	struct unstable unstable = {};
	uint8_t *room = cache_room(pc, ROOM);
	struct fragment *fragment;

	if (!room)
		engine_die("no room for translated code");
	work.at = (uint8_t *)(((uintptr_t)room + 15) & ~(uintptr_t)15);
	work.fragment = fragment = cache_fragment(pc);
	fragment->start = work.at;
	if (region && region_is_unstable(region))
		unstable_look(thread, pc, &unstable);
	if (unstable.length) {
		work.stop = pc + unstable.length;
		fragment->bytes = unstable.bytes;
		work.at = unstable_put_stale(fragment, &unstable, work.at);
	}
	fragment->indirect = work.at;
	entry_put(&work);
	fragment->entry = work.at;
	if (unstable.length)
		work.at = unstable_put_check(fragment, &unstable, work.at);
	fragment->body = work.at;
	guarded_call(pieces_put, &work, NULL);
	for (unsigned i = 0; i < work.exit_count; i++)
		stub_put(&work, i);
	constants_put(&work);
	fragment->end = work.at;
	cache_add(fragment);
	if (region && (region_is_unstable(region) || region->anonymous))
		bytes_keep(fragment);
	if (region && region_is_unstable(region) && !unstable.length)
		fragment_close(fragment); /* for this once: it may be code the next time */
	return fragment;
}

struct fragment *translate(struct thread *thread, uint64_t pc)
{
	struct fragment *fragment = cache_find(pc);

	return fragment ? fragment : fragment_make(thread, pc);
}

/* In a stub everything is as at the exit's target. */
static void stubs_back(struct work *work)
{
	enum { STUB_BYTES = 21 };

	for (unsigned i = 0; i < work->exit_count; i++) {
		bool call = work->exits[i].kind == EXIT_SYSCALL;

		mark(work,
		     call ? work->exits[i].target - work->exits[i].length : work->exits[i].target,
		     UNDO_NONE);
		work->at += STUB_BYTES;
	}
}

bool translate_back(struct thread *thread, uint64_t at)
{
	struct fragment *fragment = cache_holder(at);
	struct work work = { .thread = thread, .back = true, .wanted = (const uint8_t *)at };

	if (!fragment)
		return false;
	if (fragment->checked && unstable_back(thread, fragment, work.wanted))
		return true;
	work.fragment = fragment;
	work.pc = fragment->pc;
	work.stop = fragment->checked ? fragment->pc + fragment->pieces[0].length : 0;
	work.at = fragment->indirect;
	entry_put(&work);
	work.at = fragment->body;
	guarded_call(pieces_put, &work, NULL);
	stubs_back(&work);
	thread->pc = work.state_pc;
	if (work.state_undo & UNDO_SPILLS) {
		thread->regs[RCX] = thread->spill[0];
		thread->regs[RDX] = thread->spill[1];
	}
	if (work.state_undo & UNDO_POP)
		thread->regs[RSP] -= 8 + (work.state_undo >> UNDO_EXTRA_SHIFT);
	if (work.state_undo & UNDO_PUSH)
		thread->regs[RSP] += 8;
	return true;
}

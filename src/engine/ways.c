// SPDX-License-Identifier: BSD-2-Clause
/*
 * Ways out of a fragment: jumps to stubs that are patched later, ends of segments, and indirect
 * branches.
 *
 *	in	where control goes from the end of a block
 *	out	machine code of the exit, its stub, and a note of it in the fragment
 *	owner	the build of translate.c, in which it appends
 *
 * A fragment goes on behind a conditional branch, and at the target of a direct jump or call, as
 * long as that has no fragment of its own; a superblock goes where its plan says. Everywhere else
 * it is left. What tools do there stands in front of the jump, or, for a branch out of the middle,
 * in a tail behind the blocks.
 *
 * Invariant: whether the fragment goes on at a place comes out the same when it is translated back.
 */
#include "engine/build.h"

enum {
	INSTRUCTIONS_MAX = 192, /* of a fragment, before its last block */
	INSTRUCTIONS_ALONE = 64, /* where no segments are recorded, which are better long */
	CACHE_LINE = 64,
	BLOCKS_REACH = 1 << 28, /* within the arena's */
};

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
		.block = build->block,
		.before = { build->before[0], build->before[1] },
	};
	put32(build, 0);
}

void put_jump(struct build *build, uint64_t target, uint32_t kind)
{
	static const uint8_t jump[] = { 0xe9 };

	put_exit(build, jump, sizeof(jump), target, kind);
}

/* Whether tools do anything where the segment in hand ends. */
static bool is_told(const struct build *build)
{
	struct insert insert;

	if (!build->first_segment || !tools_offer.segment_end)
		return false;
	tools_segment_list(&insert, build->first_segment + build->block);
	return insert.count;
}

/* What is dead where a segment ends. */
static void end_note(struct segment_ends *ends, uint64_t bit, uint64_t target)
{
	struct dead dead = { .scratch = SCRATCH_NONE };

	if (target != TARGET_IN_RDX)
		dead_at(target, &dead);
	ends->flags_dead |= dead.flags ? bit : 0;
	for (unsigned i = 0; i < 4; i++)
		ends->scratch[i] |= dead.scratch >> i & 1 ? bit : 0;
}

/* It must come out the same when translating back: then it is not looked for, but known. */
static void put_segment_end(struct build *build, uint64_t target)
{
	struct segment_end end = { .segment = build->first_segment + build->block,
				   .target = target };
	uint64_t bit;

	if (!is_told(build))
		return;
	bit = 1ull << build->end_count++;
	if (!build->back)
		end_note(&build->ends, bit, target);
	end.flags_dead = build->ends.flags_dead & bit;
	for (unsigned i = 0; i < 4; i++)
		end.scratch |= build->ends.scratch[i] & bit ? 1u << i : 0;
	segment_end_put(build, &end);
}

/* The segment ends, and control goes to target. */
void put_leave(struct build *build, uint64_t target)
{
	put_state(build, target, STATE_WHOLE);
	put_segment_end(build, target);
	put_jump(build, target, EXIT_DIRECT);
	put_rest(build);
}

/*
 * Leaves by an instruction whose displacement comes last. The tool's code for it lies apart, out of
 * the way of what goes on.
 */
void put_out(struct build *build, const uint8_t *opcode, size_t size, uint64_t target)
{
	if (!is_told(build)) {
		put_exit(build, opcode, size, target, EXIT_DIRECT);
		return;
	}
	put_bytes(build, opcode, size);
	build->tails[build->tail_count++] = (struct tail){ build->at, target, build->block };
	put32(build, 0);
}

/* By plan; or code that has no fragment of its own. */
static bool is_wanted(const struct build *build, uint64_t pc)
{
	const struct plan *plan = build->plan;

	if (plan)
		return build->block + 1 < plan->count && plan->pcs[build->block + 1] == pc;
	return !cache_has(pc);
}

/* Whether the fragment itself goes on at pc. Translating back, it does where it did. */
bool way_is_followed(const struct build *build, uint64_t pc)
{
	const struct fragment *fragment = build->fragment;

	if (build->back)
		return build->block + 1 < fragment->block_count &&
		       fragment->blocks[build->block + 1].pc == pc;
	if (build->stop || build->block + 1 == BLOCKS_MAX ||
	    build->instructions > (build->first_segment ? INSTRUCTIONS_MAX : INSTRUCTIONS_ALONE) ||
	    insert_is_enough(build) || !is_wanted(build, pc) || tools_cut(pc))
		return false;
	for (unsigned i = 0; i <= build->block && !build->plan; i++)
		if (fragment->blocks[i].pc == pc)
			return false;
	return code_is_stable(build->thread, pc) &&
	       (pc > build->pc ? pc - build->pc : build->pc - pc) < BLOCKS_REACH;
}

/* On to pc, in this fragment or in another. */
void put_way(struct build *build, uint64_t pc)
{
	if (way_is_followed(build, pc))
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

void put_push_constant(struct build *build, uint64_t value)
{
	put8(build, 0xff); /* push value(%rip) */
	put8(build, 0x35);
	put_constant(build, value);
}

/*
 * rdx holds the target; rcx and rdx of the program are in their slots. A word of the table is the
 * complement of the target it stands for: added to the target, plus one, it gives 0.
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
	/* movzwl %dx, %ecx: rdx stays the target */
	static const uint8_t hit[] = {
		0x0f, 0xb7, 0xca, 0x65, 0xff, 0x24, 0xcd
	}; /* jmp *%gs:PLACES(,%rcx,8) */
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

/* The segment ends with an indirect branch, which is done but for the jump. */
static void put_leave_indirect(struct build *build)
{
	put_state(build, 0, STATE_SPILLED | STATE_FORWARD | STATE_WHOLE);
	put_segment_end(build, TARGET_IN_RDX);
	put_lookup(build);
	put_rest(build);
}

/*
 * The most frequent target of an indirect branch, at which the fragment goes on; 0: the fragment
 * ends.
 */
static uint64_t guess_of(const struct build *build)
{
	const struct fragment *fragment = build->fragment;
	unsigned next = build->block + 1;
	uint64_t pc = 0;

	if (build->back)
		pc = next < fragment->block_count ? fragment->blocks[next].pc : 0;
	else if (build->plan && next < build->plan->count)
		pc = build->plan->pcs[next];
	return pc && way_is_followed(build, pc) ? pc : 0;
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
	build->tails[build->tail_count++] = (struct tail){ build->at, TARGET_IN_RDX, build->block };
	put32(build, 0);
	put_thread_move(build, 0x8b, RCX, THREAD_SPILL0);
	put_thread_move(build, 0x8b, RDX, THREAD_SPILL1);
	build->follow = guess;
}

void put_way_indirect(struct build *build)
{
	uint64_t guess = guess_of(build);

	build->fragment->blocks[build->block].leads = true;
	if (guess)
		put_guess(build, guess);
	else
		put_leave_indirect(build);
}

void tails_put(struct build *build)
{
	for (unsigned i = 0; i < build->tail_count; i++) {
		const struct tail *tail = &build->tails[i];

		fix32(build, tail->patch, (uint64_t)(build->at - (tail->patch + 4)));
		build->block = tail->block;
		if (tail->target == TARGET_IN_RDX)
			put_leave_indirect(build);
		else
			put_leave(build, tail->target);
	}
}

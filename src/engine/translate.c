// SPDX-License-Identifier: BSD-2-Clause
/*
 * Translates the program's code into fragments of the code cache.
 *
 *	in	an address of the program
 *	out	a fragment in the code cache; or, of an address in the cache, the program's
 *		registers there
 *	owner	the cache owns the fragment; what is needed on the way is on the stack
 *
 * Instructions are copied as they are; those that address memory relative to rip get another
 * displacement. What transfers control becomes an exit: a jump to a stub that leaves the cache, and
 * that is patched to lead to the target's fragment once there is one. A fragment goes on behind a
 * conditional branch, and at the target of a direct jump or call, as long as that has no fragment
 * of its own: most branches are not taken, and a jump that is not there costs nothing. Indirect
 * branches look their target up in the thread's tables (offsets.h) without touching a flag.
 *
 * Layout:	indirect entry: rcx and rdx come back from their spill slots
 *		entry: the blocks
 *		tails: what the tool does when a branch out of the middle is taken
 *		stubs of the exits
 *		constants: return addresses that calls push
 *
 * Invariants
 * 1. In the cache, rsp and the memory it points to are the program's at every instruction boundary
 *    of the program. Return addresses on its stack are the program's own.
 * 2. No sequence that is put in between changes a flag or a register that the program could still
 *    read.
 * 3. A displacement that is patched later lies within one cache line: other threads see the old or
 *    the new one.
 */
#include "engine/build.h"
#include "engine/stream.h"
#include "engine/superblocks.h"
#include "engine/translations.h"

enum {
	INSTRUCTION_BYTES = 15,
	CODE_BYTES = 64, /* that are looked at at a time */
	ROOM = 32768, /* bytes that a fragment may take */
	STUB_BYTES = 21,
};

/* --- Fragments --------------------------------------------------------------------------- */

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

/* Guarded code goes on in a page that is not guarded; a tool may want a segment to begin here. */
static bool is_cut(const struct build *build)
{
	struct fragment *fragment = build->fragment;
	const struct block *block = &fragment->blocks[build->block];

	if (build->back)
		return fragment->cut && build->block + 1 == fragment->block_count &&
		       build->pc == block->pc + block->length;
	if (!build->stop &&
	    (guard_ends(build->pc) ||
	     (tools_offer.cuts && build->pc != fragment->pc && tools_cut(build->pc))))
		fragment->cut = true;
	return fragment->cut;
}

static bool decode(struct build *build, const uint8_t *code, size_t size)
{
	build->code = code;
	if (size >= INSTRUCTION_BYTES && instruction_decode_common(code, &build->insn))
		return true;
	return instruction_decode(code, size, &build->insn);
}

/* Instructions up to one that goes elsewhere. */
static void block_put(struct build *build)
{
	uint8_t code[CODE_BYTES + DECODE_BYTES];
	size_t size = 0, at = 0;
	unsigned count = 0;

	while (!build->ended && count < STREAM_BLOCK_INSTRUCTIONS_MAX && build->pc != build->stop &&
	       !is_cut(build) && !insert_is_full(build)) {
		uint8_t *before;

		build->block_instructions = count;
		build->before[0] = build->before[1] = (struct happened){};
		put_state(build, build->pc, 0);
		if (size - at < INSTRUCTION_BYTES) {
			at = 0;
			size = code_copy(build, code, CODE_BYTES);
		}
		if (!decode(build, code + at, size - at)) {
			translator_refuse();
			fault_put(build);
			break;
		}
		insert_before(build);
		before = build->at;
		if (!instruction_put(build)) {
			build->at = before;
			fault_put(build); /* the engine does it, so it belongs to the block */
		}
		if (!build->ended) {
			build->block_instructions = count + 1;
			insert_after(build);
		}
		build->pc += build->insn.length;
		at += build->insn.length;
		count++;
		build->ordinal++;
	}
	if (!build->back)
		build->fragment->blocks[build->block].instructions = (uint16_t)count;
	build->instructions += count;
	if (!build->ended)
		put_leave(build, build->pc);
}

/* Changing code that could be decoded has an end. */
static bool is_there(const struct build *build)
{
	return region_of(build->pc) && !build->far &&
	       (build->stop || code_is_stable(build->thread, build->pc));
}

static long blocks_put(void *context, void *unused)
{
	struct build *build = context;
	struct fragment *fragment = build->fragment;

	if (!build->back && !is_there(build)) {
		translator_refuse();
		fragment->blocks[0] = (struct block){ .pc = build->pc };
		fragment->block_count = 1;
		put_state(build, build->pc, 0);
		put_jump(build, build->pc,
			 build->far && region_of(build->pc) ? EXIT_FAR : EXIT_FAULT);
		return 0;
	}
	for (;; build->block++) {
		uint64_t start = build->pc;

		if (!build->back)
			fragment->blocks[build->block] = (struct block){ .pc = start };
		build->ended = false;
		build->follow = 0;
		block_put(build);
		if (!build->back)
			fragment->blocks[build->block].length = (uint32_t)(build->pc - start);
		if (!build->follow)
			break;
		build->pc = build->follow;
	}
	if (!build->back)
		fragment->block_count = build->block + 1;
	tails_put(build);
	return 0;
}

/*
 * The segment that ends with the block, or with the one before if nothing of it can be executed; 0:
 * none.
 */
static uint32_t segment_ended(const struct build *build, unsigned block)
{
	bool executed = build->fragment->blocks[block].instructions;

	return build->first_segment && (executed || block)
		       ? build->first_segment + block - !executed
		       : 0;
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
	exit->segment = segment_ended(build, build->exits[index].block);
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
		if (translator_runs)
			translator_word(build, build->at, TRANSLATION_ADDRESS);
		put_bytes(build, &build->constants[i].value, 8);
	}
}

/* Keeps the bytes of code that may have changed when it is translated back. */
static void bytes_keep(struct fragment *fragment)
{
	const uint8_t *from = fragment->bytes;
	size_t size = 0, at = 0;
	uint32_t rights = keys_open();
	uint8_t *bytes;

	for (unsigned i = 0; i < fragment->block_count; i++)
		size += fragment->blocks[i].length;
	fragment->bytes = bytes = cache_notes(size);
	for (unsigned i = 0; i < fragment->block_count; i++) {
		const struct block *block = &fragment->blocks[i];

		memory_copy(bytes + at, from ? from + at : (const uint8_t *)block->pc,
			    block->length);
		at += block->length;
	}
	keys_close(rights);
}

static void parts_put(struct build *build, const struct changing_code *changing)
{
	struct fragment *fragment = build->fragment;

	fragment->start = build->at;
	if (changing->length) {
		build->stop = build->pc + changing->length;
		fragment->bytes = changing->bytes;
		build->at = changing_code_put_stale(fragment, changing, build->at);
	}
	fragment->indirect = build->at;
	entry_put(build);
	fragment->entry = build->at;
	if (changing->length)
		build->at = changing_code_put_check(fragment, changing, build->at);
	fragment->body = build->at;
	guarded_call(blocks_put, build, NULL);
	for (unsigned i = 0; i < build->exit_count; i++)
		stub_put(build, i);
	constants_put(build);
	fragment->end = build->at;
}

void fragment_define(const struct fragment *fragment)
{
	stream_segments_define(fragment);
	tools_fragment(fragment->first_segment);
	if (tools_offer.superblock_percent)
		superblocks_note(fragment);
}

static struct fragment *fragment_make(struct thread *thread, uint64_t pc, const struct plan *plan)
{
	const struct region *region = region_of(pc);
	bool is_changing = region && !code_is_stable(thread, pc);
	struct build build;
	struct changing_code changing = {};
	uint8_t *room = region ? cache_room(pc, ROOM) : NULL;
	struct fragment *fragment;

	build_clear(&build);
	build.thread = thread;
	build.pc = pc;
	build.plan = plan;
	build.far = !room;
	if (!room)
		room = cache_room((uint64_t)engine_exit, ROOM);
	if (!room)
		fault_memory("no room for translated code");
	build.at = (uint8_t *)(((uintptr_t)room + 15) & ~(uintptr_t)15);
	build.fragment = fragment = cache_fragment(pc);
	build.first_segment = tools_any() ? stream_segments_next() : 0;
	insert_start(&build);
	if (is_changing && !build.far)
		changing_code_look(thread, pc, &changing);
	parts_put(&build, &changing);
	fragment->first_segment = build.first_segment;
	fragment->ends = build.ends;
	cache_add(fragment);
	insert_finish(&build, fragment);
	if (is_changing || (region && !region->inode) || guard_knows(pc))
		bytes_keep(fragment);
	if (fragment->first_segment)
		fragment_define(fragment);
	if (!plan)
		translations_hint(fragment);
	if (is_changing && !changing.length)
		fragment_close(fragment); /* for this once: it may be code the next time */
	return fragment;
}

struct fragment *translate(struct thread *thread, uint64_t pc)
{
	struct fragment *fragment = cache_find(pc);
	uint64_t begin;

	if (!fragment)
		fragment = translations_take(pc);
	if (fragment)
		return fragment;
	if (!tools_offer.paused)
		return fragment_make(thread, pc, NULL);
	begin = __builtin_ia32_rdtsc();
	fragment = fragment_make(thread, pc, NULL);
	tools_paused(thread, __builtin_ia32_rdtsc() - begin);
	return fragment;
}

bool translate_superblock(struct thread *thread, const struct plan *plan)
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

		build->block = exit->block;
		build->pc = exit->kind == EXIT_SYSCALL ? exit->target - exit->length : exit->target;
		for (unsigned j = 0; j < INSERTED_BEFORE; j++)
			build->before[j] = exit->before[j];
		put_state(build, build->pc,
			  exit->kind == EXIT_DIRECT ? STATE_WHOLE | STATE_TOLD : 0);
		build->at += STUB_BYTES;
	}
}

/*
 * As when the fragment was made, but that nothing is written: the state at the address wanted is
 * found.
 */
static void build_back(struct build *build, struct fragment *fragment)
{
	build->fragment = fragment;
	build->pc = fragment->pc;
	build->stop = fragment->checked ? fragment->pc + fragment->blocks[0].length : 0;
	build->at = fragment->indirect;
	build->first_segment = fragment->first_segment;
	build->ends = fragment->ends;
	build->next_inserted = fragment->inserted;
	entry_put(build);
	build->at = fragment->body;
	guarded_call(blocks_put, build, NULL);
	stubs_back(build);
}

/* The segment that was interrupted ends there, unless tools know of it. */
static void segment_settle(struct thread *thread, const struct build *build)
{
	const struct fragment *fragment = build->fragment;
	const struct block *block = &fragment->blocks[build->state_block];

	if (!build->first_segment || build->state & STATE_TOLD)
		return;
	if (build->state & STATE_WHOLE && build->state_told)
		tools_segment_ended(thread, build->first_segment + build->state_block,
				    build->state_told);
	else
		tools_segment_cut(thread, fragment, build->state_block,
				  build->state & STATE_WHOLE ? block->length
							     : build->state_pc - block->pc,
				  build->state_instructions);
}

bool translate_back(struct thread *thread, uint64_t at)
{
	struct fragment *fragment = cache_holder(at);
	struct build build = { .thread = thread, .back = true, .wanted = (const uint8_t *)at };
	uint64_t target = thread->regs[RDX];

	if (!fragment)
		return false;
	if (fragment->checked && changing_code_back(thread, fragment, build.wanted))
		return true;
	build_back(&build, fragment);
	registers_back(thread, &build);
	if (build.state & STATE_FORWARD && !special_is_address(thread->pc))
		branch_undo(thread, fragment, build.state_block);
	insert_settle(thread, &build, target);
	segment_settle(thread, &build);
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

unsigned translate_block(struct thread *thread, const struct fragment *fragment, uint64_t at)
{
	struct build build = { .thread = thread, .back = true, .wanted = (const uint8_t *)at };

	build_back(&build, (struct fragment *)fragment);
	return build.state_block;
}

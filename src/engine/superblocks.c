// SPDX-License-Identifier: BSD-2-Clause
/*
 * Superblocks: fragments that follow the ways the program goes most often, so that segments become
 * longer and fewer.
 *
 * A fragment is made when its code is reached for the first time, and nothing is known but that
 * most branches are not taken. Later the thread's ring holds the sequence of segments that it has
 * executed. So when a chunk is full, some places of it are sampled: the fragment that was entered
 * there, and where control went from it each time in this chunk. At each end of a block the more
 * frequent way is followed, from fragment to fragment, as long as it is frequent enough for the
 * tool and a fair part of the entries goes along. If that leads elsewhere than the fragment does, a
 * new one takes its place.
 *
 *	segments	7: blocks A B; 9: blocks C D; 4: block C
 *	chunk		... 7 9 7 9 7 9 4 7 9 ...
 *	entries of A	7, four times
 *	followed by	9, all; so B, which jumped to C, is followed by C, D, up to A again
 *	plan		A B C D
 *
 * A segment number stands for a block of a fragment, the last one that was executed: all that is
 * needed of the past are the addresses of blocks, by number. They are kept when the fragments are
 * gone.
 *
 * A superblock begins best at the head of a loop, where control comes back to. But then what a loop
 * does on its less frequent ways, and what is called from many places, would stay as it was
 * translated first. So half of the superblocks begin at any fragment. If the tool looks for cycles
 * in segments, these end where a loop begins anew: each way through it would be a segment of its
 * own, and no segment common to all.
 *
 * Chunks are sampled less and less often while that yields nothing new, and each head gets a few
 * superblocks at most.
 *
 * Invariants
 * 1. A plan is a hint. translate.c follows it where the code goes that way at all.
 * 2. No block comes twice in a plan if the tool looks for cycles in segments: each number of trips
 *    would be a segment of its own.
 * 3. Notes are written with the engine's lock held, before a segment is in a ring, and never
 *    change: they are read without.
 */
#include "engine/build.h"
#include "engine/stream.h"
#include "engine/tool.h"
#include "engine/superblocks.h"

enum {
	WINDOW = 4096, /* segments of a chunk that are looked at */
	CANDIDATES = 8, /* places of it where a superblock may begin */
	ENTRIES = 512, /* of a fragment, that are followed */
	ENTRIES_MIN = 8,
	SHARE_MIN = 8, /* a superblock ends where less than one of so many entries goes along */
	LOOP_BYTES = 1 << 12, /* of code; a jump further back is taken for a call or return */
	HEADS = 1 << 12,
	PROBES = 8,
	TRIES_MAX = 4, /* superblocks of a head */
	PAUSE_MAX = 255, /* chunks that are not looked at */
};

/* What is known of a segment, that is, of the block it ends with. */
struct note {
	uint64_t pc : 48;
	uint64_t block : 8;
	uint64_t ends : 1; /* the last of the fragment */
	uint64_t leads : 1; /* on in the cache */
	uint64_t known : 1; /* a signal has not made it */
};

static struct note *notes;

static struct head {
	uint64_t pc;
	uint32_t tries;
} heads[HEADS];

void superblocks_note(const struct fragment *fragment)
{
	uint32_t count = fragment->block_count;

	if (!fragment->blocks[count - 1].instructions)
		count--; /* it has no segment */
	if (!notes)
		notes = memory_map(STREAM_SEGMENTS_MAX * sizeof(*notes));
	for (uint32_t i = 0; notes && i < count; i++)
		notes[fragment->first_segment + i] = (struct note){
			.pc = fragment->blocks[i].pc,
			.block = i,
			.ends = i + 1 == count,
			.leads = fragment->blocks[i].leads,
			.known = fragment->blocks[i].pc >> 47 == 0,
		};
}

/* Entries of a fragment: where they are in the chunk. */
struct entries {
	const uint32_t *segments;
	uint32_t segment_count;
	uint32_t count;
	bool inner; /* of a superblock that does not go back to the head of a loop */
	uint16_t at[ENTRIES];
};

static uint32_t first_of(uint32_t segment)
{
	return segment - notes[segment].block;
}

static uint32_t last_of(uint32_t segment)
{
	while (!notes[segment].ends)
		segment++;
	return segment;
}

static void entries_find(struct entries *entries, uint32_t segment)
{
	uint32_t first = first_of(segment), count = last_of(segment) - first + 1;

	entries->count = 0;
	for (uint32_t i = 0; i < entries->segment_count && entries->count < ENTRIES; i++)
		if (entries->segments[i] - first < count)
			entries->at[entries->count++] = (uint16_t)i;
}

/* Keeps those that end there, or those that do not: whatever are more. False: they are too few. */
static bool entries_vote(struct entries *entries, uint32_t segment, bool *ret_end)
{
	uint32_t ending = 0, kept = 0, before = entries->count;

	for (uint32_t i = 0; i < before; i++)
		ending += entries->segments[entries->at[i]] == segment;
	*ret_end = 2 * ending >= before;
	for (uint32_t i = 0; i < before; i++)
		if ((entries->segments[entries->at[i]] == segment) == *ret_end)
			entries->at[kept++] = entries->at[i];
	entries->count = kept;
	return kept * 100 >= before * tools_offer.superblock_percent;
}

/* On to the segments behind, as far as they are of one fragment; gives its first, or 0. */
static uint32_t entries_advance(struct entries *entries)
{
	uint32_t kept = 0, first = 0;

	for (uint32_t i = 0; i < entries->count; i++) {
		uint32_t at = entries->at[i] + 1u;

		if (at == entries->segment_count || !notes[entries->segments[at]].known)
			continue;
		if (!first)
			first = first_of(entries->segments[at]);
		if (first_of(entries->segments[at]) == first)
			entries->at[kept++] = (uint16_t)at;
	}
	entries->count = kept;
	return first;
}

static bool goes_back(const struct plan *plan, uint32_t segment)
{
	uint64_t from = plan->pcs[plan->count - 1], to = notes[segment].pc;

	return to <= from && from - to < LOOP_BYTES;
}

/* False: it is full, or has it already, which the tool does not like. */
static bool plan_add(struct plan *plan, uint64_t pc)
{
	for (uint32_t i = 0; i < plan->count; i++)
		if (plan->pcs[i] == pc && tools_offer.superblock_once)
			return false;
	if (plan->count == BLOCKS_MAX)
		return false;
	plan->pcs[plan->count++] = pc;
	return true;
}

/*
 * Follows entries through the fragment whose first segment is given. False: there the superblock
 * ends.
 */
static bool fragment_follow(struct entries *entries, struct plan *plan, uint32_t segment)
{
	bool end = false;

	for (; !end; segment++)
		if (!plan_add(plan, notes[segment].pc) || !entries_vote(entries, segment, &end))
			return false;
	return notes[segment - 1].leads;
}

static void plan_make(struct entries *entries, uint32_t segment, struct plan *ret)
{
	uint32_t fewest = entries->count / SHARE_MIN;

	ret->count = 0;
	for (segment = first_of(segment); segment && entries->count > fewest;
	     segment = entries_advance(entries)) {
		if (entries->inner && ret->count && goes_back(ret, segment))
			return;
		if (!fragment_follow(entries, ret, segment))
			return;
	}
}

/* The fragment goes that way by itself. */
static bool is_nothing_new(const struct plan *plan, const struct fragment *fragment)
{
	if (plan->count > fragment->block_count)
		return false;
	for (uint32_t i = 0; i < plan->count; i++)
		if (fragment->blocks[i].pc != plan->pcs[i])
			return false;
	return true;
}

/* When there is no place for one more, all begin anew: that is after thousands of superblocks. */
static struct head *head_of(uint64_t pc)
{
	uint64_t start = pc ^ pc >> 12;

	for (uint64_t i = start; i < start + PROBES; i++) {
		struct head *head = &heads[i % HEADS];

		if (!head->pc)
			head->pc = pc;
		if (head->pc == pc)
			return head;
	}
	for (size_t i = 0; i < HEADS; i++)
		heads[i] = (struct head){};
	heads[start % HEADS].pc = pc;
	return &heads[start % HEADS];
}

static bool superblock_make(struct thread *thread, const struct plan *plan)
{
	const struct fragment *fragment = cache_find(plan->pcs[0]);
	struct head *head;

	if (!fragment || is_nothing_new(plan, fragment))
		return false;
	head = head_of(plan->pcs[0]);
	return head->tries++ < TRIES_MAX && translate_superblock(thread, plan);
}

static bool candidate_try(struct thread *thread, struct entries *entries, uint32_t segment)
{
	struct plan plan;
	bool made;

	if (!notes[segment].known)
		return false;
	entries_find(entries, segment);
	if (entries->count < ENTRIES_MIN)
		return false;
	plan_make(entries, segment, &plan);
	engine_lock();
	made = superblock_make(thread, &plan);
	engine_unlock();
	return made;
}

/* Prefers the head of a loop near that place, to which control comes back. */
static uint32_t loop_head_near(const uint32_t *segments, uint32_t at, uint32_t count)
{
	enum { NEAR = 16 };

	for (uint32_t i = at + 1; i < count && i < at + NEAR; i++)
		if (notes[first_of(segments[i])].pc <= notes[segments[i - 1]].pc)
			return segments[i];
	return segments[at];
}

void superblocks_learn(struct thread *thread, const uint32_t *segments, uint32_t count)
{
	struct entries entries = { .segment_count = count < WINDOW ? count : WINDOW };
	bool made = false;

	if (!notes || thread->superblock_pause-- > 0)
		return;
	thread->superblock_seed = thread->superblock_seed * 1664525 + 1013904223;
	entries.segments =
		segments + (thread->superblock_seed >> 8) % (count - entries.segment_count + 1);
	for (uint32_t i = 0; i < CANDIDATES; i++) {
		uint32_t at = entries.segment_count / CANDIDATES * i;
		bool anywhere = i % 2;

		entries.inner = anywhere && tools_offer.superblock_once;
		made |= candidate_try(thread, &entries,
				      anywhere ? entries.segments[at]
					       : loop_head_near(entries.segments, at,
								entries.segment_count));
	}
	thread->superblock_idle = made ? 0 : thread->superblock_idle * 2 + 1;
	if (thread->superblock_idle > PAUSE_MAX)
		thread->superblock_idle = PAUSE_MAX;
	thread->superblock_pause = thread->superblock_idle;
}

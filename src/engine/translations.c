// SPDX-License-Identifier: BSD-2-Clause
/*
 * Translations that processes share (wire/translations.h): tells the host what was translated here,
 * and takes over what its translator has made of the same code.
 *
 *	in	fragments that were made of a file's code; the memory with what all share
 *	out	hints for the host; fragments that need not be made
 *	owner	the process, under the engine's lock; what is shared belongs to the host
 *
 * A bundle is taken over as a whole: the fragments in it were reached one after the other in other
 * processes, so that this one will probably reach them too, and links between them are there at
 * once. Its code is copied, and what depends on addresses or numbers is adapted.
 *
 * Invariants
 * 1. Nothing is taken over unless all bytes that it was made of are the same here, in one mapping
 *    of the same file that nobody can write.
 * 2. A fragment that was taken over is as if it had been made here: it is translated back and
 *    closed like any other.
 */
#include "wire/translations.h"

#include "engine/build.h"
#include "engine/stream.h"
#include "engine/translations.h"

enum { READ_BYTES = 512 };

static struct translation_module modules[TRANSLATION_MODULES];
static uint32_t module_count;
static bool told[TRANSLATION_MODULES]; /* the host knows of it, in this process */
static uint32_t last_module;

static bool is_on(void)
{
	return engine_boot.flags & ENGINE_SHARES;
}

/* --- Hints -------------------------------------------------------------------------------- */

static struct translation_hints *hints(void)
{
	return (struct translation_hints *)(engine_boot.shared + TRANSLATION_HINTS);
}

static bool file_is(const struct translation_file *file, const struct region *region)
{
	return file->inode == region->inode && file->device_major == region->device_major &&
	       file->device_minor == region->device_minor;
}

/* TRANSLATION_MODULES: it is none of those that are known. */
static uint32_t module_find(const struct region *region)
{
	if (last_module < module_count && file_is(&modules[last_module].file, region))
		return last_module;
	for (uint32_t i = 0; i < module_count; i++)
		if (file_is(&modules[i].file, region))
			return last_module = i;
	return TRANSLATION_MODULES;
}

void translations_module(const struct region *region, const char *path)
{
	struct translation_module *module = &modules[module_count];
	size_t length = 0;

	if (!is_on() || !region->inode || module_count == TRANSLATION_MODULES ||
	    module_find(region) < module_count)
		return;
	for (; path[length]; length++)
		if (length + 1 == TRANSLATION_PATH)
			return;
	__builtin_memcpy(module->path, path, length + 1);
	module->file = (struct translation_file){ region->inode, region->device_major,
						  region->device_minor };
	module_count++;
}

void translations_forked(void)
{
	__builtin_memset(told, 0, sizeof(told));
}

/* The host gives numbers in the order in which it sees modules: ours have to be the same. */
static bool module_tell(uint32_t number)
{
	if (told[number])
		return true;
	if (hints()->module_count > TRANSLATION_MODULES)
		return false;
	hints()->modules[number] = modules[number];
	told[number] = true;
	__atomic_store_n(&hints()->module_count, module_count, __ATOMIC_RELEASE);
	return true;
}

void translations_hint(const struct fragment *fragment)
{
	const struct region *region = is_on() ? region_of(fragment->pc) : NULL;
	uint32_t count, number;
	uint64_t offset;

	if (!region || !region->inode || fragment->checked || fragment->bytes || fragment->closed)
		return;
	number = module_find(region);
	offset = fragment->pc - region->start + region->offset;
	count = hints()->count;
	if (number >= module_count || count >= TRANSLATION_HINTS_MAX ||
	    offset >> TRANSLATION_HINT_SHIFT || !module_tell(number))
		return;
	hints()->hints[count] = (uint64_t)number << TRANSLATION_HINT_SHIFT | offset;
	__atomic_store_n(&hints()->count, count + 1, __ATOMIC_RELEASE);
}

/* --- Taking over -------------------------------------------------------------------------- */

/* A bundle that is about to be taken over, and where. */
struct adoption {
	const struct translation_bundle *bundle;
	const struct translation_fragment *fragments;
	const struct translation_exit *exits;
	const struct translation_block *blocks;
	const struct translation_range *ranges;
	const struct translation_word *words;
	const uint8_t *from;
	uint64_t base; /* address of the program's that bundle->base has here */
	uint8_t *code;
	uint32_t first_segment; /* 0: none are recorded */
	struct fragment *made[TRANSLATION_FRAGMENTS];
};

static struct translations *shared(void)
{
	return (struct translations *)(engine_boot.shared +
				       stream_translations_at(engine_boot.shared_size));
}

static const struct translation_bundle *bundle_find(const struct region *region, uint64_t pc)
{
	const struct translation_file file = { region->inode, region->device_major,
					       region->device_minor };
	uint64_t offset = pc - region->start + region->offset;
	uint64_t key = translation_key(&file, offset);

	if (!__atomic_load_n(&shared()->count, __ATOMIC_ACQUIRE))
		return NULL;
	for (unsigned probe = 0; probe < TRANSLATION_PROBES; probe++) {
		const struct translation_slot *slot =
			&shared()->slots[translation_slot_index(&file, offset, probe)];
		uint64_t found = __atomic_load_n(&slot->key, __ATOMIC_ACQUIRE);
		const struct translation_bundle *bundle =
			(const void *)((const uint8_t *)shared() + slot->at);

		if (!found)
			return NULL;
		if (found == key && file_is(&bundle->file, region))
			return bundle;
	}
	return NULL;
}

static void parts_find(struct adoption *adoption, const struct translation_bundle *bundle)
{
	adoption->bundle = bundle;
	adoption->fragments = (const void *)(bundle + 1);
	adoption->exits = (const void *)(adoption->fragments + bundle->fragment_count);
	adoption->blocks = (const void *)(adoption->exits + bundle->exit_count);
	adoption->ranges = (const void *)(adoption->blocks + bundle->block_count);
	adoption->words = (const void *)(adoption->ranges + bundle->range_count);
	adoption->from = (const uint8_t *)bundle + translation_parts(bundle);
}

uint64_t translations_hash(uint64_t hash, uint64_t pc, uint64_t length)
{
	uint8_t bytes[READ_BYTES];
	size_t size;

	for (uint64_t end = pc + length; pc < end; pc += size) {
		size = code_read(pc, bytes, end - pc < READ_BYTES ? end - pc : READ_BYTES);
		if (!size)
			break;
		hash = translation_hash(hash, bytes, size);
	}
	return hash;
}

/* Whether the program's bytes are those that the bundle was made of. */
static bool is_same(const struct adoption *adoption)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < adoption->bundle->range_count; i++)
		hash = translations_hash(hash, adoption->base + adoption->ranges[i].pc,
					 adoption->ranges[i].length);
	return hash == adoption->bundle->hash;
}

static bool is_within(const struct translation_bundle *bundle, const struct region *region)
{
	return bundle->base >= region->offset &&
	       bundle->base + bundle->span <= region->offset + (region->end - region->start);
}

/* Copies the code and adapts it. Nobody can reach it yet. False: something is too far away. */
static bool code_place(const struct adoption *adoption)
{
	const struct translation_bundle *bundle = adoption->bundle;
	uint64_t moved = (uint64_t)adoption->code - adoption->base - bundle->shift;
	uint32_t segments = adoption->first_segment - bundle->first_segment;
	int32_t number;
	int64_t distance;
	uint64_t address;

	__builtin_memcpy(adoption->code, adoption->from, bundle->code_size);
	for (uint32_t i = 0; i < bundle->word_count; i++) {
		uint8_t *place = adoption->code + adoption->words[i].at;

		__builtin_memcpy(&number, place, 4);
		switch ((enum translation_word_kind)adoption->words[i].kind) {
		case TRANSLATION_DISTANCE:
			distance = (int64_t)number - (int64_t)moved;
			if (distance != (int32_t)distance)
				return false;
			number = (int32_t)distance;
			break;
		case TRANSLATION_ADDRESS:
			__builtin_memcpy(&address, place, 8);
			address += adoption->base;
			__builtin_memcpy(place, &address, 8);
			continue;
		case TRANSLATION_SEGMENT:
			number += (int32_t)segments;
			break;
		case TRANSLATION_COUNTER:
			number += (int32_t)segments * 8;
			break;
		case TRANSLATION_NUMBER:
			continue; /* with the exits */
		}
		__builtin_memcpy(place, &number, 4);
	}
	return true;
}

static void exit_make(const struct adoption *adoption, const struct translation_exit *from)
{
	enum { STUB_NUMBER = 9 }; /* behind movq, %gs:EXIT */
	struct exit *exit;
	uint32_t number = cache_exit_new(&exit);

	exit->target = adoption->base + (uint64_t)(int64_t)from->target;
	exit->kind = from->kind;
	exit->length = from->length;
	exit->patch = from->patch ? adoption->code + from->patch : NULL;
	exit->stub = adoption->code + from->stub;
	if (from->segment)
		exit->segment =
			from->segment - adoption->bundle->first_segment + adoption->first_segment;
	write32(adoption->code + from->stub + STUB_NUMBER, number);
}

static struct fragment *fragment_make(const struct adoption *adoption,
				      const struct translation_fragment *from,
				      const struct translation_block *blocks)
{
	struct fragment *fragment = cache_fragment(adoption->base + from->pc);

	fragment->start = adoption->code + from->start;
	fragment->indirect = adoption->code + from->indirect;
	fragment->entry = adoption->code + from->entry;
	fragment->body = adoption->code + from->body;
	fragment->end = adoption->code + from->end;
	fragment->block_count = from->block_count;
	for (uint32_t i = 0; i < from->block_count; i++)
		fragment->blocks[i] = (struct block){ .pc = adoption->base + blocks[i].pc,
						      .length = blocks[i].length,
						      .instructions = blocks[i].instructions,
						      .leads = blocks[i].leads };
	if (from->first_segment)
		fragment->first_segment = from->first_segment - adoption->bundle->first_segment +
					  adoption->first_segment;
	fragment->ends.flags_dead = from->flags_dead;
	for (unsigned i = 0; i < 4; i++)
		fragment->ends.scratch[i] = from->scratch[i];
	cache_add(fragment);
	if (fragment->first_segment)
		fragment_define(fragment);
	return fragment;
}

/* Fragments with their exits, in the order in which they were made. Gives the first exit. */
static void all_make(struct adoption *adoption)
{
	const struct translation_exit *exit = adoption->exits;
	const struct translation_block *block = adoption->blocks;

	for (uint32_t i = 0; i < adoption->bundle->fragment_count; i++) {
		const struct translation_fragment *from = &adoption->fragments[i];

		for (unsigned j = 0; j < from->exit_count; j++)
			exit_make(adoption, exit++);
		adoption->made[i] = fragment_make(adoption, from, block);
		block += from->block_count;
	}
}

/* What leads to a fragment that is there leads to it at once. */
static void all_link(const struct adoption *adoption, uint32_t first_exit)
{
	for (uint32_t i = 0; i < adoption->bundle->exit_count; i++) {
		const struct translation_exit *from = &adoption->exits[i];
		struct fragment *to =
			from->to == TRANSLATION_NONE
				? cache_find(adoption->base + (uint64_t)(int64_t)from->target)
				: adoption->made[from->to];

		if (to && from->kind == EXIT_DIRECT)
			exit_link(cache_exit(first_exit + i), to);
	}
}

static bool room_find(struct adoption *adoption, uint64_t pc)
{
	const struct translation_bundle *bundle = adoption->bundle;
	uint8_t *room = cache_room(pc, TRANSLATION_CODE + TRANSLATION_ALIGNMENT);

	if (!room)
		return false;
	adoption->code = (uint8_t *)(((uintptr_t)room + TRANSLATION_ALIGNMENT - 1) &
				     ~(uintptr_t)(TRANSLATION_ALIGNMENT - 1));
	adoption->first_segment = 0;
	if (!tools_any())
		return true;
	adoption->first_segment = stream_segments_next();
	return adoption->first_segment &&
	       adoption->first_segment + bundle->segment_count + BLOCKS_MAX < STREAM_SEGMENTS_MAX;
}

struct fragment *translations_take(uint64_t pc)
{
	const struct region *region = is_on() ? region_of(pc) : NULL;
	const struct translation_bundle *bundle;
	struct adoption adoption;
	uint32_t first_exit;

	if (!region || !region->inode || !region->readable || region_is_changing(region) ||
	    guard_knows(pc))
		return NULL;
	bundle = bundle_find(region, pc);
	if (!bundle || !is_within(bundle, region))
		return NULL;
	parts_find(&adoption, bundle);
	adoption.base = region->start + (bundle->base - region->offset);
	if (!is_same(&adoption) || !room_find(&adoption, pc) || !code_place(&adoption))
		return NULL;
	first_exit = cache_exit_next();
	all_make(&adoption);
	all_link(&adoption, first_exit);
	host_count(ENGINE_COUNT_SHARED);
	return cache_find(pc);
}

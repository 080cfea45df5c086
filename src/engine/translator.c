// SPDX-License-Identifier: BSD-2-Clause
/*
 * The translator: an engine in a process of Assay's own, which runs no program. It translates code
 * of files and writes the fragments down for other processes (wire/translations.h).
 *
 *	in	the exchange: files, and offsets in them at which fragments begin
 *	out	bundles, in the exchange
 *	owner	this process, which ends when it is done; the host takes the bundles from there
 *
 * A fragment depends on bytes of the program, which are kept as ranges; in its code, on where it
 * lies and on numbers of segments and exits, which are kept as words. What depends on anything else
 * is left out.
 */
#include <linux/mman.h>

#include "engine/build.h"
#include "engine/stream.h"
#include "engine/sys.h"
#include "engine/translations.h"

enum {
	FILE_MAX = 1 << 30,
	/* Code of a bundle lies this near together, so that its addresses have 32 bits. */
	SPREAD = 512 << 20,
};

bool translator_runs;

static struct translation_exchange *exchange;
static uint64_t bases[TRANSLATION_MODULES]; /* where files are mapped; 0: they are not */

/* The bundle that grows. */
static struct {
	uint32_t module;
	const uint8_t *code; /* NULL: there is none */
	uint32_t first_exit;
	uint32_t fragment_count, block_count, range_count, word_count;
	struct fragment *fragments[TRANSLATION_FRAGMENTS];
	uint32_t exit_ends[TRANSLATION_FRAGMENTS]; /* number behind the fragment's exits */
	struct {
		uint64_t pc;
		uint32_t length;
	} ranges[TRANSLATION_RANGES];
	struct {
		const uint8_t *place;
		enum translation_word_kind kind;
	} words[TRANSLATION_WORDS];
	bool refused; /* the fragment that is being made */
} bundle;

/* --- What a fragment depends on ----------------------------------------------------------- */

void translator_refuse(void)
{
	bundle.refused = true;
}

void translator_word(const struct build *build, const uint8_t *place,
		     enum translation_word_kind kind)
{
	if (build->back)
		return;
	if (bundle.word_count == TRANSLATION_WORDS) {
		bundle.refused = true;
		return;
	}
	bundle.words[bundle.word_count].place = place;
	bundle.words[bundle.word_count++].kind = kind;
}

void translator_range(uint64_t pc, uint32_t length)
{
	uint32_t last = bundle.range_count - 1;

	if (bundle.range_count && bundle.ranges[last].pc + bundle.ranges[last].length == pc) {
		bundle.ranges[last].length += length;
		return;
	}
	if (bundle.range_count == TRANSLATION_RANGES) {
		bundle.refused = true;
		return;
	}
	bundle.ranges[bundle.range_count].pc = pc;
	bundle.ranges[bundle.range_count++].length = length;
}

/* --- A bundle that is complete ------------------------------------------------------------- */

static uint64_t bundle_base(void)
{
	uint64_t base = UINT64_MAX;

	for (uint32_t i = 0; i < bundle.range_count; i++)
		if (bundle.ranges[i].pc < base)
			base = bundle.ranges[i].pc;
	return base;
}

static uint64_t bundle_end(void)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < bundle.range_count; i++)
		if (bundle.ranges[i].pc + bundle.ranges[i].length > end)
			end = bundle.ranges[i].pc + bundle.ranges[i].length;
	return end;
}

static uint32_t exits_of(uint32_t fragment)
{
	return bundle.exit_ends[fragment] -
	       (fragment ? bundle.exit_ends[fragment - 1] : bundle.first_exit);
}

static uint32_t fragment_at(uint64_t pc)
{
	for (uint32_t i = 0; i < bundle.fragment_count; i++)
		if (bundle.fragments[i]->pc == pc)
			return i;
	return TRANSLATION_NONE;
}

static uint32_t in_code(const uint8_t *at)
{
	return (uint32_t)(at - bundle.code);
}

static void fragments_write(struct translation_fragment *to, uint64_t base)
{
	for (uint32_t i = 0; i < bundle.fragment_count; i++) {
		const struct fragment *from = bundle.fragments[i];

		to[i] = (struct translation_fragment){
			.pc = (uint32_t)(from->pc - base),
			.start = in_code(from->start),
			.indirect = in_code(from->indirect),
			.entry = in_code(from->entry),
			.body = in_code(from->body),
			.end = in_code(from->end),
			.first_segment = from->first_segment,
			.block_count = (uint16_t)from->block_count,
			.exit_count = (uint16_t)exits_of(i),
			.flags_dead = from->ends.flags_dead,
		};
		for (unsigned j = 0; j < 4; j++)
			to[i].scratch[j] = from->ends.scratch[j];
	}
}

static void exits_write(struct translation_exit *to, uint32_t count, uint64_t base)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct exit *from = cache_exit(bundle.first_exit + i);

		to[i] = (struct translation_exit){
			.target = (int)(from->target - base),
			.patch = from->patch ? in_code(from->patch) : 0,
			.stub = in_code(from->stub),
			.segment = from->segment,
			.to = from->kind == EXIT_DIRECT ? fragment_at(from->target)
							: TRANSLATION_NONE,
			.kind = (uint16_t)from->kind,
			.length = (uint16_t)from->length,
		};
	}
}

static void blocks_write(struct translation_block *to, uint64_t base)
{
	for (uint32_t i = 0; i < bundle.fragment_count; i++)
		for (uint32_t j = 0; j < bundle.fragments[i]->block_count; j++) {
			const struct block *from = &bundle.fragments[i]->blocks[j];

			*to++ = (struct translation_block){ (uint32_t)(from->pc - base),
							    from->length, from->instructions,
							    from->leads };
		}
}

static void code_write(const struct translation_bundle *head, struct translation_word *words,
		       uint8_t *code, uint64_t base)
{
	uint64_t address;

	__builtin_memcpy(code, bundle.code, head->code_size);
	for (uint32_t i = 0; i < bundle.word_count; i++) {
		words[i].at = in_code(bundle.words[i].place);
		words[i].kind = bundle.words[i].kind;
		if (bundle.words[i].kind != TRANSLATION_ADDRESS)
			continue;
		__builtin_memcpy(&address, code + words[i].at, 8);
		address -= base;
		__builtin_memcpy(code + words[i].at, &address, 8);
	}
}

static uint64_t ranges_write(struct translation_range *to, uint64_t base)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < bundle.range_count; i++) {
		to[i] = (struct translation_range){ (uint32_t)(bundle.ranges[i].pc - base),
						    bundle.ranges[i].length };
		hash = translations_hash(hash, bundle.ranges[i].pc, bundle.ranges[i].length);
	}
	return hash;
}

static struct translation_bundle head_of(uint64_t base)
{
	const struct fragment *last = bundle.fragments[bundle.fragment_count - 1];
	uint32_t module = bundle.module;

	return (struct translation_bundle){
		.code_size = in_code(last->end),
		.fragment_count = bundle.fragment_count,
		.exit_count = bundle.exit_ends[bundle.fragment_count - 1] - bundle.first_exit,
		.block_count = bundle.block_count,
		.range_count = bundle.range_count,
		.word_count = bundle.word_count,
		.first_segment = bundle.fragments[0]->first_segment,
		.segment_count = last->first_segment + last->block_count -
				 bundle.fragments[0]->first_segment,
		.file = exchange->modules[module].module.file,
		.base = base - bases[module],
		.span = bundle_end() - base,
		.shift = (uint64_t)bundle.code - base,
	};
}

/* Does nothing if there is none. */
static void bundle_finish(void)
{
	uint64_t base = bundle_base();
	struct translation_bundle head, *to = (void *)(exchange->results + exchange->used);
	struct translation_fragment *fragments = (void *)(to + 1);
	struct translation_exit *exits;
	struct translation_block *blocks;
	struct translation_range *ranges;
	struct translation_word *words;

	if (!bundle.code || !bundle.fragment_count)
		return;
	head = head_of(base);
	head.size =
		(uint32_t)((translation_parts(&head) + head.code_size + TRANSLATION_ALIGNMENT - 1) &
			   ~(uint64_t)(TRANSLATION_ALIGNMENT - 1));
	if (exchange->used + head.size > TRANSLATION_RESULTS) {
		bundle.code = NULL;
		return;
	}
	exits = (void *)(fragments + head.fragment_count);
	blocks = (void *)(exits + head.exit_count);
	ranges = (void *)(blocks + head.block_count);
	words = (void *)(ranges + head.range_count);
	fragments_write(fragments, base);
	exits_write(exits, head.exit_count, base);
	blocks_write(blocks, base);
	head.hash = ranges_write(ranges, base);
	code_write(&head, words, (uint8_t *)to + translation_parts(&head), base);
	*to = head;
	exchange->used += head.size;
	bundle.code = NULL;
}

/* --- Fragments ---------------------------------------------------------------------------- */

static void bundle_start(uint32_t module, uint64_t pc)
{
	bundle.module = module;
	bundle.code = cache_align(pc);
	bundle.first_exit = cache_exit_next();
	bundle.fragment_count = bundle.block_count = bundle.range_count = bundle.word_count = 0;
}

/* Whether the fragment is the next one of the bundle. */
static bool bundle_add(struct fragment *fragment)
{
	for (uint32_t i = 0; i < fragment->block_count; i++)
		if (fragment->blocks[i].length)
			translator_range(fragment->blocks[i].pc, fragment->blocks[i].length);
	for (uint32_t i = bundle.first_exit; i < cache_exit_next(); i++)
		if (cache_exit(i)->kind == EXIT_FAR || cache_exit(i)->kind == EXIT_STALE)
			return false;
	if (bundle.refused || fragment->checked || fragment->bytes || fragment->closed ||
	    fragment->cut || !bundle.range_count || bundle_end() - bundle_base() > SPREAD ||
	    (uint64_t)(fragment->start - bundle.code) > TRANSLATION_CODE ||
	    fragment->end - bundle.code > TRANSLATION_CODE ||
	    (!bundle.fragment_count && fragment->start != bundle.code) ||
	    bundle.fragment_count == TRANSLATION_FRAGMENTS ||
	    bundle.block_count + fragment->block_count > TRANSLATION_BLOCKS ||
	    cache_exit_next() - bundle.first_exit > TRANSLATION_EXITS)
		return false;
	bundle.exit_ends[bundle.fragment_count] = cache_exit_next();
	bundle.fragments[bundle.fragment_count++] = fragment;
	bundle.block_count += fragment->block_count;
	return true;
}

/* Appends the fragment to the bundle; false: it does not fit, and is not there. */
static bool fragment_try(struct thread *thread, uint64_t pc)
{
	uint32_t ranges = bundle.range_count, words = bundle.word_count;
	struct fragment *fragment;
	bool added;

	bundle.refused = false;
	engine_lock();
	fragment = translate(thread, pc);
	added = bundle_add(fragment);
	if (!added)
		fragment_close(fragment);
	engine_unlock();
	if (!added) {
		bundle.range_count = ranges;
		bundle.word_count = words;
	}
	return added;
}

static void fragment_make(struct thread *thread, uint32_t module, uint64_t pc)
{
	if (cache_find(pc))
		return;
	if (bundle.code && bundle.module == module && fragment_try(thread, pc))
		return;
	bundle_finish();
	bundle_start(module, pc);
	if (!bundle.code || !fragment_try(thread, pc))
		bundle.code = NULL;
}

static void files_map(void)
{
	for (uint32_t i = 0; i < exchange->module_count && i < TRANSLATION_MODULES; i++) {
		uint64_t size = exchange->modules[i].size;
		int file = exchange->modules[i].fd;
		long at;

		if (file < 0 || !size || size > FILE_MAX)
			continue;
		at = sys_6(mmap, 0, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
		if (!sys_failed(at))
			bases[i] = (uint64_t)at;
	}
	regions_change(0, USER_ADDRESSES, true);
}

/*
 * One file after the other: programs call libraries all the time, and a bundle has code of one file
 * only.
 */
static void module_make(struct thread *thread, uint32_t module)
{
	for (uint32_t i = 0; i < exchange->offset_count && i < TRANSLATION_OFFSETS; i++) {
		uint64_t hint = exchange->offsets[i];
		uint64_t offset = hint & ((1ull << TRANSLATION_HINT_SHIFT) - 1);

		if (hint >> TRANSLATION_HINT_SHIFT == module &&
		    offset < exchange->modules[module].size)
			fragment_make(thread, module, bases[module] + offset);
	}
}

_Noreturn void translator_run(struct thread *thread)
{
	long at = sys_6(mmap, 0, sizeof(*exchange), PROT_READ | PROT_WRITE, MAP_SHARED,
			engine_boot.exchange, 0);

	if (sys_failed(at))
		sys_1(exit_group, 1);
	exchange = (struct translation_exchange *)at;
	translator_runs = true;
	files_map();
	for (uint32_t i = 0; i < TRANSLATION_MODULES; i++)
		if (bases[i])
			module_make(thread, i);
	bundle_finish();
	__atomic_store_n(&exchange->done, 1, __ATOMIC_RELEASE);
	sys_1(exit_group, 0);
	__builtin_unreachable();
}

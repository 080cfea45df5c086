// SPDX-License-Identifier: BSD-2-Clause
/*
 * From runs to hotlists.
 *
 * 1. Every run that the kernel has sent is kept or counted as lost.
 * 2. values_seen = values_kept + those of sites beyond max_sites.
 * 3. Values taken in the kernel have no owner: they may be anybody's.
 */
#include "ingest/values.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"
#include "ingest/replay.h"
#include "isa/lift.h"

#define OWNER_KERNEL (-1)

enum { NAMED_RANKS = 4 };

#define NAMED_SHARE 0.01

/* What is a number and nothing else. */
static const uint64_t plain_sources =
	CAPTURE_BIT(CAPTURE_TAKEN) | CAPTURE_BIT(CAPTURE_PATH) | CAPTURE_BIT(CAPTURE_PID) |
	CAPTURE_BIT(CAPTURE_TID) | CAPTURE_BIT(CAPTURE_PPID) | CAPTURE_BIT(CAPTURE_UID) |
	CAPTURE_BIT(CAPTURE_GID) | CAPTURE_BIT(CAPTURE_EUID) | CAPTURE_BIT(CAPTURE_EGID) |
	CAPTURE_BIT(CAPTURE_TTY) | CAPTURE_BIT(CAPTURE_CGROUP) | CAPTURE_BIT(CAPTURE_CPU) |
	CAPTURE_BIT(CAPTURE_PRIORITY) | CAPTURE_BIT(CAPTURE_POLICY) | CAPTURE_BIT(CAPTURE_PENDING) |
	CAPTURE_BIT(CAPTURE_BLOCKED) | CAPTURE_BIT(CAPTURE_INTERRUPT) |
	CAPTURE_BIT(CAPTURE_SYSCALL);

/* What a site is. */
struct site_key {
	struct location_id location, caller;
	uint32_t item;
	int64_t owner;
};

struct site {
	struct site_key key;
	uint64_t runs;
	uint64_t last_run; /* number of the newest run that gave a value */
	struct process_id
		process; /* the newest that gave a value and whose mappings are known; 0: none */
	uint8_t width;
	bool changed; /* since it was written */
	struct moments moments;
	struct hotlist list;
};

struct values {
	struct values_options options;
	struct store *store;
	struct loadmap *loadmap;
	struct locations *locations;
	struct blocks *blocks;
	struct replay *replay;
	struct module_id kernel;
	ARRAY(struct site) sites; /* id - 1 */
	struct map site_ids; /* hash of what it is to id; collisions go to the next key */
	struct map ends; /* enum uop_end << 16 | mnemonic to count */
	const struct run_record *run; /* being told */
	struct loadmap_process *process; /* whose it is; NULL until asked for */
	struct process_id mapped; /* the same if its mappings are known, otherwise 0 */
	uint64_t run_number;
	uint64_t kept, disagreed, steps, values_seen, values_kept;
};

static int items_put(struct values *values)
{
	const struct capture *capture = values->options.capture;
	int err = 0;

	for (size_t i = 0; i < capture->count && !err; i++) {
		const struct capture_item *item = &capture->items[i];
		struct store_value_item row = {
			.id = (uint32_t)i + 1,
			.text = item->text,
			.class = capture_class_text(item->class),
			.words = item->term_count,
		};

		err = store_value_item_put(values->store, &row);
	}
	return err;
}

int values_create(const struct values_options *options, struct store *store,
		  struct loadmap *loadmap, struct locations *locations, struct blocks *blocks,
		  struct values **ret)
{
	struct values *values = mem_zalloc(sizeof(*values));
	int err;

	values->options = *options;
	values->store = store;
	values->loadmap = loadmap;
	values->locations = locations;
	values->blocks = blocks;
	replay_create(blocks, &values->replay);
	err = items_put(values);
	if (err) {
		values_destroy(values);
		return err;
	}
	*ret = values;
	return 0;
}

void values_destroy(struct values *values)
{
	if (!values)
		return;
	array_each(&values->sites, site)
		hotlist_deinit(&site->list);
	array_deinit(&values->sites);
	map_deinit(&values->site_ids);
	map_deinit(&values->ends);
	replay_destroy(values->replay);
	free(values);
}

/* --- Places ---------------------------------------------------------------------------------------- */

static struct loadmap_process *process_of(struct values *values)
{
	const struct sample_record *record = &values->run->record;

	if (!values->process)
		values->process =
			loadmap_process_at(values->loadmap, record->image.tgid, record->time);
	return values->process;
}

static struct module_id kernel_module(struct values *values)
{
	if (!values->kernel.v)
		values->kernel = loadmap_kernel_module(values->loadmap, "[kernel]");
	return values->kernel;
}

/* Of a run-time address, in the kernel or in the process. */
static int location_of(struct values *values, uint64_t pc, struct location_id *ret)
{
	struct module_id module;
	uint64_t address = pc;

	if (values->run->flags & RUN_IN_KERNEL)
		module = kernel_module(values);
	else
		loadmap_resolve(values->loadmap, process_of(values), pc, values->run->record.time,
				&module, &address);
	return locations_add(values->locations, module, address, ret);
}

/* Of an instruction. Those of modules with a file are remembered with the translation, which every process shares. */
static int place_location(struct values *values, const struct replay_place *place,
			  struct location_id *ret)
{
	struct translation *translation = place->translation;
	struct module_id id = blocks_module_id(translation->key.module);
	uint32_t *known = &translation->locations[place->number];
	int err;

	if (!id.v && translation->key.module != RUN_MODULE_KERNEL)
		return location_of(values, place->pc, ret);
	if (!*known) {
		struct loadmap_module *module = id.v ? loadmap_module_get(values->loadmap, id)
						     : NULL;
		uint64_t base = module ? module->base : 0;

		err = locations_add(values->locations, id.v ? id : kernel_module(values),
				    translation->key.address + place->at + base, ret);
		if (err)
			return err;
		*known = ret->v;
	}
	ret->v = *known;
	return 0;
}

/* --- Sites ----------------------------------------------------------------------------------------- */

static bool is_same(const struct site_key *a, const struct site_key *b)
{
	return a->location.v == b->location.v && a->caller.v == b->caller.v && a->item == b->item &&
	       a->owner == b->owner;
}

static uint64_t site_hash(const struct site_key *key)
{
	return hash64_pair((uint64_t)key->location.v << 32 | key->caller.v,
			   (uint64_t)key->owner << 8 ^ key->item);
}

/* NULL: there is no room for another. */
static struct site *site_at(struct values *values, const struct site_key *wanted)
{
	struct hotlist_config config = values->options.list;
	struct site *site;
	uint64_t key = site_hash(wanted);

	for (uint64_t *id; (id = map_find(&values->site_ids, key)); key++) {
		site = &values->sites.items[*id - 1];
		if (is_same(&site->key, wanted))
			return site;
	}
	if (values->sites.count >= values->options.max_sites)
		return NULL;
	config.words = values->options.capture->items[wanted->item].term_count;
	config.seed = key;
	site = array_push(&values->sites);
	*site = (struct site){ .key = *wanted };
	if (hotlist_init(&site->list, &config)) {
		values->sites.count--;
		return NULL;
	}
	*map_at(&values->site_ids, key, NULL) = values->sites.count;
	return site;
}

/* As a signed number; a single bit is none. */
static int64_t signed_of(uint64_t value, unsigned width)
{
	unsigned shift = 64 - width;

	if (width == 1)
		return (int64_t)(value & 1);
	return (int64_t)(value << shift) >> shift;
}

static void site_add(struct values *values, struct site *site, const uint64_t *words)
{
	hotlist_add(&site->list, words);
	if (site->last_run != values->run_number)
		site->runs++;
	site->last_run = values->run_number;
	if (values->mapped.v)
		site->process = values->mapped;
	site->changed = true;
	if (site->list.words == 1)
		moments_add(&site->moments, signed_of(words[0], site->width));
}

/* The first branches of a path, as many as the item wants. */
static uint64_t path_cut(uint64_t path, unsigned wanted)
{
	unsigned branches = 63 - (unsigned)__builtin_clzll(path | 1);

	return branches > wanted ? path >> (branches - wanted) : path;
}

static int item_capture(struct values *values, size_t index, const struct replay_place *place,
			struct location_id location, struct capture_facts *facts)
{
	const struct capture_item *item = &values->options.capture->items[index];
	uint64_t words[HOTLIST_WORDS_MAX], path = facts->values[CAPTURE_PATH];
	struct site_key wanted = { .location = location, .item = (uint32_t)index };
	struct site *site;
	unsigned width;
	bool there;
	int err = 0;

	if (item->path_length)
		facts->values[CAPTURE_PATH] = path_cut(path, item->path_length);
	there = capture_words(item, facts, words, &width);
	facts->values[CAPTURE_PATH] = path;
	if (!there)
		return 0;
	values->values_seen++;
	wanted.owner = values->run->flags & RUN_IN_KERNEL ? OWNER_KERNEL
							  : (int64_t)values->run->owner;
	if (item->by_caller && place->caller)
		err = location_of(values, place->caller - 1, &wanted.caller);
	site = err ? NULL : site_at(values, &wanted);
	if (!site)
		return err;
	if (width > site->width)
		site->width = (uint8_t)width;
	values->values_kept++;
	site_add(values, site, words);
	return 0;
}

static bool is_captured(const struct capture_item *item, enum capture_class class)
{
	/* What is the same for a whole run is captured once. */
	return item->class == class || (class == CAPTURE_RUN && item->class == CAPTURE_CONTEXT);
}

static int on_place(void *ctx, const struct replay_place *place, struct capture_facts *facts)
{
	struct values *values = ctx;
	const struct capture *capture = values->options.capture;
	struct location_id location;
	int err = place_location(values, place, &location);

	values->steps += place->class == CAPTURE_INSTRUCTION;
	for (size_t i = 0; i < capture->count && !err; i++)
		if (is_captured(&capture->items[i], place->class) &&
		    !(capture->items[i].needs & ~facts->known))
			err = item_capture(values, i, place, location, facts);
	return err;
}

static void mapped_find(struct values *values)
{
	struct process_id process = { 0 };

	if (values->options.pointers && values->run->record.image.tgid)
		process = process_of(values)->id;
	if (process.v && !pointers_know(values->options.pointers, process))
		process.v = 0;
	values->mapped = process;
}

int values_run(struct values *values, const struct run_record *run)
{
	struct replay_end end;
	int err;

	values->run = run;
	values->process = NULL;
	mapped_find(values);
	values->run_number++;
	err = replay_run(values->replay, run, on_place, values, &end);
	if (err == -EBADMSG) {
		values->disagreed++;
		return 0;
	}
	if (err)
		return err;
	values->kept++;
	++*map_at(&values->ends, (uint64_t)end.end << 16 | end.mnemonic, NULL);
	return 0;
}

uint64_t values_read(const struct values *values)
{
	return values->kept + values->disagreed;
}

uint64_t values_kept(const struct values *values)
{
	return values->kept;
}

/* --- Names ------------------------------------------------------------------------------------------- */

static bool is_address(const struct site *site, const struct capture_term *term)
{
	if (term->fn.kind != VALUEFN_SELF || plain_sources & CAPTURE_BIT(term->source))
		return false;
	return site->list.words > 1 || site->width == 64;
}

static void site_name(struct values *values, const struct site *site, size_t rank)
{
	const struct capture_item *item = &values->options.capture->items[site->key.item];
	struct pointers *pointers = values->options.pointers;
	struct hotlist_value value;

	if (rank >= site->list.count)
		return;
	hotlist_get(&site->list, rank, &value);
	if (value.occurrences.best < NAMED_SHARE * (double)site->list.total)
		return;
	for (unsigned i = 0; i < item->term_count; i++) {
		if (!is_address(site, &item->terms[i]))
			continue;
		if (site->key.owner == OWNER_KERNEL)
			pointers_name_kernel(pointers, value.words[i]);
		pointers_name(pointers, site->process, value.words[i]);
	}
}

int values_name(struct values *values)
{
	if (!values->options.pointers)
		return 0;
	/* Should there be too many, those at the top of lists have their names. */
	for (size_t rank = 0; rank < NAMED_RANKS; rank++)
		array_each(&values->sites, site)
			site_name(values, site, rank);
	return pointers_flush(values->options.pointers);
}

/* --- To the store ------------------------------------------------------------------------------------ */

static int site_put(struct values *values, size_t index)
{
	struct site *site = &values->sites.items[index];
	uint8_t list[HOTLIST_BLOB_MAX];
	struct store_value row = {
		.id = (uint32_t)index + 1,
		.location = site->key.location,
		.caller = site->key.caller,
		.item = site->key.item + 1,
		.owner = site->key.owner,
		.width = site->width,
		.total = site->list.total,
		.runs = site->runs,
		.has_moments = site->list.words == 1,
		.minimum = site->moments.min,
		.maximum = site->moments.max,
		.mean = site->moments.mean,
		.squares = site->moments.squares,
		.list = list,
	};

	row.list_size = hotlist_encode(&site->list, list);
	site->changed = false;
	return store_value_put(values->store, &row);
}

static int ends_put(struct values *values)
{
	static const char *const names[][2] = {
#define X(name, json, text) [UOP_END_##name] = { json, text },
		UOP_ENDS(X)
#undef X
	};
	int err = 0;

	map_each(&values->ends, slot) {
		unsigned end = (unsigned)(slot->key >> 16), mnemonic = slot->key & 0xffff;
		const char *reason = end == UOP_END_NONE ? "length" : names[end][0];
		const char *text = end == UOP_END_NONE ? "reached its length" : names[end][1];

		if (!err)
			err = store_run_end_set(values->store, reason,
						mnemonic ? lift_mnemonic(mnemonic) : "", text,
						slot->value);
	}
	return err;
}

static int losses_put(struct values *values, const struct run_tally *tally)
{
	static const char *const names[][2] = {
#define X(name, json, text) [RUN_LOSS_##name] = { json, text },
		RUN_LOSSES(X)
#undef X
	};
	int err = 0;

	for (size_t i = 0; i < RUN_LOSS_COUNT && !err; i++) {
		uint64_t lost = tally->lost[i];

		if (i == RUN_LOSS_DISAGREED)
			lost += values->disagreed;
		if (lost)
			err = store_run_loss_set(values->store, names[i][0], names[i][1], lost);
	}
	return err;
}

static int totals_put(struct values *values, const struct run_tally *tally)
{
	uint64_t seen = values->kept + values->disagreed;

	for (size_t i = 0; i < RUN_LOSS_COUNT; i++)
		seen += tally->lost[i];

	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "runs_seen", seen },
		{ "runs_kept", values->kept },
		{ "steps", values->steps },
		{ "values_seen", values->values_seen },
		{ "values_kept", values->values_kept },
		{ "runs_nanoseconds", tally->nanoseconds },
		{ "runs_steps", tally->steps },
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !err; i++)
		err = store_meta_set_u64(values->store, numbers[i].key, numbers[i].value);
	return err;
}

int values_flush(struct values *values, const struct run_tally *tally)
{
	int err = 0;

	for (size_t i = 0; i < values->sites.count && !err; i++)
		if (values->sites.items[i].changed)
			err = site_put(values, i);
	err = err ? err : ends_put(values);
	err = err ? err : losses_put(values, tally);
	return err ? err : totals_put(values, tally);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * From runs to the values of sites.
 *
 *	in	records of runs, one at a time
 *	out	rows of hotlists by site for the store, with each flush
 *	owner	values_sink.c
 *
 * 1. Every run that the kernel has sent is kept or counted as lost.
 * 2. Values taken in the kernel have no owner, because they may belong to any user.
 */
#include "recorder/values.h"

#include <errno.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "recorder/replay.h"
#include "isa/lift.h"

/* The items that are captured at places of a class. */
struct place_items {
	uint8_t items[SELECTION_ITEMS_MAX];
	size_t count;
};

struct values {
	struct values_options options;
	struct store *store;
	struct loadmap *loadmap;
	struct locations *locations;
	struct translations *translations;
	struct replay *replay;
	struct module_id kernel;
	struct site_table *sites;
	struct place_items at[SELECTION_CLASS_COUNT];
	struct map ends; /* enum uop_end << 16 | mnemonic to count */
	struct map end_places; /* enum uop_end << 32 | location to count; not those of length */
	struct map end_places_new; /* the same, of those that are not written yet */
	const struct run_record *run; /* being told */
	struct loadmap_process *process; /* whose it is; NULL until asked for */
	uint64_t caller; /* return address that was looked up last in the run; 0 none */
	struct location_id caller_location;
	uint64_t run_number;
	uint64_t kept, disagreed, steps;
	uint64_t unread[RUN_UNREAD_COUNT]; /* loads that gave no value */
};

static int items_put(struct values *values)
{
	const struct selection *selection = values->options.sites.selection;
	int err = 0;

	for (size_t i = 0; i < selection->count && !err; i++) {
		const struct selection_item *item = &selection->items[i];
		struct store_value_item row = {
			.id.v = (uint32_t)i + 1,
			.text = item->text,
			.class = selection_class_text(item->class),
			.words = item->term_count,
		};

		err = store_value_item_put(values->store, &row);
	}
	return err;
}

static bool is_captured(const struct selection_item *item, enum selection_class class)
{
	/* What is the same for a whole run is captured once. */
	return item->class == class || (class == SELECTION_RUN && item->class == SELECTION_CONTEXT);
}

static void items_sort(struct values *values)
{
	const struct selection *selection = values->options.sites.selection;

	for (enum selection_class class = 0; class < SELECTION_CLASS_COUNT; class ++) {
		struct place_items *at = &values->at[class];

		for (size_t i = 0; i < selection->count; i++)
			if (is_captured(&selection->items[i], class))
				at->items[at->count++] = (uint8_t)i;
	}
}

int values_create(const struct values_options *options, struct store *store,
		  struct loadmap *loadmap, struct locations *locations,
		  struct translations *translations, struct values **ret)
{
	struct values *values = mem_zalloc(sizeof(*values));
	int err;

	values->options = *options;
	values->store = store;
	values->loadmap = loadmap;
	values->locations = locations;
	values->translations = translations;
	replay_create(translations, options->sites.selection->needs, &values->replay);
	site_table_create(&options->sites, &values->sites);
	items_sort(values);
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
	site_table_destroy(values->sites);
	map_deinit(&values->ends);
	map_deinit(&values->end_places);
	map_deinit(&values->end_places_new);
	replay_destroy(values->replay);
	free(values);
}

/* --- Places ----------------------------------------------------------------------------------- */

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

/* The location of a run-time address, in the kernel or in the process. */
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

/*
 * The location of an instruction. In modules with a file it is kept with the translation, which all
 * processes share.
 */
static int place_location(struct values *values, const struct replay_place *place,
			  struct location_id *ret)
{
	struct translation *translation = place->translation;
	struct module_id id = translations_module_id(translation->key.module);
	uint32_t *known = &translations_note(translation, place->number)->location;
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

/* The location of the call site, which all arguments of a function share. */
static int caller_find(struct values *values, uint64_t caller, struct location_id *ret)
{
	int err = 0;

	if (caller != values->caller)
		err = location_of(values, caller - 1, &values->caller_location);
	values->caller = err ? 0 : caller;
	*ret = values->caller_location;
	return err;
}

/* --- Values ----------------------------------------------------------------------------------- */

static unsigned path_branches(uint64_t path)
{
	return 63 - (unsigned)__builtin_clzll(path | 1);
}

/* The first branches of a path, as many as the item wants. */
static uint64_t path_cut(uint64_t path, unsigned wanted)
{
	unsigned branches = path_branches(path);

	return branches > wanted ? path >> (branches - wanted) : path;
}

/* Whether the run came as far as the item looks: what was cut short would be another path. */
static bool path_is_whole(const struct selection_item *item, const struct selection_facts *facts)
{
	if (!facts->path_open)
		return true;
	if (item->path_length && path_branches(facts->values[SELECTION_PATH]) < item->path_length)
		return false;
	for (unsigned source = SELECTION_GOAL1; source <= SELECTION_GOAL3; source++)
		if (item->needs & SELECTION_BIT(source) && !facts->values[source])
			return false;
	return true;
}

static int item_capture(struct values *values, unsigned index, const struct replay_place *place,
			struct location_id location, struct selection_facts *facts)
{
	const struct selection_item *item = &values->options.sites.selection->items[index];
	struct translation_note *note = translations_note(place->translation, place->number);
	uint64_t path = facts->values[SELECTION_PATH];
	struct site_key key = {
		.location = location,
		.item = index,
		.owner = values->run->flags & RUN_IN_KERNEL ? SITE_OWNER_KERNEL
							    : (int64_t)values->run->owner,
	};
	struct site_value *value;
	int err = 0;

	if (item->by_caller && place->caller)
		err = caller_find(values, place->caller, &key.caller);
	if (err)
		return err;
	value = site_table_add(values->sites, &key, &note->sites[index % NOTE_SITES]);
	if (item->path_length)
		facts->values[SELECTION_PATH] = path_cut(path, item->path_length);
	selection_words(item, facts, value->words, &value->width);
	facts->values[SELECTION_PATH] = path;
	return 0;
}

static int on_place(void *ctx, const struct replay_place *place, struct selection_facts *facts)
{
	struct values *values = ctx;
	const struct selection_item *items = values->options.sites.selection->items;
	const struct place_items *at = &values->at[place->class];
	struct location_id location;
	int err;

	values->steps += place->class == SELECTION_INSTRUCTION;
	if (!at->count)
		return 0;
	err = place_location(values, place, &location);
	for (size_t i = 0; i < at->count && !err; i++)
		if (!(items[at->items[i]].needs & ~facts->known) &&
		    path_is_whole(&items[at->items[i]], facts))
			err = item_capture(values, at->items[i], place, location, facts);
	return err;
}

/* The process if its mappings are known, otherwise 0. */
static struct process_id mapped_find(struct values *values)
{
	struct process_id process = { 0 };

	if (values->options.pointers && values->run->record.image.tgid)
		process = process_of(values)->id;
	if (process.v && !pointers_know(values->options.pointers, process))
		process.v = 0;
	if (process.v && values->run->flags & RUN_GUARDED)
		pointers_guard(values->options.pointers, process);
	return process;
}

static int end_count(struct values *values, const struct replay_end *end)
{
	struct location_id location;
	int err;

	++*map_at(&values->ends, (uint64_t)end->end << 16 | end->mnemonic, NULL);
	if (end->end == UOP_END_NONE)
		return 0;
	err = location_of(values, end->pc, &location);
	if (!err) {
		uint64_t key = (uint64_t)end->end << 32 | location.v;
		uint64_t *count = map_at(&values->end_places, key, NULL);

		*map_at(&values->end_places_new, key, NULL) = ++*count;
	}
	return err;
}

int values_run(struct values *values, const struct run_record *run)
{
	struct replay_end end;
	int err;

	values->run = run;
	values->process = NULL;
	values->caller = 0;
	site_table_begin(values->sites, ++values->run_number, mapped_find(values));
	err = replay_run(values->replay, run, on_place, values, &end);
	site_table_settle(values->sites);
	if (err == -EBADMSG) {
		values->disagreed++;
		return 0;
	}
	if (err)
		return err;
	values->kept++;
	for (size_t i = 0; i < RUN_UNREAD_COUNT; i++)
		values->unread[i] += end.unread[i];
	return end_count(values, &end);
}

uint64_t values_ended(const struct values *values, enum uop_end end)
{
	uint64_t count = 0;

	map_each(&values->ends, slot)
		if (slot->key >> 16 == (uint64_t)end)
			count += slot->value;
	return count;
}

uint64_t values_replayed(const struct values *values)
{
	return values->kept + values->disagreed;
}

void values_expect(const struct values *values, const struct run_record *run)
{
	replay_expect(values->replay, run);
}

int values_name(struct values *values)
{
	if (!values->options.pointers)
		return 0;
	site_table_name(values->sites, values->options.pointers);
	return pointers_flush(values->options.pointers);
}

/* --- To the store ----------------------------------------------------------------------------- */

static const char *const end_names[][2] = {
#define X(name, json, text) [UOP_END_##name] = { json, text },
	UOP_ENDS(X)
#undef X
};

static int end_places_put(struct values *values)
{
	int err = 0;

	map_each(&values->end_places_new, slot)
		if (!err)
			err = store_run_place_put(
				values->store,
				&(struct store_run_place){ .location.v = (uint32_t)slot->key,
							   .reason = end_names[slot->key >> 32][0],
							   .count = slot->value });
	map_clear(&values->end_places_new);
	return err;
}

static int ends_put(struct values *values)
{
	int err = 0;

	map_each(&values->ends, slot) {
		unsigned end = (unsigned)(slot->key >> 16), mnemonic = slot->key & 0xffff;
		const char *reason = end == UOP_END_NONE ? "length" : end_names[end][0];
		const char *text = end == UOP_END_NONE ? "reached its length" : end_names[end][1];

		if (!err)
			err = store_run_end_put(
				values->store,
				&(struct store_run_end){
					.reason = reason,
					.mnemonic = mnemonic ? lift_mnemonic(mnemonic) : "",
					.text = text,
					.count = slot->value });
	}
	return err;
}

void values_totals(const struct values *values, const struct run_tally *tally,
		   struct sink_totals *ret)
{
	static const char *const names[][2] = {
#define X(name, json, text) [RUN_LOSS_##name] = { json, text },
		RUN_LOSSES(X)
#undef X
	};

	*ret = (struct sink_totals){ .kept = values->kept };
	for (size_t i = 0; i < RUN_LOSS_COUNT; i++)
		sink_totals_add(ret, names[i][0], names[i][1],
				tally->lost[i] + (i == RUN_LOSS_DISAGREED ? values->disagreed : 0));
}

static int numbers_put(struct values *values, const struct run_tally *tally)
{
	const struct {
		const char *metric, *unit;
		uint64_t total;
	} numbers[] = {
		{ "steps", "instructions", values->steps },
		{ "values_seen", "values", site_table_seen(values->sites) },
		{ "values_kept", "values", site_table_kept(values->sites) },
		{ "runs_nanoseconds", "ns", tally->nanoseconds },
		{ "runs_steps", "instructions", tally->steps },
#define X(name, json, text) { "unread_" json, "loads", values->unread[RUN_UNREAD_##name] },
		RUN_UNREADS(X)
#undef X
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !err; i++)
		err = store_metric_set(values->store, RECORDING_VALUES, numbers[i].metric,
				       numbers[i].unit, numbers[i].total);
	return err;
}

int values_flush(struct values *values, const struct run_tally *tally)
{
	int err;

	if (values->options.pointers)
		site_table_texts(values->sites, values->options.pointers);
	err = site_table_flush(values->sites, values->store);
	err = err ? err : ends_put(values);
	err = err ? err : end_places_put(values);
	return err ? err : numbers_put(values, tally);
}

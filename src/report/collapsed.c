// SPDX-License-Identifier: BSD-2-Clause
/*
 * Collapsed stacks: "root;...;leaf COUNT", one line for each distinct list of names.
 *
 * Stacks of different addresses, threads and processes may read the same, and then are one line. So
 * names are interned and stacks put into a trie of names; the place of each (thread name, stack
 * node) in it is remembered, so that each is looked up once however many samples share it.
 *
 *  1. A trie node comes after its parent. Node 0 is the empty list.
 *  2. The sum of the counts printed is the number of samples selected, plus, without a filter, of
 *     those lost. With --off-cpu it is the microseconds that threads waited, each line rounded and
 *     at least 1.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analyse/forest.h"
#include "analyse/names.h"
#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "report/export.h"
#include "base/utf8.h"

struct trie_node {
	uint32_t parent;
	uint32_t name;
	uint64_t count;
};

struct collapse {
	const struct forest *forest;
	struct functions functions;
	struct strtab names; /* safe for the format */
	uint32_t *function_names; /* function to name + 1; 0: not yet made */
	ARRAY(struct trie_node) trie;
	struct map children; /* trie node << 32 | name, to trie node */
	struct map places; /* trie node of the thread name << 32 | stack node, to trie node */
	ARRAY(uint32_t) pending;
};

/* A name without what the format uses itself. */
static uint32_t name_intern(struct collapse *collapse, const char *text)
{
	struct strbuf safe = {};
	uint32_t id;

	utf8_escape(&safe, text);
	for (size_t i = 0; i < safe.length; i++)
		if (safe.text[i] == ';')
			safe.text[i] = ':';
	id = strtab_add(&collapse->names, strbuf_text(&safe));
	strbuf_deinit(&safe);
	return id;
}

static uint32_t function_name(struct collapse *collapse, uint32_t function)
{
	const struct functions *functions = &collapse->functions;
	const struct profile *profile = functions->profile;
	uint32_t *name = &collapse->function_names[function];
	uint32_t module = functions_module(functions, function);
	struct strbuf text = {};

	if (*name)
		return *name - 1;
	strbuf_puts(&text, functions_name(functions, function));
	if (!functions_symbol(functions, function) && module &&
	    profile->modules[module].kind != MODULE_MARK) {
		text.length = 0;
		strbuf_printf(&text, "[%s]", name_of_module(profile, module));
	}
	*name = name_intern(collapse, text.text) + 1;
	strbuf_deinit(&text);
	return *name - 1;
}

static uint32_t trie_child(struct collapse *collapse, uint32_t parent, uint32_t name)
{
	bool fresh;
	uint64_t *id = map_at(&collapse->children, (uint64_t)parent << 32 | name, &fresh);

	if (fresh) {
		*id = collapse->trie.count;
		*array_push(&collapse->trie) = (struct trie_node){ parent, name, 0 };
	}
	return (uint32_t)*id;
}

static uint32_t place_below(struct collapse *collapse, uint32_t place, uint32_t node)
{
	uint32_t begin = forest_slot_begin(collapse->forest, node);

	for (uint32_t slot = forest_slot_end(collapse->forest, node); slot > begin; slot--)
		place = trie_child(collapse, place,
				   function_name(collapse, collapse->functions.entity[slot - 1]));
	return place;
}

/* Goes up to the nearest node whose place is known, then down again. */
static uint32_t stack_place(struct collapse *collapse, uint32_t comm_place, uint32_t node)
{
	uint64_t base = (uint64_t)comm_place << 32;
	uint32_t place = comm_place;
	const uint64_t *known = NULL;

	if (!node)
		return place_below(collapse, place, 0);
	collapse->pending.count = 0;
	while (node && !(known = map_find(&collapse->places, base | node))) {
		*array_push(&collapse->pending) = node;
		node = collapse->forest->profile->stacks[node].parent;
	}
	if (known)
		place = (uint32_t)*known;
	while (collapse->pending.count) {
		node = collapse->pending.items[--collapse->pending.count];
		place = place_below(collapse, place, node);
		*map_at(&collapse->places, base | node, NULL) = place;
	}
	return place;
}

/* By thread: the place of its name; those that the filter leaves out have UINT32_MAX. */
static uint32_t *comm_places(struct collapse *collapse, const struct export_options *options)
{
	const struct profile *profile = collapse->forest->profile;
	uint32_t *places = mem_zalloc((profile->thread_count + 1) * sizeof(*places));

	for (uint32_t i = 0; i < profile->thread_count; i++) {
		const char *comm = profile->threads[i].comm;

		if (!filter_thread(&options->filter, profile, i))
			places[i] = UINT32_MAX;
		else if (!options->no_comm)
			places[i] =
				trie_child(collapse, 0, name_intern(collapse, comm ? comm : ""));
	}
	return places;
}

static void samples_add(struct collapse *collapse, const struct export_options *options)
{
	const struct profile *profile = collapse->forest->profile;
	AUTO(free_ptr) uint32_t *comms = comm_places(collapse, options);

	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		uint32_t place;

		if (comms[sample->thread] == UINT32_MAX || !collapse->forest->own[sample->stack])
			continue;
		place = stack_place(collapse, comms[sample->thread], sample->stack);
		collapse->trie.items[place].count += sample->count;
	}
}

/* Nanoseconds: they are rounded when everything that reads the same has been added up. */
static void waits_add(struct collapse *collapse, const struct export_options *options)
{
	const struct forest *forest = collapse->forest;
	const struct profile *profile = forest->profile;
	AUTO(free_ptr) uint32_t *comms = comm_places(collapse, options);
	AUTO(free_ptr)
	bool *has_code = filter_has_code(&options->filter)
				 ? forest_nodes_with_code(forest, &options->filter)
				 : NULL;

	for (size_t i = 0; i < profile->wait_count; i++) {
		const struct profile_wait *wait = &profile->waits[i];
		AUTO(free_ptr) char *cause = mem_printf("[%s]", wait->cause);
		uint32_t place = comms[wait->thread];

		if (place == UINT32_MAX || (has_code && !has_code[wait->stack]))
			continue;
		if (wait->stack)
			place = stack_place(collapse, place, wait->stack);
		place = trie_child(collapse, place, name_intern(collapse, cause));
		collapse->trie.items[place].count += wait->total;
	}
	for (size_t i = 0; i < collapse->trie.count; i++) {
		uint64_t *count = &collapse->trie.items[i].count;

		*count = *count ? (*count + 500) / 1000 + (*count < 500) : 0;
	}
}

static void losses_add(struct collapse *collapse)
{
	const struct profile *profile = collapse->forest->profile;

	for (size_t i = 0; i < profile->loss_count; i++) {
		AUTO(free_ptr) char *text = mem_printf("[lost: %s]", profile->losses[i].name);
		uint32_t node = trie_child(collapse, 0, name_intern(collapse, text));

		collapse->trie.items[node].count += profile->losses[i].count;
	}
}

static void line_write(struct collapse *collapse, uint32_t node, FILE *file)
{
	uint64_t count = collapse->trie.items[node].count;

	collapse->pending.count = 0;
	for (; node; node = collapse->trie.items[node].parent)
		*array_push(&collapse->pending) = collapse->trie.items[node].name;
	for (size_t i = collapse->pending.count; i > 0; i--)
		fprintf(file, "%s%s", strtab_get(&collapse->names, collapse->pending.items[i - 1]),
			i > 1 ? ";" : "");
	fprintf(file, " %" PRIu64 "\n", count);
}

int export_collapsed(const struct profile *profile, const struct export_options *options,
		     FILE *file)
{
	AUTO(forest_destroy_auto)
	struct forest *forest = forest_create(profile, &options->filter, FOREST_CODE_SAMPLES);
	struct collapse collapse = { .forest = forest };

	functions_init(&collapse.functions, forest, NULL);
	collapse.function_names =
		mem_zalloc(collapse.functions.count * sizeof(*collapse.function_names));
	*array_push(&collapse.trie) = (struct trie_node){};
	if (options->off_cpu)
		waits_add(&collapse, options);
	else
		samples_add(&collapse, options);
	if (filter_is_empty(&options->filter) && !options->off_cpu)
		losses_add(&collapse);
	for (uint32_t i = 1; i < collapse.trie.count && !ferror(file); i++)
		if (collapse.trie.items[i].count)
			line_write(&collapse, i, file);
	functions_deinit(&collapse.functions);
	free(collapse.function_names);
	strtab_deinit(&collapse.names);
	array_deinit(&collapse.trie);
	array_deinit(&collapse.pending);
	map_deinit(&collapse.children);
	map_deinit(&collapse.places);
	return 0;
}

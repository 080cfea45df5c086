// SPDX-License-Identifier: BSD-2-Clause
/*
 * The mappings of one image over time.
 *
 * Invariants:
 * 1. process.mappings is in the order in which mappings came about; entries that ended long ago may
 *    be dropped.
 * 2. current holds the places of those with to == UINT64_MAX, by start, and no two of them overlap.
 * 3. What is replaced in part ends whole; its remainders go on as new mappings with the same bias.
 * 4. An event never touches a mapping that is younger than it: streams may arrive a little out of
 *    order.
 */
#include <string.h>

#include "base/clock.h"
#include "image/loadmap_internal.h"

enum { HISTORY_MIN = 64 };

static struct loadmap_mapping *current_at(const struct loadmap_image *image, size_t place)
{
	return &image->process.mappings[image->current.items[place]];
}

/* The first place whose mapping ends above the address. */
static size_t current_search(const struct loadmap_image *image, uint64_t address)
{
	size_t low = 0, high = image->current.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (current_at(image, middle)->end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static uint32_t history_push(struct loadmap_image *image, const struct loadmap_mapping *mapping)
{
	struct loadmap_process *process = &image->process;

	if (process->mapping_count == image->mapping_capacity) {
		image->mapping_capacity = image->mapping_capacity ? image->mapping_capacity * 2 : 8;
		process->mappings = mem_realloc(process->mappings, image->mapping_capacity,
						sizeof(*process->mappings));
	}
	process->mappings[process->mapping_count] = *mapping;
	return (uint32_t)process->mapping_count++;
}

static void current_add(struct loadmap_image *image, uint32_t index)
{
	size_t place = current_search(image, image->process.mappings[index].start);

	array_reserve(&image->current, image->current.count + 1);
	memmove(&image->current.items[place + 1], &image->current.items[place],
		(image->current.count - place) * sizeof(uint32_t));
	image->current.items[place] = index;
	image->current.count++;
}

static void current_remove(struct loadmap_image *image, size_t place)
{
	image->current.count--;
	memmove(&image->current.items[place], &image->current.items[place + 1],
		(image->current.count - place) * sizeof(uint32_t));
}

static void part_insert(struct loadmap_image *image, struct loadmap_mapping whole, uint64_t start,
			uint64_t end, uint64_t time)
{
	if (start >= end)
		return;
	whole.offset += start - whole.start;
	whole.start = start;
	whole.end = end;
	whole.from = time;
	whole.to = UINT64_MAX;
	current_add(image, history_push(image, &whole));
}

/* Ends what lies in the range; true if there was something. */
static bool range_cut(struct loadmap_image *image, uint64_t start, uint64_t end, uint64_t time)
{
	size_t place = current_search(image, start);
	bool cut = false;

	while (place < image->current.count && current_at(image, place)->start < end) {
		struct loadmap_mapping *mapping = current_at(image, place), old;

		if (mapping->from > time) {
			place++;
			continue;
		}
		mapping->to = time;
		old = *mapping;
		image->last_unmap = time > image->last_unmap ? time : image->last_unmap;
		current_remove(image, place);
		part_insert(image, old, old.start, start, time);
		part_insert(image, old, end, old.end, time);
		place = current_search(image, start);
		cut = true;
	}
	return cut;
}

static bool forgettable(const struct loadmap *map, const struct loadmap_mapping *mapping)
{
	return mapping->to != UINT64_MAX && mapping->to + LOADMAP_KEEP < map->now;
}

/*
 * Drops mappings that ended long ago, so that memory stays bounded for programs that map and unmap
 * all the time.
 */
static void history_prune(struct loadmap *map, struct loadmap_image *image)
{
	struct loadmap_process *process = &image->process;
	size_t kept = 0;

	if (process->mapping_count < HISTORY_MIN ||
	    process->mapping_count < image->mapping_capacity ||
	    image->current.count > process->mapping_count / 2)
		return;
	for (size_t i = 0; i < process->mapping_count; i++) {
		if (forgettable(map, &process->mappings[i])) {
			loadmap_mapping_row_add(map, image, &process->mappings[i]);
			continue;
		}
		process->mappings[kept++] = process->mappings[i];
	}
	process->mapping_count = kept;
	image->current.count = 0;
	for (size_t i = 0; i < kept; i++)
		if (process->mappings[i].to == UINT64_MAX)
			current_add(image, (uint32_t)i);
}

/* The same bytes are there already: mprotect() tells mappings again. */
static bool already_there(const struct loadmap_image *image, const struct loadmap_mapping *mapping)
{
	size_t place = current_search(image, mapping->start);
	struct loadmap_mapping *there;

	if (place == image->current.count)
		return false;
	there = current_at(image, place);
	if (there->start > mapping->start || there->end < mapping->end ||
	    there->module != mapping->module || there->bias != mapping->bias)
		return false;
	there->from = mapping->from < there->from ? mapping->from : there->from;
	return true;
}

void loadmap_mapping_add(struct loadmap *map, struct loadmap_image *image,
			 const struct loadmap_mapping *mapping)
{
	struct loadmap_mapping late = *mapping;
	size_t place;

	if (already_there(image, mapping))
		return;
	history_prune(map, image);
	image->process.overlapped |= range_cut(image, mapping->start, mapping->end, mapping->from);
	place = current_search(image, mapping->start);
	if (place == image->current.count || current_at(image, place)->start >= mapping->end) {
		current_add(image, history_push(image, mapping));
		loadmap_image_changed(map, image);
		return;
	}
	late.to = current_at(image, place)->from;
	image->last_unmap = late.to > image->last_unmap ? late.to : image->last_unmap;
	history_push(image, &late);
}

void loadmap_mapping_remove(struct loadmap *map, struct loadmap_image *image, uint64_t start,
			    uint64_t end, uint64_t time)
{
	if (!range_cut(image, start, end, time))
		return;
	image->process.overlapped = true;
	loadmap_image_changed(map, image);
}

void loadmap_mappings_copy(struct loadmap_image *image, const struct loadmap_image *from)
{
	for (size_t i = 0; i < from->current.count; i++) {
		struct loadmap_mapping copy = *current_at(from, i);

		copy.from = 0;
		*array_push(&image->current) = history_push(image, &copy);
	}
}

void loadmap_mappings_clear(struct loadmap_image *image)
{
	free(image->process.mappings);
	image->process.mappings = NULL;
	image->process.mapping_count = image->mapping_capacity = 0;
	array_deinit(&image->current);
	free(image->areas);
	image->areas = NULL;
	image->area_count = 0;
	image->last_unmap = 0;
}

bool loadmap_find(const struct loadmap *map, const struct loadmap_process *process,
		  uint64_t address, uint64_t time, struct loadmap_mapping *ret)
{
	const struct loadmap_image *image = loadmap_image_of(process);
	size_t place = current_search(image, address);
	const struct loadmap_mapping *found = NULL;

	if (place < image->current.count)
		found = current_at(image, place);
	if (found && found->start <= address && found->from <= time) {
		*ret = *found;
		return true;
	}
	if (time >= image->last_unmap)
		return false;
	for (size_t i = process->mapping_count; i-- > 0;) {
		found = &process->mappings[i];
		if (found->start <= address && address < found->end && found->from <= time &&
		    time < found->to) {
			*ret = *found;
			return true;
		}
	}
	return false;
}

void loadmap_areas(struct loadmap *map, struct loadmap_process *process,
		   const struct unwind_area **ret, size_t *ret_count)
{
	struct loadmap_image *image = loadmap_image_of(process);

	if (!image->areas || image->area_changes != process->changes) {
		image->areas =
			mem_realloc(image->areas, image->current.count, sizeof(*image->areas));
		image->area_count = image->current.count;
		image->area_changes = process->changes;
		for (size_t i = 0; i < image->area_count; i++) {
			const struct loadmap_mapping *mapping = current_at(image, i);
			const struct unwind_table *table =
				loadmap_module_table(map, mapping->module);

			image->areas[i] = (struct unwind_area){
				.start = mapping->start,
				.end = mapping->end,
				.bias = mapping->bias + table->base,
				.rows = table->rows,
				.row_count = table->count,
			};
		}
	}
	*ret = image->areas;
	*ret_count = image->area_count;
}

bool loadmap_data_find(const struct loadmap_process *process, uint64_t address,
		       struct module_id *ret_module, uint64_t *ret_address)
{
	for (size_t i = 0; i < process->mapping_count; i++) {
		const struct loadmap_mapping *mapping = &process->mappings[i];
		const struct loadmap_module *module = mapping->module;
		uint64_t at = address - mapping->bias;

		if (module->kind != MODULE_ELF || mapping->to != UINT64_MAX || at < module->base ||
		    at >= module->end)
			continue;
		*ret_module = module->id;
		*ret_address = at;
		return true;
	}
	return false;
}

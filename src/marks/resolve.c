// SPDX-License-Identifier: BSD-2-Clause
/*
 * Finds what is marked in a file: routines by its symbol tables, lines by its debug information.
 *
 * 1. Visits of a routine are counted at its first instruction; of lines, at the lowest address of
 *    the first of them that has code, once for each function that holds some of it; of addresses,
 *    at the first.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "marks/marks_private.h"
#include "marks/names.h"
#include "marks/routines.h"
#include "marks/section.h"
#include "symbols/symbols.h"

/* What is read of the file when a mark needs it. */
struct reading {
	struct module *module;
	struct symbols *symbols; /* NULL: not opened yet, or cannot be */
	struct functions *functions;
	struct symbol_line *lines;
	size_t line_count;
	ARRAY(uint32_t) by_file; /* rows of lines that have a file, by file */
	struct symbol_name *objects; /* by address */
	size_t object_count;
	struct section declared;
	bool has_lines, has_declared, has_objects;
};

static void symbols_ready(struct reading *reading)
{
	const struct module *module = reading->module;

	if (!reading->symbols && symbols_open(module->file->fd, module->path, &reading->symbols))
		log_debug("%s", err_text());
}

/* Once, if several of a function's names are the same. */
static void name_add(struct reading *reading, uint32_t function, const char *name, size_t length)
{
	struct functions *functions = reading->functions;
	bool fresh;
	uint64_t *last = map_at(&functions->by_name, hash_bytes(name, length), &fresh);
	uint32_t older = fresh ? 0 : (uint32_t)*last;

	if (older && functions->named.items[older - 1].function == function)
		return;
	*array_push(&functions->named) = (struct named){ function, older };
	*last = functions->named.count;
}

/* By each name that mark_spec_takes_symbol() takes, and parts of a routine by that routine's. */
static void names_index(struct reading *reading)
{
	for (uint32_t i = 0; i < reading->functions->count; i++) {
		const struct symbol_name *function = &reading->functions->items[i];
		struct name_parts parts = name_parts_of(function->name);
		const char *own = function->name + parts.start;
		const char *suffix = routine_part_suffix(function->linkage);

		name_add(reading, i, function->name, strlen(function->name));
		name_add(reading, i, function->name, parts.bare);
		name_add(reading, i, own, strlen(own));
		name_add(reading, i, own, parts.bare - parts.start);
		name_add(reading, i, own, parts.stem - parts.start);
		name_add(reading, i, function->linkage, strlen(function->linkage));
		if (suffix)
			name_add(reading, i, function->linkage,
				 (size_t)(suffix - function->linkage));
	}
}

static void functions_ready(struct reading *reading)
{
	struct functions *functions = reading->functions;
	struct symbol_name *found = NULL;

	if (functions->ready)
		return;
	functions->ready = true;
	symbols_ready(reading);
	if (!reading->symbols)
		return;
	symbols_names(reading->symbols, SYMBOL_FUNCTIONS, &found, &functions->count);
	functions->items = found;
	for (size_t i = 0; i < functions->count; i++) {
		found[i].name =
			strtab_get(&functions->texts, strtab_add(&functions->texts, found[i].name));
		found[i].linkage = strtab_get(&functions->texts,
					      strtab_add(&functions->texts, found[i].linkage));
	}
	names_index(reading);
}

static void objects_ready(struct reading *reading)
{
	if (reading->has_objects)
		return;
	reading->has_objects = true;
	symbols_ready(reading);
	if (reading->symbols)
		symbols_names(reading->symbols, SYMBOL_OBJECTS, &reading->objects,
			      &reading->object_count);
}

void marked_functions_deinit(struct functions *functions)
{
	free(functions->items);
	strtab_deinit(&functions->texts);
	map_deinit(&functions->by_name);
	array_deinit(&functions->named);
}

/*
 * Orders rows by file, and within a file as they came. All rows of a file have the same string as
 * its name, so that addresses can be compared.
 */
static int row_compare(const void *a, const void *b, void *lines)
{
	const struct symbol_line *all = lines;
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	if (all[left].file != all[right].file)
		return all[left].file < all[right].file ? -1 : 1;
	return left < right ? -1 : left > right;
}

static void lines_ready(struct reading *reading)
{
	if (reading->has_lines)
		return;
	reading->has_lines = true;
	symbols_ready(reading);
	if (reading->symbols)
		symbols_lines(reading->symbols, &reading->lines, &reading->line_count);
	for (uint32_t i = 0; i < reading->line_count; i++)
		if (reading->lines[i].file)
			*array_push(&reading->by_file) = i;
	if (reading->by_file.count)
		qsort_r(reading->by_file.items, reading->by_file.count, sizeof(uint32_t),
			row_compare, reading->lines);
}

static void halves_tell(const struct module *module, const struct declared_halves *halves,
			const char *what)
{
	if (halves->count)
		log_warn("%s: %zu declared ranges %s, such as '%s'", module->path, halves->count,
			 what, halves->name);
}

/*
 * A damaged section has no marks, and a message says so, because the file may come from any user.
 */
static void declared_ready(struct reading *reading)
{
	struct module *module = reading->module;

	if (reading->has_declared)
		return;
	reading->has_declared = true;
	if (section_read(module->file->fd, module->path, &reading->declared)) {
		module->marks->failed++;
		log_warn("%s; its marks are not counted", err_text());
		return;
	}
	halves_tell(module, &reading->declared.unended,
		    "begin but do not end, since what they declare as their end is never reached; "
		    "visits are counted, not what is executed within");
	halves_tell(module, &reading->declared.unbegun,
		    "end but do not begin, and are not counted");
}

/* --- Time ------------------------------------------------------------------------------------- */

static size_t function_at(const struct reading *reading, uint64_t address);

/*
 * A visit ends at the instruction behind a range, unless another function begins there, which
 * control does not enter from the range.
 */
static void range_time(struct reading *reading, uint32_t number, uint64_t address, uint64_t size)
{
	struct module *module = reading->module;
	uint32_t timer;

	if (!size || !marks_timer(module->marks, number, &timer))
		return;
	functions_ready(reading);
	module_use(module, MARK_USE_TIME, timer, address, size, false);
	module_use(module, MARK_USE_TIME, timer, address, 1, true);
	if (size > 1 && function_at(reading, address) == function_at(reading, address + size))
		module_use(module, MARK_USE_TIME_END, timer, address + size, 1, false);
}

static bool is_part_of(const struct symbol_name *part, const struct symbol_name *function)
{
	const char *suffix = routine_part_suffix(part->linkage);
	size_t length = suffix ? (size_t)(suffix - part->linkage) : 0;

	return suffix && strlen(function->linkage) == length &&
	       !memcmp(part->linkage, function->linkage, length);
}

/* Calls back for each part of the function that the compiler has moved away. */
static void parts_each(struct reading *reading, const struct symbol_name *function,
		       void (*tell)(struct reading *reading, uint32_t number,
				    const struct symbol_name *part),
		       uint32_t number)
{
	const uint64_t *newest = map_find(&reading->functions->by_name,
					  hash_bytes(function->linkage, strlen(function->linkage)));

	for (uint32_t i = newest ? (uint32_t)*newest : 0; i;
	     i = reading->functions->named.items[i - 1].older) {
		const struct symbol_name *part =
			&reading->functions->items[reading->functions->named.items[i - 1].function];

		if (is_part_of(part, function))
			tell(reading, number, part);
	}
}

static void part_place(struct reading *reading, uint32_t number, const struct symbol_name *part)
{
	module_place(reading->module, number, part->address, part->size, false);
}

static void part_time(struct reading *reading, uint32_t timer, const struct symbol_name *part)
{
	module_use(reading->module, MARK_USE_TIME, timer, part->address, part->size, false);
}

static void part_visits(struct reading *reading, uint32_t number, const struct symbol_name *part)
{
	module_use(reading->module, MARK_USE_VISITS, number, part->address, part->size, false);
}

static void routine_time(struct reading *reading, uint32_t number,
			 const struct symbol_name *function)
{
	struct module *module = reading->module;
	uint32_t timer;

	if (!function->size || !marks_timer(module->marks, number, &timer))
		return;
	module_use(module, MARK_USE_TIME, timer, function->address, function->size, false);
	module_use(module, MARK_USE_TIME, timer, function->address, 1, true);
	parts_each(reading, function, part_time, timer);
}

/* Marks the routine's entry and its code, for the tool mark_visits. */
static void routine_visits(struct reading *reading, uint32_t number,
			   const struct symbol_name *function)
{
	if (function->size)
		module_use(reading->module, MARK_USE_VISITS, number, function->address,
			   function->size, false);
	module_use(reading->module, MARK_USE_VISITS, number, function->address, 1, true);
	parts_each(reading, function, part_visits, number);
}

/* --- Routines --------------------------------------------------------------------------------- */

static void instruction_found(struct module *module, uint32_t number,
			      const struct symbol_name *function, uint64_t offset)
{
	if (function->size && offset >= function->size)
		return;
	module_place(module, number, function->address + offset, 1, false);
	module_place(module, number, function->address + offset, 1, true);
}

static void routine_found(struct reading *reading, size_t spec_index, uint32_t number,
			  const struct symbol_name *function)
{
	struct module *module = reading->module;
	const struct mark_spec *spec = &module->marks->specs.items[spec_index];

	if (spec->kind == MARK_INSTRUCTION) {
		instruction_found(module, number, function, spec->first);
		if (spec->timed && (!function->size || spec->first < function->size))
			range_time(reading, number, function->address + spec->first, 1);
		return;
	}
	if (spec->many)
		number = marks_child(module->marks, spec_index, function->name);
	module_place(module, number, function->address, function->size, false);
	module_place(module, number, function->address, 1, true);
	parts_each(reading, function, part_place, number);
	if (number && spec->timed)
		routine_time(reading, number, function);
	if (number && spec->tail)
		routine_visits(reading, number, function);
}

/*
 * Control jumps to a part of a routine that the compiler has moved away, which is no visit. Only a
 * mark that names the part itself means it.
 */
static bool takes_routine(const struct mark_spec *spec, const struct symbol_name *function)
{
	return mark_spec_takes_symbol(spec, function->name, function->linkage) &&
	       (!routine_part_suffix(function->linkage) || strstr(spec->name, ".cold"));
}

/* A routine that has several names is found once: by the first of them. */
static void pattern_find(struct reading *reading, size_t spec_index)
{
	uint64_t last = UINT64_MAX;

	for (size_t i = 0; i < reading->functions->count; i++) {
		const struct mark_spec *spec = &reading->module->marks->specs.items[spec_index];
		const struct symbol_name *function = &reading->functions->items[i];

		if (function->address == last || !takes_routine(spec, function))
			continue;
		last = function->address;
		routine_found(reading, spec_index, 0, function);
	}
}

static void routines_find(struct reading *reading, size_t spec_index, uint32_t number)
{
	const struct mark_spec *spec = &reading->module->marks->specs.items[spec_index];
	const uint64_t *newest;
	uint64_t last = UINT64_MAX;

	functions_ready(reading);
	if (spec->many) {
		pattern_find(reading, spec_index);
		return;
	}
	newest = map_find(&reading->functions->by_name, hash_bytes(spec->name, strlen(spec->name)));
	for (uint32_t i = newest ? (uint32_t)*newest : 0; i;
	     i = reading->functions->named.items[i - 1].older) {
		const struct symbol_name *function =
			&reading->functions->items[reading->functions->named.items[i - 1].function];

		if (function->address == last || !takes_routine(spec, function))
			continue;
		last = function->address;
		routine_found(reading, spec_index, number, function);
	}
}

/* --- Lines ------------------------------------------------------------------------------------ */

/* The function that holds the address: its number, or that of the next one below. */
static size_t function_at(const struct reading *reading, uint64_t address)
{
	size_t low = 0, high = reading->functions->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (reading->functions->items[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	/* Several names of one routine are one. */
	while (low > 1 && reading->functions->items[low - 2].address ==
				  reading->functions->items[low - 1].address)
		low--;
	return low;
}

/* A row goes up to the next one of its unit. */
static uint64_t row_size(const struct reading *reading, uint32_t row)
{
	const struct symbol_line *line = &reading->lines[row];

	if (row + 1 == reading->line_count || line[1].address < line->address)
		return 0;
	return line[1].address - line->address;
}

static bool row_is_meant(const struct reading *reading, const struct mark_spec *spec, uint32_t row)
{
	uint32_t line = reading->lines[row].line;

	return line >= spec->first && line <= spec->last;
}

/* Rows of a file: where those of the next one begin. */
static size_t file_end(const struct reading *reading, size_t from)
{
	const uint32_t *rows = reading->by_file.items;
	size_t end = from;

	while (end < reading->by_file.count &&
	       reading->lines[rows[end]].file == reading->lines[rows[from]].file)
		end++;
	return end;
}

/* Rows that follow each other are one range. Returns the first line that has code, or 0. */
static uint32_t ranges_place(struct reading *reading, const struct mark_spec *spec, uint32_t number,
			     size_t from, size_t end)
{
	uint64_t start = 0, size = 0;
	uint32_t first = 0;

	for (size_t i = from; i < end; i++) {
		uint32_t row = reading->by_file.items[i];
		const struct symbol_line *line = &reading->lines[row];

		if (!row_is_meant(reading, spec, row))
			continue;
		first = !first || line->line < first ? line->line : first;
		if (!row_size(reading, row))
			continue;
		if (size && line->address != start + size)
			module_place(reading->module, number, start, size, false);
		if (!size || line->address != start + size) {
			start = line->address;
			size = 0;
		}
		size += row_size(reading, row);
	}
	module_place(reading->module, number, start, size, false);
	return first;
}

/*
 * Counts visits at the lowest address of the line's code in each function, where debuggers stop.
 * The code there may belong to a later line.
 */
static void begins_place(struct reading *reading, uint32_t number, uint32_t line, size_t from,
			 size_t end)
{
	const struct mark_spec only = { .first = line, .last = line };
	struct map lowest = {};

	for (size_t i = from; i < end; i++) {
		uint32_t row = reading->by_file.items[i];
		uint64_t address = reading->lines[row].address, *known;
		bool fresh;

		if (!row_is_meant(reading, &only, row))
			continue;
		known = map_at(&lowest, function_at(reading, address), &fresh);
		if (fresh || address < *known)
			*known = address;
	}
	map_each(&lowest, slot)
		module_place(reading->module, number, slot->value, 1, true);
	map_deinit(&lowest);
}

struct hull {
	uint64_t low, high;
};

/* Times one range in each function: from the lowest to the highest code of the lines. */
static void lines_time(struct reading *reading, const struct mark_spec *spec, uint32_t number,
		       size_t from, size_t end)
{
	ARRAY(struct hull) hulls = {};
	struct map numbers = {};

	for (size_t i = from; i < end; i++) {
		uint32_t row = reading->by_file.items[i];
		uint64_t address = reading->lines[row].address, size = row_size(reading, row);
		struct hull *hull;
		uint64_t *known;
		bool fresh;

		if (!row_is_meant(reading, spec, row) || !size)
			continue;
		known = map_at(&numbers, function_at(reading, address), &fresh);
		if (fresh) {
			*known = hulls.count;
			*array_push(&hulls) = (struct hull){ address, address + size };
		}
		hull = &hulls.items[*known];
		hull->low = address < hull->low ? address : hull->low;
		hull->high = address + size > hull->high ? address + size : hull->high;
	}
	array_each(&hulls, hull)
		range_time(reading, number, hull->low, hull->high - hull->low);
	array_deinit(&hulls);
	map_deinit(&numbers);
}

static void lines_find(struct reading *reading, const struct mark_spec *spec, uint32_t number)
{
	lines_ready(reading);
	functions_ready(reading);
	for (size_t from = 0, end; from < reading->by_file.count; from = end) {
		uint32_t first;

		end = file_end(reading, from);
		if (!mark_spec_takes_file(spec, reading->lines[reading->by_file.items[from]].file))
			continue;
		first = ranges_place(reading, spec, number, from, end);
		if (first)
			begins_place(reading, number, first, from, end);
		if (first && spec->timed)
			lines_time(reading, spec, number, from, end);
	}
}

/* --- Addresses -------------------------------------------------------------------------------- */

static void addresses_find(struct reading *reading, const struct mark_spec *spec, uint32_t number)
{
	uint64_t size = spec->kind == MARK_RANGE ? spec->last - spec->first : 1;

	module_place(reading->module, number, spec->first, size, false);
	module_place(reading->module, number, spec->first, 1, true);
	if (spec->timed)
		range_time(reading, number, spec->first, size);
}

/* --- Data ------------------------------------------------------------------------------------- */

/* An object that has several names is found once: by the first of them. */
static void objects_find(struct reading *reading, size_t spec_index, uint32_t number)
{
	struct module *module = reading->module;
	uint64_t last = UINT64_MAX;

	objects_ready(reading);
	for (size_t i = 0; i < reading->object_count; i++) {
		const struct mark_spec *spec = &module->marks->specs.items[spec_index];
		const struct symbol_name *object = &reading->objects[i];

		if (object->address == last || !object->size ||
		    !mark_spec_takes_symbol(spec, object->name, object->linkage))
			continue;
		last = object->address;
		if (spec->many)
			number = marks_child(module->marks, spec_index, object->name);
		module_data(module, number, object->address, object->size);
	}
}

static bool is_object(const struct reading *reading, uint64_t address)
{
	size_t low = 0, high = reading->object_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (reading->objects[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < reading->object_count && reading->objects[low].address == address;
}

/* Objects that the program declares itself, unless they have been found by their symbols. */
static void declared_data_find(struct reading *reading, size_t spec_index, uint32_t number)
{
	struct module *module = reading->module;
	uint64_t last = UINT64_MAX;

	declared_ready(reading);
	for (size_t i = 0; i < reading->declared.count; i++) {
		const struct declared *item = &reading->declared.items[i];
		const struct mark_spec *spec = &module->marks->specs.items[spec_index];

		if (!item->data || item->address == last || is_object(reading, item->address) ||
		    !mark_spec_takes_symbol(spec, item->name, item->name))
			continue;
		last = item->address;
		if (spec->many)
			number = marks_child(module->marks, spec_index, item->name);
		module_data(module, number, item->address, item->size);
	}
}

/* Each function of that name. */
static void functions_use(struct reading *reading, const char *name, enum mark_use use,
			  uint32_t number)
{
	const uint64_t *newest;

	functions_ready(reading);
	newest = map_find(&reading->functions->by_name, hash_bytes(name, strlen(name)));
	for (uint32_t i = newest ? (uint32_t)*newest : 0; i;
	     i = reading->functions->named.items[i - 1].older) {
		const struct symbol_name *function =
			&reading->functions->items[reading->functions->named.items[i - 1].function];

		if (!strcmp(function->linkage, name) || !strcmp(function->name, name))
			module_use(reading->module, use, number, function->address, 1, true);
	}
}

static enum mark_allocation allocation_of(const char *name)
{
	static const char *const second[] = { "realloc", "aligned_alloc", "memalign" };

	for (size_t i = 0; i < sizeof(second) / sizeof(second[0]); i++)
		if (!strcmp(name, second[i]))
			return MARK_ALLOCATION_SECOND;
	return strcmp(name, "calloc") ? MARK_ALLOCATION_FIRST : MARK_ALLOCATION_PRODUCT;
}

/* Calls from the line, the function that they call, and those that give memory back. */
static void heap_find(struct reading *reading, const struct mark_spec *spec, uint32_t number)
{
	static const char *const releases[] = { "free",	   "realloc", "_ZdlPv",
						"_ZdlPvm", "_ZdaPv",  "_ZdaPvm" };

	functions_use(reading, spec->name, MARK_USE_ALLOCATE, allocation_of(spec->name));
	for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++)
		functions_use(reading, releases[i], MARK_USE_RELEASE, 0);
	if (!mark_spec_takes_module(spec, reading->module->path))
		return;
	lines_ready(reading);
	for (size_t from = 0, end; from < reading->by_file.count; from = end) {
		end = file_end(reading, from);
		if (!mark_spec_takes_file(spec, reading->lines[reading->by_file.items[from]].file))
			continue;
		for (size_t i = from; i < end; i++) {
			uint32_t row = reading->by_file.items[i];

			if (!row_is_meant(reading, spec, row) || !row_size(reading, row))
				continue;
			module_use(reading->module, MARK_USE_SITE, number,
				   reading->lines[row].address, row_size(reading, row), false);
			module_place(reading->module, number, reading->lines[row].address,
				     row_size(reading, row), false);
		}
	}
}

static void data_find(struct reading *reading, size_t spec_index, uint32_t number)
{
	const struct mark_spec *spec = &reading->module->marks->specs.items[spec_index];

	if (spec->data == MARK_DATA_HEAP)
		heap_find(reading, spec, number);
	if (spec->data != MARK_DATA_SYMBOL)
		return;
	objects_find(reading, spec_index, number);
	declared_data_find(reading, spec_index, number);
}

static void declared_find(struct reading *reading, size_t spec_index, uint32_t number)
{
	struct module *module = reading->module;

	declared_ready(reading);
	for (size_t i = 0; i < reading->declared.count; i++) {
		const struct declared *item = &reading->declared.items[i];
		const struct mark_spec *spec = &module->marks->specs.items[spec_index];

		if (item->data || !mark_spec_takes_symbol(spec, item->name, item->name))
			continue;
		if (spec->many)
			number = marks_child(module->marks, spec_index, item->name);
		module_place(module, number, item->address, item->size, false);
		module_place(module, number, item->address, 1, true);
		if (number && spec->timed)
			range_time(reading, number, item->address, item->size);
	}
}

static void mark_find(struct reading *reading, size_t spec_index, uint32_t number)
{
	const struct mark_spec *spec = &reading->module->marks->specs.items[spec_index];

	if (spec->kind == MARK_DECLARED)
		declared_find(reading, spec_index, number);
	else if (spec->kind == MARK_DATA)
		data_find(reading, spec_index, number);
	else if (spec->kind == MARK_LINES)
		lines_find(reading, spec, number);
	else if (spec->name)
		routines_find(reading, spec_index, number);
	else
		addresses_find(reading, spec, number);
}

const char *module_function_at(struct module *module, uint64_t address)
{
	struct reading reading = { .module = module, .functions = module->functions };
	const struct symbol_name *function = NULL;
	size_t number;

	functions_ready(&reading);
	symbols_destroy(reading.symbols);
	number = function_at(&reading, address);
	if (number)
		function = &reading.functions->items[number - 1];
	return function && address - function->address < function->size ? function->linkage : NULL;
}

/* Entries that patterns add meanwhile are found already. */
void module_resolve(struct module *module, size_t first, size_t end)
{
	struct reading reading = { .module = module, .functions = module->functions };
	struct marks *marks = module->marks;

	for (size_t i = first; i < end; i++) {
		const struct mark_spec *spec = &marks->specs.items[i];

		if (spec->kind != MARK_INSTRUCTIONS && !marks_spec_removed(marks, i) &&
		    (mark_spec_takes_module(spec, module->path) ||
		     (spec->kind == MARK_DATA && spec->data == MARK_DATA_HEAP)))
			mark_find(&reading, i, marks->spec_numbers.items[i]);
	}
	free(reading.objects);
	free(reading.lines);
	array_deinit(&reading.by_file);
	section_deinit(&reading.declared);
	symbols_destroy(reading.symbols);
}

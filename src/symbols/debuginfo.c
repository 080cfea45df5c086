// SPDX-License-Identifier: BSD-2-Clause
/*
 * From an address to function, inlined functions and lines, by DWARF.
 *
 * The library's own ways are a table that many compilers leave out (.debug_aranges) and a search
 * through all functions of a unit for each address. Instead: one list of the address ranges of all
 * units, made at the first question; for each unit that is asked about, one list of the ranges of
 * its functions. The scopes of the function that was asked about last are kept (struct body): each
 * scope gets the list of those directly below it when an address leads there. Addresses that come
 * in ascending order so cost a few binary searches each.
 *
 * Most functions lie directly in a unit, a namespace or a type. Functions inside functions (GNU C,
 * Fortran, local classes) need a walk through all bodies, so that is done only for a unit that
 * holds an address which no function has claimed, and once.
 *
 * 1. A unit's function ranges are complete for what was asked: indexed says how deep.
 * 2. Work per question is bounded by the function's own tree; recursion by DEPTH_MAX.
 * 3. A scope holds an address only if all scopes around it do.
 */
#include "symbols/debuginfo.h"

#include <dwarf.h>
#include <stdbool.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "symbols/ranges.h"

enum { DEPTH_MAX = 256 };

enum index_depth { INDEX_NONE, INDEX_OUTSIDE, INDEX_BODIES };

struct unit {
	Dwarf_Die lines; /* the unit that has the line table */
	Dwarf_Die tree; /* the unit that has the functions: another one with split DWARF */
	enum index_depth indexed;
	ARRAY(Dwarf_Die) functions;
	struct ranges ranges; /* value: index in functions */
};

struct scope {
	Dwarf_Die die;
	bool expanded; /* below is complete */
	struct ranges below; /* value: index in scopes */
	bool known; /* frame and call are */
	struct symbol_frame frame; /* name and linkage; name NULL: no frame of its own */
	struct symbol_frame call; /* file and line where it was inlined */
};

/* The scopes of one function; the first is the function itself. */
struct body {
	const void *function; /* address of its DIE; NULL: none yet */
	ARRAY(struct scope) scopes;
};

struct debuginfo {
	ARRAY(struct unit) units;
	struct body body; /* of the function asked about last */
	struct map full; /* hash of unit and address of a file name to address in paths */
	struct strtab paths;
	struct ranges ranges; /* value: index in units */
};

static void ranges_add_die(struct ranges *ranges, Dwarf_Die *die, uint32_t value)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t offset = 0;

	while ((offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0)
		ranges_add(ranges, start, end, value);
}

struct debuginfo *debuginfo_create(Dwarf *dwarf)
{
	struct debuginfo *info = mem_zalloc(sizeof(*info));
	Dwarf_CU *cu = NULL;
	Dwarf_Die die, split;
	uint8_t type;

	while (dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, &split) == 0) {
		struct unit *unit;

		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		ranges_add_die(&info->ranges, &die, (uint32_t)info->units.count);
		unit = array_push(&info->units);
		*unit = (struct unit){ .lines = die, .tree = die };
		if (type == DW_UT_skeleton && split.addr)
			unit->tree = split;
	}
	ranges_sort(&info->ranges);
	return info;
}

static void body_clear(struct body *body)
{
	array_each(&body->scopes, scope)
		ranges_deinit(&scope->below);
	body->scopes.count = 0;
	body->function = NULL;
}

void debuginfo_destroy(struct debuginfo *info)
{
	if (!info)
		return;
	array_each(&info->units, unit) {
		array_deinit(&unit->functions);
		ranges_deinit(&unit->ranges);
	}
	array_deinit(&info->units);
	ranges_deinit(&info->ranges);
	strtab_deinit(&info->paths);
	map_deinit(&info->full);
	body_clear(&info->body);
	array_deinit(&info->body.scopes);
	free(info);
}

static bool holds_functions(int tag, enum index_depth depth)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		return true;
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
	case DW_TAG_inlined_subroutine:
		return depth == INDEX_BODIES;
	default:
		return false;
	}
}

static void unit_index_below(struct unit *unit, Dwarf_Die *parent, enum index_depth depth,
			     int level)
{
	Dwarf_Die die;

	if (level > DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram) {
			ranges_add_die(&unit->ranges, &die, (uint32_t)unit->functions.count);
			*array_push(&unit->functions) = die;
		}
		if (holds_functions(tag, depth) && dwarf_haschildren(&die) > 0)
			unit_index_below(unit, &die, depth, level + 1);
	} while (dwarf_siblingof(&die, &die) == 0);
}

static void unit_index(struct unit *unit, enum index_depth depth)
{
	unit->functions.count = 0;
	unit->ranges.list.count = 0;
	unit_index_below(unit, &unit->tree, depth, 0);
	ranges_sort(&unit->ranges);
	unit->indexed = depth;
}

static const struct range *unit_function(struct unit *unit, uint64_t pc)
{
	const struct range *range;

	if (unit->indexed == INDEX_NONE)
		unit_index(unit, INDEX_OUTSIDE);
	range = ranges_find(&unit->ranges, pc, NULL);
	if (range || unit->indexed == INDEX_BODIES)
		return range;
	unit_index(unit, INDEX_BODIES);
	return ranges_find(&unit->ranges, pc, NULL);
}

static bool is_scope(int tag)
{
	return tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine ||
	       tag == DW_TAG_try_block || tag == DW_TAG_catch_block || tag == DW_TAG_with_stmt;
}

static void body_enter(struct body *body, const Dwarf_Die *function)
{
	if (body->function == function->addr)
		return;
	body_clear(body);
	*array_push(&body->scopes) = (struct scope){ .die = *function };
	body->function = function->addr;
}

static void scope_expand(struct body *body, uint32_t at)
{
	struct ranges below = {};
	Dwarf_Die die;

	body->scopes.items[at].expanded = true;
	if (dwarf_child(&body->scopes.items[at].die, &die) != 0)
		return;
	do {
		if (!is_scope(dwarf_tag(&die)))
			continue;
		ranges_add_die(&below, &die, (uint32_t)body->scopes.count);
		*array_push(&body->scopes) = (struct scope){ .die = die };
	} while (dwarf_siblingof(&die, &die) == 0);
	ranges_sort(&below);
	body->scopes.items[at].below = below;
}

/* The scope directly below that holds the address. */
static bool scope_below(struct body *body, uint32_t at, uint64_t pc, uint32_t *ret)
{
	const struct range *range;

	if (!body->scopes.items[at].expanded)
		scope_expand(body, at);
	range = ranges_find(&body->scopes.items[at].below, pc, NULL);
	if (range)
		*ret = range->value;
	return range;
}

static const char *die_linkage(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		return dwarf_formstring(&attribute);
	return NULL;
}

static uint64_t die_number(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) != 0)
		return 0;
	return value;
}

/* Appends a path, leaving out "./" and doubled slashes. */
static void path_add(struct strbuf *path, const char *text)
{
	for (; *text; text++) {
		bool begins = path->length == 0 || path->text[path->length - 1] == '/';

		if (begins && text[0] == '.' && text[1] == '/')
			text++;
		else if (!(begins && path->length && text[0] == '/'))
			strbuf_putc(path, *text);
	}
}

/* As absolute as the unit's directory allows. */
static const char *path_make(struct debuginfo *info, struct unit *unit, const char *file)
{
	Dwarf_Attribute attribute;
	const char *directory = NULL;
	struct strbuf path = {};
	uint32_t id;

	if (file[0] != '/' && dwarf_attr(&unit->lines, DW_AT_comp_dir, &attribute))
		directory = dwarf_formstring(&attribute);
	/* A relative directory is already there in files that lie in it, not in others. */
	if (directory && strncmp(file, directory, strlen(directory)) != 0) {
		path_add(&path, directory);
		path_add(&path, "/");
	}
	path_add(&path, file);
	id = strtab_add(&info->paths, strbuf_text(&path));
	strbuf_deinit(&path);
	return strtab_get(&info->paths, id);
}

/*
 * File names lie in the library's tables and stay there, so that the address tells one from the
 * other.
 */
static const char *path_full(struct debuginfo *info, struct unit *unit, const char *file)
{
	uint64_t *path;
	bool fresh;

	if (!file)
		return NULL;
	path = map_at(&info->full, hash64_pair((uintptr_t)unit, (uintptr_t)file), &fresh);
	if (fresh)
		*path = (uintptr_t)path_make(info, unit, file);
	return (const char *)(uintptr_t)*path;
}

/* Where an inlined function was called: the place of the frame around it. */
static void place_call(struct debuginfo *info, struct unit *unit, Dwarf_Die *inlined,
		       struct symbol_frame *frame)
{
	uint64_t index = die_number(inlined, DW_AT_call_file);
	Dwarf_Files *files;
	size_t count;

	frame->line = (uint32_t)die_number(inlined, DW_AT_call_line);
	if (dwarf_getsrcfiles(&unit->tree, &files, &count) == 0 && index < count)
		frame->file = path_full(info, unit, dwarf_filesrc(files, index, NULL, NULL));
}

static void place_line(struct debuginfo *info, struct unit *unit, uint64_t pc,
		       struct symbol_frame *frame)
{
	Dwarf_Line *line = dwarf_getsrc_die(&unit->lines, pc);
	int number = 0;

	if (!line)
		return;
	frame->file = path_full(info, unit, dwarf_linesrc(line, NULL, NULL));
	if (dwarf_lineno(line, &number) == 0 && number > 0)
		frame->line = (uint32_t)number;
}

static struct symbol_line line_read(struct debuginfo *info, struct unit *unit, Dwarf_Line *line)
{
	struct symbol_line row = {};
	Dwarf_Addr address = 0;
	bool ends = false;
	int number = 0;

	dwarf_lineaddr(line, &address);
	row.address = address;
	if (dwarf_lineendsequence(line, &ends) || ends)
		return row;
	if (dwarf_lineno(line, &number) == 0 && number > 0)
		row.line = (uint32_t)number;
	row.file = path_full(info, unit, dwarf_linesrc(line, NULL, NULL));
	return row;
}

size_t debuginfo_lines(struct debuginfo *info, size_t unit, size_t first, size_t max,
		       struct symbol_line *ret, size_t *ret_units)
{
	Dwarf_Lines *lines;
	size_t count = 0, used = 0;

	*ret_units = info->units.count;
	if (unit >= info->units.count ||
	    dwarf_getsrclines(&info->units.items[unit].lines, &lines, &count))
		return 0;
	for (size_t i = first; i < count && used < max; i++)
		ret[used++] = line_read(info, &info->units.items[unit], dwarf_onesrcline(lines, i));
	return used;
}

/* Parts that the compiler split off and put back have no name and are no frame. */
static void scope_learn(struct debuginfo *info, struct unit *unit, struct scope *scope)
{
	int tag = dwarf_tag(&scope->die);

	scope->known = true;
	if (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_subprogram) {
		scope->frame.name = dwarf_diename(&scope->die);
		scope->frame.linkage = die_linkage(&scope->die);
	}
	if (tag == DW_TAG_inlined_subroutine && scope->frame.name)
		place_call(info, unit, &scope->die, &scope->call);
}

/* The function and the inlined functions below it that hold the address, outermost first. */
static size_t chain_walk(struct debuginfo *info, struct unit *unit, uint64_t pc, uint32_t *ret,
			 size_t max)
{
	uint32_t at = 0;
	size_t count = 0;

	for (int level = 0; level < DEPTH_MAX && count < max; level++) {
		struct scope *scope = &info->body.scopes.items[at];

		if (!scope->known)
			scope_learn(info, unit, scope);
		if (at == 0 || scope->frame.name)
			ret[count++] = at;
		if (!scope_below(&info->body, at, pc, &at))
			break;
	}
	return count;
}

static size_t frames_make(struct debuginfo *info, struct unit *unit, const struct range *function,
			  uint64_t pc, struct symbol_frame *ret, size_t max)
{
	uint32_t chain[DEPTH_MAX];
	const struct scope *called = NULL; /* by the next one out */
	size_t count;

	body_enter(&info->body, &unit->functions.items[function->value]);
	count = chain_walk(info, unit, pc, chain, max < DEPTH_MAX ? max : DEPTH_MAX);
	for (size_t i = 0; i < count; i++) {
		const struct scope *scope = &info->body.scopes.items[chain[count - 1 - i]];

		ret[i] = scope->frame;
		if (called) {
			ret[i].file = called->call.file;
			ret[i].line = called->call.line;
		} else {
			place_line(info, unit, pc, &ret[i]);
		}
		called = scope;
	}
	return count;
}

size_t debuginfo_frames(struct debuginfo *info, uint64_t pc, struct symbol_frame *ret_frames,
			size_t max, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct range *range = NULL, *first = ranges_find(&info->ranges, pc, NULL);

	while ((range = ranges_find(&info->ranges, pc, range))) {
		struct unit *unit = &info->units.items[range->value];
		const struct range *function = unit_function(unit, pc);

		if (!function)
			continue;
		*ret_start = function->start;
		*ret_end = function->end;
		return frames_make(info, unit, function, pc, ret_frames, max);
	}
	if (!first)
		return 0;
	*ret_start = *ret_end = 0;
	*ret_frames = (struct symbol_frame){};
	place_line(info, &info->units.items[first->value], pc, ret_frames);
	return 1;
}

static bool function_begins(Dwarf_Die *die, uint64_t pc)
{
	Dwarf_Addr base, start, end;

	if (dwarf_entrypc(die, &start) == 0)
		return start == pc;
	return dwarf_ranges(die, 0, &base, &start, &end) > 0 && start == pc;
}

bool debuginfo_function(struct debuginfo *info, uint64_t pc, Dwarf_Die *ret)
{
	const struct range *range = NULL;

	while ((range = ranges_find(&info->ranges, pc, range))) {
		struct unit *unit = &info->units.items[range->value];
		const struct range *function = unit_function(unit, pc);

		if (!function || !function_begins(&unit->functions.items[function->value], pc))
			continue;
		*ret = unit->functions.items[function->value];
		return true;
	}
	return false;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * A file's table is made when the first process maps it, and kept for all others: by device, inode,
 * size and time of change. Names come from its symbol tables; functions without a name from its
 * unwind information, which has an entry for each of them.
 *
 * 1. A start is in the table once. If several names begin there, one that is to be skipped decides;
 *    otherwise the routine is wanted if one of them is.
 * 2. A part of a function that the compiler has moved away ("name.cold") is no function: control
 *    reaches it by jumps from the function itself.
 */
#include "marks/routines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "base/glob.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "image/loadmap_file.h"
#include "marks/module_file.h"
#include "symbols/symbols.h"

struct routines {
	struct routines_options options;
	struct map files; /* hash of a file's identity to its table's place */
	char *area;
	size_t used; /* bytes of the area */
	uint64_t failed;
};

/* Of one file, while its table is made. */
struct found {
	uint64_t address, size;
	enum routine_wish wish;
	enum routine_allocation allocation;
	bool part;
	bool named;
};

struct making {
	const struct routines *routines;
	const struct loadmap_file *file;
	ARRAY(struct found) found;
};

struct routines *routines_create(const struct routines_options *options)
{
	struct routines *routines = mem_zalloc(sizeof(*routines));

	routines->options = *options;
	return routines;
}

void routines_destroy(struct routines *routines)
{
	if (!routines)
		return;
	map_deinit(&routines->files);
	free(routines);
}

uint64_t routines_failed(const struct routines *routines)
{
	return routines->failed;
}

void routines_publish(struct routines *routines, void *area)
{
	const struct routines_options *options = &routines->options;
	struct routines_area *head = area;

	routines->area = area;
	routines->used = sizeof(*head);
	*head = (struct routines_area){ .asks = 1,
					.node_limit = options->node_limit,
					.depth_limit = options->depth_limit,
					.prune_permille = options->prune_permille,
					.filters = routine_choice_any(&options->choice),
					.only = options->choice.only.count != 0,
					.allocations = options->allocations,
					.resources = options->resources,
					.events = options->events };
}

/* --- Names ------------------------------------------------------------------------------------ */

static bool matches(const struct routine_patterns *patterns, const char *name)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (glob_match(patterns->items[i], name))
			return true;
	return false;
}

static bool takes(const struct routine_patterns *patterns, const char *name, const char *linkage)
{
	size_t bare = strcspn(name, "(");
	AUTO(free_ptr) char *short_name = NULL;

	if (!patterns->count)
		return false;
	if (matches(patterns, name) || (linkage && matches(patterns, linkage)))
		return true;
	if (!bare || !name[bare])
		return false;
	short_name = mem_strndup(name, bare);
	return matches(patterns, short_name);
}

enum routine_wish routine_choice_of(const struct routine_choice *choice, const char *name,
				    const char *linkage)
{
	if (takes(&choice->skip, name, linkage))
		return ROUTINE_UNWANTED;
	if (!choice->only.count || takes(&choice->only, name, linkage))
		return ROUTINE_WANTED;
	return ROUTINE_NOT_MEANT;
}

enum routine_wish routine_wish_join(enum routine_wish a, enum routine_wish b)
{
	if (a == ROUTINE_UNWANTED || b == ROUTINE_UNWANTED)
		return ROUTINE_UNWANTED;
	return a == ROUTINE_WANTED || b == ROUTINE_WANTED ? ROUTINE_WANTED : ROUTINE_NOT_MEANT;
}

static enum routine_allocation allocation_of(const char *name)
{
	static const struct {
		const char *name;
		enum routine_allocation how;
	} rows[] = {
		{ "malloc", ALLOCATION_FIRST },
		{ "valloc", ALLOCATION_FIRST },
		{ "pvalloc", ALLOCATION_FIRST },
		{ "realloc", ALLOCATION_SECOND },
		{ "memalign", ALLOCATION_SECOND },
		{ "aligned_alloc", ALLOCATION_SECOND },
		{ "posix_memalign", ALLOCATION_THIRD },
		{ "calloc", ALLOCATION_FIRST_SECOND },
		{ "reallocarray", ALLOCATION_SECOND_THIRD },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].name, name))
			return rows[i].how;
	return ALLOCATION_NONE;
}

const char *routine_part_suffix(const char *linkage)
{
	const char *dot = strstr(linkage, ".cold");

	return dot && (!dot[5] || dot[5] == '.') ? dot : NULL;
}

/* A part is wanted if its function is. */
static enum routine_wish wish_of(const struct routine_choice *choice,
				 const struct symbol_name *name)
{
	const char *suffix = routine_part_suffix(name->linkage);
	const char *clone = strstr(name->name, " [clone");
	AUTO(free_ptr) char *whole = NULL;
	AUTO(free_ptr) char *linkage = NULL;

	if (!suffix || !routine_choice_any(choice))
		return routine_choice_of(choice, name->name, name->linkage);
	linkage = mem_strndup(name->linkage, (size_t)(suffix - name->linkage));
	whole = clone ? mem_strndup(name->name, (size_t)(clone - name->name)) : NULL;
	return routine_choice_of(choice, whole ? whole : linkage, linkage);
}

/* --- Tables ----------------------------------------------------------------------------------- */

static void names_add(struct making *making, struct symbols *symbols)
{
	struct symbol_name *names;
	size_t count;

	symbols_names(symbols, SYMBOL_FUNCTIONS, &names, &count);
	for (size_t i = 0; i < count; i++) {
		const struct symbol_name *name = &names[i];

		*array_push(&making->found) = (struct found){
			.address = name->address,
			.size = name->size,
			.wish = wish_of(&making->routines->options.choice, name),
			.allocation = allocation_of(name->linkage),
			.part = routine_part_suffix(name->linkage) != NULL,
			.named = true,
		};
	}
	free(names);
}

static void extents_add(struct making *making, struct symbols *symbols)
{
	struct symbol_extent *extents;
	size_t count;

	symbols_extents(symbols, &extents, &count);
	for (size_t i = 0; i < count; i++)
		*array_push(&making->found) = (struct found){
			.address = extents[i].address,
			.size = extents[i].size,
			.wish = making->routines->options.choice.only.count ? ROUTINE_NOT_MEANT
									    : ROUTINE_WANTED,
		};
	free(extents);
}

static int found_compare(const void *a, const void *b)
{
	const struct found *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return (right->named > left->named) - (right->named < left->named);
}

/* One entry for each start; those without a name within a function that has one are parts of it. */
static void found_settle(struct making *making)
{
	struct found *found = making->found.items;
	size_t kept = 0;
	uint64_t named_end = 0;

	if (making->found.count)
		qsort(found, making->found.count, sizeof(*found), found_compare);
	for (size_t i = 0; i < making->found.count; i++) {
		struct found *last = kept ? &found[kept - 1] : NULL;

		if (last && last->address == found[i].address) {
			if (found[i].named)
				last->wish = routine_wish_join(last->wish, found[i].wish);
			if (!last->size)
				last->size = found[i].size;
			if (!last->allocation)
				last->allocation = found[i].allocation;
			continue;
		}
		if (!found[i].named && found[i].address < named_end)
			continue;
		found[kept++] = found[i];
		if (found[i].named && found[i].address + found[i].size > named_end)
			named_end = found[i].address + found[i].size;
	}
	making->found.count = kept;
}

/* Where in the file an address is; false: nowhere, or beyond what a table can hold. */
static bool offset_of(const struct loadmap_file *file, uint64_t address, uint32_t *ret)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct loadmap_segment *segment = &file->segments[i];

		if (!segment->executable || address - segment->address >= segment->size)
			continue;
		address += segment->offset - segment->address;
		*ret = (uint32_t)address;
		return address < UINT32_MAX;
	}
	return false;
}

/* One that does not say its size goes on to the next. */
static bool routine_make(const struct making *making, size_t i, struct routine *ret)
{
	const struct found *found = &making->found.items[i];
	uint64_t size = found->size;
	uint32_t flags = (uint32_t)found->allocation * ROUTINE_ALLOCATION;

	if (!size && i + 1 < making->found.count)
		size = found[1].address - found->address;
	size = size > ROUTINE_SIZE_MAX ? ROUTINE_SIZE_MAX : size;
	flags |= found->wish == ROUTINE_WANTED ? 0 : ROUTINE_SKIPPED;
	flags |= found->part ? ROUTINE_PART : 0;
	ret->size_flags = (uint32_t)size << ROUTINE_FLAG_BITS | flags;
	return offset_of(making->file, found->address, &ret->start);
}

/* In the order of addresses offsets ascend too, within a segment; linkers write them like that. */
static int routine_compare(const void *a, const void *b)
{
	const struct routine *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

static int table_write(struct routines *routines, const char *path, const struct making *making)
{
	size_t room = (ROUTINES_BYTES - routines->used - sizeof(struct routine_table)) /
		      sizeof(struct routine);
	struct routine_table *table = (void *)(routines->area + routines->used);
	int place = (int)(routines->used / ROUTINES_UNIT);
	size_t count = 0, size;

	if (making->found.count > room)
		return err_set(-ENOSPC,
			       "%s: there is no room for its %zu functions: tail calls in "
			       "it are part of who makes them",
			       path, making->found.count);
	for (size_t i = 0; i < making->found.count; i++)
		count += routine_make(making, i, &table->routines[count]);
	if (!count)
		return 0;
	qsort(table->routines, count, sizeof(struct routine), routine_compare);
	table->count = (uint32_t)count;
	size = sizeof(*table) + count * sizeof(struct routine);
	routines->used += (size + ROUTINES_UNIT - 1) / ROUTINES_UNIT * ROUTINES_UNIT;
	return place;
}

static int table_make(struct routines *routines, const char *path, const struct loadmap_file *file)
{
	struct making making = { .routines = routines, .file = file };
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	int result = symbols_open(file->fd, path, &symbols);

	if (result)
		return result;
	names_add(&making, symbols);
	extents_add(&making, symbols);
	found_settle(&making);
	result = table_write(routines, path, &making);
	array_deinit(&making.found);
	return result;
}

static int table_find(struct routines *routines, const char *path, const struct loadmap_file *file)
{
	uint64_t identity = loadmap_file_identity(file);
	const uint64_t *known = map_find(&routines->files, identity);
	int result;

	if (known)
		return (int)*known;
	result = table_make(routines, path, file);
	*map_at(&routines->files, identity, NULL) = (uint64_t)(result < 0 ? 0 : result);
	if (result < 0) {
		routines->failed++;
		log_warn("%s", err_text());
	}
	return result < 0 ? 0 : result;
}

int routines_module(void *ctx, pid_t pid, const struct stream_module *module)
{
	struct routines *routines = ctx;
	struct loadmap_file file;
	int place;

	if (module_file_open(pid, module, &file)) {
		routines->failed++;
		log_debug("%s: its functions are not known: %s", module->path, err_text());
		return 0;
	}
	place = file.elf ? table_find(routines, module->path, &file) : 0;
	loadmap_file_deinit(&file);
	return place;
}

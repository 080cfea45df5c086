// SPDX-License-Identifier: BSD-2-Clause
/*
 * Files that programs have mapped, and what is marked in them.
 *
 *	in	modules that engines have seen, and what resolve.c finds in their files
 *	out	the ranges of each file, which tables.c writes, and the places that reports show
 *	owner	struct marks: one struct marked_file for each file, open as long as the marks are
 *
 * A file's table is made when the first process maps it, and kept for all others. A file is known
 * by its device, inode, size and time of change.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "marks/marks_private.h"
#include "marks/module_file.h"

/* --- What is found ---------------------------------------------------------------------------- */

static void place_note(struct marks *marks, uint32_t number, const struct mark_place *place)
{
	struct entry *entry = &marks->entries.items[number - 1];
	uint64_t where = hash64_pair(hash_bytes(place->module, strlen(place->module)),
				     hash64_pair(place->address, place->size));
	bool fresh;

	map_at(&marks->placed, hash64_pair(where, (uint64_t)number << 1 | place->begins), &fresh);
	if (!fresh)
		return;
	pthread_mutex_lock(&marks->lock);
	entry->places++;
	if (marks->spec_numbers.items[entry->spec] != number) /* of the pattern that found it */
		marks->entries.items[marks->spec_numbers.items[entry->spec] - 1].places++;
	*array_push(&marks->found) = (struct found){ number, *place };
	pthread_mutex_unlock(&marks->lock);
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

void module_place(struct module *module, uint32_t number, uint64_t address, uint64_t size,
		  bool begins)
{
	struct marks *marks = module->marks;
	struct mark_place place = { .address = address, .size = size, .begins = begins };
	const struct mark_spec *spec;
	uint32_t start, last;

	if (!number || !size || !offset_of(module->file, address, &start) ||
	    !offset_of(module->file, address + size - 1, &last) || last < start)
		return;
	*array_push(&module->ranges->items) =
		(struct mark_range){ start, last + 1, 0, number << 1 | begins };
	spec = &marks->specs.items[marks->entries.items[number - 1].spec];
	if (begins && spec->event && !spec->slower)
		*array_push(&module->ranges->items) =
			(struct mark_range){ start, last + 1, 0, number << 1 | MARK_EVENT };
	if (begins && (spec->starts || spec->stops))
		module_use(module, spec->starts ? MARK_USE_START : MARK_USE_STOP, number, address,
			   size, false);
	place.module = strtab_get(&marks->paths, strtab_add(&marks->paths, module->path));
	place_note(marks, number, &place);
}

void module_use(struct module *module, enum mark_use use, uint32_t number, uint64_t address,
		uint64_t size, bool begins)
{
	uint32_t start, last;

	if (!size || !offset_of(module->file, address, &start) ||
	    !offset_of(module->file, address + size - 1, &last) || last < start)
		return;
	*array_push(&module->ranges->items) =
		(struct mark_range){ start, last + 1, 0, mark_word(use, number, begins) };
}

void module_data(struct module *module, uint32_t number, uint64_t address, uint64_t size)
{
	struct marks *marks = module->marks;
	const struct mark_place place = {
		.module = strtab_get(&marks->paths, strtab_add(&marks->paths, module->path)),
		.address = address,
		.size = size,
		.begins = true
	};

	if (!number || !size || size > UINT64_MAX - address)
		return;
	*array_push(&module->ranges->data) = (struct mark_data_range){
		.start = address,
		.end = address + size,
		.mark = number,
		.event = marks->specs.items[marks->entries.items[number - 1].spec].event
	};
	place_note(marks, number, &place);
}

/* --- Modules ---------------------------------------------------------------------------------- */

static void code_find(struct module *module)
{
	const struct loadmap_file *file = module->file;

	for (size_t i = 0; i < file->segment_count; i++) {
		const struct loadmap_segment *segment = &file->segments[i];

		if (!segment->executable || segment->offset > UINT32_MAX ||
		    segment->address > UINT32_MAX)
			continue;
		module->ranges->code_offset = (uint32_t)segment->offset;
		module->ranges->code_address = (uint32_t)segment->address;
		return;
	}
}

static bool is_wanted(const struct marks *marks, const char *path)
{
	array_each(&marks->specs, spec)
		if (spec->kind != MARK_INSTRUCTIONS &&
		    (mark_spec_takes_module(spec, path) ||
		     (spec->kind == MARK_DATA && spec->data == MARK_DATA_HEAP)))
			return true;
	return false;
}

int marked_file_publish(struct marks *marks, size_t index)
{
	struct marks_area *area = (void *)marks->area;
	struct marked_file *file = &marks->files.items[index];
	int place = mark_table_write(marks, file->path, &file->ranges);

	__atomic_store_n(&area->tables[index + 1], place < 0 ? 0 : (uint32_t)place,
			 __ATOMIC_RELEASE);
	if (place >= 0)
		return 0;
	marks->failed++;
	log_warn("%s", err_text());
	return place;
}

/* Adds to the ranges of a file what specs mark in it. */
void marked_file_resolve(struct marks *marks, size_t index, size_t first, size_t end)
{
	struct marked_file *file = &marks->files.items[index];
	struct module module = { .marks = marks,
				 .path = file->path,
				 .file = &file->file,
				 .functions = &file->functions,
				 .ranges = &file->ranges };

	code_find(&module);
	module_resolve(&module, first, end);
}

/* Takes the file over. Returns its number. */
static int file_add(struct marks *marks, const char *path, struct loadmap_file *file)
{
	uint64_t identity = loadmap_file_identity(file);
	size_t count = marks->files.count;

	for (size_t i = 0; i < count; i++)
		if (marks->files.items[i].identity == identity) {
			loadmap_file_deinit(file);
			return (int)i + 1;
		}
	if (count + 1 >= MARKS_FILES) {
		loadmap_file_deinit(file);
		marks->failed++;
		return err_set(-ENOSPC, "%s: there are more than %d files with code", path,
			       MARKS_FILES);
	}
	*array_push(&marks->files) = (struct marked_file){ .identity = identity,
							   .path = mem_strdup(path),
							   .file = *file };
	marked_file_resolve(marks, count, 0, marks->specs.count);
	marked_file_publish(marks, count);
	return (int)count + 1;
}

int marks_module(void *ctx, pid_t pid, const struct stream_module *module)
{
	struct marks *marks = ctx;
	struct loadmap_file file;
	int err = module_file_open(pid, module, &file);

	if (err && is_wanted(marks, module->path)) {
		marks->failed++;
		log_warn("%s: its marks are not counted: %s", module->path, err_text());
	}
	if (err)
		return err;
	if (!file.elf) {
		loadmap_file_deinit(&file);
		return 0;
	}
	err = file_add(marks, module->path, &file);
	if (err > 0)
		*array_push(&marks->mapped) = (struct mapped){ (uint32_t)pid, (uint32_t)err,
							       module->start, module->end,
							       module->offset };
	return err;
}

/* --- Addresses and pages --------------------------------------------------------------------- */

/* For a forked process, also mappings of its parent are found. */
static const struct mapped *mapped_find(const struct marks *marks, uint32_t pid, uint64_t address)
{
	const struct mapped *found = NULL;

	for (size_t i = marks->mapped.count; i-- > 0;) {
		const struct mapped *item = &marks->mapped.items[i];

		if (address - item->start >= item->end - item->start)
			continue;
		if (item->pid == pid)
			return item;
		found = found ? found : item;
	}
	return found;
}

char *marks_routine_at(struct marks *marks, uint32_t pid, uint64_t address)
{
	const struct mapped *mapped = mapped_find(marks, pid, address);
	struct marked_file *file = mapped ? &marks->files.items[mapped->file - 1] : NULL;
	struct module module = { .marks = marks };
	const char *name = NULL, *slash;

	if (!file)
		return NULL;
	module.path = file->path;
	module.file = &file->file;
	module.functions = &file->functions;
	address += mapped->offset - mapped->start;
	for (size_t i = 0; i < file->file.segment_count && !name; i++) {
		const struct loadmap_segment *segment = &file->file.segments[i];

		if (segment->executable && address - segment->offset < segment->size)
			name = module_function_at(&module,
						  address - segment->offset + segment->address);
	}
	slash = strrchr(file->path, '/');
	return name ? mem_printf("%s!%s", slash ? slash + 1 : file->path, name) : NULL;
}

/* A segment's pages begin where the kernel's do. */
static char *segment_page(const struct marked_file *file, const struct loadmap_segment *segment,
			  uint64_t *left)
{
	enum { PAGE = 4096 };
	uint64_t first = segment->address / PAGE;
	uint64_t count = (segment->address + segment->size - 1) / PAGE - first + 1;
	uint64_t start = (first + *left) * PAGE, end = start + PAGE, limit;
	const char *slash = strrchr(file->path, '/');

	if (!segment->executable || !segment->size)
		return NULL;
	if (*left >= count) {
		*left -= count;
		return NULL;
	}
	limit = segment->address + segment->size;
	start = start > segment->address ? start : segment->address;
	end = end < limit ? end : limit;
	return mem_printf("%s!0x%llx-0x%llx", slash ? slash + 1 : file->path,
			  (unsigned long long)start, (unsigned long long)end);
}

static char *page_find(struct marks *marks, const char *module, uint64_t number)
{
	const struct mark_spec spec = { .module = (char *)module };

	array_each(&marks->files, file)
		for (size_t i = 0; i < file->file.segment_count; i++) {
			char *page = mark_spec_takes_module(&spec, file->path)
					     ? segment_page(file, &file->file.segments[i], &number)
					     : NULL;

			if (page)
				return page;
		}
	return NULL;
}

char *marks_page(struct marks *marks, const char *module, uint64_t *number)
{
	char *page = page_find(marks, module, *number);

	if (!page && *number) {
		*number = 0;
		page = page_find(marks, module, 0);
	}
	*number += page != NULL;
	return page;
}

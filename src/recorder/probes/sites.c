// SPDX-License-Identifier: BSD-2-Clause
/*
 * Finds the places in files, and the objects in memory, that the kernel can count for marks. Marks
 * are looked up as for an engine (wire/marks.h), in private memory: the tables say where visits are
 * counted, as offsets in the file, and where data is, as addresses of the file.
 */
#include "recorder/probes/sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/procfs.h"
#include "marks/spec.h"

enum { CODE_SITES_MAX = 256, DATA_SITES_MAX = 2 /* two of the processor's four for each */ };

struct finding {
	struct probe_sites *sites;
	int err;
};

void probe_sites_deinit(struct probe_sites *sites)
{
	array_each(&sites->items, site)
		free(site->path);
	array_deinit(&sites->items);
}

/* --- What the kernel can count ---------------------------------------------------------------- */

static const char *obstacle_of(const struct mark_spec *spec)
{
	if (spec->kind == MARK_INSTRUCTIONS)
		return "instructions of a kind are everywhere";
	if (spec->timed || spec->tail)
		return "the kernel counts visits, and does not time them";
	if (spec->event)
		return "the kernel counts visits, and raises no events";
	if (spec->starts || spec->stops)
		return "the kernel always counts";
	if (spec->kind == MARK_DATA && spec->data == MARK_DATA_HEAP)
		return "the kernel does not follow allocations";
	return NULL;
}

static void mark_check(void *ctx, const struct mark *mark)
{
	struct finding *finding = ctx;
	struct mark_spec spec;
	const char *obstacle;

	if (finding->err || mark_spec_parse(mark->text, &spec))
		return;
	obstacle = obstacle_of(&spec);
	mark_spec_deinit(&spec);
	if (obstacle)
		finding->err =
			err_set(-EINVAL, "mark '%s': %s; use --by engine", mark->text, obstacle);
}

/* --- Sites ------------------------------------------------------------------------------------ */

static bool is_known(const struct probe_sites *sites, const struct probe_site *site)
{
	array_each(&sites->items, other)
		if (other->mark == site->mark && other->at == site->at &&
		    other->data == site->data && (site->data || !strcmp(other->path, site->path)))
			return true;
	return false;
}

static void site_add(struct finding *finding, struct probe_site site)
{
	if (finding->err || is_known(finding->sites, &site)) {
		free(site.path);
		return;
	}
	*array_push(&finding->sites->items) = site;
	finding->sites->data += site.data;
	if (finding->sites->data > DATA_SITES_MAX)
		finding->err = err_set(-E2BIG,
				       "there are more than %d objects: the processor has four "
				       "breakpoints, and one object takes two; use --by engine",
				       DATA_SITES_MAX);
	else if (finding->sites->items.count - finding->sites->data > CODE_SITES_MAX)
		finding->err = err_set(-E2BIG,
				       "marks are at more than %d places, which is too many for "
				       "probes of the kernel; use --by engine",
				       CODE_SITES_MAX);
}

static const struct mark_table *table_at(const struct finding *finding, uint32_t place)
{
	return place ? (const struct mark_table *)((const char *)finding->sites->area +
						   (size_t)place * MARKS_UNIT)
		     : NULL;
}

static void code_find(struct finding *finding, const struct event_mmap *map,
		      const struct mark_table *table)
{
	for (uint32_t i = 0; i < table->count; i++) {
		const struct mark_range *range = &table->ranges[i];

		if (mark_word_use(range->mark) != MARK_USE_COUNT || !(range->mark & 1) ||
		    range->start - map->offset >= map->end - map->start)
			continue;
		site_add(finding, (struct probe_site){
					  .mark = mark_word_number(range->mark),
					  .path = mem_printf("/proc/%d/map_files/%llx-%llx",
							     (int)finding->sites->pid,
							     (unsigned long long)map->start,
							     (unsigned long long)map->end),
					  .at = range->start,
				  });
	}
}

static void object_add(struct finding *finding, uint32_t mark, uint64_t start, uint64_t size)
{
	if (size != 1 && size != 2 && size != 4 && size != 8)
		finding->err =
			err_set(-EINVAL,
				"an object that is marked has %llu bytes; breakpoints of the "
				"processor are on 1, 2, 4 or 8; use --by engine",
				(unsigned long long)size);
	else if (start % size)
		finding->err = err_set(-EINVAL,
				       "an object that is marked is not at a multiple of its size, "
				       "as breakpoints of the processor have to be; use --by "
				       "engine");
	else
		site_add(finding,
			 (struct probe_site){
				 .mark = mark, .data = true, .at = start, .size = (uint32_t)size });
}

/* As in the file; where the first executable segment is says where that is in memory. */
static void data_find(struct finding *finding, const struct event_mmap *map,
		      const struct mark_table *table)
{
	const struct mark_data_range *ranges =
		(const struct mark_data_range *)(table->ranges + table->count);
	uint64_t page = ~4095ull;
	uint64_t bias = map->start - (table->code_address & page);

	if (map->offset != (table->code_offset & page))
		return;
	for (uint32_t i = 0; i < table->data_count && !finding->err; i++)
		object_add(finding, ranges[i].mark, ranges[i].start + bias,
			   ranges[i].end - ranges[i].start);
}

static int mapping_look(void *ctx, const struct event *event)
{
	struct finding *finding = ctx;
	const struct event_mmap *map = &event->mmap;
	size_t size = strlen(map->path) + 1;
	AUTO(free_ptr) struct stream_module *module = NULL;
	const struct mark_table *table;
	int file;

	if (event->kind != EVENT_MMAP || !map->inode || finding->err)
		return 0;
	module = mem_zalloc(sizeof(*module) + size);
	module->start = map->start;
	module->end = map->end;
	module->offset = map->offset;
	module->inode = map->inode;
	module->device_major = map->major;
	module->device_minor = map->minor;
	memcpy(module->path, map->path, size);
	file = marks_module(finding->sites->marks, finding->sites->pid, module);
	table = file > 0 ? table_at(finding, finding->sites->area->tables[file]) : NULL;
	if (table) {
		code_find(finding, map, table);
		data_find(finding, map, table);
	}
	return 0;
}

static void addresses_find(struct finding *finding)
{
	const struct mark_table *table = table_at(finding, finding->sites->area->data);
	const struct mark_data_range *ranges =
		table ? (const struct mark_data_range *)(table->ranges + table->count) : NULL;

	for (uint32_t i = 0; table && i < table->data_count && !finding->err; i++)
		object_add(finding, ranges[i].mark, ranges[i].start,
			   ranges[i].end - ranges[i].start);
}

int probe_sites_init(struct probe_sites *sites, struct marks *marks, pid_t pid)
{
	void *area = mmap(NULL, MARKS_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct finding finding = { .sites = sites };

	if (area == MAP_FAILED)
		return err_set(-errno, "there is no memory for tables of marks: %s",
			       strerror(errno));
	*sites = (struct probe_sites){ .marks = marks, .pid = pid, .area = area };
	marks_each(marks, 1, mark_check, &finding);
	return finding.err ? finding.err : marks_publish(marks, area);
}

int probe_sites_look(struct probe_sites *sites)
{
	struct finding finding = { .sites = sites };
	int err = procfs_mappings(sites->pid, 0, mapping_look, &finding);

	if (!err)
		addresses_find(&finding);
	return err ? err : finding.err;
}

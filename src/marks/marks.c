// SPDX-License-Identifier: BSD-2-Clause
/*
 * Marks and their tables.
 *
 * A file's table is made when the first process maps it, and kept for all others: by device, inode,
 * size and time of change. Tables lie one behind the other in the shared memory and are never
 * changed, so that no engine can see half of one. When marks change, files that are affected get
 * new ones, and engines are told.
 */
#include "marks/marks.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <x86intrin.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/glob.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "marks/marks_private.h"
#include "marks/rules.h"
#include "wire/tools.h"

enum {
	LINES_MAX = MARKS_MAX / 2,
	NAMES_MAX = 1 << 16, /* of marks that programs can read */
	EVENT_LIMIT = 100, /* of a process, in MARKS_EVENT_TICKS */
};

struct marks *marks_create(void)
{
	struct marks *marks = mem_zalloc(sizeof(*marks));

	pthread_mutex_init(&marks->lock, NULL);
	return marks;
}

void marks_destroy(struct marks *marks)
{
	if (!marks)
		return;
	array_each(&marks->specs, spec)
		mark_spec_deinit(spec);
	array_each(&marks->entries, entry)
		free(entry->text);
	array_each(&marks->files, file) {
		free(file->path);
		loadmap_file_deinit(&file->file);
		marked_functions_deinit(&file->functions);
		array_deinit(&file->ranges.items);
	}
	array_deinit(&marks->mapped);
	array_deinit(&marks->files);
	array_deinit(&marks->instructions.items);
	array_deinit(&marks->specs);
	array_deinit(&marks->spec_numbers);
	array_deinit(&marks->entries);
	array_deinit(&marks->found);
	strtab_deinit(&marks->paths);
	map_deinit(&marks->children);
	map_deinit(&marks->placed);
	pthread_mutex_destroy(&marks->lock);
	free(marks);
}

size_t marks_count(const struct marks *marks)
{
	return marks->entries.count;
}

uint64_t marks_failed(const struct marks *marks)
{
	return marks->failed;
}

/* Programs read them by it. What is beyond the room cannot be read. */
static void name_publish(struct marks *marks, const struct entry *entry)
{
	struct mark_names *names = marks->names;
	uint32_t of = entry->spec < marks->spec_numbers.count
			      ? marks->spec_numbers.items[entry->spec]
			      : entry->number;

	if (names->count == names->room)
		return;
	names->items[names->count] =
		(struct mark_name){ mark_name_hash(entry->text), entry->number, of };
	__atomic_store_n(&names->count, names->count + 1, __ATOMIC_RELEASE);
}

static uint32_t entry_add(struct marks *marks, size_t spec, const char *text, bool pattern)
{
	uint32_t number = (uint32_t)marks->entries.count + 1;

	pthread_mutex_lock(&marks->lock);
	*array_push(&marks->entries) = (struct entry){
		.number = number, .spec = spec, .text = mem_strdup(text), .pattern = pattern
	};
	pthread_mutex_unlock(&marks->lock);
	if (marks->names)
		name_publish(marks, &marks->entries.items[number - 1]);
	return number;
}

int marks_add(struct marks *marks, const char *text)
{
	struct mark_spec spec;
	int err = mark_spec_parse(text, &spec);

	if (err)
		return err;
	if (marks->entries.count >= LINES_MAX)
		err = err_set(-EINVAL, "there are more than %d marks", LINES_MAX);
	array_each(&marks->specs, other)
		if (spec.tail && other->tail)
			err = err_set(-EINVAL,
				      "'%s' and '%s': the slowest visits are kept of one routine",
				      other->text, text);
	if (err) {
		mark_spec_deinit(&spec);
		return err;
	}
	pthread_mutex_lock(&marks->lock);
	*array_push(&marks->specs) = spec;
	pthread_mutex_unlock(&marks->lock);
	*array_push(&marks->spec_numbers) =
		entry_add(marks, marks->specs.count - 1, text, spec.many);
	return 0;
}

static bool spec_find(const struct marks *marks, const char *text, size_t *ret)
{
	for (size_t i = 0; i < marks->specs.count; i++)
		if (!strcmp(marks->specs.items[i].text, text)) {
			*ret = i;
			return true;
		}
	return false;
}

/* Without what follows its commas, too, if no mark has exactly that text. */
static bool spec_meant(const struct marks *marks, const char *text, size_t *ret)
{
	if (spec_find(marks, text, ret))
		return true;
	for (size_t i = 0; i < marks->specs.count; i++)
		if (rule_mark_is(text, marks->specs.items[i].text)) {
			*ret = i;
			return true;
		}
	return false;
}

static int change_check(const struct marks *marks, const char *text);

int marks_add_idle(struct marks *marks, const char *text)
{
	size_t known;
	int err;

	if (spec_find(marks, text, &known))
		return 0;
	err = change_check(marks, text);
	err = err ? err : marks_add(marks, text);
	if (!err)
		marks->entries.items[marks->entries.count - 1].removed = true;
	return err;
}

bool marks_spec_removed(const struct marks *marks, size_t spec)
{
	return marks->entries.items[marks->spec_numbers.items[spec] - 1].removed;
}

uint32_t marks_child(struct marks *marks, size_t spec, const char *routine)
{
	bool fresh;
	uint64_t *number = map_at(&marks->children,
				  hash64_pair(spec, hash_bytes(routine, strlen(routine))), &fresh);

	if (fresh)
		*number = marks->entries.count + 1 < MARKS_MAX
				  ? entry_add(marks, spec, routine, false)
				  : 0;
	return (uint32_t)*number;
}

/* --- Files of marks --------------------------------------------------------------------------- */

static int line_add(struct marks *marks, const char *path, size_t number, char *line, size_t length)
{
	int err;

	if (length && line[length - 1] == '\n')
		line[--length] = '\0';
	if (length && line[length - 1] == '\r')
		line[--length] = '\0';
	if (strlen(line) != length)
		return err_set(-EINVAL, "%s:%zu: the line holds a byte 0", path, number);
	line += strspn(line, " \t");
	for (length = strlen(line); length && strchr(" \t", line[length - 1]);)
		line[--length] = '\0';
	if (!length || *line == '#')
		return 0;
	err = marks_add(marks, line);
	return err ? err_wrap(err, "%s:%zu", path, number) : 0;
}

int marks_add_file(struct marks *marks, const char *path)
{
	AUTO(close_file) FILE *file = fopen(path, "re");
	AUTO(free_ptr) char *line = NULL;
	size_t size = 0, number = 0;
	ssize_t length;
	int err = 0;

	if (!file)
		return err_set(-errno, "cannot read the marks in %s: %m", path);
	while (!err && (length = getline(&line, &size, file)) >= 0) {
		if (length > MARK_TEXT_MAX)
			err = err_set(-EINVAL, "%s:%zu: the line has more than %d bytes", path,
				      number + 1, MARK_TEXT_MAX);
		else
			err = line_add(marks, path, ++number, line, (size_t)length);
	}
	if (!err && ferror(file))
		err = err_set(-EIO, "cannot read the marks in %s: %m", path);
	return err;
}

/* --- Tables ----------------------------------------------------------------------------------- */

static int range_compare(const void *a, const void *b)
{
	const struct mark_range *left = a, *right = b;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	if (left->end != right->end)
		return left->end < right->end ? -1 : 1;
	return left->mark < right->mark ? -1 : left->mark > right->mark;
}

/* The same twice counts once: an object file has several names for one routine. */
static size_t ranges_settle(struct mark_range *ranges, size_t count)
{
	size_t kept = 0;
	uint32_t reach = 0;

	qsort(ranges, count, sizeof(*ranges), range_compare);
	for (size_t i = 0; i < count; i++)
		if (!kept || range_compare(&ranges[kept - 1], &ranges[i]))
			ranges[kept++] = ranges[i];
	for (size_t i = 0; i < kept; i++) {
		reach = ranges[i].end > reach ? ranges[i].end : reach;
		ranges[i].reach = reach;
	}
	return kept;
}

static int table_write(struct marks *marks, const char *what, struct ranges_list *list)
{
	size_t count = list->items.count =
		list->items.count ? ranges_settle(list->items.items, list->items.count) : 0;
	size_t data_size = list->data.count * sizeof(struct mark_data_range);
	size_t size = sizeof(struct mark_table) + count * sizeof(struct mark_range) + data_size;
	struct mark_table *table = (void *)(marks->area + marks->used);
	int place = (int)(marks->used / MARKS_UNIT);

	if (!count && !data_size)
		return 0;
	if (size > MARKS_BYTES - marks->used)
		return err_set(-ENOSPC, "there is no room for the %zu ranges that are marked in %s",
			       count, what);
	table->count = (uint32_t)count;
	table->data_count = (uint32_t)list->data.count;
	table->code_offset = list->code_offset;
	table->code_address = list->code_address;
	if (count)
		memcpy(table->ranges, list->items.items, count * sizeof(struct mark_range));
	if (data_size)
		memcpy(table->ranges + count, list->data.items, data_size);
	marks->used += size;
	return place;
}

/* --- Kinds of instructions -------------------------------------------------------------------- */

static bool code_matches(const char *pattern, enum mark_prefix prefix, const char *name)
{
	static const char *const prefixes[] = { "", "lock ", "rep ", "repe ", "repne " };
	char text[64];

	snprintf(text, sizeof(text), "%s%s", prefixes[prefix], name);
	return glob_match(pattern, text) || glob_match(pattern, name);
}

static void range_add(struct ranges_list *list, uint32_t start, uint32_t end, uint32_t number)
{
	*array_push(&list->items) = (struct mark_range){ start, end, 0, number << 1 };
	*array_push(&list->items) = (struct mark_range){ start, end, 0, number << 1 | 1 };
}

/* Neighbouring codes are one range. Returns how many codes the pattern has. */
static size_t codes_add(struct ranges_list *list, const char *pattern, uint32_t number)
{
	size_t total = 0;

	for (unsigned prefix = 0; prefix < MARK_PREFIX_COUNT; prefix++) {
		uint32_t start = 0, count = 0;

		for (uint32_t i = 1; i <= ZYDIS_MNEMONIC_MAX_VALUE + 1u; i++) {
			const char *name = i <= ZYDIS_MNEMONIC_MAX_VALUE
						   ? ZydisMnemonicGetString((ZydisMnemonic)i)
						   : NULL;

			if (name && code_matches(pattern, (enum mark_prefix)prefix, name)) {
				start = count++ ? start : mark_code((enum mark_prefix)prefix, i);
				continue;
			}
			if (count)
				range_add(list, start, start + count, number);
			total += count;
			count = 0;
		}
	}
	return total;
}

static int instructions_find(struct marks *marks, size_t index)
{
	const struct mark_spec *spec = &marks->specs.items[index];
	struct entry *entry = &marks->entries.items[marks->spec_numbers.items[index] - 1];

	if (spec->kind != MARK_INSTRUCTIONS)
		return 0;
	entry->places = (uint32_t)codes_add(&marks->instructions, spec->name, entry->number);
	return entry->places
		       ? 0
		       : err_set(-EINVAL, "mark '%s': no instruction has such a name", spec->text);
}

static int instructions_publish(struct marks *marks)
{
	struct marks_area *area = (void *)marks->area;
	int place = table_write(marks, "the instructions", &marks->instructions);

	if (place >= 0)
		__atomic_store_n(&area->instructions, (uint32_t)place, __ATOMIC_RELEASE);
	return place < 0 ? place : 0;
}

/* --- Timers ----------------------------------------------------------------------------------- */

/* Ticks of the time stamp counter in a nanosecond. */
static double ticks_per_ns(void)
{
	enum { MEASURED_NS = 5000000 };
	static double known;
	uint64_t ns = clock_monotonic(), ticks = __rdtsc(), now = ns;

	if (known > 0)
		return known;
	while (now - ns < MEASURED_NS)
		now = clock_monotonic();
	known = (double)(__rdtsc() - ticks) / (double)(now - ns);
	return known;
}

static uint64_t slower_ticks(const struct mark_spec *spec)
{
	double ticks = spec->slower_ns ? (double)spec->slower * ticks_per_ns()
				       : (double)spec->slower;

	return !spec->slower ? 0 : ticks < 1 ? 1 : ticks > 1e18 ? (uint64_t)1e18 : (uint64_t)ticks;
}

/* A routine ends with the stack pointer of its beginning. Whatever lies in it may move it. */
static uint32_t timer_flags(const struct mark_spec *spec)
{
	return (spec->kind == MARK_ROUTINE ? MARK_TIMER_EXACT : 0) |
	       (spec->event && spec->slower ? MARK_TIMER_EVENT : 0);
}

bool marks_timer(struct marks *marks, uint32_t number, uint32_t *ret)
{
	struct entry *entry = &marks->entries.items[number - 1];
	const struct mark_spec *spec = &marks->specs.items[entry->spec];

	if (!entry->timer && marks->timer_count == MARK_TIMERS_MAX) {
		marks->untimed++;
		return false;
	}
	if (!entry->timer) {
		marks->timers[marks->timer_count] = (struct mark_timer){
			.slower = slower_ticks(spec), .mark = number, .flags = timer_flags(spec)
		};
		entry->timer = ++marks->timer_count;
	}
	*ret = entry->timer - 1;
	return true;
}

uint64_t marks_untimed(const struct marks *marks)
{
	return marks->untimed;
}

uint32_t marks_timed_by(const struct marks *marks, uint32_t timer)
{
	return timer < marks->timer_count ? marks->timers[timer].mark : 0;
}

static int timers_publish(struct marks *marks, struct marks_area *area)
{
	size_t size = MARK_TIMERS_MAX * sizeof(struct mark_timer);

	if (size > MARKS_BYTES - marks->used)
		return err_set(-ENOSPC, "there is no room for timers");
	area->timers = (uint32_t)(marks->used / MARKS_UNIT);
	marks->timers = (void *)(marks->area + marks->used);
	marks->used += size;
	return 0;
}

bool marks_keep_visits(const struct marks *marks)
{
	array_each(&marks->specs, spec)
		if (spec->tail)
			return true;
	return false;
}

/* Those that some mark needs now. */
static uint64_t tools_needed(const struct marks *marks)
{
	uint64_t tools = ENGINE_TOOL_BIT(ENGINE_TOOL_MARKS);

	for (size_t i = 0; i < marks->specs.count; i++) {
		const struct mark_spec *spec = &marks->specs.items[i];

		if (marks_spec_removed(marks, i))
			continue;
		if (spec->timed)
			tools |= ENGINE_TOOL_BIT(ENGINE_TOOL_MARK_TIMES);
		if (spec->kind == MARK_DATA)
			tools |= ENGINE_TOOL_BIT(ENGINE_TOOL_MARK_DATA);
		if (spec->tail)
			tools |= ENGINE_TOOL_BIT(ENGINE_TOOL_MARK_VISITS);
	}
	return tools;
}

/* Of a mark that comes and one that goes: the share is that of the one that is there. */
static void tools_publish(struct marks *marks)
{
	struct marks_area *area = (void *)marks->area;

	for (size_t i = 0; i < marks->specs.count; i++)
		if (marks->specs.items[i].tail && !marks_spec_removed(marks, i))
			area->slow_permille = marks->specs.items[i].tail;
	__atomic_store_n(&area->tools, (uint32_t)tools_needed(marks), __ATOMIC_RELEASE);
}

/* --- Addresses of data ------------------------------------------------------------------------ */

static int addresses_publish(struct marks *marks)
{
	struct marks_area *area = (void *)marks->area;
	struct ranges_list list = {};
	int place;

	array_each(&marks->entries, entry) {
		const struct mark_spec *spec = &marks->specs.items[entry->spec];

		if (spec->kind != MARK_DATA || spec->data != MARK_DATA_ADDRESS || entry->removed)
			continue;
		*array_push(&list.data) = (struct mark_data_range){ .start = spec->first,
								    .end = spec->last,
								    .mark = entry->number,
								    .event = spec->event };
		entry->places = 1;
	}
	place = table_write(marks, "the addresses", &list);
	array_deinit(&list.data);
	if (place >= 0)
		__atomic_store_n(&area->data, (uint32_t)place, __ATOMIC_RELEASE);
	return place < 0 ? place : 0;
}

static void names_publish(struct marks *marks, struct marks_area *area)
{
	area->names = (uint32_t)(marks->used / MARKS_UNIT);
	marks->names = (void *)(marks->area + marks->used);
	marks->names->room = NAMES_MAX;
	marks->used += sizeof(struct mark_names) + NAMES_MAX * sizeof(struct mark_name);
	array_each(&marks->entries, entry)
		name_publish(marks, entry);
}

static uint32_t regions_of(const struct marks *marks)
{
	uint32_t regions = 0;

	array_each(&marks->specs, spec)
		regions |= spec->starts	 ? MARK_REGIONS | MARK_REGIONS_OFF
			   : spec->stops ? MARK_REGIONS
					 : 0;
	return regions;
}

int marks_publish(struct marks *marks, void *area)
{
	struct marks_area *head = area;
	int err;

	marks->area = area;
	marks->used = sizeof(*head);
	head->asks = 1;
	head->event_limit = EVENT_LIMIT;
	head->regions = regions_of(marks);
	tools_publish(marks);
	names_publish(marks, head);
	err = timers_publish(marks, head);
	err = err ? err : addresses_publish(marks);
	for (size_t i = 0; i < marks->specs.count && !err; i++)
		err = marks_spec_removed(marks, i) ? 0 : instructions_find(marks, i);
	err = err ? err : instructions_publish(marks);
	__atomic_store_n(&head->generation, 1, __ATOMIC_RELEASE);
	return err;
}

/* --- Modules ---------------------------------------------------------------------------------- */

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

static uint64_t identity_of(const struct loadmap_file *file)
{
	struct stat status;

	if (fstat(file->fd, &status))
		return 0;
	return hash64_pair(hash64_pair(status.st_dev, status.st_ino),
			   hash64_pair((uint64_t)file->modified, file->size));
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

static int file_publish(struct marks *marks, size_t index)
{
	struct marks_area *area = (void *)marks->area;
	struct marked_file *file = &marks->files.items[index];
	int place = table_write(marks, file->path, &file->ranges);

	__atomic_store_n(&area->tables[index + 1], place < 0 ? 0 : (uint32_t)place,
			 __ATOMIC_RELEASE);
	if (place >= 0)
		return 0;
	marks->failed++;
	log_warn("%s", err_text());
	return place;
}

/* Adds to the ranges of a file what specs mark in it. */
static void file_resolve(struct marks *marks, size_t index, size_t first, size_t end)
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
	uint64_t identity = identity_of(file);
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
	file_resolve(marks, count, 0, marks->specs.count);
	file_publish(marks, count);
	return (int)count + 1;
}

int marks_module(void *ctx, pid_t pid, const struct stream_module *module)
{
	struct marks *marks = ctx;
	const struct event_mmap mmap = {
		.start = module->start,
		.end = module->end,
		.offset = module->offset,
		.inode = module->inode,
		.major = module->device_major,
		.minor = module->device_minor,
		.path = module->path,
	};
	struct loadmap_file file;
	int err = loadmap_file_open((uint32_t)pid, &mmap, module->path, &file);

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

/* --- Pages ------------------------------------------------------------------------------------ */

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

/* --- Changes while programs run --------------------------------------------------------------- */

/* Engines look at it when they come by. */
static void generation_grow(struct marks *marks)
{
	struct marks_area *area = (void *)marks->area;

	__atomic_add_fetch(&area->generation, 1, __ATOMIC_ACQ_REL);
}

static void spec_removed_set(struct marks *marks, size_t spec, bool removed)
{
	pthread_mutex_lock(&marks->lock);
	array_each(&marks->entries, entry)
		if (entry->spec == spec) {
			entry->removed = removed;
			/* Visits that did not end while it was removed are not those that come. */
			entry->timer = 0;
		}
	pthread_mutex_unlock(&marks->lock);
}

static bool is_address(const struct mark_spec *spec)
{
	return spec->kind == MARK_DATA && spec->data == MARK_DATA_ADDRESS;
}

static int spec_apply(struct marks *marks, size_t spec)
{
	int err = instructions_find(marks, spec);

	if (!err && marks->specs.items[spec].kind == MARK_INSTRUCTIONS)
		err = instructions_publish(marks);
	if (!err && is_address(&marks->specs.items[spec]))
		err = addresses_publish(marks);
	for (size_t i = 0; i < marks->files.count && !err; i++) {
		struct ranges_list *list = &marks->files.items[i].ranges;
		size_t before = list->items.count + list->data.count;

		file_resolve(marks, i, spec, spec + 1);
		if (list->items.count + list->data.count != before)
			err = file_publish(marks, i);
	}
	return err;
}

/*
 * Which mark a range is of; 0: one that is never removed: functions that allocate, which several
 * marks may need, and regions.
 */
static uint32_t range_mark(const struct marks *marks, const struct mark_range *range)
{
	switch (mark_word_use(range->mark)) {
	case MARK_USE_COUNT:
	case MARK_USE_EVENT:
		return (range->mark & ~MARK_EVENT) >> 1;
	case MARK_USE_SITE:
	case MARK_USE_VISITS:
		return mark_word_number(range->mark);
	case MARK_USE_TIME:
	case MARK_USE_TIME_END:
		return marks_timed_by(marks, mark_word_number(range->mark));
	default:
		return 0;
	}
}

/* True: there were some. */
static bool ranges_drop(const struct marks *marks, struct ranges_list *list, size_t spec)
{
	size_t kept = 0, kept_data = 0, count = list->items.count, data_count = list->data.count;

	for (size_t i = 0; i < count; i++) {
		uint32_t number = range_mark(marks, &list->items.items[i]);

		if (!number || marks->entries.items[number - 1].spec != spec)
			list->items.items[kept++] = list->items.items[i];
	}
	for (size_t i = 0; i < data_count; i++)
		if (marks->entries.items[list->data.items[i].mark - 1].spec != spec)
			list->data.items[kept_data++] = list->data.items[i];
	list->items.count = kept;
	list->data.count = kept_data;
	return kept != count || kept_data != data_count;
}

static int spec_withdraw(struct marks *marks, size_t spec)
{
	int err = 0;

	if (ranges_drop(marks, &marks->instructions, spec))
		err = instructions_publish(marks);
	if (is_address(&marks->specs.items[spec]))
		err = err ? err : addresses_publish(marks);
	for (size_t i = 0; i < marks->files.count; i++)
		if (ranges_drop(marks, &marks->files.items[i].ranges, spec))
			err = err ? err : file_publish(marks, i);
	return err;
}

/* What was kept of single visits is of one mark, also when it is gone. */
static int tail_check(const struct marks *marks, const struct mark_spec *wanted)
{
	array_each(&marks->specs, spec)
		if (wanted->tail && spec->tail && strcmp(spec->text, wanted->text) != 0)
			return err_set(-EINVAL,
				       "mark '%s': the slowest visits are kept of one routine, and "
				       "here they are those of '%s'; count in a new recording",
				       wanted->text, spec->text);
	return 0;
}

/* Instructions that are timed end at the next one, whose code is not told to be another. */
static int change_check(const struct marks *marks, const char *text)
{
	struct mark_spec spec;
	int err = mark_spec_parse(text, &spec);

	if (err)
		return err;
	err = tail_check(marks, &spec);
	if (spec.timed && spec.kind == MARK_INSTRUCTION)
		err = err_set(-EINVAL,
			      "mark '%s': an instruction by itself cannot begin or cease to be "
			      "timed while programs run; give it with -m at the start",
			      text);
	if (spec.starts || spec.stops)
		err = err_set(
			-EINVAL,
			"mark '%s': what starts and stops counting cannot be added or removed "
			"while programs run; give it with -m at the start",
			text);
	mark_spec_deinit(&spec);
	return err;
}

int marks_change_add(struct marks *marks, const char *text)
{
	size_t spec;
	bool again = spec_find(marks, text, &spec);
	int err = change_check(marks, text);

	if (err)
		return err;
	if (again && !marks_spec_removed(marks, spec))
		return err_set(-EEXIST, "mark '%s' is counted already", text);
	if (again) {
		spec_removed_set(marks, spec, false);
	} else {
		err = marks_add(marks, text);
		spec = marks->specs.count - 1;
	}
	if (err)
		return err;
	err = spec_apply(marks, spec);
	if (err) {
		spec_removed_set(marks, spec, true);
		spec_withdraw(marks, spec);
	}
	tools_publish(marks);
	generation_grow(marks);
	return err;
}

int marks_change_remove(struct marks *marks, const char *text)
{
	size_t spec;
	int err = change_check(marks, text);

	if (err)
		return err;
	if (!spec_find(marks, text, &spec) || marks_spec_removed(marks, spec))
		return err_set(-ENOENT, "there is no mark '%s'; a mark is removed as it was given",
			       text);
	spec_removed_set(marks, spec, true);
	err = spec_withdraw(marks, spec);
	tools_publish(marks);
	generation_grow(marks);
	return err;
}

size_t marks_active(const struct marks *marks)
{
	size_t count = 0;

	for (size_t i = 0; i < marks->specs.count; i++)
		count += !marks_spec_removed(marks, i);
	return count;
}

bool marks_are_seen(const struct marks *marks, uint32_t generation)
{
	const struct marks_area *area = (const void *)marks->area;

	return generation == area->generation;
}

/* --- For others ------------------------------------------------------------------------------- */

void marks_each(struct marks *marks, uint32_t from,
		void (*tell)(void *ctx, const struct mark *mark), void *ctx)
{
	pthread_mutex_lock(&marks->lock);
	for (size_t i = from ? from - 1 : 0; i < marks->entries.count; i++) {
		const struct entry *entry = &marks->entries.items[i];
		const struct mark mark = { entry->number,  marks->specs.items[entry->spec].kind,
					   entry->pattern, entry->removed,
					   entry->text,	   entry->places };

		tell(ctx, &mark);
	}
	pthread_mutex_unlock(&marks->lock);
}

void marks_places_each(struct marks *marks, size_t from,
		       void (*tell)(void *ctx, uint32_t number, const struct mark_place *place),
		       void *ctx)
{
	pthread_mutex_lock(&marks->lock);
	for (size_t i = from; i < marks->found.count; i++)
		tell(ctx, marks->found.items[i].number, &marks->found.items[i].place);
	pthread_mutex_unlock(&marks->lock);
}

void marks_numbers(struct marks *marks, const char *text, void (*tell)(void *ctx, uint32_t number),
		   void *ctx)
{
	size_t spec;

	pthread_mutex_lock(&marks->lock);
	if (spec_meant(marks, text, &spec))
		array_each(&marks->entries, entry)
			if (entry->spec == spec)
				tell(ctx, entry->number);
	pthread_mutex_unlock(&marks->lock);
}

char *marks_given(struct marks *marks, uint32_t number)
{
	char *text = NULL;

	pthread_mutex_lock(&marks->lock);
	if (number && number <= marks->entries.count)
		text = mem_strdup(marks->specs.items[marks->entries.items[number - 1].spec].text);
	pthread_mutex_unlock(&marks->lock);
	return text;
}

bool marks_spec(struct marks *marks, const char *text, struct mark_spec *ret)
{
	size_t spec;
	bool found;

	pthread_mutex_lock(&marks->lock);
	found = spec_meant(marks, text, &spec);
	if (found)
		*ret = marks->specs.items[spec];
	pthread_mutex_unlock(&marks->lock);
	return found;
}

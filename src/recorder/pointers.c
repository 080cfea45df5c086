// SPDX-License-Identifier: BSD-2-Clause
/*
 * Addresses and what they point to.
 *
 * A look reads /proc/PID/maps: areas, each with the text that stands for what lies there, and the
 * modules among them. A module reaches over several areas, and the last of its variables lie in one
 * that has no file; its program headers say how far it goes. So a module is asked for first, but
 * only where something is mapped.
 *
 * 1. A value is named only if it lay in an area when its process, or one of the same program, was
 *    last looked at.
 * 2. A value that means different things in different processes has no name.
 * 3. Spaces and areas are bounded: the one that was not looked at for the longest time goes.
 * 4. Areas are sorted and do not overlap.
 */
#include "recorder/pointers.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "image/procfs.h"
#include "recorder/texts.h"
#include "symbols/symbols.h"

#define DELETED " (deleted)"

enum {
	SPACES_MAX = 256,
	AREAS_MAX = 65536,
	TEXTS_MAX = 65536,
	FILES_MAX = 65536,
	NAMES_MAX = 100000,
	KERNEL_OBJECT_MAX = 1 << 20, /* what lies further from a symbol is not part of it */
	ADDRESS_MIN = 0x10000, /* vm.mmap_min_addr: what is smaller is a number */
	MEM_MAJOR = 1, /* /dev/mem and others */
};

#define USER_END (UINT64_C(1) << 56) /* with page tables of five levels */
#define KERNEL_START UINT64_C(0xffffffff80000000) /* of its image; modules lie above it */

struct area {
	uint64_t start, end;
	uint32_t text; /* in texts */
};

struct extent {
	uint64_t start, end, bias;
	struct module_id module;
};

/* What a process maps. */
struct space {
	uint32_t process; /* struct process_id */
	uint32_t pid;
	uint32_t program; /* module of its first mapping; 0: not known */
	uint64_t looked; /* CLOCK_MONOTONIC */
	ARRAY(struct area) areas;
	ARRAY(struct extent) extents;
};

struct name {
	uint64_t value;
	uint64_t address; /* in the module */
	struct module_id module; /* 0: it has a text instead */
	uint32_t text; /* in texts */
	bool ambiguous; /* it means something else in another process */
};

struct pointers {
	struct loadmap *loadmap;
	struct locations *locations;
	struct store *store;
	ARRAY(struct space) spaces;
	struct map by_process; /* process to place in spaces */
	struct map guarded; /* processes; see pointers_guard() */
	size_t area_count; /* of all spaces */
	struct strtab texts;
	struct map files; /* hash of device and inode to whether it is a device */
	ARRAY(struct name) names;
	struct map named; /* value to place in names */
	struct texts *strings; /* that values point to */
	struct kallsyms *kallsyms; /* NULL: not asked for yet, or not to be had */
	bool kallsyms_tried;
};

/* A look under way. */
struct look {
	struct pointers *pointers;
	const struct loadmap_process *process;
	struct space space;
	bool device;
};

void pointers_create(struct loadmap *loadmap, struct locations *locations, struct store *store,
		     struct pointers **ret)
{
	struct pointers *pointers = mem_zalloc(sizeof(*pointers));

	pointers->loadmap = loadmap;
	pointers->locations = locations;
	pointers->store = store;
	texts_create(&pointers->strings);
	*ret = pointers;
}

static void space_deinit(struct space *space)
{
	array_deinit(&space->areas);
	array_deinit(&space->extents);
}

void pointers_destroy(struct pointers *pointers)
{
	if (!pointers)
		return;
	array_each(&pointers->spaces, space)
		space_deinit(space);
	array_deinit(&pointers->spaces);
	map_deinit(&pointers->by_process);
	map_deinit(&pointers->guarded);
	strtab_deinit(&pointers->texts);
	map_deinit(&pointers->files);
	array_deinit(&pointers->names);
	map_deinit(&pointers->named);
	texts_destroy(pointers->strings);
	kallsyms_destroy(pointers->kallsyms);
	free(pointers);
}

/* --- Devices ---------------------------------------------------------------------------------- */

static bool begins_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool begins_with_any(const char *path, const char *const *prefixes)
{
	for (; *prefixes; prefixes++)
		if (begins_with(path, *prefixes))
			return true;
	return false;
}

bool pointers_path_is_device(const char *path)
{
	static const char *const devices[] = { "/dev/",	       "/sys/",	   "/proc/", "anon_inode:",
					       "/anon_inode:", "/dmabuf:", NULL };
	/* Shared memory without a file shows as /dev/zero. */
	static const char *const memory[] = {
		"/dev/zero" DELETED,
		"/dev/shm/",
		"/dev/huge",
		"/sys/fs/",
		"/sys/kernel/",
		"anon_inode:[perf_event]",
		"anon_inode:[io_uring]",
		"anon_inode:bpf-map",
		"anon_inode:kvm-vcpu",
		NULL,
	};

	if (!strcmp(path, "/dev/zero") || !strcmp(path, "/dev/null") || !strcmp(path, "/dev/full"))
		return false;
	if (strstr(path, "/devices/pci")) /* of another root directory's /sys */
		return true;
	return begins_with_any(path, devices) && !begins_with_any(path, memory);
}

bool pointers_file_is_device(mode_t mode, dev_t number)
{
	unsigned int which = minor(number);
	bool harmless = major(number) == MEM_MAJOR &&
			(which == 3 || which == 5 || which == 7); /* null, zero, full */

	return S_ISCHR(mode) && !harmless; /* of a block device, the page cache is mapped */
}

/*
 * A device can have any name, so the mapped file itself is examined; a user who may not do that has
 * only the name.
 */
static bool file_is_device(struct pointers *pointers, uint32_t pid, const struct event_mmap *area)
{
	uint64_t key = hash64_pair((uint64_t)area->major << 32 | area->minor, area->inode);
	uint64_t *known = map_find(&pointers->files, key);
	struct stat info;
	char path[96];
	bool device;

	if (area->path[0] != '/' || !area->inode)
		return false;
	if (known)
		return *known;
	snprintf(path, sizeof(path), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, pid, area->start,
		 area->end);
	if (stat(path, &info))
		return false;
	device = pointers_file_is_device(info.st_mode, info.st_rdev);
	if (pointers->files.count >= FILES_MAX)
		map_clear(&pointers->files);
	*map_at(&pointers->files, key, NULL) = device;
	return device;
}

/* --- Looking ---------------------------------------------------------------------------------- */

static uint32_t text_of(struct pointers *pointers, const char *path)
{
	const char *name = strrchr(path, '/');
	char text[NAME_MAX + 1];
	size_t length;

	if (!path[0] || !strcmp(path, "/dev/zero" DELETED))
		return strtab_add(&pointers->texts, "[anon]");
	if (pointers->texts.count >= TEXTS_MAX)
		return strtab_add(&pointers->texts, "[file]");
	snprintf(text, sizeof(text), "%s", name && path[0] != '[' ? name + 1 : path);
	length = strlen(text);
	if (length > strlen(DELETED) && !strcmp(text + length - strlen(DELETED), DELETED))
		text[length - strlen(DELETED)] = '\0';
	return strtab_add(&pointers->texts, text);
}

static void extent_add(struct look *look, const struct event_mmap *area)
{
	struct space *space = &look->space;
	struct loadmap_mapping mapping;
	struct loadmap_module *module;
	struct extent extent;

	if (!loadmap_find(look->pointers->loadmap, look->process, area->start, space->looked,
			  &mapping))
		return;
	module = mapping.module;
	extent = (struct extent){ .start = mapping.bias + module->base,
				  .end = mapping.bias + module->end,
				  .bias = mapping.bias,
				  .module = module->id };
	if (module->id.v && extent.start < extent.end)
		*array_push(&space->extents) = extent;
}

static void on_area(void *ctx, const struct event_mmap *area, bool executable)
{
	struct look *look = ctx;
	struct pointers *pointers = look->pointers;
	struct space *space = &look->space;
	uint32_t text = text_of(pointers, area->path);
	struct area *last = space->areas.count ? &space->areas.items[space->areas.count - 1] : NULL;

	if (pointers_path_is_device(area->path) ||
	    file_is_device(pointers, look->process->pid, area))
		look->device = true;
	if (executable)
		extent_add(look, area);
	if (last && last->end == area->start && last->text == text)
		last->end = area->end;
	else if (space->areas.count < AREAS_MAX && (!last || last->end <= area->start))
		*array_push(&space->areas) = (struct area){ area->start, area->end, text };
}

static struct space *space_of(const struct pointers *pointers, uint32_t process)
{
	uint64_t *at = map_find(&pointers->by_process, process);

	return at ? &pointers->spaces.items[*at] : NULL;
}

static void space_remove(struct pointers *pointers, struct space *space)
{
	struct space *last = &pointers->spaces.items[pointers->spaces.count - 1];

	pointers->area_count -= space->areas.count;
	map_remove(&pointers->by_process, space->process);
	space_deinit(space);
	if (space != last) {
		*space = *last;
		*map_at(&pointers->by_process, space->process, NULL) =
			(uint64_t)(space - pointers->spaces.items);
	}
	pointers->spaces.count--;
}

static void space_remove_oldest(struct pointers *pointers)
{
	struct space *oldest = &pointers->spaces.items[0];

	array_each(&pointers->spaces, space)
		if (space->looked < oldest->looked)
			oldest = space;
	space_remove(pointers, oldest);
}

/* Takes the space over. */
static void space_keep(struct pointers *pointers, struct space *space)
{
	struct space *known = space_of(pointers, space->process);

	if (known)
		space_remove(pointers, known);
	while (pointers->spaces.count && (pointers->spaces.count >= SPACES_MAX ||
					  pointers->area_count + space->areas.count > AREAS_MAX))
		space_remove_oldest(pointers);
	*map_at(&pointers->by_process, space->process, NULL) = pointers->spaces.count;
	pointers->area_count += space->areas.count;
	*array_push(&pointers->spaces) = *space;
}

bool pointers_look(struct pointers *pointers, const struct loadmap_process *process)
{
	struct look look = {
		.pointers = pointers,
		.process = process,
		.space = { .process = process->id.v,
			   .pid = process->pid,
			   .looked = clock_monotonic() },
	};

	if (process->mapping_count)
		look.space.program = process->mappings[0].module->id.v;
	if (procfs_areas((pid_t)process->pid, on_area, &look))
		look.device = true;
	if (look.space.areas.count)
		space_keep(pointers, &look.space);
	return look.device;
}

bool pointers_know(const struct pointers *pointers, struct process_id process)
{
	return map_find(&pointers->by_process, process.v);
}

/* --- Naming ----------------------------------------------------------------------------------- */

static const struct area *area_find(const struct space *space, uint64_t address)
{
	size_t low = 0, high = space->areas.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (space->areas.items[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == space->areas.count || space->areas.items[low].start > address)
		return NULL;
	return &space->areas.items[low];
}

static bool is_same(const struct name *a, const struct name *b)
{
	return a->module.v == b->module.v && a->address == b->address && a->text == b->text;
}

static void name_add(struct pointers *pointers, const struct name *name)
{
	struct name *known;
	uint64_t *at;
	bool fresh;

	if (pointers->names.count >= NAMES_MAX && !map_find(&pointers->named, name->value))
		return;
	at = map_at(&pointers->named, name->value, &fresh);
	if (fresh) {
		*at = pointers->names.count;
		*array_push(&pointers->names) = *name;
		return;
	}
	known = &pointers->names.items[*at];
	known->ambiguous |= !is_same(known, name);
}

/* false: it has nothing there. */
static bool name_in_space(struct pointers *pointers, const struct space *space, uint64_t value)
{
	const struct area *area = area_find(space, value);
	struct name name = { .value = value };

	if (!area)
		return false;
	name.text = area->text;
	array_each(&space->extents, extent)
		if (value >= extent->start && value < extent->end)
			name = (struct name){ .value = value,
					      .module = extent->module,
					      .address = value - extent->bias };
	name_add(pointers, &name);
	return true;
}

void pointers_name(struct pointers *pointers, struct process_id process, uint64_t value)
{
	const struct space *first = space_of(pointers, process.v);

	if (!first || value < ADDRESS_MIN || value >= USER_END ||
	    name_in_space(pointers, first, value) || map_find(&pointers->named, value))
		return;
	array_each(&pointers->spaces, space)
		if (space->program && space->program == first->program &&
		    name_in_space(pointers, space, value))
			return;
}

static bool kernel_knows(struct pointers *pointers, uint64_t address)
{
	struct symbol_answer answer;
	const char *module;

	if (!pointers->kallsyms_tried)
		kallsyms_open(NULL, &pointers->kallsyms);
	pointers->kallsyms_tried = true;
	return pointers->kallsyms &&
	       kallsyms_resolve(pointers->kallsyms, address, &answer, &module) == 0 &&
	       address - answer.address < KERNEL_OBJECT_MAX;
}

void pointers_name_kernel(struct pointers *pointers, uint64_t value)
{
	struct name name = { .value = value, .address = value };

	if (value < KERNEL_START || map_find(&pointers->named, value) ||
	    !kernel_knows(pointers, value))
		return;
	name.module = loadmap_kernel_module(pointers->loadmap, "[kernel]");
	name_add(pointers, &name);
}

void pointers_guard(struct pointers *pointers, struct process_id process)
{
	map_at(&pointers->guarded, process.v, NULL);
}

void pointers_text(struct pointers *pointers, struct process_id process, uint64_t value)
{
	const struct space *space = space_of(pointers, process.v);
	const struct loadmap_process *now;

	if (!space || map_find(&pointers->guarded, process.v) || value < ADDRESS_MIN ||
	    value >= USER_END || !area_find(space, value))
		return;
	/* The pid may be another process's by now. */
	now = loadmap_process_at(pointers->loadmap, space->pid, clock_monotonic());
	if (now && now->id.v == process.v)
		texts_look(pointers->strings, (pid_t)space->pid, value);
}

/* "[heap]", "[heap] "text"" or ""text""; NULL: nothing. */
static char *name_text(const struct pointers *pointers, const struct name *name)
{
	const char *string = texts_get(pointers->strings, name->value);
	const char *area = name->module.v ? NULL : strtab_get(&pointers->texts, name->text);

	if (!string)
		return area ? mem_strdup(area) : NULL;
	return area ? mem_printf("%s %s", area, string) : mem_strdup(string);
}

static int name_write(struct pointers *pointers, const struct name *name)
{
	AUTO(free_ptr) char *text = name_text(pointers, name);
	struct location_id location = { 0 };
	int err = 0;

	if (name->module.v)
		err = locations_add(pointers->locations, name->module, name->address, &location);
	return err ? err
		   : store_value_name_put(pointers->store,
					  &(struct store_value_name){ .value = name->value,
								      .location = location,
								      .text = text });
}

int pointers_flush(struct pointers *pointers)
{
	int err = 0;

	for (size_t i = 0; i < pointers->names.count && !err; i++)
		if (!pointers->names.items[i].ambiguous)
			err = name_write(pointers, &pointers->names.items[i]);
	return err;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Tells the sampler in the kernel the mappings and unwind tables of processes. Keeps a state for
 * each process that was wanted, and compares it with the load map once per round: processes that
 * ended are forgotten in the kernel, those whose mappings changed are published anew, those that
 * are new are published for the first time. A module's unwind table is given to the kernel once,
 * with the first process that maps it.
 *
 *	in	processes that were sampled; what the load map knows of them
 *	out	mappings and unwind tables in the kernel's maps
 *	owner	the source of samples (sampler_source.c)
 */
#include "recorder/publisher.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "recorder/translations.h"

enum wanted_state {
	WANTED_NEW = 1, /* not published yet */
	WANTED_PUBLISHED,
	WANTED_DEVICE, /* published as one that may have a device mapped */
};

struct publisher {
	struct sampler *sampler;
	struct loadmap *loadmap;
	struct pointers *pointers; /* NULL if no values are taken */
	struct map wanted; /* pid to enum wanted_state */
	struct map epochs; /* pid to how often an address changed its meaning */
	/*
	 * pid and start of an image to the number of its memory without a file, for keys of blocks
	 */
	struct map private;
	ARRAY(uint32_t) fresh; /* pids in state NEW */
	bool full; /* said that the rows map is full */
};

void publisher_create(struct sampler *sampler, struct loadmap *loadmap, struct pointers *pointers,
		      struct publisher **ret)
{
	struct publisher *publisher = mem_zalloc(sizeof(*publisher));

	publisher->sampler = sampler;
	publisher->loadmap = loadmap;
	publisher->pointers = pointers;
	*ret = publisher;
}

void publisher_destroy(struct publisher *publisher)
{
	if (!publisher)
		return;
	map_deinit(&publisher->wanted);
	map_deinit(&publisher->epochs);
	map_deinit(&publisher->private);
	array_deinit(&publisher->fresh);
	free(publisher);
}

void publisher_want(struct publisher *publisher, uint32_t pid)
{
	bool fresh;
	uint64_t *state = map_at(&publisher->wanted, pid, &fresh);

	if (!fresh)
		return;
	*state = WANTED_NEW;
	*array_push(&publisher->fresh) = pid;
}

void publisher_forked(struct publisher *publisher, uint32_t parent, uint32_t child)
{
	if (map_find(&publisher->wanted, parent))
		publisher_want(publisher, child);
}

static int rows_publish(struct publisher *publisher, struct loadmap_module *module)
{
	const struct unwind_table *table;
	int err;

	if (module->published)
		return 0;
	table = loadmap_module_table(publisher->loadmap, module);
	err = sampler_publish_rows(publisher->sampler, table->rows, table->count,
				   &module->first_row);
	if (err == -ENOSPC) {
		module->first_row = UNWIND_ROWS_ABSENT;
		if (!publisher->full)
			log_warn("unwind tables fill --table-memory; some stacks are walked in the "
				 "recorder");
		publisher->full = true;
		err = 0;
	}
	module->published = !err;
	return err;
}

/* Code that is generated is known by its process. */
static uint32_t private_number(struct publisher *publisher, const struct loadmap_process *process)
{
	bool fresh;
	uint64_t *number =
		map_at(&publisher->private, hash64_pair(process->pid, process->from), &fresh);

	if (fresh)
		*number = publisher->private.count;
	return RUN_MODULE_PRIVATE | (uint32_t)*number;
}

static int mapping_fill(struct publisher *publisher, const struct loadmap_process *process,
			const struct loadmap_mapping *mapping, struct unwind_mapping *ret)
{
	struct loadmap_module *module = mapping->module;
	int err = 0;

	*ret = (struct unwind_mapping){ .start = mapping->start, .end = mapping->end };
	if (module->kind == MODULE_ELF || module->kind == MODULE_VDSO) {
		err = rows_publish(publisher, module);
		ret->bias = mapping->bias + module->base;
		ret->first_row = module->first_row;
		ret->row_count = (uint32_t)module->table.count;
		ret->module = translations_module_number(module->id);
	} else {
		ret->module = private_number(publisher, process);
	}
	return err;
}

static int by_start(const void *a, const void *b)
{
	const struct unwind_mapping *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static int process_publish(struct publisher *publisher, struct loadmap_process *process,
			   bool device)
{
	uint64_t *epoch = map_at(&publisher->epochs, process->pid, NULL);
	ARRAY(struct unwind_mapping) now = {};
	int err = 0;

	for (size_t i = 0; i < process->mapping_count && !err; i++)
		if (process->mappings[i].to == UINT64_MAX)
			err = mapping_fill(publisher, process, &process->mappings[i],
					   array_push(&now));
	if (process->overlapped)
		++*epoch;
	process->overlapped = false;
	if (now.count)
		qsort(now.items, now.count, sizeof(*now.items), by_start);
	if (!err)
		err = sampler_publish_process(publisher->sampler, process->pid, now.items,
					      now.count, (uint32_t)*epoch, device);
	array_deinit(&now);
	if (err == -ENOSPC) /* the host goes on walking this process's stacks */
		return 0;
	*map_at(&publisher->wanted, process->pid, NULL) = device ? WANTED_DEVICE : WANTED_PUBLISHED;
	return err;
}

/* Nothing is interpreted in a process before it is published: the look comes first. */
static int process_look_publish(struct publisher *publisher, struct loadmap_process *process)
{
	bool device = publisher->pointers && pointers_look(publisher->pointers, process);

	return process_publish(publisher, process, device);
}

int publisher_look(struct publisher *publisher, struct loadmap_process *process)
{
	uint64_t *state = map_find(&publisher->wanted, process->pid);
	bool device;

	if (!publisher->pointers || !state || *state == WANTED_NEW)
		return 0;
	device = pointers_look(publisher->pointers, process);
	if (device == (*state == WANTED_DEVICE))
		return 0;
	return process_publish(publisher, process, device);
}

static int on_ended(void *ctx, struct loadmap_process *process)
{
	struct publisher *publisher = ctx;

	if (!map_find(&publisher->wanted, process->pid))
		return 0;
	sampler_forget_process(publisher->sampler, process->pid);
	if (process->replaced)
		return 0; /* the pid goes on with another program */
	map_remove(&publisher->wanted, process->pid);
	map_remove(&publisher->epochs, process->pid);
	return 0;
}

static int on_changed(void *ctx, struct loadmap_process *process)
{
	struct publisher *publisher = ctx;

	if (!map_find(&publisher->wanted, process->pid))
		return 0;
	return process_look_publish(publisher, process);
}

int publisher_sync(struct publisher *publisher)
{
	int err = loadmap_each_ended(publisher->loadmap, on_ended, publisher);

	if (!err)
		err = loadmap_each_changed(publisher->loadmap, on_changed, publisher);
	array_each(&publisher->fresh, pid) {
		uint64_t *state = map_find(&publisher->wanted, *pid);

		if (!err && state && *state == WANTED_NEW)
			err = process_look_publish(publisher,
						   loadmap_process_at(publisher->loadmap, *pid,
								      clock_monotonic()));
	}
	publisher->fresh.count = 0;
	return err;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the load map writes to the store.
 *
 * A process changes several times in its first millisecond (fork, identity, exec, name), so changes
 * are gathered and written by loadmap_flush(). What a sample refers to is written at once. Two
 * things are left out because they would be most of the file and no view uses them: images between
 * fork and exec in which nothing was sampled, and the threads and mappings of processes without
 * samples. A mapping is written when it has ended, or with its process, because its row cannot be
 * changed later.
 */
#include "base/clock.h"
#include "image/loadmap_internal.h"

static void error_keep(struct loadmap *map, int err)
{
	if (err && !map->error)
		map->error = err;
}

static const char *string_get(const struct loadmap *map, int id)
{
	return id == LOADMAP_NO_STRING ? NULL : strtab_get(&map->strings, (uint32_t)id);
}

static uint64_t end_time(uint64_t to)
{
	return to == UINT64_MAX ? 0 : to;
}

void loadmap_row_changed(struct loadmap *map, struct loadmap_image *image)
{
	if (image->dirty)
		return;
	image->dirty = true;
	TAILQ_INSERT_TAIL(&map->dirty, image, dirty_link);
}

void loadmap_thread_row_changed(struct loadmap *map, struct loadmap_thread_entry *thread)
{
	if (thread->dirty || !thread->id.v)
		return;
	thread->dirty = true;
	TAILQ_INSERT_TAIL(&map->dirty_threads, thread, dirty_link);
}

void loadmap_process_row_put(struct loadmap *map, struct loadmap_image *image)
{
	bool unknown = image->process.replaced && !image->process.id.v;

	if (!image->dirty)
		return;
	if (!unknown)
		loadmap_image_id(map, image);
	image->dirty = false;
	TAILQ_REMOVE(&map->dirty, image, dirty_link);
	if (unknown || !map->store)
		return;
	error_keep(map,
		   store_process_put(map->store, &(struct store_process){
							 .id = image->process.id,
							 .parent = image->parent,
							 .pid = image->process.pid,
							 .ppid = image->ppid,
							 .uid = image->uid,
							 .gid = image->gid,
							 .euid = image->euid,
							 .egid = image->egid,
							 .comm = image->comm,
							 .exe = string_get(map, image->exe),
							 .cgroup = string_get(map, image->cgroup),
							 .started = image->process.from,
							 .ended = end_time(image->process.to),
						 }));
}

void loadmap_thread_row_put(struct loadmap *map, struct loadmap_thread_entry *thread)
{
	if (thread->dirty)
		TAILQ_REMOVE(&map->dirty_threads, thread, dirty_link);
	thread->dirty = false;
	if (!map->store)
		return;
	error_keep(map, store_thread_put(map->store, &(struct store_thread){
							     .id = thread->id,
							     .process = thread->image->process.id,
							     .tid = thread->tid,
							     .comm = thread->comm,
							     .started = thread->from,
							     .ended = end_time(thread->to),
						     }));
}

void loadmap_module_row_put(struct loadmap *map, const struct loadmap_module *module)
{
	char build_id[BUILD_ID_HEX_MAX];

	if (!map->store)
		return;
	build_id_hex(&module->build_id, build_id);
	error_keep(map, store_module_put(map->store, &(struct store_module){
							     .id = module->id,
							     .kind = module->kind,
							     .path = module->path,
							     .build_id = build_id,
							     .process = module->process,
							     .deleted = module->deleted,
						     }));
}

/* Memory without a file has a row only if something was found in it: it has no module before. */
void loadmap_mapping_row_add(struct loadmap *map, struct loadmap_image *image,
			     const struct loadmap_mapping *mapping)
{
	const struct loadmap_module *module = mapping->module;
	const struct loadmap_process *process = &image->process;
	uint64_t to = mapping->to < process->to ? mapping->to : process->to;

	if (module == &map->memory)
		module = image->jit ? image->jit : image->anon;
	if (!image->used || !module || !map->store)
		return;
	error_keep(map,
		   store_mapping_put(map->store, &(struct store_mapping){
							 .process = process->id,
							 .module = module->id,
							 .start = mapping->start,
							 .stop = mapping->end,
							 .offset = mapping->offset,
							 .mapped = mapping->from ? mapping->from
										 : process->from,
							 .unmapped = end_time(to),
						 }));
}

void loadmap_mapping_rows_add(struct loadmap *map, struct loadmap_image *image)
{
	for (size_t i = 0; i < image->process.mapping_count; i++)
		loadmap_mapping_row_add(map, image, &image->process.mappings[i]);
}

int loadmap_flush(struct loadmap *map)
{
	struct loadmap_image *image;
	struct loadmap_thread_entry *thread;
	int err;

	while ((image = TAILQ_FIRST(&map->dirty)))
		loadmap_process_row_put(map, image);
	while ((thread = TAILQ_FIRST(&map->dirty_threads)))
		loadmap_thread_row_put(map, thread);
	map->flushed = map->now;
	err = map->error;
	map->error = 0;
	return err;
}

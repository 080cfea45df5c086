// SPDX-License-Identifier: BSD-2-Clause
/* Images and their threads: made, ended, forgotten. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "image/loadmap_internal.h"

struct loadmap_image *loadmap_image_newest(const struct loadmap *map, uint32_t pid)
{
	uint64_t *found = map_find(&map->pids, pid);

	return found ? (struct loadmap_image *)(uintptr_t)*found : NULL;
}

struct loadmap_image *loadmap_image_create(struct loadmap *map, uint32_t pid, uint64_t time)
{
	struct loadmap_image *image = mem_zalloc(sizeof(*image));

	image->process.pid = pid;
	image->process.from = time;
	image->process.to = UINT64_MAX;
	image->older = loadmap_image_newest(map, pid);
	image->serial = ++map->serial_count;
	image->uid = image->gid = image->euid = image->egid = UINT32_MAX;
	image->exe = image->cgroup = LOADMAP_NO_STRING;
	*map_at(&map->pids, pid, NULL) = (uintptr_t)image;
	loadmap_row_changed(map, image);
	return image;
}

void loadmap_image_inherit(struct loadmap_image *image, const struct loadmap_image *from)
{
	image->uid = from->uid;
	image->gid = from->gid;
	image->euid = from->euid;
	image->egid = from->egid;
	image->cgroup = from->cgroup;
	memcpy(image->comm, from->comm, sizeof(image->comm));
}

struct process_id loadmap_image_id(struct loadmap *map, struct loadmap_image *image)
{
	if (!image->process.id.v) {
		image->process.id.v = ++map->process_count;
		loadmap_row_changed(map, image);
	}
	return image->process.id;
}

void loadmap_image_changed(struct loadmap *map, struct loadmap_image *image)
{
	image->process.changes++;
	if (image->changed || image->process.to != UINT64_MAX)
		return;
	image->changed = true;
	TAILQ_INSERT_TAIL(&map->changed, image, changed_link);
}

static uint64_t thread_key(const struct loadmap_image *image, uint32_t tid)
{
	return (uint64_t)image->serial << 32 | tid;
}

struct loadmap_thread_entry *loadmap_thread_newest(const struct loadmap *map,
						   const struct loadmap_image *image, uint32_t tid)
{
	uint64_t *found = map_find(&map->threads, thread_key(image, tid));

	return found ? (struct loadmap_thread_entry *)(uintptr_t)*found : NULL;
}

struct loadmap_thread_entry *loadmap_thread_create(struct loadmap *map, struct loadmap_image *image,
						   uint32_t tid, const char *comm, uint64_t time)
{
	struct loadmap_thread_entry *thread = mem_zalloc(sizeof(*thread));

	thread->tid = tid;
	thread->from = time;
	thread->to = UINT64_MAX;
	thread->image = image;
	thread->older = loadmap_thread_newest(map, image, tid);
	thread->next = image->threads;
	snprintf(thread->comm, sizeof(thread->comm), "%s", comm);
	image->threads = thread;
	image->running++;
	*map_at(&map->threads, thread_key(image, tid), NULL) = (uintptr_t)thread;
	return thread;
}

void loadmap_thread_hide(struct loadmap *map, struct loadmap_thread_entry *newest)
{
	uint64_t key = thread_key(newest->image, newest->tid);

	if (newest->older)
		*map_at(&map->threads, key, NULL) = (uintptr_t)newest->older;
	else
		map_remove(&map->threads, key);
}

void loadmap_image_end(struct loadmap *map, struct loadmap_image *image, uint64_t time)
{
	image->process.to = time > image->process.from ? time : image->process.from;
	for (struct loadmap_thread_entry *thread = image->threads; thread; thread = thread->next) {
		if (thread->to != UINT64_MAX)
			continue;
		thread->to = image->process.to;
		loadmap_thread_row_changed(map, thread);
	}
	image->running = 0;
	if (image->changed)
		TAILQ_REMOVE(&map->changed, image, changed_link);
	image->changed = false;
	image->untold = true;
	TAILQ_INSERT_TAIL(&map->untold, image, untold_link);
	TAILQ_INSERT_TAIL(&map->ended, image, ended_link);
	loadmap_row_changed(map, image);
}

static void threads_free(struct loadmap *map, struct loadmap_image *image)
{
	while (image->threads) {
		struct loadmap_thread_entry *thread = image->threads;

		image->threads = thread->next;
		map_remove(&map->threads, thread_key(image, thread->tid));
		if (thread->dirty)
			loadmap_thread_row_put(map, thread);
		free(thread);
	}
}

static void pid_unlink(struct loadmap *map, struct loadmap_image *image)
{
	struct loadmap_image *at = loadmap_image_newest(map, image->process.pid);

	if (at == image && !image->older)
		map_remove(&map->pids, image->process.pid);
	else if (at == image)
		*map_at(&map->pids, image->process.pid, NULL) = (uintptr_t)image->older;
	while (at && at->older != image)
		at = at->older;
	if (at)
		at->older = image->older;
}

/* Frees an image; its row is written before. */
static void image_free(struct loadmap *map, struct loadmap_image *image)
{
	threads_free(map, image);
	loadmap_memory_settle(map, image);
	loadmap_mapping_rows_add(map, image);
	loadmap_process_row_put(map, image);
	if (image->changed)
		TAILQ_REMOVE(&map->changed, image, changed_link);
	if (image->untold)
		TAILQ_REMOVE(&map->untold, image, untold_link);
	if (image->process.to != UINT64_MAX)
		TAILQ_REMOVE(&map->ended, image, ended_link);
	pid_unlink(map, image);
	loadmap_mappings_clear(image);
	free(image);
}

void loadmap_hold(struct loadmap_process *process)
{
	process->holders++;
}

void loadmap_release(struct loadmap_process *process)
{
	assert(process->holders > 0);
	process->holders--;
}

void loadmap_images_forget(struct loadmap *map)
{
	struct loadmap_image *image = TAILQ_FIRST(&map->ended), *next;

	for (; image; image = next) {
		next = TAILQ_NEXT(image, ended_link);
		if (image->process.to + LOADMAP_KEEP >= map->now ||
		    (image->untold && map->ends_wanted))
			return;
		if (!image->process.holders)
			image_free(map, image);
	}
}

void loadmap_images_deinit(struct loadmap *map)
{
	for (;;) {
		struct loadmap_image *image = NULL;

		map_each(&map->pids, slot) {
			image = (struct loadmap_image *)(uintptr_t)slot->value;
			break;
		}
		if (!image)
			break;
		image_free(map, image);
	}
	map_deinit(&map->pids);
	map_deinit(&map->threads);
}

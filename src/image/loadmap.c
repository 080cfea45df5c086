// SPDX-License-Identifier: BSD-2-Clause
/*
 * The load map: events in; out, the program of a pid and the module at an address, at a given time.
 *
 *	in	events: fork, exec, mmap, exit, in the order in which each source tells them
 *	out	the process, and the module with the address in its file, of any moment still kept
 *	owner	the recorder; sources apply events, sinks ask
 *
 * Theory of operation. Each pid has a chain of images, newest first. FORK begins one as a copy of
 * its parent, EXEC ends one and begins the next with nothing mapped, EXIT of the last thread ends
 * one. A question is asked with the time of a sample, which lies a little in the past: the chain
 * and the mappings' times answer for what was true then. Ended images are kept for LOADMAP_KEEP of
 * event time and then freed; what the store knows of them stays.
 *
 * Events come from several streams (perf rings, the BPF ring, /proc), each in order but not all
 * together, and some may be lost. So no event relies on earlier ones having arrived:
 *
 *	event of an unknown pid		the image is made from /proc, or named "[unknown]"
 *	FORK of a pid that runs		its EXIT was lost: the old image ends now
 *	FORK older than a guessed image	the guess was right, only early: it gets its beginning
 *	EXEC at an image's own time	/proc tells of an image: it starts over, there is no second
 *	MMAP at an image's own time	the same: the mapping is as old as the image
 *
 * Invariants:
 * 1. In a chain, each image ends no later than the next younger one begins; only the newest may
 *    run.
 * 2. An image that was handed out has an id, and its row is written before rows that refer to it.
 * 3. image->running is the number of its threads with to == UINT64_MAX.
 * 4. A module, once made, stays.
 */
#include "image/loadmap.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "image/loadmap_internal.h"
#include "image/procfs.h"

enum { FDS_MIN = 64 };

/* A sample this long after an exit belongs to another process with the same pid. */
#define EXIT_GRACE ((uint64_t)NS_PER_S)
#define FLUSH_EVERY ((uint64_t)NS_PER_S / 4)

static size_t fds_allowed(void)
{
	struct rlimit limit = { .rlim_cur = 1024 };

	getrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur / 2 > FDS_MIN ? limit.rlim_cur / 2 : FDS_MIN;
}

int loadmap_create(struct store *store, const char *cache_dir, struct loadmap **ret)
{
	struct loadmap *map = mem_zalloc(sizeof(*map));

	map->store = store;
	map->cache_dir = cache_dir ? mem_strdup(cache_dir) : NULL;
	map->fds_max = fds_allowed();
	map->memory = (struct loadmap_module){ .kind = MODULE_ANON, .path = "[anon]", .fd = -1 };
	TAILQ_INIT(&map->changed);
	TAILQ_INIT(&map->ended);
	TAILQ_INIT(&map->untold);
	TAILQ_INIT(&map->dirty);
	TAILQ_INIT(&map->dirty_threads);
	*ret = map;
	return 0;
}

void loadmap_destroy(struct loadmap *map)
{
	if (!map)
		return;
	map->store = NULL; /* what loadmap_finish() did not write is not to be written */
	loadmap_images_deinit(map);
	loadmap_modules_deinit(map);
	strtab_deinit(&map->strings);
	free(map->cache_dir);
	free(map);
}

static int string_add(struct loadmap *map, const char *text)
{
	return text && text[0] ? (int)strtab_add(&map->strings, text) : LOADMAP_NO_STRING;
}

/* The image that was there at the time; the oldest known when the time is older than all. */
static struct loadmap_image *image_at(const struct loadmap *map, uint32_t pid, uint64_t time)
{
	struct loadmap_image *image = loadmap_image_newest(map, pid);

	while (image && image->process.from > time && image->older)
		image = image->older;
	return image;
}

static int apply_again(void *ctx, const struct event *event)
{
	return loadmap_apply(ctx, event);
}

/* From /proc; NULL: it is not there. */
static struct loadmap_image *image_from_proc(struct loadmap *map, uint32_t pid, uint64_t time)
{
	struct loadmap_image *image;

	if (pid == 0 || pid > INT_MAX || procfs_process((pid_t)pid, time, apply_again, map))
		return NULL;
	image = loadmap_image_newest(map, pid);
	if (image)
		image->guessed = true;
	return image;
}

static struct loadmap_image *image_discover(struct loadmap *map, uint32_t pid, uint64_t time)
{
	struct loadmap_image *image = image_from_proc(map, pid, time);

	if (image)
		return image;
	image = loadmap_image_create(map, pid, time);
	image->guessed = true;
	snprintf(image->comm, sizeof(image->comm), "%s", "[unknown]");
	return image;
}

/* For events that say something about a process that must have been there. */
static struct loadmap_image *image_for(struct loadmap *map, const struct event *event)
{
	struct loadmap_image *image = image_at(map, event->pid, event->time);

	return image ? image : image_discover(map, event->pid, event->time);
}

static void parent_set(struct loadmap *map, struct loadmap_image *image, uint32_t ppid,
		       uint64_t time)
{
	struct loadmap_image *parent = ppid ? image_at(map, ppid, time) : NULL;

	image->ppid = ppid;
	if (parent && parent != image)
		image->parent = loadmap_image_id(map, parent);
}

/* An image that was guessed turns out to be older, but not older than its predecessor's end. */
static void image_predate(struct loadmap_image *image, uint64_t time)
{
	if (!image->guessed || (image->older && image->older->process.to > time))
		return;
	image->process.from = time;
}

static void process_forked(struct loadmap *map, const struct event *event)
{
	struct loadmap_image *image = loadmap_image_newest(map, event->pid), *parent;

	if (image && image->process.from > event->time) {
		image_predate(image, event->time);
		image->guessed = false;
		parent_set(map, image, event->fork.ppid, event->time);
		loadmap_row_changed(map, image);
		return;
	}
	if (image && image->process.to == UINT64_MAX)
		loadmap_image_end(map, image, event->time);
	parent = image_at(map, event->fork.ppid, event->time);
	image = loadmap_image_create(map, event->pid, event->time);
	parent_set(map, image, event->fork.ppid, event->time);
	image->blank = !parent;
	if (parent) {
		loadmap_image_inherit(image, parent);
		image->exe = parent->exe;
		image->parent_jit = parent->jit ? parent->jit : parent->parent_jit;
		loadmap_mappings_copy(image, parent);
		loadmap_image_changed(map, image);
	}
	loadmap_thread_create(map, image, event->tid, image->comm, event->time);
}

static void thread_forked(struct loadmap *map, const struct event *event)
{
	struct loadmap_image *image = image_for(map, event);
	struct loadmap_thread_entry *creator, *thread;

	thread = loadmap_thread_newest(map, image, event->tid);
	if (image->process.to != UINT64_MAX || (thread && thread->to == UINT64_MAX))
		return;
	creator = loadmap_thread_newest(map, image, event->fork.ptid);
	loadmap_thread_create(map, image, event->tid, creator ? creator->comm : image->comm,
			      event->time);
}

static void apply_fork(struct loadmap *map, const struct event *event)
{
	if (event->pid == event->fork.ppid)
		thread_forked(map, event);
	else
		process_forked(map, event);
}

static void image_restart(struct loadmap *map, struct loadmap_image *image)
{
	loadmap_mappings_clear(image);
	image->exe = LOADMAP_NO_STRING;
	image->parent_jit = NULL;
	image->blank = false;
	loadmap_image_changed(map, image);
}

static struct loadmap_image *image_exec(struct loadmap *map, struct loadmap_image *old,
					const struct event *event)
{
	struct loadmap_image *image;

	if (old && old->process.from == event->time) {
		image_restart(map, old);
		return old;
	}
	if (old && old->process.from > event->time) { /* /proc told it first, or tells it again */
		image_predate(old, event->time);
		return old;
	}
	if (old && old->process.to == UINT64_MAX) {
		old->process.replaced = true;
		loadmap_image_end(map, old, event->time);
	}
	image = loadmap_image_create(map, event->pid, event->time);
	image->guessed = !old;
	if (old) {
		loadmap_image_inherit(image, old);
		image->parent = old->parent;
		image->ppid = old->ppid;
	}
	loadmap_image_changed(map, image);
	return image;
}

static void comm_set(struct loadmap *map, struct loadmap_image *image, uint32_t tid,
		     const struct event *event)
{
	struct loadmap_thread_entry *thread = loadmap_thread_newest(map, image, tid);

	if (!thread && image->process.to == UINT64_MAX)
		thread = loadmap_thread_create(map, image, tid, event->comm, event->time);
	if (thread) {
		snprintf(thread->comm, sizeof(thread->comm), "%s", event->comm);
		loadmap_thread_row_changed(map, thread);
	}
	if (tid == image->process.pid && strcmp(image->comm, event->comm)) {
		snprintf(image->comm, sizeof(image->comm), "%s", event->comm);
		loadmap_row_changed(map, image);
	}
}

static void apply_comm(struct loadmap *map, const struct event *event)
{
	comm_set(map, image_for(map, event), event->tid, event);
}

/* Whatever thread called exec, it is the leader afterwards. */
static void apply_exec(struct loadmap *map, const struct event *event)
{
	struct loadmap_image *old = loadmap_image_newest(map, event->pid);

	comm_set(map, image_exec(map, old, event), event->pid, event);
}

static void apply_mmap(struct loadmap *map, const struct event *event)
{
	struct loadmap_image *image = image_for(map, event);
	const struct event_mmap *mmap = &event->mmap;
	struct loadmap_module *module = loadmap_module_of(map, event->pid, mmap);
	struct loadmap_mapping mapping = {
		.start = mmap->start,
		.end = mmap->end,
		.offset = mmap->offset,
		.bias = loadmap_module_bias(module, mmap),
		.from = event->time <= image->process.from ? 0 : event->time,
		.to = UINT64_MAX,
		.module = module,
	};

	image->blank = false;
	if (image->exe == LOADMAP_NO_STRING && module->kind == MODULE_ELF) {
		image->exe = string_add(map, module->path);
		loadmap_row_changed(map, image);
	}
	loadmap_mapping_add(map, image, &mapping);
}

static void apply_unmap(struct loadmap *map, const struct event *event)
{
	struct loadmap_image *image = image_at(map, event->pid, event->time);

	if (image)
		loadmap_mapping_remove(map, image, event->mmap.start, event->mmap.end, event->time);
}

static void apply_exit(struct loadmap *map, const struct event *event)
{
	struct loadmap_image *image = image_at(map, event->pid, event->time);
	struct loadmap_thread_entry *thread;

	if (!image || image->process.to != UINT64_MAX || image->process.from > event->time)
		return;
	thread = loadmap_thread_newest(map, image, event->tid);
	if (thread && thread->to == UINT64_MAX) {
		thread->to = event->time;
		image->running--;
		loadmap_thread_row_changed(map, thread);
	}
	if (image->running == 0)
		loadmap_image_end(map, image, event->time);
}

static void apply_identity(struct loadmap *map, const struct event *event)
{
	struct loadmap_image *image = image_for(map, event);
	const struct event_identity *identity = &event->identity;
	const char *cgroup = identity->cgroup_path;

	if (!cgroup && identity->cgroup)
		cgroup = procfs_cgroup_path(identity->cgroup);
	image->uid = identity->uid;
	image->gid = identity->gid;
	image->euid = identity->euid;
	image->egid = identity->egid;
	if (cgroup)
		image->cgroup = string_add(map, cgroup);
	if (identity->ppid && !image->parent.v)
		parent_set(map, image, identity->ppid, event->time);
	loadmap_row_changed(map, image);
}

int loadmap_apply(struct loadmap *map, const struct event *event)
{
	static void (*const apply[])(struct loadmap *, const struct event *) = {
		[EVENT_MMAP] = apply_mmap,	   [EVENT_UNMAP] = apply_unmap,
		[EVENT_FORK] = apply_fork,	   [EVENT_EXEC] = apply_exec,
		[EVENT_COMM] = apply_comm,	   [EVENT_EXIT] = apply_exit,
		[EVENT_IDENTITY] = apply_identity,
	};

	if (event->kind >= sizeof(apply) / sizeof(apply[0]))
		return 0;
	map->now = event->time > map->now ? event->time : map->now;
	apply[event->kind](map, event);
	loadmap_images_forget(map);
	return map->now - map->flushed >= FLUSH_EVERY ? loadmap_flush(map) : 0;
}

struct loadmap_process *loadmap_process_at(struct loadmap *map, uint32_t pid, uint64_t time)
{
	struct loadmap_image *image = image_at(map, pid, time), *later = NULL;

	if (!image)
		image = image_discover(map, pid, time);
	if (image->process.to != UINT64_MAX && image == loadmap_image_newest(map, pid) &&
	    time > image->process.to + EXIT_GRACE)
		later = image_from_proc(map, pid, time);
	if (later)
		image = later;
	if (image->blank && image->process.to == UINT64_MAX) {
		image->blank = false;
		procfs_mappings((pid_t)pid, image->process.from, apply_again, map);
	}
	loadmap_image_id(map, image);
	return &image->process;
}

const char *loadmap_thread_comm(const struct loadmap *map, struct loadmap_process *process,
				uint32_t tid)
{
	const struct loadmap_thread_entry *thread =
		loadmap_thread_newest(map, loadmap_image_of(process), tid);

	return thread ? thread->comm : "";
}

static struct loadmap_thread_entry *thread_at(struct loadmap *map, struct loadmap_image *image,
					      uint32_t tid, uint64_t time)
{
	struct loadmap_thread_entry *thread = loadmap_thread_newest(map, image, tid);
	char comm[PROCFS_COMM_MAX];
	bool there;

	while (thread && thread->from > time && thread->older)
		thread = thread->older;
	if (thread)
		return thread;
	there = procfs_comm((pid_t)image->process.pid, (pid_t)tid, comm);
	thread = loadmap_thread_create(map, image, tid, there ? comm : image->comm, time);
	if (!there || image->process.to != UINT64_MAX) {
		thread->to = time;
		image->running--;
	}
	return thread;
}

struct thread_id loadmap_thread(struct loadmap *map, struct loadmap_process *process, uint32_t tid,
				uint64_t time)
{
	struct loadmap_image *image = loadmap_image_of(process);
	struct loadmap_thread_entry *thread = thread_at(map, image, tid, time);

	if (!thread->id.v) {
		image->used = true;
		loadmap_image_id(map, image);
		loadmap_process_row_put(map, image);
		thread->id.v = ++map->thread_count;
		loadmap_thread_row_put(map, thread);
	}
	return thread->id;
}

struct thread_id loadmap_task(struct loadmap *map, struct loadmap_process *process, uint32_t tid,
			      const char *name, uint64_t from, uint64_t to)
{
	struct loadmap_image *image = loadmap_image_of(process);
	struct loadmap_thread_entry *task = loadmap_thread_create(map, image, tid, name, from);

	loadmap_thread_hide(map, task);
	task->to = to;
	image->running--;
	image->used = true;
	loadmap_image_id(map, image);
	loadmap_process_row_put(map, image);
	task->id.v = ++map->thread_count;
	loadmap_thread_row_put(map, task);
	return task->id;
}

int loadmap_each_changed(struct loadmap *map, loadmap_changed_fn fn, void *ctx)
{
	struct loadmap_image *image;

	while ((image = TAILQ_FIRST(&map->changed))) {
		int err;

		TAILQ_REMOVE(&map->changed, image, changed_link);
		image->changed = false;
		loadmap_image_id(map, image);
		err = fn(ctx, &image->process);
		if (err)
			return err;
	}
	return 0;
}

int loadmap_each_ended(struct loadmap *map, loadmap_changed_fn fn, void *ctx)
{
	struct loadmap_image *image;

	map->ends_wanted = true;
	while ((image = TAILQ_FIRST(&map->untold))) {
		int err;

		TAILQ_REMOVE(&map->untold, image, untold_link);
		image->untold = false;
		err = fn(ctx, &image->process);
		if (err)
			return err;
	}
	return 0;
}

int loadmap_finish(struct loadmap *map)
{
	loadmap_modules_finish(map);
	map_each(&map->pids, slot)
		for (struct loadmap_image *image = (struct loadmap_image *)(uintptr_t)slot->value;
		     image; image = image->older) {
			loadmap_memory_settle(map, image);
			loadmap_mapping_rows_add(map, image);
			loadmap_mappings_clear(image);
		}
	return loadmap_flush(map);
}

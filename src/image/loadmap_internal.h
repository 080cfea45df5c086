/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the load map. Theory and invariants are in loadmap.c. */
#pragma once

#include <stddef.h>
#include <sys/queue.h>

#include "base/array.h"
#include "base/map.h"
#include "image/loadmap.h"
#include "image/loadmap_file.h"

enum { LOADMAP_COMM_MAX = 64, LOADMAP_NO_STRING = -1 };

struct loadmap_entry {
	struct loadmap_module module; /* first: the public face */
	struct loadmap_file file; /* fd is in module.fd; the rest as of opening */
	bool sampled; /* something was found in it: its file must stay open */
	uint64_t tried; /* CLOCK_MONOTONIC when opening last failed */
};

struct loadmap_thread_entry {
	uint32_t tid;
	struct thread_id id; /* 0: no row, because no sample was charged to it */
	char comm[LOADMAP_COMM_MAX];
	uint64_t from, to; /* to: UINT64_MAX while it runs */
	struct loadmap_image *image;
	struct loadmap_thread_entry *older; /* had the same tid in the same image */
	struct loadmap_thread_entry *next; /* of the image */
	bool dirty;
	TAILQ_ENTRY(loadmap_thread_entry) dirty_link;
};

struct loadmap_image {
	struct loadmap_process process; /* first: the public face; id 0 until someone asks */
	struct loadmap_image *older; /* of the same pid */
	uint32_t serial; /* never used twice */
	struct process_id parent;
	uint32_t ppid, uid, gid, euid, egid; /* UINT32_MAX: unknown */
	char comm[LOADMAP_COMM_MAX];
	int exe, cgroup; /* in strings, or LOADMAP_NO_STRING */

	ARRAY(uint32_t) current; /* places in process.mappings that are mapped now, by start */
	size_t mapping_capacity;
	uint64_t last_unmap; /* newest end of a mapping */
	struct unwind_area *areas;
	size_t area_count;
	uint32_t area_changes; /* process.changes that areas were made for */

	struct loadmap_thread_entry *threads;
	uint32_t running; /* threads */

	struct loadmap_module *anon, *jit; /* its own, made when something is found there */
	struct loadmap_module *named; /* of loadmap_named_module(); NULL: none yet */
	struct loadmap_module *parent_jit; /* code translated before the fork */
	uint64_t jit_checked; /* CLOCK_MONOTONIC */
	bool advised; /* its user was told how to get names */

	bool used; /* a sample was charged to it */
	bool guessed; /* made without a FORK: one may still arrive */
	bool blank; /* its mappings could not be copied from its parent: look in /proc when asked */
	bool changed, untold, dirty; /* is in the list of that name */
	TAILQ_ENTRY(loadmap_image) changed_link, ended_link, untold_link, dirty_link;
};

TAILQ_HEAD(loadmap_images, loadmap_image);
TAILQ_HEAD(loadmap_threads, loadmap_thread_entry);

struct loadmap {
	struct store *store;
	char *cache_dir;
	struct map pids; /* pid to newest image */
	struct map threads; /* serial << 32 | tid to newest thread */
	struct strtab strings; /* exe and cgroup paths */
	ARRAY(struct loadmap_entry *) modules; /* by id - 1 */
	struct strtab keys; /* what identifies a module, as text */
	ARRAY(struct loadmap_entry *) keyed; /* by id in keys */
	struct loadmap_module memory; /* in mappings: stands for memory without a file */
	struct loadmap_images changed, ended, untold, dirty; /* ended: oldest first */
	struct loadmap_threads dirty_threads;
	uint32_t process_count, thread_count, serial_count;
	uint64_t now; /* newest event time */
	uint64_t flushed; /* event time of the last loadmap_flush() */
	/* loadmap_each_ended() is in use: nothing is forgotten before it was told */
	bool ends_wanted;
	size_t fds_open, fds_max;
	int error; /* the first that a function without a result met */
};

/* Images: loadmap_image.c */
struct loadmap_image *loadmap_image_newest(const struct loadmap *map, uint32_t pid);
struct loadmap_image *loadmap_image_create(struct loadmap *map, uint32_t pid, uint64_t time);
/* Who, where from and what cgroup; not the mappings. */
void loadmap_image_inherit(struct loadmap_image *image, const struct loadmap_image *from);
void loadmap_image_end(struct loadmap *map, struct loadmap_image *image, uint64_t time);
/* Frees images that ended long ago. */
void loadmap_images_forget(struct loadmap *map);
void loadmap_images_deinit(struct loadmap *map);
/* The row's id; an image that no row refers to needs none. */
struct process_id loadmap_image_id(struct loadmap *map, struct loadmap_image *image);
void loadmap_image_changed(struct loadmap *map, struct loadmap_image *image);
struct loadmap_thread_entry *loadmap_thread_newest(const struct loadmap *map,
						   const struct loadmap_image *image, uint32_t tid);
struct loadmap_thread_entry *loadmap_thread_create(struct loadmap *map, struct loadmap_image *image,
						   uint32_t tid, const char *comm, uint64_t time);
/* The newest of its tid: is not found by that any more. */
void loadmap_thread_hide(struct loadmap *map, struct loadmap_thread_entry *newest);

/* Mappings of an image: loadmap_mapping.c */
void loadmap_mapping_add(struct loadmap *map, struct loadmap_image *image,
			 const struct loadmap_mapping *mapping);
void loadmap_mapping_remove(struct loadmap *map, struct loadmap_image *image, uint64_t start,
			    uint64_t end, uint64_t time);
void loadmap_mappings_copy(struct loadmap_image *image, const struct loadmap_image *from);
void loadmap_mappings_clear(struct loadmap_image *image);

/* Modules: loadmap_module.c */
struct loadmap_module *loadmap_module_of(struct loadmap *map, uint32_t pid,
					 const struct event_mmap *mmap);
uint64_t loadmap_module_bias(const struct loadmap_module *module, const struct event_mmap *mmap);
/* Finds out which files were deleted or replaced while they were mapped. */
void loadmap_modules_finish(struct loadmap *map);
void loadmap_modules_deinit(struct loadmap *map);

/* Rows of the store: loadmap_rows.c */
void loadmap_row_changed(struct loadmap *map, struct loadmap_image *image);
void loadmap_thread_row_changed(struct loadmap *map, struct loadmap_thread_entry *thread);
void loadmap_process_row_put(struct loadmap *map, struct loadmap_image *image);
void loadmap_thread_row_put(struct loadmap *map, struct loadmap_thread_entry *thread);
void loadmap_module_row_put(struct loadmap *map, const struct loadmap_module *module);
void loadmap_mapping_row_add(struct loadmap *map, struct loadmap_image *image,
			     const struct loadmap_mapping *mapping);
/* At the end of an image: names for memory without a file, if there are any by now. */
void loadmap_memory_settle(struct loadmap *map, struct loadmap_image *image);
void loadmap_mapping_rows_add(struct loadmap *map, struct loadmap_image *image);

static inline struct loadmap_image *loadmap_image_of(const struct loadmap_process *process)
{
	return (struct loadmap_image *)process;
}

static inline struct loadmap_entry *loadmap_entry_of(const struct loadmap_module *module)
{
	return (struct loadmap_entry *)module;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The load map: which program a pid was running, and which file's bytes lay at an address, at a
 * given time.
 *
 * A process row is one image: a pid between two execs. Images and mappings carry [from, to) times,
 * so that a sample taken just before an exec, an exit or an unmap is still charged to what ran
 * then.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/ids.h"
#include "image/events.h"
#include "unwind/unwind.h"
#include "store/store.h"

/* How long after its end an image or a mapping can still be asked for, in ns of event time. */
#define LOADMAP_KEEP (10ull * NS_PER_S)

/*
 * A module as the load map knows it. Never freed before the load map: profiles refer to all of
 * them.
 */
struct loadmap_module {
	struct module_id id;
	enum module_kind kind;
	char *path;
	struct build_id build_id;
	struct process_id process; /* JIT and ANON: whose */
	bool deleted;
	int fd; /* open file, or memfd for the vdso; -1: could not be opened */
	uint64_t base; /* lowest PT_LOAD p_vaddr, page-aligned down */
	uint64_t end; /* highest PT_LOAD p_vaddr + p_memsz; 0 where that is not known */
	struct unwind_table table; /* empty until loadmap_module_table() */
	bool table_loaded;
	uint32_t first_row; /* for the publisher of tables: place in the rows map */
	bool published;
};

struct loadmap_mapping {
	uint64_t start, end, offset;
	uint64_t bias; /* run-time address - bias = p_vaddr; 0 for JIT and ANON */
	uint64_t from, to; /* to: UINT64_MAX while mapped */
	/*
	 * Memory without a file: a stand-in of kind ANON with id 0; loadmap_resolve() gives the
	 * process's own.
	 */
	struct loadmap_module *module;
};

/*
 * Freed LOADMAP_KEEP after its end, but not before loadmap_each_ended() told it where that is used,
 * and not while it is held.
 */
struct loadmap_process {
	struct process_id id;
	uint32_t pid;
	uint64_t from, to; /* to: UINT64_MAX while it runs */
	struct loadmap_mapping
		*mappings; /* in order of appearance; those that ended long ago are dropped */
	size_t mapping_count;
	uint32_t changes; /* grows whenever the current mappings change */
	uint32_t holders; /* see loadmap_hold() */
	bool replaced; /* it ended by exec: the pid goes on with another program */
	bool overlapped; /* a mapping was replaced or removed since the owner last cleared this */
};

struct loadmap;

/*
 * Rows are written to the store as they are learnt; store NULL: nowhere. cache_dir: see
 * unwind_table_load(). Threads and mappings only of processes that were asked for with
 * loadmap_thread().
 */
int loadmap_create(struct store *store, const char *cache_dir, struct loadmap **ret);
void loadmap_destroy(struct loadmap *map);
DEFINE_AUTO(struct loadmap, loadmap_destroy)

/* MMAP, UNMAP, FORK, EXEC, COMM, EXIT, IDENTITY; others are ignored. */
int loadmap_apply(struct loadmap *map, const struct event *event);

/*
 * The image that pid ran at the time; a pid never heard of gets an image made from /proc or named
 * "[unknown]".
 */
struct loadmap_process *loadmap_process_at(struct loadmap *map, uint32_t pid, uint64_t time);
/* Until it is released, an image stays valid, however long ago it ended. */
void loadmap_hold(struct loadmap_process *process);
void loadmap_release(struct loadmap_process *process);
/* The thread's row; made when new. */
struct thread_id loadmap_thread(struct loadmap *map, struct loadmap_process *process, uint32_t tid,
				uint64_t time);

/* The name of the process's newest thread with that tid; empty if there is none. */
const char *loadmap_thread_comm(const struct loadmap *map, struct loadmap_process *process,
				uint32_t tid);

/*
 * A row of its own for a task that the thread worked on, and that has ended. It is not found by
 * loadmap_thread().
 */
struct thread_id loadmap_task(struct loadmap *map, struct loadmap_process *process, uint32_t tid,
			      const char *name, uint64_t from, uint64_t to);

/* What lay at the address at the time; false: nothing executable. */
bool loadmap_find(const struct loadmap *map, const struct loadmap_process *process,
		  uint64_t address, uint64_t time, struct loadmap_mapping *ret);

/*
 * Module and module address of a user frame at the time. Executable memory without a file belongs
 * to the process's JIT module when it has a perf map, else to its ANON module; an address in no
 * mapping to ANON.
 */
void loadmap_resolve(struct loadmap *map, struct loadmap_process *process, uint64_t address,
		     uint64_t time, struct module_id *ret_module, uint64_t *ret_address);

/* Data at a run-time address: the module that it belongs to now; false: none. */
bool loadmap_data_find(const struct loadmap_process *process, uint64_t address,
		       struct module_id *ret_module, uint64_t *ret_address);

/*
 * Sets the names of code that lies in no file, as lines of a perf map, where they come from a
 * recording and not from /tmp. Takes over fd.
 */
void loadmap_names_give(struct loadmap *map, struct loadmap_process *process, int fd);

/* The module's unwind table, loaded at the first call; empty when it has none. */
const struct unwind_table *loadmap_module_table(struct loadmap *map, struct loadmap_module *module);

/* Areas for unwind_walk() as of now, cached in the process until its mappings change. */
void loadmap_areas(struct loadmap *map, struct loadmap_process *process,
		   const struct unwind_area **ret, size_t *ret_count);

/* Calls fn for each process that runs now and whose mappings changed since the last call. */
typedef int (*loadmap_changed_fn)(void *ctx, struct loadmap_process *process);
int loadmap_each_changed(struct loadmap *map, loadmap_changed_fn fn, void *ctx);
/* Calls fn for each image that ended since the last call; its id is 0 when nothing refers to it. */
int loadmap_each_ended(struct loadmap *map, loadmap_changed_fn fn, void *ctx);

struct loadmap_module *loadmap_module_get(struct loadmap *map, struct module_id id);
/*
 * The memory of the process whose generated code the module is, as far as it is there and its owner
 * may see it. 0: the process has ended, or the module is none of that kind.
 */
size_t loadmap_memory_read(struct loadmap *map, struct module_id id, uint64_t address, void *ret,
			   size_t size);
/* "[kernel]", and modules such as "[ext4]"; made when new. */
struct module_id loadmap_kernel_module(struct loadmap *map, const char *name);
/*
 * Routines of a process that are numbers instead of addresses, and their names: a perf map. A
 * module of kind JIT with this path; made when new. The file stays the caller's.
 */
struct module_id loadmap_named_module(struct loadmap *map, struct loadmap_process *process,
				      const char *path, int perf_map);
/* The one module of kind MARK, path "[assay]". */
struct module_id loadmap_mark_module(struct loadmap *map);
/*
 * Writes changed rows; to be called before store_commit(). Also tells of earlier failures to write.
 */
int loadmap_flush(struct loadmap *map);
/* Writes end times and whatever is not yet in the store. */
int loadmap_finish(struct loadmap *map);

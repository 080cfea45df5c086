/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profile file: writing side. One SQLite file; docs/profile-format.md documents it table by
 * table.
 *
 * The caller gives the ids (dense, from 1). Everything between two store_commit() calls is one
 * transaction. If the process dies, the file opens and holds all that was committed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "store/rows.h"
#include "store/table.h"

enum { STORE_MOMENTS_KEPT = 256 /* seconds */ };
enum { STORE_SCHEMA_VERSION = 10, STORE_APPLICATION_ID = 0x41737379 /* "Assy" */ };

struct store;

/*
 * An existing profile at path is kept as path.old, an empty file is replaced. -EEXIST: something
 * else is there, and it stays; -EBUSY: another recorder is writing it.
 */
int store_create(const char *path, struct store **ret);
/*
 * From here on nothing waits for the disk until store_finish(). A kill still loses nothing that was
 * committed; a power cut before the end may leave a file that cannot be read.
 */
int store_sync_at_end(struct store *store);
/*
 * Opens an unfinished profile (its recorder was killed) to complete it. -EALREADY: it is finished;
 * -EBUSY: its recorder is still running. Otherwise the refusals of profile_load().
 */
int store_reopen(const char *path, struct store **ret);
void store_destroy(struct store *store);
/*
 * Nothing was recorded: removes the file, puts back the one that was there before, and destroys the
 * store.
 */
void store_abandon(struct store *store);
/*
 * Moves a finished profile to where store_create() would make one, with the same refusals; then it
 * is removed.
 */
int store_place(const char *path, const char *place);
DEFINE_AUTO(struct store, store_destroy)

/*
 * Rows. A table NAME of tables.def is written by store_NAME_put(), which replaces the row of the
 * same key; what a row's fields mean is said there. What a type of tables.def lets who writes leave
 * out is filled in here.
 */
int store_put(struct store *store, enum store_table_id table, const void *row);
/* The same, but adds to the columns of type SUM, and keeps the greater one of type MOST. */
int store_add(struct store *store, enum store_table_id table, const void *row);

#define TABLE(name, array, count, style, keys, domain, text)                                       \
	static inline int store_##name##_put(struct store *store, const struct store_##name *row)  \
	{                                                                                          \
		return store_put(store, STORE_TABLE_##name, row);                                  \
	}
#define COLUMN(type, name, argument, text)
#define FIELD(type, name, text)
#define END
#include "store/tables.def"

/*
 * --- Recordings: store_recordings.c. One of each kind, which begins when it is first told of. ---
 */

/* started: ns since 1970 */
int store_recording_begin(struct store *store, enum recording_kind kind, uint64_t started);
/*
 * Totals: each sets, not adds. What is kept of samples and of executed code is counted by the store
 * itself.
 */
int store_duration_set(struct store *store, enum recording_kind kind, uint64_t duration);
int store_seen_set(struct store *store, enum recording_kind kind, uint64_t seen);
int store_kept_set(struct store *store, enum recording_kind kind, uint64_t kept);
/* reason: the JSON name, which does not change; text: for people. */
int store_loss_set(struct store *store, enum recording_kind kind, const char *reason,
		   const char *text, uint64_t count);
int store_metric_set(struct store *store, enum recording_kind kind, const char *metric,
		     const char *unit, uint64_t total);
int store_fact_add(struct store *store, enum recording_kind kind, const char *key,
		   const char *value);
int store_fact_add_u64(struct store *store, enum recording_kind kind, const char *key,
		       uint64_t value);
/* Processes and modules that are written from here on are of this machine. */
int store_machine_here(struct store *store);

/* --- Samples: store_recent.c --- */

/* Adds to what is there. kernel: how many of count were interrupted in kernel mode. */
int store_samples_add(struct store *store, struct thread_id thread, struct stack_id stack,
		      uint64_t count, uint64_t kernel);
/* When samples were taken that were added since the last commit: the second since the beginning. */
int store_moment_add(struct store *store, uint32_t second, struct thread_id thread,
		     struct stack_id stack, uint64_t count, uint64_t kernel);
/* Adds to the timeline: samples of thread in the given second since the recording began. */
int store_tick_add(struct store *store, uint32_t second, struct thread_id thread, uint64_t count);
/* The same of a CPU: samples that it has seen. */
int store_cpu_tick_add(struct store *store, uint32_t second, uint32_t cpu, uint64_t count);

/* --- Executed blocks: store_executions.c --- */

struct store_executed {
	struct block_id block;
	uint64_t count; /* executions */
};

/* Adds to what the thread has executed. In ascending order of blocks. */
int store_executions_add(struct store *store, struct thread_id thread,
			 const struct store_executed *executed, size_t count);

/* --- What is more than a row: store_rows.c --- */

int store_symbol_code_put(struct store *store, struct symbol_id id, const void *code, size_t size);
/* The file of that path; a new row if there is none. */
int store_file_find(struct store *store, const char *path, struct file_id *ret);
/*
 * Adds to what is there. segments: that the thread executed and that are in the profile; lost: that
 * are not.
 */
int store_thread_segments_add(struct store *store, struct thread_id thread, uint64_t segments,
			      uint64_t lost);

/* Locations that have no frame yet, by module and then address: what is left to symbolise. */
struct store_unnamed {
	struct location_id location;
	struct module_id module;
	uint64_t address;
	uint64_t self; /* samples with this location innermost, and values seen here: whose code is
			  worth keeping */
};
int store_unnamed_list(struct store *store, struct store_unnamed **ret, size_t *ret_count);
/* Reads a module's row back; the memory of its texts is the caller's to free. */
int store_module_get(struct store *store, struct module_id id, struct store_module *ret,
		     char **ret_texts);

/* An id that no module has yet. */
int store_module_next(struct store *store, struct module_id *ret);

/* Ends the transaction and begins the next. */
int store_commit(struct store *store);
/* The recording is complete: marks the file finished and leaves one file, nothing beside it. */
int store_finish(struct store *store);

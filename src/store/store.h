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

#include "base/buildid.h"
#include "base/cleanup.h"
#include "base/ids.h"

enum { STORE_SCHEMA_VERSION = 4, STORE_APPLICATION_ID = 0x41737379 /* "Assy" */ };

struct store;

/* One run of one program: a pid between two execs. */
struct store_process {
	struct process_id id;
	struct process_id parent; /* 0: unknown */
	uint32_t pid;
	uint32_t ppid;
	uint32_t uid, gid, euid, egid; /* UINT32_MAX: unknown, stored as NULL */
	const char *comm;
	const char *exe; /* NULL: unknown */
	const char *cgroup; /* NULL: unknown */
	uint64_t started; /* ns, CLOCK_MONOTONIC; 0: before the recording */
	uint64_t ended; /* 0: still running when the recording ended */
};

struct store_thread {
	struct thread_id id;
	struct process_id process;
	uint32_t tid;
	const char *comm;
	uint64_t started;
	uint64_t ended;
};

#define MODULE_KINDS(X)                                                                            \
	X(ELF, "elf") /* a mapped ELF file; addresses are its own (p_vaddr) */                     \
	X(KERNEL, "kernel") /* vmlinux and kernel modules; addresses as run */                     \
	X(VDSO, "vdso") /* addresses are its own */                                                \
	X(JIT, "jit") /* named by a /tmp/perf-PID.map; one module per process; as run */           \
	X(ANON, "anon") /* executable memory without a file; as run */                             \
	X(MARK, "mark") /* not code: entries such as "[stack cut: ...]"; address = enum value */

enum module_kind {
#define X(name, text) MODULE_##name,
	MODULE_KINDS(X)
#undef X
		MODULE_KIND_COUNT
};

struct store_module {
	struct module_id id;
	enum module_kind kind;
	const char *path; /* as the process saw it; "[kernel]", "[vdso]", "[ext4]" */
	struct build_id build_id;
	struct process_id process; /* JIT, ANON: whose; otherwise 0 */
	bool deleted; /* the file was gone or replaced */
};

struct store_mapping {
	struct process_id process;
	struct module_id module;
	uint64_t start, end, offset; /* as in /proc/PID/maps */
	uint64_t mapped; /* ns, CLOCK_MONOTONIC */
	uint64_t unmapped; /* 0: to the end */
};

struct store_symbol {
	struct symbol_id id;
	struct module_id module;
	const char *name; /* demangled */
	const char *linkage; /* as in the object file; NULL when the same */
	uint64_t address; /* in the module; with inlined, 0 */
	uint64_t size; /* 0: unknown */
	bool inlined; /* seen only as an inlined function */
};

/* One source-level frame at a location; depth 0 is the innermost inlined function. */
struct store_frame {
	struct location_id location;
	uint32_t depth;
	struct symbol_id symbol;
	struct file_id file; /* 0: unknown */
	uint32_t line; /* 0: unknown */
};

/* What is captured, such as "result" or "arg0@caller": struct capture_item as a row. */
struct store_value_item {
	uint32_t id;
	const char *text;
	const char *class; /* "instruction", "entry", "run", "context" */
	unsigned words; /* 1: a value; more: a tuple */
};

enum { STORE_VALUE_WORDS_MAX = 8, STORE_VALUE_LIST_MAX = 64 << 10, STORE_ARGUMENTS = 6 };

/* The values of one item at one site. */
struct store_value {
	uint32_t id;
	struct location_id
		location; /* the instruction; of an item of class "entry": the function's entry */
	struct location_id caller; /* the call instruction, of an item "@caller"; 0: none */
	uint32_t item;
	int64_t owner; /* uid the values belong to; -1: the kernel's, stored as NULL */
	unsigned width; /* bits of the first word */
	uint64_t total; /* values received */
	uint64_t runs; /* different runs they came from */
	bool has_moments; /* false, of tuples: the four that follow are stored as NULL */
	int64_t minimum, maximum;
	double mean, squares;
	const void *list; /* hotlist_encode() */
	size_t list_size; /* at most STORE_VALUE_LIST_MAX */
};

/* An integer-class parameter of a function. */
struct store_parameter {
	struct symbol_id symbol;
	unsigned argument; /* register, from 0: rdi, rsi, rdx, rcx, r8, r9 */
	const char *name;
	const char *type;
	const char *encoding; /* "signed", "unsigned", "pointer", "bool", "char", "enum", "float" */
	unsigned size; /* bytes */
};

/* Code that is executed from its first instruction to its last, or cut short there by a signal. */
struct store_block {
	uint32_t id;
	struct location_id location; /* the first instruction */
	uint32_t length; /* bytes */
	uint32_t instructions;
};

/* Neighbouring instructions of a block that have the same function and line. Every block has part 0, at its location. */
struct store_block_part {
	uint32_t block;
	uint32_t part; /* from 0, in the order of addresses */
	struct location_id location;
	uint32_t instructions;
};

/* A line that has code, in a file that a module was made from. */
struct store_source_line {
	struct file_id file;
	uint32_t line;
	struct module_id module;
	uint64_t count; /* executions of its most executed instruction; 0: never */
};

/*
 * An existing profile at path is kept as path.old, an empty file is replaced. -EEXIST: something
 * else is there, and it stays; -EBUSY: another collector is writing it.
 */
int store_create(const char *path, struct store **ret);
/*
 * From here on nothing waits for the disk until store_finish(). A kill still loses nothing that was committed; a power cut before the
 * end may leave a file that cannot be read.
 */
int store_sync_at_end(struct store *store);
/*
 * Opens an unfinished profile (its collector was killed) to complete it. -EALREADY: it is finished;
 * -EBUSY: its collector is still running. Otherwise the refusals of profile_load().
 */
int store_reopen(const char *path, struct store **ret);
void store_destroy(struct store *store);
/* Nothing was recorded: removes the file, puts back the one that was there before, and destroys the store. */
void store_abandon(struct store *store);
DEFINE_AUTO(struct store, store_destroy)

int store_meta_set(struct store *store, const char *key, const char *value);
int store_meta_set_u64(struct store *store, const char *key, uint64_t value);

/* Each replaces the row of the same id. */
int store_process_put(struct store *store, const struct store_process *row);
int store_thread_put(struct store *store, const struct store_thread *row);
int store_module_put(struct store *store, const struct store_module *row);
int store_mapping_add(struct store *store, const struct store_mapping *row);
int store_location_put(struct store *store, struct location_id id, struct module_id module,
		       uint64_t address);
/* A node of the tree of stacks: location called from parent; parent 0: the outermost frame. */
int store_stack_put(struct store *store, struct stack_id id, struct stack_id parent,
		    struct location_id location);
/* Adds to what is there. kernel: how many of count were interrupted in kernel mode. */
int store_samples_add(struct store *store, struct thread_id thread, struct stack_id stack,
		      uint64_t count, uint64_t kernel);
/* Adds to the timeline: samples of thread in the given second since the start. */
int store_tick_add(struct store *store, uint32_t second, struct thread_id thread, uint64_t count);
/* Totals: sets, not adds. reason: the JSON name of enum loss_reason; text: for people. */
int store_loss_set(struct store *store, const char *reason, const char *text, uint64_t count);
int store_seen_set(struct store *store, uint64_t seen);
/* How the user stacks of kept samples ended; end: the JSON name of enum stack_end. */
int store_stack_end_set(struct store *store, const char *end, const char *text, uint64_t count);

int store_symbol_put(struct store *store, const struct store_symbol *row);
int store_symbol_code_put(struct store *store, struct symbol_id id, const void *code, size_t size);
int store_file_put(struct store *store, struct file_id id, const char *path);
int store_frame_put(struct store *store, const struct store_frame *row);
/* The file of that path; a new row if there is none. */
int store_file_find(struct store *store, const char *path, struct file_id *ret);

/* Each replaces the row of the same id, or of the same symbol and argument. */
int store_value_item_put(struct store *store, const struct store_value_item *row);
int store_value_put(struct store *store, const struct store_value *row);
int store_parameter_put(struct store *store, const struct store_parameter *row);
/* What a value that is an address points to. location 0: none; text NULL: none. */
int store_value_name_put(struct store *store, uint64_t value, struct location_id location,
			 const char *text);
/* Totals: set, not added. mnemonic: of the instruction that ended the runs; "": none. */
int store_run_end_set(struct store *store, const char *reason, const char *mnemonic,
		      const char *text, uint64_t count);
/* Runs that gave no values. */
int store_run_loss_set(struct store *store, const char *reason, const char *text, uint64_t count);

/* Each replaces the row of the same key. */
int store_block_put(struct store *store, const struct store_block *row);
int store_block_part_put(struct store *store, const struct store_block_part *row);
int store_source_line_put(struct store *store, const struct store_source_line *row);
/* Both add to what is there. */
int store_execution_add(struct store *store, uint32_t block, struct thread_id thread,
			uint64_t count);
/* runs: that the thread executed and that are in the profile; lost: that are not. */
int store_thread_runs_add(struct store *store, struct thread_id thread, uint64_t runs,
			  uint64_t lost);

/* --- The order of execution: store_flow.c. Each replaces the row of the same key. Bytes are those of src/profile. --- */

/* What runs, or paths, first to first + count - 1 of a process are. */
struct store_definitions {
	struct process_id process;
	uint64_t first, count;
	const void *data;
	size_t size;
};
int store_run_table_put(struct store *store, const struct store_definitions *row);
int store_path_table_put(struct store *store, const struct store_definitions *row);
/* Runs below inherited are those of the process it was forked from. */
int store_run_parent_put(struct store *store, struct process_id process, struct process_id parent,
			 uint64_t inherited);

/* A stretch of a thread; numbers are of what the thread has behind it at the end. */
struct store_flow {
	struct thread_id thread;
	uint32_t row; /* from 0 */
	uint64_t instructions, runs, paths, repeats, strata;
	uint64_t stratum_start, base;
	const void *data;
	size_t size;
};
int store_flow_put(struct store *store, const struct store_flow *row);

/* Paths, strata or cycles of a stratum layer: those numbered from first on that were kept, count of them. */
struct store_cycle_table {
	struct process_id process;
	unsigned level;
	uint64_t first, count;
	const void *data;
	size_t size;
};
int store_cycle_table_put(struct store *store, const struct store_cycle_table *row);

struct store_layer {
	struct thread_id thread;
	unsigned level;
	uint64_t symbols, cycles, repeats;
	uint64_t cut, broken;
};
int store_layer_put(struct store *store, const struct store_layer *row);
/* Cycles that have no row of their own because they were run too seldom. */
int store_rare_cycle_put(struct store *store, struct process_id process, unsigned level,
			 uint64_t cycles, uint64_t trips, uint64_t weight);

/* Locations that have no frame yet, by module and then address: what is left to symbolise. */
struct store_unnamed {
	struct location_id location;
	struct module_id module;
	uint64_t address;
	uint64_t self; /* samples with this location innermost, and values seen here: whose code is worth keeping */
};
int store_unnamed_list(struct store *store, struct store_unnamed **ret, size_t *ret_count);
/* Reads a module's row back; path is the caller's to free. */
int store_module_get(struct store *store, struct module_id id, struct store_module *ret,
		     char **ret_path);

/* An id that no module has yet. */
int store_module_next(struct store *store, struct module_id *ret);

/* Ends the transaction and begins the next. */
int store_commit(struct store *store);
/* The recording is complete: marks the file finished and leaves one file, nothing beside it. */
int store_finish(struct store *store);

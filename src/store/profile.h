/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profile file: reading side. A profile read into memory: arrays indexed by the ids of the file
 * (entry 0 unused). Analyses are functions of this and give tables; they do no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

struct profile_module {
	enum module_kind kind;
	const char *path;
	const char *name; /* last part of the path */
	const char *build_id; /* hexadecimal; "" none */
};

struct profile_process {
	uint32_t pid, ppid;
	uint32_t parent; /* index, 0 none */
	int64_t uid, gid, euid, egid; /* -1 unknown */
	const char *comm;
	const char *exe; /* "" unknown */
	const char *cgroup; /* "" unknown */
	uint64_t started, ended;
};

struct profile_thread {
	uint32_t process;
	uint32_t tid;
	const char *comm;
};

struct profile_symbol {
	uint32_t module;
	const char *name;
	const char *linkage;
	uint64_t address, size;
	bool inlined;
};

struct profile_frame {
	uint32_t symbol;
	uint32_t file; /* 0 unknown */
	uint32_t line;
};

/* A code address; its frames are frames[first_frame ...], innermost inlined function first. */
struct profile_location {
	uint32_t module;
	uint64_t address;
	uint32_t first_frame;
	uint32_t frame_count; /* 0: not symbolised */
};

/* Nodes come after their parents. */
struct profile_stack {
	uint32_t parent; /* 0: outermost frame */
	uint32_t location;
};

struct profile_sample {
	uint32_t thread;
	uint32_t stack;
	uint64_t count;
	uint64_t kernel; /* of count */
};

struct profile_named_count {
	const char *name;
	const char *text;
	uint64_t count;
};

struct profile_value_item {
	const char *text; /* "result", "arg0@caller" */
	const char *class; /* "instruction", "entry", "run", "context" */
	unsigned words; /* 1 to STORE_VALUE_WORDS_MAX; more than 1: tuples */
};

/* The values of one item at one site. */
struct profile_value {
	uint32_t location;
	uint32_t caller; /* location of the call; 0 none */
	uint32_t item; /* index in value_items */
	int64_t owner; /* uid; -1: the kernel's, for the administrator alone */
	unsigned width; /* bits of the first word, 1 to 64 */
	uint64_t total; /* values received; all together they fit in an int64_t, as do runs */
	uint64_t runs; /* different runs they came from */
	bool has_moments; /* otherwise the four that follow are 0 */
	int64_t minimum, maximum;
	double mean, squares; /* finite */
	const uint8_t *list; /* hotlist_decode() checks it; it may be any bytes */
	size_t list_size; /* at most STORE_VALUE_LIST_MAX */
};

/* How runs ended. */
struct profile_run_end {
	const char *reason; /* "length": they reached the run length */
	const char *mnemonic; /* of the instruction; "" none */
	const char *text;
	uint64_t count;
};

/* What a value that is an address points to. */
struct profile_value_name {
	uint64_t value;
	uint32_t location; /* 0 none */
	const char *text; /* "" none */
};

struct profile_parameter {
	uint32_t symbol;
	unsigned argument; /* below STORE_ARGUMENTS */
	const char *name, *type, *encoding;
	unsigned size; /* bytes */
};

/* Code that the engine executed as a whole; its parts are block_parts[first_part ...], in the order of addresses. */
struct profile_block {
	uint32_t location;
	uint32_t length; /* bytes */
	uint32_t instructions;
	uint32_t first_part;
	uint32_t part_count; /* 0: where the collector was killed */
};

struct profile_block_part {
	uint32_t location;
	uint32_t instructions;
};

struct profile_execution {
	uint32_t block;
	uint32_t thread;
	uint64_t count; /* all together, times instructions, they fit in an int64_t */
};

struct profile_thread_runs {
	uint32_t thread;
	uint64_t runs, lost;
};

struct profile_source_line {
	uint32_t file, line, module;
	uint64_t count; /* executions; 0 never */
};

/* What runs or paths stand for; the bytes may be any: profile/runs.h, profile/sequence.h and profile/cyclepack.h check them. */
struct profile_definitions {
	uint32_t process;
	uint64_t first, count;
	const uint8_t *data;
	size_t size;
};

/* Runs below `inherited` are those of the process that it was forked from. */
struct profile_run_parent {
	uint32_t process, parent;
	uint64_t inherited;
};

/* A stretch of a thread; the numbers are how far it had come at its end. */
struct profile_flow {
	uint32_t thread;
	uint64_t row; /* of the thread, from 0 */
	uint64_t instructions, runs, paths, repeats, strata;
	uint64_t stratum_start, base;
	const uint8_t *data; /* any bytes, as above */
	size_t size;
};

/* Cycles of a process and level that were run often enough, numbered from first on. */
struct profile_cycle_table {
	uint32_t process;
	unsigned level; /* 0 paths, 1 strata, 2 + n stratum layer n */
	uint64_t first, count;
	const uint8_t *data; /* any bytes, as above */
	size_t size;
};

struct profile_layer {
	uint32_t thread;
	unsigned level;
	uint64_t symbols, cycles, repeats, cut, broken;
};

struct profile_rare_cycle {
	uint32_t process;
	unsigned level;
	uint64_t cycles, trips, weight; /* weight of all trips */
};

struct profile {
	struct profile_module *modules;
	size_t module_count; /* all counts include the unused entry 0 */
	struct profile_process *processes;
	size_t process_count;
	struct profile_thread *threads;
	size_t thread_count;
	struct profile_symbol *symbols;
	size_t symbol_count;
	const char **files;
	size_t file_count;
	struct profile_frame *frames;
	size_t frame_count;
	struct profile_location *locations;
	size_t location_count;
	struct profile_stack *stacks;
	size_t stack_count;
	struct profile_sample *samples; /* from 0 */
	size_t sample_count;
	uint64_t seen, kept;
	struct profile_named_count *losses; /* from 0; only those with count > 0 */
	size_t loss_count;
	struct profile_named_count *stack_ends; /* from 0 */
	size_t stack_end_count;
	struct profile_named_count *meta; /* name, text = value */
	size_t meta_count;
	struct profile_value_item *value_items;
	size_t value_item_count; /* with the unused entry 0 */
	struct profile_value
		*values; /* from 0; by location, item, caller, owner, which may come twice */
	size_t value_count;
	struct profile_run_end *run_ends; /* from 0; highest count first */
	size_t run_end_count;
	struct profile_named_count *run_losses; /* from 0; only those with count > 0 */
	size_t run_loss_count;
	struct profile_value_name *value_names; /* from 0; by value, unsigned */
	size_t value_name_count;
	struct profile_parameter *parameters; /* from 0; by symbol, argument */
	size_t parameter_count;
	struct profile_block *blocks; /* with the unused entry 0 */
	size_t block_count;
	struct profile_block_part *block_parts; /* from 0 */
	size_t block_part_count;
	struct profile_execution *executions; /* from 0; by block, thread */
	size_t execution_count;
	struct profile_thread_runs *thread_runs; /* from 0; by thread */
	size_t thread_runs_count;
	struct profile_source_line *source_lines; /* from 0; by file, line, module */
	size_t source_line_count;
	/* Of profile_load_flow() only. */
	struct profile_definitions *run_tables; /* from 0; by process, first */
	size_t run_table_count;
	struct profile_run_parent *run_parents; /* from 0; by process */
	size_t run_parent_count;
	struct profile_definitions *path_tables; /* from 0; by process, first */
	size_t path_table_count;
	struct profile_flow *flows; /* from 0; by thread, row */
	size_t flow_count;
	struct profile_cycle_table *cycle_tables; /* from 0; by process, level, first */
	size_t cycle_table_count;
	struct profile_layer *layers; /* from 0; by thread, level */
	size_t layer_count;
	struct profile_rare_cycle *rare_cycles; /* from 0; by process, level */
	size_t rare_cycle_count;
	bool finished; /* false: the collector was killed */
	void *memory; /* owns every string and list */
};

/*
 * Reads and checks a file; every index in the result is in range and stacks come after their
 * parents. Refuses, each with its own sentence: no such file, not SQLite, not an Assay profile,
 * written by a newer Assay, truncated or corrupt. A profile of version 1 has no values, one before version 4 nothing that was executed:
 * what version 3 had is refused.
 * Of a profile of executed code, seen and kept count runs, otherwise samples.
 */
int profile_load(const char *path, struct profile **ret);
/* The same with the order of execution, which is most of the file. */
int profile_load_flow(const char *path, struct profile **ret);
void profile_destroy(struct profile *profile);
DEFINE_AUTO(struct profile, profile_destroy)
/* The value of a meta key, or NULL. */
const char *profile_meta(const struct profile *profile, const char *key);

/* The code that a profile keeps, of which a view wants little: it is read when asked for. */
struct profile_code;

int profile_code_create(const char *path, struct profile_code **ret);
void profile_code_destroy(struct profile_code *code);
DEFINE_AUTO(struct profile_code, profile_code_destroy)
/* Of a symbol; *ret is the caller's to free. -ENOENT: none. */
int profile_code_get(struct profile_code *code, uint32_t symbol, void **ret, size_t *ret_size);

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
	bool finished; /* false: the collector was killed */
	void *memory; /* owns every string */
};

/*
 * Reads and checks a file; every index in the result is in range and stacks come after their
 * parents. Refuses, each with its own sentence: no such file, not SQLite, not an Assay profile,
 * written by a newer Assay, truncated or corrupt.
 */
int profile_load(const char *path, struct profile **ret);
void profile_destroy(struct profile *profile);
DEFINE_AUTO(struct profile, profile_destroy)
/* The value of a meta key, or NULL. */
const char *profile_meta(const struct profile *profile, const char *key);
/*
 * The stored code bytes of a symbol, read from the file when asked; *ret is the caller's to free.
 * -ENOENT: none.
 */
int profile_symbol_code(const char *path, uint32_t symbol, void **ret, size_t *ret_size);

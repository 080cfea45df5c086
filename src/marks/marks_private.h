/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by marks.c, which owns the marks, and resolve.c, which finds them in files. */
#pragma once

#include <pthread.h>

#include "base/array.h"
#include "base/map.h"
#include "image/loadmap_file.h"
#include "marks/marks.h"
#include "symbols/symbols.h"

struct entry {
	uint32_t number;
	size_t spec; /* index in specs */
	char *text;
	bool pattern;
	bool removed; /* it counts no more; what it counted stays */
	uint32_t places;
	uint32_t timer; /* number + 1; 0: none */
};

struct found {
	uint32_t number;
	struct mark_place place;
};

/* Ranges of one table while it is made. */
struct ranges_list {
	ARRAY(struct mark_range) items;
	ARRAY(struct mark_data_range) data;
	uint32_t code_offset, code_address; /* of the file's first executable segment */
};

/* A name of a function. */
struct named {
	uint32_t function;
	uint32_t older; /* the one before with the same hash, + 1; 0: none */
};

/*
 * The functions of a file. They are kept, because reading its symbol tables again would take long.
 */
struct functions {
	bool ready;
	struct symbol_name *items; /* by address; the texts are in the table */
	size_t count;
	struct strtab texts;
	struct map by_name; /* hash of a name to the last of `named` that has it, + 1 */
	ARRAY(struct named) named;
};

/* A file that engines have mapped. */
struct marked_file {
	uint64_t identity;
	char *path;
	struct loadmap_file file; /* open: marks may be added later */
	struct functions functions;
	struct ranges_list ranges; /* what is marked in it now */
};

/* Code of a file that a process has mapped; the last one counts. */
struct mapped {
	uint32_t pid, file; /* number */
	uint64_t start, end, offset;
};

struct marks {
	pthread_mutex_t lock; /* of specs, entries and found */
	ARRAY(struct mark_spec) specs;
	ARRAY(uint32_t) spec_numbers; /* of each spec its own mark, which has its text */
	ARRAY(struct entry) entries; /* entry i has number i + 1 */
	ARRAY(struct found) found;
	struct strtab paths;
	struct map placed; /* hashes of what is in found: a mark that comes back is found again */
	struct map children; /* hash of spec and routine to number */
	ARRAY(struct mapped) mapped;
	ARRAY(struct marked_file) files; /* file i has number i + 1 */
	struct ranges_list instructions; /* by codes of instructions */
	char *area;
	size_t used; /* bytes of the area */
	struct mark_names *names; /* in the area; NULL: not published yet */
	struct mark_timer *timers; /* in the area; NULL: nothing is timed */
	uint32_t timer_count;
	uint64_t untimed; /* marks for which there was no timer */
	uint64_t failed;
};

struct module {
	struct marks *marks;
	const char *path;
	struct loadmap_file *file;
	struct functions *functions;
	struct ranges_list *ranges;
};

/* The mark of a routine that a pattern has found: a new one, or the one that there is. */
uint32_t marks_child(struct marks *marks, size_t spec, const char *routine);
/* A place was found: bytes of the file, as addresses. */
void module_place(struct module *module, uint32_t number, uint64_t address, uint64_t size,
		  bool begins);
/* Another use of some code, which is not counted by itself: a timer's or an allocation's. */
void module_use(struct module *module, enum mark_use use, uint32_t number, uint64_t address,
		uint64_t size, bool begins);
/* The timer of a mark that is timed; false: it has none, and there is none left. */
bool marks_timer(struct marks *marks, uint32_t number, uint32_t *ret);
/* Data was found: addresses of the file. */
void module_data(struct module *module, uint32_t number, uint64_t address, uint64_t size);
void marked_functions_deinit(struct functions *functions);
/* Finds in the module what is marked by specs from the first to before the end. */
void module_resolve(struct module *module, size_t first, size_t end);
/* The name of the function that holds the address, as linkers know it; NULL: none. */
const char *module_function_at(struct module *module, uint64_t address);
/* Whether the spec marks nothing any more. */
bool marks_spec_removed(const struct marks *marks, size_t spec);

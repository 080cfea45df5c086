/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files share that make up struct marks: marks.c has the list of marks, files.c the files
 * that are mapped, resolve.c finds marks in them, tables.c writes the tables for engines, and
 * change.c changes marks while programs run.
 */
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
	uint32_t accesses_max; /* of struct marks_area */
	uint64_t failed;
};

struct module {
	struct marks *marks;
	const char *path;
	struct loadmap_file *file;
	struct functions *functions;
	struct ranges_list *ranges;
};

/* --- marks.c ---------------------------------------------------------------------------------- */
/* The mark that was given as exactly that text; *ret is its index in specs. */
bool marks_spec_find(const struct marks *marks, const char *text, size_t *ret);
/* -EINVAL: other memory that is allocated at the same line is marked already. */
int marks_heap_check(const struct marks *marks, const struct mark_spec *wanted);
/* Whether the spec marks nothing any more. */
bool marks_spec_removed(const struct marks *marks, size_t spec);
/* The mark of a routine that a pattern has found: a new one, or the one that there is. */
uint32_t marks_child(struct marks *marks, size_t spec, const char *routine);

/* --- tables.c --------------------------------------------------------------------------------- */
/*
 * Writes the ranges as a table behind those that are there, and sorts them. Returns its place in
 * units of MARKS_UNIT; 0: there are none; -ENOSPC: there is no room.
 */
int mark_table_write(struct marks *marks, const char *what, struct ranges_list *list);
/* Adds the codes of the spec's instructions to the ranges; -EINVAL: no instruction has the name. */
int marks_instructions_find(struct marks *marks, size_t index);
/* Writes the table of instructions, or of addresses of data, and tells engines its place. */
int marks_instructions_publish(struct marks *marks);
int marks_addresses_publish(struct marks *marks);
/* Tells engines which tools the marks need that are not removed. */
void marks_tools_publish(struct marks *marks);
/* Programs read marks by their name. Names for which there is no room cannot be read. */
void marks_name_publish(struct marks *marks, const struct entry *entry);
/* The timer of a mark that is timed; false: it has none, and there is none left. */
bool marks_timer(struct marks *marks, uint32_t number, uint32_t *ret);

/* --- files.c ---------------------------------------------------------------------------------- */
/* Adds to the ranges of a file what specs mark in it, from the first to before the end. */
void marked_file_resolve(struct marks *marks, size_t index, size_t first, size_t end);
/* Writes the table of a file and tells engines its place; -ENOSPC: there is no room. */
int marked_file_publish(struct marks *marks, size_t index);
/* A place was found: bytes of the file, as addresses. */
void module_place(struct module *module, uint32_t number, uint64_t address, uint64_t size,
		  bool begins);
/* Another use of some code, which is not counted by itself: a timer's or an allocation's. */
void module_use(struct module *module, enum mark_use use, uint32_t number, uint64_t address,
		uint64_t size, bool begins);
/* Data was found: addresses of the file. */
void module_data(struct module *module, uint32_t number, uint64_t address, uint64_t size);

/* --- resolve.c -------------------------------------------------------------------------------- */
void marked_functions_deinit(struct functions *functions);
/* Finds in the module what is marked by specs from the first to before the end. */
void module_resolve(struct module *module, size_t first, size_t end);
/* The name of the function that holds the address, as linkers know it; NULL: none. */
const char *module_function_at(struct module *module, uint64_t address);

/* --- change.c --------------------------------------------------------------------------------- */
/* -EINVAL: the mark cannot be added or removed while programs run, and why. */
int mark_change_check(const struct marks *marks, const char *text);

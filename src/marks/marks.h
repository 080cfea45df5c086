/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The marks of a recording: as the user has given them, where they lie in each file, and the tables
 * in which engines look them up (wire/marks.h).
 *
 *	marks_create()
 *	marks_add(), marks_add_file()	before anything runs
 *	marks_publish()			where engines find them
 *	marks_module()			each time that an engine has seen code that is new
 *	marks_change_add(),		while programs run
 *	marks_change_remove()
 *
 * A mark has a number, from 1 on. A pattern is a mark that has no place of its own; each routine
 * that it finds is another mark.
 *
 * Marks are added by one thread; marks_each() may be called by another at the same time.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "marks/spec.h"
#include "wire/marks.h"

struct marks;

/* Where a mark is. */
struct mark_place {
	const char *module; /* path */
	uint64_t address, size; /* as in the file; the first byte, and how many */
	bool begins; /* visits are counted here */
};

struct mark {
	uint32_t number;
	enum mark_kind kind;
	bool pattern; /* what it found are marks of their own */
	bool removed; /* it counts no more */
	const char *text; /* as given, or the routine's name that a pattern has found */
	uint32_t places; /* how many have been found */
};

struct marks *marks_create(void);
void marks_destroy(struct marks *marks);
DEFINE_AUTO(struct marks, marks_destroy)

/* -EINVAL: what is wrong with it. */
int marks_add(struct marks *marks, const char *text);
/*
 * The same, but it counts only once marks_change_add() has been called for it; one that there is
 * already stays as it is.
 */
int marks_add_idle(struct marks *marks, const char *text);
/*
 * One mark a line; empty lines, and what follows a # that begins a line, are left out. -EINVAL:
 * what is wrong, and in which line.
 */
int marks_add_file(struct marks *marks, const char *path);
size_t marks_count(const struct marks *marks);
/*
 * How many pairs of an instruction and marked data each thread may tell apart; otherwise
 * MARK_DATA_CELLS_MAX. Before marks_publish().
 */
void marks_accesses_limit(struct marks *marks, uint32_t limit);

/* area: of MARKS_BYTES, shared with engines, which do not run yet. -ENOSPC: there is no room. */
int marks_publish(struct marks *marks, void *area);
/*
 * The number of the file that the process has mapped (wire/marks.h); 0: nothing can be marked in
 * it. Of type inject_module.
 */
int marks_module(void *marks, pid_t pid, const struct stream_module *module);
/* Whether single visits of some mark are kept, or were. */
bool marks_keep_visits(const struct marks *marks);
/* Marks that were to be timed and for which there was no timer. */
uint64_t marks_untimed(const struct marks *marks);
/* Which mark a timer is of; 0: there is no such timer. */
uint32_t marks_timed_by(const struct marks *marks, uint32_t timer);
/*
 * Changes while programs run, by the thread that calls marks_module(). A mark is removed by the
 * text that it was given as; added again, it goes on as the same mark. -EEXIST, -ENOENT, -ENOSPC:
 * there is no room for the tables.
 */
int marks_change_add(struct marks *marks, const char *text);
int marks_change_remove(struct marks *marks, const char *text);
/* The number of marks, as the user has given them, that are not removed. */
size_t marks_active(const struct marks *marks);
/* Whether an engine that works with that generation has seen the last change. */
bool marks_are_seen(const struct marks *marks, uint32_t generation);
/* Modules whose marks found no room, or whose file could not be read. */
uint64_t marks_failed(const struct marks *marks);

/*
 * Tells the marks with numbers from `from` on; of a mark that was told, only its places change
 * later.
 */
void marks_each(struct marks *marks, uint32_t from,
		void (*tell)(void *ctx, const struct mark *mark), void *ctx);
/*
 * Finds the mark that was given as that text, or as that text and attributes behind a comma; *ret
 * is lent.
 */
bool marks_spec(struct marks *marks, const char *text, struct mark_spec *ret);
/* Likewise: its own number, and of a pattern those that it has found. */
void marks_numbers(struct marks *marks, const char *text, void (*tell)(void *ctx, uint32_t number),
		   void *ctx);
/*
 * The text as which the mark, or the pattern that found it, was given; freed by the caller; NULL:
 * unknown.
 */
char *marks_given(struct marks *marks, uint32_t number);
/* Places from `from` on, in the order in which they were found. */
void marks_places_each(struct marks *marks, size_t from,
		       void (*tell)(void *ctx, uint32_t number, const struct mark_place *place),
		       void *ctx);
/*
 * The routine of a process that holds the address, written as a mark: MODULE!NAME; NULL: not known.
 * The caller frees it. Called by the thread that calls marks_module().
 */
char *marks_routine_at(struct marks *marks, uint32_t pid, uint64_t address);
/*
 * A page of code of a mapped module, written as a mark: the page with that number, or the first one
 * if there are not so many. *number becomes that of the next page. NULL: no such module is mapped.
 * The caller frees it. Called by the thread that calls marks_module().
 */
char *marks_page(struct marks *marks, const char *module, uint64_t *number);

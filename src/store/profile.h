/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profile file: reading side. A profile read into memory: arrays indexed by the ids of the file
 * (entry 0 unused). Analyses are functions of this and give tables; they do no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/store.h"

/*
 * The parts in which a profile is loaded: a view names those that it needs, and no other is read.
 * Rows that are referred to are loaded with them: samples bring stacks, locations, modules, threads
 * and processes.
 */
#define PROFILE_DOMAINS(X)                                                                         \
	X(TASKS, "processes and threads")                                                          \
	X(CODE, "modules and locations")                                                           \
	X(NAMES, "symbols, files, frames")                                                         \
	X(SAMPLES, "stacks and how often each was sampled")                                        \
	X(STACK_ENDS, "how the unwinding of stacks ended")                                         \
	X(VALUES, "values, their items, names and parameters")                                     \
	X(RUN_ENDS, "how interpreted runs ended")                                                  \
	X(EXECUTED, "blocks and how often each was executed")                                      \
	X(LINES, "lines that have code, and whether they were executed")                           \
	X(PATHS, "the order of execution, which is most of the file")                              \
	X(CALLS, "paths of calls, and what each cost")                                             \
	X(MAPPINGS, "where modules lay in processes")                                              \
	X(TICKS, "samples over time")                                                              \
	X(WAITS, "what threads used and waited for")                                               \
	X(MARKS, "marks, where they are, and how often they were executed")                        \
	X(MARKED, "marked code, and how often it was executed")                                    \
	X(EVENTS, "visits and rules that raised events")                                           \
	X(VISITS, "single visits of a routine, usual and slow ones")                               \
	X(MOMENTS, "which stacks were sampled when")

enum profile_domain_number {
#define X(name, text) DOMAIN_NUMBER_##name,
	PROFILE_DOMAINS(X)
#undef X
		DOMAIN_COUNT
};

/* Bits, to be combined. */
enum profile_domain {
#define X(name, text) DOMAIN_##name = 1 << DOMAIN_NUMBER_##name,
	PROFILE_DOMAINS(X)
#undef X
		DOMAIN_ALL = (1 << DOMAIN_COUNT) - 1,
	DOMAIN_OPEN = 0, /* of tables that are read when a profile is opened */
	DOMAIN_DERIVED = 1 << DOMAIN_COUNT, /* of tables that are never read: they are for SQL */
};

/*
 * The rows of each table of tables.def that is loaded: processes and process_count, and so on. The
 * arrays of tables with ids have an unused entry 0, which counts; ids that were not given are rows
 * of zeroes and empty texts. The others begin with 0 and are in the order of their keys, except:
 * values are by location, item, caller, owner, which may come twice; run_ends and run_places have
 * the highest count first; value_names are by value, unsigned; samples have those of recents added
 * in.
 */
struct profile {
#define TABLE(name, array, count, style, keys, domain, text)                                       \
	struct profile_##name *array;                                                              \
	size_t count;
#define COLUMN(type, name, argument, text)
#define FIELD(type, name, text)
#define END
#include "store/tables.def"

	/* Of the first main recording (store/recording_kinds.h): the samples, if there are any. */
	uint64_t seen, kept;
	const struct profile_named_count *losses; /* only those with count > 0 */
	size_t loss_count;

	bool finished; /* false: the recorder was killed */
	uid_t owner; /* of the file; 0 of a profile that was made in memory */
	struct profile_source *source; /* where what is not loaded yet comes from; NULL: nowhere */
	void *memory; /* owns every text and list */
};

/*
 * Opens and checks a file: totals, losses and facts are there, everything else when it is needed.
 * The file stays open, and what is loaded later is of the same commit. Refuses, each with its own
 * sentence: no such file, not SQLite, not an Assay profile, written by a newer Assay, truncated or
 * corrupt.
 */
int profile_open(const char *path, struct profile **ret);
/*
 * Loads domains that are not there yet; every index in the result is in range and stacks come after
 * their parents. -EBADMSG: the file is corrupt; the profile can then only be destroyed.
 */
int profile_need(struct profile *profile, unsigned domains);
/* Both at once. */
int profile_load(const char *path, unsigned domains, struct profile **ret);
void profile_destroy(struct profile *profile);
DEFINE_AUTO(struct profile, profile_destroy)

/* NULL: the profile has no recording of that kind. */
const struct profile_recording *profile_recording(const struct profile *profile,
						  enum recording_kind kind);
/* A fact of that recording, or NULL; of one that was merged of several, the first of its values. */
const char *profile_fact(const struct profile *profile, enum recording_kind kind, const char *key);
/* How many different values a fact has. */
size_t profile_fact_count(const struct profile *profile, enum recording_kind kind, const char *key);
/* The same of whichever recording has it. */
const char *profile_meta(const struct profile *profile, const char *key);
/* A total of that recording; 0 where it did not say. */
uint64_t profile_metric(const struct profile *profile, enum recording_kind kind,
			const char *metric);

/* The code that a profile keeps, of which a view wants little: it is read when asked for. */
struct profile_code;

int profile_code_create(const char *path, struct profile_code **ret);
void profile_code_destroy(struct profile_code *code);
DEFINE_AUTO(struct profile_code, profile_code_destroy)
/* The code of a symbol; *ret is the caller's to free. -ENOENT: there is none. */
int profile_code_get(struct profile_code *code, uint32_t symbol, void **ret, size_t *ret_size);

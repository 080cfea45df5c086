/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records trees of calls of programs that were compiled with hooks: makes the shared memory
 * (wire/call_area.h), has the hooks (src/hooks) preloaded, and reads the trees that they build. The
 * caller starts the program and waits.
 *
 * Everything in the shared memory is checked: an inconsistent tree is counted and left out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "calls/snapshot.h"
#include "wire/call_area.h"

struct call_recording_options {
	bool timed;
	bool java; /* Java virtual machines are recorded, too */
	bool entries; /* so are programs that tell entries only (-pg, patchable entries) */
	uint32_t node_limit; /* of a thread; pruning begins above */
	uint32_t depth_limit;
	uint32_t thread_limit; /* at the same time */
	uint32_t prune_permille;
	const char *events; /* file: events are written to it as well; NULL: none */
};

#define CALL_RECORDING_DEFAULTS                                                                    \
	((struct call_recording_options){ .timed = true,                                           \
					  .node_limit = 1 << 16,                                   \
					  .depth_limit = 1 << 13,                                  \
					  .thread_limit = 512,                                     \
					  .prune_permille = 100 })

struct call_recording;

int call_recording_create(const struct call_recording_options *options,
			  struct call_recording **ret);
void call_recording_destroy(struct call_recording *recording);
DEFINE_AUTO(struct call_recording, call_recording_destroy)

/*
 * Reads a file of events as if it were recorded now; its threads have all ended, or were killed.
 * refused: inconsistent records.
 */
int call_recording_read(const char *path, const struct call_recording_options *options,
			struct call_recording **ret);
/*
 * The memory of a recording that another process makes now, to look at: threads that run
 * (call_recording_running), and how many were lost. fd stays the caller's.
 */
int call_recording_open(int fd, struct call_recording **ret);
/* The process that records, as it knows itself. */
uint32_t call_recording_host(const struct call_recording *recording);
/* Whether there is time in the trees. */
bool call_recording_timed(const struct call_recording *recording);
/* Names that the events gave to routines of no file: as lines of a perf map; NULL: none. */
const char *call_recording_names(const struct call_recording *recording);
/* The result of the last write to the file of events; 0 or a negative errno. */
int call_recording_events_error(const struct call_recording *recording);
/*
 * Events that were not written, because a program took the host to be gone; records that were
 * refused.
 */
uint64_t call_recording_dropped(const struct call_recording *recording);

/* Sets, and takes away, what programs that are started meanwhile find in their environment. */
int call_recording_environment(struct call_recording *recording, bool on);

/*
 * Takes the trees of threads that have ended, so that others can use their slots. Call it now and
 * then.
 */
void call_recording_poll(struct call_recording *recording);
/* The trees that were taken so far; they belong to the recording. */
struct call_results *call_recording_ended(struct call_recording *recording);
/*
 * The trees of threads that still run, or were killed, as they are now. The results belong to the
 * caller.
 */
void call_recording_running(struct call_recording *recording, struct call_results *ret);

/* The same, at the end of the recording: what is left of their events is written as well. */
void call_recording_finish(struct call_recording *recording, struct call_results *ret);

/* Nanoseconds of so many ticks, by both clocks since the recording was created. */
double call_recording_tick(const struct call_recording *recording);
/* Ticks that were taken off each interval between two events. */
uint64_t call_recording_overhead(const struct call_recording *recording);
/* The same of the agent in Java virtual machines, ns. */
uint64_t call_recording_java_overhead(const struct call_recording *recording);
/* Entries whose exits could not be seen, and patchable entries that were not patched. */
uint64_t call_recording_no_exits(const struct call_recording *recording);
uint64_t call_recording_unpatched(const struct call_recording *recording);
/* Threads whose base and cumulative time is by the clock on the wall. */
uint64_t call_recording_wall_only(const struct call_recording *recording);
uint64_t call_recording_refused(const struct call_recording *recording);
uint64_t call_recording_interrupted(const struct call_recording *recording);
/* What became of classes and methods of Java. */
uint64_t call_recording_java(const struct call_recording *recording, enum call_java_count what);
/* The names of Java's routines, as a perf map; still the recording's. */
int call_recording_java_names(const struct call_recording *recording);
/* Whether this binary has what Java virtual machines need. */
bool call_recording_has_java(void);
/* Paths by which another process finds the area and the agent; the caller frees them. */
char *call_recording_area_path(const struct call_recording *recording);
char *call_recording_agent_path(const struct call_recording *recording);
/* The number of inconsistent trees. */
uint64_t call_recording_bad(const struct call_recording *recording);

/* The modules that processes told, from 0 on; NULL: there is no such one yet. */
const struct call_module *call_recording_module_at(struct call_recording *recording,
						   uint32_t number);
/* Of events: whose it is, as results say it. */
uint64_t call_recording_module_program(const struct call_recording *recording, uint32_t number);
/* The file in which the address lay, and the address in the file. False: it is not known. */
bool call_recording_module(const struct call_recording *recording, uint32_t pid, uint64_t address,
			   const char **ret_path, uint64_t *ret);

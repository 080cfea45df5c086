/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The recorder: everything between the sources of records and the profile file. It owns the store,
 * the load map, the locations, the clock of commits, and what is done at the end, which is mainly
 * to find names. Sources (source.h) deliver records, sinks (sink.h) turn them into rows. The
 * recorder has no loop, no signals and no idea of what is recorded: a command configures it, waits
 * for whatever it wants to wait for, and calls recorder_round().
 *
 *	recorder_create()	the profile is there and can be written
 *	recorder_sink_add(), recorder_source_add()
 *	recorder_start()	sources record
 *	recorder_round()	again and again: when it is due, and when recorder_fd() is readable
 *	recorder_finish()	sources end, names are found, the profile is complete
 *
 * The order of a round. Sinks attribute records to code by the load map, so the events that explain
 * a record must have been applied before the record is delivered. An mmap always precedes, in time,
 * the samples and segments that need it. Therefore a round has three steps, each of them for all
 * sources before the next one begins:
 *
 *	1. look		every source notes how far its records go, or copies them
 *	2. events	every source applies what happened to processes before its look, at least
 *	3. deliver	every source hands out the records up to its look
 *
 * After them, sources use what the load map has learnt (settle), sinks do work that was put off,
 * and when the clock of commits says so everything is written in one transaction.
 *
 * If something fails, the first failure is kept and returned by every later call. The sources are
 * still visited, so that no program waits for a recorder that has given up, but nothing is
 * committed any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "image/loadmap.h"
#include "recorder/locations.h"
#include "recorder/sink.h"
#include "recorder/source.h"
#include "symbols/module_cache.h"

struct recorder_options {
	const char *output; /* the profile; NULL: none is made, and no sink may use the store */
	char *const *command; /* for the profile, copied; NULL: none */
	const char *table_cache; /* folder of unwind tables, as in loadmap_create(); NULL: none */
	unsigned commit_ms; /* between two commits */
	bool sync_at_end; /* commits do not wait for the disk: only the end of the recording does */
	/*
	 * called by recorder_finish() when only names are missing, which the next reader of the
	 * profile would find as well; from then on a signal may end the process; may be NULL
	 */
	void (*written)(void);
	bool keep_modules; /* sinks look names up themselves: modules stay open until the end */
};

struct recorder;

int recorder_create(const struct recorder_options *options, struct recorder **ret);
/*
 * Destroys sources and sinks too, the last one added first. A recorder that was never started
 * leaves no profile: what was there before is back. One that was started but not finished leaves
 * what it has committed.
 */
void recorder_destroy(struct recorder *recorder);
DEFINE_AUTO(struct recorder, recorder_destroy)

/* NULL: no profile is made. */
struct store *recorder_store(struct recorder *recorder);
struct loadmap *recorder_loadmap(struct recorder *recorder);
struct locations *recorder_locations(struct recorder *recorder);
/* Modules that stay open; NULL without keep_modules. */
struct module_cache *recorder_modules(struct recorder *recorder);
/*
 * Opens the file of a module as it was mapped. Returns an fd, which is the caller's, or a negative
 * errno.
 */
int recorder_module_open(struct recorder *recorder, const struct store_module *row);
/* CLOCK_MONOTONIC: when it was created, which is second 0 of the timeline; when it was started. */
uint64_t recorder_created(const struct recorder *recorder);
uint64_t recorder_started(const struct recorder *recorder);

/*
 * Both are the recorder's from now on. Sources are enabled, and visited in each step, in the order
 * of this call.
 */
void recorder_source_add(struct recorder *recorder, const struct source *source);
void recorder_sink_add(struct recorder *recorder, const struct sink *sink);
/*
 * What is known of one recording besides its rows: facts once, metrics again when they have
 * changed.
 */
int recorder_fact_set(struct recorder *recorder, enum recording_kind kind, const char *key,
		      const char *value);
int recorder_number_set(struct recorder *recorder, enum recording_kind kind, const char *key,
			uint64_t value);
int recorder_metric_set(struct recorder *recorder, enum recording_kind kind, const char *metric,
			const char *unit, uint64_t total);

int recorder_start(struct recorder *recorder);
/* Nothing could be recorded: the recorder counts as never started. */
void recorder_abandon(struct recorder *recorder);
/* The steps look, events, deliver and settle, and nothing else: for work that takes long. */
int recorder_intake(struct recorder *recorder);
/* *ret_more: call again at once. ret_more may be NULL. */
int recorder_round(struct recorder *recorder, bool *ret_more);
/* CLOCK_MONOTONIC: when paced sources want the next round. */
uint64_t recorder_due(const struct recorder *recorder);
/* Readable when a source wants a round earlier. */
int recorder_fd(const struct recorder *recorder);
/*
 * For callers that have nothing else to wait for: until a source may have something, or a round is
 * due.
 */
void recorder_wait(struct recorder *recorder);
/* Ends recorder_wait(), from any thread. */
void recorder_wake(struct recorder *recorder);
/*
 * Sets a function that is called after each commit, in the thread that makes the rounds; NULL:
 * none. Must not be called while another thread makes a round.
 */
void recorder_watch(struct recorder *recorder, void (*watch)(void *ctx), void *ctx);
/* How often it has committed. */
uint64_t recorder_commits(const struct recorder *recorder);
/* The totals of the sink of that kind, which must exist. */
void recorder_totals(struct recorder *recorder, enum recording_kind kind, struct sink_totals *ret);

/* Takes the records that are still on their way, and completes the profile. */
int recorder_finish(struct recorder *recorder);

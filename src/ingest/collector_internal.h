/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the collector share: collector.c has the loop, collector_start.c what comes before it,
 * collector_intake.c a round of it, collector_totals.c what is said about all of it.
 */
#pragma once

#include "base/array.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "ingest/backlog.h"
#include "ingest/blocks.h"
#include "ingest/collector.h"
#include "ingest/command.h"
#include "ingest/events.h"
#include "ingest/loadmap.h"
#include "ingest/locations.h"
#include "ingest/perfring.h"
#include "ingest/pointers.h"
#include "ingest/publisher.h"
#include "ingest/recheck.h"
#include "ingest/samples.h"
#include "ingest/values.h"
#include "store/store.h"

struct collector {
	const struct collector_options *options;
	struct store *store;
	struct loadmap *loadmap;
	struct locations *locations;
	struct samples *samples;
	struct blocks *blocks; /* this and the next two: NULL if no values are taken */
	struct values *values;
	struct pointers *pointers;
	struct sampler *sampler; /* NULL without BPF */
	struct publisher *publisher; /* NULL without BPF */
	struct perfring *ring;
	struct command *command; /* NULL: none */
	struct recheck *recheck;
	struct strbuf queue; /* records: size_t, then as many bytes, padded to 8 */
	struct backlog backlog; /* runs are not in the queue: they wait longer */
	ARRAY(pid_t) tids; /* targets when not system-wide; only without BPF */
	struct map members; /* pids of the targets and what they created; not used system-wide */
	ARRAY(int) cpus;
	ARRAY(int) watched; /* pidfds of attached processes that still run */
	int signals; /* signalfd */
	int epoll;
	uint64_t started;
	uint64_t counts_next; /* when to drain the counts again */
	uint64_t deadline; /* 0: none */
	uint64_t events_lost; /* process events that the kernel dropped */
	uint64_t unread; /* samples that the kernel has seen and that never arrived; known at the end */
	uint64_t runs_unread; /* likewise */
	uint64_t user_seen; /* samples seen without BPF */
	uint64_t user_lost[LOSS_COUNT];
	bool stopping; /* asked to; the command may still be ending */
	bool done;
	int exit_code;
};

/* --- collector_start.c ------------------------------------------------------------------------------ */

/* Opens everything; nothing is sampled yet. */
int collector_open(struct collector *collector);
/* Begins to sample, and lets the command run. */
int collector_start(struct collector *collector);
/* Otherwise the command is only the measure of time. */
bool collector_command_is_target(const struct collector *collector);

/* --- collector_intake.c ----------------------------------------------------------------------------- */

/* For sampler_open(). */
struct sampler_handlers collector_handlers(struct collector *collector);
/* ctx is the collector: for sources of events. */
int collector_event(void *ctx, const struct event *event);
/* Takes in everything that is there. */
int collector_round(struct collector *collector);

/* --- collector_totals.c ----------------------------------------------------------------------------- */

void collector_tally(const struct collector *collector, struct sample_tally *ret);
uint64_t collector_lost(const struct sample_tally *tally);
void collector_run_tally(const struct collector *collector, struct run_tally *ret);
/* Writes the totals and commits. */
int collector_totals_store(struct collector *collector);
/* Writes the values that changed, if values are taken. */
int collector_values_store(struct collector *collector);
void collector_progress_show(const struct collector *collector);
void collector_progress_end(const struct collector *collector);

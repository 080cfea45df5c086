/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sink of values: runs that the kernel has interpreted in, hotlists per site out. Runs wait in
 * a backlog until they are worth replaying (backlog.h); what they gave is written every few
 * seconds, because that takes a look at all sites.
 */
#pragma once

#include "recorder/backlog.h"
#include "recorder/recorder.h"
#include "recorder/translations.h"
#include "recorder/values.h"

struct values_sink;

struct values_sink_options {
	struct site_table_options sites;
	size_t backlog_bytes; /* with as many waiting, no more are asked for */
	/* runs of other users' processes are withheld, also if we have started them */
	bool own_only;
	bool no_kernel; /* so are those of the kernel */
};

/* The recorder, and translations, must outlive it. */
int values_sink_create(const struct values_sink_options *options, struct recorder *recorder,
		       struct translations *translations, struct values_sink **ret);
void values_sink_destroy(struct values_sink *sink);

/* A run that the kernel has sent; it is copied. */
void values_sink_run(struct values_sink *sink, const struct run_record *run);
/* What the source has seen and lost by now. */
void values_sink_tally_set(struct values_sink *sink, const struct run_tally *tally);
/* The names of addresses, for the source that knows when mappings change. */
/* CPU time that replaying and writing took, and the runs that it was for. */
void values_sink_use(const struct values_sink *sink, uint64_t *ret_ns, uint64_t *ret_runs);
/* How many runs reached their length, and how many ended for want of a translation. */
void values_sink_ends(const struct values_sink *sink, uint64_t *ret_whole, uint64_t *ret_missing);
struct pointers *values_sink_pointers(struct values_sink *sink);

/* The recorder's side; it destroys the sink, too. */
struct sink values_sink_interface(struct values_sink *sink);

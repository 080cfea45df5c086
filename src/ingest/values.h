/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values of the profile: runs in, hotlists per site (ingest/site_table.h) out.
 */
#pragma once

#include "base/cleanup.h"
#include "ingest/blocks.h"
#include "ingest/loadmap.h"
#include "ingest/locations.h"
#include "ingest/pointers.h"
#include "ingest/site_table.h"
#include "store/store.h"
#include "wire/run.h"

struct values_options {
	struct site_table_options sites;
	struct pointers *pointers; /* for values_name(); NULL: no names */
};

struct values;

int values_create(const struct values_options *options, struct store *store,
		  struct loadmap *loadmap, struct locations *locations, struct blocks *blocks,
		  struct values **ret);
void values_destroy(struct values *values);
DEFINE_AUTO(struct values, values_destroy)

int values_run(struct values *values, const struct run_record *run);
/* Tells the processor that the run comes next. */
void values_expect(const struct values *values, const struct run_record *run);
/* Writes what changed since the last time, and the totals; tally: the kernel's, without UNREAD. */
int values_flush(struct values *values, const struct run_tally *tally);
/* Names the frequent values that are addresses; before locations are symbolised. */
int values_name(struct values *values);
/* Runs that were given, and those whose values were kept: the others disagreed. */
uint64_t values_read(const struct values *values);
uint64_t values_kept(const struct values *values);

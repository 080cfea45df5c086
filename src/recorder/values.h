/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values of the profile: runs in, hotlists per site (recorder/site_table.h) out.
 */
#pragma once

#include "base/cleanup.h"
#include "recorder/translations.h"
#include "image/loadmap.h"
#include "recorder/locations.h"
#include "recorder/pointers.h"
#include "recorder/sink.h"
#include "recorder/site_table.h"
#include "store/store.h"
#include "wire/run.h"

struct values_options {
	struct site_table_options sites;
	struct pointers *pointers; /* for values_name(); NULL: no names */
};

struct values;

int values_create(const struct values_options *options, struct store *store,
		  struct loadmap *loadmap, struct locations *locations,
		  struct translations *translations, struct values **ret);
void values_destroy(struct values *values);
DEFINE_AUTO(struct values, values_destroy)

/* Runs that ended in that way; UOP_END_NONE: at their length. */
uint64_t values_ended(const struct values *values, enum uop_end end);
uint64_t values_replayed(const struct values *values);
int values_run(struct values *values, const struct run_record *run);
/* Tells the processor that the run comes next. */
void values_expect(const struct values *values, const struct run_record *run);
/* Writes what changed since the last time, and what was counted; tally: the kernel's. */
int values_flush(struct values *values, const struct run_tally *tally);
/* Runs that were kept, and those that were lost, in the kernel or here. */
void values_totals(const struct values *values, const struct run_tally *tally,
		   struct sink_totals *ret);
/* Names the frequent values that are addresses; before locations are symbolised. */
int values_name(struct values *values);

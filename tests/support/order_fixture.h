/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: the order of execution of a small program, recorded by paths/flow.h as a profile would
 * have it. Its segments are a block each; blocks 1 and 2 are of main, block 3 is help.
 *
 * Paths of what order_recording_make() records: (1) nine times, (1 2 3), (2 3) three times and
 * (2 3 1); of the other thread (2 3) twice.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyse/views.h"
#include "base/array.h"
#include "paths/cyclepack.h"
#include "paths/flow.h"
#include "store/profile.h"
#include "support/profile_fixture_trace.h"

#define ORDER_FORMAT "6" /* FLOW_FORMAT */

/* Sequences that tests make: of these blocks, which repeat from so many on. */
enum { ORDER_BLOCKS = 3, ORDER_AGAIN = 500, ORDER_SEED = 12345 };

/* Of the recording: the format, then the tool. */
extern struct profile_fact order_facts[2];

/* What a profile would have. */
struct order_recording {
	ARRAY(struct profile_flow) flows;
	ARRAY(struct profile_path_table) path_tables;
	ARRAY(struct profile_cycle_table) cycle_tables;
	struct cyclepack pack;
	ARRAY(struct flow_cycle) cycles; /* without their symbols */
	ARRAY(void *) owned;
	struct profile profile;
};

/* An empty recording, into which threads are recorded. */
struct flow_space *order_space_make(struct order_recording *recording);
void order_thread_record(struct flow_space *space, uint32_t thread, const uint32_t *order,
			 size_t count);
/* Of type flow_space_options.cycle: adds a cycle to the recording. */
int order_cycle_take(void *recording, const struct flow_cycle *cycle);
/* Of type flow_space_options.definitions: adds paths to the recording. */
int order_definitions_take(void *recording, const struct sequence_definitions *row);
/* No more cycles come; their tables are in the order of a profile. */
void order_recording_end(struct order_recording *recording);
/* The recording of the small program, complete. */
void order_recording_make(struct order_recording *recording);
const struct profile *order_recording_profile(struct order_recording *recording);
void order_recording_free(struct order_recording *recording);

struct table *order_view(const struct profile *profile, const char *name,
			 const struct view_request *request);
/* The number, or the text, in that row and column of a table. */
uint64_t order_number(const struct table *table, size_t row, const char *column);
const char *order_text(const struct table *table, size_t row, const char *column);

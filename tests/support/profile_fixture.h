/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles made in memory, for tests of what reads profiles. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "store/profile.h"

struct fixture {
	struct profile profile; /* valid after fixture_finish() */
	ARRAY(struct profile_module) modules;
	ARRAY(struct profile_process) processes;
	ARRAY(struct profile_thread) threads;
	ARRAY(struct profile_symbol) symbols;
	ARRAY(struct profile_file) files;
	ARRAY(struct profile_frame) frames;
	ARRAY(struct profile_location) locations;
	ARRAY(struct profile_stack) stacks;
	ARRAY(struct profile_sample) samples;
	ARRAY(struct profile_recording)
	recordings; /* samples first, then values if there are any */
	ARRAY(struct profile_named_count) losses;
	ARRAY(struct profile_loss) loss_rows;
	ARRAY(struct profile_stack_end) stack_ends;
	ARRAY(struct profile_fact) facts;
	ARRAY(struct profile_metric) metrics;
	ARRAY(struct profile_value_item) value_items;
	ARRAY(struct profile_value) values;
	ARRAY(struct profile_run_end) run_ends;
	ARRAY(struct profile_run_place) run_places;
	ARRAY(struct profile_named_count) run_losses;
	ARRAY(struct profile_value_name) value_names;
	ARRAY(struct profile_parameter) parameters;
	ARRAY(char *) owned;
};

void fixture_init(struct fixture *fixture);
void fixture_deinit(struct fixture *fixture);

/* Each gives the row's id. Strings are not copied. */
uint32_t fixture_module(struct fixture *fixture, enum module_kind kind, const char *path,
			const char *build_id);
uint32_t fixture_process(struct fixture *fixture, uint32_t pid, int64_t uid, const char *comm);
uint32_t fixture_thread(struct fixture *fixture, uint32_t process, uint32_t tid, const char *comm);
uint32_t fixture_symbol(struct fixture *fixture, uint32_t module, const char *name,
			uint64_t address, uint64_t size);
uint32_t fixture_inlined(struct fixture *fixture, uint32_t module, const char *name);
uint32_t fixture_file(struct fixture *fixture, const char *path);
uint32_t fixture_location(struct fixture *fixture, uint32_t module, uint64_t address);
/* Adds the next outer frame to the newest location. */
void fixture_frame(struct fixture *fixture, uint32_t symbol, uint32_t file, uint32_t line);
uint32_t fixture_stack(struct fixture *fixture, uint32_t parent, uint32_t location);
void fixture_sample(struct fixture *fixture, uint32_t thread, uint32_t stack, uint64_t count,
		    uint64_t kernel);
void fixture_loss(struct fixture *fixture, const char *reason, const char *text, uint64_t count);
/* The recording of values begins with the first call that is about it. */
void fixture_fact(struct fixture *fixture, enum recording_kind kind, const char *key,
		  const char *value);
void fixture_metric(struct fixture *fixture, enum recording_kind kind, const char *metric,
		    uint64_t total);
struct profile_recording *fixture_recording(struct fixture *fixture, enum recording_kind kind);
uint32_t fixture_item(struct fixture *fixture, const char *text, const char *class, unsigned words);
/* The bytes are copied. */
void fixture_value(struct fixture *fixture, const struct profile_value *row, const void *list,
		   size_t size);
/* Sums up the totals and sorts values; the profile must not grow any more. */
const struct profile *fixture_finish(struct fixture *fixture);

/*
 * A small program whose numbers can be checked by hand: main calls fib, which recurses, parse,
 * which has clamp inlined, and libc without symbols; one thread of another user in the kernel; one
 * stack cut off; losses.
 */
const struct profile *fixture_demo(struct fixture *fixture);

/*
 * The demonstration with values in poly, which main calls from two places, in parse and in the
 * kernel. Every list is exact; the table at its head in the source says what is in it.
 */
const struct profile *fixture_values(struct fixture *fixture);
/* The same with lists that cannot be read, or do not fit their item or their neighbours. */
const struct profile *fixture_corrupt(struct fixture *fixture);
/* The code of poly. */
enum { FIXTURE_POLY_SIZE = 42 };
extern const uint8_t fixture_poly[FIXTURE_POLY_SIZE];

struct fixture_size {
	uint32_t modules, symbols, locations, stacks, samples, threads;
};
/* Random but repeatable. Few symbols on deep stacks make recursion of all kinds. */
const struct profile *fixture_random(struct fixture *fixture, uint64_t seed,
				     const struct fixture_size *size);

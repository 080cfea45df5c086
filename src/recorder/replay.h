/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executes a run again that the kernel has executed, from its log, and tells what was known at each
 * instruction. docs/design/values.md.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "recorder/translations.h"
#include "values/selection.h"
#include "wire/run.h"

/* Sources that differ from instruction to instruction come first in selection_source. */
enum { REPLAY_SOURCES = SELECTION_ARG5 + 1 };

/* A place in a run. */
struct replay_place {
	enum selection_class class; /* INSTRUCTION, ENTRY; RUN: where capturing began */
	struct translation *translation; /* of the block */
	uint32_t number; /* of the instruction in it */
	uint32_t at; /* of the instruction, from the block's address on */
	uint64_t pc; /* at run time */
	uint64_t caller; /* return address of the function; 0 not known */
};

struct replay_end {
	enum uop_end end;
	unsigned mnemonic; /* of the instruction that could not be interpreted; 0 none */
	uint64_t pc; /* at run time: of that instruction, or of the code that was to come next */
	uint32_t unread[RUN_UNREAD_COUNT]; /* loads that gave no value */
};

struct replay;

/*
 * needs: the sources that the callback looks at, as a mask. Others may be missing from the facts.
 */
void replay_create(struct translations *translations, uint64_t needs, struct replay **ret);
void replay_destroy(struct replay *replay);
DEFINE_AUTO(struct replay, replay_destroy)

/*
 * facts has everything that is known there, the run's context included; the callback may add to it.
 */
typedef int replay_fn(void *ctx, const struct replay_place *place, struct selection_facts *facts);

/* Tells the processor that the run will be replayed soon. */
void replay_expect(const struct replay *replay, const struct run_record *run);

/*
 * Calls fn for each captured place, in order. -EBADMSG, and no call: the log does not lead to the
 * state that the kernel reached.
 */
int replay_run(struct replay *replay, const struct run_record *run, replay_fn *fn, void *ctx,
	       struct replay_end *ret);

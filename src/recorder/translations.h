/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Supplies the kernel's interpreter with translations, and keeps them for the replay of runs.
 *
 * A request comes with the code as it is in memory. Blocks that can follow are translated too, from
 * the same bytes, from the module's file or from the kernel's memory, so that a run seldom has to
 * wait for the next round.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/ids.h"
#include "capture/kernel/sampler.h"
#include "image/loadmap.h"
#include "isa/operands.h"

enum { NOTE_SITES = 7 };

/* What the user of a translation remembers of an instruction; 0 for what is not known. */
struct translation_note {
	uint32_t location;
	uint32_t sites[NOTE_SITES];
};

struct translation {
	struct block_key key;
	uint32_t serial;
	struct translation
		*follower; /* what was run next the last time; NULL: not known. The user's. */
	struct translation_note
		*notes; /* of the instructions, by their number; NULL until asked for */
	struct operands *operands; /* of the instructions, likewise; the replay's */
	/* a call goes to its first instruction, in translated code or in a run */
	bool called;
	struct uop_block block; /* uops[] has only as many as count says */
};

struct translations;

void translations_create(struct sampler *sampler, struct loadmap *loadmap,
			 struct translations **ret);
void translations_destroy(struct translations *translations);
DEFINE_AUTO(struct translations, translations_destroy)

int translations_want(struct translations *translations, const struct run_wanted *wanted);
/*
 * Code on a stack that was sampled: runs begin there, and functions return to it. Translated before
 * it is asked for, as far as the time for that goes.
 */
int translations_ahead(struct translations *translations, const struct sample_stack *stack);
/*
 * Says that all runs that were sent before the last such call have been replayed: translations that
 * were dropped from the kernel's maps by then are no longer needed.
 */
void translations_settle(struct translations *translations);
/* NULL: there is none, or it was dropped long ago. */
struct translation *translations_get(const struct translations *translations, uint32_t serial);
/* Note number `number` of the translation. */
struct translation_note *translations_note(struct translation *translation, uint32_t number);

/* The number of a module with a file in keys of blocks, and back. */
uint32_t translations_module_number(struct module_id module);
struct module_id translations_module_id(uint32_t number); /* 0: not one with a file */

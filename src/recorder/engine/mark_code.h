/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How often marked code was executed, for annotated code: spans of marked instructions and
 * executions of the blocks that they are in, in; rows of `mark_code`, out. Part of the sink of
 * marks.
 */
#pragma once

#include "base/map.h"
#include "recorder/recorder.h"
#include "wire/stream.h"

/* Neighbouring instructions of a block that a mark covers. */
struct mark_span {
	struct stream_mark mark;
	uint32_t next; /* of the same block, + 1; 0: none */
	struct module_id module;
	uint64_t block; /* address of the block in the module */
};

struct mark_code {
	struct recorder *recorder;
	struct map executed; /* a list of spans and the extent of a block to executions */
};

void mark_code_init(struct mark_code *code, struct recorder *recorder);
void mark_code_deinit(struct mark_code *code);
/* A block was executed that has the list of spans, which is not empty. */
void mark_code_count(struct mark_code *code, uint32_t list, const struct stream_block *block,
		     uint64_t times);
/* Writes what was counted since the last time, as the thread's. */
int mark_code_write(struct mark_code *code, const struct mark_span *spans, struct thread_id thread);

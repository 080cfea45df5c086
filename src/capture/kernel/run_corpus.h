/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: random instructions that can be interpreted, with registers that make their operands
 * lie in the bench's data.
 */
#pragma once

#include "capture/kernel/run_bench.h"

enum { CORPUS_BYTES_MAX = 15 };

struct run_corpus {
	uint64_t random;
	uint32_t used[UOP_OP_COUNT]; /* instructions that have the operation */
};

uint64_t corpus_random(struct run_corpus *corpus);
/* Values at the edges are where flags change. */
uint64_t corpus_value(struct run_corpus *corpus);
/*
 * Registers, flags, and which vector registers are known, into the bench's test; data where
 * operands will lie.
 */
void corpus_state(struct run_corpus *corpus, struct run_bench *bench);
/*
 * Writes an instruction to the bench's code at pc and solves for registers. Its length. With
 * straight, one that goes on at the next.
 */
unsigned corpus_instruction(struct run_corpus *corpus, struct run_bench *bench, uint64_t pc,
			    bool straight);

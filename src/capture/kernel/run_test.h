/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory that run_test.bpf.c and the bench around it share. */
#pragma once

#include "wire/run.h"
#include "wire/sampler_maps.h"

enum { RUN_TEST_WORDS = 512 };

/* A word of the overlay after the run. */
struct run_test_word {
	wire_u64 address;
	wire_u64 data;
	wire_u32 present; /* bit per byte */
	wire_u32 unknown; /* bit per byte */
};

struct run_test {
	/* By the bench. */
	struct sampler_process process;
	wire_u64 pc;
	wire_u64 rflags;
	wire_u64 regs[UOP_REGISTERS];
	wire_u8 unknown[UOP_REGISTERS];
	wire_u64 time; /* in the record */
	wire_u32 limit;
	wire_u32 skip;
	/* By the run. */
	struct uop_state state;
	wire_u32 first; /* of the block's micro-operations; see struct run */
	wire_u32 count;
	wire_u32 end;
	wire_u32 begun;
	wire_u32 sent; /* the record went into the ring */
	wire_u32 word_count;
	struct run_test_word words[RUN_TEST_WORDS];
};

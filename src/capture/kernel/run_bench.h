/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: code and data at fixed addresses of this process, executed once by the kernel's
 * interpreter and once by the host's, each by itself.
 *
 *	put code and data, set bench->test->regs
 *	run_bench_host(bench, ...)	translates, publishes, executes
 *	run_bench_kernel(bench)		bench->test and bench->record are what became of it
 *	run_bench_compare(bench, text)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/map.h"
#include "capture/kernel/block_table.h"
#include "capture/kernel/run_test.h"
#include "isa/uop_run.h"

#define BENCH_CODE 0x20000000ull
#define BENCH_DATA 0x21000000ull
#define BENCH_BIAS 0x1ffe1000ull /* of the code's module */

enum {
	BENCH_CODE_SIZE = 1 << 20,
	BENCH_DATA_SIZE = 1 << 16, /* then there is a page that cannot be read */
	BENCH_MODULE = RUN_MODULE_FIRST + 7,
	BENCH_UOPS = 1 << 18,
	BENCH_BLOCKS = 1 << 14, /* instructions; half of the slots */
	BENCH_TEXT_MAX = 256,
};

/* A translation as the kernel has it. */
struct bench_block {
	uint64_t pc; /* at run time */
	uint32_t first; /* in the uops map */
	struct uop_block block;
};

/* A word that the kernel should log. */
struct bench_event {
	uint64_t word;
	bool is_block; /* entered at pc word */
	bool missing;
};

struct run_bench {
	uint8_t *code, *data;
	struct run_test *test; /* shared with the kernel */
	struct uop_machine *machine;
	enum uop_end end; /* the host's */
	ARRAY(struct bench_block) blocks; /* serial - 1 */
	ARRAY(struct bench_event) events; /* in the present run, by the host */
	struct run_record *record; /* the last run's */
	struct run_wanted *wanted; /* the last request */
	unsigned wanted_count;
	/* Private. */
	struct run_test_bpf *skeleton;
	struct ring_buffer *ring;
	struct block_table table;
	struct map by_pc; /* to the serial of the newest translation */
};

/* flags: RUN_OVERWRITTEN or 0. 0 or a negative errno. */
int run_bench_create(unsigned flags, struct run_bench **ret);
void run_bench_destroy(struct run_bench *bench);

/* Forgets all translations. */
void run_bench_clear(struct run_bench *bench);
/* Translates the code at pc for the kernel, from each of its instructions on if so wanted. */
void run_bench_publish(struct run_bench *bench, uint64_t pc, bool suffixes);
/*
 * From test->pc, with test's registers and limit: executes in the host, and publishes the blocks on
 * the way.
 */
void run_bench_host(struct run_bench *bench);
void run_bench_kernel(struct run_bench *bench);

/* Where the kernel's run stands: the instruction that would be next, or that it could not do. */
uint64_t run_bench_pc(const struct run_bench *bench);
/*
 * Whether both executions have the same registers, flags, memory, place and end; otherwise text
 * says what differs.
 */
bool run_bench_compare(struct run_bench *bench, char text[BENCH_TEXT_MAX]);
/* The same of the logs; the bench was created without RUN_OVERWRITTEN. */
bool run_bench_compare_logs(const struct run_bench *bench, char text[BENCH_TEXT_MAX]);

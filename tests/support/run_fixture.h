/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: records of runs, made by the host's executor on a little code and data of their own.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "isa/uop_run.h"
#include "wire/run.h"

#define FIXTURE_CODE 0x401000ull
#define FIXTURE_BIAS 0x400000ull
#define FIXTURE_DATA 0x600000ull

enum { FIXTURE_CODE_SIZE = 1024, FIXTURE_DATA_SIZE = 4096 };

struct run_fixture {
	uint8_t code[FIXTURE_CODE_SIZE];
	uint64_t data[FIXTURE_DATA_SIZE / 8];
	struct run_record *record; /* with room for any log */
	/*
	 * The word that the kernel logs when it enters the block at pc, of whose code so many bytes
	 * follow.
	 */
	uint64_t (*enter)(void *ctx, uint64_t pc, const uint8_t *code, size_t size);
	void *ctx; /* of enter */
	/* Private. */
	uint64_t missing[RUN_LOG_MAX / 64];
	struct uop_machine *machine;
};

void run_fixture_init(struct run_fixture *fixture);
void run_fixture_deinit(struct run_fixture *fixture);

/* An empty record: a run from the start of the code, with a stack in the middle of the data. */
void run_fixture_begin(struct run_fixture *fixture);
/* Executes the record's pc and registers and completes the record as the kernel would. */
void run_fixture_execute(struct run_fixture *fixture, unsigned limit);

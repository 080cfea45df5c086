// SPDX-License-Identifier: BSD-2-Clause
#include "support/run_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { WORD = 8 };

static void log_add(struct run_fixture *fixture, uint64_t word, bool missing)
{
	struct run_record *record = fixture->record;
	unsigned at = record->log_count;

	if (at >= RUN_LOG_MAX)
		abort();
	record->log[at] = word;
	fixture->missing[at / 64] |= (uint64_t)missing << (at % 64);
	record->log_count++;
}

static size_t data_read(const struct run_fixture *fixture, uint64_t address, void *ret, size_t size)
{
	uint64_t offset = address - FIXTURE_DATA;

	if (offset >= FIXTURE_DATA_SIZE || FIXTURE_DATA_SIZE - offset < size)
		return 0;
	memcpy(ret, (const uint8_t *)fixture->data + offset, size);
	return size;
}

/* Data is asked for by words at most, code in larger pieces. */
static size_t fixture_read(void *context, uint64_t address, void *ret, size_t size)
{
	struct run_fixture *fixture = context;
	uint64_t offset = address - FIXTURE_CODE, word = 0;

	if (size <= WORD) {
		size = data_read(fixture, address, &word, size);
		memcpy(ret, &word, size);
		log_add(fixture, word, !size);
		return size;
	}
	if (offset >= FIXTURE_CODE_SIZE)
		return 0;
	if (size > FIXTURE_CODE_SIZE - offset)
		size = FIXTURE_CODE_SIZE - offset;
	memcpy(ret, fixture->code + offset, size);
	log_add(fixture, address, false);
	log_add(fixture, fixture->enter(fixture->ctx, address, fixture->code + offset, size),
		false);
	return size;
}

void run_fixture_init(struct run_fixture *fixture)
{
	memset(fixture, 0, sizeof(*fixture));
	memset(fixture->code, 0xcc, sizeof(fixture->code));
	fixture->record = mem_zalloc(RUN_RECORD_MAX);
	fixture->machine = uop_machine_create(fixture_read, fixture);
	run_fixture_begin(fixture);
}

void run_fixture_deinit(struct run_fixture *fixture)
{
	uop_machine_destroy(fixture->machine);
	free(fixture->record);
}

void run_fixture_begin(struct run_fixture *fixture)
{
	struct run_record *record = fixture->record;

	memset(record, 0, sizeof(*record));
	memset(fixture->missing, 0, sizeof(fixture->missing));
	record->record.kind = RECORD_RUN;
	record->pc = FIXTURE_CODE;
	record->rflags = 0x202;
	record->regs[UOP_RSP] = FIXTURE_DATA + FIXTURE_DATA_SIZE / 2;
}

/* What the stores of an instruction overwrote. */
static void stores_log(struct run_fixture *fixture)
{
	const struct uop_machine *machine = fixture->machine;

	for (size_t i = 0; i < machine->store_count; i++) {
		uint64_t before = 0;
		bool there = data_read(fixture, machine->stores[i].address, &before,
				       machine->stores[i].size) != 0;

		log_add(fixture, before, !there);
	}
}

static void machine_begin(struct run_fixture *fixture)
{
	struct run_record *record = fixture->record;
	struct uop_machine *machine = fixture->machine;

	machine->bias = FIXTURE_BIAS;
	uop_machine_start(machine, record->pc, record->rflags);
	memcpy(machine->state.regs, record->regs, sizeof(record->regs));
	machine->state.regs[UOP_FS_BASE] = record->fs_base;
	machine->state.regs[UOP_GS_BASE] = record->gs_base;
	for (unsigned i = 0; record->flags & RUN_SYSTEM && i < RUN_SYSTEM_COUNT; i++)
		log_add(fixture, 1000 + i, i >= RUN_SYSTEM_SYSCALL);
}

void run_fixture_execute(struct run_fixture *fixture, unsigned limit)
{
	struct run_record *record = fixture->record;
	struct uop_machine *machine = fixture->machine;
	struct uop_state state;
	uint64_t pc = record->pc; /* as the kernel has it: only blocks move it */
	enum uop_end end = UOP_END_NONE;

	machine_begin(fixture);
	while (end == UOP_END_NONE && machine->instructions < limit) {
		end = uop_machine_next(machine);
		if (end == UOP_END_NONE && record->flags & RUN_OVERWRITTEN)
			stores_log(fixture);
		if (!machine->block)
			pc = machine->state.pc;
	}
	state = machine->state;
	state.pc = pc;
	record->end = (uint8_t)end;
	record->instructions = (uint16_t)machine->instructions;
	record->state_hash = run_state_hash(&state);
	memcpy(record->log + record->log_count, fixture->missing,
	       RUN_MISSING_WORDS(record->log_count) * WORD);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any bytes as the record of a run, over a few fixed translations: it is told or refused, in
 * bounded time. The words of the log are as the input has them, but for a byte before each that
 * says whether it stands for a block.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "recorder/replay.h"
#include "isa/lift.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BLOCKS = 8, ADDRESS = 0x1000, STEP = 0x40 };

/* Each is at ADDRESS + STEP * its number. */
static const struct {
	const char *code;
	size_t size;
} codes[BLOCKS] = {
#define CODE(text)                                                                                 \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}
	CODE("\x48\x8b\x07\x48\x01\xc8\x89\x06\xeb\x36"), /* load, add, store, to the next */
	CODE("\x48\xff\xc9\x75\xbb"), /* dec rcx; jne to the first; else falls out */
	CODE("\xf3\x48\xa5\xf3\xaa\xf3\xa6\xeb\x37"), /* string instructions */
	CODE("\xe8\x3b\x00\x00\x00"), /* call the next but one */
	CODE("\xff\x25\x00\x10\x00\x00"), /* jmp [rip + 0x1000] */
	CODE("\x0f\x10\x07\x0f\x11\x46\x08\xc5\xfc\x11\x07\x8b\x07\xc3"), /* vectors; ret */
	CODE("\x48\xf7\xf1\x0f\xaf\xc2\x0f\xa4\xc2\x05\xf4"), /* div, imul, shld, hlt */
	CODE("\x50\x51\x52\x53\x54\x55\x56\x57\xff\xe0"), /* pushes; jmp rax */
#undef CODE
};

struct translations {
	struct translation all[BLOCKS];
};

struct translation *translations_get(const struct translations *blocks, uint32_t serial)
{
	return serial && serial <= BLOCKS ? (struct translation *)&blocks->all[serial - 1] : NULL;
}

static void blocks_fill(struct translations *blocks)
{
	for (uint32_t i = 0; i < BLOCKS; i++) {
		struct translation *translation = &blocks->all[i];

		translation->key = (struct block_key){ .address = ADDRESS + i * STEP,
						       .module = RUN_MODULE_FIRST };
		translation->serial = i + 1;
		lift_block(codes[i].code, codes[i].size, ADDRESS + i * STEP, &translation->block);
	}
}

static void must(bool ok)
{
	if (!ok)
		abort();
}

struct told {
	const struct run_record *run;
	size_t instructions;
};

static int on_place(void *ctx, const struct replay_place *place, struct selection_facts *facts)
{
	struct told *told = ctx;

	must(place->translation && place->at < UOP_CODE_MAX && place->number < UOP_BLOCK_MAX);
	must(place->class != SELECTION_CONTEXT && place->class < SELECTION_CLASS_COUNT);
	for (unsigned i = 0; i < SELECTION_SOURCE_COUNT; i++)
		if (facts->known >> i & 1)
			must(facts->widths[i] >= 1 && facts->widths[i] <= 64);
	told->instructions += place->class == SELECTION_INSTRUCTION;
	return 0;
}

/*
 * Where the log says that a block is entered, it says which: inputs would hardly ever guess both
 * words.
 */
static void log_fill(struct run_record *run, const uint8_t *data, size_t size)
{
	uint64_t pc = run->pc, missing[RUN_MISSING_WORDS(RUN_LOG_MAX)] = {};
	size_t at = 0;

	while (run->log_count + 2 <= RUN_LOG_MAX && at + 2 <= size) {
		uint8_t kind = data[at++];

		if (kind & 1) {
			uint64_t number = data[at++];

			run->log[run->log_count++] = kind & 2 ? ADDRESS + number % BLOCKS * STEP
							      : pc;
			run->log[run->log_count++] = number % (BLOCKS + 1) | (uint64_t)(kind >> 4)
										     << 32;
			continue;
		}
		missing[run->log_count / 64] |= (uint64_t)(kind >> 1 & 1) << (run->log_count % 64);
		memcpy(&run->log[run->log_count++], data + at, size - at < 8 ? size - at : 8);
		at += 8;
	}
	memcpy(run->log + run->log_count, missing, RUN_MISSING_WORDS(run->log_count) * 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct translations blocks;
	static struct replay *replay;
	struct run_record *run = mem_zalloc(RUN_RECORD_MAX);
	struct told told = { .run = run };
	struct replay_end end;
	size_t head = size < sizeof(*run) ? size : sizeof(*run);
	int err;

	if (!replay) {
		blocks_fill(&blocks);
		replay_create(&blocks, UINT64_MAX, &replay);
	}
	memcpy(run, data, head);
	/* What the reader of the ring has checked. */
	run->end %= UOP_END_COUNT;
	run->log_count = 0;
	log_fill(run, data + head, size - head);
	err = replay_run(replay, run, on_place, &told, &end);
	must(err == 0 || (err == -EBADMSG && !told.instructions));
	must(err || told.instructions <= run->instructions);
	free(run);
	return 0;
}

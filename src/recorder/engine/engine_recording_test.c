// SPDX-License-Identifier: BSD-2-Clause
// Serves: W2, W8.
/*
 * A fake engine "executes" functions of this test; the profile must say so: by function, line,
 * module, thread and process. What a line is, the compiler says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <Zydis/Zydis.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "store/profile.h"
#include "support/fake_engine.h"
#include "recorder/engine/raw.h"
#include "recorder/engine/engine_recording.h"
#include "recorder/recorder_thread.h"
#include "recorder/samples.h"

enum { TID = 4711 };

static char folder[] = "/tmp/assay-engine-recording-test-XXXXXX";
static char output[sizeof(folder) + 16], raw[sizeof(folder) + 16];

/* Straight-line code on several lines. */
static __attribute__((noinline)) unsigned mix(volatile unsigned *value)
{
	*value *= 3;
	*value += 5; /* the line below is */
	*value ^= 7; /* the last one that is "executed" */
	return *value;
}
enum { MIX_LINE = __LINE__ - 5 };

static __attribute__((noinline)) unsigned never(volatile unsigned *value)
{
	return *value / 3;
}
enum { NEVER_LINE = __LINE__ - 2 };

static int folder_make(void **state)
{
	volatile unsigned value = 1;

	if (!mkdtemp(folder))
		return -1;
	snprintf(output, sizeof(output), "%s/assay.db", folder);
	snprintf(raw, sizeof(raw), "%s/raw", folder);
	return mix(&value) + never(&value) == 0;
}

static int folder_remove(void **state)
{
	unlink(output);
	unlink(raw);
	return rmdir(folder);
}

/* The instructions of mix() without its return: a block. */
static struct stream_block mix_block(void)
{
	struct stream_block block = { .pc = (uint64_t)mix };
	ZydisDecoder decoder;
	ZydisDecodedInstruction instruction;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (;;) {
		assert_true(ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
			&decoder, NULL, (const void *)(block.pc + block.length), 15,
			&instruction)));
		if (instruction.mnemonic == ZYDIS_MNEMONIC_RET)
			return block;
		block.length += instruction.length;
		block.instructions++;
	}
}

/* The mapping of this program that holds the address, as its catalog would tell. */
static void own_module_tell(struct fake_engine *engine, uint32_t catalog, uint64_t address)
{
	AUTO(close_file) FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long start, end, offset;
	char path[512], line[1024];

	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %511s", &start, &end, &offset, path) ==
			    4 &&
		    address >= start && address < end)
			fake_module(engine, catalog, start, end, offset, path);
}

static uint32_t program_tell(struct fake_engine *engine, uint32_t *ret_thread)
{
	const struct stream_block block = mix_block();
	struct {
		struct stream_segments head;
		struct stream_block blocks[2];
	} segments = { { { sizeof(segments), STREAM_RECORD_SEGMENTS }, 1, 2 },
		       { block, { 0x7777000000, 3, 1 } } };
	uint32_t pid = (uint32_t)getpid(), catalog = fake_catalog_open(engine, pid);

	fake_process(engine, catalog, pid, catalog, 0);
	own_module_tell(engine, catalog, block.pc);
	fake_append(engine, catalog, &segments, sizeof(segments));
	*ret_thread = fake_thread_open(engine, catalog, pid, TID);
	return catalog;
}

static int recording_make(const struct engine_recording_options *options, struct recorder **ret,
			  struct engine_recording **ret_recording)
{
	char *const command[] = { "play", "it", NULL };
	const struct recorder_options how = {
		.output = output, .command = command, .commit_ms = 1000, .keep_modules = true
	};
	AUTO(recorder_destroy_auto) struct recorder *recorder = NULL;
	int err;

	unlink(output);
	assert_int_equal(recorder_create(&how, &recorder), 0);
	err = engine_recording_add(recorder, options, ret_recording);
	if (!err)
		*ret = take_ptr(recorder);
	return err;
}

static struct profile *recording_play(struct fake_engine *engine, enum engine_counters counters,
				      const char *tool, const char *raw_path,
				      void (*play)(struct fake_engine *, uint32_t thread))
{
	const struct engine_recording_options options = {
		.raw = raw_path,
		.lines = true,
		.tool = tool,
		.counters = counters,
		.shared = engine->memory,
		.shared_size = engine->size,
	};
	struct engine_recording *recording;
	struct recorder_thread *rounds;
	struct recorder *recorder;
	struct profile *profile;
	uint32_t thread;

	assert_int_equal(recording_make(&options, &recorder, &recording), 0);
	assert_int_equal(recorder_start(recorder), 0);
	assert_int_equal(recorder_thread_start(recorder, &rounds), 0);
	program_tell(engine, &thread);
	play(engine, thread);
	recorder_thread_stop(rounds);
	assert_int_equal(recorder_finish(recorder), 0);
	recorder_destroy(recorder);
	assert_int_equal(profile_load(output, DOMAIN_ALL & ~DOMAIN_PATHS, &profile), 0);
	assert_true(profile->finished);
	return profile;
}

/* Segment 1 three times, segment 2 twice, a segment that is not known once. */
static void play_sequence(struct fake_engine *engine, uint32_t thread)
{
	fake_segments(engine, thread, (uint32_t[]){ 1, 2, 1, 99, 1, 2 }, 6);
	fake_end(engine, thread);
}

static void play_counts(struct fake_engine *engine, uint32_t thread)
{
	uint64_t *counts = fake_counters(engine, thread);

	counts[1] = 3;
	counts[2] = 2;
}

static void play_marks(struct fake_engine *engine, uint32_t thread)
{
	uint8_t *marks = fake_counters(engine, thread);

	marks[1] = marks[2] = 1;
}

static const char *function_at(const struct profile *profile, uint32_t location)
{
	const struct profile_location *row = &profile->locations[location];

	return profile->symbols[profile->frames[row->first_frame].symbol].name;
}

static uint32_t block_find(const struct profile *profile, const char *function)
{
	for (uint32_t i = 1; i < profile->block_count; i++)
		if (!strcmp(function_at(profile, profile->blocks[i].location), function))
			return i;
	fail_msg("no block in %s", function);
	return 0;
}

static uint64_t executions(const struct profile *profile, uint32_t block)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < profile->execution_count; i++)
		sum += profile->executions[i].block == block ? profile->executions[i].count : 0;
	return sum;
}

/* -1: the line has no code. */
static int64_t line_count(const struct profile *profile, uint32_t line)
{
	for (size_t i = 0; i < profile->source_line_count; i++)
		if (profile->source_lines[i].line == line &&
		    strstr(profile->files[profile->source_lines[i].file].path,
			   "engine_recording_test.c"))
			return (int64_t)profile->source_lines[i].count;
	return -1;
}

/* The parts of the block are its lines, in order, and nothing is missing. */
static void parts_check(const struct profile *profile, uint32_t block)
{
	const struct profile_block *row = &profile->blocks[block];
	uint32_t instructions = 0, line = 0;

	assert_true(row->part_count >= 3);
	for (uint32_t i = 0; i < row->part_count; i++) {
		const struct profile_block_part *part = &profile->block_parts[row->first_part + i];
		const struct profile_location *at = &profile->locations[part->location];

		instructions += part->instructions;
		assert_string_equal(function_at(profile, part->location), "mix");
		assert_int_not_equal(profile->frames[at->first_frame].line, line);
		line = profile->frames[at->first_frame].line;
	}
	assert_int_equal(instructions, row->instructions);
	assert_int_equal(instructions, mix_block().instructions);
}

static void test_a_sequence_is_counted(void **state)
{
	struct fake_engine engine;
	struct profile *p;
	uint32_t mixed, unknown;

	fake_engine_init(&engine, 0);
	p = recording_play(&engine, COUNTERS_NONE, "blocks", raw, play_sequence);
	mixed = block_find(p, "mix");
	unknown = block_find(p, "[unknown]");
	assert_int_equal(p->block_count, 3);
	assert_int_equal(executions(p, mixed), 5); /* segment 2 begins with it */
	assert_int_equal(executions(p, unknown), 2);
	assert_int_equal(p->thread_segments_count, 1);
	assert_int_equal(p->thread_segments[0].segments, 5);
	assert_int_equal(p->thread_segments[0].lost, 1);
	assert_int_equal(p->threads[p->thread_segments[0].thread].tid, TID);
	assert_int_equal(p->processes[p->threads[p->thread_segments[0].thread].process].pid,
			 getpid());
	assert_int_equal(p->seen, 6);
	assert_int_equal(p->kept, 5);
	assert_string_equal(p->losses[0].name, "unknown_segment");
	assert_string_equal(profile_meta(p, "command"), "play it");
	parts_check(p, mixed);
	profile_destroy(p);
	fake_engine_deinit(&engine);
}

static void test_counters_give_the_same(void **state)
{
	struct fake_engine engine;
	struct profile *p;

	fake_engine_init(&engine, sizeof(uint64_t));
	p = recording_play(&engine, COUNTERS_COUNTS, "count", NULL, play_counts);
	assert_int_equal(executions(p, block_find(p, "mix")), 5);
	assert_int_equal(executions(p, block_find(p, "[unknown]")), 2);
	assert_int_equal(p->kept, 5);
	assert_int_equal(p->seen, 5);
	for (uint32_t line = MIX_LINE; line < MIX_LINE + 3; line++)
		assert_int_equal(line_count(p, line), 5);
	assert_int_equal(line_count(p, NEVER_LINE), 0);
	profile_destroy(p);
	fake_engine_deinit(&engine);
}

static void test_marks_count_once(void **state)
{
	struct fake_engine engine;
	struct profile *p;

	fake_engine_init(&engine, 1);
	p = recording_play(&engine, COUNTERS_MARKS, "coverage", NULL, play_marks);
	assert_int_equal(executions(p, block_find(p, "mix")), 1);
	assert_int_equal(line_count(p, MIX_LINE + 1), 1);
	assert_int_equal(line_count(p, NEVER_LINE), 0);
	profile_destroy(p);
	fake_engine_deinit(&engine);
}

/* What the first test has left: its segments, all of them known, after what explains them. */
static void test_raw_file(void **state)
{
	AUTO(close_file) FILE *file = fopen(raw, "re");
	const uint32_t expected[] = { 1, 2, 1, 1, 2 };
	struct raw_frame frame;
	uint32_t segments[8], count = 0;
	bool explained = false;
	char magic[8];

	assert_non_null(file);
	assert_int_equal(fread(magic, sizeof(magic), 1, file), 1);
	assert_memory_equal(magic, "assayraw", sizeof(magic));
	while (fread(&frame, sizeof(frame), 1, file)) {
		char bytes[STREAM_RECORD_MAX];

		assert_in_range(frame.size, 0, sizeof(bytes));
		assert_true(!frame.size || fread(bytes, frame.size, 1, file));
		explained |= frame.kind == RAW_RECORD &&
			     ((struct stream_record *)bytes)->type == STREAM_RECORD_SEGMENTS;
		if (frame.kind != RAW_SEGMENTS)
			continue;
		assert_true(explained);
		assert_true(count + frame.size / 4 <= 8);
		memcpy(segments + count, bytes, frame.size);
		count += (uint32_t)frame.size / 4;
	}
	assert_int_equal(count, 5);
	assert_memory_equal(segments, expected, sizeof(expected));
}

static uint64_t executions_at(const struct profile *profile, uint64_t address)
{
	for (uint32_t i = 1; i < profile->block_count; i++)
		if (profile->locations[profile->blocks[i].location].address == address)
			return executions(profile, i);
	return 0;
}

/*
 * Segments that a signal cut short: what was executed of their last block is a block of its own,
 * but for the last block of segment 4, which ended before its first instruction.
 */
static void test_paths_of_segments_cut_short(void **state)
{
	const struct paths_options paths = {};
	struct engine_recording_options options = { .tool = "paths", .paths = &paths };
	struct engine_recording *recording;
	struct fake_engine engine;
	struct recorder *recorder;
	struct profile *p;
	uint32_t catalog, thread;

	fake_engine_init(&engine, 0);
	options.shared = engine.memory;
	options.shared_size = engine.size;
	assert_int_equal(recording_make(&options, &recorder, &recording), 0);
	catalog = program_tell(&engine, &thread);
	fake_partial(&engine, catalog, 3, 1, 1, (struct stream_block){ 0x7777000100, 2, 1 });
	fake_partial(&engine, catalog, 4, 1, 2, (struct stream_block){ 0x7777000200, 0, 0 });
	fake_partial(&engine, catalog, 5, 1, 0, (struct stream_block){ 0x7777000300, 2, 1 });
	fake_segments(&engine, thread, (uint32_t[]){ 1, 2, 3, 4, 5, 3 }, 6);
	fake_end(&engine, thread);
	assert_int_equal(recorder_start(recorder), 0);
	assert_int_equal(recorder_finish(recorder), 0);
	recorder_destroy(recorder);
	assert_int_equal(profile_load(output, DOMAIN_ALL, &p), 0);
	assert_int_equal(executions(p, block_find(p, "mix")), 5);
	assert_int_equal(executions_at(p, 0x7777000000), 2);
	assert_int_equal(executions_at(p, 0x7777000100), 2);
	assert_int_equal(executions_at(p, 0x7777000200), 0);
	assert_int_equal(executions_at(p, 0x7777000300), 1);
	assert_int_equal(p->flow_count, 1);
	assert_int_equal(p->flows[0].blocks, 10);
	profile_destroy(p);
	fake_engine_deinit(&engine);
}

/* A sample of this process in mix(), in the form in which perf's rings bring it. */
static int sample_events(void *ctx)
{
	const struct event event = {
		.kind = EVENT_SAMPLE,
		.pid = (uint32_t)getpid(),
		.tid = (uint32_t)getpid(),
		.time = clock_monotonic(),
		.sample.registers.ip = (uint64_t)mix,
	};

	return samples_event(ctx, &event);
}

/*
 * Samples and executed code stand side by side in one profile, and share processes and locations.
 */
static void test_two_recordings(void **state)
{
	struct fake_engine engine;
	struct engine_recording *recording;
	struct engine_recording_options options = { .tool = "blocks" };
	struct recorder *recorder;
	struct samples *samples;
	struct source source = { .fd = -1, .paced = true, .events = sample_events };
	struct sink sink;
	struct profile *p;
	uint32_t thread;

	fake_engine_init(&engine, 0);
	options.shared = engine.memory;
	options.shared_size = engine.size;
	assert_int_equal(recording_make(&options, &recorder, &recording), 0);
	samples_create(recorder_store(recorder), recorder_loadmap(recorder),
		       recorder_locations(recorder), recorder_created(recorder), 16, &samples);
	sink = samples_sink(samples);
	recorder_sink_add(recorder, &sink);
	source.ctx = samples;
	recorder_source_add(recorder, &source);
	program_tell(&engine, &thread);
	play_sequence(&engine, thread);
	assert_int_equal(recorder_start(recorder), 0); /* a visit, and with it a sample */
	assert_int_equal(recorder_finish(recorder), 0); /* three more */
	recorder_destroy(recorder);
	assert_int_equal(profile_load(output, DOMAIN_ALL & ~DOMAIN_PATHS, &p), 0);
	assert_int_equal(profile_recording(p, RECORDING_SAMPLES)->kept, 4);
	assert_int_equal(profile_recording(p, RECORDING_SAMPLES)->seen, 4);
	assert_int_equal(profile_recording(p, RECORDING_EXECUTED)->kept, 5);
	assert_int_equal(profile_recording(p, RECORDING_EXECUTED)->seen, 6);
	assert_int_equal(executions(p, block_find(p, "mix")), 5);
	/* The sample lies where the block begins: it is one location. */
	assert_int_equal(p->stacks[p->samples[0].stack].location,
			 p->blocks[block_find(p, "mix")].location);
	profile_destroy(p);
	fake_engine_deinit(&engine);
}

/* A command that could not be run leaves no profile. */
static void test_nothing_is_left(void **state)
{
	struct fake_engine engine;
	struct engine_recording *recording;
	struct recorder *recorder;
	struct engine_recording_options options = { .tool = "count" };

	fake_engine_init(&engine, 0);
	options.shared = engine.memory;
	options.shared_size = engine.size;
	assert_int_equal(recording_make(&options, &recorder, &recording), 0);
	assert_int_equal(access(output, F_OK), 0);
	recorder_destroy(recorder);
	assert_int_not_equal(access(output, F_OK), 0);
	options.raw = "/nonexistent/raw";
	assert_int_not_equal(recording_make(&options, &recorder, &recording), 0);
	assert_non_null(strstr(err_text(), "/nonexistent/raw"));
	assert_int_not_equal(access(output, F_OK), 0);
	fake_engine_deinit(&engine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_sequence_is_counted),
		cmocka_unit_test(test_raw_file),
		cmocka_unit_test(test_counters_give_the_same),
		cmocka_unit_test(test_marks_count_once),
		cmocka_unit_test(test_paths_of_segments_cut_short),
		cmocka_unit_test(test_two_recordings),
		cmocka_unit_test(test_nothing_is_left),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}

// SPDX-License-Identifier: BSD-2-Clause
/* For tests: a fake engine, and a source that reads what it writes (engine_bench.h). */
#include "support/engine_bench.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/map.h"

static void on_process(void *ctx, struct engine_process *process)
{
	struct engine_heard *heard = ctx;

	heard->processes++;
	heard->parent = process->parent;
	heard->replaces = process->replaces;
}

static void on_record(void *ctx, struct engine_process *process, const struct stream_record *record,
		      uint32_t first)
{
	((struct engine_heard *)ctx)->records++;
}

static void on_thread(void *ctx, struct engine_thread *thread)
{
	struct engine_heard *heard = ctx;

	assert_non_null(thread->process->segments);
	heard->threads++;
	heard->tid = thread->tid;
}

static uint64_t instructions_of(const struct segment_table *segments, uint32_t number)
{
	const struct segment *segment = NULL;
	const struct segment_table *table = segment_table_find(segments, number, &segment);
	uint64_t total = 0;

	assert_non_null(table);
	for (uint32_t i = 0; i <= segment->whole; i++)
		total += table->blocks.items[segment_block(segment, i)].instructions;
	return total;
}

static void on_segments(void *ctx, struct engine_thread *thread, const uint32_t *segments,
			size_t count)
{
	struct engine_heard *heard = ctx;

	for (size_t i = 0; i < count; i++) {
		if (heard->keep) {
			*array_push(&heard->segments) = segments[i];
			heard->instructions +=
				instructions_of(thread->process->segments, segments[i]);
		}
		heard->sum += hash64_pair(heard->count++, segments[i]);
	}
}

static void on_counts(void *ctx, struct engine_thread *thread, uint32_t first,
		      const uint64_t *counts, size_t count)
{
	struct engine_heard *heard = ctx;

	for (size_t i = 0; i < count && first + i < ENGINE_BENCH_SEGMENTS; i++)
		heard->counts[first + i] += counts[i];
}

static void on_counter(void *ctx, struct engine_thread *thread, size_t record, uint64_t value)
{
	((struct engine_heard *)ctx)->counter_sum += value * (record + 1);
}

static void on_thread_end(void *ctx, struct engine_thread *thread)
{
	((struct engine_heard *)ctx)->threads_ended++;
}

/* Once, and before the end. */
static void on_process_over(void *ctx, struct engine_process *process)
{
	assert_null(process->user);
	process->user = ctx;
	((struct engine_heard *)ctx)->processes_over++;
}

static void on_process_end(void *ctx, struct engine_process *process)
{
	((struct engine_heard *)ctx)->processes_ended++;
}

void engine_bench_make(struct engine_bench *bench, unsigned counter_bytes,
		       enum engine_counters counters)
{
	*bench = (struct engine_bench){ .heard.keep = true };
	bench->sink = (struct engine_sink){
		.process_begin = on_process,
		.record = on_record,
		.thread_begin = on_thread,
		.segments = on_segments,
		.counts = on_counts,
		.counter = on_counter,
		.thread_end = on_thread_end,
		.process_over = on_process_over,
		.process_end = on_process_end,
		.ctx = &bench->heard,
	};
	fake_engine_init(&bench->engine, counter_bytes);
	assert_int_equal(engine_source_create(bench->engine.memory, bench->engine.size, counters,
					      &bench->source),
			 0);
	engine_source_sink_add(bench->source, &bench->sink);
}

int engine_bench_setup(void **state)
{
	struct engine_bench *bench = malloc(sizeof(*bench));

	engine_bench_make(bench, 0, COUNTERS_NONE);
	*state = bench;
	return 0;
}

int engine_bench_teardown(void **state)
{
	struct engine_bench *bench = *state;

	engine_source_destroy(bench->source);
	fake_engine_deinit(&bench->engine);
	array_deinit(&bench->heard.segments);
	free(bench);
	return 0;
}

uint32_t engine_bench_program(struct engine_bench *bench, uint32_t pid, uint32_t *ret_thread)
{
	uint32_t catalog = fake_catalog_open(&bench->engine, pid);

	fake_process(&bench->engine, catalog, pid, catalog, 0);
	fake_fragment(&bench->engine, catalog, 1, 8, 0x1000);
	*ret_thread = fake_thread_open(&bench->engine, catalog, pid, pid + 1);
	return catalog;
}

void engine_bench_settle(struct engine_bench *bench)
{
	for (int i = 0; i < 6; i++) {
		while (engine_source_sweep(bench->source))
			;
		usleep(21000); /* deaths are looked for now and then */
	}
}

// SPDX-License-Identifier: BSD-2-Clause
#include "support/profile_fixture_trace.h"

static struct profile_module modules[] = { {},
					   { .path = "/bin/p", .name = "p", .build_id = "" },
					   { .path = "/lib/l", .name = "l", .build_id = "" } };
static struct profile_process processes[] = {
	{ .comm = "" }, { .pid = 10, .uid = 0, .comm = "p", .exe = "/bin/p", .cgroup = "" }
};
static struct profile_thread threads[] = { { .comm = "" },
					   { .process = 1, .tid = 10, .comm = "first" },
					   { .process = 1, .tid = 11, .comm = "second" } };

struct profile fixture_trace(const struct fixture_code *code, struct fixture_trace *trace)
{
	struct profile_recording *recording = &trace->recordings[1];

	recording->id = 1;
	recording->kind = RECORDING_EXECUTED;
	recording->unit = "segments";
	recording->parts = 1;
	return (struct profile){
		.modules = modules,
		.module_count = FIXTURE_COUNT(modules),
		.processes = processes,
		.process_count = FIXTURE_COUNT(processes),
		.threads = threads,
		.thread_count = FIXTURE_COUNT(threads),
		.symbols = code->symbols,
		.symbol_count = code->symbol_count,
		.files = code->files,
		.file_count = code->file_count,
		.frames = code->frames,
		.frame_count = code->frame_count,
		.locations = code->locations,
		.location_count = code->location_count,
		.blocks = code->blocks,
		.block_count = code->block_count,
		.block_parts = code->parts,
		.block_part_count = code->part_count,
		.recordings = trace->recordings,
		.recording_count = FIXTURE_COUNT(trace->recordings),
		.facts = trace->facts,
		.fact_count = trace->fact_count,
		.seen = recording->seen,
		.kept = recording->kept,
		.losses = recording->losses,
		.loss_count = recording->loss_count,
	};
}

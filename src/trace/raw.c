// SPDX-License-Identifier: BSD-2-Clause
#include "trace/raw.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"

struct raw {
	FILE *file;
	char *path;
};

static const char magic[8] = { 'a', 's', 's', 'a', 'y', 'r', 'a', 'w' };

int raw_create(const char *path, struct raw **ret)
{
	AUTO(close_file) FILE *file = fopen(path, "we");
	struct raw *raw;

	if (!file)
		return err_set(-errno, "%s: cannot write: %s", path, strerror(errno));
	setvbuf(file, NULL, _IOFBF, 1 << 20);
	fwrite(magic, sizeof(magic), 1, file);
	raw = mem_zalloc(sizeof(*raw));
	raw->file = take_ptr(file);
	raw->path = mem_strdup(path);
	*ret = raw;
	return 0;
}

void raw_destroy(struct raw *raw)
{
	if (!raw)
		return;
	close_file(&raw->file);
	free(raw->path);
	free(raw);
}

static void frame_write(struct raw *raw, enum raw_kind kind, uint32_t number, const void *bytes,
			size_t size)
{
	const struct raw_frame frame = { kind, number, size };

	fwrite(&frame, sizeof(frame), 1, raw->file);
	if (size)
		fwrite(bytes, size, 1, raw->file);
}

static void on_process(void *ctx, struct drain_process *process)
{
	const uint32_t words[] = { process->pid, process->parent, process->replaces,
				   process->runs->inherited };

	frame_write(ctx, RAW_PROCESS, process->number, words, sizeof(words));
}

static void on_record(void *ctx, struct drain_process *process, const struct stream_record *record,
		      uint32_t first)
{
	frame_write(ctx, RAW_RECORD, process->number, record, record->size);
}

static void on_thread(void *ctx, struct drain_thread *thread)
{
	const uint32_t words[] = { thread->process->number, thread->tid };

	frame_write(ctx, RAW_THREAD, thread->number, words, sizeof(words));
}

static void on_runs(void *ctx, struct drain_thread *thread, const uint32_t *runs, size_t count)
{
	frame_write(ctx, RAW_RUNS, thread->number, runs, count * sizeof(*runs));
}

static void on_counts(void *ctx, struct drain_thread *thread, uint32_t first,
		      const uint64_t *counts, size_t count)
{
	struct raw *raw = ctx;
	const struct raw_frame frame = { RAW_COUNTS, thread->number,
					 (count + 1) * sizeof(uint64_t) };
	uint64_t number = first;

	fwrite(&frame, sizeof(frame), 1, raw->file);
	fwrite(&number, sizeof(number), 1, raw->file);
	fwrite(counts, sizeof(*counts), count, raw->file);
}

static void on_thread_end(void *ctx, struct drain_thread *thread)
{
	frame_write(ctx, RAW_THREAD_END, thread->number, NULL, 0);
}

static void on_process_end(void *ctx, struct drain_process *process)
{
	frame_write(ctx, RAW_PROCESS_END, process->number, NULL, 0);
}

struct drain_sink raw_sink(struct raw *raw)
{
	return (struct drain_sink){
		.process_begin = on_process,
		.record = on_record,
		.thread_begin = on_thread,
		.runs = on_runs,
		.counts = on_counts,
		.thread_end = on_thread_end,
		.process_end = on_process_end,
		.ctx = raw,
	};
}

int raw_finish(struct raw *raw)
{
	if (fflush(raw->file) || ferror(raw->file))
		return err_set(-EIO, "%s: could not be written completely: %s", raw->path,
			       strerror(errno));
	return 0;
}

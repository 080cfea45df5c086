// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes the raw file as records are handed out. Errors of the file are noticed at the end of the
 * recording: until then stdio remembers them.
 */
#include "recorder/engine/raw.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/newfile.h"

struct raw {
	FILE *file;
	struct newfile target; /* has its name when the recording has ended */
	bool named;
	char *path;
};

static const char magic[8] = { 'a', 's', 's', 'a', 'y', 'r', 'a', 'w' };

int raw_create(const char *path, struct raw **ret)
{
	AUTO(raw_destroy_auto) struct raw *raw = mem_zalloc(sizeof(*raw));
	int err = newfile_open(&raw->target, path, 0666);

	if (err)
		return err;
	raw->path = mem_strdup(path);
	raw->file = newfile_stream(&raw->target);
	if (!raw->file)
		return err_set(-errno, "%s: cannot write: %s", path, strerror(errno));
	setvbuf(raw->file, NULL, _IOFBF, 1 << 20);
	fwrite(magic, sizeof(magic), 1, raw->file);
	*ret = take_ptr(raw);
	return 0;
}

void raw_destroy(struct raw *raw)
{
	if (!raw)
		return;
	close_file(&raw->file);
	newfile_drop(&raw->target);
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

static void on_process(void *ctx, struct engine_process *process)
{
	const uint32_t words[] = { process->pid, process->parent, process->replaces,
				   process->segments->inherited };

	frame_write(ctx, RAW_PROCESS, process->number, words, sizeof(words));
}

static void on_record(void *ctx, struct engine_process *process, const struct stream_record *record,
		      uint32_t first)
{
	frame_write(ctx, RAW_RECORD, process->number, record, record->size);
}

static void on_thread(void *ctx, struct engine_thread *thread)
{
	const uint32_t words[] = { thread->process->number, thread->tid };

	frame_write(ctx, RAW_THREAD, thread->number, words, sizeof(words));
}

static void on_segments(void *ctx, struct engine_thread *thread, const uint32_t *segments,
			size_t count)
{
	frame_write(ctx, RAW_SEGMENTS, thread->number, segments, count * sizeof(*segments));
}

static void on_counts(void *ctx, struct engine_thread *thread, uint32_t first,
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

static void on_thread_end(void *ctx, struct engine_thread *thread)
{
	frame_write(ctx, RAW_THREAD_END, thread->number, NULL, 0);
}

static void on_process_end(void *ctx, struct engine_process *process)
{
	frame_write(ctx, RAW_PROCESS_END, process->number, NULL, 0);
}

struct engine_sink raw_engine_sink(struct raw *raw)
{
	return (struct engine_sink){
		.process_begin = on_process,
		.record = on_record,
		.thread_begin = on_thread,
		.segments = on_segments,
		.counts = on_counts,
		.thread_end = on_thread_end,
		.process_end = on_process_end,
		.ctx = raw,
	};
}

/* At the end, which may be told more than once, whatever could not be written is an error. */
static int flush(void *ctx, bool last)
{
	struct raw *raw = ctx;

	if (!last)
		return 0;
	if (fflush(raw->file) || ferror(raw->file))
		return err_set(-EIO, "%s: could not be written completely: %s", raw->path,
			       strerror(errno));
	if (raw->named)
		return 0;
	raw->named = true;
	return newfile_finish(&raw->target);
}

static void destroy(void *ctx)
{
	raw_destroy(ctx);
}

struct sink raw_sink(struct raw *raw)
{
	return (struct sink){
		.ctx = raw, .kind = SINK_NO_RECORDING, .flush = flush, .destroy = destroy
	};
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Every block that threads executed, in order: rebuilt from paths, one row of the profile at a
 * time, so that memory does not grow with the length of the run. Threads come one after the other.
 *
 * Text: a line "# thread TID process PID NAME" for each thread, then a line for each block: its
 * address in the file of its module, its instructions, the module and the function. Names that have
 * blanks in them keep them; the function ends the line.
 *
 * Binary, in the machine's order: the eight bytes "assayblk", then chunks of
 *
 *	u32 thread	id in the profile's table thread
 *	u32 pid, tid
 *	u32 count	of blocks that follow
 *	u32 block ...	ids in the profile's table block
 *
 * A thread's chunks follow each other.
 */
#include <errno.h>
#include <inttypes.h>

#include "analyse/names.h"
#include "analyse/order.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "report/export.h"
#include "base/utf8.h"

enum { CHUNK_BLOCKS = 1 << 14 };

static const char magic[8] = { 'a', 's', 's', 'a', 'y', 'b', 'l', 'k' };

struct sink {
	const struct profile *profile;
	const struct order_code *code;
	FILE *file;
	bool binary;
	uint32_t thread;
	struct order_blocks chunk; /* binary: not yet written */
	struct order_blocks path; /* the one in hand */
	char **lines; /* text: by block, made when first needed */
};

static void sink_deinit(struct sink *sink)
{
	for (size_t i = 0; sink->lines && i < sink->profile->block_count; i++)
		free(sink->lines[i]);
	free(sink->lines);
	array_deinit(&sink->chunk.items);
	array_deinit(&sink->path.items);
}

static void chunk_write(struct sink *sink)
{
	const struct profile_thread *thread = &sink->profile->threads[sink->thread];
	const uint32_t head[] = { sink->thread, sink->profile->processes[thread->process].pid,
				  thread->tid, (uint32_t)sink->chunk.items.count };

	if (!sink->chunk.items.count)
		return;
	fwrite(head, sizeof(head), 1, sink->file);
	fwrite(sink->chunk.items.items, sizeof(uint32_t), sink->chunk.items.count, sink->file);
	sink->chunk.items.count = 0;
}

static const char *block_line(struct sink *sink, uint32_t block)
{
	const struct profile *profile = sink->profile;
	const struct profile_block *row = &profile->blocks[block];
	const struct profile_location *location = &profile->locations[row->location];
	struct strbuf line = {};

	if (sink->lines[block])
		return sink->lines[block];
	strbuf_printf(&line, "0x%" PRIx64 " %u ", location->address, row->instructions);
	utf8_escape(&line, name_of_module(profile, location->module));
	strbuf_putc(&line, ' ');
	utf8_escape(&line, name_of_symbol(profile, location_function(profile, row->location)));
	strbuf_putc(&line, '\n');
	return sink->lines[block] = line.text;
}

static void path_write(struct sink *sink)
{
	array_each(&sink->path.items, block) {
		if (!sink->binary) {
			fputs(block_line(sink, *block), sink->file);
			continue;
		}
		*array_push(&sink->chunk.items) = *block;
		if (sink->chunk.items.count == CHUNK_BLOCKS)
			chunk_write(sink);
	}
}

static int row_write(void *context, const struct profile_flow *row,
		     const struct sequence_position *begin, const struct sequence_repeats *repeats)
{
	struct sink *sink = context;

	array_each(&repeats->items, item) {
		int err;

		sink->path.items.count = 0;
		err = order_path_blocks(sink->code, item->path, &sink->path);
		if (err)
			return err;
		for (uint64_t i = 0; i < item->trips && !ferror(sink->file); i++)
			path_write(sink);
	}
	return ferror(sink->file) ? -EPIPE : 0; /* ends the walk: nobody takes what would come */
}

static void thread_line_write(struct sink *sink, const struct profile_thread *row)
{
	struct strbuf line = {};

	strbuf_printf(&line, "# thread %u process %u ", row->tid,
		      sink->profile->processes[row->process].pid);
	utf8_escape(&line, row->comm);
	fprintf(sink->file, "%s\n", line.text);
	strbuf_deinit(&line);
}

static int thread_write(struct sink *sink, uint32_t thread)
{
	const struct profile_thread *row = &sink->profile->threads[thread];
	int err;

	sink->thread = thread;
	if (!sink->binary)
		thread_line_write(sink, row);
	err = order_walk(sink->code, thread, row_write, sink);
	chunk_write(sink);
	return err;
}

static int process_write(struct sink *sink, const struct filter *filter, uint32_t process)
{
	const struct profile *profile = sink->profile;
	const struct profile_flow *rows;
	struct order_code code = {};
	int err = 0;

	for (uint32_t i = 1; i < profile->thread_count && !err; i++) {
		if (profile->threads[i].process != process || !order_rows(profile, i, &rows) ||
		    !filter_thread(filter, profile, i))
			continue;
		if (!sink->code) {
			sink->code = &code;
			err = order_code_init(&code, profile, process);
		}
		err = err ? err : thread_write(sink, i);
	}
	if (sink->code)
		order_code_deinit(&code);
	sink->code = NULL;
	return err;
}

int export_blocks(const struct profile *profile, const struct export_options *options, FILE *file)
{
	AUTO(sink_deinit)
	struct sink sink = { .profile = profile, .file = file, .binary = options->binary };
	int err = order_check(profile);

	if (filter_has_code(&options->filter))
		return err_set(-EINVAL,
			       "--symbol, --module: a sequence of blocks without some of them is "
			       "none; --pid, --tid, --uid and --comm choose threads");
	if (err)
		return err;
	sink.lines = mem_zalloc(profile->block_count * sizeof(*sink.lines));
	if (sink.binary)
		fwrite(magic, sizeof(magic), 1, file);
	for (uint32_t i = 1; i < profile->process_count && !err; i++)
		err = process_write(&sink, &options->filter, i);
	return ferror(file) ? 0 : err; /* who closes the file says why it cannot be written */
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * The end of a recording: the last records are taken, everything is written, and locations get
 * their names.
 *
 *	in	a recorder whose command has ended
 *	out	a finished profile, with names
 *	owner	the recorder: this is a part of it
 *
 * Names come last and in a transaction of their own. If the recorder is killed before that, no
 * records are lost: the next reader of the profile finds the names (symbolise_unfinished()).
 */
#include <errno.h>
#include <fcntl.h>

#include "recorder/recorder_private.h"
#include "recorder/symbolise.h"

/*
 * What was under way arrives in the first round. The sampler counts in two tables in turns, and one
 * is emptied by each visit, so that after the next two rounds both are empty.
 */
enum { LAST_ROUNDS = 3 };

/*
 * The file that was mapped, which the load map has kept open, even if another one has its path by
 * now.
 */
static int module_open(void *ctx, const struct store_module *row)
{
	struct recorder *recorder = ctx;
	struct loadmap_module *module = loadmap_module_get(recorder->loadmap, row->id);
	int fd;

	if (!module || module->fd < 0)
		return symbolise_open_path(NULL, row);
	fd = fcntl(module->fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -errno : fd;
}

int recorder_module_open(struct recorder *recorder, const struct store_module *row)
{
	return module_open(recorder, row);
}

static size_t module_code(void *ctx, const struct store_module *module, uint64_t address, void *ret,
			  size_t size)
{
	struct recorder *recorder = ctx;
	size_t got = 0;

	array_each(&recorder->sources, source)
		if (source->code && !got)
			got = source->code(source->ctx, module, address, ret, size);
	if (!got && module->kind == MODULE_JIT)
		got = loadmap_memory_read(recorder->loadmap, module->id, address, ret, size);
	return got;
}

static int sources_end(struct recorder *recorder)
{
	int err = 0;

	array_each(&recorder->sources, source)
		if (source->disable && !err)
			err = source->disable(source->ctx);
	recorder_fail(recorder, err);
	recorder->last = true;
	for (int i = 0; i < LAST_ROUNDS; i++)
		err = recorder_round(recorder, NULL);
	array_each(&recorder->sources, source)
		if (source->finish) {
			int failed = source->finish(source->ctx);

			err = err ? err : failed;
		}
	return recorder_fail(recorder, err);
}

static int names_find(struct recorder *recorder)
{
	const struct symbolise_sources sources = { module_open, module_code, recorder,
						   recorder_modules(recorder) };
	int err = 0;

	array_each(&recorder->sinks, sink)
		if (sink->name && !err)
			err = sink->name(sink->ctx);
	err = err ? err : symbolise_from(recorder->store, &sources);
	array_each(&recorder->sinks, sink)
		if (sink->complete && !err)
			err = sink->complete(sink->ctx);
	return err;
}

static int profile_finish(struct recorder *recorder)
{
	int err = names_find(recorder);

	return err ? err : store_finish(recorder->store);
}

int recorder_finish(struct recorder *recorder)
{
	int err = sources_end(recorder);

	err = err ? err : loadmap_finish(recorder->loadmap);
	err = err ? err : recorder_commit(recorder);
	if (recorder->options.written)
		recorder->options.written();
	if (!err && recorder->store)
		err = profile_finish(recorder);
	return recorder_fail(recorder, err);
}

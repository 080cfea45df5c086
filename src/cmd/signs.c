// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/signs.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"

/* With what SQLite has beside it: while it is recorded, most of it may be there. */
static double megabytes(const char *path)
{
	AUTO(free_ptr) char *log = mem_printf("%s-wal", path);
	struct stat file = {}, beside = {};

	if (stat(path, &file))
		file.st_size = 0;
	if (stat(log, &beside))
		beside.st_size = 0;
	return (double)(file.st_size + beside.st_size) / 1e6;
}

static void on_commit(void *ctx)
{
	struct signs *signs = ctx;
	uint64_t now = clock_monotonic(), lost, seen;
	struct sink_totals totals;
	double seconds = (double)(now - signs->last_time) / NS_PER_S;

	recorder_totals(signs->recorder, signs->kind, &totals);
	lost = sink_totals_lost(&totals);
	seen = totals.kept + lost;
	progress_tell(&signs->progress, "%llu %s, %.0f a second, %llu lost, %.1f MB",
		      (unsigned long long)seen, signs->unit,
		      seconds > 0 && seen > signs->last ? (double)(seen - signs->last) / seconds
							: 0,
		      (unsigned long long)lost, megabytes(signs->output));
	signs->last = seen;
	signs->last_time = now;
}

void signs_begin(struct signs *signs, struct recorder *recorder, enum recording_kind kind,
		 const char *unit, const char *output)
{
	*signs = (struct signs){ .recorder = recorder,
				 .kind = kind,
				 .unit = unit,
				 .output = output,
				 .last_time = clock_monotonic() };
	progress_begin(&signs->progress, "recording");
	recorder_watch(recorder, on_commit, signs);
}

void signs_end(struct signs *signs)
{
	recorder_watch(signs->recorder, NULL, NULL);
	progress_end(&signs->progress);
}

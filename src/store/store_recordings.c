// SPDX-License-Identifier: BSD-2-Clause
/*
 * The recordings of a profile that is written: their totals, losses, metrics and facts.
 *
 * A recording's row is kept in memory and written with each commit, so that totals always agree
 * with the rows that are committed with them. When a transaction is undone, the rows are again what
 * they were at the last commit.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "store/container.h"
#include "store/store_private.h"

static uint32_t id_next(const struct store *store)
{
	uint32_t last = 0;

	for (int i = 0; i < RECORDING_KIND_COUNT; i++)
		if (store->recordings[i].row.id.v > last)
			last = store->recordings[i].row.id.v;
	return last + 1;
}

struct store_recording *store_recording(struct store *store, enum recording_kind kind)
{
	struct store_begun *begun = &store->recordings[kind];

	if (!begun->row.id.v)
		begun->row = (struct store_recording){ .id = { id_next(store) },
						       .kind = kind,
						       .unit = recording_kind_row(kind)->unit,
						       .parts = 1 };
	begun->changed = true; /* by who asks for it */
	return &begun->row;
}

int store_recording_begin(struct store *store, enum recording_kind kind, uint64_t started)
{
	store_recording(store, kind)->started = started;
	return 0;
}

int store_duration_set(struct store *store, enum recording_kind kind, uint64_t duration)
{
	store_recording(store, kind)->duration = duration;
	return 0;
}

int store_seen_set(struct store *store, enum recording_kind kind, uint64_t seen)
{
	store_recording(store, kind)->seen = seen;
	return 0;
}

int store_kept_set(struct store *store, enum recording_kind kind, uint64_t kept)
{
	store_recording(store, kind)->kept = kept;
	return 0;
}

int store_loss_set(struct store *store, enum recording_kind kind, const char *reason,
		   const char *text, uint64_t count)
{
	return store_loss_put(store,
			      &(struct store_loss){ .recording = store_recording(store, kind)->id,
						    .reason = reason,
						    .text = text,
						    .count = count });
}

int store_metric_set(struct store *store, enum recording_kind kind, const char *metric,
		     const char *unit, uint64_t total)
{
	return store_metric_put(
		store, &(struct store_metric){ .recording = store_recording(store, kind)->id,
					       .metric = metric,
					       .unit = unit,
					       .total = total });
}

int store_fact_add(struct store *store, enum recording_kind kind, const char *key,
		   const char *value)
{
	return store_fact_put(store,
			      &(struct store_fact){ .recording = store_recording(store, kind)->id,
						    .key = key,
						    .value = value });
}

int store_fact_add_u64(struct store *store, enum recording_kind kind, const char *key,
		       uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return store_fact_add(store, kind, key, text);
}

/* "" where the kernel does not tell. */
static void boot_read(char *ret, size_t size)
{
	AUTO(close_fd)
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, ret, size - 1);

	ret[got > 0 ? got : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

int store_machine_here(struct store *store)
{
	struct utsname name = {};
	char boot[64];

	uname(&name);
	boot_read(boot, sizeof(boot));
	store->machine.v = 1;
	return store_machine_put(store, &(struct store_machine){ .id = store->machine,
								 .host = name.nodename,
								 .kernel = name.release,
								 .architecture = name.machine,
								 .boot = boot });
}

/* Reads the recordings of a profile that is reopened. */
int store_recordings_read(struct store *store)
{
	sqlite3_stmt *list = store->statements[STATEMENT_RECORDING_LIST];
	static const char *const names[] = {
#define X(name, text, ...) text,
		RECORDING_KINDS(X)
#undef X
			NULL
	};
	unsigned kind;
	int rc;

	while ((rc = sqlite3_step(list)) == SQLITE_ROW) {
		if (!store_name_find(names, (const char *)sqlite3_column_text(list, 1), &kind))
			continue;
		store->recordings[kind].row = (struct store_recording){
			.id.v = (uint32_t)sqlite3_column_int64(list, 0),
			.kind = (enum recording_kind)kind,
			.unit = recording_kind_row(kind)->unit,
			.seen = (uint64_t)sqlite3_column_int64(list, 2),
			.kept = (uint64_t)sqlite3_column_int64(list, 3),
			.started = (uint64_t)sqlite3_column_int64(list, 4),
			.duration = (uint64_t)sqlite3_column_int64(list, 5),
			.parts = (uint32_t)sqlite3_column_int64(list, 6),
		};
	}
	sqlite3_reset(list);
	if (rc != SQLITE_DONE)
		return container_error(store->db, store->path, "read the recordings");
	memcpy(store->committed, store->recordings, sizeof(store->committed));
	return 0;
}

int store_recordings_write(struct store *store)
{
	int err = 0;

	for (int i = 0; i < RECORDING_KIND_COUNT && !err; i++) {
		struct store_begun *begun = &store->recordings[i];

		if (begun->changed)
			err = store_recording_put(store, &begun->row);
	}
	return err;
}

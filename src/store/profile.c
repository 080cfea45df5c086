// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads a profile into arrays, domain by domain, and checks everything on the way.
 *
 *	in	a file, and the domains that a view needs
 *	out	struct profile: an array for each table, checked
 *	owner	the command that opens it; what it loaded lives as long as it does
 *
 * Each table is read once, in the order of its primary key. Tables come after the tables they refer
 * to, so that a reference can be checked when it is met. All reads happen in one transaction, which
 * lasts as long as the profile: with the recorder still running, the result is the profile as of
 * one commit. profile_reader.c reads a table by its description, profile_checks.c has what
 * descriptions do not say.
 */
#include "store/profile.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/progress.h"
#include "store/container.h"
#include "store/profile_reader.h"

enum { MEMORY_MIN = 1 << 20 /* bytes of texts that any file may have */ };

_Static_assert(STORE_TABLE_COUNT <= 64, "tables are numbered by bits");

struct profile_source {
	char *path;
	sqlite3 *db;
	uint64_t loaded; /* tables, by bits */
	size_t memory_left; /* as in struct reader */
};

static void source_destroy(struct profile_source *source)
{
	if (!source)
		return;
	container_close(source->db);
	free(source->path);
	free(source);
}

/* The tables of the domains, and those they refer to. */
static uint64_t tables_wanted(unsigned domains)
{
	uint64_t wanted = 0;

	for (int i = STORE_TABLE_COUNT - 1; i >= 0; i--) {
		const struct store_table *table = &store_tables[i];

		if (table->domain & domains)
			wanted |= UINT64_C(1) << i;
		if (!(wanted >> i & 1))
			continue;
		for (const struct store_column *column = table->columns(); column->name; column++)
			if (store_type_is_reference(column->type))
				wanted |= UINT64_C(1) << column->table;
	}
	return wanted;
}

static uint64_t tables_of_every_profile(void)
{
	uint64_t tables = 0;

	for (int i = 0; i < STORE_TABLE_COUNT; i++)
		if (store_tables[i].domain == DOMAIN_OPEN)
			tables |= UINT64_C(1) << i;
	return tables;
}

static uint64_t table_rows(sqlite3 *db, const struct store_table *table)
{
	AUTO(free_ptr) char *sql = mem_printf("select count(*) from %s", table->name);
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) ||
	    sqlite3_step(statement) != SQLITE_ROW)
		return 0;
	return (uint64_t)sqlite3_column_int64(statement, 0);
}

/* Counting rows takes a part of the time of reading, so it is done only if progress is shown. */
static uint64_t rows_expected(const struct profile_source *source, uint64_t tables)
{
	uint64_t rows = 0;

	for (int i = 0; i < STORE_TABLE_COUNT && progress_is_seen(); i++)
		if ((tables & ~source->loaded) >> i & 1)
			rows += table_rows(source->db, &store_tables[i]);
	return rows;
}

static int tables_read(struct profile *profile, uint64_t tables)
{
	AUTO(progress_end) struct progress progress;
	struct profile_source *source = profile->source;
	struct reader reader = { .profile = profile,
				 .path = source->path,
				 .db = source->db,
				 .memory_left = source->memory_left,
				 .progress = &progress };
	int err = 0;

	progress_begin(&progress, "reading %s", source->path);
	reader.expected = rows_expected(source, tables);
	for (int i = 0; i < STORE_TABLE_COUNT && !err; i++)
		if ((tables & ~source->loaded) >> i & 1)
			err = reader_table(&reader, (enum store_table_id)i);
	source->memory_left = reader.memory_left;
	source->loaded |= tables;
	return err;
}

static void totals_set(struct profile *profile)
{
	const struct profile_recording *recording = NULL;

	for (int i = 0; i < RECORDING_KIND_COUNT && !recording; i++)
		if (recording_kind_row(i)->flags & RECORDING_IS_MAIN)
			recording = profile_recording(profile, i);
	if (!recording)
		return;
	profile->seen = recording->seen;
	profile->kept = recording->kept;
	profile->losses = recording->losses;
	profile->loss_count = recording->loss_count;
}

static bool is_finished(const struct profile *profile)
{
	for (size_t i = 0; i < profile->meta_count; i++)
		if (!strcmp(profile->metas[i].key, "finished"))
			return !strcmp(profile->metas[i].value, "1");
	return false;
}

int profile_open(const char *path, struct profile **ret)
{
	AUTO(profile_destroy_auto) struct profile *profile = mem_zalloc(sizeof(*profile));
	struct profile_source *source = profile->source = mem_zalloc(sizeof(*source));
	struct container_facts facts = {};
	int err;

	source->path = mem_strdup(path);
	if ((err = container_open_read(path, &source->db, &facts)))
		return err;
	source->memory_left = MEMORY_MIN + 2 * facts.size;
	profile->owner = facts.owner;
	reader_arrays_begin(profile);
	if (sqlite3_exec(source->db, "begin", NULL, NULL, NULL))
		return container_error(source->db, path, "read");
	if ((err = tables_read(profile, tables_of_every_profile())))
		return err;
	totals_set(profile);
	profile->finished = is_finished(profile);
	*ret = take_ptr(profile);
	return 0;
}

int profile_need(struct profile *profile, unsigned domains)
{
	return profile->source ? tables_read(profile, tables_wanted(domains)) : 0;
}

int profile_load(const char *path, unsigned domains, struct profile **ret)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	int err = profile_open(path, &profile);

	err = err ? err : profile_need(profile, domains);
	if (!err)
		*ret = take_ptr(profile);
	return err;
}

void profile_destroy(struct profile *profile)
{
	if (!profile)
		return;
	source_destroy(profile->source);
	reader_memory_free(profile->memory);
#define TABLE(name, array, count, style, keys, domain, text) free(profile->array);
#define COLUMN(type, name, argument, text)
#define FIELD(type, name, text)
#define END
#include "store/tables.def"
	free(profile);
}

const struct profile_recording *profile_recording(const struct profile *profile,
						  enum recording_kind kind)
{
	for (size_t i = 1; i < profile->recording_count; i++)
		if (profile->recordings[i].id && profile->recordings[i].kind == kind)
			return &profile->recordings[i];
	return NULL;
}

/* recording 0: any */
static const char *fact_find(const struct profile *profile, uint32_t recording, const char *key)
{
	for (size_t i = 0; i < profile->fact_count; i++) {
		const struct profile_fact *fact = &profile->facts[i];

		if ((!recording || fact->recording == recording) && !strcmp(fact->key, key))
			return fact->value;
	}
	return NULL;
}

const char *profile_meta(const struct profile *profile, const char *key)
{
	return fact_find(profile, 0, key);
}

const char *profile_fact(const struct profile *profile, enum recording_kind kind, const char *key)
{
	const struct profile_recording *recording = profile_recording(profile, kind);

	return recording ? fact_find(profile, recording->id, key) : NULL;
}

size_t profile_fact_count(const struct profile *profile, enum recording_kind kind, const char *key)
{
	const struct profile_recording *recording = profile_recording(profile, kind);
	size_t count = 0;

	for (size_t i = 0; recording && i < profile->fact_count; i++)
		count += profile->facts[i].recording == recording->id &&
			 !strcmp(profile->facts[i].key, key);
	return count;
}

uint64_t profile_metric(const struct profile *profile, enum recording_kind kind, const char *metric)
{
	const struct profile_recording *recording = profile_recording(profile, kind);

	for (size_t i = 0; recording && i < profile->metric_count; i++) {
		const struct profile_metric *row = &profile->metrics[i];

		if (row->recording == recording->id && !strcmp(row->metric, metric))
			return row->total;
	}
	return 0;
}

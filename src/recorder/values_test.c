// SPDX-License-Identifier: BSD-2-Clause
// Serves: V2, V6, V17.
/*
 * From runs to sites, read back from the profile with SQL. Runs are made by the host's executor;
 * translations are made by translations.c, for a sampler that only remembers them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/run_fixture.h"
#include "recorder/values.h"

#define MODULE (RUN_MODULE_PRIVATE | 1) /* memory without a file */

enum { TEXT_MAX = 512 };

/* --- A sampler that is none ------------------------------------------------------------------- */

static struct map published; /* module address to serial */
static bool is_full; /* until it is emptied */

int sampler_publish_block(struct sampler *sampler, const struct block_key *key,
			  const struct uop_block *block, uint32_t serial)
{
	if (is_full)
		return -ENOSPC;
	*map_at(&published, key->address, NULL) = serial;
	return 0;
}

uint32_t sampler_find_block(const struct sampler *sampler, const struct block_key *key)
{
	const uint64_t *serial = map_find(&published, key->address);

	return serial ? (uint32_t)*serial : 0;
}

void sampler_forget_blocks(struct sampler *sampler)
{
	is_full = false;
}

size_t sampler_kernel_text(struct sampler *sampler, uint64_t address, void *ret, size_t size)
{
	return 0;
}

/* --- The bench -------------------------------------------------------------------------------- */

struct bench {
	struct run_fixture runs;
	char path[64];
	struct store *store;
	struct loadmap *loadmap;
	struct locations *locations;
	struct translations *translations;
	struct selection selection;
	struct values *values;
	uint32_t module; /* of translations from now on */
	bool code_stays; /* one translation serves all runs */
};

static uint64_t on_enter(void *ctx, uint64_t pc, const uint8_t *code, size_t size)
{
	struct bench *bench = ctx;
	struct run_wanted wanted = {
		.key = { .address = pc - FIXTURE_BIAS, .module = bench->module },
		.pc = pc,
		.code_size = RUN_CODE_BYTES,
		.stale = !bench->code_stays,
		.record.image.tgid = (uint32_t)getpid(),
	};
	size_t left = FIXTURE_CODE + FIXTURE_CODE_SIZE - pc;

	memcpy(wanted.code, code, left < RUN_CODE_BYTES ? left : RUN_CODE_BYTES);
	assert_int_equal(translations_want(bench->translations, &wanted), 0);
	return *map_find(&published, wanted.key.address);
}

static int setup(void **state)
{
	struct bench *bench = mem_zalloc(sizeof(*bench));

	snprintf(bench->path, sizeof(bench->path), "values-%d.db", (int)getpid());
	assert_int_equal(store_create(bench->path, &bench->store), 0);
	assert_int_equal(loadmap_create(bench->store, NULL, &bench->loadmap), 0);
	locations_create(bench->store, &bench->locations);
	translations_create(NULL, bench->loadmap, &bench->translations);
	run_fixture_init(&bench->runs);
	bench->runs.enter = on_enter;
	bench->runs.ctx = bench;
	bench->module = MODULE;
	*state = bench;
	return 0;
}

static int teardown(void **state)
{
	struct bench *bench = *state;

	values_destroy(bench->values);
	selection_deinit(&bench->selection);
	run_fixture_deinit(&bench->runs);
	translations_destroy(bench->translations);
	locations_destroy(bench->locations);
	loadmap_destroy(bench->loadmap);
	store_abandon(bench->store);
	map_deinit(&published);
	published = (struct map){ 0 };
	free(bench);
	return 0;
}

static void values_begin(struct bench *bench, const char *what, size_t max_sites)
{
	struct values_options options = {
		.sites = { .selection = &bench->selection,
			   .list = { .size = HOTLIST_SIZE },
			   .max_sites = max_sites },
	};

	assert_int_equal(selection_parse(what, &bench->selection), 0);
	assert_int_equal(values_create(&options, bench->store, bench->loadmap, bench->locations,
				       bench->translations, &bench->values),
			 0);
}

/* A new record, whose registers the test may change. */
static struct run_record *record_begin(struct bench *bench)
{
	run_fixture_begin(&bench->runs);
	bench->runs.record->record.image.tgid = (uint32_t)getpid();
	return bench->runs.record;
}

#define RUN(bench, text, limit) run(bench, text, sizeof(text) - 1, limit)

static void run(struct bench *bench, const char *code, size_t size, unsigned limit)
{
	memcpy(bench->runs.code, code, size);
	run_fixture_execute(&bench->runs, limit);
	assert_int_equal(values_run(bench->values, bench->runs.record), 0);
}

/* What the kernel says in all tests. */
static const struct run_tally tally = { .lost[RUN_LOSS_RING_FULL] = 5, .steps = 77 };

static uint64_t runs_kept(const struct bench *bench)
{
	struct sink_totals totals;

	values_totals(bench->values, &tally, &totals);
	return totals.kept;
}

/* Runs that were kept, lost in the kernel, and lost because the replay disagreed. */
static void totals_expect(struct bench *bench, uint64_t kept, uint64_t ring_full,
			  uint64_t disagreed)
{
	struct sink_totals totals;

	values_totals(bench->values, &tally, &totals);
	assert_int_equal(totals.kept, kept);
	assert_int_equal(sink_totals_lost(&totals), ring_full + disagreed);
	assert_int_equal(totals.loss_count, (ring_full > 0) + (disagreed > 0));
	for (size_t i = 0; i < totals.loss_count; i++)
		assert_int_equal(totals.losses[i].count,
				 strcmp(totals.losses[i].reason, "disagreed") ? ring_full
									      : disagreed);
}

static void flush(struct bench *bench)
{
	assert_int_equal(values_flush(bench->values, &tally), 0);
	assert_int_equal(loadmap_flush(bench->loadmap), 0);
	assert_int_equal(store_commit(bench->store), 0);
}

/* The rows of a query: columns with blanks between, rows with semicolons. */
static void query(struct bench *bench, const char *sql, char ret[TEXT_MAX])
{
	sqlite3_stmt *statement;
	sqlite3 *database;
	size_t used = 0;

	ret[0] = '\0';
	assert_int_equal(sqlite3_open(bench->path, &database), SQLITE_OK);
	if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK)
		fail_msg("%s", sqlite3_errmsg(database));
	while (sqlite3_step(statement) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(statement); i++) {
			const char *text = (const char *)sqlite3_column_text(statement, i);

			used += (size_t)snprintf(ret + used, TEXT_MAX - used, "%s%s",
						 i	? " "
						 : used ? "; "
							: "",
						 text ? text : "null");
			assert_true(used < TEXT_MAX);
		}
	}
	sqlite3_finalize(statement);
	sqlite3_close(database);
}

static void expect(struct bench *bench, const char *sql, const char *expected)
{
	char text[TEXT_MAX];

	query(bench, sql, text);
	assert_string_equal(text, expected);
}

/* Offset of a location in the code. */
#define OFFSET "l.address - 4198400"

/* --- Sites ------------------------------------------------------------------------------------ */

/* inc eax; dec cl; jnz back: a loop within one run. */
#define LOOP "\xff\xc0\xfe\xc9\x75\xfa\x90"

static void values_are_summed_by_site(void **state)
{
	struct bench *bench = *state;

	values_begin(bench, "result,taken", 100);
	for (unsigned i = 0; i < 3; i++) {
		struct run_record *record = record_begin(bench);

		record->regs[UOP_RAX] = 10 * i;
		record->regs[UOP_RCX] = 2;
		RUN(bench, LOOP, 6);
	}
	flush(bench);
	expect(bench,
	       "select " OFFSET ", i.text, width, total, runs, minimum, maximum, mean "
	       "from value v join location l on l.id = v.location join value_item i on i.id = "
	       "v.item order by 1",
	       "0 result 32 6 3 1 22 11.5; 2 result 8 6 3 0 1 0.5; 4 taken 1 6 3 0 1 0.5");
	expect(bench, "select distinct owner, caller from value", "0 null");
	expect(bench,
	       "select metric, total from metric where metric in ('steps', 'values_seen', "
	       "'values_kept', 'runs_steps') order by metric",
	       "runs_steps 77; steps 18; values_kept 18; values_seen 18");
	totals_expect(bench, 3, 5, 0);
}

/* The first list that the query finds. */
static void list_get(struct bench *bench, const char *sql, struct hotlist *ret)
{
	sqlite3_stmt *statement;
	sqlite3 *database;

	assert_int_equal(sqlite3_open(bench->path, &database), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &statement, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	assert_int_equal(hotlist_decode(sqlite3_column_blob(statement, 0),
					(size_t)sqlite3_column_bytes(statement, 0), ret),
			 0);
	sqlite3_finalize(statement);
	sqlite3_close(database);
}

static void lists_hold_the_values(void **state)
{
	struct bench *bench = *state;
	struct hotlist_value value;
	struct hotlist list;

	values_begin(bench, "loaded", 100);
	for (unsigned i = 0; i < 10; i++) {
		record_begin(bench)->regs[UOP_RDI] = FIXTURE_DATA;
		bench->runs.data[0] = i % 5 ? 0xfeedface12345678 : i;
		RUN(bench, "\x48\x8b\x07\x90", 2);
	}
	flush(bench);
	list_get(bench, "select list from value where item = 1", &list);
	assert_int_equal(list.total, 10);
	assert_int_equal(list.squares, 10);
	assert_int_equal(list.count, 3);
	hotlist_get(&list, 0, &value);
	assert_int_equal(value.count, 8);
	assert_int_equal(value.words[0], 0xfeedface12345678);
	hotlist_deinit(&list);
}

static void values_of_a_run_are_a_group(void **state)
{
	struct bench *bench = *state;
	struct hotlist list;

	values_begin(bench, "result", 100);
	for (unsigned turns = 1; turns <= 3; turns++) {
		record_begin(bench)->regs[UOP_RCX] = turns;
		RUN(bench, LOOP, 3 * turns);
	}
	flush(bench);
	list_get(bench, "select list from value order by id", &list);
	assert_int_equal(list.total, 1 + 2 + 3);
	assert_int_equal(list.squares, 1 + 4 + 9);
	hotlist_deinit(&list);
}

/* What the same code does for another user, or in the kernel, is kept apart. */
static void owners_are_kept_apart(void **state)
{
	struct bench *bench = *state;

	values_begin(bench, "result", 100);
	record_begin(bench)->owner = 1000;
	RUN(bench, "\xff\xc0\x90", 1);
	record_begin(bench)->owner = 1001;
	RUN(bench, "\xff\xc0\x90", 1);
	record_begin(bench)->owner = 1000;
	RUN(bench, "\xff\xc0\x90", 1);
	bench->module = RUN_MODULE_KERNEL;
	record_begin(bench)->flags = RUN_IN_KERNEL;
	bench->runs.record->owner = 1000;
	RUN(bench, "\xff\xc0\x90", 1);
	flush(bench);
	expect(bench, "select owner, total from value order by owner", "null 1; 1000 2; 1001 1");
	expect(bench,
	       "select m.path, l.address from value v join location l on l.id = v.location join "
	       "module m on m.id = l.module where owner is null",
	       "[kernel] 4096"); /* without the bias: what the key says */
}

/*
 * An instruction remembers fewer sites than there are here: the two items share a hint, and so do
 * the owners.
 */
static void sites_share_hints(void **state)
{
	struct bench *bench = *state;

	bench->code_stays = true;
	values_begin(bench,
		     "result,operand1,operand2,address,loaded,stored,taken,alignment(result)", 100);
	for (unsigned i = 0; i < 9; i++) {
		record_begin(bench)->owner = i % 3;
		bench->runs.record->regs[UOP_RAX] = 100 + i;
		RUN(bench, "\xff\xc0\x90", 1);
	}
	flush(bench);
	expect(bench,
	       "select i.text, owner, total, minimum, maximum from value v join value_item i on "
	       "i.id = v.item where i.text like '%result%' order by 1 desc, 2",
	       "result 0 3 101 107; result 1 3 102 108; result 2 3 103 109; "
	       "alignment(result) 0 3 0 3; alignment(result) 1 3 0 2; alignment(result) 2 3 0 1");
}

/* Code of a file lies in its module, whatever process runs it. */
static void files_are_modules(void **state)
{
	struct bench *bench = *state;
	struct loadmap_process *process =
		loadmap_process_at(bench->loadmap, (uint32_t)getpid(), clock_monotonic());
	struct loadmap_mapping mapping;
	char expected[TEXT_MAX];

	assert_true(loadmap_find(bench->loadmap, process, (uintptr_t)setup, clock_monotonic(),
				 &mapping));
	bench->module = translations_module_number(mapping.module->id);
	values_begin(bench, "result", 100);
	record_begin(bench);
	RUN(bench, "\xff\xc0\xff\xc2\x90", 2);
	record_begin(bench)->record.image.tgid = 1;
	RUN(bench, "\xff\xc0\xff\xc2\x90", 2);
	flush(bench);
	snprintf(expected, sizeof(expected), "%s %llu 2; %s %llu 2", mapping.module->path,
		 4096ull + mapping.module->base, mapping.module->path,
		 4098ull + mapping.module->base);
	expect(bench,
	       "select path, address, total from value v join location l on l.id = v.location join "
	       "module m on m.id = l.module order by address",
	       expected);
}

/* call 0x20 from 0 or from 8. */
static void calls_run(struct bench *bench, bool second, uint64_t argument)
{
	struct run_record *record = record_begin(bench);

	record->regs[UOP_RDI] = argument;
	record->regs[UOP_RSI] = 9;
	record->pc = FIXTURE_CODE + (second ? 8 : 0);
	memcpy(bench->runs.code + 0x20, "\x8d\x04\x37\xc3", 4); /* lea eax, [rdi + rsi]; ret */
	RUN(bench, "\xe8\x1b\x00\x00\x00\x90\x90\x90\xe8\x13\x00\x00\x00\x90", 3);
}

static void callers_are_kept_apart_where_wanted(void **state)
{
	struct bench *bench = *state;

	values_begin(bench, "arg0,arg0@caller,arg0+arg1@caller", 100);
	calls_run(bench, false, 1);
	calls_run(bench, true, 2);
	calls_run(bench, false, 3);
	flush(bench);
	expect(bench,
	       "select i.text, i.class, i.words, " OFFSET
	       ", c.address - 4198400, total, minimum, maximum, mean, squares is null "
	       "from value v join value_item i on i.id = v.item join location l on l.id = "
	       "v.location "
	       "left join location c on c.id = v.caller order by i.id, c.address",
	       "arg0 entry 1 32 null 3 1 3 2.0 0; "
	       "arg0@caller entry 1 32 4 2 1 3 2.0 0; arg0@caller entry 1 32 12 1 2 2 2.0 0; "
	       "arg0+arg1@caller entry 2 32 4 2 null null null 1; "
	       "arg0+arg1@caller entry 2 32 12 1 null null null 1");
}

static void numbers_have_signs(void **state)
{
	struct bench *bench = *state;

	values_begin(bench, "result", 100);
	record_begin(bench);
	RUN(bench,
	    "\xff\xc8" /* dec eax: -1 in 32 bits */
	    "\xfe\xc9" /* dec cl: -1 in 8 bits */
	    "\x48\xff\xca" /* dec rdx */
	    "\x0f\x94\xc0" /* sete al: 0 */
	    "\x90",
	    4);
	flush(bench);
	expect(bench,
	       "select width, minimum, maximum from value v join location l on l.id = v.location "
	       "order by address",
	       "32 -1 -1; 8 -1 -1; 64 -1 -1; 8 0 0");
}

/* The next two branches, and the values of the whole run: once for a run, where capturing began. */
static void runs_have_values_of_their_own(void **state)
{
	struct bench *bench = *state;

	values_begin(bench, "path:2,pid", 100);
	record_begin(bench)->regs[UOP_RCX] = 3;
	bench->runs.record->skipped = 1;
	RUN(bench, LOOP, 9); /* taken, taken, not taken */
	flush(bench);
	expect(bench,
	       "select " OFFSET ", i.text, i.class, total, minimum == 7 or minimum == (select pid "
	       "from process limit 1) from value v join location l on l.id = v.location join "
	       "value_item i on i.id = v.item order by i.text",
	       "2 path:2 run 1 1; 2 pid context 1 1");
}

/* A run that ended early has a path if it came as far as the path is long. */
static void paths_of_early_ends(void **state)
{
	struct bench *bench = *state;

	values_begin(bench, "path:2,path:3,goal1", 100);
	record_begin(bench);
	RUN(bench, "\x31\xc0\x75\x10\x74\x00\xf4", 9); /* xor; jne: no; je: yes; hlt */
	flush(bench);
	expect(bench,
	       "select i.text, total, minimum from value v join value_item i on i.id = v.item",
	       "path:2 1 5");
}

/* --- Accounting ------------------------------------------------------------------------------- */

static void sites_are_bounded(void **state)
{
	struct bench *bench = *state;

	values_begin(bench, "result", 2);
	record_begin(bench)->regs[UOP_RCX] = 2;
	RUN(bench, "\xff\xc0\xff\xc2\xff\xc6\xfe\xc9\x75\xf6\x90", 10); /* four sites, twice */
	flush(bench);
	expect(bench, "select count(*), sum(total) from value", "2 4");
	expect(bench, "select total from metric where metric = 'values_seen'", "8");
	expect(bench, "select total from metric where metric = 'values_kept'", "4");
}

static void runs_are_kept_or_lost(void **state)
{
	struct bench *bench = *state;

	values_begin(bench, "result", 100);
	record_begin(bench);
	RUN(bench, "\xff\xc0\xf4", 5); /* inc eax; hlt */
	record_begin(bench);
	RUN(bench, "\xff\xc0\xf4", 5);
	record_begin(bench);
	RUN(bench, "\xff\xc0\x90", 2);
	bench->runs.record->state_hash ^= 1;
	assert_int_equal(values_run(bench->values, bench->runs.record), 0);
	flush(bench);
	expect(bench, "select reason, mnemonic, count from run_end order by 1",
	       "length  1; privileged hlt 2");
	expect(bench, "select sum(total) from value", "3");
	totals_expect(bench, 3, 5, 1);
}

/* The tables fill up and are emptied while a run is under way. */
static void translations_wait_for_their_runs(void **state)
{
	struct bench *bench = *state;
	AUTO(free_ptr) struct run_record *early = NULL;
	size_t size;

	values_begin(bench, "result", 100);
	record_begin(bench);
	RUN(bench, "\xff\xc0\x90", 1);
	size = run_record_size(bench->runs.record->log_count);
	early = mem_alloc(size);
	memcpy(early, bench->runs.record, size);
	for (unsigned i = 0; i < 2; i++) {
		is_full = true;
		record_begin(bench);
		RUN(bench, "\xff\xc1\x90", 1);
	}
	assert_int_equal(values_run(bench->values, early), 0);
	translations_settle(bench->translations);
	assert_int_equal(values_run(bench->values, early), 0);
	assert_int_equal(runs_kept(bench), 5);
	translations_settle(bench->translations);
	assert_int_equal(values_run(bench->values, early), 0);
	assert_int_equal(runs_kept(bench), 5);
	assert_int_equal(values_run(bench->values, bench->runs.record), 0);
	assert_int_equal(runs_kept(bench), 6);
}

static void rows_are_replaced(void **state)
{
	struct bench *bench = *state;

	values_begin(bench, "result", 100);
	for (unsigned i = 1; i <= 3; i++) {
		char expected[32];

		record_begin(bench);
		RUN(bench, "\xff\xc0\x90", 1);
		flush(bench);
		snprintf(expected, sizeof(expected), "1 %u %u", i, i);
		expect(bench, "select count(*), sum(total), sum(runs) from value", expected);
	}
	flush(bench);
	expect(bench, "select total from value", "3");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(values_are_summed_by_site),   TEST(lists_hold_the_values),
		TEST(owners_are_kept_apart),	   TEST(sites_share_hints),
		TEST(files_are_modules),	   TEST(callers_are_kept_apart_where_wanted),
		TEST(numbers_have_signs),	   TEST(runs_have_values_of_their_own),
		TEST(paths_of_early_ends),	   TEST(sites_are_bounded),
		TEST(runs_are_kept_or_lost),	   TEST(rows_are_replaced),
		TEST(values_of_a_run_are_a_group), TEST(translations_wait_for_their_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

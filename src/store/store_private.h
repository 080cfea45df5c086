/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of store/ share. */
#pragma once

#include <sqlite3.h>

#include "base/array.h"
#include "base/map.h"
#include "store/store.h"

enum {
	STORE_RECENT_MAX = 1 << 16, /* rows; with so many, recent is folded */
};

/* Prepared once, as each of them may run thousands of times a second. */
#define STORE_STATEMENTS(X)                                                                        \
	X(BEGIN, "begin")                                                                          \
	X(COMMIT, "commit")                                                                        \
	X(META_SET, "insert or replace into meta values (?, ?)")                                   \
	X(META_GET, "select value from meta where key = ?")                                        \
	X(PROCESS_PUT,                                                                             \
	  "insert or replace into process values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")         \
	X(THREAD_PUT, "insert or replace into thread values (?, ?, ?, ?, ?, ?)")                   \
	X(MODULE_PUT, "insert or replace into module values (?, ?, ?, ?, ?, ?, ?)")                \
	X(MODULE_GET, "select kind, path, build_id, process, deleted from module where id = ?")    \
	X(MODULE_NEXT, "select coalesce(max(id), 0) + 1 from module")                              \
	X(MAPPING_ADD, "insert into mapping values (?, ?, ?, ?, ?, ?, ?)")                         \
	X(LOCATION_PUT, "insert or replace into location values (?, ?, ?)")                        \
	X(STACK_PUT, "insert or replace into stack values (?, ?, ?)")                              \
	X(RECENT_ADD, "insert into recent values (?, ?, ?, ?)")                                    \
	X(RECENT_LAST, "select coalesce(max(rowid), 0) from recent")                               \
	X(RECENT_FOLD,                                                                             \
	  "insert into sample select thread, stack, sum(count), sum(kernel) from recent "          \
	  "where true group by stack, thread order by stack, thread on conflict do update "        \
	  "set count = count + excluded.count, kernel = kernel + excluded.kernel")                 \
	X(RECENT_CLEAR, "delete from recent")                                                      \
	X(TICK_ADD, "insert into tick values (?, ?, ?) on conflict do update set count = count + " \
		    "excluded.count")                                                              \
	X(LOSS_SET, "insert or replace into loss values (?, ?, ?)")                                \
	X(STACK_END_SET, "insert or replace into stack_end values (?, ?, ?)")                      \
	X(SYMBOL_PUT,                                                                              \
	  "insert into symbol (id, module, name, linkage, address, size, inlined) "                \
	  "values (?, ?, ?, ?, ?, ?, ?) on conflict do update set module = excluded.module, "      \
	  "name = excluded.name, linkage = excluded.linkage, address = excluded.address, "         \
	  "size = excluded.size, inlined = excluded.inlined")                                      \
	X(SYMBOL_CODE_PUT, "update symbol set code = ?2 where id = ?1")                            \
	X(FILE_PUT, "insert or replace into file values (?, ?)")                                   \
	X(FRAME_PUT, "insert or replace into frame values (?, ?, ?, ?, ?)")                        \
	X(VALUE_ITEM_PUT, "insert or replace into value_item values (?, ?, ?, ?)")                 \
	X(VALUE_PUT,                                                                               \
	  "insert or replace into value values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")           \
	X(RUN_END_SET, "insert or replace into run_end values (?, ?, ?, ?)")                       \
	X(RUN_LOSS_SET, "insert or replace into run_loss values (?, ?, ?)")                        \
	X(VALUE_NAME_PUT, "insert or replace into value_name values (?, ?, ?)")                    \
	X(PARAMETER_PUT, "insert or replace into parameter values (?, ?, ?, ?, ?, ?)")             \
	X(BLOCK_PUT, "insert or replace into block values (?, ?, ?, ?)")                           \
	X(BLOCK_PART_PUT, "insert or replace into block_part values (?, ?, ?, ?)")                 \
	X(EXECUTION_ADD, "insert into execution values (?, ?, ?) on conflict do update set "       \
			 "count = count + excluded.count")                                         \
	X(THREAD_RUNS_ADD, "insert into thread_runs values (?, ?, ?) on conflict do update set "   \
			   "runs = runs + excluded.runs, lost = lost + excluded.lost")             \
	X(RUN_TABLE_PUT, "insert or replace into run_table values (?, ?, ?, ?)")                   \
	X(RUN_PARENT_PUT, "insert or replace into run_parent values (?, ?, ?)")                    \
	X(PATH_TABLE_PUT, "insert or replace into path_table values (?, ?, ?, ?)")                 \
	X(FLOW_PUT, "insert or replace into flow values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")           \
	X(CYCLE_TABLE_PUT, "insert or replace into cycle_table values (?, ?, ?, ?, ?)")            \
	X(LAYER_PUT, "insert or replace into layer values (?, ?, ?, ?, ?, ?, ?)")                  \
	X(RARE_CYCLE_PUT, "insert or replace into rare_cycle values (?, ?, ?, ?, ?)")              \
	X(SOURCE_LINE_PUT, "insert or replace into source_line values (?, ?, ?, ?)")               \
	X(FILE_FIND, "select id from file where path = ?")                                         \
	X(FILE_NEXT, "select coalesce(max(id), 0) + 1 from file")                                  \
	X(UNNAMED_LIST,                                                                            \
	  "with hit (location, self) as (select location, sum(count) from (select "                \
	  "stack.location, "                                                                       \
	  "sample.count from sample cross join stack on stack.id = sample.stack "                  \
	  "union all select location, total from value "                                           \
	  "union all select location, 1 from block) group by location) "                           \
	  "select location.id, location.module, location.address, coalesce(hit.self, 0) "          \
	  "from location left join hit on hit.location = location.id "                             \
	  "where not exists (select 1 from frame where frame.location = location.id) "             \
	  "order by location.module, location.address < 0, location.address")

enum store_statement {
#define X(name, sql) STATEMENT_##name,
	STORE_STATEMENTS(X)
#undef X
		STATEMENT_COUNT
};

struct store_pending_samples {
	struct thread_id thread;
	struct stack_id stack;
	uint64_t count, kernel;
};

/* What was added since the last commit. */
struct store_pending {
	struct map by_key; /* stack << 32 | thread to index in samples */
	ARRAY(struct store_pending_samples) samples;
	struct map ticks; /* second << 32 | thread to count */
};

struct store {
	sqlite3 *db;
	char *path;
	int lock; /* file descriptor that holds an flock on the profile: one writer at a time */
	bool old_kept; /* the profile that was at path is now at path.old */
	int failed; /* the first write of this transaction that failed: it must not be committed; 0: none did */
	char *why; /* the sentence about it */
	struct store_pending pending;
	sqlite3_stmt *statements[STATEMENT_COUNT];
};

/* false: text, which may be NULL, is none of MODULE_KINDS. */
bool module_kind_find(const char *text, enum module_kind *ret);
/* The transaction fails for what err_text() says. Returns err. */
int store_fail(struct store *store, int err);
/* Runs a statement whose parameters are all numbers. */
int store_numbers_write(struct store *store, enum store_statement which, size_t count,
			const uint64_t values[]);
/* The same with bytes as the last parameter; data NULL: NULL. */
int store_bytes_write(struct store *store, enum store_statement which, size_t count,
		      const uint64_t values[], const void *data, size_t size);

/* Appends what is pending to its tables; nothing is pending afterwards, whatever happens. */
int store_pending_write(struct store *store);
void store_pending_clear(struct store *store);
void store_pending_deinit(struct store *store);
/* Adds the rows of recent to those of sample. The second only does so when there are many. */
int store_recent_fold(struct store *store);
int store_recent_limit(struct store *store);

/* Fills stack_total: what each subtree of stacks was sampled. */
int store_totals_write(struct store *store);

// SPDX-License-Identifier: BSD-2-Clause
/* The rows of a profile that is written: one function per table, one prepared statement each. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "base/mem.h"
#include "store/container.h"
#include "store/store.h"
#include "store/store_private.h"

static const char *const module_kinds[] = {
#define X(name, text) text,
	MODULE_KINDS(X)
#undef X
};

/*
 * Binding: a row being filled from its first column on. SQLite's integers are signed, so that an
 * address of the kernel is stored as a negative number; casting back gives the same 64 bits.
 */
struct row {
	struct store *store;
	sqlite3_stmt *statement;
	int column; /* the last one bound, from 1 */
};

static struct row row_begin(struct store *store, enum store_statement which)
{
	return (struct row){ .store = store, .statement = store->statements[which] };
}

static void add_u64(struct row *row, uint64_t value)
{
	sqlite3_bind_int64(row->statement, ++row->column, (sqlite3_int64)value);
}

static void add_null(struct row *row)
{
	sqlite3_bind_null(row->statement, ++row->column);
}

/* NULL where the value says that there is none. */
static void add_unless(struct row *row, uint64_t value, uint64_t none)
{
	if (value == none)
		add_null(row);
	else
		add_u64(row, value);
}

/* text may be NULL. It is only read before the row ends. */
static void add_text(struct row *row, const char *text)
{
	sqlite3_bind_text(row->statement, ++row->column, text, -1, SQLITE_STATIC);
}

static void add_i64(struct row *row, int64_t value)
{
	sqlite3_bind_int64(row->statement, ++row->column, value);
}

static void add_real(struct row *row, double value)
{
	sqlite3_bind_double(row->statement, ++row->column, value);
}

/* An empty one is no NULL. It is only read before the row ends. */
static void add_blob(struct row *row, const void *bytes, size_t size)
{
	sqlite3_bind_blob64(row->statement, ++row->column, size ? bytes : "", size, SQLITE_STATIC);
}

/* After a failure SQLite may have ended the transaction: a row would then be committed by itself. */
static int row_end(struct row *row)
{
	int rc;

	if (row->store->failed)
		return err_set(row->store->failed, "%s", row->store->why);
	rc = sqlite3_step(row->statement);
	sqlite3_reset(row->statement);
	if (rc == SQLITE_DONE)
		return 0;
	return store_fail(row->store, container_error(row->store->db, row->store->path, "write"));
}

int store_numbers_write(struct store *store, enum store_statement which, size_t count,
			const uint64_t values[])
{
	struct row row = row_begin(store, which);

	for (size_t i = 0; i < count; i++)
		add_u64(&row, values[i]);
	return row_end(&row);
}

int store_bytes_write(struct store *store, enum store_statement which, size_t count,
		      const uint64_t values[], const void *data, size_t size)
{
	struct row row = row_begin(store, which);

	for (size_t i = 0; i < count; i++)
		add_u64(&row, values[i]);
	if (data)
		add_blob(&row, data, size);
	else
		add_null(&row);
	return row_end(&row);
}

int store_meta_set(struct store *store, const char *key, const char *value)
{
	struct row row = row_begin(store, STATEMENT_META_SET);

	add_text(&row, key);
	add_text(&row, value);
	return row_end(&row);
}

int store_meta_set_u64(struct store *store, const char *key, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return store_meta_set(store, key, text);
}

int store_process_put(struct store *store, const struct store_process *process)
{
	struct row row = row_begin(store, STATEMENT_PROCESS_PUT);

	assert(process->id.v);
	add_u64(&row, process->id.v);
	add_unless(&row, process->parent.v, 0);
	add_u64(&row, process->pid);
	add_u64(&row, process->ppid);
	add_unless(&row, process->uid, UINT32_MAX);
	add_unless(&row, process->gid, UINT32_MAX);
	add_unless(&row, process->euid, UINT32_MAX);
	add_unless(&row, process->egid, UINT32_MAX);
	add_text(&row, process->comm);
	add_text(&row, process->exe);
	add_text(&row, process->cgroup);
	add_u64(&row, process->started);
	add_u64(&row, process->ended);
	return row_end(&row);
}

int store_thread_put(struct store *store, const struct store_thread *thread)
{
	struct row row = row_begin(store, STATEMENT_THREAD_PUT);

	assert(thread->id.v);
	add_u64(&row, thread->id.v);
	add_u64(&row, thread->process.v);
	add_u64(&row, thread->tid);
	add_text(&row, thread->comm);
	add_u64(&row, thread->started);
	add_u64(&row, thread->ended);
	return row_end(&row);
}

int store_module_put(struct store *store, const struct store_module *module)
{
	struct row row = row_begin(store, STATEMENT_MODULE_PUT);
	const char *slash = strrchr(module->path, '/');
	char build_id[BUILD_ID_HEX_MAX];

	assert(module->id.v && module->kind < MODULE_KIND_COUNT);
	build_id_hex(&module->build_id, build_id);
	add_u64(&row, module->id.v);
	add_text(&row, module_kinds[module->kind]);
	add_text(&row, slash && slash[1] ? slash + 1 : module->path);
	add_text(&row, module->path);
	add_text(&row, module->build_id.size ? build_id : NULL);
	add_unless(&row, module->process.v, 0);
	add_u64(&row, module->deleted);
	return row_end(&row);
}

int store_mapping_add(struct store *store, const struct store_mapping *mapping)
{
	struct row row = row_begin(store, STATEMENT_MAPPING_ADD);

	add_u64(&row, mapping->process.v);
	add_u64(&row, mapping->module.v);
	add_u64(&row, mapping->start);
	add_u64(&row, mapping->end);
	add_u64(&row, mapping->offset);
	add_u64(&row, mapping->mapped);
	add_u64(&row, mapping->unmapped);
	return row_end(&row);
}

int store_location_put(struct store *store, struct location_id id, struct module_id module,
		       uint64_t address)
{
	struct row row = row_begin(store, STATEMENT_LOCATION_PUT);

	assert(id.v && module.v);
	add_u64(&row, id.v);
	add_u64(&row, module.v);
	add_u64(&row, address);
	return row_end(&row);
}

int store_stack_put(struct store *store, struct stack_id id, struct stack_id parent,
		    struct location_id location)
{
	struct row row = row_begin(store, STATEMENT_STACK_PUT);

	assert(parent.v < id.v && location.v);
	add_u64(&row, id.v);
	add_u64(&row, parent.v);
	add_u64(&row, location.v);
	return row_end(&row);
}

static int named_count_set(struct store *store, enum store_statement which, const char *name,
			   const char *text, uint64_t count)
{
	struct row row = row_begin(store, which);

	add_text(&row, name);
	add_text(&row, text);
	add_u64(&row, count);
	return row_end(&row);
}

int store_loss_set(struct store *store, const char *reason, const char *text, uint64_t count)
{
	return named_count_set(store, STATEMENT_LOSS_SET, reason, text, count);
}

int store_stack_end_set(struct store *store, const char *end, const char *text, uint64_t count)
{
	return named_count_set(store, STATEMENT_STACK_END_SET, end, text, count);
}

int store_seen_set(struct store *store, uint64_t seen)
{
	return store_meta_set_u64(store, "seen", seen);
}

int store_symbol_put(struct store *store, const struct store_symbol *symbol)
{
	struct row row = row_begin(store, STATEMENT_SYMBOL_PUT);

	assert(symbol->id.v && symbol->module.v);
	add_u64(&row, symbol->id.v);
	add_u64(&row, symbol->module.v);
	add_text(&row, symbol->name);
	add_text(&row, symbol->linkage);
	add_u64(&row, symbol->address);
	add_u64(&row, symbol->size);
	add_u64(&row, symbol->inlined);
	return row_end(&row);
}

int store_symbol_code_put(struct store *store, struct symbol_id id, const void *code, size_t size)
{
	struct row row = row_begin(store, STATEMENT_SYMBOL_CODE_PUT);
	int err;

	add_u64(&row, id.v);
	add_blob(&row, code, size);
	if ((err = row_end(&row)))
		return err;
	if (sqlite3_changes(store->db) == 0)
		return err_set(-ENOENT, "%s: symbol %u is not there to keep the code of",
			       store->path, id.v);
	return 0;
}

int store_file_put(struct store *store, struct file_id id, const char *path)
{
	struct row row = row_begin(store, STATEMENT_FILE_PUT);

	assert(id.v);
	add_u64(&row, id.v);
	add_text(&row, path);
	return row_end(&row);
}

int store_file_find(struct store *store, const char *path, struct file_id *ret)
{
	sqlite3_stmt *find = store->statements[STATEMENT_FILE_FIND];
	sqlite3_stmt *next = store->statements[STATEMENT_FILE_NEXT];
	struct file_id known = {}, fresh = {};

	sqlite3_bind_text(find, 1, path, -1, SQLITE_STATIC);
	if (sqlite3_step(find) == SQLITE_ROW)
		known.v = (uint32_t)sqlite3_column_int64(find, 0);
	else if (sqlite3_step(next) == SQLITE_ROW)
		fresh.v = (uint32_t)sqlite3_column_int64(next, 0);
	sqlite3_reset(find);
	sqlite3_reset(next);
	if (!known.v && !fresh.v)
		return container_error(store->db, store->path, "read");
	*ret = known.v ? known : fresh;
	return known.v ? 0 : store_file_put(store, fresh, path);
}

int store_frame_put(struct store *store, const struct store_frame *frame)
{
	struct row row = row_begin(store, STATEMENT_FRAME_PUT);

	assert(frame->location.v && frame->symbol.v);
	add_u64(&row, frame->location.v);
	add_u64(&row, frame->depth);
	add_u64(&row, frame->symbol.v);
	add_unless(&row, frame->file.v, 0);
	add_u64(&row, frame->line);
	return row_end(&row);
}

int store_value_item_put(struct store *store, const struct store_value_item *item)
{
	struct row row = row_begin(store, STATEMENT_VALUE_ITEM_PUT);

	assert(item->id && item->words >= 1 && item->words <= STORE_VALUE_WORDS_MAX);
	add_u64(&row, item->id);
	add_text(&row, item->text);
	add_text(&row, item->class);
	add_u64(&row, item->words);
	return row_end(&row);
}

static void add_moments(struct row *row, const struct store_value *value)
{
	if (value->has_moments) {
		add_i64(row, value->minimum);
		add_i64(row, value->maximum);
		add_real(row, value->mean);
		add_real(row, value->squares);
	} else {
		for (int i = 0; i < 4; i++)
			add_null(row);
	}
}

int store_value_put(struct store *store, const struct store_value *value)
{
	struct row row = row_begin(store, STATEMENT_VALUE_PUT);

	assert(value->id && value->location.v && value->item);
	assert(value->width >= 1 && value->width <= 64);
	assert(value->list_size <= STORE_VALUE_LIST_MAX);
	add_u64(&row, value->id);
	add_u64(&row, value->location.v);
	add_unless(&row, value->caller.v, 0);
	add_u64(&row, value->item);
	add_unless(&row, (uint64_t)value->owner, (uint64_t)-1);
	add_u64(&row, value->width);
	add_u64(&row, value->total);
	add_u64(&row, value->runs);
	add_moments(&row, value);
	add_blob(&row, value->list, value->list_size);
	return row_end(&row);
}

int store_run_end_set(struct store *store, const char *reason, const char *mnemonic,
		      const char *text, uint64_t count)
{
	struct row row = row_begin(store, STATEMENT_RUN_END_SET);

	add_text(&row, reason);
	add_text(&row, mnemonic);
	add_text(&row, text);
	add_u64(&row, count);
	return row_end(&row);
}

int store_run_loss_set(struct store *store, const char *reason, const char *text, uint64_t count)
{
	return named_count_set(store, STATEMENT_RUN_LOSS_SET, reason, text, count);
}

int store_value_name_put(struct store *store, uint64_t value, struct location_id location,
			 const char *text)
{
	struct row row = row_begin(store, STATEMENT_VALUE_NAME_PUT);

	add_u64(&row, value);
	add_unless(&row, location.v, 0);
	add_text(&row, text);
	return row_end(&row);
}

int store_parameter_put(struct store *store, const struct store_parameter *parameter)
{
	struct row row = row_begin(store, STATEMENT_PARAMETER_PUT);

	assert(parameter->symbol.v && parameter->argument < STORE_ARGUMENTS);
	add_u64(&row, parameter->symbol.v);
	add_u64(&row, parameter->argument);
	add_text(&row, parameter->name);
	add_text(&row, parameter->type);
	add_text(&row, parameter->encoding);
	add_u64(&row, parameter->size);
	return row_end(&row);
}

int store_unnamed_list(struct store *store, struct store_unnamed **ret, size_t *ret_count)
{
	sqlite3_stmt *list = store->statements[STATEMENT_UNNAMED_LIST];
	ARRAY(struct store_unnamed) rows = {};
	int rc, err;

	/* Names come after samples: what recent took is free for them. */
	if ((err = store_pending_write(store)) || (err = store_recent_fold(store)))
		return err;
	while ((rc = sqlite3_step(list)) == SQLITE_ROW) {
		*array_push(&rows) = (struct store_unnamed){
			.location.v = (uint32_t)sqlite3_column_int64(list, 0),
			.module.v = (uint32_t)sqlite3_column_int64(list, 1),
			.address = (uint64_t)sqlite3_column_int64(list, 2),
			.self = (uint64_t)sqlite3_column_int64(list, 3),
		};
	}
	sqlite3_reset(list);
	if (rc != SQLITE_DONE) {
		array_deinit(&rows);
		return container_error(store->db, store->path, "read what has no name yet");
	}
	*ret = rows.items;
	*ret_count = rows.count;
	return 0;
}

bool module_kind_find(const char *text, enum module_kind *ret)
{
	for (int i = 0; text && i < MODULE_KIND_COUNT; i++) {
		if (strcmp(text, module_kinds[i]) == 0) {
			*ret = (enum module_kind)i;
			return true;
		}
	}
	return false;
}

/* What is not hexadecimal, or too long, gives no build-id. */
static struct build_id build_id_parse(const char *hex)
{
	struct build_id id = {};
	size_t length = hex ? strlen(hex) : 0;

	if (length % 2 || length > 2 * BUILD_ID_MAX ||
	    (length && strspn(hex, "0123456789abcdef") != length))
		return id;
	for (size_t i = 0; i < length / 2; i++) {
		char pair[3] = { hex[2 * i], hex[2 * i + 1] };

		id.bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	id.size = (uint8_t)(length / 2);
	return id;
}

static int module_decode(struct store *store, struct module_id id, sqlite3_stmt *get,
			 struct store_module *ret, char **ret_path)
{
	struct store_module module = { .id = id };
	const char *path = (const char *)sqlite3_column_text(get, 1);

	if (!module_kind_find((const char *)sqlite3_column_text(get, 0), &module.kind) || !path)
		return err_set(-EBADMSG, "%s: corrupt: module %u is of no known kind", store->path,
			       id.v);
	module.build_id = build_id_parse((const char *)sqlite3_column_text(get, 2));
	module.process.v = (uint32_t)sqlite3_column_int64(get, 3);
	module.deleted = sqlite3_column_int(get, 4) != 0;
	module.path = *ret_path = mem_strdup(path);
	*ret = module;
	return 0;
}

int store_module_get(struct store *store, struct module_id id, struct store_module *ret,
		     char **ret_path)
{
	sqlite3_stmt *get = store->statements[STATEMENT_MODULE_GET];
	int rc, err;

	sqlite3_bind_int64(get, 1, id.v);
	rc = sqlite3_step(get);
	if (rc == SQLITE_ROW)
		err = module_decode(store, id, get, ret, ret_path);
	else if (rc == SQLITE_DONE)
		err = err_set(-ENOENT, "%s: has no module %u", store->path, id.v);
	else
		err = container_error(store->db, store->path, "read a module");
	sqlite3_reset(get);
	return err;
}

int store_module_next(struct store *store, struct module_id *ret)
{
	sqlite3_stmt *next = store->statements[STATEMENT_MODULE_NEXT];
	int err = 0;

	if (sqlite3_step(next) == SQLITE_ROW)
		ret->v = (uint32_t)sqlite3_column_int64(next, 0);
	else
		err = container_error(store->db, store->path, "read the modules");
	sqlite3_reset(next);
	return err;
}

int store_block_put(struct store *store, const struct store_block *block)
{
	assert(block->id);
	return store_numbers_write(store, STATEMENT_BLOCK_PUT, 4,
				   (uint64_t[]){ block->id, block->location.v, block->length,
						 block->instructions });
}

int store_block_part_put(struct store *store, const struct store_block_part *part)
{
	return store_numbers_write(store, STATEMENT_BLOCK_PART_PUT, 4,
				   (uint64_t[]){ part->block, part->part, part->location.v,
						 part->instructions });
}

int store_source_line_put(struct store *store, const struct store_source_line *line)
{
	return store_numbers_write(store, STATEMENT_SOURCE_LINE_PUT, 4,
				   (uint64_t[]){ line->file.v, line->line, line->module.v,
						 line->count });
}

int store_execution_add(struct store *store, uint32_t block, struct thread_id thread,
			uint64_t count)
{
	return store_numbers_write(store, STATEMENT_EXECUTION_ADD, 3,
				   (uint64_t[]){ block, thread.v, count });
}

int store_thread_runs_add(struct store *store, struct thread_id thread, uint64_t runs,
			  uint64_t lost)
{
	return store_numbers_write(store, STATEMENT_THREAD_RUNS_ADD, 3,
				   (uint64_t[]){ thread.v, runs, lost });
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * A sink: the counters of tools, by name. Names are made when a catalog tells what a counter stands
 * for, since later something else may be mapped at its address. What a process has mapped is what
 * its parent had when it forked, and what its own catalog tells.
 */
#include "recorder/engine/counters.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/mem.h"
#include "base/strbuf.h"

struct module {
	uint64_t start, end, offset;
	char *path;
};

struct program {
	uint32_t number;
	ARRAY(struct module) modules; /* later ones hide earlier ones */
	ARRAY(uint32_t) rows; /* of its counters, by the number of their record */
};

struct counters {
	ARRAY(struct program) programs;
	ARRAY(struct counters_row)
	rows; /* until counters_rows(): one for each counter of each process */
};

struct counters *counters_create(void)
{
	return mem_zalloc(sizeof(struct counters));
}

void counters_destroy(struct counters *counters)
{
	if (!counters)
		return;
	array_each(&counters->programs, program) {
		array_each(&program->modules, module)
			free(module->path);
		array_deinit(&program->modules);
		array_deinit(&program->rows);
	}
	array_each(&counters->rows, row)
		free((char *)row->name);
	array_deinit(&counters->programs);
	array_deinit(&counters->rows);
	free(counters);
}

static struct program *program_find(struct counters *counters, uint32_t number)
{
	for (size_t i = counters->programs.count; i-- > 0;)
		if (counters->programs.items[i].number == number)
			return &counters->programs.items[i];
	return NULL;
}

static void module_add(struct program *program, const struct module *from)
{
	struct module *module = array_push(&program->modules);

	*module = *from;
	module->path = mem_strdup(from->path);
}

static void on_process_begin(void *ctx, struct engine_process *process)
{
	struct counters *counters = ctx;
	const struct program *parent;
	struct program *program;

	*array_push(&counters->programs) = (struct program){ .number = process->number };
	program = &counters->programs.items[counters->programs.count - 1];
	parent = process->parent ? program_find(counters, process->parent) : NULL;
	for (size_t i = 0; parent && i < parent->modules.count; i++)
		module_add(program, &parent->modules.items[i]);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static char *code_name(const struct program *program, uint64_t pc)
{
	struct strbuf text = {};
	char *name;

	for (size_t i = program->modules.count; i-- > 0 && !text.length;) {
		const struct module *module = &program->modules.items[i];

		if (pc >= module->start && pc < module->end)
			strbuf_printf(&text, "%s+0x%" PRIx64,
				      *module->path ? base_name(module->path) : "[code]",
				      pc - module->start + module->offset);
	}
	if (!text.length)
		strbuf_printf(&text, "0x%" PRIx64, pc);
	name = mem_strdup(strbuf_text(&text));
	strbuf_deinit(&text);
	return name;
}

static void counter_learn(struct counters *counters, struct program *program,
			  const struct stream_counter *counter)
{
	enum engine_tool tool = (enum engine_tool)counter->tool;

	*array_push(&program->rows) = (uint32_t)counters->rows.count;
	*array_push(&counters->rows) = (struct counters_row){
		tool, counter->pc ? code_name(program, counter->pc) : mem_strdup(counter->name), 0
	};
}

static void on_record(void *ctx, struct engine_process *process, const struct stream_record *record,
		      uint32_t first)
{
	const struct stream_module *module = (const struct stream_module *)record;
	struct program *program = program_find(ctx, process->number);

	if (!program)
		return;
	if (record->type == STREAM_RECORD_MODULE)
		module_add(program, &(struct module){ module->start, module->end, module->offset,
						      (char *)module->path });
	else if (record->type == STREAM_RECORD_COUNTER)
		counter_learn(ctx, program, (const struct stream_counter *)record);
}

static void on_counter(void *ctx, struct engine_thread *thread, size_t record, uint64_t value)
{
	struct counters *counters = ctx;
	struct program *program = program_find(counters, thread->process->number);

	if (program && record < program->rows.count)
		counters->rows.items[program->rows.items[record]].value += value;
}

struct engine_sink counters_engine_sink(struct counters *counters)
{
	return (struct engine_sink){ .process_begin = on_process_begin,
				     .record = on_record,
				     .counter = on_counter,
				     .ctx = counters };
}

static void destroy(void *ctx)
{
	counters_destroy(ctx);
}

struct sink counters_sink(struct counters *counters)
{
	return (struct sink){ .ctx = counters, .kind = SINK_NO_RECORDING, .destroy = destroy };
}

static int row_compare_name(const void *a, const void *b)
{
	const struct counters_row *left = a, *right = b;

	if (left->tool != right->tool)
		return left->tool < right->tool ? -1 : 1;
	return strcmp(left->name, right->name);
}

static int row_compare_value(const void *a, const void *b)
{
	const struct counters_row *left = a, *right = b;

	if (left->tool != right->tool)
		return left->tool < right->tool ? -1 : 1;
	if (left->value != right->value)
		return left->value > right->value ? -1 : 1;
	return strcmp(left->name, right->name);
}

/* Those of the same name become one, those that never counted go. */
static void rows_merge(struct counters *counters)
{
	size_t kept = 0;

	for (size_t i = 0; i < counters->rows.count; i++) {
		struct counters_row *row = &counters->rows.items[i];
		struct counters_row *last = kept ? &counters->rows.items[kept - 1] : NULL;

		if (!row->value || (last && !row_compare_name(last, row))) {
			if (row->value)
				last->value += row->value;
			free((char *)row->name);
			continue;
		}
		counters->rows.items[kept++] = *row;
	}
	counters->rows.count = kept;
}

const struct counters_row *counters_rows(struct counters *counters, size_t *ret_count)
{
	if (counters->rows.count) {
		qsort(counters->rows.items, counters->rows.count, sizeof(struct counters_row),
		      row_compare_name);
		rows_merge(counters);
		qsort(counters->rows.items, counters->rows.count, sizeof(struct counters_row),
		      row_compare_value);
	}
	*ret_count = counters->rows.count;
	return counters->rows.items;
}

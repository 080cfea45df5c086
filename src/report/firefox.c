// SPDX-License-Identifier: BSD-2-Clause
/*
 * The processed format of the Firefox Profiler, version 47, which later versions of it read too:
 * they bring older files up to date. Each thread has tables of its own: stacks, which are nodes of
 * a tree and come after their parents; frames, one for each function; functions; resources, which
 * are modules; and texts. A sample has a stack, a time and a weight.
 *
 * What was lost is a thread of its own, so that all weights together are what was seen.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analyse/calltree.h"
#include "analyse/moments.h"
#include "analyse/names.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "report/export.h"
#include "report/json.h"

enum { FORMAT_VERSION = 47, GECKO_VERSION = 24, RESOURCE_LIBRARY = 1, MS_PER_S = 1000 };

struct fox {
	struct calltree tree;
	const struct profile *profile;
	struct strbuf text;
	FILE *file;
	size_t thread_count;
};

/* The tables of one thread. Numbers are + 1, so that 0 is none. */
struct tables {
	uint32_t *stacks; /* by node */
	uint32_t *functions; /* by function */
	uint32_t *resources; /* by module */
	ARRAY(uint32_t) nodes;
	ARRAY(uint32_t) used_functions;
	ARRAY(uint32_t) used_modules;
	struct strtab strings;
};

static void flush(struct fox *fox)
{
	fwrite(strbuf_text(&fox->text), 1, fox->text.length, fox->file);
	fox->text.length = 0;
}

/* --- Columns ---------------------------------------------------------------------------------- */

static void column_begin(struct fox *fox, const char *comma, const char *name)
{
	strbuf_printf(&fox->text, "%s\"%s\":[", comma, name);
}

static void column_same(struct fox *fox, const char *name, const char *value, size_t count)
{
	column_begin(fox, ",", name);
	for (size_t i = 0; i < count; i++)
		strbuf_printf(&fox->text, "%s%s", i ? "," : "", value);
	strbuf_putc(&fox->text, ']');
}

static void number_put(struct fox *fox, size_t index, uint64_t number)
{
	strbuf_printf(&fox->text, "%s%" PRIu64, index ? "," : "", number);
}

static void table_end(struct fox *fox, size_t length)
{
	strbuf_printf(&fox->text, ",\"length\":%zu}", length);
}

/* --- What a thread needs ---------------------------------------------------------------------- */

static uint32_t module_number(struct fox *fox, uint32_t function)
{
	return functions_module(&fox->tree.functions, function);
}

/* The node and its callers, those that were not there yet. */
static void node_mark(struct fox *fox, struct tables *tables, uint32_t node)
{
	for (; node && !tables->stacks[node]; node = fox->tree.nodes.items[node].parent)
		tables->stacks[node] = 1;
}

static void function_use(struct fox *fox, struct tables *tables, uint32_t function)
{
	uint32_t module = module_number(fox, function);

	if (tables->functions[function])
		return;
	*array_push(&tables->used_functions) = function;
	tables->functions[function] = (uint32_t)tables->used_functions.count;
	if (tables->resources[module])
		return;
	*array_push(&tables->used_modules) = module;
	tables->resources[module] = (uint32_t)tables->used_modules.count;
}

/* Nodes come after their parents, and so do stacks. */
static void nodes_number(struct fox *fox, struct tables *tables)
{
	for (uint32_t node = 1; node < fox->tree.nodes.count; node++) {
		if (!tables->stacks[node])
			continue;
		*array_push(&tables->nodes) = node;
		tables->stacks[node] = (uint32_t)tables->nodes.count;
		function_use(fox, tables, fox->tree.nodes.items[node].function);
	}
}

static void tables_init(struct tables *tables, const struct fox *fox)
{
	*tables = (struct tables){
		.stacks = mem_zalloc(fox->tree.nodes.count * sizeof(*tables->stacks)),
		.functions =
			mem_zalloc((fox->tree.functions.count + 1) * sizeof(*tables->functions)),
		.resources =
			mem_zalloc((fox->profile->module_count + 1) * sizeof(*tables->resources)),
	};
}

static void tables_deinit(struct tables *tables)
{
	free(tables->stacks);
	free(tables->functions);
	free(tables->resources);
	array_deinit(&tables->nodes);
	array_deinit(&tables->used_functions);
	array_deinit(&tables->used_modules);
	strtab_deinit(&tables->strings);
}

/* --- Tables ----------------------------------------------------------------------------------- */

static void stacks_put(struct fox *fox, struct tables *tables)
{
	const struct calltree_node *nodes = fox->tree.nodes.items;

	column_begin(fox, ",\n\"stackTable\":{", "frame");
	for (size_t i = 0; i < tables->nodes.count; i++)
		number_put(fox, i, tables->functions[nodes[tables->nodes.items[i]].function] - 1);
	column_begin(fox, "],", "prefix");
	for (size_t i = 0; i < tables->nodes.count; i++) {
		uint32_t parent = nodes[tables->nodes.items[i]].parent;

		if (parent)
			number_put(fox, i, tables->stacks[parent] - 1);
		else
			strbuf_puts(&fox->text, i ? ",null" : "null");
	}
	strbuf_putc(&fox->text, ']');
	column_same(fox, "category", "0", tables->nodes.count);
	column_same(fox, "subcategory", "0", tables->nodes.count);
	table_end(fox, tables->nodes.count);
}

static void frames_put(struct fox *fox, size_t count)
{
	column_begin(fox, ",\n\"frameTable\":{", "func");
	for (size_t i = 0; i < count; i++)
		number_put(fox, i, i);
	strbuf_putc(&fox->text, ']');
	column_same(fox, "address", "-1", count);
	column_same(fox, "inlineDepth", "0", count);
	column_same(fox, "category", "0", count);
	column_same(fox, "subcategory", "0", count);
	column_same(fox, "nativeSymbol", "null", count);
	column_same(fox, "innerWindowID", "0", count);
	column_same(fox, "implementation", "null", count);
	column_same(fox, "line", "null", count);
	column_same(fox, "column", "null", count);
	table_end(fox, count);
}

static void functions_put(struct fox *fox, struct tables *tables)
{
	size_t count = tables->used_functions.count;

	column_begin(fox, ",\n\"funcTable\":{", "name");
	for (size_t i = 0; i < count; i++)
		number_put(fox, i,
			   strtab_add(&tables->strings,
				      functions_name(&fox->tree.functions,
						     tables->used_functions.items[i])));
	column_begin(fox, "],", "resource");
	for (size_t i = 0; i < count; i++)
		number_put(fox, i,
			   tables->resources[module_number(fox, tables->used_functions.items[i])] -
				   1);
	strbuf_putc(&fox->text, ']');
	column_same(fox, "isJS", "false", count);
	column_same(fox, "relevantForJS", "false", count);
	column_same(fox, "fileName", "null", count);
	column_same(fox, "lineNumber", "null", count);
	column_same(fox, "columnNumber", "null", count);
	table_end(fox, count);
}

static void resources_put(struct fox *fox, struct tables *tables)
{
	size_t count = tables->used_modules.count;

	column_begin(fox, ",\n\"resourceTable\":{", "lib");
	for (size_t i = 0; i < count; i++)
		number_put(fox, i, tables->used_modules.items[i]);
	column_begin(fox, "],", "name");
	for (size_t i = 0; i < count; i++)
		number_put(fox, i,
			   strtab_add(&tables->strings,
				      name_of_module(fox->profile, tables->used_modules.items[i])));
	strbuf_putc(&fox->text, ']');
	column_same(fox, "host", "null", count);
	column_begin(fox, ",", "type");
	for (size_t i = 0; i < count; i++)
		number_put(fox, i, RESOURCE_LIBRARY);
	strbuf_putc(&fox->text, ']');
	table_end(fox, count);
}

/* There are none, but the tables must be. */
static void empty_tables_put(struct fox *fox)
{
	strbuf_puts(&fox->text,
		    ",\n\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],"
		    "\"functionSize\":[],\"length\":0},"
		    "\"markers\":{\"data\":[],\"name\":[],\"startTime\":[],\"endTime\":[],"
		    "\"phase\":[],\"category\":[],\"length\":0}");
}

static void strings_put(struct fox *fox, const struct strtab *strings)
{
	column_begin(fox, ",\n", "stringArray");
	for (uint32_t i = 0; i < strings->count; i++) {
		strbuf_puts(&fox->text, i ? "," : "");
		json_string_put(&fox->text, strtab_get(strings, i));
	}
	strbuf_puts(&fox->text, "]}");
}

/* --- Threads ---------------------------------------------------------------------------------- */

static void thread_begin(struct fox *fox, const char *name, const char *process, uint32_t pid,
			 uint32_t tid)
{
	strbuf_puts(&fox->text, fox->thread_count++ ? ",\n{\"name\":" : "{\"name\":");
	json_string_put(&fox->text, name);
	strbuf_puts(&fox->text, ",\"processName\":");
	json_string_put(&fox->text, process);
	strbuf_printf(&fox->text,
		      ",\"processType\":\"default\",\"processStartupTime\":0,"
		      "\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,"
		      "\"pausedRanges\":[],\"isMainThread\":%s,\"pid\":\"%u\",\"tid\":%u",
		      pid == tid ? "true" : "false", pid, tid);
}

static void samples_put(struct fox *fox, const struct tables *tables,
			const struct calltree_sample *samples, size_t count)
{
	column_begin(fox, ",\n\"samples\":{\"weightType\":\"samples\",", "stack");
	for (size_t i = 0; i < count; i++)
		number_put(fox, i, tables->stacks[samples[i].node] - 1);
	column_begin(fox, "],", "time");
	for (size_t i = 0; i < count; i++)
		number_put(fox, i, (uint64_t)samples[i].second * MS_PER_S);
	column_begin(fox, "],", "weight");
	for (size_t i = 0; i < count; i++)
		number_put(fox, i, samples[i].count);
	strbuf_putc(&fox->text, ']');
	table_end(fox, count);
}

static void thread_put(struct fox *fox, const struct calltree_sample *samples, size_t count)
{
	const struct profile_thread *thread = &fox->profile->threads[samples->thread];
	const struct profile_process *process = &fox->profile->processes[thread->process];
	struct tables tables;

	tables_init(&tables, fox);
	for (size_t i = 0; i < count; i++)
		node_mark(fox, &tables, samples[i].node);
	nodes_number(fox, &tables);
	thread_begin(fox, thread->comm ? thread->comm : "", process->comm ? process->comm : "",
		     process->pid, thread->tid);
	samples_put(fox, &tables, samples, count);
	stacks_put(fox, &tables);
	frames_put(fox, tables.used_functions.count);
	functions_put(fox, &tables);
	resources_put(fox, &tables);
	empty_tables_put(fox);
	strings_put(fox, &tables.strings);
	tables_deinit(&tables);
	flush(fox);
}

/* One function for each reason; module 0 is no module. */
static void losses_put(struct fox *fox)
{
	const struct profile *profile = fox->profile;
	size_t count = profile->loss_count;
	struct strtab strings = {};

	thread_begin(fox, "[lost]", "[lost]", 0, 1);
	column_begin(fox, ",\n\"samples\":{\"weightType\":\"samples\",", "weight");
	for (size_t i = 0; i < count; i++)
		number_put(fox, i, profile->losses[i].count);
	column_begin(fox, "],", "stack");
	for (size_t i = 0; i < count; i++)
		number_put(fox, i, i);
	strbuf_putc(&fox->text, ']');
	column_same(fox, "time", "0", count);
	table_end(fox, count);
	column_begin(fox, ",\n\"stackTable\":{", "frame");
	for (size_t i = 0; i < count; i++)
		number_put(fox, i, i);
	strbuf_putc(&fox->text, ']');
	column_same(fox, "prefix", "null", count);
	column_same(fox, "category", "0", count);
	column_same(fox, "subcategory", "0", count);
	table_end(fox, count);
	frames_put(fox, count);
	column_begin(fox, ",\n\"funcTable\":{", "name");
	for (size_t i = 0; i < count; i++) {
		AUTO(free_ptr) char *name = mem_printf("[lost: %s]", profile->losses[i].name);

		number_put(fox, i, strtab_add(&strings, name));
	}
	strbuf_putc(&fox->text, ']');
	column_same(fox, "resource", "-1", count);
	column_same(fox, "isJS", "false", count);
	column_same(fox, "relevantForJS", "false", count);
	column_same(fox, "fileName", "null", count);
	column_same(fox, "lineNumber", "null", count);
	column_same(fox, "columnNumber", "null", count);
	table_end(fox, count);
	strbuf_puts(&fox->text, ",\n\"resourceTable\":{\"lib\":[],\"name\":[],\"host\":[],"
				"\"type\":[],\"length\":0}");
	empty_tables_put(fox);
	strings_put(fox, &strings);
	strtab_deinit(&strings);
}

static int thread_order(const void *left, const void *right)
{
	const struct calltree_sample *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->second != b->second)
		return a->second < b->second ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

static void threads_put(struct fox *fox)
{
	struct calltree_sample *samples = fox->tree.samples.items;
	size_t count = fox->tree.samples.count, begin = 0;

	if (count)
		qsort(samples, count, sizeof(*samples), thread_order);
	for (size_t i = 1; i <= count && !ferror(fox->file); i++) {
		if (i < count && samples[i].thread == samples[begin].thread)
			continue;
		thread_put(fox, samples + begin, i - begin);
		begin = i;
	}
}

/* --- The file --------------------------------------------------------------------------------- */

static void meta_put(struct fox *fox)
{
	const struct profile_recording *recording =
		profile_recording(fox->profile, RECORDING_SAMPLES);
	const char *command = profile_fact(fox->profile, RECORDING_SAMPLES, "command");
	const char *frequency = profile_fact(fox->profile, RECORDING_SAMPLES, "frequency");
	bool changed = profile_fact_count(fox->profile, RECORDING_SAMPLES, "frequency") > 1;
	double rate = frequency && !changed ? strtod(frequency, NULL) : 0;

	strbuf_printf(&fox->text,
		      "{\"meta\":{\"interval\":%.6g,\"startTime\":%.3f,\"processType\":0,"
		      "\"product\":",
		      rate > 0 ? MS_PER_S / rate : 1,
		      recording ? (double)recording->started / 1e6 : 0);
	json_string_put(&fox->text, command && *command ? command : "assay");
	strbuf_printf(&fox->text,
		      ",\"stackwalk\":1,\"version\":%d,\"preprocessedProfileVersion\":%d,"
		      "\"symbolicated\":true,\"symbolicationNotSupported\":true,"
		      "\"importedFrom\":\"Assay\",\"usesOnlyOneStackType\":true,"
		      "\"doesNotUseFrameImplementation\":true,"
		      "\"sourceCodeIsNotOnSearchfox\":true,\"markerSchema\":[],"
		      "\"categories\":[{\"name\":\"Other\",\"color\":\"grey\","
		      "\"subcategories\":[\"Other\"]}]},\n\"libs\":[",
		      GECKO_VERSION, FORMAT_VERSION);
}

/* By module; entry 0, which is no module, too, so that the numbers are those of the profile. */
static void libs_put(struct fox *fox)
{
	for (uint32_t i = 0; i < fox->profile->module_count; i++) {
		const char *path =
			i && fox->profile->modules[i].path ? fox->profile->modules[i].path : "";

		strbuf_puts(&fox->text, i ? ",\n{\"name\":" : "{\"name\":");
		json_string_put(&fox->text, name_of_module(fox->profile, i));
		strbuf_puts(&fox->text, ",\"path\":");
		json_string_put(&fox->text, path);
		strbuf_puts(&fox->text, ",\"debugName\":");
		json_string_put(&fox->text, name_of_module(fox->profile, i));
		strbuf_puts(&fox->text, ",\"debugPath\":");
		json_string_put(&fox->text, path);
		strbuf_puts(&fox->text, ",\"arch\":\"x86_64\",\"codeId\":null,\"breakpadId\":"
					"\"000000000000000000000000000000000\"}");
	}
}

int export_firefox(const struct profile *profile, const struct export_options *options, FILE *file)
{
	struct fox fox = { .profile = profile, .file = file };

	calltree_init(&fox.tree, profile, &options->filter,
		      profile->moment_count && moments_complete(profile));
	meta_put(&fox);
	libs_put(&fox);
	strbuf_puts(&fox.text, "],\n\"threads\":[\n");
	threads_put(&fox);
	if (filter_is_empty(&options->filter) && profile->loss_count)
		losses_put(&fox);
	strbuf_puts(&fox.text, "]}\n");
	flush(&fox);
	calltree_deinit(&fox.tree);
	strbuf_deinit(&fox.text);
	return 0;
}

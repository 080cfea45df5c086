// SPDX-License-Identifier: BSD-2-Clause
/*
 * The data of a page; viewer/README.md documents it. Texts are numbers of a list of strings, and
 * rows lie by column, so that what is alike lies together and compresses well. A million call paths
 * are a few arrays of numbers to the browser.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/calltree.h"
#include "analyse/moments.h"
#include "analyse/names.h"
#include "base/map.h"
#include "base/mem.h"
#include "report/json.h"
#include "report/page.h"
#include "report/source.h"

/* Most values of one cell that are sent, which is more than fit on a line. */
enum { VALUES_MAX = 8 };

struct writer {
	struct strbuf *out;
	struct strtab strings;
};

static const char *const kind_names[] = {
	[COLUMN_TEXT] = "text",	      [COLUMN_COUNT] = "count", [COLUMN_INTEGER] = "integer",
	[COLUMN_ADDRESS] = "address", [COLUMN_SHARE] = "share", [COLUMN_DELTA] = "delta",
	[COLUMN_REAL] = "real",	      [COLUMN_BOOL] = "bool",	[COLUMN_VALUES] = "values",
};

static const char *const use_names[] = {
	[COLUMN_EVERYWHERE] = "everywhere",
	[COLUMN_DATA] = "data",
	[COLUMN_PEOPLE] = "people",
};

static void text_put(struct writer *writer, const char *text)
{
	strbuf_printf(writer->out, "%u", strtab_add(&writer->strings, text ? text : ""));
}

static void number_put(struct writer *writer, size_t index, uint64_t number)
{
	strbuf_printf(writer->out, "%s%" PRIu64, index ? "," : "", number);
}

/* Neighbours are close to each other: the difference has fewer digits. */
static void difference_put(struct writer *writer, size_t index, uint32_t last, uint32_t number)
{
	strbuf_printf(writer->out, "%s%" PRId64, index ? "," : "", (int64_t)number - last);
}

static void values_put(struct writer *writer, const struct common_values *values)
{
	strbuf_putc(writer->out, '[');
	text_put(writer, values->label);
	strbuf_printf(writer->out, ",%zu,[", values->count);
	for (size_t i = 0; i < values->count && i < VALUES_MAX; i++) {
		const struct common_value *value = &values->items[i];

		strbuf_puts(writer->out, i ? ",[" : "[");
		text_put(writer, value->text);
		strbuf_printf(writer->out, ",%" PRIu64 ",%.6g,%.6g,%.6g]", value->count,
			      value->share, value->low, value->high);
	}
	strbuf_puts(writer->out, "]]");
}

static void cell_put(struct writer *writer, const struct cell *cell, enum column_kind kind)
{
	if (!cell->set) {
		strbuf_puts(writer->out, "null");
		return;
	}
	switch (kind) {
	case COLUMN_TEXT:
		text_put(writer, cell->text);
		break;
	case COLUMN_COUNT:
		strbuf_printf(writer->out, "%" PRIu64, cell->number);
		break;
	case COLUMN_BOOL:
		strbuf_puts(writer->out, cell->number ? "1" : "0");
		break;
	case COLUMN_INTEGER:
		strbuf_printf(writer->out, "%" PRId64, cell->integer);
		break;
	case COLUMN_ADDRESS:
		strbuf_printf(writer->out, "\"0x%" PRIx64 "\"", cell->number);
		break;
	case COLUMN_SHARE:
	case COLUMN_DELTA:
	case COLUMN_REAL:
		strbuf_printf(writer->out, "%.9g", isfinite(cell->real) ? cell->real : 0.0);
		break;
	case COLUMN_VALUES:
		values_put(writer, cell->values);
		break;
	}
}

static void columns_put(struct writer *writer, const struct table *table)
{
	strbuf_puts(writer->out, "\"columns\":[");
	for (size_t i = 0; i < table->column_count; i++) {
		const struct column *column = &table->columns[i];

		strbuf_puts(writer->out, i ? ",{\"name\":" : "{\"name\":");
		json_string_put(writer->out, column->name);
		strbuf_puts(writer->out, ",\"title\":");
		json_string_put(writer->out, column->title);
		strbuf_printf(writer->out,
			      ",\"kind\":\"%s\",\"use\":\"%s\",\"elastic\":%d,\"optional\":%d}",
			      kind_names[column->kind], use_names[column->use], column->elastic,
			      column->optional);
	}
	strbuf_puts(writer->out, "],\n\"data\":[");
	for (size_t i = 0; i < table->column_count; i++) {
		strbuf_puts(writer->out, i ? ",\n[" : "[");
		for (size_t row = 0; row < table->row_count; row++) {
			if (row)
				strbuf_putc(writer->out, ',');
			cell_put(writer, &table_row(table, row)[i], table->columns[i].kind);
		}
		strbuf_putc(writer->out, ']');
	}
	strbuf_putc(writer->out, ']');
}

static void totals_put(struct writer *writer, const struct totals *totals)
{
	strbuf_printf(writer->out, "{\"seen\":%" PRIu64 ",\"kept\":%" PRIu64 ",\"lost\":[",
		      totals->seen, totals->kept);
	for (size_t i = 0; i < totals->loss_count; i++) {
		const struct profile_named_count *loss = &totals->losses[i];

		strbuf_puts(writer->out, i ? ",[" : "[");
		text_put(writer, loss->name);
		strbuf_putc(writer->out, ',');
		text_put(writer, loss->text);
		strbuf_printf(writer->out, ",%" PRIu64 "]", loss->count);
	}
	strbuf_puts(writer->out, "]}");
}

static void table_put(struct writer *writer, const struct table *table, const char *summary,
		      bool nested)
{
	strbuf_puts(writer->out, "{\"view\":");
	json_string_put(writer->out, table->view);
	strbuf_puts(writer->out, ",\"summary\":");
	json_string_put(writer->out, summary);
	strbuf_puts(writer->out, ",\"totals\":");
	totals_put(writer, &table->totals);
	if (table->has_runs) {
		strbuf_puts(writer->out, ",\"runs\":");
		totals_put(writer, &table->runs);
	}
	if (table->empty) {
		strbuf_puts(writer->out, ",\"empty\":");
		text_put(writer, table->empty);
	}
	strbuf_printf(writer->out, ",\"nested\":%d,\"omitted\":%zu,\"level\":%d,\"group\":%d,\n",
		      nested, table->omitted, table->level_column, table->group_column);
	columns_put(writer, table);
	strbuf_putc(writer->out, '}');
}

/* Functions in the order in which the tree names them; *ret: by function, its number + 1. */
static void functions_put(struct writer *writer, const struct calltree *tree, uint32_t *numbers)
{
	ARRAY(uint32_t) used = {};

	for (size_t i = 1; i < tree->nodes.count; i++) {
		uint32_t function = tree->nodes.items[i].function;

		if (!numbers[function]) {
			*array_push(&used) = function;
			numbers[function] = (uint32_t)used.count;
		}
	}
	strbuf_puts(writer->out, ",\n\"functions\":{\"name\":[");
	for (size_t i = 0; i < used.count; i++)
		number_put(writer, i,
			   strtab_add(&writer->strings,
				      functions_name(&tree->functions, used.items[i])));
	strbuf_puts(writer->out, "],\"module\":[");
	for (size_t i = 0; i < used.count; i++)
		number_put(writer, i,
			   strtab_add(&writer->strings,
				      name_of_module(tree->functions.profile,
						     functions_module(&tree->functions,
								      used.items[i]))));
	strbuf_puts(writer->out, "],\"inlined\":[");
	for (size_t i = 0; i < used.count; i++)
		number_put(writer, i, functions_inlined(&tree->functions, used.items[i]));
	strbuf_puts(writer->out, "]}");
	array_deinit(&used);
}

static void nodes_put(struct writer *writer, const struct calltree *tree, const uint32_t *numbers)
{
	strbuf_puts(writer->out, ",\n\"tree\":{\"parent\":[");
	for (size_t i = 1; i < tree->nodes.count; i++)
		strbuf_printf(writer->out, "%s%zu", i > 1 ? "," : "",
			      i - tree->nodes.items[i].parent);
	strbuf_puts(writer->out, "],\n\"function\":[");
	for (size_t i = 1; i < tree->nodes.count; i++)
		number_put(writer, i - 1, numbers[tree->nodes.items[i].function] - 1);
	strbuf_puts(writer->out, "]}");
}

/* With more moments, choosing by time would be too slow in the browser. */
enum { MOMENTS_MAX = 1 << 20 };

static bool is_by_time(const struct profile *profile)
{
	return profile->moment_count && profile->moment_count <= MOMENTS_MAX &&
	       moments_complete(profile);
}

static uint32_t first_second(const struct profile *profile)
{
	uint32_t first = UINT32_MAX;

	for (size_t i = 0; i < profile->tick_count; i++)
		if (profile->ticks[i].second < first)
			first = profile->ticks[i].second;
	return first;
}

static void seconds_put(struct writer *writer, const struct calltree *tree,
			const struct profile *profile)
{
	uint32_t first = first_second(profile), last = 0;

	strbuf_puts(writer->out, "],\n\"second\":[");
	for (size_t i = 0; i < tree->samples.count; i++) {
		uint32_t second = tree->samples.items[i].second;

		/* A moment may begin before the first sample in it. */
		second = second > first ? second - first : 0;
		difference_put(writer, i, last, second);
		last = second;
	}
}

static void samples_put(struct writer *writer, const struct calltree *tree,
			const struct profile *profile, bool by_time)
{
	uint32_t last = 0;

	strbuf_puts(writer->out, ",\n\"samples\":{\"node\":[");
	for (size_t i = 0; i < tree->samples.count; i++) {
		difference_put(writer, i, last, tree->samples.items[i].node);
		last = tree->samples.items[i].node;
	}
	strbuf_puts(writer->out, "],\n\"thread\":[");
	for (size_t i = 0; i < tree->samples.count; i++)
		number_put(writer, i, tree->samples.items[i].thread);
	strbuf_puts(writer->out, "],\n\"count\":[");
	for (size_t i = 0; i < tree->samples.count; i++)
		number_put(writer, i, tree->samples.items[i].count);
	if (by_time)
		seconds_put(writer, tree, profile);
	strbuf_puts(writer->out, "]}");
}

static void tree_put(struct writer *writer, const struct profile *profile)
{
	const struct filter everything = {};
	AUTO(free_ptr) uint32_t *numbers = NULL;
	bool by_time = is_by_time(profile);
	struct calltree tree;

	calltree_init(&tree, profile, &everything, by_time);
	numbers = mem_zalloc((tree.functions.count + 1) * sizeof(*numbers));
	functions_put(writer, &tree, numbers);
	nodes_put(writer, &tree, numbers);
	samples_put(writer, &tree, profile, by_time);
	calltree_deinit(&tree);
}

/* All of them, as samples and ticks number them; entry 0 is nobody. */
static void threads_put(struct writer *writer, const struct profile *profile)
{
	strbuf_puts(writer->out, ",\n\"threads\":{\"pid\":[");
	for (size_t i = 0; i < profile->thread_count; i++)
		number_put(writer, i, profile->processes[profile->threads[i].process].pid);
	strbuf_puts(writer->out, "],\"tid\":[");
	for (size_t i = 0; i < profile->thread_count; i++)
		number_put(writer, i, profile->threads[i].tid);
	strbuf_puts(writer->out, "],\"comm\":[");
	for (size_t i = 0; i < profile->thread_count; i++) {
		const char *comm = profile->threads[i].comm;

		number_put(writer, i, strtab_add(&writer->strings, comm ? comm : ""));
	}
	strbuf_puts(writer->out, "],\"process\":[");
	for (size_t i = 0; i < profile->thread_count; i++) {
		const char *comm = profile->processes[profile->threads[i].process].comm;

		number_put(writer, i, strtab_add(&writer->strings, comm ? comm : ""));
	}
	strbuf_puts(writer->out, "]}");
}

/* A commit before the first sample belongs to it. */
static void cpu_ticks_put(struct writer *writer, const struct profile *profile, uint32_t first)
{
	strbuf_puts(writer->out, ",\n\"cpus\":{\"second\":[");
	for (size_t i = 0; i < profile->cpu_tick_count; i++) {
		uint32_t second = profile->cpu_ticks[i].second;

		number_put(writer, i, second > first ? second - first : 0);
	}
	strbuf_puts(writer->out, "],\"cpu\":[");
	for (size_t i = 0; i < profile->cpu_tick_count; i++)
		number_put(writer, i, profile->cpu_ticks[i].cpu);
	strbuf_puts(writer->out, "],\"count\":[");
	for (size_t i = 0; i < profile->cpu_tick_count; i++)
		number_put(writer, i, profile->cpu_ticks[i].count);
	strbuf_puts(writer->out, "]}");
}

/* Seconds from the first one on. */
static void ticks_put(struct writer *writer, const struct profile *profile)
{
	uint32_t first = profile->tick_count ? first_second(profile) : 0;

	strbuf_printf(writer->out, ",\n\"ticks\":{\"first\":%" PRIu32 ",\"second\":[", first);
	for (size_t i = 0; i < profile->tick_count; i++)
		number_put(writer, i, profile->ticks[i].second - first);
	strbuf_puts(writer->out, "],\"thread\":[");
	for (size_t i = 0; i < profile->tick_count; i++)
		number_put(writer, i, profile->ticks[i].thread);
	strbuf_puts(writer->out, "],\"count\":[");
	for (size_t i = 0; i < profile->tick_count; i++)
		number_put(writer, i, profile->ticks[i].count);
	strbuf_puts(writer->out, "]}");
	cpu_ticks_put(writer, profile, first);
}

/* "file:line" and text of each line that the instructions come from, where the file can be read. */
static void sources_put(struct writer *writer, struct sources *sources, uint32_t module,
			const struct table *table)
{
	int file = table_column(table, "file"), line = table_column(table, "line");
	struct strtab seen = {};
	const char *comma = "";

	strbuf_puts(writer->out, ",\"sources\":[");
	for (size_t i = 0; i < table->row_count && file >= 0 && line >= 0; i++) {
		const struct cell *row = table_row(table, i);
		AUTO(free_ptr) char *place = NULL;
		const char *text;
		size_t before = seen.count;

		if (!row[file].set || !row[line].set)
			continue;
		place = mem_printf("%s:%" PRId64, row[file].text, row[line].integer);
		if (strtab_add(&seen, place) < before)
			continue;
		text = sources_line(sources, module, row[file].text, (uint32_t)row[line].integer);
		if (!text)
			continue;
		strbuf_printf(writer->out, "%s[", comma);
		text_put(writer, place);
		strbuf_putc(writer->out, ',');
		text_put(writer, text);
		strbuf_putc(writer->out, ']');
		comma = ",";
	}
	strbuf_putc(writer->out, ']');
	strtab_deinit(&seen);
}

static void codes_put(struct writer *writer, const struct page_profile *page)
{
	const struct profile *profile = page->profile;
	AUTO(sources_destroy_auto) struct sources *sources = sources_create(profile);
	const char *comma = "";

	strbuf_puts(writer->out, ",\n\"codes\":[");
	array_each(&page->codes, code) {
		uint32_t module = profile->symbols[code->symbol].module;

		strbuf_printf(writer->out, "%s{\"symbol\":", comma);
		text_put(writer, name_of_symbol(profile, code->symbol));
		strbuf_puts(writer->out, ",\"module\":");
		text_put(writer, name_of_module(profile, module));
		sources_put(writer, sources, module, code->table);
		strbuf_puts(writer->out, ",\"table\":");
		table_put(writer, code->table, "", true);
		strbuf_putc(writer->out, '}');
		comma = ",\n";
	}
	strbuf_putc(writer->out, ']');
}

/* Amounts of one metric, or what else rows have, by column. */
static void flame_amounts_put(struct writer *writer, const struct flame *flame)
{
	strbuf_puts(writer->out, "],\n\"amounts\":[");
	for (size_t metric = 0; metric < flame->metric_count; metric++) {
		strbuf_puts(writer->out, metric ? ",\n[" : "[");
		for (size_t i = 0; i < flame->rows.count; i++)
			number_put(writer, i, flame->rows.items[i].amounts[metric]);
		strbuf_putc(writer->out, ']');
	}
	strbuf_puts(writer->out, "]}");
}

static void flame_rows_put(struct writer *writer, const struct flame *flame)
{
	uint32_t last = 0;

	strbuf_puts(writer->out, "},\n\"rows\":{\"node\":[");
	for (size_t i = 0; i < flame->rows.count; i++) {
		difference_put(writer, i, last, flame->rows.items[i].node);
		last = flame->rows.items[i].node;
	}
	strbuf_puts(writer->out, "],\n\"thread\":[");
	for (size_t i = 0; i < flame->rows.count; i++)
		number_put(writer, i, flame->rows.items[i].thread);
	strbuf_puts(writer->out, "],\n\"label\":[");
	for (size_t i = 0; i < flame->rows.count; i++)
		number_put(writer, i,
			   strtab_add(&writer->strings,
				      strtab_get(&flame->texts, flame->rows.items[i].label)));
	flame_amounts_put(writer, flame);
}

static void flame_functions_put(struct writer *writer, const struct flame *flame)
{
	strbuf_puts(writer->out, "],\n\"functions\":{\"name\":[");
	for (size_t i = 0; i < flame->functions.count; i++)
		number_put(writer, i,
			   strtab_add(&writer->strings,
				      strtab_get(&flame->texts, flame->functions.items[i].name)));
	strbuf_puts(writer->out, "],\"module\":[");
	for (size_t i = 0; i < flame->functions.count; i++)
		number_put(writer, i,
			   strtab_add(&writer->strings,
				      strtab_get(&flame->texts, flame->functions.items[i].module)));
	strbuf_puts(writer->out, "]},\n\"tree\":{\"parent\":[");
	for (size_t i = 1; i < flame->nodes.count; i++)
		number_put(writer, i - 1, i - flame->nodes.items[i].parent);
	strbuf_puts(writer->out, "],\n\"function\":[");
	for (size_t i = 1; i < flame->nodes.count; i++)
		number_put(writer, i - 1, flame->nodes.items[i].function);
	strbuf_putc(writer->out, ']');
}

static void flame_put(struct writer *writer, const struct flame *flame)
{
	strbuf_printf(writer->out, "{\"name\":\"%s\",\"metrics\":[", flame->name);
	for (size_t i = 0; i < flame->metric_count; i++) {
		const struct flame_metric *metric = &flame->metrics[i];

		strbuf_printf(writer->out, "%s{\"name\":\"%s\",\"title\":\"%s\",\"unit\":\"%s\"}",
			      i ? "," : "", metric->name, metric->title, metric->unit);
	}
	flame_functions_put(writer, flame);
	flame_rows_put(writer, flame);
	strbuf_putc(writer->out, '}');
}

static void flames_put(struct writer *writer, const struct page_profile *page)
{
	const char *comma = "";

	strbuf_puts(writer->out, ",\n\"flames\":[");
	array_each(&page->flames, flame) {
		strbuf_puts(writer->out, comma);
		flame_put(writer, flame);
		comma = ",\n";
	}
	strbuf_putc(writer->out, ']');
}

/* A column of numbers, one of each item. */
#define COLUMN_PUT(writer, name, list, expression)                                                 \
	do {                                                                                       \
		size_t index_ = 0;                                                                 \
		strbuf_printf((writer)->out, ",\n\"%s\":[", name);                                 \
		array_each(list, it)                                                               \
			number_put(writer, index_++, expression);                                  \
		strbuf_putc((writer)->out, ']');                                                   \
	} while (0)

static void course_threads_put(struct writer *writer, const struct course *course)
{
	strbuf_printf(writer->out, "\"threads\":{\"omitted\":%zu", course->omitted);
	COLUMN_PUT(writer, "thread", &course->threads, it->thread);
	COLUMN_PUT(writer, "instructions", &course->threads, it->instructions);
	COLUMN_PUT(writer, "stretches", &course->threads, it->count);
	strbuf_puts(writer->out, "},\n\"stretches\":{\"levels\":2");
	COLUMN_PUT(writer, "level", &course->stretches, it->level);
	COLUMN_PUT(writer, "cycle", &course->stretches, it->cycle);
	COLUMN_PUT(writer, "length", &course->stretches, it->end - it->begin);
	COLUMN_PUT(writer, "trips", &course->stretches, it->trips);
	COLUMN_PUT(writer, "hot", &course->stretches, it->hot);
	COLUMN_PUT(writer, "hot_instructions", &course->stretches, it->hot_instructions);
}

static void course_cycles_put(struct writer *writer, const struct course *course)
{
	strbuf_printf(writer->out, "},\n\"strata\":{\"count\":%zu", course->strata.count);
	COLUMN_PUT(writer, "weight", &course->strata, it->weight);
	COLUMN_PUT(writer, "parts", &course->strata, it->count);
	strbuf_printf(writer->out, "},\n\"parts\":{\"count\":%zu", course->parts.count);
	COLUMN_PUT(writer, "path", &course->parts, it->path);
	COLUMN_PUT(writer, "trips", &course->parts, it->trips);
	COLUMN_PUT(writer, "instructions", &course->parts, it->instructions);
	COLUMN_PUT(writer, "various", &course->parts, it->various);
	strbuf_printf(writer->out, "},\n\"paths\":{\"count\":%zu", course->paths.count);
	COLUMN_PUT(writer, "number", &course->paths, it->number);
	COLUMN_PUT(writer, "weight", &course->paths, it->weight);
	COLUMN_PUT(writer, "steps", &course->paths, it->count);
}

/* "dir/file.c:3-7"; "" where it is not known. */
static uint32_t step_place(struct writer *writer, const struct profile *profile,
			   const struct course_step *step)
{
	const char *file = name_of_file(profile, step->file);
	AUTO(free_ptr) char *text = NULL;

	if (!file || !step->line_low)
		return strtab_add(&writer->strings, "");
	text = step->line_high > step->line_low
		       ? mem_printf("%s:%u-%u", file, step->line_low, step->line_high)
		       : mem_printf("%s:%u", file, step->line_low);
	return strtab_add(&writer->strings, text);
}

/* What is left of a long path has no place. */
static uint32_t step_name(struct writer *writer, const struct profile *profile,
			  const struct course_step *step)
{
	return strtab_add(
		&writer->strings,
		step->location ? name_of_symbol(profile, location_function(profile, step->location))
			       : "[further functions]");
}

static void course_steps_put(struct writer *writer, const struct profile *profile,
			     const struct course *course)
{
	strbuf_printf(writer->out, "},\n\"steps\":{\"count\":%zu", course->steps.count);
	COLUMN_PUT(writer, "instructions", &course->steps, it->instructions);
	COLUMN_PUT(writer, "name", &course->steps, step_name(writer, profile, it));
	COLUMN_PUT(writer, "module", &course->steps,
		   strtab_add(&writer->strings,
			      name_of_module(profile, profile->locations[it->location].module)));
	COLUMN_PUT(writer, "place", &course->steps, step_place(writer, profile, it));
	strbuf_putc(writer->out, '}');
}

static void course_put(struct writer *writer, const struct page_profile *page)
{
	if (!page->course.threads.count)
		return;
	strbuf_puts(writer->out, ",\n\"course\":{");
	course_threads_put(writer, &page->course);
	course_cycles_put(writer, &page->course);
	course_steps_put(writer, page->profile, &page->course);
	strbuf_putc(writer->out, '}');
}

static void facts_put(struct writer *writer, const struct profile *profile, uint32_t recording)
{
	const char *comma = "";

	strbuf_puts(writer->out, ",\"facts\":[");
	for (size_t i = 0; i < profile->fact_count; i++) {
		const struct profile_fact *fact = &profile->facts[i];

		if (fact->recording != recording)
			continue;
		strbuf_printf(writer->out, "%s[", comma);
		json_string_put(writer->out, fact->key);
		strbuf_putc(writer->out, ',');
		json_string_put(writer->out, fact->value);
		strbuf_putc(writer->out, ']');
		comma = ",";
	}
	strbuf_putc(writer->out, ']');
}

static void recordings_put(struct writer *writer, const struct profile *profile)
{
	const char *comma = "";

	strbuf_puts(writer->out, ",\n\"recordings\":[");
	for (size_t i = 1; i < profile->recording_count; i++) {
		const struct profile_recording *recording = &profile->recordings[i];
		const struct totals totals = { recording->seen, recording->kept, recording->kept,
					       recording->losses, recording->loss_count };

		if (!recording->id)
			continue;
		strbuf_printf(writer->out, "%s{\"kind\":\"%s\",\"unit\":", comma,
			      recording_kind_row(recording->kind)->text);
		json_string_put(writer->out, recording->unit);
		strbuf_printf(writer->out,
			      ",\"started\":%" PRIu64 ",\"duration\":%" PRIu64
			      ",\"parts\":%u,\"totals\":",
			      recording->started, recording->duration, recording->parts);
		totals_put(writer, &totals);
		facts_put(writer, profile, recording->id);
		strbuf_putc(writer->out, '}');
		comma = ",\n";
	}
	strbuf_puts(writer->out, "]");
}

static void machines_put(struct writer *writer, const struct profile *profile)
{
	const char *comma = "";

	strbuf_puts(writer->out, ",\n\"machines\":[");
	for (size_t i = 1; i < profile->machine_count; i++) {
		const struct profile_machine *machine = &profile->machines[i];

		if (!machine->id)
			continue;
		strbuf_printf(writer->out, "%s{\"host\":", comma);
		json_string_put(writer->out, machine->host);
		strbuf_puts(writer->out, ",\"kernel\":");
		json_string_put(writer->out, machine->kernel);
		strbuf_puts(writer->out, ",\"architecture\":");
		json_string_put(writer->out, machine->architecture);
		strbuf_putc(writer->out, '}');
		comma = ",";
	}
	strbuf_puts(writer->out, "]");
}

static void profile_put(struct writer *writer, const struct page_profile *page)
{
	const struct profile *profile = page->profile;
	const struct totals totals = { profile->seen, profile->kept, profile->kept, profile->losses,
				       profile->loss_count };
	const char *comma = "";

	strbuf_puts(writer->out, "{\"name\":");
	json_string_put(writer->out, page->name);
	strbuf_printf(writer->out, ",\"finished\":%d", profile->finished);
	recordings_put(writer, profile);
	machines_put(writer, profile);
	strbuf_puts(writer->out, ",\"totals\":");
	totals_put(writer, &totals);
	threads_put(writer, profile);
	tree_put(writer, profile);
	ticks_put(writer, profile);
	strbuf_puts(writer->out, ",\n\"tables\":[");
	array_each(&page->tables, it) {
		strbuf_puts(writer->out, comma);
		table_put(writer, it->table, it->summary, it->nested);
		comma = ",\n";
	}
	strbuf_putc(writer->out, ']');
	codes_put(writer, page);
	flames_put(writer, page);
	course_put(writer, page);
	strbuf_putc(writer->out, '}');
}

void page_data(const struct page_content *content, struct strbuf *ret)
{
	struct writer writer = { .out = ret };

	strbuf_puts(ret, "{\"assay\":1,\"version\":");
	json_string_put(ret, content->version);
	strbuf_puts(ret, ",\"profiles\":[");
	for (size_t i = 0; i < content->profile_count; i++) {
		strbuf_puts(ret, i ? ",\n" : "");
		profile_put(&writer, &content->profiles[i]);
	}
	strbuf_puts(ret, "],\n\"difference\":");
	if (content->difference)
		table_put(&writer, content->difference, "what changed from the first to the second",
			  false);
	else
		strbuf_puts(ret, "null");
	strbuf_puts(ret, ",\n\"strings\":[");
	for (uint32_t i = 0; i < writer.strings.count; i++) {
		strbuf_puts(ret, i ? ",\n" : "");
		json_string_put(ret, strtab_get(&writer.strings, i));
	}
	strbuf_puts(ret, "]}\n");
	strtab_deinit(&writer.strings);
}

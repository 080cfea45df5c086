// SPDX-License-Identifier: BSD-2-Clause
/*
 * The phases of threads (phases/phases.h), found from the order of execution when they are asked
 * for: nothing is recorded for them.
 *
 * The paths of a process become a table of cycles, as the layers had it when they were recorded; a
 * thread's rows are then handed to the detectors one repeated path after the other.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/heats.h"
#include "analyse/names.h"
#include "analyse/order.h"
#include "analyse/steps.h"
#include "analyse/views.h"
#include "base/err.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "phases/phases.h"

enum { HOT_SHOWN = 3 };

/* Of the process in hand. */
struct phase_code {
	struct order_code order;
	struct layer_level level;
	struct phases_code *code;
	ARRAY(uint32_t) slots; /* by path's number */
	ARRAY(uint64_t) numbers; /* by slot */
};

struct phase_view {
	const struct profile *profile;
	const struct view_request *request;
	struct table *table;
	struct heats heats;
	struct phase_code *code;
	struct phases *phases; /* of the thread in hand */
	uint32_t thread;
	size_t shown; /* phases */
	/* Adds the rows of the thread in hand. */
	void (*show)(struct phase_view *view, const struct phases_result *result);
};

/* --- What runs -------------------------------------------------------------------------------- */

static void blocks_set(struct phase_view *view, struct phases_code *code)
{
	const struct profile *profile = view->profile;
	const struct heat none = {};

	phases_block_set(code, 0, 0, 0, &none);
	for (uint32_t i = 1; i < profile->block_count; i++) {
		const struct profile_location *location =
			&profile->locations[profile->blocks[i].location];
		const char *module = name_of_module(profile, location->module);
		uint64_t name = hash_bytes(module, strlen(module));
		uint32_t symbol = location_function(profile, profile->blocks[i].location);

		phases_block_set(code, i, hash64_pair(name, location->address),
				 symbol ? hash64_pair(name, profile->symbols[symbol].address)
					: name,
				 heats_of(&view->heats, i, NULL));
	}
}

/* Each symbol of a path is a block, so that its segment is this block alone. */
static void symbols_set(const struct phase_view *view, struct phases_code *code)
{
	for (uint32_t i = 1; i < view->profile->block_count; i++)
		phases_segment_set(code, i, &i, 1);
}

/* A path that has several numbers has one slot. */
static void paths_set(struct phase_code *code)
{
	*array_push(&code->slots) = 0;
	*array_push(&code->numbers) = 0;
	for (uint64_t i = 1; i < code->order.paths.ends.count; i++) {
		const uint32_t *blocks = NULL;
		size_t length = sequence_path(&code->order.paths, i, &blocks);
		uint32_t slot = length ? cycles_intern(&code->level.cycles, blocks, length, true)
				       : 0;

		*array_push(&code->slots) = slot;
		if (slot < code->numbers.count)
			continue;
		*array_push(&code->numbers) = i;
		cycles_at(&code->level.cycles, slot)->weight = order_path_weight(&code->order, i);
	}
}

static int code_init(struct phase_view *view, struct phase_code *code, uint32_t process)
{
	int err = order_code_init(&code->order, view->profile, process);

	err = err ? err : cycles_init(&code->level.cycles, &(struct cycles_options){});
	if (err)
		return err;
	code->code = phases_code_create(&code->level);
	blocks_set(view, code->code);
	symbols_set(view, code->code);
	paths_set(code);
	return 0;
}

static void code_deinit(struct phase_code *code)
{
	if (code->code) {
		phases_code_destroy(code->code);
		cycles_deinit(&code->level.cycles);
	}
	order_code_deinit(&code->order);
	array_deinit(&code->slots);
	array_deinit(&code->numbers);
}

/* --- Rows ------------------------------------------------------------------------------------- */

enum {
	H_THREAD,
	H_PHASE,
	H_FROM,
	H_TO,
	H_PART,
	H_WHEN,
	H_SEEN,
	H_HOT_PART,
	H_PATH,
	H_WHERE,
	H_BEGIN = H_WHERE + STEP_COLUMNS,
	H_END,
	H_SHARE,
	H_LABEL,
	H_NUMBER,
	H_DETECTORS,
	H_PID,
	H_TID,
	H_RANK,
	H_HOT_TRIPS,
	H_HOT_INSTRUCTIONS,
	H_KINDS,
	H_COLUMNS = H_KINDS + HEAT_KIND_COUNT
};

static const struct column phase_columns[] = {
	[H_THREAD] = { "thread", "TID", COLUMN_INTEGER, COLUMN_PEOPLE, .optional = true },
	[H_PHASE] = { "shown_label", "Phase", COLUMN_TEXT, COLUMN_PEOPLE },
	[H_FROM] = { "from", "From", COLUMN_COUNT, COLUMN_PEOPLE },
	[H_TO] = { "to", "To", COLUMN_COUNT, COLUMN_PEOPLE, .spare = 2 },
	[H_PART] = { "part", "Share", COLUMN_SHARE, COLUMN_PEOPLE },
	[H_WHEN] = { "when", "When", COLUMN_TEXT, COLUMN_PEOPLE, .spare = 3 },
	[H_SEEN] = { "seen_by", "Begins with", COLUMN_TEXT, COLUMN_PEOPLE, true, .spare = 1,
		     .comfort = 14 },
	[H_HOT_PART] = { "hot_share", "Hot", COLUMN_SHARE },
	[H_PATH] = { "path", "Path", COLUMN_INTEGER },
	[H_WHERE] = STEP_COLUMN_LIST,
	[H_BEGIN] = { "begin", "", COLUMN_COUNT, COLUMN_DATA },
	[H_END] = { "end", "", COLUMN_COUNT, COLUMN_DATA },
	[H_SHARE] = { "share", "", COLUMN_SHARE, COLUMN_DATA },
	[H_LABEL] = { "label", "", COLUMN_INTEGER, COLUMN_DATA },
	[H_NUMBER] = { "phase", "", COLUMN_INTEGER, COLUMN_DATA },
	[H_DETECTORS] = { "detectors", "", COLUMN_TEXT, COLUMN_DATA },
	[H_PID] = { "pid", "", COLUMN_INTEGER, COLUMN_DATA },
	[H_TID] = { "tid", "", COLUMN_INTEGER, COLUMN_DATA },
	[H_RANK] = { "rank", "", COLUMN_INTEGER, COLUMN_DATA },
	[H_HOT_TRIPS] = { "trips", "", COLUMN_COUNT, COLUMN_DATA },
	[H_HOT_INSTRUCTIONS] = { "instructions", "", COLUMN_COUNT, COLUMN_DATA },
#define X(name, text, what, amount)                                                                \
	[H_KINDS + HEAT_##name] = { "phase_" text, "", COLUMN_COUNT, COLUMN_DATA },
	HEAT_KINDS(X)
#undef X
};

static const char *detectors_text(struct table *table, unsigned detectors)
{
	struct strbuf text = {};

	for (enum phases_detector i = 0; i < PHASES_DETECTOR_COUNT; i++)
		if (detectors & 1u << i)
			strbuf_printf(&text, "%s%s", text.length ? ", " : "",
				      phases_detector_text(i));
	return text.text ? table_own(table, text.text) : "";
}

static void phase_fill(const struct phase_view *view, const struct phase *phase, size_t number,
		       struct cell *row)
{
	const struct profile_thread *thread = &view->profile->threads[view->thread];

	row[H_BEGIN] = cell_number(phase->begin);
	row[H_END] = cell_number(phase->end);
	row[H_SHARE] = cell_real(share_of(phase->end - phase->begin, view->table->totals.seen));
	row[H_LABEL] = cell_integer(phase->label);
	for (unsigned i = 0; i < HEAT_KIND_COUNT; i++)
		row[H_KINDS + i] = cell_number(phase->heat.of[i]);
	row[H_NUMBER] = cell_integer((int64_t)number);
	row[H_DETECTORS] = cell_text(detectors_text(view->table, phase->detectors));
	row[H_PID] = cell_integer(view->profile->processes[thread->process].pid);
	row[H_TID] = cell_integer(thread->tid);
}

/* Phases that do the same have the same letter. */
static const char *label_text(struct table *table, unsigned label)
{
	return table_own(table,
			 label < 26 ? mem_printf("%c", 'A' + (int)label) : mem_printf("%u", label));
}

static void phase_head_fill(const struct phase_view *view, const struct phase *phase,
			    struct cell *row)
{
	row[H_THREAD] = row[H_TID];
	row[H_PHASE] = cell_text(label_text(view->table, phase->label));
	row[H_FROM] = row[H_BEGIN];
	row[H_TO] = row[H_END];
	row[H_PART] = row[H_SHARE];
	row[H_WHEN] = cell_text(view_when_text(
		view->table, phase->begin, phase->end,
		order_thread_end(view->profile, view->thread).units[SEQUENCE_INSTRUCTION]));
	row[H_SEEN] = phase->detectors ? row[H_DETECTORS] : cell_text("(start)");
}

static void hot_fill(const struct phase_view *view, const struct phase *phase,
		     const struct phases_hot *hot, struct cell *row)
{
	uint64_t number = view->code->numbers.items[hot->path];
	struct order_blocks blocks = {};
	struct steps steps = {};

	row[H_PATH] = cell_integer((int64_t)number);
	row[H_HOT_PART] = cell_real(share_of(hot->instructions, phase->end - phase->begin));
	row[H_HOT_TRIPS] = cell_number(hot->trips);
	row[H_HOT_INSTRUCTIONS] = cell_number(hot->instructions);
	if (!order_path_blocks(&view->code->order, number, &blocks))
		steps_make(view->profile, &blocks, &steps);
	if (steps.items.count)
		step_fill(view->table, view->profile, &steps.items.items[0], &row[H_WHERE]);
	array_deinit(&blocks.items);
	array_deinit(&steps.items);
}

static void phase_rows_add(const struct phase_view *view, const struct phase *phase, size_t number)
{
	size_t shown = view->request->top ? view->request->top : HOT_SHOWN;

	for (size_t i = 0; i < PHASES_HOT && i < shown; i++) {
		struct cell *row;

		if (i && !phase->hot[i].path)
			break;
		row = table_row_add(view->table);
		phase_fill(view, phase, number, row);
		if (!i)
			phase_head_fill(view, phase, row);
		row[H_RANK] = cell_integer((int64_t)i);
		if (phase->hot[i].path)
			hot_fill(view, phase, &phase->hot[i], row);
	}
}

static void phase_show(struct phase_view *view, const struct phase *phase, size_t number)
{
	if (view->request->limit && view->shown >= view->request->limit) {
		view->table->omitted++;
		return;
	}
	view->shown++;
	phase_rows_add(view, phase, number);
}

static void phases_show(struct phase_view *view, const struct phases_result *result)
{
	for (size_t i = 0; i < result->phases.count; i++)
		phase_show(view, &result->phases.items[i], i);
}

/* --- Timelines -------------------------------------------------------------------------------- */

enum { TIMELINE_WIDTH = 60 };

enum { T_TID, T_WHAT, T_COUNT, T_LINE, T_POSITIONS, T_PID, T_COLUMNS };

static const struct column timeline_columns[] = {
	[T_TID] = { "tid", "TID", COLUMN_INTEGER },
	[T_WHAT] = { "what", "What", COLUMN_TEXT },
	[T_COUNT] = { "count", "Changes", COLUMN_COUNT },
	[T_LINE] = { "timeline", "From its first instruction to its last", COLUMN_TEXT,
		     COLUMN_PEOPLE },
	[T_POSITIONS] = { "positions", "", COLUMN_TEXT, COLUMN_DATA },
	[T_PID] = { "pid", "", COLUMN_INTEGER, COLUMN_DATA },
};

static size_t timeline_place(uint64_t at, uint64_t all)
{
	size_t place = (size_t)((double)at * TIMELINE_WIDTH / (double)all);

	return place < TIMELINE_WIDTH ? place : TIMELINE_WIDTH - 1;
}

static void timeline_row_add(struct phase_view *view, const char *what, size_t count,
			     const char *line, struct strbuf *positions)
{
	const struct profile_thread *thread = &view->profile->threads[view->thread];
	struct cell *row = table_row_add(view->table);

	row[T_TID] = cell_integer(thread->tid);
	row[T_PID] = cell_integer(view->profile->processes[thread->process].pid);
	row[T_WHAT] = cell_text(what);
	row[T_COUNT] = cell_number(count);
	row[T_LINE] = cell_text(table_own(view->table, mem_strdup(line)));
	row[T_POSITIONS] = cell_text(table_own(view->table, mem_strdup(strbuf_text(positions))));
	strbuf_deinit(positions);
}

static void position_put(struct strbuf *positions, uint64_t at)
{
	strbuf_printf(positions, "%s%" PRIu64, positions->length ? "," : "", at);
}

/* The letter of each phase, as often as it is long; once at least, as long as there is room. */
static void timeline_phases_show(struct phase_view *view, const struct phases_result *result)
{
	char line[TIMELINE_WIDTH + 1] = {};
	struct strbuf positions = {};
	size_t first = 0;

	for (size_t i = 0; i < result->phases.count; i++) {
		const struct phase *phase = &result->phases.items[i];
		size_t place = timeline_place(phase->begin, result->instructions);

		first = place > first ? place : first;
		if (first < TIMELINE_WIDTH)
			memset(line + first, phase->label < 26 ? 'A' + (int)phase->label : '*',
			       TIMELINE_WIDTH - first);
		first++;
		if (i)
			position_put(&positions, phase->begin);
	}
	timeline_row_add(view, "phases", result->phases.count - 1, line, &positions);
}

/* Where a detector sees a change: with enough others, or alone. */
static void timeline_detector_show(struct phase_view *view, const struct phases_result *result,
				   enum phases_detector detector)
{
	char line[TIMELINE_WIDTH + 1] = {};
	struct strbuf positions = {};
	size_t count = 0;

	memset(line, '.', TIMELINE_WIDTH);
	array_each(&result->boundaries, boundary) {
		char *place = &line[timeline_place(boundary->at, result->instructions)];

		if (!(boundary->detectors & 1u << detector))
			continue;
		*place = boundary->kept || *place == '|' ? '|' : ':';
		position_put(&positions, boundary->at);
		count++;
	}
	timeline_row_add(view, phases_detector_text(detector), count, line, &positions);
}

static void timeline_show(struct phase_view *view, const struct phases_result *result)
{
	if (view->request->limit && view->shown >= view->request->limit) {
		view->table->omitted++;
		return;
	}
	view->shown++;
	if (!result->instructions)
		return;
	timeline_phases_show(view, result);
	for (enum phases_detector i = 0; i < PHASES_DETECTOR_COUNT; i++)
		if (!view->request->detectors || view->request->detectors & 1u << i)
			timeline_detector_show(view, result, i);
}

/* --- Mix -------------------------------------------------------------------------------------- */

enum {
	M_INSTRUCTIONS,
	M_SHARE,
	M_LABEL,
	M_FROM,
	M_TID,
	M_PARTS,
	M_KINDS = M_PARTS + HEAT_KIND_COUNT,
	M_LETTER = M_KINDS + HEAT_KIND_COUNT,
	M_END,
	M_PID,
	M_COLUMNS
};

static const struct column mix_columns[M_COLUMNS] = {
	[M_INSTRUCTIONS] = { "all", "Instructions", COLUMN_COUNT, COLUMN_PEOPLE },
	[M_SHARE] = { "share", "Share", COLUMN_SHARE },
	[M_LABEL] = { "shown_label", "Phase", COLUMN_TEXT, COLUMN_PEOPLE },
	[M_FROM] = { "begin", "From", COLUMN_COUNT },
	[M_TID] = { "tid", "TID", COLUMN_INTEGER },
#define X(name, text, what, amount)                                                                \
	[M_KINDS + HEAT_##name] = { text, "", COLUMN_COUNT, COLUMN_DATA },                         \
		   [M_PARTS + HEAT_##name] = { text "_part", text, COLUMN_SHARE, COLUMN_PEOPLE,    \
					       .optional = true },
	HEAT_KINDS(X)
#undef X
		[M_LETTER] = { "label", "", COLUMN_INTEGER, COLUMN_DATA },
	[M_END] = { "end", "", COLUMN_COUNT, COLUMN_DATA },
	[M_PID] = { "pid", "", COLUMN_INTEGER, COLUMN_DATA },
};

static void mix_row_add(struct phase_view *view, const struct phase *phase)
{
	const struct profile_thread *thread = &view->profile->threads[view->thread];
	struct cell *row = table_row_add(view->table);
	uint64_t all = phase->end - phase->begin;

	row[M_INSTRUCTIONS] = cell_number(all);
	row[M_SHARE] = cell_real(share_of(all, view->table->totals.seen));
	row[M_LABEL] = cell_text(label_text(view->table, phase->label));
	row[M_LETTER] = cell_integer(phase->label);
	row[M_FROM] = cell_number(phase->begin);
	row[M_END] = cell_number(phase->end);
	row[M_TID] = cell_integer(thread->tid);
	row[M_PID] = cell_integer(view->profile->processes[thread->process].pid);
	for (unsigned i = 0; i < HEAT_KIND_COUNT; i++) {
		row[M_KINDS + i] = cell_number(phase->heat.of[i]);
		if (i != HEAT_INSTRUCTIONS && phase->heat.of[i])
			row[M_PARTS + i] = cell_real(share_of(phase->heat.of[i], all));
	}
}

static void mix_show(struct phase_view *view, const struct phases_result *result)
{
	for (size_t i = 0; i < result->phases.count; i++)
		mix_row_add(view, &result->phases.items[i]);
}

/* --- Threads ---------------------------------------------------------------------------------- */

static int row_take(void *context, const struct profile_flow *row,
		    const struct sequence_position *begin, const struct sequence_repeats *repeats)
{
	struct phase_view *view = context;

	array_each(&repeats->items, item)
		phases_add(view->phases, view->code->slots.items[item->path], item->trips);
	return 0;
}

static int thread_take(struct phase_view *view, uint32_t thread)
{
	struct phases_result result = {};
	int err;

	view->thread = thread;
	view->phases = phases_create(view->code->code, &(struct phases_options){});
	err = order_walk(&view->code->order, thread, row_take, view);
	if (!err) {
		phases_finish(view->phases);
		phases_detect(view->phases,
			      &(struct phases_detect_options){
				      .detectors = (unsigned)view->request->detectors,
				      .agree = view->request->agree },
			      &result);
		view->show(view, &result);
		view->table->totals.selected += result.instructions;
		phases_result_deinit(&result);
	}
	phases_destroy(view->phases);
	return err;
}

static bool is_shown(const struct phase_view *view, uint32_t thread)
{
	uint64_t length = order_thread_end(view->profile, thread).units[SEQUENCE_INSTRUCTION];

	if (!length || !filter_thread(&view->request->filter, view->profile, thread))
		return false;
	if (share_of(length, view->table->totals.seen) >= view->request->min_share)
		return true;
	view->table->omitted++;
	return false;
}

static int process_take(struct phase_view *view, uint32_t process)
{
	struct phase_code code = {};
	int err = 0;

	view->code = NULL;
	for (uint32_t i = 1; i < view->profile->thread_count && !err; i++) {
		if (view->profile->threads[i].process != process || !is_shown(view, i))
			continue;
		if (!view->code) {
			view->code = &code;
			err = code_init(view, &code, process);
		}
		err = err ? err : thread_take(view, i);
	}
	if (view->code)
		code_deinit(&code);
	return err;
}

/* A number that is the same in all rows tells nothing apart. */
static void only_thread_hide(struct table *table)
{
	for (size_t i = 1; i < table->row_count; i++)
		if (table_row(table, i)[H_TID].integer != table_row(table, 0)[H_TID].integer)
			return;
	for (size_t i = 0; i < table->row_count; i++)
		table_row(table, i)[H_THREAD] = (struct cell){};
}

static int threads_take(struct phase_view *view)
{
	int err = 0;

	order_totals_set(view->table, view->profile, 0);
	heats_init(&view->heats, view->profile, &view->request->code);
	for (uint32_t i = 1; i < view->profile->process_count && !err; i++)
		err = process_take(view, i);
	heats_deinit(&view->heats);
	return err;
}

int view_phases(const struct profile *profile, const struct view_request *request,
		struct table **ret)
{
	AUTO(table_destroy_auto)
	struct table *table = table_create("phases", phase_columns, H_COLUMNS);
	struct phase_view view = {
		.profile = profile, .request = request, .table = table, .show = phases_show
	};
	int err = threads_take(&view);

	table->group_column = H_TID;
	if (err)
		return err;
	only_thread_hide(table);
	*ret = take_ptr(table);
	return 0;
}

int view_timeline(const struct profile *profile, const struct view_request *request,
		  struct table **ret)
{
	AUTO(table_destroy_auto)
	struct table *table = table_create("timeline", timeline_columns, T_COLUMNS);
	struct phase_view view = {
		.profile = profile, .request = request, .table = table, .show = timeline_show
	};
	int err = threads_take(&view);

	table->group_column = T_TID;
	if (!err)
		*ret = take_ptr(table);
	return err;
}

int mix_by_phase(const struct profile *profile, const struct view_request *request,
		 struct table **ret)
{
	AUTO(table_destroy_auto) struct table *table = table_create("mix", mix_columns, M_COLUMNS);
	struct phase_view view = {
		.profile = profile, .request = request, .table = table, .show = mix_show
	};
	int err = order_check(profile);

	if (!err && filter_has_code(&request->filter))
		err = err_set(-EINVAL, "--by-phase: phases are of threads, which --pid, --tid, "
				       "--uid and --comm choose; leave out --symbol and --module");
	err = err ? err : threads_take(&view);
	table->repeated_columns = M_TID + 1;
	if (!err)
		*ret = take_ptr(table);
	return err;
}

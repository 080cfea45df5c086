// SPDX-License-Identifier: BSD-2-Clause
/*
 * The phases of threads (profile/phases.h), found from the order of execution when they are asked for: nothing is recorded for them.
 *
 * The paths of a process become a table of cycles, as the layers had it when they were recorded; a thread's rows are then handed to the
 * detectors one repeated path after the other.
 */
#include <errno.h>
#include <stdlib.h>

#include "analyse/heats.h"
#include "analyse/names.h"
#include "analyse/order.h"
#include "analyse/steps.h"
#include "analyse/views.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "profile/phases.h"

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
};

/* --- What runs -------------------------------------------------------------------------------------- */

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

static void runs_set(struct phase_code *code)
{
	for (uint32_t i = 1; i < runs_limit(&code->order.runs); i++) {
		const uint32_t *blocks = NULL;
		size_t count = runs_at(&code->order.runs, i, &blocks);

		phases_run_set(code->code, i, blocks, count);
	}
}

/* A path that has several numbers has one slot. */
static void paths_set(struct phase_code *code)
{
	*array_push(&code->slots) = 0;
	*array_push(&code->numbers) = 0;
	for (uint64_t i = 1; i < code->order.paths.ends.count; i++) {
		const uint32_t *runs = NULL;
		size_t length = sequence_path(&code->order.paths, i, &runs);
		uint32_t slot = length ? cycles_intern(&code->level.cycles, runs, length, true) : 0;

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
	runs_set(code);
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

/* --- Rows ------------------------------------------------------------------------------------------- */

enum {
	H_THREAD,
	H_PHASE,
	H_FROM,
	H_TO,
	H_PART,
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
	[H_THREAD] = { "thread", "TID", COLUMN_INTEGER, COLUMN_PEOPLE },
	[H_PHASE] = { "shown_label", "Phase", COLUMN_TEXT, COLUMN_PEOPLE },
	[H_FROM] = { "from", "From", COLUMN_COUNT, COLUMN_PEOPLE },
	[H_TO] = { "to", "To", COLUMN_COUNT, COLUMN_PEOPLE },
	[H_PART] = { "part", "Share", COLUMN_SHARE, COLUMN_PEOPLE },
	[H_SEEN] = { "seen_by", "Begins with", COLUMN_TEXT, COLUMN_PEOPLE },
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
static void phase_head_fill(const struct phase_view *view, const struct phase *phase,
			    struct cell *row)
{
	char *letter = phase->label < 26 ? mem_printf("%c", 'A' + (int)phase->label)
					 : mem_printf("%u", phase->label);

	row[H_THREAD] = row[H_TID];
	row[H_PHASE] = cell_text(table_own(view->table, letter));
	row[H_FROM] = row[H_BEGIN];
	row[H_TO] = row[H_END];
	row[H_PART] = row[H_SHARE];
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

/* --- Threads ---------------------------------------------------------------------------------------- */

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
		phases_detect(view->phases, &(struct phases_detect_options){}, &result);
		for (size_t i = 0; i < result.phases.count; i++)
			phase_rows_add(view, &result.phases.items[i], i);
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

int trace_phases(const struct profile *profile, const struct view_request *request,
		 struct table **ret)
{
	AUTO(table_destroy_auto)
	struct table *table = table_create("phases", phase_columns, H_COLUMNS);
	struct phase_view view = { .profile = profile, .request = request, .table = table };
	int err = 0;

	order_totals_set(table, profile, 0);
	table->group_column = H_TID;
	heats_init(&view.heats, profile, &request->code);
	for (uint32_t i = 1; i < profile->process_count && !err; i++)
		err = process_take(&view, i);
	heats_deinit(&view.heats);
	if (!err)
		*ret = take_ptr(table);
	return err;
}

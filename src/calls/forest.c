// SPDX-License-Identifier: BSD-2-Clause
#include "calls/forest.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

/* A record of a trace, decoded. */
struct taken {
	struct call_event event;
	struct call_amount now[CALL_METRICS_MAX];
	const char *payload;
	size_t payload_size;
};

static void thread_grow(struct call_tree *tree)
{
	uint32_t count = tree->head->count;

	if (count & (count - 1))
		return; /* there is room up to the next power of two */
	tree->nodes = mem_realloc(tree->nodes, 2 * (size_t)count, tree->node_size);
}

static struct call_thread *thread_create(const struct call_forest *forest, uint32_t number,
					 const struct call_amount *now)
{
	const struct call_forest_options *options = &forest->options;
	struct call_thread *thread = mem_zalloc(sizeof(*thread));
	struct call_tree_options tree = { .metrics = forest->trace.metrics,
					  .limit = options->node_limit,
					  .depth_limit = options->depth_limit,
					  .prune_permille = options->prune_permille,
					  .rule = options->rule };

	thread->number = number;
	thread->tick = 1;
	thread->tree.head = &thread->head;
	thread->tree.weighs_itself = forest->trace.weighs_itself;
	thread->tree.grow = thread_grow;
	thread->tree.nodes = mem_alloc(call_node_size(tree.metrics));
	thread->tree.frames =
		mem_zalloc(((size_t)options->depth_limit + 2) * sizeof(struct call_frame));
	call_tree_init(&thread->tree, &tree);
	call_tree_start(&thread->tree, now);
	return thread;
}

static void thread_destroy(struct call_thread *thread)
{
	free(thread->tree.nodes);
	free(thread->tree.frames);
	free(thread->name);
	array_each(&thread->tasks, task)
		free(*task);
	array_deinit(&thread->tasks);
	free(thread);
}

/* As it was recorded, but no larger than the reader wants to have it. */
static uint32_t limit_of(uint32_t own, uint32_t recorded)
{
	return recorded && recorded < own ? recorded : own;
}

static void options_from(struct call_forest_options *options, const struct call_trace_head *trace)
{
	options->node_limit = limit_of(options->node_limit, trace->node_limit);
	options->depth_limit = limit_of(options->depth_limit, trace->depth_limit);
	if (trace->prune_permille && trace->prune_permille <= CALL_PERMILLE)
		options->prune_permille = trace->prune_permille;
	if (trace->rule <= CALL_STACK_BOUND && trace->rule != CALL_STACK_UNKNOWN)
		options->rule = (enum call_stack_rule)trace->rule;
}

int call_forest_init(struct call_forest *forest, const struct call_trace_head *trace,
		     const struct call_forest_options *options)
{
	if (trace->magic != CALL_TRACE_MAGIC || trace->version != CALL_TRACE_VERSION)
		return err_set(-EINVAL, "not a trace of calls of version %d", CALL_TRACE_VERSION);
	if (trace->metrics > CALL_METRICS_MAX)
		return err_set(-EINVAL, "a trace of calls with %u metrics; %d are possible",
			       trace->metrics, CALL_METRICS_MAX);
	for (uint32_t i = 0; i < trace->metrics; i++)
		if (trace->kinds[i] >= CALL_METRIC_COUNT)
			return err_set(-EINVAL, "a trace of calls with a metric of unknown kind %u",
				       trace->kinds[i]);
	*forest = (struct call_forest){ .options = *options, .trace = *trace };
	options_from(&forest->options, trace);
	if (!forest->options.depth_limit)
		forest->options.depth_limit = 1;
	if (forest->options.node_limit < 4 * forest->options.depth_limit + 16)
		forest->options.node_limit = 4 * forest->options.depth_limit + 16;
	return 0;
}

void call_forest_deinit(struct call_forest *forest)
{
	array_each(&forest->threads, thread)
		thread_destroy(*thread);
	array_each(&forest->loads, load)
		free(load->path);
	array_deinit(&forest->loads);
	array_deinit(&forest->threads);
	map_deinit(&forest->by_number);
	map_deinit(&forest->programs);
	map_deinit(&forest->names);
	strtab_deinit(&forest->strings);
}

struct call_thread *call_forest_thread(const struct call_forest *forest, uint32_t number)
{
	const uint64_t *place = map_find(&forest->by_number, number);

	return place ? forest->threads.items[*place] : NULL;
}

const char *call_forest_name(const struct call_forest *forest, uint64_t routine)
{
	const uint64_t *id = map_find(&forest->names, routine);

	return id ? strtab_get(&forest->strings, (uint32_t)*id) : NULL;
}

/* A thread's counters begin with its first record. */
static struct call_thread *thread_of(struct call_forest *forest, const struct taken *taken)
{
	struct call_thread *thread = call_forest_thread(forest, taken->event.thread);

	if (thread || forest->threads.count >= forest->options.thread_limit)
		return thread;
	*map_at(&forest->by_number, taken->event.thread, NULL) = forest->threads.count;
	thread = thread_create(forest, taken->event.thread, taken->now);
	*array_push(&forest->threads) = thread;
	return thread;
}

static bool is_name(const struct taken *taken)
{
	return taken->payload_size <= CALL_NAME_MAX;
}

static char *name_of(const struct taken *taken)
{
	return mem_strndup(taken->payload, taken->payload_size);
}

/* Charges the time up to now: to the thread while it runs, otherwise as elapsed time only. */
static void charge(struct call_thread *thread, const struct taken *taken)
{
	if (thread->out)
		call_tree_resume(&thread->tree, taken->now);
	else
		call_tree_charge(&thread->tree, taken->now);
}

static uint64_t program_of(const struct call_forest *forest, uint32_t pid)
{
	const uint64_t *number = map_find(&forest->programs, pid);

	return number ? *number : 0;
}

/* A scale that is no number, or beyond all clocks, is refused. */
static bool take_scale(struct call_thread *thread, const struct taken *taken)
{
	double tick;

	memcpy(&tick, &taken->event.routine, sizeof(tick));
	if (!(tick > 0 && tick < 1e9) || taken->event.sp > UINT32_MAX)
		return false;
	thread->tick = tick;
	thread->overhead = taken->event.sp;
	return true;
}

/* Names come in the order of their tasks, each before the task begins. */
static bool take_task(struct call_thread *thread, const struct taken *taken)
{
	if (!call_is_task(taken->event.routine) ||
	    taken->event.routine - CALL_ROUTINE_TASKS != thread->tasks.count || !is_name(taken))
		return false;
	*array_push(&thread->tasks) = name_of(taken);
	return true;
}

static bool take_thread(const struct call_forest *forest, struct call_thread *thread,
			const struct taken *taken)
{
	if (taken->event.minor == CALL_MINOR_SCALE)
		return take_scale(thread, taken);
	if (thread->ended)
		return false;
	if (taken->event.minor == CALL_MINOR_TASK)
		return take_task(thread, taken);
	charge(thread, taken);
	switch (taken->event.minor) {
	case CALL_MINOR_PROCESS:
		thread->pid = (uint32_t)taken->event.routine;
		thread->parent = (uint32_t)taken->event.sp;
		thread->program = program_of(forest, thread->pid);
		return true;
	case CALL_MINOR_START:
		thread->tid = taken->event.routine;
		thread->generation = taken->event.sp;
		break;
	case CALL_MINOR_NAME:
		break;
	case CALL_MINOR_END:
		call_tree_end(&thread->tree);
		thread->ended = true;
		return true;
	case CALL_MINOR_OUT:
	case CALL_MINOR_IN:
		thread->out = taken->event.minor == CALL_MINOR_OUT;
		return true;
	default:
		return false;
	}
	if (!is_name(taken))
		return false;
	if (taken->payload_size) {
		free(thread->name);
		thread->name = name_of(taken);
	}
	return true;
}

/* An entry that does not count as a call. */
static bool take_inside(struct call_tree *tree, const struct taken *taken)
{
	uint32_t depth = call_tree_depth(tree);

	call_tree_enter(tree, taken->event.routine, taken->event.sp);
	if (call_tree_depth(tree) > depth)
		call_tree_current(tree)->calls--;
	return true;
}

/* Only sweeps prune here: on an exit, a frame that stands again could lie below what is pruned. */
static bool take_back(struct call_tree *tree, const struct taken *taken)
{
	size_t count = taken->payload_size / sizeof(uint64_t);
	uint64_t routines[CALL_STACK_MAX];

	if (count > CALL_STACK_MAX || !tree->weighs_itself)
		return false;
	memcpy(routines, taken->payload, count * sizeof(uint64_t));
	if (!count)
		take_inside(tree, taken);
	else if (!call_tree_stand(tree, routines, (uint32_t)count))
		return false;
	if (tree->head->repairs[CALL_REPAIR_ABANDONED])
		tree->head->repairs[CALL_REPAIR_ABANDONED]--;
	return true;
}

static bool take_repair(struct call_tree *tree, const struct taken *taken)
{
	if (taken->event.routine >= CALL_REPAIR_COUNT)
		return false;
	if (taken->event.minor == CALL_MINOR_GONE)
		return call_tree_gone(tree, (enum call_repair)taken->event.routine);
	tree->head->repairs[taken->event.routine]++;
	return true;
}

static bool take_routine(struct call_thread *thread, const struct taken *taken)
{
	struct call_tree *tree = &thread->tree;

	charge(thread, taken);
	thread->out = false;
	switch (taken->event.minor) {
	case CALL_MINOR_ENTRY:
		call_tree_enter(tree, taken->event.routine, taken->event.sp);
		return true;
	case CALL_MINOR_INSIDE:
		return take_inside(tree, taken);
	case CALL_MINOR_TAKEN_BACK:
		return call_tree_take_back(tree, taken->event.routine);
	case CALL_MINOR_BACK:
		return take_back(tree, taken);
	case CALL_MINOR_GONE:
	case CALL_MINOR_REPAIR:
		return take_repair(tree, taken);
	case CALL_MINOR_EXIT:
		call_tree_leave(tree, taken->event.routine, taken->event.sp);
		return true;
	case CALL_MINOR_TAIL:
		call_tree_tail(tree, taken->event.routine, taken->event.sp);
		return true;
	default:
		return false;
	}
}

static bool take_sample(struct call_thread *thread, const struct taken *taken)
{
	size_t count = taken->payload_size / sizeof(uint64_t);
	uint64_t routines[CALL_STACK_MAX];

	if (taken->event.minor != CALL_MINOR_STACK || count > CALL_STACK_MAX)
		return false;
	charge(thread, taken);
	memcpy(routines, taken->payload, count * sizeof(uint64_t));
	call_tree_sample(&thread->tree, routines, (uint32_t)count,
			 taken->event.major == CALL_MAJOR_SAMPLE_ROUTINE);
	return true;
}

/* Of the innermost routine, or of the one that called it; base only. */
static bool take_asked(const struct call_forest *forest, const struct call_thread *thread,
		       const struct taken *taken)
{
	const struct call_tree *tree = &thread->tree;
	const struct call_frame *frame = tree->top;

	if (taken->event.sp > 1 || taken->event.sp > call_tree_depth(tree))
		return false;
	frame -= taken->event.sp;
	for (uint32_t i = 0; i < forest->trace.metrics; i++) {
		uint64_t amount = forest->trace.kinds[i] == CALL_METRIC_OBJECTS ? 1
				  : forest->trace.kinds[i] == CALL_METRIC_BYTES
					  ? taken->event.routine
					  : 0;

		frame->at->amounts[i].base += amount;
		if (i == 0)
			tree->head->total += amount;
	}
	return true;
}

/* Allocation is a metric like any other where the trace has it. */
static bool take_allocation(const struct call_forest *forest, struct call_thread *thread,
			    const struct taken *taken)
{
	if (taken->event.minor != CALL_MINOR_OBJECT && taken->event.minor != CALL_MINOR_FREE &&
	    taken->event.minor != CALL_MINOR_ASKED)
		return false;
	charge(thread, taken);
	if (taken->event.minor == CALL_MINOR_ASKED)
		return take_asked(forest, thread, taken);
	if (taken->event.minor == CALL_MINOR_FREE)
		return true;
	for (uint32_t i = 0; i < forest->trace.metrics; i++) {
		if (forest->trace.kinds[i] == CALL_METRIC_OBJECTS)
			call_tree_add(&thread->tree, i, 1);
		if (forest->trace.kinds[i] == CALL_METRIC_BYTES)
			call_tree_add(&thread->tree, i, taken->event.routine);
	}
	return true;
}

static bool take_load(struct call_forest *forest, const struct taken *taken)
{
	struct call_load load = { .pid = taken->event.thread,
				  .start = taken->event.routine,
				  .end = taken->event.routine + taken->event.sp,
				  .program = program_of(forest, taken->event.thread) };

	if (taken->payload_size < sizeof(load.bias) || taken->payload_size > CALL_NAME_MAX ||
	    load.end <= load.start)
		return false;
	memcpy(&load.bias, taken->payload, sizeof(load.bias));
	load.path = mem_strndup(taken->payload + sizeof(load.bias),
				taken->payload_size - sizeof(load.bias));
	*array_push(&forest->loads) = load;
	return true;
}

static bool take_code(struct call_forest *forest, const struct taken *taken)
{
	AUTO(free_ptr) char *name = NULL;

	if (taken->event.minor == CALL_MINOR_LOAD)
		return take_load(forest, taken);
	if (taken->event.minor == CALL_MINOR_UNLOAD)
		return true;
	if (taken->event.minor == CALL_MINOR_PROGRAM) {
		*map_at(&forest->programs, taken->event.thread, NULL) = forest->events;
		return true;
	}
	if (taken->event.minor != CALL_MINOR_NAME || !is_name(taken))
		return false;
	name = name_of(taken);
	*map_at(&forest->names, taken->event.routine, NULL) = strtab_add(&forest->strings, name);
	return true;
}

static bool take(struct call_forest *forest, const struct taken *taken)
{
	struct call_thread *thread;

	if (taken->event.major == CALL_MAJOR_CODE)
		return take_code(forest, taken);
	thread = thread_of(forest, taken);
	if (!thread || (thread->ended && taken->event.major != CALL_MAJOR_THREAD))
		return false;
	switch (taken->event.major) {
	case CALL_MAJOR_THREAD:
		return take_thread(forest, thread, taken);
	case CALL_MAJOR_INTERPRETED:
	case CALL_MAJOR_ENGINE:
	case CALL_MAJOR_COMPILED:
		return take_routine(thread, taken);
	case CALL_MAJOR_SAMPLE_TIMER:
	case CALL_MAJOR_SAMPLE_ROUTINE:
		return take_sample(thread, taken);
	case CALL_MAJOR_ALLOCATION:
		return take_allocation(forest, thread, taken);
	default:
		return false;
	}
}

int call_forest_take(struct call_forest *forest, const void *data, size_t size, size_t *ret)
{
	size_t amounts = forest->trace.metrics * sizeof(struct call_amount);
	const char *bytes = data;
	size_t at = 0;

	while (size - at >= sizeof(struct call_event)) {
		struct taken taken = {};

		memcpy(&taken.event, bytes + at, sizeof(taken.event));
		if (taken.event.size < sizeof(taken.event) + amounts || taken.event.size % 8)
			return err_set(-EINVAL, "a record of a trace of calls has a size of %u",
				       taken.event.size);
		if (taken.event.size > size - at)
			break;
		memcpy(taken.now, bytes + at + sizeof(taken.event), amounts);
		taken.payload = bytes + at + sizeof(taken.event) + amounts;
		taken.payload_size = taken.event.size - sizeof(taken.event) - amounts;
		forest->events++;
		if (!take(forest, &taken))
			forest->refused++;
		at += taken.event.size;
	}
	*ret = at;
	return 0;
}

int call_forest_read(struct call_forest *forest, const void *data, size_t size,
		     const struct call_forest_options *options)
{
	struct call_trace_head head;
	size_t used = 0;
	int err;

	if (size < sizeof(head))
		return err_set(-EINVAL, "a trace of calls of %zu bytes", size);
	memcpy(&head, data, sizeof(head));
	err = call_forest_init(forest, &head, options);
	if (err)
		return err;
	err = call_forest_take(forest, (const char *)data + sizeof(head), size - sizeof(head),
			       &used);
	if (!err && used != size - sizeof(head))
		err = err_set(-EINVAL, "a trace of calls ends within a record");
	if (err)
		call_forest_deinit(forest);
	return err;
}

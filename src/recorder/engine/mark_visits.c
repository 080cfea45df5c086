// SPDX-License-Identifier: BSD-2-Clause
#include "recorder/engine/mark_visits.h"

#include <string.h>

#include "base/mem.h"
#include "recorder/engine/executed.h"
#include "wire/mark_visits.h"

/* A larger amount is impossible: the program has overwritten it. */
static const uint64_t amount_max = 1ull << 56;

struct writing {
	struct mark_memory *memory;
	const struct engine_thread *thread;
	struct mark_visit visit;
	double tick; /* ns */
	uint32_t mark;
	uint32_t number; /* of the visit */
};

static uint64_t sound(uint64_t amount)
{
	return amount < amount_max ? amount : 0;
}

static uint64_t ns_of(const struct writing *writing, uint64_t ticks)
{
	return (uint64_t)((double)sound(ticks) * writing->tick);
}

static struct store *store_of(const struct writing *writing)
{
	return recorder_store(writing->memory->recorder);
}

static int arguments_write(const struct writing *writing)
{
	const struct mark_visit *visit = &writing->visit;
	int err = 0;

	for (uint32_t i = 0; i < MARK_VISIT_ARGUMENTS && !err; i++) {
		struct store_mark_visit_argument row = { .number = writing->number,
							 .argument = i,
							 .value = visit->arguments[i] };

		if (i < MARK_VISIT_POINTED && visit->readable >> i & 1) {
			row.points = 1;
			row.first = visit->pointed[i][0];
			row.second = visit->pointed[i][1];
		}
		err = store_mark_visit_argument_put(store_of(writing), &row);
	}
	return err;
}

/* Where the object lies, if that is the memory of a module: it may have a name there. */
static int place_find(const struct writing *writing, uint64_t object, struct location_id *ret)
{
	const struct loadmap_process *process = executed_image(writing->thread->process);
	struct module_id module;
	uint64_t address;

	if (!object || !process || !loadmap_data_find(process, object, &module, &address))
		return 0;
	return locations_add(recorder_locations(writing->memory->recorder), module, address, ret);
}

static int step_write(const struct writing *writing, uint32_t step)
{
	static const char *const kinds[] = { [MARK_VISIT_CALL] = "call",
					     [MARK_VISIT_SYSTEM_CALL] = "system call",
					     [MARK_VISIT_BLOCK] = "block" };
	const struct mark_visit_node *node = &writing->visit.nodes[step];
	struct store_mark_visit_step row = { .number = writing->number,
					     .step = step,
					     .parent = node->parent < step ? node->parent : 0,
					     .object = node->object,
					     .count = sound(node->count),
					     .time_ns = ns_of(writing, node->ticks) };
	int err = 0;

	if (node->kind >= MARK_VISIT_KINDS)
		return 0;
	row.kind = kinds[node->kind];
	if (node->kind == MARK_VISIT_SYSTEM_CALL)
		row.system_call = (uint32_t)node->code;
	else
		err = mark_memory_location(writing->memory, writing->thread, node->code,
					   &row.location);
	err = err ? err : place_find(writing, node->object, &row.place);
	return err ? err : store_mark_visit_step_put(store_of(writing), &row);
}

static int visit_write(struct writing *writing, bool slow)
{
	const struct mark_visit *visit = &writing->visit;
	struct store_mark_visit row = { .mark = { writing->mark },
					.thread = executed_thread_id(writing->thread),
					.slow = slow,
					.time_ns = ns_of(writing, visit->ticks),
					.folded = visit->folded };
	uint32_t count = visit->node_count < MARK_VISIT_NODES ? visit->node_count
							      : MARK_VISIT_NODES;
	int err;

	row.number = writing->number = ++writing->memory->visits;
	if (visit->asked) {
		row.asked = 1;
		row.cpu_ns = sound(visit->cpu_ns);
		row.faults_minor = sound(visit->faults_minor);
		row.faults_major = sound(visit->faults_major);
		row.voluntary = sound(visit->voluntary);
		row.involuntary = sound(visit->involuntary);
	}
	err = store_mark_visit_put(store_of(writing), &row);
	err = err ? err : arguments_write(writing);
	for (uint32_t i = 1; i < count && !err; i++)
		err = step_write(writing, i);
	return err;
}

static int kept_write(struct writing *writing, const void *shared)
{
	int err = 0;

	for (unsigned i = 0; i < MARK_VISITS_USUAL + MARK_VISITS_SLOW && !err; i++) {
		memcpy(&writing->visit,
		       (const char *)shared + MARK_VISITS_KEPT + (size_t)i * MARK_VISIT,
		       sizeof(writing->visit));
		if (writing->visit.valid == 1)
			err = visit_write(writing, i >= MARK_VISITS_USUAL);
	}
	return err;
}

int mark_visits_write(struct mark_memory *memory, const struct engine_thread *thread,
		      const void *shared, uint32_t known)
{
	struct mark_visits_memory head;
	struct mark_timing *timing;
	struct writing *writing;
	int err;

	memcpy(&head, shared, sizeof(head));
	if (head.ready != 1 || !head.mark || head.mark > known)
		return 0;
	timing = mem_zalloc(sizeof(*timing));
	memcpy(timing, (const char *)shared + MARK_VISITS_TIMING, sizeof(*timing));
	timing->abandoned = head.abandoned;
	err = mark_timing_write(memory, thread, head.mark, timing);
	free(timing);
	writing = mem_zalloc(sizeof(*writing));
	*writing = (struct writing){ .memory = memory,
				     .thread = thread,
				     .tick = mark_memory_tick(memory),
				     .mark = head.mark };
	err = err ? err : kept_write(writing, shared);
	free(writing);
	return err;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "ingest/samples.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "ingest/stacks.h"

struct samples {
	struct store *store;
	struct loadmap *loadmap;
	struct stacks *stacks;
	uint64_t started;
	uint32_t max_depth;
	struct map by_hash; /* the sampler's hash to stack id */
	uint64_t kept;
	uint64_t orphaned;
	uint64_t ends[STACK_END_COUNT];
};

/* What is known of a group of equal samples besides the stack. */
struct occasion {
	uint32_t tid;
	uint64_t time;
	uint64_t count;
	uint64_t kernel; /* of count, interrupted in kernel mode */
	enum stack_end end;
};

void samples_create(struct store *store, struct loadmap *loadmap, struct locations *locations,
		    uint64_t started, uint32_t max_depth, struct samples **ret)
{
	struct samples *samples = mem_zalloc(sizeof(*samples));

	samples->store = store;
	samples->loadmap = loadmap;
	samples->started = started;
	samples->max_depth = max_depth;
	stacks_create(store, loadmap, locations, &samples->stacks);
	*ret = samples;
}

void samples_destroy(struct samples *samples)
{
	if (!samples)
		return;
	stacks_destroy(samples->stacks);
	map_deinit(&samples->by_hash);
	free(samples);
}

int samples_stack(struct samples *samples, const struct sample_stack *stack)
{
	const struct sample_record *record = &stack->record;
	struct loadmap_process *process;
	struct stack_frames frames = {
		.kernel = stack->frames,
		.kernel_count = stack->kernel_count,
		.user = stack->frames + stack->kernel_count,
		.user_count = stack->user_count,
		.end = stack->end,
	};
	struct stack_id id;
	int err;

	process = loadmap_process_at(samples->loadmap, record->image.tgid, record->time);
	err = stacks_add(samples->stacks, process, record->time, &frames, &id);
	if (!err)
		*map_at(&samples->by_hash, stack->hash, NULL) = id.v;
	return err;
}

static int keep(struct samples *samples, struct loadmap_process *process, struct stack_id stack,
		const struct occasion *occasion)
{
	struct thread_id thread;
	uint64_t since = occasion->time > samples->started ? occasion->time - samples->started : 0;
	int err;

	thread = loadmap_thread(samples->loadmap, process, occasion->tid, occasion->time);
	err = store_samples_add(samples->store, thread, stack, occasion->count, occasion->kernel);
	if (!err)
		err = store_tick_add(samples->store, (uint32_t)(since / NS_PER_S), thread,
				     occasion->count);
	if (err)
		return err;
	samples->kept += occasion->count;
	samples->ends[occasion->end] += occasion->count;
	return 0;
}

int samples_count(struct samples *samples, const struct sample_key *key,
		  const struct sample_count *count)
{
	const uint64_t *stack = map_find(&samples->by_hash, key->hash);
	struct occasion occasion = {
		.tid = key->tid,
		.time = count->last,
		.count = count->count,
		.kernel = count->kernel,
		.end = key->end < STACK_END_COUNT ? key->end : STACK_END_HARD_RULE,
	};

	if (!stack) {
		samples->orphaned += count->count;
		return 0;
	}
	return keep(samples, loadmap_process_at(samples->loadmap, key->image.tgid, count->last),
		    (struct stack_id){ (uint32_t)*stack }, &occasion);
}

/* A sample that the host walks. */
static int keep_walked(struct samples *samples, uint32_t pid, struct occasion *occasion,
		       const struct unwind_registers *registers, const struct unwind_memory *memory,
		       const uint64_t *kernel, size_t kernel_count)
{
	struct loadmap_process *process = loadmap_process_at(samples->loadmap, pid, occasion->time);
	uint64_t user[SAMPLE_DEPTH_MAX];
	struct stack_frames frames = { .kernel = kernel,
				       .kernel_count = kernel_count,
				       .user = user };
	const struct unwind_area *areas;
	struct stack_id stack;
	size_t area_count;
	int err;

	loadmap_areas(samples->loadmap, process, &areas, &area_count);
	frames.user_count = unwind_walk(areas, area_count, registers, memory, user,
					samples->max_depth, &frames.end);
	occasion->end = frames.end;
	err = stacks_add(samples->stacks, process, occasion->time, &frames, &stack);
	return err ? err : keep(samples, process, stack, occasion);
}

int samples_dump(struct samples *samples, const struct sample_dump *dump)
{
	struct occasion occasion = {
		.tid = dump->record.tid,
		.time = dump->record.time,
		.count = 1,
		.kernel = dump->kernel_count > 0,
	};
	struct unwind_registers registers = {
		.ip = dump->ip, .sp = dump->sp, .bp = dump->bp, .rbx = dump->bx
	};
	struct unwind_memory memory = { dump->sp + dump->absent, dump->stack, dump->stack_size };

	return keep_walked(samples, dump->record.image.tgid, &occasion, &registers, &memory,
			   dump->frames, dump->kernel_count);
}

int samples_event(struct samples *samples, const struct event *event)
{
	const struct event_sample *sample = &event->sample;
	struct occasion occasion = {
		.tid = event->tid,
		.time = event->time,
		.count = 1,
		.kernel = sample->in_kernel,
	};

	return keep_walked(samples, event->pid, &occasion, &sample->registers, &sample->stack,
			   sample->kernel_frames, sample->kernel_count);
}

uint64_t samples_kept(const struct samples *samples)
{
	return samples->kept;
}

uint64_t samples_orphaned(const struct samples *samples)
{
	return samples->orphaned;
}

const uint64_t *samples_ends(const struct samples *samples)
{
	return samples->ends;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Attribution of samples: each form in which a sample arrives is brought to a process, a thread and
 * a stack, and then keep() counts it. The kernel sends a stack once, under a hash, and counts by
 * that hash afterwards.
 *
 *	in	stacks, counts of stacks, copies of stack memory, records of perf, each with its
 *		moment
 *	out	rows of samples and stacks for the store; what was lost, by reason
 *	owner	the command makes it; as a sink it belongs to the recorder
 */
#include "recorder/samples.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "recorder/stacks.h"

struct samples {
	struct store *store;
	struct loadmap *loadmap;
	struct stacks *stacks;
	uint64_t started;
	uint32_t max_depth;
	struct map by_hash; /* the sampler's hash to stack id */
	struct sample_tally tally; /* the source's */
	uint64_t kept;
	uint64_t orphaned; /* counted, but the stack never came */
	uint64_t unread; /* seen by the kernel but never received; known at the end */
	uint64_t ends[STACK_END_COUNT]; /* sums up to kept */
	ARRAY(uint64_t) cpus; /* what each has seen, by number */
	uint64_t cpus_read; /* when, in ns since `started` */
	bool ended; /* no sample will come that counts for those that were skipped */
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
	array_deinit(&samples->cpus);
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
	uint32_t second = (uint32_t)(since / NS_PER_S);
	int err;

	thread = loadmap_thread(samples->loadmap, process, occasion->tid, occasion->time);
	err = store_samples_add(samples->store, thread, stack, occasion->count, occasion->kernel);
	if (!err)
		err = store_moment_add(samples->store, second, thread, stack, occasion->count,
				       occasion->kernel);
	if (!err)
		err = store_tick_add(samples->store, second, thread, occasion->count);
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
		       const struct stack_memory *memory)
{
	struct loadmap_process *process = loadmap_process_at(samples->loadmap, pid, occasion->time);
	struct stack_id stack;
	int err = stacks_walk(samples->stacks, process, occasion->time, memory, &occasion->end,
			      &stack);

	return err ? err : keep(samples, process, stack, occasion);
}

int samples_dump(struct samples *samples, const struct sample_dump *dump)
{
	struct occasion occasion = {
		.tid = dump->record.tid,
		.time = dump->record.time,
		.count = dump->weight,
		.kernel = dump->kernel_count ? dump->weight : 0,
	};
	struct stack_memory memory = stack_memory_of_dump(dump, samples->max_depth);

	return keep_walked(samples, dump->record.image.tgid, &occasion, &memory);
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
	struct stack_memory memory = {
		.registers = sample->registers,
		.memory = sample->stack,
		.kernel = sample->kernel_frames,
		.kernel_count = sample->kernel_count,
		.max_depth = samples->max_depth,
	};

	if (sample->in_kernel && !sample->kernel_count) {
		memory.kernel = &sample->kernel_ip;
		memory.kernel_count = 1;
	}
	return keep_walked(samples, event->pid, &occasion, &memory);
}

struct stacks *samples_stacks(struct samples *samples)
{
	return samples->stacks;
}

/* --- The recorder's side ---------------------------------------------------------------------- */

void samples_tally_set(struct samples *samples, const struct sample_tally *tally)
{
	samples->tally = *tally;
}

/*
 * When a processor saw its samples between two readings is not known. Each second gets its part of
 * them, so that a late recorder does not look like idle processors.
 */
static int cpu_ticks_spread(struct samples *samples, uint32_t cpu, uint64_t count, uint64_t begin,
			    uint64_t end)
{
	uint64_t given = 0;
	int err = 0;

	for (uint64_t second = begin / NS_PER_S; second <= end / NS_PER_S && !err; second++) {
		uint64_t until = (second + 1) * NS_PER_S, due = count;

		if (until < end)
			due = (uint64_t)((double)count * (double)(until - begin) /
					 (double)(end - begin));
		if (due > given)
			err = store_cpu_tick_add(samples->store, (uint32_t)second, cpu,
						 due - given);
		given = due > given ? due : given;
	}
	return err;
}

int samples_cpus_set(struct samples *samples, const uint64_t *seen, size_t count)
{
	uint64_t now = clock_monotonic() - samples->started, begin = samples->cpus_read;
	int err = 0;

	samples->cpus_read = now;

	for (size_t cpu = 0; cpu < count && !err; cpu++) {
		uint64_t *before;

		if (cpu == samples->cpus.count)
			*array_push(&samples->cpus) = 0;
		before = &samples->cpus.items[cpu];
		if (seen[cpu] > *before)
			err = cpu_ticks_spread(samples, (uint32_t)cpu, seen[cpu] - *before, begin,
					       now);
		*before = seen[cpu];
	}
	return err;
}

static void totals(void *ctx, struct sink_totals *ret)
{
	static const char *const names[][2] = {
#define X(name, json, text) [LOSS_##name] = { json, text },
		LOSS_REASONS(X)
#undef X
	};
	const struct samples *samples = ctx;

	ret->kept = samples->kept;
	for (size_t i = 0; i < LOSS_COUNT; i++) {
		uint64_t lost = samples->tally.lost[i];

		if (i == LOSS_SKIPPED && !samples->ended)
			lost = 0;
		lost += i == LOSS_NO_STACK ? samples->orphaned : 0;
		lost += i == LOSS_UNREAD ? samples->unread : 0;
		sink_totals_add(ret, names[i][0], names[i][1], lost);
	}
}

/*
 * After the last round everything that was seen is kept or lost. Should it ever not be, the file
 * says so.
 */
static void samples_end(struct samples *samples)
{
	struct sink_totals known = {};
	uint64_t sum;

	samples->unread = 0;
	samples->ended = true;
	totals(samples, &known);
	sum = known.kept + sink_totals_lost(&known);
	if (samples->tally.seen > sum)
		samples->unread = samples->tally.seen - sum;
}

static int flush(void *ctx, bool last)
{
	static const char *const names[][2] = {
#define X(name, json, text) [STACK_END_##name] = { json, text },
		STACK_ENDS(X)
#undef X
	};
	struct samples *samples = ctx;
	int err = 0;

	if (last)
		samples_end(samples);
	for (size_t i = 0; i < STACK_END_COUNT && !err; i++)
		if (samples->ends[i])
			err = store_stack_end_put(
				samples->store,
				&(struct store_stack_end){ .reason = names[i][0],
							   .text = names[i][1],
							   .count = samples->ends[i] });
	return err;
}

static void destroy(void *ctx)
{
	samples_destroy(ctx);
}

struct sink samples_sink(struct samples *samples)
{
	return (struct sink){
		.ctx = samples,
		.kind = RECORDING_SAMPLES,
		.flush = flush,
		.totals = totals,
		.destroy = destroy,
	};
}

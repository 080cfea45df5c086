// SPDX-License-Identifier: BSD-2-Clause
/*
 * A round of the collector.
 *
 * Order matters. Records are first copied out of the sampler's ring, then the kernel's process events are drained and
 * applied, and only then are the records attributed: an mmap always precedes, in time, the samples that need it, so by
 * then it is known.
 *
 *	1. sampler ring -> queue
 *	2. perf rings   -> load map (and samples, where BPF is not allowed)
 *	3. queue        -> samples
 *	4. counts of the interval before -> samples: their stacks are in the store since 3
 *	5. load map     -> sampler (tables and mappings of processes that were sampled)
 *	6. runs of some seconds -> values, when they are due; between them 1 to 3 and 5 again
 */
#include "ingest/collector_internal.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "ingest/procfs.h"

enum {
	COUNTS_MS =
		190, /* every other round: a stack that is counted again in the same interval costs least */
};

static int queue_record(struct collector *collector, const void *record, size_t size)
{
	static const char padding[8];

	strbuf_add(&collector->queue, &size, sizeof(size));
	strbuf_add(&collector->queue, record, size);
	strbuf_add(&collector->queue, padding, -size & 7);
	return 0;
}

static int on_stack(void *ctx, const struct sample_stack *stack)
{
	return queue_record(ctx, stack,
			    sizeof(*stack) + 8u * (stack->kernel_count + stack->user_count));
}

static int on_dump(void *ctx, const struct sample_dump *dump)
{
	return queue_record(ctx, dump, sizeof(*dump) + dump->stack_size);
}

static int on_identity(void *ctx, const struct sample_identity *identity)
{
	return queue_record(ctx, identity, sizeof(*identity));
}

static int on_run(void *ctx, const struct run_record *run)
{
	struct collector *collector = ctx;

	backlog_add(&collector->backlog, run);
	return 0;
}

static int on_wanted(void *ctx, const struct run_wanted *wanted)
{
	return queue_record(ctx, wanted, sizeof(*wanted));
}

static int on_count(void *ctx, const struct sample_key *key, const struct sample_count *count)
{
	struct collector *collector = ctx;

	recheck_note(collector->recheck, key->image.tgid);
	return samples_count(collector->samples, key, count);
}

struct sampler_handlers collector_handlers(struct collector *collector)
{
	return (struct sampler_handlers){
		on_stack, on_dump, on_identity, on_count, on_run, on_wanted, collector,
	};
}

static int identity_apply(struct collector *collector, const struct sample_identity *identity)
{
	struct event event = {
		.kind = EVENT_IDENTITY,
		.pid = identity->record.image.tgid,
		.tid = identity->record.image.tgid,
		.time = identity->record.time,
		.identity = {
			.ppid = identity->parent,
			.uid = identity->uid,
			.gid = identity->gid,
			.euid = identity->euid,
			.egid = identity->egid,
			.cgroup = identity->cgroup,
		},
	};

	return loadmap_apply(collector->loadmap, &event);
}

static int record_apply(struct collector *collector, const void *data)
{
	const struct sample_record *record = data;

	switch (record->kind) {
	case RECORD_STACK:
		return samples_stack(collector->samples, data);
	case RECORD_DUMP:
		publisher_want(collector->publisher, record->image.tgid);
		recheck_note(collector->recheck, record->image.tgid);
		return samples_dump(collector->samples, data);
	case RECORD_WANTED:
		return blocks_want(collector->blocks, data);
	default:
		return identity_apply(collector, data);
	}
}

/* The record at a place of the queue, which is then that of the next one; NULL: there are no more. */
static const struct sample_record *queue_take(struct collector *collector, size_t *at)
{
	const char *record = collector->queue.text + *at + sizeof(size_t);
	size_t size;

	if (*at >= collector->queue.length)
		return NULL;
	memcpy(&size, collector->queue.text + *at, sizeof(size));
	*at += sizeof(size) + ((size + 7) & ~(size_t)7);
	return (const struct sample_record *)record;
}

static int queue_apply(struct collector *collector)
{
	const struct sample_record *record;
	size_t at = 0;
	int err = 0;

	while (!err && (record = queue_take(collector, &at)))
		err = record_apply(collector, record);
	collector->queue.length = 0;
	return err;
}

/*
 * With BPF the kernel tells of every process of the machine, because events that follow only the targets would be copied
 * for each CPU at each fork. What is none of ours is dropped here.
 */
static bool is_member(struct collector *collector, const struct event *event)
{
	if (collector->options->system_wide || !collector->sampler)
		return true;
	if (event->kind == EVENT_FORK && event->pid != event->fork.ppid) {
		if (map_find(&collector->members, event->fork.ppid))
			map_at(&collector->members, event->pid, NULL);
		else
			map_remove(&collector->members, event->pid); /* a reused pid */
	}
	return map_find(&collector->members, event->pid);
}

static int on_lost(struct collector *collector, uint64_t lost)
{
	if (collector->sampler) {
		collector->events_lost += lost;
	} else {
		collector->user_seen += lost;
		collector->user_lost[LOSS_KERNEL_LOST] += lost;
	}
	return 0;
}

static int on_identity_event(void *ctx, const struct event *event)
{
	struct collector *collector = ctx;

	return loadmap_apply(collector->loadmap, event);
}

/* Without BPF, who a new process belongs to must be looked up, if it is still there. */
static int identity_look(struct collector *collector, const struct event *event)
{
	bool process = event->kind == EVENT_EXEC ||
		       (event->kind == EVENT_FORK && event->pid == event->tid);
	int err;

	if (collector->sampler || !process)
		return 0;
	err = procfs_identity((pid_t)event->pid, event->time, on_identity_event, collector);
	return err == -ESRCH ? 0 : err;
}

int collector_event(void *ctx, const struct event *event)
{
	struct collector *collector = ctx;
	int err;

	switch (event->kind) {
	case EVENT_SAMPLE:
		collector->user_seen++;
		return samples_event(collector->samples, event);
	case EVENT_LOST:
		return on_lost(collector, event->lost);
	case EVENT_THROTTLE: /* at least one */
		if (!collector->sampler) {
			collector->user_seen++;
			collector->user_lost[LOSS_THROTTLED]++;
		}
		return 0;
	default:
		break;
	}
	if (!is_member(collector, event))
		return 0;
	if (event->kind == EVENT_FORK && collector->publisher && event->pid != event->fork.ppid)
		publisher_forked(collector->publisher, event->fork.ppid, event->pid);
	err = loadmap_apply(collector->loadmap, event);
	return err ? err : identity_look(collector, event);
}

static bool counts_due(struct collector *collector)
{
	uint64_t now = clock_monotonic();

	if (now < collector->counts_next)
		return false;
	collector->counts_next = now + COUNTS_MS * (uint64_t)NS_PER_MS;
	return true;
}

/* Steps 1 to 3. */
static int intake(struct collector *collector)
{
	int err = 0;

	if (collector->sampler)
		err = sampler_drain_ring(collector->sampler);
	if (!err)
		err = perfring_drain(collector->ring, collector_event, collector);
	return err ? err : queue_apply(collector);
}

static int on_pause(void *ctx)
{
	struct collector *collector = ctx;
	int err = intake(collector);

	return err ? err : publisher_sync(collector->publisher);
}

static int runs_replay(struct collector *collector)
{
	int err;

	if (!backlog_is_due(&collector->backlog, clock_monotonic()) && !collector->done)
		return 0;
	err = backlog_replay(&collector->backlog, collector->values, on_pause, collector);
	if (!err)
		blocks_settle(collector->blocks);
	return err;
}

int collector_round(struct collector *collector)
{
	int err = intake(collector);

	if (!err && collector->sampler && (counts_due(collector) || collector->done))
		err = sampler_drain_counts(collector->sampler);
	if (!err && collector->publisher)
		err = publisher_sync(collector->publisher);
	if (!err && collector->values)
		err = runs_replay(collector);
	return err;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * A source: the kernel's programs at the scheduler. A visit, in the steps of a round (recorder.h):
 *
 *	look	records of the kernel's ring -> queue
 *	deliver	queue -> sink, load map (identities); then counts of the interval before -> sink:
 *		the queue has brought their stacks
 *	settle	modules that are new: where they tell of tasks
 *	tally	threads as they are now -> sink
 *
 * When recording has ended, finish tells of all threads that are left.
 */
#include "recorder/waits_source.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "recorder/record_queue.h"
#include "recorder/task_sites.h"

#define COUNTS_EVERY (190 * (uint64_t)NS_PER_MS)

struct waits_source {
	struct waits *waits;
	struct sampler_source *sampler;
	struct loadmap *loadmap;
	struct waits_sink *sink;
	struct record_queue queue;
	uint64_t counts_due;
	struct map files; /* searched for sites of tasks */
	uint32_t modules; /* of the load map, that were looked at */
	bool tasks_refused; /* said so */
};

/* --- From the kernel -------------------------------------------------------------------------- */

static int on_stack(void *ctx, const struct sample_stack *stack)
{
	struct waits_source *source = ctx;

	record_queue_add(&source->queue, stack,
			 sizeof(*stack) + 8u * (stack->kernel_count + stack->user_count));
	return 0;
}

static int on_dump(void *ctx, const struct sample_dump *dump)
{
	struct waits_source *source = ctx;

	record_queue_add(&source->queue, dump, sizeof(*dump) + dump->stack_size);
	return 0;
}

static int on_identity(void *ctx, const struct sample_identity *identity)
{
	struct waits_source *source = ctx;

	record_queue_add(&source->queue, identity, sizeof(*identity));
	return 0;
}

static int on_count(void *ctx, const struct wait_key *key, const struct wait_count *count)
{
	struct waits_source *source = ctx;

	return waits_sink_count(source->sink, key, count);
}

static int on_task(void *ctx, const struct task_notice *notice)
{
	struct waits_source *source = ctx;

	record_queue_add(&source->queue, notice, sizeof(*notice));
	return 0;
}

/* A thread from the ring has ended and is queued; one from the map is delivered as it is now. */
static int on_thread(void *ctx, const struct thread_slot *slot, bool ended)
{
	struct waits_source *source = ctx;
	uint64_t end = waits_ended(source->waits);

	if (ended) {
		record_queue_add(&source->queue, slot, sizeof(*slot));
		return 0;
	}
	return waits_sink_thread(source->sink, slot, end ? end : clock_monotonic(), end != 0);
}

/* --- Life ------------------------------------------------------------------------------------- */

int waits_source_create(struct waits *waits, struct sampler_source *sampler,
			struct recorder *recorder, struct waits_sink *sink,
			struct waits_source **ret)
{
	struct waits_source *source = mem_zalloc(sizeof(*source));
	const struct waits_handlers handlers = { on_stack, on_dump,   on_identity, on_count,
						 on_task,  on_thread, source };
	int err;

	source->waits = waits;
	source->sampler = sampler;
	source->loadmap = recorder_loadmap(recorder);
	source->sink = sink;
	err = waits_attach(waits, &handlers);
	if (err) {
		waits_source_destroy(source);
		return err;
	}
	*ret = source;
	return 0;
}

void waits_source_destroy(struct waits_source *source)
{
	if (!source)
		return;
	waits_destroy(source->waits);
	record_queue_deinit(&source->queue);
	map_deinit(&source->files);
	free(source);
}

/* --- Delivery --------------------------------------------------------------------------------- */

static int record_apply(struct waits_source *source, const void *data)
{
	const struct sample_record *record = data;
	const struct thread_slot *slot = data;

	switch (record->kind) {
	case RECORD_STACK:
		return waits_sink_stack(source->sink, data);
	case RECORD_DUMP:
		sampler_source_want(source->sampler, record->image.tgid);
		return waits_sink_dump(source->sink, data);
	case RECORD_TASK:
		waits_sink_task(source->sink, data);
		return 0;
	case RECORD_THREAD:
		return waits_sink_thread(source->sink, slot, record->time, true);
	default:
		return sampler_source_identity(source->sampler, data);
	}
}

static int queue_apply(struct waits_source *source)
{
	const struct sample_record *record;
	size_t at = 0;
	int err = 0;

	while (!err && (record = record_queue_take(&source->queue, &at)))
		err = record_apply(source, record);
	record_queue_clear(&source->queue);
	return err;
}

static bool counts_are_due(struct waits_source *source)
{
	uint64_t now = clock_monotonic();

	if (now < source->counts_due)
		return false;
	source->counts_due = now + COUNTS_EVERY;
	return true;
}

/* --- Tasks ------------------------------------------------------------------------------------ */

/* A file may be several modules: it is searched once. */
static bool file_is_new(struct waits_source *source, int file)
{
	struct stat stat;
	bool fresh = false;

	if (file >= 0 && !fstat(file, &stat))
		map_at(&source->files, hash64_pair(stat.st_dev, stat.st_ino), &fresh);
	return fresh;
}

/* Where it cannot be told apart, what tasks use stays with their threads. */
void waits_source_file(struct waits_source *source, int file)
{
	AUTO(free_ptr) struct task_site *sites = NULL;
	size_t count = file_is_new(source, file) ? task_sites_find(file, &sites) : 0;
	int err = 0;

	for (size_t i = 0; i < count && !err; i++)
		err = waits_task_site(source->waits, file, sites[i].offset, sites[i].begins);
	if (err && !source->tasks_refused)
		log_warn("%s; what tasks used is their threads'", err_text());
	source->tasks_refused |= err != 0;
}

static int settle(void *ctx)
{
	struct waits_source *source = ctx;
	const struct loadmap_module *module;

	if (waits_ended(source->waits))
		return 0;
	while ((module = loadmap_module_get(source->loadmap,
					    (struct module_id){ source->modules + 1 }))) {
		source->modules++;
		if (module->kind == MODULE_ELF)
			waits_source_file(source, module->fd);
	}
	return 0;
}

/* --- The recorder's side ---------------------------------------------------------------------- */

static int enable(void *ctx)
{
	struct waits_source *source = ctx;

	return waits_begin(source->waits);
}

static int disable(void *ctx)
{
	struct waits_source *source = ctx;

	return waits_end(source->waits);
}

static int look(void *ctx)
{
	struct waits_source *source = ctx;

	return waits_drain_ring(source->waits);
}

static int deliver(void *ctx, bool last, bool *ret_more)
{
	struct waits_source *source = ctx;
	int err = queue_apply(source);

	if (!err && (counts_are_due(source) || last))
		err = waits_drain_counts(source->waits);
	if (!err && last)
		err = waits_drain_counts(source->waits); /* of both maps */
	return err;
}

static int cpus_tell(struct waits_source *source)
{
	struct thread_cpu cpu;
	int err = 0;

	for (uint32_t i = 0; i < waits_cpu_count(source->waits) && !err; i++) {
		err = waits_cpu(source->waits, i, &cpu);
		err = err ? err : waits_sink_cpu(source->sink, i, &cpu);
	}
	return err;
}

/* Threads that ended when the ring was full come by way of the queue. */
static int threads_tell(struct waits_source *source)
{
	int err = waits_read_threads(source->waits);

	err = err ? err : queue_apply(source);
	return err ? err : cpus_tell(source);
}

static int tally(void *ctx)
{
	struct waits_source *source = ctx;
	struct wait_tally waits;
	int err = waits_ended(source->waits) ? 0 : threads_tell(source);

	waits_tally(source->waits, &waits);
	waits_sink_tally_set(source->sink, &waits, waits_readings(source->waits));
	return err;
}

static int finish(void *ctx)
{
	return threads_tell(ctx);
}

static void destroy(void *ctx)
{
	waits_source_destroy(ctx);
}

struct source waits_source_interface(struct waits_source *source)
{
	return (struct source){
		.ctx = source,
		.fd = waits_fd(source->waits),
		.paced = true,
		.enable = enable,
		.disable = disable,
		.look = look,
		.deliver = deliver,
		.settle = settle,
		.tally = tally,
		.finish = finish,
		.destroy = destroy,
	};
}

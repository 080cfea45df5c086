// SPDX-License-Identifier: BSD-2-Clause
/*
 * A visit of the sampler, in the steps of a round (recorder.h):
 *
 *	look	records of the kernel's ring -> queue; but runs -> the sink of values, where they
 *		wait
 *	deliver	queue -> samples, load map (identities), translations (requests); then
 *		counts of the interval before -> samples: the queue has brought their stacks
 *	settle	load map -> kernel: tables and mappings of processes that were sampled
 *
 * About once a second, settle also compares the mappings of sampled processes with /proc
 * (image/recheck.h).
 *
 *	in	what sampler.c has taken out of the kernel
 *	out	calls of the sinks of samples and of values; events for the load map; tables for the
 *		kernel
 *	owner	the recorder, to which the command gives it
 */
#include "recorder/sampler_source.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "image/recheck.h"
#include "recorder/publisher.h"
#include "recorder/record_queue.h"
#include "recorder/translations.h"

/* Every other round: a stack that is counted again in the same interval costs least. */
#define COUNTS_EVERY (190 * (uint64_t)NS_PER_MS)
#define RECHECK_EVERY ((uint64_t)NS_PER_S)

struct sampler_source {
	const struct targets *targets;
	struct recorder *recorder;
	struct loadmap *loadmap;
	struct sampler *sampler;
	struct translations *translations; /* NULL: nothing is interpreted */
	struct publisher *publisher;
	struct recheck *recheck;
	struct samples *samples;
	struct values_sink *values; /* NULL: none are taken */
	struct record_queue queue;
	struct run_budget budget; /* share 0: none */
	struct run_use since; /* what runs took before the budget or their length changed */
	bool changed; /* one of these, after the last tally */
	uint64_t began; /* to be sampled; 0: not yet */
	uint64_t counts_due;
	uint64_t readings; /* of counts */
	uint64_t thinned; /* see struct sample_tally */
	uint64_t recheck_due;
};

/* --- From the kernel -------------------------------------------------------------------------- */

static int queue_record(struct sampler_source *source, const void *record, size_t size)
{
	record_queue_add(&source->queue, record, size);
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

static int on_wanted(void *ctx, const struct run_wanted *wanted)
{
	return queue_record(ctx, wanted, sizeof(*wanted));
}

static int on_run(void *ctx, const struct run_record *run)
{
	struct sampler_source *source = ctx;

	values_sink_run(source->values, run);
	return 0;
}

static int on_count(void *ctx, const struct sample_key *key, const struct sample_count *count)
{
	struct sampler_source *source = ctx;

	recheck_note(source->recheck, key->image.tgid);
	return samples_count(source->samples, key, count);
}

/* --- Life ------------------------------------------------------------------------------------- */

int sampler_source_create(struct sampler *sampler, const struct targets *targets, bool runs,
			  struct recorder *recorder, struct sampler_source **ret)
{
	struct sampler_source *source = mem_zalloc(sizeof(*source));
	const struct sampler_handlers handlers = { on_stack, on_dump,	on_identity, on_count,
						   on_run,   on_wanted, source };
	int err;

	source->sampler = sampler;
	source->targets = targets;
	source->recorder = recorder;
	source->loadmap = recorder_loadmap(recorder);
	source->recheck_due = clock_monotonic() + RECHECK_EVERY;
	err = sampler_attach(sampler, targets->cpus.items, targets->cpus.count, &handlers);
	if (err) {
		sampler_source_destroy(source);
		return err;
	}
	recheck_create(source->loadmap, &source->recheck);
	if (runs)
		translations_create(source->sampler, source->loadmap, &source->translations);
	*ret = source;
	return 0;
}

void sampler_source_destroy(struct sampler_source *source)
{
	if (!source)
		return;
	publisher_destroy(source->publisher);
	translations_destroy(source->translations);
	recheck_destroy(source->recheck);
	sampler_destroy(source->sampler);
	record_queue_deinit(&source->queue);
	free(source);
}

void sampler_source_budget(struct sampler_source *source, const struct run_budget *budget)
{
	source->budget = *budget;
}

int sampler_source_pause(struct sampler_source *source)
{
	return sampler_disable(source->sampler);
}

int sampler_source_resume(struct sampler_source *source)
{
	return sampler_enable(source->sampler);
}

uint64_t sampler_source_readings(const struct sampler_source *source)
{
	return source->readings;
}

uint64_t sampler_source_thinned(const struct sampler_source *source)
{
	return source->thinned;
}

int sampler_source_rate_set(struct sampler_source *source, uint64_t frequency)
{
	if (!sampler_has_rate(source->sampler))
		return err_set(-EOPNOTSUPP, "what is sampled is counted (--count) and has no rate");
	return sampler_rate_set(source->sampler, frequency);
}

void sampler_source_runs_set(struct sampler_source *source, uint32_t length, uint32_t skip,
			     uint32_t every, const struct run_budget *budget)
{
	sampler_run_length_set(source->sampler, length, skip);
	sampler_run_every_set(source->sampler, every);
	source->budget = *budget;
	source->changed = true;
}

struct translations *sampler_source_translations(struct sampler_source *source)
{
	return source->translations;
}

void sampler_source_connect(struct sampler_source *source, struct samples *samples,
			    struct values_sink *values)
{
	source->samples = samples;
	source->values = values;
	publisher_create(source->sampler, source->loadmap,
			 values ? values_sink_pointers(values) : NULL, &source->publisher);
}

void sampler_source_forked(void *ctx, uint32_t parent, uint32_t child)
{
	struct sampler_source *source = ctx;

	publisher_forked(source->publisher, parent, child);
}

/* --- Delivery --------------------------------------------------------------------------------- */

int sampler_source_identity(struct sampler_source *source, const struct sample_identity *identity)
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

	return loadmap_apply(source->loadmap, &event);
}

void sampler_source_want(struct sampler_source *source, uint32_t pid)
{
	publisher_want(source->publisher, pid);
	recheck_note(source->recheck, pid);
}

static int record_apply(struct sampler_source *source, const void *data)
{
	const struct sample_record *record = data;
	int err;

	switch (record->kind) {
	case RECORD_STACK:
		err = source->translations ? translations_ahead(source->translations, data) : 0;
		return err ? err : samples_stack(source->samples, data);
	case RECORD_DUMP:
		sampler_source_want(source, record->image.tgid);
		return samples_dump(source->samples, data);
	case RECORD_WANTED:
		return translations_want(source->translations, data);
	default:
		return sampler_source_identity(source, data);
	}
}

static int queue_apply(struct sampler_source *source)
{
	const struct sample_record *record;
	size_t at = 0;
	int err = 0;

	while (!err && (record = record_queue_take(&source->queue, &at)))
		err = record_apply(source, record);
	record_queue_clear(&source->queue);
	return err;
}

static bool is_due(uint64_t *due, uint64_t interval)
{
	uint64_t now = clock_monotonic();

	if (now < *due)
		return false;
	*due = now + interval;
	return true;
}

/* --- The recorder's side ---------------------------------------------------------------------- */

static int target_add(struct sampler_source *source, pid_t pid, bool from_exec)
{
	publisher_want(source->publisher, (uint32_t)pid);
	return sampler_add_process(source->sampler, (uint32_t)pid, from_exec);
}

/*
 * From now on the sampler follows its targets, so the source of process events must have been
 * enabled before.
 */
static int enable(void *ctx)
{
	struct sampler_source *source = ctx;
	int err = 0;

	if (source->targets->command)
		err = target_add(source, source->targets->command, true);
	array_each(&source->targets->pids, pid)
		err = err ? err : target_add(source, *pid, false);
	source->began = clock_monotonic();
	return err ? err : sampler_enable(source->sampler);
}

static int disable(void *ctx)
{
	struct sampler_source *source = ctx;

	return sampler_disable(source->sampler);
}

static int look(void *ctx)
{
	struct sampler_source *source = ctx;

	return sampler_drain_ring(source->sampler);
}

static int deliver(void *ctx, bool last, bool *ret_more)
{
	struct sampler_source *source = ctx;
	int err = queue_apply(source);

	if (err || !(is_due(&source->counts_due, COUNTS_EVERY) || last))
		return err;
	source->readings++;
	return sampler_drain_counts(source->sampler);
}

static int on_rechecked(void *ctx, struct loadmap_process *process)
{
	struct sampler_source *source = ctx;

	return publisher_look(source->publisher, process);
}

static int settle(void *ctx)
{
	struct sampler_source *source = ctx;
	int err = publisher_sync(source->publisher);

	if (!err && is_due(&source->recheck_due, RECHECK_EVERY))
		err = recheck_run(source->recheck, on_rechecked, source);
	return err;
}

/* What a run takes is known anew after a change. */
static void use_since(struct sampler_source *source, struct run_use *use)
{
	if (source->changed)
		source->since = *use;
	source->changed = false;
	use->runs -= source->since.runs;
	use->kernel_ns -= source->since.kernel_ns;
	use->replayed -= source->since.replayed;
	use->recorder_ns -= source->since.recorder_ns;
}

static void runs_pace(struct sampler_source *source, const struct sample_tally *samples,
		      const struct run_tally *runs)
{
	struct run_use use = {
		.age_ns = clock_monotonic() - source->began,
		.samples = samples->seen,
		.runs = runs->seen,
		.kernel_ns = runs->nanoseconds,
	};

	if (source->budget.share <= 0 || !source->began)
		return;
	values_sink_use(source->values, &use.recorder_ns, &use.replayed);
	use_since(source, &use);
	sampler_run_every_set(source->sampler, run_budget_every(&source->budget, &use));
}

/* What is worth knowing of the samples and is in no sum of them. */
static int others_count(struct sampler_source *source, const struct sample_tally *tally)
{
	int err = 0;

	if (tally->identities_lost)
		err = recorder_metric_set(source->recorder, RECORDING_SAMPLES, "identities_lost",
					  "records", tally->identities_lost);
	if (!err && tally->thinned)
		err = recorder_metric_set(source->recorder, RECORDING_SAMPLES, "thinned", "samples",
					  tally->thinned);
	if (!err && tally->children_lost)
		err = recorder_metric_set(source->recorder, RECORDING_SAMPLES, "children_lost",
					  "processes", tally->children_lost);
	return err;
}

static int tally(void *ctx)
{
	struct sampler_source *source = ctx;
	struct sample_tally samples = {};
	struct run_tally runs = {};
	AUTO(free_ptr) uint64_t *seen = NULL;
	size_t cpus;
	int err;

	sampler_tally(source->sampler, &samples);
	source->thinned = samples.thinned;
	samples_tally_set(source->samples, &samples);
	sampler_cpus_seen(source->sampler, &seen, &cpus);
	err = samples_cpus_set(source->samples, seen, cpus);
	if (!err && source->values) {
		sampler_run_tally(source->sampler, &runs);
		values_sink_tally_set(source->values, &runs);
		runs_pace(source, &samples, &runs);
	}
	return err ? err : others_count(source, &samples);
}

/* The kernel's code as it runs, which may not be what is in any file. */
static size_t code(void *ctx, const struct store_module *module, uint64_t address, void *ret,
		   size_t size)
{
	struct sampler_source *source = ctx;
	size_t got = 0, step = 1;

	if (module->kind != MODULE_KERNEL)
		return 0;
	for (; got < size && step; got += step)
		step = sampler_kernel_text(source->sampler, address + got, (char *)ret + got,
					   size - got);
	return got;
}

static void destroy(void *ctx)
{
	sampler_source_destroy(ctx);
}

struct source sampler_source_interface(struct sampler_source *source)
{
	return (struct source){
		.ctx = source,
		.fd = sampler_fd(source->sampler),
		.paced = true,
		.enable = enable,
		.disable = disable,
		.look = look,
		.deliver = deliver,
		.settle = settle,
		.tally = tally,
		.code = code,
		.destroy = destroy,
	};
}

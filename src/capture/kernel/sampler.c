// SPDX-License-Identifier: BSD-2-Clause
/*
 * The host's end of the sampler: loads the programs, attaches them to events, empties the ring and
 * the counts maps, and fills the maps that the programs read.
 *
 *	in	options; unwind tables and mappings of processes from the host
 *	out	records and counts of the kernel, checked
 *	owner	the command makes it (src/cmd/sampling.c); sampler_source.c visits it
 */
#include "capture/kernel/sampler.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "capture/kernel/block_table.h"
#include "capture/kernel/layout.h"
#include "capture/kernel/programs.h"
#include "sampler.skel.h"

enum {
	COUNTS_BATCH = 1024,
	PLACE_CLASSES = 17, /* mappings are placed in runs of 2^class */
	HARDWARE_CLOCKS = 2,
};

/*
 * A run of the mappings map must rest before it is used again: a handler may still be reading it.
 */
static const uint64_t PLACE_REST_NS = 2ull * NS_PER_S;

struct place {
	uint32_t first;
	uint32_t class; /* the run holds 2^class mappings */
	uint64_t retired;
};

typedef ARRAY(struct place) place_array;

struct sampler {
	struct sampler_options options;
	struct sampler_handlers handlers;
	struct programs programs;
	struct sampler_bpf *skeleton; /* programs.skeleton */
	struct ring_buffer *ring;
	ARRAY(int) events;
	uint64_t periods[CLOCKS];
	size_t period_count;
	uint64_t every; /* events that the program counts to a sample, in the mean */
	int handler_err; /* first failure of a handler during a drain */
	uint64_t bad_records;
	uint64_t bad_runs;
	struct block_table blocks;
	struct run_text *text; /* shared with the kernel; NULL until asked for */
	uint32_t rows_used;
	uint32_t mappings_used;
	uint32_t generation;
	place_array retired; /* oldest first */
	place_array free[PLACE_CLASSES];
	struct map published; /* tgid to first << 32 | class */
	struct kernel_layout layout;
	bool layout_known;
};

/*
 * --- Events ------------------------------------------------------------------------------------
 */

static int perf_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/*
 * A CPU has few hardware counters, so only two of them are used; two already make the distance
 * random. The kernel counts to a whole number of events. Where the mean period is too small for
 * random whole numbers, it calls the program at each event, and the program counts.
 */
static void periods_choose(struct sampler *sampler)
{
	const struct sampler_options *options = &sampler->options;
	bool clock = options->event.kind == SAMPLER_CLOCK;
	uint64_t mean = clock && options->frequency ? NS_PER_S / options->frequency
						    : options->period;

	sampler->every = 1;
	sampler->period_count = options->event.kind == SAMPLER_HARDWARE ? HARDWARE_CLOCKS : CLOCKS;
	if (!clock && options->frequency) {
		sampler->periods[0] = options->frequency; /* the kernel adapts the period itself */
		sampler->period_count = 1;
	} else if (!clock &&
		   (options->event.kind == SAMPLER_TRACEPOINT || mean < CLOCKS_MEAN_MIN)) {
		sampler->periods[0] = 1;
		sampler->period_count = 1;
		sampler->every = mean;
	} else {
		clocks_draw(mean, options->seed, sampler->periods, sampler->period_count);
	}
}

static int event_attach(struct sampler *sampler, struct perf_event_attr *attr, int cpu,
			const struct bpf_program *program)
{
	const char *name = sampler->options.event.name;
	int fd = perf_open(attr, -1, cpu);

	if (fd == -ENODEV || fd == -EINVAL)
		return err_set(fd, "CPU %d is not there or not online", cpu);
	if (fd < 0)
		return err_set(
			fd, "cannot sample %s on CPU %d: %s; 'assay doctor' tells what is missing",
			name, cpu, strerror(-fd));
	*array_push(&sampler->events) = fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(program)))
		return err_set(-errno, "cannot attach the sampler to %s: %s", name,
			       strerror(errno));
	return 0;
}

static int event_open(struct sampler *sampler, int cpu, uint64_t period)
{
	const struct sampler_options *options = &sampler->options;
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = options->event.type,
		.config = options->event.config,
		.sample_period = period,
		.freq = options->event.kind != SAMPLER_CLOCK && options->frequency,
		.disabled = 1,
		.exclude_kernel = !(sampler->programs.parts & PART_BIT(KERNEL)),
		.exclude_idle = 1,
		.exclude_hv = 1,
	};

	return event_attach(sampler, &attr, cpu, sampler->skeleton->progs.sample);
}

/* One event is enough: the program runs wherever the tracepoint is reached. */
static int tracepoint_open(struct sampler *sampler)
{
	const struct sampler_options *options = &sampler->options;
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = options->event.type,
		.config = options->event.config,
		.sample_period = 1,
		.disabled = 1,
	};

	for (size_t i = 0; i < options->cpu_count; i++) {
		unsigned cpu = (unsigned)options->cpus[i];

		if (cpu >= SAMPLER_CPUS_MAX)
			return err_set(-EINVAL, "tracepoints are sampled on the first %d CPUs",
				       SAMPLER_CPUS_MAX);
		sampler->skeleton->bss->tracepoint_cpus[cpu / 64] |= 1ull << (cpu % 64);
	}
	return event_attach(sampler, &attr, options->cpus[0],
			    sampler->skeleton->progs.sample_tracepoint);
}

static int events_open(struct sampler *sampler)
{
	int err = 0;

	if (sampler->options.event.kind == SAMPLER_TRACEPOINT)
		return tracepoint_open(sampler);
	for (size_t c = 0; c < sampler->options.cpu_count && !err; c++)
		for (size_t i = 0; i < sampler->period_count && !err; i++)
			err = event_open(sampler, sampler->options.cpus[c], sampler->periods[i]);
	return err;
}

bool sampler_has_rate(const struct sampler *sampler)
{
	return sampler->options.event.kind == SAMPLER_CLOCK || sampler->options.frequency;
}

/*
 * The kernel restarts each clock, which loses a part of one interval. Events lie in the order of
 * CPUs, those of a CPU in the order of periods.
 */
int sampler_rate_set(struct sampler *sampler, uint64_t frequency)
{
	sampler->options.frequency = frequency;
	periods_choose(sampler);
	for (size_t i = 0; i < sampler->events.count; i++) {
		uint64_t period = sampler->periods[i % sampler->period_count];

		if (ioctl(sampler->events.items[i], PERF_EVENT_IOC_PERIOD, &period))
			return err_set(-errno, "cannot change the rate of samples to %llu Hz: %s",
				       (unsigned long long)frequency, strerror(errno));
	}
	return 0;
}

int sampler_add_process(struct sampler *sampler, uint32_t tgid, bool from_exec)
{
	uint32_t state = from_exec ? TARGET_WAITING : TARGET_SAMPLED;

	if (bpf_map__update_elem(sampler->skeleton->maps.targets, &tgid, sizeof(tgid), &state,
				 sizeof(state), BPF_ANY))
		return err_set(-errno, "cannot mark process %u: %s", tgid, strerror(errno));
	return 0;
}

static int events_all(struct sampler *sampler, unsigned long request, const char *what)
{
	array_each(&sampler->events, fd)
		if (ioctl(*fd, request, 0))
			return err_set(-errno, "cannot %s sampling: %s", what, strerror(errno));
	return 0;
}

int sampler_enable(struct sampler *sampler)
{
	sampler->skeleton->bss->tracepoint_on = 1;
	if (sampler->options.event.kind == SAMPLER_TRACEPOINT)
		return 0; /* its program runs as soon as it is attached */
	return events_all(sampler, PERF_EVENT_IOC_ENABLE, "start");
}

int sampler_disable(struct sampler *sampler)
{
	sampler->skeleton->bss->tracepoint_on = 0;
	if (sampler->options.event.kind == SAMPLER_TRACEPOINT)
		return 0;
	return events_all(sampler, PERF_EVENT_IOC_DISABLE, "stop");
}

/*
 * --- Records out --------------------------------------------------------------------------------
 */

static bool stack_valid(const struct sample_stack *stack, size_t size)
{
	return size >= sizeof(*stack) &&
	       (size_t)stack->kernel_count + stack->user_count <= SAMPLE_FRAMES_MAX &&
	       stack->end < STACK_END_COUNT &&
	       size >= sizeof(*stack) + 8 * ((size_t)stack->kernel_count + stack->user_count);
}

static bool dump_valid(const struct sample_dump *dump, size_t size)
{
	return size >= sizeof(*dump) && dump->kernel_count <= SAMPLE_KERNEL_DEPTH_MAX &&
	       dump->weight && dump->stack_size <= size - sizeof(*dump);
}

static int on_run(struct sampler *sampler, const struct run_record *run, size_t size)
{
	if (!sampler->handlers.run || run->log_count > RUN_LOG_MAX || run->end >= UOP_END_COUNT ||
	    size < run_record_size(run->log_count)) {
		sampler->bad_runs++;
		return 0;
	}
	return sampler->handlers.run(sampler->handlers.ctx, run);
}

static int on_record(void *ctx, void *data, size_t size)
{
	struct sampler *sampler = ctx;
	const struct sampler_handlers *handlers = &sampler->handlers;
	const struct sample_record *record = data;
	int err = 0;

	if (size >= sizeof(struct sample_stack) && record->kind == RECORD_STACK &&
	    stack_valid(data, size))
		err = handlers->stack(handlers->ctx, data);
	else if (size >= sizeof(struct sample_dump) && record->kind == RECORD_DUMP &&
		 dump_valid(data, size))
		err = handlers->dump(handlers->ctx, data);
	else if (size >= sizeof(struct sample_identity) && record->kind == RECORD_IDENTITY)
		err = handlers->identity(handlers->ctx, data);
	else if (size >= sizeof(struct run_record) && record->kind == RECORD_RUN)
		err = on_run(sampler, data, size);
	else if (size >= sizeof(struct run_wanted) && record->kind == RECORD_WANTED &&
		 handlers->wanted)
		err = handlers->wanted(handlers->ctx, data);
	else
		sampler->bad_records++;
	if (err && !sampler->handler_err)
		sampler->handler_err = err;
	return 0;
}

int sampler_drain_ring(struct sampler *sampler)
{
	int err = ring_buffer__consume(sampler->ring);

	if (err < 0)
		return err_set(err, "cannot read the sampler's ring: %s", strerror(-err));
	return sampler->handler_err;
}

static int counts_empty(struct sampler *sampler, struct bpf_map *map)
{
	AUTO(free_ptr) struct sample_key *keys = mem_alloc(COUNTS_BATCH * sizeof(*keys));
	AUTO(free_ptr) struct sample_count *counts = mem_alloc(COUNTS_BATCH * sizeof(*counts));
	struct sample_key in, out;
	bool first = true, last = false;
	int err;

	while (!last) {
		uint32_t batch = COUNTS_BATCH;

		err = bpf_map_lookup_and_delete_batch(bpf_map__fd(map), first ? NULL : &in, &out,
						      keys, counts, &batch, NULL);
		if (err && err != -ENOENT)
			return err_set(err, "cannot read the sampler's counts: %s", strerror(-err));
		last = err == -ENOENT;
		for (uint32_t i = 0; i < batch; i++) {
			err = sampler->handlers.count(sampler->handlers.ctx, &keys[i], &counts[i]);
			if (err)
				return err;
		}
		in = out;
		first = false;
	}
	return 0;
}

int sampler_drain_counts(struct sampler *sampler)
{
	uint32_t active = sampler->skeleton->bss->counts_active & 1;
	int err;

	err = counts_empty(sampler, active ? sampler->skeleton->maps.counts_0
					   : sampler->skeleton->maps.counts_1);
	sampler->skeleton->bss->counts_active = !active;
	return err;
}

static struct sample_tally *tallies_read(const struct sampler *sampler, size_t *ret_count)
{
	size_t cpus = (size_t)libbpf_num_possible_cpus();
	struct sample_tally *tallies = mem_zalloc(cpus * sizeof(*tallies));
	uint32_t zero = 0;

	bpf_map__lookup_elem(sampler->skeleton->maps.tallies, &zero, sizeof(zero), tallies,
			     cpus * sizeof(*tallies), 0);
	*ret_count = cpus;
	return tallies;
}

void sampler_tally(const struct sampler *sampler, struct sample_tally *ret)
{
	size_t cpus;
	AUTO(free_ptr) struct sample_tally *tallies = tallies_read(sampler, &cpus);

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < cpus; i++) {
		ret->seen += tallies[i].seen;
		ret->counted += tallies[i].counted;
		ret->dumped += tallies[i].dumped;
		ret->thinned += tallies[i].thinned;
		ret->identities_lost += tallies[i].identities_lost;
		ret->children_lost += tallies[i].children_lost;
		for (size_t reason = 0; reason < LOSS_COUNT; reason++)
			ret->lost[reason] += tallies[i].lost[reason];
	}
	ret->lost[LOSS_BAD_RECORD] += sampler->bad_records;
}

int sampler_map_fd(const struct sampler *sampler, const char *name)
{
	return bpf_object__find_map_fd_by_name(sampler->skeleton->obj, name);
}

void sampler_cpus_seen(const struct sampler *sampler, uint64_t **ret, size_t *ret_count)
{
	AUTO(free_ptr) struct sample_tally *tallies = tallies_read(sampler, ret_count);

	*ret = mem_zalloc(*ret_count * sizeof(**ret));
	for (size_t i = 0; i < *ret_count; i++)
		(*ret)[i] = tallies[i].seen;
}

int sampler_fd(const struct sampler *sampler)
{
	return ring_buffer__epoll_fd(sampler->ring);
}

size_t sampler_periods(const struct sampler *sampler, const uint64_t **ret)
{
	*ret = sampler->periods;
	return sampler->period_count;
}

/*
 * --- Tables in ----------------------------------------------------------------------------------
 */

/*
 * Writes into an array map through a window that is mapped only meanwhile: a lasting mapping of the
 * whole map would count as the recorder's memory, and a system call per element would be slow.
 */
static int window_write(struct bpf_map *map, uint64_t offset, const void *data, size_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t from = offset & ~(page - 1), to = (offset + size + page - 1) & ~(page - 1);
	char *window;

	if (!size)
		return 0;
	window = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map),
		      (off_t)from);
	if (window == MAP_FAILED)
		return err_set(-errno, "cannot write the map %s: %s", bpf_map__name(map),
			       strerror(errno));
	memcpy(window + (offset - from), data, size);
	munmap(window, to - from);
	return 0;
}

int sampler_publish_rows(struct sampler *sampler, const struct unwind_row *rows, size_t count,
			 uint32_t *ret_first)
{
	int err;

	if (count > sampler->options.max_rows - sampler->rows_used)
		return -ENOSPC;
	err = window_write(sampler->skeleton->maps.rows,
			   (uint64_t)sampler->rows_used * sizeof(*rows), rows,
			   count * sizeof(*rows));
	if (err)
		return err;
	*ret_first = sampler->rows_used;
	sampler->rows_used += (uint32_t)count;
	return 0;
}

static uint32_t class_of(size_t count)
{
	uint32_t class = 3;

	while ((1ull << class) < count)
		class ++;
	return class;
}

static void places_revive(struct sampler *sampler)
{
	uint64_t now = clock_monotonic();
	size_t rested = 0;

	while (rested < sampler->retired.count &&
	       now - sampler->retired.items[rested].retired > PLACE_REST_NS) {
		struct place *place = &sampler->retired.items[rested++];

		*array_push(&sampler->free[place->class]) = *place;
	}
	sampler->retired.count -= rested;
	if (rested)
		memmove(sampler->retired.items, sampler->retired.items + rested,
			sampler->retired.count * sizeof(struct place));
}

static int place_take(struct sampler *sampler, size_t count, struct place *ret)
{
	uint32_t class = class_of(count);

	if (class >= PLACE_CLASSES)
		return -ENOSPC;
	places_revive(sampler);
	if (sampler->free[class].count) {
		*ret = sampler->free[class].items[--sampler->free[class].count];
		return 0;
	}
	if ((1u << class) > sampler->options.max_mappings - sampler->mappings_used)
		return -ENOSPC;
	*ret = (struct place){ .first = sampler->mappings_used, .class = class };
	sampler->mappings_used += 1u << class;
	return 0;
}

static void place_retire(struct sampler *sampler, uint64_t packed)
{
	*array_push(&sampler->retired) = (struct place){
		.first = (uint32_t)(packed >> 32),
		.class = (uint32_t)packed,
		.retired = clock_monotonic(),
	};
}

int sampler_publish_process(struct sampler *sampler, uint32_t tgid,
			    const struct unwind_mapping *mappings, size_t count, uint32_t epoch,
			    bool device)
{
	struct sampler_process process = { .generation = ++sampler->generation,
					   .epoch = epoch,
					   .device = device };
	struct place place;
	uint64_t *published;
	bool fresh;
	int err;

	err = place_take(sampler, count, &place);
	if (err)
		return err;
	err = window_write(sampler->skeleton->maps.mappings,
			   (uint64_t)place.first * sizeof(*mappings), mappings,
			   count * sizeof(*mappings));
	if (err)
		return err;
	process.first = place.first;
	process.count = (uint32_t)count;
	if (bpf_map__update_elem(sampler->skeleton->maps.processes, &tgid, sizeof(tgid), &process,
				 sizeof(process), BPF_ANY))
		return err_set(-errno, "cannot publish process %u: %s", tgid, strerror(errno));
	published = map_at(&sampler->published, tgid, &fresh);
	if (!fresh)
		place_retire(sampler, *published);
	*published = (uint64_t)place.first << 32 | place.class;
	return 0;
}

void sampler_forget_process(struct sampler *sampler, uint32_t tgid)
{
	uint64_t *published = map_find(&sampler->published, tgid);

	bpf_map__delete_elem(sampler->skeleton->maps.processes, &tgid, sizeof(tgid), 0);
	if (!published)
		return;
	place_retire(sampler, *published);
	map_remove(&sampler->published, tgid);
}

/* --- Translations in -------------------------------------------------------------------------- */

int sampler_publish_block(struct sampler *sampler, const struct block_key *key,
			  const struct uop_block *block, uint32_t serial)
{
	return block_table_put(&sampler->blocks, key, block, serial, true);
}

uint32_t sampler_find_block(const struct sampler *sampler, const struct block_key *key)
{
	return block_table_find(&sampler->blocks, key);
}

void sampler_forget_blocks(struct sampler *sampler)
{
	block_table_clear(&sampler->blocks);
}

/* Takes some 50 ms the first time. */
static const struct kernel_layout *layout_get(struct sampler *sampler)
{
	if (!sampler->layout_known)
		kernel_layout_get(&sampler->layout);
	sampler->layout_known = true;
	return &sampler->layout;
}

static bool range_holds(const struct kernel_range *range, uint64_t address, uint64_t size)
{
	return address >= range->start && address < range->end && size <= range->end - address;
}

/* NULL: it cannot be mapped. */
static struct run_text *text_get(struct sampler *sampler)
{
	void *text;

	if (!sampler->text) {
		text = mmap(NULL, sizeof(struct run_text), PROT_READ | PROT_WRITE, MAP_SHARED,
			    bpf_map__fd(sampler->skeleton->maps.texts), 0);
		sampler->text = text == MAP_FAILED ? NULL : text;
	}
	return sampler->text;
}

size_t sampler_kernel_text(struct sampler *sampler, uint64_t address, void *ret, size_t size)
{
	const struct kernel_layout *layout = layout_get(sampler);
	struct run_text *text = text_get(sampler);
	LIBBPF_OPTS(bpf_test_run_opts, how);

	size = size < RUN_TEXT_BYTES ? size : RUN_TEXT_BYTES;
	if (!text || !(sampler->programs.parts & PART_BIT(KERNEL_TEXT)) ||
	    (!range_holds(&layout->image, address, size) &&
	     !range_holds(&layout->modules, address, size)))
		return 0;
	text->address = address;
	text->size = (uint32_t)size;
	if (bpf_prog_test_run_opts(bpf_program__fd(sampler->skeleton->progs.text_read), &how) ||
	    text->size != size)
		return 0;
	memcpy(ret, text->code, size);
	return size;
}

void sampler_run_every_set(struct sampler *sampler, uint32_t every)
{
	sampler->skeleton->bss->run_every = every;
}

void sampler_run_length_set(struct sampler *sampler, uint32_t length, uint32_t skip)
{
	sampler->skeleton->bss->run_length = length;
	sampler->skeleton->bss->run_skip = skip;
}

void sampler_run_tally(const struct sampler *sampler, struct run_tally *ret)
{
	size_t cpus = (size_t)libbpf_num_possible_cpus();
	AUTO(free_ptr) struct run_tally *tallies = mem_zalloc(cpus * sizeof(*tallies));
	uint32_t zero = 0;

	memset(ret, 0, sizeof(*ret));
	bpf_map__lookup_elem(sampler->skeleton->maps.run_tallies, &zero, sizeof(zero), tallies,
			     cpus * sizeof(*tallies), 0);
	for (size_t i = 0; i < cpus; i++) {
		ret->seen += tallies[i].seen;
		ret->sent += tallies[i].sent;
		ret->steps += tallies[i].steps;
		ret->nanoseconds += tallies[i].nanoseconds;
		for (size_t reason = 0; reason < RUN_LOSS_COUNT; reason++)
			ret->lost[reason] += tallies[i].lost[reason];
	}
	ret->lost[RUN_LOSS_BAD_RECORD] += sampler->bad_runs;
}

/* --- Life ------------------------------------------------------------------------------------- */

static int blocks_map(struct sampler *sampler)
{
	const struct sampler_runs *runs = &sampler->options.runs;
	const struct sampler_bpf *skeleton = sampler->skeleton;
	int err = block_table_init(&sampler->blocks, bpf_map__fd(skeleton->maps.blocks),
				   programs_block_slots(runs), bpf_map__fd(skeleton->maps.uops),
				   runs->max_uops);

	return err ? err_set(err, "cannot map the table of translations: %s", strerror(-err)) : 0;
}

int sampler_load(const struct sampler_options *options, struct sampler **ret)
{
	AUTO(sampler_destroy_auto) struct sampler *sampler = mem_zalloc(sizeof(*sampler));
	int err;

	sampler->options = *options;
	periods_choose(sampler);
	err = programs_load(&sampler->options, sampler->every,
			    options->runs.length ? layout_get(sampler) : NULL, &sampler->programs);
	if (err)
		return err;
	sampler->skeleton = sampler->programs.skeleton;
	if (!sampler_event_interrupts(&options->event) &&
	    !(sampler->programs.parts & PART_BIT(KERNEL)))
		return err_set(-EOPNOTSUPP,
			       "%s cannot be sampled: this kernel refuses the part of the sampler "
			       "that takes kernel code",
			       options->event.name);
	if (!(sampler->programs.parts & PART_BIT(VALUES)))
		sampler->options.runs.length = 0;
	*ret = take_ptr(sampler);
	return 0;
}

size_t sampler_refusals(const struct sampler *sampler, const struct sampler_refusal **ret)
{
	*ret = sampler->programs.refusals;
	return sampler->programs.refusal_count;
}

int sampler_attach(struct sampler *sampler, const int *cpus, size_t cpu_count,
		   const struct sampler_handlers *handlers)
{
	struct sampler_bpf *skeleton = sampler->skeleton;
	int err;

	sampler->options.cpus = cpus;
	sampler->options.cpu_count = cpu_count;
	sampler->handlers = *handlers;
	err = sampler_bpf__attach(skeleton); /* fork, exec and exit; sample() goes to the events */
	if (err)
		return err_set(err, "cannot follow fork and exec: %s", strerror(-err));
	if (sampler->options.runs.length)
		err = blocks_map(sampler);
	if (err)
		return err;
	sampler->ring =
		ring_buffer__new(bpf_map__fd(skeleton->maps.ring), on_record, sampler, NULL);
	if (!sampler->ring)
		return err_set(-errno, "cannot map the sampler's ring: %s", strerror(errno));
	return events_open(sampler);
}

int sampler_open(const struct sampler_options *options, const struct sampler_handlers *handlers,
		 struct sampler **ret)
{
	AUTO(sampler_destroy_auto) struct sampler *sampler = NULL;
	int err = sampler_load(options, &sampler);

	if (!err)
		err = sampler_attach(sampler, options->cpus, options->cpu_count, handlers);
	if (err)
		return err;
	*ret = take_ptr(sampler);
	return 0;
}

void sampler_destroy(struct sampler *sampler)
{
	if (!sampler)
		return;
	array_each(&sampler->events, fd)
		close(*fd);
	array_deinit(&sampler->events);
	ring_buffer__free(sampler->ring);
	block_table_deinit(&sampler->blocks);
	if (sampler->text)
		munmap(sampler->text, sizeof(*sampler->text));
	programs_deinit(&sampler->programs);
	array_deinit(&sampler->retired);
	for (size_t i = 0; i < PLACE_CLASSES; i++)
		array_deinit(&sampler->free[i]);
	map_deinit(&sampler->published);
	free(sampler);
}

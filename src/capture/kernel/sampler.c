// SPDX-License-Identifier: BSD-2-Clause
#include "capture/kernel/sampler.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "capture/kernel/block_table.h"
#include "capture/kernel/layout.h"
#include "sampler.skel.h"

enum {
	COUNTS_BATCH = 1024,
	PLACE_CLASSES = 17, /* mappings are placed in runs of 2^class */

};

/* A run of the mappings map must rest before it is used again: a handler may still be reading it. */
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
	struct sampler_bpf *skeleton;
	struct ring_buffer *ring;
	ARRAY(int) events;
	uint64_t periods[CLOCKS];
	size_t period_count;
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

/* --- Events ------------------------------------------------------------------------------------ */

static const struct {
	const char *name;
	uint32_t type;
	uint64_t config;
	const char *unit;
} events[] = {
#define X(name, text, type, config, unit) [SAMPLER_##name] = { text, type, config, unit },
	SAMPLER_EVENTS(X)
#undef X
};

const char *sampler_event_name(enum sampler_event event)
{
	return events[event].name;
}

const char *sampler_event_unit(enum sampler_event event)
{
	return events[event].unit;
}

int sampler_event_parse(const char *name, enum sampler_event *ret)
{
	for (size_t i = 0; i < SAMPLER_EVENT_COUNT; i++) {
		if (!strcmp(name, events[i].name)) {
			*ret = (enum sampler_event)i;
			return 0;
		}
	}
	return err_set(-EINVAL, "unknown event '%s'; known are cpu-clock, cycles and instructions",
		       name);
}

static int perf_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

bool sampler_event_works(enum sampler_event event)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = events[event].type,
		.config = events[event].config,
		.sample_period = 1000000,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	AUTO(close_fd) int fd = perf_open(&attr, 0, -1);

	return fd >= 0;
}

static void periods_choose(struct sampler *sampler)
{
	const struct sampler_options *options = &sampler->options;
	uint64_t mean = options->frequency ? NS_PER_S / options->frequency : options->period;

	if (options->event == SAMPLER_CPU_CLOCK) {
		clocks_draw(mean, options->seed, sampler->periods);
		sampler->period_count = CLOCKS;
		return;
	}
	/* A hardware counter is scarce: one event. Given a rate, the kernel adapts its period all the time. */
	sampler->periods[0] = options->frequency ? options->frequency : options->period;
	sampler->period_count = 1;
}

static int event_open(struct sampler *sampler, int cpu, uint64_t period)
{
	const struct sampler_options *options = &sampler->options;
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = events[options->event].type,
		.config = events[options->event].config,
		.sample_period = period,
		.freq = options->event != SAMPLER_CPU_CLOCK && options->frequency,
		.disabled = 1,
		.exclude_idle = 1,
		.exclude_hv = 1,
	};
	int fd = perf_open(&attr, -1, cpu);

	if (fd == -ENODEV || fd == -EINVAL)
		return err_set(fd, "CPU %d is not there or not online", cpu);
	if (fd < 0)
		return err_set(
			fd, "cannot sample %s on CPU %d: %s; 'assay doctor' tells what is missing",
			events[options->event].name, cpu, strerror(-fd));
	*array_push(&sampler->events) = fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(sampler->skeleton->progs.sample)))
		return err_set(-errno, "cannot attach the sampler to %s: %s",
			       events[options->event].name, strerror(errno));
	return 0;
}

static int events_open(struct sampler *sampler)
{
	int err = 0;

	for (size_t c = 0; c < sampler->options.cpu_count; c++)
		for (size_t i = 0; i < sampler->period_count && !err; i++)
			err = event_open(sampler, sampler->options.cpus[c], sampler->periods[i]);
	return err;
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
	return events_all(sampler, PERF_EVENT_IOC_ENABLE, "start");
}

int sampler_disable(struct sampler *sampler)
{
	return events_all(sampler, PERF_EVENT_IOC_DISABLE, "stop");
}

/* --- Records out -------------------------------------------------------------------------------- */

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
	       dump->stack_size <= size - sizeof(*dump);
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

void sampler_tally(const struct sampler *sampler, struct sample_tally *ret)
{
	size_t cpus = (size_t)libbpf_num_possible_cpus();
	AUTO(free_ptr) struct sample_tally *tallies = mem_zalloc(cpus * sizeof(*tallies));
	uint32_t zero = 0;

	memset(ret, 0, sizeof(*ret));
	bpf_map__lookup_elem(sampler->skeleton->maps.tallies, &zero, sizeof(zero), tallies,
			     cpus * sizeof(*tallies), 0);
	for (size_t i = 0; i < cpus; i++) {
		ret->seen += tallies[i].seen;
		ret->counted += tallies[i].counted;
		ret->dumped += tallies[i].dumped;
		for (size_t reason = 0; reason < LOSS_COUNT; reason++)
			ret->lost[reason] += tallies[i].lost[reason];
	}
	ret->lost[LOSS_BAD_RECORD] += sampler->bad_records;
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

/* --- Tables in ---------------------------------------------------------------------------------- */

/*
 * Writes into an array map through a window that is mapped only meanwhile: a lasting mapping of the whole map would
 * count as the collector's memory, and a system call per element would be slow.
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

/* --- Translations in ------------------------------------------------------------------------------ */

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
	if (!text || (!range_holds(&layout->image, address, size) &&
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

/* --- Life ----------------------------------------------------------------------------------------- */

static int say_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
	char line[1024];

	if (level == LIBBPF_DEBUG)
		return 0;
	vsnprintf(line, sizeof(line), format, args);
	line[strcspn(line, "\n")] = '\0';
	log_debug("libbpf: %s", line);
	return 0;
}

/* Twice as many as are used at most, as a power of two. */
static uint32_t blocks_slots(const struct sampler_runs *runs)
{
	uint32_t slots = 2;

	while (slots < 2 * runs->max_blocks)
		slots *= 2;
	return slots;
}

static int maps_size(struct sampler_bpf *skeleton, const struct sampler_options *options)
{
	uint32_t cpus = (uint32_t)libbpf_num_possible_cpus();
	int err = 0;

	err = err ? err
		  : bpf_map__set_max_entries(skeleton->maps.ring, (uint32_t)options->ring_bytes);
	err = err ? err : bpf_map__set_max_entries(skeleton->maps.counts_0, options->max_stacks);
	err = err ? err : bpf_map__set_max_entries(skeleton->maps.counts_1, options->max_stacks);
	err = err ? err
		  : bpf_map__set_max_entries(skeleton->maps.stacks_sent, options->max_stacks * 4);
	err = err ? err : bpf_map__set_max_entries(skeleton->maps.rows, options->max_rows);
	err = err ? err : bpf_map__set_max_entries(skeleton->maps.mappings, options->max_mappings);
	err = err ? err
		  : bpf_map__set_max_entries(skeleton->maps.row_cache, cpus * ROW_CACHE_ENTRIES);
	if (!options->runs.length)
		return err;
	err = err ? err
		  : bpf_map__set_max_entries(skeleton->maps.blocks, blocks_slots(&options->runs));
	err = err ? err : bpf_map__set_max_entries(skeleton->maps.uops, options->runs.max_uops);
	return err;
}

static void runs_configure(struct sampler *sampler)
{
	const struct sampler_runs *runs = &sampler->options.runs;
	const struct kernel_layout *layout = layout_get(sampler);
	struct sampler_bpf *skeleton = sampler->skeleton;

	skeleton->rodata->run_length = runs->length;
	skeleton->rodata->run_skip = runs->skip;
	skeleton->rodata->run_every = runs->every;
	skeleton->rodata->blocks_mask = blocks_slots(runs) - 1;
	skeleton->rodata->run_flags = (runs->system ? RUN_SYSTEM : 0) |
				      (runs->overwritten ? RUN_OVERWRITTEN : 0);
	skeleton->rodata->percpu_base_place = layout->percpu_base;
	skeleton->rodata->preempt_count_place = layout->preempt_count;
	skeleton->rodata->direct_map_variable = layout->direct_map_variable;
	skeleton->rodata->page_map_variable = layout->page_map_variable;
	skeleton->rodata->image_start = layout->image.start;
	skeleton->rodata->image_end = layout->image.end;
	skeleton->rodata->modules_start = layout->modules.start;
	skeleton->rodata->modules_end = layout->modules.end;
	for (size_t i = 0; i < RUN_RAM_RANGES; i++) {
		skeleton->rodata->ram[i].start = layout->ram[i].start;
		skeleton->rodata->ram[i].size = layout->ram[i].end - layout->ram[i].start;
	}
}

static int blocks_map(struct sampler *sampler)
{
	const struct sampler_runs *runs = &sampler->options.runs;
	const struct sampler_bpf *skeleton = sampler->skeleton;
	int err = block_table_init(&sampler->blocks, bpf_map__fd(skeleton->maps.blocks),
				   blocks_slots(runs), bpf_map__fd(skeleton->maps.uops),
				   runs->max_uops);

	return err ? err_set(err, "cannot map the table of translations: %s", strerror(-err)) : 0;
}

static int skeleton_load(struct sampler *sampler)
{
	const struct sampler_options *options = &sampler->options;
	struct sampler_bpf *skeleton;
	int err;

	libbpf_set_print(say_libbpf);
	sampler->skeleton = skeleton = sampler_bpf__open();
	if (!skeleton)
		return err_set(-errno, "cannot open the sampler's BPF object: %s", strerror(errno));
	skeleton->rodata->max_depth = options->max_depth;
	skeleton->rodata->ring_wakeup = options->ring_bytes / 2;
	skeleton->rodata->everything = options->everything;
	err = maps_size(skeleton, options);
	if (options->runs.length)
		runs_configure(sampler);
	if (!err)
		err = sampler_bpf__load(skeleton);
	if (err)
		return err_set(
			err,
			"the kernel refused the sampler: %s; 'assay doctor' tells what is missing",
			strerror(-err));
	err = sampler_bpf__attach(skeleton); /* fork, exec and exit; sample() goes to the events */
	if (err)
		return err_set(err, "cannot follow fork and exec: %s", strerror(-err));
	if (options->runs.length)
		err = blocks_map(sampler);
	if (err)
		return err;
	sampler->ring =
		ring_buffer__new(bpf_map__fd(skeleton->maps.ring), on_record, sampler, NULL);
	if (!sampler->ring)
		return err_set(-errno, "cannot map the sampler's ring: %s", strerror(errno));
	return 0;
}

int sampler_open(const struct sampler_options *options, const struct sampler_handlers *handlers,
		 struct sampler **ret)
{
	AUTO(sampler_destroy_auto) struct sampler *sampler = mem_zalloc(sizeof(*sampler));
	int err;

	sampler->options = *options;
	sampler->handlers = *handlers;
	periods_choose(sampler);
	err = skeleton_load(sampler);
	if (!err)
		err = events_open(sampler);
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
	sampler_bpf__destroy(sampler->skeleton);
	array_deinit(&sampler->retired);
	for (size_t i = 0; i < PLACE_CLASSES; i++)
		array_deinit(&sampler->free[i]);
	map_deinit(&sampler->published);
	free(sampler);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "capture/kernel/waits.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "capture/kernel/verifier_log.h"
#include "capture/kernel/layout.h"
#include "waits.skel.h"

enum { BATCH = 512, READING = 1 << 16 };

struct waits {
	struct waits_handlers handlers;
	struct waits_bpf *skeleton;
	struct ring_buffer *ring;
	ARRAY(struct bpf_link *) sites; /* of tasks */
	uint32_t cpus;
	struct bpf_link *changes; /* the iterator that hands out threads that have changed */
	uint64_t readings;
	uint64_t ended; /* CLOCK_MONOTONIC; 0: not yet */
	uint64_t bad_records;
	int handler_err; /* first failure of a handler during a drain */
};

/* --- Loading ---------------------------------------------------------------------------------- */

/* Where a function of the kernel begins and where the next one does; 0: not known. */
static void function_find(const char *name, struct kernel_range *ret)
{
	AUTO(close_file) FILE *file = fopen("/proc/kallsyms", "re");
	char line[512], symbol[256];
	uint64_t address;

	*ret = (struct kernel_range){};
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNx64 " %*c %255s", &address, symbol) != 2)
			continue;
		if (ret->start && address > ret->start) {
			ret->end = address;
			break;
		}
		if (!ret->start && !strcmp(symbol, name))
			ret->start = address;
	}
}

/* The tables of stacks and processes are the sampler's. */
static int maps_share(struct waits_bpf *skeleton, const struct sampler *sampler)
{
	struct bpf_map *const shared[] = {
		skeleton->maps.rows,	skeleton->maps.mappings,	skeleton->maps.processes,
		skeleton->maps.targets, skeleton->maps.identities_sent,
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]) && !err; i++)
		err = bpf_map__reuse_fd(shared[i],
					sampler_map_fd(sampler, bpf_map__name(shared[i])));
	return err;
}

static int maps_size(struct waits_bpf *skeleton, const struct waits_options *options, uint32_t cpus)
{
	const struct {
		struct bpf_map *map;
		uint32_t entries;
	} sizes[] = {
		{ skeleton->maps.ring, (uint32_t)options->ring_bytes },
		{ skeleton->maps.waits_0, options->max_waits },
		{ skeleton->maps.waits_1, options->max_waits },
		{ skeleton->maps.stacks_sent, options->max_waits * 4 },
		{ skeleton->maps.threads, options->max_threads },
		{ skeleton->maps.thread_cpus, cpus },
		{ skeleton->maps.row_cache, cpus * ROW_CACHE_ENTRIES },
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !err; i++)
		err = bpf_map__set_max_entries(sizes[i].map, sizes[i].entries);
	return err;
}

static void constants_set(struct waits_bpf *skeleton, const struct waits_options *options)
{
	struct kernel_range range;
	struct kernel_layout layout;

	skeleton->rodata->everything = options->everything;
	skeleton->rodata->max_depth = options->max_depth;
	skeleton->rodata->ring_wakeup = options->ring_bytes / 2;
	function_find("__schedule", &range);
	skeleton->rodata->switch_start = range.start;
	skeleton->rodata->switch_end = range.end;
	function_find("try_to_wake_up", &range);
	skeleton->rodata->waking_start = range.start;
	skeleton->rodata->waking_end = range.end;
	function_find("__entry_text_start", &range);
	skeleton->rodata->entry_start = range.start;
	function_find("__entry_text_end", &range);
	skeleton->rodata->entry_end = range.start;
	kernel_layout_get(&layout);
	skeleton->rodata->preempt_place = layout.preempt_count;
}

static int skeleton_load(struct waits *waits, const struct waits_options *options,
			 const struct sampler *sampler)
{
	struct waits_bpf *skeleton = waits->skeleton = waits_bpf__open();
	int err;

	if (!skeleton)
		return -errno;
	constants_set(skeleton, options);
	err = maps_size(skeleton, options, waits->cpus);
	err = err ? err : maps_share(skeleton, sampler);
	if (!err && !options->system_calls)
		err = bpf_program__set_autoload(skeleton->progs.on_system_call, false);
	return err ? err : waits_bpf__load(skeleton);
}

int waits_load(const struct waits_options *options, const struct sampler *sampler,
	       struct waits **ret)
{
	AUTO(waits_destroy_auto) struct waits *waits = mem_zalloc(sizeof(*waits));
	struct sampler_refusal refusal = {};
	int err;

	waits->cpus = (uint32_t)libbpf_num_possible_cpus();
	verifier_log_begin();
	err = skeleton_load(waits, options, sampler);
	if (err)
		refusal_read(verifier_log_text(), &refusal);
	verifier_log_end();
	if (err)
		return err_set(err, "the kernel refuses the programs at its scheduler: %s%s%s",
			       refusal.program, refusal.program[0] ? ": " : "",
			       refusal.reason[0] ? refusal.reason : strerror(-err));
	*ret = take_ptr(waits);
	return 0;
}

int waits_try(struct sampler_refusal *ret)
{
	const struct sampler_options beside = {
		.everything = true,
		.frequency = 997,
		.ring_bytes = 64 << 10,
		.max_stacks = 64,
		.max_rows = 64,
		.max_mappings = 64,
		.max_depth = SAMPLE_DEPTH_MAX,
	};
	const struct waits_options options = {
		.everything = true,
		.system_calls = true,
		.ring_bytes = 64 << 10,
		.max_waits = 64,
		.max_threads = 64,
		.max_depth = SAMPLE_DEPTH_MAX,
	};
	AUTO(sampler_destroy_auto) struct sampler *sampler = NULL;
	AUTO(waits_destroy_auto) struct waits *waits = mem_zalloc(sizeof(*waits));

	*ret = (struct sampler_refusal){};
	ret->err = sampler_load(&beside, &sampler);
	if (ret->err)
		return ret->err;
	waits->cpus = (uint32_t)libbpf_num_possible_cpus();
	verifier_log_begin();
	ret->err = skeleton_load(waits, &options, sampler);
	if (ret->err)
		refusal_read(verifier_log_text(), ret);
	verifier_log_end();
	return ret->err;
}

static void sites_leave(struct waits *waits)
{
	array_each(&waits->sites, link)
		bpf_link__destroy(*link);
	array_deinit(&waits->sites);
}

void waits_destroy(struct waits *waits)
{
	if (!waits)
		return;
	sites_leave(waits);
	bpf_link__destroy(waits->changes);
	ring_buffer__free(waits->ring);
	waits_bpf__destroy(waits->skeleton);
	free(waits);
}

/* --- Records out ------------------------------------------------------------------------------ */

static bool stack_valid(const struct sample_stack *stack, size_t size)
{
	return size >= sizeof(*stack) && stack->end < STACK_END_COUNT &&
	       (size_t)stack->kernel_count + stack->user_count <= SAMPLE_FRAMES_MAX &&
	       size >= sizeof(*stack) + 8 * ((size_t)stack->kernel_count + stack->user_count);
}

static bool dump_valid(const struct sample_dump *dump, size_t size)
{
	return size >= sizeof(*dump) && dump->kernel_count <= SAMPLE_KERNEL_DEPTH_MAX &&
	       dump->stack_size <= size - sizeof(*dump);
}

/*
 * A thread's slot has fields in front of its record, so its kind lies elsewhere than in other
 * records.
 */
static bool is_thread(const void *data, size_t size)
{
	const struct thread_slot *slot = data;

	return size >= sizeof(*slot) && slot->record.kind == RECORD_THREAD;
}

static int record_hand(struct waits *waits, const void *data, size_t size)
{
	const struct waits_handlers *handlers = &waits->handlers;
	const struct sample_record *record = data;

	if (size >= sizeof(struct sample_stack) && record->kind == RECORD_STACK &&
	    stack_valid(data, size))
		return handlers->stack(handlers->ctx, data);
	if (size >= sizeof(struct sample_dump) && record->kind == RECORD_DUMP &&
	    dump_valid(data, size))
		return handlers->dump(handlers->ctx, data);
	if (size == sizeof(struct sample_identity) && record->kind == RECORD_IDENTITY)
		return handlers->identity(handlers->ctx, data);
	if (size >= sizeof(struct task_notice) && record->kind == RECORD_TASK)
		return handlers->task(handlers->ctx, data);
	if (is_thread(data, size))
		return handlers->thread(handlers->ctx, data, true);
	waits->bad_records++;
	return 0;
}

static int on_record(void *ctx, void *data, size_t size)
{
	struct waits *waits = ctx;
	int err = size >= sizeof(struct sample_record) ? record_hand(waits, data, size) : 0;

	if (err && !waits->handler_err)
		waits->handler_err = err;
	return 0;
}

int waits_drain_ring(struct waits *waits)
{
	int err = ring_buffer__consume(waits->ring);

	if (err < 0)
		return err_set(err, "cannot read the ring of waits: %s", strerror(-err));
	return waits->handler_err;
}

int waits_fd(const struct waits *waits)
{
	return ring_buffer__epoll_fd(waits->ring);
}

/* --- Maps out --------------------------------------------------------------------------------- */

static int map_empty(struct waits *waits, struct bpf_map *map)
{
	size_t key_size = bpf_map__key_size(map);
	size_t value_size = bpf_map__value_size(map);
	AUTO(free_ptr) char *keys = mem_alloc(BATCH * key_size);
	AUTO(free_ptr) char *values = mem_alloc(BATCH * value_size);
	uint64_t in[8], out[8];
	bool first = true, last = false;
	int fd = bpf_map__fd(map), err = 0;

	while (!last && !err) {
		uint32_t batch = BATCH;

		err = bpf_map_lookup_and_delete_batch(fd, first ? NULL : in, out, keys, values,
						      &batch, NULL);
		if (err && err != -ENOENT)
			return err_set(err, "cannot read the map %s: %s", bpf_map__name(map),
				       strerror(-err));
		last = err == -ENOENT;
		err = 0;
		for (uint32_t i = 0; i < batch && !err; i++)
			err = waits->handlers.count(waits->handlers.ctx,
						    (void *)(keys + i * key_size),
						    (void *)(values + i * value_size));
		memcpy(in, out, sizeof(in));
		first = false;
	}
	return err;
}

int waits_drain_counts(struct waits *waits)
{
	uint32_t active = waits->skeleton->bss->waits_active & 1;
	int err = map_empty(waits,
			    active ? waits->skeleton->maps.waits_0 : waits->skeleton->maps.waits_1);

	waits->skeleton->bss->waits_active = !active;
	return err;
}

/* A thread that ended when the ring was full is still in the map. */
static bool slot_has_ended(const struct thread_slot *slot)
{
	return slot->record.time;
}

static int on_slot(struct waits *waits, const struct thread_slot *slot)
{
	struct thread_key key = { .tid = slot->record.tid, .generation = slot->generation };
	bool ended = slot_has_ended(slot);
	int err;

	if (slot->written != slot->writing && !waits->ended)
		return 0; /* it is being written: the next reading has it */
	waits->readings++;
	err = waits->handlers.thread(waits->handlers.ctx, slot, ended);
	if (!err && ended)
		bpf_map__delete_elem(waits->skeleton->maps.threads, &key, sizeof(key), 0);
	return err;
}

/* All slots that the kernel hands out, one behind the other. */
static int slots_read(struct waits *waits, struct strbuf *ret)
{
	AUTO(free_ptr) char *chunk = mem_alloc(READING);
	AUTO(close_fd) int fd = bpf_iter_create(bpf_link__fd(waits->changes));
	ssize_t got = 0;

	if (fd < 0)
		return err_set(fd, "cannot read the threads: %s", strerror(-fd));
	do {
		strbuf_add(ret, chunk, (size_t)got);
		got = read(fd, chunk, READING);
	} while (got > 0);
	return got ? err_set(-errno, "cannot read the threads: %s", strerror(errno)) : 0;
}

int waits_read_threads(struct waits *waits)
{
	AUTO(strbuf_deinit) struct strbuf slots = {};
	struct thread_slot slot;
	int err;

	waits->skeleton->bss->tell_all = waits->ended != 0;
	err = slots_read(waits, &slots);
	for (size_t at = 0; !err && at + sizeof(slot) <= slots.length; at += sizeof(slot)) {
		memcpy(&slot, slots.text + at, sizeof(slot));
		err = on_slot(waits, &slot);
	}
	return err;
}

uint64_t waits_readings(const struct waits *waits)
{
	return waits->readings;
}

void waits_tally(const struct waits *waits, struct wait_tally *ret)
{
	AUTO(free_ptr)
	struct wait_tally *tallies = mem_zalloc(waits->cpus * sizeof(*tallies));
	uint32_t zero = 0;

	memset(ret, 0, sizeof(*ret));
	bpf_map__lookup_elem(waits->skeleton->maps.wait_tallies, &zero, sizeof(zero), tallies,
			     waits->cpus * sizeof(*tallies), 0);
	for (uint32_t i = 0; i < waits->cpus; i++) {
		ret->seen += tallies[i].seen;
		ret->counted += tallies[i].counted;
		ret->lost += tallies[i].lost;
		ret->stacks_lost += tallies[i].stacks_lost;
		ret->threads_lost += tallies[i].threads_lost;
		ret->missed += tallies[i].missed;
		ret->nanoseconds += tallies[i].nanoseconds;
		ret->runs += tallies[i].runs;
		ret->notices_lost += tallies[i].notices_lost;
	}
}

uint32_t waits_cpu_count(const struct waits *waits)
{
	return waits->cpus;
}

int waits_cpu(const struct waits *waits, uint32_t number, struct thread_cpu *ret)
{
	int err = bpf_map__lookup_elem(waits->skeleton->maps.thread_cpus, &number, sizeof(number),
				       ret, sizeof(*ret), 0);

	return err ? err_set(err, "cannot read what CPU %u was charged: %s", number, strerror(-err))
		   : 0;
}

/* --- Life ------------------------------------------------------------------------------------- */

int waits_attach(struct waits *waits, const struct waits_handlers *handlers)
{
	waits->handlers = *handlers;
	waits->ring =
		ring_buffer__new(bpf_map__fd(waits->skeleton->maps.ring), on_record, waits, NULL);
	if (!waits->ring)
		return err_set(-errno, "cannot map the ring of waits: %s", strerror(errno));
	return 0;
}

/* Runs the program once for each thread of the machine. */
static int iterator_run(const struct bpf_program *program)
{
	struct bpf_link *link = bpf_program__attach_iter(program, NULL);
	AUTO(close_fd) int fd = -1;
	char nothing[64];

	if (!link)
		return err_set(-errno, "cannot list the threads: %s", strerror(errno));
	fd = bpf_iter_create(bpf_link__fd(link));
	bpf_link__destroy(link);
	if (fd < 0)
		return err_set(fd, "cannot list the threads: %s", strerror(-fd));
	while (read(fd, nothing, sizeof(nothing)) > 0)
		;
	return 0;
}

static int changes_attach(struct waits *waits)
{
	union bpf_iter_link_info which = { .map.map_fd = (uint32_t)bpf_map__fd(
						   waits->skeleton->maps.threads) };
	DECLARE_LIBBPF_OPTS(bpf_iter_attach_opts, how, .link_info = &which,
			    .link_info_len = sizeof(which));

	waits->changes = bpf_program__attach_iter(waits->skeleton->progs.changed_threads, &how);
	if (!waits->changes)
		return err_set(-errno, "cannot read the threads: %s", strerror(errno));
	return 0;
}

int waits_begin(struct waits *waits)
{
	int err;

	bpf_program__set_autoattach(waits->skeleton->progs.begin_threads, false);
	bpf_program__set_autoattach(waits->skeleton->progs.end_threads, false);
	bpf_program__set_autoattach(waits->skeleton->progs.changed_threads, false);
	err = changes_attach(waits);
	if (err)
		return err;
	err = waits_bpf__attach(waits->skeleton);
	if (err)
		return err_set(err, "cannot attach to the scheduler: %s", strerror(-err));
	return iterator_run(waits->skeleton->progs.begin_threads);
}

int waits_task_site(struct waits *waits, int file, uint64_t offset, bool begins)
{
	const struct bpf_program *program = begins ? waits->skeleton->progs.on_task_begin
						   : waits->skeleton->progs.on_task_end;
	struct bpf_link *link;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	verifier_log_begin();
	link = bpf_program__attach_uprobe(program, false, -1, path, offset);
	verifier_log_end();
	if (!link)
		return err_set(-errno, "cannot be told of tasks: %s", strerror(errno));
	*array_push(&waits->sites) = link;
	return 0;
}

int waits_end(struct waits *waits)
{
	sites_leave(waits);
	waits_bpf__detach(waits->skeleton);
	waits->ended = clock_monotonic();
	return iterator_run(waits->skeleton->progs.end_threads);
}

uint64_t waits_ended(const struct waits *waits)
{
	return waits->ended;
}

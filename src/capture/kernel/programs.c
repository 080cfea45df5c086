// SPDX-License-Identifier: BSD-2-Clause
/*
 * Loads the sampler's BPF programs.
 *
 * Each attempt is a new object: libbpf cannot load one twice. Kernels before 6.1 want the hash maps
 * of programs at perf events to have all their memory from the start; that costs some 10 MB, so it
 * is tried second. After that, parts.h says what is left out.
 */
#include "capture/kernel/programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "capture/kernel/verifier_log.h"
#include "sampler.skel.h"

struct attempt {
	const struct sampler_options *options;
	const struct kernel_layout *layout;
	uint64_t every; /* events that the program counts to a sample */
	bool preallocate;
	struct sampler_bpf *skeleton; /* of the attempt that succeeded */
};

/* --- An attempt ------------------------------------------------------------------------------- */

uint32_t programs_block_slots(const struct sampler_runs *runs)
{
	uint32_t slots = 2;

	while (slots < 2 * runs->max_blocks)
		slots *= 2;
	return slots;
}

static int maps_size(struct sampler_bpf *skeleton, const struct sampler_options *options,
		     bool with_runs)
{
	const struct {
		struct bpf_map *map;
		uint32_t entries;
	} sizes[] = {
		{ skeleton->maps.ring, (uint32_t)options->ring_bytes },
		{ skeleton->maps.counts_0, options->max_stacks },
		{ skeleton->maps.counts_1, options->max_stacks },
		{ skeleton->maps.stacks_sent, options->max_stacks * 4 },
		{ skeleton->maps.rows, options->max_rows },
		{ skeleton->maps.mappings, options->max_mappings },
		{ skeleton->maps.row_cache,
		  (uint32_t)libbpf_num_possible_cpus() * ROW_CACHE_ENTRIES },
		{ with_runs ? skeleton->maps.blocks : NULL, programs_block_slots(&options->runs) },
		{ with_runs ? skeleton->maps.uops : NULL, options->runs.max_uops },
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !err; i++)
		if (sizes[i].map)
			err = bpf_map__set_max_entries(sizes[i].map, sizes[i].entries);
	return err;
}

static void runs_configure(struct sampler_bpf *skeleton, const struct sampler_runs *runs,
			   const struct kernel_layout *layout)
{
	skeleton->rodata->run_values = 1;
	skeleton->bss->run_length = runs->length;
	skeleton->bss->run_skip = runs->skip;
	skeleton->bss->run_every = runs->every;
	skeleton->rodata->blocks_mask = programs_block_slots(runs) - 1;
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

static int skeleton_configure(struct sampler_bpf *skeleton, const struct attempt *attempt,
			      unsigned parts)
{
	const struct sampler_options *options = attempt->options;
	int err = maps_size(skeleton, options, parts & PART_BIT(VALUES));

	skeleton->rodata->max_depth = options->max_depth;
	skeleton->rodata->ring_wakeup = options->ring_bytes / 2;
	skeleton->rodata->everything = options->everything;
	skeleton->rodata->interrupts = sampler_event_interrupts(&options->event);
	skeleton->rodata->sample_every = attempt->every;
	skeleton->rodata->kernel_code = (parts & PART_BIT(KERNEL)) != 0;
	if (parts & PART_BIT(VALUES))
		runs_configure(skeleton, &options->runs, attempt->layout);
	if (!err && !(parts & PART_BIT(KERNEL_TEXT)))
		err = bpf_program__set_autoload(skeleton->progs.text_read, false);
	if (!err && options->event.kind != SAMPLER_TRACEPOINT)
		err = bpf_program__set_autoload(skeleton->progs.sample_tracepoint, false);
	if (!err && attempt->preallocate) {
		err = bpf_map__set_map_flags(skeleton->maps.targets, 0);
		err = err ? err : bpf_map__set_map_flags(skeleton->maps.processes, 0);
	}
	return err;
}

static int skeleton_try(struct attempt *attempt, unsigned parts)
{
	struct sampler_bpf *skeleton = sampler_bpf__open();
	int err = skeleton ? skeleton_configure(skeleton, attempt, parts) : -errno;

	if (!err)
		err = sampler_bpf__load(skeleton);
	if (err)
		sampler_bpf__destroy(skeleton);
	else
		attempt->skeleton = skeleton;
	return err;
}

static int attempt_load(void *ctx, unsigned parts, struct sampler_refusal *ret)
{
	struct attempt *attempt = ctx;
	int err;

	verifier_log_again();
	err = skeleton_try(attempt, parts);
	if (err && !attempt->preallocate) {
		attempt->preallocate = true;
		verifier_log_again();
		err = skeleton_try(attempt, parts);
	}
	if (err)
		refusal_read(verifier_log_text(), ret);
	return err;
}

/* --- All of them ------------------------------------------------------------------------------ */

int programs_load(const struct sampler_options *options, uint64_t every,
		  const struct kernel_layout *layout, struct programs *programs)
{
	struct attempt attempt = { .options = options, .layout = layout, .every = every };
	const struct sampler_refusal *last;
	int err;

	programs->parts = PART_BIT(USER) | PART_BIT(KERNEL) | PART_BIT(KERNEL_TEXT);
	if (options->runs.length)
		programs->parts |= PART_BIT(VALUES);
	verifier_log_begin();
	err = parts_settle(&programs->parts, attempt_load, &attempt, programs->refusals,
			   &programs->refusal_count);
	verifier_log_end();
	programs->skeleton = attempt.skeleton;
	if (!err)
		return 0;
	last = &programs->refusals[programs->refusal_count - 1];
	return err_set(err, "the kernel refuses the sampler: %s%s%s%s", strerror(-err),
		       last->reason[0] ? " (" : "", last->reason, last->reason[0] ? ")" : "");
}

void programs_deinit(struct programs *programs)
{
	sampler_bpf__destroy(programs->skeleton);
}

/* --- For the doctor --------------------------------------------------------------------------- */

static unsigned parts_of(enum sampler_part part)
{
	static const unsigned needed[] = {
		[SAMPLER_PART_USER] = PART_BIT(USER),
		[SAMPLER_PART_KERNEL] = PART_BIT(USER) | PART_BIT(KERNEL),
		[SAMPLER_PART_KERNEL_TEXT] = PART_BIT(USER) | PART_BIT(KERNEL_TEXT),
		[SAMPLER_PART_VALUES] = PART_BIT(USER) | PART_BIT(KERNEL) | PART_BIT(VALUES),
	};

	return needed[part];
}

int sampler_part_try(enum sampler_part part, struct sampler_refusal *ret)
{
	const struct sampler_options options = {
		.everything = true,
		.ring_bytes = 64 << 10,
		.max_stacks = 64,
		.max_rows = 64,
		.max_mappings = 64,
		.max_depth = SAMPLE_DEPTH_MAX,
		.runs = { .length = 256,
			  .skip = 256,
			  .every = 2,
			  .overwritten = true,
			  .system = true,
			  .max_blocks = 64,
			  .max_uops = 64 },
	};
	static const struct kernel_layout unknown;
	struct attempt attempt = { .options = &options, .layout = &unknown, .every = 1 };
	int err;

	memset(ret, 0, sizeof(*ret));
	ret->part = part;
	verifier_log_begin();
	ret->err = err = attempt_load(&attempt, parts_of(part), ret);
	verifier_log_end();
	sampler_bpf__destroy(attempt.skeleton);
	return err;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "support/profile_fixture.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"

void fixture_init(struct fixture *fixture)
{
	memset(fixture, 0, sizeof(*fixture));
	*array_push(&fixture->modules) = (struct profile_module){};
	*array_push(&fixture->processes) = (struct profile_process){};
	*array_push(&fixture->threads) = (struct profile_thread){};
	*array_push(&fixture->symbols) = (struct profile_symbol){};
	*array_push(&fixture->files) = (struct profile_file){ .path = "" };
	*array_push(&fixture->locations) = (struct profile_location){};
	*array_push(&fixture->stacks) = (struct profile_stack){};
	*array_push(&fixture->value_items) = (struct profile_value_item){};
	*array_push(&fixture->recordings) = (struct profile_recording){};
	fixture_recording(fixture, RECORDING_SAMPLES);
}

void fixture_deinit(struct fixture *fixture)
{
	array_each(&fixture->owned, text)
		free(*text);
	array_deinit(&fixture->owned);
	array_deinit(&fixture->modules);
	array_deinit(&fixture->processes);
	array_deinit(&fixture->threads);
	array_deinit(&fixture->symbols);
	array_deinit(&fixture->files);
	array_deinit(&fixture->frames);
	array_deinit(&fixture->locations);
	array_deinit(&fixture->stacks);
	array_deinit(&fixture->samples);
	array_deinit(&fixture->losses);
	array_deinit(&fixture->stack_ends);
	array_deinit(&fixture->recordings);
	array_deinit(&fixture->loss_rows);
	array_deinit(&fixture->facts);
	array_deinit(&fixture->metrics);
	array_deinit(&fixture->value_items);
	array_deinit(&fixture->values);
	array_deinit(&fixture->run_ends);
	array_deinit(&fixture->run_places);
	array_deinit(&fixture->run_losses);
	array_deinit(&fixture->value_names);
	array_deinit(&fixture->parameters);
}

uint32_t fixture_module(struct fixture *fixture, enum module_kind kind, const char *path,
			const char *build_id)
{
	const char *slash = strrchr(path, '/');

	uint32_t id = (uint32_t)fixture->modules.count;

	*array_push(&fixture->modules) = (struct profile_module){ .id = id,
								  .kind = kind,
								  .path = path,
								  .name = slash ? slash + 1 : path,
								  .build_id = build_id };
	return (uint32_t)fixture->modules.count - 1;
}

uint32_t fixture_process(struct fixture *fixture, uint32_t pid, int64_t uid, const char *comm)
{
	uint32_t id = (uint32_t)fixture->processes.count;

	*array_push(&fixture->processes) = (struct profile_process){ .id = id,
								     .pid = pid,
								     .ppid = 1,
								     .uid = uid,
								     .gid = uid,
								     .euid = uid,
								     .egid = uid,
								     .comm = comm,
								     .exe = "",
								     .cgroup = "" };
	return (uint32_t)fixture->processes.count - 1;
}

uint32_t fixture_thread(struct fixture *fixture, uint32_t process, uint32_t tid, const char *comm)
{
	uint32_t id = (uint32_t)fixture->threads.count;

	*array_push(&fixture->threads) =
		(struct profile_thread){ .id = id, .process = process, .tid = tid, .comm = comm };
	return (uint32_t)fixture->threads.count - 1;
}

uint32_t fixture_symbol(struct fixture *fixture, uint32_t module, const char *name,
			uint64_t address, uint64_t size)
{
	uint32_t id = (uint32_t)fixture->symbols.count;

	*array_push(&fixture->symbols) = (struct profile_symbol){ .id = id,
								  .module = module,
								  .name = name,
								  .linkage = name,
								  .address = address,
								  .size = size };
	return (uint32_t)fixture->symbols.count - 1;
}

uint32_t fixture_inlined(struct fixture *fixture, uint32_t module, const char *name)
{
	uint32_t symbol = fixture_symbol(fixture, module, name, 0, 0);

	fixture->symbols.items[symbol].inlined = true;
	return symbol;
}

uint32_t fixture_file(struct fixture *fixture, const char *path)
{
	uint32_t id = (uint32_t)fixture->files.count;

	*array_push(&fixture->files) = (struct profile_file){ id, path };
	return (uint32_t)fixture->files.count - 1;
}

uint32_t fixture_location(struct fixture *fixture, uint32_t module, uint64_t address)
{
	uint32_t id = (uint32_t)fixture->locations.count;

	*array_push(&fixture->locations) =
		(struct profile_location){ .id = id,
					   .module = module,
					   .address = address,
					   .first_frame = (uint32_t)fixture->frames.count };
	return (uint32_t)fixture->locations.count - 1;
}

void fixture_frame(struct fixture *fixture, uint32_t symbol, uint32_t file, uint32_t line)
{
	struct profile_location *location = &fixture->locations.items[fixture->locations.count - 1];

	*array_push(&fixture->frames) = (struct profile_frame){ .location = location->id,
								.depth = location->frame_count++,
								.symbol = symbol,
								.file = file,
								.line = line };
}

uint32_t fixture_stack(struct fixture *fixture, uint32_t parent, uint32_t location)
{
	uint32_t id = (uint32_t)fixture->stacks.count;

	*array_push(&fixture->stacks) = (struct profile_stack){ id, parent, location };
	return (uint32_t)fixture->stacks.count - 1;
}

void fixture_sample(struct fixture *fixture, uint32_t thread, uint32_t stack, uint64_t count,
		    uint64_t kernel)
{
	*array_push(&fixture->samples) = (struct profile_sample){ 1, stack, thread, count, kernel };
}

void fixture_loss(struct fixture *fixture, const char *reason, const char *text, uint64_t count)
{
	*array_push(&fixture->losses) = (struct profile_named_count){ reason, text, count };
}

struct profile_recording *fixture_recording(struct fixture *fixture, enum recording_kind kind)
{
	array_each(&fixture->recordings, recording)
		if (recording->id && recording->kind == kind)
			return recording;
	uint32_t id = (uint32_t)fixture->recordings.count;

	*array_push(&fixture->recordings) = (struct profile_recording){
		.id = id, .kind = kind, .unit = recording_kind_row(kind)->unit, .parts = 1
	};
	return &fixture->recordings.items[fixture->recordings.count - 1];
}

void fixture_fact(struct fixture *fixture, enum recording_kind kind, const char *key,
		  const char *value)
{
	*array_push(&fixture->facts) =
		(struct profile_fact){ fixture_recording(fixture, kind)->id, key, value };
}

void fixture_metric(struct fixture *fixture, enum recording_kind kind, const char *metric,
		    uint64_t total)
{
	*array_push(&fixture->metrics) =
		(struct profile_metric){ fixture_recording(fixture, kind)->id, metric, "", total };
}

uint32_t fixture_item(struct fixture *fixture, const char *text, const char *class, unsigned words)
{
	uint32_t id = (uint32_t)fixture->value_items.count;

	*array_push(&fixture->value_items) = (struct profile_value_item){
		.id = id,
		.recording = fixture_recording(fixture, RECORDING_VALUES)->id,
		.text = text,
		.class = class,
		.words = words
	};
	return (uint32_t)fixture->value_items.count - 1;
}

void fixture_value(struct fixture *fixture, const struct profile_value *row, const void *list,
		   size_t size)
{
	struct profile_value *value = array_push(&fixture->values);
	char *copy = mem_alloc(size + 1);

	memcpy(copy, list, size);
	*array_push(&fixture->owned) = copy;
	*value = *row;
	value->list = (const uint8_t *)copy;
	value->list_size = size;
	value->id = (uint32_t)fixture->values.count;
}

static int value_order(const void *left, const void *right)
{
	const struct profile_value *a = left, *b = right;

	if (a->location != b->location)
		return a->location < b->location ? -1 : 1;
	if (a->item != b->item)
		return a->item < b->item ? -1 : 1;
	if (a->caller != b->caller)
		return a->caller < b->caller ? -1 : 1;
	return (a->owner > b->owner) - (a->owner < b->owner);
}

static void losses_set(struct fixture *fixture, enum recording_kind kind,
		       struct profile_named_count *losses, size_t count)
{
	struct profile_recording *recording = fixture_recording(fixture, kind);

	recording->losses = losses;
	recording->loss_count = count;
	for (size_t i = 0; i < count; i++)
		*array_push(&fixture->loss_rows) =
			(struct profile_loss){ recording->id, losses[i].name, losses[i].text,
					       losses[i].count };
}

/* May be done again, after something was added. */
static void totals_set(struct fixture *fixture)
{
	struct profile_recording *samples = fixture_recording(fixture, RECORDING_SAMPLES);

	samples->kept = 0;
	array_each(&fixture->samples, sample)
		samples->kept += sample->count;
	samples->seen = samples->kept;
	array_each(&fixture->losses, loss)
		samples->seen += loss->count;
	fixture->loss_rows.count = 0;
	losses_set(fixture, RECORDING_SAMPLES, fixture->losses.items, fixture->losses.count);
	if (fixture->recordings.count > 2)
		losses_set(fixture, RECORDING_VALUES, fixture->run_losses.items,
			   fixture->run_losses.count);
}

const struct profile *fixture_finish(struct fixture *fixture)
{
	struct profile *profile = &fixture->profile;

	if (fixture->values.count)
		qsort(fixture->values.items, fixture->values.count, sizeof(struct profile_value),
		      value_order);

	totals_set(fixture);
	*profile = (struct profile){
		.value_items = fixture->value_items.items,
		.value_item_count = fixture->value_items.count,
		.values = fixture->values.items,
		.value_count = fixture->values.count,
		.run_ends = fixture->run_ends.items,
		.run_end_count = fixture->run_ends.count,
		.run_places = fixture->run_places.items,
		.run_place_count = fixture->run_places.count,
		.value_names = fixture->value_names.items,
		.value_name_count = fixture->value_names.count,
		.parameters = fixture->parameters.items,
		.parameter_count = fixture->parameters.count,
		.modules = fixture->modules.items,
		.module_count = fixture->modules.count,
		.processes = fixture->processes.items,
		.process_count = fixture->processes.count,
		.threads = fixture->threads.items,
		.thread_count = fixture->threads.count,
		.symbols = fixture->symbols.items,
		.symbol_count = fixture->symbols.count,
		.files = fixture->files.items,
		.file_count = fixture->files.count,
		.frames = fixture->frames.items,
		.frame_count = fixture->frames.count,
		.locations = fixture->locations.items,
		.location_count = fixture->locations.count,
		.stacks = fixture->stacks.items,
		.stack_count = fixture->stacks.count,
		.samples = fixture->samples.items,
		.sample_count = fixture->samples.count,
		.losses = fixture->losses.items,
		.loss_count = fixture->losses.count,
		.stack_ends = fixture->stack_ends.items,
		.stack_end_count = fixture->stack_ends.count,
		.recordings = fixture->recordings.items,
		.recording_count = fixture->recordings.count,
		.loss_rows = fixture->loss_rows.items,
		.loss_row_count = fixture->loss_rows.count,
		.facts = fixture->facts.items,
		.fact_count = fixture->facts.count,
		.metrics = fixture->metrics.items,
		.metric_count = fixture->metrics.count,
		.finished = true,
	};
	profile->seen = fixture->recordings.items[1].seen;
	profile->kept = fixture->recordings.items[1].kept;
	return profile;
}

static uint32_t named(struct fixture *fixture, uint32_t symbol, uint64_t address, uint32_t file,
		      uint32_t line)
{
	uint32_t location =
		fixture_location(fixture, fixture->symbols.items[symbol].module, address);

	fixture_frame(fixture, symbol, file, line);
	return location;
}

/* The samples, outermost frame first; addresses with their line:
 *
 *	main@1010:10				100
 *	main@1020:12 fib@1104:3			200
 *	main@1020:12 fib@1118:4 fib@1104:3	300
 *	main@1020:12 fib@1118:4 fib@1118:4	 50
 *	main@1030:14 parse@1204(clamp:40)	120
 *	main@1030:14 parse@1210:22 libc@5000	 30
 *	parse@1210:22 (stack cut above)		 25, with the mark as its root
 *	do_syscall (other process)		 75, in the kernel
 */
const struct profile *fixture_demo(struct fixture *f)
{
	uint32_t demo, kernel, libc, marks, source, header, process, worker, daemon;
	uint32_t main_fn, fib, parse, clamp, syscall_fn, cut;
	uint32_t fib_leaf, fib_call, parse_call, in_main, fib_node, parse_node;

	fixture_init(f);
	demo = fixture_module(f, MODULE_ELF, "/usr/bin/demo", "0123456789abcdef");
	kernel = fixture_module(f, MODULE_KERNEL, "[kernel]", "");
	libc = fixture_module(f, MODULE_ELF, "/usr/lib/libc.so.6", "fedcba98");
	marks = fixture_module(f, MODULE_MARK, "[assay]", "");
	process = fixture_process(f, 100, 1000, "demo");
	fixture_thread(f, process, 100, "demo");
	worker = fixture_thread(f, process, 101, "demo-worker");
	daemon = fixture_thread(f, fixture_process(f, 200, 0, "daemon"), 200, "daemon");
	source = fixture_file(f, "/src/demo/main.c");
	header = fixture_file(f, "/src/demo/clamp.h");
	main_fn = fixture_symbol(f, demo, "main", 0x1000, 0x60);
	fib = fixture_symbol(f, demo, "fib", 0x1100, 0x40);
	parse = fixture_symbol(f, demo, "parse", 0x1200, 0x80);
	clamp = fixture_inlined(f, demo, "clamp");
	syscall_fn = fixture_symbol(f, kernel, "do_syscall", 0xffffffff81000000, 0x100);
	cut = fixture_symbol(f, marks, "[stack cut: stack memory was not present]", 4, 0);

	in_main = fixture_stack(f, 0, named(f, main_fn, 0x1010, source, 10));
	fixture_sample(f, 1, in_main, 100, 0);
	in_main = fixture_stack(f, 0, named(f, main_fn, 0x1020, source, 12));
	fib_leaf = named(f, fib, 0x1104, source, 3);
	fib_call = named(f, fib, 0x1118, source, 4);
	fixture_sample(f, 1, fixture_stack(f, in_main, fib_leaf), 200, 0);
	fib_node = fixture_stack(f, in_main, fib_call);
	fixture_sample(f, 1, fixture_stack(f, fib_node, fib_leaf), 300, 0);
	fixture_sample(f, worker, fixture_stack(f, fib_node, fib_call), 50, 0);
	in_main = fixture_stack(f, 0, named(f, main_fn, 0x1030, source, 14));
	fixture_location(f, demo, 0x1204);
	fixture_frame(f, clamp, header, 40);
	fixture_frame(f, parse, source, 20);
	parse_node = fixture_stack(f, in_main, (uint32_t)f->locations.count - 1);
	fixture_sample(f, worker, parse_node, 120, 0);
	parse_call = named(f, parse, 0x1210, source, 22);
	parse_node = fixture_stack(f, in_main, parse_call);
	fixture_sample(f, 1, fixture_stack(f, parse_node, fixture_location(f, libc, 0x5000)), 30,
		       0);
	parse_node = fixture_stack(f, fixture_stack(f, 0, named(f, cut, 4, 0, 0)), parse_call);
	fixture_sample(f, 1, parse_node, 25, 0);
	fixture_sample(f, daemon,
		       fixture_stack(f, 0, named(f, syscall_fn, 0xffffffff81000010, 0, 0)), 75, 75);

	fixture_loss(f, "ring_full", "ring to the recorder was full (raise --ring)", 60);
	fixture_loss(f, "throttled", "suppressed by the kernel's rate limit", 40);
	*array_push(&f->stack_ends) =
		(struct profile_stack_end){ 1, "complete", "walked to its root", 875 };
	*array_push(&f->stack_ends) =
		(struct profile_stack_end){ 1, "unreadable", "stack memory was not present", 25 };
	fixture_fact(f, RECORDING_SAMPLES, "event", "cpu-clock");
	fixture_fact(f, RECORDING_SAMPLES, "period", "1000000");
	fixture_recording(f, RECORDING_SAMPLES)->started = 1700000000000000000;
	fixture_recording(f, RECORDING_SAMPLES)->duration = 1000000000;
	return fixture_finish(f);
}

static uint32_t below(uint64_t *seed, uint32_t limit)
{
	*seed = hash64(*seed + 0x9e3779b97f4a7c15u);
	return (uint32_t)(*seed >> 16) % limit;
}

static const char *numbered(struct fixture *fixture, const char *prefix, uint32_t number)
{
	return *array_push(&fixture->owned) = mem_printf("%s%u", prefix, number);
}

static void random_location(struct fixture *f, uint64_t *seed, const struct fixture_size *size,
			    uint32_t number)
{
	uint32_t module = 1 + below(seed, size->modules), frames = below(seed, 8);

	fixture_location(f, module, 0x1000 + number * 16);
	for (uint32_t i = 0; i < (frames < 4 ? frames : 1); i++)
		fixture_frame(f, 1 + below(seed, size->symbols), below(seed, 4),
			      1 + below(seed, 20));
}

const struct profile *fixture_random(struct fixture *f, uint64_t seed,
				     const struct fixture_size *size)
{
	fixture_init(f);
	for (uint32_t i = 0; i < size->modules; i++)
		fixture_module(f, MODULE_ELF, numbered(f, "/lib/m", i), "");
	for (uint32_t i = 0; i < 3; i++)
		fixture_file(f, i == 0 ? "a.c" : i == 1 ? "b.c" : "c.c");
	for (uint32_t i = 0; i < size->symbols; i++)
		fixture_symbol(f, 1 + below(&seed, size->modules), numbered(f, "s", i), i * 64, 64);
	fixture_process(f, 10, 1000, "one");
	fixture_process(f, 20, 1001, "two");
	for (uint32_t i = 0; i < size->threads; i++)
		fixture_thread(f, 1 + below(&seed, 2), 100 + i, i % 2 ? "odd" : "even");
	for (uint32_t i = 0; i < size->locations; i++)
		random_location(f, &seed, size, i);
	for (uint32_t i = 0; i < size->stacks; i++) {
		uint32_t recent = i < 20 ? 0 : i - 20, parent;

		/* Half of the parents are recent nodes, which makes deep stacks. */
		parent = below(&seed, 2) ? below(&seed, i + 1)
					 : recent + below(&seed, i - recent + 1);
		fixture_stack(f, parent, 1 + below(&seed, size->locations));
	}
	for (uint32_t i = 0; i < size->samples; i++) {
		uint64_t count = 1 + below(&seed, 9);

		fixture_sample(f, 1 + below(&seed, size->threads), 1 + below(&seed, size->stacks),
			       count, below(&seed, (uint32_t)count + 1));
	}
	fixture_loss(f, "ring_full", "ring full", 17);
	return fixture_finish(f);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes a profile of a recording that never was, through the same calls as the recorder: for
 * tests and benches that need a large one without recording for an hour.
 *
 *	make_profile -o FILE [--seconds N] [--hz N] [--cpus N] [--processes N] [--stacks N]
 *		     [--symbols N] [--values N] [--seed N]
 *
 * Stacks are grown like branches: a new one leaves an older one of the same process at a random
 * depth and goes its own way to a depth between 10 and 60. Each call site calls one function. How
 * often a stack is sampled follows Zipf's law. As in a recording, a stack gets its ids when it is
 * sampled first, samples come in ten rounds a second, each half second ends with a commit, and
 * names come last. With --values, N sites have a list of what was computed there.
 *
 * The last line tells what the store cost: CPU time in its calls, bytes given to write(), time to
 * finish, and by how much the process grew while it recorded (all tables of its own are made
 * before).
 */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "values/hotlist.h"
#include "values/valuefn.h"
#include "store/store.h"

enum {
	THREADS_PER_PROCESS = 4,
	MODULES_PER_PROCESS = 6, /* of which all but one are shared with others */
	SITES_PER_SYMBOL = 8, /* return addresses of calls in a function */
	LEAVES_PER_SYMBOL = 24, /* addresses interrupted in it */
	DEPTH_MIN = 10,
	DEPTH_MAX = 60,
	CODE_SIZE = 400,
	ROUNDS_PER_SECOND = 10,
	ROUNDS_PER_COMMIT = 5,
	LOST_EVERY = 5000, /* samples per lost one */
	VALUES_PER_SITE = 200,
	VALUES_PER_RUN = 4, /* at one site */
	RUN_LENGTH = 64,
	WALL_START = 1700000000, /* s */
};

struct options {
	const char *path;
	uint64_t seconds, hz, cpus, processes, stacks, symbols, values, seed;
};

/* What the store took for it. */
struct cost {
	uint64_t cpu; /* ns, in calls of the store */
	uint64_t finish; /* ns, elapsed in store_finish() */
	uint64_t resident_before; /* bytes, when the recording began */
};

/* A node of the tree of stacks, not yet in the profile while id is 0. */
struct node {
	uint32_t parent; /* index; 0: none */
	uint32_t location; /* index */
	uint32_t depth;
	uint32_t id;
};

struct maker {
	struct options options;
	struct store *store;
	uint64_t random; /* state */
	uint32_t modules;
	ARRAY(struct node) nodes;
	uint32_t *leaves; /* stack to its innermost node */
	uint32_t *processes; /* stack to its process */
	struct map children; /* parent << 32 | location to node */
	double *weights; /* running sum of the weights of stacks 0..n */
	uint32_t *locations; /* index to id */
	uint32_t location_count, node_count; /* ids given */
	uint64_t seen, lost;
	struct map counts; /* thread << 32 | stack node to count, of this round */
	struct cost cost;
};

/* xorshift64*: the same on every machine. */
static uint64_t random_next(struct maker *maker)
{
	maker->random ^= maker->random >> 12;
	maker->random ^= maker->random << 25;
	maker->random ^= maker->random >> 27;
	return maker->random * 0x2545f4914f6cdd1d;
}

static uint32_t random_below(struct maker *maker, uint64_t limit)
{
	return (uint32_t)((random_next(maker) >> 32) * limit >> 32);
}

static void or_fail(int err)
{
	if (!err)
		return;
	fprintf(stderr, "make_profile: %s\n", err_text());
	exit(1);
}

/* Locations are numbered by symbol: first its call sites, then its interrupted addresses. */
static uint32_t site_pick(struct maker *maker, uint32_t symbol)
{
	return symbol * (SITES_PER_SYMBOL + LEAVES_PER_SYMBOL) +
	       random_below(maker, SITES_PER_SYMBOL);
}

static uint32_t leaf_pick(struct maker *maker, uint32_t symbol)
{
	return symbol * (SITES_PER_SYMBOL + LEAVES_PER_SYMBOL) + SITES_PER_SYMBOL +
	       random_below(maker, LEAVES_PER_SYMBOL);
}

/* What the site calls. A few symbols are called from many places. */
static uint32_t symbol_called(const struct maker *maker, uint32_t site)
{
	double at = (double)(hash64_pair(site, maker->options.seed) >> 11) / (double)(1ull << 53);

	return (uint32_t)(at * at * (double)maker->options.symbols);
}

/* The parent's child at the location; made when new. */
static uint32_t node_at(struct maker *maker, uint32_t parent, uint32_t location)
{
	bool new;
	uint64_t *child = map_at(&maker->children, (uint64_t)parent << 32 | location, &new);

	if (new) {
		uint32_t depth = parent ? maker->nodes.items[parent].depth + 1 : 1;

		*child = maker->nodes.count;
		*array_push(&maker->nodes) = (struct node){ parent, location, depth, 0 };
	}
	return (uint32_t)*child;
}

static uint32_t ancestor_at(const struct maker *maker, uint32_t node, uint32_t depth)
{
	while (node && maker->nodes.items[node].depth > depth)
		node = maker->nodes.items[node].parent;
	return node;
}

/* The stack's branch: from an older stack of the same process, for about four frames of its own. */
static void stack_grow(struct maker *maker, uint32_t stack)
{
	uint32_t processes = (uint32_t)maker->options.processes;
	uint32_t target = DEPTH_MIN + random_below(maker, DEPTH_MAX - DEPTH_MIN + 1);
	uint32_t process = stack < processes ? stack : random_below(maker, processes);
	uint32_t older = process, node = 0, symbol, site;

	if (stack >= processes) {
		for (int tries = 0; tries < 16; tries++) {
			uint32_t other = random_below(maker, stack);

			if (maker->processes[other] == process)
				older = other;
		}
		target = maker->nodes.items[maker->leaves[older]].depth;
		node = ancestor_at(maker, maker->leaves[older],
				   target - 1 - random_below(maker, 7));
		target += random_below(maker, 5);
		target = target < DEPTH_MAX ? target : DEPTH_MAX;
	}
	symbol = node ? symbol_called(maker, maker->nodes.items[node].location) : process;
	for (; !node || maker->nodes.items[node].depth + 1 < target;
	     symbol = symbol_called(maker, site)) {
		site = site_pick(maker, symbol);
		node = node_at(maker, node, site);
	}
	maker->leaves[stack] = node_at(maker, node, leaf_pick(maker, symbol));
	maker->processes[stack] = process;
}

static void stacks_make(struct maker *maker)
{
	uint64_t stacks = maker->options.stacks;
	double sum = 0;

	array_push(&maker->nodes)->id = 0;
	maker->leaves = mem_zalloc(stacks * sizeof(*maker->leaves));
	maker->processes = mem_zalloc(stacks * sizeof(*maker->processes));
	maker->weights = mem_zalloc(stacks * sizeof(*maker->weights));
	for (uint32_t i = 0; i < stacks; i++) {
		stack_grow(maker, i);
		sum += 1.0 / pow(i + 1, 0.9);
		maker->weights[i] = sum;
	}
}

static uint32_t stack_pick(struct maker *maker)
{
	uint64_t low = 0, high = maker->options.stacks - 1;
	double at =
		(double)(random_next(maker) >> 11) / (double)(1ull << 53) * maker->weights[high];

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (maker->weights[middle] <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return (uint32_t)low;
}

static bool symbol_in_kernel(uint32_t symbol)
{
	return symbol % 10 == 9;
}

/* Module 1 is the kernel; a program's own symbols lie in its modules. */
static uint32_t symbol_module(const struct maker *maker, uint32_t symbol)
{
	return symbol_in_kernel(symbol) ? 1 : 2 + symbol % (maker->modules - 1);
}

static uint64_t symbol_address(uint32_t symbol)
{
	return (symbol_in_kernel(symbol) ? 0xffffffff81000000 : 0x1000) +
	       symbol * (uint64_t)CODE_SIZE;
}

static struct location_id location_put(struct maker *maker, uint32_t index)
{
	uint32_t symbol = index / (SITES_PER_SYMBOL + LEAVES_PER_SYMBOL);
	uint32_t place = index % (SITES_PER_SYMBOL + LEAVES_PER_SYMBOL);

	if (!maker->locations[index]) {
		struct location_id id = { ++maker->location_count };
		struct module_id module = { symbol_module(maker, symbol) };

		or_fail(store_location_put(
			maker->store, &(struct store_location){ .id = id,
								.module = module,
								.address = symbol_address(symbol) +
									   4 + place * 11 }));
		maker->locations[index] = id.v;
	}
	return (struct location_id){ maker->locations[index] };
}

/* Gives ids to the node and the nodes above it, outermost first. */
static struct stack_id node_put(struct maker *maker, uint32_t node)
{
	struct node *it = &maker->nodes.items[node];
	struct stack_id parent;

	if (!node || it->id)
		return (struct stack_id){ it->id };
	parent = node_put(maker, it->parent);
	it->id = ++maker->node_count;
	or_fail(store_stack_put(maker->store,
				&(struct store_stack){ (struct stack_id){ it->id }, parent,
						       location_put(maker, it->location) }));
	return (struct stack_id){ it->id };
}

static void processes_put(struct maker *maker)
{
	char comm[16], exe[64];

	for (uint32_t i = 0; i < maker->options.processes; i++) {
		snprintf(comm, sizeof(comm), "program%u", i);
		snprintf(exe, sizeof(exe), "/usr/bin/program%u", i);
		or_fail(store_process_put(
			maker->store,
			&(struct store_process){ .id.v = i + 1,
						 .parent.v = i ? 1 : 0,
						 .machine.v = 1,
						 .pid = 1000 + 10 * i,
						 .ppid = i ? 1000 : 1,
						 .uid = 1000,
						 .gid = 1000,
						 .euid = 1000,
						 .egid = 1000,
						 .comm = comm,
						 .exe = exe,
						 .cgroup = "/user.slice/user-1000.slice" }));
		for (uint32_t j = 0; j < THREADS_PER_PROCESS; j++) {
			snprintf(comm, sizeof(comm), j ? "worker%u.%u" : "program%u", i, j);
			or_fail(store_thread_put(
				maker->store,
				&(struct store_thread){ .id.v = i * THREADS_PER_PROCESS + j + 1,
							.process.v = i + 1,
							.tid = 1000 + 10 * i + j,
							.comm = comm }));
		}
	}
}

static void modules_put(struct maker *maker)
{
	char path[64], build_id[41];

	maker->modules = 1 + (uint32_t)maker->options.processes + MODULES_PER_PROCESS;
	or_fail(store_module_put(maker->store, &(struct store_module){ .id.v = 1,
								       .kind = MODULE_KERNEL,
								       .machine.v = 1,
								       .path = "[kernel]" }));
	for (uint32_t i = 2; i <= maker->modules; i++) {
		bool library = i < 2 + MODULES_PER_PROCESS;

		snprintf(path, sizeof(path),
			 library ? "/usr/lib/x86_64-linux-gnu/lib%u.so" : "/usr/bin/program%u",
			 library ? i : i - 2 - MODULES_PER_PROCESS);
		snprintf(build_id, sizeof(build_id), "%02xab%036x", i & 0xff, i);
		or_fail(store_module_put(maker->store,
					 &(struct store_module){ .id.v = i,
								 .kind = MODULE_ELF,
								 .path = path,
								 .build_id = build_id }));
	}
	for (uint32_t i = 0; i < maker->options.processes * MODULES_PER_PROCESS; i++) {
		uint64_t start = 0x7f0000000000 + i * 0x100000ull;

		or_fail(store_mapping_put(
			maker->store,
			&(struct store_mapping){ .process.v = 1 + i / MODULES_PER_PROCESS,
						 .module.v = 2 + i % MODULES_PER_PROCESS,
						 .start = start,
						 .stop = start + 0x80000 }));
	}
}

static void sample_take(struct maker *maker)
{
	uint32_t stack = stack_pick(maker);
	uint64_t thread = maker->processes[stack] * THREADS_PER_PROCESS + 1;

	maker->seen++;
	if (maker->seen % LOST_EVERY == 0) {
		maker->lost++;
		return;
	}
	if (random_below(maker, 4) == 0)
		thread += random_below(maker, THREADS_PER_PROCESS);
	(*map_at(&maker->counts, thread << 32 | maker->leaves[stack], NULL))++;
}

static void totals_put(struct maker *maker)
{
	uint64_t kept = maker->seen - maker->lost;

	or_fail(store_seen_set(maker->store, RECORDING_SAMPLES, maker->seen));
	or_fail(store_loss_set(maker->store, RECORDING_SAMPLES, "ring_full",
			       "ring to the recorder was full (raise --ring)", maker->lost));
	or_fail(store_loss_set(maker->store, RECORDING_SAMPLES, "throttled",
			       "suppressed by the kernel's rate limit", 0));
	or_fail(store_stack_end_put(maker->store,
				    &(struct store_stack_end){ .reason = "complete",
							       .text = "walked to its root",
							       .count = kept - kept / 1000 }));
	or_fail(store_stack_end_put(
		maker->store, &(struct store_stack_end){ .reason = "unreadable",
							 .text = "stack memory was not present",
							 .count = kept / 1000 }));
}

static uint64_t cpu_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The number behind "name:" in a file of /proc/self; 0: not to be had. */
static uint64_t proc_number(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	char line[128];
	uint64_t number = 0;

	while (file && fgets(line, sizeof(line), file)) {
		char *colon = strchr(line, ':');

		if (colon && (size_t)(colon - line) == strlen(name) &&
		    strncmp(line, name, strlen(name)) == 0)
			number = strtoull(colon + 1, NULL, 10);
	}
	if (file)
		fclose(file);
	return number;
}

static void round_put(struct maker *maker, uint32_t second)
{
	map_each(&maker->counts, slot) {
		struct thread_id thread = { (uint32_t)(slot->key >> 32) };
		uint32_t leaf = (uint32_t)slot->key;
		struct stack_id stack = node_put(maker, leaf);
		uint32_t symbol =
			maker->nodes.items[leaf].location / (SITES_PER_SYMBOL + LEAVES_PER_SYMBOL);

		uint64_t kernel = symbol_in_kernel(symbol) ? slot->value : 0;

		or_fail(store_samples_add(maker->store, thread, stack, slot->value, kernel));
		or_fail(store_moment_add(maker->store, second, thread, stack, slot->value, kernel));
		or_fail(store_tick_add(maker->store, second, thread, slot->value));
	}
	map_clear(&maker->counts);
}

/* The peak of the resident size is counted from here on. */
static void peak_reset(struct maker *maker)
{
	FILE *file = fopen("/proc/self/clear_refs", "we");

	if (file) {
		fputs("5", file);
		fclose(file);
	}
	maker->cost.resident_before = proc_number("/proc/self/status", "VmRSS") * 1024;
}

static void record(struct maker *maker)
{
	uint64_t rate = maker->options.hz * maker->options.cpus;
	uint64_t rounds = maker->options.seconds * ROUNDS_PER_SECOND;

	peak_reset(maker);
	for (uint64_t i = 1; i <= rounds; i++) {
		uint64_t begun;

		while (maker->seen < rate * i / ROUNDS_PER_SECOND)
			sample_take(maker);
		begun = cpu_time();
		round_put(maker, (uint32_t)((i - 1) / ROUNDS_PER_SECOND));
		if (i % ROUNDS_PER_COMMIT == 0) {
			totals_put(maker);
			or_fail(store_commit(maker->store));
		}
		maker->cost.cpu += cpu_time() - begun;
	}
}

static void symbol_put(struct maker *maker, uint32_t symbol)
{
	char name[96], linkage[64];
	uint8_t code[CODE_SIZE];

	snprintf(name, sizeof(name), "project::component%u::function%u(int, char const*)",
		 symbol / 50, symbol);
	snprintf(linkage, sizeof(linkage), "_ZN7project10component%uE8function%uEiPKc", symbol / 50,
		 symbol);
	or_fail(store_symbol_put(maker->store,
				 &(struct store_symbol){ .id.v = symbol + 1,
							 .module.v = symbol_module(maker, symbol),
							 .name = name,
							 .linkage = linkage,
							 .address = symbol_address(symbol),
							 .size = CODE_SIZE }));
	for (uint32_t i = 0; i < CODE_SIZE; i++)
		code[i] = (uint8_t)random_next(maker);
	if (symbol % 4 == 0)
		or_fail(store_symbol_code_put(maker->store, (struct symbol_id){ symbol + 1 }, code,
					      CODE_SIZE));
}

/* Every third location lies in an inlined function or two. */
static void frames_put(struct maker *maker, uint32_t index)
{
	uint32_t symbol = index / (SITES_PER_SYMBOL + LEAVES_PER_SYMBOL);
	uint32_t inlined = index % 3 ? 0 : 1 + random_below(maker, 2);
	uint32_t files = (uint32_t)maker->options.symbols / 4 + 1;

	for (uint32_t depth = 0; depth <= inlined; depth++) {
		uint32_t name = depth == inlined ? symbol
						 : random_below(maker, maker->options.symbols);

		or_fail(store_frame_put(
			maker->store,
			&(struct store_frame){ .location.v = maker->locations[index],
					       .depth = depth,
					       .symbol.v = name + 1,
					       .file.v = name % files + 1,
					       .line = 10 + random_below(maker, 2000) }));
	}
}

static void names_put(struct maker *maker)
{
	AUTO(free_ptr) struct store_unnamed *unnamed = NULL;
	uint32_t symbols = (uint32_t)maker->options.symbols;
	size_t unnamed_count;
	char path[96];

	or_fail(store_unnamed_list(maker->store, &unnamed, &unnamed_count));
	for (uint32_t i = 0; i < symbols; i++)
		symbol_put(maker, i);
	for (uint32_t i = 0; i <= symbols / 4; i++) {
		snprintf(path, sizeof(path), "/usr/src/project-1.0/component%u/source%u.cc", i / 10,
			 i);
		or_fail(store_file_put(maker->store,
				       &(struct store_file){ (struct file_id){ i + 1 }, path }));
	}
	for (uint32_t i = 0; i < symbols * (SITES_PER_SYMBOL + LEAVES_PER_SYMBOL); i++) {
		if (maker->locations[i])
			frames_put(maker, i);
	}
	or_fail(store_commit(maker->store));
}

static void value_put(struct maker *maker, uint32_t id)
{
	uint8_t bytes[HOTLIST_BLOB_MAX];
	struct moments moments = {};
	struct hotlist list;

	or_fail(hotlist_init(&list, &(struct hotlist_config){ .seed = id }));
	for (int i = 0; i < VALUES_PER_SITE; i++) {
		uint64_t value = random_next(maker) >> 32 >> random_below(maker, 32);

		hotlist_add(&list, &value);
		moments_add(&moments, (int64_t)value);
	}
	or_fail(store_value_put(
		maker->store,
		&(struct store_value){
			.id.v = id,
			.location.v = 1 + id % maker->location_count,
			.caller.v = id % 2 ? 0 : 1 + random_below(maker, maker->location_count),
			.item.v = 2 - id % 2,
			.owner = 1000,
			.width = 64,
			.total = list.total,
			.runs = VALUES_PER_SITE / VALUES_PER_RUN,
			.has_moments = true,
			.minimum = moments.min,
			.maximum = moments.max,
			.mean = moments.mean,
			.squares = moments.squares,
			.list = bytes,
			.list_size = hotlist_encode(&list, bytes) }));
	hotlist_deinit(&list);
}

static void runs_put(struct maker *maker)
{
	uint64_t kept = maker->options.values * (VALUES_PER_SITE / VALUES_PER_RUN) / RUN_LENGTH;

	or_fail(store_fact_add(maker->store, RECORDING_VALUES, "values", "result,arg0@caller"));
	or_fail(store_fact_add_u64(maker->store, RECORDING_VALUES, "run_length", RUN_LENGTH));
	or_fail(store_seen_set(maker->store, RECORDING_VALUES, kept + kept / 100));
	or_fail(store_kept_set(maker->store, RECORDING_VALUES, kept));
	or_fail(store_loss_set(maker->store, RECORDING_VALUES, "ring_full",
			       "ring to the recorder was full", kept / 100));
	or_fail(store_run_end_put(maker->store,
				  &(struct store_run_end){ .reason = "length",
							   .mnemonic = "",
							   .text = "reached the run length",
							   .count = kept - kept / 10 }));
	or_fail(store_run_end_put(maker->store,
				  &(struct store_run_end){ .reason = "unknown",
							   .mnemonic = "syscall",
							   .text = "instruction is not modelled",
							   .count = kept / 10 }));
}

static void values_put(struct maker *maker)
{
	if (!maker->options.values)
		return;
	or_fail(store_value_item_put(
		maker->store,
		&(struct store_value_item){
			.id.v = 1, .text = "result", .class = "instruction", .words = 1 }));
	or_fail(store_value_item_put(
		maker->store,
		&(struct store_value_item){
			.id.v = 2, .text = "arg0@caller", .class = "entry", .words = 1 }));
	for (uint32_t i = 1; i <= maker->options.values; i++)
		value_put(maker, i);
	runs_put(maker);
	or_fail(store_value_name_put(maker->store,
				     &(struct store_value_name){ 0, (struct location_id){ 0 },
								 "[null]" }));
	or_fail(store_parameter_put(maker->store, &(struct store_parameter){ .symbol.v = 1,
									     .name = "count",
									     .type = "int",
									     .encoding = "signed",
									     .size = 4 }));
	or_fail(store_commit(maker->store));
}

static void meta_put(struct maker *maker)
{
	or_fail(store_fact_add(maker->store, RECORDING_SAMPLES, "command", "make_profile"));
	or_fail(store_fact_add_u64(maker->store, RECORDING_SAMPLES, "frequency",
				   maker->options.hz));
	or_fail(store_recording_begin(maker->store, RECORDING_SAMPLES,
				      (uint64_t)WALL_START * NS_PER_S));
	or_fail(store_machine_put(maker->store, &(struct store_machine){ .id.v = 1,
									 .host = "made",
									 .kernel = "6.1",
									 .architecture = "x86_64",
									 .boot = "made" }));
}

static void options_parse(int argc, char **argv, struct options *ret)
{
	static const struct option longs[] = {
		{ "seconds", 1, NULL, 's' },
		{ "hz", 1, NULL, 'F' },
		{ "cpus", 1, NULL, 'C' },
		{ "processes", 1, NULL, 'p' },
		{ "stacks", 1, NULL, 'n' },
		{ "symbols", 1, NULL, 'y' },
		{ "values", 1, NULL, 'v' },
		{ "seed", 1, NULL, 'r' },
		{},
	};
	uint64_t *const targets[128] = {
		['s'] = &ret->seconds,	 ['F'] = &ret->hz,     ['C'] = &ret->cpus,
		['p'] = &ret->processes, ['n'] = &ret->stacks, ['y'] = &ret->symbols,
		['v'] = &ret->values,	 ['r'] = &ret->seed,
	};
	int option;

	while ((option = getopt_long(argc, argv, "o:s:F:C:p:n:y:v:r:", longs, NULL)) != -1) {
		if (option == 'o')
			ret->path = optarg;
		else if (option > 0 && option < 128 && targets[option])
			*targets[option] = strtoull(optarg, NULL, 10);
		else
			exit(2);
	}
	if (!ret->path || !ret->processes || ret->stacks < ret->processes || !ret->symbols) {
		fputs("usage: make_profile -o FILE [--seconds N] [--hz N] [--cpus N] [--processes "
		      "N] "
		      "[--stacks N] [--symbols N] [--values N] [--seed N]; at least one stack per "
		      "process\n",
		      stderr);
		exit(2);
	}
}

static void maker_deinit(struct maker *maker)
{
	store_destroy(maker->store);
	array_deinit(&maker->nodes);
	free(maker->leaves);
	free(maker->processes);
	free(maker->weights);
	free(maker->locations);
	map_deinit(&maker->children);
	map_deinit(&maker->counts);
}

static void finish(struct maker *maker)
{
	uint64_t begun = clock_monotonic(), cpu_begun = cpu_time();

	or_fail(store_finish(maker->store));
	maker->cost.finish = clock_monotonic() - begun;
	maker->cost.cpu += cpu_time() - cpu_begun;
}

static void summary_print(const struct maker *maker, uint64_t elapsed)
{
	const struct cost *cost = &maker->cost;
	uint64_t peak = proc_number("/proc/self/status", "VmHWM") * 1024;
	struct stat info = {};

	stat(maker->options.path, &info);
	printf("%s: %" PRIu64
	       " samples, %u stack nodes, %u locations, %.1f MB, %.1f s, seed %" PRIu64 "\n",
	       maker->options.path, maker->seen, maker->node_count, maker->location_count,
	       (double)info.st_size / 1e6, (double)elapsed / NS_PER_S, maker->options.seed);
	printf("store: %.1f s of CPU, %.1f MB written, %.2f s to finish, grew by %.1f MB\n",
	       (double)cost->cpu / NS_PER_S, (double)proc_number("/proc/self/io", "wchar") / 1e6,
	       (double)cost->finish / NS_PER_S, (double)(peak - cost->resident_before) / 1e6);
}

int main(int argc, char **argv)
{
	struct maker maker = { .options = { .seconds = 10,
					    .hz = 997,
					    .cpus = 2,
					    .processes = 20,
					    .stacks = 100000,
					    .symbols = 2000,
					    .seed = 1 } };
	uint64_t begun = clock_monotonic();

	options_parse(argc, argv, &maker.options);
	maker.random = maker.options.seed * 0x9e3779b97f4a7c15 | 1;
	maker.locations =
		mem_zalloc(maker.options.symbols * (SITES_PER_SYMBOL + LEAVES_PER_SYMBOL) *
			   sizeof(*maker.locations));
	or_fail(store_create(maker.options.path, &maker.store));
	meta_put(&maker);
	processes_put(&maker);
	modules_put(&maker);
	stacks_make(&maker);
	record(&maker);
	names_put(&maker);
	values_put(&maker);
	finish(&maker);
	summary_print(&maker, clock_monotonic() - begun);
	maker_deinit(&maker);
	return 0;
}

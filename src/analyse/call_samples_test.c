// SPDX-License-Identifier: BSD-2-Clause
// Serves: T1, T2.
/* Calls and samples that are written down here stand in one tree, and no sample is left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "analyse/views.h"
#include "support/profile_fixture.h"

enum {
	CALLS_OF_NODE = 4,
	NODES = 32,
};

/* A profile that was made of a run of calls, and of a run that was sampled. */
struct both {
	struct fixture fixture;
	struct profile profile;
	struct profile_call_node nodes[NODES];
	struct profile_call_amount amounts[NODES];
	struct profile_wait waits[4];
	uint32_t node_count, amount_count, wait_count;
	uint32_t program, library, kernel, rebuilt, marks;
	uint32_t address; /* of the next function */
};

static uint32_t function(struct both *both, uint32_t module, const char *name)
{
	return fixture_symbol(&both->fixture, module, name, both->address += 64, 64);
}

/* A place in a function; or in one that was inlined into it. */
static uint32_t place(struct both *both, uint32_t symbol, uint32_t inlined)
{
	uint32_t module = both->fixture.symbols.items[symbol].module;
	uint32_t location = fixture_location(&both->fixture, module, both->address += 64);

	if (inlined)
		fixture_frame(&both->fixture, inlined, 0, 0);
	fixture_frame(&both->fixture, symbol, 0, 0);
	return location;
}

/* symbol 0: the thread itself, or what was pruned. */
static uint32_t called(struct both *both, uint32_t thread, uint32_t parent, uint32_t symbol)
{
	uint32_t id = ++both->node_count;

	both->nodes[id] =
		(struct profile_call_node){ .id = id,
					    .parent = parent,
					    .thread = thread,
					    .location = symbol ? place(both, symbol, 0) : 0,
					    .pruned = parent && !symbol };
	if (parent)
		both->amounts[both->amount_count++] = (struct profile_call_amount){
			.recording = 2, .node = id, .metric = "calls", .base = CALLS_OF_NODE
		};
	return id;
}

/* symbols: from the outermost on, to a 0. */
static void sampled(struct both *both, uint32_t thread, const uint32_t *symbols, uint64_t count)
{
	uint32_t stack = 0;

	for (; *symbols; symbols++)
		stack = fixture_stack(&both->fixture, stack, place(both, *symbols, 0));
	fixture_sample(&both->fixture, thread, stack, count, 0);
}

#define STACK(...) ((const uint32_t[]){ __VA_ARGS__ __VA_OPT__(, ) 0 })

static void both_init(struct both *both)
{
	*both = (struct both){};
	fixture_init(&both->fixture);
	both->program = fixture_module(&both->fixture, MODULE_ELF, "/bin/program", "01");
	both->library = fixture_module(&both->fixture, MODULE_ELF, "/lib/library.so", "02");
	both->kernel = fixture_module(&both->fixture, MODULE_KERNEL, "[kernel]", "");
	both->rebuilt = fixture_module(&both->fixture, MODULE_ELF, "/bin/program", "03");
	both->marks = fixture_module(&both->fixture, MODULE_MARK, "[assay]", "");
	for (size_t i = 1; i < both->fixture.modules.count; i++) {
		const char *path = both->fixture.modules.items[i].path;

		both->fixture.modules.items[i].name = strrchr(path, '/') ? strrchr(path, '/') + 1
									 : path;
	}
	fixture_recording(&both->fixture, RECORDING_CALLS)->kept = 0;
}

static struct table *tree_of(struct both *both, const struct view_request *request)
{
	struct table *table = NULL;

	fixture_recording(&both->fixture, RECORDING_CALLS)->kept =
		both->amount_count * CALLS_OF_NODE;
	both->profile = *fixture_finish(&both->fixture);
	both->profile.call_nodes = both->nodes;
	both->profile.call_node_count = both->node_count + 1;
	both->profile.call_amounts = both->amounts;
	both->profile.call_amount_count = both->amount_count;
	both->profile.waits = both->waits;
	both->profile.wait_count = both->wait_count;
	assert_int_equal(view_run(view_find("tree"), &both->profile, request, &table), 0);
	return table;
}

static const struct view_request all = { .min_share = 0, .min_invariance = -1 };

/* Each row as "level name below self", of the two columns. */
static void rows_check(struct both *both, const struct view_request *request,
		       const char *below_name, const char *self_name, const char *const *expected)
{
	struct table *table = tree_of(both, request);
	int level = table_column(table, "level"), symbol = table_column(table, "symbol");
	int below = table_column(table, below_name), self = table_column(table, self_name);

	for (size_t i = 0; i < table->row_count; i++) {
		const struct cell *row = table_row(table, i);
		char line[128];

		snprintf(line, sizeof(line), "%d %s %d %d", (int)row[level].integer,
			 row[symbol].text, (int)row[below].number, (int)row[self].number);
		assert_non_null(*expected);
		assert_string_equal(line, *expected++);
	}
	assert_null(*expected);
	table_destroy(table);
}

static void tree_check(struct both *both, const struct view_request *request,
		       const char *const *expected)
{
	rows_check(both, request, "samples", "self_samples", expected);
}

static void both_deinit(struct both *both)
{
	fixture_deinit(&both->fixture);
}

/*
 * The thread of both recordings is the same. Its calls: main calls itself, and sort of the library,
 * which calls compare back; start and copy were never called.
 */
static void samples_find_their_paths(void **state)
{
	struct both both;
	uint32_t thread, main_fn, sort, compare, start, copy, stub, syscall_fn, cut, inlined;
	uint32_t root, first, in_sort;

	both_init(&both);
	thread = fixture_thread(&both.fixture, fixture_process(&both.fixture, 7, 0, "program"), 7,
				"program");
	start = function(&both, both.library, "start");
	main_fn = function(&both, both.program, "main");
	sort = function(&both, both.library, "sort");
	compare = function(&both, both.program, "compare");
	copy = function(&both, both.library, "copy");
	stub = function(&both, both.program, "sort@plt");
	syscall_fn = function(&both, both.kernel, "do_syscall");
	cut = function(&both, both.marks, "[stack cut]");
	inlined = fixture_inlined(&both.fixture, both.program, "swap");
	root = called(&both, thread, 0, 0);
	first = called(&both, thread, root, main_fn);
	called(&both, thread, first, main_fn);
	in_sort = called(&both, thread, first, sort);
	called(&both, thread, called(&both, thread, in_sort, compare), stub);

	sampled(&both, thread, STACK(start), 1); /* not called, and nothing below: the thread */
	sampled(&both, thread, STACK(syscall_fn), 2); /* the same */
	sampled(&both, thread, STACK(start, main_fn), 4);
	sampled(&both, thread, STACK(start, main_fn, main_fn), 8);
	sampled(&both, thread, STACK(start, main_fn, sort, compare), 16);
	/* The kernel, and code that nobody called, belong to who called them; also in between. */
	sampled(&both, thread, STACK(start, main_fn, sort, copy, syscall_fn), 32);
	sampled(&both, thread, STACK(start, main_fn, copy, sort, copy, compare), 64);
	/* A stub is none of the functions that are called. */
	sampled(&both, thread, STACK(start, main_fn, stub), 4096);
	/* Functions that were called, but not there. */
	sampled(&both, thread, STACK(start, main_fn, compare), 128);
	sampled(&both, thread, STACK(start, main_fn, main_fn, main_fn), 256);
	/* Nobody knows where these begin. */
	sampled(&both, thread, STACK(cut, main_fn), 512);
	sampled(&both, thread, STACK(), 1024);
	/* Inlined functions are part of the one that has their code. */
	fixture_sample(&both.fixture, thread,
		       fixture_stack(&both.fixture, 0, place(&both, main_fn, inlined)), 2048, 0);
	tree_check(&both, &all,
		   (const char *[]){ "0 thread 7 of process 7, program 6271 3", "1 main 6268 6148",
				     "2 main 8 8", "2 sort 112 32", "3 compare 80 80",
				     "4 sort@plt 0 0", "0 [on paths that no call took] 1920 1920",
				     NULL });
	both_deinit(&both);
}

/* A program that was built again in between: its modules differ, and the names are the same. */
static void other_builds_are_known_by_name(void **state)
{
	struct both both;
	uint32_t thread, called_fn, twin, part, again, root;

	both_init(&both);
	thread = fixture_thread(&both.fixture, fixture_process(&both.fixture, 7, 0, "program"), 7,
				"program");
	called_fn = function(&both, both.program, "work");
	twin = function(&both, both.program, "work"); /* a local function of another file */
	part = function(&both, both.program, "work.cold");
	again = function(&both, both.rebuilt, "work");
	root = called(&both, thread, 0, 0);
	called(&both, thread, root, called_fn);
	sampled(&both, thread, STACK(again), 1);
	sampled(&both, thread, STACK(part), 2);
	sampled(&both, thread, STACK(twin), 4); /* was never called */
	tree_check(&both, &all,
		   (const char *[]){ "0 thread 7 of process 7, program 7 4", "1 work 3 3", NULL });
	both_deinit(&both);
}

/* What lies on a path that was pruned away is in the row of those that were. */
static void pruned_paths_have_their_samples(void **state)
{
	struct both both;
	uint32_t thread, a, b, root, first;

	both_init(&both);
	thread = fixture_thread(&both.fixture, fixture_process(&both.fixture, 7, 0, "program"), 7,
				"program");
	a = function(&both, both.program, "a");
	b = function(&both, both.program, "b");
	root = called(&both, thread, 0, 0);
	first = called(&both, thread, root, a);
	called(&both, thread, first, 0);
	called(&both, thread, root, b);
	sampled(&both, thread, STACK(a, b), 1);
	sampled(&both, thread, STACK(a, b, a, b), 2);
	sampled(&both, thread, STACK(b, a), 4);
	tree_check(&both, &all,
		   (const char *[]){ "0 thread 7 of process 7, program 3 0", "1 a 3 0",
				     "2 [pruned] 3 3", "1 b 0 0",
				     "0 [on paths that no call took] 4 4", NULL });
	both_deinit(&both);
}

/*
 * Two runs. The names of a first thread and of one other lead to one tree each; two workers have
 * the same name, and nothing tells which is which.
 */
static void threads_of_two_runs_are_matched_by_name(void **state)
{
	struct both both;
	struct view_request only = all;
	uint32_t work, calls, samples, late, threads[9];

	both_init(&both);
	work = function(&both, both.program, "work");
	calls = fixture_process(&both.fixture, 10, 0, "program");
	samples = fixture_process(&both.fixture, 20, 0, "program");
	threads[0] = fixture_thread(&both.fixture, calls, 10, "program");
	threads[1] = fixture_thread(&both.fixture, calls, 11, "reader");
	threads[2] = fixture_thread(&both.fixture, calls, 12, "program");
	threads[3] = fixture_thread(&both.fixture, calls, 13, "program");
	threads[4] = fixture_thread(&both.fixture, samples, 20, "program");
	threads[5] = fixture_thread(&both.fixture, samples, 21, "reader");
	threads[6] = fixture_thread(&both.fixture, samples, 22, "program");
	threads[7] = fixture_thread(&both.fixture, samples, 23, "writer");
	/* The fourth once more, seen by another recording when it had already begun. */
	late = fixture_process(&both.fixture, 10, 0, "program");
	threads[8] = fixture_thread(&both.fixture, late, 13, "program");
	both.fixture.threads.items[threads[3]].started = 5;
	for (int i = 0; i < 4; i++)
		called(&both, threads[i], called(&both, threads[i], 0, 0), work);
	sampled(&both, threads[2], STACK(work), 1); /* the very same thread */
	sampled(&both, threads[4], STACK(work), 2);
	sampled(&both, threads[5], STACK(work), 4);
	sampled(&both, threads[6], STACK(work), 8);
	sampled(&both, threads[7], STACK(work), 16);
	sampled(&both, threads[8], STACK(work), 32);
	tree_check(&both, &all,
		   (const char *[]){ "0 thread 10 of process 10, program 2 0", "1 work 2 2",
				     "0 thread 11 of process 10, reader 4 0", "1 work 4 4",
				     "0 thread 12 of process 10, program 1 0", "1 work 1 1",
				     "0 thread 13 of process 10, program 32 0", "1 work 32 32",
				     "0 [of threads whose calls are not known] 24 24", NULL });
	*array_push(&only.filter.tids) = 11;
	tree_check(&both, &only,
		   (const char *[]){ "0 thread 11 of process 10, reader 4 0", "1 work 4 4", NULL });
	array_deinit(&only.filter.tids);
	both_deinit(&both);
}

/* A script and the program that it executes are two programs of one name. */
static void programs_are_told_apart_by_their_files(void **state)
{
	static const char *const files[] = { "/bin/sh", "/bin/tool", "/bin/tool", "/bin/other" };
	struct both both;
	uint32_t work, threads[4];

	both_init(&both);
	work = function(&both, both.program, "work");
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t process = fixture_process(&both.fixture, 10 + i, 0, "tool");

		both.fixture.processes.items[process].exe = files[i];
		threads[i] = fixture_thread(&both.fixture, process, 10 + i, "tool");
	}
	for (int i = 0; i < 2; i++)
		called(&both, threads[i], called(&both, threads[i], 0, 0), work);
	sampled(&both, threads[2], STACK(work), 1);
	sampled(&both, threads[3], STACK(work), 2);
	tree_check(&both, &all,
		   (const char *[]){ "0 thread 10 of process 10, tool 0 0", "1 work 0 0",
				     "0 thread 11 of process 11, tool 1 0", "1 work 1 1",
				     "0 [of threads whose calls are not known] 2 2", NULL });
	both_deinit(&both);
}

/* Waits are on paths as samples are, with the time that the thread was queued in the end. */
static void waits_find_their_paths(void **state)
{
	struct both both;
	struct view_request only = all;
	uint32_t thread, other, root, first, work, read_fn, syscall_fn, stack;

	both_init(&both);
	thread = fixture_thread(&both.fixture, fixture_process(&both.fixture, 7, 0, "program"), 7,
				"program");
	other = fixture_thread(&both.fixture, fixture_process(&both.fixture, 8, 0, "other"), 8,
			       "other");
	work = function(&both, both.program, "work");
	read_fn = function(&both, both.library, "read");
	syscall_fn = function(&both, both.kernel, "schedule");
	root = called(&both, thread, 0, 0);
	first = called(&both, thread, root, work);
	called(&both, thread, first, read_fn);
	sampled(&both, thread, STACK(work), 5);
	stack = fixture_stack(&both.fixture, 0, place(&both, work, 0));
	both.waits[0] = (struct profile_wait){ .thread = thread, .stack = stack, .total = 3 };
	stack = fixture_stack(&both.fixture, stack, place(&both, read_fn, 0));
	stack = fixture_stack(&both.fixture, stack, place(&both, syscall_fn, 0));
	both.waits[1] = (struct profile_wait){
		.thread = thread, .stack = stack, .total = 1000, .queued = 200
	};
	both.waits[2] = (struct profile_wait){ .thread = thread, .queued = 20 };
	both.waits[3] = (struct profile_wait){ .thread = other, .stack = stack, .total = 7 };
	both.wait_count = 4;
	fixture_recording(&both.fixture, RECORDING_WAITS)->kept = 4;
	rows_check(&both, &all, "waited_ns", "self_waited_ns",
		   (const char *[]){ "0 thread 7 of process 7, program 1203 0", "1 work 1203 3",
				     "2 read 1200 1200", "0 [on paths that no call took] 20 20",
				     "0 [of threads whose calls are not known] 7 7", NULL });
	tree_check(&both, &all,
		   (const char *[]){ "0 thread 7 of process 7, program 5 0", "1 work 5 5",
				     "2 read 0 0", "0 [on paths that no call took] 0 0",
				     "0 [of threads whose calls are not known] 0 0", NULL });
	*array_push(&only.filter.tids) = 8;
	rows_check(&both, &only, "waited_ns", "self_waited_ns",
		   (const char *[]){ "0 [of threads whose calls are not known] 7 7", NULL });
	array_deinit(&only.filter.tids);
	both_deinit(&both);
}

/* What only samples can say is said of samples. */
static void the_tree_of_samples_is_still_there(void **state)
{
	struct both both;
	struct view_request wish = all;
	struct table *table;
	uint32_t thread, work;

	both_init(&both);
	thread = fixture_thread(&both.fixture, fixture_process(&both.fixture, 7, 0, "program"), 7,
				"program");
	work = function(&both, both.program, "work");
	called(&both, thread, called(&both, thread, 0, 0), work);
	sampled(&both, thread, STACK(work), 3);
	wish.bottom_up = true;
	table = tree_of(&both, &wish);
	assert_true(table_column(table, "calls") < 0);
	table_destroy(table);
	wish = all;
	wish.metric = METRIC_SAMPLES;
	table = tree_of(&both, &wish);
	assert_int_equal(table_row(table, 0)[table_column(table, "total")].number, 3);
	table_destroy(table);
	both_deinit(&both);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_find_their_paths),
		cmocka_unit_test(other_builds_are_known_by_name),
		cmocka_unit_test(pruned_paths_have_their_samples),
		cmocka_unit_test(threads_of_two_runs_are_matched_by_name),
		cmocka_unit_test(programs_are_told_apart_by_their_files),
		cmocka_unit_test(waits_find_their_paths),
		cmocka_unit_test(the_tree_of_samples_is_still_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1.
/* The processes that read debug information: they die, stall and run away, and names remain. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/symbols_fixture.h"
#include "symbols/spawner.h"
#include "symbols/symbols.h"
#include "symbols/worker.h"

static pid_t only_child(void)
{
	AUTO(close_file) FILE *file = fopen("/proc/thread-self/children", "r");
	int pid;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%d", &pid), 1);
	return pid;
}

/*
 * A reader that dies takes the lines with it, a second one the names; the asking process goes on.
 */
static void death_of_the_reader_costs_names_only(void **state)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	struct symbol_answer answer;
	uint64_t hidden;

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	hidden = fixture_address("prog", "hidden");
	symbols = fixture_symbols("prog");
	assert_int_equal(symbols_resolve(symbols, hidden, &answer), 0);
	assert_true(answer.frames[0].line > 0);
	kill(only_child(), SIGSEGV);
	assert_int_equal(symbols_resolve(symbols, hidden, &answer), 0);
	assert_string_equal(answer.frames[0].name, "hidden");
	assert_int_equal(answer.frames[0].line, 0);
	kill(only_child(), SIGBUS);
	assert_int_equal(symbols_resolve(symbols, hidden + 1, &answer), 0);
	assert_int_equal(answer.address, hidden);
	assert_memory_equal(answer.frames[0].name, "sub_", 4);
}

static pid_t parent_of(pid_t pid)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/stat", (int)pid);
	AUTO(close_file) FILE *file = fopen(path, "r");
	int parent;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c %d", &parent), 1);
	return parent;
}

/* The end of a reader that another process forked is learnt as that of one's own child. */
static void readers_come_from_a_small_process(void **state)
{
	AUTO(close_fd) int fd = -1;
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	const struct worker_limits limits = { 10, 10, 4ull << 30 };
	struct worker worker;
	pid_t spawner;

	spawner_begin();
	spawner = only_child();
	fd = fixture_open("/bin/true");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(worker_start(&worker, fd, "/bin/true", true, &limits), 0);
		assert_int_equal(parent_of(worker.pid), getpid());
		assert_int_not_equal(worker.pid, spawner);
		worker_load(&worker);
		assert_int_equal(worker_ask(&worker, WORKER_NAMES, (uint64_t[2]){}, 2, &reply), 0);
		free(take_ptr(reply));
		kill(worker.pid, SIGSEGV);
		assert_int_equal(worker_ask(&worker, WORKER_NAMES, (uint64_t[2]){}, 2, &reply),
				 -EPIPE);
		assert_int_equal(worker_stop(&worker), SIGSEGV);
	}
	/* Without it they are forked as usual. */
	kill(spawner, SIGKILL);
	assert_int_equal(worker_start(&worker, fd, "/bin/true", true, &limits), 0);
	assert_int_equal(worker_ask(&worker, WORKER_NAMES, (uint64_t[2]){}, 2, &reply), 0);
	assert_int_equal(worker_stop(&worker), SIGKILL);
	spawner_end();
	assert_int_equal(waitpid(-1, NULL, 0), -1);
}

/* One that was killed while it loaded the file: the next one answers. */
static void death_while_loading_costs_lines_only(void **state)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	struct symbol_answer answer;
	uint64_t hidden;

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	hidden = fixture_address("prog", "hidden");
	symbols = fixture_symbols("prog");
	symbols_prepare(symbols);
	kill(only_child(), SIGKILL);
	assert_int_equal(symbols_resolve(symbols, hidden, &answer), 0);
	assert_string_equal(answer.frames[0].name, "hidden");
	assert_int_equal(answer.frames[0].line, 0);
}

static int killed_by(const char *path, const struct worker_limits *limits)
{
	AUTO(close_fd) int fd = fixture_open(path);
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	struct worker worker;

	assert_int_equal(worker_start(&worker, fd, path, true, limits), 0);
	assert_int_equal(worker_ask(&worker, WORKER_FRAMES, &(uint64_t){ 0x1234 }, 1, &reply),
			 -EPIPE);
	return worker_stop(&worker);
}

/* Split DWARF whose other half is a pipe that nobody writes to. */
static void a_stalled_read_is_ended(void **state)
{
	const struct worker_limits limits = { .cpu_seconds = 60,
					      .wall_seconds = 1,
					      .memory = 4ull << 30 };

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -gsplit-dwarf -c -o split.o prog.c && gcc -o split split.o");
	fixture_run("rm split.dwo && mkfifo split.dwo");
	assert_int_equal(killed_by("split", &limits), SIGALRM);
}

/* 20,000 units that share one list of 100,000 address ranges: work that grows with the product. */
static void a_runaway_is_ended(void **state)
{
	const struct worker_limits limits = { .cpu_seconds = 1,
					      .wall_seconds = 60,
					      .memory = 4ull << 30 };

	fixture_write("bomb.S",
		      ".globl _start\n_start: nop\n"
		      ".section .debug_abbrev\n.byte 1, 0x11, 0, 0x55, 0x17, 0, 0, 0\n"
		      ".section .debug_ranges\n.rept 100000\n.quad 1, 1\n.endr\n.quad 0, 0\n"
		      ".section .debug_info\n.rept 20000\n.long 12\n.short 4\n.long 0\n"
		      ".byte 8, 1\n.long 0\n.endr\n.section .note.GNU-stack\n");
	fixture_run("gcc -nostdlib -static -o bomb bomb.S");
	assert_int_equal(killed_by("bomb", &limits), SIGPROF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(death_of_the_reader_costs_names_only),
		cmocka_unit_test(readers_come_from_a_small_process),
		cmocka_unit_test(death_while_loading_costs_lines_only),
		cmocka_unit_test(a_stalled_read_is_ended),
		cmocka_unit_test(a_runaway_is_ended),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

// SPDX-License-Identifier: BSD-2-Clause
// Serves: V16.
/* The load map from invented events. Pids are above any real one, so that /proc never helps. */
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/map.h"
#include "image/loadmap.h"
#include "store/store.h"

enum { P = 0x40000000, Q = P + 1, SHELL = P + 2, PAGE = 4096 };

static int setup(void **state)
{
	struct loadmap *map = NULL;

	if (loadmap_create(NULL, NULL, &map))
		return -1;
	*state = map;
	return 0;
}

static int teardown(void **state)
{
	loadmap_destroy(*state);
	return 0;
}

static void apply(struct loadmap *map, struct event event)
{
	assert_int_equal(loadmap_apply(map, &event), 0);
}

static void process_fork(struct loadmap *map, uint32_t pid, uint32_t parent, uint64_t time)
{
	apply(map, (struct event){ .kind = EVENT_FORK,
				   .pid = pid,
				   .tid = pid,
				   .time = time,
				   .fork = { parent, parent } });
}

static void thread_fork(struct loadmap *map, uint32_t pid, uint32_t tid, uint64_t time)
{
	apply(map, (struct event){ .kind = EVENT_FORK,
				   .pid = pid,
				   .tid = tid,
				   .time = time,
				   .fork = { pid, pid } });
}

static void process_exec(struct loadmap *map, uint32_t pid, const char *comm, uint64_t time)
{
	apply(map,
	      (struct event){
		      .kind = EVENT_EXEC, .pid = pid, .tid = pid, .time = time, .comm = comm });
}

static void thread_comm(struct loadmap *map, uint32_t pid, uint32_t tid, const char *comm,
			uint64_t time)
{
	apply(map,
	      (struct event){
		      .kind = EVENT_COMM, .pid = pid, .tid = tid, .time = time, .comm = comm });
}

static void thread_exit(struct loadmap *map, uint32_t pid, uint32_t tid, uint64_t time)
{
	apply(map, (struct event){ .kind = EVENT_EXIT, .pid = pid, .tid = tid, .time = time });
}

/* A file that is not there; its build-id is made of its name. */
static void file_map(struct loadmap *map, uint32_t pid, uint64_t start, uint64_t end,
		     uint64_t offset, const char *path, uint64_t time)
{
	struct event event = { .kind = EVENT_MMAP, .pid = pid, .tid = pid, .time = time };
	uint64_t hash = hash_bytes(path, strlen(path));

	event.mmap =
		(struct event_mmap){ .start = start, .end = end, .offset = offset, .path = path };
	if (path[0] == '/' && path[1] != '/') {
		event.mmap.build_id.size = 8;
		memcpy(event.mmap.build_id.bytes, &hash, 8);
	}
	apply(map, event);
}

static void range_unmap(struct loadmap *map, uint32_t pid, uint64_t start, uint64_t end,
			uint64_t time)
{
	apply(map, (struct event){ .kind = EVENT_UNMAP,
				   .pid = pid,
				   .tid = pid,
				   .time = time,
				   .mmap = { .start = start, .end = end } });
}

static const char *path_at(struct loadmap *map, uint32_t pid, uint64_t address, uint64_t time,
			   uint64_t *ret_address)
{
	struct module_id module;
	uint64_t unused;

	loadmap_resolve(map, loadmap_process_at(map, pid, time), address, time, &module,
			ret_address ? ret_address : &unused);
	return loadmap_module_get(map, module)->path;
}

static uint32_t image_at(struct loadmap *map, uint32_t pid, uint64_t time)
{
	return loadmap_process_at(map, pid, time)->id.v;
}

static void exec_divides_time(void **state)
{
	struct loadmap *map = *state;

	process_fork(map, P, SHELL, 10);
	process_exec(map, P, "a", 100);
	file_map(map, P, 0x1000, 0x2000, 0, "/none/a", 101);
	process_exec(map, P, "b", 200);
	file_map(map, P, 0x1000, 0x2000, 0, "/none/b", 201);
	assert_string_equal(path_at(map, P, 0x1800, 150, NULL), "/none/a");
	assert_string_equal(path_at(map, P, 0x1800, 199, NULL), "/none/a");
	assert_string_equal(path_at(map, P, 0x1800, 250, NULL), "/none/b");
	assert_int_not_equal(image_at(map, P, 199), image_at(map, P, 200));
	assert_int_not_equal(image_at(map, P, 50), image_at(map, P, 150));
	assert_true(loadmap_process_at(map, P, 150)->replaced);
	assert_false(loadmap_process_at(map, P, 250)->replaced);
}

static void mapping_over_a_mapping_leaves_its_ends(void **state)
{
	struct loadmap *map = *state;
	struct loadmap_process *process;
	uint64_t before, after;
	uint32_t changes;

	process_exec(map, P, "a", 1);
	file_map(map, P, 0x10000, 0x90000, 0x3000, "/none/a", 10);
	process = loadmap_process_at(map, P, 10);
	changes = process->changes;
	assert_false(process->overlapped);
	path_at(map, P, 0x60000, 15, &before);
	file_map(map, P, 0x30000, 0x50000, 0, "/none/b", 20);
	assert_true(process->overlapped);
	assert_true(process->changes > changes);
	assert_string_equal(path_at(map, P, 0x40000, 15, NULL), "/none/a");
	assert_string_equal(path_at(map, P, 0x40000, 25, NULL), "/none/b");
	assert_string_equal(path_at(map, P, 0x2ffff, 25, NULL), "/none/a");
	assert_string_equal(path_at(map, P, 0x60000, 25, &after), "/none/a");
	assert_int_equal(before, 0x60000 - 0x10000 + 0x3000);
	assert_int_equal(after, before);
	assert_string_equal(path_at(map, P, 0x90000, 25, NULL), "[anon]");
}

static void same_mapping_told_again_changes_nothing(void **state)
{
	struct loadmap *map = *state;
	struct loadmap_process *process;
	uint32_t changes;

	process_exec(map, P, "a", 1);
	file_map(map, P, 0x10000, 0x90000, 0, "/none/a", 10);
	process = loadmap_process_at(map, P, 10);
	changes = process->changes;
	file_map(map, P, 0x10000, 0x90000, 0, "/none/a", 20);
	file_map(map, P, 0x20000, 0x30000, 0x10000, "/none/a", 30); /* mprotect() of a part */
	assert_int_equal(process->changes, changes);
	assert_int_equal(process->mapping_count, 1);
	assert_false(process->overlapped);
	file_map(map, P, 0x20000, 0x30000, 0, "/none/a", 40); /* other bytes of the same file */
	assert_true(process->changes > changes);
}

static void unmapped_code_is_found_only_before(void **state)
{
	struct loadmap *map = *state;

	process_exec(map, P, "a", 1);
	file_map(map, P, 0x10000, 0x20000, 0, "/none/a", 10);
	range_unmap(map, P, 0x0, 0x100000, 50);
	assert_string_equal(path_at(map, P, 0x11000, 49, NULL), "/none/a");
	assert_string_equal(path_at(map, P, 0x11000, 50, NULL), "[anon]");
	file_map(map, P, 0x10000, 0x20000, 0, "/none/b", 60);
	range_unmap(map, P, 0x10000, 0x20000, 55); /* late: of something older */
	assert_string_equal(path_at(map, P, 0x11000, 70, NULL), "/none/b");
	assert_string_equal(path_at(map, P, 0x11000, 49, NULL), "/none/a");
}

static void fork_keeps_the_parents_code_until_exec(void **state)
{
	struct loadmap *map = *state;

	process_exec(map, SHELL, "sh", 1);
	file_map(map, SHELL, 0x10000, 0x20000, 0, "/none/sh", 2);
	process_fork(map, P, SHELL, 10);
	range_unmap(map, SHELL, 0x10000, 0x20000, 15);
	assert_string_equal(path_at(map, P, 0x11000, 20, NULL), "/none/sh");
	assert_string_equal(path_at(map, SHELL, 0x11000, 20, NULL), "[anon]");
	process_exec(map, P, "true", 30);
	assert_string_equal(path_at(map, P, 0x11000, 29, NULL), "/none/sh");
	assert_string_equal(path_at(map, P, 0x11000, 31, NULL), "[anon]");
}

static void reused_pid_is_another_process(void **state)
{
	struct loadmap *map = *state;
	uint32_t first, second, third;

	process_exec(map, P, "a", 1);
	file_map(map, P, 0x10000, 0x20000, 0, "/none/a", 2);
	thread_exit(map, P, P, 100);
	process_fork(map, P, SHELL, 200);
	process_exec(map, P, "b", 201);
	file_map(map, P, 0x10000, 0x20000, 0, "/none/b", 202);
	first = image_at(map, P, 50);
	second = image_at(map, P, 300);
	assert_int_not_equal(first, second);
	assert_int_equal(image_at(map, P, 150), first); /* in its last moments in the kernel */
	assert_string_equal(path_at(map, P, 0x10000, 50, NULL), "/none/a");
	assert_string_equal(path_at(map, P, 0x10000, 300, NULL), "/none/b");
	process_fork(map, P, SHELL, 400); /* the exit was lost */
	third = image_at(map, P, 450);
	assert_int_not_equal(second, third);
	assert_int_equal(loadmap_process_at(map, P, 300)->to, 400);
}

struct ends {
	uint32_t pids[16];
	size_t count;
};

static int note_pid(void *ctx, struct loadmap_process *process)
{
	struct ends *ends = ctx;

	ends->pids[ends->count++] = process->pid;
	return 0;
}

static void process_ends_with_its_last_thread(void **state)
{
	struct loadmap *map = *state;
	struct ends ends = {};

	process_exec(map, P, "a", 1);
	thread_fork(map, P, P + 10, 2);
	thread_fork(map, P, P + 11, 3);
	thread_exit(map, P, P, 10); /* the leader first */
	thread_exit(map, P, P + 11, 20);
	loadmap_each_ended(map, note_pid, &ends);
	assert_int_equal(ends.count, 0);
	assert_int_equal(loadmap_process_at(map, P, 25)->to, UINT64_MAX);
	thread_exit(map, P, P + 10, 30);
	loadmap_each_ended(map, note_pid, &ends);
	assert_int_equal(ends.count, 1);
	assert_int_equal(ends.pids[0], P);
	assert_int_equal(loadmap_process_at(map, P, 25)->to, 30);
	loadmap_each_ended(map, note_pid, &ends);
	assert_int_equal(ends.count, 1);
}

static void changed_processes_are_told_once(void **state)
{
	struct loadmap *map = *state;
	struct ends changed = {};

	process_exec(map, P, "a", 1);
	file_map(map, P, 0x1000, 0x2000, 0, "/none/a", 2);
	process_exec(map, Q, "b", 1);
	file_map(map, Q, 0x1000, 0x2000, 0, "/none/a", 2);
	thread_exit(map, Q, Q, 3);
	loadmap_each_changed(map, note_pid, &changed);
	assert_int_equal(changed.count, 1);
	assert_int_equal(changed.pids[0], P);
	loadmap_each_changed(map, note_pid, &changed);
	assert_int_equal(changed.count, 1);
	range_unmap(map, P, 0x8000, 0x9000, 4); /* nothing there */
	loadmap_each_changed(map, note_pid, &changed);
	assert_int_equal(changed.count, 1);
	range_unmap(map, P, 0x1000, 0x2000, 5);
	loadmap_each_changed(map, note_pid, &changed);
	assert_int_equal(changed.count, 2);
}

/* The child's exec was read from one CPU's ring before the fork from another's. */
static void fork_may_arrive_after_exec(void **state)
{
	struct loadmap *map = *state;
	uint32_t image;

	process_exec(map, SHELL, "sh", 1);
	process_exec(map, P, "true", 20);
	file_map(map, P, 0x1000, 0x2000, 0, "/none/true", 21);
	image = image_at(map, P, 22);
	process_fork(map, P, SHELL, 10);
	assert_int_equal(image_at(map, P, 22), image);
	assert_string_equal(path_at(map, P, 0x1000, 22, NULL), "/none/true");
	assert_int_equal(loadmap_process_at(map, P, 22)->from, 10);
	assert_int_equal(loadmap_process_at(map, P, 22)->to, UINT64_MAX);
}

/* /proc tells everything with one time, and samples from a moment before are charged to it too. */
static void process_told_at_one_time_was_there_before(void **state)
{
	struct loadmap *map = *state;
	struct loadmap_process *process;

	process_fork(map, P, SHELL, 1000);
	process_exec(map, P, "a", 1000);
	file_map(map, P, 0x1000, 0x2000, 0, "/none/a", 1000);
	process = loadmap_process_at(map, P, 900);
	assert_ptr_equal(process, loadmap_process_at(map, P, 1100));
	assert_string_equal(path_at(map, P, 0x1000, 900, NULL), "/none/a");
}

static void threads_have_rows_of_their_own(void **state)
{
	struct loadmap *map = *state;
	struct loadmap_process *process;
	uint32_t leader, old, new;

	process_exec(map, P, "a", 1);
	thread_fork(map, P, P + 10, 10);
	thread_exit(map, P, P + 10, 20);
	thread_fork(map, P, P + 10, 30); /* the same tid again */
	process = loadmap_process_at(map, P, 40);
	leader = loadmap_thread(map, process, P, 40).v;
	old = loadmap_thread(map, process, P + 10, 15).v;
	new = loadmap_thread(map, process, P + 10, 35).v;
	assert_true(leader && old && new);
	assert_int_not_equal(leader, old);
	assert_int_not_equal(old, new);
	assert_int_equal(loadmap_thread(map, process, P + 10, 36).v, new);
	assert_int_equal(loadmap_thread(map, process, P + 10, 22).v, old);
}

/*
 * Random maps and unmaps of 64 pages against an array that remembers the owner of each page at each
 * step.
 */
static void mappings_agree_with_a_model(void **state)
{
	enum { PAGES = 64, STEPS = 400, QUESTIONS = 60 };
	static uint8_t owner[STEPS + 1][PAGES]; /* 0: nothing; else file + 1 */
	static uint64_t offsets[STEPS + 1][PAGES];
	static const char *const files[] = { "/none/0", "/none/1", "/none/2", "/none/3" };
	struct loadmap *map = *state;
	uint64_t seed = 7;

	process_exec(map, P, "a", 1);
	for (int step = 1; step <= STEPS; step++) {
		uint64_t draw = seed = hash64(seed + 1), time = 10 * (uint64_t)step;
		uint64_t first = draw % PAGES, count = 1 + (draw >> 8) % (PAGES - first);
		uint64_t file = (draw >> 16) % 4, offset = (draw >> 20) % 8;
		bool unmap = (draw >> 32) % 3 == 0;

		memcpy(owner[step], owner[step - 1], sizeof(owner[0]));
		memcpy(offsets[step], offsets[step - 1], sizeof(offsets[0]));
		for (uint64_t i = 0; i < count; i++) {
			owner[step][first + i] = unmap ? 0 : (uint8_t)(file + 1);
			offsets[step][first + i] = offset + i;
		}
		if (unmap)
			range_unmap(map, P, first * PAGE, (first + count) * PAGE, time);
		else
			file_map(map, P, first * PAGE, (first + count) * PAGE, offset * PAGE,
				 files[file], time);
		for (int i = 0; i < QUESTIONS; i++) {
			uint64_t where = (seed = hash64(seed + 1)) % PAGES, found;
			uint64_t then = 1 + (seed >> 8) % (uint64_t)step;
			const char *path =
				path_at(map, P, where * PAGE + 5, then * 10 + seed % 10, &found);

			if (!owner[then][where]) {
				assert_string_equal(path, "[anon]");
				continue;
			}
			assert_string_equal(path, files[owner[then][where] - 1]);
			assert_int_equal(found, offsets[then][where] * PAGE + 5);
		}
	}
}

/* Nothing is kept of processes that ended long ago, nor of mappings. */
static void memory_is_given_back(void **state)
{
	enum { PROCESSES = 100000, WARM = 2000 };
	struct loadmap *map = *state;
	uint64_t time = 1, began = clock_monotonic();
	size_t base = 0;

	process_exec(map, SHELL, "sh", time);
	for (uint64_t i = 0; i < 6; i++)
		file_map(map, SHELL, (i + 1) << 20, ((i + 1) << 20) + PAGE, 0, "/none/sh", time);
	for (uint32_t i = 0; i < PROCESSES; i++) {
		uint32_t pid = P + 100 + i;

		time += 36 * NS_PER_MS;
		process_fork(map, pid, SHELL, time);
		process_exec(map, pid, "true", time + 1);
		for (uint64_t j = 0; j < 4; j++)
			file_map(map, pid, (j + 1) << 20, ((j + 1) << 20) + PAGE, 0, "/none/true",
				 time + 2 + j);
		file_map(map, SHELL, 0x7000000, 0x7001000, 0, i % 2 ? "/none/x" : "/none/y", time);
		thread_exit(map, pid, pid, time + 100);
		if (i == WARM)
			base = mallinfo2().uordblks;
	}
	print_message("%.1f us per process\n",
		      (double)(clock_monotonic() - began) / 1000 / PROCESSES);
	assert_true(mallinfo2().uordblks < base + (1 << 20));
	assert_true(loadmap_process_at(map, SHELL, time)->mapping_count < 2000);
}

/* Whoever is late with what a process did can still ask for it. */
static void held_process_outlives_its_end(void **state)
{
	struct loadmap *map = *state;
	struct loadmap_process *held;
	struct loadmap_mapping found;
	uint64_t late = 3 * LOADMAP_KEEP;

	process_exec(map, P, "true", 1);
	file_map(map, P, 0x1000, 0x2000, 0, "/none/true", 1);
	held = loadmap_process_at(map, P, 1);
	loadmap_hold(held);
	thread_exit(map, P, P, 5);
	process_exec(map, SHELL, "sh", late);
	process_exec(map, SHELL, "sh", late + 1);
	assert_ptr_equal(loadmap_process_at(map, P, 2), held);
	assert_true(loadmap_find(map, held, 0x1000, 2, &found));
	loadmap_release(held);
	process_exec(map, SHELL, "sh", late + 2);
	assert_string_equal(loadmap_thread_comm(map, loadmap_process_at(map, P, 2), P), "");
}

static void memory_file_path(char ret[64])
{
	snprintf(ret, 64, "/tmp/perf-%d.map", (int)getpid());
}

/* Our own pid, because a perf map is looked for below /proc/PID/root. */
static void code_without_a_file_is_named_by_a_perf_map(void **state)
{
	struct loadmap *map = *state;
	uint32_t pid = (uint32_t)getpid();
	struct event_identity identity = {
		.uid = getuid(), .gid = getgid(), .euid = geteuid(), .egid = getegid()
	};
	struct loadmap_module *module;
	struct module_id id;
	char path[64], text[8] = "";
	uint64_t address;
	int fd;

	memory_file_path(path);
	unlink(path);
	process_fork(map, pid, SHELL, 1);
	process_exec(map, pid, "a", 2);
	apply(map, (struct event){ .kind = EVENT_IDENTITY,
				   .pid = pid,
				   .tid = pid,
				   .time = 3,
				   .identity = identity });
	file_map(map, pid, 0x1000, 0x2000, 0, "//anon", 4);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "1000 10", 7), 7);
	close(fd);
	loadmap_resolve(map, loadmap_process_at(map, pid, 5), 0x1234, 5, &id, &address);
	module = loadmap_module_get(map, id);
	unlink(path);
	assert_int_equal(module->kind, MODULE_JIT);
	assert_string_equal(module->path, path);
	assert_int_equal(module->process.v, image_at(map, pid, 5));
	assert_int_equal(address, 0x1234);
	assert_int_equal(pread(module->fd, text, 7, 0), 7); /* although it was deleted */
	assert_string_equal(text, "1000 10");
	assert_string_equal(path_at(map, pid, 0x5000, 5, NULL), "[anon]"); /* no mapping, no JIT */
}

static void stranger_cannot_name_code(void **state)
{
	struct loadmap *map = *state;
	uint32_t pid = (uint32_t)getpid();
	char path[64];

	if (geteuid() != 0) {
		print_message("skipped: only root can give a file away\n");
		return;
	}
	memory_file_path(path);
	process_exec(map, pid, "a", 2);
	apply(map, (struct event){ .kind = EVENT_IDENTITY, .pid = pid, .tid = pid, .time = 3 });
	file_map(map, pid, 0x1000, 0x2000, 0, "[heap]", 4);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	assert_int_equal(chown(path, 12345, 12345), 0);
	assert_string_equal(path_at(map, pid, 0x1234, 5, NULL), "[anon]");
	unlink(path);
}

/*
 * The file is root's or our own, as a map may be; the name was made by whoever may write the
 * folder.
 */
static void second_name_is_no_perf_map(struct loadmap *map,
				       int (*name_make)(const char *from, const char *to))
{
	uint32_t pid = (uint32_t)getpid();
	char path[64], file[80];

	memory_file_path(path);
	snprintf(file, sizeof(file), "%s.file", path);
	process_exec(map, pid, "a", 2);
	apply(map, (struct event){ .kind = EVENT_IDENTITY,
				   .pid = pid,
				   .tid = pid,
				   .time = 3,
				   .identity = { .uid = getuid(), .euid = geteuid() } });
	file_map(map, pid, 0x1000, 0x2000, 0, "[heap]", 4);
	close(open(file, O_WRONLY | O_CREAT, 0600));
	assert_int_equal(name_make(file, path), 0);
	assert_string_equal(path_at(map, pid, 0x1234, 5, NULL), "[anon]");
	unlink(path);
	unlink(file);
}

static void link_is_no_perf_map(void **state)
{
	second_name_is_no_perf_map(*state, symlink);
}

static void hard_link_is_no_perf_map(void **state)
{
	second_name_is_no_perf_map(*state, link);
}

static void fixed_modules_are_made_once(void **state)
{
	struct loadmap *map = *state;
	struct module_id kernel = loadmap_kernel_module(map, "[kernel]");

	assert_int_equal(loadmap_kernel_module(map, "[kernel]").v, kernel.v);
	assert_int_not_equal(loadmap_kernel_module(map, "[ext4]").v, kernel.v);
	assert_int_equal(loadmap_module_get(map, kernel)->kind, MODULE_KERNEL);
	assert_int_equal(loadmap_mark_module(map).v, loadmap_mark_module(map).v);
	assert_string_equal(loadmap_module_get(map, loadmap_mark_module(map))->path, "[assay]");
	assert_null(loadmap_module_get(map, (struct module_id){ 1000 }));
}

/* The answer of a query as "a|b\nc|d". */
static char *query(const char *path, const char *sql)
{
	static char text[4096];
	sqlite3 *db = NULL;
	sqlite3_stmt *statement = NULL;
	size_t length = 0;

	text[0] = '\0';
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	while (sqlite3_step(statement) == SQLITE_ROW)
		for (int i = 0; i < sqlite3_column_count(statement); i++) {
			const char *value = (const char *)sqlite3_column_text(statement, i);

			length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s",
						   i	    ? "|"
						   : length ? "\n"
							    : "",
						   value ? value : "-");
		}
	sqlite3_finalize(statement);
	sqlite3_close(db);
	return text;
}

static void story_tell(struct loadmap *map)
{
	struct event_identity identity = {
		.uid = 7, .gid = 8, .euid = 9, .egid = 10, .cgroup_path = "/some.slice"
	};
	struct loadmap_process *process;

	process_exec(map, SHELL, "sh", 5);
	file_map(map, SHELL, 0x1000, 0x2000, 0, "/none/sh", 6);
	apply(map, (struct event){ .kind = EVENT_IDENTITY,
				   .pid = SHELL,
				   .tid = SHELL,
				   .time = 7,
				   .identity = identity });
	process_fork(map, P, SHELL, 10);
	process_exec(map, P, "prog", 20);
	file_map(map, P, 0x1000, 0x2000, 0x3000, "/none/prog", 21);
	thread_fork(map, P, P + 10, 22);
	process = loadmap_process_at(map, P, 25);
	loadmap_thread(map, process, P + 10, 25);
	thread_comm(map, P, P + 10, "worker", 26);
	range_unmap(map, P, 0x1000, 0x2000, 28);
	thread_exit(map, P, P + 10, 29);
	thread_exit(map, P, P, 30);
}

static void rows_tell_the_story(void **unused)
{
	char path[64];
	AUTO(store_destroy_auto) struct store *store = NULL;
	struct loadmap *map = NULL;

	snprintf(path, sizeof(path), "/tmp/loadmap_test.%d.db", (int)getpid());
	unlink(path);
	assert_int_equal(store_create(path, &store), 0);
	assert_int_equal(loadmap_create(store, NULL, &map), 0);
	story_tell(map);
	assert_int_equal(loadmap_process_at(map, Q, 40)->id.v, 3); /* never heard of */
	assert_int_equal(loadmap_finish(map), 0);
	loadmap_destroy(map);
	assert_int_equal(store_finish(store), 0);
	assert_string_equal(
		query(path,
		      "select p.id, p.pid - 0x40000000, p.ppid - 0x40000000, p.comm, p.exe, p.uid, "
		      "p.egid, p.cgroup, p.started, p.ended, q.comm from process p "
		      "left join process q on q.id = p.parent order by p.id"),
		"1|2|-1073741824|sh|/none/sh|7|10|/some.slice|5|0|-\n"
		"2|0|2|prog|/none/prog|7|10|/some.slice|20|30|sh\n"
		"3|1|-1073741824|[unknown]|-|-|-|-|40|0|-");
	assert_string_equal(query(path, "select process, tid - 0x40000000, comm, started, ended "
					"from thread"),
			    "2|10|worker|22|29");
	assert_string_equal(
		query(path, "select mapping.process, path, start, stop, offset, mapped, unmapped "
			    "from mapping join module on module.id = module"),
		"2|/none/prog|4096|8192|12288|21|28");
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define WITH_MAP(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
		WITH_MAP(exec_divides_time),
		WITH_MAP(mapping_over_a_mapping_leaves_its_ends),
		WITH_MAP(same_mapping_told_again_changes_nothing),
		WITH_MAP(unmapped_code_is_found_only_before),
		WITH_MAP(fork_keeps_the_parents_code_until_exec),
		WITH_MAP(reused_pid_is_another_process),
		WITH_MAP(process_ends_with_its_last_thread),
		WITH_MAP(changed_processes_are_told_once),
		WITH_MAP(fork_may_arrive_after_exec),
		WITH_MAP(process_told_at_one_time_was_there_before),
		WITH_MAP(threads_have_rows_of_their_own),
		WITH_MAP(mappings_agree_with_a_model),
		WITH_MAP(memory_is_given_back),
		WITH_MAP(held_process_outlives_its_end),
		WITH_MAP(code_without_a_file_is_named_by_a_perf_map),
		WITH_MAP(link_is_no_perf_map),
		WITH_MAP(hard_link_is_no_perf_map),
		WITH_MAP(stranger_cannot_name_code),
		WITH_MAP(fixed_modules_are_made_once),
		cmocka_unit_test(rows_tell_the_story),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

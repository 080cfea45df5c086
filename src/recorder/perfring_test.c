// SPDX-License-Identifier: BSD-2-Clause
// Serves: V16, S6.
/* The kernel's stream about a program that says itself what it did. argv: victim, library. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "image/loadmap.h"
#include "recorder/perfring.h"
#include "image/procfs.h"

enum { SAMPLE_STACK = 4096 };

static const char *victim, *library;
static bool permitted;

struct seen {
	ARRAY(struct event) events; /* strings are copies */
	uint64_t lost;
	uint64_t last; /* time within the drain */
	size_t samples, in_code, with_stack;
	struct loadmap *map; /* what the events are applied to, or NULL */
};

static void sample_note(struct seen *seen, const struct event *event)
{
	const struct event_sample *sample = &event->sample;
	struct loadmap_mapping unused;

	seen->samples++;
	seen->with_stack += sample->stack.address == sample->registers.sp &&
			    sample->stack.size >= 64;
	if (seen->map)
		seen->in_code += loadmap_find(
			seen->map, loadmap_process_at(seen->map, event->pid, event->time),
			sample->registers.ip, event->time, &unused);
}

static int note(void *ctx, const struct event *event)
{
	struct seen *seen = ctx;
	struct event copy = *event;

	assert_true(event->time >= seen->last);
	seen->last = event->time;
	if (event->kind == EVENT_LOST)
		seen->lost += event->lost;
	if (event->kind == EVENT_SAMPLE)
		sample_note(seen, event);
	if (event->kind == EVENT_MMAP)
		copy.mmap.path = mem_strdup(event->mmap.path);
	if (event->kind == EVENT_COMM || event->kind == EVENT_EXEC)
		copy.comm = mem_strdup(event->comm);
	if (event->kind != EVENT_SAMPLE)
		*array_push(&seen->events) = copy;
	return seen->map ? loadmap_apply(seen->map, event) : 0;
}

static void seen_deinit(struct seen *seen)
{
	array_each(&seen->events, event) {
		if (event->kind == EVENT_MMAP)
			free((char *)event->mmap.path);
		if (event->kind == EVENT_COMM || event->kind == EVENT_EXEC)
			free((char *)event->comm);
	}
	array_deinit(&seen->events);
	loadmap_destroy(seen->map);
}

static size_t count(const struct seen *seen, enum event_kind kind)
{
	size_t found = 0;

	array_each(&seen->events, event)
		found += event->kind == kind;
	return found;
}

static void drain(struct perfring *ring, struct seen *seen)
{
	seen->last = 0;
	assert_int_equal(perfring_drain(ring, note, seen), 0);
}

struct run {
	pid_t pid;
	int go, out; /* pipes: to let it exec, and its stdout */
};

static struct run run_start(const char *what, const char *argument)
{
	int go[2], out[2];
	struct run run;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(out), 0);
	run = (struct run){ .pid = fork(), .go = go[1], .out = out[0] };
	if (run.pid == 0) {
		char byte;

		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		dup2(out[1], STDOUT_FILENO);
		close(go[0]);
		close(out[0]);
		close(out[1]);
		execl(victim, victim, what, argument, NULL);
		_exit(1);
	}
	close(go[0]);
	close(out[1]);
	return run;
}

/* Lets it run to its end, draining whenever the rings ask for it. *ret_text: what it said. */
static void run_finish(struct run *run, struct perfring *ring, bool watch, struct seen *seen,
		       char *ret_text, size_t size)
{
	struct pollfd fds[] = { { .fd = run->out, .events = POLLIN },
				{ .fd = watch ? perfring_fd(ring) : -1, .events = POLLIN } };
	size_t length = 0;
	int status;

	assert_int_equal(write(run->go, "x", 1), 1);
	for (;;) {
		ssize_t got;

		assert_true(poll(fds, 2, -1) > 0);
		if (fds[1].revents)
			drain(ring, seen);
		if (!fds[0].revents)
			continue;
		got = read(run->out, ret_text + length, size - 1 - length);
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	ret_text[length] = '\0';
	assert_int_equal(waitpid(run->pid, &status, 0), run->pid);
	assert_int_equal(status, 0);
	assert_int_equal(perfring_disable(ring), 0);
	drain(ring, seen);
	close(run->go);
	close(run->out);
}

static bool skipped(void)
{
	if (!permitted)
		print_message("skipped: %s\n", err_text());
	return !permitted;
}

static struct perfring *ring_open(struct run *run, struct perfring_options options)
{
	struct perfring *ring = NULL;

	options.target.tids = &run->pid;
	options.target.tid_count = 1;
	options.target.enable_on_exec = true;
	if (perfring_open(&options, &ring))
		fail_msg("%s", err_text());
	return ring;
}

struct said {
	uint64_t time, address;
	int64_t number;
};

static struct said said(const char *text, const char *what)
{
	struct said found = {};
	const char *line = strstr(text, what);

	assert_non_null(line);
	assert_int_equal(sscanf(line + strlen(what), " %lu %lx %ld", &found.time, &found.address,
				&found.number),
			 3);
	return found;
}

static const struct event *mapping_of(const struct seen *seen, uint32_t pid, uint64_t address)
{
	array_each(&seen->events, event)
		if (event->kind == EVENT_MMAP && event->pid == pid &&
		    event->mmap.start <= address && address < event->mmap.end)
			return event;
	return NULL;
}

static void library_check(struct seen *seen, uint32_t pid, const char *text)
{
	/* As given to the linker in meson.build. */
	static const uint8_t build_id[] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef };
	struct said loaded = said(text, "library");
	const struct event *event = mapping_of(seen, pid, loaded.address);
	struct module_id module;
	uint64_t address;
	struct stat info;

	assert_non_null(event);
	assert_string_equal(event->mmap.path, library);
	assert_true(event->time <= loaded.time);
	assert_int_equal(stat(library, &info), 0);
	if (!event->mmap.build_id.size)
		assert_int_equal(event->mmap.inode, info.st_ino);
	loadmap_resolve(seen->map, loadmap_process_at(seen->map, pid, loaded.time), loaded.address,
			loaded.time, &module, &address);
	assert_string_equal(loadmap_module_get(seen->map, module)->path, library);
	assert_int_equal(address, loaded.number);
	assert_int_equal(loadmap_module_get(seen->map, module)->build_id.size, sizeof(build_id));
	assert_memory_equal(loadmap_module_get(seen->map, module)->build_id.bytes, build_id,
			    sizeof(build_id));
}

static void child_check(const struct seen *seen, uint32_t pid, uint32_t child)
{
	int forked = 0, executed = 0, exited = 0;

	array_each(&seen->events, event) {
		if (event->pid != child)
			continue;
		if (event->kind == EVENT_FORK && event->fork.ppid == pid)
			forked++;
		if (event->kind == EVENT_EXEC && strcmp(event->comm, "true") == 0)
			executed += forked == 1;
		if (event->kind == EVENT_EXIT)
			exited += executed == 1;
	}
	assert_int_equal(forked, 1);
	assert_int_equal(executed, 1);
	assert_int_equal(exited, 1);
}

static void thread_check(const struct seen *seen, uint32_t pid, uint32_t tid)
{
	int forked = 0, renamed = 0, exited = 0;

	array_each(&seen->events, event) {
		if (event->pid != pid || event->tid != tid)
			continue;
		forked += event->kind == EVENT_FORK && event->fork.ppid == pid;
		renamed += event->kind == EVENT_COMM && strcmp(event->comm, "renamed") == 0;
		exited += event->kind == EVENT_EXIT;
	}
	assert_int_equal(forked, 1);
	assert_int_equal(renamed, 1);
	assert_int_equal(exited, 1);
}

static void kernel_tells_what_the_program_did(void **state)
{
	struct run run;
	struct seen seen = {};
	struct said start, page;
	const struct event *event;
	struct perfring *ring;
	char text[4096];

	if (skipped())
		return;
	run = run_start("all", library);
	ring = ring_open(&run, (struct perfring_options){});
	assert_int_equal(loadmap_create(NULL, NULL, &seen.map), 0);
	assert_int_equal(procfs_process(run.pid, clock_monotonic(), note, &seen), 0);
	run_finish(&run, ring, true, &seen, text, sizeof(text));
	assert_int_equal(seen.lost, 0);
	start = said(text, "start");
	event = mapping_of(&seen, (uint32_t)run.pid, start.address);
	assert_non_null(event);
	assert_string_equal(event->mmap.path, victim);
	library_check(&seen, (uint32_t)run.pid, text);
	thread_check(&seen, (uint32_t)run.pid, (uint32_t)said(text, "thread").number);
	page = said(text, "page");
	event = mapping_of(&seen, (uint32_t)run.pid, page.address);
	assert_non_null(event);
	assert_string_equal(event->mmap.path, "//anon");
	child_check(&seen, (uint32_t)run.pid, (uint32_t)said(text, "child").number);
	assert_true(loadmap_process_at(seen.map, (uint32_t)run.pid, start.time)->to < UINT64_MAX);
	perfring_destroy(ring);
	seen_deinit(&seen);
}

/* Each thread is a FORK and an EXIT: far more than the rings hold at once, so that records wrap. */
static bool threads_seen(size_t pages, size_t threads)
{
	char number[16], text[64];
	struct seen seen = {};
	struct perfring *ring;
	struct run run;
	bool all;

	snprintf(number, sizeof(number), "%zu", threads);
	run = run_start("threads", number);
	ring = ring_open(&run, (struct perfring_options){ .pages = pages });
	run_finish(&run, ring, true, &seen, text, sizeof(text));
	all = count(&seen, EVENT_FORK) == threads && count(&seen, EVENT_EXIT) == threads + 1;
	assert_int_equal(all, seen.lost == 0);
	perfring_destroy(ring);
	seen_deinit(&seen);
	return all;
}

static void small_rings_wrap_without_loss(void **state)
{
	if (skipped())
		return;
	/* 10,000 records of 64 bytes and more; a busy machine may keep us from draining in time. */
	if (!threads_seen(8, 5000) && !threads_seen(16, 5000))
		assert_true(threads_seen(32, 5000));
}

static void full_rings_tell_what_was_lost(void **state)
{
	enum { THREADS = 5000 };
	struct seen seen = {};
	struct perfring *ring;
	struct run run;
	char text[64];
	size_t told;

	if (skipped())
		return;
	run = run_start("threads", "5000");
	ring = ring_open(&run, (struct perfring_options){ .pages = 1 });
	run_finish(&run, ring, false, &seen, text, sizeof(text));
	told = count(&seen, EVENT_FORK) + count(&seen, EVENT_EXIT);
	assert_true(told < THREADS);
	/* The ring was never read, so what did not fit is the rest, to the record. */
	assert_int_equal(told + seen.lost, 2 * THREADS + 1);
	perfring_destroy(ring);
	seen_deinit(&seen);
}

static void samples_have_registers_and_stack(void **state)
{
	struct run run;
	uint64_t periods[] = { 2 * NS_PER_MS, 2 * NS_PER_MS };
	struct seen seen = {};
	struct perfring *ring;
	char text[64];

	if (skipped())
		return;
	run = run_start("spin", "300");
	ring = ring_open(&run, (struct perfring_options){
				       .pages = 64,
				       .periods = periods,
				       .period_count = 2,
				       .exclude_kernel = true,
				       .stack_bytes = SAMPLE_STACK,
			       });
	assert_int_equal(loadmap_create(NULL, NULL, &seen.map), 0);
	assert_int_equal(procfs_process(run.pid, clock_monotonic(), note, &seen), 0);
	run_finish(&run, ring, true, &seen, text, sizeof(text));
	print_message("%zu samples of 300, lost %lu\n", seen.samples, (long)seen.lost);
	/*
	 * 300 ms of CPU time, one event per ms; half of that leaves room for a machine that steals
	 * time.
	 */
	assert_true(seen.samples + seen.lost >= 150);
	assert_true(seen.samples + seen.lost <= 400);
	assert_int_equal(seen.with_stack, seen.samples);
	assert_true(seen.in_code * 100 >= seen.samples * 99);
	perfring_destroy(ring);
	seen_deinit(&seen);
}

static void whole_system_includes_strangers(void **state)
{
	struct perfring_options options = { .target.system_wide = true };
	struct perfring *ring = NULL;
	struct seen seen = {};
	struct run run;
	char text[4096];

	if (skipped())
		return;
	if (perfring_open(&options, &ring) == -EACCES) {
		print_message("skipped: %s\n", err_text());
		return;
	}
	assert_int_equal(perfring_enable(ring), 0);
	run = run_start("all", library);
	run_finish(&run, ring, true, &seen, text, sizeof(text));
	child_check(&seen, (uint32_t)run.pid, (uint32_t)said(text, "child").number);
	seen_deinit(&seen);
	seen = (struct seen){};
	drain(ring, &seen);
	seen_deinit(&seen);
	seen = (struct seen){};
	run = run_start("threads", "10");
	run_finish(&run, ring, true, &seen, text, sizeof(text));
	assert_int_equal(seen.events.count, 0); /* disabled */
	perfring_destroy(ring);
	seen_deinit(&seen);
}

static int paranoia(void)
{
	FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	int level = -1;

	if (file && fscanf(file, "%d", &level) != 1)
		level = -1;
	if (file)
		fclose(file);
	return level;
}

/* In a child that gave up its rights. */
static void refusal_names_the_setting(void **state)
{
	struct perfring_options options = { .target.system_wide = true };
	struct perfring *ring = NULL;
	int status = 0;
	pid_t child;

	if (geteuid() != 0 || paranoia() < 1) {
		print_message("skipped: nothing would be refused\n");
		return;
	}
	child = fork();
	if (child == 0) {
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
			_exit(1);
		if (perfring_open(&options, &ring) != -EACCES)
			_exit(2);
		_exit(strstr(err_text(), "perf_event_paranoid") ? 0 : 3);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

static void wrong_options_are_refused(void **state)
{
	struct perfring_options odd = { .pages = 3 }, stack = { .stack_bytes = 12 };
	struct perfring_options cpu = { .target = { .cpus = (const int[]){ 100000 },
						    .cpu_count = 1 } };
	struct perfring_options gone = { .target = { .tids = (const pid_t[]){ 0x3ffffff },
						     .tid_count = 1 } };
	struct perfring *ring = NULL;

	if (skipped())
		return;
	assert_int_equal(perfring_open(&odd, &ring), -EINVAL);
	assert_int_equal(perfring_open(&stack, &ring), -EINVAL);
	assert_int_equal(perfring_open(&cpu, &ring), -ENODEV);
	assert_int_equal(perfring_open(&gone, &ring), -ESRCH);
	assert_null(ring);
}

static int setup(void **state)
{
	pid_t self = getpid();
	struct perfring_options options = { .target = { .tids = &self, .tid_count = 1 } };
	struct perfring *ring = NULL;

	signal(SIGPIPE, SIG_IGN);
	permitted = perfring_open(&options, &ring) == 0;
	perfring_destroy(ring);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_tells_what_the_program_did),
		cmocka_unit_test(small_rings_wrap_without_loss),
		cmocka_unit_test(full_rings_tell_what_was_lost),
		cmocka_unit_test(samples_have_registers_and_stack),
		cmocka_unit_test(whole_system_includes_strangers),
		cmocka_unit_test(refusal_names_the_setting),
		cmocka_unit_test(wrong_options_are_refused),
	};

	if (argc != 3)
		return 2;
	victim = realpath(argv[1], NULL); /* as the kernel names them */
	library = realpath(argv[2], NULL);
	return cmocka_run_group_tests(tests, setup, NULL);
}

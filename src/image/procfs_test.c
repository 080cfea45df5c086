// SPDX-License-Identifier: BSD-2-Clause
// Serves: V16.
/* /proc as events, against what live processes know of themselves. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "image/procfs.h"

enum { THREADS = 3, TIME = 1234 };

struct seen {
	ARRAY(struct event) events; /* strings are copies */
};

static int note(void *ctx, const struct event *event)
{
	struct seen *seen = ctx;
	struct event copy = *event;

	assert_int_equal(event->time, TIME);
	if (event->kind == EVENT_MMAP)
		copy.mmap.path = mem_strdup(event->mmap.path);
	if (event->kind == EVENT_COMM || event->kind == EVENT_EXEC)
		copy.comm = mem_strdup(event->comm);
	if (event->kind == EVENT_IDENTITY && event->identity.cgroup_path)
		copy.identity.cgroup_path = mem_strdup(event->identity.cgroup_path);
	*array_push(&seen->events) = copy;
	return 0;
}

static void seen_deinit(struct seen *seen)
{
	array_each(&seen->events, event) {
		if (event->kind == EVENT_MMAP)
			free((char *)event->mmap.path);
		if (event->kind == EVENT_COMM || event->kind == EVENT_EXEC)
			free((char *)event->comm);
		if (event->kind == EVENT_IDENTITY)
			free((char *)event->identity.cgroup_path);
	}
	array_deinit(&seen->events);
}

static const struct event *find(const struct seen *seen, enum event_kind kind, uint32_t tid)
{
	array_each(&seen->events, event)
		if (event->kind == kind && event->tid == tid)
			return event;
	return NULL;
}

static size_t count(const struct seen *seen, enum event_kind kind)
{
	size_t found = 0;

	array_each(&seen->events, event)
		found += event->kind == kind;
	return found;
}

static pid_t child_start(void (*run)(void))
{
	int pipe_fds[2];
	pid_t child;
	char ready;

	assert_int_equal(pipe(pipe_fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run();
		if (write(pipe_fds[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pipe_fds[1]);
	assert_int_equal(read(pipe_fds[0], &ready, 1), 1);
	close(pipe_fds[0]);
	return child;
}

static void child_stop(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/*
 * Every executable segment that the dynamic linker knows lies in one mapping of the right file and
 * offset.
 */
static int segment_check(struct dl_phdr_info *info, size_t size, void *ctx)
{
	const struct seen *seen = ctx;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + segment->p_vaddr;
		bool found = false;

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		array_each(&seen->events, event)
			found |= event->kind == EVENT_MMAP && event->mmap.start <= start &&
				 start < event->mmap.end &&
				 start - event->mmap.start + event->mmap.offset ==
					 segment->p_offset;
		if (!found)
			fail_msg("segment of %s at %lx was not told", info->dlpi_name, (long)start);
	}
	return 0;
}

static void own_mappings_are_what_the_linker_says(void **state)
{
	struct seen seen = {};
	char exe[4096] = "";
	struct stat info;

	assert_int_equal(procfs_process(getpid(), TIME, note, &seen), 0);
	dl_iterate_phdr(segment_check, &seen);
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_int_equal(stat(exe, &info), 0);
	array_each(&seen.events, event) {
		if (event->kind != EVENT_MMAP)
			continue;
		assert_string_equal(event->mmap.path, exe); /* the first is the program */
		assert_int_equal(event->mmap.inode, info.st_ino);
		assert_int_equal(makedev(event->mmap.major, event->mmap.minor), info.st_dev);
		break;
	}
	seen_deinit(&seen);
}

static void *anon_page;

static void with_memory(void)
{
}

static void anonymous_code_is_told_and_data_is_not(void **state)
{
	struct seen seen = {};
	size_t code = 0, data = 0;
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	anon_page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	child = child_start(with_memory);
	assert_int_equal(procfs_mappings(child, TIME, note, &seen), 0);
	child_stop(child);
	array_each(&seen.events, event) {
		code += event->mmap.start == (uintptr_t)anon_page &&
			strcmp(event->mmap.path, "//anon") == 0;
		data += event->mmap.start <= (uintptr_t)page && (uintptr_t)page < event->mmap.end;
	}
	assert_int_equal(code, 1);
	assert_int_equal(data, 0);
	munmap(page, 4096);
	munmap(anon_page, 4096);
	seen_deinit(&seen);
}

static pthread_barrier_t named;

static void *thread_run(void *ctx)
{
	prctl(PR_SET_NAME, ctx);
	pthread_barrier_wait(&named);
	for (;;)
		pause();
	return NULL;
}

static void with_threads(void)
{
	static char *const names[THREADS] = { "one", "two", "a name of 15 ch" };
	pthread_t thread;

	pthread_barrier_init(&named, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, thread_run, names[i]);
	prctl(PR_SET_NAME, "leader");
	pthread_barrier_wait(&named);
}

static void threads_are_told_with_their_names(void **state)
{
	struct seen seen = {};
	pid_t child = child_start(with_threads), *tids = NULL;
	size_t tid_count = 0, others = 0;

	assert_int_equal(procfs_threads(child, &tids, &tid_count), 0);
	assert_int_equal(tid_count, THREADS + 1);
	assert_int_equal(procfs_process(child, TIME, note, &seen), 0);
	child_stop(child);
	assert_int_equal(count(&seen, EVENT_FORK), THREADS + 1);
	assert_int_equal(count(&seen, EVENT_COMM), THREADS + 1);
	assert_int_equal(seen.events.items[0].kind, EVENT_FORK);
	assert_int_equal(seen.events.items[0].fork.ppid, getpid());
	assert_string_equal(find(&seen, EVENT_EXEC, (uint32_t)child)->comm, "leader");
	for (size_t i = 0; i < tid_count; i++) {
		const struct event *comm = find(&seen, EVENT_COMM, (uint32_t)tids[i]);

		assert_non_null(comm);
		assert_int_equal(comm->pid, child);
		others += strcmp(comm->comm, "one") == 0 || strcmp(comm->comm, "two") == 0 ||
			  strcmp(comm->comm, "a name of 15 ch") == 0;
	}
	assert_int_equal(others, THREADS);
	free(tids);
	seen_deinit(&seen);
}

static void with_ids(void)
{
	if (syscall(SYS_setresgid, 21, 22, 23) || syscall(SYS_setresuid, 11, 12, 13))
		_exit(1);
}

static void identity_is_told(void **state)
{
	struct seen seen = {};
	const struct event_identity *identity;
	pid_t child;

	if (geteuid() != 0) {
		print_message("skipped: only root can change its ids\n");
		return;
	}
	child = child_start(with_ids);
	assert_int_equal(procfs_identity(child, TIME, note, &seen), 0);
	child_stop(child);
	assert_int_equal(seen.events.count, 1);
	identity = &seen.events.items[0].identity;
	assert_int_equal(identity->ppid, getpid());
	assert_int_equal(identity->uid, 11);
	assert_int_equal(identity->euid, 12);
	assert_int_equal(identity->gid, 21);
	assert_int_equal(identity->egid, 22);
	seen_deinit(&seen);
}

static bool unified_mount(char ret[256])
{
	FILE *mounts = fopen("/proc/self/mounts", "re");
	char line[1024], type[64];
	bool found = false;

	while (!found && mounts && fgets(line, sizeof(line), mounts))
		found = sscanf(line, "%*s %255s %63s", ret, type) == 2 && !strcmp(type, "cgroup2");
	if (mounts)
		fclose(mounts);
	return found;
}

static char group_procs[512];

static void with_group(void)
{
	int fd = open(group_procs, O_WRONLY);

	if (fd < 0 || write(fd, "0", 1) != 1)
		_exit(1);
	close(fd);
}

static void cgroup_is_told_and_found_by_its_id(void **state)
{
	char mount[256], dir[320], name[64];
	struct seen seen = {};
	struct stat info;
	pid_t child;

	snprintf(name, sizeof(name), "/procfs_test.%d", (int)getpid());
	if (!unified_mount(mount) ||
	    (snprintf(dir, sizeof(dir), "%s%s", mount, name), mkdir(dir, 0755))) {
		print_message("skipped: no cgroup can be made here\n");
		return;
	}
	snprintf(group_procs, sizeof(group_procs), "%s/cgroup.procs", dir);
	assert_int_equal(stat(dir, &info), 0);
	child = child_start(with_group);
	assert_int_equal(procfs_identity(child, TIME, note, &seen), 0);
	assert_string_equal(seen.events.items[0].identity.cgroup_path, name);
	assert_string_equal(procfs_cgroup_path(info.st_ino), name);
	assert_string_equal(procfs_cgroup_path(1), "/");
	assert_null(procfs_cgroup_path(UINT64_MAX));
	child_stop(child);
	while (rmdir(dir) && errno == EBUSY)
		usleep(1000);
	seen_deinit(&seen);
}

static char strange_path[256];

static void with_strange_path(void)
{
	int fd = open(strange_path, O_RDONLY);

	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		_exit(1);
}

static void strange_path_comes_as_it_is(void **state)
{
	struct seen seen = {};
	char deleted[300];
	size_t found = 0;
	pid_t child;
	int fd;

	snprintf(strange_path, sizeof(strange_path), "/tmp/procfs_test %d\nx \\y", (int)getpid());
	fd = open(strange_path, O_RDWR | O_CREAT, 0755);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	close(fd);
	child = child_start(with_strange_path);
	assert_int_equal(procfs_mappings(child, TIME, note, &seen), 0);
	array_each(&seen.events, event)
		found += strcmp(event->mmap.path, strange_path) == 0;
	assert_int_equal(found, 1);
	seen_deinit(&seen);
	unlink(strange_path);
	snprintf(deleted, sizeof(deleted), "%s (deleted)", strange_path);
	assert_int_equal(procfs_mappings(child, TIME, note, &seen), 0);
	child_stop(child);
	array_each(&seen.events, event)
		found += strcmp(event->mmap.path, deleted) == 0;
	assert_int_equal(found, 2);
	seen_deinit(&seen);
}

static void gone_process_is_told_so(void **state)
{
	struct seen seen = {};
	pid_t child = fork(), *tids = NULL;
	size_t tid_count;

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	assert_int_equal(procfs_process(child, TIME, note, &seen), -ESRCH);
	assert_int_equal(procfs_identity(child, TIME, note, &seen), -ESRCH);
	assert_int_equal(procfs_threads(child, &tids, &tid_count), -ESRCH);
	assert_int_equal(seen.events.count, 0);
}

static void every_process_is_told(void **state)
{
	struct seen seen = {};
	pid_t child = child_start(with_threads);

	assert_int_equal(procfs_all(TIME, note, &seen), 0);
	child_stop(child);
	assert_non_null(find(&seen, EVENT_EXEC, 1));
	assert_non_null(find(&seen, EVENT_EXEC, (uint32_t)getpid()));
	assert_non_null(find(&seen, EVENT_EXEC, (uint32_t)child));
	seen_deinit(&seen);
}

static void pid_in_its_own_namespace(void **state)
{
	pid_t child;

	assert_int_equal(procfs_namespace_pid(getpid()), getpid());
	child = (pid_t)syscall(SYS_clone, 0x20000000 /* CLONE_NEWPID */ | SIGCHLD, NULL, NULL, NULL,
			       NULL);
	if (child < 0) {
		print_message("skipped: no pid namespace can be made here\n");
		return;
	}
	if (child == 0)
		for (;;)
			pause();
	assert_int_equal(procfs_namespace_pid(child), 1);
	child_stop(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_mappings_are_what_the_linker_says),
		cmocka_unit_test(anonymous_code_is_told_and_data_is_not),
		cmocka_unit_test(threads_are_told_with_their_names),
		cmocka_unit_test(identity_is_told),
		cmocka_unit_test(cgroup_is_told_and_found_by_its_id),
		cmocka_unit_test(strange_path_comes_as_it_is),
		cmocka_unit_test(gone_process_is_told_so),
		cmocka_unit_test(every_process_is_told),
		cmocka_unit_test(pid_in_its_own_namespace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: BSD-2-Clause
// Serves: V16.
/* The files behind real mappings: deleted, replaced, in another mount namespace, the vdso. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "image/loadmap.h"
#include "image/loadmap_file.h"
#include "image/procfs.h"

static char dir[64], program[128]; /* program: a copy of sleep, made anew for each test */

static void file_copy(const char *from, const char *to)
{
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	struct stat info;

	if (in < 0 || out < 0 || fstat(in, &info) ||
	    sendfile(out, in, NULL, (size_t)info.st_size) != info.st_size)
		abort();
	close(in);
	close(out);
}

static int setup(void **state)
{
	struct loadmap *map = NULL;

	snprintf(dir, sizeof(dir), "/tmp/loadmap_live.%d", (int)getpid());
	snprintf(program, sizeof(program), "%s/program", dir);
	if (mkdir(dir, 0755) || loadmap_create(NULL, NULL, &map))
		return -1;
	file_copy("/bin/sleep", program);
	*state = map;
	return 0;
}

static int teardown(void **state)
{
	loadmap_destroy(*state);
	unlink(program);
	rmdir(dir);
	return 0;
}

/* prepare: in the child before exec. Returns when the program runs. */
static pid_t program_start(void (*prepare)(void))
{
	int closed_by_exec[2];
	pid_t child;
	char byte;

	assert_int_equal(pipe2(closed_by_exec, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (prepare)
			prepare();
		execl(program, program, "1000", NULL);
		_exit(1);
	}
	close(closed_by_exec[1]);
	assert_int_equal(read(closed_by_exec[0], &byte, 1), 0);
	close(closed_by_exec[0]);
	return child;
}

static void program_stop(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static int apply(void *ctx, const struct event *event)
{
	return loadmap_apply(ctx, event);
}

/* Where the kernel says that the program of pid begins. */
static uint64_t auxv_get(pid_t pid, uint64_t type)
{
	Elf64_auxv_t entry;
	char path[64];
	uint64_t found = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fread(&entry, sizeof(entry), 1, file) == 1)
		if (entry.a_type == type)
			found = entry.a_un.a_val;
	fclose(file);
	return found;
}

static Elf64_Ehdr elf_header(int fd)
{
	Elf64_Ehdr header = {};

	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	return header;
}

static struct loadmap_module *module_at(struct loadmap *map, pid_t pid, uint64_t run_time,
					uint64_t *ret_address)
{
	struct loadmap_process *process = loadmap_process_at(map, (uint32_t)pid, clock_monotonic());
	struct module_id id;

	loadmap_resolve(map, process, run_time, clock_monotonic(), &id, ret_address);
	return loadmap_module_get(map, id);
}

/*
 * The module of the program is open, holds sleep's bytes, and its entry point is where the kernel
 * put it.
 */
static struct loadmap_module *program_check(struct loadmap *map, pid_t pid)
{
	AUTO(close_fd) int sleep_fd = open("/bin/sleep", O_RDONLY);
	struct loadmap_file original;
	struct loadmap_module *module;
	uint64_t address;

	module = module_at(map, pid, auxv_get(pid, AT_ENTRY), &address);
	assert_string_equal(module->path, program);
	assert_true(module->fd >= 0);
	assert_int_equal(address, elf_header(sleep_fd).e_entry);
	assert_int_equal(address, elf_header(module->fd).e_entry);
	assert_int_equal(loadmap_file_read(dup(sleep_fd), &original), 0);
	assert_true(original.build_id.size > 0);
	assert_true(build_id_equal(&original.build_id, &module->build_id));
	loadmap_file_deinit(&original);
	return module;
}

static void addresses_are_those_of_the_file(void **state)
{
	struct loadmap *map = *state;
	pid_t pid = program_start(NULL);
	struct loadmap_module *module;
	struct loadmap_mapping linker;
	struct loadmap_process *process;
	Elf64_Ehdr header;
	uint64_t base = auxv_get(pid, AT_BASE);

	process = loadmap_process_at(map, (uint32_t)pid,
				     clock_monotonic()); /* from /proc by itself */
	module = program_check(map, pid);
	assert_false(module->deleted);
	assert_int_equal(module->kind, MODULE_ELF);
	/* ld.so is linked at 0, so its bias is where the kernel put it. */
	header = elf_header(open("/lib64/ld-linux-x86-64.so.2", O_RDONLY | O_CLOEXEC));
	assert_true(loadmap_find(map, process, base + header.e_entry, clock_monotonic(), &linker));
	assert_int_equal(linker.bias, base);
	program_stop(pid);
}

static void deleted_program_is_still_read(void **state)
{
	struct loadmap *map = *state;
	pid_t pid = program_start(NULL);

	unlink(program);
	assert_int_equal(procfs_process(pid, clock_monotonic(), apply, map), 0);
	assert_true(program_check(map, pid)->deleted);
	program_stop(pid);
}

static void replaced_program_is_not_confused(void **state)
{
	struct loadmap *map = *state;
	pid_t pid = program_start(NULL);
	struct loadmap_module *module;
	char other[160];

	snprintf(other, sizeof(other), "%s.new", program);
	file_copy("/bin/true", other);
	assert_int_equal(rename(other, program), 0);
	assert_int_equal(procfs_process(pid, clock_monotonic(), apply, map), 0);
	module = program_check(map, pid);
	assert_true(module->deleted);
	program_stop(pid);
}

/* The process has gone and another file has its name: only the build-id can tell. */
static void wrong_bytes_are_not_taken(void **state)
{
	struct loadmap *map = *state;
	struct event event = {
		.kind = EVENT_MMAP,
		.pid = 0x40000000,
		.tid = 0x40000000,
		.time = 2,
	};
	struct loadmap_file sleep_file;
	struct loadmap_module *module;
	uint64_t address;
	struct module_id id;

	assert_int_equal(loadmap_file_read(open("/bin/sleep", O_RDONLY | O_CLOEXEC), &sleep_file),
			 0);
	event.mmap = (struct event_mmap){
		.start = 0x10000, .end = 0x20000, .path = program, .build_id = sleep_file.build_id
	};
	file_copy("/bin/true", program);
	loadmap_apply(map, &event);
	loadmap_resolve(map, loadmap_process_at(map, event.pid, 3), 0x10000, 3, &id, &address);
	module = loadmap_module_get(map, id);
	assert_string_equal(module->path, program);
	assert_int_equal(module->fd, -1);
	assert_true(module->deleted);
	event.mmap.start = 0x30000;
	event.mmap.end = 0x40000;
	file_copy("/bin/sleep", program);
	sleep(1); /* a failed opening is not repeated at once */
	loadmap_apply(map, &event);
	assert_true(module->fd >= 0);
	loadmap_file_deinit(&sleep_file);
}

/* A library rewritten in place has the same inode, but is another module. */
static void rewritten_file_is_another_module(void **state)
{
	struct loadmap *map = *state;
	struct event event = {
		.kind = EVENT_MMAP,
		.pid = 0x40000000,
		.tid = 0x40000000,
		.time = 2,
	};
	struct module_id before, after;
	struct stat info;
	uint64_t address;

	assert_int_equal(stat(program, &info), 0);
	event.mmap = (struct event_mmap){ .start = 0x10000,
					  .end = 0x20000,
					  .path = program,
					  .inode = info.st_ino,
					  .major = major(info.st_dev),
					  .minor = minor(info.st_dev) };
	loadmap_apply(map, &event);
	file_copy("/bin/true", program);
	event.time = 4;
	loadmap_apply(map, &event);
	loadmap_resolve(map, loadmap_process_at(map, event.pid, 3), 0x10000, 3, &before, &address);
	loadmap_resolve(map, loadmap_process_at(map, event.pid, 5), 0x10000, 5, &after, &address);
	assert_int_not_equal(before.v, after.v);
	assert_string_equal(loadmap_module_get(map, before)->path, program);
	assert_string_equal(loadmap_module_get(map, after)->path, program);
}

/* Hides the directory under a tmpfs that only the child sees. */
static void other_namespace(void)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", dir, "tmpfs", 0, NULL))
		_exit(1);
	file_copy("/bin/sleep", program);
}

static bool may_unshare(void)
{
	int status = 1;
	pid_t child = fork();

	if (child == 0) {
		other_namespace();
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status == 0;
}

static void file_in_another_mount_namespace_is_opened(void **state)
{
	struct loadmap *map = *state;
	struct event_mmap elsewhere = {};
	struct loadmap_module *module;
	struct loadmap_file file;
	pid_t pid;

	if (!may_unshare()) {
		print_message("skipped: no mount namespace can be made here\n");
		return;
	}
	pid = program_start(other_namespace);
	unlink(program); /* ours; the child's own stays */
	assert_int_equal(procfs_process(pid, clock_monotonic(), apply, map), 0);
	module = program_check(map, pid);
	assert_false(module->deleted);
	/* Without the mapping's own link, by the process's root directory. */
	elsewhere.build_id = module->build_id;
	assert_int_equal(loadmap_file_open((uint32_t)pid, &elsewhere, program, &file), 0);
	loadmap_file_deinit(&file);
	program_stop(pid);
	assert_int_equal(loadmap_file_open((uint32_t)pid, &elsewhere, program, &file), -ENOENT);
}

static void vdso_is_a_module(void **state)
{
	struct loadmap *map = *state;
	uint64_t start = getauxval(AT_SYSINFO_EHDR), address = 1;
	struct loadmap_module *module;
	char copy[4096];

	assert_int_equal(procfs_process(getpid(), clock_monotonic(), apply, map), 0);
	module = module_at(map, getpid(), start, &address);
	assert_int_equal(module->kind, MODULE_VDSO);
	assert_string_equal(module->path, "[vdso]");
	assert_int_equal(address, 0);
	assert_int_equal(pread(module->fd, copy, sizeof(copy), 0), sizeof(copy));
	assert_memory_equal(copy, (const void *)start, sizeof(copy));
}

/* Opening these could block, or do something. */
static void only_regular_files_are_opened(void **state)
{
	char fifo[160];

	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_true(loadmap_root_open(0, fifo) < 0);
	assert_true(loadmap_root_open((uint32_t)getpid(), fifo) < 0);
	assert_true(loadmap_root_open(0, "/dev/zero") < 0);
	assert_true(loadmap_root_open(0, "/tmp") < 0);
	unlink(fifo);
}

static void broken_headers_are_harmless(void **state)
{
	enum { ROUNDS = 2000, SEED = 3 };
	uint8_t bytes[512];
	uint64_t seed = SEED;
	int fd = memfd_create("broken", 0), original = open(program, O_RDONLY);

	print_message("seed %d\n", SEED);
	for (int round = 0; round < ROUNDS; round++) {
		struct loadmap_file file;

		assert_int_equal(pread(original, bytes, sizeof(bytes), 0), sizeof(bytes));
		for (int i = 0; i < 4; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			bytes[16 + (seed >> 33) % (sizeof(bytes) - 16)] = (uint8_t)(seed >> 56);
		}
		assert_int_equal(ftruncate(fd, (off_t)(seed >> 40) % 1024), 0);
		assert_int_equal(pwrite(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
		assert_int_equal(loadmap_file_read(dup(fd), &file), 0);
		loadmap_file_bias(&file, 0x10000, seed);
		loadmap_file_deinit(&file);
	}
	close(fd);
	close(original);
}

/* Files in which nothing was found are closed when there are too many; the others stay. */
static void open_files_are_bounded(void **state)
{
	enum { FILES = 200 };
	struct rlimit few = { .rlim_cur = 160, .rlim_max = 160 };
	struct loadmap *map = NULL;
	struct module_id first;
	uint64_t address;
	int status = 1;
	pid_t child = fork();

	if (child) {
		waitpid(child, &status, 0);
		assert_int_equal(status, 0);
		return;
	}
	setrlimit(RLIMIT_NOFILE, &few);
	loadmap_create(NULL, NULL, &map);
	for (int i = 0; i < FILES; i++) {
		char path[160];
		struct event event = {
			.kind = EVENT_MMAP, .pid = 0x40000000, .tid = 0x40000000, .time = 2
		};

		snprintf(path, sizeof(path), "%s/%d", dir, i);
		file_copy("/bin/true", path);
		event.mmap = (struct event_mmap){ .start = 0x10000, .end = 0x20000, .path = path };
		loadmap_apply(map, &event);
		unlink(path);
		if (i == 0)
			loadmap_resolve(map, loadmap_process_at(map, event.pid, 3), 0x10000, 3,
					&first, &address);
	}
	if (loadmap_module_get(map, first)->fd < 0)
		_exit(2);
	_exit(open("/dev/null", O_RDONLY) >= 0 ? 0 : 3);
}

int main(void)
{
#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH_FILES(addresses_are_those_of_the_file),
		WITH_FILES(deleted_program_is_still_read),
		WITH_FILES(replaced_program_is_not_confused),
		WITH_FILES(wrong_bytes_are_not_taken),
		WITH_FILES(rewritten_file_is_another_module),
		WITH_FILES(file_in_another_mount_namespace_is_opened),
		WITH_FILES(vdso_is_a_module),
		WITH_FILES(only_regular_files_are_opened),
		WITH_FILES(broken_headers_are_harmless),
		WITH_FILES(open_files_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

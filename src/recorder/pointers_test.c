// SPDX-License-Identifier: BSD-2-Clause
// Serves: V18.
/* Names of addresses, against what this process and its children know of themselves. */
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/clock.h"
#include "recorder/pointers.h"
#include "image/procfs.h"

enum { PAGE = 4096, SPACES = 256 };

static uint64_t data[4] = { 1 };
static uint64_t bss[PAGE]; /* reaches beyond the page that the file still fills */

struct fixture {
	char path[64];
	struct store *store;
	struct loadmap *loadmap;
	struct locations *locations;
	struct pointers *pointers;
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	snprintf(fixture->path, sizeof(fixture->path), "pointers-%d.db", (int)getpid());
	if (store_create(fixture->path, &fixture->store) ||
	    loadmap_create(fixture->store, NULL, &fixture->loadmap))
		return -1;
	locations_create(fixture->store, &fixture->locations);
	pointers_create(fixture->loadmap, fixture->locations, fixture->store, &fixture->pointers);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	pointers_destroy(fixture->pointers);
	locations_destroy(fixture->locations);
	loadmap_destroy(fixture->loadmap);
	store_abandon(fixture->store);
	free(fixture);
	return 0;
}

static struct loadmap_process *process_of(struct fixture *fixture, pid_t pid)
{
	return loadmap_process_at(fixture->loadmap, (uint32_t)pid, clock_monotonic());
}

struct name {
	char text[64]; /* "": none */
	char module[64]; /* "": none */
	uint64_t address; /* in the module */
};

/* What the profile says. */
static bool name_get(struct fixture *fixture, const void *place, struct name *ret)
{
	static const char query[] =
		"select coalesce(n.text, ''), coalesce(m.path, ''), coalesce(l.address, 0) from "
		"value_name n "
		"left join location l on l.id = n.location left join module m on m.id = l.module "
		"where n.value = ?";
	sqlite3_stmt *statement;
	sqlite3 *database;
	bool found;

	assert_int_equal(loadmap_flush(fixture->loadmap), 0);
	assert_int_equal(store_commit(fixture->store), 0);
	assert_int_equal(sqlite3_open(fixture->path, &database), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(database, query, -1, &statement, NULL), SQLITE_OK);
	sqlite3_bind_int64(statement, 1, (sqlite3_int64)(uintptr_t)place);
	found = sqlite3_step(statement) == SQLITE_ROW;
	if (found) {
		const char *path = (const char *)sqlite3_column_text(statement, 1);
		const char *name = strrchr(path, '/');

		snprintf(ret->text, sizeof(ret->text), "%s", sqlite3_column_text(statement, 0));
		snprintf(ret->module, sizeof(ret->module), "%s", name ? name + 1 : path);
		ret->address = (uint64_t)sqlite3_column_int64(statement, 2);
	}
	sqlite3_finalize(statement);
	sqlite3_close(database);
	return found;
}

static bool name(struct fixture *fixture, const struct loadmap_process *process, const void *place,
		 struct name *ret)
{
	pointers_name(fixture->pointers, process->id, (uintptr_t)place);
	assert_int_equal(pointers_flush(fixture->pointers), 0);
	return name_get(fixture, place, ret);
}

static void text_expect(struct fixture *fixture, const struct loadmap_process *process,
			const void *place, const char *text)
{
	struct name found = {};

	assert_true(name(fixture, process, place, &found));
	assert_string_equal(found.text, text);
	assert_string_equal(found.module, "");
}

static void none_expect(struct fixture *fixture, const struct loadmap_process *process,
			uint64_t value)
{
	struct name found;

	assert_false(name(fixture, process, (void *)(uintptr_t)value, &found));
}

/* Where the linker put what holds the address. */
struct module {
	const void *address;
	uint64_t base;
};

static int module_find(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct module *module = ctx;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD &&
		    (uintptr_t)module->address - info->dlpi_addr - segment->p_vaddr <
			    segment->p_memsz)
			module->base = info->dlpi_addr;
	}
	return 0;
}

static void module_expect(struct fixture *fixture, const struct loadmap_process *process,
			  const void *place, const char *module)
{
	struct module linked = { .address = place };
	struct name found = {};

	dl_iterate_phdr(module_find, &linked);
	assert_true(linked.base);
	assert_true(name(fixture, process, place, &found));
	assert_string_equal(found.text, "");
	assert_memory_equal(found.module, module, strlen(module));
	assert_int_equal(found.address, (uintptr_t)place - linked.base);
}

static void addresses_in_modules_are_locations(void **state)
{
	struct fixture *fixture = *state;
	struct loadmap_process *self = process_of(fixture, getpid());

	assert_false(pointers_look(fixture->pointers, self));
	module_expect(fixture, self, data + 1, "pointers_test");
	module_expect(fixture, self, bss, "pointers_test");
	module_expect(fixture, self, bss + PAGE - 1, "pointers_test");
	module_expect(fixture, self, (const void *)module_find, "pointers_test");
	module_expect(fixture, self, (const void *)stdout, "libc.so");
}

static void addresses_elsewhere_are_texts(void **state)
{
	struct fixture *fixture = *state;
	char path[] = "pointers-XXXXXX";
	int fd = mkstemp(path);
	char *anon = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *shared = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *file = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	char *heap = sbrk(PAGE);
	struct loadmap_process *self = process_of(fixture, getpid());

	unlink(path);
	close(fd);
	assert_false(pointers_look(fixture->pointers, self));
	text_expect(fixture, self, __builtin_frame_address(0), "[stack]");
	text_expect(fixture, self, heap + 8, "[heap]");
	text_expect(fixture, self, anon + PAGE - 1, "[anon]");
	text_expect(fixture, self, shared, "[anon]");
	text_expect(fixture, self, file + 5, path);
	munmap(anon, PAGE);
	munmap(shared, PAGE);
	munmap(file, PAGE);
}

static void numbers_have_no_names(void **state)
{
	struct fixture *fixture = *state;
	char *gone = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct loadmap_process *self = process_of(fixture, getpid());

	munmap(gone, PAGE);
	assert_false(pointers_look(fixture->pointers, self));
	none_expect(fixture, self, 0);
	none_expect(fixture, self, 42);
	none_expect(fixture, self, 0x3ff0000000000000);
	none_expect(fixture, self, UINT64_MAX);
	none_expect(fixture, self, 0xffffffffff600000); /* in each process's list */
	none_expect(fixture, self, (uintptr_t)gone);
	none_expect(fixture, &(struct loadmap_process){ .id = { 999 } }, (uintptr_t)data);
}

/* Maps a page that its parent has not and tells where; then waits. */
static pid_t child_start(char *const *program, char **ret_page)
{
	int fds[2];
	pid_t child;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (child == 0) {
		char *page = mmap(NULL, PAGE * 64, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (program)
			dup2(fds[1], STDOUT_FILENO);
		if (program)
			execv(program[0], program);
		if (write(fds[1], &page, sizeof(page)) != sizeof(page))
			_exit(1);
		for (;;)
			pause();
	}
	assert_true(read(fds[0], ret_page, sizeof(*ret_page)) > 0);
	close(fds[0]);
	close(fds[1]);
	return child;
}

static void child_stop(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void other_processes_of_the_program_help(void **state)
{
	struct fixture *fixture = *state;
	struct loadmap_process *self = process_of(fixture, getpid()), *other;
	char *page;
	pid_t child;

	pointers_look(fixture->pointers, self);
	child = child_start(NULL, &page);
	other = process_of(fixture, child);
	none_expect(fixture, self, (uintptr_t)page);
	assert_false(pointers_look(fixture->pointers, other));
	child_stop(child);
	assert_false(pointers_look(fixture->pointers, other)); /* what was known stays */
	assert_true(pointers_know(fixture->pointers, other->id));
	text_expect(fixture, self, page, "[anon]");
}

static uint64_t stack_of(pid_t pid)
{
	unsigned long start = 0;
	char path[64], line[512];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "[stack]"))
			sscanf(line, "%lx", &start);
	fclose(maps);
	return start;
}

static void processes_of_other_programs_do_not_help(void **state)
{
	struct fixture *fixture = *state;
	struct loadmap_process *self = process_of(fixture, getpid()), *other;
	char *const program[] = { "/bin/sh", "-c", "echo ready to wait; kill -STOP $$", NULL };
	char *words;
	uint64_t stack;
	pid_t child = child_start(program, &words);

	stack = stack_of(child);
	other = process_of(fixture, child);
	pointers_look(fixture->pointers, self);
	pointers_look(fixture->pointers, other);
	child_stop(child);
	none_expect(fixture, self, stack);
	text_expect(fixture, other, (void *)(uintptr_t)stack, "[stack]");
}

/* The same page is memory without a name here, and a file there. */
static void ambiguous_addresses_have_no_name(void **state)
{
	struct fixture *fixture = *state;
	struct loadmap_process *self = process_of(fixture, getpid()), *other;
	char *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *unused;
	char path[] = "pointers-XXXXXX";
	struct name found;
	int fd = mkstemp(path);
	pid_t child;

	unlink(path);
	pointers_look(fixture->pointers, self);
	assert_ptr_equal(mmap(page, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0), page);
	child = child_start(NULL, &unused);
	other = process_of(fixture, child);
	pointers_look(fixture->pointers, other);
	child_stop(child);
	munmap(page, PAGE);
	close(fd);
	pointers_name(fixture->pointers, self->id, (uintptr_t)page);
	pointers_name(fixture->pointers, other->id, (uintptr_t)page);
	pointers_name(fixture->pointers, self->id, (uintptr_t)data);
	pointers_name(fixture->pointers, other->id, (uintptr_t)data);
	assert_int_equal(pointers_flush(fixture->pointers), 0);
	assert_false(name_get(fixture, page, &found));
	assert_true(name_get(fixture, data, &found));
}

static void oldest_looks_are_forgotten(void **state)
{
	struct fixture *fixture = *state;
	uint64_t start = clock_monotonic();
	struct process_id ids[SPACES + 10];

	for (size_t i = 0; i < SPACES + 10; i++) {
		struct event event = { .kind = EVENT_EXEC,
				       .pid = (uint32_t)getpid(),
				       .tid = (uint32_t)getpid(),
				       .time = start + i,
				       .comm = "self" };
		struct loadmap_process *process;

		assert_int_equal(loadmap_apply(fixture->loadmap, &event), 0);
		process = loadmap_process_at(fixture->loadmap, event.pid, event.time);
		ids[i] = process->id;
		pointers_look(fixture->pointers, process);
	}
	assert_int_not_equal(ids[0].v, ids[1].v);
	for (size_t i = 0; i < SPACES + 10; i++)
		assert_int_equal(pointers_know(fixture->pointers, ids[i]), i >= 10);
}

static void kernel_functions_are_locations(void **state)
{
	struct fixture *fixture = *state;
	FILE *symbols = fopen("/proc/kallsyms", "re");
	unsigned long long address, found = 0;
	char line[512], symbol[256];
	struct name entry = {};

	assert_non_null(symbols);
	while (!found && fgets(line, sizeof(line), symbols))
		if (sscanf(line, "%llx %*c %255s", &address, symbol) == 2 &&
		    !strcmp(symbol, "schedule"))
			found = address;
	fclose(symbols);
	if (!found) {
		print_message("skipped: the kernel hides its addresses\n");
		return;
	}
	pointers_name_kernel(fixture->pointers, found + 1);
	pointers_name_kernel(fixture->pointers, 0xffff888000001000);
	pointers_name_kernel(fixture->pointers, 0xfffffffffffff000);
	assert_int_equal(pointers_flush(fixture->pointers), 0);
	assert_true(name_get(fixture, (void *)(uintptr_t)(found + 1), &entry));
	assert_string_equal(entry.module, "[kernel]");
	assert_int_equal(entry.address, found + 1);
	assert_false(name_get(fixture, (void *)0xffff888000001000, &entry));
	assert_false(name_get(fixture, (void *)0xfffffffffffff000, &entry));
}

static void paths_of_devices(void **state)
{
	static const char *const devices[] = {
		"/dev/mem",
		"/dev/mem (deleted)",
		"/dev/dri/card0",
		"/dev/nvidia0",
		"/dev/vfio/devices/vfio0",
		"/dev/uio0",
		"/dev/zeroed",
		"/sys/devices/pci0000:00/0000:00:02.0/resource0",
		"/jail/sys/devices/pci0000:00/0000:00:02.0/resource2_wc",
		"/proc/bus/pci/00/02.0",
		"anon_inode:[vfio-device]",
		"anon_inode:dmabuf",
		"anon_inode:i915.gem",
		"/dmabuf:",
	};
	static const char *const memory[] = {
		"",
		"[heap]",
		"[stack]",
		"[vvar]",
		"[anon:device]",
		"/usr/bin/devices",
		"/srv/dev/mem",
		"/dev/zero",
		"/dev/zero (deleted)",
		"/dev/null",
		"/dev/shm/sem.x",
		"/dev/hugepages/qemu",
		"/memfd:dev (deleted)",
		"/SYSV00000000 (deleted)",
		"/sys/fs/selinux/status",
		"/sys/kernel/btf/vmlinux",
		"anon_inode:[perf_event]",
		"anon_inode:[io_uring]",
		"anon_inode:bpf-map",
		"anon_inode:kvm-vcpu:0",
		"socket:[4711]",
	};

	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		if (!pointers_path_is_device(devices[i]))
			fail_msg("%s is a device", devices[i]);
	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
		if (pointers_path_is_device(memory[i]))
			fail_msg("%s is memory", memory[i]);
}

static void files_that_are_devices(void **state)
{
	assert_true(pointers_file_is_device(S_IFCHR | 0600, makedev(1, 1))); /* /dev/mem */
	assert_true(pointers_file_is_device(S_IFCHR | 0600, makedev(226, 0)));
	assert_false(pointers_file_is_device(S_IFCHR | 0666, makedev(1, 5))); /* /dev/zero */
	assert_false(pointers_file_is_device(S_IFREG | 0600, makedev(1, 1)));
	assert_false(pointers_file_is_device(S_IFBLK | 0600, makedev(8, 0)));
}

static void mapped_device_is_seen(void **state)
{
	struct fixture *fixture = *state;
	struct loadmap_process *self = process_of(fixture, getpid());
	char path[] = "/dev/pointers-XXXXXX";
	int fd = mkstemp(path);
	char *page;

	if (fd < 0 || ftruncate(fd, PAGE)) {
		print_message("skipped: /dev cannot be written\n");
		return;
	}
	assert_false(pointers_look(fixture->pointers, self));
	page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	unlink(path);
	close(fd);
	assert_ptr_not_equal(page, MAP_FAILED);
	assert_true(pointers_look(fixture->pointers, self));
	munmap(page, PAGE);
	assert_false(pointers_look(fixture->pointers, self));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(addresses_in_modules_are_locations),
		TEST(addresses_elsewhere_are_texts),
		TEST(numbers_have_no_names),
		TEST(other_processes_of_the_program_help),
		TEST(processes_of_other_programs_do_not_help),
		TEST(ambiguous_addresses_have_no_name),
		TEST(oldest_looks_are_forgotten),
		TEST(kernel_functions_are_locations),
		TEST(paths_of_devices),
		TEST(files_that_are_devices),
		TEST(mapped_device_is_seen),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

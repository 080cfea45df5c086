// SPDX-License-Identifier: BSD-2-Clause
/*
 * The hooks that gcc and clang call at each entry and exit with -finstrument-functions, preloaded
 * into such a program. Each thread builds its own tree of calls in memory that it shares with the
 * host.
 *
 * Rules of this world: a hook takes no lock, allocates nothing, and calls nothing of the program or
 * of libc but at a thread's first entry, where memory is mapped. A thread only writes its own slot.
 * Nothing here ends or stops the program: what does not work is not recorded. Only where events are
 * written it waits for the host to take them, as long as there is one.
 *
 * Time. A hook takes one time stamp. What it does after it, and what the next hook does before its
 * own, falls into the interval between the two; that is a constant, which is measured at the start
 * with empty calls, and which the host takes off each interval. Elapsed time keeps it. Time off a
 * processor is elapsed, but not the thread's own. Whether there was any shows in a page that the
 * kernel changes whenever the thread comes back (that of a perf event which counts nothing): only
 * then the thread's CPU clock is asked, which takes a system call.
 */
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hooks/entries.h"

SEEN void __cyg_profile_func_enter(void *routine, void *caller);
SEEN void __cyg_profile_func_exit(void *routine, void *caller);

static inline uint64_t stack_pointer(void)
{
	return (uint64_t)__builtin_dwarf_cfa();
}

void __cyg_profile_func_enter(void *routine, void *caller)
{
	struct hooks_thread *thread = hooks_self;

	if (__builtin_expect(!thread, 0)) {
		thread = hooks_thread_start(0);
		if (!thread)
			return;
	}
	if (!hooks_event_begin(thread))
		return;
	if (__builtin_expect(thread->events, 0))
		hooks_event_write(thread, CALL_MAJOR_COMPILED, CALL_MINOR_ENTRY, (uint64_t)routine,
				  stack_pointer(), NULL, 0);
	call_tree_enter(&thread->tree, (uint64_t)routine, stack_pointer());
	hooks_event_end(thread);
}

void __cyg_profile_func_exit(void *routine, void *caller)
{
	struct hooks_thread *thread = hooks_self;

	if (!thread || !hooks_event_begin(thread))
		return;
	if (__builtin_expect(thread->events, 0))
		hooks_event_write(thread, CALL_MAJOR_COMPILED, CALL_MINOR_EXIT, (uint64_t)routine,
				  stack_pointer(), NULL, 0);
	call_tree_leave(&thread->tree, (uint64_t)routine, stack_pointer());
	hooks_event_end(thread);
}

/* Tasks: what assay/client.h calls. */

static struct call_tasks *tasks_of(const struct hooks_thread *thread)
{
	return (struct call_tasks *)((char *)thread->slot + hooks_area->tasks_at);
}

static void task_begin(const char *name)
{
	struct hooks_thread *thread = hooks_self ? hooks_self : hooks_thread_start(0);
	uint64_t routine;

	/* Events do not tell tasks: there, they are part of the thread. */
	if (!thread || thread->events || !hooks_event_begin(thread))
		return;
	routine = call_tasks_add(tasks_of(thread), name);
	if (routine)
		call_tree_enter(&thread->tree, routine, stack_pointer() - 1);
	hooks_event_end(thread);
}

static void task_end(void)
{
	struct hooks_thread *thread = hooks_self;

	if (!thread || thread->events || !hooks_event_begin(thread))
		return;
	call_tree_task_end(&thread->tree);
	hooks_event_end(thread);
}

struct client {
	void (*volatile task_begin)(const char *name);
	void (*volatile task_end)(void);
};

/* The words of the note are offsets relative to its last word. */
static void notes_look(const char *at, const char *end)
{
	enum { NAME = 6 };

	while (end - at >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const void *)at;
		const char *name = at + sizeof(*note);
		const char *value = name + ((note->n_namesz + 3) & ~3u);

		if (note->n_namesz == NAME && note->n_descsz == 4 && note->n_type == 1 &&
		    !memcmp(name, "Assay", NAME)) {
			struct client *client = (void *)(value + *(const int32_t *)value);

			client->task_begin = task_begin;
			client->task_end = task_end;
		}
		at = value + ((note->n_descsz + 3) & ~3u);
	}
}

static int client_tell(struct dl_phdr_info *info, size_t size, void *context)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		const char *at = (const char *)(info->dlpi_addr + header->p_vaddr);

		if (header->p_type == PT_NOTE && header->p_align <= 4)
			notes_look(at, at + header->p_memsz);
	}
	return 0;
}

/* Modules. */

enum { PAGE = 4096 };

static bool module_known(uint32_t pid, uint64_t start)
{
	uint32_t count = __atomic_load_n(&hooks_area->module_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count && i < CALL_MODULES_MAX; i++)
		if (hooks_area->modules[i].pid == pid && hooks_area->modules[i].start == start)
			return true;
	return false;
}

/*
 * A library may have been opened by a path that is relative to a folder that is no longer the
 * working one. The kernel knows all of it.
 */
static bool mapped_path(uint64_t start, char *path, size_t size)
{
	char line[PATH_MAX + 128];
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		const char *slash = strchr(line, '/');
		size_t length = slash ? strcspn(slash, "\n") : 0;

		if (!length || length >= size || strtoull(line, NULL, 16) != start)
			continue;
		memcpy(path, slash, length);
		path[length] = 0;
		found = true;
	}
	if (maps)
		fclose(maps);
	return found;
}

void hooks_module_path(const char *name, uint64_t start, char *path, size_t size)
{
	ssize_t length;

	start -= start % PAGE;
	if (*name && (*name == '/' || !strchr(name, '/') || !mapped_path(start, path, size)))
		memcpy(path, name, strnlen(name, size - 1));
	if (*name)
		return;
	length = readlink("/proc/self/exe", path, size - 1);
	path[length > 0 ? length : 0] = 0;
}

static int module_put(struct dl_phdr_info *info, size_t size, void *context)
{
	uint64_t start = UINT64_MAX;
	uint64_t end = 0;
	uint32_t pid = (uint32_t)getpid();
	uint32_t number;
	struct call_module *module;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type != PT_LOAD)
			continue;
		if (info->dlpi_addr + header->p_vaddr < start)
			start = info->dlpi_addr + header->p_vaddr;
		if (info->dlpi_addr + header->p_vaddr + header->p_memsz > end)
			end = info->dlpi_addr + header->p_vaddr + header->p_memsz;
	}
	if (!end || module_known(pid, start))
		return 0;
	number = __atomic_fetch_add(&hooks_area->module_count, 1, __ATOMIC_ACQ_REL);
	if (number >= CALL_MODULES_MAX)
		return 0;
	module = &hooks_area->modules[number];
	module->pid = pid;
	module->start = start;
	module->end = end;
	module->bias = info->dlpi_addr;
	hooks_module_path(info->dlpi_name, start, module->path, sizeof(module->path));
	__atomic_store_n(&module->ready, 1, __ATOMIC_RELEASE);
	return 0;
}

void hooks_modules_tell(void)
{
	dl_iterate_phdr(module_put, NULL);
}

/* Processes. */

/* After a fork, the child begins with its parent's path, without the parent's amounts and calls. */
static void in_child(void)
{
	struct hooks_thread *before = hooks_self;
	struct hooks_thread *thread;

	if (!hooks_area)
		return;
	hooks_self = NULL;
	hooks_phase = PHASE_NEW;
	hooks_entries_forked();
	thread = hooks_thread_start((uint32_t)getppid());
	dl_iterate_phdr(module_put, NULL);
	if (!thread || !before)
		return;
	for (struct call_frame *frame = before->tree.frames + 1; frame <= before->tree.top;
	     frame++) {
		uint64_t routine = call_tree_node(&before->tree, frame->node)->routine;

		if (thread->events)
			hooks_event_write(thread, CALL_MAJOR_COMPILED, CALL_MINOR_INSIDE, routine,
					  frame->sp, NULL, 0);
		call_tree_enter(&thread->tree, routine, frame->sp);
		call_tree_current(&thread->tree)->calls = 0;
	}
	if (!thread->timed)
		thread->tree.head->total = 0;
}

/*
 * The overhead is the median of many measurements, not the least, because it stands for the usual
 * state of branch predictors and caches.
 */
static int compare_ticks(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a;
	uint64_t right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

uint64_t hooks_median(uint64_t *ticks, size_t count)
{
	qsort(ticks, count, sizeof(*ticks), compare_ticks);
	return ticks[count / 2];
}

enum { CALIBRATION = 1001, CALIBRATION_CALLS = 16 };

static uint64_t calibrate(void)
{
	static uint64_t ticks[CALIBRATION];

	for (int i = 0; i < CALIBRATION; i++) {
		uint64_t begin = __rdtsc();

		for (int call = 0; call < CALIBRATION_CALLS; call++) {
			__cyg_profile_func_enter(calibrate, NULL);
			__cyg_profile_func_exit(calibrate, NULL);
		}
		ticks[i] = (__rdtsc() - begin) / (2 * CALIBRATION_CALLS);
	}
	return hooks_median(ticks, CALIBRATION);
}

/* Measured in the thread's own tree, which then begins again. */
static void measure_overhead(void)
{
	struct hooks_thread *thread = hooks_thread_start(0);
	bool events;

	if (!thread)
		return;
	events = thread->events;
	thread->events = false; /* these calls are no events of the program */
	if (thread->timed)
		thread->slot->overhead = hooks_area->overhead = calibrate();
	if (thread->timed)
		hooks_area->entries_overhead = hooks_entries_calibrate();
	hooks_tree_reset(thread);
	thread->events = events;
	thread->last = __rdtsc();
}

__attribute__((constructor)) static void hooks_start(void)
{
	if (!hooks_area_open(getenv(CALL_AREA_VARIABLE)))
		return;
	pthread_atfork(NULL, NULL, in_child);
	hooks_entries_start();
	hooks_patches_look();
	measure_overhead();
	dl_iterate_phdr(client_tell, NULL);
}

__attribute__((destructor)) static void hooks_end(void)
{
	if (!hooks_area)
		return;
	hooks_patches_count();
	hooks_modules_tell(); /* what was loaded since */
	hooks_self_end();
}

// SPDX-License-Identifier: BSD-2-Clause
#include "calls/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <x86intrin.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "calls/event_file.h"
#include "calls/forest.h"
#include "calls/ticks.h"

extern const char hooks_embedded[];
extern const char hooks_embedded_end[];

struct call_recording {
	int area_fd;
	int library_fd;
	int names_fd;
	struct call_area *area;
	size_t bytes;
	struct call_area limits; /* what was asked for; the shared copy may be overwritten */
	char *preload_before; /* the variable as the user has it, or NULL */
	uint64_t start_ticks;
	uint64_t start_ns;
	uint64_t bad;
	struct call_module module; /* the one that was asked for last */
	ARRAY(struct call_module) read; /* modules of events, in the place of those of the memory */
	ARRAY(uint64_t) read_programs; /* the programs of these modules */
	struct call_results ended;
	struct call_event_file *events; /* NULL: none are written */
	uint32_t *told; /* by slot: number of the thread whose START is in the file */
	uint32_t modules_told;
	uint64_t dropped;
	struct strbuf names;
};

enum { EVENT_BYTES = 1 << 20 };

static int make_library(struct call_recording *recording)
{
	size_t size = (size_t)(hooks_embedded_end - hooks_embedded);
	size_t done = 0;

	recording->library_fd = memfd_create("assay-hooks", 0);
	while (recording->library_fd >= 0 && done < size) {
		ssize_t written = write(recording->library_fd, hooks_embedded + done, size - done);

		if (written <= 0)
			break;
		done += (size_t)written;
	}
	return done == size ? 0 : err_set(-errno, "cannot make the hooks: %s", strerror(errno));
}

/* Writes the names of routines that are not methods. */
static int make_names(struct call_recording *recording)
{
	AUTO(free_ptr) char *first = mem_printf("%x 1 [garbage collection]\n", CALL_JAVA_GC);
	size_t size = strlen(first);

	recording->names_fd = memfd_create("assay-names", 0);
	if (recording->names_fd < 0 || write(recording->names_fd, first, size) != (ssize_t)size)
		return err_set(-errno, "cannot make memory for names: %s", strerror(errno));
	snprintf(recording->limits.names, sizeof(recording->limits.names), "/proc/%d/fd/%d",
		 getpid(), recording->names_fd);
	return 0;
}

/* The file's size is sealed: no process that has it can truncate it while we have it mapped. */
static int make_area(struct call_recording *recording)
{
	const struct call_area *limits = &recording->limits;

	recording->bytes = CALL_AREA_SLOTS + limits->slot_count * limits->slot_bytes;
	recording->area_fd = memfd_create("assay-calls", MFD_ALLOW_SEALING);
	if (recording->area_fd < 0 || ftruncate(recording->area_fd, (off_t)recording->bytes) ||
	    fcntl(recording->area_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return err_set(-errno, "cannot make shared memory for trees of calls: %s",
			       strerror(errno));
	recording->area = mmap(NULL, recording->bytes, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_NORESERVE, recording->area_fd, 0);
	if (recording->area == MAP_FAILED) {
		recording->area = NULL;
		return err_set(-errno, "cannot map shared memory for trees of calls: %s",
			       strerror(errno));
	}
	memcpy(recording->area, limits, offsetof(struct call_area, modules));
	return 0;
}

/*
 * Programs need the rate; measuring for a hundredth of a second gives it to about ten parts in a
 * million.
 */
static uint64_t ticks_per_ms(struct call_recording *recording)
{
	uint64_t ticks;
	uint64_t ns;

	call_clocks_read(&recording->start_ticks, &recording->start_ns);
	usleep(10000);
	call_clocks_read(&ticks, &ns);
	return (uint64_t)((unsigned __int128)(ticks - recording->start_ticks) * NS_PER_MS /
			  (ns - recording->start_ns));
}

static uint64_t tasks_place(const struct call_recording_options *options)
{
	uint64_t nodes =
		(uint64_t)call_node_size(options->java ? CALL_JAVA_METRICS : options->timed) *
		(options->node_limit + options->node_limit / 4);

	return (CALL_SLOT_NODES + nodes + 4095) / 4096 * 4096;
}

static uint64_t slot_size(const struct call_recording_options *options)
{
	return tasks_place(options) + (sizeof(struct call_tasks) + 4095) / 4096 * 4096 +
	       (options->events ? EVENT_BYTES : 0);
}

/* --- A file of events: written ---------------------------------------------------------------- */

static int events_open(struct call_recording *recording, const char *path)
{
	const struct call_area *limits = &recording->limits;
	const struct call_trace_head head = { .magic = CALL_TRACE_MAGIC,
					      .version = CALL_TRACE_VERSION,
					      .metrics = (uint16_t)limits->timed,
					      .kinds = { CALL_METRIC_TIME },
					      .rule = CALL_STACK_BOUND,
					      .node_limit = limits->node_limit,
					      .depth_limit = limits->depth_limit,
					      .prune_permille = limits->prune_permille };

	recording->told = mem_zalloc(limits->slot_count * sizeof(*recording->told));
	return call_event_file_create(path, &head, &recording->events);
}

static void modules_write(struct call_recording *recording)
{
	const struct call_module *module;

	while ((module = call_recording_module_at(recording, recording->modules_told))) {
		const struct call_event_code code = { .pid = module->pid,
						      .start = module->start,
						      .end = module->end,
						      .bias = module->bias,
						      .path = module->path };

		call_event_file_code(recording->events, &code);
		recording->modules_told++;
	}
}

static void start_write(struct call_recording *recording, uint32_t number,
			const struct call_slot *slot)
{
	struct call_event event = { .major = CALL_MAJOR_THREAD,
				    .minor = CALL_MINOR_PROCESS,
				    .thread = slot->number,
				    .routine = slot->pid,
				    .sp = slot->parent };

	if (recording->told[number] == slot->number)
		return;
	recording->told[number] = slot->number;
	call_event_file_put(recording->events, &event, NULL, NULL, 0);
	event.minor = CALL_MINOR_START;
	event.routine = slot->tid;
	event.sp = slot->started;
	call_event_file_put(recording->events, &event, NULL, slot->name,
			    strnlen(slot->name, sizeof(slot->name)));
}

/*
 * Writes the contents of a ring to the file, in two pieces if it wraps. The program's positions are
 * checked.
 */
static void ring_drain(struct call_recording *recording, uint32_t number, struct call_slot *slot)
{
	const char *ring = (char *)slot + recording->limits.slot_bytes - EVENT_BYTES;
	uint64_t written = __atomic_load_n(&slot->written, __ATOMIC_ACQUIRE);
	uint64_t taken = slot->taken, size = written - taken;
	uint64_t place = taken & (EVENT_BYTES - 1), first;

	if (!recording->events || !slot->events || size > EVENT_BYTES)
		return;
	start_write(recording, number, slot);
	first = size < EVENT_BYTES - place ? size : EVENT_BYTES - place;
	call_event_file_bytes(recording->events, ring + place, first);
	call_event_file_bytes(recording->events, ring, size - first);
	__atomic_store_n(&slot->taken, written, __ATOMIC_RELEASE);
}

/* How ticks become nanoseconds is the same as for the tree that was taken. */
static void scale_write(struct call_recording *recording, const struct call_slot *slot, double tick)
{
	struct call_event event = { .major = CALL_MAJOR_THREAD,
				    .minor = CALL_MINOR_SCALE,
				    .thread = slot->number,
				    .sp = slot->overhead };

	if (!recording->events)
		return;
	memcpy(&event.routine, &tick, sizeof(tick));
	call_event_file_put(recording->events, &event, NULL, NULL, 0);
}

int call_recording_events_error(const struct call_recording *recording)
{
	return recording->events ? call_event_file_error(recording->events) : 0;
}

bool call_recording_timed(const struct call_recording *recording)
{
	return recording->limits.timed;
}

uint64_t call_recording_dropped(const struct call_recording *recording)
{
	return recording->dropped;
}

const char *call_recording_names(const struct call_recording *recording)
{
	return recording->names.length ? recording->names.text : NULL;
}

/* --- A file of events: read ------------------------------------------------------------------- */

static void module_add(struct call_recording *recording, const struct call_load *load)
{
	struct call_module *module = array_push(&recording->read);

	*array_push(&recording->read_programs) = load->program;
	*module = (struct call_module){ .pid = load->pid,
					.ready = 1,
					.start = load->start,
					.end = load->end,
					.bias = load->bias };
	memcpy(module->path, load->path, strnlen(load->path, sizeof(module->path) - 1));
}

/* What is read is copied, because the caller frees it. */
static void tasks_copy(const struct call_thread *thread, struct call_task_names *ret)
{
	ret->count = (uint32_t)thread->tasks.count;
	if (!ret->count)
		return;
	ret->items = mem_zalloc(ret->count * sizeof(*ret->items));
	for (uint32_t i = 0; i < ret->count; i++)
		snprintf(ret->items[i], sizeof(*ret->items), "%s", thread->tasks.items[i]);
}

/* Threads of which no process is told are each a process of their own. */
static int thread_add(struct call_recording *recording, const struct call_forest *forest,
		      struct call_thread *thread)
{
	uint32_t tid = thread->tid && thread->tid <= INT32_MAX ? (uint32_t)thread->tid
							       : thread->number;
	struct call_result result = { .pid = thread->pid ? thread->pid : tid,
				      .tid = tid,
				      .parent = thread->parent,
				      .ended = thread->ended,
				      .tick = thread->tick,
				      .untimed = forest->trace.untimed,
				      .program = thread->program,
				      .kinds = forest->trace.metrics };
	int err;

	memcpy(result.metric_kinds, forest->trace.kinds, sizeof(result.metric_kinds));
	if (thread->name)
		snprintf(result.name, sizeof(result.name), "%s", thread->name);
	err = call_snapshot_take(&result.snapshot, &thread->head, thread->tree.nodes,
				 thread->head.count);
	if (err)
		return err;
	call_snapshot_settle(&result.snapshot,
			     call_snapshot_overhead(&result.snapshot, thread->overhead));
	tasks_copy(thread, &result.tasks);
	*array_push(&recording->ended) = result;
	return 0;
}

static void names_add(struct call_recording *recording, const struct call_forest *forest)
{
	map_each(&forest->names, slot)
		strbuf_printf(&recording->names, "%lx 1 %s\n", slot->key,
			      strtab_get(&forest->strings, (uint32_t)slot->value));
}

static int forest_take(struct call_recording *recording, const struct call_forest *forest)
{
	int err = 0;

	recording->limits.timed = 0;
	for (uint32_t i = 0; i < forest->trace.metrics; i++)
		recording->limits.timed |= forest->trace.kinds[i] == CALL_METRIC_TIME &&
					   !forest->trace.untimed;
	recording->dropped = forest->refused;
	array_each(&forest->loads, load)
		module_add(recording, load);
	array_each(&forest->threads, thread)
		err = err ? err : thread_add(recording, forest, *thread);
	names_add(recording, forest);
	return err;
}

static int events_map(const char *path, const void **ret, size_t *ret_size)
{
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat info;
	void *bytes;

	if (fd < 0 || fstat(fd, &info))
		return err_set(-errno, "cannot read events from %s: %s", path, strerror(errno));
	if (!S_ISREG(info.st_mode) || !info.st_size)
		return err_set(-EINVAL, "%s holds no events: it is %s", path,
			       S_ISREG(info.st_mode) ? "empty" : "no regular file");
	bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return err_set(-errno, "cannot map %s: %s", path, strerror(errno));
	*ret = bytes;
	*ret_size = (size_t)info.st_size;
	return 0;
}

int call_recording_read(const char *path, const struct call_recording_options *options,
			struct call_recording **ret)
{
	struct call_recording *recording = mem_zalloc(sizeof(*recording));
	struct call_forest_options how = { .node_limit = options->node_limit,
					   .depth_limit = options->depth_limit,
					   .thread_limit = 1 << 20,
					   .prune_permille = options->prune_permille };
	struct call_forest forest;
	const void *bytes = NULL;
	size_t size = 0;
	int err = events_map(path, &bytes, &size);

	recording->area_fd = recording->library_fd = -1;
	recording->bytes = sizeof(struct call_area);
	recording->area = mmap(NULL, recording->bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (recording->area == MAP_FAILED) {
		recording->area = NULL;
		err = err ? err : err_set(-ENOMEM, "there is no memory for events");
	}
	if (!err) {
		err = call_forest_read(&forest, bytes, size, &how);
		if (!err) {
			err = forest_take(recording, &forest);
			call_forest_deinit(&forest);
		} else {
			err = err_wrap(err, "%s", path);
		}
	}
	if (bytes)
		munmap((void *)bytes, size);
	if (err)
		call_recording_destroy(recording);
	else
		*ret = recording;
	return err;
}

/* --- Shared memory ---------------------------------------------------------------------------- */

int call_recording_create(const struct call_recording_options *options, struct call_recording **ret)
{
	struct call_recording *recording = mem_zalloc(sizeof(*recording));
	const char *preload = getenv("LD_PRELOAD");
	int err;

	recording->area_fd = recording->library_fd = recording->names_fd = -1;
	recording->preload_before = preload ? mem_strdup(preload) : NULL;
	recording->limits = (struct call_area){ .magic = CALL_AREA_MAGIC,
						.version = CALL_AREA_VERSION,
						.slot_count = options->thread_limit,
						.timed = options->timed,
						.host_pid = (uint32_t)getpid(),
						.java_metrics = options->java,
						.entries = options->entries,
						.java_routines = CALL_JAVA_FIRST - 1,
						.ticks_per_ms = ticks_per_ms(recording),
						.slot_bytes = slot_size(options),
						.tasks_at = tasks_place(options),
						.node_limit = options->node_limit,
						.depth_limit = options->depth_limit,
						.prune_permille = options->prune_permille };
	err = make_library(recording);
	if (options->events) {
		recording->limits.event_bytes = EVENT_BYTES;
		err = err ? err : events_open(recording, options->events);
	}
	err = err ? err : make_names(recording);
	err = err ? err : make_area(recording);
	if (err) {
		call_recording_destroy(recording);
		return err;
	}
	*ret = recording;
	return 0;
}

/* --- Another one's ---------------------------------------------------------------------------- */

/* Every process that has mapped the memory may have written anything there. */
static bool limits_fit(const struct call_area *limits, uint64_t size)
{
	return limits->magic == CALL_AREA_MAGIC && limits->version == CALL_AREA_VERSION &&
	       limits->timed <= 1 && limits->java_metrics <= 1 && limits->slot_count &&
	       limits->tasks_at >= CALL_SLOT_NODES && limits->tasks_at <= UINT32_MAX &&
	       limits->slot_bytes >= limits->tasks_at + sizeof(struct call_tasks) &&
	       !(limits->slot_bytes % 4096) && !(limits->tasks_at % 4096) &&
	       size > CALL_AREA_SLOTS &&
	       (size - CALL_AREA_SLOTS) / limits->slot_bytes >= limits->slot_count;
}

/*
 * Opens the file of names, which must be a file in memory (memfd): the path comes from a program
 * and could name any file.
 */
static int names_open(const char *path)
{
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd >= 0 && fcntl(fd, F_GET_SEALS) >= 0 ? take_fd(fd) : -1;
}

static int area_open(struct call_recording *recording, int fd)
{
	struct call_area *limits = &recording->limits;
	struct stat info;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &info) ||
	    pread(fd, limits, sizeof(*limits), 0) != sizeof(*limits) ||
	    !limits_fit(limits, (uint64_t)info.st_size))
		return err_set(-EINVAL, "memory of another version of assay, or of none");
	recording->bytes = (size_t)info.st_size;
	recording->area =
		mmap(NULL, recording->bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (recording->area == MAP_FAILED) {
		recording->area = NULL;
		return err_set(-errno, "cannot map memory of trees of calls: %s", strerror(errno));
	}
	limits->names[sizeof(limits->names) - 1] = 0;
	recording->names_fd = names_open(limits->names);
	return 0;
}

int call_recording_open(int fd, struct call_recording **ret)
{
	AUTO(call_recording_destroy_auto)
	struct call_recording *recording = mem_zalloc(sizeof(*recording));
	int err;

	recording->area_fd = recording->library_fd = recording->names_fd = -1;
	err = area_open(recording, fd);
	if (err)
		return err;
	ticks_per_ms(recording);
	*ret = take_ptr(recording);
	return 0;
}

uint32_t call_recording_host(const struct call_recording *recording)
{
	return recording->limits.host_pid;
}

void call_recording_destroy(struct call_recording *recording)
{
	if (!recording)
		return;
	if (recording->area)
		munmap(recording->area, recording->bytes);
	close_fd(&recording->area_fd);
	close_fd(&recording->library_fd);
	close_fd(&recording->names_fd);
	call_results_deinit(&recording->ended);
	call_event_file_destroy(recording->events);
	free(recording->told);
	array_deinit(&recording->read);
	array_deinit(&recording->read_programs);
	strbuf_deinit(&recording->names);
	free(recording->preload_before);
	free(recording);
}

static int variable_set(const char *name, const char *value)
{
	int err = value ? setenv(name, value, 1) : unsetenv(name);

	return err ? err_set(-errno, "cannot set %s: %s", name, strerror(errno)) : 0;
}

char *call_recording_area_path(const struct call_recording *recording)
{
	return mem_printf("/proc/%d/fd/%d", getpid(), recording->area_fd);
}

char *call_recording_agent_path(const struct call_recording *recording)
{
	return mem_printf("/proc/%d/fd/%d", getpid(), recording->library_fd);
}

int call_recording_environment(struct call_recording *recording, bool on)
{
	AUTO(free_ptr) char *area = call_recording_area_path(recording);
	AUTO(free_ptr) char *library = call_recording_agent_path(recording);
	AUTO(free_ptr)
	char *preload = mem_printf("%s%s%s", library, recording->preload_before ? ":" : "",
				   recording->preload_before ? recording->preload_before : "");
	int err = variable_set(CALL_AREA_VARIABLE, on ? area : NULL);

	if (!err && recording->limits.java_metrics)
		err = variable_set(CALL_JAVA_VARIABLE, on ? library : NULL);
	return err ? err : variable_set("LD_PRELOAD", on ? preload : recording->preload_before);
}

static struct call_slot *slot_at(const struct call_recording *recording, uint32_t number)
{
	return (struct call_slot *)((char *)recording->area + CALL_AREA_SLOTS +
				    number * recording->limits.slot_bytes);
}

static void tasks_take(const struct call_recording *recording, const struct call_slot *slot,
		       struct call_result *result)
{
	const struct call_tasks *tasks =
		(const void *)((const char *)slot + recording->limits.tasks_at);
	uint32_t count = __atomic_load_n(&tasks->count, __ATOMIC_ACQUIRE);

	call_task_names_copy(tasks, count, &result->tasks);
}

/* How many metrics a tree has: those of Java, or time. The program may write anything there. */
static bool metrics_fit(const struct call_recording *recording, uint32_t clock, uint32_t metrics)
{
	return clock == CALL_CLOCK_NS
		       ? recording->limits.java_metrics && metrics == CALL_JAVA_METRICS
		       : metrics == recording->limits.timed;
}

static bool take(struct call_recording *recording, const struct call_slot *slot,
		 struct call_results *results)
{
	uint32_t clock = slot->clock;
	struct call_result result = { .pid = slot->pid,
				      .tid = slot->tid,
				      .parent = slot->parent,
				      .started = slot->started,
				      .ended = slot->ended != 0 };
	uint64_t overhead = slot->overhead < UINT32_MAX ? slot->overhead : 0;
	struct call_tree_head head = slot->head;
	uint32_t room;

	result.java = clock == CALL_CLOCK_NS;
	result.untimed = !recording->limits.timed;
	result.lasted = (slot->ended   ? slot->ended
			 : result.java ? clock_monotonic()
				       : __rdtsc()) -
			slot->started;
	memcpy(result.name, slot->name, sizeof(slot->name));
	if (!metrics_fit(recording, clock, head.metrics))
		return false;
	room = (uint32_t)((recording->limits.tasks_at - CALL_SLOT_NODES) /
			  call_node_size(head.metrics));
	if (call_snapshot_take(&result.snapshot, &slot->head, (const char *)slot + CALL_SLOT_NODES,
			       room))
		return false;
	if (result.snapshot.head.metrics != head.metrics) {
		call_snapshot_deinit(&result.snapshot);
		return false;
	}
	tasks_take(recording, slot, &result);
	result.tick = result.java ? 1 : call_recording_tick(recording);
	call_snapshot_settle(&result.snapshot, call_snapshot_overhead(&result.snapshot, overhead));
	*array_push(results) = result;
	return true;
}

void call_recording_poll(struct call_recording *recording)
{
	if (recording->events)
		modules_write(recording);
	for (uint32_t i = 0; i < recording->limits.slot_count; i++) {
		struct call_slot *slot = slot_at(recording, i);

		uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

		if (state == CALL_SLOT_LIVE || state == CALL_SLOT_ENDED)
			ring_drain(recording, i, slot);
		if (state != CALL_SLOT_ENDED)
			continue;
		recording->dropped += slot->dropped;
		if (!take(recording, slot, &recording->ended))
			recording->bad++;
		else
			scale_write(recording, slot,
				    recording->ended.items[recording->ended.count - 1].tick);
		__atomic_store_n(&slot->state, CALL_SLOT_FREE, __ATOMIC_RELEASE);
	}
}

struct call_results *call_recording_ended(struct call_recording *recording)
{
	return &recording->ended;
}

void call_recording_running(struct call_recording *recording, struct call_results *ret)
{
	for (uint32_t i = 0; i < recording->limits.slot_count; i++) {
		struct call_slot *slot = slot_at(recording, i);

		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != CALL_SLOT_LIVE)
			continue;
		if (!take(recording, slot, ret))
			recording->bad++;
	}
}

void call_recording_finish(struct call_recording *recording, struct call_results *ret)
{
	for (uint32_t i = 0; i < recording->limits.slot_count; i++) {
		struct call_slot *slot = slot_at(recording, i);

		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != CALL_SLOT_LIVE)
			continue;
		ring_drain(recording, i, slot);
		if (!take(recording, slot, ret))
			recording->bad++;
		else
			scale_write(recording, slot, ret->items[ret->count - 1].tick);
	}
	if (!recording->events)
		return;
	modules_write(recording);
	call_event_file_flush(recording->events);
}

double call_recording_tick(const struct call_recording *recording)
{
	uint64_t ticks;
	uint64_t ns;

	call_clocks_read(&ticks, &ns);
	return (double)(ns - recording->start_ns) / (double)(ticks - recording->start_ticks);
}

uint64_t call_recording_overhead(const struct call_recording *recording)
{
	return recording->area->overhead;
}

uint64_t call_recording_java_overhead(const struct call_recording *recording)
{
	return recording->area->java_overhead;
}

uint64_t call_recording_no_exits(const struct call_recording *recording)
{
	return recording->area->no_exits;
}

uint64_t call_recording_unpatched(const struct call_recording *recording)
{
	return recording->area->unpatched;
}

uint64_t call_recording_wall_only(const struct call_recording *recording)
{
	return recording->area->wall_only;
}

uint64_t call_recording_refused(const struct call_recording *recording)
{
	return recording->area->refused;
}

uint64_t call_recording_interrupted(const struct call_recording *recording)
{
	return recording->area->interrupted;
}

uint64_t call_recording_java(const struct call_recording *recording, enum call_java_count what)
{
	return recording->area->java[what];
}

int call_recording_java_names(const struct call_recording *recording)
{
	return recording->names_fd;
}

bool call_recording_has_java(void)
{
	return CALL_RECORDING_JAVA;
}

uint64_t call_recording_bad(const struct call_recording *recording)
{
	return recording->bad;
}

const struct call_module *call_recording_module_at(struct call_recording *recording,
						   uint32_t number)
{
	uint32_t count = __atomic_load_n(&recording->area->module_count, __ATOMIC_ACQUIRE);
	struct call_module *module = &recording->area->modules[number];

	if (recording->read.count)
		return number < recording->read.count ? &recording->read.items[number] : NULL;
	if (number >= count || number >= CALL_MODULES_MAX ||
	    !__atomic_load_n(&module->ready, __ATOMIC_ACQUIRE))
		return NULL;
	recording->module = *module; /* the program may change it at any time */
	recording->module.path[sizeof(module->path) - 1] = 0;
	return &recording->module;
}

uint64_t call_recording_module_program(const struct call_recording *recording, uint32_t number)
{
	return number < recording->read_programs.count ? recording->read_programs.items[number] : 0;
}

bool call_recording_module(const struct call_recording *recording, uint32_t pid, uint64_t address,
			   const char **ret_path, uint64_t *ret)
{
	uint32_t shared = __atomic_load_n(&recording->area->module_count, __ATOMIC_ACQUIRE);
	bool read = recording->read.count;
	uint64_t count = read			     ? recording->read.count
			 : shared < CALL_MODULES_MAX ? shared
						     : CALL_MODULES_MAX;

	for (uint64_t i = 0; i < count; i++) {
		struct call_module *module = read ? &recording->read.items[i]
						  : &recording->area->modules[i];

		if (!__atomic_load_n(&module->ready, __ATOMIC_ACQUIRE) || module->pid != pid ||
		    address < module->start || address >= module->end)
			continue;
		module->path[sizeof(module->path) - 1] = 0;
		*ret_path = module->path;
		*ret = address - module->bias;
		return true;
	}
	return false;
}

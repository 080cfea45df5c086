// SPDX-License-Identifier: BSD-2-Clause
/*
 * The kernel's perf rings: opening, sharing, draining in order of time.
 *
 * Theory of operation. Each CPU has one ring. It belongs to an owner: a dummy event on our own
 * thread that never fires, so that the ring lives on when every watched thread has gone. All other
 * events of that CPU (a dummy per watched thread that carries mmap, comm and task records, and the
 * cpu-clock events when samples are wanted) redirect their output into it.
 *
 * Rings are ordered only by themselves: a fork may be recorded on one CPU and the child's exec on
 * another. A drain notes the time, copies what all rings hold, and hands over what was recorded up
 * to that time, sorted. Whatever was recorded later, while the rings were being copied, waits for
 * the next drain: something earlier than it may lie in a ring that was copied before.
 *
 * Invariants:
 * 1. Every record in pending is complete, and its place there is a multiple of 8.
 * 2. Within a drain, events are handed over by time, those of equal time in the order of their
 *    rings.
 * 3. A record that was written before perfring_drain() was called is handed over by that call.
 * 4. What the kernel or we could not read becomes a LOST event, never silence. The kernel tells a
 *    loss with the next record that fits; what it never came to tell is read from the events' own
 *    counters (Linux 6.0) by the first drain after perfring_disable().
 */
#include "recorder/perfring.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "recorder/perfrecord.h"

enum {
	PAGES_DEFAULT = 64,
	PAGES_MIN = 8,
	STACK_BYTES_MAX = 65528, /* exclusive */
	EPOLL_BATCH = 16,
};

struct ring {
	int cpu;
	bool sampled; /* one of the CPUs asked for; processes are tracked on all of them */
	int fd; /* the owner's */
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	size_t size; /* of data; a power of two */
};

struct entry {
	uint64_t time;
	size_t offset; /* in pending */
	size_t order; /* breaks ties */
	uint32_t size;
};

struct perfring {
	struct ring *rings;
	size_t ring_count;
	ARRAY(int) fds; /* events that write to the rings */
	ARRAY(int) samplers; /* those of the fds that sample */
	struct perfring_options options; /* target lists are not kept */
	ARRAY(uint64_t) periods;
	uint32_t event_type; /* of samples; perf's, as is config */
	uint64_t event_config;
	bool build_ids; /* the kernel can put build-ids into mmap records */
	bool counters; /* the kernel counts losses per event */
	bool enabled, disabled; /* as last asked for; neither before the first time */
	int epoll;
	ARRAY(uint8_t) pending;
	ARRAY(struct entry) entries;
	uint64_t unreadable; /* records that made no sense since the last drain */
	uint64_t lost; /* told by LOST records, or by us from the counters */
};

static int paranoia(void)
{
	AUTO(close_file) FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	int level = 2;

	if (file && fscanf(file, "%d", &level) != 1)
		level = 2;
	return level;
}

static int open_failed(const struct perfring *ring, int code)
{
	bool wide = ring->options.target.system_wide;

	switch (code) {
	case EACCES:
	case EPERM:
		return err_set(-EACCES,
			       "the kernel refuses to watch %s (kernel.perf_event_paranoid is %d); "
			       "run as root, grant CAP_PERFMON, or set it to %d with sysctl",
			       wide ? "all processes" : "this process", paranoia(), wide ? 0 : 2);
	case EMFILE:
	case ENFILE:
		return err_set(-code, "perf events: too many open files; raise ulimit -n");
	case ENOSYS:
		return err_set(-code,
			       "this kernel has no perf events; use one with CONFIG_PERF_EVENTS");
	default:
		return err_set(-code, "perf_event_open: %s", strerror(code));
	}
}

static struct perf_event_attr attr_base(const struct perfring *ring)
{
	return (struct perf_event_attr){
		.size = sizeof(struct perf_event_attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERFRECORD_TYPE_TRACKING,
		.disabled = 1,
		.exclude_kernel = 1, /* a dummy counts nothing: what an ordinary user may ask for */
		.exclude_hv = 1,
		.sample_id_all = 1,
		.read_format = ring->counters ? PERF_FORMAT_LOST : 0,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(ring->options.pages * 4096 / 2),
	};
}

static struct perf_event_attr attr_tracking(const struct perfring *ring)
{
	struct perf_event_attr attr = attr_base(ring);

	attr.inherit = !ring->options.target.system_wide;
	attr.enable_on_exec = ring->options.target.enable_on_exec;
	attr.mmap = 1;
	attr.mmap2 = 1;
	attr.build_id = ring->build_ids;
	attr.comm = 1;
	attr.comm_exec = 1;
	attr.task = 1;
	return attr;
}

static struct perf_event_attr attr_sampling(const struct perfring *ring, uint64_t period)
{
	struct perf_event_attr attr = attr_base(ring);

	attr.type = ring->event_type;
	attr.config = ring->event_config;
	attr.sample_period = period;
	attr.freq = ring->options.adapted;
	attr.sample_type = PERFRECORD_TYPE_SAMPLE;
	attr.sample_regs_user = PERFRECORD_REGISTERS;
	attr.sample_stack_user = ring->options.stack_bytes;
	attr.exclude_kernel = ring->options.exclude_kernel;
	attr.exclude_callchain_kernel = ring->options.exclude_kernel;
	attr.exclude_callchain_user = 1; /* the recorder walks what is copied */
	attr.exclude_idle = 1;
	attr.inherit = !ring->options.target.system_wide;
	attr.enable_on_exec = ring->options.target.enable_on_exec;
	return attr;
}

static int event_open(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static bool kernel_takes(struct perf_event_attr attr)
{
	AUTO(close_fd) int fd = event_open(&attr, 0, -1);

	return fd >= 0;
}

/* Build-ids in mmap records came with Linux 5.12, counters of losses with 6.0. */
static void kernel_probe(struct perfring *ring)
{
	struct perf_event_attr build_ids = attr_tracking(ring), counters = build_ids;

	build_ids.build_id = 1;
	counters.read_format = PERF_FORMAT_LOST;
	ring->build_ids = kernel_takes(build_ids);
	ring->counters = kernel_takes(counters);
}

/* Opens one event that writes to the CPU's ring. */
static int event_add(struct perfring *ring, const struct ring *cpu, struct perf_event_attr *attr,
		     pid_t tid)
{
	AUTO(close_fd) int fd = event_open(attr, tid, cpu->cpu);

	if (fd == -ESRCH)
		return -ESRCH;
	if (fd < 0)
		return open_failed(ring, -fd);
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, cpu->fd))
		return err_set(-errno, "perf events of CPU %d: cannot share its ring: %s", cpu->cpu,
			       strerror(errno));
	if (ring->enabled && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		return err_set(-errno, "perf events of CPU %d: cannot enable: %s", cpu->cpu,
			       strerror(errno));
	*array_push(&ring->fds) = take_fd(fd);
	return 0;
}

/* All events of a thread on a CPU; tid -1: of every thread there. */
static int events_add(struct perfring *ring, const struct ring *cpu, pid_t tid)
{
	struct perf_event_attr attr = attr_tracking(ring);
	int err = event_add(ring, cpu, &attr, tid);

	array_each(&ring->periods, period) {
		if (err || !cpu->sampled)
			break;
		attr = attr_sampling(ring, *period);
		err = event_add(ring, cpu, &attr, tid);
		if (!err)
			*array_push(&ring->samplers) = ring->fds.items[ring->fds.count - 1];
	}
	return err;
}

int perfring_add_thread(struct perfring *ring, pid_t tid)
{
	for (size_t i = 0; i < ring->ring_count; i++) {
		int err = events_add(ring, &ring->rings[i], tid);

		if (err == -ESRCH)
			return err_set(-ESRCH, "thread %d has gone", (int)tid);
		if (err)
			return err;
	}
	return 0;
}

/* Returns 0 or a negative errno, without a message. */
static int ring_map(struct perfring *ring, struct ring *cpu)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory;

	cpu->size = ring->options.pages * page;
	memory = mmap(NULL, cpu->size + page, PROT_READ | PROT_WRITE, MAP_SHARED, cpu->fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	cpu->page = memory;
	cpu->data = (const uint8_t *)memory + page;
	return 0;
}

static int ring_try(struct perfring *ring, struct ring *cpu, int *ret_mapped)
{
	struct perf_event_attr attr = attr_base(ring);
	/*
	 * Edge: an event on a thread that has gone is "hung up" for ever, and must not keep us
	 * awake.
	 */
	struct epoll_event wanted = { .events = EPOLLIN | EPOLLET, .data.ptr = cpu };
	int fd = event_open(&attr, 0, cpu->cpu);

	if (fd < 0)
		return open_failed(ring, -fd);
	cpu->fd = fd;
	if (epoll_ctl(ring->epoll, EPOLL_CTL_ADD, fd, &wanted))
		return err_set(-errno, "perf ring of CPU %d: epoll: %s", cpu->cpu, strerror(errno));
	*ret_mapped = ring_map(ring, cpu);
	return 0;
}

/*
 * Ordinary users may lock only so much: a smaller ring is better than none. Its event is opened
 * anew, because the kernel keeps how full a ring has to be to wake us with the event.
 */
static int ring_open(struct perfring *ring, struct ring *cpu)
{
	int mapped = 0, err;

	while (!(err = ring_try(ring, cpu, &mapped)) && mapped == -EPERM &&
	       ring->options.pages > PAGES_MIN) {
		close(take_fd(cpu->fd));
		ring->options.pages /= 2;
	}
	if (!err && mapped)
		err = err_set(mapped,
			      "perf ring of CPU %d, %zu pages: %s; raise "
			      "kernel.perf_event_mlock_kb or ask for less",
			      cpu->cpu, ring->options.pages, strerror(-mapped));
	return err;
}

static void ring_close(struct ring *cpu)
{
	if (cpu->page)
		munmap(cpu->page, cpu->size + (size_t)sysconf(_SC_PAGESIZE));
	if (cpu->fd >= 0)
		close(cpu->fd);
}

/* "0-3,6" */
static int online_cpus(int **ret, size_t *ret_count)
{
	AUTO(close_file) FILE *file = fopen("/sys/devices/system/cpu/online", "re");
	ARRAY(int) cpus = {};
	int first, last;

	while (file && fscanf(file, "%d", &first) == 1) {
		last = first;
		if (fscanf(file, "-%d", &last) == 0)
			last = first;
		for (int cpu = first; cpu <= last; cpu++)
			*array_push(&cpus) = cpu;
		if (fgetc(file) != ',')
			break;
	}
	if (cpus.count == 0)
		return err_set(-ENOENT,
			       "/sys/devices/system/cpu/online: cannot tell which CPUs there "
			       "are; is /sys mounted?");
	*ret = cpus.items;
	*ret_count = cpus.count;
	return 0;
}

static bool cpu_listed(const int *cpus, size_t count, int cpu)
{
	for (size_t i = 0; i < count; i++)
		if (cpus[i] == cpu)
			return true;
	return false;
}

/*
 * What happens to a process on one CPU matters when it is sampled on another: every CPU has a ring.
 */
static int rings_open(struct perfring *ring, const struct perfring_target *target)
{
	AUTO(free_ptr) int *online = NULL;
	size_t count = 0;
	int err = online_cpus(&online, &count);

	if (err)
		return err;
	for (size_t i = 0; target->cpus && i < target->cpu_count; i++)
		if (!cpu_listed(online, count, target->cpus[i]))
			return err_set(-ENODEV, "CPU %d is not there or not online",
				       target->cpus[i]);
	ring->rings = mem_zalloc(count * sizeof(*ring->rings));
	for (size_t i = 0; i < count; i++) {
		struct ring *cpu = &ring->rings[ring->ring_count];

		*cpu = (struct ring){ .cpu = online[i], .fd = -1 };
		cpu->sampled = !target->cpus ||
			       cpu_listed(target->cpus, target->cpu_count, online[i]);
		err = ring_open(ring, cpu);
		if (err == -ENODEV && !(target->cpus && cpu->sampled))
			continue; /* went offline while we looked */
		ring->ring_count++;
		if (err)
			return err;
	}
	return 0;
}

/* Threads may go while we add them; that is no error as long as one is left. */
static int threads_add(struct perfring *ring, const struct perfring_target *target)
{
	size_t added = 0;

	for (size_t i = 0; i < target->tid_count; i++) {
		int err = perfring_add_thread(ring, target->tids[i]);

		if (err && err != -ESRCH)
			return err;
		added += !err;
	}
	return added ? 0 : err_set(-ESRCH, "no thread of the target is left");
}

static int events_open(struct perfring *ring, const struct perfring_target *target)
{
	if (!target->system_wide)
		return threads_add(ring, target);
	for (size_t i = 0; i < ring->ring_count; i++) {
		int err = events_add(ring, &ring->rings[i], -1);

		if (err)
			return err;
	}
	return 0;
}

static int options_check(const struct perfring_options *options)
{
	if (options->pages & (options->pages - 1))
		return err_set(-EINVAL, "ring of %zu pages: give a power of two", options->pages);
	if (options->stack_bytes % 8 || options->stack_bytes >= STACK_BYTES_MAX)
		return err_set(-EINVAL, "stack copy of %u bytes: give a multiple of 8 below %d",
			       options->stack_bytes, STACK_BYTES_MAX);
	return 0;
}

static void options_keep(struct perfring *ring, const struct perfring_options *options)
{
	ring->options = *options;
	ring->options.target.tids = NULL;
	ring->options.target.cpus = NULL;
	if (ring->options.pages == 0)
		ring->options.pages = PAGES_DEFAULT;
	for (size_t i = 0; i < options->period_count; i++)
		*array_push(&ring->periods) = options->periods[i];
	if (options->period_count == 0 && options->sample_period)
		*array_push(&ring->periods) = options->sample_period;
	ring->options.periods = NULL;
	ring->event_type = options->event ? options->event->type : PERF_TYPE_SOFTWARE;
	ring->event_config = options->event ? options->event->config : PERF_COUNT_SW_CPU_CLOCK;
	ring->options.event = NULL;
}

int perfring_open(const struct perfring_options *options, struct perfring **ret)
{
	AUTO(perfring_destroy_auto) struct perfring *ring = NULL;
	int err = options_check(options);

	if (err)
		return err;
	ring = mem_zalloc(sizeof(*ring));
	options_keep(ring, options);
	ring->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (ring->epoll < 0)
		return err_set(-errno, "epoll: %s", strerror(errno));
	kernel_probe(ring);
	err = rings_open(ring, &options->target);
	if (!err)
		err = events_open(ring, &options->target);
	if (err)
		return err;
	*ret = take_ptr(ring);
	return 0;
}

void perfring_destroy(struct perfring *ring)
{
	if (!ring)
		return;
	array_each(&ring->fds, fd)
		close(*fd);
	for (size_t i = 0; i < ring->ring_count; i++)
		ring_close(&ring->rings[i]);
	if (ring->epoll >= 0)
		close(ring->epoll);
	free(ring->rings);
	array_deinit(&ring->fds);
	array_deinit(&ring->samplers);
	array_deinit(&ring->periods);
	array_deinit(&ring->pending);
	array_deinit(&ring->entries);
	free(ring);
}

static int events_switch(const int *fds, size_t count, unsigned long request)
{
	for (size_t i = 0; i < count; i++)
		if (ioctl(fds[i], request, 0))
			return err_set(-errno, "perf events: cannot switch: %s", strerror(errno));
	return 0;
}

int perfring_enable(struct perfring *ring)
{
	ring->enabled = true;
	ring->disabled = false;
	return events_switch(ring->fds.items, ring->fds.count, PERF_EVENT_IOC_ENABLE);
}

int perfring_disable(struct perfring *ring)
{
	ring->enabled = false;
	ring->disabled = true;
	return events_switch(ring->fds.items, ring->fds.count, PERF_EVENT_IOC_DISABLE);
}

int perfring_samples_switch(struct perfring *ring, bool on)
{
	return events_switch(ring->samplers.items, ring->samplers.count,
			     on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE);
}

int perfring_fd(const struct perfring *ring)
{
	return ring->epoll;
}

/* Moves everything the ring holds to the end of pending; a record may wrap at the ring's end. */
static void ring_copy(struct perfring *ring, const struct ring *cpu)
{
	uint64_t head = __atomic_load_n(&cpu->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = cpu->page->data_tail;
	size_t size = (size_t)(head - tail), from = tail & (cpu->size - 1);
	size_t first = size < cpu->size - from ? size : cpu->size - from;
	uint8_t *to;

	if (size > cpu->size) /* cannot be, and would run over */
		return;
	array_reserve(&ring->pending, ring->pending.count + size);
	to = ring->pending.items + ring->pending.count;
	if (size) {
		memcpy(to, cpu->data + from, first);
		memcpy(to + first, cpu->data, size - first);
	}
	ring->pending.count += size;
	__atomic_store_n(&cpu->page->data_tail, head, __ATOMIC_RELEASE);
}

/* Adds the records in pending from offset on to the entries. */
static void pending_index(struct perfring *ring, size_t offset)
{
	while (offset < ring->pending.count) {
		const uint8_t *at = ring->pending.items + offset;
		size_t size = perfrecord_size(at, ring->pending.count - offset);
		struct event event;
		int found = size ? perfrecord_parse(at, size, &event) : -EBADMSG;

		ring->unreadable += found < 0;
		if (found == 1)
			*array_push(&ring->entries) = (struct entry){
				.time = event.time,
				.offset = offset,
				.order = ring->entries.count,
				.size = (uint32_t)size,
			};
		if (!size)
			return;
		offset += size;
	}
}

static int entry_compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Keeps the entries from first on, and their bytes, for the next drain. */
static void pending_keep(struct perfring *ring, size_t first)
{
	ARRAY(uint8_t) kept = {};
	size_t count = 0;

	for (size_t i = first; i < ring->entries.count; i++) {
		struct entry entry = ring->entries.items[i];

		array_reserve(&kept, kept.count + entry.size);
		memcpy(kept.items + kept.count, ring->pending.items + entry.offset, entry.size);
		entry.offset = kept.count;
		entry.order = count;
		kept.count += entry.size;
		ring->entries.items[count++] = entry;
	}
	ring->entries.count = count;
	if (kept.count)
		memcpy(ring->pending.items, kept.items, kept.count);
	ring->pending.count = kept.count;
	array_deinit(&kept);
}

static uint64_t lost_in(const uint8_t *record, const struct event *event)
{
	struct perf_event_header header;

	memcpy(&header, record, sizeof(header));
	return header.type == PERF_RECORD_LOST ? event->lost : 0;
}

/* Losses that no record told, because none fitted after them. */
static uint64_t lost_silently(const struct perfring *ring)
{
	struct {
		uint64_t value, lost;
	} counts;
	uint64_t lost = 0;

	array_each(&ring->fds, fd)
		if (ring->counters && read(*fd, &counts, sizeof(counts)) == sizeof(counts))
			lost += counts.lost;
	return lost > ring->lost ? lost - ring->lost : 0;
}

static int losses_tell(struct perfring *ring, uint64_t time, event_fn fn, void *ctx)
{
	uint64_t silent = ring->disabled ? lost_silently(ring) : 0;
	struct event event = { .kind = EVENT_LOST,
			       .time = time,
			       .lost = ring->unreadable + silent };

	ring->lost += silent;
	ring->unreadable = 0;
	return event.lost ? fn(ctx, &event) : 0;
}

static void wakeups_consume(struct perfring *ring)
{
	struct epoll_event events[EPOLL_BATCH];
	size_t batches = ring->ring_count / EPOLL_BATCH + 1;

	while (batches-- && epoll_wait(ring->epoll, events, EPOLL_BATCH, 0) == EPOLL_BATCH)
		;
}

int perfring_drain(struct perfring *ring, event_fn fn, void *ctx)
{
	uint64_t horizon = clock_monotonic();
	size_t at = 0;
	int err = 0;

	wakeups_consume(ring);
	for (size_t i = 0; i < ring->ring_count; i++) {
		size_t offset = ring->pending.count;

		ring_copy(ring, &ring->rings[i]);
		pending_index(ring, offset);
	}
	if (ring->entries.count)
		qsort(ring->entries.items, ring->entries.count, sizeof(struct entry),
		      entry_compare);
	for (; !err && at < ring->entries.count; at++) {
		struct entry *entry = &ring->entries.items[at];
		const uint8_t *record = ring->pending.items + entry->offset;
		struct event event;

		if (entry->time > horizon)
			break;
		if (perfrecord_parse(record, entry->size, &event) != 1)
			continue;
		ring->lost += lost_in(record, &event);
		err = fn(ctx, &event);
	}
	pending_keep(ring, at);
	return err ? err : losses_tell(ring, horizon, fn, ctx);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Has the kernel count visits of code and accesses to data, for a process and all its threads. A
 * counter is inherited by the threads that its thread creates. A thread that is created while
 * counters are opened may have inherited one and get another. So the list of threads is read again
 * afterwards, and if it has changed, all counters are opened anew.
 */
#include "recorder/probes/probes.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "image/procfs.h"
#include "recorder/probes/uprobes.h"

struct probe {
	int fd;
	pid_t tid;
	uint32_t mark;
	enum probe_what what;
};

struct probes {
	struct probe_sites sites;
	struct uprobes *uprobes; /* NULL: there is no site of code */
	ARRAY(struct probe) items;
	size_t uncertain;
};

enum { TRIES = 20 };

static struct perf_event_attr code_attr(const struct probe_site *site)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(struct perf_event_attr),
		.config = site->definition,
		.inherit = 1,
	};
}

static struct perf_event_attr data_attr(const struct probe_site *site, enum probe_what what)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(struct perf_event_attr),
		.bp_type = what == PROBE_WRITES ? HW_BREAKPOINT_W : HW_BREAKPOINT_RW,
		.bp_addr = site->at,
		.bp_len = site->size,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.inherit = 1,
	};
}

static int open_failed(const struct probe_site *site, int err)
{
	if (err == -EPERM || err == -EACCES)
		return err_set(-EPERM, "only root, or who has CAP_SYS_ADMIN, may set probes of the "
				       "kernel; use --by engine");
	if (err == -ENOSPC && site->data)
		return err_set(err, "all breakpoints of the processor are in use, perhaps by a "
				    "debugger; use --by engine");
	if (err == -EMFILE)
		return err_set(err, "there are too many threads and marks for so many open files; "
				    "raise the limit (ulimit -n), or use --by engine");
	return err_set(err, "the kernel cannot count at %s 0x%llx: %s; use --by engine",
		       site->data ? "address" : "offset", (unsigned long long)site->at,
		       strerror(-err));
}

/* A thread that has ended meanwhile counts nothing. */
static int probe_open(struct probes *probes, const struct probe_site *site, pid_t tid,
		      enum probe_what what)
{
	struct perf_event_attr attr = site->data ? data_attr(site, what) : code_attr(site);
	int fd;

	fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return errno == ESRCH ? 0 : open_failed(site, -errno);
	*array_push(&probes->items) =
		(struct probe){ .fd = fd, .tid = tid, .mark = site->mark, .what = what };
	return 0;
}

static int site_define(struct probes *probes, struct probe_site *site)
{
	int err = 0;

	if (site->data)
		return 0;
	if (!probes->uprobes)
		err = uprobes_create(&probes->uprobes);
	if (err)
		return err;
	err = uprobes_add(probes->uprobes, site->path, site->at, &site->definition);
	return err ? open_failed(site, err) : 0;
}

/* Those from `from` on. */
static int sites_define(struct probes *probes, size_t from)
{
	int err = 0;

	for (size_t i = from; i < probes->sites.items.count && !err; i++)
		err = site_define(probes, &probes->sites.items.items[i]);
	return err;
}

/* At the sites from `from` on. */
static int thread_probe(struct probes *probes, pid_t tid, size_t from)
{
	int err = 0;

	for (size_t i = from; i < probes->sites.items.count && !err; i++) {
		const struct probe_site *site = &probes->sites.items.items[i];

		if (!site->data) {
			err = probe_open(probes, site, tid, PROBE_VISITS);
			continue;
		}
		err = probe_open(probes, site, tid, PROBE_WRITES);
		err = err ? err : probe_open(probes, site, tid, PROBE_ACCESSES);
	}
	return err;
}

static void probes_close(struct probes *probes)
{
	array_each(&probes->items, probe)
		close(probe->fd);
	array_deinit(&probes->items);
}

static bool has_tid(const pid_t *tids, size_t count, pid_t tid)
{
	for (size_t i = 0; i < count; i++)
		if (tids[i] == tid)
			return true;
	return false;
}

/* Counters for all threads; *ret: threads that appeared meanwhile. */
static int threads_probe(struct probes *probes, pid_t pid, size_t *ret)
{
	AUTO(free_ptr) pid_t *tids = NULL;
	AUTO(free_ptr) pid_t *after = NULL;
	size_t count = 0, after_count = 0, fresh = 0;
	int err = procfs_threads(pid, &tids, &count);

	if (err)
		return err_set(err, "process %d: %s", (int)pid, strerror(-err));
	for (size_t i = 0; i < count && !err; i++)
		err = thread_probe(probes, tids[i], 0);
	if (err || procfs_threads(pid, &after, &after_count))
		return err;
	for (size_t i = 0; i < after_count; i++)
		fresh += !has_tid(tids, count, after[i]);
	*ret = fresh;
	return 0;
}

static void files_allow(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int probes_create(struct marks *marks, pid_t pid, struct probes **ret)
{
	AUTO(probes_destroy_auto) struct probes *probes = mem_zalloc(sizeof(*probes));
	int err = probe_sites_init(&probes->sites, marks, pid);

	err = err ? err : probe_sites_look(&probes->sites);
	err = err ? err : sites_define(probes, 0);
	files_allow();
	for (unsigned i = 0; i < TRIES && !err; i++) {
		probes_close(probes);
		err = threads_probe(probes, pid, &probes->uncertain);
		if (!probes->uncertain)
			break;
	}
	if (!err)
		*ret = take_ptr(probes);
	return err;
}

int probes_look(struct probes *probes)
{
	size_t known = probes->sites.items.count;
	int err = probe_sites_look(&probes->sites);

	err = err ? err : sites_define(probes, known);
	return err ? err : thread_probe(probes, probes->sites.pid, known);
}

void probes_destroy(struct probes *probes)
{
	if (!probes)
		return;
	probes_close(probes);
	uprobes_destroy(probes->uprobes);
	probe_sites_deinit(&probes->sites);
	free(probes);
}

size_t probes_uncertain(const struct probes *probes)
{
	return probes->uncertain;
}

void probes_stop(struct probes *probes)
{
	array_each(&probes->items, probe)
		ioctl(probe->fd, PERF_EVENT_IOC_DISABLE, 0);
}

void probes_read(const struct probes *probes,
		 void (*tell)(void *ctx, uint32_t mark, pid_t tid, enum probe_what what,
			      uint64_t count),
		 void *ctx)
{
	array_each(&probes->items, probe) {
		uint64_t count;

		if (read(probe->fd, &count, sizeof(count)) == sizeof(count) && count)
			tell(ctx, probe->mark, probe->tid, probe->what, count);
	}
}

/* --- What it costs ---------------------------------------------------------------------------- */

__attribute__((noinline)) static void visited(void)
{
	__asm__ volatile("");
}

/* The CPU time of this thread, which does not depend on other processes. */
static uint64_t time_spent(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

static uint64_t visits_time(void)
{
	enum { VISITS = 500, ROUNDS = 5 };
	uint64_t least = UINT64_MAX;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = time_spent(), taken;

		for (int i = 0; i < VISITS; i++)
			visited();
		taken = (time_spent() - start) / VISITS;
		least = taken < least ? taken : least;
	}
	return least;
}

struct place {
	uint64_t address, offset;
};

static int place_find(void *ctx, const struct event *event)
{
	struct place *place = ctx;

	if (event->kind == EVENT_MMAP && place->address >= event->mmap.start &&
	    place->address < event->mmap.end)
		place->offset = place->address - event->mmap.start + event->mmap.offset;
	return 0;
}

double probes_cost(void)
{
	struct place place = { .address = (uintptr_t)visited };
	struct probe_site site = { .path = (char *)"/proc/self/exe" };
	AUTO(probes_destroy_auto) struct probes *probes = mem_zalloc(sizeof(*probes));
	uint64_t without = visits_time();
	uint64_t with;

	if (procfs_mappings(getpid(), 0, place_find, &place) || !place.offset)
		return 0;
	site.at = place.offset;
	if (site_define(probes, &site) || probe_open(probes, &site, 0, PROBE_VISITS))
		return 0;
	with = visits_time();
	return with > without ? (double)(with - without) : 0;
}

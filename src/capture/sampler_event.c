// SPDX-License-Identifier: BSD-2-Clause
#include "capture/sampler_event.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

struct known_event {
	const char *name, *other; /* other: perf's second name; NULL: none */
	enum sampler_event_kind kind;
	uint64_t config;
	const char *unit, *help;
};

/* clang-format off */
static const struct known_event known_events[] = {
	{ "cpu-clock", NULL, SAMPLER_CLOCK, PERF_COUNT_SW_CPU_CLOCK, "nanoseconds",
	  "time on a CPU" },
	{ "page-faults", "faults", SAMPLER_FAULT, PERF_COUNT_SW_PAGE_FAULTS, "page faults",
	  "accesses to pages that were not mapped yet" },
	{ "minor-faults", NULL, SAMPLER_FAULT, PERF_COUNT_SW_PAGE_FAULTS_MIN, "minor page faults",
	  "page faults that needed no device" },
	{ "major-faults", NULL, SAMPLER_FAULT, PERF_COUNT_SW_PAGE_FAULTS_MAJ, "major page faults",
	  "page faults that waited for a device" },
	{ "context-switches", "cs", SAMPLER_SWITCH, PERF_COUNT_SW_CONTEXT_SWITCHES,
	  "context switches", "threads that left a CPU" },
	{ "cpu-migrations", "migrations", SAMPLER_SWITCH, PERF_COUNT_SW_CPU_MIGRATIONS,
	  "migrations", "threads that went on on another CPU" },
	{ "cycles", "cpu-cycles", SAMPLER_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, "cycles", NULL },
	{ "instructions", NULL, SAMPLER_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, "instructions",
	  NULL },
	{ "cache-references", NULL, SAMPLER_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES,
	  "cache references", NULL },
	{ "cache-misses", NULL, SAMPLER_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, "cache misses",
	  NULL },
	{ "branches", "branch-instructions", SAMPLER_HARDWARE,
	  PERF_COUNT_HW_BRANCH_INSTRUCTIONS, "branches", NULL },
	{ "branch-misses", NULL, SAMPLER_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES,
	  "mispredicted branches", NULL },
	{ "ref-cycles", NULL, SAMPLER_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES,
	  "cycles at the reference rate", NULL },
};
/* clang-format on */

enum { KNOWN = sizeof(known_events) / sizeof(known_events[0]) };

/* --- Names ------------------------------------------------------------------------------------ */

static bool known_matches(const struct known_event *known, const char *name)
{
	return !strcmp(name, known->name) || (known->other && !strcmp(name, known->other));
}

/* "r1a2b" */
static bool raw_parse(const char *name, uint64_t *ret)
{
	char *end;

	if (name[0] != 'r' || !name[1] || strspn(name + 1, "0123456789abcdefABCDEF") > 16)
		return false;
	*ret = strtoull(name + 1, &end, 16);
	return end != name + 1 && !*end;
}

static bool is_tracepoint(const char *name)
{
	const char *colon = strchr(name, ':');
	size_t valid = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-:");

	return colon && colon > name && colon[1] && !strchr(colon + 1, ':') && !name[valid];
}

int sampler_event_parse(const char *name, struct sampler_event *ret)
{
	struct sampler_event event = {};

	if (strlen(name) >= sizeof(event.name))
		return err_set(-EINVAL, "the name of an event has at most %zu bytes",
			       sizeof(event.name) - 1);
	snprintf(event.name, sizeof(event.name), "%s", name);
	for (size_t i = 0; i < KNOWN; i++) {
		const struct known_event *known = &known_events[i];
		bool hardware = known->kind == SAMPLER_HARDWARE;

		if (!known_matches(known, name))
			continue;
		snprintf(event.name, sizeof(event.name), "%s", known->name);
		event.unit = known->unit;
		event.kind = known->kind;
		event.type = hardware ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE;
		event.config = known->config;
		*ret = event;
		return 0;
	}
	event.unit = "events";
	event.kind = SAMPLER_HARDWARE;
	event.type = PERF_TYPE_RAW;
	if (!raw_parse(name, &event.config)) {
		if (!is_tracepoint(name))
			return err_set(-EINVAL,
				       "unknown event '%s'; '-e help' lists those that have a "
				       "name, and tracepoints are given as GROUP:NAME",
				       name);
		event.kind = SAMPLER_TRACEPOINT;
		event.type = PERF_TYPE_TRACEPOINT;
	}
	*ret = event;
	return 0;
}

void sampler_event_help(struct strbuf *ret)
{
	for (size_t i = 0; i < KNOWN; i++)
		strbuf_printf(ret, "%-18s %s\n", known_events[i].name,
			      known_events[i].help ? known_events[i].help
						   : "a counter, where the CPU has it");
	strbuf_printf(ret, "%-18s a counter of the CPU by its number in hexadecimal\n", "rNUMBER");
	strbuf_printf(ret, "%-18s a tracepoint of the kernel, such as sched:sched_switch\n",
		      "GROUP:NAME");
}

bool sampler_event_interrupts(const struct sampler_event *event)
{
	return event->kind != SAMPLER_SWITCH && event->kind != SAMPLER_TRACEPOINT;
}

/* --- What the kernel says --------------------------------------------------------------------- */

/* The kernel's list of events, wherever it is mounted. If it is not mounted, in a private mount. */
static int tracefs_open(void)
{
	static const char *const places[] = { "/sys/kernel/tracing/events",
					      "/sys/kernel/debug/tracing/events" };
	AUTO(close_fd) int context = -1;
	AUTO(close_fd) int mounted = -1;
	int fd = -1;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && fd < 0; i++)
		fd = open(places[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	context = fsopen("tracefs", FSOPEN_CLOEXEC);
	if (context < 0 || fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		return -errno;
	mounted = fsmount(context, FSMOUNT_CLOEXEC, 0);
	fd = mounted < 0 ? -1 : openat(mounted, "events", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int tracepoint_find(struct sampler_event *event)
{
	AUTO(close_fd) int events = tracefs_open();
	char path[SAMPLER_EVENT_NAME_MAX + 4], text[32] = "";
	AUTO(close_fd) int fd = -1;

	if (events < 0)
		return err_set(events,
			       "cannot look up the tracepoint %s: %s; tracepoints need root and "
			       "a kernel with tracefs",
			       event->name, strerror(-events));
	snprintf(path, sizeof(path), "%s/id", event->name);
	*strchr(path, ':') = '/';
	fd = openat(events, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return err_set(-ENOENT,
			       "this kernel has no tracepoint %s; 'perf list tracepoint' or "
			       "/sys/kernel/tracing/available_events lists them",
			       event->name);
	event->config = strtoull(text, NULL, 10);
	return 0;
}

static int counter_try(const struct sampler_event *event, bool kernel)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = event->type,
		.config = event->config,
		.sample_period = 1000000,
		.disabled = 1,
		.exclude_kernel = !kernel,
		.exclude_hv = 1,
	};
	AUTO(close_fd)
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

int sampler_event_find(struct sampler_event *event)
{
	int err;

	if (event->kind == SAMPLER_TRACEPOINT)
		return tracepoint_find(event);
	err = counter_try(event, event->kind == SAMPLER_SWITCH);
	if (!err)
		return 0;
	if (err == -ENOENT || err == -ENODEV || err == -EOPNOTSUPP || err == -EINVAL)
		return err_set(-EOPNOTSUPP,
			       "%s cannot be counted here: this CPU has no such counter, or a "
			       "virtual machine hides it; sample by time (leave out -e) or by an "
			       "event of the kernel ('-e help' lists them)",
			       event->name);
	if (event->kind == SAMPLER_SWITCH)
		return err_set(
			err,
			"%s happen in the kernel, which this user may not sample: %s; run as "
			"root",
			event->name, strerror(-err));
	return err_set(err,
		       "this user may not sample at all (%s); lower kernel.perf_event_paranoid to "
		       "2 or run as root",
		       strerror(-err));
}

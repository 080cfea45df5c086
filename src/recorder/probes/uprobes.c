// SPDX-License-Identifier: BSD-2-Clause
/*
 * Defines uprobes in tracefs, and takes them back. Definitions have our pid in the name of their
 * group. They do nothing by themselves, so that what is left by somebody who was killed harms
 * nobody until the next one removes it. tracefs is mounted for us alone: it need not be anywhere in
 * the tree.
 */
#include "recorder/probes/uprobes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

enum { REMOVE_TRIES = 50, REMOVE_PAUSE_US = 2000 };

struct uprobes {
	int root; /* of tracefs */
	uint64_t count;
};

static int root_open(void)
{
	AUTO(close_fd) int context = fsopen("tracefs", FSOPEN_CLOEXEC);

	if (context < 0 || fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		return -1;
	return fsmount(context, FSMOUNT_CLOEXEC, 0);
}

/* One write for each line: that is how the kernel reads them. */
static int line_write(const struct uprobes *probes, const char *line)
{
	AUTO(close_fd)
	int fd = openat(probes->root, "uprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		return -errno;
	return 0;
}

/* What was counted with it a moment ago may not be free yet. */
static void event_remove(const struct uprobes *probes, int pid, const char *event)
{
	AUTO(free_ptr) char *line = mem_printf("-:assay_%d/%s", pid, event);

	for (int i = 0; i < REMOVE_TRIES && line_write(probes, line) == -EBUSY; i++)
		usleep(REMOVE_PAUSE_US);
}

static void remains_remove(const struct uprobes *probes)
{
	int fd = openat(probes->root, "uprobe_events", O_RDONLY | O_CLOEXEC);
	AUTO(close_file) FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	char line[512], event[64];
	int pid;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "p:assay_%d/%63s", &pid, event) == 2 && kill(pid, 0) &&
		    errno == ESRCH)
			event_remove(probes, pid, event);
}

int uprobes_create(struct uprobes **ret)
{
	AUTO(uprobes_destroy_auto) struct uprobes *probes = mem_zalloc(sizeof(*probes));

	probes->root = root_open();
	if (probes->root < 0 && (errno == EPERM || errno == EACCES))
		return err_set(-EPERM, "only root, or who has CAP_SYS_ADMIN, may set probes of the "
				       "kernel; use --by engine");
	if (probes->root < 0 || faccessat(probes->root, "uprobe_events", F_OK, 0))
		return err_set(-ENOTSUP, "this kernel has no probes on user code "
					 "(CONFIG_UPROBE_EVENTS); use --by engine");
	remains_remove(probes);
	*ret = take_ptr(probes);
	return 0;
}

void uprobes_destroy(struct uprobes *probes)
{
	if (!probes)
		return;
	for (uint64_t i = 0; i < probes->count; i++) {
		AUTO(free_ptr) char *event = mem_printf("m%llu", (unsigned long long)i);

		event_remove(probes, getpid(), event);
	}
	close_fd(&probes->root);
	free(probes);
}

static int id_read(const struct uprobes *probes, const char *event, uint64_t *ret)
{
	AUTO(free_ptr) char *path = mem_printf("events/assay_%d/%s/id", getpid(), event);
	int fd = openat(probes->root, path, O_RDONLY | O_CLOEXEC);
	AUTO(close_file) FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	unsigned long long id;

	if (!file || fscanf(file, "%llu", &id) != 1)
		return -EIO;
	*ret = id;
	return 0;
}

int uprobes_add(struct uprobes *probes, const char *path, uint64_t offset, uint64_t *ret)
{
	AUTO(free_ptr) char *event = mem_printf("m%llu", (unsigned long long)probes->count);
	AUTO(free_ptr)
	char *line = mem_printf("p:assay_%d/%s %s:0x%llx", getpid(), event, path,
				(unsigned long long)offset);
	int err = line_write(probes, line);

	if (err)
		return err;
	probes->count++;
	return id_read(probes, event, ret);
}

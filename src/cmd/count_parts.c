// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/count_parts.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/merge.h"
#include "values/hotlist.h"

extern char **environ;

struct count_parts {
	const char *output; /* lent */
	pid_t recorder; /* 0: nothing is recorded */
	char *path; /* of what is recorded */
	unsigned begun; /* so far */
	ARRAY(char *) paths; /* of the recordings that are complete */
};

static const char *const names[] = { [COUNT_PART_VALUES] = "values", [COUNT_PART_PATHS] = "paths" };

struct count_parts *count_parts_create(const char *output)
{
	struct count_parts *parts = mem_zalloc(sizeof(*parts));

	parts->output = output;
	return parts;
}

void count_parts_destroy(struct count_parts *parts)
{
	if (!parts)
		return;
	array_each(&parts->paths, path)
		free(*path);
	array_deinit(&parts->paths);
	free(parts->path);
	free(parts);
}

int count_child_start(char *const argv[], pid_t *ret)
{
	posix_spawnattr_t how;
	sigset_t none, all;
	int err;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&how);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&how, &none);
	posix_spawnattr_setsigdefault(&how, &all);
	err = posix_spawn(ret, argv[0], NULL, &how, argv, environ);
	posix_spawnattr_destroy(&how);
	return err ? err_set(-err, "cannot start %s: %s", argv[0], strerror(err)) : 0;
}

/* --- Recording -------------------------------------------------------------------------------- */

int count_parts_record(struct count_parts *parts, enum count_part_kind kind, pid_t process,
		       uint64_t duration)
{
	AUTO(free_ptr) char *pid = mem_printf("%d", (int)process);
	AUTO(free_ptr) char *time = mem_printf("%.3fs", (double)duration / NS_PER_S);
	AUTO(free_ptr)
	char *path = mem_printf("%s.%s-%u", parts->output, names[kind], parts->begun + 1);
	char *values[] = { "/proc/self/exe", "record", "-q", "--values", "-p", pid,
			   "--duration",     time,     "-o", path,	 NULL };
	char *paths[] = { "/proc/self/exe", "trace", "-q", "--tool", "paths", "-p", pid,
			  "--duration",	    time,    "-o", path,     NULL };
	int err = count_child_start(kind == COUNT_PART_VALUES ? values : paths, &parts->recorder);

	if (err) {
		parts->recorder = 0;
		return err;
	}
	parts->begun++;
	parts->path = take_ptr(path);
	log_info("%s of process %s are recorded for %s; nothing is counted meanwhile", names[kind],
		 pid, time);
	return 0;
}

bool count_parts_running(const struct count_parts *parts)
{
	return parts->recorder != 0;
}

/* Of a recorder that failed there is no profile, or none that is whole. */
static void part_take(struct count_parts *parts, int status)
{
	parts->recorder = 0;
	if (WIFEXITED(status) && !WEXITSTATUS(status)) {
		*array_push(&parts->paths) = take_ptr(parts->path);
		return;
	}
	log_warn("what a rule wanted to be recorded has failed");
	free(take_ptr(parts->path));
}

bool count_parts_ended(struct count_parts *parts)
{
	int status = 0;

	if (!parts->recorder || waitpid(parts->recorder, &status, WNOHANG) != parts->recorder)
		return false;
	part_take(parts, status);
	return true;
}

void count_parts_stop(struct count_parts *parts)
{
	int status = 0;

	if (!parts->recorder)
		return;
	kill(parts->recorder, SIGINT);
	while (waitpid(parts->recorder, &status, 0) < 0 && errno == EINTR)
		;
	part_take(parts, status);
}

/* --- One profile ------------------------------------------------------------------------------ */

static int merge(const struct count_parts *parts, const char *merged)
{
	const struct merge_options how = { .lists_merge = hotlist_blob_merge };
	ARRAY(const char *) all = {};
	int err;

	*array_push(&all) = parts->output;
	array_each(&parts->paths, path)
		*array_push(&all) = *path;
	err = merge_profiles(all.items, all.count, merged, &how);
	array_deinit(&all);
	if (!err && rename(merged, parts->output))
		err = err_set(-errno, "cannot rename %s to %s: %m", merged, parts->output);
	return err;
}

int count_parts_merge(struct count_parts *parts)
{
	AUTO(free_ptr) char *merged = mem_printf("%s.whole", parts->output);
	int err;

	if (!parts->paths.count)
		return 0;
	err = merge(parts, merged);
	if (err)
		return err_wrap(err, "what rules have recorded stays beside the profile, in %s%s",
				parts->paths.items[0], parts->paths.count > 1 ? " and others" : "");
	array_each(&parts->paths, path)
		unlink(*path);
	log_info("%zu recording%s of rules %s in the profile, too", parts->paths.count,
		 PLURAL(parts->paths.count), parts->paths.count == 1 ? "is" : "are");
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/record_targets.h"

#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"

enum {
	MORE_TIMES = 4, /* as much time as those that are sampled */
	SHORTEST_SHARE = 10, /* of a second, as a divisor: less is not worth a word */
};

typedef size_t choose_fn(struct processes *processes, const char *what);

static int choose_each(struct processes *processes, const struct option_texts *wanted,
		       choose_fn *choose, const char *option, const char *nothing)
{
	for (size_t i = 0; i < wanted->count; i++)
		if (!choose(processes, wanted->items[i]))
			return err_set(-ESRCH, "%s %s: %s", option, wanted->items[i], nothing);
	return 0;
}

static bool is_given(const pid_array *pids, pid_t pid)
{
	array_each(pids, given)
		if (*given == pid)
			return true;
	return false;
}

int record_targets_choose(const struct record_options *given, pid_array *pids)
{
	AUTO(processes_deinit) struct processes processes = {};
	int err;

	if (!given->comms.count && !given->cgroups.count && !given->containers.count &&
	    !given->children)
		return 0;
	err = processes_read(&processes);
	array_each(pids, pid)
		if (!err && !processes_choose_pid(&processes, *pid))
			err = err_set(-ESRCH, "process %d: there is none", (int)*pid);
	err = err ? err
		  : choose_each(&processes, &given->comms, processes_choose_comm, "--comm",
				"no process has that name");
	err = err ? err
		  : choose_each(&processes, &given->cgroups, processes_choose_cgroup, "--cgroup",
				"no process is in that control group; /proc/PID/cgroup tells "
				"where one is");
	err = err ? err
		  : choose_each(&processes, &given->containers, processes_choose_container,
				"--container",
				"no process is in a control group with that id in its name");
	if (!err && given->children)
		processes_choose_children(&processes);
	array_each(&processes.entries, entry)
		if (!err && entry->chosen && !is_given(pids, entry->pid))
			*array_push(pids) = entry->pid;
	return err;
}

/* --- Bystanders ------------------------------------------------------------------------------- */

void bystanders_note(struct bystanders *bystanders, const pid_array *pids)
{
	*bystanders = (struct bystanders){ .pids = pids };
	if (!pids->count || processes_read(&bystanders->before))
		return; /* what is only said for convenience is left out */
	array_each(pids, pid)
		processes_choose_pid(&bystanders->before, *pid);
	processes_choose_children(&bystanders->before);
}

void bystanders_deinit(struct bystanders *bystanders)
{
	processes_deinit(&bystanders->before);
}

void bystanders_say(const struct bystanders *bystanders)
{
	AUTO(processes_deinit) struct processes after = {};
	uint64_t second = (uint64_t)sysconf(_SC_CLK_TCK), sampled = 0, others = 0;
	size_t count = 0;

	if (!bystanders->before.entries.count || processes_read(&after))
		return;
	array_each(&bystanders->before.entries, entry) {
		ssize_t at = entry->chosen ? processes_find(&after, entry->pid) : -1;
		uint64_t ticks = at < 0 ? 0 : after.entries.items[at].ticks - entry->ticks;

		if (at >= 0 && is_given(bystanders->pids, entry->pid)) {
			sampled += ticks;
		} else if (at >= 0) {
			others += ticks;
			count++;
		}
	}
	if (others > MORE_TIMES * sampled && others * SHORTEST_SHARE > second)
		log_warn("what was sampled took %.1f s of CPU time, but %zu process%s that it had "
			 "created before took %.1f s: --children samples them, too",
			 (double)sampled / (double)second, count, count == 1 ? "" : "es",
			 (double)others / (double)second);
}

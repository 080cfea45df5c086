/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which processes `assay record` samples besides those given by number; and whether processes that
 * are left out did the work.
 */
#pragma once

#include <sys/types.h>

#include "base/array.h"
#include "cmd/record.h"
#include "recorder/processes.h"

typedef ARRAY(pid_t) pid_array;

/* What --comm, --cgroup, --container and --children choose, behind what -p has put there. */
int record_targets_choose(const struct record_options *given, pid_array *pids);

/* Processes that sampled ones had created before the recording, and that are not sampled. */
struct bystanders {
	struct processes before; /* chosen: sampled, or a bystander */
	const pid_array *pids;
};

void bystanders_note(struct bystanders *bystanders, const pid_array *pids);
void bystanders_deinit(struct bystanders *bystanders);
/* Says so if they took most of the time since. */
void bystanders_say(const struct bystanders *bystanders);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recordings that a page asks for. Which command is recorded was said when the server was started;
 * the page only chooses one of a list of ways, for one of them with a mark. The new profile takes
 * the place of the one that is shown, which is kept as FILE.old.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct starter {
	const char *path; /* of the profile */
	char *const *command; /* NULL: nothing may be started */
	pid_t running; /* 0: nothing */
	const char *way; /* that runs, or ran last; NULL: none yet */
	int exit_code; /* of the last one */
};

/*
 * The wish is the name of a way, and behind a space what is marked, if the way takes that. -EACCES:
 * nothing may be started; -EINVAL: no such way, or not a mark; -EBUSY: one is running.
 */
int starter_start(struct starter *starter, const char *wish);
/* Notes whether it has ended. */
void starter_look(struct starter *starter);
/* Asks what runs to end, and waits for it: its profile is then complete. */
void starter_end(struct starter *starter);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides before a program is executed whether the engine can be put into it; afterwards it would
 * be too late.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Columns: name, word in summaries, what a person reads after "left alone: ". */
#define PROGRAM_OBSTACLES(X)                                                                       \
	X(PRIVILEGED, "privileged", "programs that change their user, group or capabilities")      \
	X(FOREIGN, "foreign", "programs that are not 64-bit x86 code")                             \
	X(UNREADABLE, "unreadable", "programs that may be executed but not read")                  \
	X(FILTERED, "filtered", "programs whose system calls are filtered (seccomp)")              \
	X(LIMITED, "limited", "programs whose memory is limited (RLIMIT_AS, RLIMIT_DATA)")         \
	X(OTHER, "other", "programs that could not be stopped or written to")

enum program_obstacle {
	PROGRAM_FINE,
#define X(name, word, text) PROGRAM_##name,
	PROGRAM_OBSTACLES(X)
#undef X
		PROGRAM_OBSTACLE_COUNT
};

const char *program_obstacle_name(enum program_obstacle obstacle);
const char *program_obstacle_text(enum program_obstacle obstacle);

/* What decides whether a program gains privileges, and what it may do. */
struct program_user {
	uid_t uid; /* effective, as is gid */
	gid_t gid;
	bool no_new_privileges;
	unsigned filters; /* seccomp filters; each child has its parent's at least */
};

int program_user_get(pid_t pid, struct program_user *ret);

/* The file that execvp() would execute. Fails with its errno and the sentence for it. */
int program_find(const char *name, char **ret_path);

/*
 * Looks at a file, and through #! at its interpreter. root is put before the interpreter's path: ""
 * or "/proc/PID/root". A file that is neither a script nor ELF is no obstacle: exec will refuse it.
 */
enum program_obstacle program_check(const char *path, const char *root,
				    const struct program_user *user);

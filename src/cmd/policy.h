/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the administrator allows ordinary users to see if the binary has file capabilities (setcap).
 * The kernel then refuses nothing, so Assay itself has to.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define POLICY_FILE "/etc/assay.conf"

/* Columns: name, its key in the file. */
#define POLICY_KEYS(X)                                                                             \
	X(other_users, "other-users") /* processes of other users, and the whole machine */        \
	X(kernel_values, "kernel-values") /* values that the kernel computes, with its addresses */

struct policy {
#define X(name, key) bool name;
	POLICY_KEYS(X)
#undef X
};

/*
 * Root may do everything. For others everything is no that the file does not allow, or that a file
 * says that is not root's alone. -EINVAL: the file cannot be understood.
 */
int policy_read(struct policy *ret);
/* The same for the given file. */
int policy_read_file(const char *path, uid_t user, struct policy *ret);
/* Whether the kernel lets every user sample every process: no permission is needed then. */
bool policy_shows_everybody(void);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that have no use unless they are finished: SIGINT, SIGTERM, SIGHUP and SIGQUIT remove them
 * before they end the process. What catches or ignores these signals by itself is not disturbed,
 * and SIGKILL leaves the files.
 *
 *	number = leftover_add(dir, name, 0);	from now on
 *	leftover_forget(number);		it is finished, or has been removed
 */
#pragma once

#include <signal.h>

/* Between these two the signals wait: so that a file can be made and then be watched. */
void leftover_signals_hold(sigset_t *ret_before);
void leftover_signals_release(const sigset_t *before);

/*
 * flags: of unlinkat(). What was added last is removed first. 0: it is not watched, because there
 * are too many; leftover_forget() takes that, too.
 */
int leftover_add(int dir, const char *name, int flags);
void leftover_forget(int number);

// SPDX-License-Identifier: BSD-2-Clause
#include "base/glob.h"

#include <stddef.h>

/*
 * Greedy matching with one point of backtracking: when the rest does not match, the last '*' takes
 * one byte more. A '*' that comes later makes the earlier ones final, so the time is at most the
 * product of both lengths.
 */
bool glob_match(const char *pattern, const char *name)
{
	const char *star = NULL, *resume = NULL;

	while (*name) {
		if (*pattern == '*') {
			star = pattern++;
			resume = name;
		} else if (*pattern == '?' || *pattern == *name) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star + 1;
			name = ++resume;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Views of waits. */
#pragma once

#include "analyse/forest.h"
#include "analyse/views.h"

/* The view `threads` of a profile with waits: where the time of each thread went. */
int view_thread_times(const struct profile *profile, const struct view_request *request,
		      struct table **ret);

/* The text for a cause of waiting, such as "lock"; NULL for a name that is no cause. */
const char *wait_cause_text(const char *cause);

/*
 * Writes a stack: in short, the innermost functions, user code before the kernel's, "lock < take <
 * main"; or all functions, outermost first, "main;take;lock".
 */
void stack_brief_put(const struct forest *forest, const struct functions *functions, uint32_t node,
		     struct strbuf *out);
void stack_whole_put(const struct forest *forest, const struct functions *functions, uint32_t node,
		     struct strbuf *out);

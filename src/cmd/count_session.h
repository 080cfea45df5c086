/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happens to marks while assay count runs: they are read, added and removed by others
 * (control.h), and rules (marks/rules.h) look at them and act.
 *
 * Three threads meet here. The one that records looks at rules; the one of the socket answers; and
 * the one that follows the process does what only it can do: change marks, and take the process
 * into the engine or out of it.
 */
#pragma once

#include "base/cleanup.h"
#include "cmd/count_follow.h"
#include "cmd/count_parts.h"
#include "cmd/trace.h"
#include "marks/live.h"
#include "marks/marks.h"
#include "marks/rules.h"

struct session;

struct session_options {
	struct marks *marks; /* all of these must outlive it */
	struct marks_live *live;
	struct rule **rules;
	size_t rule_count;
	struct follow *follow; /* callers that are marked as they are seen; NULL: none */
	const char *sweep; /* a module whose pages are marked in turn; NULL: none */
	bool quiet;
	bool attached; /* the process was not started by us */
	bool fixed; /* the kernel counts: marks are not changed, and nothing else is recorded */
	bool says; /* what marks count is said at each interval */
	struct count_parts *parts; /* what rules record besides */
};

struct session *session_create(const struct session_options *options);
void session_destroy(struct session *session);
DEFINE_AUTO(struct session, session_destroy)

/* For trace_run(). */
struct trace_marks session_hooks(struct session *session);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A command that is recorded: drains in a thread of its own what its engines record, and writes the profile at its end.
 *
 *	session_create()	the profile is there and can be written
 *	session_start()		once the command runs
 *	session_finish()	when it has ended
 */
#pragma once

#include "trace/drain.h"
#include "trace/paths.h"

struct session_options {
	const char *output; /* the profile */
	const char *raw; /* NULL: none; see raw.h */
	const char *tool; /* name, for the profile */
	char *const *command;
	enum drain_counters counters;
	bool lines; /* also those that were not executed: it takes its time */
	const struct paths_options *paths; /* NULL: the order of execution is not kept */
	void *shared;
	uint64_t shared_size;
};

struct session_result {
	struct drain_totals totals;
	uint64_t instructions, blocks; /* executed; of tools that mark: different ones */
	uint64_t native; /* threads that left the engine */
};

struct session;

int session_create(const struct session_options *options, struct session **ret);
/* Without session_finish() the profile is removed, and what was there before is back. */
void session_destroy(struct session *session);
DEFINE_AUTO(struct session, session_destroy)
int session_start(struct session *session);
int session_finish(struct session *session, struct session_result *ret);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules over what marks count:
 *
 *	CONDITION [every TIME] -> ACTION [; ACTION...]
 *
 *	rate(calls(deflate)) > 1000 -> print
 *	calls(miss) / calls(lookup) > 20% every 10s -> start libz.so!inflate*; event cold cache
 *	2*instructions(a) + instructions(b) >= 1e9 -> run ./notify.sh
 *
 * A condition is an expression of numbers (1000, 1.5, 20%, 10k, 2M, 1G), + - * /, comparisons,
 * && || !, and parentheses. A number that is a time has a unit (ns, us, ms, s). These are what the
 * mark has counted so far:
 *
 *	calls(MARK), visits(MARK), instructions(MARK)
 *	time(MARK), timed(MARK)		seconds, and how many visits took them; of marks with ,time
 *	slower(MARK)			visits beyond the threshold; of marks with ,slower=
 *	reads(MARK), writes(MARK), accesses(MARK)	of marks on data
 *
 * p50(MARK), p90, p99 and p999 are percentiles, in seconds, of the visits that have ended since the
 * condition was looked at before; 0 if none has. rate(E) is how much E grew in a second, and
 * delta(E) how much it grew, both since then. What is divided by 0 is 0. A mark may be written
 * without what follows its commas. One that holds a parenthesis or a quote is written within double
 * quotes.
 *
 * A rule fires when its condition holds, and not again before the time is over: a second, unless it
 * says otherwise. Actions:
 *
 *	print [TEXT]	says so, with the values of the condition
 *	event [TEXT]	an event of the profile
 *	snapshot	an event, with what all marks have counted
 *	start MARK	the mark counts from now on
 *	stop MARK	it counts no more
 *	run COMMAND	a shell runs it; what follows up to the end is the command
 *	values TIME	what instructions compute is recorded for so long, in a profile beside
 *	paths TIME	the order of execution is, likewise
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "marks/live.h"

/* Columns: name, word, what follows it. */
#define RULE_ACTIONS(X)                                                                            \
	X(PRINT, "print", RULE_TEXT)                                                               \
	X(EVENT, "event", RULE_TEXT)                                                               \
	X(SNAPSHOT, "snapshot", RULE_NOTHING)                                                      \
	X(START, "start", RULE_MARK)                                                               \
	X(STOP, "stop", RULE_MARK)                                                                 \
	X(RUN, "run", RULE_COMMAND)                                                                \
	X(VALUES, "values", RULE_TIME)                                                             \
	X(PATHS, "paths", RULE_TIME)

enum rule_action_kind {
#define X(name, word, takes) RULE_##name,
	RULE_ACTIONS(X)
#undef X
		RULE_ACTION_COUNT
};

struct rule_action {
	enum rule_action_kind kind;
	char *text; /* TEXT, MARK, COMMAND; may be empty */
	uint64_t time; /* TIME: ns */
};

/* What a mark of a condition has to have. */
enum rule_needs { RULE_NEEDS_NOTHING, RULE_NEEDS_TIME, RULE_NEEDS_THRESHOLD, RULE_NEEDS_DATA };

struct rule {
	char *text; /* as it was given */
	uint64_t interval; /* ns: it does not fire again before */
	ARRAY(struct rule_action) actions;
	ARRAY(char *) reads; /* marks of the condition, each once */
	ARRAY(unsigned) needs; /* of each of them: bits of enum rule_needs */
	struct rule_node *nodes; /* of the condition; the last one is the whole */
	size_t node_count;
};

enum { RULE_TEXT_MAX = 4096 };

/* -EINVAL: what is wrong, and at which character. */
int rule_parse(const char *text, struct rule **ret);
void rule_destroy(struct rule *rule);
DEFINE_AUTO(struct rule, rule_destroy)

/* What a mark has counted at both moments. */
typedef void rule_lookup(void *ctx, const char *mark, struct mark_sum *ret_now,
			 struct mark_sum *ret_before);
/* seconds: between the two moments; 0: there is no earlier one, and rates are 0. */
double rule_value(const struct rule *rule, rule_lookup *lookup, void *ctx, double seconds);

/* Whether a rule means a mark: by its text, or that without what follows its commas. */
bool rule_mark_is(const char *given, const char *mark);

/*
 * -ELOOP: a rule switches a mark that another one looks at, and that one, in the end, a mark that
 * the first looks at; both are named.
 */
int rules_check(struct rule *const *rules, size_t count);

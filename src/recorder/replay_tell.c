// SPDX-License-Identifier: BSD-2-Clause
/* Hands out what a replayed run did: steps in, facts by source (values/selection.h) out. */
#include "recorder/replay_private.h"

static void context_set(struct selection_facts *facts, enum selection_source source, uint64_t value,
			unsigned width)
{
	facts->known |= SELECTION_BIT(source);
	facts->values[source] = value;
	facts->widths[source] = (uint8_t)width;
}

static void context_fill(const struct replay *replay, struct selection_facts *facts)
{
	static const uint8_t sources[RUN_SYSTEM_COUNT] = {
#define X(name) [RUN_SYSTEM_##name] = SELECTION_##name,
		RUN_SYSTEM_WORDS(X)
#undef X
	};
	const struct run_record *run = replay->run;

	facts->known = 0;
	context_set(facts, SELECTION_PID, run->record.image.tgid, 32);
	context_set(facts, SELECTION_TID, run->record.tid, 32);
	for (size_t i = 0; run->flags & RUN_SYSTEM && i < RUN_SYSTEM_COUNT; i++)
		if (!run_is_missing(run, (uint32_t)i))
			context_set(facts, sources[i], run->log[i], 64);
}

/* A marker bit above the directions says how many there are. */
static void path_fill(const struct replay *replay, struct selection_facts *facts)
{
	context_set(facts, SELECTION_PATH, 1ull << replay->branches | replay->directions, 64);
	for (unsigned i = 0; i < GOALS; i++)
		context_set(facts, SELECTION_GOAL1 + i,
			    i < replay->goal_count ? replay->goals[i] : 0, 64);
}

static int step_tell(const struct step *step, struct selection_facts *facts, replay_fn *fn,
		     void *ctx)
{
	const uint64_t mask = SELECTION_BIT(REPLAY_SOURCES) - 1,
		       branches = SELECTION_INDIRECT | SELECTION_ANY_BRANCH;
	uint32_t known = step->known & (uint32_t)mask;

	facts->known = (facts->known & ~mask & ~branches & ~SELECTION_BIT(SELECTION_CALLER)) |
		       known;
	if (step->known & STEP_INDIRECT)
		facts->known |= SELECTION_INDIRECT;
	if (step->known & STEP_ANY_BRANCH)
		facts->known |= SELECTION_ANY_BRANCH;
	for (uint32_t left = known; left; left &= left - 1) {
		unsigned source = (unsigned)__builtin_ctz(left);

		facts->values[source] = step->values[source];
		facts->widths[source] = step->widths[source];
	}
	if (step->place.caller)
		context_set(facts, SELECTION_CALLER, step->place.caller, 64);
	return fn(ctx, &step->place, facts);
}

int replay_tell(const struct replay *replay, replay_fn *fn, void *ctx)
{
	struct selection_facts facts;
	struct step first;
	size_t count = replay->step_count;
	int err;

	/* An instruction that could not be finished is not told. */
	if (replay->instructions > replay->run->instructions && count)
		count--;
	if (!count)
		return 0;
	context_fill(replay, &facts);
	facts.path_open = replay->run->end != UOP_END_NONE;
	path_fill(replay, &facts);
	first = replay->steps[0];
	first.place.class = SELECTION_RUN;
	err = step_tell(&first, &facts, fn, ctx);
	for (size_t i = 0; i < count && !err; i++)
		err = step_tell(&replay->steps[i], &facts, fn, ctx);
	return err;
}

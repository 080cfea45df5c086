// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which functions can be annotated, and which of them a name means.
 *
 *	in	a profile with a filter; a name
 *	out	what was counted in each function; those that the name means, the busiest first
 *	owner	the caller, who frees both
 */
#include "analyse/annotate_private.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/forest.h"
#include "analyse/meta.h"
#include "analyse/names.h"
#include "base/mem.h"

static bool is_called(const struct profile_symbol *symbol, const char *name)
{
	return (symbol->name && !strcmp(symbol->name, name)) ||
	       (symbol->linkage && !strcmp(symbol->linkage, name));
}

static bool is_like(const struct profile_symbol *symbol, const char *name)
{
	return (symbol->name && pattern_match(name, symbol->name)) ||
	       (symbol->linkage && pattern_match(name, symbol->linkage));
}

static int match_order(const void *left, const void *right)
{
	const struct annotate_match *a = left, *b = right;

	if (a->samples != b->samples)
		return a->samples < b->samples ? 1 : -1;
	return (a->symbol > b->symbol) - (a->symbol < b->symbol);
}

/* A tool that only marks code (coverage) gives no counts. */
bool annotate_is_executed(const struct profile *profile)
{
	return !profile_holds(profile, DOMAIN_SAMPLES) && profile_holds(profile, DOMAIN_EXECUTED) &&
	       !meta_only_marks(profile);
}

bool annotate_is_marked(const struct profile *profile)
{
	return !profile_holds(profile, DOMAIN_SAMPLES) &&
	       !profile_holds(profile, DOMAIN_EXECUTED) && profile_holds(profile, DOMAIN_MARKS);
}

uint64_t *annotate_executions(const struct profile *profile, const struct filter *filter)
{
	uint64_t *counts = mem_zalloc((profile->block_count + 1) * sizeof(*counts));

	for (size_t i = 0; i < profile->execution_count; i++)
		if (filter_thread(filter, profile, profile->executions[i].thread))
			counts[profile->executions[i].block] += profile->executions[i].count;
	return counts;
}

static uint64_t *executed_by_symbol(const struct profile *profile, const struct filter *filter)
{
	AUTO(free_ptr) uint64_t *counts = annotate_executions(profile, filter);
	uint64_t *sums = mem_zalloc((profile->symbol_count + 1) * sizeof(*sums));

	for (uint32_t i = 1; i < profile->block_count; i++)
		sums[location_function(profile, profile->blocks[i].location)] +=
			counts[i] * profile->blocks[i].instructions;
	return sums;
}

static uint64_t *marked_by_symbol(const struct profile *profile, const struct filter *filter)
{
	uint64_t *sums = mem_zalloc((profile->symbol_count + 1) * sizeof(*sums));

	for (size_t i = 0; i < profile->mark_code_count; i++) {
		const struct profile_mark_code *code = &profile->mark_codes[i];

		if (filter_thread(filter, profile, code->thread))
			sums[location_function(profile, code->location)] +=
				code->count * code->instructions;
	}
	return sums;
}

static uint64_t *sampled_by_symbol(const struct profile *profile, const struct filter *filter)
{
	AUTO(forest_destroy_auto)
	struct forest *forest = forest_create(profile, filter, FOREST_CODE_ROWS);
	uint64_t *samples = mem_zalloc((profile->symbol_count + 1) * sizeof(*samples));

	for (size_t i = 1; i < profile->stack_count; i++)
		samples[location_function(profile, profile->stacks[i].location)] += forest->own[i];
	return samples;
}

uint64_t *annotate_samples(const struct profile *profile, const struct filter *filter)
{
	if (annotate_is_marked(profile))
		return marked_by_symbol(profile, filter);
	return annotate_is_executed(profile) ? executed_by_symbol(profile, filter)
					     : sampled_by_symbol(profile, filter);
}

void annotate_find(const struct profile *profile, const struct filter *filter, const char *name,
		   struct annotate_match **ret, size_t *ret_count, bool *ret_exact,
		   bool *ret_inlined)
{
	AUTO(free_ptr) uint64_t *samples = annotate_samples(profile, filter);
	struct annotate_match *matches = mem_alloc((profile->symbol_count + 1) * sizeof(*matches));
	size_t count = 0;

	*ret_inlined = false;
	*ret_exact = false;
	for (uint32_t i = 1; i < profile->symbol_count; i++) {
		const struct profile_symbol *symbol = &profile->symbols[i];
		bool exact = is_called(symbol, name);

		if ((!exact && (*ret_exact || !is_like(symbol, name))) ||
		    !filter_module(filter, profile, symbol->module) ||
		    profile->modules[symbol->module].kind == MODULE_MARK)
			continue;
		*ret_inlined |= symbol->inlined;
		/* A name that only inlined functions have does not mean those that contain it. */
		if (exact && !*ret_exact)
			count = 0;
		*ret_exact |= exact;
		if (symbol->inlined)
			continue;
		matches[count++] = (struct annotate_match){ i, samples[i] };
	}
	qsort(matches, count, sizeof(*matches), match_order);
	*ret = matches;
	*ret_count = count;
}

// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/filter.h"

#include <string.h>

#include "analyse/names.h"
#include "base/glob.h"

void filter_deinit(struct filter *filter)
{
	array_deinit(&filter->pids);
	array_deinit(&filter->tids);
	array_deinit(&filter->uids);
	array_deinit(&filter->comms);
	array_deinit(&filter->symbols);
	array_deinit(&filter->modules);
}

bool pattern_match(const char *pattern, const char *name)
{
	if (strpbrk(pattern, "*?"))
		return glob_match(pattern, name);
	return strstr(name, pattern);
}

bool filter_is_empty(const struct filter *filter)
{
	return !filter->pids.count && !filter->tids.count && !filter->uids.count &&
	       !filter->comms.count && !filter_has_code(filter);
}

bool filter_has_code(const struct filter *filter)
{
	return filter->symbols.count || filter->modules.count;
}

static bool number_in(const struct option_numbers *numbers, int64_t number)
{
	for (size_t i = 0; i < numbers->count; i++)
		if (numbers->items[i] == number)
			return true;
	return numbers->count == 0;
}

static bool name_in(const struct option_texts *patterns, const char *name, const char *other)
{
	for (size_t i = 0; i < patterns->count; i++)
		if (pattern_match(patterns->items[i], name) ||
		    pattern_match(patterns->items[i], other))
			return true;
	return patterns->count == 0;
}

bool filter_thread(const struct filter *filter, const struct profile *profile, uint32_t thread)
{
	const struct profile_thread *row = &profile->threads[thread];
	const struct profile_process *process = &profile->processes[row->process];
	const char *comm = row->comm ? row->comm : "";
	const char *process_comm = process->comm ? process->comm : "";

	return number_in(&filter->pids, process->pid) && number_in(&filter->tids, row->tid) &&
	       number_in(&filter->uids, process->uid) &&
	       name_in(&filter->comms, comm, process_comm);
}

bool filter_symbol(const struct filter *filter, const struct profile *profile, uint32_t symbol)
{
	const char *name = name_of_symbol(profile, symbol);
	const char *linkage = symbol ? profile->symbols[symbol].linkage : NULL;

	return name_in(&filter->symbols, name, linkage ? linkage : name);
}

bool filter_module(const struct filter *filter, const struct profile *profile, uint32_t module)
{
	const char *path = module ? profile->modules[module].path : NULL;
	const char *name = name_of_module(profile, module);

	return name_in(&filter->modules, name, path ? path : name);
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the arguments of slow visits have in common: for each argument that the routine takes, its
 * value, or the first bytes that it points to (struct profile_mark_visit_argument), is compared
 * among the slow visits of a group and with usual visits.
 */
#include "analyse/tail_private.h"

#include "analyse/instruction.h"
#include "analyse/names.h"
#include "analyse/sites.h"
#include "base/strbuf.h"

/* The ways in which two arguments are compared, and the least visits of a group to be compared. */
enum { WAYS = 4, VISITS_LEAST = 4 };

/* Ways to look at an argument: itself, or so many bytes of where it points to. */
static bool is_same(const struct profile_mark_visit_argument *a,
		    const struct profile_mark_visit_argument *b, unsigned way)
{
	if (!way)
		return a->value == b->value;
	if (!a->points || !b->points)
		return false;
	if (way == 3)
		return (uint32_t)a->first == (uint32_t)b->first;
	return a->first == b->first && (way == 2 || a->second == b->second);
}

static double share_with(const struct tail *tail, const struct group *group,
			 const struct profile_mark_visit_argument *wanted, unsigned way)
{
	uint32_t same = 0, all = 0;

	if (group) {
		array_each(&group->visits, number) {
			const struct visit *visit = &tail->visits.items[*number];

			all++;
			same += visit->arguments &&
				is_same(&visit->arguments[wanted->argument], wanted, way);
		}
	} else {
		array_each(&tail->visits, visit) {
			all += visit->usual;
			same += visit->usual && visit->arguments &&
				is_same(&visit->arguments[wanted->argument], wanted, way);
		}
	}
	return all ? (double)same / all : 0;
}

/*
 * A common property must be one of some of the first visits, so only these are tried; a property
 * that usual visits have as well does not count.
 */
static void common_try(const struct tail *tail, const struct group *group,
		       const struct visit *visit, struct tail_common *best)
{
	for (unsigned argument = 0; argument < ARGUMENTS && visit->arguments; argument++)
		for (unsigned way = 0; way < WAYS && tail->parameters >> argument & 1; way++) {
			const struct profile_mark_visit_argument *wanted =
				&visit->arguments[argument];
			double share = share_with(tail, group, wanted, way);
			double usual = share >= common_share ? share_with(tail, NULL, wanted, way)
							     : 1;

			if (usual <= rare_share && share - usual > best->share - best->usual + 0.01)
				*best = (struct tail_common){ wanted, way, share, usual };
		}
}

struct tail_common tail_common_find(const struct tail *tail, const struct group *group)
{
	enum { TRIED = 8 };
	struct tail_common best = {};

	for (size_t i = 0;
	     i < group->visits.count && i < TRIED && group->visits.count >= VISITS_LEAST; i++)
		common_try(tail, group, &tail->visits.items[group->visits.items[i]], &best);
	return best;
}

/* Appends the bytes as text if they are printable, otherwise as a number. */
static void pointed_put(const struct profile_mark_visit_argument *argument, unsigned way,
			struct strbuf *out)
{
	uint64_t words[2] = { argument->first, argument->second };
	const unsigned char *bytes = (const unsigned char *)words;
	size_t size = way == 1 ? 16 : way == 2 ? 8 : 4, length = 0;

	while (length < size && bytes[length] >= ' ' && bytes[length] < 0x7f)
		length++;
	if (length == size || (length >= 2 && !bytes[length]))
		strbuf_printf(out, "\"%.*s\"%s", (int)length, (const char *)bytes,
			      length == size ? "..." : "");
	else if (size == 4)
		strbuf_printf(out, "%u", (uint32_t)argument->first);
	else
		strbuf_printf(out, "%#llx...", (unsigned long long)argument->first);
}

const char *tail_common_text(const struct tail *tail, const struct tail_common *common)
{
	static const char *const registers[] = { "rdi", "rsi", "rdx", "rcx", "r8", "r9" };
	const struct profile_mark_visit_argument *argument = common->argument;
	const struct profile_parameter *parameter =
		tail->symbol ? parameter_find(tail->profile, tail->symbol, argument->argument)
			     : NULL;
	const char *name = parameter && parameter->name && *parameter->name
				   ? parameter->name
				   : registers[argument->argument];
	struct strbuf text = {};

	strbuf_printf(&text, "%s%s = ", common->way ? "*" : "", name);
	if (common->way)
		pointed_put(argument, common->way, &text);
	else
		strbuf_printf(&text, argument->value < 1 << 20 ? "%llu" : "%#llx",
			      (unsigned long long)argument->value);
	return table_own(tail->table, text.text);
}

/* The function in which the routine's own blocks lie. */
static uint32_t routine_symbol(const struct tail *tail)
{
	array_each(&tail->paths, path)
		if (path->kind == PATH_BLOCK && path->location)
			return location_function(tail->profile, path->location);
	return 0;
}

void tail_parameters_find(struct tail *tail)
{
	struct code_cache code;
	int used;

	tail->symbol = routine_symbol(tail);
	tail->parameters = 0;
	for (unsigned i = 0; i < ARGUMENTS && tail->symbol; i++)
		if (parameter_find(tail->profile, tail->symbol, i))
			tail->parameters |= 1u << i;
	if (tail->parameters)
		return;
	code_cache_init(&code, tail->profile, &tail->request->code);
	used = tail->symbol ? code_cache_arguments(&code, tail->symbol) : -1;
	code_cache_deinit(&code);
	tail->parameters = used < 0 ? (1u << ARGUMENTS) - 1 : (unsigned)used;
}

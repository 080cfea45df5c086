// SPDX-License-Identifier: BSD-2-Clause
/* Stacks of waits and of wakers, as text. */
#include <string.h>

#include "analyse/names.h"
#include "analyse/wait_views.h"
#include "base/array.h"
#include "base/strbuf.h"

enum { BRIEF_FUNCTIONS = 3 };

static bool node_is_kernel(const struct forest *forest, uint32_t node)
{
	const struct profile *profile = forest->profile;
	uint32_t module = profile->locations[profile->stacks[node].location].module;

	return profile->modules[module].kind == MODULE_KERNEL;
}

static const char *slot_name(const struct functions *functions, uint32_t slot)
{
	return functions_name(functions, functions->entity[slot]);
}

static bool node_is_libc(const struct forest *forest, uint32_t node)
{
	const struct profile *profile = forest->profile;
	const char *name =
		name_of_module(profile, profile->locations[profile->stacks[node].location].module);

	return !strncmp(name, "libc.so", 7) || !strncmp(name, "libpthread", 10);
}

/*
 * The frame at which the short form of a stack begins: after the kernel's frames, and at the
 * function of the C library that the program called. If a stack has no other frames, it begins with
 * the first one.
 */
static uint32_t brief_begin(const struct forest *forest, uint32_t node)
{
	const struct profile_stack *stacks = forest->profile->stacks;
	uint32_t at = node, user;

	while (at && node_is_kernel(forest, at))
		at = stacks[at].parent;
	user = at;
	while (at && node_is_libc(forest, at) && stacks[at].parent &&
	       node_is_libc(forest, stacks[at].parent))
		at = stacks[at].parent;
	if (at && node_is_libc(forest, at) && !stacks[at].parent)
		at = user;
	return at ? at : node;
}

void stack_brief_put(const struct forest *forest, const struct functions *functions, uint32_t node,
		     struct strbuf *out)
{
	unsigned shown = 0;

	for (node = brief_begin(forest, node); node && shown < BRIEF_FUNCTIONS;
	     node = forest->profile->stacks[node].parent) {
		uint32_t slot = forest_slot_begin(forest, node);
		uint32_t end = forest_slot_end(forest, node);

		if (!shown && node_is_libc(forest, node))
			slot = end - 1; /* not what is inlined into it */
		for (; slot < end && shown < BRIEF_FUNCTIONS; slot++)
			strbuf_printf(out, "%s%s", shown++ ? " < " : "",
				      slot_name(functions, slot));
	}
}

void stack_whole_put(const struct forest *forest, const struct functions *functions, uint32_t node,
		     struct strbuf *out)
{
	ARRAY(uint32_t) slots = {};

	for (; node; node = forest->profile->stacks[node].parent)
		for (uint32_t i = forest_slot_begin(forest, node);
		     i < forest_slot_end(forest, node); i++)
			*array_push(&slots) = i;
	for (size_t i = slots.count; i-- > 0;)
		strbuf_printf(out, "%s%s", slot_name(functions, slots.items[i]), i ? ";" : "");
	array_deinit(&slots);
}

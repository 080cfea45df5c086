// SPDX-License-Identifier: BSD-2-Clause
/*
 * Finds the path of calls that each stack sample was taken on, or on which a thread waited, frame
 * by frame from the outermost one in, and each place on a stack only once for each tree.
 *
 * A frame is the function that was called, with all that was inlined into it. It leads from a path
 * to the one that goes on with this function. What it does if there is none:
 *
 *	it is the outermost	nothing calls it (_start, clone3): the path remains the thread's
 *	nobody ever called it	it is part of its caller: code without hooks, or that was left out,
 *				and the kernel's
 *	paths were pruned there	the sample is one of theirs
 *	it is a linker's stub	the same as if nobody called it: calls are of what it jumps to
 *	otherwise		the sample is on a path that no call took
 *
 * A stack that was cut, and one that is not there, begin nobody knows where: so they are on none.
 *
 * A thread's samples belong to its own tree if both recordings saw the same thread; not all of them
 * know when it was started. If they are of two runs of a program, they belong to the tree of the
 * thread of that name, which is a process's first thread if they are of such; if several have it,
 * of the one in the same executable file; if there are several, to no tree.
 *
 *  1. Each sample of a thread that is chosen is on one path, or counted as off the paths or trees.
 *  2. Functions are the same if they are the same row, or have the same name in modules of the same
 *     name: a program that was built again has other modules.
 */
#include "analyse/call_samples.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/names.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/mem.h"

enum { NOWHERE = 0 }; /* a path that no call took */

/* In place of a symbol, below a path some of which were pruned. */
#define PRUNED UINT32_MAX

/* What makes threads the same, the best first. */
enum likeness { SAME_THREAD, SAME_NUMBERS, SAME_PROGRAM, SAME_NAME, LIKENESS_COUNT };

/* Trees by a text that tells their threads apart, or does not. */
struct tree_names {
	struct strtab texts;
	ARRAY(uint32_t) roots; /* by text: the tree's first node; NOWHERE: several trees have it */
};

struct placing {
	const struct profile *profile;
	const struct filter *filter; /* NULL: all threads */
	uint64_t *amounts; /* by path */
	struct call_samples_off off;
	struct map below; /* of a path and a symbol: the path that goes on with it */
	bool *called; /* by symbol */
	struct strtab texts; /* names of the symbols that were called come first */
	ARRAY(uint32_t) symbols; /* by text, of those */
	uint32_t *same; /* by symbol: the one that was called + 1; 0: not looked for yet */
	struct tree_names trees[LIKENESS_COUNT];
	struct map places; /* of a tree and a stack: the path */
	uint32_t *roots; /* by thread: its tree, once it was looked for */
	bool *rooted; /* by thread: it was looked for */
};

/* --- Functions -------------------------------------------------------------------------------- */

/* Without what compilers call a part of a function that they have moved away. */
static size_t whole_length(const char *name)
{
	static const char *const ends[] = { ".cold", " [clone .cold]" };
	size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t end = strlen(ends[i]);

		if (length > end && !strcmp(name + length - end, ends[i]))
			return length - end;
	}
	return length;
}

static uint32_t symbol_text(struct placing *placing, uint32_t symbol)
{
	const char *name = name_of_symbol(placing->profile, symbol);
	uint32_t module = placing->profile->symbols[symbol].module;
	AUTO(free_ptr)
	char *text = mem_printf("%s\n%.*s", name_of_module(placing->profile, module),
				(int)whole_length(name), name);

	return strtab_add(&placing->texts, text);
}

static void symbol_called(struct placing *placing, uint32_t symbol)
{
	if (placing->called[symbol])
		return;
	placing->called[symbol] = true;
	if (symbol_text(placing, symbol) == placing->symbols.count)
		*array_push(&placing->symbols) = symbol;
}

/* One of the same module that has the same name is another function, unless a part was cut off. */
static uint32_t same_find(struct placing *placing, uint32_t symbol)
{
	const struct profile_symbol *rows = placing->profile->symbols;
	const char *name = name_of_symbol(placing->profile, symbol);
	uint32_t text, other;

	if (placing->called[symbol])
		return symbol;
	text = symbol_text(placing, symbol);
	other = text < placing->symbols.count ? placing->symbols.items[text] : 0;
	if (rows[other].module == rows[symbol].module && !name[whole_length(name)])
		return 0;
	return other;
}

/* The function that calls know a frame's by; 0: they do not. */
static uint32_t function_of(struct placing *placing, uint32_t location)
{
	uint32_t symbol = location_function(placing->profile, location);

	if (!symbol)
		return 0;
	if (!placing->same[symbol])
		placing->same[symbol] = same_find(placing, symbol) + 1;
	return placing->same[symbol] - 1;
}

/* --- Threads ---------------------------------------------------------------------------------- */

static char *thread_text(const struct profile *profile, uint32_t thread, enum likeness likeness)
{
	const struct profile_thread *row = &profile->threads[thread];
	const struct profile_process *process = &profile->processes[row->process];
	const char *comm = row->comm ? row->comm : "";

	switch (likeness) {
	case SAME_THREAD:
		return mem_printf("%u/%u/%u/%" PRIu64, process->machine, process->pid, row->tid,
				  row->started);
	case SAME_NUMBERS:
		return mem_printf("%u/%u/%u/%s", process->machine, process->pid, row->tid, comm);
	case SAME_PROGRAM:
		return mem_printf("%d/%s/%s", row->tid == process->pid, comm,
				  process->exe ? process->exe : "");
	default:
		return mem_printf("%d/%s", row->tid == process->pid, comm);
	}
}

static void tree_name_add(struct placing *placing, uint32_t root, enum likeness likeness)
{
	struct tree_names *names = &placing->trees[likeness];
	uint32_t thread = placing->profile->call_nodes[root].thread;
	AUTO(free_ptr) char *text = thread_text(placing->profile, thread, likeness);
	uint32_t id = strtab_add(&names->texts, text);

	if (id == names->roots.count)
		*array_push(&names->roots) = root;
	else if (placing->profile->call_nodes[names->roots.items[id]].thread != thread)
		names->roots.items[id] = NOWHERE;
}

/* All trees have their names by now. */
static uint32_t root_of(struct placing *placing, uint32_t thread)
{
	uint32_t root = NOWHERE;

	for (int likeness = 0; likeness < LIKENESS_COUNT && root == NOWHERE; likeness++) {
		struct tree_names *names = &placing->trees[likeness];
		AUTO(free_ptr) char *text = thread_text(placing->profile, thread, likeness);
		uint32_t id = strtab_add(&names->texts, text);

		if (id < names->roots.count)
			root = names->roots.items[id];
	}
	return root;
}

/* --- Paths ------------------------------------------------------------------------------------ */

static uint64_t pair(uint32_t a, uint32_t b)
{
	return (uint64_t)a << 32 | b;
}

static uint32_t path_below(const struct placing *placing, uint32_t path, uint32_t symbol)
{
	const uint64_t *found = map_find(&placing->below, pair(path, symbol));

	return found ? (uint32_t)*found : NOWHERE;
}

/* Of the procedure linkage table. */
static bool is_stub(const struct placing *placing, uint32_t symbol)
{
	static const char end[] = "@plt";
	const char *name = name_of_symbol(placing->profile, symbol);
	size_t length = strlen(name);

	return length >= strlen(end) && !strcmp(name + length - strlen(end), end);
}

static uint32_t frame_enter(struct placing *placing, uint32_t path, uint32_t stack, uint32_t root)
{
	const struct profile *profile = placing->profile;
	uint32_t location = profile->stacks[stack].location;
	uint32_t function = function_of(placing, location), next;

	if (profile->modules[profile->locations[location].module].kind == MODULE_MARK)
		return NOWHERE;
	if (path == NOWHERE || !function || profile->call_nodes[path].pruned)
		return path;
	next = path_below(placing, path, function);
	if (next != NOWHERE)
		return next;
	if (!profile->stacks[stack].parent)
		return root;
	next = path_below(placing, path, PRUNED);
	return next == NOWHERE && is_stub(placing, function) ? path : next;
}

/* The frames from the first one inwards whose place is not known yet. */
static uint32_t stack_place(struct placing *placing, uint32_t root, uint32_t stack)
{
	ARRAY(uint32_t) frames = {};
	uint32_t path = root;

	if (!stack)
		return NOWHERE;
	for (; stack; stack = placing->profile->stacks[stack].parent) {
		const uint64_t *known = map_find(&placing->places, pair(root, stack));

		if (known) {
			path = (uint32_t)*known;
			break;
		}
		*array_push(&frames) = stack;
	}
	while (frames.count) {
		stack = frames.items[--frames.count];
		path = frame_enter(placing, path, stack, root);
		*map_at(&placing->places, pair(root, stack), NULL) = path;
	}
	array_deinit(&frames);
	return path;
}

/* --- All -------------------------------------------------------------------------------------- */

static void paths_read(struct placing *placing)
{
	const struct profile *p = placing->profile;

	for (uint32_t i = 1; i < p->call_node_count; i++) {
		const struct profile_call_node *row = &p->call_nodes[i];
		uint32_t symbol = row->pruned ? PRUNED : location_function(p, row->location);

		for (int likeness = 0; likeness < LIKENESS_COUNT && !row->parent; likeness++)
			tree_name_add(placing, i, likeness);
		if (!row->parent || !symbol)
			continue;
		*map_at(&placing->below, pair(row->parent, symbol), NULL) = i;
		if (symbol != PRUNED)
			symbol_called(placing, symbol);
	}
}

static void placing_init(struct placing *placing, const struct profile *profile,
			 const struct filter *filter, uint64_t *amounts)
{
	*placing = (struct placing){
		.profile = profile,
		.filter = filter,
		.amounts = amounts,
		.called = mem_zalloc(profile->symbol_count + 1),
		.same = mem_zalloc((profile->symbol_count + 1) * sizeof(*placing->same)),
		.roots = mem_zalloc((profile->thread_count + 1) * sizeof(*placing->roots)),
		.rooted = mem_zalloc(profile->thread_count + 1),
	};
	paths_read(placing);
}

static void placing_deinit(struct placing *placing)
{
	map_deinit(&placing->below);
	map_deinit(&placing->places);
	strtab_deinit(&placing->texts);
	for (int i = 0; i < LIKENESS_COUNT; i++) {
		strtab_deinit(&placing->trees[i].texts);
		array_deinit(&placing->trees[i].roots);
	}
	array_deinit(&placing->symbols);
	free(placing->called);
	free(placing->same);
	free(placing->roots);
	free(placing->rooted);
}

static bool is_chosen(const struct placing *placing, uint32_t thread)
{
	return !placing->filter || filter_thread(placing->filter, placing->profile, thread);
}

static void amount_place(struct placing *placing, uint32_t thread, uint32_t stack, uint64_t amount)
{
	uint32_t root, path;

	if (!placing->rooted[thread])
		placing->roots[thread] = root_of(placing, thread);
	placing->rooted[thread] = true;
	root = placing->roots[thread];
	if (!is_chosen(placing, root ? placing->profile->call_nodes[root].thread : thread))
		return;
	path = root ? stack_place(placing, root, stack) : NOWHERE;
	*(!root		    ? &placing->off.threads
	  : path == NOWHERE ? &placing->off.paths
			    : &placing->amounts[path]) += amount;
}

struct call_samples_off call_samples_place(const struct profile *profile,
					   const struct filter *filter, uint64_t *samples)
{
	AUTO(placing_deinit) struct placing placing;

	placing_init(&placing, profile, filter, samples);
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_sample *row = &profile->samples[i];

		amount_place(&placing, row->thread, row->stack, row->count);
	}
	return placing.off;
}

struct call_samples_off call_waits_place(const struct profile *profile, const struct filter *filter,
					 uint64_t *ns)
{
	AUTO(placing_deinit) struct placing placing;

	placing_init(&placing, profile, filter, ns);
	for (size_t i = 0; i < profile->wait_count; i++) {
		const struct profile_wait *row = &profile->waits[i];

		amount_place(&placing, row->thread, row->stack, row->total + row->queued);
	}
	return placing.off;
}

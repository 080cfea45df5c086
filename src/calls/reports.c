// SPDX-License-Identifier: BSD-2-Clause
#include "calls/reports.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"

static struct call_row row_of(const struct call_snapshot *snapshot, uint32_t number,
			      uint32_t metric)
{
	const struct call_node *node = call_snapshot_node(snapshot, number);
	struct call_row row = { .routine = node->routine,
				.calls = node->calls,
				.samples = node->samples,
				.level = node->level,
				.recursion = node->recursion,
				.node = number };

	if (metric < snapshot->head.metrics) {
		const struct call_amount *sum = call_snapshot_sum(snapshot, number, metric);

		row.base = node->amounts[metric].base;
		row.cum = sum->base;
		row.elapsed = sum->elapsed;
	}
	return row;
}

void call_report_tree(const struct call_snapshot *snapshot, uint32_t metric, struct call_rows *ret)
{
	for (uint32_t i = 0; i < snapshot->reached; i++)
		*array_push(ret) = row_of(snapshot, snapshot->order[i], metric);
}

/* An edge is a row of a stanza: the other routine as a parent, or as a child, of `self`. */
struct edge {
	uint32_t self;
	bool is_child;
	struct call_row row;
};

struct routine {
	struct call_row row;
	uint32_t active; /* level of its innermost call on the path + 1, or 0 */
};

struct path_step {
	uint32_t routine;
	uint32_t hidden; /* what `active` of the routine was before */
};

struct work {
	struct map ids; /* routine to place in routines */
	ARRAY(struct routine) routines;
	struct map edge_ids;
	ARRAY(struct edge) edges;
	ARRAY(struct path_step) path;
};

static uint32_t routine_id(struct work *work, uint64_t routine)
{
	bool is_new;
	uint64_t *id = map_at(&work->ids, routine, &is_new);

	if (is_new) {
		*id = work->routines.count;
		*array_push(&work->routines) = (struct routine){ .row.routine = routine };
	}
	return (uint32_t)*id;
}

static struct call_row *edge_row(struct work *work, uint32_t self, bool is_child, uint32_t other)
{
	uint64_t key = (uint64_t)is_child << 63 | (uint64_t)self << 31 | other;
	bool is_new;
	uint64_t *id = map_at(&work->edge_ids, key, &is_new);

	if (is_new) {
		*id = work->edges.count;
		*array_push(&work->edges) =
			(struct edge){ .self = self,
				       .is_child = is_child,
				       .row.routine = work->routines.items[other].row.routine };
	}
	return &work->edges.items[*id].row;
}

static void row_add(struct call_row *sum, const struct call_row *row, bool outermost)
{
	sum->calls += row->calls;
	sum->base += row->base;
	sum->samples += row->samples;
	sum->recursion = sum->recursion > row->recursion ? sum->recursion : row->recursion;
	if (outermost) {
		sum->cum += row->cum;
		sum->elapsed += row->elapsed;
	}
}

static void path_cut(struct work *work, uint32_t level)
{
	while (work->path.count > level) {
		const struct path_step *step = &work->path.items[--work->path.count];

		work->routines.items[step->routine].active = step->hidden;
	}
}

static void add_node(struct work *work, const struct call_row *row)
{
	uint32_t id = routine_id(work, row->routine);
	uint32_t above;
	bool outermost;

	path_cut(work, row->level);
	above = work->routines.items[id].active;
	outermost = !above;
	row_add(&work->routines.items[id].row, row, outermost);
	if (row->level) {
		uint32_t parent = work->path.items[row->level - 1].routine;

		row_add(edge_row(work, id, false, parent), row, outermost);
		row_add(edge_row(work, parent, true, id), row, true);
	}
	*array_push(&work->path) = (struct path_step){ .routine = id, .hidden = above };
	work->routines.items[id].active = row->level + 1;
	/* The amount belongs to the inner call, and no longer to the child of the outer one. */
	if (!outermost) {
		struct call_row *outer = edge_row(work, id, true, work->path.items[above].routine);

		outer->cum -= row->cum;
		outer->elapsed -= row->elapsed;
	}
}

static int by_cum(const struct call_row *a, const struct call_row *b)
{
	if (a->cum != b->cum)
		return a->cum < b->cum ? 1 : -1;
	if (a->calls != b->calls)
		return a->calls < b->calls ? 1 : -1;
	return (a->routine > b->routine) - (a->routine < b->routine);
}

static int compare_edges(const void *left, const void *right)
{
	const struct edge *a = left;
	const struct edge *b = right;

	if (a->self != b->self)
		return a->self < b->self ? -1 : 1;
	if (a->is_child != b->is_child)
		return a->is_child ? 1 : -1;
	return by_cum(&a->row, &b->row);
}

static int compare_stanzas(const void *left, const void *right)
{
	return by_cum(&((const struct call_stanza *)left)->self,
		      &((const struct call_stanza *)right)->self);
}

static void stanzas_fill(struct work *work, struct call_stanzas *ret)
{
	ret->count = work->routines.count;
	ret->items = mem_zalloc((ret->count + 1) * sizeof(*ret->items));
	ret->edges = mem_zalloc((work->edges.count + 1) * sizeof(*ret->edges));
	for (size_t i = 0; i < ret->count; i++)
		ret->items[i].self = work->routines.items[i].row;
	if (work->edges.count)
		qsort(work->edges.items, work->edges.count, sizeof(struct edge), compare_edges);
	for (size_t i = 0; i < work->edges.count; i++) {
		const struct edge *edge = &work->edges.items[i];
		struct call_stanza *stanza = &ret->items[edge->self];

		ret->edges[i] = edge->row;
		if (edge->is_child && !stanza->child_count++)
			stanza->children = &ret->edges[i];
		if (!edge->is_child && !stanza->parent_count++)
			stanza->parents = &ret->edges[i];
	}
	if (ret->count)
		qsort(ret->items, ret->count, sizeof(*ret->items), compare_stanzas);
}

static struct call_row rows_sum(const struct call_row *rows, uint32_t count)
{
	struct call_row sum = {};

	for (uint32_t i = 0; i < count; i++)
		row_add(&sum, &rows[i], true);
	return sum;
}

static int stanza_check(const struct call_stanza *stanza)
{
	const struct call_row *self = &stanza->self;
	struct call_row parents = rows_sum(stanza->parents, stanza->parent_count);
	struct call_row children = rows_sum(stanza->children, stanza->child_count);

	if (self->routine != CALL_ROUTINE_THREAD &&
	    (parents.calls != self->calls || parents.base != self->base ||
	     parents.cum != self->cum || parents.elapsed != self->elapsed))
		return err_set(-EINVAL, "routine 0x%" PRIx64 ": its callers do not add up to it",
			       self->routine);
	if (children.cum + self->base != self->cum)
		return err_set(-EINVAL,
			       "routine 0x%" PRIx64 ": what it calls does not add up to it",
			       self->routine);
	return 0;
}

static void work_deinit(struct work *work)
{
	map_deinit(&work->ids);
	map_deinit(&work->edge_ids);
	array_deinit(&work->routines);
	array_deinit(&work->edges);
	array_deinit(&work->path);
}

int call_report_stanzas(const struct call_snapshot *const *snapshots, size_t count, uint32_t metric,
			struct call_stanzas *ret)
{
	struct call_stanzas stanzas = {};
	struct work work = {};

	for (size_t i = 0; i < count; i++) {
		for (uint32_t at = 0; at < snapshots[i]->reached; at++) {
			struct call_row row = row_of(snapshots[i], snapshots[i]->order[at], metric);

			add_node(&work, &row);
		}
		path_cut(&work, 0);
	}
	stanzas_fill(&work, &stanzas);
	work_deinit(&work);
	for (size_t i = 0; i < stanzas.count; i++) {
		int err = stanza_check(&stanzas.items[i]);

		if (err) {
			call_stanzas_deinit(&stanzas);
			return err;
		}
	}
	*ret = stanzas;
	return 0;
}

void call_stanzas_deinit(struct call_stanzas *stanzas)
{
	free(stanzas->items);
	free(stanzas->edges);
	*stanzas = (struct call_stanzas){};
}

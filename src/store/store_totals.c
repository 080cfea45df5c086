// SPDX-License-Identifier: BSD-2-Clause
/*
 * How often each node of the tree of stacks was sampled, itself and everything called from it.
 *
 * SQL alone has to walk up from every sampled stack for this, which takes seconds in a long
 * profile. Here it is one pass: a node comes after its parent, so going from the last node to the
 * first, each node's total is complete when it is added to its parent's.
 */
#include <errno.h>

#include "base/array.h"
#include "base/err.h"
#include "store/container.h"
#include "store/store_private.h"

struct node {
	uint32_t parent;
	uint64_t total;
};

struct tree {
	ARRAY(struct node) nodes; /* by id; entry 0 collects the outermost ones */
};

static void tree_deinit(struct tree *tree)
{
	array_deinit(&tree->nodes);
}

/* The rows may come from a file that was reopened, so they are not trusted. */
static int corrupt(struct store *store)
{
	return err_set(-EBADMSG, "%s: corrupt: stacks are out of order; record again", store->path);
}

static int nodes_read(struct store *store, struct tree *tree)
{
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *rows = NULL;
	int rc, err = container_prepare(store->db, store->path,
					"select id, parent from stack order by id", &rows);

	if (err)
		return err;
	*array_push(&tree->nodes) = (struct node){};
	while ((rc = sqlite3_step(rows)) == SQLITE_ROW) {
		sqlite3_int64 id = sqlite3_column_int64(rows, 0);
		sqlite3_int64 parent = sqlite3_column_int64(rows, 1);

		if (id != (sqlite3_int64)tree->nodes.count || parent < 0 || parent >= id)
			return corrupt(store);
		*array_push(&tree->nodes) = (struct node){ .parent = (uint32_t)parent };
	}
	return rc == SQLITE_DONE ? 0 : container_error(store->db, store->path, "read stacks");
}

static int samples_read(struct store *store, struct tree *tree)
{
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *rows = NULL;
	int rc, err = container_prepare(store->db, store->path, "select stack, count from sample",
					&rows);

	if (err)
		return err;
	while ((rc = sqlite3_step(rows)) == SQLITE_ROW) {
		sqlite3_int64 id = sqlite3_column_int64(rows, 0);

		if (id <= 0 || id >= (sqlite3_int64)tree->nodes.count)
			return corrupt(store);
		tree->nodes.items[id].total += (uint64_t)sqlite3_column_int64(rows, 1);
	}
	return rc == SQLITE_DONE ? 0 : container_error(store->db, store->path, "read samples");
}

static int totals_write(struct store *store, const struct tree *tree)
{
	int err = 0;

	for (uint32_t i = 1; i < tree->nodes.count && !err; i++)
		err = store_stack_total_put(
			store, &(struct store_stack_total){ .stack = { i },
							    .total = tree->nodes.items[i].total });
	return err;
}

int store_totals_write(struct store *store)
{
	AUTO(tree_deinit) struct tree tree = {};
	int err;

	if ((err = nodes_read(store, &tree)) || (err = samples_read(store, &tree)))
		return err;
	for (size_t i = tree.nodes.count - 1; i > 0; i--)
		tree.nodes.items[tree.nodes.items[i].parent].total += tree.nodes.items[i].total;
	return totals_write(store, &tree);
}

// SPDX-License-Identifier: BSD-2-Clause
/* Writes the tables of the order of execution. */
#include "store/store_private.h"

static int definitions_put(struct store *store, enum store_statement which,
			   const struct store_definitions *row)
{
	return store_bytes_write(store, which, 3,
				 (uint64_t[]){ row->process.v, row->first, row->count }, row->data,
				 row->size);
}

int store_run_table_put(struct store *store, const struct store_definitions *row)
{
	return definitions_put(store, STATEMENT_RUN_TABLE_PUT, row);
}

int store_path_table_put(struct store *store, const struct store_definitions *row)
{
	return definitions_put(store, STATEMENT_PATH_TABLE_PUT, row);
}

int store_run_parent_put(struct store *store, struct process_id process, struct process_id parent,
			 uint64_t inherited)
{
	return store_numbers_write(store, STATEMENT_RUN_PARENT_PUT, 3,
				   (uint64_t[]){ process.v, parent.v, inherited });
}

int store_flow_put(struct store *store, const struct store_flow *row)
{
	return store_bytes_write(store, STATEMENT_FLOW_PUT, 9,
				 (uint64_t[]){ row->thread.v, row->row, row->instructions,
					       row->runs, row->paths, row->repeats, row->strata,
					       row->stratum_start, row->base },
				 row->data, row->size);
}

int store_cycle_table_put(struct store *store, const struct store_cycle_table *row)
{
	return store_bytes_write(store, STATEMENT_CYCLE_TABLE_PUT, 4,
				 (uint64_t[]){ row->process.v, row->level, row->first, row->count },
				 row->data, row->size);
}

int store_layer_put(struct store *store, const struct store_layer *row)
{
	return store_numbers_write(store, STATEMENT_LAYER_PUT, 7,
				   (uint64_t[]){ row->thread.v, row->level, row->symbols,
						 row->cycles, row->repeats, row->cut,
						 row->broken });
}

int store_rare_cycle_put(struct store *store, struct process_id process, unsigned level,
			 uint64_t cycles, uint64_t trips, uint64_t weight)
{
	return store_numbers_write(store, STATEMENT_RARE_CYCLE_PUT, 5,
				   (uint64_t[]){ process.v, level, cycles, trips, weight });
}

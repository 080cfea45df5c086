/* SPDX-License-Identifier: BSD-2-Clause */
/* What annotate_find.c, annotate.c and annotate_lines.c share. */
#pragma once

#include "analyse/annotate.h"

/* The columns: those from A_TOTAL on only with values. */
enum {
	A_SELF,
	A_SHARE,
	A_PART,
	A_ADDRESS,
	A_TEXT,
	A_FILE,
	A_LINE,
	A_COLUMNS,
	A_TOTAL = A_COLUMNS,
	A_DISTINCT,
	A_VALUES,
	A_ITEM,
	A_REGISTER,
	A_RUNS,
	A_VALUE_COLUMNS
};

/* Whether the table is one of a function of which only marked instructions are counted. */
bool annotate_table_is_marked(const struct table *table);
/* By block: how often it was executed by the threads that are selected; the caller's to free. */
uint64_t *annotate_executions(const struct profile *profile, const struct filter *filter);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options that each command takes, in groups as its help shows them. A group ends with a row
 * without a name, and the groups of a command end with a group without rows.
 */
#pragma once

#include "base/option.h"

/* --- options_record.c ------------------------------------------------------------------------- */
extern const struct option_group record_groups[], ctl_groups[], top_groups[];

/* --- options_engine.c ------------------------------------------------------------------------- */
extern const struct option_group trace_groups[], count_groups[], calls_groups[];

/* --- options_read.c --------------------------------------------------------------------------- */
extern const struct option_group report_groups[], annotate_groups[], diff_groups[];
extern const struct option_group merge_groups[], export_groups[], html_groups[], serve_groups[];

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A table as text for people, or as JSON for programs. Errors of the stream are the caller's to
 * look at.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "analyse/table.h"

struct text_options {
	size_t width; /* columns; 0: not limited */
	bool color;
	bool utf8; /* the reader's encoding, for the mark of shortened names */
};

void report_text(const struct table *table, const struct text_options *options, FILE *file);
/*
 * {"assay":1,"view":...,"totals":{...},"omitted":n,"rows":[...]}; views of values also have "runs"
 * and "unreadable".
 */
void report_json(const struct table *table, FILE *file);

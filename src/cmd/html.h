/* SPDX-License-Identifier: BSD-2-Clause */
/* What assay html is asked for; the rows in options_read.c fill it. */
#pragma once

#include "cmd/page_build.h"

struct html_options {
	const char *input;
	const char *output; /* "-": standard output */
	struct page_wish page;
};

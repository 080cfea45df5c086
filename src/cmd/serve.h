/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of assay serve, which the rows in options_read.c fill. */
#pragma once

#include "cmd/page_build.h"

struct serve_options {
	const char *input;
	const char *address;
	uint32_t port; /* 0: any that is free */
	bool allow_remote;
	bool allow_start;
	struct page_wish page;
	bool quiet;
	bool of_recorder; /* started by a recorder, whose end is the end of standard input */
};

/* SPDX-License-Identifier: BSD-2-Clause */
/* From profiles to what the page shows of them: for assay html and assay serve. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/progress.h"
#include "report/page.h"

struct page_wish {
	uint64_t limit; /* rows of a table */
	uint64_t functions; /* whose instructions the page has */
	struct progress *progress; /* shows how far it is; NULL: none */
};

typedef int (*page_use_fn)(const struct page_content *content, void *ctx);

/*
 * Hands the content to use(), after which it is gone. Of two profiles, the older one comes first;
 * the last one is what the page is about.
 */
int page_build(const struct page_wish *wish, const char *const paths[], size_t count,
	       page_use_fn use, void *ctx);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A profile as one page for a browser: the viewer (viewer/), and in it the data as JSON,
 * compressed. The page needs nothing else, neither the profile nor a network.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analyse/course.h"
#include "analyse/flames.h"
#include "analyse/table.h"
#include "base/array.h"
#include "base/strbuf.h"
#include "store/profile.h"

struct page_table {
	const char *summary; /* what the view is for */
	bool nested; /* some rows belong to others, and are sorted together with them */
	struct table *table; /* its view is what comes behind `assay report` */
};

/* The instructions of a function, as annotate() gives them. */
struct page_code {
	uint32_t symbol;
	struct table *table;
};

/* What the page shows of one profile; the tables are owned. */
struct page_profile {
	struct profile *profile;
	const char *name; /* of the file */
	ARRAY(struct page_table) tables;
	ARRAY(struct page_code) codes;
	ARRAY(struct flame) flames; /* of what is not samples */
	struct course course; /* without threads: there is none */
};

struct page_content {
	struct page_profile *profiles; /* of two, the older one first */
	size_t profile_count;
	const struct table *difference; /* of two; NULL: of one */
	const char *version; /* of Assay */
};

void page_profile_deinit(struct page_profile *profile);

/* Appends the data as JSON; viewer/README.md documents it. */
void page_data(const struct page_content *content, struct strbuf *ret);
/* The same, compressed with gzip; *ret is the caller's to free. */
int page_pack(const struct page_content *content, void **ret, size_t *ret_size);
/* Errors of the stream are the caller's to look at. */
int page_write(const struct page_content *content, FILE *file);
/* The page without data, which it then asks the server for that it came from. */
void page_viewer_write(FILE *file);

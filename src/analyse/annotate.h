/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The instructions of one function with their samples, values and source lines. Of a profile that
 * has executed code and no samples, how often each instruction was executed takes the place of
 * samples; of one that has marks alone, how often each marked instruction was executed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/filter.h"
#include "analyse/table.h"
#include "analyse/views.h"
#include "store/profile.h"

/*
 * A function with code of its own, and the samples taken in it, functions inlined into it included.
 */
struct annotate_match {
	uint32_t symbol;
	uint64_t samples; /* or instructions executed */
};

/*
 * The functions a name means, the busiest first: those called exactly so (*ret_exact), or else
 * those that match it as a pattern. Only functions with code count: *ret_inlined says that an
 * inlined one matches. *ret is the caller's to free.
 */
void annotate_find(const struct profile *profile, const struct filter *filter, const char *name,
		   struct annotate_match **ret, size_t *ret_count, bool *ret_exact,
		   bool *ret_inlined);

/* What instructions are counted by; the profile must hold either. */
bool annotate_is_executed(const struct profile *profile);
/*
 * Whether only marked instructions are counted: then the profile needs DOMAIN_MARKS and
 * DOMAIN_MARKED.
 */
bool annotate_is_marked(const struct profile *profile);
/* By symbol: the samples of annotate_match; the caller's to free. */
uint64_t *annotate_samples(const struct profile *profile, const struct filter *filter);

/*
 * The source line of an address where the profile has none; false: unknown. The file must outlive
 * the table.
 */
typedef bool (*annotate_line_fn)(void *ctx, uint64_t address, const char **ret_file,
				 uint32_t *ret_line);

struct annotate_request {
	const struct filter *filter; /* which samples; symbols and modules are not looked at */
	uint32_t symbol;
	const uint8_t *code; /* from the symbol's address on */
	size_t size;
	bool att; /* AT&T syntax instead of Intel's */
	struct code_source names; /* of objects; may be empty */
	const struct view_request *values; /* which values to show and how many; NULL: none */
	annotate_line_fn line; /* may be NULL */
	void *line_ctx;
};

/*
 * A row for each instruction. With values, the row shows the best item there is; if the request
 * names items, and where a comparison has its right side in memory, further ones at the same
 * instruction follow in rows of their own, without text and samples.
 */
struct table *annotate(const struct profile *profile, const struct annotate_request *request);

/* Keeps the instructions with the most samples, in their order. */
void annotate_limit(struct table *table, size_t limit);

/* The text of a source line, or NULL. Valid until the table is destroyed. */
typedef const char *(*annotate_source_fn)(void *ctx, const char *file, uint32_t line);
/*
 * The same table for people: consecutive instructions of one source line have that line's place and
 * text before them. Of marked code, the line has the count of its most executed instruction in the
 * function.
 */
struct table *annotate_interleave(const struct table *table, annotate_source_fn source, void *ctx);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What was executed, as it goes into a profile: processes, threads, modules, blocks, and how often each thread executed each
 * block. A sink of the drain.
 */
#pragma once

#include "ingest/loadmap.h"
#include "ingest/locations.h"
#include "trace/drain.h"
#include "trace/paths.h"

struct book;

struct book_block {
	struct module_id module;
	uint64_t address; /* in the module */
	uint32_t length; /* bytes */
	uint32_t instructions;
	uint64_t count; /* of all threads */
};

struct book_options {
	bool marks; /* counts only tell whether something was executed */
	struct paths *paths; /* gets the order of execution; NULL: only counts are kept */
};

int book_create(struct store *store, const struct book_options *options, struct book **ret);
void book_destroy(struct book *book);
DEFINE_AUTO(struct book, book_destroy)

struct drain_sink book_sink(struct book *book);

/* Fails with what went wrong first. To be called when all processes have ended. */
int book_finish(struct book *book, const struct drain_totals *totals);

/* From 1 on; by the ids of the profile. */
const struct book_block *book_blocks(const struct book *book, size_t *ret_count);
uint64_t book_threads_native(const struct book *book);
struct loadmap *book_loadmap(struct book *book);
struct locations *book_locations(struct book *book);

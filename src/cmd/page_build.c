// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/page_build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/annotate.h"
#include "analyse/diff.h"
#include "analyse/executed_stacks.h"
#include "analyse/views.h"
#include "base/err.h"
#include "base/mem.h"
#include "cmd/view_annotate.h"
#include "cmd/view_code.h"
#include "cmd/view_options.h"

/* Steps are views, and functions whose instructions are shown. */
static void step_tell(const struct page_wish *wish, size_t done)
{
	size_t all = wish->functions;

	for (const struct view *view = views; view->name; view++)
		all++;
	if (wish->progress)
		progress_set(wish->progress, done, all);
}

/* Whether any row has something in the column. */
static bool table_has(const struct table *table, const char *name)
{
	int column = table_column(table, name);
	bool has = false;

	for (size_t row = 0; column >= 0 && row < table->row_count; row++)
		has = has || table_row(table, row)[column].set;
	return has;
}

/* -ENODATA: the profile has nothing for the view. */
static int table_add(struct page_profile *page, const struct view *view,
		     const struct view_request *request)
{
	struct table *table;
	unsigned domains;
	int err = view_domains(view, page->profile, request, &domains);

	err = err ? err : profile_need(page->profile, domains);
	err = err ? err : view_run(view, page->profile, request, &table);
	if (err)
		return err;
	*array_push(&page->tables) =
		(struct page_table){ view->summary, !(view->takes & TAKES_SORT), table };
	return 0;
}

/* Which values come from which call site: the arguments once more, where call sites are known. */
static int callers_add(struct page_profile *page, struct view_request request)
{
	struct page_table *added;
	int err;

	request.by_caller = true;
	err = table_add(page, view_find("args"), &request);
	if (err)
		return err;
	added = &page->tables.items[page->tables.count - 1];
	added->summary = "the most common values of arguments, by the place they are passed from";
	added->table->view = "args --by-caller";
	if (!table_has(added->table, "caller")) {
		table_destroy(added->table);
		page->tables.count--;
	}
	return 0;
}

/*
 * Views that the profile has nothing for are not on the page, nor those that need a point of time.
 */
static int tables_add(struct page_profile *page, const struct page_wish *wish,
		      struct code_source code)
{
	struct view_request request = { .limit = wish->limit,
					.min_share = -1,
					.min_invariance = -1,
					.people = true,
					.code = code };

	for (const struct view *view = views; view->name; view++) {
		int err = view->takes & TAKES_POSITION ? 0 : table_add(page, view, &request);

		if (!err && !strcmp(view->name, "args"))
			err = callers_add(page, request);
		step_tell(wish, (size_t)(view - views) + 1);
		if (err && err != -ENODATA)
			return err;
	}
	return 0;
}

static int code_add(struct page_profile *page, struct view_code *source, uint32_t symbol)
{
	struct table *table;
	int err = view_annotate(page->profile, source, symbol, &table);

	if (err)
		return err == -ENOENT ? 0 : err;
	*array_push(&page->codes) = (struct page_code){ symbol, table };
	return 0;
}

struct busy {
	uint32_t symbol;
	uint64_t samples;
};

static int busy_order(const void *left, const void *right)
{
	const struct busy *a = left, *b = right;

	if (a->samples != b->samples)
		return a->samples > b->samples ? -1 : 1;
	return (a->symbol > b->symbol) - (a->symbol < b->symbol);
}

/* The instructions of the functions with the most samples, where the code can be had. */
static int codes_add(struct page_profile *page, const struct page_wish *wish,
		     struct view_code *source)
{
	const struct filter everything = {};
	AUTO(free_ptr) uint64_t *samples = annotate_samples(page->profile, &everything);
	AUTO(free_ptr)
	struct busy *busy = mem_zalloc((page->profile->symbol_count + 1) * sizeof(*busy));
	size_t count = 0, first = 0;
	int err = 0;

	for (uint32_t i = 1; i < page->profile->symbol_count; i++)
		if (samples[i])
			busy[count++] = (struct busy){ i, samples[i] };
	qsort(busy, count, sizeof(*busy), busy_order);
	for (; views[first].name;)
		first++;
	for (size_t i = 0; i < count && !err && page->codes.count < wish->functions; i++) {
		err = code_add(page, source, busy[i].symbol);
		step_tell(wish, first + page->codes.count);
	}
	return err;
}

/*
 * Adds the flame graph of executed code, if the profile has its order: without the order, each
 * function would stand by itself.
 */
static int flame_executed_add(struct page_profile *page, struct view_code *source)
{
	struct code_source code = view_code_source(source);
	int err;

	if (!profile_holds(page->profile, DOMAIN_PATHS))
		return 0;
	err = profile_need(page->profile, DOMAIN_PATHS | DOMAIN_EXECUTED);
	if (err || order_check(page->profile))
		return err;
	return flame_executed(array_push(&page->flames), page->profile, &code);
}

/* Call trees of what is not samples. */
static int flames_add(struct page_profile *page, struct view_code *source)
{
	struct profile *profile = page->profile;
	int err = 0;

	if (profile_holds(profile, DOMAIN_WAITS))
		err = profile_need(profile, DOMAIN_WAITS);
	if (!err && profile->wait_count)
		flame_waits(array_push(&page->flames), profile);
	if (!err && profile_holds(profile, DOMAIN_CALLS))
		err = profile_need(profile, DOMAIN_CALLS);
	if (!err && profile->call_node_count > 1)
		err = flame_calls(array_push(&page->flames), profile);
	return err ? err : flame_executed_add(page, source);
}

enum { COURSE_RESOLUTION = 1024 };

/* As views do: a profile whose order is of another version has no such picture. */
static int course_add(struct page_profile *page)
{
	static const struct filter everything;
	int err;

	if (!profile_holds(page->profile, DOMAIN_PATHS))
		return 0;
	err = profile_need(page->profile, DOMAIN_PATHS | DOMAIN_EXECUTED);
	if (!err && order_check(page->profile))
		return 0;
	return err ? err
		   : course_make(page->profile, &everything, COURSE_RESOLUTION, &page->course);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* details false: only the call trees and the totals. */
static int profile_add(struct page_content *content, struct profile *profile, const char *path,
		       const struct page_wish *wish, struct view_code *source, bool details)
{
	struct page_profile *page = &content->profiles[content->profile_count++];
	int err = 0;

	*page = (struct page_profile){ .profile = profile, .name = last_part(path) };
	view_code_init(source, path, profile);
	if (details)
		err = tables_add(page, wish, view_code_source(source));
	if (!err)
		err = flames_add(page, source);
	if (details && !err)
		err = course_add(page);
	if (details && !err &&
	    (profile_holds(profile, DOMAIN_SAMPLES) || annotate_is_executed(profile)))
		err = codes_add(page, wish, source);
	return err;
}

static int executed_difference(struct profile *const profiles[], struct view_code sources[],
			       const struct diff_request *request, struct table **ret)
{
	struct profile made[2] = {};
	int err = 0;

	for (int i = 0; i < 2 && !err; i++) {
		struct code_source code = view_code_source(&sources[i]);

		err = profile_need(profiles[i], DOMAIN_EXECUTED);
		err = err ? err : executed_stacks_init(&made[i], profiles[i], &code);
	}
	err = err ? err : diff_run(&made[0], &made[1], request, ret);
	if (!err)
		executed_totals_own(*ret);
	for (int i = 0; i < 2; i++)
		executed_stacks_deinit(&made[i]);
	return err;
}

static bool both_hold(struct profile *const profiles[], unsigned domain)
{
	return profile_holds(profiles[0], domain) && profile_holds(profiles[1], domain);
}

/* Waits and calls have flame graphs that show what changed, and no table: *ret is left alone. */
static int difference_make(struct profile *const profiles[], struct view_code sources[],
			   const struct page_wish *wish, struct table **ret)
{
	struct diff_request request = { .limit = wish->limit };
	int err;

	if (both_hold(profiles, DOMAIN_SAMPLES))
		return diff_run(profiles[0], profiles[1], &request, ret);
	request.exact = true;
	if (both_hold(profiles, DOMAIN_EXECUTED))
		return executed_difference(profiles, sources, &request, ret);
	if (both_hold(profiles, DOMAIN_CALLS) || both_hold(profiles, DOMAIN_WAITS))
		return 0;
	err = profile_holds_check(profiles[0], DOMAIN_SAMPLES);
	return err ? err : profile_holds_check(profiles[1], DOMAIN_SAMPLES);
}

/* With what the call tree and the timeline need; views say what they need besides. */
static int profile_get(const char *path, struct profile **ret)
{
	unsigned domains = DOMAIN_TASKS | DOMAIN_TICKS | DOMAIN_MOMENTS | DOMAIN_NAMES |
			   DOMAIN_CODE | DOMAIN_SAMPLES;
	int err = view_profile_open(path, ret);

	if (!err && profile_holds(*ret, DOMAIN_VALUES))
		domains |= DOMAIN_VALUES;
	return err ? err : profile_need(*ret, domains);
}

int page_build(const struct page_wish *wish, const char *const paths[], size_t count,
	       page_use_fn use, void *ctx)
{
	struct profile *profiles[2] = {};
	struct view_code sources[2] = {};
	struct page_profile pages[2] = {};
	struct page_content content = { .profiles = pages, .version = ASSAY_VERSION };
	AUTO(table_destroy_auto) struct table *difference = NULL;
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		err = profile_get(paths[i], &profiles[i]);
		err = err ? err
			  : profile_add(&content, profiles[i], paths[i], wish, &sources[i],
					i + 1 == count);
	}
	if (!err && count == 2)
		err = difference_make(profiles, sources, wish, &difference);
	content.difference = difference;
	err = err ? err : use(&content, ctx);
	for (size_t i = 0; i < count; i++) {
		page_profile_deinit(&pages[i]);
		if (profiles[i])
			view_code_deinit(&sources[i]);
		profile_destroy(profiles[i]);
	}
	return err;
}

// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs a view: loads the domains that its row in views.def names, calls its function, then sorts
 * and limits what came back.
 *
 *	in	a profile and a request
 *	out	a table, sorted, limited and with its totals
 *	owner	the caller, who destroys the table
 */
#include "analyse/views.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "analyse/executed_stacks.h"
#include "analyse/meta.h"
#include "analyse/moments.h"
#include "analyse/names.h"
#include "analyse/order.h"
#include "analyse/sites.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"

/*
 * Views of trees and paths leave out rows below this share unless --min-share says otherwise: they
 * would be thousands.
 */
#define NESTED_MIN_SHARE 0.005

/* From this share of its most common value on, a place is called semi-invariant. */
#define SEMI_INVARIANT 0.5
#define BLOCK_INVARIANT 0.9

enum { WHEN_WIDTH = 24 }; /* of a bar */

const struct view views[] = {
#define VIEW(name, text, ...) { #name, text, view_##name, __VA_ARGS__ },
#include "analyse/views.def"
	{},
};

const struct view *view_find(const char *name)
{
	for (const struct view *view = views; view->name; view++)
		if (!strcmp(view->name, name))
			return view;
	return NULL;
}

static int sort_column(const struct table *table, const char *name)
{
	struct strbuf names = {};
	int column = table_column(table, name);

	if (column >= 0)
		return column;
	for (size_t i = 0; i < table->column_count; i++)
		if (table->columns[i].use != COLUMN_PEOPLE)
			strbuf_printf(&names, "%s%s", names.length ? ", " : "",
				      table->columns[i].name);
	err_set(-EINVAL, "--sort %s: the view %s has no such column; it has %s", name, table->view,
		strbuf_text(&names));
	strbuf_deinit(&names);
	return -EINVAL;
}

static bool has_main_recording(const struct profile *profile)
{
	for (int i = 0; i < RECORDING_KIND_COUNT; i++)
		if (recording_kind_row(i)->flags & RECORDING_IS_MAIN &&
		    profile_recording(profile, i))
			return true;
	return false;
}

/* A profile without any recording shows that nothing was sampled. */
bool profile_holds(const struct profile *profile, enum profile_domain domain)
{
	static const enum profile_domain domains[] = {
#define X(name, ...) DOMAIN_##name,
		RECORDING_KINDS(X)
#undef X
	};

	if (domain == DOMAIN_PATHS)
		return profile->flow_count || profile_meta(profile, META_ORDER_FORMAT);
	if (domain == DOMAIN_LINES)
		domain = DOMAIN_EXECUTED;
	if (domain == DOMAIN_SAMPLES && !has_main_recording(profile))
		return true;
	for (int i = 0; i < RECORDING_KIND_COUNT; i++)
		if (domains[i] == domain)
			return profile_recording(profile, i);
	return true;
}

/* The view that shows best what a domain holds. */
static const struct view *view_of_domain(enum profile_domain domain)
{
	const struct view *view = views;

	if (domain & (DOMAIN_SAMPLES | DOMAIN_EXECUTED))
		return views;
	if (domain == DOMAIN_CALLS)
		return view_find("tree");
	while (view->name && !(view->needs & domain))
		view++;
	return view->name ? view : NULL;
}

static const enum profile_domain domains_of_kinds[] = {
#define X(name, ...) DOMAIN_##name,
	RECORDING_KINDS(X)
#undef X
};

const struct view *profile_view(const struct profile *profile)
{
	const struct view *found = NULL;

	for (int i = 0; i < RECORDING_KIND_COUNT; i++) {
		if (!profile_recording(profile, i))
			continue;
		if (domains_of_kinds[i] & (DOMAIN_SAMPLES | DOMAIN_EXECUTED | DOMAIN_CALLS))
			return views;
		if (!found)
			found = view_of_domain(domains_of_kinds[i]);
	}
	return found ? found : views;
}

/* "samples ('assay report functions'), waits ('assay report waits')" */
static void recordings_put(const struct profile *profile, struct strbuf *ret)
{
	for (int i = 0; i < RECORDING_KIND_COUNT; i++) {
		const struct view *view = view_of_domain(domains_of_kinds[i]);

		if (view && profile_recording(profile, i))
			strbuf_printf(ret, "%s%s ('assay report %s')", ret->length ? ", " : "",
				      recording_kind_row(i)->called, view->name);
	}
}

static int lacks(const struct profile *profile, const char *text, const char *command,
		 const char *pronoun)
{
	struct strbuf has = {};
	int err;

	recordings_put(profile, &has);
	err = err_set(-ENODATA, "this profile has no %s; '%s' records %s%s%s", text, command,
		      pronoun, has.length ? ". It has " : "", strbuf_text(&has));
	strbuf_deinit(&has);
	return err;
}

static int kinds_check(const struct profile *profile, unsigned domains, unsigned main)
{
	for (int i = 0; i < RECORDING_KIND_COUNT; i++) {
		const struct recording_kind_row *row = recording_kind_row(i);

		if (domains & domains_of_kinds[i] && (row->flags & RECORDING_IS_MAIN) == main &&
		    !profile_holds(profile, domains_of_kinds[i]))
			return lacks(profile, row->called, row->command,
				     i == RECORDING_EXECUTED ? "it" : "them");
	}
	return 0;
}

/*
 * If several domains are missing, the message names the one whose command records the others as
 * well: first the order and the lines of executed code, then recordings that accompany samples,
 * then main ones.
 */
int profile_holds_check(const struct profile *profile, unsigned domains)
{
	int err;

	if (domains & DOMAIN_PATHS && !profile_holds(profile, DOMAIN_PATHS))
		return lacks(profile, "order of execution", "assay trace -- COMMAND", "it");
	if (domains & DOMAIN_LINES && !profile_holds(profile, DOMAIN_LINES))
		return lacks(profile, "lines of source", "assay trace --tool coverage -- COMMAND",
			     "them");
	err = kinds_check(profile, domains, 0);
	return err ? err : kinds_check(profile, domains, RECORDING_IS_MAIN);
}

static bool is_measured_by(const struct view *view, enum view_metric metric)
{
	return !view->metrics || view->metrics >> metric & 1;
}

/* Not if what is asked for can only be said of samples. */
static bool is_joined(const struct view *view, const struct profile *profile,
		      const struct view_request *wish)
{
	return view->joins && !wish->bottom_up && !wish->has_time &&
	       profile_holds(profile, DOMAIN_CALLS) && profile_holds(profile, DOMAIN_SAMPLES);
}

/* What stands beside calls. */
static unsigned joined_domains(const struct view *view, const struct profile *profile,
			       const struct view_request *wish)
{
	unsigned domains = 0;

	if (is_joined(view, profile, wish))
		domains |= DOMAIN_SAMPLES;
	if (view->joins && !wish->has_time && profile_holds(profile, DOMAIN_WAITS))
		domains |= DOMAIN_WAITS;
	return domains;
}

static enum view_metric metric_choose(const struct view *view, const struct profile *profile,
				      const struct view_request *wish)
{
	if (wish->metric != METRIC_AUTO)
		return wish->metric;
	if (is_joined(view, profile, wish))
		return METRIC_CALLS;
	if (profile_holds(profile, DOMAIN_SAMPLES))
		return METRIC_SAMPLES;
	if (view->nested && profile_holds(profile, DOMAIN_CALLS))
		return METRIC_CALLS;
	if (profile_holds(profile, DOMAIN_EXECUTED) && is_measured_by(view, METRIC_INSTRUCTIONS))
		return METRIC_INSTRUCTIONS;
	return profile_holds(profile, DOMAIN_CALLS) && is_measured_by(view, METRIC_CALLS)
		       ? METRIC_CALLS
		       : METRIC_SAMPLES;
}

static int metric_refuse(const struct view *view, enum view_metric metric)
{
	static const char *const names[] = {
#define X(name, text, domain, help) [METRIC_##name] = text,
		VIEW_METRICS(X)
#undef X
	};

	return err_set(-EINVAL, "--metric %s: the view %s cannot be measured by it", names[metric],
		       view->name);
}

static unsigned metric_domains(enum view_metric metric)
{
	static const unsigned domains[] = {
#define X(name, text, domain, help) [METRIC_##name] = domain,
		VIEW_METRICS(X)
#undef X
	};

	return domains[metric];
}

int view_domains(const struct view *view, const struct profile *profile,
		 const struct view_request *request, unsigned *ret)
{
	unsigned needs = view->needs;
	int err;

	if (view->takes & TAKES_METRIC) {
		enum view_metric metric = metric_choose(view, profile, request);

		if (!is_measured_by(view, metric))
			return metric_refuse(view, metric);
		needs |= metric_domains(metric);
		if (view->nested && metric == METRIC_INSTRUCTIONS)
			needs |= DOMAIN_PATHS;
		if (metric_domains(metric) == DOMAIN_CALLS)
			needs |= joined_domains(view, profile, request);
	}
	if (request->by_phase)
		needs |= DOMAIN_PATHS;
	if (request->has_time && !(needs & DOMAIN_SAMPLES))
		return err_set(-EINVAL, "only of samples it is known when they were taken; leave "
					"out --from and --to, or choose --metric samples");
	err = profile_holds_check(profile, needs);
	if (err)
		return err;
	*ret = needs | view->uses | (request->has_time ? DOMAIN_MOMENTS : 0);
	return 0;
}

static int request_settle(const struct view *view, const struct profile *profile,
			  struct view_request *wish)
{
	unsigned needs = 0;
	int err = view_domains(view, profile, wish, &needs);

	if (!err && view->needs & DOMAIN_PATHS)
		err = order_check(profile);
	if (!err && wish->items.count)
		err = sites_items_check(profile, &wish->items, "item");
	wish->metric = metric_choose(view, profile, wish);
	if (wish->metric == METRIC_ALLOCATED) { /* a short way to say it */
		wish->metric = METRIC_CALLS;
		wish->cost = COST_BYTES;
	}
	if (wish->min_share < 0)
		wish->min_share = view->min_share;
	if (wish->min_invariance < 0)
		wish->min_invariance = view->min_invariance;
	return err;
}

/* The first pattern that nothing in the profile matches; NULL: there is none. */
static const char *pattern_without_match(const struct profile *profile, const struct filter *filter,
					 const char **ret_option)
{
	bool found = false;

	*ret_option = "symbol";
	for (uint32_t i = 0; i < profile->symbol_count && !found; i++)
		found = filter_symbol(filter, profile, i);
	if (!found && filter->symbols.count)
		return filter->symbols.items[0];
	*ret_option = "module";
	found = false;
	for (uint32_t i = 0; i < profile->module_count && !found; i++)
		found = filter_module(filter, profile, i);
	return !found && filter->modules.count ? filter->modules.items[0] : NULL;
}

static bool some_thread_matches(const struct profile *profile, const struct filter *filter)
{
	for (uint32_t i = 1; i < profile->thread_count; i++)
		if (filter_thread(filter, profile, i))
			return true;
	return false;
}

/* Why no thread is chosen; NULL: there is one. */
static const char *reason_of_no_thread(const struct profile *profile, const struct filter *filter)
{
	const struct filter pid = { .pids = filter->pids }, tid = { .tids = filter->tids };
	const struct filter uid = { .uids = filter->uids }, comm = { .comms = filter->comms };
	const struct filter all = { filter->pids, filter->tids, filter->uids, filter->comms };

	if (!some_thread_matches(profile, &pid))
		return "No process of this profile has what --pid says; 'assay report processes' "
		       "lists them.";
	if (!some_thread_matches(profile, &tid))
		return "No thread of this profile has what --tid says; 'assay report threads' "
		       "lists them.";
	if (!some_thread_matches(profile, &uid))
		return "No process of this profile has what --uid says; 'assay report processes' "
		       "lists them.";
	if (!some_thread_matches(profile, &comm))
		return "No thread of this profile has a name as --comm says; 'assay report "
		       "threads' lists them.";
	return some_thread_matches(profile, &all)
		       ? NULL
		       : "Each of --pid, --tid, --uid and --comm chooses something, but no thread "
			 "is chosen by all that are given.";
}

/* Why a recording that samples has none; NULL: it has some, or there is no such recording. */
static const char *reason_of_no_sample(const struct view *view, struct table *table,
				       const struct profile *profile)
{
	const struct profile_recording *samples = profile_recording(profile, RECORDING_SAMPLES);
	const struct profile_recording *values = profile_recording(profile, RECORDING_VALUES);
	const char *event = profile_fact(profile, RECORDING_SAMPLES, META_EVENT);
	uint64_t period = meta_period(profile);

	if (samples && samples->seen && values && !values->seen)
		return "No sample had a run of instructions to take values from: record longer, or "
		       "with --run-every 1.";
	if (samples && values && values->seen && view->needs & DOMAIN_VALUES &&
	    !(view->takes & TAKES_INVARIANCE))
		return "No run came by what this view shows; 'assay report runs' says how they "
		       "ended.";
	if (!samples || samples->seen)
		return NULL;
	if (event && strcmp(event, "cpu-clock") != 0)
		return table_own(
			table, mem_printf("No sample was taken: there were %s %s; record longer%s.",
					  period == 1 ? "no" : "too few", event,
					  period > 1 ? ", or with a smaller --count" : ""));
	if (!period)
		return "No sample was taken: record longer, or with --off-cpu what threads wait "
		       "for.";
	return table_own(
		table, mem_printf("No sample was taken: what was recorded used less of a CPU than "
				  "the %.1f ms between two samples. Record longer, with a larger "
				  "-F, or with --off-cpu what threads wait for.",
				  (double)period / NS_PER_MS));
}

/* Why a table has no rows. */
static const char *reason_of_nothing(const struct view *view, struct table *table,
				     const struct profile *profile, const struct view_request *wish)
{
	const struct filter *filter = &wish->filter;
	const char *option, *pattern = pattern_without_match(profile, filter, &option);
	const char *reason;

	if (pattern)
		return table_own(table, mem_printf("Nothing in this profile matches --%s %s.",
						   option, pattern));
	if (table->omitted)
		return "Everything is below --min-share: give a smaller one.";
	reason = profile->thread_count > 1 ? reason_of_no_thread(profile, filter) : NULL;
	if (reason)
		return reason;
	if (view->takes & TAKES_LEVEL && table->totals.seen)
		return "No cycle of this level is kept: those that were run once are only counted, "
		       "by 'assay report layers'.";
	if (!filter_is_empty(filter))
		return "What the filters choose has nothing that this view shows.";
	reason = reason_of_no_sample(view, table, profile);
	if (reason)
		return reason;
	if (view->takes & TAKES_INVARIANCE)
		return table_own(table,
				 mem_printf("No place has a value with a share of %g: give a "
					    "smaller --min-invariance, or record for longer.",
					    wish->min_invariance));
	return table->totals.kept || !table->totals.seen
		       ? "Nothing of this kind was recorded."
		       : "Everything that was seen was lost: 'assay report losses' says why.";
}

/* The view of stacks that are made of executed code. */
static int executed_run(const struct view *view, const struct profile *profile,
			const struct view_request *wish, struct table **ret)
{
	struct profile part;
	int err = order_check(profile);

	if (err)
		return err;
	err = executed_stacks_init(&part, profile, &wish->code);
	err = err ? err : view->run(&part, wish, ret);
	if (!err)
		executed_totals_own(*ret);
	executed_stacks_deinit(&part);
	return err;
}

/* The view of all samples, or of those of some time. */
static int part_run(const struct view *view, const struct profile *profile,
		    const struct view_request *wish, struct table **ret)
{
	struct profile part;
	int err;

	if (view->nested && wish->metric == METRIC_INSTRUCTIONS)
		return executed_run(view, profile, wish, ret);
	if (!wish->has_time)
		return view->run(profile, wish, ret);
	if (wish->to && wish->to <= wish->from)
		return err_set(-EINVAL, "--to is not later than --from");
	if (wish->from < moments_begin(profile) && !moments_complete(profile))
		return err_set(-EINVAL,
			       "this profile keeps when samples were taken for the last %d seconds "
			       "of its recording: choose --from %u or later",
			       STORE_MOMENTS_KEPT, moments_begin(profile));
	moments_init(&part, profile, wish->from, wish->to ? wish->to : UINT32_MAX);
	err = view->run(&part, wish, ret);
	moments_deinit(&part);
	return err;
}

int view_run(const struct view *view, const struct profile *profile,
	     const struct view_request *request, struct table **ret)
{
	AUTO(table_destroy_auto) struct table *table = NULL;
	struct view_request wish = *request;
	int err = request_settle(view, profile, &wish);

	err = err ? err : part_run(view, profile, &wish, &table);
	if (err)
		return err;
	if (wish.sort) {
		int column = sort_column(table, wish.sort);

		if (column < 0)
			return column;
		table_sort(table, (size_t)column);
	}
	if (wish.limit && !view->limits)
		table_limit(table, wish.limit);
	if (!table->row_count && !table->empty)
		table->empty = reason_of_nothing(view, table, profile, &wish);
	table->filtered = !(view->needs & DOMAIN_VALUES) && !filter_is_empty(&request->filter);
	*ret = take_ptr(table);
	return 0;
}

const char *view_function_text(struct table *table, const char *name, bool inlined)
{
	return inlined ? table_own(table, mem_printf("%s (inlined)", name)) : name;
}

const char *view_titled_text(struct table *table, const char *name, const char *module)
{
	bool bare = *module != '[';

	return table_own(table,
			 mem_printf("%s %s%s%s", name, bare ? "[" : "", module, bare ? "]" : ""));
}

const char *view_when_text(struct table *table, uint64_t begin, uint64_t end, uint64_t all)
{
	char text[WHEN_WIDTH + 1] = {};
	double scale = all ? (double)WHEN_WIDTH / (double)all : 0;
	size_t first = (size_t)((double)begin * scale), last = (size_t)((double)end * scale);

	memset(text, '.', WHEN_WIDTH);
	for (size_t i = first; i < WHEN_WIDTH && (i < last || i == first); i++)
		text[i] = '#';
	return table_own(table, mem_strdup(text));
}

const char *view_place_text(struct table *table, const char *file, uint32_t line)
{
	if (!file)
		return "";
	return line ? table_own(table, mem_printf("%s:%u", file, line)) : file;
}

const char *view_offset_text(struct table *table, const struct profile *profile, uint32_t location)
{
	uint32_t symbol = location_function(profile, location);
	uint64_t address = profile->locations[location].address;

	if (!symbol || address <= profile->symbols[symbol].address)
		return NULL;
	return table_own(table,
			 mem_printf("+0x%" PRIx64, address - profile->symbols[symbol].address));
}

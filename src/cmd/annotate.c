// SPDX-License-Identifier: BSD-2-Clause
/* assay annotate: the instructions of a function with their samples and values. */
#include "analyse/annotate.h"

#include <errno.h>
#include <inttypes.h>

#include "analyse/meta.h"
#include "analyse/names.h"
#include "analyse/sites.h"
#include "base/err.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/strbuf.h"
#include "cmd/view_code.h"
#include "cmd/view_options.h"
#include "report/source.h"
#include "base/utf8.h"
#include "symbols/symbols.h"

enum { MATCHES_SHOWN = 20 };

struct annotation_request {
	struct view_options options;
	const char *name;
};

static int matches_list(const struct profile *profile, const char *name,
			const struct annotate_match *matches, size_t count)
{
	struct strbuf list = {};

	for (size_t i = 0; i < count && i < MATCHES_SHOWN; i++) {
		const struct profile_symbol *symbol = &profile->symbols[matches[i].symbol];

		strbuf_printf(&list, "\n  %8" PRIu64 " %s  ", matches[i].samples,
			      annotate_is_executed(profile) || annotate_is_marked(profile)
				      ? "instructions"
				      : "samples");
		utf8_escape(&list, name_of_symbol(profile, matches[i].symbol));
		strbuf_puts(&list, "  [");
		utf8_escape(&list, name_of_module(profile, symbol->module));
		strbuf_puts(&list, "]");
	}
	if (count > MATCHES_SHOWN)
		strbuf_printf(&list, "\n  and %zu more", count - MATCHES_SHOWN);
	log_error("%zu functions match '%s'; give the whole name of one, or --module:%s", count,
		  name, strbuf_text(&list));
	strbuf_deinit(&list);
	return -ENOTUNIQ;
}

/* -ENOTUNIQ: the matches have been listed. */
static int symbol_choose(const struct profile *profile, const struct annotation_request *request,
			 uint32_t *ret)
{
	AUTO(free_ptr) struct annotate_match *matches = NULL;
	bool exact, inlined;
	size_t count;

	annotate_find(profile, &request->options.request.wish.filter, request->name, &matches,
		      &count, &exact, &inlined);
	if (!count && inlined)
		return err_set(-ENOENT,
			       "%s is only ever inlined and has no code of its own; see "
			       "'assay report callgraph --symbol %s' for the functions that it is "
			       "inlined into, or 'assay report lines --symbol %s'",
			       request->name, request->name, request->name);
	if (!count && annotate_is_marked(profile))
		return err_set(-ENOENT,
			       "%s has no marked code of a function called '%s' that was "
			       "executed; 'assay report marks' lists the marks",
			       request->options.input, request->name);
	if (!count)
		return err_set(-ENOENT,
			       "%s has nothing of a function called '%s'; 'assay report' "
			       "lists those that have",
			       request->options.input, request->name);
	if (count > 1 && !exact)
		return matches_list(profile, request->name, matches, count);
	if (count > 1)
		log_info("%zu functions are called %s; this is the busiest (--module chooses)",
			 count, request->name);
	*ret = matches[0].symbol;
	return 0;
}

static int code_get(struct view_code *source, const struct annotation_request *request,
		    uint32_t symbol, void **ret, size_t *ret_size)
{
	int err = view_code_get(source, symbol, ret, ret_size);

	if (err == -ENOENT)
		return err_set(
			-ENOENT,
			"the code of %s is neither in the profile nor in a file that is here as it "
			"ran; code that a program made can be had from a jitdump file, or while "
			"the "
			"program still runs when the recording ends (-p)",
			request->name);
	return err;
}

/*
 * Values are shown where there are any, unless processes or threads are chosen, which they are not
 * kept by; asked for by name, they must be there.
 */
static int values_choose(const struct annotation_request *request, const struct profile *profile,
			 const struct view_request **ret)
{
	const struct view_request *wish = &request->options.request.wish;
	const struct filter *filter = &wish->filter;
	int err = profile_holds_check(profile, DOMAIN_VALUES);

	if (!err && (filter->pids.count || filter->tids.count || filter->comms.count))
		err = err_set(-EINVAL, "--values: values are not kept by process or thread; leave "
				       "out --pid, --tid and --comm");
	if (!err)
		err = sites_items_check(profile, &wish->items, "values");
	if (err)
		return wish->items.count ? err : 0;
	*ret = wish;
	return 0;
}

static int table_print(const struct annotation_request *request,
		       const struct sources_reader *reader, struct table *table)
{
	AUTO(table_destroy_auto) struct table *people = NULL;

	table->filtered = !filter_is_empty(&request->options.request.wish.filter);
	if (request->options.request.wish.limit)
		annotate_limit(table, request->options.request.wish.limit);
	if (request->options.request.format == FORMAT_JSON)
		return view_table_print(&request->options, table);
	people = annotate_interleave(table, sources_reader_line, (void *)reader);
	return view_table_print(&request->options, people);
}

/* Marks that the kernel counts have visits only, so there are no counts of instructions. */
static int marked_get(struct profile *profile, unsigned domains)
{
	int err = profile_need(profile, domains);

	if (err || profile->mark_code_count)
		return err;
	if (meta_by_kernel(profile))
		return err_set(-ENODATA, "the kernel counted these marks, which says nothing of "
					 "single instructions; 'assay count --by engine' does");
	return err_set(-ENODATA, "no marked code was executed; 'assay report marks' has what was "
				 "marked");
}

static int profile_get(const char *path, struct profile **ret)
{
	unsigned domains = DOMAIN_TASKS | DOMAIN_CODE | DOMAIN_NAMES;
	int err = view_profile_open(path, ret);

	if (err)
		return err;
	if (annotate_is_executed(*ret))
		return profile_need(*ret, domains | DOMAIN_EXECUTED);
	if (annotate_is_marked(*ret))
		return marked_get(*ret, domains | DOMAIN_MARKS | DOMAIN_MARKED);
	domains |= DOMAIN_SAMPLES;
	err = profile_holds_check(*ret, DOMAIN_SAMPLES);
	if (!err && profile_holds(*ret, DOMAIN_VALUES))
		domains |= DOMAIN_VALUES;
	return err ? err : profile_need(*ret, domains);
}

/* The sources of a table, which must outlive it. */
struct shown {
	struct profile *profile;
	struct view_code source;
	struct sources_reader reader;
	struct table *table;
};

static void shown_deinit(struct shown *shown)
{
	sources_destroy(shown->reader.sources);
	table_destroy(shown->table);
	view_code_deinit(&shown->source);
	profile_destroy(shown->profile);
}

static int table_make(const struct annotation_request *request, struct shown *shown)
{
	AUTO(progress_end) struct progress progress;
	AUTO(free_ptr) void *code = NULL;
	struct view_code *source = &shown->source;
	struct annotate_request wish = { .filter = &request->options.request.wish.filter,
					 .att = request->options.att };
	int err;

	progress_begin(&progress, "looking at %s", request->name);
	err = profile_get(request->options.input, &shown->profile);
	err = err ? err : values_choose(request, shown->profile, &wish.values);
	err = err ? err : symbol_choose(shown->profile, request, &wish.symbol);
	if (err)
		return err;
	view_code_init(source, request->options.input, shown->profile);
	shown->reader = (struct sources_reader){ sources_create(shown->profile),
						 shown->profile->symbols[wish.symbol].module };
	wish.line_ctx = view_code_symbols(source, shown->reader.module);
	wish.line = wish.line_ctx ? view_code_line : NULL;
	wish.names = view_code_source(source);
	err = code_get(source, request, wish.symbol, &code, &wish.size);
	if (err)
		return err;
	wish.code = code;
	shown->table = annotate(shown->profile, &wish);
	return 0;
}

static int function_show(const struct annotation_request *request)
{
	AUTO(shown_deinit) struct shown shown = {};
	int err = table_make(request, &shown);

	return err ? err : table_print(request, &shown.reader, shown.table);
}

static void annotation_request_deinit(struct annotation_request *request)
{
	view_options_deinit(&request->options);
}

int cmd_annotate(const struct command *command, int argc, char **argv)
{
	AUTO(annotation_request_deinit) struct annotation_request request = {};
	int first, err = view_options_parse(&request.options, command, argc, argv, &first);

	if (!err && request.options.request.options.help)
		return command_help(command);
	if (!err && argc - first != 1)
		err = err_set(-EINVAL, "annotate takes the name of one function");
	if (err)
		return command_usage_error(command);
	request.name = argv[first];
	err = function_show(&request);
	if (err && err != -ENOTUNIQ)
		command_failure();
	return err ? EXIT_FAILED : EXIT_DONE;
}

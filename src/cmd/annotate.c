// SPDX-License-Identifier: BSD-2-Clause
/* assay annotate: the instructions of a function with their samples and values. */
#include "analyse/annotate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "analyse/names.h"
#include "analyse/sites.h"
#include "base/err.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cmd/cmd.h"
#include "cmd/view_code.h"
#include "cmd/view_options.h"
#include "report/source.h"
#include "report/utf8.h"
#include "symbols/symbols.h"

enum { OPTION_ATT = VIEW_OWN, MATCHES_SHOWN = 20 };

static const struct option long_options[] = {
	VIEW_FILE_OPTIONS,
	VIEW_SHOW_OPTIONS,
	VIEW_FILTER_OPTIONS,
	{ "limit", required_argument, NULL, VIEW_LIMIT },
	{ "att", no_argument, NULL, OPTION_ATT },
	{ "values", required_argument, NULL, VIEW_ITEM },
	{ "top", required_argument, NULL, VIEW_TOP },
	{},
};

static const char usage[] =
	"usage: assay annotate SYMBOL [options]\n"
	"\n"
	"The instructions of a function with the samples and the values taken at each, and its "
	"source\n"
	"lines where the files can be read. SYMBOL is the function's name, or a part of it that "
	"only one\n"
	"function has.\n"
	"\n"
	"      --att            AT&T syntax instead of Intel's\n"
	"      --limit N        only the N instructions with the most samples\n"
	"      --values ITEM[,ITEM...]\n"
	"                       these values, not the best of each instruction\n"
	"      --top N          values shown at each instruction (3)\n" VIEW_FILTER_HELP
		VIEW_SHOW_HELP VIEW_FILE_HELP;

struct request {
	struct view_options options;
	const char *name;
	bool att;
};

static bool line_of(void *ctx, uint64_t address, const char **ret_file, uint32_t *ret_line)
{
	struct symbol_answer answer;

	if (symbols_resolve(ctx, address, &answer) || !answer.frame_count || !answer.frames[0].file)
		return false;
	*ret_file = answer.frames[0].file;
	*ret_line = answer.frames[0].line;
	return true;
}

static const char *source_of(void *ctx, const char *file, uint32_t line)
{
	return sources_line(ctx, file, line);
}

static int matches_list(const struct profile *profile, const char *name,
			const struct annotate_match *matches, size_t count)
{
	struct strbuf list = {};

	for (size_t i = 0; i < count && i < MATCHES_SHOWN; i++) {
		const struct profile_symbol *symbol = &profile->symbols[matches[i].symbol];

		strbuf_printf(&list, "\n  %8" PRIu64 " samples  ", matches[i].samples);
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
static int symbol_choose(const struct profile *profile, const struct request *request,
			 uint32_t *ret)
{
	AUTO(free_ptr) struct annotate_match *matches = NULL;
	bool exact, inlined;
	size_t count;

	annotate_find(profile, &request->options.request.filter, request->name, &matches, &count,
		      &exact, &inlined);
	if (!count && inlined)
		return err_set(-ENOENT,
			       "%s is only ever inlined and has no code of its own; see "
			       "'assay report callgraph --symbol %s' for the functions that it is "
			       "inlined into, or 'assay report lines --symbol %s'",
			       request->name, request->name, request->name);
	if (!count)
		return err_set(-ENOENT,
			       "%s has no samples in a function called '%s'; 'assay report' "
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

static int code_get(struct view_code *source, const struct request *request, uint32_t symbol,
		    void **ret, size_t *ret_size)
{
	int err = view_code_get(source, symbol, ret, ret_size);

	if (err == -ENOENT)
		return err_set(
			-ENOENT,
			"the code of %s is neither in the profile nor in a file that is here as it "
			"ran; kernel and JIT code is not kept",
			request->name);
	return err;
}

/* Values are shown where there are any; asked for by name, they must be there. */
static int values_choose(const struct request *request, const struct profile *profile,
			 const struct view_request **ret)
{
	const struct view_request *wish = &request->options.request;
	int err = view_values_check(profile);

	if (!err)
		err = view_values_filter_check(&wish->filter);
	if (!err)
		err = sites_items_check(profile, &wish->items, "values");
	if (err)
		return wish->items.count ? err : 0;
	*ret = wish;
	return 0;
}

static int table_print(const struct request *request, struct table *table)
{
	AUTO(sources_destroy_auto) struct sources *sources = sources_create();
	AUTO(table_destroy_auto) struct table *people = NULL;

	table->filtered = !filter_is_empty(&request->options.request.filter);
	if (request->options.request.limit)
		annotate_limit(table, request->options.request.limit);
	if (request->options.json)
		return view_table_print(&request->options, table);
	people = annotate_interleave(table, source_of, sources);
	return view_table_print(&request->options, people);
}

static int run(const struct request *request)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	AUTO(view_code_deinit) struct view_code source = {};
	AUTO(table_destroy_auto) struct table *table = NULL;
	AUTO(free_ptr) void *code = NULL;
	struct annotate_request wish = { .filter = &request->options.request.filter,
					 .att = request->att };
	int err = view_profile_load(request->options.input, false, &profile);

	err = err ? err : view_samples_check(profile);
	err = err ? err : values_choose(request, profile, &wish.values);
	err = err ? err : symbol_choose(profile, request, &wish.symbol);
	if (err)
		return err;
	view_code_init(&source, request->options.input, profile);
	wish.line_ctx = view_code_symbols(&source, profile->symbols[wish.symbol].module);
	wish.line = wish.line_ctx ? line_of : NULL;
	wish.names = view_code_source(&source);
	err = code_get(&source, request, wish.symbol, &code, &wish.size);
	if (err)
		return err;
	wish.code = code;
	table = annotate(profile, &wish);
	return table_print(request, table);
}

static int request_parse(struct request *request, int argc, char **argv)
{
	int option;

	while ((option = view_options_next(&request->options, argc, argv, long_options)) != -1) {
		if (option == '?')
			return -EINVAL;
		request->att = true;
	}
	if (request->options.help)
		return 0;
	if (request->options.request.filter.symbols.count)
		return err_set(-EINVAL, "the function to annotate is given without --symbol");
	if (argc - optind != 1)
		return err_set(-EINVAL, "annotate takes the name of one function");
	request->name = argv[optind];
	return 0;
}

int cmd_annotate(int argc, char **argv)
{
	struct request request = { .options = VIEW_OPTIONS_INIT };
	int err, code = EXIT_DONE;

	if (request_parse(&request, argc, argv)) {
		code = view_usage_error("annotate");
	} else if (request.options.help) {
		fputs(usage, stdout);
	} else {
		err = run(&request);
		if (err && err != -ENOTUNIQ)
			view_failure();
		code = err ? EXIT_FAILED : EXIT_DONE;
	}
	view_options_deinit(&request.options);
	return code;
}

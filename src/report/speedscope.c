// SPDX-License-Identifier: BSD-2-Clause
/*
 * The file format of speedscope: a list of frames, and for each thread its distinct stacks, root
 * first, with the samples of each as weights. What was lost is a profile of its own, so that all
 * weights together are what was seen.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analyse/calltree.h"
#include "analyse/names.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "report/export.h"
#include "report/json.h"

struct scope {
	struct calltree tree;
	const struct profile *profile;
	uint32_t *frames; /* by function: its frame + 1; 0: not used */
	size_t frame_count;
	ARRAY(uint32_t) path;
	struct strbuf text;
	FILE *file;
};

static void flush(struct scope *scope)
{
	fwrite(strbuf_text(&scope->text), 1, scope->text.length, scope->file);
	scope->text.length = 0;
}

static void frame_put(struct scope *scope, const char *name, const char *module)
{
	strbuf_puts(&scope->text, scope->frame_count++ ? ",\n{\"name\":" : "{\"name\":");
	json_string_put(&scope->text, name);
	if (module) {
		strbuf_puts(&scope->text, ",\"file\":");
		json_string_put(&scope->text, module);
	}
	strbuf_putc(&scope->text, '}');
}

static void frames_put(struct scope *scope)
{
	const struct functions *functions = &scope->tree.functions;

	for (size_t i = 1; i < scope->tree.nodes.count; i++) {
		uint32_t function = scope->tree.nodes.items[i].function;

		if (scope->frames[function])
			continue;
		frame_put(scope, functions_name(functions, function),
			  name_of_module(scope->profile, functions_module(functions, function)));
		scope->frames[function] = (uint32_t)scope->frame_count;
	}
}

static int thread_order(const void *left, const void *right)
{
	const struct calltree_sample *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

static void stack_put(struct scope *scope, uint32_t node)
{
	scope->path.count = 0;
	for (; node; node = scope->tree.nodes.items[node].parent)
		*array_push(&scope->path) = scope->frames[scope->tree.nodes.items[node].function];
	strbuf_putc(&scope->text, '[');
	for (size_t i = scope->path.count; i > 0; i--)
		strbuf_printf(&scope->text, "%u%s", scope->path.items[i - 1] - 1, i > 1 ? "," : "");
	strbuf_putc(&scope->text, ']');
}

/* The head of a profile, up to its stacks. */
static void head_put(struct scope *scope, const char *comma, const char *name, uint64_t total)
{
	strbuf_printf(&scope->text, "%s{\"type\":\"sampled\",\"name\":", comma);
	json_string_put(&scope->text, name);
	strbuf_printf(&scope->text,
		      ",\"unit\":\"none\",\"startValue\":0,\"endValue\":%" PRIu64
		      ",\n\"samples\":[",
		      total);
}

static void thread_put(struct scope *scope, const struct calltree_sample *samples, size_t count,
		       const char *comma)
{
	const struct profile_thread *thread = &scope->profile->threads[samples->thread];
	AUTO(free_ptr)
	char *name = mem_printf("%s %u", thread->comm ? thread->comm : "", thread->tid);
	uint64_t total = 0;

	for (size_t i = 0; i < count; i++)
		total += samples[i].count;
	head_put(scope, comma, name, total);
	for (size_t i = 0; i < count; i++) {
		strbuf_puts(&scope->text, i ? "," : "");
		stack_put(scope, samples[i].node);
	}
	strbuf_puts(&scope->text, "],\n\"weights\":[");
	for (size_t i = 0; i < count; i++)
		strbuf_printf(&scope->text, "%s%" PRIu64, i ? "," : "", samples[i].count);
	strbuf_puts(&scope->text, "]}");
	flush(scope);
}

static void losses_put(struct scope *scope, uint32_t first_frame, const char *comma)
{
	const struct profile *profile = scope->profile;
	uint64_t total = 0;

	for (size_t i = 0; i < profile->loss_count; i++)
		total += profile->losses[i].count;
	head_put(scope, comma, "[lost]", total);
	for (size_t i = 0; i < profile->loss_count; i++)
		strbuf_printf(&scope->text, "%s[%zu]", i ? "," : "", first_frame + i);
	strbuf_puts(&scope->text, "],\n\"weights\":[");
	for (size_t i = 0; i < profile->loss_count; i++)
		strbuf_printf(&scope->text, "%s%" PRIu64, i ? "," : "", profile->losses[i].count);
	strbuf_puts(&scope->text, "]}");
}

static void profiles_put(struct scope *scope)
{
	struct calltree_sample *samples = scope->tree.samples.items;
	size_t count = scope->tree.samples.count, begin = 0;

	if (count)
		qsort(samples, count, sizeof(*samples), thread_order);
	for (size_t i = 1; i <= count && !ferror(scope->file); i++) {
		if (i < count && samples[i].thread == samples[begin].thread)
			continue;
		thread_put(scope, samples + begin, i - begin, begin ? ",\n" : "");
		begin = i;
	}
}

int export_speedscope(const struct profile *profile, const struct export_options *options,
		      FILE *file)
{
	struct scope scope = { .profile = profile, .file = file };
	bool losses = filter_is_empty(&options->filter) && profile->loss_count;
	uint32_t first_loss;

	calltree_init(&scope.tree, profile, &options->filter, false);
	scope.frames = mem_zalloc((scope.tree.functions.count + 1) * sizeof(*scope.frames));
	strbuf_puts(&scope.text,
		    "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
		    "\"exporter\":\"assay\",\n\"shared\":{\"frames\":[");
	frames_put(&scope);
	first_loss = (uint32_t)scope.frame_count;
	for (size_t i = 0; losses && i < profile->loss_count; i++) {
		AUTO(free_ptr) char *name = mem_printf("[lost: %s]", profile->losses[i].name);

		frame_put(&scope, name, NULL);
	}
	strbuf_puts(&scope.text, "]},\n\"profiles\":[\n");
	profiles_put(&scope);
	if (losses)
		losses_put(&scope, first_loss, scope.tree.samples.count ? ",\n" : "");
	strbuf_puts(&scope.text, "]}\n");
	flush(&scope);
	calltree_deinit(&scope.tree);
	free(scope.frames);
	array_deinit(&scope.path);
	strbuf_deinit(&scope.text);
	return 0;
}

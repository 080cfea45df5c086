// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any text as a request: what is taken is within its limits and fits its view, and its own text
 * gives the same request again; what is refused is refused with a sentence.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/request.h"
#include "base/err.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void fields_check(const struct request *request)
{
	const struct view_request *wish = &request->wish;

	must(request->view && request->view->name);
	must(wish->min_share <= 1 && wish->min_invariance <= 1);
	must(wish->metric <= METRIC_BLOCKS && wish->heat < HEAT_KIND_COUNT);
	must(request->format == FORMAT_TEXT || request->format == FORMAT_JSON);
	must(!wish->sort || *wish->sort);
	for (size_t i = 0; i < wish->filter.symbols.count; i++)
		must(*wish->filter.symbols.items[i]);
	for (size_t i = 0; i < wish->filter.pids.count; i++)
		must(wish->filter.pids.items[i] >= 0 && wish->filter.pids.items[i] <= UINT32_MAX);
	for (size_t i = 0; i < request->options.given.count; i++) {
		const struct option_row *row = request->options.given.items[i];

		must(!row->only || row->only & request->view->takes);
	}
}

static void again_check(const struct request *request)
{
	struct strbuf text = {}, again = {};
	struct request second;

	request_print(request, &text);
	must(request_parse(strbuf_text(&text), &second) == 0);
	must(second.view == request->view && second.format == request->format);
	must(second.wish.at == request->wish.at && second.wish.position == request->wish.position);
	must(second.wish.limit == request->wish.limit);
	request_print(&second, &again);
	must(!strcmp(strbuf_text(&text), strbuf_text(&again)));
	request_deinit(&second);
	strbuf_deinit(&text);
	strbuf_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = mem_strndup((const char *)data, size);
	struct request request;

	err_set(-1, "%s", "");
	if (request_parse(text, &request) == 0) {
		fields_check(&request);
		again_check(&request);
		request_deinit(&request);
	} else {
		must(*err_text());
	}
	free(text);
	return 0;
}

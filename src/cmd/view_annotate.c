// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/view_annotate.h"

#include "analyse/annotate.h"
#include "analyse/views.h"
#include "base/cleanup.h"
#include "symbols/symbols.h"

static bool line_of(void *ctx, uint64_t address, const char **ret_file, uint32_t *ret_line)
{
	struct symbol_answer answer;

	if (symbols_resolve(ctx, address, &answer) || !answer.frame_count || !answer.frames[0].file)
		return false;
	*ret_file = answer.frames[0].file;
	*ret_line = answer.frames[0].line;
	return true;
}

int view_annotate(const struct profile *profile, struct view_code *source, uint32_t symbol,
		  struct table **ret)
{
	const struct view_request values = { .min_share = -1, .min_invariance = -1 };
	const struct filter everything = {};
	AUTO(free_ptr) void *code = NULL;
	struct annotate_request request = { .filter = &everything, .symbol = symbol };
	int err = view_code_get(source, symbol, &code, &request.size);

	if (err)
		return err;
	request.code = code;
	request.names = view_code_source(source);
	request.line_ctx = view_code_symbols(source, profile->symbols[symbol].module);
	request.line = request.line_ctx ? line_of : NULL;
	if (profile_holds(profile, DOMAIN_VALUES))
		request.values = &values;
	*ret = annotate(profile, &request);
	return 0;
}

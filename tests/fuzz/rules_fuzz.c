// SPDX-License-Identifier: BSD-2-Clause
/* Rules of assay count: whatever is given is a rule with a value, or is refused with a sentence. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "marks/rules.h"

static void lookup(void *ctx, const char *mark, struct mark_sum *now, struct mark_sum *before)
{
	*now = (struct mark_sum){ .visits = strlen(mark), .instructions = 100 };
	*before = (struct mark_sum){ .visits = 1 };
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	char *text = mem_zalloc(size + 1);
	struct rule *rule = NULL;

	memcpy(text, data, size);
	if (rule_parse(text, &rule)) {
		assert(!rule && *err_text());
	} else {
		assert(rule->actions.count && rule->reads.count);
		rule_value(rule, lookup, NULL, 1);
		rule_value(rule, lookup, NULL, 0);
		rules_check(&rule, 1);
	}
	rule_destroy(rule);
	free(text);
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as a class: it is refused, or what comes out can be rewritten once more. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "java/rewrite.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t number_of(void *ctx, const struct java_method *method)
{
	return *(uint32_t *)ctx;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t number = size % 2 ? 5 : 100000;
	const struct java_rewriting how = { "java/lang/H", number_of, &number };
	struct java_rewritten once = {}, twice = {};

	if (java_rewrite(data, size, &how, &once) || !once.bytes)
		return 0;
	java_rewrite(once.bytes, once.size, &how, &twice);
	free(once.bytes);
	free(twice.bytes);
	return 0;
}

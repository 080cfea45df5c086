// SPDX-License-Identifier: BSD-2-Clause
/*
 * Marks as text, and as the section of a program: whatever they are, they are refused or mean
 * something that can be asked for.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "marks/section.h"
#include "marks/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct mark_spec *spec)
{
	mark_spec_takes_module(spec, "/usr/lib/libz.so.1.3.1");
	if (spec->name && spec->kind == MARK_LINES && !mark_spec_takes_file(spec, spec->name))
		abort();
	if (spec->name && spec->kind == MARK_ROUTINE &&
	    !mark_spec_takes_symbol(spec, spec->name, spec->name))
		abort();
	if (spec->kind == MARK_LINES && (!spec->first || spec->last < spec->first))
		abort();
	if (spec->kind == MARK_RANGE && spec->last <= spec->first)
		abort();
}

/* The same bytes as a section. */
static void section_try(const uint8_t *data, size_t size)
{
	struct section section;

	if (section_parse(mem_dup(size ? (const void *)data : "", size + !size), size, "file",
			  &section))
		return;
	for (size_t i = 1; i < section.count; i++)
		if (section.items[i].address < section.items[i - 1].address)
			abort();
	section_deinit(&section);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct mark_spec spec;

	memcpy(text, data, size);
	text[size] = '\0';
	if (!mark_spec_parse(text, &spec)) {
		use(&spec);
		mark_spec_deinit(&spec);
	}
	free(text);
	section_try(data, size);
	return 0;
}

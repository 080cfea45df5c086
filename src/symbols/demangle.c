// SPDX-License-Identifier: BSD-2-Clause
/*
 * Demangling with libiberty, bounded.
 *
 * A mangled name can refer back to its own parts, so that n bytes stand for 2^n: output is
 * collected through the callback interface and the demangler is left with longjmp() when there is
 * too much of it. Its own recursion limit also refuses honest names of more than 1 KiB, so it is
 * switched off for names of up to NAME_MAX_BYTES, at which length the parser's recursion stays far
 * below a default stack (see the test).
 */
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "symbols/symbols.h"

enum {
	NAME_MAX_BYTES = 4096,
	OUTPUT_MAX = 64 * 1024,
	OPTIONS = DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT,
};

struct output {
	struct strbuf text;
	jmp_buf overflow;
};

static void output_add(const char *text, size_t size, void *ctx)
{
	struct output *output = ctx;

	if (output->text.length + size > OUTPUT_MAX)
		longjmp(output->overflow, 1);
	strbuf_add(&output->text, text, size);
}

typedef int (*demangle_fn)(const char *mangled, int options, demangle_callbackref callback,
			   void *ctx);

static char *demangle_with(demangle_fn fn, const char *name)
{
	struct output output = {};

	if (setjmp(output.overflow) == 0 && fn(name, OPTIONS, output_add, &output) &&
	    output.text.length)
		return output.text.text;
	strbuf_deinit(&output.text);
	return NULL;
}

static bool looks_mangled(const char *name)
{
	return strncmp(name, "_Z", 2) == 0 || strncmp(name, "_R", 2) == 0 ||
	       strncmp(name, "_GLOBAL_", 8) == 0;
}

/* Rust first: its legacy names are valid C++ names with a hash at the end. */
char *demangle(const char *name)
{
	char *text;

	if (!looks_mangled(name) || strnlen(name, NAME_MAX_BYTES + 1) > NAME_MAX_BYTES)
		return NULL;
	text = demangle_with(rust_demangle_callback, name);
	return text ? text : demangle_with(cplus_demangle_v3_callback, name);
}

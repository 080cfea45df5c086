// SPDX-License-Identifier: BSD-2-Clause
#include "report/export.h"

#include <string.h>

const struct export_format export_formats[] = {
	{ "collapsed", "one line per stack, root;...;leaf COUNT, for flame graphs",
	  export_collapsed },
	{ "pprof", "gzip-compressed protobuf of pprof", export_pprof, true },
	{ "lcov", "lines that a trace executed, as a tracefile of lcov", export_lcov,
	  .trace = true },
	{ "blocks", "every block that threads executed, in order", export_blocks, .trace = true,
	  .order = true },
	{},
};

const struct export_format *export_find(const char *name)
{
	for (const struct export_format *format = export_formats; format->name; format++)
		if (!strcmp(format->name, name))
			return format;
	return NULL;
}

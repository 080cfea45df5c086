// SPDX-License-Identifier: BSD-2-Clause
#include "report/export.h"

#include <string.h>

const struct export_format export_formats[] = {
#define FORMAT(id, text, ...) { .name = #id, .summary = text, .run = export_##id, __VA_ARGS__ },
#include "report/formats.def"
	{},
};

void export_takers(const struct option_row *row, struct strbuf *ret)
{
	size_t count = 0, takers = 0;

	for (const struct export_format *format = export_formats; format->name; format++)
		takers += !row->only || format->takes & row->only;
	for (const struct export_format *format = export_formats; format->name; format++) {
		if (!row->only || !(format->takes & row->only))
			continue;
		strbuf_printf(ret, "%s%s",
			      !count		    ? ""
			      : count + 1 == takers ? " and "
						    : ", ",
			      format->name);
		count++;
	}
}

const struct export_format *export_find(const char *name)
{
	for (const struct export_format *format = export_formats; format->name; format++)
		if (!strcmp(format->name, name))
			return format;
	return NULL;
}

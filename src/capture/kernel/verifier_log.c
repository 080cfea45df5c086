// SPDX-License-Identifier: BSD-2-Clause
#include "capture/kernel/hearing.h"

#include <bpf/libbpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strbuf.h"

static struct strbuf heard;
static libbpf_print_fn_t before;

static void lines_say(char *text)
{
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")))
		if (line[0])
			log_debug("libbpf: %s", line);
}

static int hear(enum libbpf_print_level level, const char *format, va_list args)
{
	AUTO(free_ptr) char *text = NULL;

	if (level == LIBBPF_DEBUG || vasprintf(&text, format, args) < 0)
		return 0;
	strbuf_puts(&heard, text);
	lines_say(text);
	return 0;
}

void hearing_begin(void)
{
	before = libbpf_set_print(hear);
}

void hearing_again(void)
{
	heard.length = 0;
}

const char *hearing_text(void)
{
	return heard.length ? heard.text : "";
}

void hearing_end(void)
{
	libbpf_set_print(before);
	strbuf_deinit(&heard);
}

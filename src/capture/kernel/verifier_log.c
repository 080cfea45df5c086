// SPDX-License-Identifier: BSD-2-Clause
#include "capture/kernel/verifier_log.h"

#include <bpf/libbpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strbuf.h"

static struct strbuf messages;
static libbpf_print_fn_t printer_before;

static void lines_say(char *text)
{
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")))
		if (line[0])
			log_debug("libbpf: %s", line);
}

static int message_keep(enum libbpf_print_level level, const char *format, va_list args)
{
	AUTO(free_ptr) char *text = NULL;

	if (level == LIBBPF_DEBUG || vasprintf(&text, format, args) < 0)
		return 0;
	strbuf_puts(&messages, text);
	lines_say(text);
	return 0;
}

void verifier_log_begin(void)
{
	printer_before = libbpf_set_print(message_keep);
}

void verifier_log_again(void)
{
	messages.length = 0;
}

const char *verifier_log_text(void)
{
	return messages.length ? messages.text : "";
}

void verifier_log_end(void)
{
	libbpf_set_print(printer_before);
	strbuf_deinit(&messages);
}

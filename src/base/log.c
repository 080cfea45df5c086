// SPDX-License-Identifier: BSD-2-Clause
#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/progress.h"
#include "base/strbuf.h"
#include "base/utf8.h"

static bool verbose;
static bool quiet;

/*
 * Arguments, names of files and what a library says about them may hold escape sequences of a
 * terminal: they are shown and not obeyed.
 */
static void say(const char *kind, const char *format, va_list args)
{
	struct strbuf shown = {};
	char line[2048];

	vsnprintf(line, sizeof(line), format, args);
	utf8_escape(&shown, line);
	progress_pause();
	fprintf(stderr, "assay: %s%s\n", kind, strbuf_text(&shown));
	progress_resume();
	strbuf_deinit(&shown);
}

void log_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("", format, args);
	va_end(args);
}

void log_warn(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("warning: ", format, args);
	va_end(args);
}

void log_info(const char *format, ...)
{
	va_list args;

	if (quiet)
		return;
	va_start(args, format);
	say("", format, args);
	va_end(args);
}

void log_debug(const char *format, ...)
{
	va_list args;

	if (!verbose)
		return;
	va_start(args, format);
	say("", format, args);
	va_end(args);
}

void log_verbose_set(bool on)
{
	verbose = on;
}

void log_quiet_set(bool on)
{
	quiet = on;
}

bool log_is_quiet(void)
{
	return quiet;
}

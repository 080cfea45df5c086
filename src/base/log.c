// SPDX-License-Identifier: BSD-2-Clause
#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static bool verbose;
static bool quiet;

static void say(const char *kind, const char *format, va_list args)
{
	char line[2048];

	vsnprintf(line, sizeof(line), format, args);
	fprintf(stderr, "assay: %s%s\n", kind, line);
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

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages for people: always on stderr, one line each. Data goes to stdout. Control characters in
 * what is said become visible: a name cannot command the terminal.
 */
#pragma once

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Printed only after log_verbose_set(true). */
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_verbose_set(_Bool on);
/* What follows a noun: "1 run", "2 runs". */
#define PLURAL(count) ((count) == 1 ? "" : "s")
/* No log_info() any more (--quiet). */
void log_quiet_set(_Bool on);
_Bool log_is_quiet(void);

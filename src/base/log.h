/* SPDX-License-Identifier: BSD-2-Clause */
/* What Assay says to a person while it works: always on stderr, one line each. Data goes to stdout. */
#pragma once

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Printed only after log_verbose_set(true). */
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_verbose_set(_Bool on);
/* No log_info() any more (--quiet). */
void log_quiet_set(_Bool on);

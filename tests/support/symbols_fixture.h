/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests: a scratch directory, commands in it, and their output. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/cleanup.h"

/* cmocka group setup and teardown: the process works in a fresh directory. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* Runs a shell command; the test fails when it does. */
void fixture_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same without failing. */
bool fixture_try(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A command's output, to be read line by line; how the command ended does not matter. */
FILE *fixture_output(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The next line without its newline; NULL at the end. */
char *fixture_line(FILE *file, char *line, size_t size);
void fixture_write(const char *path, const char *text);
/* An open file, read only. */
int fixture_open(const char *path);
/* A memfd that holds the bytes. */
int fixture_memory(const void *bytes, size_t size);

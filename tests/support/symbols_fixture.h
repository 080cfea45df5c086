/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests: a scratch directory, commands in it, and their output. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "symbols/symbols.h"

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

/* Programs with inlined, static and nested functions. hidden() of the one in C is static. */
extern const char fixture_c_source[], fixture_cpp_source[];
/* The symbols of a file. */
struct symbols *fixture_symbols(const char *path);
/* The address of a function, as nm prints it. */
uint64_t fixture_address(const char *path, const char *name);
/*
 * Fails unless the address is in a function of that name, or in one whose name is not known (NULL),
 * and has a line if has_line says so.
 */
void fixture_resolves(const char *path, uint64_t address, const char *name, uint32_t has_line);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Errors: a negative errno for the caller, one sentence for the person.
 *
 * A function that fails says why at the place that knows best and returns the code:
 *
 *	return err_set(-EINVAL, "%s: not an ELF file; give the program itself", path);
 *
 * The sentence is kept per thread until the next err_set(). Callers that can add something prepend
 * it with err_wrap(). Only commands print it.
 */
#pragma once

#define err_set(code, ...) err_set_at((code), __VA_ARGS__)

/* Keeps the formatted sentence and returns code, which must be negative. */
int err_set_at(int code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Puts "prefix: " before the sentence kept for this thread; returns code unchanged. */
int err_wrap(int code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* The last sentence of this thread; never NULL. */
const char *err_text(void);

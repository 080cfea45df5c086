/* SPDX-License-Identifier: BSD-2-Clause */
/* The code of one method, rewritten: see code.c. */
#pragma once

#include "java/bytes.h"

/* What code needs to know of its class, and the constants that were added to it. */
struct java_constants {
	struct java_reader pool; /* the whole class, for constants */
	uint32_t *at; /* by number: where its tag is; 0: none */
	uint32_t count;
	uint32_t major; /* version of the class file */
	struct java_writer added;
	uint32_t next; /* the number of the next constant that is added */
	uint32_t enter, leave, caught; /* Methodref */
	uint32_t throwable; /* Class */
	uint32_t frames; /* Utf8 */
};

bool java_constant_is(const struct java_constants *constants, uint32_t number, const char *text);
/* A further constant of type int; 0: there are too many. */
uint32_t java_constant_int(struct java_constants *constants, uint32_t value);

/*
 * Rewrites the contents of an attribute Code for the method of this number. -EINVAL: it cannot be
 * understood; -E2BIG: it would be too long; -ENOSPC: there are too many constants. Nothing that was
 * written then may be used.
 */
int java_code_rewrite(struct java_constants *constants, struct java_reader code, uint32_t number,
		      bool constructor, struct java_writer *ret);

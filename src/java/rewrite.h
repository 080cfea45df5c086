/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rewrites a class of Java so that each of its methods calls a helper at its entry, at each of its
 * exits, also those by exceptions, and where it catches one. Needs libc's memory functions only.
 *
 * Classes are checked: one that cannot be parsed is an error, and stays as it is.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct java_text {
	const unsigned char *bytes;
	size_t size;
};

struct java_method {
	struct java_text class_name; /* with slashes */
	struct java_text name;
	struct java_text descriptor;
	int overloaded; /* the class has another one of this name */
};

struct java_rewriting {
	/* A class with enter(int), leave(int) and caught(int), which are static and public. */
	const char *helper;
	/* The number that the method passes to the helper; 0: it stays as it is. */
	uint32_t (*number)(void *ctx, const struct java_method *method);
	void *ctx;
};

struct java_rewritten {
	unsigned char *bytes; /* the caller frees them; NULL: no method has code */
	size_t size;
	uint32_t methods;
	uint32_t refused; /* methods that would be too long; they stay as they are */
};

/* -EINVAL: no class that can be understood; -ENOSPC: too many constants; -ENOMEM. */
int java_rewrite(const void *bytes, size_t size, const struct java_rewriting *how,
		 struct java_rewritten *ret);

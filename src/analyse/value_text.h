/* SPDX-License-Identifier: BSD-2-Clause */
/* Formats a value for people, by its type, its width and the names that are known. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "store/profile.h"

enum value_kind {
	VALUE_PLAIN, /* nothing is known: small numbers decimal, others hexadecimal */
	VALUE_SIGNED,
	VALUE_ENUM,
	VALUE_UNSIGNED,
	VALUE_POINTER,
	VALUE_BOOL,
	VALUE_CHAR,
	VALUE_FLOAT, /* of 32 or 64 bits */
	VALUE_TAKEN, /* of a conditional branch */
	VALUE_BUCKET, /* of a histogram: number of the bucket */
	VALUE_PATH, /* directions of branches in their order, behind a bit that is 1 */
};

struct value_type {
	enum value_kind kind;
	unsigned width; /* bits; those above are not looked at */
	bool structured; /* of a pointer: what lies there is no text, whatever it looks like */
	/* of an enumeration, what its numbers are called, or NULL: enumerator_count rows */
	const struct profile_enumerator *enumerators;
	size_t enumerator_count;
};

void value_text(const struct profile *profile, struct value_type type, uint64_t value,
		struct strbuf *buf);

/* Whether the profile says that it is an address of the stack. */
bool value_is_on_stack(const struct profile *profile, uint64_t value);

/* By DWARF: the encoding of a parameter, as in the profile, and its size in bytes. */
struct value_type value_type_of_parameter(const struct profile *profile,
					  const struct profile_parameter *parameter);

/*
 * "gz_window+0x10": the function or object at a location; of a C++ function without its parameters;
 * code without a name by its module.
 */
void value_place_text(const struct profile *profile, uint32_t location, struct strbuf *buf);

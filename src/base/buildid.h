/* SPDX-License-Identifier: BSD-2-Clause */
/* The identity of a module's bytes: the linker's build-id note. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BUILD_ID_MAX = 32, BUILD_ID_HEX_MAX = 2 * BUILD_ID_MAX + 1 };

struct build_id {
	uint8_t size; /* bytes valid; 0 when the module has none */
	uint8_t bytes[BUILD_ID_MAX];
};

static inline bool build_id_equal(const struct build_id *a, const struct build_id *b)
{
	return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Lower-case hexadecimal; "" when there is none. */
static inline void build_id_hex(const struct build_id *id, char ret[BUILD_ID_HEX_MAX])
{
	ret[0] = '\0';
	for (unsigned int i = 0; i < id->size; i++)
		snprintf(ret + 2 * i, 3, "%02x", id->bytes[i]);
}

// SPDX-License-Identifier: BSD-2-Clause
#include "phases/heat.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "isa/effects.h"

static const char *const texts[] = {
#define X(name, text, what, amount) [HEAT_##name] = text,
	HEAT_KINDS(X)
#undef X
};

static const char *const whats[] = {
#define X(name, text, what, amount) [HEAT_##name] = what,
	HEAT_KINDS(X)
#undef X
};

const char *heat_kind_text(enum heat_kind kind)
{
	assert(kind < HEAT_KIND_COUNT);
	return texts[kind];
}

const char *heat_kind_what(enum heat_kind kind)
{
	assert(kind < HEAT_KIND_COUNT);
	return whats[kind];
}

int heat_kind_parse(const char *text, enum heat_kind *ret)
{
	for (enum heat_kind kind = 0; kind < HEAT_KIND_COUNT; kind++)
		if (strcmp(text, texts[kind]) == 0) {
			*ret = kind;
			return 0;
		}
	return err_set(-EINVAL,
		       "%s: no such kind of heat; there are instructions, loads, stores, branches, "
		       "jumps, calls, returns, indirect, vector, floating, atomic and system",
		       text);
}

static void instruction_add(struct heat *heat, const struct effects *e)
{
#define X(name, text, what, amount) heat->of[HEAT_##name] += (amount);
	HEAT_KINDS(X)
#undef X
}

static bool code_add(struct heat *heat, const uint8_t *code, size_t size, uint32_t instructions)
{
	struct effects effects;

	for (uint32_t i = 0; i < instructions; i++) {
		if (effects_of(code, size, &effects))
			return false;
		instruction_add(heat, &effects);
		code += effects.length;
		size -= effects.length;
	}
	return !size;
}

bool heat_of_block(const void *code, size_t size, uint32_t instructions, struct heat *ret)
{
	struct heat heat = {};
	bool known = code_add(&heat, code, size, instructions);

	*ret = known ? heat : (struct heat){ .of[HEAT_INSTRUCTIONS] = instructions };
	return known;
}

void heat_add(struct heat *sum, const struct heat *part, uint64_t times)
{
	for (unsigned i = 0; i < HEAT_KIND_COUNT; i++)
		sum->of[i] += part->of[i] * times;
}

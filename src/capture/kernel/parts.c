// SPDX-License-Identifier: BSD-2-Clause
#include "capture/kernel/parts.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINES_SHOWN = 6 };

static const struct {
	const char *name, *title;
} parts_known[] = {
#define X(name, json, title) [SAMPLER_PART_##name] = { #json, title },
	SAMPLER_PARTS(X)
#undef X
};

const char *sampler_part_name(enum sampler_part part)
{
	return parts_known[part].name;
}

const char *sampler_part_title(enum sampler_part part)
{
	return parts_known[part].title;
}

/* --- What the verifier said ------------------------------------------------------------------- */

static bool line_is_statistic(const char *line)
{
	return !strncmp(line, "processed ", 10) || !strncmp(line, "verification time ", 18) ||
	       !strncmp(line, "stack depth ", 12);
}

/* The line that ends before end, which lies in [start, end]. */
static const char *line_before(const char *start, const char *end)
{
	while (end > start && end[-1] != '\n')
		end--;
	return end;
}

static void copy_text(char *ret, size_t size, const char *from, const char *to)
{
	snprintf(ret, size, "%.*s", (int)(to - from), from);
}

static void program_read(const char *said, const char *begin, struct sampler_refusal *ret)
{
	const char *line = line_before(said, begin), *name = strchr(line, '\'');
	const char *end = name && name < begin ? strchr(name + 1, '\'') : NULL;

	if (end)
		copy_text(ret->program, sizeof(ret->program), name + 1, end);
}

static void log_read(const char *log, const char *end, struct sampler_refusal *ret)
{
	const char *at = end, *first = end;

	for (int i = 0; at > log && i < LINES_SHOWN; i++) {
		const char *line = line_before(log, at - 1);

		if (end - line >= (long)sizeof(ret->lines))
			break;
		if (!ret->reason[0] && !line_is_statistic(line))
			copy_text(ret->reason, sizeof(ret->reason), line, at - 1);
		at = first = line;
	}
	copy_text(ret->lines, sizeof(ret->lines), first, end);
}

void refusal_read(const char *said, struct sampler_refusal *ret)
{
	static const char begins[] = "-- BEGIN PROG LOAD LOG --\n",
			  ends[] = "-- END PROG LOAD LOG --";
	const char *begin = strstr(said, begins);
	const char *failed = strstr(said, "BPF program load failed");
	const char *end = begin ? strstr(begin, ends) : NULL;

	ret->program[0] = ret->reason[0] = ret->lines[0] = '\0';
	if (failed)
		program_read(said, failed, ret);
	if (end)
		log_read(begin + strlen(begins), end, ret);
}

/* --- What is left out ------------------------------------------------------------------------- */

/* The part to leave out after a refusal; USER: no other part is left. */
static enum sampler_part part_blamed(unsigned parts, const struct sampler_refusal *refusal)
{
	if (parts & PART_BIT(KERNEL_TEXT) && !strcmp(refusal->program, "text_read"))
		return SAMPLER_PART_KERNEL_TEXT;
	if (parts & PART_BIT(VALUES))
		return SAMPLER_PART_VALUES;
	return parts & PART_BIT(KERNEL) ? SAMPLER_PART_KERNEL : SAMPLER_PART_USER;
}

int parts_settle(unsigned *parts, parts_load load, void *ctx,
		 struct sampler_refusal refusals[SAMPLER_PART_COUNT], size_t *ret_count)
{
	size_t count = 0;
	int err;

	for (;;) {
		struct sampler_refusal *refusal = &refusals[count];

		memset(refusal, 0, sizeof(*refusal));
		err = load(ctx, *parts, refusal);
		if (!err)
			break;
		refusal->err = err;
		refusal->part = part_blamed(*parts, refusal);
		count++;
		if (refusal->part == SAMPLER_PART_USER)
			break;
		*parts &= ~(1u << refusal->part);
		if (refusal->part == SAMPLER_PART_KERNEL)
			*parts &= ~PART_BIT(KERNEL_TEXT);
	}
	*ret_count = count;
	return err;
}

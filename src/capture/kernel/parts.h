/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of the sampler, which a kernel may refuse one by one, and what it said when it refused
 * one.
 *
 * Parts are left out in this order when the kernel refuses a program: first the program that reads
 * the kernel's own code, if it is the one that was refused; then values; then samples of the
 * kernel. The part USER cannot be left out: without it there is no sampler.
 */
#pragma once

#include <stddef.h>

/* Columns: name, name in JSON and in the profile, what a person reads. */
#define SAMPLER_PARTS(X)                                                                           \
	X(USER, sampler_user, "Assay's sampler loads: user code")                                  \
	X(KERNEL, sampler_kernel, "Assay's sampler loads: kernel code")                            \
	X(KERNEL_TEXT, sampler_kernel_text, "Assay's sampler loads: kernel instructions")          \
	X(VALUES, sampler_values, "Assay's sampler loads: values")

enum sampler_part {
#define X(name, json, title) SAMPLER_PART_##name,
	SAMPLER_PARTS(X)
#undef X
		SAMPLER_PART_COUNT
};

#define PART_BIT(name) (1u << SAMPLER_PART_##name)

struct sampler_refusal {
	enum sampler_part part; /* left out because of it */
	int err; /* negative errno */
	char program[32]; /* "": it was not a program that the kernel refused */
	char reason[152]; /* the verifier's words; "" if it said nothing */
	char lines[640]; /* the end of its log, a newline after each line */
};

/*
 * Loads the parts of the mask. 0 or a negative errno; then program, reason and lines are filled in
 * as far as known.
 */
typedef int (*parts_load)(void *ctx, unsigned parts, struct sampler_refusal *ret);

const char *sampler_part_name(enum sampler_part part);
const char *sampler_part_title(enum sampler_part part);

/*
 * Takes the verifier's log out of what libbpf said. The last line of the log that is not a
 * statistic is the reason.
 */
void refusal_read(const char *said, struct sampler_refusal *ret);

/*
 * Loads as many of the parts as the kernel takes; *parts is what became of it. Each entry of
 * refusals, of which there are at most SAMPLER_PART_COUNT, is a part that was left out. An error:
 * not even the part USER loads, and the last entry says why.
 */
int parts_settle(unsigned *parts, parts_load load, void *ctx,
		 struct sampler_refusal refusals[SAMPLER_PART_COUNT], size_t *ret_count);

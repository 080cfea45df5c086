/* SPDX-License-Identifier: BSD-2-Clause */
/* A part of the time of a recording. */
#pragma once

#include <stdbool.h>

#include "store/profile.h"

/*
 * The profile as if it had only the samples of moments that begin at second from or later, and
 * before second to; needs DOMAIN_MOMENTS. What was seen and lost stays that of all. It lives as
 * long as the profile it is a part of, and ends with moments_deinit().
 */
void moments_init(struct profile *part, const struct profile *profile, uint32_t from, uint32_t to);
/* Whether every sample is in a moment: the recording was not longer than they are kept. */
bool moments_complete(const struct profile *profile);
/* The first second that moments are kept of; UINT32_MAX: of none. */
uint32_t moments_begin(const struct profile *profile);
void moments_deinit(struct profile *part);

/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of assay ctl, which the rows in options_record.c fill. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ctl_options {
	const char *input; /* the profile that is recorded */
	uint32_t pid; /* of the recorder; 0: by the profile */
	const char *output; /* a copy of the profile; NULL: none */
	bool json;
};

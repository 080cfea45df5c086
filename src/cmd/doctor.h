/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of assay doctor, which the rows in commands.c fill. */
#pragma once

#include <stdbool.h>

struct doctor_options {
	bool json, verbose;
};

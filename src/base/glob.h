/* SPDX-License-Identifier: BSD-2-Clause */
/* Patterns, in which * stands for any text and ? for any one byte. */
#pragma once

#include <stdbool.h>

bool glob_match(const char *pattern, const char *name);

/* SPDX-License-Identifier: BSD-2-Clause */
/* What coder.c does, on processors that have AVX-512. */
#pragma once

#include <stdbool.h>

#include "profile/coder.h"

bool coder_is_wide(void);
/* The symbols of the context lie before those to be put, but for the first. */
void coder_put_many_wide(struct coder *coder, const uint32_t *symbols, size_t count);

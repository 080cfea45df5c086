/* SPDX-License-Identifier: BSD-2-Clause */
/* What scan.c does before and after it finds where cycles end, on processors that have AVX-512. */
#pragma once

#include <stdbool.h>

#include "profile/scan.h"

bool scan_is_wide(void);
size_t scan_fold_wide(const uint32_t *symbols, size_t count, uint32_t first, uint32_t *ret,
		      uint32_t *ret_origins);
uint32_t scan_cycles_wide(struct scan *scan, const uint32_t *symbols, const uint32_t *origins,
			  size_t count, uint32_t max_cycle);

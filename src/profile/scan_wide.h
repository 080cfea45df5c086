/* SPDX-License-Identifier: BSD-2-Clause */
/* What scan.c does before and after it finds where cycles end, on processors that have AVX-512. */
#pragma once

#include <stdbool.h>

#include "profile/scan.h"

bool scan_is_wide(void);
uint32_t scan_bits_wide(const uint32_t *symbols, size_t count);
size_t scan_fold_wide(const uint32_t *symbols, size_t count, uint32_t skipped, uint32_t *ret,
		      uint32_t *ret_skipped);
size_t scan_cycles_wide(struct scan *scan, const uint32_t *symbols, const uint32_t *skipped,
			size_t count, uint32_t max_cycle);

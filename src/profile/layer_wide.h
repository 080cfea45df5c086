/* SPDX-License-Identifier: BSD-2-Clause */
/* What layer.c does for most cycles, on processors that have AVX-512 (scan_is_wide()). */
#pragma once

#include "profile/layer.h"

size_t layer_take_wide(struct layer *layer, const struct scan *scan, size_t i);

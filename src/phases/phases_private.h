/* SPDX-License-Identifier: BSD-2-Clause */
/* What collecting and detecting phases share. */
#pragma once

#include "phases/phases.h"

/* Merges two lists of PHASES_HOT paths, each with the hottest first; the coldest are dropped. */
void phases_hot_merge(struct phases_hot *into, const struct phases_hot *from);

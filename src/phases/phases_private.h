/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by collecting (phases.c) and detecting (phases_detect.c). */
#pragma once

#include "phases/phases.h"

/* Merges two lists of PHASES_HOT paths, each with the hottest first; the coldest are dropped. */
void phases_hot_merge(struct phases_hot *into, const struct phases_hot *from);

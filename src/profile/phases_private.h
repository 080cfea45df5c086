/* SPDX-License-Identifier: BSD-2-Clause */
/* What collecting and detecting phases share. */
#pragma once

#include "profile/phases.h"

/* Adds the lists of PHASES_HOT paths, hottest first; what there is no room for is dropped. */
void phases_hot_merge(struct phases_hot *into, const struct phases_hot *from);

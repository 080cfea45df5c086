/* SPDX-License-Identifier: BSD-2-Clause */
/* Fragments that follow the ways the program goes most often, learned from what it has recorded. */
#pragma once

#include "engine/engine.h"

/* What the segments of a new fragment are. The caller holds the engine's lock. */
void superblocks_note(const struct fragment *fragment);
/* A chunk of segments of this thread: perhaps it shows where superblocks pay. No lock is held. */
void superblocks_learn(struct thread *thread, const uint32_t *segments, uint32_t count);

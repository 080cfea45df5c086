/* SPDX-License-Identifier: BSD-2-Clause */
/* Fragments that follow the ways the program goes most often, learned from what it has recorded. */
#pragma once

#include "engine/engine.h"

/* What the runs of a new fragment are. The caller holds the engine's lock. */
void traces_note(const struct fragment *fragment);
/* A chunk of runs of this thread: perhaps it shows where traces pay. No lock is held. */
void traces_learn(struct thread *thread, const uint32_t *runs, uint32_t count);

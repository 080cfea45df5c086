/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Single visits that a thread leaves (wire/mark_visits.h) in; rows of the profile out. The memory
 * is shared with the program: nothing in it is believed.
 */
#pragma once

#include "recorder/engine/mark_memory.h"

int mark_visits_write(struct mark_memory *memory, const struct engine_thread *thread,
		      const void *shared, uint32_t known);

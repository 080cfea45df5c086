/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The single visits that a thread has kept (wire/mark_visits.h) in; rows of the profile out. The
 * memory is shared with the program, so everything in it is checked.
 */
#pragma once

#include "recorder/engine/mark_memory.h"

int mark_visits_write(struct mark_memory *memory, const struct engine_thread *thread,
		      const void *shared, uint32_t known);

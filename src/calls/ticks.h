/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures the time stamp counter against the clock. */
#pragma once

#include <stdint.h>

/* Both clocks at the same moment. */
void call_clocks_read(uint64_t *ret_ticks, uint64_t *ret_ns);
/* Nanoseconds of a tick, to about ten parts in a million; takes a hundredth of a second. */
double call_tick_measure(void);

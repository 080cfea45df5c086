/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One record of the kernel's perf ring as an event: a pure function over bytes, which may be
 * anything.
 *
 * Every event that writes to our rings asks for the same trailer (TID and TIME, sample_id_all), so
 * that a record can be read without knowing which event wrote it. Only the cpu-clock events write
 * samples.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <asm/perf_regs.h>
#include <linux/perf_event.h>

#include "image/events.h"

enum {
	PERFRECORD_TYPE_TRACKING = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
	PERFRECORD_TYPE_SAMPLE = PERFRECORD_TYPE_TRACKING | PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN |
				 PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
	PERFRECORD_REGISTERS = 1 << PERF_REG_X86_BX | 1 << PERF_REG_X86_BP | 1 << PERF_REG_X86_SP |
			       1 << PERF_REG_X86_IP,
};

/*
 * Size of the record that begins at bytes; 0: the header makes no sense, or less is left than it
 * says.
 */
size_t perfrecord_size(const void *bytes, size_t left);

/*
 * record: size bytes as told by perfrecord_size(), at a multiple of 8. Returns 1 and the event,
 * whose strings, frames and stack point into the record; 0 for a record of no interest; -EBADMSG
 * when the record contradicts itself.
 */
int perfrecord_parse(const void *record, size_t size, struct event *ret);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What drives the sampling: time, or an event that the kernel or the CPU counts.
 *
 * A clock, a counter of the CPU and a fault interrupt a program: all its registers are known. A
 * switch of tasks and a tracepoint are places in the kernel that call the sampler: only the user
 * registers, which the kernel saved when it was entered, are whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

enum sampler_event_kind {
	SAMPLER_CLOCK, /* the unit is ns */
	SAMPLER_HARDWARE, /* a counter of the CPU */
	SAMPLER_FAULT, /* software events that come with the registers that were interrupted */
	SAMPLER_SWITCH, /* software events of the scheduler */
	SAMPLER_TRACEPOINT,
};

enum { SAMPLER_EVENT_NAME_MAX = 96 };

struct sampler_event {
	char name[SAMPLER_EVENT_NAME_MAX]; /* as -e takes it */
	const char *unit; /* what one event is, in the plural */
	enum sampler_event_kind kind;
	uint32_t type; /* perf's */
	uint64_t config; /* perf's; of a tracepoint known after sampler_event_find() */
};

/* name: one of the table, r and a number in hexadecimal, or GROUP:NAME. -EINVAL: no such name. */
int sampler_event_parse(const char *name, struct sampler_event *ret);
/* A line for each name that is known. */
void sampler_event_help(struct strbuf *ret);
/*
 * Asks the kernel for it: the number of a tracepoint, a counter for the rest. An error says why it
 * cannot be sampled here.
 */
int sampler_event_find(struct sampler_event *event);
/* Whether it interrupts a program, with registers from which instructions can be interpreted. */
bool sampler_event_interrupts(const struct sampler_event *event);

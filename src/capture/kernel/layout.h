/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the running kernel keeps what may be read: its image, its modules, RAM. Everything else in
 * its address space may be a device.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "wire/run.h"

struct kernel_range {
	uint64_t start, end; /* empty: not known */
};

/* Fields are 0 where something is not known; then that memory is not read. */
struct kernel_layout {
	int64_t percpu_base; /* the variable this_cpu_off, counted from the CPU's run queue */
	int64_t preempt_count; /* the variable of that name, counted from there as well */
	/* address of the variable that holds the direct map's address */
	uint64_t direct_map_variable;
	uint64_t page_map_variable; /* and of the table of pages */
	struct kernel_range image;
	struct kernel_range modules;
	struct kernel_range ram[RUN_RAM_RANGES]; /* physical */
};

void kernel_layout_get(struct kernel_layout *ret);

/* The parts, on files in the formats of /proc/kallsyms and /proc/iomem. Symbols come first. */
void kernel_layout_symbols(FILE *file, struct kernel_layout *ret);
void kernel_layout_memory(FILE *file, struct kernel_layout *ret);

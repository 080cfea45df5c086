/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the kernel can count marks of a process that runs: offsets in files, for code, and
 * addresses in its memory, for data.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/array.h"
#include "marks/marks.h"

struct probe_site {
	uint32_t mark; /* number */
	bool data;
	char *path; /* CODE: a file that we can open, whatever it is called in the process */
	uint64_t at; /* CODE: the offset in the file; DATA: the address */
	uint32_t size; /* DATA: 1, 2, 4 or 8 bytes */
	uint64_t definition; /* CODE: of the probe (uprobes.h); 0: not yet */
};

struct probe_sites {
	ARRAY(struct probe_site) items;
	struct marks *marks; /* lent */
	pid_t pid;
	const struct marks_area *area; /* their tables, which stay as long as the marks */
	unsigned data; /* how many are data */
};

/* None yet. -EINVAL: a mark that the kernel cannot count, and why. */
int probe_sites_init(struct probe_sites *sites, struct marks *marks, pid_t pid);
void probe_sites_deinit(struct probe_sites *sites);
/* Adds those in what the process has mapped now. -E2BIG: there are too many. */
int probe_sites_look(struct probe_sites *sites);

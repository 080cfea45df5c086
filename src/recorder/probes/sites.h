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
};

struct probe_sites {
	ARRAY(struct probe_site) items;
};

/* -EINVAL: a mark that the kernel cannot count, and why; -E2BIG: there are too many. */
int probe_sites_find(struct marks *marks, pid_t pid, struct probe_sites *ret);
void probe_sites_deinit(struct probe_sites *sites);

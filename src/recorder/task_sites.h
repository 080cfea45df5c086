/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a program tells of its tasks: the instructions of assay/client.h in its file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task_site {
	uint64_t offset; /* in the file */
	bool begins; /* a task; otherwise it ends */
};

/* How many there are, in a heap array; 0, and NULL: none, or no ELF file with the header's note. */
size_t task_sites_find(int file, struct task_site **ret);

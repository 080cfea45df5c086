// SPDX-License-Identifier: BSD-2-Clause
/* ELF images with any .eh_frame: the table must be sound, whatever the image says. */
#include <stdint.h>
#include <stdlib.h>

#include "unwind/unwind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct unwind_table table;

	if (unwind_table_build(data, size, &table) != 0)
		return 0;
	for (size_t i = 0; i < table.count; i++)
		if (table.rows[i].kind >= UNWIND_KIND_COUNT ||
		    (i && table.rows[i].pc <= table.rows[i - 1].pc))
			abort();
	unwind_table_deinit(&table);
	return 0;
}

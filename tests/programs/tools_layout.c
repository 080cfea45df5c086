// SPDX-License-Identifier: BSD-2-Clause
/* Says where in the memory that assay shares with programs the gates of tools are. */
#include <stddef.h>
#include <stdio.h>

#include "wire/stream.h"

int main(void)
{
	for (unsigned i = 0; i < ENGINE_TOOLS_END; i++)
		printf("%s %zu\n", engine_tool_row(i)->name,
		       STREAM_GATES + offsetof(struct stream_gates, closed) + i * sizeof(wire_u32));
	return 0;
}

// SPDX-License-Identifier: BSD-2-Clause
/* Writes where the helper in Java finds what the C side shares with it. Run when building. */
#include <stddef.h>
#include <stdio.h>

#include "hooks/thread.h"
#include "java/agent.h"

#define FIELDS(X)                                                                                  \
	X(THREAD_JAVA, offsetof(struct hooks_thread, java))                                        \
	X(THREAD_TOP, offsetof(struct hooks_thread, tree.top))                                     \
	X(THREAD_DEEP, offsetof(struct hooks_thread, tree.deep))                                   \
	X(THREAD_LAST, offsetof(struct hooks_thread, last))                                        \
	X(THREAD_PAGE, offsetof(struct hooks_thread, page))                                        \
	X(THREAD_PAGE_LOCK, offsetof(struct hooks_thread, page_lock))                              \
	X(THREAD_PAUSED, offsetof(struct hooks_thread, paused))                                    \
	X(PAGE_LOCK, offsetof(struct perf_event_mmap_page, lock))                                  \
	X(FRAME, sizeof(struct call_frame))                                                        \
	X(FRAME_AT, offsetof(struct call_frame, at))                                               \
	X(FRAME_SP, offsetof(struct call_frame, sp))                                               \
	X(FRAME_NODE, offsetof(struct call_frame, node))                                           \
	X(NODE_ROUTINE, offsetof(struct call_node, routine))                                       \
	X(NODE_PARENT, offsetof(struct call_node, parent))                                         \
	X(NODE_CALLS, offsetof(struct call_node, calls))                                           \
	X(NODE_BASE, offsetof(struct call_node, amounts[CALL_JAVA_TIME].base))                     \
	X(NODE_ELAPSED, offsetof(struct call_node, amounts[CALL_JAVA_TIME].elapsed))               \
	X(TABLE_MASK, JAVA_TABLE_SIZE - 1)

int main(void)
{
	printf("package java.lang;\n\ninterface AssayLayout {\n");
#define X(name, value) printf("    long %s = %zuL;\n", #name, (size_t)(value));
	FIELDS(X)
#undef X
	printf("}\n");
	return 0;
}

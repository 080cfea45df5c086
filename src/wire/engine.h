/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the host hands to the engine that it puts into a process, and the mailbox between the two.
 *
 * The host stops a process at an instruction, maps the engine's image, a stack, this structure and a piece of memory shared
 * with the host, and lets it run at engine_entry with rdi pointing to struct engine_boot. From then on no tracer is
 * attached; what the engine needs from the host, it asks for in the mailbox.
 */
#pragma once

#include "wire/unwind.h"

enum {
	ENGINE_BOOT_VERSION = 1,
	ENGINE_STACK_SIZE = 256 * 1024, /* the first thread's, below a page that is not mapped */
	ENGINE_SHARED_SIZE = 1 << 20,
	ENGINE_REQUESTS = 64, /* slots of the mailbox; a power of two */
};

/* Registers of a thread, in x86's numbering. */
struct engine_registers {
	wire_u64 general[16];
	wire_u64 rip;
	wire_u64 rflags;
	wire_u64 fs_base;
	wire_u64 gs_base;
};

struct engine_boot {
	wire_u64 version; /* ENGINE_BOOT_VERSION */
	wire_u64 image_start,
		image_size; /* everything the host has mapped for the engine lies in one piece */
	wire_u64 stack_start; /* lowest byte of the stack */
	wire_u64 shared; /* struct engine_shared; 0: none */
	wire_u64 host_pid;
	wire_u64 tool; /* enum engine_tool */
	wire_u64 flags; /* enum engine_flag */
	struct engine_registers registers; /* where the program goes on */
};

/* Columns: name, text, what a person reads. */
#define ENGINE_TOOLS(X)                                                                            \
	X(NATIVE, "native", "hands the program back at once: tests the way in")                    \
	X(NONE, "none", "runs the program in the engine and records nothing")

enum engine_tool {
#define X(name, text, help) ENGINE_TOOL_##name,
	ENGINE_TOOLS(X)
#undef X
		ENGINE_TOOL_COUNT
};

enum engine_flag {
	ENGINE_NO_CHILDREN = 1, /* what the program execs runs natively */
};

enum engine_request_kind {
	ENGINE_REQUEST_EXEC =
		1, /* tid is about to exec: attach, so that the new program can be taken over */
	ENGINE_REQUEST_EXEC_FAILED = 2, /* it is still the old program: let go */
};

/* States of a slot; a futex. The engine goes FREE -> ASKED, the host ASKED -> ANSWERED, the engine back to FREE. */
enum engine_request_state {
	ENGINE_SLOT_FREE,
	ENGINE_SLOT_TAKEN, /* being filled */
	ENGINE_SLOT_ASKED,
	ENGINE_SLOT_ANSWERED,
};

struct engine_request {
	wire_u32 state; /* enum engine_request_state */
	wire_u32 kind;
	wire_u32 pid;
	wire_u32 tid;
	int answer; /* 0 or a negative errno */
	wire_u32 reserved[3];
};

/* At the start of the shared memory. */
struct engine_shared {
	wire_u32 bell; /* futex: grows with each request; the host sleeps on it */
	wire_u32 closed; /* the host takes no more requests */
	wire_u32 reserved[14];
	struct engine_request requests[ENGINE_REQUESTS];
};

_Static_assert(sizeof(struct engine_request) == 32, "wire");
_Static_assert(sizeof(struct engine_boot) == 8 * 8 + 20 * 8, "read by assembly");
_Static_assert(sizeof(struct engine_shared) == 64 + 32 * ENGINE_REQUESTS, "wire");

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that reads one ELF file with libdw and answers for addresses, so that a file which crashes the
 * library, makes it loop or eat memory costs names and nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct worker {
	pid_t pid; /* 0: none runs */
	int socket;
};

/* A reply: this, then frame_count times struct worker_frame, then text_size bytes of strings. */
struct worker_reply {
	int32_t result; /* 0 or a negative errno */
	uint32_t frame_count;
	uint64_t address, size;
	uint32_t text_size;
	uint32_t reserved;
};

/* Offsets of NUL-terminated strings in the text; file 0 is "", meaning none. */
struct worker_frame {
	uint32_t name, linkage, file, line;
};

enum { WORKER_TEXT_MAX = 64 << 20 };

/* What a worker may use up for one answer; the first answer includes the load. */
struct worker_limits {
	unsigned int cpu_seconds;
	unsigned int
		wall_seconds; /* for what needs no CPU: a file or a debuginfod server that stalls */
	uint64_t memory; /* address space in bytes on top of the parent's, mapped files included */
};

int worker_start(struct worker *worker, int fd, const char *path, bool with_dwarf,
		 const struct worker_limits *limits);
/*
 * Asks for one address. *ret is a heap block, its sizes and strings checked. -EPIPE: the worker died or
 * answered nonsense; worker_stop() then tells how it ended.
 */
int worker_ask(struct worker *worker, uint64_t address, struct worker_reply **ret);
const struct worker_frame *worker_reply_frames(const struct worker_reply *reply);
const char *worker_reply_text(const struct worker_reply *reply);
/* Ends the worker and waits for it. Returns the signal that ended it: SIGKILL when it was well until now. */
int worker_stop(struct worker *worker);

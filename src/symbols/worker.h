/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that reads one ELF file with libdw and answers for addresses, so that a file which
 * crashes the library, makes it loop or eat memory costs names and nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct worker {
	pid_t pid; /* 0: none runs */
	int socket;
	bool loading; /* an answer to worker_load() is still to come */
	uint32_t string_count; /* of all replies so far, and number 0 */
};

enum worker_question {
	WORKER_FRAMES, /* rows: texts name, linkage, file; numbers line */
	/*
	 * No rows. In place of the address of a function a number that is the same for the same
	 * function, frames and line, while this worker lives.
	 */
	WORKER_PLACES,
	WORKER_PARAMETERS, /* rows: texts name, type; numbers argument, encoding, size */
	/*
	 * In place of addresses: unit, first row. Rows: texts file; numbers line, low and high half
	 * of the address. The first answer has the rows, the second as its size the number of
	 * units.
	 */
	WORKER_LINES,
	/*
	 * In place of addresses: enum symbol_names, first row. Rows: texts name, linkage; numbers
	 * size, low and high half of the address. The first answer has the rows, the second none.
	 */
	WORKER_NAMES,
};

enum { WORKER_LINES_MAX = 256, WORKER_NAMES_MAX = 256 }; /* rows of an answer */

/* A request: this, then count addresses. */
struct worker_request {
	uint32_t question;
	uint32_t count;
};

/*
 * A reply: this, then the answers in the order of the addresses, the rows, and text_size bytes of
 * NUL-terminated strings. Strings are numbered on from those of earlier replies, so that each is
 * sent once; number 0 is "", meaning none, and is not sent.
 */
struct worker_reply {
	uint32_t answer_count, row_count, string_count, text_size;
};

struct worker_answer {
	uint64_t address, size;
	int32_t result; /* 0 or a negative errno */
	uint32_t data; /* 1: an object, no function */
	uint32_t first, count; /* rows */
};

struct worker_row {
	uint32_t texts[3];
	uint32_t numbers[3];
};

enum { WORKER_TEXT_MAX = 64 << 20 };

/* What a worker may use up for one request; the first one includes the load. */
struct worker_limits {
	unsigned int cpu_seconds;
	unsigned int
		wall_seconds; /* for what needs no CPU: a file or a debuginfod server that stalls */
	uint64_t memory; /* address space in bytes on top of the parent's, mapped files included */
};

int worker_start(struct worker *worker, int fd, const char *path, bool with_dwarf,
		 const struct worker_limits *limits);
/* The file is read while the caller does something else; the next worker_ask() waits for that. */
void worker_load(struct worker *worker);
/*
 * Asks for at most SYMBOLS_BATCH_MAX addresses. *ret is a heap block, every number in it checked.
 * -EPIPE: the worker died or answered nonsense; worker_stop() then tells how it ended.
 */
int worker_ask(struct worker *worker, enum worker_question question, const uint64_t *addresses,
	       size_t count, struct worker_reply **ret);
const struct worker_answer *worker_reply_answers(const struct worker_reply *reply);
const struct worker_row *worker_reply_rows(const struct worker_reply *reply);
const char *worker_reply_text(const struct worker_reply *reply);
/*
 * Ends the worker and waits for it. Returns the signal that ended it: SIGKILL when it was well
 * until now.
 */
int worker_stop(struct worker *worker);

/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of struct inject, for the files that make its memory and put it into processes. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/types.h>

#include "inject/image.h"
#include "inject/inject_parts.h"
#include "wire/stream.h"

/* Offsets from the start of what is mapped. */
struct layout {
	uint64_t boot;
	uint64_t guard;
	uint64_t stack;
	uint64_t shared;
	uint64_t size;
};

struct inject {
	struct image *image;
	struct layout layout;
	uint64_t address;
	uint64_t tools; /* a set: ENGINE_TOOL_BIT */
	unsigned flags;
	uint64_t cache_bytes;
	uint64_t fails; /* for tests, as in struct engine_boot */
	int exchange; /* likewise */
	uint64_t session;
	/* the process that serves the engines; the tracer may be another one (apart.h) */
	pid_t host;
	unsigned filters; /* seccomp filters that we have ourselves */
	int memory; /* file of the memory that the next process is to share with us */
	int public; /* file of what all processes can read, and only we can write */
	int code; /* file of the image as it is at our address, sealed against writing */
	bool present; /* we hold the lock in public memory (STREAM_HOST) */
	void *public_bytes;
	sigset_t mask;
	struct memories *memories; /* a piece for each process */
	uint64_t shared_size;
	struct inject_counts dropped; /* of pieces that are gone */
	inject_module *module_serve; /* NULL: no function was set */
	void *module_ctx;
	inject_tick *tick; /* NULL: no function was set */
	void *tick_ctx;
};

/* Rings end where the low bits of an address are 0: inline code looks at nothing else. */
static inline uint64_t round_up(uint64_t value)
{
	return (value + STREAM_CHUNK - 1) & ~(uint64_t)(STREAM_CHUNK - 1);
}

/* The options of ptrace while we hold a process. */
static const long inject_held_options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;

/* Makes the files in memory that all processes share (inject_memory.c). */
int inject_public_create(struct inject *inject);
/* Whatever the limit of file sizes. */
int inject_memory_resize(int memory, uint64_t size);
/* After image_place(): the words in it are right for one address only. */
int inject_code_create(struct inject *inject);
/* The lock in public memory that the kernel marks when the thread that holds it ends. */
pthread_mutex_t *inject_presence(const struct inject *inject);
/* Puts the engine into a thread that is stopped and lets it go; on failure it is still stopped. */
int inject_take_stopped(struct inject *inject, struct remote *remote);

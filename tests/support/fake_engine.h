/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests: plays the engine's part of wire/stream.h, in a memory of its own. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/stream.h"

struct fake_engine {
	char *memory;
	uint64_t size;
	uint64_t slot_bytes;
};

/* counter_bytes: beside each segment; 0: none. */
void fake_engine_init(struct fake_engine *engine, unsigned counter_bytes);
void fake_engine_deinit(struct fake_engine *engine);

struct stream_area *fake_area(struct fake_engine *engine);
struct stream_slot *fake_slot(struct fake_engine *engine, uint32_t index);
void *fake_counters(struct fake_engine *engine, uint32_t index);

/* Slots go from FREE to LIVE; the first free one is taken. Returns its number, or UINT32_MAX. */
uint32_t fake_catalog_open(struct fake_engine *engine, uint32_t pid);
uint32_t fake_thread_open(struct fake_engine *engine, uint32_t catalog, uint32_t pid, uint32_t tid);
/* Appends; waits while the ring is full. */
void fake_append(struct fake_engine *engine, uint32_t index, const void *bytes, size_t size);
void fake_segments(struct fake_engine *engine, uint32_t index, const uint32_t *segments,
		   size_t count);
void fake_end(struct fake_engine *engine, uint32_t index);

void fake_process(struct fake_engine *engine, uint32_t catalog, uint32_t pid, uint32_t parent,
		  uint32_t inherited);
/*
 * Segments first to first + count - 1 of blocks at pc, pc + 16, ..., of 16 bytes and 4 instructions
 * each.
 */
void fake_fragment(struct fake_engine *engine, uint32_t catalog, uint32_t first, uint32_t count,
		   uint64_t pc);
void fake_partial(struct fake_engine *engine, uint32_t catalog, uint32_t segment, uint32_t first,
		  uint32_t blocks, struct stream_block last);
void fake_module(struct fake_engine *engine, uint32_t catalog, uint64_t start, uint64_t end,
		 uint64_t offset, const char *path);

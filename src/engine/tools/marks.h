/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tools of marks share: where something is marked. The caller holds the engine's lock. */
#pragma once

#include "engine/tool.h"
#include "wire/marks.h"

/* Some code that is mapped, of a file with marks. */
struct mark_module {
	uint64_t start, end, offset;
	uint32_t file; /* its number */
	uint32_t table; /* that code was translated with; 0: nothing was marked */
};

const struct marks_area *marks_area(void);
/* The table at a place; NULL: there is none. */
const struct mark_table *marks_table(uint32_t place);
const struct mark_data_range *mark_table_data(const struct mark_table *table);
/* NULL: none with marks. */
const struct mark_module *mark_module_of(uint64_t pc);
/*
 * Ranges of the module that hold the address, but for those that are counted: up to as many as
 * there is room for.
 */
unsigned mark_ranges_at(const struct mark_module *module, uint64_t pc,
			const struct mark_range **ret, unsigned room);
/* Whether the address is in a range of the module with that word, apart from its lowest bit. */
bool mark_is_within(const struct mark_module *module, uint64_t pc, uint32_t word);

/*
 * The unit goes on only if the thread counts: it has come by a mark that starts counting, and not
 * by one that stops it. Two operations at most.
 */
void mark_only_counting(struct insert *insert);

struct mark_event {
	uint32_t mark; /* its number */
	uint32_t access; /* STREAM_ACCESS_, of data */
	uint64_t pc;
	uint64_t ticks; /* that a visit took which ends here; 0: it begins */
};

/* Unless there were too many. Without the engine's lock. */
void mark_event_raise(const struct thread *thread, const struct mark_event *event);

/* Of a thread's `counting`, beside whether it counts: what it has counted has been taken. */
enum { MARK_COUNTING_ENDED = 2 };

/* Whether what it counts is in its memory: it has begun, and not ended. */
static inline bool mark_is_counting(const struct thread *thread)
{
	return thread->begun && !(thread->counting & MARK_COUNTING_ENDED);
}

/* --- Reading by the program: mark_read.c ------------------------------------------------- */
/* Spans of marked instructions of a block, which the segment ends; up to the next fragment's. */
void mark_read_add(uint32_t segment, const struct stream_mark *mark);
/* Those that were added belong to a fragment with segments from first to last. */
void mark_read_fragment(uint32_t first, uint32_t last);
void mark_read_partial(const struct stream_partial *partial);
/* What a thread that ends has counted stays. is: whether a segment has counters. */
void mark_read_thread_end(struct thread *thread, uint32_t limit, bool (*is)(uint32_t segment));
void mark_read_forked(void);
/* What all have counted of marks by that name. Only with the engine's lock. */
void mark_read(struct thread *thread, uint64_t hash, struct mark_reading *ret);
/* What all have read and written of a mark on data is added. False: not all of it is known. */
bool mark_data_read(struct thread *reader, uint32_t mark, struct mark_reading *ret);

struct mark_data_memory *mark_data_memory(struct thread *thread);
/* What a thread that ends has read and written stays. It is not counting any more. */
void mark_data_thread_end(struct thread *thread);
void mark_data_forget(void);

/* --- Marks that come and go -------------------------------------------------------------- */
/* Pieces of code that are mapped and have marks: the number's, from 0 on; NULL: no more. */
const struct mark_module *mark_module_number(uint32_t number);
/* Whether some mark needs the tool now: as of the last change, which `renew` takes up. */
bool mark_tool_is_needed(enum engine_tool tool);
/* What the host has changed last; another number each time. */
uint32_t marks_generation(void);

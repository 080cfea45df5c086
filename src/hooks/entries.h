/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that tell entries only, and how their exits are seen all the same (entries.c). */
#pragma once

#include <stdint.h>

#include "hooks/thread.h"

#define SEEN __attribute__((visibility("default")))

/*
 * A function's first and last word from entry.S. Each of these says whether the next one has to be
 * asked: what changes no register but the one of its result, what needs the general ones, what may
 * change all of them.
 */
#define QUICK __attribute__((no_caller_saved_registers))

QUICK int hooks_enter_quickly(uint64_t routine, uint64_t *slot);
QUICK int hooks_return_quickly(uint64_t *slot);
int hooks_entered(uint64_t routine, uint64_t *slot);
void hooks_entered_slow(uint64_t routine, uint64_t *slot);
int hooks_returned(uint64_t *slot);
void hooks_returned_slow(uint64_t *slot);

/* Makes the memory of ways back. */
void hooks_entries_start(void);
/* In the child of a fork: memory of its own with the same ways; without it, no way is added. */
void hooks_entries_forked(void);
/* Ticks that are added to each interval, measured in the calling thread's tree. */
uint64_t hooks_entries_calibrate(void);

/* Code that calls may come from: texts.c. */
void hooks_texts_start(void);
void hooks_text_add(uint64_t start, uint64_t end);
bool hooks_text_has(uint64_t address);
/*
 * Whether hooks_text_find() may know more of an address. That is called with all of the processor's
 * state kept.
 */
bool hooks_text_is_new(uint64_t address);
void hooks_text_find(uint64_t address);
/* Where a module's file is whose first byte lies at `start`; path has zeroes. Not in a hook. */
void hooks_module_path(const char *name, uint64_t start, char *path, size_t size);
/* Puts calls into the patchable entries of modules that are new. */
void hooks_patches_look(void);
/* Counts those of modules that are new, when the program ends. */
void hooks_patches_count(void);
/* Before the program's dlsym(), which is then hooks_dlsym. */
void hooks_looked_up(const void *library);
extern void *(*hooks_dlsym)(void *library, const char *name);

/* In entry.S. */
void hooks_patched(void);
void hooks_patched_front(void);
void hooks_return(void);
void hooks_nothing(void);
extern char hooks_ways[];
/* What slow calls keep of the processor's state: bits of XCR0; 0: by fxsave. */
extern uint32_t hooks_states;

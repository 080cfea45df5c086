/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What addresses mean: the address spaces of processes that give values, and names for values that
 * point into them.
 *
 * The same look at a process tells whether it has a device mapped. A load from a device can have
 * effects, so that nothing may be interpreted there. Between two looks a process may map one: for
 * at most about a second of its running, runs can read from it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "image/loadmap.h"
#include "recorder/locations.h"
#include "store/store.h"

struct pointers;

void pointers_create(struct loadmap *loadmap, struct locations *locations, struct store *store,
		     struct pointers **ret);
void pointers_destroy(struct pointers *pointers);
DEFINE_AUTO(struct pointers, pointers_destroy)

/*
 * Reads the mappings of the process. True: some of them may be a device, or that cannot be told.
 * The mappings of a process that has ended stay known.
 */
bool pointers_look(struct pointers *pointers, const struct loadmap_process *process);
/* Whether the process was looked at. */
bool pointers_know(const struct pointers *pointers, struct process_id process);

/*
 * The process had the value. It gets a name if it is the address of something there, or in another
 * process that runs the same program.
 */
void pointers_name(struct pointers *pointers, struct process_id process, uint64_t value);
/* The same for something in the kernel. */
void pointers_name_kernel(struct pointers *pointers, uint64_t value);
/* The kernel does not let the process's own user look into it: its texts are not read. */
void pointers_guard(struct pointers *pointers, struct process_id process);
/* Looks whether the value is the address of a text, in a process that still runs (texts.h). */
void pointers_text(struct pointers *pointers, struct process_id process, uint64_t value);
/* Writes the names; before locations are symbolised. */
int pointers_flush(struct pointers *pointers);

/*
 * By the path that /proc/PID/maps shows: whether what is mapped there may be anything else than
 * RAM.
 */
bool pointers_path_is_device(const char *path);
/* By what stat() says of what is mapped. */
bool pointers_file_is_device(mode_t mode, dev_t number);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines of source files, where they can be read and shown.
 *
 * A program says itself what its source is called, and can name any file. So where another user may
 * have written the program, or the profile, only what everybody may read is shown: what is printed
 * or lies in a page is passed on.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "store/profile.h"

struct sources;

/* The profile must outlive it. */
struct sources *sources_create(const struct profile *profile);
void sources_destroy(struct sources *sources);
DEFINE_AUTO(struct sources, sources_destroy)
/*
 * The text of a line (from 1) of the module's source without blanks at its ends, or NULL. Lives
 * until sources_destroy().
 */
const char *sources_line(struct sources *sources, uint32_t module, const char *path, uint32_t line);

/* For annotate_interleave(). */
struct sources_reader {
	struct sources *sources;
	uint32_t module;
};
const char *sources_reader_line(void *ctx, const char *path, uint32_t line);

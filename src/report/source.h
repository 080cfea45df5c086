/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of source files, where they can be read. */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"

struct sources;

struct sources *sources_create(void);
void sources_destroy(struct sources *sources);
DEFINE_AUTO(struct sources, sources_destroy)
/*
 * The text of a line (from 1) without blanks at its ends, or NULL. Lives until sources_destroy().
 */
const char *sources_line(struct sources *sources, const char *path, uint32_t line);

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions and source lines of executed code: blocks in; rows that say which instructions of a
 * block belong to which function and line, and how often each source line was executed, out. Part
 * of the sink of executed code.
 */
#pragma once

#include "recorder/engine/executed.h"

/* Writes block_part. Comes before locations get their names, because it adds some. */
int parts_store(struct executed *executed, struct recorder *recorder);
/*
 * Writes source_line where there is debug information. Comes when locations have their names: files
 * have numbers then.
 */
int lines_store(struct executed *executed, struct recorder *recorder, bool marks);

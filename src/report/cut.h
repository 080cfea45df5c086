/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names and places that are too long for their column, made so that they still tell rows apart: two
 * places of one function differ in their offset, two lines of one file in their number.
 */
#pragma once

#include <stddef.h>

#include "analyse/table.h"
#include "base/strbuf.h"

/* Appends at most width columns of text that went through utf8_escape(). */
void cut_put(struct strbuf *buf, const char *text, size_t width, enum column_cut cut,
	     const char *mark);

/* SPDX-License-Identifier: BSD-2-Clause */
/* What stands below a table: why it is empty, what is not shown, what was seen, kept and lost. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analyse/table.h"
#include "base/strbuf.h"

/* 1234567 as 1,234,567. */
void count_put(struct strbuf *buf, uint64_t count);

/* note: about the table's form, "" for nothing. Lines are folded at width; 0: they are not. */
/* What the table says of all rows, if anything. */
void heading_write(const struct table *table, size_t width, FILE *file);
void footer_write(const struct table *table, const char *note, size_t width, FILE *file);

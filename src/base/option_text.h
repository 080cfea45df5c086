/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows of options as text for people: the help of a command, and the option list of a manual page.
 */
#pragma once

#include <stdio.h>

#include "base/option.h"

/* One paragraph for each group, wrapped at 80 columns. */
void options_help_print(const struct option_group *groups, FILE *file);
/* Two columns, "  name  text", the text wrapped at 80 columns. */
void help_row_print(const char *name, const char *text, FILE *file);
/* A section of a manual page in the language of mdoc(7). */
void options_mdoc_print(const struct option_group *groups, FILE *file);
/* Appends what a row takes, "a whole number from 1 to 512"; nothing if there is nothing to say. */
void option_range_print(const struct option_row *row, struct strbuf *ret);

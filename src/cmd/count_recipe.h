/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recipes of assay count: files with options, one a line, by their long names without dashes, in
 * which $1 stands for the recipe's argument. Those that come with Assay are in src/cmd/recipes.
 *
 *	# what it is for: the first line, for --recipe help
 *	mark $1,tail
 *	every 1s
 */
#pragma once

#include "base/option.h"
#include "base/strbuf.h"

/*
 * Takes the options of a recipe in. given: NAME, NAME=ARGUMENT, or in the place of the name a path
 * with a slash. Texts that options need go to options->owned.
 */
int recipe_take(const char *given, struct options *options);
/* One line for each that comes with Assay. */
void recipe_help(struct strbuf *out);

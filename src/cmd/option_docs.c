// SPDX-License-Identifier: BSD-2-Clause
/* Prints the options of a command as a part of its manual page; tools/man-options puts it there. */
#include <stdio.h>

#include "base/option_text.h"
#include "cmd/cmd.h"

int main(int argc, char **argv)
{
	const struct command *command = argc == 2 ? command_find(argv[1]) : NULL;

	if (!command) {
		fprintf(stderr, "usage: option_docs COMMAND\n");
		return EXIT_USAGE;
	}
	options_mdoc_print(command->groups, stdout);
	return command_output_check();
}

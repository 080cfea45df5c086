// SPDX-License-Identifier: BSD-2-Clause
/*
 * assay completion: scripts by which bash, zsh and fish complete commands, options and their
 * values. They are made from the table of commands and need nothing of assay while they run.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/cmd.h"

/* Called for each option of a command that is not hidden, and for --help. */
typedef void (*row_fn)(const struct command *command, const struct option_row *row);

static void rows_each(const struct command *command, row_fn call)
{
	static const struct option_row help = { "help", 'h', OPTION_FLAG,
						.help = "Print how to use the command" };

	for (const struct option_group *group = command->groups; group->rows; group++)
		for (const struct option_row *row = group->rows; row->name; row++)
			if (!row->hidden && option_is_taken(group, row))
				call(command, row);
	call(command, &help);
}

static void choices_print(const struct option_row *row)
{
	struct strbuf names = {};

	option_choices_join(row, "", " ", " ", &names);
	fputs(strbuf_text(&names), stdout);
	strbuf_deinit(&names);
}

static void names_print(const struct command *command)
{
	const char *name, *summary;

	for (size_t i = 0; (name = command->names(i, &summary)); i++)
		printf("%s%s", i ? " " : "", name);
}

/* Prints a description without the characters that have a meaning to a shell. */
static void plain_print(const char *text)
{
	for (; *text; text++)
		if (!strchr("`'\"\\[]$:", *text))
			putchar(*text);
}

/* --- bash ------------------------------------------------------------------------------------- */

static void bash_value_print(const struct command *command, const struct option_row *row)
{
	if (!row->choices && row->type != OPTION_FILE)
		return;
	printf("\t%s:--%s", command->name, row->name);
	if (row->letter)
		printf("|%s:-%c", command->name, row->letter);
	if (row->type == OPTION_FILE) {
		printf(") _assay_files; return ;;\n");
		return;
	}
	printf(") words=\"");
	choices_print(row);
	printf("\" ;;\n");
}

/* Other values are the user's own: nothing is offered for them. */
static void bash_own_value_print(const struct command *command, const struct option_row *row)
{
	if (!option_has_value(row) || row->choices || row->type == OPTION_FILE)
		return;
	printf("|%s:--%s", command->name, row->name);
	if (row->letter)
		printf("|%s:-%c", command->name, row->letter);
}

static void bash_name_print(const struct command *command, const struct option_row *row)
{
	printf("--%s ", row->name);
}

static void bash_command_print(const struct command *command)
{
	printf("\t%s)\n\t\tif [[ $word == -* ]]; then words=\"", command->name);
	rows_each(command, bash_name_print);
	printf("\"\n\t\telse ");
	switch (command->arguments) {
	case ARGUMENTS_NAMES:
		printf("words=\"");
		names_print(command);
		printf("\"\n");
		break;
	case ARGUMENTS_FILES:
		printf("_assay_files; return\n");
		break;
	case ARGUMENTS_COMMAND:
		printf("COMPREPLY=($(compgen -c -- \"$word\")); return\n");
		break;
	case ARGUMENTS_NONE:
		printf("return\n");
		break;
	}
	printf("\t\tfi ;;\n");
}

static void bash_print(void)
{
	printf("# Completion of assay for bash, made by 'assay completion bash'.\n"
	       "_assay_files()\n"
	       "{\n"
	       "\tlocal IFS=$'\\n'\n"
	       "\tCOMPREPLY=($(compgen -f -- \"$word\"))\n"
	       "}\n"
	       "_assay()\n"
	       "{\n"
	       "\tlocal word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]}\n"
	       "\tlocal words= command=${COMP_WORDS[1]}\n"
	       "\tCOMPREPLY=()\n"
	       "\tif ((COMP_CWORD == 1)) || [[ $command == help && $COMP_CWORD == 2 ]]; then\n"
	       "\t\tCOMPREPLY=($(compgen -W \"help --version");
	for (const struct command *command = commands; command->name; command++)
		printf(" %s", command->name);
	printf("\" -- \"$word\"))\n"
	       "\t\treturn\n"
	       "\tfi\n"
	       "\tcase $command:$last in\n");
	for (const struct command *command = commands; command->name; command++)
		rows_each(command, bash_value_print);
	printf("\tnone");
	for (const struct command *command = commands; command->name; command++)
		rows_each(command, bash_own_value_print);
	printf(") return ;;\n"
	       "\tesac\n"
	       "\t[[ $words ]] || case $command in\n");
	for (const struct command *command = commands; command->name; command++)
		bash_command_print(command);
	printf("\tesac\n"
	       "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
	       "}\n"
	       "complete -o filenames -F _assay assay\n");
}

/* --- zsh -------------------------------------------------------------------------------------- */

static void zsh_action_print(const struct option_row *row)
{
	if (row->type == OPTION_FLAG)
		return;
	printf(":");
	plain_print(row->argument);
	printf(":");
	if (row->type == OPTION_FILE)
		printf("_files");
	if (!row->choices)
		return;
	printf("(");
	choices_print(row);
	printf(")");
}

static void zsh_row_print(const struct command *command, const struct option_row *row)
{
	const char *equals = row->type == OPTION_FLAG ? "" : row->implied ? "=-" : "=";

	printf("\t\t\t'*--%s%s[", row->name, equals);
	plain_print(row->help);
	printf("]");
	if (row->implied)
		printf(":");
	zsh_action_print(row);
	printf("' \\\n");
	if (!row->letter)
		return;
	printf("\t\t\t'*-%c%s[", row->letter, row->type == OPTION_FLAG ? "" : "+");
	plain_print(row->help);
	printf("]");
	zsh_action_print(row);
	printf("' \\\n");
}

static void zsh_command_print(const struct command *command)
{
	printf("\t\t%s)\n\t\t\t_arguments \\\n", command->name);
	rows_each(command, zsh_row_print);
	switch (command->arguments) {
	case ARGUMENTS_NAMES:
		printf("\t\t\t'1:name:(");
		names_print(command);
		printf(")'");
		break;
	case ARGUMENTS_FILES:
		printf("\t\t\t'*:file:_files'");
		break;
	case ARGUMENTS_COMMAND:
		printf("\t\t\t'(-)1:command:_command_names -e' '*::argument:_normal'");
		break;
	case ARGUMENTS_NONE:
		printf("\t\t\t'*:argument:'");
		break;
	}
	printf(" ;;\n");
}

static void zsh_print(void)
{
	printf("#compdef assay\n"
	       "# Completion of assay for zsh, made by 'assay completion zsh'.\n"
	       "_assay()\n"
	       "{\n"
	       "\tlocal context state line\n"
	       "\tlocal -a names\n"
	       "\t_arguments -C '1:command:->command' '*::argument:->argument'\n"
	       "\tcase $state in\n"
	       "\tcommand)\n"
	       "\t\tnames=('help:how to use a command'\n");
	for (const struct command *command = commands; command->name; command++) {
		printf("\t\t\t'%s:", command->name);
		plain_print(command->summary);
		printf("'\n");
	}
	printf("\t\t)\n"
	       "\t\t_describe command names ;;\n"
	       "\targument)\n"
	       "\t\tcase $line[1] in\n"
	       "\t\thelp)\n"
	       "\t\t\t_arguments '1:command:(");
	for (const struct command *command = commands; command->name; command++)
		printf("%s%s", command == commands ? "" : " ", command->name);
	printf(")' ;;\n");
	for (const struct command *command = commands; command->name; command++)
		zsh_command_print(command);
	printf("\t\tesac ;;\n"
	       "\tesac\n"
	       "}\n"
	       "_assay \"$@\"\n");
}

/* --- fish ------------------------------------------------------------------------------------- */

static void fish_row_print(const struct command *command, const struct option_row *row)
{
	printf("complete -c assay -n '__fish_seen_subcommand_from %s' -l %s", command->name,
	       row->name);
	if (row->letter)
		printf(" -s %c", row->letter);
	if (option_has_value(row))
		printf(" -r");
	if (row->type == OPTION_FILE)
		printf(" -F");
	if (row->choices) {
		printf(" -f -a '");
		choices_print(row);
		printf("'");
	}
	printf(" -d '");
	plain_print(row->help);
	printf("'\n");
}

static void fish_command_print(const struct command *command)
{
	const char *name, *summary;

	printf("complete -c assay -n __fish_use_subcommand -f -a %s -d '", command->name);
	plain_print(command->summary);
	printf("'\ncomplete -c assay -n '__fish_seen_subcommand_from help' -f -a %s\n",
	       command->name);
	for (size_t i = 0; command->names && (name = command->names(i, &summary)); i++) {
		printf("complete -c assay -n '__fish_seen_subcommand_from %s' -f -a %s -d '",
		       command->name, name);
		plain_print(summary);
		printf("'\n");
	}
	rows_each(command, fish_row_print);
}

static void fish_print(void)
{
	printf("# Completion of assay for fish, made by 'assay completion fish'.\n"
	       "complete -c assay -n __fish_use_subcommand -f -a help -d 'how to use a command'\n");
	for (const struct command *command = commands; command->name; command++)
		fish_command_print(command);
}

static const struct {
	const char *shell;
	void (*print)(void);
} scripts[] = { { "bash", bash_print }, { "zsh", zsh_print }, { "fish", fish_print } };

static int script_find(int count, char **arguments, size_t *ret)
{
	for (size_t i = 0; count == 1 && i < sizeof(scripts) / sizeof(scripts[0]); i++)
		if (!strcmp(scripts[i].shell, arguments[0])) {
			*ret = i;
			return 0;
		}
	return err_set(-EINVAL, "completion takes the name of a shell: bash, zsh or fish");
}

int cmd_completion(const struct command *command, int argc, char **argv)
{
	AUTO(options_deinit) struct options options;
	int first, err;
	size_t script = 0;

	options_init(&options, command->groups, NULL);
	err = options_parse(&options, OPTIONS_ANYWHERE, argc, argv, &first);
	if (!err && options.help)
		return command_help(command);
	err = err ? err : script_find(argc - first, argv + first, &script);
	if (err)
		return command_usage_error(command);
	scripts[script].print();
	return command_output_check();
}

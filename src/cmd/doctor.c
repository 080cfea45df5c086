// SPDX-License-Identifier: BSD-2-Clause
/* assay doctor: what this machine and this user can do, and what to do about the rest. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "capture/ability.h"
#include "capture/kernel/sampler.h"
#include "capture/kernel/waits.h"
#include "cmd/cmd.h"
#include "cmd/doctor.h"
#include "cmd/policy.h"
#include "unwind/unwind.h"

/* One line of the answer: an ability of the capturing side, a part of the sampler, or the cache. */
struct finding {
	const char *name;
	const char *title;
	bool yes;
	char detail[192];
	char remedy[320];
	char lines[640]; /* the end of the verifier's log, if it refused a program */
};

enum { FINDINGS = ABILITY_COUNT + SAMPLER_PART_COUNT + 2 };

static void finding_set(struct finding *finding, const struct ability *ability)
{
	finding->name = ability->name;
	finding->title = ability->title;
	finding->yes = ability->yes;
	memcpy(finding->detail, ability->detail, sizeof(finding->detail));
	memcpy(finding->remedy, ability->remedy, sizeof(finding->remedy));
	finding->lines[0] = '\0';
}

_Static_assert(sizeof(((struct finding *)0)->detail) == sizeof(((struct ability *)0)->detail),
	       "copied");
_Static_assert(sizeof(((struct finding *)0)->lines) == sizeof(((struct sampler_refusal *)0)->lines),
	       "copied");
_Static_assert(sizeof(((struct finding *)0)->remedy) == sizeof(((struct ability *)0)->remedy),
	       "copied");

/* Programs of ours were loaded, as a recording would load them; or not, and why. */
static void finding_set_programs(struct finding *finding, const char *name, const char *title,
				 const struct sampler_refusal *refusal)
{
	int err = refusal->err;

	*finding = (struct finding){ .name = name, .title = title, .yes = err == 0 };
	if (err == 0) {
		snprintf(finding->detail, sizeof(finding->detail), "loaded it");
		return;
	}
	snprintf(finding->detail, sizeof(finding->detail), "%s: %s",
		 refusal->program[0] ? refusal->program : "loading it",
		 refusal->reason[0] ? refusal->reason : strerror(-err));
	snprintf(finding->remedy, sizeof(finding->remedy), "%s",
		 refusal->lines[0]
			 ? "the kernel's verifier refuses it, and recordings leave it out; boot "
			   "a newer kernel, or report it with what 'assay doctor -v' says"
			 : "see what is said above of BPF programs");
	memcpy(finding->lines, refusal->lines, sizeof(finding->lines));
}

static void finding_set_part(struct finding *finding, enum sampler_part part)
{
	struct sampler_refusal refusal;

	sampler_part_try(part, &refusal);
	finding_set_programs(finding, sampler_part_name(part), sampler_part_title(part), &refusal);
}

static void finding_set_waits(struct finding *finding)
{
	struct sampler_refusal refusal;

	waits_try(&refusal);
	finding_set_programs(finding, "waits", "Assay's sampler loads: waits (--off-cpu)",
			     &refusal);
}

/* Writes a file into the cache folder and removes it again. */
static int cache_try(const char *folder)
{
	AUTO(free_ptr) char *path = mem_printf("%s/probe.XXXXXX", folder);
	AUTO(close_fd) int fd = mkostemp(path, O_CLOEXEC);

	if (fd < 0)
		return -errno;
	unlink(path);
	return 0;
}

static void finding_set_cache(struct finding *finding)
{
	const char *folder = unwind_cache_dir();
	int err = folder ? cache_try(folder) : -ENOENT;

	*finding = (struct finding){ .name = "cache",
				     .title = "keep unwind tables between recordings",
				     .yes = err == 0 };
	if (err == 0) {
		snprintf(finding->detail, sizeof(finding->detail), "%s is writable", folder);
		return;
	}
	snprintf(finding->detail, sizeof(finding->detail), "%s: %s",
		 folder ? folder : "no cache folder", strerror(-err));
	snprintf(finding->remedy, sizeof(finding->remedy),
		 "set ASSAY_CACHE_DIR to a folder you can write to");
}

/*
 * The file has rights (setcap) that its users do not have, and they are not for other users'
 * processes: what the kernel allows is not all.
 */
static void finding_forbid(struct finding *finding)
{
	size_t length = strlen(finding->remedy);

	if (!finding->yes) {
		if (strstr(finding->remedy, "setcap"))
			snprintf(finding->remedy + length, sizeof(finding->remedy) - length,
				 "; setcap alone needs 'other-users = yes' in %s", POLICY_FILE);
		return;
	}
	finding->yes = false;
	snprintf(finding->detail, sizeof(finding->detail),
		 "the kernel allows it, but this file's rights are not for that");
	snprintf(finding->remedy, sizeof(finding->remedy),
		 "run as root, or let the administrator put 'other-users = yes' into %s",
		 POLICY_FILE);
}

static void others_forbid(struct finding findings[FINDINGS])
{
	if (findings[ABILITY_BPF_SAMPLER].yes || !policy_shows_everybody())
		finding_forbid(&findings[ABILITY_SAMPLE_SYSTEM]);
	finding_forbid(&findings[ABILITY_ATTACH_OTHERS]);
}

static void findings_collect(struct finding findings[FINDINGS])
{
	struct ability ability;
	struct policy policy;

	for (int id = 0; id < ABILITY_COUNT; id++) {
		ability_probe((enum ability_id)id, &ability);
		finding_set(&findings[id], &ability);
	}
	if (policy_read(&policy) || !policy.other_users)
		others_forbid(findings);
	for (int part = 0; part < SAMPLER_PART_COUNT; part++)
		finding_set_part(&findings[ABILITY_COUNT + part], (enum sampler_part)part);
	finding_set_waits(&findings[FINDINGS - 2]);
	finding_set_cache(&findings[FINDINGS - 1]);
}

static int print_json(const struct finding findings[FINDINGS])
{
	json_t *rows = json_array();
	json_t *envelope = json_pack("{s:i, s:s, s:o}", "assay", 1, "view", "doctor", "rows", rows);
	int err;

	for (int i = 0; i < FINDINGS; i++)
		json_array_append_new(
			rows, json_pack("{s:s, s:b, s:s, s:s, s:s}", "ability", findings[i].name,
					"yes", findings[i].yes, "detail", findings[i].detail,
					"remedy", findings[i].remedy, "log", findings[i].lines));
	err = json_dumpf(envelope, stdout, JSON_INDENT(1));
	json_decref(envelope);
	putchar('\n');
	return err;
}

/* Answers have paths and variables of the environment in them. */
static void print_line(const char *before, const char *text, size_t length)
{
	AUTO(free_ptr) char *line = mem_strndup(text, length);
	AUTO(strbuf_deinit) struct strbuf safe = {};

	utf8_escape(&safe, line);
	printf("%s%s\n", before, strbuf_text(&safe));
}

static void print_lines(const char *lines)
{
	while (*lines) {
		size_t length = strcspn(lines, "\n");

		print_line("     | ", lines, length);
		lines += length + (lines[length] == '\n');
	}
}

static int print_text(const struct finding findings[FINDINGS])
{
	for (int i = 0; i < FINDINGS; i++) {
		const char *detail = findings[i].detail, *remedy = findings[i].remedy;

		printf("%-4s %-48s ", findings[i].yes ? "yes" : "no", findings[i].title);
		print_line("", detail, strlen(detail));
		if (!findings[i].yes)
			print_line("     -> ", remedy, strlen(remedy));
		print_lines(findings[i].lines);
	}
	return 0;
}

int cmd_doctor(const struct command *command, int argc, char **argv)
{
	AUTO(options_deinit) struct options options;
	struct finding findings[FINDINGS];
	struct doctor_options given = {};
	int first, err;

	options_init(&options, command->groups, &given);
	err = options_parse(&options, OPTIONS_ANYWHERE, argc, argv, &first);
	if (!err && options.help)
		return command_help(command);
	if (!err && first < argc)
		err = err_set(-EINVAL, "'%s': doctor takes no arguments", argv[first]);
	if (err)
		return command_usage_error(command);
	log_verbose_set(given.verbose);
	findings_collect(findings);
	if (given.json ? print_json(findings) : print_text(findings))
		return EXIT_FAILED;
	return command_output_check();
}

// SPDX-License-Identifier: BSD-2-Clause
/* assay doctor: what this machine and this user can do, and what to do about the rest. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "capture/ability.h"
#include "cmd/cmd.h"
#include "ingest/unwind.h"

/* One line of the answer: an ability of the capturing side, or the cache. */
struct finding {
	const char *name;
	const char *title;
	bool yes;
	char detail[192];
	char remedy[320];
};

enum { FINDINGS = ABILITY_COUNT + 1 };

static const char usage[] = "usage: assay doctor [--json]\n"
			    "\n"
			    "Tries what a recording needs, as the user who runs it, and says what "
			    "to do where it fails.\n"
			    "\n"
			    "      --json   the same as JSON\n"
			    "  -h, --help   this text\n";

static void finding_set(struct finding *finding, const struct ability *ability)
{
	finding->name = ability->name;
	finding->title = ability->title;
	finding->yes = ability->yes;
	memcpy(finding->detail, ability->detail, sizeof(finding->detail));
	memcpy(finding->remedy, ability->remedy, sizeof(finding->remedy));
}

_Static_assert(sizeof(((struct finding *)0)->detail) == sizeof(((struct ability *)0)->detail),
	       "copied");
_Static_assert(sizeof(((struct finding *)0)->remedy) == sizeof(((struct ability *)0)->remedy),
	       "copied");

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

static void findings_collect(struct finding findings[FINDINGS])
{
	struct ability ability;

	for (int id = 0; id < ABILITY_COUNT; id++) {
		ability_probe((enum ability_id)id, &ability);
		finding_set(&findings[id], &ability);
	}
	finding_set_cache(&findings[ABILITY_COUNT]);
}

static int print_json(const struct finding findings[FINDINGS])
{
	json_t *rows = json_array();
	json_t *envelope = json_pack("{s:i, s:s, s:o}", "assay", 1, "view", "doctor", "rows", rows);
	int err;

	for (int i = 0; i < FINDINGS; i++)
		json_array_append_new(rows,
				      json_pack("{s:s, s:b, s:s, s:s}", "ability", findings[i].name,
						"yes", findings[i].yes, "detail",
						findings[i].detail, "remedy", findings[i].remedy));
	err = json_dumpf(envelope, stdout, JSON_INDENT(1));
	json_decref(envelope);
	putchar('\n');
	return err;
}

static int print_text(const struct finding findings[FINDINGS])
{
	for (int i = 0; i < FINDINGS; i++) {
		printf("%-4s %-48s %s\n", findings[i].yes ? "yes" : "no", findings[i].title,
		       findings[i].detail);
		if (!findings[i].yes)
			printf("     -> %s\n", findings[i].remedy);
	}
	return 0;
}

int cmd_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{},
	};
	struct finding findings[FINDINGS];
	bool json = false;
	int option, err;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 'j':
			json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return EXIT_DONE;
		default:
			fputs(usage, stderr);
			return EXIT_USAGE;
		}
	}
	if (optind < argc) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	findings_collect(findings);
	err = json ? print_json(findings) : print_text(findings);
	return err || fflush(stdout) != 0 ? EXIT_FAILED : EXIT_DONE;
}

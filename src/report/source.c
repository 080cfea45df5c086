// SPDX-License-Identifier: BSD-2-Clause
#include "report/source.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/origin.h"

enum { SOURCE_MAX = 32 << 20 }; /* bytes; a larger file is not source */

struct source {
	char *text; /* NUL for each line feed */
	ARRAY(const char *) lines;
	bool is_public; /* everybody may read it */
};

enum author { AUTHOR_UNKNOWN, AUTHOR_OURS, AUTHOR_ANYBODY };

struct sources {
	const struct profile *profile;
	/* Of modules, an enum author each, unknown until it is asked for; NULL: none was yet. */
	uint8_t *authors;
	struct strtab paths; /* id is the place in files */
	ARRAY(struct source) files;
	bool refused; /* a file was not shown, and that was said */
};

struct sources *sources_create(const struct profile *profile)
{
	struct sources *sources = mem_zalloc(sizeof(*sources));

	sources->profile = profile;
	return sources;
}

void sources_destroy(struct sources *sources)
{
	if (!sources)
		return;
	array_each(&sources->files, source) {
		free(source->text);
		array_deinit(&source->lines);
	}
	array_deinit(&sources->files);
	strtab_deinit(&sources->paths);
	free(sources->authors);
	free(sources);
}

/*
 * The path comes from a profile: it may name a pipe, a terminal or a device. Only regular files are
 * read.
 */
static char *file_read(const char *path, bool *ret_public)
{
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	AUTO(free_ptr) char *text = NULL;
	struct stat status;
	size_t size = 0;
	ssize_t got;

	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size > SOURCE_MAX)
		return NULL;
	text = mem_alloc((size_t)status.st_size + 1);
	while (size < (size_t)status.st_size &&
	       (got = read(fd, text + size, (size_t)status.st_size - size)) > 0)
		size += (size_t)got;
	text[size] = '\0';
	*ret_public = origin_is_public(fd);
	return take_ptr(text);
}

static char *line_trim(char *line)
{
	size_t length = strlen(line);

	while (length && isspace((unsigned char)line[length - 1]))
		line[--length] = '\0';
	while (isspace((unsigned char)*line))
		line++;
	return line;
}

static void source_load(struct source *source, const char *path)
{
	char *rest, *line;

	*source = (struct source){};
	source->text = file_read(path, &source->is_public);
	rest = source->text;
	while (rest && (line = strsep(&rest, "\n")))
		*array_push(&source->lines) = line_trim(line);
}

/*
 * A program that is not here any more, or never was, is anybody's for root, who profiles anybody's
 * processes; another user mostly profiles their own, or reads here what was recorded elsewhere.
 */
static enum author author_find(const struct profile *profile, const struct profile_module *module)
{
	enum author missing = geteuid() ? AUTHOR_OURS : AUTHOR_ANYBODY;
	bool ours = false;

	if (!origin_is_ours(profile->owner))
		return AUTHOR_ANYBODY;
	if (module->kind == MODULE_KERNEL || module->kind == MODULE_VDSO)
		return AUTHOR_OURS;
	if (module->kind != MODULE_ELF || !module->path ||
	    origin_of_path(module->path, &ours) == -ENOENT)
		return missing;
	return ours ? AUTHOR_OURS : AUTHOR_ANYBODY;
}

static bool is_ours(struct sources *sources, uint32_t module)
{
	uint8_t *author;

	if (!sources->authors)
		sources->authors = mem_zalloc(sources->profile->module_count);
	author = &sources->authors[module];
	if (*author == AUTHOR_UNKNOWN)
		*author = author_find(sources->profile, &sources->profile->modules[module]);
	return *author == AUTHOR_OURS;
}

static bool may_show(struct sources *sources, uint32_t module, const char *path,
		     const struct source *source)
{
	if (source->is_public || is_ours(sources, module))
		return true;
	if (!sources->refused)
		log_warn("%s: not shown as source: another user may have written the program that "
			 "names it, and not everybody may read it",
			 path);
	sources->refused = true;
	return false;
}

const char *sources_line(struct sources *sources, uint32_t module, const char *path, uint32_t line)
{
	uint32_t id = strtab_add(&sources->paths, path);
	const struct source *source;

	if (id == sources->files.count)
		source_load(array_push(&sources->files), path);
	source = &sources->files.items[id];
	if (!line || line > source->lines.count || !may_show(sources, module, path, source))
		return NULL;
	return source->lines.items[line - 1];
}

const char *sources_reader_line(void *ctx, const char *path, uint32_t line)
{
	const struct sources_reader *reader = ctx;

	return sources_line(reader->sources, reader->module, path, line);
}

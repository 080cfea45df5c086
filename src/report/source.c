// SPDX-License-Identifier: BSD-2-Clause
#include "report/source.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"

enum { SOURCE_MAX = 32 << 20 }; /* bytes; a larger file is not source */

struct source {
	char *text; /* NUL for each line feed */
	ARRAY(const char *) lines;
};

struct sources {
	struct strtab paths; /* id is the place in files */
	ARRAY(struct source) files;
};

struct sources *sources_create(void)
{
	return mem_zalloc(sizeof(struct sources));
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
	free(sources);
}

/*
 * The path comes from a profile: it may name a pipe, a terminal or a device. Only regular files are
 * read.
 */
static char *file_read(const char *path)
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

	*source = (struct source){ .text = file_read(path) };
	rest = source->text;
	while (rest && (line = strsep(&rest, "\n")))
		*array_push(&source->lines) = line_trim(line);
}

const char *sources_line(struct sources *sources, const char *path, uint32_t line)
{
	uint32_t id = strtab_add(&sources->paths, path);
	const struct source *source;

	if (id == sources->files.count)
		source_load(array_push(&sources->files), path);
	source = &sources->files.items[id];
	return line && line <= source->lines.count ? source->lines.items[line - 1] : NULL;
}

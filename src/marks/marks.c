// SPDX-License-Identifier: BSD-2-Clause
/*
 * The list of marks.
 *
 *	in	marks as the user has written them: arguments, lines of a file
 *	out	their numbers, texts and places, for whoever asks
 *	owner	struct marks, which the command makes
 *
 * tables.c makes the tables that engines read, files.c knows the files that programs have mapped,
 * and change.c adds and removes marks while programs run.
 */
#include "marks/marks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "marks/marks_private.h"
#include "marks/rules.h"

enum {
	LINES_MAX = MARKS_MAX / 2,
};

struct marks *marks_create(void)
{
	struct marks *marks = mem_zalloc(sizeof(*marks));

	pthread_mutex_init(&marks->lock, NULL);
	marks->accesses_max = MARK_DATA_CELLS_MAX;
	return marks;
}

void marks_accesses_limit(struct marks *marks, uint32_t limit)
{
	marks->accesses_max = limit;
}

void marks_destroy(struct marks *marks)
{
	if (!marks)
		return;
	array_each(&marks->specs, spec)
		mark_spec_deinit(spec);
	array_each(&marks->entries, entry)
		free(entry->text);
	array_each(&marks->files, file) {
		free(file->path);
		loadmap_file_deinit(&file->file);
		marked_functions_deinit(&file->functions);
		array_deinit(&file->ranges.items);
	}
	array_deinit(&marks->mapped);
	array_deinit(&marks->files);
	array_deinit(&marks->instructions.items);
	array_deinit(&marks->specs);
	array_deinit(&marks->spec_numbers);
	array_deinit(&marks->entries);
	array_deinit(&marks->found);
	strtab_deinit(&marks->paths);
	map_deinit(&marks->children);
	map_deinit(&marks->placed);
	pthread_mutex_destroy(&marks->lock);
	free(marks);
}

size_t marks_count(const struct marks *marks)
{
	return marks->entries.count;
}

uint64_t marks_failed(const struct marks *marks)
{
	return marks->failed;
}

static uint32_t entry_add(struct marks *marks, size_t spec, const char *text, bool pattern)
{
	uint32_t number = (uint32_t)marks->entries.count + 1;

	pthread_mutex_lock(&marks->lock);
	*array_push(&marks->entries) = (struct entry){
		.number = number, .spec = spec, .text = mem_strdup(text), .pattern = pattern
	};
	pthread_mutex_unlock(&marks->lock);
	if (marks->names)
		marks_name_publish(marks, &marks->entries.items[number - 1]);
	return number;
}

static bool is_heap(const struct mark_spec *spec)
{
	return spec->kind == MARK_DATA && spec->data == MARK_DATA_HEAP;
}

/* A call from a line expects one allocation, whose memory has one mark. */
int marks_heap_check(const struct marks *marks, const struct mark_spec *wanted)
{
	for (size_t i = 0; is_heap(wanted) && i < marks->specs.count; i++) {
		const struct mark_spec *other = &marks->specs.items[i];

		if (!is_heap(other) || marks_spec_removed(marks, i) ||
		    !strcmp(other->text, wanted->text) || other->first != wanted->first ||
		    !(mark_spec_takes_file(other, wanted->file) ||
		      mark_spec_takes_file(wanted, other->file)))
			continue;
		return err_set(-EINVAL,
			       "'%s' and '%s': of one line, the allocations of one function can be "
			       "marked at a time",
			       other->text, wanted->text);
	}
	return 0;
}

int marks_add(struct marks *marks, const char *text)
{
	struct mark_spec spec;
	int err = mark_spec_parse(text, &spec);

	if (err)
		return err;
	err = marks_heap_check(marks, &spec);
	if (marks->entries.count >= LINES_MAX)
		err = err_set(-EINVAL, "there are more than %d marks", LINES_MAX);
	array_each(&marks->specs, other)
		if (spec.tail && other->tail)
			err = err_set(-EINVAL,
				      "'%s' and '%s': the slowest visits are kept of one routine",
				      other->text, text);
	if (err) {
		mark_spec_deinit(&spec);
		return err;
	}
	pthread_mutex_lock(&marks->lock);
	*array_push(&marks->specs) = spec;
	pthread_mutex_unlock(&marks->lock);
	*array_push(&marks->spec_numbers) =
		entry_add(marks, marks->specs.count - 1, text, spec.many);
	return 0;
}

bool marks_spec_find(const struct marks *marks, const char *text, size_t *ret)
{
	for (size_t i = 0; i < marks->specs.count; i++)
		if (!strcmp(marks->specs.items[i].text, text)) {
			*ret = i;
			return true;
		}
	return false;
}

/* Without what follows its commas, too, if no mark has exactly that text. */
static bool spec_meant(const struct marks *marks, const char *text, size_t *ret)
{
	if (marks_spec_find(marks, text, ret))
		return true;
	for (size_t i = 0; i < marks->specs.count; i++)
		if (rule_mark_is(text, marks->specs.items[i].text)) {
			*ret = i;
			return true;
		}
	return false;
}

int marks_add_idle(struct marks *marks, const char *text)
{
	size_t known;
	int err;

	if (marks_spec_find(marks, text, &known))
		return 0;
	err = mark_change_check(marks, text);
	err = err ? err : marks_add(marks, text);
	if (!err)
		marks->entries.items[marks->entries.count - 1].removed = true;
	return err;
}

uint32_t marks_child(struct marks *marks, size_t spec, const char *routine)
{
	bool fresh;
	uint64_t *number = map_at(&marks->children,
				  hash64_pair(spec, hash_bytes(routine, strlen(routine))), &fresh);

	if (fresh)
		*number = marks->entries.count + 1 < MARKS_MAX
				  ? entry_add(marks, spec, routine, false)
				  : 0;
	return (uint32_t)*number;
}

bool marks_spec_removed(const struct marks *marks, size_t spec)
{
	return marks->entries.items[marks->spec_numbers.items[spec] - 1].removed;
}

size_t marks_active(const struct marks *marks)
{
	size_t count = 0;

	for (size_t i = 0; i < marks->specs.count; i++)
		count += !marks_spec_removed(marks, i);
	return count;
}

bool marks_keep_visits(const struct marks *marks)
{
	array_each(&marks->specs, spec)
		if (spec->tail)
			return true;
	return false;
}

/* --- Files of marks --------------------------------------------------------------------------- */

static int line_add(struct marks *marks, const char *path, size_t number, char *line, size_t length)
{
	int err;

	if (length && line[length - 1] == '\n')
		line[--length] = '\0';
	if (length && line[length - 1] == '\r')
		line[--length] = '\0';
	if (strlen(line) != length)
		return err_set(-EINVAL, "%s:%zu: the line holds a byte 0", path, number);
	line += strspn(line, " \t");
	for (length = strlen(line); length && strchr(" \t", line[length - 1]);)
		line[--length] = '\0';
	if (!length || *line == '#')
		return 0;
	err = marks_add(marks, line);
	return err ? err_wrap(err, "%s:%zu", path, number) : 0;
}

int marks_add_file(struct marks *marks, const char *path)
{
	AUTO(close_file) FILE *file = fopen(path, "re");
	AUTO(free_ptr) char *line = NULL;
	size_t size = 0, number = 0;
	ssize_t length;
	int err = 0;

	if (!file)
		return err_set(-errno, "cannot read the marks in %s: %m", path);
	while (!err && (length = getline(&line, &size, file)) >= 0) {
		if (length > MARK_TEXT_MAX)
			err = err_set(-EINVAL, "%s:%zu: the line has more than %d bytes", path,
				      number + 1, MARK_TEXT_MAX);
		else
			err = line_add(marks, path, ++number, line, (size_t)length);
	}
	if (!err && ferror(file))
		err = err_set(-EIO, "cannot read the marks in %s: %m", path);
	return err;
}

/* --- For others ------------------------------------------------------------------------------- */

void marks_each(struct marks *marks, uint32_t from,
		void (*tell)(void *ctx, const struct mark *mark), void *ctx)
{
	pthread_mutex_lock(&marks->lock);
	for (size_t i = from ? from - 1 : 0; i < marks->entries.count; i++) {
		const struct entry *entry = &marks->entries.items[i];
		const struct mark mark = { entry->number,  marks->specs.items[entry->spec].kind,
					   entry->pattern, entry->removed,
					   entry->text,	   entry->places };

		tell(ctx, &mark);
	}
	pthread_mutex_unlock(&marks->lock);
}

void marks_places_each(struct marks *marks, size_t from,
		       void (*tell)(void *ctx, uint32_t number, const struct mark_place *place),
		       void *ctx)
{
	pthread_mutex_lock(&marks->lock);
	for (size_t i = from; i < marks->found.count; i++)
		tell(ctx, marks->found.items[i].number, &marks->found.items[i].place);
	pthread_mutex_unlock(&marks->lock);
}

void marks_numbers(struct marks *marks, const char *text, void (*tell)(void *ctx, uint32_t number),
		   void *ctx)
{
	size_t spec;

	pthread_mutex_lock(&marks->lock);
	if (spec_meant(marks, text, &spec))
		array_each(&marks->entries, entry)
			if (entry->spec == spec)
				tell(ctx, entry->number);
	pthread_mutex_unlock(&marks->lock);
}

char *marks_given(struct marks *marks, uint32_t number)
{
	char *text = NULL;

	pthread_mutex_lock(&marks->lock);
	if (number && number <= marks->entries.count)
		text = mem_strdup(marks->specs.items[marks->entries.items[number - 1].spec].text);
	pthread_mutex_unlock(&marks->lock);
	return text;
}

bool marks_spec(struct marks *marks, const char *text, struct mark_spec *ret)
{
	size_t spec;
	bool found;

	pthread_mutex_lock(&marks->lock);
	found = spec_meant(marks, text, &spec);
	if (found)
		*ret = marks->specs.items[spec];
	pthread_mutex_unlock(&marks->lock);
	return found;
}

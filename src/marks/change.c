// SPDX-License-Identifier: BSD-2-Clause
/*
 * Marks that are added and removed while programs run.
 *
 *	in	the text of a mark
 *	out	new tables of the files that it concerns, and a higher generation
 *	owner	the thread that calls marks_module(); others see the marks under their lock
 *
 * Engines compare the generation with the one they work with, and take the new tables up.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "marks/marks_private.h"

/* Engines look at it when they come by. */
static void generation_grow(struct marks *marks)
{
	struct marks_area *area = (void *)marks->area;

	__atomic_add_fetch(&area->generation, 1, __ATOMIC_ACQ_REL);
}

static void spec_removed_set(struct marks *marks, size_t spec, bool removed)
{
	pthread_mutex_lock(&marks->lock);
	array_each(&marks->entries, entry)
		if (entry->spec == spec) {
			entry->removed = removed;
			/* Visits that did not end while it was removed are not those that come. */
			entry->timer = 0;
		}
	pthread_mutex_unlock(&marks->lock);
}

static bool is_address(const struct mark_spec *spec)
{
	return spec->kind == MARK_DATA && spec->data == MARK_DATA_ADDRESS;
}

static int spec_apply(struct marks *marks, size_t spec)
{
	int err = marks_instructions_find(marks, spec);

	if (!err && marks->specs.items[spec].kind == MARK_INSTRUCTIONS)
		err = marks_instructions_publish(marks);
	if (!err && is_address(&marks->specs.items[spec]))
		err = marks_addresses_publish(marks);
	for (size_t i = 0; i < marks->files.count && !err; i++) {
		struct ranges_list *list = &marks->files.items[i].ranges;
		size_t before = list->items.count + list->data.count;

		marked_file_resolve(marks, i, spec, spec + 1);
		if (list->items.count + list->data.count != before)
			err = marked_file_publish(marks, i);
	}
	return err;
}

/*
 * Which mark a range is of; 0: one that is never removed: functions that allocate, which several
 * marks may need, and regions.
 */
static uint32_t range_mark(const struct marks *marks, const struct mark_range *range)
{
	switch (mark_word_use(range->mark)) {
	case MARK_USE_COUNT:
	case MARK_USE_EVENT:
		return (range->mark & ~MARK_EVENT) >> 1;
	case MARK_USE_SITE:
	case MARK_USE_VISITS:
		return mark_word_number(range->mark);
	case MARK_USE_TIME:
	case MARK_USE_TIME_END:
		return marks_timed_by(marks, mark_word_number(range->mark));
	default:
		return 0;
	}
}

/* True: there were some. */
static bool ranges_drop(const struct marks *marks, struct ranges_list *list, size_t spec)
{
	size_t kept = 0, kept_data = 0, count = list->items.count, data_count = list->data.count;

	for (size_t i = 0; i < count; i++) {
		uint32_t number = range_mark(marks, &list->items.items[i]);

		if (!number || marks->entries.items[number - 1].spec != spec)
			list->items.items[kept++] = list->items.items[i];
	}
	for (size_t i = 0; i < data_count; i++)
		if (marks->entries.items[list->data.items[i].mark - 1].spec != spec)
			list->data.items[kept_data++] = list->data.items[i];
	list->items.count = kept;
	list->data.count = kept_data;
	return kept != count || kept_data != data_count;
}

static int spec_withdraw(struct marks *marks, size_t spec)
{
	int err = 0;

	if (ranges_drop(marks, &marks->instructions, spec))
		err = marks_instructions_publish(marks);
	if (is_address(&marks->specs.items[spec]))
		err = err ? err : marks_addresses_publish(marks);
	for (size_t i = 0; i < marks->files.count; i++)
		if (ranges_drop(marks, &marks->files.items[i].ranges, spec))
			err = err ? err : marked_file_publish(marks, i);
	return err;
}

/* What was kept of single visits is of one mark, also when it is gone. */
static int tail_check(const struct marks *marks, const struct mark_spec *wanted)
{
	array_each(&marks->specs, spec)
		if (wanted->tail && spec->tail && strcmp(spec->text, wanted->text) != 0)
			return err_set(-EINVAL,
				       "mark '%s': the slowest visits are kept of one routine, and "
				       "here they are those of '%s'; count in a new recording",
				       wanted->text, spec->text);
	return 0;
}

/* Instructions that are timed end at the next one, whose code is not told to be another. */
int mark_change_check(const struct marks *marks, const char *text)
{
	struct mark_spec spec;
	int err = mark_spec_parse(text, &spec);

	if (err)
		return err;
	err = tail_check(marks, &spec);
	err = err ? err : marks_heap_check(marks, &spec);
	if (spec.timed && spec.kind == MARK_INSTRUCTION)
		err = err_set(-EINVAL,
			      "mark '%s': an instruction by itself cannot begin or cease to be "
			      "timed while programs run; give it with -m at the start",
			      text);
	if (spec.starts || spec.stops)
		err = err_set(
			-EINVAL,
			"mark '%s': what starts and stops counting cannot be added or removed "
			"while programs run; give it with -m at the start",
			text);
	mark_spec_deinit(&spec);
	return err;
}

int marks_change_add(struct marks *marks, const char *text)
{
	size_t spec;
	bool again = marks_spec_find(marks, text, &spec);
	int err = mark_change_check(marks, text);

	if (err)
		return err;
	if (again && !marks_spec_removed(marks, spec))
		return err_set(-EEXIST, "mark '%s' is counted already", text);
	if (again) {
		spec_removed_set(marks, spec, false);
	} else {
		err = marks_add(marks, text);
		spec = marks->specs.count - 1;
	}
	if (err)
		return err;
	err = spec_apply(marks, spec);
	if (err) {
		spec_removed_set(marks, spec, true);
		spec_withdraw(marks, spec);
	}
	marks_tools_publish(marks);
	generation_grow(marks);
	return err;
}

int marks_change_remove(struct marks *marks, const char *text)
{
	size_t spec;
	int err = mark_change_check(marks, text);

	if (err)
		return err;
	if (!marks_spec_find(marks, text, &spec) || marks_spec_removed(marks, spec))
		return err_set(-ENOENT, "there is no mark '%s'; a mark is removed as it was given",
			       text);
	spec_removed_set(marks, spec, true);
	err = spec_withdraw(marks, spec);
	marks_tools_publish(marks);
	generation_grow(marks);
	return err;
}
bool marks_are_seen(const struct marks *marks, uint32_t generation)
{
	const struct marks_area *area = (const void *)marks->area;

	return generation == area->generation;
}

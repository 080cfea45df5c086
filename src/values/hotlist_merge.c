// SPDX-License-Identifier: BSD-2-Clause
/*
 * Merging two hotlists of the same kind without bias.
 *
 * Samples are first thinned to the lower of the two probabilities. Concise samples of the same
 * probability then simply add up. Of a value in two counting samples, each list misses 1 / p - 1
 * occurrences in the mean, but the sum may miss them only once; so once 1 / p - 1 is added. Then p
 * falls until the entries fit, as after any update.
 *
 * Space-saving counts add up. While there are too many entries, the two smallest become one with
 * the sum of their counts and one of their values, drawn in proportion to the counts: the mean of
 * each value's count stays, and so does the total.
 *
 * What merging adds to the uncertainty goes to `variance`, because errors of independent lists add
 * up by squares.
 */
#include "values/hotlist.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "values/hotlist_private.h"

static void probability_level(struct hotlist *list, double probability)
{
	if (list->probability > probability)
		hotlist_thin(list, probability / list->probability);
	list->probability = probability;
}

static void entry_unite(struct hotlist *list, uint64_t *entry, const struct hotlist *from,
			uint64_t *other, double missed)
{
	entry[ENTRY_COUNT] +=
		other[ENTRY_COUNT] + rng_round(&list->rng, fmin(missed, HOTLIST_TOTAL_MAX));
	if (entry[ENTRY_COUNT] > HOTLIST_TOTAL_MAX)
		entry[ENTRY_COUNT] = HOTLIST_TOTAL_MAX;
	if (list->kind == HOTLIST_SPACE_SAVING)
		*entry_foreign(list, entry) += *entry_foreign(from, other);
}

/*
 * Appends the entries of `from`; those of values that both have are added up. Returns whether there
 * was any.
 */
static bool entries_unite(struct hotlist *list, const struct hotlist *from, double missed)
{
	bool shared = false;

	for (size_t i = 0; i < from->count; i++) {
		uint64_t *other = entry_at(from, i);
		size_t at = hotlist_find(list, other + ENTRY_WORDS);

		if (at < list->count) {
			entry_unite(list, entry_at(list, at), from, other, missed);
			shared = true;
			continue;
		}
		hotlist_append(list, other + ENTRY_WORDS, other[ENTRY_COUNT],
			       other[ENTRY_FIRST] + list->total);
		if (list->kind == HOTLIST_SPACE_SAVING)
			*entry_foreign(list, entry_at(list, at)) = *entry_foreign(from, other);
	}
	return shared;
}

static void samples_merge(struct hotlist *list, struct hotlist *from)
{
	double p = fmin(list->probability, from->probability);
	double missed;

	if (from->concise != list->concise)
		hotlist_switch(from, list->concise);
	probability_level(list, p);
	probability_level(from, p);
	missed = list->concise ? 0 : 1 / p - 1;
	list->variance += from->variance;
	if (entries_unite(list, from, missed))
		list->variance += missed / p;
}

/* Joins the last two entries to one, at its place in the order. */
static void smallest_join(struct hotlist *list)
{
	size_t at = list->count - 2u;
	uint64_t *kept = entry_at(list, at), *other = entry_at(list, at + 1);
	uint64_t sum = kept[ENTRY_COUNT] + other[ENTRY_COUNT];

	*entry_foreign(list, kept) += other[ENTRY_COUNT];
	*entry_foreign(list, other) += kept[ENTRY_COUNT];
	if (rng_trial(&list->rng, (double)other[ENTRY_COUNT] / (double)sum)) {
		memcpy(kept, other, entry_size(list) * sizeof(*kept));
		list->tags[at] = list->tags[at + 1];
	}
	kept[ENTRY_COUNT] = sum;
	list->count--;
	if (list->slack < sum)
		list->slack = sum;
	hotlist_tidy(list);
}

/*
 * The other list did not keep this list's value, or lost it: it may have counted up to its slack of
 * them for others. Must run before the two are united.
 */
static void foreign_widen(struct hotlist *list, const struct hotlist *other)
{
	for (size_t i = 0; i < list->count; i++) {
		uint64_t *entry = entry_at(list, i);

		if (hotlist_find(other, entry + ENTRY_WORDS) == other->count)
			*entry_foreign(list, entry) += other->slack;
	}
}

static void foreign_limit(struct hotlist *list, uint64_t limit)
{
	for (size_t i = 0; i < list->count; i++) {
		uint64_t *foreign = entry_foreign(list, entry_at(list, i));

		if (*foreign > limit)
			*foreign = limit;
	}
}

static void spaces_merge(struct hotlist *list, struct hotlist *from)
{
	double less = (double)(list->slack < from->slack ? list->slack : from->slack);

	list->variance += from->variance + less * less;
	foreign_widen(list, from);
	foreign_widen(from, list);
	if (list->slack < from->slack)
		list->slack = from->slack;
	entries_unite(list, from, 0);
	hotlist_tidy(list);
	while (list->count > list->size)
		smallest_join(list);
	foreign_limit(list, list->total + from->total);
}

static int merge_check(const struct hotlist *list, const struct hotlist *from)
{
	if (list->kind != from->kind || list->words != from->words)
		return err_set(
			-EINVAL,
			"hotlists of %s with %u words and of %s with %u words: only lists of "
			"one kind and width can be merged",
			hotlist_kind_text(list->kind), list->words, hotlist_kind_text(from->kind),
			from->words);
	if (list->total + from->total > HOTLIST_TOTAL_MAX)
		return err_set(-EOVERFLOW, "hotlists of %llu and %llu values: too many to merge",
			       (unsigned long long)list->total, (unsigned long long)from->total);
	return 0;
}

int hotlist_merge(struct hotlist *list, const struct hotlist *from)
{
	AUTO(hotlist_deinit_auto) struct hotlist other = {};
	int err = merge_check(list, from);

	if (err || !from->total)
		return err;
	hotlist_copy(from, &other);
	rng_init(&other.rng, rng_next(&list->rng));
	other.rng.script = list->rng.script;
	hotlist_room_set(list, list->count + from->count + 1u);
	if (list->kind == HOTLIST_SPACE_SAVING)
		spaces_merge(list, &other);
	else
		samples_merge(list, &other);
	list->total += from->total;
	list->squares += from->squares;
	list->group = 0;
	hotlist_tidy(list);
	if (list->kind != HOTLIST_SPACE_SAVING)
		hotlist_evict(list);
	hotlist_room_set(list, list->count > HOTLIST_SIZE_MIN ? list->count : HOTLIST_SIZE_MIN);
	return 0;
}

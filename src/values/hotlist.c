// SPDX-License-Identifier: BSD-2-Clause
/*
 * Hotlists: adding a value.
 *
 * Counting and concise samples are those of Gibbons and Matias (SIGMOD 1998). Both behave as if
 * every occurrence had been taken with probability p. Concise samples count the occurrences
 * taken; so a count stands for count / p. Counting samples take the first occurrence at random and
 * count all that follow, so that only those before are missing: a geometric number, 1 / p - 1 in
 * the mean, and a count stands for count + 1 / p - 1. When one value too many is in the list, p is
 * divided by f and the list is thinned as if p had been that low from the start, until a value has
 * gone. Each step leaves the mean of what a value's count stands for as it was (0 for a value that
 * has gone), and whether there is another step depends only on the past, so the estimates are
 * unbiased however often p falls.
 *
 * The switching kind takes concise samples when most values are found in the list and counting
 * samples when most are not. As the same count means different things to the two, switching
 * converts: from counting to concise samples each occurrence after the first stays with probability
 * p; back, (count - 1) / p are put for the occurrences after the first.
 *
 * Unbiased Space-Saving (Ting, SIGMOD 2018) counts every occurrence in some entry: its own, or else
 * the smallest, which then gets the new value with probability 1 / its new count. The mean of the
 * new value's estimate so rises by 1, and that of the old value stays. Only entries that were the
 * smallest ever counted others' occurrences.
 *
 * Invariants
 *  1. Entries lie in order of falling counts, so that the likeliest values are compared first.
 *  2. No two entries have the same value. Counts are at least 1.
 *  3. count <= size, except within an update of sampling kinds (size + 1) and within a merge.
 *  4. tags[i] is the hash of the value of entry i. Tags are compared eight at a time; the last
 *     group may be partly unused.
 *  5. 1 <= first <= total.
 *  6. Space-saving: the counts add up to total. What an entry did not count for others, its value
 *     did occur.
 *  7. total <= squares <= total * total.
 *  8. Not concise, not merged, not switched, not space-saving: a value occurred at least count
 *     times.
 */
#include "values/hotlist.h"

#include <emmintrin.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "values/hotlist_private.h"

enum { TAG_GROUP = 8, ROOM_FIRST = 2 };

static const char *const kind_texts[] = {
#define X(name, text) [HOTLIST_##name] = text,
	HOTLIST_KINDS(X)
#undef X
};

const char *hotlist_kind_text(enum hotlist_kind kind)
{
	assert(kind < HOTLIST_KIND_COUNT);
	return kind_texts[kind];
}

int hotlist_kind_parse(const char *text, enum hotlist_kind *ret)
{
	for (enum hotlist_kind kind = 0; kind < HOTLIST_KIND_COUNT; kind++)
		if (strcmp(text, kind_texts[kind]) == 0) {
			*ret = kind;
			return 0;
		}
	return err_set(-EINVAL,
		       "%s: no such kind of hotlist; there are space-saving, counting, "
		       "concise and switching",
		       text);
}

int hotlist_init(struct hotlist *list, const struct hotlist_config *config)
{
	unsigned size = config->size ? config->size : HOTLIST_SIZE;
	unsigned words = config->words ? config->words : 1;
	unsigned factor = config->factor ? config->factor : size;

	if (size < HOTLIST_SIZE_MIN || size > HOTLIST_SIZE_MAX)
		return err_set(-EINVAL, "a hotlist of %u values: give %d to %d", size,
			       HOTLIST_SIZE_MIN, HOTLIST_SIZE_MAX);
	if (words > HOTLIST_WORDS_MAX)
		return err_set(-EINVAL, "values of %u words in a hotlist: give at most %d", words,
			       HOTLIST_WORDS_MAX);
	if (config->kind >= HOTLIST_KIND_COUNT || factor < 2 || factor > HOTLIST_FACTOR_MAX)
		return err_set(-EINVAL, "a hotlist of kind %d with factor %u: no such thing",
			       (int)config->kind, factor);
	*list = (struct hotlist){
		.probability = 1,
		.size = (uint16_t)size,
		.factor = (uint16_t)factor,
		.kind = (uint8_t)config->kind,
		.words = (uint8_t)words,
		.concise = config->kind == HOTLIST_CONCISE,
	};
	rng_init(&list->rng, config->seed);
	return 0;
}

void hotlist_deinit(struct hotlist *list)
{
	free(list->entries);
	*list = (struct hotlist){};
}

static size_t entries_bytes(const struct hotlist *list, size_t room)
{
	return room * entry_size(list) * sizeof(*list->entries);
}

static size_t tags_bytes(size_t room)
{
	return (room + TAG_GROUP - 1) / TAG_GROUP * TAG_GROUP * sizeof(uint16_t);
}

size_t hotlist_memory(const struct hotlist *list)
{
	return sizeof(*list) + entries_bytes(list, list->room) + tags_bytes(list->room);
}

void hotlist_room_set(struct hotlist *list, size_t room)
{
	uint64_t *entries = mem_zalloc(entries_bytes(list, room) + tags_bytes(room));
	uint16_t *tags = (uint16_t *)(entries + room * entry_size(list));

	assert(room >= list->count);
	if (list->count) {
		memcpy(entries, list->entries, entries_bytes(list, list->count));
		memcpy(tags, list->tags, list->count * sizeof(*tags));
	}
	free(list->entries);
	list->entries = entries;
	list->tags = tags;
	list->room = (uint16_t)room;
}

void hotlist_copy(const struct hotlist *list, struct hotlist *ret)
{
	*ret = *list;
	ret->entries = NULL;
	ret->tags = NULL;
	if (list->count) {
		size_t bytes = entries_bytes(list, list->room);

		ret->entries = mem_dup(list->entries, bytes + tags_bytes(list->room));
		ret->tags = (uint16_t *)((char *)ret->entries + bytes);
	}
	rng_init(&ret->rng, list->rng.state);
	ret->rng.script = list->rng.script;
}

static inline bool words_equal(const uint64_t *a, const uint64_t *b, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

/* This hash tells a few values apart nearly as well as hash64(), and is faster. */
static inline uint16_t words_tag(const uint64_t *words, size_t count)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < count; i++)
		hash = ((hash << 23 | hash >> 41) ^ words[i]) * 0x9e3779b97f4a7c15;
	return (uint16_t)(hash >> 48);
}

/* Tags beyond the last entry may hold anything: what they find is looked at twice. */
static inline size_t tag_find(const struct hotlist *list, const uint64_t *words, uint16_t tag)
{
	__m128i wanted = _mm_set1_epi16((short)tag);

	for (size_t base = 0; base < list->count; base += TAG_GROUP) {
		__m128i group = _mm_loadu_si128((const __m128i *)(list->tags + base));
		unsigned equal = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi16(group, wanted));

		for (equal &= 0x5555; equal; equal &= equal - 1) {
			size_t index = base + (size_t)__builtin_ctz(equal) / 2;

			if (index < list->count &&
			    words_equal(entry_at(list, index) + ENTRY_WORDS, words, list->words))
				return index;
		}
	}
	return list->count;
}

size_t hotlist_find(const struct hotlist *list, const uint64_t *words)
{
	return tag_find(list, words, words_tag(words, list->words));
}

static void entry_swap(struct hotlist *list, size_t a, size_t b)
{
	uint64_t *left = entry_at(list, a), *right = entry_at(list, b);
	uint16_t tag = list->tags[a];

	list->tags[a] = list->tags[b];
	list->tags[b] = tag;
	for (size_t i = 0; i < entry_size(list); i++) {
		uint64_t word = left[i];

		left[i] = right[i];
		right[i] = word;
	}
}

/*
 * Called after entry `index` was counted once more: swaps it with the first of those that had the
 * same count.
 */
static inline void entry_rise(struct hotlist *list, size_t index)
{
	uint64_t count = entry_at(list, index)[ENTRY_COUNT];
	size_t low = 0, high = index;

	if (!index || entry_at(list, index - 1)[ENTRY_COUNT] >= count)
		return;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (entry_at(list, middle)[ENTRY_COUNT] < count)
			high = middle;
		else
			low = middle + 1;
	}
	entry_swap(list, index, low);
}

void hotlist_append(struct hotlist *list, const uint64_t *words, uint64_t count, uint64_t first)
{
	uint64_t *entry;

	if (list->count == list->room) {
		size_t room = list->room ? 2 * (size_t)list->room : ROOM_FIRST;
		size_t limit = list->size + (list->kind != HOTLIST_SPACE_SAVING);

		hotlist_room_set(list, room < limit ? room : limit);
	}
	entry = entry_at(list, list->count);
	entry[ENTRY_COUNT] = count;
	entry[ENTRY_FIRST] = first;
	memcpy(entry + ENTRY_WORDS, words, list->words * sizeof(*words));
	if (list->kind == HOTLIST_SPACE_SAVING)
		*entry_foreign(list, entry) = 0;
	list->tags[list->count++] = words_tag(words, list->words);
}

void hotlist_tidy(struct hotlist *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (!entry_at(list, i)[ENTRY_COUNT])
			continue;
		if (i != kept)
			entry_swap(list, i, kept);
		for (size_t at = kept++; at; at--) {
			if (entry_at(list, at - 1)[ENTRY_COUNT] >= entry_at(list, at)[ENTRY_COUNT])
				break;
			entry_swap(list, at, at - 1);
		}
	}
	list->count = (uint16_t)kept;
}

/*
 * The occurrences left are taken to be spread as before, so the first of them comes later. (The
 * source gives the factor once as count after / count before and twice upside down; only the former
 * estimates "the first count included".)
 */
static void entry_reduce(const struct hotlist *list, uint64_t *entry, uint64_t count)
{
	uint64_t age = list->total - entry[ENTRY_FIRST], before = entry[ENTRY_COUNT];

	if (count && count != before)
		entry[ENTRY_FIRST] =
			list->total - (uint64_t)((unsigned __int128)age * count / before);
	entry[ENTRY_COUNT] = count;
}

/*
 * One occurrence fails its second trial; then the next one, which was not tried before, has to pass
 * p.
 */
static uint64_t counting_loss(struct hotlist *list, uint64_t count, double ratio)
{
	if (!rng_trial(&list->rng, 1 - ratio))
		return 0;
	return 1 + rng_successes(&list->rng, 1 - list->probability, count - 1);
}

void hotlist_thin(struct hotlist *list, double ratio)
{
	list->probability *= ratio;
	for (size_t i = 0; i < list->count; i++) {
		uint64_t *entry = entry_at(list, i), count = entry[ENTRY_COUNT];

		count -= list->concise ? rng_binomial(&list->rng, count, 1 - ratio)
				       : counting_loss(list, count, ratio);
		entry_reduce(list, entry, count);
	}
	hotlist_tidy(list);
}

void hotlist_evict(struct hotlist *list)
{
	while (list->count > list->size)
		hotlist_thin(list, (list->factor - 1.0) / list->factor);
}

void hotlist_switch(struct hotlist *list, bool concise)
{
	double p = list->probability;

	/* The counts become as uncertain as the concise sample of the most frequent value was. */
	if (!concise && list->count)
		list->variance += (double)entry_at(list, 0)[ENTRY_COUNT] * (1 - p) / (p * p);
	for (size_t i = 0; i < list->count; i++) {
		uint64_t *count = &entry_at(list, i)[ENTRY_COUNT], more = *count - 1;

		*count = 1 + (concise ? rng_binomial(&list->rng, more, p)
				      : rng_round(&list->rng,
						  fmin((double)more / p, HOTLIST_TOTAL_MAX)));
	}
	list->concise = concise;
	hotlist_tidy(list);
}

static inline void saturation_move(struct hotlist *list, bool found)
{
	if (found && list->saturation < HOTLIST_SATURATION_MAX)
		list->saturation++;
	if (!found && list->saturation)
		list->saturation--;
}

static void saturation_obey(struct hotlist *list)
{
	if (!list->concise && list->saturation == HOTLIST_SATURATION_MAX)
		hotlist_switch(list, true);
	else if (list->concise && !list->saturation)
		hotlist_switch(list, false);
}

/* Adds a value that is not in the list, when all entries are in use. */
static void smallest_add(struct hotlist *list, const uint64_t *words, uint16_t tag)
{
	size_t last = list->count - 1u;
	uint64_t *entry = entry_at(list, last);

	if (list->slack < entry[ENTRY_COUNT])
		list->slack = entry[ENTRY_COUNT];
	++*entry_foreign(list, entry);
	if (rng_one_in(&list->rng, ++entry[ENTRY_COUNT])) {
		*entry_foreign(list, entry) = entry[ENTRY_COUNT] - 1;
		entry[ENTRY_FIRST] = list->total;
		memcpy(entry + ENTRY_WORDS, words, list->words * sizeof(*words));
		list->tags[last] = tag;
	}
	entry_rise(list, last);
}

static void value_miss(struct hotlist *list, const uint64_t *words, uint16_t tag)
{
	if (list->kind == HOTLIST_SPACE_SAVING && list->count == list->size) {
		smallest_add(list, words, tag);
		return;
	}
	/* A concise sample has passed its trial before it was looked for. */
	if (!list->concise && !rng_trial(&list->rng, list->probability))
		return;
	hotlist_append(list, words, 1, list->total);
	hotlist_evict(list);
}

static inline void value_hit(struct hotlist *list, size_t index)
{
	entry_at(list, index)[ENTRY_COUNT]++;
	entry_rise(list, index);
}

static void value_add(struct hotlist *list, const uint64_t *words)
{
	uint16_t tag = words_tag(words, list->words);
	size_t index = tag_find(list, words, tag);
	bool found = index < list->count;

	if (found)
		value_hit(list, index);
	else
		value_miss(list, words, tag);
	if (list->kind == HOTLIST_SWITCHING) {
		saturation_move(list, found);
		saturation_obey(list);
	}
}

static inline void stream_add(struct hotlist *list, const uint64_t *words)
{
	list->total++;
	if (list->concise && !rng_trial(&list->rng, list->probability))
		return;
	/* Most values of most streams are the first entry's. */
	if (list->count && list->kind != HOTLIST_SWITCHING &&
	    words_equal(list->entries + ENTRY_WORDS, words, list->words))
		list->entries[ENTRY_COUNT]++;
	else
		value_add(list, words);
}

void hotlist_add(struct hotlist *list, const uint64_t *words)
{
	list->group = 1;
	list->squares++;
	stream_add(list, words);
}

void hotlist_add_grouped(struct hotlist *list, const uint64_t *words)
{
	list->group = list->group < HOTLIST_GROUP_MAX ? list->group + 1 : 1;
	list->squares += 2 * (uint64_t)list->group - 1;
	stream_add(list, words);
}

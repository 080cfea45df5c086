// SPDX-License-Identifier: BSD-2-Clause
/*
 * Hotlists as bytes. docs/design/hotlists.md has the format; a list has exactly one encoding.
 *
 * Numbers are little-endian base 128, seven bits a byte, the top bit set in all but the last. Words
 * of values are folded first (0, -1, 1, -2, ... become 0, 1, 2, 3, ...), so that small negative
 * numbers and kernel addresses are short too.
 */
#include "values/hotlist.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/map.h"
#include "values/hotlist_private.h"

enum {
	VERSION = 1,
	FLAG_CONCISE = 1,
	FLAG_PROBABILITY = 2, /* p follows: it is not 1 */
	FLAG_VARIANCE = 4, /* the variance follows: it is not 0 */
	FLAG_GROUPS = 8, /* the squares of groups follow: some are of several values */
	FLAGS_ALL = 15,
	NUMBER_BYTES = 10,
};

#define SQUARES_MAX (UINT64_C(1) << 62) /* two of them can be added */
#define VARIANCE_MAX 0x1p200 /* far beyond the square of any count */

struct reader {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

static uint64_t word_fold(uint64_t word)
{
	return word << 1 ^ (uint64_t)((int64_t)word >> 63);
}

static uint64_t word_unfold(uint64_t folded)
{
	return folded >> 1 ^ -(folded & 1);
}

static uint8_t *put_number(uint8_t *at, uint64_t number)
{
	for (; number > 127; number >>= 7)
		*at++ = (uint8_t)(number | 128);
	*at++ = (uint8_t)number;
	return at;
}

static uint8_t *put_double(uint8_t *at, double number)
{
	memcpy(at, &number, sizeof(number));
	return at + sizeof(number);
}

static uint8_t get_byte(struct reader *reader)
{
	if (reader->at == reader->end) {
		reader->bad = true;
		return 0;
	}
	return *reader->at++;
}

static uint64_t get_number(struct reader *reader)
{
	uint64_t number = 0;

	for (unsigned i = 0; i < NUMBER_BYTES; i++) {
		uint8_t byte = get_byte(reader);

		if (i == NUMBER_BYTES - 1 && byte > 1)
			break;
		number |= (uint64_t)(byte & 127) << 7 * i;
		if (byte < 128) {
			if (i && !byte)
				reader->bad = true; /* a shorter encoding exists */
			return number;
		}
	}
	reader->bad = true;
	return 0;
}

static uint64_t get_at_most(struct reader *reader, uint64_t max)
{
	uint64_t number = get_number(reader);

	if (number > max)
		reader->bad = true;
	return reader->bad ? 0 : number;
}

static double get_double(struct reader *reader)
{
	double number = 0;

	if ((size_t)(reader->end - reader->at) < sizeof(number)) {
		reader->bad = true;
		return 0;
	}
	memcpy(&number, reader->at, sizeof(number));
	reader->at += sizeof(number);
	return number;
}

size_t hotlist_encode(const struct hotlist *list, uint8_t ret[static HOTLIST_BLOB_MAX])
{
	uint64_t before = 0;
	uint8_t *at = ret;

	*at++ = VERSION;
	*at++ = list->kind;
	*at++ = (uint8_t)((list->concise ? FLAG_CONCISE : 0) |
			  (list->probability < 1 ? FLAG_PROBABILITY : 0) |
			  (list->variance > 0 ? FLAG_VARIANCE : 0) |
			  (list->squares > list->total ? FLAG_GROUPS : 0));
	*at++ = list->words;
	*at++ = list->saturation;
	at = put_number(at, list->size);
	at = put_number(at, list->factor);
	at = put_number(at, list->count);
	at = put_number(at, list->total);
	at = put_number(at, list->slack);
	if (list->probability < 1)
		at = put_double(at, list->probability);
	if (list->variance > 0)
		at = put_double(at, list->variance);
	if (list->squares > list->total)
		at = put_number(at, list->squares);
	for (size_t i = 0; i < list->count; i++) {
		uint64_t *entry = entry_at(list, i);

		at = put_number(at, i ? before - entry[ENTRY_COUNT] : entry[ENTRY_COUNT]);
		at = put_number(at, list->total - entry[ENTRY_FIRST]);
		for (size_t word = 0; word < list->words; word++)
			at = put_number(at, word_fold(entry[ENTRY_WORDS + word]));
		if (list->kind == HOTLIST_SPACE_SAVING)
			at = put_number(at, *entry_foreign(list, entry));
		before = entry[ENTRY_COUNT];
	}
	return (size_t)(at - ret);
}

static void config_read(struct reader *reader, struct hotlist *list, uint8_t *ret_flags)
{
	struct hotlist_config config = { .kind = get_byte(reader) };
	uint8_t saturation;

	*ret_flags = get_byte(reader);
	config.words = get_byte(reader);
	saturation = get_byte(reader);
	config.size = (unsigned)get_at_most(reader, HOTLIST_SIZE_MAX);
	config.factor = (unsigned)get_at_most(reader, HOTLIST_FACTOR_MAX);
	if (reader->bad || !config.words || !config.size || !config.factor ||
	    *ret_flags > FLAGS_ALL || saturation > HOTLIST_SATURATION_MAX ||
	    hotlist_init(list, &config)) {
		reader->bad = true;
		return;
	}
	list->saturation = saturation;
}

/* Checks what each kind can have. */
static bool state_is_sound(const struct hotlist *list, uint8_t flags)
{
	bool space = list->kind == HOTLIST_SPACE_SAVING;
	bool concise = flags & FLAG_CONCISE;

	if ((flags & FLAG_PROBABILITY) &&
	    !(!space && list->probability < 1 && list->probability >= 0x1p-53))
		return false;
	if ((flags & FLAG_VARIANCE) && !(list->variance > 0 && list->variance < VARIANCE_MAX))
		return false;
	if ((flags & FLAG_GROUPS) &&
	    !(list->squares > list->total &&
	      list->squares <= (unsigned __int128)list->total * list->total))
		return false;
	if (list->kind != HOTLIST_SWITCHING && (list->saturation || concise != list->concise))
		return false;
	return space || !list->slack;
}

static void state_read(struct reader *reader, struct hotlist *list, uint8_t flags,
		       size_t *ret_count)
{
	size_t count = (size_t)get_at_most(reader, list->size);

	list->total = get_at_most(reader, HOTLIST_TOTAL_MAX);
	list->slack = get_at_most(reader, list->total);
	if (flags & FLAG_PROBABILITY)
		list->probability = get_double(reader);
	if (flags & FLAG_VARIANCE)
		list->variance = get_double(reader);
	list->squares = flags & FLAG_GROUPS ? get_at_most(reader, SQUARES_MAX) : list->total;
	if (!state_is_sound(list, flags) || count > list->total)
		reader->bad = true;
	list->concise = flags & FLAG_CONCISE;
	*ret_count = count;
}

/* The first count is given, each later one by how much less it is than the one before. */
static uint64_t count_read(struct reader *reader, const struct hotlist *list)
{
	uint64_t before;

	if (!list->count)
		return get_at_most(reader, HOTLIST_TOTAL_MAX);
	before = entry_at(list, list->count - 1u)[ENTRY_COUNT];
	return before - get_at_most(reader, before);
}

static void entry_read(struct reader *reader, struct hotlist *list)
{
	uint64_t words[HOTLIST_WORDS_MAX];
	uint64_t count = count_read(reader, list);
	uint64_t age = get_at_most(reader, list->total - 1);
	bool space = list->kind == HOTLIST_SPACE_SAVING;
	uint64_t foreign = 0;

	for (size_t i = 0; i < list->words; i++)
		words[i] = word_unfold(get_number(reader));
	if (space)
		foreign = get_at_most(reader, list->total);
	if (!count || hotlist_find(list, words) != list->count)
		reader->bad = true;
	if (reader->bad)
		return;
	hotlist_append(list, words, count, list->total - age);
	if (space)
		*entry_foreign(list, entry_at(list, list->count - 1u)) = foreign;
}

/* Occurrences are counted once at most, and in a space-saving list exactly once. */
static bool counts_are_sound(const struct hotlist *list)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < list->count; i++)
		sum += entry_at(list, i)[ENTRY_COUNT];
	return list->kind == HOTLIST_SPACE_SAVING ? sum == list->total
	       : list->kind == HOTLIST_CONCISE	  ? sum <= list->total
						  : true;
}

static void entries_read(struct reader *reader, struct hotlist *list, size_t count)
{
	for (size_t i = 0; i < count && !reader->bad; i++)
		entry_read(reader, list);
	if (reader->at != reader->end || !counts_are_sound(list))
		reader->bad = true;
}

int hotlist_decode(const uint8_t *bytes, size_t size, struct hotlist *ret)
{
	struct reader reader = { bytes, bytes + size, false };
	struct hotlist list = {};
	uint8_t flags = 0;
	size_t count = 0;

	if (size && *bytes != VERSION)
		return err_set(-EPROTONOSUPPORT,
			       "a hotlist of format %d, this version reads %d; use a newer one",
			       *bytes, VERSION);
	get_byte(&reader);
	config_read(&reader, &list, &flags);
	if (!reader.bad)
		state_read(&reader, &list, flags, &count);
	if (!reader.bad)
		entries_read(&reader, &list, count);
	if (reader.bad) {
		hotlist_deinit(&list);
		return err_set(-EBADMSG, "a hotlist is damaged at byte %td of %zu; record again",
			       reader.at - bytes, size);
	}
	rng_init(&list.rng, hash_bytes(bytes, size));
	*ret = list;
	return 0;
}

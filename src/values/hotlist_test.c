// SPDX-License-Identifier: BSD-2-Clause
// Serves: V14.
/*
 * The two worked examples of "Efficient, transparent and flexible value sampling", trial by trial;
 * order, bounds and exactness of every kind against exact counts; the switch between the methods.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "values/hotlist.h"
#include "values/hotlist_private.h"

enum { NONE = -1, ROW_ENTRIES = 4, EXAMPLE_SIZE = 3, EXAMPLE_FACTOR = 8 };

/*
 * A row of an example: the value that arrives (NONE: p is lowered once more), the outcomes of the
 * trials, the list and p after that. The trials: y taken, n not taken (a trial of p); E an
 * occurrence is evicted, e not (a trial of 1 - 1/f); R the next one too, r no more (a trial of 1 -
 * p).
 */
struct row {
	int value;
	const char *trials;
	uint64_t entries[ROW_ENTRIES][2]; /* value, count; count 0 ends them */
	double p;
};

static const struct row concise_rows[] = {
	{ 0, "", { { 0, 1 } }, 1 },
	{ 1, "", { { 0, 1 }, { 1, 1 } }, 1 },
	{ 0, "", { { 0, 2 }, { 1, 1 } }, 1 },
	{ 2, "", { { 0, 2 }, { 1, 1 }, { 2, 1 } }, 1 },
	{ 0, "", { { 0, 3 }, { 1, 1 }, { 2, 1 } }, 1 },
	{ 1, "", { { 0, 3 }, { 1, 2 }, { 2, 1 } }, 1 },
	{ 0, "", { { 0, 4 }, { 1, 2 }, { 2, 1 } }, 1 },
	{ 3, "", { { 0, 4 }, { 1, 2 }, { 2, 1 }, { 3, 1 } }, 1 },
	{ NONE, "eeee ee e e", { { 0, 4 }, { 1, 2 }, { 2, 1 }, { 3, 1 } }, 0.875 },
	{ NONE, "eEee ee e e", { { 0, 3 }, { 1, 2 }, { 2, 1 }, { 3, 1 } }, 0.765625 },
	{ NONE, "eee eE E e", { { 0, 3 }, { 1, 1 }, { 3, 1 } }, 0.66992188 },
	{ 0, "y", { { 0, 4 }, { 1, 1 }, { 3, 1 } }, 0.66992188 },
	{ 1, "y", { { 0, 4 }, { 1, 2 }, { 3, 1 } }, 0.66992188 },
	{ 0, "y", { { 0, 5 }, { 1, 2 }, { 3, 1 } }, 0.66992188 },
	{ 2, "y", { { 0, 5 }, { 1, 2 }, { 3, 1 }, { 2, 1 } }, 0.66992188 },
	{ NONE, "eeeee ee e e", { { 0, 5 }, { 1, 2 }, { 3, 1 }, { 2, 1 } }, 0.58618164 },
	{ NONE, "eeeee ee e e", { { 0, 5 }, { 1, 2 }, { 3, 1 }, { 2, 1 } }, 0.51290894 },
	{ NONE, "eeeeE ee e E", { { 0, 4 }, { 1, 2 }, { 3, 1 } }, 0.44879532 },
	{ 0, "n", { { 0, 4 }, { 1, 2 }, { 3, 1 } }, 0.44879532 },
	{ 1, "n", { { 0, 4 }, { 1, 2 }, { 3, 1 } }, 0.44879532 },
	{ 0, "n", { { 0, 4 }, { 1, 2 }, { 3, 1 } }, 0.44879532 },
	{ 4, "n", { { 0, 4 }, { 1, 2 }, { 3, 1 } }, 0.44879532 },
	{ 0, "n", { { 0, 4 }, { 1, 2 }, { 3, 1 } }, 0.44879532 },
	{ 1, "n", { { 0, 4 }, { 1, 2 }, { 3, 1 } }, 0.44879532 },
	{ 0, "y", { { 0, 5 }, { 1, 2 }, { 3, 1 } }, 0.44879532 },
	{ 2, "y", { { 0, 5 }, { 1, 2 }, { 3, 1 }, { 2, 1 } }, 0.44879532 },
	{ NONE, "eeeee ee E E", { { 0, 5 }, { 1, 2 } }, 0.3926959 },
	{ 0, "n", { { 0, 5 }, { 1, 2 } }, 0.3926959 },
	{ 1, "y", { { 0, 5 }, { 1, 3 } }, 0.3926959 },
	{ 0, "y", { { 0, 6 }, { 1, 3 } }, 0.3926959 },
	{ 3, "y", { { 0, 6 }, { 1, 3 }, { 3, 1 } }, 0.3926959 },
	{ 0, "n", { { 0, 6 }, { 1, 3 }, { 3, 1 } }, 0.3926959 },
	{ 1, "y", { { 0, 6 }, { 1, 4 }, { 3, 1 } }, 0.3926959 },
	{ 0, "n", { { 0, 6 }, { 1, 4 }, { 3, 1 } }, 0.3926959 },
	{ 2, "n", { { 0, 6 }, { 1, 4 }, { 3, 1 } }, 0.3926959 },
	{ 0, "y", { { 0, 7 }, { 1, 4 }, { 3, 1 } }, 0.3926959 },
	{ 1, "n", { { 0, 7 }, { 1, 4 }, { 3, 1 } }, 0.3926959 },
	{ 0, "y", { { 0, 8 }, { 1, 4 }, { 3, 1 } }, 0.3926959 },
	{ 5, "n", { { 0, 8 }, { 1, 4 }, { 3, 1 } }, 0.3926959 },
};

static const struct row counting_rows[] = {
	{ 0, "", { { 0, 1 } }, 1 },
	{ 1, "", { { 0, 1 }, { 1, 1 } }, 1 },
	{ 0, "", { { 0, 2 }, { 1, 1 } }, 1 },
	{ 2, "", { { 0, 2 }, { 1, 1 }, { 2, 1 } }, 1 },
	{ 0, "", { { 0, 3 }, { 1, 1 }, { 2, 1 } }, 1 },
	{ 1, "", { { 0, 3 }, { 1, 2 }, { 2, 1 } }, 1 },
	{ 0, "", { { 0, 4 }, { 1, 2 }, { 2, 1 } }, 1 },
	{ 3, "", { { 0, 4 }, { 1, 2 }, { 2, 1 }, { 3, 1 } }, 1 },
	{ NONE, "Er Er E E", { { 0, 3 }, { 1, 1 } }, 0.875 },
	{ 0, "", { { 0, 4 }, { 1, 1 } }, 0.875 },
	{ 1, "", { { 0, 4 }, { 1, 2 } }, 0.875 },
	{ 0, "", { { 0, 5 }, { 1, 2 } }, 0.875 },
	{ 2, "n", { { 0, 5 }, { 1, 2 } }, 0.875 },
	{ 0, "", { { 0, 6 }, { 1, 2 } }, 0.875 },
	{ 1, "", { { 0, 6 }, { 1, 3 } }, 0.875 },
	{ 0, "", { { 0, 7 }, { 1, 3 } }, 0.875 },
	{ 4, "y", { { 0, 7 }, { 1, 3 }, { 4, 1 } }, 0.875 },
	{ 0, "", { { 0, 8 }, { 1, 3 }, { 4, 1 } }, 0.875 },
	{ 1, "", { { 0, 8 }, { 1, 4 }, { 4, 1 } }, 0.875 },
	{ 0, "", { { 0, 9 }, { 1, 4 }, { 4, 1 } }, 0.875 },
	{ 2, "n", { { 0, 9 }, { 1, 4 }, { 4, 1 } }, 0.875 },
	{ 0, "", { { 0, 10 }, { 1, 4 }, { 4, 1 } }, 0.875 },
	{ 1, "", { { 0, 10 }, { 1, 5 }, { 4, 1 } }, 0.875 },
	{ 0, "", { { 0, 11 }, { 1, 5 }, { 4, 1 } }, 0.875 },
	{ 3, "y", { { 0, 11 }, { 1, 5 }, { 4, 1 }, { 3, 1 } }, 0.875 },
	{ NONE, "Er Er E E", { { 0, 10 }, { 1, 4 } }, 0.765625 },
	{ 0, "", { { 0, 11 }, { 1, 4 } }, 0.765625 },
	{ 1, "", { { 0, 11 }, { 1, 5 } }, 0.765625 },
	{ 0, "", { { 0, 12 }, { 1, 5 } }, 0.765625 },
	{ 2, "y", { { 0, 12 }, { 1, 5 }, { 2, 1 } }, 0.765625 },
	{ 0, "", { { 0, 13 }, { 1, 5 }, { 2, 1 } }, 0.765625 },
	{ 1, "", { { 0, 13 }, { 1, 6 }, { 2, 1 } }, 0.765625 },
	{ 0, "", { { 0, 14 }, { 1, 6 }, { 2, 1 } }, 0.765625 },
	{ 5, "y", { { 0, 14 }, { 1, 6 }, { 2, 1 }, { 5, 1 } }, 0.765625 },
	{ NONE, "ERRr ERr E E", { { 0, 11 }, { 1, 4 } }, 0.66992188 },
};

/* Plays an example: gives the trials, and looks at the list whenever a row is over. */
struct example {
	struct rng_script script;
	const struct row *row;
	const char *rng; /* the next one of the row */
	struct hotlist list;
};

static void row_check(const struct example *example)
{
	size_t count = 0;

	while (count < ROW_ENTRIES && example->row->entries[count][1])
		count++;
	assert_int_equal(example->list.count, count);
	for (size_t i = 0; i < count; i++) {
		struct hotlist_value value;

		hotlist_get(&example->list, i, &value);
		assert_int_equal(value.words[0], example->row->entries[i][0]);
		assert_int_equal(value.count, example->row->entries[i][1]);
	}
}

static void row_begin(struct example *example, const struct row *row)
{
	example->row = row;
	example->rng = row->trials;
}

static char rng_take(struct example *example)
{
	while (*example->rng == ' ')
		example->rng++;
	return *example->rng ? *example->rng++ : '\0';
}

/* A row's trials are used up: what follows is another lowering of p. */
static void round_begin(struct example *example)
{
	row_check(example);
	row_begin(example, example->row + 1);
	assert_int_equal(example->row->value, NONE);
}

static bool example_trial(struct rng_script *script, double probability)
{
	struct example *example = (struct example *)script;
	double expected = 1.0 / EXAMPLE_FACTOR;
	char rng;

	if (probability == 1)
		return true;
	rng = rng_take(example);
	if (!rng) {
		round_begin(example);
		rng = rng_take(example);
	}
	assert_non_null(strchr("ynEeRr", rng));
	if (rng == 'y' || rng == 'n')
		expected = example->row->p;
	if (rng == 'R' || rng == 'r')
		expected = 1 - example->row->p;
	assert_float_equal(probability, expected, 1e-7);
	return strchr("yER", rng) != NULL;
}

static void example_init(struct example *example, enum hotlist_kind kind)
{
	struct hotlist_config config = { .kind = kind,
					 .size = EXAMPLE_SIZE,
					 .factor = EXAMPLE_FACTOR };

	*example = (struct example){ .script.trial = example_trial };
	assert_int_equal(hotlist_init(&example->list, &config), 0);
	example->list.rng.script = &example->script;
}

/* Returns the number of values that arrived. */
static size_t example_play(struct example *example, const struct row *rows, size_t count)
{
	static const uint64_t stream[] = { 0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0, 4,
					   0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0, 5 };
	size_t arrived = 0;

	for (const struct row *row = rows; row < rows + count; row = example->row + 1) {
		assert_int_equal(row->value, stream[arrived]);
		row_begin(example, row);
		hotlist_add(&example->list, &stream[arrived++]);
		assert_int_equal(rng_take(example), '\0');
		row_check(example);
		assert_float_equal(example->list.probability, example->row->p, 1e-8);
	}
	assert_int_equal(arrived, sizeof(stream) / sizeof(*stream));
	return arrived;
}

static double estimate(const struct hotlist *list, size_t rank)
{
	struct hotlist_value value;

	hotlist_get(list, rank, &value);
	return value.occurrences.best;
}

static void test_concise_example(void **state)
{
	struct example example;

	example_init(&example, HOTLIST_CONCISE);
	example_play(&example, concise_rows, sizeof(concise_rows) / sizeof(*concise_rows));
	assert_float_equal(estimate(&example.list, 0), 20.37, 0.01);
	assert_float_equal(estimate(&example.list, 1), 10.19, 0.01);
	assert_float_equal(estimate(&example.list, 2), 2.55, 0.01);
	hotlist_deinit(&example.list);
}

static void test_counting_example(void **state)
{
	struct example example;

	example_init(&example, HOTLIST_COUNTING);
	example_play(&example, counting_rows, sizeof(counting_rows) / sizeof(*counting_rows));
	assert_float_equal(estimate(&example.list, 0), 11.49, 0.01);
	assert_float_equal(estimate(&example.list, 1), 4.49, 0.01);
	hotlist_deinit(&example.list);
}

/*
 * S = Scur - (Scur - S) * count after / count before, of the first eviction of the second example.
 */
static void test_first_moves_later(void **state)
{
	struct hotlist_value value;
	struct example example;

	example_init(&example, HOTLIST_COUNTING);
	for (size_t i = 0; i < 8; i++) {
		row_begin(&example, &counting_rows[i]);
		hotlist_add(&example.list, &(uint64_t){ (uint64_t)counting_rows[i].value });
	}
	hotlist_get(&example.list, 0, &value);
	assert_int_equal(value.first, 8 - (8 - 1) * 3 / 4);
	hotlist_get(&example.list, 1, &value);
	assert_int_equal(value.first, 8 - (8 - 2) * 1 / 2);
	hotlist_deinit(&example.list);
}

/* Small numbers are frequent, some values occur once. */
static uint64_t stream_next(struct rng *rng)
{
	uint64_t bits = rng_next(rng);

	return (bits & 15) == 0 ? bits : bits % 7 * (bits >> 32 & 7) % 11 + (bits >> 40 & 7) * 100;
}

static void tuple_make(uint64_t value, unsigned words, uint64_t *ret)
{
	for (unsigned i = 0; i < words; i++)
		ret[i] = i + 1 == words ? value : value & 1;
}

static void list_check(const struct hotlist *list, const struct map *truth)
{
	uint64_t before = UINT64_MAX, sum = 0;

	assert_true(list->count <= list->size);
	for (size_t i = 0; i < list->count; i++) {
		uint64_t *known;
		struct hotlist_value value;

		hotlist_get(list, i, &value);
		known = map_find(truth, value.words[list->words - 1]);
		assert_non_null(known);
		assert_in_range(value.count, 1, before);
		assert_in_range(value.first, 1, list->total);
		assert_int_equal(hotlist_find(list, value.words), i);
		if (list->kind == HOTLIST_COUNTING)
			assert_true(value.count <= *known);
		if (list->kind == HOTLIST_CONCISE)
			assert_true(value.count <= *known);
		if (list->kind == HOTLIST_SPACE_SAVING)
			assert_true(value.occurrences.low <= (double)*known);
		if (hotlist_is_exact(list))
			assert_int_equal(value.count, *known);
		before = value.count;
		sum += value.count;
	}
	if (list->kind == HOTLIST_SPACE_SAVING)
		assert_int_equal(sum, list->total);
}

static void stream_check(const struct hotlist_config *config)
{
	uint64_t words[HOTLIST_WORDS_MAX];
	struct map truth = {};
	struct hotlist list;
	struct rng rng;

	rng_init(&rng, config->size * 10 + config->words);
	assert_int_equal(hotlist_init(&list, config), 0);
	for (unsigned i = 0; i < 4000; i++) {
		uint64_t value = stream_next(&rng);

		tuple_make(value, config->words, words);
		++*map_at(&truth, value, NULL);
		hotlist_add(&list, words);
		if (i < 300 || i % 64 == 0)
			list_check(&list, &truth);
	}
	assert_int_equal(list.total, 4000);
	assert_int_equal(list.count <= config->size, 1);
	assert_false(hotlist_is_exact(&list));
	hotlist_deinit(&list);
	map_deinit(&truth);
}

static void test_streams(void **state)
{
	static const unsigned sizes[] = { 2, 3, 16, 256 }, widths[] = { 1, 2, 8 };

	for (enum hotlist_kind kind = 0; kind < HOTLIST_KIND_COUNT; kind++)
		for (size_t size = 0; size < 4; size++)
			for (size_t width = 0; width < 3; width++)
				stream_check(&(struct hotlist_config){ .kind = kind,
								       .size = sizes[size],
								       .words = widths[width],
								       .seed = 1 });
}

/* As long as all values fit, every kind is exact, and says so. */
static void test_exact_while_they_fit(void **state)
{
	for (enum hotlist_kind kind = 0; kind < HOTLIST_KIND_COUNT; kind++) {
		struct hotlist_config config = { .kind = kind };
		struct hotlist list;

		hotlist_init(&list, &config);
		assert_int_equal(list.size, 16);
		for (uint64_t value = 1; value <= 16; value++)
			for (uint64_t i = 0; i < 10 * value; i++)
				hotlist_add(&list, &value);
		assert_true(hotlist_is_exact(&list));
		assert_int_equal(list.count, 16);
		assert_true(hotlist_absent_max(&list) == 0);
		for (size_t rank = 0; rank < 16; rank++) {
			struct hotlist_value value;

			hotlist_get(&list, rank, &value);
			assert_int_equal(value.words[0], 16 - rank);
			assert_int_equal(value.count, 10 * (16 - rank));
			assert_true(value.occurrences.low == (double)value.count);
			assert_true(value.occurrences.best == (double)value.count);
			assert_true(value.occurrences.high == (double)value.count);
		}
		hotlist_deinit(&list);
	}
}

static void test_tuples(void **state)
{
	static const uint64_t tuples[][3] = { { 1, 2, 3 }, { 3, 2, 1 }, { 1, 2, 4 }, { 2, 2, 3 } };
	struct hotlist_config config = { .words = 3 };
	struct hotlist_value value;
	struct hotlist list;

	hotlist_init(&list, &config);
	for (unsigned i = 0; i < 10; i++)
		for (unsigned tuple = 0; tuple < 4; tuple++)
			if (i > 2 * tuple)
				hotlist_add(&list, tuples[tuple]);
	assert_int_equal(list.count, 4);
	for (unsigned tuple = 0; tuple < 4; tuple++) {
		hotlist_get(&list, tuple, &value);
		assert_memory_equal(value.words, tuples[tuple], sizeof(tuples[tuple]));
		assert_int_equal(value.count, 9 - 2 * tuple);
	}
	hotlist_deinit(&list);
}

static void add_times(struct hotlist *list, uint64_t value, unsigned times)
{
	while (times--)
		hotlist_add(list, &value);
}

static void test_switch_ends(void **state)
{
	struct hotlist_config config = { .kind = HOTLIST_SWITCHING, .size = 256 };
	struct hotlist list;

	hotlist_init(&list, &config);
	add_times(&list, 7, 1 + 49);
	assert_int_equal(list.saturation, 49);
	assert_false(list.concise);
	add_times(&list, 7, 1);
	assert_true(list.concise);
	for (uint64_t fresh = 100; fresh < 149; fresh++)
		add_times(&list, fresh, 1);
	assert_true(list.concise); /* 49 down of 50 */
	add_times(&list, 7, 30);
	for (uint64_t fresh = 200; fresh < 230; fresh++)
		add_times(&list, fresh, 1);
	assert_int_equal(list.saturation, 1);
	assert_true(list.concise);
	add_times(&list, 300, 1);
	assert_false(list.concise);
	hotlist_deinit(&list);
}

/* What a count stands for outlives the switch: estimates before and after differ by chance only. */
static void test_switch_converts(void **state)
{
	struct hotlist_config config = { .kind = HOTLIST_SWITCHING, .size = 256, .seed = 3 };
	struct hotlist list;
	double before, deviation;
	unsigned switches = 0;

	hotlist_init(&list, &config);
	add_times(&list, 7, 20000);
	for (uint64_t fresh = 1000; list.concise || list.probability > 0.5; fresh++)
		add_times(&list, fresh, 1);
	while (switches < 10) {
		bool concise = list.concise;

		before = estimate(&list, 0);
		add_times(&list, list.concise ? 5000 + list.total : 7, 1);
		if (list.concise == concise)
			continue;
		switches++;
		deviation = sqrt(before / list.probability);
		assert_float_equal(estimate(&list, 0), before, 5 * deviation);
		assert_true(before > 10 * deviation);
	}
	hotlist_deinit(&list);
}

static void list_fill(struct hotlist *list, uint64_t seed)
{
	struct hotlist_config config = { .seed = seed };
	struct rng rng;

	rng_init(&rng, 5);
	hotlist_init(list, &config);
	for (unsigned i = 0; i < 5000; i++)
		hotlist_add(list, &(uint64_t){ rng_next(&rng) % 1000 });
}

static bool lists_equal(const struct hotlist *a, const struct hotlist *b)
{
	return a->count == b->count &&
	       memcmp(a->entries, b->entries, a->count * entry_size(a) * sizeof(uint64_t)) == 0;
}

static void test_seeds_repeat(void **state)
{
	struct hotlist one, same, other, copy;

	list_fill(&one, 1);
	list_fill(&same, 1);
	list_fill(&other, 2);
	hotlist_copy(&one, &copy);
	assert_true(lists_equal(&one, &same));
	assert_true(lists_equal(&one, &copy));
	assert_false(lists_equal(&one, &other));
	add_times(&copy, 1, 1000);
	assert_true(lists_equal(&one, &same));
	hotlist_deinit(&one);
	hotlist_deinit(&same);
	hotlist_deinit(&other);
	hotlist_deinit(&copy);
}

static void test_memory_grows_and_stops(void **state)
{
	struct hotlist_config config = {};
	struct hotlist list;
	size_t one, full;

	hotlist_init(&list, &config);
	add_times(&list, 1, 1000);
	one = hotlist_memory(&list);
	for (uint64_t value = 0; value < 16; value++)
		add_times(&list, value, 1);
	full = hotlist_memory(&list);
	assert_true(one < full / 2);
	for (uint64_t value = 0; value < 1000; value++)
		add_times(&list, value, 1);
	assert_int_equal(hotlist_memory(&list), full);
	hotlist_deinit(&list);
}

static void test_bad_config(void **state)
{
	static const struct hotlist_config bad[] = {
		{ .size = 1 },	 { .size = 257 },     { .words = 9 },
		{ .factor = 1 }, { .factor = 65536 }, { .kind = HOTLIST_KIND_COUNT },
	};
	struct hotlist list = { .total = 77 };
	enum hotlist_kind kind;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(hotlist_init(&list, &bad[i]), -EINVAL);
	assert_int_equal(list.total, 77);
	assert_int_equal(hotlist_kind_parse("concise", &kind), 0);
	assert_int_equal(kind, HOTLIST_CONCISE);
	assert_int_equal(hotlist_kind_parse("exact", &kind), -EINVAL);
	assert_string_equal(hotlist_kind_text(HOTLIST_SWITCHING), "switching");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_concise_example),
		cmocka_unit_test(test_counting_example),
		cmocka_unit_test(test_first_moves_later),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_exact_while_they_fit),
		cmocka_unit_test(test_tuples),
		cmocka_unit_test(test_switch_ends),
		cmocka_unit_test(test_switch_converts),
		cmocka_unit_test(test_seeds_repeat),
		cmocka_unit_test(test_memory_grows_and_stops),
		cmocka_unit_test(test_bad_config),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

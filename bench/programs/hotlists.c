// SPDX-License-Identifier: BSD-2-Clause
/*
 * Summaries of value streams against the truth, and against the clock.
 *
 *	hotlists accuracy LENGTH TRIALS
 *		lines "stream summary top-error top-bias four-error recall held"
 *	hotlists merge LENGTH TRIALS PARTS
 *		lines "stream summary top-error top-bias std-error held"
 *	hotlists speed LENGTH REPEATS
 *		lines "stream kind one-list many-lists four-words large", in ns, and
 *		"memory kind one full stored-one stored-full", in bytes
 *
 * Errors are in points of share. Beside the product's hotlists there are summaries that others use,
 * of the same number of entries, with nothing but values and counts.
 */
#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/map.h"
#include "values/hotlist.h"

enum { SIZE = HOTLIST_SIZE, TOP = 8, FOUR = 4, LISTS = 10000 };

/* ---- streams ---- */

struct stream {
	const char *name;
	uint64_t (*next)(struct rng *rng, size_t at, size_t length);
};

/*
 * A rank from 0 on, with probability in proportion to (rank + 1)^-exponent, by rejection from the
 * integral.
 */
static uint64_t zipf(struct rng *rng, double exponent, double values)
{
	double power = 1 - exponent, top = (pow(values + 0.5, power) - pow(0.5, power));

	for (;;) {
		double at = pow(pow(0.5, power) + rng_uniform(rng) * top, 1 / power);
		double rank = floor(at + 0.5);

		if (rank >= 1 && rank <= values &&
		    rng_uniform(rng) * pow(at, -exponent) * pow(2, exponent) <=
			    pow(rank, -exponent))
			return (uint64_t)rank - 1;
	}
}

static uint64_t fresh(struct rng *rng)
{
	return rng_next(rng) | UINT64_C(1) << 63;
}

static uint64_t zipf_flat(struct rng *rng, size_t at, size_t length)
{
	return zipf(rng, 0.8, 1000);
}

static uint64_t zipf_steep(struct rng *rng, size_t at, size_t length)
{
	return zipf(rng, 1.3, 1000);
}

/* A few frequent values among values that never come again. */
static uint64_t noise(struct rng *rng, size_t at, size_t length)
{
	double draw = rng_uniform(rng);

	return draw < 0.40 ? 1 : draw < 0.55 ? 2 : draw < 0.62 ? 3 : draw < 0.65 ? 4 : fresh(rng);
}

/* Two values in turn, after a start with others. */
static uint64_t alternating(struct rng *rng, size_t at, size_t length)
{
	return at < length / 10 ? 100 + rng_next(rng) % 20 : at % 2;
}

/* What was the third most frequent value becomes the second, then the first, then is gone. */
static uint64_t drifting(struct rng *rng, size_t at, size_t length)
{
	return zipf(rng, 1.3, 1000) + at * 40 / length;
}

/* Four phases without a common value. */
static uint64_t phases(struct rng *rng, size_t at, size_t length)
{
	uint64_t phase = at * 4 / length;

	return phase << 32 | (rng_next(rng) & 1 ? 0 : 1 + zipf(rng, 1.1, 500));
}

/* Every value once. */
static uint64_t distinct(struct rng *rng, size_t at, size_t length)
{
	return fresh(rng);
}

static uint64_t constant(struct rng *rng, size_t at, size_t length)
{
	return 7;
}

static const struct stream streams[] = {
	{ "zipf-0.8", zipf_flat },	{ "zipf-1.3", zipf_steep }, { "noise", noise },
	{ "alternating", alternating }, { "drifting", drifting },   { "phases", phases },
};

static const struct stream speed_streams[] = {
	{ "constant", constant }, { "zipf-1.3", zipf_steep },	  { "zipf-0.8", zipf_flat },
	{ "noise", noise },	  { "alternating", alternating }, { "distinct", distinct },
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* ---- summaries of others ---- */

struct rival {
	uint64_t values[SIZE];
	uint64_t counts[SIZE];
	size_t used;
	struct rng rng;
};

static size_t rival_smallest(const struct rival *rival)
{
	size_t least = 0;

	for (size_t i = 1; i < rival->used; i++)
		if (rival->counts[i] < rival->counts[least])
			least = i;
	return least;
}

static void rival_set(struct rival *rival, size_t at, uint64_t value, uint64_t count)
{
	rival->values[at] = value;
	rival->counts[at] = count;
}

/* LLVM's instrumentation: the smallest count goes down, and its value out at the end. */
static void bump_down(struct rival *rival, uint64_t value)
{
	size_t least = rival_smallest(rival);

	if (rival->counts[least] <= 1)
		rival_set(rival, least, value, 1);
	else
		rival->counts[least]--;
}

static void misra_gries(struct rival *rival, uint64_t value)
{
	size_t kept = 0;

	for (size_t i = 0; i < rival->used; i++)
		if (--rival->counts[i])
			rival_set(rival, kept++, rival->values[i], rival->counts[i]);
	rival->used = kept;
}

static void space_saving(struct rival *rival, uint64_t value)
{
	size_t least = rival_smallest(rival);

	rival_set(rival, least, value, rival->counts[least] + 1);
}

/* HeavyKeeper's decay, on the smallest. */
static void decay(struct rival *rival, uint64_t value)
{
	size_t least = rival_smallest(rival);

	if (!rng_trial(&rival->rng, pow(1.08, -(double)rival->counts[least])))
		return;
	if (!--rival->counts[least])
		rival_set(rival, least, value, 1);
}

typedef void rival_miss_fn(struct rival *rival, uint64_t value);

static void rival_add(struct rival *rival, uint64_t value, rival_miss_fn *miss)
{
	for (size_t i = 0; i < rival->used; i++)
		if (rival->values[i] == value) {
			rival->counts[i]++;
			return;
		}
	if (rival->used < SIZE)
		rival_set(rival, rival->used++, value, 1);
	else
		miss(rival, value);
}

/* What those who use it do: adds the counts and keeps the largest. */
static void rival_merge(struct rival *rival, const struct rival *from)
{
	for (size_t i = 0; i < from->used; i++) {
		uint64_t count = from->counts[i];
		size_t at = 0, least = rival_smallest(rival);

		while (at < rival->used && rival->values[at] != from->values[i])
			at++;
		if (at < rival->used)
			rival->counts[at] += count;
		else if (at < SIZE)
			rival_set(rival, rival->used++, from->values[i], count);
		else if (count > rival->counts[least])
			rival_set(rival, least, from->values[i], count);
	}
}

/* ---- one interface ---- */

struct summary {
	const char *name;
	rival_miss_fn *miss; /* NULL: a hotlist */
	enum hotlist_kind kind;
};

static const struct summary summaries[] = {
#define X(kind, text) { text, NULL, HOTLIST_##kind },
	HOTLIST_KINDS(X)
#undef X
		{ "(bump-down)", bump_down },
	{ "(misra-gries)", misra_gries },
	{ "(biased-saving)", space_saving },
	{ "(decay)", decay },
};

struct state {
	struct hotlist list;
	struct rival rival;
};

static void state_init(struct state *state, const struct summary *summary, uint64_t seed)
{
	struct hotlist_config config = { .kind = summary->kind, .seed = seed };

	*state = (struct state){};
	rng_init(&state->rival.rng, seed);
	if (hotlist_init(&state->list, &config))
		errx(1, "no hotlist");
}

static void state_add(struct state *state, const struct summary *summary, uint64_t value)
{
	if (summary->miss)
		rival_add(&state->rival, value, summary->miss);
	else
		hotlist_add(&state->list, &value);
}

/* Estimated occurrences of a value; says whether its range holds the truth. */
static double state_ask(const struct state *state, const struct summary *summary, uint64_t value,
			double truth, bool *ret_held)
{
	*ret_held = false;
	if (summary->miss) {
		for (size_t i = 0; i < state->rival.used; i++)
			if (state->rival.values[i] == value)
				return (double)state->rival.counts[i];
		return 0;
	}
	*ret_held = truth <= hotlist_absent_max(&state->list);
	for (size_t i = 0; i < state->list.count; i++) {
		struct hotlist_value entry;

		hotlist_get(&state->list, i, &entry);
		if (entry.words[0] == value) {
			*ret_held = entry.occurrences.low <= truth &&
				    truth <= entry.occurrences.high;
			return entry.occurrences.best;
		}
	}
	return 0;
}

/* ---- accuracy ---- */

struct truth {
	uint64_t values[TOP];
	double counts[TOP];
	size_t count;
};

static int slot_compare(const void *a, const void *b)
{
	const struct map_slot *left = a, *right = b;

	if (left->value != right->value)
		return left->value < right->value ? 1 : -1;
	return left->key < right->key ? -1 : left->key > right->key;
}

static void truth_find(const uint64_t *values, size_t length, struct truth *ret)
{
	ARRAY(struct map_slot) slots = {};
	struct map counts = {};

	for (size_t i = 0; i < length; i++)
		++*map_at(&counts, values[i], NULL);
	map_each(&counts, slot)
		*array_push(&slots) = *slot;
	qsort(slots.items, slots.count, sizeof(*slots.items), slot_compare);
	ret->count = slots.count < TOP ? slots.count : TOP;
	for (size_t i = 0; i < ret->count; i++) {
		ret->values[i] = slots.items[i].key;
		ret->counts[i] = (double)slots.items[i].value;
	}
	array_deinit(&slots);
	map_deinit(&counts);
}

struct score {
	double error, bias, squares, four, recall, held;
};

static void score_add(struct score *score, const struct state *state, const struct summary *summary,
		      const struct truth *truth, double length)
{
	for (size_t i = 0; i < truth->count; i++) {
		bool held;
		double estimate =
			state_ask(state, summary, truth->values[i], truth->counts[i], &held);
		double points = 100 * (estimate - truth->counts[i]) / length;

		score->held += (double)held / (double)truth->count;
		score->recall += (estimate > 0) / (double)truth->count;
		if (i < FOUR)
			score->four += fabs(points) / FOUR;
		if (i)
			continue;
		score->error += fabs(points);
		score->bias += points;
		score->squares += points * points;
	}
}

static void stream_fill(const struct stream *stream, struct rng *rng, uint64_t *values,
			size_t length)
{
	for (size_t i = 0; i < length; i++)
		values[i] = stream->next(rng, i, length);
}

static void accuracy_measure(const struct stream *stream, size_t length, unsigned trials,
			     uint64_t *values)
{
	struct score scores[COUNT(summaries)] = {};
	struct rng rng;

	rng_init(&rng, 1);
	for (unsigned trial = 0; trial < trials; trial++) {
		struct truth truth;

		stream_fill(stream, &rng, values, length);
		truth_find(values, length, &truth);
		for (size_t s = 0; s < COUNT(summaries); s++) {
			struct state state;

			state_init(&state, &summaries[s], trial);
			for (size_t i = 0; i < length; i++)
				state_add(&state, &summaries[s], values[i]);
			score_add(&scores[s], &state, &summaries[s], &truth, (double)length);
			hotlist_deinit(&state.list);
		}
	}
	for (size_t s = 0; s < COUNT(summaries); s++)
		printf("%s %s %.3f %.3f %.3f %.3f %.3f\n", stream->name, summaries[s].name,
		       scores[s].error / trials, scores[s].bias / trials, scores[s].four / trials,
		       scores[s].recall / trials, scores[s].held / trials);
}

/* ---- merging ---- */

/* The stream in parts, each with a summary of its own, merged one after the other. */
static void parts_merge(const struct summary *summary, const uint64_t *values, size_t length,
			unsigned parts, uint64_t seed, struct state *ret)
{
	for (unsigned part = 0; part < parts; part++) {
		struct state state;

		state_init(&state, summary, seed * parts + part);
		for (size_t i = length * part / parts; i < length * (part + 1) / parts; i++)
			state_add(&state, summary, values[i]);
		if (!part) {
			*ret = state;
			continue;
		}
		if (summary->miss)
			rival_merge(&ret->rival, &state.rival);
		else if (hotlist_merge(&ret->list, &state.list))
			errx(1, "cannot merge");
		hotlist_deinit(&state.list);
	}
}

static void merge_measure(const struct stream *stream, size_t length, unsigned trials,
			  unsigned parts, uint64_t *values)
{
	struct score scores[COUNT(summaries)] = {};
	struct rng rng;

	rng_init(&rng, 2);
	for (unsigned trial = 0; trial < trials; trial++) {
		struct truth truth;

		stream_fill(stream, &rng, values, length);
		truth_find(values, length, &truth);
		for (size_t s = 0; s < COUNT(summaries); s++) {
			struct state state;

			parts_merge(&summaries[s], values, length, parts, trial, &state);
			score_add(&scores[s], &state, &summaries[s], &truth, (double)length);
			hotlist_deinit(&state.list);
		}
	}
	for (size_t s = 0; s < COUNT(summaries); s++) {
		double bias = scores[s].bias / trials;

		printf("%s %s %.3f %.3f %.3f %.3f\n", stream->name, summaries[s].name,
		       scores[s].error / trials, bias,
		       sqrt((scores[s].squares / trials - bias * bias) / trials),
		       scores[s].held / trials);
	}
}

/* ---- speed ---- */

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double list_time(struct hotlist *lists, size_t count, const uint64_t *values, size_t length)
{
	double start = now();

	for (size_t i = 0, at = 0; i < length; i++) {
		hotlist_add(&lists[at], values + i);
		at = at + 1 == count ? 0 : at + 1;
	}
	return (now() - start) / (double)length;
}

/* The best of some runs over `count` lists in turn; words > 1: overlapping tuples of the stream. */
static double speed_best(struct hotlist_config config, size_t count, const uint64_t *values,
			 size_t length, unsigned repeats)
{
	struct hotlist *lists = mem_alloc(count * sizeof(*lists));
	double best = INFINITY;

	for (unsigned repeat = 0; repeat < repeats; repeat++) {
		for (size_t i = 0; i < count; i++) {
			config.seed = i;
			if (hotlist_init(&lists[i], &config))
				errx(1, "no hotlist");
		}
		best = fmin(best, list_time(lists, count, values, length));
		for (size_t i = 0; i < count; i++)
			hotlist_deinit(&lists[i]);
	}
	free(lists);
	return best;
}

static void speed_kind(const char *name, enum hotlist_kind kind, const uint64_t *values,
		       size_t length, unsigned repeats)
{
	struct hotlist_config plain = { .kind = kind }, wide = { .kind = kind, .words = 4 },
			      large = { .kind = kind, .size = HOTLIST_SIZE_MAX };

	length -= HOTLIST_WORDS_MAX;
	printf("%s %s %.1f %.1f %.1f %.1f\n", name, hotlist_kind_text(kind),
	       speed_best(plain, 1, values, length, repeats),
	       speed_best(plain, LISTS, values, length, repeats),
	       speed_best(wide, 1, values, length, repeats),
	       speed_best(large, 1, values, length, repeats));
}

static void memory_measure(enum hotlist_kind kind)
{
	struct hotlist_config config = { .kind = kind };
	size_t memory[2], stored[2];
	uint8_t bytes[HOTLIST_BLOB_MAX];
	struct hotlist list;

	if (hotlist_init(&list, &config))
		errx(1, "no hotlist");
	for (uint64_t i = 0; i < 2; i++) {
		for (uint64_t value = 0; value < 10000; value++)
			hotlist_add(&list,
				    &(uint64_t){ i ? UINT64_C(0x7f1234567000) + value % 1000 : 0 });
		memory[i] = hotlist_memory(&list);
		stored[i] = hotlist_encode(&list, bytes);
	}
	printf("memory %s %zu %zu %zu %zu\n", hotlist_kind_text(kind), memory[0], memory[1],
	       stored[0], stored[1]);
	hotlist_deinit(&list);
}

static void speed_measure(size_t length, unsigned repeats, uint64_t *values)
{
	struct rng rng;

	rng_init(&rng, 3);
	for (size_t s = 0; s < COUNT(speed_streams); s++) {
		stream_fill(&speed_streams[s], &rng, values, length);
		for (enum hotlist_kind kind = 0; kind < HOTLIST_KIND_COUNT; kind++)
			speed_kind(speed_streams[s].name, kind, values, length, repeats);
	}
	for (enum hotlist_kind kind = 0; kind < HOTLIST_KIND_COUNT; kind++)
		memory_measure(kind);
}

static size_t number_parse(const char *text)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (*end || !number || number > UINT32_MAX)
		errx(2, "%s: not a number above 0", text);
	return number;
}

int main(int argc, char **argv)
{
	size_t length, parts;
	unsigned times;
	uint64_t *values;

	if (argc < 4)
		errx(2, "usage: hotlists accuracy|merge|speed LENGTH TIMES [PARTS]");
	length = number_parse(argv[2]);
	times = (unsigned)number_parse(argv[3]);
	parts = argc > 4 ? number_parse(argv[4]) : 2;
	values = mem_alloc(length * sizeof(*values));
	if (strcmp(argv[1], "speed") == 0)
		speed_measure(length, times, values);
	for (size_t s = 0; s < COUNT(streams); s++) {
		if (strcmp(argv[1], "accuracy") == 0)
			accuracy_measure(&streams[s], length, times, values);
		if (strcmp(argv[1], "merge") == 0)
			merge_measure(&streams[s], length, times, (unsigned)parts, values);
	}
	free(values);
	return 0;
}

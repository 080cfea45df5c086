// SPDX-License-Identifier: BSD-2-Clause
/*
 * Estimates of frequencies in the stream from the counts of a hotlist, with confidence bounds.
 *
 * Counting samples. The occurrences before the first one counted failed a trial of probability p
 * each: more than L / p of them with probability below e^-L. So the count is a certain lower bound,
 * and count + ln 20 / p an upper one with 95 %.
 *
 * Space-saving. When a value moved into an entry, the count there was a, which is now part of what
 * the entry counted for others. Each occurrence before had a probability of 1 / (a + 1) or more to
 * move in: more than L (a + 1) of them failed with probability below e^-L. So the count less that
 * of others is a certain lower bound, and an upper one is that plus ln 20 (a + 1). A value that
 * came while there was room has an exact count. Of several merged lists, the sum of what was
 * counted for others bounds too much; the root of the sum of squares of the largest such counts
 * bounds as well.
 *
 * Concise samples. The count is binomial with p and the number sought: the range is the one in
 * which the count lies within z deviations of its mean (the score interval), which is a quadratic
 * equation. A value is only seen because at least one occurrence was taken, so the lower bound is
 * that of one less.
 *
 * Merging and switching add independent errors, known by their variance; they widen the range by
 * squares.
 *
 * Samples of something larger. Given the share of a value in the stream, its share in whatever was
 * sampled lies below the end of the Wilson interval, and above what share_low() says: values are
 * shown because they are the most frequent ones, and the first of many is better than its true
 * share. Both errors together miss with at most the sum of their probabilities, so each gets half
 * of 5 %.
 *
 * Groups. In the worst case all values of a group are equal. A share then varies as that of n
 * independent values, where n is the square of the sum of the groups' sizes over the sum of their
 * squares: one large group among many small ones weighs more than a mean size tells.
 *
 * Skew. Where occurrences of one value are up to e^skew times as likely to be sampled as those of
 * others, the odds of its share are off by that factor at most. Samples cannot tell, so the range
 * is widened by it as it is.
 */
#include "values/hotlist.h"

#include <math.h>

#include "values/hotlist_private.h"

struct level {
	double deviations; /* of a normal variate, to both sides */
	double log; /* ln (1 / probability to be wrong) */
};

static const struct level whole = { 1.959964, 2.995732 }; /* wrong in 5 % */
static const struct level half = { 2.241403, 3.688879 }; /* wrong in 2.5 % */

bool hotlist_is_exact(const struct hotlist *list)
{
	return list->probability >= 1 && !list->slack;
}

static struct hotlist_range counting_range(const struct hotlist *list, double count,
					   const struct level *level)
{
	double p = list->probability;

	return (struct hotlist_range){ count, count + 1 / p - 1,
				       p < 1 ? count + level->log / p : count };
}

static struct hotlist_range concise_range(const struct hotlist *list, double count,
					  const struct level *level)
{
	double p = list->probability, square = level->deviations * level->deviations * (1 - p);
	double less = count - 1;

	return (struct hotlist_range){
		(2 * less + square - sqrt(square * (4 * less + square))) / (2 * p) + 1,
		count / p,
		(2 * count + square + sqrt(square * (4 * count + square))) / (2 * p),
	};
}

static struct hotlist_range space_range(const struct hotlist *list, uint64_t *entry,
					const struct level *level)
{
	double count = (double)entry[ENTRY_COUNT], foreign = (double)*entry_foreign(list, entry);
	double spread = sqrt(list->variance + (double)list->slack * (double)list->slack);
	double up = (level->log - 1) * fmin(foreign, spread) + level->log;

	return (struct hotlist_range){
		count - fmin(foreign, level->deviations * spread),
		count,
		foreign > 0 ? count + up : count,
	};
}

/* Adds to the range of a sample what merging and switching added to its variance. */
static struct hotlist_range range_widen(const struct hotlist *list, struct hotlist_range range,
					const struct level *level)
{
	double extra = level->deviations * level->deviations * list->variance;
	double down = range.best - range.low, up = range.high - range.best;

	range.low = range.best - sqrt(down * down + extra);
	range.high = range.best + sqrt(up * up + extra);
	return range;
}

static struct hotlist_range count_range(const struct hotlist *list, size_t rank,
					const struct level *level)
{
	uint64_t *entry = entry_at(list, rank);
	double count = (double)entry[ENTRY_COUNT], total = (double)list->total;
	struct hotlist_range range;

	if (list->kind == HOTLIST_SPACE_SAVING)
		range = space_range(list, entry, level);
	else if (list->concise)
		range = range_widen(list, concise_range(list, count, level), level);
	else
		range = range_widen(list, counting_range(list, count, level), level);
	return (struct hotlist_range){ fmax(1, fmin(total, range.low)), fmin(total, range.best),
				       fmin(total, range.high) };
}

void hotlist_get(const struct hotlist *list, size_t rank, struct hotlist_value *ret)
{
	const uint64_t *entry = entry_at(list, rank);

	assert(rank < list->count);
	*ret = (struct hotlist_value){
		.words = entry + ENTRY_WORDS,
		.count = entry[ENTRY_COUNT],
		.first = entry[ENTRY_FIRST],
		.occurrences = count_range(list, rank, &whole),
	};
}

/* Wilson's interval for `part` of `total` at one of its ends. */
static double wilson(double part, double total, double deviations)
{
	double square = deviations * deviations;
	double half_width = sqrt(part * (total - part) / total + square / 4);

	return (part + square / 2 + deviations * half_width) / (total + square);
}

/* How far a share of best in n trials is from a true share p, in nats. */
static double divergence(double best, double p)
{
	double d = best > 0 ? best * log(best / p) : 0;

	return best < 1 ? d + (1 - best) * log((1 - best) / (1 - p)) : d;
}

/*
 * The smallest true share that the value may have. It is looked at because it came out on top, and
 * at most 1 / p values have a share of p: the probability that one of so many does so well is that
 * of one, times 1 / p.
 */
static double share_low(double best, double trials, double deviations)
{
	double low = 0, high = best;

	if (best <= 0)
		return 0;
	for (int i = 0; i < 50; i++) {
		double p = (low + high) / 2;
		double allowed = deviations * deviations / 2 + log(1 / p);

		if (trials * divergence(best, p) > allowed)
			low = p;
		else
			high = p;
	}
	return low;
}

/*
 * What the list counted for the value itself: a full list's counts hold much of others', and rank
 * those that came last.
 */
static double own_count(const struct hotlist *list, size_t rank, double count)
{
	uint64_t *entry = entry_at(list, rank);

	if (list->kind != HOTLIST_SPACE_SAVING)
		return count;
	return fmax(1, count - fmin((double)*entry_foreign(list, entry), count));
}

/* The size of equal groups that would tell as little about shares. */
static double group_size(const struct hotlist *list, const struct hotlist_sampling *sampling)
{
	return fmax(fmax(1, sampling->group), (double)list->squares / (double)list->total);
}

static double share_skew(double share, double skew)
{
	double odds = share * exp(skew);

	return odds / (1 - share + odds);
}

void hotlist_share(const struct hotlist *list, size_t rank, const struct hotlist_sampling *sampling,
		   struct hotlist_range *ret)
{
	const struct level *level = hotlist_is_exact(list) ? &whole : &half;
	struct hotlist_range count = count_range(list, rank, level);
	double total = (double)list->total, group = group_size(list, sampling);
	double trials = total / group;
	double best = fmin(1, own_count(list, rank, count.best) / total);
	double low = share_low(fmin(best, count.low / total), trials, level->deviations);
	double high = fmin(1, wilson(count.high / group, trials, level->deviations));

	assert(rank < list->count && sampling->skew >= 0);
	/* Rounding must not put the ends beyond what they enclose. */
	*ret = (struct hotlist_range){
		.low = fmin(best, share_skew(low, -sampling->skew)),
		.best = best,
		.high = fmin(1, fmax(best, share_skew(high, sampling->skew))),
	};
}

double hotlist_absent_max(const struct hotlist *list)
{
	double extra = whole.deviations * sqrt(list->variance);

	if (hotlist_is_exact(list))
		return 0;
	return whole.log * (list->slack ? (double)list->slack + 1 : 1 / list->probability) + extra;
}

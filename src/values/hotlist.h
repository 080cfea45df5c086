/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hotlists: the most frequent values of a stream, and how frequent they are, in a fixed number of
 * entries.
 *
 *	struct hotlist list;
 *	hotlist_init(&list, &(struct hotlist_config){ .words = 2, .seed = site });
 *	hotlist_add(&list, (uint64_t[]){ caller, argument });
 *	for (size_t rank = 0; rank < list.count; rank++)
 *		hotlist_get(&list, rank, &value);
 *	hotlist_deinit(&list);
 *
 * A value is one 64-bit word or a tuple of up to eight; all values of a list have the same number
 * of words. The kind says how the list decides what to keep; docs/design/hotlists.md compares them.
 * Memory grows with the number of different values and stops at the list's size.
 *
 * Everything a list says is unbiased: over all outcomes of its random trials, the mean of a value's
 * estimated count (0 while it is not in the list) is how often it occurred. That holds for merged
 * lists too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/rng.h"

/* name, text; the first one is the default */
#define HOTLIST_KINDS(X)                                                                           \
	X(SPACE_SAVING, "space-saving") /* unbiased Space-Saving */                                \
	X(COUNTING, "counting") /* counting samples */                                             \
	X(CONCISE, "concise") /* concise samples */                                                \
	X(SWITCHING, "switching") /* counting or concise samples, as a saturating counter says */

enum hotlist_kind {
#define X(name, text) HOTLIST_##name,
	HOTLIST_KINDS(X)
#undef X
		HOTLIST_KIND_COUNT,
};

enum {
	HOTLIST_SIZE = 16,
	HOTLIST_SIZE_MIN = 2,
	HOTLIST_SIZE_MAX = 256,
	HOTLIST_WORDS_MAX = 8,
	HOTLIST_FACTOR_MAX = 65535,
	HOTLIST_SATURATION_MAX =
		50, /* of the switching kind: switches to concise samples here, back at 0 */
	HOTLIST_GROUP_MAX = 1 << 20, /* values; more of a group count as the next one */
};

#define HOTLIST_CONFIDENCE 0.95
#define HOTLIST_TOTAL_MAX (UINT64_C(1) << 53) /* counts stay exact as double */

/* Zero stands for the default in each field. */
struct hotlist_config {
	enum hotlist_kind kind;
	unsigned size; /* entries, N */
	unsigned words; /* of a value; 1 */
	unsigned factor; /* p is divided by f = factor / (factor - 1); N */
	uint64_t seed; /* of the generator: equal seeds and streams give equal lists */
};

/* Others may read total and count. */
struct hotlist {
	uint64_t total; /* values received: the current sequence number */
	uint64_t *entries; /* the block that holds tags too */
	uint16_t *tags; /* hash of each entry's value */
	uint16_t count; /* entries in use */
	uint16_t size;
	uint16_t room; /* entries allocated */
	uint16_t factor;
	uint8_t kind;
	uint8_t words;
	uint8_t saturation;
	bool concise; /* counts are concise samples now */
	uint32_t group; /* values so far of the newest group */
	uint64_t squares; /* sum of the squares of the sizes of groups; total if all are single */
	double probability; /* p, with which a new value is taken; 1 in space-saving lists */
	struct rng rng;
	/* variance of estimates that merging and switching added to what p or slack imply */
	double variance;
	uint64_t slack; /* space-saving: the largest count that ever was given to another value */
};

int hotlist_init(struct hotlist *list, const struct hotlist_config *config);
void hotlist_deinit(struct hotlist *list);
/* The copy draws other random numbers from now on. */
void hotlist_copy(const struct hotlist *list, struct hotlist *ret);

void hotlist_add(struct hotlist *list, const uint64_t *words);
/*
 * Adds a value of the group that the last one belongs to: one sample gave both, so they are not
 * independent.
 */
void hotlist_add_grouped(struct hotlist *list, const uint64_t *words);

/* Tells the processor that a value will be added soon. */
static inline void hotlist_fetch(const struct hotlist *list)
{
	if (!list->entries)
		return;
	__builtin_prefetch(list->entries, 1);
	if (list->count > 1)
		__builtin_prefetch(list->tags);
}

/*
 * Adds what `from` saw after what `list` saw. Same kind and words; the size stays that of `list`.
 */
int hotlist_merge(struct hotlist *list, const struct hotlist *from);

/* With probability HOTLIST_CONFIDENCE at least, the truth lies between low and high. */
struct hotlist_range {
	double low;
	double best;
	double high;
};

struct hotlist_value {
	const uint64_t *words; /* valid until the list changes */
	uint64_t count; /* as kept; what it means depends on the kind */
	uint64_t first; /* estimated sequence number of the first occurrence counted, from 1 on */
	struct hotlist_range occurrences; /* in the stream that the list saw */
};

/* Gets the value of a rank < list->count; the most frequent value has rank 0. */
void hotlist_get(const struct hotlist *list, size_t rank, struct hotlist_value *ret);

/*
 * How the stream came about. Zero: by independent samples that are as likely for one value as for
 * another.
 */
struct hotlist_sampling {
	double group; /* values of a group in the mean, where the list was not told of groups */
	/* one value may be as much likelier to be sampled than another: logarithm of the ratio */
	double skew;
};

/*
 * Returns the value's share of whatever the stream was sampled from, in 0..1: adds the error of
 * sampling to that of the list.
 */
void hotlist_share(const struct hotlist *list, size_t rank, const struct hotlist_sampling *sampling,
		   struct hotlist_range *ret);

/*
 * Returns how often a value that is not in the list occurred at most, with probability
 * HOTLIST_CONFIDENCE at least.
 */
double hotlist_absent_max(const struct hotlist *list);

/* Returns whether every count is the truth: the list never had to drop a value. */
bool hotlist_is_exact(const struct hotlist *list);

/* Returns the bytes that the list takes, its struct included. */
size_t hotlist_memory(const struct hotlist *list);

const char *hotlist_kind_text(enum hotlist_kind kind);
int hotlist_kind_parse(const char *text, enum hotlist_kind *ret);

enum { HOTLIST_BLOB_MAX = 64 + HOTLIST_SIZE_MAX * 10 * (HOTLIST_WORDS_MAX + 3) };

/*
 * Writes the list as bytes for a profile; docs/design/hotlists.md has the format. Returns their
 * number.
 */
size_t hotlist_encode(const struct hotlist *list, uint8_t ret[static HOTLIST_BLOB_MAX]);
/* Any bytes may be given. The generator starts from a seed made of the bytes. */
int hotlist_decode(const uint8_t *bytes, size_t size, struct hotlist *ret);

/*
 * Merges two lists that are bytes; at most HOTLIST_BLOB_MAX of them go to ret. The errors of
 * hotlist_merge() and hotlist_decode().
 */
int hotlist_blob_merge(const void *a, size_t a_size, const void *b, size_t b_size, void *ret,
		       size_t *ret_size);

static inline void hotlist_deinit_auto(struct hotlist *list)
{
	hotlist_deinit(list);
}

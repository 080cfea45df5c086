/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of merging share. Private to store/. */
#pragma once

#include "base/array.h"
#include "base/map.h"
#include "base/progress.h"
#include "store/merge.h"
#include "store/profile.h"
#include "store/store.h"

struct merge_module {
	char *path;
	struct profile_module row;
};

struct merge_name {
	struct profile_value_name row;
	char *text;
	bool ambiguous; /* it stands for different things in different parts */
};

struct merge_value {
	struct profile_value row; /* its list is owned */
	/* another row of the same site, whose list cannot be one with this; plus 1, 0: none */
	uint64_t other;
};

struct merge {
	struct store *store;
	const struct merge_options *options;
	const char *first_path;
	struct progress progress;
	uint64_t start; /* of the samples of all parts, s since 1970 */
	unsigned part; /* number of the present one, from 1 */
	uint32_t ids[STORE_TABLE_COUNT]; /* given so far */
	struct strtab keys; /* what rows are the same by */
	struct map by_key; /* index in keys to id */
	struct map stacks; /* parent << 32 | location to id; there are too many of them for texts */
	struct map ranks,
		hashes; /* table << 32 | id: the best of its frames, parts or code so far */
	struct profile_recording recordings[RECORDING_KIND_COUNT];
	bool coverage; /* executed code: counts only say whether */
	ARRAY(char *) facts; /* SAME_FACTS of the parts so far; NULL: not known */
	ARRAY(struct merge_module) modules; /* by id */
	ARRAY(struct merge_value) values;
	struct map values_by_key;
	ARRAY(struct merge_name) names;
	struct map names_by_value;
};

/* One of the profiles that are merged. */
struct part {
	const char *path;
	struct profile *profile;
	struct profile_code *code;
	uint32_t *ids[STORE_TABLE_COUNT]; /* by id in the part: id in the merged profile */
	bool *ordered; /* by process: its order of execution was recorded */
	bool has_order;
	uint32_t later; /* s after the first part that its samples began */
	uint32_t block_base; /* blocks of the merged profile before those of a part with order */
	struct map occurrences; /* of keys that rows of this part had before */
};

/* A copy with the ids of the merged profile in the place of those that it refers to. */
void merge_translate(const struct part *part, enum store_table_id table, const void *row,
		     void *ret);

/* Values and what they point to are gathered from all parts, and written when there are no more. */
void merge_values_take(struct merge *merge, const struct part *part);
int merge_values_write(struct merge *merge);
void merge_names_take(struct merge *merge, const struct part *part);
int merge_names_write(struct merge *merge);

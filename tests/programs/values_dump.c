// SPDX-License-Identifier: BSD-2-Clause
/*
 * Prints what a profile claims about the values of one module, a line for each value of each place:
 *
 *	values_dump PROFILE MODULE-PATH
 *	item address caller total runs value share low high
 *
 * Addresses and values are hexadecimal; low and high are the bounds of the share that reports print.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "profile/hotlist.h"
#include "store/profile.h"

static void site_print(const struct profile *profile, const struct profile_value *site,
		       const struct hotlist *list)
{
	const char *item = profile->value_items[site->item].text;

	for (size_t rank = 0; rank < list->count; rank++) {
		struct hotlist_value value;
		struct hotlist_range share;

		hotlist_get(list, rank, &value);
		hotlist_share(list, rank, (double)site->total / (double)site->runs, &share);
		printf("%.*s %" PRIx64 " %" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIx64
		       " %.6f %.6f %.6f\n",
		       (int)strcspn(item, "@"), item, profile->locations[site->location].address,
		       site->caller ? profile->locations[site->caller].address : 0, site->total,
		       site->runs, value.words[0], share.best, share.low, share.high);
	}
}

int main(int argc, char **argv)
{
	struct profile *profile;

	if (argc != 3 || profile_load(argv[1], &profile)) {
		fprintf(stderr, "values_dump: %s\n",
			argc == 3 ? err_text() : "usage: PROFILE MODULE");
		return 1;
	}
	for (size_t i = 0; i < profile->value_count; i++) {
		const struct profile_value *site = &profile->values[i];
		uint32_t module = profile->locations[site->location].module;
		struct hotlist list;

		if (strcmp(profile->modules[module].path, argv[2]))
			continue;
		if (hotlist_decode(site->list, site->list_size, &list)) {
			fprintf(stderr, "values_dump: %s\n", err_text());
			return 1;
		}
		site_print(profile, site, &list);
		hotlist_deinit(&list);
	}
	profile_destroy(profile);
	return 0;
}

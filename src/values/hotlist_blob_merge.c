// SPDX-License-Identifier: BSD-2-Clause
/* Merges two encoded lists, for the merging of profiles. */
#include "values/hotlist.h"

#include <string.h>

int hotlist_blob_merge(const void *a, size_t a_size, const void *b, size_t b_size, void *ret,
		       size_t *ret_size)
{
	AUTO(hotlist_deinit_auto) struct hotlist list = {};
	AUTO(hotlist_deinit_auto) struct hotlist other = {};
	uint8_t bytes[HOTLIST_BLOB_MAX];
	int err = hotlist_decode(a, a_size, &list);

	err = err ? err : hotlist_decode(b, b_size, &other);
	err = err ? err : hotlist_merge(&list, &other);
	if (err)
		return err;
	*ret_size = hotlist_encode(&list, bytes);
	memcpy(ret, bytes, *ret_size);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by all BPF programs here: the ring to the recorder, and the mappings of processes. */
#pragma once

#include "capture/kernel/kernel_types.h"
#include "wire/sampler_maps.h"

/* Set by the loader. */
const volatile __u64 ring_wakeup = 0; /* bytes in the ring that wake the recorder */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct unwind_mapping);
} mappings SEC(".maps");

enum { ZERO = 0 };

static __always_inline long ring_put(void *data, __u64 size)
{
	__u64 flags = BPF_RB_NO_WAKEUP;

	if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > ring_wakeup)
		flags = BPF_RB_FORCE_WAKEUP;
	return bpf_ringbuf_output(&ring, data, size, flags);
}

/*
 * A binary search in progress. Steps are callbacks of bpf_loop(), so that they are verified once.
 */
struct search {
	__u64 wanted;
	__u32 first;
	__u32 low, high; /* relative to first; what is sought lies in [low, high) */
	__s32 found; /* index, or -1 */
};

static long mapping_step(__u32 index, struct search *search)
{
	__u32 middle = (search->low + search->high) / 2, key = search->first + middle;
	struct unwind_mapping *mapping;

	if (search->low >= search->high)
		return 1;
	mapping = bpf_map_lookup_elem(&mappings, &key);
	if (!mapping)
		return 1;
	if (search->wanted < mapping->start) {
		search->high = middle;
	} else if (search->wanted >= mapping->end) {
		search->low = middle + 1;
	} else {
		search->found = (__s32)key;
		return 1;
	}
	return 0;
}

static __always_inline int search_run(struct search *search, void *step)
{
	search->found = -1;
	bpf_loop(32, step, search, 0);
	return search->found;
}

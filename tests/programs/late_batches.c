// SPDX-License-Identifier: BSD-2-Clause
/*
 * To be preloaded: taking a batch out of a BPF map takes longer than a round of the recorder may.
 */
#include <dlfcn.h>
#include <unistd.h>

enum { LATE_US = 400000 };

struct bpf_map_batch_opts;

int bpf_map_lookup_and_delete_batch(int fd, void *in, void *out, void *keys, void *values,
				    unsigned *count, const struct bpf_map_batch_opts *opts);

int bpf_map_lookup_and_delete_batch(int fd, void *in, void *out, void *keys, void *values,
				    unsigned *count, const struct bpf_map_batch_opts *opts)
{
	__typeof__(bpf_map_lookup_and_delete_batch) *next =
		dlsym(RTLD_NEXT, "bpf_map_lookup_and_delete_batch");

	usleep(LATE_US);
	return next(fd, in, out, keys, values, count, opts);
}

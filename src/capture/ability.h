/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this machine and this user can do, found out by trying.
 *
 *	struct ability system_wide;
 *	ability_probe(ABILITY_SAMPLE_SYSTEM, &system_wide);
 *	if (!system_wide.yes)
 *		log_warn("%s: %s", system_wide.detail, system_wide.remedy);
 */
#pragma once

#include <stdbool.h>

/* Columns: name, JSON name, what a person reads. Order is the order of the table. */
#define ABILITIES(X)                                                                               \
	X(SAMPLE_OWN, sample_own, "sample user code of your own processes")                        \
	X(SAMPLE_KERNEL, sample_kernel, "sample kernel code on behalf of your processes")          \
	X(SAMPLE_SYSTEM, sample_system, "sample every process (-a, -C)")                           \
	X(SAMPLE_RATE, sample_rate, "sample 4999 times a second (-F 4999)")                        \
	X(CYCLES, cycles, "hardware event: cycles (-e cycles)")                                    \
	X(INSTRUCTIONS, instructions, "hardware event: instructions (-e instructions)")            \
	X(LOCKED_MEMORY, locked_memory, "memory for sample rings")                                 \
	X(BPF_SAMPLER, bpf_sampler, "BPF programs on perf events")                                 \
	X(BPF_RING, bpf_ring, "BPF ring buffers")                                                  \
	X(BTF, btf, "types of the running kernel (BTF)")                                           \
	X(BPF_TRACEPOINT, bpf_tracepoint, "BPF programs at tracepoints")                           \
	X(BPF_FENTRY, bpf_fentry, "BPF programs at kernel functions (fentry)")                     \
	X(KERNEL_SYMBOLS, kernel_symbols, "addresses of kernel functions")                         \
	X(ATTACH_OWN, attach_own, "attach to your own running processes")                          \
	X(ATTACH_OTHERS, attach_others, "look into other users' processes")                        \
	X(ENGINE, engine, "run programs in the engine (trace)")                                    \
	X(MAP_FILES, map_files, "open mapped files that were deleted or replaced")                 \
	X(DEBUGINFOD, debuginfod, "fetch missing debug information (debuginfod)")

enum ability_id {
#define X(name, json, title) ABILITY_##name,
	ABILITIES(X)
#undef X
		ABILITY_COUNT
};

struct ability {
	enum ability_id id;
	const char *name; /* in JSON */
	const char *title;
	bool yes;
	char detail[192]; /* what was tried or found, and why it failed */
	char remedy[320]; /* what to do about a no; "" after a yes */
};

/*
 * Tries the one thing and takes it back at once. Questions about events and BPF take well below a
 * millisecond, the others a few, ABILITY_BPF_TRACEPOINT and ABILITY_BPF_FENTRY about ten: they read
 * the kernel's types. -EINVAL: no such ability.
 */
int ability_probe(enum ability_id id, struct ability *ret);
/* False in a PID namespace of its own: processes outside of it have no number there. */
bool ability_sees_machine_pids(void);

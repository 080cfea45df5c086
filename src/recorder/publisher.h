/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives the sampler in the kernel what it needs to walk stacks: unwind tables of modules and
 * mappings of processes. Only processes that are wanted are published: those that were sampled, and
 * children of published ones. A process that is never sampled costs nothing here.
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "capture/kernel/sampler.h"
#include "image/loadmap.h"
#include "recorder/pointers.h"

struct publisher;

/* pointers: looks at each process before it is published, if values are taken; otherwise NULL. */
void publisher_create(struct sampler *sampler, struct loadmap *loadmap, struct pointers *pointers,
		      struct publisher **ret);
void publisher_destroy(struct publisher *publisher);
DEFINE_AUTO(struct publisher, publisher_destroy)

/* The process was sampled, or will be. */
void publisher_want(struct publisher *publisher, uint32_t pid);
/* A child of a wanted process is wanted: the sampler already uses the parent's mappings for it. */
void publisher_forked(struct publisher *publisher, uint32_t parent, uint32_t child);
/* Looks again at a process that may have been published. */
int publisher_look(struct publisher *publisher, struct loadmap_process *process);
/* Brings the sampler up to date with the load map. */
int publisher_sync(struct publisher *publisher);

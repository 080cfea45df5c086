/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rules of assay count have recorded besides marks: values, or paths, of the process for a
 * time. One file has one writer, so each is a profile of its own, a part, until all has ended; then
 * they and the profile of the marks become one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct count_parts;

/* output: the profile of the marks; parts are beside it. It must outlive them. */
struct count_parts *count_parts_create(const char *output);
void count_parts_destroy(struct count_parts *parts);
DEFINE_AUTO(struct count_parts, count_parts_destroy)

enum count_part_kind { COUNT_PART_VALUES, COUNT_PART_PATHS };

/* The process is not in the engine. time: ns. */
int count_parts_record(struct count_parts *parts, enum count_part_kind kind, pid_t pid,
		       uint64_t time);
/* Whether one is being recorded. */
bool count_parts_running(const struct count_parts *parts);
/* True: it has ended since. */
bool count_parts_ended(struct count_parts *parts);
/* What is still being recorded ends now, and is waited for. */
void count_parts_stop(struct count_parts *parts);
/*
 * The profile of the marks is written: from now on the parts are in it. On failure they stay where
 * they are, and so does it.
 */
int count_parts_merge(struct count_parts *parts);

/* Starts a program with no signal blocked or ignored; argv[0] is its path. */
int count_child_start(char *const argv[], pid_t *ret);

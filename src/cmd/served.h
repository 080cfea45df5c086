/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The profile that a server shows: the data of its page, and its views. A profile that is being
 * recorded is copied now and then and the copy gets its names; the profile itself is only read. A
 * copy is made when it is asked for, and so seldom that making them takes a tenth of a core at
 * most.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "cmd/page_build.h"

struct served;

int served_create(const char *path, const struct page_wish *wish, struct served **ret);
void served_destroy(struct served *served);
DEFINE_AUTO(struct served, served_destroy)

/*
 * What served_data() would show now, as a number that changes when there is something new; and
 * whether the profile is being recorded.
 */
uint64_t served_generation(struct served *served);
bool served_is_live(const struct served *served);
/* The next look is at what is there then, however short ago the last one was. */
void served_look_now(struct served *served);

/* The data of the page, compressed; valid until the next call. */
int served_data(struct served *served, const void **ret, size_t *ret_size);
/*
 * The answer to a request as JSON, the caller's to free. -EINVAL: the request is wrong; -ENODATA:
 * the profile does not hold it; -EFBIG: it would be too long.
 */
int served_report(struct served *served, const char *request, char **ret, size_t *ret_size);
/* The path of a finished profile: the original, or the copy of one that is recorded. */
int served_path(struct served *served, const char **ret);

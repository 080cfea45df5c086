/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Texts that values point to, as they are in the memory of the process.
 *
 * A text is read some time after the value was seen: what is there may have changed meanwhile. So
 * it is read again while the value keeps coming, and a place that once held another text has none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

struct texts;

void texts_create(struct texts **ret);
void texts_destroy(struct texts *texts);
DEFINE_AUTO(struct texts, texts_destroy)

/*
 * Looks for a text at the address. Nothing is read of a process of another user than the recorder's
 * own, root's included, or of one that the kernel protects from its user.
 */
void texts_look(struct texts *texts, pid_t pid, uint64_t address);
/* In quotes; NULL: none was found there, or different ones. Valid until texts_destroy(). */
const char *texts_get(const struct texts *texts, uint64_t address);

/*
 * Appends the text that bytes begin with, in quotes. False, and nothing: it is none. It has to have
 * at least three characters and an end, unless it fills the bytes; then it is cut.
 */
bool texts_quote(const char *bytes, size_t size, struct strbuf *ret);

/* SPDX-License-Identifier: BSD-2-Clause */
/* Demangles names: linkage names in, names as in the source out. */
#pragma once

#include "base/map.h"

/*
 * The name a person reads, interned; the linkage name itself (also interned) when it is not
 * mangled.
 */
const char *names_readable(struct strtab *table, const char *linkage);

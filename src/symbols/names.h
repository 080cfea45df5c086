/* SPDX-License-Identifier: BSD-2-Clause */
/* Names as a person reads them: linkage names in, demangled names out. */
#pragma once

#include "base/map.h"

/*
 * The name a person reads, interned; the linkage name itself (also interned) when it is not
 * mangled.
 */
const char *names_readable(struct strtab *table, const char *linkage);

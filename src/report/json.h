/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "base/strbuf.h"

/* Appends text as a JSON string: valid UTF-8 whatever the bytes, control characters escaped. */
void json_string_put(struct strbuf *buf, const char *text);

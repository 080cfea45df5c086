// SPDX-License-Identifier: BSD-2-Clause
/* The rows of recording_kinds.h as data. */
#include "store/recording_kinds.h"

const struct recording_kind_row *recording_kind_row(enum recording_kind kind)
{
	static const struct recording_kind_row rows[] = {
#define X(name, text, called, unit, flags, about, seen, kept, command)                             \
	{ text, called, unit, flags, about, seen, kept, command },
		RECORDING_KINDS(X)
#undef X
	};

	return &rows[kind];
}
